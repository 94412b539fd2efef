/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - uroce_control: runs a simulation of the control plane for each seed, and reports violated oracles.
 *
 *   uroce_control --seed FIRST --seeds N [--verbose] [--stop] [--NAME=VALUE ...]
 *
 * Exit status: 0 if all seeds passed, 1 if an oracle was violated, 2 for bad options. One in 64 seeds is run twice, to
 * check that both runs are the same. If a run crashes or hangs, its seed is reported too.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define PATIENCE_S   120 /* real time limit of one seed */
#define KEEPERS_MANY 50	 /* with fewer keepers than this, the share of useless ones is not checked */

struct arguments {
	uint64_t first, count;
	bool verbose, stop;
	struct ctl_overrides overrides;
};

static struct ctl_opts running;

static void usage(FILE *to)
{
	fputs("usage: uroce_control [--seed FIRST] [--seeds N] [--verbose] [--stop] [--NAME=VALUE ...]\n"
	      "  --seed FIRST     first seed (default 1)\n"
	      "  --seeds N        how many (default 1)\n"
	      "  --verbose        what happens, with its virtual time\n"
	      "  --stop           stop at the first failure\n"
	      "Options that a seed chooses, and that may be fixed:\n",
	      to);
	ctl_opts_help(to);
}

static bool number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return errno == 0 && end != text && *end == '\0';
}

static bool parse_one(struct arguments *a, char **argv, int *i)
{
	char name[64], *arg = argv[*i], *eq = strchr(arg, '=');
	size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
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
	if (!eq && !argv[*i + 1])
		return false;
	if (!number(eq ? eq + 1 : argv[++*i], &value))
		return false;
	if (strcmp(name, "seed") == 0) {
		a->first = value;
		return true;
	}
	if (strcmp(name, "seeds") == 0) {
		a->count = value;
		return true;
	}
	option = ctl_opts_find(name);
	if (option < 0 || value > UINT32_MAX)
		return false;
	a->overrides.set[option] = true;
	a->overrides.value[option] = (uint32_t)value;
	return true;
}

/** Report the seed after a crash, or when a run has taken too long. The process ends anyway, so the functions called
 *  need not be async-signal-safe. */
static void on_signal(int signal_number)
{
	printf("VIOLATION of %s, seed %llu\noptions: ", signal_number == SIGALRM ? "liveness" : "life",
	       (unsigned long long)running.seed);
	ctl_opts_print(stdout, &running);
	fflush(stdout);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void add_stats(struct ctl_stats *sum, const struct ctl_stats *one)
{
	uint64_t *a = (uint64_t *)sum;
	const uint64_t *b = (const uint64_t *)one;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*a); i++)
		a[i] += b[i];
}

static bool run_seed(const struct arguments *a, uint64_t seed, struct ctl_stats *sum)
{
	struct ctl_stats stats;
	uint64_t hash, again;

	ctl_opts_choose(&running, seed, &a->overrides);
	if (a->verbose)
		ctl_opts_print(stdout, &running);
	alarm(PATIENCE_S);
	if (!ctl_run(&running, a->verbose, &stats, &hash))
		return false;
	add_stats(sum, &stats);
	if (seed % 64 != 0)
		return true;
	alarm(PATIENCE_S);
	if (ctl_run(&running, false, &stats, &again) && hash == again)
		return true;
	printf("VIOLATION of determinism: seed %llu has trace hashes %016llx and %016llx\n", (unsigned long long)seed,
	       (unsigned long long)hash, (unsigned long long)again);
	return false;
}

int main(int argc, char **argv)
{
	static const int signals[] = {SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
	struct arguments a = {.first = 1, .count = 1};
	struct ctl_stats sum = {0};
	uint64_t passed = 0, failed = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (!parse_one(&a, argv, &i)) {
			fprintf(stderr, "uroce_control: cannot make sense of \"%s\"\n", argv[i] ? argv[i] : "");
			usage(stderr);
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_signal);
	for (uint64_t i = 0; i < a.count; i++) {
		if (run_seed(&a, a.first + i, &sum))
			passed++;
		else
			failed++;
		if (failed > 0 && a.stop)
			break;
	}
#define S(field) (unsigned long long)sum.field
	printf("%llu virtual seconds, %llu turns; %llu daemons; %llu functions joined, %llu were refused, %llu "
	       "adopted, %llu "
	       "came back; %llu killed, %llu stopped; %llu services, %llu links, %llu datagrams, %llu bad messages; "
	       "%llu keepers, %llu of no use\n",
	       S(virtual_ms) / 1000, S(turns), S(daemons), S(joins), S(refused), S(adopted), S(came_back), S(kills),
	       S(pauses), S(services), S(links), S(datagrams), S(messages), S(keepers), S(stale));
#undef S
	if (sum.keepers > KEEPERS_MANY && sum.stale * 10 > sum.keepers) {
		printf("VIOLATION of keepers: too many were of no use to the next daemon\n");
		failed++;
	}
	printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
	return failed == 0 ? 0 : 1;
}
