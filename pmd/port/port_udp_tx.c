/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp_tx.c - sending on the kernel UDP port.
 *
 * The ICRC covers the IP ID, which a UDP socket does not let us choose. An unconnected socket with IP_MTU_DISCOVER=DO
 * sends ID 0 and DF, and the NIC computes the ICRC for that. Runs of equal-sized packets to one peer are sent as one
 * segmented datagram (UDP_SEGMENT), but only to peers that run uroce on a kernel socket: when the kernel segments a run
 * for the wire, it increments the ID, and rxe or hardware would drop these packets.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filesize.h"
#include "nic_gsi.h"
#include "nic_rdm.h"
#include "port_udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define UDP_GSO_BYTES 64000 /* maximum UDP payload of a run; the kernel's limit is 65,507 bytes over IPv4 */
#define UDP_GSO_SEGS  64

/* Offset of the destination QPN, which has three bytes. If the first byte is 0xff, the other two bytes are a service
 * port; otherwise, except in QPN 1, the first byte is a function's number. */
#define BTH_DEST_QPN 5

/* BTH opcodes that this file compares with (IBTA 9.2.1). */
#define RC_READ_REQUEST	 0x0c
#define RC_ACKNOWLEDGE	 0x11
#define RC_CMP_SWAP	 0x13
#define RC_FETCH_ADD	 0x14
/* uroce's own opcodes (nic/mem/extended.md, nic/mem/elem.md). */
#define MASKED_CMP_SWAP	 0xc0
#define MASKED_FETCH_ADD 0xc1
#define ELEMENTS	 0xc4
#define FETCH_ELEMENTS	 0xc5

static uint32_t payload_len(const struct nic_tx_frame *f)
{
	return f->len - f->bth;
}

/** The function or service that a packet is for. */
static uint32_t target_of(const struct nic_tx_frame *f)
{
	const uint8_t *qpn = f->data + f->bth + BTH_DEST_QPN;

	return qpn[0] < NIC_SERVICE_QPN >> 16 ? qpn[0] : NIC_SERVICE_QPN + (qpn[1] << 8 | qpn[2]);
}

/** Whether the packet is for queue pair 1. The message in such a packet, not the QPN, names the function. */
static bool is_message(const struct nic_tx_frame *f)
{
	const uint8_t *qpn = f->data + f->bth + BTH_DEST_QPN;

	return qpn[0] == 0 && qpn[1] == 0 && qpn[2] == NIC_GSI_QPN;
}

/** Whether both packets may be in one run. A receiver steers a run as a whole, so both packets must be for the same
 *  function or service. */
static bool same_path(const struct nic_tx_frame *a, const struct nic_tx_frame *b)
{
	return a->tclass == b->tclass && a->hop_limit == b->hop_limit && target_of(a) == target_of(b) &&
	       !is_message(a) && memcmp(&a->dgid, &b->dgid, 16) == 0 && memcmp(&a->sgid, &b->sgid, 16) == 0;
}

/** How many of the n frames can be sent as one segmented datagram: all must have the same size, except that the last
 *  can be shorter. */
static unsigned udp_run(struct port_udp *u, const struct udp_socket *s, const struct nic_tx_frame *f, unsigned n)
{
	const struct udp_peer *peer;
	uint32_t size = payload_len(&f[0]), total = size;
	unsigned run = 1;

	if (!s->gso || n < 2 || !same_path(&f[0], &f[1]) || payload_len(&f[1]) > size)
		return 1;
	peer = udp_peer_find(u, &f[0].dgid);
	if (!peer || peer->no_gso)
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

static bool udp_set_option(const struct udp_socket *s, int v4_name, int v6_name, int value)
{
	return setsockopt(s->fd, s->v4 ? IPPROTO_IP : IPPROTO_IPV6, s->v4 ? v4_name : v6_name, &value, sizeof(value)) ==
	       0;
}

/** Set the hop limit of packets to multicast groups. @return false: the kernel refused. */
static bool udp_set_group_hops(struct udp_socket *s, uint8_t hop_limit)
{
	if (s->group_hops == hop_limit || hop_limit == 0)
		return true;
	if (!udp_set_option(s, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, hop_limit))
		return false;
	s->group_hops = hop_limit;
	return true;
}

/** Set the socket's traffic class and hop limit. If the kernel refuses, the next packet tries again. The ICRC covers
 *  neither field. */
static void udp_set_fields(struct port_udp *u, struct udp_socket *s, const struct nic_tx_frame *f)
{
	bool refused = false;

	if (s->tclass != f->tclass) {
		if (udp_set_option(s, IP_TOS, IPV6_TCLASS, f->tclass))
			s->tclass = f->tclass;
		else
			refused = true;
	}
	if (nic_gid_is_multicast(&f->dgid)) {
		refused |= !udp_set_group_hops(s, f->hop_limit);
	} else if (s->hop_limit != f->hop_limit && f->hop_limit != 0) {
		if (udp_set_option(s, IP_TTL, IPV6_UNICAST_HOPS, f->hop_limit))
			s->hop_limit = f->hop_limit;
		else
			refused = true;
	}
	u->port.stats.tx_fields_refused += refused;
}

/** Send a run of frames as one datagram. @return 0 or a negative errno. */
static int udp_send(struct udp_socket *s, const struct nic_tx_frame *f, unsigned run)
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
	msg.msg_namelen = pmd_gid_sockaddr(&f[0].dgid, s->scope, &to);
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
	return syscall(SYS_sendmsg, s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/** Report an error that the user can fix, but only once (*said). Disables cancellation while it writes, because writing
 *  to a stream is a cancellation point and the thread holds the engine's lock. */
__attribute__((cold, noinline)) static void udp_say(bool *said, const struct nic_gid *to, int rc, uint32_t len)
{
	char addr[64];
	int cancel;

	if (*said)
		return;
	*said = true;
	if (!filesize_allows_stderr())
		return;
	pmd_gid_str(to, addr, sizeof(addr));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (rc == -EMSGSIZE)
		fprintf(stderr,
			"uroce: the path to %s does not carry packets of %u bytes; raise the MTU of the interfaces on "
			"it or "
			"lower the path MTU of the QPs (UROCE_MTU)\n",
			addr, len);
	else
		fprintf(stderr, "uroce: cannot send to %s: %s; check routes, firewall and the device's own address\n",
			addr, strerror(-rc));
	pthread_setcancelstate(cancel, NULL);
}

/** Count a packet that the kernel refuses permanently. The packet is lost, as on a wire. */
static void udp_count_drop(struct port_udp *u, const struct nic_tx_frame *f, int rc)
{
	if (rc == -EMSGSIZE) {
		u->port.stats.tx_too_long++;
		udp_say(&u->said_too_long, &f->dgid, rc, f->len);
	} else if (rc == -ENETUNREACH || rc == -EHOSTUNREACH || rc == -EPERM || rc == -EACCES || rc == -EINVAL) {
		u->port.stats.tx_unreachable++;
		udp_say(&u->said_unreachable, &f->dgid, rc, f->len);
	} else {
		u->port.stats.tx_errors++;
	}
}

static bool is_no_room(int rc)
{
	return rc == -EAGAIN || rc == -ENOBUFS || rc == -ENOMEM || rc == -EINTR;
}

/** The kernel refused a run: send its first packet on its own. @return as udp_send. */
static int udp_send_fallback(struct port_udp *u, struct udp_socket *s, const struct nic_tx_frame *f, int run_rc)
{
	int rc = udp_send(s, f, 1);

	u->port.stats.tx_gso_fallback++;
	/* The kernel sent the single packet but refused the run: send no more runs to this peer. */
	if (rc == 0 && (run_rc == -EINVAL || run_rc == -EIO || run_rc == -EOPNOTSUPP))
		udp_peer_slot(u, &f->dgid)->no_gso = true;
	return rc;
}

/** The socket of a packet's source address. @return NULL: the device no longer has the address. */
static struct udp_socket *udp_source(struct port_udp *u, const struct nic_tx_frame *f)
{
	for (unsigned k = 0; k < UDP_SOCKETS; k++) {
		struct udp_socket *s = &u->sockets[(u->tx_last + k) % UDP_SOCKETS];

		if (s->fd < 0 || !pmd_gid_equal(&s->gid, &f->sgid))
			continue;
		u->tx_last = (unsigned)(s - u->sockets);
		return s;
	}
	return NULL;
}

/** Send the first run of the n frames. @return number of frames taken; 0: no room now. */
static unsigned udp_send_run(struct port_udp *u, const struct nic_tx_frame *f, unsigned n)
{
	struct udp_socket *s = udp_source(u, f);
	unsigned run;
	int rc;

	if (!s || (!s->groups && nic_gid_is_multicast(&f->dgid))) {
		u->port.stats.tx_no_source++;
		return 1;
	}
	run = udp_run(u, s, f, n);
	udp_set_fields(u, s, f);
	rc = udp_send(s, f, run);

	if (rc != 0 && run > 1 && !is_no_room(rc)) {
		rc = udp_send_fallback(u, s, f, rc);
		run = 1;
	}
	if (rc == 0) {
		u->port.stats.tx_packets += run;
		u->port.stats.tx_gso += run > 1;
		return run;
	}
	if (is_no_room(rc)) {
		u->port.stats.tx_busy++;
		return 0;
	}
	udp_count_drop(u, f, rc);
	return 1;
}

/** Whether a packet is a SEND (without invalidate), WRITE, READ or atomic request of RC. Responses do not count,
 *  because ACKs and other responses must stay in order. */
static bool is_request(const struct nic_tx_frame *f)
{
	uint8_t opcode = f->data[f->bth];

	return opcode <= RC_READ_REQUEST || opcode == RC_CMP_SWAP || opcode == RC_FETCH_ADD ||
	       opcode == MASKED_CMP_SWAP || opcode == MASKED_FETCH_ADD || opcode == ELEMENTS ||
	       opcode == FETCH_ELEMENTS;
}

/** If the frames are just an ACK and a longer request, put the request first. Only the last packet of a run may be
 * shorter than the others, so in this order the two form one run and cost one system call. Such pairs occur when an
 * application responds to a message at once. Requests and ACKs are independent streams, so their order does not matter,
 * unless `ordered` is set. */
static void udp_ack_last(struct nic_tx_frame *f, unsigned n)
{
	struct nic_tx_frame ack;

	if (n != 2 || f[0].ordered || f[0].data[f[0].bth] != RC_ACKNOWLEDGE || !same_path(&f[0], &f[1]) ||
	    payload_len(&f[1]) <= payload_len(&f[0]) || !is_request(&f[1]))
		return;
	ack = f[0];
	f[0] = f[1];
	f[1] = ack;
}

unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
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
