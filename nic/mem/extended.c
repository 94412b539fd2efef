/* SPDX-License-Identifier: BSD-3-Clause */
/* extended.c - operands of extended atomics in packets; see extended.md. Stateless. */
#include "extended.h"

#include "wire.h"

#define LOG_SIZE_MIN 2
#define LOG_SIZE_MAX 5

/* Handle the first word outside the loop, so that the usual size of 8 bytes is fast: this is on the packet path. */
static inline void put_words(uint8_t *wire, const uint64_t *words, uint32_t size)
{
	if (size < 8)
		wire_put32(wire, (uint32_t)words[0]);
	else
		wire_put64(wire, words[0]);
	for (uint32_t i = 1; i * 8 < size; i++)
		wire_put64(wire + i * 8, words[i]);
}

static inline void get_words(const uint8_t *wire, uint64_t *words, uint32_t size)
{
	words[0] = size < 8 ? wire_get32(wire) : wire_get64(wire);
	for (uint32_t i = 1; i * 8 < size; i++)
		words[i] = wire_get64(wire + i * 8);
}

void extended_put_words(uint8_t *wire, const uint64_t *words, uint32_t size)
{
	put_words(wire, words, size);
}

void extended_get_words(const uint8_t *wire, uint64_t *words, uint32_t size)
{
	get_words(wire, words, size);
}

void extended_put(const struct nic_atomic *a, uint8_t *wire)
{
	put_words(wire, a->swap_add, a->size);
	if (a->op == NIC_ATOMIC_MFA) {
		put_words(wire + a->size, a->boundary, a->size);
		return;
	}
	put_words(wire + a->size, a->compare, a->size);
	put_words(wire + 2 * a->size, a->swap_mask, a->size);
	put_words(wire + 3 * a->size, a->compare_mask, a->size);
}

bool extended_fits(const struct packet *p)
{
	return p->log_size >= LOG_SIZE_MIN && p->log_size <= LOG_SIZE_MAX &&
	       p->payload_len == extended_operands_len(p->op, 1u << p->log_size);
}

void extended_get(const struct packet *p, struct nic_atomic *a)
{
	const uint8_t *wire = p->payload; /* may change concurrently: read each word once */

	a->op = p->op->kind == OP_MASKED_CMP_SWAP ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA;
	a->size = 1u << p->log_size;
	get_words(wire, a->swap_add, a->size);
	if (a->op == NIC_ATOMIC_MFA) {
		get_words(wire + a->size, a->boundary, a->size);
		return;
	}
	get_words(wire + a->size, a->compare, a->size);
	get_words(wire + 2 * a->size, a->swap_mask, a->size);
	get_words(wire + 3 * a->size, a->compare_mask, a->size);
}
