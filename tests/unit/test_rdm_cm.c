/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdm_cm.c - connected endpoints: request, accept, refuse, disconnect, on a network that loses calls
 * (packets that make and end connections). */
#include "rdm_rig.h"

#include "rdm.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000u
#define EVENTS 16

/** A connected endpoint or listener, the events that it got, and its completions. */
struct party {
	struct rdm_node *node;
	struct nic_rdm *ep;
	struct nic_rdm_addr addr;
	struct nic_rdm_cm_event event[EVENTS];
	uint8_t data[EVENTS][NIC_RDM_CM_DATA_MAX];
	unsigned n_event, seen, n_done;
	struct nic_rdm_done done;
};

static void on_cm(void *ctx, const struct nic_rdm_cm_event *e)
{
	struct party *p = ctx;

	assert_true(p->n_event < EVENTS);
	if (e->len)
		memcpy(p->data[p->n_event], e->data, e->len);
	p->event[p->n_event++] = *e;
}

static void on_done(void *ctx, const struct nic_rdm_done *done)
{
	struct party *p = ctx;

	p->done = *done;
	p->n_done++;
}

static void party_open(struct party *p, struct rdm_node *n, uint16_t port)
{
	struct nic_rdm_init init = n->rig->init;

	memset(p, 0, sizeof(*p));
	p->node = n;
	p->addr.gid = n->gid;
	p->addr.port = port;
	init.pd = n->pd;
	init.addr = p->addr;
	init.done = on_done;
	init.cm = on_cm;
	init.listens = true;
	init.ctx = p;
	assert_int_equal(nic_rdm_create(n->nic, &init, &p->ep), 0);
}

#define expect_event(p, kind, words) expect_event_at(p, kind, words, __FILE__, __LINE__)
static struct nic_rdm_cm_event expect_event_at(struct party *p, enum nic_rdm_cm_kind kind, const char *words,
					       const char *file, int line)
{
	struct nic_rdm_cm_event *e = &p->event[p->seen];

	_assert_true(p->seen < p->n_event, "an event", file, line);
	_assert_int_equal(e->kind, kind, file, line);
	_assert_int_equal(e->len, words ? strlen(words) : 0, file, line);
	if (words)
		_assert_memory_equal(p->data[p->seen], words, strlen(words), file, line);
	p->seen++;
	return *e;
}

#define expect_no_event(p) assert_int_equal((p)->n_event, (p)->seen)

struct two {
	struct rdm_rig *rig;
	struct party listener, caller, chosen;
};

static void two_open(struct two *t, uint64_t seed)
{
	t->rig = rdm_rig_create(2, seed);
	t->rig->init.connect_ns = 10ull * SECOND;
	party_open(&t->caller, &t->rig->node[0], 1000);
	party_open(&t->listener, &t->rig->node[1], 2000);
	party_open(&t->chosen, &t->rig->node[1], 2001);
}

static void two_connect(struct two *t)
{
	struct nic_rdm_cm_event e;

	assert_int_equal(nic_rdm_cm_connect(t->caller.ep, &t->listener.addr, "hello", 5), 0);
	assert_int_equal(nic_rdm_cm_connect(t->caller.ep, &t->listener.addr, NULL, 0), -EISCONN);
	while (t->listener.n_event == 0)
		rdm_run(t->rig, 1000000);
	e = expect_event(&t->listener, NIC_RDM_CM_REQUEST, "hello");
	assert_int_equal(e.from.port, 1000);
	assert_null(nic_rdm_cm_peer(t->caller.ep));
	assert_int_equal(nic_rdm_cm_accept(t->listener.ep, e.request + 1, t->chosen.ep, NULL, 0), -ENOENT);
	assert_int_equal(nic_rdm_cm_accept(t->listener.ep, e.request, t->chosen.ep, "welcome!", 8), 0);
	assert_int_equal(nic_rdm_cm_accept(t->listener.ep, e.request, t->chosen.ep, NULL, 0), -ENOENT);
	rdm_run(t->rig, 9ull * SECOND);
	e = expect_event(&t->caller, NIC_RDM_CM_CONNECTED, "welcome!");
	assert_int_equal(e.from.port, 2001);
	e = expect_event(&t->chosen, NIC_RDM_CM_CONNECTED, NULL);
	assert_int_equal(e.from.port, 1000);
	expect_no_event(&t->listener);
}

static int say(struct party *p, uint32_t len)
{
	const struct nic_iov iov = {p->node->arena, len};
	const struct nic_rdm_send s = {.iov = &iov, .n_iov = 1};

	return nic_rdm_send(nic_rdm_cm_peer(p->ep), &s);
}

static void hear(struct party *p)
{
	const struct nic_iov iov = {p->node->arena, RDM_ARENA};
	const struct nic_rdm_recv r = {.iov = &iov, .n_iov = 1};

	assert_int_equal(nic_rdm_recv(p->ep, &r), 0);
}

/** Connection requests that are accepted make connections, even on a network that loses a third of all packets. */
static void cm__an_accepted_request_connects_under_packet_loss(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 40; seed++) {
		struct two t;

		two_open(&t, seed);
		t.rig->lose = seed ? 330 : 0;
		t.rig->twice = t.rig->swap = seed ? 100 : 0;
		two_connect(&t);
		t.rig->lose /= 10; /* with more losses, a QP would exhaust its retries now and then */
		hear(&t.chosen);
		hear(&t.caller);
		assert_int_equal(say(&t.caller, 100), 0);
		rdm_run(t.rig, 20ull * SECOND);
		assert_int_equal(t.chosen.done.len, 100);
		assert_int_equal(say(&t.chosen, 20000), 0);
		rdm_run(t.rig, 60ull * SECOND);
		assert_int_equal(t.caller.n_done, 2);
		assert_int_equal(t.chosen.n_done, 2);
		rdm_rig_destroy(t.rig);
	}
}

static void cm__a_refusal_reaches_the_requester_under_packet_loss(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 40; seed++) {
		struct two t;
		uint32_t request;

		two_open(&t, seed);
		t.rig->lose = seed ? 330 : 0;
		assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, NULL, 0), 0);
		while (t.listener.n_event == 0)
			rdm_run(t.rig, 1000000);
		request = expect_event(&t.listener, NIC_RDM_CM_REQUEST, NULL).request;
		assert_int_equal(nic_rdm_cm_refuse(t.listener.ep, request, "no", 2), 0);
		assert_int_equal(nic_rdm_cm_refuse(t.listener.ep, request, "no", 2), -ENOENT);
		rdm_run(t.rig, 9ull * SECOND);
		expect_event(&t.caller, NIC_RDM_CM_REFUSED, "no");
		assert_true(rdm_run(t.rig, 20ull * SECOND));
		expect_no_event(&t.listener);
		expect_no_event(&t.caller);
		rdm_rig_destroy(t.rig);
	}
}

static void cm__a_request_to_an_unused_address_fails_as_unreachable(void **state)
{
	struct two t;
	struct nic_rdm_addr nobody;

	(void)state;
	two_open(&t, 1);
	nobody = t.listener.addr;
	nobody.gid.raw[15] = 77; /* an address that no host has */
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &nobody, NULL, NIC_RDM_CM_DATA_MAX + 1), -EINVAL);
	assert_int_equal(nic_rdm_cm_connect(t.rig->node[0].ep, &nobody, NULL, 0),
			 -EINVAL); /* not an endpoint of the connection manager */
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &nobody, NULL, 0), 0);
	assert_true(rdm_run(t.rig, 20ull * SECOND));
	expect_event(&t.caller, NIC_RDM_CM_UNREACHABLE, NULL);
	rdm_rig_destroy(t.rig);
}

/** A request to an address without a listener is refused by the peer's NIC. If the refusal is lost, the caller repeats
 * the request. */
static void cm__a_request_without_a_listener_is_refused(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 20; seed++)
		for (unsigned who = 0; who < 3; who++) {
			struct two t;
			struct nic_rdm_addr to;

			two_open(&t, seed);
			t.rig->lose = seed ? 330 : 0;
			to = who == 0 ? t.rig->node[1].addr : t.listener.addr; /* a connectionless endpoint */
			if (who == 1)
				to.port = 3000; /* an unused port */
			if (who == 2)
				t.listener.ep->cfg.listens = false;
			assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &to, "x", 1), 0);
			rdm_run(t.rig, 9ull * SECOND);
			expect_event(&t.caller, NIC_RDM_CM_REFUSED, NULL);
			assert_true(t.rig->node[1].nic->counters[NIC_CNT_rdm_calls_refused] > 0);
			expect_no_event(&t.listener);
			rdm_rig_destroy(t.rig);
		}
}

/** A connected endpoint ignores calls from connectionless endpoints. */
static void cm__a_connected_endpoint_ignores_connectionless_peers(void **state)
{
	struct two t;
	const struct nic_iov iov = {NULL, 0};
	const struct nic_rdm_send s = {.iov = &iov, .n_iov = 1, .context = (void *)1};
	struct rdm_node *a;

	(void)state;
	two_open(&t, 2);
	two_connect(&t);
	a = &t.rig->node[0];
	assert_int_equal(nic_rdm_send(nic_rdm_peer_get(a->ep, &t.chosen.addr), &s), 0);
	assert_true(rdm_run(t.rig, 20ull * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 1);
	rdm_rig_destroy(t.rig);
}

static void cm__a_disconnect_or_lost_peer_gives_a_shutdown_event(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct two t;

		two_open(&t, how);
		two_connect(&t);
		if (how == 0) {
			nic_rdm_cm_shutdown(t.chosen.ep);
			assert_null(nic_rdm_cm_peer(t.chosen.ep));
		} else if (how == 1) {
			nic_rdm_cm_shutdown(t.chosen.ep);
			t.rig->lose = 1000;
			rdm_run(t.rig, 1000000); /* the BYE is lost */
			t.rig->lose = 0;
			assert_int_equal(say(&t.caller, 8), 0);
		} else {
			rdm_node_stop(&t.rig->node[1]);
			assert_int_equal(say(&t.caller, 8), 0);
			assert_int_equal(say(&t.caller, 8), 0);
		}
		assert_true(rdm_run(t.rig, 20ull * SECOND));
		expect_event(&t.caller, NIC_RDM_CM_SHUTDOWN, NULL);
		expect_no_event(&t.caller);
		assert_int_equal(t.caller.n_done, how);
		assert_int_equal(t.caller.done.status != NIC_RDM_OK, how > 0);
		assert_null(nic_rdm_cm_peer(t.caller.ep));
		rdm_rig_destroy(t.rig);
	}
}

/** Packet hook: swap an ACK, and only an ACK, with the packet after it. */
static bool ack_waits(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)from;
	(void)len;
	rig->swap = ip[(ip[0] >> 4 == 4 ? 20 : 40) + 8] == 0x11 ? 1000 : 0;
	return false;
}

static void cm__a_bye_may_overtake_the_last_ack(void **state)
{
	struct two t;

	(void)state;
	two_open(&t, 5);
	two_connect(&t);
	hear(&t.chosen);
	t.rig->cut = ack_waits;
	assert_int_equal(say(&t.caller, 8), 0);
	while (t.rig->held_len == 0)
		rdm_run(t.rig, 1);
	assert_int_equal(t.chosen.n_done, 1);
	assert_int_equal(t.caller.n_done, 0);
	nic_rdm_cm_shutdown(t.chosen.ep);
	assert_true(rdm_run(t.rig, 20ull * SECOND));
	assert_int_equal(t.caller.n_done, 1);
	assert_int_equal(t.caller.done.status, NIC_RDM_OK);
	expect_event(&t.caller, NIC_RDM_CM_SHUTDOWN, NULL);
	rdm_rig_destroy(t.rig);
}

/** When an endpoint with delayed ACKs shuts down, the last request is acknowledged before the BYE. */
static void cm__shutdown_still_answers_the_last_request(void **state)
{
	(void)state;
	for (unsigned read = 0; read < 2; read++) {
		struct two t;
		struct rdm_node *b;
		uint64_t rkey;

		two_open(&t, 7);
		b = &t.rig->node[1];
		t.rig->ack_delay_ns = SECOND / 100;
		rdm_node_stop(b);
		rdm_node_start(b);
		party_open(&t.listener, b, 2000);
		party_open(&t.chosen, b, 2001);
		two_connect(&t);
		hear(&t.chosen);
		rkey = nic_mr_rkey(b->mr);
		if (read) {
			const struct nic_iov iov = {t.caller.node->arena, 20000};
			const struct nic_rdm_remote remote = {(uintptr_t)b->arena, 20000, (uint32_t)rkey};
			const struct nic_rdm_rma r = {
				.read = true, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1};

			assert_int_equal(nic_rdm_rma(nic_rdm_cm_peer(t.caller.ep), &r), 0);
			rdm_run(t.rig, 5000); /* part of the READ has been answered */
		} else {
			assert_int_equal(say(&t.caller, 8), 0);
			while (t.chosen.n_done == 0)
				rdm_run(t.rig, 1);
		}
		assert_int_equal(t.caller.n_done, 0);
		nic_rdm_cm_shutdown(t.chosen.ep);
		assert_true(rdm_run(t.rig, 20ull * SECOND));
		assert_int_equal(t.caller.n_done, 1);
		assert_int_equal(t.caller.done.status, NIC_RDM_OK);
		expect_event(&t.caller, NIC_RDM_CM_SHUTDOWN, NULL);
		assert_int_equal(b->nic->qps.count, 3); /* the QP is gone; the QPs of the ports are left */
		rdm_rig_destroy(t.rig);
	}
}

static void cm__private_data_of_maximum_length_is_delivered(void **state)
{
	struct two t;
	char data[NIC_RDM_CM_DATA_MAX + 1];
	uint32_t request;

	(void)state;
	memset(data, 'x', sizeof(data));
	data[NIC_RDM_CM_DATA_MAX] = 0;
	two_open(&t, 6);
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, data, NIC_RDM_CM_DATA_MAX), 0);
	rdm_run(t.rig, SECOND);
	request = expect_event(&t.listener, NIC_RDM_CM_REQUEST, data).request;
	assert_int_equal(nic_rdm_cm_accept(t.listener.ep, request, t.chosen.ep, data, NIC_RDM_CM_DATA_MAX), 0);
	rdm_run(t.rig, SECOND);
	expect_event(&t.caller, NIC_RDM_CM_CONNECTED, data);
	rdm_rig_destroy(t.rig);
}

/** A listener accepts late: the caller repeats its request, but the application gets it once. */
static void cm__a_late_accept_connects_and_the_request_is_reported_once(void **state)
{
	struct two t;
	uint32_t request;

	(void)state;
	two_open(&t, 3);
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, NULL, 0), 0);
	rdm_run(t.rig, SECOND / 2);
	request = expect_event(&t.listener, NIC_RDM_CM_REQUEST, NULL).request;
	expect_no_event(&t.listener);
	assert_int_equal(nic_rdm_cm_accept(t.listener.ep, request, t.chosen.ep, NULL, 0), 0);
	rdm_run(t.rig, SECOND);
	expect_event(&t.caller, NIC_RDM_CM_CONNECTED, NULL);
	expect_event(&t.chosen, NIC_RDM_CM_CONNECTED, NULL);
	rdm_rig_destroy(t.rig);
}

/** The caller disappears before its request is accepted: the accepted endpoint reports that its peer is unreachable. */
static void cm__accepting_a_vanished_requester_fails_as_unreachable(void **state)
{
	struct two t;
	uint32_t request;

	(void)state;
	two_open(&t, 4);
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, NULL, 0), 0);
	rdm_run(t.rig, 10000000);
	nic_rdm_destroy(t.caller.ep);
	request = expect_event(&t.listener, NIC_RDM_CM_REQUEST, NULL).request;
	assert_int_equal(nic_rdm_cm_accept(t.listener.ep, request, t.chosen.ep, NULL, 0), 0);
	assert_true(rdm_run(t.rig, 20ull * SECOND));
	expect_event(&t.chosen, NIC_RDM_CM_UNREACHABLE, NULL);
	rdm_rig_destroy(t.rig);
}

/** Hosts that were stopped while they were connecting do not count that time as waiting: they still connect. */
static void cm__a_stop_does_not_count_toward_the_connect_timeout(void **state)
{
	struct two t;

	(void)state;
	two_open(&t, 3);
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, NULL, 0), 0);
	while (t.listener.n_event == 0)
		rdm_run(t.rig, 1000000);
	assert_int_equal(nic_rdm_cm_accept(t.listener.ep, expect_event(&t.listener, NIC_RDM_CM_REQUEST, NULL).request,
					   t.chosen.ep, NULL, 0),
			 0);
	t.rig->cut = rdm_cut_all;
	rdm_run(t.rig, 2ull * SECOND);
	t.rig->now += 30ull * SECOND;
	rdm_run(t.rig, 2ull * SECOND);
	t.rig->cut = NULL;
	rdm_run(t.rig, 5ull * SECOND);
	expect_event(&t.caller, NIC_RDM_CM_CONNECTED, NULL);
	expect_event(&t.chosen, NIC_RDM_CM_CONNECTED, NULL);
	rdm_rig_destroy(t.rig);
}

/** @return the nanoseconds until a caller gives up an unreachable peer. `others`: idle hosts start other callers
 * meanwhile. */
static uint64_t give_up(bool others)
{
	struct party other;
	struct two t;
	uint64_t start, took;

	two_open(&t, 7);
	t.rig->cut = rdm_cut_all;
	start = t.rig->now;
	assert_int_equal(nic_rdm_cm_connect(t.caller.ep, &t.listener.addr, NULL, 0), 0);
	rdm_run(t.rig, 2ull * SECOND);
	while (t.caller.n_event == 0) {
		uint64_t due = nic_next_deadline(t.caller.node->nic);

		rdm_run(t.rig, due - t.rig->now + 1000000);
		rdm_run(t.rig, 450000000);
		if (others && t.caller.n_event == 0) {
			party_open(&other, &t.rig->node[0], 1001);
			assert_int_equal(nic_rdm_cm_connect(other.ep, &t.listener.addr, NULL, 0), 0);
			rdm_run(t.rig, 100000);
			nic_rdm_destroy(other.ep);
		}
	}
	expect_event(&t.caller, NIC_RDM_CM_UNREACHABLE, NULL);
	took = t.rig->now - start;
	rdm_rig_destroy(t.rig);
	return took;
}

/** A host is idle for a while and then starts a caller. The idle time must not count as a stop of the process, or the
 * host's other callers would wait longer before they give up. */
static void cm__a_new_request_does_not_prolong_the_timeout_of_others(void **state)
{
	(void)state;
	assert_in_range(give_up(true), 0, give_up(false) + SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm__an_accepted_request_connects_under_packet_loss),
		cmocka_unit_test(cm__a_refusal_reaches_the_requester_under_packet_loss),
		cmocka_unit_test(cm__a_request_to_an_unused_address_fails_as_unreachable),
		cmocka_unit_test(cm__a_request_without_a_listener_is_refused),
		cmocka_unit_test(cm__a_connected_endpoint_ignores_connectionless_peers),
		cmocka_unit_test(cm__a_disconnect_or_lost_peer_gives_a_shutdown_event),
		cmocka_unit_test(cm__a_bye_may_overtake_the_last_ack),
		cmocka_unit_test(cm__shutdown_still_answers_the_last_request),
		cmocka_unit_test(cm__private_data_of_maximum_length_is_delivered),
		cmocka_unit_test(cm__a_late_accept_connects_and_the_request_is_reported_once),
		cmocka_unit_test(cm__accepting_a_vanished_requester_fails_as_unreachable),
		cmocka_unit_test(cm__a_stop_does_not_count_toward_the_connect_timeout),
		cmocka_unit_test(cm__a_new_request_does_not_prolong_the_timeout_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
