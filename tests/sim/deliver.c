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

static uint32_t expected_opcode(const struct wr *wr)
{
	if (wr->qp->tags == TAGS_SENDER)
		return wr->tm.kind == MESSAGE_NO_TAG ? NIC_WC_TM_NO_TAG : NIC_WC_TM_RECV;
	return wr->opcode == NIC_WR_RDMA_WRITE_WITH_IMM ? NIC_WC_RECV_RDMA_WITH_IMM : NIC_WC_RECV;
}

/** @return what is wrong with the completion of receive r for this message; NULL: nothing. */
static const char *message_fault(const struct wr *wr, const struct rwr *r, const struct nic_wc *wc)
{
	static uint8_t data[65536];
	bool write = wr->opcode == NIC_WR_RDMA_WRITE_WITH_IMM, inv = wr->opcode == NIC_WR_SEND_WITH_INV;
	bool imm = write || wr->opcode == NIC_WR_SEND_WITH_IMM;

	if (wc->opcode != expected_opcode(wr))
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
	if (qp_is_reliable(wr->qp) && !is_untouched(r, write ? 0 : wr->len))
		return "bytes beyond the message";
	if (write)
		return NULL;
	if (wr->len > r->cap || !slots_collect(r->seg, r->segs, data, wr->len))
		return "buffer length";
	return tags_payload_is(wr, 0, data, wr->len) ? NULL : "data";
}

bool deliver_arrived(const struct qp *qp, const struct wr *wr)
{
	const struct wire *w = &qp->peer->wire;
	uint64_t end = wr->first + wr->psns;

	for (uint64_t i = wr->first; i < end; i++)
		if ((w->psn[i].flags & PSN_DELIVERED) == 0)
			return false;
	return !qp_is_reliable(qp) || w->prefix >= end;
}

struct wr *deliver_next(const struct qp *qp, const struct rwr *r)
{
	for (uint32_t i = qp->scan; i < qp->peer->posted; i++) {
		struct wr *wr = qp->peer->sq[i];

		if (wr->message && !wr->delivered && (qp->type != NIC_QPT_XRC_TGT || r->srq == &qp->node->xrc[wr->xrc]))
			return wr;
	}
	return NULL;
}

/** RC: check that the message is the next one in order, and that the data of all earlier WRITEs is in memory. */
static void deliver_rc(struct qp *qp, struct rwr *r, const struct nic_wc *wc)
{
	struct qp *peer = qp->peer;
	struct sim *sim = qp->sim;
	struct wr *wr = deliver_next(qp, r);
	const char *fault;

	for (uint32_t i = qp->scan; i < peer->posted && !sim->failed; i++) {
		if (wr_is_write(peer->sq[i]) && peer->sq[i]->must == 0)
			target_written(peer->sq[i]);
		if (peer->sq[i] == wr)
			break;
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
	if (!deliver_arrived(qp, wr))
		sim_fail(sim, "delivery_early", "QP %06x: WR %u is received, and not all of it has arrived", qp->qpn,
			 wr->id);
	wr->delivered = true;
	while (qp->scan < peer->posted && (peer->sq[qp->scan]->delivered || !peer->sq[qp->scan]->message) &&
	       peer->sq[qp->scan]->index <= wr->index)
		qp->scan++;
	sim->stats.deliveries++;
	if (wr->opcode == NIC_WR_SEND_WITH_INV)
		window_invalidated(qp, wr->ex);
	if (qp->tags == TAGS_RECEIVER)
		tags_untagged(qp, wr);
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

		if (!wr->message || !deliver_arrived(qp, wr) || message_fault(wr, r, wc) != NULL)
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

	if (qp == NULL)
		return NULL;
	if (qp->type == NIC_QPT_XRC_TGT)
		return r->srq != NULL && r->srq->cq == cq ? qp : NULL;
	return qp->rcq == cq && (r->qp != NULL ? r->qp == qp : r->srq == qp->srq) ? qp : NULL;
}

/** RC: whether the peer has posted a WRITE with immediate data whose access to memory may be refused: that fails the
 * receive which it would complete. */
static bool immediate_may_fail(const struct qp *qp)
{
	const struct qp *peer = qp->peer;

	for (uint32_t i = qp->scan; qp_is_reliable(qp) && i < peer->posted; i++)
		if (peer->sq[i]->opcode == NIC_WR_RDMA_WRITE_WITH_IMM &&
		    (peer->sq[i]->must | peer->sq[i]->may) & BIT(NIC_WC_REM_ACCESS_ERR))
			return true;
	return false;
}

/** RC: whether the peer has posted a SEND with invalidate of a key that is not the key of a window here. */
static bool invalidate_may_fail(const struct qp *qp)
{
	const struct qp *peer = qp->peer;

	for (uint32_t i = qp->scan; qp_is_reliable(qp) && i < peer->posted; i++)
		if (peer->sq[i]->opcode == NIC_WR_SEND_WITH_INV && peer->sq[i]->must != 0)
			return true;
	return false;
}

static bool receive_status_allowed(const struct qp *qp, const struct rwr *r, uint32_t status)
{
	/* an XRC target fails one receive at most, and may have completed earlier ones of other SRQs */
	if (qp->recv_failed)
		return status == (r->srq == qp->failed_srq ? NIC_WC_WR_FLUSH_ERR : NIC_WC_SUCCESS);
	if (status == NIC_WC_SUCCESS)
		return true; /* deliver_rc checks whether the message had to fail */
	if (status == NIC_WC_WR_FLUSH_ERR)
		return qp->err_expected || qp->send_failed || nic_qp_state(qp->qp) == NIC_QPS_ERR;
	if (status == NIC_WC_LOC_ACCESS_ERR && immediate_may_fail(qp))
		return true;
	if (status == NIC_WC_MW_BIND_ERR && invalidate_may_fail(qp))
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

	if (tags_complete(cq, wc))
		return;
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
		qp->failed_srq = r->srq;
		recv_release(r);
		tags_broken(qp);
		qp_break(qp, "error on a receive");
		return;
	}
	if (qp->tags == TAGS_SENDER)
		tags_fin(qp, r, wc);
	else if (qp_is_reliable(qp))
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
	if (!qp_is_reliable(qp) || qp->peer->rcq->dead || qp->scq->dead || qp->emptied)
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
	const struct wr *wr;
	struct qp *qp;

	if (wc->status != NIC_WC_SUCCESS)
		return true;
	qp = r == NULL ? NULL : receiver_of(cq, r, wc);
	if (qp == NULL || !qp_is_reliable(qp))
		return false;
	wr = deliver_next(qp, r);
	return wr != NULL && wr->solicited;
}
