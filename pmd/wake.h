/* SPDX-License-Identifier: BSD-3-Clause */
/* wake.h - a descriptor that becomes readable when a kernel interface receives what a port waits for (pmd-internal). */
#ifndef PMD_WAKE_H
#define PMD_WAKE_H

/** @return a descriptor, or -1. */
int pmd_wake_open(const char *iface);
/** Make it unreadable until the next packet. */
void pmd_wake_drain(int fd);

#endif
