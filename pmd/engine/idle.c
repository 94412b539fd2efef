/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.c - implements the idle policy described in idle.h.
 */
#include "idle.h"

/* ---- spinning ----------------------------------------------------------------------------------------------- */

void idle_spin_init(struct idle_spin *s)
{
	*s = (struct idle_spin){.after = IDLE_SPIN_AFTER};
}

void idle_spin_slept(struct idle_spin *s, unsigned shorts)
{
	if (shorts > 0)
		s->shorts += shorts;
	else /* a long sleep costs only part of the credit: perhaps another program just had the CPU */
		s->shorts -= s->shorts < IDLE_SPIN_AFTER ? s->shorts : IDLE_SPIN_AFTER;
}

void idle_spin_paid(struct idle_spin *s)
{
	s->after = IDLE_SPIN_AFTER;
}

void idle_spin_failed(struct idle_spin *s)
{
	s->shorts = 0;
	if (s->after < IDLE_SPIN_MOST)
		s->after *= 2;
}

/* ---- the serving thread ------------------------------------------------------------------------------------- */

void idle_server_init(struct idle_server *s)
{
	*s = (struct idle_server){.gather_after = IDLE_GATHER_AFTER};
	idle_spin_init(&s->spin);
}

/** @return how many short sleeps the last sleep counts as; 0: it was long. @param got packets that the step after the
 *  sleep received. */
static unsigned server_shorts(const struct idle_server *s, unsigned got, uint64_t now_ns)
{
	if (got >= IDLE_BULK)
		return IDLE_SPIN_AFTER;
	return now_ns - s->slept_ns < IDLE_SHORT_NS;
}

bool idle_server_spins(struct idle_server *s, unsigned got, uint64_t now_ns)
{
	bool spins = s->spin_ns != 0;

	s->brought += got;
	if (got == 0) {
		if (spins && now_ns >= s->spin_ns) {
			s->spin_ns = 0;
			idle_spin_failed(&s->spin);
		}
		return s->spin_ns != 0;
	}
	if (spins) {
		idle_spin_paid(&s->spin);
	} else {
		idle_spin_slept(&s->spin, server_shorts(s, got, now_ns));
		if (!idle_spin_is_due(&s->spin))
			return false;
		s->gathers = false; /* the spin, not a gathering sleep, will bring the next packets */
	}
	s->spin_ns = now_ns + IDLE_SPIN_NS;
	return true;
}

bool idle_server_gathers(struct idle_server *s)
{
	unsigned brought = s->brought;

	s->brought = 0;
	if (s->gathers && brought >= IDLE_WORTH) {
		s->gather_after = IDLE_GATHER_AFTER;
		return true;
	}
	if (s->gathers && s->gather_after < IDLE_GATHER_MOST)
		s->gather_after *= 2;
	if (s->gathers || brought > IDLE_THIN)
		s->thin = 0;
	else
		s->thin += brought > 0; /* a wake-up without packets does not count */
	s->gathers = s->thin >= s->gather_after;
	return s->gathers;
}

void idle_server_averted(struct idle_server *s, uint64_t now_ns)
{
	s->slept_ns = now_ns;
	s->thin -= s->thin > 0;
}

/* ---- who serves --------------------------------------------------------------------------------------------- */

void idle_thread_init(struct idle_thread *t, bool automatic, bool pinned)
{
	*t = (struct idle_thread){.automatic = automatic,
				  .pinned = pinned,
				  .credit = IDLE_CREDIT_NEW,
				  .credit_full = IDLE_CREDIT_FULL,
				  .naps = IDLE_NAPS,
				  .slice_ns = IDLE_SLICE_MIN_NS,
				  .checks_long = IDLE_CHECKS_LONG};
	idle_server_init(&t->server);
}

/** Time since an application thread last polled, ns. */
static uint64_t poll_age_ns(const struct idle_seen *seen)
{
	return pmd_clock_age(seen->now_ns, seen->last_ns);
}

/** Whether a poller is yielding the CPU that the engine's thread runs on, and last polled less than `within_ns` ago. */
static bool let_in(const struct idle_seen *seen, uint64_t within_ns)
{
	return seen->yields && poll_age_ns(seen) < within_ns;
}

/** Whether application threads have been moving packets for most of the time since the last call of this function. */
static bool has_help(struct idle_thread *t, uint64_t work_ns, uint64_t now_ns)
{
	uint64_t worked = work_ns - t->work_ns, passed = now_ns - t->checked_ns;

	t->work_ns = work_ns;
	t->checked_ns = now_ns;
	return worked > passed / 2;
}

bool idle_thread_leaves(const struct idle_thread *t, const struct idle_seen *seen)
{
	return t->automatic && seen->polls != t->polls && poll_age_ns(seen) <= IDLE_POLLING_NOW_NS;
}

enum idle_act idle_thread_left(struct idle_thread *t, uint64_t polls, uint64_t now_polls)
{
	if (now_polls == polls)
		return IDLE_STEP;
	return --t->credit > 0 ? IDLE_SLEEP : IDLE_STAND_BY;
}

/** Whether an application thread would most likely have found the packets of this step if the engine's thread had not
 *  woken. The signs are that an application thread waits for the lock, or polled just before the step. The number of
 *  polls between two steps is no such sign: while the engine's thread spins, its steps follow each other too
 *  closely. */
static bool is_beside_poller(const struct idle_seen *seen, const struct idle_step *step)
{
	return (!step->waited && step->wanted) || seen->last_ns + IDLE_POLLING_NOW_NS > step->step_ns;
}

/** Update the credit, which measures which thread finds the traffic. */
static void count_credit(struct idle_thread *t, const struct idle_seen *seen, const struct idle_step *step)
{
	uint64_t finds = step->finds - t->finds; /* successful polls since the last step */

	t->finds = step->finds;
	if (!t->automatic)
		return;
	if (seen->will_sleep) {
		t->credit = t->credit_full;
		return;
	}
	/* The engine's thread often gets the poller's CPU, and then finds packets that the poller was about to find:
	 * such packets cost credit. */
	if (step->got > 0 && (is_beside_poller(seen, step) || let_in(seen, IDLE_LET_IN_NS)))
		t->credit--;
	else if (step->got > 0 && !step->waited)
		t->credit += seen->polls - t->polls < IDLE_SPIN_POLLS && !has_help(t, seen->work_ns, step->step_ns)
				     ? IDLE_CREDIT_FIND
				     : 0;
	else if ((step->by_packets || (step->sent > 0 && step->waited)) && seen->polls != t->polls)
		t->credit--;
	t->credit -= finds < 2 * IDLE_CREDIT_FIND ? (int)finds : 2 * IDLE_CREDIT_FIND;
	if (t->credit > t->credit_full)
		t->credit = t->credit_full;
}

enum idle_act idle_thread_stepped(struct idle_thread *t, const struct idle_seen *seen, const struct idle_step *step)
{
	count_credit(t, seen, step);
	if (step->got || seen->polls != t->polls)
		t->naps = IDLE_NAPS;
	else if (t->naps > 0 && !step->woken)
		t->naps--;
	t->polls = seen->polls;
	if (t->credit <= 0)
		return IDLE_STAND_BY;
	if (t->pinned || idle_server_spins(&t->server, step->got > 0 ? step->got : step->sent, seen->now_ns))
		return IDLE_STEP;
	return IDLE_SLEEP;
}

struct idle_slice idle_thread_slice(struct idle_thread *t, bool waits_now, uint32_t waits)
{
	bool same = waits_now && waits == t->waits;
	uint64_t max_ns = !waits_now && t->checks >= t->checks_long ? IDLE_SLICE_LONG_NS : IDLE_SLICE_MAX_NS;
	struct idle_slice slice = {.slice_ns = IDLE_SLICE_MIN_NS};

	if (t->doubts)
		return slice;
	t->waits = waits;
	if (!same && t->slice_ns > max_ns)
		t->slice_ns = max_ns;
	slice.slice_ns = t->slice_ns;
	slice.deep = slice.slice_ns > max_ns;
	slice.tick =
		slice.slice_ns == IDLE_SLICE_LONG_NS && t->checks >= IDLE_CHECKS_LAST * t->checks_long && !waits_now;
	t->slice_ns *= 2;
	if (t->slice_ns > max_ns && !same)
		t->slice_ns = max_ns;
	if (slice.deep && slice.slice_ns >= IDLE_SLICE_DEEP_NS) {
		slice.slice_ns = IDLE_UNBOUNDED;
		t->slice_ns = IDLE_SLICE_DEEP_NS;
	}
	return slice;
}

/** Whether application threads have polled since the last check, and were still polling at `due_ns`. */
static bool sees_polling(const struct idle_thread *t, const struct idle_seen *seen, uint64_t due_ns)
{
	if (seen->last_ns == IDLE_POLLS_NOW) /* a poll that fetches payload may take longer than a slice */
		return true;
	return seen->polls != t->polls && (seen->last_ns + IDLE_POLLING_NS > due_ns || let_in(seen, IDLE_YIELDING_NS));
}

enum idle_act idle_thread_checked(struct idle_thread *t, const struct idle_seen *seen, bool rang, uint64_t due_ns)
{
	bool help = has_help(t, seen->work_ns, seen->now_ns), polled = seen->polls != t->polls;

	if (seen->waits_now || (!rang && (help || sees_polling(t, seen, due_ns)))) {
		t->polls = seen->polls;
		t->checks += !seen->waits_now;
		t->doubts = false;
		return IDLE_STAND_BY;
	}
	if (polled)
		t->refused = 0; /* do not wait for the lock yet: a poller's step may hold it for longer than a slice */
	/* If application threads have polled since the last check, but not just before this check, the poller may have
	 * lost the CPU only for a moment, perhaps to the timer that woke this thread. Then do not serve yet, but check
	 * again soon: if this thread served while the poller still polls, each packet would cost a wake-up. */
	t->doubts = !rang && !t->doubts && polled && !seen->will_sleep;
	t->polls = seen->polls;
	return t->doubts ? IDLE_STAND_BY : IDLE_STEP;
}

bool idle_thread_waits_for_lock(struct idle_thread *t, bool refused)
{
	bool waits = refused && ++t->refused >= IDLE_LOCK_TRIES;

	if (waits || !refused)
		t->refused = 0;
	return waits;
}

/** Adapt credit_full and checks_long. @param waited packets had to wait for a check: the thread began to stand by too
 *  early, or its slices were too long. */
static void learn_from_checks(struct idle_thread *t, bool waited)
{
	if (t->checks >= t->checks_long) {
		if (waited && t->checks_long < IDLE_CHECKS_MOST)
			t->checks_long *= 2;
		else if (!waited && t->checks_long > IDLE_CHECKS_LONG)
			t->checks_long /= 2;
	}
	if (t->checks >= IDLE_CHECKS_RIGHT)
		t->credit_full = IDLE_CREDIT_FULL;
	else if (waited && t->credit_full < IDLE_CREDIT_MOST)
		t->credit_full *= 2;
	t->checks = 0;
}

void idle_thread_returned(struct idle_thread *t, const struct idle_seen *seen, uint64_t finds, unsigned got, bool rang)
{
	learn_from_checks(t, got > 0 && !rang && !let_in(seen, IDLE_LET_IN_NS));
	t->credit = seen->will_sleep || got > 0 ? t->credit_full : IDLE_CREDIT_NEW;
	t->finds = finds;
	t->naps = IDLE_NAPS;
}
