/* SPDX-License-Identifier: BSD-3-Clause */
/* refer_rig.c - see refer_rig.h. */
#include "refer_rig.h"

#include "pieces.h"

#define MOST_STEPS 100000

struct refer_revocation refer_revoked;

static void note_revocation(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	(void)ctx;
	refer_revoked.calls++;
	refer_revoked.qpn = qpn;
	refer_revoked.answers = answers;
	refer_revoked.key = key;
}

static bool memory_is_gone;

static bool guard(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	if (!memory_is_gone)
		fn(arg);
	return !memory_is_gone;
}

struct refer refer_create(const struct rig_opts *more)
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
		/* The QP is still queued on path 0: unqueue it before it gets another path. */
		rig_drain(r.pair->rig[i]);
		r.path[i] = r.pair->rig[i]->qp->path = (uint32_t)path;
	}
	memset(&refer_revoked, 0, sizeof(refer_revoked));
	/* Make side A's bytes differ from those in side B's arena, so that a fetch is noticed. */
	for (uint32_t i = 0; i < LEN; i++)
		r.pair->rig[A]->arena[i] = (uint8_t)(i * 3 + (i >> 8));
	return r;
}

void refer_destroy(struct refer *r)
{
	pair_destroy(r->pair);
}

bool refer_fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	const struct payload *p = ctx;

	if (!p->fails)
		pieces_fetch(p->piece, p->n, offset, dst, len, last, n_last);
	return !p->fails;
}

bool refer_take(struct refer *r, enum pair_side side, uint8_t *data, struct payload *p, struct nic_tx_frame *frame)
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

uint32_t refer_bytes(const struct payload *p)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < p->n; i++)
		len += p->piece[i].len;
	return (uint32_t)len;
}

void refer_give(struct refer *r, enum pair_side to, const uint8_t *data, uint32_t len, struct payload *p)
{
	struct rig *rig = r->pair->rig[to];
	struct nic_reference reference = {.len = refer_bytes(p), .psns = p->psns, .fetch = refer_fetch, .ctx = p};
	const struct nic_rx_frame frame = {
		.data = data, .len = len, .flags = NIC_RX_NO_ICRC, .reference = p->n ? &reference : NULL};

	memory_is_gone = r->gone;
	assert_true(nic_rx(rig->nic, &frame, rig->now));
	memory_is_gone = false;
}

uint32_t refer_draw(struct refer *r)
{
	r->seed ^= r->seed << 13;
	r->seed ^= r->seed >> 7;
	r->seed ^= r->seed << 17;
	return (uint32_t)((r->seed * 0x2545f4914f6cdd1dull) >> 32);
}

static bool chance(struct refer *r, uint32_t odds)
{
	return refer_draw(r) >> 26 < odds;
}

bool refer_carry(struct refer *r, enum pair_side side)
{
	struct rig *to = r->pair->rig[!side];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;
	uint32_t epsn = to->qp->resp.epsn, una = to->qp->comp.una;
	uint32_t wcs = nic_cq_count(to->recv_cq) + nic_cq_count(to->send_cq);

	if (!refer_take(r, side, data, &p, &frame))
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
	refer_give(r, !side, data, frame.len, &p);
	/* If the payload cannot be fetched, the receiver treats the packet as lost, and nothing changes. */
	if (p.n && p.fails && !r->fail_odds) {
		assert_int_equal(to->qp->resp.epsn, epsn);
		assert_int_equal(to->qp->comp.una, una);
		assert_int_equal(nic_cq_count(to->recv_cq) + nic_cq_count(to->send_cq), wcs);
	} else if (chance(r, r->odds)) {
		refer_give(r, !side, data, frame.len, &p);
	}
	return true;
}

void refer_run(struct refer *r)
{
	for (unsigned steps = 0; steps < MOST_STEPS; steps++) {
		uint64_t a, b, next;

		bool moved = refer_carry(r, A);

		moved |= refer_carry(r, B);
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

void refer_post(struct refer *r, uint64_t id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len, uint32_t remote)
{
	const struct nic_send_wr wr = pair_wr(r->pair, id, opcode, offset, len, remote);

	rig_post(r->pair->rig[A], &wr);
}
