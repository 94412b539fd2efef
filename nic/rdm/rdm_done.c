/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_done.c - handles completions of the work requests that rdm_tx.c has posted: it decides when an op has ended,
 * and reports the op. */
#include "rdm_done.h"

#include "rdm_conn.h"
#include "rdm_unexpected.h"
#include "rdm_ops.h"
#include "rdm_rq.h"
#include "rdm_tx.h"

static void tell(const struct rdm_op *op)
{
	struct nic_rdm_done done = {.context = op->context,
				    .cookie = op->cookie,
				    .kind = (enum nic_rdm_kind)op->kind,
				    .flags = op->flags & (NIC_RDM_TAGGED | NIC_RDM_INJECT | NIC_RDM_DATA),
				    .status = op->status,
				    .vendor_err = op->vendor_err,
				    .peer = op->peer,
				    .len = op->length,
				    .tag = op->tag,
				    .data = op->data};

	rdm_tell(op->peer->ep, &done);
}

static bool is_local_error(uint32_t status)
{
	return status == NIC_WC_LOC_PROT_ERR || status == NIC_WC_LOC_LEN_ERR || status == NIC_WC_LOC_QP_OP_ERR;
}

static void tell_got(struct rdm_op *op)
{
	op->told = true;
	/* op->status is the status of our own READ, which the application did not post. Report a local error unchanged,
	 * and any other error as a lost connection (NIC_RDM_PEER_LOST). */
	if (op->status)
		op->done.status = is_local_error(op->status) ? op->status : NIC_RDM_PEER_LOST;
	op->done.vendor_err = op->vendor_err;
	rdm_recv_done(op->peer->ep->rq, op->peer->ep, op->recv, &op->done);
}

void rdm_ops_leave(struct nic_rdm *ep)
{
	for (uint32_t i = 0; i < ep->n_ops; i++) {
		struct rdm_op *op = rdm_op_at(ep, i);

		if (!op->peer) /* the op is free */
			continue;
		if (op->work == RDM_W_GET && !op->told) {
			op->status = NIC_RDM_PEER_LOST;
			tell_got(op);
		}
		if (op->unexpected)
			rdm_unexpected_free(op->unexpected);
		op->unexpected = NULL;
	}
}

static void op_end(struct rdm_op *op)
{
	rdm_op_release(op); /* first: once the completion is reported, the application may reuse the buffer */
	if (op->work == RDM_W_GET && !op->told)
		tell_got(op);
	else if (!rdm_is_answer(op->work))
		tell(op);
	rdm_op_free(op);
}

void rdm_completed(struct nic_cq *cq, const struct nic_wc *wc, bool solicited)
{
	struct nic_rdm *ep = cq->sink_arg;
	struct rdm_op *op = rdm_op_of(wc->wr_id);
	bool data = !(wc->wr_id & RDM_TRAILER);

	(void)solicited;
	if (!op)
		return; /* the completion of a call datagram or of a probe */
	op->out--;
	op->data_out -= data;
	if (wc->status != NIC_WC_SUCCESS && !op->status) {
		op->status = wc->status;
		op->vendor_err = wc->vendor_err;
	}
	if (data && op->kind == NIC_RDM_READ && op->peer->reads_out)
		op->peer->reads_out--;
	if (list_empty(&op->due))
		list_append(&ep->due, &op->due);
	if (!list_empty(&op->peer->queue))
		rdm_wake(op->peer);
	rdm_note(ep);
}

static void wait_for_fin(struct rdm_op *op)
{
	list_append(&op->peer->waiting, &op->node);
	rdm_keep_alive(op->peer);
}

/** All READs of a long message have completed: complete the receive, and send FIN, after which the sender may reuse its
 *  buffer. If FIN were posted together with the READs, it would need a fence, and the fence would delay all later
 *  requests. */
static void got_all(struct rdm_op *op)
{
	tell_got(op);
	op->work = RDM_W_FIN;
	op->all_posted = op->begun = false;
	rdm_submit(op);
}

void rdm_op_settle(struct rdm_op *op)
{
	bool waits = op->work == RDM_W_OFFER || op->work == RDM_W_OPERATE ||
		     (op->work == RDM_W_SEND && op->flags & NIC_RDM_DELIVERY);

	if (op->out || !op->all_posted)
		return; /* this is called again for the remaining completions, or when the connection fails */
	if (op->work == RDM_W_GET && !op->status)
		got_all(op);
	else if (waits && !op->taken && !op->status)
		wait_for_fin(op);
	else
		op_end(op);
}

void rdm_op_answered(struct rdm_op *op)
{
	op->taken = true;
	if (op->all_posted && !op->out)
		op_end(op);
}

void rdm_fin(struct nic_rdm_peer *peer, uint32_t id)
{
	struct rdm_op *op = rdm_op_named(peer, id);

	if (op && (op->work == RDM_W_SEND || op->work == RDM_W_OFFER))
		rdm_op_answered(op);
	else
		COUNT(peer->ep->nic, rdm_stray_answers);
}

void rdm_fail(struct nic_rdm_peer *peer, uint32_t status, bool begun_only)
{
	struct list *lists[] = {&peer->waiting, &peer->queue};

	for (unsigned i = 0; i < 2; i++)
		for (struct list *n = lists[i]->next, *next; n != lists[i]; n = next) {
			struct rdm_op *op = list_entry(n, struct rdm_op, node);

			next = n->next;
			if (begun_only && !op->begun && !rdm_is_answer(op->work))
				continue;
			op->status = op->status ? op->status : status;
			op->all_posted = true;
			list_remove(&op->node);
			if (!op->out && list_empty(&op->due))
				list_append(&peer->ep->due, &op->due);
		}
	rdm_note(peer->ep);
}
