/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_ack.c - when the responder acknowledges (IBTA 9.7.5.1). An ACK or NAK covers all packets before it, so a QP
 * never has more than one queued. resp_tx.c sends it.
 *
 * An ACK waits for ack_delay_ns at most, to cover later packets too; nic_ack_flush() ends the wait sooner: of an ACK
 * that the peer has not asked for (AckReq), only when the NIC is idle. NAKs do not wait.
 */
#include "aeth.h"
#include "qp.h"
#include "resp_ack.h"

#define ACK_AT_LEAST_EVERY 16 /* an ACK that covers this many packets is not delayed any longer */

void resp_ack_due(struct nic_qp *qp)
{
	list_remove(&qp->resp.ack_node);
	qp->resp.ack_due = true;
	qp_ready(qp);
}

/* Put the queued ACK on list `acks`, where it waits, or make it due at once. */
static void ack_wait(struct nic_qp *qp, struct list *acks)
{
	struct responder *resp = &qp->resp;

	if (!qp->nic->cfg.ack_delay_ns || resp->unacked >= ACK_AT_LEAST_EVERY) {
		resp_ack_due(qp);
	} else if (list_empty(&resp->ack_node)) {
		resp->ack_at = qp->nic->now + qp->nic->cfg.ack_delay_ns;
		list_append(acks, &resp->ack_node);
	}
}

void resp_ack(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct nic *nic = qp->nic;

	if (resp->ack_queued && resp->syndrome != AETH_ACK && resp->nak_sent)
		return; /* the queued NAK acknowledges the same packets */
	if (resp->ack_queued)
		COUNT(nic, acks_coalesced);
	else
		resp->ack_due = false;
	resp->ack_queued = true;
	resp->syndrome = AETH_ACK;
	if (resp->ack_lazy)
		list_remove(&resp->ack_node);
	resp->ack_lazy = false;
	if (!resp->ack_due)
		ack_wait(qp, &nic->ack_wait);
}

/*
 * Queue an ACK for an executed message that had no AckReq. The peer's application does not wait for the completion, but
 * the peer needs the ACK to free the send queue slot and to stop its ACK timer. One ACK covers many such messages.
 */
void resp_ack_lazily(struct nic_qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->ack_queued && !resp->ack_lazy)
		return; /* the queued ACK covers this message, too */
	if (resp->ack_queued)
		COUNT(qp->nic, acks_coalesced);
	else
		resp->ack_due = false;
	resp->ack_queued = resp->ack_lazy = true;
	resp->syndrome = AETH_ACK;
	if (!resp->ack_due)
		ack_wait(qp, &qp->nic->ack_lazy);
}

void resp_nak(struct nic_qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct responder *resp = &qp->resp;

	trace_add(qp->nic, qp->qpn, NIC_TR_nak_tx, psn, syndrome);
	resp->ack_queued = true;
	resp->ack_lazy = false;
	resp->syndrome = syndrome;
	resp->nak_psn = psn;
	resp_ack_due(qp);
}
