/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - starts and reaps the processes of collective.h: each is forked by one launcher, and has an endpoint that
 * knows the addresses of all the others.
 */
#ifndef COLLECTIVE_GROUP_H
#define COLLECTIVE_GROUP_H

#include "collective.h"

#include <rdma/fabric.h>
#include <stdatomic.h>

#define GROUP_NAME 64u

/** Where processes meet: the start of the memory that all of them share. */
struct meeting {
	unsigned size;	     /* number of processes that meet */
	atomic_uint arrived; /* arrivals so far, added up over all meetings */
	struct {
		char name[GROUP_NAME];
		size_t len;
	} address[COLLECTIVE_MAX];
};

/** What a process has opened. */
struct group {
	struct meeting *meeting;
	unsigned met; /* number of meetings this process has attended */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct collective c;
};

/** @return zeroed memory that is shared with processes forked later. */
void *group_share(size_t size);
/** Print `what` and the meaning of rc, and end this process. */
_Noreturn void group_die(const char *what, int rc);
/** Calls group_die if rc is negative. */
void group_check(int64_t rc, const char *what);

/** Open an endpoint and insert the addresses of all processes. The NIC may access the `size` bytes of memory from `m`
 * on. */
void group_open(struct group *g, unsigned rank, struct meeting *m, size_t size);
/** Wait until all processes have called this function. */
void group_meet(struct group *g);
/** Close the endpoint and all other objects, after the last message. */
void group_close(struct group *g);

/** Run fn(rank, m) in m->size processes, and call look(m) in this process about every millisecond. When a process ends
 * with a status other than 0, or after limit_s seconds, all other processes are killed. @return 0 if all processes
 * ended with 0, else 1. */
int group_run(struct meeting *m, unsigned limit_s, int (*fn)(unsigned rank, struct meeting *m),
	      void (*look)(struct meeting *m));

#endif
