/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_tx.h - sending of queued responses, ACKs and NAKs. Private to nic/. */
#ifndef NIC_RESP_TX_H
#define NIC_RESP_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "qp.h"

/** Write the next packet that is due (response, ACK or NAK) to the frame. @return false: no packet is due. */
bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
/** As resp_tx, but only responses to READs, atomics and the like: no ACK, and a NAK only in the place of a response. */
bool resp_tx_resources(struct nic_qp *qp, struct nic_tx_frame *frame);
/** Whether resp_tx may have work. */
static inline bool resp_pending(const struct nic_qp *qp)
{
	return qp->resp.res_todo || (qp->resp.ack_queued && qp->resp.ack_due);
}
/** Queue the response packets from `cursor` to `end` of the resource, even if they were sent before. */
void resp_resource_send(struct nic_qp *qp, struct resp_resource *r, uint32_t cursor, uint32_t end);
/** Let the QP send its queued responses and ACK even in the error state, and make a delayed ACK due now. Call just
 * before the QP enters the error state. */
void resp_say_last(struct nic_qp *qp);

#endif
