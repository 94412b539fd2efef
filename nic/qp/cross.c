/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cross.c - requests that control or wait for other queues (CORE-Direct, the cross-channel requests of ConnectX). They
 * run in send queue order, as local operations do, and send nothing:
 *   WAIT         the queue continues when a CQ has received a given number of entries, polled or not, with any status
 *   SEND_ENABLE  requests of a managed send queue may start
 *   RECV_ENABLE  elements of a managed receive queue may be taken
 * A queue of such requests is a program that the NIC runs without the application.
 *
 * The count in a request is relative to a base, which each CQ and each managed queue has. Posting the request turns
 * the count into an absolute index. A request with the flag `last` advances the base by the largest count posted since
 * the previous advance.
 *
 * A WAIT waits in the trigger unit for the CQ's entries. Only the WAIT at sq.next of a send queue is in the trigger
 * unit; when woken it checks the count again. The CQ cannot be destroyed while WAITs for it are posted; queues named by
 * an ENABLE may be destroyed or reset.
 *
 * Owns: qp.cross, and the CQ's fields for WAITs, except `produced` (cq.c).
 */
#include "cq.h"
#include "cross.h"
#include "qp.h"
#include "req.h"

static int wake(struct nic_trig_work *work)
{
	qp_ready(list_entry(work, struct nic_qp, cross.work));
	return 0;
}

void cross_init(struct nic_qp *qp, const struct nic_qp_init *init)
{
	qp->cross.work.fire = wake;
	qp->cross.posts = init->cross_channel;
	qp->cross.managed = init->managed_send;
	qp->rq.managed = init->managed_recv;
	if (qp->cross.posts && qp->type == NIC_QPT_RC)
		qp->send_flags |= NIC_SEND_CALC;
}

void cross_reset(struct nic_qp *qp)
{
	struct cross *c = &qp->cross;

	c->send = c->recv = (struct enabled){.base = 0};
	c->enabled = 0;
	c->resets++;
}

/* Called once all posted requests, enabled or not, have been flushed: the counts restart behind these requests. */
void cross_recover(struct nic_qp *qp)
{
	qp->cross.send = (struct enabled){.base = qp->sq.head};
	qp->cross.enabled = qp->sq.head;
}

void cross_release(struct nic_qp *qp)
{
	if (!qp->cross.posts)
		return;
	nic_trig_cancel(&qp->cross.work);
	for (uint32_t i = qp->sq.tail; i != qp->sq.head; i++) {
		struct swqe *w = sq_at(qp, i);

		if (w->opcode != NIC_WR_CQE_WAIT || !w->wait.cq)
			continue;
		w->wait.cq->waiters--;
		w->wait.cq = NULL;
	}
}

/* ---- posting ------------------------------------------------------------------------------------------------- */

static bool is_managed(const struct nic_qp *qp, uint32_t opcode)
{
	return opcode == NIC_WR_SEND_ENABLE ? qp->cross.managed : qp->rq.managed;
}

/* Index one past the last request posted to the queue. */
static uint32_t posted(const struct nic_qp *qp, uint32_t opcode)
{
	return opcode == NIC_WR_SEND_ENABLE ? qp->sq.head : qp->rq.head;
}

static struct enabled *enabled_of(struct nic_qp *qp, uint32_t opcode)
{
	return opcode == NIC_WR_SEND_ENABLE ? &qp->cross.send : &qp->cross.recv;
}

/* The index that an ENABLE stands for: it enables all requests before this index. */
static uint32_t enable_index(const struct nic_send_wr *wr)
{
	struct nic_qp *target = wr->enable.qp;

	return wr->enable.count ? enabled_of(target, wr->opcode)->base + wr->enable.count : posted(target, wr->opcode);
}

int cross_check(const struct nic_qp *qp, const struct nic_send_wr *wr)
{
	struct nic_qp *target = wr->enable.qp;
	struct nic_cq *cq = wr->wait.cq;

	if (wr->opcode == NIC_WR_CQE_WAIT) {
		return !cq || cq->nic != qp->nic || wr->wait.count > INT32_MAX ? -EINVAL : 0;
	}
	if (!target || target->nic != qp->nic || !is_managed(target, wr->opcode) || wr->enable.count > INT32_MAX)
		return -EINVAL;
	return (int32_t)(posted(target, wr->opcode) - enable_index(wr)) < 0 ? -EINVAL : 0;
}

/* Reserve memory for a WAIT when it is posted, so that the WAIT cannot run out of memory when it runs. */
int cross_room(const struct nic_send_wr *wr)
{
	return wr->opcode == NIC_WR_CQE_WAIT ? nic_trig_reserve(&wr->wait.cq->produced, wr->wait.cq->waiters + 1) : 0;
}

static void post_wait(struct swqe *w, const struct nic_send_wr *wr)
{
	struct nic_cq *cq = wr->wait.cq;
	uint32_t count = wr->wait.count;

	cq_count(cq);
	cq->waiters++;
	w->wait.cq = cq;
	w->wait.threshold = cq->wait_index + count;
	if (count > cq->wait_count)
		cq->wait_count = count;
	if (wr->wait.last) {
		cq->wait_index += cq->wait_count;
		cq->wait_count = 0;
	}
}

static void post_enable(struct swqe *w, const struct nic_send_wr *wr)
{
	struct nic_qp *target = wr->enable.qp;
	struct enabled *e = enabled_of(target, wr->opcode);

	w->enable.qp = target;
	w->enable.qpn = target->qpn;
	w->enable.resets = target->cross.resets;
	w->enable.index = enable_index(wr);
	if (!wr->enable.count)
		e->count = w->enable.index - e->base;
	else if (wr->enable.count > e->count)
		e->count = wr->enable.count;
	if (wr->enable.last) {
		e->base += e->count;
		e->count = 0;
	}
}

void cross_post(struct swqe *w, const struct nic_send_wr *wr)
{
	if (wr->opcode == NIC_WR_CQE_WAIT)
		post_wait(w, wr);
	else
		post_enable(w, wr);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static bool run_wait(struct nic_qp *qp, struct swqe *w)
{
	struct nic_cq *cq = w->wait.cq;

	if (cq->produced.part[0] >= w->wait.threshold) {
		cq->waiters--;
		w->wait.cq = NULL;
		return true;
	}
	if (cq->overflowed)
		return req_fail(qp, ERR_wait_overflow);
	if (!qp->cross.work.cntr) /* cannot fail: memory was reserved when the WAIT was posted */
		nic_trig_queue(qp->nic, &cq->produced, w->wait.threshold, &qp->cross.work);
	return false;
}

static bool run_enable(struct nic_qp *qp, const struct swqe *w)
{
	struct nic_qp *target = table_find(&qp->nic->qps, w->enable.qpn);
	uint32_t *enabled;

	if (!target || target != w->enable.qp)
		return req_fail(qp, ERR_enable_gone);
	if (target->cross.resets != w->enable.resets)
		return true; /* the target was reset: its requests are gone */
	enabled = w->opcode == NIC_WR_SEND_ENABLE ? &target->cross.enabled : &target->rq.open;
	if ((int32_t)(w->enable.index - *enabled) > 0)
		*enabled = w->enable.index;
	qp_ready(target);
	return true;
}

bool cross_run(struct nic_qp *qp, struct swqe *w)
{
	return w->opcode == NIC_WR_CQE_WAIT ? run_wait(qp, w) : run_enable(qp, w);
}
