/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem_model.c - what operations on elements do (elem_model.h). The model shares nothing with nic/mem/elem.c but
 * the enums of datatypes and operations. Integers are computed digit by digit in base 256. FLOAT and DOUBLE are
 * computed in a type with more digits, and the result is rounded once. For small formats, the model searches for the
 * nearest number that the format can represent. Complex products follow the formula, unless it yields NaN.
 */
#include "elem_model.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TYPES 20
#define OPS   20

/* ---- datatypes ----------------------------------------------------------------------------------------------- */

/* By datatype: i integer, f real type of C, s small floating-point format, c complex. */
static const char kind_of[TYPES + 1] = "iiiiiiiiffccfciissss";
static const unsigned size_of[TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16, 2, 2, 1, 1};
static const char *const names[TYPES] = {
	"INT8",	  "UINT8",   "INT16",	"UINT16",	 "INT32",	   "UINT32",	  "INT64",
	"UINT64", "FLOAT",   "DOUBLE",	"FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX",
	"INT128", "UINT128", "FLOAT16", "BFLOAT16",	 "FLOAT8_E4M3",	   "FLOAT8_E5M2"};

static bool is_signed(unsigned dt)
{
	return dt < 8 ? dt % 2 == 0 : dt == NIC_DT_INT128;
}

char model_kind(unsigned dt)
{
	return kind_of[dt];
}

unsigned model_size(unsigned dt)
{
	return dt < TYPES ? size_of[dt] : 0;
}

const char *model_name(unsigned dt)
{
	return names[dt];
}

bool model_valid(unsigned op, unsigned dt, unsigned form)
{
	bool compares = op >= NIC_ELEM_CSWAP && op <= NIC_ELEM_MSWAP;
	char kind;

	if (op >= OPS || dt >= TYPES)
		return false;
	kind = kind_of[dt];
	if (form == NIC_ELEM_COMPARE ? !compares : compares || (op == NIC_ELEM_ATOMIC_READ && form == NIC_ELEM_BASE))
		return false;
	switch (op) {
	case NIC_ELEM_BOR:
	case NIC_ELEM_BAND:
	case NIC_ELEM_BXOR:
	case NIC_ELEM_MSWAP:
		return kind == 'i';
	case NIC_ELEM_MIN:
	case NIC_ELEM_MAX:
	case NIC_ELEM_CSWAP_LE:
	case NIC_ELEM_CSWAP_LT:
	case NIC_ELEM_CSWAP_GE:
	case NIC_ELEM_CSWAP_GT:
		return kind != 'c';
	default:
		return true;
	}
}

/* ---- integers ------------------------------------------------------------------------------------------------ */

static unsigned digit(const uint8_t *number, unsigned size, unsigned i)
{
	return number[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? size - 1 - i : i];
}

static void digit_set(uint8_t *number, unsigned size, unsigned i, unsigned value)
{
	number[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? size - 1 - i : i] = (uint8_t)value;
}

static int int_compare(const uint8_t *a, const uint8_t *b, unsigned size, bool with_sign)
{
	for (unsigned i = size; i-- > 0;) {
		unsigned flip = with_sign && i == size - 1 ? 0x80 : 0;
		int diff = (int)(digit(a, size, i) ^ flip) - (int)(digit(b, size, i) ^ flip);

		if (diff != 0)
			return diff;
	}
	return 0;
}

static bool int_true(const uint8_t *a, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		if (a[i])
			return true;
	return false;
}

static void int_one(uint8_t *a, unsigned size, bool value)
{
	memset(a, 0, size);
	digit_set(a, size, 0, value);
}

static void int_product(uint8_t *r, const uint8_t *a, const uint8_t *b, unsigned size)
{
	unsigned sums[16] = {0}, carry = 0;

	for (unsigned i = 0; i < size; i++)
		for (unsigned j = 0; i + j < size; j++)
			sums[i + j] += digit(a, size, i) * digit(b, size, j);
	for (unsigned i = 0; i < size; i++) {
		digit_set(r, size, i, (sums[i] + carry) & 255);
		carry = (sums[i] + carry) >> 8;
	}
}

static void int_calculate(unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b, const uint8_t *c, unsigned size)
{
	unsigned carry = op == NIC_ELEM_DIFF;

	if (op == NIC_ELEM_PROD) {
		int_product(r, a, b, size);
		return;
	}
	for (unsigned i = 0; i < size; i++) {
		unsigned x = digit(a, size, i), y = digit(b, size, i), m = digit(c, size, i), z;

		switch (op) {
		case NIC_ELEM_SUM:
			z = x + y + carry;
			break;
		case NIC_ELEM_DIFF:
			z = x + (y ^ 255) + carry;
			break;
		case NIC_ELEM_BOR:
			z = x | y;
			break;
		case NIC_ELEM_BAND:
			z = x & y;
			break;
		case NIC_ELEM_BXOR:
			z = x ^ y;
			break;
		default: /* MSWAP */
			z = x - (x & m) + (y & m);
		}
		digit_set(r, size, i, z & 255);
		carry = z >> 8;
	}
}

/* ---- floating point ------------------------------------------------------------------------------------------ */

/* The type in which the model calculates with all floating-point formats. */
#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 wide;
#else
typedef long double wide;
#endif

static unsigned fraction_bits(unsigned dt)
{
	return dt == NIC_DT_FLOAT16 ? 10 : dt == NIC_DT_BFLOAT16 ? 7 : dt == NIC_DT_FLOAT8_E4M3 ? 3 : 2;
}

static unsigned exponent_bits(unsigned dt)
{
	return dt == NIC_DT_BFLOAT16 ? 8 : dt == NIC_DT_FLOAT8_E4M3 ? 4 : 5;
}

static double small_value(unsigned dt, unsigned v)
{
	int f = (int)fraction_bits(dt), e = (int)exponent_bits(dt), bias = (1 << (e - 1)) - 1;
	int fraction = (int)(v & ((1u << f) - 1)), exponent = (int)(v >> f) & ((1 << e) - 1);
	double sign = v >> (f + e) & 1 ? -1 : 1;

	if (exponent == (1 << e) - 1 && dt != NIC_DT_FLOAT8_E4M3)
		return fraction ? (double)NAN : sign * (double)INFINITY;
	if (dt == NIC_DT_FLOAT8_E4M3 && (v & 0x7f) == 0x7f)
		return (double)NAN;
	if (exponent == 0)
		return sign * ldexp(fraction, 1 - bias - f);
	return sign * ldexp((1 << f) + fraction, exponent - bias - f);
}

/* Round d to the nearest number of the format, a tie to the even one. The smallest number too large for the format
 * takes part as well: what rounds to it becomes infinity or NaN. */
static unsigned small_nearest(unsigned dt, double d)
{
	unsigned top = 1u << (fraction_bits(dt) + exponent_bits(dt)), sign = signbit(d) ? top : 0, low = 0, high;
	double beyond, middle;

	high = dt == NIC_DT_FLOAT8_E4M3 ? top - 1 : top - (1u << fraction_bits(dt)); /* NaN (E4M3) or infinity */
	beyond = 2 * small_value(dt, high - 1) - small_value(dt, high - 2);
	d = fabs(d);
	if (d >= beyond)
		return sign | high;
	for (unsigned end = high; end - low > 1;) {
		unsigned mid = (low + end) / 2;

		if (small_value(dt, mid) <= d)
			low = mid;
		else
			end = mid;
	}
	middle = (small_value(dt, low) + (low + 1 == high ? beyond : small_value(dt, low + 1))) / 2;
	return sign | (d > middle || (d == middle && low % 2) ? low + 1 : low);
}

static wide real_get(unsigned dt, const uint8_t *bytes)
{
	union {
		float f;
		double d;
		long double l;
		uint16_t u;
		uint8_t b;
	} v;

	memcpy(&v, bytes, size_of[dt]);
	switch (dt) {
	case NIC_DT_FLOAT:
		return v.f;
	case NIC_DT_DOUBLE:
		return v.d;
	case NIC_DT_LONG_DOUBLE:
		return v.l;
	default:
		return small_value(dt, size_of[dt] == 1 ? v.b : v.u);
	}
}

static void real_put(unsigned dt, uint8_t *bytes, wide value)
{
	float f = (float)value;
	double d = (double)value;
	long double l = (long double)value;
	unsigned small;
	uint16_t u;

	switch (dt) {
	case NIC_DT_FLOAT:
		memcpy(bytes, &f, sizeof(f));
		return;
	case NIC_DT_DOUBLE:
		memcpy(bytes, &d, sizeof(d));
		return;
	case NIC_DT_LONG_DOUBLE:
		memset(bytes, 0, sizeof(l));
		memcpy(bytes, &l, LDBL_MANT_DIG == 64 ? 10 : sizeof(l));
		return;
	default:
		small = value != value ? ~0u : small_nearest(dt, d); /* all ones are a NaN in each small format */
		u = (uint16_t)small;
		bytes[0] = (uint8_t)small;
		if (size_of[dt] == 2)
			memcpy(bytes, &u, sizeof(u));
	}
}

void model_put(unsigned dt, uint8_t *bytes, long double value)
{
	real_put(dt, bytes, value);
}

static wide real_calculate(unsigned dt, unsigned op, wide a, wide b)
{
	/* Calculate in long double itself: no wider type has the digits to hold the exact result. */
	if (dt == NIC_DT_LONG_DOUBLE) {
		long double x = (long double)a, y = (long double)b;

		return op == NIC_ELEM_SUM ? x + y : op == NIC_ELEM_DIFF ? x - y : x * y;
	}
	return op == NIC_ELEM_SUM ? a + b : op == NIC_ELEM_DIFF ? a - b : a * b;
}

unsigned model_part(unsigned dt)
{
	return dt == NIC_DT_FLOAT_COMPLEX    ? NIC_DT_FLOAT
	       : dt == NIC_DT_DOUBLE_COMPLEX ? NIC_DT_DOUBLE
					     : NIC_DT_LONG_DOUBLE;
}

/* One step of the formula for complex products, rounded to the datatype. */
static wide rounded(unsigned dt, unsigned op, wide a, wide b)
{
	uint8_t bytes[16];

	real_put(dt, bytes, real_calculate(dt, op, a, b));
	return real_get(dt, bytes);
}

static void complex_calculate(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b)
{
	unsigned part = model_part(dt), size = size_of[part];
	wide x = real_get(part, a), y = real_get(part, a + size), u = real_get(part, b), v = real_get(part, b + size);

	if (op != NIC_ELEM_PROD) {
		real_put(part, r, real_calculate(part, op, x, u));
		real_put(part, r + size, real_calculate(part, op, y, v));
		return;
	}
	real_put(part, r, real_calculate(part, NIC_ELEM_DIFF, rounded(part, op, x, u), rounded(part, op, y, v)));
	real_put(part, r + size, real_calculate(part, NIC_ELEM_SUM, rounded(part, op, x, v), rounded(part, op, y, u)));
}

/* ---- all datatypes ------------------------------------------------------------------------------------------- */

static bool truth(unsigned dt, const uint8_t *a)
{
	unsigned part = model_part(dt);

	if (kind_of[dt] == 'i')
		return int_true(a, size_of[dt]);
	if (kind_of[dt] == 'c')
		return real_get(part, a) != 0 || real_get(part, a + size_of[part]) != 0;
	return real_get(dt, a) != 0;
}

void model_put_bool(unsigned dt, uint8_t *r, bool value)
{
	memset(r, 0, size_of[dt]);
	if (kind_of[dt] == 'i')
		int_one(r, size_of[dt], value);
	else
		real_put(kind_of[dt] == 'c' ? model_part(dt) : dt, r, value);
}

/* @return -1 less, 0 equal, 1 greater, 2 unordered */
static int order(unsigned dt, const uint8_t *a, const uint8_t *b)
{
	unsigned part = model_part(dt);
	wide x, y;
	int diff;

	if (kind_of[dt] == 'i') {
		diff = int_compare(a, b, size_of[dt], is_signed(dt));
		return (diff > 0) - (diff < 0);
	}
	if (kind_of[dt] == 'c')
		return real_get(part, a) == real_get(part, b) &&
				       real_get(part, a + size_of[part]) == real_get(part, b + size_of[part])
			       ? 0
			       : 2;
	x = real_get(dt, a);
	y = real_get(dt, b);
	return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static bool replaces(unsigned dt, unsigned op, const uint8_t *a, const uint8_t *b, const uint8_t *c)
{
	switch (op) {
	case NIC_ELEM_ATOMIC_WRITE:
		return true;
	case NIC_ELEM_MIN:
		return order(dt, b, a) == -1;
	case NIC_ELEM_MAX:
		return order(dt, b, a) == 1;
	case NIC_ELEM_CSWAP:
		return order(dt, c, a) == 0;
	case NIC_ELEM_CSWAP_NE:
		return order(dt, c, a) != 0;
	case NIC_ELEM_CSWAP_LE:
		return order(dt, c, a) == -1 || order(dt, c, a) == 0;
	case NIC_ELEM_CSWAP_LT:
		return order(dt, c, a) == -1;
	case NIC_ELEM_CSWAP_GE:
		return order(dt, c, a) == 1 || order(dt, c, a) == 0;
	case NIC_ELEM_CSWAP_GT:
		return order(dt, c, a) == 1;
	default:
		return false;
	}
}

void model_clean(unsigned dt, uint8_t *a)
{
	if (LDBL_MANT_DIG == 64 && (dt == NIC_DT_LONG_DOUBLE || dt == NIC_DT_LONG_DOUBLE_COMPLEX))
		for (unsigned i = 0; i < size_of[dt]; i += 16)
			memset(a + i + 10, 0, 6);
}

bool model_execute(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b, const uint8_t *c)
{
	unsigned size = size_of[dt];

	memcpy(r, a, size);
	switch (op) {
	case NIC_ELEM_ATOMIC_READ:
		return false;
	case NIC_ELEM_LOR:
		model_put_bool(dt, r, truth(dt, a) || truth(dt, b));
		return true;
	case NIC_ELEM_LAND:
		model_put_bool(dt, r, truth(dt, a) && truth(dt, b));
		return true;
	case NIC_ELEM_LXOR:
		model_put_bool(dt, r, truth(dt, a) != truth(dt, b));
		return true;
	case NIC_ELEM_SUM:
	case NIC_ELEM_DIFF:
	case NIC_ELEM_PROD:
	case NIC_ELEM_BOR:
	case NIC_ELEM_BAND:
	case NIC_ELEM_BXOR:
	case NIC_ELEM_MSWAP:
		if (kind_of[dt] == 'i')
			int_calculate(op, r, a, b, c, size);
		else if (kind_of[dt] == 'c')
			complex_calculate(dt, op, r, a, b);
		else
			real_put(dt, r, real_calculate(dt, op, real_get(dt, a), real_get(dt, b)));
		return true;
	default:
		if (!replaces(dt, op, a, b, c))
			return false;
		memcpy(r, b, size);
		model_clean(dt, r);
		return true;
	}
}

static bool real_same(unsigned dt, const uint8_t *a, const uint8_t *b)
{
	wide x = real_get(dt, a), y = real_get(dt, b);

	return memcmp(a, b, size_of[dt]) == 0 || (x != x && y != y);
}

bool model_same(unsigned dt, unsigned op, const uint8_t *got, const uint8_t *expected)
{
	unsigned part = model_part(dt), size = size_of[part];

	if (memcmp(got, expected, size_of[dt]) == 0)
		return true;
	if (kind_of[dt] == 'i' || (op != NIC_ELEM_SUM && op != NIC_ELEM_DIFF && op != NIC_ELEM_PROD))
		return false;
	if (kind_of[dt] != 'c')
		return real_same(dt, got, expected);
	if (op == NIC_ELEM_PROD) {
		wide x = real_get(part, expected), y = real_get(part, expected + size);
		wide u = real_get(part, got), v = real_get(part, got + size);

		/* If both parts are NaN by the formula, accept an infinity too: C's Annex G wants one if a factor is
		 * infinite. See test_elem.c. */
		if (x != x && y != y)
			return isinf((long double)u) || isinf((long double)v) || (u != u && v != v);
	}
	return real_same(part, got, expected) && real_same(part, got + size, expected + size);
}
