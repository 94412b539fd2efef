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
#include "qp.h"

#define BACK_NS	 20000000u  /* threads' clocks may differ: a step back that is no longer is waited for to pass */
#define LATE_NS	 500000000u /* an owner who works may be so late */
#define GRACE_NS 100000000u /* until the next timer runs out after a gap, if it had so long */

static struct nic_qp *first_ack(const struct list *acks)
{
	return list_entry(acks->next, struct nic_qp, resp.ack_node);
}

/* Those of the list that were to go by `until`. */
void acks_due(const struct list *acks, uint64_t until)
{
	while (!list_empty(acks) && first_ack(acks)->resp.ack_at <= until)
		resp_ack_due(first_ack(acks));
}

void nic_ack_flush(struct nic *nic, bool lazy)
{
	acks_due(&nic->ack_wait, TIME_NEVER);
	if (lazy)
		acks_due(&nic->ack_lazy, TIME_NEVER);
}

bool nic_acks_wait(const struct nic *nic)
{
	return !list_empty(&nic->ack_wait) || !list_empty(&nic->ack_lazy);
}

uint64_t time_next(const struct nic *nic)
{
	uint64_t t = nic->heap_len ? nic->heap[0].deadline : TIME_NEVER;

	if (!list_empty(&nic->ack_wait) && first_ack(&nic->ack_wait)->resp.ack_at < t)
		t = first_ack(&nic->ack_wait)->resp.ack_at;
	if (!list_empty(&nic->ack_lazy) && first_ack(&nic->ack_lazy)->resp.ack_at < t)
		t = first_ack(&nic->ack_lazy)->resp.ack_at;
	if (nic->trig.retry_ns < t)
		t = nic->trig.retry_ns;
	return t < nic->rdm_deadline ? t : nic->rdm_deadline;
}

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
