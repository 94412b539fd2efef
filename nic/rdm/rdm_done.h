/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_done.h - completions of posted requests. Private to nic/. */
#ifndef NIC_RDM_DONE_H
#define NIC_RDM_DONE_H

#include "rdm.h"

/* Bit in wr_id: the work request is a WRITTEN or FIN. wr_id is the address of an op, in which this bit is always 0. */
#define RDM_TRAILER 1u

static inline struct rdm_op *rdm_op_of(uint64_t wr_id)
{
	return (struct rdm_op *)(uintptr_t)(wr_id & ~(uint64_t)RDM_TRAILER);
}

/** Act on the op's completions. */
void rdm_op_settle(struct rdm_op *op);
/** Fail ops that the peer will no longer answer: all ops, or with `begun_only` only answers and requests that have
 *  begun. */
void rdm_fail(struct nic_rdm_peer *peer, uint32_t status, bool begun_only);
/** The endpoint is being destroyed: release the receives and messages of a shared receive queue that its ops use. */
void rdm_ops_leave(struct nic_rdm *ep);
/** FIN or RESULT has arrived for the op. */
void rdm_op_answered(struct rdm_op *op);
/** FIN has arrived for the op with this id. */
void rdm_fin(struct nic_rdm_peer *peer, uint32_t id);
/** Called for each completion of an endpoint's queue pairs. */
void rdm_completed(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);

#endif
