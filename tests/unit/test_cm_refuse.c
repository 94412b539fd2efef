/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_refuse.c - nic/cm: refusals, limits, and MADs that no correct peer sends, as transcripts (cm_rig.h). */
#include "cm_rig.h"

#include <errno.h>

#define RUN(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

static void cm__CM_04_an_unknown_service_gets_reason_8(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *a;

	connect.service_id++;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(rig->side[A].event.rej.answered, NIC_CM_ANSWERS_REQ);
	assert_int_equal(rig_state(a), NIC_CM_IDLE);
	assert_int_equal(nic_cm_ids(rig->side[B].cm), 1);
}

static void cm__CM_04_a_consumer_declines_with_private_data(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b;

	rig_connect(rig);
	rig_pass(rig);
	b = rig->side[B].id;
	rig->drop[CM_REJ - CM_REQ] = 1;
	rig_reject(b, NIC_CM_REJ_CONSUMER);
	nic_cm_id_destroy(b);
	/* The REJ is lost. The repeated REQ makes no new connection, and gets the same REJ. */
	rig_time(rig, RIG_WAIT);
	rig_expect(rig, "a>REQ b:REQ b>REJ a>REQ b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_CONSUMER);
	assert_memory_equal(rig->side[A].data, "no", 3);
	rig_time(rig, (RIG_RETRIES + 2) * RIG_WAIT);
	assert_int_equal(nic_cm_ids(rig->side[B].cm), 1);
}

static void cm__CM_04_a_stale_req_gets_reason_10_and_the_old_connection_a_dreq(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a, *b, *again;

	rig_establish(rig, &a, &b);
	/* Side a has lost the first connection, and uses the same QP for a new one. */
	again = rig_connect(rig);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b>REJ b>DREQ a:REJ a:DREQ");
	assert_int_equal(rig_state(again), NIC_CM_TIMEWAIT); /* not IDLE: side b still has the QP in use */
	assert_int_equal(rig_state(b), NIC_CM_DREQ_SENT);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_stale), 1);
	assert_int_equal(nic_cm_disconnect(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>DREP b:DREP");
	nic_cm_id_destroy(again);
	/* Once the stale connection has ended, the QP can be used again. */
	again = rig_connect(rig);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ");
}

static void cm__CM_04_a_communication_id_used_again_is_stale(void **state)
{
	struct rig *rig = *state;
	struct cm_mad req;
	struct nic_cm_id *b;

	rig_connect(rig);
	req = rig->last;
	req.data = NULL;
	req.data_len = 0;
	rig_pass(rig);
	b = rig->side[B].id;
	rig_accept(b);
	assert_int_equal(nic_cm_notify(b), 0);
	rig->queued = 0;
	rig_expect(rig, "a>REQ b:REQ b>REP b:USER_ESTABLISHED");
	req.tid++;
	req.req.qpn++;
	rig_inject(rig, A, &req);
	rig_expect(rig, "b>REJ b>DREQ");
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_stale), 1);
}

static void cm__CM_04_a_stale_rep_is_rejected(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *a, *second;

	rig_establish(rig, &a, NULL);
	connect.qpn++;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &second), 0);
	rig_pass(rig);
	rig_accept(rig->side[B].id); /* with the QP of the first connection */
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a>DREQ a>REJ a:REQ_ERROR b:DREQ b:REJ");
	assert_int_equal(rig_state(a), NIC_CM_DREQ_SENT);
	assert_int_equal(rig_state(second), NIC_CM_IDLE);
}

static void cm__CM_04_wrong_requests_get_their_reason(void **state)
{
	struct rig *rig = *state;
	struct cm_mad good, bad;

	rig_connect(rig);
	good = rig->last;
	good.data = NULL;
	good.data_len = 0;
	rig->queued = 0;
	rig_expect(rig, "a>REQ");
	bad = good;
	bad.req.mtu = 6;
	rig_inject(rig, A, &bad);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_MTU);
	bad = good;
	bad.req.transport = CM_RD;
	rig_inject(rig, A, &bad);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_TRANSPORT);
	/* The REQ names a sender's address that is not the address from which it arrives. */
	rig_inject(rig, 2, &good);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_GID);
	bad = good;
	/* The REQ names a destination that is not the address where it arrives. */
	bad.req.primary.remote_gid = rig->side[A].gid;
	rig_inject(rig, A, &bad);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_GID);
	rig_expect(rig, "b>REJ b>REJ b>REJ b>REJ");
	bad = good;
	bad.local_id = 0;
	rig_inject(rig, A, &bad);
	rig_expect(rig, "");
	assert_int_equal(nic_cm_ids(rig->side[B].cm), 1);
}

static void cm__CM_04_a_wrong_request_ends_no_connection(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a = rig_connect(rig), *b;
	struct cm_mad bad = rig->last;

	rig_pass(rig);
	b = rig->side[B].id;
	rig_accept(b);
	rig_pass(rig);
	assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU b:RTU");
	bad.data = NULL;
	bad.data_len = 0;
	/* A new REQ from the connected QP: with a valid MTU it would end the connection as stale. */
	bad.local_id++;
	bad.tid++;
	bad.req.mtu = 6;
	rig_inject(rig, A, &bad);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_MTU);
	rig_expect(rig, "b>REJ");
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
}

/* ---- Limits ----------------------------------------------------------------------------------------------------- */

static void cm__CM_04_a_full_backlog_refuses(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_listen listen = {.service_id = 7, .backlog = 2};
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *listener, *a, *first;

	assert_int_equal(nic_cm_listen(rig->side[B].cm, &listen, &listener), 0);
	connect.service_id = 7;
	for (unsigned i = 0; i < 3; i++) {
		connect.qpn++;
		assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
		rig_pass(rig);
		if (i == 0)
			first = rig->side[B].id;
	}
	rig_expect(rig, "a>REQ b:REQ a>REQ b:REQ a>REQ b>REJ a:REJ");
	assert_int_equal(rig->side[A].event.rej.reason, NIC_CM_REJ_CONSUMER);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_backlog_full), 1);
	rig_accept(first);
	rig_pass(rig);
	rig_expect(rig, "b>REP a:REP");
	connect.qpn++;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ");
	/* Connections in the backlog outlive their listener. */
	nic_cm_id_destroy(listener);
	rig_accept(rig->side[B].id);
}

/** A REQ that its sender takes back still counts as unanswered until the listener's owner destroys the REQ's id.
 * Otherwise a peer that sends REQs and REJs in turn would create more ids than the backlog allows. */
static void cm__a_withdrawn_req_fills_the_backlog_until_its_id_is_destroyed(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_listen listen = {.service_id = 7, .backlog = 2};
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *listener, *a, *first;
	struct nic_cm_info info;

	assert_int_equal(nic_cm_listen(rig->side[B].cm, &listen, &listener), 0);
	connect.service_id = 7;
	for (unsigned i = 0; i < 3; i++) {
		connect.qpn++;
		assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
		rig_pass(rig);
		if (i == 0)
			first = rig->side[B].id;
		if (i < 2)
			nic_cm_id_destroy(a);
		rig_pass(rig);
	}
	rig_expect(rig, "a>REQ b:REQ a>REJ b:REJ a>REQ b:REQ a>REJ b:REJ a>REQ b>REJ a:REJ");
	nic_cm_id_info(listener, &info);
	assert_int_equal(info.pending, 2);
	nic_cm_id_destroy(first);
	nic_cm_id_info(listener, &info);
	assert_int_equal(info.pending, 1);
	connect.qpn++;
	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ");
}

static void cm__a_flood_of_reqs_is_rejected_beyond_the_id_limit(void **state)
{
	struct rig *rig = *state;
	struct cm_mad req;

	rig_connect(rig);
	req = rig->last;
	req.data = NULL;
	req.data_len = 0;
	rig->queued = 0;
	for (unsigned i = 0; i < 1000; i++) {
		req.local_id = 1000 + i;
		req.req.qpn = 1000 + i;
		rig_inject(rig, A, &req);
		rig->queued = 0;
		rig->transcript[0] = '\0';
	}
	assert_int_equal(nic_cm_ids(rig->side[B].cm), RIG_RECORDS);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_no_room), 1000 - RIG_RECORDS + 1);
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_NO_RESOURCES);
}

static void cm__lingering_ids_are_reused_for_new_connections(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *a;

	for (unsigned i = 0; i < 3 * RIG_RECORDS; i++) {
		a = rig_connect(rig);
		rig_pass(rig);
		rig_reject(rig->side[B].id, NIC_CM_REJ_CONSUMER);
		nic_cm_id_destroy(rig->side[B].id);
		rig_pass(rig);
		nic_cm_id_destroy(a);
		rig_expect(rig, "a>REQ b:REQ b>REJ a:REJ");
	}
	assert_int_equal(nic_cm_ids(rig->side[B].cm), RIG_RECORDS);
	assert_int_equal(nic_cm_ids(rig->side[A].cm), 0);
}

/** If the owner destroys a connected id, the connection manager keeps it and repeats the DREQ, as often as the REQ
 * allows. When there are as many ids as allowed, a new connection replaces such an id. */
static void cm__disconnecting_ids_are_reused_for_new_connections(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *a;

	rig->drop[CM_DREQ - CM_REQ] = UINT32_MAX;
	for (unsigned i = 0; i < 2 * RIG_RECORDS; i++) {
		connect.qpn++;
		assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &a), 0);
		rig_pass(rig);
		rig_accept_as(rig->side[B].id, connect.qpn);
		rig_pass(rig);
		assert_int_equal(nic_cm_establish(a, NULL, 0), 0);
		rig_pass(rig);
		nic_cm_id_destroy(rig->side[B].id);
		nic_cm_id_destroy(a);
		rig_pass(rig);
		rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU b:RTU b>DREQ a>DREQ");
	}
	assert_int_equal(nic_cm_ids(rig->side[B].cm), RIG_RECORDS);
	assert_int_equal(nic_cm_ids(rig->side[A].cm), RIG_RECORDS);
}

static void cm__the_most_specific_listener_is_selected(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_listen any = {.service_id = RIG_SERVICE}, here = any, wide = any, elsewhere = any;
	struct nic_cm *cm = rig->side[B].cm;
	struct nic_cm_id *id_here, *id_wide, *id_elsewhere, *twice;

	here.own = rig->side[B].gid;
	elsewhere.own = rig->side[A].gid;
	wide.mask = ~0xffffull;
	assert_int_equal(nic_cm_listen(cm, &any, &twice), -EADDRINUSE);
	assert_int_equal(nic_cm_listen(cm, &elsewhere, &id_elsewhere), 0);
	assert_ptr_equal(nic_cm_listener(cm, RIG_SERVICE, &rig->side[B].gid), rig->side[B].listener);
	assert_int_equal(nic_cm_listen(cm, &here, &id_here), 0);
	assert_int_equal(nic_cm_listen(cm, &here, &twice), -EADDRINUSE);
	assert_int_equal(nic_cm_listen(cm, &wide, &id_wide), 0);
	assert_int_equal(nic_cm_listen(cm, &wide, &twice), -EADDRINUSE);
	assert_ptr_equal(nic_cm_listener(cm, RIG_SERVICE, &rig->side[B].gid), id_here);
	nic_cm_id_destroy(id_here);
	assert_ptr_equal(nic_cm_listener(cm, RIG_SERVICE, &rig->side[B].gid), rig->side[B].listener);
	assert_ptr_equal(nic_cm_listener(cm, RIG_SERVICE + 1, &rig->side[B].gid), id_wide);
	nic_cm_id_destroy(id_wide);
	assert_null(nic_cm_listener(cm, RIG_SERVICE + 1, &rig->side[B].gid));
}

static void cm__listeners_of_the_two_families_share_a_service(void **state)
{
	static const struct nic_gid v4 = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}}, v6 = {{[15] = 1}};
	struct rig *rig = *state;
	struct nic_cm_listen listen = {.service_id = RIG_SERVICE + 9, .family = NIC_CM_IPV4};
	struct nic_cm *cm = rig->side[B].cm;
	struct nic_cm_id *id_v4, *id_v6, *id;

	assert_int_equal(nic_cm_listen(cm, &listen, &id_v4), 0);
	assert_null(nic_cm_listener(cm, listen.service_id, &v6));
	listen.family = NIC_CM_IPV6;
	assert_int_equal(nic_cm_listen(cm, &listen, &id_v6), 0);
	assert_int_equal(nic_cm_listen(cm, &listen, &id), -EADDRINUSE);
	listen.family = NIC_CM_BOTH_FAMILIES;
	assert_int_equal(nic_cm_listen(cm, &listen, &id), -EADDRINUSE);
	assert_ptr_equal(nic_cm_listener(cm, listen.service_id, &v4), id_v4);
	assert_ptr_equal(nic_cm_listener(cm, listen.service_id, &v6), id_v6);
	nic_cm_id_destroy(id_v6);
	assert_null(nic_cm_listener(cm, listen.service_id, &v6));
}

/* ---- Wrong ids and senders --------------------------------------------------------------------------------------- */

static void cm__CM_07_a_dreq_with_wrong_qpn_peer_or_id_disconnects_nothing(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b;
	struct nic_cm_info info;
	struct cm_mad dreq = {.attr = CM_DREQ, .tid = 1};

	rig_establish(rig, NULL, &b);
	nic_cm_id_info(b, &info);
	dreq.local_id = info.remote_id;
	dreq.remote_id = info.local_id;
	dreq.dreq.remote_qpn = info.local_qpn + 1;
	rig_inject(rig, A, &dreq);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_bad_qpn), 1);
	dreq.dreq.remote_qpn--;
	rig_inject(rig, 2, &dreq);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_bad_peer), 1);
	rig_expect(rig, "");
	dreq.local_id++; /* not the peer's id: answered like a DREQ to an unknown id */
	rig_inject(rig, A, &dreq);
	rig_expect(rig, "b>DREP");
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
	dreq.local_id--;
	rig_inject(rig, A, &dreq);
	rig_expect(rig, "b:DREQ");
}

static void cm__CM_04_a_rej_with_wrong_ids_or_peer_is_ignored(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_id *b;
	struct nic_cm_info info;
	struct cm_mad rej = {.attr = CM_REJ, .tid = 1, .rej = {NIC_CM_REJ_CONSUMER, CM_ANSWERS_REP}};

	rig_establish(rig, NULL, &b);
	nic_cm_id_info(b, &info);
	rej.local_id = info.remote_id;
	rej.remote_id = info.local_id + 1;
	rig_inject(rig, A, &rej);
	rej.remote_id--;
	rej.local_id++;
	rig_inject(rig, A, &rej);
	rej.local_id--;
	rig_inject(rig, 2, &rej);
	rig_expect(rig, "");
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
	/* A REJ can have remote ID 0 only as long as its sender does not know the receiver's ID. */
	rej.remote_id = 0;
	rig_inject(rig, A, &rej);
	rig_expect(rig, "");
	assert_int_equal(rig_state(b), NIC_CM_ESTABLISHED);
	rej.remote_id = info.local_id;
	rig_inject(rig, A, &rej);
	rig_expect(rig, "b:REJ");
	assert_int_equal(rig_state(b), NIC_CM_TIMEWAIT);
}

static void cm__CM_04_unknown_ids_answer_rep_by_rej_dreq_by_drep_lap_by_apr(void **state)
{
	struct rig *rig = *state;
	struct cm_mad mad = {.attr = CM_REP, .tid = 5, .local_id = 77, .remote_id = 0x20099};

	rig_inject(rig, A, &mad);
	rig_expect(rig, "b>REJ");
	assert_int_equal(rig->last.rej.reason, NIC_CM_REJ_INVALID_COMM_ID);
	assert_int_equal(rig->last.rej.answered, CM_ANSWERS_REP);
	assert_int_equal(rig->last.remote_id, 77);
	assert_int_equal(rig->last.tid, 5);
	mad.attr = CM_DREQ;
	rig_inject(rig, A, &mad);
	rig_expect(rig, "b>DREP");
	assert_int_equal(rig->last.local_id, 0x20099);
	mad.attr = CM_DREP;
	rig_inject(rig, A, &mad);
	mad.attr = CM_REJ;
	rig_inject(rig, A, &mad);
	mad.attr = CM_MRA;
	rig_inject(rig, A, &mad);
	mad.attr = CM_APR;
	rig_inject(rig, A, &mad);
	rig_expect(rig, "");
	mad.attr = CM_LAP;
	rig_inject(rig, A, &mad);
	rig_expect(rig, "b>APR");
	assert_int_equal(rig->last.apr.status, CM_APR_UNSUPPORTED);
}

static void cm__CM_12_malformed_mads_are_dropped_and_counted(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_route route = {.own = rig->side[B].gid, .peer = rig->side[A].gid};
	static const struct {
		unsigned offset;
		uint8_t value;
		enum nic_cm_counter counter;
	} faults[] = {
		{0, 2, NIC_CM_COUNT_rx_bad_base_version},  {1, 3, NIC_CM_COUNT_rx_bad_class},
		{2, 1, NIC_CM_COUNT_rx_bad_class_version}, {3, 0x81, NIC_CM_COUNT_rx_bad_method},
		{17, 0x1f, NIC_CM_COUNT_rx_bad_attribute},
	};
	uint8_t good[600] = {0}, bad[NIC_CM_MAD_LEN];

	rig_connect(rig);
	rig->queued = 0; /* drop this REQ: the test delivers changed copies of it */
	memcpy(good, rig->last_bytes, NIC_CM_MAD_LEN);
	for (unsigned len = 0; len < sizeof(good); len++)
		if (len != NIC_CM_MAD_LEN)
			nic_cm_rx(rig->side[B].cm, &route, good, len);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_too_short), NIC_CM_MAD_LEN);
	assert_int_equal(rig_count(rig, B, NIC_CM_COUNT_rx_too_long), sizeof(good) - NIC_CM_MAD_LEN - 1);
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		memcpy(bad, good, sizeof(bad));
		bad[faults[i].offset] = faults[i].value;
		nic_cm_rx(rig->side[B].cm, &route, bad, sizeof(bad));
		assert_int_equal(rig_count(rig, B, faults[i].counter), 1);
	}
	rig_expect(rig, "a>REQ");
	nic_cm_rx(rig->side[B].cm, &route, good, NIC_CM_MAD_LEN);
	rig_expect(rig, "b:REQ");
}

static void cm__peek_finds_the_service_id_or_the_destination_id(void **state)
{
	struct rig *rig = *state;
	struct nic_cm_peek peek;
	struct nic_cm_info info;
	struct nic_cm_id *a = rig_connect(rig);

	assert_int_equal(nic_cm_peek(rig->last_bytes, NIC_CM_MAD_LEN, &peek), 0);
	assert_true(peek.request && !peek.sidr);
	assert_int_equal(peek.service_id, RIG_SERVICE);
	rig_pass(rig);
	rig_accept(rig->side[B].id);
	assert_int_equal(nic_cm_peek(rig->last_bytes, NIC_CM_MAD_LEN, &peek), 0);
	nic_cm_id_info(a, &info);
	assert_false(peek.request);
	assert_int_equal(peek.local_id, info.local_id);
	assert_int_equal(peek.local_id >> 16, 1); /* in side a's range of ids */
	assert_int_equal(nic_cm_peek(rig->last_bytes, 10, &peek), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(cm__CM_04_an_unknown_service_gets_reason_8),
		RUN(cm__CM_04_a_consumer_declines_with_private_data),
		RUN(cm__CM_04_a_stale_req_gets_reason_10_and_the_old_connection_a_dreq),
		RUN(cm__CM_04_a_communication_id_used_again_is_stale),
		RUN(cm__CM_04_a_stale_rep_is_rejected),
		RUN(cm__CM_04_wrong_requests_get_their_reason),
		RUN(cm__CM_04_a_wrong_request_ends_no_connection),
		RUN(cm__CM_04_a_full_backlog_refuses),
		RUN(cm__a_withdrawn_req_fills_the_backlog_until_its_id_is_destroyed),
		RUN(cm__a_flood_of_reqs_is_rejected_beyond_the_id_limit),
		RUN(cm__lingering_ids_are_reused_for_new_connections),
		RUN(cm__disconnecting_ids_are_reused_for_new_connections),
		RUN(cm__the_most_specific_listener_is_selected),
		RUN(cm__listeners_of_the_two_families_share_a_service),
		RUN(cm__CM_07_a_dreq_with_wrong_qpn_peer_or_id_disconnects_nothing),
		RUN(cm__CM_04_a_rej_with_wrong_ids_or_peer_is_ignored),
		RUN(cm__CM_04_unknown_ids_answer_rep_by_rej_dreq_by_drep_lap_by_apr),
		RUN(cm__CM_12_malformed_mads_are_dropped_and_counted),
		RUN(cm__peek_finds_the_service_id_or_the_destination_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
