/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipe_raw.c - the upper limit for bandwidth between two processes of a host: a pipe in shared memory. Messages are
 * copied from a private buffer into the pipe, and from the pipe to another private buffer; nothing else happens.
 *
 * Usage: pipe_raw bw [BYTES [COUNT [CPU CPU]]]     one way, COUNT MiB in all; MB/s (10^6 bytes)
 *        pipe_raw rtt [BYTES [COUNT [CPU CPU]]]    median and 99th percentile round trip, microseconds
 */
#include "bench_util.h"

/* Measured: with rings of 64 KiB to 4 MiB, pieces of 4 to 32 KiB, and memcpy or vector moves, the bandwidth differs by
 * at most a tenth. */
#define RING	  (256u << 10)
#define PIECE	  (8u << 10) /* a piece is copied out while the next piece is copied in */
#define BYTES_MAX (64u << 20)

struct pipe {
	uint64_t in __attribute__((aligned(64)));  /* bytes put in so far; written by the producer */
	uint64_t out __attribute__((aligned(64))); /* bytes taken out so far; written by the consumer */
	uint8_t ring[RING] __attribute__((aligned(4096)));
};

/** One end of a pipe, private to its process. */
struct end {
	struct pipe *pipe;
	uint64_t at;   /* bytes that this end has put in or taken out */
	uint64_t peer; /* the other end's count, as last read */
	bool one_cpu;
};

struct bench {
	struct bench_options opt;
	struct pipe *pipes; /* indexed by the side that puts data in */
};

/** @return the length of a message's next piece: the piece must be contiguous in the ring too. */
static size_t piece(const struct end *end, size_t left)
{
	size_t n = left < PIECE ? left : PIECE, edge = RING - end->at % RING;

	return n < edge ? n : edge;
}

static void end_put(struct end *end, const uint8_t *message, size_t len)
{
	struct pipe *p = end->pipe;
	unsigned empty = 0;

	for (size_t n; len; len -= n, message += n) {
		n = piece(end, len);
		while (end->at + n - end->peer > RING) {
			/* acquire: pairs with the release in end_take; the old bytes have been copied out before we
			 * overwrite them */
			end->peer = __atomic_load_n(&p->out, __ATOMIC_ACQUIRE);
			if (end->at + n - end->peer > RING)
				bench_wait(&empty, end->one_cpu);
		}
		memcpy(p->ring + end->at % RING, message, n);
		end->at += n;
		/* release: pairs with the acquire in end_take; a reader that sees the new count sees the bytes */
		__atomic_store_n(&p->in, end->at, __ATOMIC_RELEASE);
	}
}

static void end_take(struct end *end, uint8_t *message, size_t len)
{
	struct pipe *p = end->pipe;
	unsigned empty = 0;

	for (size_t n; len; len -= n, message += n) {
		n = piece(end, len);
		while (end->peer - end->at < n) {
			/* acquire: pairs with the release in end_put */
			end->peer = __atomic_load_n(&p->in, __ATOMIC_ACQUIRE);
			if (end->peer - end->at < n)
				bench_wait(&empty, end->one_cpu);
		}
		memcpy(message, p->ring + end->at % RING, n);
		end->at += n;
		/* release: pairs with the acquire in end_put */
		__atomic_store_n(&p->out, end->at, __ATOMIC_RELEASE);
	}
}

static void pingpong(struct end *out, struct end *in, uint8_t *buf, int side, const struct bench_options *opt)
{
	uint64_t *ns = calloc(opt->count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t i = 0; i < opt->count; i++) {
		uint64_t start = bench_now_ns();

		if (side == 1)
			end_take(in, buf + opt->bytes, opt->bytes);
		end_put(out, buf, opt->bytes);
		if (side == 0)
			end_take(in, buf + opt->bytes, opt->bytes);
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		bench_print_trips(ns, opt->count, 1);
	free(ns);
}

static void stream(struct end *out, struct end *in, uint8_t *buf, int side, const struct bench_options *opt)
{
	uint64_t start = bench_now_ns(), total = opt->count << 20, moved = 0;

	for (; moved < total; moved += opt->bytes) {
		if (side == 0)
			end_put(out, buf, opt->bytes);
		else
			end_take(in, buf, opt->bytes);
	}
	if (side == 0) {
		end_take(in, buf, 1); /* wait for the receiver's answer: all data has arrived */
		printf("%.1f\n", (double)moved * 1e3 / (double)(bench_now_ns() - start));
	} else {
		end_put(out, buf, 1);
	}
}

static int run(int side, int channel, void *ctx)
{
	const struct bench *b = ctx;
	bool one_cpu = b->opt.placed && b->opt.cpu[0] == b->opt.cpu[1];
	struct end out = {.pipe = &b->pipes[side], .one_cpu = one_cpu};
	struct end in = {.pipe = &b->pipes[!side], .one_cpu = one_cpu};
	uint8_t *buf = malloc(2 * b->opt.bytes);

	if (!buf)
		bench_die("memory");
	memset(buf, side, 2 * b->opt.bytes);
	bench_place(&b->opt, side);
	bench_sync(channel);
	if (strcmp(b->opt.test, "rtt") == 0)
		pingpong(&out, &in, buf, side, &b->opt);
	else
		stream(&out, &in, buf, side, &b->opt);
	bench_sync(channel);
	free(buf);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"bw", "rtt", NULL};
	struct bench b = {.opt = {.bytes = 65536, .count = 1024}};

	bench_options_parse(argc, argv, tests, BYTES_MAX, &b.opt);
	b.pipes = bench_shared(2 * sizeof(*b.pipes));
	return bench_pair(run, &b);
}
