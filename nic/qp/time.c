/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * time.c - the NIC's own time: the sum of the steps of its owner's clock, without the time in which the NIC could not
 * run.
 *
 * Timers measure how long the NIC has waited for a peer, so only time in which it could have heard the peer counts.
 * When the owner's clock goes back, or the process was stopped, or the clock jumped ahead, deadlines keep their
 * distance from now:
 *   - A step back counts as zero.
 *   - A step far beyond the next deadline is a gap: the owner was not running when a timer was due. NIC time advances
 *     only to shortly before that deadline. The NIC can then handle answers that came during the gap before any timer
 *     expires.
 *   - A timer that one gap has spared in this way expires at the next gap. Timers therefore expire even if the owner
 *     calls only every few seconds.
 *
 * Owns: nic->now, nic->told_ns, nic->spared.
 */
#include "own_time.h"
#include "qp.h"
#include "resp_ack.h"

#define BACK_NS	 20000000u  /* a smaller step back only pauses NIC time, since the clocks of threads may differ */
#define LATE_NS	 500000000u /* an owner that works normally can be this late */
#define GRACE_NS 100000000u /* after a gap, the next timer has at most this time left */

static struct nic_qp *first_ack(const struct list *acks)
{
	return list_entry(acks->next, struct nic_qp, resp.ack_node);
}

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
	if (nic->rare_ns < t)
		t = nic->rare_ns;
	return t < nic->rdm_deadline ? t : nic->rdm_deadline;
}

/** Handle a gap. `next`: the earliest deadline. Timers due at `next` or up to LATE_NS later get up to GRACE_NS more
 * time, but only once. */
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
