/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_qp_error.c - the error state, flushing, destruction, and the overflow of a CQ (IBTA 10.3.1, 10.2.4.4, 10.10;
 * conformance points QS-04 to QS-06, QS-09 to QS-15).
 */
#include "pair.h"
#include "resp_util.h"

static const enum nic_qp_type types[] = {NIC_QPT_RC, NIC_QPT_UC, NIC_QPT_UD};

static struct nic_send_wr any_send(struct rig *rig, uint64_t wr_id, struct nic_ah *ah)
{
	struct nic_send_wr wr = rig_wr(rig, wr_id, NIC_WR_SEND, 0, 8);

	if (rig->opts.type == NIC_QPT_UD)
		wr.ud.ah = ah;
	return wr;
}

static void qp_error__QS_04_both_queues_are_flushed_and_later_posts_too(void **state)
{
	for (unsigned t = 0; t < 3; t++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[t], .sig_none = true});
		struct nic_ah *ah;
		struct nic_send_wr wr;

		assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
		for (uint64_t i = 1; i <= 3; i++) {
			rig_post_recv(rig, 100 + i, 0, 64);
			wr = any_send(rig, i, ah);
			rig_post(rig, &wr);
		}
		rig_modify_state(rig, NIC_QPS_ERR);
		for (uint64_t i = 1; i <= 3; i++) { /* unsignaled requests as well: an error always completes */
			rig_expect_wc(rig->send_cq, i, NIC_WC_WR_FLUSH_ERR);
			rig_expect_wc(rig->recv_cq, 100 + i, NIC_WC_WR_FLUSH_ERR);
		}
		wr = any_send(rig, 4, ah);
		rig_post(rig, &wr);
		rig_expect_wc(rig->send_cq, 4, NIC_WC_WR_FLUSH_ERR);
		rig_post_recv(rig, 104, 0, 64);
		assert_int_equal(rig_expect_wc(rig->recv_cq, 104, NIC_WC_WR_FLUSH_ERR).qp_num, rig->qpn);
		rig_expect_no_wc(rig->send_cq);
		rig_expect_no_wc(rig->recv_cq);
		rig_expect_silence(rig);
		nic_ah_destroy(ah);
		rig_destroy(rig);
	}
}

static void qp_error__QS_04_error_found_by_the_nic_flushes_too(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (uint64_t i = 1; i <= 3; i++) {
		rig_post_recv(rig, 100 + i, 0, 64);
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
	}
	assert_int_equal(rig_drain(rig), 3);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACCESS);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_REM_ACCESS_ERR);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_WR_FLUSH_ERR);
	for (uint64_t i = 1; i <= 3; i++)
		rig_expect_wc(rig->recv_cq, 100 + i, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_destroy(rig);
}

/* ACKs, responses and timer expiries after the QP's error produce no successful completion, whichever request they are
 * for. */
static void qp_error__QS_05_completes_once_in_order_and_no_success_after_error(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (uint64_t i = 0; i < 8; i++)
		rig_post_send(rig, i, i == 5 ? NIC_WR_RDMA_READ : NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 8);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_INV);
	rig_ack(rig, RIG_SQ_PSN + 4, SYN_ACK);
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN + 5, 0, 8);
	rig_ack(rig, RIG_SQ_PSN + 7, SYN_ACK);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_INV);
	rig_advance(rig, 1000 * rig_timeout_ns(rig->attr.timeout));
	for (uint64_t i = 0; i < 8; i++)
		rig_expect_wc(rig->send_cq, i,
			      i < 3    ? NIC_WC_SUCCESS
			      : i == 3 ? NIC_WC_REM_INV_REQ_ERR
				       : NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_untouched(rig, 0, 8); /* the late READ response was not written */
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/* The QP fails in the middle of a message: the message's receive WQE is flushed once, before the WQEs after it. */
static void qp_error__QS_06_receive_wqe_in_use_is_flushed_exactly_once(void **state)
{
	for (unsigned srq = 0; srq < 2; srq++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.srq = srq});

		for (uint64_t i = 1; i <= 3; i++)
			rig_post_recv(rig, i, 0, 1024);
		rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
		rig_modify_state(rig, NIC_QPS_ERR);
		rig_rx_data(rig, SEND_LAST, E + 1, 0, 8);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
		if (!srq) { /* WQEs of an SRQ stay in the SRQ */
			rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
			rig_expect_wc(rig->recv_cq, 3, NIC_WC_WR_FLUSH_ERR);
		}
		rig_expect_no_wc(rig->recv_cq);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

/* A packet that moves the QP to ERR completes its receive WQE in error; this WQE is not flushed as well. */
static void qp_error__QS_06_failing_packet_is_consumed_once(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 1, 0, 4);
	rig_post_recv(rig, 2, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_LEN_ERR);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_ack(rig, E, SYN_INV);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void qp_error__bad_key_of_a_write_with_immediate_fails_its_receive(void **state)
{
	for (unsigned srq = 0; srq < 2; srq++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.srq = srq});
		struct packet p = rig_peer_data(rig, WRITE_ONLY_IMM, E, 0, 8);

		rig_post_recv(rig, 1, 0, 64);
		if (!srq)
			rig_post_recv(rig, 2, 64, 64);
		p.dma_len = 8;
		p.rkey ^= 0x5500;
		rig_rx(rig, &p);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_ACCESS_ERR);
		if (!srq)
			rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
		assert_false(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
		expect_fatal(rig, E, SYN_ACCESS);
		rig_destroy(rig);
	}
}

/* The error is found before the immediate data arrives: no receive WQE is concerned. */
static void qp_error__bad_key_before_the_immediate_leaves_the_receive(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);

	rig_post_recv(rig, 1, 0, 64);
	p.dma_len = 2 * RIG_MTU;
	p.rkey ^= 0x5500;
	rig_rx(rig, &p);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
	assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
	expect_fatal(rig, E, SYN_ACCESS);
	rig_destroy(rig);
}

static void qp_error__region_gone_before_the_immediate_fails_the_receive(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_FIRST, E, 0, RIG_MTU);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 8192, rig_va(rig, 0),
				    NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_LOCAL_WRITE, &mr),
			 0);
	rig_post_recv(rig, 1, 0, 64);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 2 * RIG_MTU;
	rig_rx(rig, &p);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_rx_data(rig, WRITE_LAST_IMM, E + 1, RIG_MTU, RIG_MTU);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_ACCESS_ERR);
	expect_fatal(rig, E + 1, SYN_ACCESS);
	rig_destroy(rig);
}

/* A READ fails after the responder has taken the receive WQE of a later SEND: that WQE is flushed, and an event tells
 * of the READ. */
static void qp_error__a_read_that_fails_late_leaves_the_receive_of_a_later_send(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, E);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 8192, rig_va(rig, 0), NIC_ACCESS_REMOTE_READ, &mr), 0);
	rig_post_recv(rig, 1, 0, 4096);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 8;
	rig_rx(rig, &p);
	rig_rx_data(rig, SEND_FIRST, E + 1, 0, RIG_MTU);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_expect_ack(rig, E, SYN_ACCESS);
	rig_expect_silence(rig);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
	assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_destroy(rig);
}

static void qp_error__QS_09_send_error_leads_uc_and_ud_to_sqe_and_rc_to_err(void **state)
{
	for (unsigned t = 0; t < 3; t++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[t]});
		bool rc = types[t] == NIC_QPT_RC;
		struct nic_send_wr wr;
		struct nic_ah *ah;

		assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
		rig_post_recv(rig, 100, 0, 64);
		wr = any_send(rig, 1, ah);
		rig->sge.lkey ^= 1;
		rig_post(rig, &wr);
		wr = any_send(rig, 2, ah);
		rig_post(rig, &wr);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
		assert_int_equal(nic_qp_state(rig->qp), rc ? NIC_QPS_ERR : NIC_QPS_SQE);
		if (rc) {
			rig_expect_wc(rig->recv_cq, 100, NIC_WC_WR_FLUSH_ERR);
		} else {
			rig_expect_no_wc(rig->recv_cq); /* the receive queue still works */
			wr = any_send(rig, 3, ah);
			rig_post(rig, &wr);
			rig_expect_wc(rig->send_cq, 3, NIC_WC_WR_FLUSH_ERR);
			rig_modify_state(rig, NIC_QPS_RTS);
			wr = any_send(rig, 4, ah);
			rig_post(rig, &wr);
			assert_int_equal(rig_drain(rig), 1);
			rig_expect_wc(rig->send_cq, 4, NIC_WC_SUCCESS);
		}
		nic_ah_destroy(ah);
		rig_destroy(rig);
	}
}

static void qp_error__QS_10_only_a_qp_on_an_srq_raises_the_last_wqe_event(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		bool srq = i & 1, by_nic = i & 2;
		struct rig *rig = rig_ready(&(struct rig_opts){.srq = srq});

		if (by_nic) {
			rig_rx_data(rig, SEND_MIDDLE, E, 0, RIG_MTU);
			assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		} else {
			rig_modify_state(rig, NIC_QPS_ERR);
		}
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)) >> NIC_EVENT_QP_LAST_WQE & 1, srq);
		rig_modify_state(rig, NIC_QPS_ERR); /* a second change to ERR raises no second event */
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
		rig_destroy(rig);
	}
}

static void qp_error__QS_11_peer_in_err_or_reset_ends_in_retries_exceeded(void **state)
{
	static const enum nic_wr_opcode ops[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ,
						 NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned i = 0; i < 8; i++) {
		struct pair *pair = pair_create(NULL, 0x10, 0x20);
		struct nic_send_wr wr = pair_wr(pair, 1, ops[i / 2], 0, 8, 64);

		rig_post_recv(pair->rig[1], 9, 0, 64);
		rig_modify_state(pair->rig[1], i & 1 ? NIC_QPS_ERR : NIC_QPS_RESET);
		rig_post(pair->rig[0], &wr);
		pair_run(pair);
		rig_expect_wc(pair->rig[0]->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
		assert_int_equal(nic_qp_state(pair->rig[0]->qp), NIC_QPS_ERR);
		assert_int_equal(pair_count(pair, PAIR_B, PAIR_ANY_OP), 0);
		rig_expect_untouched(pair->rig[1], 0, RIG_ARENA);
		pair_destroy(pair);
	}
}

static void qp_error__QS_12_a_qp_with_wqes_and_a_bound_window_may_be_destroyed(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = {.wr_id = 7, .opcode = NIC_WR_BIND_MW};
	struct nic_mw *mw;

	assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, &mw), 0);
	wr.bind =
		(struct nic_bind){.mw = mw, .mr = rig->mr, .addr = rig_va(rig, 0), .len = 64, .rkey = nic_mw_rkey(mw)};
	rig_post(rig, &wr);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_RDMA_READ, 0, 8);
	rig_post_recv(rig, 3, 0, 64);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rx_read(rig, E, 0, 4096); /* only part of the responses has been sent */
	rig_post_send(rig, 4, NIC_WR_SEND, 0, 8);
	assert_int_equal(nic_qp_destroy(rig->qp), 0);
	rig_advance(rig, 1000 * rig_timeout_ns(8));
	rig_expect_silence(rig);
	rig_rx_data(rig, SEND_ONLY, E + 16, 0, 8);
	assert_int_equal(rig_counter(rig, rx_no_qp), 1);
	assert_int_equal(nic_mr_dereg(rig->mr), -EBUSY); /* a window is still bound to it */
	assert_int_equal(nic_mw_dealloc(mw), 0);
	assert_int_equal(nic_mr_dereg(rig->mr), 0);
	assert_int_equal(nic_cq_destroy(rig->send_cq), 0);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), 0);
	assert_int_equal(nic_pd_free(rig->pd), 0);
	rig_destroy(rig);
}

/* Destroying a QP removes its completions from the CQ, as libibverbs does; completions of other QPs stay, in order. */
static void qp_error__QS_13_destroy_takes_the_completions_of_the_qp(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_qp *qps[3] = {rig->qp, rig_qp_create(rig), rig_qp_create(rig)};

	for (unsigned i = 1; i < 3; i++) {
		rig->qp = qps[i];
		rig_to_init(rig);
		rig_modify_state(rig, NIC_QPS_ERR);
	}
	rig_modify_state(rig, NIC_QPS_ERR);
	nic_qp_destroy(qps[0]);
	for (uint64_t i = 0; i < 10; i++) {
		struct nic_recv_wr wr = {.wr_id = i};

		assert_int_equal(nic_post_recv(qps[1 + i % 2], &wr), 0); /* flushed at once, because the QP is in ERR */
	}
	nic_qp_destroy(qps[1]);
	for (uint64_t i = 1; i < 10; i += 2)
		assert_int_equal(rig_expect_wc(rig->recv_cq, i, NIC_WC_WR_FLUSH_ERR).qp_num, nic_qp_num(qps[2]));
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

static void qp_error__QS_14_full_cq_overwrites_nothing_and_fails_its_qps(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cq_depth = 4});
	struct nic_qp *other = rig_qp_create(rig);
	struct nic_wc wc[8];
	uint64_t qp_events = 0, cq_events = 0;
	struct nic_event event;

	assert_int_equal(nic_cq_depth(rig->recv_cq), 4);
	for (uint64_t i = 0; i < 6; i++)
		rig_post_recv(rig, i, 64 * (uint32_t)i, 64);
	for (uint32_t i = 0; i < 4; i++)
		rig_rx_data(rig, SEND_ONLY, E + i, 8 * i, 8);
	assert_int_equal(rig_events(rig, RIG_USER_RECV_CQ(rig)), 0);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_rx_data(rig, SEND_ONLY, E + 4, 32, 8);
	while (nic_event_next(rig->nic, &event)) {
		if (event.user == RIG_USER_RECV_CQ(rig))
			cq_events |= 1ull << event.type;
		if (event.user == RIG_USER_QP(rig))
			qp_events |= 1ull << event.type;
	}
	assert_int_equal(cq_events, 1ull << NIC_EVENT_CQ_ERR);
	assert_int_equal(qp_events, 1ull << NIC_EVENT_QP_FATAL);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	assert_int_equal(nic_qp_state(other), NIC_QPS_RESET); /* a QP in RESET stays there */
	assert_int_equal(nic_cq_poll(rig->recv_cq, 8, wc), 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(wc[i].wr_id, i);
		assert_int_equal(wc[i].status, NIC_WC_SUCCESS);
	}
	assert_int_equal(nic_cq_poll(rig->recv_cq, 8, wc), -EIO);
	assert_true(rig_counter(rig, cq_overflow) >= 1);
	rig_destroy(rig);
}

static void qp_error__QS_14_all_qps_of_the_cq_fail_and_no_others(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cq_depth = 1});
	struct nic_qp *first = rig->qp, *second, *apart;
	struct nic_cq *recv_cq = rig->recv_cq, *send_cq = rig->send_cq;

	rig->qp = second = rig_qp_create(rig);
	rig_to_rts(rig);
	rig->recv_cq = rig_cq_create(rig, 16, NULL);
	rig->send_cq = rig_cq_create(rig, 16, NULL);
	rig->qp = apart = rig_qp_create(rig);
	rig_to_rts(rig);
	rig->recv_cq = recv_cq;
	rig->send_cq = send_cq;
	rig->qp = first;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK); /* two completions, but room for one in the CQ */
	assert_int_equal(nic_qp_state(first), NIC_QPS_ERR);
	assert_int_equal(nic_qp_state(second), NIC_QPS_ERR);
	assert_int_equal(nic_qp_state(apart), NIC_QPS_RTS);
	rig_expect_wc(send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void qp_error__QS_15_cq_and_srq_in_use_cannot_be_destroyed(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.srq = true});

	assert_int_equal(nic_cq_destroy(rig->send_cq), -EBUSY);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), -EBUSY);
	assert_int_equal(nic_srq_destroy(rig->srq), -EBUSY);
	rig_to_rts(rig); /* the CQs and the SRQ still work */
	rig_post_recv(rig, 1, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_qp_destroy(rig->qp), 0);
	assert_int_equal(nic_cq_destroy(rig->send_cq), 0);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), 0);
	assert_int_equal(nic_srq_destroy(rig->srq), 0);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_error__QS_04_both_queues_are_flushed_and_later_posts_too),
		cmocka_unit_test(qp_error__QS_04_error_found_by_the_nic_flushes_too),
		cmocka_unit_test(qp_error__QS_05_completes_once_in_order_and_no_success_after_error),
		cmocka_unit_test(qp_error__QS_06_receive_wqe_in_use_is_flushed_exactly_once),
		cmocka_unit_test(qp_error__QS_06_failing_packet_is_consumed_once),
		cmocka_unit_test(qp_error__bad_key_of_a_write_with_immediate_fails_its_receive),
		cmocka_unit_test(qp_error__bad_key_before_the_immediate_leaves_the_receive),
		cmocka_unit_test(qp_error__region_gone_before_the_immediate_fails_the_receive),
		cmocka_unit_test(qp_error__a_read_that_fails_late_leaves_the_receive_of_a_later_send),
		cmocka_unit_test(qp_error__QS_09_send_error_leads_uc_and_ud_to_sqe_and_rc_to_err),
		cmocka_unit_test(qp_error__QS_10_only_a_qp_on_an_srq_raises_the_last_wqe_event),
		cmocka_unit_test(qp_error__QS_11_peer_in_err_or_reset_ends_in_retries_exceeded),
		cmocka_unit_test(qp_error__QS_12_a_qp_with_wqes_and_a_bound_window_may_be_destroyed),
		cmocka_unit_test(qp_error__QS_13_destroy_takes_the_completions_of_the_qp),
		cmocka_unit_test(qp_error__QS_14_full_cq_overwrites_nothing_and_fails_its_qps),
		cmocka_unit_test(qp_error__QS_14_all_qps_of_the_cq_fail_and_no_others),
		cmocka_unit_test(qp_error__QS_15_cq_and_srq_in_use_cannot_be_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
