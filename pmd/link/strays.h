/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strays.h - packets that arrive at our function's sockets but are for another function of the device, or for a
 * service that our function does not serve (pmd-internal). All functions are called under the engine's lock.
 *
 * Some strays are legitimate: the kernel's GRO merges packets of two functions into one datagram; the kernel's filter
 * lists a limited number of services and steers packets to all other services to one function; and packets can still
 * arrive just after a service was closed. But anyone who can reach the device can send any number of strays, so
 * handling a stray must cost no more than the packet itself:
 *   - A packet is checked before it is forwarded. A service accepts only UD SENDs.
 *   - Packets are forwarded over existing links. Looking up a link never makes one.
 *   - If there is no link, making one, or finding out whether any function serves the port, needs system calls. These
 *     calls are made after the burst, at most at the limiter's rate (limiter.h); until then the packet is held. If the
 *     limiter does not permit them, the packet is dropped and counted.
 *   - A link that only strays use ends when no more strays arrive.
 */
#ifndef PMD_STRAYS_H
#define PMD_STRAYS_H

#include "engine_host.h"

struct pmd_strays;

/** @return the state for strays; NULL: out of memory. */
struct pmd_strays *pmd_strays_open(struct pmd_host *host);
/** Free the state. `strays` may be NULL. */
void pmd_strays_close(struct pmd_strays *strays);

/** As pmd_port.stray: forward the packet, hold it, or drop and count it. @return false: no function serves the packet's
 *  port, and the NIC may tell the packet's sender so. */
bool pmd_strays_take(struct pmd_strays *strays, const struct nic_rx_frame *frame);

/** Whether packets are being held until their links exist. `strays` may be NULL. */
bool pmd_strays_wait(const struct pmd_strays *strays);

/** Create the links for which packets are being held, then forward those packets. A packet without a link is dropped
 *  or, if no function serves its port, handed to our NIC. */
void pmd_strays_settle(struct pmd_strays *strays, uint64_t now_ns);

#endif
