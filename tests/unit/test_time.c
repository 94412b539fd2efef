/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_time.c - the owner's clock jumps, or its process is stopped: timers continue, no request fails just because of
 * that, and requests that should fail do.
 */
#include "rig.h"

#define HOUR_NS	  3600000000000ull
#define MINUTE_NS 60000000000ull
#define TIMEOUT	  14 /* the code of 67 ms */
#define LOOK_NS	  2000000000ull

/** Create a QP that sends its first packet three hours after the clock began. */
static struct rig *asked(uint8_t retry_cnt)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.timeout = TIMEOUT;
	rig->attr.retry_cnt = retry_cnt;
	rig->now += 3 * HOUR_NS;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	return rig;
}

/** Let time pass in small steps and run timers. */
static void pass(struct rig *rig, uint64_t ns)
{
	for (uint64_t step = ns / 16 + 1, passed = 0; passed < ns; passed += step) {
		rig->now += step < ns - passed ? step : ns - passed;
		nic_timeout(rig->nic, rig->now);
	}
}

/** Move the clock by ns, forwards or backwards. */
static void jump(struct rig *rig, int64_t ns)
{
	rig->now += (uint64_t)ns;
	nic_timeout(rig->nic, rig->now);
}

static void time__an_ack_timer_goes_on_when_the_clock_goes_back(void **state)
{
	struct rig *rig = asked(1);
	uint64_t t = rig_timeout_ns(TIMEOUT);

	(void)state;
	pass(rig, t / 2);
	jump(rig, -(int64_t)HOUR_NS);
	pass(rig, t / 2 - 1);
	rig_expect_silence(rig);
	pass(rig, 1);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN); /* the timer does not expire an hour late */
	jump(rig, -(int64_t)HOUR_NS);
	pass(rig, 2 * t);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_destroy(rig);
}

static void time__deadlines_follow_the_owners_clock(void **state)
{
	struct rig *rig = asked(7);
	uint64_t t = rig_timeout_ns(TIMEOUT);

	(void)state;
	assert_true(nic_next_deadline(rig->nic) == rig->now + t);
	jump(rig, -(int64_t)HOUR_NS);
	assert_true(nic_next_deadline(rig->nic) == rig->now + t);
	rig->now -= HOUR_NS;
	assert_true(nic_time(rig->nic, rig->now) == rig->now + t); /* nic_time() itself notices the step back */
	jump(rig, HOUR_NS);
	assert_true(nic_next_deadline(rig->nic) > rig->now);
	assert_true(nic_next_deadline(rig->nic) <= rig->now + t);
	assert_int_equal(rig_counter(rig, clock_back), 2);
	assert_int_equal(rig_counter(rig, clock_gaps), 1);
	rig_destroy(rig);
}

static void time__an_rnr_wait_goes_on_when_the_clock_goes_back(void **state)
{
	struct rig *rig = asked(7);

	(void)state;
	rig_ack(rig, RIG_SQ_PSN, SYN_RNR | 20); /* the code of 10.24 ms */
	jump(rig, -(int64_t)HOUR_NS);
	pass(rig, 10239999);
	rig_expect_silence(rig);
	pass(rig, 1);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_destroy(rig);
}

static void time__a_delayed_ack_goes_when_the_clock_has_gone_back(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.ack_delay_ns = 20000});

	(void)state;
	rig->now += 3 * HOUR_NS;
	rig_to_rts(rig);
	rig_post_recv(rig, 1, 0, 64);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	jump(rig, -(int64_t)HOUR_NS);
	pass(rig, 19999);
	rig_expect_silence(rig);
	pass(rig, 1);
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
	rig_destroy(rig);
}

/** The clock jumps ahead, for example because the process was stopped. The ACK may have arrived meanwhile, so no retry
 * is used up, even if there is only one try. */
static void time__a_jump_ahead_uses_up_no_try(void **state)
{
	(void)state;
	for (unsigned answered = 0; answered < 2; answered++) {
		struct rig *rig = asked(0);

		pass(rig, 1000000);
		jump(rig, 10 * MINUTE_NS);
		rig_expect_no_wc(rig->send_cq);
		pass(rig, 1000000);
		rig_expect_no_wc(rig->send_cq);
		if (answered) {
			rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
			rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		} else {
			pass(rig, rig_timeout_ns(TIMEOUT));
			rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
		}
		rig_destroy(rig);
	}
}

/** A long timer does not start over after the process was stopped: it expires soon. */
static void time__a_long_timer_runs_out_soon_after_a_stop(void **state)
{
	struct rig *rig = rig_create(NULL);

	(void)state;
	rig->attr.timeout = 24; /* the code of 69 s */
	rig->attr.retry_cnt = 7;
	rig->now += HOUR_NS;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	jump(rig, 10 * MINUTE_NS);
	rig_expect_silence(rig);
	pass(rig, 200000000);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/** Many QPs have timers when the clock jumps ahead by an hour: none of them loses a try. */
static void time__an_hour_ahead_costs_none_of_many_qps_a_try(void **state)
{
	struct rig *rig = asked(0);
	struct nic_qp *first = rig->qp, *qp[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		qp[i] = rig->qp = rig_qp_create(rig);
		rig->attr.timeout = (uint8_t)(TIMEOUT + i % 2);
		rig_to_rts(rig);
		rig_post_send(rig, 2 + i, NIC_WR_SEND, 0, 8);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		pass(rig, 1000000);
	}
	jump(rig, HOUR_NS);
	rig_expect_no_wc(rig->send_cq);
	pass(rig, 4 * rig_timeout_ns(TIMEOUT + 1));
	for (unsigned i = 0; i < 9; i++) { /* without answers all requests fail */
		struct nic_wc wc;

		assert_true(rig_poll(rig->send_cq, &wc));
		assert_int_equal(wc.status, NIC_WC_RETRY_EXC_ERR);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(nic_qp_destroy(qp[i]), 0);
	rig->qp = first;
	rig_destroy(rig);
}

/** An owner that runs the NIC only every two seconds: timers still make progress, and a dead peer is detected. */
static void time__timers_progress_if_the_nic_runs_every_two_seconds(void **state)
{
	struct rig *rig = asked(7);
	unsigned looks = 0, packets = 0;
	struct nic_wc wc;

	(void)state;
	while (!rig_poll(rig->send_cq, &wc)) {
		assert_true(++looks < 20);
		for (unsigned i = 0; i < 3; i++) /* a few polls in a row */
			jump(rig, i ? 1000 : (int64_t)LOOK_NS);
		packets += rig_drain(rig);
	}
	assert_int_equal(wc.status, NIC_WC_RETRY_EXC_ERR);
	assert_int_equal(packets, 7);
	rig_destroy(rig);
}

/** Two threads on CPUs whose clocks differ a little run the NIC in turn: the NIC's time must not run faster because of
 * that. */
static void time__small_clock_differences_between_cpus_do_not_accumulate(void **state)
{
	struct rig *rig = asked(7);
	uint64_t t = rig_timeout_ns(TIMEOUT), start = rig->now;

	(void)state;
	while (rig->now < start + t) {
		nic_timeout(rig->nic, rig->now);
		nic_timeout(rig->nic, rig->now - 500);
		rig->now += 1000;
		if (rig->now < start + t)
			rig_expect_silence(rig);
	}
	jump(rig, 1000);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(rig_counter(rig, clock_back), 0);
	rig_destroy(rig);
}

static void time__requests_survive_random_clock_jumps_both_ways(void **state)
{
	struct rig *rig = rig_create(NULL);
	uint64_t x = 88172645463325252u;

	(void)state;
	rig->attr.timeout = TIMEOUT;
	rig->attr.retry_cnt = 7;
	rig->now += 5000 * HOUR_NS;
	rig_to_rts(rig);
	for (unsigned i = 0; i < 300; i++) {
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		jump(rig, (int64_t)(x % (2 * HOUR_NS)) - (int64_t)HOUR_NS);
		rig_expect_no_wc(rig->send_cq);
		if (x % 3 == 0) { /* the first packet was lost: await its retransmission */
			for (unsigned k = 0; k < 40 && !nic_tx_pending(rig->nic); k++)
				pass(rig, 10000000);
			rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + i);
		}
		rig_drain(rig);
		rig_ack(rig, RIG_SQ_PSN + i, SYN_ACK);
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	}
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time__an_ack_timer_goes_on_when_the_clock_goes_back),
		cmocka_unit_test(time__deadlines_follow_the_owners_clock),
		cmocka_unit_test(time__an_rnr_wait_goes_on_when_the_clock_goes_back),
		cmocka_unit_test(time__a_delayed_ack_goes_when_the_clock_has_gone_back),
		cmocka_unit_test(time__a_jump_ahead_uses_up_no_try),
		cmocka_unit_test(time__a_long_timer_runs_out_soon_after_a_stop),
		cmocka_unit_test(time__an_hour_ahead_costs_none_of_many_qps_a_try),
		cmocka_unit_test(time__timers_progress_if_the_nic_runs_every_two_seconds),
		cmocka_unit_test(time__small_clock_differences_between_cpus_do_not_accumulate),
		cmocka_unit_test(time__requests_survive_random_clock_jumps_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
