/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - one step of an engine's work, and the steps that polling application threads take.
 *
 * A step receives a burst, runs expired timers, transmits what is due and delivers events. The work of a step is
 * bounded, so that the lock is soon released. Steps are taken
 *   - inline, by polling calls of the application (lowest latency, no wake-ups), and
 *   - by the engine's thread (thread.c), or an application thread that waits (wait.c), when none polls.
 *
 * Delayed ACKs are sent when their delay ends, and earlier by an inline step that receives nothing, by every step of
 * the engine's thread while it serves, and in a wait (wait.c).
 */
#include <sched.h>

#include "control.h"
#include "engine_priv.h"
#include "pool.h"
#include "strays.h"
#include "tap.h"

#define INLINE_RX_BUDGET   1 /* stop after one burst: it may have brought the completion that the caller polls for */
#define TX_BUDGET	   128
#define DOORBELL_TX_BUDGET 256
#define DOORBELLS_SILENT   16 /* if this many doorbells in a row have nothing to send, the last one receives packets */
#define SETTLE_STEPS	   8
#define SETTLE_SENDS	   64
#define AWAY_NS		   1000000 /* after this time without a full step, timers wait until all packets are received */
#define BEHIND_STEPS	   64	   /* after an absence of AWAY_NS, timers wait for at most this many steps */
#define QUIET_NS	   1500	   /* an empty poll is a full step (timers, transmit) if the last was this long ago */
#define BRIEF_NS	   3000	   /* likewise for a poll with completions: longer, so that it is seldom one */
#define DOORBELL_STEP_NS   20000   /* after this time without a step, a doorbell that received packets takes a step */
#define CONTROL_STEPS	   256	   /* steps after which a thread that does not sleep handles control connections */
#define WORTH_A_CLOCK	   16	   /* for this many packets or more, the cost of one more clock read is negligible */

/* ---- a step ------------------------------------------------------------------------------------------------- */

bool pmd_engine_port_pending(const struct pmd_engine *e)
{
	return nic_paths_pending(e->host.nic)[0] & 1 && nic_tx_pending(e->host.nic);
}

/** Give slots [from, to) buffers. @return false: the pool has too few. */
static bool tx_fill(struct pmd_engine *e, unsigned from, unsigned to)
{
	return pmd_pool_take(e->pool, e->tx.slots + from, to - from);
}

bool pmd_engine_tx_refill(struct pmd_engine *e)
{
	if (!tx_fill(e, e->tx.ready, PMD_TX_BURST))
		return false;
	e->tx.ready = PMD_TX_BURST;
	return true;
}

/** Offer the filled slots to the port, and put new buffers into the slots whose buffers the port took. @return false:
 * the port has no room. */
static bool tx_drain(struct pmd_engine *e, uint64_t now_ns)
{
	e->tx.first +=
		e->host.port->ops->tx_burst(e->host.port, e->tx.slots + e->tx.first, e->tx.end - e->tx.first, now_ns);
	if (e->tx.first < e->tx.end)
		return false;
	if (!e->host.port->ops->tx_copies && !tx_fill(e, 0, e->tx.end)) {
		e->tx.ready -= e->tx.end;
		memmove(e->tx.slots, e->tx.slots + e->tx.end, e->tx.ready * sizeof(e->tx.slots[0]));
	}
	e->tx.first = e->tx.end = 0;
	return true;
}

bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	e->steps.quiet = false;
	e->steps.sent = pmd_links_tx(e->host.links, budget, now_ns);
	if (e->tx.first < e->tx.end && !tx_drain(e, now_ns))
		return false;
	while (budget > 0 &&
	       (pmd_engine_port_pending(e) || pmd_unlikely(e->host.taps && pmd_tap_tx_pending(&e->host, now_ns)))) {
		unsigned n, given;

		if (e->tx.ready < PMD_TX_BURST)
			pmd_engine_tx_refill(e);
		n = e->tx.ready < budget ? e->tx.ready : budget;
		n = given = n ? nic_tx(e->host.nic, e->tx.slots, n, now_ns) : 0;
		if (pmd_unlikely(e->host.taps))
			n = pmd_tap_tx(&e->host, 0, e->tx.slots, given, e->tx.ready, now_ns);
		if (n + given == 0)
			break;
		budget -= given;
		e->steps.sent += n;
		e->steps.owed += n;
		e->tx.end = n;
		if (!tx_drain(e, now_ns))
			return false;
	}
	return true;
}

/** Deliver all queued events, because an event left in the queue would not cause another step. The loop ends soon,
 *  since the NIC queues at most one event per source and type. */
void pmd_engine_events(struct pmd_engine *e)
{
	struct nic_event event;

	while (nic_event_next(e->host.nic, &event))
		if (e->on_event)
			e->on_event(e->event_ctx, &event);
	if (e->waiter.asleep && __atomic_load_n(e->waiter.ready, __ATOMIC_RELAXED))
		pmd_wait_wake(e);
}

void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	enum nic_rx_verdict verdict = pmd_unlikely(e->host.taps) ? pmd_tap_rx(&e->host, 0, frame, now_ns)
								 : nic_rx(e->host.nic, frame, now_ns);

	if (verdict == NIC_RX_ACCEPTED && e->host.port->ops->rx_accepted)
		e->host.port->ops->rx_accepted(e->host.port, frame);
}

/**
 * Receive packets from the port and hand them to the NIC. The limit is `budget` packets. If more packets than that were
 * sent through the port since it was last checked, the limit is their number, but at most PMD_PORT_RX_MOST: if steps
 * received fewer packets than they send, the port's buffer would overflow, and UC and UD have no window that prevents
 * that. Packets that the port drops count towards the limit, too. Otherwise a flood of such packets could keep the lock
 * held for more than PMD_STEP_PACKETS_MAX packets.
 * @return packets handed to the NIC.
 */
static unsigned port_rx(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	unsigned total = 0, looked_at = 0, n;

	if (budget < e->steps.owed)
		budget = e->steps.owed < PMD_PORT_RX_MOST ? e->steps.owed : PMD_PORT_RX_MOST;
	e->steps.owed = 0;
	do {
		n = e->host.port->ops->rx_burst(e->host.port, frames, PMD_RX_BURST, now_ns);
		for (unsigned i = 0; i < n; i++)
			pmd_engine_take(e, &frames[i], now_ns);
		total += n;
		looked_at += e->host.port->looked_at;
	} while (n > 0 && looked_at < budget);
	e->steps.taken += looked_at;
	if (pmd_unlikely(pmd_strays_wait(e->strays)))
		pmd_strays_settle(e->strays, now_ns);
	return total;
}

/** Update lock_packets_max, the maximum number of packets received while the lock was held once. */
static void note_taken(struct pmd_engine *e)
{
	if (e->steps.taken > e->host.port->stats.lock_packets_max)
		e->host.port->stats.lock_packets_max = e->steps.taken;
}

static unsigned port_check(struct pmd_engine *e, unsigned budget, uint64_t now_ns)
{
	unsigned got = port_rx(e, budget, now_ns);

	note_taken(e);
	idle_port_checked(&e->steps.port, got > 0 || e->host.port->more, now_ns);
	return got;
}

static unsigned step_rx(struct pmd_engine *e, unsigned budget, bool port, uint64_t now_ns)
{
	unsigned links = pmd_links_rx(e->host.links, budget, now_ns);

	e->steps.taken = links;
	if (links > 0)
		e->steps.port.heard_ns = now_ns;
	if (pmd_unlikely(e->host.taps))
		pmd_tap_rx_due(&e->host, now_ns);
	if (!port && !idle_port_is_due(&e->steps.port, pmd_links_any(e->host.links), e->steps.owed, now_ns))
		return links;
	return links + port_check(e, budget, now_ns);
}

/** Whether polls after a step or doorbell that left no work may check only the links until QUIET_NS after the last full
 *  step. Without links, every poll checks the port. */
static bool is_quiet(const struct pmd_engine *e)
{
	return pmd_links_any(e->host.links) && !e->host.taps && !pmd_engine_is_full(e);
}

/** Whether the step has brought completions, and nothing is to be sent. Then timers and ACKs can wait until BRIEF_NS
 *  after the last full step: an empty poll is a better time for them. */
static bool is_brief(const struct pmd_engine *e, uint64_t completions_before, uint64_t now_ns)
{
	return nic_completions(e->host.nic) != completions_before && now_ns - e->steps.full_ns < BRIEF_NS &&
	       !nic_tx_pending(e->host.nic) && !e->host.taps && !pmd_engine_is_full(e);
}

/**
 * Whether timers have to wait until more packets are received. After AWAY_NS without a step all timers may have
 * expired, although the peers answered long ago: the answers are in the port or a link, queued after other packets. If
 * steps are rare and each finds packets, timers run in every second step.
 */
static bool timers_wait(struct pmd_engine *e, unsigned got, uint64_t due_ns, uint64_t now_ns)
{
	if (got == 0 && !e->host.port->more && !(e->host.links && pmd_links_ready(e->host.links)))
		e->steps.behind = 0;
	else if (now_ns > e->steps.full_ns + AWAY_NS) /* not a difference: full_ns may be later than now_ns */
		e->steps.behind = e->steps.behind == 0 && due_ns <= now_ns ? BEHIND_STEPS : 0;
	else if (e->steps.behind > 0)
		e->steps.behind--;
	return e->steps.behind > 0;
}

/** A step at now_ns, which was read just before. */
static unsigned step_at(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks, uint64_t now_ns)
{
	uint64_t completions = nic_completions(e->host.nic), due_ns;
	unsigned got;
	bool wait;

	e->host.now_ns = now_ns;
	got = step_rx(e, rx_budget, port, now_ns);
	if (!flush_acks && is_brief(e, completions, now_ns)) {
		e->steps.quiet = false;
		e->steps.sent = 0;
		pmd_engine_events(e);
		return got;
	}
	due_ns = nic_time(e->host.nic, now_ns);
	wait = timers_wait(e, got, due_ns, now_ns);
	e->steps.full_ns = now_ns;
	if (!wait && due_ns <= now_ns) {
		if (e->steps.port.checked_ns != now_ns) /* the awaited answer may already be in the port */
			got += port_check(e, rx_budget, now_ns);
		nic_timeout(e->host.nic, now_ns);
	}
	if (flush_acks || got == 0)
		nic_ack_flush(e->host.nic, got == 0 && (flush_acks || e->progress == PMD_PROGRESS_INLINE));
	if (e->cm)
		pmd_cm_advance(e->cm, now_ns);
	pmd_engine_transmit(e, TX_BUDGET, now_ns);
	if (e->host.port->ops->timeout)
		e->steps.port_deadline_ns = e->host.port->ops->timeout(e->host.port, now_ns);
	pmd_engine_events(e);
	e->steps.quiet = (got == 0 || !nic_acks_wait(e->host.nic)) && e->steps.sent == 0 &&
			 !nic_tx_pending(e->host.nic) && is_quiet(e);
	return got;
}

unsigned pmd_engine_step_with(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks)
{
	return step_at(e, rx_budget, port, flush_acks, pmd_now_ns());
}

unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks)
{
	return pmd_engine_step_with(e, rx_budget, flush_acks, flush_acks);
}

bool pmd_engine_control_is_due(struct pmd_engine *e)
{
	if (++e->steps.control < CONTROL_STEPS)
		return false;
	e->steps.control = 0;
	return true;
}

void pmd_engine_upkeep(struct pmd_engine *e)
{
	int cancel_state;

	if (!e->host.control)
		return;
	/* Handling connections passes dozens of cancellation points. Do not be cancelled while the engine is locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_control_poll(&e->host);
	pthread_setcancelstate(cancel_state, NULL);
	/* If the port's descriptor has changed, wake the application thread that still sleeps on the old one. */
	if (e->waiter.asleep && e->sleeper.wait_changes != e->host.port->wait_changes)
		pmd_engine_wake(e);
}

void pmd_engine_acknowledge(struct pmd_engine *e)
{
	if (!nic_acks_wait(e->host.nic))
		return;
	nic_ack_flush(e->host.nic, false);
	pmd_engine_transmit(e, TX_BUDGET, e->host.now_ns);
}

/* ---- inline ------------------------------------------------------------------------------------------------- */

void pmd_inline_init(struct pmd_engine *e)
{
	e->steps.port_deadline_ns = UINT64_MAX;
	idle_yield_init(&e->polling.yield);
	e->polling.yielding_cpu = -1;
}

/** Record for the engine's thread how long an application thread has worked since start_ns. @param packets packets
 *  moved by the work. @param references received payloads by reference; each costs as much as many packets. @return the
 *  time when the work ended; start_ns: the work was too short to justify a clock read, and is not recorded. */
static uint64_t inline_worked(struct pmd_engine *e, unsigned packets, uint64_t references, uint64_t start_ns)
{
	uint64_t now_ns;

	if (packets < WORTH_A_CLOCK && references == 0)
		return start_ns;
	now_ns = pmd_now_ns();
	pmd_engine_held(e, start_ns, now_ns);
	__atomic_store_n(&e->polling.work_ns, e->polling.work_ns + pmd_clock_age(now_ns, start_ns), __ATOMIC_RELAXED);
	__atomic_store_n(&e->polling.last_ns, now_ns, __ATOMIC_RELAXED);
	return now_ns;
}

/** Count empty polls in a row. A poll that found nothing does not count as empty if the engine's thread or a doorbell
 *  has produced completions since the last poll. Lock held. */
static void inline_count(struct pmd_engine *e, bool found)
{
	uint64_t completions = nic_completions(e->host.nic);
	unsigned yielded = __atomic_load_n(&e->polling.yielded, __ATOMIC_RELAXED);

	found |= completions != e->polling.completions;
	e->polling.completions = completions;
	idle_yield_polled(&e->polling.yield, found, yielded);
	if (yielded != IDLE_YIELD_NONE)
		__atomic_store_n(&e->polling.yielded, IDLE_YIELD_NONE, __ATOMIC_RELAXED);
}

void pmd_inline_polled(struct pmd_engine *e, uint64_t now_ns)
{
	__atomic_store_n(&e->polling.polls, e->polling.polls + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&e->polling.last_ns, now_ns, __ATOMIC_RELAXED);
}

/** A step of an application thread. @param now_ns the time, read just before. */
static void inline_step(struct pmd_engine *e, uint64_t now_ns)
{
	uint64_t references = e->host.port->stats.link_rx_references;
	/* While the engine's thread serves, the application perhaps does not poll again soon: do not delay ACKs. */
	bool flush = !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED);
	unsigned got;

	__atomic_store_n(&e->polling.last_ns, IDLE_POLLS_NOW, __ATOMIC_RELAXED);
	got = step_at(e, INLINE_RX_BUDGET, flush, flush, now_ns);
	if (pmd_engine_control_is_due(e))
		pmd_engine_upkeep(e);
	inline_count(e, got > 0);
	e->polling.finds += got > 0;
	__atomic_store_n(&e->polling.moved, got + e->steps.sent > 0, __ATOMIC_RELAXED);
	pmd_inline_polled(e, now_ns);
	e->polling.stepped_ns = inline_worked(e, e->steps.taken + e->steps.sent,
					      e->host.port->stats.link_rx_references - references, now_ns);
}

/**
 * Fast path: most polls find nothing. After a step or doorbell that left no work, a poll only checks the links, and
 * every QUIET_NS a poll takes a full step. @return false: take a step.
 */
static bool inline_is_quiet(struct pmd_engine *e, uint64_t now_ns)
{
	if (!e->steps.quiet || pmd_links_ready(e->host.links) || !__atomic_load_n(&e->thread.polled, __ATOMIC_RELAXED))
		return false;
	if (pmd_clock_age(now_ns, e->steps.full_ns) >= QUIET_NS)
		return false;
	pmd_inline_polled(e, now_ns);
	inline_count(e, false);
	return true;
}

/**
 * Yield the CPU if that is due. Do not yield if a link has packets: this poll finds them. A poll begins with the yield,
 * so that the poll returns what arrives during the yield. If a poll ended with the yield, a program that reads
 * connection events after an empty poll would often learn of a disconnection before it has received the last message.
 * @return whether it yielded. Then it has released the lock, and the caller must take it again.
 */
static bool inline_yield(struct pmd_engine *e)
{
	uint64_t start_ns;
	int cpu;

	if (e->host.dead || !idle_yield_is_due(&e->polling.yield) || (e->host.links && pmd_links_ready(e->host.links)))
		return false;
	start_ns = pmd_now_ns();
	__atomic_store_n(&e->polling.last_ns, start_ns, __ATOMIC_RELAXED);
	pmd_unlock(e);
	cpu = sched_getcpu();
	__atomic_store_n(&e->polling.yielding_cpu, cpu, __ATOMIC_RELAXED);
	sched_yield();
	/* Clear yielding_cpu only if it still names this CPU: by now another thread may be yielding another CPU. If
	 * another thread is yielding this same CPU, its value is cleared too; then the engine's thread only misses
	 * that yield. */
	__atomic_compare_exchange_n(&e->polling.yielding_cpu, &cpu, -1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	__atomic_store_n(&e->polling.yielded, idle_yield_outcome(pmd_clock_age(pmd_now_ns(), start_ns)),
			 __ATOMIC_RELAXED);
	return true;
}

/** The clock is read before the look at the links, so that reading it does not delay a packet that has arrived. */
bool pmd_progress(struct pmd_engine *e, unsigned completions)
{
	bool yielded = inline_yield(e);
	uint64_t now_ns;

	if (yielded)
		pmd_lock(e);
	if (e->host.dead)
		return false;
	now_ns = pmd_now_ns();
	if (inline_is_quiet(e, now_ns))
		return yielded; /* if true, the caller must look again: another thread may have had the lock */
	e->host.rx_until = nic_completions(e->host.nic) + completions;
	inline_step(e, now_ns);
	e->host.rx_until = UINT64_MAX;
	return true;
}

bool pmd_try_progress(struct pmd_engine *e)
{
	if (e->host.dead || !pmd_mutex_trylock(&e->lock))
		return false;
	if (inline_yield(e) && !pmd_mutex_trylock(&e->lock))
		return false;
	if (!e->host.dead)
		inline_step(e, pmd_now_ns());
	pmd_unlock(e);
	return true;
}

bool pmd_has_moved(const struct pmd_engine *e)
{
	return !e->host.dead && __atomic_load_n(&e->polling.moved, __ATOMIC_RELAXED);
}

/** Receive from links as part of a doorbell. Otherwise the engine's thread would have to wake for a program that posts
 *  more often than it polls. Skip payloads by reference: copying them would delay post_send, and the next poll copies
 *  several payloads with one system call. Also receive from the port if many packets were sent since the last receive.
 *  @return whether a link had packets. */
static bool doorbell_rx(struct pmd_engine *e, uint64_t now_ns)
{
	bool found = e->host.links && pmd_links_ready(e->host.links);

	if (found) {
		__atomic_store_n(&e->polling.last_ns, IDLE_POLLS_NOW, __ATOMIC_RELAXED);
		e->host.rx_brief = true;
		pmd_links_rx(e->host.links, INLINE_RX_BUDGET, now_ns);
		e->host.rx_brief = false;
		e->polling.finds++;
		pmd_inline_polled(e, now_ns);
	}
	if (e->steps.owed >= DOORBELL_TX_BUDGET) {
		e->steps.taken = 0;
		port_rx(e, 0, now_ns);
		note_taken(e);
	}
	return found;
}

void pmd_doorbell(struct pmd_engine *e)
{
	uint64_t now_ns, references;
	bool found;

	if (e->host.dead)
		return;
	references = e->host.port->stats.link_rx_references;
	/* If nothing can be sent now, return: received packets can wait for a few doorbells. */
	if (!nic_tx_pending(e->host.nic) && e->tx.first == e->tx.end &&
	    ++e->polling.silent_doorbells < DOORBELLS_SILENT)
		return;
	e->polling.silent_doorbells = 0;
	now_ns = pmd_now_ns();
	pmd_engine_transmit(e, DOORBELL_TX_BUDGET, now_ns);
	found = doorbell_rx(e, now_ns);
	if (e->host.port->ops->timeout)
		e->steps.port_deadline_ns = e->host.port->ops->timeout(e->host.port, now_ns);
	e->steps.quiet = !nic_acks_wait(e->host.nic) && !nic_tx_pending(e->host.nic) && is_quiet(e);
	inline_worked(e, e->steps.sent, e->host.port->stats.link_rx_references - references, now_ns);
	/* If doorbells bring all completions, the application's polls take no steps, while the engine's thread still
	 * stands by because such doorbells count as polls. So take a step here for timers, the port and new
	 * connections. */
	if (found && now_ns - e->steps.full_ns >= DOORBELL_STEP_NS &&
	    now_ns - e->polling.stepped_ns >= DOORBELL_STEP_NS)
		inline_step(e, pmd_now_ns());
}

void pmd_settle(struct pmd_engine *e)
{
	unsigned step = 0;

	if (e->host.dead)
		return;
	while (step < SETTLE_STEPS && (pmd_engine_step(e, THREAD_RX_BUDGET, true) > 0 || e->host.port->more))
		step++;
	/* There may be more ACKs than one transmit can send, because other QPs may still be receiving. */
	nic_ack_flush(e->host.nic, true);
	do {
		pmd_engine_transmit(e, TX_BUDGET, pmd_now_ns());
	} while (e->steps.sent > 0 && nic_tx_pending(e->host.nic) && step++ < SETTLE_SENDS);
}
