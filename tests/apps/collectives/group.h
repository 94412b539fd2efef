/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - processes forked by one process, each with an endpoint that knows all the others, for collective.h; and how
 * they end.
 */
#ifndef COLLECTIVE_GROUP_H
#define COLLECTIVE_GROUP_H

#include "collective.h"

#include <rdma/fabric.h>
#include <stdatomic.h>

#define GROUP_NAME 64u

/** Where processes meet: the start of the memory that all of them share. */
struct meeting {
	unsigned size;	     /* number of processes */
	atomic_uint arrived; /* arrivals, summed over all meetings */
	struct {
		char name[GROUP_NAME];
		size_t len;
	} address[COLLECTIVE_MAX];
};

/** What a process has opened. */
struct group {
	struct meeting *meeting;
	unsigned met; /* meetings attended */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct collective c;
};

/** Memory shared with processes that are forked later; zeroed. */
void *group_share(size_t size);
/** End this process with a message and the meaning of rc. */
_Noreturn void group_die(const char *what, int rc);
/** Calls group_die if rc is negative. */
void group_check(int64_t rc, const char *what);

/** Open an endpoint and learn all addresses; the NIC may access the `size` bytes of memory that begin at `m`. */
void group_open(struct group *g, unsigned rank, struct meeting *m, size_t size);
/** Return once all processes have called it. */
void group_meet(struct group *g);
/** Close everything, after the last message. */
void group_close(struct group *g);

/**
 * Run fn(rank, m) in m->size processes, and look(m) in this one about every millisecond. When a process ends with a
 * status other than 0, or after limit_s seconds, the others are killed. @return 0: all went well; 1: not.
 */
int group_run(struct meeting *m, unsigned limit_s, int (*fn)(unsigned rank, struct meeting *m),
	      void (*look)(struct meeting *m));

#endif
