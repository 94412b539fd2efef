/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.c - the trigger unit: it starts work when a counter reaches the work's threshold; see trigger.h.
 *
 * Work waiting for a counter is in the counter's heap. When the counter changes, work whose threshold is reached moves
 * to the counter's ready list, in the order of thresholds. Ready work stays ready even if the counter decreases before
 * the work starts. Counters with ready work are on a list of the NIC, from which trig_run takes them one by one; the
 * work that it starts may add counters to that list. trig_run is called wherever something may have completed; a
 * recursive call does nothing.
 *
 * If a queue has no room for a counter's ready work, the counter goes to a separate list, and is tried again when
 * something has completed. Each call of trig_run tries only some of these counters, because a completion may make no
 * room for most of them.
 *
 * Owns: nic.trig.
 */
#include "trigger.h"

#include <stdlib.h>

#include "core.h"
#include "trig.h"

#define ROOM_FIRST 16u
/* Interval of retries while nothing completes: memory, for example, can become free without a completion. */
#define RETRY_NS   100000000u
/* Once this many counters waiting for room have been tried in vain, trig_run leaves the others for SOON_NS later. A
 * completion does not tell for which counter it made room. */
#define TRIES	   16u
#define SOON_NS	   1000u
#define READY	   UINT32_MAX /* value of nic_trig_work.at for work that is on a ready list, not in a heap */

void nic_trig_cntr_init(struct nic_trig_cntr *c)
{
	*c = (struct nic_trig_cntr){.order = 0};
	list_init(&c->ready);
	list_init(&c->node);
}

void nic_trig_cntr_fini(struct nic_trig_cntr *c)
{
	list_remove(&c->node);
	free(c->heap);
	c->heap = NULL;
	c->n = c->room = 0;
}

/* ---- the heap ------------------------------------------------------------------------------------------------ */

#define ARITY 4u /* children per entry: half the levels of a binary heap, so fewer moves (each writes work->at) */

/** Whether `a` starts before `b`. Without a branch: the processor cannot predict which of two siblings is first. */
static bool is_before(const struct nic_trig_entry *a, const struct nic_trig_entry *b)
{
	return ((unsigned __int128)a->threshold << 64 | a->order) < ((unsigned __int128)b->threshold << 64 | b->order);
}

static void heap_put(struct nic_trig_cntr *c, uint32_t at, struct nic_trig_entry entry)
{
	c->heap[at] = entry;
	entry.work->at = at;
}

/** Place the entry at `at` or closer to the root. */
static void heap_up(struct nic_trig_cntr *c, uint32_t at, struct nic_trig_entry entry)
{
	for (uint32_t up; at > 0; at = up) {
		up = (at - 1) / ARITY;
		if (!is_before(&entry, &c->heap[up]))
			break;
		heap_put(c, at, c->heap[up]);
	}
	heap_put(c, at, entry);
}

/** Remove the entry at `at`. Move the gap down to a leaf. From there, move the heap's last entry up to its place.
 *  That takes fewer comparisons than moving the last entry down, because the last entry usually belongs near a leaf. */
static void heap_remove(struct nic_trig_cntr *c, uint32_t at)
{
	const struct nic_trig_entry last = c->heap[--c->n];

	if (at == c->n)
		return;
	for (uint32_t down; (down = ARITY * at + 1) < c->n; at = down) {
		uint32_t end = c->n - down < ARITY ? c->n : down + ARITY;

		for (uint32_t i = down + 1; i < end; i++)
			down = is_before(&c->heap[i], &c->heap[down]) ? i : down;
		heap_put(c, at, c->heap[down]);
	}
	heap_up(c, at, last);
}

static bool heap_grow(struct nic_trig_cntr *c)
{
	uint32_t room = c->room ? 2 * c->room : ROOM_FIRST;
	struct nic_trig_entry *heap;

	if (room >= READY / 2)
		return false;
	heap = realloc(c->heap, room * sizeof(*heap));
	if (!heap)
		return false;
	c->heap = heap;
	c->room = room;
	return true;
}

/* ---- counters ------------------------------------------------------------------------------------------------ */

/** Whether successes plus failures, a sum that may exceed 64 bits, are at least `threshold`. */
static bool has_reached(const struct nic_trig_cntr *c, uint64_t threshold)
{
	return c->part[0] >= threshold || c->part[1] >= threshold - c->part[0];
}

static void reach(struct nic *nic, struct nic_trig_cntr *c)
{
	while (c->n && has_reached(c, c->heap[0].threshold)) {
		struct nic_trig_work *work = c->heap[0].work;

		heap_remove(c, 0);
		work->at = READY;
		list_append(&c->ready, &work->node);
	}
	if (list_empty(&c->ready))
		return;
	if (list_empty(&c->node))
		list_append(&nic->trig.due, &c->node);
	nic->trig_due = true;
}

void nic_trig_set(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t value)
{
	__atomic_store_n(&c->part[failed], value, __ATOMIC_RELEASE);
	reach(nic, c);
}

void nic_trig_add(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t n)
{
	nic_trig_set(nic, c, failed, c->part[failed] + n);
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

int nic_trig_queue(struct nic *nic, struct nic_trig_cntr *c, uint64_t threshold, struct nic_trig_work *work)
{
	const struct nic_trig_entry entry = {.threshold = threshold, .order = c->order, .work = work};

	if (c->n == c->room && !heap_grow(c))
		return -ENOMEM;
	c->order++;
	work->cntr = c;
	list_init(&work->node);
	heap_up(c, c->n++, entry);
	reach(nic, c);
	return 0;
}

int nic_trig_reserve(struct nic_trig_cntr *c, uint32_t n)
{
	while (c->room < n)
		if (!heap_grow(c))
			return -ENOMEM;
	return 0;
}

bool nic_trig_cancel(struct nic_trig_work *work)
{
	if (!work->cntr)
		return false;
	if (work->at == READY)
		list_remove(&work->node);
	else
		heap_remove(work->cntr, work->at);
	work->cntr = NULL;
	return true;
}

/* ---- starting ------------------------------------------------------------------------------------------------ */

/** Request another pass over the counters waiting for room, to begin after the current one, if any. */
static void ask_for_pass(struct nic *nic)
{
	nic->trig.completions = nic->completions - 1;
}

/** Begin a pass if due. Counters that could start nothing in the previous pass go first, so that each counter gets its
 *  turn when room is scarce. */
static void begin_pass(struct nic *nic)
{
	if (!list_empty(&nic->trig.untried) || nic->completions == nic->trig.completions)
		return;
	nic->trig.completions = nic->completions;
	list_append_all(&nic->trig.untried, &nic->trig.hungry);
	list_append_all(&nic->trig.untried, &nic->trig.fed);
}

/** No room for this work: put it back. `fed`: other work of this counter has been started. */
static void stall(struct nic *nic, struct nic_trig_cntr *c, struct nic_trig_work *work, bool fed)
{
	COUNT(nic, trig_no_room);
	work->cntr = c;
	list_append(list_first(&c->ready), &work->node); /* inserts at the front, also if c->ready is empty */
	list_remove(&c->node);				 /* fire() may have listed the counter again */
	list_append(fed ? &nic->trig.fed : &nic->trig.hungry, &c->node);
	nic->trig.retry_ns = nic->now + RETRY_NS;
}

/** Start a counter's ready work. @return false: there was no room for any of it. */
static bool fire_ready(struct nic *nic, struct nic_trig_cntr *c)
{
	bool fed = false;

	list_remove(&c->node);
	while (!list_empty(&c->ready)) {
		struct nic_trig_work *work = list_entry(list_first(&c->ready), struct nic_trig_work, node);

		list_remove(&work->node);
		work->cntr = NULL;
		if (work->fire(work) == -EAGAIN) {
			stall(nic, c, work, fed);
			return fed;
		}
		COUNT(nic, trig_fired);
		fed = true;
	}
	return true;
}

/** The next counter to serve, or NULL. Counters waiting for room go first while tries are left. */
static struct nic_trig_cntr *whose_turn(struct nic *nic, unsigned tries)
{
	struct list *of = tries && !list_empty(&nic->trig.untried) ? &nic->trig.untried : &nic->trig.due;

	return list_empty(of) ? NULL : list_entry(list_first(of), struct nic_trig_cntr, node);
}

/* Repeat while started work leads to completions that make room for more work. Stop once settle_owners has found
 * nothing to do, even if owners_due is still set: owners_due stays set while a QP has last packets to send, and this
 * loop sends no packets. */
static void fire_all(struct nic *nic)
{
	struct nic_trig_cntr *c;
	unsigned tries = TRIES;

	for (;;) {
		begin_pass(nic);
		c = whose_turn(nic, tries);
		if (c && !fire_ready(nic, c))
			tries -= tries > 0;
		else if (!c && !(nic->owners_due && nic->settle_owners(nic)))
			return;
	}
}

void trig_run(struct nic *nic)
{
	bool goes_on;

	if (nic->trig.firing)
		return;
	nic->trig.firing = true;
	fire_all(nic);
	nic->trig.firing = false;
	goes_on = !list_empty(&nic->trig.untried);
	if (goes_on)
		nic->trig.retry_ns = nic->now + SOON_NS;
	/* While counters wait for room, every call that may complete something must run trig_run. */
	nic->trig_due = goes_on || !list_empty(&nic->trig.hungry) || !list_empty(&nic->trig.fed);
	if (!nic->trig_due)
		nic->trig.retry_ns = TIME_NEVER;
	else if (nic->trig.retry_ns == TIME_NEVER) /* no waiting counter was tried this time */
		nic->trig.retry_ns = nic->now + RETRY_NS;
	rare_update(nic);
}

void trig_init(struct nic *nic)
{
	list_init(&nic->trig.due);
	list_init(&nic->trig.untried);
	list_init(&nic->trig.hungry);
	list_init(&nic->trig.fed);
	nic->trig.retry_ns = TIME_NEVER;
}

void nic_settle(struct nic *nic)
{
	if (nic->owners_due)
		nic->settle_owners(nic);
	if (nic->trig_due)
		trig_run(nic);
}

void nic_trig_run(struct nic *nic)
{
	nic_settle_due(nic);
}

void nic_trig_retry(struct nic *nic)
{
	ask_for_pass(nic);
}

void trig_timeout(struct nic *nic)
{
	if (nic->trig.retry_ns > nic->now)
		return;
	nic->trig.retry_ns = TIME_NEVER;
	rare_update(nic);
	if (list_empty(&nic->trig.untried))
		ask_for_pass(nic);
}
