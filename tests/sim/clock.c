/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the nodes' own clocks, separate from the run's: they may jump by an hour, run slightly fast or slow, and
 * keep running while their node is stopped for ten minutes, like a stopped process. All of that ends before the run
 * does.
 *
 * A node notices a jump when it next reads its clock. Its timers are the kernel's, which do not jump; when one
 * expires, the node reads its clock.
 *
 * Oracle here: silence (work that depends on a stopped node ends by the waiting node's own timers).
 */
#include "sim.h"

#define HOUR_NS	 3600000000000ll
#define STOP_NS	 600000000000ull
#define START_NS (1000 * (uint64_t)HOUR_NS) /* keeps clocks positive after jumps back */
#define SLOW_BY	 1000
#define EVENT_NS 100000

static bool is_odd(const struct sim *sim)
{
	return sim->opts.clock_jumps || sim->opts.clock_stop || sim->opts.clock_drift;
}

static uint64_t local_ns(const struct node *node)
{
	const struct node_clock *c = &node->clock;

	return c->base_local_ns + (node->sim->now_ns - c->base_ns) * c->rate / 1000;
}

uint64_t node_time(struct node *node)
{
	node->clock.told_local_ns = local_ns(node);
	node->clock.told_ns = node->sim->now_ns;
	return node->clock.told_local_ns;
}

uint64_t node_due(const struct node *node, uint64_t due_local_ns)
{
	const struct node_clock *c = &node->clock;

	if (due_local_ns == UINT64_MAX)
		return UINT64_MAX;
	if (due_local_ns <= c->told_local_ns)
		return c->told_ns;
	if (c->rate == 1000)
		return c->told_ns + (due_local_ns - c->told_local_ns);
	return c->told_ns + (due_local_ns - c->told_local_ns) * 1000 / c->rate + 2;
}

bool node_is_stopped(struct node *node, event_fn fn, void *arg)
{
	struct sim *sim = node->sim;

	if (sim->now_ns >= node->clock.stopped_until_ns)
		return false;
	if (fn != NULL)
		sched_at(sim, node->clock.stopped_until_ns, fn, arg);
	return true;
}

uint64_t sim_pause(const struct sim *sim, uint64_t ns)
{
	uint64_t left_ns = sim->now_ns < sim->stop_end_ns ? sim->stop_end_ns - sim->now_ns : 0;

	return ns * SLOW_BY < left_ns ? ns * SLOW_BY : left_ns + ns;
}

/** Jump by an hour; if a node's clock may jump more than once, also by 2^9 to 2^42 ns. */
static void jump(struct sim *sim, struct node *node)
{
	struct node_clock *c = &node->clock;
	bool hour = sim->opts.clock_jumps == 1 || rng_chance(&sim->clocks, 600);
	int64_t by = hour ? HOUR_NS : (int64_t)(1ull << (9 + rng_below(&sim->clocks, 34)));

	if (c->jumps >= sim->opts.clock_jumps)
		return;
	if (rng_chance(&sim->clocks, 500))
		by = -by;
	c->jumps++;
	sim_log(sim, "    the clock of node %u jumps by %lld ns", node->index, (long long)by);
	c->base_local_ns = local_ns(node) + (uint64_t)by;
	c->base_ns = sim->now_ns;
	sim->stats.clock_jumps++;
}

/** The node resumes. The oracle "silence" checks that no peer still has a request that waits for this node. */
static void stop_end(struct sim *sim, void *arg)
{
	const struct node *node = arg;

	for (unsigned i = 0; i < sim->qps; i++) {
		const struct qp *qp = &sim->qp[i];

		if (qp_is_reliable(qp) && qp->life == QP_UP && qp->peer->node == node && qp->node != node &&
		    qp->wire.acked < qp->wire.sent)
			sim_fail(sim, "silence", "QP %06x: %llu PSNs wait for a peer that has been silent for minutes",
				 qp->qpn, (unsigned long long)(qp->wire.sent - qp->wire.acked));
	}
	sim_log(sim, "    node %u goes on", node->index);
}

static void stop(struct sim *sim, struct node *node)
{
	if (node->clock.stops > 0 || sim->now_ns < sim->stop_end_ns)
		return;
	sim_log(sim, "    node %u is stopped", node->index);
	node->clock.stops++;
	node->clock.stopped_until_ns = sim->stop_end_ns = sim->now_ns + STOP_NS;
	/* Scheduled first, so that it runs before the events that the stop postpones to the same time. */
	sched_at(sim, sim->stop_end_ns, stop_end, node);
	sim->stats.stops++;
}

static void clock_event(struct sim *sim, void *arg)
{
	struct node *node = &sim->node[rng_below(&sim->clocks, sim->nodes)];

	(void)arg;
	if (sim->ending)
		return;
	if (sim->opts.clock_stop && rng_chance(&sim->clocks, 100))
		stop(sim, node);
	else if (sim->opts.clock_jumps)
		jump(sim, node);
	sched_at(sim, sim->now_ns + sim_pause(sim, rng_below(&sim->clocks, EVENT_NS) + 1), clock_event, NULL);
}

void clocks_start(struct sim *sim)
{
	static const uint32_t rates[] = {990, 1000, 1010};

	rng_init(&sim->clocks, sim->opts.seed, STREAM_CLOCK, 0);
	for (unsigned i = 0; i < sim->nodes; i++) {
		struct node_clock *c = &sim->node[i].clock;

		c->rate = sim->opts.clock_drift ? rates[rng_below(&sim->clocks, 3)] : 1000;
		c->base_local_ns = c->told_local_ns = is_odd(sim) ? START_NS : 0;
	}
	if (sim->opts.clock_jumps || sim->opts.clock_stop)
		sched_at(sim, rng_below(&sim->clocks, EVENT_NS), clock_event, NULL);
}

/** @return whether clock faults may have used up a retry of the node's QPs: the node was stopped, or its clock jumped
 * in a run that allows several jumps. If a run allows only one, it is a jump by an hour, which costs no retry. */
static bool was_odd(const struct node *node)
{
	return node->clock.stops > 0 || (node->clock.jumps > 0 && node->sim->opts.clock_jumps > 1);
}

bool clock_excuses(const struct qp *qp)
{
	return was_odd(qp->node) || (qp->peer != NULL && was_odd(qp->peer->node));
}
