/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - an application thread that sleeps until something of the NIC happens stands in for the engine's thread: what
 * comes wakes it alone, not first the engine's thread and then it.
 *
 * One thread at a time does so; others sleep as they would without. The engine's thread looks on meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "engine_priv.h"

/** The application's thread goes on its way, or is cancelled. */
static void wait_leave(void *arg)
{
	struct pmd_engine *e = arg;

	__atomic_store_n(&e->thread_wake_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&e->waiter, false, __ATOMIC_SEQ_CST); /* pairs with thread_slice in thread.c */
	if (__atomic_load_n(&e->thread_deep, __ATOMIC_SEQ_CST))
		pmd_engine_kick(e);
}

/** What there is to do is done in the thread's stead. Lock held. @return packets received. */
static unsigned wait_work(struct pmd_engine *e, unsigned woken)
{
	pmd_links_awake(e->links);
	if (woken & PMD_WOKEN_CONTROL)
		pmd_engine_look_after(e);
	return pmd_engine_step(e, THREAD_RX_BUDGET, true);
}

/** One step, before a sleep. @return how long to sleep. */
static uint64_t wait_step(struct pmd_engine *e, unsigned woken)
{
	uint64_t timeout, now_ns;
	unsigned got;
	bool thread_serves;

	pthread_mutex_lock(&e->lock);
	thread_serves = !__atomic_load_n(&e->polled, __ATOMIC_RELAXED);
	__atomic_store_n(&e->polled, true, __ATOMIC_RELAXED);
	got = wait_work(e, woken);
	now_ns = pmd_now_ns();
	timeout = pmd_engine_timeout(e, got, now_ns);
	if (timeout && !pmd_links_sleep(e->links))
		timeout = 0;
	e->thread_retries = pmd_engine_is_full(e);
	__atomic_store_n(&e->thread_wake_ns,
			 timeout == UINT64_MAX ? UINT64_MAX - PMD_WAKE_THREAD
			 : timeout	       ? (now_ns + timeout) & ~(uint64_t)PMD_WAKE_THREAD
					       : 0,
			 __ATOMIC_RELAXED);
	pthread_mutex_unlock(&e->lock);
	/* It sleeps for what it knew then. From now on it looks on, and so sees when we have gone. */
	if (thread_serves)
		pmd_engine_kick(e);
	return timeout;
}

/** The last step, when something else came with what was waited for: its bell is taken, and nobody else has heard it. */
static void wait_finish(struct pmd_engine *e, unsigned woken)
{
	pthread_mutex_lock(&e->lock);
	wait_work(e, woken);
	pthread_mutex_unlock(&e->lock);
}

/**
 * Whether a call that a signal has interrupted is to go on, as read() would. poll() does not say whether the handler was
 * installed with SA_RESTART: when all of the program's are, it was.
 */
static bool wait_restarts(void)
{
	struct sigaction act;

	for (int sig = 1; sig < SIGRTMAX; sig++)
		if (sig != SIGSEGV && sig != SIGBUS && sigaction(sig, NULL, &act) == 0 && act.sa_handler != SIG_DFL &&
		    act.sa_handler != SIG_IGN && !(act.sa_flags & SA_RESTART))
			return false;
	return true;
}

static int wait_loop(struct pmd_engine *e, int fd)
{
	unsigned woken = 0;

	for (;;) {
		woken = pmd_engine_sleep(e, fd, true, wait_step(e, woken));
		if (woken & PMD_WOKEN_OTHER) {
			if (woken != PMD_WOKEN_OTHER)
				wait_finish(e, woken);
			return 0;
		}
		if (woken & PMD_WOKEN_CLOSED)
			return -EBUSY;
		if ((woken & PMD_WOKEN_SIGNAL) && !wait_restarts())
			return -EINTR;
	}
}

int pmd_wait(struct pmd_engine *e, int fd)
{
	int rc;

	if (e->dead || (e->progress != PMD_PROGRESS_AUTO && e->progress != PMD_PROGRESS_INLINE) ||
	    __atomic_exchange_n(&e->waiter, true, __ATOMIC_SEQ_CST))
		return -EBUSY;
	__atomic_fetch_add(&e->waits, 1, __ATOMIC_RELAXED);
	pthread_cleanup_push(wait_leave, e);
	rc = wait_loop(e, fd);
	pthread_cleanup_pop(1);
	return rc;
}
