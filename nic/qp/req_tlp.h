/* SPDX-License-Identifier: BSD-3-Clause */
/* req_tlp.h - tail loss probes, of QPs of endpoints only (`owner`): of others, tlp.at stays
 * TIME_NEVER, and nothing looks at the rest. Private to nic/. */
#ifndef NIC_REQ_TLP_H
#define NIC_REQ_TLP_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;

#define REQ_TLP_OVER UINT8_MAX

/** A probe is under way: sending does not restart the ACK timer. */
#define req_tlp_is_again(qp) ((qp)->req.tlp.again != 0 && (qp)->req.tlp.again != REQ_TLP_OVER)

/** A packet was sent for the first time. */
void req_tlp_sent(struct nic_qp *qp);
/** PSNs before comp.una are acknowledged. */
void req_tlp_progress(struct nic_qp *qp);
/** The ACK timer has been started. */
void req_tlp_start(struct nic_qp *qp);
/** No answer has come by tlp.at. @return whether to retransmit what is in flight. */
bool req_tlp_again(struct nic_qp *qp);

#endif
