/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp.c - the responder for RC, UC and XRC: executes requests, queues responses (IBTA 9.7.4, 9.7.5, 9.8.2, 9.9.3).
 * resp_check.c checks requests, resp_dup.c answers duplicates from saved results, resp_tx.c sends.
 *
 * Check, then act. resp_check() checks a request in PSN order and changes nothing. After that, execute() fails only if
 * local memory is gone or too short, memory for a result is lacking, a payload by reference cannot be fetched, or the
 * QP's owner refuses the message. Requests are executed at once, in PSN order. resp_tx() sends the responses in PSN
 * order: first READ and atomic responses from the resource ring, then one ACK or NAK, which covers everything before
 * it.
 */
#include "aeth.h"
#include "cq.h"
#include "mem.h"
#include "mtu.h"
#include "mw.h"
#include "nic_elem.h"
#include "opcode.h"
#include "packet.h"
#include "pinned.h"
#include "psn.h"
#include "qp.h"
#include "qp_owner.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "refer.h"
#include "resp.h"
#include "resp_ack.h"
#include "resp_atomic.h"
#include "resp_check.h"
#include "resp_dup.h"
#include "resp_elem.h"
#include "resp_place.h"
#include "resp_quick.h"
#include "resp_tx.h"
#include "xrc.h"
#include "xrc_target.h"

void resp_reset(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;

	list_remove(&resp->ack_node);
	resp->epsn = qp->attr.rq_psn;
	resp->msn = 0;
	resp->open = NULL;
	resp->nak_sent = resp->heard = resp->dying = false;
	resp->va = resp->received = 0;
	resp->rkey = resp->left = resp->srqn = 0;
	resp->have_wqe = false;
	resp->ack_queued = resp->ack_due = resp->ack_lazy = false;
	resp->unacked = 0;
	resp->res_head = resp->res_next = resp->res_todo = resp->foreign = 0;
	if (resp->res)
		memset(resp->res, 0, resp->res_size * sizeof(*resp->res));
}

void resp_cancel(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;

	for (uint32_t i = 0; resp->res_todo && i < resp->res_size; i++)
		resp->res[i].todo = false;
	resp->res_todo = resp->foreign = 0;
	resp->ack_queued = resp->ack_due = resp->ack_lazy = false;
	list_remove(&resp->ack_node);
}

/* ---- errors ------------------------------------------------------------------------------------------- */

void resp_fail(struct nic_qp *qp, enum error_id error, uint32_t psn)
{
	const struct error_row *row = &error_rows[error];
	struct responder *resp = &qp->resp;

	if (row->syndrome) {
		resp_nak(qp, row->syndrome, psn);
	} else if (resp->ack_queued) { /* no NAK: acknowledge what came before, at once */
		resp->syndrome = AETH_ACK;
		resp_ack_due(qp);
	}
	resp->dying = true;
	/* A READ whose memory has gone fails only when its response is sent. The receive WQE in use may then belong to
	 * a later message: do not complete that WQE with this error. */
	if (resp->have_wqe && psn == resp->epsn) {
		struct nic_wc wc = {.status = row->status, .vendor_err = error};

		qp_complete_recv(qp, &wc, false);
	} else if (row->event != NO_EVENT) {
		event_raise(qp->nic, &qp->events, (enum nic_event_type)row->event);
	}
	qp_enter_error(qp);
}

/* ---- executing --------------------------------------------------------------------------------------- */

static unsigned executed(enum mem_verdict v, enum error_id error)
{
	return v == MEM_OK ? ERR_none : v == MEM_UNREAD ? CHECK_UNREAD : error;
}

/* If the payload cannot be fetched, the receive WQE already taken stays in use until the peer sends the payload again.
 */
static inline __attribute__((always_inline)) unsigned execute_send(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	enum mem_verdict v;

	/* An owner parses its messages, so their payload must be in the packet: a packet with a reference counts as
	 * lost. */
	if (qp->owner)
		return p->reference ? CHECK_UNREAD : qp->owner->arrive(qp, p);
	if (op_starts(p->op)) {
		if (!resp->have_wqe)
			qp_take_wqe(qp);
		resp->received = 0;
	}
	if (resp->received + p->payload_len > resp->wqe->length)
		return ERR_receive_length;
	if (p->reference)
		v = refer_scatter(qp->nic, qp_recv_pd(qp), resp->wqe->sge, resp->wqe->num_sge, resp->received,
				  p->reference);
	else
		v = mem_scatter(qp->nic, qp_recv_pd(qp), resp->wqe->sge, resp->wqe->num_sge, resp->received, p->payload,
				p->payload_len);
	if (v != MEM_OK)
		return executed(v, ERR_receive_key);
	resp->received += p->payload_len;
	return ERR_none;
}

static inline __attribute__((always_inline)) unsigned execute_write(struct nic_qp *qp, const struct packet *p,
								    uint8_t *app)
{
	struct responder *resp = &qp->resp;

	if (p->reference) {
		enum mem_verdict v = refer_write(qp->nic, p->reference, app);

		if (v != MEM_OK)
			return executed(v, ERR_remote_fault);
	}
	if (op_starts(p->op)) {
		resp->va = p->va;
		resp->rkey = p->rkey;
		resp->left = p->dma_len;
		resp->received = 0;
		COUNT(qp->nic, rx_write_requests);
	}
	if (p->payload_len && !p->reference && !mem_write(qp->nic, app, p->payload, p->payload_len) &&
	    !mem_write_pinned(qp->nic, qp->pd, resp->rkey))
		return ERR_remote_fault;
	resp->va += p->payload_len;
	resp->left -= p->payload_len;
	resp->received += p->payload_len;
	if (p->op->extra == OP_IMM && !resp->have_wqe)
		qp_take_wqe(qp);
	return ERR_none;
}

/* READs, atomics, FLUSHes, ATOMIC WRITEs and fetching element operations take a resource, which also answers their
 * duplicates. Not inlined: WRITEs and SENDs then need a smaller stack frame. */
static __attribute__((noinline)) unsigned execute_resource(struct nic_qp *qp, const struct packet *p, uint8_t *app)
{
	struct responder *resp = &qp->resp;
	struct resp_resource *r = &resp->res[resp->res_head & (resp->res_size - 1)];
	struct resp_resource next = {
		.used = true,
		.atomic = p->op->kind != OP_READ_REQ && !(p->op->traits & OP_IS_PLACED),
		.psn = p->psn,
		.packets = 1,
		.rkey = p->rkey,
		.va = p->va,
		.srqn = resp->srqn,
		.msn = (resp->msn + 1) & PSN_MASK,
	};

	if (p->op->kind == OP_FETCH_ELEMENTS && !resp_elements_room(qp))
		return CHECK_NO_MEMORY;
	if (r->todo)
		resp_resource_done(resp, r); /* drops a queued response to a duplicate */
	r->used = false;
	if (next.atomic) {
		COUNT(qp->nic, rx_atomic_requests);
		next.elements = op_is_elements(p->op);
		next.size = next.elements ? resp_elements_size(p) : resp_atomic_size(p);
		if (next.elements ? !resp_elements_execute(qp, p, app, r) : !resp_atomic_execute(qp, p, app, &next))
			return ERR_remote_fault;
	} else if (p->op->traits & OP_IS_PLACED) {
		if (p->op->kind == OP_FLUSH ? !resp_flush_execute(qp, p) : !resp_atomic_write(qp, p, app))
			return ERR_remote_fault;
		next.answered = true; /* not a READ: tx_resource() must not report it to the QP's owner */
	} else {
		COUNT(qp->nic, rx_read_requests);
		next.length = next.stop = p->dma_len;
		next.packets = packets_of(p->dma_len, qp->pmtu);
	}
	*r = next;
	resp->res_head++;
	/* If res_next still stands for the previous use of this slot, advance it: the new response must not go first
	 * (C9-110). */
	if ((int32_t)(resp->res_next - (resp->res_head - resp->res_size)) < 0)
		resp->res_next = resp->res_head - resp->res_size;
	resp_resource_send(qp, r, 0, r->packets);
	return ERR_none;
}

/* A message that uses a receive WQE is complete: complete the WQE. */
static void deliver(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct nic_wc wc = {.byte_len = (uint32_t)resp->received};

	if (p->op->extra == OP_INV) {
		mw_invalidate(qp->nic, p->inv_rkey);
		wc.ex = p->inv_rkey;
		wc.wc_flags = NIC_WC_WITH_INV;
	} else if (p->op->extra == OP_IMM) {
		wc.ex = p->imm;
		wc.wc_flags = NIC_WC_WITH_IMM;
	}
	wc.opcode = p->op->kind == OP_WRITE ? NIC_WC_RECV_RDMA_WITH_IMM : NIC_WC_RECV;
	wc.src_qp = qp->attr.dest_qp_num;
	qp_complete_recv(qp, &wc, p->se);
}

void resp_served(struct nic_qp *qp, const struct packet *p)
{
	enum op_kind kind = p->op->kind;

	if (!qp->owner || kind == OP_READ_REQ || kind == OP_SEND)
		return;
	if (kind == OP_WRITE || kind == OP_ELEMENTS || kind == OP_ATOMIC_WRITE)
		qp->owner->served(qp, kind == OP_WRITE ? qp->resp.rkey : p->rkey, false, true);
	else
		qp->owner->served(qp, p->rkey, true,
				  kind != OP_FETCH_ELEMENTS || p->element.op != NIC_ELEM_ATOMIC_READ);
}

/* Execute a checked request. This function, execute_send() and execute_write() are forced inline: without that, the
 * compiler would not inline them, because of the call of mem_write_pinned(). */
static inline __attribute__((always_inline)) unsigned execute(struct nic_qp *qp, const struct packet *p, uint8_t *app)
{
	unsigned error;

	if (needs_resource(p->op)) {
		error = execute_resource(qp, p, app);
		if (error == ERR_none)
			resp_served(qp, p);
		return error;
	}
	if (p->op->kind == OP_ELEMENTS) {
		COUNT(qp->nic, rx_atomic_requests);
		if (!resp_elements_execute(qp, p, app, NULL))
			return ERR_remote_fault;
		resp_served(qp, p);
		return ERR_none;
	}
	error = p->op->kind == OP_SEND ? execute_send(qp, p) : execute_write(qp, p, app);
	if (error != ERR_none || !op_ends(p->op))
		return error;
	if (qp->owner)
		resp_served(qp, p);
	else if (p->op->kind == OP_SEND || p->op->extra == OP_IMM)
		deliver(qp, p);
	return ERR_none;
}

/* ---- requests ---------------------------------------------------------------------------------------- */

/* The request cannot be executed now; the peer will send it again. */
static void not_now(struct nic_qp *qp, const struct packet *p, unsigned verdict)
{
	if (verdict == CHECK_NO_MEMORY) {
		COUNT(qp->nic, resp_no_memory);
		return;
	}
	if (verdict == CHECK_RNR) {
		resp_nak(qp, (uint8_t)(AETH_RNR | qp->attr.min_rnr_timer), p->psn);
	} else {
		COUNT(qp->nic, rx_unread);
		qp->counters.dropped_rx++;
		if (!qp->resp.nak_sent)
			resp_nak(qp, AETH_NAK_SEQUENCE, qp->resp.epsn);
	}
	qp->resp.nak_sent = true;
}

/** Whether this error, found in the last packet of a message, completes the message's receive WQE with an error. This
 * is so if the message may not invalidate the key that it names (class J, 9.9.6.3), or if a WRITE with immediate data
 * may not access the memory or faults there. */
static bool fails_receive(const struct packet *p, unsigned error)
{
	if (error == ERR_invalidate_remote)
		return true;
	return p->op->extra == OP_IMM && (error == ERR_remote_key || error == ERR_remote_fault);
}

/* Not inlined, so that the path of requests that are executed needs fewer registers. */
static __attribute__((noinline)) void refuse(struct nic_qp *qp, const struct packet *p, enum error_id error)
{
	if (!qp->resp.have_wqe && fails_receive(p, error))
		qp_take_wqe(qp);
	resp_fail(qp, error, p->psn);
}

/** @return whether the request had the expected PSN and was executed. */
static bool rx_rc(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	int32_t ahead = psn_diff(p->psn, resp->epsn);
	uint8_t *app = NULL;
	unsigned verdict;

	if (ahead > 0) {
		COUNT(qp->nic, out_of_sequence);
		qp->counters.dropped_rx++;
		if (!resp->nak_sent)
			resp_nak(qp, AETH_NAK_SEQUENCE, resp->epsn);
		resp->nak_sent = true; /* one NAK until the gap is filled (RP-01) */
		return false;
	}
	if (ahead < 0) {
		resp_duplicate(qp, p);
		return false;
	}
	verdict = p->op->kind == OP_FETCH_ELEMENTS ? resp_quick(qp, p) : CHECK_NOT_QUICK;
	if (verdict == ERR_none)
		return true;
	if (verdict == CHECK_NOT_QUICK)
		verdict = resp_check(qp, p, &app);
	if (verdict == ERR_none)
		verdict = execute(qp, p, app);
	if (verdict >= ERR_COUNT) {
		not_now(qp, p, verdict);
		return false;
	}
	resp->nak_sent = false;
	if (verdict != ERR_none) {
		refuse(qp, p, (enum error_id)verdict);
		return false;
	}
	if (resp->ack_queued)
		resp->syndrome = AETH_ACK; /* replaces a NAK that has not been sent yet */
	resp->open = op_ends(p->op) ? NULL : p->op;
	resp->epsn =
		psn_add(resp->epsn, p->op->kind == OP_READ_REQ ? packets_of(p->dma_len, qp->pmtu) : refer_psns(qp, p));
	if (op_ends(p->op))
		resp->msn = (resp->msn + 1) & PSN_MASK;
	resp->unacked++;
	if (needs_resource(p->op))
		return true; /* the response to the request acknowledges it */
	if (p->ackreq)
		resp_ack(qp);
	else if (op_ends(p->op))
		resp_ack_lazily(qp);
	return true;
}

/* Process a UC request (9.8.2), which has no response. After a gap or an error, the rest of the message is dropped,
 * and its receive WQE is used for the next message. UC packets do not prove who sent them: a forged FIRST or ONLY
 * packet can have any PSN, and the PSN after that becomes the expected PSN. */
static void rx_uc(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint8_t *app = NULL;
	unsigned verdict;

	if (p->psn != resp->epsn) {
		resp->open = NULL;
		if (!op_starts(p->op)) {
			COUNT(qp->nic, uc_dropped);
			qp->counters.dropped_rx++;
			return;
		}
	}
	resp->epsn = psn_add(p->psn, 1);
	if (resp->open && op_starts(p->op))
		resp->open = NULL; /* the previous message was never finished */
	verdict = resp_check(qp, p, &app);
	if (verdict == ERR_none)
		verdict = execute(qp, p, app);
	if (verdict == ERR_none) {
		resp->open = op_ends(p->op) ? NULL : p->op;
		return;
	}
	resp->open = NULL;
	COUNT(qp->nic, uc_dropped);
	qp->counters.dropped_rx++;
	if (verdict == ERR_receive_key) { /* a local fault, which every later message would hit: fail (C9-220) */
		struct nic_wc wc = {.status = error_rows[verdict].status, .vendor_err = verdict};

		qp_complete_recv(qp, &wc, false);
		qp_enter_error(qp);
	}
}

/** Process a run. @return whether rx_rc() accepted any of its requests. Not inlined: see execute_resource(). */
static __attribute__((noinline)) bool rx_run(struct nic_qp *qp, const struct packet *p)
{
	struct packet one;
	bool accepted = false;

	if (psn_diff(p->psn, qp->resp.epsn) > 0)
		return rx_rc(qp, p); /* a PSN is missing before this run: handle the whole run as one packet */
	for (uint32_t i = 0; i < p->element.count && qp->state != NIC_QPS_ERR; i++) {
		resp_elements_member(p, i, &one);
		accepted |= rx_rc(qp, &one);
	}
	return accepted;
}

/** Process a request to an XRC target. A request with the expected PSN must name an SRQ of the QP's XRC domain, and all
 * packets of a message must name the same SRQ. */
static bool rx_xrc(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	bool accepted, overflowed;

	if (qp->xrcd->sharing && qp->xrcd->sharing->keep(qp, p))
		return false;
	if (p->psn != resp->epsn)
		return rx_rc(qp, p); /* too early, or a duplicate: nothing is executed now */
	if (((resp->open || resp->have_wqe) && p->xrc_srqn != resp->srqn) || !xrc_enter(qp, p->xrc_srqn)) {
		resp->have_wqe &= xrc_cq(qp) != NULL; /* without the SRQ's CQ, the receive WQE cannot be completed */
		resp_fail(qp, ERR_xrc_srq, p->psn);
		return false;
	}
	resp->srqn = p->xrc_srqn;
	accepted = rx_rc(qp, p);
	overflowed = qp->recv_cq->overflowed;
	xrc_leave(qp);
	if (overflowed && qp->state != NIC_QPS_ERR) { /* as nic_tell_failed_cqs() does for QPs whose own CQ overflows */
		event_raise(qp->nic, &qp->events, NIC_EVENT_QP_FATAL);
		qp_enter_error(qp);
	}
	return accepted;
}

/** Process a request to a QP of a type other than RC. Not inlined: see execute_resource(). */
static __attribute__((noinline)) bool rx_other(struct nic_qp *qp, const struct packet *p)
{
	if (qp->type == NIC_QPT_XRC_TGT)
		return rx_xrc(qp, p);
	if (qp->type == NIC_QPT_UC) {
		rx_uc(qp, p);
		return false;
	}
	COUNT(qp->nic, rx_bad_service); /* XRC initiators take no requests */
	qp->counters.dropped_rx++;
	return false;
}

bool resp_rx(struct nic_qp *qp, const struct packet *p)
{
	if (!qp->resp.heard) {
		qp->resp.heard = true;
		if (qp->state == NIC_QPS_RTR)
			event_raise(qp->nic, &qp->events, NIC_EVENT_COMM_EST);
	}
	if (qp->type != NIC_QPT_RC)
		return rx_other(qp, p);
	return op_is_elements(p->op) && resp_elements_run(qp, p) ? rx_run(qp, p) : rx_rc(qp, p);
}
