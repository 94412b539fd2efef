/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet_icrc.c - packet_parse: what the ICRC covers, ignored fields, carriers that remove the IP header. */
#include "packet_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- what the ICRC covers ---------------------------------------------------------------------------- */

/** Whether the ICRC does not cover this bit of the packet (HV-06). */
static bool bit_masked(bool v4, unsigned bit)
{
	unsigned byte = bit / 8, udp = v4 ? 20 : 40;

	if (byte == udp + 6 || byte == udp + 7 || byte == udp + 8 + 4)
		return true;
	if (v4)
		return byte == 1 || byte == 8 || byte == 10 || byte == 11;
	return (byte == 0 && bit % 8 < 4) || (byte >= 1 && byte <= 3) || byte == 7;
}

static void packet__HV_06_icrc_excludes_only_fields_that_routers_change(void **state)
{
	uint8_t bytes[256], changed[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		bool v4 = bytes[0] >> 4 == 4;

		for (unsigned bit = 0; bit < (len - 4) * 8; bit++) {
			memcpy(changed, bytes, len);
			changed[bit / 8] ^= (uint8_t)(1 << bit % 8);
			util_fix(changed, len);
			/* util_fix has also corrected the ICRC: put the old ICRC back. */
			memcpy(changed + len - 4, bytes + len - 4, 4);
			if (bit_masked(v4, bit) || memcmp(changed, bytes, len) == 0)
				assert_int_equal(verdict(changed, len), PACKET_OK);
			else
				assert_int_not_equal(verdict(changed, len), PACKET_OK);
		}
	}
}

static void packet__HV_06_icrc_covers_the_pad(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);

	for (unsigned pad = 1; pad <= 3; pad++) {
		bytes[len - 4 - pad] ^= 0x10;
		assert_int_equal(verdict(bytes, len), PACKET_BAD_ICRC);
		util_fix(bytes, len);
		assert_int_equal(verdict(bytes, len), PACKET_OK);
	}
}

static void packet__HV_07_reserved_bits_and_fecn_becn_are_ignored(void **state)
{
	uint8_t bytes[256], again[NIC_FRAME_MAX];
	unsigned len = util_unhex(SEND_V4, bytes);
	struct packet p;

	bytes[32] = 0xff;  /* FECN, BECN, Resv6: not covered by the ICRC */
	bytes[36] |= 0x7f; /* Resv7 */
	util_fix(bytes, len);
	assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
	assert_int_equal(p.ecn, 0xff);
	assert_true(p.ackreq);
	assert_int_equal(p.dest_qpn, 0xabc);
	assert_int_equal(p.psn, 1);
	assert_int_equal(p.payload_len, 5);
	assert_int_equal(packet_encode(&p, again), len);
	assert_memory_equal(again, bytes, len);
}

static void packet__udp_checksum_is_kept_but_not_looked_at(void **state)
{
	uint8_t bytes[256], again[NIC_FRAME_MAX];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		unsigned udp = bytes[0] >> 4 == 4 ? 20 : 40;

		bytes[udp + 6] = 0xbe;
		bytes[udp + 7] = 0xef;
		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		assert_int_equal(p.udp_csum, 0xbeef);
		packet_encode(&p, again);
		assert_memory_equal(again, bytes, len);
	}
}

/* ---- carriers that remove the IP header --------------------------------------------------------------- */

static void packet__hidden_ip_id_is_recovered(void **state)
{
	uint8_t bytes[256];
	struct packet p, q;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame;

		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		frame = udp_frame(bytes, len, &p);
		assert_int_equal(packet_parse(&frame, &q), PACKET_OK);
		assert_int_equal(q.ip_id_recovered, p.v4);
		assert_int_equal(q.ip_id, p.v4 ? 0x1234 : 0);
		assert_null(q.ip);
		assert_int_equal(q.psn, p.psn);
		assert_int_equal(q.payload_len, p.payload_len);
		assert_ptr_equal(q.payload, frame.data + q.op->hdr_len);
		frame.flags &= ~(uint32_t)NIC_RX_IP_ID_UNKNOWN;
		assert_int_equal(packet_parse(&frame, &q), p.v4 ? PACKET_BAD_ICRC : PACKET_OK);
	}
}

static void packet__ip_id_zero_is_not_reported_as_recovered(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);
	struct nic_rx_frame frame;
	struct packet p;

	bytes[4] = bytes[5] = 0;
	util_fix(bytes, len);
	assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
	frame = udp_frame(bytes, len, &p);
	assert_int_equal(packet_parse(&frame, &p), PACKET_OK);
	assert_false(p.ip_id_recovered);
	assert_int_equal(p.ip_id, 0);
	frame.flags = NIC_RX_UDP_PAYLOAD;
	assert_int_equal(packet_parse(&frame, &p), PACKET_OK);
	frame.udp_sport ^= 1; /* the ICRC covers the port, although the bytes do not contain it */
	assert_int_equal(packet_parse(&frame, &p), PACKET_BAD_ICRC);
	frame.flags |= NIC_RX_IP_ID_UNKNOWN;
	assert_int_equal(packet_parse(&frame, &p), PACKET_BAD_ICRC);
}

static void packet__HV_05_ipv6_icrc_damage_is_not_attributed_to_an_ip_id(void **state)
{
	static const uint8_t zero[256], with_id[256] = {[4] = 0x12, [5] = 0x34};
	uint8_t bytes[256];
	unsigned len = util_unhex(UD_V6, bytes);
	uint32_t difference = util_crc32(0, zero, len - 4) ^ util_crc32(0, with_id, len - 4);
	struct nic_rx_frame frame;
	struct packet p;

	assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
	for (unsigned i = 0; i < 4; i++) /* change the ICRC as an IP ID of 0x1234 would change it */
		bytes[len - 4 + i] ^= (uint8_t)(difference >> 8 * i);
	frame = udp_frame(bytes, len, &p);
	assert_int_equal(packet_parse(&frame, &p), PACKET_BAD_ICRC);
}

static void packet__HV_05_damage_is_refused_when_the_ip_id_is_hidden(void **state)
{
	uint8_t bytes[256];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame;
		uint8_t *data;

		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		frame = udp_frame(bytes, len, &p);
		data = guard + UTIL_GUARD_ROOM - frame.len;
		for (unsigned bit = 0; bit < frame.len * 8; bit++) {
			if (bit / 8 == 4)
				continue; /* not covered by the ICRC */
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_not_equal(packet_parse(&frame, &p), PACKET_OK);
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

static void packet__no_icrc_flag_skips_the_icrc_check_but_no_other_check(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);
	struct nic_rx_frame frame = {.data = bytes, .len = len, .flags = NIC_RX_NO_ICRC};
	struct packet p;

	memset(bytes + len - 4, 0, 4);
	assert_int_equal(packet_parse(&frame, &p), PACKET_OK);
	assert_int_equal(p.payload_len, 5);
	bytes[29] |= 1; /* without an ICRC, everything else is still checked */
	assert_int_equal(packet_parse(&frame, &p), PACKET_BAD_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet__HV_06_icrc_excludes_only_fields_that_routers_change),
		cmocka_unit_test(packet__HV_06_icrc_covers_the_pad),
		cmocka_unit_test(packet__HV_07_reserved_bits_and_fecn_becn_are_ignored),
		cmocka_unit_test(packet__udp_checksum_is_kept_but_not_looked_at),
		cmocka_unit_test(packet__hidden_ip_id_is_recovered),
		cmocka_unit_test(packet__ip_id_zero_is_not_reported_as_recovered),
		cmocka_unit_test(packet__HV_05_ipv6_icrc_damage_is_not_attributed_to_an_ip_id),
		cmocka_unit_test(packet__HV_05_damage_is_refused_when_the_ip_id_is_hidden),
		cmocka_unit_test(packet__no_icrc_flag_skips_the_icrc_check_but_no_other_check),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
