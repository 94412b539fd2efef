/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_quick.c - posts and sends a fetch of one element at once: see quick.h. The op is then in the state in which
 * rdm_pump() would leave it.
 */
#include "rdm_quick.h"

#include "post.h"
#include "quick.h"
#include "rdm_ops.h"
#include "req_quick.h"

/** Whether requests to the peer are posted as soon as they are made. */
static inline bool is_free(const struct nic_rdm_peer *peer)
{
	return peer->state == RDM_UP && !peer->left && !peer->ep->going && list_empty(&peer->queue) && !peer->reads_out;
}

/** Whether a vector has one segment of `size` bytes or, if `has` is false, no segment. */
static inline bool is_one(const struct nic_iov *iov, uint32_t n, bool has, uint32_t size)
{
	return n == has && (!has || (iov && iov->len == size));
}

static inline bool is_quick(const struct nic_rdm_atomic *r, uint32_t size)
{
	uint32_t vectors = elem_vectors(r->op);

	return size && !(r->flags & ~(uint32_t)NIC_RDM_INJECT) && r->n_remote == 1 && r->remote->len == size &&
	       is_one(r->operand, r->n_operand, vectors > 0, size) &&
	       is_one(r->compare, r->n_compare, vectors > 1, size) && is_one(r->result, r->n_result, true, size);
}

/** Copy an operand or a compare value; with NIC_RDM_INJECT it belongs to the caller, as in iov_take(). @return false:
 * it cannot be read. */
static inline bool take(struct nic *nic, const struct nic_rdm_atomic *r, const struct nic_iov *iov, uint8_t *to)
{
	if (!(r->flags & NIC_RDM_INJECT))
		return mem_peek(nic, to, iov->base, iov->len);
	memcpy(to, iov->base, iov->len);
	return true;
}

static inline bool gather(struct nic *nic, const struct nic_rdm_atomic *r, uint32_t size, uint8_t *operands)
{
	return (!r->n_operand || take(nic, r, r->operand, operands)) &&
	       (!r->n_compare || take(nic, r, r->compare, operands + size));
}

static struct rdm_op *op_new(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r, uint32_t size)
{
	struct rdm_op *op = rdm_op_get(peer, RDM_W_ATOMIC);

	if (!op)
		return NULL;
	op->kind = NIC_RDM_FETCH;
	op->context = r->context;
	op->cookie = r->cookie;
	op->flags = r->flags;
	op->length = size;
	op->begun = op->all_posted = op->counted = true;
	op->out = op->data_out = 1;
	peer->posted++;
	return op;
}

bool rdm_quick_fetch(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r)
{
	uint8_t operands[2 * QUICK_ELEMENT_MAX] __attribute__((aligned(QUICK_ELEMENT_MAX)));
	uint32_t size = quick_size(r->op, r->datatype);
	struct rdm_op *op;
	uint8_t *room;

	if (!is_quick(r, size) || !is_free(peer))
		return false;
	room = req_quick_room(peer->qp);
	if (!room || !gather(peer->ep->nic, r, size, operands))
		return false;
	op = op_new(peer, r, size);
	if (!op)
		return false;
	qp_post_fetch(peer->qp, &(struct qp_fetch){
					.wr_id = (uintptr_t)op,
					.flags = NIC_SEND_SIGNALED,
					.op = r->op,
					.datatype = r->datatype,
					.rkey = r->remote->rkey,
					.remote_addr = r->remote->addr,
					.result = {(uintptr_t)r->result->base, size, nic_mr_lkey(peer->ep->all)},
					.operands = operands,
				});
	req_quick_send(peer->qp, room);
	return true;
}
