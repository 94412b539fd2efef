/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mutex.h - the engine's lock (pmd-internal). Calls of the application take and release the lock, mostly without
 * contention. That costs two inlined atomic instructions, where a pthread mutex takes some sixty instructions. Under
 * contention a thread spins a little, as with an adaptive mutex, and then sleeps. Not recursive. A forked child may
 * release a mutex that the forking thread had taken.
 */
#ifndef PMD_MUTEX_H
#define PMD_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

struct pmd_mutex {
	uint32_t state; /* 0: free, 1: taken, 2: taken, and another thread may sleep on it */
};

/** Take a mutex that another thread holds: spin for a while, then sleep. */
void pmd_mutex_wait(struct pmd_mutex *m);
/** Wake one sleeping thread, if any. */
void pmd_mutex_wake(struct pmd_mutex *m);

/** @return false: the mutex is taken. */
static inline bool pmd_mutex_trylock(struct pmd_mutex *m)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&m->state, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void pmd_mutex_lock(struct pmd_mutex *m)
{
	if (!pmd_mutex_trylock(m))
		pmd_mutex_wait(m);
}

static inline void pmd_mutex_unlock(struct pmd_mutex *m)
{
	if (__atomic_exchange_n(&m->state, 0, __ATOMIC_RELEASE) == 2)
		pmd_mutex_wake(m);
}

/** Whether another thread sleeps on a mutex that the caller holds. If the caller had to sleep to get the mutex, the
 *  result is always true. */
static inline bool pmd_mutex_is_wanted(const struct pmd_mutex *m)
{
	return __atomic_load_n(&m->state, __ATOMIC_RELAXED) == 2;
}

#endif
