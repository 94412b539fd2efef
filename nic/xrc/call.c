/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - verbs on XRC targets of other NICs, their users, and their events; see nic_xrc_share.h and share.h. */
#include "share.h"

#include "trig.h"

/* ---- the caller ----------------------------------------------------------------------------------------- */

/** Copy attributes from another process's message: a bool may have any value there. */
static void attr_read(struct nic_qp_attr *to, const struct nic_qp_attr *from)
{
	uint8_t notify, draining;

	memcpy(&notify, &from->en_sqd_async_notify, sizeof(notify));
	memcpy(&draining, &from->sq_draining, sizeof(draining));
	memcpy(to, from, sizeof(*to));
	to->en_sqd_async_notify = notify;
	to->sq_draining = draining;
}

static void call_done(struct nic_xrc_call *call, int error)
{
	list_remove(&call->node);
	call->error = error;
	call->done = true;
}

void nic_xrc_call(struct nic_xrcd *xrcd, struct nic_xrc_call *call)
{
	struct xrc_share *share = xrcd->nic->xrc_share;
	struct nic_rdm_peer *peer = NULL;
	struct nic_rdm_addr addr;
	struct xrc_call *out;
	struct xrc_msg *msg;

	list_init(&call->node);
	call->done = false;
	if (share && xrcd->sharing && xrc_find(share, xrcd, call->qpn, &addr))
		peer = nic_rdm_peer_get(share->rdm, &addr);
	call->peer = peer;
	msg = peer && xrc_link_have(share, peer) ? xrc_msg_new(XRC_CALL, call->qpn, sizeof(*out)) : NULL;
	if (!msg) {
		call_done(call, peer ? -ENOMEM : -EINVAL);
		return;
	}
	out = (struct xrc_call *)(void *)msg->bytes;
	out->domain = xrcd->name;
	out->cookie = call->cookie = ++share->calls_made;
	out->verb = call->verb;
	out->mask = call->mask;
	out->attr = call->attr;
	list_append(&share->calls, &call->node);
	xrc_post(share, peer, msg);
	nic_settle_due(share->nic);
}

void nic_xrc_forget(struct nic_xrc_call *call)
{
	list_remove(&call->node);
}

static struct nic_xrc_call *call_find(struct xrc_share *share, uint64_t cookie)
{
	for (struct list *n = share->calls.next; n != &share->calls; n = n->next) {
		struct nic_xrc_call *call = list_entry(n, struct nic_xrc_call, node);

		if (call->cookie == cookie)
			return call;
	}
	return NULL;
}

void call_result(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_result *result = bytes;
	struct nic_xrc_call *call = call_find(share, result->cookie);

	if (!call || call->peer != peer || call->qpn != result->head.qpn) {
		COUNT(share->nic, xrc_stale);
		return;
	}
	if (!result->error)
		attr_read(&call->attr, &result->attr);
	call_done(call, result->error > 0 ? -EINVAL : result->error);
}

void call_failed(struct xrc_share *share, const void *bytes)
{
	const struct xrc_call *out = bytes;
	struct nic_xrc_call *call = call_find(share, out->cookie);

	if (call)
		call_done(call, -ENODEV);
}

void call_event(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_event *event = bytes;
	struct nic_xrcd *xrcd = xrc_domain(share, &event->domain, peer);

	if (xrcd && event->type < 64 && RESP_EVENTS >> event->type & 1 && xrc_owns(share, xrcd, peer, event->head.qpn))
		share->init.event(share->init.ctx, xrcd, event->head.qpn, (enum nic_event_type)event->type);
	else
		COUNT(share->nic, xrc_stale);
}

/* ---- the owner ------------------------------------------------------------------------------------------ */

static void raised(struct nic *nic, struct event_source *src, enum nic_event_type type)
{
	struct xrc_lent *lent = list_entry(src, struct nic_qp, events)->lent;

	if (!nic->xrc_share)
		return;
	lent->events |= 1ull << type;
	xrc_due(nic->xrc_share, lent);
}

void call_tell(struct xrc_share *share, struct xrc_lent *lent)
{
	for (; lent->events; lent->events &= lent->events - 1)
		for (struct list *n = lent->holders.next; n != &lent->holders; n = n->next) {
			struct xrc_holder *holder = list_entry(n, struct xrc_holder, node);
			struct xrc_msg *msg =
				holder->uses ? xrc_msg_new(XRC_EVENT, lent->qp->qpn, sizeof(struct xrc_event)) : NULL;
			struct xrc_event *event;

			if (!msg)
				continue;
			event = (struct xrc_event *)(void *)msg->bytes;
			event->domain = lent->qp->xrcd->name;
			event->type = (uint32_t)__builtin_ctzll(lent->events);
			xrc_post(share, holder->peer, msg);
		}
}

/** Whether NICs that still share the domain use the target. */
static bool has_users(struct xrc_share *share, struct xrc_lent *lent)
{
	bool any = false;

	for (struct list *n = lent->holders.next; n != &lent->holders; n = n->next) {
		struct xrc_holder *holder = list_entry(n, struct xrc_holder, node);
		struct nic_rdm_addr addr = nic_rdm_peer_address(holder->peer);

		if (holder->uses && !share->init.shares(share->init.ctx, lent->qp->xrcd, &addr))
			holder->uses = false;
		any |= holder->uses;
	}
	return any;
}

bool nic_xrc_target_leave(struct nic_qp *qp)
{
	struct xrc_share *share = qp->nic->xrc_share;
	struct xrc_lent *lent = qp->lent;

	if (!share || !lent || !has_users(share, lent))
		return false;
	if (list_empty(&lent->orphan))
		list_append(&share->orphans, &lent->orphan);
	nic_qp_set_user(qp, NULL);
	xrc_watch(share);
	return true;
}

void nic_xrc_target_join(struct nic_qp *qp, void *user)
{
	struct xrc_lent *lent = qp->lent;

	if (lent)
		list_remove(&lent->orphan);
	nic_qp_set_user(qp, user);
}

void orphans_prune(struct xrc_share *share)
{
	for (struct list *n = share->orphans.next, *next; n != &share->orphans; n = next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, orphan);

		next = n->next;
		if (!has_users(share, lent))
			nic_qp_destroy(lent->qp);
	}
}

static int use(struct xrc_share *share, struct nic_qp *qp, struct nic_rdm_peer *peer)
{
	struct xrc_lent *lent = lend_get(share, qp);
	struct xrc_holder *holder = lent ? lend_holder(lent, peer) : NULL;

	if (!holder)
		return -ENOMEM;
	holder->uses = true;
	qp->events.listener = raised;
	return 0;
}

static int unuse(struct xrc_share *share, struct nic_qp *qp, struct nic_rdm_peer *peer)
{
	struct xrc_holder *holder = qp->lent ? lend_holder_find(qp->lent, peer) : NULL;

	if (!holder || !holder->uses)
		return -EINVAL;
	holder->uses = false;
	if (!list_empty(&qp->lent->orphan) && !has_users(share, qp->lent))
		nic_qp_destroy(qp);
	return 0;
}

/** Execute the verb; afterwards *attr has the target's attributes, unless the verb was CLOSE. */
static int execute(struct xrc_share *share, struct nic_rdm_peer *peer, const struct xrc_call *in,
		   struct nic_qp_attr *attr)
{
	struct nic_xrcd *xrcd = xrc_domain(share, &in->domain, peer);
	struct nic_qp *qp = xrcd ? nic_xrc_target(xrcd, in->head.qpn) : NULL;
	struct nic_qp_init init;
	int err = 0;

	if (!qp)
		return -EINVAL;
	switch (in->verb) {
	case NIC_XRC_OPEN:
		err = use(share, qp, peer);
		break;
	case NIC_XRC_QUERY:
		break;
	case NIC_XRC_MODIFY:
		attr_read(attr, &in->attr);
		err = nic_qp_modify(qp, attr, in->mask);
		break;
	case NIC_XRC_CLOSE:
		return unuse(share, qp, peer);
	default:
		return -EINVAL;
	}
	nic_qp_query(qp, attr, &init);
	return err;
}

void call_arrived(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_call *in = bytes;
	struct xrc_msg *msg = xrc_msg_new(XRC_RESULT, in->head.qpn, sizeof(struct xrc_result));
	struct xrc_result *result;

	if (!msg)
		return; /* the caller gives up after a while */
	result = (struct xrc_result *)(void *)msg->bytes;
	result->cookie = in->cookie;
	result->error = execute(share, peer, in, &result->attr);
	xrc_post(share, peer, msg);
}
