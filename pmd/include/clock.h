/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the engine's clock (pmd-internal). It is read for every packet, and clock_gettime() costs about as much as
 * parsing one. Where the kernel itself keeps time by the CPU's counter, the clock reads that counter and compares it
 * with the kernel's clock every few milliseconds (a tie).
 */
#ifndef PMD_CLOCK_H
#define PMD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/** Time sources of a clock. Tests supply their own. */
struct pmd_clock_source {
	uint64_t (*counts)(void);    /* the counter; NULL: no trustworthy counter */
	uint64_t (*kernel_ns)(void); /* CLOCK_MONOTONIC */
};

struct pmd_clock {
	/* The latest tie, a seqlock. Readers never wait for the writer: if it interferes, they ask the kernel. */
	uint32_t seq;	       /* odd: being written; changed during a read: rewritten meanwhile */
	uint64_t counts;       /* counter value at the tie */
	uint64_t base_ns;      /* CLOCK_MONOTONIC at the tie */
	uint64_t ns_per_count; /* in units of 2^-32; 0: the counter is not used */
	uint64_t span;	       /* counts for which the tie holds */

	/* Used by the thread that ties. */
	bool tying;	/* atomic: a thread is tying */
	bool measuring; /* atomic: the counter's rate is not known yet */
	struct pmd_clock_source source;
	uint64_t from_counts; /* the rate is measured from here */
	uint64_t from_ns;     /* atomic */
	uint64_t doubted_ns;  /* when the counter last disagreed with the kernel */
	unsigned doubts;      /* recent disagreements */
};
extern struct pmd_clock pmd_clock;

/** Choose the time source, once. Until then it is the kernel's clock. */
void pmd_clock_start(void);

/** In the child of a fork: start over, since another thread of the parent may have been tying. */
void pmd_clock_forked(void);

/** Compare the counter with the kernel's clock now. For threads that slept by the kernel's clock: a counter that stands
 *  still never reaches the end of its tie. */
void pmd_clock_check(void);

/** CLOCK_MONOTONIC in ns. */
uint64_t pmd_clock_monotonic_ns(void);

/* ---- for clock.c, pmd_now_ns and tests --------------------------------------------------------------------- */

void pmd_clock_init(struct pmd_clock *c, const struct pmd_clock_source *source);
void pmd_clock_tie(struct pmd_clock *c);

/** The kernel's time, for when pmd_clock_fast() fails; ties again if due. Never waits for another thread. */
uint64_t pmd_clock_slow(struct pmd_clock *c);

/**
 * The time by the counter. One comparison detects that the tie has expired, that the counter went back and that it
 * jumped.
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
 * Nanoseconds since an arbitrary point in the past. May step back: by the correction of the last tie, usually
 * microseconds; by at most 10 ms when the counter has jumped. Times read by other threads may be ahead too. See
 * pmd_clock_age; the NIC waits until a step back has passed.
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

/** As pmd_now_ns(), for applications: never goes back within a thread. Slower: a library reaches thread-local variables
 *  through a call. */
uint64_t pmd_clock_steady_ns(void);

/** Time since `then_ns`; 0 if the clock has stepped back meanwhile or `then_ns` is from a thread that is a bit
 *  ahead. */
static inline uint64_t pmd_clock_age(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
