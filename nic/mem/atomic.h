/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - the atomic unit: what an atomic operation (struct nic_atomic) does to memory.
 *
 * The standard operations (IBTA 9.4.5), and extended ones as ConnectX has them: on 4, 8, 16 or 32 bytes, of which the masked
 * compare-and-swap compares and replaces chosen bits, and the masked fetch-and-add adds to several fields at once.
 *
 * In memory a number lies as the host's numbers do: on a little-endian one its least significant word comes first.
 */
#ifndef NIC_ATOMIC_H
#define NIC_ATOMIC_H

#include <stdbool.h>

#include "nic.h"

/**
 * Execute: one atomic step towards whoever uses atomic instructions on the same memory, CPUs and NICs of this and other
 * processes, up to 16 bytes. On 32 bytes it is one towards other operations on 32 bytes by NICs of this process (of this copy
 * of the library, should there be several), and for that runs between atomic_try_lock and atomic_unlock. Towards all others it is
 * a step for each of its words: they may see some of them before and some after, but no change of theirs is undone, and what
 * is added is added to what they have left.
 * @param target application memory, aligned to the size. @param orig gets the value before, in `size` bytes' worth of words.
 */
void atomic_execute(const struct nic_atomic *a, void *target, uint64_t *orig);

/** Around operations on 32 bytes: nothing else in between than one, for the lock may be shared with other targets. A fault of
 *  the target's memory in between leaves it to the caller to unlock. @return false: somebody else has it. */
bool atomic_try_lock(const void *target);
void atomic_unlock(const void *target);

#endif
