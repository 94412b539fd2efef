/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests.c - what becomes of requests that the responder must refuse, and in which order requests are executed
 * (IBTA 9.5, 9.7.4, 9.9): docs/answers.md has a row for each.
 */
#include "rig.h"

#include <poll.h>
#include <unistd.h>

static void expect_no_event(struct rig_end *end)
{
	struct pollfd p = {end->ctx->async_fd, POLLIN, 0};

	assert_int_equal(poll(&p, 1, 50), 0);
}

static void expect_event(struct rig_end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(end->ctx, &event), 0);
	ibv_ack_async_event(&event);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, end->qp);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/** A request of `length` bytes between the buffers' offsets `from` (end 0) and `to` (end 1). */
static struct ibv_send_wr request(struct rig *rig, enum ibv_wr_opcode opcode, size_t from, size_t to, uint32_t length,
				  struct ibv_sge *sge)
{
	struct rig_end *target = &rig->end[1];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	*sge = rig_sge(&rig->end[0], from, length);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)target->buf + to;
		wr.wr.atomic.rkey = target->mr->rkey;
	} else if (opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_INV) {
		wr.wr.rdma.remote_addr = (uintptr_t)target->buf + to;
		wr.wr.rdma.rkey = target->mr->rkey;
	}
	return wr;
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = rig_wait(cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* ---- invalidation ------------------------------------------------------------------------------------ */

/** Let a QP give up soon when its peer stays silent. */
static void be_impatient(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .timeout = 10, .retry_cnt = 2};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/** A region of end 1 with two windows on its first 64 bytes: of type 1, and of type 2 on the QP. */
struct windows {
	struct ibv_mr *mr;
	struct ibv_mw *one, *two;
};

static struct windows windows_bind(struct rig_end *end, struct ibv_qp *qp)
{
	struct windows w = {ibv_reg_mr(end->pd, end->buf, 4096, RIG_ACCESS | IBV_ACCESS_MW_BIND),
			    ibv_alloc_mw(end->pd, IBV_MW_TYPE_1), ibv_alloc_mw(end->pd, IBV_MW_TYPE_2)};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {w.mr, (uintptr_t)end->buf, 64, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	assert_int_equal(ibv_bind_mw(qp, w.one, &bind), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	wr.bind_mw.bind_info = bind.bind_info;
	wr.bind_mw.mw = w.two;
	wr.bind_mw.rkey = ibv_inc_rkey(w.two->rkey);
	post(qp, &wr);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	w.two->rkey = wr.bind_mw.rkey;
	return w;
}

/** Create and connect a second pair of QPs: qp[0] at end 0. */
static void second_pair(struct rig *rig, struct ibv_qp *qp[2])
{
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(&rig->end[i], IBV_QPT_RC);

		qp[i] = ibv_create_qp(rig->end[i].pd, &init);
		assert_non_null(qp[i]);
	}
	rig_connect_qps(rig, qp[0], qp[1]);
}

/** A SEND with invalidation of this key must fail the receive request and the QP of end 1, and get no answer. */
static void expect_no_invalidation(struct rig *rig, uint32_t key)
{
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_SEND_WITH_INV, 0, 0, 8, &sge);

	rig_connect(rig, IBV_QPT_RC);
	be_impatient(from->qp);
	rig_post_recv(to, 1, 8192, 64);
	rig_post_recv(to, 2, 8192, 64);
	wr.invalidate_rkey = key;
	post(from->qp, &wr);
	expect_wc(to->cq, 1, IBV_WC_MW_BIND_ERR);
	expect_wc(to->cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(to->qp), IBV_QPS_ERR);
	expect_no_event(to);
	expect_wc(from->cq, 0, IBV_WC_RETRY_EXC_ERR);
	rig_disconnect(rig);
}

static void invalidate__of_a_key_that_may_not_be_fails_the_receiver_and_is_not_answered(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp *other[2];
	struct windows w;
	uint32_t keys[4];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_RDMA_WRITE, 0, 0, 64, &sge);

	second_pair(rig, other);
	w = windows_bind(to, other[1]);
	keys[0] = w.mr->rkey;
	keys[1] = w.one->rkey;
	keys[2] = w.two->rkey; /* bound by another QP */
	keys[3] = w.two->rkey ^ 0x5a5a5a00;
	for (unsigned i = 0; i < 4; i++)
		expect_no_invalidation(rig, keys[i]);
	for (unsigned i = 0; i < 3; i++) { /* the keys are still valid */
		wr.wr.rdma.rkey = keys[i];
		memset(rig->end[0].buf, (int)i + 1, 64);
		post(other[0], &wr);
		expect_wc(rig->end[0].cq, 0, IBV_WC_SUCCESS);
		assert_memory_equal(to->buf, rig->end[0].buf, 64);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(other[i]), 0);
	assert_int_equal(ibv_dealloc_mw(w.one), 0);
	assert_int_equal(ibv_dealloc_mw(w.two), 0);
	assert_int_equal(ibv_dereg_mr(w.mr), 0);
}

/* ---- several errors ---------------------------------------------------------------------------------- */

static void checks__the_key_comes_before_the_alignment(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge;

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_send_wr wr = request(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4, 8, &sge);

		if (i == 0)
			wr.wr.atomic.rkey ^= 0x5500;
		rig_connect(rig, IBV_QPT_RC);
		post(rig->end[0].qp, &wr);
		expect_wc(rig->end[0].cq, 0, i == 0 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
		expect_event(&rig->end[1], i == 0 ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
		rig_disconnect(rig);
	}
}

static void checks__the_rights_of_the_qp_come_before_the_key(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_RDMA_READ, 0, 0, 8, &sge);

	wr.wr.rdma.rkey ^= 0x5500;
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(rig->end[1].qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	post(rig->end[0].qp, &wr);
	expect_wc(rig->end[0].cq, 0, IBV_WC_REM_INV_REQ_ERR);
	expect_event(&rig->end[1], IBV_EVENT_QP_REQ_ERR);
}

static void checks__the_receive_request_comes_before_the_key(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 8, &sge);
	struct ibv_wc wc;

	wr.wr.rdma.rkey ^= 0x5500;
	rig_connect(rig, IBV_QPT_RC);
	post(from->qp, &wr);
	usleep(50000);
	assert_int_equal(ibv_poll_cq(from->cq, 1, &wc), 0); /* receiver not ready */
	assert_int_equal(state_of(to->qp), IBV_QPS_RTS);
	rig_post_recv(to, 7, 0, 64);
	expect_wc(from->cq, 0, IBV_WC_REM_ACCESS_ERR);
	expect_wc(to->cq, 7, IBV_WC_LOC_ACCESS_ERR);
	expect_no_event(to);
}

/* The receive request is used by the last packet only: the first, which fails, has none that could report it. */
static void write_with_immediate__of_two_packets_fails_without_its_receive_request(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(rig, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 1025, &sge);

	wr.wr.rdma.rkey ^= 0x5500;
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(to, 7, 0, 64);
	post(from->qp, &wr);
	expect_wc(from->cq, 0, IBV_WC_REM_ACCESS_ERR);
	expect_wc(to->cq, 7, IBV_WC_WR_FLUSH_ERR);
	expect_event(to, IBV_EVENT_QP_ACCESS_ERR);
	expect_no_event(to);
}

/* ---- order of execution ------------------------------------------------------------------------------ */

#define ROUNDS 500

/* A READ, and behind it an atomic on the memory that it reads. */
static void order__a_read_before_an_atomic(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	uint64_t *counter = (uint64_t *)to->buf, *seen = (uint64_t *)from->buf;

	rig_connect(rig, IBV_QPT_RC);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge[2];
		struct ibv_send_wr read = request(rig, IBV_WR_RDMA_READ, 0, 0, 2048, &sge[0]),
				   add = request(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 2040, 8, &sge[1]);

		counter[255] = i;
		read.send_flags = 0;
		read.next = &add;
		add.wr.atomic.compare_add = 1000;
		post(from->qp, &read);
		expect_wc(from->cq, 0, IBV_WC_SUCCESS);
		assert_int_equal(seen[255], i);
		assert_int_equal(seen[512], i);
		assert_int_equal(counter[255], i + 1000);
	}
}

/* A READ, and behind it a SEND into the memory that it reads. */
static void order__a_read_before_a_send(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge[2];
		struct ibv_send_wr read = request(rig, IBV_WR_RDMA_READ, 0, 0, 4096, &sge[0]),
				   send = request(rig, IBV_WR_SEND, 8192, 0, 4096, &sge[1]);

		memset(to->buf, (int)i, 4096);
		memset(from->buf + 8192, (int)i + 1, 4096);
		rig_post_recv(to, i, 0, 4096);
		read.send_flags = 0;
		read.next = &send;
		post(from->qp, &read);
		expect_wc(from->cq, 0, IBV_WC_SUCCESS);
		expect_wc(to->cq, i, IBV_WC_SUCCESS);
		for (unsigned k = 0; k < 4096; k += 1024)
			assert_int_equal(from->buf[k], (uint8_t)i);
		assert_int_equal(to->buf[4095], (uint8_t)(i + 1));
	}
}

/* An atomic, and behind it a WRITE to its operand. */
static void order__an_atomic_before_a_write(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	uint64_t *counter = (uint64_t *)to->buf, *seen = (uint64_t *)from->buf;

	rig_connect(rig, IBV_QPT_RC);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge[2];
		struct ibv_send_wr add = request(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8, &sge[0]),
				   write = request(rig, IBV_WR_RDMA_WRITE, 4096, 0, 8, &sge[1]);

		counter[0] = i;
		seen[512] = ~i;
		add.send_flags = 0;
		add.wr.atomic.compare_add = 1000;
		add.next = &write;
		post(from->qp, &add);
		expect_wc(from->cq, 0, IBV_WC_SUCCESS);
		assert_int_equal(seen[0], i);
		assert_true(counter[0] == ~i);
	}
}

/* ---- datagrams --------------------------------------------------------------------------------------- */

/** Send a datagram of `excess` bytes more than the MTU, and one that arrives. */
static void send_too_long(struct rig *rig, uint32_t excess)
{
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_ah *ah = rig_ah(rig);
	struct ibv_port_attr port;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr[2];

	assert_int_equal(ibv_query_port(from->ctx, 1, &port), 0);
	rig_connect(rig, IBV_QPT_UD);
	rig_post_recv(to, 7, 0, 32768);
	for (unsigned i = 0; i < 2; i++) {
		wr[i] = request(rig, IBV_WR_SEND, 0, 0, i ? 16 : (128u << port.active_mtu) + excess, &sge[i]);
		wr[i].wr_id = i;
		wr[i].wr.ud.ah = ah;
		wr[i].wr.ud.remote_qpn = to->qp->qp_num;
		wr[i].wr.ud.remote_qkey = RIG_QKEY;
		post(from->qp, &wr[i]);
		expect_wc(from->cq, i, IBV_WC_SUCCESS);
	}
	if (excess)
		assert_int_equal(rig_wait(to->cq).byte_len, 40 + 16);
	else
		assert_int_equal(rig_wait(to->cq).byte_len, 40 + (128u << port.active_mtu));
	assert_int_equal(state_of(from->qp), IBV_QPS_RTS);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void datagram__longer_than_the_mtu_succeeds_and_is_not_sent(void **state)
{
	send_too_long(*state, 0);
	send_too_long(*state, 1);
	send_too_long(*state, 20000);
}

static void datagram__longer_than_the_mtu_is_counted(void **state)
{
	struct rig *rig = *state;
	long before = rig_counter(&rig->end[0], "ud_oversize");

	if (before < 0) {
		print_message("skipped: the files of /sys/class/infiniband are not there, as with a sanitizer\n");
		skip();
	}
	send_too_long(rig, 0);
	assert_int_equal(rig_counter(&rig->end[0], "ud_oversize"), before);
	send_too_long(rig, 1);
	assert_int_equal(rig_counter(&rig->end[0], "ud_oversize"), before + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(invalidate__of_a_key_that_may_not_be_fails_the_receiver_and_is_not_answered),
		TEST(checks__the_key_comes_before_the_alignment),
		TEST(checks__the_rights_of_the_qp_come_before_the_key),
		TEST(checks__the_receive_request_comes_before_the_key),
		TEST(write_with_immediate__of_two_packets_fails_without_its_receive_request),
		TEST(order__a_read_before_an_atomic),
		TEST(order__a_read_before_a_send),
		TEST(order__an_atomic_before_a_write),
		TEST(datagram__longer_than_the_mtu_succeeds_and_is_not_sent),
		TEST(datagram__longer_than_the_mtu_is_counted),
	};

	return cmocka_run_group_tests_name("shim_requests", tests, NULL, NULL);
}
