/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_recv.c - the receive WQE in use: taking and completing it. */
#include "cq.h"
#include "qp.h"
#include "qp_recv.h"
#include "xrc_target.h"

bool qp_take_wqe(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;

	resp->have_wqe = qp->srq ? srq_pop(qp->srq, resp->wqe) : rq_pop(&qp->rq, resp->wqe);
	return resp->have_wqe;
}

void qp_complete_recv(struct nic_qp *qp, const struct nic_wc *fields, bool solicited)
{
	struct nic_cq *cq = qp->recv_cq ? qp->recv_cq : xrc_cq(qp);
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
	if (cq)
		cq_push(cq, &wc, solicited);
}
