/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_leave.c - closing an endpoint: it sends BYE to the peers that it is connected to, and tells endpoints of its own
 * NIC directly. BYE is a call, so it can be lost. A peer that has received BYE sends later requests on a new
 * connection, to the next endpoint at this address. Without BYE, those requests would be lost with the old connection.
 *
 * BYE can overtake the last requests and answers of the closing endpoint. The peer therefore keeps the connection for
 * some time. It then ends the connection as soon as no requests are in flight on it: each request has been answered, or
 * has failed because its ACK timer expired too often. The peer starts no new request on the connection. A HELLO from
 * the next endpoint at the closing endpoint's address ends the connection at once.
 *
 * Owns: nic_rdm.going, nic_rdm_peer.told, and nic_rdm_peer.left, which rdm_disconnect() clears.
 */
#include "rdm.h"
#include "rdm_cm.h"
#include "rdm_conn.h"
#include "rdm_leave.h"

/* How long to wait, after a BYE, for packets that were sent before the BYE. After this wait, this is also the interval
 * between checks whether the connection is idle. */
#define EARLIER_WAIT_NS 20000000

static struct rdm_call bye_of(const struct nic_rdm_peer *peer)
{
	return (struct rdm_call){
		.kind = RDM_BYE, .to = peer->incarnation, .attempt = peer->attempt, .echo = peer->heard_attempt};
}

void rdm_say_bye(const struct nic_rdm_peer *peer)
{
	struct rdm_call c = bye_of(peer);

	rdm_say(peer->ep, &peer->addr, &c, NULL);
}

/* ---- the side that stays ------------------------------------------------------------------------------------- */

bool rdm_is_bye_of(const struct nic_rdm_peer *peer, const struct rdm_call *c)
{
	return c->to == peer->ep->incarnation && c->from == peer->incarnation && c->echo == peer->attempt;
}

/** Act on a BYE. @return false: the BYE does not refer to a current connection. */
static bool hear(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	struct nic_rdm_peer *peer = rdm_peer_find(ep, from);

	if (!peer || peer->state != RDM_UP || peer->left || !rdm_is_bye_of(peer, c))
		return false;
	peer->left = true;
	/* nic->now may be out of date, so only mark the timeout as not started, and have the timers handled at once. */
	peer->give_up_ns = TIME_NEVER;
	rdm_keep_alive(peer);
	if (ep->nic->now < ep->nic->rdm_deadline)
		ep->nic->rdm_deadline = ep->nic->now;
	return true;
}

void rdm_bye_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	if (!hear(ep, from, c))
		COUNT(ep->nic, rdm_calls_ignored);
}

/** Whether ending the connection now would lose answers or requests, including requests that wait for FIN. */
static bool is_busy(const struct nic_rdm_peer *peer)
{
	return peer->failed || peer->posted || peer->qp->sq.head != peer->qp->sq.tail;
}

uint64_t rdm_left_due(struct nic_rdm_peer *peer, uint64_t now_ns)
{
	bool first = peer->give_up_ns == TIME_NEVER;

	if (!first && now_ns < peer->give_up_ns)
		return peer->give_up_ns;
	if (!first && !is_busy(peer)) {
		rdm_disconnect(peer, NIC_RDM_PEER_LOST);
		return TIME_NEVER;
	}
	peer->give_up_ns = now_ns + EARLIER_WAIT_NS;
	return peer->give_up_ns;
}

/* ---- the side that leaves ------------------------------------------------------------------------------------ */

/** Whether to send BYE to the peer. False if the peer is the endpoint itself; its `incarnation` is then 0. */
static bool must_hear(const struct nic_rdm_peer *peer)
{
	return peer->state == RDM_UP && !peer->failed && !peer->left && !peer->told && peer->incarnation != 0;
}

/** Find the endpoint of this NIC at an address. @return NULL: no endpoint, or an endpoint with only one peer. */
static struct nic_rdm *neighbour_at(const struct nic *nic, const struct nic_rdm_addr *addr)
{
	for (struct list *n = nic->rdms.next; n != &nic->rdms; n = n->next) {
		struct nic_rdm *ep = list_entry(n, struct nic_rdm, node);

		if (memcmp(&ep->cfg.addr, addr, sizeof(*addr)) == 0)
			return rdm_has_one_peer(ep) ? NULL : ep;
	}
	return NULL;
}

/** If the peer is an endpoint of this NIC, tell it directly that this endpoint closes. Both endpoints are in one
 *  process, so the peer's application may notice the close and post a request before a BYE would arrive. @return false:
 *  the peer is not an endpoint of this NIC, or its side does not have this connection; send BYE instead. */
static bool neighbour_hears(const struct nic_rdm_peer *peer)
{
	struct nic_rdm *near = neighbour_at(peer->ep->nic, &peer->addr);
	struct rdm_call c = bye_of(peer);

	c.from = peer->ep->incarnation;
	return near && hear(near, &peer->ep->cfg.addr, &c);
}

unsigned nic_rdm_leave(struct nic_rdm *ep)
{
	const struct send_queue *sq = &ep->contact->sq;
	unsigned told = 0;

	if (rdm_has_one_peer(ep) || ep->cfg.datagrams)
		return 0;
	ep->going = true;
	for (uint32_t i = 0; i < RDM_PEER_BUCKETS; i++)
		for (struct list *n = ep->peers[i].next; n != &ep->peers[i]; n = n->next) {
			struct nic_rdm_peer *peer = list_entry(n, struct nic_rdm_peer, hash);

			if (!must_hear(peer))
				continue;
			if (!neighbour_hears(peer)) {
				if (sq->head - sq->tail >= sq->capacity)
					return told;
				rdm_say_bye(peer);
			}
			peer->told = true;
			told++;
		}
	return told;
}
