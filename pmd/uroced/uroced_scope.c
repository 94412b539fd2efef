/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_scope.c - the interface of the device's link-local addresses.
 *
 * All of them belong to one interface: the followed one, or else the one that had the first of them when their sockets
 * were created. If the device follows none, it moves to another interface when its own has gone (also if it was made
 * again, with another index), or when its own has had none of the addresses for a while but another has one, or has the
 * key. So the device neither leaves an interface that goes down for a moment, nor takes an address from programs that
 * use it because another of its addresses has moved.
 */
#include <ifaddrs.h>
#include <net/if.h>

#include "uroced_scope.h"
#include "uroced_wanted.h"

#define AWAY_NS 1000000000u /* how long an interface may have none of the addresses before the device leaves it */

/** Where the device's link-local addresses are. */
struct places {
	uint32_t best; /* index of the interface to which they should be bound; 0: none */
	bool is_there; /* the interface to which they are bound exists; not determined if the device follows one */
};

/** Put the link-local addresses among the explicitly requested addresses into *out. */
static void link_local_of(const struct daemon *d, struct wanted *out)
{
	for (unsigned i = 0; i < d->n_fixed; i++)
		if (pmd_gid_is_link_local(&d->fixed[i]))
			wanted_add(out, &d->fixed[i]);
}

/** @return the index of an interface that has the address; 0: none has it. */
static uint32_t interface_with(const struct ifaddrs *list, const struct nic_gid *gid)
{
	struct nic_gid other;

	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (pmd_gid_from_sockaddr(i->ifa_addr, &other) && pmd_gid_equal(&other, gid))
			return if_nametoindex(i->ifa_name);
	return 0;
}

/** @param[out] exists whether there is an interface of this index. @return whether it has one of the addresses. */
static bool interface_has(const struct ifaddrs *list, uint32_t index, const struct wanted *addresses, bool *exists)
{
	struct nic_gid gid;

	*exists = false;
	for (const struct ifaddrs *i = list; i && index != 0; i = i->ifa_next) {
		if (if_nametoindex(i->ifa_name) != index)
			continue;
		*exists = true;
		if (pmd_gid_from_sockaddr(i->ifa_addr, &gid) && wanted_has(addresses, &gid))
			return true;
	}
	return false;
}

/** @return false: the kernel could not be asked. */
static bool places_find(const struct daemon *d, struct places *out)
{
	struct wanted link_local = {0};
	struct ifaddrs *list = NULL;

	*out = (struct places){0};
	if (d->iface[0]) {
		out->best = if_nametoindex(d->iface);
		return true;
	}
	link_local_of(d, &link_local);
	if (link_local.n == 0 && !pmd_gid_is_link_local(&d->key))
		return true;
	if (getifaddrs(&list) != 0)
		return false;
	if (interface_has(list, d->scope, &link_local, &out->is_there))
		out->best = d->scope;
	if (pmd_gid_is_link_local(&d->key)) /* a client may request it soon: see gids_want_key() */
		wanted_add(&link_local, &d->key);
	for (unsigned i = 0; i < link_local.n && out->best == 0; i++)
		out->best = interface_with(list, &link_local.gids[i]);
	freeifaddrs(list);
	return true;
}

uint32_t scope_wanted(const struct daemon *d)
{
	struct places now;

	places_find(d, &now);
	return now.best;
}

enum scope_change scope_sync(struct daemon *d)
{
	struct places now;

	if (uplink_is(d))
		return SCOPE_STAYS;
	if (!places_find(d, &now)) {
		d->stats.kernel_silent++;
		return SCOPE_UNSURE;
	}
	if (now.best == 0 || now.best == d->scope) {
		d->scope_away_ns = 0;
		return SCOPE_STAYS;
	}
	if (now.is_there && d->adopting > 0)
		return SCOPE_UNSURE; /* addresses of functions that have not answered yet are not known */
	if (now.is_there && d->scope_away_ns == 0)
		d->scope_away_ns = daemon_now_ns();
	if (now.is_there && daemon_now_ns() - d->scope_away_ns < AWAY_NS)
		return SCOPE_UNSURE;
	d->scope = now.best;
	d->scope_away_ns = 0;
	return SCOPE_MOVED;
}
