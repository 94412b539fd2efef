/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomics.c - the history of every cell that atomics work on. The cells are examined after each call into their NIC:
 * a change must be the effect of exactly one operation (operands are unique, so the change identifies it), and each
 * operation has at most one effect. Together with the returned values this checks linearisability with known
 * linearisation points. An operation may cover half a cell, one cell or several. An independent bit-exact model gives
 * its result.
 *
 * Oracles: atomic_unknown (a change that no operation explains), atomic_once (AT-08), atomic_result (AT-03, AT-11).
 */
#include "../atomic_model.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define SPAN_MAX 4 /* maximum number of cells of one operation */

/* ---- the model ----------------------------------------------------------------------------------------- */

static bool is_atomic(const struct wr *wr)
{
	return (wr_is_read_atomic(wr) && wr->opcode != NIC_WR_RDMA_READ && !wr_is_placing(wr)) ||
	       wr->opcode == NIC_WR_ELEMENTS;
}

/** Apply an operation to one element. */
static void model_element(const struct wr *wr, uint8_t *target, const uint8_t *operand, const uint8_t *compare)
{
	uint8_t negative[NIC_ATOMIC_SIZE_MAX];
	uint8_t one[NIC_ATOMIC_SIZE_MAX] = {0};
	bool equal = memcmp(target, compare, wr->elem.size) == 0;

	switch (wr->elem.op) {
	case NIC_ELEM_SUM:
		model_add(target, wr->elem.size, operand);
		break;
	case NIC_ELEM_DIFF:
		for (unsigned i = 0; i < wr->elem.size; i++)
			negative[i] = (uint8_t)~operand[i];
		one[model_byte(wr->elem.size, 0)] = 1;
		model_add(negative, wr->elem.size, one);
		model_add(target, wr->elem.size, negative);
		break;
	case NIC_ELEM_BXOR:
		for (unsigned i = 0; i < wr->elem.size; i++)
			target[i] ^= operand[i];
		break;
	case NIC_ELEM_MSWAP:
		for (unsigned i = 0; i < wr->elem.size * 8; i++)
			if (model_bit(compare, wr->elem.size, i))
				model_bit_set(target, wr->elem.size, i, model_bit(operand, wr->elem.size, i));
		break;
	case NIC_ELEM_ATOMIC_READ:
		break;
	default:
		if (wr->elem.op == NIC_ELEM_ATOMIC_WRITE || equal == (wr->elem.op == NIC_ELEM_CSWAP))
			memcpy(target, operand, wr->elem.size);
	}
}

static void model_elements(const struct wr *wr, uint8_t *target)
{
	for (unsigned i = 0; i < wr->len; i += wr->elem.size)
		model_element(wr, target + i, wr->elem.data + i, wr->elem.data + wr->len + i);
}

/** Apply the operation of a WR to the wr->len bytes at target. */
static void model(const struct wr *wr, uint8_t *target)
{
	uint64_t value;

	switch (wr->opcode) {
	case NIC_WR_ELEMENTS:
	case NIC_WR_FETCH_ELEMENTS:
		model_elements(wr, target);
		break;
	case NIC_WR_ATOMIC_FETCH_AND_ADD:
		model_add(target, 8, &wr->compare_add);
		break;
	case NIC_WR_ATOMIC_CMP_AND_SWP:
		memcpy(&value, target, 8);
		if (value == wr->compare_add)
			memcpy(target, &wr->swap, 8);
		break;
	case NIC_WR_MASKED_FETCH_AND_ADD:
		model_add_words(target, wr->len, wr->masked.swap_add, wr->masked.boundary);
		break;
	default:
		model_swap(target, &wr->masked);
	}
}

/** @return one past the last cell that the WR works on. */
static unsigned cell_end(const struct wr *wr)
{
	return wr->cell + (wr->cell_byte + wr->len + 7) / 8;
}

/* ---- history ------------------------------------------------------------------------------------------- */

static void remember(struct history *h, const struct sim *sim, uint64_t value)
{
	if (h->count == h->room) {
		h->room = h->room == 0 ? 64 : h->room * 2;
		h->entry = realloc(h->entry, h->room * sizeof(*h->entry));
		if (h->entry == NULL)
			abort();
	}
	h->entry[h->count].at_ns = sim->now_ns;
	h->entry[h->count].at = sim->stats.atomics;
	h->entry[h->count++].value = value;
}

/** Current value of a cell. */
uint64_t atomics_value(const struct node *node, unsigned cell)
{
	uint64_t value;

	memcpy(&value, node->bank[BANK_CELLS].mem + cell * 8, 8);
	return value;
}

static uint64_t value_before(const struct node *node, unsigned cell)
{
	const struct history *h = &node->cell[cell];

	return h->entry[h->count - 1].value;
}

static bool explains(const struct wr *wr, const struct node *node, unsigned cell)
{
	uint64_t cells[SPAN_MAX];

	/* an atomic with a bad local key for its result is still executed (AT-06) */
	if (!is_atomic(wr) || (wr->must & ~BIT(NIC_WC_LOC_PROT_ERR)) != 0 || cell < wr->cell || cell >= cell_end(wr))
		return false;
	for (unsigned c = wr->cell; c < cell_end(wr); c++)
		cells[c - wr->cell] = value_before(node, c);
	model(wr, (uint8_t *)cells + wr->cell_byte);
	for (unsigned c = wr->cell; c < cell_end(wr); c++)
		if (cells[c - wr->cell] != atomics_value(node, c))
			return false;
	return true;
}

static struct wr *find(struct node *node, unsigned cell)
{
	struct sim *sim = node->sim;

	for (unsigned q = 0; q < sim->qps; q++) {
		struct qp *qp = &sim->qp[q];

		if (!qp_is_reliable(qp) || qp->peer->node != node)
			continue;
		for (uint32_t i = qp->posted; i-- > 0;)
			if (explains(qp->sq[i], node, cell))
				return qp->sq[i];
	}
	return NULL;
}

/** The WR has changed its cells: record it. */
static void executed(struct node *node, struct wr *wr)
{
	struct sim *sim = node->sim;
	uint64_t cells[SPAN_MAX];

	if (++wr->executed > 1)
		sim_fail(sim, "atomic_once", "node %u cell %u: WR %u was executed %u times", node->index, wr->cell,
			 wr->id, wr->executed);
	sim->stats.atomics++;
	for (unsigned c = wr->cell; c < cell_end(wr); c++) {
		cells[c - wr->cell] = value_before(node, c);
		if (cells[c - wr->cell] != atomics_value(node, c))
			remember(&node->cell[c], sim, atomics_value(node, c));
	}
	memcpy(wr->exec_before, (uint8_t *)cells + wr->cell_byte, wr->len);
}

void atomics_watch(struct node *node)
{
	struct sim *sim = node->sim;

	for (unsigned c = 0; c < SIM_CELLS && node->cell[c].count == 0; c++)
		remember(&node->cell[c], sim, atomics_value(node, c));
	for (unsigned c = 0; c < SIM_CELLS && !sim->failed; c++) {
		uint64_t now = atomics_value(node, c), before = value_before(node, c);
		struct wr *wr;

		if (now == before)
			continue;
		wr = find(node, c);
		if (wr == NULL) {
			sim_fail(sim, "atomic_unknown", "node %u cell %u went from %llx to %llx by nobody", node->index,
				 c, (unsigned long long)before, (unsigned long long)now);
			return;
		}
		executed(node, wr);
	}
}

/* ---- returned values ----------------------------------------------------------------------------------- */

/** @return whether there was a time at which all cells from `cell` on held the values that the WR returned: a time
 * between the changes `from` and `until`, and not before the WR was posted. */
static bool was_seen(const struct wr *wr, const uint8_t *got, unsigned cell, uint64_t from, uint64_t until)
{
	const struct history *h = &wr->remote->cell[cell];
	unsigned skip = cell == wr->cell ? 0 : (cell - wr->cell) * 8 - wr->cell_byte;
	unsigned at = cell == wr->cell ? wr->cell_byte : 0, len = wr->len - skip < 8 - at ? wr->len - skip : 8 - at;

	if (cell == cell_end(wr))
		return true;
	for (unsigned i = h->count; i-- > 0;) {
		uint64_t start = h->entry[i].at, end = i + 1 < h->count ? h->entry[i + 1].at : UINT64_MAX;

		if (start < from)
			start = from;
		if (end > until)
			end = until;
		if (start < end && memcmp((const uint8_t *)&h->entry[i].value + at, got + skip, len) == 0 &&
		    was_seen(wr, got, cell + 1, start, end))
			return true;
		if (h->entry[i].at_ns < wr->posted_ns)
			return false; /* this was the value when the WR was posted; earlier values are not allowed */
	}
	return false;
}

void atomics_completed(struct wr *wr, bool success)
{
	uint8_t got[NIC_ATOMIC_SIZE_MAX], next[NIC_ATOMIC_SIZE_MAX];
	bool acted;

	if (success && wr->opcode == NIC_WR_ELEMENTS && wr->executed != 1)
		sim_fail(wr->qp->sim, "atomic_once", "WR %u succeeded, and changed memory %u times", wr->id,
			 wr->executed);
	if (!success || !is_atomic(wr) || wr->opcode == NIC_WR_ELEMENTS ||
	    !slots_collect(wr->seg, wr->segs, got, wr->len))
		return;
	memcpy(next, got, wr->len);
	model(wr, next);
	acted = memcmp(next, got, wr->len) != 0;
	if (wr->executed != acted)
		sim_fail(wr->qp->sim, "atomic_once", "WR %u succeeded, and changed memory %u times", wr->id,
			 wr->executed);
	else if (acted ? memcmp(got, wr->exec_before, wr->len) != 0 : !was_seen(wr, got, wr->cell, 0, UINT64_MAX))
		sim_fail(wr->qp->sim, "atomic_result", "WR %u returned what was not there", wr->id);
}
