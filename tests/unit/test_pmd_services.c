/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_services.c - services: pmd/control/services.c, links to them, and how the daemon has the kernel steer
 * datagrams to them. The functions are processes of their own. No NIC has a QP for the services' QPNs, so a datagram
 * has arrived at a function when that function's NIC counts a packet to an unknown QPN.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "nic_rdm.h"
#include "part.h"
#include "proto.h"

#define PARTS	  5
#define PORT	  1000
#define PATIENT_S 20
#define PAUSE_US  2000
#define IN_A_ROW  400

static struct pmd_device device[2];
static struct part part[PARTS];

/** Switch to unused devices, so that functions are numbered from the beginning: numbers follow the order of joining. */
static int devices_anew(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		device[i].gid.raw[15] = (uint8_t)(device[i].gid.raw[15] + 2);
	return 0;
}

/** Start n processes: the last one on device 1, all others on device 0. */
static void start(unsigned n, bool rings)
{
	for (unsigned i = 0; i < n; i++) {
		part_start(&part[i], device);
		assert_int_equal(part_do(&part[i], PART_OPEN, i + 1 == n, rings), 0);
	}
}

static void end(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		part_end(&part[i]);
}

static int64_t serve(unsigned i, uint16_t port)
{
	return part_do(&part[i], PART_SERVE, port, 0);
}

static int64_t count(unsigned i, enum part_order what)
{
	return part_do(&part[i], what, 0, 0);
}

/** Wait until count `what` of part i is at least `least`. */
static void await_count(unsigned i, enum part_order what, int64_t least)
{
	for (unsigned tries = 0; count(i, what) < least; tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		usleep(PAUSE_US);
	}
}

/** Send datagrams to the service of device 0 until one takes a link; this one must reach the owner. */
static void arrives_by_link(unsigned from, unsigned owner, uint16_t port)
{
	int64_t packets = count(owner, PART_NO_QP), by_link = count(owner, PART_BY_LINK);

	for (unsigned tries = 0; part_do(&part[from], PART_SEND, 0, port) == 0; tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		usleep(PAUSE_US); /* the daemon can be late to announce the owner */
	}
	await_count(owner, PART_BY_LINK, by_link + 1);
	assert_int_equal(count(owner, PART_BY_LINK), by_link + 1);
	assert_true(count(owner, PART_NO_QP) > packets);
}

/* ---- the daemon ------------------------------------------------------------------------------------------------- */

static int daemon_connect(void)
{
	struct proto_name name;

	pmd_name_daemon(&device[0].gid, &name);
	return proto_connect(&name);
}

/** @return the status text that device 0's daemon gives to tools. */
static const char *daemon_status(void)
{
	static uint64_t room[PROTO_TEXT_MAX / 8];
	static char text[PROTO_TEXT_MAX + 1];
	struct proto_msg m = {.data = room, .room = sizeof(room)};
	int fd = daemon_connect();

	assert_true(fd >= 0);
	assert_int_equal(proto_send(fd, PROTO_TOOL, "status", 6, NULL, 0), 0);
	assert_int_equal(proto_recv_wait(fd, &m, PATIENT_S * 1000), 1);
	assert_true(proto_msg_is(&m, PROTO_TEXT, m.len, 0));
	memcpy(text, room, m.len);
	text[m.len] = 0;
	close(fd);
	return text;
}

/** Send datagrams until the owner's count `what` has increased: for a while they can be lost. */
static void arrives_at_last(unsigned from, unsigned owner, uint16_t port, enum part_order what)
{
	int64_t before = count(owner, what);

	for (unsigned tries = 0; count(owner, what) == before; tries++) {
		if (tries == PATIENT_S * 1000000 / PAUSE_US)
			fail_msg("a datagram does not arrive; the daemon says: %s", daemon_status());
		part_do(&part[from], PART_SEND, 0, port);
		usleep(PAUSE_US);
	}
}

/** @return one of the daemon's counters. */
static uint64_t daemon_counter(const char *name)
{
	const char *at = strstr(daemon_status(), name);

	assert_non_null(at);
	return strtoull(at + strlen(name) + 3, NULL, 10); /* skip `": ` */
}

static void daemon_kill(void)
{
	struct ucred daemon;
	int fd = daemon_connect();

	assert_true(fd >= 0);
	assert_int_equal(proto_peer(fd, &daemon), 0);
	assert_int_equal(kill(daemon.pid, SIGKILL), 0);
	close(fd);
	while ((fd = daemon_connect()) >= 0) {
		close(fd);
		usleep(PAUSE_US);
	}
}

/* ---- ownership of ports ----------------------------------------------------------------------------------------- */

static void services__a_port_has_one_server_on_a_device(void **state)
{
	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	assert_int_equal(serve(0, PORT), -EADDRINUSE);
	assert_int_equal(serve(1, PORT), -EADDRINUSE);
	assert_int_equal(serve(2, PORT), PORT);
	part_do(&part[1], PART_UNSERVE, PORT, 0); /* part 1 does not own the port */
	assert_int_equal(serve(1, PORT), -EADDRINUSE);
	part_do(&part[0], PART_UNSERVE, PORT, 0);
	assert_int_equal(serve(1, PORT), PORT);
	assert_int_equal(serve(0, PORT), -EADDRINUSE);
	assert_int_equal(serve(0, 65535), -EINVAL); /* its QPN would be that of the multicast QP */
	assert_int_equal(serve(0, NIC_SERVICE_PORT_MAX), NIC_SERVICE_PORT_MAX);
	end(3);
}

static void services__any_port_allocates_an_unused_port_up_to_the_limit(void **state)
{
	static bool taken[65536];

	(void)state;
	start(2, true);
	for (unsigned i = 0; i < PROTO_SERVICES_MAX; i++) {
		int64_t port = serve(0, 0);

		assert_true(port >= PMD_SERVICE_ANY_MIN && port <= (int64_t)NIC_SERVICE_PORT_MAX && !taken[port]);
		taken[port] = true;
	}
	assert_int_equal(serve(0, 0), -ENOSPC);
	assert_int_equal(serve(0, PORT), -ENOSPC);
	end(2);
}

/** A port that was served lately is not given out again soon, because peers can still send to its former server. */
static void services__any_port_does_not_reuse_a_recently_served_port(void **state)
{
	static bool taken[65536];

	(void)state;
	start(1, true);
	for (unsigned i = 0; i < IN_A_ROW; i++) {
		int64_t port = serve(0, 0);

		assert_true(port >= PMD_SERVICE_ANY_MIN && !taken[port]);
		taken[port] = true;
		part_do(&part[0], PART_UNSERVE, port, 0);
	}
	end(1);
}

/** A port becomes free when its server exits or closes its device, even if child processes of the server live on. */
static void services__a_port_is_freed_with_its_server_even_if_a_child_lives(void **state)
{
	int64_t child[2];

	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	assert_int_equal(serve(1, PORT + 1), PORT + 1);
	for (unsigned i = 0; i < 2; i++) {
		child[i] = part_do(&part[i], PART_FORK, 0, 0);
		assert_true(child[i] > 0);
	}
	part_end(&part[0]);
	part_kill(&part[1]);
	for (unsigned i = 0; i < 2; i++)
		part_start(&part[i], device);
	assert_int_equal(part_do(&part[0], PART_OPEN, 0, true), 0);
	assert_int_equal(serve(0, PORT), PORT);
	assert_int_equal(serve(0, PORT + 1), PORT + 1);
	for (unsigned i = 0; i < 2; i++)
		kill((pid_t)child[i], SIGKILL);
	part_kill(&part[1]);
	part_end(&part[0]);
	part_end(&part[2]);
}

/* ---- by links --------------------------------------------------------------------------------------------------- */

static void services__all_functions_of_the_host_send_by_a_link(void **state)
{
	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	for (unsigned from = 0; from < 3; from++)
		for (unsigned i = 0; i < 3; i++)
			arrives_by_link(from, 0, PORT);
	assert_int_equal(count(1, PART_NO_QP) + count(2, PART_NO_QP), 0);
	end(3);
}

static void services__each_has_a_route_of_its_own(void **state)
{
	int64_t path[3], qpn[3];

	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	assert_int_equal(serve(1, PORT + 1), PORT + 1);
	qpn[0] = NIC_SERVICE_QPN + PORT;
	qpn[1] = NIC_SERVICE_QPN + PORT + 1;
	qpn[2] = count(0, PART_NUMBER) << 16;
	for (unsigned i = 0; i < 3; i++) {
		path[i] = part_do(&part[2], PART_ROUTE, 0, qpn[i]);
		assert_true(path[i] > 0);
	}
	assert_true(path[0] != path[1] && path[0] != path[2] && path[1] != path[2]);
	arrives_by_link(2, 0, PORT);
	arrives_by_link(2, 1, PORT + 1);
	end(3);
}

/** An unused link to a service is closed; a link to a function is kept. */
static void services__a_link_that_is_not_used_ends(void **state)
{
	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	assert_true(part_do(&part[2], PART_ROUTE, 0, count(0, PART_NUMBER) << 16) > 0);
	for (unsigned round = 0; round < 3; round++) {
		arrives_by_link(2, 0, PORT);
		for (unsigned tries = 0; count(2, PART_REST) > 1; tries++) {
			assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
			usleep(PAUSE_US);
		}
		assert_int_equal(count(2, PART_REST), 1);
	}
	end(3);
}

static void services__a_port_may_go_to_another_function(void **state)
{
	(void)state;
	start(4, true);
	for (unsigned round = 0; round < 3; round++) {
		unsigned owner = round % 2;

		assert_int_equal(serve(owner, PORT), PORT);
		arrives_at_last(3, owner, PORT, PART_BY_LINK);
		part_do(&part[owner], PART_UNSERVE, PORT, 0);
	}
	assert_int_equal(serve(0, PORT), PORT);
	arrives_at_last(3, 0, PORT, PART_NO_QP);
	part_kill(&part[0]);
	assert_int_equal(serve(1, PORT), PORT);
	arrives_at_last(3, 1, PORT, PART_BY_LINK);
	assert_int_equal(count(2, PART_NO_QP), 0);
	for (unsigned i = 1; i < 4; i++)
		part_end(&part[i]);
}

/** Datagrams to unserved ports leave by the network port and leave no state behind. */
static void services__datagrams_to_an_unserved_port_leave_no_state(void **state)
{
	uint64_t before;

	(void)state;
	start(2, true);
	before = daemon_counter("unowned_datagrams");
	for (uint16_t port = PORT; port < PORT + 100; port++)
		assert_int_equal(part_do(&part[1], PART_SEND, 0, port), 0);
	for (unsigned tries = 0; daemon_counter("unowned_datagrams") < before + 100; tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		usleep(PAUSE_US);
	}
	assert_int_equal(count(1, PART_REST), 0);
	assert_int_equal(part_do(&part[1], PART_ROUTE, 0, NIC_SERVICE_QPN), 0);
	assert_int_equal(part_do(&part[1], PART_ROUTE, 0, 0xffffff), 0);
	assert_int_equal(count(0, PART_NO_QP) + count(0, PART_MISROUTED), 0);
	assert_int_equal(serve(0, PORT), PORT);
	arrives_at_last(1, 0, PORT, PART_NO_QP);
	end(2);
}

/** If a function receives packets for another function, for example because the kernel's GRO has merged packets for the
 * two functions, it forwards them. */
static void services__a_misrouted_packet_is_forwarded_to_its_function(void **state)
{
	(void)state;
	start(3, true);
	assert_int_equal(serve(0, PORT), PORT);
	assert_true(part_do(&part[1], PART_FORWARD, 0, NIC_SERVICE_QPN + PORT));
	await_count(0, PART_BY_LINK, 1);
	/* A stray to an unserved port goes to this NIC: the first when the daemon has answered, later ones at once. */
	assert_true(part_do(&part[1], PART_FORWARD, 0, NIC_SERVICE_QPN + PORT + 1));
	assert_int_equal(count(1, PART_NO_QP), 1);
	assert_false(part_do(&part[1], PART_FORWARD, 0, NIC_SERVICE_QPN + PORT + 1));
	end(3);
}

/** An unused link that was made only to pass on stray packets is closed; one that our own traffic uses stays. */
static void services__an_unused_link_for_stray_packets_is_closed(void **state)
{
	int64_t qpn;

	(void)state;
	start(3, true);
	qpn = count(0, PART_NUMBER) << 16 | 5;
	for (unsigned round = 0; round < 2; round++) {
		assert_true(part_do(&part[1], PART_FORWARD, 0, qpn));
		await_count(0, PART_BY_LINK, round + 1);
		for (unsigned tries = 0; count(1, PART_REST) > 0; tries++) {
			assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
			usleep(PAUSE_US);
		}
	}
	assert_true(part_do(&part[1], PART_FORWARD, 0, qpn));
	assert_true(part_do(&part[1], PART_ROUTE, 0, qpn) > 0);
	await_count(0, PART_BY_LINK, 3);
	for (unsigned i = 0; i < 5; i++) {
		usleep(10 * PAUSE_US);
		assert_int_equal(count(1, PART_REST), 1);
	}
	end(3);
}

/* ---- by the port ------------------------------------------------------------------------------------------------ */

/** When a function is granted a port, the kernel already steers the port's datagrams to it: not even the first one is
 * lost or goes elsewhere. */
static void services__the_first_datagram_to_a_new_service_arrives(void **state)
{
	enum { PORTS = 200 };
	int64_t before;

	(void)state;
	start(3, false);
	assert_int_equal(serve(0, PORT), PORT);
	arrives_at_last(2, 0, PORT, PART_NO_QP);
	/* Wait until the last of these datagrams has arrived. */
	for (before = -1; before != count(0, PART_NO_QP); usleep(20 * PAUSE_US))
		before = count(0, PART_NO_QP);
	for (uint16_t i = 1; i <= PORTS; i++) {
		assert_int_equal(serve(0, (uint16_t)(PORT + i)), PORT + i);
		part_do(&part[2], PART_SEND, 0, PORT + i);
		await_count(0, PART_NO_QP, before + i);
	}
	assert_int_equal(daemon_counter("unowned_datagrams"), 0);
	end(3);
}

/** Without links, the kernel delivers a service's datagrams to the function that serves it. */
static void services__without_links_all_functions_send_by_udp(void **state)
{
	(void)state;
	start(4, false);
	assert_int_equal(serve(2, PORT), PORT);
	for (unsigned from = 0; from < 4; from++)
		arrives_at_last(from, 2, PORT, PART_NO_QP);
	assert_int_equal(count(2, PART_BY_LINK), 0);
	assert_true(count(2, PART_BY_PORT) > 0);
	part_do(&part[2], PART_UNSERVE, PORT, 0);
	assert_int_equal(serve(0, PORT), PORT);
	arrives_at_last(3, 0, PORT, PART_NO_QP);
	part_kill(&part[0]);
	assert_int_equal(serve(1, PORT), PORT);
	arrives_at_last(3, 1, PORT, PART_NO_QP);
	assert_int_equal(count(1, PART_BY_LINK), 0);
	for (unsigned i = 1; i < 4; i++)
		part_end(&part[i]);
}

/** A function can start a service while there is no daemon, and a running service survives the daemon's end. */
static void services__start_and_run_without_a_daemon(void **state)
{
	(void)state;
	start(2, false);
	daemon_kill();
	assert_int_equal(serve(0, PORT), PORT);
	arrives_at_last(1, 0, PORT, PART_NO_QP);
	daemon_kill();
	part_start(&part[2], device);
	assert_int_equal(part_do(&part[2], PART_OPEN, 0, 0), 0);
	arrives_at_last(1, 0, PORT, PART_NO_QP);
	arrives_at_last(2, 0, PORT, PART_NO_QP);
	assert_int_equal(serve(2, PORT), -EADDRINUSE);
	end(3);
}

/* ---- false claims ----------------------------------------------------------------------------------------------- */

/** Join as a function that is nothing but a connection to the daemon. @return the connection. */
static int liar_join(void)
{
	struct proto_join join = {.gid = device[0].gid};
	int fd = daemon_connect();
	PROTO_MSG(m);

	assert_true(fd >= 0);
	assert_int_equal(proto_send(fd, PROTO_JOIN, &join, sizeof(join), NULL, 0), 0);
	assert_int_equal(proto_recv_wait(fd, &m, PATIENT_S * 1000), 1);
	assert_int_equal(m.type, PROTO_WELCOME);
	proto_msg_close(&m);
	return fd;
}

static void liar_says(int fd, const uint32_t *ports, unsigned n, unsigned refused)
{
	uint64_t before = daemon_counter("refused_services");

	assert_int_equal(proto_send(fd, PROTO_SERVICES, ports, n * sizeof(ports[0]), NULL, 0), 0);
	for (unsigned tries = 0; daemon_counter("refused_services") < before + refused; tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		usleep(PAUSE_US);
	}
	assert_int_equal(daemon_counter("refused_services"), before + refused);
}

/** Wait until the daemon's status shows a function with these services. */
static void daemon_says(const char *services)
{
	for (unsigned tries = 0; !strstr(daemon_status(), services); tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		usleep(PAUSE_US);
	}
}

static void services__the_daemon_status_lists_served_ports(void **state)
{
	(void)state;
	start(2, true);
	daemon_says("\"services\": []");
	serve(0, PORT);
	daemon_says("\"services\": [1000]");
	serve(0, PORT + 7);
	daemon_says("\"services\": [1000, 1007]");
	part_do(&part[0], PART_UNSERVE, PORT, 0);
	daemon_says("\"services\": [1007]");
	end(2);
}

/** A false claim to a port has no effect, whether it comes before or after the real server's claim, and even if the
 * daemon asks all functions again. */
static void services__a_false_claim_to_a_port_has_no_effect(void **state)
{
	const uint32_t ports[] = {PORT + 1, PORT, PORT, PORT + 2};
	int liar;

	(void)state;
	part_start(&part[0], device);
	assert_int_equal(part_do(&part[0], PART_OPEN, 0, false), 0);
	liar = liar_join(); /* it joins first, so its number is lower than its victims' */
	for (unsigned i = 1; i < 4; i++) {
		part_start(&part[i], device);
		assert_int_equal(part_do(&part[i], PART_OPEN, i == 3, false), 0);
	}
	liar_says(liar, ports, 1, 1); /* refused although nobody serves the port yet */
	assert_int_equal(serve(1, PORT), PORT);
	assert_int_equal(serve(2, PORT + 1), PORT + 1);
	arrives_at_last(3, 1, PORT, PART_BY_PORT);
	arrives_at_last(3, 2, PORT + 1, PART_BY_PORT);
	liar_says(liar, ports, 4, 3);
	for (unsigned i = 0; i < 20; i++) { /* no datagram is lost or goes elsewhere */
		int64_t before = count(1, PART_NO_QP);

		part_do(&part[3], PART_SEND, 0, PORT);
		await_count(1, PART_NO_QP, before + 1);
	}
	arrives_at_last(3, 2, PORT + 1, PART_BY_PORT);
	part_do(&part[1], PART_UNSERVE, PORT, 0);
	liar_says(liar, ports + 1, 1, 1);
	assert_int_equal(serve(2, PORT), PORT);
	arrives_at_last(3, 2, PORT, PART_BY_PORT);
	close(liar);
	end(4);
}

/** The kernel can steer only a limited number of ports. One of the functions with too many ports gets the datagrams to
 * all unsteered ports and forwards them; functions with few ports are not affected. */
static void services__a_function_forwards_datagrams_to_unsteered_ports(void **state)
{
	int64_t ports[2][PROTO_SERVICES_MAX];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		part_start(&part[i], device);
		assert_int_equal(part_do(&part[i], PART_OPEN, i == 4, i != 4),
				 0); /* without links, the sender uses the port */
	}
	for (unsigned i = 0; i < 2; i++)
		for (unsigned n = 0; n < PROTO_SERVICES_MAX; n++)
			assert_true((ports[i][n] = serve(i, 0)) > 0);
	assert_int_equal(serve(2, PORT), PORT);
	assert_int_equal(serve(3, PORT + 1), PORT + 1);
	for (unsigned i = 2; i < 4; i++) {
		arrives_at_last(4, i, (uint16_t)(PORT + i - 2), PART_BY_PORT);
		assert_int_equal(count(i, PART_MISROUTED), 0);
	}
	for (unsigned tries = 0; count(0, PART_BY_LINK) == 0; tries++) { /* at least one of these ports is forwarded */
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US / 10);
		for (unsigned n = 0; n < PROTO_SERVICES_MAX; n++)
			part_do(&part[4], PART_SEND, 0, ports[0][n]);
		usleep(PAUSE_US);
	}
	assert_true(count(0, PART_BY_PORT) > 0);
	assert_true(count(1, PART_MISROUTED) > 0);
	assert_int_equal(daemon_counter("unsteered_services"), 0);
	end(5);
}

#define TEST(name) cmocka_unit_test_setup(name, devices_anew)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(services__a_port_has_one_server_on_a_device),
		TEST(services__any_port_allocates_an_unused_port_up_to_the_limit),
		TEST(services__any_port_does_not_reuse_a_recently_served_port),
		TEST(services__a_port_is_freed_with_its_server_even_if_a_child_lives),
		TEST(services__all_functions_of_the_host_send_by_a_link),
		TEST(services__each_has_a_route_of_its_own),
		TEST(services__a_link_that_is_not_used_ends),
		TEST(services__a_port_may_go_to_another_function),
		TEST(services__datagrams_to_an_unserved_port_leave_no_state),
		TEST(services__a_misrouted_packet_is_forwarded_to_its_function),
		TEST(services__an_unused_link_for_stray_packets_is_closed),
		TEST(services__the_first_datagram_to_a_new_service_arrives),
		TEST(services__without_links_all_functions_send_by_udp),
		TEST(services__start_and_run_without_a_daemon),
		TEST(services__the_daemon_status_lists_served_ports),
		TEST(services__a_false_claim_to_a_port_has_no_effect),
		TEST(services__a_function_forwards_datagrams_to_unsteered_ports),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
