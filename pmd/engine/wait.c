/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - pmd_wait: an application thread that waits until the NIC has an event serves in place of the engine's
 * thread. Packets wake the application thread directly, without waking the engine's thread first.
 *
 * Only one application thread at a time serves; other threads that wait sleep on their own descriptors. While an
 * application thread serves, the engine's thread stands by.
 *
 * A sleep and a wake-up cost each side more than a message. If messages follow each other closely, the application
 * thread polls for a while before it sleeps (and yields the CPU, as in all polling). It starts polling after several
 * short sleeps; whenever polling has found nothing, more short sleeps must come before it polls again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "engine_priv.h"

void pmd_wait_init(struct pmd_engine *e)
{
	e->waiter.deadline_ns = UINT64_MAX;
	idle_spin_init(&e->waiter.spin);
}

void pmd_wait_wake(struct pmd_engine *e)
{
	e->waiter.asleep = false;
	pmd_engine_wake(e);
}

void pmd_wait_expire(struct pmd_engine *e)
{
	uint64_t deadline_ns = __atomic_load_n(&e->waiter.deadline_ns, __ATOMIC_RELAXED);

	if (deadline_ns <= pmd_now_ns() &&
	    __atomic_compare_exchange_n(&e->waiter.deadline_ns, &deadline_ns, UINT64_MAX, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED)) /* before the load of waiter.serves, which was set first */
		pmd_engine_wake(e);
}

static bool wait_is_over(const struct pmd_engine *e)
{
	return __atomic_load_n(e->waiter.ready, __ATOMIC_RELAXED);
}

/** End the wait. For the next microseconds the application thread counts as polling. Lock held. @return whether the
 *  caller has to kick the engine's thread. */
static bool wait_end(struct pmd_engine *e)
{
	pmd_sleep_over(e);
	e->waiter.ready = NULL;
	e->waiter.asleep = false;
	__atomic_store_n(&e->waiter.deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
	pmd_sleep_end(e);
	pmd_inline_polled(e, e->host.now_ns);
	__atomic_store_n(&e->waiter.serves, false, __ATOMIC_SEQ_CST); /* pairs with thread_slice() in thread.c */
	return __atomic_load_n(&e->thread.deep, __ATOMIC_SEQ_CST);
}

/** End a wait whose event has occurred. If packets have come through a link, send the delayed ACKs at once, so that the
 *  peer can handle its completions while the application prepares its response. Lock held. @return as wait_end(). */
static bool wait_succeed(struct pmd_engine *e)
{
	if (e->steps.port.heard_ns == e->host.now_ns)
		pmd_engine_acknowledge(e);
	return wait_end(e);
}

/** End a wait that failed, or whose thread was cancelled. */
static void wait_give_up(void *arg)
{
	struct pmd_engine *e = arg;
	bool call;

	pmd_mutex_lock(&e->lock);
	call = wait_end(e);
	pmd_mutex_unlock(&e->lock);
	if (call)
		pmd_engine_kick(e);
}

/**
 * Do the engine's work in place of its thread. If only the bell rang, send ACKs at once: a link carries them cheaply,
 * and they wake the peer, which then soon finds the application's response as well. Otherwise packets may have come
 * through the port, where each packet costs both sides. Then do not send ACKs yet, since the application's response may
 * carry them. If the wait is not over after this work, no response is coming soon, so send the ACKs. Lock held. @return
 * packets received.
 */
static unsigned wait_work(struct pmd_engine *e, unsigned woken)
{
	bool bell = woken == PMD_WOKEN_BELL;
	unsigned got;

	e->waiter.asleep = false;
	pmd_sleep_over(e);
	if (woken & PMD_WOKEN_CONTROL)
		pmd_engine_upkeep(e);
	/* If only the bell rang, skip the port unless a check of the port is due. The port's descriptor would have
	 * reported packets; for a port without a descriptor, the timeout of the sleep ensures checks. */
	got = pmd_engine_step_with(e, THREAD_RX_BUDGET, !bell, bell);
	if (nic_acks_wait(e->host.nic) && !wait_is_over(e))
		got += pmd_engine_step_with(e, THREAD_RX_BUDGET, false, true);
	if (bell && got == 0)
		pmd_engine_bell_drain(e); /* must come before the last check of the links */
	return got;
}

/** Announce that the application thread is about to sleep: from now on other threads have to wake it. Lock held.
 *  @param stepped the caller has taken a step since it took the lock. @param got packets that the step received.
 *  @return how long the thread may sleep, ns; 0: it must not sleep. */
static uint64_t wait_sleep(struct pmd_engine *e, bool stepped, unsigned got)
{
	uint64_t now_ns = pmd_now_ns(), timeout = pmd_engine_timeout(e, got, now_ns);
	uint64_t wake_ns;

	if (stepped)
		pmd_engine_held(e, e->host.now_ns, now_ns);
	if (timeout && !pmd_sleep_announce(e))
		timeout = 0;
	e->waiter.asleep = timeout != 0;
	wake_ns = pmd_sleep_begin(e, now_ns, timeout, 0);
	__atomic_store_n(&e->waiter.deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
	if (timeout == 0 || timeout == UINT64_MAX)
		return timeout;
	/* Setting a timer costs as much as a wake-up. So sleep without a timer if the engine's thread makes its next
	 * check before the deadline: it then sees the deadline, and wakes this thread when the deadline comes. */
	__atomic_store_n(&e->waiter.deadline_ns, wake_ns, __ATOMIC_SEQ_CST); /* pairs with thread_rest() in thread.c */
	return __atomic_load_n(&e->thread.check_ns, __ATOMIC_SEQ_CST) <= wake_ns ? UINT64_MAX : timeout;
}

/** Before a sleep, do the work that is due. On the first call there is usually no work. @param timeout set to how long
 *  the thread may sleep. @return false: the wait is over. */
static bool wait_step(struct pmd_engine *e, bool first, unsigned woken, uint64_t *timeout)
{
	bool thread_serves, over, steps;
	unsigned got = 0;

	pmd_mutex_lock(&e->lock);
	thread_serves = pmd_thread_relieve(e);
	steps = !first || nic_acks_wait(e->host.nic);
	if (steps)
		got = wait_work(e, woken);
	over = wait_is_over(e);
	if (over)
		thread_serves |= wait_succeed(e);
	else
		*timeout = pmd_engine_wait_prepare(e) ? wait_sleep(e, steps, got) : 0;
	pmd_mutex_unlock(&e->lock);
	/* Kick the engine's thread in two cases: it still sleeps as the serving thread, and must stand by instead; or
	 * this wait is over while that thread stands by for a long slice (thread.deep). */
	if (thread_serves)
		pmd_engine_kick(e);
	return !over;
}

/**
 * Whether to continue the wait after a signal, as read() would. poll() does not report whether the signal's handler was
 * installed with SA_RESTART: continue only if all handlers of the program have the flag.
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

/** Serve and sleep until the wait is over. @return 0 if wait_end() was called; a negative errno if the caller still has
 *  to call it. Not inline: pthread_cleanup_push in the caller contains a setjmp, and compilers would warn about
 *  clobbered variables. */
static __attribute__((noinline)) int wait_loop(struct pmd_engine *e)
{
	unsigned woken = PMD_WOKEN_BELL;
	uint64_t timeout = 0, since_ns, slept_ns;

	for (bool first = true; wait_step(e, first, woken, &timeout); first = false) {
		since_ns = pmd_now_ns();
		woken = pmd_engine_wait(e, timeout);
		if (woken & PMD_WOKEN_CLOSED)
			return -EBUSY;
		if ((woken & PMD_WOKEN_SIGNAL) && !wait_restarts())
			return -EINTR;
		slept_ns = pmd_clock_age(pmd_now_ns(), since_ns);
		idle_spin_slept(&e->waiter.spin, woken == PMD_WOKEN_BELL && slept_ns < IDLE_SHORT_NS);
	}
	return 0;
}

/** Poll for a while, if enough short sleeps have come before. @return whether the wait is over. */
static bool wait_spin(struct pmd_engine *e)
{
	uint64_t end_ns = pmd_now_ns() + IDLE_SPIN_NS;
	bool over, call = false;

	if (!idle_spin_is_due(&e->waiter.spin) || !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED))
		return false;
	do {
		pmd_lock(e);
		pmd_progress(e, 1); /* yields the CPU after many empty polls */
		over = wait_is_over(e);
		if (over) {
			idle_spin_paid(&e->waiter.spin);
			/* Also kick the engine's thread if it began to serve just as the spin began. */
			call = wait_succeed(e) || !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED);
		}
		pmd_unlock(e);
	} while (!over && pmd_now_ns() < end_ns);
	if (call)
		pmd_engine_kick(e);
	if (over)
		return true;
	idle_spin_failed(&e->waiter.spin);
	return false;
}

/**
 * Begin a wait. If links have packets, poll once before the wait. @return 0: *ready is set; 1: this thread serves from
 * now on; else a negative errno.
 */
static int wait_begin(struct pmd_engine *e, int fd, const bool *ready)
{
	int flags;

	pmd_lock(e);
	if (!__atomic_load_n(ready, __ATOMIC_RELAXED) && e->host.links && pmd_links_ready(e->host.links))
		pmd_progress(e, 1);
	pmd_unlock(e);
	if (__atomic_load_n(ready, __ATOMIC_RELAXED))
		return 0;
	flags = fcntl(fd, F_GETFL); /* read at every wait: the program may change the flags at any time */
	if (flags < 0)
		return -EBUSY;
	if (flags & O_NONBLOCK)
		return -EAGAIN;
	if (__atomic_exchange_n(&e->waiter.serves, true, __ATOMIC_SEQ_CST))
		return -EBUSY;
	__atomic_fetch_add(&e->waiter.waits, 1, __ATOMIC_RELAXED);
	return 1;
}

/* Cancellation unwinds frames without informing AddressSanitizer. It would treat their stack memory as still in use,
 * and report the writes of functions that are called later and use that memory. */
__attribute__((no_sanitize_address)) int pmd_wait(struct pmd_engine *e, int fd, const bool *ready)
{
	int rc;

	if (e->host.dead || (e->progress != PMD_PROGRESS_AUTO && e->progress != PMD_PROGRESS_INLINE))
		return -EBUSY;
	rc = wait_begin(e, fd, ready);
	if (rc != 1)
		return rc;
	e->waiter.ready = ready; /* other threads read waiter.ready only after asleep is set, under the lock */
	if (wait_spin(e))
		return 0;
	pthread_cleanup_push(wait_give_up, e);
	rc = wait_loop(e);
	pthread_cleanup_pop(rc != 0);
	return rc;
}
