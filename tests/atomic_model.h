/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic_model.h - models masked atomics bit by bit, independently of nic/mem/atomic.c, for tests that compare the two.
 * Numbers are little-endian, of any length.
 */
#ifndef TEST_ATOMIC_MODEL_H
#define TEST_ATOMIC_MODEL_H

#include <stddef.h>

#include "nic.h"

static inline unsigned model_bit(const void *number, unsigned i)
{
	return (((const uint8_t *)number)[i / 8] >> i % 8) & 1;
}

static inline void model_bit_set(void *number, unsigned i, unsigned value)
{
	uint8_t *byte = (uint8_t *)number + i / 8;

	*byte = (uint8_t)((*byte & ~(1u << i % 8)) | value << i % 8);
}

/** Add without carry out of the bits that are set in `boundary`; boundary NULL: carry everywhere. */
static inline void model_add(void *target, unsigned bits, const void *add, const void *boundary)
{
	unsigned carry = 0;

	for (unsigned i = 0; i < bits; i++) {
		unsigned sum = model_bit(target, i) + model_bit(add, i) + carry;

		model_bit_set(target, i, sum & 1);
		carry = boundary != NULL && model_bit(boundary, i) ? 0 : sum >> 1;
	}
}

/** Replace the bits in the swap mask if those in the compare mask are equal. */
static inline void model_swap(void *target, const struct nic_atomic *a)
{
	for (unsigned i = 0; i < a->size * 8; i++)
		if (model_bit(a->compare_mask, i) && model_bit(a->compare, i) != model_bit(target, i))
			return;
	for (unsigned i = 0; i < a->size * 8; i++)
		if (model_bit(a->swap_mask, i))
			model_bit_set(target, i, model_bit(a->swap_add, i));
}

#endif
