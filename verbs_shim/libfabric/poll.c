/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll.c - poll sets of queues and counters (fi_poll(3)). fi_poll reports a counter if it has changed since the last
 * poll.
 */
#include "endpoint.h"
#include "provider.h"

struct member {
	struct member *next;
	struct fid *fid;
	uint64_t seen; /* for a counter: value plus errors at the last poll */
};

struct ufi_pollset {
	struct fid_poll poll;
	struct ufi_domain *domain;
	struct ufi_lock lock; /* guards the list; taken before the engine's lock */
	struct member *members;
};

static struct ufi_pollset *pollset_of(struct fid_poll *poll)
{
	return container_of(poll, struct ufi_pollset, poll);
}

static atomic_uint *users_of(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return &container_of(fid, struct ufi_cq, cq.fid)->users;
	case FI_CLASS_CNTR:
		return &container_of(fid, struct ufi_cntr, cntr.fid)->users;
	default:
		return NULL;
	}
}

static uint64_t cntr_sum(struct fid *fid)
{
	struct fid_cntr *cntr = container_of(fid, struct fid_cntr, fid);

	return cntr->ops->read(cntr) + cntr->ops->readerr(cntr);
}

static int poll_add(struct fid_poll *poll, struct fid *fid, uint64_t flags)
{
	struct ufi_pollset *set = pollset_of(poll);
	struct member *m;

	if (flags || !users_of(fid))
		return -FI_EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->fid = fid;
	atomic_fetch_add(users_of(fid), 1);
	ufi_lock(&set->lock);
	m->next = set->members;
	set->members = m;
	ufi_unlock(&set->lock);
	return 0;
}

static int poll_del(struct fid_poll *poll, struct fid *fid, uint64_t flags)
{
	struct ufi_pollset *set = pollset_of(poll);
	struct member **at, *m;

	ufi_lock(&set->lock);
	for (at = &set->members; *at && (*at)->fid != fid; at = &(*at)->next)
		;
	m = *at;
	if (m)
		*at = m->next;
	ufi_unlock(&set->lock);
	if (!m)
		return -FI_EINVAL;
	atomic_fetch_sub(users_of(fid), 1);
	free(m);
	return 0;
}

static bool member_ready(struct member *m)
{
	uint64_t sum;

	if (m->fid->fclass == FI_CLASS_CQ)
		return ufi_cq_pending(container_of(m->fid, struct ufi_cq, cq.fid));
	sum = cntr_sum(m->fid);
	if (sum == m->seen)
		return false;
	m->seen = sum;
	return true;
}

static int poll_poll(struct fid_poll *poll, void **context, int count)
{
	struct ufi_pollset *set = pollset_of(poll);
	int n = 0;

	ufi_lock(&set->lock);
	for (struct member *m = set->members; m && n < count; m = m->next)
		if (member_ready(m))
			context[n++] = m->fid->context;
	ufi_unlock(&set->lock);
	return n;
}

static int poll_close(struct fid *fid)
{
	struct ufi_pollset *set = container_of(fid, struct ufi_pollset, poll.fid);

	while (set->members)
		poll_del(&set->poll, set->members->fid, 0);
	ufi_lock_fini(&set->lock);
	atomic_fetch_sub(&set->domain->users, 1);
	free(set);
	return 0;
}

static struct fi_ops poll_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = poll_close,
	.bind = ufi_no_bind,
	.control = ufi_no_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = poll_poll,
	.poll_add = poll_add,
	.poll_del = poll_del,
};

int ufi_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct ufi_pollset *set;

	if (attr && attr->flags)
		return -FI_EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -FI_ENOMEM;
	set->domain = container_of(fid, struct ufi_domain, domain);
	ufi_lock_init(&set->lock);
	set->poll.fid.fclass = FI_CLASS_POLL;
	set->poll.fid.ops = &poll_fid_ops;
	set->poll.ops = &poll_ops;
	atomic_fetch_add(&set->domain->users, 1);
	*out = &set->poll;
	return 0;
}
