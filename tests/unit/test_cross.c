/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cross.c - nic/cross.c: requests that wait for a CQ, that enable others, and that calculate; on queue pairs that go, CQs that
 * overflow, and under loss.
 */
#include <stdlib.h>

#include "pair.h"
#include "wire.h"

#define CHAIN 2000u

/** A rig whose QP has these requests, and a CQ that gets an entry when the test says so. */
struct bench {
	struct rig *rig;
	struct nic_qp *main; /* the rig's own */
	struct nic_cq *ticks;
	struct nic_qp *ticker; /* in error: what is posted to it completes */
};

enum { MANAGED_SEND = 1, MANAGED_RECV = 2 };

/** A further QP, in RTS or RESET, whose requests complete in this CQ. */
static struct nic_qp *more(struct bench *b, struct nic_cq *cq, unsigned managed, bool rts)
{
	struct rig *rig = b->rig;
	struct nic_cq *send_cq = rig->send_cq, *recv_cq = rig->recv_cq;
	struct nic_qp *qp;

	rig->send_cq = rig->recv_cq = cq;
	rig->opts.managed_send = managed & MANAGED_SEND;
	rig->opts.managed_recv = managed & MANAGED_RECV;
	qp = rig->qp = rig_qp_create(rig);
	if (rts)
		rig_to_rts(rig);
	rig->opts.managed_send = rig->opts.managed_recv = false;
	rig->send_cq = send_cq;
	rig->recv_cq = recv_cq;
	rig->qp = b->main;
	return qp;
}

static void state_of(struct bench *b, struct nic_qp *qp, enum nic_qp_state state)
{
	b->rig->qp = qp;
	if (state == NIC_QPS_RTS)
		rig_to_rts(b->rig);
	else
		rig_modify_state(b->rig, state);
	b->rig->qp = b->main;
}

static void bench_open(struct bench *b, enum nic_qp_type type)
{
	const struct rig_opts opts = {.type = type, .cross_channel = true};

	b->rig = rig_ready(&opts);
	b->main = b->rig->qp;
	b->ticks = rig_cq_create(b->rig, 64, NULL);
	b->ticker = more(b, b->ticks, 0, false);
	state_of(b, b->ticker, NIC_QPS_ERR);
}

static void bench_close(struct bench *b)
{
	rig_destroy(b->rig);
}

static void tick(struct bench *b, unsigned n)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_NOP};

	while (n--)
		assert_int_equal(nic_post_send(b->ticker, &wr), 0);
}

static struct nic_send_wr wait_wr(uint64_t wr_id, struct nic_cq *cq, uint32_t count, bool last)
{
	return (struct nic_send_wr){
		.wr_id = wr_id, .opcode = NIC_WR_CQE_WAIT, .wait = {.cq = cq, .count = count, .last = last}};
}

static struct nic_send_wr enable_wr(uint64_t wr_id, enum nic_wr_opcode opcode, struct nic_qp *qp, uint32_t count,
				    bool last)
{
	return (struct nic_send_wr){
		.wr_id = wr_id, .opcode = opcode, .enable = {.qp = qp, .count = count, .last = last}};
}

#define post_wait(b, wr_id, count, last)                                                                               \
	do {                                                                                                           \
		struct nic_send_wr wr_ = wait_wr(wr_id, (b)->ticks, count, last);                                      \
		assert_int_equal(nic_post_send((b)->main, &wr_), 0);                                                   \
	} while (0)
#define post_enable(b, wr_id, opcode, qp, count, last)                                                                 \
	do {                                                                                                           \
		struct nic_send_wr wr_ = enable_wr(wr_id, opcode, qp, count, last);                                    \
		assert_int_equal(nic_post_send((b)->main, &wr_), 0);                                                   \
	} while (0)

static void post_sends(struct bench *b, struct nic_qp *qp, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct nic_send_wr wr = rig_wr(b->rig, 100 + i, NIC_WR_SEND, 0, 8);

		assert_int_equal(nic_post_send(qp, &wr), 0);
	}
}

/** Packets that the NIC has to send, all of them SENDs. */
static unsigned sent(struct bench *b)
{
	struct packet p;
	unsigned n = 0;

	while (rig_tx(b->rig, &p)) {
		assert_int_equal(p.op->value, SEND_ONLY);
		n++;
	}
	return n;
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static void wait__what_is_behind_it_starts_with_the_entry_that_is_waited_for(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	post_wait(&b, 1, 2, true);
	rig_post_send(b.rig, 2, NIC_WR_SEND, 0, 8);
	rig_expect_silence(b.rig);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_no_wc(b.rig->send_cq);
	tick(&b, 1);
	assert_true(nic_tx_pending(b.rig->nic)); /* without another call */
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS).opcode, NIC_WC_SEND);
	rig_expect_no_wc(b.rig->send_cq);
	rig_ack(b.rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_count(b.ticks), 2); /* still there to be read */
	bench_close(&b);
}

static void wait__for_a_message_fires_when_it_arrives(void **state)
{
	struct bench b;
	struct nic_qp *receiver;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	receiver = more(&b, b.ticks, 0, true);
	post_wait(&b, 1, 1, true);
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
	bench_close(&b);
}

/* As Mellanox's own tests have it: three WAITs from one base; it moves on by the largest. */
static void wait__counts_from_where_the_last_one_left_it(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	post_wait(&b, 1, 9, false);
	post_wait(&b, 2, 10, false);
	post_wait(&b, 3, 8, true);
	post_wait(&b, 4, 1, true);
	tick(&b, 9);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(b.rig->send_cq);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 3, NIC_WC_SUCCESS); /* its own has long been there */
	rig_expect_no_wc(b.rig->send_cq);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 4, NIC_WC_SUCCESS);
	bench_close(&b);
}

static void wait__counts_what_was_there_before_anybody_waited(void **state)
{
	struct bench b;
	struct nic_qp *other;
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct nic_wc wc[8];

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	tick(&b, 3);
	assert_int_equal(nic_cq_poll(b.ticks, 2, wc), 2);
	assert_int_equal(nic_cq_resize(b.ticks, 32), 0);
	other = more(&b, b.ticks, 0, false);
	state_of(&b, other, NIC_QPS_ERR);
	assert_int_equal(nic_post_send(other, &nop), 0);
	assert_int_equal(nic_qp_destroy(other), 0); /* its entry goes with it */
	tick(&b, 1);
	assert_int_equal(nic_cq_count(b.ticks), 2);
	post_wait(&b, 1, 5, true);
	post_wait(&b, 2, 1, true);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(b.rig->send_cq);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	bench_close(&b);
}

static void wait__for_nothing_is_over_at_once(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	post_wait(&b, 1, 0, false);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	bench_close(&b);
}

static void wait__completes_behind_what_was_posted_before(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	post_wait(&b, 2, 1, true);
	rig_post_send(b.rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	tick(&b, 1);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1); /* it waits for the CQ, not for the answer */
	rig_expect_no_wc(b.rig->send_cq);
	rig_ack(b.rig, RIG_SQ_PSN + 1, SYN_ACK);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	bench_close(&b);
}

static void wait__with_a_fence_waits_for_reads_first(void **state)
{
	struct bench b;
	struct nic_send_wr wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_RDMA_READ, 0, 8);
	wr = enable_wr(2, NIC_WR_SEND_ENABLE, more(&b, b.rig->send_cq, MANAGED_SEND, true), 0, true);
	post_sends(&b, wr.enable.qp, 1);
	wr.enable.count = 1;
	wr.flags = NIC_SEND_FENCE;
	rig_post(b.rig, &wr);
	rig_expect_tx(b.rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	rig_rx_data(b.rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	assert_int_equal(sent(&b), 1);
	bench_close(&b);
}

/* What was sent before a WAIT is sent again while it waits, and the WAIT waits on; one that is over is not waited for again. */
static void wait__is_passed_once_whatever_is_lost(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	post_wait(&b, 2, 1, true);
	rig_post_send(b.rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(b.rig);
	tick(&b, 1);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(b.rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_ack(b.rig, RIG_SQ_PSN + 1, SYN_ACK);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	bench_close(&b);
}

/* One entry, and QP after QP goes on: each waits for the CQ in which the one before completes. */
static void wait__a_chain_of_queues_runs_on_one_entry(void **state)
{
	struct bench b;
	struct nic_cq *before, *last;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	before = b.ticks;
	for (unsigned i = 0; i < CHAIN; i++) {
		struct nic_send_wr wr = wait_wr(i, before, 1, true);
		struct nic_qp *qp;

		last = rig_cq_create(b.rig, 1, NULL);
		qp = more(&b, last, 0, true);
		assert_int_equal(nic_post_send(qp, &wr), 0);
		before = last;
	}
	rig_expect_silence(b.rig);
	rig_expect_no_wc(before);
	tick(&b, 1);
	rig_expect_silence(b.rig); /* one call */
	rig_expect_wc(before, CHAIN - 1, NIC_WC_SUCCESS);
	bench_close(&b);
}

static void wait__of_uc_and_ud_queues(void **state)
{
	const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct bench b;

		bench_open(&b, types[i]);
		post_wait(&b, 1, 1, true);
		post_wait(&b, 2, 1, true);
		rig_expect_silence(b.rig);
		tick(&b, 1);
		rig_expect_silence(b.rig);
		rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
		rig_expect_no_wc(b.rig->send_cq);
		state_of(&b, b.main, NIC_QPS_ERR);
		rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		bench_close(&b);
	}
}

static void wait__is_refused(void **state)
{
	struct bench b, other;
	struct nic_qp *plain;
	struct nic_send_wr wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	bench_open(&other, NIC_QPT_RC);
	b.rig->opts.cross_channel = false;
	plain = more(&b, b.ticks, 0, true);
	wr = wait_wr(1, b.ticks, 1, true);
	assert_int_equal(nic_post_send(plain, &wr), -EINVAL);
	wr.wait.cq = NULL;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr.wait.cq = other.ticks;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = wait_wr(1, b.ticks, (uint32_t)INT32_MAX + 1, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = wait_wr(1, b.ticks, 1, true);
	wr.flags = NIC_SEND_INLINE;
	assert_int_equal(nic_post_send(b.main, &wr), 0); /* of no meaning here, as with NOP */
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS); /* nothing has been counted for those */
	assert_int_equal(nic_cq_destroy(other.ticks), -EBUSY);
	assert_int_equal(nic_qp_destroy(other.ticker), 0);
	assert_int_equal(nic_cq_destroy(other.ticks), 0);
	bench_close(&other);
	bench_close(&b);
}

static void wait__a_full_queue_counts_nothing(void **state)
{
	struct bench b;
	struct nic_send_wr wr;
	unsigned n = 0;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	wr = wait_wr(1, b.ticks, 1, true);
	while (nic_post_send(b.main, &wr) == 0)
		n++;
	assert_int_equal(n, b.rig->opts.cap.max_send_wr);
	assert_int_equal(nic_post_send(b.main, &wr), -ENOMEM);
	tick(&b, n - 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_post_send(b.main, &wr), 0); /* for the one behind */
	tick(&b, 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_cq_count(b.rig->send_cq), n);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	assert_int_equal(nic_cq_count(b.rig->send_cq), n + 1);
	bench_close(&b);
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

static void wait__holds_its_cq_until_it_is_over(void **state)
{
	struct bench b;
	struct nic_cq *cq;
	struct nic_send_wr wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	cq = rig_cq_create(b.rig, 8, NULL);
	wr = wait_wr(1, cq, 0, true);
	rig_post(b.rig, &wr);
	wr = wait_wr(2, cq, 1, true);
	rig_post(b.rig, &wr);
	assert_int_equal(nic_cq_destroy(cq), -EBUSY);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_destroy(cq), -EBUSY);
	state_of(&b, b.main, NIC_QPS_ERR);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	rig_post(b.rig, &wr); /* and flushed at once */
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_cq_destroy(cq), 0);
	bench_close(&b);
}

/* How a QP with WAITs may go; what it waited for comes afterwards, and finds nobody. */
static void wait__ends_with_its_queue(void **state)
{
	(void)state;
	for (unsigned way = 0; way < 3; way++) {
		struct bench b;
		struct nic_qp *qp;
		struct nic_send_wr wr;

		bench_open(&b, NIC_QPT_RC);
		qp = more(&b, b.rig->send_cq, 0, true);
		wr = wait_wr(1, b.ticks, 1, true);
		assert_int_equal(nic_post_send(qp, &wr), 0);
		wr.wr_id = 2;
		assert_int_equal(nic_post_send(qp, &wr), 0);
		rig_expect_silence(b.rig); /* the first waits */
		if (way == 0)
			state_of(&b, qp, NIC_QPS_ERR);
		else if (way == 1)
			state_of(&b, qp, NIC_QPS_RESET);
		else
			assert_int_equal(nic_qp_destroy(qp), 0);
		assert_int_equal(nic_cq_count(b.rig->send_cq), way == 0 ? 2 : 0);
		tick(&b, 2);
		rig_expect_silence(b.rig);
		assert_int_equal(nic_cq_count(b.rig->send_cq), way == 0 ? 2 : 0);
		assert_int_equal(nic_qp_destroy(b.ticker), 0);
		assert_int_equal(nic_cq_destroy(b.ticks), 0);
		bench_close(&b);
	}
}

static void wait__of_a_peer_that_is_dead_is_flushed(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	rig_post_send(b.rig, 1, NIC_WR_SEND, 0, 8);
	post_wait(&b, 2, 1, true);
	for (unsigned i = 0; i <= 8 && nic_qp_state(b.main) != NIC_QPS_ERR; i++) {
		rig_drain(b.rig);
		rig_advance(b.rig, rig_timeout_max_ns(b.rig->attr.timeout));
	}
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_destroy(b.ticker), 0);
	assert_int_equal(nic_cq_destroy(b.ticks), 0);
	bench_close(&b);
}

/* Entries in error count: what waits for a connection that fails goes on, and whoever reads the CQ sees why. */
static void wait__sees_entries_in_error(void **state)
{
	struct bench b;
	struct nic_qp *receiver;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	receiver = more(&b, b.ticks, 0, true);
	b.rig->qp = receiver;
	rig_post_recv(b.rig, 3, 64, 64);
	b.rig->qp = b.main;
	post_wait(&b, 1, 1, true);
	rig_expect_silence(b.rig);
	state_of(&b, receiver, NIC_QPS_ERR);
	assert_true(nic_tx_pending(b.rig->nic)); /* without another call */
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.ticks, 3, NIC_WC_WR_FLUSH_ERR);
	bench_close(&b);
}

static void wait__for_a_cq_that_overflows_fails(void **state)
{
	struct bench b;
	struct nic_cq *small;
	struct nic_qp *producer;
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct nic_send_wr wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	small = rig_cq_create(b.rig, 2, NULL);
	producer = more(&b, small, 0, false);
	state_of(&b, producer, NIC_QPS_ERR);
	wr = wait_wr(1, small, 2, false);
	rig_post(b.rig, &wr);
	wr = wait_wr(2, small, 3, true);
	rig_post(b.rig, &wr);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nic_post_send(producer, &nop), 0);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_string_equal(nic_vendor_err_str(rig_expect_wc(b.rig->send_cq, 2, NIC_WC_LOC_QP_OP_ERR).vendor_err),
			    "a WAIT for entries of a CQ that has overflowed");
	assert_int_equal(nic_qp_state(b.main), NIC_QPS_ERR);
	bench_close(&b);
}

static void cq__that_ignores_overruns_counts_on(void **state)
{
	struct bench b;
	struct nic_cq *small;
	struct nic_qp *producer;
	struct nic_send_wr nop = {.opcode = NIC_WR_NOP}, wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	small = rig_cq_create(b.rig, 4, &b);
	nic_cq_ignore_overrun(small, true);
	producer = more(&b, small, 0, false);
	state_of(&b, producer, NIC_QPS_ERR);
	wr = wait_wr(1, small, 11, true);
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
	for (unsigned i = 7; i < 11; i++) /* the newest are there */
		rig_expect_wc(small, i, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(small);
	nic_cq_ignore_overrun(small, false);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(nic_post_send(producer, &nop), 0);
	assert_int_equal(rig_events(b.rig, &b), 1ull << NIC_EVENT_CQ_ERR);
	bench_close(&b);
}

/* ---- enabling -------------------------------------------------------------------------------------------------- */

static void enable__requests_of_a_managed_queue_start_when_it_says_so(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 10);
	assert_int_equal(sent(&b), 0);
	post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 3, true);
	assert_int_equal(sent(&b), 3);
	post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 2, true);
	assert_int_equal(sent(&b), 2);
	post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 0, true);
	assert_int_equal(sent(&b), 5);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS);
	post_sends(&b, qp, 1);
	assert_int_equal(sent(&b), 0);
	bench_close(&b);
}

/* As Mellanox's own tests have it: without `last` each counts from the same base. */
static void enable__counts_from_where_the_last_one_left_it(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 10);
	post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 2, false);
	post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 3, false);
	post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 2, true);
	assert_int_equal(sent(&b), 3);
	post_enable(&b, 4, NIC_WR_SEND_ENABLE, qp, 0, false); /* all: the base moves on by them with a later `last` */
	assert_int_equal(sent(&b), 7);
	post_enable(&b, 5, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(sent(&b), 0);
	post_sends(&b, qp, 1);
	post_enable(&b, 6, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(sent(&b), 1);
	bench_close(&b);
}

static void enable__says_when_it_is_posted_how_many_all_are(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 2);
	post_wait(&b, 1, 1, true);
	post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 0, true);
	post_sends(&b, qp, 3);
	tick(&b, 1);
	assert_int_equal(sent(&b), 2);
	bench_close(&b);
}

/* An ENABLE for a queue that is managed does nothing in that queue: it has to start itself. */
static void enable__in_a_managed_queue_waits_as_well(void **state)
{
	struct bench b;
	struct nic_qp *qp;
	struct nic_send_wr wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 1);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(nic_post_send(qp, &wr), 0);
	assert_int_equal(sent(&b), 0);
	bench_close(&b);
}

static void enable__receives_are_there_when_it_says_so(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_RECV, true);
	b.rig->qp = qp;
	b.rig->qpn = nic_qp_num(qp);
	for (unsigned i = 0; i < 3; i++)
		rig_post_recv(b.rig, i, 64, 64);
	b.rig->qp = b.main;
	rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	assert_int_equal(rig_expect_ack(b.rig, RIG_RQ_PSN, SYN_RNR | b.rig->attr.min_rnr_timer).psn, RIG_RQ_PSN);
	post_enable(&b, 1, NIC_WR_RECV_ENABLE, qp, 2, true);
	rig_expect_silence(b.rig);
	for (unsigned i = 0; i < 2; i++) {
		rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN + i, 0, 8);
		rig_expect_ack(b.rig, RIG_RQ_PSN + i, SYN_ACK);
		rig_expect_wc(b.ticks, i, NIC_WC_SUCCESS);
	}
	rig_rx_data(b.rig, SEND_ONLY, RIG_RQ_PSN + 2, 0, 8);
	rig_expect_ack(b.rig, RIG_RQ_PSN + 2, SYN_RNR | b.rig->attr.min_rnr_timer);
	state_of(&b, qp, NIC_QPS_ERR); /* enabled or not, all come back */
	rig_expect_wc(b.ticks, 2, NIC_WC_WR_FLUSH_ERR);
	b.rig->qp = qp;
	rig_post_recv(b.rig, 3, 64, 64);
	b.rig->qp = b.main;
	rig_expect_wc(b.ticks, 3, NIC_WC_WR_FLUSH_ERR);
	bench_close(&b);
}

static void enable__what_was_held_is_flushed(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 2);
	state_of(&b, qp, NIC_QPS_ERR);
	rig_expect_wc(b.ticks, 100, NIC_WC_WR_FLUSH_ERR);
	rig_expect_wc(b.ticks, 101, NIC_WC_WR_FLUSH_ERR);
	bench_close(&b);
}

/* What an ENABLE names may be gone when its turn comes, or have begun anew. */
static void enable__of_a_queue_that_has_been_reset_does_nothing(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, rig_cq_create(b.rig, 64, NULL), MANAGED_SEND, true);
	post_sends(&b, qp, 4);
	post_wait(&b, 1, 1, true);
	post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 4, true);
	state_of(&b, qp, NIC_QPS_RESET);
	state_of(&b, qp, NIC_QPS_RTS);
	post_sends(&b, qp, 2);
	tick(&b, 1);
	assert_int_equal(sent(&b), 0);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_SUCCESS);
	post_enable(&b, 3, NIC_WR_SEND_ENABLE, qp, 1, true); /* counts from the new beginning */
	assert_int_equal(sent(&b), 1);
	bench_close(&b);
}

static void enable__of_a_queue_that_has_gone_fails(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, rig_cq_create(b.rig, 64, NULL), MANAGED_SEND, true);
	post_wait(&b, 1, 1, true);
	post_enable(&b, 2, NIC_WR_SEND_ENABLE, qp, 0, true);
	assert_int_equal(nic_qp_destroy(qp), 0);
	tick(&b, 1);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b.rig->send_cq, 2, NIC_WC_LOC_QP_OP_ERR);
	bench_close(&b);
}

static void enable__in_sqd_nothing_starts(void **state)
{
	struct bench b;
	struct nic_qp *qp;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 2);
	state_of(&b, qp, NIC_QPS_SQD);
	post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 1, true);
	assert_int_equal(sent(&b), 0);
	b.rig->qp = qp;
	b.rig->attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &b.rig->attr, NIC_QP_STATE), 0);
	b.rig->qp = b.main;
	assert_int_equal(sent(&b), 1); /* and the other waits on */
	bench_close(&b);
}

static void enable__is_refused(void **state)
{
	struct bench b, other;
	struct nic_qp *qp, *receives, *foreign;
	struct nic_send_wr wr;
	const struct rig_opts srq = {.srq = true};
	struct rig *shared;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	bench_open(&other, NIC_QPT_RC);
	qp = more(&b, b.ticks, MANAGED_SEND, true);
	receives = more(&b, b.ticks, MANAGED_RECV, true);
	foreign = more(&other, other.ticks, MANAGED_SEND, true);
	post_sends(&b, qp, 2);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, qp, 3, true); /* more than there are */
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr.enable.count = UINT32_MAX;
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, NULL, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, b.main, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, receives, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = enable_wr(1, NIC_WR_RECV_ENABLE, qp, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	wr = enable_wr(1, NIC_WR_SEND_ENABLE, foreign, 0, true);
	assert_int_equal(nic_post_send(b.main, &wr), -EINVAL);
	assert_int_equal(sent(&b), 0);
	post_enable(&b, 1, NIC_WR_SEND_ENABLE, qp, 1, true); /* nothing has been counted for those */
	assert_int_equal(sent(&b), 1);
	bench_close(&other);
	bench_close(&b);

	shared = rig_create(&srq); /* who takes from a queue that is shared cannot say when */
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

static void enable__queries_tell_what_a_queue_is(void **state)
{
	struct bench b;
	struct nic_qp_attr attr;
	struct nic_qp_init init;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	nic_qp_query(more(&b, b.ticks, MANAGED_SEND, false), &attr, &init);
	assert_true(init.cross_channel && init.managed_send && !init.managed_recv);
	nic_qp_query(more(&b, b.ticks, MANAGED_RECV, false), &attr, &init);
	assert_true(init.cross_channel && !init.managed_send && init.managed_recv);
	bench_close(&b);
}

/* ---- both: a program --------------------------------------------------------------------------------------------- */

/* Side b answers each message by itself: its program waits for a message, and then lets the next answer go. Packets are lost. */
static void program__answers_messages_without_anybody_under_loss(void **state)
{
	const struct rig_opts opts = {.cross_channel = true};
	const struct pair_rule rules[] = {{PAIR_A, SEND_ONLY, 2, PAIR_DROP},   {PAIR_B, SEND_ONLY, 3, PAIR_DROP},
					  {PAIR_B, ACK, 1, PAIR_DROP},	       {PAIR_A, SEND_ONLY, 6, PAIR_SWAP},
					  {PAIR_B, SEND_ONLY, 7, PAIR_DOUBLE}, {PAIR_A, ACK, 4, PAIR_DROP}};
	const unsigned rounds = 8;
	struct pair *pair = pair_create(&opts, 0x10, 0xfffffe);
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	struct bench program = {.rig = b, .main = b->qp};
	struct nic_cq *done = rig_cq_create(b, 64, NULL);
	struct nic_qp *runner;

	(void)state;
	pair_script(pair, rules, sizeof(rules) / sizeof(rules[0]));
	runner = more(&program, done, 0, true);
	for (unsigned i = 0; i < rounds; i++) {
		struct nic_send_wr wait = wait_wr(2 * i, b->recv_cq, 1, true);
		struct nic_send_wr nop = {.wr_id = 2 * i + 1, .opcode = NIC_WR_NOP};
		struct nic_send_wr answer = wait_wr(1000 + i, done, 2, true);

		rig_post_recv(b, i, 1024 + 64 * i, 64);
		rig_post_recv(a, i, 1024 + 64 * i, 64);
		assert_int_equal(nic_post_send(runner, &wait), 0);
		assert_int_equal(nic_post_send(runner, &nop), 0);
		assert_int_equal(nic_post_send(b->qp, &answer), 0); /* of the queue that answers: a WAIT of its own */
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

/* ---- calculating ----------------------------------------------------------------------------------------------- */

static void operand_at(struct rig *rig, uint32_t offset, uint64_t value, uint64_t place)
{
	wire_put64(rig->arena + offset, value);
	wire_put64(rig->arena + offset + 8, place);
}

static void calc__what_is_sent_is_calculated_when_it_is(void **state)
{
	const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_SEND_WITH_IMM, NIC_WR_RDMA_WRITE,
					      NIC_WR_RDMA_WRITE_WITH_IMM};
	const unsigned ops[] = {SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY, WRITE_ONLY_IMM};
	struct bench b;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	for (unsigned i = 0; i < 4; i++) {
		struct nic_sge sges[] = {{rig_va(b.rig, 0), 16, b.rig->lkey}, {rig_va(b.rig, 64), 32, b.rig->lkey}};
		struct nic_send_wr wr = rig_wr(b.rig, i, opcodes[i], 0, 16);
		struct packet p;

		wr.sg_list = sges;
		wr.num_sge = 2;
		wr.flags = NIC_SEND_CALC;
		wr.rdma.calc_op = NIC_CALC_ADD;
		wr.rdma.calc_type = NIC_CALC_UINT;
		post_wait(&b, 10, 1, true);
		rig_post(b.rig, &wr);
		rig_expect_silence(b.rig);
		operand_at(b.rig, 0, 1000 + i, 1); /* only now */
		operand_at(b.rig, 64, 200, 2);
		operand_at(b.rig, 80, 30, 3);
		tick(&b, 1);
		p = rig_expect_tx(b.rig, ops[i], RIG_SQ_PSN + i);
		assert_int_equal(p.payload_len, 16);
		assert_int_equal(wire_get64(p.payload), 1230 + i);
		assert_int_equal(wire_get64(p.payload + 8), 0);
		rig_ack(b.rig, RIG_SQ_PSN + i, SYN_ACK);
		rig_expect_wc(b.rig->send_cq, 10, NIC_WC_SUCCESS);
		assert_int_equal(rig_expect_wc(b.rig->send_cq, i, NIC_WC_SUCCESS).byte_len, 16);
	}
	bench_close(&b);
}

static void calc__memory_that_is_not_there_is_an_error(void **state)
{
	struct bench b;
	struct nic_send_wr wr;
	struct nic_sge sge;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	wr = rig_wr(b.rig, 1, NIC_WR_SEND, 0, 16);
	sge = (struct nic_sge){rig_va(b.rig, RIG_ARENA - 16), 32, b.rig->lkey};
	wr.sg_list = &sge;
	wr.flags = NIC_SEND_CALC;
	rig_post(b.rig, &wr);
	rig_expect_silence(b.rig);
	rig_expect_wc(b.rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	bench_close(&b);
}

static void calc__is_refused(void **state)
{
	struct bench b;
	struct nic_sge sge;
	struct nic_send_wr good, wr;

	(void)state;
	bench_open(&b, NIC_QPT_RC);
	sge = (struct nic_sge){rig_va(b.rig, 0), 32, b.rig->lkey};
	good = rig_wr(b.rig, 1, NIC_WR_SEND, 0, 16);
	good.sg_list = &sge;
	good.flags = NIC_SEND_CALC;
	assert_int_equal(nic_post_send_check(b.main, &good, 0), 0);
	wr = good;
	wr.opcode = NIC_WR_RDMA_READ;
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
	assert_int_equal(nic_post_send_check(more(&b, b.ticks, 0, true), &good, 0), -EINVAL);
	bench_close(&b);
	bench_open(&b, NIC_QPT_UC);
	sge = (struct nic_sge){rig_va(b.rig, 0), 16, b.rig->lkey};
	assert_int_equal(nic_post_send_check(b.main, &good, 0), -EINVAL);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__what_is_behind_it_starts_with_the_entry_that_is_waited_for),
		cmocka_unit_test(wait__for_a_message_fires_when_it_arrives),
		cmocka_unit_test(wait__counts_from_where_the_last_one_left_it),
		cmocka_unit_test(wait__counts_what_was_there_before_anybody_waited),
		cmocka_unit_test(wait__for_nothing_is_over_at_once),
		cmocka_unit_test(wait__completes_behind_what_was_posted_before),
		cmocka_unit_test(wait__with_a_fence_waits_for_reads_first),
		cmocka_unit_test(wait__is_passed_once_whatever_is_lost),
		cmocka_unit_test(wait__a_chain_of_queues_runs_on_one_entry),
		cmocka_unit_test(wait__of_uc_and_ud_queues),
		cmocka_unit_test(wait__is_refused),
		cmocka_unit_test(wait__a_full_queue_counts_nothing),
		cmocka_unit_test(wait__holds_its_cq_until_it_is_over),
		cmocka_unit_test(wait__ends_with_its_queue),
		cmocka_unit_test(wait__of_a_peer_that_is_dead_is_flushed),
		cmocka_unit_test(wait__sees_entries_in_error),
		cmocka_unit_test(wait__for_a_cq_that_overflows_fails),
		cmocka_unit_test(cq__that_ignores_overruns_counts_on),
		cmocka_unit_test(enable__requests_of_a_managed_queue_start_when_it_says_so),
		cmocka_unit_test(enable__counts_from_where_the_last_one_left_it),
		cmocka_unit_test(enable__says_when_it_is_posted_how_many_all_are),
		cmocka_unit_test(enable__in_a_managed_queue_waits_as_well),
		cmocka_unit_test(enable__receives_are_there_when_it_says_so),
		cmocka_unit_test(enable__what_was_held_is_flushed),
		cmocka_unit_test(enable__of_a_queue_that_has_been_reset_does_nothing),
		cmocka_unit_test(enable__of_a_queue_that_has_gone_fails),
		cmocka_unit_test(enable__in_sqd_nothing_starts),
		cmocka_unit_test(enable__is_refused),
		cmocka_unit_test(enable__queries_tell_what_a_queue_is),
		cmocka_unit_test(program__answers_messages_without_anybody_under_loss),
		cmocka_unit_test(calc__what_is_sent_is_calculated_when_it_is),
		cmocka_unit_test(calc__memory_that_is_not_there_is_an_error),
		cmocka_unit_test(calc__is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
