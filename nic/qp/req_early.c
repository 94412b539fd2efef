/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_early.c - early retransmission, before the ACK timer expires, between endpoints of reliable datagrams.
 *
 * The ACK timer is long: a peer may be off its CPU for long. A packet lost amid others leaves a gap, which the peer
 * sees and NAKs. After the last packet of a burst no other shows the gap, and small messages that answer each other are
 * all last packets: such a loss would cost an ACK timeout, a thousand times the RTT.
 *
 * So a QP measures the RTT, from the first transmission of a packet, and its deviation. When an answer takes far
 * longer, the QP retransmits everything unacknowledged, if that is little; then again after twice that time, and so on,
 * until the ACK timer expires, which keeps running. This is no retry and does not change how long a silent peer is
 * waited for. A copy sent too early is a duplicate to the peer; and as the RTT is measured from the first transmission,
 * a slow peer gets more time from then on.
 *
 * Only on lossy paths, and between our own endpoints: an application that sets the ACK timer of its QP gets what it
 * has set (IBTA 9.7.6.1.3).
 */
#include "psn.h"
#include "qp.h"
#include "req_early.h"

#define PSNS_MOST     16u      /* unacknowledged */
#define WAIT_UNKNOWN  8000000u /* these in ns: before the first RTT sample */
#define WAIT_LEAST    1000000u /* a thread may easily be off the CPU for so long */
#define MEASURED_MOST 1000000000u
#define DEVIATIONS    4u
#define SMOOTHED_BY   8 /* weight of a new sample: 1/8 in the RTT, 1/4 in the deviation */
#define DEVIATES_BY   4

static bool is_for(const struct nic_qp *qp)
{
	return !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS);
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

/** When the answer to a packet sent now will be late. */
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
