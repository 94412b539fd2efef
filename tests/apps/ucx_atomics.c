/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_atomics.c - atomic operations of UCX's UCP on the memory of a process that sleeps. Several origins operate on
 * words of their own, which a model follows, and on shared words, whose final values are known.
 *
 * usage: ucx_atomics target FILE ORIGINS ROUNDS   writes its address to FILE, sleeps until SIGTERM, then checks the
 *                                                 shared words
 *        ucx_atomics origin FILE INDEX            operates; INDEX counts from 0
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define ORIGINS_MAX 16u
#define OWN	    8u /* words of each origin's own */

/** The memory that the origins operate on. */
struct memory {
	uint64_t sum64, exclusive64, members64, left64, swapped64, balance64, counter64;
	uint32_t sum32, exclusive32, members32, left32, swapped32, balance32, counter32;
	uint64_t own[ORIGINS_MAX][OWN];
};

/** What FILE contains: this, then the worker's address, then the packed key. */
struct job {
	uint64_t base, address_length, rkey_length;
	uint32_t rounds;
};

static ucp_context_h context;
static ucp_worker_h worker;
static unsigned failures;

static void die(const char *what, ucs_status_t status)
{
	printf("FAILED: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		die(what, status);
}

static void open_ucx(void)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
			       .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
	ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					     .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_config_t *config;

	check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	check(ucp_init(&params, config, &context), "ucp_init");
	ucp_config_release(config);
	check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

/* ---- target ---------------------------------------------------------------------------------------------- */

static void expect(const char *what, uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		return;
	printf("FAILED: %s: 0x%" PRIx64 " instead of 0x%" PRIx64 "\n", what, got, wanted);
	failures++;
}

static void file_write(const char *path, const struct job *job, const void *address, const void *rkey)
{
	char other[4096];
	FILE *f;

	snprintf(other, sizeof(other), "%s.new", path);
	f = fopen(other, "w");
	if (!f || fwrite(job, sizeof(*job), 1, f) != 1 || fwrite(address, job->address_length, 1, f) != 1 ||
	    fwrite(rkey, job->rkey_length, 1, f) != 1 || fclose(f) || rename(other, path))
		die(path, UCS_ERR_IO_ERROR);
}

/* Every origin has added 1, flipped its bit, set and cleared its bits, swapped, and counted by compare and swap,
 * `rounds` times. */
static void shared_check(const struct memory *m, unsigned origins, uint64_t rounds)
{
	uint64_t bits = (1ull << origins) - 1;

	expect("the sum of 8 bytes", m->sum64, origins * rounds);
	expect("the sum of 4 bytes", m->sum32, (uint32_t)(origins * rounds));
	expect("the exclusive or of 8 bytes", m->exclusive64, rounds & 1 ? bits : 0);
	expect("the exclusive or of 4 bytes", m->exclusive32, rounds & 1 ? bits : 0);
	expect("the or of 8 bytes", m->members64, bits << 40);
	expect("the or of 4 bytes", m->members32, bits << 10);
	expect("the and of 8 bytes", m->left64, ~(bits << 40));
	expect("the and of 4 bytes", m->left32, (uint32_t) ~(bits << 10));
	expect("what was swapped in and not out, of 8 bytes", m->swapped64, m->balance64);
	expect("what was swapped in and not out, of 4 bytes", m->swapped32, m->balance32);
	expect("the count by compare and swap of 8 bytes", m->counter64, origins * rounds);
	expect("the count by compare and swap of 4 bytes", m->counter32, origins * rounds);
}

static int target(const char *path, unsigned origins, uint32_t rounds)
{
	static struct memory memory;
	ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				    .address = &memory,
				    .length = sizeof(memory)};
	struct job job = {.base = (uintptr_t)&memory, .rounds = rounds};
	ucp_address_t *address;
	size_t length;
	ucp_mem_h memh;
	void *rkey;
	sigset_t term;
	int number;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	open_ucx(); /* its threads inherit the mask */
	memory.left64 = UINT64_MAX;
	memory.left32 = UINT32_MAX;
	check(ucp_mem_map(context, &map, &memh), "ucp_mem_map");
	check(ucp_rkey_pack(context, memh, &rkey, &length), "ucp_rkey_pack");
	job.rkey_length = length;
	check(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
	job.address_length = length;
	file_write(path, &job, address, rkey);
	sigwait(&term, &number); /* UCX makes no progress here */
	shared_check(&memory, origins, rounds);
	ucp_rkey_buffer_release(rkey);
	ucp_worker_release_address(worker, address);
	check(ucp_mem_unmap(context, memh), "ucp_mem_unmap");
	return failures ? 1 : 0;
}

/* ---- origin ---------------------------------------------------------------------------------------------- */

static ucp_ep_h ep;
static ucp_rkey_h rkey;
static struct job job;

static void wait_for(ucs_status_ptr_t request, const char *what)
{
	ucs_status_t status;

	if (UCS_PTR_IS_ERR(request))
		die(what, UCS_PTR_STATUS(request));
	if (!request)
		return;
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	check(status, what);
	ucp_request_free(request);
}

/** The operation. `reply` NULL: without result. CSWAP: the reply buffer holds the value to store. */
static void operate(ucp_atomic_op_t op, size_t size, uint64_t value, uint64_t at, void *reply)
{
	ucp_request_param_t param = {.op_attr_mask =
					     UCP_OP_ATTR_FIELD_DATATYPE | (reply ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0),
				     .datatype = ucp_dt_make_contig(size),
				     .reply_buffer = reply};
	uint32_t value32 = (uint32_t)value;

	wait_for(ucp_atomic_op_nbx(ep, op, size == 4 ? (void *)&value32 : &value, 1, job.base + at, rkey, &param),
		 "ucp_atomic_op_nbx");
}

static uint64_t operate_fetch(ucp_atomic_op_t op, size_t size, uint64_t value, uint64_t at, uint64_t swap)
{
	uint64_t reply64 = swap;
	uint32_t reply32 = (uint32_t)swap;

	operate(op, size, value, at, size == 4 ? (void *)&reply32 : &reply64);
	return size == 4 ? reply32 : reply64;
}

static uint64_t applied(ucp_atomic_op_t op, uint64_t old, uint64_t value, uint64_t swap)
{
	switch (op) {
	case UCP_ATOMIC_OP_ADD:
		return old + value;
	case UCP_ATOMIC_OP_AND:
		return old & value;
	case UCP_ATOMIC_OP_OR:
		return old | value;
	case UCP_ATOMIC_OP_XOR:
		return old ^ value;
	case UCP_ATOMIC_OP_SWAP:
		return value;
	default:
		return old == value ? swap : old;
	}
}

static uint64_t random64(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Any operation on a word of our own: the model knows the old value. */
static void own_word(unsigned index, uint64_t model[OWN])
{
	static const ucp_atomic_op_t ops[] = {UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_AND,  UCP_ATOMIC_OP_OR,
					      UCP_ATOMIC_OP_XOR, UCP_ATOMIC_OP_SWAP, UCP_ATOMIC_OP_CSWAP};
	static const char *const names[] = {"ADD", "AND", "OR", "XOR", "SWAP", "CSWAP"};
	unsigned word = random64() % OWN, n = random64() % 6;
	size_t size = random64() & 1 ? 8 : 4;
	uint64_t at = offsetof(struct memory, own) + (index * OWN + word) * 8;
	uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX, old = model[word] & mask;
	uint64_t value = random64() & mask, swap = random64() & mask, got;
	bool fetches = n >= 4 || random64() & 1;

	if (n == 5 && random64() & 1)
		value = old;
	if (fetches) {
		got = operate_fetch(ops[n], size, value, at, swap);
		expect(names[n], got, old);
	} else {
		operate(ops[n], size, value, at, NULL);
	}
	model[word] = (model[word] & ~mask) | (applied(ops[n], old, value, swap) & mask);
}

static void count(size_t size, uint64_t at)
{
	uint64_t old = operate_fetch(UCP_ATOMIC_OP_ADD, size, 0, at, 0), seen;

	while ((seen = operate_fetch(UCP_ATOMIC_OP_CSWAP, size, old, at, old + 1)) != old)
		old = seen;
}

/* The differences between what all origins have swapped in and out add up to what is left. */
static void swap_shared(size_t size, uint64_t at, uint64_t balance_at)
{
	uint64_t in = random64(), out = operate_fetch(UCP_ATOMIC_OP_SWAP, size, in, at, 0);

	operate(UCP_ATOMIC_OP_ADD, size, in - out, balance_at, NULL);
}

static void shared_words(unsigned index)
{
	uint64_t bit = 1ull << index;

	operate(UCP_ATOMIC_OP_ADD, 8, 1, offsetof(struct memory, sum64), NULL);
	operate_fetch(UCP_ATOMIC_OP_ADD, 4, 1, offsetof(struct memory, sum32), 0);
	operate_fetch(UCP_ATOMIC_OP_XOR, 8, bit, offsetof(struct memory, exclusive64), 0);
	operate(UCP_ATOMIC_OP_XOR, 4, bit, offsetof(struct memory, exclusive32), NULL);
	operate(UCP_ATOMIC_OP_OR, 8, bit << 40, offsetof(struct memory, members64), NULL);
	operate_fetch(UCP_ATOMIC_OP_OR, 4, bit << 10, offsetof(struct memory, members32), 0);
	operate_fetch(UCP_ATOMIC_OP_AND, 8, ~(bit << 40), offsetof(struct memory, left64), 0);
	operate(UCP_ATOMIC_OP_AND, 4, ~(bit << 10), offsetof(struct memory, left32), NULL);
	swap_shared(8, offsetof(struct memory, swapped64), offsetof(struct memory, balance64));
	swap_shared(4, offsetof(struct memory, swapped32), offsetof(struct memory, balance32));
	count(8, offsetof(struct memory, counter64));
	count(4, offsetof(struct memory, counter32));
}

static void file_read(const char *path)
{
	FILE *f = fopen(path, "r");
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	void *address, *key;

	if (!f || fread(&job, sizeof(job), 1, f) != 1)
		die(path, UCS_ERR_IO_ERROR);
	address = malloc(job.address_length);
	key = malloc(job.rkey_length);
	if (!address || !key || fread(address, job.address_length, 1, f) != 1 || fread(key, job.rkey_length, 1, f) != 1)
		die(path, UCS_ERR_IO_ERROR);
	fclose(f);
	params.address = address;
	check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
	check(ucp_ep_rkey_unpack(ep, key, &rkey), "ucp_ep_rkey_unpack");
	free(address);
	free(key);
}

static int origin(const char *path, unsigned index)
{
	uint64_t model[OWN] = {0}, memory[OWN];
	ucp_request_param_t none = {.op_attr_mask = 0};

	open_ucx();
	file_read(path);
	for (uint32_t i = 0; i < index * 1000; i++)
		random64();
	for (uint32_t i = 0; i < job.rounds; i++) {
		own_word(index, model);
		shared_words(index);
	}
	wait_for(ucp_ep_flush_nbx(ep, &none), "ucp_ep_flush_nbx");
	wait_for(ucp_get_nbx(ep, memory, sizeof(memory),
			     job.base + offsetof(struct memory, own) + index * sizeof(memory), rkey, &none),
		 "ucp_get_nbx");
	for (unsigned i = 0; i < OWN; i++)
		expect("a word at the end", memory[i], model[i]);
	ucp_rkey_destroy(rkey);
	wait_for(ucp_ep_close_nbx(ep, &none), "ucp_ep_close_nbx");
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	unsigned long number = argc > 3 ? strtoul(argv[3], NULL, 0) : ORIGINS_MAX;
	unsigned long rounds = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
	bool is_target = argc == 5 && !strcmp(argv[1], "target") && rounds,
	     is_origin = argc == 4 && !strcmp(argv[1], "origin");
	int rc;

	if ((!is_target && !is_origin) || number > ORIGINS_MAX - is_origin) {
		fprintf(stderr, "usage: ucx_atomics target FILE ORIGINS ROUNDS | origin FILE INDEX\n");
		return 2;
	}
	rc = is_target ? target(argv[2], (unsigned)number, (uint32_t)rounds) : origin(argv[2], (unsigned)number);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	return rc;
}
