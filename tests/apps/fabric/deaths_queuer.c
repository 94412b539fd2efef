/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths_queuer.c - a process ends with work queued: work that waits for counters, work under way, work that restarts
 * itself endlessly, triggered receives. No other process is disturbed, and all of that work is gone afterwards.
 */
#include <pthread.h>
#include <unistd.h>

#include "../../forked.h"
#include "deaths.h"

#define ROUNDS	   4u
#define WAITING	   3000u
#define UNRECEIVED 300u
#define RECEIVES   300u
#define ROUND	   2000u /* pieces of work in a chain: each piece starts the next */
#define LONG_ONES  4u
#define AT	   4096u /* offset in the friend's memory */
#define MULTI_LEN  65536u

enum ending { EXITS, EXITS_AT_ONCE, STAYS, EXITS_BUSY };

/* ---- the process that ends ---- */

/** Queue work of all kinds whose counters never reach the thresholds: messages, RMA, atomics, counter additions. */
static void queue_waiting(struct pair *p, struct fid_cntr *done, const struct seat *s, fi_addr_t to)
{
	struct job *job = zeroes(WAITING, sizeof(*job));
	struct fid_cntr *go[3] = {open_counter(p), open_counter(p), open_counter(p)};

	for (unsigned i = 0; i < WAITING; i++) {
		struct job *j = &job[i];

		if (i % 4 == 0)
			job_count_at(p, j, go[i % 3], 1 + i % 100, done, s, to, AT);
		else
			job_init(j,
				 i % 4 == 1   ? FI_OP_TSEND
				 : i % 4 == 2 ? FI_OP_WRITE
					      : FI_OP_CNTR_ADD,
				 go[i % 3], 1 + i % 100, i % 4 == 3 ? NULL : done);
		if (i % 4 == 1)
			job_tagged(j, p->a.ep, p->here, i % 8 == 1 ? WORD : LONG_LEN, to, LOOSE_TAG);
		if (i % 4 == 2) {
			job_rma(p, j, p->here, 1000, 0);
			aim_rma(j, s, to, AT);
		}
		if (i % 4 == 3)
			job_add_to(j, go[(i + 1) % 3], 0);
		WANT_OK(job_queue(p, j));
	}
}

/** Queue messages that stay under way, because the peer never receives them. */
static void queue_unreceived(struct pair *p, struct fid_cntr *done, fi_addr_t to)
{
	struct job *job = zeroes(UNRECEIVED, sizeof(*job));

	for (unsigned i = 0; i < UNRECEIVED; i++) {
		job_init(&job[i], FI_OP_TSEND, done, 0, done);
		job_tagged(&job[i], p->a.ep, p->here, i < LONG_ONES ? LONG_LEN : 100, to, LOOSE_TAG);
		job[i].tagged.flags = FI_DELIVERY_COMPLETE;
		WANT_OK(job_queue(p, &job[i]));
		WANT(job_cancel(p, &job[i]), -FI_ENOENT);
	}
}

/** Queue receives that wait for a counter, and receives that a counter has started, on the endpoint and on a shared
 * receive context. */
static void queue_receives(struct pair *p, struct fid_cntr *done)
{
	struct fi_triggered_context *context = zeroes(RECEIVES, sizeof(*context));
	struct fid_cntr *go = open_counter(p);
	struct fid_ep *in = p->a.ep, *srx = NULL;
	struct job *job = zeroes(2, sizeof(*job));

	WANT_OK(fi_ep_alias(p->a.ep, &in, FI_RECV | FI_TRIGGER));
	for (unsigned i = 0; i < RECEIVES; i++) {
		context[i] = (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD,
							   .trigger.threshold = {.cntr = go, .threshold = i % 2}};
		WANT_OK(fi_trecv(in, p->here, WORD, NULL, FI_ADDR_UNSPEC, i, 0, &context[i]));
	}
	WANT_OK(fi_srx_context(p->domain, NULL, &srx, NULL));
	for (unsigned i = 0; i < 2; i++) {
		job_init(&job[i], FI_OP_RECV, go, i, done);
		job_message(&job[i], srx, p->here, MULTI_LEN, FI_ADDR_UNSPEC);
		job[i].msg.flags = FI_MULTI_RECV;
		WANT_OK(job_queue(p, &job[i]));
	}
}

/** A chain of work that a thread extends endlessly: each piece starts the next. */
struct going {
	struct pair *p;
	const struct seat *s;
	fi_addr_t to;
	struct fid_cntr *turn;
	struct job *job;
};

static void going_open(struct going *g, struct pair *p, const struct seat *s, fi_addr_t to)
{
	*g = (struct going){
		.p = p, .s = s, .to = to, .turn = open_counter(p), .job = zeroes(ROUND, sizeof(struct job))};
}

static void go_round(struct going *g)
{
	uint64_t from = fi_cntr_read(g->turn);

	for (unsigned i = 0; i < ROUND; i++) {
		if (i % 50)
			job_count_at(g->p, &g->job[i], g->turn, from + i, g->turn, g->s, g->to, AT);
		else
			job_init(&g->job[i], FI_OP_WRITE, g->turn, from + i, g->turn);
		if (i % 50 == 0) {
			job_rma(g->p, &g->job[i], g->p->here, 100000, 0);
			aim_rma(&g->job[i], g->s, g->to, 2 * AT);
		}
		WANT_OK(job_queue(g->p, &g->job[i]));
	}
}

static void *keep_going(void *arg)
{
	struct going *g = arg;

	for (;;) {
		uint64_t end = fi_cntr_read(g->turn) + ROUND;

		go_round(g);
		WANT_OK(fi_cntr_wait(g->turn, end, PATIENCE_MS));
	}
	return NULL;
}

int role_queuer(struct seat *s)
{
	enum ending how = (enum ending)atomic_load(&s->word);
	static struct going going[2];
	struct pair p = {0};
	struct fid_cntr *done;
	pthread_t thread;
	fi_addr_t to, other;

	seat_open(s, &p);
	to = seat_address(&p, &deaths->tester);
	other = seat_address(&p, friend_of_tester());
	done = open_counter(&p);
	queue_waiting(&p, done, &deaths->tester, to);
	queue_waiting(&p, done, friend_of_tester(), other);
	queue_unreceived(&p, done, to);
	queue_receives(&p, done);
	for (unsigned i = 0; i < 2; i++)
		going_open(&going[i], &p, i ? friend_of_tester() : &deaths->tester, i ? other : to);
	for (unsigned i = 0; i < 2 && how == EXITS_BUSY; i++)
		WANT_OK(pthread_create(&thread, NULL, keep_going, &going[i]));
	for (unsigned i = 0; i < 2 && how != EXITS_BUSY; i++)
		go_round(&going[i]);
	WANT_OK(fi_cntr_wait(going[0].turn, ROUND / 10, PATIENCE_MS));
	if (failures)
		forked_die("not all could be queued");
	atomic_store(&s->step, 1);
	if (how == EXITS_AT_ONCE)
		_exit(0);
	if (how == STAYS)
		wait_for_the_end();
	exit(0);
}

/* ---- the processes that live on ---- */

/** Discard the messages that dead processes have left. Any number of them can be there, and none may block anything. */
static void drop_loose(struct pair *p)
{
	struct iovec iov = {p->here, LONG_LEN};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = LOOSE_TAG};
	struct fi_cq_tagged_entry entry;
	unsigned dropped = 0;
	ssize_t rc;

	do {
		WANT_OK(fi_trecvmsg(p->a.ep, &msg, FI_PEEK | FI_DISCARD | FI_COMPLETION));
		rc = fi_cq_sread(p->a.rx, &entry, 1, NULL, PATIENCE_MS);
		dropped += rc == 1;
	} while (rc == 1 && dropped <= 2 * UNRECEIVED * ROUNDS);
	WANT(rc, -FI_EAVAIL);
	memset(&p->error, 0, sizeof(p->error));
	WANT(fi_cq_readerr(p->a.rx, &p->error, 0), 1);
	WANT(p->error.err, FI_ENOMSG);
}

static void queuers_end(struct pair *p, enum ending how)
{
	struct seat *other = friend_of_tester();
	fi_addr_t beside = seat_address(p, other);
	struct fid_cntr *go = open_counter(p), *done = open_counter(p);
	struct job job;

	for (unsigned i = 0; i < ROUNDS && !failures; i++) {
		struct seat *s = begin(QUEUER, how);

		await_word(&s->step, 1);
		if (how == STAYS)
			seat_kill(s);
		else
			seat_ends(s, 0);
		word_clear(p, other, beside, 0);
		job_count_at(p, &job, go, i + 1, done, other, beside, 0);
		WANT_OK(job_queue(p, &job));
		WANT_OK(fi_cntr_add(go, 1));
		await_count(done, i + 1, 0);
		WANT(word_at(p, other, beside, 0), 1);
		friends_go_on();
	}
	drop_loose(p);
	nothing(p, p->a.tx);
	nothing(p, p->a.rx);
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_close(&done->fid));
	WANT_OK(fi_av_remove(p->av, &beside, 1, 0));
}

void case_queuer_exits(struct pair *p)
{
	queuers_end(p, EXITS);
}

void case_queuer_exits_at_once(struct pair *p)
{
	queuers_end(p, EXITS_AT_ONCE);
}

void case_queuer_killed(struct pair *p)
{
	queuers_end(p, STAYS);
}

void case_queuer_exits_busy(struct pair *p)
{
	queuers_end(p, EXITS_BUSY);
}
