/* SPDX-License-Identifier: BSD-3-Clause */
/* mtu.h - path MTUs, and how many packets a message takes. Private to nic/. */
#ifndef NIC_MTU_H
#define NIC_MTU_H

#include <stdint.h>

#include "nic_types.h"

static inline uint32_t mtu_bytes(enum nic_mtu mtu)
{
	return 128u << mtu;
}

/* log2 of a path MTU in bytes, which is a power of two. */
static inline uint32_t pmtu_shift(uint32_t pmtu)
{
	return (uint32_t)__builtin_ctz(pmtu);
}

static inline uint32_t packets_of(uint64_t length, uint32_t pmtu)
{
	return length ? (uint32_t)((length + pmtu - 1) >> pmtu_shift(pmtu)) : 1;
}

#endif
