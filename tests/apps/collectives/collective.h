/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h - barrier, broadcast and allreduce that NICs run by themselves, using only libfabric's deferred work
 * (fi_trigger(3), FI_QUEUE_WORK). An example to read, and the code that the collectives test and benchmark run.
 *
 * A process that calls these functions does not send or receive itself. It queues work for its NIC, in pieces of three
 * kinds: send a message, receive a message, add one number to another. One counter, `done`, orders the pieces. It rises
 * by one for each receive that completes, for each addition, and for each call of collective_go. A piece starts once
 * collective_go has been called for it and all receives and additions queued before it are done. Its threshold (`at`)
 * is therefore the number of these receives, additions and calls. Nothing waits for a send, so sends have a counter of
 * their own, and the piece queued after a send has the same threshold as the send. Thousands of collectives can be
 * queued in a row before the first one begins.
 *
 * The work of process 0 of 4 for the first allreduce. `v` is an array of numbers in the process's own memory: v[0] is
 * its input, and v[1] and up hold the partial sums after each step. Processes 1, 2 and 3 do the same at the same time.
 *
 *     done ≥ 1:  send v[0] to 1    ─────────►  (process 1 receives it into its own v[1])
 *     done ≥ 1:  receive v[1] from 1  ◄──────
 *     done ≥ 2:  add v[0] to v[1]              v[1] = 0 + 1
 *     done ≥ 3:  send v[1] to 2    ─────────►
 *     done ≥ 3:  receive v[2] from 2  ◄──────
 *     done ≥ 4:  add v[1] to v[2]              v[2] = (0 + 1) + (2 + 3)
 *     done ≥ 5:  ... what is queued next
 *
 * Why this works when other processes are faster or slower, and when packets are lost:
 *  - Only work of this process raises `done`, and strictly in sequence: a receive and the addition after it are never
 *    in progress at the same time. So the value of `done` tells which pieces are done, and a neighbour's early message
 *    cannot be counted as a different piece.
 *  - A neighbour may be any number of steps ahead. The tag of its message names the collective and the step, and the
 *    message waits in our NIC until the matching receive starts.
 *  - Data that has been sent is not modified afterwards: each step writes to a different element of v. So a
 *    retransmission can safely read the data from memory again. At the end, `sent` tells that no message will be
 *    retransmitted.
 */
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_trigger.h>
#include <stdbool.h>

#define COLLECTIVE_MAX	  16u /* maximum number of processes */
#define COLLECTIVE_VALUES 6u  /* numbers of one process in an allreduce: its input, and a result for each step */

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
	fi_addr_t peer[COLLECTIVE_MAX]; /* address of each process; peer[rank] is this process itself */
	/* How the NIC addresses `memory` in its atomics: base + offset, and the key. */
	uint64_t base, key;
	char *memory;
	struct fid_cntr *done, *sent;
	uint64_t at, sends; /* values of `done` and `sent` when everything queued is done */
	uint64_t tag;	    /* tag of the next collective */
	struct collective_piece *pieces;
	size_t n, room;
	bool driven; /* pieces are recorded but not queued: the program executes them itself */
	int error;   /* the first error: a negative fi_errno */
};

/** A process leaves the barrier only after all processes have entered it. */
void collective_barrier(struct collective *c);
/** Copies the contents of the root's buffer to the buffers of all other processes. */
void collective_broadcast(struct collective *c, unsigned root, void *buf, size_t len);
/** Adds up v[0] of all processes. v has COLLECTIVE_VALUES numbers, in c->memory. @return where in v the sum will be. */
const double *collective_allreduce(struct collective *c, double *v);

/** Queued like a collective: add a number to another one in c->memory, or copy a number out of c->memory. */
void collective_add(struct collective *c, const double *what, double *to);
void collective_look(struct collective *c, const double *at, double *into);

/** Pieces queued after this call, at most `room`, wait for collective_go. @return 0, -FI_ENOMEM. */
int collective_hold(struct collective *c, size_t room);
int collective_go(struct collective *c);
/** Free the pieces, once all of them are done. */
void collective_forget(struct collective *c);

#endif
