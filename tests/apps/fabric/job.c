/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - deferred work, see job.h.
 */
#include "job.h"

void job_init(struct job *j, enum fi_op_type type, struct fid_cntr *trigger, uint64_t threshold,
	      struct fid_cntr *completion)
{
	memset(j, 0, sizeof(*j));
	memset(&j->work.context, 0xee, sizeof(j->work.context)); /* the provider must not read the context */
	j->work.op_type = type;
	j->work.triggering_cntr = trigger;
	j->work.threshold = threshold;
	j->work.completion_cntr = completion;
	j->work.op.msg = &j->msg; /* work.op is a union of pointers, so this sets every member */
}

int job_queue(struct pair *p, struct job *j)
{
	return fi_control(&p->domain->fid, FI_QUEUE_WORK, &j->work);
}

int job_cancel(struct pair *p, struct job *j)
{
	return fi_control(&p->domain->fid, FI_CANCEL_WORK, &j->work);
}

void job_message(struct job *j, struct fid_ep *ep, void *buf, size_t len, fi_addr_t addr)
{
	j->iov = (struct iovec){buf, len};
	j->msg = (struct fi_op_msg){.ep = ep, .msg = {.msg_iov = &j->iov, .iov_count = 1, .addr = addr, .context = j}};
}

void job_tagged(struct job *j, struct fid_ep *ep, void *buf, size_t len, fi_addr_t addr, uint64_t tag)
{
	j->iov = (struct iovec){buf, len};
	j->tagged = (struct fi_op_tagged){
		.ep = ep, .msg = {.msg_iov = &j->iov, .iov_count = 1, .addr = addr, .tag = tag, .context = j}};
}

void job_rma(struct pair *p, struct job *j, void *buf, size_t len, size_t at)
{
	j->iov = (struct iovec){buf, len};
	j->remote = (struct fi_rma_iov){p->base + at, len, p->key};
	j->rma = (struct fi_op_rma){.ep = p->a.ep,
				    .msg = {.msg_iov = &j->iov,
					    .iov_count = 1,
					    .addr = p->b.addr,
					    .rma_iov = &j->remote,
					    .rma_iov_count = 1,
					    .context = j}};
}

struct fi_msg_atomic job_on_word(struct pair *p, struct job *j, uint64_t *operand, enum fi_op op)
{
	j->operand = (struct fi_ioc){operand, 1};
	j->target = (struct fi_rma_ioc){p->base, 1, p->key};
	return (struct fi_msg_atomic){.msg_iov = &j->operand,
				      .iov_count = 1,
				      .addr = p->b.addr,
				      .rma_iov = &j->target,
				      .rma_iov_count = 1,
				      .datatype = FI_UINT64,
				      .op = op,
				      .context = j};
}

void job_add_to(struct job *j, struct fid_cntr *cntr, uint64_t value)
{
	j->cntr = (struct fi_op_cntr){cntr, value};
}

struct fid_ep *job_endpoint(struct pair *p, struct fi_info *info, struct fid *shared)
{
	struct fid_ep *ep = NULL;

	WANT_OK(fi_endpoint(p->domain, info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(ep, &p->a.tx->fid, FI_TRANSMIT));
	WANT_OK(fi_ep_bind(ep, &p->a.rx->fid, FI_RECV));
	if (shared)
		WANT_OK(fi_ep_bind(ep, shared, 0));
	WANT_OK(fi_enable(ep));
	return ep;
}

fi_addr_t job_address(struct pair *p, struct fid_ep *ep)
{
	fi_addr_t addr = FI_ADDR_UNSPEC;
	char name[64];
	size_t len = sizeof(name);

	WANT_OK(fi_getname(&ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, &addr, 0, NULL), 1);
	return addr;
}
