/* SPDX-License-Identifier: BSD-3-Clause */
/* quick_util.h - tests that compare two NICs: random numbers, the seed of a failed run, counters. */
#ifndef QUICK_UTIL_H
#define QUICK_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nic_observe.h"

static uint64_t seed_now; /* of the run in progress; 0: none */

static inline uint32_t pick(uint64_t *random, uint32_t below)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*random >> 33) % below;
}

static inline int teardown(void **state)
{
	(void)state;
	if (seed_now)
		fprintf(stderr, "seed %llu\n", (unsigned long long)seed_now);
	seed_now = 0;
	return 0;
}

static inline void expect_same_counters(const struct nic *one, const struct nic *other)
{
	for (unsigned i = 0; i < NIC_CNT_COUNT; i++)
		if (nic_counters(one)[i] != nic_counters(other)[i])
			fail_msg("%s: %llu and %llu", nic_counter_name(i), (unsigned long long)nic_counters(one)[i],
				 (unsigned long long)nic_counters(other)[i]);
}

#endif
