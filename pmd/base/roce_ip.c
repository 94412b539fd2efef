/* SPDX-License-Identifier: BSD-3-Clause */
/* roce_ip.c - reads the IP and UDP headers of RoCEv2 packets. Owns nothing. */
#include <string.h>

#include "roce_ip.h"

#define IPV4_LEN 20u /* RoCEv2 has no IPv4 options (A17.4.5.1) */
#define IPV6_LEN 40u
#define UDP_LEN	 8u
#define PROTOCOL 17u /* UDP */
#define LEAST	 16u /* BTH and ICRC */

uint32_t pmd_roce_payload(const uint8_t *ip, uint32_t len)
{
	uint32_t udp;

	if (len < IPV4_LEN + UDP_LEN + LEAST)
		return 0;
	if (ip[0] == 0x45) {
		udp = IPV4_LEN;
		if (ip[9] != PROTOCOL || (pmd_be16(ip + 6) & 0x3fff) != 0 || pmd_be16(ip + 2) > len ||
		    pmd_be16(ip + 2) < udp + UDP_LEN + LEAST)
			return 0;
		len = pmd_be16(ip + 2);
	} else if (ip[0] >> 4 == 6 && len >= IPV6_LEN + UDP_LEN + LEAST) {
		udp = IPV6_LEN;
		if (ip[6] != PROTOCOL || udp + pmd_be16(ip + 4) > len || pmd_be16(ip + 4) < UDP_LEN + LEAST)
			return 0;
		len = udp + pmd_be16(ip + 4);
	} else {
		return 0;
	}
	if (pmd_be16(ip + udp + 2) != NIC_UDP_PORT || udp + pmd_be16(ip + udp + 4) != len)
		return 0;
	return udp + UDP_LEN;
}

static void gid_v4(const uint8_t *address, struct nic_gid *out)
{
	*out = (struct nic_gid){.raw = {[10] = 0xff, [11] = 0xff}};
	memcpy(out->raw + 12, address, 4);
}

void pmd_roce_addresses(const uint8_t *ip, struct nic_gid *source, struct nic_gid *destination)
{
	if (ip[0] >> 4 == 4) {
		gid_v4(ip + 12, source);
		gid_v4(ip + 16, destination);
	} else {
		memcpy(source->raw, ip + 8, 16);
		memcpy(destination->raw, ip + 24, 16);
	}
}
