/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_comp_read.c - how the requester handles READ and atomic responses (conformance points RS-02, RS-04, RS-05,
 * RS-09, RS-10, RS-12).
 */
#include "rig.h"

#define TO 4096u /* offset in the arena that the READs write to */

/* Post and send a READ with id 1 of `len` bytes to arena[TO]. */
static struct rig *reading(uint32_t len)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_RDMA_READ, TO, len);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_silence(rig);
	return rig;
}

static void comp__RS_02_a_response_beyond_a_read_implies_its_loss(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_RDMA_READ, TO, 2 * RIG_MTU);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS); /* the SEND posted before the READ has succeeded */
	rig_expect_no_wc(rig->send_cq);
	assert_int_equal(rig_counter(rig, implied_nak_seq_err), 1);
	p = rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 1);
	assert_int_equal(p.dma_len, 2 * RIG_MTU);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 3);
	rig_expect_silence(rig);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN + 1, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 2, RIG_MTU, RIG_MTU);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	rig_expect_data(rig, TO, 0, 2 * RIG_MTU);
	rig_destroy(rig);
}

static void comp__RS_02_read_responses_atomic_acks_and_naks_imply_a_nak(void **state)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, TO, 8);

		rig_post(rig, &wr);
		rig_post_send(rig, 2, NIC_WR_RDMA_READ, TO + 64, 8);
		wr = rig_wr(rig, 3, NIC_WR_ATOMIC_FETCH_AND_ADD, TO + 128, 8);
		rig_post(rig, &wr);
		rig_drain(rig);
		if (kind == 0)
			rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN + 1, 0, 8);
		else if (kind == 1)
			rig_rx_data(rig, ATOMIC_ACK, RIG_SQ_PSN + 2, 0, 0);
		else
			rig_ack(rig, RIG_SQ_PSN + 1, SYN_SEQ);
		rig_expect_no_wc(rig->send_cq);
		rig_expect_tx(rig, FETCH_ADD, RIG_SQ_PSN);
		rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 1);
		rig_expect_tx(rig, FETCH_ADD, RIG_SQ_PSN + 2);
		rig_expect_untouched(rig, TO, 256);
		rig_destroy(rig);
	}
}

static void comp__RS_02_implied_naks_count_against_retry_cnt(void **state)
{
	struct rig *rig = rig_create(NULL);
	unsigned tries = 0;

	rig->attr.retry_cnt = 2;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, TO, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	while (nic_qp_state(rig->qp) == NIC_QPS_RTS && tries < 20) {
		if (rig_drain(rig))
			tries++;
		rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK); /* the peer never sends anything but this ACK */
		if (nic_qp_state(rig->qp) == NIC_QPS_RTS && !nic_tx_pending(rig->nic))
			rig_advance(rig, rig_timeout_ns(12));
	}
	assert_int_equal(tries, 3);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	rig_destroy(rig);
}

static void comp__RS_04_a_read_of_several_packets(void **state)
{
	struct rig *rig = reading(3 * RIG_MTU + 5);
	struct nic_wc wc;

	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 2, 2 * RIG_MTU, RIG_MTU);
	rig_expect_no_wc(rig->send_cq);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 3, 3 * RIG_MTU, 5);
	wc = rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, NIC_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 3 * RIG_MTU + 5);
	rig_expect_data(rig, TO, 0, 3 * RIG_MTU + 5);
	rig_expect_untouched(rig, 0, TO);
	rig_expect_untouched(rig, TO + 3 * RIG_MTU + 5, 4096);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void comp__RS_04_a_response_gap_repeats_the_read_from_the_gap(void **state)
{
	struct rig *rig = reading(4 * RIG_MTU);
	struct packet p;

	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 2, 2 * RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 3, 3 * RIG_MTU, RIG_MTU);
	rig_expect_untouched(rig, TO + RIG_MTU, 3 * RIG_MTU); /* responses after the gap are not accepted */
	p = rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 1);
	assert_true(p.va == RIG_REMOTE_VA + RIG_MTU);
	assert_int_equal(p.dma_len, 3 * RIG_MTU);
	rig_expect_silence(rig); /* the READ is repeated once only */
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 2, 2 * RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 3, 3 * RIG_MTU, RIG_MTU);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_data(rig, TO, 0, 4 * RIG_MTU);
	rig_destroy(rig);
}

static void comp__RS_02_RT_04_responses_after_a_gap_trigger_one_retry_only(void **state)
{
	struct rig *rig = reading(8 * RIG_MTU);

	for (uint32_t i = 1; i < 4; i++) /* the first response is lost */
		rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + i, i * RIG_MTU, RIG_MTU);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	for (uint32_t i = 4; i < 7; i++) /* responses that were already in flight */
		rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + i, i * RIG_MTU, RIG_MTU);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 7, 7 * RIG_MTU, RIG_MTU);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->send_cq); /* not failed: one of 3 retries was used */
	assert_int_equal(rig_counter(rig, implied_nak_seq_err), 1);
	rig_expect_untouched(rig, TO, 8 * RIG_MTU);
	rig_destroy(rig);
}

/* A READ of `len` bytes fails if its first response has an opcode or length that cannot be right. */
static void bad_first(uint32_t len, enum rig_op op, uint32_t payload)
{
	struct rig *rig = reading(len);

	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_rx_data(rig, op, RIG_SQ_PSN, 0, payload);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_destroy(rig);
}

static void comp__RS_05_RS_04_a_first_response_of_wrong_length_or_opcode_fails(void **state)
{
	bad_first(3 * RIG_MTU, READ_RESP_FIRST, RIG_MTU - 4);
	bad_first(3 * RIG_MTU, READ_RESP_FIRST, RIG_MTU + 4);
	bad_first(3 * RIG_MTU, READ_RESP_FIRST, 0);
	bad_first(3 * RIG_MTU, READ_RESP_ONLY, RIG_MTU);
	bad_first(3 * RIG_MTU, READ_RESP_ONLY, 3 * RIG_MTU);
	bad_first(3 * RIG_MTU, READ_RESP_MIDDLE, RIG_MTU); /* no FIRST before it */
	bad_first(3 * RIG_MTU, READ_RESP_LAST, RIG_MTU);
	bad_first(100, READ_RESP_ONLY, 99);
	bad_first(100, READ_RESP_ONLY, 101);
	bad_first(100, READ_RESP_ONLY, 0);
	bad_first(100, READ_RESP_FIRST, RIG_MTU);
	bad_first(0, READ_RESP_ONLY, 1);
	bad_first(RIG_MTU, READ_RESP_ONLY, RIG_MTU + 1);
}

static void bad_second(enum rig_op op, uint32_t payload)
{
	struct rig *rig = reading(2 * RIG_MTU + 10);

	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, op, RIG_SQ_PSN + 1, RIG_MTU, payload);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
	rig_expect_untouched(rig, TO + RIG_MTU, 8192);
	rig_destroy(rig);
}

static void bad_third(enum rig_op op, uint32_t payload)
{
	struct rig *rig = reading(2 * RIG_MTU + 10);

	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, op, RIG_SQ_PSN + 2, 2 * RIG_MTU, payload);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
	rig_expect_untouched(rig, TO + 2 * RIG_MTU, 8192);
	rig_destroy(rig);
}

static void comp__RS_05_later_responses_of_the_wrong_length(void **state)
{
	bad_second(READ_RESP_MIDDLE, RIG_MTU - 1);
	bad_second(READ_RESP_MIDDLE, 0);
	bad_second(READ_RESP_MIDDLE, RIG_MTU + 1);
	bad_second(READ_RESP_LAST, RIG_MTU);
	bad_second(READ_RESP_LAST, 10);
	bad_third(READ_RESP_LAST, 9);
	bad_third(READ_RESP_LAST, 11);
	bad_third(READ_RESP_LAST, 0);
	bad_third(READ_RESP_LAST, RIG_MTU);
	bad_third(READ_RESP_MIDDLE, RIG_MTU);
}

static void comp__RS_09_duplicate_read_responses_write_no_memory(void **state)
{
	struct rig *rig = reading(2 * RIG_MTU);

	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	memset(rig->arena + TO, 0xee, RIG_MTU);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU); /* a duplicate, while the READ is outstanding */
	for (unsigned i = 0; i < RIG_MTU; i++)
		assert_int_equal(rig->arena[TO + i], 0xee);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	memset(rig->arena + TO, 0xee, 2 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_RDMA_READ, TO, 2 * RIG_MTU); /* same buffer, new PSNs */
	rig_drain(rig);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	for (unsigned i = 0; i < 2 * RIG_MTU; i++)
		assert_int_equal(rig->arena[TO + i], 0xee);
	rig_expect_no_wc(rig->send_cq);
	assert_int_equal(rig_counter(rig, resp_ghost), 3);
	rig_destroy(rig);
}

static void comp__RS_09_duplicate_atomic_responses_write_no_memory(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, TO, 8);

	rig_post(rig, &wr);
	rig_drain(rig);
	rig_rx_data(rig, ATOMIC_ACK, RIG_SQ_PSN, 0, 0);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	memset(rig->arena + TO, 0xee, 8);
	rig_rx_data(rig, ATOMIC_ACK, RIG_SQ_PSN, 0, 0);
	assert_int_equal(rig->arena[TO], 0xee);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void comp__RS_10_atomic_response_is_stored_in_host_order_with_one_completion(void **state)
{
	static const enum nic_wr_opcode ops[] = {NIC_WR_ATOMIC_CMP_AND_SWP, NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_send_wr wr = rig_wr(rig, 1, ops[i], TO, 8);
		uint64_t value = 0x0102030405060708ull, got;
		struct nic_wc wc;
		struct packet p;

		wr.atomic.compare_add = 0x1111;
		wr.atomic.swap = 0x2222;
		rig_post(rig, &wr);
		p = rig_expect_tx(rig, i ? FETCH_ADD : CMP_SWAP, RIG_SQ_PSN);
		assert_true(p.va == RIG_REMOTE_VA && p.rkey == RIG_REMOTE_RKEY);
		assert_true(p.swap_add == (i ? 0x1111 : 0x2222) && p.compare == (i ? 0 : 0x1111));
		p = rig_peer_packet(rig, ATOMIC_ACK, RIG_SQ_PSN);
		p.orig = value;
		rig_rx(rig, &p);
		wc = rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		assert_int_equal(wc.opcode, i ? NIC_WC_FETCH_ADD : NIC_WC_COMP_SWAP);
		assert_int_equal(wc.byte_len, 8);
		rig_expect_no_wc(rig->send_cq);
		memcpy(&got, rig->arena + TO, 8);
		assert_true(got == value);
		rig_expect_untouched(rig, TO + 8, 64);
		rig_expect_untouched(rig, 0, TO);
		rig_destroy(rig);
	}
}

/* A READ into memory with these access rights fails. `lost`: the MR is deregistered before the second of two
 * responses. */
static void bad_scatter(uint32_t access, bool lost)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_mr *mr;
	struct nic_sge sge;
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_RDMA_READ, TO, 2 * RIG_MTU);

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 16384, rig_va(rig, 0), access, &mr), 0);
	sge = (struct nic_sge){rig_va(rig, TO), 2 * RIG_MTU, nic_mr_lkey(mr)};
	wr.sg_list = &sge;
	rig_post(rig, &wr);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	if (lost) {
		rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
		assert_int_equal(nic_mr_dereg(mr), 0);
		rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
		rig_expect_untouched(rig, TO + RIG_MTU, RIG_MTU);
	} else {
		rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
		rig_expect_untouched(rig, TO, 2 * RIG_MTU);
	}
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void comp__RS_12_a_read_into_unwritable_memory_is_a_protection_error(void **state)
{
	bad_scatter(0, false); /* no LOCAL_WRITE */
	bad_scatter(NIC_ACCESS_REMOTE_READ, false);
	bad_scatter(NIC_ACCESS_LOCAL_WRITE, true);
}

static void comp__RS_12_an_atomic_result_with_a_bad_lkey_is_a_protection_error(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, TO, 8);

	rig->sge.lkey ^= 2;
	rig_post(rig, &wr);
	rig_expect_tx(rig, FETCH_ADD, RIG_SQ_PSN);
	rig_rx_data(rig, ATOMIC_ACK, RIG_SQ_PSN, 0, 0);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	rig_expect_untouched(rig, TO, 8);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comp__RS_02_a_response_beyond_a_read_implies_its_loss),
		cmocka_unit_test(comp__RS_02_read_responses_atomic_acks_and_naks_imply_a_nak),
		cmocka_unit_test(comp__RS_02_implied_naks_count_against_retry_cnt),
		cmocka_unit_test(comp__RS_04_a_read_of_several_packets),
		cmocka_unit_test(comp__RS_04_a_response_gap_repeats_the_read_from_the_gap),
		cmocka_unit_test(comp__RS_02_RT_04_responses_after_a_gap_trigger_one_retry_only),
		cmocka_unit_test(comp__RS_05_RS_04_a_first_response_of_wrong_length_or_opcode_fails),
		cmocka_unit_test(comp__RS_05_later_responses_of_the_wrong_length),
		cmocka_unit_test(comp__RS_09_duplicate_read_responses_write_no_memory),
		cmocka_unit_test(comp__RS_09_duplicate_atomic_responses_write_no_memory),
		cmocka_unit_test(comp__RS_10_atomic_response_is_stored_in_host_order_with_one_completion),
		cmocka_unit_test(comp__RS_12_a_read_into_unwritable_memory_is_a_protection_error),
		cmocka_unit_test(comp__RS_12_an_atomic_result_with_a_bad_lkey_is_a_protection_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
