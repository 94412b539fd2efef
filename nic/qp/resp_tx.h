/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_tx.h - sending of queued responses, ACKs and NAKs. Private to nic/. */
#ifndef NIC_RESP_TX_H
#define NIC_RESP_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "qp.h"

/** Write the next response packet to the frame, if one is due. */
bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
/** Whether resp_tx may have work. */
static inline bool resp_pending(const struct nic_qp *qp)
{
	return qp->resp.res_todo || (qp->resp.ack_queued && qp->resp.ack_due);
}
/** Queue the response packets from `cursor` to `end` of the resource, even if they were sent before. */
void resp_resource_send(struct nic_qp *qp, struct resp_resource *r, uint32_t cursor, uint32_t end);
/** Call just before the QP enters the error state, so that the queued responses and ACK for executed requests are still
 * sent, at once. */
void resp_say_last(struct nic_qp *qp);

#endif
