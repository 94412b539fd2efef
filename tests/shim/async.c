/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * async.c - asynchronous events (IBTA 11.6.3): what raises each, which element it names, that it comes once, and that
 * the element is destroyed only when the event has been acknowledged. SQ_DRAINED and QP_LAST_WQE_REACHED are in
 * states.c, and GID_CHANGE, which takes root, in tests/apps/share_test.py. Nothing raises the others.
 */
#include "rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define LONG_MS 20000

static bool told(struct ibv_context *ctx, int ms)
{
	struct pollfd p = {ctx->async_fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

static struct ibv_async_event next_event(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	assert_true(told(ctx, LONG_MS));
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	return event;
}

/** The next event at end 1 must be of this type and concern this element. */
static void expect_event(struct rig *rig, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event event = next_event(rig->end[1].ctx);

	ibv_ack_async_event(&event);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, element);
}

static void expect_no_event(struct rig *rig)
{
	assert_false(told(rig->end[1].ctx, 100));
	assert_false(told(rig->end[0].ctx, 0));
}

static struct ibv_send_wr request(struct rig *rig, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct rig_end *to = &rig->end[1];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	*sge = rig_sge(&rig->end[0], 0, 8);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
		wr.wr.atomic.rkey = to->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return wr;
}

static void post(struct rig *rig, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, wr, &bad), 0);
}

/* ---- of QPs ------------------------------------------------------------------------------------------ */

static void raise_access_err(struct rig *rig, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, opcode, &sge);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey ^= 0x5500;
	else
		wr.wr.rdma.rkey ^= 0x5500;
	post(rig, &wr);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_REM_ACCESS_ERR);
}

static void async__access_err_for_a_bad_r_key(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct rig *rig = *state;

	for (unsigned i = 0; i < 3; i++) {
		rig_connect(rig, IBV_QPT_RC);
		raise_access_err(rig, opcodes[i]);
		expect_event(rig, IBV_EVENT_QP_ACCESS_ERR, rig->end[1].qp);
		expect_no_event(rig);
		rig_disconnect(rig);
	}
}

static void async__req_err_for_an_invalid_request(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

	wr.wr.atomic.remote_addr += 4; /* misaligned */
	rig_connect(rig, IBV_QPT_RC);
	post(rig, &wr);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_REM_INV_REQ_ERR);
	expect_event(rig, IBV_EVENT_QP_REQ_ERR, rig->end[1].qp);
	expect_no_event(rig);
}

/** Bring a QP of end 1 to RTR. */
static void to_rtr(struct rig *rig, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.rq_psn = 100,
		.dest_qp_num = rig->end[0].qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = rig->end[0].gid, .hop_limit = 64}},
	};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
}

/* The first packet, while the QP is in RTR, raises it. In RTS, which the program has chosen, nothing does. */
static void async__comm_est_with_the_first_packet_in_rtr(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_SEND, &sge);

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(to->qp, &reset, IBV_QP_STATE), 0);
	to_rtr(rig, to->qp);
	for (unsigned i = 0; i < 2; i++) {
		rig_post_recv(to, i, 0, 64);
		post(rig, &wr);
		assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
		if (i == 0)
			expect_event(rig, IBV_EVENT_COMM_EST, to->qp);
	}
	expect_no_event(rig);
	rig_disconnect(rig);
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(to, 0, 0, 64);
	post(rig, &wr);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	expect_no_event(rig);
}

/* A receive request that fails tells the error: no event does (C9-222.1.1). */
static void async__none_for_an_error_that_a_completion_reports(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_SEND, &sge);

	sge.length = 64;
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(to, 1, 0, 8);
	post(rig, &wr);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_LOC_LEN_ERR);
	expect_no_event(rig);
}

/* ---- of CQs ------------------------------------------------------------------------------------------ */

/** Replace the CQ at end 1 by one of few entries, connect QPs, and let it overflow. @return the CQ of the rig. */
static struct ibv_cq *overflow(struct rig *rig)
{
	struct rig_end *to = &rig->end[1];
	struct ibv_cq *plain = to->cq;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	to->cq = ibv_create_cq(to->ctx, 1, NULL, NULL, 0);
	assert_non_null(to->cq);
	assert_true(to->cq->cqe < 16);
	rig_connect(rig, IBV_QPT_RC);
	for (int i = 0; i <= to->cq->cqe; i++) {
		rig_post_recv(to, (uint64_t)i, 0, 64);
		post(rig, &wr);
	}
	return plain;
}

static void async__cq_err_and_qp_fatal_for_a_cq_that_overflows(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_cq *plain = overflow(rig);

	expect_event(rig, IBV_EVENT_CQ_ERR, to->cq);
	expect_event(rig, IBV_EVENT_QP_FATAL, to->qp);
	expect_no_event(rig);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(to->cq), 0);
	to->cq = plain;
}

/* ---- of the port ------------------------------------------------------------------------------------- */

/** Let the link of the device of end 1 fail, or come back. */
static void set_link(const char *fault)
{
	const char *device = strchr(getenv("UROCE_DEVICES"), ',') + 1;
	char command[1000];

	snprintf(command, sizeof(command), "env -u LD_PRELOAD -u LD_LIBRARY_PATH '%s' fault %s %s >/dev/null",
		 UROCE_COMMAND, device, fault);
	assert_int_equal(system(command), 0);
}

/* Each context of the device gets it. It needs no acknowledgement, but may be acknowledged. */
static void async__port_err_and_port_active_go_to_all_contexts(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx[2] = {rig->end[1].ctx, ibv_open_device(rig->end[1].ctx->device)};

	assert_non_null(ctx[1]);
	for (unsigned up = 0; up < 2; up++) {
		set_link(up ? "clear" : "--link down");
		for (unsigned i = 0; i < 2; i++) {
			struct ibv_async_event event = next_event(ctx[i]);
			struct ibv_port_attr port;

			assert_int_equal(event.event_type, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
			assert_int_equal(event.element.port_num, 1);
			ibv_ack_async_event(&event);
			assert_int_equal(ibv_query_port(ctx[i], 1, &port), 0);
			assert_int_equal(port.state, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
			assert_false(told(ctx[i], 100));
		}
	}
	expect_no_event(rig); /* the other device */
	assert_int_equal(ibv_close_device(ctx[1]), 0);
}

/* ---- acknowledgement --------------------------------------------------------------------------------- */

struct destruction {
	int (*destroy)(void *);
	void *object;
	atomic_bool done;
};

static void *destroy_main(void *arg)
{
	struct destruction *d = arg;

	assert_int_equal(d->destroy(d->object), 0);
	atomic_store(&d->done, true);
	return NULL;
}

/** Read the next event at end 1, which must be of this type; destroy its element, and acknowledge the event only
 *  then. */
static void expect_destruction_waits(struct rig *rig, enum ibv_event_type type, int (*destroy)(void *), void *object)
{
	struct ibv_async_event event = next_event(rig->end[1].ctx);
	struct destruction d = {.destroy = destroy, .object = object};
	pthread_t thread;

	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, object);
	assert_int_equal(pthread_create(&thread, NULL, destroy_main, &d), 0);
	usleep(100000);
	assert_false(atomic_load(&d.done));
	ibv_ack_async_event(&event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&d.done));
}

static int destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static int destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static int destroy_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void ack__a_qp_is_destroyed_after_its_events_are_acknowledged(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	raise_access_err(rig, IBV_WR_RDMA_WRITE);
	expect_destruction_waits(rig, IBV_EVENT_QP_ACCESS_ERR, destroy_qp, rig->end[1].qp);
	rig->end[1].qp = NULL;
}

static void ack__a_cq_is_destroyed_after_its_events_are_acknowledged(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_cq *plain = overflow(rig);

	assert_true(told(to->ctx, LONG_MS));
	rig_disconnect(rig); /* the event of the QP goes unread */
	expect_destruction_waits(rig, IBV_EVENT_CQ_ERR, destroy_cq, to->cq);
	to->cq = plain;
	expect_no_event(rig);
}

/* An empty SRQ reaches its limit when the first request is taken from it. */
static void ack__an_srq_is_destroyed_after_its_events_are_acknowledged(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(to->pd, &srq_init);
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_init_attr init = rig_qp_init(from, IBV_QPT_RC);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	from->qp = ibv_create_qp(from->pd, &init);
	init = rig_qp_init(to, IBV_QPT_RC);
	init.srq = srq;
	to->qp = ibv_create_qp(to->pd, &init);
	rig_connect_qps(rig, from->qp, to->qp);
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	post(rig, &wr);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
	rig_disconnect(rig);
	expect_destruction_waits(rig, IBV_EVENT_SRQ_LIMIT_REACHED, destroy_srq, srq);
}

/* ---- notification ------------------------------------------------------------------------------------ */

/* A CQ without a channel may be armed, which has no effect: completions are polled as ever. */
static void notify__without_a_channel_does_nothing(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_SEND, &sge);

	assert_null(to->cq->channel);
	rig_connect(rig, IBV_QPT_RC);
	for (int solicited = 0; solicited < 2; solicited++) {
		assert_int_equal(ibv_req_notify_cq(to->cq, solicited), 0);
		rig_post_recv(to, 1, 0, 64);
		post(rig, &wr);
		assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	}
	expect_no_event(rig);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(async__access_err_for_a_bad_r_key),
		TEST(async__req_err_for_an_invalid_request),
		TEST(async__comm_est_with_the_first_packet_in_rtr),
		TEST(async__none_for_an_error_that_a_completion_reports),
		TEST(async__cq_err_and_qp_fatal_for_a_cq_that_overflows),
		TEST(async__port_err_and_port_active_go_to_all_contexts),
		TEST(ack__a_qp_is_destroyed_after_its_events_are_acknowledged),
		TEST(ack__a_cq_is_destroyed_after_its_events_are_acknowledged),
		TEST(ack__an_srq_is_destroyed_after_its_events_are_acknowledged),
		TEST(notify__without_a_channel_does_nothing),
	};

	return cmocka_run_group_tests_name("shim_async", tests, NULL, NULL);
}
