/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_cm.c - connection management for endpoints with one peer (FI_EP_MSG). A listener that receives an ASK refuses it,
 * or accepts the connection for another endpoint, which has its own port. rdm_conn.c then connects the two endpoints
 * like any others. See rdm.md.
 */
#include "rdm.h"
#include "rdm_cm.h"
#include "rdm_conn.h"
#include "rdm_leave.h"
#include "rdm_qp.h"
#include "rdm_stranger.h"
#include "trig.h"

#define ASK_FIRST_NS	 4000000
#define ASK_MOST_NS	 500000000
#define ANSWERS_CHECK_NS 1000000
#define LEFT_MOST_NS	 20000000 /* maximum wait, after BYE (UD), for answers (RC) that the peer sent before BYE */
#define REQUESTS	 1024 /* ASKs remembered per listener: pending ones, and answered ones that may be repeated */

static void tell(struct nic_rdm *ep, enum nic_rdm_cm_kind kind, const struct nic_rdm_addr *from,
		 const struct rdm_cm_data *data, uint32_t request)
{
	struct nic_rdm_cm_event e = {.kind = kind, .request = request};

	memset(&e.from, 0, sizeof(e.from));
	e.from.gid = from->gid;
	e.from.port = from->port;
	if (data) {
		e.data = data->bytes;
		e.len = data->len;
	}
	ep->nic->completions++;
	ep->cfg.cm(ep->cfg.ctx, &e);
}

static bool keep(struct rdm_cm_data *to, const void *data, uint32_t len)
{
	if (len > NIC_RDM_CM_DATA_MAX || (len && !data))
		return false;
	to->len = len;
	if (len)
		memcpy(to->bytes, data, len);
	return true;
}

/** Restart the time limit of the current state. nic->now may be out of date, so only mark the limit as not started, and
 *  have the timers handled at once. */
static void be_patient(struct nic_rdm *ep)
{
	ep->cm.give_up_ns = TIME_NEVER;
	if (ep->nic->now < ep->nic->rdm_deadline)
		ep->nic->rdm_deadline = ep->nic->now;
}

/* ---- active side --------------------------------------------------------------------------------------------- */

static void ask(struct nic_rdm *ep)
{
	struct rdm_call c = {.kind = RDM_ASK, .attempt = ep->cm.attempt, .echo = ep->cm.proof};

	rdm_say(ep, &ep->cm.to, &c, &ep->cm.said);
}

int nic_rdm_cm_connect(struct nic_rdm *ep, const struct nic_rdm_addr *to, const void *data, uint32_t len)
{
	struct rdm_cm *cm = &ep->cm;
	struct nic_av av;

	if (!rdm_has_one_peer(ep) || to->port == 0 || to->port > NIC_SERVICE_PORT_MAX)
		return -EINVAL;
	if (cm->state != RDM_CM_NEW)
		return -EISCONN;
	if (!rdm_av_to(ep, to, &av) || !keep(&cm->said, data, len))
		return -EINVAL;
	cm->to = *to;
	cm->state = RDM_CM_ASKS;
	cm->attempt = rdm_attempt(ep, to);
	cm->wait_ns = ASK_FIRST_NS;
	be_patient(ep);
	ask(ep);
	return 0;
}

void rdm_cm_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct rdm_cm *cm = &ep->cm;

	if (cm->state != RDM_CM_ASKS || c->to != ep->incarnation || c->echo != cm->attempt ||
	    memcmp(&cm->to.gid, &from->gid, sizeof(from->gid)) != 0 || cm->to.port != from->port) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (cm->proof == c->attempt)
		return; /* received before; the timer repeats the ASK */
	cm->proof = c->attempt;
	ask(ep);
}

/** Whether requests of this endpoint have not ended; the peer may already have answered them. */
static bool waits_for_answers(const struct nic_rdm *ep)
{
	return ep->tx_left < ep->cfg.max_tx;
}

/** End the connection after the peer's BYE, as soon as all requests have ended, or after LEFT_MOST_NS. Answers that the
 *  peer sent before BYE can arrive after it: without the wait, executed requests would be reported as lost.
 *  @return when to call this again. */
static uint64_t left_due(struct nic_rdm *ep, uint64_t now_ns)
{
	struct rdm_cm *cm = &ep->cm;

	if (cm->give_up_ns == TIME_NEVER)
		cm->give_up_ns = now_ns + LEFT_MOST_NS;
	if (waits_for_answers(ep) && now_ns < cm->give_up_ns)
		return now_ns + ANSWERS_CHECK_NS;
	rdm_disconnect(cm->peer, NIC_RDM_PEER_LOST);
	return TIME_NEVER;
}

uint64_t rdm_cm_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns)
{
	struct rdm_cm *cm = &ep->cm;

	if (cm->state == RDM_CM_LEFT)
		return left_due(ep, now_ns);
	if (cm->state != RDM_CM_ASKS && cm->state != RDM_CM_ACCEPTS)
		return TIME_NEVER;
	if (cm->give_up_ns != TIME_NEVER)
		cm->give_up_ns += late_ns;
	if (cm->give_up_ns == TIME_NEVER) {
		cm->call_ns = now_ns + cm->wait_ns;
		cm->give_up_ns = now_ns + ep->cfg.connect_ns;
	}
	if (cm->give_up_ns <= now_ns) {
		cm->state = RDM_CM_CLOSED;
		COUNT(ep->nic, rdm_unreachable);
		tell(ep, NIC_RDM_CM_UNREACHABLE, cm->peer ? &cm->peer->addr : &cm->to, NULL, 0);
		return TIME_NEVER;
	}
	/* Even if nothing is due, check again after at most ASK_MOST_NS. If that check comes late, this process could
	 * not receive in the meantime, and the delay (late_ns) must not count against the timeout. */
	if (cm->state == RDM_CM_ACCEPTS)
		return cm->give_up_ns - now_ns < ASK_MOST_NS ? cm->give_up_ns : now_ns + ASK_MOST_NS;
	if (cm->call_ns <= now_ns) {
		cm->wait_ns = cm->wait_ns * 2 < ASK_MOST_NS ? cm->wait_ns * 2 : ASK_MOST_NS;
		cm->call_ns = now_ns + cm->wait_ns;
		ask(ep);
	}
	return cm->call_ns < cm->give_up_ns ? cm->call_ns : cm->give_up_ns;
}

/** Handle an ACCEPT or REFUSE. */
static void answered(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c, const uint8_t *data)
{
	struct rdm_cm *cm = &ep->cm;

	if (cm->state != RDM_CM_ASKS || c->to != ep->incarnation || c->echo != cm->attempt) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	keep(&cm->heard, data, c->data_len);
	if (c->kind == RDM_REFUSE) {
		cm->state = RDM_CM_CLOSED;
		tell(ep, NIC_RDM_CM_REFUSED, from, &cm->heard, 0);
		return;
	}
	cm->peer = nic_rdm_peer_get(ep, from);
	if (!cm->peer)
		return; /* no memory: our ASK is sent again, and the peer repeats this answer */
	cm->state = RDM_CM_ANSWERED;
	cm->peer->incarnation = c->from;
	cm->peer->proof = c->attempt;
	rdm_connect(cm->peer);
}

/* ---- listener ------------------------------------------------------------------------------------------------ */

static void request_free(struct nic_rdm *ep, struct rdm_request *r)
{
	list_remove(&r->node);
	ep->n_requests--;
	free(r);
}

static void say_answer(struct nic_rdm *listener, const struct rdm_request *r)
{
	struct rdm_call c = {.kind = r->refused ? RDM_REFUSE : RDM_ACCEPT, .to = r->incarnation, .echo = r->attempt};

	if (r->ep) /* the challenge that the asker's HELLO must echo: r->ep then need not send it in a WHO */
		c.attempt = rdm_challenge(r->ep, &r->from, r->ep->cm.peer->met);
	if (r->ep)
		rdm_say(r->ep, &r->from, &c, &r->ep->cm.said);
	else
		rdm_say(listener, &r->from, &c, &r->said);
}

static struct rdm_request *request_find(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	for (struct list *n = ep->requests.next; n != &ep->requests; n = n->next) {
		struct rdm_request *r = list_entry(n, struct rdm_request, node);

		if (r->incarnation == c->from && r->attempt == c->attempt && r->from.port == from->port &&
		    memcmp(&r->from.gid, &from->gid, sizeof(from->gid)) == 0)
			return r;
	}
	return NULL;
}

/** Free the oldest answered request if the list is full. @return whether there is room. */
static bool make_room(struct nic_rdm *ep)
{
	if (ep->n_requests < REQUESTS)
		return true;
	for (struct list *n = ep->requests.next; n != &ep->requests; n = n->next) {
		struct rdm_request *r = list_entry(n, struct rdm_request, node);

		if (r->refused || r->ep) {
			request_free(ep, r);
			return true;
		}
	}
	return false;
}

static void asked(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c, const uint8_t *data)
{
	struct rdm_request *r = request_find(ep, from, c);
	struct rdm_cm_data said = {0};

	if (!r && c->echo != rdm_challenge(ep, from, 0)) {
		rdm_ask_who(ep, from, c, NULL);
		return;
	}
	if (r) {
		if (r->refused || r->ep)
			say_answer(ep, r);
		return; /* otherwise the application has the request already, and has not answered it yet */
	}
	r = make_room(ep) ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		COUNT(ep->nic, rdm_calls_ignored); /* the sender will repeat the ASK */
		return;
	}
	r->from = *from;
	r->incarnation = c->from;
	r->attempt = c->attempt;
	r->number = ++ep->request_number;
	list_append(&ep->requests, &r->node);
	ep->n_requests++;
	keep(&said, data, c->data_len);
	tell(ep, NIC_RDM_CM_REQUEST, from, &said, r->number);
}

static struct rdm_request *request_named(struct nic_rdm *ep, uint32_t number)
{
	for (struct list *n = ep->requests.next; n != &ep->requests; n = n->next) {
		struct rdm_request *r = list_entry(n, struct rdm_request, node);

		if (r->number == number && !r->refused && !r->ep)
			return r;
	}
	return NULL;
}

int nic_rdm_cm_accept(struct nic_rdm *listener, uint32_t request, struct nic_rdm *ep, const void *data, uint32_t len)
{
	struct rdm_request *r = request_named(listener, request);
	struct rdm_cm *cm = &ep->cm;

	if (!r)
		return -ENOENT;
	if (!rdm_has_one_peer(ep) || len > NIC_RDM_CM_DATA_MAX)
		return -EINVAL;
	if (cm->state != RDM_CM_NEW)
		return -EISCONN;
	cm->peer = nic_rdm_peer_get(ep, &r->from);
	if (!cm->peer || !keep(&cm->said, data, len))
		return -EINVAL;
	cm->state = RDM_CM_ACCEPTS;
	cm->incarnation = r->incarnation;
	be_patient(ep);
	r->ep = ep;
	say_answer(listener, r);
	return 0;
}

int nic_rdm_cm_refuse(struct nic_rdm *listener, uint32_t request, const void *data, uint32_t len)
{
	struct rdm_request *r = request_named(listener, request);

	if (!r)
		return -ENOENT;
	if (!keep(&r->said, data, len))
		return -EINVAL;
	r->refused = true;
	say_answer(listener, r);
	return 0;
}

/* ---- the connection ------------------------------------------------------------------------------------------ */

struct nic_rdm_peer *nic_rdm_cm_peer(const struct nic_rdm *ep)
{
	return ep->cm.state == RDM_CM_OPEN ? ep->cm.peer : NULL;
}

bool rdm_cm_expects(const struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	const struct rdm_cm *cm = &ep->cm;

	if (!rdm_has_one_peer(ep))
		return true;
	if (!cm->peer || memcmp(&cm->peer->addr.gid, &from->gid, sizeof(from->gid)) != 0 ||
	    cm->peer->addr.port != from->port)
		return false;
	if (cm->state == RDM_CM_ACCEPTS)
		return c->from == cm->incarnation;
	/* A repeated HELLO means that our WELCOME was lost. Any other HELLO is ignored, because a failed connection
	 * is not made again. */
	return cm->state == RDM_CM_OPEN && c->from == cm->peer->incarnation && c->attempt == cm->peer->heard_attempt;
}

void rdm_cm_up(struct nic_rdm_peer *peer)
{
	struct nic_rdm *ep = peer->ep;
	bool asked_for = ep->cm.state == RDM_CM_ANSWERED;

	if (!rdm_has_one_peer(ep) || ep->cm.state == RDM_CM_OPEN)
		return;
	ep->cm.state = RDM_CM_OPEN;
	tell(ep, NIC_RDM_CM_CONNECTED, &peer->addr, asked_for ? &ep->cm.heard : NULL, 0);
}

void rdm_cm_down(struct nic_rdm_peer *peer, uint32_t status)
{
	struct nic_rdm *ep = peer->ep;
	enum rdm_cm_state was = ep->cm.state;
	enum nic_rdm_cm_kind kind = was == RDM_CM_OPEN || was == RDM_CM_LEFT ? NIC_RDM_CM_SHUTDOWN
				    : status == NIC_RDM_NO_MEMORY	     ? NIC_RDM_CM_NO_MEMORY
									     : NIC_RDM_CM_UNREACHABLE;

	if (!rdm_has_one_peer(ep) || was == RDM_CM_CLOSED)
		return;
	ep->cm.state = RDM_CM_CLOSED;
	tell(ep, kind, &peer->addr, NULL, 0);
}

void nic_rdm_cm_shutdown(struct nic_rdm *ep)
{
	bool open = ep->cm.state == RDM_CM_OPEN;

	ep->cm.state = RDM_CM_CLOSED;
	if (!ep->cm.peer)
		return;
	if (open)
		rdm_say_bye(ep->cm.peer);
	rdm_disconnect(ep->cm.peer, NIC_RDM_PEER_LOST);
	rdm_settle(ep->nic);
	nic_settle_due(ep->nic);
}

static void left(struct nic_rdm *ep)
{
	if (!waits_for_answers(ep)) {
		rdm_disconnect(ep->cm.peer, NIC_RDM_PEER_LOST);
		return;
	}
	ep->cm.state = RDM_CM_LEFT;
	be_patient(ep);
}

void rdm_cm_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c, const uint8_t *data)
{
	const struct rdm_cm *cm = &ep->cm;

	if (c->kind == RDM_ASK && (!rdm_has_one_peer(ep) || !ep->cfg.listens))
		rdm_refuse(ep, from, c);
	else if (c->kind == RDM_BYE && !rdm_has_one_peer(ep))
		rdm_bye_rx(ep, from, c);
	else if (!rdm_has_one_peer(ep))
		COUNT(ep->nic, rdm_calls_ignored);
	else if (c->kind == RDM_ASK)
		asked(ep, from, c, data);
	else if (c->kind != RDM_BYE)
		answered(ep, from, c, data);
	else if (cm->state == RDM_CM_OPEN && rdm_is_bye_of(cm->peer, c))
		left(ep);
	else
		COUNT(ep->nic, rdm_calls_ignored);
}

void rdm_cm_fini(struct nic_rdm *ep)
{
	for (struct list *n = ep->requests.next, *next; n != &ep->requests; n = next) {
		next = n->next;
		request_free(ep, list_entry(n, struct rdm_request, node));
	}
	/* Free the requests, at any listener, that were accepted for this endpoint. */
	for (struct list *n = ep->nic->rdms.next; n != &ep->nic->rdms; n = n->next) {
		struct nic_rdm *other = list_entry(n, struct nic_rdm, node);

		for (struct list *m = other->requests.next, *next; m != &other->requests; m = next) {
			struct rdm_request *r = list_entry(m, struct rdm_request, node);

			next = m->next;
			if (r->ep == ep)
				request_free(other, r);
		}
	}
}
