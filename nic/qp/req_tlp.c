/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_tlp.c - tail loss probes: retransmission before the ACK timer expires, between endpoints of reliable datagrams.
 *
 * The ACK timer is long, because a peer may be off its CPU for long. When a packet is lost and later packets arrive,
 * the peer sees a gap and sends a NAK. But no packet follows the last one of a burst to reveal its loss, and in a
 * ping-pong of small messages every packet is a last one. Without probes, losing a last packet would cost an ACK
 * timeout, a thousand times the RTT.
 *
 * So a QP estimates the RTT and its variation (srtt, rttvar: RFC 6298), from the first transmission of a packet. When a
 * response takes longer than srtt + 4 rttvar (WAIT_LEAST at least, WAIT_UNKNOWN before the first sample), the QP
 * retransmits everything unacknowledged, unless that is more than PSNS_MOST PSNs. It does so again after twice that
 * time, and so on. The ACK timer keeps running, and its expiry ends the probes. A probe is no retry and does not change
 * how long the QP waits for a silent peer. A copy sent too early is a duplicate to the peer. The RTT is measured from
 * the first transmission, so the sample shows how slow the peer is, and the QP waits longer before later probes.
 *
 * Probes are sent only on lossy paths, and only between our own endpoints: on an application's QP, only the ACK timer,
 * which the application has set, takes silence for a loss (IBTA 9.7.6.1.3).
 */
#include "psn.h"
#include "qp.h"
#include "req_tlp.h"

#define PSNS_MOST     16u      /* send no probe if more PSNs than this are unacknowledged */
#define WAIT_UNKNOWN  8000000u /* ns to wait before the first RTT sample */
#define WAIT_LEAST    1000000u /* shortest wait in ns: the peer's thread can easily be off its CPU for so long */
#define MEASURED_MOST 1000000000u
#define DEVIATIONS    4u
#define SMOOTHED_BY   8 /* weight of a new sample: 1/8 in srtt, 1/4 in rttvar */
#define DEVIATES_BY   4

static bool is_for(const struct nic_qp *qp)
{
	return !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS);
}

void req_tlp_sent(struct nic_qp *qp)
{
	struct requester_tlp *tlp = &qp->req.tlp;

	if (tlp->timing || !is_for(qp))
		return;
	tlp->timing = true;
	tlp->timed_psn = qp->req.sent_psn;
	tlp->timed_ns = qp->nic->now;
}

void req_tlp_progress(struct nic_qp *qp)
{
	struct requester_tlp *tlp = &qp->req.tlp;
	uint64_t took = qp->nic->now - tlp->timed_ns;
	int64_t off;

	tlp->again = 0;
	if (!tlp->timing || psn_diff(qp->comp.una, tlp->timed_psn) < 0)
		return;
	tlp->timing = false;
	took = took < MEASURED_MOST ? took : MEASURED_MOST;
	if (!tlp->srtt_ns) {
		tlp->srtt_ns = (uint32_t)took + 1;
		tlp->rttvar_ns = (uint32_t)took / 2;
		return;
	}
	off = (int64_t)took - tlp->srtt_ns;
	tlp->srtt_ns = (uint32_t)(tlp->srtt_ns + off / SMOOTHED_BY);
	off = (off < 0 ? -off : off) - tlp->rttvar_ns;
	tlp->rttvar_ns = (uint32_t)(tlp->rttvar_ns + off / DEVIATES_BY);
}

/** The time after which the response to a packet sent now counts as late. */
static uint64_t late_at(const struct nic_qp *qp)
{
	const struct requester_tlp *tlp = &qp->req.tlp;
	uint64_t wait = tlp->srtt_ns + (uint64_t)DEVIATIONS * tlp->rttvar_ns;

	if (!is_for(qp) || tlp->again == REQ_TLP_OVER)
		return TIME_NEVER;
	wait = tlp->srtt_ns ? (wait > WAIT_LEAST ? wait : WAIT_LEAST) : WAIT_UNKNOWN;
	return qp->nic->now + (wait << tlp->again);
}

void req_tlp_start(struct nic_qp *qp)
{
	qp->req.tlp.at = late_at(qp);
}

bool req_tlp_again(struct nic_qp *qp)
{
	struct requester_tlp *tlp = &qp->req.tlp;
	bool little = ((qp->req.sent_psn - qp->comp.una) & PSN_MASK) <= PSNS_MOST;

	tlp->again = little ? tlp->again + 1 : REQ_TLP_OVER;
	tlp->at = late_at(qp);
	return little;
}
