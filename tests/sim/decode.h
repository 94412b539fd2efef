/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * decode.h - a tiny decoder of RoCEv2 frames for oracles and transcripts. Written apart from nic/wire/packet.c on
 * purpose, so that a mistake there is not shared here. It trusts the frames that the NIC under test emits; it checks
 * no ICRC.
 */
#ifndef SIM_DECODE_H
#define SIM_DECODE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct decoded {
	unsigned bth;	 /* offset of the BTH */
	uint8_t opcode;	 /* as on the wire */
	uint8_t op;	 /* enum decoded_op */
	uint8_t service; /* high three bits: 0 RC, 1 UC, 3 UD, 5 XRC, 6 extended RC */
	bool se, ackreq;
	uint32_t qpn, psn;
	bool response; /* READ response, ACK, atomic ACK */
	bool has_reth, has_atomic, has_ext, has_element, has_aeth, has_imm, has_ieth, has_feth, has_srqn;
	uint64_t va;
	uint32_t rkey, dma_len;
	uint64_t swap_add, compare, orig;
	uint8_t log_size;
	uint8_t element_op, element_type, element_flags;
	uint32_t element_count;
	uint8_t syndrome;
	uint32_t msn, imm, ieth, qkey, src_qpn;
	uint32_t feth;	  /* FLUSH: types and level */
	uint32_t srqn;	  /* XRC requests */
	unsigned payload; /* offset of the payload */
	unsigned payload_len;
};

/** Low five bits of the opcodes the simulator distinguishes, except extended ones. */
enum decoded_op {
	DOP_SEND_FIRST = 0x00,
	DOP_SEND_MIDDLE,
	DOP_SEND_LAST,
	DOP_SEND_LAST_IMM,
	DOP_SEND_ONLY,
	DOP_SEND_ONLY_IMM,
	DOP_WRITE_FIRST,
	DOP_WRITE_MIDDLE,
	DOP_WRITE_LAST,
	DOP_WRITE_LAST_IMM,
	DOP_WRITE_ONLY,
	DOP_WRITE_ONLY_IMM,
	DOP_READ_REQ,
	DOP_READ_FIRST,
	DOP_READ_MIDDLE,
	DOP_READ_LAST,
	DOP_READ_ONLY,
	DOP_ACK,
	DOP_ATOMIC_ACK,
	DOP_CMP_SWAP,
	DOP_FETCH_ADD,
	DOP_SEND_LAST_INV = 0x16,
	DOP_SEND_ONLY_INV = 0x17,
	DOP_FLUSH = 0x1c,
	DOP_ATOMIC_WRITE = 0x1d,
	DOP_MASKED_CMP_SWAP = 0x20, /* this and the next two opcodes: 0xc0, 0xc1, 0xc2 */
	DOP_MASKED_FETCH_ADD,
	DOP_EXT_ATOMIC_ACK,
	DOP_ELEMENTS = 0x24, /* this and the next two opcodes: 0xc4, 0xc5, 0xc6 */
	DOP_FETCH_ELEMENTS,
	DOP_ELEMENTS_ACK,
};

/** @return false: the frame is too short for its headers. */
bool decode_frame(const uint8_t *frame, unsigned len, struct decoded *out);

/** "RC SEND ONLY" and so on. */
const char *decode_name(uint8_t opcode);

/** One transcript line without time and direction: name, PSN and the relevant fields. No newline. */
void decode_print(const struct decoded *d, char *buf, unsigned size);

#endif
