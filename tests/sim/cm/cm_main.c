/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_main.c - uroce_cm_sim: runs simulations of connection managers, one per seed, and reports violated oracles.
 *
 *   uroce_cm_sim --seed FIRST --seeds N [--verbose] [--stop] [--NAME=VALUE ...]
 *
 * Exit status: 0 all passed, 1 an oracle was violated, 2 usage. One in 64 seeds is run twice: both runs must be alike.
 */
#include "cm_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *help;
	uint32_t lo, hi;
} options[] = {
#define X(name, lo, hi, help) {#name, help, lo, hi},
	CM_OPTIONS(X)
#undef X
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

struct arguments {
	uint64_t first, count;
	bool verbose, stop;
	bool set[OPTIONS];
	uint32_t value[OPTIONS];
};

static void usage(FILE *to)
{
	fputs("usage: uroce_cm_sim [--seed FIRST] [--seeds N] [--verbose] [--stop] [--NAME=VALUE ...]\n"
	      "  --seed FIRST     first seed (default 1)\n"
	      "  --seeds N        how many (default 1)\n"
	      "  --verbose        what happens, with its virtual time\n"
	      "  --stop           stop at the first failure\n"
	      "Options that a seed chooses, and that may be fixed:\n",
	      to);
	for (size_t i = 0; i < OPTIONS; i++)
		fprintf(to, "  --%-14s %s, %u to %u\n", options[i].name, options[i].help, options[i].lo, options[i].hi);
}

static bool parse_one(struct arguments *a, char **argv, int *i)
{
	char *eq = strchr(argv[*i], '='), *text, *end;
	size_t n = eq ? (size_t)(eq - argv[*i]) : strlen(argv[*i]);
	unsigned long long value;

	if (!strcmp(argv[*i], "--verbose"))
		return a->verbose = true;
	if (!strcmp(argv[*i], "--stop"))
		return a->stop = true;
	text = eq ? eq + 1 : argv[*i + 1];
	if (n < 3 || strncmp(argv[*i], "--", 2) || !text)
		return false;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end)
		return false;
	if (n == 6 && !strncmp(argv[*i], "--seed", n))
		a->first = value;
	else if (n == 7 && !strncmp(argv[*i], "--seeds", n))
		a->count = value;
	else {
		size_t o = 0;

		while (o < OPTIONS &&
		       (strlen(options[o].name) != n - 2 || strncmp(options[o].name, argv[*i] + 2, n - 2)))
			o++;
		if (o == OPTIONS || value > UINT32_MAX)
			return false;
		a->set[o] = true;
		a->value[o] = (uint32_t)value;
	}
	*i += !eq;
	return true;
}

static struct cm_opts choose(const struct arguments *a, uint64_t seed)
{
	struct cm_opts opts = {.seed = seed};
	uint32_t *values[] = {
#define X(name, lo, hi, help) &opts.name,
		CM_OPTIONS(X)
#undef X
	};

	for (unsigned i = 0; i < OPTIONS; i++) {
		struct rng rng;
		bool fault = options[i].hi >= 100 && options[i].lo == 0;

		rng_init(&rng, seed, 100, i);
		*values[i] = (uint32_t)rng_range(&rng, options[i].lo, options[i].hi);
		if (fault && rng_chance(&rng, 250)) /* one seed in four runs without this fault */
			*values[i] = 0;
		if (a->set[i])
			*values[i] = a->value[i];
	}
	return opts;
}

static bool run_seed(const struct arguments *a, uint64_t seed, struct cm_stats *sum)
{
	struct cm_opts opts = choose(a, seed);
	struct cm_stats stats;
	uint64_t hash, again, *to = (uint64_t *)sum;
	bool ok = cm_world_run(&opts, a->verbose, &stats, &hash);

	if (ok && seed % 64 == 0) {
		ok = cm_world_run(&opts, false, &stats, &again) && hash == again;
		if (!ok)
			printf("VIOLATION of repetition, seed %llu: a second run differs\n", (unsigned long long)seed);
	}
	for (size_t i = 0; i < sizeof(stats) / sizeof(*to); i++)
		to[i] += ((const uint64_t *)&stats)[i];
	if (!ok) {
		printf("options:");
#define X(name, lo, hi, help) printf(" --" #name "=%u", opts.name);
		CM_OPTIONS(X)
#undef X
		putchar('\n');
	}
	return ok;
}

int main(int argc, char **argv)
{
	struct arguments a = {.first = 1, .count = 1};
	struct cm_stats s = {0};
	uint64_t bad = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			usage(stdout);
			return 0;
		}
		if (!parse_one(&a, argv, &i)) {
			usage(stderr);
			return 2;
		}
	}
	for (uint64_t seed = a.first; seed < a.first + a.count; seed++) {
		bad += !run_seed(&a, seed, &s);
		if (bad && a.stop)
			break;
	}
	printf("%llu seeds, %llu violations: %llu connects, %llu ends established, %llu REJs, %llu errors, %llu SIDR, "
	       "%llu kills, %llu adopted, %llu stale, %llu of a flood, %llu MADs; %llu ends alone after all retries\n",
	       (unsigned long long)a.count, (unsigned long long)bad, (unsigned long long)s.connects,
	       (unsigned long long)s.established, (unsigned long long)s.rejected, (unsigned long long)s.errors,
	       (unsigned long long)s.sidr, (unsigned long long)s.kills, (unsigned long long)s.adopted,
	       (unsigned long long)s.stale, (unsigned long long)s.floods, (unsigned long long)s.mads,
	       (unsigned long long)s.gave_up);
	return bad != 0;
}
