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
/** A response packet for this RC QP. @return whether it answers an in-flight request. */
bool comp_rx(struct nic_qp *qp, const struct packet *p);
/** Complete the oldest WQE. */
void comp_finish(struct nic_qp *qp, enum error_id error);
/** Complete local operations that are now the oldest. */
void comp_finish_local(struct nic_qp *qp);
/** Destination of this response, if it is the whole answer to the READ `ahead` WQEs after sq.tail. @return NULL: it is
 *  not, or that READ has other than one SGE, or one that may not be written to. */
uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead);
/** Complete everything in the send queue with a flush error. */
void comp_flush(struct nic_qp *qp);

#endif
