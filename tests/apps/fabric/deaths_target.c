/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths_target.c - a target process ends or stops while the tester has work for it queued or under way. That work
 * fails, work that waits for it starts nevertheless, and work for other processes is not affected.
 */
#include <time.h>

#include "deaths.h"

#define KINDS	   6u
/* There are EACH pieces of work for the target, EACH for the friend, and EACH that wait for the target's work. */
#define EACH	   240u
#define LATER	   20u
#define PENDING	   60u /* messages that the target's NIC has received, but the target's program has not */
#define LAPS	   600u
#define TALKS	   40u
#define MOMENTS	   5u /* number of points in time at which a target dies */
#define PAIRS	   20u
#define TALK_TAG   7u
/* Offsets of counting words in the friend's memory. */
#define BESIDES_AT 0u
#define BEHIND_AT  8u
#define PAIRS_AT   16u

/* ---- the process that ends ---- */

int role_target(struct seat *s)
{
	struct pair p = {0};

	seat_open(s, &p);
	atomic_store(&s->step, 1);
	wait_for_the_end();
}

/** A target whose NIC answers each message by deferred work. */
int role_target_passes(struct seat *s)
{
	static struct job recv[LAPS], send[LAPS];
	struct pair p = {0};
	struct fid_cntr *got;
	fi_addr_t to;

	seat_open(s, &p);
	to = seat_address(&p, &deaths->tester);
	got = open_counter(&p);
	for (unsigned i = 0; i < LAPS; i++) {
		job_init(&recv[i], FI_OP_RECV, got, 0, got);
		job_message(&recv[i], p.a.ep, p.here, WORD, FI_ADDR_UNSPEC);
		job_init(&send[i], FI_OP_SEND, got, i + 1, NULL);
		job_message(&send[i], p.a.ep, p.here, WORD, to);
		WANT_OK(job_queue(&p, &recv[i]));
		WANT_OK(job_queue(&p, &send[i]));
	}
	atomic_store(&s->step, 1);
	wait_for_the_end();
}

/** A target that sends long messages, one after the other. */
int role_target_talks(struct seat *s)
{
	static struct job send[TALKS];
	struct pair p = {0};
	struct fid_cntr *sent;
	fi_addr_t to;

	seat_open(s, &p);
	to = seat_address(&p, &deaths->tester);
	sent = open_counter(&p);
	for (unsigned i = 0; i < TALKS; i++) {
		job_init(&send[i], FI_OP_TSEND, sent, i, sent);
		job_tagged(&send[i], p.a.ep, p.here, LONG_LEN, to, TALK_TAG);
		WANT_OK(job_queue(&p, &send[i]));
	}
	atomic_store(&s->step, 1);
	wait_for_the_end();
}

/* ---- the process that has work for it ---- */

/** Wait until the counter's successes plus its errors have reached `sum`. */
static void await_sum(struct fid_cntr *cntr, uint64_t sum)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t found = 0;

	for (int ms = 0; ms < 2 * PATIENCE_MS; ms++) {
		found = fi_cntr_read(cntr) + fi_cntr_readerr(cntr);
		if (found >= sum)
			break;
		nanosleep(&pause, NULL);
	}
	WANT(found, sum);
}

static void await_both(struct fid_cntr *cntr, uint64_t value, uint64_t errors)
{
	await_sum(cntr, value + errors);
	WANT(fi_cntr_read(cntr), value);
	WANT(fi_cntr_readerr(cntr), errors);
}

/** Cancel those of the n receives that have not been matched by a message yet. @return how many were canceled. */
static unsigned cancel_receives(struct pair *p, struct job *recv, unsigned n)
{
	unsigned canceled = 0;

	for (unsigned i = 0; i < n; i++) {
		ssize_t rc = fi_cancel(&p->a.ep->fid, &recv[i]);

		WANT(rc == 0 || rc == -FI_ENOENT, true);
		canceled += rc == 0;
	}
	return canceled;
}

/** Fill in a job of kind `kind` modulo KINDS. A job of any kind completes only after a response from the target. */
static void job_of_kind(struct pair *p, struct job *j, unsigned kind, struct fid_cntr *trigger, uint64_t threshold,
			struct fid_cntr *completion, const struct seat *s, fi_addr_t addr)
{
	static const enum fi_op_type types[KINDS] = {FI_OP_TSEND,  FI_OP_WRITE,	       FI_OP_READ,
						     FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC};
	static uint64_t one = 1, out;

	job_init(j, types[kind % KINDS], trigger, threshold, completion);
	j->result = j->compare = (struct fi_ioc){&out, 1};
	switch (j->work.op_type) {
	case FI_OP_TSEND:
		job_tagged(j, p->a.ep, p->here, 1000, addr, LOOSE_TAG);
		return;
	case FI_OP_WRITE:
	case FI_OP_READ:
		job_rma(p, j, p->here, kind % 2 ? WORD : 20000, 64);
		aim_rma(j, s, addr, 64);
		return;
	case FI_OP_ATOMIC:
		j->atomic = (struct fi_op_atomic){.ep = p->a.ep, .msg = job_on_word(p, j, &one, FI_SUM)};
		break;
	case FI_OP_FETCH_ATOMIC:
		j->fetch = (struct fi_op_fetch_atomic){.ep = p->a.ep,
						       .msg = job_on_word(p, j, &one, FI_SUM),
						       .fetch = {.msg_iov = &j->result, .iov_count = 1}};
		break;
	default:
		j->compared = (struct fi_op_compare_atomic){.ep = p->a.ep,
							    .msg = job_on_word(p, j, &one, FI_CSWAP),
							    .fetch = {.msg_iov = &j->result, .iov_count = 1},
							    .compare = {.msg_iov = &j->compare, .iov_count = 1}};
	}
	aim_atomic(j, s, addr, 0);
}

/** All work queued in a case. */
struct load {
	struct fid_cntr *go, *done, *besides, *behind, *n, *pending;
	struct job first, underway[PENDING], of_target[EACH], of_friend[EACH], after[EACH], count[EACH], later[LATER],
		never[LATER];
	struct seat *target, *friend;
	fi_addr_t to, beside;
};

/** Queue PENDING operations that the target's NIC has accepted but its program never receives, so all of them stay
 * under way. One is a long message, and one is a tagged atomic, whose target is the buffer of a receive that
 * is never posted. */
static void load_underway(struct pair *p, struct load *l)
{
	for (unsigned i = 0; i < PENDING; i++) {
		struct job *j = &l->underway[i];
		static uint64_t one = 1;

		job_init(j, i ? FI_OP_TSEND : FI_OP_ATOMIC, l->go, 0, l->pending);
		job_tagged(j, p->a.ep, p->here, i == 1 ? LONG_LEN : WORD, l->to, LOOSE_TAG + 1 + i);
		j->tagged.flags = FI_DELIVERY_COMPLETE;
		if (i == 0) {
			j->atomic = (struct fi_op_atomic){
				.ep = p->a.ep, .msg = job_on_word(p, j, &one, FI_SUM), .flags = FI_TAGGED};
			j->target = (struct fi_rma_ioc){0, 1, LOOSE_TAG + 1};
			j->atomic.msg.addr = l->to;
		}
		WANT_OK(job_queue(p, j));
		WANT(job_cancel(p, j), -FI_ENOENT);
	}
}

static void load_queue(struct pair *p, struct load *l)
{
	for (unsigned i = 0; i < EACH; i++) {
		job_of_kind(p, &l->of_target[i], i, l->go, i + 1, l->done, l->target, l->to);
		job_count_at(p, &l->of_friend[i], l->go, i + 1, l->besides, l->friend, l->beside, BESIDES_AT);
		job_count_at(p, &l->after[i], l->done, i + 1, l->behind, l->friend, l->beside, BEHIND_AT);
		job_init(&l->count[i], FI_OP_CNTR_ADD, l->done, i + 1, NULL);
		job_add_to(&l->count[i], l->n, 1);
		WANT_OK(job_queue(p, &l->of_target[i]));
		WANT_OK(job_queue(p, &l->of_friend[i]));
		WANT_OK(job_queue(p, &l->after[i]));
		WANT_OK(job_queue(p, &l->count[i]));
	}
	for (unsigned i = 0; i < LATER; i++) {
		job_of_kind(p, &l->later[i], i, l->go, EACH + 1, l->done, l->target, l->to);
		job_of_kind(p, &l->never[i], i, l->go, FAR + i, l->done, l->target, l->to);
		WANT_OK(job_queue(p, &l->later[i]));
		WANT_OK(job_queue(p, &l->never[i]));
	}
}

static struct load *load_open(struct pair *p)
{
	struct load *l = zeroes(1, sizeof(*l));
	struct fid_cntr **const cntr[] = {&l->go, &l->done, &l->besides, &l->behind, &l->n, &l->pending};

	for (unsigned i = 0; i < sizeof(cntr) / sizeof(cntr[0]); i++)
		*cntr[i] = open_counter(p);
	l->friend = friend_of_tester();
	l->beside = seat_address(p, l->friend);
	word_clear(p, l->friend, l->beside, BESIDES_AT);
	word_clear(p, l->friend, l->beside, BEHIND_AT);
	l->target = begin(TARGET, 0);
	await_word(&l->target->step, 1);
	l->to = seat_address(p, l->target);
	word_clear(p, l->target, l->to, 0);
	return l;
}

static void load_close(struct pair *p, struct load *l)
{
	fi_addr_t of[] = {l->to, l->beside};
	struct fid_cntr *const cntr[] = {l->go, l->done, l->besides, l->behind, l->n, l->pending};

	for (unsigned i = 0; i < sizeof(cntr) / sizeof(cntr[0]); i++)
		WANT_OK(fi_close(&cntr[i]->fid));
	WANT_OK(fi_av_remove(p->av, of, 2, 0));
	free(l);
}

/* ---- cases ------------------------------------------------------------------------------------------------- */

static void target_ends(struct pair *p, bool killed)
{
	struct load *l = load_open(p);

	load_underway(p, l);
	load_queue(p, l);
	WANT_OK(fi_cntr_add(l->go, EACH / 3)); /* a third of the work is done while the target is alive */
	await_both(l->done, EACH / 3, 0);
	if (killed)
		seat_kill(l->target);
	else
		seat_stop(l->target);
	WANT_OK(fi_cntr_add(l->go, EACH - EACH / 3));
	await_both(l->besides, EACH, 0); /* the friend's work does not depend on the target */
	await_both(l->pending, 0, PENDING);
	await_both(l->done, EACH / 3, EACH - EACH / 3);
	await_both(l->behind, EACH, 0);
	WANT(fi_cntr_read(l->n), EACH);
	WANT(word_at(p, l->friend, l->beside, BESIDES_AT), EACH);
	WANT(word_at(p, l->friend, l->beside, BEHIND_AT), EACH);
	WANT_OK(fi_cntr_add(l->go, 1)); /* starts more work for the lost peer, which fails as well */
	await_both(l->done, EACH / 3, EACH - EACH / 3 + LATER);
	for (unsigned i = 0; i < LATER; i++) {
		WANT_OK(job_cancel(p, &l->never[i]));
		WANT(job_cancel(p, &l->never[i]), -FI_ENOENT);
		WANT(job_cancel(p, &l->later[i]), -FI_ENOENT);
	}
	nothing(p, p->a.tx);
	if (!killed)
		seat_kill(l->target);
	load_close(p, l);
	friends_go_on();
}

void case_target_killed(struct pair *p)
{
	target_ends(p, true);
}

void case_target_stopped(struct pair *p)
{
	target_ends(p, false);
}

/** Sleep before the target is killed, for a pseudo-random time below 2 ms that differs from call to call. */
static void some_time_later(void)
{
	static uint32_t random = 1;
	struct timespec pause;

	random = random * 1664525 + 1013904223;
	pause = (struct timespec){.tv_nsec = (random >> 8) % 2000000};
	nanosleep(&pause, NULL);
}

/* The tester and the target answer each other's messages by deferred work. When the target dies, the chain of answers
 * ends. */
static void chain_breaks(struct pair *p, struct job *recv, struct job *send)
{
	struct seat *target = begin(TARGET_PASSES, 0);
	struct fid_cntr *got = open_counter(p), *sent = open_counter(p);
	unsigned canceled = 0;
	fi_addr_t to;

	await_word(&target->step, 1);
	to = seat_address(p, target);
	for (unsigned i = 0; i < LAPS; i++) {
		job_init(&recv[i], FI_OP_RECV, got, 0, got);
		job_message(&recv[i], p->a.ep, p->there, WORD, to);
		job_init(&send[i], FI_OP_SEND, got, i + 1, sent);
		job_message(&send[i], p->a.ep, p->there, WORD, to);
		WANT_OK(job_queue(p, &recv[i]));
		WANT_OK(job_queue(p, &send[i]));
	}
	WANT_OK(fi_cntr_add(got, 1));
	WANT_OK(fi_cntr_wait(got, LAPS / 20, PATIENCE_MS));
	some_time_later();
	seat_kill(target);
	for (unsigned i = 0; i < LAPS; i++)
		canceled += job_cancel(p, &send[i]) == 0;
	await_sum(sent, LAPS - canceled);
	WANT(cancel_receives(p, recv, LAPS), LAPS + 1 - fi_cntr_read(got));
	await_sum(got, LAPS + 1);
	nothing(p, p->a.tx);
	nothing(p, p->a.rx);
	WANT_OK(fi_close(&got->fid));
	WANT_OK(fi_close(&sent->fid));
	WANT_OK(fi_av_remove(p->av, &to, 1, 0));
}

void case_target_killed_in_chain(struct pair *p)
{
	static struct job recv[LAPS], send[LAPS];

	for (unsigned i = 0; i < MOMENTS && !failures; i++)
		chain_breaks(p, recv, send);
	friends_go_on();
}

/* The target dies while the tester receives a long message from it: this receive fails. Receives that have no message
 * yet can be canceled. */
static void message_breaks(struct pair *p, struct job *recv)
{
	struct seat *target = begin(TARGET_TALKS, 0);
	struct fid_cntr *got = open_counter(p);
	unsigned canceled;
	fi_addr_t from;

	await_word(&target->step, 1);
	from = seat_address(p, target);
	for (unsigned i = 0; i < TALKS; i++) {
		job_init(&recv[i], FI_OP_TRECV, got, 0, got);
		job_tagged(&recv[i], p->a.ep, p->here, LONG_LEN, from, TALK_TAG);
		WANT_OK(job_queue(p, &recv[i]));
	}
	WANT_OK(fi_cntr_wait(got, 2, PATIENCE_MS));
	some_time_later();
	seat_kill(target);
	canceled = cancel_receives(p, recv, TALKS);
	await_sum(got, TALKS);
	WANT(canceled <= fi_cntr_readerr(got), true);
	nothing(p, p->a.rx);
	WANT_OK(fi_close(&got->fid));
	WANT_OK(fi_av_remove(p->av, &from, 1, 0));
}

void case_target_killed_amid_messages(struct pair *p)
{
	static struct job recv[TALKS];

	for (unsigned i = 0; i < MOMENTS && !failures; i++)
		message_breaks(p, recv);
	friends_go_on();
}

/** Wait for the completions of n requests: requests with even numbers fail, the others succeed. */
static void await_pairs(struct pair *p, struct fi_triggered_context *context, unsigned n)
{
	unsigned char seen[2 * PAIRS] = {0};

	for (unsigned i = 0; i < n; i++) {
		ssize_t rc = fi_cq_sread(p->a.tx, &p->done, 1, NULL, PATIENCE_MS);
		struct fi_triggered_context *of = p->done.op_context;

		if (rc == -FI_EAVAIL) {
			memset(&p->error, 0, sizeof(p->error));
			WANT(fi_cq_readerr(p->a.tx, &p->error, 0), 1);
			of = p->error.op_context;
		}
		WANT(rc == 1 || rc == -FI_EAVAIL, true);
		if ((rc != 1 && rc != -FI_EAVAIL) || of < context || of >= context + n)
			return;
		WANT(seen[of - context]++, 0);
		WANT((of - context) % 2, rc == 1);
	}
}

void case_target_of_triggered(struct pair *p)
{
	struct seat *target = begin(TARGET, 0), *other = friend_of_tester();
	struct fi_triggered_context context[2 * PAIRS], waits;
	struct fid_cntr *go = open_counter(p);
	fi_addr_t to[2];
	struct fid_ep *out = p->a.ep;

	WANT_OK(fi_ep_alias(p->a.ep, &out, FI_TRANSMIT | FI_TRIGGER));
	await_word(&target->step, 1);
	to[0] = seat_address(p, target);
	to[1] = seat_address(p, other);
	word_clear(p, target, to[0], 0);
	memset(p->here, 'x', 2 * PAIRS);
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		const struct seat *s = i % 2 ? other : target;

		context[i] = (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD,
							   .trigger.threshold = {.cntr = go, .threshold = i}};
		WANT_OK(fi_write(out, p->here + i, 1, NULL, to[i % 2], s->base + PAIRS_AT + i, s->key, &context[i]));
		if (i == 0)
			await(p, p->a.tx);
	}
	waits = context[0];
	waits.trigger.threshold.threshold = FAR;
	WANT_OK(fi_send(out, p->here, 1, NULL, to[0], &waits));
	seat_kill(target);
	WANT_OK(fi_write(out, p->here, 1, NULL, to[0], target->base, target->key, &context[0]));
	WANT_OK(fi_cntr_add(go, 2 * PAIRS));
	await_pairs(p, context, 2 * PAIRS);
	WANT_OK(fi_cancel(&p->a.ep->fid, &waits));
	await_error(p, p->a.tx, FI_ECANCELED);
	WANT(p->error.op_context == &waits, true);
	nothing(p, p->a.tx);
	for (unsigned i = 1; i < 2 * PAIRS; i += 2)
		WANT(word_at(p, other, to[1], PAIRS_AT + i) & 0xff, 'x');
	WANT_OK(fi_close(&out->fid));
	WANT_OK(fi_close(&go->fid));
	WANT_OK(fi_av_remove(p->av, to, 2, 0));
	friends_go_on();
}

/* Close the endpoint without waiting for its work, which is under way, waits for a counter, or was started by a
 * counter. */
void case_target_closing(struct pair *p)
{
	struct load *l = load_open(p);
	struct fid_ep *own = job_endpoint(p, p->info, NULL), *before = p->a.ep;
	struct fid_cntr *const cntr[] = {l->done, l->pending};

	p->a.ep = own;
	load_underway(p, l);
	load_queue(p, l);
	WANT_OK(fi_cntr_add(l->go, EACH / 3));
	seat_kill(l->target);
	WANT_OK(fi_cntr_add(l->go, EACH / 3));
	for (unsigned i = 0; i < 2; i++)
		WANT(fi_close(&cntr[i]->fid), -FI_EBUSY);
	WANT_OK(fi_close(&own->fid));
	p->a.ep = before;
	WANT(job_cancel(p, &l->of_target[0]), -FI_ENOENT);
	WANT(job_cancel(p, &l->never[0]), -FI_ENOENT);
	/* Flush the FI_OP_CNTR_ADD work: it belongs to no endpoint, so the close has left it. */
	WANT_OK(fi_control(&p->domain->fid, FI_FLUSH_WORK, NULL));
	load_close(p, l);
	friends_go_on();
}
