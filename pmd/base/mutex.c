/* SPDX-License-Identifier: BSD-3-Clause */
/* mutex.c - the slow path of mutex.h, taken under contention: waiting for a mutex, and waking a waiter. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mutex.h"

/* What the CPU offers a loop that waits for memory. */
#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield" ::: "memory")
#else
#define PAUSE() __asm__ volatile("" ::: "memory")
#endif

#define SPINS 100 /* tries before sleeping: most calls hold the lock for less than a microsecond */

void pmd_mutex_wait(struct pmd_mutex *m)
{
	int saved = errno; /* the application's errno, which must not change */

	for (unsigned i = 0; i < SPINS; i++) {
		if (__atomic_load_n(&m->state, __ATOMIC_RELAXED) == 0 && pmd_mutex_trylock(m))
			return;
		PAUSE();
	}
	/* From here on this thread takes the mutex with state 2, because other threads may sleep on it. */
	while (__atomic_exchange_n(&m->state, 2, __ATOMIC_ACQUIRE) != 0)
		syscall(SYS_futex, &m->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	errno = saved;
}

void pmd_mutex_wake(struct pmd_mutex *m)
{
	int saved = errno;

	syscall(SYS_futex, &m->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
