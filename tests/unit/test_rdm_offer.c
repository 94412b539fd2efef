/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_offer.c - long messages of reliable-datagram endpoints on a path that carries references: the offer refers
 * to the message. A receiver with a matching receive fetches the message at once; otherwise it READs it later.
 */
#include "rdm_rig.h"

#include "rdm.h"
#include "train.h"

#include <string.h>

#define SECOND 1000000000ull
#define QUIET  (20 * SECOND)
#define LEN    50000u
#define AT     100000u /* offset of the receive buffers in the arena */
#define BLANK  0xa5

struct pair {
	struct rdm_rig *rig;
	struct rdm_node *a, *b;
};

/** Create two nodes that are connected. */
static struct pair pair_up(void)
{
	struct pair p = {.rig = rdm_rig_create(2, 5)};

	p.a = &p.rig->node[0];
	p.b = &p.rig->node[1];
	p.rig->refers = true;
	for (unsigned i = 0; i < 2; i++) {
		rdm_node_stop(&p.rig->node[i]);
		rdm_node_start(&p.rig->node[i]);
	}
	assert_int_equal(rdm_recv(p.b, NULL, 1, 0, 0, 0, AT, 8), 0);
	assert_int_equal(rdm_send(p.a, p.b, 1, 0, 0, 0, 8), 0);
	assert_true(rdm_run(p.rig, QUIET));
	rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_fill(p.a, 0, LEN, 3);
	memset(p.b->arena + AT - 1, BLANK, LEN + 2);
	return p;
}

static void send_long(struct pair *p)
{
	assert_int_equal(rdm_send(p->a, p->b, 2, NIC_RDM_TAGGED | NIC_RDM_DATA, 7, 0, LEN), 0);
}

static void recv_long(struct pair *p, uint32_t len)
{
	assert_int_equal(rdm_recv(p->b, p->a, 3, NIC_RDM_TAGGED, 7, 0, AT, len), 0);
}

static void expect_whole(struct pair *p)
{
	struct nic_rdm_done d;

	rdm_expect(p->a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	d = rdm_expect(p->b, NIC_RDM_RECV, NIC_RDM_OK, 3);
	assert_int_equal(d.len, LEN);
	assert_int_equal(d.tag, 7);
	assert_int_equal(d.data, ~7ull);
	assert_int_equal(d.flags, NIC_RDM_TAGGED | NIC_RDM_DATA);
	assert_ptr_equal(d.buf, p->b->arena + AT);
	assert_true(rdm_holds(p->b, AT, LEN, 3));
	assert_int_equal(p->b->arena[AT - 1], BLANK);
	assert_int_equal(p->b->arena[AT + LEN], BLANK);
}

/** Check that nothing is outstanding on either side, and destroy the rig. */
static void pair_end(struct pair *p)
{
	rdm_expect_nothing(p->a);
	rdm_expect_nothing(p->b);
	assert_int_equal(p->b->ep->answers_left, RDM_ANSWERS);
	assert_int_equal(p->a->nic->n_mr, p->b->nic->n_mr); /* the region of the offered message is gone */
	rdm_rig_destroy(p->rig);
}

/* ---- taken ---------------------------------------------------------------------------------------------------- */

static void offer__a_posted_receive_fetches_the_message_at_once(void **state)
{
	struct pair p = pair_up();

	(void)state;
	recv_long(&p, LEN);
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_int_equal(p.rig->fetched, 1);
	assert_int_equal(p.rig->read_requests, 0);
	pair_end(&p);
}

static void offer__a_short_receive_fetches_only_what_fits(void **state)
{
	struct pair p = pair_up();
	struct nic_rdm_done d;

	(void)state;
	recv_long(&p, LEN - 1000);
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	d = rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_TRUNCATED, 3);
	assert_int_equal(d.len, LEN - 1000);
	assert_int_equal(d.overflow, 1000);
	assert_true(rdm_holds(p.b, AT, LEN - 1000, 3));
	assert_int_equal(p.b->arena[AT + LEN - 1000], BLANK);
	assert_int_equal(p.rig->fetched, 1);
	assert_int_equal(p.rig->read_requests, 0);
	pair_end(&p);
}

/** An offer is fetched into a receive with several segments, one of which is empty. */
static void offer__a_message_is_fetched_into_several_segments(void **state)
{
	struct pair p = pair_up();
	uint8_t *at = p.b->arena + AT;
	const struct nic_iov iov[4] = {{at + 30000, 7}, {at, 0}, {at, 30000}, {at + 30007, LEN}};
	const struct nic_rdm_recv r = {.context = (void *)3, .flags = NIC_RDM_TAGGED, .tag = 7, .iov = iov, .n_iov = 4};

	(void)state;
	assert_int_equal(nic_rdm_recv(p.b->ep, &r), 0);
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 3);
	assert_memory_equal(at + 30000, p.a->arena, 7);
	assert_memory_equal(at, p.a->arena + 7, 30000);
	assert_memory_equal(at + 30007, p.a->arena + 30007, LEN - 30007);
	assert_int_equal(at[LEN], BLANK);
	assert_int_equal(p.rig->fetched, 2 + 1); /* one fetch per segment */
	assert_int_equal(p.rig->read_requests, 0);
	pair_end(&p);
}

/** Several offers are fetched into one multi-receive buffer. */
static void offer__several_messages_are_fetched_into_one_multi_receive_buffer(void **state)
{
	struct pair p = pair_up();

	(void)state;
	assert_int_equal(rdm_recv(p.b, NULL, 3, NIC_RDM_MULTI, 0, 0, AT, 2 * LEN + 10), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rdm_send(p.a, p.b, 2, 0, 0, i * 100, LEN - i * 100), 0);
	assert_true(rdm_run(p.rig, QUIET));
	for (unsigned i = 0; i < 2; i++) {
		rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 2);
		assert_ptr_equal(rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 3).buf, p.b->arena + AT + i * LEN);
		assert_memory_equal(p.b->arena + AT + i * LEN, p.a->arena + i * 100, LEN - i * 100);
	}
	assert_int_equal(p.rig->fetched, 2);
	assert_int_equal(p.rig->read_requests, 0);
	pair_end(&p);
}

/* ---- asked for ------------------------------------------------------------------------------------------------ */

static void offer__a_receive_posted_later_reads_the_message(void **state)
{
	struct pair p = pair_up();

	(void)state;
	send_long(&p);
	rdm_run(p.rig, SECOND);
	assert_int_equal(p.rig->fetched, 0);
	recv_long(&p, LEN);
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_true(p.rig->read_requests > 0);
	pair_end(&p);
}

/** A receive without room for any of the message: nothing is fetched or read. */
static void offer__an_empty_receive_fetches_and_reads_nothing(void **state)
{
	struct pair p = pair_up();

	(void)state;
	recv_long(&p, 0);
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	assert_int_equal(rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_TRUNCATED, 3).overflow, LEN);
	assert_int_equal(p.rig->fetched + p.rig->read_requests, 0);
	pair_end(&p);
}

static void offer__a_message_whose_fetch_fails_is_read(void **state)
{
	struct pair p = pair_up();

	(void)state;
	p.rig->unread = 1000;
	recv_long(&p, LEN);
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_true(p.rig->read_requests > 0);
	pair_end(&p);
}

/** A message in several segments, or longer than a reference may be, is always READ. */
static void offer__segmented_and_oversize_messages_are_always_read(void **state)
{
	struct pair p = pair_up();
	const struct nic_iov iov[2] = {{p.a->arena, 20000}, {p.a->arena + 20000, LEN - 20000}};
	const struct nic_rdm_send r = {.context = (void *)2,
				       .flags = NIC_RDM_TAGGED | NIC_RDM_DATA,
				       .iov = iov,
				       .n_iov = 2,
				       .tag = 7,
				       .data = ~7ull};
	static uint8_t big[2][NIC_REFERENCE_MAX + 1];
	const struct nic_iov from = {big[0], sizeof(big[0])}, to = {big[1], sizeof(big[1])};
	const struct nic_rdm_send s = {.context = (void *)4, .iov = &from, .n_iov = 1};
	const struct nic_rdm_recv t = {.context = (void *)5, .iov = &to, .n_iov = 1};
	uint64_t fetched;

	(void)state;
	recv_long(&p, LEN);
	assert_int_equal(nic_rdm_send(rdm_peer(p.a, p.b), &r), 0);
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_int_equal(p.rig->read_requests, 2);
	fetched = p.rig->fetched; /* all fetches so far were of READ responses */
	big[0][sizeof(big[0]) - 1] = 17;
	assert_int_equal(nic_rdm_recv(p.b->ep, &t), 0);
	assert_int_equal(nic_rdm_send(rdm_peer(p.a, p.b), &s), 0);
	assert_true(rdm_run(p.rig, QUIET));
	rdm_expect(p.a, NIC_RDM_SEND, NIC_RDM_OK, 4);
	rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 5);
	assert_memory_equal(big[0], big[1], sizeof(big[0]));
	assert_true(p.rig->read_requests > 2);
	assert_true(p.rig->fetched > fetched);
	pair_end(&p);
}

static bool lose_one(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)from;
	(void)ip;
	(void)len;
	rig->cut = NULL;
	return true;
}

/** A retransmitted offer has no reference, so the receiver READs the message. */
static void offer__a_retransmitted_offer_has_no_reference_and_is_read(void **state)
{
	struct pair p = pair_up();

	(void)state;
	recv_long(&p, LEN);
	p.rig->cut = lose_one;
	send_long(&p);
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_int_equal(p.rig->lost, 1);
	assert_true(p.rig->read_requests > 0);
	pair_end(&p);
}

/* ---- not theirs any more --------------------------------------------------------------------------------------- */

/** The sender disappears while its offer is in flight: its memory no longer holds the message and is not read. */
static void offer__a_destroyed_senders_offer_is_revoked_and_not_fetched(void **state)
{
	struct pair p = pair_up();

	(void)state;
	recv_long(&p, LEN);
	p.rig->swap = 1000;
	send_long(&p);
	rdm_run(p.rig, 1); /* the network holds back the offer */
	assert_true(p.rig->held_len > 0);
	assert_int_equal(p.rig->held_said.n, 1);
	assert_false(p.rig->held_said.revoked);
	p.rig->swap = 0;
	nic_rdm_destroy(p.a->ep);
	assert_true(p.rig->held_said.revoked);
	memset(p.a->arena, 0xdd, LEN);
	rdm_run(p.rig, QUIET);
	assert_int_equal(rdm_next(p.b).status, NIC_RDM_PEER_LOST);
	for (uint32_t i = 0; i < LEN; i++)
		assert_int_equal(p.b->arena[AT + i], BLANK);
	assert_int_equal(p.rig->fetched, 0);
	rdm_rig_destroy(p.rig);
}

/** The receive buffer is unmapped: the receive fails, and the sender gets its buffer back. */
static void offer__an_unmapped_receive_buffer_fails_the_receive(void **state)
{
	struct pair p = pair_up();

	(void)state;
	recv_long(&p, LEN);
	send_long(&p);
	p.b->unmapped = true;
	rdm_run(p.rig, QUIET);
	p.b->unmapped = false;
	assert_int_equal(rdm_expect(p.b, NIC_RDM_RECV, NIC_WC_LOC_PROT_ERR, 3).len, LEN);
	assert_int_equal(p.a->n_done - p.a->n_seen, 1);
	rdm_rig_destroy(p.rig);
}

/* ---- nonsense ------------------------------------------------------------------------------------------------- */

static bool wrong_fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	(void)ctx;
	(void)offset;
	(void)dst;
	(void)len;
	(void)last;
	(void)n_last;
	fail_msg("it has been fetched");
	return false;
}

/** An offer whose message is longer than what its reference names is not fetched; the message is READ. */
static void offer__a_reference_with_a_wrong_length_is_not_fetched(void **state)
{
	struct pair p = pair_up();
	struct nic_reference reference = {.len = LEN - 1, .fetch = wrong_fetch};
	struct nic_rx_frame frame = {.flags = NIC_RX_NO_ICRC, .reference = &reference};
	uint8_t data[NIC_FRAME_MAX];

	(void)state;
	recv_long(&p, LEN);
	p.rig->swap = 1000;
	send_long(&p);
	rdm_run(p.rig, 1);
	p.rig->swap = 0;
	frame.len = p.rig->held_len;
	frame.data = memcpy(data, p.rig->held, frame.len);
	p.rig->held_len = 0;
	assert_true(nic_rx(p.b->nic, &frame, p.rig->now));
	assert_true(rdm_run(p.rig, QUIET));
	expect_whole(&p);
	assert_true(p.rig->read_requests > 0);
	pair_end(&p);
}

/* ---- several at once -------------------------------------------------------------------------------------------- */

#define SHORTER	 20000u
#define PLACE(i) (AT + (i)*SHORTER)

/** Deliver three offers at once. @return the packets. */
static struct train *give_three(struct pair *p, const uint64_t *tags)
{
	struct train *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdm_send(p->a, p->b, 20 + i, NIC_RDM_TAGGED, tags[i], 100 * i, SHORTER), 0);
	while (train_take(t, p->a->nic, p->a->path, p->rig->now))
		;
	assert_int_equal(t->n, 3);
	t->to = p->b->nic;
	train_give(t, p->rig->now);
	return t;
}

static void three_end(struct pair *p, struct train *t)
{
	assert_true(rdm_run(p->rig, QUIET));
	for (uint32_t i = 0; i < 3; i++)
		rdm_expect(p->a, NIC_RDM_SEND, NIC_RDM_OK, 20 + i);
	free(t);
	pair_end(p);
}

/** Three offers arrive at once: it is foreseen that each goes to the first posted receive that matches and is still
 * free. */
static void offer__destinations_of_following_offers_are_foreseen(void **state)
{
	static const uint64_t tags[3] = {7, 8, 8};
	struct pair p = pair_up();
	struct train *t;

	(void)state;
	assert_int_equal(rdm_recv(p.b, p.a, 10, NIC_RDM_TAGGED, 7, 0, PLACE(0), SHORTER), 0);
	assert_int_equal(rdm_recv(p.b, NULL, 11, NIC_RDM_TAGGED, 0, UINT64_MAX, PLACE(1), SHORTER), 0);
	assert_int_equal(rdm_recv(p.b, NULL, 12, NIC_RDM_TAGGED, 8, 0, PLACE(2), SHORTER), 0);
	t = give_three(&p, tags);
	for (uint32_t i = 0; i < 3; i++) {
		struct nic_rdm_done d = rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 10 + i);

		assert_ptr_equal(d.buf, p.b->arena + PLACE(i));
		assert_memory_equal(d.buf, p.a->arena + 100 * i, SHORTER);
		assert_ptr_equal(t->car[i].went, p.b->arena + PLACE(i));
		assert_ptr_equal(t->car[i].foreseen, i ? t->car[i].went : NULL);
	}
	three_end(&p, t);
}

/** No destination is foreseen for an offer without a receive, with too small a receive, or into a multi-receive buffer,
 * nor for the offer after it. */
static void offer__missing_short_and_multi_receives_are_not_foreseen(void **state)
{
	static const uint64_t tags[3] = {7, 7, 7};

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct pair p = pair_up();
		struct train *t;

		assert_int_equal(rdm_recv(p.b, p.a, 10, NIC_RDM_TAGGED, 7, 0, PLACE(0), SHORTER), 0);
		if (how == 0)
			assert_int_equal(rdm_recv(p.b, p.a, 11, NIC_RDM_TAGGED, 7, 0, PLACE(1), SHORTER - 1), 0);
		else if (how == 1)
			assert_int_equal(
				rdm_recv(p.b, p.a, 11, NIC_RDM_TAGGED | NIC_RDM_MULTI, 7, 0, PLACE(1), 2 * SHORTER), 0);
		if (how < 2)
			assert_int_equal(rdm_recv(p.b, p.a, 12, NIC_RDM_TAGGED, 7, 0, PLACE(3), SHORTER), 0);
		t = give_three(&p, tags);
		assert_non_null(t->car[0].went);
		assert_null(t->car[1].foreseen);
		assert_null(t->car[2].foreseen);
		for (uint32_t i = 1; how == 2 && i < 3; i++)
			assert_int_equal(rdm_recv(p.b, p.a, 10 + i, NIC_RDM_TAGGED, 7, 0, PLACE(i), SHORTER), 0);
		p.b->n_seen = p.b->n_done; /* other tests check these completions */
		assert_true(rdm_run(p.rig, QUIET));
		p.b->n_seen = p.b->n_done;
		three_end(&p, t);
	}
}

/** Three offers, with answers left for two: the second one's destination is foreseen; the third must wait for an answer
 * and is not fetched. */
static void offer__an_offer_beyond_the_answer_limit_is_not_fetched(void **state)
{
	static const uint64_t tags[3] = {7, 7, 7};
	struct pair p = pair_up();
	struct nic_rdm_peer *peer = rdm_peer(p.b, p.a);
	static uint8_t was[SHORTER];
	struct train *t;

	(void)state;
	memcpy(was, p.b->arena + PLACE(2), sizeof(was));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdm_recv(p.b, p.a, 10 + i, NIC_RDM_TAGGED, 7, 0, PLACE(i), SHORTER), 0);
	peer->owed += RDM_ANSWERS - 4;
	t = give_three(&p, tags);
	peer->owed -= RDM_ANSWERS - 4;
	for (uint32_t i = 0; i < 3; i++) {
		assert_ptr_equal(t->car[i].foreseen, i == 1 ? p.b->arena + PLACE(1) : NULL);
		assert_ptr_equal(t->car[i].went, i < 2 ? p.b->arena + PLACE(i) : NULL);
	}
	for (uint32_t k = 0; k < SHORTER; k++)
		assert_int_equal(p.b->arena[PLACE(2) + k], was[k]);
	assert_true(rdm_run(p.rig, QUIET));
	for (uint32_t i = 0; i < 3; i++)
		rdm_expect(p.b, NIC_RDM_RECV, NIC_RDM_OK, 10 + i);
	three_end(&p, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offer__a_posted_receive_fetches_the_message_at_once),
		cmocka_unit_test(offer__a_short_receive_fetches_only_what_fits),
		cmocka_unit_test(offer__a_message_is_fetched_into_several_segments),
		cmocka_unit_test(offer__several_messages_are_fetched_into_one_multi_receive_buffer),
		cmocka_unit_test(offer__a_receive_posted_later_reads_the_message),
		cmocka_unit_test(offer__an_empty_receive_fetches_and_reads_nothing),
		cmocka_unit_test(offer__a_message_whose_fetch_fails_is_read),
		cmocka_unit_test(offer__segmented_and_oversize_messages_are_always_read),
		cmocka_unit_test(offer__a_retransmitted_offer_has_no_reference_and_is_read),
		cmocka_unit_test(offer__a_destroyed_senders_offer_is_revoked_and_not_fetched),
		cmocka_unit_test(offer__an_unmapped_receive_buffer_fails_the_receive),
		cmocka_unit_test(offer__a_reference_with_a_wrong_length_is_not_fetched),
		cmocka_unit_test(offer__destinations_of_following_offers_are_foreseen),
		cmocka_unit_test(offer__missing_short_and_multi_receives_are_not_foreseen),
		cmocka_unit_test(offer__an_offer_beyond_the_answer_limit_is_not_fetched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
