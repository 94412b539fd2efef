/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rq.h - receive queues of QPs, and shared receive queues (SRQs). IBTA 10.2.9, 10.8.2. Private to nic/.
 * A receive WQE is copied out of the queue when a message takes it, which frees the slot.
 */
#ifndef NIC_RQ_H
#define NIC_RQ_H

#include "core.h"

/** A receive work queue element, followed by its SGEs. */
struct rwqe {
	uint64_t wr_id;
	uint64_t length; /* sum of the SGEs, at most NIC_MSG_MAX */
	uint32_t num_sge;
	struct nic_sge sge[];
};

struct rq {
	uint8_t *slots;
	uint32_t stride;
	uint32_t capacity, max_sge;
	uint32_t mask;	     /* number of slots - 1 */
	uint32_t head, tail; /* free-running */
	uint32_t open;	     /* elements before this index may be taken; not managed: equals `head` */
	bool managed;	     /* RECV_ENABLE moves `open` (cross.c) */
};

struct nic_srq {
	struct nic_pd *pd;
	struct rq rq;
	uint32_t limit; /* 0: not armed */
	uint32_t users; /* QPs that use the SRQ */
	/* The next four are NULL or 0 if the SRQ does not use them: */
	struct nic_xrcd *xrcd; /* the SRQ's XRC domain */
	struct nic_tm *tm;     /* tagged buffers of an SRQ that matches tags (tm.c) */
	struct nic_cq *cq;     /* an SRQ that is in an XRC domain or matches tags: the CQ of its completions */
	uint32_t num;	       /* an SRQ that is in an XRC domain: the number by which requests name it */
	struct list node;      /* on nic.all_srqs */
	struct event_source events;
};

static inline size_t rwqe_size(uint32_t max_sge)
{
	return sizeof(struct rwqe) + max_sge * sizeof(struct nic_sge);
}

/** Initialize an empty queue. @return 0, -ENOMEM. */
int rq_init(struct rq *rq, uint32_t capacity, uint32_t max_sge);
void rq_fini(struct rq *rq);
/** Queue a work request. @return 0, -EINVAL (too many SGEs), -ENOMEM (full). */
int rq_post(struct rq *rq, const struct nic_recv_wr *wr);

static inline uint32_t rq_count(const struct rq *rq)
{
	return rq->head - rq->tail;
}

/** The next element that may be taken, or NULL. */
static inline const struct rwqe *rq_peek(const struct rq *rq)
{
	return rq->open == rq->tail
		       ? NULL
		       : (const struct rwqe *)(void *)(rq->slots + (size_t)(rq->tail & rq->mask) * rq->stride);
}

/** Take the next element into *out, which has room for max_sge SGEs. @return false if there is no element. */
bool rq_pop(struct rq *rq, struct rwqe *out);

/** Take the next element as rq_pop does, from a shared queue; raise the limit event if due. */
bool srq_pop(struct nic_srq *srq, struct rwqe *out);

#endif
