/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_elem.c - nic/mem/elem.c: every pair of operation and datatype compared with a model (elem_model.h), for edge and
 * random values, several counts and all alignments allowed; several threads on one element; network byte order.
 */
#include <complex.h>
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
#include "elem_model.h"
#include "sanitizer.h"
#include "wire_util.h"

#if defined(__SANITIZE_ADDRESS__) || TEST_TSAN || defined(TEST_EMULATED)
#define ROUNDS 60
#else
#define ROUNDS 600 /* vectors tested for each operation, datatype and form */
#endif
#define COUNT_MAX 70
#define THREADS	  4

/* ---- valid pairs of operation and datatype ------------------------------------------------------------------- */

static void pairs_are_those_of_fi_atomic(void **state)
{
	unsigned pairs[3] = {0}, of_1_17[3] = {0};

	(void)state;
	for (unsigned form = 0; form < 3; form++)
		for (unsigned op = 0; op < 256; op++)
			for (unsigned dt = 0; dt < 256; dt++) {
				bool expected = model_valid(op, dt, form);

				assert_int_equal(nic_elem_valid(op, dt, (enum nic_elem_form)form), expected);
				pairs[form] += expected;
				of_1_17[form] += expected && op <= NIC_ELEM_MSWAP && dt <= NIC_DT_UINT128;
			}
	assert_int_equal(of_1_17[NIC_ELEM_BASE], 152);
	assert_int_equal(of_1_17[NIC_ELEM_FETCH], 168);
	assert_int_equal(of_1_17[NIC_ELEM_COMPARE], 94);
	print_message("%u base, %u fetch, %u compare pairs\n", pairs[0], pairs[1], pairs[2]);
	for (unsigned dt = 0; dt < 256; dt++)
		assert_int_equal(nic_elem_size(dt), model_size(dt));
	assert_false(nic_elem_valid(0, 0, (enum nic_elem_form)3));
}

/* ---- each pair compared with the model ----------------------------------------------------------------------- */

static uint64_t seed = 1, operations, changes;

struct vectors {
	uint8_t target[(COUNT_MAX + 2) * ELEM_SIZE_MAX] __attribute__((aligned(64)));
	uint8_t operand[(COUNT_MAX + 1) * ELEM_SIZE_MAX], compare[(COUNT_MAX + 1) * ELEM_SIZE_MAX];
	uint8_t result[(COUNT_MAX + 1) * ELEM_SIZE_MAX];
	uint8_t before[(COUNT_MAX + 2) * ELEM_SIZE_MAX];
};

static void fill(struct vectors *v, unsigned dt, unsigned op, uint8_t *target, uint8_t *operand, uint8_t *compare,
		 unsigned count)
{
	unsigned size = model_size(dt);

	for (unsigned i = 0; i < count; i++) {
		model_random(&seed, dt, target + i * size);
		model_random(&seed, dt, operand + i * size);
		model_random(&seed, dt, compare + i * size);
		if (op != NIC_ELEM_MSWAP && util_random(&seed) % 2)
			memcpy(compare + i * size, target + i * size, size);
		if (util_random(&seed) % 8 == 0)
			memcpy(operand + i * size, target + i * size, size);
	}
	memset(v->result, 0xa5, sizeof(v->result));
}

static void check_element(unsigned dt, unsigned op, const uint8_t *before, const uint8_t *after, const uint8_t *operand,
			  const uint8_t *compare, const uint8_t *result)
{
	uint8_t expected[ELEM_SIZE_MAX], was[ELEM_SIZE_MAX];
	unsigned size = model_size(dt);
	bool changed = model_execute(dt, op, expected, before, operand, compare);

	if (changed ? !model_same(dt, op, after, expected) : memcmp(after, before, size) != 0) {
		print_error("%s, operation %u:", model_name(dt), op);
		for (unsigned i = 0; i < size; i++)
			print_error(" %02x(%02x %02x %02x: %02x)", after[i], before[i], operand[i], compare[i],
				    expected[i]);
		fail();
	}
	memcpy(was, before, size);
	model_clean(dt, was);
	if (result)
		assert_memory_equal(result, was, size);
	operations++;
	changes += changed && memcmp(before, after, size) != 0;
}

static void check_vector(struct vectors *v, unsigned dt, unsigned op, enum nic_elem_form form)
{
	static const unsigned counts[] = {1, 1, 2, 3, 7, 64, COUNT_MAX};
	unsigned size = model_size(dt), count = counts[util_random(&seed) % 7];
	/* Operands and results can be at any address; the target is aligned as C requires. */
	unsigned skew = model_kind(dt) == 'c' && util_random(&seed) % 2 ? size / 2 : 0;
	uint8_t *target = v->target + 64 + skew, *operand = v->operand + util_random(&seed) % 16;
	uint8_t *compare = v->compare + util_random(&seed) % 16, *result = v->result + util_random(&seed) % 16;
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
				for (unsigned n = 0; n < ROUNDS && model_valid(op, dt, form); n++)
					check_vector(&v, dt, op, (enum nic_elem_form)form);
	print_message("%lu operations, %lu changed the element\n", (unsigned long)operations, (unsigned long)changes);
	assert_true(changes > operations / 4 && changes < operations);
}

static void one(unsigned op, unsigned dt, void *target, const void *operand, const void *compare, void *result)
{
	const struct nic_elements e = {(uint8_t)op, (uint8_t)dt, 1, operand, compare, result};

	elem_execute(&e, target);
}

/* Test every pair of numbers of the 8-bit formats. */
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
				model_execute(dt, some[k], expected, a, b, b);
				if (!model_same(dt, some[k], is, expected)) {
					print_error("%s %u: %02x %02x: %02x, not %02x\n", model_name(dt), some[k], a[0],
						    b[0], is[0], expected[0]);
					fail();
				}
			}
}

/* Does the same as CMPLX, which not all compilers have. */
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

/* The bits of the operand are stored unchanged, even the sign of a zero or the contents of a NaN. */
static void replaced_elements_are_the_operand_bit_by_bit(void **state)
{
	uint32_t quiet = 0x7fc12345, signaling = 0x7fa00001, minus = 0x80000000, zero = 0, f;

	(void)state;
	f = 0;
	one(NIC_ELEM_ATOMIC_WRITE, NIC_DT_FLOAT, &f, &signaling, NULL, NULL);
	assert_int_equal(f, signaling);
	one(NIC_ELEM_CSWAP_NE, NIC_DT_FLOAT, &f, &quiet, &f, NULL); /* swaps, because no NaN equals itself */
	assert_int_equal(f, quiet);
	f = 0;
	one(NIC_ELEM_CSWAP, NIC_DT_FLOAT, &f, &minus, &minus, NULL); /* swaps, because -0 == 0 */
	assert_int_equal(f, minus);
	one(NIC_ELEM_MAX, NIC_DT_FLOAT, &f, &zero, NULL, NULL); /* does nothing, because -0 is not less than 0 */
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

/* Several threads add ones to one element, with sums that are exact in every datatype: no addition is lost. */
static void contest(unsigned dt, uint8_t *target)
{
	unsigned size = model_size(dt), most = size == 1	       ? 25
					       : dt == NIC_DT_FLOAT16  ? 500
					       : dt == NIC_DT_BFLOAT16 ? 60
								       : 4000;
	struct contest c = {.dt = dt, .target = target, .rounds = model_kind(dt) == 's' && size == 1 ? 2 : most};
	uint8_t expected[ELEM_SIZE_MAX] = {0};
	pthread_t threads[THREADS];

	memset(target, 0, size);
	model_put_bool(dt, c.one, true);
	if (model_kind(dt) == 'c') /* add one to both parts */
		memcpy(c.one + size / 2, c.one, size / 2);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, contestant, &c), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS * c.rounds; i++) {
		uint8_t sum[ELEM_SIZE_MAX];

		model_execute(dt, NIC_ELEM_SUM, sum, expected, c.one, c.one);
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
		if (model_kind(dt) == 'c')
			contest(dt, memory + model_size(dt) / 2);
	}
}

/* ---- network byte order -------------------------------------------------------------------------------------- */

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
			any[i] = (uint8_t)util_random(&seed);
		elem_to_wire(dt, wire, any, 1);
		elem_from_wire(dt, back, wire, 1);
		assert_memory_equal(back, any, model_size(dt));
		elem_from_wire(dt, wire, wire, 1);
		assert_memory_equal(wire, any, model_size(dt));
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
