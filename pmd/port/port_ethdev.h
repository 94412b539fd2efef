/* SPDX-License-Identifier: BSD-3-Clause */
/* port_ethdev.h - state of an ethdev port, which port_ethdev.c (moving packets) and port_ethdev_open.c share
 * (pmd-internal). */
#ifndef PMD_PORT_ETHDEV_H
#define PMD_PORT_ETHDEV_H

#include "neigh.h"
#include "port.h"

#define ETHDEV_LOCAL 256 /* maximum number of packets to our own address that can wait for rx_burst */

struct port_ethdev {
	struct pmd_port port;
	struct nic_gid gid, gateway;
	bool v4, has_gateway;
	uint8_t prefix_len;
	uint16_t vlan; /* 0: none */
	uint8_t mac[6];
	uint16_t id; /* DPDK's number of the ethdev */
	char name[64];
	struct rte_mempool *rx_pool, *tx_pool;
	struct rte_mbuf *held[PMD_RX_BURST]; /* packets returned by the last rx_burst */
	unsigned held_n;
	struct rte_mbuf *backlog[PMD_TX_BURST]; /* packets that the device had no room for */
	unsigned backlog_n;
	uint64_t refused;		      /* packets that the driver did not take, each time one was offered */
	struct rte_mbuf *local[ETHDEV_LOCAL]; /* ring of packets to our own address */
	unsigned local_head, local_tail;
	struct neigh neigh;
};

#define ETHDEV_RING_TEXT 80

/** Write net_af_packet's arguments for the ring of a machine with pages of `page` bytes: its blocks have whole pages
 * and whole frames. */
void pmd_ethdev_ring(size_t page, char *out, size_t len);

/** Defined in port_ethdev.c: members of struct pmd_port_ops, and what the neighbour table calls. */
bool pmd_ethdev_resolve(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns);
unsigned pmd_ethdev_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
unsigned pmd_ethdev_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
uint64_t pmd_ethdev_timeout(struct pmd_port *port, uint64_t now_ns);
void pmd_ethdev_stats(struct pmd_port *port);
/** Tell all neighbours the port's MAC, when its link has come up. */
void pmd_ethdev_announce(struct pmd_port *port);
extern const struct neigh_ops pmd_ethdev_neigh_ops;

#endif
