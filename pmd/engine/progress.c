/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - one step of an engine's work, and the steps that polling application threads take.
 *
 * A step receives a burst, runs expired timers, transmits what is due and hands out events; it is bounded, so that
 * the lock is free again soon. Steps are taken
 *   - inline, by every polling call of the application (lowest latency, no wake-ups), and
 *   - by the engine's thread, when nobody polls (thread.c).
 *
 * Delayed ACKs go when an inline poll finds nothing else to do, and always when the thread serves.
 */
#include <sched.h>
#include <string.h>

#include <rte_mbuf.h>

#include "control.h"
#include "engine_priv.h"
#include "strays.h"
#include "tap.h"

#define INLINE_RX_BUDGET   1 /* one burst: what came may be what the caller polls for */
#define TX_BUDGET	   128
#define DOORBELL_TX_BUDGET 256
#define DOORBELLS_SILENT   16 /* in a row, with nothing to send, until what has come is looked for */
#define SETTLE_STEPS	   8
#define SETTLE_SENDS	   64
#define AWAY_NS		   1000000	 /* without a step: what has come meanwhile is taken before timers run, */
#define BEHIND_STEPS	   64		 /* for so many steps at most */
#define RESOLVE_NS	   1000000000ull /* at most, on a machine that forgets neighbours as fast as it learns them */
#define RESOLVE_PAUSE_NS   50000
#define QUIET_NS	   1500	 /* after which a poll is a whole step again: timers, the port */
#define DOORBELL_STEP_NS   20000 /* after which a doorbell that takes what has come is a whole step */
#define PORT_PAUSE_MIN_NS  250
#define PORT_PAUSE_NS	   8000 /* at most */
#define PORT_BUSY_SHIFT	   3	/* then, while links bring packets: so many doublings more */
#define PORT_OWED	   16	/* packets */
#define WORTH_A_CLOCK	   16	/* packets that take so long that reading the clock once more does not show */

/*
 * An application thread gives the CPU away after so many empty polls in a row: on one core with its peer it would otherwise
 * poll out its time slice (milliseconds) before the peer can answer. Where giving away brought what was polled for, the peer
 * is on this core, and it happens sooner; where nobody wanted the CPU, or somebody else did, later.
 */
#define YIELD_POLLS_MIN 8
#define YIELD_POLLS_MAX 512
#define YIELD_TAKEN_NS	1000 /* it has been given away for so long: somebody took it */

/* ---- a step ------------------------------------------------------------------------------------------------- */

bool pmd_engine_port_pending(const struct pmd_engine *e)
{
	return nic_paths_pending(e->nic)[0] & 1 && nic_tx_pending(e->nic);
}

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
	e->quiet = false;
	e->sent = pmd_links_tx(e->links, budget, now_ns);
	if (e->tx_first < e->tx_end && !tx_drain(e, now_ns))
		return false;
	while (budget > 0 && (pmd_engine_port_pending(e) || pmd_unlikely(e->taps && pmd_tap_tx_pending(e, now_ns)))) {
		unsigned n, given;

		if (e->tx_ready < PMD_TX_BURST)
			pmd_engine_tx_refill(e);
		n = e->tx_ready < budget ? e->tx_ready : budget;
		n = given = n ? nic_tx(e->nic, e->tx, n, now_ns) : 0;
		if (pmd_unlikely(e->taps))
			n = pmd_tap_tx(e, 0, e->tx, given, e->tx_ready, now_ns);
		if (n + given == 0)
			break;
		budget -= given;
		e->sent += n;
		e->owed += n;
		e->tx_end = n;
		if (!tx_drain(e, now_ns))
			return false;
	}
	return true;
}

/** All of them: there is at most one of a source and type, and nobody comes back for what would be left. */
void pmd_engine_events(struct pmd_engine *e)
{
	struct nic_event event;

	while (nic_event_next(e->nic, &event))
		if (e->on_event)
			e->on_event(e->event_ctx, &event);
	if (e->wait_asleep && __atomic_load_n(e->wait_ready, __ATOMIC_RELAXED)) {
		e->wait_asleep = false;
		pmd_engine_call(e);
	}
}

void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	enum nic_rx_verdict verdict =
		pmd_unlikely(e->taps) ? pmd_tap_rx(e, 0, frame, now_ns) : nic_rx(e->nic, frame, now_ns);

	if (verdict == NIC_RX_ACCEPTED && e->port->ops->rx_accepted)
		e->port->ops->rx_accepted(e->port, frame);
}

/**
 * Packets that came are given to the NIC: as many as the budget says, and at least as many as were sent since, if so many
 * are there. Who sends more than he receives lets the port's buffer run over, and UC and UD have no window against that.
 * Packets that the port drops count: whatever strangers send, the lock is free again after PMD_STEP_PACKETS_MAX.
 * @return how many were given to the NIC.
 */
static unsigned port_rx(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	unsigned total = 0, looked_at = 0, n;

	if (budget < e->owed)
		budget = e->owed < PMD_PORT_RX_MOST ? e->owed : PMD_PORT_RX_MOST;
	e->owed = 0;
	do {
		n = e->port->ops->rx_burst(e->port, frames, PMD_RX_BURST, now_ns);
		for (unsigned i = 0; i < n; i++)
			pmd_engine_take(e, &frames[i], now_ns);
		total += n;
		looked_at += e->port->looked_at;
	} while (n > 0 && looked_at < budget);
	e->taken += looked_at;
	if (pmd_unlikely(e->strays_held))
		pmd_strays_settle(e, now_ns);
	return total;
}

/**
 * Asking the kernel for packets costs as much as a packet that comes through a link: with links the port is looked at now
 * and then, at once again when it had something, and the less often the longer it has been empty. Who has packets of links to do
 * meanwhile would pay with their time: one that is copied whole takes as long as the pause.
 */
static bool port_is_due(const struct pmd_engine *e, bool busy, uint64_t now_ns)
{
	bool idle = e->port_pause_ns >= PORT_PAUSE_NS;

	return e->owed >= PORT_OWED || !pmd_links_any(e->links) ||
	       now_ns - e->port_looked_ns >= e->port_pause_ns << (busy && idle ? PORT_BUSY_SHIFT : 0);
}

/** Packets have been received with the engine locked. */
static void note_taken(struct pmd_engine *e)
{
	if (e->taken > e->port->stats.lock_packets_max)
		e->port->stats.lock_packets_max = e->taken;
}

static unsigned step_rx(struct pmd_engine *e, unsigned budget, bool port, uint64_t now_ns)
{
	unsigned links = pmd_links_rx(e->links, budget, now_ns), got;

	e->taken = links;
	if (pmd_unlikely(e->taps))
		pmd_tap_rx_due(e, now_ns);
	if (!port && !port_is_due(e, links > 0, now_ns))
		return links;
	got = port_rx(e, budget, now_ns);
	note_taken(e);
	e->port_looked_ns = now_ns;
	if (got > 0 || e->port->more)
		e->port_pause_ns = 0;
	else if (e->port_pause_ns < PORT_PAUSE_NS)
		e->port_pause_ns = e->port_pause_ns ? 2 * e->port_pause_ns : PORT_PAUSE_MIN_NS;
	return links + got;
}

/** Whether nothing is left to do that was not left on purpose but what comes by links, the port, and timers. */
static bool is_quiet(const struct pmd_engine *e)
{
	return pmd_links_any(e->links) && !e->taps && !pmd_engine_is_full(e);
}

/** Whoever polls has what he polls for, and nothing has to be sent for it: the rest can wait a little. */
static bool is_brief(const struct pmd_engine *e, uint64_t now_ns)
{
	return nic_completions(e->nic) >= e->rx_until && now_ns - e->step_ns < QUIET_NS && !nic_tx_pending(e->nic) &&
	       !e->taps && !pmd_engine_is_full(e);
}

/**
 * Whether timers have to wait. After a while in which nobody took a step all may have run out, and their peers have answered
 * long ago: that lies in the port, or in a link, behind what else has come. Who looks seldom, and always finds something, has
 * timers every second time.
 */
static bool timers_wait(struct pmd_engine *e, unsigned got, uint64_t due_ns, uint64_t now_ns)
{
	if (got == 0 && !e->port->more && !(e->links && pmd_links_ready(e->links)))
		e->behind = 0;
	else if (now_ns > e->step_ns + AWAY_NS) /* a CPU's clock may be behind that of another */
		e->behind = e->behind == 0 && due_ns <= now_ns ? BEHIND_STEPS : 0;
	else if (e->behind > 0)
		e->behind--;
	return e->behind > 0;
}

unsigned pmd_engine_step_with(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks)
{
	uint64_t now_ns = e->now_ns = pmd_now_ns();
	unsigned got = step_rx(e, rx_budget, port, now_ns);
	uint64_t due_ns;
	bool wait;

	if (!flush_acks && is_brief(e, now_ns)) {
		e->quiet = false;
		e->sent = 0;
		pmd_engine_events(e);
		return got;
	}
	due_ns = nic_time(e->nic, now_ns);
	wait = timers_wait(e, got, due_ns, now_ns);
	e->step_ns = now_ns;
	if (!wait && due_ns <= now_ns)
		nic_timeout(e->nic, now_ns);
	if (flush_acks || got == 0)
		nic_ack_flush(e->nic, got == 0 && (flush_acks || e->progress == PMD_PROGRESS_INLINE));
	pmd_engine_transmit(e, TX_BUDGET, now_ns);
	if (e->port->ops->timeout)
		e->port_deadline_ns = e->port->ops->timeout(e->port, now_ns);
	pmd_engine_events(e);
	e->quiet = (got == 0 || !nic_acks_wait(e->nic)) && e->sent == 0 && !nic_tx_pending(e->nic) && is_quiet(e);
	return got;
}

unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks)
{
	return pmd_engine_step_with(e, rx_budget, flush_acks, flush_acks);
}

void pmd_engine_look_after(struct pmd_engine *e)
{
	int cancel_state;

	if (!e->control)
		return;
	/* Connections come and go: cancellation points by the dozen, and the engine is locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_control_poll(e);
	pthread_setcancelstate(cancel_state, NULL);
	/* Who sleeps does so on the port's descriptor of before. */
	if (e->wait_asleep && e->wait_changes != e->port->wait_changes)
		pmd_engine_call(e);
}

/* ---- inline ------------------------------------------------------------------------------------------------- */

/** Tell the thread that an application thread has moved packets since start_ns, `references` of them with payload by reference, any
 *  of which takes as long as many packets. @return when that ended; start_ns: at once. */
static uint64_t inline_worked(struct pmd_engine *e, unsigned packets, uint64_t references, uint64_t start_ns)
{
	uint64_t now_ns;

	if (packets < WORTH_A_CLOCK && references == 0)
		return start_ns;
	now_ns = pmd_now_ns();
	pmd_engine_held(e, start_ns, now_ns);
	__atomic_store_n(&e->inline_work_ns, e->inline_work_ns + pmd_clock_age(now_ns, start_ns), __ATOMIC_RELAXED);
	__atomic_store_n(&e->inline_last_ns, now_ns, __ATOMIC_RELAXED);
	return now_ns;
}

/**
 * Polls in a row that found nothing, and what the last time the CPU was given away was good for. What is polled for has come
 * as well when the thread, or the peer, has brought it meanwhile. Lock held.
 */
static void inline_count(struct pmd_engine *e, bool found)
{
	uint64_t completions = nic_completions(e->nic);
	unsigned yielded = __atomic_load_n(&e->yielded, __ATOMIC_RELAXED);

	found |= completions != e->inline_completions;
	e->inline_completions = completions;
	e->empty_polls = found ? 0 : e->empty_polls + 1;
	if (!yielded)
		return;
	__atomic_store_n(&e->yielded, PMD_YIELD_NONE, __ATOMIC_RELAXED);
	if (found && yielded == PMD_YIELD_TAKEN)
		e->yield_after = e->yield_after > YIELD_POLLS_MIN ? e->yield_after / 2 : YIELD_POLLS_MIN;
	else if (e->yield_after < YIELD_POLLS_MAX)
		e->yield_after *= 2;
}

static void inline_polled(struct pmd_engine *e, uint64_t now_ns)
{
	__atomic_store_n(&e->inline_polls, e->inline_polls + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&e->inline_last_ns, now_ns, __ATOMIC_RELAXED);
}

static void inline_step(struct pmd_engine *e)
{
	uint64_t references = e->port->stats.link_rx_references;

	__atomic_store_n(&e->inline_last_ns, PMD_POLLS_NOW, __ATOMIC_RELAXED);
	/* While the thread serves, nobody is known to poll again soon: no reason to hold ACKs back. */
	unsigned got = pmd_engine_step(e, INLINE_RX_BUDGET, !__atomic_load_n(&e->polled, __ATOMIC_RELAXED));

	if (pmd_engine_control_is_due(e))
		pmd_engine_look_after(e);
	inline_count(e, got > 0);
	e->inline_finds += got > 0;
	__atomic_store_n(&e->inline_moved, got + e->sent > 0, __ATOMIC_RELAXED);
	inline_polled(e, e->now_ns);
	e->stepped_ns = inline_worked(e, e->taken + e->sent, e->port->stats.link_rx_references - references, e->now_ns);
}

/**
 * Most polls find nothing. After a step, or a doorbell, that has left nothing to do, what is new lies in a link, but for timers and the port, for which a poll
 * now and then is enough: others only look there. @return false: there is more to do.
 */
static bool inline_is_quiet(struct pmd_engine *e)
{
	uint64_t now_ns;

	if (!e->quiet || pmd_links_ready(e->links) || !__atomic_load_n(&e->polled, __ATOMIC_RELAXED))
		return false;
	now_ns = pmd_now_ns();
	if (pmd_clock_age(now_ns, e->step_ns) >= QUIET_NS)
		return false;
	inline_polled(e, now_ns);
	inline_count(e, false);
	return true;
}

bool pmd_progress(struct pmd_engine *e, unsigned completions)
{
	if (e->dead || inline_is_quiet(e))
		return false;
	e->rx_until = nic_completions(e->nic) + completions;
	inline_step(e);
	e->rx_until = UINT64_MAX;
	return true;
}

bool pmd_try_progress(struct pmd_engine *e)
{
	if (e->dead || !pmd_mutex_trylock(&e->lock))
		return false;
	inline_step(e);
	pmd_unlock(e);
	return true;
}

bool pmd_has_moved(const struct pmd_engine *e)
{
	return !e->dead && __atomic_load_n(&e->inline_moved, __ATOMIC_RELAXED);
}

bool pmd_inline_must_yield(struct pmd_engine *e)
{
	if (e->empty_polls < e->yield_after)
		return false;
	e->empty_polls = 0;
	return true;
}

void pmd_inline_yield(struct pmd_engine *e)
{
	uint64_t start_ns = pmd_now_ns();
	int cpu = sched_getcpu();

	__atomic_store_n(&e->yielding_cpu, cpu, __ATOMIC_RELAXED);
	sched_yield();
	/* Another thread may have given another away meanwhile. One that gives away the same is forgotten with it: then the
	 * engine's thread misses a chance to leave packets to it, no more. */
	__atomic_compare_exchange_n(&e->yielding_cpu, &cpu, -1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	__atomic_store_n(&e->yielded,
			 pmd_clock_age(pmd_now_ns(), start_ns) > YIELD_TAKEN_NS ? PMD_YIELD_TAKEN : PMD_YIELD_UNWANTED,
			 __ATOMIC_RELAXED);
}

/** A program that posts more than it polls takes what has come all the same: or the thread would wake for it. But not long payloads: who
 *  posts a READ is not kept by those that he has posted before, and when he polls next, one call copies several.
 *  @return whether something had come by a link. */
static bool doorbell_rx(struct pmd_engine *e, uint64_t now_ns)
{
	bool found = e->links && pmd_links_ready(e->links);

	if (found) {
		__atomic_store_n(&e->inline_last_ns, PMD_POLLS_NOW, __ATOMIC_RELAXED);
		e->rx_brief = true;
		pmd_links_rx(e->links, INLINE_RX_BUDGET, now_ns);
		e->rx_brief = false;
		e->inline_finds++;
		inline_polled(e, now_ns);
	}
	if (e->owed >= DOORBELL_TX_BUDGET) {
		e->taken = 0;
		port_rx(e, 0, now_ns);
		note_taken(e);
	}
	return found;
}

void pmd_doorbell(struct pmd_engine *e)
{
	uint64_t now_ns, references;
	bool found;

	if (e->dead)
		return;
	references = e->port->stats.link_rx_references;
	/* What was posted waits for something; what has come meanwhile can, a little. */
	if (!nic_tx_pending(e->nic) && e->tx_first == e->tx_end && ++e->silent_doorbells < DOORBELLS_SILENT)
		return;
	e->silent_doorbells = 0;
	now_ns = pmd_now_ns();
	pmd_engine_transmit(e, DOORBELL_TX_BUDGET, now_ns);
	found = doorbell_rx(e, now_ns);
	if (e->port->ops->timeout)
		e->port_deadline_ns = e->port->ops->timeout(e->port, now_ns);
	e->quiet = !nic_acks_wait(e->nic) && !nic_tx_pending(e->nic) && is_quiet(e);
	inline_worked(e, e->sent, e->port->stats.link_rx_references - references, now_ns);
	/* Who has all that he polls for from doorbells takes no steps, and for the thread he polls: nobody else would see to timers,
	 * the port and new connections. */
	if (found && now_ns - e->step_ns >= DOORBELL_STEP_NS && now_ns - e->stepped_ns >= DOORBELL_STEP_NS)
		inline_step(e);
}

void pmd_resolve(struct pmd_engine *e, const struct nic_gid *dgid)
{
	const struct timespec pause = {.tv_nsec = RESOLVE_PAUSE_NS};
	bool asking = e->port->ops->resolve != NULL;
	uint64_t end_ns = asking ? pmd_now_ns() + RESOLVE_NS : 0;
	int cancel;

	if (!asking)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (asking && pmd_now_ns() < end_ns) {
		pmd_lock(e);
		asking = !e->dead && e->port->ops->resolve(e->port, dgid, pmd_now_ns());
		if (!e->dead) /* also for the deadline of a question whose answer need not be waited for */
			pmd_engine_step(e, THREAD_RX_BUDGET, true);
		pmd_unlock(e);
		if (asking)
			nanosleep(&pause, NULL);
	}
	pthread_setcancelstate(cancel, NULL);
}

void pmd_settle(struct pmd_engine *e)
{
	unsigned step = 0;

	if (e->dead)
		return;
	while (step < SETTLE_STEPS && (pmd_engine_step(e, THREAD_RX_BUDGET, true) > 0 || e->port->more))
		step++;
	/* Others receive all the time, and have more to acknowledge than goes at once. */
	nic_ack_flush(e->nic, true);
	do {
		pmd_engine_transmit(e, TX_BUDGET, pmd_now_ns());
	} while (e->sent > 0 && nic_tx_pending(e->nic) && step++ < SETTLE_SENDS);
}

void pmd_expect_sleep(struct pmd_engine *e)
{
	if (e->dead)
		return;
	__atomic_store_n(&e->expect_sleep, true, __ATOMIC_RELAXED);
	/* A program that has slept in pmd_wait before is about to do so again. */
	if (__atomic_load_n(&e->polled, __ATOMIC_RELAXED) && __atomic_load_n(&e->waits, __ATOMIC_RELAXED) == 0)
		pmd_engine_kick(e);
}
