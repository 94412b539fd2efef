/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_close.c - nic/cm: disconnecting, destroyed ids, SIDR and records, as transcripts (cm_rig.h). */
#include "cm_rig.h"

#include <errno.h>

#define RUN(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

#define TIMEWAIT nic_timeout_ns(RIG_LIFE + 2)

static void cm__CM_07_disconnect_then_timewait_then_the_qp_is_usable(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	rig_establish(rig, &a, &b);
	assert_int_equal(nic_cm_disconnect(b, NULL, 0), 0);
	rig_pass(rig);
	assert_int_equal(rig_state(a), NIC_CM_DREQ_RCVD);
	assert_int_equal(rig_state(b), NIC_CM_DREQ_SENT);
	assert_int_equal(nic_cm_disconnect(b, NULL, 0), -EINVAL);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "b>DREQ a:DREQ a>DREP b:DREP");
	assert_int_equal(rig_state(a), NIC_CM_TIMEWAIT);
	assert_int_equal(rig_state(b), NIC_CM_TIMEWAIT);
	rig_time(rig, TIMEWAIT - 1);
	rig_expect(rig, "");
	rig_time(rig, 1);
	rig_expect(rig, "a:TIMEWAIT_EXIT b:TIMEWAIT_EXIT");
	assert_int_equal(rig_state(a), NIC_CM_IDLE);
	nic_cm_id_destroy(a);
	nic_cm_id_destroy(b);
	rig_establish(rig, &a, &b);
}

static void cm__CM_07_lost_dreq_and_drep_are_sent_again(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	rig_establish(rig, &a, &b);
	rig->drop[CM_DREQ - CM_REQ] = rig->drop[CM_DREP - CM_REQ] = 1;
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "a>DREQ a>DREQ b:DREQ");
	assert_int_equal(nic_cm_disconnect(b, "ciao", 4), 0);
	rig_time(rig, TIMEWAIT / 2);
	rig_expect(rig, "b>DREP");
	/* A DREQ that arrives late, after its id has gone back to IDLE, is still answered. */
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "b:TIMEWAIT_EXIT a>DREQ b>DREP a:DREP");
	assert_int_equal(rig_state(b), NIC_CM_IDLE);
}

static void cm__CM_07_a_silent_peer_ends_in_dreq_error(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a;

	rig_establish(rig, &a, NULL);
	rig->drop[CM_DREQ - CM_REQ] = 99;
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_time(rig, (RIG_RETRIES + 1) * RIG_WAIT);
	rig_expect(rig, "a>DREQ a>DREQ a>DREQ a>DREQ a:DREQ_ERROR");
	assert_int_equal(rig_state(a), NIC_CM_TIMEWAIT);
	rig_time(rig, TIMEWAIT);
	rig_expect(rig, "a:TIMEWAIT_EXIT");
}

static void cm__CM_07_both_disconnect_at_once(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	rig_establish(rig, &a, &b);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	assert_int_equal(nic_cm_disconnect(b, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>DREQ b>DREQ b>DREP b:DREQ a>DREP a:DREQ");
	assert_int_equal(rig_state(a), NIC_CM_TIMEWAIT);
	assert_int_equal(rig_state(b), NIC_CM_TIMEWAIT);
	rig_time(rig, TIMEWAIT);
	rig_expect(rig, "a:TIMEWAIT_EXIT b:TIMEWAIT_EXIT");
}

static void cm__CM_07_dreq_overtakes_rtu(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b, *a = rig_reply(rig, &b);

	rig->drop[CM_RTU - CM_REQ] = 1;
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU a>DREQ b:DREQ");
	assert_int_equal(rig_state(b), NIC_CM_DREQ_RCVD);
}

static void cm__CM_07_a_late_duplicate_req_starts_no_connection(void **state)
{
	struct rig *rig = *state;
	struct cm_mad req;
	uint8_t bytes[NIC_CM_MAD_LEN];
	struct nic_cm_id *a = rig_connect(rig), *b;

	memcpy(bytes, rig->last_bytes, sizeof(bytes));
	rig_pass(rig);
	b = rig->side[B].id;
	rig_accept(b);
	rig_pass(rig);
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	assert_int_equal(cm_mad_parse(bytes, sizeof(bytes), &req), CM_MAD_OK);
	rig_inject(rig, A, &req);
	assert_int_equal(nic_cm_disconnect(b, NULL, 0), 0);
	rig_inject(rig, A, &req);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU a>DREQ b:RTU b:DREQ b>DREP");
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_dup_req), 2);
}

/* ---- Destroyed ids: the other end always learns of it, and nothing is left -----------------------------------------
 */

static void expect_gone(struct rig *rig)
{
	rig_time(rig, 20 * RIG_WAIT);
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
	assert_int_equal(nic_cm_ids(rig->side[B].cm), 1); /* only the listener */
	for (unsigned i = 0; i < RIG_RECORDS; i++) {
		assert_int_equal(rig->side[A].records[i].state, NIC_CM_IDLE);
		assert_int_equal(rig->side[B].records[i].state, NIC_CM_IDLE);
	}
}

static void cm__destroy_in_req_sent(void **state)
{
	struct rig *rig = *state;

	nic_cm_id_destroy(rig_connect(rig));
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ a>REJ b:REQ b:REJ");
	nic_cm_id_destroy(rig->side[B].id);
	expect_gone(rig);
}

static void cm__destroy_in_req_rcvd(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);

	rig_pass(rig);
	nic_cm_id_destroy(rig->side[B].id);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_CONSUMER);
	nic_cm_id_destroy(a);
	expect_gone(rig);
}

static void cm__destroy_in_rep_rcvd(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);

	rig_pass(rig);
	rig_accept(rig->side[B].id);
	rig_pass(rig);
	rig->drop[CM_REJ - CM_REQ] = 1;
	nic_cm_id_destroy(a);
	rig_time(rig, RIG_WAIT_B);
	/* Side a's REJ is lost. Side b repeats the REP, which finds no connection at side a and is rejected. */
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>REJ b>REP a>REJ b:REJ");
	assert_int_equal(rig->side[B].event.rej.reason, NIC_CM_REJ_INVALID_COMM_ID);
	nic_cm_id_destroy(rig->side[B].id);
	expect_gone(rig);
}

static void cm__destroy_in_rep_sent(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);

	rig_pass(rig);
	rig_accept(rig->side[B].id);
	nic_cm_id_destroy(rig->side[B].id);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP b>REJ b>DREQ a:REP a:REJ a>DREP");
	nic_cm_id_destroy(a);
	expect_gone(rig);
}

static void cm__destroy_in_rep_sent_that_did_not_arrive(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig);

	rig_pass(rig);
	rig->drop[CM_REP - CM_REQ] = rig->drop[CM_REJ - CM_REQ] = 1;
	rig_accept(rig->side[B].id);
	nic_cm_id_destroy(rig->side[B].id);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP b>REJ b>DREQ");
	/* Side a still waits for a REP and ignores the DREQ. It repeats its REQ, which side b rejects. */
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "a>REQ b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_CONSUMER);
	nic_cm_id_destroy(a);
	expect_gone(rig);
}

static void cm__destroy_in_established(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	rig_establish(rig, &a, &b);
	rig->drop[CM_DREQ - CM_REQ] = 1;
	nic_cm_id_destroy(a);
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "a>DREQ a>DREQ b:DREQ");
	nic_cm_id_destroy(b);
	rig_pass(rig);
	rig_expect(rig, "b>DREP");
	expect_gone(rig);
	rig_expect(rig, "");
}

static void destroy_it(struct rig_side *side, const struct nic_cm_event *event)
{
	(void)side;
	nic_cm_id_destroy(event->id);
}

static void cm__ids_can_be_destroyed_in_every_event(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b;

	rig->side[A].on_event = rig->side[B].on_event = destroy_it;
	rig_connect(rig);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REJ a:REJ");
	rig->side[A].on_event = rig->side[B].on_event = NULL;
	rig_establish(rig, &a, &b);
	rig->side[A].on_event = rig->side[B].on_event = destroy_it;
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>DREQ b:DREQ b>DREP a:DREP");
	rig->drop[CM_REQ - CM_REQ] = 99;
	rig_connect(rig);
	rig_time(rig, 5 * RIG_WAIT);
	rig_expect(rig, "a>REQ a>REQ a>REQ a>REQ a>REJ a:REQ_ERROR");
	expect_gone(rig);
}

/* ---- SIDR ------------------------------------------------------------------------------------------------------- */

static struct nic_cm_id *sidr_ask(struct rig *rig, uint64_t service_id)
{
	struct nic_cm_sidr sidr = {
		.service_id = service_id,
		.route = {.own = rig->side[A].gid, .peer = rig->side[B].gid},
		.timeout_ns = RIG_WAIT,
		.max_cm_retries = RIG_RETRIES,
		.private_data = "which",
		.private_len = 5,
	};
	struct nic_cm_id *id;

	assert_int_equal(nic_cm_sidr_request(rig->side[A].cm, &sidr, &id), 0);
	return id;
}

static void sidr_answer(struct nic_cm_id *id)
{
	struct nic_cm_sidr_reply reply = {.qpn = 0x345, .qkey = 0x1234567, .private_data = "this", .private_len = 4};

	assert_int_equal(nic_cm_sidr_reply(id, &reply), 0);
	assert_int_equal(nic_cm_sidr_reply(id, &reply), -EINVAL);
	nic_cm_id_destroy(id);
}

static void cm__CM_09_sidr_gives_qpn_and_qkey(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = sidr_ask(rig, RIG_SERVICE);
	const struct nic_cm_sidr_rep_event *rep = &rig->side[A].event.sidr_rep;

	rig_pass(rig);
	assert_memory_equal(rig->side[B].data, "which", 6);
	assert_int_equal(rig->side[B].event.sidr_req.service_id, RIG_SERVICE);
	assert_int_equal(rig->side[B].event.private_len, NIC_CM_SIDR_REQ_PRIVATE);
	sidr_answer(rig->side[B].id);
	rig_pass(rig);
	rig_expect(rig, "a>SIDR_REQ b:SIDR_REQ b>SIDR_REP a:SIDR_REP");
	assert_int_equal(rep->status, NIC_CM_SIDR_OK);
	assert_int_equal(rep->qpn, 0x345);
	assert_int_equal(rep->qkey, 0x1234567);
	assert_memory_equal(rig->side[A].data, "this", 5);
	nic_cm_id_destroy(a);
	rig_time(rig, 20000000000ull);
	expect_gone(rig);
}

static void cm__CM_09_lost_sidr_messages_are_sent_again(void **state)
{
	struct rig *rig = *state;

	rig->drop[CM_SIDR_REQ - CM_REQ] = rig->drop[CM_SIDR_REP - CM_REQ] = 1;
	sidr_ask(rig, RIG_SERVICE);
	rig_time(rig, RIG_WAIT);
	sidr_answer(rig->side[B].id);
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "a>SIDR_REQ a>SIDR_REQ b:SIDR_REQ b>SIDR_REP a>SIDR_REQ b>SIDR_REP a:SIDR_REP");
}

static void cm__CM_09_sidr_without_an_answer_is_given_up(void **state)
{
	struct rig *rig = *state;

	rig->drop[CM_SIDR_REQ - CM_REQ] = 99;
	sidr_ask(rig, RIG_SERVICE);
	rig_time(rig, (RIG_RETRIES + 1) * RIG_WAIT);
	rig_expect(rig, "a>SIDR_REQ a>SIDR_REQ a>SIDR_REQ a>SIDR_REQ a:SIDR_REQ_ERROR");
}

static void cm__CM_09_unknown_service_or_destroyed_id_refuses_sidr(void **state)
{
	struct rig *rig = *state;

	sidr_ask(rig, RIG_SERVICE + 1);
	rig_pass(rig);
	rig_expect(rig, "a>SIDR_REQ b>SIDR_REP a:SIDR_REP");
	assert_int_equal(rig->side[A].event.sidr_rep.status, NIC_CM_SIDR_UNSUPPORTED);
	sidr_ask(rig, RIG_SERVICE);
	rig_pass(rig);
	nic_cm_id_destroy(rig->side[B].id);
	rig_pass(rig);
	assert_int_equal(rig->side[A].event.sidr_rep.status, NIC_CM_SIDR_REJECT);
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/** Side a's process is killed, and a daemon adopts its records. */
static void a_is_killed(struct rig *rig)
{
	static struct nic_cm_record records[RIG_RECORDS];
	struct nic_cm_config config = {.id_base = 1 << 16, .id_bits = 16};
	struct rig_side *a = &rig->side[A];
	struct nic_cm *old = a->cm;
	int rc;

	memcpy(records, a->records, sizeof(records));
	rig_config(a, &config);
	assert_int_equal(nic_cm_create(&a->cm, &config), 0);
	nic_cm_destroy(old);
	rc = nic_cm_adopt(a->cm, records, RIG_RECORDS);
	assert_int_equal(rc, 1);
}

static void cm__CM_07_a_killed_process_disconnects(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b;

	rig_establish(rig, NULL, &b);
	rig->drop[CM_DREQ - CM_REQ] = 1;
	a_is_killed(rig);
	rig_time(rig, RIG_WAIT_B);
	rig_expect(rig, "a>DREQ a>DREQ b:DREQ");
	assert_int_equal(nic_cm_disconnect(b, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "b>DREP");
	rig_time(rig, TIMEWAIT);
	rig_expect(rig, "b:TIMEWAIT_EXIT");
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
}

static void cm__CM_07_a_process_killed_in_req_sent_rejects(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig);
	rig_pass(rig);
	a_is_killed(rig);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ a>REJ b:REJ");
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
}

static void cm__CM_07_a_process_killed_in_rep_rcvd_rejects(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig);
	rig_pass(rig);
	rig_accept(rig->side[B].id);
	rig_pass(rig);
	a_is_killed(rig);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>REJ b:REJ");
}

static void cm__invalid_records_are_not_adopted(void **state)
{
	struct rig *rig = *state;
	struct nic_cm *cm = rig->side[A].cm;
	struct nic_cm_record good, bad;

	rig_establish(rig, NULL, NULL);
	for (unsigned i = 0; i < RIG_RECORDS; i++)
		if (rig->side[A].records[i].state != NIC_CM_IDLE)
			good = rig->side[A].records[i];
	assert_int_equal(nic_cm_adopt(cm, &good, 1), 0); /* skipped: its id is in use */
	good.local_id ^= 0x5555;
#define SKIPPED(field, value)                                                                                          \
	do {                                                                                                           \
		bad = good;                                                                                            \
		bad.field = value;                                                                                     \
		assert_int_equal(nic_cm_adopt(cm, &bad, 1), 0);                                                        \
	} while (0)
	SKIPPED(state, NIC_CM_STATES);
	SKIPPED(state, NIC_CM_LISTEN);
	SKIPPED(state, NIC_CM_SIDR_REQ_SENT);
	SKIPPED(local_id, 0x30000);
	SKIPPED(local_id, 0);
	SKIPPED(remote_id, 0);
	SKIPPED(local_qpn, 0x1000000);
	SKIPPED(max_retries, 16);
	SKIPPED(response_timeout, 32);
	SKIPPED(peer, (struct nic_gid){{0}});
#undef SKIPPED
	assert_int_equal(rig_count(rig, A, NIC_CM_COUNT_adopt_bad), 11);
	rig_expect(rig, "");
	assert_int_equal(nic_cm_adopt(cm, &good, 1), 1);
	rig_expect(rig, "a>DREQ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(cm__CM_07_disconnect_then_timewait_then_the_qp_is_usable),
		RUN(cm__CM_07_lost_dreq_and_drep_are_sent_again),
		RUN(cm__CM_07_a_silent_peer_ends_in_dreq_error),
		RUN(cm__CM_07_both_disconnect_at_once),
		RUN(cm__CM_07_dreq_overtakes_rtu),
		RUN(cm__CM_07_a_late_duplicate_req_starts_no_connection),
		RUN(cm__destroy_in_req_sent),
		RUN(cm__destroy_in_req_rcvd),
		RUN(cm__destroy_in_rep_rcvd),
		RUN(cm__destroy_in_rep_sent),
		RUN(cm__destroy_in_rep_sent_that_did_not_arrive),
		RUN(cm__destroy_in_established),
		RUN(cm__ids_can_be_destroyed_in_every_event),
		RUN(cm__CM_09_sidr_gives_qpn_and_qkey),
		RUN(cm__CM_09_lost_sidr_messages_are_sent_again),
		RUN(cm__CM_09_sidr_without_an_answer_is_given_up),
		RUN(cm__CM_09_unknown_service_or_destroyed_id_refuses_sidr),
		RUN(cm__CM_07_a_killed_process_disconnects),
		RUN(cm__CM_07_a_process_killed_in_req_sent_rejects),
		RUN(cm__CM_07_a_process_killed_in_rep_rcvd_rejects),
		RUN(cm__invalid_records_are_not_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
