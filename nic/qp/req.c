/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req.c - the requester's position, timers and retries: it knows what has been sent, and goes back after a loss
 * (IBTA 9.7.2, 9.7.5, 9.7.6, 10.8.3). req_tx.c builds the packets.
 *
 * Invariants. req.psn is the PSN of packet number req.packet of WQE sq.next. The requester always goes back to
 * comp.una, which lies in WQE sq.tail: every READ and atomic before it has been answered, so rd_out restarts at 0.
 */
#include "comp.h"
#include "event.h"
#include "psn.h"
#include "qp.h"
#include "req.h"
#include "req_tlp.h"
#include "req_taken.h"
#include "req_tx.h"
#include "req_window.h"
#include "timer.h"

/* How many times the ACK timer may double: IBTA 12.7.34 allows up to four times the timer's value. req_retries() allows
 * for these doublings when it plans the retries of an endpoint's QP. */
#define BACKOFF_MAX 2

/* IBTA 9.7.5.2.8: RNR NAK timer codes, in units of 10 us. Code 0 is the longest. */
static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,    4,    6,	    8,	   12,	  16,	 24,   32,
				      48,    64,   96,	 128,  192,  256,   384,   512,	  768,	 1024, 1536,
				      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

void req_reset(struct nic_qp *qp)
{
	qp->req = (struct requester){
		.psn = qp->attr.sq_psn,
		.sent_psn = qp->attr.sq_psn,
		.read_end = qp->attr.sq_psn,
		.cwnd = UINT32_MAX,
		.ack_deadline = TIME_NEVER,
		.rnr_until = TIME_NEVER,
		.tlp.at = TIME_NEVER,
		.retries = qp->attr.retry_cnt,
		.rnr_retries = qp->attr.rnr_retry,
	};
	req_hold(qp, HELD_RNR | HELD_FAILED, false);
}

/* ---- timers and retries ------------------------------------------------------------------------------ */

static void ack_timer_start(struct nic_qp *qp)
{
	struct requester *req = &qp->req;

	if (!qp_is_reliable(qp) || !qp->attr.timeout || req->sent_psn == qp->comp.una || req->rnr_until != TIME_NEVER)
		req->ack_deadline = TIME_NEVER;
	else
		req->ack_deadline = qp->nic->now + (nic_timeout_ns(qp->attr.timeout) << req->backoff);
	req->taken = REQ_TAKEN_UNKNOWN;
	if (qp_is_endpoints(qp))
		req_tlp_start(qp);
	qp_timer(qp);
}

/** How many times the ACK timer may double. On a lossy path, a longer timer gives a congested network time to recover.
 * On a lossless path, it gives the peer time to send its responses by the port, if we could not claim the ring that
 * it uses (links_late.c); one doubling is enough for that. */
static uint8_t backoff_max(const struct nic_qp *qp)
{
	if (qp_is_endpoints(qp))
		return BACKOFF_MAX;
	if (qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS)
		return 1;
	return (uint8_t)(qp->nic->cfg.ack_backoff / 2); /* log2 of 1, 2 or 4 */
}

uint8_t req_retries(uint8_t timeout, uint64_t ns)
{
	uint64_t tr = nic_timeout_ns(timeout), spent = tr;
	uint8_t n = 0;

	/* n retries take n + 1 expiries of the timer. */
	do {
		n++;
		spent += tr << (n < BACKOFF_MAX ? n : BACKOFF_MAX);
	} while (spent < ns && n < UINT8_MAX);
	return n;
}

/* Set the send position to comp.una. */
static void reposition(struct nic_qp *qp)
{
	struct requester *req = &qp->req;
	const struct swqe *w = sq_at(qp, qp->sq.tail);

	qp->sq.next = qp->sq.tail;
	req->psn = qp->comp.una;
	req->packet = qp->sq.tail != qp->sq.head && w->started && w->packets ? (req->psn - w->psn) & PSN_MASK : 0;
	req->rd_out = 0;
	req->unasked = 0;
	req->failed = ERR_none;
	req_hold(qp, HELD_FAILED, false);
	qp_ready(qp);
}

void req_progress(struct nic_qp *qp, uint32_t packets)
{
	struct requester *req = &qp->req;

	req->retries = qp->attr.retry_cnt;
	req->rnr_retries = qp->attr.rnr_retry;
	req->retrying = req->forgiven = false;
	req->referred = req->referred && psn_diff(qp->comp.una, req->referred_end) < 0;
	req->backoff = 0;
	if (qp_is_endpoints(qp))
		req_tlp_progress(qp);
	if (req->cwnd != UINT32_MAX)
		req_window_widen(qp, packets);
	if (psn_diff(qp->comp.una, req->psn) > 0)
		reposition(qp); /* a late response acknowledged what was about to be retransmitted */
	ack_timer_start(qp);
	if (qp->sq.next != qp->sq.head)
		qp_ready(qp);
}

/* A reference that could not be fetched is no loss on the path, so resending the packet with its payload costs no
 * retry. Until there is progress this is granted only once, so that a peer cannot cause endless retransmission.
 * @return whether it is granted. */
static bool forgive(struct nic_qp *qp)
{
	bool first = !qp->req.forgiven;

	qp->req.forgiven = true;
	return first;
}

static void go_back(struct nic_qp *qp)
{
	reposition(qp);
	ack_timer_start(qp); /* start it now, because the retransmission that would restart it may never happen */
}

void req_unread(struct nic_qp *qp)
{
	if (!forgive(qp)) {
		req_go_back(qp, ERR_sequence);
		return;
	}
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
	qp->req.retrying = true;
	/* If packets sent after the unfetched packet must also be sent again, this costs no retry either. */
	qp->req.referred = true;
	qp->req.referred_end = qp->req.sent_psn;
	go_back(qp);
}

void req_go_back(struct nic_qp *qp, enum error_id exhausted)
{
	struct requester *req = &qp->req;

	if (exhausted == ERR_sequence && req->referred && !req->forgiven) {
		req_unread(qp);
		return;
	}
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, req->retries);
	if (!req->retries) {
		comp_finish(qp, exhausted);
		return;
	}
	req->retries--;
	/* NAKs are ignored while `retrying`: they may be for the same loss. A NAK after a timeout is new information.
	 */
	req->retrying = exhausted == ERR_sequence;
	req_window_narrow(qp);
	go_back(qp);
}

void req_path_gone(struct nic_qp *qp)
{
	bool sends = qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD;

	if (!qp_is_reliable(qp) || !sends || qp->req.psn == qp->comp.una)
		return;
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
	reposition(qp);
	qp->req.backoff = 0;
	qp->req.tlp = (struct requester_tlp){.at = TIME_NEVER}; /* the RTT was measured on the old path */
	qp->req.retrying = false;
	req_attributes_changed(qp); /* full retry budget and ACK timer */
	req_window_restart(qp);
}

void req_rnr(struct nic_qp *qp, uint8_t timer_code)
{
	struct requester *req = &qp->req;
	uint64_t wait_ns = rnr_10us[timer_code & 31] * 10000ull;

	if (!req->rnr_retries) {
		comp_finish(qp, ERR_rnr);
		return;
	}
	if (qp->attr.rnr_retry != 7)
		req->rnr_retries--;
	reposition(qp);
	req->retrying = false;	   /* the RNR NAK shows that the retransmission has arrived */
	if (qp_is_endpoints(qp)) { /* an endpoint's retries only measure the peer's silence, which this NAK ends */
		req->retries = qp->attr.retry_cnt;
		req->backoff = 0;
		req->tlp.again = 0;
		req->tlp.timing = false; /* the peer's time to make room is no RTT sample */
	}
	req->rnr_until = qp->nic->now + wait_ns;
	req_hold(qp, HELD_RNR, true);
	req->ack_deadline = TIME_NEVER;
	trace_add(qp->nic, qp->qpn, NIC_TR_rnr_wait, qp->comp.una, (uint32_t)(wait_ns / 1000));
	qp_timer(qp);
}

/** The response is late, but the ACK timer has not expired: send a tail loss probe. */
static void late(struct nic_qp *qp)
{
	if (req_tlp_again(qp)) {
		COUNT(qp->nic, tail_loss_probes);
		trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
		reposition(qp);
	}
	qp_timer(qp);
}

/* Let the ACK timer run for another `ns`, without retransmission. */
static void ack_timer_extend(struct nic_qp *qp, uint64_t ns)
{
	qp->req.ack_deadline = qp->nic->now + ns;
	qp_timer(qp);
}

static void expire(struct nic_qp *qp)
{
	struct requester *req = &qp->req;
	uint64_t look_ns = req_taken_look(qp);

	if (look_ns && !qp_is_endpoints(qp)) {
		COUNT(qp->nic, ack_timer_waits);
		ack_timer_extend(qp, look_ns);
		return;
	}
	COUNT(qp->nic, local_ack_timeout_err);
	qp->counters.timeouts++;
	trace_add(qp->nic, qp->qpn, NIC_TR_timeout, qp->comp.una, req->retries);
	if (req->backoff < backoff_max(qp))
		req->backoff++;
	req->tlp.again = REQ_TLP_OVER;
	if (look_ns && req->retries) {
		/* An endpoint's QP counts a retry but does not retransmit: the peer had no time for the first copy. */
		req->retries--;
		ack_timer_extend(qp, nic_timeout_ns(qp->attr.timeout) << req->backoff);
	} else {
		req_go_back(qp, ERR_timeout);
	}
}

void req_timeout(struct nic_qp *qp, uint64_t now)
{
	struct requester *req = &qp->req;

	if (req->rnr_until <= now) {
		req->rnr_until = TIME_NEVER;
		req_hold(qp, HELD_RNR, false);
		qp_timer(qp);
		qp_ready(qp);
	}
	if (req->ack_deadline <= now) {
		expire(qp);
	} else if (req->ack_deadline != TIME_NEVER && req->tlp.at <= now) {
		late(qp);
	}
}

void req_attributes_changed(struct nic_qp *qp)
{
	qp->req.retries = qp->attr.retry_cnt;
	qp->req.rnr_retries = qp->attr.rnr_retry;
	ack_timer_start(qp);
}

void req_rd_done(struct nic_qp *qp)
{
	if (qp->req.rd_out)
		qp->req.rd_out--;
	if (qp->sq.next != qp->sq.head)
		qp_ready(qp);
}

void req_settle(struct nic_qp *qp)
{
	struct requester *req = &qp->req;

	if (req->failed != ERR_none && qp->sq.next == qp->sq.tail) {
		comp_finish(qp, req->failed);
		return;
	}
	if (qp->state == NIC_QPS_SQD && !req->drained && (int32_t)(qp->sq.tail - req->sqd_stop) >= 0) {
		req->drained = true;
		if (qp->attr.en_sqd_async_notify)
			event_raise(qp->nic, &qp->events, NIC_EVENT_SQ_DRAINED);
	}
}

/* Fail WQE sq.next once all WQEs before it are complete. Always returns false. */
bool req_fail(struct nic_qp *qp, enum error_id error)
{
	qp->req.failed = error;
	req_hold(qp, HELD_FAILED, true);
	req_settle(qp);
	return false;
}

void req_sent(struct nic_qp *qp, uint32_t psns, uint32_t ends)
{
	struct requester *req = &qp->req;
	bool oldest = req->psn == qp->comp.una;

	if (req->psn != req->sent_psn) {
		COUNT(qp->nic, retransmitted);
		qp->counters.retransmits++;
	}
	req->psn = psn_add(req->psn, psns);
	req->packet += psns;
	if (psn_diff(req->psn, req->sent_psn) > 0) {
		req->sent_psn = req->psn;
		if (qp_is_endpoints(qp))
			req_tlp_sent(qp);
	}
	if (ends) {
		qp->sq.next += ends;
		req->packet = 0;
	}
	if (!qp_is_reliable(qp)) { /* UC has no ACKs: what is sent is complete */
		qp->comp.una = req->psn;
		if (ends) {
			comp_finish(qp, ERR_none);
			comp_finish_local(qp);
		}
	} else if (req->ack_deadline == TIME_NEVER || (oldest && !req_tlp_is_again(qp))) {
		ack_timer_start(qp);
	}
}
