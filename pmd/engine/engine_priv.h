/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_priv.h - the engine as engine.c (life, lock), progress.c (work) and thread.c share it (pmd-internal). */
#ifndef PMD_ENGINE_PRIV_H
#define PMD_ENGINE_PRIV_H

#include <pthread.h>

#include "control.h"
#include "engine_host.h"
#include "links.h"
#include "mutex.h"
#include "port.h"
#include "random.h"
#include "services.h"
#include "tap.h"
#include "tools.h"

/** UROCE_PROGRESS; see thread.c. */
enum pmd_progress_mode { PMD_PROGRESS_AUTO, PMD_PROGRESS_THREAD, PMD_PROGRESS_PINNED, PMD_PROGRESS_INLINE };

/** Outcome of a poller's sched_yield(): none pending, the CPU came straight back, or another thread ran. */
enum pmd_yield { PMD_YIELD_NONE, PMD_YIELD_UNWANTED, PMD_YIELD_TAKEN };

struct pmd_engine {
	struct pmd_mutex lock;
	struct pmd_host host; /* what the parts below see */
	struct rte_mempool *pool;
	pmd_event_fn on_event;
	void *event_ctx;

	/* State of parts below, which own it. Under the lock. */
	struct pmd_services services;
	struct pmd_tools tools;
	struct pmd_stages stages;
	struct pmd_strays *strays; /* NULL: no links, so no strays are taken */

	/* Transmission, under the lock. Slots [0, tx_ready) hold one mbuf each; while tx_first < tx_end, slots
	 * [tx_first, tx_end) hold packets that the port had no room for. */
	struct nic_tx_frame tx[PMD_TX_BURST];
	unsigned tx_ready, tx_first, tx_end;
	uint64_t port_deadline_ns;
	unsigned sent;		   /* packets of the last pmd_engine_transmit */
	unsigned silent_doorbells; /* in a row */
	unsigned owed;		   /* packets sent since packets were last received */
	unsigned taken;		   /* packets looked at in this step or doorbell, dropped ones included */
	uint64_t port_looked_ns;   /* when the port was last looked at */
	uint64_t links_heard_ns;   /* when links last brought packets */
	uint64_t interval_ns;	   /* current poll interval of a port without a descriptor */
	uint64_t port_pause_ns;	   /* between two looks at a port */
	uint64_t step_ns;	   /* start of the last full step (timers and transmit included) */
	uint64_t stepped_ns;	   /* end of the last step on an application thread */
	unsigned behind;	   /* steps for which timers still wait, at most, after a long time without steps */
	bool quiet;		   /* the last step or doorbell left nothing to do until something arrives */

	/* What inline polling tells the thread; written under the lock, read by the thread without. */
	uint64_t inline_polls;
	uint64_t inline_last_ns;     /* when the last poll began or its work ended; PMD_POLLS_NOW: in progress */
	uint64_t inline_work_ns;     /* time that application threads have spent moving packets */
	uint64_t inline_finds;	     /* polls that found packets; under the lock */
	bool inline_moved;	     /* atomic: the last poll found or sent packets */
	unsigned control_steps;	     /* steps since pmd_engine_look_after; under the lock */
	unsigned empty_polls;	     /* in a row; under the lock */
	unsigned yield_after;	     /* empty polls before the poller yields; under the lock */
	unsigned yielded;	     /* atomic: since the last poll; enum pmd_yield */
	int yielding_cpu;	     /* atomic: CPU on which a poller is in sched_yield(); -1: none */
	uint64_t inline_completions; /* completion count at the last poll; under the lock */

	/* The thread. */
	enum pmd_progress_mode progress; /* constant */
	pthread_t thread;
	int doorbell_fd;     /* eventfd: wakes the thread; rung in this process only */
	bool stop;	     /* atomic */
	bool waiter;	     /* atomic: an application thread serves (wait.c); the thread looks on */
	uint64_t look_ns;    /* atomic: latest time of the thread's next look; UINT64_MAX: unbounded */
	bool thread_deep;    /* atomic: the thread takes long slices; a waiter that stops has to kick it */
	uint32_t waits;	     /* atomic: number of waits begun by application threads */
	bool polled;	     /* atomic: application threads poll or wait; the thread looks on. Changed under the lock */
	bool expect_sleep;   /* atomic, changed under the lock: pmd_expect_sleep was called */
	bool thread_retries; /* under the lock: the sleeper knows that the port was full and wakes soon */
	/* When the sleeping server wakes by itself; 0: awake, or soon. Written under the lock, except that the engine's
	 * thread clears its own value without it. Values of the engine's thread are odd, those of a waiting application
	 * thread even. */
	uint64_t thread_wake_ns;

	/* The serving application thread (wait.c). Under the lock. */
	const bool *wait_ready; /* flag that it waits for, atomic; NULL: none */
	bool wait_asleep;	/* it sleeps: wake it when *wait_ready is set */
	uint64_t wait_ns;	/* atomic: deadline that the thread keeps for it; UINT64_MAX: it keeps its own time */
	unsigned wait_short;	/* its short sleeps, and how many make it spin; private to it */
	unsigned wait_spin_after;
	int wait_set;	       /* epoll set that it sleeps on; -1: none */
	unsigned wait_changes; /* port->wait_changes when the set was made */

	struct pmd_random random; /* under the lock */

	/* The process's list of engines. */
	struct pmd_device device;
	unsigned refs;
	struct pmd_engine *next;
};

#define PMD_YIELD_POLLS 64 /* initial yield_after: empty polls before yielding */

#define PMD_WAIT_SPIN_AFTER 4 /* initial wait_spin_after: short sleeps before a waiting thread polls first */

#define THREAD_RX_BUDGET 128 /* packets per step outside polling calls */

/* The most packets that a step handles while it holds the lock, dropped ones included: from the port, the larger of the
 * budget and the number sent before, plus one burst; from links, the budget plus one turn. Tests assert it. */
#define PMD_PORT_RX_MOST     512
#define PMD_STEP_PACKETS_MAX (PMD_PORT_RX_MOST + PMD_RX_VAIN + PMD_RX_BURST + THREAD_RX_BUDGET + 32)

/** Point the host at the engine's parts. Call once, on zeroes. */
void pmd_engine_host_init(struct pmd_engine *e);

/** Record that a step has held the lock since `since_ns`. */
static inline void pmd_engine_held(struct pmd_engine *e, uint64_t since_ns, uint64_t now_ns)
{
	if (now_ns > since_ns && now_ns - since_ns > e->host.port->stats.lock_held_ns_max)
		e->host.port->stats.lock_held_ns_max = now_ns - since_ns;
}

/** Hand a packet received from the port to the NIC. Lock held. */
void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns);

/** Do all that is due: receive, timers, transmit, events. Lock held. Bounded. @return packets received. */
unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks);
/** As pmd_engine_step. @param port look at the port in any case; otherwise only when it is due. */
unsigned pmd_engine_step_with(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks);

/** Whether packets wait for room in the port, which does not notify when it drains. Lock held. */
static inline bool pmd_engine_is_full(const struct pmd_engine *e)
{
	return e->tx_first < e->tx_end;
}

/** Transmit up to `budget` packets. Lock held. @return false when the port has no room. */
bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns);

/** Whether the NIC has packets to send through the port. Lock held. */
bool pmd_engine_port_pending(const struct pmd_engine *e);

/** Service the function's control connections. Lock held. */
void pmd_engine_look_after(struct pmd_engine *e);

/* Steps between two looks at control connections by a thread that does not sleep: only sleepers are woken for them. */
#define PMD_CONTROL_STEPS 256

/** Call after each step of a thread that does not sleep. @return whether to call pmd_engine_look_after. Lock held. */
static inline bool pmd_engine_control_is_due(struct pmd_engine *e)
{
	if (++e->control_steps < PMD_CONTROL_STEPS)
		return false;
	e->control_steps = 0;
	return true;
}

/** Hand events to the front-end. Lock held. */
void pmd_engine_events(struct pmd_engine *e);

/** Wake the thread. */
void pmd_engine_kick(struct pmd_engine *e);

/** Wake the serving thread: the engine's, or an application thread in pmd_wait. */
void pmd_engine_call(struct pmd_engine *e);

/** How long a thread may sleep after a step that received `got` packets. Lock held. @return ns; 0: work is left;
 *  UINT64_MAX: until woken. */
uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns);

/** What woke a sleeper. */
enum pmd_woken {
	PMD_WOKEN_DOORBELL = 1, /* rung within the process */
	PMD_WOKEN_BELL = 2,	/* a link has packets, or pmd_engine_call */
	PMD_WOKEN_PORT = 4,
	PMD_WOKEN_PACKETS = PMD_WOKEN_BELL | PMD_WOKEN_PORT,
	PMD_WOKEN_CONTROL = 8, /* control connections are ready */
	PMD_WOKEN_SIGNAL = 16,
	PMD_WOKEN_CLOSED = 32, /* the application has closed our descriptors */
};

/** Sleep of the engine's thread: until kicked or, if `serve`, until anything arrives for the engine. No lock held.
 *  Clears the counts of doorbell and bell. @return enum pmd_woken bits. */
unsigned pmd_engine_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns);

/** Prepare the epoll set of the serving application thread; one thread at a time. Lock held. @return false: the set
 *  could not be made. */
bool pmd_engine_wait_prepare(struct pmd_engine *e);
/** Clear the bell's count: if never cleared, it could saturate, and ringing would fail. */
void pmd_engine_bell_drain(struct pmd_engine *e);
/** Sleep of that thread until anything arrives for the engine. No lock held. @return enum pmd_woken bits. */
unsigned pmd_engine_wait(struct pmd_engine *e, uint64_t timeout_ns);

/** Fill the TX slots with mbufs. @return false: the pool cannot fill them all. */
bool pmd_engine_tx_refill(struct pmd_engine *e);

/** Whether application threads have made enough empty polls in a row to yield the CPU. Lock held; restarts the count if
 *  so. */
bool pmd_inline_must_yield(struct pmd_engine *e);
/** Yield the CPU. No lock held. */
void pmd_inline_yield(struct pmd_engine *e);

#define PMD_POLLS_NOW	UINT64_MAX /* in inline_last_ns: a poll is in progress */
#define PMD_WAKE_THREAD 1u	   /* bit 0 of thread_wake_ns: set by the engine's thread */

/** @return 0 or a negative errno. */
int pmd_thread_start(struct pmd_engine *e);
void pmd_thread_stop(struct pmd_engine *e);

#endif
