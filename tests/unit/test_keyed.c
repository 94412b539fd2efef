/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_keyed.c - tags in place of ICRCs (keyed.c, packet.c; conformance point SE-08): their value, what they cover, and
 * what is refused. The golden tags come from an independent program, written from the SipHash paper and keyed.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "icrc.h"
#include "packet_util.h"
#include "rdm_stranger.h"
#include "wire.h"

/* The golden packets of packet_util.h with tags, under the key 00 01 ... 0f. */
static const char *const tagged[] = {
	"45020038123440004011147d0a0000010a000002c12312b700240000047fffff00000abc8000000168656c6c6f000000e642ce2b68f459"
	"98",
	"4502003412344000401114810a0000010a000002c12312b700200000114fffff00000abc000000011f000001ff89a3b7a6eb9873",
	"4502004c12344000401114690a0000010a000002c12312b700380000144fffff00000abc8000ffff"
	"00000000000010000102030400000000000000010000000000000000670e41dd8dbe7324",
	"6020000000281140fd000000000000000000000000000001fd000000000000000000000000000002c12312b700280000"
	"644fffff00000001000000008001000000000001000000002fcce3b10ce71379",
	"4502004012344000401114750a0000010a000002c12312b7002c0000814fffff40000abc00000000000000000000000000000000"
	"0000000091631bcde94dadd1",
};

static const uint8_t secret[KEYED_KEY_LEN] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static struct keyed key, other_key;

static enum packet_verdict parse(const uint8_t *ip, unsigned len, const struct keyed *with, struct packet *p)
{
	struct nic_rx_frame frame = {.data = util_at_end(guard, ip, len), .len = len};

	return packet_parse_keyed(&frame, with, p);
}

static enum packet_verdict verdict_with(const uint8_t *ip, unsigned len, const struct keyed *with)
{
	struct packet p;

	return parse(ip, len, with, &p);
}

/* ---- the hash -------------------------------------------------------------------------------------------- */

/** Test vectors of SipHash's authors: the key is 00 ... 0f, messages are 00 01 02 ... */
static void keyed__the_hash_is_siphash_2_4(void **state)
{
	static const struct {
		unsigned len;
		uint8_t tag[KEYED_TAG_LEN];
	} row[] = {
		{0, {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72}},
		{1, {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74}},
		{15, {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1}},
	};
	struct keyed plain;
	uint8_t message[64], tag[KEYED_TAG_LEN];

	memcpy(plain.key, secret, sizeof(plain.key));
	for (unsigned i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		keyed_tag(&plain, message, row[i].len, tag);
		assert_memory_equal(tag, row[i].tag, sizeof(tag));
		assert_true(keyed_holds(&plain, message, row[i].len, row[i].tag));
	}
}

/** For messages of every length, the hash equals that of another implementation. */
static void keyed__the_hash_is_that_of_another_implementation(void **state)
{
	static uint8_t message[NIC_FRAME_MAX];
	uint64_t seed = 7, words[2] = {0}, want;
	uint8_t tag[KEYED_TAG_LEN];

	for (unsigned i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)util_random(&seed);
	for (unsigned i = 0; i < sizeof(key.key); i++)
		words[i / 8] |= (uint64_t)key.key[i] << i % 8 * 8;
	for (unsigned len = 0; len <= sizeof(message); len += len < 300 ? 1 : 131) {
		keyed_tag(&key, message, len, tag);
		want = rdm_keyed_hash(words, message, len);
		for (unsigned i = 0; i < sizeof(tag); i++)
			assert_int_equal(tag[i], want >> 8 * i & 0xff);
	}
}

static void keyed__the_tag_key_is_derived_from_the_user_key(void **state)
{
	static const uint8_t derived[KEYED_KEY_LEN] = {0xfc, 0x65, 0xfe, 0xc6, 0xc7, 0x9a, 0xd3, 0x46,
						       0xac, 0xf8, 0xcb, 0xfe, 0x8d, 0xf2, 0x61, 0x54};

	assert_memory_equal(key.key, derived, sizeof(derived));
}

/* ---- packets --------------------------------------------------------------------------------------------- */

static void keyed__SE_08_golden_tags(void **state)
{
	uint8_t want[256], plain[256], buf[NIC_FRAME_MAX];
	struct packet p;

	assert_int_equal(sizeof(tagged) / sizeof(tagged[0]), GOLDEN_COUNT);
	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], want), plain_len = util_unhex(golden[i], plain);

		assert_int_equal(parse(want, len, &key, &p), PACKET_OK);
		assert_ptr_equal(p.key, &key);
		assert_int_equal(packet_encode(&p, buf), len);
		assert_memory_equal(buf, want, len);
		/* Encoding the untagged golden packet with the key gives the same bytes. */
		assert_int_equal(parse_ip(plain, plain_len, &p), PACKET_OK);
		assert_null(p.key);
		assert_int_equal(packet_encode(&p, buf), plain_len);
		assert_memory_equal(buf, plain, plain_len);
		p.key = &key;
		assert_int_equal(packet_encode(&p, buf), len);
		assert_memory_equal(buf, want, len);
	}
}

/** Payloads up to the longest are parsed back unchanged, whether encoded in one step or in two. */
static void keyed__SE_08_payloads_up_to_the_longest_are_parsed_unchanged(void **state)
{
	static const uint32_t lens[] = {0, 1, 3, 4, 5, 255, 256, 257, 1024, 4093, 4096};
	static uint8_t payload[NIC_PAYLOAD_MAX], one[NIC_FRAME_MAX], two[NIC_FRAME_MAX];
	uint8_t bytes[256];
	struct packet p, back;
	uint64_t seed = 11;

	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)util_random(&seed);
	for (unsigned i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
		unsigned len, whole = util_unhex(i % 2 ? SEND_V4 : UD_V6, bytes);

		assert_int_equal(parse(bytes, whole, NULL, &p), PACKET_OK);
		p.key = &key;
		p.payload = payload;
		p.payload_len = lens[i / 2];
		p.pad = (uint8_t)(-p.payload_len & 3);
		len = packet_encode(&p, one);
		assert_int_equal(len, util_payload_offset(p.op, p.v4) + p.payload_len + p.pad + KEYED_TAG_LEN);
		assert_true(len <= NIC_FRAME_MAX);
		memcpy(packet_open(&p, two), payload, p.payload_len);
		assert_null(packet_icrc(&p));
		assert_int_equal(packet_close(&p, two), len);
		assert_memory_equal(one, two, len);
		assert_int_equal(parse(one, len, &key, &back), PACKET_OK);
		assert_int_equal(back.payload_len, lens[i / 2]);
		assert_memory_equal(back.payload, payload, back.payload_len);
		assert_int_equal(parse(one, len, &other_key, &back), PACKET_BAD_TAG);
	}
}

/** Whether routers, firewalls and sockets can change this byte, as listed in keyed.md. */
static bool is_variable(const uint8_t *ip, unsigned at)
{
	unsigned udp = ip[0] == IPV4_VERSION ? IPV4_LEN : IPV6_LEN;

	if (at == udp + UDP_CSUM || at == udp + UDP_CSUM + 1 || at == udp + UDP_LEN + BTH_ECN)
		return true;
	if (udp == IPV4_LEN)
		return at == IPV4_TOS || at == IPV4_TTL || at == IPV4_CSUM || at == IPV4_CSUM + 1 ||
		       (at >= IPV4_ID && at < IPV4_ID + 4);
	return (at >= 1 && at <= 3) || at == IPV6_HOPS;
}

static void keyed__SE_08_a_flipped_bit_in_covered_bytes_is_refused(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes), udp = bytes[0] == IPV4_VERSION ? IPV4_LEN : IPV6_LEN;

		for (unsigned bit = 0; bit < len * 8; bit++) {
			uint8_t copy[256];
			enum packet_verdict v;

			memcpy(copy, bytes, len);
			copy[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			if (udp == IPV4_LEN) /* as a forger would */
				util_fix_ipv4_checksum(copy);
			v = verdict_with(copy, len, &key);
			if (udp == IPV4_LEN && bit > IPV4_FRAG * 8 + 1 && bit < (IPV4_FRAG + 2) * 8)
				assert_int_equal(v, PACKET_NOT_ROCE); /* this bit makes it a fragment */
			else if (is_variable(bytes, bit / 8) || (udp == IPV6_LEN && bit / 8 == 0 && bit % 8 > 3))
				assert_int_equal(v, PACKET_OK);
			else
				assert_int_not_equal(v, PACKET_OK);
			/* Bits that no other check covers. */
			if (bit / 8 > udp + UDP_LEN + BTH_PKEY && !is_variable(bytes, bit / 8))
				assert_int_equal(v, PACKET_BAD_TAG);
		}
	}
}

/** A packet with bytes cut off or added is refused, even if all its lengths are corrected. */
static void keyed__SE_08_truncated_and_extended_packets_are_refused(void **state)
{
	uint8_t bytes[512];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes);

		memset(bytes + len, 0, sizeof(bytes) - len);
		for (unsigned n = 0; n < len + 16; n++) {
			uint8_t copy[512], tag[KEYED_TAG_LEN];

			memcpy(copy, bytes, sizeof(copy));
			if (n == len)
				continue;
			assert_int_not_equal(verdict_with(copy, n < len ? n : len, &key),
					     n < len ? PACKET_OK : PACKET_VERDICTS);
			if (n < IPV6_LEN + UDP_LEN + KEYED_TAG_LEN)
				continue;
			memcpy(tag, bytes + len - KEYED_TAG_LEN, sizeof(tag));
			util_fix(copy, n); /* corrects the lengths, but also writes an ICRC */
			memcpy(copy + n - KEYED_TAG_LEN, tag, sizeof(tag));
			assert_int_not_equal(verdict_with(copy, n, &key), PACKET_OK);
		}
	}
}

static void keyed__SE_08_packets_without_a_tag_are_refused_with_a_key(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes), bth = bytes[0] == IPV4_VERSION ? 28 : 48;

		assert_int_equal(verdict_with(bytes, len, NULL), PACKET_OK);
		assert_int_equal(verdict_with(bytes, len, &key), PACKET_NO_TAG);
		/* A packet that declares its ICRC to be a tag fails verification. */
		bytes[bth + BTH_FLAGS] |= BTH_TVER_KEYED;
		util_fix(bytes, len);
		assert_int_not_equal(verdict_with(bytes, len, &key), PACKET_OK);
	}
}

/** A NIC without a key drops packets with a tag, even if they end with a valid ICRC. */
static void keyed__SE_08_packets_with_a_tag_are_refused_without_a_key(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes);

		assert_int_equal(verdict_with(bytes, len, NULL), PACKET_NO_KEY);
		util_fix(bytes, len);
		assert_int_equal(verdict_with(bytes, len, NULL), PACKET_NO_KEY);
	}
}

static void keyed__SE_08_another_key_is_refused(void **state)
{
	uint8_t bytes[256], near[KEYED_KEY_LEN];
	struct keyed wrong;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes);

		assert_int_equal(verdict_with(bytes, len, &other_key), PACKET_BAD_TAG);
		for (unsigned bit = 0; bit < 8 * sizeof(near); bit++) {
			memcpy(near, secret, sizeof(near));
			near[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_true(keyed_derive(&wrong, near));
			assert_int_equal(verdict_with(bytes, len, &wrong), PACKET_BAD_TAG);
		}
	}
}

/** The tag covers the addresses: a packet reflected to its sender with swapped addresses is refused. */
static void keyed__SE_08_a_reflected_packet_is_refused(void **state)
{
	uint8_t bytes[256], source[16];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes), n = bytes[0] == IPV4_VERSION ? 4 : 16;
		uint8_t *from = bytes + (n == 4 ? IPV4_SADDR : IPV6_SADDR), *to = from + n;

		memcpy(source, from, n);
		memcpy(from, to, n);
		memcpy(to, source, n);
		if (n == 4)
			util_fix_ipv4_checksum(bytes);
		assert_int_equal(verdict_with(bytes, len, &key), PACKET_BAD_TAG);
	}
}

/** A UDP socket hides the IPv4 ID, so the tag does not cover it. The addresses and the source port come with the
 *  frame and are covered. */
static void keyed__SE_08_udp_socket_payloads_are_verified(void **state)
{
	uint8_t bytes[256];
	struct packet p, q;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes);
		struct nic_rx_frame frame;

		assert_int_equal(parse(bytes, len, &key, &p), PACKET_OK);
		frame = udp_frame(bytes, len, &p);
		assert_int_equal(packet_parse_keyed(&frame, &key, &q), PACKET_OK);
		assert_false(q.ip_id_recovered);
		frame.udp_sport++;
		assert_int_equal(packet_parse_keyed(&frame, &key, &q), PACKET_BAD_TAG);
		frame.udp_sport--;
		frame.sgid.raw[15]++;
		assert_int_equal(packet_parse_keyed(&frame, &key, &q), PACKET_BAD_TAG);
		frame.sgid.raw[15]--;
		assert_int_equal(packet_parse(&frame, &q), PACKET_NO_KEY);
	}
}

/** A carrier within the host vouches for the sender: no tag is required, and no trailer is taken for a tag. */
static void keyed__SE_08_local_carriers_need_no_tag(void **state)
{
	uint8_t bytes[256];

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame = {.data = bytes, .len = len};
		struct packet p;

		frame.flags = NIC_RX_NO_KEY;
		assert_int_equal(packet_parse_keyed(&frame, &key, &p), PACKET_OK);
		bytes[len - 1] ^= 1;
		assert_int_equal(packet_parse_keyed(&frame, &key, &p), PACKET_BAD_ICRC);
		frame.flags = NIC_RX_NO_ICRC;
		assert_int_equal(packet_parse_keyed(&frame, &key, &p), PACKET_OK);
		frame.len = util_unhex(tagged[i], bytes);
		assert_int_equal(packet_parse_keyed(&frame, &key, &p), PACKET_BAD_VERSION);
		frame.flags = NIC_RX_NO_KEY;
		assert_int_equal(packet_parse_keyed(&frame, &key, &p), PACKET_BAD_VERSION);
	}
}

/** Observers see the tag unchanged, and IPv4 ID 0: the tag is not taken for an ICRC from which an ID could be
 *  recovered. */
static void keyed__captures_show_the_tag_unchanged(void **state)
{
	uint8_t bytes[256], shown[NIC_FRAME_MAX];
	struct packet p;

	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(tagged[i], bytes), bth = bytes[0] == IPV4_VERSION ? 28 : 48;
		struct nic_rx_frame frame;

		assert_int_equal(parse(bytes, len, &key, &p), PACKET_OK);
		/* Among this many trailers, some look like the ICRC of a packet with some ID. */
		for (unsigned k = 0; k < 300000; k += 1 + 299999 * (i != 0)) {
			wire_put32(bytes + len - 4, k);
			frame = udp_frame(bytes, len, &p);
			assert_int_equal(nic_frame_ip(&frame, shown, sizeof(shown)), len);
			assert_memory_equal(shown + bth, bytes + bth, len - bth);
			if (bth == 28)
				assert_int_equal(wire_get16(shown + IPV4_ID), 0);
		}
	}
}

static int prepare(void **state)
{
	static const uint8_t other[KEYED_KEY_LEN] = {1};

	guard = util_guard_map();
	return keyed_derive(&key, secret) && keyed_derive(&other_key, other) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keyed__the_hash_is_siphash_2_4),
		cmocka_unit_test(keyed__the_hash_is_that_of_another_implementation),
		cmocka_unit_test(keyed__the_tag_key_is_derived_from_the_user_key),
		cmocka_unit_test(keyed__SE_08_golden_tags),
		cmocka_unit_test(keyed__SE_08_payloads_up_to_the_longest_are_parsed_unchanged),
		cmocka_unit_test(keyed__SE_08_a_flipped_bit_in_covered_bytes_is_refused),
		cmocka_unit_test(keyed__SE_08_truncated_and_extended_packets_are_refused),
		cmocka_unit_test(keyed__SE_08_packets_without_a_tag_are_refused_with_a_key),
		cmocka_unit_test(keyed__SE_08_packets_with_a_tag_are_refused_without_a_key),
		cmocka_unit_test(keyed__SE_08_another_key_is_refused),
		cmocka_unit_test(keyed__SE_08_a_reflected_packet_is_refused),
		cmocka_unit_test(keyed__SE_08_udp_socket_payloads_are_verified),
		cmocka_unit_test(keyed__SE_08_local_carriers_need_no_tag),
		cmocka_unit_test(keyed__captures_show_the_tag_unchanged),
	};

	if (!keyed_supported()) {
		print_message("this build has no libsodium, and so no tags\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, prepare, NULL);
}
