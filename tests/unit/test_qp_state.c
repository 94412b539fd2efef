/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_qp_state.c - the states of a QP and the attributes of each transition, for all pairs of states of all three
 * services (IBTA 10.3.1, 11.2.4.2; conformance points QS-01 to QS-03, QS-07, QS-08, QS-18). The table below was derived
 * from the specification's text, not from the code's table.
 */
#include "resp_util.h"

enum { RESET = NIC_QPS_RESET, INIT, RTR, RTS, SQD, SQE, ERR, STATES };

#define ALL_ATTRS                                                                                                      \
	(NIC_QP_CUR_STATE | NIC_QP_EN_SQD_ASYNC_NOTIFY | NIC_QP_ACCESS_FLAGS | NIC_QP_PKEY_INDEX | NIC_QP_PORT |       \
	 NIC_QP_QKEY | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY |            \
	 NIC_QP_RQ_PSN | NIC_QP_MAX_QP_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER | NIC_QP_SQ_PSN | NIC_QP_MAX_DEST_RD_ATOMIC |  \
	 NIC_QP_DEST_QPN | NIC_QP_PATH_MIG_STATE)

static const enum nic_qp_type types[] = {NIC_QPT_RC, NIC_QPT_UC, NIC_QPT_UD};

/* @return whether the transition is legal for the service. *must, *may: its required and optional attributes. */
static bool expected(enum nic_qp_type type, int from, int to, uint32_t *must, uint32_t *may)
{
	bool rc = type == NIC_QPT_RC, ud = type == NIC_QPT_UD;
	uint32_t rights = ud ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS, migration = ud ? 0 : NIC_QP_PATH_MIG_STATE;

	*must = *may = 0;
	if (to == RESET || to == ERR)
		return true;
	if ((from == RESET || from == INIT) && to == INIT) {
		*(from == RESET ? must : may) = NIC_QP_PKEY_INDEX | NIC_QP_PORT | rights;
		return true;
	}
	if (from == INIT && to == RTR) {
		*may = NIC_QP_PKEY_INDEX | rights;
		if (!ud)
			*must = NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN;
		if (rc)
			*must |= NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
		return true;
	}
	if (from == RTR && to == RTS) {
		*must = NIC_QP_SQ_PSN;
		*may = NIC_QP_CUR_STATE | rights | migration;
		if (rc) {
			*must |= NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
			*may |= NIC_QP_MIN_RNR_TIMER;
		}
		return true;
	}
	if ((from == RTS || from == SQD || (from == SQE && !rc)) && to == RTS) {
		*may = NIC_QP_CUR_STATE | rights | (rc ? NIC_QP_MIN_RNR_TIMER : 0) | (from == SQE ? 0 : migration);
		return true;
	}
	if (from == RTS && to == SQD) {
		*may = NIC_QP_EN_SQD_ASYNC_NOTIFY;
		return true;
	}
	if (from == SQD && to == SQD) {
		*may = NIC_QP_PKEY_INDEX | rights | migration;
		if (!ud)
			*may |= NIC_QP_AV;
		if (rc)
			*may |= NIC_QP_PORT | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY |
				NIC_QP_MAX_QP_RD_ATOMIC | NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
		return true;
	}
	return false;
}

/* Move a UC or UD QP to SQE by a send error. */
static void to_sqe(struct rig *rig)
{
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);
	struct nic_ah *ah;

	rig->sge.lkey ^= 1;
	if (rig->opts.type == NIC_QPT_UD) {
		assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
		wr.ud.ah = ah;
	}
	rig_post(rig, &wr);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	if (rig->opts.type == NIC_QPT_UD)
		nic_ah_destroy(ah);
}

static struct rig *rig_in(enum nic_qp_type type, int state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.type = type});

	if (state == INIT)
		rig_to_init(rig);
	else if (state == RTR)
		rig_to_rtr(rig);
	else if (state == RTS || state == SQD || state == SQE)
		rig_to_rts(rig);
	if (state == SQD || state == ERR)
		rig_modify_state(rig, (enum nic_qp_state)state);
	if (state == SQE)
		to_sqe(rig);
	assert_int_equal(nic_qp_state(rig->qp), state);
	return rig;
}

static int modify(struct rig *rig, int to, uint32_t mask)
{
	rig->attr.qp_state = (enum nic_qp_state)to;
	rig->attr.cur_qp_state = nic_qp_state(rig->qp);
	return nic_qp_modify(rig->qp, &rig->attr, mask | NIC_QP_STATE);
}

/* The modify is refused and changes nothing. */
static void expect_refused(struct rig *rig, int to, uint32_t mask)
{
	struct nic_qp_attr before = {0}, after = {0};
	struct nic_qp_init init;

	nic_qp_query(rig->qp, &before, &init);
	rig->attr.qp_access_flags ^=
		NIC_ACCESS_REMOTE_READ; /* would show if the refused modify had changed attributes */
	rig->attr.qkey ^= 1;
	assert_int_equal(modify(rig, to, mask), -EINVAL);
	rig->attr.qp_access_flags ^= NIC_ACCESS_REMOTE_READ;
	rig->attr.qkey ^= 1;
	nic_qp_query(rig->qp, &after, &init);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void qp_state__QS_01_new_qp_is_in_reset(void **state)
{
	for (unsigned t = 0; t < 3; t++) {
		struct rig *rig = rig_create(&(struct rig_opts){.type = types[t]});
		struct nic_qp_attr attr;
		struct nic_qp_init init;

		nic_qp_query(rig->qp, &attr, &init);
		assert_int_equal(attr.qp_state, RESET);
		assert_int_equal(attr.cur_qp_state, RESET);
		assert_int_equal(init.type, types[t]);
		assert_ptr_equal(init.send_cq, rig->send_cq);
		rig_destroy(rig);
	}
}

/* Each pair of states of each service: a legal transition works with the required attributes only and with all optional
 * ones, an illegal transition is refused. */
static void qp_state__QS_02_legal_and_illegal_transitions(void **state)
{
	uint32_t must, may;

	for (unsigned i = 0; i < 3 * STATES * STATES; i++) {
		enum nic_qp_type type = types[i / (STATES * STATES)];
		int from = i / STATES % STATES, to = i % STATES;
		bool legal = expected(type, from, to, &must, &may);

		if (from == SQE && type == NIC_QPT_RC)
			continue; /* an RC QP is never in SQE */
		struct rig *rig = rig_in(type, from);

		if (legal) {
			assert_int_equal(modify(rig, to, must), 0);
			assert_int_equal(nic_qp_state(rig->qp), to);
			rig_destroy(rig);
			rig = rig_in(type, from);
			assert_int_equal(modify(rig, to, must | may), 0);
			assert_int_equal(nic_qp_state(rig->qp), to);
		} else {
			expect_refused(rig, to, 0);
			expect_refused(rig, to, NIC_QP_CUR_STATE);
		}
		rig_destroy(rig);
	}
}

static void qp_state__QS_02_missing_required_or_extra_attributes_are_refused(void **state)
{
	uint32_t must, may;

	for (unsigned i = 0; i < 3 * STATES * STATES; i++) {
		enum nic_qp_type type = types[i / (STATES * STATES)];
		int from = i / STATES % STATES, to = i % STATES;

		if (to == RESET || to == ERR || !expected(type, from, to, &must, &may))
			continue;
		struct rig *rig = rig_in(type, from);

		for (uint32_t bit = 1; bit <= NIC_QP_DEST_QPN; bit <<= 1) {
			if (must & bit)
				expect_refused(rig, to, must & ~bit);
			else if ((ALL_ATTRS & bit) && !(may & bit))
				expect_refused(rig, to, must | bit);
		}
		rig_destroy(rig);
	}
}

static void qp_state__QS_02_illegal_values_are_refused(void **state)
{
	struct rig *rig = rig_create(NULL);
	const struct nic_qp_attr good = rig->attr;
	const uint32_t rtr = NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN | NIC_QP_MAX_DEST_RD_ATOMIC |
			     NIC_QP_MIN_RNR_TIMER;
	const uint32_t rts =
		NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
	const uint32_t init = NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS;

#define BAD(to, mask, field, value)                                                                                    \
	do {                                                                                                           \
		rig->attr.field = value;                                                                               \
		expect_refused(rig, to, mask);                                                                         \
		rig->attr = good;                                                                                      \
	} while (0)
	BAD(INIT, init, port_num, 2);
	BAD(INIT, init, port_num, 0);
	BAD(INIT, init, pkey_index, 1);
	BAD(INIT, init, qp_access_flags, 1u << 25);
	rig_to_init(rig);
	BAD(RTR, rtr, path_mtu, (enum nic_mtu)0);
	BAD(RTR, rtr, path_mtu, (enum nic_mtu)6);
	BAD(RTR, rtr, dest_qp_num, 0x1000000);
	BAD(RTR, rtr, max_dest_rd_atomic, 129);
	BAD(RTR, rtr, min_rnr_timer, 32);
	BAD(RTR, rtr, av.sgid_index, 7); /* an empty GID table entry */
	BAD(RTR, rtr, av.sgid_index, 1); /* an entry of the other address family */
	BAD(RTR, rtr, av.sgid_index, 200);
	rig_to_rtr(rig);
	BAD(RTS, rts, timeout, 32);
	BAD(RTS, rts, retry_cnt, 8);
	BAD(RTS, rts, rnr_retry, 8);
	BAD(RTS, rts, max_rd_atomic, 129);
	rig_to_rts(rig);
	rig->attr.qp_state = NIC_QPS_RTS;
	rig->attr.cur_qp_state = NIC_QPS_SQD; /* the QP is in RTS */
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE | NIC_QP_CUR_STATE), -EINVAL);
#undef BAD
	rig_destroy(rig);
}

static void qp_state__QS_02_path_mtu_over_the_port_mtu_is_refused(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.active_mtu = NIC_MTU_1024});
	const uint32_t rtr = NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN | NIC_QP_MAX_DEST_RD_ATOMIC |
			     NIC_QP_MIN_RNR_TIMER;

	rig_to_init(rig);
	rig->attr.path_mtu = NIC_MTU_2048;
	expect_refused(rig, RTR, rtr);
	rig->attr.path_mtu = NIC_MTU_1024;
	assert_int_equal(modify(rig, RTR, rtr), 0);
	rig_destroy(rig);
}

static void qp_state__QS_03_receives_are_posted_from_init_on(void **state)
{
	for (unsigned i = 0; i < 3 * STATES; i++) {
		enum nic_qp_type type = types[i / STATES];
		struct nic_recv_wr wr = {.wr_id = 1};
		int from = i % STATES;

		if (from == SQE && type == NIC_QPT_RC)
			continue;
		struct rig *rig = rig_in(type, from);

		assert_int_equal(nic_post_recv(rig->qp, &wr), from == RESET ? -EINVAL : 0);
		rig_destroy(rig);
	}
}

/* A receive posted in INIT is used by the first message. */
static void qp_state__QS_03_receive_posted_in_init_is_used(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig_to_init(rig);
	rig_post_recv(rig, 1, 0, 64);
	rig_to_rtr(rig);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void qp_state__QS_07_reset_clears_everything_for_reuse(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_wc wc;

	/* The reset has to clear posted WQEs, unanswered requests, an open message, saved results and the error. */
	arena_set_u64(rig, 4096, 7);
	rig_post_recv(rig, 1, 0, 1024);
	rig_post_recv(rig, 2, 0, 1024);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_post_send(rig, 4, NIC_WR_RDMA_READ, 0, 64);
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	rx_atomic(rig, FETCH_ADD, E, 4096, 1, 0);
	rx_read(rig, E + 1, 0, 64);
	rig_rx_data(rig, SEND_FIRST, E + 2, 0, RIG_MTU);
	rig_modify_state(rig, NIC_QPS_ERR);
	assert_true(nic_cq_count(rig->send_cq) == 2 && nic_cq_count(rig->recv_cq) == 2);
	rig_modify_state(rig, NIC_QPS_RESET);
	rig_expect_no_wc(rig->send_cq); /* 11.2.4.2: a reset removes the QP's completions */
	rig_expect_no_wc(rig->recv_cq);
	rig_advance(rig, 100 * rig_timeout_ns(rig->attr.timeout)); /* the timers are stopped, too */
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rig_expect_silence(rig);

	rig->attr.rq_psn = E + 1; /* makes the atomic and the READ below duplicates */
	rig->attr.sq_psn = 5;
	rig_to_rts(rig);
	rx_atomic(rig, FETCH_ADD, E, 4096, 1, 0);
	rig_expect_silence(rig); /* no saved result is left to answer them */
	assert_int_equal(arena_u64(rig, 4096), 8);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8); /* neither the open message nor a receive WQE is left */
	rig_expect_ack(rig, E + 1, SYN_RNR | 12);
	rig_post_recv(rig, 5, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8);
	assert_int_equal(rig_expect_ack(rig, E + 1, SYN_ACK).msn, 1);
	rig_expect_wc(rig->recv_cq, 5, NIC_WC_SUCCESS);
	rig_post_send(rig, 6, NIC_WR_RDMA_READ, 0, 8);
	rig_expect_tx(rig, READ_REQ, 5);
	rig_rx_data(rig, READ_RESP_ONLY, 5, 0, 8);
	rig_expect_wc(rig->send_cq, 6, NIC_WC_SUCCESS);
	assert_false(rig_poll(rig->send_cq, &wc));
	rig_destroy(rig);
}

/* A reset from RTS, without ERR in between, forgets queued requests, responses and a delayed ACK. */
static void qp_state__QS_07_reset_from_rts_discards_all_pending_packets(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = 1000});

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rx_read(rig, E, 0, 4096);
	rx_write(rig, WRITE_ONLY, E + 16, 0, 8, 8);
	rig_modify_state(rig, NIC_QPS_RESET);
	rig_advance(rig, 1000000);
	rig_expect_silence(rig);
	rig_to_rts(rig);
	rig_advance(rig, 1000000);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void qp_state__QS_08_sqd_finishes_the_open_message_and_reports_drained(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN + 1);
	rig->attr.en_sqd_async_notify = true;
	assert_int_equal(modify(rig, SQD, NIC_QP_EN_SQD_ASYNC_NOTIFY), 0);
	rig_expect_tx(rig, SEND_LAST,
		      RIG_SQ_PSN + 2); /* SQD: the message in progress is finished, but no new message begins */
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_false(rig_event(rig, NIC_EVENT_SQ_DRAINED, RIG_USER_QP(rig)));
	struct nic_qp_attr attr;
	struct nic_qp_init init;

	nic_qp_query(rig->qp, &attr, &init);
	assert_true(attr.sq_draining);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_ACK);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 1ull << NIC_EVENT_SQ_DRAINED);
	nic_qp_query(rig->qp, &attr, &init);
	assert_false(attr.sq_draining);
	rig_post_send(rig, 4, NIC_WR_SEND, 0, 8); /* accepted, but not sent in SQD */
	rig_expect_silence(rig);
	assert_int_equal(modify(rig, RTS, 0), 0);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 3);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 4);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

static void qp_state__QS_08_drained_event_only_when_asked_and_at_once_when_idle(void **state)
{
	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_in(types[i / 2], RTS);

		rig->attr.en_sqd_async_notify = i & 1;
		assert_int_equal(modify(rig, SQD, NIC_QP_EN_SQD_ASYNC_NOTIFY), 0);
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), i & 1 ? 1ull << NIC_EVENT_SQ_DRAINED : 0);
		rig_destroy(rig);
	}
}

/* A QPN is not reused while packets for its previous QP can still arrive. */
static void qp_state__QS_18_a_qpn_is_not_reused_soon(void **state)
{
	enum { KEEP = 256 };
	struct rig *rig = rig_create(&(struct rig_opts){.nic = {.qpn_base = 0x400, .qpn_bits = 10}});
	uint32_t last[KEEP] = {0};

	for (unsigned i = 0; i < 4 * 1024; i++) {
		struct nic_qp *qp = rig_qp_create(rig);
		uint32_t qpn = nic_qp_num(qp);

		assert_in_range(qpn, 0x400, 0x7ff);
		assert_int_not_equal(qpn, rig->qpn);
		for (unsigned k = 0; k < KEEP; k++)
			assert_int_not_equal(qpn, last[k]);
		last[i % KEEP] = qpn;
		nic_qp_destroy(qp);
	}
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_state__QS_01_new_qp_is_in_reset),
		cmocka_unit_test(qp_state__QS_02_legal_and_illegal_transitions),
		cmocka_unit_test(qp_state__QS_02_missing_required_or_extra_attributes_are_refused),
		cmocka_unit_test(qp_state__QS_02_illegal_values_are_refused),
		cmocka_unit_test(qp_state__QS_02_path_mtu_over_the_port_mtu_is_refused),
		cmocka_unit_test(qp_state__QS_03_receives_are_posted_from_init_on),
		cmocka_unit_test(qp_state__QS_03_receive_posted_in_init_is_used),
		cmocka_unit_test(qp_state__QS_07_reset_clears_everything_for_reuse),
		cmocka_unit_test(qp_state__QS_07_reset_from_rts_discards_all_pending_packets),
		cmocka_unit_test(qp_state__QS_08_sqd_finishes_the_open_message_and_reports_drained),
		cmocka_unit_test(qp_state__QS_08_drained_event_only_when_asked_and_at_once_when_idle),
		cmocka_unit_test(qp_state__QS_18_a_qpn_is_not_reused_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
