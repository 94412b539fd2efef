/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - ibv_exp_poll_cq, ibv_exp_create_cq, ibv_exp_modify_cq, ibv_exp_create_srq. */
#include <string.h>

#include "exp.h"
#include "ibverbs/cq.h"

#define BATCH 16

struct ibv_cq *exp_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	uint32_t mask = attr->comp_mask, flags = mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;
	struct ibv_cq *cq;

	if (flags & ~(uint32_t)IBV_EXP_CQ_CREATE_CROSS_CHANNEL ||
	    (mask & IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN && attr->res_domain) || mask & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT)
		return shim_fail(EOPNOTSUPP);
	cq = ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
	/* A cross-channel CQ may overrun: WAIT requests count its completions, and the application need not poll
	 * them. */
	if (cq && flags && shim_cq_ignore_overrun(cq, true) != 0) {
		ibv_destroy_cq(cq);
		return shim_fail(EIO);
	}
	return cq;
}

int exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int mask)
{
	int err = 0;

	if (mask & ~(IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS))
		return shim_errno(-EINVAL);
	if (mask & IBV_EXP_CQ_CAP_FLAGS && attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_CAP_MASK)
		return shim_errno(-EINVAL);
	if (mask & IBV_EXP_CQ_MODERATION)
		err = shim_cq_moderate(cq, attr->moderation.cq_count, attr->moderation.cq_period);
	if (!err && mask & IBV_EXP_CQ_CAP_FLAGS)
		err = shim_cq_ignore_overrun(cq, attr->cq_cap_flags & IBV_EXP_CQ_IGNORE_OVERRUN);
	return shim_errno(err);
}

static void wc_translate(const struct nic_wc *in, struct ibv_exp_wc *out)
{
	memset(out, 0, sizeof(*out));
	out->wr_id = in->wr_id;
	out->status = (enum ibv_wc_status)in->status;
	out->exp_opcode = (enum ibv_exp_wc_opcode)in->opcode;
	out->vendor_err = in->vendor_err;
	out->byte_len = in->byte_len;
	out->imm_data = in->ex;
	out->qp_num = in->qp_num;
	out->src_qp = in->src_qp;
	out->pkey_index = in->pkey_index;
	out->slid = in->slid;
	out->sl = in->sl;
	out->dlid_path_bits = in->dlid_path_bits;
	out->exp_wc_flags = in->wc_flags;
}

/* If the caller's array elements are longer than this library's struct ibv_exp_wc, their remaining bytes are zeroed. */
int exp_poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc, uint32_t wc_size)
{
	size_t known = wc_size < sizeof(struct ibv_exp_wc) ? wc_size : sizeof(struct ibv_exp_wc);
	int done = 0;

	if (n < 0 || wc_size < offsetof(struct ibv_exp_wc, timestamp))
		return -EINVAL;
	while (done < n) {
		int want = n - done < BATCH ? n - done : BATCH;
		struct nic_wc batch[BATCH];
		int got = shim_poll_cq(cq, want, (struct ibv_wc *)batch);

		if (got < 0)
			return done ? done : got;
		for (int i = 0; i < got; i++, done++) {
			char *to = (char *)wc + (size_t)done * wc_size;
			struct ibv_exp_wc full;

			wc_translate(&batch[i], &full);
			memset(to, 0, wc_size);
			memcpy(to, &full, known);
		}
		if (got < want)
			break;
	}
	return done;
}

struct ibv_srq *exp_create_srq(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr)
{
	if (attr->comp_mask || attr->srq_type != IBV_EXP_SRQT_BASIC)
		return shim_fail(EOPNOTSUPP);
	if (!attr->pd || attr->pd->context != shim_context_here(context))
		return shim_fail(EINVAL);
	return ibv_create_srq(attr->pd, &attr->base);
}
