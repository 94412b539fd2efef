/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the engine's clock.
 *
 * The time is read from the CPU's counter if the kernel uses that counter as a clocksource: the kernel has then found
 * that the counter's rate is constant and the same on all CPUs. Otherwise, or if /sys is not available, the time comes
 * from clock_gettime().
 *
 * The kernel's clock is the reference. The counter's rate is measured against the kernel's clock over MEASURE_NS, again
 * and again; until the first result, clock_gettime() is used. A tie (a counter value and the kernel time at that
 * moment) is used for SPAN_NS and then replaced, so rate errors do not accumulate. Suspend, hibernation and live
 * migration can change the counter arbitrarily. The counter then disagrees with the kernel at the next tie, and the
 * measurement starts over. A counter that disagrees repeatedly is no longer used.
 *
 * Owns: the process's clock.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define SOURCE_FILE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

#define SPAN_NS	     10000000u
#define MEASURE_NS   100000000u
#define SAMPLES	     3
#define WIDE_NS	     20000u  /* a sample that took longer to read is discarded */
#define DOUBT_NS     200000u /* difference between counter and kernel that is tolerated at a tie */
#define DOUBT_SHIFT  6	     /* also tolerated: 2^-6 of the time since the last tie, more than a rate error of 1% */
#define DOUBTS_MOST  8
#define DOUBT_AGE_NS 60000000000u /* counter and kernel agreed for this time: the count of differences returns to 0 */

struct pmd_clock pmd_clock = {.source.kernel_ns = pmd_clock_monotonic_ns};
static _Thread_local uint64_t last_ns; /* last result of pmd_clock_steady_ns in this thread */

uint64_t pmd_clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- ties --------------------------------------------------------------------------------------------------- */

struct sample {
	uint64_t counts, ns;
	uint64_t width; /* counter ticks that reading both clocks took */
};

/** Read both clocks at nearly the same time. The fastest of SAMPLES attempts is used, since the thread can lose the CPU
 *  between the two reads. */
static struct sample sample_take(const struct pmd_clock *c)
{
	struct sample best = {0}, s;

	for (unsigned i = 0; i < SAMPLES; i++) {
		s.counts = c->source.counts();
		s.ns = c->source.kernel_ns();
		s.width = c->source.counts() - s.counts;
		if (i == 0 || s.width < best.width)
			best = s;
	}
	return best;
}

/** Convert counter ticks to nanoseconds. `counts` holds a signed number, which can be large. */
static __int128 ns_of(uint64_t counts, uint64_t ns_per_count)
{
	return ((__int128)(int64_t)counts * (__int128)ns_per_count) >> 32;
}

/** Whether a sample took too long to be precise; the counter may have jumped while it was taken. */
static bool is_wide(const struct pmd_clock *c, const struct sample *s)
{
	return c->ns_per_count && (s->width >> 32 || ns_of(s->width, c->ns_per_count) > WIDE_NS);
}

/** Publish a tie with a seqlock, which prevents readers from mixing an old tie with a new one. */
static void tie_write(struct pmd_clock *c, const struct sample *s, uint64_t ns_per_count)
{
	uint64_t span = ns_per_count ? ((uint64_t)SPAN_NS << 32) / ns_per_count : 0;

	__atomic_store_n(&c->seq, c->seq + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->counts, s->counts, __ATOMIC_RELEASE);
	__atomic_store_n(&c->base_ns, s->ns, __ATOMIC_RELEASE);
	__atomic_store_n(&c->ns_per_count, ns_per_count, __ATOMIC_RELEASE);
	__atomic_store_n(&c->span, span, __ATOMIC_RELEASE);
	__atomic_store_n(&c->seq, c->seq + 1, __ATOMIC_RELEASE);
}

/** Start measuring the rate from this sample. */
static void measure_from(struct pmd_clock *c, const struct sample *s)
{
	c->from_counts = s->counts;
	__atomic_store_n(&c->from_ns, s->ns, __ATOMIC_RELAXED);
}

/** Forget the rate and measure it again. */
static void begin_again(struct pmd_clock *c, const struct sample *s)
{
	measure_from(c, s);
	tie_write(c, s, 0);
	__atomic_store_n(&c->measuring, true, __ATOMIC_RELEASE);
}

/** Counter and kernel disagree: measure again, or stop using the counter after DOUBTS_MOST times. */
static void doubt(struct pmd_clock *c, const struct sample *s)
{
	if (s->ns - c->doubted_ns > DOUBT_AGE_NS)
		c->doubts = 0;
	c->doubted_ns = s->ns;
	begin_again(c, s);
	if (++c->doubts >= DOUBTS_MOST)
		__atomic_store_n(&c->measuring, false, __ATOMIC_RELAXED); /* never measured again: the rate stays 0 */
}

/** Whether counter and kernel have advanced by the same time since the last tie. */
static bool agrees(const struct pmd_clock *c, const struct sample *s)
{
	int64_t passed_ns = (int64_t)(s->ns - c->base_ns);
	__int128 off_ns = ns_of(s->counts - c->counts, c->ns_per_count) - passed_ns;

	return (off_ns < 0 ? -off_ns : off_ns) <= DOUBT_NS + (passed_ns >> DOUBT_SHIFT);
}

/** @return the measured rate, nanoseconds per tick in units of 2^-32; 0: implausible. */
static uint64_t measured(const struct pmd_clock *c, const struct sample *s)
{
	int64_t counts = (int64_t)(s->counts - c->from_counts);
	uint64_t ns = s->ns - c->from_ns;

	/* Accept frequencies from 1 MHz to 64 GHz. */
	if (counts <= 0 || (uint64_t)counts / 64 > ns || ns / 1000 > (uint64_t)counts)
		return 0;
	return (uint64_t)(((unsigned __int128)ns << 32) / (uint64_t)counts);
}

static void tie(struct pmd_clock *c, const struct sample *s)
{
	uint64_t rate = c->ns_per_count;

	if (rate && !agrees(c, s)) {
		doubt(c, s);
		return;
	}
	if (s->ns - c->from_ns >= MEASURE_NS) {
		rate = measured(c, s);
		if (!rate) {
			doubt(c, s);
			return;
		}
		measure_from(c, s);
		__atomic_store_n(&c->measuring, false, __ATOMIC_RELAXED);
	}
	if (rate)
		tie_write(c, s, rate);
}

void pmd_clock_tie(struct pmd_clock *c)
{
	struct sample s;

	if (__atomic_exchange_n(&c->tying, true, __ATOMIC_ACQUIRE))
		return;
	s = sample_take(c);
	if (!is_wide(c, &s))
		tie(c, &s);
	__atomic_store_n(&c->tying, false, __ATOMIC_RELEASE);
}

/* ---- time --------------------------------------------------------------------------------------------------- */

/** Whether to make a tie now: the counter's rate is known, or has been measured for long enough. */
static bool is_due(const struct pmd_clock *c, uint64_t now_ns)
{
	if (__atomic_load_n(&c->ns_per_count, __ATOMIC_RELAXED))
		return true;
	return __atomic_load_n(&c->measuring, __ATOMIC_ACQUIRE) &&
	       now_ns - __atomic_load_n(&c->from_ns, __ATOMIC_RELAXED) >= MEASURE_NS;
}

uint64_t pmd_clock_slow(struct pmd_clock *c)
{
	uint64_t ns = c->source.kernel_ns();

	if (is_due(c, ns))
		pmd_clock_tie(c);
	return ns;
}

uint64_t pmd_clock_steady_ns(void)
{
	uint64_t ns = pmd_now_ns();

	if (ns > last_ns)
		last_ns = ns;
	return last_ns;
}

void pmd_clock_check(void)
{
	if (__atomic_load_n(&pmd_clock.ns_per_count, __ATOMIC_RELAXED))
		pmd_clock_tie(&pmd_clock);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/** Start measuring. Until the rate is known, threads that read the clock get the kernel's time. */
static void begin(struct pmd_clock *c)
{
	struct sample s = sample_take(c);

	c->doubts = 0;
	c->doubted_ns = s.ns;
	begin_again(c, &s);
}

void pmd_clock_init(struct pmd_clock *c, const struct pmd_clock_source *source)
{
	*c = (struct pmd_clock){.source = *source};
	if (source->counts)
		begin(c);
}

#if defined(__x86_64__)
static uint64_t counter(void)
{
	return __rdtsc();
}

static bool kernel_uses_counter(void)
{
	char name[16] = "";
	int fd = open(SOURCE_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && strcmp(name, "tsc\n") == 0;
}
#endif

void pmd_clock_start(void)
{
#if defined(__x86_64__)
	if (!kernel_uses_counter())
		return;
	pmd_clock.source.counts = counter;
	begin(&pmd_clock);
#endif
}

void pmd_clock_forked(void)
{
	struct pmd_clock_source source = pmd_clock.source;

	if (source.counts)
		pmd_clock_init(&pmd_clock, &source);
}
