/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - what the engine asks of a port: burst receive, burst transmit, a way to sleep (pmd-internal).
 *
 * A port carries IP packets of one local address. Packets to transmit are mbufs: frame->cookie is a struct rte_mbuf,
 * frame->data lies in it with PMD_TX_HEADROOM free bytes before it. All calls come under the engine's lock.
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
	64 /* packets that an rx_burst looks at in vain, until it gives up; it may be one run of them more */
#define PMD_TX_BURST	64 /* frames a tx_burst may be given */
#define PMD_TX_HEADROOM 64 /* free bytes before every transmitted IP packet, for the link layer */

struct pmd_port_ops {
	/** Up to n received packets. Their bytes stay valid until the next rx_burst of the port. Bounded: of packets that are not
	 *  kept it looks at PMD_RX_VAIN, about, and then gives up, with `more` set; so 0 packets with `more` means that those
	 *  behind have not been seen. `looked_at` says what the call has cost. */
	unsigned (*rx_burst)(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
	/** A connected QP accepted this frame of the last burst from its peer (NIC_RX_ACCEPTED): it tells what kind of sender the
	 *  peer is. No other frame does: anybody can send those. May be NULL. */
	void (*rx_accepted)(struct pmd_port *port, const struct nic_rx_frame *frame);
	/** Transmit in order. @return how many frames were taken; the mbufs of those are the port's. Fewer than n
	 *  means: no room now, offer the rest again. A frame that cannot be sent at all is counted and taken. */
	unsigned (*tx_burst)(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
	bool tx_copies; /* tx_burst copies: the mbufs stay the engine's */
	/** Find out where to send packets for this address. @return whether an answer may yet come. NULL: never. */
	bool (*resolve)(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns);
	/** Run timers of the port; @return the time of the next, UINT64_MAX: none. May be NULL. */
	uint64_t (*timeout)(struct pmd_port *port, uint64_t now_ns);
	/** Bring stats up to date with what others count. May be NULL. */
	void (*stats)(struct pmd_port *port);
	/** Free everything. */
	void (*close)(struct pmd_port *port);
	/** In a forked child: close file descriptors, touch nothing else. */
	void (*abandon)(struct pmd_port *port);
};

struct pmd_port {
	const struct pmd_port_ops *ops;
	bool more;	       /* the last rx_burst gave up before it had seen all that has arrived */
	unsigned looked_at;    /* packets that the last rx_burst took, those that it dropped or passed on included */
	int wait_fd;	       /* readable when packets may have arrived; -1: none, the engine polls at intervals */
	unsigned wait_changes; /* times that wait_fd became another descriptor, maybe of the same number */
	/* What the port wants of its NIC. */
	uint16_t udp_sport;
	uint32_t psn_window, max_inflight; /* see struct nic_config */
	uint32_t ack_delay_ns;
	/** Gets a packet that is for another function of the device, or a service of one; see strays.h. @return false: the NIC is
	 *  to have it. Set by the engine; NULL: such packets are dropped. The frame is valid during the call. */
	bool (*stray)(void *ctx, const struct nic_rx_frame *frame);
	/** Whether packets to this service are ours. NULL: none are. */
	bool (*serves)(void *ctx, uint16_t service);
	void *ctx; /* of both */
	struct pmd_port_stats stats;
};

/**
 * A port on kernel UDP sockets, which it has none of yet. `function`: the leading byte of the QPNs whose packets are its
 * own; 0: takes all.
 */
int pmd_port_udp_create(unsigned function, struct pmd_port **out, char *err, size_t err_len);
/** Whether it has the socket of entry `index` of the GID table. */
bool pmd_port_udp_has(const struct pmd_port *port, unsigned index);
/** Give it the socket of an address, entry `index`. The socket is the port's, also after a failure. */
int pmd_port_udp_add(struct pmd_port *port, unsigned index, const struct nic_gid *gid, uint32_t scope, int fd);
/** The address has gone. */
void pmd_port_udp_remove(struct pmd_port *port, unsigned index);
/** A port that has its device's address to itself, without a daemon: for tests and benchmarks of the port alone. As
 *  pmd_port_ethdev_open. */
int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
		      struct pmd_port **out, char *err, size_t err_len);
/** @return 0 or a negative errno with one sentence in err. `pool` is for the port's transmissions of its own. */
int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
			 struct pmd_port **out, char *err, size_t err_len);

#endif
