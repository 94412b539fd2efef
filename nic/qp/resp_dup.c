/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_dup.c - duplicate requests (IBTA 9.7.5.1.4, C9-105, C9-110, C9-148), answered from the resource ring.
 *
 * SENDs, WRITEs and element operations without a result are acknowledged again, not executed. A READ is executed
 * again, from its resource: the duplicate may ask for only a part of the READ. An atomic is answered with the saved
 * value, a FLUSH or ATOMIC WRITE without data. A duplicate that is invalid or matches no resource is dropped without a
 * NAK: it is stale or forged.
 */
#include "mtu.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "resp_ack.h"
#include "resp_dup.h"
#include "resp_tx.h"

static struct resp_resource *find(struct nic_qp *qp, uint32_t psn)
{
	struct responder *resp = &qp->resp;

	/* Newest first: PSNs wrap, so an old resource may cover the same PSNs as a new one. */
	for (uint32_t i = 1; i <= resp->res_size; i++) {
		struct resp_resource *r = &resp->res[(resp->res_head - i) & (resp->res_size - 1)];
		int32_t offset = psn_diff(psn, r->psn);

		if (r->used && offset >= 0 && (uint32_t)offset < r->packets)
			return r;
	}
	return NULL;
}

static bool read_matches(const struct nic_qp *qp, const struct resp_resource *r, const struct packet *p, uint32_t skip)
{
	uint32_t offset = skip * qp->pmtu;

	if (r->atomic || p->dma_len > r->length - offset)
		return false;
	return !p->dma_len || (p->rkey == r->rkey && p->va == r->va + offset);
}

static bool answer_read(struct nic_qp *qp, struct resp_resource *r, const struct packet *p)
{
	uint32_t skip = (uint32_t)psn_diff(p->psn, r->psn);
	uint32_t end = skip + packets_of(p->dma_len, qp->pmtu);
	uint32_t stop = skip * qp->pmtu + p->dma_len;

	if (!read_matches(qp, r, p, skip))
		return false;
	if (r->todo && r->cursor <= skip && r->stop >= stop)
		return true;		 /* all that the duplicate asks for is still queued */
	if (r->todo && r->stop > stop) { /* the response in progress goes further: repeat up to its end */
		end = r->end;
		stop = r->stop;
	}
	r->duplicate = true;
	r->stop = stop;
	resp_resource_send(qp, r, skip, end);
	return true;
}

/* Atomics, FLUSHes and ATOMIC WRITEs are answered again, not executed again. */
static bool answer_again(struct nic_qp *qp, struct resp_resource *r, const struct packet *p)
{
	bool placed = p->op->traits & OP_IS_PLACED;

	if (r->atomic == placed || (placed && r->length) || p->psn != r->psn || p->va != r->va || p->rkey != r->rkey)
		return false; /* not a duplicate of r; operands are not kept, so they cannot be compared */
	if (!r->todo) {
		r->duplicate = true;
		resp_resource_send(qp, r, 0, 1);
	}
	return true;
}

void resp_duplicate(struct nic_qp *qp, const struct packet *p)
{
	struct resp_resource *r;
	bool answered;

	COUNT(qp->nic, duplicate_request);
	qp->counters.duplicates_rx++;
	trace_add(qp->nic, qp->qpn, NIC_TR_duplicate, p->psn, p->op->value);
	if (p->op->kind == OP_SEND || p->op->kind == OP_WRITE || p->op->kind == OP_ELEMENTS) {
		resp_ack(qp);
		return;
	}
	r = find(qp, p->psn);
	answered = r && (p->op->kind == OP_READ_REQ ? answer_read(qp, r, p) : answer_again(qp, r, p));
	if (!answered) {
		COUNT(qp->nic, duplicate_dropped);
		trace_add(qp->nic, qp->qpn, NIC_TR_drop, p->psn, NIC_CNT_duplicate_dropped);
	}
}
