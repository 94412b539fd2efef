/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rnr.c - the requester when the receiver is not ready (conformance points RT-05 to RT-07). */
#include "rig.h"

/* @return the time of an RNR NAK code by the rule behind table 45 (IBTA 9.7.5.2.8), which counts in units of 10 us. */
static uint64_t rnr_ns(unsigned code)
{
	uint64_t units = code == 0 ? 65536 : code == 1 ? 1 : code & 1 ? 3ull << (code - 3) / 2 : 2ull << (code - 2) / 2;

	return units * 10000;
}

static void rnr__RT_05_resends_from_the_nak_psn_only_after_the_coded_time(void **state)
{
	for (unsigned code = 0; code < 32; code++) {
		struct rig *rig = rig_ready(NULL);

		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
		rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
		rig_ack(rig, RIG_SQ_PSN + 1, SYN_RNR | code);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		rig_expect_no_wc(rig->send_cq);
		rig_post_send(rig, 4, NIC_WR_SEND, 0, 8); /* waits until the RNR time is over, too */
		rig_expect_silence(rig);
		rig_advance(rig, rnr_ns(code) - 1);
		rig_expect_silence(rig);
		assert_int_equal(rig_counter(rig, local_ack_timeout_err),
				 0); /* the ACK timer is stopped during the wait */
		rig_advance(rig, 1);
		for (uint32_t i = 1; i <= 3; i++)
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
		rig_expect_silence(rig);
		rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
		for (uint32_t i = 2; i <= 4; i++)
			rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
		rig_destroy(rig);
	}
}

static void rnr__RT_05_resends_only_the_last_packet_of_a_write_with_immediate(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_RDMA_WRITE_WITH_IMM, 0, 3 * RIG_MTU);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_RNR | 12);
	rig_expect_silence(rig);
	rig_advance(rig, rnr_ns(12));
	rig_expect_tx(rig, WRITE_LAST_IMM, RIG_SQ_PSN + 2);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void rnr__RT_05_copies_of_the_nak_do_not_prolong_the_wait(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	for (unsigned i = 0; i < 10; i++) { /* more NAKs than rnr_retry allows, if each counted */
		rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 12);
		rig_ack(rig, RIG_SQ_PSN, SYN_SEQ);
		rig_expect_silence(rig);
		rig_advance(rig, rnr_ns(12) / 10);
	}
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

/* An ACK arrives after an older RNR NAK: the RNR wait continues, and the ACK timer stays stopped. */
static void rnr__RT_05_an_ack_during_the_wait_does_not_start_the_ack_timer(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (uint32_t i = 1; i <= 3; i++)
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 31);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_advance(rig, rnr_ns(31) - 1);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rig_expect_silence(rig);
	rig_advance(rig, 1);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 2);
	rig_destroy(rig);
}

static void rnr__RT_05_responses_go_on_during_the_wait(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 9, 0, 64);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 31);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void rnr__RT_06_rnr_retry_n_gives_up_after_n_plus_1_naks(void **state)
{
	for (unsigned n = 0; n < 7; n++) {
		struct rig *rig = rig_create(NULL);

		rig->attr.rnr_retry = (uint8_t)n;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
		for (unsigned i = 0; i < n + 1; i++) {
			rig_expect_no_wc(rig->send_cq);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
			rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
			rig_advance(rig, rnr_ns(1));
		}
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_RNR_RETRY_EXC_ERR);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		rig_expect_no_wc(rig->send_cq);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_destroy(rig);
	}
}

static void rnr__RT_06_rnr_retry_7_never_gives_up(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.rnr_retry = 7;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	for (unsigned i = 0; i < 300; i++) {
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
		rig_advance(rig, rnr_ns(1));
	}
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void rnr__RT_06_progress_gives_all_rnr_tries_back(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.rnr_retry = 1;
	rig_to_rts(rig);
	for (uint32_t i = 0; i < 5; i++) {
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
		rig_ack(rig, RIG_SQ_PSN + i, SYN_RNR | 1);
		rig_advance(rig, rnr_ns(1));
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
		rig_ack(rig, RIG_SQ_PSN + i, SYN_ACK);
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	}
	rig_destroy(rig);
}

static void rnr__RT_07_timeouts_and_rnr_naks_have_counters_of_their_own(void **state)
{
	for (unsigned last = 0; last < 2; last++) {
		struct rig *rig = rig_create(NULL);

		rig->attr.rnr_retry = 2;
		rig->attr.retry_cnt = 2;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		for (unsigned i = 0; i < 4; i++) {
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
			if (i & 1) {
				rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
			} else {
				rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
				rig_advance(rig, rnr_ns(1));
			}
		}
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		rig_expect_no_wc(rig->send_cq); /* two retries of each kind: neither count is used up */
		if (last)
			rig_advance(rig, rig_timeout_max_ns(rig->attr.timeout));
		else
			rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 1);
		rig_expect_wc(rig->send_cq, 1, last ? NIC_WC_RETRY_EXC_ERR : NIC_WC_RNR_RETRY_EXC_ERR);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr__RT_05_resends_from_the_nak_psn_only_after_the_coded_time),
		cmocka_unit_test(rnr__RT_05_resends_only_the_last_packet_of_a_write_with_immediate),
		cmocka_unit_test(rnr__RT_05_copies_of_the_nak_do_not_prolong_the_wait),
		cmocka_unit_test(rnr__RT_05_an_ack_during_the_wait_does_not_start_the_ack_timer),
		cmocka_unit_test(rnr__RT_05_responses_go_on_during_the_wait),
		cmocka_unit_test(rnr__RT_06_rnr_retry_n_gives_up_after_n_plus_1_naks),
		cmocka_unit_test(rnr__RT_06_rnr_retry_7_never_gives_up),
		cmocka_unit_test(rnr__RT_06_progress_gives_all_rnr_tries_back),
		cmocka_unit_test(rnr__RT_07_timeouts_and_rnr_naks_have_counters_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
