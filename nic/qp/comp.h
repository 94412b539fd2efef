/* SPDX-License-Identifier: BSD-3-Clause */
/* comp.h - the completer: takes responses, completes send WQEs. Private to nic/. */
#ifndef NIC_COMP_H
#define NIC_COMP_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"

struct nic_qp;
struct packet;

void comp_reset(struct nic_qp *qp);
/** Handle a response packet for this RC or XRC QP. @return whether it answers an in-flight request. */
bool comp_rx(struct nic_qp *qp, const struct packet *p);
/** Complete the oldest WQE. */
void comp_finish(struct nic_qp *qp, enum error_id error);
/** Complete the oldest WQEs of the send queue as long as they are local operations that have run. */
void comp_finish_local(struct nic_qp *qp);
/** Predict where the payload of this response will go if the response answers the READ in WQE sq.tail + ahead. A
 * prediction requires that this is the complete response to that READ, and that the READ has exactly one SGE, which is
 * writable. @return NULL: no prediction. */
uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead);
/** Complete everything in the send queue with a flush error. */
void comp_flush(struct nic_qp *qp);

#endif
