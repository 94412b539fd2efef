/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm.c - reliable datagram endpoints as objects: creation, peers by address, and the functions that the NIC calls when
 * completions, failed QPs or timers have to be handled.
 */
#include "rdm.h"

#include "gid.h"
#include "qp_create.h"
#include "qp_owner.h"
#include "rdm_cm.h"
#include "rdm_conn.h"
#include "rdm_datagram.h"
#include "rdm_done.h"
#include "rdm_unexpected.h"
#include "rdm_ops.h"
#include "rdm_qp.h"
#include "rdm_rq.h"
#include "rdm_rx.h"
#include "rdm_stranger.h"
#include "rdm_tx.h"
#include "req.h"

#define MAX_DEFAULT	   1024
#define MAX_MOST	   32768 /* largest max_tx: the indices of all ops (requests, answers) must fit in 16 bits */
#define CONNECT_DEFAULT_NS 10000000000u
#define TIMEOUT_DEFAULT	   14 /* 67 ms */
#define PEER_DEFAULT_NS	   6000000000u
#define LATE_NS		   250000000u
#define CALLS		   64 /* send queue depth of the contact QP; call datagrams beyond it are lost */
#define ATTEMPT_FIRST	   0x1fffffffu

/* ---- peers --------------------------------------------------------------------------------------------------- */

static struct list *bucket(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	uint64_t a, b;

	memcpy(&a, addr->gid.raw, 8);
	memcpy(&b, addr->gid.raw + 8, 8);
	a = (a ^ b ^ (uint64_t)addr->port << 40 ^ ep->incarnation) * 0x9e3779b97f4a7c15u;
	return &ep->peers[a >> 54];
}
_Static_assert(RDM_PEER_BUCKETS == 1u << (64 - 54), "bucket() names one of them");

struct nic_rdm_peer *rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	struct list *head = bucket(ep, addr);

	for (struct list *n = head->next; n != head; n = n->next) {
		struct nic_rdm_peer *peer = list_entry(n, struct nic_rdm_peer, hash);

		if (peer->addr.port == addr->port && memcmp(&peer->addr.gid, &addr->gid, sizeof(addr->gid)) == 0)
			return peer;
	}
	return NULL;
}

struct nic_rdm_peer *nic_rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	struct nic_rdm_peer *peer = rdm_peer_find(ep, addr);

	if (peer)
		rdm_stranger_known(peer);
	return peer;
}

bool nic_rdm_peer_may_be(const struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	return addr->port > 0 && addr->port <= NIC_SERVICE_PORT_MAX &&
	       gid_is_v4(&addr->gid) == gid_is_v4(&ep->cfg.addr.gid) && !gid_is_zero(&addr->gid);
}

struct nic_rdm_peer *nic_rdm_peer_get(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	struct nic_rdm_peer *peer = nic_rdm_peer_find(ep, addr);

	if (peer)
		return peer;
	if (!nic_rdm_peer_may_be(ep, addr))
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->ep = ep;
	peer->addr.gid = addr->gid;
	peer->addr.port = addr->port;
	peer->user = UINT64_MAX;
	list_init(&peer->node);
	list_init(&peer->keepalive);
	list_init(&peer->strangers);
	list_init(&peer->wake);
	list_init(&peer->queue);
	list_init(&peer->waiting);
	list_append(bucket(ep, addr), &peer->hash);
	return peer;
}

void nic_rdm_peer_set_user(struct nic_rdm_peer *peer, uint64_t user)
{
	peer->user = user;
}

uint64_t nic_rdm_peer_user(const struct nic_rdm_peer *peer)
{
	return peer->user;
}

void *nic_rdm_peer_owner(const struct nic_rdm_peer *peer)
{
	return peer->ep->cfg.ctx;
}

struct nic_rdm_addr nic_rdm_peer_address(const struct nic_rdm_peer *peer)
{
	return peer->addr;
}

static void peers_free(struct nic_rdm *ep)
{
	for (uint32_t i = 0; i < RDM_PEER_BUCKETS; i++)
		for (struct list *n = ep->peers[i].next, *next; n != &ep->peers[i]; n = next) {
			struct nic_rdm_peer *peer = list_entry(n, struct nic_rdm_peer, hash);

			next = n->next;
			if (peer->qp)
				nic_qp_destroy(peer->qp);
			free(peer);
		}
}

/* ---- creation ------------------------------------------------------------------------------------------------ */

static bool config_complete(struct nic_rdm_init *c)
{
	c->max_tx = c->max_tx ? c->max_tx : MAX_DEFAULT;
	c->connect_ns = c->connect_ns ? c->connect_ns : CONNECT_DEFAULT_NS;
	c->timeout = c->timeout ? c->timeout : TIMEOUT_DEFAULT;
	c->peer_ns = c->peer_ns ? c->peer_ns : PEER_DEFAULT_NS;
	c->retry_cnt = c->retry_cnt ? c->retry_cnt : req_retries(c->timeout, c->peer_ns);
	return c->pd && c->done && c->max_tx <= MAX_MOST && c->timeout <= 31 && c->addr.port > 0 &&
	       c->addr.port <= NIC_SERVICE_PORT_MAX;
}

/** Create the UD QP of the port. It receives call datagrams (rdm_conn.c), or a datagram endpoint's messages. */
static int contact_open(struct nic_rdm *ep)
{
	struct nic_qp_init init = {.type = NIC_QPT_UD,
				   .pd = ep->cfg.pd,
				   .send_cq = ep->cq,
				   .recv_cq = ep->cq,
				   .cap = {.max_send_wr = ep->cfg.datagrams ? ep->cfg.max_tx : CALLS,
					   .max_send_sge = RDM_SGES,
					   .max_inline_data = RDM_SAID_MAX}};
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT, .port_num = 1, .qkey = ep->cfg.datagrams ? RDM_DATAGRAM_QKEY : RDM_QKEY};
	int err = qp_create_at(ep->nic, &init, NIC_SERVICE_QPN | ep->cfg.addr.port, &ep->contact);

	if (err)
		return err;
	ep->contact->owner = &rdm_owner;
	ep->contact->send_flags |= NIC_SEND_UNAWAITED;
	ep->contact->rdm = ep;
	ep->contact->events.silent = true;
	nic_qp_modify(ep->contact, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_QKEY);
	a.qp_state = NIC_QPS_RTR;
	nic_qp_modify(ep->contact, &a, NIC_QP_STATE);
	a.qp_state = NIC_QPS_RTS;
	a.sq_psn = nic_psn_random(ep->nic);
	return nic_qp_modify(ep->contact, &a, NIC_QP_STATE | NIC_QP_SQ_PSN);
}

/** Use the shared receive queue in the configuration, or create one for this endpoint only. */
static int rq_take(struct nic_rdm *ep)
{
	const struct nic_rdm_rq_init own = {.max_rx = ep->cfg.max_rx,
					    .max_unexpected = ep->cfg.max_unexpected,
					    .done = ep->cfg.done,
					    .ctx = ep->cfg.ctx};

	if (!ep->cfg.rq)
		return rdm_rq_open(ep->nic, &own, &ep->rq);
	if (ep->cfg.rq->nic != ep->nic)
		return -EINVAL;
	ep->rq = ep->cfg.rq;
	ep->rq->users++;
	return 0;
}

static int objects_create(struct nic_rdm *ep)
{
	struct nic *nic = ep->nic;
	int err = rq_take(ep);

	if (err)
		return err;
	if (rdm_ops_init(ep) != 0)
		return -ENOMEM;
	err = nic_cq_create(nic, 1, NULL, &ep->cq);
	if (err)
		return err;
	ep->cq->sink = rdm_completed;
	ep->cq->sink_arg = ep;
	/* Register all addresses that a pointer can have, except NULL. */
	err = nic_mr_reg(ep->cfg.pd, (void *)1, INT64_MAX - 1, 1, NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_ON_DEMAND,
			 &ep->all);
	return err ? err : contact_open(ep);
}

int nic_rdm_create(struct nic *nic, const struct nic_rdm_init *init, struct nic_rdm **out)
{
	struct nic_rdm *ep = calloc(1, sizeof(*ep));
	int err;

	if (!ep)
		return -ENOMEM;
	ep->cfg = *init;
	ep->nic = nic;
	if (!config_complete(&ep->cfg)) {
		free(ep);
		return -EINVAL;
	}
	nic->cfg.random(nic->cfg.ctx, &ep->incarnation, sizeof(ep->incarnation));
	ep->incarnation |= 1; /* 0 means unknown */
	nic->cfg.random(nic->cfg.ctx, ep->secret, sizeof(ep->secret));
	nic->cfg.random(nic->cfg.ctx, &ep->attempts, sizeof(ep->attempts));
	/* Start with a low number. Attempt numbers are compared as serial numbers, and 0 means that there was no
	 * attempt yet: a high first number would count as earlier than 0. */
	ep->attempts &= ATTEMPT_FIRST;
	for (uint32_t i = 0; i < RDM_PEER_BUCKETS; i++)
		list_init(&ep->peers[i]);
	list_init(&ep->calling);
	list_init(&ep->kept_alive);
	list_init(&ep->wake);
	list_init(&ep->due);
	list_init(&ep->lingering);
	list_init(&ep->strangers);
	list_init(&ep->requests);
	rdm_asked_init(ep);
	list_append(&nic->rdms, &ep->node);
	err = objects_create(ep);
	if (err) {
		nic_rdm_destroy(ep);
		return err;
	}
	*out = ep;
	return 0;
}

void nic_rdm_destroy(struct nic_rdm *ep)
{
	rdm_cm_fini(ep);
	if (ep->rq && ep->rq->shared)
		rdm_rq_leave(ep);
	rdm_linger_end(ep, true);
	peers_free(ep);
	if (ep->contact)
		nic_qp_destroy(ep->contact);
	rdm_ops_fini(ep); /* also revokes the peers' access to OFFERs that have not ended */
	rdm_asked_fini(ep);
	if (ep->all)
		nic_mr_dereg(ep->all);
	if (ep->cq)
		nic_cq_destroy(ep->cq);
	if (ep->rq && !ep->rq->shared)
		rdm_rq_close(ep->rq);
	list_remove(&ep->node);
	free(ep);
}

void nic_rdm_no_delay(struct nic_rdm *ep)
{
	for (uint32_t i = 0; i < RDM_PEER_BUCKETS; i++)
		for (struct list *n = ep->peers[i].next; n != &ep->peers[i]; n = n->next) {
			struct nic_qp *qp = list_entry(n, struct nic_rdm_peer, hash)->qp;

			if (!qp)
				continue;
			qp->no_delay = true;
			qp_ready(qp);
		}
}

void nic_rdm_no_delay_all(struct nic *nic)
{
	for (struct list *n = nic->rdms.next; n != &nic->rdms; n = n->next)
		nic_rdm_no_delay(list_entry(n, struct nic_rdm, node));
}

static void nobody(void *ctx, const struct nic_rdm_done *done)
{
}

void rdm_destroy_all(struct nic *nic)
{
	/* Receives of shared queues end without a completion, even those with a message arriving. */
	for (struct list *n = nic->rdm_rqs.next; n != &nic->rdm_rqs; n = n->next)
		list_entry(n, struct nic_rdm_rq, node)->done = nobody;
	for (struct list *n = nic->rdms.next, *next; n != &nic->rdms; n = next) {
		next = n->next;
		nic_rdm_destroy(list_entry(n, struct nic_rdm, node));
	}
	for (struct list *n = nic->rdm_rqs.next, *next; n != &nic->rdm_rqs; n = next) {
		next = n->next;
		rdm_rq_close(list_entry(n, struct nic_rdm_rq, node));
	}
}

struct nic_rdm_addr nic_rdm_address(const struct nic_rdm *ep)
{
	return ep->cfg.addr;
}

/* ---- called by the NIC --------------------------------------------------------------------------------------- */

static bool is_told(const struct nic_qp *qp, uint32_t rkey)
{
	const struct nic_rdm_peer *peer = qp->rdm_peer;
	const struct mkey *m;

	if (!peer || !(peer->ep->cfg.served || peer->stranger))
		return false;
	m = mkey_find_remote(qp->nic, qp->pd, rkey);
	/* The result is false for the memory of an OFFER (`own`). It is also false if the R_Key does not exist, which
	 * is allowed for an access of 0 bytes. */
	return m && !(m->kind == MKEY_MR && list_entry(m, const struct nic_mr, mkey)->own);
}

static void served(struct nic_qp *qp, uint32_t rkey, bool read, bool write)
{
	struct nic_rdm_peer *peer = qp->rdm_peer;

	if (!is_told(qp, rkey))
		return;
	rdm_stranger_known(peer);
	if (!peer->ep->cfg.served)
		return;
	peer->ep->nic->completions++;
	peer->ep->cfg.served(peer->ep->cfg.ctx, peer, rkey, read, write);
}

static void failed(struct nic_qp *qp)
{
	struct nic_rdm_peer *peer = qp->rdm_peer;

	peer->failed = true;
	peer->to_call = peer->owed > 0;
	rdm_wake(peer);
}

/** Handle a failed QP. If answers were reserved for the peer, reconnect: the peer may be waiting for an answer with no
 *  request in flight, and then no ACK timer tells it that the answer is lost. */
static void peer_failed(struct nic_rdm_peer *peer)
{
	bool to_call = peer->to_call;

	rdm_disconnect(peer, NIC_RDM_PEER_LOST);
	if (to_call)
		rdm_connect(peer);
}

/** Act on completed requests and failed QPs of the endpoint. @return whether there was anything to do. */
static bool ep_settle(struct nic_rdm *ep)
{
	bool had = !list_empty(&ep->due) || !list_empty(&ep->wake);

	while (!list_empty(&ep->due)) {
		struct rdm_op *op = list_entry(list_first(&ep->due), struct rdm_op, due);

		list_remove(&op->due);
		rdm_op_settle(op);
	}
	while (!list_empty(&ep->wake)) {
		struct nic_rdm_peer *peer = list_entry(list_first(&ep->wake), struct nic_rdm_peer, wake);

		list_remove(&peer->wake);
		if (peer->failed)
			peer_failed(peer);
		else
			rdm_pump(peer);
	}
	rdm_datagram_recover(ep);
	rdm_linger_end(ep, false);
	ep->nic->owners_due |= !list_empty(&ep->lingering); /* dropped QPs still have answers to send */
	return had;
}

const struct qp_owner rdm_owner = {
	.takes = rdm_takes,
	.arrive = rdm_arrive,
	.offered = rdm_offered,
	.foresee = rdm_foresee,
	.datagram = rdm_call_rx,
	.served = served,
	.is_told = is_told,
	.failed = failed,
};

bool rdm_settle(struct nic *nic)
{
	bool more, had = false;

	do {
		nic->owners_due = false;
		more = false;
		for (struct list *n = nic->rdms.next; n != &nic->rdms; n = n->next) {
			struct nic_rdm *ep = list_entry(n, struct nic_rdm, node);

			had |= ep_settle(ep);
			more |= !list_empty(&ep->due) || !list_empty(&ep->wake);
		}
	} while (more);
	return had;
}

void rdm_timeout(struct nic *nic)
{
	uint64_t late_ns = nic->rdm_planned < nic->now ? nic->now - nic->rdm_planned : 0;

	/* If this function runs late (host suspended or busy), the endpoints have neither sent nor received in the
	 * meantime: that time does not count against the peers' timeouts. */
	late_ns = late_ns > LATE_NS ? late_ns - LATE_NS : 0;
	nic->rdm_deadline = TIME_NEVER;
	for (struct list *n = nic->rdms.next; n != &nic->rdms; n = n->next) {
		struct nic_rdm *ep = list_entry(n, struct nic_rdm, node);
		const uint64_t due[] = {rdm_calls_due(ep, nic->now, late_ns), rdm_cm_due(ep, nic->now, late_ns),
					rdm_keepalives_due(ep, nic->now)};

		for (unsigned i = 0; i < 3; i++)
			nic->rdm_deadline = due[i] < nic->rdm_deadline ? due[i] : nic->rdm_deadline;
	}
	nic->rdm_planned = nic->rdm_deadline;
}
