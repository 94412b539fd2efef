/* SPDX-License-Identifier: BSD-3-Clause */
/* port_udp.h - internals of the kernel UDP port, which port_udp.c (open, close), port_udp_rx.c and port_udp_tx.c share
 * (pmd-internal). */
#ifndef PMD_PORT_UDP_H
#define PMD_PORT_UDP_H

#include <netinet/in.h>

#include "port.h"
#include "udp_split.h"

#define UDP_RX_BYTES 65536
#define UDP_PEERS    256
#define UDP_SOCKETS  (NIC_GID_TABLE_LEN + NIC_MCAST_GROUPS_MAX) /* at most 64: the port has one bit for each */

_Static_assert(UDP_SOCKETS <= 64, "struct port_udp has a bit for each socket");

/** A peer that runs uroce on a kernel socket, and so accepts segmented datagrams. */
struct udp_peer {
	struct nic_gid gid;
	bool no_gso; /* the path to the peer does not support segmented datagrams */
};

/** The socket of one address of the device, or of a multicast group. */
struct udp_socket {
	int fd; /* -1: no socket; udp_retire() may keep its descriptor number in use */
	struct nic_gid gid;
	uint32_t scope; /* index of the device's interface, for link-local addresses and IPv6 groups; 0: not known */
	bool v4, gso;
	uint8_t tclass, hop_limit; /* as set on the socket */
	uint8_t group_hops;	   /* hop limit of packets to multicast groups, as set on the socket */
	bool groups;		   /* can send to multicast groups; such packets leave by the address's interface */
	uint64_t drops_before;	   /* the socket's drops before it was added here; another function may have owned it */
	uint64_t heard_ns;	   /* with epoll: when the socket last had a datagram */
};

struct port_udp {
	struct pmd_port port;
	unsigned function;
	struct udp_socket sockets[UDP_SOCKETS]; /* by GID table index, then those of multicast groups */
	uint64_t open, hot;			/* bits: open sockets; sockets that bursts visit (port_udp_rx.c) */
	unsigned rx_last, tx_last; /* index of the socket last visited, last used to send; or of one added since */
	unsigned dropped;	   /* datagrams dropped in this burst */
	int epoll_fd;		   /* watches all sockets; -1 until a second socket is added or a socket is removed */
	int retired_fd;		   /* former wait_fd, now a duplicate of epoll_fd; -1: none */
	uint64_t looked_ns;	   /* when epoll was last asked which sockets have datagrams */
	uint64_t drops_gone;	   /* sum of the drops of removed sockets */
	bool said_too_long, said_unreachable;
	struct udp_peer peers[UDP_PEERS]; /* direct-mapped */
	struct udp_split split;		  /* remaining packets of the last datagram */
	uint8_t *rx_buf;
};

static inline bool udp_is_group(unsigned index)
{
	return index >= NIC_GID_TABLE_LEN;
}

static inline struct udp_peer *udp_peer_slot(struct port_udp *u, const struct nic_gid *gid)
{
	return &u->peers[(gid->raw[15] + gid->raw[14] * 7u + gid->raw[13] * 31u + gid->raw[11] * 127u) % UDP_PEERS];
}

/** @return the peer with this address if it is known to run uroce on a kernel socket, else NULL. */
static inline struct udp_peer *udp_peer_find(struct port_udp *u, const struct nic_gid *gid)
{
	struct udp_peer *peer = udp_peer_slot(u, gid);

	return __builtin_memcmp(&peer->gid, gid, sizeof(*gid)) == 0 ? peer : NULL;
}

/* Members of struct pmd_port_ops for this port. */
unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns);
void udp_rx_accepted(struct pmd_port *port, const struct nic_rx_frame *frame);
unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

#endif
