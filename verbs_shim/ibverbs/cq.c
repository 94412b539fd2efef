/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues (IBTA 11.2.6, 11.4.2). Polling copies the NIC's completions straight into the caller's
 * array, which has the same layout (abi_check.c). Polling an empty CQ makes progress.
 */
#include "child.h"
#include "cq.h"

static struct shim_cq *cq_of(struct ibv_cq *cq)
{
	return container_of(cq, struct shim_cq, ibv);
}

static void channel_ref(struct ibv_comp_channel *channel, int n)
{
	if (channel)
		__atomic_fetch_add(&channel->refcnt, n, __ATOMIC_RELEASE);
}

struct shim_cq *shim_cq_create(struct shim_context *ctx, uint32_t depth, void *cq_context,
			       struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	struct ibv_context *context = &ctx->vctx.context;
	struct shim_cq *cq;
	int err = -EIO;

	if (!depth || comp_vector >= (uint32_t)context->num_comp_vectors || (channel && channel->context != context))
		return shim_fail(EINVAL);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return shim_fail(ENOMEM);
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
	if (shim_enter(ctx)) {
		err = nic_cq_create(ctx->nic, depth, cq, &cq->nic);
		if (!err)
			shim_object_add(ctx, SHIM_CQ, &cq->link);
		shim_leave(ctx);
	}
	if (err) {
		free(cq);
		return shim_fail(-err);
	}
	cq->ibv.cqe = (int)nic_cq_depth(cq->nic);
	cq->ibv.handle = cq->link.handle;
	channel_ref(channel, 1);
	return cq;
}

SHIM_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					 struct ibv_comp_channel *channel, int comp_vector)
{
	struct shim_cq *cq;

	if (!shim_is_ours(context))
		return shim_real(ibv_create_cq)(context, cqe, cq_context, channel, comp_vector);
	if (cqe < 0 || comp_vector < 0)
		return shim_fail(EINVAL);
	context = shim_context_here(context);
	cq = shim_cq_create(shim_ctx(context), (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
	return cq ? &cq->ibv : NULL;
}

SHIM_EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_resize_cq)(ibv, cqe);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_cq *cq = cq_of(ibv);
	int err;

	if (!SHIM_INTACT(cq))
		return shim_errno(-ENOENT);
	if (cqe <= 0)
		return shim_errno(-EINVAL);
	if (!shim_enter(ctx))
		return shim_errno(-EIO);
	err = nic_cq_resize(cq->nic, (uint32_t)cqe);
	if (!err)
		ibv->cqe = (int)nic_cq_depth(cq->nic);
	shim_leave(ctx);
	return shim_errno(err);
}

SHIM_EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_destroy_cq)(ibv);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_cq *cq = cq_of(ibv);
	struct ibv_comp_channel *channel = ibv->channel;
	uint32_t comp = 0, async;
	int err;

	if (!SHIM_INTACT(cq))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	err = nic_cq_destroy(cq->nic);
	if (!err)
		shim_object_remove(ctx, &cq->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	if (channel)
		comp = shim_event_purge(&container_of(channel, struct shim_channel, ibv)->events, &cq->comp);
	async = shim_event_purge(&ctx->async, &cq->async);
	shim_event_wait_acks(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed, comp);
	shim_event_wait_acks(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, async);
	channel_ref(channel, -1);
	pthread_mutex_destroy(&cq->poll_lock);
	free(cq);
	return 0;
}

int shim_take_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc, struct nic_cq_note *note)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	struct nic_cq *cq = cq_of(ibv)->nic;
	int got;

	if (!shim_enter(ctx))
		return -EIO;
	got = nic_cq_poll(cq, n, (struct nic_wc *)wc);
	if (!got && pmd_progress(ctx->engine, n > 0 ? (unsigned)n : 1))
		got = nic_cq_poll(cq, n, (struct nic_wc *)wc);
	if (got > 0 && note)
		*note = nic_cq_polled_note(cq);
	shim_leave(ctx);
	return got;
}

int shim_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	return shim_take_cq(ibv, n, wc, NULL);
}

int shim_cq_ignore_overrun(struct ibv_cq *ibv, bool ignore)
{
	struct shim_context *ctx = shim_ctx(ibv->context);

	if (!SHIM_INTACT(cq_of(ibv)))
		return -ENOENT;
	if (!shim_enter(ctx))
		return -EIO;
	nic_cq_ignore_overrun(cq_of(ibv)->nic, ignore);
	shim_leave(ctx);
	return 0;
}

int shim_cq_moderate(struct ibv_cq *ibv, uint16_t count, uint16_t period_us)
{
	struct shim_context *ctx = shim_ctx(ibv->context);

	if (!SHIM_INTACT(cq_of(ibv)))
		return -ENOENT;
	if (!shim_enter(ctx))
		return -EIO;
	nic_cq_moderate(cq_of(ibv)->nic, count, period_us);
	shim_leave(ctx);
	return 0;
}

int shim_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return shim_errno(-EINVAL);
	return shim_errno(shim_cq_moderate(ibv, attr->moderate.cq_count, attr->moderate.cq_period));
}

int shim_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct shim_context *ctx = shim_ctx(ibv->context);

	if (!shim_enter(ctx))
		return EIO;
	nic_cq_arm(cq_of(ibv)->nic, solicited_only);
	if (ibv->channel)
		pmd_expect_sleep(ctx->engine);
	shim_leave(ctx);
	return 0;
}
