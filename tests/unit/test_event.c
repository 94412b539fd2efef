/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_event.c - asynchronous events, each raised by its cause (IBTA 11.6.3; conformance point QS-17). Nothing in this
 * NIC raises PATH_MIG, SRQ_ERR or DEVICE_FATAL (docs/answers.md says why). The layer above destroys an object only when
 * its events have been acknowledged; here, the events of a destroyed object vanish.
 */
#include "resp_util.h"

static void event__QS_17_comm_est_with_the_first_packet_in_rtr(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig_to_rtr(rig);
	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 0, 64);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 1ull << NIC_EVENT_COMM_EST);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0); /* one event only */
	rig_destroy(rig);
	rig = rig_ready(NULL); /* no event in RTS, where the connection is known to be established */
	rig_post_recv(rig, 1, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

static void event__QS_17_errors_without_a_receive_wqe(void **state)
{
	static const struct {
		uint8_t op;
		bool bad_key;
		enum nic_event_type event;
	} cases[] = {
		{SEND_MIDDLE, false, NIC_EVENT_QP_REQ_ERR},
		{WRITE_LAST, false, NIC_EVENT_QP_REQ_ERR},
		{READ_REQ, true, NIC_EVENT_QP_ACCESS_ERR},
		{FETCH_ADD, true, NIC_EVENT_QP_ACCESS_ERR},
	};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_packet(rig, cases[i].op, E);

		p.dma_len = 8;
		p.rkey ^= cases[i].bad_key;
		rig_rx(rig, &p);
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 1ull << cases[i].event);
		rig_destroy(rig);
	}
}

/* The completion in error of a receive WQE reports the error, so no event does. */
static void event__QS_17_no_event_when_a_receive_wqe_reports_the_error(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 1, 0, 1024);
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

static void event__QS_17_sq_drained_cq_err_qp_fatal_srq_limit_and_last_wqe(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.srq = true, .cq_depth = 1});
	uint64_t seen[3] = {0};
	struct nic_event event;

	rig->attr.en_sqd_async_notify = true;
	rig->attr.qp_state = NIC_QPS_SQD;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE | NIC_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(nic_srq_set_limit(rig->srq, 2), 0);
	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 0, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8);
	while (nic_event_next(rig->nic, &event))
		for (unsigned i = 0; i < 3; i++)
			if (event.user == (i == 0   ? RIG_USER_QP(rig)
					   : i == 1 ? RIG_USER_SRQ(rig)
						    : RIG_USER_RECV_CQ(rig)))
				seen[i] |= 1ull << event.type;
	assert_int_equal(seen[0],
			 1ull << NIC_EVENT_SQ_DRAINED | 1ull << NIC_EVENT_QP_FATAL | 1ull << NIC_EVENT_QP_LAST_WQE);
	assert_int_equal(seen[1], 1ull << NIC_EVENT_SRQ_LIMIT);
	assert_int_equal(seen[2], 1ull << NIC_EVENT_CQ_ERR);
	rig_destroy(rig);
}

static void event__QS_17_port_and_gid_events(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_gid gid = rig->gid;

	nic_port_set(rig->nic, true); /* no change, so no event */
	assert_int_equal(nic_gid_set(rig->nic, 0, &gid), 0);
	assert_int_equal(rig_events(rig, NULL), 0);
	nic_port_set(rig->nic, false);
	assert_int_equal(rig_events(rig, NULL), 1ull << NIC_EVENT_PORT_ERR);
	nic_port_set(rig->nic, true);
	assert_int_equal(rig_events(rig, NULL), 1ull << NIC_EVENT_PORT_ACTIVE);
	gid.raw[15] = 99;
	assert_int_equal(nic_gid_set(rig->nic, 3, &gid), 0);
	assert_int_equal(rig_events(rig, NULL), 1ull << NIC_EVENT_GID_CHANGE);
	assert_int_equal(nic_gid_set(rig->nic, 3, NULL), 0);
	assert_int_equal(rig_events(rig, NULL), 1ull << NIC_EVENT_GID_CHANGE);
	assert_int_equal(nic_gid_set(rig->nic, NIC_GID_TABLE_LEN, &gid), -EINVAL);
	rig_destroy(rig);
}

static void event__QS_17_events_of_a_destroyed_object_vanish(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.srq = true});

	rig_modify_state(rig, NIC_QPS_ERR); /* the LAST_WQE event is now pending */
	nic_qp_destroy(rig->qp);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event__QS_17_comm_est_with_the_first_packet_in_rtr),
		cmocka_unit_test(event__QS_17_errors_without_a_receive_wqe),
		cmocka_unit_test(event__QS_17_no_event_when_a_receive_wqe_reports_the_error),
		cmocka_unit_test(event__QS_17_sq_drained_cq_err_qp_fatal_srq_limit_and_last_wqe),
		cmocka_unit_test(event__QS_17_port_and_gid_events),
		cmocka_unit_test(event__QS_17_events_of_a_destroyed_object_vanish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
