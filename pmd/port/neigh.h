/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * neigh.h - neighbour resolution for a port that handles Ethernet itself: ARP (RFC 826) and ND (RFC 4861)
 * (pmd-internal). Does no I/O: frames and time go in, and frames come out through callbacks. Needs no DPDK.
 */
#ifndef PMD_NEIGH_H
#define PMD_NEIGH_H

#include "nic.h"

#define NEIGH_ENTRIES	256
#define NEIGH_QUEUE	32  /* packets waiting for one neighbour */
#define NEIGH_HELD_MAX	512 /* packets waiting for all neighbours together */
#define NEIGH_ETHER_LEN 14
#define NEIGH_FRAME_MAX 96 /* no frame passed to `transmit` is longer */

#define NEIGH_RETRY_NS	   100000000ull
#define NEIGH_TRIES	   5
#define NEIGH_FAILED_NS	   1000000000ull  /* pause before a neighbour that did not answer is asked again */
#define NEIGH_REACHABLE_NS 30000000000ull /* time for which an answer is valid */

enum neigh_state { NEIGH_FREE, NEIGH_ASKING, NEIGH_KNOWN, NEIGH_REFRESHING, NEIGH_FAILED };

struct neigh_entry {
	enum neigh_state state;
	struct nic_gid addr;
	uint8_t mac[6];
	unsigned tries, queued;
	bool sent_to;	      /* neigh_send() was called for this address */
	uint64_t deadline_ns; /* of the current state: next try, end of validity, or end of the pause after a failure */
	uint64_t used_ns;
	void *queue[NEIGH_QUEUE];
};

struct neigh_ops {
	/** Send an ARP or ND frame of at most NEIGH_FRAME_MAX bytes. @return false: no room. */
	bool (*transmit)(void *ctx, const uint8_t *frame, uint32_t len);
	/** Both functions give a queued packet back to the port. `release`: the address was resolved, and the port
	 *  sends the packet to `mac`. `drop`: the packet cannot be sent, for example because its address was not
	 *  resolved, and the port frees it. */
	void (*release)(void *ctx, void *packet, const uint8_t mac[6]);
	void (*drop)(void *ctx, void *packet);
};

struct neigh {
	struct nic_gid self;
	bool v4;
	uint8_t mac[6];
	const struct neigh_ops *ops;
	void *ctx;
	uint64_t next_ns; /* when neigh_timeout() has to check the deadlines of the entries */
	unsigned held;	  /* packets queued in all entries */
	uint64_t requests, replies, failed, queue_full, malformed;
	struct neigh_entry entries[NEIGH_ENTRIES];
};

void neigh_init(struct neigh *n, const struct nic_gid *self, const uint8_t mac[6], const struct neigh_ops *ops,
		void *ctx);

enum neigh_verdict {
	NEIGH_READY,  /* *mac has been filled in */
	NEIGH_QUEUED, /* the packet waits in the table, which owns it until it is released or dropped */
	NEIGH_REFUSED /* the neighbour has not answered, or too many packets wait; the caller still owns the packet */
};

/** Look up the MAC for a packet to an on-link address, or queue the packet until the MAC is known. */
enum neigh_verdict neigh_send(struct neigh *n, const struct nic_gid *addr, void *packet, uint64_t now_ns,
			      uint8_t mac[6]);

/** Tell all neighbours our MAC: those that know another, as of a port that was here before, correct it at once. */
void neigh_announce(struct neigh *n);
/** Ask for the MAC of an on-link address before there are packets for it. @return whether the MAC is unknown, and an
 *  answer may arrive. */
bool neigh_resolve(struct neigh *n, const struct nic_gid *addr, uint64_t now_ns);

/** Handle a received Ethernet frame if it is ARP or ND: update the table, answer requests. @return false: it is neither
 *  ARP nor ND. */
bool neigh_rx(struct neigh *n, const uint8_t *frame, uint32_t len, uint64_t now_ns);

/** Handle expired deadlines: ask again, or give up. @return when to call again; UINT64_MAX: not needed. */
uint64_t neigh_timeout(struct neigh *n, uint64_t now_ns);

/** Drop all queued packets. */
void neigh_clear(struct neigh *n);

#endif
