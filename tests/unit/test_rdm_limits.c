/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_limits.c - reliable-datagram endpoints without room or with empty requests, and peers and applications that
 * misuse them.
 */
#include "rdm_rig.h"

#include "opcode.h"
#include "packet.h"
#include "rdm_rx.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000ull
/** Long enough for everything pending to finish. */
#define QUIET  (20 * SECOND)
#define LONG   50000u

/** Each request must have completed exactly once. @return how many completions are successful */
static unsigned each_once(struct rdm_node *n, uintptr_t first, unsigned count)
{
	unsigned good = 0;
	uint64_t seen = 0;

	assert_int_equal(n->n_done - n->n_seen, count);
	for (unsigned i = 0; i < count; i++) {
		struct nic_rdm_done d = rdm_next(n);
		uintptr_t at = (uintptr_t)d.context - first;

		assert_true(at < count && !(seen >> at & 1));
		seen |= 1ull << at;
		good += d.status == NIC_RDM_OK;
	}
	return good;
}

/* ---- room ---------------------------------------------------------------------------------------------------- */

static struct rdm_rig *small_rig(uint64_t seed)
{
	struct rdm_rig *rig = rdm_rig_create(2, seed);

	rig->init.max_unexpected = 65536;
	rig->init.max_tx = 100;
	rig->init.max_rx = 4;
	for (unsigned i = 0; i < 2; i++) {
		rdm_node_stop(&rig->node[i]);
		rdm_node_start(&rig->node[i]);
	}
	return rig;
}

/** Unexpected messages beyond the buffer limit wait at the sender; messages with a matching receive still arrive. */
static void rdm__unexpected_messages_beyond_the_limit_wait_at_the_sender(void **state)
{
	struct rdm_rig *rig = small_rig(60);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_TAGGED, 1, 0, 0, 8192), 0);
	for (unsigned i = 0; i < 20; i++) /* at most 7 messages of 8 KiB fit */
		assert_int_equal(rdm_send(a, b, 100 + i, 0, 0, 0, 8192), 0);
	rdm_run(rig, SECOND / 10);
	assert_in_range(a->n_done, 7, 8);
	a->n_seen = a->n_done;
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 8192), 0);
		rdm_run(rig, SECOND / 10);
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
	}
	assert_int_equal(a->n_done, 20);
	a->n_seen = 20;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(rdm_send(a, b, 100 + i, 0, 0, 0, 8192), 0);
	assert_int_equal(rdm_send(a, b, 200, NIC_RDM_TAGGED, 1, 0, 8192),
			 0); /* no buffer room is left at b, but there is a matching receive */
	assert_true(rdm_run(rig, QUIET));
	rdm_expect_among(a, NIC_RDM_SEND, 200);
	assert_int_equal(each_once(a, 100, 7), 7);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_rig_destroy(rig);
}

/** Room freed by short messages can be used by long ones, and vice versa. */
static void rdm__buffer_room_is_shared_by_short_and_long_messages(void **state)
{
	struct rdm_rig *rig = small_rig(61);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_rdm_done found;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		const struct nic_rdm_recv look = {.flags = NIC_RDM_DISCARD};

		assert_int_equal(rdm_send(a, b, i, 0, 0, 0, i % 2 ? 8192 : 8), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, i);
		assert_int_equal(nic_rdm_peek(b->ep, &look, &found), 0);
		assert_int_equal(found.len, i % 2 ? 8192 : 8);
	}
	rdm_rig_destroy(rig);
}

static void rdm__requests_and_receives_beyond_the_limits_are_refused(void **state)
{
	struct rdm_rig *rig = small_rig(62);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 64; i++)
			assert_int_equal(rdm_send(a, b, 100 + i, 0, 0, 0, 8), 0);
		for (unsigned i = 0; i < 36; i++)
			assert_int_equal(rdm_send(a, b, 200 + i, 0, 0, 0, LONG), 0);
		assert_int_equal(rdm_send(a, b, 300, 0, 0, 0, 8), -EAGAIN);
		rdm_run(rig, SECOND / 2);
		assert_int_equal(each_once(a, 100, 64), 64);
		assert_int_equal(rdm_send(a, b, 300, NIC_RDM_TAGGED, 9, 0, 8), 0);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(rdm_recv(b, NULL, 1 + i, NIC_RDM_TAGGED, 8, 0, 0, 8), 0);
		assert_int_equal(rdm_recv(b, NULL, 5, 0, 0, 0, 0, 8), -EAGAIN);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(nic_rdm_cancel(b->ep, (void *)(uintptr_t)(1 + i)), 0);
		for (unsigned i = 0; i < 100; i++) {
			assert_int_equal(rdm_recv(b, NULL, 7, 0, 0, 0, 0, LONG), 0);
			rdm_run(rig, SECOND / 100);
		}
		assert_int_equal(rdm_recv(b, NULL, 8, NIC_RDM_TAGGED, 9, 0, 0, 8), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 300);
		assert_int_equal(each_once(a, 200, 36), 36);
		assert_int_equal(b->n_done - b->n_seen, 4 + 100 + 1);
		b->n_seen = b->n_done;
	}
	rdm_rig_destroy(rig);
}

/** A peer can change a message in shared memory after the endpoint has checked whether the message fits. The endpoint
 * then still uses the header that it checked. */
static void rdm__a_header_changed_after_its_check_has_no_effect(void **state)
{
	struct rdm_rig *rig = small_rig(63);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint8_t bytes[1024] = {0};
	struct rdm_header h = {.kind = RDM_EAGER, .flags = RDM_IS_TAGGED, .length = sizeof(bytes) - RDM_HEADER_LEN};
	struct packet p = {
		.op = op_find(OP_RC, OP_SEND, OP_ONLY, OP_PLAIN), .payload = bytes, .payload_len = sizeof(bytes)};
	uint32_t answers = b->ep->answers_left;
	struct nic_qp *qp;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(rdm_send(a, b, i, 0, 0, 0, 8192), 0);
	rdm_run(rig, SECOND / 10);
	qp = rdm_peer(b, a)->qp;
	assert_int_equal(rdm_recv(b, NULL, 100, NIC_RDM_TAGGED, 0, 0, 0, 8192), 0);
	rdm_header_put(&h, bytes);
	assert_true(rdm_takes(qp, &p));
	h = (struct rdm_header){.kind = RDM_EAGER, .flags = RDM_WANTS_FIN, .length = 8192};
	rdm_header_put(&h, bytes);
	assert_int_equal(rdm_arrive(qp, &p), ERR_none);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 100).len, sizeof(bytes) - RDM_HEADER_LEN);
	assert_int_equal(b->ep->answers_left, answers);
	assert_false(rdm_takes(qp, &p)); /* no longer fits after the change */
	rdm_expect_nothing(b);
	rdm_rig_destroy(rig);
}

static int operate(struct rdm_node *a, struct rdm_node *b, uintptr_t context, uint64_t tag, bool fetch)
{
	const struct nic_iov iov = {a->arena, 1024}, result = {a->arena + 4096, 1024};
	const struct nic_rdm_remote remote = {.len = 1024};
	const struct nic_rdm_atomic r = {.context = (void *)context,
					 .flags = NIC_RDM_TAGGED,
					 .op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = &iov,
					 .n_operand = 1,
					 .result = &result,
					 .n_result = fetch,
					 .remote = &remote,
					 .n_remote = 1,
					 .tag = tag};

	return nic_rdm_atomic(rdm_peer(a, b), &r);
}

/** Operations that wait for a matching receive use buffer room for their operands only. Their results use none, so the
 * requester can buffer as many messages as without the operations. */
static void rdm__operation_results_take_no_message_buffer_room(void **state)
{
	struct rdm_rig *rig = small_rig(65);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(operate(a, b, 100 + i, 1, true), 0);
	rdm_run(rig, SECOND / 10);
	for (unsigned i = 0; i < 7; i++) /* as many messages as fit */
		assert_int_equal(rdm_send(b, a, 200 + i, 0, 0, 0, 8192), 0);
	rdm_run(rig, SECOND / 10);
	assert_int_equal(each_once(b, 200, 7), 7);
	for (unsigned i = 0; i < 20; i++) {
		memset(b->arena, 0, 1024);
		assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_TAGGED, 1, 0, 0, 1024), 0);
		rdm_run(rig, SECOND / 100);
	}
	for (unsigned i = 0; i < 20; i++)
		rdm_expect_among(a, NIC_RDM_FETCH, 100 + i);
	rdm_expect_nothing(a);
	rdm_rig_destroy(rig);
}

static unsigned packets_left;

static bool cut_after(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	return from == 0 && rdm_call_of(ip, len) == NO_CALL && (packets_left == 0 || packets_left-- == 0);
}

/** A multi-receive buffer is canceled in the middle of a message: first the message completes, then the buffer's end is
 * reported, even if the sender disappears. */
static void rdm__a_buffer_canceled_amid_a_message_ends_after_it(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		struct rdm_rig *rig = rdm_rig_create(2, 66);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		uint32_t tagged = how & 1 ? NIC_RDM_TAGGED : 0;
		bool goes = how & 2;
		struct nic_rdm_done d;

		assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_MULTI | tagged, 5, 0, 0, 65536), 0);
		assert_int_equal(rdm_send(a, b, 2, tagged, 5, 0, 100), 0);
		assert_true(rdm_run(rig, QUIET));
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1).flags, tagged);
		packets_left = 3;
		rig->cut = cut_after;
		assert_int_equal(rdm_send(a, b, 3, tagged, 5, 0, 8000), 0);
		rdm_run(rig, 1000000);
		assert_int_equal(nic_rdm_cancel(b->ep, (void *)1), 0);
		assert_int_equal(nic_rdm_cancel(b->ep, (void *)1), -ENOENT);
		rdm_expect_nothing(b); /* the buffer is not canceled yet: a message is still being written into it */
		if (goes)
			rdm_node_stop(a);
		rig->cut = NULL;
		assert_int_equal(goes ? 0 : rdm_send(a, b, 4, tagged, 5, 0, 8),
				 0); /* this message does not go into the canceled buffer */
		rdm_run(rig, QUIET);
		d = rdm_expect(b, NIC_RDM_RECV, goes ? NIC_RDM_PEER_LOST : NIC_RDM_OK, 1);
		assert_int_equal(d.flags, tagged);
		assert_ptr_equal(d.buf, b->arena + 100);
		d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_CANCELED, 1);
		assert_int_equal(d.flags, tagged | NIC_RDM_MULTI);
		rdm_expect_nothing(b);
		rdm_rig_destroy(rig);
	}
}

/** A header with a tag but without IS_TAGGED is invalid, because no receive could match it. */
static void rdm__a_tag_without_the_tagged_flag_is_invalid(void **state)
{
	static const uint8_t kinds[] = {RDM_EAGER, RDM_OFFER};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdm_header h = {
			.kind = kinds[i], .flags = RDM_WANTS_FIN, .n_segments = (uint8_t)i, .length = 8 * i};
		uint8_t bytes[RDM_PREFIX_MAX];
		uint32_t len;

		h.segment[0].len = 8 * i;
		len = rdm_header_put(&h, bytes);
		assert_int_equal(rdm_header_get(&h, bytes, len), len);
		h.tag = 1;
		rdm_header_put(&h, bytes);
		assert_int_equal(rdm_header_get(&h, bytes, len), 0);
		h.flags |= RDM_IS_TAGGED;
		rdm_header_put(&h, bytes);
		assert_int_equal(rdm_header_get(&h, bytes, len), len);
	}
}

/** A RESULT needs no answer. A RESULT with flags is invalid. */
static void rdm__results_have_no_flags(void **state)
{
	struct rdm_header h = {.kind = RDM_RESULT};
	uint8_t bytes[RDM_PREFIX_MAX];
	uint32_t len = rdm_header_put(&h, bytes);

	(void)state;
	assert_int_equal(rdm_header_get(&h, bytes, len), len);
	for (uint8_t flags = 1; flags < 8; flags++) {
		h.flags = flags;
		rdm_header_put(&h, bytes);
		assert_int_equal(rdm_header_get(&h, bytes, len), 0);
	}
}

/** A peer that is owed as many answers as allowed leaves room for answers to other peers. */
static void rdm__a_greedy_peer_cannot_use_up_all_answers(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(4, 64);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rig->init.max_tx = RDM_ANSWERS;
	for (unsigned i = 0; i < 2; i++) { /* two greedy peers */
		rdm_node_stop(&rig->node[2 * i]);
		rdm_node_start(&rig->node[2 * i]);
		for (unsigned n = 0; n < RDM_ANSWERS; n++)
			assert_int_equal(rdm_send(&rig->node[2 * i], b, 7, NIC_RDM_DELIVERY, 0, 0, 0), 0);
		rdm_run(rig, SECOND);
		assert_int_equal(rdm_peer(b, &rig->node[2 * i])->owed, i ? RDM_ANSWERS / 4 : RDM_ANSWERS / 2);
	}
	assert_int_equal(rdm_recv(b, &rig->node[3], 1, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(&rig->node[3], b, 2, NIC_RDM_DELIVERY, 0, 0, 8), 0);
	rdm_run(rig, SECOND);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_expect(&rig->node[3], NIC_RDM_SEND, NIC_RDM_OK, 2);
	/* A peer that has received its answers is served again. */
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(rdm_recv(b, a, 3, 0, 0, 0, 0, 8), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(b->n_done - b->n_seen, 100);
	assert_int_equal(a->n_done, 100);
	rdm_rig_destroy(rig);
}

/* ---- what applications may ask for ----------------------------------------------------------------------------- */

static void rdm__lengths_do_not_wrap(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 70);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov iov[2] = {{a->arena, SIZE_MAX - 7}, {a->arena, 16}};
	const struct nic_rdm_remote remote[2] = {{0, UINT64_MAX - 7, 0}, {0, 16, 0}};
	const struct nic_rdm_send s = {.flags = NIC_RDM_INJECT, .iov = iov, .n_iov = 2};
	const struct nic_rdm_rma r = {.iov = iov + 1, .n_iov = 1, .remote = remote, .n_remote = 2};
	const struct nic_rdm_atomic e = {.flags = NIC_RDM_INJECT,
					 .op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = iov,
					 .n_operand = 2,
					 .remote = &(struct nic_rdm_remote){0, 8, 0},
					 .n_remote = 1};

	(void)state;
	assert_int_equal(nic_rdm_send(rdm_peer(a, b), &s), -EMSGSIZE);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), -EINVAL);
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &e), -EINVAL);
	rdm_rig_destroy(rig);
}

/** Empty segments are allowed, and the limit for them is that for non-empty ones. An entirely empty RMA completes at
 * once. */
static void rdm__empty_segments_and_empty_requests_are_allowed(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 71);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t key = nic_mr_rkey(b->mr);
	const struct nic_iov nothing[4] = {{0}}, result[2] = {{NULL, 0}, {a->arena, 8}};
	const struct nic_rdm_remote none[2] = {{0}}, one[3] = {{0}, {(uintptr_t)b->arena, 8, key}, {0}};
	const struct nic_rdm_send s = {.context = (void *)1, .flags = NIC_RDM_INJECT, .iov = nothing, .n_iov = 4};
	const struct nic_rdm_rma r = {.context = (void *)2, .iov = nothing, .n_iov = 4, .remote = none, .n_remote = 2};
	const struct nic_rdm_atomic e = {.context = (void *)3,
					 .op = NIC_ELEM_ATOMIC_READ,
					 .datatype = NIC_DT_UINT64,
					 .operand = nothing,
					 .n_operand = 2,
					 .result = result,
					 .n_result = 2,
					 .remote = one,
					 .n_remote = 3};
	const struct nic_rdm_recv v = {.context = (void *)4, .iov = nothing, .n_iov = 4};
	const struct nic_rdm_recv claim = {
		.flags = NIC_RDM_CLAIM | NIC_RDM_MULTI, .iov = result + 1, .n_iov = 1, .min_free = 1};

	(void)state;
	assert_int_equal(nic_rdm_recv(b->ep, &v), 0);
	assert_int_equal(nic_rdm_recv(b->ep, &claim), -EINVAL);
	assert_int_equal(nic_rdm_send(rdm_peer(a, b), &s), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	assert_null(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 4).buf);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), 0);
	rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_OK, 2);
	rdm_fill(b, 0, 8, 9);
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &e), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_FETCH, NIC_RDM_OK, 3);
	assert_true(rdm_holds(a, 0, 8, 9));
	rdm_rig_destroy(rig);
}

/** A long message is received into a buffer of length 0: it completes as truncated, and nothing of it is read. */
static void rdm__a_long_message_into_an_empty_buffer_is_truncated_unread(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 72);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LONG), 0);
	rdm_run(rig, SECOND / 10);
	rig->cut = rdm_cut_all;
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 0), 0);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_TRUNCATED, 2).overflow, LONG);
	rdm_run(rig, SECOND / 100);
	rig->cut = NULL;
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__unexpected_messages_beyond_the_limit_wait_at_the_sender),
		cmocka_unit_test(rdm__buffer_room_is_shared_by_short_and_long_messages),
		cmocka_unit_test(rdm__requests_and_receives_beyond_the_limits_are_refused),
		cmocka_unit_test(rdm__a_header_changed_after_its_check_has_no_effect),
		cmocka_unit_test(rdm__operation_results_take_no_message_buffer_room),
		cmocka_unit_test(rdm__a_buffer_canceled_amid_a_message_ends_after_it),
		cmocka_unit_test(rdm__a_tag_without_the_tagged_flag_is_invalid),
		cmocka_unit_test(rdm__results_have_no_flags),
		cmocka_unit_test(rdm__a_greedy_peer_cannot_use_up_all_answers),
		cmocka_unit_test(rdm__lengths_do_not_wrap),
		cmocka_unit_test(rdm__empty_segments_and_empty_requests_are_allowed),
		cmocka_unit_test(rdm__a_long_message_into_an_empty_buffer_is_truncated_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
