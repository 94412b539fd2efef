/* SPDX-License-Identifier: BSD-3-Clause */
/* tm_qp.h - queue pairs on an SRQ that matches tags. Private to nic/. */
#ifndef NIC_TM_QP_H
#define NIC_TM_QP_H

#include "qp.h"
#include "qp_owner.h"

/** The owner of all QPs on SRQs that match tags. */
extern const struct qp_owner tm_owner;

/** Replace the CQs and the send queue that the application asks for by those that tag matching needs. */
void tm_narrow(struct nic_qp_init *init);
/** If the QP may send, begin those of its rendezvous that wait, as many as its send queue has room for. */
void tm_start(struct nic_qp *qp);
/** The QP is reset or destroyed: its rendezvous end without completions, and an unexpected message that has arrived
 * only in part is no longer counted. */
void tm_forget(struct nic_qp *qp);

#endif
