/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limiter.h - how often something may be done that strangers ask for (pmd-internal): a burst of PMD_LIMITER_BURST times, then
 * PMD_LIMITER_RATE times a second. A leaf; the clock is the caller's.
 */
#ifndef PMD_LIMITER_H
#define PMD_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#define PMD_LIMITER_BURST 16u
#define PMD_LIMITER_RATE  100u
#define PMD_LIMITER_NS	  (1000000000ull / PMD_LIMITER_RATE) /* of time that one costs */

/** Zeroes: nothing has been used. */
struct pmd_limiter {
	uint64_t spent_until_ns; /* time before this has been spent */
};

/** @return whether it may be done now; then it counts. */
static inline bool pmd_limiter_take(struct pmd_limiter *l, uint64_t now_ns)
{
	const uint64_t burst_ns = PMD_LIMITER_BURST * PMD_LIMITER_NS;

	if (l->spent_until_ns > now_ns)
		l->spent_until_ns = now_ns; /* the clock of another CPU is ahead of this one's */
	if (now_ns - l->spent_until_ns > burst_ns)
		l->spent_until_ns = now_ns - burst_ns;
	if (now_ns - l->spent_until_ns < PMD_LIMITER_NS)
		return false;
	l->spent_until_ns += PMD_LIMITER_NS;
	return true;
}

#endif
