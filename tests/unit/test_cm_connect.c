/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_connect.c - nic/cm: setting up connections, as transcripts (cm_rig.h). */
#include "cm_rig.h"

#include <errno.h>

#define RUN(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

static void cm__CM_01_both_ends_pass_through_their_states(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig), *b;

	assert_int_equal(rig_state(a), NIC_CM_REQ_SENT);
	rig_pass(rig);
	b = rig->side[B].id;
	assert_int_equal(rig_state(b), NIC_CM_REQ_RCVD);
	assert_int_equal(nic_cm_establish(a, NULL, 0), -EINVAL);
	assert_int_equal(nic_cm_notify(b), -EINVAL);
	rig_accept(b);
	assert_int_equal(rig_state(b), NIC_CM_REP_SENT);
	rig_pass(rig);
	assert_ptr_equal(rig->side[A].id, a);
	assert_int_equal(rig_state(a), NIC_CM_REP_RCVD);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), -EINVAL);
	assert_int_equal(nic_cm_establish(a, "go", 2), 0);
	assert_int_equal(rig_state(a), NIC_CM_ESTABLISHED);
	rig_pass(rig);
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
	assert_memory_equal(rig->side[B].data, "go", 3);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU b:RTU");
}

static void cm__CM_01_comm_est_establishes_before_the_rtu(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b, *a = rig_reply(rig, &b);

	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	assert_int_equal(nic_cm_notify(b), 0);
	assert_int_equal(nic_cm_notify(b), -EISCONN);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU b:USER_ESTABLISHED");
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_dup_rtu), 1);
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
}

static void cm__CM_01_req_and_rep_events_carry_the_message_fields(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_accept accept = rig_accept_args();
	const struct nic_cm_req_event *req = &rig->side[B].event.req;
	const struct nic_cm_rep_event *rep = &rig->side[A].event.rep;
	struct nic_cm_id *a;

	connect.transport = NIC_CM_UC;
	connect.flow_control = connect.srq = 1;
	connect.ece = (struct nic_cm_ece){0x15b3, 0x1234567};
	connect.route.traffic_class = 0x20;
	connect.route.flow_label = 0x12345;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
	rig_pass(rig);
	assert_ptr_equal(rig->side[B].event.listener, rig->side[B].listener);
	assert_int_equal(req->service_id, RIG_SERVICE);
	assert_int_equal(req->remote_ca_guid, 0x1122334455667700ull);
	assert_memory_equal(&req->local_gid, &rig->side[B].gid, 16);
	assert_memory_equal(&req->remote_gid, &rig->side[A].gid, 16);
	assert_int_equal(req->remote_qpn, 0x111);
	assert_int_equal(req->starting_psn, 0xabcdef);
	assert_int_equal(req->flow_label, 0x12345);
	assert_int_equal(req->traffic_class, 0x20);
	assert_int_equal(req->pkey, 0xffff);
	assert_int_equal(req->transport, NIC_CM_UC);
	assert_int_equal(req->mtu, NIC_MTU_1024);
	assert_int_equal(req->local_cm_response_timeout, RIG_ANSWER);
	assert_int_equal(req->max_cm_retries, RIG_RETRIES);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry_count, 6);
	assert_true(req->flow_control && req->srq && !req->alternate);
	assert_int_equal(req->ece.vendor_id, 0x15b3);
	assert_int_equal(req->ece.options, 0x1234567);
	assert_int_equal(rig->side[B].event.private_len, NIC_CM_REQ_PRIVATE);
	assert_memory_equal(rig->side[B].data, "hello", 6);
	accept.ece = connect.ece;
	accept.srq = 1;
	assert_int_equal(nic_cm_accept(rig->side[B].id, &accept), 0);
	rig_pass(rig);
	assert_int_equal(rep->remote_ca_guid, 0x1122334455667701ull);
	assert_int_equal(rep->remote_qpn, 0x222);
	assert_int_equal(rep->starting_psn, 0x123456);
	assert_int_equal(rep->target_ack_delay, RIG_LIFE);
	assert_int_equal(rep->rnr_retry_count, 7);
	assert_true(rep->srq && !rep->flow_control);
	assert_int_equal(rep->ece.options, 0x1234567);
	assert_int_equal(rig->side[A].event.private_len, NIC_CM_REP_PRIVATE);
	assert_memory_equal(rig->side[A].data, "welcome", 8);
}

static void cm__CM_01_xrc_rep_carries_the_target_qpn(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *a, *b;

	connect.transport = NIC_CM_XRC;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
	rig_pass(rig);
	b = rig->side[B].id;
	assert_int_equal(rig->side[B].event.req.transport, NIC_CM_XRC);
	rig_accept(b);
	rig_pass(rig);
	assert_int_equal(rig->side[A].event.rep.remote_qpn, 0x222);
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_pass(rig);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	assert_int_equal(rig->side[B].event.type, NIC_CM_EVENT_DREQ);
}

/* ---- Loss ------------------------------------------------------------------------------------------------------- */

static void cm__CM_02_lost_messages_are_sent_again(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a;

	rig->drop[CM_REQ - CM_REQ] = 2;
	a = rig_connect(rig);
	rig_time(rig, 2 * RIG_WAIT);
	rig_expect(rig, "a>REQ a>REQ a>REQ b:REQ");
	rig->drop[CM_REP - CM_REQ] = 2;
	rig_accept(rig->side[B].id);
	rig_time(rig, RIG_WAIT - 1);
	rig_expect(rig, "b>REP");
	rig_time(rig, 1);
	rig_expect(rig, "a>REQ b>REP"); /* the repeated REQ is answered by the same REP */
	rig_time(rig, RIG_WAIT_B - RIG_WAIT);
	rig_expect(rig, "b>REP a:REP");
	rig->drop[CM_RTU - CM_REQ] = 1;
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_time(rig, RIG_WAIT_B);
	rig_expect(rig, "a>RTU b>REP a>RTU b:RTU");
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_tx_retry_rtu), 1);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_tx_retry_req), 3);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_timeouts), 0);
}

static void cm__CM_02_a_req_without_answer_is_given_up(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a;

	rig->drop[CM_REQ - CM_REQ] = 99;
	a = rig_connect(rig);
	rig_time(rig, (RIG_RETRIES + 1) * RIG_WAIT - 1);
	rig_expect(rig, "a>REQ a>REQ a>REQ a>REQ");
	rig_time(rig, 1);
	rig_expect(rig, "a>REJ a:REQ_ERROR");
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_TIMEOUT);
	assert_int_equal(rig_state(a), NIC_CM_IDLE);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_timeouts), 1);
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 1);
	nic_cm_id_destroy(a);
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
	assert_int_equal(nic_cm_deadline(rig->side[A].cm), UINT64_MAX);
}

static void cm__CM_02_an_abandoned_req_is_rejected_at_the_peer(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig), *b;

	rig_time(rig, (RIG_RETRIES + 1) * RIG_WAIT);
	rig_expect(rig, "a>REQ b:REQ a>REQ a>REQ a>REQ a>REJ a:REQ_ERROR b:REJ");
	b = rig->side[B].id;
	assert_int_equal(rig->side[B].event.rej.reason, NIC_CM_REJ_TIMEOUT);
	assert_int_equal(rig_state(b), NIC_CM_IDLE);
	nic_cm_id_destroy(a);
	nic_cm_id_destroy(b);
}

static void cm__CM_02_a_rep_without_answer_is_given_up(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b;

	rig_connect(rig);
	rig_pass(rig);
	b = rig->side[B].id;
	rig->drop[CM_REP - CM_REQ] = rig->drop[CM_REQ - CM_REQ] = rig->drop[CM_REJ - CM_REQ] = 99;
	rig_accept(b);
	rig_time(rig, (RIG_RETRIES + 1) * RIG_WAIT_B);
	assert_int_equal(rig->side[B].event.type, NIC_CM_EVENT_REP_ERROR);
	assert_int_equal(rig_state(b), NIC_CM_TIMEWAIT); /* side a has answered the DREQ */
	rig_time(rig, (RIG_RETRIES + 3) * RIG_WAIT_B);
	assert_int_equal(rig->side[B].event.type, NIC_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(rig_state(b), NIC_CM_IDLE);
}

static void cm__CM_02_a_lost_rtu_disconnects_the_established_side(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);

	rig_pass(rig);
	rig_accept(rig->side[B].id);
	rig_pass(rig);
	rig->drop[CM_RTU - CM_REQ] = rig->drop[CM_REJ - CM_REQ] = 99;
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_time(rig, (RIG_RETRIES + 2) * RIG_WAIT_B);
	/* Side b has given up waiting for the RTU. Its REJ is lost, but its DREQ ends side a's connection. */
	assert_int_equal(rig->side[A].event.type, NIC_CM_EVENT_DREQ);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_time(rig, RIG_WAIT_B);
	assert_int_equal(rig->side[B].event.type, NIC_CM_EVENT_TIMEWAIT_EXIT);
}

/** Side b's owner takes its REP back by a REJ, which is lost. Side a sends an RTU; side b answers with another REJ. */
static void cm__CM_02_an_rtu_for_a_withdrawn_rep_is_rejected(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b, *a = rig_reply(rig, &b);

	rig->drop[CM_REJ - CM_REQ] = 1;
	rig->drop[CM_DREQ - CM_REQ] = 99;
	rig_reject(b, NIC_CM_REJ_CONSUMER);
	rig_pass(rig);
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP b>REJ b>DREQ a>RTU b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_CONSUMER);
	assert_int_equal(rig_state(a), NIC_CM_TIMEWAIT);
}

static void cm__CM_02_duplicates_of_every_message_are_harmless(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	for (unsigned i = 0; i < 32; i++)
		rig->twice[i] = 99;
	a = rig_connect(rig);
	rig_pass(rig);
	b = rig->side[B].id;
	rig_expect(rig, "a>REQ b:REQ");
	rig_accept(b);
	rig_pass(rig);
	rig_expect(rig, "b>REP a:REP");
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>RTU b:RTU");
	assert_int_equal(nic_cm_disconnect(a, "bye", 3), 0);
	rig_pass(rig);
	rig_expect(rig, "a>DREQ b:DREQ");
	assert_memory_equal(rig->side[B].data, "bye", 4);
	assert_int_equal(nic_cm_disconnect(b, "ciao", 4), 0);
	rig_pass(rig);
	rig_expect(rig, "b>DREP a:DREP");
	assert_memory_equal(rig->side[A].data, "ciao", 5);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_dup_req), 1);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_rx_dup_rep), 1);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_dup_rtu), 1);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_dup_dreq), 1);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_rx_dup_drep), 1);
}

static void cm__CM_02_a_repeated_req_gets_the_same_rep(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig);
	rig_pass(rig);
	rig->drop[CM_REP - CM_REQ] = 1;
	rig->now += RIG_WAIT - 1;
	rig_accept(rig->side[B].id);
	rig_time(rig, 1);
	rig_expect(rig, "a>REQ b:REQ b>REP a>REQ b>REP a:REP");
}

/* ---- MRA -------------------------------------------------------------------------------------------------------- */

static void cm__CM_03_mra_extends_the_wait_for_rep(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig), *b;

	rig_pass(rig);
	b = rig->side[B].id;
	assert_int_equal(nic_cm_mra(b, RIG_ANSWER + 5, "wait", 4), 0);
	assert_int_equal(nic_cm_mra(b, RIG_ANSWER + 5, NULL, 0), -EINVAL);
	rig_time(rig, nic_timeout_ns(RIG_ANSWER + 5));
	rig_expect(rig, "a>REQ b:REQ b>MRA a:MRA");
	assert_int_equal(rig->side[A].event.service_timeout, RIG_ANSWER + 5);
	assert_memory_equal(rig->side[A].data, "wait", 5);
	assert_int_equal(rig_state(a), NIC_CM_MRA_REQ_RCVD);
	assert_int_equal(rig_state(b), NIC_CM_MRA_REQ_SENT);
	/* After the service timeout of the MRA, side a repeats the REQ, and side b answers with an MRA again. */
	rig_time(rig, 2 * nic_timeout_ns(RIG_LIFE));
	rig_expect(rig, "a>REQ b>MRA");
	rig_accept(b);
	rig_pass(rig);
	rig_expect(rig, "b>REP a:REP");
}

/** However many MRAs a peer sends, the wait after each REQ is extended only once, and the number of REQs is limited. */
static void cm__CM_03_mras_do_not_extend_the_wait_endlessly(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);
	uint64_t longest = (RIG_RETRIES + 1) * (nic_timeout_ns(RIG_ANSWER + 1) + 2 * nic_timeout_ns(RIG_LIFE));
	struct cm_mad mra;

	rig_pass(rig);
	assert_int_equal(nic_cm_mra(rig->side[B].id, RIG_ANSWER + 1, NULL, 0), 0);
	mra = rig->last;
	mra.data = NULL;
	mra.data_len = 0;
	for (uint64_t t = 0; t <= longest; t += RIG_WAIT / 4) {
		rig_inject(rig, B, &mra);
		rig_time(rig, RIG_WAIT / 4);
		rig->transcript[0] = '\0';
	}
	assert_int_equal(rig_state(a), NIC_CM_IDLE);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_timeouts), 1);
}

static void cm__CM_03_mra_extends_the_wait_for_rtu(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b, *a = rig_reply(rig, &b);

	assert_int_equal(nic_cm_mra(a, RIG_ANSWER + 5, NULL, 0), 0);
	rig_time(rig, nic_timeout_ns(RIG_ANSWER + 5));
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>MRA b:MRA");
	assert_int_equal(rig_state(b), NIC_CM_MRA_REP_RCVD);
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>RTU b:RTU");
}

/* ---- Negotiated values ------------------------------------------------------------------------------------------- */

static void cm__CM_06_depths_are_swapped_and_limited(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_accept accept = rig_accept_args();
	struct nic_cm_info info;
	struct nic_cm_id *a = rig_connect(rig), *b; /* side a offers to answer 4 READs at a time, and wants to send 8 */

	rig_pass(rig);
	b = rig->side[B].id;
	assert_int_equal(rig->side[B].event.req.responder_resources, 8);
	assert_int_equal(rig->side[B].event.req.initiator_depth, 4);
	accept.responder_resources = 3; /* fewer READs than side a wants to send */
	accept.initiator_depth = 200;	/* more READs than side a can answer */
	assert_int_equal(nic_cm_accept(b, &accept), 0);
	rig_pass(rig);
	assert_int_equal(rig->last.rep.responder_resources, 3);
	assert_int_equal(rig->last.rep.initiator_depth, 4);
	assert_int_equal(rig->side[A].event.rep.responder_resources, 4);
	assert_int_equal(rig->side[A].event.rep.initiator_depth, 3);
	nic_cm_id_info(a, &info);
	assert_int_equal(info.responder_resources, 4);
	assert_int_equal(info.initiator_depth, 3);
	nic_cm_id_info(b, &info);
	assert_int_equal(info.responder_resources, 3);
	assert_int_equal(info.initiator_depth, 4);
}

static void cm__CM_08_ack_timeout_covers_two_packet_lives_and_the_ack_delay(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig);
	/* Twice the packet life plus the ACK delay is 2 * 2^10 + 2^10 units of 4.096 us. 2^12 is the first power of two
	 * that is enough. */
	assert_int_equal(rig->last.req.primary.ack_timeout, RIG_LIFE + 2);
	rig_pass(rig);
	assert_int_equal(rig->side[B].event.req.ack_timeout, RIG_LIFE + 2);
	rig_accept(rig->side[B].id);
	rig_pass(rig);
	assert_int_equal(rig->side[A].event.rep.ack_timeout, RIG_LIFE + 2);
	/* As in Linux: a delay of 4 us does not double a timeout of 0.5 s. */
	assert_int_equal(nic_cm_ack_timeout(16, 0), 17);
	assert_int_equal(nic_cm_ack_timeout(16, 15), 17);
	assert_int_equal(nic_cm_ack_timeout(16, 16), 18);
	assert_int_equal(nic_cm_ack_timeout(16, 20), 20);
	assert_int_equal(nic_cm_ack_timeout(16, 18), 19);
	assert_int_equal(nic_cm_ack_timeout(0, 0), 2);
	assert_int_equal(nic_cm_ack_timeout(31, 31), 31);
}

static void cm__arguments_out_of_range_are_refused(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect good = rig_connect_args(rig), bad;
	struct nic_cm_id *id;

#define REFUSED(field, value)                                                                                          \
	do {                                                                                                           \
		bad = good;                                                                                            \
		bad.field = value;                                                                                     \
		assert_int_equal(nic_cm_connect(rig->side[A].cm, &bad, &id), -EINVAL);                                 \
	} while (0)
	REFUSED(qpn, 0x1000000);
	REFUSED(starting_psn, 0x1000000);
	REFUSED(mtu, 6);
	REFUSED(mtu, 0);
	REFUSED(retry_count, 8);
	REFUSED(rnr_retry_count, 8);
	REFUSED(packet_life, 32);
	REFUSED(remote_cm_response_timeout, 32);
	REFUSED(max_cm_retries, 16);
	REFUSED(sl, 16);
	REFUSED(rate, 64);
	REFUSED(route.flow_label, 0x100000);
	REFUSED(ece.vendor_id, 0x1000000);
	REFUSED(private_len, NIC_CM_REQ_PRIVATE + 1);
	REFUSED(private_data, NULL);
#undef REFUSED
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
	rig_expect(rig, "");
}

/* ---- Many connections -------------------------------------------------------------------------------------------- */

#define MANY 4096

static void go_on(struct rig_side *side, const struct nic_cm_event *event)
{
	(void)side;
	switch (event->type) {
	case NIC_CM_EVENT_REQ:
		rig_accept_as(event->id, event->req.remote_qpn);
		break;
	case NIC_CM_EVENT_REP:
		assert_int_equal(nic_cm_establish(event->id, NULL, 0), 0);
		break;
	case NIC_CM_EVENT_DREQ:
		assert_int_equal(nic_cm_disconnect(event->id, NULL, 0), 0);
		nic_cm_id_destroy(event->id);
		break;
	case NIC_CM_EVENT_DREP:
		nic_cm_id_destroy(event->id);
		break;
	default:
		break;
	}
}

static void cm__CM_11_thousands_of_connections_at_once_and_in_turn(void **state)
{
	struct rig *rig = *state;
	static struct nic_cm_id *ids[MANY];

	rig_without_records(rig);
	rig->side[A].on_event = rig->side[B].on_event = go_on;
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < MANY; i++) {
			struct nic_cm_connect connect = rig_connect_args(rig);

			connect.qpn = 0x1000 + i;
			assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &ids[i]), 0);
			rig_pass(rig);
			assert_int_equal(rig_state(ids[i]), NIC_CM_ESTABLISHED);
		}
		assert_int_equal(nic_cm_ids(rig->side[A].cm), MANY);
		assert_int_equal(nic_cm_ids(rig->side[B].cm), MANY + 1);
		for (unsigned i = 0; i < MANY; i++) {
			assert_int_equal(nic_cm_disconnect(ids[i * 5 % MANY], NULL, 0), 0);
			rig_pass(rig);
		}
		rig_time(rig, RIG_WAIT);
		assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
		assert_int_equal(nic_cm_ids(rig->side[B].cm), 1);
	}
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_rtu), 3 * MANY);
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_tx_retry_req), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(cm__CM_01_both_ends_pass_through_their_states),
		RUN(cm__CM_01_comm_est_establishes_before_the_rtu),
		RUN(cm__CM_01_req_and_rep_events_carry_the_message_fields),
		RUN(cm__CM_01_xrc_rep_carries_the_target_qpn),
		RUN(cm__CM_02_lost_messages_are_sent_again),
		RUN(cm__CM_02_a_req_without_answer_is_given_up),
		RUN(cm__CM_02_an_abandoned_req_is_rejected_at_the_peer),
		RUN(cm__CM_02_a_rep_without_answer_is_given_up),
		RUN(cm__CM_02_a_lost_rtu_disconnects_the_established_side),
		RUN(cm__CM_02_an_rtu_for_a_withdrawn_rep_is_rejected),
		RUN(cm__CM_02_duplicates_of_every_message_are_harmless),
		RUN(cm__CM_02_a_repeated_req_gets_the_same_rep),
		RUN(cm__CM_03_mra_extends_the_wait_for_rep),
		RUN(cm__CM_03_mras_do_not_extend_the_wait_endlessly),
		RUN(cm__CM_03_mra_extends_the_wait_for_rtu),
		RUN(cm__CM_06_depths_are_swapped_and_limited),
		RUN(cm__CM_08_ack_timeout_covers_two_packet_lives_and_the_ack_delay),
		RUN(cm__arguments_out_of_range_are_refused),
		RUN(cm__CM_11_thousands_of_connections_at_once_and_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
