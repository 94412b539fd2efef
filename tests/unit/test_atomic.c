/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_atomic.c - CMP&SWAP and FETCH&ADD from the work request to memory and back (IBTA 9.4.5; conformance points AT-01
 * to AT-09 except for extended operations).
 */
#include <pthread.h>

#include "pair.h"
#include "resp_util.h"

static void atomic__AT_01_address_must_be_a_multiple_of_8(void **state)
{
	static const uint8_t ops[] = {FETCH_ADD, CMP_SWAP};

	for (unsigned i = 0; i < 14; i++) {
		struct rig *rig = rig_ready(NULL);

		rx_atomic(rig, ops[i & 1], E, 64 + i / 2 + 1, 1, 0);
		expect_fatal(rig, E, SYN_INV);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

/* If a request fails both the access check and the alignment check, the NAK reports the access error. IBTA 9.4.5 leaves
 * this open; rxe also reports the access error. */
static void atomic__AT_01_access_is_checked_before_alignment(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_packet(rig, FETCH_ADD, E);

		p.va = i ? rig_va(rig, RIG_ARENA) - 4 : rig_va(rig, 4); /* i == 1: misaligned and out of range */
		p.rkey ^= i ? 0 : 1;
		rig_rx(rig, &p);
		expect_fatal(rig, E, SYN_ACCESS);
		rig_destroy(rig);
	}
}

/* The address in memory must be aligned: an aligned iova alone is not enough. */
static void atomic__AT_01_aligned_iova_on_unaligned_memory(void **state)
{
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_ATOMIC;
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, FETCH_ADD, E);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena + 4, 64, 0x1000, all, &mr), 0);
	p.va = 0x1000;
	p.rkey = nic_mr_rkey(mr);
	rig_rx(rig, &p);
	expect_fatal(rig, E, SYN_INV);
	rig_expect_untouched(rig, 0, 64);
	rig_destroy(rig);
}

static void atomic__AT_02_AT_03_new_memory_value_and_returned_old_value(void **state)
{
	static const struct {
		uint8_t op;
		uint64_t before, swap_add, compare, after;
	} cases[] = {
		{FETCH_ADD, 5, 1, 0, 6},
		{FETCH_ADD, 5, 0, 0, 5},
		{FETCH_ADD, UINT64_MAX, 1, 0, 0},
		{FETCH_ADD, 0xfffffffffffffff0ull, 0x20, 0, 0x10},
		{FETCH_ADD, 0x00000000ffffffffull, 1, 0, 0x100000000ull},
		{FETCH_ADD, 1, 0x8000000000000000ull, 7, 0x8000000000000001ull},
		{FETCH_ADD, 10, (uint64_t)-3, 0, 7},
		{CMP_SWAP, 5, 9, 5, 9},
		{CMP_SWAP, 5, 9, 4, 5},
		{CMP_SWAP, 0x0102030405060708ull, 0x1112131415161718ull, 0x0102030405060708ull, 0x1112131415161718ull},
		{CMP_SWAP, 0x0102030405060708ull, 1, 0x0102030405060709ull, 0x0102030405060708ull},
		{CMP_SWAP, 0x0102030405060708ull, 1, 0x8102030405060708ull, 0x0102030405060708ull},
		{CMP_SWAP, 0, 0, 0, 0},
		{CMP_SWAP, UINT64_MAX, 0, UINT64_MAX, 0},
	};
	struct rig *rig = rig_ready(NULL);

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		arena_set_u64(rig, 64, cases[i].before);
		rx_atomic(rig, cases[i].op, E + i, 64, cases[i].swap_add, cases[i].compare);
		assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, E + i).orig, cases[i].before);
		assert_int_equal(arena_u64(rig, 64), cases[i].after);
	}
	rig_expect_untouched(rig, 0, 64);
	rig_expect_untouched(rig, 72, 64);
	rig_destroy(rig);
}

/* From work request to completion: each operand travels in the right field, and the result arrives in host order in
 * the local buffer. */
static void atomic__AT_02_AT_03_from_post_to_completion(void **state)
{
	struct pair *pair = pair_create(NULL, 0x100, 0x200);
	struct rig *a = pair->rig[0], *b = pair->rig[1];
	struct nic_send_wr wr = pair_wr(pair, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 64);
	struct nic_wc wc;

	arena_set_u64(b, 64, 0x0102030405060708ull);
	wr.atomic.compare_add = 0x10;
	wr.atomic.swap = 0x999;
	rig_post(a, &wr);
	pair_run(pair);
	wc = rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, NIC_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(arena_u64(a, 0), 0x0102030405060708ull);
	assert_int_equal(arena_u64(b, 64), 0x0102030405060718ull);
	wr = pair_wr(pair, 2, NIC_WR_ATOMIC_CMP_AND_SWP, 8, 8, 64);
	wr.atomic.compare_add = 0x0102030405060718ull;
	wr.atomic.swap = 42;
	rig_post(a, &wr);
	pair_run(pair);
	assert_int_equal(rig_expect_wc(a->send_cq, 2, NIC_WC_SUCCESS).opcode, NIC_WC_COMP_SWAP);
	assert_int_equal(arena_u64(a, 8), 0x0102030405060718ull);
	assert_int_equal(arena_u64(b, 64), 42);
	rig_expect_untouched(a, 16, 64);
	pair_destroy(pair);
}

struct cpu_adder {
	uint64_t *target;
	uint64_t n;
	bool stop;
};

static void *cpu_add(void *arg)
{
	struct cpu_adder *adder = arg;
	uint64_t n = 0;

	for (; !__atomic_load_n(&adder->stop, __ATOMIC_RELAXED); n++)
		__atomic_fetch_add(adder->target, 1, __ATOMIC_RELAXED);
	adder->n = n;
	return NULL;
}

/*
 * Two QPs of the device and a thread of the application add to one word: no addition is lost. The test ends when the
 * thread has added to the word during MEETINGS of the NIC's additions. It ends after ROUNDS additions by the NIC in any
 * case, because on a single core the two hardly ever coincide.
 */
static void atomic__AT_04_adds_by_two_qps_and_the_cpu_are_not_lost(void **state)
{
	enum { ROUNDS = 400000, MEETINGS = 20000, ADDEND = 1000000007 };
	/* Static, to be far from data that this thread writes: both threads must contend for the word only. */
	static struct cpu_adder adder;
	struct rig *rig = rig_ready(NULL);
	struct nic_qp *first = rig->qp;
	uint32_t rounds = 0, met = 0;
	struct packet p;
	pthread_t thread;

	rig->qp = rig_qp_create(rig);
	rig_to_rts(rig);
	arena_set_u64(rig, 64, 0);
	adder = (struct cpu_adder){.target = (uint64_t *)(void *)(rig->arena + 64)};
	assert_int_equal(pthread_create(&thread, NULL, cpu_add, &adder), 0);
	for (; rounds < ROUNDS && met < MEETINGS; rounds++) {
		uint64_t before = __atomic_load_n(adder.target, __ATOMIC_RELAXED);

		p = rig_peer_packet(rig, FETCH_ADD, E + rounds / 2);
		p.va = rig_va(rig, 64);
		p.dest_qpn = nic_qp_num(rounds & 1 ? first : rig->qp);
		p.swap_add = ADDEND;
		rig_rx(rig, &p);
		met += __atomic_load_n(adder.target, __ATOMIC_RELAXED) != before + ADDEND;
		rig_drain(rig);
	}
	__atomic_store_n(&adder.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(arena_u64(rig, 64), adder.n + (uint64_t)rounds * ADDEND);
	rig_destroy(rig);
}

static void atomic__AT_05_result_may_be_spread_over_sges(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge[3] = {
		{rig_va(rig, 0), 3, rig->lkey}, {rig_va(rig, 100), 1, rig->lkey}, {rig_va(rig, 200), 4, rig->lkey}};
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	struct packet p;
	uint64_t value = 0x1122334455667788ull;

	wr.sg_list = sge;
	wr.num_sge = 3;
	rig_post(rig, &wr);
	rig_expect_tx(rig, FETCH_ADD, RIG_SQ_PSN);
	p = rig_peer_packet(rig, ATOMIC_ACK, RIG_SQ_PSN);
	p.orig = value;
	rig_rx(rig, &p);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_memory_equal(rig->arena, &value, 3);
	assert_memory_equal(rig->arena + 100, (uint8_t *)&value + 3, 1);
	assert_memory_equal(rig->arena + 200, (uint8_t *)&value + 4, 4);
	rig_expect_untouched(rig, 3, 97);
	rig_expect_untouched(rig, 101, 99);
	rig_expect_untouched(rig, 204, 99);
	rig_destroy(rig);
}

/* A request whose result buffer is not 8 bytes long in total is refused when posted, as documented. */
static void atomic__AT_05_other_result_sizes_are_refused_when_posted(void **state)
{
	static const uint32_t lengths[] = {0, 1, 4, 7, 9, 16};
	struct rig *rig = rig_ready(NULL);

	for (unsigned i = 0; i < 6; i++) {
		struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, lengths[i]);

		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		wr.opcode = NIC_WR_ATOMIC_CMP_AND_SWP;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void atomic__AT_06_result_buffer_without_local_write(void **state)
{
	struct pair *pair = pair_create(NULL, 0x100, 0x200);
	struct rig *a = pair->rig[0], *b = pair->rig[1];
	struct nic_send_wr wr = pair_wr(pair, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 64);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(a->pd, a->arena, 64, rig_va(a, 0), NIC_ACCESS_REMOTE_READ, &mr), 0);
	a->sge.lkey = nic_mr_lkey(mr);
	arena_set_u64(b, 64, 1);
	wr.atomic.compare_add = 5;
	rig_post(a, &wr);
	pair_run(pair);
	rig_expect_wc(a->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	assert_int_equal(nic_qp_state(a->qp), NIC_QPS_ERR);
	/* The atomic was executed nonetheless, once. */
	assert_int_equal(arena_u64(b, 64), 6);
	rig_expect_untouched(a, 0, 64);
	pair_destroy(pair);
}

static void atomic__AT_07_remote_write_or_atomic_needs_local_write(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr;

	for (uint32_t access = 0; access < 32; access++) {
		bool writes = access & (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC);
		int want = writes && !(access & NIC_ACCESS_LOCAL_WRITE) ? -EINVAL : 0;

		assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 64, 0, access, &mr), want);
	}
	rig_destroy(rig);
}

/* Four FETCH&ADDs cross the PSN wrap while one packet in one direction is lost, duplicated, delayed or damaged: each
 * adds once. */
static void atomic__AT_08_exactly_once_under_loss_and_duplication(void **state)
{
	static const unsigned ops[2] = {FETCH_ADD, ATOMIC_ACK};
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_LATE, PAIR_DAMAGE, PAIR_SWAP};

	for (unsigned i = 0; i < 2 * 5 * 4; i++) {
		struct pair *pair = pair_create(NULL, 0xfffffe, 0xffffff);
		struct rig *a = pair->rig[0], *b = pair->rig[1];
		struct pair_rule rule = {
			.side = i & 1 ? PAIR_B : PAIR_A, .op = ops[i & 1], .nth = i / 2 % 4, .fate = fates[i / 8]};

		arena_set_u64(b, 64, 0);
		pair_script(pair, &rule, 1);
		for (uint32_t k = 0; k < 4; k++) {
			struct nic_send_wr wr = pair_wr(pair, k, NIC_WR_ATOMIC_FETCH_AND_ADD, 8 * k, 8, 64);

			wr.atomic.compare_add = 1ull << 8 * k;
			rig_post(a, &wr);
		}
		pair_run(pair);
		for (uint32_t k = 0; k < 4; k++) {
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
			assert_int_equal(arena_u64(a, 8 * k), 0x01010101u & ((1ull << 8 * k) - 1));
		}
		rig_expect_no_wc(a->send_cq);
		assert_int_equal(arena_u64(b, 64), 0x01010101);
		pair_destroy(pair);
	}
}

static void atomic__AT_09_not_on_uc_or_ud(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};
	static const enum nic_wr_opcode ops[] = {NIC_WR_ATOMIC_CMP_AND_SWP, NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i & 1]});
		struct nic_send_wr wr = rig_wr(rig, 1, ops[i / 2], 0, 8);

		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic__AT_01_address_must_be_a_multiple_of_8),
		cmocka_unit_test(atomic__AT_01_access_is_checked_before_alignment),
		cmocka_unit_test(atomic__AT_01_aligned_iova_on_unaligned_memory),
		cmocka_unit_test(atomic__AT_02_AT_03_new_memory_value_and_returned_old_value),
		cmocka_unit_test(atomic__AT_02_AT_03_from_post_to_completion),
		cmocka_unit_test(atomic__AT_04_adds_by_two_qps_and_the_cpu_are_not_lost),
		cmocka_unit_test(atomic__AT_05_result_may_be_spread_over_sges),
		cmocka_unit_test(atomic__AT_05_other_result_sizes_are_refused_when_posted),
		cmocka_unit_test(atomic__AT_06_result_buffer_without_local_write),
		cmocka_unit_test(atomic__AT_07_remote_write_or_atomic_needs_local_write),
		cmocka_unit_test(atomic__AT_08_exactly_once_under_loss_and_duplication),
		cmocka_unit_test(atomic__AT_09_not_on_uc_or_ud),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
