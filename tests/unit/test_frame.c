/* SPDX-License-Identifier: BSD-3-Clause */
/* test_frame.c - nic/wire/frame.c: restores what carriers have removed from packets, so that observers see whole
 * packets. */
#include "packet_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "opcode.h"

/** The Internet checksum over UDP and its pseudo header: ffff when it is right. */
static unsigned udp6_sum(const uint8_t *ip, unsigned len)
{
	uint32_t sum = 17 + len - 40;

	for (unsigned i = 8; i < len; i += 2)
		sum += (uint32_t)ip[i] << 8 | (i + 1 < len ? ip[i + 1] : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/** The UDP payload from a socket becomes the packet that was on the wire. For golden packets, even the IPv4 ID is
 *  recovered. */
static void frame__headers_are_put_back_bit_for_bit(void **state)
{
	uint8_t bytes[256], out[NIC_FRAME_MAX];

	(void)state;
	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame;
		struct packet p;

		assert_int_equal(parse_ip(bytes, len, &p), PACKET_OK);
		frame = udp_frame(bytes, len, &p);
		assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), len);
		if (!p.v4) {
			assert_int_equal(udp6_sum(out, len), 0xffff);
			/* Clear the UDP checksum, which golden packets do not have. */
			memset(out + 46, 0, 2);
		}
		assert_memory_equal(out, bytes, len);
		frame.data = bytes;
		frame.len = len;
		frame.flags = 0;
		assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), len);
		assert_int_equal(verdict(out, len), PACKET_OK);
	}
}

/** nic_frame_ip and nic_frame_icrc_set fill in an ICRC that the carrier left out. */
static void frame__absent_icrc_is_computed(void **state)
{
	uint8_t bytes[256], out[NIC_FRAME_MAX];

	(void)state;
	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame = {.data = bytes, .len = len, .flags = NIC_RX_NO_ICRC};
		uint8_t good[4];

		memcpy(good, bytes + len - 4, 4);
		memset(bytes + len - 4, 0xee, 4);
		assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), len);
		assert_memory_equal(out + len - 4, good, 4);
		assert_true(nic_frame_icrc_set(bytes, len));
		assert_memory_equal(bytes + len - 4, good, 4);
	}
}

/** Any bytes can arrive, and are shown unchanged: no ICRC is written into a packet that is not RoCEv2. */
static void frame__arbitrary_bytes_are_handled_safely(void **state)
{
	uint8_t bytes[256], out[NIC_FRAME_MAX];
	unsigned len = util_unhex(SEND_V4, bytes);
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t *end;
		unsigned n = (unsigned)(util_random(&seed) % (len + 1));
		struct nic_rx_frame frame = {.len = n, .flags = (uint32_t)util_random(&seed) & 7, .udp_sport = 1};
		unsigned carrier = frame.flags & NIC_RX_UDP_PAYLOAD ? 48 : 0;

		util_unhex(golden[round % GOLDEN_COUNT], bytes);
		if (round % 4 == 0)
			bytes[util_random(&seed) % len] ^= (uint8_t)util_random(&seed);
		frame.data = util_at_end(guard, bytes, n);
		if (carrier)
			assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), n + carrier);
		else
			assert_true(nic_frame_ip(&frame, out, sizeof(out)) <= n);
		end = util_at_end(guard, bytes, n);
		if (nic_frame_icrc_set(end, n))
			assert_true(n >= 44);
	}
	struct nic_rx_frame frame = {.data = bytes, .len = len};

	assert_int_equal(nic_frame_ip(&frame, out, len - 1), 0);
	bytes[9] = 6; /* protocol TCP */
	assert_false(nic_frame_icrc_set(bytes, len));
}

/** The bytes with which Ethernet pads a short packet are not shown as part of the packet. */
static void frame__padding_is_left_out(void **state)
{
	uint8_t bytes[256] = {0}, out[NIC_FRAME_MAX];

	(void)state;
	for (unsigned i = 0; i < GOLDEN_COUNT; i++) {
		unsigned len = util_unhex(golden[i], bytes);
		struct nic_rx_frame frame = {.data = bytes, .len = len + 6};

		assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), len);
		assert_int_equal(verdict(out, len), PACKET_OK);
	}
}

/** A payload is refused if its length does not fit in the IP header's length field. */
static void frame__longer_than_ip_is_refused(void **state)
{
	static uint8_t bytes[65536], out[65536 + 64];
	struct nic_rx_frame frame = {.data = bytes, .len = 65535 - 48 + 1, .flags = NIC_RX_UDP_PAYLOAD};

	(void)state;
	assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), 0);
	frame.len--;
	assert_int_equal(nic_frame_ip(&frame, out, sizeof(out)), 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame__headers_are_put_back_bit_for_bit),
		cmocka_unit_test(frame__absent_icrc_is_computed),
		cmocka_unit_test(frame__arbitrary_bytes_are_handled_safely),
		cmocka_unit_test(frame__padding_is_left_out),
		cmocka_unit_test(frame__longer_than_ip_is_refused),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
