/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.c - egress: the paths by which packets leave, and arbitration among the QPs that have something to send.
 *
 * Every path has a list of QPs of its own, so that one that has no room just holds up nobody else. A connected QP keeps to
 * the path of its peer; a UD QP is on the list of the path that its next request takes.
 */
#include "qp.h"

#define TX_TURN	       16 /* packets a QP may send before the next one has its turn */
#define REFERENCE_TURN 4 /* of these, what a packet is worth that refers to its payload: to be received takes it long */

void paths_init(struct nic *nic)
{
	for (unsigned i = 0; i < NIC_PATHS_MAX; i++)
		list_init(&nic->paths[i].ready);
	nic->paths[0].open = true;
}

int nic_path_open(struct nic *nic, uint32_t flags)
{
	if (flags & NIC_PATH_REFERENCES && !nic->cfg.revoke)
		return -EINVAL;
	for (unsigned i = 1; i < NIC_PATHS_MAX; i++) {
		if (nic->paths[i].open)
			continue;
		nic->paths[i].open = true;
		nic->paths[i].flags = flags;
		nic->paths[i].turn = 0;
		return (int)i;
	}
	return -ENOSPC;
}

/* Datagrams that are posted have their path noted. */
static void reroute_datagrams(struct nic_qp *qp, uint32_t path)
{
	for (uint32_t i = qp->sq.next; i != qp->sq.head; i++)
		if (sq_at(qp, i)->ud.path == path)
			sq_at(qp, i)->ud.path = 0;
}

void nic_path_close(struct nic *nic, uint32_t path)
{
	for (uint32_t i = 0; nic->qps.slots && i <= nic->qps.mask; i++) {
		struct nic_qp *qp = nic->qps.slots[i].value;

		if (!qp || (qp->type != NIC_QPT_UD && qp->path != path))
			continue;
		if (qp->type == NIC_QPT_UD)
			reroute_datagrams(qp, path);
		path_move(qp, 0);
		req_path_gone(qp);
	}
	nic->paths[path].open = false;
	nic->paths_pending[path / 64] &= ~(1ull << path % 64);
}

/* A QP with something to send moves along. */
void path_move(struct nic_qp *qp, uint32_t path)
{
	qp->path = path;
	if (list_empty(&qp->ready))
		return;
	list_remove(&qp->ready);
	qp_ready(qp);
}

void nic_path_take(struct nic *nic, uint32_t path, const struct nic_gid *dgid, uint32_t qpn, uint32_t mask)
{
	for (uint32_t i = 0; nic->qps.slots && i <= nic->qps.mask; i++) {
		struct nic_qp *qp = nic->qps.slots[i].value;

		if (!qp || qp->type == NIC_QPT_UD || qp->path != 0 || qp->state == NIC_QPS_RESET ||
		    (qp->attr.dest_qp_num ^ qpn) & mask || memcmp(&qp->attr.av.dgid, dgid, sizeof(*dgid)))
			continue;
		path_move(qp, path);
		req_path_gone(qp);
		if (qp->type == NIC_QPT_RC && qp->resp.heard && qp->state != NIC_QPS_ERR)
			resp_ack(qp); /* the last one may be among what the peer does not take any more */
	}
}

uint32_t path_route(const struct nic *nic, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	uint32_t (*route)(void *, const struct nic_gid *, uint32_t) =
		nic->answers_stranger && nic->cfg.route_known ? nic->cfg.route_known : nic->cfg.route;
	uint32_t path = route ? route(nic->cfg.ctx, dgid, dest_qpn) : 0;

	return path < NIC_PATHS_MAX && nic->paths[path].open ? path : 0;
}

/*
 * An ACK that is held back goes ahead of the requests, as from hardware, where that costs little: packets go one by one. And
 * where the program sleeps until completions come: its peer does so too, most likely, and is woken by the completion of its
 * message and then by what answers it. Programs rely on that order: perftest takes whatever event comes first for the one, and
 * runs its send queue over when it was the other. By other paths who polls has the answer sooner when the ACK follows.
 */
static bool ack_goes_first(const struct nic_qp *qp)
{
	return qp->resp.ack_queued && !qp->resp.ack_lazy && !qp->resp.res_todo &&
	       (qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS || qp->recv_cq->arm != CQ_UNARMED ||
		qp->send_cq->arm != CQ_UNARMED);
}

/* One packet of the QP: responses and requests take turns when it has both, but an ACK that is due goes first. */
static bool qp_tx(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	frame->ordered = ack_goes_first(qp);
	if (frame->ordered && !qp->resp.ack_due)
		resp_ack_due(qp);
	qp->resp_turn = !qp->resp_turn || (qp->resp.ack_due && !qp->resp.res_todo);
	if (qp->resp_turn)
		return resp_tx(qp, frame) || req_tx(qp, frame);
	return req_tx(qp, frame) || resp_tx(qp, frame);
}

/* After QPs of the path have sent. @return whether that may have made work for it. */
static inline bool settle(struct nic *nic, uint32_t index)
{
	if (list_empty(&nic->paths[index].ready))
		nic->paths_pending[index / 64] &= ~(1ull << index % 64);
	nic_settle_failed_cqs(nic);
	if (__builtin_expect(!(nic->rdm_due | nic->trig_due), 1))
		return false;
	nic_settle(nic);
	return true;
}

unsigned nic_path_tx(struct nic *nic, uint32_t index, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct path *path = &nic->paths[index];
	unsigned got = 0;

	nic_see_time(nic, now_ns);
	do {
		while (nic->port_up && got < n && !list_empty(&path->ready)) {
			struct nic_qp *qp = list_entry(list_first(&path->ready), struct nic_qp, ready);
			unsigned before = got;

			while (got < n && path->turn < TX_TURN && qp_path(qp) == index) {
				frames[got].no_icrc = path->flags & NIC_PATH_NO_ICRC;
				if (!qp_tx(qp, &frames[got]))
					break;
				path->turn +=
					path->flags & NIC_PATH_REFERENCES && frames[got].n_pieces ? REFERENCE_TURN : 1;
				got++;
			}
			/*
			 * A delayed ACK goes with what the QP sends, right behind it: the peer must not see the answer to its
			 * message long before the message's own completion. In one burst both cost a carrier little more than
			 * one.
			 */
			if (got > before && got < n && qp->resp.ack_queued && !qp->resp.ack_due) {
				resp_ack_due(qp);
				frames[got].no_icrc = path->flags & NIC_PATH_NO_ICRC;
				frames[got].ordered = false;
				got += resp_tx(qp, &frames[got]);
			}
			if (got == n && path->turn < TX_TURN && qp_path(qp) == index &&
			    (req_pending(qp) || resp_pending(qp)))
				break; /* its turn goes on with the next call */
			list_remove(&qp->ready);
			if (path->turn >= TX_TURN || qp_path(qp) != index)
				qp_ready(qp); /* behind the others */
			path->turn = 0;
		}
	} while (settle(nic, index) && got < n && !list_empty(&path->ready) && nic->port_up);
	return got;
}

/* Take the QP off the list of this path, where it has no more to do; it may have on another. */
static void leave(struct nic_qp *qp, uint32_t index)
{
	list_remove(&qp->ready);
	if (qp_path(qp) != index)
		qp_ready(qp);
}

bool nic_path_pending(struct nic *nic, uint32_t index)
{
	struct path *path = &nic->paths[index];

	do {
		while (nic->port_up && !list_empty(&path->ready)) {
			struct nic_qp *qp = list_entry(list_first(&path->ready), struct nic_qp, ready);

			if (qp_path(qp) == index && (req_pending(qp) || resp_pending(qp)))
				return true;
			leave(qp, index);
			path->turn = 0;
		}
	} while (settle(nic, index) && nic->port_up && !list_empty(&path->ready));
	return false;
}

/*
 * A connected QP holds up nobody but itself, and waits for room as long as its peer lives. Endpoints promise to give up a silent
 * peer: their requests are sent again until tries run out, which needs a timer that runs.
 */
static bool may_lose(const struct nic_qp *qp)
{
	return qp->type == NIC_QPT_UD || (qp->owner && qp->attr.timeout);
}

unsigned nic_path_lose(struct nic *nic, uint32_t index, struct nic_tx_frame *frame, unsigned n, uint64_t now_ns)
{
	struct path *path = &nic->paths[index];
	unsigned lost = 0;

	nic_see_time(nic, now_ns);
	frame->no_icrc = path->flags & NIC_PATH_NO_ICRC;
	frame->ordered = false;
	for (struct list *node = path->ready.next, *next; nic->port_up && node != &path->ready && lost < n;
	     node = next) {
		struct nic_qp *qp = list_entry(node, struct nic_qp, ready);

		next = node->next;
		if (!may_lose(qp))
			continue;
		while (lost < n && qp_path(qp) == index && req_tx(qp, frame))
			lost++;
		if (lost < n && !resp_pending(qp))
			leave(qp, index);
	}
	path->turn = 0;
	settle(nic, index);
	return lost;
}

unsigned nic_tx(struct nic *nic, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	return nic_path_tx(nic, 0, frames, n, now_ns);
}

const uint64_t *nic_paths_pending(const struct nic *nic)
{
	return nic->paths_pending;
}

bool nic_tx_pending(const struct nic *nic)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < NIC_PATHS_MAX / 64; i++)
		any |= nic->paths_pending[i];
	return nic->port_up && any;
}
