/* SPDX-License-Identifier: BSD-3-Clause */
/* psn.h - 24-bit packet sequence numbers: serial arithmetic (IBTA 9.7.2). Includes nothing of ours. */
#ifndef NIC_PSN_H
#define NIC_PSN_H

#include <stdint.h>

#define PSN_MASK       0xffffffu
#define PSN_WINDOW_MAX (1u << 23) /* max outstanding PSNs; with more, a new PSN would look like a duplicate */

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/**
 * How far `a` is ahead of `b`: -2^23 .. 2^23-1. A distance of exactly 2^23 counts as behind, so that a responder
 * treats a packet at that distance as a duplicate (RP-08).
 */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) / 256;
}

#endif
