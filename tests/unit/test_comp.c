/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_comp.c - how the requester handles ACKs and NAKs (conformance points RS-01, RS-03, RS-06 to RS-08, RS-11, RS-13
 * to RS-15). READ and atomic responses are in test_comp_read.c.
 */
#include "rig.h"

/* Post and send n one-packet SENDs with ids from 1 on. */
static void send_n(struct rig *rig, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		rig_post_send(rig, i + 1, i & 1 ? NIC_WR_RDMA_WRITE : NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), n);
}

static void comp__RS_01_an_ack_completes_everything_up_to_its_psn_in_order(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_wc wc;

	send_n(rig, 4);
	rig_post_send(rig, 5, NIC_WR_SEND, 0, 3 * RIG_MTU);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_ACK);
	for (uint32_t i = 1; i <= 3; i++) {
		wc = rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
		assert_int_equal(wc.opcode, i == 2 ? NIC_WC_RDMA_WRITE : NIC_WC_SEND);
		assert_int_equal(wc.qp_num, rig->qpn);
	}
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN + 5, SYN_ACK); /* acknowledges a packet in the middle of message 5 */
	rig_expect_wc(rig->send_cq, 4, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN + 6, SYN_ACK);
	rig_expect_wc(rig->send_cq, 5, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_advance(rig, 100 * rig_timeout_ns(rig->attr.timeout)); /* nothing outstanding: no timeout */
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rig_destroy(rig);
}

static void comp__RS_01_across_the_psn_wrap(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.sq_psn = 0xfffffe;
	rig_to_rts(rig);
	send_n(rig, 4);
	rig_ack(rig, 0, SYN_ACK);
	for (uint32_t i = 1; i <= 3; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void comp__RS_03_acks_of_acknowledged_psns_are_ignored(void **state)
{
	struct rig *rig = rig_ready(NULL);

	send_n(rig, 4);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN - 1, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN, SYN_SEQ);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACCESS);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_RNR | 1);
	assert_int_equal(rig_counter(rig, resp_ghost), 6);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 4, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void comp__RS_03_acks_of_psns_never_sent_are_ignored(void **state)
{
	static const uint32_t ahead[] = {2, 3, 1000, 0x7ffffe};
	struct rig *rig = rig_ready(NULL);

	rig_ack(rig, RIG_SQ_PSN, SYN_ACK); /* nothing has been sent yet */
	send_n(rig, 2);
	for (unsigned i = 0; i < 4; i++) {
		rig_ack(rig, RIG_SQ_PSN + ahead[i], SYN_ACK);
		rig_ack(rig, RIG_SQ_PSN + ahead[i], SYN_SEQ);
		rig_ack(rig, RIG_SQ_PSN + ahead[i], SYN_INV);
		rig_ack(rig, RIG_SQ_PSN + ahead[i], SYN_RNR);
	}
	assert_int_equal(rig_counter(rig, resp_unsent), 17);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/* A response that cannot belong to the request it names ends the connection. */
static void wrong_response(enum nic_wr_opcode opcode, enum rig_op op, uint32_t len)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = rig_wr(rig, 2, opcode, 64, 8);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post(rig, &wr);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_rx_data(rig, op, RIG_SQ_PSN + 1, 0, len);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_BAD_RESP_ERR);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_destroy(rig);
}

static void comp__RS_06_a_response_of_the_wrong_kind_is_a_bad_response(void **state)
{
	wrong_response(NIC_WR_SEND, READ_RESP_ONLY, 8);
	wrong_response(NIC_WR_RDMA_WRITE, READ_RESP_FIRST, RIG_MTU);
	wrong_response(NIC_WR_SEND, READ_RESP_LAST, 8);
	wrong_response(NIC_WR_RDMA_WRITE, ATOMIC_ACK, 0);
	wrong_response(NIC_WR_SEND, ATOMIC_ACK, 0);
	wrong_response(NIC_WR_ATOMIC_FETCH_AND_ADD, READ_RESP_ONLY, 8);
	wrong_response(NIC_WR_RDMA_READ, ATOMIC_ACK, 0);
}

static void comp__RS_07_a_fatal_nak_fails_its_wqe_after_earlier_ones_succeed(void **state)
{
	static const struct {
		enum rig_syndrome syndrome;
		enum nic_wc_status status;
	} naks[] = {
		{SYN_INV, NIC_WC_REM_INV_REQ_ERR}, {SYN_ACCESS, NIC_WC_REM_ACCESS_ERR}, {SYN_OP, NIC_WC_REM_OP_ERR}};

	for (unsigned i = 0; i < 3; i++) {
		struct rig *rig = rig_ready(NULL);

		send_n(rig, 4);
		rig_ack(rig, RIG_SQ_PSN + 2, naks[i].syndrome);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
		rig_expect_wc(rig->send_cq, 3, naks[i].status);
		rig_expect_wc(rig->send_cq, 4, NIC_WC_WR_FLUSH_ERR);
		rig_expect_no_wc(rig->send_cq);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_expect_silence(rig);
		rig_advance(rig, 100 * rig_timeout_ns(rig->attr.timeout));
		assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
		rig_destroy(rig);
	}
}

static void comp__RS_07_a_nak_inside_a_send_or_read_fails_it(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 4 * RIG_MTU);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_INV);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_REM_INV_REQ_ERR);
	rig_destroy(rig);
	rig = rig_ready(NULL);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 4 * RIG_MTU);
	rig_drain(rig);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACCESS); /* the peer's memory has gone in the middle of the READ */
	rig_expect_wc(rig->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	rig_destroy(rig);
}

static void comp__RS_08_reserved_syndromes_are_ignored_and_counted(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint64_t n = 0;

	send_n(rig, 2);
	for (unsigned s = 0x40; s < 0x100; s++) {
		if ((s >= SYN_SEQ && s <= SYN_OP))
			continue;
		rig_ack(rig, RIG_SQ_PSN, s);
		rig_ack(rig, RIG_SQ_PSN + 1, s);
		n += 2;
	}
	assert_int_equal(rig_counter(rig, resp_reserved), n);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void comp__RS_08_bad_syndromes_in_read_responses_never_complete_it(void **state)
{
	for (unsigned s = 0x40; s < 0x100; s++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p;
		struct nic_wc wc;

		rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
		rig_drain(rig);
		p = rig_peer_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
		p.syndrome = (uint8_t)s;
		rig_rx(rig, &p);
		if (rig_poll(rig->send_cq, &wc))
			assert_int_equal(wc.status, NIC_WC_BAD_RESP_ERR);
		assert_int_equal(nic_cq_count(rig->send_cq), 0);
		rig_destroy(rig);
	}
}

static void comp__RS_11_unsignaled_requests_complete_only_in_error(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.sig_none = true});
	struct nic_send_wr wr;

	for (uint32_t i = 1; i <= 6; i++) {
		wr = rig_wr(rig, i, NIC_WR_SEND, 0, 8);
		wr.flags = i == 2 ? NIC_SEND_SIGNALED : 0;
		rig_post(rig, &wr);
	}
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_ACK);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN + 4, SYN_INV); /* request 4 succeeds without a completion, 5 fails, 6 is flushed */
	rig_expect_wc(rig->send_cq, 5, NIC_WC_REM_INV_REQ_ERR);
	rig_expect_wc(rig->send_cq, 6, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void comp__RS_11_mixed_request_types_complete_in_post_order(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;

	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	wr = rig_wr(rig, 3, NIC_WR_ATOMIC_FETCH_AND_ADD, 64, 8);
	rig_post(rig, &wr);
	rig_post_send(rig, 4, NIC_WR_RDMA_WRITE, 0, 8);
	rig_drain(rig);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_rx_data(rig, ATOMIC_ACK, RIG_SQ_PSN + 2, 0, 0); /* also acknowledges request 2 */
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
	rig_expect_wc(rig->send_cq, 4, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void comp__RS_13_no_credit_value_stops_the_sender(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (uint32_t credit = 0; credit < 0x20; credit++) {
		rig_post_send(rig, credit, NIC_WR_SEND, 0, 8);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + credit);
		rig_ack(rig, RIG_SQ_PSN + credit, credit);
		rig_expect_wc(rig->send_cq, credit, NIC_WC_SUCCESS);
	}
	rig_ack(rig, RIG_SQ_PSN + 31, 0);
	rig_post_send(rig, 40, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_post_send(rig, 41, NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 3); /* sent although the peer has granted no credits */
	rig_destroy(rig);
}

static void comp__RS_14_the_msn_of_acks_is_ignored(void **state)
{
	static const uint32_t msns[] = {5, 0, 0xffffff, 1, 0x800000};
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	send_n(rig, 5);
	for (uint32_t i = 0; i < 5; i++) {
		p = rig_peer_packet(rig, ACK, RIG_SQ_PSN + i);
		p.msn = msns[i];
		rig_rx(rig, &p);
		rig_expect_wc(rig->send_cq, i + 1, NIC_WC_SUCCESS);
		rig_expect_no_wc(rig->send_cq);
	}
	rig_destroy(rig);
}

static void comp__RS_15_only_progress_restarts_the_timer(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint64_t t = rig_timeout_ns(rig->attr.timeout);

	send_n(rig, 3);
	rig_advance(rig, t / 2);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK); /* progress: restarts the timer */
	rig_advance(rig, t / 2);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK); /* no progress, nor in the next three ACKs */
	rig_ack(rig, RIG_SQ_PSN - 1, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN + 50, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN + 1, 0x45);
	rig_advance(rig, t / 2 - 1);
	rig_expect_silence(rig);
	rig_advance(rig, 1);
	rig_expect_tx(rig, WRITE_ONLY, RIG_SQ_PSN + 1);
	rig_destroy(rig);
}

static void comp__RS_08_an_atomic_ack_with_a_nak_syndrome_is_a_bad_response(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;
	struct nic_wc wc;

	rig_post_send(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	rig_drain(rig);
	p = rig_peer_packet(rig, ATOMIC_ACK, RIG_SQ_PSN);
	p.syndrome = SYN_ACCESS;
	rig_rx(rig, &p);
	assert_true(rig_poll(rig->send_cq, &wc));
	assert_int_equal(wc.status, NIC_WC_BAD_RESP_ERR);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comp__RS_01_an_ack_completes_everything_up_to_its_psn_in_order),
		cmocka_unit_test(comp__RS_01_across_the_psn_wrap),
		cmocka_unit_test(comp__RS_03_acks_of_acknowledged_psns_are_ignored),
		cmocka_unit_test(comp__RS_03_acks_of_psns_never_sent_are_ignored),
		cmocka_unit_test(comp__RS_06_a_response_of_the_wrong_kind_is_a_bad_response),
		cmocka_unit_test(comp__RS_07_a_fatal_nak_fails_its_wqe_after_earlier_ones_succeed),
		cmocka_unit_test(comp__RS_07_a_nak_inside_a_send_or_read_fails_it),
		cmocka_unit_test(comp__RS_08_reserved_syndromes_are_ignored_and_counted),
		cmocka_unit_test(comp__RS_08_bad_syndromes_in_read_responses_never_complete_it),
		cmocka_unit_test(comp__RS_11_unsignaled_requests_complete_only_in_error),
		cmocka_unit_test(comp__RS_11_mixed_request_types_complete_in_post_order),
		cmocka_unit_test(comp__RS_13_no_credit_value_stops_the_sender),
		cmocka_unit_test(comp__RS_14_the_msn_of_acks_is_ignored),
		cmocka_unit_test(comp__RS_15_only_progress_restarts_the_timer),
		cmocka_unit_test(comp__RS_08_an_atomic_ack_with_a_nak_syndrome_is_a_bad_response),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
