/* SPDX-License-Identifier: BSD-3-Clause */
/* test_icrc.c - the invariant CRC compared with a bit-by-bit one, and the search for a hidden IPv4 ID. */
#include "icrc.h"
#include "nic.h"
#include "wire_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void icrc__starts_behind_eight_bytes_of_ones(void **state)
{
	static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	assert_int_equal(ICRC_START, (uint32_t)~util_crc32(0xffffffff, ones, 8));
	assert_int_equal(ICRC_START, (uint32_t)~0xdebb20e3);
}

static void icrc__equals_a_bitwise_crc_for_every_length_and_alignment(void **state)
{
	static uint8_t bytes[4400];
	uint64_t seed = 1;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)util_random(&seed);
	for (unsigned len = 0; len < 600; len++)
		assert_int_equal(icrc_update(ICRC_START, bytes + len % 16, len),
				 (uint32_t)~util_crc32((uint32_t)~ICRC_START, bytes + len % 16, len));
	assert_int_equal(icrc_update(ICRC_START, bytes, 4200),
			 (uint32_t)~util_crc32((uint32_t)~ICRC_START, bytes, 4200));
}

static void icrc__may_be_computed_in_pieces(void **state)
{
	static uint8_t bytes[300];
	uint32_t whole;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	whole = icrc_update(ICRC_START, bytes, sizeof(bytes));
	for (unsigned cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(icrc_update(icrc_update(ICRC_START, bytes, cut), bytes + cut, sizeof(bytes) - cut),
				 whole);
}

static void icrc__copying_gives_the_bytes_and_their_crc(void **state)
{
	static uint8_t from[4400], to[4400];
	uint64_t seed = 9;

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)util_random(&seed);
	for (unsigned len = 0; len <= 4200; len += len < 700 ? 1 : 13) {
		const uint8_t *src = from + len % 17;
		uint8_t *dst = to + 32 + len % 13;

		memset(to, 0xa5, sizeof(to));
		assert_int_equal(icrc_copy(ICRC_START + len, dst, src, len), icrc_update(ICRC_START + len, src, len));
		assert_memory_equal(dst, src, len);
		assert_int_equal(dst[-1], 0xa5); /* no byte outside dst[0..len) is written */
		assert_int_equal(dst[len], 0xa5);
	}
}

/** The XOR of the CRCs of two packets that differ only in their IPv4 ID: one has ID 0, the other `id`. `len` includes
 * the ICRC. */
static uint32_t id_difference(uint16_t id, unsigned len)
{
	static uint8_t zero[8192], with_id[8192];

	with_id[4] = (uint8_t)(id >> 8);
	with_id[5] = (uint8_t)id;
	return icrc_update(ICRC_START, zero, len - 4) ^ icrc_update(ICRC_START, with_id, len - 4);
}

static void icrc__finds_every_id(void **state)
{
	uint16_t found;

	for (unsigned id = 1; id < 65536; id++) {
		assert_true(icrc_find_ip_id(id_difference((uint16_t)id, 52), 52, &found));
		assert_int_equal(found, id);
	}
}

static void icrc__finds_an_id_at_every_packet_length(void **state)
{
	uint16_t found;

	for (unsigned len = 44; len < 8192; len += len < 200 ? 1 : 61) {
		assert_true(icrc_find_ip_id(id_difference(0xbeef, len), len, &found));
		assert_int_equal(found, 0xbeef);
	}
}

static void icrc__id_recovery_never_hides_a_burst_of_3_bit_errors(void **state)
{
	enum { LEN = NIC_FRAME_MAX, BITS = (LEN - 4) * 8 };
	static uint32_t bit_difference[BITS];
	static uint8_t bytes[LEN];
	uint32_t intact = icrc_update(ICRC_START, bytes, LEN - 4);
	uint16_t found;

	/* Flip the bits after the ID, one at a time. CRCs are linear, so the XOR of these bits' differences is the
	 * difference of every pattern of 3 adjacent bits. */
	for (unsigned bit = 48; bit < BITS; bit++) {
		bytes[bit / 8] = (uint8_t)(1 << bit % 8);
		bit_difference[bit] = intact ^ icrc_update(ICRC_START, bytes, LEN - 4);
		bytes[bit / 8] = 0;
		for (unsigned pattern = 1; pattern < 8; pattern += 2) {
			uint32_t difference = bit_difference[bit];

			if (pattern & 2 && bit >= 49)
				difference ^= bit_difference[bit - 1];
			if (pattern & 4 && bit >= 50)
				difference ^= bit_difference[bit - 2];
			assert_false(icrc_find_ip_id(difference, LEN, &found));
		}
	}
}

static void icrc__one_damaged_packet_in_65536_passes_when_the_id_is_hidden(void **state)
{
	unsigned accepted = 0;
	uint64_t seed = 5;
	uint16_t found;

	for (unsigned i = 0; i < 1 << 20; i++)
		accepted += icrc_find_ip_id((uint32_t)(util_random(&seed) >> 32), 80, &found);
	assert_in_range(accepted, 4, 40); /* 16 on average */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc__starts_behind_eight_bytes_of_ones),
		cmocka_unit_test(icrc__equals_a_bitwise_crc_for_every_length_and_alignment),
		cmocka_unit_test(icrc__may_be_computed_in_pieces),
		cmocka_unit_test(icrc__copying_gives_the_bytes_and_their_crc),
		cmocka_unit_test(icrc__finds_every_id),
		cmocka_unit_test(icrc__finds_an_id_at_every_packet_length),
		cmocka_unit_test(icrc__id_recovery_never_hides_a_burst_of_3_bit_errors),
		cmocka_unit_test(icrc__one_damaged_packet_in_65536_passes_when_the_id_is_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
