/* SPDX-License-Identifier: BSD-3-Clause */
/* timer.c - the heap of QP deadlines; see timer.h. Invariant: heap[qp->heap_pos].qp == qp, or heap_pos is HEAP_NONE. */
#include "timer.h"

#include "qp.h"

bool timer_reserve(struct nic *nic, uint32_t qps)
{
	if (qps <= nic->heap_cap)
		return true;

	uint32_t cap = round_up_pow2(qps < 16 ? 16 : qps);
	struct timer_entry *heap = realloc(nic->heap, cap * sizeof(*heap));

	if (!heap)
		return false;
	nic->heap = heap;
	nic->heap_cap = cap;
	return true;
}

static void heap_put(struct nic *nic, uint32_t pos, struct timer_entry e)
{
	nic->heap[pos] = e;
	e.qp->heap_pos = pos;
}

static void sift_up(struct nic *nic, uint32_t pos, struct timer_entry e)
{
	while (pos && nic->heap[(pos - 1) / 2].deadline > e.deadline) {
		heap_put(nic, pos, nic->heap[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	heap_put(nic, pos, e);
}

static void sift_down(struct nic *nic, uint32_t pos, struct timer_entry e)
{
	for (;;) {
		uint32_t child = 2 * pos + 1;

		if (child >= nic->heap_len)
			break;
		if (child + 1 < nic->heap_len && nic->heap[child + 1].deadline < nic->heap[child].deadline)
			child++;
		if (nic->heap[child].deadline >= e.deadline)
			break;
		heap_put(nic, pos, nic->heap[child]);
		pos = child;
	}
	heap_put(nic, pos, e);
}

void timer_update(struct nic *nic, struct nic_qp *qp)
{
	struct timer_entry e = {qp->deadline, qp};

	if (qp->heap_pos == HEAP_NONE)
		sift_up(nic, nic->heap_len++, e);
	else if (nic->heap[qp->heap_pos].deadline > qp->deadline)
		sift_up(nic, qp->heap_pos, e);
}

void timer_remove(struct nic *nic, struct nic_qp *qp)
{
	uint32_t pos = qp->heap_pos;

	if (pos == HEAP_NONE)
		return;
	qp->heap_pos = HEAP_NONE;

	struct timer_entry last = nic->heap[--nic->heap_len];

	if (last.qp == qp)
		return;
	if (pos && nic->heap[(pos - 1) / 2].deadline > last.deadline)
		sift_up(nic, pos, last);
	else
		sift_down(nic, pos, last);
}

struct nic_qp *timer_expired(struct nic *nic, uint64_t now)
{
	while (nic->heap_len && nic->heap[0].deadline <= now) {
		struct nic_qp *qp = nic->heap[0].qp;

		timer_remove(nic, qp);
		if (qp->deadline <= now)
			return qp;
		if (qp->deadline != TIME_NEVER)
			timer_update(nic, qp);
	}
	return NULL;
}

void qp_timer(struct nic_qp *qp)
{
	uint64_t a = qp->req.ack_deadline, r = qp->req.rnr_until;

	if (a != TIME_NEVER && qp->req.tlp.at < a)
		a = qp->req.tlp.at;
	qp->deadline = a < r ? a : r;
	if (qp->deadline != TIME_NEVER) /* TIME_NEVER: an existing entry is dropped when it reaches the top */
		timer_update(qp->nic, qp);
}
