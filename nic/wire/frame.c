/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.c - makes complete IP packets from frames, for captures and for planted faults that damage packets.
 *
 * Carriers may remove IP and UDP headers, hide the IPv4 ID and leave out the ICRC. This file restores all of that,
 * because programs that read captures expect valid packets. Nothing here is on the data path. packet_parse, not this
 * file, decides whether a packet is valid. Stateless.
 */
#include "gid.h"
#include "icrc.h"
#include "nic.h"
#include "wire.h"

#define CARRIER_MAX (IPV6_LEN + UDP_LEN)

static uint16_t csum_bytes(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i + 1 < len; i += 2)
		sum += wire_get16(p + i);
	if (len & 1)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/** Offset of the BTH in an IP packet; 0: not RoCEv2, or too short for BTH and ICRC. */
static uint32_t bth_offset(const uint8_t *ip, uint32_t len)
{
	uint32_t carrier;

	if (len == 0 || (ip[0] != IPV4_VERSION && ip[0] >> 4 != IPV6_VERSION))
		return 0;
	carrier = (ip[0] == IPV4_VERSION ? IPV4_LEN : IPV6_LEN) + UDP_LEN;
	if (len < carrier + BTH_LEN + ICRC_LEN)
		return 0;
	if (ip[ip[0] == IPV4_VERSION ? IPV4_PROTO : IPV6_NEXT] != IP_PROTO_UDP ||
	    wire_get16(ip + carrier - UDP_LEN + UDP_DPORT) != NIC_UDP_PORT)
		return 0;
	return carrier;
}

/** The ICRC of a packet whose BTH is at offset `carrier`. */
static uint32_t icrc_of(const uint8_t *ip, uint32_t len, uint32_t carrier)
{
	uint8_t masked[CARRIER_MAX + BTH_LEN];

	memcpy(masked, ip, carrier + BTH_LEN);
	if (carrier == IPV4_LEN + UDP_LEN) {
		masked[IPV4_TOS] = masked[IPV4_TTL] = 0xff;
		wire_put16(masked + IPV4_CSUM, 0xffff);
	} else {
		wire_put32(masked, (uint32_t)IPV6_VERSION << 28 | 0xfffffffu);
		masked[IPV6_HOPS] = 0xff;
	}
	wire_put16(masked + carrier - UDP_LEN + UDP_CSUM, 0xffff);
	masked[carrier + BTH_ECN] = 0xff;
	return icrc_update(icrc_update(ICRC_START, masked, carrier + BTH_LEN), ip + carrier + BTH_LEN,
			   len - carrier - BTH_LEN - ICRC_LEN);
}

uint32_t nic_frame_bth(const struct nic_rx_frame *frame)
{
	uint32_t carrier = 0;

	if (!(frame->flags & NIC_RX_UDP_PAYLOAD))
		carrier = bth_offset(frame->data, frame->len);
	return carrier || frame->flags & NIC_RX_UDP_PAYLOAD ? carrier : frame->len;
}

uint32_t nic_frame_qpn(const struct nic_rx_frame *frame)
{
	uint32_t bth = nic_frame_bth(frame);

	return frame->len - bth >= BTH_LEN ? wire_get24(frame->data + bth + BTH_QPN) : 0;
}

bool nic_frame_icrc_set(uint8_t *ip, uint32_t len)
{
	uint32_t carrier = bth_offset(ip, len);

	if (carrier == 0)
		return false;
	wire_put32le(ip + len - ICRC_LEN, icrc_of(ip, len, carrier));
	return true;
}

static void ipv4_checksum(uint8_t *ip)
{
	wire_put16(ip + IPV4_CSUM, 0);
	wire_put16(ip + IPV4_CSUM, (uint16_t)~csum_bytes(ip, IPV4_LEN, 0));
}

/** Write IP and UDP headers for the frame's UDP payload. @return their length. */
static uint32_t put_carrier(const struct nic_rx_frame *frame, bool v4, uint8_t *ip)
{
	uint32_t udp_len = UDP_LEN + frame->len;
	uint8_t *udp = ip + (v4 ? IPV4_LEN : IPV6_LEN);

	if (v4) {
		wire_put32(ip, (uint32_t)IPV4_VERSION << 24 | (uint32_t)frame->tclass << 16 | (IPV4_LEN + udp_len));
		wire_put32(ip + IPV4_ID, IPV4_FRAG_DF);
		wire_put32(ip + IPV4_TTL, (uint32_t)frame->hop_limit << 24 | IP_PROTO_UDP << 16);
		memcpy(ip + IPV4_SADDR, frame->sgid.raw + 12, 4);
		memcpy(ip + IPV4_DADDR, frame->dgid.raw + 12, 4);
		ipv4_checksum(ip);
	} else {
		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | (uint32_t)frame->tclass << 20);
		wire_put32(ip + IPV6_PLEN, udp_len << 16 | IP_PROTO_UDP << 8 | frame->hop_limit);
		memcpy(ip + IPV6_SADDR, frame->sgid.raw, 16);
		memcpy(ip + IPV6_DADDR, frame->dgid.raw, 16);
	}
	wire_put16(udp + UDP_SPORT, frame->udp_sport);
	wire_put16(udp + UDP_DPORT, NIC_UDP_PORT);
	wire_put16(udp + UDP_LENGTH, (uint16_t)udp_len);
	wire_put16(udp + UDP_CSUM, 0);
	return (uint32_t)(udp - ip) + UDP_LEN;
}

/** Restore the IPv4 ID that the ICRC was computed with. */
static void recover_ip_id(uint8_t *ip, uint32_t len)
{
	uint32_t carrier = bth_offset(ip, len), difference;
	uint16_t id;

	if (carrier != IPV4_LEN + UDP_LEN || len >= 8192)
		return;
	if ((ip[carrier + BTH_FLAGS] & BTH_TVER_MASK) == BTH_TVER_KEYED)
		return; /* the packet ends with a tag, not with an ICRC */
	difference = icrc_of(ip, len, carrier) ^ wire_get32le(ip + len - ICRC_LEN);
	if (difference == 0 || !icrc_find_ip_id(difference, len, &id))
		return;
	wire_put16(ip + IPV4_ID, id);
	ipv4_checksum(ip);
}

/** Replace a UDP checksum of zero ("none") by the real one: over IPv6, not every reader accepts zero. */
static void ipv6_udp_checksum(uint8_t *ip, uint32_t len)
{
	uint8_t *udp = ip + IPV6_LEN;
	uint32_t udp_len = len - IPV6_LEN;
	uint16_t sum;

	if (wire_get16(udp + UDP_CSUM) != 0)
		return;
	sum = (uint16_t)~csum_bytes(udp, udp_len, csum_bytes(ip + IPV6_SADDR, 32, IP_PROTO_UDP + udp_len));
	wire_put16(udp + UDP_CSUM, sum ? sum : 0xffff);
}

/** Length of an IP packet without Ethernet padding. */
static uint32_t ip_len(const uint8_t *ip, uint32_t len)
{
	uint32_t total = len;

	if (len >= IPV4_LEN && ip[0] == IPV4_VERSION)
		total = wire_get16(ip + IPV4_TOTAL);
	else if (len >= IPV6_LEN && ip[0] >> 4 == IPV6_VERSION)
		total = IPV6_LEN + wire_get16(ip + IPV6_PLEN);
	return total < len && total >= IPV4_LEN ? total : len;
}

static void frame_copy(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t len)
{
	uint32_t headers = frame->body && len > NIC_HEADERS_MAX ? NIC_HEADERS_MAX : len;

	memcpy(buf, frame->data, headers);
	if (len > headers)
		memcpy(buf + headers, frame->body + headers, len - headers);
}

void nic_frame_copy(const struct nic_rx_frame *frame, uint8_t *buf)
{
	frame_copy(frame, buf, frame->len);
}

uint32_t nic_frame_ip(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t size)
{
	bool v4 = gid_is_v4(&frame->sgid);
	uint32_t carrier = frame->flags & NIC_RX_UDP_PAYLOAD ? (v4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN : 0;
	uint32_t len = carrier ? carrier + frame->len : ip_len(frame->data, frame->len);

	/* The length fields of IP and UDP have 16 bits. */
	if (len > size || len > UINT16_MAX)
		return 0;
	if (carrier)
		put_carrier(frame, v4, buf);
	frame_copy(frame, buf + carrier, len - carrier);
	if (frame->flags & NIC_RX_NO_ICRC)
		nic_frame_icrc_set(buf, len);
	else if (frame->flags & NIC_RX_IP_ID_UNKNOWN)
		recover_ip_id(buf, len);
	if (bth_offset(buf, len) == IPV6_LEN + UDP_LEN)
		ipv6_udp_checksum(buf, len);
	return len;
}
