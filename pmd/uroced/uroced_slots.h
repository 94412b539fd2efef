/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_slots.h - what uroced_slots.c and uroced_join.c share. */
#ifndef PMD_UROCED_SLOTS_H
#define PMD_UROCED_SLOTS_H

#include "uroced.h"

/** Look up the name of the function's program. */
void slot_command(struct slot *s);
/** Describe the device to function n. @return how many descriptors were added to `fds`. */
unsigned slot_describe(struct daemon *d, unsigned n, struct proto_device *out, int *fds);
/** Record that function n has what slot_describe() put together. */
void slot_has(struct daemon *d, unsigned n);
/** The function has joined, or come over. */
void slot_live(struct daemon *d, unsigned n);

#endif
