/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_trigger.c - nic/queue/trigger.c: the order in which work starts, also against a model that sorts it; chains;
 * cancellation; lack of room.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core.h"
#include "trigger.h"
#include "wire_util.h"

#define MANY	 100000u
#define STEPS	 100000u
#define COUNTERS 1000u
#define TRIES	 16u   /* after so many failed tries a call stops; see TRIES of trigger.c */
#define SOON	 1000u /* ns; within this time the next call follows if counters are still untried */

struct unit;

/** Work that records its start and may change a counter. */
struct work {
	struct nic_trig_work trig;
	struct unit *u;
	unsigned name;
	struct nic_trig_cntr *adds_to, *clears; /* the counters to change; NULL: none */
	unsigned refusals;			/* how often its start fails for lack of room */
};

struct unit {
	struct nic *nic;
	struct nic_trig_cntr a, b;
	unsigned *started, n_started;
	bool limited; /* true: each start takes one from `room`, and fails if none is left */
	unsigned room;
	unsigned amid; /* calls of fire() that have not returned */
	struct work *work;
};

static uint64_t seed = 1;

static void some_random(void *ctx, void *out, size_t len)
{
	(void)ctx;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = (uint8_t)util_random(&seed);
}

static int fire(struct nic_trig_work *trig)
{
	struct work *w = (struct work *)trig;
	struct unit *u = w->u;

	assert_int_equal(u->amid, 0);
	assert_false(nic_trig_cancel(trig));
	if (w->refusals) {
		w->refusals--;
		return -EAGAIN;
	}
	if (u->limited && !u->room)
		return -EAGAIN;
	u->room -= u->limited;
	u->amid++;
	u->started[u->n_started++] = w->name;
	if (w->clears)
		nic_trig_set(u->nic, w->clears, false, 0);
	if (w->adds_to)
		nic_trig_add(u->nic, w->adds_to, false, 1);
	nic_trig_run(u->nic); /* a front-end that posts a request in fire() may call this */
	u->amid--;
	return 0;
}

static void unit_open(struct unit *u)
{
	const struct nic_config config = {.random = some_random};

	*u = (struct unit){.n_started = 0};
	assert_int_equal(nic_create(&config, &u->nic), 0);
	nic_trig_cntr_init(&u->a);
	nic_trig_cntr_init(&u->b);
	u->started = calloc(MANY + 1, sizeof(*u->started));
	u->work = calloc(MANY + 1, sizeof(*u->work));
	assert_non_null(u->started);
	assert_non_null(u->work);
	for (unsigned i = 0; i <= MANY; i++)
		u->work[i] = (struct work){.trig.fire = fire, .u = u, .name = i};
}

static void unit_close(struct unit *u)
{
	nic_trig_cntr_fini(&u->a);
	nic_trig_cntr_fini(&u->b);
	nic_destroy(u->nic);
	free(u->started);
	free(u->work);
}

static void queue(struct unit *u, struct nic_trig_cntr *c, unsigned name, uint64_t threshold)
{
	assert_int_equal(nic_trig_queue(u->nic, c, threshold, &u->work[name].trig), 0);
	nic_trig_run(u->nic);
}

static void add(struct unit *u, struct nic_trig_cntr *c, bool failed, uint64_t n)
{
	nic_trig_add(u->nic, c, failed, n);
	nic_trig_run(u->nic);
}

/** Check that exactly these have been started since the last check, in this order. */
#define expect(u, ...)                                                                                                 \
	do {                                                                                                           \
		const unsigned names_[] = {__VA_ARGS__};                                                               \
		assert_int_equal((u)->n_started, sizeof(names_) / sizeof(names_[0]));                                  \
		assert_memory_equal((u)->started, names_, sizeof(names_));                                             \
		(u)->n_started = 0;                                                                                    \
	} while (0)

static void trigger__reached_work_starts_by_threshold_then_queue_order(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	queue(&u, &u.a, 1, 7);
	queue(&u, &u.a, 2, 3);
	queue(&u, &u.a, 3, 7);
	queue(&u, &u.a, 4, 5);
	queue(&u, &u.a, 5, 3);
	queue(&u, &u.a, 6, 9);
	assert_int_equal(u.n_started, 0);
	add(&u, &u.a, false, 2);
	assert_int_equal(u.n_started, 0);
	add(&u, &u.a, false, 6);
	expect(&u, 2, 5, 4, 1, 3);
	add(&u, &u.a, false, 1);
	expect(&u, 6);
	unit_close(&u);
}

static void trigger__work_with_a_reached_threshold_starts_at_once(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	queue(&u, &u.a, 1, 0);
	expect(&u, 1);
	add(&u, &u.a, false, 4);
	queue(&u, &u.a, 2, 4);
	queue(&u, &u.a, 3, 2);
	expect(&u, 2, 3);
	unit_close(&u);
}

static void trigger__successes_and_failures_add_up_without_wrapping(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	queue(&u, &u.a, 1, 2);
	queue(&u, &u.a, 2, UINT64_MAX);
	add(&u, &u.a, true, 1);
	add(&u, &u.a, false, 1);
	expect(&u, 1);
	nic_trig_set(u.nic, &u.a, false, UINT64_MAX - 1);
	nic_trig_run(u.nic);
	expect(&u, 2);
	nic_trig_set(u.nic, &u.a, true, UINT64_MAX - 1);
	queue(&u, &u.a, 3, UINT64_MAX);
	expect(&u, 3);
	unit_close(&u);
}

static void trigger__reached_work_starts_although_the_counter_is_reset(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	u.work[1].clears = &u.a;
	queue(&u, &u.a, 1, 1);
	queue(&u, &u.a, 2, 2);
	queue(&u, &u.a, 3, 9);
	add(&u, &u.a, false, 5);
	expect(&u, 1, 2);
	assert_int_equal(nic_trig_part(&u.a, false), 0);
	queue(&u, &u.a, 4, 1);
	assert_int_equal(u.n_started, 0);
	add(&u, &u.a, false, 1);
	expect(&u, 4);
	assert_true(nic_trig_cancel(&u.work[3].trig));
	unit_close(&u);
}

/* Each work starts the next one, through one of two counters in turn. fire() asserts that it is not called within
 * itself. */
static void trigger__long_chains_need_no_stack(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	for (unsigned i = 0; i < MANY; i++) {
		u.work[i].adds_to = i % 2 ? &u.a : &u.b;
		queue(&u, i % 2 ? &u.b : &u.a, i, i / 2 + 1);
	}
	add(&u, &u.a, false, 1);
	assert_int_equal(u.n_started, MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(u.started[i], i);
	unit_close(&u);
}

static void trigger__cancelled_work_is_not_started(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	u.work[1].refusals = 1;
	for (unsigned i = 1; i < 8; i++)
		queue(&u, &u.a, i, i < 4 ? 1 : 2);
	add(&u, &u.a, false, 1);
	assert_int_equal(u.n_started, 0); /* the first has no room, and none may overtake it */
	assert_true(nic_trig_cancel(&u.work[2].trig));
	assert_true(nic_trig_cancel(&u.work[5].trig));
	assert_false(nic_trig_cancel(&u.work[5].trig));
	nic_trig_retry(u.nic);
	nic_trig_run(u.nic);
	expect(&u, 1, 3);
	assert_false(nic_trig_cancel(&u.work[1].trig));
	add(&u, &u.a, true, 1);
	expect(&u, 4, 6, 7);
	/* Canceled work can be queued again. */
	queue(&u, &u.a, 2, 3);
	add(&u, &u.a, false, 1);
	expect(&u, 2);
	unit_close(&u);
}

static void trigger__a_full_queue_is_retried_on_a_completion(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	u.work[2].refusals = 2;
	queue(&u, &u.a, 1, 1);
	queue(&u, &u.a, 2, 2);
	queue(&u, &u.a, 3, 3);
	queue(&u, &u.b, 4, 1);
	add(&u, &u.a, false, 3);
	expect(&u, 1);
	add(&u, &u.b, false, 1); /* work of other counters still starts */
	expect(&u, 4);
	nic_trig_run(u.nic);
	assert_int_equal(u.n_started, 0);
	u.nic->completions++;
	nic_trig_run(u.nic);
	assert_int_equal(u.n_started, 0);
	assert_int_equal(u.work[2].refusals, 0);
	queue(&u, &u.a, 5, 1);
	u.nic->completions++;
	nic_trig_run(u.nic);
	expect(&u, 2, 3, 5);
	unit_close(&u);
}

/** There is room for one start at a time: counters get it in turn. */
static void trigger__counters_without_room_take_turns(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	u.limited = true;
	for (unsigned i = 1; i <= 3; i++) {
		queue(&u, &u.a, i, 1);
		queue(&u, &u.b, 10 + i, 1);
	}
	add(&u, &u.a, false, 1);
	add(&u, &u.b, false, 1);
	for (unsigned i = 1; i <= 3; i++) {
		for (unsigned turn = 0; turn < 2; turn++) {
			u.room = 1;
			u.nic->completions++;
			nic_trig_run(u.nic);
		}
		expect(&u, i, 10 + i);
	}
	unit_close(&u);
}

static void trigger__a_full_queue_is_retried_by_a_timer(void **state)
{
	struct unit u;
	uint64_t due;

	(void)state;
	unit_open(&u);
	u.work[1].refusals = 2;
	queue(&u, &u.a, 1, 1);
	assert_int_equal(nic_next_deadline(u.nic), UINT64_MAX);
	add(&u, &u.a, false, 1);
	for (unsigned i = 0; i < 2; i++) {
		due = nic_next_deadline(u.nic);
		assert_int_not_equal(due, UINT64_MAX);
		nic_timeout(u.nic, due - 1);
		assert_int_equal(u.n_started, 0);
		nic_timeout(u.nic, due);
	}
	expect(&u, 1);
	assert_int_equal(nic_next_deadline(u.nic), UINT64_MAX);
	unit_close(&u);
}

/** Report a completion and run the calls that the unit asks for soon after it. @return how many. */
static unsigned complete_one(struct unit *u)
{
	unsigned calls = 0;
	uint64_t refused;

	u->nic->completions++;
	do {
		refused = u->nic->counters[NIC_CNT_trig_no_room];
		if (calls++)
			nic_timeout(u->nic, nic_next_deadline(u->nic));
		else
			nic_trig_run(u->nic);
		assert_true(u->nic->counters[NIC_CNT_trig_no_room] - refused <= TRIES);
	} while (nic_next_deadline(u->nic) - u->nic->now <= SOON);
	return calls;
}

/* Of the starts that one call tries, only the last finds room: the others are still tried again later. */
static void trigger__counters_without_room_are_all_retried(void **state)
{
	static struct nic_trig_cntr cntr[TRIES + 1];
	struct unit u;

	(void)state;
	unit_open(&u);
	for (unsigned i = 0; i <= TRIES; i++) {
		nic_trig_cntr_init(&cntr[i]);
		u.work[i].refusals = i < TRIES ? UINT_MAX : 1;
		queue(&u, &cntr[i], i, 0);
	}
	while (u.n_started == 0) {
		assert_int_not_equal(nic_next_deadline(u.nic), UINT64_MAX);
		nic_timeout(u.nic, nic_next_deadline(u.nic));
	}
	for (unsigned i = 0; i < TRIES; i++)
		u.work[i].refusals = 0;
	while (u.n_started <= TRIES) {
		assert_int_not_equal(nic_next_deadline(u.nic), UINT64_MAX);
		nic_timeout(u.nic, nic_next_deadline(u.nic));
	}
	assert_int_equal(nic_next_deadline(u.nic), UINT64_MAX);
	for (unsigned i = 0; i <= TRIES; i++)
		nic_trig_cntr_fini(&cntr[i]);
	unit_close(&u);
}

/* A completion may have made room for one request, but the NIC does not know for which counter's. It tries the work of
 * all counters, but at most TRIES of them in each call. */
static void trigger__one_call_retries_at_most_16_counters_without_room(void **state)
{
	static struct nic_trig_cntr cntr[COUNTERS];
	struct unit u;

	(void)state;
	unit_open(&u);
	for (unsigned i = 0; i < COUNTERS; i++) {
		nic_trig_cntr_init(&cntr[i]);
		u.work[i].refusals = UINT_MAX;
		queue(&u, &cntr[i], i, 0);
	}
	assert_in_range(complete_one(&u), COUNTERS / TRIES, COUNTERS / TRIES + 1);
	assert_int_equal(u.n_started, 0);
	assert_int_equal(u.nic->counters[NIC_CNT_trig_no_room], 2 * COUNTERS);
	/* Requests that have room start, although others without room wait before them. */
	u.work[COUNTERS - 1].refusals = u.work[COUNTERS / 2].refusals = 0;
	complete_one(&u);
	expect(&u, COUNTERS / 2, COUNTERS - 1);
	/* Work whose threshold is reached now starts at once, although work of other counters has found no room. */
	u.work[COUNTERS / 3].refusals = 0;
	u.nic->completions++;
	queue(&u, &u.a, COUNTERS, 0);
	expect(&u, COUNTERS);
	complete_one(&u);
	expect(&u, COUNTERS / 3);
	for (unsigned i = 0; i < COUNTERS; i++) {
		nic_trig_cancel(&u.work[i].trig);
		nic_trig_cntr_fini(&cntr[i]);
	}
	unit_close(&u);
}

/* ---- against a model ----------------------------------------------------------------------------------------- */

/** The model of one work: whether it waits, for which threshold, and since when. */
struct model {
	bool waits;
	uint64_t threshold, order;
};

static int by_threshold_and_order(const void *a, const void *b)
{
	const struct model *x = *(struct model *const *)a, *y = *(struct model *const *)b;

	if (x->threshold != y->threshold)
		return x->threshold < y->threshold ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/** Check that exactly the work that the model expects at this sum was started, and remove it from the model. */
static void model_reach(struct unit *u, struct model *m, unsigned n, uint64_t sum)
{
	struct model **reached = calloc(n, sizeof(*reached));
	unsigned k = 0;

	assert_non_null(reached);
	for (unsigned i = 0; i < n; i++)
		if (m[i].waits && m[i].threshold <= sum)
			reached[k++] = &m[i];
	qsort(reached, k, sizeof(*reached), by_threshold_and_order);
	assert_int_equal(u->n_started, k);
	for (unsigned i = 0; i < k; i++) {
		assert_int_equal(u->started[i], reached[i] - m);
		reached[i]->waits = false;
	}
	u->n_started = 0;
	free(reached);
}

static void trigger__matches_a_sorting_model(void **state)
{
	enum { N = 300 };
	struct model m[N] = {0};
	uint64_t order = 0, sum = 0;
	struct unit u;

	(void)state;
	unit_open(&u);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(util_random(&seed) % N), what = (unsigned)(util_random(&seed) % 16);
		uint64_t threshold = sum + util_random(&seed) % 40;

		if (what == 0) {
			uint64_t n = util_random(&seed) % 12;

			add(&u, &u.a, n % 2, n);
			sum += n;
		} else if (what < 4) {
			assert_int_equal(nic_trig_cancel(&u.work[i].trig), m[i].waits);
			m[i].waits = false;
		} else if (!m[i].waits) {
			m[i] = (struct model){true, threshold, order++};
			queue(&u, &u.a, i, threshold);
		}
		model_reach(&u, m, N, sum);
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(nic_trig_cancel(&u.work[i].trig), m[i].waits);
	unit_close(&u);
}

static void trigger__a_counter_with_100000_work_items_starts_them_in_order(void **state)
{
	struct unit u;

	(void)state;
	unit_open(&u);
	for (unsigned i = 0; i < MANY; i++)
		queue(&u, &u.a, i, MANY - i);
	for (unsigned i = 0; i < MANY; i += 2)
		assert_true(nic_trig_cancel(&u.work[i].trig));
	add(&u, &u.a, false, MANY);
	assert_int_equal(u.n_started, MANY / 2);
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_int_equal(u.started[i], MANY - 1 - 2 * i);
	unit_close(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trigger__reached_work_starts_by_threshold_then_queue_order),
		cmocka_unit_test(trigger__work_with_a_reached_threshold_starts_at_once),
		cmocka_unit_test(trigger__successes_and_failures_add_up_without_wrapping),
		cmocka_unit_test(trigger__reached_work_starts_although_the_counter_is_reset),
		cmocka_unit_test(trigger__long_chains_need_no_stack),
		cmocka_unit_test(trigger__cancelled_work_is_not_started),
		cmocka_unit_test(trigger__a_full_queue_is_retried_on_a_completion),
		cmocka_unit_test(trigger__counters_without_room_take_turns),
		cmocka_unit_test(trigger__one_call_retries_at_most_16_counters_without_room),
		cmocka_unit_test(trigger__counters_without_room_are_all_retried),
		cmocka_unit_test(trigger__a_full_queue_is_retried_by_a_timer),
		cmocka_unit_test(trigger__matches_a_sorting_model),
		cmocka_unit_test(trigger__a_counter_with_100000_work_items_starts_them_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
