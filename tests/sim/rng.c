/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.c - see rng.h. xoshiro256** after Blackman and Vigna's public description. */
#include "rng.h"

#include <string.h>

void rng_init(struct rng *rng, uint64_t seed, unsigned purpose, unsigned index)
{
	uint64_t x = rng_mix(rng_mix(rng_mix(seed) ^ purpose) ^ ((uint64_t)index << 32));

	for (int i = 0; i < 4; i++)
		rng->s[i] = x = rng_mix(x + (uint64_t)i);
}

static inline uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *rng)
{
	uint64_t *s = rng->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

void rng_bytes(struct rng *rng, void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len > 0) {
		uint64_t v = rng_u64(rng);
		size_t n = len < 8 ? len : 8;

		memcpy(p, &v, n);
		p += n;
		len -= n;
	}
}
