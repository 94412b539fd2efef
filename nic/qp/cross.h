/* SPDX-License-Identifier: BSD-3-Clause */
/* cross.h - WAIT, ENABLE and managed queues. Private to nic/. */
#ifndef NIC_CROSS_H
#define NIC_CROSS_H

#include <stdbool.h>

struct nic_qp;
struct nic_qp_init;
struct nic_send_wr;
struct swqe;

void cross_init(struct nic_qp *qp, const struct nic_qp_init *init);
/** Set the counts to 0, so that no request is enabled. Call when the queues have been emptied. */
void cross_reset(struct nic_qp *qp);
/** Let the counts of the send queue begin behind the flushed requests. Call when the QP returns from SQE to RTS. */
void cross_recover(struct nic_qp *qp);
/** Cancel the posted WAITs, because they will not run, and release their CQs. Repeated calls are harmless. */
void cross_release(struct nic_qp *qp);
/** Validate a cross-channel request. The caller has checked that the QP may post such requests. @return 0, -EINVAL. */
int cross_check(const struct nic_qp *qp, const struct nic_send_wr *wr);
/** Reserve what a cross-channel request needs while it waits. @return 0, -ENOMEM. */
int cross_room(const struct nic_send_wr *wr);
/** Fill in the cross-channel part of the WQE and advance the counts. */
void cross_post(struct swqe *w, const struct nic_send_wr *wr);
/** Run the cross-channel request in WQE sq.next. @return false: the queue has to wait, or the WQE failed. */
bool cross_run(struct nic_qp *qp, struct swqe *w);

#endif
