/* SPDX-License-Identifier: BSD-3-Clause */
/* exp_rig.h - functions for tests of the experimental verbs: QPs for extended atomics, and requests. */
#ifndef EXP_RIG_H
#define EXP_RIG_H

#include "rig.h"

/** Create a QP of end `e` for extended atomics of up to `max_atomic_arg` bytes. */
static inline struct ibv_qp *exp_qp(struct rig *rig, int e, enum ibv_qp_type type, uint32_t max_atomic_arg,
				    uint32_t create_flags)
{
	struct rig_end *end = &rig->end[e];
	struct ibv_qp_init_attr plain = rig_qp_init(end, type);
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = plain.send_cq,
		.recv_cq = plain.recv_cq,
		.cap = plain.cap,
		.qp_type = type,
		.comp_mask =
			IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = end->pd,
		.exp_create_flags = create_flags,
		.max_atomic_arg = max_atomic_arg,
	};

	end->qp = ibv_exp_create_qp(end->ctx, &attr);
	assert_non_null(end->qp);
	return end->qp;
}

/** Create a QP for extended atomics at each end, and connect the two. */
static inline void exp_connect(struct rig *rig, uint32_t max_atomic_arg, uint32_t create_flags)
{
	struct ibv_qp *a = exp_qp(rig, 0, IBV_QPT_RC, max_atomic_arg, create_flags);

	rig_connect_qps(rig, a, exp_qp(rig, 1, IBV_QPT_RC, max_atomic_arg, create_flags));
}

/** A request for an extended atomic of 1 << log_size bytes, from end 0, on offset `at` of end 1's buffer. */
static inline struct ibv_exp_send_wr exp_masked(struct rig *rig, enum ibv_exp_wr_opcode opcode, uint32_t log_size,
						struct ibv_sge *sge, size_t at)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 7;
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = log_size;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)rig->end[1].buf + at;
	wr.ext_op.masked_atomics.rkey = rig->end[1].mr->rkey;
	return wr;
}

/** A signaled request with one element, from end 0; remote address: offset `at` of end 1's buffer. */
static inline struct ibv_exp_send_wr exp_ordinary(enum ibv_exp_wr_opcode opcode, struct ibv_sge *sge, struct rig *rig,
						  size_t at)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = opcode;
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)rig->end[1].buf + at;
	wr.wr.rdma.rkey = rig->end[1].mr->rkey;
	return wr;
}

/** Post one request at end 0 and wait for its completion. */
static inline struct ibv_wc exp_run(struct rig *rig, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad = NULL;

	assert_int_equal(ibv_exp_post_send(rig->end[0].qp, wr, &bad), 0);
	return rig_wait(rig->end[0].cq);
}

/** Check that posting the request is refused. */
static inline void exp_refused(struct ibv_qp *qp, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad = NULL;

	assert_int_equal(ibv_exp_post_send(qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, wr);
}

#endif
