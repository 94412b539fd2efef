/* SPDX-License-Identifier: BSD-3-Clause */
/* port_udp.h - the kernel UDP port as port_udp.c (life), port_udp_rx.c and port_udp_tx.c share it (pmd-internal). */
#ifndef PMD_PORT_UDP_H
#define PMD_PORT_UDP_H

#include <netinet/in.h>

#include "port.h"
#include "udp_split.h"

#define UDP_RX_BYTES 65536
#define UDP_PEERS    256

/** A peer of our own kind, which takes segmented datagrams. */
struct udp_peer {
	struct nic_gid gid;
	bool no_gso; /* the path to it does not */
};

struct port_udp {
	struct pmd_port port;
	struct nic_gid gid;
	bool v4;
	uint32_t scope; /* interface of a link-local address */
	bool gso;
	uint8_t tclass, hop_limit; /* as set on the socket */
	bool said_too_long, said_unreachable;
	struct udp_peer peers[UDP_PEERS]; /* direct-mapped */
	struct udp_split split;		  /* what is left of the last datagram */
	uint8_t *rx_buf;
};

static inline struct udp_peer *udp_peer_slot(struct port_udp *u, const struct nic_gid *gid)
{
	return &u->peers[(gid->raw[15] + gid->raw[14] * 7u + gid->raw[13] * 31u + gid->raw[11] * 127u) % UDP_PEERS];
}

/** The peer with this address if it is known to be of our own kind. */
static inline struct udp_peer *udp_peer_find(struct port_udp *u, const struct nic_gid *gid)
{
	struct udp_peer *peer = udp_peer_slot(u, gid);

	return __builtin_memcmp(&peer->gid, gid, sizeof(*gid)) == 0 ? peer : NULL;
}

/* As in struct pmd_port_ops. */
unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
void udp_rx_valid(struct pmd_port *port, const struct nic_rx_frame *frame);
unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** The socket address of port 4791 of a GID. @return its length. */
socklen_t udp_address(const struct port_udp *u, const struct nic_gid *gid, struct sockaddr_in6 *out);

#endif
