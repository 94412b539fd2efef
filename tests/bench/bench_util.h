/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_util.h - shared by the benchmark programs: the clock, percentiles, starting two processes with a channel and
 * shared memory, pinning them to CPUs, and waiting.
 */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_SPINS 100 /* empty polls before yielding the CPU: a microsecond or two */

static inline uint64_t bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void bench_die(const char *what)
{
	perror(what);
	exit(1);
}

/**
 * The command line of a benchmark: TEST [BYTES [COUNT [CPU CPU]]]. COUNT is the number of round trips or messages, or
 * of MiB in bandwidth tests. If two CPUs are given, which may be the same, each of the two processes is pinned to one
 * of them.
 */
struct bench_options {
	const char *test;
	size_t bytes;
	uint64_t count;
	int cpu[2];
	bool placed;
};

/** Parse the command line. @param tests names of tests, ended by NULL. @param opt contains the defaults. Exits with the
 *  usage message if the arguments are wrong. */
static inline void bench_options_parse(int argc, char **argv, const char *const *tests, size_t bytes_max,
				       struct bench_options *opt)
{
	bool known = false;

	opt->test = argc > 1 ? argv[1] : "";
	for (unsigned i = 0; tests[i]; i++)
		known |= strcmp(opt->test, tests[i]) == 0;
	if (argc > 2)
		opt->bytes = strtoul(argv[2], NULL, 0);
	if (argc > 3)
		opt->count = strtoul(argv[3], NULL, 0);
	opt->placed = argc == 6;
	for (int side = 0; opt->placed && side < 2; side++)
		opt->cpu[side] = atoi(argv[4 + side]);
	if (known && argc != 5 && argc <= 6 && opt->bytes > 0 && opt->bytes <= bytes_max && opt->count > 0)
		return;
	fprintf(stderr, "usage: %s ", argv[0]);
	for (unsigned i = 0; tests[i]; i++)
		fprintf(stderr, "%s%s", i ? "|" : "", tests[i]);
	fprintf(stderr, " [BYTES [COUNT [CPU CPU]]], at most %zu bytes\n", bytes_max);
	exit(2);
}

/** Pin this process to its CPU, if the command line names CPUs. Each of the two processes calls this. */
static inline void bench_place(const struct bench_options *opt, int side)
{
	cpu_set_t cpus;

	if (!opt->placed)
		return;
	CPU_ZERO(&cpus);
	CPU_SET((unsigned)opt->cpu[side], &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		bench_die("sched_setaffinity");
}

/** Allocate zeroed memory that two processes share: a memfd, like the rings of the device. */
static inline void *bench_shared(size_t len)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)len) != 0)
		bench_die("memfd");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		bench_die("mmap");
	close(fd);
	return p;
}

/**
 * To be called after an empty poll of shared memory: spins, and yields the CPU now and then in case the other process
 * needs it. If both processes are pinned to one CPU, always yields.
 */
static inline void bench_wait(unsigned *empty, bool one_cpu)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
	if (!one_cpu && ++*empty % BENCH_SPINS != 0)
		return;
	sched_yield();
}

static inline int bench_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/** Print one line for scripts/bench: median and 99th percentile of the time of a round trip, in microseconds. Each of
 *  the n samples is the time of `trips` round trips. */
static inline void bench_print_trips(uint64_t *ns, size_t n, unsigned trips)
{
	qsort(ns, n, sizeof(*ns), bench_compare);
	printf("%.3f %.3f\n", (double)ns[n / 2] / 1e3 / trips, (double)ns[n * 99 / 100] / 1e3 / trips);
}

/** Print one line: name, median, p99, mean of n samples, in microseconds. */
static inline void bench_print_latency(const char *name, uint64_t *ns, size_t n)
{
	uint64_t sum = 0;

	qsort(ns, n, sizeof(*ns), bench_compare);
	for (size_t i = 0; i < n; i++)
		sum += ns[i];
	printf("%-28s median %8.2f us  p99 %8.2f us  mean %8.2f us\n", name, (double)ns[n / 2] / 1e3,
	       (double)ns[n * 99 / 100] / 1e3, (double)sum / (double)n / 1e3);
	fflush(stdout);
}

static inline void bench_print_rate(const char *name, uint64_t bytes, uint64_t messages, uint64_t ns)
{
	printf("%-28s %8.3f GB/s  %8.3f M messages/s\n", name, (double)bytes / (double)ns,
	       (double)messages * 1e3 / (double)ns);
	fflush(stdout);
}

static inline void bench_send_all(int fd, const void *buf, size_t len)
{
	if (write(fd, buf, len) != (ssize_t)len)
		bench_die("channel");
}

static inline void bench_recv_all(int fd, void *buf, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = read(fd, (char *)buf + got, len - got);

		if (n <= 0)
			bench_die("the other process is gone");
		got += (size_t)n;
	}
}

/** Wait until the other process calls this too. */
static inline void bench_sync(int fd)
{
	char c = 's';

	bench_send_all(fd, &c, 1);
	bench_recv_all(fd, &c, 1);
}

/** Run fn(side, channel, ctx) in two processes, with side 0 and side 1. @return 0 if both calls returned 0. */
static inline int bench_pair(int (*fn)(int side, int channel, void *ctx), void *ctx)
{
	int sv[2], status, rc;
	pid_t pid;

	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
		bench_die("socketpair");
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* otherwise this process spins for ever if the other is killed */
		close(sv[0]);
		_exit(fn(1, sv[1], ctx));
	}
	close(sv[1]);
	rc = fn(0, sv[0], ctx);
	close(sv[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return 1;
	return rc;
}

#endif
