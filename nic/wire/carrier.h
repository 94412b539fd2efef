/* SPDX-License-Identifier: BSD-3-Clause */
/* carrier.h - writing IP and UDP headers, and masking them for the ICRC. Private to packet.c and packet_build.c. */
#ifndef NIC_CARRIER_H
#define NIC_CARRIER_H

#include <string.h>

#include "packet.h"
#include "wire.h"

/* A received packet with at most this many bytes between BTH and ICRC is copied behind its masked headers: that beats a
 * second CRC call. A packet to be sent with at most this much payload gets its ICRC in one call at the end. */
#define CRC_COPY_MAX 256

/** Fold a sum of up to 65536 32-bit words to the one's complement sum of their 16-bit words. */
static inline uint16_t csum_fold(uint64_t sum)
{
	uint32_t folded = (uint32_t)((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32));

	folded = (folded & 0xffff) + (folded >> 16);
	return (uint16_t)(folded + (folded >> 16));
}

/** Compute the IPv4 header checksum from the fields of *p. Summing the header, which was just written, would stall on
 * store forwarding. */
static inline uint16_t ipv4_csum(const struct packet *p, uint32_t total)
{
	uint32_t words = ((uint32_t)IPV4_VERSION << 8 | p->tclass) + total + p->ip_id + p->ip_frag +
			 ((uint32_t)p->hop_limit << 8 | IP_PROTO_UDP);

	return (uint16_t)~csum_fold((uint64_t)wire_get32(p->sgid.raw + 12) + wire_get32(p->dgid.raw + 12) + words);
}

/** Write IP and UDP headers; if `masked`, with ones in the fields that the ICRC masks. @return offset of the BTH. */
static inline unsigned put_carrier(const struct packet *p, uint8_t *ip, unsigned udp_payload, bool masked)
{
	unsigned udp_len = UDP_LEN + udp_payload;
	uint8_t *udp;

	if (p->v4) {
		unsigned total = IPV4_LEN + udp_len;
		uint8_t tclass = masked ? 0xff : p->tclass, hops = masked ? 0xff : p->hop_limit;
		uint16_t csum = masked ? 0xffff : ipv4_csum(p, total);

		wire_put32(ip, (uint32_t)IPV4_VERSION << 24 | (uint32_t)tclass << 16 | total);
		wire_put32(ip + IPV4_ID, (uint32_t)p->ip_id << 16 | p->ip_frag);
		wire_put32(ip + IPV4_TTL, (uint32_t)hops << 24 | IP_PROTO_UDP << 16 | csum);
		memcpy(ip + IPV4_SADDR, p->sgid.raw + 12, 4);
		memcpy(ip + IPV4_DADDR, p->dgid.raw + 12, 4);
		udp = ip + IPV4_LEN;
	} else {
		uint32_t class_label = masked ? 0xfffffffu : (uint32_t)p->tclass << 20 | p->flow_label;

		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | class_label);
		wire_put32(ip + IPV6_PLEN, udp_len << 16 | IP_PROTO_UDP << 8 | (masked ? 0xff : p->hop_limit));
		memcpy(ip + IPV6_SADDR, p->sgid.raw, 16);
		memcpy(ip + IPV6_DADDR, p->dgid.raw, 16);
		udp = ip + IPV6_LEN;
	}
	wire_put32(udp, (uint32_t)p->udp_sport << 16 | NIC_UDP_PORT);
	wire_put32(udp + UDP_LENGTH, udp_len << 16 | (masked ? 0xffff : p->udp_csum));
	return (unsigned)(udp - ip) + UDP_LEN;
}

/** Set the masked fields of a copied IP and UDP header to ones. */
static inline void mask_carrier(uint8_t *ip, bool v4)
{
	if (v4) {
		ip[IPV4_TOS] = 0xff;
		ip[IPV4_TTL] = 0xff;
		wire_put16(ip + IPV4_CSUM, 0xffff);
		wire_put16(ip + IPV4_LEN + UDP_CSUM, 0xffff);
	} else {
		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | 0xfffffffu);
		ip[IPV6_HOPS] = 0xff;
		wire_put16(ip + IPV6_LEN + UDP_CSUM, 0xffff);
	}
}

/** Fill the IPv4 ID and fragment field with ones. An authentication tag (keyed.md) must not cover these two fields,
 *  because a UDP socket hides the ID, and firewalls clear DF. The ICRC does cover them. */
static inline void mask_fragmentation(uint8_t *ip, bool v4)
{
	if (v4)
		wire_put32(ip + IPV4_ID, 0xffffffffu);
}

/** Restore the fields that put_carrier masked. */
static inline void unmask_carrier(const struct packet *p, uint8_t *ip)
{
	if (p->v4) {
		ip[IPV4_TOS] = p->tclass;
		ip[IPV4_TTL] = p->hop_limit;
		wire_put16(ip + IPV4_CSUM, ipv4_csum(p, wire_get16(ip + IPV4_TOTAL)));
		wire_put16(ip + IPV4_LEN + UDP_CSUM, p->udp_csum);
	} else {
		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | (uint32_t)p->tclass << 20 | p->flow_label);
		ip[IPV6_HOPS] = p->hop_limit;
		wire_put16(ip + IPV6_LEN + UDP_CSUM, p->udp_csum);
	}
}

#endif
