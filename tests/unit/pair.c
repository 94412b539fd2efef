/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.c - see pair.h. */
#include "pair.h"

#include <stdlib.h>

#define MOST_STEPS 100000 /* far more steps than any test takes: a pair that never becomes quiet fails */

struct pair *pair_create(const struct rig_opts *opts, uint32_t a_psn, uint32_t b_psn)
{
	struct rig_opts target = opts ? *opts : (struct rig_opts){0}, source = target;
	struct pair *pair = calloc(1, sizeof(*pair));

	assert_non_null(pair);
	source.tags = 0;
	pair->rig[PAIR_A] = rig_create(&source);
	if (opts && opts->type == NIC_QPT_XRC_INI)
		target.type = NIC_QPT_XRC_TGT;
	pair->rig[PAIR_B] = rig_create(&target);
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = pair->rig[i];

		rig->attr.dest_qp_num = pair->rig[!i]->qpn;
		rig->attr.sq_psn = i == PAIR_A ? a_psn : b_psn;
		rig->attr.rq_psn = i == PAIR_A ? b_psn : a_psn;
	}
	/* Side b gets the address that side a has for its peer, and the other way round. */
	assert_int_equal(
		nic_gid_set(pair->rig[PAIR_B]->nic, pair->rig[PAIR_B]->opts.v6 ? 1 : 0, &pair->rig[PAIR_A]->peer_gid),
		0);
	pair->rig[PAIR_B]->gid = pair->rig[PAIR_A]->peer_gid;
	pair->rig[PAIR_B]->peer_gid = pair->rig[PAIR_B]->attr.av.dgid = pair->rig[PAIR_A]->gid;
	for (unsigned i = 0; i < 2; i++)
		rig_to_rts(pair->rig[i]);
	return pair;
}

void pair_destroy(struct pair *pair)
{
	rig_destroy(pair->rig[PAIR_A]);
	rig_destroy(pair->rig[PAIR_B]);
	free(pair);
}

void pair_script(struct pair *pair, const struct pair_rule *rules, unsigned n)
{
	assert_true(n <= sizeof(pair->seen) / sizeof(pair->seen[0]));
	pair->rules = rules;
	pair->n_rules = n;
	memset(pair->seen, 0, sizeof(pair->seen));
	pair->n_log = 0;
}

static enum pair_fate fate_of(struct pair *pair, enum pair_side side, const struct packet *p)
{
	enum pair_fate fate = PAIR_PASS;

	for (unsigned i = 0; i < pair->n_rules; i++) {
		const struct pair_rule *r = &pair->rules[i];

		if (r->side != side || (r->op != PAIR_ANY_OP && r->op != p->op->value))
			continue;
		if (r->nth == PAIR_EVERY || r->nth == pair->seen[i])
			fate = r->fate;
		pair->seen[i]++;
	}
	return fate;
}

static void deliver(struct pair *pair, enum pair_side to, const uint8_t *data, uint32_t len)
{
	rig_rx_bytes(pair->rig[to], data, len);
}

static void hold(struct pair_held *held, enum pair_side to, const uint8_t *data, uint32_t len)
{
	memcpy(held->data, data, len);
	held->len = len;
	held->to = to;
}

static void release_swap(struct pair *pair, enum pair_side side)
{
	if (!pair->swap_used[side])
		return;
	pair->swap_used[side] = false;
	deliver(pair, !side, pair->swap[side].data, pair->swap[side].len);
}

static void flip(uint8_t *data, uint32_t len, uint32_t bit)
{
	if (!bit)
		bit = len / 2 * 8 + 4;
	if (bit < len * 8)
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Carry one packet from this side. @return whether there was one */
static bool carry(struct pair *pair, enum pair_side side)
{
	struct rig *rig = pair->rig[side];
	struct packet p;
	uint8_t *data;
	uint32_t len;
	enum pair_fate fate;

	if (!rig_tx(rig, &p))
		return false;
	data = rig->frames[rig->frame];
	len = rig->frame_lens[rig->frame];
	fate = fate_of(pair, side, &p);
	assert_true(pair->n_log < PAIR_LOG_LEN);
	pair->log[pair->n_log++] = (struct pair_log){side, fate, p.op->value, p.syndrome, p.psn, rig->now};
	if (fate == PAIR_SWAP && !pair->swap_used[side]) {
		hold(&pair->swap[side], !side, data, len);
		pair->swap_used[side] = true;
		return true;
	}
	if (fate == PAIR_LATE) {
		assert_true(pair->n_late < PAIR_LATE_MAX);
		hold(&pair->late[pair->n_late++], !side, data, len);
		return true;
	}
	if (fate == PAIR_DAMAGE)
		flip(data, len, pair->damage_bit);
	if (fate != PAIR_DROP)
		deliver(pair, !side, data, len);
	if (fate == PAIR_DOUBLE)
		deliver(pair, !side, data, len);
	release_swap(pair, side);
	return true;
}

static bool release_late(struct pair *pair)
{
	unsigned n = pair->n_late;

	pair->n_late = 0;
	for (unsigned i = 0; i < n; i++)
		deliver(pair, pair->late[i].to, pair->late[i].data, pair->late[i].len);
	return n != 0;
}

void pair_settle(struct pair *pair)
{
	unsigned steps = 0;
	bool moved;

	do {
		moved = carry(pair, PAIR_A);
		moved |= carry(pair, PAIR_B);
		if (!moved) {
			moved = pair->swap_used[PAIR_A] || pair->swap_used[PAIR_B];
			release_swap(pair, PAIR_A);
			release_swap(pair, PAIR_B);
		}
		if (!moved)
			moved = release_late(pair);
		assert_true(++steps < MOST_STEPS);
	} while (moved);
}

void pair_run(struct pair *pair)
{
	for (unsigned steps = 0;; steps++) {
		uint64_t a, b, next;

		pair_settle(pair);
		a = nic_next_deadline(pair->rig[PAIR_A]->nic);
		b = nic_next_deadline(pair->rig[PAIR_B]->nic);
		next = a < b ? a : b;
		if (next == UINT64_MAX)
			return;
		assert_true(steps < MOST_STEPS);
		for (unsigned i = 0; i < 2; i++)
			if (next > pair->rig[i]->now)
				pair->rig[i]->now = next;
		rig_advance(pair->rig[PAIR_A], 0);
		rig_advance(pair->rig[PAIR_B], 0);
	}
}

unsigned pair_count(const struct pair *pair, enum pair_side side, unsigned op)
{
	unsigned n = 0;

	for (unsigned i = 0; i < pair->n_log; i++)
		n += pair->log[i].side == side && pair->log[i].op == op;
	return n;
}

struct nic_send_wr pair_wr(struct pair *pair, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
			   uint32_t remote)
{
	struct nic_send_wr wr = rig_wr(pair->rig[PAIR_A], wr_id, opcode, offset, len);
	const struct rig *b = pair->rig[PAIR_B];

	if (b->xrcd)
		wr.srqn = nic_srq_num(b->srq);
	if (opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr.atomic.remote_addr = rig_va(b, remote);
		wr.atomic.rkey = b->rkey;
	} else {
		wr.rdma.remote_addr = rig_va(b, remote);
		wr.rdma.rkey = b->rkey;
	}
	return wr;
}
