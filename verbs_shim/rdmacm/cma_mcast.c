/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_mcast.c - multicast groups that ids have joined. As with a kernel's RoCE device, there is no subnet administrator
 * to ask: the join succeeds at once, and its event tells the program how to send to the group. The interface joins the
 * group when librdmacm attaches the id's QP (ibv_attach_mcast). librdmacm attaches the QP unless the program only
 * sends.
 *
 * State: all memberships. cma_lock guards them.
 */
#include <errno.h>
#include <stdlib.h>

#include "cma.h"

struct cma_mcast {
	struct list link;
	struct cma_id *id;
	uint32_t number;
	uint32_t events_reported;
};

static struct list all = {&all, &all};
static uint32_t next_number;

static struct cma_mcast *find(uint32_t number)
{
	for (struct list *n = all.next; n != &all; n = n->next) {
		struct cma_mcast *m = list_entry(n, struct cma_mcast, link);

		if (m->number == number)
			return m;
	}
	return NULL;
}

static void number_take(struct cma_mcast *m)
{
	while (find(next_number))
		next_number++;
	m->number = next_number++;
}

/** Fill in an event with what the program needs to send to the group. */
static void event_fill(struct cma_event *e, const struct cma_id *id, const struct nic_gid *group)
{
	struct rdma_ucm_ud_param *p = &e->resp.param.ud;

	e->resp.event = UCMA_MULTICAST_JOIN;
	p->qp_num = NIC_MCAST_QPN;
	p->qkey = id->qkey;
	cma_engine_enter(id->device);
	cma_ah_attr(id, group, &p->ah_attr);
	cma_engine_leave(id->device);
	p->ah_attr.grh.hop_limit = CMA_HOP_LIMIT;
}

/** Whether an id can join groups at all. */
static bool may_join(const struct cma_id *id)
{
	return cma_is_ud(id) && (id->state == CMA_ADDR_BOUND || id->state == CMA_ADDR_RESOLVED);
}

int cma_join(struct cma_id *id, const struct cma_addr *group, uint64_t uid, uint32_t *number)
{
	struct cma_mcast *m;
	struct cma_event *e;

	if (!may_join(id) || group->family != id->src.family || !nic_gid_is_multicast(&group->gid))
		return -EINVAL;
	if (!pmd_mcast_supported(id->device->engine))
		return -EOPNOTSUPP;
	m = calloc(1, sizeof(*m));
	e = calloc(1, sizeof(*e));
	if (!m || !e) {
		free(m);
		free(e);
		return -ENOMEM;
	}
	event_fill(e, id, &group->gid);
	pthread_mutex_lock(&cma_lock);
	m->id = e->id = id;
	e->resp.uid = uid;
	number_take(m);
	*number = e->resp.id = m->number;
	e->reported = &m->events_reported;
	list_append(&all, &m->link);
	cma_event_queue(e);
	pthread_mutex_unlock(&cma_lock);
	return 0;
}

static uint32_t membership_end(struct cma_mcast *m)
{
	uint32_t reported = m->events_reported;

	cma_event_forget(m->id->file, &m->events_reported);
	list_remove(&m->link);
	free(m);
	return reported;
}

int cma_leave(const struct cma_file *file, uint32_t number, uint32_t *reported)
{
	struct cma_mcast *m;
	int err = 0;

	pthread_mutex_lock(&cma_lock);
	m = find(number);
	if (!m)
		err = -ENOENT;
	else if (m->id->file != file)
		err = -EINVAL;
	else
		*reported = membership_end(m);
	pthread_mutex_unlock(&cma_lock);
	return err;
}

void cma_leave_all(const struct cma_id *id)
{
	struct list *next;

	for (struct list *n = all.next; n != &all; n = next) {
		struct cma_mcast *m = list_entry(n, struct cma_mcast, link);

		next = n->next;
		if (m->id == id)
			membership_end(m);
	}
}
