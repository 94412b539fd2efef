/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_window.c - how much the requester may have in flight: the configured windows, narrower after losses on paths to
 * which nic_config.max_inflight applies. Owns: requester.cwnd and requester.cwnd_acked. Shares requester.unasked with
 * req_tx.h and req.c.
 */
#include "mtu.h"
#include "psn.h"
#include "qp.h"
#include "req_run.h"
#include "req_window.h"

#define ASK_EVERY 64 /* at least one in this many request packets sets AckReq (RQ-07) */
#define CWND_MIN  4  /* losses and max_inflight leave a window of at least this many packets */

/* Maximum number of payload bytes in flight; 0: no limit. */
static uint32_t inflight_max(const struct nic_qp *qp)
{
	return qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS ? 0 : qp->nic->cfg.max_inflight;
}

/* Maximum number of PSNs in flight if nothing has been lost lately. */
static uint32_t window_max(const struct nic_qp *qp)
{
	const struct nic_config *cfg = &qp->nic->cfg;
	uint32_t inflight = inflight_max(qp) ? inflight_max(qp) >> pmtu_shift(qp->pmtu) : UINT32_MAX;

	if (inflight < CWND_MIN)
		inflight = CWND_MIN;
	return inflight < cfg->psn_window ? inflight : cfg->psn_window;
}

static uint32_t window(const struct nic_qp *qp)
{
	uint32_t max = window_max(qp);

	return qp->req.cwnd < max ? qp->req.cwnd : max;
}

uint32_t req_read_piece(const struct nic_qp *qp)
{
	uint32_t max = window_max(qp);

	return inflight_max(qp) && max > 1 ? max / 2 : max;
}

uint32_t req_window_room(const struct nic_qp *qp)
{
	uint32_t out = (qp->req.psn - qp->comp.una) & PSN_MASK;

	return out < window(qp) ? window(qp) - out : 0;
}

/* The window limits packets: requests coalesced into another request's packet count only against cfg.psn_window. */
bool req_window_admits(const struct nic_qp *qp, uint32_t out, uint32_t psns, uint32_t packets)
{
	if (out + psns <= window(qp))
		return true;
	return qp->peer_joins && out + psns <= qp->nic->cfg.psn_window &&
	       out - req_run_coalesced(qp) + packets <= window(qp);
}

/* Widen by 1 + cwnd / 8 after a window's worth of progress. Call only if cwnd is not UINT32_MAX. */
void req_window_widen(struct nic_qp *qp, uint32_t packets)
{
	struct requester *req = &qp->req;

	req->cwnd_acked += packets;
	if (req->cwnd_acked < req->cwnd)
		return;
	req->cwnd_acked = 0;
	req->cwnd += 1 + req->cwnd / 8;
	if (req->cwnd >= window_max(qp))
		req->cwnd = UINT32_MAX;
}

void req_window_narrow(struct nic_qp *qp)
{
	if (!inflight_max(qp))
		return;
	qp->req.cwnd = window(qp) / 2;
	if (qp->req.cwnd < CWND_MIN)
		qp->req.cwnd = CWND_MIN;
	qp->req.cwnd_acked = 0;
}

void req_window_restart(struct nic_qp *qp)
{
	if (!inflight_max(qp))
		return;
	qp->req.cwnd = CWND_MIN;
	qp->req.cwnd_acked = 0;
}

bool req_asks_between(struct nic_qp *qp, uint32_t psns)
{
	uint32_t quarter = window(qp) / 4;

	qp->req.unasked += psns;
	if (qp->req.unasked < (quarter < ASK_EVERY ? quarter : ASK_EVERY))
		return false;
	qp->req.unasked = 0;
	return qp_is_reliable(qp);
}
