/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_conn.c - how reliable datagram endpoints connect. They exchange calls: datagrams between the UD QPs of their
 * ports, which can be lost, duplicated and delayed. rdm.md describes the exchange and why it is safe.
 */
#include "opcode.h"
#include "packet.h"
#include "rdm.h"
#include "rdm_cm.h"
#include "rdm_conn.h"
#include "rdm_datagram.h"
#include "rdm_done.h"
#include "rdm_leave.h"
#include "rdm_qp.h"
#include "rdm_rx.h"
#include "rdm_stranger.h"
#include "rdm_tx.h"

#define CALL_FIRST_NS 2000000
#define CALL_MOST_NS  250000000
#define TAKES	      RDM_TAKES_RUNS
#define KEEPALIVE_NS  1000000000u

/* ---- states -------------------------------------------------------------------------------------------------- */

void rdm_keep_alive(struct nic_rdm_peer *peer)
{
	struct nic_rdm *ep = peer->ep;

	if (!list_empty(&peer->keepalive))
		return;
	peer->keepalive_ns = ep->nic->now + KEEPALIVE_NS;
	list_append(&ep->kept_alive, &peer->keepalive);
	if (peer->keepalive_ns < ep->nic->rdm_deadline)
		ep->nic->rdm_deadline = peer->keepalive_ns;
}

/** Probe a peer with an empty WRITE; if the peer does not acknowledge the WRITE, the connection fails. A peer that has
 *  sent BYE may no longer exist, and then cannot acknowledge the WRITE, so probe such a peer only if ops still wait for
 *  its answer. */
static void probe(struct nic_rdm_peer *peer)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_RDMA_WRITE, .flags = NIC_SEND_SIGNALED};

	if (peer->left && list_empty(&peer->waiting))
		return;
	if (peer->qp->sq.tail == peer->qp->sq.head) /* otherwise the requests in the queue serve as the probe */
		nic_post_send(peer->qp, &wr);
}

static bool is_awaited(const struct nic_rdm_peer *peer)
{
	return peer->left || peer->arrival.active || !list_empty(&peer->waiting);
}

uint64_t rdm_keepalives_due(struct nic_rdm *ep, uint64_t now_ns)
{
	uint64_t deadline = TIME_NEVER;

	for (struct list *n = ep->kept_alive.next, *next; n != &ep->kept_alive; n = next) {
		struct nic_rdm_peer *peer = list_entry(n, struct nic_rdm_peer, keepalive);
		uint64_t left_ns = peer->left ? rdm_left_due(peer, now_ns) : TIME_NEVER;

		next = n->next;
		if (peer->state != RDM_UP || !is_awaited(peer)) {
			list_remove(n);
			continue;
		}
		if (peer->keepalive_ns <= now_ns) {
			peer->keepalive_ns = now_ns + KEEPALIVE_NS;
			probe(peer);
		}
		if (peer->keepalive_ns < deadline)
			deadline = peer->keepalive_ns;
		if (left_ns < deadline)
			deadline = left_ns;
	}
	return deadline;
}

/** Record the incarnation at the peer's address. A new incarnation changes our challenge, which makes calls from
 *  earlier incarnations invalid. */
static void meet(struct nic_rdm_peer *peer, uint64_t incarnation)
{
	if (peer->incarnation == incarnation)
		return;
	peer->incarnation = incarnation;
	peer->heard_attempt = 0;
	peer->met++;
}

static void settled(struct nic_rdm_peer *peer, enum rdm_peer_state state)
{
	peer->state = state;
	list_remove(&peer->node);
	rdm_wake(peer);
}

void rdm_disconnect(struct nic_rdm_peer *peer, uint32_t status)
{
	bool reached = status != NIC_RDM_UNREACHABLE;
	bool spares = reached && status != NIC_RDM_NO_MEMORY && !peer->ep->cfg.strict;

	rdm_qp_drop(peer);
	peer->failed = peer->left = false;
	peer->reads_out = 0;
	rdm_arrivals_lost(peer);
	rdm_fail(peer, status, spares);
	if (!reached)
		meet(peer, 0);
	settled(peer, RDM_IDLE);
	rdm_cm_down(peer, status);
}

static void up(struct nic_rdm_peer *peer, uint32_t qpn, uint32_t psn, enum nic_mtu mtu, uint8_t takes)
{
	int err = rdm_qp_connect(peer, qpn, psn, mtu);

	if (err) {
		if (err == -ENOMEM)
			COUNT(peer->ep->nic, rdm_no_memory);
		rdm_disconnect(peer, err == -ENOMEM ? NIC_RDM_NO_MEMORY : NIC_RDM_UNREACHABLE);
		return;
	}
	peer->qp->peer_joins = takes & RDM_TAKES_RUNS;
	settled(peer, RDM_UP);
	rdm_cm_up(peer);
}

void rdm_peer_forget(struct nic_rdm_peer *peer)
{
	rdm_qp_drop(peer);
	list_remove(&peer->node);
	list_remove(&peer->wake);
	list_remove(&peer->keepalive);
	list_remove(&peer->hash);
	free(peer);
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

void rdm_say(struct nic_rdm *ep, const struct nic_rdm_addr *to, struct rdm_call *c, const struct rdm_cm_data *data)
{
	uint8_t bytes[RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX];
	struct nic_sge sge = {(uintptr_t)bytes, RDM_CALL_LEN + (data ? data->len : 0), 0};
	struct nic_ah ah = {.pd = ep->cfg.pd};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_INLINE};

	c->from = ep->incarnation;
	c->mtu = (uint8_t)nic_active_mtu(ep->nic);
	c->takes = TAKES;
	rdm_call_put(c, bytes);
	if (data)
		memcpy(bytes + RDM_CALL_LEN, data->bytes, data->len);
	wr.ud.ah = &ah;
	wr.ud.remote_qpn = NIC_SERVICE_QPN | to->port;
	wr.ud.remote_qkey = RDM_QKEY;
	if (!rdm_av_to(ep, to, &ah.av) || nic_post_send(ep->contact, &wr) != 0)
		COUNT(ep->nic, rdm_calls_unsent);
}

static void say_of_qp(const struct nic_rdm_peer *peer, uint8_t kind, uint32_t echo)
{
	struct rdm_call c = {.kind = kind,
			     .to = peer->incarnation,
			     .attempt = peer->attempt,
			     .echo = echo,
			     .qpn = nic_qp_num(peer->qp),
			     .psn = peer->psn};

	rdm_say(peer->ep, &peer->addr, &c, NULL);
}

/** Whether the endpoint may connect to peers. An endpoint with one peer may do so once, when it has received ACCEPT. */
static bool may_connect(const struct nic_rdm *ep)
{
	return !rdm_has_one_peer(ep) || ep->cm.state == RDM_CM_ANSWERED;
}

/** Make sure that the peer has a QP. @return false: no memory. */
static bool qp_have(struct nic_rdm_peer *peer)
{
	if (peer->qp || rdm_qp_make(peer))
		return true;
	COUNT(peer->ep->nic, rdm_no_memory);
	return false;
}

int rdm_admit(struct nic_rdm_peer *peer)
{
	const struct nic_rdm *ep = peer->ep;

	if (peer->state != RDM_IDLE || ep->going || ep->cfg.datagrams || !may_connect(ep))
		return 0;
	return qp_have(peer) ? 0 : -ENOMEM;
}

/** Send HELLO to the peer. If the peer is the endpoint itself, connect its QP to itself at once instead. */
static void call(struct nic_rdm_peer *peer)
{
	struct nic_rdm *ep = peer->ep;

	if (memcmp(&peer->addr, &ep->cfg.addr, sizeof(peer->addr)) == 0)
		up(peer, nic_qp_num(peer->qp), peer->psn, nic_active_mtu(ep->nic), TAKES);
	else
		say_of_qp(peer, RDM_HELLO, peer->proof);
}

/* For a new request, rdm_admit has already allocated the peer's QP. For requests that remain from an earlier
 * connection, and for reserved answers, the peer may have no QP yet. If there is no memory for one, allocation is
 * retried until nic_rdm_init.connect_ns has passed. */
void rdm_connect(struct nic_rdm_peer *peer)
{
	struct nic_rdm *ep = peer->ep;

	if (peer->state != RDM_IDLE || ep->going)
		return;
	if (!may_connect(ep)) {
		rdm_disconnect(peer, NIC_RDM_UNREACHABLE);
		return;
	}
	peer->state = RDM_CALLING;
	peer->wait_ns = CALL_FIRST_NS;
	/* nic->now may be out of date, so only mark the timeout as not started, and have the timers handled at once. */
	peer->call_ns = ep->nic->now;
	peer->give_up_ns = TIME_NEVER;
	list_append(&ep->calling, &peer->node);
	if (peer->call_ns < ep->nic->rdm_deadline)
		ep->nic->rdm_deadline = peer->call_ns;
	if (qp_have(peer))
		call(peer);
}

uint64_t rdm_calls_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns)
{
	uint64_t deadline = TIME_NEVER;

	for (struct list *n = ep->calling.next, *next; n != &ep->calling; n = next) {
		struct nic_rdm_peer *peer = list_entry(n, struct nic_rdm_peer, node);

		next = n->next;
		if (peer->give_up_ns == TIME_NEVER) {
			peer->call_ns = now_ns + peer->wait_ns;
			peer->give_up_ns = now_ns + ep->cfg.connect_ns;
		} else {
			peer->give_up_ns += late_ns;
		}
		if (peer->give_up_ns <= now_ns) {
			if (peer->qp)
				COUNT(ep->nic, rdm_unreachable);
			rdm_disconnect(peer, peer->qp ? NIC_RDM_UNREACHABLE : NIC_RDM_NO_MEMORY);
			continue;
		}
		if (peer->call_ns <= now_ns) {
			peer->wait_ns = peer->wait_ns * 2 < CALL_MOST_NS ? peer->wait_ns * 2 : CALL_MOST_NS;
			peer->call_ns = now_ns + peer->wait_ns;
			if (qp_have(peer))
				call(peer);
			if (peer->state != RDM_CALLING)
				continue;
		}
		if (peer->call_ns < deadline)
			deadline = peer->call_ns;
		if (peer->give_up_ns < deadline)
			deadline = peer->give_up_ns;
	}
	return deadline;
}

/** Send a call to an unproven caller. Half of the send queue is reserved for calls to peers. */
static void say_to_stranger(struct nic_rdm *ep, const struct nic_rdm_addr *to, struct rdm_call *c)
{
	if (ep->contact->sq.head - ep->contact->sq.tail >= ep->contact->sq.capacity / 2) {
		COUNT(ep->nic, rdm_calls_unsent);
		return;
	}
	ep->nic->answers_stranger = true;
	rdm_say(ep, to, c, NULL);
	ep->nic->answers_stranger = false;
}

void rdm_ask_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c,
		 const struct nic_rdm_peer *peer)
{
	struct rdm_call who = {.kind = RDM_WHO,
			       .to = c->from,
			       .echo = c->attempt,
			       .attempt = rdm_challenge(ep, from, peer ? peer->met : 0)};

	COUNT(ep->nic, rdm_calls_challenged);
	say_to_stranger(ep, from, &who);
}

void rdm_refuse(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct rdm_call no = {.kind = RDM_REFUSE, .to = c->from, .echo = c->attempt};

	COUNT(ep->nic, rdm_calls_refused);
	say_to_stranger(ep, from, &no);
}

/**
 * Whether the caller has proven its address, and is not an earlier incarnation than the one known at that address. The
 * known incarnation may also echo the previous challenge. An endpoint's challenge to a peer changes when the endpoint
 * learns the peer's incarnation. If two endpoints call each other at the same time, each may send its WHO just before
 * that change, so the peer echoes the old challenge.
 */
static bool is_proven(const struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c,
		      const struct nic_rdm_peer *peer)
{
	uint32_t met = peer ? peer->met : 0;

	return c->echo == rdm_challenge(ep, from, met) ||
	       (met > 0 && peer->incarnation == c->from && c->echo == rdm_challenge(ep, from, met - 1));
}

/** Handle a HELLO that has been received before: the peer repeated it, or it was delayed. */
static void hello_again(struct nic_rdm_peer *peer, const struct rdm_call *c)
{
	if (peer->state == RDM_UP && c->attempt == peer->heard_attempt) {
		say_of_qp(peer, RDM_WELCOME, c->attempt);
		return;
	}
	COUNT(peer->ep->nic, rdm_calls_ignored);
	/* If it is the latest HELLO, this side has lost its QP of that connection. Either the peer still waits for
	 * WELCOME, or this HELLO was delayed. Connecting again is right in both cases. */
	if (c->attempt == peer->heard_attempt)
		rdm_connect(peer);
}

/** Handle a HELLO. If it names our incarnation, it was sent after this endpoint was created. The attempt number
 *  orders the calls of one incarnation. */
static void hello(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct nic_rdm_peer *peer = rdm_peer_find(ep, from);

	if (ep->going) { /* the caller retries until it finds the next endpoint at this address */
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (c->to != ep->incarnation || !is_proven(ep, from, c, peer)) {
		rdm_ask_who(ep, from, c, peer);
		return;
	}
	if (!rdm_cm_expects(ep, from, c) || (ep->cfg.admits && !ep->cfg.admits(ep->cfg.ctx, from))) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	peer = peer ? peer : rdm_stranger_new(ep, from);
	if (!peer) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (peer->incarnation == c->from && (int32_t)(c->attempt - peer->heard_attempt) <= 0) {
		hello_again(peer, c);
		return;
	}
	if (peer->state == RDM_UP)
		rdm_disconnect(peer, NIC_RDM_PEER_LOST);
	if (!qp_have(peer)) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	meet(peer, c->from);
	up(peer, c->qpn, c->psn, (enum nic_mtu)c->mtu, c->takes);
	if (peer->state != RDM_UP)
		return;
	peer->heard_attempt = c->attempt;
	say_of_qp(peer, RDM_WELCOME, c->attempt);
}

/** Find the peer that has answered our latest HELLO with `c`. @return NULL: none; `c` is counted as ignored. */
static struct nic_rdm_peer *caller_of(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct nic_rdm_peer *peer = rdm_peer_find(ep, from);

	if (c->to == ep->incarnation && peer && peer->state == RDM_CALLING && peer->qp && c->echo == peer->attempt)
		return peer;
	COUNT(ep->nic, rdm_calls_ignored);
	return NULL;
}

static void who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct nic_rdm_peer *peer;

	if (rdm_has_one_peer(ep) && !ep->cm.peer) {
		rdm_cm_who(ep, from, c);
		return;
	}
	peer = caller_of(ep, from, c);
	/* If this WHO has been received before, ignore it: the timer repeats the HELLO. */
	if (!peer || (peer->incarnation == c->from && peer->proof == c->attempt))
		return;
	meet(peer, c->from);
	peer->proof = c->attempt;
	say_of_qp(peer, RDM_HELLO, peer->proof);
}

static void welcome(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct nic_rdm_peer *peer = caller_of(ep, from, c);

	if (!peer || peer->incarnation != c->from)
		return;
	peer->heard_attempt = c->attempt;
	up(peer, c->qpn, c->psn, (enum nic_mtu)c->mtu, c->takes);
}

/** Get the address of a packet's sender. @return whether the sender is the port of an endpoint. */
static bool source_of(const struct packet *p, struct nic_rdm_addr *from)
{
	memset(from, 0, sizeof(*from));
	from->gid = p->sgid;
	from->port = (uint16_t)(p->src_qpn & 0xffff);
	return (p->src_qpn & ~0xffffu) == NIC_SERVICE_QPN && from->port != 0;
}

/* An ASK for a port without an endpoint: any endpoint with that GID answers with REFUSE. The caller accepts this,
 * because it does not check the sender of a REFUSE. */
void rdm_nobody(struct nic *nic, const struct packet *p)
{
	uint8_t bytes[RDM_CALL_LEN];
	struct nic_rdm_addr from;
	struct rdm_call c;

	if ((p->dest_qpn & ~0xffffu) != NIC_SERVICE_QPN || p->op->service != OP_UD || p->qkey != RDM_QKEY ||
	    p->payload_len < RDM_CALL_LEN || !source_of(p, &from))
		return;
	memcpy(bytes, p->payload, sizeof(bytes));
	if (!rdm_call_get(&c, bytes, sizeof(bytes)) || c.kind != RDM_ASK)
		return;
	for (struct list *n = nic->rdms.next; n != &nic->rdms; n = n->next) {
		struct nic_rdm *ep = list_entry(n, struct nic_rdm, node);

		if (ep->cfg.datagrams || memcmp(&p->dgid, &ep->cfg.addr.gid, sizeof(p->dgid)) != 0)
			continue;
		rdm_refuse(ep, &from, &c);
		return;
	}
}

void rdm_call_rx(struct nic_qp *qp, const struct packet *p)
{
	struct nic_rdm *ep = qp->rdm;
	struct nic_rdm_addr from;
	uint8_t bytes[RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX];
	struct rdm_call c;

	if (!source_of(p, &from) || memcmp(&p->dgid, &ep->cfg.addr.gid, sizeof(p->dgid)) != 0) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (ep->cfg.datagrams) {
		rdm_datagram_rx(ep, &from, p);
		return;
	}
	if (p->payload_len <= sizeof(bytes))
		memcpy(bytes, p->payload, p->payload_len); /* another process can write to the packet at any time */
	if (!rdm_call_get(&c, bytes, p->payload_len) ||
	    memcmp(&from, &ep->cfg.addr, sizeof(from)) == 0) { /* we never call ourselves */
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (c.kind == RDM_HELLO)
		hello(ep, &from, &c);
	else if (c.kind == RDM_WHO)
		who(ep, &from, &c);
	else if (c.kind == RDM_WELCOME)
		welcome(ep, &from, &c);
	else
		rdm_cm_rx(ep, &from, &c, bytes + RDM_CALL_LEN);
}
