/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_touch.h - changes that a malicious function makes to a ring at the very moment when the victim reads it, for
 * fuzz_ring.c. Where the compiler instruments loads (clang, in the fuzzer), the moment is any load: the input selects
 * the load and the new value. Unlike with a second thread (see test_pmd_enemy.c), every run makes the same changes.
 * Builds without this instrumentation make no changes.
 *
 * Also checked: no byte of an entry's kind, or of the headers that all packets have, is read twice; an entry's first
 * word is not read after its kind.
 */
#ifndef FUZZ_RING_TOUCH_H
#define FUZZ_RING_TOUCH_H

#include <stdint.h>

struct pmd_links;

/** From now on, make `changes` changes, chosen by the input, to rings that `l` shares with the enemy. */
void touch_begin(const struct pmd_links *l, unsigned changes);
void touch_end(void);
/** Called before a ring is unmapped. */
void touch_forget(const uint8_t *memory);

#endif
