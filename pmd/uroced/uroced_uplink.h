/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_uplink.h - a device whose port is a DPDK port that the daemon owns: see uroced_uplink.c. */
#ifndef PMD_UROCED_UPLINK_H
#define PMD_UROCED_UPLINK_H

#include "ring_pair.h"
#include "uplink.h"
#include "uroced.h"

struct daemon_uplink {
	char args[PROTO_UPLINK_MAX]; /* of the DPDK device; "": the device has kernel sockets, and no uplink */
	struct nic_gid gateway;
	uint8_t prefix_len;
	uint16_t vlan;

	const struct uplink_ops *ops; /* NULL: not open */
	struct uplink *uplink;
	struct uplink_state state; /* as last looked at */
	struct ring_pair rings;	   /* the daemon's own: it is number 0 */
	bool has_rings;
};

#endif
