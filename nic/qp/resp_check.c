/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_check.c - checks requests to RC, UC and XRC QPs (IBTA 9.7.4, 9.8.2), without changing any state.
 *
 * Order of checks, where several apply: opcode sequence, operation enabled, lengths, receive WQE, R_Key, alignment,
 * resources, R_Key to invalidate (AT-01: the R_Key comes before the alignment, as in rxe).
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
#include "resp_place.h"
#include "wire.h"

#define FLUSHES (1u << 7) /* never set in qp_access_flags, so is_enabled() returns false and check_flush() decides */

/* The right that a request needs. */
static uint32_t access_of(const struct opcode *op)
{
	static const uint8_t access[OP_KINDS] = {
		[OP_WRITE] = NIC_ACCESS_REMOTE_WRITE,
		[OP_READ_REQ] = NIC_ACCESS_REMOTE_READ,
		[OP_CMP_SWAP] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_FETCH_ADD] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_MASKED_CMP_SWAP] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_MASKED_FETCH_ADD] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_ELEMENTS] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_FETCH_ELEMENTS] = NIC_ACCESS_REMOTE_ATOMIC,
		[OP_FLUSH] = FLUSHES,
		[OP_ATOMIC_WRITE] = NIC_ACCESS_REMOTE_WRITE,
	};

	return access[op->kind];
}

/* Whether the payload has a valid length. A FIRST or MIDDLE packet must carry PMTU bytes. If it refers to its payload,
 * the payload must be PMTU bytes for each PSN that the packet stands for. */
static bool payload_fits(const struct nic_qp *qp, const struct packet *p)
{
	uint32_t len = p->payload_len;

	if (__builtin_expect(p->reference != NULL, 0)) {
		if (!refer_fits(qp, p))
			return false;
	} else if (len > qp->pmtu) {
		return false;
	}
	if (p->op->pos == OP_ONLY)
		return true;
	return p->op->pos == OP_LAST ? len > 0 : len == refer_psns(qp, p) * qp->pmtu;
}

static enum error_id check_lengths(const struct nic_qp *qp, const struct packet *p)
{
	const struct opcode *op = p->op;

	if (op->payload && !payload_fits(qp, p))
		return ERR_packet_length;
	if ((op_is_masked(op) && !extended_fits(p)) || (op_is_elements(op) && !resp_elements_fit(qp, p)))
		return ERR_atomic_size;
	if (op_has(op, HDR_RETH) && p->dma_len > NIC_MSG_MAX && op->kind != OP_FLUSH)
		return ERR_dma_length;
	if (op->kind == OP_WRITE) {
		uint32_t left = op_starts(op) ? p->dma_len : qp->resp.left;

		if (op_ends(op) ? left != p->payload_len : left <= p->payload_len)
			return ERR_dma_length;
		return ERR_none;
	}
	if (op->kind == OP_ATOMIC_WRITE &&
	    (p->dma_len != NIC_ATOMIC_WRITE_SIZE || p->payload_len != NIC_ATOMIC_WRITE_SIZE))
		return ERR_dma_length;
	return ERR_none;
}

/* Check the R_Key, its rights and the range of a WRITE or READ. The first packet is checked for the whole range of the
 * message, every later packet for the rest of the range (RL-09, RL-10). */
static enum error_id check_range(const struct nic_qp *qp, const struct packet *p, uint32_t access, uint8_t **app)
{
	bool starts = op_starts(p->op);
	uint64_t va = starts ? p->va : qp->resp.va;
	uint32_t rkey = starts ? p->rkey : qp->resp.rkey, len = starts ? p->dma_len : qp->resp.left;

	if (!len)
		return ERR_none; /* C9-88: zero length, R_Key not validated */
	if (mem_check_remote(qp->nic, qp->pd, qp->qpn, rkey, va, len, access, app) != MEM_OK)
		return ERR_remote_key;
	return ERR_none;
}

/* As check_range(), for atomics, ATOMIC WRITEs and operations on elements; also check the alignment. */
static enum error_id check_operand(const struct nic_qp *qp, const struct packet *p, uint32_t access, uint8_t **app)
{
	bool elements = op_is_elements(p->op);
	uint32_t len = elements ? resp_elements_size(p) : resp_atomic_size(p);
	uint32_t align = elements ? nic_elem_align(elem_type_of_wire(p->element.datatype)) : len;

	if (mem_check_remote(qp->nic, qp->pd, qp->qpn, p->rkey, p->va, len, access, app) != MEM_OK)
		return ERR_remote_key;
	/* For elements, only the local address `app` must be aligned: `va` may be an offset in the region. */
	if (((elements ? 0 : p->va) | (uintptr_t)*app) & (align - 1))
		return ERR_misaligned;
	return ERR_none;
}

static bool have_receive(const struct nic_qp *qp, const struct packet *p)
{
	if (qp->owner)
		return p->reference || qp->owner->takes(qp, p); /* a reference is refused in execute_send() */
	return qp->resp.have_wqe || rq_peek(qp->srq ? &qp->srq->rq : &qp->rq);
}

/* Whether the QP executes requests with this opcode at all (RO-03, RO-04). A QP with an owner (endpoints, tag
 * matching) accepts neither immediate data nor R_Keys to invalidate. */
static bool is_enabled(const struct nic_qp *qp, const struct opcode *op, uint32_t access)
{
	if ((access & qp->attr.qp_access_flags) != access)
		return false;
	if ((needs_resource(op) && !qp->attr.max_dest_rd_atomic) || (op_is_elements(op) && !qp->sq.max_fetch))
		return false;
	return !qp->owner || op->extra == OP_PLAIN;
}

/** Whether the ring has a resource for a new request (RO-05): the oldest resource must have no response left to send,
 * except to a duplicate. The new request then drops that response. */
static inline bool has_resource(const struct responder *resp)
{
	const struct resp_resource *oldest = &resp->res[resp->res_head & (resp->res_size - 1)];

	return !oldest->todo || oldest->duplicate;
}

static unsigned check_flush(const struct nic_qp *qp, const struct packet *p)
{
	enum error_id error = resp_flush_check(qp, p);

	if (error == ERR_none && !has_resource(&qp->resp))
		error = ERR_resources;
	return error;
}

unsigned resp_check(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	const struct responder *resp = &qp->resp;
	const struct opcode *op = p->op;
	uint32_t access = access_of(op);
	enum error_id error;

	if (!op_may_follow(resp->open, op))
		return ERR_opcode_sequence;
	if (!is_enabled(qp, op, access))
		return op->kind == OP_FLUSH ? check_flush(qp, p) : ERR_opcode_unsupported;
	error = check_lengths(qp, p);
	if (error != ERR_none)
		return error;
	if ((op->traits & OP_NEEDS_RECV) && !have_receive(qp, p))
		return CHECK_RNR;
	if (access) {
		error = op->traits & (OP_IS_ATOMIC | OP_IS_ELEMENTS | OP_IS_PLACED) ? check_operand(qp, p, access, app)
										    : check_range(qp, p, access, app);
		if (error != ERR_none)
			return error;
	}
	if (needs_resource(op) && !has_resource(resp))
		return ERR_resources;
	if (op->extra == OP_INV && !mw_invalidate_check(qp, p->inv_rkey))
		return ERR_invalidate_remote;
	return ERR_none;
}

bool resp_would_take(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	return !qp->resp.open && resp_check(qp, p, app) == ERR_none;
}
