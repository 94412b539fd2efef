/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.c - shared receive queues, basic and of XRC domains (IBTA 10.2.9, 11.2.3, A14). Tag matching is refused. */
#include "shim.h"

static struct shim_srq *srq_of(struct ibv_srq *srq)
{
	return container_of(srq, struct shim_srq, ibv);
}

/* The new SRQ has limit 0: only ibv_modify_srq arms the limit. Engine lock held. */
static int create(struct ibv_pd *ibv, const struct ibv_srq_attr *attr, struct ibv_cq *cq, struct shim_srq *srq)
{
	struct nic_pd *pd = container_of(ibv, struct shim_pd, ibv)->nic;

	if (!srq->xrcd)
		return nic_srq_create(pd, attr->max_wr, attr->max_sge, 0, srq, &srq->nic);
	return nic_srq_create_xrc(pd, srq->xrcd->nic, container_of(cq, struct shim_cq, ibv)->nic, attr->max_wr,
				  attr->max_sge, 0, srq, &srq->nic);
}

/** @param xrcd NULL: a basic SRQ; else messages complete to `cq`. */
static struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *init, struct ibv_xrcd *xrcd,
				  struct ibv_cq *cq)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_srq *srq = calloc(1, sizeof(*srq));
	uint32_t limit;
	int err = -EIO;

	if (!srq)
		return shim_fail(ENOMEM);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = init->srq_context;
	srq->ibv.pd = pd;
	srq->xrcd = xrcd ? container_of(xrcd, struct shim_xrcd, ibv) : NULL;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	if (!shim_pd_intact(pd) || (cq && !SHIM_INTACT(container_of(cq, struct shim_cq, ibv)))) {
		err = -ENOENT;
	} else if (shim_enter(ctx)) {
		err = create(pd, &init->attr, cq, srq);
		if (!err)
			shim_object_add(ctx, SHIM_SRQ, &srq->link);
		if (!err)
			nic_srq_query(srq->nic, &init->attr.max_wr, &init->attr.max_sge, &limit);
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
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_create_srq)(pd, init);
	return srq_create(pd, init, NULL, NULL);
}

/* Called for other SRQ types and for attributes without a PD: for a basic SRQ with a PD, verbs.h calls
 * ibv_create_srq itself. */
struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc_only = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (type == IBV_SRQT_XRC ? xrc_only : 0);

	if (attr->comp_mask & ~known || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
		return shim_fail(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		return shim_fail(EINVAL);
	if (type == IBV_SRQT_BASIC)
		return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, NULL, NULL);
	if ((attr->comp_mask & xrc_only) != xrc_only || !attr->xrcd || !attr->cq || attr->xrcd->context != context ||
	    attr->cq->context != context)
		return shim_fail(EINVAL);
	return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, attr->xrcd, attr->cq);
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
