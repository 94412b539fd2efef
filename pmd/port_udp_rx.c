/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp_rx.c - receiving on the kernel UDP port, and telling peers of our own kind.
 *
 * UDP_GRO hands over a run of packets as one piece, which is cut up in place. The ID of received packets is hidden
 * (NIC_RX_IP_ID_UNKNOWN). Our own kind is told by its UDP source port: packets that a uroce on a kernel socket sends
 * come from port 4791, those of others from a port per flow (0xC000 up).
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "port_udp.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define UDP_RX_TRIES 32 /* datagrams in vain, a burst */

/** An address may change hands: what another kind of peer sends takes back what its predecessor had shown. */
void udp_rx_valid(struct pmd_port *port, const struct nic_rx_frame *frame)
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

static void udp_rx_source(const struct port_udp *u, const struct sockaddr_in6 *sa, struct nic_rx_frame *frame)
{
	if (u->v4) {
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

/** One receive call. A single recvmsg beats recvmmsg for one packet, and GRO makes runs one datagram. */
static enum udp_received udp_receive(struct port_udp *u)
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
	/* Not recvmsg(): as a cancellation point that costs a poll 5% more, and nothing here may be cancelled. */
	long len = syscall(SYS_recvmsg, u->port.wait_fd, &msg, MSG_DONTWAIT);

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
	split->frame.tclass = 0;
	split->frame.hop_limit = 0;
	udp_rx_control(&msg, split);
	udp_rx_source(u, &from, &split->frame);
	return UDP_RX_READY;
}

unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_udp *u = (struct port_udp *)port;
	enum udp_received received = UDP_RX_READY;
	unsigned got;

	(void)now_ns;
	/* On past datagrams that are none of ours: "none" must mean that there is nothing left. */
	for (unsigned tries = 0; u->split.left == 0 && received != UDP_RX_NONE && tries < UDP_RX_TRIES; tries++)
		received = udp_receive(u);
	port->more = u->split.left == 0 && received == UDP_RX_DROPPED;
	got = udp_split_next(&u->split, frames, n);
	port->stats.rx_packets += got;
	return got;
}
