/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h - barrier, broadcast and allreduce that NICs run by themselves, using only libfabric's deferred work
 * (fi_trigger(3), FI_QUEUE_WORK). An example to read, and the code that the collectives test and benchmark run.
 *
 * A process that calls these functions does not send or receive itself. It queues work for its NIC, in pieces of three
 * kinds: send a message, receive a message, add one number to another. One counter, `done`, orders them: it rises by
 * one for each receive, for each addition, and for each call of collective_go. A piece starts once collective_go has
 * been called for it and all receives and additions queued before it are done: their number plus the number of those
 * calls is its threshold (`at`). Nothing waits for a send, so sends are counted by another counter, and the piece
 * queued after a send has the same threshold as the send. Thousands of collectives can be queued one behind the other
 * before the first one begins.
 *
 * The work of process 0 of 4 for the first allreduce. `v` are four numbers in its own memory: v[0] is its input, and
 * the others hold the partial sums after each step. Processes 1 and 2 do the same meanwhile, and so does 3.
 *
 *     done ≥ 1:  send v[0] to 1    ─────────►  (process 1 receives it into its own v[1])
 *     done ≥ 1:  receive v[1] from 1  ◄──────
 *     done ≥ 2:  add v[0] to v[1]              v[1] = 0 + 1
 *     done ≥ 3:  send v[1] to 2    ─────────►
 *     done ≥ 3:  receive v[2] from 2  ◄──────
 *     done ≥ 4:  add v[1] to v[2]              v[2] = (0 + 1) + (2 + 3)
 *     done ≥ 5:  ... what is queued next
 *
 * Why this is right when other processes are faster or slower, and when packets are lost:
 *  - Only what this process has started itself raises `done`, strictly in sequence: a receive and the addition after
 *    it are never under way at the same time. So the value of `done` says which of them are done, and nothing that a
 *    neighbour does early can be counted for something else.
 *  - A neighbour may be ahead by any distance. Its message's tag names the collective and the step, and the message
 *    waits in our NIC until the receive for it starts.
 *  - Data that is sent is not modified afterwards: each step writes to a number of its own. So it does no harm when
 *    a message whose packet was lost is read from memory again later. At the end, `sent` says that no message will
 *    be read again.
 */
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_trigger.h>
#include <stdbool.h>

#define COLLECTIVE_MAX	  16u /* processes */
#define COLLECTIVE_VALUES 6u  /* numbers for an allreduce: its input, and one for each step */

/** A piece of work and everything it refers to, which must stay in place until it is done. */
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

/** One of the participating processes. All of them call the same functions in the same order. */
struct collective {
	unsigned rank, size;
	struct fid_domain *domain;
	struct fid_ep *ep;
	fi_addr_t peer[COLLECTIVE_MAX]; /* peer[rank] is the process itself */
	uint64_t base, key;		/* addressing of memory that the NIC adds to: its address is base + offset */
	char *memory;
	struct fid_cntr *done, *sent;
	uint64_t at, sends; /* values of the two counters once everything queued is done */
	uint64_t tag;	    /* of the next collective */
	struct collective_piece *pieces;
	size_t n, room;
	bool driven; /* pieces are only recorded: the program starts them itself */
	int error;   /* the first error: a negative fi_errno */
};

/** No process leaves before all have entered. */
void collective_barrier(struct collective *c);
/** Copies the contents of the root's buffer to everyone's. */
void collective_broadcast(struct collective *c, unsigned root, void *buf, size_t len);
/** Sums everybody's v[0]. v has COLLECTIVE_VALUES numbers, in c->memory. @return where among them the sum will be. */
const double *collective_allreduce(struct collective *c, double *v);

/** In sequence with the collectives: add a number to one in c->memory; or copy one from there. */
void collective_add(struct collective *c, const double *what, double *to);
void collective_look(struct collective *c, const double *at, double *into);

/** Pieces queued from here on, at most `room`, wait for collective_go. @return 0, -FI_ENOMEM. */
int collective_hold(struct collective *c, size_t room);
int collective_go(struct collective *c);
/** Free the pieces once everything is done. */
void collective_forget(struct collective *c);

#endif
