/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.c - egress: the paths by which packets leave, and arbitration among the QPs that have packets to send.
 *
 * Every path has its own list of ready QPs, so that a path without room does not hold up the others. A connected QP
 * stays on the path to its peer; a UD QP is on the list of the path that its next request takes.
 */
#include "cq.h"
#include "own_time.h"
#include "path.h"
#include "qp.h"
#include "qp_state.h"
#include "req.h"
#include "req_tx.h"
#include "resp_ack.h"
#include "resp_tx.h"
#include "trig.h"

#define TX_TURN	       16 /* packets that a QP may send before another QP gets its turn */
#define REFERENCE_TURN 4  /* TX_TURN counts a packet with a reference as this many packets: receiving it takes long */

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

/* Posted datagrams carry their path: move those on `path` to path 0. */
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

void path_move(struct nic_qp *qp, uint32_t path)
{
	qp->path = path;
	if (list_empty(&qp->ready))
		return;
	list_remove(&qp->ready);
	qp_ready(qp);
}

void path_park(struct nic_qp *qp, struct list *parked)
{
	qp->path = NIC_PATHS_MAX;
	list_remove(&qp->ready);
	list_append(parked, &qp->ready); /* so that qp_ready() leaves it alone */
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
		if (qp_is_reliable(qp) && qp->resp.heard && qp->state != NIC_QPS_ERR)
			resp_ack(qp); /* ACK again: the last ACK may have been sent by path 0, which the peer no longer
					 accepts */
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
 * Whether a delayed ACK is sent before the pending requests or after them. Hardware sends the ACK first. Here the
 * requests usually go first, because a polling peer then gets our application's reply sooner. The ACK goes first in two
 * cases:
 *   - On lossless paths, where packets are sent one by one and the order costs little.
 *   - If a CQ of the QP is armed. Our application then sleeps until completions arrive, and the peer's application most
 *     likely does the same. The ACK completes the peer's send, and the event for that completion must reach the peer
 *     before the event for our reply. perftest assumes that its first event reports the send completion, and overruns
 *     its send queue if that event reports the reply.
 */
static bool ack_goes_first(const struct nic_qp *qp)
{
	return qp->resp.ack_queued && !qp->resp.ack_lazy && !qp->resp.res_todo &&
	       (qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS || qp->recv_cq->arm != CQ_UNARMED ||
		qp->send_cq->arm != CQ_UNARMED);
}

/* Whether the QP has nothing to send, not even a delayed ACK. */
static inline bool is_idle(const struct nic_qp *qp)
{
	return !req_pending(qp) && !qp->resp.res_todo && !qp->resp.ack_queued;
}

/* Build one packet of a QP that has requests to send. Responses and requests alternate when the QP has both, but an ACK
 * that is due goes first. */
static bool tx_requests(struct nic_qp *qp, uint32_t path, struct nic_tx_frame *frame)
{
	frame->ordered = ack_goes_first(qp);
	if (frame->ordered && !qp->resp.ack_due)
		resp_ack_due(qp);
	if (!resp_pending(qp))
		return req_tx(qp, path, frame);
	qp->resp_turn = !qp->resp_turn || (qp->resp.ack_due && !qp->resp.res_todo);
	if (qp->resp_turn)
		return resp_tx(qp, frame) || (req_pending(qp) && req_tx(qp, path, frame));
	return req_tx(qp, path, frame) || (resp_pending(qp) && resp_tx(qp, frame));
}

/* Build one packet of the QP. */
static inline bool qp_tx(struct nic_qp *qp, uint32_t path, struct nic_tx_frame *frame)
{
	if (req_pending(qp))
		return tx_requests(qp, path, frame);
	frame->ordered = false; /* no request follows */
	return resp_tx(qp, frame);
}

/* Clear the path's pending bit if no QP is ready, and do what was put off while QPs of the path were sending: failed
 * CQs, the owners' work, triggered work. @return whether the path may have new packets to send. */
static inline bool settle(struct nic *nic, uint32_t index)
{
	if (list_empty(&nic->paths[index].ready))
		nic->paths_pending[index / 64] &= ~(1ull << index % 64);
	nic_settle_failed_cqs(nic);
	if (__builtin_expect(!(nic->owners_due | nic->trig_due), 1))
		return false;
	nic_settle(nic);
	return true;
}

/* Build packets of one QP into [frame, end), up to the end of the QP's turn. @return the frame after the last one
 * built. */
static inline struct nic_tx_frame *qp_turn(struct nic_qp *qp, struct path *path, uint32_t index,
					   struct nic_tx_frame *frame, struct nic_tx_frame *end)
{
	const struct nic_tx_frame *first = frame;

	while (frame != end && path->turn < TX_TURN && qp_path(qp) == index) {
		frame->no_icrc = path->flags & NIC_PATH_NO_ICRC;
		if (!qp_tx(qp, index, frame))
			break;
		path->turn += frame->n_pieces ? REFERENCE_TURN : 1;
		frame++;
		if (is_idle(qp))
			return frame; /* the common case: return without asking requester and responder once more */
	}
	/*
	 * Send a delayed ACK right after what the QP sends: otherwise the peer could receive the application's reply to
	 * a message long before the ACK that completes the message. Sending two packets in one burst costs the port or
	 * link little more than sending one.
	 */
	if (frame != first && frame != end && qp->resp.ack_queued && !qp->resp.ack_due) {
		resp_ack_due(qp);
		frame->no_icrc = path->flags & NIC_PATH_NO_ICRC;
		frame->ordered = false;
		frame += resp_tx(qp, frame);
	}
	return frame;
}

unsigned nic_path_tx(struct nic *nic, uint32_t index, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct nic_tx_frame *frame = frames, *end = frames + (nic->port_up ? n : 0);
	struct path *path = &nic->paths[index];

	nic_see_time(nic, now_ns);
	do {
		while (frame != end && !list_empty(&path->ready)) {
			struct nic_qp *qp = list_entry(list_first(&path->ready), struct nic_qp, ready);
			bool again;

			frame = qp_turn(qp, path, index, frame, end);
			again = path->turn >= TX_TURN || qp_path(qp) != index;
			if (frame == end && !again && (req_pending(qp) || resp_pending(qp)))
				break; /* the QP's turn continues with the next call */
			list_remove(&qp->ready);
			if (again)
				qp_ready(qp); /* at the end of the list, after the other QPs */
			path->turn = 0;
		}
	} while (settle(nic, index) && frame != end && !list_empty(&path->ready));
	return (unsigned)(frame - frames);
}

/* Take the QP off this path's list; if its next packet takes another path, put the QP on that path's list. */
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
 * Whether the QP's requests are dropped when the path has no room. Requests of an application's connected QP are kept:
 * waiting delays only this QP, which waits for as long as its peer lives. Endpoints, however, promise to give up on a
 * silent peer: their requests are dropped but count as sent, so the ACK timer runs and the retries run out. UD requests
 * are dropped because waiting would delay requests to other destinations.
 */
static bool may_lose(const struct nic_qp *qp)
{
	return qp->type == NIC_QPT_UD || (qp_is_endpoints(qp) && qp->attr.timeout);
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
		while (lost < n && qp_path(qp) == index && req_pending(qp) && req_tx(qp, index, frame))
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
