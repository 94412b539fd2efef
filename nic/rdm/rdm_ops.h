/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_ops.h - memory and ids of ops: requests in flight, and reserved answers. Private to nic/. */
#ifndef NIC_RDM_OPS_H
#define NIC_RDM_OPS_H

#include "rdm.h"

/** @return 0, -ENOMEM. */
int rdm_ops_init(struct nic_rdm *ep);
void rdm_ops_fini(struct nic_rdm *ep);
/** The op with this index, which must be less than n_ops. The op is free if its `peer` is NULL. */
struct rdm_op *rdm_op_at(const struct nic_rdm *ep, uint32_t index);
/** Whether the op is an answer to a peer's message, not a request of the application. */
static inline bool rdm_is_answer(uint8_t work)
{
	return work == RDM_W_GET || work == RDM_W_FIN || work == RDM_W_RESULT;
}
/** Whether an answer to one more message of the peer can be reserved; allocates an op for it if necessary. */
bool rdm_may_owe(const struct nic_rdm_peer *peer);
/** Whether answers to `n` more messages of the peer can be reserved without allocating memory. */
bool rdm_will_owe(const struct nic_rdm_peer *peer, uint32_t n);
/** Take an op from the free list. @return NULL: none left. An answer always gets the op that rdm_owe has reserved. */
struct rdm_op *rdm_op_get(struct nic_rdm_peer *peer, enum rdm_work work);
/** Free an op that has ended or was never begun. */
void rdm_op_free(struct rdm_op *op);
/** If the op is an OFFER, revoke the remote access that it grants the peer. */
void rdm_op_release(struct rdm_op *op);
/** The op's id, which the peer returns in its answer. */
uint32_t rdm_op_id(const struct rdm_op *op);
/** Find the op with this id. @return NULL: this peer has none. */
struct rdm_op *rdm_op_named(struct nic_rdm_peer *peer, uint32_t id);

#endif
