/* SPDX-License-Identifier: BSD-3-Clause */
/* exp.h - implementations of the functions of verbs_exp.h, which documents them (private to verbs_shim/exp). */
#ifndef EXP_H
#define EXP_H

#include "ibverbs/child.h"
#include "ibverbs/shim.h"

/* defined in query.c */
int exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);
int exp_query_gid_attr(struct ibv_context *context, uint8_t port, unsigned index, struct ibv_exp_gid_attr *attr);

/* defined in qp.c and post.c */
struct ibv_qp *exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);
int exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask);
int exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
int exp_post_task(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);

/* CQs and SRQs: defined in cq.c */
struct ibv_cq *exp_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector, struct ibv_exp_cq_init_attr *attr);
int exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int mask);
int exp_poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc, uint32_t wc_size);
struct ibv_srq *exp_create_srq(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr);

/* defined in memory.c */
struct ibv_mr *exp_reg_mr(struct ibv_exp_reg_mr_in *in);
int exp_bind_mw(struct ibv_exp_mw_bind *bind);
/** Translate the parameters of a memory window bind to those of verbs.h. @return false: unknown access rights. */
bool exp_bind_info(const struct ibv_exp_mw_bind_info *in, struct ibv_mw_bind_info *out);
struct ibv_exp_dm *exp_alloc_dm(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr);
int exp_free_dm(struct ibv_exp_dm *dm);
int exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr);

#endif
