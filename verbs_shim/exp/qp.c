/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - ibv_exp_create_qp, ibv_exp_modify_qp: the plain calls plus extended atomics and cross-channel attributes. */
#include <string.h>

#include "exp.h"

/* IGNORE_*_OVERFLOW is accepted, but has no effect: a full queue refuses requests in any case. Programs that do not
 * poll all completions set it. They do not need it here, because a request leaves its queue as soon as it is done. */
#define CREATE_FLAGS                                                                                                   \
	((uint32_t)(IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND |                                 \
		    IBV_EXP_QP_CREATE_MANAGED_RECV | IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW |                            \
		    IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW | IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY))

/* Attributes of unsupported features are accepted only with the value that requests nothing. Exception: inline
 * receive is only an optimization, so it is accepted, and the caller is told that 0 bytes were granted. */
static bool init_is_known(const struct ibv_exp_qp_init_attr *attr)
{
	const uint32_t known = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_EXP_QP_INIT_ATTR_INL_RECV | IBV_EXP_QP_INIT_ATTR_QPG |
			       IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS |
			       IBV_EXP_QP_INIT_ATTR_RES_DOMAIN | IBV_EXP_QP_INIT_ATTR_PORT;
	uint32_t mask = attr->comp_mask;

	return !(mask & ~known) &&
	       !(mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS && attr->exp_create_flags & ~CREATE_FLAGS) &&
	       !(mask & IBV_EXP_QP_INIT_ATTR_QPG && attr->qpg.qpg_type != IBV_EXP_QPG_NONE) &&
	       !(mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS && attr->max_inl_send_klms) &&
	       !(mask & IBV_EXP_QP_INIT_ATTR_RES_DOMAIN && attr->res_domain) &&
	       !(mask & IBV_EXP_QP_INIT_ATTR_PORT && attr->port_num != 1);
}

struct ibv_qp *exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	struct shim_qp_extra extra = {0};
	struct ibv_qp *qp;

	if (!(attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) || !attr->pd ||
	    attr->pd->context != shim_context_here(context))
		return shim_fail(EINVAL);
	if (!init_is_known(attr))
		return shim_fail(EOPNOTSUPP);
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG)
		extra.max_atomic_arg = attr->max_atomic_arg;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) {
		extra.be_replies = attr->exp_create_flags & IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY;
		extra.cross_channel = attr->exp_create_flags & IBV_EXP_QP_CREATE_CROSS_CHANNEL;
		extra.managed_send = attr->exp_create_flags & IBV_EXP_QP_CREATE_MANAGED_SEND;
		extra.managed_recv = attr->exp_create_flags & IBV_EXP_QP_CREATE_MANAGED_RECV;
	}
	/* struct ibv_exp_qp_init_attr begins with the members of struct ibv_qp_init_attr. */
	qp = shim_qp_create(attr->pd, (struct ibv_qp_init_attr *)attr, &extra);
	if (qp && attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0;
	return qp;
}

int exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask)
{
	struct ibv_qp_attr plain;

	if (mask >> IBV_EXP_START_FLAG_LOC || attr->comp_mask)
		return shim_errno(-EOPNOTSUPP); /* RSS, DC keys, entropy, placement, rate limits, bursts */
	/* struct ibv_exp_qp_attr begins with the members of struct ibv_qp_attr, up to alt_timeout. */
	memset(&plain, 0, sizeof(plain));
	memcpy(&plain, attr, offsetof(struct ibv_qp_attr, alt_timeout) + sizeof(plain.alt_timeout));
	return ibv_modify_qp(qp, &plain, (int)mask);
}

#define SAME_PLACE(a, b, m) _Static_assert(offsetof(a, m) == offsetof(b, m), #m " lies elsewhere")
SAME_PLACE(struct ibv_exp_qp_init_attr, struct ibv_qp_init_attr, send_cq);
SAME_PLACE(struct ibv_exp_qp_init_attr, struct ibv_qp_init_attr, cap);
SAME_PLACE(struct ibv_exp_qp_init_attr, struct ibv_qp_init_attr, sq_sig_all);
SAME_PLACE(struct ibv_exp_qp_attr, struct ibv_qp_attr, cap);
SAME_PLACE(struct ibv_exp_qp_attr, struct ibv_qp_attr, ah_attr);
SAME_PLACE(struct ibv_exp_qp_attr, struct ibv_qp_attr, max_rd_atomic);
SAME_PLACE(struct ibv_exp_qp_attr, struct ibv_qp_attr, alt_timeout);
