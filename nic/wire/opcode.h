/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opcode.h - the BTH opcodes (IBTA 9.2, 9.3), as data: one row per opcode in opcode.c. Header lengths, traits and
 * op_index are derived from the rows. Includes nothing of ours.
 */
#ifndef NIC_OPCODE_H
#define NIC_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Service bits of an opcode (bits 7..5). OP_EXT: manufacturer-specific, for RC; see extended.md, elem.md. */
enum op_service { OP_RC = 0x00, OP_UC = 0x20, OP_RD = 0x40, OP_UD = 0x60, OP_CNP = 0x80, OP_XRC = 0xa0, OP_EXT = 0xc0 };

/** Kind of packet. */
enum op_kind {
	OP_SEND,
	OP_WRITE,
	OP_READ_REQ,
	OP_READ_RESP,
	OP_ACK,
	OP_ATOMIC_ACK,
	OP_CMP_SWAP,
	OP_FETCH_ADD,
	OP_MASKED_CMP_SWAP,
	OP_MASKED_FETCH_ADD,
	OP_EXT_ATOMIC_ACK,
	OP_ELEMENTS,
	OP_FETCH_ELEMENTS,
	OP_ELEMENTS_ACK,
	OP_FLUSH,
	OP_ATOMIC_WRITE,
	OP_CONGESTION,
	OP_KINDS,
};

/** Position of a packet in its message. */
enum op_pos { OP_FIRST = 1, OP_MIDDLE = 2, OP_LAST = 4, OP_ONLY = 8 };

/** What the last packet of a SEND or WRITE carries besides data. */
enum op_extra { OP_PLAIN, OP_IMM, OP_INV };

/** The set of headers after the BTH. It is a struct because the compiler then rejects an opcode number in its place. */
struct op_hdrs {
	uint16_t bits;
};
/** Bits of op_hdrs.bits, in the order of the headers on the wire. */
enum op_hdr {
	HDR_XRCETH = 1 << 0,	 /* 4 bytes */
	HDR_DETH = 1 << 1,	 /* 8 bytes */
	HDR_FETH = 1 << 2,	 /* 4 bytes */
	HDR_RETH = 1 << 3,	 /* 16 bytes */
	HDR_ATOMIC = 1 << 4,	 /* 28 bytes */
	HDR_AETH = 1 << 5,	 /* 4 bytes */
	HDR_ATOMICACK = 1 << 6,	 /* 8 bytes */
	HDR_IMM = 1 << 7,	 /* 4 bytes */
	HDR_IETH = 1 << 8,	 /* 4 bytes */
	HDR_CNP = 1 << 9,	 /* 16 bytes, reserved */
	HDR_EXTATOMIC = 1 << 10, /* 16 bytes */
	HDR_ELEMENT = 1 << 11,	 /* 20 bytes */
};

/** Traits of an opcode, derived from its row. */
enum op_trait {
	OP_IS_RESPONSE = 1 << 0, /* it goes from a responder to a requester */
	OP_IS_ATOMIC = 1 << 1,	 /* request: an atomic, masked or not */
	OP_IS_MASKED = 1 << 2,	 /* request: a masked atomic */
	OP_IS_ELEMENTS = 1 << 3, /* request: an operation on elements */
	OP_IS_ANSWERED = 1 << 4, /* request: answered by a response, not by an ACK, so it takes a responder resource */
	OP_IS_PLACED = 1 << 6,	 /* request: FLUSH or ATOMIC WRITE; answered by a READ response without data */
	OP_NEEDS_RECV = 1 << 5,	 /* request: takes a receive WQE if its message has none yet */
};

struct opcode {
	const char *name; /* "RC SEND ONLY"; NULL: reserved or unknown */
	uint8_t value;
	uint8_t service; /* enum op_service */
	uint8_t kind;	 /* enum op_kind */
	uint8_t pos;	 /* enum op_pos */
	uint8_t extra;	 /* enum op_extra */
	uint8_t traits;	 /* enum op_trait */
	bool payload;	 /* may carry payload */
	uint8_t hdr_len; /* BTH and extension headers, bytes */
	struct op_hdrs hdrs;
};

extern const struct opcode op_table[256];
/** Maps (service, kind, position, extra) to the complement of the opcode's value; 0: no such opcode. See op_find. */
extern const uint8_t op_index[8][32][8][4];

/** Row of an opcode; NULL when the value is reserved or unknown (HV-02). */
static inline const struct opcode *op_get(uint8_t value)
{
	const struct opcode *op = &op_table[value];

	return op->name ? op : NULL;
}

/** Row of the opcode for building a packet; NULL when the service has no such packet. */
static inline const struct opcode *op_find(enum op_service service, enum op_kind kind, enum op_pos pos,
					   enum op_extra extra)
{
	uint8_t inverse = op_index[(unsigned)service >> 5][kind][(unsigned)pos >> 1][extra];

	return inverse ? &op_table[0xff ^ inverse] : NULL;
}

static inline bool op_has(const struct opcode *op, enum op_hdr hdr)
{
	return (op->hdrs.bits & hdr) != 0;
}

/** Whether packets with this opcode go from a responder to a requester. */
static inline bool op_is_response(const struct opcode *op)
{
	return op->traits & OP_IS_RESPONSE;
}

static inline bool op_is_masked(const struct opcode *op)
{
	return op->traits & OP_IS_MASKED;
}

static inline bool op_is_atomic(const struct opcode *op)
{
	return op->traits & OP_IS_ATOMIC;
}

static inline bool op_is_elements(const struct opcode *op)
{
	return op->traits & OP_IS_ELEMENTS;
}

static inline bool op_starts(const struct opcode *op)
{
	return (op->pos & (OP_FIRST | OP_ONLY)) != 0;
}

static inline bool op_ends(const struct opcode *op)
{
	return (op->pos & (OP_LAST | OP_ONLY)) != 0;
}

/**
 * Whether `next` may follow on a request stream (9.7.4.1): a FIRST or ONLY if no message is open, else a MIDDLE or LAST
 * of the same kind. `open` is the opcode of the open message's latest packet; NULL: no message is open.
 */
static inline bool op_may_follow(const struct opcode *open, const struct opcode *next)
{
	if (__builtin_expect(!open, 1))
		return op_starts(next);
	return next->service == open->service && next->kind == open->kind && !op_starts(next);
}

#endif
