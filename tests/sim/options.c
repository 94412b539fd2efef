/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - see options.h. */
#include "options.h"
#include "rng.h"
#include "streams.h"

#include <string.h>

static const struct {
	const char *name, *sentence;
} option_rows[] = {
#define SIM_OPTION(name, sentence) {#name, sentence},
#include "options.def"
#undef SIM_OPTION
};

static uint32_t pick(struct rng *rng, const uint32_t *values, unsigned n)
{
	return values[rng_below(rng, n)];
}
#define PICK(...) pick(rng, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

static void choose_shape(struct sim_opts *o, struct rng *rng)
{
	o->ops = PICK(150, 400, 1000, 2000);
	o->nodes = PICK(2, 2, 2, 3, 4);
	o->rc_pairs = PICK(1, 1, 2, 2, 3, 4, 6);
	o->uc_pairs = PICK(0, 0, 0, 1, 2);
	o->ud_qps = PICK(0, 0, 0, 2, 3);
	o->ipv6 = PICK(0, 0, 1);
	o->mtu = PICK(1, 1, 2, 3, 3, 4, 5);
	o->max_len = PICK(64, 1024, 4096, 8192, 16384);
	o->psn_window = PICK(0, 0, 1, 2, 5, 16, 64);
	o->psn_wrap = PICK(0, 1);
	o->ack_delay_ns = PICK(0, 0, 500, 5000, 20000);
	o->sq_depth = PICK(2, 8, 16, 64);
	o->rq_depth = PICK(1, 4, 16, 32);
	o->srq = PICK(0, 0, 1);
	o->shared_cq = PICK(0, 0, 1);
	o->sig_all = PICK(0, 0, 0, 1);
	o->unsignaled = PICK(0, 100, 500, 900);
	o->cq_events = PICK(0, 0, 1);
}

static void choose_times(struct sim_opts *o, struct rng *rng)
{
	o->timeout = PICK(4, 6, 7, 8, 9, 10, 12);
	o->retry_cnt = PICK(7, 7, 7, 7, 3, 1, 0);
	o->rnr_retry = PICK(7, 7, 7, 6, 3, 0);
	o->rnr_timer = PICK(1, 2, 5, 8, 12, 14);
	o->rd_atomic = PICK(1, 2, 4, 16);
	o->delay_ns = PICK(100, 500, 2000, 10000, 30000);
	o->jitter_ns = PICK(0, 0, 200, 5000);
	o->ns_per_kib = PICK(0, 10, 80, 800);
	o->burst = PICK(1, 2, 8, 32);
	o->udp_port = PICK(0, 0, 0, 1);
}

static void choose_faults(struct sim_opts *o, struct rng *rng)
{
	bool clean = rng_chance(rng, 300);
	uint32_t loss = PICK(0, 0, 1, 10, 30, 80, 200), dup = PICK(0, 0, 5, 30, 100);
	uint32_t reorder = PICK(0, 0, 0, 5, 30, 100), flip = PICK(0, 0, 0, 10, 50);

	o->loss = clean ? 0 : loss;
	o->dup = clean ? 0 : dup;
	o->reorder = clean ? 0 : reorder;
	o->flip = clean || o->udp_port ? 0 : flip;
	o->cut = PICK(0, 0, 0, 0, 1) && !clean;
	o->rnr = PICK(0, 0, 1);
	o->fence = PICK(0, 50, 200, 500);
	o->errors = PICK(0, 0, 0, 5, 20);
	o->kill = PICK(0, 0, 0, 1);
	o->dereg = PICK(0, 0, 0, 1);
	o->windows = PICK(0, 0, 1);
	o->cq_small = rng_chance(rng, 30);
	o->mask_ops = 0;
	/* A run without network faults and with a patient timer must not retransmit, so make sure that enough runs are
	 * of this kind. */
	if (clean && rng_chance(rng, 700)) {
		o->timeout = PICK(14, 15, 16);
		o->rnr = PICK(0, 0, 1);
	}
	o->max_inflight = PICK(0, 0, 0, 2048, 16384);
	o->lossless = PICK(0, 1);
	o->masked = PICK(0, 0, 300, 700, 1000);
	o->nops = PICK(0, 0, 20, 100, 400);
	o->elements = PICK(0, 0, 300, 700, 1000);
	o->triggers = PICK(0, 0, 1);
	o->waits = PICK(0, 300, 1000);
	o->managed = PICK(0, 0, 300, 1000);
}

/** The clock options come from a separate random stream, so that they do not change a seed's other options. */
static void choose_clocks(struct sim_opts *o, uint64_t seed)
{
	struct rng clocks, *rng = &clocks;

	rng_init(rng, seed, STREAM_CLOCK, 1);
	o->clock_jumps = PICK(0, 0, 0, 0, 0, 0, 1, 1000);
	o->clock_stop = PICK(0, 0, 0, 0, 0, 0, 0, 1);
	o->clock_drift = PICK(0, 0, 0, 1);
}

/** Options added later have a random stream of their own, too. */
static void choose_later(struct sim_opts *o, uint64_t seed)
{
	struct rng later, *rng = &later;

	rng_init(rng, seed, STREAM_PLACE, 0);
	o->places = PICK(0, 0, 0, 300, 700);
	o->xrc_pairs = PICK(0, 0, 0, 1, 2);
	o->tag_pairs = PICK(0, 0, 0, 1, 2);
	o->quick = PICK(0, 500, 1000);
}

void sim_opts_choose(struct sim_opts *opts, uint64_t seed, const struct sim_overrides *overrides)
{
	struct rng rng;

	memset(opts, 0, sizeof(*opts));
	opts->seed = seed;
	rng_init(&rng, seed, STREAM_OPTIONS, 0);
	choose_shape(opts, &rng);
	choose_times(opts, &rng);
	choose_faults(opts, &rng);
	choose_clocks(opts, seed);
	choose_later(opts, seed);
#define SIM_OPTION(name, sentence)                                                                                     \
	if (overrides != NULL && overrides->set[SIM_OPT_##name])                                                       \
		opts->name = overrides->value[SIM_OPT_##name];
#include "options.def"
#undef SIM_OPTION
	/* The model of triggers does not know the completions of operations on tagged buffers: no run has both. */
	if (opts->tag_pairs > 0 && overrides != NULL && overrides->set[SIM_OPT_tag_pairs])
		opts->triggers = 0;
	else if (opts->triggers > 0)
		opts->tag_pairs = 0;
}

int sim_opts_find(const char *name)
{
	for (int i = 0; i < SIM_OPT_COUNT; i++) {
		const char *a = name, *b = option_rows[i].name;

		while (*a != '\0' && (*a == *b || (*a == '-' && *b == '_')))
			a++, b++;
		if (*a == '\0' && *b == '\0')
			return i;
	}
	return -1;
}

void sim_opts_help(FILE *to)
{
	for (int i = 0; i < SIM_OPT_COUNT; i++)
		fprintf(to, "  --%-14s %s\n", option_rows[i].name, option_rows[i].sentence);
}

void sim_opts_print(FILE *to, const struct sim_opts *opts)
{
	fprintf(to, "--seed=%llu", (unsigned long long)opts->seed);
#define SIM_OPTION(name, sentence) fprintf(to, " --" #name "=%u", opts->name);
#include "options.def"
#undef SIM_OPTION
	fputc('\n', to);
}
