/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opcode.c - the table of BTH opcodes (IBTA 9.2, table 38; A14 XRC, A17 CNP, A19 FLUSH and ATOMIC WRITE).
 *
 * One row per opcode. Header lengths, traits and the reverse index are derived from the rows. RD, reserved values and
 * other manufacturers' opcodes are absent, hence unknown. Stateless.
 */
#include "opcode.h"

/* Sets of extension headers, for the last column of the rows. */
#define H_NONE	      0
#define H_DETH	      HDR_DETH
#define H_DETH_IMM    (HDR_DETH | HDR_IMM)
#define H_IMM	      HDR_IMM
#define H_IETH	      HDR_IETH
#define H_RETH	      HDR_RETH
#define H_RETH_IMM    (HDR_RETH | HDR_IMM)
#define H_FLUSH	      (HDR_FETH | HDR_RETH)
#define H_ATOMIC      HDR_ATOMIC
#define H_AETH	      HDR_AETH
#define H_AETH_ATOMIC (HDR_AETH | HDR_ATOMICACK)
#define H_CNP	      HDR_CNP
#define H_EXT	      HDR_EXTATOMIC
#define H_ELEMENT     HDR_ELEMENT
/* Every XRC request carries the XRCETH; responses do not. */
#define X_NONE	      HDR_XRCETH
#define X_IMM	      (HDR_XRCETH | HDR_IMM)
#define X_IETH	      (HDR_XRCETH | HDR_IETH)
#define X_RETH	      (HDR_XRCETH | HDR_RETH)
#define X_RETH_IMM    (HDR_XRCETH | HDR_RETH | HDR_IMM)
#define X_FLUSH	      (HDR_XRCETH | HDR_FETH | HDR_RETH)
#define X_ATOMIC      (HDR_XRCETH | HDR_ATOMIC)

/* clang-format off */
/* ROW(service, low 5 bits, name, kind, position, extra, may carry payload, headers after the BTH) */
#define OPCODE_ROWS(ROW)                                                                                     \
	ROW(RC, 0x00, "RC SEND FIRST",            SEND,         FIRST,  PLAIN, true,  H_NONE)                \
	ROW(RC, 0x01, "RC SEND MIDDLE",           SEND,         MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(RC, 0x02, "RC SEND LAST",             SEND,         LAST,   PLAIN, true,  H_NONE)                \
	ROW(RC, 0x03, "RC SEND LAST IMM",         SEND,         LAST,   IMM,   true,  H_IMM)                 \
	ROW(RC, 0x04, "RC SEND ONLY",             SEND,         ONLY,   PLAIN, true,  H_NONE)                \
	ROW(RC, 0x05, "RC SEND ONLY IMM",         SEND,         ONLY,   IMM,   true,  H_IMM)                 \
	ROW(RC, 0x06, "RC WRITE FIRST",           WRITE,        FIRST,  PLAIN, true,  H_RETH)                \
	ROW(RC, 0x07, "RC WRITE MIDDLE",          WRITE,        MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(RC, 0x08, "RC WRITE LAST",            WRITE,        LAST,   PLAIN, true,  H_NONE)                \
	ROW(RC, 0x09, "RC WRITE LAST IMM",        WRITE,        LAST,   IMM,   true,  H_IMM)                 \
	ROW(RC, 0x0a, "RC WRITE ONLY",            WRITE,        ONLY,   PLAIN, true,  H_RETH)                \
	ROW(RC, 0x0b, "RC WRITE ONLY IMM",        WRITE,        ONLY,   IMM,   true,  H_RETH_IMM)            \
	ROW(RC, 0x0c, "RC READ REQUEST",          READ_REQ,     ONLY,   PLAIN, false, H_RETH)                \
	ROW(RC, 0x0d, "RC READ RESPONSE FIRST",   READ_RESP,    FIRST,  PLAIN, true,  H_AETH)                \
	ROW(RC, 0x0e, "RC READ RESPONSE MIDDLE",  READ_RESP,    MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(RC, 0x0f, "RC READ RESPONSE LAST",    READ_RESP,    LAST,   PLAIN, true,  H_AETH)                \
	ROW(RC, 0x10, "RC READ RESPONSE ONLY",    READ_RESP,    ONLY,   PLAIN, true,  H_AETH)                \
	ROW(RC, 0x11, "RC ACKNOWLEDGE",           ACK,          ONLY,   PLAIN, false, H_AETH)                \
	ROW(RC, 0x12, "RC ATOMIC ACKNOWLEDGE",    ATOMIC_ACK,   ONLY,   PLAIN, false, H_AETH_ATOMIC)         \
	ROW(RC, 0x13, "RC CMP&SWAP",              CMP_SWAP,     ONLY,   PLAIN, false, H_ATOMIC)              \
	ROW(RC, 0x14, "RC FETCH&ADD",             FETCH_ADD,    ONLY,   PLAIN, false, H_ATOMIC)              \
	ROW(RC, 0x16, "RC SEND LAST INVALIDATE",  SEND,         LAST,   INV,   true,  H_IETH)                \
	ROW(RC, 0x17, "RC SEND ONLY INVALIDATE",  SEND,         ONLY,   INV,   true,  H_IETH)                \
	ROW(RC, 0x1c, "RC FLUSH",                 FLUSH,        ONLY,   PLAIN, false, H_FLUSH)               \
	ROW(RC, 0x1d, "RC ATOMIC WRITE",          ATOMIC_WRITE, ONLY,   PLAIN, true,  H_RETH)                \
	ROW(UC, 0x00, "UC SEND FIRST",            SEND,         FIRST,  PLAIN, true,  H_NONE)                \
	ROW(UC, 0x01, "UC SEND MIDDLE",           SEND,         MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(UC, 0x02, "UC SEND LAST",             SEND,         LAST,   PLAIN, true,  H_NONE)                \
	ROW(UC, 0x03, "UC SEND LAST IMM",         SEND,         LAST,   IMM,   true,  H_IMM)                 \
	ROW(UC, 0x04, "UC SEND ONLY",             SEND,         ONLY,   PLAIN, true,  H_NONE)                \
	ROW(UC, 0x05, "UC SEND ONLY IMM",         SEND,         ONLY,   IMM,   true,  H_IMM)                 \
	ROW(UC, 0x06, "UC WRITE FIRST",           WRITE,        FIRST,  PLAIN, true,  H_RETH)                \
	ROW(UC, 0x07, "UC WRITE MIDDLE",          WRITE,        MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(UC, 0x08, "UC WRITE LAST",            WRITE,        LAST,   PLAIN, true,  H_NONE)                \
	ROW(UC, 0x09, "UC WRITE LAST IMM",        WRITE,        LAST,   IMM,   true,  H_IMM)                 \
	ROW(UC, 0x0a, "UC WRITE ONLY",            WRITE,        ONLY,   PLAIN, true,  H_RETH)                \
	ROW(UC, 0x0b, "UC WRITE ONLY IMM",        WRITE,        ONLY,   IMM,   true,  H_RETH_IMM)            \
	ROW(UD, 0x04, "UD SEND ONLY",             SEND,         ONLY,   PLAIN, true,  H_DETH)                \
	ROW(UD, 0x05, "UD SEND ONLY IMM",         SEND,         ONLY,   IMM,   true,  H_DETH_IMM)            \
	ROW(CNP, 0x01, "CNP",                     CONGESTION,   ONLY,   PLAIN, false, H_CNP)                 \
	ROW(XRC, 0x00, "XRC SEND FIRST",          SEND,         FIRST,  PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x01, "XRC SEND MIDDLE",         SEND,         MIDDLE, PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x02, "XRC SEND LAST",           SEND,         LAST,   PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x03, "XRC SEND LAST IMM",       SEND,         LAST,   IMM,   true,  X_IMM)                 \
	ROW(XRC, 0x04, "XRC SEND ONLY",           SEND,         ONLY,   PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x05, "XRC SEND ONLY IMM",       SEND,         ONLY,   IMM,   true,  X_IMM)                 \
	ROW(XRC, 0x06, "XRC WRITE FIRST",         WRITE,        FIRST,  PLAIN, true,  X_RETH)                \
	ROW(XRC, 0x07, "XRC WRITE MIDDLE",        WRITE,        MIDDLE, PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x08, "XRC WRITE LAST",          WRITE,        LAST,   PLAIN, true,  X_NONE)                \
	ROW(XRC, 0x09, "XRC WRITE LAST IMM",      WRITE,        LAST,   IMM,   true,  X_IMM)                 \
	ROW(XRC, 0x0a, "XRC WRITE ONLY",          WRITE,        ONLY,   PLAIN, true,  X_RETH)                \
	ROW(XRC, 0x0b, "XRC WRITE ONLY IMM",      WRITE,        ONLY,   IMM,   true,  X_RETH_IMM)            \
	ROW(XRC, 0x0c, "XRC READ REQUEST",        READ_REQ,     ONLY,   PLAIN, false, X_RETH)                \
	ROW(XRC, 0x0d, "XRC READ RESPONSE FIRST", READ_RESP,    FIRST,  PLAIN, true,  H_AETH)                \
	ROW(XRC, 0x0e, "XRC READ RESPONSE MIDDLE", READ_RESP,   MIDDLE, PLAIN, true,  H_NONE)                \
	ROW(XRC, 0x0f, "XRC READ RESPONSE LAST",  READ_RESP,    LAST,   PLAIN, true,  H_AETH)                \
	ROW(XRC, 0x10, "XRC READ RESPONSE ONLY",  READ_RESP,    ONLY,   PLAIN, true,  H_AETH)                \
	ROW(XRC, 0x11, "XRC ACKNOWLEDGE",         ACK,          ONLY,   PLAIN, false, H_AETH)                \
	ROW(XRC, 0x12, "XRC ATOMIC ACKNOWLEDGE",  ATOMIC_ACK,   ONLY,   PLAIN, false, H_AETH_ATOMIC)         \
	ROW(XRC, 0x13, "XRC CMP&SWAP",            CMP_SWAP,     ONLY,   PLAIN, false, X_ATOMIC)              \
	ROW(XRC, 0x14, "XRC FETCH&ADD",           FETCH_ADD,    ONLY,   PLAIN, false, X_ATOMIC)              \
	ROW(XRC, 0x16, "XRC SEND LAST INVALIDATE", SEND,        LAST,   INV,   true,  X_IETH)                \
	ROW(XRC, 0x17, "XRC SEND ONLY INVALIDATE", SEND,        ONLY,   INV,   true,  X_IETH)                \
	ROW(XRC, 0x1c, "XRC FLUSH",               FLUSH,        ONLY,   PLAIN, false, X_FLUSH)               \
	ROW(XRC, 0x1d, "XRC ATOMIC WRITE",        ATOMIC_WRITE, ONLY,   PLAIN, true,  X_RETH)                \
	ROW(EXT, 0x00, "MASKED CMP&SWAP",         MASKED_CMP_SWAP, ONLY, PLAIN, true, H_EXT)                 \
	ROW(EXT, 0x01, "MASKED FETCH&ADD",        MASKED_FETCH_ADD, ONLY, PLAIN, true, H_EXT)                \
	ROW(EXT, 0x02, "EXT ATOMIC ACKNOWLEDGE",  EXT_ATOMIC_ACK, ONLY, PLAIN, true,  H_AETH)                \
	ROW(EXT, 0x04, "ELEMENTS",                ELEMENTS,     ONLY,   PLAIN, true,  H_ELEMENT)             \
	ROW(EXT, 0x05, "FETCH ELEMENTS",          FETCH_ELEMENTS, ONLY, PLAIN, true,  H_ELEMENT)             \
	ROW(EXT, 0x06, "ELEMENTS ACKNOWLEDGE",    ELEMENTS_ACK, ONLY,   PLAIN, true,  H_AETH)
/* clang-format on */

/* Bytes of the BTH and the extension headers. */
#define IF_HDR(bits, hdr, len) (((bits) & (hdr)) != 0 ? (len) : 0)
#define HDR_LEN(bits)                                                                                                  \
	(12 + IF_HDR(bits, HDR_XRCETH, 4) + IF_HDR(bits, HDR_DETH, 8) + IF_HDR(bits, HDR_FETH, 4) +                    \
	 IF_HDR(bits, HDR_RETH, 16) + IF_HDR(bits, HDR_ATOMIC, 28) + IF_HDR(bits, HDR_AETH, 4) +                       \
	 IF_HDR(bits, HDR_ATOMICACK, 8) + IF_HDR(bits, HDR_IMM, 4) + IF_HDR(bits, HDR_IETH, 4) +                       \
	 IF_HDR(bits, HDR_CNP, 16) + IF_HDR(bits, HDR_EXTATOMIC, 16) + IF_HDR(bits, HDR_ELEMENT, 20))

/* Sets of kinds. TRAITS derives the traits of a row from these sets. */
#define KIND(k)	       (1 << OP_##k)
#define RESPONSE_KINDS (KIND(READ_RESP) | KIND(ACK) | KIND(ATOMIC_ACK) | KIND(EXT_ATOMIC_ACK) | KIND(ELEMENTS_ACK))
#define MASKED_KINDS   (KIND(MASKED_CMP_SWAP) | KIND(MASKED_FETCH_ADD))
#define ATOMIC_KINDS   (KIND(CMP_SWAP) | KIND(FETCH_ADD) | MASKED_KINDS)
#define ELEMENT_KINDS  (KIND(ELEMENTS) | KIND(FETCH_ELEMENTS))
#define PLACED_KINDS   (KIND(FLUSH) | KIND(ATOMIC_WRITE))
#define ANSWERED_KINDS (KIND(READ_REQ) | ATOMIC_KINDS | KIND(FETCH_ELEMENTS) | PLACED_KINDS)

#define IF_KIND(kinds, k, trait) (((kinds)&KIND(k)) != 0 ? (trait) : 0)
#define TRAITS(k, p, x)                                                                                                \
	(IF_KIND(RESPONSE_KINDS, k, OP_IS_RESPONSE) | IF_KIND(ATOMIC_KINDS, k, OP_IS_ATOMIC) |                         \
	 IF_KIND(MASKED_KINDS, k, OP_IS_MASKED) | IF_KIND(ELEMENT_KINDS, k, OP_IS_ELEMENTS) |                          \
	 IF_KIND(ANSWERED_KINDS, k, OP_IS_ANSWERED) | IF_KIND(PLACED_KINDS, k, OP_IS_PLACED) |                         \
	 IF_KIND(KIND(SEND), k, (OP_##p & (OP_FIRST | OP_ONLY)) != 0 ? OP_NEEDS_RECV : 0) |                            \
	 IF_KIND(KIND(WRITE), k, OP_##x == OP_IMM ? OP_NEEDS_RECV : 0))

#define TABLE_ROW(svc, low, text, k, p, x, pl, h)                                                                      \
	[OP_##svc | (low)] = {                                                                                         \
		.name = text,                                                                                          \
		.value = OP_##svc | (low),                                                                             \
		.service = OP_##svc,                                                                                   \
		.kind = OP_##k,                                                                                        \
		.pos = OP_##p,                                                                                         \
		.extra = OP_##x,                                                                                       \
		.traits = TRAITS(k, p, x),                                                                             \
		.payload = pl,                                                                                         \
		.hdrs = {h},                                                                                           \
		.hdr_len = HDR_LEN(h),                                                                                 \
	},

const struct opcode op_table[256] = {OPCODE_ROWS(TABLE_ROW)};

/* The reverse index: from (service, kind, position, extra) to the opcode's value. An entry is the complement of the
 * value. No opcode has the value 0xff, so no entry is 0, and the zeroes in the gaps mean "none". Positions are 1, 2, 4
 * and 8; halved, they become indices from 0 to 4. The dimensions are powers of two, to make the lookup fast: every
 * packet that is built needs a lookup. */
#define INDEX_ROW(svc, low, text, k, p, x, pl, h)                                                                      \
	[OP_##svc >> 5][OP_##k][OP_##p >> 1][OP_##x] = 0xff ^ (OP_##svc | (low)),

const uint8_t op_index[8][32][8][4] = {OPCODE_ROWS(INDEX_ROW)};
