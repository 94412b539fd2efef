/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * time.c - the NIC's own time: the sum of the steps of its owner's clock, but for those in which it could not work.
 *
 * Timers measure how long the NIC has waited for somebody, so only time in which it could have heard him counts. When the
 * owner's clock goes back, or the process was stopped, or the clock jumped ahead, deadlines keep their distance from now:
 *   - A step back counts as none.
 *   - A step far beyond the next deadline is a gap: the owner did not run timers when they were due, as one does who works.
 *     It counts up to shortly before that deadline, so that answers that came meanwhile are seen before anything expires.
 *   - Timers that have been spared so once are not spared by the next gap: an owner who looks every few seconds only makes
 *     progress, too.
 *
 * Owns: nic->now, nic->told_ns, nic->spared.
 */
#include "core.h"

#define BACK_NS	 20000000u  /* threads' clocks may differ: a step back that is no longer is waited for to pass */
#define LATE_NS	 500000000u /* an owner who works may be so late */
#define GRACE_NS 100000000u /* until the next timer runs out after a gap, if it had so long */

/** Timers with a deadline up to the one that is due, and those soon after it, get some time more, once. */
static void gap(struct nic *nic, uint64_t next)
{
	if (next > nic->now)
		COUNT(nic, clock_gaps);
	if (next <= nic->spared) {
		nic->now = nic->spared > nic->now ? nic->spared : nic->now;
		return;
	}
	nic->spared = next + LATE_NS;
	if (next > nic->now + GRACE_NS)
		nic->now = next - GRACE_NS;
}

void time_jumped(struct nic *nic, uint64_t now_ns)
{
	int64_t step = (int64_t)(now_ns - nic->told_ns);
	uint64_t next = time_next(nic);

	if (step < 0) {
		if (step >= -(int64_t)BACK_NS)
			return;
		COUNT(nic, clock_back);
		nic->told_ns = now_ns;
		return;
	}
	if (nic->told_ns == 0 || nic->now + (uint64_t)step <= next || nic->now + (uint64_t)step - next <= LATE_NS)
		nic->now += (uint64_t)step;
	else
		gap(nic, next);
	nic->told_ns = now_ns;
}
