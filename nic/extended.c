/* SPDX-License-Identifier: BSD-3-Clause */
/* extended.c - operands of extended atomics, as they are in packets; see extended.md. Stateless. */
#include "extended.h"

#include "wire.h"

#include <string.h>

#define LOG_SIZE_MIN 2
#define LOG_SIZE_MAX 5

void extended_put_words(uint8_t *wire, const uint64_t *words, uint32_t size)
{
	if (size == 4)
		wire_put32(wire, (uint32_t)words[0]);
	for (uint32_t i = 0; i * 8 + 8 <= size; i++)
		wire_put64(wire + i * 8, words[i]);
}

void extended_get_words(const uint8_t *wire, uint64_t *words, uint32_t size)
{
	if (size == 4)
		words[0] = wire_get32(wire);
	for (uint32_t i = 0; i * 8 + 8 <= size; i++)
		words[i] = wire_get64(wire + i * 8);
}

void extended_put(const struct nic_atomic *a, uint8_t *wire)
{
	extended_put_words(wire, a->swap_add, a->size);
	if (a->op == NIC_ATOMIC_MFA) {
		extended_put_words(wire + a->size, a->boundary, a->size);
		return;
	}
	extended_put_words(wire + a->size, a->compare, a->size);
	extended_put_words(wire + 2 * a->size, a->swap_mask, a->size);
	extended_put_words(wire + 3 * a->size, a->compare_mask, a->size);
}

bool extended_fits(const struct packet *p)
{
	return p->log_size >= LOG_SIZE_MIN && p->log_size <= LOG_SIZE_MAX &&
	       p->payload_len == extended_operands_len(p->op, 1u << p->log_size);
}

void extended_get(const struct packet *p, struct nic_atomic *a)
{
	uint8_t wire[EXTENDED_OPERANDS_MAX];

	a->op = p->op->kind == OP_MASKED_CMP_SWAP ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA;
	a->size = 1u << p->log_size;
	memcpy(wire, p->payload, p->payload_len);
	extended_get_words(wire, a->swap_add, a->size);
	if (a->op == NIC_ATOMIC_MFA) {
		extended_get_words(wire + a->size, a->boundary, a->size);
		return;
	}
	extended_get_words(wire + a->size, a->compare, a->size);
	extended_get_words(wire + 2 * a->size, a->swap_mask, a->size);
	extended_get_words(wire + 3 * a->size, a->compare_mask, a->size);
}
