/* SPDX-License-Identifier: BSD-3-Clause */
/* req_early.h - retransmission before the ACK timer expires, of QPs of endpoints only (`owner`): of others, early.at
 * stays TIME_NEVER, and nothing looks at the rest. Private to nic/. */
#ifndef NIC_REQ_EARLY_H
#define NIC_REQ_EARLY_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;

#define REQ_EARLY_OVER UINT8_MAX

/** An early retransmission is under way: sending does not restart the ACK timer. */
#define req_early_is_again(qp) ((qp)->req.early.again != 0 && (qp)->req.early.again != REQ_EARLY_OVER)

/** A packet was sent for the first time. */
void req_early_sent(struct nic_qp *qp);
/** PSNs before comp.una are acknowledged. */
void req_early_progress(struct nic_qp *qp);
/** The ACK timer has been started. */
void req_early_start(struct nic_qp *qp);
/** No answer has come by early.at. @return whether to retransmit what is in flight. */
bool req_early_again(struct nic_qp *qp);

#endif
