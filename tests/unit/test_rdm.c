/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdm.c - reliable-datagram endpoints: messages, tags, RMA, element operations, on a faultless network. */
#include "rdm_rig.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000ull
/** Long enough for everything pending to finish. */
#define QUIET  (3 * SECOND)
#define HALF   (RDM_ARENA / 2)

static void rdm__a_message_is_delivered(void **state)
{
	static const uint32_t lengths[] = {0, 1, 128, 129, 1000, 1024, 4000, 8192, 8193, 100000};
	struct rdm_rig *rig = rdm_rig_create(2, 1);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		struct nic_rdm_done d;

		for (unsigned late = 0; late < 2; late++) { /* post the receive before or after the message */
			rdm_fill(a, 0, len, i);
			memset(b->arena + HALF, 0, HALF);
			if (!late)
				assert_int_equal(rdm_recv(b, NULL, 7, 0, 0, 0, HALF, HALF), 0);
			assert_int_equal(rdm_send(a, b, 5, NIC_RDM_DATA, 9, 0, len), 0);
			rdm_run(rig, SECOND);
			if (late)
				assert_int_equal(rdm_recv(b, NULL, 7, 0, 0, 0, HALF, HALF), 0);
			assert_true(rdm_run(rig, QUIET));
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 5);
			d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 7);
			assert_int_equal(d.len, len);
			assert_int_equal(d.overflow, 0);
			assert_ptr_equal(d.peer, rdm_peer(b, a));
			assert_ptr_equal(d.buf, b->arena + HALF);
			assert_int_equal(d.data, ~9ull);
			assert_int_equal(d.flags, NIC_RDM_DATA);
			assert_true(rdm_holds(b, HALF, len, i));
			assert_int_equal(b->arena[HALF + len], 0);
			rdm_expect_nothing(a);
			rdm_expect_nothing(b);
		}
	}
	rdm_rig_destroy(rig);
}

/** INJECT takes messages up to NIC_RDM_INJECT_MAX, and the caller may reuse the buffer as soon as the call returns. */
static void rdm__an_injected_buffer_may_be_reused_at_once(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 2);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rdm_fill(a, 0, NIC_RDM_INJECT_MAX, 3);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, NIC_RDM_INJECT_MAX + 1), -EMSGSIZE);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, NIC_RDM_INJECT_MAX), 0);
	memset(a->arena, 0, NIC_RDM_INJECT_MAX);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 4096), 0);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1).flags, NIC_RDM_INJECT);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
	assert_true(rdm_holds(b, 0, NIC_RDM_INJECT_MAX, 3));
	rdm_rig_destroy(rig);
}

/** A message from several segments into several segments whose borders do not match; some segments are empty. */
static void rdm__segments_on_both_sides(void **state)
{
	static const uint32_t total[] = {3000, 20000};
	struct rdm_rig *rig = rdm_rig_create(2, 3);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct nic_iov from[4] = {
			{a->arena, 7}, {a->arena + 7, 0}, {a->arena + 7, 1001}, {a->arena + 1008, total[i] - 1008}};
		const struct nic_iov to[4] = {
			{b->arena, 2000}, {b->arena + 2000, 1}, {NULL, 0}, {b->arena + 2001, RDM_ARENA - 2001}};
		const struct nic_rdm_send s = {.context = (void *)1, .iov = from, .n_iov = 4};
		const struct nic_rdm_recv r = {.context = (void *)2, .iov = to, .n_iov = 4};

		rdm_fill(a, 0, total[i], i);
		assert_int_equal(nic_rdm_recv(b->ep, &r), 0);
		assert_int_equal(nic_rdm_send(rdm_peer(a, b), &s), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2).len, total[i]);
		assert_true(rdm_holds(b, 0, total[i], i));
	}
	rdm_rig_destroy(rig);
}

static void rdm__a_message_longer_than_its_receive_is_truncated(void **state)
{
	static const uint32_t lengths[] = {100, 5000, 60000};
	struct rdm_rig *rig = rdm_rig_create(2, 4);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		uint32_t len = lengths[i / 2], room = i == 0 ? 0 : len - 30;
		struct nic_rdm_done d;

		rdm_fill(a, 0, len, i);
		memset(b->arena, 0xaa, RDM_ARENA);
		if (i % 2)
			assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, room), 0);
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, len), 0);
		rdm_run(rig, QUIET);
		if (i % 2 == 0)
			assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, room), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
		d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_TRUNCATED, 2);
		assert_int_equal(d.len, room);
		assert_int_equal(d.overflow, len - room);
		assert_true(rdm_holds(b, 0, room, i));
		assert_int_equal(b->arena[room], 0xaa);
	}
	rdm_rig_destroy(rig);
}

static void rdm__messages_match_receives_by_tag_and_source(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(3, 5);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];
	struct nic_rdm_done d;

	(void)state;
	assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_TAGGED, 0x100, 0xff, 0, 64), 0);
	assert_int_equal(rdm_recv(b, c, 2, NIC_RDM_TAGGED, 0x200, 0, 64, 64), 0);
	assert_int_equal(rdm_recv(b, NULL, 3, 0, 0, 0, 128, 64), 0);
	assert_int_equal(rdm_send(a, b, 11, NIC_RDM_TAGGED, 0x200, 0, 4),
			 0); /* a's message does not match the receive from c: it stays unexpected */
	assert_int_equal(rdm_send(a, b, 12, NIC_RDM_TAGGED, 0x142, 0, 5), 0);
	assert_int_equal(rdm_send(a, b, 13, 0, 0x100, 0, 6), 0);
	assert_true(rdm_run(rig, QUIET));
	d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	assert_int_equal(d.tag, 0x142);
	assert_int_equal(d.flags, NIC_RDM_TAGGED);
	assert_int_equal(d.len, 5);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3).len, 6);
	rdm_expect_nothing(b);
	assert_int_equal(rdm_send(c, b, 14, NIC_RDM_TAGGED, 0x200, 0, 7), 0);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2).len, 7);
	assert_int_equal(rdm_recv(b, NULL, 4, NIC_RDM_TAGGED, 0x200, 0, 0, 64), 0);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 4).len, 4);
	rdm_rig_destroy(rig);
}

/** Messages of one sender match receives in the order in which they were sent, whether long or short, received early or
 * late. */
static void rdm__messages_are_taken_in_order(void **state)
{
	static const uint32_t lengths[] = {8, 50000, 3000, 0, 9000, 1, 20000, 8192};
	struct rdm_rig *rig = rdm_rig_create(2, 6);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	bool seen[8] = {false};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		if (i == 4)
			rdm_run(rig, SECOND);
		assert_int_equal(rdm_send(a, b, 100 + i, NIC_RDM_TAGGED, 5, 0, lengths[i]), 0);
	}
	rdm_run(rig, SECOND);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(rdm_recv(b, NULL, 200 + i, NIC_RDM_TAGGED, 5, 0, i * 30000, i == 1 ? 60000 : 30000),
				 0);
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < 8; i++) {
		struct nic_rdm_done d = rdm_next(b);
		uintptr_t n = (uintptr_t)d.context - 200;

		assert_true(n < 8 && !seen[n]);
		seen[n] = true;
		assert_int_equal(d.len, lengths[n]);
	}
	rdm_rig_destroy(rig);
}

static void rdm__a_multi_receive_buffer_takes_many_messages(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 7);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t at = 0;

	(void)state;
	assert_int_equal(rdm_send(a, b, 0, 0, 0, 0, 10), 0); /* arrives before the buffer is posted */
	rdm_run(rig, SECOND);
	assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_MULTI, 0, 0, 0, 300), 0);
	assert_int_equal(rdm_recv(b, NULL, 2, NIC_RDM_MULTI, 0, 0, 300, 20000), 0);
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(rdm_send(a, b, i, 0, 0, 0, 70), 0);
	assert_int_equal(rdm_send(a, b, 5, 0, 0, 0, 10000), 0);
	assert_int_equal(rdm_send(a, b, 6, 0, 0, 0, 9950), 0);
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < 7; i++) { /* a multi-receive buffer ends when less than 64 bytes are left */
		static const uint32_t lengths[] = {10, 70, 70, 70, 70, 10000, 9950};
		struct nic_rdm_done d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i < 5 ? 1 : 2);

		if (i == 5)
			at = 300;
		assert_int_equal(d.len, lengths[i]);
		assert_ptr_equal(d.buf, b->arena + at);
		assert_int_equal(d.flags, i == 4 || i == 6 ? NIC_RDM_MULTI : 0);
		at += lengths[i];
	}
	rdm_rig_destroy(rig);
}

static void rdm__peek_claim_discard(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 8);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_rdm_recv look = {.context = (void *)9, .flags = NIC_RDM_TAGGED, .tag = 1, .ignore = 0xf0};
	struct nic_rdm_done d;

	(void)state;
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), -ENOMSG);
	rdm_fill(a, 0, 20000, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
			rdm_send(a, b, i, NIC_RDM_TAGGED | NIC_RDM_DATA, 0x11 + 0x10 * i, 0, i == 1 ? 20000 : 100), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), 0);
	assert_int_equal(d.tag, 0x11);
	assert_int_equal(d.len, 100);
	assert_int_equal(d.flags, NIC_RDM_TAGGED | NIC_RDM_DATA);
	look.flags |= NIC_RDM_DISCARD;
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), 0); /* discards the first message */
	look.flags = NIC_RDM_TAGGED | NIC_RDM_CLAIM;
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), 0); /* claims the second message */
	assert_int_equal(d.tag, 0x21);
	look.context = (void *)10;
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), 0); /* claims the third message */
	assert_int_equal(d.tag, 0x31);
	assert_int_equal(rdm_recv(b, NULL, 11, NIC_RDM_TAGGED, 0, UINT64_MAX, 0, 1000), 0);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 11).tag,
			 0x41); /* a receive of any tag gets the fourth message */
	assert_int_equal(rdm_recv(b, NULL, 12, NIC_RDM_TAGGED | NIC_RDM_CLAIM, 0, 0, 0, 1000), -ENOMSG);
	assert_int_equal(rdm_recv(b, NULL, 9, NIC_RDM_TAGGED | NIC_RDM_CLAIM, 0, 0, 1000, 20000), 0);
	assert_int_equal(rdm_recv(b, NULL, 10, NIC_RDM_TAGGED | NIC_RDM_CLAIM | NIC_RDM_DISCARD, 0, 0, 0, 0), 0);
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 10).tag, 0x31);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 9).len, 20000);
	assert_true(rdm_holds(b, 1000, 20000, 1));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rdm_next(a).status, NIC_RDM_OK);
	rdm_rig_destroy(rig);
}

static void rdm__a_receive_can_be_cancelled(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 9);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	assert_int_equal(rdm_recv(b, NULL, 1, NIC_RDM_TAGGED, 1, 0, 0, 64), 0);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_recv(b, NULL, 3, NIC_RDM_MULTI, 0, 0, 0, 640), 0);
	assert_int_equal(nic_rdm_cancel(b->ep, (void *)4), -ENOENT);
	for (uintptr_t i = 1; i <= 3; i++) {
		assert_int_equal(nic_rdm_cancel(b->ep, (void *)i), 0);
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_CANCELED, i).flags, i == 1	  ? NIC_RDM_TAGGED
											 : i == 3 ? NIC_RDM_MULTI
												  : 0);
		assert_int_equal(nic_rdm_cancel(b->ep, (void *)i), -ENOENT);
	}
	assert_int_equal(rdm_send(a, b, 5, NIC_RDM_TAGGED, 1, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect_nothing(b);
	rdm_rig_destroy(rig);
}

/** A SEND with DELIVERY completes only when a receive has got the message. */
static void rdm__a_send_with_delivery_completes_when_received(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 10);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_DELIVERY, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 8), 0);
	rdm_run(rig, QUIET);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect_nothing(a);
	assert_int_equal(rdm_recv(b, NULL, 3, 0, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_rig_destroy(rig);
}

/**
 * A request with FENCE waits for all requests before it, here an unreceived long message, and delays all requests after
 * it. It does not delay answers to the peer, which has posted the same requests.
 */
static void rdm__fence_waits_for_all_before(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 16);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdm_node *a = &rig->node[i], *b = &rig->node[1 - i];

		assert_int_equal(rdm_send(a, b, 1, NIC_RDM_TAGGED, 1, 0, 20000), 0);
		assert_int_equal(rdm_send(a, b, 2, NIC_RDM_TAGGED | NIC_RDM_FENCE, 2, 0, 8), 0);
		assert_int_equal(rdm_send(a, b, 3, NIC_RDM_TAGGED, 2, 0, 8), 0);
	}
	rdm_run(rig, QUIET);
	for (unsigned i = 0; i < 2; i++) {
		rdm_expect_nothing(&rig->node[i]);
		assert_int_equal(rdm_recv(&rig->node[i], NULL, 4, NIC_RDM_TAGGED, 1, 0, HALF, 20000), 0);
	}
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < 2; i++) {
		rdm_expect_among(&rig->node[i], NIC_RDM_RECV, 4);
		for (uintptr_t k = 1; k <= 3; k++)
			rdm_expect(&rig->node[i], NIC_RDM_SEND, NIC_RDM_OK, k);
	}
	rdm_rig_destroy(rig);
}

/* ---- RMA and operations on elements --------------------------------------------------------------------------- */

static void rdm__rma_from_and_to_segments(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 11);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t key = nic_mr_rkey(b->mr);
	const struct nic_iov iov[3] = {{a->arena, 100}, {a->arena + 100, 9000}, {a->arena + 9100, 3000}};
	const struct nic_rdm_remote remote[4] = {{(uintptr_t)b->arena, 5000, key},
						 {(uintptr_t)b->arena + 5000, 0, key},
						 {(uintptr_t)b->arena + 5000, 7000, key},
						 {(uintptr_t)b->arena + 12000, 100, key}};
	struct nic_rdm_rma r = {.context = (void *)1,
				.flags = NIC_RDM_DATA,
				.iov = iov,
				.n_iov = 3,
				.remote = remote,
				.n_remote = 4,
				.data = 0x1122334455667788};
	struct nic_rdm_done d;

	(void)state;
	rdm_fill(a, 0, 12100, 5);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_OK, 1);
	assert_int_equal(b->n_written, 3);
	assert_int_equal(b->n_read, 0);
	d = rdm_expect(b, NIC_RDM_REMOTE_WRITE, NIC_RDM_OK, 0);
	assert_int_equal(d.data, 0x1122334455667788);
	assert_true(rdm_holds(b, 0, 12100, 5));
	memset(a->arena, 0, 12100);
	r.read = true;
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), -EINVAL); /* a READ cannot carry data */
	r.flags = 0;
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(rdm_expect(a, NIC_RDM_READ, NIC_RDM_OK, 1).len, 12100);
	assert_true(rdm_holds(a, 0, 12100, 5));
	assert_int_equal(b->n_written, 3);
	assert_int_equal(b->n_read, 3);
	r.n_remote = 3;
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &r), -EINVAL);
	rdm_rig_destroy(rig);
}

/** A WRITE posted after a READ of the same memory: the READ still returns the old contents. */
static void rdm__write_after_read(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 12);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov to = {a->arena, 60000}, from = {a->arena + 60000, 60000};
	const struct nic_rdm_remote remote = {(uintptr_t)b->arena, 60000, nic_mr_rkey(b->mr)};
	const struct nic_rdm_rma read = {.read = true, .iov = &to, .n_iov = 1, .remote = &remote, .n_remote = 1};
	const struct nic_rdm_rma write = {.iov = &from, .n_iov = 1, .remote = &remote, .n_remote = 1};

	(void)state;
	rdm_fill(b, 0, 60000, 1);
	rdm_fill(a, 60000, 60000, 2);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &read), 0);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &write), 0);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(a->n_done, 2);
	assert_true(rdm_holds(a, 0, 60000, 1));
	assert_true(rdm_holds(b, 0, 60000, 2));
	rdm_rig_destroy(rig);
}

static void rdm__element_operations_work_across_segments(void **state)
{
	enum { N = 400 };
	struct rdm_rig *rig = rdm_rig_create(2, 13);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint64_t *target = (uint64_t *)(void *)b->arena, *operand = (uint64_t *)(void *)a->arena;
	uint64_t *result = operand + 1000, *compare = operand + 2000;
	uint32_t key = nic_mr_rkey(b->mr);
	const struct nic_iov o[2] = {{operand, 100 * 8}, {operand + 100, (N - 100) * 8}};
	const struct nic_iov f[3] = {{result, 8}, {result + 1, 150 * 8}, {result + 151, (N - 151) * 8}};
	const struct nic_iov c[1] = {{compare, N * 8}};
	const struct nic_rdm_remote remote[2] = {{(uintptr_t)target, 250 * 8, key},
						 {(uintptr_t)(target + 250), (N - 250) * 8, key}};
	struct nic_rdm_atomic r = {.context = (void *)1,
				   .op = NIC_ELEM_SUM,
				   .datatype = NIC_DT_UINT64,
				   .operand = o,
				   .n_operand = 2,
				   .remote = remote,
				   .n_remote = 2};

	(void)state;
	for (unsigned i = 0; i < N; i++) {
		target[i] = i;
		operand[i] = 1000 + i;
		compare[i] = i % 2 ? 1000 + 2 * i : 1;
	}
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, 1);
	assert_true(b->n_written >= 2 && b->n_read == 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(target[i], 1000 + 2 * i);
	r.op = NIC_ELEM_CSWAP;
	r.compare = c;
	r.n_compare = 1;
	r.result = f;
	r.n_result = 3;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_FETCH, NIC_RDM_OK, 1);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(result[i], 1000 + 2 * i);
		assert_int_equal(target[i], i % 2 ? 1000 + i : 1000 + 2 * i);
	}
	r.n_compare = 0;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), -EINVAL);
	r.op = NIC_ELEM_BAND;
	r.datatype = NIC_DT_DOUBLE;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), -EOPNOTSUPP);
	rdm_rig_destroy(rig);
}

/** Injected operands may be reused at once, even before the connection is up; result buffers may not. */
static void rdm__injected_operands_may_be_reused_at_once(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 14);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t operand[32], compare[32];
	const struct nic_iov c = {compare, sizeof(compare)}, result = {a->arena, sizeof(compare)};
	const struct nic_iov o = {operand, sizeof(operand)};
	const struct nic_rdm_remote remote = {(uintptr_t)b->arena, sizeof(operand), nic_mr_rkey(b->mr)};
	struct nic_rdm_atomic r = {.flags = NIC_RDM_INJECT,
				   .op = NIC_ELEM_BOR,
				   .datatype = NIC_DT_UINT32,
				   .operand = &o,
				   .n_operand = 1,
				   .remote = &remote,
				   .n_remote = 1};

	(void)state;
	for (uint32_t i = 0; i < 32; i++)
		operand[i] = 1u << i;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	memset(operand, 0xff, sizeof(operand));
	assert_true(rdm_run(rig, QUIET));
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(((uint32_t *)(void *)b->arena)[i], 1u << i);
	for (uint32_t i = 0; i < 32; i++) {
		operand[i] = i;
		compare[i] = 1u << i;
	}
	r.op = NIC_ELEM_CSWAP;
	r.compare = &c;
	r.result = &result;
	r.n_compare = r.n_result = 1;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	memset(operand, 0xff, sizeof(operand));
	memset(compare, 0xff, sizeof(compare));
	assert_true(rdm_run(rig, QUIET));
	for (uint32_t i = 0; i < 32; i++) {
		assert_int_equal(((uint32_t *)(void *)b->arena)[i], i);
		assert_int_equal(((uint32_t *)(void *)a->arena)[i], 1u << i);
	}
	rdm_rig_destroy(rig);
}

/** If a region is addressed by offsets, the memory itself must be aligned, not the offset. */
static void rdm__element_alignment_is_checked_on_memory_not_on_offset(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 16);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov o = {a->arena, 8};
	struct nic_rdm_remote remote = {.len = 8};
	struct nic_rdm_atomic r = {.op = NIC_ELEM_SUM,
				   .datatype = NIC_DT_UINT64,
				   .operand = &o,
				   .n_operand = 1,
				   .remote = &remote,
				   .n_remote = 1};

	(void)state;
	assert_int_equal((uintptr_t)b->arena % 8, 0);
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	assert_int_equal(nic_mr_reg(b->pd, b->arena + 4, 100, 0,
				    NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC,
				    &b->mr),
			 0);
	memset(a->arena, 1, 8);
	memset(b->arena, 1, 100);
	remote.rkey = nic_mr_rkey(b->mr);
	remote.addr = 12;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, 0);
	assert_int_equal(b->arena[16], 2);
	assert_int_equal(b->arena[23], 2);
	assert_int_equal(b->arena[15] + b->arena[24], 2);
	remote.addr = 8;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_ATOMIC, NIC_WC_REM_INV_REQ_ERR, 0);
	rdm_rig_destroy(rig);
}

/** An endpoint can be its own peer. */
static void rdm__an_endpoint_sends_to_itself(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(1, 15);
	struct rdm_node *a = &rig->node[0];

	(void)state;
	rdm_fill(a, 0, 50000, 1);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rdm_send(a, a, 1, 0, 0, 0, i ? 50000 : 500), 0);
		assert_int_equal(rdm_recv(a, a, 2, 0, 0, 0, 60000, 50000), 0);
	}
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(a->n_done, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rdm_next(a).status, NIC_RDM_OK);
	assert_true(rdm_holds(a, 60000, 50000, 1));
	rdm_rig_destroy(rig);
}

/* ---- operations on receives ------------------------------------------------------------------------------------ */

/** Post an operation on `n` 64-bit integers at `offset` in the buffer of b's receive with this tag. The arena of node a
 * has the operands at 0, compare values at 8000, results at 16000. */
static int operate(struct rdm_node *a, struct rdm_node *b, uint8_t op, bool fetch, uint64_t tag, uint64_t offset,
		   uint32_t n)
{
	bool compares = op == NIC_ELEM_CSWAP, reads = op == NIC_ELEM_ATOMIC_READ;
	const struct nic_iov operand = {a->arena, n * 8}, compare = {a->arena + 8000, n * 8},
			     result = {a->arena + 16000, n * 8};
	const struct nic_rdm_remote remote = {.addr = offset, .len = n * 8};
	const struct nic_rdm_atomic r = {.context = (void *)(uintptr_t)(100 + tag),
					 .flags = NIC_RDM_TAGGED,
					 .op = op,
					 .datatype = NIC_DT_UINT64,
					 .operand = &operand,
					 .n_operand = !reads,
					 .compare = &compare,
					 .n_compare = compares,
					 .result = &result,
					 .n_result = fetch,
					 .remote = &remote,
					 .n_remote = 1,
					 .tag = tag};

	return nic_rdm_atomic(rdm_peer(a, b), &r);
}

static uint64_t *words(struct rdm_node *n, uint32_t at)
{
	return (uint64_t *)(void *)(n->arena + at);
}

/** An operation on a receive is executed, whether it arrives before or after the receive is posted. */
static void rdm__an_operation_on_a_tagged_receive_is_executed(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 17);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned late = 0; late < 2; late++)
		for (unsigned n = 1; n <= 500; n += 499) {
			struct nic_rdm_done d;

			for (unsigned i = 0; i < n; i++) {
				words(a, 0)[i] = 5 + i;
				words(b, 0)[1 + i] = 1000;
			}
			for (unsigned step = 0; step < 4; step++) {
				static const uint8_t ops[] = {NIC_ELEM_SUM, NIC_ELEM_SUM, NIC_ELEM_CSWAP,
							      NIC_ELEM_ATOMIC_READ};

				for (unsigned i = 0; i < n; i++)
					words(a, 8000)[i] = 1010 + 2 * i;
				if (!late)
					assert_int_equal(rdm_recv(b, NULL, 9, NIC_RDM_TAGGED, 7, 0, 0, 8000), 0);
				assert_int_equal(operate(a, b, ops[step], step > 0, 7, 8, n), 0);
				rdm_run(rig, SECOND);
				if (late) {
					rdm_expect_nothing(a);
					assert_int_equal(rdm_recv(b, NULL, 9, NIC_RDM_TAGGED, 7, 0, 0, 8000), 0);
				}
				assert_true(rdm_run(rig, 20ull * SECOND));
				rdm_expect(a, step ? NIC_RDM_FETCH : NIC_RDM_ATOMIC, NIC_RDM_OK, 107);
				d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 9);
				assert_int_equal(d.flags, NIC_RDM_TAGGED | NIC_RDM_OPERATED);
				assert_int_equal(d.len, 8 * n);
				assert_ptr_equal(d.buf, b->arena + 8);
				for (unsigned i = 0; i < n; i++) {
					static const uint64_t before[][2] = {{0, 0}, {1005, 1}, {1010, 2}, {5, 1}};

					if (step > 0)
						assert_int_equal(words(a, 16000)[i],
								 before[step][0] + before[step][1] * i);
				}
			}
			for (unsigned i = 0; i < n; i++)
				assert_int_equal(words(b, 0)[1 + i], 5 + i);
		}
	rdm_rig_destroy(rig);
}

/** Operations and messages with the same tag match receives in the order in which they were sent. */
static void rdm__operations_and_messages_match_in_order(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 18);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	words(a, 0)[0] = 3;
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_TAGGED, 7, 0, 8), 0);
	assert_int_equal(operate(a, b, NIC_ELEM_SUM, false, 7, 0, 1), 0);
	assert_int_equal(rdm_send(a, b, 2, NIC_RDM_TAGGED, 7, 0, 8), 0);
	rdm_run(rig, SECOND);
	for (unsigned i = 0; i < 3; i++) {
		words(b, 64)[i] = 100;
		assert_int_equal(rdm_recv(b, NULL, i, NIC_RDM_TAGGED, 7, 0, 64 + 8 * i, 8), 0);
	}
	assert_true(rdm_run(rig, 20ull * SECOND));
	assert_int_equal(words(b, 64)[0], 3);
	assert_int_equal(words(b, 64)[1], 103);
	assert_int_equal(words(b, 64)[2], 3);
	assert_int_equal(a->n_done, 3);
	rdm_rig_destroy(rig);
}

/** An operation beyond the receive buffer's end or on unaligned memory changes nothing; both sides get an error. */
static void rdm__operations_that_do_not_fit_are_refused(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 19);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	static const uint64_t offsets[] = {64, 57, 4, UINT64_MAX - 7};

	(void)state;
	assert_int_equal(operate(a, b, NIC_ELEM_SUM, true, 7, 0, 513), -EMSGSIZE);
	for (unsigned i = 0; i < 4; i++) {
		words(a, 0)[0] = 1;
		memset(b->arena, 0, 128);
		assert_int_equal(rdm_recv(b, NULL, 9, NIC_RDM_TAGGED, 7, 0, 0, 64), 0);
		assert_int_equal(operate(a, b, NIC_ELEM_SUM, i % 2, 7, offsets[i], 1), 0);
		assert_true(rdm_run(rig, 20ull * SECOND));
		rdm_expect(a, i % 2 ? NIC_RDM_FETCH : NIC_RDM_ATOMIC, NIC_WC_REM_ACCESS_ERR, 107);
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_REFUSED, 9).len, 0);
		for (unsigned k = 0; k < 128; k++)
			assert_int_equal(b->arena[k], 0);
	}
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0); /* the connection was not affected */
	assert_true(rdm_run(rig, 20ull * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_rig_destroy(rig);
}

/** A tagged operation completes with an error if the target discards it, or if the target disappears. */
static void rdm__operations_fail_if_discarded_or_if_the_peer_is_lost(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 20);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_rdm_recv look = {.flags = NIC_RDM_TAGGED | NIC_RDM_DISCARD, .tag = 7};
	struct nic_rdm_done d;

	(void)state;
	assert_int_equal(operate(a, b, NIC_ELEM_SUM, true, 7, 0, 1), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(nic_rdm_peek(b->ep, &look, &d), 0);
	rdm_run(rig, SECOND);
	rdm_expect(a, NIC_RDM_FETCH, NIC_WC_REM_OP_ERR, 107);
	assert_int_equal(operate(a, b, NIC_ELEM_SUM, true, 7, 0, 1), 0);
	assert_int_equal(operate(b, a, NIC_ELEM_SUM, true, 8, 0, 500), 0);
	rdm_run(rig, SECOND);
	rdm_node_stop(b);
	rdm_node_start(b);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0); /* node a notices that node b has restarted */
	rdm_run(rig, 20ull * SECOND);
	assert_int_equal(a->n_done - a->n_seen, 2);
	assert_int_not_equal(rdm_next(a).status, NIC_RDM_OK);
	assert_int_equal(rdm_recv(a, NULL, 3, NIC_RDM_TAGGED, 8, 0, 0, 8000), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(a->n_done - a->n_seen, 1); /* nothing new: node b's operation on this receive ended with b */
	rdm_rig_destroy(rig);
}

/* ---- datagrams ------------------------------------------------------------------------------------------------ */

static void rdm__datagrams_beyond_the_buffer_room_are_dropped(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 16);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t most;
	struct nic_rdm_done d;

	(void)state;
	rig->init.datagrams = true;
	rig->init.max_unexpected = 65536;
	for (unsigned i = 0; i < 2; i++) {
		rdm_node_stop(&rig->node[i]);
		rdm_node_start(&rig->node[i]);
	}
	most = nic_rdm_datagram_max(a->nic);
	rdm_fill(a, 0, most, 1);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, most + 1), -EMSGSIZE);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_TAGGED, 0, 0, 1), -EOPNOTSUPP);
	for (unsigned i = 0; i < 40; i++) { /* no receives are posted: 7 messages fit into the buffer, 33 are dropped */
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, most - i), 0);
		assert_true(rdm_run(rig, SECOND));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	}
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 4096), 0);
		d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
		assert_int_equal(d.len, most - i);
		assert_null(d.peer);
		assert_true(rdm_holds(b, 0, most - i, 1));
	}
	assert_int_equal(nic_counters(b->nic)[NIC_CNT_rdm_datagram_no_recv], 33);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 4096), 0);
	assert_int_equal(rdm_recv(b, NULL, 3, 0, 0, 0, 4096, 4), 0);
	assert_int_equal(rdm_send(a, b, 4, NIC_RDM_DATA, 5, 0, most), 0);
	assert_int_equal(rdm_send(a, b, 5, NIC_RDM_INJECT, 0, 0, 8), 0);
	assert_true(rdm_run(rig, SECOND));
	d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
	assert_int_equal(d.len, most);
	assert_int_equal(d.flags, NIC_RDM_DATA);
	assert_int_equal(d.data, ~5ull);
	assert_null(d.peer); /* b does not know the sender yet */
	assert_true(rdm_holds(b, 0, most, 1));
	d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_TRUNCATED, 3);
	assert_int_equal(d.overflow, 4);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 4);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 5);
	assert_int_equal(nic_counters(b->nic)[NIC_CNT_rdm_datagram_no_recv], 33);
	assert_int_equal(rdm_recv(b, a, 6, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, b, 7, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, SECOND));
	assert_ptr_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 6).peer, rdm_peer(b, a));
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__a_message_is_delivered),
		cmocka_unit_test(rdm__an_injected_buffer_may_be_reused_at_once),
		cmocka_unit_test(rdm__segments_on_both_sides),
		cmocka_unit_test(rdm__a_message_longer_than_its_receive_is_truncated),
		cmocka_unit_test(rdm__messages_match_receives_by_tag_and_source),
		cmocka_unit_test(rdm__messages_are_taken_in_order),
		cmocka_unit_test(rdm__a_multi_receive_buffer_takes_many_messages),
		cmocka_unit_test(rdm__peek_claim_discard),
		cmocka_unit_test(rdm__a_receive_can_be_cancelled),
		cmocka_unit_test(rdm__a_send_with_delivery_completes_when_received),
		cmocka_unit_test(rdm__fence_waits_for_all_before),
		cmocka_unit_test(rdm__rma_from_and_to_segments),
		cmocka_unit_test(rdm__write_after_read),
		cmocka_unit_test(rdm__element_operations_work_across_segments),
		cmocka_unit_test(rdm__injected_operands_may_be_reused_at_once),
		cmocka_unit_test(rdm__element_alignment_is_checked_on_memory_not_on_offset),
		cmocka_unit_test(rdm__an_endpoint_sends_to_itself),
		cmocka_unit_test(rdm__an_operation_on_a_tagged_receive_is_executed),
		cmocka_unit_test(rdm__operations_and_messages_match_in_order),
		cmocka_unit_test(rdm__operations_that_do_not_fit_are_refused),
		cmocka_unit_test(rdm__operations_fail_if_discarded_or_if_the_peer_is_lost),
		cmocka_unit_test(rdm__datagrams_beyond_the_buffer_room_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
