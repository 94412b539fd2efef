/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - the libfabric provider from within one process: opens two endpoints, runs all cases, closes what there is in the
 * right order. A line for each case, "ok NAME" or "FAIL NAME"; exit code 1 when one has failed. `leave` runs none, and leaves a
 * shared address vector behind.
 */
#include "fabric.h"

#include <time.h>

#define LAST_REQUESTS 25

int failures;

void check_failed(const char *file, int line, const char *what, long got, long want)
{
	printf("%s:%d: %s is %ld (%s), not %ld\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, what, got,
	       got < 0 ? fi_strerror((int)-got) : "", want);
	failures++;
}

static void read_error(struct pair *p, struct fid_cq *cq)
{
	memset(&p->error, 0, sizeof(p->error));
	WANT(fi_cq_readerr(cq, &p->error, 0), 1);
}

void await(struct pair *p, struct fid_cq *cq)
{
	ssize_t n = fi_cq_sreadfrom(cq, &p->done, 1, &p->source, NULL, PATIENCE_MS);

	WANT(n, 1);
	if (n == -FI_EAVAIL) {
		read_error(p, cq);
		printf("error: %s (%s)\n", fi_strerror(p->error.err),
		       fi_cq_strerror(cq, p->error.prov_errno, p->error.err_data, NULL, 0));
	}
}

void await_error(struct pair *p, struct fid_cq *cq, int err)
{
	WANT(fi_cq_sread(cq, &p->done, 1, NULL, PATIENCE_MS), -FI_EAVAIL);
	read_error(p, cq);
	WANT(p->error.err, err);
	WANT(strlen(fi_cq_strerror(cq, p->error.prov_errno, p->error.err_data, NULL, 0)) > 7, 1);
}

void nothing(struct pair *p, struct fid_cq *cq)
{
	WANT(fi_cq_sread(cq, &p->done, 1, NULL, 20), -FI_EAGAIN);
}

/** @return false: without it nothing can be tried. */
static bool opens(int rc, const char *what)
{
	if (rc)
		printf("%s: %s\n", what, fi_strerror(-rc));
	return rc == 0;
}

static bool node_open(struct pair *p, struct node *n)
{
	static const uint64_t directions[COUNTERS] = {FI_SEND,	FI_RECV,	FI_READ,
						      FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};
	char name[64];
	size_t len = sizeof(name);

	if (!opens(fi_cq_open(p->domain, &cq, &n->tx, NULL), "fi_cq_open") ||
	    !opens(fi_cq_open(p->domain, &cq, &n->rx, NULL), "fi_cq_open") ||
	    !opens(fi_endpoint(p->domain, p->info, &n->ep, NULL), "fi_endpoint"))
		return false;
	WANT(fi_enable(n->ep), -FI_ENOAV);
	WANT_OK(fi_ep_bind(n->ep, &p->av->fid, 0));
	WANT(fi_enable(n->ep), -FI_ENOCQ);
	WANT_OK(fi_ep_bind(n->ep, &n->tx->fid, FI_TRANSMIT));
	WANT_OK(fi_ep_bind(n->ep, &n->rx->fid, FI_RECV));
	for (int i = 0; i < COUNTERS; i++) {
		WANT_OK(fi_cntr_open(p->domain, &cntr, &n->cntr[i], NULL));
		if (i != WRITES)
			WANT_OK(fi_ep_bind(n->ep, &n->cntr[i]->fid, directions[i]));
	}
	WANT(fi_send(n->ep, name, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	if (!opens(fi_enable(n->ep), "fi_enable"))
		return false;
	WANT_OK(fi_ep_bind(n->ep, &n->cntr[WRITES]->fid, FI_WRITE)); /* counters may come later than that */
	WANT(fi_ep_bind(n->ep, &n->cntr[READS]->fid, FI_WRITE), -FI_EINVAL);
	if (!opens(fi_getname(&n->ep->fid, name, &len), "fi_getname"))
		return false;
	return fi_av_insert(p->av, name, 1, &n->addr, 0, NULL) == 1;
}

static void node_close(struct node *n)
{
	WANT(fi_close(&n->tx->fid), -FI_EBUSY);
	WANT_OK(fi_close(&n->ep->fid));
	WANT_OK(fi_close(&n->tx->fid));
	WANT_OK(fi_close(&n->rx->fid));
	for (int i = 0; i < COUNTERS; i++)
		WANT_OK(fi_close(&n->cntr[i]->fid));
}

static bool pair_open(struct pair *p)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int rc;

	hints->fabric_attr->prov_name = strdup("uroce");
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->caps =
		FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_TRIGGER;
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &p->info);
	fi_freeinfo(hints);
	p->here = calloc(1, LONG_LEN);
	p->there = calloc(1, LONG_LEN);
	if (!opens(rc, "fi_getinfo") || !opens(fi_fabric(p->info->fabric_attr, &p->fabric, NULL), "fi_fabric") ||
	    !opens(fi_domain(p->fabric, p->info, &p->domain, NULL), "fi_domain") ||
	    !opens(fi_av_open(p->domain, &av, &p->av, NULL), "fi_av_open") || !node_open(p, &p->a) ||
	    !node_open(p, &p->b))
		return false;
	p->base = (uintptr_t)p->there;
	rc = fi_mr_reg(p->domain, p->there, LONG_LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &p->mr, NULL);
	p->key = rc ? 0 : fi_mr_key(p->mr);
	return opens(rc, "fi_mr_reg");
}

/** What has been asked for when its endpoint is closed is done; nobody has waited for it. */
static void ask_and_close(struct pair *p)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	volatile uint64_t *there = (uint64_t *)p->there;
	uint64_t one = 1;

	*there = 0;
	for (unsigned i = 0; i < LAST_REQUESTS; i++)
		WANT_OK(fi_inject_atomic(p->a.ep, &one, 1, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM));
	node_close(&p->a);
	for (unsigned i = 0; i < PATIENCE_MS && *there < LAST_REQUESTS; i++) {
		WANT(fi_cq_read(p->b.rx, &p->done, 1), -FI_EAGAIN); /* without the engine's thread it polls */
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
	node_close(&p->b);
	WANT_OK(fi_close(&p->mr->fid));
	WANT_OK(fi_close(&p->av->fid));
	WANT_OK(fi_close(&p->domain->fid));
	WANT_OK(fi_close(&p->fabric->fid));
	fi_freeinfo(p->info);
	free(p->here);
	free(p->there);
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
