/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_state.h - states of queue pairs: legal transitions, errors. Private to nic/. */
#ifndef NIC_QP_STATE_H
#define NIC_QP_STATE_H

#include "core.h"

/** Set the state, trace the change, and update the fields that depend on the state (qp_hold_by_state). */
void qp_set_state(struct nic_qp *qp, enum nic_qp_state state);
/** Set `posts`, and the bits HELD_STATE and HELD_BOUND of `held`, as the QP's state requires. */
void qp_hold_by_state(struct nic_qp *qp);
/** Enter the error state: flush both queues (C10-42), stop timers. No effect if the QP is already in ERR. */
void qp_enter_error(struct nic_qp *qp);
/** Handle an error of the send queue: an RC or XRC QP enters ERR. A UC or UD QP enters SQE, with its send queue flushed
 *  (QS-09). */
void qp_send_error(struct nic_qp *qp);

/** Move the QPs of overflowed CQs to the error state (QS-14). Called at the end of every call that may complete
 *  something, never from within the code that overflowed the CQ. */
void nic_tell_failed_cqs(struct nic *nic);
static inline void nic_settle_failed_cqs(struct nic *nic)
{
	if (__builtin_expect(!list_empty(&nic->cq_failed), 0))
		nic_tell_failed_cqs(nic);
}

/** Check that the transition is legal with these attributes (table of 11.2.4.2). @return 0, -EINVAL, -EOPNOTSUPP. */
int qp_transition_check(enum nic_qp_type type, enum nic_qp_state from, enum nic_qp_state to, uint32_t mask);

#endif
