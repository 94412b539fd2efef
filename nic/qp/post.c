/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - posting work requests (IBTA 11.4.1): validates what can be checked at once, and copies the request into the
 * queue. Errors found only when a WQE is executed (keys, ranges) become a completion status instead.
 */
#include "calc.h"
#include "comp.h"
#include "cross.h"
#include "elem.h"
#include "extended.h"
#include "mem.h"
#include "path.h"
#include "post.h"
#include "psn.h"
#include "qp.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "refer.h"
#include "req_run.h"
#include "trig.h"
#include "wire.h"
#include "wr.h"

static bool masked_legal(const struct nic_qp *qp, const struct nic_send_wr *wr)
{
	const struct nic_atomic *a = wr->masked.operation;

	/* Look at `operation` only if the QP was created with extended atomics: otherwise the pointer may be unset. */
	return qp->sq.max_atomic_arg && a && extended_size_known(a->size) && a->size <= qp->sq.max_atomic_arg &&
	       a->op == (wr->opcode == NIC_WR_MASKED_CMP_AND_SWP ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA);
}

static uint64_t sum(const struct nic_sge *sge, uint32_t n)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < n; i++)
		length += sge[i].length;
	return length;
}

/** Whether the WQE has room for the SGEs of result and operands. Inline operands have room of their own. */
static bool elements_room(const struct nic_qp *qp, const struct nic_send_wr *wr)
{
	uint32_t n = wr->num_sge, data = wr->flags & NIC_SEND_INLINE ? 0 : wr->elements.num_data;

	return n <= qp->sq.max_sge && data <= qp->sq.max_sge - n;
}

/**
 * Check an operation on elements. The operands must fit in a packet. The result must fit in a packet and in max_fetch
 * bytes. The SGE lists are certain to be set only if the QP supports operations on elements, so check that before
 * reading them.
 */
static int elements_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint64_t *length)
{
	uint32_t op = wr->elements.op, datatype = wr->elements.datatype;
	uint32_t packet = qp->state == NIC_QPS_ERR ? NIC_PAYLOAD_MAX : qp->pmtu; /* in ERR the PMTU may be unset */
	bool fetch = wr->opcode == NIC_WR_FETCH_ELEMENTS;
	enum nic_elem_form form = !fetch ? NIC_ELEM_BASE : elem_compares(op) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH;
	uint64_t data_len;

	if (!qp->sq.max_fetch || !nic_elem_valid(op, datatype, form) || !elements_room(qp, wr))
		return -EINVAL;
	*length = (uint64_t)wr->elements.count * elem_size(datatype);
	if (!*length || *length > (fetch && qp->sq.max_fetch < packet ? qp->sq.max_fetch : packet))
		return -EINVAL;
	data_len = *length * elem_vectors(op);
	if (data_len > packet || ((wr->flags & NIC_SEND_INLINE) && data_len > qp->sq.max_inline))
		return -EINVAL;
	return sum(wr->elements.data, wr->elements.num_data) == data_len &&
			       sum(wr->sg_list, wr->num_sge) == (fetch ? *length : 0)
		       ? 0
		       : -EINVAL;
}

/** Check a calculation. *length becomes the length of its result. */
static bool calc_legal(const struct nic_send_wr *wr, uint64_t *length)
{
	if (wr->opcode == NIC_WR_SEND_WITH_INV || wr->flags & NIC_SEND_INLINE || !*length || *length % CALC_SIZE ||
	    *length > NIC_PAYLOAD_MAX || !nic_calc_valid(wr->rdma.calc_op, wr->rdma.calc_type))
		return false;
	*length = CALC_SIZE;
	return true;
}

/** Check a SEND or WRITE. Inline data must fit in the WQE, where it takes the place of SGEs. */
static inline int data_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint64_t *length)
{
	bool in_wqe = wr->flags & NIC_SEND_INLINE;

	if (!in_wqe && wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	*length = sum(wr->sg_list, wr->num_sge);
	if (*length > (in_wqe ? qp->sq.max_inline : NIC_MSG_MAX))
		return -EINVAL;
	if (wr->flags & NIC_SEND_CALC && !calc_legal(wr, length))
		return -EINVAL;
	if (qp->type == NIC_QPT_UD && (!wr->ud.ah || wr->ud.ah->pd != qp->pd || wr->ud.remote_qpn > PSN_MASK))
		return -EINVAL; /* UD-02 */
	return 0;
}

/** Check a READ or an atomic, whose SGEs are for the result. */
static int asking_check(const struct nic_qp *qp, const struct nic_send_wr *wr, enum wr_form form, uint64_t *length)
{
	if (wr->flags & (NIC_SEND_INLINE | NIC_SEND_CALC) || wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	*length = sum(wr->sg_list, wr->num_sge);
	switch (form) {
	case FORM_ATOMIC:
		return *length == 8 ? 0 : -EINVAL;
	case FORM_MASKED: /* the result is as long as the operands */
		return masked_legal(qp, wr) && *length == wr->masked.operation->size ? 0 : -EINVAL;
	default:
		return *length <= NIC_MSG_MAX ? 0 : -EINVAL;
	}
}

/** Check a FLUSH or an ATOMIC WRITE. *length becomes the length of its data. */
static int placed_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint64_t *length)
{
	const uint8_t types = NIC_FLUSH_GLOBAL | NIC_FLUSH_PERSISTENT;

	if (wr->opcode == NIC_WR_ATOMIC_WRITE) {
		bool in_wqe = wr->flags & NIC_SEND_INLINE; /* every WQE has room for this inline data */

		*length = sum(wr->sg_list, wr->num_sge);
		return *length == NIC_ATOMIC_WRITE_SIZE && (in_wqe || wr->num_sge <= qp->sq.max_sge) &&
				       !(wr->flags & NIC_SEND_CALC)
			       ? 0
			       : -EINVAL;
	}
	*length = 0;
	return !wr->num_sge && !(wr->flags & (NIC_SEND_INLINE | NIC_SEND_CALC)) && wr->flush.type &&
			       !(wr->flush.type & ~types) && wr->flush.level <= NIC_FLUSH_MR &&
			       (wr->flush.level == NIC_FLUSH_MR || wr->flush.length <= NIC_MSG_MAX)
		       ? 0
		       : -EINVAL;
}

static int local_check(const struct nic_qp *qp, const struct nic_send_wr *wr)
{
	if (wr_row(wr->opcode)->posters == WR_CROSS)
		return cross_check(qp, wr);
	return wr->opcode == NIC_WR_BIND_MW && !wr->bind.mw ? -EINVAL : 0;
}

/** Whether the QP is in an error state, in which a posted request is flushed at once. */
static inline bool flushes(const struct nic_qp *qp)
{
	return qp->state > NIC_QPS_SQD;
}

static inline __attribute__((always_inline)) int check(const struct nic_qp *qp, const struct nic_send_wr *wr,
						       const struct wr_row *row, uint32_t ahead, uint64_t *length)
{
	if (!(row->posters & qp->posts) || wr->flags & ~qp->send_flags)
		return -EINVAL;
	if ((uint64_t)(qp->sq.head - qp->sq.tail) + ahead >= qp->sq.capacity && !flushes(qp))
		return -ENOMEM;
	if (__builtin_expect(row->form == FORM_LONG, 1))
		return data_check(qp, wr, length);
	switch (row->form) {
	case FORM_LOCAL:
		*length = 0;
		return local_check(qp, wr);
	case FORM_ELEMENTS:
	case FORM_FETCH:
		return elements_check(qp, wr, length);
	case FORM_FLUSH:
	case FORM_ATOMIC_WRITE:
		return placed_check(qp, wr, length);
	default:
		return asking_check(qp, wr, row->form, length);
	}
}

int nic_post_send_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint32_t ahead)
{
	uint64_t length;

	return check(qp, wr, wr_row(wr->opcode), ahead, &length);
}

static inline void copy_inline(void *to, const struct nic_sge *sge, uint32_t n)
{
	uint8_t *dst = to;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(dst, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
		dst += sge[i].length;
	}
}

static inline void copy_sges(struct nic_sge *to, const struct nic_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = sge[i];
}

/** Copy to the WQE the SGEs for the result, followed by the SGEs of the operands or by inline operands in wire format.
 */
static void copy_elements(struct swqe *w, const struct nic_send_wr *wr)
{
	struct nic_sge *data = w->sge + wr->num_sge;

	w->form = wr->opcode == NIC_WR_ELEMENTS && wr->elements.count == 1 ? FORM_ELEMENT : w->form;
	w->remote_addr = wr->elements.remote_addr;
	w->rkey = wr->elements.rkey;
	w->element.op = wr->elements.op;
	w->element.datatype = wr->elements.datatype;
	w->element.count = wr->elements.count;
	w->element.data_len = elem_vectors(wr->elements.op) * w->length;
	w->element.num_data = (uint16_t)wr->elements.num_data;
	w->num_sge = wr->num_sge;
	copy_sges(w->sge, wr->sg_list, wr->num_sge);
	if (!(wr->flags & NIC_SEND_INLINE)) {
		copy_sges(data, wr->elements.data, wr->elements.num_data);
		return;
	}
	copy_inline(data, wr->elements.data, wr->elements.num_data);
	elem_to_wire(w->element.datatype, (uint8_t *)data, (uint8_t *)data,
		     elem_vectors(w->element.op) * w->element.count);
}

static void copy_local(const struct nic_qp *qp, struct swqe *w, const struct nic_send_wr *wr)
{
	w->num_sge = 0;
	if (qp->type == NIC_QPT_UD)
		w->ud.path = 0; /* a local operation sends nothing; the QP is scheduled on path 0 */
	if (wr->opcode == NIC_WR_BIND_MW) {
		w->bind = wr->bind;
		w->mw_key = wr->bind.mw->mkey.key;
		w->mr_key = wr->bind.mr ? wr->bind.mr->mkey.key : 0;
	} else if (wr->opcode != NIC_WR_LOCAL_INV && wr->opcode != NIC_WR_NOP) {
		cross_post(w, wr);
	}
}

/** Copy a READ or an atomic to the WQE. */
static void copy_asking(const struct nic_qp *qp, struct swqe *w, const struct nic_send_wr *wr)
{
	w->num_sge = wr->num_sge;
	w->srqn = wr->srqn;
	copy_sges(w->sge, wr->sg_list, wr->num_sge);
	if (w->form == FORM_MASKED) {
		w->remote_addr = wr->masked.remote_addr;
		w->rkey = wr->masked.rkey;
		extended_put(wr->masked.operation, sq_operands(qp, w));
	} else if (w->form == FORM_ATOMIC) {
		bool cas = wr->opcode == NIC_WR_ATOMIC_CMP_AND_SWP;

		w->remote_addr = wr->atomic.remote_addr;
		w->rkey = wr->atomic.rkey;
		w->compare = cas ? wr->atomic.compare_add : 0;
		w->swap_add = cas ? wr->atomic.swap : wr->atomic.compare_add;
	} else {
		w->remote_addr = wr->rdma.remote_addr;
		w->rkey = wr->rdma.rkey;
	}
}

/** Copy a FLUSH or an ATOMIC WRITE to the WQE. */
static void copy_placed(struct swqe *w, const struct nic_send_wr *wr)
{
	w->srqn = wr->srqn;
	w->piece = 1; /* the READ response that answers the request takes one PSN */
	w->num_sge = 0;
	if (wr->opcode == NIC_WR_FLUSH) {
		w->remote_addr = wr->flush.level == NIC_FLUSH_MR ? 0 : wr->flush.remote_addr;
		w->rkey = wr->flush.rkey;
		w->range = wr->flush.level == NIC_FLUSH_MR ? 0 : wr->flush.length;
		w->feth = FETH_SEL(wr->flush.level) | wr->flush.type;
		return;
	}
	w->remote_addr = wr->rdma.remote_addr;
	w->rkey = wr->rdma.rkey;
	if (wr->flags & NIC_SEND_INLINE) {
		copy_inline(w->sge, wr->sg_list, wr->num_sge);
		return;
	}
	w->num_sge = wr->num_sge;
	copy_sges(w->sge, wr->sg_list, wr->num_sge);
}

static void copy_calc(struct swqe *w, const struct nic_send_wr *wr)
{
	w->calc.data_len = (uint32_t)sum(wr->sg_list, wr->num_sge);
	w->calc.op = wr->rdma.calc_op;
	w->calc.type = wr->rdma.calc_type;
}

static void copy_datagram(const struct nic_qp *qp, struct swqe *w, const struct nic_send_wr *wr)
{
	w->form = FORM_DATAGRAM;
	w->ud.av = wr->ud.ah->av;
	w->ud.remote_qpn = wr->ud.remote_qpn;
	w->ud.remote_qkey = wr->ud.remote_qkey;
	w->ud.path = w->ud.remote_qpn == NIC_MCAST_QPN ? 0 : path_route(qp->nic, &w->ud.av.dgid, w->ud.remote_qpn);
}

/** Copy a SEND or WRITE to the WQE. Its form depends on its length and flags. */
static inline void copy_data(const struct nic_qp *qp, struct swqe *w, const struct nic_send_wr *wr)
{
	bool fits = w->length <= qp->pmtu; /* the payload fits in one packet */

	if (wr->flags & NIC_SEND_INLINE) {
		w->num_sge = 0;
		copy_inline(w->sge, wr->sg_list, wr->num_sge);
		w->form = !fits ? FORM_LONG : wr->flags & NIC_SEND_OFFERS ? FORM_OFFER : FORM_INLINE;
	} else {
		w->num_sge = wr->num_sge;
		copy_sges(w->sge, wr->sg_list, wr->num_sge);
		w->form = fits ? FORM_GATHER : refer_suits(qp, w) ? FORM_REFER : FORM_LONG;
	}
	if (qp->type == NIC_QPT_UD) {
		copy_datagram(qp, w, wr);
		return;
	}
	w->remote_addr = wr->rdma.remote_addr;
	w->rkey = wr->rdma.rkey;
	w->srqn = wr->srqn;
	if (wr->flags & NIC_SEND_CALC) {
		w->form = FORM_CALC;
		copy_calc(w, wr);
	}
}

/* Settle after a posted request has been flushed at once. Endpoints post requests in the middle of other work, and
 * settle at the end of that work. */
static void settle(struct nic_qp *qp)
{
	nic_settle_failed_cqs(qp->nic);
	if (!qp->owner)
		nic_settle_due(qp->nic);
}

/** The WQE at sq.head is filled in: count it. */
static inline void queue(struct nic_qp *qp, struct swqe *w)
{
	w->started = w->coalesced = false;
	w->packets = 0;
	w->may_coalesce = w->form == FORM_ELEMENT && req_run_joins(qp, w);
	if (!w->may_coalesce)
		qp->sq.streak = qp->sq.head;
	qp->sq.head++;
	trace_add(qp->nic, qp->qpn, NIC_TR_post_send, w->opcode, w->length);
}

/** As queue(); also flush the WQE or schedule the QP. */
static inline void posted(struct nic_qp *qp, struct swqe *w)
{
	queue(qp, w);
	if (flushes(qp)) {
		comp_flush(qp);
		settle(qp);
	} else if (!w->may_coalesce || req_run(qp)) { /* the WQE cannot join a waiting run, or the run is ready */
		qp_ready(qp);
	}
}

int nic_post_send(struct nic_qp *qp, const struct nic_send_wr *wr)
{
	const struct wr_row *row = wr_row(wr->opcode);
	struct swqe *w = sq_at(qp, qp->sq.head);
	uint64_t length;
	int err = check(qp, wr, row, 0, &length);

	if (!err && row->posters == WR_CROSS)
		err = cross_room(wr);
	if (err)
		return err;
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->form = row->form;
	w->flags = (uint8_t)((wr->flags & row->flags) | qp->sig_all * NIC_SEND_SIGNALED);
	w->length = (uint32_t)length;
	w->ex = wr->ex;
	if (__builtin_expect(row->form == FORM_LONG, 1)) {
		copy_data(qp, w, wr);
		posted(qp, w);
		return 0;
	}
	switch (row->form) {
	case FORM_LOCAL:
		copy_local(qp, w, wr);
		break;
	case FORM_ELEMENTS:
	case FORM_FETCH:
		copy_elements(w, wr);
		break;
	case FORM_FLUSH:
	case FORM_ATOMIC_WRITE:
		copy_placed(w, wr);
		break;
	default:
		copy_asking(qp, w, wr);
	}
	posted(qp, w);
	return 0;
}

uint8_t *qp_small_place(const struct nic_qp *qp)
{
	return qp->sq.head - qp->sq.tail < qp->sq.capacity ? (uint8_t *)sq_at(qp, qp->sq.head)->sge : NULL;
}

void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length)
{
	struct swqe *w = sq_at(qp, qp->sq.head);

	w->wr_id = wr_id;
	w->opcode = NIC_WR_SEND;
	w->form = length <= qp->pmtu ? FORM_INLINE : FORM_LONG;
	w->flags = (uint8_t)(flags | NIC_SEND_INLINE);
	w->length = length;
	w->num_sge = 0;
	posted(qp, w);
}

void qp_post_fetch(struct nic_qp *qp, const struct qp_fetch *f)
{
	struct swqe *w = sq_at(qp, qp->sq.head);
	uint32_t vectors = elem_vectors(f->op);

	w->wr_id = f->wr_id;
	w->opcode = NIC_WR_FETCH_ELEMENTS;
	w->form = FORM_FETCH;
	w->flags = (uint8_t)(f->flags | NIC_SEND_INLINE);
	w->length = f->result.length;
	w->remote_addr = f->remote_addr;
	w->rkey = f->rkey;
	w->element.op = f->op;
	w->element.datatype = f->datatype;
	w->element.count = 1;
	w->element.data_len = vectors * f->result.length;
	w->element.num_data = 0;
	w->num_sge = 1;
	w->sge[0] = f->result;
	elem_to_wire(f->datatype, (uint8_t *)(w->sge + 1), f->operands, vectors);
	queue(qp, w);
}

int nic_post_recv(struct nic_qp *qp, const struct nic_recv_wr *wr)
{
	struct nic_wc wc = {.status = NIC_WC_WR_FLUSH_ERR, .vendor_err = ERR_flushed};
	int err;

	if (qp->srq || qp->type > NIC_QPT_UD || qp->state == NIC_QPS_RESET)
		return -EINVAL;
	err = rq_post(&qp->rq, wr);
	if (err)
		return err;
	trace_add(qp->nic, qp->qpn, NIC_TR_post_recv, wr->num_sge, 0);
	if (qp->state == NIC_QPS_ERR) {
		qp->rq.open = qp->rq.head;
		if (qp_take_wqe(qp))
			qp_complete_recv(qp, &wc, false);
		settle(qp);
	}
	return 0;
}
