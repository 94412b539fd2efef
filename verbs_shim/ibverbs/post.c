/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - posting work requests (IBTA 11.4.1): the hot path. The engine lock is taken once for a whole list; each
 * request is translated on the stack. *bad_wr gets the first refused request; the requests before it are posted.
 */
#include "shim.h"

/* Translate a work request for the NIC. @return 0; -EINVAL: an error that the NIC cannot detect. */
static inline int translate(const struct shim_qp *qp, const struct ibv_send_wr *wr, struct nic_send_wr *out)
{
	if (wr->send_flags & NIC_SEND_CALC)
		return -EINVAL; /* our own flag, which applications must not set */
	out->wr_id = wr->wr_id;
	out->sg_list = (const struct nic_sge *)wr->sg_list;
	out->num_sge = (uint32_t)wr->num_sge;
	out->opcode = wr->opcode;
	out->flags = wr->send_flags & ~(unsigned)IBV_SEND_IP_CSUM; /* IP_CSUM: ignored, it means nothing on a RoCE QP */
	out->ex = wr->imm_data;
	out->srqn = wr->qp_type.xrc.remote_srqn;
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return shim_atomic_translate(qp, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey,
					     wr->wr.atomic.compare_add, wr->wr.atomic.swap, out);
	case IBV_WR_BIND_MW:
		return shim_bind_wr_translate(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, out);
	case IBV_WR_LOCAL_INV:
		out->num_sge = 0;
		return 0;
	default:
		break;
	}
	if (wr->opcode >= IBV_WR_DRIVER1 && out->opcode != NIC_WR_ATOMIC_WRITE)
		return -EINVAL; /* the NIC has more opcodes, but they need fields that struct ibv_send_wr lacks */
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		shim_ud_translate(wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey, out);
	} else {
		out->rdma.remote_addr = wr->wr.rdma.remote_addr;
		out->rdma.rkey = wr->wr.rdma.rkey;
	}
	return 0;
}

int shim_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
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

		err = shim_sge_count_sane(ctx, wr->num_sge) && qp->nic ? translate(qp, wr, &out) : -EINVAL;
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

int shim_recv_list(struct shim_context *ctx, struct nic_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct nic_recv_wr out = {wr->wr_id, (const struct nic_sge *)wr->sg_list, (uint32_t)wr->num_sge};
		int err = shim_sge_count_sane(ctx, wr->num_sge) && qp ? nic_post_recv(qp, &out) : -EINVAL;

		if (err) {
			*bad_wr = wr;
			return -err;
		}
	}
	return 0;
}

int shim_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	int err;

	if (!shim_enter(ctx)) {
		*bad_wr = wr;
		return EIO;
	}
	err = shim_recv_list(ctx, container_of(ibv, struct shim_qp, ibv)->nic, wr, bad_wr);
	shim_leave(ctx);
	return err;
}

int shim_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct shim_context *ctx = shim_ctx(ibv->context);
	struct nic_srq *srq = container_of(ibv, struct shim_srq, ibv)->nic;
	int err = 0;

	if (!shim_enter(ctx)) {
		*bad_wr = wr;
		return EIO;
	}
	for (; wr; wr = wr->next) {
		struct nic_recv_wr out = {wr->wr_id, (const struct nic_sge *)wr->sg_list, (uint32_t)wr->num_sge};

		err = shim_sge_count_sane(ctx, wr->num_sge) ? nic_post_srq_recv(srq, &out) : -EINVAL;
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	shim_leave(ctx);
	return -err;
}
