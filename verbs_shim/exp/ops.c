/* SPDX-License-Identifier: BSD-3-Clause */
/* ops.c - the table through which the inline functions of verbs_exp.h find this library. */
#include "exp.h"

extern const struct ibv_exp_ops uroce_exp_ops;

SHIM_EXPORT const struct ibv_exp_ops uroce_exp_ops = {
	.size = sizeof(uroce_exp_ops),
	.owner = shim_post_send,
	.query_device = exp_query_device,
	.query_gid_attr = exp_query_gid_attr,
	.create_qp = exp_create_qp,
	.modify_qp = exp_modify_qp,
	.post_send = exp_post_send,
	.create_cq = exp_create_cq,
	.modify_cq = exp_modify_cq,
	.poll_cq = exp_poll_cq,
	.create_srq = exp_create_srq,
	.reg_mr = exp_reg_mr,
	.bind_mw = exp_bind_mw,
	.alloc_dm = exp_alloc_dm,
	.free_dm = exp_free_dm,
	.memcpy_dm = exp_memcpy_dm,
	.post_task = exp_post_task,
};
