/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_rig.c - fixture of the shim's tests of XRC (xrc_rig.h). */
#include "xrc_rig.h"

struct ibv_xrcd *xrc_domain(struct rig_end *end, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

	return ibv_open_xrcd(end->ctx, &attr);
}

struct ibv_srq *xrc_srq(struct rig_end *end, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = end->pd,
		.xrcd = xrcd,
		.cq = end->cq,
	};

	return ibv_create_srq_ex(end->ctx, &attr);
}

struct ibv_qp *xrc_target(struct rig_end *end, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(end->ctx, &attr);
}

struct ibv_qp *xrc_initiator(struct rig_end *end, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->cq,
		.cap = {.max_send_wr = 16, .max_send_sge = 3, .max_inline_data = 64},
		.qp_type = IBV_QPT_XRC_SEND,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = end->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(end->ctx, &attr);
}

void xrc_ready(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *dgid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *dgid, .hop_limit = 64}},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
	};
	bool target = qp->qp_type == IBV_QPT_XRC_RECV;

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       (target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
				      (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)),
		0);
}

struct xrc xrc_connect(struct rig *rig, uint64_t ops)
{
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct xrc x = {.rig = rig, .xrcd = xrc_domain(to, -1, O_CREAT)};

	assert_non_null(x.xrcd);
	x.srq = xrc_srq(to, x.xrcd);
	x.target = xrc_target(to, x.xrcd);
	x.initiator = xrc_initiator(from, ops);
	assert_non_null(x.srq);
	assert_non_null(x.target);
	assert_non_null(x.initiator);
	assert_int_equal(ibv_get_srq_num(x.srq, &x.srqn), 0);
	xrc_ready(x.target, x.initiator->qp_num, &from->gid);
	xrc_ready(x.initiator, x.target->qp_num, &to->gid);
	return x;
}

void xrc_close(struct xrc *x)
{
	assert_int_equal(ibv_destroy_qp(x->initiator), 0);
	if (x->target)
		assert_int_equal(ibv_destroy_qp(x->target), 0);
	assert_int_equal(ibv_destroy_srq(x->srq), 0);
	assert_int_equal(ibv_close_xrcd(x->xrcd), 0);
}

void xrc_post_srq(struct xrc *x, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(&x->rig->end[1], offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(x->srq, &wr, &bad), 0);
}
