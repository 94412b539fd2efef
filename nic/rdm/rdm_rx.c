/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_rx.c - delivers incoming messages to receives. A message's first packet finds its receive, and all payload goes
 * straight into the receive's buffer; an unexpected message is kept.
 *
 * This code runs in the responder of this side's queue pair for the peer. Before the responder accepts a message, it
 * asks rdm_takes whether there is room for the message. If not, the responder sends an RNR NAK, as if the queue pair
 * had no receive WQE.
 */
#include "opcode.h"
#include "packet.h"
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_done.h"
#include "rdm_unexpected.h"
#include "rdm_ops.h"
#include "rdm_rendezvous.h"
#include "rdm_rq.h"
#include "rdm_rx.h"
#include "rdm_stranger.h"
#include "rdm_tagged.h"
#include "rdm_tx.h"

bool rdm_scatter(struct nic *nic, const struct nic_iov *iov, uint32_t n, uint64_t offset, const void *src, uint64_t len)
{
	const uint8_t *from = src;

	for (uint32_t i = 0; i < n && len > 0; i++) {
		uint64_t skip = offset < iov[i].len ? offset : iov[i].len, left = iov[i].len - skip;
		uint64_t part = left < len ? left : len;

		offset -= skip;
		if (part == 0)
			continue;
		if (!mem_write(nic, (uint8_t *)iov[i].base + skip, from, part))
			return false;
		from += part;
		len -= part;
	}
	return true;
}

/* ---- unexpected messages -------------------------------------------------------------------------------------- */

struct nic_rdm_done rdm_describe(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	return (struct nic_rdm_done){.kind = NIC_RDM_RECV,
				     .peer = peer,
				     .len = h->length,
				     .tag = h->tag,
				     .data = h->data,
				     .flags = (h->flags & RDM_IS_TAGGED ? NIC_RDM_TAGGED : 0) |
					      (h->flags & RDM_HAS_DATA ? NIC_RDM_DATA : 0)};
}

/** Complete a message whose first `room` bytes have been written to the receive at offset `base`. */
static void delivered(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv,
		      uint64_t base, uint64_t room, uint32_t status)
{
	struct nic_rdm_done done = rdm_describe(peer, h);

	done.buf = rdm_recv_at(recv, base);
	done.len = room;
	done.overflow = h->length - room;
	done.status = status ? status : done.overflow ? NIC_RDM_TRUNCATED : NIC_RDM_OK;
	if (h->flags & RDM_WANTS_FIN && status != NIC_RDM_PEER_LOST)
		rdm_rendezvous_fin(peer, h->id);
	rdm_recv_done(ep->rq, ep, recv, &done);
}

/** Deliver a complete unexpected message to its receive. */
static void unexpected_deliver(struct rdm_unexpected *unexpected)
{
	struct nic_rdm_peer *peer = unexpected->peer;
	struct rdm_recv *recv = unexpected->recv;
	uint32_t status = NIC_RDM_OK;

	if (unexpected->header.kind == RDM_OPERATE) {
		rdm_operate(unexpected);
		return;
	}
	if (unexpected->header.kind == RDM_OFFER && unexpected->room) {
		rdm_rendezvous_get(peer, &unexpected->header, recv, unexpected->base, unexpected->room);
	} else {
		if (!rdm_scatter(unexpected->ep->nic, recv->iov, recv->n_iov, unexpected->base, unexpected->data,
				 unexpected->room))
			status = NIC_WC_LOC_PROT_ERR;
		delivered(unexpected->ep, peer, &unexpected->header, recv, unexpected->base, unexpected->room, status);
	}
	rdm_unexpected_free(unexpected);
}

void rdm_unexpected_match(struct rdm_unexpected *unexpected, struct rdm_recv *recv)
{
	unexpected->recv = recv;
	/* An operation on elements takes no space of the receive's buffer. */
	unexpected->base = rdm_recv_claim(unexpected->ep->rq, recv,
					  unexpected->header.kind == RDM_OPERATE ? 0 : unexpected->header.length,
					  &unexpected->room);
	if (unexpected->complete)
		unexpected_deliver(unexpected); /* otherwise end() delivers it, when the rest has arrived */
}

/** Drop an unexpected message without receiving it. An incomplete message is dropped when the rest has arrived. */
void rdm_unexpected_discard(struct rdm_unexpected *unexpected)
{
	if (!unexpected->complete) {
		unexpected->discard = true;
		return;
	}
	if (unexpected->header.kind == RDM_OPERATE && unexpected->header.flags & RDM_WANTS_FIN) {
		rdm_operate_discard(unexpected);
		return;
	}
	if (unexpected->header.flags & RDM_WANTS_FIN)
		rdm_rendezvous_fin(unexpected->peer, unexpected->header.id);
	rdm_unexpected_free(unexpected);
}

/* ---- arrival ------------------------------------------------------------------------------------------------- */

bool rdm_header_of(const struct packet *p, struct rdm_header *h, uint32_t *prefix)
{
	uint8_t copy[RDM_PREFIX_MAX];
	const uint8_t *bytes = p->payload;
	uint32_t len = p->payload_len < sizeof(copy) ? p->payload_len : sizeof(copy);

	if (p->shared)
		bytes = memcpy(copy, bytes, len);
	/* A message without a body consists of its prefix only: make rdm_header_get fail if more bytes follow. */
	if (len && len < p->payload_len && !rdm_has_body(bytes[0]))
		len = RDM_PREFIX_MAX + 1;
	*prefix = rdm_header_get(h, bytes, len);
	return *prefix != 0;
}

static bool has_room(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct nic_rdm *ep = peer->ep;

	if (h->flags & RDM_WANTS_FIN && !rdm_may_owe(peer))
		return false;
	if (h->kind == RDM_RESULT || rdm_unexpected_room(ep, h, false))
		return true;
	/* If a receive matches, only the operands of an OPERATE need memory. */
	return tag_find(rdm_unit(ep->rq, h->flags & RDM_IS_TAGGED), h->tag, (uintptr_t)peer) &&
	       (h->kind != RDM_OPERATE || rdm_unexpected_room(ep, h, true));
}

bool rdm_takes(const struct nic_qp *qp, const struct packet *p)
{
	struct nic_rdm *ep;

	if (!qp->rdm_peer || !op_starts(p->op))
		return true;
	ep = qp->rdm_peer->ep;
	if (!rdm_header_of(p, &ep->heard, &ep->heard_prefix) || ep->heard.kind == RDM_FIN ||
	    ep->heard.kind == RDM_WRITTEN)
		return true; /* FIN and WRITTEN need no room; rdm_arrive refuses malformed messages */
	return has_room(qp->rdm_peer, &ep->heard);
}

/** Begin to receive a message: find its receive, or hold it as an unexpected message. */
static void begin(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct rdm_arrival *a = &peer->arrival;
	struct tag_unit *unit = rdm_unit(peer->ep->rq, h->flags & RDM_IS_TAGGED);
	struct tag_recv *match = h->kind == RDM_RESULT ? NULL : tag_arrive(unit, h->tag, (uintptr_t)peer);

	rdm_stranger_known(peer);
	*a = (struct rdm_arrival){.active = true, .header = *h};
	if (h->kind == RDM_RESULT)
		return; /* a RESULT takes no receive: its body overwrites the OPERATE's operands (rdm_result_add) */
	if (h->flags & RDM_WANTS_FIN)
		rdm_owe(peer);		       /* the FIN or RESULT is sent when the message is delivered */
	if (match && h->kind == RDM_OPERATE) { /* operands are not written to the receive's buffer */
		a->unexpected = rdm_unexpected_get(peer->ep, peer, h);
		rdm_unexpected_match(a->unexpected, list_entry(match, struct rdm_recv, match));
	} else if (match) {
		a->recv = list_entry(match, struct rdm_recv, match);
		a->base = rdm_recv_claim(peer->ep->rq, a->recv, h->length, &a->room);
	} else {
		a->unexpected = rdm_unexpected_get(peer->ep, peer, h);
		tag_hold(unit, &a->unexpected->match);
	}
}

static void add(struct nic_rdm_peer *peer, const uint8_t *data, uint64_t len)
{
	struct rdm_arrival *a = &peer->arrival;
	uint64_t part = a->got < a->room ? a->room - a->got : 0;

	if (a->header.kind == RDM_RESULT) {
		rdm_result_add(peer, &a->header, a->got, data, len);
	} else if (a->unexpected) {
		memcpy(a->unexpected->data + a->got, data, len);
	} else {
		part = part < len ? part : len;
		if (!rdm_scatter(peer->ep->nic, a->recv->iov, a->recv->n_iov, a->base + a->got, data, part))
			a->status = NIC_WC_LOC_PROT_ERR;
	}
	a->got += len;
}

static bool is_taken(const struct nic_foresight *f, const struct tag_recv *r)
{
	for (uint32_t i = 1; i < f->n; i++)
		if (f->taken[i] == r)
			return true;
	return false;
}

uint8_t *rdm_foresee(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f)
{
	struct nic_rdm_peer *peer = qp->rdm_peer;
	struct tag_recv *match = NULL;
	const struct rdm_recv *recv;
	struct rdm_header h;
	uint32_t prefix;

	if (!peer || !rdm_header_of(p, &h, &prefix) || h.kind != RDM_OFFER || p->offer->len != h.length ||
	    (h.flags & RDM_WANTS_FIN && !rdm_will_owe(peer, f->n)))
		return NULL;
	do {
		match = tag_find_after(rdm_unit(peer->ep->rq, h.flags & RDM_IS_TAGGED), h.tag, (uintptr_t)peer, match);
	} while (match && is_taken(f, match));
	if (!match || match->stays)
		return NULL;
	recv = list_entry(match, struct rdm_recv, match);
	if (recv->n_iov != 1 || recv->length < h.length)
		return NULL;
	f->taken[f->n] = match;
	return recv->iov[0].base;
}

/** The current message is complete. `offer`: NULL, or a reference to an OFFER's data, valid during the call. */
static void end(struct nic_rdm_peer *peer, const struct nic_reference *offer)
{
	struct rdm_arrival *a = &peer->arrival;
	struct rdm_unexpected *unexpected = a->unexpected;

	a->active = false;
	if (a->header.kind == RDM_RESULT) {
		rdm_result(peer, &a->header);
	} else if (unexpected) {
		unexpected->complete = true;
		if (unexpected->recv)
			unexpected_deliver(unexpected);
		else if (unexpected->discard)
			rdm_unexpected_discard(unexpected);
	} else if (a->header.kind == RDM_OFFER && a->room && !rdm_rendezvous_fetch(peer, a, offer)) {
		rdm_rendezvous_get(peer, &a->header, a->recv, a->base, a->room);
	} else {
		delivered(peer->ep, peer, &a->header, a->recv, a->base, a->room, a->status);
	}
}

static void written(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct nic_rdm_done done = {
		.kind = NIC_RDM_REMOTE_WRITE, .peer = peer, .len = h->length, .data = h->data, .flags = NIC_RDM_DATA};

	rdm_stranger_known(peer);
	rdm_tell(peer->ep, &done);
}

bool rdm_deliver_whole(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data)
{
	struct tag_unit *unit = rdm_unit(ep->rq, h->flags & RDM_IS_TAGGED);
	struct tag_recv *match = tag_arrive(unit, h->tag, (uintptr_t)peer);
	uint32_t status = NIC_RDM_OK;
	struct rdm_unexpected *unexpected;
	struct rdm_recv *recv;
	uint64_t base, room;

	if (match) {
		recv = list_entry(match, struct rdm_recv, match);
		base = rdm_recv_claim(ep->rq, recv, h->length, &room);
		if (!rdm_scatter(ep->nic, recv->iov, recv->n_iov, base, data, room))
			status = NIC_WC_LOC_PROT_ERR;
		delivered(ep, peer, h, recv, base, room, status);
		return true;
	}
	if (!rdm_unexpected_room(ep, h, false))
		return false;
	unexpected = rdm_unexpected_get(ep, peer, h);
	memcpy(unexpected->data, data, h->length);
	unexpected->complete = true;
	tag_hold(unit, &unexpected->match);
	return true;
}

/** Handle an EAGER message that consists of one packet, the most common case. */
static enum error_id arrive_whole(struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data,
				  uint64_t len)
{
	if (len != h->length)
		return ERR_receive_length;
	rdm_stranger_known(peer);
	if (h->flags & RDM_WANTS_FIN)
		rdm_owe(peer);
	/* This cannot fail for lack of room: rdm_takes has checked that there is room. */
	return rdm_deliver_whole(peer->ep, peer, h, data) ? ERR_none : ERR_opcode_unsupported;
}

enum error_id rdm_arrive(struct nic_qp *qp, const struct packet *p)
{
	struct nic_rdm_peer *peer = qp->rdm_peer;
	uint32_t prefix = 0;

	if (!peer)
		return ERR_opcode_unsupported; /* the QP was dropped, and is about to be destroyed */
	if (op_starts(p->op)) {
		const struct rdm_header *h = &peer->ep->heard;

		prefix = peer->ep->heard_prefix;
		if (!prefix)
			return ERR_opcode_unsupported;
		if (h->kind == RDM_FIN || h->kind == RDM_WRITTEN) {
			if (h->kind == RDM_FIN)
				rdm_fin(peer, h->id);
			else
				written(peer, h);
			return ERR_none;
		}
		if (h->kind == RDM_OPERATE && !rdm_operate_makes_sense(h))
			return ERR_opcode_unsupported;
		if (peer->ep->cfg.plain && (h->kind == RDM_OFFER || h->kind == RDM_OPERATE))
			return ERR_opcode_unsupported;
		if (h->kind == RDM_EAGER && op_ends(p->op))
			return arrive_whole(peer, h, p->payload + prefix, p->payload_len - prefix);
		begin(peer, h);
		if (!op_ends(p->op))
			rdm_keep_alive(peer); /* until the rest of the message arrives */
	}
	if (rdm_has_body(peer->arrival.header.kind)) {
		uint64_t len = p->payload_len - prefix, left = peer->arrival.header.length - peer->arrival.got;

		if (len > left || (op_ends(p->op) && len < left))
			return ERR_receive_length;
		add(peer, p->payload + prefix, len);
	}
	if (op_ends(p->op))
		end(peer, p->offer);
	return ERR_none;
}

/* ---- lost connections ----------------------------------------------------------------------------------------- */

/** Release the answer reserved for a message. */
static void forgive(struct nic_rdm_peer *peer, struct rdm_header *h)
{
	if (h->flags & RDM_WANTS_FIN)
		rdm_owe_no_more(peer);
	h->flags &= (uint8_t)~RDM_WANTS_FIN;
}

/** Free an unexpected message that can never be delivered, and end its receive, if it has one. */
static void unexpected_lost(struct rdm_unexpected *unexpected)
{
	struct nic_rdm_peer *peer = unexpected->peer;

	if (unexpected->recv && unexpected->header.kind == RDM_OPERATE)
		rdm_operate_lost(unexpected);
	else if (unexpected->recv)
		delivered(unexpected->ep, peer, &unexpected->header, unexpected->recv, unexpected->base, 0,
			  NIC_RDM_PEER_LOST);
	else if (unexpected->claimed)
		list_remove(&unexpected->match.all);
	else if (!unexpected->discard)
		tag_take(rdm_unit(peer->ep->rq, unexpected->header.flags & RDM_IS_TAGGED), &unexpected->match);
	rdm_unexpected_free(unexpected);
}

static void lose_offers(struct nic_rdm_peer *peer, struct list *messages)
{
	for (struct list *n = messages->next, *next; n != messages; n = next) {
		struct rdm_unexpected *unexpected =
			list_entry(list_entry(n, struct tag_message, all), struct rdm_unexpected, match);

		next = n->next;
		if (unexpected->peer != peer)
			continue;
		forgive(peer, &unexpected->header);
		if (unexpected->header.kind == RDM_OFFER || unexpected->header.kind == RDM_OPERATE)
			unexpected_lost(unexpected);
	}
}

void rdm_arrivals_lost(struct nic_rdm_peer *peer)
{
	struct rdm_arrival *a = &peer->arrival;

	if (a->active) {
		a->active = false;
		forgive(peer, a->unexpected ? &a->unexpected->header : &a->header);
		if (a->unexpected)
			unexpected_lost(a->unexpected);
		else if (a->recv)
			delivered(peer->ep, peer, &a->header, a->recv, a->base, a->got < a->room ? a->got : a->room,
				  NIC_RDM_PEER_LOST);
	}
	lose_offers(peer, &peer->ep->rq->messages.messages);
	lose_offers(peer, &peer->ep->rq->tagged.messages);
	lose_offers(peer, &peer->ep->rq->claimed);
}
