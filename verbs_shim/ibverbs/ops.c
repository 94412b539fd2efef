/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ops.c - the operations that the inline functions of verbs.h find in a context. Operations for flows, work
 * queues, counters, null MRs and rate limits stay NULL; for these the inline functions fail with EOPNOTSUPP.
 */
#include "cq.h"
#include "shim.h"
#include "xrc.h"

static int compat_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return ibv_query_device(context, attr);
}

static int compat_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr);
}

void shim_ops_init(struct verbs_context *vctx)
{
	vctx->context.ops = (struct ibv_context_ops){
		._compat_query_device = compat_query_device,
		._compat_query_port = compat_query_port,
		.alloc_mw = shim_alloc_mw,
		.bind_mw = shim_bind_mw,
		.dealloc_mw = shim_dealloc_mw,
		.poll_cq = shim_poll_cq,
		.req_notify_cq = shim_req_notify_cq,
		.post_srq_recv = shim_post_srq_recv,
		.post_send = shim_post_send,
		.post_recv = shim_post_recv,
	};
	vctx->query_port = shim_query_port;
	vctx->advise_mr = shim_advise_mr;
	vctx->alloc_parent_domain = shim_alloc_parent_domain;
	vctx->dealloc_td = shim_dealloc_td;
	vctx->alloc_td = shim_alloc_td;
	vctx->alloc_dm = shim_alloc_dm;
	vctx->free_dm = shim_free_dm;
	vctx->reg_dm_mr = shim_reg_dm_mr;
	vctx->query_rt_values = shim_query_rt_values;
	vctx->create_cq_ex = shim_create_cq_ex;
	vctx->modify_cq = shim_modify_cq;
	vctx->query_device_ex = shim_query_device_ex;
	vctx->create_qp_ex = shim_create_qp_ex;
	vctx->get_srq_num = shim_get_srq_num;
	vctx->create_srq_ex = shim_create_srq_ex;
	vctx->post_srq_ops = shim_post_srq_ops;
	vctx->open_xrcd = shim_open_xrcd;
	vctx->close_xrcd = shim_close_xrcd;
	vctx->open_qp = shim_open_qp;
}
