/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_resp.c - the responder: requests in and out of PSN order, opcode sequences, rights of the QP, receive WQEs
 * (IBTA 9.7.4, 9.7.5; conformance points RP-01, RP-08, RP-09, RO-01 to RO-08).
 */
#include "resp_util.h"

static void resp__RP_01_one_nak_with_the_expected_psn_until_it_arrives(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (unsigned i = 0; i < 8; i++)
		rig_post_recv(rig, i, 64 * i, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_ack(rig, E, SYN_ACK);
	rig_rx_data(rig, SEND_ONLY, E + 3, 8, 8); /* E+1 and E+2 are missing */
	rig_expect_ack(rig, E + 1, SYN_SEQ);
	rig_rx_data(rig, SEND_ONLY, E + 4, 8, 8);
	rig_rx_data(rig, SEND_ONLY, E + 2, 8, 8);
	rx_read(rig, E + 5, 0, 0);
	rig_expect_silence(rig);
	assert_int_equal(nic_cq_count(rig->recv_cq), 1);
	rig_rx_data(rig, SEND_ONLY, E + 1, 16, 8); /* the gap is filled */
	rig_expect_ack(rig, E + 1, SYN_ACK);
	rig_rx_data(rig, SEND_ONLY, E + 3, 8, 8); /* a second gap */
	rig_expect_ack(rig, E + 2, SYN_SEQ);
	rig_rx_data(rig, SEND_ONLY, E + 4, 8, 8);
	rig_expect_silence(rig);
	rig_expect_wc(rig->recv_cq, 0, NIC_WC_SUCCESS);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_data(rig, 64, 16, 8);
	assert_int_equal(rig_counter(rig, seq_nak_sent), 2);
	assert_int_equal(rig_counter(rig, out_of_sequence), 6);
	rig_destroy(rig);
}

static void resp__RP_01_gap_across_the_psn_wrap(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.rq_psn = 0xffffff;
	rig_to_rts(rig);
	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 64, 64);
	rig_rx_data(rig, SEND_ONLY, 1, 0, 8);
	rig_expect_ack(rig, 0xffffff, SYN_SEQ);
	rig_rx_data(rig, SEND_ONLY, 0xffffff, 0, 8);
	rig_expect_ack(rig, 0xffffff, SYN_ACK);
	rig_rx_data(rig, SEND_ONLY, 0, 0, 8);
	rig_expect_ack(rig, 0, SYN_ACK);
	rig_destroy(rig);
}

/* A PSN half the PSN space away is neither earlier nor later. This NIC treats it as a duplicate, even at the wrap. */
static void resp__RP_08_psn_half_the_space_away_is_a_duplicate(void **state)
{
	static const uint32_t epsns[] = {0, 1, 0x7fffff, 0x800000, 0xffffff};

	for (unsigned i = 0; i < sizeof(epsns) / sizeof(*epsns); i++) {
		struct rig *rig = rig_create(NULL);

		rig->attr.rq_psn = epsns[i];
		rig_to_rts(rig);
		rig_post_recv(rig, 1, 0, 64);
		rig_rx_data(rig, SEND_ONLY, epsns[i] + 0x800000, 0, 8);
		rig_expect_ack(rig, epsns[i] - 1, SYN_ACK);
		assert_int_equal(rig_counter(rig, duplicate_request), 1);
		rig_rx_data(rig, SEND_ONLY, epsns[i] + 0x7fffff, 0, 8);
		rig_expect_ack(rig, epsns[i], SYN_SEQ);
		rig_rx_data(rig, SEND_ONLY, epsns[i] + 0x800001, 0, 8);
		assert_int_equal(rig_counter(rig, duplicate_request), 2);
		rig_expect_no_wc(rig->recv_cq);
		rig_destroy(rig);
	}
}

static void resp__RP_09_expected_psn_after_a_read_counts_its_responses(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 1, 0, 64);
	rx_read(rig, E, 0, 2 * RIG_MTU + 1); /* takes PSNs E to E+2 */
	rig_expect_tx(rig, READ_RESP_FIRST, E);
	rig_rx_data(rig, SEND_ONLY, E + 4, 0, 8); /* E+3 is missing */
	rig_expect_tx(rig, READ_RESP_MIDDLE, E + 1);
	rig_expect_tx(rig, READ_RESP_LAST, E + 2);
	rig_expect_ack(rig, E + 3, SYN_SEQ);
	rig_rx_data(rig, SEND_ONLY, E + 3, 0, 8);
	rig_expect_ack(rig, E + 3, SYN_ACK);
	rx_read(rig, E + 4, 0, 0); /* an empty READ takes one PSN */
	rig_expect_tx(rig, READ_RESP_ONLY, E + 4);
	rig_post_recv(rig, 2, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E + 5, 0, 8);
	rig_expect_ack(rig, E + 5, SYN_ACK);
	rig_destroy(rig);
}

/* Opcodes that must not follow while a message is open. */
static void resp__RO_01_open_message_takes_only_its_own_middle_and_last(void **state)
{
	static const uint8_t after_send[] = {SEND_FIRST,   SEND_ONLY,  SEND_ONLY_IMM,  SEND_ONLY_INV, WRITE_FIRST,
					     WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY,    WRITE_ONLY_IMM,
					     READ_REQ,	   CMP_SWAP,   FETCH_ADD};
	static const uint8_t after_write[] = {WRITE_FIRST, WRITE_ONLY,	  WRITE_ONLY_IMM, SEND_FIRST, SEND_MIDDLE,
					      SEND_LAST,   SEND_LAST_IMM, SEND_LAST_INV,  SEND_ONLY,  SEND_ONLY_INV,
					      READ_REQ,	   CMP_SWAP,	  FETCH_ADD};

	for (unsigned i = 0; i < 2 * (sizeof(after_send) + sizeof(after_write)); i++) {
		bool send = i / 2 < sizeof(after_send), middle = i & 1;
		unsigned next = send ? after_send[i / 2] : after_write[i / 2 - sizeof(after_send)];
		unsigned first = send ? SEND_FIRST : WRITE_FIRST;
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, first, E, 0, RIG_MTU);
		uint32_t psn = E;

		rig_post_recv(rig, 1, 0, 4096);
		p.dma_len = 4 * RIG_MTU;
		rig_rx(rig, &p);
		if (middle)
			rig_rx_data(rig, first + 1, ++psn, RIG_MTU, RIG_MTU);
		p = rig_peer_data(rig, next, ++psn, 0, op_get((uint8_t)next)->payload ? RIG_MTU : 0);
		p.dma_len = RIG_MTU;
		rig_rx(rig, &p);
		assert_int_equal(nic_cq_count(rig->recv_cq),
				 1); /* the open message's receive WQE fails or is flushed */
		expect_fatal(rig, psn, SYN_INV);
		assert_int_equal(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)), !send);
		rig_destroy(rig);
	}
}

static void resp__RO_02_middle_or_last_without_first(void **state)
{
	static const uint8_t ops[] = {SEND_MIDDLE,  SEND_LAST,	SEND_LAST_IMM, SEND_LAST_INV,
				      WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM};

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct rig *rig = rig_ready(NULL);

		rig_post_recv(rig, 1, 0, 4096);
		rig_rx_data(rig, ops[i], E, 0, RIG_MTU);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
		expect_fatal(rig, E, SYN_INV);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

static const struct right {
	uint8_t op;
	uint32_t access, len;
} rights[] = {
	{WRITE_ONLY, NIC_ACCESS_REMOTE_WRITE, 8},     {WRITE_FIRST, NIC_ACCESS_REMOTE_WRITE, RIG_MTU},
	{WRITE_ONLY_IMM, NIC_ACCESS_REMOTE_WRITE, 8}, {READ_REQ, NIC_ACCESS_REMOTE_READ, 0},
	{CMP_SWAP, NIC_ACCESS_REMOTE_ATOMIC, 0},      {FETCH_ADD, NIC_ACCESS_REMOTE_ATOMIC, 0},
};

#define RIGHTS	      (sizeof(rights) / sizeof(*rights))
#define REMOTE_RIGHTS (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC)

static struct packet right_packet(struct rig *rig, const struct right *r)
{
	struct packet p = rig_peer_data(rig, r->op, E, 0, r->len);

	p.dma_len = r->op == WRITE_FIRST ? 2 * RIG_MTU : 8;
	return p;
}

static void resp__RO_03_right_missing_on_the_qp_is_an_invalid_request(void **state)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct rig *rig = rig_create(NULL);
		struct packet p;

		rig->attr.qp_access_flags = REMOTE_RIGHTS & ~rights[i].access;
		rig_to_rts(rig);
		p = right_packet(rig, &rights[i]);
		rig_rx(rig, &p);
		expect_fatal(rig, E, SYN_INV);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

static void resp__RO_03_right_missing_on_the_region_is_an_access_error(void **state)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct rig *rig = rig_create(NULL);
		struct nic_mr *mr;
		struct packet p;
		uint32_t access = NIC_ACCESS_LOCAL_WRITE | (REMOTE_RIGHTS & ~rights[i].access);

		rig->attr.qp_access_flags = rights[i].access; /* the QP allows just the needed access */
		rig_to_rts(rig);
		rig_post_recv(rig, 1, 4096, 64); /* for WRITEs with immediate data */
		assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 4096, rig_va(rig, 0), access, &mr), 0);
		p = right_packet(rig, &rights[i]);
		p.rkey = nic_mr_rkey(mr);
		rig_rx(rig, &p);
		expect_fatal(rig, E, SYN_ACCESS);
		if (rights[i].op == WRITE_ONLY_IMM)
			rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_ACCESS_ERR);
		else
			assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

static void resp__RO_04_no_reads_or_atomics_with_max_dest_rd_atomic_0(void **state)
{
	static const uint8_t ops[] = {READ_REQ, CMP_SWAP, FETCH_ADD};

	for (unsigned i = 0; i < 3; i++) {
		struct rig *rig = rig_create(NULL);

		rig->attr.max_dest_rd_atomic = 0;
		rig_to_rts(rig);
		rig_rx_data(rig, WRITE_ONLY, E, 0, 8); /* other requests are still accepted */
		rig_expect_ack(rig, E, SYN_ACK);
		rig_rx_data(rig, ops[i], E + 1, 0, 0);
		expect_fatal(rig, E + 1, SYN_INV);
		rig_destroy(rig);
	}
}

/* Behaviour that this NIC defines: it never drops a READ that it has not answered, so one READ too many is an invalid
 * request. */
static void resp__RO_05_one_more_than_max_dest_rd_atomic_is_an_invalid_request(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct packet p;

	rig->attr.max_dest_rd_atomic = 2;
	rig_to_rts(rig);
	p = rig_peer_packet(rig, FETCH_ADD, E);
	p.va = rig_va(rig, 64);
	p.swap_add = 1;
	rx_read(rig, E, 0, 8 + RIG_MTU);
	p.psn = E + 2;
	rig_rx(rig, &p);
	p.psn = E + 3; /* the two READs before it are still unanswered */
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_FIRST, E);
	rig_expect_tx(rig, READ_RESP_LAST, E + 1);
	rig_expect_tx(rig, ATOMIC_ACK, E + 2);
	expect_fatal(rig, E + 3, SYN_INV);
	rig_destroy(rig);
}

static void resp__RO_05_answered_requests_are_recycled_without_end(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.max_dest_rd_atomic = 1;
	rig_to_rts(rig);
	for (uint32_t i = 0; i < 100; i++) {
		rx_read(rig, E + i, 0, 8);
		rig_expect_tx(rig, READ_RESP_ONLY, E + i);
	}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void resp__RO_06_no_receive_wqe_is_an_rnr_nak_and_changes_nothing(void **state)
{
	static const uint8_t ops[] = {SEND_FIRST, SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY_IMM};

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct rig *rig = rig_ready(NULL);
		uint32_t len = ops[i] == SEND_FIRST ? RIG_MTU : 40;

		rig_rx_data(rig, ops[i], E, 0, len);
		rig_expect_ack(rig, E, SYN_RNR | 12); /* min_rnr_timer of the rig */
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8); /* requests after E are dropped silently until E arrives */
		rig_expect_silence(rig);
		rig_rx_data(rig, ops[i], E, 0, len); /* still no receive posted: a second RNR NAK */
		rig_expect_ack(rig, E, SYN_RNR | 12);
		rig_post_recv(rig, 1, 0, RIG_MTU);
		rig_rx_data(rig, ops[i], E, 0, len);
		rig_expect_data(rig, 0, 0, len);
		if (ops[i] != SEND_FIRST) {
			assert_int_equal(rig_expect_ack(rig, E, SYN_ACK).msn, 1);
			rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		}
		assert_int_equal(rig_counter(rig, rcvd_rnr_sent), 2);
		rig_destroy(rig);
	}
}

static void resp__RO_07_write_with_immediate_whose_last_packet_met_rnr(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);
	struct nic_wc wc;

	p.dma_len = RIG_MTU + 20;
	rig_rx(rig, &p);
	p = rig_peer_data(rig, WRITE_LAST_IMM, E + 1, RIG_MTU, 20);
	p.imm = 0x01020304;
	rig_rx(rig, &p);
	rig_expect_ack(rig, E + 1, SYN_RNR | 12);
	rig_expect_data(rig, 0, 0, RIG_MTU); /* this packet's data stays */
	rig_expect_untouched(rig, RIG_MTU, RIG_MTU);
	rig_post_recv(rig, 1, 8192, 64);
	rig_rx(rig, &p);
	assert_int_equal(rig_expect_ack(rig, E + 1, SYN_ACK).msn, 1);
	rig_expect_data(rig, 0, 0, RIG_MTU + 20);
	wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, NIC_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags, NIC_WC_WITH_IMM);
	assert_int_equal(wc.ex, 0x01020304);
	assert_int_equal(wc.byte_len, RIG_MTU + 20);
	rig_expect_untouched(rig, 8192, 64);
	rig_destroy(rig);
}

static void resp__RO_08_each_message_takes_one_receive_wqe(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_recv(rig, 1, 0, 1024);
	rig_post_recv(rig, 2, 1024, 1024);
	rig_post_recv(rig, 3, 2048, 1024);
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	rig_rx_data(rig, SEND_MIDDLE, E + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, SEND_LAST, E + 2, 2 * RIG_MTU, 5);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, 2 * RIG_MTU + 5);
	p = rig_peer_data(rig, WRITE_FIRST, E + 3, 0, RIG_MTU);
	p.va = rig_va(rig, 8192);
	p.dma_len = 2 * RIG_MTU;
	rig_rx(rig, &p);
	rig_rx_data(rig, WRITE_LAST_IMM, E + 4, 0, RIG_MTU);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS).byte_len, 2 * RIG_MTU);
	rig_rx_data(rig, WRITE_ONLY, E + 5, 0, 0); /* a WRITE takes no receive WQE */
	rig_rx_data(rig, SEND_ONLY, E + 6, 0, 3);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 3, NIC_WC_SUCCESS).byte_len, 3);
	rig_rx_data(rig, SEND_ONLY, E + 7, 0, 3);
	rig_drain(rig);
	rig_expect_no_wc(rig->recv_cq);
	assert_int_equal(rig_counter(rig, rcvd_rnr_sent), 1);
	rig_expect_data(rig, 0, 0, 2 * RIG_MTU + 5);
	rig_destroy(rig);
}

/* Two QPs on one SRQ, messages interleaved: each keeps the WQE that its first packet took. */
static void resp__RO_08_srq_wqe_is_taken_at_the_first_packet(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.srq = true});
	struct nic_qp *qp[2] = {rig->qp, rig_qp_create(rig)};
	struct packet p;

	rig->qp = qp[1];
	rig_to_rts(rig);
	rig_post_recv(rig, 1, 0, 1024);
	rig_post_recv(rig, 2, 1024, 1024);
	for (unsigned i = 0; i < 4; i++) {
		p = rig_peer_data(rig, i < 2 ? SEND_FIRST : SEND_LAST, E + i / 2, (i & 1) * 1024 + i / 2 * RIG_MTU,
				  i < 2 ? RIG_MTU : 10);
		p.dest_qpn = nic_qp_num(qp[i & 1]);
		rig_rx(rig, &p);
	}
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).qp_num, nic_qp_num(qp[0]));
	assert_int_equal(rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS).qp_num, nic_qp_num(qp[1]));
	rig_expect_data(rig, 0, 0, RIG_MTU + 10);
	rig_expect_data(rig, 1024, 1024, RIG_MTU + 10);
	rig_destroy(rig);
}

static void resp__RS_08_a_read_that_fails_while_the_qp_dies_gets_a_nak(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 4096, (uintptr_t)rig->arena, NIC_ACCESS_REMOTE_READ, &mr), 0);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 4 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_FIRST, RIG_RQ_PSN);
	rig_rx_data(rig, WRITE_MIDDLE, RIG_RQ_PSN + 4, 0, RIG_MTU); /* belongs to no message */
	nic_mr_dereg(mr);
	p = rig_expect_tx(rig, ACK, RIG_RQ_PSN + 1);
	assert_int_equal(p.syndrome, SYN_ACCESS);
	assert_int_equal(rig_drain(rig), 0);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resp__RP_01_one_nak_with_the_expected_psn_until_it_arrives),
		cmocka_unit_test(resp__RP_01_gap_across_the_psn_wrap),
		cmocka_unit_test(resp__RP_08_psn_half_the_space_away_is_a_duplicate),
		cmocka_unit_test(resp__RP_09_expected_psn_after_a_read_counts_its_responses),
		cmocka_unit_test(resp__RO_01_open_message_takes_only_its_own_middle_and_last),
		cmocka_unit_test(resp__RO_02_middle_or_last_without_first),
		cmocka_unit_test(resp__RO_03_right_missing_on_the_qp_is_an_invalid_request),
		cmocka_unit_test(resp__RO_03_right_missing_on_the_region_is_an_access_error),
		cmocka_unit_test(resp__RO_04_no_reads_or_atomics_with_max_dest_rd_atomic_0),
		cmocka_unit_test(resp__RO_05_one_more_than_max_dest_rd_atomic_is_an_invalid_request),
		cmocka_unit_test(resp__RO_05_answered_requests_are_recycled_without_end),
		cmocka_unit_test(resp__RO_06_no_receive_wqe_is_an_rnr_nak_and_changes_nothing),
		cmocka_unit_test(resp__RO_07_write_with_immediate_whose_last_packet_met_rnr),
		cmocka_unit_test(resp__RO_08_each_message_takes_one_receive_wqe),
		cmocka_unit_test(resp__RO_08_srq_wqe_is_taken_at_the_first_packet),
		cmocka_unit_test(resp__RS_08_a_read_that_fails_while_the_qp_dies_gets_a_nak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
