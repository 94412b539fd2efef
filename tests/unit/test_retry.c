/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_retry.c - timeouts, sequence NAKs and what is retransmitted (conformance points RT-01 to RT-04, RT-08 to RT-12).
 * test_rnr.c covers RNR NAKs, test_recover.c the recovery of whole transfers.
 */
#include "rig.h"

static void retry__RT_01_no_expiry_before_the_coded_time_and_none_for_code_0(void **state)
{
	for (unsigned code = 0; code < 32; code++) {
		struct rig *rig = rig_create(NULL);
		uint64_t t = rig_timeout_ns(code);

		rig->attr.timeout = (uint8_t)code;
		rig_to_rts(rig);
		rig_advance(rig, 20 * t); /* without a packet in flight no timer expires */
		rig_expect_silence(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		rig_advance(rig, t - 1);
		rig_expect_silence(rig);
		assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
		if (code == 0) {
			rig_advance(rig, 1ull << 50);
			rig_expect_silence(rig);
			assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
		} else {
			assert_true(nic_next_deadline(rig->nic) <=
				    rig->now + 3 * t); /* at most 4 t since the send (9.7.6.1.3); 1 t has passed */
			rig->now = nic_next_deadline(rig->nic);
			rig_advance(rig, 0);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
			assert_int_equal(rig_counter(rig, local_ack_timeout_err), 1);
		}
		rig_destroy(rig);
	}
}

static void retry__RT_01_the_backoff_is_limited_by_the_configuration(void **state)
{
	static const uint32_t factors[] = {1, 2, 4}, spent[] = {4, 1 + 3 * 2, 1 + 2 + 2 * 4};

	for (unsigned i = 0; i < 3; i++) {
		struct rig *rig = rig_create(&(struct rig_opts){.nic.ack_backoff = factors[i]});
		uint64_t begun = rig->now;

		rig->attr.retry_cnt = 3;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		for (unsigned tries = 0; tries < 4; tries++) {
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
			rig->now = nic_next_deadline(rig->nic);
			rig_advance(rig, 0);
		}
		rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
		assert_true(rig->now - begun == spent[i] * rig_timeout_ns(rig->attr.timeout));
		rig_destroy(rig);
	}
}

static void retry__RT_01_repeated_timeouts_double_up_to_4x_until_progress(void **state)
{
	static const unsigned factor[] = {1, 2, 4, 4};
	struct rig *rig = rig_create(NULL);
	uint64_t t;

	rig->attr.retry_cnt = 7;
	rig_to_rts(rig);
	t = rig_timeout_ns(rig->attr.timeout);
	for (unsigned i = 0; i < 4; i++) {
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
	}
	for (unsigned i = 0; i < 4; i++) {
		rig_advance(rig, factor[i] * t - 1);
		rig_expect_silence(rig);
		rig_advance(rig, 1);
		for (unsigned k = 0; k < 4; k++)
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + k);
	}
	rig_ack(rig, RIG_SQ_PSN, 0x1f);
	rig_expect_wc(rig->send_cq, 0, NIC_WC_SUCCESS);
	rig_advance(rig, t);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_destroy(rig);
}

static void retry__RT_02_retry_cnt_n_is_n_more_tries(void **state)
{
	for (unsigned n = 0; n < 8; n++) {
		struct rig *rig = rig_create(NULL);

		rig->attr.retry_cnt = (uint8_t)n;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
		for (unsigned i = 0; i < 1 + n; i++) {
			rig_expect_no_wc(rig->send_cq);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
			rig_expect_silence(rig);
			rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
		}
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		rig_expect_no_wc(rig->send_cq);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_destroy(rig);
	}
}

static void retry__RT_03_progress_gives_all_tries_back(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.retry_cnt = 1;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 6 * RIG_MTU);
	for (uint32_t i = 0; i < 5; i++) {
		rig_drain(rig);
		rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout)); /* uses up the only retry */
		rig_drain(rig);
		rig_ack(rig, RIG_SQ_PSN + i, SYN_ACK); /* progress restores the retry */
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	}
	rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
	rig_drain(rig);
	rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_destroy(rig);
}

static void retry__RT_03_a_read_response_is_progress_too(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.retry_cnt = 1;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 4 * RIG_MTU);
	for (uint32_t i = 0; i < 3; i++) {
		rig_drain(rig);
		rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
		rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + i);
		rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN + i, i * RIG_MTU, RIG_MTU);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	}
	rig_destroy(rig);
}

static void retry__RT_04_a_sequence_nak_sends_again_from_its_psn_once(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (uint32_t i = 1; i <= 6; i++)
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 6);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_SEQ);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	for (uint32_t i = 2; i < 6; i++)
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_SEQ); /* the same loss is reported a second time */
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_SEQ); /* a second loss */
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	for (uint32_t i = 3; i < 6; i++)
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
	rig_expect_silence(rig);
	assert_int_equal(rig_counter(rig, retransmitted), 7);
	assert_int_equal(rig_counter(rig, packet_seq_err), 3);
	rig_destroy(rig);
}

static void retry__RT_04_a_sequence_nak_after_a_timeout_retransmits_again(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 3 * RIG_MTU);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_SEQ);
	assert_int_equal(rig_drain(rig), 3);
	rig_advance(rig, rig_timeout_ns(rig->attr.timeout));
	assert_int_equal(rig_drain(rig), 3);
	rig_ack(rig, RIG_SQ_PSN, SYN_SEQ);
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	rig_destroy(rig);
}

static void retry__RT_08_send_resumes_in_the_middle_of_a_message(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 5 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_RDMA_WRITE, 0, 4 * RIG_MTU);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_SEQ);
	p = rig_expect_tx(rig, SEND_MIDDLE, RIG_SQ_PSN + 3);
	assert_memory_equal(p.payload, rig->arena + 3 * RIG_MTU, RIG_MTU);
	rig_expect_tx(rig, SEND_LAST, RIG_SQ_PSN + 4);
	rig_expect_tx(rig, WRITE_FIRST, RIG_SQ_PSN + 5);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 8, SYN_SEQ);
	p = rig_expect_tx(rig, WRITE_LAST, RIG_SQ_PSN + 8);
	assert_memory_equal(p.payload, rig->arena + 3 * RIG_MTU, RIG_MTU);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void retry__RT_08_read_asks_for_the_missing_tail_only(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 5 * RIG_MTU + 10);
	rig_drain(rig);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
	p = rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 2);
	assert_true(p.va == RIG_REMOTE_VA + 2 * RIG_MTU);
	assert_int_equal(p.dma_len, 3 * RIG_MTU + 10);
	assert_int_equal(p.rkey, RIG_REMOTE_RKEY);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN + 2, 2 * RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 3, 3 * RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 4, 4 * RIG_MTU, RIG_MTU);
	rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
	p = rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 5);
	assert_true(p.va == RIG_REMOTE_VA + 5 * RIG_MTU);
	assert_int_equal(p.dma_len, 10);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN + 5, 5 * RIG_MTU, 10);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_data(rig, 0, 0, 5 * RIG_MTU + 10);
	rig_destroy(rig);
}

static void retry__RT_09_local_operations_run_once(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr bind = {.wr_id = 2, .opcode = NIC_WR_BIND_MW};
	struct nic_mw *mw;

	assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, &mw), 0);
	bind.bind = (struct nic_bind){.mw = mw,
				      .mr = rig->mr,
				      .addr = rig_va(rig, 0),
				      .len = 64,
				      .access = NIC_ACCESS_REMOTE_WRITE,
				      .rkey = (nic_mw_rkey(mw) & ~0xffu) | 0x42};
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post(rig, &bind);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 2);
	for (unsigned i = 0; i < 3; i++) { /* repeating the bind would be an error: the type 2 window is bound */
		rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
		rig_expect_silence(rig);
		rig_expect_no_wc(rig->send_cq);
	}
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

/* A local operation that ran before a retry completes as soon as the request before it is acknowledged. */
static void retry__RT_09_a_local_operation_completes_before_the_retry_reaches_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr bind = {.wr_id = 2, .opcode = NIC_WR_BIND_MW};
	struct nic_mw *mw;

	assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, &mw), 0);
	bind.bind = (struct nic_bind){
		.mw = mw, .mr = rig->mr, .addr = rig_va(rig, 0), .len = 64, .rkey = (nic_mw_rkey(mw) & ~0xffu) | 0x42};
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post(rig, &bind);
	rig_drain(rig);
	rig_advance(rig, rig_timeout_ns(rig->attr.timeout)); /* the retry starts at request 1, but has not sent it */
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);		     /* late ACK of the first transmission */
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void same_but_for_ackreq(struct rig *rig, unsigned first, unsigned second)
{
	uint8_t *a = rig->frames[first % RIG_FRAMES], *b = rig->frames[second % RIG_FRAMES];
	unsigned len = rig->frame_lens[first % RIG_FRAMES];

	assert_int_equal(len, rig->frame_lens[second % RIG_FRAMES]);
	a[28 + 8] &= 0x7f;
	b[28 + 8] &= 0x7f;
	memset(a + 4, 0, 2); /* the IP ID and the header checksum */
	memset(b + 4, 0, 2);
	memset(a + 10, 0, 2);
	memset(b + 10, 0, 2);
	assert_memory_equal(a, b, len - 4); /* AckReq differs, so the ICRC does, too; it was checked on parsing */
}

static void retry__RT_10_retransmissions_are_identical_except_for_ackreq(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;
	unsigned first = rig->frame + 1, n;

	wr = rig_wr(rig, 1, NIC_WR_SEND_WITH_IMM, 3, 2 * RIG_MTU + 3);
	wr.ex = 0x1234;
	wr.flags = NIC_SEND_SOLICITED;
	rig_post(rig, &wr);
	wr = rig_wr(rig, 2, NIC_WR_RDMA_WRITE_WITH_IMM, 9, 3 * RIG_MTU + 1);
	rig_post(rig, &wr);
	rig_post_send(rig, 3, NIC_WR_RDMA_READ, 4096, 3 * RIG_MTU);
	wr = rig_wr(rig, 4, NIC_WR_ATOMIC_CMP_AND_SWP, 8192, 8);
	wr.atomic.compare_add = 77;
	wr.atomic.swap = 88;
	rig_post(rig, &wr);
	wr = rig_wr(rig, 5, NIC_WR_SEND_WITH_INV, 0, 1);
	wr.ex = 0x4321;
	rig_post(rig, &wr);
	n = rig_drain(rig);
	assert_int_equal(n, 10);
	rig_advance(rig, rig_timeout_ns(rig->attr.timeout));
	assert_int_equal(rig_drain(rig), n);
	for (unsigned i = 0; i < n; i++)
		same_but_for_ackreq(rig, first + i, first + n + i);
	rig_destroy(rig);
}

static void retry__RT_11_retries_go_on_in_sqd_until_drained(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_drain(rig);
	rig->attr.en_sqd_async_notify = true;
	rig->attr.qp_state = NIC_QPS_SQD;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE | NIC_QP_EN_SQD_ASYNC_NOTIFY), 0);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_advance(rig, rig_timeout_ns(rig->attr.timeout));
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_LAST, RIG_SQ_PSN + 1);
	rig_expect_silence(rig);
	assert_false(rig_event(rig, NIC_EVENT_SQ_DRAINED, RIG_USER_QP(rig)));
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	assert_true(rig_event(rig, NIC_EVENT_SQ_DRAINED, RIG_USER_QP(rig)));
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_silence(rig);
	rig_modify_state(rig, NIC_QPS_RTS);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 2);
	rig_destroy(rig);
}

static void retry__RT_11_retries_stop_in_err_and_reset(void **state)
{
	static const enum nic_qp_state states[] = {NIC_QPS_ERR, NIC_QPS_RESET};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(NULL);

		rig_post_send(rig, 1, NIC_WR_SEND, 0, 3 * RIG_MTU);
		rig_drain(rig);
		if (i & 2) {
			rig_advance(rig, rig_timeout_ns(rig->attr.timeout));
			rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN); /* in the middle of the retransmission */
		}
		rig_modify_state(rig, states[i & 1]);
		rig_expect_silence(rig);
		rig_advance(rig, 100 * rig_timeout_ns(rig->attr.timeout));
		rig_expect_silence(rig);
		assert_int_equal(rig_counter(rig, local_ack_timeout_err), i & 2 ? 1 : 0);
		if (states[i & 1] == NIC_QPS_ERR)
			rig_expect_wc(rig->send_cq, 1, NIC_WC_WR_FLUSH_ERR);
		rig_expect_no_wc(rig->send_cq);
		rig_destroy(rig);
	}
}

static void retry__RT_12_destroying_a_qp_takes_its_timers_with_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_qp *first = rig->qp, *more[8];

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	for (unsigned i = 0; i < 8; i++) { /* timers of several QPs, which are destroyed in a different order */
		more[i] = rig->qp = rig_qp_create(rig);
		rig->attr.timeout = (uint8_t)(14 - i);
		rig_to_rts(rig);
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(nic_qp_destroy(more[i * 3 % 8]), 0);
	assert_int_equal(nic_qp_destroy(first), 0);
	rig_advance(rig, rig_timeout_ns(20));
	rig_expect_silence(rig);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void retry__RT_11_timeouts_continue_while_the_port_is_down(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_wc wc;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	nic_port_set(rig->nic, false);
	for (int i = 0; i < 64 && !nic_cq_count(rig->send_cq); i++)
		rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
	assert_true(rig_poll(rig->send_cq, &wc));
	assert_int_equal(wc.status, NIC_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), rig->attr.retry_cnt + 1);
	rig_destroy(rig);
}

static void retry__RT_06_a_sequence_nak_after_an_rnr_wait_retransmits(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_SEQ);
	assert_int_equal(rig_drain(rig), 2);
	rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
	rig_advance(rig, 20000);
	assert_int_equal(rig_drain(rig), 2);
	rig_ack(rig, RIG_SQ_PSN, SYN_SEQ); /* the first of the two packets was lost */
	assert_int_equal(rig_drain(rig), 2);
	rig_destroy(rig);
}

static void retry__RT_07_rnr_retry_changed_in_sqd_takes_effect(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.rnr_retry = 0;
	rig_to_rts(rig);
	rig->attr.qp_state = NIC_QPS_SQD;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE), 0);
	rig->attr.rnr_retry = 7;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_RNR_RETRY), 0);
	rig->attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE), 0);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
	assert_int_equal(nic_cq_count(rig->send_cq), 0); /* the request waits and is tried again */
	rig_advance(rig, 20000);
	assert_int_equal(rig_drain(rig), 1);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry__RT_01_no_expiry_before_the_coded_time_and_none_for_code_0),
		cmocka_unit_test(retry__RT_01_the_backoff_is_limited_by_the_configuration),
		cmocka_unit_test(retry__RT_01_repeated_timeouts_double_up_to_4x_until_progress),
		cmocka_unit_test(retry__RT_02_retry_cnt_n_is_n_more_tries),
		cmocka_unit_test(retry__RT_03_progress_gives_all_tries_back),
		cmocka_unit_test(retry__RT_03_a_read_response_is_progress_too),
		cmocka_unit_test(retry__RT_04_a_sequence_nak_sends_again_from_its_psn_once),
		cmocka_unit_test(retry__RT_04_a_sequence_nak_after_a_timeout_retransmits_again),
		cmocka_unit_test(retry__RT_08_send_resumes_in_the_middle_of_a_message),
		cmocka_unit_test(retry__RT_08_read_asks_for_the_missing_tail_only),
		cmocka_unit_test(retry__RT_09_local_operations_run_once),
		cmocka_unit_test(retry__RT_09_a_local_operation_completes_before_the_retry_reaches_it),
		cmocka_unit_test(retry__RT_10_retransmissions_are_identical_except_for_ackreq),
		cmocka_unit_test(retry__RT_11_retries_go_on_in_sqd_until_drained),
		cmocka_unit_test(retry__RT_11_retries_stop_in_err_and_reset),
		cmocka_unit_test(retry__RT_12_destroying_a_qp_takes_its_timers_with_it),
		cmocka_unit_test(retry__RT_11_timeouts_continue_while_the_port_is_down),
		cmocka_unit_test(retry__RT_06_a_sequence_nak_after_an_rnr_wait_retransmits),
		cmocka_unit_test(retry__RT_07_rnr_retry_changed_in_sqd_takes_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
