/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread's patience: when it spins, when it lets packets gather, and that both end where they do not pay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "patience.h"

#define LONG_NS (PATIENCE_SHORT_NS + 1)

/** Sleeps of `ns` that one packet ends, from now on until it spins. @return how many; `most` + 1: it does not spin. */
static unsigned sleeps_until_spin(struct patience *p, uint64_t ns, unsigned most, uint64_t *now_ns)
{
	for (unsigned n = 1; n <= most; n++) {
		p->slept_ns = *now_ns;
		*now_ns += ns;
		if (patience_spins(p, 1, *now_ns))
			return n;
	}
	return most + 1;
}

/** Nothing comes while it spins. */
static void spin_in_vain(struct patience *p, uint64_t *now_ns)
{
	assert_true(patience_spins(p, 0, *now_ns + PATIENCE_SPIN_NS - 1));
	*now_ns += PATIENCE_SPIN_NS;
	assert_false(patience_spins(p, 0, *now_ns));
}

static void patience__spins_after_short_sleeps_only(void **state)
{
	uint64_t now_ns = 1000000;
	struct patience p;

	(void)state;
	patience_init(&p);
	assert_int_equal(sleeps_until_spin(&p, LONG_NS, 10000, &now_ns), 10001);
	assert_int_equal(sleeps_until_spin(&p, PATIENCE_SHORT_NS - 1, 10000, &now_ns), PATIENCE_SPIN_AFTER);
	/* A long one starts the count again. */
	patience_init(&p);
	sleeps_until_spin(&p, 1000, PATIENCE_SPIN_AFTER - 1, &now_ns);
	sleeps_until_spin(&p, LONG_NS, 1, &now_ns);
	assert_int_equal(sleeps_until_spin(&p, 1000, 10000, &now_ns), PATIENCE_SPIN_AFTER);
}

/** An occasional long sleep, due to a kernel tick or another thread's turn on the CPU, does not prevent spinning. */
static void patience__a_long_sleep_now_and_then_is_no_matter(void **state)
{
	uint64_t now_ns = 1000000;
	struct patience p;
	unsigned n = 0;

	(void)state;
	patience_init(&p);
	while (p.spin_after < PATIENCE_SPIN_MOST) {
		sleeps_until_spin(&p, 1000, 10000, &now_ns);
		spin_in_vain(&p, &now_ns);
	}
	while (sleeps_until_spin(&p, 1000, 50, &now_ns) == 51 && ++n < 1000)
		sleeps_until_spin(&p, LONG_NS, 1, &now_ns);
	assert_in_range(n, PATIENCE_SPIN_MOST / 50, PATIENCE_SPIN_MOST / 40);
}

static void patience__spins_as_long_as_packets_come(void **state)
{
	uint64_t now_ns = 1000000;
	struct patience p;

	(void)state;
	patience_init(&p);
	sleeps_until_spin(&p, 1000, 100, &now_ns);
	for (unsigned i = 0; i < 1000; i++) {
		now_ns += PATIENCE_SPIN_NS - 1;
		assert_true(patience_spins(&p, 0, now_ns));
		assert_true(patience_spins(&p, 1, now_ns));
	}
	spin_in_vain(&p, &now_ns);
}

/** Spin as little as possible where it keeps the sender from the CPU. */
static void patience__spinning_in_vain_is_tried_ever_less_often(void **state)
{
	uint64_t now_ns = 1000000;
	struct patience p;

	(void)state;
	patience_init(&p);
	for (unsigned after = PATIENCE_SPIN_AFTER; after < PATIENCE_SPIN_MOST; after *= 2) {
		assert_int_equal(sleeps_until_spin(&p, 1000, 10000, &now_ns), after);
		spin_in_vain(&p, &now_ns);
	}
	assert_int_equal(sleeps_until_spin(&p, 1000, 10000, &now_ns), PATIENCE_SPIN_MOST);
	spin_in_vain(&p, &now_ns);
	assert_int_equal(sleeps_until_spin(&p, 1000, 10000, &now_ns), PATIENCE_SPIN_MOST);
	/* Once it has paid the next try is near again. */
	assert_true(patience_spins(&p, 1, now_ns));
	spin_in_vain(&p, &now_ns);
	assert_int_equal(sleeps_until_spin(&p, 1000, 10000, &now_ns), 2 * PATIENCE_SPIN_AFTER);
}

static void patience__a_burst_is_spun_for_at_once_unless_in_vain(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct patience p;

	(void)state;
	patience_init(&p);
	assert_true(patience_spins(&p, PATIENCE_BULK, now_ns));
	spin_in_vain(&p, &now_ns);
	now_ns += LONG_NS;
	assert_false(patience_spins(&p, PATIENCE_BULK, now_ns));
	assert_true(patience_spins(&p, PATIENCE_BULK, now_ns));
}

/** A wake-up that brings so much, and the sleep after it. @return whether that is to gather. */
static bool wake(struct patience *p, unsigned packets)
{
	p->brought += packets;
	return patience_gathers(p);
}

/** Wake-ups for one packet each until it gathers. */
static unsigned wakes_until_gather(struct patience *p)
{
	unsigned n = 1;

	while (n < 10000 && !wake(p, 1))
		n++;
	return n;
}

static void patience__gathers_after_thin_wakes_as_long_as_it_pays(void **state)
{
	struct patience p;

	(void)state;
	patience_init(&p);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(wake(&p, PATIENCE_THIN + 1));
	assert_int_equal(wakes_until_gather(&p), PATIENCE_GATHER_AFTER);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(wake(&p, PATIENCE_WORTH));
	assert_false(wake(&p, PATIENCE_WORTH - 1));
	assert_int_equal(wakes_until_gather(&p), 2 * PATIENCE_GATHER_AFTER);
}

/** A message and its answer: nothing more comes until this one is seen to, and each try delays one of them. */
static void patience__gathering_in_vain_is_tried_ever_less_often(void **state)
{
	struct patience p;

	(void)state;
	patience_init(&p);
	for (unsigned after = PATIENCE_GATHER_AFTER; after <= PATIENCE_GATHER_MOST; after *= 2) {
		assert_int_equal(wakes_until_gather(&p), after);
		assert_false(wake(&p, 1));
	}
	assert_int_equal(wakes_until_gather(&p), PATIENCE_GATHER_MOST);
}

/** Timers and doorbells wake it, too. */
static void patience__a_wake_for_nothing_is_no_thin_one(void **state)
{
	struct patience p;

	(void)state;
	patience_init(&p);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(wake(&p, 0));
	for (unsigned i = 0; i < PATIENCE_GATHER_AFTER - 1; i++) {
		assert_false(wake(&p, 1));
		assert_false(wake(&p, 0));
	}
	assert_true(wake(&p, 1));
}

/** What a spin brings has not gathered. */
static void patience__a_spin_says_nothing_about_gathering(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct patience p;

	(void)state;
	patience_init(&p);
	wakes_until_gather(&p);
	assert_true(patience_spins(&p, PATIENCE_BULK, now_ns));
	for (unsigned i = 0; i < 100; i++)
		assert_true(patience_spins(&p, 1, now_ns));
	spin_in_vain(&p, &now_ns);
	assert_false(patience_gathers(&p));
	assert_int_equal(wakes_until_gather(&p), PATIENCE_GATHER_AFTER);
}

/** Packets arrive as fast as they are processed: no wake-ups are needed, and the thread soon spins. */
static void patience__an_averted_sleep_is_short_and_not_thin(void **state)
{
	uint64_t now_ns = LONG_NS;
	struct patience p;
	unsigned n = 0;

	(void)state;
	patience_init(&p);
	while (!patience_spins(&p, 1, now_ns)) {
		assert_false(patience_gathers(&p));
		patience_averted(&p, now_ns);
		now_ns += 1000;
		n++;
	}
	assert_in_range(n, 1, PATIENCE_SPIN_AFTER);
	assert_int_equal(p.thin, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patience__spins_after_short_sleeps_only),
		cmocka_unit_test(patience__a_long_sleep_now_and_then_is_no_matter),
		cmocka_unit_test(patience__spins_as_long_as_packets_come),
		cmocka_unit_test(patience__spinning_in_vain_is_tried_ever_less_often),
		cmocka_unit_test(patience__a_burst_is_spun_for_at_once_unless_in_vain),
		cmocka_unit_test(patience__gathers_after_thin_wakes_as_long_as_it_pays),
		cmocka_unit_test(patience__gathering_in_vain_is_tried_ever_less_often),
		cmocka_unit_test(patience__a_wake_for_nothing_is_no_thin_one),
		cmocka_unit_test(patience__a_spin_says_nothing_about_gathering),
		cmocka_unit_test(patience__an_averted_sleep_is_short_and_not_thin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
