/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_modify.c - changing attributes and states of queue pairs (IBTA 10.3, 11.2.4); legal transitions: qp_state.c. */
#include "ah.h"
#include "comp.h"
#include "cross.h"
#include "mtu.h"
#include "path.h"
#include "psn.h"
#include "qp.h"
#include "qp_create.h"
#include "qp_state.h"
#include "refer.h"
#include "req.h"
#include "resp.h"
#include "source.h"
#include "tm_qp.h"
#include "trig.h"

static bool values_legal(const struct nic_qp *qp, const struct nic_qp_attr *a, uint32_t mask)
{
	const struct nic *nic = qp->nic;
	uint32_t max_rd = nic->cfg.limits.max_rd_atomic;
	const uint32_t access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |
				NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_MW_BIND | NIC_ACCESS_FLUSH_GLOBAL |
				NIC_ACCESS_FLUSH_PERSISTENT;

	return !((mask & NIC_QP_AV && !av_legal(nic, &a->av)) || (mask & NIC_QP_PORT && a->port_num != 1) ||
		 (mask & NIC_QP_PKEY_INDEX && a->pkey_index != 0) ||
		 (mask & NIC_QP_PATH_MTU && (a->path_mtu < NIC_MTU_256 || a->path_mtu > nic->cfg.active_mtu)) ||
		 (mask & NIC_QP_ACCESS_FLAGS && a->qp_access_flags & ~access) ||
		 (mask & NIC_QP_DEST_QPN && a->dest_qp_num > PSN_MASK) ||
		 (mask & NIC_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > max_rd) ||
		 (mask & NIC_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > max_rd) ||
		 (mask & NIC_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) || (mask & NIC_QP_TIMEOUT && a->timeout > 31) ||
		 (mask & NIC_QP_RETRY_CNT && a->retry_cnt > 7 && !qp_is_endpoints(qp)) ||
		 (mask & NIC_QP_RNR_RETRY && a->rnr_retry > 7) ||
		 (mask & NIC_QP_CUR_STATE && a->cur_qp_state != qp->state));
}

#define SPORT_BASE 0xc000 /* lowest UDP source port of flows, by convention */

/* The UDP source port of a flow (RQ-19). If none is configured, it depends only on the product of both QPNs, so that it
 * never changes and both directions of a connection have the same port. */
static uint16_t flow_sport(const struct nic_qp *qp)
{
	uint64_t v = (uint64_t)qp->qpn * (qp->attr.dest_qp_num ? qp->attr.dest_qp_num : 1);

	if (qp->nic->cfg.udp_sport)
		return qp->nic->cfg.udp_sport;
	v ^= v >> 20;
	v ^= v >> 40;
	return (uint16_t)(SPORT_BASE | (((uint32_t)v & 0x3fff) ^ ((uint32_t)v >> 14 & 0x3f)));
}

/* Ensure room for n responder resources. The ring only grows; a grown ring keeps the saved results (RP-11). */
static int resources_alloc(struct nic_qp *qp, uint32_t n)
{
	struct responder *resp = &qp->resp;
	uint32_t size = round_up_pow2(n ? n : 1);
	size_t room = resp->saved ? qp->sq.max_fetch : 0; /* bytes saved per resource; 0: no result is saved yet */
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
	if (qp->type == NIC_QPT_UD || source_is_closed(qp))
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

/* Enter a state, and update requester, completer and responder accordingly. */
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

		/* WQEs that have been started are finished in SQD, too, even those that a retry will send again. */
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
	if (to != NIC_QPS_RTS)
		return;
	if (qp->owner == &tm_owner)
		tm_start(qp);
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
		qp_purge_cqs(qp);
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
