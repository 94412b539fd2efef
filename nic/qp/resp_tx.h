/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_tx.h - sending of queued responses, ACKs and NAKs. Private to nic/. */
#ifndef NIC_RESP_TX_H
#define NIC_RESP_TX_H

#include <stdbool.h>

struct nic_qp;
struct nic_tx_frame;

/** Write the next response packet to the frame, if one is due. */
bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
bool resp_pending(const struct nic_qp *qp);
/** The QP is about to enter the error state: responses and the ACK for executed requests still go out, at once. */
void resp_say_last(struct nic_qp *qp);

#endif
