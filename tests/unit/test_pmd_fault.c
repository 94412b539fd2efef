/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_fault.c - the fault stage alone: its commands, its random decisions, which packets it holds and when it
 * releases them. */
#include "packet_util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "fault.h"

#define N 64

/* Packets to send: the PSN field of each holds its number. */
static struct nic_tx_frame frames[N];
static uint8_t buffers[N][256];
static uint32_t next_number;

static void set(struct pmd_fault *f, const char *text)
{
	char err[160] = "";

	if (pmd_fault_command(f, text, err, sizeof(err)) != 0)
		fail_msg("%s: %s", text, err);
}

static struct pmd_fault *fault_with(uint32_t function, const char *text)
{
	struct pmd_fault *f = pmd_fault_create(function);

	assert_non_null(f);
	set(f, text);
	return f;
}

static uint32_t number_of(const uint8_t *bth)
{
	return (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
}

/** Build n new packets of the QP. */
static void fill(unsigned n, uint32_t qpn)
{
	for (unsigned i = 0; i < n; i++) {
		frames[i] = (struct nic_tx_frame){.data = buffers[i], .cookie = &buffers[i], .bth = 28, .qpn = qpn};
		frames[i].len = util_unhex(SEND_V4, buffers[i]);
		buffers[i][37] = (uint8_t)(next_number >> 16);
		buffers[i][38] = (uint8_t)(next_number >> 8);
		buffers[i][39] = (uint8_t)next_number++;
		util_fix(buffers[i], frames[i].len);
	}
}

static uint32_t sent(unsigned i)
{
	assert_ptr_equal(frames[i].data, buffers[i]); /* the stage swaps contents, never the buffers themselves */
	assert_ptr_equal(frames[i].cookie, &buffers[i]);
	return number_of(buffers[i] + 28);
}

static int bad(const char *text)
{
	struct pmd_fault *f = pmd_fault_create(1);
	char err[160] = "";
	int rc = pmd_fault_command(f, text, err, sizeof(err));

	assert_true(rc == 0 || err[0]);
	assert_true(rc == 0 || pmd_fault_idle(f));
	pmd_fault_destroy(f);
	return rc;
}

static void fault__commands_are_checked(void **state)
{
	char text[2000];

	(void)state;
	assert_int_equal(bad("set loss=1000000000 dup=0 corrupt=5 reorder=7 gap=1000 delay=10000000000 jitter=1 "
			     "dir=both qp=16777215 seed=18446744073709551615"),
			 0);
	assert_int_equal(bad("clear"), 0);
	assert_int_equal(bad("clear qp=7"), 0);
	for (const char *const *t =
		     (const char *const[]){"", "put", "set loss", "set loss=", "set loss=-1", "set loss=1.5",
					   "set loss=1000000001", "set delay=10000000001", "set down=2",
					   "set qp=16777216", "set dir=up", "set dir=", "set =1", "set lossy=1",
					   "set seed=18446744073709551616", "set qp=5 down=1", "clear all", NULL};
	     *t; t++)
		assert_int_equal(bad(*t), -EINVAL);
	memset(text, ' ', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(bad(text), -EINVAL);
}

static void fault__a_rule_is_replaced_as_a_whole(void **state)
{
	struct pmd_fault *f = fault_with(1, "set loss=5 delay=7 seed=3");
	const struct pmd_fault_rule *r;
	char err[160], text[40];

	(void)state;
	set(f, "set dup=9 dir=both");
	r = pmd_fault_rule(f, 0);
	assert_true(r->loss_ppb == 0 && r->delay_ns == 0 && r->dup_ppb == 9 && r->directions == 3 && r->gap == 3);
	assert_null(pmd_fault_rule(f, 1));
	set(f, "set down=1");
	assert_true(pmd_fault_link_down(f));
	for (unsigned qp = 1; qp <= PMD_FAULT_RULES; qp++) {
		snprintf(text, sizeof(text), "set qp=%u loss=%u", qp, qp);
		set(f, text);
		set(f, text); /* the same rule again replaces the first one */
	}
	assert_int_equal(pmd_fault_command(f, "set qp=99 loss=1", err, sizeof(err)), -ENOSPC);
	set(f, "clear qp=4");
	set(f, "set qp=99 loss=1");
	set(f, "clear");
	assert_false(pmd_fault_link_down(f));
	assert_true(pmd_fault_idle(f));
	pmd_fault_destroy(f);
}

/** Send 100,000 packets. @return how many were lost; *sum: the sum of their numbers. */
static unsigned losses(uint32_t function, const char *text, uint64_t *sum)
{
	struct pmd_fault *f = fault_with(function, text);
	unsigned lost = 0;

	*sum = 0;
	next_number = 0;
	for (unsigned round = 0; round < 100000 / 50; round++) {
		uint32_t expected = next_number;
		unsigned left;

		fill(50, 7);
		left = pmd_fault_tx(f, 0, frames, 50, 0);
		for (unsigned i = 0; i <= left; i++) {
			uint32_t end = i < left ? sent(i) : next_number;

			for (; expected < end; expected++, lost++)
				*sum = *sum * 31 + expected;
			expected = end + 1;
		}
	}
	assert_int_equal(pmd_fault_stats(f)->fault_lost, lost);
	assert_int_equal(pmd_fault_stats(f)->fault_seen, 100000);
	pmd_fault_destroy(f);
	return lost;
}

static void fault__losses_follow_from_seed_and_function(void **state)
{
	uint64_t one, other;
	unsigned lost = losses(1, "set loss=10000000 seed=5", &one);

	(void)state;
	assert_in_range(lost, 900, 1100);
	assert_int_equal(losses(1, "set loss=10000000 seed=5", &other), lost);
	assert_true(one == other);
	losses(1, "set loss=10000000 seed=6", &other);
	assert_true(one != other);
	losses(2, "set loss=10000000 seed=5", &other);
	assert_true(one != other);
	assert_int_equal(losses(1, "set loss=0", &other), 0);
	assert_int_equal(losses(1, "set loss=1000000000", &other), 100000);
}

/** A probability of duplicates added to the rule does not change which packets are lost. */
static void fault__adding_duplicates_does_not_change_which_packets_are_lost(void **state)
{
	struct pmd_fault *a = fault_with(1, "set loss=300000000 seed=9"),
			 *b = fault_with(1, "set loss=300000000 dup=100 delay=0 reorder=0 seed=9");

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		uint32_t kept[N];
		unsigned n;

		fill(N, 7);
		n = pmd_fault_tx(a, 0, frames, N, 0);
		for (unsigned i = 0; i < n; i++)
			kept[i] = sent(i);
		next_number -= N;
		fill(N, 7);
		assert_int_equal(pmd_fault_tx(b, 0, frames, N, 0), n);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(sent(i), kept[i]);
	}
	pmd_fault_destroy(a);
	pmd_fault_destroy(b);
}

static void fault__a_qp_rule_overrides_the_general_rule(void **state)
{
	struct pmd_fault *f = fault_with(1, "set loss=1000000000");

	(void)state;
	set(f, "set qp=8 loss=0");
	fill(1, 7);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 0);
	fill(1, 8);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 1);
	set(f, "clear qp=8");
	assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 0);
	/* A rule for received packets does not affect sent ones. */
	set(f, "set loss=1000000000 dir=rx");
	assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 1);
	pmd_fault_destroy(f);
}

/** Corruption flips exactly one bit, and the ICRC covers this bit. */
static void fault__corruption_flips_one_bit_and_is_detected(void **state)
{
	struct pmd_fault *f = fault_with(1, "set corrupt=1000000000 seed=1 dir=both");
	uint8_t before[256];

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		struct nic_rx_frame rx = {.data = before};
		unsigned bits = 0;

		fill(1, 7);
		rx.len = frames[0].len;
		memcpy(before, buffers[0], rx.len);
		assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 1);
		for (unsigned i = 0; i < rx.len; i++)
			bits += (unsigned)__builtin_popcount(before[i] ^ buffers[0][i]);
		assert_int_equal(bits, 1);
		assert_int_not_equal(verdict(buffers[0], rx.len), PACKET_OK);
		/* On a path whose packets need no ICRC the damage is detected as well. */
		rx.flags = NIC_RX_NO_ICRC;
		memset(before + rx.len - 4, 0, 4);
		assert_true(pmd_fault_rx(f, 0, &rx, 0));
		assert_int_equal(rx.flags & NIC_RX_NO_ICRC, 0);
		assert_int_not_equal(verdict(rx.data, rx.len), PACKET_OK);
	}
	assert_int_equal(pmd_fault_stats(f)->fault_corrupted, 4000);
	pmd_fault_destroy(f);
}

static void fault__duplicates_are_sent_after_the_originals(void **state)
{
	struct pmd_fault *f = fault_with(1, "set dup=1000000000");

	(void)state;
	fill(3, 7);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 3, 10), 3); /* the array has no room for the duplicates */
	assert_true(pmd_fault_tx_deadline(f) <= 10);
	assert_int_equal(pmd_fault_tx_due(f, 1, frames, N, 10), 0); /* the duplicates belong to another path */
	for (unsigned i = 0; i < N; i++)
		frames[i] = (struct nic_tx_frame){.data = buffers[i], .cookie = &buffers[i]};
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, 2, 10), 2);
	assert_int_equal(sent(0), next_number - 3);
	assert_int_equal(sent(1), next_number - 2);
	assert_int_equal(frames[0].qpn, 7);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, 10), 1);
	assert_int_equal(sent(0), next_number - 1);
	assert_true(pmd_fault_tx_deadline(f) == UINT64_MAX);
	assert_int_equal(pmd_fault_stats(f)->fault_duplicated, 3);
	pmd_fault_destroy(f);
}

/** A packet that is held back is sent right after the third packet that overtakes it, or after a timeout. */
static void fault__a_held_packet_is_sent_after_the_gap_or_a_timeout(void **state)
{
	struct pmd_fault *f = fault_with(1, "set qp=9 reorder=1000000000 gap=3");

	(void)state;
	fill(6, 7);
	frames[1].qpn = 9;
	assert_int_equal(pmd_fault_tx(f, 0, frames, 6, 0), 6);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(sent(i) - (next_number - 6), ((const unsigned[]){0, 2, 3, 4, 1, 5})[i]);
	fill(1, 9);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 1, 0), 0);
	fill(2, 7);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 2, 0), 2);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, PMD_FAULT_WAIT_NS - 1), 0);
	assert_true(pmd_fault_tx_deadline(f) == PMD_FAULT_WAIT_NS);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, PMD_FAULT_WAIT_NS), 1);
	assert_int_equal(pmd_fault_stats(f)->fault_reordered, 2);
	pmd_fault_destroy(f);
}

static void fault__packets_are_held_for_delay_and_jitter(void **state)
{
	struct pmd_fault *f = fault_with(1, "set delay=1000");
	uint32_t last = 0;

	(void)state;
	fill(5, 7);
	assert_int_equal(pmd_fault_tx(f, 0, frames, 5, 100), 0);
	assert_true(pmd_fault_tx_deadline(f) == 1100);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, 1099), 0);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, 1100), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(sent(i), next_number - 5 + i);
	/* Jitter: delays lie between delay - jitter and delay + jitter, and differ. */
	set(f, "set delay=1000 jitter=600 seed=2");
	fill(N, 7);
	assert_int_equal(pmd_fault_tx(f, 0, frames, N, 0), 0);
	assert_in_range(pmd_fault_tx_deadline(f), 400, 999);
	assert_in_range(pmd_fault_tx_due(f, 0, frames, N, 999), 1, N - 1);
	set(f, "clear"); /* releases all held packets at once */
	assert_false(pmd_fault_idle(f));
	while (pmd_fault_tx_due(f, 0, frames, 1, 1) == 1)
		last++;
	assert_in_range(last, 1, N - 1);
	assert_true(pmd_fault_idle(f));
	assert_int_equal(pmd_fault_stats(f)->fault_delayed, 5 + N);
	pmd_fault_destroy(f);
}

/** The number of held packets is bounded; further packets are dropped and counted. */
static void fault__held_packets_are_bounded(void **state)
{
	struct pmd_fault *f = fault_with(1, "set delay=1000");

	(void)state;
	for (unsigned i = 0; i < PMD_FAULT_HELD / N + 1; i++) {
		fill(N, 7);
		assert_int_equal(pmd_fault_tx(f, i % 2, frames, N, 0), 0);
	}
	assert_int_equal(pmd_fault_stats(f)->fault_queue_full, N);
	pmd_fault_path_gone(f, 1);
	assert_int_equal(pmd_fault_stats(f)->fault_path_gone, PMD_FAULT_HELD / 2);
	assert_int_equal(pmd_fault_tx_due(f, 0, frames, N, 1000), N);
	pmd_fault_destroy(f); /* frees the packets still held */
}

static void fault__received_packets_are_delayed_duplicated_and_lost(void **state)
{
	struct pmd_fault *f = fault_with(1, "set delay=1000 dup=1000000000 dir=rx");
	uint8_t bytes[256], copy[256];
	unsigned len = util_unhex(SEND_V4, bytes), path = 99;
	struct nic_rx_frame frame = {.data = bytes, .len = len};

	(void)state;
	memcpy(copy, bytes, len);
	assert_false(pmd_fault_rx(f, 3, &frame, 0));
	memset(bytes, 0, len); /* the port may reuse its buffer: the stage holds a copy */
	assert_true(pmd_fault_rx_deadline(f) == 1000);
	assert_false(pmd_fault_rx_due(f, &path, &frame, 999));
	for (unsigned i = 0; i < 2; i++) {
		assert_true(pmd_fault_rx_due(f, &path, &frame, 1000));
		assert_int_equal(path, 3);
		assert_int_equal(frame.len, len);
		assert_memory_equal(frame.data, copy, len);
	}
	assert_false(pmd_fault_rx_due(f, &path, &frame, 1000));
	/* A rule for a QP compares a received packet's destination QP: 0xabc (2748) in the golden packet. */
	set(f, "clear");
	set(f, "set qp=2748 loss=1000000000 dir=both");
	frame = (struct nic_rx_frame){.data = copy, .len = len};
	assert_false(pmd_fault_rx(f, 0, &frame, 0));
	frame = (struct nic_rx_frame){.data = copy + 28, .len = len - 28, .flags = NIC_RX_UDP_PAYLOAD};
	assert_false(pmd_fault_rx(f, 0, &frame, 0));
	copy[35]++;
	assert_true(pmd_fault_rx(f, 0, &frame, 0));
	frame.len = 11;
	assert_true(pmd_fault_rx(f, 0, &frame, 0));
	pmd_fault_destroy(f);
}

/** Random lengths, flags and contents do no harm. */
static void fault__random_received_frames_do_no_harm(void **state)
{
	struct pmd_fault *f = fault_with(1, "set loss=100000000 corrupt=500000000 reorder=300000000 dup=300000000 "
					    "jitter=5 dir=both");
	uint64_t seed = 3, now_ns = 0;
	uint8_t bytes[256];

	(void)state;
	for (unsigned round = 0; round < 100000; round++) {
		unsigned len = (unsigned)(util_random(&seed) % (util_unhex(golden[round % GOLDEN_COUNT], bytes) + 1));
		struct nic_rx_frame frame = {.len = len, .flags = (uint32_t)util_random(&seed) & 7};
		unsigned path;

		if (len)
			bytes[util_random(&seed) % len] = (uint8_t)util_random(&seed);
		frame.data = util_at_end(guard, bytes, len);
		if (pmd_fault_rx(f, 0, &frame, ++now_ns))
			assert_true(frame.len <= len + 48);
		while (pmd_fault_rx_due(f, &path, &frame, now_ns))
			assert_true(frame.len <= len + 256);
	}
	assert_int_equal(pmd_fault_stats(f)->fault_queue_full, 0);
	pmd_fault_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault__commands_are_checked),
		cmocka_unit_test(fault__a_rule_is_replaced_as_a_whole),
		cmocka_unit_test(fault__losses_follow_from_seed_and_function),
		cmocka_unit_test(fault__adding_duplicates_does_not_change_which_packets_are_lost),
		cmocka_unit_test(fault__a_qp_rule_overrides_the_general_rule),
		cmocka_unit_test(fault__corruption_flips_one_bit_and_is_detected),
		cmocka_unit_test(fault__duplicates_are_sent_after_the_originals),
		cmocka_unit_test(fault__a_held_packet_is_sent_after_the_gap_or_a_timeout),
		cmocka_unit_test(fault__packets_are_held_for_delay_and_jitter),
		cmocka_unit_test(fault__held_packets_are_bounded),
		cmocka_unit_test(fault__received_packets_are_delayed_duplicated_and_lost),
		cmocka_unit_test(fault__random_received_frames_do_no_harm),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
