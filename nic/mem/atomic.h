/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - the atomic unit: what an atomic operation (struct nic_atomic) does to memory.
 *
 * Implements the standard operations (IBTA 9.4.5) and ConnectX's extended ones on 4, 8, 16 or 32 bytes: masked
 * compare-and-swap compares and replaces selected bits, masked fetch-and-add adds to several fields at once.
 *
 * Numbers in memory are in host order: on a little-endian host the least significant word comes first.
 */
#ifndef NIC_ATOMIC_H
#define NIC_ATOMIC_H

#include <stdbool.h>

#include "nic.h"

/** Index in memory of word i of n; word 0 is the least significant. */
static inline unsigned atomic_place(unsigned i, unsigned n)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? n - 1 - i : i;
}

/** Rearrange the words of a number of `size` bytes as it lies in memory. @return where it begins in `words`. */
static inline const void *atomic_in_memory(uint64_t *words, uint32_t size)
{
	if (__BYTE_ORDER__ != __ORDER_BIG_ENDIAN__)
		return words;
	if (size == 4)
		return (const uint8_t *)words + 4;
	for (unsigned i = 0, n = size / 8; i < n / 2; i++) {
		uint64_t low = words[i];

		words[i] = words[n - 1 - i];
		words[n - 1 - i] = low;
	}
	return words;
}

/**
 * Execute an atomic operation. Up to 16 bytes this is one atomic step with respect to all atomic instructions on the
 * same memory, by CPUs and NICs of this and other processes. On 32 bytes it is atomic only with respect to 32-byte
 * operations by NICs of this process (strictly, of this copy of the library), and must run between atomic_try_lock and
 * atomic_unlock. All other CPUs and NICs see one atomic step per word: they may see some words old and some new. What
 * they store meanwhile is not lost: each word is updated from the value that it has in its own step.
 * @param target application memory, aligned to the size. @param orig out: the old value, as many words as `size` bytes
 * take.
 */
void atomic_execute(const struct nic_atomic *a, void *target, uint64_t *orig);

/** Try to take the lock for one operation on 32 bytes (or one element: elem_needs_lock). A caller must not hold two
 *  locks at a time, because several targets share a lock. If the target's memory faults, the caller must still unlock.
 *  @return false: another caller holds the lock. */
bool atomic_try_lock(const void *target);
void atomic_unlock(const void *target);

#endif
