/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strays.h - packets that come to this function's sockets and are for another function of the device, or for a service
 * that this function does not serve (pmd-internal). All calls come under the engine's lock.
 *
 * Some are honest: the kernel's GRO merges packets of two functions into one datagram; the kernel's filter lists a
 * limited number of services and gives the rest to one function; and packets still arrive just after a service was
 * closed. But anyone who can reach the device can send any number of them. So handling one must cost no more than the
 * packet itself:
 *   - A packet is checked before it is passed on. A service takes only UD SENDs.
 *   - Passing on uses links that exist. Looking for one changes nothing.
 *   - Where there is no link, making one, or finding out whether any function serves the port, takes system calls. They
 *     are made after the burst, at the limiter's rate (limiter.h); the packet is held until then. What the limiter
 *     refuses is dropped and counted.
 *   - A link that only strays use ends when they stop.
 */
#ifndef PMD_STRAYS_H
#define PMD_STRAYS_H

#include "engine_host.h"

struct pmd_strays;

/** @return NULL: out of memory. */
struct pmd_strays *pmd_strays_open(struct pmd_host *host);
/** NULL is allowed. */
void pmd_strays_close(struct pmd_strays *strays);

/** As pmd_port.stray: pass the packet on, hold it, or drop and count it. @return false: no function serves its port,
 *  and the NIC may tell its sender so. */
bool pmd_strays_take(struct pmd_strays *strays, const struct nic_rx_frame *frame);

/** Whether held packets wait for a link. NULL is allowed. */
bool pmd_strays_wait(const struct pmd_strays *strays);

/** Make the connections that held packets wait for, and deal with these. */
void pmd_strays_settle(struct pmd_strays *strays, uint64_t now_ns);

#endif
