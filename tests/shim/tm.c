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

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tm__is_reported),
		TEST(tm__messages_go_to_the_buffers_of_their_tags),
		TEST(tm__operations_complete_if_they_are_signaled),
	};

	return cmocka_run_group_tests_name("shim_tm", tests, NULL, NULL);
}
