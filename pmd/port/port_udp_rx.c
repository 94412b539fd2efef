/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp_rx.c - receiving on the kernel UDP port, and recognising peers that run uroce on a kernel socket.
 *
 * With UDP_GRO the kernel delivers a run of packets as one buffer, which is split in place. The socket does not report
 * the IP ID of received packets (NIC_RX_IP_ID_UNKNOWN). A peer that runs uroce on a kernel socket is recognised by its
 * UDP source port 4791; all other senders use a source port per flow (0xC000 and up).
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic_gsi.h"
#include "nic_rdm.h"
#include "port_udp.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Receiving from several sockets. A receive call on an empty socket costs 300 ns, so a burst visits only hot sockets:
 * those that have received a datagram within UDP_HOT_NS. Every UDP_LOOK_NS, or when no socket is hot, epoll tells which
 * sockets have datagrams. */
#define UDP_HOT_NS  1000000
#define UDP_LOOK_NS 10000

/* Offset of the destination QPN, which has three bytes. If the first byte is 0xff, the other two bytes are a service
 * port; otherwise, except in QPN 1, the first byte is a function's number. */
#define BTH_DEST_QPN 5

/** Record whether the peer runs uroce on a kernel socket. A packet from another kind of sender clears the record,
 *  because an address can pass to another host. Called only for packets that an RC or XRC QP accepted from its peer,
 * because any other packet can be forged. */
void udp_rx_accepted(struct pmd_port *port, const struct nic_rx_frame *frame)
{
	struct port_udp *u = (struct port_udp *)port;
	struct udp_peer *peer = udp_peer_slot(u, &frame->sgid);
	bool known = memcmp(&peer->gid, &frame->sgid, sizeof(peer->gid)) == 0;

	if (known != (frame->udp_sport == NIC_UDP_PORT)) {
		*peer = (struct udp_peer){0};
		if (!known)
			peer->gid = frame->sgid;
	}
}

static void udp_rx_control(struct msghdr *msg, struct udp_split *split)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int value = 0;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			split->frame.tclass = *CMSG_DATA(c);
			continue;
		}
		if (c->cmsg_len < CMSG_LEN(sizeof(value)))
			continue;
		memcpy(&value, CMSG_DATA(c), sizeof(value));
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			split->segment = value > 0 ? (uint32_t)value : 0;
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			split->frame.tclass = (uint8_t)value;
		else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
			 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT))
			split->frame.hop_limit = (uint8_t)value;
	}
}

static void udp_rx_source(bool v4, const struct sockaddr_in6 *sa, struct nic_rx_frame *frame)
{
	if (v4) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

		memset(frame->sgid.raw, 0, 10);
		frame->sgid.raw[10] = frame->sgid.raw[11] = 0xff;
		memcpy(frame->sgid.raw + 12, &in->sin_addr, 4);
		frame->udp_sport = ntohs(in->sin_port);
	} else {
		memcpy(frame->sgid.raw, &sa->sin6_addr, 16);
		frame->udp_sport = ntohs(sa->sin6_port);
	}
}

enum udp_received { UDP_RX_NONE, UDP_RX_DROPPED, UDP_RX_READY };

/** Make one receive call. For a single packet recvmsg is faster than recvmmsg, and with GRO a run of packets is one
 *  datagram. */
static enum udp_received udp_receive(struct port_udp *u, const struct udp_socket *s)
{
	struct sockaddr_in6 from;
	union {
		char bytes[128];
		struct cmsghdr align;
	} control;
	struct iovec iov = {u->rx_buf, UDP_RX_BYTES};
	struct msghdr msg = {.msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct udp_split *split = &u->split;
	/* Make the system call directly. recvmsg() is a cancellation point: it would make a poll 5% slower, and the
	 * thread must not be cancelled here. */
	long len = syscall(SYS_recvmsg, s->fd, &msg, MSG_DONTWAIT);

	if (len < 0) {
		if (errno != EAGAIN && errno != EINTR)
			u->port.stats.rx_errors++;
		return UDP_RX_NONE;
	}
	u->port.stats.rx_datagrams++;
	if (len == 0 || (msg.msg_flags & MSG_TRUNC)) {
		u->port.stats.rx_empty += len == 0;
		u->port.stats.rx_truncated += len != 0;
		return UDP_RX_DROPPED;
	}
	split->data = u->rx_buf;
	split->left = (uint32_t)len;
	split->segment = 0;
	split->frame.flags = NIC_RX_UDP_PAYLOAD | (s->v4 ? NIC_RX_IP_ID_UNKNOWN : 0);
	split->frame.dgid = s->gid;
	split->frame.tclass = 0;
	split->frame.hop_limit = 0;
	udp_rx_control(&msg, split);
	udp_rx_source(s->v4, &from, &split->frame);
	return UDP_RX_READY;
}

/** Whether this burst has examined PMD_RX_VAIN packets, and has to stop. */
static bool udp_must_stop(const struct port_udp *u)
{
	return u->port.looked_at + u->dropped >= PMD_RX_VAIN;
}

/** Receive from a socket, dropping empty and truncated datagrams, until u->split has a datagram, a call receives
 *  none, or the burst has to stop (then `more` is set). @return whether u->split has a datagram. */
static bool udp_visit(struct port_udp *u, unsigned index)
{
	enum udp_received received = UDP_RX_DROPPED;

	while (received == UDP_RX_DROPPED && !udp_must_stop(u)) {
		received = udp_receive(u, &u->sockets[index]);
		u->dropped += received == UDP_RX_DROPPED;
	}
	u->port.more |= received == UDP_RX_DROPPED;
	u->rx_last = index;
	return received == UDP_RX_READY;
}

/** Ask the kernel which sockets have datagrams, and mark these sockets as hot. */
static void udp_look(struct port_udp *u, uint64_t now_ns)
{
	struct epoll_event events[UDP_SOCKETS];
	long n = syscall(SYS_epoll_pwait, u->epoll_fd, events, UDP_SOCKETS, 0, NULL, 0);

	u->looked_ns = now_ns;
	for (long i = 0; i < n; i++) {
		u->hot |= UINT64_C(1) << events[i].data.u32;
		u->sockets[events[i].data.u32].heard_ns = now_ns;
	}
}

/** @return the next socket in `bits` after socket `last`, in cyclic order. `bits` must not be 0. */
static unsigned udp_next(uint64_t bits, unsigned last)
{
	unsigned from = (last + 1) % 64;
	uint64_t turned = from == 0 ? bits : bits >> from | bits << (64 - from);

	return (from + (unsigned)__builtin_ctzll(turned)) % 64;
}

/** With several sockets: visit the hot ones, starting after the socket visited last, until a datagram is received.
 *  @return whether a datagram was received. */
static bool udp_visit_hot(struct port_udp *u, uint64_t now_ns)
{
	uint64_t visits;

	if (u->hot == 0 || now_ns - u->looked_ns >= UDP_LOOK_NS)
		udp_look(u, now_ns);
	visits = u->hot;
	while (visits != 0) {
		unsigned index = udp_next(visits, u->rx_last);
		uint64_t bit = UINT64_C(1) << index;
		struct udp_socket *s = &u->sockets[index];

		if (udp_must_stop(u)) {
			u->port.more = true; /* the next burst begins with this socket */
			return false;
		}
		visits &= ~bit;
		if (udp_visit(u, index)) {
			s->heard_ns = now_ns;
			u->port.more |= visits != 0;
			return true;
		}
		if (pmd_clock_age(now_ns, s->heard_ns) > UDP_HOT_NS)
			u->hot &= ~bit;
	}
	return false;
}

static bool udp_is_ours(struct port_udp *u, const struct nic_rx_frame *frame)
{
	const uint8_t *qpn = frame->data + BTH_DEST_QPN;

	if (frame->len < BTH_DEST_QPN + 3 || qpn[0] == u->function)
		return true; /* for our function, or too short: the NIC counts short packets */
	if (qpn[0] == 0 && qpn[1] == 0 && qpn[2] == NIC_GSI_QPN)
		return true; /* for queue pair 1: the CM drops messages for other functions */
	return qpn[0] == NIC_SERVICE_QPN >> 16 && u->port.serves &&
	       u->port.serves(u->port.ctx, (uint16_t)(qpn[1] << 8 | qpn[2]));
}

/** Give packets for other functions or their services to port.stray (NULL: drop them); strays.h says why there are such
 *  packets. Any host can send any number of them. @return the number of packets kept. */
static unsigned udp_keep_ours(struct port_udp *u, struct nic_rx_frame *frames, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!udp_is_ours(u, &frames[i])) {
			u->port.stats.rx_misrouted++;
			if (!u->port.stray) {
				u->port.stats.rx_misrouted_dropped++;
				continue;
			}
			if (u->port.stray(u->port.ctx, &frames[i]))
				continue;
		}
		if (kept != i)
			frames[kept] = frames[i];
		kept++;
	}
	return kept;
}

unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_udp *u = (struct port_udp *)port;
	unsigned got, kept;

	port->looked_at = u->dropped = 0;
	do {
		port->more = false;
		if (u->split.left == 0 && u->open != 0) {
			if (u->epoll_fd < 0)
				udp_visit(u, u->rx_last);
			else
				udp_visit_hot(u, now_ns);
		}
		got = udp_split_next(&u->split, frames, n);
		port->looked_at += got;
		/* Every member of a group gets its own copy of the group's packets, so no packet is for another
		 * function. */
		kept = got > 0 && u->function != 0 && !udp_is_group(u->rx_last) ? udp_keep_ours(u, frames, got) : got;
	} while (got > 0 && kept == 0 && !udp_must_stop(u));
	port->looked_at += u->dropped;
	port->more |= u->split.left > 0 || (got > 0 && kept == 0);
	port->stats.rx_packets += kept;
	return kept;
}
