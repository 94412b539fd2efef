/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_elem.c - nic/elem.c: every pair of operation and datatype against a model that shares nothing with it, by edge values and
 * random ones, several counts, at every alignment that there may be; against itself in several threads; the order of the network.
 *
 * The model: integers digit by digit in base 256; FLOAT and DOUBLE with more digits than they have, rounded once; small formats by
 * looking for the nearest number that they know; complex products by the formula, where that has no NaN.
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "atomic.h"
#include "elem.h"
#include "sanitizer.h"
#include "wire_util.h"

#if defined(__SANITIZE_ADDRESS__) || TEST_TSAN
#define ROUNDS 60
#else
#define ROUNDS 600 /* vectors of each pair and form */
#endif
#define COUNT_MAX 70
#define THREADS	  4

/* ---- what there is ------------------------------------------------------------------------------------------- */

/* Letters: i integer, f real (C's), s small, c complex. */
static const char kind_of[] = "iiiiiiiiffccfciissss";
static const unsigned size_of[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16, 2, 2, 1, 1};
static const char *const names[] = {
	"INT8",	  "UINT8",   "INT16",	"UINT16",	 "INT32",	   "UINT32",	  "INT64",
	"UINT64", "FLOAT",   "DOUBLE",	"FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX",
	"INT128", "UINT128", "FLOAT16", "BFLOAT16",	 "FLOAT8_E4M3",	   "FLOAT8_E5M2"};

static bool is_signed(unsigned dt)
{
	return dt < 8 ? dt % 2 == 0 : dt == NIC_DT_INT128;
}

/* As fi_atomic(3) defines them: which operations make sense for which kinds, and in which form. */
static bool expected_valid(unsigned op, unsigned dt, unsigned form)
{
	char kind = kind_of[dt];
	bool compares = op >= NIC_ELEM_CSWAP && op <= NIC_ELEM_MSWAP;

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

static void pairs_are_those_of_fi_atomic(void **state)
{
	unsigned pairs[3] = {0}, of_1_17[3] = {0};

	(void)state;
	for (unsigned form = 0; form < 3; form++)
		for (unsigned op = 0; op < 256; op++)
			for (unsigned dt = 0; dt < 256; dt++) {
				bool expected = op < 20 && dt < 20 && expected_valid(op, dt, form);

				assert_int_equal(nic_elem_valid(op, dt, (enum nic_elem_form)form), expected);
				pairs[form] += expected;
				of_1_17[form] += expected && op <= NIC_ELEM_MSWAP && dt <= NIC_DT_UINT128;
			}
	assert_int_equal(of_1_17[NIC_ELEM_BASE], 152);
	assert_int_equal(of_1_17[NIC_ELEM_FETCH], 168);
	assert_int_equal(of_1_17[NIC_ELEM_COMPARE], 94);
	print_message("%u base, %u fetch, %u compare pairs\n", pairs[0], pairs[1], pairs[2]);
	for (unsigned dt = 0; dt < 256; dt++)
		assert_int_equal(nic_elem_size(dt), dt < 20 ? size_of[dt] : 0);
	assert_false(nic_elem_valid(0, 0, (enum nic_elem_form)3));
}

/* ---- the model ----------------------------------------------------------------------------------------------- */

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

/* What all floating-point formats are looked at as. */
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

/* The nearest of all the numbers that there are; the even one of two. The first too large one counts as a number there. */
static unsigned small_nearest(unsigned dt, double d)
{
	unsigned top = 1u << (fraction_bits(dt) + exponent_bits(dt)), sign = signbit(d) ? top : 0, low = 0, high;
	double beyond, middle;

	high = dt == NIC_DT_FLOAT8_E4M3 ? top - 1 : top - (1u << fraction_bits(dt)); /* NaN; infinity */
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
		small = value != value ? ~0u : small_nearest(dt, d); /* a NaN: all ones are one in all of them */
		u = (uint16_t)small;
		bytes[0] = (uint8_t)small;
		if (size_of[dt] == 2)
			memcpy(bytes, &u, sizeof(u));
	}
}

static wide real_calculate(unsigned dt, unsigned op, wide a, wide b)
{
	if (dt == NIC_DT_LONG_DOUBLE) { /* twice its digits is more than there is */
		long double x = (long double)a, y = (long double)b;

		return op == NIC_ELEM_SUM ? x + y : op == NIC_ELEM_DIFF ? x - y : x * y;
	}
	return op == NIC_ELEM_SUM ? a + b : op == NIC_ELEM_DIFF ? a - b : a * b;
}

static unsigned part_type(unsigned dt)
{
	return dt == NIC_DT_FLOAT_COMPLEX    ? NIC_DT_FLOAT
	       : dt == NIC_DT_DOUBLE_COMPLEX ? NIC_DT_DOUBLE
					     : NIC_DT_LONG_DOUBLE;
}

/* The formula, each of its steps rounded as the datatype is. */
static wide rounded(unsigned dt, unsigned op, wide a, wide b)
{
	uint8_t bytes[16];

	real_put(dt, bytes, real_calculate(dt, op, a, b));
	return real_get(dt, bytes);
}

static void complex_calculate(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b)
{
	unsigned part = part_type(dt), size = size_of[part];
	wide x = real_get(part, a), y = real_get(part, a + size), u = real_get(part, b), v = real_get(part, b + size);

	if (op != NIC_ELEM_PROD) {
		real_put(part, r, real_calculate(part, op, x, u));
		real_put(part, r + size, real_calculate(part, op, y, v));
		return;
	}
	real_put(part, r, real_calculate(part, NIC_ELEM_DIFF, rounded(part, op, x, u), rounded(part, op, y, v)));
	real_put(part, r + size, real_calculate(part, NIC_ELEM_SUM, rounded(part, op, x, v), rounded(part, op, y, u)));
}

static bool truth(unsigned dt, const uint8_t *a)
{
	unsigned part = part_type(dt);

	if (kind_of[dt] == 'i')
		return int_true(a, size_of[dt]);
	if (kind_of[dt] == 'c')
		return real_get(part, a) != 0 || real_get(part, a + size_of[part]) != 0;
	return real_get(dt, a) != 0;
}

static void one_or_zero(unsigned dt, uint8_t *r, bool value)
{
	memset(r, 0, size_of[dt]);
	if (kind_of[dt] == 'i')
		int_one(r, size_of[dt], value);
	else
		real_put(kind_of[dt] == 'c' ? part_type(dt) : dt, r, value);
}

/* Less, equal, greater: -1, 0, 1; neither: 2. */
static int order(unsigned dt, const uint8_t *a, const uint8_t *b)
{
	unsigned part = part_type(dt);
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

static void without_padding(unsigned dt, uint8_t *a)
{
	if (LDBL_MANT_DIG == 64 && (dt == NIC_DT_LONG_DOUBLE || dt == NIC_DT_LONG_DOUBLE_COMPLEX))
		for (unsigned i = 0; i < size_of[dt]; i += 16)
			memset(a + i + 10, 0, 6);
}

/* @return whether it changes the element. */
static bool model(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b, const uint8_t *c)
{
	unsigned size = size_of[dt];

	memcpy(r, a, size);
	switch (op) {
	case NIC_ELEM_ATOMIC_READ:
		return false;
	case NIC_ELEM_LOR:
		one_or_zero(dt, r, truth(dt, a) || truth(dt, b));
		return true;
	case NIC_ELEM_LAND:
		one_or_zero(dt, r, truth(dt, a) && truth(dt, b));
		return true;
	case NIC_ELEM_LXOR:
		one_or_zero(dt, r, truth(dt, a) != truth(dt, b));
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
		without_padding(dt, r);
		return true;
	}
}

/* ---- values -------------------------------------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint64_t random_word(void)
{
	return util_random(&seed);
}

static wide edge_real(unsigned dt)
{
	static const wide some[] = {0, 1, 2, 3, 0.5, 0.1, 1e3, 65504, 448, 57344};
	wide large = dt == NIC_DT_FLOAT ? (wide)FLT_MAX : dt == NIC_DT_DOUBLE ? (wide)DBL_MAX : (wide)LDBL_MAX;
	wide little = dt == NIC_DT_FLOAT    ? (wide)FLT_TRUE_MIN
		      : dt == NIC_DT_DOUBLE ? (wide)DBL_TRUE_MIN
					    : (wide)LDBL_TRUE_MIN;
	unsigned which = (unsigned)(random_word() % 16);

	switch (which) {
	case 10:
		return large;
	case 11:
		return little;
	case 12:
		return little * 3;
	case 13:
		return (wide)INFINITY;
	case 14:
		return (wide)NAN;
	case 15:
		return large / 2;
	default:
		return some[which];
	}
}

static void random_real(unsigned dt, uint8_t *bytes)
{
	wide w;

	switch (random_word() % 4) {
	case 0: /* of its bits; x87 has some that are no numbers */
		if (dt != NIC_DT_LONG_DOUBLE)
			for (unsigned i = 0; i < size_of[dt]; i++)
				bytes[i] = (uint8_t)random_word();
		else
			real_put(dt, bytes, (wide)(int64_t)random_word() * (wide)(int64_t)random_word());
		return;
	case 1:
		w = (wide)(int64_t)(random_word() % 2000) / 8;
		break;
	default:
		w = edge_real(dt);
		break;
	}
	real_put(dt, bytes, random_word() % 2 ? w : -w);
}

static void random_int(uint8_t *bytes, unsigned size)
{
	uint64_t kind = random_word() % 6;

	for (unsigned i = 0; i < size; i++) {
		static const uint8_t fills[] = {0, 255, 0x55, 0};

		bytes[i] = kind < 4 ? fills[kind] : (uint8_t)(random_word() & (kind == 4 ? random_word() : 255));
	}
	if (kind == 3)
		digit_set(bytes, size, size - 1, random_word() % 2 ? 0x80 : 0x7f);
	else if (kind == 0 && random_word() % 2)
		digit_set(bytes, size, 0, 1);
}

static void random_element(unsigned dt, uint8_t *bytes)
{
	unsigned size = size_of[dt], part = part_type(dt);

	if (kind_of[dt] == 'i') {
		random_int(bytes, size);
	} else if (kind_of[dt] == 'c') {
		random_real(part, bytes);
		random_real(part, bytes + size / 2);
	} else {
		random_real(dt, bytes);
	}
	if (LDBL_MANT_DIG == 64 && (dt == NIC_DT_LONG_DOUBLE || dt == NIC_DT_LONG_DOUBLE_COMPLEX) && random_word() % 2)
		for (unsigned i = 10; i < size; i += 16)
			bytes[i] = (uint8_t)random_word();
}

static bool real_same(unsigned dt, const uint8_t *a, const uint8_t *b)
{
	wide x = real_get(dt, a), y = real_get(dt, b);

	return memcmp(a, b, size_of[dt]) == 0 || (x != x && y != y);
}

/* NaNs that have been calculated may differ in what they contain; a complex product that has NaN by the formula may be infinite. */
static bool same(unsigned dt, unsigned op, const uint8_t *got, const uint8_t *expected)
{
	unsigned part = part_type(dt), size = size_of[part];

	if (memcmp(got, expected, size_of[dt]) == 0)
		return true;
	if (kind_of[dt] == 'i')
		return false;
	if (kind_of[dt] != 'c')
		return real_same(dt, got, expected);
	if (op == NIC_ELEM_PROD) {
		wide x = real_get(part, expected), y = real_get(part, expected + size);
		wide u = real_get(part, got), v = real_get(part, got + size);

		/* Annex G asks for an infinity then where a factor is infinite; see complex_products_are_those_of_annex_g. */
		if (x != x && y != y)
			return isinf((long double)u) || isinf((long double)v) || (u != u && v != v);
	}
	return real_same(part, got, expected) && real_same(part, got + size, expected + size);
}

/* ---- pairs against the model --------------------------------------------------------------------------------- */

static uint64_t operations, changes;

struct vectors {
	uint8_t target[(COUNT_MAX + 2) * ELEM_SIZE_MAX] __attribute__((aligned(64)));
	uint8_t operand[(COUNT_MAX + 1) * ELEM_SIZE_MAX], compare[(COUNT_MAX + 1) * ELEM_SIZE_MAX];
	uint8_t result[(COUNT_MAX + 1) * ELEM_SIZE_MAX];
	uint8_t before[(COUNT_MAX + 2) * ELEM_SIZE_MAX];
};

static void fill(struct vectors *v, unsigned dt, unsigned op, uint8_t *target, uint8_t *operand, uint8_t *compare,
		 unsigned count)
{
	unsigned size = size_of[dt];

	for (unsigned i = 0; i < count; i++) {
		random_element(dt, target + i * size);
		random_element(dt, operand + i * size);
		random_element(dt, compare + i * size);
		if (op != NIC_ELEM_MSWAP && random_word() % 2)
			memcpy(compare + i * size, target + i * size, size);
		if (random_word() % 8 == 0)
			memcpy(operand + i * size, target + i * size, size);
	}
	memset(v->result, 0xa5, sizeof(v->result));
}

static void check_element(unsigned dt, unsigned op, const uint8_t *before, const uint8_t *after, const uint8_t *operand,
			  const uint8_t *compare, const uint8_t *result)
{
	uint8_t expected[ELEM_SIZE_MAX], was[ELEM_SIZE_MAX];
	unsigned size = size_of[dt];
	bool changed = model(dt, op, expected, before, operand, compare);

	if (changed ? !same(dt, op, after, expected) : memcmp(after, before, size) != 0) {
		print_error("%s, operation %u:", names[dt], op);
		for (unsigned i = 0; i < size; i++)
			print_error(" %02x(%02x %02x %02x: %02x)", after[i], before[i], operand[i], compare[i],
				    expected[i]);
		fail();
	}
	memcpy(was, before, size);
	without_padding(dt, was);
	if (result)
		assert_memory_equal(result, was, size);
	operations++;
	changes += changed && memcmp(before, after, size) != 0;
}

static void check_vector(struct vectors *v, unsigned dt, unsigned op, enum nic_elem_form form)
{
	static const unsigned counts[] = {1, 1, 2, 3, 7, 64, COUNT_MAX};
	unsigned size = size_of[dt], count = counts[random_word() % 7];
	/* Vectors at any address, the target where C would have it. */
	unsigned skew = kind_of[dt] == 'c' && random_word() % 2 ? size / 2 : 0;
	uint8_t *target = v->target + 64 + skew, *operand = v->operand + random_word() % 16;
	uint8_t *compare = v->compare + random_word() % 16, *result = v->result + random_word() % 16;
	struct nic_elements e = {.op = (uint8_t)op, .datatype = (uint8_t)dt, .count = count};

	if (64 + skew + count * size + 16 > sizeof(v->target))
		count = e.count = 1;
	fill(v, dt, op, target, operand, compare, count);
	memcpy(v->before, v->target, sizeof(v->before));
	e.operand = op == NIC_ELEM_ATOMIC_READ ? NULL : operand;
	e.compare = form == NIC_ELEM_COMPARE ? compare : NULL;
	e.result = form == NIC_ELEM_BASE ? NULL : result;
	if (elem_needs_lock(dt, target)) {
		for (e.count = 1; count; count--) {
			assert_true(atomic_try_lock(target));
			elem_execute(&e, target);
			atomic_unlock(target);
			check_element(dt, op, v->before + (target - v->target), target, operand, compare, e.result);
			target += size;
			operand += size;
			compare += size;
			e.operand = e.operand ? operand : NULL;
			e.compare = e.compare ? compare : NULL;
			e.result = e.result ? (uint8_t *)e.result + size : NULL;
		}
	} else {
		elem_execute(&e, target);
		for (unsigned i = 0; i < count * size; i += size)
			check_element(dt, op, v->before + (target - v->target) + i, target + i, operand + i,
				      compare + i, e.result ? result + i : NULL);
		target += count * size;
		result += count * size;
	}
	assert_memory_equal(v->target, v->before, 64 + skew);
	assert_memory_equal(target, v->before + (target - v->target), 16);
	if (e.result && e.count != 1)
		assert_int_equal(*result, 0xa5);
}

static void pairs_agree_with_the_model(void **state)
{
	static struct vectors v;

	(void)state;
	for (unsigned i = 0; i < sizeof(v.target); i++)
		v.target[i] = (uint8_t)i;
	for (unsigned dt = 0; dt < NIC_DT_COUNT; dt++)
		for (unsigned op = 0; op < NIC_ELEM_COUNT; op++)
			for (unsigned form = 0; form < 3; form++)
				for (unsigned n = 0; n < ROUNDS && expected_valid(op, dt, form); n++)
					check_vector(&v, dt, op, (enum nic_elem_form)form);
	print_message("%lu operations, %lu changed the element\n", (unsigned long)operations, (unsigned long)changes);
	assert_true(changes > operations / 4 && changes < operations);
}

static void one(unsigned op, unsigned dt, void *target, const void *operand, const void *compare, void *result)
{
	const struct nic_elements e = {(uint8_t)op, (uint8_t)dt, 1, operand, compare, result};

	elem_execute(&e, target);
}

/* Each pair of numbers that formats of eight bits have. */
static void small_numbers_agree_one_by_one(void **state)
{
	static const unsigned some[] = {NIC_ELEM_SUM, NIC_ELEM_DIFF, NIC_ELEM_PROD,
					NIC_ELEM_MIN, NIC_ELEM_LXOR, NIC_ELEM_CSWAP_LT};

	(void)state;
	for (unsigned dt = NIC_DT_FLOAT8_E4M3; dt <= NIC_DT_FLOAT8_E5M2; dt++)
		for (unsigned k = 0; k < 6; k++)
			for (unsigned pair = 0; pair < 65536; pair++) {
				uint8_t a[ELEM_SIZE_MAX] = {(uint8_t)pair}, b[ELEM_SIZE_MAX] = {(uint8_t)(pair >> 8)};
				uint8_t is[ELEM_SIZE_MAX] = {a[0]}, expected[ELEM_SIZE_MAX] = {0};

				one(some[k], dt, is, b, b, NULL);
				model(dt, some[k], expected, a, b, b);
				if (!same(dt, some[k], is, expected)) {
					print_error("%s %u: %02x %02x: %02x, not %02x\n", names[dt], some[k], a[0],
						    b[0], is[0], expected[0]);
					fail();
				}
			}
}

/* CMPLX is not known to all compilers. */
static double _Complex number(double real, double imaginary)
{
	const double parts[2] = {real, imaginary};
	double _Complex z;

	memcpy(&z, parts, sizeof(z));
	return z;
}

static void complex_products_are_those_of_annex_g(void **state)
{
	double _Complex z, i = number(0, 1), inf = number((double)INFINITY, (double)NAN);

	(void)state;
	z = inf;
	one(NIC_ELEM_PROD, NIC_DT_DOUBLE_COMPLEX, &z, &i, NULL, NULL);
	assert_true(isinf(creal(z)) || isinf(cimag(z)));
	z = number((double)INFINITY, (double)INFINITY);
	one(NIC_ELEM_PROD, NIC_DT_DOUBLE_COMPLEX, &z, &z, NULL, NULL);
	assert_true(isinf(creal(z)) || isinf(cimag(z)));
	z = number(3, -2);
	one(NIC_ELEM_PROD, NIC_DT_DOUBLE_COMPLEX, &z, &i, NULL, NULL);
	assert_true(z == number(2, 3));
	z = number((double)NAN, 0);
	one(NIC_ELEM_PROD, NIC_DT_DOUBLE_COMPLEX, &z, &i, NULL, NULL);
	assert_true(isnan(creal(z)) || isnan(cimag(z)));
}

/* Bits of the operand arrive as they are: signs of zeroes, contents of NaNs. */
static void replaced_elements_are_the_operand_bit_by_bit(void **state)
{
	uint32_t quiet = 0x7fc12345, signaling = 0x7fa00001, minus = 0x80000000, zero = 0, f;

	(void)state;
	f = 0;
	one(NIC_ELEM_ATOMIC_WRITE, NIC_DT_FLOAT, &f, &signaling, NULL, NULL);
	assert_int_equal(f, signaling);
	one(NIC_ELEM_CSWAP_NE, NIC_DT_FLOAT, &f, &quiet, &f, NULL); /* no NaN equals itself */
	assert_int_equal(f, quiet);
	f = 0;
	one(NIC_ELEM_CSWAP, NIC_DT_FLOAT, &f, &minus, &minus, NULL); /* -0 == 0 */
	assert_int_equal(f, minus);
	one(NIC_ELEM_MAX, NIC_DT_FLOAT, &f, &zero, NULL, NULL); /* and is not less */
	assert_int_equal(f, minus);
	one(NIC_ELEM_MIN, NIC_DT_FLOAT, &f, &quiet, NULL, NULL);
	assert_int_equal(f, minus);
}

/* ---- several threads ----------------------------------------------------------------------------------------- */

struct contest {
	unsigned dt;
	uint8_t *target;
	unsigned rounds;
	uint8_t one[ELEM_SIZE_MAX];
};

static void *contestant(void *arg)
{
	const struct contest *c = arg;

	for (unsigned i = 0; i < c->rounds; i++) {
		bool locks = elem_needs_lock(c->dt, c->target);

		while (locks && !atomic_try_lock(c->target))
			;
		one(NIC_ELEM_SUM, c->dt, c->target, c->one, NULL, NULL);
		if (locks)
			atomic_unlock(c->target);
	}
	return NULL;
}

/* Sums of ones are exact, and nothing is lost. */
static void contest(unsigned dt, uint8_t *target)
{
	unsigned size = size_of[dt], most = size == 1		    ? 25
					    : dt == NIC_DT_FLOAT16  ? 500
					    : dt == NIC_DT_BFLOAT16 ? 60
								    : 4000;
	struct contest c = {.dt = dt, .target = target, .rounds = kind_of[dt] == 's' && size == 1 ? 2 : most};
	uint8_t expected[ELEM_SIZE_MAX] = {0};
	pthread_t threads[THREADS];

	memset(target, 0, size);
	one_or_zero(dt, c.one, true);
	if (kind_of[dt] == 'c') /* count in both parts */
		memcpy(c.one + size / 2, c.one, size / 2);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, contestant, &c), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS * c.rounds; i++) {
		uint8_t sum[ELEM_SIZE_MAX];

		model(dt, NIC_ELEM_SUM, sum, expected, c.one, c.one);
		memcpy(expected, sum, size);
	}
	assert_memory_equal(target, expected, size);
}

static void nothing_is_lost_between_threads(void **state)
{
	static uint8_t memory[3 * ELEM_SIZE_MAX] __attribute__((aligned(64)));

	(void)state;
	for (unsigned dt = 0; dt < NIC_DT_COUNT; dt++) {
		contest(dt, memory);
		if (kind_of[dt] == 'c')
			contest(dt, memory + size_of[dt] / 2);
	}
}

/* ---- the order of the network -------------------------------------------------------------------------------- */

static void parts_go_most_significant_byte_first(void **state)
{
	const uint32_t word[2] = {0x01020304, 0x05060708};
	const uint64_t two[2] = {0x0102030405060708, 0x1112131415161718};
	const float z[2] = {1, -2};
	uint8_t wire[ELEM_SIZE_MAX], back[ELEM_SIZE_MAX], any[ELEM_SIZE_MAX];

	(void)state;
	elem_to_wire(NIC_DT_UINT32, wire, (const uint8_t *)word, 2);
	assert_memory_equal(wire, "\1\2\3\4\5\6\7\10", 8);
	elem_to_wire(NIC_DT_FLOAT_COMPLEX, wire, (const uint8_t *)z, 1);
	assert_memory_equal(wire, "\x3f\x80\0\0\xc0\0\0\0", 8);
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
		elem_to_wire(NIC_DT_INT128, wire, (const uint8_t *)two, 1);
		assert_memory_equal(wire, "\x11\x12\x13\x14\x15\x16\x17\x18\1\2\3\4\5\6\7\10", 16);
	}
	for (unsigned dt = 0; dt < NIC_DT_COUNT; dt++) {
		for (unsigned i = 0; i < sizeof(any); i++)
			any[i] = (uint8_t)random_word();
		elem_to_wire(dt, wire, any, 1);
		elem_from_wire(dt, back, wire, 1);
		assert_memory_equal(back, any, size_of[dt]);
		elem_from_wire(dt, wire, wire, 1);
		assert_memory_equal(wire, any, size_of[dt]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_are_those_of_fi_atomic),
		cmocka_unit_test(pairs_agree_with_the_model),
		cmocka_unit_test(small_numbers_agree_one_by_one),
		cmocka_unit_test(complex_products_are_those_of_annex_g),
		cmocka_unit_test(replaced_elements_are_the_operand_bit_by_bit),
		cmocka_unit_test(nothing_is_lost_between_threads),
		cmocka_unit_test(parts_go_most_significant_byte_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
