/* SPDX-License-Identifier: BSD-3-Clause */
/* extended.h - operands of extended atomics in packets (extended.md). */
#ifndef NIC_EXTENDED_H
#define NIC_EXTENDED_H

#include "atomic.h"
#include "packet.h"

/** Whether `size`, in bytes, is valid for an extended atomic. */
static inline bool extended_size_known(uint32_t size)
{
	return size == 4 || size == 8 || size == 16 || size == 32;
}

/** Bytes that all operands of a request take in its packet. `size`: bytes of one operand. */
static inline uint32_t extended_operands_len(const struct opcode *op, uint32_t size)
{
	return (op->kind == OP_MASKED_CMP_SWAP ? 4 : 2) * size;
}

/** Write a number of `size` bytes to a packet or read one; in packets each word (4 or 8 bytes) is in network order. */
void extended_put_words(uint8_t *wire, const uint64_t *words, uint32_t size);
void extended_get_words(const uint8_t *wire, uint64_t *words, uint32_t size);

/** Write the operands of a masked operation. */
void extended_put(const struct nic_atomic *a, uint8_t *wire);

/** Whether a request packet has a valid operand size, and a payload that is as long as its operands. */
bool extended_fits(const struct packet *p);
/** Decode the operation of a packet that passed extended_fits. */
void extended_get(const struct packet *p, struct nic_atomic *a);

#endif
