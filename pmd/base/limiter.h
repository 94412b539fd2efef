/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limiter.h - rate limit for work that untrusted senders can trigger (pmd-internal): a burst of PMD_LIMITER_BURST, then
 * PMD_LIMITER_RATE per second. Needs nothing else of pmd/; the caller supplies the time.
 */
#ifndef PMD_LIMITER_H
#define PMD_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#define PMD_LIMITER_BURST 16u
#define PMD_LIMITER_RATE  100u
#define PMD_LIMITER_NS	  (1000000000ull / PMD_LIMITER_RATE) /* time after which there is one more permit */

/** Initialised with zeroes: no permit has been used. */
struct pmd_limiter {
	uint64_t spent_until_ns; /* the permits that accrued before this time have been used */
};

/** @return true: the work is allowed now; this uses one permit. */
static inline bool pmd_limiter_take(struct pmd_limiter *l, uint64_t now_ns)
{
	const uint64_t burst_ns = PMD_LIMITER_BURST * PMD_LIMITER_NS;

	if (l->spent_until_ns > now_ns)
		l->spent_until_ns = now_ns; /* the clock has stepped back, or the last caller's was ahead */
	if (now_ns - l->spent_until_ns > burst_ns)
		l->spent_until_ns = now_ns - burst_ns;
	if (now_ns - l->spent_until_ns < PMD_LIMITER_NS)
		return false;
	l->spent_until_ns += PMD_LIMITER_NS;
	return true;
}

#endif
