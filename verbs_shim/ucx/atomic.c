/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic.c - atomic operations of 4 and 8 bytes, which the target's NIC executes exactly once. */
#include "ucx.h"

static const uint8_t elem_ops[UCT_ATOMIC_OPS] = {
	[UCT_ATOMIC_OP_ADD] = NIC_ELEM_SUM,
	[UCT_ATOMIC_OP_AND] = NIC_ELEM_BAND,
	[UCT_ATOMIC_OP_OR] = NIC_ELEM_BOR,
	[UCT_ATOMIC_OP_XOR] = NIC_ELEM_BXOR,
	[UCT_ATOMIC_OP_SWAP] = NIC_ELEM_ATOMIC_WRITE,
	[UCT_ATOMIC_OP_CSWAP] = NIC_ELEM_CSWAP,
};

static union ux_word word(uint64_t value, uint32_t width)
{
	return width == 8 ? (union ux_word){.u64 = value} : (union ux_word){.u32 = (uint32_t)value};
}

static ucs_status_t post(struct uct_ep *ep, unsigned op_number, uint64_t value, uint32_t width, uint64_t addr,
			 uct_rkey_t rkey)
{
	ucs_status_t status;
	struct ux_op *op;

	if (op_number >= UCT_ATOMIC_OPS || !(UX_ATOMIC_POST & 1u << op_number))
		return UCS_ERR_UNSUPPORTED;
	op = ux_op_new(ux_ep_of(ep), UX_PLAIN, NULL, &status);
	if (!op)
		return status;
	op->operand = word(value, width);
	op->width = width;
	return ux_post_atomic(op, elem_ops[op_number], addr, rkey);
}

static ucs_status_t fetch(struct uct_ep *ep, unsigned op_number, uint64_t compare, uint64_t value, void *result,
			  uint32_t width, uint64_t addr, uct_rkey_t rkey, struct uct_completion *comp)
{
	ucs_status_t status;
	struct ux_op *op;

	if (op_number >= UCT_ATOMIC_OPS)
		return UCS_ERR_UNSUPPORTED;
	op = ux_op_new(ux_ep_of(ep), UX_FETCH, comp, &status);
	if (!op)
		return status;
	op->operand = word(value, width);
	op->compare = word(compare, width);
	op->result = result;
	op->width = width;
	status = ux_post_atomic(op, elem_ops[op_number], addr, rkey);
	return status ? status : UCS_INPROGRESS;
}

ucs_status_t ux_atomic32_post(struct uct_ep *ep, unsigned op, uint32_t value, uint64_t addr, uct_rkey_t rkey)
{
	return post(ep, op, value, 4, addr, rkey);
}

ucs_status_t ux_atomic64_post(struct uct_ep *ep, unsigned op, uint64_t value, uint64_t addr, uct_rkey_t rkey)
{
	return post(ep, op, value, 8, addr, rkey);
}

ucs_status_t ux_atomic32_fetch(struct uct_ep *ep, unsigned op, uint32_t value, uint32_t *result, uint64_t addr,
			       uct_rkey_t rkey, struct uct_completion *comp)
{
	return op == UCT_ATOMIC_OP_CSWAP ? UCS_ERR_UNSUPPORTED : fetch(ep, op, 0, value, result, 4, addr, rkey, comp);
}

ucs_status_t ux_atomic64_fetch(struct uct_ep *ep, unsigned op, uint64_t value, uint64_t *result, uint64_t addr,
			       uct_rkey_t rkey, struct uct_completion *comp)
{
	return op == UCT_ATOMIC_OP_CSWAP ? UCS_ERR_UNSUPPORTED : fetch(ep, op, 0, value, result, 8, addr, rkey, comp);
}

ucs_status_t ux_cswap32(struct uct_ep *ep, uint32_t compare, uint32_t swap, uint64_t addr, uct_rkey_t rkey,
			uint32_t *result, struct uct_completion *comp)
{
	return fetch(ep, UCT_ATOMIC_OP_CSWAP, compare, swap, result, 4, addr, rkey, comp);
}

ucs_status_t ux_cswap64(struct uct_ep *ep, uint64_t compare, uint64_t swap, uint64_t addr, uct_rkey_t rkey,
			uint64_t *result, struct uct_completion *comp)
{
	return fetch(ep, UCT_ATOMIC_OP_CSWAP, compare, swap, result, 8, addr, rkey, comp);
}
