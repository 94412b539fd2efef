/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_recv.h - the receive WQE in use. Private to nic/. */
#ifndef NIC_QP_RECV_H
#define NIC_QP_RECV_H

#include "qp.h"

struct nic_wc;

/** Take a receive WQE from the QP's queue or SRQ into resp.wqe. @return false: none is available. */
bool qp_take_wqe(struct nic_qp *qp);
/** Complete the receive WQE in use and forget it. @param fields the completion; wr_id and qp_num need not be set. */
void qp_complete_recv(struct nic_qp *qp, const struct nic_wc *fields, bool solicited);
/** The PD against which the SGEs of receive WQEs are checked: the SRQ's, if the QP has an SRQ. */
static inline struct nic_pd *qp_recv_pd(const struct nic_qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

#endif
