/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic_model.h - models masked atomics bit by bit, independently of nic/mem/atomic.c, for tests that compare the two.
 * Numbers are of any length, in memory in host order. Operands of struct nic_atomic are words instead, the least
 * significant first on all hosts.
 */
#ifndef TEST_ATOMIC_MODEL_H
#define TEST_ATOMIC_MODEL_H

#include <stddef.h>
#include <string.h>

#include "nic.h"

/** The byte of a number of `size` bytes that counts 256^i. */
static inline unsigned model_byte(unsigned size, unsigned i)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? size - 1 - i : i;
}

static inline unsigned model_bit(const void *number, unsigned size, unsigned i)
{
	return (((const uint8_t *)number)[model_byte(size, i / 8)] >> i % 8) & 1;
}

static inline void model_bit_set(void *number, unsigned size, unsigned i, unsigned value)
{
	uint8_t *byte = (uint8_t *)number + model_byte(size, i / 8);

	*byte = (uint8_t)((*byte & ~(1u << i % 8)) | value << i % 8);
}

/** Convert operand words to a number in memory. */
static inline void model_from_words(void *number, const uint64_t *words, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		((uint8_t *)number)[model_byte(size, i)] = (uint8_t)(words[i / 8] >> i % 8 * 8);
}

/** Convert a number in memory to operand words. */
static inline void model_to_words(uint64_t *words, const void *number, unsigned size)
{
	memset(words, 0, (size + 7) / 8 * sizeof(*words));
	for (unsigned i = 0; i < size; i++)
		words[i / 8] |= (uint64_t)((const uint8_t *)number)[model_byte(size, i)] << i % 8 * 8;
}

static inline unsigned model_word_bit(const uint64_t *words, unsigned i)
{
	return words[i / 64] >> i % 64 & 1;
}

/** Add a number in memory to another. */
static inline void model_add(void *target, unsigned size, const void *add)
{
	unsigned carry = 0;

	for (unsigned i = 0; i < size * 8; i++) {
		unsigned sum = model_bit(target, size, i) + model_bit(add, size, i) + carry;

		model_bit_set(target, size, i, sum & 1);
		carry = sum >> 1;
	}
}

/** Add operand words without carry out of the bits that are set in `boundary`; boundary NULL: carry everywhere. */
static inline void model_add_words(void *target, unsigned size, const uint64_t *add, const uint64_t *boundary)
{
	unsigned carry = 0;

	for (unsigned i = 0; i < size * 8; i++) {
		unsigned sum = model_bit(target, size, i) + model_word_bit(add, i) + carry;

		model_bit_set(target, size, i, sum & 1);
		carry = boundary != NULL && model_word_bit(boundary, i) ? 0 : sum >> 1;
	}
}

/** Replace the bits in the swap mask if those in the compare mask are equal. */
static inline void model_swap(void *target, const struct nic_atomic *a)
{
	for (unsigned i = 0; i < a->size * 8; i++)
		if (model_word_bit(a->compare_mask, i) &&
		    model_word_bit(a->compare, i) != model_bit(target, a->size, i))
			return;
	for (unsigned i = 0; i < a->size * 8; i++)
		if (model_word_bit(a->swap_mask, i))
			model_bit_set(target, a->size, i, model_word_bit(a->swap_add, i));
}

#endif
