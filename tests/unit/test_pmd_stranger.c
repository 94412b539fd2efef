/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_stranger.c - what another user of the host can do to engines on loopback addresses. The stranger is a
 * process without privileges that knows addresses, queue pair numbers and even the outstanding PSNs, and sends packets
 * from UDP sockets of its own. Also which sockets engines listen on.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <grp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "clock.h"
#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "packet.h"
#include "udp_socket.h"

#define NOBODY	65534
#define PACKETS 64
#define LONG_NS 20000000000u /* a long timeout: tests check that something happens, not how soon */
#define LEN	100u	     /* length of the real message */

#define SEND_ONLY 0x04
#define ACK	  0x11
#define NAK_FATAL 0x63 /* remote operational error */

static struct pmd_device device[3];

/** Where the stranger sends from, and which source it claims. */
enum way {
	ANY_PORT,    /* the peer's address, any port */
	OTHER_PLACE, /* an unused address, port 4791 */
	SPOOFED,     /* an unused address, port 4791, with the peer's address as the claimed source */
};

/** A forged packet whose fields are all correct. */
struct forgery {
	struct nic_gid from, to;
	uint32_t qpn, psn;
	uint8_t opcode, syndrome;
};

/* ---- the stranger ----------------------------------------------------------------------------------------------- */

static int stranger_socket(enum way way, const struct forgery *f, uint16_t *port)
{
	struct sockaddr_in6 self = {0};
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&self;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), discover = IP_PMTUDISC_DO;
	socklen_t len = pmd_gid_sockaddr(way == ANY_PORT ? &f->from : &device[2].gid, 0, &self);

	if (way == ANY_PORT)
		v4->sin_port = 0;
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
	if (fd < 0 || bind(fd, (struct sockaddr *)&self, len) != 0 ||
	    getsockname(fd, (struct sockaddr *)&self, &len) != 0)
		return -1;
	*port = ntohs(v4->sin_port);
	return fd;
}

static bool stranger_sends(int fd, enum way way, const struct forgery *f, const uint8_t *data, size_t len)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control = {{0}};
	struct sockaddr_in6 to;
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1};
	struct in_pktinfo info = {0};

	msg.msg_namelen = pmd_gid_sockaddr(&f->to, 0, &to);
	if (way == SPOOFED) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		memcpy(&info.ipi_spec_dst, f->from.raw + 12, 4);
		CMSG_FIRSTHDR(&msg)->cmsg_level = IPPROTO_IP;
		CMSG_FIRSTHDR(&msg)->cmsg_type = IP_PKTINFO;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &info, sizeof(info));
	}
	return sendmsg(fd, &msg, 0) == (ssize_t)len;
}

static int stranger(enum way way, const struct forgery *f)
{
	uint8_t data[NIC_FRAME_MAX], payload[LEN] = "forged";
	struct packet p = {.op = op_get(f->opcode), .v4 = true, .hop_limit = 64};
	uint16_t port = 0;
	unsigned len;
	int fd;

	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		return 2;
	fd = stranger_socket(way, f, &port);
	if (fd < 0)
		return 3;
	packet_init(&p);
	p.sgid = way == OTHER_PLACE ? device[2].gid : f->from;
	p.dgid = f->to;
	p.udp_sport = port;
	p.dest_qpn = f->qpn;
	p.psn = f->psn;
	p.syndrome = f->syndrome;
	p.msn = 1;
	if (f->opcode == SEND_ONLY) {
		p.payload = payload;
		p.payload_len = LEN;
	}
	len = packet_encode(&p, data);
	for (unsigned i = 0; i < PACKETS; i++)
		if (!stranger_sends(fd, way, f, data + 28, len - 28))
			return 4;
	return 0;
}

static uint64_t port_packets(struct end *e)
{
	uint64_t n;

	pmd_lock(e->engine);
	n = e->engine->host.port->stats.rx_packets;
	pmd_unlock(e->engine);
	return n;
}

/** A stranger sends its packets; wait until the engine has received all of them. */
static void attack(struct end *victim, enum way way, const struct forgery *f)
{
	uint64_t before = port_packets(victim), until = pmd_now_ns() + LONG_NS;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(stranger(way, f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	while (port_packets(victim) < before + PACKETS) {
		assert_true(pmd_now_ns() < until);
		pmd_try_progress(victim->engine);
	}
}

/* ---- its victims ------------------------------------------------------------------------------------------------ */

static uint64_t counter(struct end *e, const char *name)
{
	uint64_t value = 0;

	pmd_lock(e->engine);
	for (unsigned i = 0; i < NIC_CNT_COUNT; i++)
		if (strcmp(nic_counter_name(i), name) == 0)
			value = nic_counters(e->nic)[i];
	pmd_unlock(e->engine);
	return value;
}

/** Wait until the counter `name` has counted all forged packets. attack() also counts packets of the real peer, so it
 * can return before the last forged packets have arrived. */
static void expect_refused(struct end *e, const char *name)
{
	uint64_t until = pmd_now_ns() + LONG_NS;

	while (counter(e, name) < PACKETS) {
		assert_true(pmd_now_ns() < until);
		pmd_try_progress(e->engine);
	}
	assert_int_equal(counter(e, name), PACKETS);
}

static enum nic_qp_state state_of(struct end *e)
{
	enum nic_qp_state state;

	pmd_lock(e->engine);
	state = nic_qp_state(e->qp);
	pmd_unlock(e->engine);
	return state;
}

/** Exchange a message, so that each side has taken the other's link. */
static void wait_for_links(struct end *a, struct end *b)
{
	uint64_t until = pmd_now_ns() + LONG_NS;

	end_recv(b);
	end_send(a, NIC_WR_SEND, 1, NULL);
	assert_int_equal(end_wait(b, b->rcq, false).status, NIC_WC_SUCCESS);
	assert_int_equal(end_wait(a, a->scq, false).status, NIC_WC_SUCCESS);
	assert_true(pmd_now_ns() < until);
}

/** The message in flight during the attack arrives intact. */
static void expect_message(struct end *a, struct end *b)
{
	struct nic_wc wc = end_wait(b, b->rcq, false);

	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, LEN);
	for (unsigned i = 0; i < LEN; i++)
		assert_int_equal(b->buf[BUF / 2 + i], 0x5a);
	assert_int_equal(end_wait(a, a->scq, false).status, NIC_WC_SUCCESS);
}

/** A SEND has no receive yet, so its PSN stays outstanding. Forged ACKs or NAKs for it are refused, and it arrives when
 * there is a receive. */
static void answers_are_forged(enum way way, uint8_t syndrome, bool links)
{
	struct nic_wc wc;
	struct end a, b;
	struct forgery f;

	ends_open(&a, &device[0], &b, &device[1]);
	wait_for_links(&a, &b);
	f = (struct forgery){.from = b.gid,
			     .to = a.gid,
			     .qpn = nic_qp_num(a.qp),
			     .psn = (a.psn + 1) & 0xffffff,
			     .opcode = ACK,
			     .syndrome = syndrome};
	memset(a.buf, 0x5a, LEN);
	end_send(&a, NIC_WR_SEND, LEN, NULL);
	while (counter(&b, "rcvd_rnr_sent") == 0)
		pmd_try_progress(b.engine);
	attack(&a, way, &f);
	assert_int_equal(state_of(&a), NIC_QPS_RTS);
	assert_int_equal(end_poll(&a, a.scq, &wc), 0);
	if (way != OTHER_PLACE)
		expect_refused(&a, links ? "rx_beside_link" : "rx_local_sport");
	end_recv(&b);
	expect_message(&a, &b);
	end_close(&a);
	end_close(&b);
}

static void requests_are_forged(enum way way)
{
	struct nic_wc wc;
	struct end a, b;
	struct forgery f;

	ends_open(&a, &device[0], &b, &device[1]);
	wait_for_links(&a, &b);
	end_recv(&b);
	f = (struct forgery){.from = a.gid,
			     .to = b.gid,
			     .qpn = nic_qp_num(b.qp),
			     .psn = (a.psn + 1) & 0xffffff,
			     .opcode = SEND_ONLY};
	attack(&b, way, &f);
	assert_int_equal(end_poll(&b, b.rcq, &wc), 0);
	memset(a.buf, 0x5a, LEN);
	end_send(&a, NIC_WR_SEND, LEN, NULL);
	expect_message(&a, &b);
	end_close(&a);
	end_close(&b);
}

static const enum way ways[] = {ANY_PORT, OTHER_PLACE, SPOOFED};

static void stranger__SE_04_forged_naks_fail_no_qp_whose_peer_has_a_link(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		answers_are_forged(ways[i], NAK_FATAL, true);
}

static void stranger__SE_04_forged_acks_complete_nothing_if_the_peer_has_a_link(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		answers_are_forged(ways[i], 0x1f, true);
}

static void stranger__SE_04_forged_sends_reach_no_qp_whose_peer_has_a_link(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		requests_are_forged(ways[i]);
}

/** Without links, packets from a port other than 4791 are still refused. SPOOFED is not tested: only links and keys
 * protect against it. */
static void stranger__SE_04_without_links_other_ports_or_addresses_reach_no_qp(void **state)
{
	(void)state;
	setenv("UROCE_RING", "off", 1);
	for (unsigned i = 0; i < 2; i++) {
		answers_are_forged(ways[i], NAK_FATAL, false);
		answers_are_forged(ways[i], 0x1f, false);
		requests_are_forged(ways[i]);
	}
	unsetenv("UROCE_RING");
}

/* ---- what is listened on ---------------------------------------------------------------------------------------- */

/** Count this process's IP and packet sockets that are bound to the RoCE port of the address; *others: all other such
 * sockets. */
static unsigned sockets_of_process(const struct nic_gid *gid, unsigned *others)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(all);
	for (struct dirent *d = readdir(all); d; d = readdir(all)) {
		int fd = atoi(d->d_name), domain;
		socklen_t len = sizeof(domain);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 ||
		    (domain != AF_INET && domain != AF_INET6 && domain != AF_PACKET))
			continue;
		if (pmd_udp_socket_is(fd, gid))
			n++;
		else
			++*others;
	}
	closedir(all);
	return n;
}

static void stranger__SE_11_sockets_are_bound_to_configured_addresses_only(void **state)
{
	unsigned before = 0, others = 0, already = sockets_of_process(&device[0].gid, &before);
	struct nic_gid gid;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	assert_int_equal(sockets_of_process(&device[0].gid, &others), already + 1);
	assert_int_equal(others, before);
	pmd_lock(a.engine);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		assert_int_equal(nic_gid_get(a.nic, i, &gid), 0);
		assert_true(pmd_gid_is_none(&gid) || pmd_gid_equal(&gid, &device[0].gid));
	}
	pmd_unlock(a.engine);
	end_close(&a);
}

static void stranger__SE_11_wildcard_and_multicast_addresses_are_refused(void **state)
{
	static const char *const specs[] = {"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"};
	struct pmd_device one[PMD_DEVICES_MAX];
	char err[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		err[0] = '\0';
		assert_true(pmd_devices_parse(specs[i], one, PMD_DEVICES_MAX, err, sizeof(err)) < 0);
		assert_true(err[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stranger__SE_04_forged_naks_fail_no_qp_whose_peer_has_a_link),
		cmocka_unit_test(stranger__SE_04_forged_acks_complete_nothing_if_the_peer_has_a_link),
		cmocka_unit_test(stranger__SE_04_forged_sends_reach_no_qp_whose_peer_has_a_link),
		cmocka_unit_test(stranger__SE_04_without_links_other_ports_or_addresses_reach_no_qp),
		cmocka_unit_test(stranger__SE_11_sockets_are_bound_to_configured_addresses_only),
		cmocka_unit_test(stranger__SE_11_wildcard_and_multicast_addresses_are_refused),
	};

	if (ends_devices(device, 3, NULL) != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
