/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handles.c - calls on objects whose `handle` was overwritten, beside those in answers.c: objects of the newer verbs,
 * and of XRC. Each fails with ENOENT and leaves the object usable. In the data path, handles are not read.
 */
#include <unistd.h>

#include "xrc_rig.h"

#define GARBLED(at, call)                                                                                              \
	do {                                                                                                           \
		(at)->handle ^= 0x5a5a5a5a;                                                                            \
		errno = 0;                                                                                             \
		call;                                                                                                  \
		assert_int_equal(errno, ENOENT);                                                                       \
		(at)->handle ^= 0x5a5a5a5a;                                                                            \
	} while (0)
#define REFUSED(at, call)  GARBLED(at, assert_int_equal(call, ENOENT))
#define NOT_MADE(at, call) GARBLED(at, assert_null(call))

static void handle__of_the_pd_of_advice(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_sge sge = rig_sge(end, 0, 4096);

	REFUSED(end->pd, ibv_advise_mr(end->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	assert_int_equal(ibv_advise_mr(end->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
}

static void handle__of_what_is_imported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_context *ctx = ibv_import_device(dup(end->ctx->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(ctx, end->pd->handle);
	struct ibv_mr *mr;

	assert_non_null(pd);
	NOT_MADE(pd, ibv_import_mr(pd, end->mr->handle));
	NOT_MADE(end->pd, ibv_import_pd(ctx, end->pd->handle)); /* no PD has the number that the program asks for */
	mr = ibv_import_mr(pd, end->mr->handle);
	assert_non_null(mr);
	mr->handle ^= 0x5a5a5a5a;
	ibv_unimport_mr(mr); /* ignored */
	mr->handle ^= 0x5a5a5a5a;
	assert_int_equal(mr->rkey, end->mr->rkey);
	ibv_unimport_mr(mr);
	pd->handle ^= 0x5a5a5a5a;
	ibv_unimport_pd(pd); /* ignored */
	pd->handle ^= 0x5a5a5a5a;
	mr = ibv_reg_mr(pd, end->buf, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void handle__of_what_a_qp_is_made_of(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_cq *cq = ibv_create_cq(end->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC,
					   .send_cq = cq,
					   .recv_cq = end->cq,
					   .cap = init.cap,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = end->pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp;

	init.send_cq = cq;
	NOT_MADE(cq, ibv_create_qp(end->pd, &init));
	NOT_MADE(cq, ibv_create_qp_ex(end->ctx, &attr));
	NOT_MADE(end->cq, ibv_create_qp_ex(end->ctx, &attr));
	NOT_MADE(end->pd, ibv_create_qp_ex(end->ctx, &attr));
	qp = ibv_create_qp_ex(end->ctx, &attr);
	assert_non_null(qp);
	REFUSED(qp, ibv_destroy_qp(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void handle__of_xrc_objects(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_xrcd *xrcd = xrc_domain(end, -1, O_CREAT);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_srq *srq;
	struct ibv_qp *target;

	assert_non_null(xrcd);
	NOT_MADE(end->pd, xrc_srq(end, xrcd));
	NOT_MADE(end->cq, xrc_srq(end, xrcd));
	srq = xrc_srq(end, xrcd);
	target = xrc_target(end, xrcd);
	assert_non_null(srq);
	assert_non_null(target);
	REFUSED(target, ibv_modify_qp(target, &attr, IBV_QP_STATE));
	REFUSED(target, ibv_query_qp(target, &attr, IBV_QP_STATE, &init));
	REFUSED(target, ibv_destroy_qp(target));
	REFUSED(srq, ibv_destroy_srq(srq));
	assert_int_equal(ibv_query_qp(target, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(target), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void handle__of_what_a_tag_matching_srq_is_made_of(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_TM,
		.pd = end->pd,
		.cq = end->cq,
		.tm_cap = {.max_num_tags = 4, .max_ops = 4},
	};
	struct ibv_srq *srq;

	NOT_MADE(end->pd, ibv_create_srq_ex(end->ctx, &attr));
	NOT_MADE(end->cq, ibv_create_srq_ex(end->ctx, &attr));
	srq = ibv_create_srq_ex(end->ctx, &attr);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* Posting, polling, arming a CQ and copies of device memory go on with any handle. */
static void handle__is_not_read_in_the_data_path(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge = rig_sge(from, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(to->ctx, &attr);
	uint32_t word = 5, copy = 0;

	rig_connect(rig, IBV_QPT_RC);
	from->qp->handle ^= 1;
	to->qp->handle ^= 1;
	to->cq->handle ^= 1;
	dm->handle ^= 1;
	rig_post_recv(to, 7, 0, 64);
	assert_int_equal(ibv_req_notify_cq(to->cq, 0), 0);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(to->cq).wr_id, 7);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
	assert_int_equal(ibv_memcpy_from_dm(&copy, dm, 0, 4), 0);
	assert_int_equal(copy, 5);
	from->qp->handle ^= 1;
	to->qp->handle ^= 1;
	to->cq->handle ^= 1;
	dm->handle ^= 1;
	assert_int_equal(ibv_free_dm(dm), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handle__of_the_pd_of_advice),
		TEST(handle__of_what_is_imported),
		TEST(handle__of_what_a_qp_is_made_of),
		TEST(handle__of_xrc_objects),
		TEST(handle__of_what_a_tag_matching_srq_is_made_of),
		TEST(handle__is_not_read_in_the_data_path),
	};

	return cmocka_run_group_tests_name("shim_handles", tests, NULL, NULL);
}
