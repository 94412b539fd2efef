/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_cm_mad.c - libFuzzer target: cm_mad_parse and nic_cm_ip_parse get arbitrary bytes. If they accept the bytes, the
 * result is built and parsed again, and must be the same. If they refuse the bytes, the result must be all zeroes.
 *
 * The first byte of an input selects how the other bytes are used: with MODE_FIX they are extended to the length of a
 * MAD and get a valid header.
 */
#include "fuzz_check.h"
#include "nic_cm_ip.h"
#include "cm_mad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODE_FIX = 1 };

static bool is_zeroes(const void *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)p)[i] != 0)
			return false;
	return true;
}

/** Write the header values that a fuzzer could hardly guess. */
static void fix(uint8_t mad[CM_MAD_LEN])
{
	static const uint8_t header[] = {1, 7, 2, 3};

	memcpy(mad, header, sizeof(header));
	mad[16] = 0;
	mad[17] = (uint8_t)(CM_REQ + mad[17] % (CM_APR - CM_REQ + 1));
}

/** Whether two parsed messages have the same content. */
static bool same(const struct cm_mad *a, const struct cm_mad *b)
{
	struct cm_mad x, y;

	memcpy(&x, a, sizeof(x)); /* unlike an assignment, memcpy copies padding bytes, which memcmp compares below */
	memcpy(&y, b, sizeof(y));
	if (x.info_len != y.info_len || (x.info_len > 0 && memcmp(x.info, y.info, x.info_len) != 0) ||
	    x.data_len != y.data_len || memcmp(x.data, y.data, x.data_len) != 0)
		return false;
	x.info = y.info = x.data = y.data = NULL;
	return memcmp(&x, &y, sizeof(x)) == 0;
}

static void check_ip(const uint8_t *data, size_t len)
{
	uint8_t built[NIC_CM_IP_LEN];
	struct nic_cm_ip ip, again;

	if (nic_cm_ip_parse(data, len, &ip) != NIC_CM_IP_OK) {
		CHECK(is_zeroes(&ip, sizeof(ip)));
		return;
	}
	nic_cm_ip_build(&ip, built);
	CHECK(nic_cm_ip_parse(built, NIC_CM_IP_LEN, &again) == NIC_CM_IP_OK);
	CHECK(memcmp(&ip, &again, sizeof(ip)) == 0);
}

static void check_mad(const uint8_t *mad, size_t len)
{
	uint8_t one[CM_MAD_LEN], two[CM_MAD_LEN];
	struct cm_mad m, again;
	size_t line_len;
	char line[CM_LINE_MAX];

	if (cm_mad_parse(mad, len, &m) != CM_MAD_OK) {
		CHECK(is_zeroes(&m, sizeof(m)));
		return;
	}
	CHECK(len == CM_MAD_LEN);
	CHECK(m.data_len == cm_mad_room(m.attr) && m.data + m.data_len == mad + len);
	CHECK(m.info_len <= CM_INFO_LEN && (!m.info || m.info + CM_INFO_LEN <= m.data));
	cm_mad_build(&m, one);
	CHECK(cm_mad_parse(one, sizeof(one), &again) == CM_MAD_OK);
	CHECK(same(&m, &again));
	cm_mad_build(&again, two);
	CHECK(memcmp(one, two, sizeof(one)) == 0);
	line_len = cm_mad_describe(&m, line, sizeof(line));
	CHECK(line_len == strlen(line) && line_len < sizeof(line) - 1);
	check_ip(m.data, m.data_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[CM_MAD_LEN] = {0};
	uint8_t *exact;

	if (size == 0)
		return 0;
	size--;
	if (data[0] & MODE_FIX) {
		memcpy(fixed, data + 1, size < sizeof(fixed) ? size : sizeof(fixed));
		fix(fixed);
		check_mad(fixed, sizeof(fixed));
		return 0;
	}
	exact = malloc(size + 1); /* exactly as long as the input, so that reads past the end are detected */
	if (!exact)
		return 0;
	memcpy(exact + 1, data + 1, size);
	check_mad(exact + 1, size);
	check_ip(exact + 1, size);
	free(exact);
	return 0;
}
