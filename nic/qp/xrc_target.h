/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_target.h - the SRQ, PD and CQ that a request to an XRC target QP uses (IBTA A14). Private to nic/. */
#ifndef NIC_XRC_TARGET_H
#define NIC_XRC_TARGET_H

#include "qp.h"

/** Before the QP executes a request: let the QP use the SRQ that the request names, and the SRQ's PD and CQ.
 * @return false: the QP's XRC domain has no such SRQ. */
bool xrc_enter(struct nic_qp *qp, uint32_t srqn);
/** After the QP has executed the request: take the SRQ, PD and CQ away from the QP. */
void xrc_leave(struct nic_qp *qp);

/** The PD of an SRQ that an earlier request named; NULL: the SRQ is gone. */
const struct nic_pd *xrc_pd(const struct nic_qp *qp, uint32_t srqn);
/** The CQ of the SRQ that the latest message named; NULL: the SRQ is gone, and its receive WQEs with it. */
struct nic_cq *xrc_cq(const struct nic_qp *qp);

#endif
