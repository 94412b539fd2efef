/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_cm.c - the connection manager in the engine and the daemon (engine_cm.h). A client and a server, which is a
 * process of its own, exchange messages over queue pair 1; the kernel steers each message to the right process. The
 * meaning of the messages is tested in test_cm_*.c.
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
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "ends.h"
#include "engine_cm.h"
#include "nic_cm.h"
#include "nic_gsi.h"
#include "proto.h"

#define PORT	   7471
#define FIRST_QPN  0x123456
#define MANY	   64 /* connections */
#define PATIENCE_S 20
#define SECOND_MS  1000
#define PAUSE_US   1000
#define QUESTION   "who are you?"
#define ANSWER	   "the server"

static struct pmd_device device[2];

/* ---- one side ------------------------------------------------------------------------------------------------- */

/** In the client's process, the client's end of the connection; in the server's process, the server's end. */
static struct {
	struct pmd_engine *engine;
	struct nic_cm *cm;
	struct pmd_cm_port *port;
	struct nic_cm_id *id;
	unsigned count[NIC_CM_EVENTS]; /* atomic */
	unsigned reason;	       /* of the last REJ */
	uint32_t qpn;		       /* of the next connection */
	char private_data[64];	       /* of the last REQ or REP */
} side;

static void on_event(void *ctx, const struct nic_cm_event *event)
{
	const struct nic_cm_accept accept = {.qpn = side.qpn,
					     .starting_psn = 7,
					     .rnr_retry_count = 7,
					     .private_data = ANSWER,
					     .private_len = sizeof(ANSWER)};

	assert_ptr_equal(ctx, &side);
	switch (event->type) {
	case NIC_CM_EVENT_REQ:
		memcpy(side.private_data, event->private_data, sizeof(side.private_data));
		side.id = event->id;
		side.qpn++;
		assert_int_equal(nic_cm_accept(event->id, &accept), 0);
		break;
	case NIC_CM_EVENT_REP:
		memcpy(side.private_data, event->private_data, sizeof(side.private_data));
		assert_in_range(event->rep.remote_qpn, FIRST_QPN, FIRST_QPN + MANY);
		assert_int_equal(nic_cm_establish(event->id, NULL, 0), 0);
		break;
	case NIC_CM_EVENT_REJ:
		side.reason = event->rej.reason;
		break;
	case NIC_CM_EVENT_DREQ:
		nic_cm_disconnect(event->id, NULL, 0);
		break;
	default:
		break;
	}
	__atomic_fetch_add(&side.count[event->type], 1, __ATOMIC_RELEASE);
}

static void side_open(const struct pmd_device *of)
{
	char err[256] = "";

	memset(&side, 0, sizeof(side));
	side.qpn = FIRST_QPN;
	assert_int_equal(pmd_open(of, NULL, NULL, &side.engine, err, sizeof(err)), 0);
	assert_int_equal(pmd_cm_open(side.engine, on_event, &side, &side.cm), 0);
}

static int side_bind(uint16_t port, unsigned flags)
{
	static const struct nic_gid any;

	return pmd_cm_bind(side.engine, NIC_CM_PS_TCP, &any, AF_INET, flags, &port, &side.port);
}

static int side_listen(uint16_t port)
{
	const struct nic_cm_listen listen = {.service_id = nic_cm_service_id(NIC_CM_PS_TCP, port)};
	struct nic_cm_id *listener;
	int rc = side_bind(port, 0);

	if (rc != 0)
		return rc;
	pmd_lock(side.engine);
	rc = nic_cm_listen(side.cm, &listen, &listener);
	pmd_unlock(side.engine);
	return rc ? rc : pmd_cm_listen(side.engine, side.port);
}

static void side_connect(const struct nic_gid *from, const struct nic_gid *to, uint16_t port)
{
	const struct nic_cm_connect connect = {.service_id = nic_cm_service_id(NIC_CM_PS_TCP, port),
					       .route = {.own = *from, .peer = *to},
					       .qpn = side.qpn++, /* a REQ from the same QP would be refused as stale */
					       .starting_psn = 9,
					       .mtu = NIC_MTU_1024,
					       .retry_count = 7,
					       .rnr_retry_count = 7,
					       .packet_life = 10,
					       .remote_cm_response_timeout = 17, /* half a second */
					       .local_cm_response_timeout = 17,
					       .max_cm_retries = 7,
					       .private_data = QUESTION,
					       .private_len = sizeof(QUESTION)};

	pmd_lock(side.engine);
	assert_int_equal(nic_cm_connect(side.cm, &connect, &side.id), 0);
	pmd_doorbell(side.engine);
	pmd_unlock(side.engine);
}

static void side_disconnect(void)
{
	pmd_lock(side.engine);
	assert_int_equal(nic_cm_disconnect(side.id, NULL, 0), 0);
	pmd_doorbell(side.engine);
	pmd_unlock(side.engine);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/** Wait for `count` events of a type. @return how long it took, ms. */
static uint64_t await_count(enum nic_cm_event_type type, unsigned count)
{
	uint64_t start = now_ms();

	while (__atomic_load_n(&side.count[type], __ATOMIC_ACQUIRE) < count) {
		assert_true(now_ms() - start < PATIENCE_S * 1000);
		usleep(PAUSE_US);
	}
	return now_ms() - start;
}

/** Wait for the first event of a type. @return how long it took, ms. */
static uint64_t await(enum nic_cm_event_type type)
{
	return await_count(type, 1);
}

/** Whether the last REQ or REP had this private data. */
static bool was_told(const char *text)
{
	bool was;

	pmd_lock(side.engine);
	was = strcmp(side.private_data, text) == 0;
	pmd_unlock(side.engine);
	return was;
}

/** Wait for the answer to a request: REP or REJ. */
static void await_answer(void)
{
	uint64_t start = now_ms();

	while (__atomic_load_n(&side.count[NIC_CM_EVENT_REP], __ATOMIC_ACQUIRE) +
		       __atomic_load_n(&side.count[NIC_CM_EVENT_REJ], __ATOMIC_ACQUIRE) ==
	       0) {
		assert_true(now_ms() - start < PATIENCE_S * 1000);
		usleep(PAUSE_US);
	}
}

/* ---- the server ----------------------------------------------------------------------------------------------- */

enum order { LISTEN, BIND, BIND_SHARED, UNBIND, AWAIT, AWAIT_MANY, DISCONNECT, LEAVE };

static struct server {
	pid_t pid;
	int to, from;
} server;

static int server_obey(enum order order, int argument)
{
	switch (order) {
	case LISTEN:
		return side_listen((uint16_t)argument);
	case BIND:
		return side_bind((uint16_t)argument, 0);
	case BIND_SHARED:
		return side_bind((uint16_t)argument, PMD_CM_REUSE);
	case UNBIND:
		pmd_cm_unbind(side.engine, side.port);
		return 0;
	case AWAIT:
		await((enum nic_cm_event_type)argument);
		return was_told(QUESTION);
	case AWAIT_MANY:
		await_count((enum nic_cm_event_type)argument, MANY);
		return 0;
	case DISCONNECT:
		side_disconnect();
		return 0;
	default:
		pmd_close(side.engine);
		return 0;
	}
}

static void server_run(const struct pmd_device *of, int in, int out)
{
	int order[2], result;

	alarm(100);
	side_open(of);
	do {
		if (read(in, order, sizeof(order)) != sizeof(order))
			_exit(1);
		result = server_obey((enum order)order[0], order[1]);
		if (write(out, &result, sizeof(result)) != sizeof(result))
			_exit(1);
	} while (order[0] != LEAVE);
	_exit(0);
}

/** Fork the server's process; call before the client opens its device. */
static void server_start(const struct pmd_device *of)
{
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	server.pid = fork();
	assert_true(server.pid >= 0);
	if (server.pid == 0) {
		close(to[1]);
		close(from[0]);
		server_run(of, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	server.to = to[1];
	server.from = from[0];
}

static int server_do(enum order order, int argument)
{
	const int message[2] = {(int)order, argument};
	int result;

	assert_int_equal(write(server.to, message, sizeof(message)), sizeof(message));
	assert_int_equal(read(server.from, &result, sizeof(result)), sizeof(result));
	return result;
}

static void server_reap(void)
{
	waitpid(server.pid, NULL, 0);
	close(server.to);
	close(server.from);
}

static void server_kill(void)
{
	assert_int_equal(kill(server.pid, SIGKILL), 0);
	server_reap();
}

static void server_leave(void)
{
	server_do(LEAVE, 0);
	server_reap();
}

/** A server on device `of`, a client on device 0, and a connection between them. */
static void connected(unsigned of)
{
	server_start(&device[of]);
	assert_int_equal(server_do(LISTEN, PORT), 0);
	side_open(&device[0]);
	side_connect(&device[0].gid, &device[of].gid, PORT);
	await(NIC_CM_EVENT_REP);
	assert_true(was_told(ANSWER));
	assert_int_equal(server_do(AWAIT, NIC_CM_EVENT_RTU), 1);
}

static int devices_anew(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		device[i].gid.raw[15] = (uint8_t)(device[i].gid.raw[15] + 2);
	return 0;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void cm__connects_two_devices(void **state)
{
	(void)state;
	connected(1);
	side_disconnect();
	await(NIC_CM_EVENT_DREP);
	server_do(AWAIT, NIC_CM_EVENT_DREQ);
	server_leave();
	pmd_close(side.engine);
}

static void cm__connects_two_functions_of_a_device(void **state)
{
	(void)state;
	connected(0);
	server_do(DISCONNECT, 0);
	await(NIC_CM_EVENT_DREQ);
	server_do(AWAIT, NIC_CM_EVENT_DREP);
	server_leave();
	pmd_close(side.engine);
}

static void cm__a_request_to_an_unserved_port_is_rejected(void **state)
{
	struct pmd_cm_stats stats;

	(void)state;
	server_start(&device[1]);
	assert_int_equal(server_do(LISTEN, PORT), 0);
	side_open(&device[0]);
	side_connect(&device[0].gid, &device[1].gid, PORT + 1);
	assert_true(await(NIC_CM_EVENT_REJ) < SECOND_MS);
	assert_int_equal(side.reason, NIC_CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(server_do(UNBIND, 0), 0);
	side.count[NIC_CM_EVENT_REJ] = 0;
	side_connect(&device[0].gid, &device[1].gid, PORT);
	await(NIC_CM_EVENT_REJ);
	assert_int_equal(side.reason, NIC_CM_REJ_INVALID_SERVICE_ID);
	pmd_lock(side.engine);
	pmd_cm_stats_get(side.engine, &stats);
	pmd_unlock(side.engine);
	assert_int_equal(stats.cm_rx_mads, 2);
	assert_int_equal(stats.cm_rx_misrouted + stats.cm_rx_not_served + stats.cm_tx_full, 0);
	server_leave();
	pmd_close(side.engine);
}

static void cm__the_client_of_a_killed_server_is_disconnected(void **state)
{
	(void)state;
	for (unsigned of = 0; of < 2; of++) {
		connected(of);
		server_kill();
		assert_true(await(NIC_CM_EVENT_DREQ) < SECOND_MS);
		pmd_close(side.engine);
		devices_anew(NULL);
	}
}

static void cm__the_client_of_a_server_that_closes_is_disconnected(void **state)
{
	(void)state;
	connected(1);
	server_leave();
	assert_true(await(NIC_CM_EVENT_DREQ) < SECOND_MS);
	pmd_close(side.engine);
}

/** A counter of a device's daemon. */
static uint64_t daemon_counter(const struct nic_gid *gid, const char *counter)
{
	static uint64_t room[PROTO_TEXT_MAX / 8];
	struct proto_msg m = {.data = room, .room = sizeof(room) - 1};
	struct proto_name name;
	const char *at;
	int fd;

	pmd_name_daemon(gid, &name);
	fd = proto_connect(&name);
	assert_true(fd >= 0);
	assert_int_equal(proto_send(fd, PROTO_TOOL, "status", 6, NULL, 0), 0);
	assert_int_equal(proto_recv_wait(fd, &m, PATIENCE_S * 1000), 1);
	((char *)room)[m.len] = '\0';
	at = strstr((const char *)room, counter);
	assert_non_null(at);
	close(fd);
	return strtoull(at + strlen(counter) + 3, NULL, 10); /* skip `": ` after the name */
}

/** Wait until a counter of a device's daemon has at least this value. */
static void await_counter(const struct nic_gid *gid, const char *counter, uint64_t value)
{
	uint64_t start = now_ms();

	while (daemon_counter(gid, counter) < value) {
		assert_true(now_ms() - start < PATIENCE_S * 1000);
		usleep(PAUSE_US);
	}
}

/** Messages for a function that has ended are not subject to the daemon's limit on messages from strangers. */
static void cm__the_daemon_ends_many_connections_of_a_killed_server(void **state)
{
	(void)state;
	connected(1);
	for (unsigned i = 1; i < MANY; i++) {
		side_connect(&device[0].gid, &device[1].gid, PORT);
		await_count(NIC_CM_EVENT_REP, i + 1);
	}
	server_do(AWAIT_MANY, NIC_CM_EVENT_RTU);
	server_kill();
	await_count(NIC_CM_EVENT_DREQ, MANY);
	usleep(300 * PAUSE_US); /* our DREPs arrive */
	assert_int_equal(daemon_counter(&device[1].gid, "cm_limited"), 0);
	assert_int_equal(daemon_counter(&device[1].gid, "cm_adopted"), MANY);
	pmd_close(side.engine);
}

/** A port that a function has only bound is not served: the daemon holds the request for a while, then refuses it. */
static void cm__a_request_to_a_port_that_is_only_bound_is_rejected(void **state)
{
	(void)state;
	server_start(&device[1]);
	assert_int_equal(server_do(BIND, PORT), 0);
	side_open(&device[0]);
	side_connect(&device[0].gid, &device[1].gid, PORT);
	await(NIC_CM_EVENT_REJ);
	assert_int_equal(side.reason, NIC_CM_REJ_INVALID_SERVICE_ID);
	assert_true(daemon_counter(&device[1].gid, "cm_early") > 0);
	server_leave();
	pmd_close(side.engine);
}

/** A request that comes a moment before the server listens is not refused. It waits for 0.1 s only, so a slow machine
 * may need several tries. */
static void cm__a_request_shortly_before_its_listener_is_accepted(void **state)
{
	enum { TRIES = 50 };

	(void)state;
	server_start(&device[1]);
	assert_int_equal(server_do(LISTEN, PORT - 1), 0); /* the device is open from here on */
	side_open(&device[0]);
	for (unsigned i = 0; side.count[NIC_CM_EVENT_REP] == 0; i++) {
		uint64_t early = daemon_counter(&device[1].gid, "cm_early");

		assert_true(i < TRIES);
		side.count[NIC_CM_EVENT_REJ] = 0;
		side_connect(&device[0].gid, &device[1].gid, (uint16_t)(PORT + i));
		await_counter(&device[1].gid, "cm_early", early + 1);
		assert_int_equal(server_do(LISTEN, (int)(PORT + i)), 0);
		await_answer();
	}
	assert_true(daemon_counter(&device[1].gid, "cm_handed_on") > 0);
	server_leave();
	pmd_close(side.engine);
}

/** Requests from an unknown address for a service that nobody serves are refused at a bounded rate. Existing
 * connections are not disturbed. */
static void cm__a_flood_of_requests_is_limited(void **state)
{
	enum { REQUESTS = 2000 };
	uint8_t mad[NIC_MAD_LEN] = {1, 7, 2, 3, [17] = 0x10, [24] = 9, [36] = 1, [37] = 6, [38] = 3};
	struct nic_gsi_addr addr = {.own = device[0].gid, .peer = device[1].gid};
	uint8_t packet[NIC_FRAME_MAX];
	struct sockaddr_in6 at;
	uint64_t refused, limited, start = now_ms();
	uint16_t bth;
	uint32_t len;
	int fd;

	(void)state;
	connected(1);
	addr.own.raw[15] = 251; /* an address without a device */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, pmd_gid_sockaddr(&addr.own, 0, &at)), 0);
	len = nic_gsi_build(&addr, mad, packet, &bth);
	for (unsigned i = 0; i < REQUESTS; i++) {
		assert_int_equal(sendto(fd, packet + bth, len - bth, 0, (struct sockaddr *)&at,
					pmd_gid_sockaddr(&addr.peer, 0, &at)),
				 len - bth);
		if (i % 100 == 0)
			usleep(1000);
	}
	do {
		assert_true(now_ms() - start < PATIENCE_S * 1000);
		refused = daemon_counter(&device[1].gid, "cm_refused");
		limited = daemon_counter(&device[1].gid, "cm_limited");
	} while (refused + limited < REQUESTS);
	assert_int_equal(refused + limited, REQUESTS);
	assert_in_range(refused, 1, 16 + (now_ms() - start) / 10 + 1);
	side_disconnect();
	await(NIC_CM_EVENT_DREP);
	server_leave();
	pmd_close(side.engine);
	close(fd);
}

enum { UNSERVED = 0x7000, CM_REQ = 0x10, CM_DREQ = 0x15 };

/** Write the packet of a CM message, as the UDP payload that `fd` sends. @return its length. */
static uint32_t message_build(const struct nic_gsi_addr *addr, uint8_t attr, uint32_t remote_id, uint8_t *payload)
{
	uint8_t mad[NIC_MAD_LEN] = {1, 7, 2, 3, [17] = attr, [27] = 9}, packet[NIC_FRAME_MAX];
	uint16_t bth;
	uint32_t len;

	if (attr == CM_REQ) {
		mad[37] = 6; /* service ID 0x0000000001067000: TCP port UNSERVED */
		mad[36] = 1;
		mad[38] = UNSERVED >> 8;
	} else {
		mad[28] = (uint8_t)(remote_id >> 24);
		mad[31] = (uint8_t)remote_id;
	}
	len = nic_gsi_build(addr, mad, packet, &bth) - bth;
	memcpy(payload, packet + bth, len);
	return len;
}

/** The daemon receives the kernel's merged datagram of a request for an unserved port and a second message. It refuses
 * the request, and what it does with the second message is counted by `counter`: it must not answer that message in
 * place of a function that lives. */
static void second_message(int fd, const struct nic_gsi_addr *addr, uint32_t remote_id, const char *counter)
{
	uint64_t before = daemon_counter(&device[1].gid, counter), sent = daemon_counter(&device[1].gid, "cm_sent");
	uint8_t both[2 * NIC_FRAME_MAX];
	struct sockaddr_in6 at;
	uint32_t len = message_build(addr, CM_REQ, 0, both);
	int segment = (int)len;

	len += message_build(addr, CM_DREQ, remote_id, both + len);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)), 0);
	assert_int_equal(sendto(fd, both, len, 0, (struct sockaddr *)&at, pmd_gid_sockaddr(&addr->peer, 0, &at)), len);
	await_counter(&device[1].gid, counter, before + 1);
	await_counter(&device[1].gid, "cm_sent", sent + 1);
	usleep(300 * PAUSE_US); /* longer than the request waits */
	assert_int_equal(daemon_counter(&device[1].gid, "cm_sent"), sent + 1);
}

static void cm__the_daemon_answers_for_no_function_that_lives(void **state)
{
	struct nic_gsi_addr addr = {.own = device[0].gid, .peer = device[1].gid};
	struct sockaddr_in6 at;
	int fd;

	(void)state;
	connected(1);
	addr.own.raw[15] = 251; /* an address without a device */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, pmd_gid_sockaddr(&addr.own, 0, &at)), 0);
	second_message(fd, &addr, 1 << 24 | 5, "cm_handed_on"); /* the server is function 1 */
	second_message(fd, &addr, 0, "cm_dropped");
	side_disconnect();
	await(NIC_CM_EVENT_DREP);
	server_leave();
	pmd_close(side.engine);
	close(fd);
}

/** If the device serves more ports than the kernel's steering program can list, the daemon hands on the requests for
 * the others. */
static void cm__the_daemon_forwards_requests_for_ports_that_are_not_listed(void **state)
{
	enum { FUNCTIONS = 3 };
	struct server others[FUNCTIONS];

	(void)state;
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		server_start(&device[1]);
		for (unsigned port = 1; port < PROTO_SERVICES_MAX; port++)
			assert_int_equal(server_do(LISTEN, (int)((i + 1) << 12 | port)), 0);
		others[i] = server;
	}
	assert_int_equal(server_do(LISTEN, PORT), 0);
	assert_int_equal(server_do(LISTEN, 1), -ENOSPC);
	side_open(&device[0]);
	side_connect(&device[0].gid, &device[1].gid, PORT);
	await(NIC_CM_EVENT_REP);
	assert_true(daemon_counter(&device[1].gid, "cm_handed_on") > 0);
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		server = others[i];
		server_leave();
	}
	await(NIC_CM_EVENT_DREQ);
	pmd_close(side.engine);
}

static void daemon_kill(const struct nic_gid *gid)
{
	struct proto_name name;
	struct ucred peer;
	int fd;

	pmd_name_daemon(gid, &name);
	fd = proto_connect(&name);
	assert_true(fd >= 0);
	assert_int_equal(proto_peer(fd, &peer), 0);
	assert_int_equal(kill(peer.pid, SIGKILL), 0);
	close(fd);
	while ((fd = proto_connect(&name)) >= 0) {
		close(fd);
		usleep(PAUSE_US);
	}
}

/** Without a daemon, a server still accepts connections. When the server is killed later, the next daemon ends its
 * connections. */
static void cm__a_killed_daemon_disturbs_nothing(void **state)
{
	struct pmd_engine *next;
	char err[256];

	(void)state;
	connected(1);
	daemon_kill(&device[1].gid);
	side.count[NIC_CM_EVENT_REP] = 0;
	side_connect(&device[0].gid, &device[1].gid, PORT);
	await(NIC_CM_EVENT_REP);
	assert_int_equal(pmd_open(&device[1], NULL, NULL, &next, err, sizeof(err)), 0); /* starts a daemon */
	usleep(300000); /* time for the server to join that daemon */
	server_kill();
	await(NIC_CM_EVENT_DREQ);
	while (__atomic_load_n(&side.count[NIC_CM_EVENT_DREQ], __ATOMIC_ACQUIRE) < 2)
		usleep(PAUSE_US);
	pmd_close(next);
	pmd_close(side.engine);
}

static void cm__a_port_has_one_owner_on_a_device(void **state)
{
	(void)state;
	server_start(&device[0]);
	assert_int_equal(server_do(BIND, PORT), 0);
	side_open(&device[0]);
	assert_int_equal(side_bind(PORT, 0), -EADDRINUSE);
	assert_int_equal(server_do(UNBIND, 0), 0);
	assert_int_equal(side_bind(PORT, 0), 0);
	assert_int_equal(server_do(BIND, PORT), -EADDRINUSE);
	assert_int_equal(server_do(LISTEN, PORT), -EADDRINUSE);
	pmd_cm_unbind(side.engine, side.port);
	assert_int_equal(server_do(LISTEN, PORT), 0);
	assert_int_equal(side_bind(PORT, 0), -EADDRINUSE);
	server_kill();
	assert_int_equal(side_bind(PORT, 0), 0);
	pmd_cm_unbind(side.engine, side.port);
	pmd_close(side.engine);
}

/** The limit is for ports that the daemon is told of. Programs that bind a port for each endpoint need more. */
static void cm__a_process_binds_more_ports_than_it_can_listen_on(void **state)
{
	(void)state;
	server_start(&device[0]);
	for (int i = 0; i <= PROTO_SERVICES_MAX; i++)
		assert_int_equal(server_do(BIND, PORT + i), 0);
	side_open(&device[0]);
	assert_int_equal(side_bind(PORT + PROTO_SERVICES_MAX, 0), -EADDRINUSE);
	server_leave();
	assert_int_equal(side_bind(PORT + PROTO_SERVICES_MAX, 0), 0);
	pmd_cm_unbind(side.engine, side.port);
	pmd_close(side.engine);
}

static void cm__a_port_may_be_shared_until_one_owner_listens(void **state)
{
	struct pmd_cm_port *first;

	(void)state;
	server_start(&device[0]);
	assert_int_equal(server_do(BIND_SHARED, PORT), 0);
	side_open(&device[0]);
	assert_int_equal(side_bind(PORT, PMD_CM_REUSE), 0);
	first = side.port;
	assert_int_equal(side_bind(PORT, PMD_CM_REUSE), 0);
	assert_int_equal(pmd_cm_listen(side.engine, side.port), -EADDRINUSE);
	pmd_cm_unbind(side.engine, side.port);
	assert_int_equal(pmd_cm_listen(side.engine, first), 0);
	assert_int_equal(pmd_cm_reuse(side.engine, first, false), -EINVAL);
	assert_int_equal(side_bind(PORT, PMD_CM_REUSE), -EADDRNOTAVAIL);
	assert_int_equal(server_do(UNBIND, 0), 0);
	assert_int_equal(server_do(BIND, PORT), -EADDRINUSE);
	pmd_cm_unlisten(side.engine, first);
	assert_int_equal(server_do(BIND, PORT), 0);
	pmd_cm_unbind(side.engine, first);
	server_leave();
	pmd_close(side.engine);
}

static void cm__ports_of_active_sides_differ(void **state)
{
	static const struct nic_gid any;
	static bool taken[65536];
	struct pmd_cm_port *port;

	(void)state;
	side_open(&device[0]);
	for (unsigned i = 0; i < 5000; i++) {
		uint16_t number = 0;

		assert_int_equal(pmd_cm_bind(side.engine, NIC_CM_PS_TCP, &any, AF_INET, PMD_CM_ACTIVE, &number, &port),
				 0);
		assert_true(number > 1023 && !taken[number]);
		taken[number] = true;
	}
	pmd_close(side.engine);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cm__connects_two_devices, devices_anew),
		cmocka_unit_test_setup(cm__connects_two_functions_of_a_device, devices_anew),
		cmocka_unit_test_setup(cm__a_request_to_an_unserved_port_is_rejected, devices_anew),
		cmocka_unit_test_setup(cm__a_request_to_a_port_that_is_only_bound_is_rejected, devices_anew),
		cmocka_unit_test_setup(cm__a_request_shortly_before_its_listener_is_accepted, devices_anew),
		cmocka_unit_test_setup(cm__the_client_of_a_killed_server_is_disconnected, devices_anew),
		cmocka_unit_test_setup(cm__the_daemon_ends_many_connections_of_a_killed_server, devices_anew),
		cmocka_unit_test_setup(cm__the_client_of_a_server_that_closes_is_disconnected, devices_anew),
		cmocka_unit_test_setup(cm__a_flood_of_requests_is_limited, devices_anew),
		cmocka_unit_test_setup(cm__the_daemon_answers_for_no_function_that_lives, devices_anew),
		cmocka_unit_test_setup(cm__the_daemon_forwards_requests_for_ports_that_are_not_listed, devices_anew),
		cmocka_unit_test_setup(cm__a_killed_daemon_disturbs_nothing, devices_anew),
		cmocka_unit_test_setup(cm__a_port_has_one_owner_on_a_device, devices_anew),
		cmocka_unit_test_setup(cm__a_process_binds_more_ports_than_it_can_listen_on, devices_anew),
		cmocka_unit_test_setup(cm__a_port_may_be_shared_until_one_owner_listens, devices_anew),
		cmocka_unit_test_setup(cm__ports_of_active_sides_differ, devices_anew),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
