/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_util.h - what the benchmark programs share: clock, percentiles, two processes with a channel between them. */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static inline int bench_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/** Median of n samples, microseconds; sorts them. */
static inline double bench_median_us(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), bench_compare);
	return (double)ns[n / 2] / 1e3;
}

/** One line: name, median, p99, mean of n samples, microseconds. */
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

/** Both sides have come here. */
static inline void bench_sync(int fd)
{
	char c = 's';

	bench_send_all(fd, &c, 1);
	bench_recv_all(fd, &c, 1);
}

/** Run fn(side, channel, ctx) in two processes, side 0 and 1. @return 0 when both returned 0. */
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
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* one side spins for ever when the other is killed */
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
