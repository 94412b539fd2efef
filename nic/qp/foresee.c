/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foresee.c - predicts where payloads sent by reference will go, for the packets behind the one being executed. The
 * carrier can then fetch several payloads in one system call.
 *
 * No packet is executed early, and nothing relies on a prediction: each packet is checked and executed in its turn, and
 * its payload is fetched again if the prediction was wrong. A wrong prediction costs time but does no harm, because the
 * packet is allowed to write to the predicted memory when the prediction is made: the memory is named by an in-sequence
 * request of the same QP, by a READ that waits for exactly this response, or by a receive that no earlier message
 * takes. If the QP fails before the packet's turn, or the sender revokes a payload, the bytes already written stay,
 * even in the buffer of a receive that stays posted. A message of which only half arrives leaves bytes behind in the
 * same way.
 *
 * Only simple cases are predicted: consecutive messages of one packet each, of the same QP and kind, each to one
 * contiguous piece of memory.
 *
 * Owns nothing.
 */
#include "admit.h"
#include "comp.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp_owner.h"
#include "refer.h"
#include "resp_check.h"

/** Predict the destination of a WRITE without immediate data. */
static uint8_t *foresee_write(const struct nic_qp *qp, const struct packet *p, const struct nic_foresight *f)
{
	uint8_t *app = NULL;

	return p->op->extra == OP_PLAIN && p->psn == f->psn && resp_would_take(qp, p, &app) ? app : NULL;
}

/** Predict the destination of the message that an endpoint's packet offers. */
static uint8_t *foresee_offer(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f)
{
	return p->offer && p->op->extra == OP_PLAIN && p->psn == f->psn && p->payload_len <= qp->pmtu && qp->owner
		       ? qp->owner->foresee(qp, p, f)
		       : NULL;
}

static uint8_t *foresee(struct nic_qp *qp, const struct packet *p, struct nic_foresight *f)
{
	switch (p->op->kind) {
	case OP_WRITE:
		return foresee_write(qp, p, f);
	case OP_READ_RESP:
		return comp_foresee(qp, p, f->n);
	default:
		return foresee_offer(qp, p, f);
	}
}

/** Parse a packet whose payload's destination is to be predicted. @return false: no prediction for such packets. */
static bool parse(const struct nic_rx_frame *frame, struct packet *p)
{
	return frame->reference && packet_parse(frame, p) == PACKET_OK && p->op->pos == OP_ONLY;
}

static uint32_t psns_of(const struct nic_qp *qp, const struct packet *p)
{
	return p->offer ? 1 : refer_psns(qp, p);
}

void nic_foresee_behind(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f)
{
	struct packet p;
	struct nic_qp *qp;

	*f = (struct nic_foresight){.qp = NULL};
	if (!parse(frame, &p))
		return;
	qp = table_find(&nic->qps, p.dest_qpn);
	if (!qp || qp->type != NIC_QPT_RC || (p.op->kind == OP_READ_RESP && !comp_foresee(qp, &p, 0)))
		return;
	f->qp = qp;
	f->kind = p.op->kind;
	f->psn = psn_add(p.psn, psns_of(qp, &p));
	f->n = 1;
}

uint8_t *nic_foresee(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f)
{
	struct packet p;
	uint8_t *app = NULL;

	if (f->qp && f->n < NIC_FORESEEN_MAX && parse(frame, &p) && p.dest_qpn == f->qp->qpn && p.op->kind == f->kind &&
	    rx_refusal(nic, f->qp, &p) == NIC_CNT_COUNT)
		app = foresee(f->qp, &p, f);
	if (!app) {
		f->qp = NULL; /* no prediction for this packet: predict none for later packets either */
		return NULL;
	}
	f->psn = psn_add(f->psn, psns_of(f->qp, &p));
	f->n++;
	return app;
}
