/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.h - processes that one process forks, each connected to it by an RC QP for atomics of all kinds: for programs that
 * test or measure what several initiators do to one target.
 */
#ifndef FORKED_H
#define FORKED_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FORKED_MAX   16 /* processes */
#define FORKED_DEPTH 32 /* requests under way, of each */

/** What the process at the target, side 0, and one at the initiator, side 1, tell each other; shared since before the fork. */
struct forked {
	union ibv_gid gid[2];
	uint32_t qpn[2];
	atomic_bool ready[2];
	uint64_t addr; /* of the target's region */
	uint32_t rkey;
};

/** A side of a connection. */
struct forked_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/** End the process with a sentence. */
_Noreturn void forked_die(const char *what);
/** Shared memory, zero. */
void *forked_share(size_t size);
/** A device, a PD and a CQ. Of several devices the target has the first, and initiators the last. */
void forked_open(struct forked_end *end, int side);
/** A QP, connected to that of the other side as soon as he has one. */
void forked_connect(struct forked_end *end, struct forked *f, int side);
/** The same for end->qp, which there is. */
void forked_join(struct forked_end *end, struct forked *f, int side);
/** Wait until *count is n. */
void forked_await(const atomic_uint *count, unsigned n);
/** The target's part: a region over [mem, mem + len), and a QP for each of n initiators. */
void forked_serve(struct forked *f, unsigned n, void *mem, size_t len);
/** A process that runs fn(arg) and ends with what that gives, and with its parent. @return its number. */
int forked_start(int (*fn)(void *arg), void *arg);
/** Wait for n processes. @return whether all ended with 0. */
bool forked_wait(const int *pids, unsigned n);

#endif
