/* SPDX-License-Identifier: BSD-3-Clause */
/* test_taken.c - ACK timers on a path that loses nothing, to a peer that is stopped, busy, silent or dead. */
#include "rig.h"

#include "qp.h"
#include "qp_owner.h"

static const struct qp_owner an_owner; /* an owner whose functions must not be called */

#define HOUR_NS	   3600000000000ull
#define LOOKS_MOST 1000000u
#define TIMEOUT	   14
#define TIMEOUT_NS nic_timeout_ns(TIMEOUT)

/** The path's owner. */
static struct {
	uint64_t sent, taken; /* positions in the ring: last packet sent, last packet taken by the peer */
	unsigned asked;
} owner;
static uint32_t lossless;

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	(void)ctx;
	(void)dgid;
	(void)dest_qpn;
	return lossless;
}

static bool untaken(void *ctx, uint32_t path, uint64_t *mark)
{
	(void)ctx;
	assert_int_equal(path, lossless);
	owner.asked++;
	if (*mark == 0)
		*mark = owner.sent;
	return owner.taken < *mark;
}

static struct rig *create_with(uint32_t flags, uint8_t retry_cnt, uint32_t backoff)
{
	struct rig *rig =
		rig_create(&(struct rig_opts){.nic = {.route = route, .untaken = untaken, .ack_backoff = backoff}});

	memset(&owner, 0, sizeof(owner));
	lossless = (uint32_t)nic_path_open(rig->nic, flags);
	rig->attr.timeout = TIMEOUT;
	rig->attr.retry_cnt = retry_cnt;
	rig_to_rts(rig);
	return rig;
}

static struct rig *create(uint32_t flags, uint8_t retry_cnt)
{
	return create_with(flags, retry_cnt, 0);
}

/** Send all packets that are due on the path. @return how many. */
static unsigned take(struct rig *rig)
{
	static uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};
	unsigned n = 0;

	while (nic_path_tx(rig->nic, lossless, &frame, 1, rig->now) == 1) {
		owner.sent += 64;
		n++;
	}
	return n;
}

/** Let the next timer expire. @return how many packets are sent because of it. */
static unsigned expire(struct rig *rig)
{
	assert_true(nic_next_deadline(rig->nic) != UINT64_MAX);
	rig->now = nic_next_deadline(rig->nic);
	nic_timeout(rig->nic, rig->now);
	return take(rig);
}

/** Let timers expire until request 1 has failed. @return how many have expired. */
static unsigned expire_all(struct rig *rig)
{
	unsigned n = 0;

	while (nic_cq_count(rig->send_cq) == 0) {
		expire(rig);
		assert_true(++n < 1000);
	}
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	return n;
}

static void taken__requests_to_a_stopped_peer_do_not_time_out(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 0);
	uint64_t begun, looks = 0;

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_RDMA_WRITE, 0, 3 * RIG_MTU);
	assert_int_equal(take(rig), 4);
	for (begun = rig->now; rig->now - begun < 10 * HOUR_NS; looks++) {
		assert_int_equal(expire(rig), 0); /* no retransmission: the first copy is still in the ring */
		assert_int_equal(nic_cq_count(rig->send_cq), 0);
		assert_true(looks < LOOKS_MOST);
	}
	assert_int_equal(rig_counter(rig, ack_timer_waits), looks);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	assert_int_equal(rig_counter(rig, retransmitted), 0);
	/* A request posted while the peer is stopped is sent after the others; all complete when the peer continues. */
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	assert_int_equal(take(rig), 1);
	expire(rig);
	owner.taken = owner.sent;
	rig_ack(rig, RIG_SQ_PSN + 4, SYN_ACK);
	for (unsigned i = 1; i <= 3; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX || expire(rig) == 0);
	rig_destroy(rig);
}

/** While a peer is stopped, timers of a few microseconds are checked only about every millisecond. */
static void taken__a_stopped_peer_is_checked_about_once_a_millisecond(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 7);
	uint64_t begun;

	(void)state;
	rig->qp->attr.timeout = 1;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	begun = rig->now;
	for (unsigned i = 0; i < 1000; i++)
		expire(rig);
	assert_true(rig->now - begun >= 999000000);
	rig_destroy(rig);
}

/** When a stopped peer continues, it gets a full timeout to answer, even if the QP has no retries. */
static void taken__a_resumed_peer_gets_a_full_timeout(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 0);

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(expire(rig), 0);
	owner.taken = owner.sent;
	assert_int_equal(expire(rig), 0);
	assert_int_equal(nic_cq_count(rig->send_cq), 0);
	assert_true(nic_next_deadline(rig->nic) - rig->now >= TIMEOUT_NS);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	/* The next request waits for a stopped peer in the same way. */
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	take(rig);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(expire(rig), 0);
	assert_int_equal(nic_cq_count(rig->send_cq), 0);
	rig_destroy(rig);
}

/** A peer that takes all packets but does not answer fails after the same number of retries as on any other path.
 * There the timer doubles once, whatever the configuration says about other paths. */
static void taken__a_silent_peer_that_took_all_fails_in_the_usual_time(void **state)
{
	static const struct {
		uint32_t flags, backoff;
		uint64_t timeouts;
	} cases[] = {
		{0, 4, 1 + 2 + 6 * 4},
		{0, 1, 8},
		{NIC_PATH_LOSSLESS, 4, 1 + 7 * 2},
		{NIC_PATH_LOSSLESS, 1, 1 + 7 * 2},
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = create_with(cases[i].flags, 7, cases[i].backoff);
		uint64_t begun = rig->now;

		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		take(rig);
		for (unsigned n = 0; nic_cq_count(rig->send_cq) == 0; n++) {
			owner.taken = owner.sent;
			assert_int_equal(expire(rig), n < 7);
		}
		rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
		assert_true(rig->now - begun == cases[i].timeouts * TIMEOUT_NS);
		assert_int_equal(owner.asked, cases[i].flags ? 8 : 0);
		assert_int_equal(rig_counter(rig, local_ack_timeout_err), 8);
		rig_destroy(rig);
	}
}

/** The ring is never empty, because other QPs use it all the time: a silent peer is nevertheless detected. */
static void taken__a_silent_peer_is_detected_on_a_busy_path(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 3);
	unsigned n = 0;

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	while (nic_cq_count(rig->send_cq) == 0) {
		owner.taken = owner.sent; /* the peer takes what had been sent when the timer last expired */
		owner.sent += 1000;
		expire(rig);
		assert_true(++n <= 3 * 4); /* 4 tries of 3 expiries: record the position, find it taken, time out */
	}
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 4);
	assert_int_equal(rig_counter(rig, retransmitted), 3);
	rig_destroy(rig);
}

/** The peer dies while it is stopped. Its death ends its path: the request is retransmitted on path 0, with the full
 * number of retries. */
static void taken__a_peer_that_dies_while_stopped_fails_after_all_retries(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 7);
	uint64_t begun;

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	for (unsigned i = 0; i < 1000; i++)
		expire(rig);
	nic_path_close(rig->nic, lossless);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	begun = rig->now;
	for (unsigned i = 0; i < 7; i++) {
		expire(rig);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	}
	expire(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	assert_true(rig->now - begun < 100 * TIMEOUT_NS);
	rig_destroy(rig);
}

/** A retry that was sent before the peer stopped counts; while the peer is stopped, no further retries are used up. */
static void taken__no_retry_is_used_up_while_a_retry_is_untaken(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 1);

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	owner.taken = owner.sent; /* the peer took the packet, but stopped before it answered */
	assert_int_equal(expire(rig), 1);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(expire(rig), 0);
	assert_int_equal(nic_cq_count(rig->send_cq), 0);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/** Reliable-datagram endpoints give up a stopped peer just like a silent one, but do not retransmit packets that the
 * peer has not taken. */
static void taken__endpoints_give_up_a_stopped_peer(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 7);

	(void)state;
	rig->qp->owner = &an_owner;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	assert_int_equal(expire_all(rig), 8);
	assert_int_equal(rig_counter(rig, retransmitted), 0);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 8);
	rig_destroy(rig);
}

/** Reliable-datagram endpoints resend a packet that the peer took but did not answer. */
static void taken__endpoints_retransmit_a_taken_but_unanswered_packet(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 7);

	(void)state;
	rig->qp->owner = &an_owner;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	take(rig);
	assert_int_equal(expire(rig), 0);
	owner.taken = owner.sent;
	assert_int_equal(expire(rig), 0);
	assert_int_equal(expire(rig), 1);
	rig_destroy(rig);
}

/** A packet that waits for room in the path has no ACK timer and does not fail. */
static void taken__a_packet_waiting_for_path_room_does_not_time_out(void **state)
{
	struct rig *rig = create(NIC_PATH_LOSSLESS, 7);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	assert_int_equal(nic_path_lose(rig->nic, lossless, &frame, 32, rig->now), 0);
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	rig->now += HOUR_NS;
	assert_int_equal(take(rig), 1);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken__requests_to_a_stopped_peer_do_not_time_out),
		cmocka_unit_test(taken__a_stopped_peer_is_checked_about_once_a_millisecond),
		cmocka_unit_test(taken__a_resumed_peer_gets_a_full_timeout),
		cmocka_unit_test(taken__a_silent_peer_that_took_all_fails_in_the_usual_time),
		cmocka_unit_test(taken__a_silent_peer_is_detected_on_a_busy_path),
		cmocka_unit_test(taken__a_peer_that_dies_while_stopped_fails_after_all_retries),
		cmocka_unit_test(taken__no_retry_is_used_up_while_a_retry_is_untaken),
		cmocka_unit_test(taken__endpoints_give_up_a_stopped_peer),
		cmocka_unit_test(taken__endpoints_retransmit_a_taken_but_unanswered_packet),
		cmocka_unit_test(taken__a_packet_waiting_for_path_room_does_not_time_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
