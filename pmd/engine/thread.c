/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - the engine's thread: does the engine's work while no application thread polls, and keeps out of the way
 * otherwise.
 *
 * On a machine with few cores, a thread that spins, or that wakes for every packet while an application thread polls,
 * costs milliseconds. So the thread has two ways to wait:
 *   serving: it blocks on the port, bell, doorbell and control connections until the next deadline, and packets wake
 *            it. An idle engine serves and uses no CPU.
 *   polled:  application threads have been polling: the thread stands by. It does not block on the port. After each
 *            slice of time it checks whether application threads still poll, and serves if they have stopped.
 * This file observes which thread finds the traffic. From that, idle.c decides which of the two ways the thread uses,
 * and for how long; this file acts on the decision. Programs that sleep on completion channels announce their sleep
 * (pmd_expect_sleep).
 *
 * UROCE_PROGRESS overrides this: with `thread` the thread always serves; with `pinned` it serves and never sleeps (for
 * machines with cores to spare); with `inline` there is no thread, and the engine makes progress only while the
 * application polls or waits.
 *
 * Owns: engine->thread, and the thread's own state, which is on its stack.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine_priv.h"

/* Slack of the thread's timers. SLACK_LONG_NS makes checks coincide with the kernel's tick (IDLE_CHECKS_LAST in
 * idle.h).
 */
#define SLACK_NS      1
#define SLACK_LONG_NS IDLE_TICK_NS

/* After an undisturbed sleep of at least this length, compare our clock with the kernel's. */
#define CLOCK_CHECK_NS IDLE_SLICE_LONG_NS

/* Scheduling attributes that let the engine's thread, when it wakes, preempt an application thread. An application
 * thread that spins on memory waits for the work of the engine's thread, which itself seldom spins. With the default
 * slice, the kernel would let the spinning thread run until the next tick (4 ms). With the default weight, the engine's
 * thread may not preempt if it has worked much lately. */
#define THREAD_SLICE_NS 100000
#define THREAD_NICE	(-10)

struct thread_state {
	struct pmd_engine *e;
	struct idle_thread idle;
	bool slack; /* sleeps may end late, with the kernel's tick */
};

/** @return what application threads are doing. The current time is read last: then it is not earlier than the counted
 *  polls. Only heuristics rely on that. */
static struct idle_seen thread_sees(const struct pmd_engine *e)
{
	int yielding_cpu = __atomic_load_n(&e->polling.yielding_cpu, __ATOMIC_RELAXED);
	struct idle_seen seen;

	seen.polls = __atomic_load_n(&e->polling.polls, __ATOMIC_RELAXED);
	seen.last_ns = __atomic_load_n(&e->polling.last_ns, __ATOMIC_RELAXED);
	seen.work_ns = __atomic_load_n(&e->polling.work_ns, __ATOMIC_RELAXED);
	seen.waits_now = __atomic_load_n(&e->waiter.serves, __ATOMIC_RELAXED);
	seen.yields = yielding_cpu >= 0 && yielding_cpu == sched_getcpu();
	seen.will_sleep = __atomic_load_n(&e->thread.expect_sleep, __ATOMIC_RELAXED);
	seen.now_ns = pmd_now_ns();
	return seen;
}

/** The application has closed our descriptors: programs that become daemons close all descriptors. Stop the thread,
 *  which would spin without the descriptors. From then on the engine makes progress only while the application
 *  polls. */
static void thread_end(struct pmd_engine *e)
{
	pmd_mutex_lock(&e->lock);
	pmd_sleep_end(e); /* nobody needs to ring the doorbell any more */
	pmd_mutex_unlock(&e->lock);
	__atomic_store_n(&e->thread.check_ns, UINT64_MAX, __ATOMIC_SEQ_CST);
	__atomic_store_n(&e->thread.stop, true, __ATOMIC_RELAXED);
}

/** As pmd_engine_sleep, but ends the thread if the application has closed the descriptors. */
static unsigned thread_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns)
{
	unsigned woken = pmd_engine_sleep(e, serve, timeout_ns);

	if (woken & PMD_WOKEN_CLOSED)
		thread_end(e);
	if (!woken && timeout_ns >= CLOCK_CHECK_NS)
		pmd_clock_check(); /* the timeout expired, so the clock must have advanced by that much */
	return woken;
}

/**
 * Take the lock, but do not queue for it behind a poller: while a thread waits for a mutex, every unlock is a system
 * call, and the poller gets the mutex again anyway. After IDLE_LOCK_TRIES failures in a row, wait for the lock. @return
 * false: an application thread holds the lock, and makes progress.
 */
static bool thread_lock(struct thread_state *s)
{
	bool refused = !pmd_mutex_trylock(&s->e->lock);

	if (!idle_thread_waits_for_lock(&s->idle, refused))
		return !refused;
	pmd_mutex_lock(&s->e->lock);
	return true;
}

/** Whether an application thread serves: then the engine's thread need not serve. */
static bool thread_is_spared(const struct thread_state *s)
{
	return __atomic_load_n(&s->e->waiter.serves, __ATOMIC_RELAXED);
}

/** @return how long to stand by. */
static struct idle_slice thread_slice(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	uint32_t waits = __atomic_load_n(&e->waiter.waits, __ATOMIC_RELAXED);
	struct idle_slice slice = idle_thread_slice(&s->idle, thread_is_spared(s), waits);

	if (slice.deep) {
		__atomic_store_n(&e->thread.deep, true, __ATOMIC_SEQ_CST); /* pairs with wait_end() in wait.c */
		if (!__atomic_load_n(&e->waiter.serves, __ATOMIC_SEQ_CST))
			slice.slice_ns = IDLE_SLICE_MIN_NS;
	}
	return slice;
}

/** Set whether the thread's sleeps may be delayed until the kernel's tick. */
static void thread_set_slack(struct thread_state *s, bool slack)
{
	if (slack == s->slack)
		return;
	s->slack = slack;
	prctl(PR_SET_TIMERSLACK, slack ? SLACK_LONG_NS : SLACK_NS);
}

/** Sleep until the next check, and wake the waiting application thread at its deadline. @return whether the doorbell
 *  ended the sleep. */
static bool thread_rest(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	struct idle_slice slice = thread_slice(s);
	uint64_t rest_ns = slice.slice_ns, now_ns = pmd_now_ns(), wait_ns;
	bool rang;

	__atomic_store_n(&e->thread.check_ns, /* wait_sleep() reads it */
			 rest_ns == IDLE_UNBOUNDED ? UINT64_MAX : now_ns + rest_ns + (slice.tick ? SLACK_LONG_NS : 0),
			 __ATOMIC_SEQ_CST);
	wait_ns = __atomic_load_n(&e->waiter.deadline_ns, __ATOMIC_SEQ_CST); /* pairs with wait_sleep() in wait.c */
	if (wait_ns <= now_ns)
		rest_ns = 0;
	else if (wait_ns - now_ns < rest_ns && wait_ns != UINT64_MAX)
		rest_ns = wait_ns - now_ns;
	thread_set_slack(s, slice.tick && rest_ns == slice.slice_ns);
	rang = thread_sleep(e, false, rest_ns) & PMD_WOKEN_DOORBELL;
	pmd_wait_expire(e);
	return rang;
}

/** Application threads poll: stand by for a slice, then serve again if the polling has stopped. */
static void thread_stand_by(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	bool rang = thread_rest(s);
	uint64_t check_ns = __atomic_load_n(&e->thread.check_ns, __ATOMIC_RELAXED);
	struct idle_seen seen = thread_sees(e);
	unsigned got;

	__atomic_store_n(&e->thread.deep, false, __ATOMIC_RELAXED);
	if (idle_thread_checked(&s->idle, &seen, rang, idle_check_due_ns(check_ns, s->slack, seen.now_ns)) ==
	    IDLE_STAND_BY)
		return;
	if (rang)
		pmd_mutex_lock(&e->lock); /* wait: the thread that rang may still hold the lock, and rings only once */
	else if (!thread_lock(s))
		return;
	if (thread_is_spared(s)) {
		pmd_mutex_unlock(&e->lock);
		return;
	}
	got = pmd_engine_step(e, THREAD_RX_BUDGET, true);
	seen = thread_sees(e);
	pmd_engine_held(e, e->host.now_ns, seen.now_ns);
	idle_thread_returned(&s->idle, &seen, e->polling.finds, got, rang);
	__atomic_store_n(&e->thread.expect_sleep, false, __ATOMIC_RELAXED);
	__atomic_store_n(&e->thread.polled, false, __ATOMIC_RELAXED);
	pmd_mutex_unlock(&e->lock);
	thread_set_slack(s, false);
}

/** Application threads poll, so the thread stops serving and begins to stand by. Lock held. */
static void thread_stand_by_from_now(struct thread_state *s)
{
	pmd_sleep_over(s->e);
	__atomic_store_n(&s->e->thread.polled, true, __ATOMIC_RELAXED);
	idle_thread_stand_by(&s->idle);
}

/** Packets have woken the thread. If a poller is about to find them, sleep for a moment so that the poller can.
 *  @param woken what has woken the thread; on return, what thread_serve has to handle next. @return whether the packets
 *  were left to a poller. */
static bool thread_leaves(struct thread_state *s, unsigned *woken)
{
	struct pmd_engine *e = s->e;
	struct idle_seen seen = thread_sees(e);
	enum idle_act act;

	if (!idle_thread_leaves(&s->idle, &seen) || (thread_sleep(e, false, IDLE_LEAVE_NS) & PMD_WOKEN_DOORBELL))
		return false;
	act = idle_thread_left(&s->idle, seen.polls, __atomic_load_n(&e->polling.polls, __ATOMIC_RELAXED));
	if (act == IDLE_STEP)
		return false;
	if (act == IDLE_SLEEP) {
		*woken = thread_sleep(e, true, IDLE_POLLING_NS);
		return true;
	}
	pmd_mutex_lock(&e->lock);
	if (!__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED) && !e->thread.expect_sleep) {
		thread_stand_by_from_now(s);
		*woken = 0;
	}
	pmd_mutex_unlock(&e->lock);
	return true;
}

/** Take a step as the serving thread. Lock held. @return what to do next. @param now_ns set to the time after the step.
 *  @param got set to the number of packets received. */
static enum idle_act thread_step(struct thread_state *s, unsigned woken, bool waited, unsigned *got, uint64_t *now_ns)
{
	struct pmd_engine *e = s->e;
	uint64_t since_ns = 0;
	struct idle_seen seen;
	struct idle_step step;

	if (woken & PMD_WOKEN_CONTROL || (!woken && pmd_engine_control_is_due(e))) {
		since_ns = pmd_now_ns();
		pmd_engine_upkeep(e);
	}
	*got = pmd_engine_step_with(e, THREAD_RX_BUDGET, woken != PMD_WOKEN_BELL && !s->idle.server.spin_ns, true);
	seen = thread_sees(e);
	step = (struct idle_step){.step_ns = e->host.now_ns,
				  .finds = e->polling.finds,
				  .got = *got,
				  .sent = e->steps.sent,
				  .woken = woken != 0,
				  .by_packets = woken & PMD_WOKEN_PACKETS,
				  .waited = waited,
				  .wanted = pmd_mutex_is_wanted(&e->lock)};
	__atomic_store_n(&e->thread.expect_sleep, false, __ATOMIC_RELAXED);
	*now_ns = seen.now_ns;
	pmd_engine_held(e, since_ns ? since_ns : e->host.now_ns, seen.now_ns);
	return idle_thread_stepped(&s->idle, &seen, &step);
}

/** @return how long to sleep after a step; 0: the thread must not sleep. If it may sleep, producers of links ring the
 *  bell from here on, unless the thread gathers packets. Lock held. */
static uint64_t thread_timeout(struct thread_state *s, unsigned got, uint64_t now_ns)
{
	uint64_t timeout = idle_thread_nap(&s->idle, pmd_engine_timeout(s->e, got, now_ns));

	if (timeout == 0)
		return 0;
	if (idle_server_gathers(&s->idle.server))
		return timeout < IDLE_GATHER_NS ? timeout : IDLE_GATHER_NS;
	if (pmd_sleep_announce(s->e))
		return timeout;
	idle_server_averted(&s->idle.server, now_ns);
	return 0;
}

/** No application thread polls: take a step, then sleep until woken or until the timeout. */
static void thread_serve(struct thread_state *s, unsigned *woken)
{
	struct pmd_engine *e = s->e;
	uint64_t now_ns, timeout;
	enum idle_act act;
	unsigned got;
	bool waited;

	pmd_sleep_end_thread(e); /* nobody needs to ring the doorbell before the next sleep */
	if (*woken && !(*woken & ~(unsigned)PMD_WOKEN_PACKETS) && thread_leaves(s, woken))
		return;
	waited = !pmd_mutex_trylock(&e->lock);
	if (waited)
		pmd_mutex_lock(&e->lock);
	if (__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED)) { /* an application thread waits and serves instead */
		pmd_mutex_unlock(&e->lock);
		return;
	}
	pmd_sleep_over(e);
	act = thread_step(s, *woken, waited, &got, &now_ns);
	if (act == IDLE_STAND_BY) {
		thread_stand_by_from_now(s); /* the sleeper stays marked awake: work rings no doorbell */
		*woken = 0;
		pmd_mutex_unlock(&e->lock);
		return;
	}
	timeout = act == IDLE_SLEEP ? thread_timeout(s, got, now_ns) : 0;
	pmd_sleep_begin(e, now_ns, timeout, PMD_WAKE_THREAD);
	pmd_mutex_unlock(&e->lock);
	if (timeout)
		idle_server_slept(&s->idle.server, now_ns);
	*woken = timeout ? thread_sleep(e, true, timeout) : 0;
}

static void thread_attributes(const struct pmd_engine *e)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime = THREAD_SLICE_NS};
	char name[16];

	snprintf(name, sizeof(name), "uroce-%.9s", e->device.name);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, SLACK_NS);
	if (sched_getscheduler(0) != SCHED_OTHER)
		return; /* the application has chosen a policy, for example real time */
	/* Best effort: only a privileged process may raise its priority, and kernels before 6.12 ignore the slice. */
	attr.nice = THREAD_NICE;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) {
		attr.nice = (int32_t)(20 - syscall(SYS_getpriority, PRIO_PROCESS, 0));
		syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}

static void *thread_main(void *arg)
{
	struct thread_state s = {.e = arg};
	unsigned woken = 0;

	idle_thread_init(&s.idle, s.e->progress == PMD_PROGRESS_AUTO, s.e->progress == PMD_PROGRESS_PINNED);
	thread_attributes(s.e);
	while (!__atomic_load_n(&s.e->thread.stop, __ATOMIC_RELAXED)) {
		if (!__atomic_load_n(&s.e->thread.polled, __ATOMIC_RELAXED)) {
			thread_serve(&s, &woken);
			continue;
		}
		/* If anything but the doorbell has woken this thread, an application thread has begun to wait, and
		 * serves in place of this thread. It may have missed the wake-up, for example a bell whose count this
		 * thread has cleared: ring the bell again. */
		if (woken & ~(unsigned)PMD_WOKEN_DOORBELL)
			pmd_engine_wake(s.e);
		woken = 0;
		thread_stand_by(&s);
	}
	return NULL;
}

int pmd_thread_start(struct pmd_engine *e)
{
	sigset_t set, old;
	int rc;

	e->thread.check_ns = UINT64_MAX;
	if (e->progress == PMD_PROGRESS_INLINE) {
		e->thread.polled = true;
		return 0;
	}
	/* Block the application's signals in the engine's thread, but not SIGSEGV and SIGBUS: guarded copies
	 * may fault. */
	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	rc = pthread_create(&e->thread.id, NULL, thread_main, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

void pmd_thread_stop(struct pmd_engine *e)
{
	if (e->progress == PMD_PROGRESS_INLINE)
		return;
	__atomic_store_n(&e->thread.stop, true, __ATOMIC_RELAXED);
	pmd_engine_kick(e);
	pthread_join(e->thread.id, NULL);
}

bool pmd_thread_relieve(struct pmd_engine *e)
{
	bool served = !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED);

	__atomic_store_n(&e->thread.polled, true, __ATOMIC_RELAXED);
	return served;
}

void pmd_expect_sleep(struct pmd_engine *e)
{
	if (e->host.dead)
		return;
	__atomic_store_n(&e->thread.expect_sleep, true, __ATOMIC_RELAXED);
	/* A program that has slept in pmd_wait will sleep there again, and serve meanwhile: do not wake the engine's
	 * thread. */
	if (__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED) &&
	    __atomic_load_n(&e->waiter.waits, __ATOMIC_RELAXED) == 0)
		pmd_engine_kick(e);
}
