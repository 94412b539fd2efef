/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_run.c - a run: consecutive one-element requests in the send queue that differ only in address and operand, sent
 * in one packet (elem.md). Each keeps its PSN and its completion; the peer handles them as if each had its own packet.
 * A retransmission may group them differently.
 *
 * A packet costs the same for one request and for many. So while enough requests of the same kind are in flight, a run
 * waits until it has its full length, until a different request follows it, or until few requests are left in flight.
 */
#include "elem.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_packet.h"
#include "req.h"
#include "req_run.h"
#include "req_tx.h"
#include "wire.h"
#include "wr.h"

#define RUN_MAX	  16u /* maximum number of requests in a run; longer runs save little and add latency */
#define UNDER_WAY 4u  /* with fewer requests in flight than this, a run does not wait */

/** Number of requests of the current streak (send_queue.streak) that have been sent and not answered. */
static uint32_t under_way(const struct send_queue *sq)
{
	return sq->next - ((int32_t)(sq->streak - sq->tail) > 0 ? sq->streak : sq->tail);
}

static uint32_t entry_size(const struct swqe *w)
{
	return ELEMENT_ADDR_LEN + w->length;
}

/* Compare with the previous WQE: it may have completed, but its slot in the queue is still intact. A fenced WQE does
 * not join the WQE before it, because the fence would hold back the whole packet. */
bool req_run_joins(const struct nic_qp *qp, const struct swqe *w)
{
	const struct swqe *before = sq_at(qp, qp->sq.head - 1);

	return qp->peer_joins && before->form == FORM_ELEMENT && w->element.op == before->element.op &&
	       w->element.datatype == before->element.datatype && w->rkey == before->rkey &&
	       !(w->flags & NIC_SEND_FENCE);
}

uint32_t req_run(const struct nic_qp *qp)
{
	const struct send_queue *sq = &qp->sq;
	const struct swqe *first = sq_at(qp, sq->next);
	uint32_t waiting = sq->head - sq->next, most = RUN_MAX, n = 1;
	bool goes_on = (int32_t)(sq->next - sq->streak) > 0;

	if (!qp->peer_joins || qp->held & HELD_BOUND || first->form != FORM_ELEMENT)
		return 1;
	if (most > qp->nic->cfg.psn_window)
		most = qp->nic->cfg.psn_window;
	if (most * entry_size(first) > qp->pmtu)
		most = qp->pmtu / entry_size(first);
	if (waiting < most) {
		if (goes_on && !qp->no_delay && under_way(sq) >= UNDER_WAY)
			return 0;
		most = waiting;
	}
	if (goes_on)
		return most;
	while (n < most && sq_at(qp, sq->next + n)->may_coalesce)
		n++;
	return n;
}

uint32_t req_run_coalesced(const struct nic_qp *qp)
{
	uint32_t coalesced = 0;

	for (uint32_t i = qp->sq.tail; i != qp->sq.next; i++)
		coalesced += sq_at(qp, i)->coalesced;
	return coalesced;
}

/** Gather addresses and operands of n requests. @return the number of requests gathered; if fewer than n, *error tells
 * why the next request failed. */
static uint32_t gather(const struct nic_qp *qp, uint32_t n, uint8_t *to, enum error_id *error)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct swqe *w = sq_at(qp, qp->sq.next + i);
		const struct nic_sge *data = w->sge + w->num_sge; /* operands follow result SGEs in a WQE */
		uint8_t *operand = to + ELEMENT_ADDR_LEN;

		wire_put64(to, w->remote_addr);
		if (w->flags & NIC_SEND_INLINE) {
			memcpy(operand, data, w->length);
		} else {
			*error = req_gathered(
				mem_gather(qp->nic, qp->pd, data, w->element.num_data, 0, operand, w->length, NULL));
			if (*error != ERR_none)
				return i;
			elem_to_wire(w->element.datatype, operand, operand, 1);
		}
		to += entry_size(w);
	}
	return n;
}

bool req_run_send(struct nic_qp *qp, uint32_t n, struct nic_tx_frame *frame)
{
	const struct swqe *first = sq_at(qp, qp->sq.next);
	uint8_t *entries = qp->nic->scratch;
	enum error_id error = ERR_none;
	struct packet p;
	uint32_t len;

	n = gather(qp, n, entries, &error);
	if (!n)
		return req_fail(qp, error);
	qp_address(qp, &p, frame);
	p.op = op_find(OP_EXT, OP_ELEMENTS, OP_ONLY, OP_PLAIN);
	p.psn = qp->req.psn;
	p.va = 0;
	p.rkey = first->rkey;
	p.element.op = first->element.op;
	p.element.datatype = (uint8_t)elem_wire_of_type(first->element.datatype);
	p.element.flags = ELEMENT_RUN;
	p.element.count = n;
	for (uint32_t i = 0; i < n; i++) {
		struct swqe *w = sq_at(qp, qp->sq.next + i);

		w->started = true;
		w->psn = psn_add(qp->req.psn, i);
		w->packets = 1;
		w->coalesced = i > 0;
		p.ackreq |= req_asks_ack(qp, w, true, 1);
	}
	len = n * entry_size(first);
	packet_copy(&p, qp_open(&p, frame, len), entries, len);
	qp_emit(qp, &p, frame);
	COUNT_BY(qp->nic, requests_joined, n - 1);
	req_sent(qp, n, n);
	return true;
}
