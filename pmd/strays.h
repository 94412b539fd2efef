/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strays.h - packets that come to this function's sockets and are for another function of the device, or for a service that this
 * function does not serve (pmd-internal). All calls come under the engine's lock.
 *
 * There are honest ones: the kernel's GRO puts packets of two functions into one datagram; the kernel's filter lists only so many
 * services and gives the rest to one function; and just after a service was closed packets still come. But anybody who can send to
 * the device can send as many as he likes, so that nothing here may cost more than the packet itself:
 *   - A packet is checked before it is passed on. A service takes only UD SENDs.
 *   - Passing on uses links that exist. Looking for one changes nothing.
 *   - Where there is no link, making one, or finding out whether anybody serves the port, takes system calls. That is done after the
 *     burst, and not more often than limiter.h says; the packet is held until then. What the limiter refuses is dropped and counted.
 *   - A link that only strays use ends when they stop.
 */
#ifndef PMD_STRAYS_H
#define PMD_STRAYS_H

#include "engine.h"

struct pmd_strays;

/** @return NULL: out of memory. */
struct pmd_strays *pmd_strays_open(void);
/** NULL is allowed. */
void pmd_strays_close(struct pmd_strays *strays);

/** As pmd_port.stray: pass the packet on, hold it, or drop and count it. @return false: nobody serves the port that it is to, and the
 *  NIC may tell its sender so. */
bool pmd_strays_take(struct pmd_engine *e, const struct nic_rx_frame *frame);

/** Make the connections that held packets wait for, and deal with these. */
void pmd_strays_settle(struct pmd_engine *e, uint64_t now_ns);

#endif
