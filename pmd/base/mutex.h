/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mutex.h - the engine's lock (pmd-internal). Every call of an application takes and gives it back, mostly with nobody else
 * about: then it is two instructions on the word, inline, where a pthread mutex takes some sixty. With somebody about it spins a
 * little, as an adaptive mutex does, and then sleeps. Not recursive; a thread may give back what the one that forked has taken.
 */
#ifndef PMD_MUTEX_H
#define PMD_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

struct pmd_mutex {
	uint32_t state; /* 0: free, 1: taken, 2: taken, and somebody may sleep */
};

/** Take a mutex that is taken; sleeps. */
void pmd_mutex_wait(struct pmd_mutex *m);
/** Somebody may sleep: wake one. */
void pmd_mutex_wake(struct pmd_mutex *m);

/** @return false: somebody has it. */
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

/** Of a mutex that the caller has, and has not slept for: whether somebody else has gone to sleep for it meanwhile. */
static inline bool pmd_mutex_is_wanted(const struct pmd_mutex *m)
{
	return __atomic_load_n(&m->state, __ATOMIC_RELAXED) == 2;
}

#endif
