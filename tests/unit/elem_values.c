/* SPDX-License-Identifier: BSD-3-Clause */
/* elem_values.c - random values for elements (elem_model.h), often at the limits of the datatype. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "elem_model.h"
#include "wire_util.h"

uint64_t model_word(uint64_t *seed)
{
	return util_random(seed);
}

static long double edge_real(uint64_t *seed, unsigned dt)
{
	static const long double some[] = {0, 1, 2, 3, 0.5, 0.1, 1e3, 65504, 448, 57344};
	long double large = dt == NIC_DT_FLOAT	  ? (long double)FLT_MAX
			    : dt == NIC_DT_DOUBLE ? (long double)DBL_MAX
						  : LDBL_MAX;
	long double little = dt == NIC_DT_FLOAT	   ? (long double)FLT_TRUE_MIN
			     : dt == NIC_DT_DOUBLE ? (long double)DBL_TRUE_MIN
						   : LDBL_TRUE_MIN;
	unsigned which = (unsigned)(model_word(seed) % 16);

	switch (which) {
	case 10:
		return large;
	case 11:
		return little;
	case 12:
		return little * 3;
	case 13:
		return (long double)INFINITY;
	case 14:
		return (long double)NAN;
	case 15:
		return large / 2;
	default:
		return some[which];
	}
}

static void random_real(uint64_t *seed, unsigned dt, uint8_t *bytes)
{
	long double w;

	switch (model_word(seed) % 4) {
	case 0: /* random bits, but not on x87, where some bit patterns are no numbers */
		if (dt != NIC_DT_LONG_DOUBLE)
			for (unsigned i = 0; i < model_size(dt); i++)
				bytes[i] = (uint8_t)model_word(seed);
		else
			model_put(dt, bytes,
				  (long double)(int64_t)model_word(seed) * (long double)(int64_t)model_word(seed));
		return;
	case 1:
		w = (long double)(int64_t)(model_word(seed) % 2000) / 8;
		break;
	default:
		w = edge_real(seed, dt);
		break;
	}
	model_put(dt, bytes, model_word(seed) % 2 ? w : -w);
}

static void random_int(uint64_t *seed, uint8_t *bytes, unsigned size)
{
	const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	uint64_t kind = model_word(seed) % 6;

	for (unsigned i = 0; i < size; i++) {
		static const uint8_t fills[] = {0, 255, 0x55, 0};

		bytes[i] = kind < 4 ? fills[kind] : (uint8_t)(model_word(seed) & (kind == 4 ? model_word(seed) : 255));
	}
	if (kind == 3)
		bytes[big ? 0 : size - 1] = model_word(seed) % 2 ? 0x80 : 0x7f;
	else if (kind == 0 && model_word(seed) % 2)
		bytes[big ? size - 1 : 0] = 1;
}

void model_random(uint64_t *seed, unsigned dt, uint8_t *bytes)
{
	unsigned size = model_size(dt), part = model_part(dt);

	if (model_kind(dt) == 'i') {
		random_int(seed, bytes, size);
	} else if (model_kind(dt) == 'c') {
		random_real(seed, part, bytes);
		random_real(seed, part, bytes + size / 2);
	} else {
		random_real(seed, dt, bytes);
	}
	if (LDBL_MANT_DIG == 64 && (dt == NIC_DT_LONG_DOUBLE || dt == NIC_DT_LONG_DOUBLE_COMPLEX) &&
	    model_word(seed) % 2)
		for (unsigned i = 10; i < size; i += 16)
			bytes[i] = (uint8_t)model_word(seed);
}
