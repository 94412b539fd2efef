/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_idle_server.c - the serving thread: when it spins, when it lets packets gather, and that it spins or gathers
 * less and less often while that does not pay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "idle.h"

#define LONG_NS (IDLE_SHORT_NS + 1)

/** Repeat sleeps of `ns` that each end with one packet until the thread spins. @return the number of sleeps; most + 1
 * if it never spins. */
static unsigned sleeps_until_spin(struct idle_server *s, uint64_t ns, unsigned most, uint64_t *now_ns)
{
	for (unsigned n = 1; n <= most; n++) {
		s->slept_ns = *now_ns;
		*now_ns += ns;
		if (idle_server_spins(s, 1, *now_ns))
			return n;
	}
	return most + 1;
}

/** A spin during which no packet arrives. */
static void spin_in_vain(struct idle_server *s, uint64_t *now_ns)
{
	assert_true(idle_server_spins(s, 0, *now_ns + IDLE_SPIN_NS - 1));
	*now_ns += IDLE_SPIN_NS;
	assert_false(idle_server_spins(s, 0, *now_ns));
}

static void idle_server__spins_after_short_sleeps_only(void **state)
{
	uint64_t now_ns = 1000000;
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	assert_int_equal(sleeps_until_spin(&s, LONG_NS, 10000, &now_ns), 10001);
	assert_int_equal(sleeps_until_spin(&s, IDLE_SHORT_NS - 1, 10000, &now_ns), IDLE_SPIN_AFTER);
	/* A long sleep resets the count of short ones. */
	idle_server_init(&s);
	sleeps_until_spin(&s, 1000, IDLE_SPIN_AFTER - 1, &now_ns);
	sleeps_until_spin(&s, LONG_NS, 1, &now_ns);
	assert_int_equal(sleeps_until_spin(&s, 1000, 10000, &now_ns), IDLE_SPIN_AFTER);
}

/** An occasional long sleep, due to a kernel tick or another thread's turn on the CPU, does not prevent spinning. */
static void idle_server__an_occasional_long_sleep_does_not_prevent_spinning(void **state)
{
	uint64_t now_ns = 1000000;
	struct idle_server s;
	unsigned n = 0;

	(void)state;
	idle_server_init(&s);
	while (s.spin.after < IDLE_SPIN_MOST) {
		sleeps_until_spin(&s, 1000, 10000, &now_ns);
		spin_in_vain(&s, &now_ns);
	}
	while (sleeps_until_spin(&s, 1000, 50, &now_ns) == 51 && ++n < 1000)
		sleeps_until_spin(&s, LONG_NS, 1, &now_ns);
	assert_in_range(n, IDLE_SPIN_MOST / 50, IDLE_SPIN_MOST / 40);
}

static void idle_server__spins_as_long_as_packets_come(void **state)
{
	uint64_t now_ns = 1000000;
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	sleeps_until_spin(&s, 1000, 100, &now_ns);
	for (unsigned i = 0; i < 1000; i++) {
		now_ns += IDLE_SPIN_NS - 1;
		assert_true(idle_server_spins(&s, 0, now_ns));
		assert_true(idle_server_spins(&s, 1, now_ns));
	}
	spin_in_vain(&s, &now_ns);
}

/** Where spinning keeps the sender from the CPU, each vain spin doubles the number of short sleeps before the next. */
static void idle_server__vain_spins_double_the_sleeps_before_the_next_spin(void **state)
{
	uint64_t now_ns = 1000000;
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	for (unsigned after = IDLE_SPIN_AFTER; after < IDLE_SPIN_MOST; after *= 2) {
		assert_int_equal(sleeps_until_spin(&s, 1000, 10000, &now_ns), after);
		spin_in_vain(&s, &now_ns);
	}
	assert_int_equal(sleeps_until_spin(&s, 1000, 10000, &now_ns), IDLE_SPIN_MOST);
	spin_in_vain(&s, &now_ns);
	assert_int_equal(sleeps_until_spin(&s, 1000, 10000, &now_ns), IDLE_SPIN_MOST);
	/* After a spin that received a packet, the next spins come early again. */
	assert_true(idle_server_spins(&s, 1, now_ns));
	spin_in_vain(&s, &now_ns);
	assert_int_equal(sleeps_until_spin(&s, 1000, 10000, &now_ns), 2 * IDLE_SPIN_AFTER);
}

static void idle_server__a_burst_starts_a_spin_unless_the_last_was_in_vain(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	assert_true(idle_server_spins(&s, IDLE_BULK, now_ns));
	spin_in_vain(&s, &now_ns);
	now_ns += LONG_NS;
	assert_false(idle_server_spins(&s, IDLE_BULK, now_ns));
	assert_true(idle_server_spins(&s, IDLE_BULK, now_ns));
}

/** A wake-up that brings `packets`. @return whether the sleep after it is to let packets gather. */
static bool wake(struct idle_server *s, unsigned packets)
{
	s->brought += packets;
	return idle_server_gathers(s);
}

/** @return the number of wake-ups with one packet each until the thread lets packets gather. */
static unsigned wakes_until_gather(struct idle_server *s)
{
	unsigned n = 1;

	while (n < 10000 && !wake(s, 1))
		n++;
	return n;
}

static void idle_server__gathers_after_thin_wakes_as_long_as_it_pays(void **state)
{
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(wake(&s, IDLE_THIN + 1));
	assert_int_equal(wakes_until_gather(&s), IDLE_GATHER_AFTER);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(wake(&s, IDLE_WORTH));
	assert_false(wake(&s, IDLE_WORTH - 1));
	assert_int_equal(wakes_until_gather(&s), 2 * IDLE_GATHER_AFTER);
}

/** Ping-pong: no second packet arrives before the first is answered, so gathering only adds delay and is tried ever
 * less often. */
static void idle_server__vain_gathering_is_tried_less_and_less_often(void **state)
{
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	for (unsigned after = IDLE_GATHER_AFTER; after <= IDLE_GATHER_MOST; after *= 2) {
		assert_int_equal(wakes_until_gather(&s), after);
		assert_false(wake(&s, 1));
	}
	assert_int_equal(wakes_until_gather(&s), IDLE_GATHER_MOST);
}

/** A wake-up without packets, by a timer or a doorbell, does not count as one with few packets. */
static void idle_server__a_wake_without_packets_does_not_count_as_thin(void **state)
{
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(wake(&s, 0));
	for (unsigned i = 0; i < IDLE_GATHER_AFTER - 1; i++) {
		assert_false(wake(&s, 1));
		assert_false(wake(&s, 0));
	}
	assert_true(wake(&s, 1));
}

/** Packets that arrive during a spin say nothing about whether gathering pays. */
static void idle_server__packets_during_a_spin_do_not_affect_gathering(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct idle_server s;

	(void)state;
	idle_server_init(&s);
	wakes_until_gather(&s);
	assert_true(idle_server_spins(&s, IDLE_BULK, now_ns));
	for (unsigned i = 0; i < 100; i++)
		assert_true(idle_server_spins(&s, 1, now_ns));
	spin_in_vain(&s, &now_ns);
	assert_false(idle_server_gathers(&s));
	assert_int_equal(wakes_until_gather(&s), IDLE_GATHER_AFTER);
}

/** Packets arrive as fast as they are processed: no wake-ups are needed, and the thread soon spins. */
static void idle_server__an_averted_sleep_counts_as_short_but_not_as_thin(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct idle_server s;
	unsigned n = 0;

	(void)state;
	idle_server_init(&s);
	while (!idle_server_spins(&s, 1, now_ns)) {
		assert_false(idle_server_gathers(&s));
		idle_server_averted(&s, now_ns);
		now_ns += 1000;
		n++;
	}
	assert_in_range(n, 1, IDLE_SPIN_AFTER);
	assert_int_equal(s.thin, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_server__spins_after_short_sleeps_only),
		cmocka_unit_test(idle_server__an_occasional_long_sleep_does_not_prevent_spinning),
		cmocka_unit_test(idle_server__spins_as_long_as_packets_come),
		cmocka_unit_test(idle_server__vain_spins_double_the_sleeps_before_the_next_spin),
		cmocka_unit_test(idle_server__a_burst_starts_a_spin_unless_the_last_was_in_vain),
		cmocka_unit_test(idle_server__gathers_after_thin_wakes_as_long_as_it_pays),
		cmocka_unit_test(idle_server__vain_gathering_is_tried_less_and_less_often),
		cmocka_unit_test(idle_server__a_wake_without_packets_does_not_count_as_thin),
		cmocka_unit_test(idle_server__packets_during_a_spin_do_not_affect_gathering),
		cmocka_unit_test(idle_server__an_averted_sleep_counts_as_short_but_not_as_thin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
