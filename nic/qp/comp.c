/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comp.c - the completer: takes responses of an RC or XRC responder, completes send WQEs in order (IBTA 9.7.5.1,
 * 9.7.5.2, 9.7.6, 10.7.3). Owns the tail of the send queue and qp->comp, but req.c and ud.c set comp.una of UC and UD
 * QPs. Calls the requester only through req_*.
 *
 * comp.una is the oldest PSN without an answer. A response for PSN p acknowledges every SEND and WRITE before p, but
 * no READ or atomic: if an unanswered READ or atomic precedes p, its response was lost (implied NAK).
 */
#include "aeth.h"
#include "atomic.h"
#include "comp.h"
#include "cq.h"
#include "cross.h"
#include "elem.h"
#include "extended.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_state.h"
#include "refer.h"
#include "req.h"
#include "wr.h"

void comp_reset(struct nic_qp *qp)
{
	qp->comp = (struct completer){.una = qp->attr.sq_psn};
}

/* ---- completing -------------------------------------------------------------------------------------- */

/* Remove the oldest WQE from the send queue. It gets a completion if it failed or is signaled (10.7.3.1). */
static void retire(struct nic_qp *qp, enum error_id error)
{
	const struct swqe *w = sq_at(qp, qp->sq.tail);
	struct nic *nic = qp->nic;

	if (error != ERR_none || (w->flags & NIC_SEND_SIGNALED)) {
		struct nic_wc wc = {
			.wr_id = w->wr_id,
			.status = error_rows[error].status,
			.opcode = wr_rows[w->opcode].wc_opcode,
			.vendor_err = error,
			.byte_len = w->length,
			.qp_num = qp->qpn,
		};

		cq_push(qp->send_cq, &wc, false);
	}
	if (error == ERR_flushed)
		COUNT(nic, req_cqe_flush_error);
	else if (error != ERR_none)
		COUNT(nic, req_cqe_error);
	qp->sq.tail++;
	if ((int32_t)(qp->sq.next - qp->sq.tail) < 0)
		qp->sq.next = qp->sq.tail;
}

void comp_finish(struct nic_qp *qp, enum error_id error)
{
	if (error != ERR_none) {
		refer_revoke_qp(qp, false); /* before the completion returns the buffers to the application */
		cross_release(qp);
	}
	retire(qp, error);
	if (error != ERR_none)
		qp_send_error(qp);
}

void comp_finish_local(struct nic_qp *qp)
{
	/* Search up to the head, not only to `next`: a retry may have moved `next` back to before a local operation
	 * that has already run.
	 */
	while (qp->sq.tail != qp->sq.head) {
		const struct swqe *w = sq_at(qp, qp->sq.tail);

		if (!w->started || w->packets)
			break;
		retire(qp, ERR_none);
	}
	if (qp->held)
		req_settle(qp);
}

void comp_flush(struct nic_qp *qp)
{
	cross_release(qp);
	while (qp->sq.tail != qp->sq.head)
		retire(qp, ERR_flushed);
}

/* ---- responses --------------------------------------------------------------------------------------- */

/** Whether the peer answers this kind of request with a READ response: READ, FLUSH, ATOMIC WRITE. */
static bool is_read(const struct swqe *w)
{
	return w->form == FORM_READ || w->form >= FORM_FLUSH;
}

/** Bytes that the READ response to a request carries: none for FLUSH and ATOMIC WRITE. */
static uint32_t read_length(const struct swqe *w)
{
	return w->form == FORM_READ ? w->length : 0;
}

/*
 * Everything before `end` has been executed: complete the SENDs and WRITEs up to there.
 * @return false if an unanswered READ or atomic precedes `end`, or if the QP is now in error.
 */
static bool acknowledge(struct nic_qp *qp, uint32_t end)
{
	struct completer *comp = &qp->comp;
	uint32_t from = comp->una, coalesced = 0;
	bool clear = true;

	while (psn_diff(end, comp->una) > 0) {
		const struct swqe *w = sq_at(qp, qp->sq.tail);
		uint32_t w_end = psn_add(w->psn, w->packets);

		if (w->form >= FORM_READ) {
			clear = false;
			break;
		}
		if (psn_diff(w_end, end) > 0) {
			comp->una = end;
			break;
		}
		comp->una = w_end;
		coalesced += w->coalesced;
		comp_finish(qp, ERR_none);
		comp_finish_local(qp);
		if (qp->state == NIC_QPS_ERR)
			return false;
	}
	if (comp->una != from)
		req_progress(qp, (uint32_t)psn_diff(comp->una, from) - coalesced);
	return clear;
}

static void implied_nak(struct nic_qp *qp)
{
	if (qp->state == NIC_QPS_ERR)
		return;
	if (qp->req.retrying) {
		COUNT(qp->nic, resp_unexpected);
		return; /* the retransmission is already in progress */
	}
	COUNT(qp->nic, implied_nak_seq_err);
	req_go_back(qp, ERR_sequence);
}

/* The responses for `psns` more PSNs of the oldest WQE, a READ or an atomic, have arrived. */
static void answered(struct nic_qp *qp, uint32_t psns, bool request_done)
{
	struct swqe *w = sq_at(qp, qp->sq.tail);

	qp->comp.una = psn_add(qp->comp.una, psns);
	if (request_done)
		req_rd_done(qp);
	if (qp->comp.una == psn_add(w->psn, w->packets)) {
		comp_finish(qp, ERR_none);
		comp_finish_local(qp);
	}
	if (qp->state != NIC_QPS_ERR)
		req_progress(qp, psns);
}

/* The payload that the response refers to could not be fetched: treat the response as lost. */
static void response_not_come(struct nic_qp *qp)
{
	COUNT(qp->nic, rx_unread);
	qp->counters.dropped_rx++;
	if (!qp->req.retrying || !qp->req.forgiven)
		req_unread(qp);
}

/* Whether the response is valid if it stands for `psns` response packets of the READ, from packet number k on. */
static bool response_fits(const struct nic_qp *qp, const struct swqe *w, const struct packet *p, uint32_t k,
			  uint32_t psns)
{
	bool last = k + psns == w->packets, piece_end = last || (k + psns) % w->piece == 0;

	if (!refer_fits(qp, p) || k + psns > w->packets || k % w->piece + psns > w->piece)
		return false;
	return p->payload_len == (last ? read_length(w) - k * qp->pmtu : psns * qp->pmtu) &&
	       op_ends(p->op) == piece_end && (op_starts(p->op) || qp->comp.read_open) &&
	       !(op_has(p->op, HDR_AETH) && p->syndrome >= AETH_RNR);
}

uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead)
{
	uint32_t index = qp->sq.tail + ahead;
	const struct swqe *w = sq_at(qp, index);
	uint8_t *app;

	if ((int32_t)(qp->sq.head - index) <= 0 || !w->started || w->form != FORM_READ || w->psn != p->psn ||
	    w->num_sge != 1 || refer_psns(qp, p) != w->packets || !response_fits(qp, w, p, 0, w->packets))
		return NULL;
	return mem_check_local(qp->nic, qp->pd, w->sge->lkey, w->sge->addr, w->sge->length, NIC_ACCESS_LOCAL_WRITE,
			       &app) == MEM_OK
		       ? app
		       : NULL;
}

static void read_response(struct nic_qp *qp, const struct packet *p)
{
	const struct swqe *w = sq_at(qp, qp->sq.tail);
	uint32_t k = (uint32_t)psn_diff(p->psn, w->psn), psns = refer_psns(qp, p);
	uint64_t offset = (uint64_t)k * qp->pmtu;
	enum mem_verdict v;

	if (!is_read(w) || !response_fits(qp, w, p, k, psns)) {
		comp_finish(qp, ERR_bad_response);
		return;
	}
	v = p->reference ? refer_scatter(qp->nic, qp->pd, w->sge, w->num_sge, offset, p->reference)
			 : mem_scatter(qp->nic, qp->pd, w->sge, w->num_sge, offset, p->payload, p->payload_len);
	if (v == MEM_UNREAD) {
		response_not_come(qp);
		return;
	}
	if (v != MEM_OK) {
		comp_finish(qp, ERR_response_key);
		return;
	}
	qp->comp.read_open = !op_ends(p->op);
	answered(qp, psns, op_ends(p->op));
}

/* Take the original value from the response to an atomic. @return false: the response does not fit the request. */
static bool atomic_result(const struct swqe *w, const struct packet *p, uint64_t *orig)
{
	uint8_t wire[NIC_ATOMIC_SIZE_MAX];

	if ((w->form != FORM_ATOMIC && w->form != FORM_MASKED) || p->syndrome >= AETH_RNR)
		return false;
	if (p->op->kind == OP_ATOMIC_ACK) {
		*orig = p->orig;
		return w->length == 8;
	}
	if (w->length == 8 || p->payload_len != w->length)
		return false;
	memcpy(wire, p->payload, w->length);
	extended_get_words(wire, orig, w->length);
	return true;
}

static void atomic_response(struct nic_qp *qp, const struct packet *p)
{
	const struct swqe *w = sq_at(qp, qp->sq.tail);
	uint64_t orig[NIC_ATOMIC_WORDS];
	uint8_t network[NIC_ATOMIC_SIZE_MAX];
	const void *result;

	if (!atomic_result(w, p, orig)) {
		comp_finish(qp, ERR_bad_response);
		return;
	}
	if (qp->be_replies & w->length) {
		extended_put_words(network, orig, w->length);
		result = network;
	} else {
		result = atomic_in_memory(orig, w->length);
	}
	if (mem_scatter(qp->nic, qp->pd, w->sge, w->num_sge, 0, result, w->length) != MEM_OK)
		comp_finish(qp, ERR_response_key);
	else
		answered(qp, 1, true);
}

static void elements_response(struct nic_qp *qp, const struct packet *p)
{
	const struct swqe *w = sq_at(qp, qp->sq.tail);
	uint8_t *result = qp->nic->scratch;

	if (w->form != FORM_FETCH || p->syndrome >= AETH_RNR || p->payload_len != w->length) {
		comp_finish(qp, ERR_bad_response);
		return;
	}
	elem_from_wire(w->element.datatype, result, p->payload, w->element.count);
	if (mem_scatter(qp->nic, qp->pd, w->sge, w->num_sge, 0, result, w->length) != MEM_OK)
		comp_finish(qp, ERR_response_key);
	else
		answered(qp, 1, true);
}

/** The error that a NAK with this syndrome reports, or ERR_none if the NAK is not fatal. */
static enum error_id nak_error(uint8_t syndrome)
{
	switch (syndrome) {
	case AETH_NAK_INVALID:
		return ERR_nak_invalid;
	case AETH_NAK_ACCESS:
		return ERR_nak_access;
	case AETH_NAK_OPERATION:
		return ERR_nak_operation;
	default:
		return ERR_none;
	}
}

/* Handle a NAK or RNR NAK for PSN p: it acknowledges everything before p and refuses p itself. */
static void nak(struct nic_qp *qp, const struct packet *p)
{
	trace_add(qp->nic, qp->qpn, NIC_TR_nak_rx, p->psn, p->syndrome);
	if (!acknowledge(qp, p->psn)) {
		/* A READ or atomic before p is unanswered. If a READ's response could not be fetched, the READ must
		 * fail now with the NAK's error: resending it is useless once the responder has failed. */
		if (qp->state != NIC_QPS_ERR && qp->req.forgiven && nak_error(p->syndrome) != ERR_none)
			comp_finish(qp, nak_error(p->syndrome));
		else
			implied_nak(qp);
		return;
	}
	/* During the RNR wait ignore another copy of the RNR NAK, and the sequence NAK that rxe sends after an RNR NAK.
	 */
	if (qp->req.rnr_until != TIME_NEVER && p->syndrome <= AETH_NAK_SEQUENCE) {
		COUNT(qp->nic, nak_rnr_wait);
		return;
	}
	if ((p->syndrome & AETH_CLASS) == AETH_RNR) {
		COUNT(qp->nic, rnr_nak_retry);
		qp->counters.rnr_naks_rx++;
		req_rnr(qp, p->syndrome & 31);
		return;
	}
	if (p->syndrome != AETH_NAK_SEQUENCE) {
		comp_finish(qp, nak_error(p->syndrome));
		return;
	}
	COUNT(qp->nic, packet_seq_err);
	qp->counters.seq_naks_rx++;
	if (!qp->req.retrying)
		req_go_back(qp, ERR_sequence);
}

static bool syndrome_known(uint8_t s)
{
	return s < 0x40 || (s >= AETH_NAK_SEQUENCE && s <= AETH_NAK_OPERATION);
}

bool comp_rx(struct nic_qp *qp, const struct packet *p)
{
	struct nic *nic = qp->nic;
	bool ack = p->op->kind == OP_ACK, plain = ack && p->syndrome < AETH_RNR;
	/* A plain ACK carries the last PSN executed; every other response carries the PSN that it answers. */
	uint32_t about = psn_add(p->psn, plain);

	if (psn_diff(p->psn, qp->req.sent_psn) >= 0) {
		COUNT(nic, resp_unsent);
		return false;
	}
	if (psn_diff(about, qp->comp.una) < plain) {
		COUNT(nic, resp_ghost);
		return false;
	}
	if (ack && !plain && !syndrome_known(p->syndrome)) {
		COUNT(nic, resp_reserved);
		return false;
	}
	if (ack && !plain)
		nak(qp, p);
	else if (!acknowledge(qp, about))
		implied_nak(qp);
	else if (ack)
		return true;
	else if (p->op->kind == OP_READ_RESP)
		read_response(qp, p);
	else if (p->op->kind == OP_ELEMENTS_ACK)
		elements_response(qp, p);
	else
		atomic_response(qp, p);
	return true;
}
