/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_resp_check.c - what the responder checks before it accesses memory: lengths, R_Keys, access rights, ranges (IBTA
 * 9.3.3, 9.7.4.1, 10.6; conformance points RL-01 to RL-07, RL-09 to RL-12, RL-14). Each fault is tried on a new QP.
 */
#include "resp_util.h"

/* Deliver a request that must be refused with this syndrome and must leave memory unchanged. */
static void expect_refused(struct rig *rig, const struct packet *p, unsigned syndrome)
{
	assert_true(rig_rx(rig, p));
	expect_fatal(rig, p->psn, syndrome);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_destroy(rig);
}

static void resp__RL_01_payload_lengths_by_position(void **state)
{
	static const struct {
		uint8_t before, op; /* before: the packet that opens the message; equal to op if there is none */
		uint32_t len;
		bool ok;
	} cases[] = {
		{SEND_FIRST, SEND_FIRST, RIG_MTU - 1, false},
		{SEND_FIRST, SEND_FIRST, RIG_MTU + 1, false},
		{SEND_FIRST, SEND_FIRST, 0, false},
		{SEND_FIRST, SEND_FIRST, RIG_MTU, true},
		{SEND_FIRST, SEND_MIDDLE, RIG_MTU - 4, false},
		{SEND_FIRST, SEND_MIDDLE, 2 * RIG_MTU, false},
		{SEND_FIRST, SEND_MIDDLE, 0, false},
		{SEND_FIRST, SEND_MIDDLE, RIG_MTU, true},
		{SEND_FIRST, SEND_LAST, 0, false},
		{SEND_FIRST, SEND_LAST, RIG_MTU + 1, false},
		{SEND_FIRST, SEND_LAST, 1, true},
		{SEND_FIRST, SEND_LAST, RIG_MTU, true},
		{SEND_FIRST, SEND_LAST_IMM, 0, false},
		{SEND_ONLY, SEND_ONLY, RIG_MTU + 1, false},
		{SEND_ONLY, SEND_ONLY, 0, true},
		{SEND_ONLY, SEND_ONLY, RIG_MTU, true},
		{WRITE_FIRST, WRITE_FIRST, RIG_MTU - 1, false},
		{WRITE_FIRST, WRITE_FIRST, RIG_MTU + 1, false},
		{WRITE_FIRST, WRITE_MIDDLE, RIG_MTU - 1, false},
		{WRITE_FIRST, WRITE_MIDDLE, RIG_MTU + 1, false},
		{WRITE_FIRST, WRITE_LAST, 0, false},
		{WRITE_FIRST, WRITE_LAST, RIG_MTU + 1, false},
		{WRITE_ONLY, WRITE_ONLY, RIG_MTU + 1, false},
		{WRITE_ONLY, WRITE_ONLY, RIG_MTU, true},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rig *rig = rig_ready(NULL);
		bool opened = cases[i].before != cases[i].op, only = cases[i].op == WRITE_ONLY;
		uint32_t psn = E;

		rig_post_recv(rig, 1, 0, 4096);
		if (opened)
			rx_write(rig, cases[i].before, psn++, 0, RIG_MTU,
				 cases[i].op == WRITE_LAST ? RIG_MTU + (cases[i].len ? cases[i].len : 4) : 8 * RIG_MTU);
		rx_write(rig, cases[i].op, psn, 0, cases[i].len, only ? cases[i].len : 8 * RIG_MTU);
		if (cases[i].ok)
			assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
		else
			expect_fatal(rig, psn, SYN_INV);
		rig_destroy(rig);
	}
}

static void resp__RL_02_dma_length_over_2_31(void **state)
{
	static const uint8_t ops[] = {WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM, READ_REQ};
	static const uint32_t lengths[] = {0x80000001u, 0xffffffffu};

	for (unsigned i = 0; i < 2 * sizeof(ops); i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, ops[i / 2], E, 0, ops[i / 2] == READ_REQ ? 0 : RIG_MTU);

		p.dma_len = lengths[i & 1];
		expect_refused(rig, &p, SYN_INV);
	}
}

/* 2^31 itself is legal: it passes this check and fails the range check. */
static void resp__RL_02_dma_length_of_2_31_is_legal(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);

	p.dma_len = 0x80000000u;
	expect_refused(rig, &p, SYN_ACCESS);
}

static void resp__RL_03_write_length_must_match_its_reth(void **state)
{
	static const struct {
		uint32_t total, last, at; /* at: index of the refused packet; 0 is the FIRST */
	} cases[] = {{2 * RIG_MTU, 9, 1}, {RIG_MTU + 9, 10, 1}, {RIG_MTU + 9, 8, 1}, {RIG_MTU, 4, 0}, {8, 1, 0}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rig *rig = rig_ready(NULL);

		rx_write(rig, WRITE_FIRST, E, 0, RIG_MTU, cases[i].total);
		if (cases[i].at)
			rig_rx_data(rig, WRITE_LAST, E + 1, 0, cases[i].last);
		expect_fatal(rig, E + cases[i].at, SYN_INV);
		rig_expect_untouched(rig, cases[i].at * RIG_MTU, RIG_MTU);
		rig_destroy(rig);
	}
	for (uint32_t len = 7; len <= 9; len += 2) { /* the RETH says 8 */
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, WRITE_ONLY, E, 0, len);

		p.dma_len = 8;
		expect_refused(rig, &p, SYN_INV);
	}
}

static void resp__RL_03_middle_beyond_the_reth_length_is_not_written(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_write(rig, WRITE_FIRST, E, 0, RIG_MTU, RIG_MTU + 8);
	rig_rx_data(rig, WRITE_MIDDLE, E + 1, RIG_MTU, RIG_MTU);
	expect_fatal(rig, E + 1, SYN_INV);
	rig_expect_untouched(rig, RIG_MTU, RIG_MTU);
	rig_destroy(rig);
}

static void resp__RL_04_message_longer_than_the_receive_buffer(void **state)
{
	for (uint32_t room = 0; room < 2 * RIG_MTU + 9; room += 88) {
		struct rig *rig = rig_ready(NULL);
		uint32_t psn = E;

		rig_post_recv(rig, 1, 0, room);
		rig_post_recv(rig, 2, 8192, 64);
		rig_rx_data(rig, SEND_FIRST, psn, 0, RIG_MTU);
		if (nic_qp_state(rig->qp) == NIC_QPS_RTS)
			rig_rx_data(rig, SEND_MIDDLE, ++psn, RIG_MTU, RIG_MTU);
		if (nic_qp_state(rig->qp) == NIC_QPS_RTS)
			rig_rx_data(rig, SEND_LAST, ++psn, 2 * RIG_MTU, 9);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_LEN_ERR);
		rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
		assert_int_equal(psn, E + (room >= RIG_MTU) + (room >= 2 * RIG_MTU));
		expect_fatal(rig, psn, SYN_INV);
		rig_expect_untouched(rig, room, RIG_ARENA - room);
		rig_destroy(rig);
	}
}

static void resp__RL_04_message_exactly_as_long_as_the_receive_buffers(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge[3] = {{rig_va(rig, 0), 100, rig->lkey},
				 {rig_va(rig, 1000), 200, rig->lkey},
				 {rig_va(rig, 2000), 30, rig->lkey}};
	struct nic_recv_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = 3};

	assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	rig_rx_data(rig, SEND_LAST, E + 1, RIG_MTU, 330 - RIG_MTU);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, 330);
	rig_expect_data(rig, 0, 0, 100);
	rig_expect_data(rig, 1000, 100, 200);
	rig_expect_data(rig, 2000, 300, 30);
	rig_expect_untouched(rig, 100, 900);
	rig_expect_untouched(rig, 1200, 800);
	rig_expect_untouched(rig, 2030, 1000);
	rig_destroy(rig);
}

/* A packet with payload where none belongs is dropped before any QP sees it. The frame is a heap block of exactly its
 * size, so that a sanitizer detects reads beyond it. */
static void resp__RL_05_unexpected_payload_drops_the_packet(void **state)
{
	static const uint8_t ops[] = {READ_REQ, ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD};

	for (unsigned i = 0; i < 3 * sizeof(ops); i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, ops[i / 3], E, 0, 4u << 4 * (i % 3)); /* 4, 64 or 1024 bytes */

		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
		p.psn = op_is_response(p.op) ? RIG_SQ_PSN : E;
		assert_false(rig_rx(rig, &p));
		rig_expect_silence(rig);
		rig_expect_no_wc(rig->send_cq);
		assert_int_equal(rig_counter(rig, rx_too_long), 1);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

/* Register 4096 bytes in the middle of the arena, addressed by their own addresses. @return the R_Key. */
static uint32_t small_region(struct rig *rig, struct nic_pd *pd)
{
	const uint32_t all =
		NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(pd, rig->arena + 8192, 4096, rig_va(rig, 8192), all, &mr), 0);
	return nic_mr_rkey(mr);
}

static void resp__RL_06_range_must_lie_inside_the_region(void **state)
{
	static const struct {
		int64_t from; /* offset from the region's start */
		uint32_t len;
	} bad[] = {
		{-1, 8},
		{-8, 8},
		{-8, 4096},
		{4089, 8},
		{4096, 1},
		{4097, 8},
		{0, 4097},
		{1, 4096},
		{100000, 8},
		{0, 0x80000000u},
		{4096, 0x80000000u},
		{-0x7fffffff, 0x80000000u},
		{INT64_MIN, 8},
		{INT64_MAX, 0x80000000u},
	};
	static const uint8_t ops[] = {WRITE_ONLY, WRITE_FIRST, READ_REQ};

	for (unsigned i = 0; i < 3 * sizeof(bad) / sizeof(*bad); i++) {
		struct rig *rig = rig_ready(NULL);
		uint8_t op = ops[i % 3];
		uint32_t len = bad[i / 3].len;
		struct packet p = rig_peer_packet(rig, op, E);

		if ((op == WRITE_ONLY && len > 8) || (op == WRITE_FIRST && len < RIG_MTU + 1)) {
			rig_destroy(rig);
			continue; /* this opcode cannot announce such a length */
		}
		p = rig_peer_data(rig, op, E, 0, op == WRITE_ONLY ? len : op == WRITE_FIRST ? RIG_MTU : 0);
		p.va = rig_va(rig, 8192) + (uint64_t)bad[i / 3].from;
		p.dma_len = len;
		p.rkey = small_region(rig, rig->pd);
		expect_refused(rig, &p, SYN_ACCESS);
	}
}

/* va + len wraps past 2^64 and must not be taken for a small address. */
static void resp__RL_06_range_that_wraps(void **state)
{
	static const uint32_t lengths[] = {2, 8, 4096, 0x80000000u};

	for (unsigned i = 0; i < 8; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, i & 1 ? READ_REQ : WRITE_FIRST, E, 0, i & 1 ? 0 : RIG_MTU);

		p.rkey = small_region(rig, rig->pd);
		p.va = UINT64_MAX;
		p.dma_len = i & 1 ? lengths[i / 2] : lengths[i / 2] + RIG_MTU;
		if (p.dma_len > NIC_MSG_MAX)
			p.dma_len = NIC_MSG_MAX;
		expect_refused(rig, &p, SYN_ACCESS);
	}
}

static void resp__RL_06_region_is_usable_to_its_last_byte(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_ONLY, E, 0, 8);

	p.rkey = small_region(rig, rig->pd);
	p.va = rig_va(rig, 8192 + 4088);
	rig_rx(rig, &p);
	rig_expect_ack(rig, E, SYN_ACK);
	rig_expect_data(rig, 8192 + 4088, 0, 8);
	rig_expect_untouched(rig, 8192 + 4096, 64);
	p = rig_peer_packet(rig, READ_REQ, E + 1);
	p.rkey = small_region(rig, rig->pd);
	p.va = rig_va(rig, 8192);
	p.dma_len = 4096;
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 4096 / RIG_MTU);
	rig_destroy(rig);
}

static void resp__RL_06_key_must_exist_and_be_of_the_same_pd(void **state)
{
	static const uint8_t ops[] = {WRITE_ONLY, WRITE_ONLY_IMM, READ_REQ, FETCH_ADD, CMP_SWAP};

	for (unsigned i = 0; i < 3 * sizeof(ops); i++) {
		uint8_t op = ops[i / 3];
		struct rig *rig = rig_ready(NULL);
		struct nic_pd *other;
		struct packet p = rig_peer_data(rig, op, E, 0, op_get(op)->payload ? 8 : 0);

		assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
		rig_post_recv(rig, 1, 0, 64);
		p.va = rig_va(rig, 8192);
		p.dma_len = 8;
		switch (i % 3) {
		case 0:
			p.rkey = small_region(rig, other);
			break;
		case 1:
			p.rkey = 0;
			break;
		case 2:
			p.rkey = rig->rkey ^ 0x80000000u;
			break;
		}
		expect_refused(rig, &p, SYN_ACCESS);
	}
}

static void resp__RL_07_zero_length_names_no_memory(void **state)
{
	struct rig *rig = rig_ready(NULL);
	static const uint8_t ops[] = {WRITE_ONLY, WRITE_ONLY_IMM, READ_REQ};

	rig_post_recv(rig, 1, 0, 64);
	for (unsigned i = 0; i < 3; i++) {
		struct packet p = rig_peer_data(rig, ops[i], E + i, 0, 0);

		p.va = 0xdeadbeefdeadbeefull;
		p.rkey = 0xbad;
		rig_rx(rig, &p);
		if (ops[i] == READ_REQ)
			assert_int_equal(rig_expect_tx(rig, READ_RESP_ONLY, E + i).payload_len, 0);
		else
			rig_expect_ack(rig, E + i, SYN_ACK);
	}
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, 0);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

static void resp__RL_09_region_deregistered_while_a_read_streams(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, E);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 8192, rig_va(rig, 0), NIC_ACCESS_REMOTE_READ, &mr), 0);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 8 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_FIRST, E);
	rig_expect_tx(rig, READ_RESP_MIDDLE, E + 1);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_expect_ack(rig, E + 2, SYN_ACCESS); /* replaces the third response; nothing follows */
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
	rig_destroy(rig);
}

static void resp__RL_10_region_deregistered_while_a_write_arrives(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 8192, rig_va(rig, 0),
				    NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_LOCAL_WRITE, &mr),
			 0);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 3 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_data(rig, 0, 0, RIG_MTU);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_rx_data(rig, WRITE_MIDDLE, E + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, WRITE_LAST, E + 2, 2 * RIG_MTU, RIG_MTU);
	rig_expect_untouched(rig, RIG_MTU, 4 * RIG_MTU);
	expect_fatal(rig, E + 1, SYN_ACCESS);
	rig_destroy(rig);
}

static void resp__RL_10_receive_buffer_deregistered_half_way(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_mr *mr;
	struct nic_sge sge = {.addr = rig_va(rig, 0), .length = 1024};
	struct nic_recv_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 1024, rig_va(rig, 0), NIC_ACCESS_LOCAL_WRITE, &mr), 0);
	sge.lkey = nic_mr_lkey(mr);
	assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_rx_data(rig, SEND_LAST, E + 1, RIG_MTU, 10);
	rig_expect_untouched(rig, RIG_MTU, RIG_MTU);
	rig_expect_wc(rig->recv_cq, 5, NIC_WC_LOC_PROT_ERR);
	expect_fatal(rig, E + 1, SYN_OP);
	rig_destroy(rig);
}

static void resp__RL_11_bad_rkey_is_nak_error_state_and_access_event(void **state)
{
	static const uint8_t ops[] = {WRITE_ONLY, READ_REQ, FETCH_ADD, CMP_SWAP};

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, ops[i], E, 0, ops[i] == WRITE_ONLY ? 8 : 0);

		rig_post_recv(rig, 1, 0, 64);
		rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
		p.dma_len = 8;
		p.rkey ^= 0x5500;
		rig_rx(rig, &p);
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 1ull << NIC_EVENT_QP_ACCESS_ERR);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		assert_int_equal(rig_counter(rig, nak_access_sent), 0); /* the NAK counts when it is sent */
		expect_fatal(rig, E, SYN_ACCESS);
		assert_int_equal(rig_counter(rig, nak_access_sent), 1);
		rig_destroy(rig);
	}
}

static void resp__RL_12_low_byte_of_the_rkey_must_match(void **state)
{
	for (unsigned bit = 0; bit < 8; bit++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, WRITE_ONLY, E, 0, 8);

		p.rkey ^= 1u << bit;
		expect_refused(rig, &p, SYN_ACCESS);
	}
}

/* Regions that start at any address and are addressed by another IOVA, or from 0. */
static void resp__RL_14_unaligned_region_is_addressed_by_its_iova(void **state)
{
	static const struct {
		uint32_t start;
		uint64_t iova;
	} cases[] = {{3, 0}, {4097, 0x123456789abcdef1ull}, {0, 1}, {8191, UINT64_MAX - 5000}};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);
		struct nic_mr *mr;

		assert_int_equal(nic_mr_reg(rig->pd, rig->arena + cases[i].start, 4500, cases[i].iova,
					    NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_LOCAL_WRITE,
					    &mr),
				 0);
		p.rkey = nic_mr_rkey(mr);
		p.va = cases[i].iova + 4000;
		p.dma_len = 500;
		rig_rx(rig, &p);
		rig_rx_data(rig, WRITE_LAST, E + 1, RIG_MTU, 500 - RIG_MTU);
		rig_expect_ack(rig, E + 1, SYN_ACK);
		rig_expect_data(rig, cases[i].start + 4000, 0, 500);
		rig_expect_untouched(rig, cases[i].start, 4000);
		rig_expect_untouched(rig, cases[i].start + 4500, 1000);
		p = rig_peer_packet(rig, READ_REQ, E + 2);
		p.rkey = nic_mr_rkey(mr);
		p.va = cases[i].iova + 3900;
		p.dma_len = 200;
		rig_rx(rig, &p);
		expect_read_data(rig, READ_RESP_ONLY, E + 2, cases[i].start + 3900, 200);
		p.psn = E + 3;
		p.va = rig_va(rig, cases[i].start); /* the memory's own address is not its IOVA */
		rig_rx(rig, &p);
		expect_fatal(rig, E + 3, SYN_ACCESS);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resp__RL_01_payload_lengths_by_position),
		cmocka_unit_test(resp__RL_02_dma_length_over_2_31),
		cmocka_unit_test(resp__RL_02_dma_length_of_2_31_is_legal),
		cmocka_unit_test(resp__RL_03_write_length_must_match_its_reth),
		cmocka_unit_test(resp__RL_03_middle_beyond_the_reth_length_is_not_written),
		cmocka_unit_test(resp__RL_04_message_longer_than_the_receive_buffer),
		cmocka_unit_test(resp__RL_04_message_exactly_as_long_as_the_receive_buffers),
		cmocka_unit_test(resp__RL_05_unexpected_payload_drops_the_packet),
		cmocka_unit_test(resp__RL_06_range_must_lie_inside_the_region),
		cmocka_unit_test(resp__RL_06_range_that_wraps),
		cmocka_unit_test(resp__RL_06_region_is_usable_to_its_last_byte),
		cmocka_unit_test(resp__RL_06_key_must_exist_and_be_of_the_same_pd),
		cmocka_unit_test(resp__RL_07_zero_length_names_no_memory),
		cmocka_unit_test(resp__RL_09_region_deregistered_while_a_read_streams),
		cmocka_unit_test(resp__RL_10_region_deregistered_while_a_write_arrives),
		cmocka_unit_test(resp__RL_10_receive_buffer_deregistered_half_way),
		cmocka_unit_test(resp__RL_11_bad_rkey_is_nak_error_state_and_access_event),
		cmocka_unit_test(resp__RL_12_low_byte_of_the_rkey_must_match),
		cmocka_unit_test(resp__RL_14_unaligned_region_is_addressed_by_its_iova),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
