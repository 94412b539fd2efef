/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_priv.h - the engine as engine.c (life, lock), progress.c (work) and thread.c share it (pmd-internal). */
#ifndef PMD_ENGINE_PRIV_H
#define PMD_ENGINE_PRIV_H

#include <pthread.h>

#include "control.h"
#include "engine.h"
#include "port.h"

/** UROCE_PROGRESS; see thread.c. */
enum pmd_progress_mode { PMD_PROGRESS_AUTO, PMD_PROGRESS_THREAD, PMD_PROGRESS_PINNED, PMD_PROGRESS_INLINE };

struct pmd_engine {
	pthread_mutex_t lock;
	struct nic *nic;
	struct pmd_port *port;
	struct pmd_control *control; /* NULL: an ethdev device, which has one function in one process */
	unsigned function;	     /* number of this function of the device */
	struct rte_mempool *pool;
	pmd_event_fn on_event;
	void *event_ctx;
	bool dead; /* in a forked child */

	/* Transmission, under the lock. Slots [0, tx_ready) hold a free mbuf each; while tx_first < tx_end, slots from
	 * tx_first on hold packets that the port had no room for. */
	struct nic_tx_frame tx[PMD_TX_BURST];
	unsigned tx_ready, tx_first, tx_end;
	uint64_t port_deadline_ns;
	uint64_t now_ns; /* when the last step began */
	unsigned sent;	 /* packets of the last pmd_engine_transmit */
	unsigned owed;	 /* packets sent since packets were last received */

	/* What inline polling tells the thread; written under the lock, read by the thread without. */
	uint64_t inline_polls;
	uint64_t inline_last_ns; /* when the last poll began, or its work ended */
	uint64_t inline_work_ns; /* time that application threads have spent moving packets */
	uint64_t inline_finds;	 /* polls that found packets; under the lock */

	/* The thread. */
	enum pmd_progress_mode progress; /* constant */
	pthread_t thread;
	int doorbell_fd;     /* eventfd: wakes the thread */
	bool stop;	     /* atomic */
	bool polled;	     /* atomic, written by the thread: application threads poll, it looks on */
	bool expect_sleep;   /* under the lock: pmd_expect_sleep was called */
	bool thread_retries; /* under the lock: the sleeping thread knows that the port was full, and wakes soon */
	/* When the sleeping thread wakes by itself; 0: awake, or soon. Under the lock, but for the thread that sets 0. */
	uint64_t thread_wake_ns;

	/* The process's list of engines. */
	struct pmd_device device;
	unsigned refs;
	struct pmd_engine *next;
};

#define THREAD_RX_BUDGET 128 /* packets of a step that is not part of a polling call */

/** All that is due: receive, timers, transmit, events. Lock held. Bounded. @return packets received. */
unsigned pmd_engine_step(struct pmd_engine *e, unsigned rx_budget, bool flush_acks);

/** Transmit up to `budget` packets. Lock held. @return false when the port has no room. */
bool pmd_engine_transmit(struct pmd_engine *e, unsigned budget, uint64_t now_ns);

/** Hand events to the front-end. Lock held. */
void pmd_engine_events(struct pmd_engine *e);

/** Wake the thread. */
void pmd_engine_kick(struct pmd_engine *e);

/** Give the TX slots mbufs. @return false when the pool cannot fill them all. */
bool pmd_engine_tx_refill(struct pmd_engine *e);

/** No lock held: give the CPU away when this thread has polled in vain for long. */
void pmd_inline_yield(void);

/** @return 0 or a negative errno. */
int pmd_thread_start(struct pmd_engine *e);
void pmd_thread_stop(struct pmd_engine *e);

#endif
