/* SPDX-License-Identifier: BSD-3-Clause */
/* req_tlp.h - tail loss probes, only for QPs of endpoints (qp_is_endpoints). In all other QPs tlp.at stays TIME_NEVER,
 * and the other tlp fields are unused. Private to nic/. */
#ifndef NIC_REQ_TLP_H
#define NIC_REQ_TLP_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;

#define REQ_TLP_OVER UINT8_MAX

/** Whether there were probes since the last progress: sending then does not restart the ACK timer. */
#define req_tlp_is_again(qp) ((qp)->req.tlp.again != 0 && (qp)->req.tlp.again != REQ_TLP_OVER)

/** Call when a packet was sent for the first time. */
void req_tlp_sent(struct nic_qp *qp);
/** Call when PSNs before comp.una have been acknowledged. */
void req_tlp_progress(struct nic_qp *qp);
/** Call when the ACK timer has been started. */
void req_tlp_start(struct nic_qp *qp);
/** Call when no response has arrived by tlp.at. @return whether to retransmit what is in flight. */
bool req_tlp_again(struct nic_qp *qp);

#endif
