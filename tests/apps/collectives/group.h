/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - processes that one process forks, each with an endpoint that knows all the others, for collective.h; and
 * how they end.
 */
#ifndef COLLECTIVE_GROUP_H
#define COLLECTIVE_GROUP_H

#include "collective.h"

#include <rdma/fabric.h>
#include <stdatomic.h>

#define GROUP_NAME 64u

/** Where processes meet: the beginning of memory that all of them share. */
struct meeting {
	unsigned size;	     /* processes */
	atomic_uint arrived; /* of them, at all meetings together */
	struct {
		char name[GROUP_NAME];
		size_t len;
	} address[COLLECTIVE_MAX];
};

/** What a process has opened. */
struct group {
	struct meeting *meeting;
	unsigned met; /* meetings so far */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct collective c;
};

/** Memory that processes share which are forked later: zeroes. */
void *group_share(size_t size);
/** End this process with a sentence, and what rc says. */
_Noreturn void group_die(const char *what, int rc);
/** Ends the process with that if rc is negative. */
void group_check(int64_t rc, const char *what);

/** An endpoint and the addresses of all; the NIC may add to the `size` bytes of memory that begin with `m`. */
void group_open(struct group *g, unsigned rank, struct meeting *m, size_t size);
/** Return when all have called it. */
void group_meet(struct group *g);
/** When nobody has anything to say any more. */
void group_close(struct group *g);

/**
 * Run fn(rank, m) in m->size processes, and look(m) in this one about every millisecond. When one of them ends with
 * anything but 0, or after limit_s seconds, the others are killed. @return 0: all went well; 1.
 */
int group_run(struct meeting *m, unsigned limit_s, int (*fn)(unsigned rank, struct meeting *m),
	      void (*look)(struct meeting *m));

#endif
