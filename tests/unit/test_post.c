/* SPDX-License-Identifier: BSD-3-Clause */
/* test_post.c - posting send work requests (conformance points RQ-09, RQ-13, RQ-16 to RQ-18). */
#include "rig.h"

static void post__RQ_09_messages_over_2_gib_are_refused(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge[2] = {{rig_va(rig, 0), 0x80000000u, rig->lkey}, {rig_va(rig, 0), 0, rig->lkey}};
	struct nic_send_wr wr = {.sg_list = sge, .num_sge = 2};
	static const enum nic_wr_opcode ops[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ,
						 NIC_WR_SEND_WITH_IMM};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		wr.opcode = ops[i];
		sge[1].length = 1;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		sge[1].length = 0x80000000u; /* the sum does not fit 32 bits */
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		sge[1].length = 0;
		assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	}
	rig_destroy(rig);
}

static void post__RQ_13_inline_data_is_taken_during_the_call(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint8_t mine[128], other[3] = {1, 2, 3}; /* not registered: inline data needs no L_Key */
	struct nic_sge sge[2] = {{(uintptr_t)mine, 100, 0}, {(uintptr_t)other, 3, 0xdead}};
	struct nic_send_wr wr = {
		.wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = NIC_WR_SEND, .flags = NIC_SEND_INLINE};
	uint8_t expect[103];
	struct packet p;

	memset(mine, 0x77, sizeof(mine));
	memcpy(expect, mine, 100);
	memcpy(expect + 100, other, 3);
	rig_post(rig, &wr);
	memset(mine, 0, sizeof(mine));
	memset(other, 0, sizeof(other));
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(p.payload_len, 103);
	assert_memory_equal(p.payload, expect, 103);
	rig_advance(rig, rig_timeout_ns(12));
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN); /* retransmitted from the copy in the queue */
	assert_memory_equal(p.payload, expect, 103);
	rig_destroy(rig);
}

static void post__RQ_13_inline_size_and_opcodes_are_limited(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 128);
	static const enum nic_wr_opcode never[] = {NIC_WR_RDMA_READ, NIC_WR_ATOMIC_CMP_AND_SWP,
						   NIC_WR_ATOMIC_FETCH_AND_ADD};

	wr.flags = NIC_SEND_INLINE;
	rig->sge.length = 128;
	assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	rig->sge.length = 129;
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	rig->sge.length = 8;
	for (unsigned i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		wr.opcode = never[i];
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/* Inline data is stored in the queue in place of SGEs, so max_send_sge does not limit the number of its segments. */
static void post__RQ_13_inline_data_needs_no_sges(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cap.max_send_sge = 1});
	uint8_t mine[3] = {1, 2, 3};
	struct nic_sge sge[3] = {{(uintptr_t)mine, 1, 0}, {(uintptr_t)mine + 1, 1, 0}, {(uintptr_t)mine + 2, 1, 0}};
	struct nic_send_wr wr = {.sg_list = sge, .num_sge = 3, .opcode = NIC_WR_SEND};
	struct packet p;

	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	wr.flags = NIC_SEND_INLINE;
	assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(p.payload_len, 3);
	assert_memory_equal(p.payload, mine, 3);
	rig_destroy(rig);
}

static void post__RQ_13_inline_message_over_the_path_mtu_is_segmented(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cap.max_inline_data = 600});
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_RDMA_WRITE, 40, 600);
	struct packet p;

	wr.flags = NIC_SEND_INLINE;
	rig_post(rig, &wr);
	rig_expect_tx(rig, WRITE_FIRST, RIG_SQ_PSN);
	p = rig_expect_tx(rig, WRITE_MIDDLE, RIG_SQ_PSN + 1);
	assert_memory_equal(p.payload, rig->arena + 40 + RIG_MTU, RIG_MTU);
	p = rig_expect_tx(rig, WRITE_LAST, RIG_SQ_PSN + 2);
	assert_int_equal(p.payload_len, 600 - 2 * RIG_MTU);
	assert_memory_equal(p.payload, rig->arena + 40 + 2 * RIG_MTU, p.payload_len);
	rig_destroy(rig);
}

static void post__inline_data_may_fill_the_room_of_the_sges(void **state)
{
	static const uint32_t limits[] = {1024, 40}, rooms[] = {4 * sizeof(struct nic_sge), 40};

	for (unsigned i = 0; i < 2; i++) {
		const struct rig_opts opts = {.nic.limits.max_inline = limits[i],
					      .cap = {.max_send_sge = 4, .max_inline_data = 1},
					      .max_fetch = RIG_NO_ELEMENTS};
		struct rig *rig = rig_ready(&opts);
		struct nic_qp_init granted;
		struct nic_qp_attr attr;
		struct nic_send_wr wr;
		struct packet p;

		nic_qp_query(rig->qp, &attr, &granted);
		assert_int_equal(granted.cap.max_inline_data, rooms[i]);
		wr = rig_wr(rig, 1, NIC_WR_SEND, 40, rooms[i] + 1);
		wr.flags = NIC_SEND_INLINE;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		wr = rig_wr(rig, 1, NIC_WR_SEND, 40, rooms[i]);
		wr.flags = NIC_SEND_INLINE;
		rig_post(rig, &wr);
		p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		assert_int_equal(p.payload_len, rooms[i]);
		assert_memory_equal(p.payload, rig->arena + 40, p.payload_len);
		rig_destroy(rig);
	}
}

static void post__RQ_16_sends_are_refused_before_rts_and_flushed_in_err(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_RC, NIC_QPT_UC};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_create(&(struct rig_opts){.type = types[i]});
		struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);

		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		rig_to_init(rig);
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		rig_to_rtr(rig);
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		rig_expect_silence(rig);
		rig_to_rts(rig);
		assert_int_equal(nic_post_send(rig->qp, &wr), 0);
		rig_expect_tx(rig, SEND_ONLY | (types[i] == NIC_QPT_UC ? RIG_UC : 0), RIG_SQ_PSN);
		rig_modify_state(rig, NIC_QPS_ERR);
		rig_expect_wc(rig->send_cq, 1, types[i] == NIC_QPT_UC ? NIC_WC_SUCCESS : NIC_WC_WR_FLUSH_ERR);
		wr.wr_id = 2;
		assert_int_equal(nic_post_send(rig->qp, &wr), 0);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		rig_expect_no_wc(rig->send_cq);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

static void post__RQ_16_in_sqd_wrs_wait(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_modify_state(rig, NIC_QPS_SQD);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->send_cq);
	rig_modify_state(rig, NIC_QPS_RTS);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_destroy(rig);
}

static void post__RQ_17_too_many_sges_and_operations_of_other_services_are_refused(void **state)
{
	static const uint32_t legal[] = {
		[NIC_QPT_RC] = 0x3ff | 1 << NIC_WR_ATOMIC_WRITE,
		[NIC_QPT_UC] = 1 << NIC_WR_SEND | 1 << NIC_WR_SEND_WITH_IMM | 1 << NIC_WR_RDMA_WRITE |
			       1 << NIC_WR_RDMA_WRITE_WITH_IMM | 1 << NIC_WR_BIND_MW | 1 << NIC_WR_LOCAL_INV,
		[NIC_QPT_UD] = 1 << NIC_WR_SEND | 1 << NIC_WR_SEND_WITH_IMM,
	};

	for (enum nic_qp_type type = NIC_QPT_RC; type <= NIC_QPT_UD; type++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = type});
		struct nic_sge sge[5];
		struct nic_send_wr wr;
		struct nic_ah *ah;
		struct nic_mw *mw;

		assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
		assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, &mw), 0);
		for (uint32_t op = 0; op < 40; op++) {
			wr = rig_wr(rig, op, op, 0, 8);
			if (type == NIC_QPT_UD)
				wr.ud.ah = ah;
			else if (op == NIC_WR_BIND_MW)
				wr.bind = (struct nic_bind){.mw = mw, .mr = rig->mr, .len = 8};
			assert_int_equal(nic_post_send(rig->qp, &wr), op < 32 && (legal[type] >> op & 1) ? 0 : -EINVAL);
		}
		for (unsigned i = 0; i < 5; i++)
			sge[i] = (struct nic_sge){rig_va(rig, 0), 1, rig->lkey};
		wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 1);
		if (type == NIC_QPT_UD)
			wr.ud.ah = ah;
		wr.sg_list = sge;
		wr.num_sge = 5;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		wr.num_sge = UINT32_MAX;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		wr.num_sge = 4;
		assert_int_equal(nic_post_send(rig->qp, &wr), 0);
		wr.flags = 1u << 20;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		assert_int_equal(nic_ah_destroy(ah), 0);
		rig_destroy(rig);
	}
}

static void post__RQ_18_a_full_queue_refuses_and_stays_whole(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cap.max_send_wr = 5});
	struct nic_send_wr wr;
	uint32_t psn = RIG_SQ_PSN;

	for (unsigned round = 0; round < 4; round++) { /* enough rounds for the ring to wrap */
		for (uint32_t i = 0; i < 5; i++)
			rig_post_send(rig, 10 * round + i, NIC_WR_SEND, i, 1);
		wr = rig_wr(rig, 99, NIC_WR_SEND, 50, 1);
		assert_int_equal(nic_post_send(rig->qp, &wr), -ENOMEM);
		for (uint32_t i = 0; i < 5; i++) {
			struct packet p = rig_expect_tx(rig, SEND_ONLY, psn++);

			assert_int_equal(p.payload[0], rig_byte(i));
		}
		rig_expect_silence(rig);
		assert_int_equal(nic_post_send(rig->qp, &wr),
				 -ENOMEM); /* the requests are sent but not completed, so the queue is still full */
		rig_ack(rig, psn - 1, SYN_ACK);
		for (uint32_t i = 0; i < 5; i++)
			rig_expect_wc(rig->send_cq, 10 * round + i, NIC_WC_SUCCESS);
		rig_expect_no_wc(rig->send_cq);
	}
	rig_destroy(rig);
}

static void post__RQ_18_post_check_predicts_the_result_of_posting(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cap.max_send_wr = 5});
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);

	assert_int_equal(nic_post_send_check(rig->qp, &wr, 4), 0);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, 5), -ENOMEM);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, UINT32_MAX), -ENOMEM);
	rig_post(rig, &wr);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, 3), 0);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, 4), -ENOMEM);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, UINT32_MAX), -ENOMEM);
	wr.num_sge = 5;
	assert_int_equal(nic_post_send_check(rig->qp, &wr, 0), -EINVAL);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN); /* only the requests that were posted */
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void post__RQ_18_post_check_in_the_error_state_succeeds(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);

	rig_modify_state(rig, NIC_QPS_ERR);
	assert_int_equal(nic_post_send_check(rig->qp, &wr, 1000),
			 0); /* in ERR each request is flushed when it is posted */
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post__RQ_09_messages_over_2_gib_are_refused),
		cmocka_unit_test(post__RQ_13_inline_data_is_taken_during_the_call),
		cmocka_unit_test(post__RQ_13_inline_size_and_opcodes_are_limited),
		cmocka_unit_test(post__RQ_13_inline_data_needs_no_sges),
		cmocka_unit_test(post__RQ_13_inline_message_over_the_path_mtu_is_segmented),
		cmocka_unit_test(post__inline_data_may_fill_the_room_of_the_sges),
		cmocka_unit_test(post__RQ_16_sends_are_refused_before_rts_and_flushed_in_err),
		cmocka_unit_test(post__RQ_16_in_sqd_wrs_wait),
		cmocka_unit_test(post__RQ_17_too_many_sges_and_operations_of_other_services_are_refused),
		cmocka_unit_test(post__RQ_18_a_full_queue_refuses_and_stays_whole),
		cmocka_unit_test(post__RQ_18_post_check_predicts_the_result_of_posting),
		cmocka_unit_test(post__RQ_18_post_check_in_the_error_state_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
