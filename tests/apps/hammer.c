/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hammer.c - processes that change one word and one pair of words of another process by all kinds of atomics, while
 * threads of that process change them by atomic CPU instructions: no change may be lost. For the hammer test.
 *
 *   hammer RING UDP OPERATIONS   RING processes that use shared memory and UDP processes that use datagrams execute
 *                                OPERATIONS operations in all
 *
 * Every change adds one to the word or to both words of the pair, so the final values are the number of additions and
 * of successful compare-and-swaps. Prints a line of counts. Exit code 1: a change was lost or executed twice, or an
 * operation returned an older value than its predecessor; or the run proved nothing, because packets took another path
 * than intended, or a process changed nothing. The device's counters tell which path packets took. Without counter
 * files, as in a sanitizer build, the line says that paths are not counted.
 */
#include "../forked.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 16

__extension__ typedef unsigned __int128 uint128;

/* Kinds of operations, in the order in which they are posted. */
enum kind { FAA, MFA, CAS, MCS, PAIR_MFA, PAIR_MCS, KINDS };

/* The targets, each on a cache line of its own. */
struct anvil {
	_Alignas(64) _Atomic uint64_t word;
	_Alignas(64) uint128 pair;
	atomic_uint begun;
	atomic_bool end;
};

/* Packets that a process has sent on each path. */
struct paths {
	bool counted;
	uint64_t ring, udp;
};

/* An initiator process's parameters and results. */
struct order {
	struct forked *f;
	unsigned long operations;
	bool ring;
	uint64_t went[KINDS], tried[KINDS];
	struct paths paths;
};

static struct anvil *anvil;

/* ---- paths ------------------------------------------------------------------------------------------------------- */

/** Read a counter of the device. @return whether the device has a counter of this name. */
static bool counter(const char *device, const char *name, uint64_t *value)
{
	unsigned long long number;
	char path[256];
	bool good;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", device, name);
	f = fopen(path, "r");
	good = f && fscanf(f, "%llu", &number) == 1;
	if (f)
		fclose(f);
	if (good)
		*value = number;
	return good;
}

/** Read how many packets this process has sent on each path, from its device's counters. */
static struct paths paths_of(struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct paths p = {.counted = false};

	p.counted = counter(name, "port_link_tx_packets", &p.ring) && counter(name, "port_tx_packets", &p.udp);
	return p;
}

/** Read how many packets the target has sent on each path. The target's device is the first one, which forked_serve
 * opens. */
static struct paths paths_of_target(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct paths p = {.counted = false};

	if (list && list[0])
		p = paths_of(list[0]);
	ibv_free_device_list(list);
	return p;
}

/* ---- initiators -------------------------------------------------------------------------------------------------- */

struct initiator {
	struct forked_end end;
	struct ibv_mr *mr;
	struct order *order;
	uint64_t result[DEPTH][2], expected[DEPTH][2], operand[DEPTH][4][2];
	uint64_t word, pair[2];		 /* values last seen */
	uint64_t word_least, pair_least; /* lower bounds for the next result: operations are executed in order */
};

static void fill_extended(struct initiator *in, struct ibv_exp_send_wr *wr, enum kind kind, unsigned slot)
{
	__typeof__(wr->ext_op.masked_atomics.wr_data.inline_data.op) *op =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op;
	const bool pair = kind >= PAIR_MFA;
	uint64_t(*operand)[2] = in->operand[slot];
	const uint64_t all = UINT64_MAX;

	wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr->ext_op.masked_atomics.log_arg_sz = pair ? 4 : 3;
	wr->ext_op.masked_atomics.remote_addr = (uintptr_t)(pair ? (void *)&anvil->pair : (void *)&anvil->word);
	wr->ext_op.masked_atomics.rkey = in->order->f->rkey;
	for (unsigned i = 0; i < 2; i++) {
		operand[0][i] = kind == PAIR_MFA ? 1 : in->expected[slot][i] + 1; /* the addend, or the new value */
		operand[1][i] = in->expected[slot][i];
		operand[2][i] = kind == PAIR_MFA ? 1ull << 63 : all; /* boundaries, or masks */
	}
	if (kind == MFA) {
		op->fetch_add = (struct ibv_exp_fetch_add){.add_val = 1, .field_boundary = 1ull << 63};
	} else if (kind == PAIR_MFA) {
		op->fetch_add = (struct ibv_exp_fetch_add){(uintptr_t)operand[0], (uintptr_t)operand[2]};
	} else if (kind == MCS) {
		op->cmp_swap = (struct ibv_exp_cmp_swap){.compare_mask = all,
							 .compare_val = in->expected[slot][0],
							 .swap_val = in->expected[slot][0] + 1,
							 .swap_mask = all};
	} else {
		op->cmp_swap = (struct ibv_exp_cmp_swap){.compare_mask = (uintptr_t)operand[2],
							 .compare_val = (uintptr_t)operand[1],
							 .swap_val = (uintptr_t)operand[0],
							 .swap_mask = (uintptr_t)operand[2]};
	}
}

static void post(struct initiator *in, enum kind kind, unsigned slot)
{
	static const enum ibv_exp_wr_opcode opcodes[KINDS] = {
		[FAA] = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		[MFA] = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		[CAS] = IBV_EXP_WR_ATOMIC_CMP_AND_SWP,
		[MCS] = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
		[PAIR_MFA] = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		[PAIR_MCS] = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	};
	const bool pair = kind >= PAIR_MFA;
	struct ibv_sge sge = {(uintptr_t)in->result[slot], pair ? 16 : 8, in->mr->lkey};
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = slot * KINDS + kind;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcodes[kind];
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	in->expected[slot][0] = pair ? in->pair[0] : in->word;
	in->expected[slot][1] = in->pair[1];
	if (kind == FAA || kind == CAS) {
		wr.wr.atomic.remote_addr = (uintptr_t)&anvil->word;
		wr.wr.atomic.rkey = in->order->f->rkey;
		wr.wr.atomic.compare_add = kind == FAA ? 1 : in->expected[slot][0];
		wr.wr.atomic.swap = in->expected[slot][0] + 1;
	} else {
		fill_extended(in, &wr, kind, slot);
	}
	if (ibv_exp_post_send(in->end.qp, &wr, &bad))
		forked_die("a request was refused");
	in->order->tried[kind]++;
}

static void completed(struct initiator *in, const struct ibv_wc *wc)
{
	enum kind kind = (enum kind)(wc->wr_id % KINDS);
	unsigned slot = (unsigned)(wc->wr_id / KINDS);
	const uint64_t *seen = in->result[slot];
	const bool pair = kind >= PAIR_MFA, adds = kind == FAA || kind == MFA || kind == PAIR_MFA;
	uint64_t *least = pair ? &in->pair_least : &in->word_least;
	bool went = adds || (seen[0] == in->expected[slot][0] && (!pair || seen[1] == in->expected[slot][1]));

	if (wc->status != IBV_WC_SUCCESS)
		forked_die(ibv_wc_status_str(wc->status));
	if (seen[0] < *least || (pair && seen[0] != seen[1])) {
		fprintf(stderr, "hammer: kind %d found %lu, %lu, and expected %lu at least\n", kind,
			(unsigned long)seen[0], (unsigned long)seen[1], (unsigned long)*least);
		exit(1);
	}
	*least = seen[0] + went;
	in->order->went[kind] += went;
	if (pair)
		memcpy(in->pair, seen, sizeof(in->pair));
	else
		in->word = seen[0];
	if (went) { /* the value that the next compare-and-swap expects */
		in->word += !pair;
		in->pair[0] += pair;
		in->pair[1] += pair;
	}
}

static int initiate(void *arg)
{
	struct order *order = arg;
	struct initiator *in = calloc(1, sizeof(*in));
	unsigned long posted = 0, ended = 0;
	struct ibv_wc wc;

	if (!in)
		forked_die("no memory");
	setenv("UROCE_RING", order->ring ? "on" : "off", 1);
	forked_open(&in->end, 1);
	in->order = order;
	in->mr = ibv_reg_mr(in->end.pd, in, sizeof(*in), IBV_ACCESS_LOCAL_WRITE);
	if (!in->mr)
		forked_die("no region");
	forked_connect(&in->end, order->f, 1);
	forked_await(&anvil->begun, 1); /* all initiators and the target's threads start at once */
	while (ended < order->operations) {
		/* A compare-and-swap succeeds only if no other operation has changed the value since it was seen: keep
		 * few operations in flight in the second half. */
		unsigned long window = posted < order->operations / 2 ? DEPTH : 1;
		int n;

		while (posted < order->operations && posted - ended < window) {
			post(in, (enum kind)(posted % KINDS), (unsigned)(posted % DEPTH));
			posted++;
		}
		n = ibv_poll_cq(in->end.cq, 1, &wc);
		if (n < 0)
			forked_die("the CQ has failed");
		if (n)
			completed(in, &wc);
		ended += (unsigned)n;
	}
	order->paths = paths_of(in->end.ctx->device);
	return 0;
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

/** A thread of the target: adds to the word with atomic CPU instructions. */
static void *add_to_word(void *arg)
{
	uint64_t *n = arg;

	while (!atomic_load_explicit(&anvil->end, memory_order_relaxed)) {
		atomic_fetch_add(&anvil->word, 1);
		++*n;
		usleep(1); /* give the initiators a chance */
	}
	return NULL;
}

static void *add_to_pair(void *arg)
{
	uint64_t *n = arg;

	while (!atomic_load_explicit(&anvil->end, memory_order_relaxed)) {
		uint128 old = anvil->pair; /* a guess: the next line retries with the real value */

		if (__sync_bool_compare_and_swap(&anvil->pair, old, old + ((uint128)1 << 64) + 1))
			++*n;
		usleep(1);
	}
	return NULL;
}

/** @return whether nearly all packets took the intended path. A few may take the other path, because a ring can come up
 * a moment late, or break briefly. */
static bool nearly_all(uint64_t by_this, uint64_t by_other, unsigned long operations)
{
	return by_this >= operations - operations / 100 && by_other <= operations / 100;
}

/** Check that each operation and each response took at least one packet on the intended path. */
static void check_paths(const struct order *orders, unsigned n, const struct paths *target)
{
	unsigned long ring = 0, udp = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct order *o = &orders[i];
		const struct paths *p = &o->paths;

		*(o->ring ? &ring : &udp) += o->operations;
		if (p->counted != target->counted)
			forked_die("only some processes find counters of their device");
		if (p->counted && !nearly_all(o->ring ? p->ring : p->udp, o->ring ? p->udp : p->ring, o->operations)) {
			fprintf(stderr,
				"hammer: %lu packets by the ring and %lu over UDP, from an initiator set to %s\n",
				(unsigned long)p->ring, (unsigned long)p->udp, o->ring ? "the ring" : "UDP");
			exit(1);
		}
	}
	if (target->counted && (target->ring < ring - ring / 100 || target->udp < udp - udp / 100))
		forked_die("answers took another path than requests");
	printf("%lu by the ring, %lu over UDP%s; ", ring, udp, target->counted ? "" : " (paths are not counted)");
}

static int report(const struct order *orders, unsigned n, uint64_t cpu_word, uint64_t cpu_pair)
{
	static const char *const names[KINDS] = {"FAA", "MFA", "CAS", "MCS", "MFA16", "MCS16"};
	uint64_t went[KINDS] = {0}, tried[KINDS] = {0}, word = cpu_word, pair = cpu_pair, sum = 0;
	uint64_t low = (uint64_t)anvil->pair, high = (uint64_t)(anvil->pair >> 64);

	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < KINDS; k++) {
			went[k] += orders[i].went[k];
			tried[k] += orders[i].tried[k];
		}
	}
	for (unsigned k = 0; k < KINDS; k++) {
		printf("%s %lu of %lu, ", names[k], (unsigned long)went[k], (unsigned long)tried[k]);
		*(k < PAIR_MFA ? &word : &pair) += went[k];
		sum += tried[k];
	}
	printf("CPU %lu and %lu; together %lu; word %lu of %lu, pair %lu and %lu of %lu\n", (unsigned long)cpu_word,
	       (unsigned long)cpu_pair, (unsigned long)sum, (unsigned long)anvil->word, (unsigned long)word,
	       (unsigned long)low, (unsigned long)high, (unsigned long)pair);
	for (unsigned k = 0; k < KINDS; k++)
		if (!went[k])
			forked_die("no operation of one kind has succeeded");
	if (!cpu_word || !cpu_pair)
		forked_die("the CPU has changed nothing");
	return anvil->word == word && low == pair && high == pair ? 0 : 1;
}

int main(int argc, char **argv)
{
	unsigned ring = argc == 4 ? (unsigned)atoi(argv[1]) : 0, n = argc == 4 ? ring + (unsigned)atoi(argv[2]) : 0;
	unsigned long operations = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	uint64_t cpu_word = 0, cpu_pair = 0;
	struct order *orders;
	struct forked *f;
	struct paths paths;
	pthread_t threads[2];
	int pids[FORKED_MAX];
	bool good;

	if (!n || n > FORKED_MAX || !operations)
		forked_die("usage: hammer RING UDP OPERATIONS, 1 to 16 processes");
	setenv("UROCE_RING", "on", 1); /* for the target; each initiator sets its own path */
	anvil = forked_share(sizeof(*anvil));
	orders = forked_share(n * sizeof(*orders));
	f = forked_share(n * sizeof(*f));
	for (unsigned i = 0; i < n; i++) {
		orders[i].f = &f[i];
		orders[i].operations = operations / n + (i < operations % n);
		orders[i].ring = i < ring;
		pids[i] = forked_start(initiate, &orders[i]);
	}
	forked_serve(f, n, anvil, sizeof(*anvil));
	if (pthread_create(&threads[0], NULL, add_to_word, &cpu_word) ||
	    pthread_create(&threads[1], NULL, add_to_pair, &cpu_pair))
		forked_die("no thread");
	atomic_store(&anvil->begun, 1);
	good = forked_wait(pids, n);
	atomic_store(&anvil->end, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (!good)
		forked_die("a process has failed");
	paths = paths_of_target();
	check_paths(orders, n, &paths);
	return report(orders, n, cpu_word, cpu_pair);
}
