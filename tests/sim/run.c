/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - one run: build a world from the options, process events in order until the run has finished, run the final
 * oracles, free everything. Nothing outlives a run, so that runs do not influence one another. */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (256u << 10)
#define EVENTS_MAX  20000000u

struct block {
	struct block *next;
	size_t used;
	_Alignas(16) uint8_t data[BLOCK_BYTES];
};

void *sim_alloc(struct sim *sim, size_t len)
{
	struct block *b = sim->blocks;
	void *p;

	len = (len + 15) & ~(size_t)15;
	if (len > BLOCK_BYTES)
		abort(); /* the simulator allocates nothing that large */
	if (b == NULL || b->used + len > BLOCK_BYTES) {
		b = malloc(sizeof(*b));
		if (b == NULL)
			abort();
		b->next = sim->blocks;
		b->used = 0;
		sim->blocks = b;
	}
	p = b->data + b->used;
	b->used += len;
	return memset(p, 0, len);
}

void sim_hash(struct sim *sim, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = sim->hash, v;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; len > 0; p++, len--)
		h = (h ^ *p) * 0x100000001b3ull;
	sim->hash = h;
}

void sim_log(struct sim *sim, const char *format, ...)
{
	va_list ap;

	if (!sim->verbose)
		return;
	fprintf(sim->out, "%12llu  ", (unsigned long long)sim->now_ns);
	va_start(ap, format);
	vfprintf(sim->out, format, ap);
	va_end(ap);
	fputc('\n', sim->out);
}

static void print_trace(struct sim *sim, struct node *node)
{
	uint64_t head = nic_trace_head(node->nic), i = head > 24 ? head - 24 : 0;
	struct nic_trace_entry e;

	fprintf(sim->out, "  last trace entries of node %u:\n", node->index);
	for (; i < head; i++)
		if (nic_trace_get(node->nic, i, &e))
			fprintf(sim->out, "    %12llu qp %06x %-10s a %-10u b %u\n", (unsigned long long)e.now_ns,
				e.qpn, nic_trace_name(e.event), e.a, e.b);
}

void sim_fail(struct sim *sim, const char *oracle, const char *format, ...)
{
	va_list ap;

	if (sim->failed)
		return;
	sim->failed = true;
	snprintf(sim->oracle, sizeof(sim->oracle), "%s", oracle);
	fprintf(sim->out, "VIOLATION of %s at %llu ns, seed %llu: ", oracle, (unsigned long long)sim->now_ns,
		(unsigned long long)sim->opts.seed);
	va_start(ap, format);
	vfprintf(sim->out, format, ap);
	va_end(ap);
	fputs("\n  options: ", sim->out);
	sim_opts_print(sim->out, &sim->opts);
	for (unsigned i = 0; i < sim->nodes; i++)
		if (sim->node[i].nic != NULL)
			print_trace(sim, &sim->node[i]);
}

static void clamp(struct sim_opts *o)
{
#define CLAMP(name, lo, hi) o->name = (int64_t)o->name < (lo) ? (lo) : o->name > (hi) ? (hi) : o->name
	CLAMP(nodes, 2, SIM_NODES);
	CLAMP(rc_pairs, 0, 8);
	CLAMP(uc_pairs, 0, 4);
	CLAMP(xrc_pairs, 0, 4);
	CLAMP(tag_pairs, 0, o->max_len < 64 ? 0 : 4);
	CLAMP(ud_qps, 0, 4);
	if (o->rc_pairs + o->uc_pairs + o->ud_qps + o->xrc_pairs + o->tag_pairs == 0)
		o->rc_pairs = 1;
	CLAMP(mtu, 1, 5);
	CLAMP(max_len, 0, 32768);
	CLAMP(timeout, 1, 20);
	CLAMP(rd_atomic, 1, 128);
	CLAMP(sq_depth, 1, 256);
	CLAMP(rq_depth, 1, 256);
	CLAMP(burst, 1, 32);
	CLAMP(ops, 1, 10000000);
	CLAMP(keyed, 0, nic_key_supported());
#undef CLAMP
}

static bool world_build(struct sim *sim)
{
	const struct sim_opts *o = &sim->opts;

	sim->nodes = o->nodes;
	sim->ops_left = o->ops;
	sim->clean = o->loss == 0 && o->dup == 0 && o->reorder == 0 && o->flip == 0 && o->cut == 0;
	sim->patient = o->timeout >= 14;
	clocks_start(sim);
	for (unsigned i = 0; i < sim->nodes; i++)
		if (!node_init(sim, i))
			return false;
	link_init(sim);
	if (!qps_init(sim))
		return false;
	control_start(sim);
	triggers_start(sim);
	return true;
}

/** Oracles that require everything to be idle. */
static void last_oracles(struct sim *sim)
{
	for (unsigned i = 0; i < sim->nodes && !sim->failed; i++)
		for (unsigned c = 0; c < sim->node[i].cqs && !sim->failed; c++)
			while (!sim->failed && !sim->node[i].cq[c].dead && nic_cq_count(sim->node[i].cq[c].cq) > 0)
				cq_drain(&sim->node[i].cq[c]);
	for (unsigned i = 0; i < sim->qps && !sim->failed; i++) {
		if (sim->qp[i].life != QP_UP)
			continue;
		delivered_check(&sim->qp[i]);
		wire_end(&sim->qp[i]);
	}
	for (unsigned i = 0; i < sim->nodes && !sim->failed; i++)
		triggers_end(&sim->node[i]);
	memory_check(sim);
}

static void world_free(struct sim *sim)
{
	struct block *b = sim->blocks;

	for (unsigned i = 0; i < sim->nodes; i++) {
		triggers_end(&sim->node[i]);
		if (sim->node[i].nic != NULL)
			node_destroy(&sim->node[i]);
		for (unsigned c = 0; c < SIM_CELLS; c++)
			free(sim->node[i].cell[c].entry);
	}
	for (unsigned i = 0; i < sim->qps; i++) {
		free(sim->qp[i].sq);
		free(sim->qp[i].rq);
		free(sim->qp[i].wire.psn);
	}
	free(sim->wrs);
	free(sim->rwrs);
	free(sim->heap);
	while (b != NULL) {
		struct block *next = b->next;

		free(b);
		b = next;
	}
}

bool sim_run(const struct sim_opts *opts, bool verbose, FILE *out, uint64_t *hash, struct sim_stats *stats)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	struct event e;
	bool ok;

	if (sim == NULL)
		abort();
	sim->opts = *opts;
	clamp(&sim->opts);
	sim->verbose = verbose;
	sim->out = out;
	if (!world_build(sim))
		sim_fail(sim, "api", "the world could not be built");
	while (!sim->failed && !sim->finished && sched_next(sim, &e)) {
		sim->now_ns = e.at_ns;
		e.fn(sim, e.arg);
		if (++sim->stats.events % 2048 == 0)
			memory_check(sim);
		if (sim->stats.events > EVENTS_MAX)
			sim_fail(sim, "liveness", "no end after %u events", EVENTS_MAX);
	}
	if (!sim->failed && !sim->finished)
		sim_fail(sim, "liveness", "nothing more happens, and the run is not over");
	if (!sim->failed)
		last_oracles(sim);
	ok = !sim->failed;
	*hash = sim->hash;
	*stats = sim->stats;
	world_free(sim);
	free(sim);
	return ok;
}
