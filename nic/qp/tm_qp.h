/* SPDX-License-Identifier: BSD-3-Clause */
/* tm_qp.h - queue pairs on an SRQ that matches tags. Private to nic/. */
#ifndef NIC_TM_QP_H
#define NIC_TM_QP_H

#include "qp.h"
#include "qp_owner.h"

/** Owns the QPs on such SRQs. */
extern const struct qp_owner tm_owner;

/** Ask for the send queue that rendezvous need, in place of what the application asks for. */
void tm_narrow(struct nic_qp_init *init);
/** The QP may send now: begin the rendezvous that have waited for that. */
void tm_start(struct nic_qp *qp);
/** The QP is reset or destroyed: its rendezvous end without completions, and an unexpected message that is arriving
 *  does not count. */
void tm_forget(struct nic_qp *qp);

#endif
