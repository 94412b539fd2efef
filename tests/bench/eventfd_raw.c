/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eventfd_raw.c - the lower limit for the latency of blocking programs: two processes wake each other through eventfds,
 * and sleep in read(). Shows how long the machine takes to put a process to sleep and to wake it.
 *
 * Usage: eventfd_raw rtt [8 [COUNT [CPU CPU]]]    median and 99th percentile round trip, microseconds
 */
#include <sys/eventfd.h>

#include "bench_util.h"

struct bench {
	struct bench_options opt;
	int fd[2]; /* indexed by the side that sleeps on it */
};

static void wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		bench_die("eventfd");
}

static void sleep_until_woken(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		bench_die("eventfd");
}

static int run(int side, int channel, void *ctx)
{
	const struct bench *b = ctx;
	uint64_t *ns = calloc(b->opt.count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	bench_place(&b->opt, side);
	bench_sync(channel);
	for (uint64_t i = 0; i < b->opt.count; i++) {
		uint64_t start = bench_now_ns();

		if (side == 1)
			sleep_until_woken(b->fd[1]);
		wake(b->fd[!side]);
		if (side == 0)
			sleep_until_woken(b->fd[0]);
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		bench_print_trips(ns, b->opt.count, 1);
	free(ns);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"rtt", NULL};
	struct bench b = {.opt = {.bytes = 8, .count = 20000}};

	bench_options_parse(argc, argv, tests, 8, &b.opt);
	for (int side = 0; side < 2; side++) {
		b.fd[side] = eventfd(0, EFD_CLOEXEC);
		if (b.fd[side] < 0)
			bench_die("eventfd");
	}
	return bench_pair(run, &b);
}
