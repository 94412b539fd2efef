/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_rx.c - delivers incoming messages to receives. A message's first packet finds its receive, and all payload goes
 * straight into the receive's buffer; an unexpected message is held.
 *
 * All of it runs in the responder of the peer's queue pair, which asks before it accepts a message (rdm_takes) whether
 * there is room for it: if not, it sends an RNR NAK, as a queue pair without receive WQEs does.
 */
#include "opcode.h"
#include "packet.h"
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_done.h"
#include "rdm_held.h"
#include "rdm_ops.h"
#include "rdm_pull.h"
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

/* ---- held messages -------------------------------------------------------------------------------------------- */

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

/** Complete a message whose first `room` bytes lie in the receive at offset `base`. */
static void delivered(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv,
		      uint64_t base, uint64_t room, uint32_t status)
{
	struct nic_rdm_done done = rdm_describe(peer, h);

	done.buf = rdm_recv_at(recv, base);
	done.len = room;
	done.overflow = h->length - room;
	done.status = status ? status : done.overflow ? NIC_RDM_TRUNCATED : NIC_RDM_OK;
	if (h->flags & RDM_WANTS_TAKEN && status != NIC_RDM_PEER_LOST)
		rdm_say_taken(peer, h->id);
	rdm_recv_done(ep->rq, ep, recv, &done);
}

/** Deliver a complete held message to its receive. */
static void held_deliver(struct rdm_held *held)
{
	struct nic_rdm_peer *peer = held->peer;
	struct rdm_recv *recv = held->recv;
	uint32_t status = NIC_RDM_OK;

	if (held->header.kind == RDM_OPERATE) {
		rdm_operate(held);
		return;
	}
	if (held->header.kind == RDM_OFFER && held->room) {
		rdm_pull(peer, &held->header, recv, held->base, held->room);
	} else {
		if (!rdm_scatter(held->ep->nic, recv->iov, recv->n_iov, held->base, held->data, held->room))
			status = NIC_WC_LOC_PROT_ERR;
		delivered(held->ep, peer, &held->header, recv, held->base, held->room, status);
	}
	rdm_held_free(held);
}

void rdm_held_match(struct rdm_held *held, struct rdm_recv *recv)
{
	held->recv = recv;
	/* An operation uses up no room of the receive. */
	held->base = rdm_recv_claim(held->ep->rq, recv, held->header.kind == RDM_OPERATE ? 0 : held->header.length,
				    &held->room);
	if (held->complete)
		held_deliver(held); /* else end() does, when the rest has come */
}

/** Drop a held message without receiving it; if incomplete, when the rest has come. */
void rdm_held_discard(struct rdm_held *held)
{
	if (!held->complete) {
		held->discard = true;
		return;
	}
	if (held->header.kind == RDM_OPERATE && held->header.flags & RDM_WANTS_TAKEN) {
		rdm_operate_discard(held);
		return;
	}
	if (held->header.flags & RDM_WANTS_TAKEN)
		rdm_say_taken(held->peer, held->header.id);
	rdm_held_free(held);
}

/* ---- arrival ------------------------------------------------------------------------------------------------- */

bool rdm_header_of(const struct packet *p, struct rdm_header *h, uint32_t *prefix)
{
	uint8_t copy[RDM_PREFIX_MAX];
	const uint8_t *bytes = p->payload;
	uint32_t len = p->payload_len < sizeof(copy) ? p->payload_len : sizeof(copy);

	if (p->shared)
		bytes = memcpy(copy, bytes, len);
	/* A message without a body ends with its prefix: make rdm_header_get fail if there is more. */
	if (len && len < p->payload_len && !rdm_has_body(bytes[0]))
		len = RDM_PREFIX_MAX + 1;
	*prefix = rdm_header_get(h, bytes, len);
	return *prefix != 0;
}

static bool has_room(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct nic_rdm *ep = peer->ep;

	if (h->flags & RDM_WANTS_TAKEN && !rdm_may_owe(peer))
		return false;
	if (h->kind == RDM_RESULT || rdm_held_room(ep, h, false))
		return true;
	/* With a matching receive only operands need memory. */
	return tag_find(rdm_unit(ep->rq, h->flags & RDM_IS_TAGGED), h->tag, (uintptr_t)peer) &&
	       (h->kind != RDM_OPERATE || rdm_held_room(ep, h, true));
}

bool rdm_takes(const struct nic_qp *qp, const struct packet *p)
{
	struct nic_rdm *ep;

	if (!qp->rdm_peer || !op_starts(p->op))
		return true;
	ep = qp->rdm_peer->ep;
	if (!rdm_header_of(p, &ep->heard, &ep->heard_prefix) || ep->heard.kind == RDM_TAKEN ||
	    ep->heard.kind == RDM_WRITTEN)
		return true; /* TAKEN and WRITTEN need no room; rdm_arrive refuses malformed messages */
	return has_room(qp->rdm_peer, &ep->heard);
}

/** Begin a message: find its receive, or hold it. */
static void begin(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct rdm_arrival *a = &peer->arrival;
	struct tag_unit *unit = rdm_unit(peer->ep->rq, h->flags & RDM_IS_TAGGED);
	struct tag_recv *match = h->kind == RDM_RESULT ? NULL : tag_arrive(unit, h->tag, (uintptr_t)peer);

	rdm_stranger_known(peer);
	*a = (struct rdm_arrival){.active = true, .header = *h};
	if (h->kind == RDM_RESULT)
		return; /* its body replaces the operands, see rdm_result_add */
	if (h->flags & RDM_WANTS_TAKEN)
		rdm_owe(peer);		       /* sent when it is delivered */
	if (match && h->kind == RDM_OPERATE) { /* operands do not go into the buffer */
		a->held = rdm_held_get(peer->ep, peer, h);
		rdm_held_match(a->held, list_entry(match, struct rdm_recv, match));
	} else if (match) {
		a->recv = list_entry(match, struct rdm_recv, match);
		a->base = rdm_recv_claim(peer->ep->rq, a->recv, h->length, &a->room);
	} else {
		a->held = rdm_held_get(peer->ep, peer, h);
		tag_hold(unit, &a->held->match);
	}
}

static void add(struct nic_rdm_peer *peer, const uint8_t *data, uint64_t len)
{
	struct rdm_arrival *a = &peer->arrival;
	uint64_t part = a->got < a->room ? a->room - a->got : 0;

	if (a->header.kind == RDM_RESULT) {
		rdm_result_add(peer, &a->header, a->got, data, len);
	} else if (a->held) {
		memcpy(a->held->data + a->got, data, len);
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
	    (h.flags & RDM_WANTS_TAKEN && !rdm_will_owe(peer, f->n)))
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

/** The message is complete. `offer`: reference to an OFFER's data, valid during the call, or NULL. */
static void end(struct nic_rdm_peer *peer, const struct nic_reference *offer)
{
	struct rdm_arrival *a = &peer->arrival;
	struct rdm_held *held = a->held;

	a->active = false;
	if (a->header.kind == RDM_RESULT) {
		rdm_result(peer, &a->header);
	} else if (held) {
		held->complete = true;
		if (held->recv)
			held_deliver(held);
		else if (held->discard)
			rdm_held_discard(held);
	} else if (a->header.kind == RDM_OFFER && a->room && !rdm_pull_offered(peer, a, offer)) {
		rdm_pull(peer, &a->header, a->recv, a->base, a->room);
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
	struct rdm_held *held;
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
	if (!rdm_held_room(ep, h, false))
		return false;
	held = rdm_held_get(ep, peer, h);
	memcpy(held->data, data, h->length);
	held->complete = true;
	tag_hold(unit, &held->match);
	return true;
}

/** An EAGER message in one packet: the common case. */
static enum error_id arrive_whole(struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data,
				  uint64_t len)
{
	if (len != h->length)
		return ERR_receive_length;
	rdm_stranger_known(peer);
	if (h->flags & RDM_WANTS_TAKEN)
		rdm_owe(peer);
	/* rdm_takes has checked that there is room. */
	return rdm_deliver_whole(peer->ep, peer, h, data) ? ERR_none : ERR_opcode_unsupported;
}

enum error_id rdm_arrive(struct nic_qp *qp, const struct packet *p)
{
	struct nic_rdm_peer *peer = qp->rdm_peer;
	uint32_t prefix = 0;

	if (!peer)
		return ERR_opcode_unsupported; /* dropped after an error, about to be destroyed */
	if (op_starts(p->op)) {
		const struct rdm_header *h = &peer->ep->heard;

		prefix = peer->ep->heard_prefix;
		if (!prefix)
			return ERR_opcode_unsupported;
		if (h->kind == RDM_TAKEN || h->kind == RDM_WRITTEN) {
			if (h->kind == RDM_TAKEN)
				rdm_taken(peer, h->id);
			else
				written(peer, h);
			return ERR_none;
		}
		if (h->kind == RDM_OPERATE && !rdm_operate_makes_sense(h))
			return ERR_opcode_unsupported;
		if (h->kind == RDM_EAGER && op_ends(p->op))
			return arrive_whole(peer, h, p->payload + prefix, p->payload_len - prefix);
		begin(peer, h);
		if (!op_ends(p->op))
			rdm_watch(peer); /* for the rest */
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

/** Release the answer owed for a message. */
static void forgive(struct nic_rdm_peer *peer, struct rdm_header *h)
{
	if (h->flags & RDM_WANTS_TAKEN)
		rdm_owe_no_more(peer);
	h->flags &= (uint8_t)~RDM_WANTS_TAKEN;
}

/** Free a held message that can never be delivered, and end its receive, if it has one. */
static void held_lost(struct rdm_held *held)
{
	struct nic_rdm_peer *peer = held->peer;

	if (held->recv && held->header.kind == RDM_OPERATE)
		rdm_operate_lost(held);
	else if (held->recv)
		delivered(held->ep, peer, &held->header, held->recv, held->base, 0, NIC_RDM_PEER_LOST);
	else if (held->claimed)
		list_remove(&held->match.all);
	else if (!held->discard)
		tag_take(rdm_unit(peer->ep->rq, held->header.flags & RDM_IS_TAGGED), &held->match);
	rdm_held_free(held);
}

static void lose_offers(struct nic_rdm_peer *peer, struct list *messages)
{
	for (struct list *n = messages->next, *next; n != messages; n = next) {
		struct rdm_held *held = list_entry(list_entry(n, struct tag_message, all), struct rdm_held, match);

		next = n->next;
		if (held->peer != peer)
			continue;
		forgive(peer, &held->header);
		if (held->header.kind == RDM_OFFER || held->header.kind == RDM_OPERATE)
			held_lost(held);
	}
}

void rdm_arrivals_lost(struct nic_rdm_peer *peer)
{
	struct rdm_arrival *a = &peer->arrival;

	if (a->active) {
		a->active = false;
		forgive(peer, a->held ? &a->held->header : &a->header);
		if (a->held)
			held_lost(a->held);
		else if (a->recv)
			delivered(peer->ep, peer, &a->header, a->recv, a->base, a->got < a->room ? a->got : a->room,
				  NIC_RDM_PEER_LOST);
	}
	lose_offers(peer, &peer->ep->rq->messages.messages);
	lose_offers(peer, &peer->ep->rq->tagged.messages);
	lose_offers(peer, &peer->ep->rq->claimed);
}
