/* SPDX-License-Identifier: BSD-3-Clause */
/* packet_util.h - golden packets and parsing helpers for tests of packet.c. */
#ifndef UNIT_PACKET_UTIL_H
#define UNIT_PACKET_UTIL_H

#include "packet.h"
#include "wire_util.h"

/* Frames are placed before an unreadable page, so that reading past their end crashes the test. */
static uint8_t *guard; /* set by main: util_guard_map() */

/* RC SEND ONLY "hello", 3 pad bytes, MigReq and AckReq set, PSN 1 */
#define SEND_V4                                                                                                        \
	"4502003412344000401114810a0000010a000002c12312b7002000000470ffff00000abc8000000168656c6c6f0000008f4686dd"
/* RC ACK, syndrome 1f, MSN 1 */
#define ACK_V4 "4502003012344000401114850a0000010a000002c12312b7001c00001140ffff00000abc000000011f0000014403b8f4"
/* RC FETCH&ADD, VA 0x1000, R_Key 0x01020304, add 1, PSN 0xffff */
#define FADD_V4                                                                                                        \
	"45020048123440004011146d0a0000010a000002c12312b7003400001440ffff00000abc8000ffff"                             \
	"000000000000100001020304000000000000000100000000000000002042f467"
/* UD SEND ONLY to QP 1 over IPv6, Q_Key 0x80010000, source QP 1, payload of four zero bytes */
#define UD_V6                                                                                                          \
	"6020000000241140fd000000000000000000000000000001fd000000000000000000000000000002c12312b700240000"             \
	"6440ffff0000000100000000800100000000000100000000a7f3206d"
/* CNP, BECN */
#define CNP_V4                                                                                                         \
	"4502003c12344000401114790a0000010a000002c12312b7002800008140ffff40000abc000000000000000000000000"             \
	"0000000000000000721a6cc6"

static const char *const golden[] = {SEND_V4, ACK_V4, FADD_V4, UD_V6, CNP_V4};
#define GOLDEN_COUNT (sizeof(golden) / sizeof(golden[0]))

static inline enum packet_verdict parse_ip(const uint8_t *bytes, unsigned len, struct packet *p)
{
	struct nic_rx_frame frame = {.data = util_at_end(guard, bytes, len), .len = len};

	return packet_parse(&frame, p);
}

/** The parser's verdict on the unchanged bytes. */
static inline enum packet_verdict verdict(const uint8_t *bytes, unsigned len)
{
	struct packet p;

	return parse_ip(bytes, len, &p);
}

/** The parser's verdict after correcting lengths, checksum and ICRC. */
static inline enum packet_verdict verdict_fixed(uint8_t *bytes, unsigned len)
{
	util_fix(bytes, len);
	return verdict(bytes, len);
}

/** The UDP payload of a parsed IP frame, as a UDP socket delivers it. */
static inline struct nic_rx_frame udp_frame(const uint8_t *ip, unsigned len, const struct packet *p)
{
	unsigned bth = p->v4 ? 28 : 48;

	return (struct nic_rx_frame){
		.data = util_at_end(guard, ip + bth, len - bth),
		.len = len - bth,
		.flags = NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN,
		.sgid = p->sgid,
		.dgid = p->dgid,
		.udp_sport = p->udp_sport,
		.tclass = p->tclass,
		.hop_limit = p->hop_limit,
	};
}

#endif
