/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomics.c - measures 8-byte atomics of all kinds, from one or more initiators to one target: the latency of one
 * atomic, and the number of atomics per second.
 *
 *   atomics rtt KIND N                           N atomics by one initiator, one at a time: median and 99th
 *                                                percentile, microseconds
 *   atomics rate KIND INITIATORS hot|spread N    N atomics by each initiator, many in flight, all on one word (hot) or
 *                                                each initiator on its own cache line: million per second
 *
 * KIND is faa (fetch and add), cas (compare and swap), mfa or mcs (the masked variants). faa adds one to a 64-bit word,
 * mfa adds one to each half of the word. cas compares the word with zero and stores zero, mcs does so with the word's
 * lower half: the comparison succeeds, and the word stays zero. The final words and each initiator's last results are
 * checked. If there are two devices, initiators use the second device.
 */
#include "../forked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_util.h"

enum kind { FAA, CAS, MFA, MCS, KINDS };

static const char *const names[KINDS] = {"faa", "cas", "mfa", "mcs"};

struct initiator {
	struct forked *f;
	enum kind kind;
	bool rtt, spread;
	unsigned number;
	unsigned long count;
	atomic_uint *connected; /* how many processes (initiators and the target) are connected */
	unsigned initiators;
	uint64_t start_ns, end_ns;
};

static void post(struct forked_end *end, const struct initiator *in, struct ibv_mr *mr, uint64_t *results,
		 unsigned slot)
{
	static const enum ibv_exp_wr_opcode opcodes[KINDS] = {
		[FAA] = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		[CAS] = IBV_EXP_WR_ATOMIC_CMP_AND_SWP,
		[MFA] = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		[MCS] = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	};
	const uint64_t addr = in->f->addr + (in->spread ? in->number * 64 : 0);
	struct ibv_sge sge = {(uintptr_t)&results[slot], 8, mr->lkey};
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = slot;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcodes[in->kind];
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	if (in->kind == FAA || in->kind == CAS) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = in->f->rkey;
		wr.wr.atomic.compare_add = in->kind == FAA; /* faa: add 1; cas: swap zero for zero */
	} else {
		__typeof__(wr.ext_op.masked_atomics) *masked = &wr.ext_op.masked_atomics;

		wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
		masked->log_arg_sz = 3;
		masked->remote_addr = addr;
		masked->rkey = in->f->rkey;
		if (in->kind == MFA)
			masked->wr_data.inline_data.op.fetch_add =
				(struct ibv_exp_fetch_add){1ull << 32 | 1, 1ull << 31};
		else /* mcs: compare and swap the lower half only */
			masked->wr_data.inline_data.op.cmp_swap =
				(struct ibv_exp_cmp_swap){.compare_mask = UINT32_MAX, .swap_mask = UINT32_MAX};
	}
	if (ibv_exp_post_send(end->qp, &wr, &bad))
		forked_die("a request was refused");
}

static void wait_one(struct forked_end *end)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(end->cq, 1, &wc)))
		;
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		forked_die(n < 0 ? "the CQ has failed" : ibv_wc_status_str(wc.status));
}

static void measure_rtt(struct forked_end *end, struct initiator *in, struct ibv_mr *mr, uint64_t *results)
{
	uint64_t *times = calloc(in->count, sizeof(*times));

	if (!times)
		forked_die("no memory");
	for (unsigned long i = 0; i < in->count; i++) {
		uint64_t start = bench_now_ns();

		post(end, in, mr, results, 0);
		wait_one(end);
		times[i] = bench_now_ns() - start;
	}
	bench_print_trips(times, in->count, 1);
}

static void measure_rate(struct forked_end *end, struct initiator *in, struct ibv_mr *mr, uint64_t *results)
{
	unsigned long posted = 0, ended = 0;

	in->start_ns = bench_now_ns();
	while (ended < in->count) {
		for (; posted < in->count && posted - ended < FORKED_DEPTH; posted++)
			post(end, in, mr, results, posted % FORKED_DEPTH);
		wait_one(end);
		ended++;
	}
	in->end_ns = bench_now_ns();
}

/** @return the value that a word must have after `count` operations. */
static uint64_t expected(enum kind kind, uint64_t count)
{
	switch (kind) {
	case FAA:
		return count;
	case MFA: /* each half counts for itself, without carry between them */
		return count << 32 | (count & UINT32_MAX);
	default:
		return 0;
	}
}

/** Check the result of the last operation. It must include all earlier operations of this initiator, and can include
 *  any number of the others' operations. */
static void check_results(const struct initiator *in, const uint64_t *results)
{
	const uint64_t found = results[in->rtt ? 0 : (in->count - 1) % FORKED_DEPTH];
	const uint64_t least = expected(in->kind, in->count - 1);
	const bool alone = in->spread || in->initiators == 1 || in->kind == CAS || in->kind == MCS;

	if (alone ? found != least : found < least || found == UINT64_MAX)
		forked_die("an operation has returned an impossible value");
}

static void check_words(const struct initiator *in, unsigned n, const void *words)
{
	for (unsigned i = 0; i < n; i++) {
		const uint64_t count = in->spread ? in->count : i == 0 ? n * in->count : 0;

		if (*(const uint64_t *)((const char *)words + 64 * i) != expected(in->kind, count))
			forked_die("a word has a wrong value after all operations");
	}
}

static int initiate(void *arg)
{
	struct initiator *in = arg;
	uint64_t *results = calloc(FORKED_DEPTH, sizeof(*results));
	struct forked_end end;
	struct ibv_mr *mr;

	if (!results)
		forked_die("no memory");
	for (unsigned i = 0; i < FORKED_DEPTH; i++)
		results[i] = UINT64_MAX; /* a value that no operation returns */
	forked_open(&end, 1);
	mr = ibv_reg_mr(end.pd, results, FORKED_DEPTH * sizeof(*results), IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		forked_die("no region");
	forked_connect(&end, in->f, 1);
	atomic_fetch_add(in->connected, 1);
	forked_await(in->connected, in->initiators + 1); /* requests sent before all are connected would be lost */
	(in->rtt ? measure_rtt : measure_rate)(&end, in, mr, results);
	check_results(in, results);
	return 0;
}

static void report_rate(const struct initiator *in, unsigned n)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < n; i++) {
		start = in[i].start_ns < start ? in[i].start_ns : start;
		end = in[i].end_ns > end ? in[i].end_ns : end;
	}
	printf("%.4f\n", (double)(n * in->count) * 1e3 / (double)(end - start));
}

int main(int argc, char **argv)
{
	const bool rtt = argc == 4 && strcmp(argv[1], "rtt") == 0;
	const bool spread = argc == 6 && strcmp(argv[4], "spread") == 0;
	const bool rate = argc == 6 && strcmp(argv[1], "rate") == 0 && (spread || strcmp(argv[4], "hot") == 0);
	unsigned n = rate ? (unsigned)atoi(argv[3]) : 1;
	enum kind kind = FAA;
	struct initiator *in;
	struct forked *f;
	atomic_uint *connected;
	int pids[FORKED_MAX];
	void *words;

	while (argc > 2 && kind < KINDS && strcmp(argv[2], names[kind]) != 0)
		kind++;
	if ((!rtt && !rate) || kind == KINDS || !n || n > FORKED_MAX || atol(argv[argc - 1]) <= 0)
		forked_die("usage: atomics rtt KIND N, or atomics rate KIND INITIATORS hot|spread N");
	words = forked_share(FORKED_MAX * 64);
	f = forked_share(n * sizeof(*f));
	in = forked_share(n * sizeof(*in));
	connected = forked_share(sizeof(*connected));
	for (unsigned i = 0; i < n; i++) {
		in[i] = (struct initiator){.f = &f[i],
					   .kind = kind,
					   .rtt = rtt,
					   .spread = spread,
					   .number = i,
					   .count = (unsigned long)atol(argv[argc - 1]),
					   .connected = connected,
					   .initiators = n};
		pids[i] = forked_start(initiate, &in[i]);
	}
	forked_serve(f, n, words, FORKED_MAX * 64);
	atomic_fetch_add(connected, 1);
	if (!forked_wait(pids, n))
		forked_die("a process has failed");
	check_words(in, n, words);
	if (rate)
		report_rate(in, n);
	return 0;
}
