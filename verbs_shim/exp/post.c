/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - ibv_exp_post_send and ibv_exp_post_task. ibv_exp_post_send posts all requests that ibv_post_send can post
 * except ATOMIC WRITE, and also extended atomics, cross-channel requests and no-ops. ibv_exp_post_task posts several
 * lists of requests.
 */
#include <string.h>

#include "exp.h"

/* Copy an operand of `size` bytes to `words`. @param value up to 8 bytes: the operand itself; more: a pointer to the
 * operand. @return false: the pointer is NULL. */
static bool operand_get(uint64_t value, uint32_t size, uint64_t *words)
{
	if (size <= sizeof(value)) {
		words[0] = size == 4 ? (uint32_t)value : value;
		return true;
	}
	if (!value)
		return false;
	memcpy(words, (const void *)(uintptr_t)value, size);
	return true;
}

/* Translate an extended atomic for the NIC. The size is checked before the operands are read: operands longer than 8
 * bytes are passed as pointers, which can be trusted only if the QP was created for operands of this size. */
static int masked_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_atomic *a,
			    struct nic_send_wr *out)
{
	const __typeof__(wr->ext_op.masked_atomics) *in = &wr->ext_op.masked_atomics;
	bool got;

	if (!(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE) || in->log_arg_sz < 2 || in->log_arg_sz > 5)
		return -EINVAL;
	a->size = 1u << in->log_arg_sz;
	if (a->size > qp->max_atomic_arg)
		return -EINVAL;
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP) {
		const struct ibv_exp_cmp_swap *op = &in->wr_data.inline_data.op.cmp_swap;

		a->op = NIC_ATOMIC_MCS;
		got = operand_get(op->swap_val, a->size, a->swap_add) &&
		      operand_get(op->compare_val, a->size, a->compare) &&
		      operand_get(op->swap_mask, a->size, a->swap_mask) &&
		      operand_get(op->compare_mask, a->size, a->compare_mask);
	} else {
		const struct ibv_exp_fetch_add *op = &in->wr_data.inline_data.op.fetch_add;

		a->op = NIC_ATOMIC_MFA;
		got = operand_get(op->add_val, a->size, a->swap_add) &&
		      operand_get(op->field_boundary, a->size, a->boundary);
	}
	out->masked.operation = a;
	out->masked.remote_addr = in->remote_addr;
	out->masked.rkey = in->rkey;
	return got ? 0 : -EINVAL;
}

static int bind_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	struct ibv_mw_bind_info info;

	return exp_bind_info(&wr->bind_mw.bind_info, &info)
		       ? shim_bind_wr_translate(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &info, out)
		       : -EINVAL;
}

/* A negative count is cast to a count above INT32_MAX, which the NIC refuses. */
static int wait_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	struct ibv_cq *cq = wr->task.cqe_wait.cq;

	if (!cq || cq->context != qp->ibv.context)
		return -EINVAL;
	out->num_sge = 0;
	out->wait.cq = container_of(cq, struct shim_cq, ibv)->nic;
	out->wait.count = (uint32_t)wr->task.cqe_wait.cq_count;
	out->wait.last = wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST;
	return 0;
}

static int enable_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	struct ibv_qp *target = wr->task.wqe_enable.qp;

	if (!target || target->context != qp->ibv.context || !container_of(target, struct shim_qp, ibv)->nic)
		return -EINVAL;
	out->num_sge = 0;
	out->enable.qp = container_of(target, struct shim_qp, ibv)->nic;
	out->enable.count = (uint32_t)wr->task.wqe_enable.wqe_count;
	out->enable.last = wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST;
	return 0;
}

/* Translate a calculation for the NIC. @return false: unknown calculation. */
static bool calc_translate(const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	if (wr->op.calc.data_size != IBV_EXP_CALC_DATA_SIZE_64_BIT ||
	    !nic_calc_valid(wr->op.calc.calc_op, wr->op.calc.data_type))
		return false;
	out->flags |= NIC_SEND_CALC;
	out->rdma.calc_op = (uint8_t)wr->op.calc.calc_op;
	out->rdma.calc_type = (uint8_t)wr->op.calc.data_type;
	return true;
}

/* Set the destination of a request that moves data, and the request's calculation (cross-channel) if it has one. */
static int target_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	if (wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC && !calc_translate(wr, out))
		return -EINVAL;
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		shim_ud_translate(wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey, out);
	} else {
		out->rdma.remote_addr = wr->wr.rdma.remote_addr;
		out->rdma.rkey = wr->wr.rdma.rkey;
	}
	return 0;
}

/* Whether requests with this opcode can have a calculation. */
static bool is_data(enum ibv_exp_wr_opcode opcode)
{
	return opcode == IBV_EXP_WR_SEND || opcode == IBV_EXP_WR_SEND_WITH_IMM || opcode == IBV_EXP_WR_RDMA_WRITE ||
	       opcode == IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
}

/* Translate a work request for the NIC. @param a storage for an atomic, which *out may point to. @return 0; -EINVAL: an
 * error that the NIC cannot detect. */
static int translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_atomic *a,
		     struct nic_send_wr *out)
{
	const uint64_t known = IBV_EXP_SEND_IP_CSUM | IBV_EXP_SEND_EXT_ATOMIC_INLINE | IBV_EXP_SEND_WITH_CALC |
			       IBV_EXP_SEND_WAIT_EN_LAST; /* on requests to which a flag does not apply, the flag is
							     ignored, except WITH_CALC, which is refused */
	uint64_t flags = wr->exp_send_flags & ~known;
	bool calculates = wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC;

	if (flags >> IBV_EXP_START_FLAG_LOC || flags & NIC_SEND_CALC || (calculates && !is_data(wr->exp_opcode)))
		return -EINVAL;
	out->wr_id = wr->wr_id;
	out->sg_list = (const struct nic_sge *)wr->sg_list;
	out->num_sge = (uint32_t)wr->num_sge;
	out->opcode = wr->exp_opcode; /* the values of NIC_WR_*, as asserted below and in abi_check.c */
	out->flags = (uint32_t)flags;
	out->ex = wr->ex.imm_data;
	out->srqn = wr->qp_type.xrc.remote_srqn;
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM:
	case IBV_EXP_WR_SEND_WITH_INV:
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
	case IBV_EXP_WR_RDMA_READ:
		return target_translate(qp, wr, out);
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
		return shim_atomic_translate(qp, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey,
					     wr->wr.atomic.compare_add, wr->wr.atomic.swap, out);
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return qp->no_atomics ? -EINVAL : masked_translate(qp, wr, a, out);
	case IBV_EXP_WR_BIND_MW:
		return bind_translate(qp, wr, out);
	case IBV_EXP_WR_CQE_WAIT:
		return wait_translate(qp, wr, out);
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
		return enable_translate(qp, wr, out);
	case IBV_EXP_WR_LOCAL_INV:
	case IBV_EXP_WR_NOP:
		out->num_sge = 0;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Called with the engine lock held. */
static int send_list(struct shim_context *ctx, struct shim_qp *qp, struct ibv_exp_send_wr *wr,
		     struct ibv_exp_send_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct nic_send_wr out;
		struct nic_atomic operation;
		bool sane = shim_sge_count_sane(ctx, wr->num_sge) && qp->nic;
		int err = sane ? translate(qp, wr, &operation, &out) : -EINVAL;

		if (!err)
			err = nic_post_send(qp->nic, &out);
		if (err) {
			*bad_wr = wr;
			return -err;
		}
	}
	return 0;
}

int exp_post_send(struct ibv_qp *ibv, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	int err;

	if (!shim_enter(ctx)) {
		*bad_wr = wr;
		return EIO;
	}
	err = send_list(ctx, container_of(ibv, struct shim_qp, ibv), wr, bad_wr);
	pmd_doorbell(ctx->engine);
	shim_leave(ctx);
	return err;
}

static int run_task(struct shim_context *ctx, const struct ibv_exp_task *task)
{
	struct ibv_exp_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;
	struct shim_qp *qp;

	if (!task->item.qp || task->item.qp->context != &ctx->vctx.context)
		return EINVAL;
	qp = container_of(task->item.qp, struct shim_qp, ibv);
	switch (task->task_type) {
	case IBV_EXP_TASK_SEND:
		return send_list(ctx, qp, task->item.send_wr, &bad_send);
	case IBV_EXP_TASK_RECV:
		return shim_recv_list(ctx, qp->nic, task->item.recv_wr, &bad_recv);
	}
	return EINVAL;
}

int exp_post_task(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task)
{
	struct shim_context *ctx = shim_ctx(context);
	int err = 0;

	if (!shim_enter(ctx)) {
		if (bad_task)
			*bad_task = task;
		return EIO;
	}
	for (; task; task = task->next) {
		err = run_task(ctx, task);
		if (!err)
			continue;
		if (bad_task)
			*bad_task = task;
		break;
	}
	pmd_doorbell(ctx->engine);
	shim_leave(ctx);
	return err;
}

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " differs from " #b)
SAME(NIC_WR_MASKED_CMP_AND_SWP, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP);
SAME(NIC_WR_MASKED_FETCH_AND_ADD, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
SAME(NIC_WR_NOP, IBV_EXP_WR_NOP);
SAME(NIC_WR_SEND_ENABLE, IBV_EXP_WR_SEND_ENABLE);
SAME(NIC_WR_RECV_ENABLE, IBV_EXP_WR_RECV_ENABLE);
SAME(NIC_WR_CQE_WAIT, IBV_EXP_WR_CQE_WAIT);
SAME(NIC_CALC_ADD, IBV_EXP_CALC_OP_ADD);
SAME(NIC_CALC_MAXLOC, IBV_EXP_CALC_OP_MAXLOC);
SAME(NIC_CALC_BAND, IBV_EXP_CALC_OP_BAND);
SAME(NIC_CALC_BXOR, IBV_EXP_CALC_OP_BXOR);
SAME(NIC_CALC_BOR, IBV_EXP_CALC_OP_BOR);
SAME(NIC_CALC_INT, IBV_EXP_CALC_DATA_TYPE_INT);
SAME(NIC_CALC_UINT, IBV_EXP_CALC_DATA_TYPE_UINT);
SAME(NIC_CALC_FLOAT, IBV_EXP_CALC_DATA_TYPE_FLOAT);
SAME(NIC_WC_MASKED_COMP_SWAP, IBV_EXP_WC_MASKED_COMP_SWAP);
SAME(NIC_WC_MASKED_FETCH_ADD, IBV_EXP_WC_MASKED_FETCH_ADD);
