/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h - barrier, broadcast and allreduce that NICs run by themselves: nothing but deferred work of libfabric
 * (fi_trigger(3), FI_QUEUE_WORK). An example to read, and what the collectives test and benchmark run.
 *
 * A process that calls these functions does not send or receive. It writes a program for its NIC, of three kinds of
 * pieces: send a message, receive a message, add one number to another. What one of them needs from the others is
 * said with one counter, `done`, which rises by one for each receive and each addition, and each time the process says
 * go (collective_go). A piece is started when go has been said for it and all receives and additions that were queued
 * before it are done: their number and that of the goes is its threshold (`at`). A send needs nobody to wait for it, so
 * it counts elsewhere, and what is queued behind it has the same threshold. Thousands of collectives can be queued, one
 * behind the other, before the first one begins.
 *
 * The program for process 0 of 4, of the first allreduce. `v` are four numbers of its own memory: v[0] is what it
 * brings along, and each of the others is what it has come to so far; process 1 and 2 do the same meanwhile, and 3.
 *
 *     done ≥ 1:  send v[0] to 1    ─────────►  (process 1 receives it into its own v[1])
 *     done ≥ 1:  receive v[1] from 1  ◄──────
 *     done ≥ 2:  add v[0] to v[1]              v[1] = 0 + 1
 *     done ≥ 3:  send v[1] to 2    ─────────►
 *     done ≥ 3:  receive v[2] from 2  ◄──────
 *     done ≥ 4:  add v[1] to v[2]              v[2] = (0 + 1) + (2 + 3)
 *     done ≥ 5:  ... what is queued next
 *
 * Why this is right when others are faster or slower, and when packets are lost:
 *  - `done` is raised by what this process has started itself, in one row: of a receive and the addition behind it
 *    only one is under way at a time. So what `done` has come to says which of them are done. Nothing that a
 *    neighbour does early can be counted for something else.
 *  - A neighbour may be ahead by as much as it likes. Its message comes with the number of the collective and of the
 *    step as its tag, and waits in our NIC until the receive for it is started.
 *  - What is sent is not touched again: each step has a number of its own to write to. So it does not matter that a
 *    message whose packet was lost is read from memory once more, later. When all is over, `sent` says that this is
 *    not needed any more.
 */
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_trigger.h>
#include <stdbool.h>

#define COLLECTIVE_MAX	  16u /* processes */
#define COLLECTIVE_VALUES 6u  /* numbers for an allreduce: its own, one for each step */

/** One piece of work with all that it names, which has to stay until it is done. */
struct collective_piece {
	struct fi_deferred_work work;
	struct iovec iov;
	struct fi_ioc operand, result;
	struct fi_rma_ioc target;
	union {
		struct fi_op_tagged message;
		struct fi_op_atomic atomic;
		struct fi_op_fetch_atomic fetch;
	};
};

/** A process among those that take part. All of them call the same functions in the same order. */
struct collective {
	unsigned rank, size;
	struct fid_domain *domain;
	struct fid_ep *ep;
	fi_addr_t peer[COLLECTIVE_MAX]; /* peer[rank] is the process itself */
	uint64_t base, key;		/* how memory that the NIC adds to is named: its address is base + offset */
	char *memory;
	struct fid_cntr *done, *sent;
	uint64_t at, sends; /* what these two have come to when all is done that is queued */
	uint64_t tag;	    /* of the collective that is queued next */
	struct collective_piece *pieces;
	size_t n, room;
	bool driven; /* pieces are only written down: the program starts them itself */
	int error;   /* the first: a negative fi_errno */
};

/** Nobody leaves before all have come. */
void collective_barrier(struct collective *c);
/** What `root` has in its buffer is in everybody's. */
void collective_broadcast(struct collective *c, unsigned root, void *buf, size_t len);
/** The sum of everybody's v[0]. v has COLLECTIVE_VALUES numbers, in c->memory. @return where among them the sum will be. */
const double *collective_allreduce(struct collective *c, double *v);

/** In the row with these: add a number to another one, which is in c->memory; or copy one from there. */
void collective_add(struct collective *c, const double *what, double *to);
void collective_look(struct collective *c, const double *at, double *into);

/** What is queued from here on, so many pieces at most, waits for collective_go. @return 0, -FI_ENOMEM. */
int collective_hold(struct collective *c, size_t room);
int collective_go(struct collective *c);
/** When all is done: the memory of the pieces. */
void collective_forget(struct collective *c);

#endif
