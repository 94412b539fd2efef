/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foresee.c - where the payloads of packets by reference will go that lie behind the one which is being executed: a carrier that
 * fetches several in one call pays once for what each call costs.
 *
 * Nothing is executed, and nothing is taken for granted later: each packet is checked and executed in its turn, and fetches its own
 * payload if it went elsewhere. So what is foreseen has to be right nearly always, and harmless always: it is memory that the packet
 * may write to as things stand, a request's of the very QP and in its sequence, a READ's that waits for just this answer, a
 * receive's that nobody gets before it. If the QP fails before its turn comes, or the sender takes a payload back, what has been
 * written lies there as half a message does whose other half never comes: in a receive, too, which stays posted.
 *
 * Only what is simple is foreseen: messages of one packet, one after the other, of the same QP and kind, each to one piece of memory.
 *
 * Owns nothing.
 */
#include "refer.h"

/** A WRITE, without more to it. */
static uint8_t *foresee_write(const struct nic_qp *qp, const struct packet *p, const struct nic_foresight *f)
{
	uint8_t *app = NULL;

	return p->op->extra == OP_PLAIN && p->psn == f->psn && resp_would_take(qp, p, &app) ? app : NULL;
}

/** Likewise, of what is sent besides. */
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

/** @return false: of such a packet nothing is foreseen. */
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
		f->qp = NULL; /* what is behind it depends on it */
		return NULL;
	}
	f->psn = psn_add(f->psn, psns_of(f->qp, &p));
	f->n++;
	return app;
}
