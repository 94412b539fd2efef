/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_tx.c - what the responder sends: responses to READs and atomics from the resource ring, in PSN order, then the
 * one ACK or NAK that is queued (IBTA 9.7.5.1). A READ's memory is not accessed before a response packet is built, and
 * is checked again for each packet.
 */
#include "aeth.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_owner.h"
#include "qp_packet.h"
#include "refer.h"
#include "resp.h"
#include "resp_ack.h"
#include "resp_atomic.h"
#include "resp_elem.h"
#include "resp_tx.h"
#include "xrc.h"
#include "xrc_target.h"

void resp_resource_send(struct nic_qp *qp, struct resp_resource *r, uint32_t cursor, uint32_t end)
{
	struct responder *resp = &qp->resp;
	uint32_t mask = resp->res_size - 1, slot = (uint32_t)(r - resp->res);
	uint32_t index = resp->res_head - 1 - ((resp->res_head - 1 - slot) & mask); /* free-running index of r */

	if (!r->todo)
		resp->res_todo++;
	r->todo = true;
	r->cursor = r->base = cursor;
	r->end = end;
	/* Responses go out in PSN order, whatever order they were requested in (RP-06). */
	if ((int32_t)(index - resp->res_next) < 0 || resp->res_todo == 1)
		resp->res_next = index;
	qp_ready(qp);
}

void resp_say_last(struct nic_qp *qp)
{
	if (qp->state == NIC_QPS_ERR || !(qp->resp.res_todo || qp->resp.ack_queued))
		return;
	qp->resp.dying = true; /* keeps qp_enter_error() from cancelling the responses */
	if (qp->resp.ack_queued && !qp->resp.ack_due)
		resp_ack_due(qp);
}

/* Open a READ response and write its payload or, if it takes more than one PSN, the reference to its payload. The
 * peer's rights are checked for each response. */
static enum error_id read_payload(struct nic_qp *qp, const struct resp_resource *r, uint32_t psns, struct packet *p,
				  struct nic_tx_frame *frame)
{
	uint32_t offset = r->cursor * qp->pmtu, room = psns * qp->pmtu;
	uint32_t len = r->stop - offset < room ? r->stop - offset : room;
	uint8_t *payload = psns == 1 ? qp_open(p, frame, len) : NULL, *app;
	const struct nic_pd *pd = qp->xrcd ? xrc_pd(qp, r->srqn) : qp->pd;

	if (!len)
		return ERR_none;
	if (!pd || mem_check_remote(qp->nic, pd, qp->qpn, r->rkey, r->va + offset, len, NIC_ACCESS_REMOTE_READ, &app) !=
			   MEM_OK)
		return ERR_remote_key;
	if (psns > 1) {
		refer_response(qp, r->rkey, app, len, p, frame);
		return ERR_none;
	}
	return mem_read(qp->nic, payload, app, len, packet_icrc(p)) ? ERR_none : ERR_remote_fault;
}

static enum op_pos response_pos(const struct resp_resource *r, uint32_t psns)
{
	bool first = r->cursor == r->base, last = r->cursor + psns == r->end;

	if (first)
		return last ? OP_ONLY : OP_FIRST;
	return last ? OP_LAST : OP_MIDDLE;
}

/* The memory went away while a READ's responses were being sent: a NAK replaces this response and all later ones. */
static void fail_read(struct nic_qp *qp, enum error_id error, uint32_t psn)
{
	resp_cancel(qp);
	if (qp->state != NIC_QPS_ERR)
		resp_fail(qp, error, psn);
	else /* in error already, by a later request or rdm_qp_drop(): send only the NAK of this request */
		resp_nak(qp, error_rows[error].syndrome, psn);
}

/* Not inlined: ACKs then need a smaller stack frame. */
static __attribute__((noinline)) void count_nak(struct nic_qp *qp, uint8_t syndrome)
{
	struct nic *nic = qp->nic;

	if ((syndrome & AETH_CLASS) == AETH_RNR) {
		COUNT(nic, rcvd_rnr_sent);
		qp->counters.rnr_naks_tx++;
	} else if (syndrome == AETH_NAK_SEQUENCE) {
		COUNT(nic, seq_nak_sent);
		qp->counters.seq_naks_tx++;
	} else if (syndrome == AETH_NAK_INVALID) {
		COUNT(nic, nak_inv_req_sent);
	} else if (syndrome == AETH_NAK_ACCESS) {
		COUNT(nic, nak_access_sent);
	} else {
		COUNT(nic, nak_op_sent);
	}
}

/* Send an ACK, NAK or RNR NAK. */
static inline __attribute__((always_inline)) void tx_answer(struct nic_qp *qp, uint8_t syndrome, uint32_t psn,
							    struct nic_tx_frame *frame)
{
	struct packet p;

	qp_address(qp, &p, frame);
	p.syndrome = syndrome;
	p.msn = qp->resp.msn;
	p.op = __builtin_expect(qp->type == NIC_QPT_RC, 1) ? op_find(OP_RC, OP_ACK, OP_ONLY, OP_PLAIN)
							   : op_find(OP_XRC, OP_ACK, OP_ONLY, OP_PLAIN);
	p.psn = psn;
	if (syndrome == AETH_ACK)
		COUNT(qp->nic, acks_sent);
	else
		count_nak(qp, syndrome);
	qp_open(&p, frame, 0);
	qp_emit(qp, &p, frame);
}

/* The memory of a READ that was answered before has gone: drop the duplicate without an answer (RP-07). But send a NAK
 * if part of the READ was answered by reference: the requester may never have fetched that part, and would repeat the
 * READ for ever.
 * @return whether the frame contains a NAK. */
static __attribute__((noinline)) bool drop_duplicate(struct nic_qp *qp, const struct resp_resource *r,
						     enum error_id error, uint32_t psn, struct nic_tx_frame *frame)
{
	COUNT(qp->nic, duplicate_dropped);
	if (!r->referred)
		return false;
	trace_add(qp->nic, qp->qpn, NIC_TR_nak_tx, psn, error_rows[error].syndrome);
	tx_answer(qp, error_rows[error].syndrome, psn, frame); /* the NAK is sent before a queued ACK */
	return true;
}

static bool tx_resource(struct nic_qp *qp, struct resp_resource *r, struct nic_tx_frame *frame)
{
	struct responder *resp = &qp->resp;
	struct packet p;
	enum error_id error;
	uint32_t psns = 1;

	qp_address(qp, &p, frame);
	p.syndrome = AETH_ACK;
	p.msn = r->msn;
	p.psn = psn_add(r->psn, r->cursor);
	if (r->elements) {
		resp_elements_open(qp, r, &p, frame);
	} else if (r->atomic) {
		resp_atomic_open(qp, r, &p, frame);
	} else {
		psns = refer_response_psns(qp, r, frame);
		p.op = op_find(qp_service(qp), OP_READ_RESP, response_pos(r, psns), OP_PLAIN);
		error = read_payload(qp, r, psns, &p, frame);
		if (error != ERR_none) {
			resp_resource_done(resp, r);
			if (r->answered)
				return drop_duplicate(qp, r, error, p.psn, frame);
			fail_read(qp, error, p.psn);
			return false;
		}
	}
	r->referred |= psns > 1;
	r->cursor += psns;
	if (r->cursor == r->end) {
		resp_resource_done(resp, r);
		if (!r->atomic && !r->answered && r->cursor == r->packets) {
			r->answered = true;
			if (qp->owner)
				qp->owner->served(qp, r->rkey, true, false);
		}
	}
	resp->unacked = 0;
	qp_emit(qp, &p, frame);
	return true;
}

static void tx_ack(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	struct responder *resp = &qp->resp;

	resp->ack_queued = resp->ack_due = resp->ack_lazy = resp->dying = false;
	resp->unacked = 0;
	tx_answer(qp, resp->syndrome, resp->syndrome == AETH_ACK ? psn_add(resp->epsn, PSN_MASK) : resp->nak_psn,
		  frame);
}

/* Not inlined: see count_nak(). */
__attribute__((noinline)) bool resp_tx_resources(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	struct responder *resp = &qp->resp;

	while (resp->res_todo > resp->foreign) {
		struct resp_resource *r = &resp->res[resp->res_next & (resp->res_size - 1)];

		if (!r->todo)
			resp->res_next++;
		else if (tx_resource(qp, r, frame))
			return true;
	}
	if (!resp->foreign)
		return false;
	resp->unacked = 0;
	resp->foreign--;
	resp->res_todo--;
	qp->xrcd->sharing->respond(qp, frame);
	return true;
}

bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	struct responder *resp = &qp->resp;

	if (resp->res_todo && resp_tx_resources(qp, frame))
		return true;
	if (!resp->ack_queued || !resp->ack_due)
		return false;
	tx_ack(qp, frame);
	return true;
}
