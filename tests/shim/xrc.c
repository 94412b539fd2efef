/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.c - XRC as programs use it: domains, SRQs with numbers, initiator and target QPs, targets that are shared. */
#include "rig.h"
#include <fcntl.h>
#include <unistd.h>

static struct ibv_xrcd *domain_open(struct rig_end *end, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

	return ibv_open_xrcd(end->ctx, &attr);
}

static struct ibv_srq *srq_create(struct rig_end *end, struct ibv_xrcd *xrcd)
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

static struct ibv_qp *target_create(struct rig_end *end, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(end->ctx, &attr);
}

static struct ibv_qp *initiator_create(struct rig_end *end, bool extended)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->cq,
		.cap = {.max_send_wr = 16, .max_send_sge = 1, .max_inline_data = 64},
		.qp_type = IBV_QPT_XRC_SEND,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (extended ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = end->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	return ibv_create_qp_ex(end->ctx, &attr);
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *dgid)
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

/** An initiator at end 0, and at end 1 a domain with an SRQ and a target. */
struct xrc {
	struct rig *rig;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *initiator, *target;
	uint32_t srqn;
};

static struct xrc xrc_connect(struct rig *rig, bool extended)
{
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct xrc x = {.rig = rig, .xrcd = domain_open(to, -1, O_CREAT)};

	assert_non_null(x.xrcd);
	x.srq = srq_create(to, x.xrcd);
	x.target = target_create(to, x.xrcd);
	x.initiator = initiator_create(from, extended);
	assert_non_null(x.srq);
	assert_non_null(x.target);
	assert_non_null(x.initiator);
	assert_int_equal(ibv_get_srq_num(x.srq, &x.srqn), 0);
	connect_qp(x.target, x.initiator->qp_num, &from->gid);
	connect_qp(x.initiator, x.target->qp_num, &to->gid);
	return x;
}

static void xrc_close(struct xrc *x)
{
	assert_int_equal(ibv_destroy_qp(x->initiator), 0);
	if (x->target)
		assert_int_equal(ibv_destroy_qp(x->target), 0);
	assert_int_equal(ibv_destroy_srq(x->srq), 0);
	assert_int_equal(ibv_close_xrcd(x->xrcd), 0);
}

static struct ibv_wc run(struct xrc *x, enum ibv_wr_opcode opcode, uint32_t length, uint32_t srqn)
{
	struct rig_end *from = &x->rig->end[0], *to = &x->rig->end[1];
	struct ibv_sge sge = rig_sge(from, 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .qp_type.xrc.remote_srqn = srqn},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = 2;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	assert_int_equal(ibv_post_send(x->initiator, &wr, &bad), 0);
	return rig_wait(from->cq);
}

static void post_srq(struct xrc *x, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(&x->rig->end[1], offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(x->srq, &wr, &bad), 0);
}

static void xrc__is_reported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(end->ctx, &attr), 0);
	assert_true(attr.device_cap_flags & IBV_DEVICE_XRC);
}

static void xrc__requests_of_all_kinds(void **state)
{
	struct xrc x = xrc_connect(*state, false);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_wc wc;
	uint64_t word = 40;

	post_srq(&x, 7, 8192, 20000);
	memset(from->buf, 31, 20000);
	assert_int_equal(run(&x, IBV_WR_SEND, 20000, x.srqn).status, IBV_WC_SUCCESS);
	wc = rig_wait(to->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 20000);
	assert_int_equal(wc.qp_num, x.target->qp_num);
	assert_memory_equal(to->buf + 8192, from->buf, 20000);
	assert_int_equal(run(&x, IBV_WR_RDMA_WRITE, 64, x.srqn).status, IBV_WC_SUCCESS);
	assert_memory_equal(to->buf, from->buf, 64);
	memcpy(to->buf, &word, 8);
	assert_int_equal(run(&x, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, x.srqn).status, IBV_WC_SUCCESS);
	assert_memory_equal(from->buf, &word, 8);
	word += 2;
	assert_memory_equal(to->buf, &word, 8);
	assert_int_equal(run(&x, IBV_WR_RDMA_READ, 8, x.srqn).status, IBV_WC_SUCCESS);
	assert_memory_equal(from->buf, &word, 8);
	xrc_close(&x);
}

static void xrc__extended_requests(void **state)
{
	struct xrc x = xrc_connect(*state, true);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(x.initiator);

	assert_non_null(ex);
	post_srq(&x, 7, 8192, 64);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, x.srqn);
	ibv_wr_set_sge(ex, from->mr->lkey, (uintptr_t)from->buf, 16);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(to->cq).wr_id, 7);
	xrc_close(&x);
}

static void xrc__a_wrong_srq_fails_the_request(void **state)
{
	struct xrc x = xrc_connect(*state, false);

	assert_int_equal(run(&x, IBV_WR_SEND, 8, x.srqn ^ 1).status, IBV_WC_REM_INV_REQ_ERR);
	xrc_close(&x);
}

static void xrc__objects_keep_their_domain(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_xrcd *xrcd = domain_open(end, -1, 0);
	struct ibv_srq *srq = srq_create(end, xrcd);
	struct ibv_qp *target = target_create(end, xrcd);

	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(target), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void xrc__a_file_names_a_domain(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	char name[] = "/tmp/uroce-xrc-XXXXXX";
	int fd = mkstemp(name), again = open(name, O_RDONLY);
	struct ibv_xrcd *first, *second;

	assert_null(domain_open(end, fd, 0));
	assert_int_equal(errno, EAGAIN);
	first = domain_open(end, fd, O_CREAT);
	assert_non_null(first);
	assert_null(domain_open(end, again, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	second = domain_open(end, again, 0);
	assert_non_null(second);
	assert_null(domain_open(end, 999, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_null(domain_open(end, fd, 0));
	first = domain_open(end, fd, O_CREAT);
	close(fd);
	close(again);
	unlink(name);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600); /* perhaps with the inode number of the removed file */
	assert_null(domain_open(end, fd, 0));
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_close_xrcd(first), 0);
	close(fd);
	unlink(name);
}

static struct ibv_qp *target_open(struct rig_end *end, struct ibv_xrcd *xrcd, uint32_t qpn, void *qp_context)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask =
			IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = qp_context,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(end->ctx, &attr);
}

static void xrc__a_target_may_be_opened_by_its_number(void **state)
{
	struct xrc x = xrc_connect(*state, false);
	struct rig_end *to = &x.rig->end[1];
	struct ibv_xrcd *other = domain_open(to, -1, O_CREAT);
	struct ibv_async_event event;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *second;

	assert_null(target_open(to, other, x.target->qp_num, NULL));
	assert_int_equal(errno, EINVAL);
	assert_null(target_open(to, x.xrcd, x.target->qp_num + 1, NULL));
	assert_int_equal(ibv_close_xrcd(other), 0);
	second = target_open(to, x.xrcd, x.target->qp_num, &x);
	assert_non_null(second);
	assert_ptr_equal(second->qp_context, &x);
	assert_int_equal(second->state, IBV_QPS_RTS);
	/* The QP lives as long as one of its structures. */
	assert_int_equal(ibv_destroy_qp(x.target), 0);
	x.target = target_open(to, x.xrcd, second->qp_num, NULL);
	assert_non_null(x.target);
	post_srq(&x, 7, 8192, 64);
	assert_int_equal(run(&x, IBV_WR_SEND, 8, x.srqn).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(to->cq).wr_id, 7);
	/* Both get its events. */
	assert_int_equal(run(&x, IBV_WR_SEND, 8, x.srqn ^ 1).status, IBV_WC_REM_INV_REQ_ERR);
	for (unsigned i = 0, seen = 0; i < 2; i++) {
		assert_int_equal(ibv_get_async_event(to->ctx, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
		seen |= event.element.qp == second ? 1 : event.element.qp == x.target ? 2 : 4;
		ibv_ack_async_event(&event);
		assert_int_equal(seen & 4, 0);
		assert_true(i == 0 || seen == 3);
	}
	assert_int_equal(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(second), 0);
	xrc_close(&x);
}

static void xrc__wrong_attributes_are_refused(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_xrcd *xrcd = domain_open(end, -1, O_CREAT);
	struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 4, .max_sge = 1},
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					   .srq_type = IBV_SRQT_XRC,
					   .pd = end->pd};
	struct ibv_qp_init_attr_ex qp = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .pd = end->pd,
					 .xrcd = xrcd};
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct ibv_qp *initiator = initiator_create(end, false);
	struct ibv_srq *no_number = ibv_create_srq(end->pd, &basic);
	uint32_t num;

	assert_null(ibv_create_srq_ex(end->ctx, &srq)); /* neither domain nor CQ */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp_ex(end->ctx, &qp));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_post_recv(initiator, &recv, &bad), EINVAL);
	assert_int_equal(ibv_get_srq_num(no_number, &num), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(no_number), 0);
	assert_int_equal(ibv_destroy_qp(initiator), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

/* The program closes the device and leaves its objects, whose structures stay. */
static void xrc__closing_the_device_drops_what_is_left(void **state)
{
	static void *kept[4];
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_context *ctx = ibv_open_device(end->ctx->device);
	struct rig_end left = {.ctx = ctx, .pd = ibv_alloc_pd(ctx), .cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)};
	struct ibv_xrcd *xrcd = domain_open(&left, -1, O_CREAT);
	struct ibv_qp *target = target_create(&left, xrcd);

	kept[0] = srq_create(&left, xrcd);
	kept[1] = target_open(&left, xrcd, target->qp_num, NULL);
	kept[2] = target;
	kept[3] = xrcd;
	for (unsigned i = 0; i < 4; i++)
		assert_non_null(kept[i]);
	assert_int_equal(ibv_close_device(ctx), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc__is_reported),
		TEST(xrc__requests_of_all_kinds),
		TEST(xrc__extended_requests),
		TEST(xrc__a_wrong_srq_fails_the_request),
		TEST(xrc__objects_keep_their_domain),
		TEST(xrc__a_file_names_a_domain),
		TEST(xrc__a_target_may_be_opened_by_its_number),
		TEST(xrc__wrong_attributes_are_refused),
		TEST(xrc__closing_the_device_drops_what_is_left),
	};

	return cmocka_run_group_tests_name("shim_xrc", tests, NULL, NULL);
}
