/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - see options.h. */
#include <string.h>

#include "../sim/rng.h"
#include "options.h"

static const struct {
	const char *name, *sentence;
} rows[] = {
#define CTL_OPTION(name, sentence) {#name, sentence},
#include "options.def"
#undef CTL_OPTION
};

static uint32_t pick(struct rng *rng, const uint32_t *values, unsigned n)
{
	return values[rng_below(rng, n)];
}
#define PICK(...) pick(rng, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

static void choose_shape(struct ctl_opts *o, struct rng *rng)
{
	o->ops = PICK(20, 40, 80, 200);
	o->gap_us = PICK(100, 1000, 5000, 20000, 100000, 400000);
	o->functions = PICK(2, 3, 5, 8, 12);
	o->preempt = PICK(10, 100, 300, 700);
	o->sndbuf = PICK(4096, 16384, 212992, 212992);
	o->nofile = PICK(256, 1024, 2048);
	o->program_room = PICK(0, 0, 0, 36, 44);
	o->slow_exit = PICK(0, 1);
	o->containers = PICK(0, 0, 1);
	o->strangers = PICK(0, 0, 0, 1);
	o->opens = PICK(1, 2, 2, 3, 6);
}

static void choose_weights(struct ctl_opts *o, struct rng *rng)
{
	o->join = PICK(4, 8);
	o->by_hand = PICK(0, 0, 1, 3);
	o->leave = PICK(0, 1, 3);
	o->kill = PICK(0, 0, 1, 4);
	o->kill_daemon = PICK(0, 0, 1, 2, 4);
	o->term = PICK(0, 0, 1);
	o->pause = PICK(0, 0, 1, 3);
	o->serve = PICK(0, 2, 4);
	o->route = PICK(0, 2, 4);
	o->fork = PICK(0, 0, 1);
	o->hostile = PICK(0, 0, 1, 4);
	o->flood = PICK(0, 0, 0, 1);
	o->tool = PICK(0, 1);
	o->address = PICK(0, 0, 2);
	o->limit = PICK(0, 0, 0, 1);
	o->datagram = PICK(1, 4);
	o->settle = PICK(0, 0, 1);
}

void ctl_opts_choose(struct ctl_opts *opts, uint64_t seed, const struct ctl_overrides *overrides)
{
	struct rng rng;

	memset(opts, 0, sizeof(*opts));
	opts->seed = seed;
	rng_init(&rng, seed, 0, 0);
	choose_shape(opts, &rng);
	choose_weights(opts, &rng);
#define CTL_OPTION(name, sentence)                                                                                     \
	if (overrides && overrides->set[CTL_OPT_##name])                                                               \
		opts->name = overrides->value[CTL_OPT_##name];
#include "options.def"
#undef CTL_OPTION
}

int ctl_opts_find(const char *name)
{
	for (int i = 0; i < CTL_OPT_COUNT; i++)
		if (strcmp(rows[i].name, name) == 0)
			return i;
	return -1;
}

void ctl_opts_help(FILE *to)
{
	for (int i = 0; i < CTL_OPT_COUNT; i++)
		fprintf(to, "  --%-14s %s\n", rows[i].name, rows[i].sentence);
}

void ctl_opts_print(FILE *to, const struct ctl_opts *opts)
{
	fprintf(to, "--seed=%llu", (unsigned long long)opts->seed);
#define CTL_OPTION(name, sentence) fprintf(to, " --" #name "=%u", opts->name);
#include "options.def"
#undef CTL_OPTION
	fputc('\n', to);
}
