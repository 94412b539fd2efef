/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_wanted.c - the addresses that the device should have. */
#include "uroced_wanted.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

void wanted_add(struct wanted *w, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < w->n; i++)
		if (pmd_gid_equal(&w->gids[i], gid))
			return;
	if (w->n < NIC_GID_TABLE_LEN)
		w->gids[w->n++] = *gid;
	else
		w->more = true;
}

bool wanted_has(const struct wanted *w, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < w->n; i++)
		if (pmd_gid_equal(&w->gids[i], gid))
			return true;
	return false;
}

/** Sort key of an address: IPv4 first, then global IPv6, then link-local. */
static unsigned gid_rank(const struct nic_gid *gid)
{
	return pmd_gid_is_v4(gid) ? 0 : pmd_gid_is_link_local(gid) ? 2 : 1;
}

int iface_addresses(const char *iface, bool v6_only, struct wanted *out, bool *up)
{
	struct ifaddrs *list = NULL;
	struct nic_gid gid;
	int n = 0;

	*up = false;
	if (getifaddrs(&list) != 0)
		return -errno;
	for (unsigned rank = v6_only ? 1 : 0; rank < 3; rank++) {
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			if (!pmd_label_is_of(i->ifa_name, iface))
				continue;
			*up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
			if (!pmd_gid_from_sockaddr(i->ifa_addr, &gid) || gid_rank(&gid) != rank ||
			    !pmd_gid_is_unicast(&gid))
				continue;
			wanted_add(out, &gid);
			n++;
		}
	}
	freeifaddrs(list);
	return n;
}

int gids_wanted(const struct daemon *d, struct wanted *out, bool *up)
{
	struct wanted iface = {0}, all = {0};
	bool ignored;
	int rc;

	*out = (struct wanted){0};
	*up = !uplink_is(d) || uplink_is_up(d);
	if (d->follow == PROTO_FOLLOW_NONE) {
		for (unsigned i = 0; i < d->n_fixed; i++)
			wanted_add(out, &d->fixed[i]);
		return 0;
	}
	rc = iface_addresses(d->iface, false, &all, up);
	if (rc >= 0)
		rc = iface_addresses(d->iface, d->follow == PROTO_FOLLOW_V6, &iface, &ignored);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < d->n_fixed; i++)
		if (wanted_has(&all, &d->fixed[i]))
			wanted_add(out, &d->fixed[i]);
	for (unsigned i = 0; i < iface.n; i++)
		wanted_add(out, &iface.gids[i]);
	out->more |= iface.more;
	return 0;
}

unsigned gids_naming(const struct daemon *d, struct nic_gid out[NIC_GID_TABLE_LEN])
{
	struct wanted wanted;
	bool ignored;

	out[0] = d->fixed[0];
	if (d->follow != PROTO_FOLLOW_ALL || gids_wanted(d, &wanted, &ignored) != 0 || wanted.n == 0)
		return 1;
	memcpy(out, wanted.gids, wanted.n * sizeof(out[0]));
	return wanted.n;
}
