/* SPDX-License-Identifier: BSD-3-Clause */
/* resp.h - the responder: takes requests, queues responses. Private to nic/. */
#ifndef NIC_RESP_H
#define NIC_RESP_H

#include "errors.h"
#include "qp.h"

struct packet;

void resp_reset(struct nic_qp *qp);
/** Handle a request packet for this RC, UC or XRC QP. @return whether the request had the expected PSN and was
 * executed; always false for UC. */
bool resp_rx(struct nic_qp *qp, const struct packet *p);
/** Refuse the request with this PSN, which ends the connection: queue the error's NAK, if it has one, report a
 * completion or event, and put the QP in error. */
void resp_fail(struct nic_qp *qp, enum error_id error, uint32_t psn);
/** Discard all queued responses, ACKs and NAKs. */
void resp_cancel(struct nic_qp *qp);
/** Tell the QP's owner, if any, that the peer has accessed memory. Not for READs: tx_resource() reports them, once they
 * are answered. */
void resp_served(struct nic_qp *qp, const struct packet *p);
/** Clear `todo` of a resource: its queued response has been sent or is no longer needed. */
static inline void resp_resource_done(struct responder *resp, struct resp_resource *r)
{
	r->todo = false;
	resp->res_todo--;
}

#endif
