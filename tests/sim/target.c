/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.c - remote ranges of WRITE and READ, and what their bytes may hold. Each target belongs to one requester, and
 * so its bytes are written in the order of the requester's send queue. Each byte holds the free-memory fill or one of
 * the patterns written. After a WRITE has completed with success, its bytes hold its own pattern or that of a later
 * WRITE.
 */
#include "sim.h"

struct target *target_new(struct qp *qp, struct bank *bank, uint32_t len)
{
	struct target *t;
	struct slot slot;

	if (!bank_alloc(bank, len, &qp->rng, &slot))
		return NULL;
	t = sim_alloc(qp->sim, sizeof(*t));
	t->slot = slot;
	t->rkey = bank_rkey(bank);
	t->next = qp->targets;
	qp->targets = t;
	slot_grant(&slot);
	return t;
}

static bool among(const struct target *t, uint32_t at, uint8_t byte, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to && i < t->writes; i++)
		if (pattern_byte(t->uid[i], at) == byte)
			return true;
	return false;
}

/** @return whether every byte of data comes from one of the writes [from, to). What fits in one packet is written and
 * read at once, so all of it comes from the same write. */
bool target_holds(const struct target *t, const uint8_t *data, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to && i < t->writes; i++)
		if (pattern_check(t->uid[i], 0, data, t->slot.len))
			return true;
	if (t->slot.len <= sim_mtu(t->slot.bank->node->sim))
		return t->slot.len == 0;
	for (uint32_t i = 0; i < t->slot.len; i++)
		if (!among(t, i, data[i], from, to))
			return false;
	return true;
}

/** A WRITE completed with success, or a later message of its QP was received: its data must be there. */
void target_written(const struct wr *wr)
{
	struct target *t = wr->target;
	struct sim *sim = wr->qp->sim;

	if (t == NULL || t->slot.bank == NULL || slot_gone(&t->slot))
		return;
	if (!target_holds(t, slot_mem(&t->slot), wr->chain_from, t->writes))
		sim_fail(sim, "write_placed", "WR %u: WRITE of %u bytes to node %u is not in memory", wr->id, wr->len,
			 wr->remote->index);
}

static void target_release(struct target *t)
{
	if (t->window != NULL && t->window->target == t)
		t->window->target = NULL;
	slot_free(&t->slot);
}

/** Drop a WR's reference to its target. On RC, if the target is retired and has no window, and all its WRs succeeded,
 * free it at once: from then on not even a duplicate may write to it. */
void target_unref(struct wr *wr, bool success)
{
	struct target *t = wr->target, **p;
	struct qp *qp = wr->qp;

	if (t == NULL)
		return;
	t->refs--;
	if (!success)
		t->failed = true;
	if (t->refs > 0 || t->failed || !t->retired || t->window != NULL || !qp_is_reliable(qp))
		return;
	for (p = &qp->targets; *p != t; p = &(*p)->next)
		;
	*p = t->next;
	target_release(t);
}

/** The QP has no traffic left: no more writes can arrive. */
void target_release_all(struct qp *qp, bool keep_windows)
{
	struct target *t, **p = &qp->targets;

	while ((t = *p) != NULL) {
		if (keep_windows && (t->window != NULL || !t->retired || t->refs > 0)) {
			p = &t->next;
			continue;
		}
		*p = t->next;
		target_release(t);
	}
}
