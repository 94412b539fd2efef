/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cm_mad.c - parsing and building of connection manager messages (cm_mad.c; conformance point CM-12), and their
 * description in words (cm_names.c). The position of each field is tested in test_cm_table.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm_util.h"
#include "nic_cm.h"
#include "wire.h"

static uint8_t *guard; /* MADs are placed before an unreadable page */

static enum cm_verdict parse_at_end(const uint8_t *mad, unsigned len, struct cm_mad *out)
{
	return cm_mad_parse(util_at_end(guard, mad, len), len, out);
}

static enum cm_verdict verdict(const uint8_t *mad)
{
	struct cm_mad m;

	return parse_at_end(mad, CM_MAD_LEN, &m);
}

/* ---- parsing and building ------------------------------------------------------------------------------------- */

/** Assert that two messages have equal fields, info and data. */
static void assert_same(const struct cm_mad *a, const struct cm_mad *b)
{
	struct cm_mad x, y;

	memcpy(&x, a, sizeof(x)); /* padding included */
	memcpy(&y, b, sizeof(y));
	assert_int_equal(x.info_len, y.info_len);
	assert_int_equal(x.data_len, y.data_len);
	if (x.info_len > 0)
		assert_memory_equal(x.info, y.info, x.info_len);
	assert_memory_equal(x.data, y.data, x.data_len);
	x.info = y.info = x.data = y.data = NULL;
	assert_memory_equal(&x, &y, sizeof(x));
}

/** A MAD that is parsed and built again loses its reserved bits and nothing else. */
static void cm_mad__a_parsed_mad_builds_the_same_message(void **state)
{
	uint8_t mad[CM_MAD_LEN], again[CM_MAD_LEN], third[CM_MAD_LEN];
	uint64_t seed = 34;
	struct cm_mad m, n;

	for (unsigned round = 0; round < 500; round++)
		for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
			cm_random(&seed, attr, mad);
			assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
			memset(again, 0xee, sizeof(again));
			cm_mad_build(&m, again);
			assert_int_equal(cm_mad_parse(again, CM_MAD_LEN, &n), CM_MAD_OK);
			assert_same(&m, &n);
			memset(third, 0x11, sizeof(third));
			cm_mad_build(&n, third);
			assert_memory_equal(third, again, CM_MAD_LEN);
		}
}

static void cm_mad__private_data_is_zero_padded_or_truncated(void **state)
{
	uint8_t mad[CM_MAD_LEN], bytes[256];
	uint64_t seed = 5;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)util_random(&seed) | 1;
	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		const struct cm_message *message = cm_message_get(attr);
		uint32_t room = cm_mad_room(attr);

		for (unsigned len = 0; len < 256; len++) {
			unsigned put = len < room ? len : room;
			struct cm_mad m, back;

			cm_clear(&m, attr);
			m.data = len > 0 ? bytes : NULL;
			m.data_len = (uint8_t)len;
			memset(mad, 0xee, sizeof(mad));
			cm_mad_build(&m, mad);
			assert_memory_equal(mad + message->data, bytes, put);
			assert_zeroes(mad + message->data + put, room - put);
			assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &back), CM_MAD_OK);
			assert_int_equal(back.data_len, room);
		}
	}
}

static void cm_mad__additional_information_survives_build_and_parse(void **state)
{
	static const uint32_t attrs[] = {CM_REJ, CM_APR, CM_SIDR_REP};
	uint8_t mad[CM_MAD_LEN], bytes[CM_INFO_LEN];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
		for (unsigned len = 0; len <= CM_INFO_LEN; len++) {
			struct cm_mad m, back;

			cm_clear(&m, attrs[i]);
			m.info = len > 0 ? bytes : NULL;
			m.info_len = (uint8_t)len;
			cm_mad_build(&m, mad);
			assert_int_equal(parse_at_end(mad, CM_MAD_LEN, &back), CM_MAD_OK);
			assert_int_equal(back.info_len, len);
			assert_memory_equal(back.info, bytes, len);
			assert_zeroes(back.info + len, CM_INFO_LEN - len);
		}
}

/* ---- refused MADs --------------------------------------------------------------------------------------------- */

static void cm_mad__CM_12_mads_must_have_256_bytes(void **state)
{
	uint8_t mad[512];
	uint64_t seed = 6;
	struct cm_mad m;

	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		cm_random(&seed, attr, mad);
		memset(mad + CM_MAD_LEN, 0, sizeof(mad) - CM_MAD_LEN);
		for (unsigned len = 0; len <= 300; len++) {
			enum cm_verdict v = parse_at_end(mad, len, &m);

			assert_int_equal(v, len < CM_MAD_LEN   ? CM_MAD_TOO_SHORT
					    : len > CM_MAD_LEN ? CM_MAD_TOO_LONG
							       : CM_MAD_OK);
			if (v != CM_MAD_OK)
				assert_zeroes(&m, sizeof(m));
		}
	}
	assert_int_equal(cm_mad_parse(NULL, 0, &m), CM_MAD_TOO_SHORT);
	assert_int_equal(cm_mad_parse(mad, SIZE_MAX, &m), CM_MAD_TOO_LONG);
}

/** For each header byte with only one valid value, all other values are refused. */
static void cm_mad__CM_12_other_classes_versions_and_methods_are_refused(void **state)
{
	static const struct {
		unsigned at;
		uint8_t right;
		enum cm_verdict verdict;
	} row[] = {
		{0, 1, CM_MAD_BAD_BASE_VERSION},
		{1, 7, CM_MAD_BAD_CLASS},
		{2, 2, CM_MAD_BAD_CLASS_VERSION},
		{3, 3, CM_MAD_BAD_METHOD},
	};
	uint8_t mad[CM_MAD_LEN];
	uint64_t seed = 7;

	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		cm_random(&seed, attr, mad);
		for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
			for (unsigned value = 0; value < 256; value++) {
				mad[row[i].at] = (uint8_t)value;
				assert_int_equal(verdict(mad), value == row[i].right ? CM_MAD_OK : row[i].verdict);
			}
			mad[row[i].at] = row[i].right;
		}
	}
}

static void cm_mad__CM_12_other_attributes_are_refused(void **state)
{
	uint8_t mad[CM_MAD_LEN];

	for (uint32_t attr = 0; attr <= UINT16_MAX; attr++) {
		bool is = attr >= CM_REQ && attr <= CM_APR;

		cm_captured_get(CAP_REP, mad);
		wire_put16(mad + 16, (uint16_t)attr);
		mad[CM_MAD_HEADER_LEN + 5] = mad[CM_MAD_HEADER_LEN + 8] = mad[CM_MAD_HEADER_LEN + 9] = 0;
		assert_int_equal(verdict(mad), is ? CM_MAD_OK : CM_MAD_BAD_ATTRIBUTE);
		assert_int_equal(cm_mad_room(attr) > 0, is);
		assert_int_equal(cm_message_get(attr) != NULL, is);
	}
	assert_null(cm_message_get(UINT32_MAX));
}

static void cm_mad__CM_12_reserved_values_are_refused(void **state)
{
	uint8_t mad[CM_MAD_LEN], *body = mad + CM_MAD_HEADER_LEN;
	uint64_t seed = 8;
	struct cm_mad m;

	for (unsigned value = 0; value < 256; value++) {
		enum cm_verdict answered = value >> 6 == 3 ? CM_MAD_BAD_ANSWERED : CM_MAD_OK;

		cm_random(&seed, CM_MRA, mad);
		body[8] = (uint8_t)value;
		assert_int_equal(verdict(mad), answered);
		cm_random(&seed, CM_REJ, mad);
		body[8] = (uint8_t)value;
		assert_int_equal(verdict(mad), answered);

		cm_random(&seed, CM_REJ, mad);
		body[9] = (uint8_t)value;
		assert_int_equal(verdict(mad), value >> 1 > 72 ? CM_MAD_BAD_INFO : CM_MAD_OK);
		cm_random(&seed, CM_APR, mad);
		body[8] = (uint8_t)value;
		assert_int_equal(verdict(mad), value > 72 ? CM_MAD_BAD_INFO : CM_MAD_OK);
		cm_random(&seed, CM_SIDR_REP, mad);
		body[5] = (uint8_t)value;
		assert_int_equal(parse_at_end(mad, CM_MAD_LEN, &m), value > 72 ? CM_MAD_BAD_INFO : CM_MAD_OK);
		if (value > 72)
			assert_zeroes(&m, sizeof(m));
	}
}

/** A MAD is accepted whatever its reserved bits are. */
static void cm_mad__CM_12_reserved_bits_are_ignored(void **state)
{
	uint8_t mad[CM_MAD_LEN], built[CM_MAD_LEN];
	struct cm_mad m;

	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		uint64_t seed = 9;

		cm_random(&seed, attr, mad);
		memset(mad + 4, 0xff, 4); /* status and class specific field */
		mad[18] = mad[19] = 0xff;
		assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
		cm_mad_build(&m, built);
		assert_zeroes(built + 4, 4);
		assert_zeroes(built + 18, 2);
	}
}

/* ---- MADs captured from Linux ----------------------------------------------------------------------------------- */

static void cm_mad__captured_mads_build_bit_for_bit(void **state)
{
	uint8_t mad[CM_MAD_LEN], built[CM_MAD_LEN];
	struct cm_mad m;

	for (unsigned i = 0; i < CAP_COUNT; i++) {
		cm_captured_get(i, mad);
		assert_int_equal(parse_at_end(mad, CM_MAD_LEN, &m), CM_MAD_OK);
		cm_mad_build(&m, built);
		assert_memory_equal(built, mad, CM_MAD_LEN);
	}
}

static struct cm_mad captured(unsigned i)
{
	static uint8_t mad[CM_MAD_LEN];
	struct cm_mad m;

	cm_captured_get(i, mad);
	assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
	return m;
}

/** The REQ was captured from `rping -c -a 192.168.77.2 -C 3`. */
static void cm_mad__a_captured_req_parses_to_the_expected_fields(void **state)
{
	static const uint8_t client[16] = {[10] = 0xff, 0xff, 192, 168, 77, 1};
	static const uint8_t server[16] = {[10] = 0xff, 0xff, 192, 168, 77, 2};
	struct cm_mad m = captured(CAP_REQ);

	assert_int_equal(m.attr, CM_REQ);
	assert_int_equal(m.tid, 0x000000023d4da7af);
	assert_int_equal(m.local_id, 0xafa74d3d);
	assert_int_equal(m.req.service_id, 0x0000000001061c06); /* TCP, port 7174 */
	assert_int_equal(m.req.ca_guid, 0x505400fffe770001);
	assert_int_equal(m.req.qpn, 0x66);
	assert_int_equal(m.req.starting_psn, 0xe79133);
	assert_int_equal(m.req.responder_resources, 1);
	assert_int_equal(m.req.initiator_depth, 1);
	assert_int_equal(m.req.transport, CM_RC);
	assert_int_equal(m.req.remote_cm_response_timeout, 20);
	assert_int_equal(m.req.local_cm_response_timeout, 20);
	assert_int_equal(m.req.max_cm_retries, 15);
	assert_int_equal(m.req.retry_count, 7);
	assert_int_equal(m.req.rnr_retry_count, 7);
	assert_int_equal(m.req.pkey, 0xffff);
	assert_int_equal(m.req.mtu, NIC_MTU_1024);
	assert_memory_equal(m.req.primary.local_gid.raw, client, 16);
	assert_memory_equal(m.req.primary.remote_gid.raw, server, 16);
	assert_int_equal(m.req.primary.local_lid, 0xffff);
	assert_int_equal(m.req.primary.flow_label, 0x1c77b);
	assert_int_equal(m.req.primary.hop_limit, 64);
	assert_int_equal(m.req.primary.ack_timeout, 19);
	assert_zeroes(&m.req.alternate, sizeof(m.req.alternate));
}

static void cm_mad__captured_replies_parse_to_the_expected_fields(void **state)
{
	struct cm_mad m = captured(CAP_REP);

	assert_int_equal(m.local_id, 0x67b22884);
	assert_int_equal(m.remote_id, 0xafa74d3d);
	assert_int_equal(m.rep.qpn, 0x66);
	assert_int_equal(m.rep.starting_psn, 0x8ae291);
	assert_int_equal(m.rep.target_ack_delay, 15);
	assert_int_equal(m.rep.rnr_retry_count, 7);
	assert_int_equal(m.rep.ca_guid, 0x505400fffe770002);

	m = captured(CAP_REJ);
	assert_int_equal(m.local_id, 0);
	assert_int_equal(m.remote_id, 0xa6a74d3d);
	assert_int_equal(m.rej.reason, NIC_CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(m.rej.answered, CM_ANSWERS_REQ);

	m = captured(CAP_DREQ);
	assert_int_equal(m.dreq.remote_qpn, 0x66);

	m = captured(CAP_SIDR_REP);
	assert_int_equal(m.sidr_rep.request_id, 0xaaa74d3d);
	assert_int_equal(m.sidr_rep.status, CM_SIDR_OK);
	assert_int_equal(m.sidr_rep.qpn, 0x6b);
	assert_int_equal(m.sidr_rep.qkey, 0x01234567);
	assert_int_equal(m.sidr_rep.service_id, 0x0000000001111c06); /* UDP, port 7174 */
}

/* ---- times and names -------------------------------------------------------------------------------------------- */

static void cm_mad__time_codes_round_up(void **state)
{
	assert_int_equal(nic_timeout_ns(0), 4096);
	assert_int_equal(nic_timeout_ns(20), 4294967296); /* 4.3 s: the response timeout of Linux */
	for (unsigned code = 0; code < 32; code++) {
		assert_int_equal(cm_time_code(nic_timeout_ns(code)), code);
		assert_int_equal(cm_time_code(nic_timeout_ns(code) - 1), code);
		assert_int_equal(cm_time_code(nic_timeout_ns(code) + 1), code < 31 ? code + 1 : 31);
		assert_int_equal(nic_timeout_ns(code + 32), nic_timeout_ns(code));
	}
	assert_int_equal(cm_time_code(0), 0);
	assert_int_equal(cm_time_code(UINT64_MAX), 31);
}

static void cm_mad__attributes_reasons_and_statuses_have_names(void **state)
{
	assert_string_equal(cm_attr_name(CM_REQ), "REQ");
	assert_string_equal(cm_attr_name(CM_SIDR_REP), "SIDR_REP");
	assert_string_equal(cm_attr_name(CM_APR), "APR");
	assert_string_equal(cm_attr_name(CM_REQ - 1), "unknown");
	assert_string_equal(cm_attr_name(UINT32_MAX), "unknown");
	assert_string_equal(cm_reason_name(10), "stale connection");
	assert_string_equal(cm_reason_name(28), "consumer reject");
	assert_string_equal(cm_reason_name(0), "reserved reason");
	assert_string_equal(cm_reason_name(34), "reserved reason");
	assert_string_equal(cm_reason_name(UINT32_MAX), "reserved reason");
	assert_string_equal(cm_sidr_status_name(CM_SIDR_NO_QP), "no QP available");
	assert_string_equal(cm_sidr_status_name(CM_SIDR_UNSUPPORTED_VERSION + 1), "reserved status");
	assert_string_equal(cm_apr_status_name(CM_APR_INVALID_SL), "invalid SL");
	assert_string_equal(cm_apr_status_name(CM_APR_INVALID_SL + 1), "reserved status");
	assert_string_equal(cm_verdict_name(CM_MAD_OK), "ok");
	assert_string_equal(cm_verdict_name(CM_MAD_BAD_INFO), "bad_info");
	for (unsigned v = 0; v < CM_MAD_VERDICTS; v++)
		assert_non_null(cm_verdict_name(v));
	assert_string_equal(cm_verdict_name(CM_MAD_VERDICTS), "unknown");
	for (unsigned i = 0; i < 256; i++)
		assert_true(cm_sidr_status_name(i) && cm_apr_status_name(i));
}

static void cm_mad__describe_prints_a_message_on_one_line(void **state)
{
	struct cm_mad m = captured(CAP_REJ);
	char line[CM_LINE_MAX];
	size_t len;

	len = cm_mad_describe(&m, line, sizeof(line));
	assert_int_equal(len, strlen(line));
	assert_string_equal(line, "REJ remote_id=0xa6a74d3d reason=0x8 (invalid service ID)");
	m = captured(CAP_SIDR_REQ);
	cm_mad_describe(&m, line, sizeof(line));
	assert_string_equal(line, "SIDR_REQ request_id=0xaaa74d3d pkey=0xffff service_id=0x1111c06 private=36");
	/* A member that the MAD holds in several parts is printed once. */
	cm_clear(&m, CM_REP);
	m.rep.vendor_id = 0x0002c9;
	m.rep.srq = 1;
	cm_mad_describe(&m, line, sizeof(line));
	assert_string_equal(line, "REP vendor_id=0x2c9 srq=1");
	m = captured(CAP_REQ);
	len = cm_mad_describe(&m, line, sizeof(line));
	assert_int_equal(len, strlen(line));
	assert_non_null(strstr(line, " qpn=0x66 "));
	assert_non_null(strstr(line, " max_cm_retries=15 "));
	assert_non_null(strstr(line, " primary.local_gid=192.168.77.1 "));
	assert_null(strstr(line, "alternate"));
	/* With a shorter buffer, the line is cut at the end of the buffer. */
	for (size_t size = 1; size <= len + 1; size++) {
		char *cut = (char *)util_at_end(guard, (const uint8_t *)line, (unsigned)size);

		memset(cut, 'x', size);
		assert_int_equal(cm_mad_describe(&m, cut, size), size - 1);
		assert_memory_equal(cut, line, size - 1);
		assert_int_equal(cut[size - 1], 0);
	}
}

/** The line of any message fits into CM_LINE_MAX bytes. */
static void cm_mad__descriptions_fit_into_cm_line_max(void **state)
{
	uint8_t mad[CM_MAD_LEN];
	uint64_t seed = 10;
	char line[CM_LINE_MAX];
	struct cm_mad m;

	for (unsigned round = 0; round < 100; round++)
		for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
			cm_random(&seed, attr, mad);
			assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
			assert_in_range(cm_mad_describe(&m, line, sizeof(line)), 1, sizeof(line) - 2);
			assert_memory_equal(line, cm_attr_name(attr), strlen(cm_attr_name(attr)));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_mad__a_parsed_mad_builds_the_same_message),
		cmocka_unit_test(cm_mad__private_data_is_zero_padded_or_truncated),
		cmocka_unit_test(cm_mad__additional_information_survives_build_and_parse),
		cmocka_unit_test(cm_mad__CM_12_mads_must_have_256_bytes),
		cmocka_unit_test(cm_mad__CM_12_other_classes_versions_and_methods_are_refused),
		cmocka_unit_test(cm_mad__CM_12_other_attributes_are_refused),
		cmocka_unit_test(cm_mad__CM_12_reserved_values_are_refused),
		cmocka_unit_test(cm_mad__CM_12_reserved_bits_are_ignored),
		cmocka_unit_test(cm_mad__captured_mads_build_bit_for_bit),
		cmocka_unit_test(cm_mad__a_captured_req_parses_to_the_expected_fields),
		cmocka_unit_test(cm_mad__captured_replies_parse_to_the_expected_fields),
		cmocka_unit_test(cm_mad__time_codes_round_up),
		cmocka_unit_test(cm_mad__attributes_reasons_and_statuses_have_names),
		cmocka_unit_test(cm_mad__describe_prints_a_message_on_one_line),
		cmocka_unit_test(cm_mad__descriptions_fit_into_cm_line_max),
	};

	guard = util_guard_map();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
