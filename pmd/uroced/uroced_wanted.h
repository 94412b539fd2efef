/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_wanted.h - the addresses that the device should have, for uroced_gids.c and uroced_scope.c. */
#ifndef PMD_UROCED_WANTED_H
#define PMD_UROCED_WANTED_H

#include "uroced.h"

/** A set of addresses. */
struct wanted {
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	unsigned n;
	bool more; /* there are more addresses, which did not fit */
};

/** Add an address that is not in the set yet; if there is no room, set `more`. */
void wanted_add(struct wanted *w, const struct nic_gid *gid);
bool wanted_has(const struct wanted *w, const struct nic_gid *gid);
/** Add the addresses of an interface to *out: IPv4, then global IPv6, then link-local. @param up receives whether the
 *  interface is up and running. @return the number of addresses; 0: there are none, or no such interface; a negative
 *  errno: the kernel could not be asked. */
int iface_addresses(const char *iface, bool v6_only, struct wanted *out, bool *up);
/** Get the addresses that the device should have: the explicitly requested ones first, then those of the followed
 *  interface. An explicitly requested address that is not on the followed interface is left out. @return 0 or a
 *  negative errno. */
int gids_wanted(const struct daemon *d, struct wanted *out, bool *up);

#endif
