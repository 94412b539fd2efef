/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_move.h - moves the responder of an XRC target to another NIC and back: its state, and what became of the request
 * that the other NIC executed. Saved results do not move. Private to nic/.
 */
#ifndef NIC_RESP_MOVE_H
#define NIC_RESP_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_event.h"

struct nic_qp;

/** State of a responder between two packets; see struct responder. */
struct resp_state {
	uint64_t va, received;
	uint32_t epsn, msn, rkey, left, srqn;
	uint8_t open; /* opcode of the latest packet of the message in progress, or RESP_NOT_OPEN */
	uint8_t nak_sent;
	uint8_t zero[2];
};
#define RESP_NOT_OPEN 0xffu

/** The events that a QP can raise: 1 << enum nic_event_type. */
#define RESP_EVENTS                                                                                                    \
	(1ull << NIC_EVENT_QP_FATAL | 1ull << NIC_EVENT_QP_REQ_ERR | 1ull << NIC_EVENT_QP_ACCESS_ERR |                 \
	 1ull << NIC_EVENT_COMM_EST | 1ull << NIC_EVENT_SQ_DRAINED | 1ull << NIC_EVENT_QP_LAST_WQE)

enum resp_answer { RESP_NO_ANSWER, RESP_ACK, RESP_LAZY_ACK, RESP_NAK };

/** What became of a request, besides responses with a result. */
struct resp_outcome {
	uint64_t events; /* 1 << enum nic_event_type: events that the QP raised */
	uint32_t nak_psn;
	uint8_t answer;	  /* enum resp_answer */
	uint8_t syndrome; /* NAK */
	uint8_t failed;	  /* the QP is in error */
	uint8_t dying;	  /* as in struct responder */
};

void resp_state_save(const struct nic_qp *qp, struct resp_state *state);
/** @return false: no responder has such a state; nothing was changed. */
bool resp_state_load(struct nic_qp *qp, const struct resp_state *state);
/** Take the outcome of a request from the QP that executed it; the QP's queued ACK or NAK is in it. All responses with
 *  results have been sent. `events` is not filled in. */
void resp_outcome_take(struct nic_qp *qp, struct resp_outcome *outcome);
/** Let a request that another QP executed have this outcome, which is another process's. The state after it has been
 *  loaded. @param accepted
 *  whether the request had the expected PSN and was executed. */
void resp_outcome_apply(struct nic_qp *qp, const struct resp_outcome *outcome, bool accepted);

#endif
