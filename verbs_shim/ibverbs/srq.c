/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srq.c - shared receive queues: basic SRQs, SRQs of XRC domains (IBTA 10.2.9, 11.2.3, A14), and SRQs that match tags
 * (ibv_post_srq_ops(3)).
 */
#include "child.h"
#include "shim.h"

static struct shim_srq *srq_of(struct ibv_srq *srq)
{
	return container_of(srq, struct shim_srq, ibv);
}

/* Create the NIC's SRQ, with limit 0, because only ibv_modify_srq arms the limit. Engine lock held. */
static int create(struct nic_pd *pd, const struct ibv_srq_init_attr_ex *attr, struct shim_srq *srq)
{
	uint32_t max_wr = attr->attr.max_wr, max_sge = attr->attr.max_sge;
	struct nic_cq *cq = attr->cq ? container_of(attr->cq, struct shim_cq, ibv)->nic : NULL;

	if (attr->srq_type == IBV_SRQT_XRC)
		return nic_srq_create_xrc(pd, srq->xrcd->nic, cq, max_wr, max_sge, 0, srq, &srq->nic);
	if (attr->srq_type == IBV_SRQT_TM)
		return nic_srq_create_tm(pd, cq, max_wr, max_sge, attr->tm_cap.max_num_tags, 0, srq, &srq->nic);
	return nic_srq_create(pd, max_wr, max_sge, 0, srq, &srq->nic);
}

/** @param attr the members that the SRQ's type needs; all others are 0. On return attr->attr has the granted size. */
static struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr_ex *attr)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_srq *srq = calloc(1, sizeof(*srq));
	uint32_t limit;
	int err = -EIO;

	if (!srq)
		return shim_fail(ENOMEM);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	srq->xrcd = attr->xrcd ? container_of(attr->xrcd, struct shim_xrcd, ibv) : NULL;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	if (!shim_pd_intact(pd) || (attr->cq && !SHIM_INTACT(container_of(attr->cq, struct shim_cq, ibv)))) {
		err = -ENOENT;
	} else if (shim_enter(ctx)) {
		err = create(container_of(pd, struct shim_pd, ibv)->nic, attr, srq);
		if (!err)
			shim_object_add(ctx, SHIM_SRQ, &srq->link);
		if (!err)
			nic_srq_query(srq->nic, &attr->attr.max_wr, &attr->attr.max_sge, &limit);
		if (!err && srq->xrcd)
			srq->num = nic_srq_num(srq->nic);
		shim_leave(ctx);
	}
	if (err) {
		free(srq);
		return shim_fail(-err);
	}
	srq->ibv.handle = srq->link.handle;
	shim_pd_get(pd);
	if (srq->xrcd)
		atomic_fetch_add(&srq->xrcd->users, 1);
	return &srq->ibv;
}

SHIM_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex attr = {.srq_context = init->srq_context, .attr = init->attr};
	struct ibv_srq *srq;

	if (!shim_is_ours(pd->context))
		return shim_real(ibv_create_srq)(pd, init);
	srq = srq_create(pd, &attr);
	init->attr = attr.attr;
	return srq;
}

/** @return the mask of the attributes that an SRQ type requires besides the PD; -1: no such type. */
static int members_of(enum ibv_srq_type type)
{
	switch (type) {
	case IBV_SRQT_BASIC:
		return 0;
	case IBV_SRQT_XRC:
		return IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	case IBV_SRQT_TM:
		return IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
	default:
		return -1;
	}
}

/* For a basic SRQ with a PD and no further attributes, verbs.h calls ibv_create_srq; else it calls this function. */
struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t base = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	int members = members_of(type);
	struct ibv_srq_init_attr_ex own = {.srq_context = attr->srq_context, .attr = attr->attr, .srq_type = type};
	struct ibv_srq *srq;

	context = shim_context_here(context);
	if (members < 0 || attr->comp_mask & ~(base | (uint32_t)members))
		return shim_fail(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		return shim_fail(EINVAL);
	if ((attr->comp_mask & (uint32_t)members) != (uint32_t)members)
		return shim_fail(EINVAL);
	if (members & IBV_SRQ_INIT_ATTR_CQ)
		own.cq = attr->cq;
	if (members & IBV_SRQ_INIT_ATTR_XRCD)
		own.xrcd = attr->xrcd;
	if (members & IBV_SRQ_INIT_ATTR_TM)
		own.tm_cap = attr->tm_cap;
	if ((members && (!own.cq || own.cq->context != context)) ||
	    (members & IBV_SRQ_INIT_ATTR_XRCD && (!own.xrcd || own.xrcd->context != context)))
		return shim_fail(EINVAL);
	srq = srq_create(attr->pd, &own);
	attr->attr = own.attr;
	return srq;
}

/** Translate and execute an operation on tagged buffers. Sets wr->tm.handle. @return 0, or a negative errno. */
static int operate(struct nic_srq *srq, struct ibv_ops_wr *wr)
{
	struct nic_tag_op op = {
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.signaled = wr->flags & IBV_OPS_SIGNALED,
		.sync = wr->flags & IBV_OPS_TM_SYNC,
		.handled = wr->tm.unexpected_cnt,
		.handle = wr->tm.handle,
		.recv_wr_id = wr->tm.add.recv_wr_id,
		.sg_list = (const struct nic_sge *)wr->tm.add.sg_list,
		.num_sge = (uint32_t)wr->tm.add.num_sge,
		.tag = wr->tm.add.tag,
		.mask = wr->tm.add.mask,
	};
	int err = nic_tag_op(srq, &op);

	wr->tm.handle = op.handle;
	return err;
}

int shim_post_srq_ops(struct ibv_srq *ibv, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad_wr)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	int err = -EIO;

	if (shim_enter(ctx)) {
		for (err = 0; wr; wr = wr->next) {
			err = operate(srq_of(ibv)->nic, wr);
			if (err)
				break;
		}
		shim_leave(ctx);
	}
	*bad_wr = wr;
	return -err;
}

int shim_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	if (!srq_of(srq)->xrcd)
		return EOPNOTSUPP;
	*num = srq_of(srq)->num;
	return 0;
}

/* Change the size and the limit, or neither. The limit is 0 meanwhile, so that the new size is not checked against
 * the old limit, nor the new limit against the old size. */
static int resize_and_set_limit(struct nic_srq *srq, const struct ibv_srq_attr *attr)
{
	uint32_t max_wr, max_sge, limit;
	int err;

	if (attr->srq_limit > attr->max_wr)
		return -EINVAL;
	nic_srq_query(srq, &max_wr, &max_sge, &limit);
	nic_srq_set_limit(srq, 0);
	err = nic_srq_resize(srq, attr->max_wr);
	nic_srq_set_limit(srq, err ? limit : attr->srq_limit);
	return err;
}

SHIM_EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_modify_srq)(ibv, attr, mask);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct nic_srq *srq = srq_of(ibv)->nic;
	int err = 0;

	if (!SHIM_INTACT(srq_of(ibv)))
		return shim_errno(-ENOENT);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return shim_errno(-EINVAL);
	if (!shim_enter(ctx))
		return shim_errno(-EIO);
	if (mask == (IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		err = resize_and_set_limit(srq, attr);
	else if (mask & IBV_SRQ_MAX_WR)
		err = nic_srq_resize(srq, attr->max_wr);
	else if (mask & IBV_SRQ_LIMIT)
		err = nic_srq_set_limit(srq, attr->srq_limit);
	shim_leave(ctx);
	return shim_errno(err);
}

SHIM_EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_query_srq)(ibv, attr);

	struct shim_context *ctx = shim_ctx(ibv->context);

	if (!SHIM_INTACT(srq_of(ibv)))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	nic_srq_query(srq_of(ibv)->nic, &attr->max_wr, &attr->max_sge, &attr->srq_limit);
	shim_leave(ctx);
	return 0;
}

SHIM_EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_destroy_srq)(ibv);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_srq *srq = srq_of(ibv);
	uint32_t reported;
	int err;

	if (!SHIM_INTACT(srq))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	err = nic_srq_destroy(srq->nic);
	if (!err)
		shim_object_remove(ctx, &srq->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	reported = shim_event_purge(&ctx->async, &srq->async);
	shim_event_wait_acks(&ibv->mutex, &ibv->cond, &ibv->events_completed, reported);
	shim_pd_put(ibv->pd);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	free(srq);
	return 0;
}
