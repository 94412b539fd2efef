/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_util.h - shared by the NIC's fuzz targets: functions that read the input as a script, and a deterministic
 * nic_config.random. */
#ifndef FUZZ_UTIL_H
#define FUZZ_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static const uint8_t *fuzz_in;
static size_t fuzz_left;
static uint64_t fuzz_random;

static inline void expect(bool holds)
{
	if (!holds)
		abort();
}

static inline uint8_t byte(void)
{
	if (fuzz_left == 0)
		return 0;
	fuzz_left--;
	return *fuzz_in++;
}

static inline uint32_t word(void)
{
	uint32_t v = byte();

	return v << 8 | byte();
}

/** A nic_config.random that returns the same numbers for each input. */
static inline void fixed_random(void *ctx, void *buf, size_t len)
{
	uint8_t *p = buf;

	(void)ctx;
	for (size_t i = 0; i < len; i++) {
		fuzz_random = fuzz_random * 6364136223846793005ull + 1442695040888963407ull;
		p[i] = (uint8_t)(fuzz_random >> 33);
	}
}

static inline void fuzz_begin(const uint8_t *data, size_t size)
{
	fuzz_in = data;
	fuzz_left = size;
	fuzz_random = 0;
}

#endif
