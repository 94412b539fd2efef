/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - the engine's thread: does the work when no application thread polls, and keeps out of the way otherwise.
 *
 * On a machine with few cores a thread that spins, or that wakes for every packet beside a polling application, costs
 * milliseconds. So it has two ways to wait:
 *   serving: it blocks on the port, bell and doorbell until the next deadline. An idle engine serves and uses no CPU.
 *            Every packet wakes it.
 *   polled:  application threads have been polling; it looks on in time slices, without blocking on the port, and
 *            serves when the polling has stopped.
 * It chooses by which thread finds the traffic. If it wakes for packets and finds them taken it loses credit, and with
 * none left it looks on. If it finds packets itself it regains credit, except for packets that it finds because a
 * poller has just yielded the CPU to it. Programs that sleep on completion channels say so (pmd_expect_sleep).
 *
 * UROCE_PROGRESS overrides this: `thread` always serves, `pinned` serves without ever sleeping (for machines with cores
 * to spare), `inline` has no thread: nothing moves unless the application polls.
 *
 * Owns: the thread's state on its stack, engine->polled, engine->thread_wake_ns while it sleeps.
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
#include "patience.h"

#define SLICE_MIN_NS	50000
#define SLICE_MAX_NS	250000
#define SLICE_LONG_NS	1000000	 /* maximum after many slices: long polling tends to go on */
#define SLICE_DEEP_NS	16000000 /* slices that grow to this during one wait become unbounded */
/* In a virtual machine an expiring timer takes up to 60 us from its CPU, more than the look itself. After long polling
 * the thread aligns its looks with the kernel's tick, which interrupts a polling CPU anyway. */
#define SLACK_NS	1
#define SLACK_LONG_NS	4000000
/* A poll not older than this means that an application thread is polling ... */
#define POLLING_NS	20000
/* ... and one not older than POLLING_NOW_NS, that the poller is about to find the packet that woke the thread. The
 * thread then waits POLLING_WAIT_NS before it looks again. */
#define POLLING_NOW_NS	4000
#define POLLING_WAIT_NS 6000
/* Same test as POLLING_NS for a poller that yielded to us; longer, as other threads may run first. Within LET_IN_NS of
 * its last poll, packets that we find count as the poller's: it was about to find them. */
#define YIELDING_NS	1000000
#define LET_IN_NS	100000

#define CREDIT_FULL	8     /* initial credit_full: vain wake-ups before the thread looks on */
#define CREDIT_MOST	256   /* its maximum; doubles when looking on was wrong: packets waited for the next look */
#define LOOKS_RIGHT	8     /* slices in a row after which looking on was right */
#define LOOKS_LONG	64    /* initial looks_long: slices before they get longer; doubles if packets waited then, */
#define LOOKS_LONG_MOST 65536 /* up to this */
#define LOOKS_LAST	2     /* times looks_long slices: then looks follow the kernel's tick */
#define CREDIT_NEW	3     /* credit after polling stopped and no packet had waited */
#define CREDIT_FIND	4
#define SPINNING_POLLS	16 /* polls between two wake-ups of the thread: the application polls in a loop */

/* After an undisturbed sleep of this length compare the clock with the kernel's. */
#define CLOCK_CHECK_NS SLICE_LONG_NS

/* Failed trylocks in a row before the thread waits for the lock. */
#define LOCK_TRIES 8

/* After recent traffic the thread sleeps no longer than NAP_NS, so that a new deadline seldom has to wake it (a
 * doorbell costs a system call and a wake-up); after NAPS idle sleeps it sleeps until it is called. */
#define NAP_NS 10000000
#define NAPS   10

/* The thread hardly ever spins, and an application that spins on memory makes no progress without it: it asks to
 * preempt the application when it wakes. With the default slice the kernel lets a spinning thread run to its next tick
 * (4 ms); with the default weight a thread that did much work lately is not entitled to preempt. */
#define THREAD_SLICE_NS 100000
#define THREAD_NICE	(-10)

struct thread_state {
	struct pmd_engine *e;
	int credit, credit_full;
	unsigned naps, refused;
	bool slack;		    /* its sleeps end with the kernel's tick */
	bool doubts;		    /* polling may have stopped: look again soon */
	unsigned looks, looks_long; /* slices in a row; how many before they get longer */
	uint32_t waits;		    /* e->waits at the last look */
	uint64_t slice_ns;
	struct patience patience;
	uint64_t polls, finds;	     /* inline_polls, inline_finds at the last look */
	uint64_t work_ns, looked_ns; /* inline_work_ns at the last look, and its time */
};

/** Whether application threads have spent most of the time since the last call moving packets. */
static bool thread_has_help(struct thread_state *s, uint64_t now_ns)
{
	uint64_t work_ns = __atomic_load_n(&s->e->inline_work_ns, __ATOMIC_RELAXED);
	uint64_t worked = work_ns - s->work_ns, passed = now_ns - s->looked_ns;

	s->work_ns = work_ns;
	s->looked_ns = now_ns;
	return worked > passed / 2;
}

/** The application has closed our descriptors, as daemons do. Stop: without them this thread would spin. Only the
 *  application's polling makes progress then. */
static void thread_end(struct pmd_engine *e)
{
	pmd_mutex_lock(&e->lock);
	__atomic_store_n(&e->thread_wake_ns, 0, __ATOMIC_RELAXED); /* no doorbells */
	pmd_mutex_unlock(&e->lock);
	__atomic_store_n(&e->look_ns, UINT64_MAX, __ATOMIC_SEQ_CST);
	__atomic_store_n(&e->stop, true, __ATOMIC_RELAXED);
}

/** As pmd_engine_sleep; ends the thread if descriptors were closed. */
static unsigned thread_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns)
{
	unsigned woken = pmd_engine_sleep(e, serve, timeout_ns);

	if (woken & PMD_WOKEN_CLOSED)
		thread_end(e);
	if (!woken && timeout_ns >= CLOCK_CHECK_NS)
		pmd_clock_check(); /* the timeout expired: that much time has passed */
	return woken;
}

/**
 * Take the lock, but do not queue behind a poller: while a thread waits for a mutex every unlock is a system call, and
 * the poller gets the mutex again anyway. After LOCK_TRIES failures in a row, wait. @return false: an application
 * thread holds it, and so makes progress.
 */
static bool thread_lock(struct thread_state *s)
{
	if (pmd_mutex_trylock(&s->e->lock)) {
		s->refused = 0;
		return true;
	}
	if (++s->refused < LOCK_TRIES)
		return false;
	s->refused = 0;
	pmd_mutex_lock(&s->e->lock);
	return true;
}

/**
 * How long to look on. Slices grow; while the same wait of an application thread goes on, beyond max_ns and finally
 * without limit: the waiter kicks this thread when it stops.
 */
static uint64_t thread_slice(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	uint64_t slice_ns = s->slice_ns;
	uint32_t waits = __atomic_load_n(&e->waits, __ATOMIC_RELAXED);
	bool waiter = __atomic_load_n(&e->waiter, __ATOMIC_RELAXED), same = waiter && waits == s->waits;
	uint64_t max_ns = !waiter && s->looks >= s->looks_long ? SLICE_LONG_NS : SLICE_MAX_NS;

	s->waits = waits;
	if (!same && s->slice_ns > max_ns)
		s->slice_ns = slice_ns = max_ns;
	s->slice_ns *= 2;
	if (s->slice_ns > max_ns && !same)
		s->slice_ns = max_ns;
	if (slice_ns <= max_ns)
		return slice_ns;
	__atomic_store_n(&e->thread_deep, true, __ATOMIC_SEQ_CST); /* pairs with wait_end() in wait.c */
	if (!__atomic_load_n(&e->waiter, __ATOMIC_SEQ_CST))
		return SLICE_MIN_NS;
	if (slice_ns < SLICE_DEEP_NS)
		return slice_ns;
	s->slice_ns = SLICE_DEEP_NS;
	return UINT64_MAX;
}

/** Whether an application thread serves. */
static bool thread_is_spared(const struct thread_state *s)
{
	return __atomic_load_n(&s->e->waiter, __ATOMIC_RELAXED);
}

/** Set whether sleeps may be delayed to the kernel's tick. */
static void thread_set_slack(struct thread_state *s, bool slack)
{
	if (slack == s->slack)
		return;
	s->slack = slack;
	prctl(PR_SET_TIMERSLACK, slack ? SLACK_LONG_NS : SLACK_NS);
}

/** Sleep until the next look; wakes the waiting application thread at its deadline. @return whether the doorbell
 *  rang. */
static bool thread_rest(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	uint64_t slice_ns = s->doubts ? SLICE_MIN_NS : thread_slice(s), now_ns = pmd_now_ns(), wait_ns, late_ns;
	bool rang, slack = slice_ns == SLICE_LONG_NS && s->looks >= LOOKS_LAST * s->looks_long && !thread_is_spared(s);

	late_ns = slack ? SLACK_LONG_NS : 0; /* wait_sleep() relies on look_ns */
	__atomic_store_n(&e->look_ns, slice_ns == UINT64_MAX ? UINT64_MAX : now_ns + slice_ns + late_ns,
			 __ATOMIC_SEQ_CST);
	wait_ns = __atomic_load_n(&e->wait_ns, __ATOMIC_SEQ_CST); /* pairs with wait_sleep() in wait.c */
	if (wait_ns <= now_ns)
		slice_ns = 0;
	else if (wait_ns - now_ns < slice_ns && wait_ns != UINT64_MAX)
		slice_ns = wait_ns - now_ns;
	thread_set_slack(s, slack && slice_ns == SLICE_LONG_NS);
	rang = thread_sleep(e, false, slice_ns) & PMD_WOKEN_DOORBELL;
	wait_ns = __atomic_load_n(&e->wait_ns, __ATOMIC_RELAXED);
	if (wait_ns <= pmd_now_ns() &&
	    __atomic_compare_exchange_n(&e->wait_ns, &wait_ns, UINT64_MAX, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		pmd_engine_call(e);
	return rang;
}

/** Time since an application thread last polled, ns. */
static uint64_t thread_poll_age(const struct pmd_engine *e)
{
	return pmd_clock_age(pmd_now_ns(), __atomic_load_n(&e->inline_last_ns, __ATOMIC_RELAXED));
}

/** Whether a poller is yielding the CPU that we run on, and its last poll is younger than `within_ns`. */
static bool thread_was_let_in(const struct pmd_engine *e, uint64_t within_ns)
{
	int cpu = __atomic_load_n(&e->yielding_cpu, __ATOMIC_RELAXED);

	return cpu >= 0 && cpu == sched_getcpu() && thread_poll_age(e) < within_ns;
}

/**
 * Whether application threads have polled since the last look, and still did at `due_ns`. The look comes later than it
 * was due: waking takes long, and a poller that shares the CPU with this thread cannot poll meanwhile.
 */
static bool thread_sees_polling(const struct thread_state *s, uint64_t polls, uint64_t due_ns)
{
	uint64_t last_ns = __atomic_load_n(&s->e->inline_last_ns, __ATOMIC_RELAXED);

	/* A poll that fetches payload may take longer than a slice. */
	if (last_ns == PMD_POLLS_NOW)
		return true;
	return polls != s->polls && (last_ns + POLLING_NS > due_ns || thread_was_let_in(s->e, YIELDING_NS));
}

/**
 * Whether to look again soon before serving: an application thread has polled since the last look, but not just before
 * this one. It may have lost the CPU for a moment, if only to the timer that woke this thread, and serving beside it
 * would cost both a wake-up for every packet.
 */
static bool thread_doubts(const struct thread_state *s, uint64_t polls)
{
	return !s->doubts && polls != s->polls && !__atomic_load_n(&s->e->expect_sleep, __ATOMIC_RELAXED);
}

/** The thread serves again and found `got` packets: adapt credit_full and looks_long, as packets that waited mean it
 *  looked on too readily or for too long. */
static void thread_looked_on(struct thread_state *s, unsigned got)
{
	if (s->looks >= s->looks_long) {
		if (got > 0 && s->looks_long < LOOKS_LONG_MOST)
			s->looks_long *= 2;
		else if (got == 0 && s->looks_long > LOOKS_LONG)
			s->looks_long /= 2;
	}
	if (s->looks >= LOOKS_RIGHT)
		s->credit_full = CREDIT_FULL;
	else if (got > 0 && s->credit_full < CREDIT_MOST)
		s->credit_full *= 2;
	s->looks = 0;
}

/** Application threads poll: look on for a slice; serve again if they have stopped. */
static void thread_look_on(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	bool rang = thread_rest(s);
	uint64_t look_ns = __atomic_load_n(&e->look_ns, __ATOMIC_RELAXED);
	uint64_t polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);
	uint64_t now_ns = pmd_now_ns(), due_ns = look_ns < now_ns ? look_ns : now_ns;
	bool help = thread_has_help(s, now_ns);
	unsigned got;

	if (s->slack)
		due_ns = now_ns - SLICE_MIN_NS; /* due with the tick, whenever that came */
	__atomic_store_n(&e->thread_deep, false, __ATOMIC_RELAXED);
	if (thread_is_spared(s) || (!rang && (help || thread_sees_polling(s, polls, due_ns)))) {
		s->polls = polls;
		s->looks += !thread_is_spared(s);
		s->doubts = false;
		return;
	}
	if (polls != s->polls)
		s->refused = 0; /* the lock's holder polls: a step may take longer than a slice */
	s->doubts = !rang && thread_doubts(s, polls);
	s->polls = polls;
	if (s->doubts)
		return;
	if (rang)
		pmd_mutex_lock(&e->lock); /* the thread that rang may still hold it, and will not ring again */
	else if (!thread_lock(s))
		return;
	if (thread_is_spared(s)) {
		pmd_mutex_unlock(&e->lock);
		return;
	}
	got = pmd_engine_step(e, THREAD_RX_BUDGET, true);
	pmd_engine_held(e, e->host.now_ns, pmd_now_ns());
	thread_looked_on(s, rang || thread_was_let_in(e, LET_IN_NS) ? 0 : got);
	s->credit = e->expect_sleep || got > 0 ? s->credit_full : CREDIT_NEW;
	s->finds = e->inline_finds;
	__atomic_store_n(&e->expect_sleep, false, __ATOMIC_RELAXED);
	__atomic_store_n(&e->polled, false, __ATOMIC_RELAXED);
	pmd_mutex_unlock(&e->lock);
	thread_set_slack(s, false);
	s->naps = NAPS;
}

/** How long the thread may sleep; lock held. */
static uint64_t thread_timeout(struct thread_state *s, unsigned got, uint64_t now_ns)
{
	struct pmd_engine *e = s->e;
	uint64_t timeout = pmd_engine_timeout(e, got, now_ns);

	if (s->naps > 0 && timeout > NAP_NS)
		timeout = NAP_NS;
	return timeout;
}

/** Whether an application thread finds what woke this thread, given POLLING_WAIT_NS. If they share a CPU this thread
 *  has just preempted the poller, and without the wait would always be first. */
static bool thread_leave_to_poller(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	uint64_t polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);

	if (polls == s->polls || thread_poll_age(e) > POLLING_NOW_NS)
		return false;
	if (thread_sleep(e, false, POLLING_WAIT_NS) & PMD_WOKEN_DOORBELL)
		return false;
	return __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED) != polls;
}

/** Application threads poll: start looking on. Lock held. */
static void thread_look_on_from_now(struct thread_state *s)
{
	pmd_links_awake(s->e->host.links);
	__atomic_store_n(&s->e->polled, true, __ATOMIC_RELAXED);
	s->slice_ns = SLICE_MIN_NS;
}

/**
 * Whether an application thread would most likely have found the packets of a step without any wake-up: it waits for
 * the lock, or polled just before. Its poll rate does not tell: this thread may spin, too. Lock held.
 */
static bool thread_is_beside_poller(const struct pmd_engine *e, bool waited)
{
	uint64_t last_ns = __atomic_load_n(&e->inline_last_ns, __ATOMIC_RELAXED);

	return (!waited && pmd_mutex_is_wanted(&e->lock)) || last_ns + POLLING_NOW_NS > e->host.now_ns;
}

/** Update the credit by which thread finds the traffic. Lock held. @param polls current count of inline polls. @param
 *  waited an application thread had the lock. */
static void thread_credit(struct thread_state *s, unsigned woken, unsigned got, uint64_t polls, bool waited)
{
	struct pmd_engine *e = s->e;
	uint64_t finds = e->inline_finds - s->finds; /* by application threads since the last look */

	s->finds = e->inline_finds;
	if (e->progress != PMD_PROGRESS_AUTO)
		return;
	if (e->expect_sleep) {
		s->credit = s->credit_full;
		return;
	}
	/* This thread often gets the poller's CPU, and then finds what the poller was about to find: such packets cost
	 * credit. */
	if (got > 0 && (thread_is_beside_poller(e, waited) || thread_was_let_in(e, LET_IN_NS)))
		s->credit--;
	else if (got > 0 && !waited)
		s->credit += polls - s->polls < SPINNING_POLLS && !thread_has_help(s, e->host.now_ns) ? CREDIT_FIND : 0;
	else if (((woken & PMD_WOKEN_PACKETS) || (e->sent > 0 && waited)) && polls != s->polls)
		s->credit--;
	s->credit -= finds < 2 * CREDIT_FIND ? (int)finds : 2 * CREDIT_FIND;
	if (s->credit > s->credit_full)
		s->credit = s->credit_full;
}

/** Clear thread_wake_ns: no doorbells are needed until the next sleep. No lock held, so a value that a waiting
 *  application thread has stored meanwhile is kept. */
static void thread_awake(struct pmd_engine *e)
{
	uint64_t wake_ns = __atomic_load_n(&e->thread_wake_ns, __ATOMIC_RELAXED);

	if (wake_ns & PMD_WAKE_THREAD)
		__atomic_compare_exchange_n(&e->thread_wake_ns, &wake_ns, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/** No application thread polls: take a step, then sleep until woken or timed out. */
static void thread_serve(struct thread_state *s, unsigned *woken)
{
	struct pmd_engine *e = s->e;
	uint64_t now_ns, polls, timeout, since_ns = 0;
	unsigned got;
	bool waited;

	thread_awake(e);
	if (*woken && !(*woken & ~(unsigned)PMD_WOKEN_PACKETS) && e->progress == PMD_PROGRESS_AUTO &&
	    thread_leave_to_poller(s)) {
		if (--s->credit > 0) {
			*woken = thread_sleep(e, true, POLLING_NS);
		} else {
			pmd_mutex_lock(&e->lock);
			if (!__atomic_load_n(&e->polled, __ATOMIC_RELAXED) && !e->expect_sleep) {
				thread_look_on_from_now(s);
				*woken = 0;
			}
			pmd_mutex_unlock(&e->lock);
		}
		return;
	}
	waited = !pmd_mutex_trylock(&e->lock);
	if (waited)
		pmd_mutex_lock(&e->lock);
	if (__atomic_load_n(&e->polled, __ATOMIC_RELAXED)) { /* an application thread has begun to wait meanwhile */
		pmd_mutex_unlock(&e->lock);
		return;
	}
	pmd_links_awake(e->host.links);
	if (*woken & PMD_WOKEN_CONTROL || (!*woken && pmd_engine_control_is_due(e))) {
		since_ns = pmd_now_ns();
		pmd_engine_look_after(e);
	}
	got = pmd_engine_step_with(e, THREAD_RX_BUDGET, *woken != PMD_WOKEN_BELL && !s->patience.spin_ns, true);
	polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);
	thread_credit(s, *woken, got, polls, waited);
	__atomic_store_n(&e->expect_sleep, false, __ATOMIC_RELAXED);
	s->naps = got || polls != s->polls ? NAPS : s->naps > 0 && *woken == 0 ? s->naps - 1 : s->naps;
	s->polls = polls;
	if (s->credit <= 0) {
		thread_look_on_from_now(s); /* and thread_wake_ns stays 0: no doorbells */
		*woken = 0;
		pmd_mutex_unlock(&e->lock);
		return;
	}
	now_ns = pmd_now_ns();
	pmd_engine_held(e, since_ns ? since_ns : e->host.now_ns, now_ns);
	timeout = e->progress == PMD_PROGRESS_PINNED || patience_spins(&s->patience, got > 0 ? got : e->sent, now_ns)
			  ? 0
			  : thread_timeout(s, got, now_ns);
	if (timeout && patience_gathers(&s->patience)) {
		timeout = timeout < PATIENCE_GATHER_NS ? timeout : PATIENCE_GATHER_NS;
	} else if (timeout && !pmd_links_sleep(e->host.links)) {
		timeout = 0;
		patience_averted(&s->patience, now_ns);
	}
	e->thread_retries = pmd_engine_is_full(e);
	__atomic_store_n(&e->thread_wake_ns,
			 timeout == UINT64_MAX ? UINT64_MAX
			 : timeout	       ? (now_ns + timeout) | PMD_WAKE_THREAD
					       : 0,
			 __ATOMIC_RELAXED);
	pmd_mutex_unlock(&e->lock);
	if (timeout)
		s->patience.slept_ns = now_ns;
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
		return; /* the application has chosen a policy, such as real time */
	/* Best effort: only a privileged process may raise its priority, and kernels before 6.12 ignore the slice. */
	attr.nice = THREAD_NICE;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) {
		attr.nice = (int32_t)(20 - syscall(SYS_getpriority, PRIO_PROCESS, 0));
		syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}

static void *thread_main(void *arg)
{
	struct thread_state s = {.e = arg,
				 .credit = CREDIT_NEW,
				 .credit_full = CREDIT_FULL,
				 .naps = NAPS,
				 .slice_ns = SLICE_MIN_NS,
				 .looks_long = LOOKS_LONG};
	unsigned woken = 0;

	patience_init(&s.patience);
	thread_attributes(s.e);
	while (!__atomic_load_n(&s.e->stop, __ATOMIC_RELAXED)) {
		if (!__atomic_load_n(&s.e->polled, __ATOMIC_RELAXED)) {
			thread_serve(&s, &woken);
			continue;
		}
		/* An application thread has begun to wait meanwhile (its kick is the doorbell), and may have missed the
		 * bell that woke this thread: pass it on. */
		if (woken & ~(unsigned)PMD_WOKEN_DOORBELL)
			pmd_engine_call(s.e);
		woken = 0;
		thread_look_on(&s);
	}
	return NULL;
}

int pmd_thread_start(struct pmd_engine *e)
{
	sigset_t set, old;
	int rc;

	if (e->progress == PMD_PROGRESS_INLINE) {
		e->polled = true;
		return 0;
	}
	/* The application's signals go to its own threads; SIGSEGV and SIGBUS in guarded copies are ours. */
	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	rc = pthread_create(&e->thread, NULL, thread_main, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

void pmd_thread_stop(struct pmd_engine *e)
{
	if (e->progress == PMD_PROGRESS_INLINE)
		return;
	__atomic_store_n(&e->stop, true, __ATOMIC_RELAXED);
	pmd_engine_kick(e);
	pthread_join(e->thread, NULL);
}
