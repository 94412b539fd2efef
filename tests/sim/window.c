/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c - type 2 memory windows: the owner binds a window on its QP to a range, the peer uses it, then either side
 * invalidates it (LOCAL_INV, or SEND with invalidate) and its key must be invalid (MW-07, MW-08, MW-10). The range of
 * an invalidated window becomes guarded memory again as soon as no WR uses the range.
 */
#include "sim.h"

/** @return whether the QP binds windows. An XRC target has no send queue, so the windows of its peer are bound and
 * invalidated, but no QP uses them. */
bool window_owner(const struct qp *qp)
{
	return (qp->type == NIC_QPT_RC || qp->type == NIC_QPT_XRC_INI) && qp->tags == TAGS_NONE &&
	       qp->sim->opts.windows;
}

/** @return a window of the peer that this QP may use now; NULL: there is none. */
struct window *window_usable(struct qp *qp)
{
	struct window *w;

	if (qp->type == NIC_QPT_XRC_INI || !window_owner(qp))
		return NULL;
	w = &qp->peer->windows[rng_below(&qp->rng, SIM_WINDOWS)];
	return w->state == WINDOW_BOUND ? w : NULL;
}

static bool post_bind(struct qp *qp, struct window *w)
{
	struct target *t = target_new(qp->peer, &qp->node->bank[BANK_TARGET], (uint32_t)rng_range(&qp->rng, 1, 2000));
	struct wr *wr;

	if (t == NULL)
		return false;
	wr = wr_new(qp, NIC_WR_BIND_MW);
	w->key++;
	wr->rkey = (nic_mw_rkey(w->mw) & ~0xffu) | w->key;
	wr->window = w;
	t->window = w;
	t->rkey = wr->rkey;
	w->target = t;
	w->state = WINDOW_BINDING;
	return wr_post(wr);
}

static bool post_local_invalidate(struct qp *qp, struct window *w)
{
	struct wr *wr = wr_new(qp, NIC_WR_LOCAL_INV);

	wr->ex = w->rkey;
	wr->window = w;
	w->state = WINDOW_INVALIDATING;
	return wr_post(wr);
}

/** Post a SEND with invalidate, by which this QP ends its use of the peer's window. It is fenced: READs before it may
 * have to be retransmitted, and must then find the key still valid. */
static bool post_send_invalidate(struct qp *qp, struct window *w)
{
	struct wr *wr = wr_new(qp, NIC_WR_SEND_WITH_INV);
	uint32_t len = (uint32_t)rng_below(&qp->rng, 65);
	struct qp *peer = qp->peer;

	if (peer->srq == NULL && qp->messages < peer->rposted && peer->rq[qp->messages]->cap < len)
		len = peer->rq[qp->messages]->cap;
	if (peer->srq != NULL && peer->srq->cap < len)
		len = peer->srq->cap;
	if (!wr_gather(wr, len, true))
		return false;
	wr->ex = w->rkey;
	wr->flags = NIC_SEND_FENCE;
	w->state = WINDOW_INVALIDATING;
	return wr_post(wr);
}

/** Post a SEND with invalidate of a key that no window of the peer has: the peer's receive and its QP fail, and nothing
 * is answered. */
static bool post_wrong_invalidate(struct qp *qp, const struct window *stale)
{
	struct wr *wr = wr_new(qp, NIC_WR_SEND_WITH_INV);

	if (!wr_gather(wr, 0, true))
		return false;
	wr->ex = stale != NULL ? stale->stale_rkey : bank_rkey(&qp->peer->node->bank[BANK_TARGET]);
	wr->must = BIT(NIC_WC_RETRY_EXC_ERR);
	return wr_post(wr);
}

/** Post a WRITE with a key that has been invalidated: the peer must refuse it. */
static bool post_stale(struct qp *qp, const struct window *w)
{
	struct wr *wr = wr_new(qp, NIC_WR_RDMA_WRITE);

	if (!wr_gather(wr, (uint32_t)rng_range(&qp->rng, 1, 64), true))
		return false;
	wr->rkey = w->stale_rkey;
	wr->remote_addr = qp->peer->node->bank[BANK_TARGET].iova;
	wr->must = BIT(NIC_WC_REM_ACCESS_ERR);
	return wr_post(wr);
}

bool window_work(struct qp *qp)
{
	struct window *own = &qp->windows[rng_below(&qp->rng, SIM_WINDOWS)];
	struct window *other = &qp->peer->windows[rng_below(&qp->rng, SIM_WINDOWS)];
	bool wrong = rng_chance(&qp->rng, qp->sim->opts.errors * 4);

	if (qp->life != QP_UP)
		return true;
	if (own->state == WINDOW_FREE)
		return post_bind(qp, own);
	if (other->state == WINDOW_BOUND && rng_chance(&qp->rng, 300))
		return post_send_invalidate(qp, other);
	if (wrong && rng_chance(&qp->rng, 300))
		return post_wrong_invalidate(qp, other->state == WINDOW_FREE && other->stale_rkey != 0 ? other : NULL);
	if (wrong && other->state == WINDOW_FREE && other->stale_rkey != 0 &&
	    (qp->peer->access & NIC_ACCESS_REMOTE_WRITE) != 0)
		return post_stale(qp, other);
	if (own->state == WINDOW_BOUND && rng_chance(&qp->rng, 200))
		own->state = WINDOW_CLOSING;
	if (own->state == WINDOW_CLOSING && own->target->refs == 0)
		return post_local_invalidate(qp, own);
	return true;
}

/** The window of `owner` with this key has been invalidated: the window is free again. Its range becomes
 * guarded memory again, now or when the last WR that uses the range completes. */
void window_invalidated(struct qp *owner, uint32_t rkey)
{
	for (unsigned i = 0; i < SIM_WINDOWS; i++) {
		struct window *w = &owner->windows[i];
		struct target *t = w->target, **p;

		if (w->state != WINDOW_INVALIDATING || w->rkey != rkey)
			continue;
		w->state = WINDOW_FREE;
		w->stale_rkey = rkey;
		w->target = NULL;
		t->window = NULL;
		t->retired = true;
		owner->sim->stats.windows++;
		if (t->refs > 0 || t->failed)
			return;
		for (p = &owner->peer->targets; *p != t; p = &(*p)->next)
			;
		*p = t->next;
		slot_free(&t->slot);
		return;
	}
	sim_fail(owner->sim, "window", "QP %06x: invalidation of key %08x, which is not being invalidated", owner->qpn,
		 rkey);
}

void window_completed(struct wr *wr, bool success)
{
	struct window *w = wr->window;

	if (w == NULL || !success)
		return;
	if (wr->opcode == NIC_WR_LOCAL_INV) {
		window_invalidated(wr->qp, wr->ex);
		return;
	}
	if (nic_mw_rkey(w->mw) != wr->rkey)
		sim_fail(wr->qp->sim, "window", "key %08x after binding, asked for %08x", nic_mw_rkey(w->mw), wr->rkey);
	w->rkey = wr->rkey;
	w->state = WINDOW_BOUND;
}

/** Before (re)connection: fresh windows. */
void windows_reset(struct qp *qp)
{
	if (!window_owner(qp))
		return;
	for (unsigned i = 0; i < SIM_WINDOWS; i++) {
		struct window *w = &qp->windows[i];
		int rc = w->mw != NULL ? nic_mw_dealloc(w->mw) : 0;

		*w = (struct window){.state = WINDOW_FREE, .key = (uint8_t)(w->key + 17)};
		rc = rc != 0 ? rc : nic_mw_alloc(qp->node->pd[0], NIC_MW_TYPE_2, &w->mw);
		if (rc != 0)
			sim_fail(qp->sim, "api", "replacing a memory window: %d", rc);
	}
}
