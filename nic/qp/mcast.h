/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.h - multicast groups: delivery of packets, and removal of all groups. Private to nic/. */
#ifndef NIC_MCAST_H
#define NIC_MCAST_H

struct nic;
struct packet;

/** Deliver a packet to the multicast QPN: each QP that is attached to the packet's destination group gets a copy. */
void mcast_rx(struct nic *nic, const struct packet *p);
/** Detach all QPs from all groups. */
void mcast_close(struct nic *nic);

#endif
