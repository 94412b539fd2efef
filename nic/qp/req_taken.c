/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_taken.c - what an expired ACK timer means on a path that loses nothing (IBTA 9.7.6.1.3).
 *
 * The NIC of a peer on such a path is part of the peer's process. When the process is stopped, by a debugger, a
 * freezer or a signal, its NIC stops too, where hardware would go on acknowledging. So an expiry costs a retry only if
 * the peer has taken what was sent and has not answered. Until then nothing is lost, nothing has to be retransmitted,
 * and the requester waits for as long as the peer lives. When the peer dies its path closes, and the QP sends by path 0
 * from then on, where every expiry costs a retry.
 *
 * The NIC does not track what the peer takes. It asks the owner of the path when a timer has expired: the first query
 * marks the current position of the path, which is after everything that this QP has sent. When the peer has passed the
 * mark it gets one whole ACK timeout to respond. A busy peer may have packets of other QPs before the mark, so the
 * first check is made soon after marking.
 *
 * The retries of an endpoint's QP measure how long the peer has been silent, whatever the cause. So for such a QP,
 * req.c calls req_taken_look(), too, but counts a retry even if the peer has not taken what was sent.
 *
 * Owns: requester.taken, which req.c resets whenever it starts the ACK timer, and requester.taken_mark.
 */
#include "qp.h"
#include "req_taken.h"

#define LOOK_SOON     8 /* the first check is made after 1/8 of the ACK timeout */
#define LOOK_LEAST_NS 1000000u

uint64_t req_taken_look(struct nic_qp *qp)
{
	const struct nic_config *cfg = &qp->nic->cfg;
	struct requester *req = &qp->req;
	uint8_t before = req->taken;
	uint64_t ns = nic_timeout_ns(qp->attr.timeout) << req->backoff;

	if (before == REQ_TAKEN || !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS) || !cfg->untaken)
		return 0;
	if (before == REQ_TAKEN_UNKNOWN) {
		req->taken_mark = 0;
		ns /= LOOK_SOON;
	}
	req->taken = cfg->untaken(cfg->ctx, qp->path, &req->taken_mark) ? REQ_UNTAKEN : REQ_TAKEN;
	if (req->taken == REQ_TAKEN && before == REQ_TAKEN_UNKNOWN)
		return 0;
	return ns > LOOK_LEAST_NS ? ns : LOOK_LEAST_NS;
}
