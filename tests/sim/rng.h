/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rng.h - random numbers of the simulator: splitmix64 to seed, xoshiro256** to draw. Every stage and actor has a
 * stream of its own, derived from (seed, purpose, index), so that overriding one option does not shift the others.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/** One step of the splitmix64 finaliser: a cheap 64-bit mixing function. */
static inline uint64_t rng_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

void rng_init(struct rng *rng, uint64_t seed, unsigned purpose, unsigned index);
uint64_t rng_u64(struct rng *rng);

/** Uniform in [0, n); 0 when n is 0. The modulo bias is negligible here. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return n == 0 ? 0 : rng_u64(rng) % n;
}

/** Uniform in [lo, hi]. */
static inline uint64_t rng_range(struct rng *rng, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(rng, hi - lo + 1);
}

/** True with probability permille / 1000. */
static inline bool rng_chance(struct rng *rng, unsigned permille)
{
	return rng_below(rng, 1000) < permille;
}

void rng_bytes(struct rng *rng, void *buf, size_t len);

#endif
