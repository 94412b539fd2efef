/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - the atomic unit; see atomic.h.
 *
 * next_word() computes the new value of a word from the old one. The CPU's compare-and-swap of the operand's size (for
 * 32 bytes, of a word) stores the new value. An operation on 8 bytes for which the CPU has an instruction of its own
 * uses that instead, because it needs no retries on a contended word.
 */
#include "atomic.h"

#include "cas16.h"

#include <stdbool.h>
#include <string.h>

#define LOCKS 64

static uint8_t locks[LOCKS][64]; /* a cache line per lock; its first byte is 1 while the lock is held */

static uint8_t *lock_of(const void *target)
{
	return locks[(uintptr_t)target / NIC_ATOMIC_SIZE_MAX % LOCKS];
}

bool atomic_try_lock(const void *target)
{
	uint8_t *lock = lock_of(target);

	return !__atomic_load_n(lock, __ATOMIC_RELAXED) && !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

void atomic_unlock(const void *target)
{
	__atomic_store_n(lock_of(target), 0, __ATOMIC_RELEASE);
}

/* ---- the operations, as functions --------------------------------------------------------------------------- */

/**
 * Add word `a` and word `b` field by field. A bit set in `m` is the most significant bit of a field. The words are
 * added with these bits cleared, so no field's sum can carry into the next field. Then these bits are added without
 * carry.
 * @param carry in: into the lowest bit; out: from the highest bit, 0 if a field ends there.
 */
static inline uint64_t add_fields(uint64_t a, uint64_t b, uint64_t m, unsigned *carry)
{
	uint64_t sum;
	bool over = __builtin_add_overflow(a & ~m, b & ~m, &sum);

	over |= __builtin_add_overflow(sum, *carry, &sum);
	*carry = over;
	return sum ^ ((a ^ b) & m);
}

/** Compute the value that word i will have after the operation. @return false: the comparison failed. */
static inline bool next_word(const struct nic_atomic *a, unsigned i, uint64_t old, unsigned *carry, uint64_t *next)
{
	switch (a->op) {
	case NIC_ATOMIC_CAS:
		*next = a->swap_add[i];
		return old == a->compare[i];
	case NIC_ATOMIC_MCS:
		*next = (old & ~a->swap_mask[i]) | (a->swap_add[i] & a->swap_mask[i]);
		return ((old ^ a->compare[i]) & a->compare_mask[i]) == 0;
	case NIC_ATOMIC_MFA:
		*next = add_fields(old, a->swap_add[i], a->boundary[i], carry);
		return true;
	default:
		*next = old + a->swap_add[i];
		return true;
	}
}

/** Compute all n words after the operation; they keep their old values if the comparison of any word failed. */
static inline void next_words(const struct nic_atomic *a, unsigned n, const uint64_t *old, uint64_t *next)
{
	unsigned carry = 0;
	bool goes = true;

	for (unsigned i = 0; i < n; i++)
		goes &= next_word(a, i, old[i], &carry, &next[i]);
	if (!goes)
		memcpy(next, old, n * sizeof(*next));
}

/* ---- by size ------------------------------------------------------------------------------------------------ */

DMA static void execute_4(const struct nic_atomic *a, uint32_t *target, uint64_t *orig)
{
	uint32_t old = __atomic_load_n(target, __ATOMIC_RELAXED);
	uint64_t next;

	do {
		*orig = old;
		next_words(a, 1, orig, &next);
	} while (!__atomic_compare_exchange_n(target, &old, (uint32_t)next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

/** @return true: a single CPU instruction has executed the operation; false: the CPU has none for it. */
DMA static inline bool execute_8_at_once(const struct nic_atomic *a, uint64_t *target, uint64_t *orig)
{
	if (a->op == NIC_ATOMIC_FAA || (a->op == NIC_ATOMIC_MFA && (a->boundary[0] & INT64_MAX) == 0)) {
		*orig = __atomic_fetch_add(target, a->swap_add[0], __ATOMIC_SEQ_CST);
		return true;
	}
	if (a->op == NIC_ATOMIC_CAS ||
	    (a->op == NIC_ATOMIC_MCS && (a->compare_mask[0] & a->swap_mask[0]) == UINT64_MAX)) {
		*orig = a->compare[0]; /* on failure *orig gets the value found */
		__atomic_compare_exchange_n(target, orig, a->swap_add[0], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return true;
	}
	if (a->op == NIC_ATOMIC_MCS && a->compare_mask[0] == 0 && a->swap_mask[0] == UINT64_MAX) {
		*orig = __atomic_exchange_n(target, a->swap_add[0], __ATOMIC_SEQ_CST);
		return true;
	}
	return false;
}

DMA static void execute_8(const struct nic_atomic *a, uint64_t *target, uint64_t *orig)
{
	uint64_t next;

	if (execute_8_at_once(a, target, orig))
		return;
	*orig = __atomic_load_n(target, __ATOMIC_RELAXED);
	do
		next_words(a, 1, orig, &next);
	while (!__atomic_compare_exchange_n(target, orig, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

DMA static void execute_16(const struct nic_atomic *a, uint128 *target, uint64_t *orig)
{
	uint64_t next[2];

	orig[0] =
		__atomic_load_n((uint64_t *)target + atomic_place(0, 2), __ATOMIC_RELAXED); /* if torn, cas16() fails */
	orig[1] = __atomic_load_n((uint64_t *)target + atomic_place(1, 2), __ATOMIC_RELAXED);
	do
		next_words(a, 2, orig, next);
	while (!cas16(target, orig, next));
}

/** Evaluate the comparison on all words first. Then update each word in an atomic step of its own, from the value that
 * the word has in that step; that value also decides the carry into the next word. */
DMA static void execute_32(const struct nic_atomic *a, uint64_t *target, uint64_t *orig)
{
	uint64_t next;
	unsigned carry = 0;
	bool goes = true;

	for (unsigned i = 0; i < NIC_ATOMIC_WORDS; i++) {
		orig[i] = __atomic_load_n(&target[atomic_place(i, NIC_ATOMIC_WORDS)], __ATOMIC_ACQUIRE);
		goes &= next_word(a, i, orig[i], &carry, &next);
	}
	carry = 0;
	for (unsigned i = 0; i < NIC_ATOMIC_WORDS; i++) {
		uint64_t *word = &target[atomic_place(i, NIC_ATOMIC_WORDS)], old = orig[i];
		unsigned out;

		do {
			out = carry;
			next_word(a, i, old, &out, &next);
			if (!goes)
				next = old;
		} while (!__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
		carry = out;
		if (a->op == NIC_ATOMIC_MFA)
			orig[i] = old;
	}
}

DMA void atomic_execute(const struct nic_atomic *a, void *target, uint64_t *orig)
{
	switch (a->size) {
	case 4:
		execute_4(a, target, orig);
		break;
	case 8:
		execute_8(a, target, orig);
		break;
	case 16:
		execute_16(a, target, orig);
		break;
	default:
		execute_32(a, target, orig);
	}
}
