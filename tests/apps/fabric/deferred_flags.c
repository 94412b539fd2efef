/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred_flags.c - deferred work (fi_trigger(3)): flags, tags and operations mean the same as in a call that starts
 * at once.
 */
#include <sys/mman.h>

#include "job.h"

#define PAGE 4096u

/** Check that the work is not done yet. */
static void not_yet(struct fid_cntr *done)
{
	uint64_t before = fi_cntr_read(done);

	WANT(fi_cntr_wait(done, before + 1, 20), -FI_ETIMEDOUT);
}

/* FI_INJECT: the data is read when the work starts, and the program may change the data from then on. */
static void injected(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	struct job job;

	job_init(&job, FI_OP_SEND, go, 1, done);
	job_message(&job, p->a.ep, p->here, WORD, p->b.addr);
	job.msg.flags = FI_INJECT;
	strcpy(p->here, "queued.");
	WANT_OK(job_queue(p, &job));
	strcpy(p->here, "started");
	WANT_OK(fi_cntr_add(go, 1));
	strcpy(p->here, "over...");
	WANT_OK(fi_recv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	await(p, p->b.rx);
	WANT(strcmp(p->there, "started"), 0);
	await_count(done, 1, 0);
}

/* The provider must not touch a job's buffers before the job starts: the memory is inaccessible until then. */
static void untouched(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	char *page = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct job send, recv;

	job_init(&send, FI_OP_SEND, go, 1, done);
	job_message(&send, p->a.ep, page, WORD, p->b.addr);
	send.msg.flags = FI_INJECT;
	job_init(&recv, FI_OP_RECV, go, 1, done);
	job_message(&recv, p->b.ep, page + PAGE, WORD, FI_ADDR_UNSPEC);
	WANT_OK(job_queue(p, &send));
	WANT_OK(job_queue(p, &recv));
	WANT_OK(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE));
	strcpy(page, "page...");
	WANT_OK(fi_cntr_add(go, 1));
	await_count(done, 2, 0);
	WANT(strcmp(page + PAGE, "page..."), 0);
	WANT_OK(munmap(page, 2 * PAGE));
	WANT_OK(fi_cntr_set(go, 0));
	WANT_OK(fi_cntr_set(done, 0));
}

/* FI_DELIVERY_COMPLETE: the work is done only after the message has been received. */
static void delivered(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	struct job job;

	job_init(&job, FI_OP_SEND, go, 1, done);
	job_message(&job, p->a.ep, p->here, WORD, p->b.addr);
	job.msg.flags = FI_DELIVERY_COMPLETE;
	WANT_OK(job_queue(p, &job));
	not_yet(done);
	WANT_OK(fi_recv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	await(p, p->b.rx);
	await_count(done, 2, 0);
}

/* A long message stays under way until the peer receives it. Work with FI_FENCE waits for the message. */
static void fenced(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	struct job job;

	WANT_OK(fi_tsend(p->a.ep, p->here, LONG_LEN, NULL, p->b.addr, 1, NULL));
	job_init(&job, FI_OP_SEND, go, 1, done);
	job_message(&job, p->a.ep, p->here, WORD, p->b.addr);
	job.msg.flags = FI_FENCE;
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_recv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	nothing(p, p->b.rx);
	WANT_OK(fi_trecv(p->b.ep, p->there, LONG_LEN, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	for (unsigned i = 0; i < 2; i++) {
		await(p, p->b.rx);
		WANT(p->done.flags & (FI_MSG | FI_TAGGED), i ? FI_MSG : FI_TAGGED);
	}
	await(p, p->a.tx);
	await_count(done, 3, 0);
}

/* A message claimed by FI_PEEK | FI_CLAIM is received by deferred work. */
static void claimed(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	struct fi_msg_tagged claim = {.addr = FI_ADDR_UNSPEC, .tag = 9};
	struct job job;

	job_init(&job, FI_OP_TRECV, go, 2, done);
	job_tagged(&job, p->b.ep, p->there, WORD, FI_ADDR_UNSPEC, 9);
	job.tagged.flags = FI_CLAIM;
	claim.context = &job;
	WANT_OK(fi_tinject(p->a.ep, "claimed", WORD, p->b.addr, 9));
	while (fi_trecvmsg(p->b.ep, &claim, FI_PEEK | FI_CLAIM) == 0 &&
	       fi_cq_sread(p->b.rx, &p->done, 1, NULL, PATIENCE_MS) == -FI_EAVAIL)
		WANT(fi_cq_readerr(p->b.rx, &p->error, 0), 1); /* the message has not arrived yet */
	WANT(p->done.op_context == &job, 1);
	WANT_OK(job_queue(p, &job));
	WANT(strcmp(p->there, "claimed") != 0, true);
	WANT_OK(fi_cntr_add(go, 1));
	await_count(done, 4, 0);
	WANT(strcmp(p->there, "claimed"), 0);
	/* The message has been received: a second FI_CLAIM finds no message and fails. */
	WANT_OK(job_queue(p, &job));
	await_count(done, 4, 1);
}

void case_deferred_flags(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);

	untouched(p, go, done);
	injected(p, go, done);
	delivered(p, go, done);
	fenced(p, go, done);
	claimed(p, go, done);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
}

/* ---- tags -------------------------------------------------------------------------------------------------- */

/* A tagged atomic whose target is the buffer of a deferred receive. */
static void tagged_atomic(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	uint64_t five = 5, result = 0, *there = (uint64_t *)p->there;
	struct job recv[2], base, fetch;

	there[0] = 100;
	for (unsigned i = 0; i < 2; i++) {
		job_init(&recv[i], FI_OP_TRECV, go, 1 + i, done);
		job_tagged(&recv[i], p->b.ep, there, WORD, FI_ADDR_UNSPEC, 77);
		WANT_OK(job_queue(p, &recv[i]));
	}
	job_init(&base, FI_OP_ATOMIC, go, 1, done);
	base.atomic =
		(struct fi_op_atomic){.ep = p->a.ep, .msg = job_on_word(p, &base, &five, FI_SUM), .flags = FI_TAGGED};
	base.target = (struct fi_rma_ioc){0, 1, 77};
	job_init(&fetch, FI_OP_FETCH_ATOMIC, go, 2, done);
	fetch.result = (struct fi_ioc){&result, 1};
	fetch.fetch = (struct fi_op_fetch_atomic){.ep = p->a.ep,
						  .msg = job_on_word(p, &fetch, &five, FI_SUM),
						  .fetch = {.msg_iov = &fetch.result, .iov_count = 1},
						  .flags = FI_TAGGED};
	fetch.target = base.target;
	WANT_OK(job_queue(p, &fetch));
	WANT_OK(job_queue(p, &base));
	WANT_OK(fi_cntr_add(go, 1));
	await_count(done, 2, 0);
	WANT(there[0], 105);
	WANT_OK(fi_cntr_add(go, 1));
	await_count(done, 4, 0);
	WANT(there[0], 110);
	WANT(result, 105);
}

/* An endpoint without FI_TAGGED can send and receive tagged messages as deferred work, but not by direct calls. */
static void tags_without_tags(struct pair *p, struct fid_cntr *go, struct fid_cntr *done)
{
	struct fi_info *info = fi_dupinfo(p->info);
	struct fid_ep *ep, *none;
	struct job send, recv;
	fi_addr_t addr;

	info->caps &= ~FI_TAGGED;
	ep = job_endpoint(p, info, NULL);
	addr = job_address(p, ep);
	info->caps &= ~FI_MSG;
	none = job_endpoint(p, info, NULL);
	WANT(fi_tinject(ep, p->here, WORD, p->b.addr, 3), -FI_EOPNOTSUPP);
	WANT(fi_trecv(ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, 3, 0, NULL), -FI_EOPNOTSUPP);
	job_init(&send, FI_OP_TSEND, go, 2, done);
	job_tagged(&send, ep, p->here, WORD, addr, 3);
	job_init(&recv, FI_OP_TRECV, go, 2, done);
	job_tagged(&recv, ep, p->there, WORD, FI_ADDR_UNSPEC, 3);
	strcpy(p->here, "tagged.");
	WANT_OK(job_queue(p, &send));
	WANT_OK(job_queue(p, &recv));
	await_count(done, 6, 0);
	WANT(strcmp(p->there, "tagged."), 0);
	send.tagged.ep = recv.tagged.ep = none;
	WANT(job_queue(p, &send), -FI_EOPNOTSUPP);
	WANT(job_queue(p, &recv), -FI_EOPNOTSUPP);
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&none->fid));
	WANT_OK(fi_av_remove(p->av, &addr, 1, 0));
	fi_freeinfo(info);
}

void case_deferred_tags(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);

	tagged_atomic(p, go, done);
	tags_without_tags(p, go, done);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
}

/* ---- compare and swap -------------------------------------------------------------------------------------- */

/** @return whether the operation changes the target: fi_atomic(3) compares the given value with the target's value, in
 * this order. */
static bool swaps(enum fi_op op, uint64_t compare, uint64_t there)
{
	switch (op) {
	case FI_CSWAP:
		return compare == there;
	case FI_CSWAP_NE:
		return compare != there;
	case FI_CSWAP_LE:
		return compare <= there;
	case FI_CSWAP_LT:
		return compare < there;
	case FI_CSWAP_GE:
		return compare >= there;
	default:
		return compare > there;
	}
}

/* Each compare operation runs with a smaller, an equal and a greater compare value, one after the other. */
void case_deferred_compare(struct pair *p)
{
	static const enum fi_op ops[] = {FI_CSWAP,    FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT,
					 FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP};
	enum { N = 3 * sizeof(ops) / sizeof(ops[0]) };
	uint64_t operand[N], compare[N], before[N], result[N], value = 1000, *there = (uint64_t *)p->there;
	struct fid_cntr *done = open_counter(p);
	struct job job[N];

	there[0] = value;
	for (unsigned i = 0; i < N; i++) {
		enum fi_op op = ops[i / 3];

		before[i] = value;
		operand[i] = 2000 + 37 * i;
		compare[i] = value + i % 3 - 1;
		if (op == FI_MSWAP)
			value = (operand[i] & compare[i]) | (value & ~compare[i]);
		else if (swaps(op, compare[i], value))
			value = operand[i];
		job_init(&job[i], FI_OP_COMPARE_ATOMIC, done, 1 + i, done);
		job[i].result = (struct fi_ioc){&result[i], 1};
		job[i].compare = (struct fi_ioc){&compare[i], 1};
		job[i].compared =
			(struct fi_op_compare_atomic){.ep = p->a.ep,
						      .msg = job_on_word(p, &job[i], &operand[i], op),
						      .fetch = {.msg_iov = &job[i].result, .iov_count = 1},
						      .compare = {.msg_iov = &job[i].compare, .iov_count = 1}};
		WANT_OK(job_queue(p, &job[i]));
	}
	WANT_OK(fi_cntr_add(done, 1));
	await_count(done, 1 + N, 0);
	for (unsigned i = 0; i < N; i++)
		WANT(result[i], before[i]);
	WANT(there[0], value);
	WANT_OK(fi_close(&done->fid));
}
