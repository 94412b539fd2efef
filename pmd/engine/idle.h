/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - the idle policy: what a thread does when there is nothing to do, and which thread does the work
 * (pmd-internal).
 *
 * This module only decides: time and observations go in, decisions come out. It has no clock, makes no system call,
 * takes no lock, and knows neither the engine nor the NIC; its state belongs to the callers, who also act.
 *
 *   decision                                          by                 used in
 *   the thread serves, looks on, or leaves a packet   idle_thread_*      thread.c
 *   the serving thread spins, sleeps or gathers       idle_server_*      thread.c
 *   a waiting application thread spins or sleeps      idle_spin_*        wait.c (and idle_server_* uses it)
 *   a poller looks at the port, too                   idle_port_*        progress.c
 *   a poller yields the CPU                           idle_yield_*       progress.c, engine.c
 *   how long a sleep may be, and whether it has to    idle_sleep_ns,     sleep.c
 *   be ended by ringing the sleeper's bell            idle_interval_ns, idle_rings
 *
 * All adapt in the same way: something is tried, kept while it pays, and tried less often after each failure, because
 * the CPU that it costs may be the one that the sender of the next packet needs.
 */
#ifndef PMD_IDLE_H
#define PMD_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* ---- constants ---------------------------------------------------------------------------------------------- */

/* Spinning: a thread polls before it sleeps. */
#define IDLE_SPIN_NS	50000 /* ns of a spin: as long as a peer may take to wake and answer */
#define IDLE_SHORT_NS	80000 /* ns of a short sleep, at most: sleep plus wake-up, which may be most of it */
#define IDLE_SPIN_AFTER 4     /* short sleeps before the first spin; doubles when a spin was in vain, */
#define IDLE_SPIN_MOST	512   /* up to this */
#define IDLE_BULK	12    /* packets in one step: a long transfer, worth IDLE_SPIN_AFTER short sleeps */

/* Gathering: the serving thread sleeps for a fixed time and is not woken for packets. */
#define IDLE_GATHER_NS	  30000 /* ns of such a sleep */
#define IDLE_GATHER_AFTER 16	/* thin wake-ups before the first; doubles when it was in vain, */
#define IDLE_GATHER_MOST  4096	/* up to this */
#define IDLE_THIN	  2	/* packets, at most, of a thin wake-up */
#define IDLE_WORTH	  4	/* packets, at least, for gathering to pay */

/* Looking on: the thread leaves the work to pollers and looks after a slice whether they still poll. */
#define IDLE_SLICE_MIN_NS  50000    /* ns of the first slice; each next one is twice as long, */
#define IDLE_SLICE_MAX_NS  250000   /* up to this */
#define IDLE_SLICE_LONG_NS 1000000  /* ns, up to this after many slices: long polling tends to go on */
#define IDLE_SLICE_DEEP_NS 16000000 /* ns: slices that grow to this during one wait become unbounded */
#define IDLE_LOOKS_RIGHT   8	    /* slices in a row after which looking on was right */
#define IDLE_LOOKS_LONG	   64	    /* slices in a row before they get longer; doubles if packets waited then, */
#define IDLE_LOOKS_MOST	   65536    /* up to this */
/* In a virtual machine an expiring timer takes up to 60 us from its CPU, more than the look itself. After
 * IDLE_LOOKS_LAST times as many slices the thread aligns its looks with the kernel's tick, which interrupts a polling
 * CPU anyway. */
#define IDLE_LOOKS_LAST	   2
#define IDLE_TICK_NS	   4000000 /* ns between two ticks of the slowest kernel: a look may be late by that */

/* Credit: by how much the thread has been finding the traffic itself; without any it looks on. */
#define IDLE_CREDIT_FULL 8   /* vain wake-ups before the thread looks on; doubles when packets waited for a look, */
#define IDLE_CREDIT_MOST 256 /* up to this */
#define IDLE_CREDIT_NEW	 3   /* credit after polling stopped and no packet had waited */
#define IDLE_CREDIT_FIND 4   /* credit for a step that found packets */
#define IDLE_SPIN_POLLS	 16  /* polls between two wake-ups of the thread: the application polls in a loop */

/* Polling, as the thread sees it by the age of the latest poll. */
#define IDLE_POLLING_NS	    20000   /* ns: an application thread is polling; */
#define IDLE_YIELDING_NS    1000000 /* ns: the same for one that yields to the thread; longer: others may run first */
#define IDLE_POLLING_NOW_NS 4000    /* ns: the poller is about to find the packet that woke the thread, */
#define IDLE_LEAVE_NS	    6000    /* and the thread leaves it to the poller for so many ns */
#define IDLE_LET_IN_NS	    100000  /* ns: packets that we find count as the poller's, which has just yielded to us */

/* The thread's other waits. */
#define IDLE_LOCK_TRIES 8 /* failed trylocks in a row before the thread waits for the lock */
/* After recent traffic the thread sleeps no longer than IDLE_NAP_NS, so that a new deadline seldom has to wake it (a
 * doorbell costs a system call and a wake-up); after IDLE_NAPS idle sleeps it sleeps until it is called. */
#define IDLE_NAP_NS	10000000 /* ns */
#define IDLE_NAPS	10

/* Looks of a poller at the port, next to links. */
#define IDLE_PORT_PAUSE_MIN_NS 250  /* ns between two looks after packets; doubles while the port is empty, */
#define IDLE_PORT_PAUSE_NS     8000 /* up to this */
#define IDLE_PORT_BUSY_SHIFT   3    /* and then, while links bring packets, to this power of two times as much */
#define IDLE_PORT_OWED	       16   /* packets sent since the last receive: look at the port now */

/* Yields of a poller. */
#define IDLE_YIELD_POLLS    64 /* empty polls in a row before the first; halves when a yield paid, else doubles, */
#define IDLE_YIELD_MIN	    8  /* between these */
#define IDLE_YIELD_MAX	    512
#define IDLE_YIELD_TAKEN_NS 1000 /* ns: after a longer yield another thread ran */

/* Sleeps. */
#define IDLE_INTERVAL_MIN_NS 20000   /* ns between two looks of a sleeper at a port without a descriptor; grows to */
#define IDLE_INTERVAL_MAX_NS 1000000 /* this */

#define IDLE_UNBOUNDED UINT64_MAX /* as a duration or a point in time: until woken */

/** What a thread does next. */
enum idle_act {
	IDLE_STEP,    /* a step at once: work is left, or packets are likely to follow soon */
	IDLE_SLEEP,   /* serve: sleep until anything arrives or a deadline passes */
	IDLE_LOOK_ON, /* leave the work to application threads, and look again after a slice */
};

/* ---- spinning ----------------------------------------------------------------------------------------------- */

/**
 * A sleep and a wake-up cost both sides more than a message. After several short sleeps packets follow each other
 * closely, and the thread waits a little for the next one without sleeping.
 */
struct idle_spin {
	unsigned shorts; /* credit of short sleeps, reduced by long ones */
	unsigned after;	 /* how much starts a spin */
};

void idle_spin_init(struct idle_spin *s);
/** A sleep has ended; it counts as so many short ones. @param shorts 0: it was a long one. */
void idle_spin_slept(struct idle_spin *s, unsigned shorts);
/** The spin found what it waited for. */
void idle_spin_paid(struct idle_spin *s);
/** The spin ended without. */
void idle_spin_failed(struct idle_spin *s);

static inline bool idle_spin_is_due(const struct idle_spin *s)
{
	return s->shorts >= s->after;
}

/* ---- the serving thread ------------------------------------------------------------------------------------- */

/**
 * How the engine's thread waits for the next packet. A wake-up costs the sender as much as a send, and the receiver
 * microseconds, on some machines tens of them. Two ways to need fewer are tried, and kept while they pay:
 *
 *   spinning:  see struct idle_spin; by the thread as long as packets come.
 *   gathering: the sender may share the thread's CPU. Then each packet wakes the thread, which preempts the sender
 *              before it can send the next, and both spend all their time on that. After many wake-ups for one or two
 *              packets the thread sleeps for a fixed time, during which producers of links need not wake it.
 */
struct idle_server {
	uint64_t slept_ns;	     /* when it last went to sleep; 0: never */
	uint64_t spin_ns;	     /* spins until then; 0: not spinning */
	struct idle_spin spin;	     /* when it starts to */
	unsigned brought;	     /* packets since the last sleep */
	unsigned thin, gather_after; /* thin wake-ups in a row; how many start gathering */
	bool gathers;		     /* the current or last sleep is for packets to gather */
};

void idle_server_init(struct idle_server *s);

/** After each step. @param got packets received or, if none, sent: a heavy sender waits for room, then for answers.
 *  @return whether to spin: to take the next step at once. */
bool idle_server_spins(struct idle_server *s, unsigned got, uint64_t now_ns);

/** It goes to sleep. */
static inline void idle_server_slept(struct idle_server *s, uint64_t now_ns)
{
	s->slept_ns = now_ns;
}

/** Before a sleep. @return whether to gather: sleep at most IDLE_GATHER_NS, not woken by packets of links. */
bool idle_server_gathers(struct idle_server *s);

/** The sleep was averted because packets had arrived: counts as a short sleep, without a wake-up. */
void idle_server_averted(struct idle_server *s, uint64_t now_ns);

/* ---- who serves --------------------------------------------------------------------------------------------- */

#define IDLE_POLLS_NOW UINT64_MAX /* in idle_seen.last_ns: a poll is in progress */

/** What the engine's thread sees of application threads. */
struct idle_seen {
	uint64_t now_ns;
	uint64_t polls;	  /* polls, ever */
	uint64_t last_ns; /* when the last one began or its work ended; IDLE_POLLS_NOW: in progress */
	uint64_t work_ns; /* time spent moving packets, ever */
	bool waits_now;	  /* one of them is waiting, and serves meanwhile */
	bool yields;	  /* a poller is yielding the CPU that the thread runs on */
	bool will_sleep;  /* one has said that it is about to sleep until an event */
};

/** What happened in a step of the serving thread. */
struct idle_step {
	uint64_t step_ns; /* when it began */
	uint64_t finds;	  /* polls of application threads that found packets, ever */
	unsigned got;	  /* packets received */
	unsigned sent;	  /* packets sent */
	bool woken;	  /* something had woken the thread, */
	bool by_packets;  /* and it was the arrival of packets */
	bool waited;	  /* an application thread had the lock */
	bool wanted;	  /* one waits for it now */
};

/** A slice of looking on. */
struct idle_slice {
	uint64_t slice_ns;
	bool deep; /* longer than without a waiter: the waiter has to kick the thread when it stops */
	bool tick; /* may end with the kernel's tick, up to IDLE_TICK_NS late */
};

/**
 * Which thread does the work, decided by which finds the traffic. If the engine's thread wakes for packets and finds
 * them taken it loses credit, and with none left it looks on. If it finds packets itself it regains credit, except for
 * packets that it finds because a poller has just yielded the CPU to it.
 */
struct idle_thread {
	bool automatic;		     /* else it always serves, */
	bool pinned;		     /* and never sleeps */
	int credit, credit_full;     /* see IDLE_CREDIT_FULL */
	unsigned naps;		     /* sleeps left that IDLE_NAP_NS bounds */
	unsigned refused;	     /* failed trylocks in a row */
	bool doubts;		     /* polling may have stopped: look again soon */
	unsigned looks, looks_long;  /* slices in a row; how many before they get longer */
	uint32_t waits;		     /* waits begun, ever, at the last look */
	uint64_t slice_ns;	     /* the next slice */
	uint64_t polls, finds;	     /* idle_seen.polls, idle_step.finds at the last look */
	uint64_t work_ns, looked_ns; /* idle_seen.work_ns at the last look, and its time */
	struct idle_server server;
};

void idle_thread_init(struct idle_thread *t, bool automatic, bool pinned);

/** Packets, and nothing else, have woken the serving thread. @return whether an application thread is likely to find
 *  them, given IDLE_LEAVE_NS. If they share a CPU the thread has just preempted the poller, and without the wait would
 *  always be first. */
bool idle_thread_leaves(const struct idle_thread *t, const struct idle_seen *seen);

/** After that wait, during which no doorbell rang. @param polls count before it, @param now_polls after it.
 *  @return IDLE_STEP: no poller has come; IDLE_SLEEP: sleep up to IDLE_POLLING_NS; IDLE_LOOK_ON: if nobody objects. */
enum idle_act idle_thread_left(struct idle_thread *t, uint64_t polls, uint64_t now_polls);

/** After a step of the serving thread. For IDLE_LOOK_ON call idle_thread_look_on(). */
enum idle_act idle_thread_stepped(struct idle_thread *t, const struct idle_seen *seen, const struct idle_step *step);

/** Bound a sleep of the serving thread. @param timeout_ns how long it may sleep; 0: not at all. */
static inline uint64_t idle_thread_nap(const struct idle_thread *t, uint64_t timeout_ns)
{
	return t->naps > 0 && timeout_ns > IDLE_NAP_NS ? IDLE_NAP_NS : timeout_ns;
}

/** It looks on from now. */
static inline void idle_thread_look_on(struct idle_thread *t)
{
	t->slice_ns = IDLE_SLICE_MIN_NS;
}

/** How long to look on. Slices grow; while the same wait of an application thread goes on, beyond the usual maximum and
 *  finally without limit. */
struct idle_slice idle_thread_slice(struct idle_thread *t, bool waits_now, uint32_t waits);

/** After a slice. @param rang the doorbell ended it. @param due_ns when the look was due: it comes later, as waking
 *  takes long, and a poller that shares the CPU cannot poll meanwhile. @return IDLE_LOOK_ON: for another slice;
 *  IDLE_STEP: serve again. */
enum idle_act idle_thread_looked(struct idle_thread *t, const struct idle_seen *seen, bool rang, uint64_t due_ns);

/** When a look that was to come at `look_ns` was due. @param tick it followed the kernel's tick: due whenever that
 *  came. */
static inline uint64_t idle_look_due_ns(uint64_t look_ns, bool tick, uint64_t now_ns)
{
	if (tick)
		return now_ns - IDLE_SLICE_MIN_NS;
	return look_ns < now_ns ? look_ns : now_ns;
}

/** To serve again the lock was tried. @return whether to wait for it if it was refused. */
bool idle_thread_waits_for_lock(struct idle_thread *t, bool refused);

/** The thread serves again: after its first step, which received `got` packets. */
void idle_thread_returned(struct idle_thread *t, const struct idle_seen *seen, uint64_t finds, unsigned got, bool rang);

/* ---- looks at the port -------------------------------------------------------------------------------------- */

/**
 * Asking the kernel for packets costs as much as a packet through a link: a function with links looks at once after
 * packets, and less often the longer the port has been empty. While links bring packets, which includes the waits of a
 * ping-pong, the longest pause grows further: the looks would delay these packets.
 */
struct idle_port {
	uint64_t looked_ns; /* when the port was last looked at */
	uint64_t heard_ns;  /* when links last brought packets in a step */
	uint64_t pause_ns;  /* between two looks */
};

/** @param links the function has links. @param owed packets sent since packets were last received from the port. */
static inline bool idle_port_is_due(const struct idle_port *p, bool links, unsigned owed, uint64_t now_ns)
{
	bool idle = p->pause_ns >= IDLE_PORT_PAUSE_NS;
	bool busy = pmd_clock_age(now_ns, p->heard_ns) < IDLE_PORT_PAUSE_NS;

	return owed >= IDLE_PORT_OWED || !links ||
	       now_ns - p->looked_ns >= p->pause_ns << (busy && idle ? IDLE_PORT_BUSY_SHIFT : 0);
}

/** @param found there were packets, or more are there. */
static inline void idle_port_looked(struct idle_port *p, bool found, uint64_t now_ns)
{
	p->looked_ns = now_ns;
	if (found)
		p->pause_ns = 0;
	else if (p->pause_ns < IDLE_PORT_PAUSE_NS)
		p->pause_ns = p->pause_ns ? 2 * p->pause_ns : IDLE_PORT_PAUSE_MIN_NS;
}

/* ---- yields of a poller ------------------------------------------------------------------------------------- */

/**
 * An application thread yields the CPU after a number of empty polls in a row: on one core with its peer it would
 * otherwise poll out its time slice (milliseconds) before the peer can answer. If a yield brought what was polled for,
 * the peer is on this core, and the next yield comes sooner; if no thread took the CPU, or an unrelated one did, later.
 */
struct idle_yield {
	unsigned empty; /* empty polls in a row */
	unsigned after; /* how many before the poller yields */
};

/** Outcome of a yield: none pending, the CPU came straight back, or another thread ran. */
enum idle_yielded { IDLE_YIELD_NONE, IDLE_YIELD_UNWANTED, IDLE_YIELD_TAKEN };

static inline void idle_yield_init(struct idle_yield *y)
{
	*y = (struct idle_yield){.after = IDLE_YIELD_POLLS};
}

/** After each poll. @param yielded outcome of a yield since the poll before. */
static inline void idle_yield_polled(struct idle_yield *y, bool found, enum idle_yielded yielded)
{
	y->empty = found ? 0 : y->empty + 1;
	if (yielded == IDLE_YIELD_NONE)
		return;
	if (found && yielded == IDLE_YIELD_TAKEN)
		y->after = y->after > IDLE_YIELD_MIN ? y->after / 2 : IDLE_YIELD_MIN;
	else if (y->after < IDLE_YIELD_MAX)
		y->after *= 2;
}

/** Whether to yield now; restarts the count if so. */
static inline bool idle_yield_is_due(struct idle_yield *y)
{
	if (y->empty < y->after)
		return false;
	y->empty = 0;
	return true;
}

/** @param took_ns how long the yield took. */
static inline enum idle_yielded idle_yield_outcome(uint64_t took_ns)
{
	return took_ns > IDLE_YIELD_TAKEN_NS ? IDLE_YIELD_TAKEN : IDLE_YIELD_UNWANTED;
}

/* ---- sleeps ------------------------------------------------------------------------------------------------- */

/** How long a thread may sleep. @param work work is left. @param retry_ns packets wait for room, which nothing reports:
 *  until the next try; 0: none do. @param interval_ns until the next look at a port without a descriptor. @return ns;
 *  0: not at all. */
static inline uint64_t idle_sleep_ns(bool work, uint64_t retry_ns, uint64_t deadline_ns, uint64_t interval_ns,
				     uint64_t now_ns)
{
	if (work)
		return 0;
	if (retry_ns)
		return retry_ns;
	if (deadline_ns <= now_ns)
		return 0;
	return deadline_ns != IDLE_UNBOUNDED && deadline_ns - now_ns < interval_ns ? deadline_ns - now_ns : interval_ns;
}

/** Interval between two looks of a sleeper at a port without a descriptor; grows while nothing arrives.
 *  @param last_ns the one before; 0: none. */
static inline uint64_t idle_interval_ns(uint64_t last_ns, unsigned got)
{
	uint64_t next_ns = got ? 0 : last_ns ? last_ns * 5 / 4 : IDLE_INTERVAL_MIN_NS;

	return next_ns < IDLE_INTERVAL_MAX_NS ? next_ns : IDLE_INTERVAL_MAX_NS;
}

/** Whether to ring the bell of a thread that sleeps until wake_ns. @param wake_ns 0: it is awake. @param work there is
 *  work that it does not know of. @param deadline_ns the earliest. */
static inline bool idle_rings(uint64_t wake_ns, bool work, uint64_t deadline_ns)
{
	return wake_ns != 0 && (work || deadline_ns < wake_ns);
}

#endif
