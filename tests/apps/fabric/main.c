/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - tests the libfabric provider within one process: opens two endpoints, runs all cases, closes everything in
 * the right order. Prints a line for each case, "ok NAME" or "FAIL NAME"; exit code 1 when any case has failed. With
 * argument `leave` the program runs no cases, but leaves a shared address vector behind.
 */
#include "fabric.h"

#include <time.h>

#define LAST_REQUESTS 25

/** Requests posted before their endpoint closes are executed, even if the program has not waited for their completions.
 */
static void ask_and_close(struct pair *p)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	volatile uint64_t *there = (uint64_t *)p->there;
	uint64_t one = 1;

	*there = 0;
	for (unsigned i = 0; i < LAST_REQUESTS; i++)
		WANT_OK(fi_inject_atomic(p->a.ep, &one, 1, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM));
	node_close(&p->a);
	for (int i = 0; i < PATIENCE_MS && *there < LAST_REQUESTS; i++) {
		/* With manual progress, only calls like this one make progress. */
		WANT(fi_cq_read(p->b.rx, &p->done, 1), -FI_EAGAIN);
		nanosleep(&pause, NULL);
	}
	WANT(*there, LAST_REQUESTS);
}

static void case_closing(struct pair *p)
{
	WANT(fi_close(&p->av->fid), -FI_EBUSY);
	WANT(fi_close(&p->domain->fid), -FI_EBUSY);
	WANT(fi_close(&p->fabric->fid), -FI_EBUSY);
	ask_and_close(p);
	pair_close(p);
}

static const struct {
	const char *name;
	void (*run)(struct pair *p);
} cases[] = {
	{"message", case_message},
	{"unexpected tagged message with data", case_unexpected},
	{"long message", case_long_message},
	{"truncation", case_truncation},
	{"peek, claim, discard", case_peek},
	{"cancel", case_cancel},
	{"a buffer for many messages", case_multi_recv},
	{"more receives and requests than queues say", case_many},
	{"the longest message", case_longest},
	{"receive from one peer", case_directed},
	{"to itself", case_to_itself},
	{"RMA", case_rma},
	{"RMA with vectors on both sides", case_rma_vectors},
	{"wrong key", case_wrong_key},
	{"memory that is unmapped", case_unmapped},
	{"atomics", case_atomics},
	{"injected atomics", case_injected_atomics},
	{"tagged atomics", case_tagged_atomics},
	{"pairs of operation and datatype", case_pairs},
	{"counters", case_counters},
	{"one counter of all that peers do", case_one_counter},
	{"triggered messages", case_triggered_messages},
	{"triggered requests to memory", case_triggered_memory},
	{"triggered operations: order", case_triggered_order},
	{"triggered operations: canceled", case_triggered_cancel},
	{"triggered operations: wrong arguments", case_triggered_mistakes},
	{"deferred work of each kind", case_deferred},
	{"deferred work: completions", case_deferred_completions},
	{"deferred work: chains", case_deferred_chains},
	{"deferred work: what fails", case_deferred_failures},
	{"deferred work: canceled, flushed", case_deferred_cancel},
	{"deferred work: canceled or started", case_deferred_race},
	{"deferred work: closing", case_deferred_closing},
	{"deferred work: shared receive context", case_deferred_shared},
	{"deferred work: the end of shared receives", case_deferred_shared_ends},
	{"deferred work: no room", case_deferred_room},
	{"deferred work: flags", case_deferred_flags},
	{"deferred work: tags", case_deferred_tags},
	{"deferred work: compare and swap", case_deferred_compare},
	{"deferred work: wrong arguments", case_deferred_mistakes},
	{"connection", case_connection},
	{"connection refused", case_connection_refused},
	{"connection: wrong calls", case_connection_mistakes},
	{"port of a passive endpoint", case_port_taken_over},
	{"datagrams", case_datagrams},
	{"shared transmit context", case_shared_transmit},
	{"shared receive context", case_shared_receive},
	{"shared receive context: wrong calls", case_shared_receive_mistakes},
	{"waiting", case_waiting},
	{"waiting for a value", case_steps},
	{"wait set", case_wait_set},
	{"wait set: wrong calls", case_wait_set_mistakes},
	{"several threads wait", case_threads},
	{"child of a fork", case_forks},
	{"senders without an index", case_nameless_senders},
	{"regions without events", case_regions_without_events},
	{"names and handles", case_names_and_handles},
	{"an endpoint that comes again", case_comes_again},
	{"wrong arguments", case_refusals},
	{"address vector", case_address_vector},
	{"shared address vector", case_shared_address_vector},
	{"shared address vector of a process that was killed", case_shared_address_vector_left},
	{"alias", case_alias},
	{"hints", case_hints},
	{"closing", case_closing},
};

int main(int argc, char **argv)
{
	struct pair p = {0};
	int failed = 0;

	if (!pair_open(&p) || failures) {
		printf("FAIL opening\n");
		return 1;
	}
	if (argc > 1 && strcmp(argv[1], "leave") == 0)
		leave_address_vector(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		failures = 0;
		cases[i].run(&p);
		printf("%s %s\n", failures ? "FAIL" : "ok", cases[i].name);
		failed |= failures != 0;
	}
	return failed;
}
