/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem_small.h - converts numbers in floating-point formats that C has no type for to double, and back.
 *
 * Arithmetic on them is done in double, where the sum, difference or product of two of them is exact, except for bits
 * too low to affect the rounding to the small format. So only the rounding here counts: to nearest, ties to even.
 *
 *   FLOAT16      1 sign, 5 exponent, 10 fraction bits   IEEE 754 binary16
 *   BFLOAT16     1, 8, 7                                the upper half of a binary32
 *   FLOAT8_E5M2  1, 5, 2                                OCP OFP8, infinity and NaN as in IEEE 754
 *   FLOAT8_E4M3  1, 4, 3                                OCP OFP8: no infinity; NaN is all ones after the sign, and
 *                                                       values out of range become NaN; the largest number is 448
 */
#ifndef NIC_ELEM_SMALL_H
#define NIC_ELEM_SMALL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct small_format {
	unsigned exponent, fraction; /* widths in bits */
	bool infinity;		     /* the largest exponent is reserved for infinity and NaNs */
};

static const struct small_format small_FLOAT16 = {5, 10, true};
static const struct small_format small_BFLOAT16 = {8, 7, true};
static const struct small_format small_FLOAT8_E4M3 = {4, 3, false};
static const struct small_format small_FLOAT8_E5M2 = {5, 2, true};

#define DOUBLE_FRACTION 52
#define DOUBLE_BIAS	1023
#define DOUBLE_SPECIAL	0x7ff

static inline double small_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/** Convert to double, in which every finite value other than zero is a normal number. */
static inline double small_get(const struct small_format *f, uint32_t v)
{
	uint32_t special = (1u << f->exponent) - 1, fraction = v & ((1u << f->fraction) - 1);
	uint32_t exponent = v >> f->fraction & special;
	uint64_t sign = (uint64_t)(v >> (f->exponent + f->fraction) & 1) << 63;
	int bias = (1 << (f->exponent - 1)) - 1, shift = DOUBLE_FRACTION - (int)f->fraction;

	if (exponent == special && (f->infinity || fraction == (1u << f->fraction) - 1))
		return small_double(sign | (uint64_t)DOUBLE_SPECIAL << DOUBLE_FRACTION |
				    (f->infinity ? (uint64_t)fraction << shift : 1ull << (DOUBLE_FRACTION - 1)));
	if (exponent == 0 && fraction == 0)
		return small_double(sign);
	if (exponent == 0) { /* subnormal: 2^(1 - bias) times the fraction */
		unsigned lead = 31 - (unsigned)__builtin_clz(fraction);

		fraction = (fraction << (f->fraction - lead)) & ((1u << f->fraction) - 1);
		return small_double(sign |
				    (uint64_t)(1 - bias - (int)(f->fraction - lead) + DOUBLE_BIAS) << DOUBLE_FRACTION |
				    (uint64_t)fraction << shift);
	}
	return small_double(sign | (uint64_t)((int)exponent - bias + DOUBLE_BIAS) << DOUBLE_FRACTION |
			    (uint64_t)fraction << shift);
}

static inline uint32_t small_put(const struct small_format *f, double d)
{
	uint32_t special = ((1u << f->exponent) - 1) << f->fraction,
		 largest = f->infinity ? special : special | ((1u << f->fraction) - 1);
	int lowest = 2 - (1 << (f->exponent - 1)); /* exponent of the smallest normal number */
	unsigned drop = DOUBLE_FRACTION - f->fraction;
	uint64_t bits, significand, rest, half;
	uint32_t sign, v;
	int exponent;

	memcpy(&bits, &d, sizeof(bits));
	sign = (uint32_t)(bits >> 63) << (f->exponent + f->fraction);
	if (d != d)
		return sign | special | (f->infinity ? 1u << (f->fraction - 1) : (1u << f->fraction) - 1);
	exponent = (int)(bits >> DOUBLE_FRACTION & DOUBLE_SPECIAL) - DOUBLE_BIAS;
	if (exponent > 2 - lowest) /* far too large; the last line handles values that are just too large */
		return sign | largest;
	significand = (bits & ((1ull << DOUBLE_FRACTION) - 1)) | 1ull << DOUBLE_FRACTION;
	if (exponent < lowest) {
		drop += (unsigned)(lowest - exponent);
		if (drop > DOUBLE_FRACTION + 2)
			return sign;
		exponent = lowest;
	}
	rest = significand & ((1ull << drop) - 1);
	half = 1ull << (drop - 1);
	v = (uint32_t)(significand >> drop);
	v += rest > half || (rest == half && (v & 1));
	v += (uint32_t)(exponent - lowest) << f->fraction; /* the leading one, if any, adds 1 to the exponent */
	return sign | (v < largest ? v : largest);
}

#endif
