/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_touch.h - what a function that means harm does to rings at the very moment when the victim looks at them, for
 * fuzz_ring.c. Where the compiler says when memory is read (clang, in the fuzzer) that moment is any read: the input says
 * which, and what is there by then. It is the same from run to run, which a second thread would not be; that is
 * test_pmd_enemy.c's. What is built without it does nothing at such moments.
 *
 * Checked besides: no byte of an entry's kind, or of the headers that every packet has, is read twice, nor an entry's word
 * after its kind.
 */
#ifndef FUZZ_RING_TOUCH_H
#define FUZZ_RING_TOUCH_H

#include <stdint.h>

struct pmd_links;

/** From now on `changes` changes, as the input says, to rings that l shares with the enemy. */
void touch_begin(const struct pmd_links *l, unsigned changes);
void touch_end(void);
/** The ring is about to be unmapped. */
void touch_forget(const uint8_t *memory);

#endif
