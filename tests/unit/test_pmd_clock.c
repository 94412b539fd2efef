/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_clock.c - the engine's clock, with a counter and a kernel clock that the test moves. Whatever the counter
 * does, the engine's time follows the kernel's and never goes back. The process's real clock is not moved: all tests
 * but the last use a clock object of their own.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "clock.h"

#define HOUR_NS	 3600000000000u
#define MS_NS	 1000000u
#define START_NS (5 * HOUR_NS)
#define CLOSE_NS 300000u /* how far the clock may differ from the kernel's */

static struct pmd_clock clock_of_test;
static uint64_t counts, kernel_ns; /* atomic */
static unsigned kernel_reads;

/** Let `ns` pass on both clocks: the counter runs at 2.5 counts per nanosecond. */
static void pass(uint64_t ns)
{
	__atomic_fetch_add(&kernel_ns, ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&counts, ns * 5 / 2, __ATOMIC_RELAXED);
}

static uint64_t read_counts(void)
{
	return __atomic_load_n(&counts, __ATOMIC_RELAXED);
}

static uint64_t read_kernel(void)
{
	__atomic_fetch_add(&kernel_reads, 1, __ATOMIC_RELAXED);
	return __atomic_load_n(&kernel_ns, __ATOMIC_RELAXED);
}

/** pmd_now_ns(), but for the clock under test. */
static uint64_t now(void)
{
	static _Thread_local uint64_t last;
	uint64_t ns;

	if (!pmd_clock_fast(&clock_of_test, read_counts(), &ns))
		ns = pmd_clock_slow(&clock_of_test);
	return last = ns > last ? ns : last;
}

static bool is_close(uint64_t ns)
{
	return ns < kernel_ns + CLOSE_NS && ns + CLOSE_NS > kernel_ns;
}

/** Start a clock and let it measure its counter's rate. The kernel's time goes on from where the previous test left it,
 * because it must never go back. */
static void start(void)
{
	kernel_ns += START_NS;
	counts = 1000 * HOUR_NS;
	pmd_clock_init(&clock_of_test, &(struct pmd_clock_source){read_counts, read_kernel});
	for (unsigned i = 0; i < 300; i++) {
		pass(MS_NS);
		assert_true(is_close(now()));
	}
	assert_true(clock_of_test.ns_per_count != 0);
}

/** For `ns`, check that the clock follows the kernel's and never goes back. Most steps last 50 microseconds, a few 23
 * milliseconds. */
static void expect_time(uint64_t ns)
{
	for (uint64_t passed = 0, last = now(), t; passed < ns; last = t) {
		uint64_t step = passed % 7 == 0 ? 23 * MS_NS + 1 : 50021;

		pass(step);
		passed += step;
		t = now();
		assert_true(t >= last);
		assert_true(is_close(t));
	}
}

/** Whether the clock works normally: it reads the counter instead of the kernel's clock. */
static bool by_counter(void)
{
	unsigned before = kernel_reads;

	now(); /* compares the two clocks, if that is due */
	before = kernel_reads;
	pass(1000);
	now();
	return kernel_reads == before;
}

static void clock__reads_the_kernel_clock_less_than_1000_times_a_second(void **state)
{
	unsigned before;

	(void)state;
	start();
	before = kernel_reads;
	for (unsigned i = 0; i < 1000000; i++) {
		pass(1000);
		assert_true(is_close(now()));
	}
	assert_true(kernel_reads - before < 1000); /* kernel reads in one second */
}

static void clock__a_counter_that_goes_back_an_hour_is_found_at_once(void **state)
{
	(void)state;
	start();
	counts -= 5 * HOUR_NS / 2;
	expect_time(HOUR_NS / 60);
	assert_true(by_counter());
	counts = 17; /* as on a machine that was suspended */
	expect_time(HOUR_NS / 60);
	assert_true(by_counter());
}

static void clock__time_does_not_go_back_with_a_counter_that_passed_its_tie(void **state)
{
	uint64_t before, far;

	(void)state;
	start();
	pass(10 * MS_NS);
	now();
	far = counts + 9 * MS_NS * 5 / 2;
	pass(9 * MS_NS);
	before = now();
	counts = far - 8 * MS_NS * 5 / 2;
	for (unsigned i = 0; i < 100; i++) {
		pass(100000);
		assert_true(now() >= before);
	}
	pass(10 * MS_NS);
	expect_time(HOUR_NS / 60);
}

static void clock__a_counter_that_jumps_ahead_an_hour_is_found_at_once(void **state)
{
	(void)state;
	start();
	counts += 5 * HOUR_NS / 2;
	expect_time(HOUR_NS / 60);
	assert_true(by_counter());
}

static void clock__catches_up_after_the_counter_stood_still(void **state)
{
	(void)state;
	start();
	kernel_ns += HOUR_NS / 6;
	now();
	pass(11 * MS_NS); /* longer than a tie (a comparison with the kernel's clock) stays valid */
	expect_time(HOUR_NS / 60);
	assert_true(by_counter());
}

/** The counter has stopped, so the latest tie (comparison of the counter with the kernel's clock) never expires.
 * Threads that slept by the kernel's clock compare the two and notice that. */
static void clock__a_permanently_stopped_counter_is_abandoned(void **state)
{
	(void)state;
	start();
	for (unsigned i = 0; i < 100; i++) {
		kernel_ns += 10 * MS_NS;
		pmd_clock_tie(&clock_of_test); /* as pmd_clock_check() does */
		assert_true(now() == kernel_ns);
	}
	assert_false(by_counter());
}

static void clock__a_rate_that_is_off_by_1_percent_is_mended(void **state)
{
	(void)state;
	for (int sign = -1; sign <= 1; sign += 2) {
		uint64_t last, expected;

		start();
		last = now();
		/* Until the next measurement, time is off by 1% between two comparisons of the clocks. Afterwards it is
		 * exact. */
		for (unsigned i = 0; i < 2000; i++) {
			kernel_ns += 500000;
			counts += 1250000 + (uint64_t)(sign * 12500);
			assert_true(now() >= last);
			last = now();
			assert_true(is_close(last));
		}
		expected = (((uint64_t)500000 << 32) / (1250000 + (uint64_t)(sign * 12500)));
		assert_true(clock_of_test.ns_per_count / 1000 == expected / 1000);
		assert_true(by_counter());
	}
}

static void clock__a_counter_that_repeatedly_disagrees_is_abandoned(void **state)
{
	(void)state;
	start();
	for (unsigned i = 0; i < 50; i++) {
		counts += 40 * MS_NS * (i % 3 + 1);
		expect_time(200 * MS_NS);
	}
	assert_false(by_counter());
	expect_time(HOUR_NS);
	assert_false(by_counter());
}

static void clock__a_counter_that_jumps_once_an_hour_is_kept(void **state)
{
	(void)state;
	start();
	for (unsigned i = 0; i < 50; i++) {
		counts = i % 2 ? 17 : counts * 2;
		kernel_ns += HOUR_NS;
		expect_time(500 * MS_NS);
		assert_true(by_counter());
	}
}

static void clock__a_tie_in_the_middle_of_a_read_is_noticed(void **state)
{
	uint64_t early, ns;

	(void)state;
	start();
	early = counts;
	pass(1000);
	pmd_clock_tie(&clock_of_test);
	assert_false(pmd_clock_fast(&clock_of_test, early, &ns)); /* a counter value from before the last tie */
	assert_true(pmd_clock_fast(&clock_of_test, counts, &ns));
	clock_of_test.seq++; /* as if another thread were writing a tie */
	assert_false(pmd_clock_fast(&clock_of_test, counts, &ns));
	clock_of_test.seq++;
}

static void clock__readers_do_not_wait_for_a_thread_making_a_tie(void **state)
{
	(void)state;
	start();
	clock_of_test.tying = true; /* another thread lost the CPU while comparing the clocks */
	for (unsigned i = 0; i < 100; i++) {
		pass(MS_NS);
		assert_true(is_close(now()));
	}
	clock_of_test.tying = false;
	expect_time(HOUR_NS / 60);
}

/* ---- several threads ---------------------------------------------------------------------------------------- */

static bool over; /* atomic */

static void *reader(void *arg)
{
	uint64_t last = 0, *wrong = arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		uint64_t before = read_kernel(), ns = now();

		*wrong += ns < last || ns + CLOSE_NS < before || ns > read_kernel() + CLOSE_NS;
		last = ns;
	}
	return NULL;
}

static void clock__concurrent_readers_see_correct_time_during_ties_and_jumps(void **state)
{
	pthread_t threads[3];
	uint64_t wrong[3] = {0};

	(void)state;
	start();
	__atomic_store_n(&over, false, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &wrong[i]), 0);
	for (unsigned i = 0; i < 200000; i++) {
		/* Jump back to where the counter has never been: a reader that lost the CPU after reading the counter
		 * must not meet a tie to which its value belongs again. */
		if (i % 60000 == 30000)
			__atomic_store_n(&counts, (900 - i / 600) * HOUR_NS, __ATOMIC_RELAXED);
		/* Advance the counter first: in between, the clock is a little ahead of the kernel's, not behind. */
		__atomic_fetch_add(&counts, 25000, __ATOMIC_RELAXED);
		__atomic_fetch_add(&kernel_ns, 10000, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(wrong[i], 0);
	}
}

static void clock__the_process_clock_follows_the_kernel_clock(void **state)
{
	uint64_t before, ns, last = 0;

	(void)state;
	pmd_clock_start();
	for (unsigned i = 0; i < 200000; i++) {
		before = pmd_clock_monotonic_ns();
		ns = pmd_clock_steady_ns();
		assert_true(ns >= last);
		last = ns;
		assert_true(ns + MS_NS > before);
		assert_true(ns < pmd_clock_monotonic_ns() + MS_NS);
		if (i == 100000)
			pmd_clock_forked();
	}
	assert_int_equal(pmd_clock_age(5, 7), 0);
	assert_int_equal(pmd_clock_age(7, 5), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock__reads_the_kernel_clock_less_than_1000_times_a_second),
		cmocka_unit_test(clock__a_counter_that_goes_back_an_hour_is_found_at_once),
		cmocka_unit_test(clock__time_does_not_go_back_with_a_counter_that_passed_its_tie),
		cmocka_unit_test(clock__a_counter_that_jumps_ahead_an_hour_is_found_at_once),
		cmocka_unit_test(clock__catches_up_after_the_counter_stood_still),
		cmocka_unit_test(clock__a_permanently_stopped_counter_is_abandoned),
		cmocka_unit_test(clock__a_rate_that_is_off_by_1_percent_is_mended),
		cmocka_unit_test(clock__a_counter_that_repeatedly_disagrees_is_abandoned),
		cmocka_unit_test(clock__a_counter_that_jumps_once_an_hour_is_kept),
		cmocka_unit_test(clock__a_tie_in_the_middle_of_a_read_is_noticed),
		cmocka_unit_test(clock__readers_do_not_wait_for_a_thread_making_a_tie),
		cmocka_unit_test(clock__concurrent_readers_see_correct_time_during_ties_and_jumps),
		cmocka_unit_test(clock__the_process_clock_follows_the_kernel_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
