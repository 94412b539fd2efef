/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - one step of an engine's work, and who takes it: application threads that poll, or the engine's thread.
 *
 * A step receives a burst, runs expired timers, transmits what is due and hands out events; it is bounded, so that
 * the lock is free again soon. Steps are taken
 *   - inline, by every polling call of the application (lowest latency, no wake-ups), and
 *   - by the thread, when nobody polls. On a machine with few cores a thread that spins, or that wakes for every packet
 *     beside a polling application, costs milliseconds. So it has two ways to wait:
 *       serving: it blocks on the port, on its doorbell and until the next deadline. An idle engine is here and uses
 *                no CPU. Every packet wakes it.
 *       polled:  application threads have been polling; it looks on, from outside the port, in slices of time, and
 *                serves as soon as the polling has stopped.
 *     Which way is learned from who finds the traffic: a thread that wakes for packets and finds them taken
 *     loses credit and looks on when it has none left; one that finds packets itself serves with full credit.
 *     Programs that sleep on completion channels say so (pmd_expect_sleep).
 *
 * Delayed ACKs go when an inline poll finds nothing else to do, and always when the thread serves.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "engine_priv.h"

#define INLINE_RX_BUDGET 1 /* one burst: what came may be what the caller polls for */
#define THREAD_RX_BUDGET 128
#define TX_BUDGET 128
#define DOORBELL_TX_BUDGET 256
#define EVENT_BUDGET 256

/* An application thread gives the CPU away after so many empty polls in a row: on one core with its peer it would
 * otherwise poll out its time slice (milliseconds) before the peer can answer. */
#define EMPTY_POLLS_YIELD 200

#define SLICE_MIN_NS 50000
#define SLICE_MAX_NS 250000
/* A poll that is not older than this means that somebody is polling ... */
#define POLLING_NS 20000
/* ... and one that is not older than this, that the packet which woke the thread is about to be found. The thread
 * then waits so long outside the port before it looks again. */
#define POLLING_NOW_NS 4000
#define POLLING_WAIT_NS 6000

#define CREDIT_FULL 8 /* wake-ups in vain until the thread looks on */
#define CREDIT_NEW 3   /* after the polling seemed to have stopped */
#define CREDIT_FIND 4

/* While there was traffic lately the thread sleeps no longer than this, so that a new deadline seldom has to wake it
 * (a doorbell costs a system call and a wake-up); after so many idle sleeps it sleeps until it is called. */
#define NAP_NS 10000000
#define NAPS 10

/* Ports without a descriptor to wait on are polled at intervals that grow to this. */
#define INTERVAL_MIN_NS 20000
#define INTERVAL_MAX_NS 1000000

/* The thread never spins, and where the application spins on memory everything waits for it: it asks to run before the
 * application when it wakes. With the default slice the kernel lets a spinning thread go on to its next tick (4 ms);
 * with the default weight a thread that did much work lately is not entitled to preempt. */
#define THREAD_SLICE_NS 100000
#define THREAD_NICE (-10)

uint64_t pmd_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- a step ------------------------------------------------------------------------------------------------- */

/** Fill slots [from, to) with mbufs. @return false when the pool is empty. */
static bool tx_fill(struct pmd_engine *e, unsigned from, unsigned to)
{
	struct rte_mbuf *fresh[PMD_TX_BURST];

	if (from == to)
		return true;
	if (rte_pktmbuf_alloc_bulk(e->pool, fresh, to - from) != 0)
		return false;
	for (unsigned i = from; i < to; i++) {
		e->tx[i].cookie = fresh[i - from];
		e->tx[i].data = rte_pktmbuf_mtod(fresh[i - from], uint8_t *);
	}
	return true;
}

bool pmd_engine_tx_refill(struct pmd_engine *e)
{
	if (!tx_fill(e, e->tx_ready, PMD_TX_BURST))
		return false;
	e->tx_ready = PMD_TX_BURST;
	return true;
}

/** Offer what is filled to the port; slots whose mbufs it took get new ones. @return false: no room. */
static bool tx_drain(struct pmd_engine *e, uint64_t now_ns)
{
	e->tx_first += e->port->ops->tx_burst(e->port, e->tx + e->tx_first, e->tx_end - e->tx_first, now_ns);
	if (e->tx_first < e->tx_end)
		return false;
	if (!e->port->ops->tx_copies && !tx_fill(e, 0, e->tx_end)) {
		e->tx_ready -= e->tx_end;
		memmove(e->tx, e->tx + e->tx_end, e->tx_ready * sizeof(e->tx[0]));
	}
	e->tx_first = e->tx_end = 0;
	return true;
}

bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	if (e->tx_first < e->tx_end && !tx_drain(e, now_ns))
		return false;
	while (budget > 0 && nic_tx_pending(e->nic)) {
		unsigned n;

		if (e->tx_ready < PMD_TX_BURST)
			pmd_engine_tx_refill(e);
		n = e->tx_ready < budget ? e->tx_ready : budget;
		n = n ? nic_tx(e->nic, e->tx, n, now_ns) : 0;
		if (n == 0)
			break;
		budget -= n;
		e->tx_end = n;
		if (!tx_drain(e, now_ns))
			return false;
	}
	return true;
}

void pmd_engine_events(struct pmd_engine *e)
{
	struct nic_event event;

	for (unsigned i = 0; i < EVENT_BUDGET && nic_event_next(e->nic, &event); i++)
		if (e->on_event)
			e->on_event(e->event_ctx, &event);
}

/** Packets that came are given to the NIC. @return how many. */
static unsigned step_rx(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	const struct pmd_port_ops *ops = e->port->ops;
	unsigned total = 0, n;

	do {
		n = ops->rx_burst(e->port, frames, PMD_RX_BURST, now_ns);
		for (unsigned i = 0; i < n; i++)
			if (nic_rx(e->nic, &frames[i], now_ns) && ops->rx_valid)
				ops->rx_valid(e->port, &frames[i]);
		total += n;
	} while (n > 0 && total < budget);
	return total;
}

unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks)
{
	uint64_t now_ns = e->now_ns = pmd_now_ns();
	unsigned got = step_rx(e, rx_budget, now_ns);

	if (nic_next_deadline(e->nic) <= now_ns)
		nic_timeout(e->nic, now_ns);
	if (flush_acks || got == 0)
		nic_ack_flush(e->nic);
	pmd_engine_transmit(e, TX_BUDGET, now_ns);
	if (e->port->ops->timeout)
		e->port_deadline_ns = e->port->ops->timeout(e->port, now_ns);
	pmd_engine_events(e);
	return got;
}

/* ---- inline ------------------------------------------------------------------------------------------------- */

/* Empty polls of this thread in a row. */
static _Thread_local unsigned empty_polls; /* not initial-exec: see guard.c */

static void inline_step(struct pmd_engine *e)
{
	uint64_t polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);
	/* While the thread serves, nobody is known to poll again soon: no reason to hold ACKs back. */
	unsigned got = pmd_engine_step(e, INLINE_RX_BUDGET, !e->polled);

	empty_polls = got > 0 ? 0 : empty_polls + 1;
	__atomic_store_n(&e->inline_polls, polls + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&e->inline_last_ns, e->now_ns, __ATOMIC_RELAXED);
}

void pmd_progress(struct pmd_engine *e)
{
	if (!e->dead)
		inline_step(e);
}

bool pmd_try_progress(struct pmd_engine *e)
{
	if (e->dead || pthread_mutex_trylock(&e->lock) != 0)
		return false;
	inline_step(e);
	pmd_unlock(e);
	return true;
}

void pmd_inline_yield(void)
{
	if (empty_polls < EMPTY_POLLS_YIELD)
		return;
	empty_polls = 0;
	sched_yield();
}

void pmd_doorbell(struct pmd_engine *e)
{
	uint64_t now_ns;

	if (e->dead)
		return;
	now_ns = pmd_now_ns();
	pmd_engine_transmit(e, DOORBELL_TX_BUDGET, now_ns);
	if (e->port->ops->timeout)
		e->port_deadline_ns = e->port->ops->timeout(e->port, now_ns);
}

void pmd_expect_sleep(struct pmd_engine *e)
{
	if (e->dead)
		return;
	e->expect_sleep = true;
	if (e->polled)
		pmd_engine_kick(e);
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

struct thread_state {
	struct pmd_engine *e;
	int credit;
	unsigned naps;
	uint64_t slice_ns, interval_ns;
	uint64_t polls; /* inline_polls when last looked at */
};

void pmd_engine_kick(struct pmd_engine *e)
{
	const uint64_t one = 1;

	/* The counter of an eventfd cannot be full here; and if it were, the thread would wake all the same. */
	if (write(e->doorbell_fd, &one, sizeof(one)) < 0)
		return;
}

/** Sleep on the doorbell, and on the port when `port` is set. @return bit 0: doorbell rang, bit 1: port readable. */
static unsigned thread_sleep(struct pmd_engine *e, bool port, uint64_t timeout_ns)
{
	struct pollfd fds[2] = {{.fd = e->doorbell_fd, .events = POLLIN}, {.fd = e->port->wait_fd, .events = POLLIN}};
	struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
	unsigned woken = 0;
	uint64_t count;

	if (ppoll(fds, port && fds[1].fd >= 0 ? 2 : 1, timeout_ns == UINT64_MAX ? NULL : &t, NULL) <= 0)
		return 0;
	if (fds[0].revents && read(e->doorbell_fd, &count, sizeof(count)) > 0)
		woken |= 1;
	if (fds[1].revents)
		woken |= 2;
	return woken;
}

/** Application threads poll: look on for a slice. Leaves this way of waiting when they no longer do. */
static void thread_look_on(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	bool rang = thread_sleep(e, false, s->slice_ns) & 1;
	uint64_t polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);
	uint64_t last_ns = __atomic_load_n(&e->inline_last_ns, __ATOMIC_RELAXED);
	unsigned got;

	if (!rang && polls != s->polls && pmd_now_ns() - last_ns < POLLING_NS) {
		s->polls = polls;
		s->slice_ns = s->slice_ns * 2 < SLICE_MAX_NS ? s->slice_ns * 2 : SLICE_MAX_NS;
		return;
	}
	pthread_mutex_lock(&e->lock);
	got = pmd_engine_step(e, THREAD_RX_BUDGET, true);
	s->credit = e->expect_sleep || got > 0 ? CREDIT_FULL : CREDIT_NEW;
	e->expect_sleep = false;
	e->polled = false;
	pthread_mutex_unlock(&e->lock);
	s->naps = NAPS;
}

/** How long the thread may sleep; lock held. Work that is left over for want of budget: not at all. */
static uint64_t thread_timeout(struct thread_state *s, unsigned got, uint64_t now_ns)
{
	struct pmd_engine *e = s->e;
	uint64_t deadline = nic_next_deadline(e->nic), timeout;

	if (e->tx_first < e->tx_end)
		return INTERVAL_MIN_NS; /* the port is full; it empties without telling */
	if (nic_tx_pending(e->nic))
		return e->tx_ready ? 0 : INTERVAL_MIN_NS;
	if (e->port_deadline_ns < deadline)
		deadline = e->port_deadline_ns;
	timeout = deadline == UINT64_MAX ? UINT64_MAX : deadline > now_ns ? deadline - now_ns : 0;
	if (s->naps > 0 && timeout > NAP_NS)
		timeout = NAP_NS;
	if (e->port->wait_fd < 0) {
		s->interval_ns = got ? 0 : s->interval_ns ? s->interval_ns * 5 / 4 : INTERVAL_MIN_NS;
		if (s->interval_ns > INTERVAL_MAX_NS)
			s->interval_ns = INTERVAL_MAX_NS;
		if (timeout > s->interval_ns)
			timeout = s->interval_ns;
	}
	return timeout;
}

/** Whether an application thread is about to find what woke the thread. When it shares a CPU with that thread, the
 *  thread has just taken the CPU from it and would win every time. */
static bool thread_leave_to_poller(struct thread_state *s)
{
	struct pmd_engine *e = s->e;
	uint64_t polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);

	if (polls == s->polls ||
	    pmd_now_ns() - __atomic_load_n(&e->inline_last_ns, __ATOMIC_RELAXED) > POLLING_NOW_NS)
		return false;
	if (thread_sleep(e, false, POLLING_WAIT_NS) & 1)
		return false;
	return __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED) != polls;
}

/** Nobody polls: take a step, then sleep until something happens. */
static void thread_serve(struct thread_state *s, unsigned *woken)
{
	struct pmd_engine *e = s->e;
	uint64_t now_ns, polls, timeout;
	unsigned got;

	if (*woken == 2 && s->credit > 1 && thread_leave_to_poller(s)) {
		s->credit--;
		*woken = thread_sleep(e, true, POLLING_NS);
		return;
	}
	pthread_mutex_lock(&e->lock);
	e->thread_wake_ns = 0;
	if ((*woken & 2) && e->port->ops->woken)
		e->port->ops->woken(e->port);
	got = pmd_engine_step(e, THREAD_RX_BUDGET, true);
	polls = __atomic_load_n(&e->inline_polls, __ATOMIC_RELAXED);
	if (got > 0 || e->expect_sleep) {
		s->credit = s->credit + CREDIT_FIND < CREDIT_FULL && !e->expect_sleep ? s->credit + CREDIT_FIND
										       : CREDIT_FULL;
	} else if ((*woken & 2) && polls != s->polls) {
		s->credit--;
	}
	e->expect_sleep = false;
	s->naps = got || polls != s->polls ? NAPS : s->naps > 0 && *woken == 0 ? s->naps - 1 : s->naps;
	s->polls = polls;
	if (s->credit <= 0) {
		e->polled = true;
		s->slice_ns = SLICE_MIN_NS;
		pthread_mutex_unlock(&e->lock);
		return;
	}
	now_ns = pmd_now_ns();
	timeout = thread_timeout(s, got, now_ns);
	e->thread_wake_ns = timeout == UINT64_MAX ? UINT64_MAX : now_ns + timeout;
	pthread_mutex_unlock(&e->lock);
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
	prctl(PR_SET_TIMERSLACK, 1);
	/* Wishes: only a privileged process may raise its priority, and kernels before 6.12 know no slices. */
	attr.nice = THREAD_NICE;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) {
		attr.nice = (int32_t)(20 - syscall(SYS_getpriority, PRIO_PROCESS, 0));
		syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}

static void *thread_main(void *arg)
{
	struct thread_state s = {.e = arg, .credit = CREDIT_NEW, .naps = NAPS, .slice_ns = SLICE_MIN_NS};
	unsigned woken = 0;

	thread_attributes(s.e);
	while (!__atomic_load_n(&s.e->stop, __ATOMIC_RELAXED)) {
		if (s.e->polled)
			thread_look_on(&s);
		else
			thread_serve(&s, &woken);
	}
	return NULL;
}

int pmd_thread_start(struct pmd_engine *e)
{
	sigset_t set, old;
	int rc;

	/* The application's signals are for its own threads; faults in guarded copies are ours. */
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
	__atomic_store_n(&e->stop, true, __ATOMIC_RELAXED);
	pmd_engine_kick(e);
	pthread_join(e->thread, NULL);
}
