/* SPDX-License-Identifier: BSD-3-Clause */
/* tm.c - tag-matching SRQs as programs use them: creation, operations, messages, completions. */
#include "rig.h"
#include <endian.h>
#include <infiniband/tm_types.h>

#define APP_CTX 0x01020304u
#define MESSAGE 64u /* of which 48 bytes follow the header */

/** End 1 matches tags. */
struct tags {
	struct rig *rig;
	struct rig_end *end;
	struct ibv_cq *plain;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
};

static struct ibv_srq *srq_create(struct rig_end *end, struct ibv_cq *cq, uint32_t tags)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 16, .max_sge = 2},
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = end->pd,
		.cq = cq,
		.tm_cap = {.max_num_tags = tags, .max_ops = 8},
	};

	return ibv_create_srq_ex(end->ctx, &attr);
}

static struct tags tm_open(void **state)
{
	struct rig *rig = *state;
	struct tags tm = {.rig = rig, .end = &rig->end[1], .plain = rig->end[1].cq};
	struct ibv_cq_init_attr_ex attr = {.cqe = 32, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_qp_init_attr init;

	tm.cq = ibv_create_cq_ex(tm.end->ctx, &attr);
	assert_non_null(tm.cq);
	tm.end->cq = ibv_cq_ex_to_cq(tm.cq);
	tm.srq = srq_create(tm.end, tm.end->cq, 8);
	assert_non_null(tm.srq);
	init = rig_qp_init(tm.end, IBV_QPT_RC);
	init.srq = tm.srq;
	tm.end->qp = ibv_create_qp(tm.end->pd, &init);
	assert_non_null(tm.end->qp);
	init = rig_qp_init(&rig->end[0], IBV_QPT_RC);
	rig->end[0].qp = ibv_create_qp(rig->end[0].pd, &init);
	assert_non_null(rig->end[0].qp);
	rig_connect_qps(rig, rig->end[0].qp, tm.end->qp);
	return tm;
}

static void tm_close(struct tags *tm)
{
	rig_disconnect(tm->rig);
	assert_int_equal(ibv_destroy_srq(tm->srq), 0);
	assert_int_equal(ibv_destroy_cq(tm->end->cq), 0);
	tm->end->cq = tm->plain;
}

static void operate(struct tags *tm, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad;

	assert_int_equal(ibv_post_srq_ops(tm->srq, wr, &bad), 0);
	assert_null(bad);
}

/** Wait for the next completion, which must be this one. @return its flags */
static unsigned expect(struct tags *tm, uint64_t wr_id, enum ibv_wc_opcode opcode, uint64_t tag, uint32_t app_ctx)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc_tm_info info;
	unsigned flags;

	while (ibv_start_poll(tm->cq, &attr) == ENOENT)
		;
	assert_int_equal(tm->cq->status, IBV_WC_SUCCESS);
	assert_int_equal(tm->cq->wr_id, wr_id);
	assert_int_equal(ibv_wc_read_opcode(tm->cq), opcode);
	ibv_wc_read_tm_info(tm->cq, &info);
	assert_int_equal(info.tag, tag);
	assert_int_equal(info.priv, app_ctx);
	flags = ibv_wc_read_wc_flags(tm->cq);
	ibv_end_poll(tm->cq);
	return flags;
}

/** Add the buffer at `offset` of end 1's memory. @return its handle */
static uint32_t add(struct tags *tm, uint64_t wr_id, uint64_t tag, size_t offset)
{
	struct ibv_sge sge = rig_sge(tm->end, offset, MESSAGE);
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = {.recv_wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = UINT64_MAX}};

	operate(tm, &wr);
	return wr.tm.handle;
}

/** SEND a message from end 0: a header, and in a rendezvous request the place of the data. */
static void send(struct tags *tm, enum ibv_tmh_op opcode, uint64_t tag)
{
	struct rig_end *from = &tm->rig->end[0];
	struct ibv_tmh tmh = {.opcode = (uint8_t)opcode, .app_ctx = htobe32(APP_CTX), .tag = htobe64(tag)};
	struct ibv_rvh rvh = {htobe64((uintptr_t)from->buf + 1024), htobe32(from->mr->rkey), htobe32(MESSAGE)};
	struct ibv_sge sge = rig_sge(from, 0, MESSAGE);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	memset(from->buf, (int)tag, MESSAGE);
	memcpy(from->buf, &tmh, sizeof(tmh));
	if (opcode == IBV_TMH_RNDV)
		memcpy(from->buf + sizeof(tmh), &rvh, sizeof(rvh));
	memset(from->buf + 1024, (int)tag, MESSAGE);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
}

static void tm__is_reported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(end->ctx, NULL, &attr), 0);
	assert_int_equal(attr.tm_caps.flags, IBV_TM_CAP_RC);
	assert_true(attr.tm_caps.max_num_tags && attr.tm_caps.max_ops && attr.tm_caps.max_sge);
	assert_true(attr.tm_caps.max_rndv_hdr_size >= sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh));
	assert_null(srq_create(end, end->cq, attr.tm_caps.max_num_tags + 1));
	assert_int_equal(errno, EINVAL);
	assert_null(srq_create(end, NULL, 8));
	assert_int_equal(errno, EINVAL);
}

static void tm__messages_go_to_the_buffers_of_their_tags(void **state)
{
	const unsigned whole = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
	struct tags tm = tm_open(state);
	struct ibv_sge sge = rig_sge(tm.end, 2048, MESSAGE);
	struct ibv_recv_wr recv = {.wr_id = 30, .sg_list = &sge, .num_sge = 1}, *bad;
	uint8_t *buf = tm.end->buf;

	add(&tm, 10, 1, 0);
	add(&tm, 20, 2, 512);
	assert_int_equal(ibv_post_srq_recv(tm.srq, &recv, &bad), 0);
	send(&tm, IBV_TMH_EAGER, 2);
	assert_int_equal(expect(&tm, 20, IBV_WC_TM_RECV, 2, APP_CTX), whole);
	for (unsigned i = 0; i < MESSAGE - sizeof(struct ibv_tmh); i++)
		assert_int_equal(buf[512 + i], 2);
	send(&tm, IBV_TMH_EAGER, 7);
	assert_int_equal(expect(&tm, 30, IBV_WC_TM_RECV, 0, 0), 0);
	assert_int_equal(buf[2048], IBV_TMH_EAGER);
	rig_post_recv(&tm.rig->end[0], 40, 3072, MESSAGE); /* for FIN */
	send(&tm, IBV_TMH_RNDV, 1);
	assert_int_equal(expect(&tm, 10, IBV_WC_TM_RECV, 1, APP_CTX), IBV_WC_TM_MATCH);
	assert_int_equal(expect(&tm, 10, IBV_WC_TM_RECV, 0, 0), IBV_WC_TM_DATA_VALID);
	for (unsigned i = 0; i < MESSAGE; i++)
		assert_int_equal(buf[i], 1);
	assert_int_equal(rig_wait(tm.rig->end[0].cq).wr_id, 40);
	assert_int_equal(tm.rig->end[0].buf[3072], IBV_TMH_FIN);
	tm_close(&tm);
}

static void tm__operations_complete_if_they_are_signaled(void **state)
{
	struct tags tm = tm_open(state);
	struct ibv_ops_wr sync = {.wr_id = 3, .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC};
	struct ibv_ops_wr del = {.wr_id = 2,
				 .next = &sync,
				 .opcode = IBV_WR_TAG_DEL,
				 .flags = IBV_OPS_SIGNALED,
				 .tm.handle = add(&tm, 10, 1, 0)};
	struct ibv_ops_wr wrong = {.opcode = (enum ibv_ops_wr_opcode)3}, *bad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad_send;

	operate(&tm, &del);
	assert_int_equal(expect(&tm, 2, IBV_WC_TM_DEL, 0, 0), 0);
	assert_int_equal(expect(&tm, 3, IBV_WC_TM_SYNC, 0, 0), 0);
	sync.next = &wrong;
	assert_int_equal(ibv_post_srq_ops(tm.srq, &sync, &bad), EINVAL);
	assert_ptr_equal(bad, &wrong);
	assert_int_equal(expect(&tm, 3, IBV_WC_TM_SYNC, 0, 0), 0);
	assert_int_equal(ibv_post_send(tm.end->qp, &wr, &bad_send), EINVAL); /* the send queue is the SRQ's */
	tm_close(&tm);
}

/** @return the flags of the completion of a buffer that is added when the application has handled n unexpected
 *  messages. */
static unsigned add_after(struct tags *tm, uint32_t n)
{
	struct ibv_sge sge = rig_sge(tm->end, 0, MESSAGE);
	struct ibv_ops_wr wr = {.wr_id = 5,
				.opcode = IBV_WR_TAG_ADD,
				.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
				.tm = {.unexpected_cnt = n,
				       .add = {.recv_wr_id = 6, .sg_list = &sge, .num_sge = 1, .tag = 9, .mask = 1}}};

	operate(tm, &wr);
	return expect(tm, 5, IBV_WC_TM_ADD, 0, 0);
}

static void tm__operations_tell_of_unexpected_messages(void **state)
{
	struct tags tm = tm_open(state);
	struct ibv_sge sge = rig_sge(tm.end, 2048, MESSAGE);
	struct ibv_recv_wr recv = {.wr_id = 30, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(add_after(&tm, 0), 0);
	assert_int_equal(ibv_post_srq_recv(tm.srq, &recv, &bad), 0);
	send(&tm, IBV_TMH_EAGER, 8);
	assert_int_equal(expect(&tm, 30, IBV_WC_TM_RECV, 0, 0), 0);
	assert_int_equal(add_after(&tm, 0), IBV_WC_TM_SYNC_REQ);
	assert_int_equal(add_after(&tm, 1), 0);
	tm_close(&tm);
}

/* The buffer of a rendezvous completes with the status of the READ. */
static void tm__a_rendezvous_that_fails_fails_its_buffer(void **state)
{
	struct tags tm = tm_open(state);
	struct rig_end *from = &tm.rig->end[0];
	struct ibv_poll_cq_attr attr = {0};

	add(&tm, 10, 1, 0);
	from->mr->rkey ^= 0x5500; /* send() puts it into the header */
	send(&tm, IBV_TMH_RNDV, 1);
	from->mr->rkey ^= 0x5500;
	assert_int_equal(expect(&tm, 10, IBV_WC_TM_RECV, 1, APP_CTX), IBV_WC_TM_MATCH);
	while (ibv_start_poll(tm.cq, &attr) == ENOENT)
		;
	assert_int_equal(tm.cq->wr_id, 10);
	assert_int_equal(tm.cq->status, IBV_WC_REM_ACCESS_ERR);
	ibv_end_poll(tm.cq);
	tm_close(&tm);
}

/** SEND from end 0 what a QP on a tag-matching SRQ does not take: the request must be an invalid one. */
static void expect_invalid(void **state, enum ibv_wr_opcode opcode)
{
	struct tags tm = tm_open(state);
	struct rig_end *from = &tm.rig->end[0];
	struct ibv_sge sge = rig_sge(tm.end, 2048, MESSAGE), from_sge = rig_sge(from, 0, 8);
	struct ibv_recv_wr recv = {.wr_id = 30, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.sg_list = &from_sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)tm.end->buf, tm.end->mr->rkey}},
			   *bad_send;

	assert_int_equal(ibv_post_srq_recv(tm.srq, &recv, &bad), 0);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad_send), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_REM_INV_REQ_ERR);
	tm_close(&tm);
}

static void tm__only_plain_sends_are_taken(void **state)
{
	expect_invalid(state, IBV_WR_SEND_WITH_IMM);
	expect_invalid(state, IBV_WR_SEND_WITH_INV);
	expect_invalid(state, IBV_WR_RDMA_WRITE_WITH_IMM);
}

/* When the SRQ's CQ overflows, the QPs of the SRQ fail: messages without a completion would be lost. */
static void tm__an_overflow_of_the_cq_fails_the_qps(void **state)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL,
						    IBV_EVENT_QP_LAST_WQE_REACHED};
	struct tags tm = tm_open(state);
	struct ibv_sge sge = rig_sge(tm.end, 2048, MESSAGE);
	struct ibv_recv_wr recv = {.wr_id = 30, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_async_event event;

	for (int i = 0; i <= tm.end->cq->cqe; i++) {
		assert_int_equal(ibv_post_srq_recv(tm.srq, &recv, &bad), 0);
		if (i < tm.end->cq->cqe)
			send(&tm, IBV_TMH_EAGER, 7);
	}
	assert_int_equal(ibv_post_send(tm.rig->end[0].qp, &wr, &bad_send), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ibv_get_async_event(tm.end->ctx, &event), 0);
		ibv_ack_async_event(&event);
		assert_int_equal(event.event_type, types[i]);
		assert_ptr_equal(event.element.qp, i ? (void *)tm.end->qp : (void *)tm.end->cq);
	}
	tm_close(&tm);
}

/* The QP is RC and of the SRQ's PD, and does not use its own CQs. */
static void tm__qps_of_other_kinds_are_refused(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_srq *srq = srq_create(end, end->cq, 8);
	struct ibv_pd *other = ibv_alloc_pd(end->ctx);
	struct ibv_cq *own = ibv_create_cq(end->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_UC);
	struct ibv_qp *qp;

	init.srq = srq;
	assert_null(ibv_create_qp(end->pd, &init));
	assert_int_equal(errno, EINVAL);
	init.qp_type = IBV_QPT_UD;
	assert_null(ibv_create_qp(end->pd, &init));
	assert_int_equal(errno, EINVAL);
	init.qp_type = IBV_QPT_RC;
	assert_null(ibv_create_qp(other, &init));
	assert_int_equal(errno, EINVAL);
	init.send_cq = init.recv_cq = own;
	qp = ibv_create_qp(end->pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_cq(own), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tm__is_reported),
		TEST(tm__messages_go_to_the_buffers_of_their_tags),
		TEST(tm__operations_complete_if_they_are_signaled),
		TEST(tm__operations_tell_of_unexpected_messages),
		TEST(tm__a_rendezvous_that_fails_fails_its_buffer),
		TEST(tm__only_plain_sends_are_taken),
		TEST(tm__an_overflow_of_the_cq_fails_the_qps),
		TEST(tm__qps_of_other_kinds_are_refused),
	};

	return cmocka_run_group_tests_name("shim_tm", tests, NULL, NULL);
}
