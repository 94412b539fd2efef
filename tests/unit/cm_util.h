/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_util.h - captured and random MADs of the connection manager, for tests. Include cmocka.h first. */
#ifndef UNIT_CM_UTIL_H
#define UNIT_CM_UTIL_H

#include "cm_mad.h"
#include "wire_util.h"

/* MADs captured from Linux (rping, udaddy, a REQ for a service without a listener), without their trailing zeroes. */
static const char *const cm_captured[] = {
	/* REQ */
	"0107020300000000000000023d4da7af0010000000000000afa74d3d000000000000000001061c06505400fffe770001"
	"00000000000000000000660100000001000000a0e79133a7ffff37f0ffffffff00000000000000000000ffffc0a84d01"
	"00000000000000000000ffffc0a84d021c77b00000400098000000000000000000000000000000000000000000000000"
	"0000000000000000000000000000000000000000004091eb000000000000000000000000c0a84d010000000000000000"
	"00000000c0a84d02",
	/* REP */
	"0107020300000000000000023d4da7af001300000000000067b22884afa74d3d0000000000006600000000008ae29100"
	"010178e0505400fffe770002",
	/* RTU */
	"0107020300000000000000023d4da7af0014000000000000afa74d3d67b22884",
	/* REJ: invalid service ID */
	"0107020300000000000000023d4da7a6001200000000000000000000a6a74d3d00000008",
	/* DREQ */
	"0107020300000000000000023d4da7af0015000000000000afa74d3d67b22884000066",
	/* DREP */
	"0107020300000000000000023d4da7af001600000000000067b22884afa74d3d",
	/* SIDR_REQ */
	"0107020300000000000000023d4da7aa0017000000000000aaa74d3dffff00000000000001111c0600408c0d00000000"
	"0000000000000000c0a84d01000000000000000000000000c0a84d02",
	/* SIDR_REP */
	"0107020300000000000000023d4da7aa0018000000000000aaa74d3d0000000000006b000000000001111c0601234567",
};
enum { CAP_REQ, CAP_REP, CAP_RTU, CAP_REJ, CAP_DREQ, CAP_DREP, CAP_SIDR_REQ, CAP_SIDR_REP, CAP_COUNT };
_Static_assert(sizeof(cm_captured) / sizeof(cm_captured[0]) == CAP_COUNT, "one name each");

static inline void cm_captured_get(unsigned i, uint8_t mad[CM_MAD_LEN])
{
	memset(mad, 0, CM_MAD_LEN);
	util_unhex(cm_captured[i], mad);
}

/** Set *m to a message with this attribute ID and all other fields 0, padding included. */
static inline void cm_clear(struct cm_mad *m, uint32_t attr)
{
	memset(m, 0, sizeof(*m));
	m->attr = attr;
}

static inline void assert_zeroes(const void *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(((const uint8_t *)p)[i], 0);
}

/** Fill in a MAD with random bytes, but with a valid header, and with valid values where others would be refused. */
static inline void cm_random(uint64_t *seed, uint32_t attr, uint8_t mad[CM_MAD_LEN])
{
	static const uint8_t header[] = {1, 7, 2, 3};
	uint8_t *body = mad + CM_MAD_HEADER_LEN;

	for (unsigned i = 0; i < CM_MAD_LEN; i++)
		mad[i] = (uint8_t)(util_random(seed) >> 32);
	memcpy(mad, header, sizeof(header));
	mad[16] = 0;
	mad[17] = (uint8_t)attr;
	if ((attr == CM_MRA || attr == CM_REJ) && body[8] >> 6 == 3)
		body[8] &= 0x7f;
	if (attr == CM_REJ)
		body[9] = (uint8_t)(body[9] / 2 % (CM_INFO_LEN + 1) << 1 | (body[9] & 1));
	if (attr == CM_APR)
		body[8] %= CM_INFO_LEN + 1;
	if (attr == CM_SIDR_REP)
		body[5] %= CM_INFO_LEN + 1;
}

#endif
