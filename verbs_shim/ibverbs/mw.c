/* SPDX-License-Identifier: BSD-3-Clause */
/* mw.c - memory windows of types 1 and 2B (IBTA 10.6.6.2, 10.6.7). A work request binds a window of either type. */
#include "shim.h"

struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_mw *mw = calloc(1, sizeof(*mw));
	int err = -EIO;

	if (!mw)
		return shim_fail(ENOMEM);
	if (!shim_pd_intact(pd)) {
		err = -ENOENT;
	} else if (shim_enter(ctx)) {
		err = nic_mw_alloc(container_of(pd, struct shim_pd, ibv)->nic, (enum nic_mw_type)type, &mw->nic);
		if (!err)
			shim_object_add(ctx, SHIM_MW, &mw->link);
		shim_leave(ctx);
	}
	if (err) {
		free(mw);
		return shim_fail(-err);
	}
	mw->ibv = (struct ibv_mw){
		.context = pd->context,
		.pd = pd,
		.rkey = nic_mw_rkey(mw->nic),
		.handle = mw->link.handle,
		.type = type,
	};
	shim_pd_get(pd);
	return &mw->ibv;
}

int shim_dealloc_mw(struct ibv_mw *ibv)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_mw *mw = container_of(ibv, struct shim_mw, ibv);
	int err;

	if (!SHIM_INTACT(mw))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	err = nic_mw_dealloc(mw->nic);
	if (!err)
		shim_object_remove(ctx, &mw->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	shim_pd_put(ibv->pd);
	free(mw);
	return 0;
}

bool shim_bind_translate(struct nic_bind *out, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_mr *mr = info->mr;

	if (!mw || (mr && (mr->context != mw->context || container_of(mr, struct shim_mr, ibv)->imported)))
		return false;
	*out = (struct nic_bind){
		.mw = container_of(mw, struct shim_mw, ibv)->nic,
		.mr = mr ? container_of(mr, struct shim_mr, ibv)->nic : NULL,
		.addr = info->addr,
		.len = info->length,
		/* A window has no local rights. Programs set LOCAL_WRITE anyway, and adapters ignore it. */
		.access = info->mw_access_flags & ~(unsigned)IBV_ACCESS_LOCAL_WRITE,
		.rkey = rkey,
	};
	return true;
}

/* Bind a type 1 window: post a work request that carries the new key to the NIC. On success mw->rkey is the new key.
 * If the request fails later, the NIC keeps the old key, which differs from mw->rkey until a bind succeeds. */
int shim_bind_mw(struct ibv_qp *ibv_qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct shim_context *ctx = shim_ctx(ibv_qp->context);
	const struct shim_qp *qp = container_of(ibv_qp, struct shim_qp, ibv);
	struct nic_send_wr wr = {.wr_id = bind->wr_id, .opcode = NIC_WR_BIND_MW, .flags = bind->send_flags};
	int err;

	if (mw->context != ibv_qp->context || mw->type != IBV_MW_TYPE_1 ||
	    !shim_bind_translate(&wr.bind, mw, ibv_inc_rkey(mw->rkey), &bind->bind_info))
		return EINVAL;
	if (!shim_enter(ctx))
		return EIO;
	err = qp->nic ? nic_post_send(qp->nic, &wr) : -EINVAL;
	if (!err) {
		pmd_doorbell(ctx->engine);
		mw->rkey = wr.bind.rkey;
	}
	shim_leave(ctx);
	return shim_errno(err);
}
