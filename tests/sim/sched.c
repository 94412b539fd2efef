/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.c - the event queue: a binary heap ordered by (time, sequence), so that equal times keep their order. */
#include "sim.h"

#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void sched_at(struct sim *sim, uint64_t at_ns, event_fn fn, void *arg)
{
	struct event e = {at_ns < sim->now_ns ? sim->now_ns : at_ns, sim->seq++, fn, arg};
	unsigned i = sim->heap_len++;

	if (sim->heap_len > sim->heap_room) {
		sim->heap_room = sim->heap_room == 0 ? 1024 : sim->heap_room * 2;
		sim->heap = realloc(sim->heap, sim->heap_room * sizeof(*sim->heap));
		if (sim->heap == NULL)
			abort();
	}
	for (; i > 0 && before(&e, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = e;
}

bool sched_next(struct sim *sim, struct event *out)
{
	unsigned i = 0, n;

	if (sim->heap_len == 0)
		return false;
	*out = sim->heap[0];
	struct event last = sim->heap[--sim->heap_len];
	n = sim->heap_len;
	for (;;) {
		unsigned child = 2 * i + 1;

		if (child >= n)
			break;
		if (child + 1 < n && before(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!before(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	if (n > 0)
		sim->heap[i] = last;
	return true;
}
