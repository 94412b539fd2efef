/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_touch.h - changes that a malicious function makes to rings at the very moment the victim reads them, for
 * fuzz_ring.c. Where the compiler instruments loads (clang, in the fuzzer) that moment is any load: the input selects
 * which, and the new value. Unlike a second thread (see test_pmd_enemy.c) this repeats exactly from run to run. Builds
 * without that instrumentation change nothing.
 *
 * Also checked: no byte of an entry's kind, or of the headers common to all packets, is read twice; an entry's word
 * is not read after its kind.
 */
#ifndef FUZZ_RING_TOUCH_H
#define FUZZ_RING_TOUCH_H

#include <stdint.h>

struct pmd_links;

/** Start applying `changes` input-chosen changes to rings that `l` shares with the enemy. */
void touch_begin(const struct pmd_links *l, unsigned changes);
void touch_end(void);
/** The ring is about to be unmapped. */
void touch_forget(const uint8_t *memory);

#endif
