/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deliver.c - oracles over receive completions: message k of the peer must be received exactly once, whole, in the
 * right receive.
 *
 * Oracles: receive (of an outstanding WR, in posted order unless on an SRQ), receive_once, delivery (RC: exactly the
 * next message, with its data, flags and nothing beyond them; UC: a later one, whole), delivery_early (not before it
 * arrived), write_before_send (a WRITE is in memory before a later message is seen: AK-06), delivered (every RC
 * message that succeeded at its sender was received), success_after_error, receive_status.
 */
#include "sim.h"

#include <string.h>

static bool is_untouched(const struct rwr *r, uint32_t from)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < r->segs; i++) {
		const struct slot *s = &r->seg[i];

		for (uint32_t k = 0; k < s->len; k++, at++)
			if (at >= from && slot_mem(s)[k] != SIM_FREE_BYTE)
				return false;
	}
	return true;
}

/** @return what is wrong with the completion of receive r for this message; NULL: nothing. */
static const char *message_fault(const struct wr *wr, const struct rwr *r, const struct nic_wc *wc)
{
	static uint8_t data[65536];
	bool write = wr->opcode == NIC_WR_RDMA_WRITE_WITH_IMM, inv = wr->opcode == NIC_WR_SEND_WITH_INV;
	bool imm = write || wr->opcode == NIC_WR_SEND_WITH_IMM;

	if (wc->opcode != (write ? NIC_WC_RECV_RDMA_WITH_IMM : NIC_WC_RECV))
		return "opcode";
	if (imm != ((wc->wc_flags & NIC_WC_WITH_IMM) != 0) || inv != ((wc->wc_flags & NIC_WC_WITH_INV) != 0))
		return "flags";
	if ((imm || inv) && wc->ex != wr->ex)
		return "immediate data or key";
	if (wc->byte_len != wr->len)
		return "length";
	for (unsigned i = 0; i < r->segs; i++)
		if (slot_gone(&r->seg[i]))
			return NULL;
	/* On UC the receive buffer may still hold bytes of an earlier message that was lost in part. */
	if (wr->qp->type == NIC_QPT_RC && !is_untouched(r, write ? 0 : wr->len))
		return "bytes beyond the message";
	if (write)
		return NULL;
	if (wr->len > r->cap || !slots_collect(r->seg, r->segs, data, wr->len))
		return "buffer length";
	return pattern_check(wr->uid, 0, data, wr->len) ? NULL : "data";
}

/** @return whether every packet of the message has reached the receiver and, on RC, every earlier packet as well. */
static bool has_arrived(const struct qp *qp, const struct wr *wr)
{
	const struct wire *w = &qp->peer->wire;
	uint64_t end = wr->first + wr->psns;

	for (uint64_t i = wr->first; i < end; i++)
		if ((w->psn[i].flags & PSN_DELIVERED) == 0)
			return false;
	return qp->type != NIC_QPT_RC || w->prefix >= end;
}

/** RC: check that the message is the next one in order, and that the data of all earlier WRITEs is in memory. */
static void deliver_rc(struct qp *qp, struct rwr *r, const struct nic_wc *wc)
{
	struct qp *peer = qp->peer;
	struct sim *sim = qp->sim;
	const char *fault;
	struct wr *wr = NULL;

	while (qp->scan < peer->posted && !sim->failed) {
		wr = peer->sq[qp->scan++];
		if (wr->opcode <= NIC_WR_RDMA_WRITE_WITH_IMM && wr->must == 0)
			target_written(wr);
		if (wr->message)
			break;
		wr = NULL;
	}
	if (sim->failed)
		return;
	if (wr == NULL) {
		sim_fail(sim, "delivery", "QP %06x: receive %u completed, and nothing was sent", qp->qpn, r->id);
		return;
	}
	fault = message_fault(wr, r, wc);
	if (fault == NULL &&
	    (wr->must != 0 || (r->must != 0 && wr->len > 0 && wr->opcode != NIC_WR_RDMA_WRITE_WITH_IMM)))
		fault = "outcome: success, and it had to fail";
	if (fault != NULL) {
		sim_fail(sim, "delivery", "QP %06x: receive %u (%u bytes) for WR %u (opcode %u, %u bytes): wrong %s",
			 qp->qpn, r->id, wc->byte_len, wr->id, wr->opcode, wr->len, fault);
		return;
	}
	if (!has_arrived(qp, wr))
		sim_fail(sim, "delivery_early", "QP %06x: WR %u is received, and not all of it has arrived", qp->qpn,
			 wr->id);
	wr->delivered = true;
	sim->stats.deliveries++;
	if (wr->opcode == NIC_WR_SEND_WITH_INV)
		window_invalidated(qp, wr->ex);
}

/** UC: check that this is a whole message that was not delivered before (on a network that duplicates or reorders: any
 * message). */
static void deliver_uc(struct qp *qp, struct rwr *r, const struct nic_wc *wc)
{
	struct qp *peer = qp->peer;
	struct sim *sim = qp->sim;
	bool any = sim->opts.dup > 0 || sim->opts.reorder > 0;

	for (uint32_t i = any ? 0 : qp->scan; i < peer->posted; i++) {
		struct wr *wr = peer->sq[i];

		if (!wr->message || !has_arrived(qp, wr) || message_fault(wr, r, wc) != NULL)
			continue;
		/* If `any`, skip the check of memory: a late copy of an older WRITE may have overwritten the data. */
		if (wr->opcode == NIC_WR_RDMA_WRITE_WITH_IMM && !any)
			target_written(wr);
		qp->scan = i + 1;
		wr->delivered = true;
		sim->stats.uc_delivered++;
		return;
	}
	sim_fail(sim, "delivery", "QP %06x: receive %u (%u bytes) on UC is no message that was sent, or out of order",
		 qp->qpn, r->id, wc->byte_len);
}

static struct qp *receiver_of(struct cq *cq, const struct rwr *r, const struct nic_wc *wc)
{
	struct qp *qp = node_qp(cq->node, wc->qp_num);

	if (qp == NULL || qp->rcq != cq || (r->qp != NULL ? r->qp != qp : r->srq != qp->srq))
		return NULL;
	return qp;
}

/** RC: whether the peer has posted a WRITE with immediate data whose access to memory may be refused: that fails the
 * receive which it would complete. */
static bool immediate_may_fail(const struct qp *qp)
{
	const struct qp *peer = qp->peer;

	for (uint32_t i = qp->scan; qp->type == NIC_QPT_RC && i < peer->posted; i++)
		if (peer->sq[i]->opcode == NIC_WR_RDMA_WRITE_WITH_IMM &&
		    (peer->sq[i]->must | peer->sq[i]->may) & BIT(NIC_WC_REM_ACCESS_ERR))
			return true;
	return false;
}

static bool receive_status_allowed(const struct qp *qp, const struct rwr *r, uint32_t status)
{
	if (qp->recv_failed)
		return status == NIC_WC_WR_FLUSH_ERR;
	if (status == NIC_WC_SUCCESS)
		return true; /* deliver_rc checks whether the message had to fail */
	if (status == NIC_WC_WR_FLUSH_ERR)
		return qp->err_expected || qp->send_failed || nic_qp_state(qp->qp) == NIC_QPS_ERR;
	if (status == NIC_WC_LOC_ACCESS_ERR && immediate_may_fail(qp))
		return true;
	return status < 32 && ((r->must | r->may) & BIT(status)) != 0;
}

static void consume(struct qp *qp, struct rwr *r)
{
	if (r->srq != NULL) {
		r->srq->posted--;
		srq_kick(r->srq, rng_below(&r->srq->rng, 3000));
		return;
	}
	if (qp->rdone >= qp->rposted || qp->rq[qp->rdone] != r)
		sim_fail(qp->sim, "receive", "QP %06x: receive %u completed out of order", qp->qpn, r->id);
	else
		qp->rdone++;
	recv_kick(qp, rng_below(&qp->recv_rng, 2000));
}

/** Handle a completion that is not of a send WR. */
void deliver_cq(struct cq *cq, const struct nic_wc *wc)
{
	struct sim *sim = cq->node->sim;
	struct rwr *r = recv_of(sim, wc);
	struct qp *qp = r == NULL ? NULL : receiver_of(cq, r, wc);

	if (qp == NULL) {
		sim_fail(sim, "receive", "node %u: completion %llx with QPN %06x belongs to nothing", cq->node->index,
			 (unsigned long long)wc->wr_id, wc->qp_num);
		return;
	}
	if (r->done) {
		sim_fail(sim, "receive_once", "QP %06x: receive %u completed again", qp->qpn, r->id);
		return;
	}
	r->done = true;
	if (r->qp != NULL && wc->status == NIC_WC_SUCCESS)
		enable_check(qp, 1, qp->rdone);
	consume(qp, r);
	if (!receive_status_allowed(qp, r, wc->status))
		sim_fail(sim, qp->recv_failed && wc->status == 0 ? "success_after_error" : "receive_status",
			 "QP %06x: receive %u (must %x, may %x) completed with status %u (vendor %u: %s)", qp->qpn,
			 r->id, r->must, r->may, wc->status, wc->vendor_err, nic_vendor_err_str(wc->vendor_err));
	if (sim->failed)
		return;
	if (wc->status != NIC_WC_SUCCESS) {
		sim->stats.errors += wc->status != NIC_WC_WR_FLUSH_ERR;
		sim->stats.flushed += wc->status == NIC_WC_WR_FLUSH_ERR;
		qp->recv_failed = true;
		recv_release(r);
		qp_break(qp, "error on a receive");
		return;
	}
	if (qp->type == NIC_QPT_RC)
		deliver_rc(qp, r, wc);
	else if (qp->type == NIC_QPT_UC)
		deliver_uc(qp, r, wc);
	else
		datagram_deliver(qp, r, wc);
	recv_release(r);
}

/** All CQs are empty and the pair is idle: each message that succeeded must have been received. */
void delivered_check(struct qp *qp)
{
	if (qp->type != NIC_QPT_RC || qp->peer->rcq->dead || qp->scq->dead || qp->emptied)
		return;
	for (uint32_t i = 0; i < qp->done && !qp->sim->failed; i++) {
		const struct wr *wr = qp->sq[i];

		if (wr->message && wr->status == NIC_WC_SUCCESS && !wr->delivered)
			sim_fail(qp->sim, "delivered", "WR %u succeeded, and its message was never received", wr->id);
	}
}

/** @return whether this CQE raises a solicited-only notification: it is an error, or the receive of a solicited
 * message. */
bool deliver_is_solicited(struct cq *cq, const struct nic_wc *wc)
{
	struct rwr *r = recv_of(cq->node->sim, wc);
	struct qp *qp;

	if (wc->status != NIC_WC_SUCCESS)
		return true;
	qp = r == NULL ? NULL : receiver_of(cq, r, wc);
	if (qp == NULL || qp->type != NIC_QPT_RC)
		return false;
	for (uint32_t i = qp->scan; i < qp->peer->posted; i++)
		if (qp->peer->sq[i]->message)
			return qp->peer->sq[i]->solicited;
	return false;
}
