/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - an application thread that sleeps until an event of the NIC stands in for the engine's thread: packets wake
 * it directly, without waking the engine's thread first.
 *
 * One thread at a time does so; others sleep on their own descriptor. The engine's thread looks on meanwhile.
 *
 * A sleep and a wake-up cost both sides more than a message. Where messages follow each other closely, the thread first
 * polls for a while, and yields the CPU as all polling does. It tries that after several short sleeps, and after more
 * of them with each try that failed.
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

	if (deadline_ns <= pmd_now_ns() && __atomic_compare_exchange_n(&e->waiter.deadline_ns, &deadline_ns, UINT64_MAX,
								       false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		pmd_engine_wake(e);
}

static bool wait_is_over(const struct pmd_engine *e)
{
	return __atomic_load_n(e->waiter.ready, __ATOMIC_RELAXED);
}

/** End the wait; for the next microseconds the application thread counts as polling. Lock held. @return whether the
 *  engine's thread has to be kicked. */
static bool wait_end(struct pmd_engine *e)
{
	pmd_links_awake(e->host.links);
	e->waiter.ready = NULL;
	e->waiter.asleep = false;
	__atomic_store_n(&e->waiter.deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
	pmd_sleep_end(e);
	pmd_inline_polled(e, e->host.now_ns);
	__atomic_store_n(&e->waiter.serves, false, __ATOMIC_SEQ_CST); /* pairs with thread_slice() in thread.c */
	return __atomic_load_n(&e->thread.deep, __ATOMIC_SEQ_CST);
}

/** The wait failed, or its thread was cancelled. */
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
 * Do the engine's work in its thread's stead. When only the bell rang, ACKs go at once: a link carries them cheaply,
 * and the peer that they wake finds the answer then or soon after. Otherwise they wait for the application's answer,
 * because on the port each packet costs both sides; they go at once if the wait is not over. Lock held. @return packets
 * received.
 */
static unsigned wait_work(struct pmd_engine *e, unsigned woken)
{
	bool bell = woken == PMD_WOKEN_BELL;
	unsigned got;

	e->waiter.asleep = false;
	pmd_links_awake(e->host.links);
	if (woken & PMD_WOKEN_CONTROL)
		pmd_engine_look_after(e);
	/* After the bell alone, skip the port unless due: its descriptor reports packets; without one, timeouts cover
	 * it. */
	got = pmd_engine_step_with(e, THREAD_RX_BUDGET, !bell, bell);
	if (nic_acks_wait(e->host.nic) && !wait_is_over(e))
		got += pmd_engine_step_with(e, THREAD_RX_BUDGET, false, true);
	if (bell && got == 0)
		pmd_engine_bell_drain(e); /* must precede the last look at the links */
	return got;
}

/** Go to sleep: from here on it has to be woken. Lock held. @param stepped a step was taken under this hold of the
 *  lock. @return how long it may sleep, ns. */
static uint64_t wait_sleep(struct pmd_engine *e, bool stepped, unsigned got)
{
	uint64_t now_ns = pmd_now_ns(), timeout = pmd_engine_timeout(e, got, now_ns);
	uint64_t wake_ns;

	if (stepped)
		pmd_engine_held(e, e->host.now_ns, now_ns);
	if (timeout && !pmd_links_sleep(e->host.links))
		timeout = 0;
	e->waiter.asleep = timeout != 0;
	wake_ns = pmd_sleep_begin(e, now_ns, timeout, 0);
	__atomic_store_n(&e->waiter.deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
	if (timeout == 0 || timeout == UINT64_MAX)
		return timeout;
	/* Setting a timer costs as much as a wake-up. If the engine's thread looks in time, it keeps the deadline. */
	__atomic_store_n(&e->waiter.deadline_ns, wake_ns, __ATOMIC_SEQ_CST); /* pairs with thread_rest() in thread.c */
	return __atomic_load_n(&e->thread.look_ns, __ATOMIC_SEQ_CST) <= wake_ns ? UINT64_MAX : timeout;
}

/** Before a sleep: do what is due, usually nothing the first time. @param timeout gets how long to sleep. @return
 *  false: the wait is over. */
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
		thread_serves |= wait_end(e);
	else
		*timeout = pmd_engine_wait_prepare(e) ? wait_sleep(e, steps, got) : 0;
	pmd_mutex_unlock(&e->lock);
	/* The engine's thread still sleeps as the server. Kick it to look on instead, and so notice when this thread
	 * leaves. */
	if (thread_serves)
		pmd_engine_kick(e);
	return !over;
}

/**
 * Whether to restart after a signal, as read() would. poll() does not say whether the handler was installed with
 * SA_RESTART: restart only if all of the program's handlers were.
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

/** @return 0: the wait is over and wait_end() was called; else a negative errno. Not inline: the caller may be left by
 *  longjmp, and compilers would warn about clobbered variables. */
static __attribute__((noinline)) int wait_loop(struct pmd_engine *e)
{
	unsigned woken = PMD_WOKEN_BELL;
	uint64_t timeout, since_ns, slept_ns;

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

/** Poll for a while, after enough short sleeps. @return whether the wait is over. */
static bool wait_spin(struct pmd_engine *e)
{
	uint64_t end_ns = pmd_now_ns() + IDLE_SPIN_NS;
	bool over, call = false;

	if (!idle_spin_is_due(&e->waiter.spin) || !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED))
		return false;
	do {
		pmd_lock(e);
		pmd_progress(e, 1);
		over = wait_is_over(e);
		if (over) {
			idle_spin_paid(&e->waiter.spin);
			/* The engine's thread may have begun to serve just as the spin began. */
			call = wait_end(e) || !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED);
		}
		pmd_unlock(e); /* after many empty polls this yields the CPU */
	} while (!over && pmd_now_ns() < end_ns);
	if (call)
		pmd_engine_kick(e);
	if (over)
		return true;
	idle_spin_failed(&e->waiter.spin);
	return false;
}

/**
 * Begin a wait; poll once first if links hold packets. @return 0: *ready is set; 1: this thread serves; else a negative
 * errno.
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
	flags = fcntl(fd, F_GETFL); /* the program may change them at any time */
	if (flags < 0)
		return -EBUSY;
	if (flags & O_NONBLOCK)
		return -EAGAIN;
	if (__atomic_exchange_n(&e->waiter.serves, true, __ATOMIC_SEQ_CST))
		return -EBUSY;
	__atomic_fetch_add(&e->waiter.waits, 1, __ATOMIC_RELAXED);
	return 1;
}

/* Cancellation unwinds frames without telling AddressSanitizer, which would then report callees for writing into stale
 * variables. */
__attribute__((no_sanitize_address)) int pmd_wait(struct pmd_engine *e, int fd, const bool *ready)
{
	int rc;

	if (e->host.dead || (e->progress != PMD_PROGRESS_AUTO && e->progress != PMD_PROGRESS_INLINE))
		return -EBUSY;
	rc = wait_begin(e, fd, ready);
	if (rc != 1)
		return rc;
	e->waiter.ready = ready; /* not read by other threads before asleep is set, under the lock */
	if (wait_spin(e))
		return 0;
	pthread_cleanup_push(wait_give_up, e);
	rc = wait_loop(e);
	pthread_cleanup_pop(rc != 0);
	return rc;
}
