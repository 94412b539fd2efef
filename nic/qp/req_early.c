/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_early.c - sending again before the ACK timer runs out, between endpoints of reliable datagrams.
 *
 * The ACK timer is patient: a peer may be off its CPU for long. A packet that is lost amid others is found by the
 * peer, who sees the gap and says so. The last one of a row has nobody behind it, and small messages that answer each
 * other are all the last one: whoever loses such a packet would wait for the ACK timer, a thousand times as long as
 * an answer takes.
 *
 * So a QP measures how long answers take, from the first time that a packet is sent, and how much that varies; and
 * when one takes far longer, it sends again what is without an answer, if that is little; then after twice that time,
 * and so on, until the ACK timer is due, which runs all the while. This is no retry, and changes nothing of how long
 * a silent peer is waited for. What was sent again too early is a duplicate to the peer; and as answers are timed
 * from the first time that a packet was sent, a peer that is slow gets more time from then on.
 *
 * Only where packets can be lost, and where the peer is of our own kind: who sets the ACK timer of a QP himself gets
 * what he has set (IBTA 9.7.6.1.3).
 */
#include "qp.h"

#define PSNS_MOST     16u      /* without an answer */
#define WAIT_UNKNOWN  8000000u /* these in ns: before the first answer has come */
#define WAIT_LEAST    1000000u /* what a thread may easily be off the CPU for */
#define MEASURED_MOST 1000000000u
#define DEVIATIONS    4u
#define SMOOTHED_BY   8 /* these two: the share of what is new is one in so many */
#define DEVIATES_BY   4

static bool is_for(const struct nic_qp *qp)
{
	return qp->owner && !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS);
}

void req_early_sent(struct nic_qp *qp)
{
	struct requester_early *e = &qp->req.early;

	if (e->timing || !is_for(qp))
		return;
	e->timing = true;
	e->timed_psn = qp->req.sent_psn;
	e->timed_ns = qp->nic->now;
}

void req_early_progress(struct nic_qp *qp)
{
	struct requester_early *e = &qp->req.early;
	uint64_t took = qp->nic->now - e->timed_ns;
	int64_t off;

	e->again = 0;
	if (!e->timing || psn_diff(qp->comp.una, e->timed_psn) < 0)
		return;
	e->timing = false;
	took = took < MEASURED_MOST ? took : MEASURED_MOST;
	if (!e->answer_ns) {
		e->answer_ns = (uint32_t)took + 1;
		e->deviation_ns = (uint32_t)took / 2;
		return;
	}
	off = (int64_t)took - e->answer_ns;
	e->answer_ns = (uint32_t)(e->answer_ns + off / SMOOTHED_BY);
	off = (off < 0 ? -off : off) - e->deviation_ns;
	e->deviation_ns = (uint32_t)(e->deviation_ns + off / DEVIATES_BY);
}

/** When an answer is late, that what was sent now may have. */
static uint64_t late_at(const struct nic_qp *qp)
{
	const struct requester_early *e = &qp->req.early;
	uint64_t wait = e->answer_ns + (uint64_t)DEVIATIONS * e->deviation_ns;

	if (!is_for(qp) || e->again == REQ_EARLY_OVER)
		return TIME_NEVER;
	wait = e->answer_ns ? (wait > WAIT_LEAST ? wait : WAIT_LEAST) : WAIT_UNKNOWN;
	return qp->nic->now + (wait << e->again);
}

void req_early_start(struct nic_qp *qp)
{
	qp->req.early.at = late_at(qp);
}

bool req_early_again(struct nic_qp *qp)
{
	struct requester_early *e = &qp->req.early;
	bool little = ((qp->req.sent_psn - qp->comp.una) & PSN_MASK) <= PSNS_MOST;

	e->again = little ? e->again + 1 : REQ_EARLY_OVER;
	e->at = late_at(qp);
	return little;
}
