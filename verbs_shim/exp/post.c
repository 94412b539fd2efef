/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - ibv_exp_post_send: the ordinary requests in the larger structure, extended atomics, and requests that do nothing.
 * As ibv_post_send in all else.
 */
#include <string.h>

#include "exp.h"

/* Operands of up to 8 bytes are values, longer ones are where the value says. @return false: nowhere. */
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

/* The size is looked at before the operands are: where there are no operands of 16 bytes, they are no addresses. */
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

/* Whom a request is for that moves data. */
static void target_translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_send_wr *out)
{
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		shim_ud_translate(wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey, out);
	} else {
		out->rdma.remote_addr = wr->wr.rdma.remote_addr;
		out->rdma.rkey = wr->wr.rdma.rkey;
	}
}

/* @param a room for an operation, which *out then points to. @return 0, or -EINVAL for what the NIC could not tell. */
static int translate(const struct shim_qp *qp, const struct ibv_exp_send_wr *wr, struct nic_atomic *a,
		     struct nic_send_wr *out)
{
	const uint64_t ignored =
		IBV_EXP_SEND_IP_CSUM | IBV_EXP_SEND_EXT_ATOMIC_INLINE; /* nothing to others' requests */
	uint64_t flags = wr->exp_send_flags & ~ignored;

	if (flags >> IBV_EXP_START_FLAG_LOC)
		return -EINVAL; /* calculations, waiting: for cross-channel QPs */
	out->wr_id = wr->wr_id;
	out->sg_list = (const struct nic_sge *)wr->sg_list;
	out->num_sge = (uint32_t)wr->num_sge;
	out->opcode = wr->exp_opcode; /* as far as the NIC has them, its opcodes are these */
	out->flags = (uint32_t)flags;
	out->ex = wr->ex.imm_data;
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM:
	case IBV_EXP_WR_SEND_WITH_INV:
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
	case IBV_EXP_WR_RDMA_READ:
		target_translate(qp, wr, out);
		return 0;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
		return shim_atomic_translate(qp, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey,
					     wr->wr.atomic.compare_add, wr->wr.atomic.swap, out);
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return qp->no_atomics ? -EINVAL : masked_translate(qp, wr, a, out);
	case IBV_EXP_WR_BIND_MW:
		return bind_translate(qp, wr, out);
	case IBV_EXP_WR_LOCAL_INV:
	case IBV_EXP_WR_NOP:
		out->num_sge = 0;
		return 0;
	default:
		return -EINVAL;
	}
}

int exp_post_send(struct ibv_qp *ibv, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_qp *qp = container_of(ibv, struct shim_qp, ibv);
	int err = 0;

	if (!shim_enter(ctx)) {
		*bad_wr = wr;
		return EIO;
	}
	for (; wr; wr = wr->next) {
		struct nic_send_wr out;
		struct nic_atomic operation;

		err = shim_sge_count_sane(ctx, wr->num_sge) ? translate(qp, wr, &operation, &out) : -EINVAL;
		if (!err)
			err = nic_post_send(qp->nic, &out);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	pmd_doorbell(ctx->engine);
	shim_leave(ctx);
	return -err;
}

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " differs from " #b)
SAME(NIC_WR_MASKED_CMP_AND_SWP, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP);
SAME(NIC_WR_MASKED_FETCH_AND_ADD, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
SAME(NIC_WR_NOP, IBV_EXP_WR_NOP);
SAME(NIC_WC_MASKED_COMP_SWAP, IBV_EXP_WC_MASKED_COMP_SWAP);
SAME(NIC_WC_MASKED_FETCH_ADD, IBV_EXP_WC_MASKED_FETCH_ADD);
