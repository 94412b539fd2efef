/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cq.c - completion queues: notification, order, resizing (IBTA 11.4.2; conformance points CQ-01 to CQ-03, CQ-05).
 * CQ overflow is tested in test_qp_error.c.
 */
#include "recv_cq.h"

/* Add a receive completion in error. Works only once, because the QP is in ERR afterwards. */
static void push_error(struct rig *rig, uint64_t wr_id)
{
	rig_post_recv(rig, wr_id, 0, 64);
	rig_modify_state(rig, NIC_QPS_ERR);
}

static void cq__CQ_01_one_event_for_each_arming(void **state)
{
	struct rig *rig = ready();

	push(rig, 1, false);
	assert_false(notified(rig)); /* the CQ was never armed */
	take(rig, 1);
	nic_cq_arm(rig->recv_cq, false);
	assert_false(notified(rig));
	push(rig, 2, false);
	assert_true(notified(rig));
	push(rig, 3, true);
	assert_false(notified(rig)); /* the arming was used up */
	take(rig, 2);
	nic_cq_arm(rig->recv_cq, false);
	nic_cq_arm(rig->recv_cq, false);
	push(rig, 4, false);
	push(rig, 5, false);
	assert_true(notified(rig));
	push(rig, 6, false);
	assert_false(notified(rig));
	rig_destroy(rig);
}

static void cq__CQ_02_arming_reports_unannounced_entries_once(void **state)
{
	struct rig *rig = ready();

	push(rig, 1, false); /* arrives between the last poll and the arming */
	nic_cq_arm(rig->recv_cq, false);
	assert_true(notified(rig));
	assert_false(notified(rig));
	nic_cq_arm(rig->recv_cq, false); /* the last event has already announced this entry */
	assert_false(notified(rig));
	push(rig, 2, false);
	assert_true(notified(rig));
	take(rig, 1);
	push(rig, 3, false);
	nic_cq_arm(rig->recv_cq, false); /* one entry more than was announced */
	assert_true(notified(rig));
	take(rig, 1);
	/* No event: the entry left was announced together with the one just taken. */
	nic_cq_arm(rig->recv_cq, false);
	assert_false(notified(rig));
	take(rig, 1);
	rig_destroy(rig);
}

static void cq__CQ_02_taking_one_entry_per_event_drains_the_cq(void **state)
{
	struct rig *rig = ready();
	unsigned events = 0;

	nic_cq_arm(rig->recv_cq, false);
	for (unsigned i = 0; i < 5; i++)
		push(rig, i, false);
	while (notified(rig)) {
		nic_cq_arm(rig->recv_cq, false);
		take(rig, 1);
		events++;
	}
	assert_int_equal(nic_cq_count(rig->recv_cq), 0);
	assert_true(events <= 6);
	rig_destroy(rig);
}

static void cq__CQ_02_solicited_arming_reports_waiting_solicited_entries_only(void **state)
{
	struct rig *rig = ready();

	push(rig, 1, false);
	nic_cq_arm(rig->recv_cq, true);
	assert_false(notified(rig));
	push(rig, 2, true);
	assert_true(notified(rig));
	push(rig, 3, true);
	push(rig, 4, false);
	nic_cq_arm(rig->recv_cq, true);
	assert_true(notified(rig));
	take(rig, 3);
	nic_cq_arm(rig->recv_cq, true); /* the entry left is not solicited */
	assert_false(notified(rig));
	rig_destroy(rig);
}

static void cq__CQ_01_solicited_arming_waits_for_se_or_an_error(void **state)
{
	struct rig *rig = ready();

	nic_cq_arm(rig->recv_cq, true);
	push(rig, 1, false);
	assert_false(notified(rig));
	push(rig, 2, true);
	assert_true(notified(rig));
	push(rig, 3, true);
	assert_false(notified(rig));
	nic_cq_arm(rig->recv_cq, true);
	push_error(rig, 4);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void cq__CQ_01_se_is_taken_from_last_packets_and_immediate_writes(void **state)
{
	struct rig *rig = ready();
	struct packet p = rig_peer_data(rig, SEND_FIRST, E, 0, RIG_MTU);

	rig_post_recv(rig, 1, 0, 1024);
	rig_post_recv(rig, 2, 0, 1024);
	nic_cq_arm(rig->recv_cq, true);
	p.se = true;
	rig_rx(rig, &p);
	assert_false(notified(rig));
	p = rig_peer_data(rig, SEND_LAST, E + 1, 0, 8);
	rig_rx(rig, &p);
	assert_int_equal(nic_cq_count(rig->recv_cq), 1);
	assert_false(notified(rig));
	p = rig_peer_data(rig, WRITE_ONLY_IMM, E + 2, 0, 8);
	p.se = true;
	rig_rx(rig, &p);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void cq__CQ_01_arming_can_be_widened_but_not_narrowed(void **state)
{
	struct rig *rig = ready();

	nic_cq_arm(rig->recv_cq, true);
	nic_cq_arm(rig->recv_cq, false);
	push(rig, 1, false);
	assert_true(notified(rig));
	nic_cq_arm(rig->recv_cq, false);
	nic_cq_arm(rig->recv_cq, true);
	push(rig, 2, false);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void cq__CQ_01_send_completions_are_not_solicited(void **state)
{
	struct rig *rig = ready();
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);

	nic_cq_arm(rig->send_cq, true);
	wr.flags = NIC_SEND_SOLICITED;
	rig_post(rig, &wr);
	assert_true(rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN).se);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_false(rig_event(rig, NIC_EVENT_COMP, RIG_USER_SEND_CQ(rig)));
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_modify_state(rig, NIC_QPS_ERR);
	assert_true(rig_event(rig, NIC_EVENT_COMP, RIG_USER_SEND_CQ(rig)));
	rig_destroy(rig);
}

/*
 * The consumer's protocol: poll until empty, arm, poll again, sleep until the event. A completion at any point of this
 * sequence is either found by the second poll or raises the event, so a consumer that sleeps has an empty queue.
 */
static void cq__CQ_02_no_lost_wakeup_wherever_a_completion_comes(void **state)
{
	/* Each bit: whether a completion arrives at one of the four points. */
	for (unsigned when = 0; when < 1u << 4; when++) {
		struct rig *rig = ready();
		unsigned found = 0, pushed = 0;
		struct nic_wc wc;

#define POINT(n)                                                                                                       \
	if (when >> (n)&1)                                                                                             \
	push(rig, pushed++, false)
		POINT(0);
		while (rig_poll(rig->recv_cq, &wc))
			found++;
		POINT(1);
		nic_cq_arm(rig->recv_cq, false);
		POINT(2);
		while (rig_poll(rig->recv_cq, &wc))
			found++;
		POINT(3);
#undef POINT
		if (notified(rig)) /* otherwise the consumer goes on sleeping */
			while (rig_poll(rig->recv_cq, &wc))
				found++;
		assert_int_equal(found, pushed);
		rig_destroy(rig);
	}
}

static void cq__CQ_03_events_name_their_cq(void **state)
{
	enum { N = 20 };
	struct rig *rig = ready();
	struct nic_cq *cqs[N];
	struct nic_qp *qps[N];
	unsigned seen[N] = {0}, tags[N];
	struct nic_event event;

	for (unsigned i = 0; i < N; i++) {
		rig->recv_cq = cqs[i] = rig_cq_create(rig, 8, &tags[i]);
		rig->qp = qps[i] = rig_qp_create(rig);
		rig_to_init(rig);
		if (i % 3)
			nic_cq_arm(cqs[i], false);
	}
	for (unsigned i = 0; i < N; i++) {
		rig->qp = qps[i];
		push_error(rig, i);
	}
	while (nic_event_next(rig->nic, &event)) {
		assert_int_equal(event.type, NIC_EVENT_COMP);
		seen[(unsigned *)event.user - tags]++;
	}
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(seen[i], i % 3 != 0);
		rig_expect_wc(cqs[i], i, NIC_WC_WR_FLUSH_ERR);
	}
	rig_destroy(rig);
}

static void cq__CQ_03_event_of_a_destroyed_cq_vanishes(void **state)
{
	struct rig *rig = ready();

	nic_cq_arm(rig->recv_cq, false);
	push(rig, 1, false);
	nic_qp_destroy(rig->qp);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), 0);
	assert_int_equal(rig_events(rig, RIG_USER_RECV_CQ(rig)), 0);
	rig_destroy(rig);
}

static void cq__CQ_05_resize_keeps_entries_and_order(void **state)
{
	static const uint32_t depths[] = {64, 11, 16, 1000, 10};
	struct rig *rig = rig_ready(&(struct rig_opts){.cq_depth = 16});
	uint64_t next = 0, expect = 0;

	psn = E;
	for (unsigned round = 0; round < 3; round++) /* until the ring has wrapped around */
		for (unsigned i = 0; i < 5; i++) {
			push(rig, next++, false);
			rig_expect_wc(rig->recv_cq, expect++, NIC_WC_SUCCESS);
		}
	for (unsigned i = 0; i < 10; i++)
		push(rig, next++, false);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(nic_cq_resize(rig->recv_cq, depths[i]), 0);
		assert_true(nic_cq_depth(rig->recv_cq) >= depths[i]);
		assert_int_equal(nic_cq_count(rig->recv_cq), 10);
		rig_expect_wc(rig->recv_cq, expect++, NIC_WC_SUCCESS);
		push(rig, next++, false);
	}
	while (expect < next)
		rig_expect_wc(rig->recv_cq, expect++, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

static void cq__CQ_05_shrink_below_occupancy_is_refused(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cq_depth = 16, .nic.limits.max_cqe = 4096});

	psn = E;
	for (uint64_t i = 0; i < 9; i++)
		push(rig, i, false);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 8), -EINVAL);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 1), -EINVAL);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 0), -EINVAL);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 4097), -EINVAL);
	assert_int_equal(nic_cq_depth(rig->recv_cq), 16);
	for (uint64_t i = 0; i < 9; i++)
		rig_expect_wc(rig->recv_cq, i, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 8), 0);
	rig_destroy(rig);
}

static void cq__CQ_05_arming_survives_a_resize(void **state)
{
	struct rig *rig = ready();

	nic_cq_arm(rig->recv_cq, false);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 512), 0);
	assert_false(notified(rig));
	push(rig, 1, false);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void cq__depth_out_of_range_is_refused(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.limits = {.max_cqe = 4096, .max_cq = 3}});
	struct nic_cq *cq;

	assert_int_equal(nic_cq_create(rig->nic, 0, NULL, &cq), -EINVAL);
	assert_int_equal(nic_cq_create(rig->nic, 4097, NULL, &cq), -EINVAL);
	assert_int_equal(nic_cq_create(rig->nic, 4096, NULL, &cq), 0);
	assert_int_equal(nic_cq_create(rig->nic, 16, NULL, &cq), -ENOMEM); /* the fourth CQ; max_cq is 3 */
	rig_destroy(rig);
}

static void cq__QS_14_a_cq_overflow_by_flushed_posts_fails_the_other_qps(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.cq_depth = 4});
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);
	struct nic_qp *other = rig->qp;

	rig->qp = rig_qp_create(rig);
	rig->qpn = nic_qp_num(rig->qp);
	rig_to_rts(rig);
	rig_modify_state(rig, NIC_QPS_ERR);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	assert_int_equal(nic_qp_state(other), NIC_QPS_ERR);
	rig_destroy(rig);
}

static void cq__CQ_02_entries_of_a_destroyed_qp_do_not_suppress_events(void **state)
{
	struct rig *rig = ready();

	for (unsigned i = 0; i < 3; i++)
		push(rig, i, true);
	nic_cq_arm(rig->recv_cq, false);
	assert_true(notified(rig));
	nic_qp_destroy(rig->qp);
	rig->qp = rig_qp_create(rig);
	rig->qpn = nic_qp_num(rig->qp);
	rig_to_rts(rig);
	psn = E;
	for (unsigned i = 0; i < 3; i++)
		push(rig, i, false);
	take(rig, 2);
	nic_cq_arm(rig->recv_cq, true); /* no entry is solicited */
	assert_false(notified(rig));
	nic_cq_arm(rig->recv_cq, false);
	assert_true(notified(rig)); /* for the last entry, which no event has announced */
	rig_destroy(rig);
}

static void expect_stamp(struct rig *rig, uint64_t wr_id, uint64_t at)
{
	rig_expect_wc(rig->recv_cq, wr_id, NIC_WC_SUCCESS);
	assert_int_equal(nic_cq_polled_note(rig->recv_cq).at_ns, at);
}

/* Whatever moves the entries: a wrap of the ring, resizing, and the end of a QP whose entries lie between them. */
static void cq__entries_keep_their_notes(void **state)
{
	struct rig *rig = ready();
	struct nic_qp *first = rig->qp, *second;
	uint64_t at[3];

	assert_int_equal(nic_cq_keep_notes(rig->recv_cq), 0);
	for (unsigned i = 0; i < nic_cq_depth(rig->recv_cq); i++) {
		rig_advance(rig, 1000);
		push(rig, i, false);
		expect_stamp(rig, i, rig->now);
	}
	rig->qp = second = rig_qp_create(rig);
	rig_to_rts(rig);
	for (unsigned i = 0; i < 3; i++) {
		rig_advance(rig, 1000);
		at[i] = rig->now;
		rig->qp = first;
		push(rig, 10 + i, false);
		rig->qp = second;
		rig_post_recv(rig, 20 + i, 0, 64);
	}
	rig_modify_state(rig, NIC_QPS_ERR); /* three entries behind those of the first QP */
	rig_advance(rig, 1000);
	rig->qp = first;
	push(rig, 13, false);
	assert_int_equal(nic_qp_destroy(second), 0);
	assert_int_equal(nic_cq_resize(rig->recv_cq, 64), 0);
	rig_advance(rig, 1000);
	for (unsigned i = 0; i < 3; i++)
		expect_stamp(rig, 10 + i, at[i]);
	expect_stamp(rig, 13, rig->now - 1000);
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

static void cq__CQ_01_solicited_state_survives_index_wrap(void **state)
{
	struct rig *rig = ready();

	rig->recv_cq->head = rig->recv_cq->tail = 0x80000005; /* as if so many entries had come and been taken */
	nic_cq_arm(rig->recv_cq, true);
	assert_false(notified(rig));
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cq__CQ_01_one_event_for_each_arming),
		cmocka_unit_test(cq__CQ_02_arming_reports_unannounced_entries_once),
		cmocka_unit_test(cq__CQ_02_taking_one_entry_per_event_drains_the_cq),
		cmocka_unit_test(cq__CQ_02_solicited_arming_reports_waiting_solicited_entries_only),
		cmocka_unit_test(cq__CQ_01_solicited_arming_waits_for_se_or_an_error),
		cmocka_unit_test(cq__CQ_01_se_is_taken_from_last_packets_and_immediate_writes),
		cmocka_unit_test(cq__CQ_01_arming_can_be_widened_but_not_narrowed),
		cmocka_unit_test(cq__CQ_01_send_completions_are_not_solicited),
		cmocka_unit_test(cq__CQ_02_no_lost_wakeup_wherever_a_completion_comes),
		cmocka_unit_test(cq__CQ_03_events_name_their_cq),
		cmocka_unit_test(cq__CQ_03_event_of_a_destroyed_cq_vanishes),
		cmocka_unit_test(cq__CQ_05_resize_keeps_entries_and_order),
		cmocka_unit_test(cq__CQ_05_shrink_below_occupancy_is_refused),
		cmocka_unit_test(cq__CQ_05_arming_survives_a_resize),
		cmocka_unit_test(cq__depth_out_of_range_is_refused),
		cmocka_unit_test(cq__QS_14_a_cq_overflow_by_flushed_posts_fails_the_other_qps),
		cmocka_unit_test(cq__CQ_02_entries_of_a_destroyed_qp_do_not_suppress_events),
		cmocka_unit_test(cq__entries_keep_their_notes),
		cmocka_unit_test(cq__CQ_01_solicited_state_survives_index_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
