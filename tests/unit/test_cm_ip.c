/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_ip.c - RDMA IP headers in private data, and service IDs of ports (cm_ip.c; conformance point CM-05). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic_cm_ip.h"
#include "cm_util.h"

static uint8_t *guard; /* headers are placed before an unreadable page */

#define V4(a, b, c, d)                                                                                                 \
	{                                                                                                              \
		{                                                                                                      \
			[10] = 0xff, 0xff, a, b, c, d                                                                  \
		}                                                                                                      \
	}

static enum nic_cm_ip_verdict parse(const uint8_t *data, unsigned len, struct nic_cm_ip *out)
{
	return nic_cm_ip_parse(util_at_end(guard, data, len), len, out);
}

/** The bytes of a header, written by hand. */
static const uint8_t v4_bytes[NIC_CM_IP_LEN] = {
	0, 0x40, 0x91, 0xeb, [16] = 192, 168, 77, 1, [32] = 192, 168, 77, 2,
};
static const uint8_t v6_bytes[NIC_CM_IP_LEN] = {
	0, 0x60, 0x12, 0x34, [4] = 0xfd, [5] = 1, [18] = 2, 3, [20] = 0xfe, 0x80, [34] = 4, 5,
};

/** The header is parsed into these fields, and built from them. */
static void check_header(const uint8_t bytes[NIC_CM_IP_LEN], const struct nic_cm_ip *expected)
{
	uint8_t built[NIC_CM_IP_LEN];
	struct nic_cm_ip ip;

	assert_int_equal(parse(bytes, NIC_CM_IP_LEN, &ip), NIC_CM_IP_OK);
	assert_int_equal(ip.version, expected->version);
	assert_int_equal(ip.port, expected->port);
	assert_memory_equal(&ip.source, &expected->source, sizeof(ip.source));
	assert_memory_equal(&ip.destination, &expected->destination, sizeof(ip.destination));
	memset(built, 0xee, sizeof(built));
	nic_cm_ip_build(expected, built);
	assert_memory_equal(built, bytes, NIC_CM_IP_LEN);
}

static void cm_ip__CM_05_ipv4(void **state)
{
	static const struct nic_cm_ip expected = {
		.version = 4, .port = 0x91eb, .source = V4(192, 168, 77, 1), .destination = V4(192, 168, 77, 2)};

	check_header(v4_bytes, &expected);
}

static void cm_ip__CM_05_ipv6(void **state)
{
	static const struct nic_cm_ip expected = {.version = 6,
						  .port = 0x1234,
						  .source = {{0xfd, 1, [14] = 2, 3}},
						  .destination = {{0xfe, 0x80, [14] = 4, 5}}};

	check_header(v6_bytes, &expected);
}

static void cm_ip__CM_05_shorter_than_a_header_is_refused(void **state)
{
	static const uint8_t long_data[CM_MAD_LEN] = {0, 0x40};
	struct nic_cm_ip ip;

	for (unsigned len = 0; len <= sizeof(long_data); len++) {
		enum nic_cm_ip_verdict v = parse(long_data, len, &ip);

		assert_int_equal(v, len < NIC_CM_IP_LEN ? NIC_CM_IP_TOO_SHORT : NIC_CM_IP_OK);
		if (v != NIC_CM_IP_OK)
			assert_zeroes(&ip, sizeof(ip));
	}
	assert_int_equal(nic_cm_ip_parse(NULL, 0, &ip), NIC_CM_IP_TOO_SHORT);
}

static void cm_ip__CM_05_versions_and_families_are_checked(void **state)
{
	uint8_t data[NIC_CM_IP_LEN];
	struct nic_cm_ip ip;

	memcpy(data, v4_bytes, sizeof(data));
	for (unsigned value = 0; value < 256; value++) {
		data[0] = (uint8_t)value;
		assert_int_equal(parse(data, NIC_CM_IP_LEN, &ip), value == 0 ? NIC_CM_IP_OK : NIC_CM_IP_BAD_VERSION);
	}
	data[0] = 0;
	for (unsigned value = 0; value < 256; value++) {
		unsigned family = value >> 4; /* the low half is reserved */
		enum nic_cm_ip_verdict v;

		data[1] = (uint8_t)value;
		v = parse(data, NIC_CM_IP_LEN, &ip);
		assert_int_equal(v, family == 4 || family == 6 ? NIC_CM_IP_OK : NIC_CM_IP_BAD_FAMILY);
		assert_int_equal(ip.version, v == NIC_CM_IP_OK ? family : 0);
		if (v != NIC_CM_IP_OK)
			assert_zeroes(&ip, sizeof(ip));
	}
}

/** The bytes before an IPv4 address are reserved: ignored on arrival, and sent as 0. */
static void cm_ip__CM_05_reserved_bytes_of_ipv4_are_ignored(void **state)
{
	uint8_t data[NIC_CM_IP_LEN], built[NIC_CM_IP_LEN];
	struct nic_cm_ip ip;

	memcpy(data, v4_bytes, sizeof(data));
	memset(data + 4, 0xff, 12);
	memset(data + 20, 0xff, 12);
	data[1] |= 0xf;
	assert_int_equal(parse(data, NIC_CM_IP_LEN, &ip), NIC_CM_IP_OK);
	nic_cm_ip_build(&ip, built);
	assert_memory_equal(built, v4_bytes, NIC_CM_IP_LEN);
}

static void cm_ip__CM_05_captured_requests(void **state)
{
	static const unsigned request[] = {CAP_REQ, CAP_SIDR_REQ};
	uint8_t mad[CM_MAD_LEN], built[NIC_CM_IP_LEN];
	static const struct nic_gid client = V4(192, 168, 77, 1), server = V4(192, 168, 77, 2);

	for (unsigned i = 0; i < sizeof(request) / sizeof(request[0]); i++) {
		struct cm_mad m;
		struct nic_cm_ip ip;

		cm_captured_get(request[i], mad);
		assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
		assert_int_equal(nic_cm_ip_parse(m.data, m.data_len, &ip), NIC_CM_IP_OK);
		assert_int_equal(ip.version, 4);
		assert_memory_equal(&ip.source, &client, sizeof(client));
		assert_memory_equal(&ip.destination, &server, sizeof(server));
		nic_cm_ip_build(&ip, built);
		assert_memory_equal(built, m.data, NIC_CM_IP_LEN);
	}
}

static void cm_ip__service_ids_are_port_spaces_and_ports(void **state)
{
	uint16_t space = 0, port = 0;

	assert_int_equal(nic_cm_service_id(NIC_CM_PS_TCP, 7174), 0x0000000001061c06);
	assert_int_equal(nic_cm_service_id(NIC_CM_PS_UDP, 0xffff), 0x000000000111ffff);
	assert_int_equal(nic_cm_service_id(NIC_CM_PS_IB, 0), 0x00000000013f0000);
	assert_true(nic_cm_service_split(0x0000000001061c06, &space, &port));
	assert_int_equal(space, NIC_CM_PS_TCP);
	assert_int_equal(port, 7174);
	assert_true(nic_cm_service_split(0x00000000013fffff, &space, &port));
	assert_int_equal(space, NIC_CM_PS_IB);
	assert_int_equal(port, 0xffff);
	assert_false(nic_cm_service_split(nic_cm_service_id(NIC_CM_PS_IPOIB, 5), &space, &port));
	assert_false(nic_cm_service_split(0x0000000002061c06, &space, &port));
	assert_false(nic_cm_service_split(0x0100000001061c06, &space, &port));
	assert_false(nic_cm_service_split(0, &space, &port));
}

static void cm_ip__verdicts_have_names(void **state)
{
	assert_string_equal(nic_cm_ip_verdict_name(NIC_CM_IP_OK), "ok");
	assert_string_equal(nic_cm_ip_verdict_name(NIC_CM_IP_BAD_FAMILY), "bad_family");
	assert_string_equal(nic_cm_ip_verdict_name(NIC_CM_IP_VERDICTS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_ip__CM_05_ipv4),
		cmocka_unit_test(cm_ip__CM_05_ipv6),
		cmocka_unit_test(cm_ip__CM_05_shorter_than_a_header_is_refused),
		cmocka_unit_test(cm_ip__CM_05_versions_and_families_are_checked),
		cmocka_unit_test(cm_ip__CM_05_reserved_bytes_of_ipv4_are_ignored),
		cmocka_unit_test(cm_ip__CM_05_captured_requests),
		cmocka_unit_test(cm_ip__service_ids_are_port_spaces_and_ports),
		cmocka_unit_test(cm_ip__verdicts_have_names),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
