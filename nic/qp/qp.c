/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c - queue pairs as objects: creation, attributes, states, errors (IBTA 10.2.4, 10.3, 11.2.4, 11.2.5), and
 * functions shared by the three engines: addressing of packets, receive WQEs, the timer.
 */
#include "comp.h"
#include "core.h"
#include "cq.h"
#include "cross.h"
#include "list.h"
#include "mem.h"
#include "mtu.h"
#include "opcode.h"
#include "packet.h"
#include "path.h"
#include "psn.h"
#include "qp.h"
#include "qp_create.h"
#include "qp_owner.h"
#include "qp_packet.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "refer.h"
#include "req.h"
#include "resp.h"
#include "source.h"
#include "timer.h"
#include "trig.h"
#include "wire.h"

#define SPORT_BASE 0xc000 /* lowest UDP source port of flows, by convention */

/* ---- creation and destruction ------------------------------------------------------------------------ */

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

/* Random, so that it cannot be guessed (SE-01); 0 and 1 are special; recently used QPNs are avoided. */
static uint32_t pick_qpn(struct nic *nic)
{
	uint32_t qpn, mask = (1u << nic->cfg.qpn_bits) - 1;

	do {
		nic->cfg.random(nic->cfg.ctx, &qpn, sizeof(qpn));
		qpn = nic->cfg.qpn_base | (qpn & mask);
	} while (qpn < 2 || qpn == PSN_MASK || table_find(&nic->qps, qpn) || qpn_retired(nic, qpn));
	return qpn;
}

static int sq_init(struct send_queue *sq, const struct nic_qp_init *init)
{
	const struct nic_qp_cap *cap = &init->cap;
	size_t tail = cap->max_send_sge * sizeof(struct nic_sge);
	uint32_t size = round_up_pow2(cap->max_send_wr ? cap->max_send_wr : 1);

	if (init->max_fetch) /* SGEs for the result, followed by the operands */
		tail += cap->max_inline_data;
	else if (tail < cap->max_inline_data)
		tail = cap->max_inline_data;
	sq->operands = (uint32_t)(sizeof(struct swqe) + tail);
	sq->stride = (sq->operands + 4 * init->max_atomic_arg + 15) & ~15u;
	sq->capacity = cap->max_send_wr;
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = cap->max_inline_data;
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

static int qp_alloc(const struct nic_qp_init *init, struct nic_qp **out)
{
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	uint32_t recv_sge = init->srq ? init->srq->rq.max_sge : init->cap.max_recv_sge;

	if (!qp)
		return -ENOMEM;
	qp->resp.wqe = calloc(1, rwqe_size(recv_sge));
	if (!qp->resp.wqe || sq_init(&qp->sq, init) ||
	    rq_init(&qp->rq, init->srq ? 0 : init->cap.max_recv_wr, init->cap.max_recv_sge)) {
		qp_free(qp);
		return -ENOMEM;
	}
	*out = qp;
	return 0;
}

static void qp_reset(struct nic_qp *qp)
{
	qp->sq.head = qp->sq.next = qp->sq.tail = qp->sq.streak = 0;
	qp->peer_joins = qp->hurries = false;
	qp->rq.head = qp->rq.tail = qp->rq.open = 0;
	qp->attr = (struct nic_qp_attr){.port_num = 1};
	qp->deadline = TIME_NEVER;
	qp->path = 0;
	source_reset(qp);
	list_remove(&qp->ready);
	refer_revoke_qp(qp, true);
	req_reset(qp);
	comp_reset(qp);
	resp_reset(qp);
	cross_reset(qp);
}

int qp_create_at(struct nic *nic, struct nic_qp_init *init, uint32_t qpn, struct nic_qp **out)
{
	struct nic_qp *qp;
	int err;

	if ((init->type != NIC_QPT_RC && init->type != NIC_QPT_UC && init->type != NIC_QPT_UD) || !init->pd ||
	    !init->send_cq || !init->recv_cq || !caps_legal(nic, init))
		return -EINVAL;
	if (nic->n_qp >= nic->cfg.limits.max_qp || nic->n_qp + NIC_RETIRED_QPNS + 3 >= 1u << nic->cfg.qpn_bits)
		return -ENOMEM;
	if (table_find(&nic->qps, qpn))
		return -EADDRINUSE;
	if (init->srq)
		init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
	err = qp_alloc(init, &qp);
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
	qp->sig_all = init->sq_sig_all;
	qp->be_replies = init->be_replies;
	qp->send_flags = NIC_SEND_FENCE | NIC_SEND_SIGNALED | NIC_SEND_SOLICITED | NIC_SEND_INLINE;
	cross_init(qp, init);
	qp->bounded = qp->cross.managed;
	qp->cap = init->cap;
	qp->heap_pos = HEAP_NONE;
	list_init(&qp->ready);
	list_init(&qp->resp.ack_node);
	list_init(&qp->fading);
	event_source_init(&qp->events, init->user);
	qp_reset(qp);
	qp->pd->users++;
	qp->send_cq->users++;
	qp->recv_cq->users++;
	if (qp->srq)
		qp->srq->users++;
	nic->n_qp++;
	*out = qp;
	return 0;
}

int nic_qp_create(struct nic *nic, struct nic_qp_init *init, struct nic_qp **out)
{
	return qp_create_at(nic, init, pick_qpn(nic), out);
}

static void purge_cqs(struct nic_qp *qp)
{
	cq_purge(qp->send_cq, qp->qpn);
	if (qp->recv_cq != qp->send_cq)
		cq_purge(qp->recv_cq, qp->qpn);
}

int nic_qp_destroy(struct nic_qp *qp)
{
	struct nic *nic = qp->nic;

	refer_revoke_qp(qp, true);
	cross_release(qp);
	purge_cqs(qp);
	event_source_fini(&qp->events);
	timer_remove(nic, qp);
	list_remove(&qp->ready);
	list_remove(&qp->resp.ack_node);
	list_remove(&qp->fading);
	table_remove(&nic->qps, qp->qpn);
	nic->retired[nic->retired_next++ % NIC_RETIRED_QPNS] = qp->qpn;
	qp->pd->users--;
	qp->send_cq->users--;
	qp->recv_cq->users--;
	if (qp->srq)
		qp->srq->users--;
	nic->n_qp--;
	qp_free(qp);
	return 0;
}

uint32_t nic_qp_num(const struct nic_qp *qp)
{
	return qp->qpn;
}

enum nic_qp_state nic_qp_state(const struct nic_qp *qp)
{
	return qp->state;
}

void nic_qp_counters(const struct nic_qp *qp, struct nic_qp_counters *out)
{
	*out = qp->counters;
}

/* ---- attributes -------------------------------------------------------------------------------------- */

static bool gid_is_v4(const struct nic_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static bool gid_is_zero(const struct nic_gid *gid)
{
	static const struct nic_gid zero;

	return !memcmp(gid, &zero, sizeof(zero));
}

static bool av_legal(const struct nic *nic, const struct nic_av *av)
{
	return av->sgid_index < NIC_GID_TABLE_LEN && !gid_is_zero(&nic->gids[av->sgid_index]) &&
	       !gid_is_zero(&av->dgid) && gid_is_v4(&nic->gids[av->sgid_index]) == gid_is_v4(&av->dgid);
}

int nic_ah_create(struct nic_pd *pd, const struct nic_av *av, struct nic_ah **out)
{
	if (!av_legal(pd->nic, av))
		return -EINVAL;
	if (pd->nic->n_ah >= pd->nic->cfg.limits.max_ah)
		return -ENOMEM;

	struct nic_ah *ah = malloc(sizeof(*ah));

	if (!ah)
		return -ENOMEM;
	*ah = (struct nic_ah){.pd = pd, .av = *av};
	list_append(&pd->nic->all_ahs, &ah->node);
	pd->users++;
	pd->nic->n_ah++;
	*out = ah;
	return 0;
}

int nic_ah_destroy(struct nic_ah *ah)
{
	ah->pd->users--;
	ah->pd->nic->n_ah--;
	list_remove(&ah->node);
	free(ah);
	return 0;
}

static bool values_legal(const struct nic_qp *qp, const struct nic_qp_attr *a, uint32_t mask)
{
	const struct nic *nic = qp->nic;
	uint32_t max_rd = nic->cfg.limits.max_rd_atomic;
	const uint32_t access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |
				NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_MW_BIND;

	return !((mask & NIC_QP_AV && !av_legal(nic, &a->av)) || (mask & NIC_QP_PORT && a->port_num != 1) ||
		 (mask & NIC_QP_PKEY_INDEX && a->pkey_index != 0) ||
		 (mask & NIC_QP_PATH_MTU && (a->path_mtu < NIC_MTU_256 || a->path_mtu > nic->cfg.active_mtu)) ||
		 (mask & NIC_QP_ACCESS_FLAGS && a->qp_access_flags & ~access) ||
		 (mask & NIC_QP_DEST_QPN && a->dest_qp_num > PSN_MASK) ||
		 (mask & NIC_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > max_rd) ||
		 (mask & NIC_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > max_rd) ||
		 (mask & NIC_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) || (mask & NIC_QP_TIMEOUT && a->timeout > 31) ||
		 (mask & NIC_QP_RETRY_CNT && a->retry_cnt > 7 && !qp->owner) ||
		 (mask & NIC_QP_RNR_RETRY && a->rnr_retry > 7) ||
		 (mask & NIC_QP_CUR_STATE && a->cur_qp_state != qp->state));
}

/* A constant source port per flow (RQ-19), from the product of both QPNs: the same in both directions of a pair. */
static uint16_t flow_sport(const struct nic_qp *qp)
{
	uint64_t v = (uint64_t)qp->qpn * (qp->attr.dest_qp_num ? qp->attr.dest_qp_num : 1);

	if (qp->nic->cfg.udp_sport)
		return qp->nic->cfg.udp_sport;
	v ^= v >> 20;
	v ^= v >> 40;
	return (uint16_t)(SPORT_BASE | (((uint32_t)v & 0x3fff) ^ ((uint32_t)v >> 14 & 0x3f)));
}

/* Ensure room for n resources; the ring only grows, and saved results survive that (RP-11). */
static int resources_alloc(struct nic_qp *qp, uint32_t n)
{
	struct responder *resp = &qp->resp;
	uint32_t size = round_up_pow2(n ? n : 1);
	size_t room = resp->saved ? qp->sq.max_fetch : 0; /* 0: none needed yet */
	struct resp_resource *res;
	uint8_t *saved;

	if (resp->res && size <= resp->res_size)
		return 0;
	res = calloc(size, sizeof(*res));
	saved = room ? calloc(size, room) : NULL;
	if (!res || (room && !saved)) {
		free(res);
		free(saved);
		return -ENOMEM;
	}
	for (uint32_t i = 0, idx = resp->res_head - resp->res_size; resp->res && i < resp->res_size; i++, idx++) {
		uint32_t to = idx & (size - 1), from = idx & (resp->res_size - 1);

		res[to] = resp->res[from];
		if (room)
			memcpy(saved + to * room, resp->saved + from * room, room);
	}
	free(resp->res);
	free(resp->saved);
	resp->res = res;
	resp->saved = saved;
	resp->res_size = size;
	return 0;
}

static void set_path(struct nic_qp *qp)
{
	if (qp->type == NIC_QPT_UD)
		return;
	path_move(qp, path_route(qp->nic, &qp->attr.av.dgid, qp->attr.dest_qp_num));
	source_set(qp);
}

static uint8_t addresses(const struct nic_gid *from, const struct nic_gid *to)
{
	uint64_t words[4], hash = 0;

	memcpy(words, from, 16);
	memcpy(words + 2, to, 16);
	for (unsigned i = 0; i < 4; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
	return (uint8_t)(hash >> (64 - NIC_ADDRESSES_BITS));
}

static void apply(struct nic_qp *qp, const struct nic_qp_attr *a, uint32_t mask)
{
	struct nic_qp_attr *own = &qp->attr;

#define APPLY(bit, field)                                                                                              \
	if (mask & (bit))                                                                                              \
	own->field = a->field
	APPLY(NIC_QP_PATH_MTU, path_mtu);
	APPLY(NIC_QP_QKEY, qkey);
	APPLY(NIC_QP_DEST_QPN, dest_qp_num);
	APPLY(NIC_QP_ACCESS_FLAGS, qp_access_flags);
	APPLY(NIC_QP_AV, av);
	APPLY(NIC_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	APPLY(NIC_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	APPLY(NIC_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	APPLY(NIC_QP_MIN_RNR_TIMER, min_rnr_timer);
	APPLY(NIC_QP_TIMEOUT, timeout);
	APPLY(NIC_QP_RETRY_CNT, retry_cnt);
	APPLY(NIC_QP_RNR_RETRY, rnr_retry);
	APPLY(NIC_QP_PORT, port_num);
#undef APPLY
	if (mask & NIC_QP_RQ_PSN)
		own->rq_psn = a->rq_psn & PSN_MASK;
	if (mask & NIC_QP_SQ_PSN)
		own->sq_psn = a->sq_psn & PSN_MASK;
	if (mask & NIC_QP_PATH_MTU)
		qp->pmtu = mtu_bytes(own->path_mtu);
	if (mask & NIC_QP_AV)
		qp->sgid = qp->nic->gids[own->av.sgid_index];
	qp->udp_sport = flow_sport(qp);
	qp->says = addresses(&qp->sgid, &own->av.dgid);
	qp->hears = addresses(&own->av.dgid, &qp->sgid);
	if (mask & (NIC_QP_AV | NIC_QP_DEST_QPN))
		set_path(qp);
}

/* Carry out a state change, with what it entails for the engines. */
static void enter(struct nic_qp *qp, enum nic_qp_state from, enum nic_qp_state to)
{
	if (from == NIC_QPS_INIT && to == NIC_QPS_RTR)
		resp_reset(qp);
	if (from == NIC_QPS_RTR && to == NIC_QPS_RTS) {
		req_reset(qp);
		comp_reset(qp);
	}
	if (from == NIC_QPS_RTS && to == NIC_QPS_SQD) {
		uint32_t stop = qp->sq.next;

		/* WQEs already started finish, including those that a retry will send again. */
		while (stop != qp->sq.head && sq_at(qp, stop)->started)
			stop++;
		qp->req.sqd_stop = stop;
		qp->req.drained = false;
	}
	if (from == NIC_QPS_SQE && to == NIC_QPS_RTS)
		cross_recover(qp);
	qp_set_state(qp, to);
	if (to == NIC_QPS_SQD)
		req_settle(qp);
	if (to == NIC_QPS_RTS)
		qp_ready(qp);
}

int nic_qp_modify(struct nic_qp *qp, const struct nic_qp_attr *attr, uint32_t mask)
{
	enum nic_qp_state from = qp->state, to = mask & NIC_QP_STATE ? attr->qp_state : from;
	int err;

	if ((unsigned)to > NIC_QPS_ERR)
		return -EINVAL;
	err = qp_transition_check(qp->type, from, to, mask);
	if (err)
		return err;
	if (!values_legal(qp, attr, mask))
		return -EINVAL;
	if (mask & NIC_QP_MAX_DEST_RD_ATOMIC) {
		err = resources_alloc(qp, attr->max_dest_rd_atomic);
		if (err)
			return err;
	}
	if (to == NIC_QPS_RESET) {
		cross_release(qp);
		purge_cqs(qp);
		qp_set_state(qp, NIC_QPS_RESET);
		qp_reset(qp);
		return 0;
	}
	if (to == NIC_QPS_ERR) {
		refer_revoke_qp(qp, true);
		qp_enter_error(qp);
		nic_settle_failed_cqs(qp->nic);
		nic_settle_due(qp->nic);
		return 0;
	}
	apply(qp, attr, mask);
	if (from == NIC_QPS_SQD && (mask & (NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY)))
		req_attributes_changed(qp);
	if (from != to)
		enter(qp, from, to);
	return 0;
}

void nic_qp_query(const struct nic_qp *qp, struct nic_qp_attr *attr, struct nic_qp_init *init)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->state == NIC_QPS_SQD && !qp->req.drained;
	if (qp->state >= NIC_QPS_RTS) {
		attr->sq_psn = qp->req.psn;
		attr->rq_psn = qp->resp.epsn;
	}
	*init = (struct nic_qp_init){
		.type = qp->type,
		.pd = qp->pd,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.cap = qp->cap,
		.sq_sig_all = qp->sig_all,
		.cross_channel = qp->cross.posts,
		.managed_send = qp->cross.managed,
		.managed_recv = qp->rq.managed,
		.max_atomic_arg = qp->sq.max_atomic_arg,
		.max_fetch = qp->sq.max_fetch,
		.be_replies = qp->be_replies,
		.user = qp->events.user,
	};
}

/* ---- states and errors ------------------------------------------------------------------------------- */

void qp_set_state(struct nic_qp *qp, enum nic_qp_state state)
{
	trace_add(qp->nic, qp->qpn, NIC_TR_state, qp->state, state);
	qp->state = state;
	qp->bounded = state == NIC_QPS_SQD || qp->cross.managed;
}

static void timers_stop(struct nic_qp *qp)
{
	qp->req.ack_deadline = qp->req.rnr_until = TIME_NEVER;
	qp_timer(qp);
}

/* Complete every posted receive with a flush error; with an SRQ only the WQE in use is the QP's. */
static void flush_receives(struct nic_qp *qp)
{
	struct nic_wc wc = {.status = NIC_WC_WR_FLUSH_ERR, .vendor_err = ERR_flushed};

	qp->rq.open = qp->rq.head;
	while (qp->resp.have_wqe || (!qp->srq && qp_take_wqe(qp)))
		qp_complete_recv(qp, &wc, false);
	qp->resp.open = NULL;
}

void qp_enter_error(struct nic_qp *qp)
{
	if (qp->state == NIC_QPS_ERR)
		return;
	qp_set_state(qp, NIC_QPS_ERR);
	refer_revoke_qp(qp, false); /* before the application gets its buffers back */
	timers_stop(qp);
	if (!qp->resp.dying)
		resp_cancel(qp);
	comp_flush(qp);
	flush_receives(qp);
	if (qp->srq)
		event_raise(qp->nic, &qp->events, NIC_EVENT_QP_LAST_WQE);
	if (qp->rdm_peer)
		qp->owner->failed(qp);
}

void qp_send_error(struct nic_qp *qp)
{
	if (qp->type == NIC_QPT_RC) {
		qp_enter_error(qp);
		return;
	}
	if (qp->state != NIC_QPS_RTS && qp->state != NIC_QPS_SQD)
		return;
	qp_set_state(qp, NIC_QPS_SQE);
	comp_flush(qp);
	qp->req.failed = ERR_none;
	qp->req.packet = 0;
}

bool qp_take_wqe(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;

	resp->have_wqe = qp->srq ? srq_pop(qp->srq, resp->wqe) : rq_pop(&qp->rq, resp->wqe);
	return resp->have_wqe;
}

void qp_complete_recv(struct nic_qp *qp, const struct nic_wc *fields, bool solicited)
{
	struct nic_wc wc = *fields;

	wc.wr_id = qp->resp.wqe->wr_id;
	wc.qp_num = qp->qpn;
	if (wc.status != NIC_WC_SUCCESS)
		wc.opcode = NIC_WC_RECV;
	if (wc.status == NIC_WC_WR_FLUSH_ERR)
		COUNT(qp->nic, resp_cqe_flush_error);
	else if (wc.status != NIC_WC_SUCCESS)
		COUNT(qp->nic, resp_cqe_error);
	qp->resp.have_wqe = false;
	cq_push(qp->recv_cq, &wc, solicited);
}

void qp_timer(struct nic_qp *qp)
{
	uint64_t a = qp->req.ack_deadline, r = qp->req.rnr_until;

	if (a != TIME_NEVER && qp->req.early.at < a)
		a = qp->req.early.at;
	qp->deadline = a < r ? a : r;
	timer_update(qp->nic, qp);
}

/* ---- packets ----------------------------------------------------------------------------------------- */

void qp_address(const struct nic_qp *qp, struct packet *p)
{
	const struct nic_av *av = &qp->attr.av;

	packet_init(p);
	p->key = qp->nic->keyed;
	p->sgid = qp->sgid;
	p->dgid = av->dgid;
	p->v4 = gid_is_v4(&av->dgid);
	p->tclass = av->tclass;
	p->hop_limit = av->hop_limit ? av->hop_limit : 64;
	p->flow_label = av->flow_label;
	p->udp_sport = qp->udp_sport;
	p->dest_qpn = qp->attr.dest_qp_num;
}

uint8_t *qp_open(struct packet *p, struct nic_tx_frame *frame, uint32_t payload_len)
{
	p->no_icrc = frame->no_icrc;
	p->bare = frame->bare && frame->no_icrc && p->op->service != OP_UD;
	p->payload_len = payload_len;
	p->pad = (uint8_t)(-payload_len & 3);
	return packet_open(p, frame->data);
}

void qp_emit(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame)
{
	uint32_t psns = 1, bytes = p->payload_len;

	frame->len = packet_close(p, frame->data);
	frame->bare = p->bare;
	frame->bth = p->bare ? 0 : p->v4 ? 28 : 48;
	if (!p->bare) {
		frame->tclass = p->tclass;
		frame->hop_limit = p->hop_limit;
		frame->sgid = p->sgid;
		frame->dgid = p->dgid;
	}
	frame->qpn = qp->qpn;
	frame->addresses = qp->says;
	if (p->referred) {
		bytes = p->referred;
		psns = packets_of(bytes, qp->pmtu);
	} else if (!p->offers) {
		frame->n_pieces = 0;
	}
	frame->psns = p->offers ? 0 : psns;
	COUNT_BY(qp->nic, tx_packets, psns);
	COUNT_BY(qp->nic, tx_bytes, bytes);
	qp->counters.tx_packets += psns;
	qp->counters.tx_bytes += bytes;
	trace_add(qp->nic, qp->qpn, NIC_TR_tx, p->psn, p->op->value);
}

bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame)
{
	const struct nic_qp *qp =
		frame->len >= BTH_LEN ? table_find(&nic->qps, wire_get24(frame->data + BTH_QPN)) : NULL;

	if (!(frame->flags & NIC_RX_BARE) || !qp || qp->type == NIC_QPT_UD || frame->src_qpn != qp->attr.dest_qp_num ||
	    frame->addresses != qp->hears)
		return false;
	frame->flags ^= NIC_RX_BARE | NIC_RX_UDP_PAYLOAD;
	frame->sgid = qp->attr.av.dgid;
	frame->dgid = qp->sgid;
	frame->udp_sport = qp->udp_sport;		   /* the same in both directions */
	frame->tclass = qp->attr.av.tclass & (uint8_t)~3u; /* without an ECN mark */
	frame->hop_limit = qp->attr.av.hop_limit ? qp->attr.av.hop_limit : 64;
	return true;
}
