/* SPDX-License-Identifier: BSD-3-Clause */
/* rq.c - receive queues and shared receive queues; see rq.h. */
#include "rq.h"

#include "mem.h"
#include "tm.h"
#include "xrc.h"

int rq_init(struct rq *rq, uint32_t capacity, uint32_t max_sge)
{
	uint32_t size = round_up_pow2(capacity ? capacity : 1);

	*rq = (struct rq){.capacity = capacity, .max_sge = max_sge, .mask = size - 1};
	rq->stride = (uint32_t)rwqe_size(max_sge);
	rq->slots = calloc(size, rq->stride);
	return rq->slots ? 0 : -ENOMEM;
}

void rq_fini(struct rq *rq)
{
	free(rq->slots);
	rq->slots = NULL;
}

static struct rwqe *slot(const struct rq *rq, uint32_t index)
{
	return (struct rwqe *)(void *)(rq->slots + (size_t)(index & rq->mask) * rq->stride);
}

int rq_post(struct rq *rq, const struct nic_recv_wr *wr)
{
	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	if (rq_count(rq) >= rq->capacity)
		return -ENOMEM;

	struct rwqe *w = slot(rq, rq->head);
	uint64_t length = 0;

	for (uint32_t i = 0; i < wr->num_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		length += w->sge[i].length;
	}
	w->wr_id = wr->wr_id;
	w->num_sge = wr->num_sge;
	w->length = length < NIC_MSG_MAX ? length : NIC_MSG_MAX; /* no message is longer than NIC_MSG_MAX (C9-94) */
	rq->head++;
	if (!rq->managed)
		rq->open = rq->head;
	return 0;
}

bool rq_pop(struct rq *rq, struct rwqe *out)
{
	const struct rwqe *w = rq_peek(rq);

	if (!w)
		return false;
	memcpy(out, w, rwqe_size(w->num_sge));
	rq->tail++;
	return true;
}

bool srq_pop(struct nic_srq *srq, struct rwqe *out)
{
	if (!rq_pop(&srq->rq, out))
		return false;
	if (srq->limit && rq_count(&srq->rq) < srq->limit) {
		srq->limit = 0; /* the event is raised once, then the limit must be armed again */
		event_raise(srq->pd->nic, &srq->events, NIC_EVENT_SRQ_LIMIT);
	}
	return true;
}

int nic_srq_create(struct nic_pd *pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, void *user,
		   struct nic_srq **out)
{
	struct nic *nic = pd->nic;
	const struct nic_limits *lim = &nic->cfg.limits;

	if (!max_wr || max_wr > lim->max_srq_wr || max_sge > lim->max_sge || limit > max_wr)
		return -EINVAL;
	if (nic->n_srq >= lim->max_srq)
		return -ENOMEM;

	struct nic_srq *srq = calloc(1, sizeof(*srq));

	if (!srq)
		return -ENOMEM;
	if (rq_init(&srq->rq, max_wr, max_sge ? max_sge : 1)) {
		free(srq);
		return -ENOMEM;
	}
	srq->pd = pd;
	srq->limit = limit;
	event_source_init(&srq->events, user);
	list_append(&nic->all_srqs, &srq->node);
	pd->users++;
	nic->n_srq++;
	*out = srq;
	return 0;
}

int nic_srq_destroy(struct nic_srq *srq)
{
	if (srq->users)
		return -EBUSY;
	if (srq->xrcd)
		xrc_srq_leave(srq);
	if (srq->tm)
		tm_srq_leave(srq);
	event_source_fini(&srq->events);
	list_remove(&srq->node);
	srq->pd->users--;
	srq->pd->nic->n_srq--;
	rq_fini(&srq->rq);
	free(srq);
	return 0;
}

void nic_srq_query(const struct nic_srq *srq, uint32_t *max_wr, uint32_t *max_sge, uint32_t *limit)
{
	*max_wr = srq->rq.capacity;
	*max_sge = srq->rq.max_sge;
	*limit = srq->limit;
}

int nic_srq_set_limit(struct nic_srq *srq, uint32_t limit)
{
	if (limit > srq->rq.capacity)
		return -EINVAL;
	srq->limit = limit;
	return 0;
}

int nic_srq_resize(struct nic_srq *srq, uint32_t max_wr)
{
	struct rq bigger, *old = &srq->rq;

	if (!max_wr || max_wr > srq->pd->nic->cfg.limits.max_srq_wr || max_wr < rq_count(old) || max_wr < srq->limit)
		return -EINVAL;
	if (rq_init(&bigger, max_wr, old->max_sge))
		return -ENOMEM;
	while (rq_pop(old, slot(&bigger, bigger.head)))
		bigger.open = ++bigger.head;
	rq_fini(old);
	*old = bigger;
	return 0;
}

int nic_post_srq_recv(struct nic_srq *srq, const struct nic_recv_wr *wr)
{
	return rq_post(&srq->rq, wr);
}
