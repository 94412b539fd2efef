/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet.c - packet_parse: golden packets, and every reason for a refusal. */
#include "packet_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- golden packets ---------------------------------------------------------------------------------- */

static void packet__golden_packets_parse_and_encode_to_the_same_bytes(void **state)
{
	uint8_t bytes[256], again[NIC_FRAME_MAX];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);

		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		memset(again, 0xee, sizeof(again));
		assert_int_equal(packet_encode(&p, again), len);
		assert_memory_equal(again, bytes, len);
	}
}

static void packet__golden_send_has_its_fields(void **state)
{
	static const uint8_t src[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
	uint8_t bytes[256];
	struct packet p;

	assert_int_equal(parse_ip(bytes, util_unhex(SEND_V4, bytes), &p), PACKET_OK);
	assert_int_equal(p.op->value, 0x04);
	assert_true(p.v4);
	assert_memory_equal(p.sgid.raw, src, 16);
	assert_int_equal(p.dgid.raw[15], 2);
	assert_int_equal(p.tclass, 2);
	assert_int_equal(p.hop_limit, 64);
	assert_int_equal(p.ip_id, 0x1234);
	assert_int_equal(p.ip_frag, 0x4000);
	assert_int_equal(p.udp_sport, 0xc123);
	assert_int_equal(p.pkey, 0xffff);
	assert_int_equal(p.dest_qpn, 0xabc);
	assert_int_equal(p.psn, 1);
	assert_true(p.migreq && p.ackreq);
	assert_false(p.se || p.ecn || p.ip_id_recovered);
	assert_int_equal(p.pad, 3);
	assert_int_equal(p.payload_len, 5);
	assert_memory_equal(p.payload, "hello", 5);
	assert_int_equal(p.payload - p.ip, util_payload_offset(p.op, true));
}

static void packet__golden_ack_atomic_ud_and_cnp_have_their_fields(void **state)
{
	uint8_t bytes[256];
	struct packet p;

	assert_int_equal(parse_ip(bytes, util_unhex(ACK_V4, bytes), &p), PACKET_OK);
	assert_int_equal(p.syndrome, 0x1f);
	assert_int_equal(p.msn, 1);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(parse_ip(bytes, util_unhex(FADD_V4, bytes), &p), PACKET_OK);
	assert_int_equal(p.op->kind, OP_FETCH_ADD);
	assert_int_equal(p.va, 0x1000);
	assert_int_equal(p.rkey, 0x01020304);
	assert_int_equal(p.swap_add, 1);
	assert_int_equal(p.compare, 0);
	assert_int_equal(p.psn, 0xffff);
	assert_int_equal(parse_ip(bytes, util_unhex(UD_V6, bytes), &p), PACKET_OK);
	assert_false(p.v4);
	assert_int_equal(p.tclass, 2);
	assert_int_equal(p.qkey, 0x80010000);
	assert_int_equal(p.src_qpn, 1);
	assert_int_equal(p.dest_qpn, 1);
	assert_int_equal(p.sgid.raw[0], 0xfd);
	assert_int_equal(p.payload_len, 4);
	assert_int_equal(parse_ip(bytes, util_unhex(CNP_V4, bytes), &p), PACKET_OK);
	assert_int_equal(p.ecn, BTH_ECN_B);
	assert_int_equal(p.op->kind, OP_CONGESTION);
	assert_int_equal(p.payload_len, 0);
}

/* ---- refused packets --------------------------------------------------------------------------------- */

static void packet__HV_01_every_truncation_is_refused_without_overread(void **state)
{
	uint8_t bytes[256];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);

		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		for (unsigned cut = 0; cut < len; cut++)
			assert_int_equal(verdict(bytes, cut), PACKET_BAD_IP);
		for (unsigned cut = 0; cut < len - (p.v4 ? 28 : 48); cut++) {
			struct nic_rx_frame frame = udp_frame(bytes, len, &p);
			struct packet q;

			frame.len = cut;
			memmove(guard + UTIL_GUARD_ROOM - cut, frame.data, cut);
			frame.data = guard + UTIL_GUARD_ROOM - cut;
			assert_true(packet_parse(&frame, &q) != PACKET_OK);
			if (cut < 16)
				assert_int_equal(packet_parse(&frame, &q), PACKET_TOO_SHORT);
		}
	}
}

static void packet__HV_01_shorter_than_bth_and_icrc_is_dropped(void **state)
{
	uint8_t bytes[256];

	util_unhex(SEND_V4, bytes);
	for (unsigned len = 28; len < 28 + 16; len++)
		assert_int_equal(verdict_fixed(bytes, len), PACKET_TOO_SHORT);
	/* Long enough for the headers, but the pad count is 3, with no payload. */
	assert_int_equal(verdict_fixed(bytes, 28 + 16), PACKET_BAD_PAD);
}

static void packet__HV_02_unknown_opcode_is_dropped_whatever_its_length(void **state)
{
	uint8_t bytes[512] = {0};

	for (unsigned v = 0; v < 256; v++) {
		if (op_get((uint8_t)v))
			continue;
		util_unhex(SEND_V4, bytes);
		bytes[28] = (uint8_t)v;
		for (unsigned len = 44; len < 120; len += 4)
			assert_int_equal(verdict_fixed(bytes, len), PACKET_BAD_OPCODE);
	}
}

static void packet__HV_03_shorter_than_its_header_chain_is_dropped(void **state)
{
	uint8_t bytes[512] = {0};

	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (!op)
			continue;
		util_unhex(SEND_V4, bytes);
		bytes[28] = (uint8_t)v;
		bytes[29] = 0; /* no pad */
		for (unsigned len = 44; len < 28u + op->hdr_len + 4; len++)
			assert_int_equal(verdict_fixed(bytes, len), PACKET_TOO_SHORT);
		assert_int_equal(verdict_fixed(bytes, 28u + op->hdr_len + 4), PACKET_OK);
	}
}

static void packet__HV_03_pad_larger_than_payload_is_dropped(void **state)
{
	uint8_t bytes[256];

	for (unsigned pad = 0; pad < 4; pad++) {
		util_unhex(SEND_V4, bytes);
		bytes[29] = (uint8_t)(pad << 4);
		assert_int_equal(verdict_fixed(bytes, 28 + 12 + 4), pad ? PACKET_BAD_PAD : PACKET_OK);
		assert_int_equal(verdict_fixed(bytes, 28 + 12 + 4 + 4), PACKET_OK);
	}
}

static void packet__HV_03_length_must_be_a_multiple_of_four(void **state)
{
	uint8_t bytes[256];

	for (unsigned odd = 1; odd < 4; odd++) {
		util_unhex(SEND_V4, bytes);
		assert_int_equal(verdict_fixed(bytes, 52 + odd), PACKET_BAD_PAD);
		bytes[29] &= (uint8_t)~0x30; /* a pad count of 0 is refused as well */
		assert_int_equal(verdict_fixed(bytes, 52 + odd), PACKET_BAD_PAD);
	}
}

static void packet__HV_03_payload_after_an_opcode_without_payload_is_dropped(void **state)
{
	uint8_t bytes[512] = {0};

	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (!op)
			continue;
		util_unhex(SEND_V4, bytes);
		bytes[28] = (uint8_t)v;
		bytes[29] = 0;
		assert_int_equal(verdict_fixed(bytes, 28u + op->hdr_len + 4 + 4),
				 op->payload ? PACKET_OK : PACKET_TOO_LONG);
	}
}

static void packet__more_than_4096_bytes_of_payload_are_dropped(void **state)
{
	static uint8_t bytes[28 + 12 + 4100 + 4];

	util_unhex(SEND_V4, bytes);
	bytes[29] = 0;
	assert_int_equal(verdict_fixed(bytes, 28 + 12 + 4096 + 4), PACKET_OK);
	assert_int_equal(verdict_fixed(bytes, 28 + 12 + 4100 + 4), PACKET_TOO_LONG);
}

static void packet__HV_04_transport_version_other_than_0_is_dropped(void **state)
{
	uint8_t bytes[256];

	for (unsigned version = 0; version < 16; version++) {
		unsigned len = util_unhex(SEND_V4, bytes);

		bytes[29] |= (uint8_t)version;
		if (version == 15) /* marks a tagged packet, which a NIC without a key drops as well */
			assert_int_equal(verdict_fixed(bytes, len), PACKET_NO_KEY);
		else
			assert_int_equal(verdict_fixed(bytes, len), version ? PACKET_BAD_VERSION : PACKET_OK);
	}
}

static void packet__HV_05_wrong_icrc_is_dropped(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);

		for (unsigned bit = 0; bit < 32; bit++) {
			bytes[len - 4 + bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(verdict(bytes, len), PACKET_BAD_ICRC);
			bytes[len - 4 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

static void packet__HV_14_other_udp_ports_and_protocols_are_not_roce(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);

	bytes[23] ^= 1; /* destination port */
	assert_int_equal(verdict_fixed(bytes, len), PACKET_NOT_ROCE);
	bytes[23] ^= 1;
	bytes[20] = bytes[21] = 0; /* any source port is accepted */
	assert_int_equal(verdict_fixed(bytes, len), PACKET_OK);
	bytes[9] = 6;
	assert_int_equal(verdict_fixed(bytes, len), PACKET_NOT_ROCE);
	len = util_unhex(UD_V6, bytes);
	bytes[6] = 44; /* fragment header */
	assert_int_equal(verdict_fixed(bytes, len), PACKET_NOT_ROCE);
	for (unsigned version = 0; version < 16; version++) {
		len = util_unhex(SEND_V4, bytes);
		bytes[0] = (uint8_t)(version << 4 | 5);
		if (version != 4 && version != 6)
			assert_int_equal(verdict(bytes, len), PACKET_NOT_ROCE);
	}
}

static void packet__HV_16_ipv4_options_are_dropped(void **state)
{
	static const uint8_t nops[4] = {1, 1, 1, 1};
	uint8_t bytes[256], with_options[260];
	unsigned len = util_unhex(SEND_V4, bytes);

	memcpy(with_options, bytes, 20);
	memcpy(with_options + 20, nops, 4);
	memcpy(with_options + 24, bytes + 20, len - 20);
	with_options[0] = 0x46;
	assert_int_equal(verdict_fixed(with_options, len + 4), PACKET_NOT_ROCE);
	for (unsigned ihl = 0; ihl < 16; ihl++) {
		bytes[0] = (uint8_t)(0x40 | ihl);
		assert_int_equal(verdict_fixed(bytes, len), ihl == 5 ? PACKET_OK : PACKET_NOT_ROCE);
	}
}

static void packet__HV_16_fragments_are_dropped(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);

	for (unsigned bit = 0; bit < 16; bit++) {
		bytes[6] = (uint8_t)(1u << bit >> 8);
		bytes[7] = (uint8_t)(1u << bit);
		/* DF and the reserved bit do not make the packet a fragment. */
		assert_int_equal(verdict_fixed(bytes, len), bit >= 14 ? PACKET_OK : PACKET_NOT_ROCE);
	}
	bytes[6] = bytes[7] = 0;
	assert_int_equal(verdict_fixed(bytes, len), PACKET_OK);
}

static void packet__lengths_of_ip_and_udp_must_agree(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		unsigned udp = bytes[0] >> 4 == 4 ? 20 : 40;

		for (unsigned value = 0; value < 300; value++) {
			uint8_t low = bytes[udp + 5];

			bytes[udp + 4] = (uint8_t)(value >> 8);
			bytes[udp + 5] = (uint8_t)value;
			assert_int_equal(verdict(bytes, len) == PACKET_OK, value == len - udp);
			if (value != len - udp)
				assert_int_equal(verdict(bytes, len), PACKET_BAD_IP);
			bytes[udp + 4] = 0;
			bytes[udp + 5] = low;
		}
	}
	util_unhex(UD_V6, bytes);
	for (unsigned plen = 0; plen < 300; plen++) {
		bytes[4] = (uint8_t)(plen >> 8);
		bytes[5] = (uint8_t)plen;
		assert_int_equal(verdict(bytes, 76), plen == 36 ? PACKET_OK : PACKET_BAD_IP);
	}
}

static void packet__ipv4_header_checksum_must_hold(void **state)
{
	uint8_t bytes[256];
	unsigned len = util_unhex(SEND_V4, bytes);

	for (unsigned bit = 8; bit < 160; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(verdict(bytes, len), PACKET_BAD_IP);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(verdict(bytes, len), PACKET_OK);
}

static void packet__ethernet_padding_behind_the_ip_packet_is_ignored(void **state)
{
	uint8_t bytes[300];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);

		memset(bytes + len, 0xa5, 40);
		for (unsigned extra = 0; extra < 40; extra++) {
			uint8_t again[NIC_FRAME_MAX];

			assert_int_equal(parse_ip(bytes, len + extra, &p), PACKET_OK);
			assert_int_equal(packet_encode(&p, again), len);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet__golden_packets_parse_and_encode_to_the_same_bytes),
		cmocka_unit_test(packet__golden_send_has_its_fields),
		cmocka_unit_test(packet__golden_ack_atomic_ud_and_cnp_have_their_fields),
		cmocka_unit_test(packet__HV_01_every_truncation_is_refused_without_overread),
		cmocka_unit_test(packet__HV_01_shorter_than_bth_and_icrc_is_dropped),
		cmocka_unit_test(packet__HV_02_unknown_opcode_is_dropped_whatever_its_length),
		cmocka_unit_test(packet__HV_03_shorter_than_its_header_chain_is_dropped),
		cmocka_unit_test(packet__HV_03_pad_larger_than_payload_is_dropped),
		cmocka_unit_test(packet__HV_03_length_must_be_a_multiple_of_four),
		cmocka_unit_test(packet__HV_03_payload_after_an_opcode_without_payload_is_dropped),
		cmocka_unit_test(packet__more_than_4096_bytes_of_payload_are_dropped),
		cmocka_unit_test(packet__HV_04_transport_version_other_than_0_is_dropped),
		cmocka_unit_test(packet__HV_05_wrong_icrc_is_dropped),
		cmocka_unit_test(packet__HV_14_other_udp_ports_and_protocols_are_not_roce),
		cmocka_unit_test(packet__HV_16_ipv4_options_are_dropped),
		cmocka_unit_test(packet__HV_16_fragments_are_dropped),
		cmocka_unit_test(packet__lengths_of_ip_and_udp_must_agree),
		cmocka_unit_test(packet__ipv4_header_checksum_must_hold),
		cmocka_unit_test(packet__ethernet_padding_behind_the_ip_packet_is_ignored),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
