/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_packet_parse.c - libFuzzer target: arbitrary bytes for packet_parse. A packet that it accepts must lie inside
 * the frame, and packet_encode must produce the same bytes again.
 *
 * The first byte of an input selects how the other bytes are used (enum mode). Since a fuzzer cannot guess checksums,
 * modes replace the guess: MODE_FIX corrects lengths, IPv4 checksum and ICRC before parsing, MODE_NO_ICRC skips the
 * ICRC. With MODE_KEYED the receiver has a security key, and MODE_FIX corrects the tag that replaces the ICRC.
 */
#include "fuzz_check.h"
#include "packet.h"
#include "wire.h"
#include "wire_util.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum mode {
	MODE_UDP = 1,	     /* the input is a UDP payload; without this flag an IP packet */
	MODE_ID_UNKNOWN = 2, /* only with MODE_UDP: the IP ID is unknown */
	MODE_NO_ICRC = 4,
	MODE_FIX = 8,
	MODE_V6 = 16, /* only with MODE_UDP: the addresses are IPv6 */
	MODE_KEYED = 32,
	MODE_NO_KEY = 64, /* only with MODE_KEYED: an ICRC replaces the tag, because the carrier is trusted */
};

static const uint8_t v4_gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 77, 1};

static struct nic_rx_frame frame_from(const uint8_t *bytes, unsigned len, unsigned mode)
{
	struct nic_rx_frame frame = {.data = bytes, .len = len};

	if (mode & MODE_NO_ICRC)
		frame.flags |= NIC_RX_NO_ICRC;
	if (mode & MODE_NO_KEY)
		frame.flags |= NIC_RX_NO_KEY;
	if (!(mode & MODE_UDP))
		return frame;
	frame.flags |= NIC_RX_UDP_PAYLOAD;
	if (mode & MODE_ID_UNKNOWN)
		frame.flags |= NIC_RX_IP_ID_UNKNOWN;
	memcpy(frame.sgid.raw, v4_gid, 16);
	memcpy(frame.dgid.raw, v4_gid, 16);
	frame.dgid.raw[15] = 2;
	if (mode & MODE_V6)
		frame.sgid.raw[0] = frame.dgid.raw[0] = 0xfd;
	frame.udp_sport = 0xc123;
	frame.hop_limit = 64;
	return frame;
}

/** Write IP and UDP headers from the frame's fields, and an IP ID, which the frame does not contain. */
static unsigned carrier_write(const struct nic_rx_frame *frame, unsigned mode, uint8_t *ip)
{
	unsigned udp = mode & MODE_V6 ? IPV6_LEN : IPV4_LEN;

	memset(ip, 0, udp + UDP_LEN);
	if (mode & MODE_V6) {
		ip[0] = IPV6_VERSION << 4;
		ip[IPV6_NEXT] = IP_PROTO_UDP;
		ip[IPV6_HOPS] = frame->hop_limit;
		memcpy(ip + IPV6_SADDR, frame->sgid.raw, 16);
		memcpy(ip + IPV6_DADDR, frame->dgid.raw, 16);
	} else {
		ip[0] = IPV4_VERSION;
		if (mode & MODE_ID_UNKNOWN)
			wire_put16(ip + IPV4_ID, 0x1234);
		wire_put16(ip + IPV4_FRAG, IPV4_FRAG_DF);
		ip[IPV4_TTL] = frame->hop_limit;
		ip[IPV4_PROTO] = IP_PROTO_UDP;
		memcpy(ip + IPV4_SADDR, frame->sgid.raw + 12, 4);
		memcpy(ip + IPV4_DADDR, frame->dgid.raw + 12, 4);
	}
	wire_put16(ip + udp + UDP_SPORT, frame->udp_sport);
	wire_put16(ip + udp + UDP_DPORT, NIC_UDP_PORT);
	return udp + UDP_LEN;
}

static struct keyed key;

/** Write the tag of an IP packet of len bytes. The code that masks the variant fields is independent of the NIC's. */
static void put_tag(uint8_t *ip, unsigned len)
{
	static uint8_t copy[65536];
	bool v4 = ip[0] == IPV4_VERSION;
	unsigned udp = v4 ? IPV4_LEN : IPV6_LEN;

	if (len < udp + UDP_LEN + BTH_LEN + KEYED_TAG_LEN)
		return;
	ip[udp + UDP_LEN + BTH_FLAGS] |= BTH_TVER_KEYED;
	memcpy(copy, ip, len);
	if (v4) {
		copy[IPV4_TOS] = copy[IPV4_TTL] = copy[IPV4_CSUM] = copy[IPV4_CSUM + 1] = 0xff;
		memset(copy + IPV4_ID, 0xff, 4);
	} else {
		copy[0] = 0x6f;
		memset(copy + 1, 0xff, 3);
		copy[IPV6_HOPS] = 0xff;
	}
	copy[udp + UDP_CSUM] = copy[udp + UDP_CSUM + 1] = copy[udp + UDP_LEN + BTH_ECN] = 0xff;
	keyed_tag(&key, copy, len - KEYED_TAG_LEN, ip + len - KEYED_TAG_LEN);
}

/** Correct an IP packet's lengths, checksum, and ICRC or tag. */
static void fix_ip(uint8_t *ip, unsigned len, unsigned mode)
{
	util_fix(ip, len);
	if (mode & MODE_KEYED)
		put_tag(ip, len);
}

/** Correct in place the bytes that a fuzzer cannot guess. */
static void fix(uint8_t *bytes, unsigned len, unsigned mode)
{
	static uint8_t whole[65536];
	struct nic_rx_frame frame = frame_from(bytes, len, mode);

	if (mode & MODE_UDP) {
		unsigned bth = carrier_write(&frame, mode, whole);

		if (len < BTH_LEN + ICRC_LEN)
			return;
		memcpy(whole + bth, bytes, len);
		fix_ip(whole, bth + len, mode);
		memcpy(bytes, whole + bth, len);
	} else if (len >= IPV6_LEN + UDP_LEN && (bytes[0] == IPV4_VERSION || bytes[0] >> 4 == IPV6_VERSION)) {
		fix_ip(bytes, len, mode);
	}
}

/** Clear the bytes that packet_encode does not preserve: padding, and reserved bytes of extension headers. */
static void clear_reserved(uint8_t *bth, const struct packet *p)
{
	if (op_has(p->op, HDR_XRCETH))
		bth[BTH_LEN] = 0;
	if (op_has(p->op, HDR_DETH))
		bth[BTH_LEN + DETH_SRC_QPN - 1] = 0;
	if (op_has(p->op, HDR_CNP))
		memset(bth + BTH_LEN, 0, CNP_LEN);
	if (op_has(p->op, HDR_EXTATOMIC))
		memset(bth + BTH_LEN + EXTATOMICETH_LOG_SIZE + 1, 0, 3);
	if (op_has(p->op, HDR_ELEMENT))
		bth[BTH_LEN + ELEMENTETH_FLAGS + 1] = 0;
	memset(bth + p->op->hdr_len + p->payload_len, 0, p->pad);
}

static void check_accepted(const struct nic_rx_frame *frame, const struct packet *p)
{
	static uint8_t encoded[NIC_FRAME_MAX], expected[NIC_FRAME_MAX];
	const uint8_t *bth = p->payload - p->op->hdr_len;
	unsigned carrier = p->v4 ? IPV4_LEN + UDP_LEN : IPV6_LEN + UDP_LEN;
	unsigned udp_payload = p->op->hdr_len + p->payload_len + p->pad + (p->key ? KEYED_TAG_LEN : ICRC_LEN);
	struct nic_rx_frame again = {.data = encoded};
	struct packet q;

	CHECK(p->op == op_get(*bth));
	CHECK(bth >= frame->data && bth + udp_payload <= frame->data + frame->len);
	CHECK(p->payload_len <= 4096 && p->pad <= 3 && (p->payload_len + p->pad) % 4 == 0);
	CHECK(p->psn <= 0xffffff && p->dest_qpn <= 0xffffff);
	CHECK(p->ip == (frame->flags & NIC_RX_UDP_PAYLOAD ? NULL : frame->data));
	if (p->ip)
		CHECK(bth == p->ip + carrier);
	else
		CHECK(bth == frame->data && udp_payload == frame->len);

	again.len = packet_encode(p, encoded);
	CHECK(again.len == carrier + udp_payload);
	memcpy(expected, p->ip ? p->ip : encoded, carrier);
	memcpy(expected + carrier, bth, udp_payload);
	clear_reserved(expected + carrier, p);
	fix_ip(expected, again.len, p->key ? MODE_KEYED : 0);
	CHECK(memcmp(encoded, expected, again.len) == 0);

	CHECK(packet_parse_keyed(&again, p->key, &q) == PACKET_OK);
	CHECK(q.op == p->op && q.psn == p->psn && q.payload_len == p->payload_len && q.ip_id == p->ip_id);
	CHECK(memcmp(q.payload, p->payload, p->payload_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nic_rx_frame frame;
	const struct keyed *with;
	struct packet p;
	unsigned mode, len;
	uint8_t *bytes;

	if (size < 1 || size > 65536 - 64)
		return 0;
	mode = data[0];
	len = (unsigned)size - 1;
	bytes = malloc(len ? len : 1); /* exactly as long as the input, so that reads past the end are detected */
	if (!bytes)
		return 0;
	memcpy(bytes, data + 1, len);
	with = mode & MODE_KEYED && keyed_derive(&key, (const uint8_t *)"the fuzzer's key") ? &key : NULL;
	if (mode & MODE_FIX)
		fix(bytes, len, mode);
	frame = frame_from(bytes, len, mode);
	memset(&p, 0xee, sizeof(p));
	if (packet_parse_keyed(&frame, with, &p) == PACKET_OK) {
		CHECK(p.key == (frame.flags & (NIC_RX_NO_ICRC | NIC_RX_NO_KEY) ? NULL : with));
		check_accepted(&frame, &p);
	}
	free(bytes);
	return 0;
}
