/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_check.c - what is wrong with a request to an RC or UC QP (IBTA 9.7.4, 9.8.2). Changes nothing.
 *
 * Order of checks, where several apply: opcode sequence, operation enabled, lengths, receive WQE, R_Key, alignment,
 * resources (AT-01: the key comes before the alignment, as in rxe).
 */
#include "elem.h"
#include "extended.h"
#include "mem.h"
#include "mw.h"
#include "opcode.h"
#include "packet.h"
#include "qp.h"
#include "qp_owner.h"
#include "refer.h"
#include "resp_atomic.h"
#include "resp_check.h"
#include "resp_elem.h"

static bool consumes_wqe(const struct opcode *op)
{
	return (op->kind == OP_SEND && op_starts(op)) || (op->kind == OP_WRITE && op->extra == OP_IMM);
}

static uint32_t access_of(const struct opcode *op)
{
	switch (op->kind) {
	case OP_WRITE:
		return NIC_ACCESS_REMOTE_WRITE;
	case OP_READ_REQ:
		return NIC_ACCESS_REMOTE_READ;
	case OP_CMP_SWAP:
	case OP_FETCH_ADD:
	case OP_MASKED_CMP_SWAP:
	case OP_MASKED_FETCH_ADD:
	case OP_ELEMENTS:
	case OP_FETCH_ELEMENTS:
		return NIC_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

static enum error_id check_lengths(const struct nic_qp *qp, const struct packet *p)
{
	uint32_t len = p->payload_len;

	if (p->op->payload) {
		/* A FIRST or MIDDLE must be full; with a reference, as long as the full packets that it stands for. */
		if ((p->op->pos & (OP_FIRST | OP_MIDDLE)) && len != refer_psns(qp, p) * qp->pmtu)
			return ERR_packet_length;
		if ((len > qp->pmtu && !p->reference) || !refer_fits(qp, p) || (p->op->pos == OP_LAST && !len))
			return ERR_packet_length;
	}
	if ((op_is_masked(p->op) && !extended_fits(p)) || (op_is_elements(p->op) && !resp_elements_fit(qp, p)))
		return ERR_atomic_size;
	if (op_has(p->op, HDR_RETH) && p->dma_len > NIC_MSG_MAX)
		return ERR_dma_length;
	if (p->op->kind == OP_WRITE) {
		uint32_t left = op_starts(p->op) ? p->dma_len : qp->resp.left;

		if (op_ends(p->op) ? left != len : left <= len)
			return ERR_dma_length;
	}
	return ERR_none;
}

/* Check R_Key, rights and range. The first packet is checked for the whole range of the message, every later packet for
 * the rest of the range (RL-09, RL-10). */
static enum error_id check_memory(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	bool starts = op_starts(p->op), elements = op_is_elements(p->op), atomic = op_is_atomic(p->op);
	uint64_t va = starts ? p->va : qp->resp.va;
	uint32_t rkey = starts ? p->rkey : qp->resp.rkey;
	uint32_t len = elements ? resp_elements_size(p)
		       : atomic ? resp_atomic_size(p)
		       : starts ? p->dma_len
				: qp->resp.left;
	uint32_t align = elements ? nic_elem_align(elem_type_of_wire(p->element.datatype)) : atomic ? len : 1;

	if (!len)
		return ERR_none; /* C9-88: zero length, R_Key not validated */
	if (mem_check_remote(qp->nic, qp->pd, qp->qpn, rkey, va, len, access_of(p->op), app) != MEM_OK)
		return ERR_remote_key;
	/* For elements only `app` counts: `va` may be an offset, whose alignment means nothing. */
	if (((elements ? 0 : va) | (uintptr_t)*app) & (align - 1))
		return ERR_misaligned;
	return ERR_none;
}

static bool have_receive(const struct nic_qp *qp, const struct packet *p)
{
	if (qp->owner)
		return p->reference || qp->owner->takes(qp, p); /* a reference is refused in execute_send() */
	return qp->resp.have_wqe || rq_peek(qp->srq ? &qp->srq->rq : &qp->rq);
}

unsigned resp_check(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	const struct responder *resp = &qp->resp;
	const struct opcode *op = p->op;
	enum error_id error;

	if (!op_may_follow(resp->open, op))
		return ERR_opcode_sequence;
	if ((access_of(op) & qp->attr.qp_access_flags) != access_of(op) || op->kind == OP_FLUSH ||
	    op->kind == OP_ATOMIC_WRITE)
		return ERR_opcode_unsupported; /* RO-03 */
	if ((needs_resource(op) && !qp->attr.max_dest_rd_atomic) || (op_is_elements(op) && !qp->sq.max_fetch))
		return ERR_opcode_unsupported; /* RO-04 */
	if (qp->owner && op->extra != OP_PLAIN)
		return ERR_opcode_unsupported;
	error = check_lengths(qp, p);
	if (error != ERR_none)
		return error;
	if (consumes_wqe(op) && !have_receive(qp, p))
		return CHECK_RNR;
	if (access_of(op)) {
		error = check_memory(qp, p, app);
		if (error != ERR_none)
			return error;
	}
	if (needs_resource(op)) {
		const struct resp_resource *oldest = &resp->res[resp->res_head & (resp->res_size - 1)];

		if (oldest->todo && !oldest->duplicate)
			return ERR_resources; /* RO-05: only a response to a duplicate may be dropped to make room */
	}
	if (op->extra == OP_INV && !mw_invalidate_check(qp, p->inv_rkey))
		return ERR_invalidate_remote;
	return ERR_none;
}

bool resp_would_take(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	return !qp->resp.open && resp_check(qp, p, app) == ERR_none;
}
