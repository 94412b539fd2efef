/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moderate.c - moderation of completion events: the COMP event of an armed CQ is delayed until it announces several
 * entries, or until some time after the first of them. Only the event is delayed: polling finds the entries at once.
 * The CQ stays armed meanwhile. An entry added to an armed CQ counts if, without moderation, it would have raised the
 * event: if the CQ is armed for solicited entries, only solicited and failed entries count. When the CQ is armed, all
 * unread entries up to the last such entry count.
 *
 * Owns: nic->moderated, nic->moderated_ns; in CQs: moderation.
 */
#include "cq.h"

void cq_unhold(struct nic_cq *cq)
{
	list_remove(&cq->moderation.node);
	cq->moderation.held = 0;
}

static void release(struct nic_cq *cq)
{
	cq_unhold(cq);
	cq_announce(cq);
}

void cq_hold(struct nic_cq *cq, uint64_t n)
{
	struct cq_moderation *m = &cq->moderation;
	struct nic *nic = cq->nic;

	if (n >= m->count) {
		release(cq);
		return;
	}
	if (!m->held) {
		m->due_ns = nic->now + m->period_ns;
		list_append(&nic->moderated, &m->node);
		if (m->due_ns < nic->moderated_ns) {
			nic->moderated_ns = m->due_ns;
			rare_update(nic);
		}
	}
	m->held = n;
}

/* nic->moderated_ns may be earlier than the due times of all delayed events, because cq_unhold() does not update it. */
void cq_hold_timeout(struct nic *nic)
{
	struct list due;

	if (nic->moderated_ns > nic->now)
		return;
	list_init(&due);
	list_append_all(&due, &nic->moderated);
	nic->moderated_ns = TIME_NEVER;
	while (!list_empty(&due)) {
		struct nic_cq *cq = list_entry(list_first(&due), struct nic_cq, moderation.node);

		if (cq->moderation.due_ns <= nic->now) {
			release(cq);
			continue;
		}
		list_remove(&cq->moderation.node);
		list_append(&nic->moderated, &cq->moderation.node);
		if (cq->moderation.due_ns < nic->moderated_ns)
			nic->moderated_ns = cq->moderation.due_ns;
	}
	rare_update(nic);
}

void nic_cq_moderate(struct nic_cq *cq, uint16_t count, uint16_t period_us)
{
	cq->moderation.count = period_us && count > 1 ? count : 0;
	cq->moderation.period_ns = period_us * UINT64_C(1000);
	if (cq->moderation.held)
		release(cq);
}
