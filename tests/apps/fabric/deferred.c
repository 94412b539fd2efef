/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred.c - the deferred work queue of a domain (fi_trigger(3)): what it does, what it reports, and what it refuses.
 */
#include "job.h"

#define LINKS 100000u
#define SENDS 20000u
#define LAPS  50u

/* Queue one job of each kind, each triggered by the previous one. The program may reuse the arrays among the arguments
 * as soon as the work is queued. */
void case_deferred(struct pair *p)
{
	struct fid_cntr *done = open_counter(p);
	struct job job[9];
	uint64_t *there = (uint64_t *)p->there, one = 1, seven = 7, compare = 6, result[2] = {0}, back = 0;
	char got[2][WORD];

	job_init(&job[0], FI_OP_RECV, done, 1, done);
	job_message(&job[0], p->b.ep, got[0], WORD, FI_ADDR_UNSPEC);
	job_init(&job[1], FI_OP_SEND, done, 1, done);
	job_message(&job[1], p->a.ep, p->here, WORD, p->b.addr);
	job_init(&job[2], FI_OP_TRECV, done, 3, done);
	job_tagged(&job[2], p->b.ep, got[1], WORD, FI_ADDR_UNSPEC, 9);
	job_init(&job[3], FI_OP_TSEND, done, 3, done);
	job_tagged(&job[3], p->a.ep, p->here + WORD, WORD, p->b.addr, 9);
	job_init(&job[4], FI_OP_WRITE, done, 5, done);
	job_rma(p, &job[4], &seven, WORD, 0);
	job_init(&job[5], FI_OP_ATOMIC, done, 6, done);
	job[5].atomic = (struct fi_op_atomic){.ep = p->a.ep, .msg = job_on_word(p, &job[5], &one, FI_SUM)};
	job_init(&job[6], FI_OP_FETCH_ATOMIC, done, 7, done);
	job[6].result = (struct fi_ioc){&result[0], 1};
	job[6].fetch = (struct fi_op_fetch_atomic){.ep = p->a.ep,
						   .msg = job_on_word(p, &job[6], &one, FI_SUM),
						   .fetch = {.msg_iov = &job[6].result, .iov_count = 1}};
	job_init(&job[7], FI_OP_COMPARE_ATOMIC, done, 8, done);
	job[7].result = (struct fi_ioc){&result[1], 1};
	job[7].compare = (struct fi_ioc){&compare, 1};
	job[7].compared = (struct fi_op_compare_atomic){.ep = p->a.ep,
							.msg = job_on_word(p, &job[7], &one, FI_CSWAP),
							.fetch = {.msg_iov = &job[7].result, .iov_count = 1},
							.compare = {.msg_iov = &job[7].compare, .iov_count = 1}};
	job_init(&job[8], FI_OP_READ, done, 9, done);
	job_rma(p, &job[8], &back, WORD, 0);
	for (int i = 8; i >= 0; i--) {
		WANT_OK(job_queue(p, &job[i]));
		memset(&job[i].iov, 0, sizeof(job[i].iov));
		memset(&job[i].operand, 0, sizeof(job[i].operand));
	}
	nothing(p, p->a.tx);
	memcpy(p->here, "deferred.tagged.", 2 * WORD);
	compare = 9;
	there[0] = 1000;
	WANT_OK(fi_cntr_add(done, 1));
	await_count(done, 10, 0);
	WANT(memcmp(got[0], "deferred", WORD), 0);
	WANT(memcmp(got[1], ".tagged.", WORD), 0);
	WANT(result[0], 8);
	WANT(result[1], 9);
	WANT(back, 1);
	nothing(p, p->a.tx);
	nothing(p, p->b.rx);
	WANT_OK(fi_close(&done->fid));
}

void case_deferred_completions(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);
	uint64_t before = fi_cntr_read(p->a.cntr[WRITES]);
	struct job job;

	job_init(&job, FI_OP_WRITE, go, 0, done);
	job_rma(p, &job, p->here, WORD, 0);
	WANT_OK(job_queue(p, &job));
	await_count(done, 1, 0);
	WANT(fi_cntr_read(p->a.cntr[WRITES]), before);
	nothing(p, p->a.tx);
	/* FI_COMPLETION: the work adds an entry to the CQ, and counts in the endpoint's counter as well. */
	job.rma.flags = FI_COMPLETION;
	WANT_OK(job_queue(p, &job));
	await(p, p->a.tx);
	WANT(p->done.op_context == &job, 1);
	WANT(p->done.flags, FI_RMA | FI_WRITE);
	WANT(fi_cntr_read(done), 2);
	WANT(fi_cntr_read(p->a.cntr[WRITES]), before + 1);
	/* When the completion counter is also the endpoint's counter, the work counts only once. */
	job.work.completion_cntr = p->a.cntr[WRITES];
	WANT_OK(job_queue(p, &job));
	await(p, p->a.tx);
	WANT(fi_cntr_read(p->a.cntr[WRITES]), before + 2);
	job.rma.flags = 0;
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_cntr_wait(p->a.cntr[WRITES], before + 3, PATIENCE_MS));
	/* Without a completion counter the work is done but not reported. */
	job.work.completion_cntr = NULL;
	p->here[0] = 'n';
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_read(p->a.ep, p->here + WORD, WORD, NULL, p->b.addr, p->base, p->key, NULL));
	await(p, p->a.tx);
	WANT(p->done.flags, FI_RMA | FI_READ);
	WANT(p->here[WORD], 'n');
	nothing(p, p->a.tx);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
}

/** A chain of jobs: each adds to the counter that the next job waits for. */
static void chain_of_counters(struct pair *p)
{
	struct fid_cntr *cntr[2] = {open_counter(p), open_counter(p)};
	static struct job link[LINKS];

	for (unsigned i = 0; i < LINKS; i++) {
		job_init(&link[i], FI_OP_CNTR_ADD, cntr[i % 2], i / 2 + 1, NULL);
		job_add_to(&link[i], cntr[(i + 1) % 2], 1);
		WANT_OK(job_queue(p, &link[i]));
	}
	WANT_OK(fi_cntr_add(cntr[0], 1));
	WANT(fi_cntr_read(cntr[0]), LINKS / 2 + 1); /* the whole chain has run before the call returns */
	WANT(fi_cntr_read(cntr[1]), LINKS / 2);
	job_init(&link[0], FI_OP_CNTR_SET, cntr[1], 0, NULL);
	job_add_to(&link[0], cntr[0], 12);
	WANT_OK(job_queue(p, &link[0]));
	WANT(fi_cntr_read(cntr[0]), 12);
	WANT_OK(fi_close(&cntr[0]->fid));
	WANT_OK(fi_close(&cntr[1]->fid));
}

/** More jobs than the endpoint's queue has room for start at once. All are executed, in order. */
static void more_than_there_is_room_for(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *sent = open_counter(p);
	struct iovec iov = {p->there, 4 * SENDS};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
	static struct job job[SENDS];
	uint32_t *said = (uint32_t *)p->here, *heard = (uint32_t *)p->there, wrong = 0;
	size_t least = 4;

	WANT_OK(fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	WANT_OK(fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
	for (uint32_t i = 0; i < SENDS; i++) {
		said[i] = i;
		job_init(&job[i], FI_OP_SEND, go, 1 + i / 10, sent);
		job_message(&job[i], p->a.ep, &said[i], 4, p->b.addr);
		WANT_OK(job_queue(p, &job[i]));
	}
	WANT_OK(fi_cntr_add(go, SENDS));
	await_count(sent, SENDS, 0);
	for (uint32_t i = 0; i < SENDS; i++) {
		WANT(fi_cq_sread(p->b.rx, &p->done, 1, NULL, PATIENCE_MS), 1);
		wrong += heard[i] != i;
	}
	WANT(wrong, 0);
	least = 64;
	WANT_OK(fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&sent->fid));
}

/** Deferred work answers each message: when a message has arrived at one end, this end sends one to the other end. So
 * messages go back and forth without any call. */
static void to_and_fro(struct pair *p)
{
	struct fid_cntr *got[2] = {open_counter(p), open_counter(p)}, *sent = open_counter(p);
	struct node *node[2] = {&p->a, &p->b};
	static struct job recv[2][LAPS], send[2][LAPS];
	char buf[2][WORD] = {"ball...", ""};

	for (unsigned lap = 0; lap < LAPS; lap++)
		for (unsigned i = 0; i < 2; i++) {
			job_init(&recv[i][lap], FI_OP_TRECV, got[i], 0, got[i]);
			job_tagged(&recv[i][lap], node[i]->ep, buf[i], WORD, FI_ADDR_UNSPEC, 77);
			WANT_OK(job_queue(p, &recv[i][lap]));
			/* end a sends first */
			job_init(&send[i][lap], FI_OP_TSEND, got[i], i == 0 ? lap : lap + 1, sent);
			job_tagged(&send[i][lap], node[i]->ep, buf[i], WORD, node[1 - i]->addr, 77);
		}
	for (unsigned i = 0; i < 2 * LAPS; i++)
		WANT_OK(job_queue(p, &send[1 - i / LAPS][i % LAPS]));
	await_count(got[0], LAPS, 0);
	await_count(got[1], LAPS, 0);
	await_count(sent, 2 * LAPS, 0);
	WANT(strcmp(buf[1], "ball..."), 0);
	WANT_OK(fi_close(&got[0]->fid));
	WANT_OK(fi_close(&got[1]->fid));
	WANT_OK(fi_close(&sent->fid));
}

/** A peer's WRITE triggers an answer, although the target's program does not call the library. */
static void answers_to_writes(struct pair *p)
{
	struct fid_cntr *answered = open_counter(p);
	struct job job;

	job_init(&job, FI_OP_SEND, p->b.cntr[REMOTE_WRITES], fi_cntr_read(p->b.cntr[REMOTE_WRITES]) + 2, answered);
	job_message(&job, p->b.ep, p->there, WORD, p->a.addr);
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_recv(p->a.ep, p->here + 64, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	for (unsigned i = 0; i < 2; i++) {
		nothing(p, p->a.rx);
		snprintf(p->here, WORD, "write%u", i);
		WANT_OK(fi_write(p->a.ep, p->here, WORD, NULL, p->b.addr, p->base, p->key, NULL));
		await(p, p->a.tx);
	}
	await(p, p->a.rx);
	WANT(strcmp(p->here + 64, "write1"), 0);
	await_count(answered, 1, 0);
	WANT_OK(fi_close(&answered->fid));
}

void case_deferred_chains(struct pair *p)
{
	chain_of_counters(p);
	more_than_there_is_room_for(p);
	to_and_fro(p);
	answers_to_writes(p);
}

void case_deferred_failures(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p), *last = open_counter(p);
	struct job bad, next;
	uint64_t errors = fi_cntr_readerr(p->a.cntr[WRITES]);

	/* `bad` fails and adds one to the errors of `done`. That starts `next`: errors count towards its threshold, 1.
	 */
	job_init(&bad, FI_OP_WRITE, go, 1, done);
	job_rma(p, &bad, p->here, WORD, LONG_LEN);
	job_init(&next, FI_OP_CNTR_ADD, done, 1, NULL);
	job_add_to(&next, last, 5);
	WANT_OK(job_queue(p, &bad));
	WANT_OK(job_queue(p, &next));
	WANT_OK(fi_cntr_add(go, 1));
	WANT_OK(fi_cntr_wait(last, 5, PATIENCE_MS));
	WANT(fi_cntr_readerr(done), 1);
	WANT(fi_cntr_read(done), 0);
	WANT(fi_cntr_readerr(p->a.cntr[WRITES]), errors);
	nothing(p, p->a.tx);
	/* With threshold 2, `next` does not start, and can be canceled. */
	next.work.threshold = 2;
	WANT_OK(job_queue(p, &next));
	WANT_OK(job_cancel(p, &next));
	/* Work that fails without a completion counter is reported in the CQ. */
	bad.work.completion_cntr = NULL;
	WANT_OK(job_queue(p, &bad));
	await_error(p, p->a.tx, FI_EACCES);
	WANT(p->error.op_context == &bad, 1);
	WANT(fi_cntr_readerr(p->a.cntr[WRITES]), errors);
	/* FI_COMPLETION: a failure is reported in the CQ, in the completion counter and in the endpoint's counter. */
	bad.work.completion_cntr = done;
	bad.rma.flags = FI_COMPLETION;
	WANT_OK(job_queue(p, &bad));
	await_error(p, p->a.tx, FI_EACCES);
	WANT(p->error.op_context == &bad, 1);
	WANT(fi_cntr_readerr(done), 2);
	WANT(fi_cntr_readerr(p->a.cntr[WRITES]), errors + 1);
	/* The destination address is removed after the work is queued and before it starts: the work fails. */
	{
		char name[64];
		size_t len = sizeof(name);
		fi_addr_t again;

		WANT_OK(fi_getname(&p->b.ep->fid, name, &len));
		WANT(fi_av_insert(p->av, name, 1, &again, 0, NULL), 1);
		job_init(&bad, FI_OP_SEND, go, 2, done);
		job_message(&bad, p->a.ep, p->here, WORD, again);
		WANT_OK(job_queue(p, &bad));
		bad.msg.msg.addr = p->b.addr; /* has no effect: the queued work has its own copy */
		WANT_OK(fi_av_remove(p->av, &again, 1, 0));
		WANT_OK(fi_cntr_add(go, 1));
		WANT(fi_cntr_readerr(done), 3);
	}
	/* A program can set a counter's errors itself, which also triggers work. */
	next.work.triggering_cntr = go;
	next.work.threshold = 10;
	WANT_OK(job_queue(p, &next));
	WANT_OK(fi_cntr_seterr(go, 7));
	WANT(fi_cntr_read(last), 5);
	WANT_OK(fi_cntr_seterr(go, 8));
	WANT(fi_cntr_readerr(go), 8);
	WANT(fi_cntr_read(last), 10);
	WANT_OK(job_queue(p, &next)); /* starts at once: the threshold has been reached */
	WANT(fi_cntr_read(last), 15);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
	WANT_OK(fi_close(&last->fid));
}

void case_deferred_mistakes(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *theirs;
	struct fid_domain *domain;
	struct job job, good;

	job_init(&good, FI_OP_SEND, go, 1, go);
	job_message(&good, p->a.ep, p->here, WORD, p->b.addr);
	WANT(fi_control(&p->domain->fid, FI_QUEUE_WORK, NULL), -FI_EINVAL);
	WANT(fi_control(&p->domain->fid, FI_CANCEL_WORK, NULL), -FI_EINVAL);
	WANT(fi_control(&p->domain->fid, FI_GETWAIT, &job), -FI_ENOSYS);
#define REFUSED(change, err)                                                                                           \
	do {                                                                                                           \
		job_init(&job, FI_OP_SEND, go, 1, go);                                                                 \
		job_message(&job, p->a.ep, p->here, WORD, p->b.addr);                                                  \
		change;                                                                                                \
		WANT(job_queue(p, &job), err);                                                                         \
	} while (0)
	REFUSED(job.work.triggering_cntr = NULL, -FI_EINVAL);
	REFUSED(job.work.triggering_cntr = (struct fid_cntr *)p->a.ep, -FI_EINVAL);
	REFUSED(job.work.completion_cntr = (struct fid_cntr *)p->a.ep, -FI_EINVAL);
	REFUSED(job.work.op.msg = NULL, -FI_EINVAL);
	REFUSED(job.work.op_type = (enum fi_op_type)99, -FI_EINVAL);
	REFUSED(job.msg.ep = NULL, -FI_EINVAL);
	REFUSED(job.msg.ep = (struct fid_ep *)go, -FI_EINVAL);
	REFUSED(job.msg.msg.addr = 999, -FI_EINVAL);
	REFUSED(job.msg.msg.iov_count = 5, -FI_EINVAL);
	REFUSED(job.msg.flags = FI_PEEK, -FI_EBADFLAGS);
	REFUSED(job.msg.flags = FI_INJECT; job.iov.iov_len = 4096, -FI_EMSGSIZE);
	REFUSED(job.work.op_type = FI_OP_TRECV; job.tagged.flags = FI_PEEK, -FI_ENOSYS);
	/* FI_OP_CNTR_ADD work does not count in the endpoint's counters. */
	job_init(&job, FI_OP_CNTR_ADD, go, 1, go);
	job_add_to(&job, go, 1);
	WANT(job_queue(p, &job), -FI_EINVAL);
	job.work.completion_cntr = NULL;
	job.cntr.cntr = NULL;
	WANT(job_queue(p, &job), -FI_EINVAL);
	job_init(&job, FI_OP_READ, go, 1, go);
	job_rma(p, &job, p->here, WORD, 0);
	job.remote.len = WORD + 1;
	WANT(job_queue(p, &job), -FI_EINVAL);
	/* Work with a counter of another domain is refused. */
	WANT_OK(fi_domain(p->fabric, p->info, &domain, NULL));
	WANT_OK(fi_cntr_open(domain, NULL, &theirs, NULL));
	good.work.triggering_cntr = theirs;
	WANT(job_queue(p, &good), -FI_EDOMAIN);
	WANT(fi_control(&domain->fid, FI_QUEUE_WORK, &good.work), -FI_EDOMAIN);
	WANT_OK(fi_close(&theirs->fid));
	WANT_OK(fi_close(&domain->fid));
	WANT_OK(fi_close(&go->fid)); /* no work waits for the counter, so it can be closed */
}
