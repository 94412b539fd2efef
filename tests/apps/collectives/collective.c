/* SPDX-License-Identifier: BSD-3-Clause */
/* collective.c - collectives as chains of deferred work for the NIC, see collective.h. */
#include "collective.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#define STEPS 16u /* maximum number of steps in a collective; keeps the tags of consecutive collectives apart */

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/** @return a piece that starts once all receives and additions queued before it are done; NULL: an error has occurred.
 */
static struct collective_piece *piece_new(struct collective *c, enum fi_op_type type, struct fid_cntr *completion)
{
	struct collective_piece *p = &c->pieces[c->n];

	if (c->n == c->room)
		c->error = c->error ? c->error : -FI_ENOSPC;
	if (c->error)
		return NULL;
	*p = (struct collective_piece){.work = {.op_type = type,
						.triggering_cntr = c->done,
						.threshold = c->at,
						.completion_cntr = completion}};
	c->n++;
	return p;
}

static void piece_queue(struct collective *c, struct collective_piece *p)
{
	if (!c->driven)
		c->error = fi_control(&c->domain->fid, FI_QUEUE_WORK, &p->work);
	*(p->work.completion_cntr == c->sent ? &c->sends : &c->at) += 1;
}

static void message(struct collective *c, struct collective_piece *p, unsigned peer, unsigned step, void *buf,
		    size_t len)
{
	if (!p)
		return;
	p->iov = (struct iovec){buf, len};
	p->message = (struct fi_op_tagged){.ep = c->ep,
					   .msg = {.msg_iov = &p->iov,
						   .iov_count = 1,
						   .addr = c->peer[peer],
						   .tag = c->tag * STEPS + step,
						   .context = p}};
	p->work.op.tagged = &p->message;
	piece_queue(c, p);
}

static void send_to(struct collective *c, unsigned peer, unsigned step, const void *buf, size_t len)
{
	message(c, piece_new(c, FI_OP_TSEND, c->sent), peer, step, (void *)(uintptr_t)buf, len);
}

static void receive_from(struct collective *c, unsigned peer, unsigned step, void *buf, size_t len)
{
	message(c, piece_new(c, FI_OP_TRECV, c->done), peer, step, buf, len);
}

/** An atomic operation that this process's NIC executes on a number in this process's own memory. */
static struct fi_msg_atomic on_number(struct collective *c, struct collective_piece *p, const double *number,
				      enum fi_op op)
{
	p->target = (struct fi_rma_ioc){c->base + (uint64_t)((const char *)number - c->memory), 1, c->key};
	return (struct fi_msg_atomic){.msg_iov = &p->operand,
				      .iov_count = 1,
				      .addr = c->peer[c->rank],
				      .rma_iov = &p->target,
				      .rma_iov_count = 1,
				      .datatype = FI_DOUBLE,
				      .op = op,
				      .context = p};
}

void collective_add(struct collective *c, const double *what, double *to)
{
	struct collective_piece *p = piece_new(c, FI_OP_ATOMIC, c->done);

	if (!p)
		return;
	p->operand = (struct fi_ioc){(void *)(uintptr_t)what, 1};
	/* FI_DELIVERY_COMPLETE: the piece counts as done only when the result is in memory. */
	p->atomic =
		(struct fi_op_atomic){.ep = c->ep, .msg = on_number(c, p, to, FI_SUM), .flags = FI_DELIVERY_COMPLETE};
	p->work.op.atomic = &p->atomic;
	piece_queue(c, p);
}

void collective_look(struct collective *c, const double *at, double *into)
{
	struct collective_piece *p = piece_new(c, FI_OP_FETCH_ATOMIC, c->done);

	if (!p)
		return;
	p->result = (struct fi_ioc){into, 1};
	p->operand = p->result; /* ignored: FI_ATOMIC_READ has no operand */
	p->fetch = (struct fi_op_fetch_atomic){.ep = c->ep,
					       .msg = on_number(c, p, at, FI_ATOMIC_READ),
					       .fetch = {.msg_iov = &p->result, .iov_count = 1}};
	p->work.op.fetch_atomic = &p->fetch;
	piece_queue(c, p);
}

int collective_hold(struct collective *c, size_t room)
{
	c->pieces = calloc(room, sizeof(*c->pieces));
	c->room = c->pieces ? room : 0;
	c->n = 0;
	c->at++;
	return c->pieces ? 0 : -FI_ENOMEM;
}

int collective_go(struct collective *c)
{
	return c->error ? c->error : fi_cntr_add(c->done, 1);
}

void collective_forget(struct collective *c)
{
	free(c->pieces);
	c->pieces = NULL;
	c->room = 0;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/*
 * Dissemination barrier: in step s each process sends to the process 2^s ranks further on, which then knows that
 * 2^(s+1) processes, itself included, have entered.
 *
 *   0 ──► 1 ──► 2 ──► 3 ──► 0      and then     0 ──► 2, 1 ──► 3, 2 ──► 0, 3 ──► 1
 */
void collective_barrier(struct collective *c)
{
	unsigned step = 0;

	for (unsigned far = 1; far < c->size; far *= 2, step++) {
		send_to(c, (c->rank + far) % c->size, step, NULL, 0);
		receive_from(c, (c->rank + c->size - far) % c->size, step, NULL, 0);
	}
	c->tag++;
}

/*
 * A binomial tree, with processes numbered from the root. For far = 4, 2, 1 (with up to 8 processes), each process that
 * has the data sends it to the process `far` numbers further on. So every process but the root receives the data from
 * the process whose number is its own number without its lowest set bit.
 */
void collective_broadcast(struct collective *c, unsigned root, void *buf, size_t len)
{
	const unsigned me = (c->rank + c->size - root) % c->size;
	unsigned far = 1;

	while (far < c->size && !(me & far))
		far *= 2;
	if (me)
		receive_from(c, (c->rank + c->size - far) % c->size, 0, buf, len);
	while (far /= 2)
		if (me + far < c->size)
			send_to(c, (c->rank + far) % c->size, 0, buf, len);
	c->tag++;
}

/*
 * Recursive doubling among the first 2^k processes, with k as large as possible. Each remaining process first sends its
 * input v[0] to one of these processes, and afterwards receives the sum from the same process.
 *
 *   of 5:   4 ──► 0      0 ◄─► 1, 2 ◄─► 3      0 ◄─► 2, 1 ◄─► 3      0 ──► 4
 */
const double *collective_allreduce(struct collective *c, double *v)
{
	unsigned doublers = 1, step = 1;

	while (2 * doublers <= c->size)
		doublers *= 2;
	if (c->rank >= doublers) {
		send_to(c, c->rank - doublers, 0, v, sizeof(*v));
		receive_from(c, c->rank - doublers, STEPS - 1, ++v, sizeof(*v));
	} else if (c->rank + doublers < c->size) {
		receive_from(c, c->rank + doublers, 0, v + 1, sizeof(*v));
		collective_add(c, v, v + 1);
		v++;
	}
	for (unsigned far = 1; c->rank < doublers && far < doublers; far *= 2, step++, v++) {
		send_to(c, c->rank ^ far, step, v, sizeof(*v));
		receive_from(c, c->rank ^ far, step, v + 1, sizeof(*v));
		collective_add(c, v, v + 1);
	}
	if (c->rank + doublers < c->size)
		send_to(c, c->rank + doublers, STEPS - 1, v, sizeof(*v));
	c->tag++;
	return v;
}
