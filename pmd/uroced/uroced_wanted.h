/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_wanted.h - the addresses that the device should have, for uroced_gids.c. */
#ifndef PMD_UROCED_WANTED_H
#define PMD_UROCED_WANTED_H

#include "uroced.h"

/** A set of addresses. */
struct wanted {
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	unsigned n;
	bool more; /* more did not fit */
};

bool wanted_has(const struct wanted *w, const struct nic_gid *gid);
/** Addresses of an interface, by rank. @param up receives whether it can carry packets. @return how many, 0 also if
 *  the interface does not exist; a negative errno: the kernel does not tell. */
int iface_addresses(const char *iface, bool v6_only, struct wanted *out, bool *up);
/** The addresses that the device should have, those given by name first; with a followed interface only if they are
 *  on it. @return 0 or a negative errno. */
int gids_wanted(const struct daemon *d, struct wanted *out, bool *up);

#endif
