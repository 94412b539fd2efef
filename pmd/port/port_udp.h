/* SPDX-License-Identifier: BSD-3-Clause */
/* port_udp.h - the kernel UDP port as port_udp.c (life), port_udp_rx.c and port_udp_tx.c share it (pmd-internal). */
#ifndef PMD_PORT_UDP_H
#define PMD_PORT_UDP_H

#include <netinet/in.h>

#include "port.h"
#include "udp_split.h"

#define UDP_RX_BYTES 65536
#define UDP_PEERS    256
#define UDP_SOCKETS  NIC_GID_TABLE_LEN

/** A peer of our own kind, which takes segmented datagrams. */
struct udp_peer {
	struct nic_gid gid;
	bool no_gso; /* the path to it does not */
};

/** The socket of one address. */
struct udp_socket {
	int fd; /* -1: none; also where only the number is left, see udp_retire */
	struct nic_gid gid;
	uint32_t scope; /* interface of a link-local address */
	bool v4, gso;
	uint8_t tclass, hop_limit; /* as set on the socket */
	uint64_t drops_before;	   /* of the socket, when it was still another function's */
	uint64_t heard_ns;	   /* when a datagram came last */
};

struct port_udp {
	struct pmd_port port;
	unsigned function;
	struct udp_socket sockets[UDP_SOCKETS]; /* index = entry of the GID table */
	uint32_t open, hot;			/* bits: sockets there are; those visited by every burst */
	unsigned rx_last, tx_last;		/* the sockets that were used last */
	unsigned dropped;			/* datagrams that this burst has dropped */
	int epoll_fd;				/* all sockets; -1 while there never was more than one */
	int retired_fd;				/* the number that port.wait_fd once was; -1: none */
	uint64_t looked_ns;			/* when the silent ones were looked at */
	uint64_t drops_gone;			/* of sockets that are gone */
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
void udp_rx_accepted(struct pmd_port *port, const struct nic_rx_frame *frame);
unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

#endif
