/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdm_leave.c - reliable-datagram endpoints that announce that they leave, and start again at the same address. */
#include "rdm_rig.h"

#include "rdm.h"

#include <string.h>

#define SECOND	  1000000000ull
#define QUIET	  (20 * SECOND)
#define SOON	  (SECOND / 1000)
#define A_WHILE	  (SECOND / 10) /* after which an unneeded connection ends */
#define KEEPALIVE SECOND	/* after which an awaited peer is probed */
#define CALL_BYE  7		/* an rdm_call_said that only this test uses */
#define MANY	  150u
#define SOME	  5u
#define LONG	  20000u /* length of a message that is sent as an offer */
#define KEPT	  16u

static struct {
	uint8_t bye[NIC_FRAME_MAX], packet[KEPT][NIC_FRAME_MAX];
	uint32_t bye_len, len[KEPT];
	bool lose_bye, lose_data, keep_data; /* data: all packets of the second node that are no calls */
	unsigned kept, hellos, byes;
} net;

/** Packet hook: count calls; lose BYE or the second node's data, or keep the data for later. */
static bool look(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	int said = (int)rdm_call_of(ip, len);

	(void)rig;
	net.hellos += said == CALL_HELLO;
	net.byes += said == CALL_BYE;
	if (said == CALL_BYE) {
		memcpy(net.bye, ip, len);
		net.bye_len = len;
	}
	if (net.keep_data && said == NO_CALL && from == 1) {
		assert_true(net.kept < KEPT);
		memcpy(net.packet[net.kept], ip, len);
		net.len[net.kept++] = len;
		return true;
	}
	return (said == CALL_BYE && net.lose_bye) || (said == NO_CALL && from == 1 && net.lose_data);
}

/** Deliver the data that was kept. */
static void come(struct rdm_rig *rig)
{
	net.keep_data = false;
	assert_true(net.kept > 0);
	for (unsigned i = 0; i < net.kept; i++)
		rdm_deliver(rig, net.packet[i], net.len[i]);
}

static struct rdm_rig *rig_of(unsigned nodes, uint64_t seed)
{
	struct rdm_rig *rig = rdm_rig_create(nodes, seed);

	memset(&net, 0, sizeof(net));
	rig->cut = look;
	return rig;
}

/** Send one message in each direction. */
static void talk(struct rdm_rig *rig, struct rdm_node *a, struct rdm_node *b)
{
	struct rdm_node *nodes[2] = {a, b};

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rdm_recv(nodes[1 - i], nodes[i], 11, 0, 0, 0, 0, 8), 0);
		assert_int_equal(rdm_send(nodes[i], nodes[1 - i], 10, 0, 0, 0, 8), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(nodes[i], NIC_RDM_SEND, NIC_RDM_OK, 10);
		rdm_expect(nodes[1 - i], NIC_RDM_RECV, NIC_RDM_OK, 11);
	}
}

/** Let the node's endpoint leave; it must tell exactly `peers` peers. */
static void leave(struct rdm_rig *rig, struct rdm_node *n, unsigned peers)
{
	unsigned told = 0, more;

	while ((more = nic_rdm_leave(n->ep)) > 0) {
		told += more;
		assert_true(told <= peers);
		rdm_run(rig, SOON);
	}
	assert_int_equal(told, peers);
}

static void come_again(struct rdm_node *n)
{
	rdm_node_stop(n);
	rdm_node_start(n);
}

/** Send SOME messages and post receives for them. */
static void send_some(struct rdm_node *from, struct rdm_node *to, uintptr_t context)
{
	for (unsigned i = 0; i < SOME; i++) {
		assert_int_equal(rdm_recv(to, NULL, context, 0, 0, 0, 0, 8), 0);
		assert_int_equal(rdm_send(from, to, context, 0, 0, 0, 8), 0);
	}
}

static void expect_some(struct rdm_node *from, struct rdm_node *to, uintptr_t context)
{
	for (unsigned i = 0; i < SOME; i++) {
		rdm_expect(from, NIC_RDM_SEND, NIC_RDM_OK, context);
		rdm_expect(to, NIC_RDM_RECV, NIC_RDM_OK, context);
	}
}

/* ---- what is asked for later ---------------------------------------------------------------------------------- */

/** After a peer has left and restarted, requests of any kind, at once or later, reach it over a new connection. */
static void rdm__requests_reach_a_peer_that_left_and_restarted(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 6; what++) {
		struct rdm_rig *rig = rig_of(2, 1);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		struct nic_rdm_remote remote = {.addr = (uintptr_t)b->arena, .len = 8};
		const struct nic_iov iov = {a->arena, 8};
		struct nic_rdm_rma write = {
			.context = (void *)3, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1};

		talk(rig, a, b);
		leave(rig, b, 1);
		come_again(b);
		assert_int_equal(net.hellos, 2);
		if (what >= 3) /* long enough for the old connection to end */
			rdm_run(rig, A_WHILE);
		if (what % 3 == 0) {
			talk(rig, a, b);
		} else if (what % 3 == 1) {
			remote.rkey = nic_mr_rkey(b->mr);
			assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &write), 0);
			assert_true(rdm_run(rig, QUIET));
			rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_OK, 3);
		} else {
			talk(rig, b, a);
		}
		assert_in_range(net.hellos, 3, 4);
		rdm_rig_destroy(rig);
	}
}

/** A leaving endpoint receives no further requests, accepts no connections, and tells each peer once, whatever the
 * peers send. */
static void rdm__a_leaving_endpoint_accepts_no_requests_or_connections(void **state)
{
	struct rdm_rig *rig = rig_of(3, 6);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];
	uint64_t ignored;

	(void)state;
	talk(rig, a, b);
	leave(rig, b, 1);
	ignored = nic_counters(b->nic)[NIC_CNT_rdm_calls_ignored];
	send_some(a, b, 1);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(c, b, 2, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(b, a, 3, 0, 0, 0, 8), 0); /* the leaving endpoint sends no requests either */
	assert_int_equal(rdm_send(b, c, 3, 0, 0, 0, 8), 0);
	for (unsigned i = 0; i < 10; i++) {
		rdm_run(rig, A_WHILE / 10);
		assert_int_equal(nic_rdm_leave(b->ep), 0);
	}
	assert_true(nic_counters(b->nic)[NIC_CNT_rdm_calls_ignored] >= ignored + 2);
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
	rdm_expect_nothing(c);
	come_again(b);
	for (unsigned i = 0; i <= SOME; i++)
		assert_int_equal(rdm_recv(b, i < SOME ? a : c, 1, 0, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < SOME; i++)
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_expect(c, NIC_RDM_SEND, NIC_RDM_OK, 2);
	assert_int_equal(b->n_done - b->n_seen, SOME + 1);
	rdm_rig_destroy(rig);
}

/** A fenced request that waits when its peer leaves is sent to the peer's successor. */
static void rdm__a_waiting_fenced_request_goes_to_the_peers_successor(void **state)
{
	struct rdm_rig *rig = rig_of(2, 7);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	talk(rig, a, b);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rdm_recv(b, a, 3, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, b, 2, NIC_RDM_FENCE, 0, 0, 8), 0);
	net.lose_data = true; /* b's ACK is lost, so b sends it again after its BYE */
	leave(rig, b, 1);
	net.lose_data = false;
	rdm_run(rig, SECOND / 2);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3);
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
	come_again(b);
	assert_int_equal(rdm_recv(b, a, 3, 0, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3);
	rdm_rig_destroy(rig);
}

/* ---- what was said before ------------------------------------------------------------------------------------- */

/** Messages sent before a BYE arrive after it and are still received; a message that needs an answer from the leaving
 * peer fails once the peer has gone. */
static void rdm__messages_sent_before_a_bye_are_received_after_it(void **state)
{
	static const struct {
		uint32_t flags, len, status;
	} what[] = {{NIC_RDM_INJECT, 8, NIC_RDM_OK}, {NIC_RDM_DELIVERY, 8, NIC_RDM_OK}, {0, LONG, NIC_RDM_PEER_LOST}};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct rdm_rig *rig = rig_of(2, 2);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		talk(rig, a, b);
		assert_int_equal(rdm_recv(a, b, 1, 0, 0, 0, 0, LONG), 0);
		net.keep_data = true;
		assert_int_equal(rdm_send(b, a, 2, what[i % 3].flags, 0, 0, what[i % 3].len), 0);
		rdm_run(rig, SOON);
		leave(rig, b, 1);
		rdm_node_stop(b);
		rdm_expect_nothing(a);
		if (i >= 3)
			assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 8), 0);
		come(rig);
		if (what[i % 3].status == NIC_RDM_OK)
			rdm_expect(a, NIC_RDM_RECV, NIC_RDM_OK, 1);
		rdm_node_start(b);
		rdm_run(rig, QUIET);
		if (what[i % 3].status != NIC_RDM_OK)
			rdm_expect(a, NIC_RDM_RECV, what[i % 3].status, 1);
		if (i >= 3)
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
		if (i < 3)
			talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/** The last messages of a leaving peer arrive after its BYE. They are received although the peer has restarted, and
 * although a new request may be waiting for the connection to the restarted peer. That connection is not affected. */
static void rdm__late_messages_are_received_after_the_sender_restarts(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdm_rig *rig = rig_of(2, 8);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		talk(rig, a, b);
		net.keep_data = true;
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(rdm_recv(a, b, 1, 0, 0, 0, 0, 8), 0);
			assert_int_equal(rdm_send(b, a, 2, NIC_RDM_DELIVERY, 0, 0, 8), 0);
		}
		rdm_run(rig, SOON / 2);
		leave(rig, b, 1);
		come_again(b);
		if (i == 1)
			assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 8), 0);
		assert_true(net.kept > 1);
		come(rig);
		rdm_expect(a, NIC_RDM_RECV, NIC_RDM_OK, 1);
		rdm_expect(a, NIC_RDM_RECV, NIC_RDM_OK, 1);
		rdm_run(rig, QUIET);
		if (i == 1)
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
		rdm_expect_nothing(a);
		rdm_rig_destroy(rig);
	}
}

/** A leaving endpoint still answers requests that arrived earlier, even if their receive is posted later. */
static void rdm__a_leaving_endpoint_still_answers_earlier_requests(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct rdm_rig *rig = rig_of(2, 9);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		uint32_t len = i % 2 ? LONG : 8;

		talk(rig, a, b);
		rdm_fill(a, 0, len, 5);
		if (i < 2)
			assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, len), 0);
		assert_int_equal(rdm_send(a, b, 2, i % 2 ? 0 : NIC_RDM_DELIVERY, 0, 0, len), 0);
		leave(rig, b, 1);
		rdm_run(rig, A_WHILE);
		if (i >= 2)
			assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, len), 0);
		rdm_run(rig, SOON);
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
		assert_true(rdm_holds(b, 0, len, 5));
		rdm_rig_destroy(rig);
	}
}

/** A leaving endpoint still gets answers to its requests, even if the first answers are lost. */
static void rdm__a_leaving_endpoint_still_gets_answers(void **state)
{
	struct rdm_rig *rig = rig_of(2, 13);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	talk(rig, a, b);
	assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, 8), 0);
	net.lose_data = true;
	assert_int_equal(rdm_send(a, b, 2, NIC_RDM_DELIVERY, 0, 0, 8), 0);
	leave(rig, a, 1);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_run(rig, A_WHILE);
	net.lose_data = false;
	rdm_run(rig, SECOND / 2);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_rig_destroy(rig);
}

/* ---- requests in flight --------------------------------------------------------------------------------------- */

/** A request in flight when its peer's BYE arrives is not given up at once: a late ACK still completes it. */
static void rdm__a_late_ack_completes_a_request_after_the_peers_bye(void **state)
{
	struct rdm_rig *rig = rig_of(2, 3);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	talk(rig, a, b);
	assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, 8), 0);
	net.lose_data = true; /* loses b's ACK */
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 8), 0);
	rdm_run(rig, SOON);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	leave(rig, b, 1);
	send_some(a, b, 3);
	rdm_run(rig, A_WHILE);
	rdm_expect_nothing(a);
	net.lose_data = false;
	rdm_run(rig, SECOND / 2);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect_nothing(a);
	come_again(b);
	rdm_run(rig, QUIET);
	for (unsigned i = 0; i < SOME; i++)
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
	rdm_rig_destroy(rig);
}

/** An RMA that is posted in several parts finishes on the connection on which it began, although the peer leaves. */
static void rdm__a_begun_multipart_rma_finishes_after_the_peers_bye(void **state)
{
	struct rdm_rig *rig = rig_of(2, 10);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
	const struct nic_iov iov = {a->arena, 8 * NIC_RDM_REMOTE_MAX};
	const struct nic_rdm_rma write = {
		.context = (void *)3, .iov = &iov, .n_iov = 1, .remote = remote, .n_remote = NIC_RDM_REMOTE_MAX};

	(void)state;
	talk(rig, a, b);
	net.lose_data = true;
	for (unsigned i = 0; i < NIC_RDM_REMOTE_MAX; i++)
		remote[i] = (struct nic_rdm_remote){(uintptr_t)b->arena + 1000 + 8 * i, 8, nic_mr_rkey(b->mr)};
	rdm_fill(a, 0, 8 * NIC_RDM_REMOTE_MAX, 9);
	for (unsigned i = 0; i < 127; i++) { /* the send queue has room for one more request */
		assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 2000, 8), 0);
		assert_int_equal(rdm_send(a, b, 2, NIC_RDM_INJECT, 0, 0, 8), 0);
	}
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &write), 0);
	assert_int_equal(rdm_send(a, b, 4, 0, 0, 0, 8), 0);
	rdm_run(rig, SOON);
	rdm_expect_nothing(a);
	leave(rig, b, 1);
	net.lose_data = false;
	rdm_run(rig, SECOND / 2);
	for (unsigned i = 0; i < 127; i++)
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_OK, 3);
	rdm_expect_nothing(a);
	assert_true(rdm_holds(b, 1000, 8 * NIC_RDM_REMOTE_MAX, 9));
	rdm_rig_destroy(rig);
}

/** An unacknowledged request or an unreceived offer fails when the peer leaves; requests posted later reach the
 * peer's successor. */
static void rdm__requests_after_a_failed_one_reach_the_peers_successor(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdm_rig *rig = rig_of(2, 11);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		talk(rig, a, b);
		if (i == 0)
			assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, 8), 0);
		net.lose_data = i == 0;
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, i == 0 ? 8 : LONG), 0);
		rdm_run(rig, SOON);
		leave(rig, b, 1);
		net.lose_data = false;
		come_again(b);
		b->n_seen = b->n_done;
		send_some(a, b, 2);
		rdm_run(rig, QUIET);
		rdm_expect(a, NIC_RDM_SEND, i == 0 ? NIC_WC_RETRY_EXC_ERR : NIC_RDM_PEER_LOST, 1);
		expect_some(a, b, 2);
		rdm_rig_destroy(rig);
	}
}

/* ---- recipients of BYE ---------------------------------------------------------------------------------------- */

/** If a BYE is lost, the next request fails; a BYE that is late or belongs to an old connection is ignored. */
static void rdm__a_bye_affects_only_its_own_connection(void **state)
{
	struct rdm_rig *rig = rig_of(2, 4);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint64_t ignored;
	unsigned hellos;

	(void)state;
	talk(rig, a, b);
	net.lose_bye = true;
	leave(rig, b, 1);
	come_again(b);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_WC_RETRY_EXC_ERR, 1);
	talk(rig, a, b);
	hellos = net.hellos;
	ignored = nic_counters(a->nic)[NIC_CNT_rdm_calls_ignored];
	rdm_deliver(rig, net.bye, net.bye_len);
	assert_int_equal(nic_counters(a->nic)[NIC_CNT_rdm_calls_ignored], ignored + 1);
	talk(rig, a, b);
	assert_int_equal(net.hellos, hellos);
	rdm_rig_destroy(rig);
}

/** An endpoint that has got a BYE from its peer sends none back. */
static void rdm__an_endpoint_that_received_a_bye_sends_none_back(void **state)
{
	struct rdm_rig *rig = rig_of(2, 12);

	(void)state;
	talk(rig, &rig->node[0], &rig->node[1]);
	leave(rig, &rig->node[1], 1);
	leave(rig, &rig->node[0], 0);
	assert_int_equal(net.byes, 1);
	rdm_rig_destroy(rig);
}

/** Node a has waited for an answer from node b and got it. If node b leaves around the time at which node a would have
 * probed node b, node a's next requests still succeed. */
static void rdm__requests_succeed_after_a_peer_leaves_at_probe_time(void **state)
{
	(void)state;
	for (uint64_t at_ns = KEEPALIVE - A_WHILE; at_ns <= KEEPALIVE; at_ns += A_WHILE / 20) {
		struct rdm_rig *rig = rig_of(2, 6);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		talk(rig, a, b);
		assert_int_equal(rdm_recv(b, a, 1, 0, 0, 0, 0, 8), 0);
		assert_int_equal(rdm_send(a, b, 2, NIC_RDM_DELIVERY, 0, 0, 8), 0);
		rdm_run(rig, at_ns);
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
		leave(rig, b, 1);
		come_again(b);
		assert_int_equal(rdm_recv(b, a, 3, 0, 0, 0, 0, 8), 0);
		assert_int_equal(rdm_send(a, b, 4, 0, 0, 0, 8), 0);
		rdm_run(rig, A_WHILE);
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 4);
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3);
		rdm_rig_destroy(rig);
	}
}

static void counted(void *ctx, const struct nic_rdm_done *done)
{
	if (done->status == NIC_RDM_OK)
		++*(unsigned *)ctx;
}

/** Leaving with more peers than can be told at once: all are told in turn. */
static void rdm__leaving_sends_byes_to_150_peers_in_turn(void **state)
{
	struct rdm_rig *rig = rig_of(2, 5);
	struct rdm_node *hub = &rig->node[0], *n = &rig->node[1];
	unsigned dones = 0;
	struct nic_rdm_init init = {.pd = n->pd, .addr = n->addr, .done = counted, .ctx = &dones};
	const struct nic_iov iov = {n->arena, 8};
	const struct nic_rdm_send s = {.iov = &iov, .n_iov = 1};
	struct nic_rdm *ep[MANY];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			init.addr.port = (uint16_t)(1000 + i);
			if (round == 0)
				assert_int_equal(nic_rdm_create(n->nic, &init, &ep[i]), 0);
			assert_int_equal(nic_rdm_send(nic_rdm_peer_get(ep[i], &hub->addr), &s), 0);
			assert_int_equal(rdm_recv(hub, NULL, 1, 0, 0, 0, 0, 8), 0);
		}
		assert_true(rdm_run(rig, QUIET));
		assert_int_equal(dones, MANY * (round + 1));
		if (round == 0) {
			leave(rig, hub, MANY);
			come_again(hub);
		}
	}
	rdm_rig_destroy(rig);
}

/* ---- endpoints of one NIC ------------------------------------------------------------------------------------- */

static unsigned heard;

static void near_done(void *ctx, const struct nic_rdm_done *done)
{
	(void)ctx;
	assert_int_equal(done->kind, NIC_RDM_RECV);
	assert_int_equal(done->status, NIC_RDM_OK);
	heard++;
}

struct near {
	struct rdm_rig *rig;
	struct rdm_node *a;
	struct nic_rdm_init init; /* another endpoint of a's NIC */
	struct nic_iov from, to;
	struct nic_rdm_send send;
	struct nic_rdm_recv recv;
};

static void near_open(struct near *n)
{
	n->rig = rig_of(2, 9);
	n->a = &n->rig->node[0];
	n->init = (struct nic_rdm_init){.pd = n->a->pd, .addr = n->a->addr, .done = near_done};
	n->init.addr.port += 50;
	n->from = (struct nic_iov){n->a->arena, 8};
	n->to = (struct nic_iov){n->a->arena + 8, 8};
	n->send = (struct nic_rdm_send){.context = (void *)1, .iov = &n->from, .n_iov = 1};
	n->recv = (struct nic_rdm_recv){.iov = &n->to, .n_iov = 1};
	heard = 0;
}

/** When an endpoint leaves, other endpoints of the same NIC know it at once: their next request goes to the next
 * endpoint with this address. */
static void rdm__endpoints_on_the_same_nic_notice_a_leave_without_a_bye(void **state)
{
	struct nic_rdm *near;
	struct near n;

	(void)state;
	near_open(&n);
	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(nic_rdm_send(nic_rdm_peer_get(n.a->ep, &n.init.addr), &n.send), 0);
		assert_int_equal(nic_rdm_create(n.a->nic, &n.init, &near), 0);
		assert_int_equal(nic_rdm_recv(near, &n.recv), 0);
		assert_true(rdm_run(n.rig, QUIET));
		rdm_expect(n.a, NIC_RDM_SEND, NIC_RDM_OK, 1);
		assert_int_equal(heard, round + 1);
		assert_int_equal(nic_rdm_leave(near), 1);
		assert_int_equal(nic_rdm_leave(near), 0);
		nic_rdm_destroy(near);
	}
	assert_int_equal(net.byes, 0);
	rdm_rig_destroy(n.rig);
}

/** An endpoint leaves before its neighbour on the same NIC knows that the two are connected. The packet that completes
 * the connection still arrives at the neighbour, so a BYE has to follow it. */
static void rdm__leaving_sends_a_bye_to_a_half_connected_local_peer(void **state)
{
	struct nic_rdm_peer *peer, *back;
	struct nic_rdm *near;
	struct near n;

	(void)state;
	near_open(&n);
	assert_int_equal(nic_rdm_create(n.a->nic, &n.init, &near), 0);
	peer = nic_rdm_peer_get(n.a->ep, &n.init.addr);
	back = nic_rdm_peer_get(near, &n.a->addr);
	assert_int_equal(nic_rdm_send(peer, &n.send), 0);
	for (unsigned i = 0; i < 100 && back->state != RDM_UP; i++)
		rdm_run(n.rig, 1);
	assert_int_equal(back->state, RDM_UP);
	assert_int_equal(peer->state, RDM_CALLING);
	assert_int_equal(nic_rdm_leave(near), 1);
	rdm_run(n.rig, SOON);
	assert_int_equal(net.byes, 1);
	assert_true(peer->left);
	nic_rdm_destroy(near);
	assert_int_equal(nic_rdm_send(peer, &n.send), 0);
	assert_int_equal(nic_rdm_create(n.a->nic, &n.init, &near), 0);
	assert_int_equal(nic_rdm_recv(near, &n.recv), 0);
	rdm_run(n.rig, QUIET);
	assert_int_equal(heard, 1);
	rdm_rig_destroy(n.rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__requests_reach_a_peer_that_left_and_restarted),
		cmocka_unit_test(rdm__a_leaving_endpoint_accepts_no_requests_or_connections),
		cmocka_unit_test(rdm__a_waiting_fenced_request_goes_to_the_peers_successor),
		cmocka_unit_test(rdm__messages_sent_before_a_bye_are_received_after_it),
		cmocka_unit_test(rdm__late_messages_are_received_after_the_sender_restarts),
		cmocka_unit_test(rdm__a_leaving_endpoint_still_answers_earlier_requests),
		cmocka_unit_test(rdm__a_leaving_endpoint_still_gets_answers),
		cmocka_unit_test(rdm__a_late_ack_completes_a_request_after_the_peers_bye),
		cmocka_unit_test(rdm__a_begun_multipart_rma_finishes_after_the_peers_bye),
		cmocka_unit_test(rdm__requests_after_a_failed_one_reach_the_peers_successor),
		cmocka_unit_test(rdm__a_bye_affects_only_its_own_connection),
		cmocka_unit_test(rdm__an_endpoint_that_received_a_bye_sends_none_back),
		cmocka_unit_test(rdm__requests_succeed_after_a_peer_leaves_at_probe_time),
		cmocka_unit_test(rdm__leaving_sends_byes_to_150_peers_in_turn),
		cmocka_unit_test(rdm__endpoints_on_the_same_nic_notice_a_leave_without_a_bye),
		cmocka_unit_test(rdm__leaving_sends_a_bye_to_a_half_connected_local_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
