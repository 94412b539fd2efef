/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the engine's clock (pmd-internal). It is read for every packet, and clock_gettime() costs about as much as the
 * parsing of one: where the kernel itself keeps time by the CPU's counter, so do we, and compare it with the kernel's clock
 * every few milliseconds (a tie).
 */
#ifndef PMD_CLOCK_H
#define PMD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/** What a clock is made from. Tests bring their own. */
struct pmd_clock_source {
	uint64_t (*counts)(void);    /* the counter; NULL: there is none that can be trusted */
	uint64_t (*kernel_ns)(void); /* CLOCK_MONOTONIC */
};

struct pmd_clock {
	/* The latest tie. Readers do not wait for whoever writes: they notice that they must read again, or ask the kernel. */
	uint32_t seq;	       /* odd: being written; another than before: has been written meanwhile */
	uint64_t counts;       /* of the counter, at base_ns */
	uint64_t base_ns;      /* CLOCK_MONOTONIC then */
	uint64_t ns_per_count; /* in units of 2^-32; 0: the counter is not used */
	uint64_t span;	       /* counts for which the tie holds */

	/* Whoever ties. */
	bool tying;	/* atomic: somebody does */
	bool measuring; /* atomic: the counter's rate is not known yet */
	struct pmd_clock_source source;
	uint64_t from_counts; /* the rate is measured from here */
	uint64_t from_ns;     /* atomic */
	uint64_t doubted_ns;  /* when the counter last disagreed with the kernel */
	unsigned doubts;      /* how often lately */
};
extern struct pmd_clock pmd_clock;

/** Choose the source of time, once. Until then it is the kernel. */
void pmd_clock_start(void);

/** In the child of a fork: another thread of the parent's may have been tying. */
void pmd_clock_forked(void);

/** Compare the counter with the kernel's clock now. For whoever has slept by the kernel's clock: a counter that stands still
 *  never says that its tie is over. */
void pmd_clock_check(void);

/** CLOCK_MONOTONIC in ns. */
uint64_t pmd_clock_monotonic_ns(void);

/* ---- for clock.c, pmd_now_ns and tests --------------------------------------------------------------------- */

void pmd_clock_init(struct pmd_clock *c, const struct pmd_clock_source *source);
void pmd_clock_tie(struct pmd_clock *c);

/** The time when the tie does not tell: tie again if need be. Never waits for another thread. */
uint64_t pmd_clock_slow(struct pmd_clock *c);

/**
 * The time by the counter. One comparison finds that the tie is over, that the counter went back and that it jumped.
 * @return false: the tie does not tell.
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
 * Nanoseconds since some time in the past. It may step back: by what the last tie mended, microseconds as a rule; by 10 ms at
 * most, when the counter has jumped. What other threads were told may be ahead as well. See pmd_clock_age; the NIC waits until
 * a step back has passed.
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

/** The same for applications: within a thread it never goes back. Slower: a library finds a thread's variables by a call. */
uint64_t pmd_clock_steady_ns(void);

/** How long ago `then_ns` was; 0 where the clock has stepped back meanwhile, or another thread's is a little ahead. */
static inline uint64_t pmd_clock_age(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
