/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_deferred.c - fabric_peer's tests of deferred work (fi_trigger(3)): requests started by a counter instead of a
 * call, and a ping-pong in which each message is deferred work started by the previous message.
 */
#include "fabric_peer.h"

#define TRIPS 256 /* round trips in a chain of deferred work */
#define AHEAD 16  /* receives of a chain that are posted in advance */

/** One piece of deferred work, with the structs it points to. */
struct piece {
	struct fi_deferred_work work;
	struct fi_op_tagged tagged;
	struct fi_op_msg msg;
	void *desc;
	struct iovec iov;
};

bool deferred_is(const char *test)
{
	return strcmp(test, "trigger_rtt") == 0 || strcmp(test, "deferred_rtt") == 0;
}

size_t deferred_bytes(const struct side *s)
{
	return deferred_is(s->opt->test) ? (TRIPS + 1) * s->opt->bytes : 0;
}

/* Open counters for deferred work. Work that needs no completion counter gets one too, because the sockets provider
 * requires it. */
void deferred_open(struct side *s)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

	check(fi_cntr_open(s->domain, &attr, &s->cntr, NULL), "fi_cntr_open");
	check(fi_cntr_open(s->domain, &attr, &s->sent_cntr, NULL), "fi_cntr_open");
	s->pieces = calloc(2 * TRIPS, sizeof(*s->pieces));
	if (!s->pieces)
		bench_die("memory");
}

void deferred_close(struct side *s)
{
	if (!s->cntr)
		return;
	fi_close(&s->cntr->fid);
	fi_close(&s->sent_cntr->fid);
	free(s->pieces);
}

/** @return the buffer of message `number` of a chain; number 0 is the initial message. */
static uint8_t *link_at(const struct side *s, unsigned number)
{
	return s->buf + (2 + number) * s->opt->bytes;
}

/** Queue a send or receive that starts when the counter reaches the threshold. A completed receive increments the same
 *  counter. */
static void defer(struct side *s, struct piece *p, enum fi_op_type type, uint8_t *buf, uint64_t threshold)
{
	bool receives = type == FI_OP_TRECV;

	*p = (struct piece){.work = {.threshold = threshold,
				     .triggering_cntr = s->cntr,
				     .completion_cntr = receives ? s->cntr : s->sent_cntr,
				     .op_type = type,
				     .op.tagged = &p->tagged},
			    .desc = fi_mr_desc(s->mr),
			    .iov = {buf, s->opt->bytes}};
	p->tagged = (struct fi_op_tagged){.ep = s->ep,
					  .msg = {.msg_iov = &p->iov,
						  .desc = &p->desc,
						  .iov_count = 1,
						  .addr = receives ? FI_ADDR_UNSPEC : s->peer,
						  .tag = 1,
						  .context = &p->work.context}};
	if (type == FI_OP_SEND) {
		p->msg = (struct fi_op_msg){.ep = s->ep,
					    .msg = {.msg_iov = &p->iov,
						    .desc = &p->desc,
						    .iov_count = 1,
						    .addr = s->peer,
						    .context = &p->work.context}};
		p->work.op.msg = &p->msg;
	}
	check(fi_control(&s->domain->fid, FI_QUEUE_WORK, &p->work), "FI_QUEUE_WORK");
}

/** Wait until `sends` deferred sends are complete, after which their pieces may be reused. */
static void await_deferred(struct side *s, uint64_t sends)
{
	while (fi_cntr_read(s->sent_cntr) < sends) /* the sockets provider can return early */
		check(fi_cntr_wait(s->sent_cntr, sends, -1), "fi_cntr_wait");
}

/** Queue this side's part of a chain. Each side sends what it has received, so that the last message equals the first
 *  only if all messages were delivered. */
static void chain_queue(struct side *s, uint64_t base)
{
	bool answers = s->id == 1;

	for (unsigned i = 0; i < TRIPS; i++) {
		defer(s, &s->pieces[2 * i], FI_OP_TRECV, link_at(s, i + 1), base + (i < AHEAD ? 0 : i - AHEAD));
		defer(s, &s->pieces[2 * i + 1], FI_OP_TSEND, link_at(s, i + answers), base + i + 1);
	}
}

static void chain_check(struct side *s, uint8_t ball)
{
	const uint8_t *last = link_at(s, TRIPS);

	for (size_t i = 0; i < s->opt->bytes; i++)
		if (last[i] != ball) {
			fprintf(stderr, "%s: the chain delivered wrong data\n", s->opt->test);
			exit(1);
		}
}

/** Measure chains of deferred work. Both sides queue all work of a chain before side 0 starts it. The counter counts
 *  received messages, and on side 0 also the start. */
static void deferred_pingpong(struct side *s)
{
	uint64_t rounds = s->opt->count / TRIPS ? s->opt->count / TRIPS : 1, base = 0, end;
	uint64_t *ns = calloc(rounds, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t r = 0; r < rounds; r++, base = end) {
		uint8_t ball = (uint8_t)(r % 255 + 1);

		end = base + TRIPS + (s->id == 0);
		await_deferred(s, r * TRIPS);
		memset(link_at(s, 0), 0, (TRIPS + 1) * s->opt->bytes);
		memset(link_at(s, 0), ball, s->opt->bytes);
		chain_queue(s, base);
		bench_sync(s->channel);
		ns[r] = bench_now_ns();
		if (s->id == 0)
			check(fi_cntr_add(s->cntr, 1), "fi_cntr_add");
		while (fi_cntr_read(s->cntr) < end) /* the sockets provider can return early */
			check(fi_cntr_wait(s->cntr, end, -1), "fi_cntr_wait");
		ns[r] = bench_now_ns() - ns[r];
		chain_check(s, ball);
		bench_sync(s->channel);
	}
	if (s->id == 0)
		bench_print_trips(ns, rounds, TRIPS);
	free(ns);
}

/** Like test rtt, but side 0's sends are deferred work, started by a counter. */
static void triggered_pingpong(struct side *s)
{
	uint64_t *ns = calloc(s->opt->count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t i = 0; i < s->opt->count; i++) {
		if (i % TRIPS == 0 && s->id == 0)
			await_deferred(s, i);
		for (unsigned k = 0; k < TRIPS && i % TRIPS == 0 && s->id == 0; k++)
			defer(s, &s->pieces[k], FI_OP_SEND, s->buf, i + k + 1);
		ns[i] = bench_now_ns();
		if (s->id == 0)
			check(fi_cntr_add(s->cntr, 1), "fi_cntr_add");
		fabric_await_received(s, i + 1);
		fabric_receive(s);
		if (s->id == 1)
			fabric_send(s, i);
		ns[i] = bench_now_ns() - ns[i];
	}
	if (s->id == 0)
		bench_print_trips(ns, s->opt->count, 1);
	free(ns);
}

void deferred_run(struct side *s)
{
	if (strcmp(s->opt->test, "deferred_rtt") == 0)
		deferred_pingpong(s);
	else
		triggered_pingpong(s);
}
