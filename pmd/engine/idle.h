/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - the idle policy: what a thread does when there is nothing to do, and which thread does the work
 * (pmd-internal).
 *
 * This module only decides: its inputs are the time and observations, its outputs decisions. It has no clock, makes no
 * system call, takes no lock, and knows neither the engine nor the NIC. Its state belongs to the callers, who act on
 * the decisions.
 *
 *   decision                                          by                 used in
 *   the engine's thread serves, stands by or leaves   idle_thread_*      thread.c
 *   a packet to a poller
 *   the serving thread spins, sleeps or gathers       idle_server_*      thread.c
 *   a waiting application thread spins or sleeps      idle_spin_*        wait.c (and idle_server_* uses it)
 *   a poller checks the port as well as the links     idle_port_*        progress.c
 *   a poller yields the CPU                           idle_yield_*       progress.c
 *   how long a thread may sleep, and whether another  idle_sleep_ns,     sleep.c
 *   thread has to wake it                             idle_interval_ns, idle_rings
 *
 * All adaptive decisions follow one pattern: a thread tries something (for example, to spin), keeps doing it while it
 * pays off, and tries it less often after each failure. A failed attempt costs CPU time that the sender of the next
 * packet may need.
 */
#ifndef PMD_IDLE_H
#define PMD_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* ---- constants ---------------------------------------------------------------------------------------------- */

/* Spinning: before it sleeps, a thread polls for a while. */
#define IDLE_SPIN_NS	50000 /* ns: a spin that finds nothing ends after this; a peer may need as long to answer */
#define IDLE_SHORT_NS	80000 /* ns: a sleep shorter than this, including the wake-up, counts as short */
#define IDLE_SPIN_AFTER 4     /* short sleeps before a spin; doubled after a useless spin, reset after a useful one */
#define IDLE_SPIN_MOST	512   /* upper limit for the short sleeps before a spin */
#define IDLE_BULK	12    /* a sleep before a step with >= this many packets counts as IDLE_SPIN_AFTER short ones */

/* Gathering: the serving thread sleeps for a fixed time, and packets that arrive through links do not wake it. */
#define IDLE_GATHER_NS	  30000 /* ns: longest gathering sleep */
#define IDLE_GATHER_AFTER 16	/* thin wake-ups before gathering; doubled after useless gathering, else reset */
#define IDLE_GATHER_MOST  4096	/* upper limit for the thin wake-ups before gathering */
#define IDLE_THIN	  2	/* a wake-up that brings packets, but at most this many, is called thin */
#define IDLE_WORTH	  4	/* gathering pays off if it brings at least this many packets */

/* Standing by: the engine's thread leaves the work to polling application threads, and checks after each slice of time
 * whether they still poll. */
#define IDLE_SLICE_MIN_NS  50000    /* ns of the first slice; each further slice is twice as long */
#define IDLE_SLICE_MAX_NS  250000   /* ns: longest slice, until there were checks_long slices in a row */
#define IDLE_SLICE_LONG_NS 1000000  /* ns: longest slice after checks_long slices; long polling tends to continue */
#define IDLE_SLICE_DEEP_NS 16000000 /* ns: while an application thread waits, slices that reach this are unlimited */
#define IDLE_CHECKS_RIGHT  8	    /* slices in a row that show that standing by was the right decision */
#define IDLE_CHECKS_LONG   64	 /* slices in a row before slices get longer; doubled if packets waited, else halved */
#define IDLE_CHECKS_MOST   65536 /* upper limit for the slices before slices get longer */
/* In a virtual machine a timer that expires takes up to 60 us of CPU time, more than the check itself. So after
 * IDLE_CHECKS_LAST * checks_long slices in a row the thread checks at the kernel's ticks, which interrupt a polling
 * CPU anyway. */
#define IDLE_CHECKS_LAST   2
#define IDLE_TICK_NS	   4000000 /* ns: longest time between two kernel ticks; a check can be late by this much */

/* Credit: a measure of how often the engine's thread, and not a poller, finds the traffic. Without credit the thread
 * stands by. */
#define IDLE_CREDIT_FULL 8   /* useless wake-ups before the thread stands by; doubled if packets then have to wait */
#define IDLE_CREDIT_MOST 256 /* upper limit for the full credit */
#define IDLE_CREDIT_NEW	 3   /* credit at the start, and after a check that finds no packets and no announced sleep */
#define IDLE_CREDIT_FIND 4   /* credit gained by finding packets that no poller would have found soon */
#define IDLE_SPIN_POLLS	 16  /* if there are this many polls between two steps, an application polls in a loop */

/* What the engine's thread concludes from the age of the latest poll of an application thread. */
#define IDLE_POLLING_NS	    20000   /* ns: an application thread that polled less than this ago counts as polling */
#define IDLE_YIELDING_NS    1000000 /* ns: the same limit for a poller that now yields the CPU to the thread */
#define IDLE_POLLING_NOW_NS 4000    /* ns: a poller that polled less than this ago is about to find the packet */
#define IDLE_LEAVE_NS	    6000    /* ns that the engine's thread gives the poller to find an arrived packet */
/* ns: if a poller yields the CPU to the engine's thread, and its latest poll is more recent than this, the packets that
 * the thread then finds count as found by the poller. */
#define IDLE_LET_IN_NS	    100000

/* Other waits of the engine's thread. */
#define IDLE_LOCK_TRIES 8 /* failed trylocks in a row before the thread waits for the lock */
/* For some time after traffic the engine's thread sleeps no longer than IDLE_NAP_NS. So an application thread that sets
 * a deadline seldom has to wake the engine's thread (a doorbell costs a system call and a wake-up). The limit ends
 * after IDLE_NAPS sleeps that ended by their timeout. */
#define IDLE_NAP_NS	10000000 /* ns */
#define IDLE_NAPS	10

/* How often a poller checks the port, if the function also has links. */
#define IDLE_PORT_PAUSE_MIN_NS 250  /* ns: first pause between checks; doubled while the port is empty */
#define IDLE_PORT_PAUSE_NS     8000 /* ns: longest pause between checks of an empty port */
#define IDLE_PORT_BUSY_SHIFT   3    /* while links bring packets, the longest pause is shifted left by this */
#define IDLE_PORT_OWED	       16   /* a check is due once this many packets have been sent since the last check */

/* When a poller yields the CPU. */
#define IDLE_YIELD_POLLS    64 /* empty polls before a yield; halved if a yield paid off, else doubled */
#define IDLE_YIELD_MIN	    8  /* limits for the number of empty polls before a yield */
#define IDLE_YIELD_MAX	    512
#define IDLE_YIELD_TAKEN_NS 1000 /* ns: if a yield took longer than this, another thread has run meanwhile */

/* How long a thread sleeps. */
#define IDLE_INTERVAL_MIN_NS 20000   /* ns: first pause between a sleeper's checks of a port without descriptor */
#define IDLE_INTERVAL_MAX_NS 1000000 /* ns: longest pause between a sleeper's checks */

#define IDLE_UNBOUNDED UINT64_MAX /* as a duration or a point in time: until another thread wakes the sleeper */

/** What a thread does next. */
enum idle_act {
	IDLE_STEP,     /* serve: take a step at once */
	IDLE_SLEEP,    /* serve: sleep until anything arrives or a deadline passes */
	IDLE_STAND_BY, /* leave the work to application threads, and check again after a slice */
};

/* ---- spinning ----------------------------------------------------------------------------------------------- */

/**
 * Decides when a thread spins, that is, polls for a little while before it sleeps. It spins after several short sleeps:
 * they show that packets follow each other closely, and then a sleep and a wake-up would cost each side more than a
 * message.
 */
struct idle_spin {
	unsigned shorts; /* credit, raised by short sleeps and lowered by long ones */
	unsigned after;	 /* credit that starts a spin */
};

void idle_spin_init(struct idle_spin *s);
/** A sleep has ended. @param shorts how many short sleeps this sleep counts as; 0: it was a long sleep. */
void idle_spin_slept(struct idle_spin *s, unsigned shorts);
/** The spin found what it waited for: packets or, for an application thread, the end of its wait. */
void idle_spin_paid(struct idle_spin *s);
/** The spin ended without finding what it waited for. */
void idle_spin_failed(struct idle_spin *s);

static inline bool idle_spin_is_due(const struct idle_spin *s)
{
	return s->shorts >= s->after;
}

/* ---- the serving thread ------------------------------------------------------------------------------------- */

/**
 * How the engine's thread waits for the next packet. A wake-up costs the sender as much time as sending a packet. It
 * costs the receiver microseconds, on some machines tens of microseconds. Two ways to save wake-ups are tried, and kept
 * while they pay off:
 *
 *   spinning:  the thread polls before it sleeps, as long as packets arrive; see struct idle_spin.
 *   gathering: the sender may share the thread's CPU. Then each packet wakes the thread, which preempts the sender
 *              before the sender can send the next packet, and most of the CPU time is spent on switching. After many
 *              wake-ups for one or two packets the thread sleeps for a fixed time, and the peers that put packets into
 *              links do not wake it.
 */
struct idle_server {
	uint64_t slept_ns;	     /* when the thread last went to sleep or was about to; 0: never */
	uint64_t spin_ns;	     /* end of the current spin; 0: not spinning */
	struct idle_spin spin;	     /* decides when a spin starts */
	unsigned brought;	     /* packets (`got` of idle_server_spins) since the last sleep */
	unsigned thin, gather_after; /* thin wake-ups in a row; number of them that starts gathering */
	bool gathers;		     /* the current or last sleep was for gathering */
};

void idle_server_init(struct idle_server *s);

/** Call after each step. @param got how many packets the step received. If it received none, pass how many it sent:
 *  after a step that sends, more work comes soon, either more packets to send or responses. @return whether to spin,
 *  that is, to take the next step at once. */
bool idle_server_spins(struct idle_server *s, unsigned got, uint64_t now_ns);

/** The serving thread goes to sleep. */
static inline void idle_server_slept(struct idle_server *s, uint64_t now_ns)
{
	s->slept_ns = now_ns;
}

/** Call before a sleep. @return whether to gather: to sleep at most IDLE_GATHER_NS, and not be woken by packets of
 *  links. */
bool idle_server_gathers(struct idle_server *s);

/** The thread was about to sleep, but packets had arrived. That counts as a short sleep, and takes one thin wake-up off
 *  the count. */
void idle_server_averted(struct idle_server *s, uint64_t now_ns);

/* ---- who serves --------------------------------------------------------------------------------------------- */

#define IDLE_POLLS_NOW UINT64_MAX /* in idle_seen.last_ns: a poll is in progress */

/** What the engine's thread sees of application threads. */
struct idle_seen {
	uint64_t now_ns;
	uint64_t polls;	  /* number of polls of application threads so far */
	uint64_t last_ns; /* start of the last poll, or its end if the poll moved many packets; or IDLE_POLLS_NOW */
	uint64_t work_ns; /* total time that application threads have spent moving packets */
	bool waits_now;	  /* an application thread is waiting, and serves until the wait ends */
	bool yields;	  /* a poller is yielding the CPU that the thread runs on */
	bool will_sleep;  /* an application thread has announced that it will sleep until an event */
};

/** What happened in a step of the serving thread. */
struct idle_step {
	uint64_t step_ns; /* when the step began */
	uint64_t finds;	  /* how many polls by application threads have found packets so far */
	unsigned got;	  /* packets received */
	unsigned sent;	  /* packets sent */
	bool woken;	  /* the thread was woken for this step */
	bool by_packets;  /* the arrival of packets woke the thread for this step */
	bool waited;	  /* an application thread held the lock when the step was to begin */
	bool wanted;	  /* an application thread waits for the lock now */
};

/** A slice: how long the engine's thread stands by before it checks again. */
struct idle_slice {
	uint64_t slice_ns;
	bool deep; /* longer than usual: an application thread waits, and kicks this thread when the wait ends */
	bool tick; /* the slice may end up to IDLE_TICK_NS late, with the kernel's tick */
};

/**
 * Decides which thread does the work: the thread that finds the traffic. The engine's thread gains credit when it finds
 * packets that no poller would have found soon. It loses credit when it finds packets that a poller was about to find,
 * when it wakes for packets that a poller has already taken, and for each poll that found packets. Without credit it
 * stands by.
 */
struct idle_thread {
	bool automatic;		      /* false: the thread always serves */
	bool pinned;		      /* the thread never sleeps */
	int credit, credit_full;      /* credit now, and its maximum: see IDLE_CREDIT_FULL */
	unsigned naps;		      /* how many more sleeps are limited to IDLE_NAP_NS */
	unsigned refused;	      /* failed trylocks in a row */
	bool doubts;		      /* polling may have stopped: check again soon */
	unsigned checks, checks_long; /* slices in a row; number of them after which slices get longer */
	uint32_t waits;		      /* how many waits application threads had begun by the last slice */
	uint64_t slice_ns;	      /* length of the next slice */
	/* idle_seen.polls at the last step or check, and idle_step.finds at the last step. */
	uint64_t polls, finds;
	uint64_t work_ns, checked_ns; /* idle_seen.work_ns when has_help() was last called, and the time of that call */
	struct idle_server server;
};

void idle_thread_init(struct idle_thread *t, bool automatic, bool pinned);

/** Call when packets, and nothing else, have woken the serving thread. @return whether an application thread is likely
 *  to find the packets if the serving thread pauses for IDLE_LEAVE_NS. If both threads share a CPU, the serving thread
 *  has just preempted the poller, and without this pause would always find the packets first. */
bool idle_thread_leaves(const struct idle_thread *t, const struct idle_seen *seen);

/** Call after the pause of IDLE_LEAVE_NS, during which no doorbell rang. @param polls number of polls before the pause.
 *  @param now_polls number of polls now. @return IDLE_STEP: nobody has polled; IDLE_SLEEP: sleep up to IDLE_POLLING_NS;
 *  IDLE_STAND_BY: if no application thread has announced a sleep, stand by. */
enum idle_act idle_thread_left(struct idle_thread *t, uint64_t polls, uint64_t now_polls);

/** Call after a step of the serving thread. If it returns IDLE_STAND_BY, call idle_thread_stand_by(). */
enum idle_act idle_thread_stepped(struct idle_thread *t, const struct idle_seen *seen, const struct idle_step *step);

/** Limit a sleep of the serving thread. @param timeout_ns how long the thread may sleep; 0: no sleep. */
static inline uint64_t idle_thread_nap(const struct idle_thread *t, uint64_t timeout_ns)
{
	return t->naps > 0 && timeout_ns > IDLE_NAP_NS ? IDLE_NAP_NS : timeout_ns;
}

/** The engine's thread begins to stand by. Its first slice is the shortest. */
static inline void idle_thread_stand_by(struct idle_thread *t)
{
	t->slice_ns = IDLE_SLICE_MIN_NS;
}

/** How long to stand by before the next check. Slices grow up to a maximum. While one wait of an application thread
 *  goes on, they grow beyond that maximum and finally become unlimited. */
struct idle_slice idle_thread_slice(struct idle_thread *t, bool waits_now, uint32_t waits);

/** Call after a slice. @param rang the doorbell ended the slice. @param due_ns when the check was due. What counts is
 *  whether application threads polled until due_ns, not until now: this thread wakes some time after due_ns, and
 *  meanwhile a poller on the same CPU cannot poll. @return IDLE_STAND_BY: stand by for another slice; IDLE_STEP: serve
 *  again. */
enum idle_act idle_thread_checked(struct idle_thread *t, const struct idle_seen *seen, bool rang, uint64_t due_ns);

/** @return when a check was due. @param check_ns the time for which it was scheduled; if the thread woke earlier, the
 *  check is due now. @param tick the slice ended with the kernel's tick, at a time that cannot be scheduled: then the
 *  check counts as due IDLE_SLICE_MIN_NS before now. */
static inline uint64_t idle_check_due_ns(uint64_t check_ns, bool tick, uint64_t now_ns)
{
	if (tick)
		return now_ns - IDLE_SLICE_MIN_NS;
	return check_ns < now_ns ? check_ns : now_ns;
}

/** Call after a trylock by the engine's thread, when it is to serve again. @param refused another thread holds the
 *  lock. @return whether to wait for the lock now. */
bool idle_thread_waits_for_lock(struct idle_thread *t, bool refused);

/** Call after the first step of the thread when it serves again. @param got packets received by this step. */
void idle_thread_returned(struct idle_thread *t, const struct idle_seen *seen, uint64_t finds, unsigned got, bool rang);

/* ---- checks of the port ------------------------------------------------------------------------------------ */

/**
 * When to check the port. A check is a system call, which costs as much as a packet through a link. If the function
 * has no links, every step checks. With links, the step after a check that found packets checks again, and the pause
 * between checks grows while the port is empty. While links bring packets, even one at a time as in a ping-pong, the
 * pause grows to a higher maximum, because checks would delay these packets.
 */
struct idle_port {
	uint64_t checked_ns; /* when the port was last checked */
	uint64_t heard_ns;   /* when a step last received packets from links */
	uint64_t pause_ns;   /* pause between two checks */
};

/** Whether to check the port now. @param links the function has links. @param owed packets sent through the port
 *  since the last check. */
static inline bool idle_port_is_due(const struct idle_port *p, bool links, unsigned owed, uint64_t now_ns)
{
	bool idle = p->pause_ns >= IDLE_PORT_PAUSE_NS;
	bool busy = pmd_clock_age(now_ns, p->heard_ns) < IDLE_PORT_PAUSE_NS;

	return owed >= IDLE_PORT_OWED || !links ||
	       now_ns - p->checked_ns >= p->pause_ns << (busy && idle ? IDLE_PORT_BUSY_SHIFT : 0);
}

/** The port was checked. @param found packets were received, or more are waiting. */
static inline void idle_port_checked(struct idle_port *p, bool found, uint64_t now_ns)
{
	p->checked_ns = now_ns;
	if (found)
		p->pause_ns = 0;
	else if (p->pause_ns < IDLE_PORT_PAUSE_NS)
		p->pause_ns = p->pause_ns ? 2 * p->pause_ns : IDLE_PORT_PAUSE_MIN_NS;
}

/* ---- yields of a poller ------------------------------------------------------------------------------------- */

/**
 * An application thread yields the CPU after a number of empty polls in a row: if its peer is on the same core, the
 * thread would otherwise poll for its whole time slice (milliseconds) before the peer can answer. If the poll after a
 * yield finds packets or completions, the peer is on this core, and the next yield comes sooner. If no other thread
 * ran, or the poll finds nothing, the next yield comes later.
 */
struct idle_yield {
	unsigned empty; /* empty polls in a row */
	unsigned after; /* number of empty polls after which the poller yields */
};

/** Outcome of a yield: there was no yield, no other thread took the CPU, or another thread ran. */
enum idle_yielded { IDLE_YIELD_NONE, IDLE_YIELD_UNWANTED, IDLE_YIELD_TAKEN };

static inline void idle_yield_init(struct idle_yield *y)
{
	*y = (struct idle_yield){.after = IDLE_YIELD_POLLS};
}

/** Call after each poll. @param yielded outcome of a yield since the previous poll. */
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

/** Whether to yield the CPU now; if so, the count of empty polls restarts. The caller may still decline to yield, as
 *  inline_yield() does while a link has packets; the count has restarted nevertheless. */
static inline bool idle_yield_is_due(struct idle_yield *y)
{
	if (y->empty < y->after)
		return false;
	y->empty = 0;
	return true;
}

/** Classify a yield. @param took_ns how long the yield took. */
static inline enum idle_yielded idle_yield_outcome(uint64_t took_ns)
{
	return took_ns > IDLE_YIELD_TAKEN_NS ? IDLE_YIELD_TAKEN : IDLE_YIELD_UNWANTED;
}

/* ---- sleeps ------------------------------------------------------------------------------------------------- */

/** How long a thread may sleep. @param work there is work left. @param retry_ns if packets wait for room in the port or
 *  for an mbuf: how long until the next attempt to send them (nothing wakes the thread when there is room); 0: no
 *  packets wait. @param interval_ns how long until the next check of a port without a descriptor. @return ns; 0: the
 *  thread must not sleep. */
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

/** How long a thread sleeps before it checks a port without a descriptor again; longer while nothing arrives.
 *  @param last_ns the previous interval; 0: none. @param got packets received since then.
 *  @return ns; 0, that is no sleep, if packets were received. */
static inline uint64_t idle_interval_ns(uint64_t last_ns, unsigned got)
{
	uint64_t next_ns = got ? 0 : last_ns ? last_ns * 5 / 4 : IDLE_INTERVAL_MIN_NS;

	return next_ns < IDLE_INTERVAL_MAX_NS ? next_ns : IDLE_INTERVAL_MAX_NS;
}

/** Whether to wake a thread that sleeps until wake_ns. @param wake_ns 0: the thread is awake. @param work there is work
 *  that the thread does not know of. @param deadline_ns the earliest deadline now. */
static inline bool idle_rings(uint64_t wake_ns, bool work, uint64_t deadline_ns)
{
	return wake_ns != 0 && (work || deadline_ns < wake_ns);
}

#endif
