/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_nic.h - the function of shared XRC domains that the NIC calls, besides those in struct xrc_sharing. */
#ifndef NIC_XRC_NIC_H
#define NIC_XRC_NIC_H

struct nic;

/** If it is time (nic->xrc_ns), look for guests whose owners have ended, for targets without users, and for late
 *  answers, and send what is to be sent. */
void xrc_timeout(struct nic *nic);

#endif
