/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_place.c - FLUSH and ATOMIC WRITE (IBTA A19; conformance points FL-01 to FL-04, AW-01 to AW-03, RL-08):
 * requester, responder, and both on a network that loses packets.
 */
#include "pair.h"
#include "resp_util.h"

#define GLOBAL	   1u /* PLT of the FETH */
#define PERSISTENT 2u
#define WHOLE	   0x10u /* SEL: the whole region */

static struct {
	uint8_t *addr;
	uint64_t len;
	unsigned calls;
	bool fails;
} medium;

static bool persist(void *ctx, void *addr, uint64_t len)
{
	(void)ctx;
	medium.addr = addr;
	medium.len = len;
	medium.calls++;
	return !medium.fails;
}

static struct rig *create(uint32_t rights)
{
	const uint32_t access = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_FLUSH_GLOBAL |
				NIC_ACCESS_FLUSH_PERSISTENT;
	struct rig *rig = rig_create(&(struct rig_opts){.nic.persist = persist});

	memset(&medium, 0, sizeof(medium));
	assert_int_equal(nic_mr_rereg(rig->mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, access), 0);
	rig->attr.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | rights;
	rig_to_rts(rig);
	return rig;
}

static struct rig *ready(void)
{
	return create(NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT);
}

/* ---- the requester ---------------------------------------------------------------------------------------------- */

static struct nic_send_wr flush_wr(uint64_t wr_id, uint32_t length, uint8_t type, uint8_t level)
{
	return (struct nic_send_wr){
		.wr_id = wr_id, .opcode = NIC_WR_FLUSH, .flush = {RIG_REMOTE_VA, RIG_REMOTE_RKEY, length, type, level}};
}

static void place__FL_01_a_flush_is_one_packet_without_payload(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = flush_wr(1, 0x12345, NIC_FLUSH_GLOBAL | NIC_FLUSH_PERSISTENT, NIC_FLUSH_RANGE);
	struct packet p;

	(void)state;
	wr.flags = NIC_SEND_SOLICITED;
	rig_post(rig, &wr);
	wr = flush_wr(2, 77, NIC_FLUSH_GLOBAL, NIC_FLUSH_MR);
	rig_post(rig, &wr);
	p = rig_expect_tx(rig, FLUSH, RIG_SQ_PSN);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(p.feth, GLOBAL | PERSISTENT);
	assert_true(p.va == RIG_REMOTE_VA);
	assert_int_equal(p.rkey, RIG_REMOTE_RKEY);
	assert_int_equal(p.dma_len, 0x12345);
	assert_false(p.se);
	p = rig_expect_tx(rig, FLUSH, RIG_SQ_PSN + 1);
	assert_int_equal(p.feth, GLOBAL | WHOLE);
	rig_destroy(rig);
}

static void place__a_read_response_without_data_completes_them(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = flush_wr(1, 64, NIC_FLUSH_GLOBAL, NIC_FLUSH_RANGE);

	(void)state;
	rig_post(rig, &wr);
	rig_post_send(rig, 2, NIC_WR_ATOMIC_WRITE, 0, 8);
	assert_int_equal(rig_drain(rig), 2);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK); /* no ACK does */
	rig_expect_no_wc(rig->send_cq);
	assert_int_equal(rig_drain(rig), 2); /* an implied NAK */
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 0);
	assert_int_equal(rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS).opcode, NIC_WC_FLUSH);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN + 1, 0, 0);
	assert_int_equal(rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS).opcode, NIC_WC_ATOMIC_WRITE);
	rig_destroy(rig);
}

static void place__a_read_response_with_data_is_a_bad_response(void **state)
{
	struct rig *rig = rig_ready(NULL);

	(void)state;
	rig_post_send(rig, 1, NIC_WR_ATOMIC_WRITE, 0, 8);
	rig_drain(rig);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
	rig_expect_untouched(rig, 0, 8);
	rig_destroy(rig);
}

static void place__AW_01_an_atomic_write_sends_8_bytes(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint64_t value = 0x1122334455667788;
	struct nic_sge sge = {.addr = (uintptr_t)&value, .length = 8};
	struct nic_send_wr wr = rig_wr(rig, 2, NIC_WR_ATOMIC_WRITE, 0, 8);
	struct packet p;

	(void)state;
	rig_post_send(rig, 1, NIC_WR_ATOMIC_WRITE, 64, 8);
	wr.sg_list = &sge;
	wr.flags = NIC_SEND_INLINE;
	rig_post(rig, &wr);
	value = 0;
	p = rig_expect_tx(rig, ATOMIC_WRITE, RIG_SQ_PSN);
	assert_int_equal(p.payload_len, 8);
	assert_int_equal(p.dma_len, 8);
	assert_memory_equal(p.payload, rig->arena + 64, 8);
	p = rig_expect_tx(rig, ATOMIC_WRITE, RIG_SQ_PSN + 1);
	assert_memory_equal(p.payload, &(uint64_t){0x1122334455667788}, 8);
	rig_destroy(rig);
}

static void place__what_may_be_posted(void **state)
{
	static const struct {
		uint32_t length;
		uint8_t type, level;
	} wrong[] = {{8, 0, 0}, {8, 4, 0}, {8, NIC_FLUSH_GLOBAL, 2}, {NIC_MSG_MAX + 1u, NIC_FLUSH_GLOBAL, 0}};
	struct rig *rig = rig_ready(NULL), *uc = rig_ready(&(struct rig_opts){.type = NIC_QPT_UC});
	struct nic_send_wr wr;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wr = flush_wr(1, wrong[i].length, wrong[i].type, wrong[i].level);
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	wr = flush_wr(1, NIC_MSG_MAX + 1u, NIC_FLUSH_GLOBAL, NIC_FLUSH_MR); /* the length says nothing */
	assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	wr = rig_wr(rig, 1, NIC_WR_ATOMIC_WRITE, 0, 4);
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	wr = rig_wr(rig, 1, NIC_WR_ATOMIC_WRITE, 0, 16);
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	wr = rig_wr(uc, 1, NIC_WR_ATOMIC_WRITE, 0, 8);
	assert_int_equal(nic_post_send(uc->qp, &wr), -EINVAL);
	wr = flush_wr(1, 8, NIC_FLUSH_GLOBAL, 0);
	assert_int_equal(nic_post_send(uc->qp, &wr), -EINVAL);
	rig_destroy(uc);
	rig_destroy(rig);
}

static void place__RQ_10_they_count_as_reads(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_send_wr wr = flush_wr(1, 8, NIC_FLUSH_GLOBAL, 0);

	(void)state;
	rig->attr.max_rd_atomic = 1;
	rig_to_rts(rig);
	rig_post(rig, &wr);
	rig_post_send(rig, 2, NIC_WR_ATOMIC_WRITE, 0, 8);
	assert_int_equal(rig_drain(rig), 1);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 0);
	assert_int_equal(rig_drain(rig), 1);
	rig_destroy(rig);
}

/* ---- the responder ---------------------------------------------------------------------------------------------- */

static struct packet flush_packet(struct rig *rig, uint32_t psn, uint32_t feth, uint32_t offset, uint32_t len)
{
	struct packet p = rig_peer_packet(rig, FLUSH, psn);

	p.feth = feth;
	p.va = rig_va(rig, offset);
	p.dma_len = len;
	return p;
}

static void place__FL_02_the_answer_follows_the_guarantee(void **state)
{
	struct rig *rig = ready();
	struct packet p = flush_packet(rig, E, GLOBAL, 4096, 64);

	(void)state;
	rig_rx(rig, &p);
	assert_int_equal(rig_expect_tx(rig, READ_RESP_ONLY, E).payload_len, 0);
	assert_int_equal(medium.calls, 0);
	p = flush_packet(rig, E + 1, PERSISTENT, 4096, 64);
	rig_rx(rig, &p);
	assert_int_equal(medium.calls, 1);
	assert_ptr_equal(medium.addr, rig->arena + 4096);
	assert_int_equal(medium.len, 64);
	rig_expect_tx(rig, READ_RESP_ONLY, E + 1);
	p = flush_packet(rig, E + 2, PERSISTENT | GLOBAL | WHOLE, 0xdead0000, 0);
	rig_rx(rig, &p);
	assert_ptr_equal(medium.addr, rig->arena);
	assert_int_equal(medium.len, RIG_ARENA);
	rig_expect_tx(rig, READ_RESP_ONLY, E + 2);
	medium.fails = true;
	p = flush_packet(rig, E + 3, PERSISTENT, 0, 8);
	rig_rx(rig, &p);
	expect_fatal(rig, E + 3, SYN_OP);
	rig_destroy(rig);
}

static void place__FL_03_a_duplicate_is_answered_and_not_executed(void **state)
{
	struct rig *rig = ready();
	struct packet p = flush_packet(rig, E, PERSISTENT, 0, 64);

	(void)state;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	assert_int_equal(medium.calls, 1);
	p = rig_peer_data(rig, ATOMIC_WRITE, E + 1, 0, 8);
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E + 1);
	arena_set_u64(rig, 0, 5);
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E + 1);
	assert_int_equal(arena_u64(rig, 0), 5);
	p.va += 8; /* no duplicate of anything */
	rig_rx(rig, &p);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void expect_refused(struct rig *rig, const struct packet *p, unsigned syndrome)
{
	rig_rx(rig, p);
	expect_fatal(rig, p->psn, syndrome);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	assert_int_equal(medium.calls, 0);
	rig_destroy(rig);
}

static void place__FL_04_rights_of_qp_and_region(void **state)
{
	static const struct {
		uint32_t qp, mr, feth;
		unsigned syndrome;
	} cases[] = {
		{0, ~0u, GLOBAL, SYN_INV},
		{NIC_ACCESS_FLUSH_GLOBAL, ~0u, PERSISTENT, SYN_INV},
		{NIC_ACCESS_FLUSH_PERSISTENT, ~0u, GLOBAL | PERSISTENT, SYN_INV},
		{~0u, NIC_ACCESS_FLUSH_PERSISTENT, GLOBAL, SYN_ACCESS},
		{~0u, NIC_ACCESS_FLUSH_GLOBAL, PERSISTENT, SYN_ACCESS},
		{~0u, 0, GLOBAL | WHOLE, SYN_ACCESS},
		{~0u, ~0u, 0, SYN_INV},
		{~0u, ~0u, 4 | GLOBAL, SYN_INV},
		{~0u, ~0u, 0x20 | GLOBAL, SYN_INV},
	};
	const uint32_t both = NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig *rig = create(cases[i].qp & both);
		struct packet p = flush_packet(rig, E, cases[i].feth, 0, 64);

		assert_int_equal(nic_mr_rereg(rig->mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, cases[i].mr & both), 0);
		expect_refused(rig, &p, cases[i].syndrome);
	}
}

static void place__RL_08_a_flush_of_no_bytes_needs_a_right_key(void **state)
{
	struct rig *rig = ready();
	struct packet p = flush_packet(rig, E, GLOBAL, 0, 0);

	(void)state;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	p.psn = E + 1;
	p.rkey ^= 0x5500;
	expect_refused(rig, &p, SYN_ACCESS);
	rig = ready();
	p = flush_packet(rig, E, GLOBAL, RIG_ARENA - 8, 9);
	expect_refused(rig, &p, SYN_ACCESS);
	rig = ready();
	p = flush_packet(rig, E, GLOBAL | WHOLE, 0, NIC_MSG_MAX + 1u);
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	p = flush_packet(rig, E + 1, GLOBAL, 0, NIC_MSG_MAX + 1u);
	expect_refused(rig, &p, SYN_INV);
}

static void place__persistence_needs_a_medium(void **state)
{
	const uint32_t access = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_FLUSH_PERSISTENT;
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr;

	(void)state;
	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 64, 0, access, &mr), -EINVAL);
	rig_destroy(rig);
}

static void place__AW_01_exactly_8_aligned_bytes(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = ready();
		struct packet p = rig_peer_data(rig, ATOMIC_WRITE, E, 0, i == 0 ? 4 : i == 1 ? 16 : 8);

		(void)state;
		if (i == 2)
			p.dma_len = 16;
		if (i == 3)
			p.va += 4;
		expect_refused(rig, &p, SYN_INV);
	}
}

static void place__AW_02_needs_the_right_to_write(void **state)
{
	struct rig *rig = ready();
	struct packet p = rig_peer_data(rig, ATOMIC_WRITE, E, 0, 8);

	(void)state;
	assert_int_equal(nic_mr_rereg(rig->mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0,
				      NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_ATOMIC),
			 0);
	expect_refused(rig, &p, SYN_ACCESS);
}

static void place__AW_03_the_bytes_arrive_as_they_were_sent(void **state)
{
	struct rig *rig = ready();
	struct packet p = rig_peer_data(rig, ATOMIC_WRITE, E, 100, 8);

	(void)state;
	p.va = rig_va(rig, 4096);
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	rig_expect_data(rig, 4096, 100, 8);
	rig_expect_untouched(rig, 4088, 8);
	rig_expect_untouched(rig, 4104, 8);
	rig_destroy(rig);
}

static void place__they_take_responder_resources(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.persist = persist});
	struct packet p;

	(void)state;
	rig->attr.max_dest_rd_atomic = 1;
	rig_to_rts(rig);
	p = rig_peer_data(rig, ATOMIC_WRITE, E, 0, 8);
	rig_rx(rig, &p);
	p.psn++;
	rig_rx(rig, &p); /* the first has not been answered yet */
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	expect_fatal(rig, E + 1, SYN_INV);
	rig_destroy(rig);
}

/* ---- both together, with losses --------------------------------------------------------------------------------- */

static void place__everything_happens_once_whatever_packet_is_lost(void **state)
{
	static const struct pair_rule lost[] = {
		{PAIR_A, ATOMIC_WRITE, 0, PAIR_DROP},	{PAIR_A, ATOMIC_WRITE, 1, PAIR_DOUBLE},
		{PAIR_A, FLUSH, 0, PAIR_DROP},		{PAIR_A, FLUSH, 0, PAIR_LATE},
		{PAIR_B, READ_RESP_ONLY, 0, PAIR_DROP}, {PAIR_B, READ_RESP_ONLY, 1, PAIR_DROP},
		{PAIR_B, READ_RESP_ONLY, 2, PAIR_DROP}, {PAIR_B, READ_RESP_ONLY, 0, PAIR_SWAP},
	};
	const uint32_t rights = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_FLUSH_GLOBAL;

	(void)state;
	for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		struct pair *pair = pair_create(NULL, 0xfffffe, 7);
		struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
		struct nic_qp_attr attr = {.qp_access_flags = rights};
		struct nic_send_wr wr;

		assert_int_equal(nic_mr_rereg(b->mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, rights), 0);
		assert_int_equal(nic_qp_modify(b->qp, &attr, NIC_QP_ACCESS_FLAGS), 0);
		pair_script(pair, &lost[i], 1);
		wr = pair_wr(pair, 1, NIC_WR_ATOMIC_WRITE, 64, 8, 0);
		rig_post(a, &wr);
		wr = pair_wr(pair, 2, NIC_WR_ATOMIC_WRITE, 72, 8, 0);
		rig_post(a, &wr);
		wr = flush_wr(3, 64, NIC_FLUSH_GLOBAL, NIC_FLUSH_RANGE);
		wr.flush.remote_addr = rig_va(b, 0);
		wr.flush.rkey = b->rkey;
		rig_post(a, &wr);
		pair_run(pair);
		for (uint64_t k = 1; k <= 3; k++)
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
		assert_memory_equal(b->arena, a->arena + 72, 8);
		pair_destroy(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place__FL_01_a_flush_is_one_packet_without_payload),
		cmocka_unit_test(place__a_read_response_without_data_completes_them),
		cmocka_unit_test(place__a_read_response_with_data_is_a_bad_response),
		cmocka_unit_test(place__AW_01_an_atomic_write_sends_8_bytes),
		cmocka_unit_test(place__what_may_be_posted),
		cmocka_unit_test(place__RQ_10_they_count_as_reads),
		cmocka_unit_test(place__FL_02_the_answer_follows_the_guarantee),
		cmocka_unit_test(place__FL_03_a_duplicate_is_answered_and_not_executed),
		cmocka_unit_test(place__FL_04_rights_of_qp_and_region),
		cmocka_unit_test(place__RL_08_a_flush_of_no_bytes_needs_a_right_key),
		cmocka_unit_test(place__persistence_needs_a_medium),
		cmocka_unit_test(place__AW_01_exactly_8_aligned_bytes),
		cmocka_unit_test(place__AW_02_needs_the_right_to_write),
		cmocka_unit_test(place__AW_03_the_bytes_arrive_as_they_were_sent),
		cmocka_unit_test(place__they_take_responder_resources),
		cmocka_unit_test(place__everything_happens_once_whatever_packet_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
