/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_recover.c - two NICs and a network that loses, duplicates, reorders, delays and damages single packets: every
 * operation still takes effect exactly once and completes in order (conformance points RT-13 to RT-15).
 */
#include "pair.h"

#define WRITE_TO    32768u /* offset in side b's arena */
#define IMM_TO	    36864u
#define READ_TO	    40960u /* offset in side a's arena */
#define RESULTS	    61440u /* results of atomics, in side a's arena */
#define COUNTER	    61440u /* target of atomics, in side b's arena */
#define RECV_TO	    65536u
#define RECV_ROOM   4096u
#define FIRST_VALUE 100u

/* Starting PSNs: one without a wrap, and others so that the PSN wraps within each of the operations below. */
static const uint32_t start_psns[] = {0x1000, 0xffffff, 0xfffffd, 0xfffffa, 0xfffff7, 0xfffff4, 0xfffff2, 0xffffee};

static void put_u64(struct rig *rig, uint32_t offset, uint64_t v)
{
	memcpy(rig->arena + offset, &v, 8);
}

static uint64_t get_u64(const struct rig *rig, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, rig->arena + offset, 8);
	return v;
}

/* Side a posts one request of each kind, and side b a message. */
static void post_all(struct pair *pair)
{
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	struct nic_send_wr wr;

	put_u64(b, COUNTER, FIRST_VALUE);
	for (uint32_t i = 0; i < 3; i++)
		rig_post_recv(b, 100 + i, RECV_TO + i * RECV_ROOM, RECV_ROOM);
	rig_post_recv(a, 100, RECV_TO, RECV_ROOM);
	wr = pair_wr(pair, 1, NIC_WR_SEND, 0, 3 * RIG_MTU + 10, 0);
	rig_post(a, &wr);
	wr = pair_wr(pair, 2, NIC_WR_RDMA_WRITE, 8192, 3 * RIG_MTU + 1, WRITE_TO);
	rig_post(a, &wr);
	wr = pair_wr(pair, 3, NIC_WR_RDMA_READ, READ_TO, 4 * RIG_MTU, 0);
	rig_post(a, &wr);
	wr = pair_wr(pair, 4, NIC_WR_ATOMIC_FETCH_AND_ADD, RESULTS, 8, COUNTER);
	wr.atomic.compare_add = 5;
	rig_post(a, &wr);
	wr = pair_wr(pair, 5, NIC_WR_SEND_WITH_IMM, 300, 20, 0);
	wr.ex = 0x55;
	rig_post(a, &wr);
	wr = pair_wr(pair, 6, NIC_WR_RDMA_WRITE_WITH_IMM, 600, 2 * RIG_MTU, IMM_TO);
	wr.ex = 0x66;
	rig_post(a, &wr);
	wr = pair_wr(pair, 7, NIC_WR_ATOMIC_CMP_AND_SWP, RESULTS + 8, 8, COUNTER);
	wr.atomic.compare_add = FIRST_VALUE + 5;
	wr.atomic.swap = 777;
	rig_post(a, &wr);
	wr = pair_wr(pair, 8, NIC_WR_ATOMIC_FETCH_AND_ADD, RESULTS + 16, 8, COUNTER);
	wr.atomic.compare_add = 1;
	rig_post(a, &wr);
	rig_post_send(b, 11, NIC_WR_SEND, 512, 2 * RIG_MTU);
}

static void check_all(struct pair *pair)
{
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	struct nic_wc wc;

	for (uint32_t id = 1; id <= 8; id++)
		rig_expect_wc(a->send_cq, id, NIC_WC_SUCCESS);
	rig_expect_wc(b->send_cq, 11, NIC_WC_SUCCESS);
	wc = rig_expect_wc(b->recv_cq, 100, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 3 * RIG_MTU + 10);
	wc = rig_expect_wc(b->recv_cq, 101, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 20);
	assert_int_equal(wc.ex, 0x55);
	wc = rig_expect_wc(b->recv_cq, 102, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, NIC_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 2 * RIG_MTU);
	assert_int_equal(wc.ex, 0x66);
	wc = rig_expect_wc(a->recv_cq, 100, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 2 * RIG_MTU);
	rig_expect_no_wc(a->send_cq);
	rig_expect_no_wc(b->send_cq);
	rig_expect_no_wc(a->recv_cq);
	rig_expect_no_wc(b->recv_cq);
	assert_memory_equal(b->arena + RECV_TO, a->arena, 3 * RIG_MTU + 10);
	assert_memory_equal(b->arena + RECV_TO + RECV_ROOM, a->arena + 300, 20);
	assert_memory_equal(b->arena + WRITE_TO, a->arena + 8192, 3 * RIG_MTU + 1);
	assert_memory_equal(b->arena + IMM_TO, a->arena + 600, 2 * RIG_MTU);
	assert_memory_equal(a->arena + READ_TO, b->arena, 4 * RIG_MTU);
	assert_memory_equal(a->arena + RECV_TO, b->arena + 512, 2 * RIG_MTU);
	rig_expect_untouched(b, WRITE_TO + 3 * RIG_MTU + 1, 100);
	assert_true(get_u64(b, COUNTER) == 778);
	assert_true(get_u64(a, RESULTS) == FIRST_VALUE);
	assert_true(get_u64(a, RESULTS + 8) == FIRST_VALUE + 5);
	assert_true(get_u64(a, RESULTS + 16) == 777);
	assert_int_equal(nic_qp_state(a->qp), NIC_QPS_RTS);
	assert_int_equal(nic_qp_state(b->qp), NIC_QPS_RTS);
}

/* Run the whole exchange with these rules. @return whether every rule has met its packet. */
static bool exchange_with(const struct rig_opts *opts, uint32_t psn, const struct pair_rule *rules, unsigned n)
{
	struct pair *pair = pair_create(opts, psn, psn ^ 5);
	bool met = true;

	pair_script(pair, rules, n);
	post_all(pair);
	pair_run(pair);
	check_all(pair);
	for (unsigned i = 0; i < n; i++)
		met &= rules[i].nth == PAIR_EVERY || pair->seen[i] > rules[i].nth;
	pair_destroy(pair);
	return met;
}

static bool exchange(uint32_t psn, const struct pair_rule *rules, unsigned n)
{
	return exchange_with(NULL, psn, rules, n);
}

static void recover__without_losses(void **state)
{
	for (unsigned i = 0; i < sizeof(start_psns) / 4; i++)
		assert_true(exchange(start_psns[i], NULL, 0));
}

/* Every kind of packet in the exchange, from both sides. */
static const struct {
	enum pair_side side;
	enum rig_op op;
	unsigned most; /* packets of this kind to try, one by one; an exchange without faults sends at least so many */
} kinds[] = {
	{PAIR_A, SEND_FIRST, 1},
	{PAIR_A, SEND_MIDDLE, 2},
	{PAIR_A, SEND_LAST, 1},
	{PAIR_A, SEND_ONLY_IMM, 1},
	{PAIR_A, WRITE_FIRST, 2},
	{PAIR_A, WRITE_MIDDLE, 2},
	{PAIR_A, WRITE_LAST, 1},
	{PAIR_A, WRITE_LAST_IMM, 1},
	{PAIR_A, READ_REQ, 1},
	{PAIR_A, FETCH_ADD, 2},
	{PAIR_A, CMP_SWAP, 1},
	{PAIR_B, READ_RESP_FIRST, 1},
	{PAIR_B, READ_RESP_MIDDLE, 2},
	{PAIR_B, READ_RESP_LAST, 1},
	{PAIR_B, ATOMIC_ACK, 3},
	{PAIR_B, ACK, 1},
	{PAIR_A, ACK, 1},
	{PAIR_B, SEND_FIRST, 1},
	{PAIR_B, SEND_LAST, 1},
};

/* Let each packet of each kind meet this fate once, in an exchange of its own. */
static void each_kind(enum pair_fate fate)
{
	for (unsigned s = 0; s < sizeof(start_psns) / 4; s++)
		for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			for (unsigned n = 0; n < kinds[k].most; n++) {
				const struct pair_rule rule = {kinds[k].side, kinds[k].op, n, fate};

				assert_true(exchange(start_psns[s], &rule, 1));
			}
}

static void recover__RT_13_RT_15_loss_of_each_kind_of_packet(void **state)
{
	each_kind(PAIR_DROP);
}

static void recover__RT_14_RT_15_duplication_of_each_kind_of_packet(void **state)
{
	each_kind(PAIR_DOUBLE);
}

static void recover__RT_14_RT_15_reordering_of_each_kind_of_packet(void **state)
{
	each_kind(PAIR_SWAP);
}

static void recover__RT_14_RT_15_delay_of_each_kind_of_packet(void **state)
{
	each_kind(PAIR_LATE);
}

static void recover__RT_14_RT_15_corruption_of_each_kind_of_packet(void **state)
{
	each_kind(PAIR_DAMAGE);
}

static void recover__RT_13_RT_15_loss_of_two_packets(void **state)
{
	for (unsigned first = 0; first < 40; first++)
		for (unsigned second = first; second < 40; second++) {
			const struct pair_rule rules[] = {
				{first & 1, PAIR_ANY_OP, first / 2, PAIR_DROP},
				{second & 1, PAIR_ANY_OP, second / 2, PAIR_DROP},
			};

			exchange(start_psns[(first + second) % 8], rules, 2);
		}
}

static void recover__RT_14_RT_15_mixed_troubles(void **state)
{
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_SWAP, PAIR_LATE, PAIR_DAMAGE};

	for (unsigned i = 0; i < 600; i++) { /* four faults, spread by a fixed rule */
		struct pair_rule rules[4];

		for (unsigned r = 0; r < 4; r++) {
			uint32_t h = (i * 4 + r) * 2654435761u;

			rules[r] = (struct pair_rule){h >> 31, PAIR_ANY_OP, (h >> 16) % 24, fates[(h >> 8) % 5]};
		}
		exchange(start_psns[i % 8], rules, 4);
	}
}

/* Other configurations of the NIC: IPv6, merged ACKs, small windows (READs in pieces), an SRQ. */
static void recover__RT_13_RT_14_RT_15_other_configurations(void **state)
{
	static const struct rig_opts opts[] = {
		{.v6 = true},
		{.nic.ack_delay_ns = 20000},
		{.nic.psn_window = 3},
		{.nic.max_inflight = 4 * RIG_MTU},
		{.nic.max_inflight = 6 * RIG_MTU, .nic.ack_delay_ns = 100000},
		{.srq = true},
	};
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_SWAP, PAIR_LATE};

	for (unsigned o = 0; o < sizeof(opts) / sizeof(opts[0]); o++)
		for (unsigned n = 0; n < 60; n++)
			for (unsigned f = 0; f < 4; f++) {
				const struct pair_rule rules[] = {
					{n & 1, PAIR_ANY_OP, n / 2, fates[f]},
					{!(n & 1), PAIR_ANY_OP, (n * 7 + f) % 19, PAIR_DROP},
				};

				exchange_with(&opts[o], start_psns[(n + f) % 8], rules, 1 + (n + o) % 2);
			}
}

/* A SEND packet is lost, and so is the NAK that reports it: the ACK timer recovers both. */
static void recover__RT_13_RT_15_loss_of_a_sequence_nak(void **state)
{
	const struct pair_rule rules[] = {{PAIR_A, SEND_FIRST, 0, PAIR_DROP}, {PAIR_B, ACK, 0, PAIR_DROP}};

	for (unsigned s = 0; s < sizeof(start_psns) / 4; s++) {
		struct pair *pair = pair_create(NULL, start_psns[s], 7);
		unsigned naks = 0;

		pair_script(pair, rules, 2);
		post_all(pair);
		pair_run(pair);
		check_all(pair);
		for (unsigned i = 0; i < pair->n_log; i++)
			naks += pair->log[i].syndrome == SYN_SEQ && pair->log[i].fate == PAIR_DROP;
		assert_int_equal(naks, 1);
		assert_true(nic_counters(pair->rig[PAIR_A]->nic)[NIC_CNT_local_ack_timeout_err] > 0);
		pair_destroy(pair);
	}
}

static void recover__RT_13_RT_15_loss_of_an_rnr_nak(void **state)
{
	const struct pair_rule rule = {PAIR_B, ACK, 0, PAIR_DROP};

	for (unsigned s = 0; s < sizeof(start_psns) / 4; s++) {
		struct pair *pair = pair_create(NULL, start_psns[s], 7);
		struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];

		pair_script(pair, &rule, 1);
		rig_post_send(a, 1, NIC_WR_SEND, 0, 3 * RIG_MTU);
		rig_post_send(a, 2, NIC_WR_SEND, 0, 8);
		pair_settle(pair);
		assert_int_equal(pair->log[1].side, PAIR_B); /* the NAK is sent right after the first packet */
		assert_int_equal(pair->log[1].syndrome & 0xe0, SYN_RNR);
		assert_int_equal(pair->log[1].fate, PAIR_DROP);
		rig_post_recv(b, 100, RECV_TO, RECV_ROOM);
		rig_post_recv(b, 101, RECV_TO + RECV_ROOM, RECV_ROOM);
		pair_run(pair);
		rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
		rig_expect_wc(a->send_cq, 2, NIC_WC_SUCCESS);
		rig_expect_wc(b->recv_cq, 100, NIC_WC_SUCCESS);
		rig_expect_wc(b->recv_cq, 101, NIC_WC_SUCCESS);
		rig_expect_no_wc(b->recv_cq);
		assert_memory_equal(b->arena + RECV_TO, a->arena, 3 * RIG_MTU);
		pair_destroy(pair);
	}
}

/* Side a repeats one operation, each time with a different bit of one packet damaged. */
static void each_bit(enum nic_wr_opcode opcode, enum pair_side side, enum rig_op op)
{
	struct pair *pair = pair_create(NULL, 0xffffc0, 7);
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	const struct pair_rule rule = {side, op, 0, PAIR_DAMAGE};
	uint64_t value = FIRST_VALUE;

	put_u64(b, COUNTER, value);
	for (uint32_t bit = 1; bit < 8 * 112; bit++) {
		struct nic_send_wr wr = pair_wr(pair, bit, opcode, RESULTS, 8, COUNTER);

		if (opcode == NIC_WR_ATOMIC_FETCH_AND_ADD)
			wr.atomic.compare_add = 3;
		else if (opcode != NIC_WR_RDMA_READ)
			put_u64(a, RESULTS, bit);
		if (opcode == NIC_WR_SEND)
			rig_post_recv(b, bit, RECV_TO, RECV_ROOM);
		pair_script(pair, &rule, 1);
		pair->damage_bit = bit;
		rig_post(a, &wr);
		pair_run(pair);
		rig_expect_wc(a->send_cq, bit, NIC_WC_SUCCESS);
		rig_expect_no_wc(a->send_cq);
		switch (opcode) {
		case NIC_WR_SEND:
			rig_expect_wc(b->recv_cq, bit, NIC_WC_SUCCESS);
			assert_true(get_u64(b, RECV_TO) == bit);
			break;
		case NIC_WR_RDMA_WRITE:
			assert_true(get_u64(b, COUNTER) == bit);
			break;
		case NIC_WR_RDMA_READ:
			assert_true(get_u64(a, RESULTS) == value);
			put_u64(b, COUNTER, ++value);
			break;
		default:
			assert_true(get_u64(a, RESULTS) == value);
			value += 3;
			assert_true(get_u64(b, COUNTER) == value);
			break;
		}
		rig_expect_no_wc(b->recv_cq);
	}
	pair_destroy(pair);
}

static void recover__RT_14_RT_15_any_single_wrong_bit(void **state)
{
	each_bit(NIC_WR_SEND, PAIR_A, SEND_ONLY);
	each_bit(NIC_WR_SEND, PAIR_B, ACK);
	each_bit(NIC_WR_RDMA_WRITE, PAIR_A, WRITE_ONLY);
	each_bit(NIC_WR_RDMA_READ, PAIR_A, READ_REQ);
	each_bit(NIC_WR_RDMA_READ, PAIR_B, READ_RESP_ONLY);
	each_bit(NIC_WR_ATOMIC_FETCH_AND_ADD, PAIR_A, FETCH_ADD);
	each_bit(NIC_WR_ATOMIC_FETCH_AND_ADD, PAIR_B, ATOMIC_ACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recover__without_losses),
		cmocka_unit_test(recover__RT_13_RT_15_loss_of_each_kind_of_packet),
		cmocka_unit_test(recover__RT_14_RT_15_duplication_of_each_kind_of_packet),
		cmocka_unit_test(recover__RT_14_RT_15_reordering_of_each_kind_of_packet),
		cmocka_unit_test(recover__RT_14_RT_15_delay_of_each_kind_of_packet),
		cmocka_unit_test(recover__RT_14_RT_15_corruption_of_each_kind_of_packet),
		cmocka_unit_test(recover__RT_13_RT_15_loss_of_two_packets),
		cmocka_unit_test(recover__RT_14_RT_15_mixed_troubles),
		cmocka_unit_test(recover__RT_13_RT_14_RT_15_other_configurations),
		cmocka_unit_test(recover__RT_13_RT_15_loss_of_a_sequence_nak),
		cmocka_unit_test(recover__RT_13_RT_15_loss_of_an_rnr_nak),
		cmocka_unit_test(recover__RT_14_RT_15_any_single_wrong_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
