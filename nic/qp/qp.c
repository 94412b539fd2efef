/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - creating, resetting, resizing and destroying queue pairs (IBTA 10.2.4, 11.2.4). */
#include "comp.h"
#include "cq.h"
#include "cross.h"
#include "mem.h"
#include "psn.h"
#include "qp.h"
#include "qp_create.h"
#include "qp_state.h"
#include "refer.h"
#include "req.h"
#include "resp.h"
#include "source.h"
#include "timer.h"
#include "tm_qp.h"
#include "wire.h"
#include "xrc.h"

static bool caps_legal(const struct nic *nic, const struct nic_qp_init *init)
{
	const struct nic_limits *lim = &nic->cfg.limits;
	const struct nic_qp_cap *cap = &init->cap;

	return cap->max_send_wr <= lim->max_qp_wr && cap->max_recv_wr <= lim->max_qp_wr &&
	       cap->max_send_sge <= lim->max_sge && cap->max_recv_sge <= lim->max_sge &&
	       cap->max_inline_data <= lim->max_inline && init->max_atomic_arg <= NIC_ATOMIC_SIZE_MAX &&
	       init->max_fetch <= NIC_PAYLOAD_MAX &&
	       ((!init->max_atomic_arg && !init->max_fetch) || init->type == NIC_QPT_RC) &&
	       !(init->managed_recv && init->srq);
}

static bool qpn_retired(const struct nic *nic, uint32_t qpn)
{
	for (unsigned i = 0; i < NIC_RETIRED_QPNS; i++)
		if (nic->retired[i] == qpn)
			return true;
	return false;
}

/* Pick a random QPN, so that it cannot be guessed (SE-01). QPNs 0, 1 and 0xffffff are special, and recently
 * used QPNs are avoided. */
static uint32_t pick_qpn(struct nic *nic)
{
	uint32_t qpn, mask = (1u << nic->cfg.qpn_bits) - 1;

	do {
		nic->cfg.random(nic->cfg.ctx, &qpn, sizeof(qpn));
		qpn = nic->cfg.qpn_base | (qpn & mask);
	} while (qpn < 2 || qpn == PSN_MASK || table_find(&nic->qps, qpn) || qpn_retired(nic, qpn));
	return qpn;
}

static int sq_init(const struct nic *nic, struct send_queue *sq, const struct nic_qp_init *init)
{
	uint32_t most_inline = nic->cfg.limits.max_inline;
	const struct nic_qp_cap *cap = &init->cap;
	size_t tail = cap->max_send_sge * sizeof(struct nic_sge);
	uint32_t size = round_up_pow2(cap->max_send_wr ? cap->max_send_wr : 1);

	if (tail < NIC_ATOMIC_WRITE_SIZE)
		tail = NIC_ATOMIC_WRITE_SIZE;
	sq->max_inline = cap->max_inline_data;
	if (init->max_fetch) /* inline operands follow the SGEs; other inline data takes the place of the SGEs */
		tail += cap->max_inline_data;
	else if (tail < cap->max_inline_data)
		tail = cap->max_inline_data;
	else /* grant all of the room, as hardware does: programs send inline data without having asked for it */
		sq->max_inline = tail < most_inline ? (uint32_t)tail : most_inline;
	sq->operands = (uint32_t)(sizeof(struct swqe) + tail);
	sq->stride = (sq->operands + 4 * init->max_atomic_arg + 15) & ~15u;
	sq->capacity = cap->max_send_wr;
	sq->max_sge = cap->max_send_sge;
	sq->max_atomic_arg = init->max_atomic_arg;
	sq->max_fetch = init->max_fetch;
	sq->mask = size - 1;
	sq->slots = calloc(size, sq->stride);
	return sq->slots ? 0 : -ENOMEM;
}

int qp_sq_grow(struct nic_qp *qp, uint32_t capacity)
{
	struct send_queue *sq = &qp->sq;
	uint32_t size = round_up_pow2(capacity), mask = sq->mask;
	uint8_t *slots = calloc(size, sq->stride);

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = sq->tail; i != sq->head; i++)
		memcpy(slots + (size_t)(i & (size - 1)) * sq->stride, sq->slots + (size_t)(i & mask) * sq->stride,
		       sq->stride);
	free(sq->slots);
	sq->slots = slots;
	sq->mask = size - 1;
	sq->capacity = qp->cap.max_send_wr = capacity;
	return 0;
}

static void qp_free(struct nic_qp *qp)
{
	free(qp->resp.res);
	free(qp->resp.saved);
	free(qp->resp.wqe);
	rq_fini(&qp->rq);
	free(qp->sq.slots);
	free(qp);
}

static int qp_alloc(const struct nic *nic, const struct nic_qp_init *init, struct nic_qp **out)
{
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	uint32_t recv_sge = init->xrcd || (init->srq && init->srq->tm) ? nic->cfg.limits.max_sge
			    : init->srq				       ? init->srq->rq.max_sge
								       : init->cap.max_recv_sge;

	if (!qp)
		return -ENOMEM;
	qp->resp.wqe = calloc(1, rwqe_size(recv_sge));
	if (!qp->resp.wqe || sq_init(nic, &qp->sq, init) ||
	    rq_init(&qp->rq, init->srq ? 0 : init->cap.max_recv_wr, init->cap.max_recv_sge)) {
		qp_free(qp);
		return -ENOMEM;
	}
	*out = qp;
	return 0;
}

void qp_reset(struct nic_qp *qp)
{
	qp->sq.head = qp->sq.next = qp->sq.tail = qp->sq.streak = 0;
	qp->peer_joins = qp->no_delay = false;
	qp->rq.head = qp->rq.tail = qp->rq.open = 0;
	qp->attr = (struct nic_qp_attr){.port_num = 1};
	qp->deadline = TIME_NEVER;
	qp->path = 0;
	source_reset(qp);
	list_remove(&qp->ready);
	refer_revoke_qp(qp, true);
	if (qp->owner == &tm_owner)
		tm_forget(qp);
	req_reset(qp);
	comp_reset(qp);
	resp_reset(qp);
	cross_reset(qp);
	if (qp->xrcd && qp->xrcd->sharing)
		qp->xrcd->sharing->drop(qp);
}

/** Whether the QP has the objects that its type needs, and no others. */
static bool objects_legal(const struct nic_qp_init *init)
{
	switch (init->type) {
	case NIC_QPT_RC:
	case NIC_QPT_UC:
	case NIC_QPT_UD:
		return init->pd && init->send_cq && init->recv_cq && !init->xrcd &&
		       (!init->srq || !init->srq->tm || (init->type == NIC_QPT_RC && init->srq->pd == init->pd));
	case NIC_QPT_XRC_INI:
		return init->pd && init->send_cq && !init->srq && !init->xrcd;
	case NIC_QPT_XRC_TGT:
		return init->xrcd && !init->pd && !init->send_cq && !init->recv_cq && !init->srq;
	}
	return false;
}

/** Adjust the requested objects and capacities to those that the QP will have. */
static void narrow(struct nic_qp_init *init)
{
	if (init->type == NIC_QPT_XRC_INI)
		init->recv_cq = init->send_cq; /* the pointer must not be NULL, although the QP receives nothing */
	if (init->srq || init->type > NIC_QPT_UD)
		init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
	if (init->type == NIC_QPT_XRC_TGT)
		init->cap = (struct nic_qp_cap){0};
	if (init->srq && init->srq->tm)
		tm_narrow(init);
}

/** Add `by` (1 or -1) to the user counts of the objects that the QP uses. */
static void use_objects(struct nic_qp *qp, int by)
{
	if (qp->xrcd) {
		qp->xrcd->users += (uint32_t)by;
		return;
	}
	qp->pd->users += (uint32_t)by;
	qp->send_cq->users += (uint32_t)by;
	qp->recv_cq->users += (uint32_t)by;
	if (qp->srq)
		qp->srq->users += (uint32_t)by;
}

int qp_create_at(struct nic *nic, struct nic_qp_init *init, uint32_t qpn, struct nic_qp **out)
{
	struct nic_qp *qp;
	int err;

	if (!objects_legal(init) || !caps_legal(nic, init))
		return -EINVAL;
	if (nic->n_qp >= nic->cfg.limits.max_qp || nic->n_qp + NIC_RETIRED_QPNS + 3 >= 1u << nic->cfg.qpn_bits)
		return -ENOMEM;
	if (table_find(&nic->qps, qpn))
		return -EADDRINUSE;
	narrow(init);
	err = qp_alloc(nic, init, &qp);
	if (err)
		return err;
	qp->nic = nic;
	qp->qpn = qpn;
	if (!timer_reserve(nic, nic->n_qp + 1) || !table_insert(&nic->qps, qp->qpn, qp)) {
		qp_free(qp);
		return -ENOMEM;
	}
	qp->type = init->type;
	qp->pd = init->pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->xrcd = init->xrcd;
	qp->owner = init->srq && init->srq->tm ? &tm_owner : NULL;
	qp->sig_all = init->sq_sig_all;
	qp->be_replies = init->be_replies;
	qp->send_flags = NIC_SEND_FENCE | NIC_SEND_SIGNALED | NIC_SEND_SOLICITED | NIC_SEND_INLINE;
	cross_init(qp, init);
	qp_hold_by_state(qp);
	init->cap.max_inline_data = qp->sq.max_inline;
	qp->cap = init->cap;
	qp->heap_pos = HEAP_NONE;
	list_init(&qp->ready);
	list_init(&qp->resp.ack_node);
	list_init(&qp->lingering);
	event_source_init(&qp->events, init->user);
	qp_reset(qp);
	use_objects(qp, 1);
	nic->n_qp++;
	*out = qp;
	return 0;
}

int nic_qp_create(struct nic *nic, struct nic_qp_init *init, struct nic_qp **out)
{
	return qp_create_at(nic, init, pick_qpn(nic), out);
}

void qp_purge_cqs(const struct nic_qp *qp)
{
	if (qp->xrcd || qp->owner == &tm_owner)
		return; /* the completions of such a QP belong to SRQs that outlive the QP */
	cq_purge(qp->send_cq, qp->qpn);
	if (qp->recv_cq != qp->send_cq)
		cq_purge(qp->recv_cq, qp->qpn);
}

int nic_qp_destroy(struct nic_qp *qp)
{
	struct nic *nic = qp->nic;

	if (qp->mcasts)
		return -EBUSY;
	refer_revoke_qp(qp, true);
	if (qp->owner == &tm_owner)
		tm_forget(qp);
	if (qp->xrcd && qp->xrcd->sharing)
		qp->xrcd->sharing->destroy(qp);
	cross_release(qp);
	qp_purge_cqs(qp);
	event_source_fini(&qp->events);
	timer_remove(nic, qp);
	list_remove(&qp->ready);
	list_remove(&qp->resp.ack_node);
	list_remove(&qp->lingering);
	table_remove(&nic->qps, qp->qpn);
	nic->retired[nic->retired_next++ % NIC_RETIRED_QPNS] = qp->qpn;
	use_objects(qp, -1);
	nic->n_qp--;
	qp_free(qp);
	return 0;
}
