/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend.c - the owner of an XRC target: keeps the target's packets while another NIC has the target's state, or while
 * responses that another NIC made wait to be sent, and lends the state with the packets that are for SRQs of other
 * NICs (route.c); see share.h.
 */
#include "share.h"

#include "opcode.h"
#include "psn.h"
#include "qp_packet.h"
#include "resp.h"

#define KEPT_MAX      512u /* requests kept per target; later ones count as lost */
#define RESPONSES_MAX (2 * XRC_CREDITS)
#define LATE_NS	      100000000u /* after this time, ask whether the borrower still exists */

static void packets_free(struct list *packets)
{
	while (!list_empty(packets))
		free(list_entry(list_pop(packets), struct xrc_packet, node));
}

static struct xrc_packet *packet_copy_of(const struct packet *p)
{
	struct xrc_packet *e = malloc(sizeof(*e) + p->payload_len);

	if (!e)
		return NULL;
	e->p = *p;
	list_init(&e->node);
	if (p->payload_len)
		memcpy(e->payload, p->payload, p->payload_len);
	e->p.payload = e->payload;
	e->p.shared = false;
	e->p.ip = NULL;
	return e;
}

static uint64_t new_incarnation(struct nic *nic)
{
	uint64_t value;

	nic->cfg.random(nic->cfg.ctx, &value, sizeof(value));
	return value;
}

struct xrc_lent *lend_get(struct xrc_share *share, struct nic_qp *qp)
{
	struct xrc_lent *lent = qp->lent;

	if (lent)
		return lent;
	lent = calloc(1, sizeof(*lent));
	if (!lent)
		return NULL;
	lent->qp = qp;
	lent->incarnation = new_incarnation(share->nic);
	list_init(&lent->node);
	list_init(&lent->waiting);
	list_init(&lent->responses);
	list_init(&lent->holders);
	list_init(&lent->orphan);
	list_init(&lent->out);
	qp->lent = lent;
	return lent;
}

struct xrc_holder *lend_holder_find(const struct xrc_lent *lent, const struct nic_rdm_peer *peer)
{
	for (const struct list *n = lent->holders.next; n != &lent->holders; n = n->next) {
		struct xrc_holder *holder = list_entry(n, struct xrc_holder, node);

		if (holder->peer == peer)
			return holder;
	}
	return NULL;
}

struct xrc_holder *lend_holder(struct xrc_lent *lent, struct nic_rdm_peer *peer)
{
	struct xrc_holder *holder = lend_holder_find(lent, peer);

	if (holder)
		return holder;
	holder = calloc(1, sizeof(*holder));
	if (!holder)
		return NULL;
	holder->peer = peer;
	list_append(&lent->holders, &holder->node);
	return holder;
}

/* ---- keeping packets ------------------------------------------------------------------------------------ */

static bool is_busy(const struct xrc_lent *lent)
{
	return lent->borrower || lent->qp->resp.foreign || !list_empty(&lent->waiting);
}

static bool borrower_is_there(const struct xrc_lent *lent)
{
	struct nic_rdm_peer *peer;

	return route_find(lent->qp, lent->lent_srqn, &peer) && (!peer || peer == lent->borrower);
}

static void take_back(struct xrc_lent *lent)
{
	lent->borrower = NULL;
	list_remove(&lent->out);
	free(lent->packet);
	lent->packet = NULL;
}

/* The borrower is gone. It may have executed what was lent, so the connection ends; but not if that was a duplicate. */
static void lost(struct xrc_lent *lent)
{
	take_back(lent);
	lent->known = NULL;
	if (lent->lent_psn == lent->qp->resp.epsn)
		resp_fail(lent->qp, ERR_xrc_srq, lent->nak_psn);
}

bool lend_keep(struct nic_qp *qp, const struct packet *p)
{
	struct xrc_share *share = qp->nic->xrc_share;
	struct xrc_lent *lent = qp->lent;
	struct nic_rdm_peer *peer;
	struct xrc_packet *e;

	if (!share || (lent && (lent->is_guest || lent->processing)))
		return false;
	if (!(lent && is_busy(lent)) && !route_is_foreign(qp, p, &peer))
		return false;
	lent = lend_get(share, qp);
	if (lent && lent->borrower && share->nic->now - lent->lent_ns > LATE_NS) {
		if (!borrower_is_there(lent))
			lost(lent);
		lent->lent_ns = share->nic->now;
		if (qp->state == NIC_QPS_ERR) {
			qp->counters.dropped_rx++;
			return true;
		}
	}
	e = lent && lent->n_waiting < KEPT_MAX ? packet_copy_of(p) : NULL;
	if (!e) {
		COUNT(share->nic, xrc_unkept);
		qp->counters.dropped_rx++;
		return true;
	}
	list_append(&lent->waiting, &e->node);
	lent->n_waiting++;
	xrc_due(share, lent);
	return true;
}

/* ---- lending -------------------------------------------------------------------------------------------- */

/* Send the latest copy of a LEND. @return false: no memory */
static bool lend_send(struct xrc_share *share, struct xrc_lent *lent, struct nic_rdm_peer *peer,
		      const struct xrc_packet *e)
{
	struct xrc_msg *msg = xrc_msg_new(XRC_LEND, lent->qp->qpn, XRC_MSG_MAX);
	struct xrc_lend *lend;

	if (!msg)
		return false;
	lend = (struct xrc_lend *)(void *)msg->bytes;
	lend->head.copy = lent->copy;
	lend->head.incarnation = lent->incarnation;
	lend->head.lease = lent->lease;
	lend->domain = lent->qp->xrcd->name;
	lend->attr = lent->qp->attr;
	resp_state_save(lent->qp, &lend->state);
	msg->len = (uint32_t)sizeof(*lend) + xrc_packet_write(&e->p, msg->bytes + sizeof(*lend));
	lent->asked_ns = share->nic->now;
	lent->on_its_way = true;
	xrc_post(share, peer, msg);
	return true;
}

static bool lend(struct xrc_share *share, struct xrc_lent *lent, struct xrc_packet *e, struct nic_rdm_peer *peer)
{
	struct xrc_holder *holder = lend_holder(lent, peer);

	lent->lease++;
	lent->copy = 0;
	if (!holder || !xrc_link_have(share, peer) || !lend_send(share, lent, peer, e))
		return false;
	holder->has_guest = true;
	lent->borrower = peer;
	lent->packet = e;
	lent->sent = 0;
	lent->lent_ns = share->nic->now;
	lent->lent_psn = lent->nak_psn = e->p.psn;
	lent->lent_srqn = route_srqn(lent->qp, &e->p);
	list_append(&share->out, &lent->out);
	xrc_watch(share);
	COUNT(share->nic, xrc_lent);
	return true;
}

static void process(struct xrc_share *share, struct xrc_lent *lent, struct xrc_packet *e)
{
	struct nic_rdm_peer *peer;

	if (!route_is_foreign(lent->qp, &e->p, &peer)) {
		lent->processing = true;
		resp_rx(lent->qp, &e->p);
		lent->processing = false;
	} else if (!peer || !lend(share, lent, e, peer)) {
		COUNT(share->nic, xrc_unkept);
		lent->qp->counters.dropped_rx++;
	}
}

static void credit(struct xrc_share *share, struct xrc_lent *lent)
{
	struct xrc_msg *msg = lent->borrower ? xrc_msg_new(XRC_CREDIT, lent->qp->qpn, sizeof(struct xrc_credit)) : NULL;
	struct xrc_credit *credit;

	if (!msg)
		return; /* the next one counts these responses, too */
	credit = (struct xrc_credit *)(void *)msg->bytes;
	credit->head.incarnation = lent->incarnation;
	credit->head.lease = lent->lease;
	credit->responses = lent->sent;
	lent->sent = 0;
	xrc_post(share, lent->borrower, msg);
}

void lend_step(struct xrc_share *share, struct xrc_lent *lent)
{
	if (lent->sent >= XRC_CREDITS / 4)
		credit(share, lent);
	while (!lent->borrower && !lent->qp->resp.foreign && !list_empty(&lent->waiting)) {
		struct xrc_packet *e = list_entry(list_pop(&lent->waiting), struct xrc_packet, node);

		lent->n_waiting--;
		process(share, lent, e);
		if (lent->packet != e)
			free(e);
	}
	call_tell(share, lent);
}

/* ---- what comes back ------------------------------------------------------------------------------------ */

/** The target that this message is about, if its sender has the state under this lease. */
static struct xrc_lent *lent_find(struct xrc_share *share, const struct xrc_head *head, const struct nic_rdm_peer *peer)
{
	struct nic_qp *qp = table_find(&share->nic->qps, head->qpn);
	struct xrc_lent *lent = qp ? qp->lent : NULL;

	return lent && !lent->is_guest && lent->borrower == peer && lent->incarnation == head->incarnation &&
			       lent->lease == head->lease
		       ? lent
		       : NULL;
}

void lend_response(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_response *response = bytes;
	struct xrc_lent *lent = lent_find(share, &response->head, peer);
	struct xrc_packet *e = NULL;
	struct packet p;

	if (!lent) {
		COUNT(share->nic, xrc_stale);
		return;
	}
	if (lent->qp->resp.foreign < RESPONSES_MAX &&
	    xrc_packet_read((const uint8_t *)bytes + sizeof(*response), len - (uint32_t)sizeof(*response), &p) &&
	    op_is_response(p.op) && p.payload_len <= lent->qp->pmtu)
		e = packet_copy_of(&p);
	if (!e) {
		COUNT(share->nic, xrc_unkept); /* the peer will ask again, once the guest has had its credit back */
		if (++lent->sent >= XRC_CREDITS / 4)
			xrc_due(share, lent);
		return;
	}
	if (psn_diff(p.psn, lent->nak_psn) >= 0)
		lent->nak_psn = psn_add(p.psn, 1);
	list_append(&lent->responses, &e->node);
	lent->qp->resp.foreign++;
	lent->qp->resp.res_todo++;
	qp_ready(lent->qp);
}

void lend_respond(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	struct xrc_lent *lent = qp->lent;
	struct xrc_packet *e = list_entry(list_pop(&lent->responses), struct xrc_packet, node);
	struct packet p;
	uint8_t *place;

	qp_address(qp, &p, frame);
	p.op = e->p.op;
	p.psn = e->p.psn;
	p.syndrome = e->p.syndrome;
	p.msn = e->p.msn;
	p.orig = e->p.orig;
	place = qp_open(&p, frame, e->p.payload_len);
	packet_copy(&p, place, e->payload, e->p.payload_len);
	qp_emit(qp, &p, frame);
	free(e);
	lent->sent++;
	if (qp->nic->xrc_share && (lent->sent >= XRC_CREDITS / 4 || !qp->resp.foreign))
		xrc_due(qp->nic->xrc_share, lent);
}

/** Whether the borrower may return this state: with no message in progress, or one for its own SRQ. For another, this
 *  NIC or a third one would write to a receive that is not in use. */
static bool may_return(const struct xrc_lent *lent, const struct resp_state *state)
{
	return state->open == RESP_NOT_OPEN || state->srqn == lent->lent_srqn;
}

void lend_return(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_return *ret = bytes;
	struct xrc_lent *lent = lent_find(share, &ret->head, peer);
	bool is_new, accepted;

	if (!lent) {
		COUNT(share->nic, xrc_stale);
		return;
	}
	if (ret->verdict == XRC_NO_MEMORY) {
		if (ret->head.copy != lent->copy)
			return; /* a later copy may be executed */
		take_back(lent);
		COUNT(share->nic, xrc_unkept);
	} else {
		is_new = lent->lent_psn == lent->qp->resp.epsn; /* else the state is that of an earlier request */
		accepted = is_new && ret->state.epsn != lent->qp->resp.epsn;
		if (ret->verdict != XRC_DONE ||
		    (is_new && (!may_return(lent, &ret->state) || !resp_state_load(lent->qp, &ret->state)))) {
			lost(lent);
		} else {
			take_back(lent);
			resp_outcome_apply(lent->qp, &ret->outcome, accepted);
		}
	}
	xrc_due(share, lent);
}

/* ---- answers that are late, or do not come ------------------------------------------------------------- */

/* @return false: there were too many copies */
static bool next_copy(struct xrc_lent *lent)
{
	if (lent->copy == UINT16_MAX)
		return false;
	lent->copy++;
	return true;
}

void lend_delivered(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes)
{
	const struct xrc_lend *lend = bytes;
	struct xrc_lent *lent = lent_find(share, &lend->head, peer);

	if (lent)
		lent->on_its_way = false;
}

bool lend_renew(struct xrc_share *share, struct nic_rdm_peer *peer, void *bytes)
{
	struct xrc_lend *lend = bytes;
	struct xrc_lent *lent = lent_find(share, &lend->head, peer);

	if (!lent || !next_copy(lent))
		return false;
	lend->head.copy = lent->copy;
	return true;
}

void lend_failed(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes)
{
	const struct xrc_lend *lend = bytes;
	struct xrc_lent *lent = lent_find(share, &lend->head, peer);

	if (!lent)
		return;
	lost(lent);
	xrc_due(share, lent);
}

void lends_remind(struct xrc_share *share)
{
	for (struct list *n = share->out.next, *next; n != &share->out; n = next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, out);

		next = n->next;
		xrc_due(share, lent); /* a CREDIT for which there was no memory */
		if (share->nic->now - lent->asked_ns < XRC_WATCH_NS)
			continue;
		if (!borrower_is_there(lent))
			lost(lent);
		else if (lent->on_its_way)
			continue;
		else if (!next_copy(lent))
			lost(lent);
		else
			lend_send(share, lent, lent->borrower, lent->packet); /* on failure, at the next timeout */
	}
}

/* ---- the end of a connection ---------------------------------------------------------------------------- */

static void end_guests(struct xrc_share *share, struct xrc_lent *lent)
{
	for (struct list *n = lent->holders.next; n != &lent->holders; n = n->next) {
		struct xrc_holder *holder = list_entry(n, struct xrc_holder, node);
		struct xrc_msg *msg;

		if (!holder->has_guest)
			continue;
		holder->has_guest = false;
		msg = xrc_msg_new(XRC_END, lent->qp->qpn, sizeof(struct xrc_end));
		if (!msg)
			continue; /* the guest ends with the next connection, or with its domain */
		((struct xrc_end *)(void *)msg->bytes)->head.incarnation = lent->incarnation;
		xrc_post(share, holder->peer, msg);
		xrc_flush_soon(share);
	}
}

void lend_drop(struct nic_qp *qp)
{
	struct xrc_lent *lent = qp->lent;

	if (!lent || lent->is_guest)
		return;
	packets_free(&lent->waiting);
	COUNT_BY(qp->nic, xrc_unkept, lent->n_waiting);
	qp->counters.dropped_rx += lent->n_waiting;
	lent->n_waiting = 0;
	if (!qp->resp.foreign)
		packets_free(&lent->responses);
	take_back(lent);
	lent->sent = 0;
	if (qp->nic->xrc_share)
		end_guests(qp->nic->xrc_share, lent);
	lent->incarnation = new_incarnation(qp->nic);
}

void lend_destroy(struct nic_qp *qp)
{
	struct xrc_lent *lent = qp->lent;

	if (!lent || lent->is_guest)
		return;
	lend_drop(qp);
	packets_free(&lent->responses);
	while (!list_empty(&lent->holders))
		free(list_entry(list_pop(&lent->holders), struct xrc_holder, node));
	list_remove(&lent->node);
	list_remove(&lent->orphan);
	free(lent);
	qp->lent = NULL;
}
