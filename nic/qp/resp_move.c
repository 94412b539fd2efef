/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_move.c - moves the responder of an XRC target to another NIC and back; see resp_move.h. */
#include "aeth.h"
#include "opcode.h"
#include "psn.h"
#include "qp.h"
#include "qp_state.h"
#include "resp.h"
#include "resp_ack.h"
#include "resp_move.h"

void resp_state_save(const struct nic_qp *qp, struct resp_state *state)
{
	const struct responder *resp = &qp->resp;

	*state = (struct resp_state){
		.va = resp->va,
		.received = resp->received,
		.epsn = resp->epsn,
		.msn = resp->msn,
		.rkey = resp->rkey,
		.left = resp->left,
		.srqn = resp->srqn,
		.open = resp->open ? resp->open->value : RESP_NOT_OPEN,
		.nak_sent = resp->nak_sent,
	};
}

bool resp_state_load(struct nic_qp *qp, const struct resp_state *state)
{
	const struct opcode *open = state->open == RESP_NOT_OPEN ? NULL : op_get(state->open);
	struct responder *resp = &qp->resp;

	if ((state->open != RESP_NOT_OPEN && (!open || open->service != OP_XRC || op_is_response(open))) ||
	    state->epsn > PSN_MASK || state->msn > PSN_MASK || state->nak_sent > 1)
		return false;
	resp->va = state->va;
	resp->received = state->received;
	resp->epsn = state->epsn;
	resp->msn = state->msn;
	resp->rkey = state->rkey;
	resp->left = state->left;
	resp->srqn = state->srqn;
	resp->open = open;
	resp->heard = true; /* by the QP that had the state before, if not by this one */
	resp->nak_sent = state->nak_sent;
	return true;
}

void resp_outcome_take(struct nic_qp *qp, struct resp_outcome *outcome)
{
	struct responder *resp = &qp->resp;

	*outcome = (struct resp_outcome){
		.nak_psn = resp->nak_psn,
		.syndrome = resp->syndrome,
		.failed = qp->state == NIC_QPS_ERR,
		.dying = resp->dying,
		.answer = RESP_NO_ANSWER,
	};
	if (resp->ack_queued)
		outcome->answer = resp->syndrome != AETH_ACK ? RESP_NAK : resp->ack_lazy ? RESP_LAZY_ACK : RESP_ACK;
	resp_cancel(qp);
	resp->dying = false;
	resp->unacked = 0;
}

/* As resp_fail() does. */
static void fail(struct nic_qp *qp, const struct resp_outcome *outcome)
{
	struct responder *resp = &qp->resp;

	if (outcome->answer == RESP_NAK) {
		resp_nak(qp, outcome->syndrome, outcome->nak_psn & PSN_MASK);
	} else if (outcome->dying && resp->ack_queued) {
		resp->syndrome = AETH_ACK;
		resp_ack_due(qp);
	}
	resp->dying = outcome->dying != 0;
	for (unsigned type = 0; type < 64; type++)
		if ((outcome->events & RESP_EVENTS) >> type & 1)
			event_raise(qp->nic, &qp->events, (enum nic_event_type)type);
	qp_enter_error(qp);
}

void resp_outcome_apply(struct nic_qp *qp, const struct resp_outcome *outcome, bool accepted)
{
	struct responder *resp = &qp->resp;

	if (outcome->failed) {
		fail(qp, outcome);
		return;
	}
	if (accepted && resp->ack_queued)
		resp->syndrome = AETH_ACK; /* replaces a NAK that has not been sent yet */
	resp->unacked += accepted;
	switch (outcome->answer) {
	case RESP_ACK:
		resp_ack(qp);
		break;
	case RESP_LAZY_ACK:
		resp_ack_lazily(qp);
		break;
	case RESP_NAK:
		resp_nak(qp, outcome->syndrome, outcome->nak_psn & PSN_MASK);
		break;
	}
}
