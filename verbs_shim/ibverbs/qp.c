/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c - queue pairs: creation, attributes, destruction (IBTA 11.2.4). The NIC checks the transitions; this file
 * translates structures and refuses what the NIC does not support (alternate paths, rate limits). XRC targets:
 * xrc_target.c.
 */
#include <string.h>

#include "child.h"
#include "shim.h"
#include "xrc.h"

static struct shim_qp *qp_of(struct ibv_qp *qp)
{
	return container_of(qp, struct shim_qp, ibv);
}

/* ---- creation and destruction ------------------------------------------------------------------------ */

static int init_translate(struct shim_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr,
			  const struct shim_qp_extra *extra, struct nic_qp_init *out)
{
	const struct ibv_context *context = pd->context;
	const struct shim_personality *personality = shim_ctx(context)->personality;
	bool initiator = attr->qp_type == IBV_QPT_XRC_SEND; /* receives nothing: recv_cq and srq are ignored */
	struct ibv_cq *recv_cq = initiator ? attr->send_cq : attr->recv_cq;
	struct ibv_srq *srq = initiator ? NULL : attr->srq;

	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC && attr->qp_type != IBV_QPT_UD && !initiator)
		return -EOPNOTSUPP;
	if (!attr->send_cq || !recv_cq || attr->send_cq->context != context || recv_cq->context != context ||
	    (srq && srq->context != context))
		return -EINVAL;
	if (!shim_pd_intact(pd) || !SHIM_INTACT(container_of(attr->send_cq, struct shim_cq, ibv)) ||
	    !SHIM_INTACT(container_of(recv_cq, struct shim_cq, ibv)) ||
	    (srq && !SHIM_INTACT(container_of(srq, struct shim_srq, ibv))))
		return -ENOENT;
	*out = (struct nic_qp_init){
		.type = initiator ? NIC_QPT_XRC_INI : (enum nic_qp_type)attr->qp_type,
		.pd = container_of(pd, struct shim_pd, ibv)->nic,
		.send_cq = container_of(attr->send_cq, struct shim_cq, ibv)->nic,
		.recv_cq = container_of(recv_cq, struct shim_cq, ibv)->nic,
		.srq = srq ? container_of(srq, struct shim_srq, ibv)->nic : NULL,
		.cap = {attr->cap.max_send_wr, attr->cap.max_recv_wr, attr->cap.max_send_sge, attr->cap.max_recv_sge,
			attr->cap.max_inline_data},
		.sq_sig_all = attr->sq_sig_all,
		/* Programs set max_atomic_arg for any QP type. It is ignored for types other than RC: their QPs
		 * refuse extended atomics when these are posted. */
		.max_atomic_arg = attr->qp_type == IBV_QPT_RC ? extra->max_atomic_arg : 0,
		.be_replies = extra->be_replies ? SHIM_ATOMIC_SIZES : personality->be_sizes,
		.cross_channel = extra->cross_channel,
		.managed_send = extra->managed_send,
		.managed_recv = extra->managed_recv,
		.user = qp,
	};
	qp->max_atomic_arg = out->max_atomic_arg;
	qp->no_atomics = personality->be_asked && !extra->be_replies;
	return 0;
}

static void cap_translate(const struct nic_qp_cap *cap, struct ibv_qp_cap *out)
{
	*out = (struct ibv_qp_cap){cap->max_send_wr, cap->max_recv_wr, cap->max_send_sge, cap->max_recv_sge,
				   cap->max_inline_data};
}

static void qp_fill(struct shim_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = pd->context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->qp_num = nic_qp_num(qp->nic);
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	ibv->handle = qp->link.handle;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->cap = attr->cap;
	shim_pd_get(pd);
}

struct ibv_qp *shim_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, const struct shim_qp_extra *extra)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_qp *qp = calloc(1, sizeof(*qp));
	struct nic_qp_init init;
	int err;

	if (!qp)
		return shim_fail(ENOMEM);
	qp->ibv.qp_type = attr->qp_type;
	err = init_translate(qp, pd, attr, extra, &init);
	if (!err && extra->extended)
		err = -shim_wr_ex_init(qp, extra->send_ops);
	if (err)
		goto free_qp;
	err = -EIO;
	if (shim_enter(ctx)) {
		err = nic_qp_create(ctx->nic, &init, &qp->nic);
		if (!err)
			shim_object_add(ctx, SHIM_QP, &qp->link);
		shim_leave(ctx);
	}
	if (err)
		goto fini_batch;
	cap_translate(&init.cap, &attr->cap);
	qp_fill(qp, pd, attr);
	return &qp->ibv;

fini_batch:
	if (extra->extended)
		shim_wr_ex_fini(qp);
free_qp:
	free(qp);
	return shim_fail(-err);
}

SHIM_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_create_qp)(pd, attr);
	return shim_qp_create(pd, attr, &(struct shim_qp_extra){0});
}

struct ibv_qp *shim_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint32_t of_target = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD;
	struct shim_qp_extra extra = {.extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};

	context = shim_context_here(context);
	if (attr->qp_type == IBV_QPT_XRC_RECV && attr->comp_mask & IBV_QP_INIT_ATTR_XRCD &&
	    !(attr->comp_mask & ~of_target))
		return shim_target_create(context, attr);
	if (attr->comp_mask & ~known || (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags))
		return shim_fail(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		return shim_fail(EINVAL);
	/* The cast below is valid: struct ibv_qp_init_attr_ex begins with the members of struct ibv_qp_init_attr. */
	if (extra.extended)
		extra.send_ops = attr->send_ops_flags;
	return shim_qp_create(attr->pd, (struct ibv_qp_init_attr *)attr, &extra);
}

SHIM_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	if (!shim_is_ours(qp->context))
		return shim_real(ibv_qp_to_qp_ex)(qp);
	return qp_of(qp)->extended ? &qp_of(qp)->ex : NULL;
}

SHIM_EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_destroy_qp)(ibv);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_qp *qp = qp_of(ibv);
	uint32_t reported;
	int err;

	if (!SHIM_INTACT(qp))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	pmd_settle(ctx->engine);
	err = qp->remote_qpn || shim_target_leave(qp) ? 0 : nic_qp_destroy(qp->nic);
	if (!err)
		shim_object_remove(ctx, &qp->link);
	if (qp->remote_qpn)
		shim_remote_leave(qp, true);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	reported = shim_event_purge(&ctx->async, &qp->async);
	shim_event_wait_acks(&ibv->mutex, &ibv->cond, &ibv->events_completed, reported);
	if (qp->extended)
		shim_wr_ex_fini(qp);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->users, 1);
	else
		shim_pd_put(ibv->pd);
	free(qp);
	return 0;
}

/* ---- multicast (IBTA 11.3.2) -------------------------------------------------------------------------------- */

/* Attach a QP to a multicast group, or detach it, by calling `change`. The LID of the verbs is ignored, as by other
 * RoCE devices: RoCE has no multicast LIDs. */
static int mcast(struct ibv_qp *ibv, const union ibv_gid *gid,
		 int (*change)(struct pmd_engine *engine, struct nic_qp *qp, const struct nic_gid *group))
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	struct nic_gid group;
	int err;

	if (!SHIM_INTACT(qp_of(ibv)))
		return shim_errno(-ENOENT);
	memcpy(group.raw, gid->raw, sizeof(group.raw));
	if (!shim_enter(ctx))
		return EIO;
	err = qp_of(ibv)->nic ? change(ctx->engine, qp_of(ibv)->nic, &group) : -EINVAL;
	shim_leave(ctx);
	return shim_errno(err);
}

SHIM_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return shim_is_ours(qp->context) ? mcast(qp, gid, pmd_mcast_attach) : shim_real(ibv_attach_mcast)(qp, gid, lid);
}

SHIM_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return shim_is_ours(qp->context) ? mcast(qp, gid, pmd_mcast_detach) : shim_real(ibv_detach_mcast)(qp, gid, lid);
}

/* ---- attributes -------------------------------------------------------------------------------------- */

/* The attributes that every provider knows. Rate limits, whose bit is above these, are optional: we have none. */
#define MASK_KNOWN   ((IBV_QP_DEST_QPN << 1) - 1)
/* Refused: RoCE has no alternate paths, and capabilities are fixed at creation. */
#define MASK_REFUSED (IBV_QP_ALT_PATH | IBV_QP_CAP)
/* The rights that a QP can have. Some programs pass all access flags of a memory region: the others are ignored. */
#define QP_RIGHTS                                                                                                      \
	(NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |        \
	 NIC_ACCESS_MW_BIND | NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT)

static int attr_translate(const struct ibv_qp_attr *a, int mask, struct nic_qp_attr *out)
{
	if (mask & ~MASK_KNOWN)
		return -EOPNOTSUPP;
	if (mask & MASK_REFUSED || (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED))
		return -EINVAL;
	*out = (struct nic_qp_attr){
		.qp_state = (enum nic_qp_state)a->qp_state,
		.cur_qp_state = (enum nic_qp_state)a->cur_qp_state,
		.path_mtu = (enum nic_mtu)a->path_mtu,
		.qkey = a->qkey,
		.rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn,
		.dest_qp_num = a->dest_qp_num,
		.qp_access_flags = a->qp_access_flags & QP_RIGHTS,
		.en_sqd_async_notify = a->en_sqd_async_notify,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.port_num = a->port_num,
		.pkey_index = a->pkey_index,
	};
	return !(mask & IBV_QP_AV) || shim_av_from_ibv(&a->ah_attr, &out->av) ? 0 : -EINVAL;
}

SHIM_EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_modify_qp)(ibv, attr, mask);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_qp *qp = qp_of(ibv);
	struct nic_qp_attr nic_attr;
	int err = SHIM_INTACT(qp) ? attr_translate(attr, mask, &nic_attr) : -ENOENT;

	if (err)
		return shim_errno(err);
	if (!shim_enter(ctx))
		return shim_errno(-EIO);
	if (mask & IBV_QP_STATE && (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		pmd_settle(ctx->engine);
	if (qp->remote_qpn)
		err = shim_remote_modify(qp, &nic_attr, (uint32_t)mask);
	else
		err = nic_qp_modify(qp->nic, &nic_attr, (uint32_t)mask);
	if (!err) {
		if (qp->nic)
			ibv->state = (enum ibv_qp_state)nic_qp_state(qp->nic);
		pmd_doorbell(ctx->engine); /* SQD to RTS, or a flush, may have created work for the engine */
	}
	shim_leave(ctx);
	if (!err && mask & IBV_QP_AV)
		pmd_resolve(ctx->engine, &nic_attr.av.dgid);
	return shim_errno(err);
}

static void attr_fill(const struct nic_qp_attr *a, struct ibv_qp_attr *out)
{
	memset(out, 0, sizeof(*out));
	out->qp_state = (enum ibv_qp_state)a->qp_state;
	out->cur_qp_state = (enum ibv_qp_state)a->cur_qp_state;
	out->path_mtu = (enum ibv_mtu)a->path_mtu;
	out->path_mig_state = IBV_MIG_MIGRATED;
	out->qkey = a->qkey;
	out->rq_psn = a->rq_psn;
	out->sq_psn = a->sq_psn;
	out->dest_qp_num = a->dest_qp_num;
	out->qp_access_flags = a->qp_access_flags;
	shim_av_to_ibv(&a->av, &out->ah_attr);
	out->pkey_index = a->pkey_index;
	out->en_sqd_async_notify = a->en_sqd_async_notify;
	out->sq_draining = a->sq_draining;
	out->max_rd_atomic = a->max_rd_atomic;
	out->max_dest_rd_atomic = a->max_dest_rd_atomic;
	out->min_rnr_timer = a->min_rnr_timer;
	out->port_num = a->port_num;
	out->timeout = a->timeout;
	out->retry_cnt = a->retry_cnt;
	out->rnr_retry = a->rnr_retry;
}

SHIM_EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_query_qp)(ibv, attr, mask, init);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_qp *qp = qp_of(ibv);
	struct nic_qp_attr nic_attr;
	struct nic_qp_init nic_init = {0};
	int err = 0;

	if (mask & ~(IBV_QP_RATE_LIMIT - 1)) /* reserved bits below RATE_LIMIT are ignored: pyverbs sets them */
		return shim_errno(-EOPNOTSUPP);
	if (!SHIM_INTACT(qp))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	if (qp->remote_qpn)
		err = shim_remote_query(qp, &nic_attr);
	else
		nic_qp_query(qp->nic, &nic_attr, &nic_init);
	if (!err && mask & IBV_QP_STATE)
		ibv->state = (enum ibv_qp_state)nic_attr.qp_state;
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	attr_fill(&nic_attr, attr);
	cap_translate(&nic_init.cap, &attr->cap);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context,
		.send_cq = ibv->send_cq,
		.recv_cq = ibv->recv_cq,
		.srq = ibv->srq,
		.cap = attr->cap,
		.qp_type = ibv->qp_type,
		.sq_sig_all = qp->sq_sig_all,
	};
	return 0;
}

/* Payload is written in order, but with unspecified store instructions, so no order is guaranteed to the program. */
SHIM_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (!shim_is_ours(qp->context))
		return shim_real(ibv_query_qp_data_in_order)(qp, op, flags);
	return 0;
}
