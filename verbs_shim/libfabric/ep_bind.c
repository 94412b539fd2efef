/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep_bind.c - binds endpoints to queues, counters, an address vector and shared contexts, and maps the address vector's
 * indices to the endpoint's peers.
 */
#include "endpoint.h"
#include "provider.h"

/* ---- binding --------------------------------------------------------------------------------------------- */

static int bind_cq(struct ufi_ep *ep, struct ufi_cq *cq, uint64_t flags)
{
	struct ufi_core *core = ep->core;

	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) || !(flags & (FI_TRANSMIT | FI_RECV)) ||
	    (flags & FI_TRANSMIT && core->tx_cq) || (flags & FI_RECV && core->rx_cq))
		return -FI_EINVAL;
	if (cq->domain != core->domain)
		return -FI_EDOMAIN;
	if (flags & FI_TRANSMIT) {
		core->tx_cq = cq;
		core->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->users, 1);
	}
	if (flags & FI_RECV) {
		core->rx_cq = cq;
		core->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->users, 1);
	}
	ufi_ep_flags(ep);
	return 0;
}

static const uint64_t count_flags[UFI_COUNTS] = {
	[UFI_COUNT_SEND] = FI_SEND,
	[UFI_COUNT_RECV] = FI_RECV,
	[UFI_COUNT_READ] = FI_READ,
	[UFI_COUNT_WRITE] = FI_WRITE,
	[UFI_COUNT_REMOTE_READ] = FI_REMOTE_READ,
	[UFI_COUNT_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

/* Counters of peers' accesses require FI_RMA_EVENT. Endpoints without target capabilities accept such counters even
 * without FI_RMA_EVENT, because applications bind one counter to endpoints of all kinds. */
static int bind_cntr(struct ufi_core *core, struct ufi_cntr *cntr, uint64_t flags)
{
	const uint64_t target = FI_REMOTE_READ | FI_REMOTE_WRITE;

	if (flags & target && core->caps & target && !(core->caps & FI_RMA_EVENT))
		return -FI_EOPNOTSUPP;
	if (!flags || flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EINVAL;
	if (cntr->domain != core->domain)
		return -FI_EDOMAIN;
	for (int i = 0; i < UFI_COUNTS; i++)
		if (flags & count_flags[i] && core->cntrs[i])
			return -FI_EINVAL;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	for (int i = 0; i < UFI_COUNTS; i++)
		if (flags & count_flags[i]) {
			core->cntrs[i] = cntr;
			atomic_fetch_add(&cntr->users, 1);
		}
	ufi_leave(core->domain);
	return 0;
}

static int bind_av(struct ufi_core *core, struct ufi_av *av, uint64_t flags)
{
	if (flags || core->av || core->type->type == FI_EP_MSG)
		return -FI_EINVAL;
	if (av->domain != core->domain)
		return -FI_EDOMAIN;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	core->av = av;
	core->av_shared = av->share != NULL;
	core->next_of_av = av->endpoints;
	av->endpoints = core;
	ufi_leave(core->domain);
	atomic_fetch_add(&av->users, 1);
	return 0;
}

/* Only connected endpoints (FI_EP_MSG) report events; for other types the event queue is accepted and ignored. */
static int bind_eq(struct ufi_core *core, struct ufi_eq *eq, uint64_t flags)
{
	if (core->type->type != FI_EP_MSG)
		return 0;
	if (flags || core->cm.eq || eq->fabric != core->domain->fabric)
		return -FI_EINVAL;
	core->cm.eq = eq;
	atomic_fetch_add(&eq->users, 1);
	return 0;
}

/* An endpoint opened with FI_SHARED_CONTEXT must be bound before it is enabled. An endpoint with its own transmit
 * queue can be bound only after it is enabled, and then does not use the shared context. Sandia OpenSHMEM needs this:
 * it binds a shared context to its target endpoint if it also sends from that endpoint. */
static int bind_stx(struct ufi_core *core, struct ufi_stx *stx, uint64_t flags)
{
	if (flags || core->stx || core->tx_shared == (core->rdm != NULL))
		return -FI_EINVAL;
	if (stx->domain != core->domain)
		return -FI_EDOMAIN;
	if (!core->tx_shared)
		return 0;
	core->stx = stx;
	atomic_fetch_add(&stx->users, 1);
	return 0;
}

/* Bind a shared receive context; only for endpoints opened with rx_ctx_cnt = FI_SHARED_CONTEXT. */
static int bind_srx(struct ufi_core *core, struct ufi_srx *srx, uint64_t flags)
{
	if (flags || core->srx || !core->rx_shared)
		return -FI_EINVAL;
	if (srx->ep.own.domain != core->domain)
		return -FI_EDOMAIN;
	return ufi_srx_join(srx, core);
}

int ufi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ufi_ep *ep = container_of(fid, struct ufi_ep, ep.fid);

	if (!bfid)
		return -FI_EINVAL;
	/* Counters can be bound to an enabled endpoint, and count from then on: Sandia OpenSHMEM uses this. Shared
	 * transmit contexts: see bind_stx. */
	if (ep->core->rdm && bfid->fclass != FI_CLASS_CNTR && bfid->fclass != FI_CLASS_STX_CTX)
		return -FI_EOPBADSTATE;
	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(ep, container_of(bfid, struct ufi_cq, cq.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep->core, container_of(bfid, struct ufi_cntr, cntr.fid), flags);
	case FI_CLASS_AV:
		return bind_av(ep->core, container_of(bfid, struct ufi_av, av.fid), flags);
	case FI_CLASS_EQ:
		return bind_eq(ep->core, container_of(bfid, struct ufi_eq, eq.fid), flags);
	case FI_CLASS_STX_CTX:
		return bind_stx(ep->core, container_of(bfid, struct ufi_stx, stx.fid), flags);
	case FI_CLASS_SRX_CTX:
		return bind_srx(ep->core, container_of(bfid, struct ufi_srx, ep.ep.fid), flags);
	default:
		return -FI_EINVAL;
	}
}

static void unbind_av(struct ufi_core *core)
{
	struct ufi_core **at = &core->av->endpoints;
	bool shared = ufi_enter(core->domain);

	while (*at != core)
		at = &(*at)->next_of_av;
	*at = core->next_of_av;
	if (shared)
		ufi_leave(core->domain);
	atomic_fetch_sub(&core->av->users, 1);
}

void ufi_ep_unbind(struct ufi_core *core)
{
	if (core->tx_cq)
		atomic_fetch_sub(&core->tx_cq->users, 1);
	if (core->rx_cq)
		atomic_fetch_sub(&core->rx_cq->users, 1);
	for (int i = 0; i < UFI_COUNTS; i++)
		if (core->cntrs[i])
			atomic_fetch_sub(&core->cntrs[i]->users, 1);
	if (core->cm.eq)
		atomic_fetch_sub(&core->cm.eq->users, 1);
	if (core->stx)
		atomic_fetch_sub(&core->stx->users, 1);
	if (core->srx)
		atomic_fetch_sub(&core->srx->users, 1);
	if (core->av)
		unbind_av(core);
}

/* ---- peers ----------------------------------------------------------------------------------------------- */

static bool peers_grow(struct ufi_core *core)
{
	size_t room = core->av->room;
	struct nic_rdm_peer **peers = reallocarray(core->peers, room, sizeof(void *));

	if (!peers)
		return false;
	memset(peers + core->n_peers, 0, (room - core->n_peers) * sizeof(void *));
	core->peers = peers;
	core->n_peers = room;
	return true;
}

/* Look up the peer when an endpoint first uses a fi_addr_t. */
static struct nic_rdm_peer *peer_find(struct ufi_core *core, fi_addr_t fi_addr)
{
	const struct nic_rdm_addr *found = ufi_av_at(core->av, fi_addr);
	struct nic_rdm_addr addr; /* a copy, because the next lookup can reallocate the entries */
	struct nic_rdm_peer *peer;

	if (!found || (fi_addr >= core->n_peers && !peers_grow(core)))
		return NULL;
	addr = *found;
	peer = nic_rdm_peer_get(core->rdm, &addr);
	if (!peer)
		return NULL;
	core->peers[fi_addr] = peer;
	if (nic_rdm_peer_user(peer) == FI_ADDR_NOTAVAIL)
		nic_rdm_peer_set_user(peer, ufi_av_find(core->av, &addr));
	return peer;
}

int ufi_ep_no_peer(struct ufi_core *core, fi_addr_t fi_addr)
{
	const struct nic_rdm_addr *addr = ufi_av_at(core->av, fi_addr);

	return addr && nic_rdm_peer_may_be(core->rdm, addr) ? -FI_ENOMEM : -FI_EINVAL;
}

struct nic_rdm_peer *ufi_ep_peer(struct ufi_core *core, fi_addr_t fi_addr)
{
	if (core->av_shared)
		ufi_av_follow(core->av);
	if (fi_addr < core->n_peers && core->peers[fi_addr])
		return core->peers[fi_addr];
	return peer_find(core, fi_addr);
}

/* A datagram endpoint creates its peer for a new address now, not on first use: the NIC reports the sender of a
 * datagram only if it is a known peer. */
void ufi_ep_meet(struct ufi_core *core, fi_addr_t fi_addr)
{
	if (core->rdm && core->type->type == FI_EP_DGRAM && core->caps & FI_SOURCE)
		ufi_ep_peer(core, fi_addr);
}

void ufi_ep_forget(struct ufi_core *core, fi_addr_t fi_addr)
{
	const struct nic_rdm_addr addr = core->av->entries[fi_addr].addr;
	struct nic_rdm_peer *peer;

	if (fi_addr < core->n_peers)
		core->peers[fi_addr] = NULL;
	/* Find the peer by its address: a peer that is known only from its messages is not in core->peers. */
	peer = core->rdm ? nic_rdm_peer_find(core->rdm, &addr) : NULL;
	if (peer && nic_rdm_peer_user(peer) == fi_addr)
		nic_rdm_peer_set_user(peer, ufi_av_find(core->av, &addr));
}
