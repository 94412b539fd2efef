/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_settings.c - what is taken for a mistyped setting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

static void mistyped_ones_are_told(void **state)
{
	static const char *const pairs[][2] = {
		{"UROCE_DEVICE", "DEVICES"},
		{"UROCE_DEVICE=127.0.0.1", "DEVICES"},
		{"UROCE_RINGS=off", "RING"},
		{"UROCE_MUT=1024", "MTU"},
		{"UROCE_ring", NULL},
		{"UROCE_PROGRES", "PROGRESS"},
		{"UROCE_ONECOPY=off", "ONE_COPY"},
		{"UROCE_ACK_BACKOF", "ACK_BACKOFF"},
		{"UROCE_REAL_LIBVERBS", "REAL_LIBIBVERBS"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const char *meant = pmd_setting_meant(pairs[i][0]);

		if (pairs[i][1]) {
			assert_non_null(meant);
			assert_string_equal(meant, pairs[i][1]);
		} else {
			assert_null(meant);
		}
	}
}

static void settings_and_other_variables_are_not(void **state)
{
	static const char *const good[] = {
		"UROCE_DEVICES=127.0.0.1",
		"UROCE_RING",
		"UROCE_KEY=",
		"UROCE_TEST_POINT=x",
		"UROCE_IMAGE=uroce",
		"UROCE_",
		"UROCE_=x",
		"UROCE_TOLD=UROCE_RINGS",
		"PATH=/bin",
		"",
		"UROCE_RI\033NG=x",
		"UROCE_REAL_LIBIBVERBSREAL_LIBIBVERBSREAL_LIBIBVERBS",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(pmd_setting_meant(good[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistyped_ones_are_told),
		cmocka_unit_test(settings_and_other_variables_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
