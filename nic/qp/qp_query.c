/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_query.c - queries of a queue pair's attributes, state and counters; its user pointer. */
#include "qp.h"

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

void nic_qp_set_user(struct nic_qp *qp, void *user)
{
	qp->events.user = user;
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
		.xrcd = qp->xrcd,
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
