/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.c - oracles over send completions.
 *
 * Oracles: completion (of an outstanding WR, in the right CQ, with correct fields), completion_once,
 * completion_order (posted order; every signaled WR has one: RS-11), success_after_error (QS-05), status (only
 * statuses with a cause), unsignaled, read_data, and those of target.c, atomics.c and window.c.
 */
#include "sim.h"

#include <string.h>

#define SEND_ID 0x5e00000000000000ull

static const uint8_t wc_opcode[] = {
	[NIC_WR_RDMA_WRITE] = NIC_WC_RDMA_WRITE,
	[NIC_WR_RDMA_WRITE_WITH_IMM] = NIC_WC_RDMA_WRITE,
	[NIC_WR_SEND] = NIC_WC_SEND,
	[NIC_WR_SEND_WITH_IMM] = NIC_WC_SEND,
	[NIC_WR_RDMA_READ] = NIC_WC_RDMA_READ,
	[NIC_WR_ATOMIC_CMP_AND_SWP] = NIC_WC_COMP_SWAP,
	[NIC_WR_ATOMIC_FETCH_AND_ADD] = NIC_WC_FETCH_ADD,
	[NIC_WR_ELEMENTS] = NIC_WC_ELEMENTS,
	[NIC_WR_FETCH_ELEMENTS] = NIC_WC_FETCH_ELEMENTS,
	[NIC_WR_LOCAL_INV] = NIC_WC_LOCAL_INV,
	[NIC_WR_BIND_MW] = NIC_WC_BIND_MW,
	[NIC_WR_SEND_WITH_INV] = NIC_WC_SEND,
	[NIC_WR_MASKED_CMP_AND_SWP] = NIC_WC_MASKED_COMP_SWAP,
	[NIC_WR_MASKED_FETCH_AND_ADD] = NIC_WC_MASKED_FETCH_ADD,
	[NIC_WR_NOP] = NIC_WC_SEND,
	[NIC_WR_FLUSH] = NIC_WC_FLUSH,
	[NIC_WR_ATOMIC_WRITE] = NIC_WC_ATOMIC_WRITE,
};

static bool status_allowed(const struct qp *qp, const struct wr *wr, uint32_t status)
{
	const struct sim *sim = qp->sim;

	if (qp->send_failed)
		return status == NIC_WC_WR_FLUSH_ERR;
	switch (status) {
	case NIC_WC_SUCCESS:
		return wr->must == 0;
	case NIC_WC_WR_FLUSH_ERR:
		return qp->flush_due || qp->trouble || qp->recv_failed || qp->scq->dead || qp->rcq->dead;
	case NIC_WC_RETRY_EXC_ERR: /* perhaps by an error of the peer that its program has not polled yet */
		return qp_is_reliable(qp) && wr->opcode != NIC_WR_NOP &&
		       (!sim->clean || !sim->patient || qp->peer->err_expected || clock_excuses(qp) ||
			nic_qp_state(qp->peer->qp) == NIC_QPS_ERR);
	case NIC_WC_RNR_RETRY_EXC_ERR:
		return wr->message && sim->opts.rnr_retry < 7 && qp->wire.rnr_naks > sim->opts.rnr_retry;
	default:
		return status < 32 && ((wr->must | wr->may | qp->may_all) & BIT(status)) != 0;
	}
}

static void check_read(struct wr *wr)
{
	static uint8_t data[65536];
	struct sim *sim = wr->qp->sim;
	bool right;

	if (!slots_collect(wr->seg, wr->segs, data, wr->len))
		return;
	if (wr->target != NULL)
		right = target_holds(wr->target, data, wr->chain_from, wr->chain_to);
	else
		right = pattern_check(0x57a71c0000000000ull + wr->remote->index, (uint32_t)wr->static_off, data,
				      wr->len);
	if (!right)
		sim_fail(sim, "read_data", "WR %u: READ of %u bytes from node %u%s returned what was not there", wr->id,
			 wr->len, wr->remote->index, wr->target == NULL ? " (static)" : "");
}

/** A send WR has ended: its buffers belong to the application again. */
static void finish(struct wr *wr, uint32_t status)
{
	struct qp *qp = wr->qp;
	bool success = status == NIC_WC_SUCCESS;

	wr->done = true;
	wr->status = status;
	wr->done_ns = qp->sim->now_ns;
	if (success)
		enable_check(qp, 0, wr->index);
	if (success && wr->opcode == NIC_WR_RDMA_READ)
		check_read(wr);
	if (success && wr_is_write(wr) && qp_is_reliable(qp))
		target_written(wr);
	if (success && wr->opcode == NIC_WR_FLUSH)
		place_flushed(wr);
	atomics_completed(wr, success);
	window_completed(wr, success);
	wr_release(wr);
	target_unref(wr, success);
}

static void check_fields(struct wr *wr, const struct nic_wc *wc)
{
	struct sim *sim = wr->qp->sim;

	if (wc->qp_num != wr->qp->qpn)
		sim_fail(sim, "completion", "WR %u completed with QPN %06x", wr->id, wc->qp_num);
	if (wc->status != NIC_WC_SUCCESS)
		return;
	if (wc->opcode != wc_opcode[wr->opcode])
		sim_fail(sim, "completion", "WR %u (opcode %u) completed with opcode %u", wr->id, wr->opcode,
			 wc->opcode);
	if (wr->opcode == NIC_WR_RDMA_READ && wc->byte_len != wr->len)
		sim_fail(sim, "completion", "WR %u: READ of %u bytes completed with %u", wr->id, wr->len, wc->byte_len);
	if (!wr->signaled)
		sim_fail(sim, "unsignaled", "WR %u is unsignaled, succeeded, and has a completion", wr->id);
}

static void complete_send(struct cq *cq, const struct nic_wc *wc, struct wr *wr)
{
	struct qp *qp = wr->qp;
	struct sim *sim = qp->sim;

	if (wr->done)
		sim_fail(sim, "completion_once", "WR %u completed again, status %u", wr->id, wc->status);
	else if (qp->scq != cq || wr->index >= qp->posted || qp->sq[wr->index] != wr)
		sim_fail(sim, "completion", "WR %u completed in a CQ or a life that is not its own", wr->id);
	if (sim->failed)
		return;
	check_fields(wr, wc);
	for (; qp->done < wr->index && !sim->failed; qp->done++) {
		struct wr *earlier = qp->sq[qp->done];

		/* an unsignaled success has no CQE; after the queue has failed, each WR gets a flush CQE */
		if (earlier->signaled || qp->send_failed || earlier->must != 0)
			sim_fail(sim, "completion_order", "WR %u completed before WR %u", wr->id, earlier->id);
		else
			finish(earlier, NIC_WC_SUCCESS);
	}
	if (!status_allowed(qp, wr, wc->status))
		sim_fail(sim, qp->send_failed && wc->status == 0 ? "success_after_error" : "status",
			 "WR %u (opcode %u, %u bytes, must %x, may %x) completed with status %u (vendor %u: %s)%s",
			 wr->id, wr->opcode, wr->len, wr->must, wr->may | qp->may_all, wc->status, wc->vendor_err,
			 nic_vendor_err_str(wc->vendor_err), qp->send_failed ? " after an error" : "");
	if (sim->failed)
		return;
	qp->done++;
	finish(wr, wc->status);
	if (wc->status != NIC_WC_SUCCESS) {
		sim->stats.errors += wc->status != NIC_WC_WR_FLUSH_ERR;
		sim->stats.flushed += wc->status == NIC_WC_WR_FLUSH_ERR;
		qp->send_failed = true;
		qp_break(qp, "error completion");
	}
	work_kick(qp, rng_below(&qp->rng, 2000));
}

/** The QP is in ERR and its CQ is empty, so every WR left must be an unsignaled one that succeeded. @return false: a
 * completion is missing. */
bool complete_tail(struct qp *qp)
{
	while (qp->done < qp->posted && !qp->send_failed && !qp->sim->failed) {
		struct wr *wr = qp->sq[qp->done];

		if (wr->signaled || wr->must != 0)
			return false;
		qp->done++;
		finish(wr, NIC_WC_SUCCESS);
	}
	return qp->done == qp->posted;
}

/** The QP was reset: its WRs end without a completion, and their buffers belong to the application again. */
void complete_none(struct qp *qp)
{
	for (; qp->done < qp->posted; qp->done++)
		finish(qp->sq[qp->done], SIM_VANISHED);
	for (; qp->rdone < qp->rposted; qp->rdone++) {
		qp->rq[qp->rdone]->done = true;
		recv_release(qp->rq[qp->rdone]);
	}
}

/** Check a completion that was polled. */
void complete(struct cq *cq, const struct nic_wc *wc)
{
	struct sim *sim = cq->node->sim;
	uint64_t id = wc->wr_id ^ SEND_ID;

	sim->stats.completions++;
	sim_hash(sim, &sim->now_ns, 8);
	sim_hash(sim, &wc->wr_id, 8);
	sim_hash(sim, &wc->status, 4);
	sim_log(sim, "    completion QP %06x %s %llu status %u", wc->qp_num, id < sim->wr_count ? "WR" : "recv",
		(unsigned long long)(wc->wr_id & 0xffffffff), wc->status);
	if (id < sim->wr_count)
		complete_send(cq, wc, sim->wrs[id]);
	else
		deliver_cq(cq, wc);
	if (!sim->failed)
		triggers_completed(cq->node, wc->qp_num, wc->status == NIC_WC_SUCCESS);
}
