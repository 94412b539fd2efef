/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred_ends.c - deferred work (fi_trigger(3)) that does not start: it is canceled or flushed, finds no room, or its
 * endpoint closes.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "job.h"

#define RACES 2000u
#define SURE  64u /* one in SURE jobs is canceled before it can start, another one after it has started */

void case_deferred_cancel(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *other = open_counter(p), *n = open_counter(p);
	struct job job[4];

	for (unsigned i = 0; i < 4; i++) {
		job_init(&job[i], FI_OP_CNTR_ADD, i < 3 ? go : other, 1, NULL);
		job_add_to(&job[i], n, 1u << i);
		WANT(job_cancel(p, &job[i]), -FI_ENOENT);
		WANT_OK(job_queue(p, &job[i]));
	}
	WANT_OK(job_cancel(p, &job[1]));
	WANT(job_cancel(p, &job[1]), -FI_ENOENT);
	WANT_OK(fi_cntr_add(go, 1));
	WANT(fi_cntr_read(n), 5);
	WANT(job_cancel(p, &job[0]), -FI_ENOENT);
	/* When one struct has been queued twice, cancel removes the job that was queued later. */
	job_init(&job[0], FI_OP_CNTR_ADD, go, 2, NULL);
	job_add_to(&job[0], n, 100);
	WANT_OK(job_queue(p, &job[0]));
	job[0].cntr.value = 1000;
	WANT_OK(job_queue(p, &job[0]));
	WANT_OK(job_cancel(p, &job[0]));
	WANT(job_cancel(p, &job[0]), -FI_ENOENT);
	WANT_OK(fi_cntr_set(go, 2));
	WANT(fi_cntr_read(n), 105);
	WANT_OK(fi_cntr_set(go, 1));
	job_add_to(&job[0], n, 1);
	/* Flush in three ways: all work that waits for the counter `go`, which is given by its fid; the same work,
	 * given by one of its jobs; all work of the domain. */
	for (unsigned way = 0; way < 3; way++) {
		void *const arg[] = {&go->fid, &job[1].work, NULL};

		for (unsigned i = 0; i < 3; i++) {
			job[i].work.threshold = 2;
			WANT_OK(job_queue(p, &job[i]));
		}
		WANT_OK(fi_control(&p->domain->fid, FI_FLUSH_WORK, arg[way]));
		for (unsigned i = 0; i < 3; i++)
			WANT(job_cancel(p, &job[i]), -FI_ENOENT);
		WANT(job_cancel(p, &job[3]), way < 2 ? 0 : -FI_ENOENT);
		if (way < 2)
			WANT_OK(job_queue(p, &job[3]));
	}
	WANT_OK(fi_cntr_add(go, 1));
	WANT_OK(fi_cntr_add(other, 1));
	WANT(fi_cntr_read(n), 105);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&other->fid));
	WANT_OK(fi_close(&n->fid));
}

/** A thread that starts each queued job, by adding one to the counter `go`. */
struct racer {
	struct fid_cntr *go;
	atomic_uint queued;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	for (unsigned i = 1; i <= RACES; i++) {
		while (atomic_load(&r->queued) < i)
			sched_yield();
		WANT_OK(fi_cntr_add(r->go, 1));
	}
	return NULL;
}

/** Queue a job that the racer starts, and cancel the job before it starts, after it has started, or in a race with its
 * start. @return whether the job was canceled. */
static bool start_and_cancel(struct pair *p, struct racer *r, unsigned i, struct fid_cntr *n)
{
	bool canceled;
	struct job job;

	job_init(&job, FI_OP_CNTR_ADD, r->go, i, NULL);
	job_add_to(&job, n, 1);
	WANT_OK(job_queue(p, &job));
	if (i % SURE == 1)
		WANT_OK(job_cancel(p, &job));
	atomic_fetch_add(&r->queued, 1);
	for (volatile unsigned pause = 0; pause < i % 64 * 16; pause++)
		;
	while (i % SURE < 2 && fi_cntr_read(r->go) < i)
		sched_yield();
	canceled = job_cancel(p, &job) == 0;
	if (i % SURE < 2)
		WANT(canceled, false);
	return canceled || i % SURE == 1;
}

/* A cancel that races with the start of a job reports truthfully whether the job was canceled: a canceled job never
 * runs, and any other job runs. */
void case_deferred_race(struct pair *p)
{
	struct racer r = {.go = open_counter(p)};
	struct fid_cntr *n = open_counter(p);
	unsigned canceled = 0;
	pthread_t thread;

	WANT_OK(pthread_create(&thread, NULL, race, &r));
	for (unsigned i = 1; i <= RACES; i++)
		canceled += start_and_cancel(p, &r, i, n);
	WANT_OK(pthread_join(thread, NULL));
	WANT(fi_cntr_read(n) + canceled, RACES);
	WANT(canceled >= RACES / SURE && canceled <= RACES - RACES / SURE, true);
	WANT_OK(fi_close(&r.go->fid));
	WANT_OK(fi_close(&n->fid));
}

void case_deferred_closing(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p), *n = open_counter(p);
	struct fid_ep *ep = job_endpoint(p, p->info, NULL);
	struct job waits, under_way, counts;

	job_init(&waits, FI_OP_SEND, go, 1, done);
	job_message(&waits, ep, p->here, WORD, p->b.addr);
	job_init(&under_way, FI_OP_RECV, go, 0, done);
	job_message(&under_way, ep, p->here, WORD, FI_ADDR_UNSPEC);
	job_init(&counts, FI_OP_CNTR_ADD, go, 1, NULL);
	job_add_to(&counts, n, 1);
	WANT_OK(job_queue(p, &waits));
	WANT_OK(job_queue(p, &under_way));
	WANT_OK(job_queue(p, &counts));
	WANT(fi_close(&go->fid), -FI_EBUSY);
	WANT(fi_close(&done->fid), -FI_EBUSY);
	WANT(fi_close(&n->fid), -FI_EBUSY);
	WANT(job_cancel(p, &under_way), -FI_ENOENT);
	/* When an endpoint closes, its work ends without being counted. */
	WANT_OK(fi_close(&ep->fid));
	WANT(fi_cntr_read(done) + fi_cntr_readerr(done), 0);
	WANT(job_cancel(p, &waits), -FI_ENOENT);
	WANT_OK(fi_close(&done->fid));
	WANT_OK(fi_cntr_add(go, 1));
	WANT(fi_cntr_read(n), 1);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&n->fid));
}

/* Deferred receives of a shared context, queued before any endpoint is bound to the context. One receive takes several
 * messages, until its buffer is full. */
void case_deferred_shared(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);
	struct fi_info *info = fi_dupinfo(p->info);
	struct fid_ep *srx, *ep;
	struct job many, one;
	fi_addr_t addr;
	char name[64], big[3 * 64], said[3][64] = {"1", "2", "3"};
	size_t len = sizeof(name);

	info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	info->caps &= ~FI_DIRECTED_RECV;
	WANT_OK(fi_srx_context(p->domain, NULL, &srx, NULL));
	job_init(&many, FI_OP_RECV, go, 1, done);
	job_message(&many, srx, big, sizeof(big), FI_ADDR_UNSPEC);
	many.msg.flags = FI_MULTI_RECV;
	job_init(&one, FI_OP_TRECV, go, 1, done);
	job_tagged(&one, srx, p->here, WORD, FI_ADDR_UNSPEC, 3);
	WANT_OK(job_queue(p, &many));
	WANT_OK(job_queue(p, &one));
	WANT_OK(fi_endpoint(p->domain, info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(ep, &p->b.tx->fid, FI_TRANSMIT));
	WANT_OK(fi_ep_bind(ep, &p->b.rx->fid, FI_RECV));
	WANT_OK(fi_ep_bind(ep, &srx->fid, 0));
	WANT_OK(fi_enable(ep));
	WANT_OK(fi_getname(&ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, &addr, 0, NULL), 1);
	WANT_OK(fi_inject(p->a.ep, said[0], 64, addr));
	WANT_OK(fi_cntr_add(go, 1));
	WANT_OK(fi_inject(p->a.ep, said[1], 64, addr));
	await_count(done, 2, 0);
	WANT(job_cancel(p, &many), -FI_ENOENT); /* the multi-message receive is still under way */
	WANT_OK(fi_inject(p->a.ep, said[2], 64, addr));
	await_count(done, 3, 0);
	WANT(big[0], '1');
	WANT(big[128], '3');
	WANT_OK(fi_cancel(&srx->fid, &one));
	await_count(done, 3, 1);
	nothing(p, p->b.rx);
	WANT_OK(job_queue(p, &many)); /* its buffer was full, so it has ended and can be queued again */
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&srx->fid));
	WANT_OK(fi_av_remove(p->av, &addr, 1, 0));
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
	fi_freeinfo(info);
}

/* A shared context without bound endpoints has no CQ: it reports only through counters. */
static void shared_by_nobody(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);
	struct fi_triggered_context when = {.event_type = FI_TRIGGER_THRESHOLD,
					    .trigger.threshold = {.cntr = go, .threshold = 1}};
	struct iovec iov = {p->here, WORD};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &when};
	struct fid_ep *srx;
	struct job job;

	WANT_OK(fi_srx_context(p->domain, NULL, &srx, NULL));
	job_init(&job, FI_OP_TRECV, go, 0, done);
	job_tagged(&job, srx, p->here, WORD, FI_ADDR_UNSPEC, 3);
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_cancel(&srx->fid, &job));
	await_count(done, 0, 1);
	job.work.completion_cntr = NULL;
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_cancel(&srx->fid, &job));
	WANT(job_cancel(p, &job), -FI_ENOENT);
	WANT_OK(fi_recvmsg(srx, &msg, FI_TRIGGER));
	WANT_OK(fi_cancel(&srx->fid, &when));
	WANT(fi_cancel(&srx->fid, &when), -FI_ENOENT);
	job.work.threshold = 1;
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_recvmsg(srx, &msg, FI_TRIGGER));
	WANT(fi_close(&go->fid), -FI_EBUSY);
	WANT_OK(fi_close(&srx->fid)); /* closing drops the work that waits */
	WANT(job_cancel(p, &job), -FI_ENOENT);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
}

/* A shared context has room for two receives: further deferred receives wait for room, and can be canceled while they
 * wait. */
static void shared_without_room(struct pair *p)
{
	struct fid_cntr *go = open_counter(p), *done = open_counter(p), *n = open_counter(p);
	struct fi_info *info = fi_dupinfo(p->info);
	struct fi_rx_attr attr = {.size = 2, .op_flags = FI_TRIGGER};
	struct fi_triggered_context when[3];
	struct fid_ep *srx, *ep;
	struct job job, count;
	fi_addr_t addr;

	info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	info->caps &= ~FI_DIRECTED_RECV;
	WANT_OK(fi_srx_context(p->domain, &attr, &srx, NULL));
	ep = job_endpoint(p, info, &srx->fid);
	addr = job_address(p, ep);
	for (unsigned i = 0; i < 3; i++) {
		when[i] = (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD,
							.trigger.threshold = {.cntr = go, .threshold = 0}};
		WANT_OK(fi_trecv(srx, p->there, WORD, NULL, FI_ADDR_UNSPEC, i, 0, &when[i]));
	}
	job_init(&job, FI_OP_TRECV, go, 0, done);
	job_tagged(&job, srx, p->there + 64, WORD, FI_ADDR_UNSPEC, 9);
	WANT_OK(job_queue(p, &job));
	WANT_OK(fi_cancel(&srx->fid, &when[2]));
	await_error(p, p->a.rx, FI_ECANCELED);
	WANT(p->error.op_context == &when[2], 1);
	WANT(p->error.flags, FI_TAGGED | FI_RECV);
	WANT(p->error.tag, 2);
	job_init(&count, FI_OP_CNTR_ADD, go, 0, NULL);
	job_add_to(&count, n, 1);
	WANT_OK(job_queue(p, &count));
	WANT(fi_cntr_read(n), 0);
	WANT_OK(fi_cancel(&srx->fid, &when[0])); /* makes room for the deferred receive */
	WANT(fi_cntr_read(n), 1);
	await_error(p, p->a.rx, FI_ECANCELED);
	WANT(p->error.op_context == &when[0], 1);
	WANT(job_cancel(p, &job), -FI_ENOENT);
	WANT_OK(fi_tinject(p->b.ep, "nine...", WORD, addr, 9));
	await_count(done, 1, 0);
	WANT(strcmp(p->there + 64, "nine..."), 0);
	WANT_OK(fi_cancel(&srx->fid, &when[1]));
	await_error(p, p->a.rx, FI_ECANCELED);
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&srx->fid));
	WANT_OK(fi_av_remove(p->av, &addr, 1, 0));
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
	WANT_OK(fi_close(&n->fid));
	fi_freeinfo(info);
}

void case_deferred_shared_ends(struct pair *p)
{
	shared_by_nobody(p);
	shared_without_room(p);
}

/* ---- no room for requests ---------------------------------------------------------------------------------- */

/** Two endpoints that share a transmit context with room for two requests. */
struct crowd {
	struct fid_stx *stx;
	struct fid_ep *one, *two;
	struct fid_cntr *go, *done, *n;
	struct job job[3];
};

/** Fill the room of the shared transmit context with n requests of the first endpoint. They stay under way until end
 * b receives the messages, whose tags are consecutive from `first` on. */
static void fill(struct pair *p, struct crowd *c, uint64_t first, unsigned n)
{
	struct iovec iov = {p->here, WORD};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->b.addr};

	for (msg.tag = first; msg.tag < first + n; msg.tag++)
		WANT_OK(fi_tsendmsg(c->one, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	WANT(fi_tsendmsg(c->two, &msg, FI_COMPLETION), -FI_EAGAIN);
}

static void receive(struct pair *p, uint64_t tag)
{
	WANT_OK(fi_trecv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	await(p, p->b.rx);
}

/** Queue two messages of the second endpoint, and after them a job that adds to a counter, all with the same trigger.
 */
static void queue_behind(struct pair *p, struct crowd *c, uint64_t threshold)
{
	for (unsigned i = 0; i < 2; i++) {
		job_init(&c->job[i], FI_OP_SEND, c->go, threshold, c->done);
		job_message(&c->job[i], c->two, i ? "second" : "first.", WORD - 1, p->b.addr);
		WANT_OK(job_queue(p, &c->job[i]));
	}
	job_init(&c->job[2], FI_OP_CNTR_ADD, c->go, threshold, NULL);
	job_add_to(&c->job[2], c->n, 1);
	WANT_OK(job_queue(p, &c->job[2]));
}

/* A job that needs no room is queued behind two messages that need room, and waits for them. When both messages have
 * been canceled, the job starts at once. */
static void canceled_without_room(struct pair *p, struct crowd *c)
{
	fill(p, c, 11, 2);
	queue_behind(p, c, 0);
	WANT_OK(job_cancel(p, &c->job[0]));
	WANT(fi_cntr_read(c->n), 0);
	WANT_OK(job_cancel(p, &c->job[1]));
	WANT(fi_cntr_read(c->n), 1);
	WANT(job_cancel(p, &c->job[2]), -FI_ENOENT);
	WANT_OK(fi_cntr_set(c->n, 0));
}

/* Work that has reached its threshold but finds no room waits its turn, and can be canceled while it waits. */
static void room_comes(struct pair *p, struct crowd *c)
{
	queue_behind(p, c, 1);
	WANT_OK(fi_cntr_add(c->go, 1));
	WANT(fi_cntr_read(c->n), 0);
	WANT_OK(job_cancel(p, &c->job[0]));
	WANT(fi_cntr_read(c->n), 0);
	receive(p, 11);
	await(p, p->a.tx);
	WANT_OK(fi_recv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	await(p, p->b.rx);
	WANT(strcmp(p->there, "second"), 0);
	await_count(c->done, 1, 0);
	WANT(fi_cntr_read(c->n), 1);
}

static void flushed_without_room(struct pair *p, struct crowd *c)
{
	fill(p, c, 13, 1);
	queue_behind(p, c, 2);
	WANT_OK(fi_cntr_add(c->go, 1));
	WANT_OK(fi_control(&p->domain->fid, FI_FLUSH_WORK, c->go));
	for (unsigned i = 0; i < 3; i++)
		WANT(job_cancel(p, &c->job[i]), -FI_ENOENT);
	for (uint64_t tag = 12; tag < 14; tag++) {
		receive(p, tag);
		await(p, p->a.tx);
	}
	WANT(fi_cntr_read(c->n), 1);
	WANT(fi_cntr_read(c->done), 1);
	WANT_OK(job_queue(p, &c->job[2])); /* starts at once: the counter has already reached the threshold */
	WANT(fi_cntr_read(c->n), 2);
}

/* Triggered operations wait for room like deferred work. When an endpoint closes, its room in the shared context
 * becomes available to others. */
static void room_by_closing(struct pair *p, struct crowd *c)
{
	struct fi_triggered_context when[2];

	fill(p, c, 14, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct iovec iov = {p->here, WORD};
		struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->b.addr, .context = &when[i]};

		when[i] = (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD,
							.trigger.threshold = {.cntr = c->go, .threshold = 2}};
		WANT_OK(fi_sendmsg(c->two, &msg, FI_TRIGGER | FI_COMPLETION));
		WANT_OK(job_queue(p, &c->job[2]));
		WANT(fi_cntr_read(c->n), 2 + i); /* the job waits behind the message */
		if (i)
			continue;
		WANT_OK(fi_cancel(&c->two->fid, &when[0]));
		WANT(fi_cntr_read(c->n), 3);
		await_error(p, p->a.tx, FI_ECANCELED);
		WANT(p->error.op_context == &when[0], 1);
		WANT(p->error.flags, FI_MSG | FI_SEND);
	}
	nothing(p, p->a.tx);
	WANT_OK(fi_recv(p->b.ep, p->there, WORD, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_close(&c->one->fid));
	WANT(fi_cntr_read(c->n), 4);
	await(p, p->a.tx);
	WANT(p->done.op_context == &when[1], 1);
	await(p, p->b.rx);
	receive(p, 14); /* both messages had left before their endpoint closed */
	receive(p, 15);
}

void case_deferred_room(struct pair *p)
{
	struct fi_info *info = fi_dupinfo(p->info);
	struct fi_tx_attr attr = {.size = 2};
	struct crowd c = {.go = open_counter(p), .done = open_counter(p), .n = open_counter(p)};

	info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	WANT_OK(fi_stx_context(p->domain, &attr, &c.stx, NULL));
	c.one = job_endpoint(p, info, &c.stx->fid);
	c.two = job_endpoint(p, info, &c.stx->fid);
	canceled_without_room(p, &c);
	room_comes(p, &c);
	flushed_without_room(p, &c);
	room_by_closing(p, &c);
	WANT_OK(fi_close(&c.two->fid));
	WANT_OK(fi_close(&c.stx->fid));
	WANT_OK(fi_close(&c.go->fid));
	WANT_OK(fi_close(&c.done->fid));
	WANT_OK(fi_close(&c.n->fid));
	fi_freeinfo(info);
}
