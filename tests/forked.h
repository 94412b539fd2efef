/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.h - one target process, which forks initiator processes. An RC QP for atomics of all kinds connects the target
 * with each initiator. For programs that test or measure several initiators on one target.
 */
#ifndef FORKED_H
#define FORKED_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FORKED_MAX   16 /* maximum number of initiator processes */
#define FORKED_DEPTH 32 /* maximum number of outstanding requests of each initiator */

/** What the target (side 0) and an initiator (side 1) tell each other, in memory shared since before the fork. */
struct forked {
	union ibv_gid gid[2];
	uint32_t qpn[2];
	atomic_bool ready[2];
	uint64_t addr; /* of the target's region */
	uint32_t rkey;
};

/** One side of a connection. */
struct forked_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/** End the process with a message. */
_Noreturn void forked_die(const char *what);
/** @return zeroed memory that is shared with processes forked later. */
void *forked_share(size_t size);
/** Open a device, a PD and a CQ. If there are several devices, the target opens the first and initiators the last. */
void forked_open(struct forked_end *end, int side);
/** Create a QP, and connect it to the other side's QP as soon as that QP exists. */
void forked_connect(struct forked_end *end, struct forked *f, int side);
/** Like forked_connect, for end->qp, which already exists. */
void forked_join(struct forked_end *end, struct forked *f, int side);
/** Wait until *count is n. */
void forked_await(const atomic_uint *count, unsigned n);
/** The target's part: a region over [mem, mem + len), and a QP for each of n initiators. */
void forked_serve(struct forked *f, unsigned n, void *mem, size_t len);
/** Start a process that runs fn(arg), exits with its result, and dies with its parent. @return its PID. */
int forked_start(int (*fn)(void *arg), void *arg);
/** Wait for n processes. @return whether all exited with 0. */
bool forked_wait(const int *pids, unsigned n);

#endif
