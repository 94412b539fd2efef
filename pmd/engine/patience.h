/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h - how the engine's thread waits for the next packet when there is nothing to do (pmd-internal).
 *
 * Waking costs the sender as much as sending, and the receiver microseconds, on some machines tens of them. Two ways to do with
 * fewer of them are tried, and kept up while they pay:
 *
 *   spinning:  where packets follow each other closely, the next is waited for a little without sleeping. When sleeps have been
 *              short several times.
 *   gathering: who sends may share the thread's CPU. Then each packet wakes the thread, which takes the CPU before the next can
 *              be sent, and both spend all their time on that. After many wake-ups for one packet or two the thread sleeps for a
 *              fixed time, in which nobody has to wake it.
 *
 * The more tries have been in vain, the longer until the next one: what the next packet waits for may be the very CPU that the
 * spinning takes. Everything is decided here, nothing done: no clock, no sleep, no lock.
 */
#ifndef PMD_PATIENCE_H
#define PMD_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define PATIENCE_SPIN_NS    50000 /* as long as who answers may take to wake */
#define PATIENCE_SHORT_NS   80000 /* a sleep and the waking, which may be most of it */
#define PATIENCE_SPIN_AFTER 4	  /* short sleeps until spinning is tried, at first */
#define PATIENCE_SPIN_MOST  512	  /* and at last */
#define PATIENCE_BULK	    12	  /* packets of one step, a part of a long transfer: they promise as much as that */

#define PATIENCE_GATHER_NS    30000
#define PATIENCE_GATHER_AFTER 16 /* thin wake-ups until gathering is tried, at first */
#define PATIENCE_GATHER_MOST  4096
#define PATIENCE_THIN	      2 /* packets, at most */
#define PATIENCE_WORTH	      4 /* packets that have gathered, at least: it pays */

struct patience {
	uint64_t slept_ns;	       /* when it last went to sleep; 0: it has not */
	uint64_t spin_ns;	       /* until when it spins; 0: it does not */
	unsigned promised, spin_after; /* short sleeps, long ones taken off; how many it takes to spin */
	unsigned brought;	       /* packets since the last sleep */
	unsigned thin, gather_after;   /* wake-ups in a row that brought little; how many it takes */
	bool gathers;		       /* the sleep is, or the last one was, for packets to gather */
};

/** Short sleeps that still count after a long one. Something else has had the CPU now and then: that alone is no reason to begin
 *  again. */
static inline unsigned patience_doubt(unsigned short_sleeps)
{
	return short_sleeps > PATIENCE_SPIN_AFTER ? short_sleeps - PATIENCE_SPIN_AFTER : 0;
}

void patience_init(struct patience *p);

/** After each step, which brought `got` packets, or sent so many if it brought none: who sends much waits for room, and then for
 *  answers. @return whether to spin: to take the next step at once. */
bool patience_spins(struct patience *p, unsigned got, uint64_t now_ns);

/** Before a sleep. @return whether it is to be one of PATIENCE_GATHER_NS at most without being woken for packets of links. */
bool patience_gathers(struct patience *p);

/** The sleep that was to follow did not take place, for something had come: as good as a short one, and nobody had to wake. */
void patience_averted(struct patience *p, uint64_t now_ns);

#endif
