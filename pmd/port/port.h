/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - the engine's interface to a port: burst receive, burst transmit, a way to sleep (pmd-internal).
 *
 * A port sends and receives the IP packets of one device. Packets to transmit are in buffers of a pool (pool.h), with
 * PMD_TX_HEADROOM free bytes before the data. With DPDK they are mbufs: frame->cookie is a struct rte_mbuf, whose
 * data_len and pkt_len are not set. All functions are called under the engine's lock.
 */
#ifndef PMD_PORT_H
#define PMD_PORT_H

#include <stdint.h>

#include "address.h"
#include "engine.h"

struct pmd_pool;
struct pmd_port;

#define PMD_RX_BURST	64 /* maximum number of frames that an rx_burst can be asked for */
#define PMD_RX_VAIN	64 /* an rx_burst that finds no packet to return stops after examining about this many */
#define PMD_TX_BURST	64 /* maximum number of frames that a tx_burst can be given */
#define PMD_TX_HEADROOM 64 /* free bytes before each IP packet to transmit, for the link layer's header */

/* Bytes of a full-size packet besides one MTU of payload: IP, UDP, BTH, RETH, immediate data, ICRC. With a security key
 * a tag replaces the ICRC; PMD_OVERHEAD_KEY is the difference in length. */
#define PMD_OVERHEAD_V4	 (20 + 8 + 12 + 16 + 4 + 4)
#define PMD_OVERHEAD_V6	 (40 + 8 + 12 + 16 + 4 + 4)
#define PMD_OVERHEAD_KEY 4

/** The length of the longest packet of an IB MTU. */
uint32_t pmd_device_mtu_need(const struct pmd_device *device, enum nic_mtu mtu);
/** Refuse an IB MTU whose longest packet the device's interface does not carry: such packets would be lost without an
 *  error. @return 0; -EMSGSIZE with a message in err. */
int pmd_device_mtu_fits(const struct pmd_device *device, enum nic_mtu mtu, char *err, size_t err_len);

/** What a port does. A function may be NULL only if its comment says so. */
struct pmd_port_ops {
	/** Receive up to n packets. Their bytes stay valid until the next rx_burst of this port. The work is bounded:
	 *  if rx_burst has examined about PMD_RX_VAIN packets without finding one to return, it returns 0 and sets
	 *  `more`, because further packets may have arrived. Sets `looked_at` to the number of packets examined. */
	unsigned (*rx_burst)(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
	/** Called for each received frame that an RC or XRC QP has accepted from its peer (NIC_RX_ACCEPTED). The frame
	 * shows what kind of sender the peer is; other frames do not, because any host can send them. May be NULL. */
	void (*rx_accepted)(struct pmd_port *port, const struct nic_rx_frame *frame);
	/** Transmit frames in order. @return the number of frames taken; unless tx_copies, the port then owns their
	 * buffers. If the port took fewer than n frames, it has no room now: offer the remaining frames again later. A
	 * frame that can never be sent is counted and taken. */
	unsigned (*tx_burst)(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
	bool tx_copies; /* tx_burst copies the frames, so the engine keeps the buffers */
	/** Resolve the next hop to this address. @return whether its MAC is unknown, and an answer may still arrive.
	 *  NULL: the port resolves no addresses. */
	bool (*resolve)(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns);
	/** Handle expired deadlines of the port. @return the time of the next deadline; UINT64_MAX: none. May be NULL.
	 */
	uint64_t (*timeout)(struct pmd_port *port, uint64_t now_ns);
	/** Join a multicast group: from now on the port also receives the group's packets, even those that this host
	 *  sends. NULL: the port has no multicast. @return 0 or a negative errno. */
	int (*join)(struct pmd_port *port, const struct nic_gid *group);
	/** Leave a group that was joined. NULL if `join` is NULL. */
	void (*leave)(struct pmd_port *port, const struct nic_gid *group);
	/** Update those statistics that are counted elsewhere (in the kernel, in the neighbour table). May be NULL. */
	void (*stats)(struct pmd_port *port);
	/** The caller is about to sleep on wait_fd: from now on, packets that arrive must make it readable. NULL: they
	 *  always do. @return false: packets have arrived, do not sleep. */
	bool (*sleep)(struct pmd_port *port);
	/** The sleep is over: packets need not make wait_fd readable. NULL if `sleep` is NULL. */
	void (*awake)(struct pmd_port *port);
	/** Close the port and free it. */
	void (*close)(struct pmd_port *port);
	/** In a forked child: close file descriptors, touch nothing else. */
	void (*abandon)(struct pmd_port *port);
};

struct pmd_port {
	const struct pmd_port_ops *ops;
	bool more;	    /* the last rx_burst stopped early: there may be more packets, even if it returned none */
	unsigned looked_at; /* packets that the last rx_burst examined, including dropped and forwarded ones */
	int wait_fd;	    /* readable if packets may have arrived; -1: none, so the engine polls at intervals */
	unsigned wait_changes; /* times that wait_fd was replaced by another descriptor, perhaps with the same number */
	/* What the port requires of its NIC; see struct nic_config. */
	uint16_t udp_sport;
	uint32_t psn_window, max_inflight;
	uint32_t ack_delay_ns;
	/** Set by the engine. Called for a packet for another function of the device, or for another function's
	 *  service; see strays.h. If NULL, such packets are dropped. The frame is valid only during the call.
	 *  @return false: pass the packet to the NIC. */
	bool (*stray)(void *ctx, const struct nic_rx_frame *frame);
	/** Whether our function serves the service. NULL: our function serves none. */
	bool (*serves)(void *ctx, uint16_t service);
	void *ctx; /* first argument of stray and serves */
	struct pmd_port_stats stats;
};

/** The port's counters, including those that are counted elsewhere. */
static inline const struct pmd_port_stats *pmd_port_stats_now(struct pmd_port *port)
{
	if (port->ops->stats)
		port->ops->stats(port);
	return &port->stats;
}

/**
 * Create a port on kernel UDP sockets, with no socket yet.
 * @param function the leading byte of the QPNs whose packets are for this port; 0: the port gets all packets.
 */
int pmd_port_udp_create(unsigned function, struct pmd_port **out, char *err, size_t err_len);
/** Whether the port has a socket for GID table entry `index`. */
bool pmd_port_udp_has(const struct pmd_port *port, unsigned index);
/** Add socket `fd`, which is bound to `gid`: the address in GID table entry `index` or, if `index` is not less than
 * NIC_GID_TABLE_LEN, a multicast group. The port owns the socket, and closes it if this call fails. @return 0 or a
 * negative errno. */
int pmd_port_udp_add(struct pmd_port *port, unsigned index, const struct nic_gid *gid, uint32_t scope, int fd);
/** Close the socket in entry `index`: the device no longer has the address, or leaves the group. */
void pmd_port_udp_remove(struct pmd_port *port, unsigned index);
/** Open a port without a daemon, for tests and benchmarks of the port alone. No other process may use the device's
 *  address. @return as pmd_port_ethdev_open. */
int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct pmd_pool *pool, struct pmd_port **out,
		      char *err, size_t err_len);
/** Create a port on an uplink, which belongs to the device's daemon: ring_pair.h. It has no rings yet. */
int pmd_port_uplink_create(struct pmd_port **out, char *err, size_t err_len);
/** Give the port rings to the uplink, in place of those that it may have. Owns the descriptors, also if it fails.
 *  @return 0 or a negative errno: the port keeps its old rings. */
int pmd_port_uplink_rings(struct pmd_port *port, const int fds[3]);
/** The daemon has ended, and with it the other side of the rings. */
void pmd_port_uplink_gone(struct pmd_port *port);
/** Open a port on a DPDK ethdev. @param pool buffers for frames that the port itself sends. @return 0 or a negative
 *  errno, with an error message in err; -ENOTSUP: built without DPDK. */
int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct pmd_pool *pool,
			 struct pmd_port **out, char *err, size_t err_len);

#endif
