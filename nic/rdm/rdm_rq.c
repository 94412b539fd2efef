/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_rq.c - queues of posted receives and of unexpected messages: a queue belongs to one endpoint, or several
 * endpoints share it. Only the tag unit decides which message a receive takes. The receive completes at the endpoint at
 * which the message arrived. The queue's owner gets the completion of a receive that ends without a message, or whose
 * endpoint is being destroyed.
 */
#include "rdm.h"
#include "rdm_done.h"
#include "rdm_unexpected.h"
#include "rdm_rq.h"
#include "rdm_rx.h"
#include "rdm_tx.h"
#include "trig.h"

#define MAX_DEFAULT	   1024
#define MAX_MOST	   32768
#define UNEXPECTED_DEFAULT (64u << 20)

/* ---- queues as objects --------------------------------------------------------------------------------------- */

int rdm_rq_open(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out)
{
	uint32_t max = init->max_rx ? init->max_rx : MAX_DEFAULT;
	struct nic_rdm_rq *rq;

	if (!init->done || max > MAX_MOST)
		return -EINVAL;
	rq = calloc(1, sizeof(*rq));
	if (!rq)
		return -ENOMEM;
	rq->recvs = calloc(max, sizeof(*rq->recvs));
	if (!rq->recvs) {
		free(rq);
		return -ENOMEM;
	}
	rq->nic = nic;
	rq->done = init->done;
	rq->ctx = init->ctx;
	rq->rx_left = max;
	rq->max_unexpected = init->max_unexpected ? init->max_unexpected : UNEXPECTED_DEFAULT;
	if (rq->max_unexpected < RDM_CHUNK_BYTES)
		rq->max_unexpected = RDM_CHUNK_BYTES;
	list_init(&rq->node);
	list_init(&rq->free_recvs);
	list_init(&rq->claimed);
	tag_init(&rq->messages);
	tag_init(&rq->tagged);
	rdm_unexpected_init(rq);
	*out = rq;
	return 0;
}

void rdm_rq_close(struct nic_rdm_rq *rq)
{
	rdm_unexpected_fini(rq);
	list_remove(&rq->node);
	free(rq->recvs);
	free(rq);
}

int nic_rdm_rq_create(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out)
{
	int err = rdm_rq_open(nic, init, out);

	if (err)
		return err;
	(*out)->shared = true;
	list_append(&nic->rdm_rqs, &(*out)->node);
	return 0;
}

int nic_rdm_rq_destroy(struct nic_rdm_rq *rq)
{
	if (!rq->shared || rq->users)
		return -EBUSY;
	rdm_rq_close(rq);
	return 0;
}

struct tag_unit *rdm_unit(struct nic_rdm_rq *rq, bool tagged)
{
	return tagged ? &rq->tagged : &rq->messages;
}

/* ---- receives as objects ------------------------------------------------------------------------------------- */

static struct rdm_recv *recv_get(struct nic_rdm_rq *rq)
{
	struct rdm_recv *recv;

	if (rq->rx_left == 0)
		return NULL;
	rq->rx_left--;
	if (list_empty(&rq->free_recvs))
		return &rq->recvs[rq->recvs_touched++];
	recv = list_entry(list_first(&rq->free_recvs), struct rdm_recv, match.node);
	list_remove(&recv->match.node);
	return recv;
}

static void recv_free(struct nic_rdm_rq *rq, struct rdm_recv *recv)
{
	rq->rx_left++;
	list_append(&rq->free_recvs, &recv->match.node);
}

/** Report a receive's completion to the endpoint's owner, or to the queue's owner if `ep` is NULL or being
 *  destroyed. */
static void tell(struct nic_rdm_rq *rq, struct nic_rdm *ep, struct nic_rdm_done *done)
{
	if (ep && !ep->leaving) {
		rdm_tell(ep, done);
		return;
	}
	done->peer = NULL;
	rq->nic->completions++;
	rq->done(rq->ctx, done);
}

void rdm_recv_done(struct nic_rdm_rq *rq, struct nic_rdm *ep, struct rdm_recv *recv, struct nic_rdm_done *done)
{
	bool ends = recv->busy == 1 && (!(recv->flags & NIC_RDM_MULTI) || recv->full);

	struct nic_rdm_done end = {.kind = NIC_RDM_RECV, .status = NIC_RDM_CANCELED, .flags = NIC_RDM_MULTI};
	bool canceled = ends && recv->canceled;

	recv->busy--;
	end.context = done->context = recv->context;
	end.cookie = done->cookie = recv->cookie;
	end.flags |= recv->flags & NIC_RDM_TAGGED;
	if (ends && !canceled && recv->flags & NIC_RDM_MULTI)
		done->flags |= NIC_RDM_MULTI;
	if (ends)
		recv_free(rq, recv);
	tell(rq, ep, done);
	if (canceled)
		tell(rq, NULL, &end);
}

uint64_t rdm_recv_claim(struct nic_rdm_rq *rq, struct rdm_recv *recv, uint64_t length, uint64_t *room)
{
	uint64_t base = recv->used, left = recv->length - base;

	*room = length < left ? length : left;
	recv->busy++;
	if (!recv->match.stays) {
		recv->posted = false;
		return base;
	}
	recv->used += *room;
	recv->full = recv->length - recv->used < recv->min_free;
	if (recv->full && recv->posted) {
		tag_cancel(rdm_unit(rq, recv->flags & NIC_RDM_TAGGED), &recv->match);
		recv->posted = false;
	}
	return base;
}

/* ---- posting ------------------------------------------------------------------------------------------------- */

static struct rdm_unexpected *claimed_find(struct nic_rdm_rq *rq, const void *context)
{
	for (struct list *n = rq->claimed.next; n != &rq->claimed; n = n->next) {
		struct rdm_unexpected *unexpected =
			list_entry(list_entry(n, struct tag_message, all), struct rdm_unexpected, match);

		if (unexpected->claimed_by == context)
			return unexpected;
	}
	return NULL;
}

static uint64_t source_of(const struct nic_rdm_recv *r)
{
	return r->from ? (uintptr_t)r->from : TAG_ANY_SOURCE;
}

static void recv_fill(struct rdm_recv *recv, const struct nic_rdm_recv *r)
{
	*recv = (struct rdm_recv){.context = r->context,
				  .cookie = r->cookie,
				  .flags = r->flags & (NIC_RDM_TAGGED | NIC_RDM_MULTI),
				  .n_iov = r->n_iov,
				  .min_free = r->min_free,
				  .match = {.source = source_of(r), .stays = (r->flags & NIC_RDM_MULTI) != 0}};
	if (r->flags & NIC_RDM_TAGGED) {
		recv->match.tag = r->tag;
		recv->match.ignore = r->ignore;
	}
	for (uint32_t i = 0; i < r->n_iov; i++) {
		recv->iov[i] = r->iov[i];
		recv->length += r->iov[i].len;
	}
}

/** Receive or discard the message that nic_rdm_rq_peek has claimed for this context. */
static int recv_claimed(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r)
{
	struct rdm_unexpected *unexpected = claimed_find(rq, r->context);
	struct nic_rdm_done done;
	struct rdm_recv *recv;

	if (!unexpected)
		return -ENOMSG;
	recv = recv_get(rq);
	if (!recv)
		return -EAGAIN;
	recv_fill(recv, r);
	list_remove(&unexpected->match.all);
	if (!(r->flags & NIC_RDM_DISCARD)) {
		rdm_unexpected_match(unexpected, recv);
	} else {
		struct nic_rdm *ep = unexpected->ep;

		done = rdm_describe(unexpected->peer, &unexpected->header);
		rdm_unexpected_discard(unexpected);
		recv->busy++;
		rdm_recv_done(rq, ep, recv, &done);
	}
	nic_settle_due(rq->nic);
	return 0;
}

int nic_rdm_rq_recv(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r)
{
	struct tag_unit *unit = rdm_unit(rq, r->flags & NIC_RDM_TAGGED);
	bool multi = r->flags & NIC_RDM_MULTI;
	struct tag_message *m;
	struct rdm_recv *recv;

	if (rq->shared && r->from)
		return -EINVAL; /* peers belong to a single endpoint */
	if (r->n_iov > NIC_RDM_IOV_MAX || (r->n_iov && !r->iov) ||
	    (multi && (r->n_iov != 1 || r->min_free == 0 || r->flags & NIC_RDM_CLAIM)))
		return -EINVAL; /* MULTI with CLAIM: a CLAIM takes a single message, so the rest of the buffer would
				 * never be posted */
	if (r->flags & NIC_RDM_CHECK)
		return 0;
	if (r->flags & NIC_RDM_CLAIM)
		return recv_claimed(rq, r);
	recv = recv_get(rq);
	if (!recv)
		return -EAGAIN;
	recv_fill(recv, r);
	do {
		m = tag_post(unit, &recv->match);
		recv->posted = !m;
		if (m)
			rdm_unexpected_match(list_entry(m, struct rdm_unexpected, match), recv);
	} while (m && multi && !recv->full);
	nic_settle_due(rq->nic);
	return 0;
}

int nic_rdm_rq_peek(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r, struct nic_rdm_done *found)
{
	struct tag_unit *unit = rdm_unit(rq, r->flags & NIC_RDM_TAGGED);
	bool tagged = r->flags & NIC_RDM_TAGGED;
	struct tag_message *m;
	struct rdm_unexpected *unexpected;

	if (rq->shared && r->from)
		return -EINVAL;
	m = tag_peek(unit, tagged ? r->tag : 0, tagged ? r->ignore : 0, source_of(r));
	if (!m)
		return -ENOMSG;
	unexpected = list_entry(m, struct rdm_unexpected, match);
	*found = rdm_describe(unexpected->peer, &unexpected->header);
	found->context = r->context;
	found->cookie = r->cookie;
	if (r->flags & (NIC_RDM_CLAIM | NIC_RDM_DISCARD))
		tag_take(unit, m);
	if (r->flags & NIC_RDM_DISCARD) {
		rdm_unexpected_discard(unexpected);
	} else if (r->flags & NIC_RDM_CLAIM) {
		unexpected->claimed = true;
		unexpected->claimed_by = r->context;
		list_append(&rq->claimed, &m->all);
	}
	nic_settle_due(rq->nic);
	return 0;
}

int nic_rdm_rq_cancel(struct nic_rdm_rq *rq, const void *context)
{
	struct nic_rdm_done done = {.kind = NIC_RDM_RECV, .status = NIC_RDM_CANCELED};

	for (uint32_t i = 0; i < rq->recvs_touched; i++) {
		struct rdm_recv *recv = &rq->recvs[i];

		if (!recv->posted || recv->context != context)
			continue;
		tag_cancel(rdm_unit(rq, recv->flags & NIC_RDM_TAGGED), &recv->match);
		recv->posted = false;
		recv->full = true;
		if (recv->busy) { /* the buffer is still being written */
			recv->canceled = true;
			return 0;
		}
		done.tag = recv->match.tag;
		done.flags = recv->flags & NIC_RDM_TAGGED;
		recv->busy++;
		rdm_recv_done(rq, NULL, recv, &done);
		nic_settle_due(rq->nic);
		return 0;
	}
	return -ENOENT;
}

/* ---- an endpoint's use of its queue --------------------------------------------------------------------------- */

struct nic_rdm_rq *nic_rdm_rq_of(struct nic_rdm *ep)
{
	return ep->rq;
}

int nic_rdm_recv(struct nic_rdm *ep, const struct nic_rdm_recv *r)
{
	return ep->rq->shared ? -EOPNOTSUPP : nic_rdm_rq_recv(ep->rq, r);
}

int nic_rdm_peek(struct nic_rdm *ep, const struct nic_rdm_recv *r, struct nic_rdm_done *found)
{
	return ep->rq->shared ? -EOPNOTSUPP : nic_rdm_rq_peek(ep->rq, r, found);
}

int nic_rdm_cancel(struct nic_rdm *ep, const void *context)
{
	return ep->rq->shared ? -EOPNOTSUPP : nic_rdm_rq_cancel(ep->rq, context);
}

/** Free the endpoint's unexpected messages on a list. `unit`: the tag unit that holds the messages; NULL: the messages
 *  are claimed, and no tag unit holds them. */
static void drop_unexpected(struct nic_rdm *ep, struct list *messages, struct tag_unit *unit)
{
	for (struct list *n = messages->next, *next; n != messages; n = next) {
		struct rdm_unexpected *unexpected =
			list_entry(list_entry(n, struct tag_message, all), struct rdm_unexpected, match);

		next = n->next;
		if (unexpected->ep != ep)
			continue;
		if (unit)
			tag_take(unit, &unexpected->match);
		else
			list_remove(n);
		rdm_unexpected_free(unexpected);
	}
}

void rdm_rq_leave(struct nic_rdm *ep)
{
	struct nic_rdm_rq *rq = ep->rq;

	ep->leaving = true;
	for (uint32_t i = 0; i < RDM_PEER_BUCKETS; i++)
		for (struct list *n = ep->peers[i].next; n != &ep->peers[i]; n = n->next)
			rdm_arrivals_lost(list_entry(n, struct nic_rdm_peer, hash));
	rdm_ops_leave(ep);
	drop_unexpected(ep, &rq->messages.messages, &rq->messages);
	drop_unexpected(ep, &rq->tagged.messages, &rq->tagged);
	drop_unexpected(ep, &rq->claimed, NULL);
	rq->users--;
}
