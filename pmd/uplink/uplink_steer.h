/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_steer.h - which function gets a packet from the port, and which packets of functions may leave by it. Without
 * state and I/O but for the list of services.
 */
#ifndef PMD_UPLINK_STEER_H
#define PMD_UPLINK_STEER_H

#include "uplink.h"

#define STEER_NOT_ROCE UPLINK_FUNCTIONS /* uplink_steer(): not a RoCEv2 packet */

/** Who serves which service. */
struct steering {
	uint8_t datagrams[65536];     /* the function that serves the port; 0: none. Ports of reliable datagrams */
	uint8_t first;		      /* a function that serves any of these; 0: none does */
	struct uplink_service *ports; /* of the connection manager, sorted */
	unsigned n_ports;
};

/** Replace the list of services. @return 0 or -ENOMEM: the old list stays. */
int steering_set(struct steering *s, const struct uplink_service *services, unsigned n);
void steering_clear(struct steering *s);

/**
 * Find the function that an IP packet is for, as the program in the kernel does for sockets (uroced_steer.c).
 * @return its number, which may be one that no function has; 0: the daemon; STEER_NOT_ROCE.
 */
unsigned uplink_steer(const struct steering *s, const uint8_t *ip, uint32_t len);

/** Check a packet of a function: a complete RoCEv2 packet from the address `own`. @param dgid receives its destination.
 *  @return false: it must not be sent. */
bool uplink_may_send(const uint8_t *ip, uint32_t len, const struct nic_gid *own, struct nic_gid *dgid);

#endif
