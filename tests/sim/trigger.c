/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.c - work that waits for counters (nic/include/trigger.h). Every completion of a node increments the success
 * part or the failure part of one of the node's counters. Triggered work either posts a send WR, whose completions
 * count here and at the peer, or changes a counter. Meanwhile the application changes counters, queues work and cancels
 * work. A model tracks which thresholds each change reaches, and in which order.
 *
 * Oracles: trigger_early, trigger_twice, trigger_order, trigger_lost (work whose threshold is reached starts before the
 * call returns, unless it is refused), trigger_cancel, trigger_count, trigger_recursion.
 */
#include "sim.h"
#include "trigger.h"

#include <errno.h>

#define CNTRS 3
#define JOBS  48
/* Counters are sometimes set to this value, so that successes plus errors overflow 64 bits. */
#define FAR   (UINT64_MAX - 100)

struct job {
	struct nic_trig_work work;
	struct node *node;
	enum { JOB_OVER, JOB_WAITS, JOB_REACHED } state;
	unsigned cntr;
	/* order: position in the queue while waiting, later the order in which thresholds were reached. */
	uint64_t threshold, order;
	bool refused;
	struct qp *qp; /* the QP that the job posts to; NULL: the job changes a counter */
	unsigned counts_in;
	bool failed, sets;
	uint64_t value;
};

struct triggers {
	struct nic_trig_cntr cntr[CNTRS];
	uint64_t part[CNTRS][2];
	struct job job[JOBS];
	uint64_t order;
	bool firing;
	struct rng rng;
};

/* ---- the model --------------------------------------------------------------------------------------- */

/** @return the next job in order that waits for this counter and is in this state. */
static struct job *first(struct triggers *t, unsigned cntr, int state)
{
	struct job *best = NULL;

	for (struct job *j = t->job; j < t->job + JOBS; j++) {
		if ((int)j->state != state || j->cntr != cntr)
			continue;
		if (best == NULL ||
		    (state == JOB_WAITS && j->threshold != best->threshold ? j->threshold < best->threshold
									   : j->order < best->order))
			best = j;
	}
	return best;
}

static bool reached(const struct triggers *t, const struct job *j)
{
	uint64_t rest = j->threshold - t->part[j->cntr][0];

	return j->threshold <= t->part[j->cntr][0] || rest <= t->part[j->cntr][1];
}

static void reach(struct triggers *t, unsigned cntr)
{
	for (struct job *j; (j = first(t, cntr, JOB_WAITS)) != NULL && reached(t, j);) {
		j->state = JOB_REACHED;
		j->order = t->order++;
		j->refused = false;
	}
}

static void change(struct node *node, unsigned cntr, bool failed, uint64_t value, bool set)
{
	struct triggers *t = node->triggers;

	t->part[cntr][failed] = set ? value : t->part[cntr][failed] + value;
	if (set)
		nic_trig_set(node->nic, &t->cntr[cntr], failed, value);
	else
		nic_trig_add(node->nic, &t->cntr[cntr], failed, value);
	reach(t, cntr);
	if (nic_trig_part(&t->cntr[cntr], failed) != t->part[cntr][failed])
		sim_fail(node->sim, "trigger_count", "node %u: a counter is at %llu, not at %llu", node->index,
			 (unsigned long long)nic_trig_part(&t->cntr[cntr], failed),
			 (unsigned long long)t->part[cntr][failed]);
}

/** Start all work whose threshold is reached, and check that it did start. */
static void run(struct node *node)
{
	struct triggers *t = node->triggers;

	nic_trig_run(node->nic);
	for (unsigned c = 0; c < CNTRS; c++) {
		const struct job *j = first(t, c, JOB_REACHED);

		if (j != NULL && !j->refused)
			sim_fail(node->sim, "trigger_lost", "node %u: work with threshold %llu was not started",
				 node->index, (unsigned long long)j->threshold);
	}
}

/* ---- work -------------------------------------------------------------------------------------------- */

static void check_turn(const struct job *j)
{
	struct triggers *t = j->node->triggers;
	struct sim *sim = j->node->sim;

	if (t->firing)
		sim_fail(sim, "trigger_recursion", "node %u: work is started amid other work", j->node->index);
	else if (j->state == JOB_OVER)
		sim_fail(sim, "trigger_twice", "node %u: work is started that is over", j->node->index);
	else if (j->state == JOB_WAITS)
		sim_fail(sim, "trigger_early", "node %u: threshold %llu at %llu and %llu", j->node->index,
			 (unsigned long long)j->threshold, (unsigned long long)t->part[j->cntr][0],
			 (unsigned long long)t->part[j->cntr][1]);
	else if (first(t, j->cntr, JOB_REACHED) != j)
		sim_fail(sim, "trigger_order", "node %u: work with threshold %llu overtakes that with %llu",
			 j->node->index, (unsigned long long)j->threshold,
			 (unsigned long long)first(t, j->cntr, JOB_REACHED)->threshold);
}

static int fire(struct nic_trig_work *work)
{
	struct job *j = (struct job *)work;
	struct node *node = j->node;
	struct triggers *t = node->triggers;

	check_turn(j);
	if (node->sim->failed)
		return 0;
	t->firing = node->amid = true;
	j->refused = j->qp != NULL && !work_triggered(j->qp);
	if (!j->refused) {
		sim_hash(node->sim, &j->threshold, 8);
		node->sim->stats.triggers++;
		j->state = JOB_OVER;
		if (j->qp == NULL)
			change(node, j->counts_in, j->failed, j->value, j->sets);
	}
	nic_trig_run(node->nic); /* nested call: must start no work */
	t->firing = node->amid = false;
	return j->refused ? -EAGAIN : 0;
}

/** @return a random QP of the node; NULL: there is none. */
static struct qp *some_qp(struct node *node, struct rng *rng)
{
	struct sim *sim = node->sim;
	unsigned from = (unsigned)rng_below(rng, sim->qps);

	for (unsigned i = 0; i < sim->qps; i++) {
		struct qp *qp = &sim->qp[(from + i) % sim->qps];

		if (qp->node == node)
			return qp;
	}
	return NULL;
}

static void queue(struct node *node, struct job *j)
{
	struct triggers *t = node->triggers;
	struct rng *rng = &t->rng;
	uint64_t sum;

	j->cntr = (unsigned)rng_below(rng, CNTRS);
	sum = t->part[j->cntr][0] + t->part[j->cntr][1];
	j->threshold = sum + rng_below(rng, 24) - (rng_chance(rng, 200) ? rng_below(rng, 6) : 0);
	if (rng_chance(rng, 20))
		j->threshold = FAR + rng_below(rng, 101);
	j->qp = rng_chance(rng, 500) ? some_qp(node, rng) : NULL;
	j->counts_in = (unsigned)rng_below(rng, CNTRS);
	j->failed = rng_chance(rng, 300);
	j->sets = rng_chance(rng, 100);
	j->value = rng_below(rng, 4);
	j->order = t->order++;
	j->state = JOB_WAITS;
	if (nic_trig_queue(node->nic, &t->cntr[j->cntr], j->threshold, &j->work) != 0)
		sim_fail(node->sim, "api", "nic_trig_queue");
	reach(t, j->cntr);
}

/** Cancel a job, which may be waiting, may have been reached in the same call, or may have been refused for lack of
 * room. */
static void cancel(struct node *node, struct job *j)
{
	bool canceled = nic_trig_cancel(&j->work);

	if (canceled != (j->state != JOB_OVER))
		sim_fail(node->sim, "trigger_cancel", "node %u: work that is %s is said to be %s", node->index,
			 canceled ? "over" : "waiting", canceled ? "canceled" : "over");
	j->state = JOB_OVER;
	nic_trig_retry(node->nic); /* other jobs may have been waiting behind the canceled one */
}

static void trigger_event(struct sim *sim, void *arg)
{
	struct node *node = arg;
	struct triggers *t = node->triggers;
	struct rng *rng = &t->rng;
	unsigned n;

	if (sim->ending || node_is_stopped(node, trigger_event, node))
		return;
	n = 1 + (unsigned)rng_below(rng, 4);
	while (n-- > 0) {
		struct job *j = &t->job[rng_below(rng, JOBS)];
		unsigned c = (unsigned)rng_below(rng, CNTRS), what = (unsigned)rng_below(rng, 100);

		if (what < 60 && j->state == JOB_OVER)
			queue(node, j);
		else if (what < 75)
			change(node, c, rng_chance(rng, 300), rng_below(rng, 12), false);
		else if (what < 80)
			change(node, c, rng_chance(rng, 500), rng_below(rng, rng_chance(rng, 100) ? FAR : 40), true);
		else
			cancel(node, j);
	}
	run(node);
	node_kick(node);
	sched_at(sim, sim->now_ns + sim_pause(sim, 500 + rng_below(rng, 20000)), trigger_event, node);
}

/* ---- for the rest of the simulator ----------------------------------------------------------------------- */

void triggers_start(struct sim *sim)
{
	for (unsigned i = 0; i < sim->nodes && sim->opts.triggers; i++) {
		struct node *node = &sim->node[i];
		struct triggers *t = sim_alloc(sim, sizeof(*t));

		node->triggers = t;
		rng_init(&t->rng, sim->opts.seed, STREAM_TRIGGER, i);
		for (unsigned c = 0; c < CNTRS; c++)
			nic_trig_cntr_init(&t->cntr[c]);
		for (unsigned j = 0; j < JOBS; j++)
			t->job[j] = (struct job){.work.fire = fire, .node = node};
		sched_at(sim, 1000, trigger_event, node);
	}
}

void triggers_completed(struct node *node, uint32_t qpn, bool success)
{
	if (node->triggers == NULL)
		return;
	change(node, qpn % CNTRS, !success, 1, false);
	nic_trig_retry(node->nic); /* a completion frees room in the send queue */
	run(node);
	node_kick(node); /* posted WRs may have completed and raised events */
}

void triggers_end(struct node *node)
{
	struct triggers *t = node->triggers;

	if (t == NULL)
		return;
	/* The run no longer posts other work, so all of this work fits. */
	for (unsigned i = 0; i < 2 && !node->sim->failed; i++) {
		nic_trig_retry(node->nic);
		run(node);
	}
	for (struct job *j = t->job; j < t->job + JOBS && !node->sim->failed; j++) {
		if (j->state == JOB_REACHED)
			sim_fail(node->sim, "trigger_lost", "node %u: work with threshold %llu never started",
				 node->index, (unsigned long long)j->threshold);
		cancel(node, j);
	}
	for (unsigned c = 0; c < CNTRS; c++)
		nic_trig_cntr_fini(&t->cntr[c]);
	node->triggers = NULL;
}
