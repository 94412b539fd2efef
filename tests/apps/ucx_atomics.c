/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_atomics.c - atomic operations of UCX's UCP on the memory of a process that sleeps. Several origins operate on
 * words of their own, which a model follows, and on shared words, whose final values are known. Chance decides which of
 * UCP's calls performs an operation: ucp_atomic_op_nbx, or one of those that it replaces.
 *
 * usage: ucx_atomics target FILE ORIGINS ROUNDS   writes its address to FILE, sleeps until SIGTERM, then checks the
 *                                                 shared words. ROUNDS: 100 or more, so that no call is left out.
 *        ucx_atomics origin FILE INDEX            operates; INDEX counts from 0. Prints how often it has used each
 *                                                 call, and fails if one was left out.
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

/** UCP's calls for atomic operations. The first three take the width as an argument; the others have it in their names,
 * and block. */
enum call { OP_NBX, FETCH_NB, POST, ADD, FADD, SWAP, CSWAP, CALLS };

static const char *const call_names[CALLS] = {
	"ucp_atomic_op_nbx", "ucp_atomic_fetch_nb", "ucp_atomic_post",	"ucp_atomic_add",
	"ucp_atomic_fadd",   "ucp_atomic_swap",	    "ucp_atomic_cswap",
};
static unsigned used[CALLS][2]; /* how often, for 4 and for 8 bytes */

static uint64_t random64(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static enum call choose(const enum call calls[3], size_t size)
{
	enum call call = calls[random64() % 3];

	used[call][size == 8]++;
	return call;
}

static void used_check(void)
{
	for (unsigned call = 0; call < CALLS; call++) {
		printf("%s: %u times with 4 bytes, %u times with 8 bytes\n", call_names[call], used[call][0],
		       used[call][1]);
		failures += !used[call][0] + !used[call][1];
	}
}

/* `reply` NULL: without result. CSWAP: the reply buffer holds the value to store. */
static void op_nbx(ucp_atomic_op_t op, size_t size, const void *value, uint64_t address, void *reply)
{
	ucp_request_param_t param = {.op_attr_mask =
					     UCP_OP_ATTR_FIELD_DATATYPE | (reply ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0),
				     .datatype = ucp_dt_make_contig(size),
				     .reply_buffer = reply};

	wait_for(ucp_atomic_op_nbx(ep, op, value, 1, address, rkey, &param), call_names[OP_NBX]);
}

static void operate(ucp_atomic_op_t op, size_t size, uint64_t value, uint64_t at)
{
	static const ucp_atomic_post_op_t posted[UCP_ATOMIC_OP_LAST] = {
		[UCP_ATOMIC_OP_ADD] = UCP_ATOMIC_POST_OP_ADD,
		[UCP_ATOMIC_OP_AND] = UCP_ATOMIC_POST_OP_AND,
		[UCP_ATOMIC_OP_OR] = UCP_ATOMIC_POST_OP_OR,
		[UCP_ATOMIC_OP_XOR] = UCP_ATOMIC_POST_OP_XOR,
	};
	const enum call calls[3] = {OP_NBX, POST, op == UCP_ATOMIC_OP_ADD ? ADD : POST}, call = choose(calls, size);
	uint64_t address = job.base + at;
	uint32_t value32 = (uint32_t)value;

	if (call == OP_NBX)
		op_nbx(op, size, size == 4 ? (void *)&value32 : &value, address, NULL);
	else if (call == POST)
		check(ucp_atomic_post(ep, posted[op], value, size, address, rkey), call_names[POST]);
	else if (size == 4)
		check(ucp_atomic_add32(ep, value32, address, rkey), call_names[ADD]);
	else
		check(ucp_atomic_add64(ep, value, address, rkey), call_names[ADD]);
}

/* UCX wants a function even of a caller that asks for the request's status. */
static void completed(void *request, ucs_status_t status)
{
}

/* CSWAP: the reply buffer holds the value to store. */
static ucs_status_t block32(enum call call, uint32_t value, uint64_t address, uint32_t *reply)
{
	if (call == FADD)
		return ucp_atomic_fadd32(ep, value, address, rkey, reply);
	if (call == SWAP)
		return ucp_atomic_swap32(ep, value, address, rkey, reply);
	return ucp_atomic_cswap32(ep, value, *reply, address, rkey, reply);
}

static ucs_status_t block64(enum call call, uint64_t value, uint64_t address, uint64_t *reply)
{
	if (call == FADD)
		return ucp_atomic_fadd64(ep, value, address, rkey, reply);
	if (call == SWAP)
		return ucp_atomic_swap64(ep, value, address, rkey, reply);
	return ucp_atomic_cswap64(ep, value, *reply, address, rkey, reply);
}

static uint64_t operate_fetch(ucp_atomic_op_t op, size_t size, uint64_t value, uint64_t at, uint64_t swap)
{
	static const ucp_atomic_fetch_op_t fetched[UCP_ATOMIC_OP_LAST] = {
		[UCP_ATOMIC_OP_ADD] = UCP_ATOMIC_FETCH_OP_FADD,	 [UCP_ATOMIC_OP_AND] = UCP_ATOMIC_FETCH_OP_FAND,
		[UCP_ATOMIC_OP_OR] = UCP_ATOMIC_FETCH_OP_FOR,	 [UCP_ATOMIC_OP_XOR] = UCP_ATOMIC_FETCH_OP_FXOR,
		[UCP_ATOMIC_OP_SWAP] = UCP_ATOMIC_FETCH_OP_SWAP, [UCP_ATOMIC_OP_CSWAP] = UCP_ATOMIC_FETCH_OP_CSWAP,
	};
	/* AND, OR and XOR, which have no blocking call: OP_NBX. */
	static const enum call blocking[UCP_ATOMIC_OP_LAST] = {
		[UCP_ATOMIC_OP_ADD] = FADD, [UCP_ATOMIC_OP_SWAP] = SWAP, [UCP_ATOMIC_OP_CSWAP] = CSWAP};
	const enum call calls[3] = {OP_NBX, FETCH_NB, blocking[op]}, call = choose(calls, size);
	uint64_t address = job.base + at, reply64 = swap;
	uint32_t value32 = (uint32_t)value, reply32 = (uint32_t)swap;
	void *reply = size == 4 ? (void *)&reply32 : &reply64;

	if (call == OP_NBX)
		op_nbx(op, size, size == 4 ? (void *)&value32 : &value, address, reply);
	else if (call == FETCH_NB)
		wait_for(ucp_atomic_fetch_nb(ep, fetched[op], value, reply, size, address, rkey, completed),
			 call_names[FETCH_NB]);
	else if (size == 4)
		check(block32(call, value32, address, &reply32), call_names[call]);
	else
		check(block64(call, value, address, &reply64), call_names[call]);
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
		operate(ops[n], size, value, at);
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

	operate(UCP_ATOMIC_OP_ADD, size, in - out, balance_at);
}

static void shared_words(unsigned index)
{
	uint64_t bit = 1ull << index;

	operate(UCP_ATOMIC_OP_ADD, 8, 1, offsetof(struct memory, sum64));
	operate_fetch(UCP_ATOMIC_OP_ADD, 4, 1, offsetof(struct memory, sum32), 0);
	operate_fetch(UCP_ATOMIC_OP_XOR, 8, bit, offsetof(struct memory, exclusive64), 0);
	operate(UCP_ATOMIC_OP_XOR, 4, bit, offsetof(struct memory, exclusive32));
	operate(UCP_ATOMIC_OP_OR, 8, bit << 40, offsetof(struct memory, members64));
	operate_fetch(UCP_ATOMIC_OP_OR, 4, bit << 10, offsetof(struct memory, members32), 0);
	operate_fetch(UCP_ATOMIC_OP_AND, 8, ~(bit << 40), offsetof(struct memory, left64), 0);
	operate(UCP_ATOMIC_OP_AND, 4, ~(bit << 10), offsetof(struct memory, left32));
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
	used_check();
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
