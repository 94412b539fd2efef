/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - disturbances around the traffic: QPs killed, MRs deregistered and registered again, links cut; and the
 * end of a run: no more work, then no more faults, then everything must come to rest within bounded virtual time.
 *
 * Oracle: liveness.
 */
#include "sim.h"

static void kill_some_qp(struct sim *sim)
{
	struct qp *qp = &sim->qp[rng_below(&sim->control, sim->qps)];

	if (qp->life != QP_UP || node_is_stopped(qp->node, NULL, NULL) ||
	    (qp->peer != NULL && node_is_stopped(qp->peer->node, NULL, NULL)))
		return;
	if (qp_is_reliable(qp) && rng_chance(&sim->control, 300)) {
		qp_drain(qp);
		return;
	}
	if (qp->peer != NULL && qp->srq == NULL && qp->peer->srq == NULL && rng_chance(&sim->control, 300)) {
		qp_empty(qp);
		return;
	}
	sim_log(sim, "    kill QP %06x", qp->qpn);
	qp_to_err(qp);
	qp_break(qp, "killed");
}

static void excuse(struct qp *qp)
{
	qp->err_expected = true;
	if (qp->peer != NULL)
		qp->peer->err_expected = true;
}

/** @return whether the WR can no longer access memory. (A WR that failed at its sender may still be on the wire.) */
static bool is_past(const struct wr *wr)
{
	const struct qp *qp = wr->qp;

	return wr->done && (wr->status == NIC_WC_SUCCESS || wr->index >= qp->posted || qp->sq[wr->index] != wr);
}

/** The bank is about to be deregistered: allow the WRs that use its memory to fail from now on. */
static void excuse_users(struct sim *sim, const struct bank *bank)
{
	for (uint32_t i = 0; i < sim->wr_count; i++) {
		struct wr *wr = sim->wrs[i];

		if (is_past(wr))
			continue;
		for (unsigned s = 0; s < wr->segs; s++) {
			if (wr->seg[s].bank != bank || wr->seg[s].gen != bank->gen)
				continue;
			wr->may |= BIT(NIC_WC_LOC_PROT_ERR);
			excuse(wr->qp);
		}
		if (wr->target != NULL && wr->target->slot.bank == bank && !slot_gone(&wr->target->slot)) {
			wr->may |= BIT(NIC_WC_REM_ACCESS_ERR);
			wr->target->failed = true;
			wr->qp->peer->trouble = true;
			excuse(wr->qp);
		}
	}
	for (uint32_t i = 0; i < sim->rwr_count; i++) {
		struct rwr *r = sim->rwrs[i];
		bool uses = false;

		for (unsigned s = 0; s < r->segs && !r->done; s++)
			uses |= r->seg[s].bank == bank && r->seg[s].gen == bank->gen;
		if (!uses)
			continue;
		r->may |= BIT(NIC_WC_LOC_PROT_ERR);
		for (unsigned q = 0; q < sim->qps; q++) {
			struct qp *qp = &sim->qp[q];

			if (qp != r->qp && (r->srq == NULL || qp->srq != r->srq))
				continue;
			excuse(qp);
			qp->trouble = true;
			if (qp->peer != NULL)
				qp->peer->may_all |= BIT(NIC_WC_REM_OP_ERR);
		}
	}
}

static void bank_return(struct sim *sim, void *arg)
{
	struct bank *bank = arg;

	if (bank->registered || sim->failed || node_is_stopped(bank->node, bank_return, bank))
		return;
	memory_check(sim); /* nothing was written while the region was deregistered */
	bank_register(bank);
}

static void take_some_bank(struct sim *sim)
{
	struct node *node = &sim->node[rng_below(&sim->control, sim->nodes)];
	struct bank *bank = &node->bank[rng_chance(&sim->control, 500) ? BANK_LOCAL_FRAIL : BANK_TARGET_FRAIL];

	if (!bank->registered || node_is_stopped(node, NULL, NULL))
		return;
	sim_log(sim, "    deregister bank %d of node %u", (int)bank->kind, node->index);
	excuse_users(sim, bank);
	bank_deregister(bank);
	sim->stats.deregs++;
	node_kick(node);
	sched_at(sim, sim->now_ns + 1000 + rng_below(&sim->control, 100000), bank_return, bank);
}

static void cut_some_link(struct sim *sim)
{
	unsigned a = (unsigned)rng_below(&sim->control, sim->nodes), b = (unsigned)rng_below(&sim->control, sim->nodes);

	sim->link[a][b].cut_until_ns = sim->now_ns + rng_below(&sim->control, 1000000);
}

static void control_event(struct sim *sim, void *arg)
{
	(void)arg;
	if (sim->ending)
		return;
	if (sim->opts.kill && rng_chance(&sim->control, 150))
		kill_some_qp(sim);
	if (sim->opts.dereg && rng_chance(&sim->control, 150))
		take_some_bank(sim);
	if (sim->opts.cut && rng_chance(&sim->control, 100))
		cut_some_link(sim);
	sched_at(sim, sim->now_ns + sim_pause(sim, 1000 + rng_below(&sim->control, 60000)), control_event, NULL);
}

void control_start(struct sim *sim)
{
	rng_init(&sim->control, sim->opts.seed, STREAM_CONTROL, 0);
	sched_at(sim, 10000, control_event, NULL);
}

/* ---- the end ----------------------------------------------------------------------------------------- */

/** @return the first QP that still has work in progress; NULL: there is none. */
static const struct qp *restless(const struct sim *sim)
{
	for (unsigned i = 0; i < sim->qps; i++) {
		const struct qp *qp = &sim->qp[i];

		if (qp->life == QP_DEAD || qp_settled(qp))
			continue;
		if (qp->life != QP_UP || qp->posted != qp->done || qp->in_flight > 0 || tags_waits(qp))
			return qp;
	}
	return NULL;
}

static void finish(struct sim *sim, void *arg)
{
	(void)arg;
	if (restless(sim) == NULL)
		sim->finished = true;
	else
		sim_fail(sim, "liveness", "QP %06x woke up after everything was over", restless(sim)->qpn);
}

static void watch_end(struct sim *sim, void *arg)
{
	const struct qp *qp;

	(void)arg;
	tags_look(sim);
	qp = restless(sim);
	if (qp == NULL) {
		/* pending delayed ACKs and notifications arrive within this time */
		sched_at(sim,
			 sim->now_ns + 1000000 +
				 4ull * (sim->opts.delay_ns + sim->opts.jitter_ns + sim->opts.ack_delay_ns),
			 finish, NULL);
		return;
	}
	if (sim->now_ns > sim->end_ns) {
		sim_fail(sim, "liveness",
			 "QP %06x (%s): %u of %u sends completed, %u frames in flight, long after faults stopped",
			 qp->qpn, qp->life == QP_UP ? "up" : "broken", qp->done, qp->posted, qp->in_flight);
		return;
	}
	sched_at(sim, sim->now_ns + 50000, watch_end, NULL);
}

static void become_quiet(struct sim *sim, void *arg)
{
	uint64_t timeout_ns = nic_timeout_ns(sim->opts.timeout);

	(void)arg;
	if (sim->now_ns < sim->stop_end_ns) {
		sched_at(sim, sim->stop_end_ns + 1000, become_quiet, NULL);
		return;
	}
	sim->quiet = true;
	sim->end_ns = sim->now_ns + 1000000000 + 64 * timeout_ns;
	watch_end(sim, NULL);
}

/** The last operation has been posted: begin the end of the run. */
void control_begin_end(struct sim *sim)
{
	if (sim->ending)
		return;
	sim_log(sim, "    last operation posted");
	for (unsigned i = 0; i < sim->qps && !sim->failed; i++)
		work_close(&sim->qp[i]);
	sim->ending = true;
	sched_at(sim, sim->now_ns + rng_below(&sim->control, 500000), become_quiet, NULL);
}
