/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp.c - a port on a kernel UDP socket bound to port 4791 of one local address. No privilege, no set-up.
 *
 * Sending. The ICRC covers the IP ID, which a UDP socket does not let us choose: an unconnected socket with
 * IP_MTU_DISCOVER=DO sends ID 0 and DF, and that is what the NIC computes with. Runs of packets of one size to one
 * peer go as one segmented datagram (UDP_SEGMENT), but only to peers of our own kind: when the kernel cuts the run
 * for the wire it counts IDs up, which rxe or hardware would drop. Our own kind is told by its UDP source port:
 * packets that a uroce on a kernel socket sends come from port 4791, those of others from a port per flow (0xC000 up).
 *
 * Receiving. UDP_GRO hands over such a run as one piece, which is cut up in place. The ID of received packets is
 * hidden (NIC_RX_IP_ID_UNKNOWN).
 *
 * Owns: the socket, its receive buffer, a table of peers of our own kind.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices.h"
#include "eal.h"
#include "port.h"
#include "udp_split.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define UDP_RX_BYTES	 65536
#define UDP_GSO_BYTES	 64000 /* payload of a run; below 65,507 with room for any header */
#define UDP_GSO_SEGS	 64
#define UDP_PEERS	 256
#define UDP_RCVBUF	 (16 << 20)
#define UDP_SNDBUF	 (4 << 20)
#define UDP_INFLIGHT_MAX (1 << 20) /* bytes a QP; more brings no bandwidth on a socket */
#define UDP_ACK_DELAY_NS 20000

/* BTH opcodes (IBTA 9.2.1) that matter here. */
#define RC_READ_REQUEST 0x0c
#define RC_ACKNOWLEDGE	0x11
#define RC_CMP_SWAP	0x13
#define RC_FETCH_ADD	0x14

struct port_udp {
	struct pmd_port port;
	struct nic_gid gid;
	bool v4;
	uint32_t scope; /* interface of a link-local address */
	bool gso;
	uint8_t tclass, hop_limit; /* as set on the socket */
	bool said_too_long, said_unreachable;
	struct nic_gid peers[UDP_PEERS]; /* of our own kind; direct-mapped */
	struct udp_split split;		 /* what is left of the last datagram */
	uint8_t *rx_buf;
};

static unsigned peer_slot(const struct nic_gid *gid)
{
	return (gid->raw[15] + gid->raw[14] * 7u + gid->raw[13] * 31u + gid->raw[11] * 127u) % UDP_PEERS;
}

static bool peer_is_own_kind(const struct port_udp *u, const struct nic_gid *gid)
{
	return memcmp(&u->peers[peer_slot(gid)], gid, sizeof(*gid)) == 0;
}

static void udp_rx_valid(struct pmd_port *port, const struct nic_rx_frame *frame)
{
	struct port_udp *u = (struct port_udp *)port;

	if (frame->udp_sport == NIC_UDP_PORT)
		u->peers[peer_slot(&frame->sgid)] = frame->sgid;
}

/* ---- receive ------------------------------------------------------------------------------------------------ */

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

/** One receive call. A single recvmsg beats recvmmsg for one packet, and GRO makes runs one datagram. */
static bool udp_receive(struct port_udp *u)
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

	if (len <= 0) {
		if (len < 0 && errno != EAGAIN && errno != EINTR)
			u->port.stats.rx_errors++;
		return false;
	}
	u->port.stats.rx_datagrams++;
	if (msg.msg_flags & MSG_TRUNC) {
		u->port.stats.rx_truncated++;
		return false;
	}
	split->data = u->rx_buf;
	split->left = (uint32_t)len;
	split->segment = 0;
	split->frame.tclass = 0;
	split->frame.hop_limit = 0;
	udp_rx_control(&msg, split);
	udp_rx_source(u, &from, &split->frame);
	return true;
}

static unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_udp *u = (struct port_udp *)port;
	unsigned got;

	(void)now_ns;
	if (u->split.left == 0 && !udp_receive(u))
		return 0;
	got = udp_split_next(&u->split, frames, n);
	port->stats.rx_packets += got;
	return got;
}

/* ---- transmit ----------------------------------------------------------------------------------------------- */

static uint32_t payload_len(const struct nic_tx_frame *f)
{
	return f->len - f->bth;
}

static bool same_path(const struct nic_tx_frame *a, const struct nic_tx_frame *b)
{
	return a->tclass == b->tclass && a->hop_limit == b->hop_limit && memcmp(&a->dgid, &b->dgid, 16) == 0;
}

/** How many of the n frames can go as one segmented datagram: equal sizes, the last may be shorter. */
static unsigned udp_run(const struct port_udp *u, const struct nic_tx_frame *f, unsigned n)
{
	uint32_t size = payload_len(&f[0]), total = size;
	unsigned run = 1;

	if (!u->gso || n < 2 || !same_path(&f[0], &f[1]) || payload_len(&f[1]) > size ||
	    !peer_is_own_kind(u, &f[0].dgid))
		return 1;
	while (run < n && run < UDP_GSO_SEGS) {
		uint32_t len = payload_len(&f[run]);

		if (len > size || total + len > UDP_GSO_BYTES || !same_path(&f[0], &f[run]))
			break;
		total += len;
		run++;
		if (len < size)
			break;
	}
	return run;
}

static void udp_set_fields(struct port_udp *u, const struct nic_tx_frame *f)
{
	int level = u->v4 ? IPPROTO_IP : IPPROTO_IPV6, value;

	if (u->tclass != f->tclass) {
		value = u->tclass = f->tclass;
		setsockopt(u->port.wait_fd, level, u->v4 ? IP_TOS : IPV6_TCLASS, &value, sizeof(value));
	}
	if (u->hop_limit != f->hop_limit && f->hop_limit != 0) {
		value = u->hop_limit = f->hop_limit;
		setsockopt(u->port.wait_fd, level, u->v4 ? IP_TTL : IPV6_UNICAST_HOPS, &value, sizeof(value));
	}
}

static socklen_t udp_address(const struct port_udp *u, const struct nic_gid *gid, struct sockaddr_in6 *out)
{
	memset(out, 0, sizeof(*out));
	if (u->v4) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(NIC_UDP_PORT);
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		return sizeof(*in);
	}
	out->sin6_family = AF_INET6;
	out->sin6_port = htons(NIC_UDP_PORT);
	memcpy(&out->sin6_addr, gid->raw, 16);
	if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)
		out->sin6_scope_id = u->scope;
	return sizeof(*out);
}

/** Send a run of frames as one datagram. @return 0 or a negative errno. */
static int udp_send(struct port_udp *u, const struct nic_tx_frame *f, unsigned run)
{
	struct sockaddr_in6 to;
	struct iovec iov[UDP_GSO_SEGS];
	union {
		char bytes[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_name = &to, .msg_iov = iov, .msg_iovlen = run};

	for (unsigned i = 0; i < run; i++)
		iov[i] = (struct iovec){f[i].data + f[i].bth, payload_len(&f[i])};
	msg.msg_namelen = udp_address(u, &f[0].dgid, &to);
	if (run > 1) {
		uint16_t size = (uint16_t)payload_len(&f[0]);
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(size));
		memcpy(CMSG_DATA(c), &size, sizeof(size));
	}
	udp_set_fields(u, f);
	return syscall(SYS_sendmsg, u->port.wait_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/** A packet that the kernel refuses for good is lost, like on a wire; the transport's timers deal with it. */
static void udp_count_drop(struct port_udp *u, const struct nic_tx_frame *f, int rc)
{
	char addr[64];

	if (rc == -EMSGSIZE) {
		u->port.stats.tx_too_long++;
		if (!u->said_too_long)
			fprintf(stderr,
				"uroce: the path to %s does not carry packets of %u bytes; raise the MTU of the "
				"interfaces on it or lower the path MTU of the QPs (UROCE_MTU)\n",
				pmd_gid_str(&f->dgid, addr, sizeof(addr)), f->len);
		u->said_too_long = true;
	} else if (rc == -ENETUNREACH || rc == -EHOSTUNREACH || rc == -EPERM || rc == -EACCES || rc == -EINVAL) {
		u->port.stats.tx_unreachable++;
		if (!u->said_unreachable)
			fprintf(stderr,
				"uroce: cannot send to %s: %s; check routes, firewall and the device's own address\n",
				pmd_gid_str(&f->dgid, addr, sizeof(addr)), strerror(-rc));
		u->said_unreachable = true;
	} else {
		u->port.stats.tx_errors++;
	}
}

/** Send one run from the front of n frames. @return frames disposed of; 0: no room now. */
static unsigned udp_send_run(struct port_udp *u, const struct nic_tx_frame *f, unsigned n)
{
	unsigned run = udp_run(u, f, n);
	int rc = udp_send(u, f, run);

	if (rc == 0) {
		u->port.stats.tx_packets += run;
		u->port.stats.tx_gso += run > 1;
		return run;
	}
	if (rc == -EAGAIN || rc == -ENOBUFS || rc == -ENOMEM || rc == -EINTR) {
		u->port.stats.tx_busy++;
		return 0;
	}
	if (run > 1) {
		u->port.stats.tx_gso_fallback++;
		if (rc == -EINVAL || rc == -EIO || rc == -EOPNOTSUPP)
			u->gso = false; /* the interface or the kernel cannot; do not ask again */
		rc = udp_send(u, f, 1);
		if (rc == 0) {
			u->port.stats.tx_packets++;
			return 1;
		}
		if (rc == -EAGAIN || rc == -ENOBUFS)
			return 0;
	}
	udp_count_drop(u, f, rc);
	return 1;
}

/** SEND, WRITE, READ and atomic requests of RC; not responses, whose order among each other matters. */
static bool is_request(const struct nic_tx_frame *f)
{
	uint8_t opcode = f->data[f->bth];

	return opcode <= RC_READ_REQUEST || opcode == RC_CMP_SWAP || opcode == RC_FETCH_ADD;
}

/** A reply posted at once meets the ACK of what it answers. Requests and ACKs are streams of their own, so a shorter
 *  ACK may as well follow the reply: then both are one run, and one trip through the kernel. */
static void udp_ack_last(struct nic_tx_frame *f, unsigned n)
{
	struct nic_tx_frame ack;

	if (n != 2 || f[0].data[f[0].bth] != RC_ACKNOWLEDGE || !same_path(&f[0], &f[1]) ||
	    payload_len(&f[1]) <= payload_len(&f[0]) || !is_request(&f[1]))
		return;
	ack = f[0];
	f[0] = f[1];
	f[1] = ack;
}

static unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_udp *u = (struct port_udp *)port;
	unsigned sent = 0;

	(void)now_ns;
	udp_ack_last(frames, n);
	while (sent < n) {
		unsigned k = udp_send_run(u, frames + sent, n - sent);

		if (k == 0)
			break;
		sent += k;
	}
	return sent;
}

/* ---- open and close ----------------------------------------------------------------------------------------- */

static void udp_close(struct pmd_port *port)
{
	struct port_udp *u = (struct port_udp *)port;

	close(port->wait_fd);
	free(u->rx_buf);
	free(u);
}

static void udp_abandon(struct pmd_port *port)
{
	close(port->wait_fd);
}

static const struct pmd_port_ops udp_ops = {
	.rx_burst = udp_rx_burst,
	.rx_valid = udp_rx_valid,
	.tx_burst = udp_tx_burst,
	.tx_copies = true,
	.close = udp_close,
	.abandon = udp_abandon,
};

static int udp_bind(struct port_udp *u, char *err, size_t err_len)
{
	struct sockaddr_in6 self;
	socklen_t len = udp_address(u, &u->gid, &self);
	char addr[64];
	int rc;

	pmd_gid_str(&u->gid, addr, sizeof(addr));
	if (bind(u->port.wait_fd, (struct sockaddr *)&self, len) == 0)
		return 0;
	rc = -errno;
	if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "UDP port %u of %s is in use by another process; give each process its own address with "
			 "UROCE_DEVICES, for example UROCE_DEVICES=127.0.0.2",
			 NIC_UDP_PORT, addr);
	else if (rc == -EADDRNOTAVAIL)
		snprintf(err, err_len,
			 "%s is not an address of this host; correct UROCE_DEVICES or configure the address", addr);
	else
		snprintf(err, err_len, "cannot bind to UDP port %u of %s: %s", NIC_UDP_PORT, addr, strerror(-rc));
	return rc;
}

static void udp_options(struct port_udp *u)
{
	int fd = u->port.wait_fd, on = 1, off = 0, discover = IP_PMTUDISC_DO, size;
	int level = u->v4 ? IPPROTO_IP : IPPROTO_IPV6;
	socklen_t len = sizeof(size);

	setsockopt(fd, level, u->v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover));
	setsockopt(fd, level, u->v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on));
	setsockopt(fd, level, u->v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &on, sizeof(on));
	/* Only GSO where GRO is there as well: a kernel that has one has both. */
	u->gso = setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0 &&
		 setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off)) == 0;
	size = UDP_RCVBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	size = UDP_SNDBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	u->tclass = 0;
	u->hop_limit = 0; /* unknown: set with the first packet */
	/* What is under way to a receiver must fit its buffer, which is taken to be like ours: the kernel drops silently
	 * what does not, and go-back-N then sends it all again. The kernel counts its own overhead; several QPs share
	 * the buffer, and narrow their windows when they lose. */
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len) != 0)
		size = 212992;
	u->port.max_inflight = (uint32_t)size / 4 < UDP_INFLIGHT_MAX ? (uint32_t)size / 4 : UDP_INFLIGHT_MAX;
}

int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
		      struct pmd_port **out, char *err, size_t err_len)
{
	struct port_udp *u = calloc(1, sizeof(*u));
	int rc = -ENOMEM;

	(void)pool;
	if (!u || !(u->rx_buf = aligned_alloc(64, UDP_RX_BYTES)))
		goto no_memory;
	u->port.ops = &udp_ops;
	u->gid = device->gid;
	u->v4 = pmd_gid_is_v4(&device->gid);
	u->scope = device->netdev[0] ? if_nametoindex(device->netdev) : 0;
	u->port.wait_fd = pmd_fd_high(socket(u->v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (u->port.wait_fd < 0) {
		rc = -errno;
		snprintf(err, err_len, "no UDP socket: %s", strerror(errno));
		goto no_socket;
	}
	udp_options(u);
	rc = udp_bind(u, err, err_len);
	if (rc != 0)
		goto no_bind;
	u->split.frame.flags = NIC_RX_UDP_PAYLOAD | (u->v4 ? NIC_RX_IP_ID_UNKNOWN : 0);
	u->split.frame.dgid = u->gid;
	u->port.udp_sport = NIC_UDP_PORT;
	u->port.ack_delay_ns = UDP_ACK_DELAY_NS;
	*out = &u->port;
	return 0;

no_bind:
	close(u->port.wait_fd);
no_socket:
	free(u->rx_buf);
	free(u);
	return rc;
no_memory:
	free(u);
	snprintf(err, err_len, "out of memory");
	return -ENOMEM;
}
