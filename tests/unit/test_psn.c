/* SPDX-License-Identifier: BSD-3-Clause */
/* test_psn.c - 24-bit serial arithmetic of packet sequence numbers. */
#include "psn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void psn__RT_15_addition_wraps_at_24_bits(void **state)
{
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0xfffff0, 0x20), 0x10);
	assert_int_equal(psn_add(0, PSN_WINDOW_MAX), 0x800000);
	assert_int_equal(psn_add(5, 0), 5);
	assert_int_equal(psn_add(5, 0u - 6u), 0xffffff); /* a negative addend */
}

static void psn__RT_15_difference_is_signed_across_the_wrap(void **state)
{
	assert_int_equal(psn_diff(0, 0xffffff), 1);
	assert_int_equal(psn_diff(0xffffff, 0), -1);
	assert_int_equal(psn_diff(0x10, 0xfffff0), 0x20);
	assert_int_equal(psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(psn_diff(0x123456, 0x123456), 0);
}

static void psn__RP_08_half_the_space_away_is_behind_from_either_side(void **state)
{
	assert_int_equal(psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(psn_diff(0, 0x800000), -0x800000);
	for (uint32_t base = 0; base <= PSN_MASK; base += 0x10101)
		assert_int_equal(psn_diff(psn_add(base, PSN_WINDOW_MAX), base), -0x800000);
}

static void psn__difference_undoes_addition_everywhere(void **state)
{
	static const uint32_t bases[] = {0, 1, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff, 0x5a5a5a};

	for (unsigned i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
		for (int32_t n = -0x800000; n < 0x800000; n += 0x3fd)
			assert_int_equal(psn_diff(psn_add(bases[i], (uint32_t)n), bases[i]), n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(psn__RT_15_addition_wraps_at_24_bits),
		cmocka_unit_test(psn__RT_15_difference_is_signed_across_the_wrap),
		cmocka_unit_test(psn__RP_08_half_the_space_away_is_behind_from_either_side),
		cmocka_unit_test(psn__difference_undoes_addition_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
