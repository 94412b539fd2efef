/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the engine's clock (pmd-internal). It is read for every packet, and clock_gettime() costs about as much as the
 * parsing of one: where the kernel itself keeps time by the CPU's counter, so do we.
 */
#ifndef PMD_CLOCK_H
#define PMD_CLOCK_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/** Written once, before there is an engine. */
struct pmd_clock {
	uint64_t counts; /* of the counter, at base_ns */
	uint64_t base_ns;
	uint64_t ns_per_count; /* in units of 2^-32; 0: the counter is not used */
};
extern struct pmd_clock pmd_clock;

/** Choose the source of time. Once, when DPDK has been started. */
void pmd_clock_start(void);

/** CLOCK_MONOTONIC in ns. */
uint64_t pmd_clock_monotonic_ns(void);

/** Nanoseconds since some time in the past. A thread that moves to another CPU may see a step back of a few. */
static inline uint64_t pmd_now_ns(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(pmd_clock.ns_per_count != 0, 1)) {
		unsigned __int128 ns = (unsigned __int128)(__rdtsc() - pmd_clock.counts) * pmd_clock.ns_per_count;

		return pmd_clock.base_ns + (uint64_t)(ns >> 32);
	}
#endif
	return pmd_clock_monotonic_ns();
}

#endif
