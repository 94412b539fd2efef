/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - the atomic unit: what an atomic operation does to memory. A leaf but for dma.h.
 *
 * The standard operations (IBTA 9.4.5), and extended ones as ConnectX has them: on 4, 8, 16 or 32 bytes, of which the masked
 * compare-and-swap compares and replaces chosen bits, and the masked fetch-and-add adds to several fields at once.
 *
 * Operands and results are little-endian multi-word integers: word 0 is the least significant, as it lies first in the memory
 * of a little-endian host. 4-byte ones are in the low half of word 0, whose other half is zero.
 */
#ifndef NIC_ATOMIC_H
#define NIC_ATOMIC_H

#include <stdint.h>

#define ATOMIC_SIZE_MAX 32 /* bytes */
#define ATOMIC_WORDS	(ATOMIC_SIZE_MAX / 8)

enum atomic_op {
	ATOMIC_CAS, /* if (*va == compare) *va = swap */
	ATOMIC_FAA, /* *va += add */
	ATOMIC_MCS, /* if (((*va ^ compare) & compare_mask) == 0) *va = (*va & ~swap_mask) | (swap & swap_mask) */
	ATOMIC_MFA, /* *va += add, where no carry leaves a bit that `boundary` has set */
};

/** An operation with its operands; those that it does not have are not looked at. */
struct atomic {
	enum atomic_op op;
	uint32_t size; /* bytes: 4, 8, 16 or 32; 8 for CAS and FAA */
	uint64_t swap_add[ATOMIC_WORDS];
	uint64_t compare[ATOMIC_WORDS];
	uint64_t swap_mask[ATOMIC_WORDS];
	uint64_t compare_mask[ATOMIC_WORDS];
	uint64_t boundary[ATOMIC_WORDS]; /* most significant bits of the fields; none: one field */
};

/**
 * Execute: one atomic step towards whoever uses atomic instructions on the same memory, CPUs and NICs of this and other
 * processes, up to 16 bytes. On 32 bytes it is one towards other operations on 32 bytes by NICs of this process (of this copy
 * of the library, should there be several), and for that runs between atomic_lock and atomic_unlock. Towards all others each
 * of its words is read once and, if it changes, written once.
 * @param target application memory, aligned to the size. @param orig gets the value before, in `size` bytes' worth of words.
 */
void atomic_execute(const struct atomic *a, void *target, uint64_t *orig);

/** Around operations on 32 bytes: nothing else in between than one, for the lock may be shared with other targets. A fault of
 *  the target's memory in between leaves it to the caller to unlock. */
void atomic_lock(const void *target);
void atomic_unlock(const void *target);

#endif
