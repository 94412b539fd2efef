/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_tx.h - posting requests to queue pairs. Private to nic/. */
#ifndef NIC_RDM_TX_H
#define NIC_RDM_TX_H

#include "rdm.h"

/** Append the op to its peer's queue, and post what can be posted. */
void rdm_submit(struct rdm_op *op);
/** Post from the peer's queue as long as the QP has room. */
void rdm_pump(struct nic_rdm_peer *peer);
/** Act on the op's completions. */
void rdm_op_settle(struct rdm_op *op);
/** Fail ops that the peer will not answer any more: all, or with `begun_only` answers and requests that have begun. */
void rdm_fail(struct nic_rdm_peer *peer, uint32_t status, bool begun_only);
/** The endpoint is being destroyed: return what its ops hold of a shared receive queue. */
void rdm_ops_leave(struct nic_rdm *ep);
/** Post a work request of the op; `data`: it moves data, not just a header. @return as nic_post_send. */
int rdm_post(struct rdm_op *op, struct nic_send_wr *wr, bool data);
/** TAKEN or RESULT has come for the op. */
void rdm_op_taken(struct rdm_op *op);
/** TAKEN has come for the op with this id. */
void rdm_taken(struct nic_rdm_peer *peer, uint32_t id);
/** Completion of a queue pair's work request. */
void rdm_completed(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);
/** See struct qp_owner. */
bool rdm_offered(const struct swqe *w, struct nic_piece *piece);

#endif
