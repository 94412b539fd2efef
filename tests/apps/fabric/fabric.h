/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - two endpoints of the libfabric provider in one process, and functions that check them. A failed check
 * prints a line, and the test case continues.
 */
#ifndef TEST_FABRIC_H
#define TEST_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS patience_ms(20000)
#define LONG_LEN    (3u << 20)

/** A limit of time, for this machine: longer on an emulated CPU. */
static inline int patience_ms(int ms)
{
	const char *slower = getenv("TEST_SLOWER");

	return slower && atoi(slower) > 0 ? ms * atoi(slower) : ms;
}

enum counter { SENDS, RECVS, READS, WRITES, REMOTE_READS, REMOTE_WRITES, COUNTERS };

struct node {
	struct fid_ep *ep;
	struct fid_cq *tx, *rx;
	struct fid_cntr *cntr[COUNTERS];
	fi_addr_t addr;
};

struct pair {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *mr; /* memory region of `there` */
	struct node a, b;
	char *here, *there; /* buffers of LONG_LEN bytes: `here` of end a, `there` of end b */
	uint64_t base, key; /* address and key of `there` for RMA */
	struct fi_cq_tagged_entry done;
	struct fi_cq_err_entry error;
	fi_addr_t source;
	int contexts[2];
};

/** Number of failed checks in the running case. */
extern int failures;

void check_failed(const char *file, int line, const char *what, long got, long want);
#define WANT(got, want)                                                                                                \
	do {                                                                                                           \
		long got_ = (long)(got), want_ = (long)(want);                                                         \
		if (got_ != want_)                                                                                     \
			check_failed(__FILE__, __LINE__, #got, got_, want_);                                           \
	} while (0)
#define WANT_OK(call) WANT(call, 0)

/** @return false: an object that every case needs could not be opened; the reason has been printed. */
bool pair_open(struct pair *p);
/** As pair_open, with this mr_mode of the domain. */
bool pair_open_mode(struct pair *p, int mr_mode);
/** Close everything that is open. A node may have been closed before by node_close. */
void pair_close(struct pair *p);
void node_close(struct node *n);

/** Wait for a successful completion, and store it in pair->done. */
void await(struct pair *p, struct fid_cq *cq);
/** Wait for a completion with error `err`, and store it in pair->error. */
void await_error(struct pair *p, struct fid_cq *cq, int err);
/** Check that no completion arrives within a short time. */
void nothing(struct pair *p, struct fid_cq *cq);

/* messages.c */
void case_message(struct pair *p);
void case_unexpected(struct pair *p);
void case_long_message(struct pair *p);
void case_truncation(struct pair *p);
void case_peek(struct pair *p);
void case_cancel(struct pair *p);
void case_multi_recv(struct pair *p);
void case_many(struct pair *p);
void case_longest(struct pair *p);
void case_directed(struct pair *p);
void case_to_itself(struct pair *p);
/* memory.c */
void case_rma(struct pair *p);
void case_rma_vectors(struct pair *p);
void case_wrong_key(struct pair *p);
void case_unmapped(struct pair *p);
void case_atomics(struct pair *p);
void case_injected_atomics(struct pair *p);
void case_tagged_atomics(struct pair *p);
void case_counters(struct pair *p);
void case_one_counter(struct pair *p);
/* triggers.c */
/** @return a new counter in the pair's domain. */
struct fid_cntr *open_counter(struct pair *p);
/** Wait until the counter's value and its errors equal `value` and `errors`. */
void await_count(struct fid_cntr *cntr, uint64_t value, uint64_t errors);
void case_triggered_messages(struct pair *p);
void case_triggered_memory(struct pair *p);
void case_triggered_order(struct pair *p);
void case_triggered_cancel(struct pair *p);
void case_triggered_mistakes(struct pair *p);
/* deferred.c, deferred_ends.c, deferred_flags.c */
void case_deferred(struct pair *p);
void case_deferred_completions(struct pair *p);
void case_deferred_chains(struct pair *p);
void case_deferred_failures(struct pair *p);
void case_deferred_cancel(struct pair *p);
void case_deferred_race(struct pair *p);
void case_deferred_closing(struct pair *p);
void case_deferred_shared(struct pair *p);
void case_deferred_shared_ends(struct pair *p);
void case_deferred_room(struct pair *p);
void case_deferred_flags(struct pair *p);
void case_deferred_tags(struct pair *p);
void case_deferred_compare(struct pair *p);
void case_deferred_mistakes(struct pair *p);
/* pairs.c */
void case_pairs(struct pair *p);
/* connections.c */
void case_connection(struct pair *p);
void case_connection_refused(struct pair *p);
void case_connection_mistakes(struct pair *p);
void case_port_taken_over(struct pair *p);
void case_datagrams(struct pair *p);
/* shared.c */
void case_shared_transmit(struct pair *p);
void case_shared_receive(struct pair *p);
void case_shared_receive_mistakes(struct pair *p);
/* waiting.c */
void case_waiting(struct pair *p);
void case_wait_set(struct pair *p);
void case_wait_set_mistakes(struct pair *p);
/* sharing.c */
void case_steps(struct pair *p);
void case_threads(struct pair *p);
void case_forks(struct pair *p);
void case_nameless_senders(struct pair *p);
void case_regions_without_events(struct pair *p);
void case_names_and_handles(struct pair *p);
/* addresses.c */
void case_comes_again(struct pair *p);
#define LEFT_NAME "uroce/test left"
/** Derive a name that differs from the names of all other tests running on this machine. @return out. */
const char *unique_name(const char *name, char *out, size_t size);
/** Exit like a killed process, without closing shared address vectors, one of which has the name LEFT_NAME. */
void leave_address_vector(struct pair *p);
void case_shared_address_vector(struct pair *p);
void case_shared_address_vector_left(struct pair *p);
/* refusals.c */
void case_refusals(struct pair *p);
void case_address_vector(struct pair *p);
void case_alias(struct pair *p);
void case_hints(struct pair *p);

#endif
