/* SPDX-License-Identifier: BSD-3-Clause */
/* roce_ip.h - the IP and UDP headers of a RoCEv2 packet, as far as the switch of an uplink looks at them
 * (pmd-internal). The ICRC, and all after the UDP header, are for the NIC to check. */
#ifndef PMD_ROCE_IP_H
#define PMD_ROCE_IP_H

#include "address.h"

/** Find the UDP payload: BTH, ..., ICRC. @return its offset; 0: not one whole UDP datagram to the RoCE port. */
uint32_t pmd_roce_payload(const uint8_t *ip, uint32_t len);

/** Read the addresses of a packet for which pmd_roce_payload did not return 0. */
void pmd_roce_addresses(const uint8_t *ip, struct nic_gid *source, struct nic_gid *destination);

static inline uint32_t pmd_be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t pmd_be32(const uint8_t *p)
{
	return pmd_be16(p) << 16 | pmd_be16(p + 2);
}

#endif
