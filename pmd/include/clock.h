/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the engine's clock (pmd-internal). The clock is read for every step and doorbell, and clock_gettime() costs
 * about as much as parsing a packet. If the kernel uses the CPU's counter as its own clocksource, this clock reads that
 * counter, and compares it with the kernel's clock every few milliseconds. The result of a comparison is called a tie.
 */
#ifndef PMD_CLOCK_H
#define PMD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/** Time sources of a clock. Tests replace them with their own functions. */
struct pmd_clock_source {
	uint64_t (*counts)(void);    /* reads the CPU's counter; NULL: no trustworthy counter */
	uint64_t (*kernel_ns)(void); /* CLOCK_MONOTONIC */
};

struct pmd_clock {
	/* The latest tie, protected by a seqlock. Readers never wait: if a tie is being written, they ask the
	 * kernel. */
	uint32_t seq;	       /* odd while a tie is being written; a reader that sees an odd or changed value does not
				* use the tie */
	uint64_t counts;       /* counter value at the tie */
	uint64_t base_ns;      /* CLOCK_MONOTONIC at the tie */
	uint64_t ns_per_count; /* nanoseconds per count, times 2^32; 0: the counter is not used */
	uint64_t span;	       /* counts after which the tie expires */

	/* Used by the thread that makes a tie. */
	bool tying;	/* atomic: a thread is making a tie */
	bool measuring; /* atomic: the counter's rate is not known yet */
	struct pmd_clock_source source;
	uint64_t from_counts; /* counter value at which the measurement of the rate began */
	uint64_t from_ns;     /* atomic: the kernel's time at which the measurement began */
	uint64_t doubted_ns;  /* when the counter last disagreed with the kernel */
	unsigned doubts;      /* how often it has disagreed recently */
};
extern struct pmd_clock pmd_clock;

/** Choose the time source; called once. Before that, the time is the kernel's clock. */
void pmd_clock_start(void);

/** In a forked child: start over, since another thread of the parent may have been making a tie during the fork. */
void pmd_clock_forked(void);

/** Compare the counter with the kernel's clock now. Called by threads that have slept until a deadline of the kernel's
 *  clock: if the counter has stopped, the current tie never expires, so readers alone would not notice. */
void pmd_clock_check(void);

/** @return the kernel's CLOCK_MONOTONIC, in nanoseconds. */
uint64_t pmd_clock_monotonic_ns(void);

/* ---- for clock.c, pmd_now_ns and tests --------------------------------------------------------------------- */

void pmd_clock_init(struct pmd_clock *c, const struct pmd_clock_source *source);
void pmd_clock_tie(struct pmd_clock *c);

/** @return the kernel's time. Called when pmd_clock_fast() fails or the counter is not used. Compares counter and
 *  kernel (makes a tie) if that is due. Never waits for another thread. */
uint64_t pmd_clock_slow(struct pmd_clock *c);

/**
 * Compute the time from the counter. A single comparison (of `passed` and `span`) detects both an expired tie and a
 * counter that has gone back or jumped.
 * @return false: the tie cannot be used; *ns is undefined.
 */
static inline bool pmd_clock_fast(const struct pmd_clock *c, uint64_t counts, uint64_t *ns)
{
	uint32_t seq = __atomic_load_n(&c->seq, __ATOMIC_ACQUIRE) & ~1u;
	uint64_t passed = counts - __atomic_load_n(&c->counts, __ATOMIC_ACQUIRE);
	uint64_t rate = __atomic_load_n(&c->ns_per_count, __ATOMIC_ACQUIRE);
	bool holds = passed < __atomic_load_n(&c->span, __ATOMIC_ACQUIRE);

	*ns = __atomic_load_n(&c->base_ns, __ATOMIC_ACQUIRE) + (uint64_t)((unsigned __int128)passed * rate >> 32);
	return holds && __atomic_load_n(&c->seq, __ATOMIC_RELAXED) == seq;
}

/**
 * Nanoseconds since an arbitrary point in the past. Can step back: a new tie corrects the time, usually by
 * microseconds; if the counter has jumped, the time steps back by at most 10 ms. Other threads can read a time slightly
 * ahead of this thread's. Compute differences with pmd_clock_age. After a step back the NIC waits until the time has
 * caught up.
 */
static inline uint64_t pmd_now_ns(void)
{
#if defined(__x86_64__)
	uint64_t ns;

	if (__builtin_expect(__atomic_load_n(&pmd_clock.ns_per_count, __ATOMIC_RELAXED) &&
				     pmd_clock_fast(&pmd_clock, __rdtsc(), &ns),
			     1))
		return ns;
#endif
	return pmd_clock_slow(&pmd_clock);
}

/** Like pmd_now_ns(), but never steps back within a thread; for applications. Slower, since a library needs a call to
 *  access a thread-local variable. */
uint64_t pmd_clock_steady_ns(void);

/** Time since `then_ns`; 0 if the clock has stepped back since then, or if `then_ns` was read by a thread whose time is
 *  slightly ahead. */
static inline uint64_t pmd_clock_age(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
