/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_priv.h - internals that the files of pmd/engine share (pmd-internal). */
#ifndef PMD_ENGINE_PRIV_H
#define PMD_ENGINE_PRIV_H

#include <pthread.h>

#include "control.h"
#include "engine_cm_priv.h"
#include "engine_host.h"
#include "idle.h"
#include "links.h"
#include "mutex.h"
#include "port.h"
#include "random.h"
#include "services.h"
#include "tap.h"
#include "tools.h"

/** Values of UROCE_PROGRESS; see thread.c. */
enum pmd_progress_mode { PMD_PROGRESS_AUTO, PMD_PROGRESS_THREAD, PMD_PROGRESS_PINNED, PMD_PROGRESS_INLINE };

/** Packets to transmit through the port. Slots [first, ready) have one buffer each; the port has taken the packets of
 *  the slots before. If first < end, slots [first, end) hold packets for which the port had no room. Accessed under the
 *  lock. */
struct pmd_tx {
	struct nic_tx_frame slots[PMD_TX_BURST];
	unsigned ready, first, end;
};

/** State of the steps that the engine's thread and application threads take. Accessed under the lock. */
struct pmd_steps {
	uint64_t port_deadline_ns;
	uint64_t full_ns; /* start of the last full step (one with timers and transmit) */
	struct idle_port port;
	unsigned sent;	  /* packets sent by the last pmd_engine_transmit */
	unsigned owed;	  /* packets sent through the port since it was last checked */
	unsigned taken;	  /* packets examined in this step or doorbell, including dropped ones */
	unsigned behind;  /* after a long time without steps, timers wait for up to this many more steps */
	unsigned control; /* steps since pmd_engine_control_is_due last returned true */
	bool quiet;	  /* the last step or doorbell left no work: nothing to do until something arrives */
};

/** Polling by application threads. Accessed under the lock, but the atomic members are also read without it. */
struct pmd_polling {
	uint64_t polls;		   /* atomic: number of polls so far */
	uint64_t last_ns;	   /* atomic: start of the last poll, or its end if the poll moved many packets;
				    * IDLE_POLLS_NOW: a poll is in progress */
	uint64_t work_ns;	   /* atomic: total time that application threads have spent moving packets */
	uint64_t finds;		   /* number of polls that found packets */
	uint64_t completions;	   /* nic_completions() at the last poll */
	uint64_t stepped_ns;	   /* end of the last step of an application thread, or start of that step if it was
				    * short */
	unsigned silent_doorbells; /* doorbells in a row that had nothing to send */
	bool moved;		   /* atomic: the last step of an application thread received or sent packets */
	struct idle_yield yield;
	unsigned yielded; /* atomic, also written unlocked: outcome of a yield since the last poll, enum idle_yielded */
	int yielding_cpu; /* atomic, also written unlocked: CPU on which a poller is in sched_yield(); -1: none */
};

/** The engine's thread, and whether it serves (does the engine's work) or leaves that to application threads. */
struct pmd_thread {
	pthread_t id;
	bool stop;   /* atomic */
	bool polled; /* atomic, changed under the lock: application threads poll or wait, so the engine's thread stands
			by */
	bool expect_sleep; /* atomic, changed under the lock: pmd_expect_sleep was called */
	bool deep; /* atomic: the thread stands by for long slices, so a waiter has to kick it when the wait ends */
	uint64_t check_ns; /* atomic: the thread checks again at this time or earlier; UINT64_MAX: no limit */
};

/** What the serving thread sleeps on. The serving thread is the engine's, or an application thread in pmd_wait. */
struct pmd_sleeper {
	/* When the sleeping thread wakes by itself; 0: it is awake, or about to be. Written under the lock, except that
	 * the engine's thread clears its own value without the lock. The engine's thread stores odd values, a waiting
	 * application thread even ones. */
	uint64_t wake_ns;
	bool retries;	       /* under the lock: the sleeper knows that the port is full, and wakes soon to retry */
	int doorbell_fd;       /* eventfd that wakes the engine's thread; only this process rings it */
	uint64_t interval_ns;  /* under the lock: current interval between polls of a port without a descriptor */
	int wait_set;	       /* under the lock: epoll set that an application thread sleeps on; -1: none */
	unsigned wait_changes; /* port->wait_changes when the epoll set was made */
};

/** The application thread that serves. Accessed under the lock, except the atomic members. */
struct pmd_waiter {
	bool serves;	       /* atomic: an application thread serves, and the engine's thread stands by */
	bool asleep;	       /* the application thread sleeps: wake it when *ready is set */
	uint32_t waits;	       /* atomic: number of waits that application threads have begun */
	const bool *ready;     /* the flag that the application thread waits for, itself atomic; NULL: none */
	uint64_t deadline_ns;  /* atomic: when the waiter's sleep has to end; UINT64_MAX: never. If the engine's
				  thread checks before the deadline, that thread wakes the waiter when the deadline
				  comes; if not, the waiter sets a timer before it sleeps. */
	struct idle_spin spin; /* used only by the application thread that serves, also without the lock */
};

/*
 * Only one file writes each of these members; other files read the member, or call functions of that file
 * (tests/house/writers_test.py):
 *
 *   member   written by
 *   tx       progress.c
 *   steps    progress.c
 *   polling  progress.c
 *   thread   thread.c
 *   sleeper  sleep.c
 *   waiter   wait.c
 *
 * engine.c, engine_host.c, engine_nic.c or a lower layer writes the other members, with these exceptions: engine_cm.c
 * writes cm, host.nic_cm and host.cm_stats, engine_cm_ports.c writes cm_ports, progress.c writes host.now_ns,
 * host.rx_until and host.rx_brief, and sleep.c writes host.bell_fd.
 */
struct pmd_engine {
	struct pmd_mutex lock;
	struct pmd_host host; /* what the lower layers see of the engine */
	struct pmd_pool *pool;
	pmd_event_fn on_event;
	void *event_ctx;

	/* State of lower layers, which own it. engine.c and engine_nic.c initialise it; observe.c creates the capture.
	 * Accessed under the lock. */
	struct pmd_services services;
	struct pmd_tools tools;
	struct pmd_stages stages;
	struct pmd_strays *strays; /* NULL for an ethdev device, which has no links */

	struct pmd_cm *cm; /* NULL: pmd_cm_open has not created it yet */
	struct pmd_cm_port *cm_ports;

	struct pmd_tx tx;
	struct pmd_steps steps;
	struct pmd_polling polling;
	struct pmd_thread thread;
	struct pmd_sleeper sleeper;
	struct pmd_waiter waiter;

	enum pmd_progress_mode progress; /* constant */
	struct pmd_random random;	 /* under the lock */

	/* For the process's list of engines. */
	struct pmd_device device;
	unsigned refs;
	struct pmd_engine *next;
};

#define THREAD_RX_BUDGET 128 /* rx_budget of a step, except in a polling call of the application */

/* Maximum number of packets, including dropped ones, that one step handles while it holds the lock. From the port: the
 * larger of the budget and pmd_steps.owed (at most PMD_PORT_RX_MOST of these count), plus one burst, plus PMD_RX_VAIN
 * dropped packets. From links: the budget plus one link's turn (LINK_BURST). Tests check the sum. */
#define PMD_PORT_RX_MOST     512
#define PMD_STEP_PACKETS_MAX (PMD_PORT_RX_MOST + PMD_RX_VAIN + PMD_RX_BURST + THREAD_RX_BUDGET + 32)

/** Initialise e->host, with pointers to the engine's parts. Call once, on a zeroed engine. */
void pmd_engine_host_init(struct pmd_engine *e);

/** Serve a service (proto_service), as pmd_service_open serves a port. No lock held. @param service 0: any free port of
 *  reliable datagrams, which is stored in *service. */
int pmd_engine_serve(struct pmd_engine *e, uint32_t *service);
void pmd_engine_unserve(struct pmd_engine *e, uint32_t service);
/** Call after a service was added. No lock held. @param told true: a daemon was told of the service, so wait until the
 *  kernel steers the service's packets to us; false: there is no daemon, so start one. */
void pmd_engine_served(struct pmd_engine *e, bool told);

/** Record that a step has held the lock since `since_ns`. */
static inline void pmd_engine_held(struct pmd_engine *e, uint64_t since_ns, uint64_t now_ns)
{
	if (now_ns > since_ns && now_ns - since_ns > e->host.port->stats.lock_held_ns_max)
		e->host.port->stats.lock_held_ns_max = now_ns - since_ns;
}

/** Hand a packet received from the port to the NIC. Lock held. */
void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns);

/** Take a step: receive, run due timers, transmit, deliver events. Handles a bounded number of packets. Lock held.
 *  @return packets received. */
unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks);
/** As pmd_engine_step. @param port true: receive from the port in any case; false: only when a check of the port is
 *  due. */
unsigned pmd_engine_step_with(struct pmd_engine *e, unsigned rx_budget, bool port, bool flush_acks);
/** Send the delayed ACKs that peers have asked for, and with them all other packets that are due. Does nothing if no
 *  ACK is delayed. Lock held. */
void pmd_engine_acknowledge(struct pmd_engine *e);

/** Whether packets wait because the port was full. A port does not notify when it has room again. Lock held. */
static inline bool pmd_engine_is_full(const struct pmd_engine *e)
{
	return e->tx.first < e->tx.end;
}

/** Transmit up to `budget` packets through links, and as many through the port. Lock held. @return false: the port has
 *  no room. */
bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns);

/** Whether the NIC has packets to send through the port. Lock held. */
bool pmd_engine_port_pending(const struct pmd_engine *e);

/** Handle events of the function's control connections. Lock held. */
void pmd_engine_upkeep(struct pmd_engine *e);

/** Count a step of a thread that does not sleep. Control connections cannot wake such a thread, so it handles them once
 *  every CONTROL_STEPS steps. @return whether it is time to call pmd_engine_upkeep. Lock held. */
bool pmd_engine_control_is_due(struct pmd_engine *e);

/** Create the engine's NIC, once the port and the function number are known. @return 0, or a negative errno with an
 *  error message in err. (engine_nic.c) */
int pmd_engine_create_nic(struct pmd_engine *e, enum nic_mtu mtu, char *err, size_t err_len);

/** Deliver the NIC's events to the front end, and wake the waiting application thread if its flag is set. Lock held. */
void pmd_engine_events(struct pmd_engine *e);

/** Ring the doorbell, which wakes the engine's thread. */
void pmd_engine_kick(struct pmd_engine *e);

/** Wake the serving thread: the engine's, or an application thread in pmd_wait. */
void pmd_engine_wake(struct pmd_engine *e);

/** Create the eventfds that threads sleep on. @return 0 or a negative errno. */
int pmd_sleep_open(struct pmd_engine *e);
void pmd_sleep_close(struct pmd_engine *e);

#define PMD_WAKE_THREAD 1u /* bit 0 of sleeper.wake_ns: the value is from the engine's thread */

/** Before a sleep: from now on packets in the links and in the port wake the serving thread. Lock held. @return false:
 *  there are packets, do not sleep. */
bool pmd_sleep_announce(struct pmd_engine *e);
/** The sleep is over: packets need not wake the serving thread. Lock held. */
void pmd_sleep_over(struct pmd_engine *e);
/** The serving thread is going to sleep: from now on other threads have to wake it for new work. Lock held. @param
 *  timeout_ns 0: the thread does not sleep. @param who PMD_WAKE_THREAD for the engine's thread; 0: an application
 *  thread. @return when the thread wakes by itself. */
uint64_t pmd_sleep_begin(struct pmd_engine *e, uint64_t now_ns, uint64_t timeout_ns, unsigned who);
/** The serving thread is awake: other threads need not wake it any more. Lock held. */
void pmd_sleep_end(struct pmd_engine *e);
/** As pmd_sleep_end, called by the engine's thread without the lock: if a waiting application thread has stored its own
 *  wake-up time since, that time is kept. */
void pmd_sleep_end_thread(struct pmd_engine *e);
/** @return whether the sleeping thread has to be woken now, for work or for a deadline earlier than its own wake-up
 *  time. If so, the thread counts as awake from now on. Lock held. */
bool pmd_sleep_is_over(struct pmd_engine *e);

/** How long a thread may sleep after a step that received `got` packets. Lock held. @return ns; 0: there is work left;
 *  UINT64_MAX: until another thread wakes it. */
uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns);

/** What woke a sleeper. */
enum pmd_woken {
	PMD_WOKEN_DOORBELL = 1, /* rung by a thread of this process */
	PMD_WOKEN_BELL = 2,	/* a link has packets, or pmd_engine_wake was called for a waiting application thread */
	PMD_WOKEN_PORT = 4,
	PMD_WOKEN_PACKETS = PMD_WOKEN_BELL | PMD_WOKEN_PORT,
	PMD_WOKEN_CONTROL = 8, /* control connections are ready */
	PMD_WOKEN_SIGNAL = 16, /* application threads only: the engine's thread blocks signals */
	PMD_WOKEN_CLOSED = 32, /* the application has closed the engine's descriptors */
};

/** The engine's thread sleeps until the doorbell rings, the timeout expires or, if `serve`, anything arrives for the
 *  engine. No lock held. Clears the counts of the doorbell and the bell. @return enum pmd_woken bits. */
unsigned pmd_engine_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns);

/** Prepare the epoll set of the serving application thread; only one thread serves at a time. Lock held. @return false:
 *  the set could not be made. */
bool pmd_engine_wait_prepare(struct pmd_engine *e);
/** Clear the bell's count. A count that is never cleared could reach its maximum, and ringing would fail. */
void pmd_engine_bell_drain(struct pmd_engine *e);
/** The serving application thread sleeps until anything arrives for the engine, or the timeout expires. No lock held.
 *  @return enum pmd_woken bits. */
unsigned pmd_engine_wait(struct pmd_engine *e, uint64_t timeout_ns);

/** Give every TX slot a buffer. @return false: the pool has too few. */
bool pmd_engine_tx_refill(struct pmd_engine *e);

/** An application thread has polled or waited: for the next microseconds it counts as polling. Lock held. */
void pmd_inline_polled(struct pmd_engine *e, uint64_t now_ns);
/** Initialise the state of polling. Call before the first step. */
void pmd_inline_init(struct pmd_engine *e);

/** Start the engine's thread. @return 0 or a negative errno. */
int pmd_thread_start(struct pmd_engine *e);
void pmd_thread_stop(struct pmd_engine *e);
/** An application thread serves from now on. Lock held. @return whether the engine's thread was serving: then the
 *  caller has to kick it, so that it stands by instead. */
bool pmd_thread_relieve(struct pmd_engine *e);

void pmd_wait_init(struct pmd_engine *e);
/** Wake the waiting application thread: the flag that it waits for is set. Lock held. */
void pmd_wait_wake(struct pmd_engine *e);
/** Wake the waiting application thread if its deadline has passed. The engine's thread calls this, because the waiting
 *  thread sets no timer if the engine's thread checks in time (wait_sleep in wait.c). */
void pmd_wait_expire(struct pmd_engine *e);

#endif
