/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c - queue pairs: creation, connection, and what happens when one breaks. A broken pair goes through ERR (all WRs
 * must be flushed), waits until the network holds nothing for it (the timewait of a connection manager), is reset and
 * connected again with fresh PSNs.
 *
 * Oracles: flush_complete (a QP in ERR has completed everything: QS-04, QS-05), drained (SQ_DRAINED tells the truth:
 * QS-08). A QP reset with WRs outstanding (QS-07) must never complete them (complete.c) nor send (wire.c).
 */
#include "sim.h"

#include <stdlib.h>

#define CQ_DEPTH 4096

/** What a QP of a pair is for. */
struct role {
	enum nic_qp_type type;
	int tags;
};

/** RC or XRC. */
bool qp_is_reliable(const struct qp *qp)
{
	return qp->type != NIC_QPT_UC && qp->type != NIC_QPT_UD;
}

/** @return a new CQ; NULL: the NIC refused it. */
static struct cq *cq_new(struct node *node, uint32_t depth)
{
	const struct sim_opts *o = &node->sim->opts;
	struct cq *cq = &node->cq[node->cqs];

	cq->node = node;
	rng_init(&cq->rng, o->seed, STREAM_POLL, node->index * SIM_CQS + node->cqs);
	cq->interval_ns = 200u << rng_below(&cq->rng, o->cq_small ? 11 : 7);
	if (nic_cq_create(node->nic, depth, cq, &cq->cq) != 0)
		return NULL;
	node->cqs++;
	cq_poll_soon(cq, 0);
	return cq;
}

static struct cq *cq_for(struct node *node, struct rng *rng)
{
	const struct sim_opts *o = &node->sim->opts;
	uint32_t depth = o->cq_small ? 4 + (uint32_t)rng_below(rng, 28) : CQ_DEPTH;

	if (node->cqs >= SIM_CQS - SIM_XRC_SRQS - 1 || (node->cqs > 0 && (o->shared_cq || rng_chance(rng, 300))))
		return &node->cq[rng_below(rng, node->cqs)];
	return cq_new(node, depth);
}

void srq_begin(struct srq *srq, struct node *node, unsigned stream)
{
	const struct sim_opts *o = &node->sim->opts;
	bool first = srq == &node->srq; /* the others are smaller, so that the node's memory is enough for all */
	uint32_t most = first ? 2048 : 1024;

	srq->node = node;
	srq->depth = first || o->rq_depth < 8 ? o->rq_depth * 2 : 16;
	srq->cap = o->max_len < most ? o->max_len : most;
	rng_init(&srq->rng, o->seed, STREAM_RECV, stream);
	srq_kick(srq, 0);
}

static bool srq_for(struct node *node)
{
	struct srq *srq = &node->srq;

	if (node->has_srq)
		return true;
	srq_begin(srq, node, 1000 + node->index);
	node->has_srq = true;
	return nic_srq_create(node->pd[0], srq->depth, SIM_SEGS, 0, srq, &srq->srq) == 0;
}

/** The node's XRC domain and its SRQs. Their CQs do not overflow: that would end the domain's targets one by one. */
static bool xrcd_for(struct node *node)
{
	if (node->xrcd != NULL)
		return true;
	if (nic_xrcd_alloc(node->nic, &node->xrcd) != 0)
		return false;
	for (unsigned i = 0; i < SIM_XRC_SRQS; i++) {
		struct srq *srq = &node->xrc[i];

		srq_begin(srq, node, 2000 + node->index * SIM_XRC_SRQS + i);
		srq->cq = cq_new(node, CQ_DEPTH);
		if (srq->cq == NULL || nic_srq_create_xrc(node->pd[0], node->xrcd, srq->cq->cq, srq->depth, SIM_SEGS, 0,
							  srq, &srq->srq) != 0)
			return false;
	}
	return true;
}

static struct srq *tags_for(struct node *node)
{
	struct cq *cq = node->tags == NULL ? cq_new(node, CQ_DEPTH) : NULL;

	return cq == NULL && node->tags == NULL ? NULL : tags_srq(node, cq);
}

static bool qp_create(struct sim *sim, unsigned index, const struct role *role, struct node *node, struct rng *rng)
{
	struct qp *qp = &sim->qp[index];
	enum nic_qp_type type = role->type;
	bool srq = type == NIC_QPT_RC && sim->opts.srq && role->tags == TAGS_NONE, target = type == NIC_QPT_XRC_TGT;
	bool tags = role->tags == TAGS_RECEIVER;

	*qp = (struct qp){.sim = sim, .node = node, .index = index, .type = type, .tags = role->tags};
	rng_init(&qp->rng, sim->opts.seed, STREAM_WORK, index);
	rng_init(&qp->recv_rng, sim->opts.seed, STREAM_RECV, index);
	rng_init(&qp->pair_rng, sim->opts.seed, STREAM_PAIR, index);
	qp->scq = cq_for(node, rng);
	qp->rcq = rng_chance(rng, 500) ? qp->scq : cq_for(node, rng);
	if (qp->scq == NULL || qp->rcq == NULL || (srq && !srq_for(node)) || (target && !xrcd_for(node)))
		return false;
	qp->srq = srq ? &node->srq : target ? &node->xrc[0] : tags ? tags_for(node) : NULL;
	if (tags && qp->srq == NULL)
		return false;
	qp->rcq = tags ? qp->srq->cq : qp->rcq;
	for (unsigned recv = 0; recv < 2 && sim->opts.managed > 0; recv++)
		qp->managed[recv] = !(recv && (srq || type == NIC_QPT_XRC_INI)) && !target && !tags &&
				    rng_chance(rng, sim->opts.managed);
	struct nic_qp_init init = {
		.type = type,
		.pd = target ? NULL : node->pd[0],
		.send_cq = target ? NULL : qp->scq->cq,
		.recv_cq = target ? NULL : qp->rcq->cq,
		.srq = srq || tags ? qp->srq->srq : NULL,
		.xrcd = target ? node->xrcd : NULL,
		.cap = {sim->opts.sq_depth, sim->opts.rq_depth, SIM_SEGS, SIM_SEGS, (uint32_t)rng_below(rng, 3) * 64},
		.sq_sig_all = sim->opts.sig_all,
		.cross_channel = !target && (sim->opts.waits > 0 || sim->opts.managed > 0),
		.managed_send = qp->managed[0],
		.managed_recv = qp->managed[1],
		.max_atomic_arg = type == NIC_QPT_RC ? 32 : 0,
		.max_fetch = type == NIC_QPT_RC ? 32 : 0,
		.user = qp,
	};
	if (nic_qp_create(node->nic, &init, &qp->qp) != 0)
		return false;
	qp->cap = init.cap;
	qp->qpn = nic_qp_num(qp->qp);
	qp->access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;
	if (role->tags == TAGS_NONE && sim->opts.errors > 0 && rng_chance(rng, 200))
		qp->access &= ~(NIC_ACCESS_REMOTE_WRITE << rng_below(rng, 3));
	qp->access |= NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT;
	qp->qkey = 0x11000000 + (uint32_t)index;
	return true;
}

static int to_init(struct qp *qp)
{
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT, .port_num = 1, .qkey = qp->qkey, .qp_access_flags = qp->access};

	return nic_qp_modify(qp->qp, &a,
			     NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT |
				     (qp->type == NIC_QPT_UD ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS));
}

static int to_rtr(struct qp *qp)
{
	const struct sim_opts *o = &qp->sim->opts;
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RTR,
				.path_mtu = (enum nic_mtu)o->mtu,
				.max_dest_rd_atomic = (uint8_t)o->rd_atomic,
				.min_rnr_timer = (uint8_t)o->rnr_timer};
	uint32_t mask = NIC_QP_STATE;

	if (qp->type != NIC_QPT_UD) {
		a.av.dgid = qp->peer->node->gid;
		a.dest_qp_num = qp->peer->qpn;
		a.rq_psn = qp->peer->sq_psn;
		mask |= NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN;
	}
	if (qp_is_reliable(qp))
		mask |= NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
	return nic_qp_modify(qp->qp, &a, mask);
}

static int to_rts(struct qp *qp)
{
	const struct sim_opts *o = &qp->sim->opts;
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RTS,
				.sq_psn = qp->sq_psn,
				.timeout = (uint8_t)o->timeout,
				.retry_cnt = (uint8_t)o->retry_cnt,
				.rnr_retry = qp->tags == TAGS_RECEIVER ? 7 : (uint8_t)o->rnr_retry,
				.max_rd_atomic = (uint8_t)o->rd_atomic};
	uint32_t mask = NIC_QP_STATE | NIC_QP_SQ_PSN;

	if (qp_is_reliable(qp))
		mask |= NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
	return nic_qp_modify(qp->qp, &a, mask);
}

static void choose_psn(struct qp *qp)
{
	qp->sq_psn = (uint32_t)rng_u64(&qp->pair_rng) & 0xffffff;
	if (qp->sim->opts.psn_wrap)
		qp->sq_psn = 0x1000000 - 1 - (uint32_t)rng_below(&qp->pair_rng, 100);
}

/** Bring a QP and its peer from RESET to RTS. */
static void connect(struct qp *qp)
{
	struct qp *both[2] = {qp, qp->peer};
	unsigned n = qp->peer == NULL ? 1 : 2;

	for (unsigned i = 0; i < n; i++)
		choose_psn(both[i]);
	for (unsigned i = 0; i < n; i++) {
		int rc = to_init(both[i]);

		rc = rc != 0 ? rc : to_rtr(both[i]);
		rc = rc != 0 ? rc : to_rts(both[i]);
		if (rc != 0)
			sim_fail(qp->sim, "api", "connecting QP %06x: %d", both[i]->qpn, rc);
		both[i]->life = QP_UP;
		recv_kick(both[i], 0);
		work_kick(both[i], rng_below(&both[i]->pair_rng, 3000));
		node_kick(both[i]->node);
	}
}

static struct node *any_node(struct sim *sim, struct rng *rng)
{
	return &sim->node[rng_below(rng, sim->nodes)];
}

static bool pair_create(struct sim *sim, struct role role, struct role other, struct rng *rng)
{
	struct node *a = any_node(sim, rng), *b = any_node(sim, rng);
	unsigned i = sim->qps;

	if (a == b && !rng_chance(rng, 200)) /* occasionally a NIC is connected to itself */
		b = &sim->node[(a->index + 1) % sim->nodes];
	if (!qp_create(sim, i, &role, a, rng) || !qp_create(sim, i + 1, &other, b, rng))
		return false;
	sim->qp[i].peer = &sim->qp[i + 1];
	sim->qp[i + 1].peer = &sim->qp[i];
	sim->qps += 2;
	return true;
}

bool qps_init(struct sim *sim)
{
	struct rng rng;
	const struct role rc = {.type = NIC_QPT_RC}, uc = {.type = NIC_QPT_UC}, ud = {.type = NIC_QPT_UD},
			  ini = {.type = NIC_QPT_XRC_INI}, tgt = {.type = NIC_QPT_XRC_TGT},
			  sender = {NIC_QPT_RC, TAGS_SENDER}, receiver = {NIC_QPT_RC, TAGS_RECEIVER};
	unsigned total = 2 * (sim->opts.rc_pairs + sim->opts.uc_pairs + sim->opts.xrc_pairs + sim->opts.tag_pairs) +
			 sim->opts.ud_qps;

	rng_init(&rng, sim->opts.seed, STREAM_SETUP, 0);
	sim->qp = sim_alloc(sim, total * sizeof(*sim->qp));
	for (unsigned i = 0; i < sim->opts.rc_pairs; i++)
		if (!pair_create(sim, rc, rc, &rng))
			return false;
	for (unsigned i = 0; i < sim->opts.uc_pairs; i++)
		if (!pair_create(sim, uc, uc, &rng))
			return false;
	for (unsigned i = 0; i < sim->opts.tag_pairs; i++)
		if (!pair_create(sim, sender, receiver, &rng))
			return false;
	for (unsigned i = 0; i < sim->opts.xrc_pairs; i++)
		if (!pair_create(sim, ini, tgt, &rng))
			return false;
	for (unsigned i = 0; i < sim->opts.ud_qps; i++, sim->qps++)
		if (!qp_create(sim, sim->qps, &ud, any_node(sim, &rng), &rng))
			return false;
	for (unsigned i = 0; i < sim->qps; i++) {
		struct qp *qp = &sim->qp[i];

		windows_reset(qp);
		if (qp->peer == NULL || qp->peer > qp)
			connect(qp);
	}
	return !sim->failed;
}

/* ---- breaking and mending ---------------------------------------------------------------------------- */

void qp_to_err(struct qp *qp)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_ERR};
	int rc;

	qp->err_expected = true;
	qp->flush_due = true;
	if (qp->peer != NULL)
		qp->peer->err_expected = true;
	rc = nic_qp_modify(qp->qp, &a, NIC_QP_STATE);
	if (rc != 0)
		sim_fail(qp->sim, "api", "moving QP %06x to ERR: %d", qp->qpn, rc);
	node_kick(qp->node);
}

static bool drained(struct qp *qp)
{
	return complete_tail(qp) && (qp->srq != NULL || qp->rposted == qp->rdone);
}

bool qp_settled(const struct qp *qp)
{
	return qp->life == QP_DEAD || (qp->life == QP_BROKEN && qp->settled);
}

/** Move both sides of a pair straight to RESET with WRs on their queues (QS-07). The WRs are dropped. */
void qp_empty(struct qp *qp)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RESET};
	struct qp *both[2] = {qp, qp->peer};

	sim_log(qp->sim, "    reset QP %06x and its peer", qp->qpn);
	qp_break(qp, "reset");
	for (int i = 0; i < 2; i++) {
		int rc = nic_qp_modify(both[i]->qp, &a, NIC_QP_STATE);

		if (rc != 0)
			sim_fail(qp->sim, "api", "resetting QP %06x: %d", both[i]->qpn, rc);
		both[i]->emptied = true;
		both[i]->break_step = 1;
		complete_none(both[i]);
		node_kick(both[i]->node);
	}
}

/** Move the QP to SQD: WRs in progress complete, later ones wait. */
void qp_drain(struct qp *qp)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_SQD, .en_sqd_async_notify = true};
	int rc;

	if (qp->draining || qp->tags == TAGS_RECEIVER || nic_qp_state(qp->qp) != NIC_QPS_RTS)
		return;
	qp->draining = true;
	sim_log(qp->sim, "    drain QP %06x", qp->qpn);
	rc = nic_qp_modify(qp->qp, &a, NIC_QP_STATE | NIC_QP_EN_SQD_ASYNC_NOTIFY);
	if (rc != 0)
		sim_fail(qp->sim, "api", "draining QP %06x: %d", qp->qpn, rc);
	node_kick(qp->node);
}

static void resume(struct sim *sim, void *arg)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RTS};
	struct qp *qp = arg;
	int rc;

	if (node_is_stopped(qp->node, resume, qp))
		return;
	if (!qp->drained || nic_qp_state(qp->qp) != NIC_QPS_SQD)
		return;
	qp->draining = qp->drained = false;
	rc = nic_qp_modify(qp->qp, &a, NIC_QP_STATE);
	if (rc != 0)
		sim_fail(sim, "api", "QP %06x from SQD to RTS: %d", qp->qpn, rc);
	node_kick(qp->node);
}

void qp_drained(struct qp *qp)
{
	if (!qp->draining || qp->drained)
		sim_fail(qp->sim, "event_spurious", "QP %06x: SQ_DRAINED, and it is not draining", qp->qpn);
	if (qp->wire.acked < qp->wire.sent)
		sim_fail(qp->sim, "drained", "QP %06x: SQ_DRAINED with %llu PSNs unanswered", qp->qpn,
			 (unsigned long long)(qp->wire.sent - qp->wire.acked));
	qp->drained = true;
	sched_at(qp->sim, qp->sim->now_ns + rng_below(&qp->pair_rng, 50000), resume, qp);
}

static void qp_restart(struct qp *qp)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RESET};
	int rc = nic_qp_modify(qp->qp, &a, NIC_QP_STATE);

	if (rc != 0)
		sim_fail(qp->sim, "api", "resetting QP %06x: %d", qp->qpn, rc);
	wire_reset(qp);
	qp->incarnation++;
	qp->posted = qp->done = qp->rposted = qp->rdone = qp->messages = qp->scan = qp->unsignaled_run = 0;
	qp->send_failed = qp->recv_failed = qp->err_expected = qp->flush_due = qp->settled = qp->trouble = false;
	qp->emptied = qp->draining = qp->drained = false;
	qp->enabled[0] = qp->enabled[1] = 0;
	qp->may_all = qp->reqs_access = qp->reqs_err = 0;
	qp->break_step = 0;
	qp->sim->stats.resets++;
}

static void cq_empty(struct cq *cq)
{
	for (int i = 0; i < 64 && !cq->node->sim->failed && !cq->dead && nic_cq_count(cq->cq) > 0; i++)
		cq_drain(cq);
}

static void drain_cqs(struct qp *qp)
{
	cq_empty(qp->scq);
	cq_empty(qp->rcq);
	for (unsigned i = 0; i < SIM_XRC_SRQS && qp->type == NIC_QPT_XRC_TGT; i++)
		cq_empty(qp->node->xrc[i].cq);
}

static bool pair_dead(const struct qp *qp)
{
	return qp->scq->dead || qp->rcq->dead || (qp->peer != NULL && (qp->peer->scq->dead || qp->peer->rcq->dead));
}

static void pair_bury(struct qp *qp)
{
	struct qp *both[2] = {qp, qp->peer};

	for (int i = 0; i < 2 && both[i] != NULL; i++) {
		if (nic_qp_state(both[i]->qp) != NIC_QPS_ERR)
			qp_to_err(both[i]);
		both[i]->life = QP_DEAD;
		if (both[i]->srq != NULL && both[i]->srq->cq == NULL) {
			both[i]->srq->lossy = true;
			srq_kick(both[i]->srq, 0);
		}
	}
	for (unsigned i = 0; i < qp->sim->qps; i++)
		if (qp->sim->qp[i].life != QP_DEAD)
			return;
	control_begin_end(qp->sim); /* every QP is gone, so no work is left */
}

static void pair_step(struct sim *sim, void *arg)
{
	struct qp *qp = arg, *both[2] = {qp, qp->peer};
	unsigned n = qp->peer == NULL ? 1 : 2, flying = 0;

	for (unsigned i = 0; i < n; i++)
		if (node_is_stopped(both[i]->node, pair_step, qp))
			return;
	if (pair_dead(qp)) {
		pair_bury(qp);
		return;
	}
	for (unsigned i = 0; i < n && qp->break_step == 0; i++)
		if (nic_qp_state(both[i]->qp) != NIC_QPS_ERR)
			qp_to_err(both[i]);
	for (unsigned i = 0; i < n; i++) {
		both[i]->break_step = 1;
		drain_cqs(both[i]);
		if (!pair_dead(qp) && !sim->failed && !drained(both[i]))
			sim_fail(sim, "flush_complete",
				 "QP %06x is in ERR: %u of %u sends, %u of %u receives completed", both[i]->qpn,
				 both[i]->done, both[i]->posted, both[i]->rdone, both[i]->rposted);
		flying += both[i]->in_flight;
	}
	if (sim->failed || flying > 0 || pair_dead(qp)) {
		sched_at(sim, sim->now_ns + sim_pause(sim, 2000), pair_step, qp);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		delivered_check(both[i]);
		target_release_all(both[i], false);
		both[i]->settled = true;
	}
	if (sim->ending)
		return;
	for (unsigned i = 0; i < n; i++) {
		windows_reset(both[i]);
		qp_restart(both[i]);
	}
	connect(qp);
}

/** This QP or its peer was put into ERR: reconnect the pair after a while. */
void qp_break(struct qp *qp, const char *why)
{
	struct sim *sim = qp->sim;
	struct qp *lead = qp->peer != NULL && qp->peer < qp ? qp->peer : qp;

	if (qp->life != QP_UP)
		return;
	sim_log(sim, "    QP %06x broken: %s", qp->qpn, why);
	qp->life = QP_BROKEN;
	qp->err_expected = true;
	if (qp->peer != NULL) {
		qp->peer->life = QP_BROKEN;
		qp->peer->err_expected = true;
	}
	/* Usually reconnect soon, sometimes so late that the peer's own timer expires. */
	sched_at(sim, sim->now_ns + (rng_chance(&lead->pair_rng, 200) ? 20000000 : rng_below(&lead->pair_rng, 100000)),
		 pair_step, lead);
}
