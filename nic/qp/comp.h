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
/** Handle a response packet for this RC QP. @return whether it answers an in-flight request. */
bool comp_rx(struct nic_qp *qp, const struct packet *p);
/** Complete the oldest WQE. */
void comp_finish(struct nic_qp *qp, enum error_id error);
/** Complete the local operations at the tail of the send queue that have run. */
void comp_finish_local(struct nic_qp *qp);
/** Predict where the payload of this response will go if the response answers the READ in WQE sq.tail + ahead. @return
 * NULL if the response is not the complete response to that READ, or if the READ does not have exactly one SGE, or if
 * the SGE is not writable. */
uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead);
/** Complete everything in the send queue with a flush error. */
void comp_flush(struct nic_qp *qp);

#endif
