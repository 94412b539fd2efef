/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cross_enable.c - nic/qp/cross.c, nic/mem/calc.c: requests that enable requests of other queues, programs of
 * such requests, and requests that calculate. */
#include <stdlib.h>

#include "cross_rig.h"
#include "pair.h"
#include "wire.h"

/* ---- enabling -------------------------------------------------------------------------------------------------- */

static void enable__starts_requests_of_a_managed_send_queue(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 10);
	assert_int_equal(cross_sent(&b), 0);
	cross_post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 3, true);
	assert_int_equal(cross_sent(&b), 3);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 2, true);
	assert_int_equal(cross_sent(&b), 2);
	cross_post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 0, true);
	assert_int_equal(cross_sent(&b), 5);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	cross_post_sends(&b, qp, 1);
	assert_int_equal(cross_sent(&b), 0);
	cross_close(&b);
}

/* ENABLEs without `last` all count requests from the same base, as in Mellanox's own tests. */
static void enable__counts_from_the_base_set_by_the_last_flag(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 10);
	cross_post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 2, false);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 3, false);
	cross_post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 2, true);
	assert_int_equal(cross_sent(&b), 3);
	cross_post_enable(&b, 4, NIC_WR_SEND_ENABLE, qp, 0,
			  false); /* 0 enables all; a later ENABLE with `last` advances the base past them */
	assert_int_equal(cross_sent(&b), 7);
	cross_post_enable(&b, 5, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(cross_sent(&b), 0);
	cross_post_sends(&b, qp, 1);
	cross_post_enable(&b, 6, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(cross_sent(&b), 1);
	cross_close(&b);
}

static void enable__count_zero_covers_requests_posted_before_it(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 2);
	cross_post_wait(&b, 1, 1, true);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 0, true);
	cross_post_sends(&b, qp, 3);
	cross_tick(&b, 1);
	assert_int_equal(cross_sent(&b), 2);
	cross_close(&b);
}

/* An ENABLE posted to a managed queue has to be enabled itself, so it cannot start its own queue. */
static void enable__in_a_managed_queue_must_be_enabled_itself(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 1);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(nic_post_send(qp, &wr), 0);
	assert_int_equal(cross_sent(&b), 0);
	cross_close(&b);
}

static void enable__makes_receives_of_a_managed_queue_available(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_RECV, true);
	b.rig->qp = qp;
	b.rig->qpn = nic_qp_num(qp);
	for (unsigned i = 0; i < 3; i++)
		rig_post_recv(b.rig, i, 64, 64);
	b.rig->qp = b.main;
	rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	assert_int_equal(rig_expect_ack(b.rig, RIG_RQ_PSN, SYN_RNR | b.rig->attr.min_rnr_timer).psn, RIG_RQ_PSN);
	cross_post_enable(&b, 1, NIC_WR_RECV_ENABLE, qp, 2, true);
	rig_expect_silence(b.rig);
	for (unsigned i = 0; i < 2; i++) {
		rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN + i, 0, 8);
		rig_expect_ack(b.rig, RIG_RQ_PSN + i, SYN_ACK);
		rig_expect_wc(b.ticks, i, NIC_WC_SUCCESS);
	}
	rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN + 2, 0, 8);
	rig_expect_ack(b.rig, RIG_RQ_PSN + 2, SYN_RNR | b.rig->attr.min_rnr_timer);
	cross_state(&b, qp, NIC_QPS_ERR); /* enabled or not, all receives are flushed */
	rig_expect_wc(b.ticks, 2, NIC_WC_WR_FLUSH_ERR);
	b.rig->qp = qp;
	rig_post_recv(b.rig, 3, 64, 64);
	b.rig->qp = b.main;
	rig_expect_wc(b.ticks, 3, NIC_WC_WR_FLUSH_ERR);
	cross_close(&b);
}

static void enable__requests_not_enabled_are_flushed_in_err(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 2);
	cross_state(&b, qp, NIC_QPS_ERR);
	rig_expect_wc(b.ticks, 100, NIC_WC_WR_FLUSH_ERR);
	rig_expect_wc(b.ticks, 101, NIC_WC_WR_FLUSH_ERR);
	cross_close(&b);
}

/* The queue named by an ENABLE can have been reset when the ENABLE runs: the ENABLE then does nothing. */
static void enable__has_no_effect_on_a_reset_qp(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, rig_cq_create(b.rig, 64, NULL), MANAGED_SEND, true);
	cross_post_sends(&b, qp, 4);
	cross_post_wait(&b, 1, 1, true);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 4, true);
	cross_state(&b, qp, NIC_QPS_RESET);
	cross_state(&b, qp, NIC_QPS_RTS);
	cross_post_sends(&b, qp, 2);
	cross_tick(&b, 1);
	assert_int_equal(cross_sent(&b), 0);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	cross_post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 1, true); /* counts from the reset on */
	assert_int_equal(cross_sent(&b), 1);
	cross_close(&b);
}

static void enable__for_a_destroyed_qp_fails(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, rig_cq_create(b.rig, 64, NULL), MANAGED_SEND, true);
	cross_post_wait(&b, 1, 1, true);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 0, true);
	assert_int_equal(nic_qp_destroy(qp), 0);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_LOC_QP_OP_ERR);
	cross_close(&b);
}

static void enable__requests_start_after_sqd_only(void **state)
{
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 2);
	cross_state(&b, qp, NIC_QPS_SQD);
	cross_post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(cross_sent(&b), 0);
	b.rig->qp = qp;
	b.rig->attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &b.rig->attr, NIC_QP_STATE), 0);
	b.rig->qp = b.main;
	assert_int_equal(cross_sent(&b), 1); /* the other SEND still waits */
	cross_close(&b);
}

static void enable__invalid_requests_are_refused(void **state)
{
	struct cross_rig b, other;
	struct nic_qp *qp, *receives, *foreign;
	struct nic_send_wr wr;
	const struct rig_opts srq = {.srq = true};
	struct rig *shared;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_open(&other, NIC_QPT_RC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	receives = cross_qp(&b, b.ticks, MANAGED_RECV, true);
	foreign = cross_qp(&other, other.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 2);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, qp, 3, true); /* more than the two requests posted */
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr.enable.count = UINT32_MAX;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, NULL, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, b.main, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, receives, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_enable_wr(1, NIC_WR_RECV_ENABLE, qp, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_enable_wr(1, NIC_WR_SEND_ENABLE, foreign, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	assert_int_equal(cross_sent(&b), 0);
	cross_post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 1, true); /* refused ENABLEs do not advance the base */
	assert_int_equal(cross_sent(&b), 1);
	cross_close(&other);
	cross_close(&b);

	shared = rig_create(&srq); /* managed_recv is refused with an SRQ */
	struct nic_qp_init init = {.type = NIC_QPT_RC,
				   .pd = shared->pd,
				   .send_cq = shared->send_cq,
				   .recv_cq = shared->recv_cq,
				   .srq = shared->srq,
				   .cap = {1, 1, 1, 1, 0},
				   .managed_recv = true};
	assert_int_equal(nic_qp_create(shared->nic, &init, &qp), -EINVAL);
	init.managed_recv = false;
	assert_int_equal(nic_qp_create(shared->nic, &init, &qp), 0);
	rig_destroy(shared);
}

static void enable__query_qp_reports_managed_queues(void **state)
{
	struct cross_rig b;
	struct nic_qp_attr attr;
	struct nic_qp_init init;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	nic_qp_query(cross_qp(&b, b.ticks, MANAGED_SEND, false), &attr, &init);
	assert_true(init.cross_channel && init.managed_send && !init.managed_recv);
	nic_qp_query(cross_qp(&b, b.ticks, MANAGED_RECV, false), &attr, &init);
	assert_true(init.cross_channel && !init.managed_send && init.managed_recv);
	cross_close(&b);
}

/* ---- programs of WAITs and ENABLEs ------------------------------------------------------------------------------- */

/* Side b's NIC answers each message without the application: one send queue (`runner`) waits for the message, and the
 * send queue that contains the answers waits for `runner`. This works even if packets are lost. */
static void program__the_nic_answers_messages_despite_loss(void **state)
{
	const struct rig_opts opts = {.cross_channel = true};
	const struct pair_rule rules[] = {{PAIR_A, SEND_ONLY, 2, PAIR_DROP},   {PAIR_B, SEND_ONLY, 3, PAIR_DROP},
					  {PAIR_B, ACK, 1, PAIR_DROP},	       {PAIR_A, SEND_ONLY, 6, PAIR_SWAP},
					  {PAIR_B, SEND_ONLY, 7, PAIR_DOUBLE}, {PAIR_A, ACK, 4, PAIR_DROP}};
	const unsigned rounds = 8;
	struct pair *pair = pair_create(&opts, 0x10, 0xfffffe);
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	struct cross_rig program = {.rig = b, .main = b->qp};
	struct nic_cq *done = rig_cq_create(b, 64, NULL);
	struct nic_qp *runner;

	(void)state;
	pair_script(pair, rules, sizeof(rules) / sizeof(rules[0]));
	runner = cross_qp(&program, done, 0, true);
	for (unsigned i = 0; i < rounds; i++) {
		struct nic_send_wr wait = cross_wait_wr(2 * i, b->recv_cq, 1, true);
		struct nic_send_wr nop = {.wr_id = 2 * i + 1, .opcode = NIC_WR_NOP};
		struct nic_send_wr answer = cross_wait_wr(1000 + i, done, 2, true);

		rig_post_recv(b, i, 1024 + 64 * i, 64);
		rig_post_recv(a, i, 1024 + 64 * i, 64);
		assert_int_equal(nic_post_send(runner, &wait), 0);
		assert_int_equal(nic_post_send(runner, &nop), 0);
		/* In the queue that contains the answers: a WAIT, then the answer. */
		assert_int_equal(nic_post_send(b->qp, &answer), 0);
		rig_post_send(b, i, NIC_WR_SEND, 1024 + 64 * i, 64);
		rig_post_send(a, i, NIC_WR_SEND, 64 * i, 64);
	}
	pair_run(pair);
	for (unsigned i = 0; i < rounds; i++) {
		rig_expect_wc(a->recv_cq, i, NIC_WC_SUCCESS);
		assert_memory_equal(a->arena + 1024 + 64 * i, a->arena + 64 * i, 64);
	}
	assert_int_equal(nic_cq_count(done), 2 * rounds);
	pair_destroy(pair);
}

/* After an error, flushed requests need no ENABLE: counts continue with the requests posted since the queue is back
 * in RTS. */
static void enable__counts_skip_requests_flushed_by_an_error(void **state)
{
	struct nic_send_wr bad;
	struct cross_rig b;
	struct nic_qp *qp;

	(void)state;
	cross_open(&b, NIC_QPT_UC);
	qp = cross_qp(&b, b.ticks, MANAGED_SEND, true);
	cross_post_sends(&b, qp, 1);
	bad = rig_wr(b.rig, 99, NIC_WR_SEND, 0, 8);
	b.rig->sge.lkey ^= 1;
	assert_int_equal(nic_post_send(qp, &bad), 0);
	cross_post_sends(&b, qp, 3);
	cross_post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 1, true);
	cross_post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 2, false);
	assert_int_equal(cross_sent(&b), 1);
	assert_int_equal(nic_qp_state(qp), NIC_QPS_SQE);
	cross_post_sends(&b, qp, 1);
	cross_post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 1, true); /* for a flushed request: has no effect */
	assert_int_equal(nic_qp_modify(qp, &(struct nic_qp_attr){.qp_state = NIC_QPS_RTS}, NIC_QP_STATE), 0);
	cross_post_sends(&b, qp, 3);
	assert_int_equal(cross_sent(&b), 0);
	cross_post_enable(&b, 4, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(cross_sent(&b), 1);
	cross_post_enable(&b, 5, NIC_WR_SEND_ENABLE, qp, 2, true);
	assert_int_equal(cross_sent(&b), 2);
	cross_close(&b);
}

/* ---- calculating ----------------------------------------------------------------------------------------------- */

static void operand_at(struct rig *rig, uint32_t offset, uint64_t value, uint64_t place)
{
	wire_put64(rig->arena + offset, value);
	wire_put64(rig->arena + offset + 8, place);
}

static void calc__operands_are_read_when_the_request_is_sent(void **state)
{
	const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_SEND_WITH_IMM, NIC_WR_RDMA_WRITE,
					      NIC_WR_RDMA_WRITE_WITH_IMM};
	const unsigned ops[] = {SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY, WRITE_ONLY_IMM};
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	for (unsigned i = 0; i < 4; i++) {
		struct nic_sge sges[] = {{rig_va(b.rig, 0), 16, b.rig->lkey}, {rig_va(b.rig, 64), 32, b.rig->lkey}};
		struct nic_send_wr wr = rig_wr(b.rig, i, opcodes[i], 0, 16);
		struct packet p;

		wr.sg_list = sges;
		wr.num_sge = 2;
		wr.flags = NIC_SEND_CALC;
		wr.rdma.calc_op = NIC_CALC_ADD;
		wr.rdma.calc_type = NIC_CALC_UINT;
		cross_post_wait(&b, 10, 1, true);
		rig_post(b.rig, &wr);
		rig_expect_silence(b.rig);
		operand_at(b.rig, 0, 1000 + i, 1); /* written after the request was posted */
		operand_at(b.rig, 64, 200, 2);
		operand_at(b.rig, 80, 30, 3);
		cross_tick(&b, 1);
		p = rig_expect_tx(b.rig, ops[i], RIG_SQ_PSN + i);
		assert_int_equal(p.payload_len, 16);
		assert_int_equal(wire_get64(p.payload), 1230 + i);
		assert_int_equal(wire_get64(p.payload + 8), 0);
		rig_ack(b.rig, RIG_SQ_PSN + i, SYN_ACK);
		rig_expect_wc(b.rig->send_cq, 10, NIC_WC_SUCCESS);
		assert_int_equal(rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS).byte_len, 16);
	}
	cross_close(&b);
}

static void calc__operands_beyond_the_region_are_a_protection_error(void **state)
{
	struct cross_rig b;
	struct nic_send_wr wr;
	struct nic_sge sge;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	wr = rig_wr(b.rig, 1, NIC_WR_SEND, 0, 16);
	sge = (struct nic_sge){rig_va(b.rig, RIG_ARENA - 16), 32, b.rig->lkey};
	wr.sg_list = &sge;
	wr.flags = NIC_SEND_CALC;
	rig_post(b.rig, &wr);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	cross_close(&b);
}

static void calc__invalid_requests_are_refused(void **state)
{
	struct cross_rig b;
	struct nic_sge sge;
	struct nic_send_wr good, wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	sge = (struct nic_sge){rig_va(b.rig, 0), 32, b.rig->lkey};
	good = rig_wr(b.rig, 1, NIC_WR_SEND, 0, 16);
	good.sg_list = &sge;
	good.flags = NIC_SEND_CALC;
	assert_int_equal(nic_post_send_check(b.main, &good, 0), 0);
	wr = good;
	wr.opcode = NIC_WR_RDMA_READ;
	assert_int_equal(nic_post_send_check(b.main, &wr, 0), -EINVAL);
	wr = good;
	wr.opcode = NIC_WR_SEND_WITH_INV;
	assert_int_equal(nic_post_send_check(b.main, &wr, 0), -EINVAL);
	wr = good;
	wr.flags |= NIC_SEND_INLINE;
	assert_int_equal(nic_post_send_check(b.main, &wr, 0), -EINVAL);
	wr = good;
	wr.rdma.calc_op = NIC_CALC_MAXLOC;
	wr.rdma.calc_type = NIC_CALC_INT;
	assert_int_equal(nic_post_send_check(b.main, &wr, 0), -EINVAL);
	for (uint32_t len = 0; len <= 4096 + 16; len += 8) {
		wr = good;
		sge.length = len;
		assert_int_equal(nic_post_send_check(b.main, &wr, 0), !len || len % 16 || len > 4096 ? -EINVAL : 0);
	}
	b.rig->opts.cross_channel = false;
	sge.length = 16;
	assert_int_equal(nic_post_send_check(cross_qp(&b, b.ticks, 0, true), &good, 0), -EINVAL);
	cross_close(&b);
	cross_open(&b, NIC_QPT_UC);
	sge = (struct nic_sge){rig_va(b.rig, 0), 16, b.rig->lkey};
	assert_int_equal(nic_post_send_check(b.main, &good, 0), -EINVAL);
	cross_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(enable__starts_requests_of_a_managed_send_queue),
		cmocka_unit_test(enable__counts_from_the_base_set_by_the_last_flag),
		cmocka_unit_test(enable__count_zero_covers_requests_posted_before_it),
		cmocka_unit_test(enable__in_a_managed_queue_must_be_enabled_itself),
		cmocka_unit_test(enable__makes_receives_of_a_managed_queue_available),
		cmocka_unit_test(enable__requests_not_enabled_are_flushed_in_err),
		cmocka_unit_test(enable__has_no_effect_on_a_reset_qp),
		cmocka_unit_test(enable__for_a_destroyed_qp_fails),
		cmocka_unit_test(enable__requests_start_after_sqd_only),
		cmocka_unit_test(enable__invalid_requests_are_refused),
		cmocka_unit_test(enable__query_qp_reports_managed_queues),
		cmocka_unit_test(program__the_nic_answers_messages_despite_loss),
		cmocka_unit_test(enable__counts_skip_requests_flushed_by_an_error),
		cmocka_unit_test(calc__operands_are_read_when_the_request_is_sent),
		cmocka_unit_test(calc__operands_beyond_the_region_are_a_protection_error),
		cmocka_unit_test(calc__invalid_requests_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
