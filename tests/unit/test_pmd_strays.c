/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_strays.c - what packets of strangers cost an engine: pmd/link/strays.c, pmd/base/limiter.h, and what the
 * kernel UDP port learns about its peers. The stranger is a socket on a loopback address that is no device; its packets
 * are well-formed unless a test says otherwise.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "limiter.h"
#include "links_priv.h"
#include "nic_rdm.h"
#include "port_udp.h"
#include "stranger.h"

#define SERVED	  1000
#define FIRST	  2000 /* the first unserved port */
#define PACKETS	  2000
#define CHUNK	  50 /* so many packets fit into any socket's buffer */
#define PAUSE_US  500
#define PATIENT_S 20

static struct pmd_device device[2];
static struct end end;
static int stranger = -1;

static int setup(void **state)
{
	struct sockaddr_in6 to, from;
	socklen_t len = pmd_gid_sockaddr(&device[0].gid, 0, &to);
	uint16_t port = SERVED;

	(void)state;
	end_open(&end, &device[0]);
	assert_int_equal(pmd_service_open(end.engine, &port),
			 0); /* a function with a service also gets the datagrams to unserved ports */
	stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(stranger >= 0);
	pmd_gid_sockaddr(&device[1].gid, 0, &from);
	assert_int_equal(bind(stranger, (struct sockaddr *)&from, len), 0);
	assert_int_equal(connect(stranger, (struct sockaddr *)&to, len), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(stranger);
	end_close(&end);
	return 0;
}

static uint16_t stranger_port(void)
{
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	assert_int_equal(getsockname(stranger, (struct sockaddr *)&own, &len), 0);
	return ntohs(own.sin_port);
}

static uint64_t seen(void)
{
	uint64_t n;

	pmd_lock(end.engine);
	n = end.engine->host.port->stats.rx_datagrams;
	pmd_unlock(end.engine);
	return n;
}

/** Send packets to `n` QPNs starting at `qpn`, and wait now and then until the engine has received them. */
static void send_to_many(uint8_t opcode, uint32_t qpn, unsigned n, bool spoilt)
{
	uint8_t ip[STRANGER_BYTES];
	uint64_t before = seen();

	for (unsigned i = 0; i < n; i++) {
		stranger_packet(ip, &device[1].gid, stranger_port(), &device[0].gid, opcode, qpn + i);
		ip[STRANGER_BYTES - 1] ^= spoilt;
		assert_int_equal(send(stranger, ip + STRANGER_CARRIER, STRANGER_BYTES - STRANGER_CARRIER, 0),
				 STRANGER_BYTES - STRANGER_CARRIER);
		for (unsigned tries = 0; (i + 1) % CHUNK == 0 && seen() < before + i + 1; tries++) {
			assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
			usleep(PAUSE_US);
		}
	}
}

/** @return the port's counters; the lock makes sure that the step which received the last packet is over. */
static struct pmd_port_stats stats(uint64_t *no_qp, uint64_t *bad_icrc)
{
	struct pmd_port_stats s;

	pmd_lock(end.engine);
	s = end.engine->host.port->stats;
	*no_qp = nic_counters(end.nic)[NIC_CNT_rx_no_qp];
	*bad_icrc = nic_counters(end.nic)[NIC_CNT_rx_icrc_encapsulated];
	assert_int_equal(end.engine->host.links ? end.engine->host.links->n_out : 0, 0);
	pmd_unlock(end.engine);
	assert_in_range(s.lock_packets_max, 1, PMD_STEP_PACKETS_MAX);
	return s;
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void strays__rc_packets_to_a_service_are_refused(void **state)
{
	uint64_t no_qp, bad_icrc;
	struct pmd_port_stats s;

	(void)state;
	send_to_many(STRANGER_RC_SEND, NIC_SERVICE_QPN + FIRST, PACKETS, false);
	s = stats(&no_qp, &bad_icrc);
	assert_int_equal(s.rx_misrouted, PACKETS);
	assert_int_equal(s.rx_misrouted_refused, PACKETS);
	assert_int_equal(s.rx_misrouted_limited + s.rx_misrouted_waiting + s.rx_misrouted_dropped + no_qp, 0);
}

static void strays__packets_with_a_bad_icrc_are_not_forwarded(void **state)
{
	uint64_t no_qp, bad_icrc;
	struct pmd_port_stats s;

	(void)state;
	send_to_many(STRANGER_UD_SEND, NIC_SERVICE_QPN + FIRST, PACKETS, true);
	s = stats(&no_qp, &bad_icrc);
	assert_int_equal(s.rx_misrouted, PACKETS);
	assert_int_equal(bad_icrc, PACKETS);
	assert_int_equal(s.rx_misrouted_limited + s.rx_misrouted_waiting + s.rx_misrouted_dropped + no_qp, 0);
}

static void strays__packets_to_port_0_or_the_multicast_qpn_are_refused(void **state)
{
	uint64_t no_qp, bad_icrc;
	struct pmd_port_stats s;

	(void)state;
	send_to_many(STRANGER_UD_SEND, NIC_SERVICE_QPN, CHUNK, false);
	s = stats(&no_qp, &bad_icrc);
	/* These packets go to ports 0 to CHUNK - 1. Only port 0 is refused; the others are just unserved. */
	assert_int_equal(s.rx_misrouted_refused, 1);
	for (unsigned i = 0; i < CHUNK; i++)
		send_to_many(STRANGER_UD_SEND, NIC_SERVICE_QPN + NIC_SERVICE_PORT_MAX + 1, 1, false);
	while (seen() < 2 * CHUNK)
		usleep(PAUSE_US);
	s = stats(&no_qp, &bad_icrc);
	assert_int_equal(s.rx_misrouted_refused, 1 + CHUNK);
}

/* ---- what is allowed -------------------------------------------------------------------------------------------- */

/** Each of these packets would need a connection to the daemon to ask which function serves the port: such connections
 * are limited. */
static void strays__daemon_connections_for_unserved_ports_are_rate_limited(void **state)
{
	static struct link_route routes[2][ROUTES];
	struct pmd_links *l = end.engine->host.links;
	uint64_t no_qp, bad_icrc, start_ns = pmd_now_ns(), allowed;
	struct pmd_port_stats s;

	(void)state;
	if (l)
		memcpy(routes[0], l->routes, sizeof(l->routes));
	send_to_many(STRANGER_UD_SEND, NIC_SERVICE_QPN + FIRST, PACKETS, false);
	s = stats(&no_qp, &bad_icrc);
	allowed = PMD_LIMITER_BURST + 1 + (pmd_now_ns() - start_ns) / PMD_LIMITER_NS;
	assert_int_equal(s.rx_misrouted, PACKETS);
	assert_int_equal(s.rx_misrouted_limited + s.rx_misrouted_waiting + s.rx_misrouted_dropped + no_qp, PACKETS);
	assert_in_range(no_qp, 1, allowed); /* passed to the NIC, because nobody serves their ports */
	assert_int_equal(s.rx_misrouted_refused + s.rx_misrouted_waiting + bad_icrc, 0);
	if (l) { /* the NIC's own routes are kept */
		memcpy(routes[1], l->routes, sizeof(l->routes));
		assert_memory_equal(routes[0], routes[1], sizeof(routes[0]));
	}
}

/** After the daemon has said that nobody serves a port, further packets to that port need no new connection. */
static void strays__the_daemon_is_queried_once_for_an_unserved_port(void **state)
{
	uint64_t no_qp, bad_icrc;
	struct pmd_port_stats s;

	(void)state;
	/* Each packet arrives alone. With a connection for each, the limiter would refuse some of them. */
	for (unsigned i = 1; i <= CHUNK; i++) {
		send_to_many(STRANGER_UD_SEND, NIC_SERVICE_QPN + FIRST, 1, false);
		while (seen() < i)
			usleep(PAUSE_US);
	}
	s = stats(&no_qp, &bad_icrc);
	assert_int_equal(s.rx_misrouted_waiting + s.rx_misrouted_limited + no_qp, CHUNK);
	assert_int_equal(s.rx_misrouted_limited + s.rx_misrouted_dropped, 0);
}

static void limiter__allows_a_burst_and_then_a_fixed_rate(void **state)
{
	struct pmd_limiter l = {0};
	uint64_t now_ns = 1000000000000;
	unsigned n = 0;

	(void)state;
	while (pmd_limiter_take(&l, now_ns))
		n++;
	assert_int_equal(n, PMD_LIMITER_BURST);
	for (unsigned i = 0; i < 3 * PMD_LIMITER_RATE; i++) {
		assert_false(pmd_limiter_take(&l, now_ns + PMD_LIMITER_NS - 1));
		now_ns += PMD_LIMITER_NS;
		assert_true(pmd_limiter_take(&l, now_ns));
	}
	assert_false(pmd_limiter_take(&l, now_ns - 1000)); /* on a CPU whose clock is behind */
	assert_true(pmd_limiter_take(&l, now_ns + PMD_LIMITER_NS));
	now_ns += 3600 * 1000000000ull;
	for (n = 0; pmd_limiter_take(&l, now_ns);)
		n++;
	assert_int_equal(n, PMD_LIMITER_BURST);
}

/* ---- what kind of peer ------------------------------------------------------------------------------------------ */

static bool is_own_kind(void)
{
	bool known;

	pmd_lock(end.engine);
	known = udp_peer_find((struct port_udp *)end.engine->host.port, &device[1].gid) != NULL;
	pmd_unlock(end.engine);
	return known;
}

/** Other implementations cannot receive segmented runs, so a packet that no QP accepted must not enable runs to its
 * sender. */
static void peers__a_refused_packet_does_not_mark_its_sender_as_uroce(void **state)
{
	(void)state;
	send_to_many(STRANGER_UD_SEND, nic_qp_num(end.qp), CHUNK, false);
	send_to_many(STRANGER_RC_SEND, nic_qp_num(end.qp), CHUNK, false);
	assert_false(is_own_kind());
}

/** A packet that no QP accepted must not disable segmented runs to a peer. */
static void peers__a_refused_packet_does_not_unmark_a_uroce_peer(void **state)
{
	struct nic_rx_frame accepted = {.sgid = device[1].gid, .udp_sport = NIC_UDP_PORT};
	struct sockaddr_in6 from, to;
	socklen_t len = pmd_gid_sockaddr(&device[1].gid, 0, &from);
	uint64_t no_qp, bad_icrc;

	(void)state;
	pmd_lock(end.engine);
	end.engine->host.port->ops->rx_accepted(end.engine->host.port, &accepted);
	pmd_unlock(end.engine);
	close(stranger);
	stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	((struct sockaddr_in *)(void *)&from)->sin_port = 0; /* any source port */
	assert_int_equal(bind(stranger, (struct sockaddr *)&from, len), 0);
	pmd_gid_sockaddr(&device[0].gid, 0, &to);
	assert_int_equal(connect(stranger, (struct sockaddr *)&to, len), 0);
	send_to_many(STRANGER_RC_SEND, nic_qp_num(end.qp), CHUNK, false);
	stats(&no_qp, &bad_icrc);
	assert_true(no_qp > 0);
	assert_int_equal(bad_icrc, 0); /* with a bad ICRC they would have proved nothing */
	assert_true(is_own_kind());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(strays__rc_packets_to_a_service_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(strays__packets_with_a_bad_icrc_are_not_forwarded, setup, teardown),
		cmocka_unit_test_setup_teardown(strays__packets_to_port_0_or_the_multicast_qpn_are_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(strays__daemon_connections_for_unserved_ports_are_rate_limited, setup,
						teardown),
		cmocka_unit_test_setup_teardown(strays__the_daemon_is_queried_once_for_an_unserved_port, setup,
						teardown),
		cmocka_unit_test(limiter__allows_a_burst_and_then_a_fixed_rate),
		cmocka_unit_test_setup_teardown(peers__a_refused_packet_does_not_mark_its_sender_as_uroce, setup,
						teardown),
		cmocka_unit_test_setup_teardown(peers__a_refused_packet_does_not_unmark_a_uroce_peer, setup, teardown),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
