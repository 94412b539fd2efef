/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp_state.c - which state transitions a QP may make and with which attributes (IBTA 10.3.1, table of 11.2.4.2),
 * as a table, and what entering an error state entails (10.2.4, 11.2.5). Attributes that the table lists neither as
 * required nor as optional are refused. On the way to RTS an XRC initiator also accepts the attributes that a target
 * requires, and vice versa: perftest passes all of them to both. Alternate paths (automatic path migration) are not
 * supported: the migration state is always MIGRATED, so setting it changes nothing.
 */
#include "comp.h"
#include "cq.h"
#include "qp.h"
#include "qp_owner.h"
#include "tm_qp.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "refer.h"
#include "req_tx.h"
#include "resp.h"
#include "timer.h"
#include "wr.h"
#include "xrc.h"

#define RC  (1 << NIC_QPT_RC)
#define UC  (1 << NIC_QPT_UC)
#define UD  (1 << NIC_QPT_UD)
#define INI (1 << NIC_QPT_XRC_INI)
#define TGT (1 << NIC_QPT_XRC_TGT)
#define XRC (INI | TGT)

/* Names as in the specification's table. */
#define PKEY   NIC_QP_PKEY_INDEX
#define PORT   NIC_QP_PORT
#define QKEY   NIC_QP_QKEY
#define ACCESS NIC_QP_ACCESS_FLAGS
#define AV     NIC_QP_AV
#define MTU    NIC_QP_PATH_MTU
#define DQPN   NIC_QP_DEST_QPN
#define RQPSN  NIC_QP_RQ_PSN
#define SQPSN  NIC_QP_SQ_PSN
#define RDIN   NIC_QP_MAX_DEST_RD_ATOMIC
#define RDOUT  NIC_QP_MAX_QP_RD_ATOMIC
#define RNRT   NIC_QP_MIN_RNR_TIMER
#define TMO    NIC_QP_TIMEOUT
#define RETRY  NIC_QP_RETRY_CNT
#define RNRR   NIC_QP_RNR_RETRY
#define CUR    NIC_QP_CUR_STATE
#define SQDN   NIC_QP_EN_SQD_ASYNC_NOTIFY
#define MIG    NIC_QP_PATH_MIG_STATE

static const struct transition {
	uint8_t from, to;
	uint16_t types;
	uint32_t required, optional;
} transitions[] = {
	{NIC_QPS_RESET, NIC_QPS_INIT, RC | UC | XRC, PKEY | PORT | ACCESS, 0},
	{NIC_QPS_RESET, NIC_QPS_INIT, UD, PKEY | PORT | QKEY, 0},
	{NIC_QPS_INIT, NIC_QPS_INIT, RC | UC | XRC, 0, PKEY | PORT | ACCESS},
	{NIC_QPS_INIT, NIC_QPS_INIT, UD, 0, PKEY | PORT | QKEY},
	{NIC_QPS_INIT, NIC_QPS_RTR, RC | TGT, AV | MTU | DQPN | RQPSN | RDIN | RNRT, ACCESS | PKEY},
	{NIC_QPS_INIT, NIC_QPS_RTR, UC, AV | MTU | DQPN | RQPSN, ACCESS | PKEY},
	{NIC_QPS_INIT, NIC_QPS_RTR, INI, AV | MTU | DQPN | RQPSN, ACCESS | PKEY | RDIN | RNRT},
	{NIC_QPS_INIT, NIC_QPS_RTR, UD, 0, PKEY | QKEY},
	{NIC_QPS_RTR, NIC_QPS_RTS, RC, TMO | RETRY | RNRR | SQPSN | RDOUT, CUR | ACCESS | RNRT | MIG},
	{NIC_QPS_RTR, NIC_QPS_RTS, UC, SQPSN, CUR | ACCESS | MIG},
	{NIC_QPS_RTR, NIC_QPS_RTS, INI, TMO | RETRY | RNRR | SQPSN | RDOUT, CUR | ACCESS | MIG},
	{NIC_QPS_RTR, NIC_QPS_RTS, TGT, TMO | SQPSN, CUR | ACCESS | RNRT | RETRY | RNRR | RDOUT | MIG},
	{NIC_QPS_RTR, NIC_QPS_RTS, UD, SQPSN, CUR | QKEY},
	{NIC_QPS_RTS, NIC_QPS_RTS, RC | TGT, 0, CUR | ACCESS | RNRT | MIG},
	{NIC_QPS_RTS, NIC_QPS_RTS, UC | INI, 0, CUR | ACCESS | MIG},
	{NIC_QPS_RTS, NIC_QPS_RTS, UD, 0, CUR | QKEY},
	{NIC_QPS_RTS, NIC_QPS_SQD, RC | UC | UD | XRC, 0, SQDN},
	{NIC_QPS_SQD, NIC_QPS_RTS, RC | TGT, 0, CUR | ACCESS | RNRT | MIG},
	{NIC_QPS_SQD, NIC_QPS_RTS, UC | INI, 0, CUR | ACCESS | MIG},
	{NIC_QPS_SQD, NIC_QPS_RTS, UD, 0, CUR | QKEY},
	{NIC_QPS_SQD, NIC_QPS_SQD, RC, 0, PORT | AV | TMO | RETRY | RNRR | RDOUT | RDIN | ACCESS | PKEY | RNRT | MIG},
	{NIC_QPS_SQD, NIC_QPS_SQD, INI, 0, PORT | AV | TMO | RETRY | RNRR | RDOUT | ACCESS | PKEY | MIG},
	{NIC_QPS_SQD, NIC_QPS_SQD, TGT, 0, PORT | AV | TMO | RDIN | ACCESS | PKEY | RNRT | MIG},
	{NIC_QPS_SQD, NIC_QPS_SQD, UC, 0, AV | ACCESS | PKEY | MIG},
	{NIC_QPS_SQD, NIC_QPS_SQD, UD, 0, PKEY | QKEY},
	{NIC_QPS_SQE, NIC_QPS_RTS, UC, 0, CUR | ACCESS},
	{NIC_QPS_SQE, NIC_QPS_RTS, UD, 0, CUR | QKEY},
};

int qp_transition_check(enum nic_qp_type type, enum nic_qp_state from, enum nic_qp_state to, uint32_t mask)
{
	uint32_t given = mask & ~(uint32_t)NIC_QP_STATE;

	if (mask & (NIC_QP_ALT_PATH | NIC_QP_CAP))
		return -EOPNOTSUPP;
	if (to == NIC_QPS_RESET || to == NIC_QPS_ERR)
		return given & ~(uint32_t)CUR ? -EINVAL : 0; /* legal from any state, with no attribute but CUR */
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == from && t->to == to && (t->types & 1 << type))
			return (given & t->required) == t->required && !(given & ~(t->required | t->optional))
				       ? 0
				       : -EINVAL;
	}
	return -EINVAL;
}

void qp_hold_by_state(struct nic_qp *qp)
{
	bool sends = qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD;

	qp->posts = qp->state < NIC_QPS_RTS || qp->owner == &tm_owner
			    ? 0
			    : (uint8_t)(WR_TYPE(qp->type) | (qp->cross.posts ? WR_CROSS : 0));
	req_hold(qp, HELD_STATE, !sends);
	req_hold(qp, HELD_BOUND, qp->state == NIC_QPS_SQD || qp->cross.managed);
}

void qp_set_state(struct nic_qp *qp, enum nic_qp_state state)
{
	trace_add(qp->nic, qp->qpn, NIC_TR_state, qp->state, state);
	qp->state = state;
	qp_hold_by_state(qp);
}

static void timers_stop(struct nic_qp *qp)
{
	qp->req.ack_deadline = qp->req.rnr_until = TIME_NEVER;
	req_hold(qp, HELD_RNR, false);
	qp_timer(qp);
}

/* Complete every posted receive with a flush error. If the QP has an SRQ, flush only the WQE that this QP has taken
 * from the SRQ. */
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
	if (qp->srq && !qp->xrcd)
		event_raise(qp->nic, &qp->events, NIC_EVENT_QP_LAST_WQE);
	if (qp->xrcd && qp->xrcd->sharing)
		qp->xrcd->sharing->drop(qp);
	if (qp->rdm_peer || qp->owner == &tm_owner)
		qp->owner->failed(qp);
}

void qp_send_error(struct nic_qp *qp)
{
	if (qp_is_reliable(qp)) {
		qp_enter_error(qp);
		return;
	}
	if (qp->state != NIC_QPS_RTS && qp->state != NIC_QPS_SQD)
		return;
	qp_set_state(qp, NIC_QPS_SQE);
	comp_flush(qp);
	qp->req.failed = ERR_none;
	req_hold(qp, HELD_FAILED, false);
	qp->req.packet = 0;
}

void nic_tell_failed_cqs(struct nic *nic)
{
	while (!list_empty(&nic->cq_failed)) {
		struct nic_cq *cq = list_entry(list_first(&nic->cq_failed), struct nic_cq, failed);

		list_remove(&cq->failed);
		for (uint32_t i = 0; i <= nic->qps.mask && nic->qps.slots; i++) {
			struct nic_qp *qp = nic->qps.slots[i].value;

			if (!qp || (qp->send_cq != cq && qp->recv_cq != cq) || qp->state == NIC_QPS_RESET)
				continue;
			if (qp->state != NIC_QPS_ERR)
				event_raise(nic, &qp->events, NIC_EVENT_QP_FATAL);
			qp_enter_error(qp);
		}
	}
}
