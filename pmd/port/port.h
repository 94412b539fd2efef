/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - the engine's interface to a port: burst receive, burst transmit, a way to sleep (pmd-internal).
 *
 * A port carries the IP packets of one device. Packets to transmit are mbufs: frame->cookie is a struct rte_mbuf,
 * frame->data lies in it with PMD_TX_HEADROOM free bytes before it. All calls are made under the engine's lock.
 */
#ifndef PMD_PORT_H
#define PMD_PORT_H

#include <stdint.h>

#include "address.h"
#include "engine.h"

struct rte_mempool;
struct pmd_port;

#define PMD_RX_BURST 64 /* frames an rx_burst may be asked for */
#define PMD_RX_VAIN                                                                                                    \
	64 /* packets of which an rx_burst keeps none before it gives up; it may overshoot by one run of packets */
#define PMD_TX_BURST	64 /* frames a tx_burst may be given */
#define PMD_TX_HEADROOM 64 /* free bytes before every transmitted IP packet, for the link layer */

/* Packet overhead around one MTU of payload: IP, UDP, BTH, RETH, immediate data, ICRC; KEY: a tag's bytes beyond the
 * ICRC's. */
#define PMD_OVERHEAD_V4	 (20 + 8 + 12 + 16 + 4 + 4)
#define PMD_OVERHEAD_V6	 (40 + 8 + 12 + 16 + 4 + 4)
#define PMD_OVERHEAD_KEY 4

struct pmd_port_ops {
	/** Receive up to n packets. Their bytes stay valid until the next rx_burst of the port. Bounded: after about
	 *  PMD_RX_VAIN packets that it did not keep, it gives up and sets `more`; so 0 packets with `more` means that
	 *  later packets have not been seen. Sets `looked_at`, the cost of the call. */
	unsigned (*rx_burst)(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
	/** A connected QP accepted this frame of the last burst from its peer (NIC_RX_ACCEPTED): it shows what kind of
	 *  sender the peer is. No other frame does: any host can send those. May be NULL. */
	void (*rx_accepted)(struct pmd_port *port, const struct nic_rx_frame *frame);
	/** Transmit in order. @return the number of frames taken; the port then owns their mbufs. Fewer than n means:
	 *  no room now, offer the rest again. A frame that can never be sent is counted and taken. */
	unsigned (*tx_burst)(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
	bool tx_copies; /* tx_burst copies: the mbufs stay the engine's */
	/** Resolve the next hop to this address. @return whether an answer may still come. NULL: never. */
	bool (*resolve)(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns);
	/** Run timers of the port. @return the time of the next, UINT64_MAX: none. May be NULL. */
	uint64_t (*timeout)(struct pmd_port *port, uint64_t now_ns);
	/** Update the stats that are counted elsewhere (kernel, neighbour table). May be NULL. */
	void (*stats)(struct pmd_port *port);
	/** Free everything. */
	void (*close)(struct pmd_port *port);
	/** In a forked child: close file descriptors, touch nothing else. */
	void (*abandon)(struct pmd_port *port);
};

struct pmd_port {
	const struct pmd_port_ops *ops;
	bool more;	       /* the last rx_burst stopped before it had seen everything that has arrived */
	unsigned looked_at;    /* packets that the last rx_burst took, including those that it dropped or passed on */
	int wait_fd;	       /* readable when packets may have arrived; -1: none, the engine polls at intervals */
	unsigned wait_changes; /* times that wait_fd changed to another descriptor, perhaps with the same number */
	/* The port's requirements on its NIC. */
	uint16_t udp_sport;
	uint32_t psn_window, max_inflight; /* see struct nic_config */
	uint32_t ack_delay_ns;
	/** Receives a packet for another function of the device, or for another function's service; see strays.h.
	 *  @return false: pass it to the NIC. Set by the engine; NULL: such packets are dropped. The frame is valid
	 *  during the call. */
	bool (*stray)(void *ctx, const struct nic_rx_frame *frame);
	/** Whether this function serves the service. NULL: none. */
	bool (*serves)(void *ctx, uint16_t service);
	void *ctx; /* for stray and serves */
	struct pmd_port_stats stats;
};

/** The port's counters, those that are counted elsewhere included. */
static inline const struct pmd_port_stats *pmd_port_stats_now(struct pmd_port *port)
{
	if (port->ops->stats)
		port->ops->stats(port);
	return &port->stats;
}

/**
 * Create a port on kernel UDP sockets, without a socket yet. `function`: leading byte of the QPNs whose packets belong
 * to it; 0: all packets.
 */
int pmd_port_udp_create(unsigned function, struct pmd_port **out, char *err, size_t err_len);
/** Whether the port has a socket for GID table entry `index`. */
bool pmd_port_udp_has(const struct pmd_port *port, unsigned index);
/** Add the socket of the address in GID table entry `index`. The port owns the socket, and closes it on failure. */
int pmd_port_udp_add(struct pmd_port *port, unsigned index, const struct nic_gid *gid, uint32_t scope, int fd);
/** Close the socket of an address that has gone. */
void pmd_port_udp_remove(struct pmd_port *port, unsigned index);
/** Open a port that has the device's address to itself, without a daemon, for tests and benchmarks of the port alone.
 *  @return as pmd_port_ethdev_open. */
int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
		      struct pmd_port **out, char *err, size_t err_len);
/** Open a port on a DPDK ethdev. `pool` is for frames that the port itself sends.
 *  @return 0 or a negative errno with one sentence in err. */
int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
			 struct pmd_port **out, char *err, size_t err_len);

#endif
