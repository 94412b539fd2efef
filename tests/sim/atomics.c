/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomics.c - the history of every cell that atomics work on. The cells are looked at after each call into their NIC:
 * a change must be the effect of exactly one operation (operands are unique, so it names it), and each operation has
 * at most one effect. Together with the returned values that is linearisability with the points known.
 *
 * Oracles: atomic_unknown (a change that no operation explains), atomic_once (AT-08), atomic_result (AT-03, AT-11).
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static void remember(struct history *h, uint64_t now_ns, uint64_t value)
{
	if (h->count == h->room) {
		h->room = h->room == 0 ? 64 : h->room * 2;
		h->entry = realloc(h->entry, h->room * sizeof(*h->entry));
		if (h->entry == NULL)
			abort();
	}
	h->entry[h->count].at_ns = now_ns;
	h->entry[h->count++].value = value;
}

static bool explains(const struct wr *wr, unsigned cell, uint64_t before, uint64_t after)
{
	/* with a bad key for its result an atomic is executed all the same (AT-06) */
	if (wr->cell != cell || (wr->must & ~BIT(NIC_WC_LOC_PROT_ERR)) != 0)
		return false;
	if (wr->opcode == NIC_WR_ATOMIC_FETCH_AND_ADD)
		return wr->compare_add == after - before;
	return wr->opcode == NIC_WR_ATOMIC_CMP_AND_SWP && wr->swap == after && wr->compare_add == before;
}

static struct wr *find(struct node *node, unsigned cell, uint64_t before, uint64_t after)
{
	struct sim *sim = node->sim;

	for (unsigned q = 0; q < sim->qps; q++) {
		struct qp *qp = &sim->qp[q];

		if (qp->type != NIC_QPT_RC || qp->peer->node != node)
			continue;
		for (uint32_t i = qp->posted; i-- > 0;)
			if (explains(qp->sq[i], cell, before, after))
				return qp->sq[i];
	}
	return NULL;
}

/** What a cell holds now. */
uint64_t atomics_value(const struct node *node, unsigned cell)
{
	uint64_t value;

	memcpy(&value, node->bank[BANK_CELLS].mem + cell * 8, 8);
	return value;
}

void atomics_watch(struct node *node)
{
	struct sim *sim = node->sim;

	for (unsigned c = 0; c < SIM_CELLS && !sim->failed; c++) {
		struct history *h = &node->cell[c];
		uint64_t now = atomics_value(node, c), before;
		struct wr *wr;

		if (h->count == 0)
			remember(h, 0, now);
		before = h->entry[h->count - 1].value;
		if (now == before)
			continue;
		wr = find(node, c, before, now);
		if (wr == NULL) {
			sim_fail(sim, "atomic_unknown", "node %u cell %u went from %llx to %llx by nobody", node->index,
				 c, (unsigned long long)before, (unsigned long long)now);
			return;
		}
		if (++wr->executed > 1)
			sim_fail(sim, "atomic_once", "node %u cell %u: WR %u was executed %u times", node->index, c,
				 wr->id, wr->executed);
		wr->exec_before = before;
		remember(h, sim->now_ns, now);
		sim->stats.atomics++;
	}
}

/** Whether the cell had this value at some time since the WR was posted. */
static bool was_seen(const struct wr *wr, uint64_t value)
{
	const struct history *h = &wr->remote->cell[wr->cell];

	for (unsigned i = h->count; i-- > 0;) {
		if (h->entry[i].value == value)
			return true;
		if (h->entry[i].at_ns < wr->posted_ns)
			return false; /* this one was current at the time of the post; older ones were not */
	}
	return false;
}

void atomics_completed(struct wr *wr, bool success)
{
	bool cas = wr->opcode == NIC_WR_ATOMIC_CMP_AND_SWP, acted;
	uint64_t got;

	if ((!cas && wr->opcode != NIC_WR_ATOMIC_FETCH_AND_ADD) || !success)
		return;
	if (!slots_collect(wr->seg, wr->segs, (uint8_t *)&got, 8))
		return;
	acted = cas ? got == wr->compare_add : wr->compare_add != 0;
	if (wr->executed != acted)
		sim_fail(wr->qp->sim, "atomic_once", "WR %u succeeded, returned %llx, and changed memory %u times",
			 wr->id, (unsigned long long)got, wr->executed);
	else if (acted ? got != wr->exec_before : !was_seen(wr, got))
		sim_fail(wr->qp->sim, "atomic_result", "WR %u returned %llx, which was not the value there", wr->id,
			 (unsigned long long)got);
}
