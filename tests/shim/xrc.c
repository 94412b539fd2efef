/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.c - XRC as programs use it: domains, SRQs with numbers, initiator and target QPs, targets that are shared. */
#include "xrc_rig.h"
#include <unistd.h>

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

static void xrc__is_reported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(end->ctx, &attr), 0);
	assert_true(attr.device_cap_flags & IBV_DEVICE_XRC);
}

static void xrc__requests_of_all_kinds(void **state)
{
	struct xrc x = xrc_connect(*state, 0);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_wc wc;
	uint64_t word = 40;

	xrc_post_srq(&x, 7, 8192, 20000);
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
	struct xrc x = xrc_connect(*state, IBV_QP_EX_WITH_SEND);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(x.initiator);

	assert_non_null(ex);
	xrc_post_srq(&x, 7, 8192, 64);
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
	struct xrc x = xrc_connect(*state, 0);

	assert_int_equal(run(&x, IBV_WR_SEND, 8, x.srqn ^ 1).status, IBV_WC_REM_INV_REQ_ERR);
	xrc_close(&x);
}

/** A region and a window over all of end 1's buffer, with all rights. */
static struct ibv_mw_bind_info bind_info(struct rig_end *end)
{
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, RIG_BUF, RIG_ACCESS | IBV_ACCESS_MW_BIND);

	assert_non_null(mr);
	return (struct ibv_mw_bind_info){mr, (uintptr_t)end->buf, RIG_BUF, IBV_ACCESS_REMOTE_WRITE};
}

/* A type 1 window belongs to a PD. An initiator binds it, and it serves targets that use SRQs of that PD. */
static void xrc__type_1_windows_serve_targets(void **state)
{
	struct xrc x = xrc_connect(*state, 0);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = bind_info(to)};
	struct ibv_mw *mw = ibv_alloc_mw(to->pd, IBV_MW_TYPE_1);
	struct ibv_qp *binder = xrc_initiator(to, 0);
	struct ibv_sge sge = rig_sge(from, 0, 16);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1}, *bad;

	xrc_ready(binder, 77, &from->gid);
	for (unsigned unbound = 0; unbound < 2; unbound++) {
		bind.bind_info.length = unbound ? 0 : RIG_BUF;
		assert_int_equal(ibv_bind_mw(binder, mw, &bind), 0);
		assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
		memset(from->buf, 63 + (int)unbound, 16);
		wr.qp_type.xrc.remote_srqn = x.srqn;
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf + 512;
		wr.wr.rdma.rkey = mw->rkey;
		assert_int_equal(ibv_post_send(x.initiator, &wr, &bad), 0);
		assert_int_equal(rig_wait(from->cq).status, unbound ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 16; i++)
			assert_int_equal(to->buf[512 + i], 63);
	}
	assert_int_equal(ibv_destroy_qp(binder), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(bind.bind_info.mr), 0);
	xrc_close(&x);
}

/* A target has no send queue, so no type 2 window is bound to it, and there is no key that it could invalidate. */
static void xrc__a_target_refuses_to_invalidate(void **state)
{
	struct xrc x = xrc_connect(*state, 0);
	struct rig_end *from = &x.rig->end[0], *to = &x.rig->end[1];
	struct ibv_mw *mw = ibv_alloc_mw(to->pd, IBV_MW_TYPE_2);
	struct ibv_qp *binder = xrc_initiator(to, 0);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
				 .bind_mw = {mw, ibv_inc_rkey(mw->rkey), bind_info(to)},
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_mr *mr = wr.bind_mw.bind_info.mr;
	struct ibv_wc wc;

	xrc_ready(binder, 77, &from->gid);
	assert_int_equal(ibv_post_send(binder, &wr, &bad), 0);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV,
				  .invalidate_rkey = ibv_inc_rkey(mw->rkey),
				  .qp_type.xrc.remote_srqn = x.srqn};
	xrc_post_srq(&x, 7, 8192, 64);
	assert_int_equal(ibv_post_send(x.initiator, &wr, &bad), 0);
	wc = rig_wait(to->cq);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_RETRY_EXC_ERR); /* no NAK tells it (class J) */
	assert_int_equal(ibv_destroy_qp(binder), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	xrc_close(&x);
}

static void xrc__objects_keep_their_domain(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_xrcd *xrcd = xrc_domain(end, -1, 0);
	struct ibv_srq *srq = xrc_srq(end, xrcd);
	struct ibv_qp *target = xrc_target(end, xrcd);

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

	assert_null(xrc_domain(end, fd, 0));
	assert_int_equal(errno, EAGAIN);
	first = xrc_domain(end, fd, O_CREAT);
	assert_non_null(first);
	assert_null(xrc_domain(end, again, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	second = xrc_domain(end, again, 0);
	assert_non_null(second);
	assert_null(xrc_domain(end, 999, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_null(xrc_domain(end, fd, 0));
	first = xrc_domain(end, fd, O_CREAT);
	close(fd);
	close(again);
	unlink(name);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600); /* perhaps with the inode number of the removed file */
	assert_null(xrc_domain(end, fd, 0));
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

static void xrc__XR_03_a_target_may_be_opened_by_its_number(void **state)
{
	struct xrc x = xrc_connect(*state, 0);
	struct rig_end *to = &x.rig->end[1];
	struct ibv_xrcd *other = xrc_domain(to, -1, O_CREAT);
	struct ibv_async_event event;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *second;

	assert_null(target_open(to, other, x.target->qp_num, NULL));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(target_open(to, x.xrcd, x.target->qp_num + 1, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(other), 0);
	second = target_open(to, x.xrcd, x.target->qp_num, &x);
	assert_non_null(second);
	assert_ptr_equal(second->qp_context, &x);
	assert_int_equal(second->state, IBV_QPS_RTS);
	/* The QP lives as long as one of its structures. */
	assert_int_equal(ibv_destroy_qp(x.target), 0);
	x.target = target_open(to, x.xrcd, second->qp_num, NULL);
	assert_non_null(x.target);
	xrc_post_srq(&x, 7, 8192, 64);
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
	struct ibv_xrcd *xrcd = xrc_domain(end, -1, O_CREAT);
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
	struct ibv_qp *initiator = xrc_initiator(end, 0), *target = xrc_target(end, xrcd);
	struct ibv_srq *no_number = ibv_create_srq(end->pd, &basic);
	uint32_t num;

	assert_null(ibv_create_srq_ex(end->ctx, &srq)); /* neither domain nor CQ */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp_ex(end->ctx, &qp));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_post_recv(initiator, &recv, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(target, &recv, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(target), 0);
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
	struct ibv_xrcd *xrcd = xrc_domain(&left, -1, O_CREAT);
	struct ibv_qp *target = xrc_target(&left, xrcd);

	kept[0] = xrc_srq(&left, xrcd);
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
		TEST(xrc__type_1_windows_serve_targets),
		TEST(xrc__a_target_refuses_to_invalidate),
		TEST(xrc__objects_keep_their_domain),
		TEST(xrc__a_file_names_a_domain),
		TEST(xrc__XR_03_a_target_may_be_opened_by_its_number),
		TEST(xrc__wrong_attributes_are_refused),
		TEST(xrc__closing_the_device_drops_what_is_left),
	};

	return cmocka_run_group_tests_name("shim_xrc", tests, NULL, NULL);
}
