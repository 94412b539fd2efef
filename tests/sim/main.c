/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - uroce_sim: runs simulations, one per seed, and reports violated oracles.
 *
 *   uroce_sim --seed FIRST --seeds N [--verbose] [--packets] [--NAME=VALUE ...]
 *
 * Exit status: 0 all passed, 1 an oracle was violated, 2 usage. One in 64 seeds is run twice: both runs must have the
 * same trace hash.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
	uint64_t first, count;
	bool verbose, stop, hashes;
	struct sim_overrides overrides;
};

static void usage(FILE *to)
{
	fputs("usage: uroce_sim [--seed FIRST] [--seeds N] [--verbose] [--stop] [--hashes] [--packets] [--NAME=VALUE "
	      "...]\n"
	      "  --seed FIRST     first seed (default 1)\n"
	      "  --seeds N        how many (default 1)\n"
	      "  --verbose        every packet, post and completion, with its virtual time\n"
	      "  --stop           stop at the first failure\n"
	      "  --hashes         print the trace hash of each seed\n"
	      "  --packets        print each packet, in hexadecimal digits\n"
	      "Options that a seed chooses, and that may be fixed:\n",
	      to);
	sim_opts_help(to);
}

static bool number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return errno == 0 && end != text && *end == '\0';
}

/** --name=value or --name value. @return false: not a valid option. */
static bool parse_one(struct arguments *a, char **argv, int *i)
{
	char name[64], *arg = argv[*i], *eq = strchr(arg, '=');
	size_t n = eq != NULL ? (size_t)(eq - arg) : strlen(arg);
	uint64_t value;
	int option;

	if (strncmp(arg, "--", 2) != 0 || n >= sizeof(name))
		return false;
	memcpy(name, arg + 2, n - 2);
	name[n - 2] = '\0';
	if (strcmp(name, "verbose") == 0)
		return a->verbose = true;
	if (strcmp(name, "stop") == 0)
		return a->stop = true;
	if (strcmp(name, "hashes") == 0)
		return a->hashes = true;
	if (strcmp(name, "packets") == 0) {
		link_packets_to(stdout);
		return true;
	}
	if (eq == NULL && argv[*i + 1] == NULL)
		return false;
	if (!number(eq != NULL ? eq + 1 : argv[++*i], &value))
		return false;
	if (strcmp(name, "seed") == 0) {
		a->first = value;
		return true;
	}
	if (strcmp(name, "seeds") == 0) {
		a->count = value;
		return true;
	}
	option = sim_opts_find(name);
	if (option < 0 || value > UINT32_MAX)
		return false;
	a->overrides.set[option] = true;
	a->overrides.value[option] = (uint32_t)value;
	return true;
}

static void add_stats(struct sim_stats *sum, const struct sim_stats *one)
{
	uint64_t *a = (uint64_t *)sum;
	const uint64_t *b = (const uint64_t *)one;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*a); i++)
		a[i] += b[i];
}

static bool run_seed(const struct arguments *a, uint64_t seed, struct sim_stats *sum)
{
	struct sim_stats stats, again;
	struct sim_opts opts;
	uint64_t hash, hash2;
	bool ok;

	sim_opts_choose(&opts, seed, &a->overrides);
	ok = sim_run(&opts, a->verbose, stdout, &hash, &stats);
	add_stats(sum, &stats);
	if (a->hashes || a->count == 1)
		printf("seed %llu trace hash %016llx\n", (unsigned long long)seed, (unsigned long long)hash);
	if (!ok || seed % 64 != 0)
		return ok;
	ok = sim_run(&opts, false, stdout, &hash2, &again);
	if (ok && hash == hash2)
		return true;
	printf("VIOLATION of determinism: seed %llu has trace hashes %016llx and %016llx\n", (unsigned long long)seed,
	       (unsigned long long)hash, (unsigned long long)hash2);
	return false;
}

static void print_stats(const struct sim_stats *s)
{
#define S(field) (unsigned long long)s->field
	printf("%llu events, %llu frames (%llu lost, %llu doubled, %llu reordered, %llu corrupted), %llu sent again\n",
	       S(events), S(frames), S(lost), S(doubled), S(reordered), S(flipped), S(retransmits));
	if (s->forged > 0)
		printf("%llu frames of an attacker, none taken\n", S(forged));
	printf("%llu completions (%llu errors, %llu flushed), received: RC %llu, UC %llu, UD %llu; %llu atomics "
	       "executed\n",
	       S(completions), S(errors), S(flushed), S(deliveries), S(uc_delivered), S(ud_delivered), S(atomics));
	printf("%llu QPs reset and reused, %llu deregistrations, %llu windows invalidated, %llu CQs overflowed, %llu "
	       "pieces of "
	       "work triggered\n",
	       S(resets), S(deregs), S(windows), S(overflows), S(triggers));
	printf("%llu packets sent at once\n", S(quick));
	printf("%llu ranges written to the medium by FLUSH, %llu tags matched, %llu rendezvous\n", S(flushes),
	       S(matches), S(rendezvous));
	printf("%llu jumps of clocks, %llu nodes stopped\n", S(clock_jumps), S(stops));
#undef S
}

int main(int argc, char **argv)
{
	struct arguments a = {.first = 1, .count = 1};
	struct sim_stats sum = {0};
	uint64_t passed = 0, failed = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (!parse_one(&a, argv, &i)) {
			fprintf(stderr, "uroce_sim: cannot make sense of \"%s\"\n", argv[i] != NULL ? argv[i] : "");
			usage(stderr);
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t i = 0; i < a.count; i++) {
		if (run_seed(&a, a.first + i, &sum))
			passed++;
		else
			failed++;
		if (failed > 0 && a.stop)
			break;
	}
	print_stats(&sum);
	if (a.overrides.set[SIM_OPT_quick] && a.overrides.value[SIM_OPT_quick] > 0 && a.count >= 100 && failed == 0 &&
	    sum.quick == 0) {
		printf("no packet was sent at once\n");
		failed++;
	}
	printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
	return failed == 0 ? 0 : 1;
}
