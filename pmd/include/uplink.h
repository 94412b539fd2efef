/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink.h - the interface between the daemon of a device and uroce-uplink.so, the module that has DPDK and the switch
 * (pmd/uplink). The daemon loads the module only for a device with an uplink: no other device needs DPDK's libraries.
 *
 * All functions are called by one thread, the daemon's; the module has a thread of its own, which moves packets.
 */
#ifndef PMD_UPLINK_H
#define PMD_UPLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic.h"

#define UPLINK_VERSION	 2
#define UPLINK_SYMBOL	 "uroce_uplink"
#define UPLINK_FUNCTIONS 255 /* 1 to 254 are functions; 0 is the daemon, which gets what is for no function */

struct uplink;

/** Counters: one per line of uplink_stats.def. */
struct uplink_stats {
#define UPLINK_STAT(name, sentence) uint64_t name;
#include "uplink_stats.def"
#undef UPLINK_STAT
};

struct uplink_config {
	const char *args;   /* of the DPDK device: "net_af_packet0,iface=veth0", or a PCI address and arguments */
	const char *netdev; /* kernel interface behind the device, "" if none: its state and MTU count as well */
	struct nic_gid gid, gateway; /* gateway: zeroes if there is none */
	uint8_t prefix_len;	     /* 0: every address is on link */
	uint16_t vlan;		     /* 0: frames have no tag */
	const char *eal; /* options of the EAL, separated by blanks, in place of the default ones; NULL: none */
};

struct uplink_state {
	bool up;
	/* The kernel interface behind the device has been deleted, and another has its name: the port carries nothing
	 * any more, and has to be opened anew, by another process. */
	bool lost;
	uint16_t mtu; /* longest IP packet, bytes */
	uint8_t mac[6];
	struct uplink_stats stats;
};

/** A service (proto_service) and the function that serves it. */
struct uplink_service {
	uint32_t service;
	uint32_t function;
};

struct uplink_ops {
	unsigned version; /* UPLINK_VERSION */
	/** Start DPDK, open the port and start switching. Once per process. @return 0, or a negative errno with a
	 *  message in err. */
	int (*open)(const struct uplink_config *config, struct uplink **out, char *err, size_t err_len);
	void (*close)(struct uplink *u);
	/** Connect function n: from now on it gets its packets. Replaces the function's earlier rings. @param theirs
	 *  receives the descriptors for the function (ring_pair.h), which the caller closes. @return 0 or a negative
	 *  errno. */
	int (*attach)(struct uplink *u, unsigned n, int theirs[3]);
	/** Disconnect function n; nothing happens if it is not connected. */
	void (*detach)(struct uplink *u, unsigned n);
	/** Replace the list of services. @return 0 or a negative errno: the old list stays. */
	int (*serve)(struct uplink *u, const struct uplink_service *services, unsigned n);
	/** Look at the port. */
	void (*look)(struct uplink *u, struct uplink_state *out);
	/** @return an eventfd that is readable when the port's state has changed. */
	int (*changed_fd)(const struct uplink *u);
};

#endif
