/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_quick.c - sends a fetch of one element while it is posted: see quick.h.
 */
#include "own_time.h"
#include "psn.h"
#include "quick.h"
#include "req.h"
#include "req_quick.h"
#include "req_tx.h"

/** Whether the requester can send a fetch now: the conditions of may_ask() and may_send() in req_tx.c. */
static inline bool may_send(const struct nic_qp *qp)
{
	const struct requester *req = &qp->req;
	uint32_t out = (req->psn - qp->comp.una) & PSN_MASK;

	return !qp->held && req->rd_out < qp->attr.max_rd_atomic && (out == 0 || req_window_admits(qp, out, 1, 1));
}

/** Whether the fetch would have to wait for something else. A delayed ACK goes before requests. What triggers start
 * waits as well: the NIC may be in nic_path_tx, where the carrier has given it room already, or in a call that has told
 * it the time. */
static inline bool must_wait(const struct nic_qp *qp)
{
	return !quick_is_free(qp) || qp->resp.ack_queued || !qp->nic->port_up || qp->nic->trig.firing;
}

uint8_t *req_quick_room(struct nic_qp *qp)
{
	uint64_t now_ns;
	uint8_t *room;

	if (qp->sq.head - qp->sq.tail >= qp->sq.capacity || must_wait(qp) || !may_send(qp))
		return NULL;
	room = quick_room(qp, &now_ns);
	if (room)
		nic_see_time(qp->nic, now_ns); /* req_sent() starts the ACK timer */
	return room;
}

void req_quick_send(struct nic_qp *qp, uint8_t *room)
{
	const struct opcode *op = op_find(OP_EXT, OP_FETCH_ELEMENTS, OP_ONLY, OP_PLAIN);
	struct swqe *w = sq_at(qp, qp->sq.next);
	uint32_t psn = qp->req.psn;
	uint8_t *at = quick_bth(qp, room, op, psn, req_asks_ack(qp, w, true, 1));

	w->started = true;
	w->psn = psn;
	w->packets = 1;
	wire_put64(at + ELEMENTETH_VA, w->remote_addr);
	wire_put32(at + ELEMENTETH_RKEY, w->rkey);
	wire_put32(at + ELEMENTETH_OP, (uint32_t)w->element.op << 24 | (uint32_t)w->element.datatype << 16);
	wire_put32(at + ELEMENTETH_COUNT, 1);
	memcpy(at + ELEMENTETH_LEN, w->sge + w->num_sge, w->element.data_len);
	quick_send(qp, room, op, psn, w->element.data_len);
	qp->req.rd_out++;
	req_sent(qp, 1, 1);
}
