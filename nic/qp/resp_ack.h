/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_ack.h - queueing of ACKs and NAKs. Private to nic/. */
#ifndef NIC_RESP_ACK_H
#define NIC_RESP_ACK_H

#include <stdint.h>

struct nic_qp;

/** Queue an ACK for everything before ePSN. */
void resp_ack(struct nic_qp *qp);
/** Queue an ACK like resp_ack(), but for a packet without AckReq: the ACK may wait until the NIC is idle. */
void resp_ack_lazily(struct nic_qp *qp);
/** Queue a NAK or RNR NAK. */
void resp_nak(struct nic_qp *qp, uint8_t syndrome, uint32_t psn);
/** Make the queued ACK or NAK due now. */
void resp_ack_due(struct nic_qp *qp);

#endif
