/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_priv.h - the engine as the files of pmd/engine share it (pmd-internal). */
#ifndef PMD_ENGINE_PRIV_H
#define PMD_ENGINE_PRIV_H

#include <pthread.h>

#include "control.h"
#include "engine_host.h"
#include "idle.h"
#include "links.h"
#include "mutex.h"
#include "port.h"
#include "random.h"
#include "services.h"
#include "tap.h"
#include "tools.h"

/** UROCE_PROGRESS; see thread.c. */
enum pmd_progress_mode { PMD_PROGRESS_AUTO, PMD_PROGRESS_THREAD, PMD_PROGRESS_PINNED, PMD_PROGRESS_INLINE };

/** Packets on their way to the port. Slots [0, ready) hold one mbuf each; while first < end, slots [first, end) hold
 *  packets that the port had no room for. Under the lock. */
struct pmd_tx {
	struct nic_tx_frame slots[PMD_TX_BURST];
	unsigned ready, first, end;
};

/** Steps, by whichever thread. Under the lock. */
struct pmd_steps {
	uint64_t port_deadline_ns;
	uint64_t full_ns; /* start of the last full one (timers and transmit included) */
	struct idle_port port;
	unsigned sent;	  /* packets of the last pmd_engine_transmit */
	unsigned owed;	  /* packets sent since packets were last received */
	unsigned taken;	  /* packets looked at in this step or doorbell, dropped ones included */
	unsigned behind;  /* steps for which timers still wait, at most, after a long time without steps */
	unsigned control; /* steps since pmd_engine_look_after */
	bool quiet;	  /* the last step or doorbell left nothing to do until something arrives */
};

/** Polling application threads. Under the lock; what is atomic the engine's thread reads without. */
struct pmd_polling {
	uint64_t polls;		   /* atomic: so many, ever */
	uint64_t last_ns;	   /* atomic: when the last poll began or its work ended; IDLE_POLLS_NOW: in progress */
	uint64_t work_ns;	   /* atomic: time that application threads have spent moving packets */
	uint64_t finds;		   /* polls that found packets */
	uint64_t completions;	   /* completion count at the last poll */
	uint64_t stepped_ns;	   /* end of the last step */
	unsigned silent_doorbells; /* in a row */
	bool moved;		   /* atomic: the last poll found or sent packets */
	struct idle_yield yield;
	unsigned yielded; /* atomic, also written without the lock: since the last poll; enum idle_yielded */
	int yielding_cpu; /* atomic, likewise: CPU on which a poller is in sched_yield(); -1: none */
};

/** The engine's thread, and who serves. */
struct pmd_thread {
	pthread_t id;
	bool stop;	   /* atomic */
	bool polled;	   /* atomic: application threads poll or wait; the thread looks on. Changed under the lock */
	bool expect_sleep; /* atomic, changed under the lock: pmd_expect_sleep was called */
	bool deep;	   /* atomic: the thread takes long slices; a waiter that stops has to kick it */
	uint64_t look_ns;  /* atomic: latest time of the thread's next look; UINT64_MAX: unbounded */
};

/** What the serving thread sleeps on: the engine's, or an application thread in pmd_wait. */
struct pmd_sleeper {
	/* When the sleeping server wakes by itself; 0: awake, or soon. Written under the lock, except that the engine's
	 * thread clears its own value without it. Values of the engine's thread are odd, those of a waiting application
	 * thread even. */
	uint64_t wake_ns;
	bool retries;	       /* under the lock: it knows that the port was full and wakes soon */
	int doorbell_fd;       /* eventfd: wakes the engine's thread; rung in this process only */
	uint64_t interval_ns;  /* current poll interval of a port without a descriptor. Under the lock */
	int wait_set;	       /* epoll set that an application thread sleeps on; -1: none. Under the lock */
	unsigned wait_changes; /* port->wait_changes when the set was made */
};

/** The serving application thread. Under the lock, where not atomic. */
struct pmd_waiter {
	bool serves;	       /* atomic: there is one; the engine's thread looks on */
	bool asleep;	       /* it sleeps: wake it when *ready is set */
	uint32_t waits;	       /* atomic: number of waits begun by application threads */
	const bool *ready;     /* flag that it waits for, atomic; NULL: none */
	uint64_t deadline_ns;  /* atomic: deadline that the thread keeps for it; UINT64_MAX: it keeps its own time */
	struct idle_spin spin; /* private to the one that serves, as is `ready` */
};

/*
 * One file writes each of these members; others read, or call that file (tests/house/writers_test.py):
 *
 *   member   written by
 *   tx       progress.c
 *   steps    progress.c
 *   polling  progress.c
 *   thread   thread.c
 *   sleeper  sleep.c
 *   waiter   wait.c
 *
 * The other members are engine.c's, engine_nic.c's or a lower layer's. Of `host`, progress.c writes now_ns, rx_until
 * and rx_brief, and sleep.c bell_fd.
 */
struct pmd_engine {
	struct pmd_mutex lock;
	struct pmd_host host; /* what the parts below see */
	struct rte_mempool *pool;
	pmd_event_fn on_event;
	void *event_ctx;

	/* State of parts below, which own it; engine.c and engine_nic.c initialise it, observe.c opens the capture.
	 * Under the lock. */
	struct pmd_services services;
	struct pmd_tools tools;
	struct pmd_stages stages;
	struct pmd_strays *strays; /* NULL: an ethdev device, which has no links */

	struct pmd_tx tx;
	struct pmd_steps steps;
	struct pmd_polling polling;
	struct pmd_thread thread;
	struct pmd_sleeper sleeper;
	struct pmd_waiter waiter;

	enum pmd_progress_mode progress; /* constant */
	struct pmd_random random;	 /* under the lock */

	/* The process's list of engines. */
	struct pmd_device device;
	unsigned refs;
	struct pmd_engine *next;
};

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
	return e->tx.first < e->tx.end;
}

/** Transmit up to `budget` packets. Lock held. @return false when the port has no room. */
bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns);

/** Whether the NIC has packets to send through the port. Lock held. */
bool pmd_engine_port_pending(const struct pmd_engine *e);

/** Service the function's control connections. Lock held. */
void pmd_engine_look_after(struct pmd_engine *e);

/** Call after each step of a thread that does not sleep: only sleepers are woken for control connections. @return
 *  whether to call pmd_engine_look_after. Lock held. */
bool pmd_engine_control_is_due(struct pmd_engine *e);

/** Create the engine's NIC, once the port and the function are known. @return 0, or a negative errno with a sentence in
 *  err. (engine_nic.c) */
int pmd_engine_create_nic(struct pmd_engine *e, enum nic_mtu mtu, char *err, size_t err_len);

/** Hand events to the front-end. Lock held. */
void pmd_engine_events(struct pmd_engine *e);

/** Wake the thread. */
void pmd_engine_kick(struct pmd_engine *e);

/** Wake the serving thread: the engine's, or an application thread in pmd_wait. */
void pmd_engine_wake(struct pmd_engine *e);

/** Open what threads sleep on. @return 0 or a negative errno. */
int pmd_sleep_open(struct pmd_engine *e);
void pmd_sleep_close(struct pmd_engine *e);

#define PMD_WAKE_THREAD 1u /* bit 0 of sleeper.wake_ns: set by the engine's thread */

/** The serving thread goes to sleep: from here on it has to be called. Lock held. @param timeout_ns 0: it does not.
 *  @param who PMD_WAKE_THREAD; 0: an application thread. @return when it wakes by itself. */
uint64_t pmd_sleep_begin(struct pmd_engine *e, uint64_t now_ns, uint64_t timeout_ns, unsigned who);
/** It is awake, and has to be called no more. Lock held. */
void pmd_sleep_end(struct pmd_engine *e);
/** The same of the engine's thread, without the lock: a value that a waiting application thread has stored meanwhile is
 *  kept. */
void pmd_sleep_end_thread(struct pmd_engine *e);
/** The server sleeps. @return whether to call it for work or an earlier deadline that it does not know of; then it
 *  counts as awake. Lock held. */
bool pmd_sleep_is_over(struct pmd_engine *e);

/** How long a thread may sleep after a step that received `got` packets. Lock held. @return ns; 0: work is left;
 *  UINT64_MAX: until woken. */
uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns);

/** What woke a sleeper. */
enum pmd_woken {
	PMD_WOKEN_DOORBELL = 1, /* rung within the process */
	PMD_WOKEN_BELL = 2,	/* a link has packets, or pmd_engine_wake */
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
/** An application thread has polled, or waited, which for the next microseconds counts as polling. Lock held. */
void pmd_inline_polled(struct pmd_engine *e, uint64_t now_ns);
/** Before the first step. */
void pmd_inline_init(struct pmd_engine *e);

/** @return 0 or a negative errno. */
int pmd_thread_start(struct pmd_engine *e);
void pmd_thread_stop(struct pmd_engine *e);
/** An application thread serves. Lock held. @return whether the engine's thread did: kick it to look on instead. */
bool pmd_thread_relieve(struct pmd_engine *e);

void pmd_wait_init(struct pmd_engine *e);
/** What the waiting thread sleeps for is ready. Lock held. */
void pmd_wait_wake(struct pmd_engine *e);
/** The engine's thread may keep the waiter's deadline: if that has passed wake it. */
void pmd_wait_expire(struct pmd_engine *e);

#endif
