/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xrc_target.c - the SRQ, PD and CQ that a request to an XRC target QP uses. The QP keeps no SRQ between requests, so
 * an SRQ may be destroyed at any time.
 */
#include "xrc_target.h"

#include "cq.h"
#include "nic_xrc.h"
#include "source.h"
#include "xrc.h"

bool xrc_enter(struct nic_qp *qp, uint32_t srqn)
{
	struct nic_srq *srq = xrc_srq(qp->xrcd, srqn);

	if (!srq)
		return false;
	qp->srq = srq;
	qp->pd = srq->pd;
	qp->recv_cq = srq->cq;
	return true;
}

void xrc_leave(struct nic_qp *qp)
{
	qp->srq = NULL;
	qp->pd = NULL;
	qp->recv_cq = NULL;
}

const struct nic_pd *xrc_pd(const struct nic_qp *qp, uint32_t srqn)
{
	const struct nic_srq *srq = xrc_srq(qp->xrcd, srqn);

	return srq ? srq->pd : NULL;
}

struct nic_cq *xrc_cq(const struct nic_qp *qp)
{
	const struct nic_srq *srq = xrc_srq(qp->xrcd, qp->resp.srqn);

	return srq ? srq->cq : NULL;
}

struct nic_qp *nic_xrc_target(const struct nic_xrcd *xrcd, uint32_t qpn)
{
	struct nic_qp *qp = table_find(&xrcd->nic->qps, qpn);

	return qp && qp->xrcd == xrcd && !source_is_closed(qp) ? qp : NULL; /* no guest (xrc/guest.c) */
}
