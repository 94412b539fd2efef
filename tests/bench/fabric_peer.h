/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric_peer.h - shared by fabric_peer.c and its tests of deferred work (fabric_deferred.c). */
#ifndef BENCH_FABRIC_PEER_H
#define BENCH_FABRIC_PEER_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "bench_util.h"

#define WINDOW	64
#define ADDRESS 256

/** What the two sides tell each other before the test. */
struct introduction {
	uint8_t address[ADDRESS];
	uint64_t base, key;
};

struct side {
	int id, channel;
	const struct bench_options *opt;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *tx, *rx;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct fid_cntr *cntr, *sent_cntr; /* counters of deferred work; NULL: not used */
	struct piece *pieces;
	struct fi_context2 context[2 * WINDOW];
	fi_addr_t peer;
	struct introduction remote;
	/** Memory in three parts: first, data to send and the results of READs; second, received data and what the
	 *  peer WRITEs; third, the buffers of fabric_deferred.c. */
	uint8_t *buf;
	uint64_t sent, received; /* numbers of completions */
	bool one_cpu;
};

static inline void check(int64_t rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-rc));
		exit(1);
	}
}

/* fabric_peer.c */
void fabric_receive(struct side *s);
void fabric_await_received(struct side *s, uint64_t count);
/** Send a message: with fi_inject if it is small enough, else with fi_send. */
void fabric_send(struct side *s, uint64_t number);

/* fabric_deferred.c */
/** Whether the test uses deferred work. */
bool deferred_is(const char *test);
/** @return how many bytes a deferred work test needs in side.buf, after those that every test needs. */
size_t deferred_bytes(const struct side *s);
void deferred_open(struct side *s);
void deferred_close(struct side *s);
void deferred_run(struct side *s);

#endif
