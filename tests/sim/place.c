/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place.c - ATOMIC WRITE and FLUSH (IBTA A19). An ATOMIC WRITE is, to the oracles of target.c, a WRITE of eight bytes
 * that arrives at once. A FLUSH names a part of a target, or the whole bank.
 *
 * Oracles: flush_once (the NIC writes to the medium only what an outstanding FLUSH names, once for each, and before
 * it answers), flush_order (what earlier requests of the QP have written is in memory by then: FL-02), response.
 */
#include "sim.h"

#include <string.h>

#define PERSISTENT(wr) (((wr)->flush.type & NIC_FLUSH_PERSISTENT) != 0)

/** @return a new target of eight bytes at an aligned address; NULL: there is no memory for it now. */
static struct target *aligned_target(struct qp *qp)
{
	bool frail = qp->sim->opts.dereg && rng_chance(&qp->rng, 300);
	struct bank *bank = &qp->peer->node->bank[frail ? BANK_TARGET_FRAIL : BANK_TARGET];

	for (unsigned i = 0; i < 100; i++) {
		struct target *t = target_new(qp, bank, NIC_ATOMIC_WRITE_SIZE);

		if (t == NULL || slot_iova(&t->slot) % NIC_ATOMIC_WRITE_SIZE == 0)
			return t;
		qp->targets = t->next;
		slot_free(&t->slot);
	}
	return NULL;
}

/** @return the target to write to: the one used last, if it is eligible, so that several writes of one target are
 * outstanding. */
static struct target *choose(struct qp *qp)
{
	struct target *t = qp->targets;

	if (t != NULL && t->window == NULL && !t->retired && !t->failed && !slot_gone(&t->slot)) {
		if (t->slot.len == NIC_ATOMIC_WRITE_SIZE && slot_iova(&t->slot) % NIC_ATOMIC_WRITE_SIZE == 0 &&
		    t->writes < SIM_CHAIN && rng_chance(&qp->rng, 600))
			return t;
		t->retired = true;
	}
	return aligned_target(qp);
}

static bool post_atomic_write(struct qp *qp)
{
	struct wr *wr = wr_new(qp, NIC_WR_ATOMIC_WRITE);
	struct target *t;

	if ((qp->peer->access & NIC_ACCESS_REMOTE_WRITE) == 0)
		return true;
	t = choose(qp);
	return t != NULL && wr_write(wr, t);
}

static bool post_flush(struct qp *qp)
{
	struct target *t = qp->targets;
	struct wr *wr;

	if (t == NULL || t->window != NULL || t->retired || t->failed || slot_gone(&t->slot))
		return true;
	wr = wr_new(qp, NIC_WR_FLUSH);
	wr->flush.type = (uint8_t)rng_range(&qp->rng, NIC_FLUSH_GLOBAL, NIC_FLUSH_GLOBAL | NIC_FLUSH_PERSISTENT);
	wr->flush.level = rng_chance(&qp->rng, 200) ? NIC_FLUSH_MR : NIC_FLUSH_RANGE;
	wr->flush.off = (uint32_t)rng_below(&qp->rng, t->slot.len + 1);
	wr->flush.len = (uint32_t)rng_below(&qp->rng, t->slot.len - wr->flush.off + 1);
	wr->target = t;
	t->refs++;
	wr->remote_addr = slot_iova(&t->slot) + wr->flush.off;
	wr->rkey = t->rkey;
	return wrong_plant(wr) && wr_post(wr);
}

bool place_post(struct qp *qp)
{
	return rng_chance(&qp->rng, 600) ? post_atomic_write(qp) : post_flush(qp);
}

/* ---- oracles ----------------------------------------------------------------------------------------- */

/** What the WRs before a FLUSH have written to its target must be in memory when it is executed. */
static void check_order(const struct wr *flush)
{
	const struct qp *qp = flush->qp;

	for (uint32_t i = 0; i < flush->index && !qp->sim->failed; i++) {
		const struct wr *wr = qp->sq[i];

		if (wr->target == flush->target && wr_is_write(wr) && wr->must == 0)
			target_written(wr);
	}
}

/** @return whether the FLUSH names exactly this range of persistent memory. */
static bool names(const struct wr *wr, const uint8_t *addr, uint64_t len)
{
	const struct bank *bank = wr->target == NULL ? NULL : wr->target->slot.bank;

	if (wr->opcode != NIC_WR_FLUSH || !PERSISTENT(wr) || wr->must != 0 || bank == NULL ||
	    slot_gone(&wr->target->slot))
		return false;
	if (wr->flush.level == NIC_FLUSH_MR)
		return addr == bank->mem && len == bank->size;
	return addr == slot_mem(&wr->target->slot) + wr->flush.off && len == wr->flush.len;
}

bool place_persist(void *ctx, void *addr, uint64_t len)
{
	struct node *node = ctx;
	struct sim *sim = node->sim;
	const struct qp *qp = node->arriving == NULL ? NULL : node->arriving->peer;
	uint64_t n = qp == NULL ? 0 : wire_number(qp, node->arriving_psn);
	struct wr *wr = qp == NULL || n >= qp->wire.sent ? NULL : qp->wire.psn[n].wr;

	if (wr == NULL || !names(wr, addr, len) || ++wr->persisted > 1)
		sim_fail(sim, "flush_once",
			 "node %u wrote %llu bytes to the medium, for which no FLUSH asked, or again", node->index,
			 (unsigned long long)len);
	else
		check_order(wr);
	sim->stats.flushes++;
	return true;
}

void place_flushed(const struct wr *wr)
{
	bool writes = PERSISTENT(wr) && (wr->flush.level == NIC_FLUSH_MR || wr->flush.len > 0);

	if (wr->persisted != writes)
		sim_fail(wr->qp->sim, "flush_once",
			 "WR %u: a FLUSH of type %u succeeded, and wrote to the medium %u times", wr->id,
			 wr->flush.type, wr->persisted);
	if (!slot_gone(&wr->target->slot))
		check_order(wr);
}
