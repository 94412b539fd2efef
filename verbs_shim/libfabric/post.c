/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - posting requests to the NIC: the code that messages, RMA and atomics share, then sends and receives, tagged
 * and untagged.
 */
#include "provider.h"
#include "requests.h"

/* Flags that are valid for sends. FI_MORE is a hint and is ignored. */
#define POST_FLAGS                                                                                                     \
	(FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_REMOTE_CQ_DATA | UFI_LEVELS | FI_MSG | FI_TAGGED)
#define RECV_FLAGS (FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_MSG | FI_TAGGED | FI_PEEK | FI_CLAIM | FI_DISCARD)

const struct ufi_way ufi_at_once;

/** Whether the request has no completion that the application could wait for: neither a queue entry nor a counter. */
static bool is_unawaited(const struct ufi_core *core, uint64_t flags)
{
	return !(flags & FI_COMPLETION) && !core->cntrs[UFI_COUNT_SEND] && !core->cntrs[UFI_COUNT_WRITE] &&
	       !core->cntrs[UFI_COUNT_READ];
}

uint32_t ufi_request_flags(const struct ufi_core *core, uint64_t flags, const struct ufi_way *way)
{
	uint32_t out = !way->work && is_unawaited(core, flags) ? NIC_RDM_UNAWAITED : 0;

	if (way->check)
		out |= NIC_RDM_CHECK;
	if (flags & FI_TAGGED)
		out |= NIC_RDM_TAGGED;
	if (flags & FI_REMOTE_CQ_DATA)
		out |= NIC_RDM_DATA;
	if (flags & FI_INJECT)
		out |= NIC_RDM_INJECT;
	if (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		out |= NIC_RDM_DELIVERY;
	if (flags & FI_FENCE || (core->reads_first && core->reads))
		out |= NIC_RDM_FENCE;
	return out;
}

int ufi_post_begin(struct ufi_core *core, fi_addr_t to, const struct ufi_way *way, struct nic_rdm_peer **peer)
{
	*peer = core->type->type == FI_EP_MSG ? nic_rdm_cm_peer(core->rdm) : ufi_ep_peer(core, to);
	if (!*peer)
		return core->type->type == FI_EP_MSG ? -FI_ENOTCONN : ufi_ep_no_peer(core, to);
	return way->check || ufi_stx_take(core) ? 0 : -EAGAIN;
}

int ufi_post_end(struct ufi_core *core, const struct ufi_way *way, int rc)
{
	if (rc && !way->check)
		ufi_stx_give(core, 1);
	return rc;
}

/* The NIC returns libfabric's error numbers. On -EAGAIN this call makes progress: a caller that retries in a loop thus
 * finds room eventually. */
ssize_t ufi_call_end(struct ufi_core *core, int rc)
{
	if (rc == 0)
		pmd_doorbell(core->domain->engine);
	else if (rc == -EAGAIN)
		pmd_progress(core->domain->engine, 1);
	ufi_leave(core->domain);
	return rc;
}

int ufi_send_check(const struct ufi_core *core, uint64_t has, const struct ufi_send *s)
{
	uint64_t caps = FI_SEND | (s->flags & (FI_MSG | FI_TAGGED));

	if ((has & caps) != caps)
		return -FI_EOPNOTSUPP;
	if (!core->rdm)
		return -FI_EOPBADSTATE;
	if (s->flags & ~POST_FLAGS)
		return -FI_EBADFLAGS;
	return s->n_iov > NIC_RDM_IOV_MAX || (s->n_iov && !s->iov) ? -FI_EINVAL : 0;
}

int ufi_send_post(struct ufi_core *core, const struct ufi_send *s, const struct ufi_way *way)
{
	struct nic_rdm_peer *peer;
	int rc = ufi_post_begin(core, s->to, way, &peer);

	if (rc)
		return rc;

	struct nic_rdm_send request = {
		.context = s->context,
		.cookie = ufi_cookie(way, s->flags),
		.flags = ufi_request_flags(core, s->flags, way),
		.iov = (const struct nic_iov *)s->iov,
		.n_iov = (uint32_t)s->n_iov,
		.tag = s->tag,
		.data = s->data,
	};

	return ufi_post_end(core, way, nic_rdm_send(peer, &request));
}

ssize_t ufi_send(struct ufi_ep *ep, const struct ufi_send *s)
{
	struct ufi_core *core = ep->core;
	int rc;

	if (s->flags & FI_TRIGGER)
		return ufi_trigger_send(core, s);
	rc = ufi_send_check(core, core->caps, s);
	if (rc)
		return rc;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	return ufi_call_end(core, ufi_send_post(core, s, &ufi_at_once));
}

/* ---- receives -------------------------------------------------------------------------------------------- */

int ufi_recv_check(const struct ufi_core *core, uint64_t has, const struct ufi_recv *r)
{
	bool claims = r->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD);
	uint64_t caps = FI_RECV | (r->flags & (FI_MSG | FI_TAGGED));

	/* If core->srx is set, receives must be posted to that shared context instead. */
	if ((has & caps) != caps || core->srx)
		return -FI_EOPNOTSUPP;
	if (!core->rq)
		return -FI_EOPBADSTATE;
	if (r->flags & ~RECV_FLAGS || (claims && !(r->flags & FI_TAGGED)))
		return -FI_EBADFLAGS;
	if (r->flags & FI_DISCARD && !(r->flags & (FI_PEEK | FI_CLAIM)))
		return -FI_EBADFLAGS;
	if (r->n_iov > NIC_RDM_IOV_MAX || (r->n_iov && !r->iov))
		return -FI_EINVAL;
	return r->flags & FI_MULTI_RECV && (r->n_iov != 1 || claims) ? -FI_EINVAL : 0;
}

/** The peer from which a directed receive takes messages. *peer is NULL if any peer's messages match. Engine lock
 * held. @return 0, -FI_EINVAL, -FI_ENOMEM. */
static int recv_from(struct ufi_core *core, fi_addr_t from, const struct nic_rdm_peer **peer)
{
	*peer = NULL;
	if (!(core->caps & FI_DIRECTED_RECV) || from == FI_ADDR_UNSPEC)
		return 0;
	*peer = ufi_ep_peer(core, from);
	return *peer ? 0 : ufi_ep_no_peer(core, from);
}

/* Execute a peek. A message that matches is reported at the endpoint where it arrived, if that has a queue. */
static int recv_peek(struct ufi_ep *ep, const struct ufi_recv *r, const struct nic_rdm_recv *request)
{
	struct ufi_core *core = ep->core, *teller = core, *owner;
	struct nic_rdm_done found = {0};
	int rc;

	if (ep->ep.fid.fclass == FI_CLASS_SRX_CTX)
		teller = ufi_srx_reporter(container_of(ep, struct ufi_srx, ep));
	if (!teller || !teller->rx_cq)
		return -FI_ENOCQ;
	rc = nic_rdm_rq_peek(core->rq, request, &found);
	if (rc && rc != -ENOMSG)
		return rc;
	/* found.peer is not NULL: tagged messages always have a peer. */
	owner = rc ? teller : nic_rdm_peer_owner(found.peer);
	ufi_done_peek(owner->rx_cq ? owner : teller, r, rc ? NULL : &found);
	return 0;
}

/** Translate a receive for the NIC. Engine lock held. @return 0, -FI_EINVAL, -FI_ENOMEM. */
static int recv_translate(struct ufi_core *core, const struct ufi_recv *r, const struct ufi_way *way,
			  struct nic_rdm_recv *request)
{
	*request = (struct nic_rdm_recv){
		.context = r->context,
		.cookie = ufi_cookie(way, r->flags),
		.flags = way->check ? NIC_RDM_CHECK : 0,
		.iov = (const struct nic_iov *)r->iov,
		.n_iov = (uint32_t)r->n_iov,
		.tag = r->tag,
		.ignore = r->ignore,
		.min_free = core->min_multi_recv,
	};
	if (r->flags & FI_TAGGED)
		request->flags |= NIC_RDM_TAGGED;
	if (r->flags & FI_MULTI_RECV)
		request->flags |= NIC_RDM_MULTI;
	if (r->flags & FI_CLAIM)
		request->flags |= NIC_RDM_CLAIM;
	if (r->flags & FI_DISCARD)
		request->flags |= NIC_RDM_DISCARD;
	return recv_from(core, r->from, &request->from);
}

int ufi_recv_post(struct ufi_core *core, const struct ufi_recv *r, const struct ufi_way *way)
{
	struct nic_rdm_recv request;
	int rc = recv_translate(core, r, way, &request);

	return rc ? rc : nic_rdm_rq_recv(core->rq, &request);
}

ssize_t ufi_recv(struct ufi_ep *ep, const struct ufi_recv *r)
{
	struct ufi_core *core = ep->core;
	struct nic_rdm_recv request;
	int rc;

	if (r->flags & FI_TRIGGER)
		return ufi_trigger_recv(core, r);
	rc = ufi_recv_check(core, core->caps, r);
	if (rc)
		return rc;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	if (r->flags & FI_PEEK)
		pmd_progress(core->domain->engine, 1); /* may release the lock, so call it before any lookup */
	rc = recv_translate(core, r, &ufi_at_once, &request);
	if (!rc)
		rc = r->flags & FI_PEEK ? recv_peek(ep, r, &request) : nic_rdm_rq_recv(core->rq, &request);
	if (rc == 0 && !(r->flags & FI_PEEK) && !nic_tx_pending(core->domain->nic)) {
		/* Nothing is to be sent. Do not ring the doorbell, because that can make progress: an application
		 * that reposts several receives would get messages before it has posted all of them, and messages
		 * without a receive would have to be buffered or fetched later. */
		ufi_leave(core->domain);
		return 0;
	}
	return ufi_call_end(core, rc);
}
