/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_tagged.h - operations on elements of posted receives. Private to nic/. */
#ifndef NIC_RDM_TAGGED_H
#define NIC_RDM_TAGGED_H

#include "rdm.h"

/** Copy an operation's operands and compare values into op->unexpected. @return false: no memory now. */
bool rdm_operate_prepare(struct rdm_op *op);
int rdm_operate_post(struct rdm_op *op);
int rdm_result_post(struct rdm_op *op);
/** Whether an OPERATE's header is valid: flags, operation, datatype, lengths. */
bool rdm_operate_makes_sense(const struct rdm_header *h);
/** An OPERATE is complete and has a receive: execute the OPERATE, send the answer (which takes over `unexpected`), and
 *  complete the receive. */
void rdm_operate(struct rdm_unexpected *unexpected);
/** The connection was lost before all operands of an OPERATE arrived: end its receive with NIC_RDM_PEER_LOST. */
void rdm_operate_lost(struct rdm_unexpected *unexpected);
/** The application has discarded an OPERATE: answer with an error. The answer takes over `unexpected`. */
void rdm_operate_discard(struct rdm_unexpected *unexpected);
/** A part of a RESULT's body has arrived, at offset `at` of the body. When all parts have arrived, rdm_result is
 *  called. */
void rdm_result_add(struct nic_rdm_peer *peer, const struct rdm_header *h, uint64_t at, const uint8_t *data,
		    uint64_t len);
void rdm_result(struct nic_rdm_peer *peer, const struct rdm_header *h);

#endif
