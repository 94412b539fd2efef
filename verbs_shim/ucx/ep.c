/* SPDX-License-Identifier: BSD-3-Clause */
/* ep.c - endpoints: peers of an interface; flushes, fences, and requests that wait for resources. */
#include <stdlib.h>
#include <string.h>

#include "ucx.h"

/** Our data in the private part of a struct uct_pending_req. */
struct ux_pending {
	struct list node;
};
_Static_assert(sizeof(struct ux_pending) <= sizeof(((struct uct_pending_req *)0)->priv), "UCX leaves too few bytes");

static struct ux_pending *pending_of(struct uct_pending_req *req)
{
	return (struct ux_pending *)req->priv;
}

static struct uct_pending_req *request_of(struct list *node)
{
	return (struct uct_pending_req *)((char *)node - offsetof(struct uct_pending_req, priv));
}

ucs_status_t ux_ep_create(const struct uct_ep_params *params, struct uct_ep **out)
{
	uint64_t needs = UCT_EP_PARAM_DEV_ADDR | UCT_EP_PARAM_IFACE_ADDR;
	struct ux_iface *iface = ux_iface_of(params->iface);
	struct nic_rdm_addr addr;
	struct ux_ep *ep;

	if ((params->field_mask & needs) != needs)
		return UCS_ERR_INVALID_PARAM;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return UCS_ERR_NO_MEMORY;
	addr = ux_address(params->dev_addr, params->iface_addr, ep);
	ep->super.iface = params->iface;
	ep->iface = iface;
	ep->fences = iface->fences;
	list_init(&ep->ops);
	list_init(&ep->pending);
	list_init(&ep->waiting);
	if (ux_enter(iface->md)) {
		ep->peer = nic_rdm_peer_get(iface->rdm, &addr);
		ux_leave(iface->md);
	}
	if (!ep->peer) {
		free(ep);
		return UCS_ERR_UNREACHABLE;
	}
	*out = &ep->super;
	return UCS_OK;
}

bool ux_ep_connects(struct uct_ep *tl_ep, const void *dev_addr, const void *iface_addr)
{
	struct nic_rdm_addr wanted = ux_address(dev_addr, iface_addr, NULL);
	struct nic_rdm_addr addr = nic_rdm_peer_address(ux_ep_of(tl_ep)->peer);

	return wanted.port == addr.port && !memcmp(&wanted.gid, &addr.gid, sizeof(addr.gid));
}

/* The operations stay in flight in the NIC, which may still read and write their buffers. However, UCX expects every
 * transport to report them as canceled now. */
void ux_ep_destroy(struct uct_ep *tl_ep)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);
	bool shared = ux_enter(ep->iface->md);

	for (struct list *n = ep->ops.next; n != &ep->ops; n = n->next)
		list_entry(n, struct ux_op, node)->ep = NULL;
	if (shared)
		ux_leave(ep->iface->md);
	while (!list_empty(&ep->ops)) {
		struct ux_op *op = list_entry(ep->ops.next, struct ux_op, node);
		struct uct_completion *comp = op->comp;

		list_remove(&op->node);
		op->comp = NULL;
		if (op->kind == UX_FLUSH)
			ux_op_free(ep->iface, op);
		ux_complete(comp, UCS_ERR_CANCELED);
	}
	list_remove(&ep->waiting);
	free(ep);
}

/* ---- order ---------------------------------------------------------------------------------------------- */

/* UCT_FLUSH_CANCEL cancels nothing: the operations of a failed endpoint end soon by themselves. */
ucs_status_t ux_ep_flush(struct uct_ep *tl_ep, unsigned flags, struct uct_completion *comp)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);
	struct ux_op *op;

	if (pmd_is_dead(ep->iface->md->engine))
		return UCS_ERR_IO_ERROR;
	if (!list_empty(&ep->pending) && !ep->retrying) /* the flush would overtake the pending requests */
		return UCS_ERR_NO_RESOURCE;
	if (list_empty(&ep->ops))
		return flags & UCT_FLUSH_CANCEL ? UCS_OK : ep->failed;
	if (!comp)
		return UCS_INPROGRESS;
	op = ux_op_take(ep, UX_FLUSH, comp);
	if (!op)
		return UCS_ERR_NO_RESOURCE;
	ep->retrying = false;
	list_append(&ep->ops, &op->node);
	return UCS_INPROGRESS;
}

void ux_ep_drain(struct ux_ep *ep)
{
	struct ux_iface *iface = ep->iface;
	ucs_status_t status = ep->failed;
	struct list ended;

	list_init(&ended);
	while (!list_empty(&ep->ops) && list_entry(ep->ops.next, struct ux_op, node)->kind == UX_FLUSH) {
		struct list *first = ep->ops.next;

		list_remove(first);
		list_append(&ended, first);
	}
	while (!list_empty(&ended)) { /* each completion may destroy the endpoint */
		struct ux_op *op = list_entry(ended.next, struct ux_op, node);
		struct uct_completion *comp = op->comp;

		list_remove(&op->node);
		ux_op_free(iface, op);
		ux_complete(comp, status);
	}
}

ucs_status_t ux_ep_fence(struct uct_ep *tl_ep, unsigned flags)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);

	ep->fenced = !list_empty(&ep->ops) || !list_empty(&ep->pending);
	return UCS_OK;
}

/* Post a WRITE of no bytes, which succeeds if the peer's NIC answers. */
ucs_status_t ux_ep_check(struct uct_ep *tl_ep, unsigned flags, struct uct_completion *comp)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);
	ucs_status_t status;
	struct ux_op *op;

	if (!list_empty(&ep->ops)) /* these also show whether the peer answers */
		return UCS_OK;
	op = ux_op_new(ep, UX_PLAIN, NULL, &status);
	return op ? ux_post_rma(op, false, NULL, 0, 0, 0, 0) : status;
}

/* ---- requests that wait for resources ------------------------------------------------------------------- */

ucs_status_t ux_ep_pending_add(struct uct_ep *tl_ep, struct uct_pending_req *req, unsigned flags)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);
	struct ux_iface *iface = ep->iface;

	if (list_empty(&ep->pending) && !iface->full && !list_empty(&iface->free_ops))
		return UCS_ERR_BUSY; /* resources are free again: UCX must retry */
	list_append(&ep->pending, &pending_of(req)->node);
	if (list_empty(&ep->waiting))
		list_append(&iface->waiting, &ep->waiting);
	return UCS_OK;
}

void ux_ep_pending_purge(struct uct_ep *tl_ep, void (*purge)(struct uct_pending_req *, void *), void *arg)
{
	struct ux_ep *ep = ux_ep_of(tl_ep);

	list_remove(&ep->waiting);
	while (!list_empty(&ep->pending)) {
		struct list *first = ep->pending.next;

		list_remove(first);
		purge(request_of(first), arg);
	}
}

/* Try an endpoint's requests, oldest first. A request that returns UCS_OK may have freed its memory; one that returns
 * UCS_INPROGRESS has posted a part of itself. */
static void ep_retry(struct ux_ep *ep)
{
	ucs_status_t status = UCS_OK;

	while (!list_empty(&ep->pending) && status >= UCS_OK) {
		struct list *first = ep->pending.next;
		struct uct_pending_req *req = request_of(first);

		list_remove(first);
		ep->retrying = true;
		status = req->func(req);
		ep->retrying = false;
		if (status != UCS_OK)
			list_append(ep->pending.next, first); /* remains the first */
	}
}

void ux_retry(struct ux_iface *iface)
{
	struct list turn;

	list_init(&turn);
	list_append_all(&turn, &iface->waiting);
	while (!list_empty(&turn)) {
		struct ux_ep *ep = list_entry(turn.next, struct ux_ep, waiting);

		list_remove(&ep->waiting);
		ep_retry(ep);
		if (!list_empty(&ep->pending) && list_empty(&ep->waiting))
			list_append(&iface->waiting, &ep->waiting);
	}
}
