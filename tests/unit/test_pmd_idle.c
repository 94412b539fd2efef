/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_idle.c - the idle policy, in virtual time: which thread does the work, how long the engine's thread
 * stands by (leaves the work to pollers), when a poller reads the port and when it yields, how long a sleep may last.
 * test_pmd_idle_server.c tests what the serving thread does between two packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "idle.h"

#define START_NS 1000000000u

/** The engine's thread and the state that it sees. */
struct world {
	struct idle_thread t;
	struct idle_seen seen;
	uint64_t finds;
};

static void world_init(struct world *w)
{
	idle_thread_init(&w->t, true, false);
	w->seen = (struct idle_seen){.now_ns = START_NS};
	w->finds = 0;
}

static void pass(struct world *w, uint64_t ns)
{
	w->seen.now_ns += ns;
}

/** Application threads poll `polls` times, the last time right now. */
static void poll_often(struct world *w, unsigned polls)
{
	w->seen.polls += polls;
	w->seen.last_ns = w->seen.now_ns;
}

/** Packets wake the serving thread; its step receives `got` of them. */
static enum idle_act serve(struct world *w, unsigned got)
{
	struct idle_step step = {
		.step_ns = w->seen.now_ns, .finds = w->finds, .got = got, .woken = true, .by_packets = true};

	return idle_thread_stepped(&w->t, &w->seen, &step);
}

/** Let a poller take each packet that wakes the thread. @return the number of wake-ups until the thread leaves the work
 * to pollers (stands by); most + 1 if it never does. */
static unsigned wakes_until_stand_by(struct world *w, unsigned most)
{
	for (unsigned n = 1; n <= most; n++) {
		pass(w, 100000);
		poll_often(w, 100);
		if (serve(w, 0) == IDLE_STAND_BY)
			return n;
	}
	return most + 1;
}

/** For one slice of time, the thread leaves the work to application threads, which poll `polls` times, the last time at
 * the slice's end. */
static enum idle_act check(struct world *w, unsigned polls)
{
	struct idle_slice slice = idle_thread_slice(&w->t, w->seen.waits_now, 0);
	uint64_t due_ns = w->seen.now_ns + slice.slice_ns;

	pass(w, slice.slice_ns);
	if (polls > 0)
		poll_often(w, polls);
	return idle_thread_checked(&w->t, &w->seen, false, due_ns);
}

/* ---- who serves --------------------------------------------------------------------------------------------- */

static void idle__stands_by_after_vain_wakes(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	assert_int_equal(wakes_until_stand_by(&w, 100), IDLE_CREDIT_NEW);
	/* Packets that no poller would have found raise the thread's credit, up to its maximum. */
	world_init(&w);
	for (unsigned i = 0; i < 100; i++) {
		pass(&w, 1000000);
		assert_int_not_equal(serve(&w, 1), IDLE_STAND_BY);
	}
	assert_int_equal(wakes_until_stand_by(&w, 100), IDLE_CREDIT_FULL);
}

static void idle__vain_wakes_without_polls_cost_nothing(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (unsigned i = 0; i < 100; i++) {
		pass(&w, 100000);
		assert_int_not_equal(serve(&w, 0), IDLE_STAND_BY);
	}
}

/** A packet that the thread receives just after a poll, or because a poller yielded, costs credit: the poller would
 * have received it. */
static void idle__packets_taken_from_a_poller_cost_credit(void **state)
{
	struct world w;
	struct idle_step step;

	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		unsigned n = 0;
		enum idle_act act;

		world_init(&w);
		do {
			pass(&w, 1000000);
			w.seen.polls += 100;
			w.seen.last_ns = w.seen.now_ns - (how == 0 ? IDLE_POLLING_NOW_NS - 1 : IDLE_LET_IN_NS - 1);
			w.seen.yields = how == 1;
			step = (struct idle_step){.step_ns = w.seen.now_ns, .got = 1, .wanted = how == 2};
			act = idle_thread_stepped(&w.t, &w.seen, &step);
		} while (++n < 100 && act != IDLE_STAND_BY);
		assert_int_equal(n, how == 3 ? 100 : IDLE_CREDIT_NEW);
		if (how == 3) /* a poller in a loop: packets that the thread receives do not raise its credit, either */
			assert_int_equal(w.t.credit, IDLE_CREDIT_NEW);
	}
}

/** Packets that the thread receives while application threads are busy moving other packets do not raise its credit. */
static void idle__packets_found_while_threads_help_earn_no_credit(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	check(&w, 1);
	pass(&w, 1000000);
	w.seen.work_ns += 1000000;
	serve(&w, 1);
	assert_int_equal(w.t.credit, IDLE_CREDIT_NEW);
	pass(&w, 1000000);
	serve(&w, 1);
	assert_int_equal(w.t.credit, IDLE_CREDIT_NEW + IDLE_CREDIT_FIND);
}

/** Packets that pollers receive while the thread serves lower its credit. */
static void idle__packets_found_by_pollers_cost_credit(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (unsigned i = 0; i < 10; i++)
		serve(&w, 1);
	w.finds += IDLE_CREDIT_FULL - 1;
	assert_int_equal(serve(&w, 0), IDLE_SLEEP);
	assert_int_equal(w.t.credit, 1);
	w.finds += 100;
	assert_int_equal(serve(&w, 0), IDLE_STAND_BY);
	assert_int_equal(w.t.credit, 1 - 2 * IDLE_CREDIT_FIND);
}

static void idle__keeps_serving_a_program_that_announces_a_sleep(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	w.seen.will_sleep = true;
	assert_int_equal(wakes_until_stand_by(&w, 100), 101);
	w.seen.will_sleep = false;
	assert_int_equal(wakes_until_stand_by(&w, 100), IDLE_CREDIT_FULL);
}

static void idle__modes_other_than_auto_always_serve(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	idle_thread_init(&w.t, false, false);
	assert_int_equal(wakes_until_stand_by(&w, 100), 101);
	assert_int_equal(serve(&w, 0), IDLE_SLEEP);
	poll_often(&w, 1);
	assert_false(idle_thread_leaves(&w.t, &w.seen));
	idle_thread_init(&w.t, false, true);
	assert_int_equal(serve(&w, 0), IDLE_STEP);
}

static void idle__leaves_packets_to_a_poller(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	w.seen.last_ns = w.seen.now_ns;
	assert_false(idle_thread_leaves(&w.t, &w.seen)); /* nobody has polled since the thread's last check */
	poll_often(&w, 1);
	assert_true(idle_thread_leaves(&w.t, &w.seen));
	pass(&w, IDLE_POLLING_NOW_NS);
	assert_true(idle_thread_leaves(&w.t, &w.seen));
	pass(&w, 1);
	assert_false(idle_thread_leaves(&w.t, &w.seen));
	w.seen.last_ns = IDLE_POLLS_NOW;
	assert_true(idle_thread_leaves(&w.t, &w.seen));
	assert_int_equal(idle_thread_left(&w.t, 1, 1), IDLE_STEP); /* the poller has not fetched the packet */
	for (unsigned i = 1; i < IDLE_CREDIT_NEW; i++)
		assert_int_equal(idle_thread_left(&w.t, 1, 2), IDLE_SLEEP);
	assert_int_equal(idle_thread_left(&w.t, 1, 2), IDLE_STAND_BY);
}

/** After traffic, sleeps are short, so that a new deadline need not wake the thread. After IDLE_NAPS short sleeps
 * without work, sleeps get long. */
static void idle__naps_after_traffic(void **state)
{
	struct world w;
	struct idle_step idle = {0};
	unsigned n;

	(void)state;
	world_init(&w);
	serve(&w, 1);
	for (n = 0; idle_thread_nap(&w.t, IDLE_UNBOUNDED) == IDLE_NAP_NS; n++) {
		assert_true(idle_thread_nap(&w.t, IDLE_NAP_NS - 1) == IDLE_NAP_NS - 1);
		pass(&w, IDLE_NAP_NS);
		idle.step_ns = w.seen.now_ns;
		idle_thread_stepped(&w.t, &w.seen, &idle);
	}
	assert_int_equal(n, IDLE_NAPS);
	assert_true(idle_thread_nap(&w.t, IDLE_UNBOUNDED) == IDLE_UNBOUNDED);
	serve(&w, 1);
	for (n = 0; n < 2 * IDLE_NAPS; n++) /* a sleep ended by a wake-up does not count */
		serve(&w, 0);
	assert_true(idle_thread_nap(&w.t, IDLE_UNBOUNDED) == IDLE_NAP_NS);
}

/* ---- standing by -------------------------------------------------------------------------------------------- */

static void idle__stands_by_while_threads_poll(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(check(&w, 1), IDLE_STAND_BY);
	/* Polling stops: the thread waits for one more slice, because the poller may have lost the CPU for a moment. */
	w.seen.polls++;
	assert_int_equal(check(&w, 0), IDLE_STAND_BY);
	assert_true(idle_thread_slice(&w.t, false, 0).slice_ns == IDLE_SLICE_MIN_NS);
	assert_int_equal(check(&w, 0), IDLE_STEP);
}

static void idle__serves_again_when_polling_stops(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	poll_often(&w, 1);
	check(&w, 1);
	assert_int_equal(check(&w, 0), IDLE_STEP);
	/* The thread serves at once if the program announces a sleep or rings the doorbell. */
	world_init(&w);
	check(&w, 1);
	w.seen.polls++;
	w.seen.will_sleep = true;
	assert_int_equal(check(&w, 0), IDLE_STEP);
	w.seen.will_sleep = false;
	poll_often(&w, 1);
	assert_int_equal(idle_thread_checked(&w.t, &w.seen, true, w.seen.now_ns), IDLE_STEP);
}

/** The thread can check late whether others still poll: what counts is whether they polled when the check was due. */
static void idle__a_late_check_still_recognizes_polling(void **state)
{
	struct world w;
	uint64_t due_ns;

	(void)state;
	world_init(&w);
	poll_often(&w, 1);
	due_ns = w.seen.now_ns + IDLE_POLLING_NS - 1;
	pass(&w, 10000000);
	assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, due_ns), IDLE_STAND_BY);
	assert_false(w.t.doubts);
	/* A poller that yields to the thread is given more time until its next poll. */
	poll_often(&w, 1);
	pass(&w, IDLE_YIELDING_NS - 1);
	w.seen.yields = true;
	assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns), IDLE_STAND_BY);
	assert_false(w.t.doubts);
	w.seen.polls++;
	pass(&w, 1);
	assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns), IDLE_STAND_BY);
	assert_true(w.t.doubts);
	/* A poll that fetches payload (IDLE_POLLS_NOW) can last longer than a slice, so it counts as polling. */
	w.seen.last_ns = IDLE_POLLS_NOW;
	assert_int_equal(check(&w, 0), IDLE_STAND_BY);
	assert_false(w.t.doubts);
	assert_int_equal(check(&w, 0), IDLE_STAND_BY);
	/* The thread waits for one more slice only once: after a second check without a recent poll it serves. */
	w.seen.last_ns = 0;
	w.seen.polls++;
	assert_int_equal(check(&w, 0), IDLE_STAND_BY);
	w.seen.polls++;
	assert_int_equal(check(&w, 0), IDLE_STEP);
}

/** The thread's check was due at its scheduled time, or now if it comes earlier. If the kernel's tick ended the slice,
 * the check was due IDLE_SLICE_MIN_NS ago. */
static void idle__computes_when_a_check_was_due(void **state)
{
	(void)state;
	assert_int_equal(idle_check_due_ns(START_NS, false, START_NS + 5), START_NS);
	assert_int_equal(idle_check_due_ns(START_NS + 5, false, START_NS),
			 START_NS); /* a doorbell ended the slice early */
	assert_int_equal(idle_check_due_ns(START_NS, true, 2 * START_NS), 2 * START_NS - IDLE_SLICE_MIN_NS);
}

/** Application threads that spend more than half of their time moving packets count as helping, even if they rarely
 * poll. */
static void idle__stands_by_while_threads_move_packets(void **state)
{
	struct world w;
	struct idle_slice slice;

	(void)state;
	world_init(&w);
	check(&w, 1);
	for (unsigned i = 0; i < 10; i++) {
		slice = idle_thread_slice(&w.t, false, 0);
		pass(&w, slice.slice_ns);
		w.seen.work_ns += slice.slice_ns / 2 + 1;
		assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns), IDLE_STAND_BY);
	}
	slice = idle_thread_slice(&w.t, false, 0);
	pass(&w, slice.slice_ns);
	w.seen.work_ns += slice.slice_ns / 2;
	assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns), IDLE_STEP);
}

static void idle__slices_grow_with_polling(void **state)
{
	struct world w;
	struct idle_slice slice;

	(void)state;
	world_init(&w);
	for (uint64_t ns = IDLE_SLICE_MIN_NS; ns < IDLE_SLICE_MAX_NS; ns *= 2)
		assert_true(idle_thread_slice(&w.t, false, 0).slice_ns == ns);
	for (unsigned i = 0; i < IDLE_CHECKS_LONG; i++) {
		assert_true(idle_thread_slice(&w.t, false, 0).slice_ns == IDLE_SLICE_MAX_NS);
		poll_often(&w, 1);
		idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns);
	}
	/* After many slices in a row they get longer, and in the end the kernel's tick times them. */
	for (unsigned i = 0; i < IDLE_CHECKS_LONG; i++) {
		slice = idle_thread_slice(&w.t, false, 0);
		assert_true(slice.slice_ns == (i == 0 ? 1 : i == 1 ? 2 : 4) * (uint64_t)IDLE_SLICE_MAX_NS);
		assert_false(slice.tick || slice.deep);
		poll_often(&w, 1);
		idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns);
	}
	slice = idle_thread_slice(&w.t, false, 0);
	assert_true(slice.tick && !slice.deep && slice.slice_ns == IDLE_SLICE_LONG_NS);
	/* When the thread starts to stand by again, slices start with the shortest. */
	idle_thread_stand_by(&w.t);
	assert_true(idle_thread_slice(&w.t, false, 0).slice_ns == IDLE_SLICE_MIN_NS);
}

/** While one wait of an application thread lasts, slices grow and in the end have no bound. Those longer than
 * IDLE_SLICE_MAX_NS are deep: the end of the wait must wake the thread. The next wait starts with IDLE_SLICE_MAX_NS. */
static void idle__slices_grow_without_bound_during_one_wait(void **state)
{
	struct world w;
	struct idle_slice slice;
	uint64_t last_ns = 0;

	(void)state;
	world_init(&w);
	w.seen.waits_now = true;
	idle_thread_slice(&w.t, true, 1);
	do {
		slice = idle_thread_slice(&w.t, true, 1);
		assert_true(slice.slice_ns >= 2 * last_ns && slice.deep == (slice.slice_ns > IDLE_SLICE_MAX_NS));
		last_ns = slice.slice_ns;
		/* The application waits without polling. */
		assert_int_equal(idle_thread_checked(&w.t, &w.seen, false, w.seen.now_ns), IDLE_STAND_BY);
	} while (slice.slice_ns != IDLE_UNBOUNDED && last_ns < 2 * (uint64_t)IDLE_SLICE_DEEP_NS);
	assert_true(slice.slice_ns == IDLE_UNBOUNDED && slice.deep && !slice.tick);
	assert_int_equal(w.t.checks, 0); /* slices during a wait are not counted in `checks` */
	slice = idle_thread_slice(&w.t, true, 2);
	assert_true(slice.slice_ns == IDLE_SLICE_MAX_NS && !slice.deep);
}

/** Packets that had to wait for the thread's next check show that the thread stood by too early or for too long: its
 * credit limit is doubled. If slices had already got longer, the number of slices after which that happens is doubled
 * instead. */
static void idle__learns_from_packets_that_waited(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (unsigned credit = 2 * IDLE_CREDIT_FULL; credit <= IDLE_CREDIT_MOST; credit *= 2) {
		idle_thread_returned(&w.t, &w.seen, 0, 1, false);
		assert_int_equal(w.t.credit, credit);
	}
	idle_thread_returned(&w.t, &w.seen, 0, 1, false);
	assert_int_equal(w.t.credit, IDLE_CREDIT_MOST);
	idle_thread_returned(&w.t, &w.seen, 0, 0, false);
	assert_int_equal(w.t.credit, IDLE_CREDIT_NEW);
	/* A doorbell or a yield ended the slice: the packet has not waited for the slice's end. */
	world_init(&w);
	idle_thread_returned(&w.t, &w.seen, 0, 1, true);
	assert_int_equal(w.t.credit_full, IDLE_CREDIT_FULL);
	poll_often(&w, 1);
	w.seen.yields = true;
	idle_thread_returned(&w.t, &w.seen, 0, 1, false);
	assert_int_equal(w.t.credit_full, IDLE_CREDIT_FULL);
	w.seen.yields = false;
	/* For many slices it was right to leave the work to pollers, but then a slice was too long: next time, slices
	 * grow only after twice as many. If no packet has waited, this number is halved again. */
	w.t.credit_full = IDLE_CREDIT_MOST;
	w.t.checks = IDLE_CHECKS_LONG;
	idle_thread_returned(&w.t, &w.seen, 0, 1, false);
	assert_int_equal(w.t.credit_full, IDLE_CREDIT_FULL);
	assert_int_equal(w.t.checks_long, 2 * IDLE_CHECKS_LONG);
	assert_int_equal(w.t.checks, 0);
	w.t.checks = 2 * IDLE_CHECKS_LONG;
	idle_thread_returned(&w.t, &w.seen, 0, 0, false);
	assert_int_equal(w.t.checks_long, IDLE_CHECKS_LONG);
}

static void idle__waits_for_a_lock_refused_often(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 1; i < IDLE_LOCK_TRIES; i++)
			assert_false(idle_thread_waits_for_lock(&w.t, true));
		assert_true(idle_thread_waits_for_lock(&w.t, true));
	}
	assert_false(idle_thread_waits_for_lock(&w.t, true));
	assert_false(idle_thread_waits_for_lock(&w.t, false)); /* getting the lock resets the count */
	assert_int_equal(w.t.refused, 0);
	/* The thread that holds the lock polls: the count is reset. */
	idle_thread_waits_for_lock(&w.t, true);
	w.seen.polls++;
	w.seen.will_sleep = true;
	check(&w, 0);
	assert_int_equal(w.t.refused, 0);
}

/* ---- a waiting application thread --------------------------------------------------------------------------- */

static void idle__a_waiter_spins_after_short_sleeps(void **state)
{
	struct idle_spin s;

	(void)state;
	idle_spin_init(&s);
	for (unsigned after = IDLE_SPIN_AFTER; after <= IDLE_SPIN_MOST; after *= 2) {
		for (unsigned i = 0; i < after; i++) {
			assert_false(idle_spin_is_due(&s));
			idle_spin_slept(&s, 1);
		}
		assert_true(idle_spin_is_due(&s));
		idle_spin_failed(&s);
	}
	assert_int_equal(s.after, IDLE_SPIN_MOST);
	idle_spin_slept(&s, IDLE_SPIN_AFTER);
	assert_false(idle_spin_is_due(&s));
	idle_spin_paid(&s);
	assert_true(idle_spin_is_due(&s));
	idle_spin_slept(&s, 0);
	assert_int_equal(s.shorts, 0);
	idle_spin_slept(&s, IDLE_SPIN_AFTER + 1);
	idle_spin_slept(&s, 0);
	assert_int_equal(s.shorts, 1);
}

/* ---- the port ----------------------------------------------------------------------------------------------- */

static void idle__the_port_is_read_less_often_the_longer_it_is_empty(void **state)
{
	struct idle_port p = {0};
	uint64_t now_ns = START_NS, pause_ns = IDLE_PORT_PAUSE_MIN_NS;

	(void)state;
	idle_port_checked(&p, true, now_ns);
	assert_true(idle_port_is_due(&p, true, 0, now_ns)); /* more packets can follow at once */
	for (unsigned i = 0; i < 20; i++) {
		idle_port_checked(&p, false, now_ns);
		assert_false(idle_port_is_due(&p, true, 0, now_ns + pause_ns - 1));
		assert_true(idle_port_is_due(&p, true, 0, now_ns + pause_ns));
		assert_true(idle_port_is_due(&p, false, 0, now_ns)); /* without links, the port is read at every poll */
		now_ns += pause_ns;
		pause_ns = pause_ns < IDLE_PORT_PAUSE_NS ? 2 * pause_ns : IDLE_PORT_PAUSE_NS;
	}
	assert_int_equal(pause_ns, IDLE_PORT_PAUSE_NS);
	idle_port_checked(&p, true, now_ns);
	assert_true(idle_port_is_due(&p, true, 0, now_ns));
}

static void idle__the_port_is_read_least_often_while_links_are_busy(void **state)
{
	struct idle_port p = {.checked_ns = START_NS, .pause_ns = IDLE_PORT_PAUSE_NS};
	const uint64_t longest_ns = (uint64_t)IDLE_PORT_PAUSE_NS << IDLE_PORT_BUSY_SHIFT;

	(void)state;
	p.heard_ns = START_NS + longest_ns - 2;
	assert_false(idle_port_is_due(&p, true, 0, START_NS + longest_ns - 1));
	assert_true(idle_port_is_due(&p, true, 0, START_NS + longest_ns));
	p.heard_ns = START_NS;
	assert_false(idle_port_is_due(&p, true, 0, START_NS + IDLE_PORT_PAUSE_NS - 1));
	assert_true(idle_port_is_due(&p, true, 0, START_NS + IDLE_PORT_PAUSE_NS));
	/* Busy links delay checks of a port only once its pause has reached the maximum. This port had packets
	 * recently, so its pause is shorter, and the port is checked when the pause ends. */
	p = (struct idle_port){.checked_ns = START_NS, .heard_ns = START_NS, .pause_ns = IDLE_PORT_PAUSE_NS / 2};
	assert_true(idle_port_is_due(&p, true, 0, START_NS + IDLE_PORT_PAUSE_NS / 2));
}

static void idle__a_port_that_owes_answers_is_due(void **state)
{
	struct idle_port p = {.checked_ns = START_NS, .pause_ns = IDLE_PORT_PAUSE_NS};

	(void)state;
	assert_false(idle_port_is_due(&p, true, IDLE_PORT_OWED - 1, START_NS));
	assert_true(idle_port_is_due(&p, true, IDLE_PORT_OWED, START_NS));
}

/* ---- yields ------------------------------------------------------------------------------------------------- */

/** @return the number of empty polls until the poller yields. */
static unsigned polls_until_yield(struct idle_yield *y)
{
	for (unsigned n = 1; n < 10000; n++) {
		idle_yield_polled(y, false, IDLE_YIELD_NONE);
		if (idle_yield_is_due(y))
			return n;
	}
	return 10000;
}

static void idle__a_poller_yields_after_empty_polls(void **state)
{
	struct idle_yield y;

	(void)state;
	idle_yield_init(&y);
	assert_int_equal(polls_until_yield(&y), IDLE_YIELD_POLLS);
	for (unsigned i = 0; i < 1000; i++) { /* a poller that finds something now and then never yields */
		idle_yield_polled(&y, i % (IDLE_YIELD_POLLS - 1) == 0, IDLE_YIELD_NONE);
		assert_false(idle_yield_is_due(&y));
	}
	assert_int_equal(idle_yield_outcome(IDLE_YIELD_TAKEN_NS), IDLE_YIELD_UNWANTED);
	assert_int_equal(idle_yield_outcome(IDLE_YIELD_TAKEN_NS + 1), IDLE_YIELD_TAKEN);
}

static void idle__yields_come_sooner_while_they_pay(void **state)
{
	struct idle_yield y;

	(void)state;
	idle_yield_init(&y);
	for (unsigned after = IDLE_YIELD_POLLS; after > IDLE_YIELD_MIN; after /= 2) {
		assert_int_equal(polls_until_yield(&y), after);
		idle_yield_polled(&y, true, IDLE_YIELD_TAKEN);
	}
	assert_int_equal(polls_until_yield(&y), IDLE_YIELD_MIN);
	idle_yield_polled(&y, true, IDLE_YIELD_TAKEN);
	assert_int_equal(y.after, IDLE_YIELD_MIN);
	/* Yields get rarer if no other thread wanted the CPU, or if the other thread's turn brought no packets. */
	for (unsigned after = 2 * IDLE_YIELD_MIN, i = 0; after <= IDLE_YIELD_MAX; after *= 2, i++) {
		idle_yield_polled(&y, i % 2, i % 2 ? IDLE_YIELD_UNWANTED : IDLE_YIELD_TAKEN);
		assert_int_equal(y.after, after);
	}
	idle_yield_polled(&y, false, IDLE_YIELD_UNWANTED);
	assert_int_equal(y.after, IDLE_YIELD_MAX);
}

/* ---- sleeps ------------------------------------------------------------------------------------------------- */

static void idle__a_sleep_ends_with_the_next_deadline(void **state)
{
	const uint64_t never = IDLE_UNBOUNDED, now = START_NS;

	(void)state;
	assert_true(idle_sleep_ns(false, 0, never, never, now) == never);
	assert_true(idle_sleep_ns(true, 20, never, never, now) == 0);
	assert_true(idle_sleep_ns(false, 20, now, never, now) == 20);
	assert_true(idle_sleep_ns(false, 0, now, never, now) == 0);
	assert_true(idle_sleep_ns(false, 0, now - 1, 100, now) == 0);
	assert_true(idle_sleep_ns(false, 0, now + 50, 100, now) == 50);
	assert_true(idle_sleep_ns(false, 0, now + 150, 100, now) == 100);
	assert_true(idle_sleep_ns(false, 0, never, 100, now) == 100);
}

static void idle__intervals_grow_while_nothing_arrives(void **state)
{
	uint64_t ns = idle_interval_ns(0, 0), next;

	(void)state;
	assert_int_equal(ns, IDLE_INTERVAL_MIN_NS);
	for (; (next = idle_interval_ns(ns, 0)) < IDLE_INTERVAL_MAX_NS; ns = next)
		assert_true(next > ns);
	assert_int_equal(idle_interval_ns(next, 0), IDLE_INTERVAL_MAX_NS);
	assert_int_equal(idle_interval_ns(next, 1), 0);
}

static void idle__the_doorbell_rings_for_work_or_an_earlier_deadline(void **state)
{
	(void)state;
	assert_false(idle_rings(0, true, 0)); /* the thread is awake */
	assert_true(idle_rings(START_NS, true, IDLE_UNBOUNDED));
	assert_true(idle_rings(START_NS, false, START_NS - 1));
	assert_false(idle_rings(START_NS, false, START_NS));
	assert_true(idle_rings(IDLE_UNBOUNDED, false, START_NS));
	assert_false(idle_rings(IDLE_UNBOUNDED, false, IDLE_UNBOUNDED));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle__stands_by_after_vain_wakes),
		cmocka_unit_test(idle__vain_wakes_without_polls_cost_nothing),
		cmocka_unit_test(idle__packets_taken_from_a_poller_cost_credit),
		cmocka_unit_test(idle__packets_found_while_threads_help_earn_no_credit),
		cmocka_unit_test(idle__packets_found_by_pollers_cost_credit),
		cmocka_unit_test(idle__keeps_serving_a_program_that_announces_a_sleep),
		cmocka_unit_test(idle__modes_other_than_auto_always_serve),
		cmocka_unit_test(idle__leaves_packets_to_a_poller),
		cmocka_unit_test(idle__naps_after_traffic),
		cmocka_unit_test(idle__stands_by_while_threads_poll),
		cmocka_unit_test(idle__serves_again_when_polling_stops),
		cmocka_unit_test(idle__a_late_check_still_recognizes_polling),
		cmocka_unit_test(idle__computes_when_a_check_was_due),
		cmocka_unit_test(idle__stands_by_while_threads_move_packets),
		cmocka_unit_test(idle__slices_grow_with_polling),
		cmocka_unit_test(idle__slices_grow_without_bound_during_one_wait),
		cmocka_unit_test(idle__learns_from_packets_that_waited),
		cmocka_unit_test(idle__waits_for_a_lock_refused_often),
		cmocka_unit_test(idle__a_waiter_spins_after_short_sleeps),
		cmocka_unit_test(idle__the_port_is_read_less_often_the_longer_it_is_empty),
		cmocka_unit_test(idle__the_port_is_read_least_often_while_links_are_busy),
		cmocka_unit_test(idle__a_port_that_owes_answers_is_due),
		cmocka_unit_test(idle__a_poller_yields_after_empty_polls),
		cmocka_unit_test(idle__yields_come_sooner_while_they_pay),
		cmocka_unit_test(idle__a_sleep_ends_with_the_next_deadline),
		cmocka_unit_test(idle__intervals_grow_while_nothing_arrives),
		cmocka_unit_test(idle__the_doorbell_rings_for_work_or_an_earlier_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
