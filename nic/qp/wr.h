/* SPDX-License-Identifier: BSD-3-Clause */
/* wr.h - kinds of work requests. Private to nic/. */
#ifndef NIC_WR_H
#define NIC_WR_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_wr.h"

static inline bool wr_is_masked(uint32_t opcode)
{
	return opcode == NIC_WR_MASKED_CMP_AND_SWP || opcode == NIC_WR_MASKED_FETCH_AND_ADD;
}

static inline bool wr_is_elements(uint32_t opcode)
{
	return opcode == NIC_WR_ELEMENTS || opcode == NIC_WR_FETCH_ELEMENTS;
}

/** The request controls or waits for another queue (cross.c). */
static inline bool wr_is_cross(uint32_t opcode)
{
	return opcode >= NIC_WR_SEND_ENABLE && opcode <= NIC_WR_CQE_WAIT;
}

/** Executed by the requester alone, without a packet. `opcode` must be a valid one. */
static inline bool wr_is_local(uint32_t opcode)
{
	const uint32_t below_32 = 1u << NIC_WR_LOCAL_INV | 1u << NIC_WR_BIND_MW;
	const uint32_t from_96 = 1u << (NIC_WR_SEND_ENABLE - 96) | 1u << (NIC_WR_RECV_ENABLE - 96) |
				 1u << (NIC_WR_CQE_WAIT - 96) | 1u << (NIC_WR_NOP - 96);

	return (opcode < 32 ? below_32 : from_96) >> (opcode & 31) & 1;
}

/** Answered with the original value. */
static inline bool wr_is_atomic(uint32_t opcode)
{
	return opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD || wr_is_masked(opcode) ||
	       opcode == NIC_WR_FETCH_ELEMENTS;
}

#endif
