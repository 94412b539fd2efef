/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - RoCEv2 headers: where each field lies, and how to read and write it (IBTA 9.2, 9.3, A17, A19).
 *
 * Everything on the wire is big-endian, except the ICRC. Headers are bytes at offsets, never structs:
 * padding, alignment and host byte order therefore do not matter. Compilers turn the accessors below into single loads
 * and stores. This file knows no opcodes and checks nothing. In the diagrams, a row is 32 bits, most significant bit
 * first; the number at the left is the byte offset.
 */
#ifndef NIC_WIRE_H
#define NIC_WIRE_H

#include <stdint.h>
#include <string.h>

/* ---- accessors --------------------------------------------------------------------------------------- */

static inline uint16_t wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t wire_get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t wire_get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t wire_get64(const uint8_t *p)
{
	return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
	       (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7];
}

static inline void wire_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void wire_put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static inline void wire_put64(uint8_t *p, uint64_t v)
{
	p[0] = (uint8_t)(v >> 56);
	p[1] = (uint8_t)(v >> 48);
	p[2] = (uint8_t)(v >> 40);
	p[3] = (uint8_t)(v >> 32);
	p[4] = (uint8_t)(v >> 24);
	p[5] = (uint8_t)(v >> 16);
	p[6] = (uint8_t)(v >> 8);
	p[7] = (uint8_t)v;
}

/** Only the ICRC is sent low byte first, like an Ethernet FCS (IBTA 7.8.1). */
static inline uint32_t wire_get32le(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline void wire_put32le(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

/** Opaque 32 bits (immediate data), copied without byte swapping. */
static inline uint32_t wire_get_raw32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void wire_put_raw32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* ---- IPv4, 20 bytes (RFC 791) ------------------------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | ver 4 | ihl 5 | type of serv. | total length                  |   masked in the ICRC:
 *   4 | identification                |R|D|M| fragment offset         |   type of service, time to live,
 *   8 | time to live  | protocol 17   | header checksum               |   header checksum
 *  12 | source address                                                |
 *  16 | destination address                                           |
 */
#define IPV4_LEN      20
#define IPV4_VERSION  0x45   /* version 4, 5 words: no options */
#define IPV4_FRAG_DF  0x4000 /* don't fragment */
#define IPV4_FRAG_ANY 0x3fff /* more fragments, or offset: nonzero in every fragment */
#define IP_PROTO_UDP  17
enum {
	IPV4_TOS = 1,
	IPV4_TOTAL = 2,
	IPV4_ID = 4,
	IPV4_FRAG = 6,
	IPV4_TTL = 8,
	IPV4_PROTO = 9,
	IPV4_CSUM = 10,
	IPV4_SADDR = 12,
	IPV4_DADDR = 16,
};

/* ---- IPv6, 40 bytes (RFC 8200) -----------------------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | ver 6 | traffic class | flow label                            |   masked in the ICRC: traffic class,
 *   4 | payload length                | next hdr. 17  | hop limit     |   flow label, hop limit
 *   8 | source address, 16 bytes                                      |
 *  24 | destination address, 16 bytes                                 |
 */
#define IPV6_LEN     40
#define IPV6_VERSION 6
enum { IPV6_PLEN = 4, IPV6_NEXT = 6, IPV6_HOPS = 7, IPV6_SADDR = 8, IPV6_DADDR = 24 };

/* ---- UDP, 8 bytes (RFC 768) --------------------------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | source port                   | destination port 4791         |   masked in the ICRC: checksum
 *   4 | length                        | checksum                      |
 */
#define UDP_LEN 8
enum { UDP_SPORT = 0, UDP_DPORT = 2, UDP_LENGTH = 4, UDP_CSUM = 6 };

/* ---- BTH, base transport header, 12 bytes (IBTA 9.2) --------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | opcode        |S|M|pad| tver  | P_Key                         |   S solicited event, M MigReq
 *   4 |F|B| resv6     | destination QP                                |   F FECN, B BECN; masked in the ICRC: byte 4
 *   8 |A| resv7       | PSN                                           |   A acknowledge request
 */
#define BTH_LEN	       12
#define BTH_TVER_KEYED 15 /* tver of packets that end with a tag (keyed.md); 0 with an ICRC; no other is known */
enum { BTH_OPCODE = 0, BTH_FLAGS = 1, BTH_PKEY = 2, BTH_ECN = 4, BTH_QPN = 5, BTH_ACK = 8, BTH_PSN = 9 };
enum { BTH_FLAG_SE = 0x80, BTH_FLAG_MIG = 0x40, BTH_PAD_SHIFT = 4, BTH_PAD_MASK = 0x30, BTH_TVER_MASK = 0x0f };
enum { BTH_ECN_F = 0x80, BTH_ECN_B = 0x40 };
enum { BTH_ACK_REQ = 0x80, BTH_RESV7_MASK = 0x7f };

/* ---- XRCETH, 4 bytes, after the BTH of every XRC request (IBTA A14) -----------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | reserved      | XRC SRQ number                                |
 */
#define XRCETH_LEN 4
enum { XRCETH_SRQN = 1 };

/* ---- DETH, datagram extended transport header, 8 bytes (IBTA 9.3.3) -----------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | Q_Key                                                         |
 *   4 | reserved      | source QP                                     |
 */
#define DETH_LEN 8
enum { DETH_QKEY = 0, DETH_SRC_QPN = 5 };

/* ---- FETH, flush extended transport header, 4 bytes, before the RETH (IBTA A19.4.1) --------------------
 *
 *     |31           24|23           16|15            8|7             0|   SEL 0 range, 1 whole region
 *   0 | reserved                                      |rsv|SEL| PLT   |   PLT 1 global visibility, 2 persistence
 */
#define FETH_LEN	4
#define FETH_SEL(level) ((uint32_t)(level) << 4)
#define FETH_PLT(feth)	((feth)&0xf)

/* ---- RETH, RDMA extended transport header, 16 bytes (IBTA 9.3.4) --------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | virtual address, high                                         |
 *   4 | virtual address, low                                          |
 *   8 | R_Key                                                         |
 *  12 | DMA length: bytes of the whole message                        |
 */
#define RETH_LEN 16
enum { RETH_VA = 0, RETH_RKEY = 8, RETH_DMA_LEN = 12 };

/* ---- AtomicETH, 28 bytes, no alignment hole (IBTA 9.3.5) ----------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | virtual address, high                                         |
 *   4 | virtual address, low                                          |
 *   8 | R_Key                                                         |
 *  12 | swap or add data, high                                        |   CMP&SWAP: the new value
 *  16 | swap or add data, low                                         |   FETCH&ADD: the addend
 *  20 | compare data, high                                            |   FETCH&ADD: ignored
 *  24 | compare data, low                                             |
 */
#define ATOMICETH_LEN 28
enum { ATOMICETH_VA = 0, ATOMICETH_RKEY = 8, ATOMICETH_SWAP_ADD = 12, ATOMICETH_COMPARE = 20 };

/* ---- AETH, acknowledge extended transport header, 4 bytes (IBTA 9.3.5.1, 9.7.5.1) ---------------------
 *
 *     |31           24|23           16|15            8|7             0|   syndrome: 0x00-1f ACK and credits,
 *   0 | syndrome      | MSN                                           |   0x20-3f RNR NAK and timer, 0x60-63 NAK
 */
#define AETH_LEN 4
enum { AETH_SYNDROME = 0, AETH_MSN = 1 };

/* ---- AtomicAckETH, 8 bytes, after the AETH (IBTA 9.5.3) -----------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | original remote data, high                                    |
 *   4 | original remote data, low                                     |
 */
#define ATOMICACKETH_LEN 8

/* ---- ExtAtomicETH, 16 bytes, ours (extended.md) --------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | virtual address, high                                         |
 *   4 | virtual address, low                                          |
 *   8 | R_Key                                                         |
 *  12 | log2 of size  | reserved                                      |
 *
 * The operands follow, each 2^(log2 of size) bytes long: CMP&SWAP has swap, compare, swap mask and compare mask;
 * FETCH&ADD has add and field boundaries.
 */
#define EXTATOMICETH_LEN 16
enum { EXTATOMICETH_VA = 0, EXTATOMICETH_RKEY = 8, EXTATOMICETH_LOG_SIZE = 12 };

/* ---- ElementETH, 20 bytes, ours (elem.md) ---------------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | virtual address, high                                         |
 *   4 | virtual address, low                                          |
 *   8 | R_Key                                                         |
 *  12 | operation     | datatype      | flags         | reserved      |
 *  16 | number of elements                                            |
 *
 * One operand per element follows (ATOMIC_READ has none), then, if the operation has compare values, one of these per
 * element. In a run, one address per element follows, each with its operand behind it.
 */
#define ELEMENTETH_LEN 20
enum {
	ELEMENTETH_VA = 0,
	ELEMENTETH_RKEY = 8,
	ELEMENTETH_OP = 12,
	ELEMENTETH_DATATYPE = 13,
	ELEMENTETH_FLAGS = 14,
	ELEMENTETH_COUNT = 16,
};
enum { ELEMENT_RUN = 1 << 0 }; /* flags: a run; `number of elements` counts its requests */
#define ELEMENT_ADDR_LEN 8

/* ---- ImmDt, immediate data, 4 bytes, opaque (IBTA 9.3.6) ----------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | immediate data                                                |
 */
#define IMMDT_LEN 4

/* ---- IETH, invalidate extended transport header, 4 bytes (IBTA 9.3.7) ---------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | R_Key to invalidate                                           |
 */
#define IETH_LEN 4

/* ---- CNP, congestion notification packet: 16 reserved bytes of 0 (IBTA A17.9.3) ----------------------- */
#define CNP_LEN 16

/* ---- ICRC, invariant CRC, the last 4 bytes of the UDP payload, low byte first (IBTA 7.8.1, A17) ------- */
#define ICRC_LEN 4

/* A packet tag, our own format of 8 bytes, can take the place of the ICRC: see keyed.h, keyed.md. */

#endif
