/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * states.c - what programs see of QP states (IBTA 10.3.1): SQD with its event, SQE, the last WQE of a QP on an SRQ, and
 * what may be posted in which state. docs/answers.md has a row for each.
 */
#include "xrc_rig.h"

#include <poll.h>
#include <unistd.h>

#define LONG_MS 20000

/** @return whether an asynchronous event can be read at this end, after `ms` at most. */
static bool told(struct rig_end *end, int ms)
{
	struct pollfd p = {end->ctx->async_fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

/** The next asynchronous event at this end must be of this type and concern this QP. It is the only one. */
static void expect_event(struct rig_end *end, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	assert_true(told(end, LONG_MS));
	assert_int_equal(ibv_get_async_event(end->ctx, &event), 0);
	ibv_ack_async_event(&event);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, qp);
	assert_false(told(end, 0));
}

static struct ibv_qp_attr queried(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, &init), 0);
	assert_int_equal(qp->state, attr.qp_state);
	return attr;
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/** Post a SEND of 8 bytes from the buffer of end 0; UD: to the QP of end 1. */
static void post_send(struct rig *rig, uint64_t wr_id, struct ibv_ah *ah, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)rig->end[0].buf, 8, lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = rig->end[1].qp->qp_num;
		wr.wr.ud.remote_qkey = RIG_QKEY;
	}
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = rig_wait(cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_no_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

/* ---- SQD --------------------------------------------------------------------------------------------- */

/* The message in progress waits for a receive buffer of the peer, so the queue drains when the test says so. */
static void sqd__finishes_what_has_begun_and_says_so_once(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	rig_connect(rig, IBV_QPT_RC);
	post_send(rig, 1, NULL, from->mr->lkey);
	assert_int_equal(ibv_modify_qp(from->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	attr = queried(from->qp);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 1);
	assert_false(told(from, 0));
	post_send(rig, 2, NULL, from->mr->lkey); /* accepted, and not begun */
	rig_post_recv(to, 3, 0, 64);
	rig_post_recv(to, 4, 64, 64);
	expect_wc(from->cq, 1, IBV_WC_SUCCESS);
	expect_wc(to->cq, 3, IBV_WC_SUCCESS);
	expect_event(from, IBV_EVENT_SQ_DRAINED, from->qp);
	attr = queried(from->qp);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 0);
	usleep(50000);
	expect_no_wc(to->cq);
	expect_no_wc(from->cq);
	assert_int_equal(to_state(from->qp, IBV_QPS_RTS), 0);
	expect_wc(from->cq, 2, IBV_WC_SUCCESS);
	expect_wc(to->cq, 4, IBV_WC_SUCCESS);
	assert_false(told(from, 0));
}

static void sqd__of_an_idle_queue_is_drained_at_once(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct rig *rig = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = i & 1};
		struct ibv_qp *qp;

		rig_connect(rig, types[i / 2]);
		qp = rig->end[0].qp;
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
		if (i & 1)
			expect_event(&rig->end[0], IBV_EVENT_SQ_DRAINED, qp);
		else
			assert_false(told(&rig->end[0], 100));
		assert_int_equal(queried(qp).sq_draining, 0);
		rig_disconnect(rig);
	}
}

/* An event that was not read is not repeated. */
static void sqd__that_is_entered_twice_is_reported_once_if_nobody_reads(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp *qp;

	rig_connect(rig, IBV_QPT_RC);
	qp = rig->end[0].qp;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
		assert_true(told(&rig->end[0], LONG_MS));
		assert_int_equal(to_state(qp, IBV_QPS_RTS), 0);
	}
	usleep(50000);
	expect_event(&rig->end[0], IBV_EVENT_SQ_DRAINED, qp);
}

/* The receive queue goes on in SQD. */
static void sqd__still_receives(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(to_state(rig->end[1].qp, IBV_QPS_SQD), 0);
	rig_post_recv(&rig->end[1], 1, 0, 64);
	post_send(rig, 2, NULL, rig->end[0].mr->lkey);
	expect_wc(rig->end[0].cq, 2, IBV_WC_SUCCESS);
	expect_wc(rig->end[1].cq, 1, IBV_WC_SUCCESS);
}

/* ---- SQE --------------------------------------------------------------------------------------------- */

/** Post a request at end 0 that fails there, and one behind it. @return the state of the QP afterwards. */
static enum ibv_qp_state fail_locally(struct rig *rig, struct ibv_ah *ah)
{
	struct rig_end *from = &rig->end[0];

	post_send(rig, 1, ah, from->mr->lkey ^ 0x5500);
	expect_wc(from->cq, 1, IBV_WC_LOC_PROT_ERR);
	post_send(rig, 2, ah, from->mr->lkey);
	expect_wc(from->cq, 2, IBV_WC_WR_FLUSH_ERR);
	return queried(from->qp).qp_state;
}

static void sqe__of_uc_and_ud_can_be_left(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_ah *ah = i ? rig_ah(rig) : NULL;

		rig_connect(rig, i ? IBV_QPT_UD : IBV_QPT_UC);
		rig_post_recv(from, 7, 0, 128);
		assert_int_equal(fail_locally(rig, ah), IBV_QPS_SQE);
		expect_no_wc(from->cq); /* the receive queue is unharmed */
		assert_false(told(from, 0));
		assert_int_equal(to_state(from->qp, IBV_QPS_SQD), EINVAL);
		assert_int_equal(to_state(from->qp, IBV_QPS_RTS), 0);
		rig_post_recv(to, 8, 0, 128);
		post_send(rig, 3, ah, from->mr->lkey);
		expect_wc(from->cq, 3, IBV_WC_SUCCESS);
		expect_wc(to->cq, 8, IBV_WC_SUCCESS);
		rig_disconnect(rig);
		if (ah)
			assert_int_equal(ibv_destroy_ah(ah), 0);
	}
}

/* A QP in SQE still receives. */
static void sqe__receives(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge = rig_sge(to, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	rig_connect(rig, IBV_QPT_UC);
	rig_post_recv(from, 7, 4096, 64);
	assert_int_equal(fail_locally(rig, NULL), IBV_QPS_SQE);
	memset(to->buf, 0x77, 8);
	assert_int_equal(ibv_post_send(to->qp, &wr, &bad), 0);
	expect_wc(from->cq, 7, IBV_WC_SUCCESS);
	assert_memory_equal(from->buf + 4096, to->buf, 8);
	assert_int_equal(queried(from->qp).qp_state, IBV_QPS_SQE);
}

static void sqe__is_no_state_of_rc(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0];

	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(from, 7, 0, 64);
	post_send(rig, 1, NULL, from->mr->lkey ^ 0x5500);
	expect_wc(from->cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_wc(from->cq, 7, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(queried(from->qp).qp_state, IBV_QPS_ERR);
	assert_int_equal(to_state(from->qp, IBV_QPS_RTS), EINVAL);
	assert_false(told(from, 0)); /* the completion has told it (C9-222.1.1) */
}

/* ---- ERR --------------------------------------------------------------------------------------------- */

/* Only a QP on an SRQ raises it, and once: whether the program or an error changes the state. */
static void err__of_a_qp_on_an_srq_tells_of_the_last_wqe(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(end->pd, &srq_init);

	for (unsigned i = 0; i < 4; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC),
					peer = rig_qp_init(&rig->end[1], IBV_QPT_RC);

		init.srq = i & 1 ? srq : NULL;
		end->qp = ibv_create_qp(end->pd, &init);
		rig->end[1].qp = ibv_create_qp(rig->end[1].pd, &peer);
		rig_connect_qps(rig, end->qp, rig->end[1].qp);
		if (i & 2) {
			post_send(rig, 1, NULL, end->mr->lkey ^ 0x5500);
			expect_wc(end->cq, 1, IBV_WC_LOC_PROT_ERR);
		} else {
			assert_int_equal(to_state(end->qp, IBV_QPS_ERR), 0);
		}
		if (i & 1)
			expect_event(end, IBV_EVENT_QP_LAST_WQE_REACHED, end->qp);
		assert_int_equal(to_state(end->qp, IBV_QPS_ERR), 0);
		assert_false(told(end, 100));
		rig_disconnect(rig);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* An XRC target has no SRQ of its own: each request names one. It has used one before, and is using it when an error
 * changes the state. */
static void err__of_an_xrc_target_tells_of_no_last_wqe(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];

	for (unsigned by_error = 0; by_error < 2; by_error++) {
		struct xrc x = xrc_connect(rig, 0);
		struct ibv_sge sge = rig_sge(from, 0, 8);
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .qp_type.xrc.remote_srqn = x.srqn},
				   *bad;

		xrc_post_srq(&x, 1, 0, 8);
		assert_int_equal(ibv_post_send(x.initiator, &wr, &bad), 0);
		expect_wc(from->cq, 0, IBV_WC_SUCCESS);
		expect_wc(to->cq, 1, IBV_WC_SUCCESS);
		if (by_error) {
			xrc_post_srq(&x, 2, 0, 7);
			assert_int_equal(ibv_post_send(x.initiator, &wr, &bad), 0);
			expect_wc(from->cq, 0, IBV_WC_REM_INV_REQ_ERR);
			expect_wc(to->cq, 2, IBV_WC_LOC_LEN_ERR);
		} else {
			assert_int_equal(to_state(x.target, IBV_QPS_ERR), 0);
		}
		assert_int_equal(queried(x.target).qp_state, IBV_QPS_ERR);
		assert_false(told(to, 100));
		xrc_close(&x);
	}
}

/* ---- posting ----------------------------------------------------------------------------------------- */

static void expect_refusal(struct rig *rig, struct ibv_ah *ah, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad = NULL;

	if (ah)
		wr.wr.ud.ah = ah;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
}

static void post__before_rts_is_refused_at_once(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(end, types[i]);
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
					   .port_num = 1,
					   .qkey = RIG_QKEY,
					   .path_mtu = IBV_MTU_1024,
					   .dest_qp_num = 1,
					   .min_rnr_timer = 1,
					   .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = end->gid}}};
		int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		struct ibv_ah *ah = types[i] == IBV_QPT_UD ? rig_ah(rig) : NULL;

		end->qp = ibv_create_qp(end->pd, &init);
		expect_refusal(rig, ah, IBV_WR_SEND);
		assert_int_equal(ibv_modify_qp(end->qp, &attr,
					       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						       (ah ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
				 0);
		expect_refusal(rig, ah, IBV_WR_SEND);
		attr.qp_state = IBV_QPS_RTR;
		if (types[i] == IBV_QPT_RC)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		assert_int_equal(ibv_modify_qp(end->qp, &attr, ah ? IBV_QP_STATE : mask), 0);
		expect_refusal(rig, ah, IBV_WR_SEND);
		expect_no_wc(end->cq);
		rig_disconnect(rig);
		if (ah)
			assert_int_equal(ibv_destroy_ah(ah), 0);
	}
}

static void post__operations_that_the_type_does_not_have_are_refused_at_once(void **state)
{
	static const enum ibv_wr_opcode not_ud[] = {IBV_WR_RDMA_READ,
						    IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_WRITE_WITH_IMM,
						    IBV_WR_ATOMIC_CMP_AND_SWP,
						    IBV_WR_ATOMIC_FETCH_AND_ADD,
						    IBV_WR_SEND_WITH_INV},
					not_uc[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						    IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct rig *rig = *state;
	struct ibv_ah *ah = rig_ah(rig);

	rig_connect(rig, IBV_QPT_UD);
	for (unsigned i = 0; i < sizeof(not_ud) / sizeof(*not_ud); i++)
		expect_refusal(rig, ah, not_ud[i]);
	expect_no_wc(rig->end[0].cq);
	assert_int_equal(queried(rig->end[0].qp).qp_state, IBV_QPS_RTS);
	rig_disconnect(rig);
	rig_connect(rig, IBV_QPT_UC);
	for (unsigned i = 0; i < sizeof(not_uc) / sizeof(*not_uc); i++)
		expect_refusal(rig, NULL, not_uc[i]);
	expect_no_wc(rig->end[0].cq);
	assert_int_equal(queried(rig->end[0].qp).qp_state, IBV_QPS_RTS);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* In ERR a request is accepted, and flushed (C10-42). */
static void post__in_err_is_flushed(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(to_state(end->qp, IBV_QPS_ERR), 0);
	post_send(rig, 1, NULL, end->mr->lkey);
	expect_wc(end->cq, 1, IBV_WC_WR_FLUSH_ERR);
	rig_post_recv(end, 2, 0, 64);
	expect_wc(end->cq, 2, IBV_WC_WR_FLUSH_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sqd__finishes_what_has_begun_and_says_so_once),
		TEST(sqd__of_an_idle_queue_is_drained_at_once),
		TEST(sqd__that_is_entered_twice_is_reported_once_if_nobody_reads),
		TEST(sqd__still_receives),
		TEST(sqe__of_uc_and_ud_can_be_left),
		TEST(sqe__receives),
		TEST(sqe__is_no_state_of_rc),
		TEST(err__of_a_qp_on_an_srq_tells_of_the_last_wqe),
		TEST(err__of_an_xrc_target_tells_of_no_last_wqe),
		TEST(post__before_rts_is_refused_at_once),
		TEST(post__operations_that_the_type_does_not_have_are_refused_at_once),
		TEST(post__in_err_is_flushed),
	};

	return cmocka_run_group_tests_name("shim_states", tests, NULL, NULL);
}
