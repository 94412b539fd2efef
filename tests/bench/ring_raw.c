/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_raw.c - the limit for latency and message rate between two processes of a host: a single-producer
 * single-consumer ring in shared memory for each direction. An entry is one cache line; a word in the entry says
 * whether the entry is filled, so that a message moves only one line between the caches. Messages are copied in and
 * out.
 *
 * Usage: ring_raw rtt [BYTES [COUNT [CPU CPU]]]    median and 99th percentile round trip, microseconds
 *        ring_raw rate [BYTES [COUNT [CPU CPU]]]   one way, million messages a second
 */
#include "bench_util.h"

#define ENTRIES 256u
#define RETURN	(ENTRIES / 4) /* the consumer returns entries in groups of this size */
#define TRIPS	8	      /* round trips per reading of the clock, which takes a fifth of a round trip */

struct entry {
	uint32_t lap; /* how often this entry has been filled */
	uint8_t payload[60];
} __attribute__((aligned(64)));

struct ring {
	struct entry entries[ENTRIES];
	uint32_t taken __attribute__((aligned(64))); /* entries returned so far; written by the consumer */
} __attribute__((aligned(64)));

/** One end of a ring, private to its process. */
struct end {
	struct ring *ring;
	uint32_t index; /* number of the next entry, never reset */
	uint32_t taken; /* the value of ring.taken that this end last read (producer) or wrote (consumer) */
	bool one_cpu;
};

struct bench {
	struct bench_options opt;
	struct ring *rings; /* indexed by the side that produces */
};

static void end_push(struct end *end, const uint8_t *message, size_t len)
{
	struct entry *e = &end->ring->entries[end->index % ENTRIES];
	unsigned empty = 0;

	while (end->index - end->taken == ENTRIES) {
		/* acquire: pairs with the release in end_pop; the entry has been read before it is overwritten */
		end->taken = __atomic_load_n(&end->ring->taken, __ATOMIC_ACQUIRE);
		if (end->index - end->taken == ENTRIES)
			bench_wait(&empty, end->one_cpu);
	}
	memcpy(e->payload, message, len);
	/* release: pairs with the acquire in end_pop; a reader that sees the new lap sees the payload */
	__atomic_store_n(&e->lap, end->index++ / ENTRIES + 1, __ATOMIC_RELEASE);
}

static void end_pop(struct end *end, uint8_t *message, size_t len)
{
	const struct entry *e = &end->ring->entries[end->index % ENTRIES];
	uint32_t lap = end->index / ENTRIES + 1;
	unsigned empty = 0;

	/* acquire: pairs with the release in end_push */
	while (__atomic_load_n(&e->lap, __ATOMIC_ACQUIRE) != lap)
		bench_wait(&empty, end->one_cpu);
	memcpy(message, e->payload, len);
	if (++end->index - end->taken >= RETURN) {
		end->taken = end->index;
		/* release: pairs with the acquire in end_push */
		__atomic_store_n(&end->ring->taken, end->taken, __ATOMIC_RELEASE);
	}
}

static void pingpong(struct end *out, struct end *in, int side, const struct bench_options *opt)
{
	size_t samples = opt->count / TRIPS + 1;
	uint64_t *ns = calloc(samples, sizeof(*ns));
	uint8_t message[60] = {0};

	if (!ns)
		bench_die("memory");
	for (size_t i = 0; i < samples; i++) {
		uint64_t start = bench_now_ns();

		for (unsigned trip = 0; trip < TRIPS; trip++) {
			if (side == 1)
				end_pop(in, message, opt->bytes);
			end_push(out, message, opt->bytes);
			if (side == 0)
				end_pop(in, message, opt->bytes);
		}
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		bench_print_trips(ns, samples, TRIPS);
	free(ns);
}

static void stream(struct end *out, struct end *in, int side, const struct bench_options *opt)
{
	uint64_t start = bench_now_ns();
	uint8_t message[60] = {0};

	for (uint64_t i = 0; i < opt->count; i++) {
		if (side == 0)
			end_push(out, message, opt->bytes);
		else
			end_pop(in, message, opt->bytes);
	}
	if (side == 0) {
		end_pop(in, message, 1); /* wait for the receiver's answer: all messages have arrived */
		printf("%.3f\n", (double)opt->count * 1e3 / (double)(bench_now_ns() - start));
	} else {
		end_push(out, message, 1);
	}
}

static int run(int side, int channel, void *ctx)
{
	const struct bench *b = ctx;
	bool one_cpu = b->opt.placed && b->opt.cpu[0] == b->opt.cpu[1];
	struct end out = {.ring = &b->rings[side], .one_cpu = one_cpu};
	struct end in = {.ring = &b->rings[!side], .one_cpu = one_cpu};

	bench_place(&b->opt, side);
	bench_sync(channel);
	if (strcmp(b->opt.test, "rtt") == 0)
		pingpong(&out, &in, side, &b->opt);
	else
		stream(&out, &in, side, &b->opt);
	bench_sync(channel);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"rtt", "rate", NULL};
	struct bench b = {.opt = {.bytes = 8, .count = 200000}};

	bench_options_parse(argc, argv, tests, sizeof(b.rings->entries->payload), &b.opt);
	b.rings = bench_shared(2 * sizeof(*b.rings));
	return bench_pair(run, &b);
}
