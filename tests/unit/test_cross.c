/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cross.c - nic/qp/cross.c: requests that wait for a CQ, also when queue pairs end, CQs overflow or packets are
 * lost. test_cross_enable.c tests requests that enable others, and requests that calculate.
 */
#include <stdlib.h>

#include "cross_rig.h"

#include "cq.h"
#include "pair.h"

#define CHAIN 2000u

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static void wait__later_requests_start_when_the_cq_reaches_the_count(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_post_wait(&b, 1, 2, true);
	rig_post_send(b.rig, 2, NIC_WR_SEND, 0, 8);
	rig_expect_silence(b.rig);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_no_wc(b.rig->send_cq);
	cross_tick(&b, 1);
	assert_true(nic_tx_pending(b.rig->nic)); /* ready to send without another call into the NIC */
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS).opcode, NIC_WC_SEND);
	rig_expect_no_wc(b.rig->send_cq);
	rig_ack(b.rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_count(b.ticks), 2); /* waiting consumes no entries */
	cross_close(&b);
}

static void wait__on_a_receive_cq_completes_when_a_message_arrives(void **state)
{
	struct cross_rig b;
	struct nic_qp *receiver;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	receiver = cross_qp(&b, b.ticks, 0, true);
	cross_post_wait(&b, 1, 1, true);
	rig_post_send(b.rig, 2, NIC_WR_SEND, 0, 8);
	b.rig->qp = receiver;
	rig_post_recv(b.rig, 3, 64, 64);
	b.rig->qp = b.main;
	b.rig->qpn = nic_qp_num(receiver);
	rig_expect_silence(b.rig);
	rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	rig_expect_ack(b.rig, RIG_RQ_PSN, SYN_ACK);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_wc(b.ticks, 3, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	cross_close(&b);
}

/* Three WAITs count CQ entries from the same base. `last` in the third WAIT advances that base by the largest of their
 * counts, as in Mellanox's own tests. */
static void wait__counts_from_the_base_set_by_the_last_flag(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_post_wait(&b, 1, 9, false);
	cross_post_wait(&b, 2, 10, false);
	cross_post_wait(&b, 3, 8, true);
	cross_post_wait(&b, 4, 1, true);
	cross_tick(&b, 9);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(b.rig->send_cq);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 3, NIC_WC_SUCCESS); /* WAIT 3 needs 8 entries only, but runs after WAIT 2 */
	rig_expect_no_wc(b.rig->send_cq);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 4, NIC_WC_SUCCESS);
	cross_close(&b);
}

static void wait__counts_entries_from_before_the_first_wait(void **state)
{
	struct cross_rig b;
	struct nic_qp *other;
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct nic_wc wc[8];

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_tick(&b, 3);
	assert_int_equal(nic_cq_poll(b.ticks, 2, wc), 2);
	assert_int_equal(nic_cq_resize(b.ticks, 32), 0);
	other = cross_qp(&b, b.ticks, 0, false);
	cross_state(&b, other, NIC_QPS_ERR);
	assert_int_equal(nic_post_send(other, &nop), 0);
	assert_int_equal(nic_qp_destroy(other), 0); /* removes the QP's entry from the CQ */
	cross_tick(&b, 1);
	assert_int_equal(nic_cq_count(b.ticks), 2);
	cross_post_wait(&b, 1, 5, true);
	cross_post_wait(&b, 2, 1, true);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(b.rig->send_cq);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	cross_close(&b);
}

static void wait__for_zero_entries_completes_at_once(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_post_wait(&b, 1, 0, false);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	cross_close(&b);
}

/* A CQ can count more than 2^32 entries, which a busy CQ has within minutes. */
static void wait__counts_beyond_32_bits(void **state)
{
	const uint64_t many = 1ull << 32;
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	b.ticks->head = b.ticks->tail = b.ticks->announced = b.ticks->solicited = many - 1;
	cross_tick(&b, 1);
	assert_int_equal(nic_cq_count(b.ticks), 1);
	cross_post_wait(&b, 1, 1, true);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.ticks, 0, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b.ticks->produced.part[0], many);
	assert_int_equal(nic_cq_resize(b.ticks, 8), 0);
	cross_tick(&b, 1);
	assert_int_equal(b.ticks->before + b.ticks->head, many + 1);
	rig_expect_wc(b.ticks, 0, NIC_WC_WR_FLUSH_ERR);
	cross_close(&b);
}

/* Checking a WAIT without posting it changes nothing in the CQ and allocates nothing. */
static void wait__checking_without_posting_allocates_nothing(void **state)
{
	struct cross_rig b;
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	wr = cross_wait_wr(1, b.ticks, 1, true);
	assert_int_equal(nic_post_send_check(b.main, &wr, 0), 0);
	assert_int_equal(b.ticks->produced.room, 0);
	assert_int_equal(b.ticks->waiters, 0);
	assert_int_equal(nic_post_send(b.main, &wr), 0);
	assert_true(b.ticks->produced.room > 0);
	cross_close(&b);
}

static void wait__completes_in_post_order(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	cross_post_wait(&b, 2, 1, true);
	rig_post_send(b.rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	cross_tick(&b, 1);
	/* The WAIT waits for the CQ, not for the ACK of the SEND before it. */
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_no_wc(b.rig->send_cq);
	rig_ack(b.rig, RIG_SQ_PSN + 1, SYN_ACK);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	cross_close(&b);
}

static void wait__with_a_fence_waits_for_reads_first(void **state)
{
	struct cross_rig b;
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_RDMA_READ, 0, 8);
	wr = cross_enable_wr(2, NIC_WR_SEND_ENABLE, cross_qp(&b, b.rig->send_cq, MANAGED_SEND, true), 0, true);
	cross_post_sends(&b, wr.enable.qp, 1);
	wr.enable.count = 1;
	wr.flags = NIC_SEND_FENCE;
	rig_post(b.rig, &wr);
	rig_expect_tx(b.rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	rig_rx_data(b.rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	assert_int_equal(cross_sent(&b), 1);
	cross_close(&b);
}

/* Requests before a pending WAIT are retransmitted while it keeps waiting; a completed WAIT is not repeated. */
static void wait__retransmission_neither_skips_nor_repeats_it(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	cross_post_wait(&b, 2, 1, true);
	rig_post_send(b.rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	cross_tick(&b, 1);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_ack(b.rig, RIG_SQ_PSN + 1, SYN_ACK);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	cross_close(&b);
}

/* Each QP waits for the CQ of the QP before it: a single entry in the first CQ lets the whole chain run. */
static void wait__a_chain_of_queues_runs_on_one_entry(void **state)
{
	struct cross_rig b;
	struct nic_cq *before, *last;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	before = b.ticks;
	for (unsigned i = 0; i < CHAIN; i++) {
		struct nic_send_wr wr = cross_wait_wr(i, before, 1, true);
		struct nic_qp *qp;

		last = rig_cq_create(b.rig, 1, NULL);
		qp = cross_qp(&b, last, 0, true);
		assert_int_equal(nic_post_send(qp, &wr), 0);
		before = last;
	}
	rig_expect_silence(b.rig);
	rig_expect_no_wc(before);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig); /* a single call lets all QPs run */
	rig_expect_wc(before, CHAIN - 1, NIC_WC_SUCCESS);
	cross_close(&b);
}

static void wait__of_uc_and_ud_queues(void **state)
{
	const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct cross_rig b;

		cross_open(&b, types[i]);
		cross_post_wait(&b, 1, 1, true);
		cross_post_wait(&b, 2, 1, true);
		rig_expect_silence(b.rig);
		cross_tick(&b, 1);
		rig_expect_silence(b.rig);
		rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
		rig_expect_no_wc(b.rig->send_cq);
		cross_state(&b, b.main, NIC_QPS_ERR);
		rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		cross_close(&b);
	}
}

static void wait__invalid_requests_are_refused(void **state)
{
	struct cross_rig b, other;
	struct nic_qp *plain;
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cross_open(&other, NIC_QPT_RC);
	b.rig->opts.cross_channel = false;
	plain = cross_qp(&b, b.ticks, 0, true);
	wr = cross_wait_wr(1, b.ticks, 1, true);
	assert_int_equal(nic_post_send(plain, &wr), -EINVAL);
	wr.wait.cq = NULL;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr.wait.cq = other.ticks;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_wait_wr(1, b.ticks, (uint32_t)INT32_MAX + 1, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = cross_wait_wr(1, b.ticks, 1, true);
	wr.flags = NIC_SEND_INLINE;
	assert_int_equal(nic_post_send(b.main, &wr), 0); /* NIC_SEND_INLINE means nothing for a WAIT, as for a NOP */
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS); /* refused WAITs do not advance the base */
	assert_int_equal(nic_cq_destroy(other.ticks), -EBUSY);
	assert_int_equal(nic_qp_destroy(other.ticker), 0);
	assert_int_equal(nic_cq_destroy(other.ticks), 0);
	cross_close(&other);
	cross_close(&b);
}

static void wait__refused_by_a_full_queue_does_not_advance_the_base(void **state)
{
	struct cross_rig b;
	struct nic_send_wr wr;
	unsigned n = 0;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	wr = cross_wait_wr(1, b.ticks, 1, true);
	while (nic_post_send(b.main, &wr) == 0)
		n++;
	assert_int_equal(n, b.rig->opts.cap.max_send_wr);
	assert_int_equal(nic_post_send(b.main, &wr), -ENOMEM);
	cross_tick(&b, n - 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_post_send(b.main, &wr), 0); /* waits for one entry more than the last accepted WAIT */
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_cq_count(b.rig->send_cq), n);
	cross_tick(&b, 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_cq_count(b.rig->send_cq), n + 1);
	cross_close(&b);
}

/* ---- QPs and CQs that end -------------------------------------------------------------------------------------- */

static void wait__keeps_its_cq_busy_until_flushed(void **state)
{
	struct cross_rig b;
	struct nic_cq *cq;
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	cq = rig_cq_create(b.rig, 8, NULL);
	wr = cross_wait_wr(1, cq, 0, true);
	rig_post(b.rig, &wr);
	wr = cross_wait_wr(2, cq, 1, true);
	rig_post(b.rig, &wr);
	assert_int_equal(nic_cq_destroy(cq), -EBUSY);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_destroy(cq), -EBUSY);
	cross_state(&b, b.main, NIC_QPS_ERR);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	rig_post(b.rig, &wr); /* posted in ERR, and flushed at once */
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_cq_destroy(cq), 0);
	cross_close(&b);
}

/* All ways in which a QP with pending WAITs can end; the awaited entries arrive afterwards and have no effect. */
static void wait__ends_when_its_qp_fails_resets_or_is_destroyed(void **state)
{
	(void)state;
	for (unsigned way = 0; way < 3; way++) {
		struct cross_rig b;
		struct nic_qp *qp;
		struct nic_send_wr wr;

		cross_open(&b, NIC_QPT_RC);
		qp = cross_qp(&b, b.rig->send_cq, 0, true);
		wr = cross_wait_wr(1, b.ticks, 1, true);
		assert_int_equal(nic_post_send(qp, &wr), 0);
		wr.wr_id = 2;
		assert_int_equal(nic_post_send(qp, &wr), 0);
		rig_expect_silence(b.rig); /* the first WAIT is pending */
		if (way == 0)
			cross_state(&b, qp, NIC_QPS_ERR);
		else if (way == 1)
			cross_state(&b, qp, NIC_QPS_RESET);
		else
			assert_int_equal(nic_qp_destroy(qp), 0);
		assert_int_equal(nic_cq_count(b.rig->send_cq), way == 0 ? 2 : 0);
		cross_tick(&b, 2);
		rig_expect_silence(b.rig);
		assert_int_equal(nic_cq_count(b.rig->send_cq), way == 0 ? 2 : 0);
		assert_int_equal(nic_qp_destroy(b.ticker), 0);
		assert_int_equal(nic_cq_destroy(b.ticks), 0);
		cross_close(&b);
	}
}

static void wait__is_flushed_when_retries_are_exhausted(void **state)
{
	struct cross_rig b;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	cross_post_wait(&b, 2, 1, true);
	for (unsigned i = 0; i <= 8 && nic_qp_state(b.main) != NIC_QPS_ERR; i++) {
		rig_drain(b.rig);
		rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	}
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_destroy(b.ticker), 0);
	assert_int_equal(nic_cq_destroy(b.ticks), 0);
	cross_close(&b);
}

/* An error completion counts as an entry: a WAIT for it completes, and the CQ's reader sees the error. */
static void wait__counts_error_completions(void **state)
{
	struct cross_rig b;
	struct nic_qp *receiver;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	receiver = cross_qp(&b, b.ticks, 0, true);
	b.rig->qp = receiver;
	rig_post_recv(b.rig, 3, 64, 64);
	b.rig->qp = b.main;
	cross_post_wait(&b, 1, 1, true);
	rig_expect_silence(b.rig);
	cross_state(&b, receiver, NIC_QPS_ERR);
	assert_true(nic_tx_pending(b.rig->nic)); /* the WAIT can run without another call into the NIC */
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.ticks, 3, NIC_WC_WR_FLUSH_ERR);
	cross_close(&b);
}

static void wait__for_a_cq_that_overflows_fails(void **state)
{
	struct cross_rig b;
	struct nic_cq *small;
	struct nic_qp *producer;
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct nic_send_wr wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	small = rig_cq_create(b.rig, 2, NULL);
	producer = cross_qp(&b, small, 0, false);
	cross_state(&b, producer, NIC_QPS_ERR);
	wr = cross_wait_wr(1, small, 2, false);
	rig_post(b.rig, &wr);
	wr = cross_wait_wr(2, small, 3, true);
	rig_post(b.rig, &wr);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nic_post_send(producer, &nop), 0);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_string_equal(nic_vendor_err_str(rig_expect_wc(b.rig->send_cq, 2, NIC_WC_LOC_QP_OP_ERR).vendor_err),
			    "a WAIT for entries of a CQ that has overflowed");
	assert_int_equal(nic_qp_state(b.main), NIC_QPS_ERR);
	cross_close(&b);
}

static void cq__overwrites_old_entries_and_counts_on_if_overruns_are_ignored(void **state)
{
	struct cross_rig b;
	struct nic_cq *small;
	struct nic_qp *producer;
	struct nic_send_wr nop = {.opcode = NIC_WR_NOP}, wr;

	(void)state;
	cross_open(&b, NIC_QPT_RC);
	small = rig_cq_create(b.rig, 4, &b);
	nic_cq_ignore_overrun(small, true);
	producer = cross_qp(&b, small, 0, false);
	cross_state(&b, producer, NIC_QPS_ERR);
	wr = cross_wait_wr(1, small, 11, true);
	rig_post(b.rig, &wr);
	rig_expect_silence(b.rig);
	for (unsigned i = 0; i < 11; i++) {
		rig_expect_no_wc(b.rig->send_cq);
		nop.wr_id = i;
		assert_int_equal(nic_post_send(producer, &nop), 0);
		rig_expect_silence(b.rig);
	}
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(rig_counter(b.rig, cq_overrun), 7);
	assert_int_equal(rig_events(b.rig, &b), 0);
	for (unsigned i = 7; i < 11; i++) /* the newest entries are left */
		rig_expect_wc(small, i, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(small);
	nic_cq_ignore_overrun(small, false);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(nic_post_send(producer, &nop), 0);
	assert_int_equal(rig_events(b.rig, &b), 1ull << NIC_EVENT_CQ_ERR);
	cross_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__later_requests_start_when_the_cq_reaches_the_count),
		cmocka_unit_test(wait__on_a_receive_cq_completes_when_a_message_arrives),
		cmocka_unit_test(wait__counts_from_the_base_set_by_the_last_flag),
		cmocka_unit_test(wait__counts_beyond_32_bits),
		cmocka_unit_test(wait__checking_without_posting_allocates_nothing),
		cmocka_unit_test(wait__counts_entries_from_before_the_first_wait),
		cmocka_unit_test(wait__for_zero_entries_completes_at_once),
		cmocka_unit_test(wait__completes_in_post_order),
		cmocka_unit_test(wait__with_a_fence_waits_for_reads_first),
		cmocka_unit_test(wait__retransmission_neither_skips_nor_repeats_it),
		cmocka_unit_test(wait__a_chain_of_queues_runs_on_one_entry),
		cmocka_unit_test(wait__of_uc_and_ud_queues),
		cmocka_unit_test(wait__invalid_requests_are_refused),
		cmocka_unit_test(wait__refused_by_a_full_queue_does_not_advance_the_base),
		cmocka_unit_test(wait__keeps_its_cq_busy_until_flushed),
		cmocka_unit_test(wait__ends_when_its_qp_fails_resets_or_is_destroyed),
		cmocka_unit_test(wait__is_flushed_when_retries_are_exhausted),
		cmocka_unit_test(wait__counts_error_completions),
		cmocka_unit_test(wait__for_a_cq_that_overflows_fails),
		cmocka_unit_test(cq__overwrites_old_entries_and_counts_on_if_overruns_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
