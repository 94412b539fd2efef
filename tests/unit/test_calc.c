/* SPDX-License-Identifier: BSD-3-Clause */
/* test_calc.c - nic/mem/calc.c: which calculations there are, and their results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "calc.h"
#include "wire.h"

#define MOST 4

struct operand {
	uint64_t value, place;
};

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static struct operand reduce(uint32_t op, uint32_t type, const struct operand *in, uint32_t n)
{
	uint8_t operands[MOST * CALC_SIZE], result[CALC_SIZE];

	for (uint32_t i = 0; i < n; i++) {
		wire_put64(operands + i * CALC_SIZE, in[i].value);
		wire_put64(operands + i * CALC_SIZE + 8, in[i].place);
	}
	calc_reduce(op, type, operands, n, result);
	return (struct operand){wire_get64(result), wire_get64(result + 8)};
}

static uint64_t of_values(uint32_t op, uint32_t type, uint64_t a, uint64_t b, uint64_t c)
{
	const struct operand in[] = {{a, 7}, {b, 8}, {c, 9}};
	struct operand out = reduce(op, type, in, 3);

	assert_int_equal(out.place, 0);
	return out.value;
}

static void calc__valid_operations_of_each_type(void **state)
{
	const uint32_t bitwise_and_add =
		1u << NIC_CALC_ADD | 1u << NIC_CALC_BAND | 1u << NIC_CALC_BXOR | 1u << NIC_CALC_BOR;
	const uint32_t ops[] = {bitwise_and_add, bitwise_and_add | 1u << NIC_CALC_MAXLOC, bitwise_and_add, 0, 0};

	(void)state;
	for (uint32_t type = 0; type < 5; type++)
		for (uint32_t op = 0; op < 32; op++)
			assert_int_equal(nic_calc_valid(op, type), ops[type] >> op & 1);
	assert_false(nic_calc_valid(UINT32_MAX, NIC_CALC_UINT));
	assert_false(nic_calc_valid(NIC_CALC_ADD, UINT32_MAX));
}

static void calc__integers(void **state)
{
	const uint64_t a = 0xf0f0f0f0f0f0f0f0, b = 0xff00ff00ff00ff00, c = 0x0123456789abcdef;

	(void)state;
	for (uint32_t type = NIC_CALC_INT; type <= NIC_CALC_UINT; type++) {
		assert_int_equal(of_values(NIC_CALC_ADD, type, a, b, c), a + b + c);
		assert_int_equal(of_values(NIC_CALC_ADD, type, UINT64_MAX, 3, 5), 7);
		assert_int_equal(of_values(NIC_CALC_BAND, type, a, b, c), a & b & c);
		assert_int_equal(of_values(NIC_CALC_BOR, type, a, b, c), a | b | c);
		assert_int_equal(of_values(NIC_CALC_BXOR, type, a, b, c), a ^ b ^ c);
	}
}

static void calc__doubles(void **state)
{
	const uint64_t a = bits_of(1e300), b = bits_of(0.5), c = bits_of(-1e300);

	(void)state;
	assert_int_equal(of_values(NIC_CALC_ADD, NIC_CALC_FLOAT, bits_of(1.25), bits_of(-3.5), bits_of(0.75)),
			 bits_of(-1.5));
	/* The sum of floating-point operands is computed in list order. */
	assert_int_equal(of_values(NIC_CALC_ADD, NIC_CALC_FLOAT, a, b, c), bits_of(0));
	assert_int_equal(of_values(NIC_CALC_ADD, NIC_CALC_FLOAT, a, c, b), b);
	assert_int_equal(of_values(NIC_CALC_BXOR, NIC_CALC_FLOAT, a, b, c), a ^ b ^ c);
	assert_int_equal(of_values(NIC_CALC_BAND, NIC_CALC_FLOAT, a, b, c), a & b & c);
	assert_int_equal(of_values(NIC_CALC_BOR, NIC_CALC_FLOAT, a, b, c), a | b | c);
}

static void calc__maxloc_returns_the_maximum_and_its_lowest_location(void **state)
{
	const struct operand in[] = {{5, 1}, {1ull << 63, 40}, {1ull << 63, 30}, {1ull << 63, 50}};
	struct operand out;

	(void)state;
	out = reduce(NIC_CALC_MAXLOC, NIC_CALC_UINT, in, 2);
	assert_int_equal(out.value, 1ull << 63);
	assert_int_equal(out.place, 40);
	out = reduce(NIC_CALC_MAXLOC, NIC_CALC_UINT, in, 4);
	assert_int_equal(out.value, 1ull << 63);
	assert_int_equal(out.place, 30); /* of equal values, the lowest place */
}

static void calc__one_operand_is_returned_unchanged(void **state)
{
	const struct operand in = {0x0102030405060708, 3};
	struct operand out;

	(void)state;
	for (uint32_t op = 0; op < NIC_CALC_OPS; op++) {
		out = reduce(op, NIC_CALC_UINT, &in, 1);
		assert_int_equal(out.value, in.value);
		assert_int_equal(out.place, op == NIC_CALC_MAXLOC ? in.place : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calc__valid_operations_of_each_type),
		cmocka_unit_test(calc__integers),
		cmocka_unit_test(calc__doubles),
		cmocka_unit_test(calc__maxloc_returns_the_maximum_and_its_lowest_location),
		cmocka_unit_test(calc__one_operand_is_returned_unchanged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
