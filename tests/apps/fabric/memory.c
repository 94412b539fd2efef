/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - RMA and atomic operations that endpoint a executes on the memory of endpoint b.
 */
#include "fabric.h"

#include <sys/mman.h>

#define PAGE 4096

void case_rma(struct pair *p)
{
	memset(p->there, 0, LONG_LEN);
	WANT_OK(fi_write(p->a.ep, p->here, LONG_LEN, NULL, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_RMA | FI_WRITE);
	WANT(memcmp(p->here, p->there, LONG_LEN), 0);
	memset(p->here, 0, LONG_LEN);
	WANT_OK(fi_read(p->a.ep, p->here, LONG_LEN, NULL, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_RMA | FI_READ);
	WANT(memcmp(p->here, p->there, LONG_LEN), 0);
	WANT_OK(fi_writedata(p->a.ep, p->here, 8, NULL, 42, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
	await(p, p->b.rx);
	WANT(p->done.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	WANT(p->done.len, 8);
	WANT(p->done.data, 42);
	WANT(p->done.op_context == NULL, 1);
	WANT_OK(fi_inject_write(p->a.ep, "injected", 8, p->b.addr, p->base, p->key));
	WANT_OK(fi_read(p->a.ep, p->here, 8, NULL, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
	WANT(memcmp(p->here, "injected", 8), 0);
}

void case_rma_vectors(struct pair *p)
{
	char one[4] = "one", two[8] = "two....";
	struct iovec iov[2] = {{one, 4}, {two, 8}};
	struct fi_rma_iov remote[2] = {{p->base + 100, 6, p->key}, {p->base + 200, 6, p->key}};
	struct fi_msg_rma msg = {
		.msg_iov = iov, .iov_count = 2, .addr = p->b.addr, .rma_iov = remote, .rma_iov_count = 2};

	WANT_OK(fi_writemsg(p->a.ep, &msg, FI_DELIVERY_COMPLETE | FI_FENCE));
	await(p, p->a.tx);
	WANT(memcmp(p->there + 100, "one\0tw", 6), 0);
	WANT(memcmp(p->there + 200, "o....", 6), 0);
	memset(one, 0, sizeof(one));
	memset(two, 0, sizeof(two));
	WANT_OK(fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
	await(p, p->a.tx);
	WANT(strcmp(one, "one"), 0);
	WANT(strcmp(two, "two...."), 0);
}

void case_wrong_key(struct pair *p)
{
	WANT_OK(fi_write(p->a.ep, p->here, 8, NULL, p->b.addr, p->base, p->key ^ 0x100, &p->contexts[0]));
	await_error(p, p->a.tx, FI_EACCES);
	WANT(p->error.op_context == &p->contexts[0], 1);
	WANT_OK(fi_write(p->a.ep, p->here, 8, NULL, p->b.addr, p->base + LONG_LEN, p->key, NULL));
	await_error(p, p->a.tx, FI_EACCES);
	WANT_OK(fi_write(p->a.ep, p->here, 8, NULL, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
}

/** Write to a region whose memory the program has unmapped. @param error of the request; 0: none. */
static void write_to_unmapped(struct pair *p, int error)
{
	/* Where the kernel puts no mapping on its own: nothing takes the place of the page. */
	void *wish = (void *)(sizeof(void *) == 8 ? (uintptr_t)1 << 45 : 0);
	char *page = mmap(wish, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fid_mr *mr;

	WANT_OK(fi_mr_reg(p->domain, page, PAGE, FI_REMOTE_WRITE, 0, 77, 0, &mr, NULL));
	WANT_OK(munmap(page, PAGE));
	WANT_OK(fi_write(p->a.ep, p->here, 14, NULL, p->b.addr, p->base ? (uintptr_t)page : 0, fi_mr_key(mr), NULL));
	if (error)
		await_error(p, p->a.tx, error);
	else
		await(p, p->a.tx);
	WANT_OK(fi_close(&mr->fid));
}

/** A region whose memory has to be there when it is registered (FI_MR_ALLOCATED) is used as if its pages were pinned;
 *  other regions are not. */
void case_unmapped(struct pair *p)
{
	struct pair other = {0};

	write_to_unmapped(p, 0);
	if (pair_open_mode(&other, 0)) {
		write_to_unmapped(&other, FI_EREMOTEIO);
		pair_close(&other);
	}
}

void case_atomics(struct pair *p)
{
	uint64_t *there = (uint64_t *)p->there, operand[2] = {10, 20}, compare[2] = {25, 0}, result[2];

	there[0] = 5;
	there[1] = 6;
	WANT_OK(fi_atomic(p->a.ep, operand, 2, NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM, NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_ATOMIC | FI_WRITE);
	WANT(there[0], 15);
	WANT(there[1], 26);
	WANT_OK(fi_fetch_atomic(p->a.ep, operand, 2, NULL, result, NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM,
				NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_ATOMIC | FI_READ);
	WANT(result[1], 26);
	WANT(there[1], 46);
	WANT_OK(fi_compare_atomic(p->a.ep, operand, 2, NULL, compare, NULL, result, NULL, p->b.addr, p->base, p->key,
				  FI_UINT64, FI_CSWAP, NULL));
	await(p, p->a.tx);
	WANT(there[0], 10);
	WANT(there[1], 46);
	WANT_OK(fi_inject_atomic(p->a.ep, operand, 1, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM));
	WANT_OK(fi_fetch_atomic(p->a.ep, NULL, 2, NULL, result, NULL, p->b.addr, p->base, p->key, FI_UINT64,
				FI_ATOMIC_READ, NULL));
	await(p, p->a.tx);
	WANT(result[0], 20);
	WANT(result[1], 46);
}

/* With FI_INJECT the program may change operands and compare values as soon as the call returns, but not results. */
void case_injected_atomics(struct pair *p)
{
	uint64_t *there = (uint64_t *)p->there, operand = 10, compare = 0, result = 77;
	struct fi_ioc from = {.addr = &operand, .count = 1}, with = {.addr = &compare, .count = 1};
	struct fi_ioc to = {.addr = &result, .count = 1};
	struct fi_rma_ioc target = {.addr = p->base, .count = 1, .key = p->key};
	struct fi_msg_atomic msg = {.msg_iov = &from,
				    .iov_count = 1,
				    .addr = p->b.addr,
				    .rma_iov = &target,
				    .rma_iov_count = 1,
				    .datatype = FI_UINT64,
				    .op = FI_SUM};

	there[0] = 5;
	WANT_OK(fi_fetch_atomicmsg(p->a.ep, &msg, &to, NULL, 1, FI_INJECT | FI_COMPLETION));
	operand = 1000;
	await(p, p->a.tx);
	WANT(result, 5);
	WANT(there[0], 15);
	msg.op = FI_CSWAP;
	compare = 15;
	WANT_OK(fi_compare_atomicmsg(p->a.ep, &msg, &with, NULL, 1, &to, NULL, 1, FI_INJECT | FI_COMPLETION));
	operand = compare = 1;
	await(p, p->a.tx);
	WANT(result, 15);
	WANT(there[0], 1000);
}

/** Post an atomic at end a. Its target is at `offset` in the buffer of end b's receive with this tag. That buffer and
 * the completions show the effect. */
static ssize_t tagged_sum(struct pair *p, uint64_t tag, uint64_t offset, const uint64_t *operand, uint64_t *result)
{
	struct fi_ioc from = {.addr = (void *)(uintptr_t)operand, .count = 1}, to = {.addr = result, .count = 1};
	struct fi_rma_ioc target = {.addr = offset, .count = 1, .key = tag};
	const struct fi_msg_atomic msg = {.msg_iov = &from,
					  .iov_count = 1,
					  .addr = p->b.addr,
					  .rma_iov = &target,
					  .rma_iov_count = 1,
					  .datatype = FI_UINT64,
					  .op = FI_SUM};

	return result ? fi_fetch_atomicmsg(p->a.ep, &msg, &to, NULL, 1, FI_TAGGED | FI_COMPLETION)
		      : fi_atomicmsg(p->a.ep, &msg, FI_TAGGED | FI_COMPLETION);
}

/** Tagged atomics: one is sent before its receive is posted, one afterwards, and one to an offset at which the data
 * does not fit. */
void case_tagged_atomics(struct pair *p)
{
	const uint64_t tag = 0x1234567890abcdef, operand = 7;
	uint64_t *there = (uint64_t *)p->there, result = 0;
	struct fi_atomic_attr attr = {0};

	WANT_OK(fi_query_atomic(p->domain, FI_UINT64, FI_SUM, &attr, FI_TAGGED | FI_FETCH_ATOMIC));
	WANT(attr.size, 8);
	there[1] = 100;
	WANT_OK(tagged_sum(p, tag, 8, &operand, NULL));
	WANT_OK(fi_trecv(p->b.ep, there, 16, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_ATOMIC | FI_WRITE);
	await(p, p->b.rx);
	WANT(p->done.flags, FI_TAGGED | FI_RECV | FI_ATOMIC);
	WANT(p->done.tag == tag, true);
	WANT(p->done.len, 8);
	WANT(p->done.buf == (void *)(there + 1), true);
	WANT(there[1], 107);
	WANT_OK(fi_trecv(p->b.ep, there, 16, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	WANT_OK(tagged_sum(p, tag, 8, &operand, &result));
	await(p, p->a.tx);
	await(p, p->b.rx);
	WANT(result, 107);
	WANT(there[1], 114);
	WANT_OK(fi_trecv(p->b.ep, there, 16, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	WANT_OK(tagged_sum(p, tag, 16, &operand, &result));
	await_error(p, p->a.tx, FI_EACCES);
	await_error(p, p->b.rx, FI_EINVAL);
	WANT(there[1], 114);
}

void case_counters(struct pair *p)
{
	uint64_t before[COUNTERS], errors = fi_cntr_readerr(p->a.cntr[WRITES]);
	uint64_t remote = fi_cntr_read(p->b.cntr[REMOTE_WRITES]), fetched = fi_cntr_read(p->b.cntr[REMOTE_READS]);
	uint64_t one = 1, result;

	for (int i = 0; i < COUNTERS; i++)
		before[i] = fi_cntr_read(p->a.cntr[i]);
	WANT_OK(fi_inject_write(p->a.ep, p->here, 8, p->b.addr, p->base, p->key));
	WANT_OK(fi_fetch_atomic(p->a.ep, &one, 1, NULL, &result, NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM,
				NULL));
	await(p, p->a.tx);
	WANT_OK(fi_cntr_wait(p->a.cntr[WRITES], before[WRITES] + 1, PATIENCE_MS));
	WANT_OK(fi_cntr_wait(p->a.cntr[READS], before[READS] + 1, PATIENCE_MS));
	WANT(fi_cntr_read(p->a.cntr[SENDS]), before[SENDS]);
	WANT_OK(fi_cntr_wait(p->b.cntr[REMOTE_READS], fetched + 1, PATIENCE_MS));
	/* A fetching atomic counts as a remote write: it changes memory. */
	WANT_OK(fi_cntr_wait(p->b.cntr[REMOTE_WRITES], remote + 2, PATIENCE_MS));
	WANT_OK(fi_fetch_atomic(p->a.ep, NULL, 1, NULL, &result, NULL, p->b.addr, p->base, p->key, FI_UINT64,
				FI_ATOMIC_READ, NULL));
	await(p, p->a.tx);
	WANT(fi_cntr_read(p->b.cntr[REMOTE_READS]), fetched + 2);
	WANT(fi_cntr_read(p->b.cntr[REMOTE_WRITES]), remote + 2);
	WANT_OK(fi_write(p->a.ep, p->here, 8, NULL, p->b.addr, p->base, p->key ^ 0x100, NULL));
	await_error(p, p->a.tx, FI_EACCES);
	WANT(fi_cntr_readerr(p->a.cntr[WRITES]), errors + 1);
	WANT(fi_cntr_read(p->a.cntr[WRITES]), before[WRITES] + 1);
}

/* ---- one counter for all that peers do ---- */

/** Open an endpoint with capabilities `caps`, to which `cntr` is bound. `*addr` receives its address. */
static struct fid_ep *open_counted(struct pair *p, struct fid_cntr *cntr, uint64_t caps, fi_addr_t *addr)
{
	struct fi_info *info = fi_dupinfo(p->info);
	struct fid_ep *ep;
	char name[64];
	size_t len = sizeof(name);

	info->caps = caps;
	WANT_OK(fi_endpoint(p->domain, info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(ep, &p->b.tx->fid, FI_TRANSMIT));
	WANT_OK(fi_ep_bind(ep, &p->b.rx->fid, FI_RECV));
	WANT_OK(fi_ep_bind(ep, &cntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE));
	WANT_OK(fi_enable(ep));
	WANT_OK(fi_getname(&ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, addr, 0, NULL), 1);
	fi_freeinfo(info);
	return ep;
}

/** Each atomic of end a on the region `key` at address `addr` adds exactly one to the counter, whether it reads, writes
 * or does both. */
static void count_each(struct pair *p, struct fid_cntr *cntr, fi_addr_t addr, uint64_t base, uint64_t key)
{
	uint64_t operand = 1, compare = 0, result, before = fi_cntr_read(cntr);

	WANT_OK(fi_fetch_atomic(p->a.ep, &operand, 1, NULL, &result, NULL, addr, base, key, FI_UINT64, FI_SUM, NULL));
	await(p, p->a.tx);
	WANT(fi_cntr_read(cntr), before + 1);
	WANT_OK(fi_compare_atomic(p->a.ep, &operand, 1, NULL, &compare, NULL, &result, NULL, addr, base, key, FI_UINT64,
				  FI_CSWAP, NULL));
	await(p, p->a.tx);
	WANT(fi_cntr_read(cntr), before + 2);
	WANT_OK(fi_atomic(p->a.ep, &operand, 1, NULL, addr, base, key, FI_UINT64, FI_SUM, NULL));
	await(p, p->a.tx);
	WANT(fi_cntr_read(cntr), before + 3);
}

/** One counter is bound to an endpoint and then to a memory region: once the endpoint can be a target of others'
 *  operations, once it cannot. */
void case_one_counter(struct pair *p)
{
	static const uint64_t caps[] = {FI_RMA | FI_ATOMIC | FI_RMA_EVENT, FI_MSG | FI_TAGGED,
					FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE};
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	fi_addr_t addr;

	WANT_OK(fi_cntr_open(p->domain, NULL, &cntr, NULL));
	for (unsigned i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		struct fid_ep *ep = open_counted(p, cntr, caps[i], &addr);

		count_each(p, cntr, addr, p->base, p->key);
		WANT_OK(fi_av_remove(p->av, &addr, 1, 0));
		WANT_OK(fi_close(&ep->fid));
	}
	WANT_OK(fi_mr_reg(p->domain, p->here, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	WANT_OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE));
	count_each(p, cntr, p->b.addr, (uintptr_t)p->here, fi_mr_key(mr));
	WANT_OK(fi_close(&mr->fid));
	WANT_OK(fi_close(&cntr->fid));
}
