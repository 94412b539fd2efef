/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_trigger.c - requests that are started by counters. The counters count an endpoint's completions, or peers'
 * accesses to its memory. Some queues are full. Once the requests are queued, the applications do nothing: only the
 * NICs act.
 */
#include "rdm_rig.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "rdm_conn.h"

#define SECOND 1000000000ull
#define QUIET  (20 * SECOND)
#define LEN    64u
#define SENDS  50u
#define ROUNDS 40u

/** A message that a counter sends. */
struct sending {
	struct nic_trig_work trig;
	struct rdm_node *from, *to;
	uintptr_t context;
	uint32_t at;
};

static int fire(struct nic_trig_work *trig)
{
	struct sending *s = (struct sending *)trig;

	return rdm_send(s->from, s->to, s->context, 0, 0, s->at, LEN);
}

static void wait_for(struct sending *s, struct nic_trig_cntr *c, uint64_t threshold)
{
	s->trig.fire = fire;
	assert_int_equal(nic_trig_queue(s->from->nic, c, threshold, &s->trig), 0);
	nic_trig_run(s->from->nic);
}

/* Each node sends each message that it has received to the next node: a message travels in a circle. */
static void go_round(uint32_t lose)
{
	struct rdm_rig *rig = rdm_rig_create(3, 5 + lose);
	static struct sending sending[3][ROUNDS];
	struct nic_trig_cntr cntr[3];

	rig->lose = lose;
	rig->swap = lose;
	for (unsigned i = 0; i < 3; i++) {
		struct rdm_node *n = &rig->node[i];

		nic_trig_cntr_init(&cntr[i]);
		n->completions = &cntr[i];
		for (unsigned r = 0; r < ROUNDS; r++) {
			sending[i][r] = (struct sending){.from = n, .to = &rig->node[(i + 1) % 3], .context = r};
			/* Each round counts a receive and a send; only the first node starts with a send. */
			wait_for(&sending[i][r], &cntr[i], i ? 2 * r + 1 : 2 * r + 2);
			assert_int_equal(rdm_recv(n, NULL, 1000 + r, 0, 0, 0, 0, LEN), 0);
		}
	}
	rdm_fill(&rig->node[0], 0, LEN, 7);
	assert_int_equal(rdm_send(&rig->node[0], &rig->node[1], 999, 0, 0, 0, LEN), 0);
	rdm_run(rig, QUIET * 10);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(cntr[i].part[1], 0);
		assert_int_equal(cntr[i].part[0], 2 * ROUNDS + (i == 0));
		assert_true(rdm_holds(&rig->node[i], 0, LEN, 7));
		nic_trig_cntr_fini(&cntr[i]);
	}
	rdm_rig_destroy(rig);
}

static void rdm_trigger__a_received_message_is_forwarded(void **state)
{
	(void)state;
	go_round(0);
}

static void rdm_trigger__a_received_message_is_forwarded_on_a_lossy_network(void **state)
{
	(void)state;
	go_round(50);
}

static void rdm_trigger__remote_writes_start_a_send(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 1);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov iov = {a->arena, LEN};
	const struct nic_rdm_remote remote = {(uintptr_t)b->arena, LEN, nic_mr_rkey(b->mr)};
	const struct nic_rdm_rma write = {
		.context = (void *)1, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1};
	struct sending answer = {.from = b, .to = a, .context = 2};
	struct nic_trig_cntr cntr;

	(void)state;
	nic_trig_cntr_init(&cntr);
	b->requests = &cntr;
	wait_for(&answer, &cntr, 2);
	rdm_fill(a, 0, LEN, 3);
	assert_int_equal(rdm_recv(a, NULL, 3, 0, 0, 0, LEN, LEN), 0);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &write), 0);
	rdm_run(rig, SECOND);
	rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_OK, 1);
	rdm_expect_nothing(a);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &write), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect_among(a, NIC_RDM_WRITE, 1);
	rdm_expect(a, NIC_RDM_RECV, NIC_RDM_OK, 3);
	assert_true(rdm_holds(a, LEN, LEN, 3));
	rdm_expect(b, NIC_RDM_SEND, NIC_RDM_OK, 2);
	nic_trig_cntr_fini(&cntr);
	rdm_rig_destroy(rig);
}

static void rdm_trigger__work_for_a_full_queue_starts_later_in_order(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 2);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	static struct sending sending[SENDS];
	struct nic_trig_cntr cntr;

	(void)state;
	rdm_node_stop(a);
	rig->init.max_tx = 3;
	rdm_node_start(a);
	nic_trig_cntr_init(&cntr);
	for (unsigned i = 0; i < SENDS; i++) {
		sending[i] = (struct sending){.from = a, .to = b, .context = i, .at = i * LEN};
		rdm_fill(a, i * LEN, LEN, i);
		wait_for(&sending[i], &cntr, SENDS - i);
		assert_int_equal(rdm_recv(b, NULL, i, 0, 0, 0, i * LEN, LEN), 0);
	}
	nic_trig_add(a->nic, &cntr, false, SENDS);
	nic_trig_run(a->nic);
	assert_int_equal(rdm_send(a, b, 99, 0, 0, 0, LEN), -EAGAIN);
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < SENDS; i++) {
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, SENDS - 1 - i);
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i);
		assert_true(rdm_holds(b, i * LEN, LEN, SENDS - 1 - i));
	}
	nic_trig_cntr_fini(&cntr);
	rdm_rig_destroy(rig);
}

static void rdm_trigger__a_failed_request_starts_waiting_work(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(3, 3);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];
	struct sending next = {.from = a, .to = c, .context = 2};
	struct nic_trig_cntr cntr;

	(void)state;
	nic_trig_cntr_init(&cntr);
	a->completions = &cntr;
	wait_for(&next, &cntr, 1);
	rdm_node_stop(b);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LEN), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 1);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	assert_int_equal(nic_trig_part(&cntr, true), 1);
	assert_int_equal(nic_trig_part(&cntr, false), 1);
	nic_trig_cntr_fini(&cntr);
	rdm_rig_destroy(rig);
}

/* Counters fire under the engine's lock. They must not wait for a packet to be sent, because only the holder of the
 * lock can send it. */
static void rdm_trigger__counters_fire_while_a_dropped_connection_owes_an_ack(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(3, 4);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];
	struct sending next = {.from = b, .to = c, .context = 2};
	struct nic_trig_cntr cntr;

	(void)state;
	rdm_node_stop(b);
	rig->ack_delay_ns = SECOND;
	rdm_node_start(b);
	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, LEN), 0);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LEN), 0);
	rdm_run(rig, SECOND / 10);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	nic_trig_cntr_init(&cntr);
	wait_for(&next, &cntr, 1);
	rdm_disconnect(rdm_peer(b, a), NIC_RDM_PEER_LOST);
	assert_false(list_empty(&b->ep->lingering)); /* the delayed ACK has not been sent */
	nic_trig_add(b->nic, &cntr, false, 1);
	alarm(60); /* ends the test if nic_trig_run() does not return */
	nic_trig_run(b->nic);
	alarm(0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(b, NIC_RDM_SEND, NIC_RDM_OK, 2);
	assert_true(list_empty(&b->ep->lingering));
	nic_trig_cntr_fini(&cntr);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm_trigger__a_received_message_is_forwarded),
		cmocka_unit_test(rdm_trigger__a_received_message_is_forwarded_on_a_lossy_network),
		cmocka_unit_test(rdm_trigger__remote_writes_start_a_send),
		cmocka_unit_test(rdm_trigger__work_for_a_full_queue_starts_later_in_order),
		cmocka_unit_test(rdm_trigger__a_failed_request_starts_waiting_work),
		cmocka_unit_test(rdm_trigger__counters_fire_while_a_dropped_connection_owes_an_ack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
