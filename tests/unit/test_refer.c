/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_refer.c - payload by reference: two NICs whose packets name memory, fetches that fail, memory that is taken back,
 * packets that refer to what they cannot have.
 */
#include "pair.h"

#include <stdlib.h>

#include "qp.h"

#define A	   PAIR_A
#define B	   PAIR_B
#define LEN	   (40u * 1024 + 77) /* in one packet that refers, or 161 */
#define PACKETS	   161u
#define THERE	   (64u * 1024)
#define MOST_STEPS 100000

/** What a sender has said is in a packet, and what becomes of it. */
struct payload {
	struct nic_piece piece[NIC_PIECES_MAX];
	uint32_t n;
	uint32_t psns;
	bool fails;
};

/** Two rigs whose packets leave by a path with references. */
struct refer {
	struct pair *pair;
	uint32_t path[2];
	uint32_t sent[2], referring[2]; /* packets; those that referred */
	uint32_t fail_from, fail_to;	/* numbers of the fetches that fail, so */
	uint32_t fetches;
	uint32_t fail_odds; /* in 64, of each, too */
	bool gone;	    /* the memory that payload goes to */
	bool lose_next;	    /* the next packet of A */
	uint32_t odds; /* in 64, of a packet to be lost, and to come twice; of a fetch to fail four times so much */
	uint64_t seed;
};

static struct {
	uint32_t calls, qpn, key;
	bool answers;
} revoked;

static void note_revocation(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	(void)ctx;
	revoked.calls++;
	revoked.qpn = qpn;
	revoked.answers = answers;
	revoked.key = key;
}

static bool memory_is_gone;

static bool guard(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	if (!memory_is_gone)
		fn(arg);
	return !memory_is_gone;
}

static struct refer refer_create(const struct rig_opts *more)
{
	struct rig_opts opts = more ? *more : (struct rig_opts){0};
	struct refer r = {0};

	opts.nic.guard = guard;
	opts.nic.revoke = note_revocation;
	r.pair = pair_create(&opts, RIG_SQ_PSN, RIG_RQ_PSN);
	for (unsigned i = 0; i < 2; i++) {
		int path =
			nic_path_open(r.pair->rig[i]->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS | NIC_PATH_REFERENCES);

		assert_true(path > 0);
		rig_drain(r.pair->rig[i]); /* it waits for its turn on the other one */
		r.path[i] = r.pair->rig[i]->qp->path = (uint32_t)path;
	}
	memset(&revoked, 0, sizeof(revoked));
	for (uint32_t i = 0; i < LEN; i++) /* what is to arrive is not what is there */
		r.pair->rig[A]->arena[i] = (uint8_t)(i * 3 + (i >> 8));
	return r;
}

static void refer_destroy(struct refer *r)
{
	pair_destroy(r->pair);
}

static bool fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	const struct payload *p = ctx;
	uint8_t *all = malloc(len), *to = all;

	if (p->fails) {
		free(all);
		return false;
	}
	for (uint32_t i = 0; i < p->n && len; i++) {
		uint32_t part = (uint32_t)p->piece[i].len;

		if (offset >= part) {
			offset -= part;
			continue;
		}
		part = part - offset < len ? part - offset : len;
		memcpy(to, (const uint8_t *)(uintptr_t)p->piece[i].addr + offset, part);
		to += part;
		len -= part;
		offset = 0;
	}
	assert_int_equal(len, 0);
	memcpy(dst, all, (size_t)(to - all) - n_last);
	if (n_last)
		memcpy(last, to - n_last, n_last);
	free(all);
	return true;
}

/** Take one packet. @return whether there was one. */
static bool take(struct refer *r, enum pair_side side, uint8_t *data, struct payload *p, struct nic_tx_frame *frame)
{
	struct rig *rig = r->pair->rig[side];

	*frame = (struct nic_tx_frame){.data = data, .pieces = p->piece, .n_pieces = 99};
	if (nic_path_tx(rig->nic, r->path[side], frame, 1, rig->now) == 0)
		return false;
	assert_true(frame->n_pieces <= NIC_PIECES_MAX);
	p->n = frame->n_pieces;
	p->psns = frame->psns;
	p->fails = false;
	r->sent[side]++;
	r->referring[side] += p->n > 0;
	return true;
}

static uint32_t bytes_of(const struct payload *p)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < p->n; i++)
		len += p->piece[i].len;
	return (uint32_t)len;
}

static void give(struct refer *r, enum pair_side to, const uint8_t *data, uint32_t len, struct payload *p)
{
	struct rig *rig = r->pair->rig[to];
	struct nic_reference reference = {.len = bytes_of(p), .psns = p->psns, .fetch = fetch, .ctx = p};
	const struct nic_rx_frame frame = {
		.data = data, .len = len, .flags = NIC_RX_NO_ICRC, .reference = p->n ? &reference : NULL};

	memory_is_gone = r->gone;
	assert_true(nic_rx(rig->nic, &frame, rig->now));
	memory_is_gone = false;
}

static uint32_t draw(struct refer *r)
{
	r->seed ^= r->seed << 13;
	r->seed ^= r->seed >> 7;
	r->seed ^= r->seed << 17;
	return (uint32_t)((r->seed * 0x2545f4914f6cdd1dull) >> 32);
}

static bool chance(struct refer *r, uint32_t odds)
{
	return draw(r) >> 26 < odds;
}

static bool carry(struct refer *r, enum pair_side side)
{
	struct rig *to = r->pair->rig[!side];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;
	uint32_t epsn = to->qp->resp.epsn, una = to->qp->comp.una;
	uint32_t wcs = nic_cq_count(to->recv_cq) + nic_cq_count(to->send_cq);

	if (!take(r, side, data, &p, &frame))
		return false;
	if (chance(r, r->odds))
		return true;
	if (side == A && r->lose_next) {
		r->lose_next = false;
		return true;
	}
	p.fails = chance(r, 4 * r->odds) || (r->fail_odds && chance(r, r->fail_odds)) ||
		  (p.n && r->fetches >= r->fail_from && r->fetches < r->fail_to);
	r->fetches += p.n > 0;
	give(r, !side, data, frame.len, &p);
	if (p.n && p.fails && !r->fail_odds) { /* it has not come */
		assert_int_equal(to->qp->resp.epsn, epsn);
		assert_int_equal(to->qp->comp.una, una);
		assert_int_equal(nic_cq_count(to->recv_cq) + nic_cq_count(to->send_cq), wcs);
	} else if (chance(r, r->odds)) {
		give(r, !side, data, frame.len, &p);
	}
	return true;
}

/** Until nothing moves and no timer is set. */
static void run(struct refer *r)
{
	for (unsigned steps = 0; steps < MOST_STEPS; steps++) {
		uint64_t a, b, next;

		bool moved = carry(r, A);

		moved |= carry(r, B);
		if (moved)
			continue;
		a = nic_next_deadline(r->pair->rig[A]->nic);
		b = nic_next_deadline(r->pair->rig[B]->nic);
		next = a < b ? a : b;
		if (next == UINT64_MAX)
			return;
		for (unsigned i = 0; i < 2; i++) {
			if (next > r->pair->rig[i]->now)
				r->pair->rig[i]->now = next;
			rig_advance(r->pair->rig[i], 0);
		}
	}
	fail_msg("it does not become quiet");
}

static void post(struct refer *r, uint64_t id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
		 uint32_t remote)
{
	const struct nic_send_wr wr = pair_wr(r->pair, id, opcode, offset, len, remote);

	rig_post(r->pair->rig[A], &wr);
}

#define EXPECT_SAME(r, there, here, len)                                                                               \
	assert_memory_equal((r)->pair->rig[B]->arena + (there), (r)->pair->rig[A]->arena + (here), len)

/* ---- what goes by reference ----------------------------------------------------------------------------------- */

static void refer__a_long_write_is_one_packet_for_many(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];

	(void)state;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.sent[A], 1);
	assert_int_equal(r.referring[A], 1);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN + PACKETS);
	assert_int_equal(a->qp->comp.una, RIG_SQ_PSN + PACKETS);
	/* All who count packets and bytes count what it stands for. */
	assert_int_equal(rig_counter(a, tx_packets), PACKETS);
	assert_int_equal(rig_counter(b, rx_packets), PACKETS);
	assert_int_equal(rig_counter(a, tx_bytes), LEN);
	assert_int_equal(rig_counter(b, rx_bytes), LEN);
	assert_int_equal(a->qp->counters.tx_packets, PACKETS);
	assert_int_equal(b->qp->counters.rx_packets, PACKETS);
	refer_destroy(&r);
}

static void refer__a_send_goes_from_segments_to_segments(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	const struct nic_sge from[3] = {{rig_va(a, 5), 20000, a->lkey},
					{rig_va(a, 30000), 1, a->lkey},
					{rig_va(a, 32000), LEN - 20001 - 32000 + 32000, a->lkey}};
	const struct nic_sge to[3] = {{rig_va(b, THERE), 7, b->lkey},
				      {rig_va(b, THERE + 100), 30000, b->lkey},
				      {rig_va(b, 0), 60000, b->lkey}};
	const struct nic_recv_wr recv = {.wr_id = 2, .sg_list = to, .num_sge = 3};
	struct nic_send_wr wr = {.wr_id = 1, .opcode = NIC_WR_SEND_WITH_IMM, .sg_list = from, .num_sge = 3, .ex = 7};
	uint8_t *sent = malloc(LEN), *come = malloc(LEN);

	(void)state;
	memcpy(sent, a->arena + 5, 20000);
	memcpy(sent + 20000, a->arena + 30000, 1);
	memcpy(sent + 20001, a->arena + 32000, LEN - 20001);
	assert_int_equal(nic_post_recv(b->qp, &recv), 0);
	rig_post(a, &wr);
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(rig_expect_wc(b->recv_cq, 2, NIC_WC_SUCCESS).byte_len, LEN);
	memcpy(come, b->arena + THERE, 7);
	memcpy(come + 7, b->arena + THERE + 100, 30000);
	memcpy(come + 30007, b->arena, LEN - 30007);
	assert_memory_equal(come, sent, LEN);
	assert_int_equal(r.referring[A], 1);
	free(sent);
	free(come);
	refer_destroy(&r);
}

static void refer__a_read_is_answered_by_reference(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];

	(void)state;
	memset(r.pair->rig[B]->arena + THERE, 0x5c, LEN);
	post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.sent[B], 1);
	assert_int_equal(r.referring[B], 1);
	refer_destroy(&r);
}

/** Short ones, inline ones, those in more segments than a packet can name, and what leaves by other paths. */
static void refer__others_have_their_payload_with_them(void **state)
{
	const struct rig_opts opts = {.cap = {.max_send_sge = NIC_PIECES_MAX + 1, .max_inline_data = 1024}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A];
	struct nic_sge sge[NIC_PIECES_MAX + 1];
	struct nic_send_wr wr;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, NIC_REFERENCE_MIN - 1, THERE);
	run(&r);
	assert_int_equal(r.referring[A], 0);
	for (unsigned i = 0; i <= NIC_PIECES_MAX; i++)
		sge[i] = (struct nic_sge){rig_va(a, i * 2048), 2048, a->lkey};
	wr = pair_wr(r.pair, 2, NIC_WR_RDMA_WRITE, 0, 0, THERE);
	wr.sg_list = sge;
	wr.num_sge = NIC_PIECES_MAX + 1;
	rig_post(a, &wr);
	run(&r);
	assert_int_equal(r.referring[A], 0);
	EXPECT_SAME(&r, THERE, 0, (NIC_PIECES_MAX + 1) * 2048);
	wr.num_sge = NIC_PIECES_MAX;
	rig_post(a, &wr);
	run(&r);
	assert_int_equal(r.referring[A], 1);
	refer_destroy(&r);
}

static void refer__a_path_needs_somebody_who_revokes(void **state)
{
	struct rig *rig = rig_create(NULL);

	(void)state;
	assert_int_equal(nic_path_open(rig->nic, NIC_PATH_REFERENCES), -EINVAL);
	rig_destroy(rig);
}

/** Long messages are several packets; a window is kept to. */
static void refer__a_window_is_kept(void **state)
{
	const struct rig_opts opts = {.nic = {.psn_window = 100}};
	struct refer r = refer_create(&opts);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(take(&r, A, data, &p, &frame));
	assert_int_equal(bytes_of(&p), 100 * RIG_MTU);
	give(&r, B, data, frame.len, &p);
	assert_false(take(&r, A, data, &p, &frame));
	run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	refer_destroy(&r);
}

/* ---- what cannot be fetched ------------------------------------------------------------------------------------ */

static void one_of_each_of(struct refer *r, uint32_t len)
{
	rig_post_recv(r->pair->rig[B], 9, 0, len);
	memset(r->pair->rig[B]->arena, 0x77, RIG_ARENA);
	post(r, 1, NIC_WR_SEND, 0, len, 0);
	post(r, 2, NIC_WR_RDMA_WRITE, 0, len, THERE);
	post(r, 3, NIC_WR_RDMA_READ, 64 * 1024, len, THERE);
	run(r);
	for (uint64_t id = 1; id <= 3; id++)
		rig_expect_wc(r->pair->rig[A]->send_cq, id, NIC_WC_SUCCESS);
	rig_expect_wc(r->pair->rig[B]->recv_cq, 9, NIC_WC_SUCCESS);
	rig_expect_no_wc(r->pair->rig[A]->send_cq);
	rig_expect_no_wc(r->pair->rig[B]->recv_cq);
	EXPECT_SAME(r, 0, 0, len);
	EXPECT_SAME(r, THERE, 0, len);
	EXPECT_SAME(r, THERE, 64 * 1024, len);
}

static void one_of_each(struct refer *r)
{
	one_of_each_of(r, LEN);
}

/** Whichever it is: exactly once, and nothing has changed before (see carry). */
static void refer__what_cannot_be_fetched_comes_again(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < 4; from++) {
		for (uint32_t to = from + 1; to <= 4; to++) {
			struct refer r = refer_create(NULL);

			r.fail_from = from;
			r.fail_to = to;
			one_of_each(&r);
			assert_int_equal(rig_counter(r.pair->rig[A], local_ack_timeout_err), 0); /* it is asked for */
			if (from < 3)
				assert_true(rig_counter(r.pair->rig[A], rx_unread) +
						    rig_counter(r.pair->rig[B], rx_unread) >
					    0);
			refer_destroy(&r);
		}
	}
}

static void refer__nothing_can_be_fetched_ever(void **state)
{
	struct refer r = refer_create(NULL);

	(void)state;
	r.fail_to = UINT32_MAX;
	one_of_each(&r);
	one_of_each(&r);
	refer_destroy(&r);
}

/** Packets that are lost, that come twice, and that cannot be fetched: each message exactly once. */
static void refer__all_of_it_at_random(void **state)
{
	uint32_t referring = 0, unread = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		const struct rig_opts opts = {.nic = {.psn_window = seed % 3 == 0 ? 100 : 0}};
		struct refer r = refer_create(&opts);

		r.odds = 1;
		r.seed = seed * 0x9e3779b97f4a7c15ull;
		r.pair->rig[A]->qp->attr.retry_cnt = r.pair->rig[A]->qp->req.retries = 7;
		for (unsigned i = 0; i < 4; i++) {
			one_of_each_of(&r, NIC_REFERENCE_MIN - 100 + (seed * 4 + i) * 97);
			referring += r.referring[A] + r.referring[B];
		}
		unread += (uint32_t)(rig_counter(r.pair->rig[A], rx_unread) + rig_counter(r.pair->rig[B], rx_unread));
		refer_destroy(&r);
	}
	assert_true(referring > 0);
	assert_true(unread > 0);
}

/** What is sent again has its payload with it, also when it was only lost. */
static void refer__again_is_with_payload(void **state)
{
	struct refer r = refer_create(NULL);

	(void)state;
	r.lose_next = true;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.referring[A], 1);
	assert_int_equal(r.sent[A], 1 + PACKETS);
	/* New ones go by reference. */
	post(&r, 2, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	run(&r);
	assert_int_equal(r.referring[A], 2);
	refer_destroy(&r);
}

/** The path has lost nothing, and a program that allows no retries needs none. */
static void refer__what_cannot_be_fetched_is_no_retry(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_qp *qp = r.pair->rig[A]->qp;

		qp->attr.retry_cnt = qp->req.retries = 0;
		rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
		r.fail_to = 1;
		for (unsigned n = 0; n < 2; n++) {
			post(&r, 1 + n, opcodes[i], 0, LEN, THERE);
			run(&r);
			rig_expect_wc(r.pair->rig[A]->send_cq, 1 + n, NIC_WC_SUCCESS);
			rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
			r.fail_from = r.fetches;
			r.fail_to = r.fetches + 1;
		}
		refer_destroy(&r);
	}
}

/** A message that begins in packets and goes on by reference: what the window has room for, no more, so that all is asked for. */
static void refer__goes_on_within_the_window(void **state)
{
	const struct rig_opts opts = {.nic = {.psn_window = 100}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A];

	(void)state;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	for (unsigned i = 0; i < 10; i++) {
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame = {.data = data}; /* without room for pieces */
		struct payload none = {0};

		assert_int_equal(nic_path_tx(a->nic, r.path[A], &frame, 1, a->now), 1);
		give(&r, B, data, frame.len, &none);
	}
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_true(r.referring[A] > 0);
	assert_int_equal(rig_counter(a, local_ack_timeout_err), 0);
	refer_destroy(&r);
}

/** Requests of all kinds under way, of which a part of the payloads, or all, cannot be fetched, and no retry allowed. */
static void pipeline(uint32_t seed, uint32_t window)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ,
						     NIC_WR_RDMA_READ};
	const struct rig_opts opts = {.nic = {.psn_window = window}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];

	r.seed = seed * 0x9e3779b97f4a7c15ull;
	r.fail_odds = seed % 4 ? 8 * (seed % 4) : 64;
	a->qp->attr.retry_cnt = a->qp->req.retries = 0;
	for (unsigned i = 0; i < 6; i++) {
		enum nic_wr_opcode opcode = opcodes[draw(&r) % 4];
		uint32_t len = draw(&r) % 6 ? NIC_REFERENCE_MIN - 100 + draw(&r) % 24000 : 1 + draw(&r) % 600;

		if (opcode == NIC_WR_SEND)
			rig_post_recv(b, 100 + i, 0, LEN);
		post(&r, i, opcode, 0, len, THERE);
		for (unsigned steps = draw(&r) % 7; steps > 0; steps--)
			carry(&r, draw(&r) % 2 ? A : B);
	}
	for (unsigned steps = 0; steps < 1000; steps++)
		carry(&r, draw(&r) % 2 ? A : B);
	run(&r);
	for (unsigned i = 0; i < 6; i++)
		rig_expect_wc(a->send_cq, i, NIC_WC_SUCCESS);
	assert_int_equal(rig_counter(a, local_ack_timeout_err), 0);
	refer_destroy(&r);
}

static void refer__pipelines_need_no_retry(void **state)
{
	static const uint32_t windows[] = {0, 70, 100, 300};

	(void)state;
	for (uint32_t seed = 1; seed <= 2000; seed++)
		pipeline(seed, windows[seed % 4]);
}

/** The memory that it goes to has gone: that is told when the payload comes in packets. */
static void refer__the_targets_own_fault_is_told(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};
	static const enum nic_wc_status status[] = {NIC_WC_REM_OP_ERR, NIC_WC_REM_OP_ERR, NIC_WC_LOC_PROT_ERR};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_wc wc;

		r.gone = true;
		r.fail_to = UINT32_MAX;
		rig_post_recv(r.pair->rig[B], 9, 0, LEN);
		post(&r, 1, opcodes[i], 0, LEN, THERE);
		run(&r);
		assert_true(rig_poll(r.pair->rig[A]->send_cq, &wc));
		assert_int_equal(wc.status, status[i]);
		assert_int_equal(rig_counter(r.pair->rig[i == 2 ? A : B], app_memory_fault), 1);
		refer_destroy(&r);
	}
}

/* ---- memory that is taken back --------------------------------------------------------------------------------- */

static void refer__the_end_of_a_region_revokes(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct nic_mr *mr;

	(void)state;
	assert_int_equal(nic_mr_reg(b->pd, b->arena, 4096, 0x1000, NIC_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(revoked.calls, 0); /* nobody has referred to anything */
	post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	run(&r);
	assert_int_equal(nic_mr_reg(b->pd, b->arena + 5, 4096, 0x1000, NIC_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, 0), 0);
	assert_int_equal(revoked.calls, 1);
	assert_int_equal(revoked.qpn, 0);
	assert_int_equal(revoked.key, nic_mr_rkey(mr));
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(revoked.calls, 2);
	refer_destroy(&r);
}

static void refer__an_error_revokes_before_it_is_told(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(take(&r, A, data, &p, &frame));
	assert_int_equal(revoked.calls, 0);
	rig_modify_state(a, NIC_QPS_ERR);
	assert_int_equal(revoked.calls, 1);
	assert_int_equal(revoked.qpn, a->qpn);
	rig_expect_wc(a->send_cq, 1, NIC_WC_WR_FLUSH_ERR);
	/* It comes all the same, too late. */
	p.fails = true;
	give(&r, B, data, frame.len, &p);
	rig_expect_untouched(r.pair->rig[B], THERE, LEN);
	rig_modify_state(a, NIC_QPS_RESET);
	refer_destroy(&r);
}

/** A request that fails while others are sent: what is just being returned has been revoked as well. */
static void refer__revoked_before_it_is_returned(void **state)
{
	const struct rig_opts opts = {.cq_depth = 2};
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct refer r = refer_create(&opts);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rig_post(r.pair->rig[A], &nop); /* more completions than there is room for */
	post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(take(&r, A, data, &p, &frame));
	assert_true(p.n > 0);
	assert_int_equal(nic_qp_state(r.pair->rig[A]->qp), NIC_QPS_ERR);
	assert_int_equal(revoked.calls, 1);
	refer_destroy(&r);
}

/** The answer came after all, and the program knows: what asks for it once more may find nothing, which is nobody's error. */
static void refer__a_late_duplicate_is_no_error(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	uint8_t answer[NIC_FRAME_MAX], again[NIC_FRAME_MAX];
	struct nic_tx_frame frame, frame_again;
	struct payload p, p_again;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	assert_true(carry(&r, A));
	assert_true(take(&r, B, answer, &p, &frame));
	a->now = b->now = nic_next_deadline(a->nic);
	rig_advance(a, 0);
	assert_true(take(&r, A, again, &p_again, &frame_again));
	give(&r, A, answer, frame.len, &p);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	b->mr = NULL;
	give(&r, B, again, frame_again.len, &p_again);
	run(&r);
	assert_int_equal(nic_qp_state(a->qp), NIC_QPS_RTS);
	assert_int_equal(nic_qp_state(b->qp), NIC_QPS_RTS);
	refer_destroy(&r);
}

/** As it was when the payload was read and sent at once. */
static void refer__a_region_that_ends_under_a_read_refuses_it(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	assert_true(carry(&r, A));
	assert_true(take(&r, B, data, &p, &frame));
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	b->mr = NULL;
	p.fails = true;
	give(&r, A, data, frame.len, &p);
	run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	refer_destroy(&r);
}

/** In two parts, the first of which is on its way then: the refusal is about the second, and ends the READ all the same. */
static void refer__a_region_that_ends_within_a_read_refuses_it(void **state)
{
	static uint8_t from[2 * NIC_REFERENCE_MAX], to[2 * NIC_REFERENCE_MAX];
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	uint8_t data[2][NIC_FRAME_MAX];
	struct nic_tx_frame frame[2];
	struct payload p[2];
	struct nic_mr *source, *target;
	struct nic_send_wr wr = {.wr_id = 1, .opcode = NIC_WR_RDMA_READ, .num_sge = 1, .flags = NIC_SEND_SIGNALED};
	struct nic_sge sge = {0x100000, sizeof(to), 0};

	(void)state;
	a->qp->attr.timeout = 0; /* or it would ask in vain until it gives up */
	assert_int_equal(nic_mr_reg(b->pd, from, sizeof(from), 0x100000, NIC_ACCESS_REMOTE_READ, &source), 0);
	assert_int_equal(nic_mr_reg(a->pd, to, sizeof(to), 0x100000, NIC_ACCESS_LOCAL_WRITE, &target), 0);
	sge.lkey = nic_mr_lkey(target);
	wr.sg_list = &sge;
	wr.rdma.remote_addr = 0x100000;
	wr.rdma.rkey = nic_mr_rkey(source);
	rig_post(a, &wr);
	assert_true(carry(&r, A));
	assert_true(take(&r, B, data[0], &p[0], &frame[0]));
	assert_int_equal(nic_mr_dereg(source), 0);
	assert_int_equal(revoked.calls, 1);
	p[0].fails = true;
	assert_true(take(&r, B, data[1], &p[1], &frame[1])); /* the NAK */
	assert_int_equal(p[1].n, 0);
	for (unsigned i = 0; i < 2; i++)
		give(&r, A, data[i], frame[i].len, &p[i]);
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	nic_mr_dereg(target);
	refer_destroy(&r);
}

/** What is behind the READ is asked again with it, and acknowledged again: that does not keep the refusal back. */
static void refer__a_read_is_refused_whatever_follows_it(void **state)
{
	for (unsigned send = 0; send < 2; send++) {
		struct refer r = refer_create(NULL);
		struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame;
		struct nic_send_wr wr;
		struct payload p;
		struct nic_mr *mr;

		a->qp->attr.timeout = 0;
		assert_int_equal(
			nic_mr_reg(b->pd, b->arena, 64, 0x1000, NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE, &mr),
			0);
		rig_post_recv(b, 9, 0, 64);
		post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
		wr = pair_wr(r.pair, 2, send ? NIC_WR_SEND : NIC_WR_RDMA_WRITE, 0, 8, 0);
		if (!send) {
			wr.rdma.remote_addr = 0x1000;
			wr.rdma.rkey = nic_mr_rkey(mr);
		}
		rig_post(a, &wr);
		assert_true(carry(&r, A) && carry(&r, A));
		assert_true(take(&r, B, data, &p, &frame));
		assert_int_equal(nic_mr_dereg(b->mr), 0);
		b->mr = NULL;
		p.fails = true;
		give(&r, A, data, frame.len, &p);
		while (carry(&r, A)) /* all of it comes again before the other side has its turn */
			;
		run(&r);
		rig_expect_wc(a->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
		rig_expect_wc(a->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		nic_mr_dereg(mr);
		refer_destroy(&r);
	}
}

/** Its memory is a region's: that stays when the queue pair fails. */
static void refer__an_answer_outlives_its_queue_pair(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];
	struct nic_send_wr wr = pair_wr(r.pair, 2, NIC_WR_RDMA_WRITE, 0, 8, THERE);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	assert_true(carry(&r, A));
	assert_true(take(&r, B, data, &p, &frame));
	assert_int_equal(p.n, 1);
	assert_true(frame.answers);
	wr.rdma.rkey ^= 0x5500;
	rig_post(a, &wr);
	assert_true(carry(&r, A));
	assert_int_equal(nic_qp_state(r.pair->rig[B]->qp), NIC_QPS_ERR);
	assert_int_equal(revoked.calls, 1);
	assert_false(revoked.answers);
	give(&r, A, data, frame.len, &p);
	EXPECT_SAME(&r, THERE, 0, LEN);
	run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(a->send_cq, 2, NIC_WC_REM_ACCESS_ERR);
	refer_destroy(&r);
}

/** Who has ended it may write to what it has answered with. */
static void refer__an_answer_ends_with_its_queue_pair(void **state)
{
	for (unsigned how = 0; how < 3; how++) {
		const struct nic_qp_attr to = {.qp_state = how ? NIC_QPS_RESET : NIC_QPS_ERR};
		struct refer r = refer_create(NULL);
		struct rig *b = r.pair->rig[B];
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame;
		struct payload p;

		post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
		assert_true(carry(&r, A));
		assert_true(take(&r, B, data, &p, &frame));
		if (how < 2) {
			assert_int_equal(nic_qp_modify(b->qp, &to, NIC_QP_STATE), 0);
		} else {
			assert_int_equal(nic_qp_destroy(b->qp), 0);
			b->qp = NULL;
		}
		assert_int_equal(revoked.calls, 1);
		assert_int_equal(revoked.qpn, frame.qpn);
		assert_true(revoked.answers);
		refer_destroy(&r);
	}
}

/* ---- packets that refer to what they cannot have --------------------------------------------------------------- */

static bool give_packet(struct refer *r, enum pair_side to, const struct packet *p, uint32_t refers_to)
{
	static uint8_t source[NIC_REFERENCE_MAX + 1];
	struct rig *rig = r->pair->rig[to];
	struct payload payload = {.piece = {{(uintptr_t)source, refers_to, 0}}, .n = 1};
	const struct nic_reference reference = {
		.len = refers_to, .psns = packets_of(refers_to, rig->qp->pmtu), .fetch = fetch, .ctx = &payload};
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = data, .flags = NIC_RX_NO_ICRC, .reference = &reference};
	struct packet bare = *p;

	bare.pad = (uint8_t)(-bare.payload_len & 3);
	bare.referred = 0;
	frame.len = packet_encode(&bare, data);
	return nic_rx(rig->nic, &frame, rig->now);
}

static void refer__what_may_refer(void **state)
{
	static const uint8_t may_not[] = {
		READ_REQ,     ACK, ATOMIC_ACK,	    CMP_SWAP,	    FETCH_ADD, RIG_UC | SEND_ONLY, RIG_UC | WRITE_ONLY,
		UD_SEND_ONLY, CNP, MASKED_CMP_SWAP, EXT_ATOMIC_ACK, ELEMENTS,  FETCH_ELEMENTS,	   ELEMENTS_ACK};
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct packet p;

	(void)state;
	for (unsigned i = 0; i < sizeof(may_not); i++) {
		p = rig_peer_packet(b, may_not[i], RIG_SQ_PSN);
		assert_false(give_packet(&r, B, &p, 512));
		assert_int_equal(rig_counter(b, rx_bad_reference), i + 1);
	}
	p = rig_peer_packet(b, SEND_ONLY, RIG_SQ_PSN);
	assert_false(give_packet(&r, B, &p, NIC_REFERENCE_MAX + 1));
	assert_false(give_packet(&r, B, &p, 0));
	p = rig_peer_data(b, SEND_ONLY, RIG_SQ_PSN, 0, 8);
	assert_false(give_packet(&r, B, &p, 512)); /* both */
	assert_int_equal(rig_counter(b, rx_bad_reference), sizeof(may_not) + 3);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
	refer_destroy(&r);
}

/** Lengths are held against what the headers say as for payload in packets. */
static void refer__lengths_are_checked(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t dma_len, refers_to;
		uint8_t nak;
	} cases[] = {
		{WRITE_ONLY, 1000, 1001, SYN_INV},
		{WRITE_ONLY, 1000, 999, SYN_INV},
		{WRITE_FIRST, 2000, 512 + 1, SYN_INV},
		{WRITE_FIRST, 1024, 1024, SYN_INV},
		{WRITE_ONLY, 1000, 1000, SYN_ACK},
		{WRITE_FIRST, 1025, 1024, SYN_ACK},
		{WRITE_ONLY, 200000, 200000, SYN_ACCESS},
		{SEND_ONLY, 0, 5000, SYN_INV}, /* into 4096 */
		{SEND_FIRST, 0, 4097, SYN_INV},
		{SEND_MIDDLE, 0, 512, SYN_INV}, /* out of sequence */
		{SEND_LAST, 0, 512, SYN_INV},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct refer r = refer_create(NULL);
		struct rig *b = r.pair->rig[B];
		struct packet p = rig_peer_packet(b, cases[i].op, RIG_SQ_PSN), ack;
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame = {.data = data};
		struct nic_rx_frame rx = {.data = data, .flags = NIC_RX_NO_ICRC};

		rig_post_recv(b, 1, 0, 4096);
		p.dma_len = cases[i].dma_len;
		p.va = rig_va(b, THERE);
		p.ackreq = true;
		assert_true(give_packet(&r, B, &p, cases[i].refers_to));
		assert_int_equal(nic_path_tx(b->nic, r.path[B], &frame, 1, b->now), 1);
		rx.len = frame.len;
		assert_int_equal(packet_parse(&rx, &ack), PACKET_OK);
		assert_int_equal(ack.syndrome, cases[i].nak);
		if (cases[i].nak != SYN_ACK)
			assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
		refer_destroy(&r);
	}
}

/** Who looks into messages has nothing to look into: it is asked for with its payload. */
static void refer__messages_of_endpoints_never_refer(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct packet p = rig_peer_packet(b, SEND_ONLY, RIG_SQ_PSN);

	(void)state;
	b->qp->rdm_owned = true;
	b->qp->rdm_peer = (struct nic_rdm_peer *)b; /* nobody may look */
	assert_true(give_packet(&r, B, &p, 5000));
	assert_int_equal(rig_counter(b, rx_unread), 1);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
	b->qp->rdm_owned = false;
	b->qp->rdm_peer = NULL;
	refer_destroy(&r);
}

/** Answers to a READ that are not what was asked for. */
/** Sender and receiver disagree about what a packet is: no message is taken for what it is not. */
static void refer__a_path_mtu_has_to_be_agreed_on(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};
	static const enum nic_wc_status status[] = {NIC_WC_REM_INV_REQ_ERR, NIC_WC_REM_INV_REQ_ERR,
						    NIC_WC_BAD_RESP_ERR};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_wc wc;

		r.pair->rig[A]->qp->pmtu = 1024; /* the other's is 256 */
		rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
		post(&r, 1, opcodes[i], 0, LEN, THERE);
		run(&r);
		assert_true(rig_poll(r.pair->rig[A]->send_cq, &wc));
		assert_int_equal(wc.status, status[i]);
		refer_destroy(&r);
	}
}

static void refer__read_responses_are_checked(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t psn, refers_to;
		bool good;
	} cases[] = {
		{READ_RESP_ONLY, 0, LEN, true},	     {READ_RESP_ONLY, 0, LEN - 1, false},
		{READ_RESP_ONLY, 0, LEN + 1, false}, {READ_RESP_ONLY, 0, LEN + 256, false},
		{READ_RESP_FIRST, 0, LEN, false},    {READ_RESP_FIRST, 0, 512, true},
		{READ_RESP_FIRST, 0, 513, false},    {READ_RESP_ONLY, 0, 512, false},
		{READ_RESP_MIDDLE, 0, 512, false}, /* nothing has begun */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct refer r = refer_create(NULL);
		struct rig *a = r.pair->rig[A];
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame;
		struct payload none;
		struct packet p = rig_peer_packet(a, cases[i].op, RIG_SQ_PSN + cases[i].psn);

		post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
		assert_true(take(&r, A, data, &none, &frame));
		p.syndrome = SYN_ACK;
		assert_true(give_packet(&r, A, &p, cases[i].refers_to));
		assert_int_equal(nic_qp_state(a->qp) != NIC_QPS_ERR, cases[i].good);
		refer_destroy(&r);
	}
}

/* ---- for observers ------------------------------------------------------------------------------------------- */

/** What it stands for is what would have been sent. */
static void refer__unfolds_into_what_would_have_been_sent(void **state)
{
	struct refer by_reference = refer_create(NULL), by_copy = refer_create(NULL);
	uint8_t data[NIC_FRAME_MAX], unfolded[NIC_FRAME_MAX], sent[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;
	struct nic_reference reference = {.fetch = fetch, .ctx = &p};
	struct nic_rx_frame rx = {.data = data, .flags = NIC_RX_NO_ICRC, .reference = &reference};
	const struct nic *nic = by_reference.pair->rig[B]->nic;
	uint32_t n = 0;
	int len;

	(void)state;
	post(&by_reference, 1, NIC_WR_RDMA_WRITE_WITH_IMM, 0, LEN, THERE);
	post(&by_copy, 1, NIC_WR_RDMA_WRITE_WITH_IMM, 0, LEN, THERE);
	assert_true(take(&by_reference, A, data, &p, &frame));
	rx.len = frame.len;
	reference.len = bytes_of(&p);
	reference.psns = p.psns;
	while ((len = nic_frame_unfold(nic, &rx, n, unfolded)) > 0) {
		struct nic_tx_frame copy = {.data = sent};
		struct nic_rx_frame frames[2] = {{.data = unfolded, .len = (uint32_t)len, .flags = NIC_RX_NO_ICRC},
						 {.data = sent, .flags = NIC_RX_NO_ICRC}};
		struct packet got, would;

		assert_int_equal(nic_path_tx(by_copy.pair->rig[A]->nic, by_copy.path[A], &copy, 1, 0), 1);
		frames[1].len = copy.len;
		assert_int_equal(packet_parse(&frames[0], &got), PACKET_OK);
		assert_int_equal(packet_parse(&frames[1], &would), PACKET_OK);
		assert_int_equal(got.op->value, would.op->value);
		assert_int_equal(got.psn, would.psn);
		assert_int_equal(got.pad, would.pad);
		assert_int_equal(got.payload_len, would.payload_len);
		assert_memory_equal(got.payload, would.payload, got.payload_len);
		n++;
	}
	assert_int_equal(len, 0);
	assert_int_equal(n, PACKETS);
	p.fails = true;
	assert_int_equal(nic_frame_unfold(nic, &rx, 0, unfolded), -EIO);
	rx.reference = NULL;
	assert_int_equal(nic_frame_unfold(nic, &rx, 0, unfolded), -EINVAL);
	refer_destroy(&by_reference);
	refer_destroy(&by_copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refer__a_long_write_is_one_packet_for_many),
		cmocka_unit_test(refer__a_send_goes_from_segments_to_segments),
		cmocka_unit_test(refer__a_read_is_answered_by_reference),
		cmocka_unit_test(refer__others_have_their_payload_with_them),
		cmocka_unit_test(refer__a_path_needs_somebody_who_revokes),
		cmocka_unit_test(refer__a_window_is_kept),
		cmocka_unit_test(refer__what_cannot_be_fetched_comes_again),
		cmocka_unit_test(refer__nothing_can_be_fetched_ever),
		cmocka_unit_test(refer__all_of_it_at_random),
		cmocka_unit_test(refer__again_is_with_payload),
		cmocka_unit_test(refer__what_cannot_be_fetched_is_no_retry),
		cmocka_unit_test(refer__goes_on_within_the_window),
		cmocka_unit_test(refer__pipelines_need_no_retry),
		cmocka_unit_test(refer__the_targets_own_fault_is_told),
		cmocka_unit_test(refer__the_end_of_a_region_revokes),
		cmocka_unit_test(refer__an_error_revokes_before_it_is_told),
		cmocka_unit_test(refer__revoked_before_it_is_returned),
		cmocka_unit_test(refer__a_late_duplicate_is_no_error),
		cmocka_unit_test(refer__a_region_that_ends_under_a_read_refuses_it),
		cmocka_unit_test(refer__a_region_that_ends_within_a_read_refuses_it),
		cmocka_unit_test(refer__a_read_is_refused_whatever_follows_it),
		cmocka_unit_test(refer__an_answer_outlives_its_queue_pair),
		cmocka_unit_test(refer__an_answer_ends_with_its_queue_pair),
		cmocka_unit_test(refer__what_may_refer),
		cmocka_unit_test(refer__lengths_are_checked),
		cmocka_unit_test(refer__messages_of_endpoints_never_refer),
		cmocka_unit_test(refer__a_path_mtu_has_to_be_agreed_on),
		cmocka_unit_test(refer__read_responses_are_checked),
		cmocka_unit_test(refer__unfolds_into_what_would_have_been_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
