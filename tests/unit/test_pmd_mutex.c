/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_mutex.c - the engine's lock: one thread at a time holds it, and no waiter is forgotten. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "mutex.h"

#define THREADS 6
#define ROUNDS	20000

struct shared {
	struct pmd_mutex mutex;
	unsigned within, rounds; /* protected by the mutex */
	unsigned errors;	 /* atomic */
	bool holds_long;
};

static void hold(const struct shared *s)
{
	const struct timespec while_others_sleep = {.tv_nsec = 20000};

	if (s->holds_long && s->rounds % 64 == 0)
		nanosleep(&while_others_sleep, NULL);
}

static void *contend(void *arg)
{
	struct shared *s = arg;
	unsigned errors = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		errno = EXDEV;
		if (i % 5 || !pmd_mutex_trylock(&s->mutex))
			pmd_mutex_lock(&s->mutex);
		errors += s->within++ != 0;
		errors += errno != EXDEV;
		s->rounds++;
		hold(s);
		errno = EXDEV;
		s->within--;
		pmd_mutex_unlock(&s->mutex);
		errors += errno != EXDEV;
	}
	__atomic_fetch_add(&s->errors, errors, __ATOMIC_RELAXED);
	return NULL;
}

static void contended(bool holds_long)
{
	struct shared s = {.holds_long = holds_long};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, contend, &s), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(s.errors, 0);
	assert_int_equal(s.rounds, THREADS * ROUNDS);
	assert_int_equal(s.mutex.state, 0);
}

static void mutex__excludes_other_threads_when_held_briefly(void **state)
{
	(void)state;
	contended(false);
}

/** A thread holds the lock for longer than waiters spin: they sleep, and all get it. */
static void mutex__excludes_other_threads_when_held_for_long(void **state)
{
	(void)state;
	contended(true);
}

static void mutex__trylock_fails_while_the_lock_is_held(void **state)
{
	struct pmd_mutex mutex = {0};

	(void)state;
	assert_true(pmd_mutex_trylock(&mutex));
	assert_false(pmd_mutex_trylock(&mutex));
	pmd_mutex_unlock(&mutex);
	assert_true(pmd_mutex_trylock(&mutex));
	pmd_mutex_unlock(&mutex);
	pmd_mutex_lock(&mutex);
	assert_false(pmd_mutex_trylock(&mutex));
	pmd_mutex_unlock(&mutex);
}

static void *take(void *arg)
{
	struct pmd_mutex *mutex = arg;

	pmd_mutex_lock(mutex);
	pmd_mutex_unlock(mutex);
	return NULL;
}

/** The holder sees that another thread sleeps waiting for the lock, until that thread has got the lock. */
static void mutex__reports_that_a_thread_waits_for_it(void **state)
{
	struct pmd_mutex mutex = {0};
	pthread_t thread;

	(void)state;
	pmd_mutex_lock(&mutex);
	assert_false(pmd_mutex_is_wanted(&mutex));
	assert_int_equal(pthread_create(&thread, NULL, take, &mutex), 0);
	while (!pmd_mutex_is_wanted(&mutex))
		sched_yield();
	pmd_mutex_unlock(&mutex);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pmd_mutex_lock(&mutex);
	assert_false(pmd_mutex_is_wanted(&mutex));
	pmd_mutex_unlock(&mutex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutex__trylock_fails_while_the_lock_is_held),
		cmocka_unit_test(mutex__reports_that_a_thread_waits_for_it),
		cmocka_unit_test(mutex__excludes_other_threads_when_held_briefly),
		cmocka_unit_test(mutex__excludes_other_threads_when_held_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
