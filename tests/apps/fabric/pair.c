/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.c - see fabric.h. */
#include "fabric.h"

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

/** Report an error. @return false: an object could not be opened, and no case can run without it. */
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
	WANT_OK(fi_ep_bind(n->ep, &n->cntr[WRITES]->fid, FI_WRITE)); /* a counter may be bound after fi_enable */
	WANT(fi_ep_bind(n->ep, &n->cntr[READS]->fid, FI_WRITE), -FI_EINVAL);
	if (!opens(fi_getname(&n->ep->fid, name, &len), "fi_getname"))
		return false;
	return fi_av_insert(p->av, name, 1, &n->addr, 0, NULL) == 1;
}

void node_close(struct node *n)
{
	WANT(fi_close(&n->tx->fid), -FI_EBUSY);
	WANT_OK(fi_close(&n->ep->fid));
	n->ep = NULL;
	WANT_OK(fi_close(&n->tx->fid));
	WANT_OK(fi_close(&n->rx->fid));
	for (int i = 0; i < COUNTERS; i++)
		WANT_OK(fi_close(&n->cntr[i]->fid));
}

bool pair_open(struct pair *p)
{
	return pair_open_mode(p, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

bool pair_open_mode(struct pair *p, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int rc;

	p->here = calloc(1, LONG_LEN);
	p->there = calloc(1, LONG_LEN);
	if (!opens(hints && p->here && p->there ? 0 : -FI_ENOMEM, "memory"))
		return false;
	hints->fabric_attr->prov_name = strdup("uroce");
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = mr_mode;
	hints->caps =
		FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_TRIGGER;
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &p->info);
	fi_freeinfo(hints);
	if (!opens(rc, "fi_getinfo") || !opens(fi_fabric(p->info->fabric_attr, &p->fabric, NULL), "fi_fabric") ||
	    !opens(fi_domain(p->fabric, p->info, &p->domain, NULL), "fi_domain") ||
	    !opens(fi_av_open(p->domain, &av, &p->av, NULL), "fi_av_open") || !node_open(p, &p->a) ||
	    !node_open(p, &p->b))
		return false;
	p->base = mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)p->there : 0;
	rc = fi_mr_reg(p->domain, p->there, LONG_LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &p->mr, NULL);
	p->key = rc ? 0 : fi_mr_key(p->mr);
	return opens(rc, "fi_mr_reg");
}

void pair_close(struct pair *p)
{
	if (p->a.ep)
		node_close(&p->a);
	node_close(&p->b);
	WANT_OK(fi_close(&p->mr->fid));
	WANT_OK(fi_close(&p->av->fid));
	WANT_OK(fi_close(&p->domain->fid));
	WANT_OK(fi_close(&p->fabric->fid));
	fi_freeinfo(p->info);
	free(p->here);
	free(p->there);
}
