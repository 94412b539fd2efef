/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_types.h - the NIC's objects, addresses, and packet and message sizes; see nic.h. */
#ifndef NIC_NIC_TYPES_H
#define NIC_NIC_TYPES_H

#include <stdint.h>

struct nic;
struct nic_pd;
struct nic_mr;
struct nic_mw;
struct nic_ah;
struct nic_cq;
struct nic_srq;
struct nic_xrcd;
struct nic_qp;

/** A GID: an IPv6 address, or an IPv4 address mapped as ::ffff:a.b.c.d (RoCEv2, IBTA annex A17). */
struct nic_gid {
	uint8_t raw[16];
};

enum nic_mtu { NIC_MTU_256 = 1, NIC_MTU_512, NIC_MTU_1024, NIC_MTU_2048, NIC_MTU_4096 };

#define NIC_UDP_PORT 4791 /* destination port of every RoCEv2 packet */

/** At least the largest IP packet that the NIC sends or accepts: IPv6 + UDP + longest header chain + 4096 B + ICRC or
 * tag. */
#define NIC_FRAME_MAX 4224

/** Largest payload of a packet. */
#define NIC_PAYLOAD_MAX 4096

/** At least IPv6 + UDP + the longest header chain: beyond this offset an IP packet holds only payload, pad,
 * and ICRC or tag. */
#define NIC_HEADERS_MAX 112

/** Largest message, bytes (IBTA C9-94). */
#define NIC_MSG_MAX 0x80000000u

#define NIC_GID_TABLE_LEN 16

#define NIC_KEY_LEN 16 /* bytes of a packet authentication key */

/** The time in ns, 4.096 us * 2^exponent, that a packet or a verbs attribute encodes as `exponent` (local ACK timeouts,
 *  IBTA 9.7.6.1.3; times of the connection manager, 12.7). Only the low 5 bits count. */
static inline uint64_t nic_timeout_ns(uint32_t exponent)
{
	return UINT64_C(4096) << (exponent & 31);
}

#endif
