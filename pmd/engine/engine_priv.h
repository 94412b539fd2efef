/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_priv.h - the engine as engine.c (life, lock), progress.c (work) and thread.c share it (pmd-internal). */
#ifndef PMD_ENGINE_PRIV_H
#define PMD_ENGINE_PRIV_H

#include <pthread.h>

#include "control.h"
#include "engine.h"
#include "links.h"
#include "mutex.h"
#include "port.h"
#include "random.h"

/** UROCE_PROGRESS; see thread.c. */
enum pmd_progress_mode { PMD_PROGRESS_AUTO, PMD_PROGRESS_THREAD, PMD_PROGRESS_PINNED, PMD_PROGRESS_INLINE };

/** What became of the CPU that a polling thread gave away. */
enum pmd_yield { PMD_YIELD_NONE, PMD_YIELD_UNWANTED, PMD_YIELD_TAKEN };

struct pmd_engine {
	struct pmd_mutex lock;
	struct nic *nic;
	struct pmd_port *port;
	struct pmd_control *control;  /* NULL: an ethdev device, which has one function in one process */
	struct pmd_local *local;      /* NULL, likewise */
	unsigned function;	      /* number of this function of the device */
	struct pmd_links *links;      /* NULL: none */
	struct pmd_service *services; /* see services.c */
	unsigned n_services;
	uint32_t next_port;	   /* where to look for one that may be any */
	struct pmd_strays *strays; /* NULL: there can be none */
	struct rte_mempool *pool;
	pmd_event_fn on_event;
	void *event_ctx;
	bool dead;  /* in a forked child */
	bool keyed; /* UROCE_KEY was set when it was opened */

	/* Captures and faults, see tap.h. Under the lock. */
	unsigned taps;	/* enum pmd_tap */
	bool link_down; /* the device says so; see pmd_tap_link */
	struct pmd_capture *capture;
	struct pmd_fault *fault;
	struct pmd_tool *tools; /* see tools.c */
	unsigned n_tools;

	/* Transmission, under the lock. Slots [0, tx_ready) hold a free mbuf each; while tx_first < tx_end, slots from
	 * tx_first on hold packets that the port had no room for. */
	struct nic_tx_frame tx[PMD_TX_BURST];
	unsigned tx_ready, tx_first, tx_end;
	uint64_t port_deadline_ns;
	uint64_t now_ns;	   /* when the last step began */
	unsigned sent;		   /* packets of the last pmd_engine_transmit */
	unsigned silent_doorbells; /* in a row */
	unsigned owed;		   /* packets sent since packets were last received */
	unsigned taken;		   /* packets that this step, or doorbell, has looked at, whatever became of them */
	bool strays_held;	   /* strays wait for connections */
	uint64_t port_looked_ns;   /* when the port was last looked at */
	uint64_t interval_ns;	   /* at which a port without a descriptor is looked at now */
	uint64_t port_pause_ns;	   /* between two looks */
	uint64_t step_ns;	   /* when the last step was that left nothing out */
	uint64_t stepped_ns;	   /* when the last one of an application's thread ended */
	unsigned behind;	   /* steps that timers yet wait for, at most, because nobody has taken one for long */
	bool quiet;		   /* the last step, or doorbell, left nothing to do, until something comes */
	bool rx_brief;		   /* payloads by reference are left in their links */
	uint64_t rx_until; /* completions after which links are not received from: who polls has what he asked for */

	/* What inline polling tells the thread; written under the lock, read by the thread without. */
	uint64_t inline_polls;
	uint64_t inline_last_ns;     /* when the last poll began, or its work ended; PMD_POLLS_NOW: it goes on */
	uint64_t inline_work_ns;     /* time that application threads have spent moving packets */
	uint64_t inline_finds;	     /* polls that found packets; under the lock */
	bool inline_moved;	     /* atomic: the last poll found or sent packets */
	unsigned control_steps;	     /* since connections were last looked after; under the lock */
	unsigned empty_polls;	     /* in a row; under the lock */
	unsigned yield_after;	     /* empty polls until the CPU is given away; under the lock */
	unsigned yielded;	     /* atomic: since the last poll; enum pmd_yield */
	int yielding_cpu;	     /* atomic: which one a polling thread is giving away now; -1: none */
	uint64_t inline_completions; /* that there were at the last poll; under the lock */

	/* The thread. */
	enum pmd_progress_mode progress; /* constant */
	pthread_t thread;
	int doorbell_fd;     /* eventfd: wakes the thread, from within the process */
	int bell_fd;	     /* eventfd: wakes whoever serves; producers of links ring it */
	bool stop;	     /* atomic */
	bool waiter;	     /* atomic: an application thread serves (wait.c), and the thread looks on */
	uint64_t look_ns;    /* atomic: until when the thread looks on at most; UINT64_MAX: it may be for ever */
	bool thread_deep;    /* atomic: the thread looks on for long; who stops waiting has to call it */
	uint32_t waits;	     /* atomic: times that an application thread began to wait */
	bool polled;	     /* atomic, written by the thread: application threads poll, it looks on */
	bool expect_sleep;   /* atomic, changed under the lock: pmd_expect_sleep was called */
	bool thread_retries; /* under the lock: the sleeping thread knows that the port was full, and wakes soon */
	/* When the sleeping thread wakes by itself; 0: awake, or soon. Under the lock, but for who sets his own to 0: the
	 * thread's are odd, and those of an application thread in its stead even. */
	uint64_t thread_wake_ns;

	/* The application thread that serves. Under the lock. */
	const bool *wait_ready; /* what it waits for, atomic; NULL: nothing */
	bool wait_asleep;	/* who makes it ready has to wake it */
	uint64_t
		wait_ns; /* atomic: when it has work that the thread keeps the time for; UINT64_MAX: it does so itself */
	unsigned wait_short; /* short sleeps of it, and how many it takes until it spins; its own */
	unsigned wait_spin_after;
	int wait_set;	       /* epoll set that it sleeps on; -1: none yet */
	unsigned wait_changes; /* of the port's descriptor, when the set was made */

	struct pmd_random random; /* under the lock */

	/* The process's list of engines. */
	struct pmd_device device;
	unsigned refs;
	struct pmd_engine *next;
};

#define PMD_YIELD_POLLS 64 /* empty polls until the CPU is given away, at first */

#define PMD_RETRY_NS 20000 /* until a port that had no room, or a link that just had none, is offered packets again */

#define PMD_WAIT_SPIN_AFTER 4 /* short sleeps until a thread that waits tries to poll instead, at first */

#define THREAD_RX_BUDGET 128 /* packets of a step that is not part of a polling call */

/* The most packets that a step takes while the engine is locked, dropped ones included: from the port, as many as were sent before, or
 * the budget, and one burst more; from links, the budget and one turn more. Tests assert it. */
#define PMD_PORT_RX_MOST     512
#define PMD_STEP_PACKETS_MAX (PMD_PORT_RX_MOST + PMD_RX_VAIN + PMD_RX_BURST + THREAD_RX_BUDGET + 32)

/** The engine has been locked since then, by a step. */
static inline void pmd_engine_held(struct pmd_engine *e, uint64_t since_ns, uint64_t now_ns)
{
	if (now_ns > since_ns && now_ns - since_ns > e->port->stats.lock_held_ns_max)
		e->port->stats.lock_held_ns_max = now_ns - since_ns;
}

/** Give the NIC a packet of the port. Lock held. */
void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns);

/** All that is due: receive, timers, transmit, events. Lock held. Bounded. @return packets received. */
unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks);
/** The same. @param port look at the port, too, and not only when it is due for a look. */
unsigned pmd_engine_step_with(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks);

/** Whether packets wait because the port had no room: it empties without telling. Lock held. */
static inline bool pmd_engine_is_full(const struct pmd_engine *e)
{
	return e->tx_first < e->tx_end;
}

/** Transmit up to `budget` packets. Lock held. @return false when the port has no room. */
bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns);

/** Whether the NIC has something to send by the port. Lock held. */
bool pmd_engine_port_pending(const struct pmd_engine *e);

/** See to the connections that the function has. Lock held. */
void pmd_engine_look_after(struct pmd_engine *e);

/* Steps: what a sleeper is woken for as soon as it is there, those who do not sleep have to look for. */
#define PMD_CONTROL_STEPS 256

/** After each step of one who does not sleep: whether connections are to be looked after again. Lock held. */
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

/** Wake whoever serves: the thread, or an application thread that waits. */
void pmd_engine_call(struct pmd_engine *e);

/** How long one may sleep who has just taken a step that brought `got` packets: 0 when there is work left, UINT64_MAX: until
 *  something comes. Lock held. */
uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns);

/** What sleepers wait for. */
enum pmd_woken {
	PMD_WOKEN_DOORBELL = 1, /* called from within the process */
	PMD_WOKEN_BELL = 2,	/* a link has something, or somebody calls */
	PMD_WOKEN_PORT = 4,
	PMD_WOKEN_PACKETS = PMD_WOKEN_BELL | PMD_WOKEN_PORT,
	PMD_WOKEN_CONTROL = 8, /* connections want to be looked after */
	PMD_WOKEN_SIGNAL = 16,
	PMD_WOKEN_CLOSED = 32, /* the application has closed descriptors of ours */
};

/** The thread sleeps until it is called, or, if `serve`, anything comes for the engine; no lock held. @return enum pmd_woken
 *  bits; the counts of doorbell and bell are taken. */
unsigned pmd_engine_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns);

/** What an application thread sleeps on that serves, one at a time. Lock held. @return false: there is no descriptor left. */
bool pmd_engine_wait_prepare(struct pmd_engine *e);
/** Take the count of the bell, if there is one: never taken, it could be driven to where nobody can ring any more. */
void pmd_engine_bell_drain(struct pmd_engine *e);
/** It sleeps until anything comes for the engine; no lock held. @return enum pmd_woken bits. */
unsigned pmd_engine_wait(struct pmd_engine *e, uint64_t timeout_ns);

/** Give the TX slots mbufs. @return false when the pool cannot fill them all. */
bool pmd_engine_tx_refill(struct pmd_engine *e);

/** Whether application threads have polled in vain for so long that the CPU should be given away. Lock held. */
bool pmd_inline_must_yield(struct pmd_engine *e);
/** Give it away. No lock held. */
void pmd_inline_yield(struct pmd_engine *e);

#define PMD_POLLS_NOW	UINT64_MAX /* in inline_last_ns */
#define PMD_WAKE_THREAD 1u	   /* in thread_wake_ns */

/** @return 0 or a negative errno. */
int pmd_thread_start(struct pmd_engine *e);
void pmd_thread_stop(struct pmd_engine *e);

#endif
