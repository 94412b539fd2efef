/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - where the engine's time comes from.
 *
 * The CPU's counter, if the kernel has chosen it as its own source: then it has found it constant and alike on all CPUs, and
 * goes on watching. Else, and where /sys is not there to ask, clock_gettime().
 */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "clock.h"

#define SOURCE_FILE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

struct pmd_clock pmd_clock;

uint64_t pmd_clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool kernel_uses_counter(void)
{
	char name[16] = "";
	int fd = open(SOURCE_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && strcmp(name, "tsc\n") == 0;
}

void pmd_clock_start(void)
{
#if defined(__x86_64__)
	uint64_t hz = rte_get_tsc_hz();

	if (hz < 1000000 || !kernel_uses_counter())
		return;
	pmd_clock.base_ns = pmd_clock_monotonic_ns();
	pmd_clock.counts = __rdtsc();
	pmd_clock.ns_per_count = (uint64_t)(((unsigned __int128)1000000000u << 32) / hz);
#else
	(void)kernel_uses_counter;
#endif
}
