/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c - takes free operations, and posts operations to the NIC. */
#include <errno.h>
#include <stdlib.h>

#include "ucx.h"

struct ux_op *ux_op_take(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp)
{
	struct list *first = ep->iface->free_ops.next;
	struct ux_op *op;

	if (list_empty(&ep->iface->free_ops))
		return NULL;
	list_remove(first);
	op = list_entry(first, struct ux_op, node);
	op->ep = ep;
	op->comp = comp;
	op->kind = kind;
	op->buffer = NULL;
	return op;
}

/* A new operation must not overtake pending requests. Therefore, while requests are pending, it is refused, unless it
 * belongs to the pending request that is being retried. */
struct ux_op *ux_op_new(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp, ucs_status_t *status)
{
	bool behind = !list_empty(&ep->pending) && !ep->retrying;
	struct ux_op *op = ep->failed || behind ? NULL : ux_op_take(ep, kind, comp);

	*status = ep->failed ? ep->failed : op ? UCS_OK : UCS_ERR_NO_RESOURCE;
	return op;
}

struct ux_op *ux_op_new_buffer(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp, ucs_status_t *status)
{
	struct ux_op *op = ux_op_new(ep, kind, comp, status);
	struct ux_iface *iface = ep->iface;

	if (!op)
		return NULL;
	if (iface->free_buffers) {
		op->buffer = (uint8_t *)iface->free_buffers;
		iface->free_buffers = *iface->free_buffers;
	} else {
		op->buffer = malloc(UX_BCOPY_MAX);
	}
	if (op->buffer)
		return op;
	ux_op_free(iface, op);
	*status = UCS_ERR_NO_MEMORY;
	return NULL;
}

void ux_op_free(struct ux_iface *iface, struct ux_op *op)
{
	if (op->buffer) {
		*(void **)op->buffer = iface->free_buffers;
		iface->free_buffers = (void **)op->buffer;
	}
	list_append(iface->free_ops.next, &op->node); /* first: its memory is in the cache */
}

ucs_status_t ux_status(uint32_t nic_status)
{
	switch (nic_status) {
	case NIC_RDM_OK:
		return UCS_OK;
	case NIC_RDM_CANCELED:
		return UCS_ERR_CANCELED;
	case NIC_RDM_NO_MEMORY:
		return UCS_ERR_NO_MEMORY;
	case NIC_RDM_PEER_LOST: /* UCX's own transports report the same status */
	case NIC_RDM_UNREACHABLE:
	case NIC_WC_RETRY_EXC_ERR:
	case NIC_WC_WR_FLUSH_ERR:
		return UCS_ERR_ENDPOINT_TIMEOUT;
	default:
		return UCS_ERR_IO_ERROR;
	}
}

static ucs_status_t status_of_errno(int rc)
{
	switch (rc) {
	case 0:
		return UCS_OK;
	case -EAGAIN:
		return UCS_ERR_NO_RESOURCE;
	case -ENOMEM:
		return UCS_ERR_NO_MEMORY;
	case -EOPNOTSUPP:
		return UCS_ERR_UNSUPPORTED;
	default:
		return UCS_ERR_INVALID_PARAM;
	}
}

/* NIC_RDM_FENCE if the operation is behind a fence, else 0. */
static uint32_t fence_flag(const struct ux_op *op)
{
	return op->ep->fenced || op->ep->fences != op->ep->iface->fences ? NIC_RDM_FENCE : 0;
}

/** Take the engine's lock, unless an operation of the endpoint has failed, or a parent of this process opened the
 * device. @return false: lock not taken, operation freed. */
static bool post_begin(struct ux_op *op)
{
	struct ux_ep *ep = op->ep;

	if (ux_enter(ep->iface->md)) {
		if (!ep->broken)
			return true;
		ux_leave(ep->iface->md);
	}
	ux_op_free(ep->iface, op);
	return false;
}

/* Finish a post. Called with the engine's lock held; releases it. After a success ep->retrying is cleared: operations
 * that UCX posts before the next pending request is tried must wait behind the pending requests.
 * @param rc the result of the NIC's function. */
static ucs_status_t post_end(struct ux_op *op, int rc)
{
	struct ux_ep *ep = op->ep;
	struct ux_iface *iface = ep->iface;

	if (!rc)
		pmd_doorbell(iface->md->engine);
	ux_leave(iface->md);
	if (rc) {
		iface->full |= rc == -EAGAIN;
		ux_op_free(iface, op);
		return status_of_errno(rc);
	}
	iface->in_flight++;
	ep->retrying = false;
	if (list_empty(&ep->pending)) { /* a fence also applies to pending requests */
		ep->fenced = false;
		ep->fences = iface->fences;
	}
	list_append(&ep->ops, &op->node);
	return UCS_OK;
}

ucs_status_t ux_post_send(struct ux_op *op, uint8_t id, const struct nic_iov *iov, uint32_t n, uint32_t flags)
{
	struct nic_rdm_send send = {
		.context = op,
		.flags = flags | NIC_RDM_DATA | fence_flag(op),
		.iov = iov,
		.n_iov = n,
		.data = (uint64_t)op->ep->token << 32 | id,
	};

	if (!post_begin(op))
		return UCS_ERR_ENDPOINT_TIMEOUT;
	return post_end(op, nic_rdm_send(op->ep->peer, &send));
}

/* The R_Key to access a peer's memory with: its only one, or else that of the registration. */
static uint32_t key(const struct ux_ep *ep, uct_rkey_t rkey)
{
	return ep->key ? ep->key : (uint32_t)rkey;
}

ucs_status_t ux_post_rma(struct ux_op *op, bool read, const struct nic_iov *iov, uint32_t n, uint64_t addr,
			 uct_rkey_t rkey, uint32_t flags)
{
	struct nic_rdm_remote remote = {.addr = addr, .rkey = key(op->ep, rkey)};
	struct nic_rdm_rma rma = {
		.context = op,
		.flags = flags | fence_flag(op),
		.read = read,
		.iov = iov,
		.n_iov = n,
		.remote = &remote,
		.n_remote = 1,
	};

	for (uint32_t i = 0; i < n; i++)
		remote.len += iov[i].len;
	if (!post_begin(op))
		return UCS_ERR_ENDPOINT_TIMEOUT;
	return post_end(op, nic_rdm_rma(op->ep->peer, &rma));
}

ucs_status_t ux_post_atomic(struct ux_op *op, uint8_t elem_op, uint64_t addr, uct_rkey_t rkey)
{
	struct nic_rdm_remote remote = {.addr = addr, .len = op->width, .rkey = key(op->ep, rkey)};
	struct nic_iov operand = {&op->operand, op->width}, compare = {&op->compare, op->width};
	struct nic_iov result = {&op->old, op->width};
	struct nic_rdm_atomic atomic = {
		.context = op,
		.flags = fence_flag(op) | NIC_RDM_INJECT, /* the operands are in `op` */
		.op = elem_op,
		.datatype = op->width == 8 ? NIC_DT_UINT64 : NIC_DT_UINT32,
		.operand = &operand,
		.n_operand = 1,
		.compare = &compare,
		.n_compare = elem_op == NIC_ELEM_CSWAP,
		.result = &result,
		.n_result = op->kind == UX_FETCH,
		.remote = &remote,
		.n_remote = 1,
	};

	if (!post_begin(op))
		return UCS_ERR_ENDPOINT_TIMEOUT;
	return post_end(op, nic_rdm_atomic(op->ep->peer, &atomic));
}
