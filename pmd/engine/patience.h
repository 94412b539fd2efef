/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h - how the engine's thread waits for the next packet when there is nothing to do (pmd-internal).
 *
 * A wake-up costs the sender as much as a send, and the receiver microseconds, on some machines tens of them. Two ways
 * to need fewer wake-ups are tried, and kept while they pay:
 *
 *   spinning:  after several short sleeps packets follow each other closely: the thread waits a little for the next
 *              without sleeping.
 *   gathering: the sender may share the thread's CPU. Then each packet wakes the thread, which preempts the sender
 *              before it can send the next, and both spend all their time on that. After many wake-ups for one or two
 *              packets the thread sleeps for a fixed time, during which producers of links need not wake it.
 *
 * Each failed try doubles the wait for the next one: the CPU that spins may be the one that the sender of the next
 * packet needs. This file only decides: no clock, no sleep, no lock.
 */
#ifndef PMD_PATIENCE_H
#define PMD_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define PATIENCE_SPIN_NS    50000 /* as long as a peer may take to wake and answer */
#define PATIENCE_SHORT_NS   80000 /* sleep plus wake-up, which may be most of it */
#define PATIENCE_SPIN_AFTER 4	  /* initial spin_after: short sleeps before spinning */
#define PATIENCE_SPIN_MOST  512	  /* its maximum */
#define PATIENCE_BULK	    12	  /* packets in one step: a long transfer, worth PATIENCE_SPIN_AFTER short sleeps */

#define PATIENCE_GATHER_NS    30000
#define PATIENCE_GATHER_AFTER 16 /* initial gather_after: thin wake-ups before gathering */
#define PATIENCE_GATHER_MOST  4096
#define PATIENCE_THIN	      2 /* packets, at most, of a thin wake-up */
#define PATIENCE_WORTH	      4 /* packets, at least, for gathering to pay */

struct patience {
	uint64_t slept_ns;	       /* when it last went to sleep; 0: never */
	uint64_t spin_ns;	       /* spins until then; 0: not spinning */
	unsigned promised, spin_after; /* credit of short sleeps, reduced by long ones; how much starts a spin */
	unsigned brought;	       /* packets since the last sleep */
	unsigned thin, gather_after;   /* thin wake-ups in a row; how many start gathering */
	bool gathers;		       /* the current or last sleep is for packets to gather */
};

/** Short sleeps that still count after a long one: not 0, as another program may just have had the CPU. */
static inline unsigned patience_doubt(unsigned short_sleeps)
{
	return short_sleeps > PATIENCE_SPIN_AFTER ? short_sleeps - PATIENCE_SPIN_AFTER : 0;
}

void patience_init(struct patience *p);

/** After each step. @param got packets received or, if none, sent: a heavy sender waits for room, then for answers.
 *  @return whether to spin: to take the next step at once. */
bool patience_spins(struct patience *p, unsigned got, uint64_t now_ns);

/** Before a sleep. @return whether to gather: sleep at most PATIENCE_GATHER_NS, not woken by packets of links. */
bool patience_gathers(struct patience *p);

/** The sleep was averted because packets had arrived: counts as a short sleep, without a wake-up. */
void patience_averted(struct patience *p, uint64_t now_ns);

#endif
