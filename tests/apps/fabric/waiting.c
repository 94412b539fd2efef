/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waiting.c - waits for queues and counters, singly and in wait sets, and waits that time out.
 */
#include <poll.h>

#include "fabric.h"

/* Wait until the descriptor is readable. With manual progress the program has to make progress during the wait. */
static void await_descriptor(struct pair *p, struct fid **fids, struct pollfd *pfd)
{
	if (p->info->domain_attr->data_progress == FI_PROGRESS_AUTO)
		WANT(poll(pfd, 1, PATIENCE_MS), 1);
	while (fi_trywait(p->fabric, fids, 1) == 0)
		;
	WANT(fi_trywait(p->fabric, fids, 1), -FI_EAGAIN);
}

void case_waiting(struct pair *p)
{
	struct fid *fids[1] = {&p->b.rx->fid};
	struct pollfd pfd = {.events = POLLIN};
	char buf[8];

	WANT(fi_cq_sread(p->a.tx, &p->done, 1, NULL, 20), -FI_EAGAIN);
	WANT(fi_cntr_wait(p->a.cntr[SENDS], UINT64_MAX, 20), -FI_ETIMEDOUT);
	WANT_OK(fi_cq_signal(p->a.tx));
	WANT(fi_cq_sread(p->a.tx, &p->done, 1, NULL, -1), -FI_EAGAIN);
	WANT_OK(fi_control(&p->b.rx->fid, FI_GETWAIT, &pfd.fd));
	WANT_OK(fi_trywait(p->fabric, fids, 1));
	WANT(poll(&pfd, 1, 0), 0);
	WANT_OK(fi_recv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->a.ep, "x", 1, p->b.addr));
	await_descriptor(p, fids, &pfd);
	await(p, p->b.rx);
}

/** A wait set with one object of each kind. */
struct waited {
	struct fid_wait *set;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	struct fid_ep *ep; /* endpoint that reports to the objects of the set */
	fi_addr_t addr;
};

static bool waited_open(struct pair *p, struct waited *w)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_SET};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_SET, .flags = FI_WRITE};
	char name[64];
	size_t len = sizeof(name);

	WANT(fi_cq_open(p->domain, &cq, &w->cq, NULL), -FI_EINVAL); /* FI_WAIT_SET without a set */
	WANT_OK(fi_wait_open(p->fabric, &attr, &w->set));
	cq.wait_set = cntr.wait_set = eq.wait_set = w->set;
	WANT_OK(fi_cq_open(p->domain, &cq, &w->cq, NULL));
	WANT_OK(fi_cntr_open(p->domain, &cntr, &w->cntr, NULL));
	WANT_OK(fi_eq_open(p->fabric, &eq, &w->eq, NULL));
	WANT_OK(fi_endpoint(p->domain, p->info, &w->ep, NULL));
	if (failures)
		return false;
	WANT_OK(fi_ep_bind(w->ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(w->ep, &w->cq->fid, FI_TRANSMIT | FI_RECV));
	WANT_OK(fi_ep_bind(w->ep, &w->cntr->fid, FI_REMOTE_WRITE));
	WANT_OK(fi_enable(w->ep));
	WANT_OK(fi_getname(&w->ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, &w->addr, 0, NULL), 1);
	return true;
}

static void waited_close(struct pair *p, struct waited *w)
{
	WANT(fi_close(&w->set->fid), -FI_EBUSY);
	WANT_OK(fi_close(&w->ep->fid));
	WANT_OK(fi_close(&w->cq->fid));
	WANT_OK(fi_close(&w->cntr->fid));
	WANT(fi_close(&w->set->fid), -FI_EBUSY);
	WANT_OK(fi_close(&w->eq->fid));
	WANT(fi_wait(w->set, 0), -FI_ETIMEDOUT);
	WANT_OK(fi_close(&w->set->fid));
	WANT_OK(fi_av_remove(p->av, &w->addr, 1, 0));
}

/* A thread that waits for the wait set is woken by an event of any single member. */
static void waited_members(struct pair *p, struct waited *w)
{
	struct fi_eq_entry entry = {.context = w};
	uint32_t event;
	char buf[8];

	WANT(fi_wait(w->set, 20), -FI_ETIMEDOUT);
	WANT_OK(fi_recv(w->ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->a.ep, "x", 1, w->addr));
	WANT_OK(fi_wait(w->set, PATIENCE_MS));
	await(p, w->cq);
	WANT(fi_wait(w->set, 20), -FI_ETIMEDOUT);
	WANT_OK(fi_inject_write(p->a.ep, p->here, 8, w->addr, p->base, p->key));
	WANT_OK(fi_wait(w->set, PATIENCE_MS));
	WANT(fi_cntr_read(w->cntr), 1);
	WANT(fi_wait(w->set, 20), -FI_ETIMEDOUT);
	WANT(fi_eq_write(w->eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	WANT_OK(fi_wait(w->set, PATIENCE_MS));
	WANT(fi_eq_read(w->eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	WANT(fi_wait(w->set, 20), -FI_ETIMEDOUT);
}

/* A program can wait by poll on the wait set's descriptor. */
static void waited_descriptor(struct pair *p, struct waited *w)
{
	struct fid *fids[1] = {&w->set->fid};
	struct pollfd pfd = {.events = POLLIN};
	enum fi_wait_obj obj;
	char buf[8];

	WANT_OK(fi_control(&w->set->fid, FI_GETWAITOBJ, &obj));
	WANT(obj, FI_WAIT_FD);
	WANT_OK(fi_control(&w->set->fid, FI_GETWAIT, &pfd.fd));
	/* A CQ in a wait set has no descriptor of its own. */
	WANT(fi_control(&w->cq->fid, FI_GETWAIT, &pfd.revents), -FI_EINVAL);
	WANT_OK(fi_trywait(p->fabric, fids, 1));
	WANT(poll(&pfd, 1, 0), 0);
	WANT_OK(fi_recv(w->ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->a.ep, "x", 1, w->addr));
	await_descriptor(p, fids, &pfd);
	await(p, w->cq);
	WANT_OK(fi_trywait(p->fabric, fids, 1));
	WANT(poll(&pfd, 1, 0), 0);
}

void case_wait_set(struct pair *p)
{
	struct waited w;

	if (!waited_open(p, &w))
		return;
	waited_members(p, &w);
	waited_descriptor(p, &w);
	waited_close(p, &w);
}

void case_wait_set_mistakes(struct pair *p)
{
	const struct {
		struct fi_wait_attr attr;
		int rc;
	} opened[] = {
		{{.wait_obj = FI_WAIT_NONE}, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_SET}, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_FD, .flags = 1}, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_MUTEX_COND}, -FI_ENOSYS},
		{{.wait_obj = FI_WAIT_YIELD}, 0},
	};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fid_wait *set = NULL;
	struct fid_fabric *other;
	struct fid_cq *cq;

	for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++) {
		struct fi_wait_attr attr = opened[i].attr;

		WANT(fi_wait_open(p->fabric, &attr, &set), opened[i].rc);
	}
	if (set) {
		WANT(fi_wait(set, 5), -FI_ETIMEDOUT);
		WANT_OK(fi_close(&set->fid));
	}
	WANT_OK(fi_fabric(p->info->fabric_attr, &other, NULL));
	WANT_OK(fi_wait_open(other, NULL, &set));
	cq_attr.wait_set = set;
	WANT(fi_cq_open(p->domain, &cq_attr, &cq, NULL), -FI_EINVAL);
	WANT(fi_close(&other->fid), -FI_EBUSY);
	WANT_OK(fi_close(&set->fid));
	WANT_OK(fi_close(&other->fid));
}
