/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_slots.h - declarations shared by uroced_slots.c and uroced_join.c. */
#ifndef PMD_UROCED_SLOTS_H
#define PMD_UROCED_SLOTS_H

#include "uroced.h"

/** Look up the name of the program that the function's process runs. */
void slot_command(struct slot *s);
/** Fill in the device's state for function n, and add the descriptors that the function lacks to `fds`. @return how
 *  many were added. */
unsigned slot_describe(struct daemon *d, unsigned n, struct proto_device *out, int *fds);
/** Record that function n has received what slot_describe() filled in. */
void slot_has(struct daemon *d, unsigned n);
/** Function n has joined, or has been adopted. */
void slot_live(struct daemon *d, unsigned n);

#endif
