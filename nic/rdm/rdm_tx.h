/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_tx.h - posting requests to queue pairs. Private to nic/. */
#ifndef NIC_RDM_TX_H
#define NIC_RDM_TX_H

#include "rdm.h"

/** Append the op to its peer's queue, and post as much of the queue as possible. */
void rdm_submit(struct rdm_op *op);
/** Post ops from the peer's queue as long as the QP has room. */
void rdm_pump(struct nic_rdm_peer *peer);
/** Post a work request of the op. `data`: false for WRITTEN and FIN. @return as nic_post_send. */
int rdm_post(struct rdm_op *op, struct nic_send_wr *wr, bool data);
/** See struct qp_owner. */
bool rdm_offered(const struct swqe *w, struct nic_piece *piece);

#endif
