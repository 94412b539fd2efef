/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_pair.h - what connects a function to the switch of its device's uplink: a ring (ring.h) in each direction, and a
 * bell (pmd-internal).
 *
 * Entries are whole IP packets, from the IP header to the ICRC. The daemon, which has the switch, makes the pair and
 * hands the other side's descriptors over. The switch does not trust a function: it copies a packet before it reads it.
 * A function trusts its daemon, and reads packets where they are.
 *
 * The bell is a pair of connected sockets. Each side sends on its own end without waiting, and receives from it; unlike
 * an eventfd that both sides have open, neither side can make the other wait.
 */
#ifndef PMD_RING_PAIR_H
#define PMD_RING_PAIR_H

#include "ring.h"

#define RING_PAIR_FDS 3 /* descriptors that are handed over */

/** One side of a pair; private to its process. */
struct ring_pair {
	struct ring_producer out;
	struct ring_consumer in;
	int bell_fd; /* readable when the other side has rung, or is gone */
	bool asleep; /* ring_pair_sleep has announced a sleep */
};

/** Make a pair. @param theirs receives the descriptors for the other side; the caller owns them. @return 0 or a
 * negative errno. */
int ring_pair_create(struct ring_pair *p, int theirs[RING_PAIR_FDS]);
/** Become the other side. Owns the descriptors from now on, also if it fails. @return 0, or a negative errno: they do
 *  not belong to a pair, or there is no memory. */
int ring_pair_map(struct ring_pair *p, const int fds[RING_PAIR_FDS]);
void ring_pair_close(struct ring_pair *p);
/** In a forked child, which has not inherited the rings: close the descriptor. */
void ring_pair_abandon(struct ring_pair *p);

/** Copy a packet of 1 to RING_PACKET_MAX bytes into the outgoing ring. After the last of several, ring_pair_wake.
 *  @return 1; 0: the ring is full; -EPROTO: the other side has written an invalid head. */
int ring_pair_send(struct ring_pair *p, const uint8_t *packet, uint32_t len);
/** Wake the other side if it sleeps. @return whether it did. */
bool ring_pair_wake(struct ring_pair *p);

/** Announce a sleep on bell_fd: from now on the other side rings. @return false: there are packets, do not sleep. */
bool ring_pair_sleep(struct ring_pair *p);
/** The sleep is over: the other side need not ring. */
void ring_pair_awake(struct ring_pair *p);
/** Read bell_fd, after it has rung and before the next ring_pair_sleep: the bell's queue is finite. @return false: the
 *  other side is gone. */
bool ring_pair_drain(struct ring_pair *p);

#endif
