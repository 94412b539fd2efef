/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_gids.c - the addresses of the device: those it should have, and those it has.
 *
 * It should have the addresses given by name, and those of a followed interface: all (IPv4 first, link-local last), or
 * the IPv6 ones. Each address has a GID table entry, its sockets, and its name, by which the device is found. Entries
 * keep their place; a new address takes the first empty one.
 *
 * rtnetlink only tells when to look; the addresses come from getifaddrs().
 *
 * Owns: daemon.gids except the sockets, daemon.netlink_fd.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_socket.h"
#include "uroced.h"
#include "uroced_wanted.h"

#define LET_GO_NS   10000000u  /* time for functions to close their old sockets */
#define BLOCKED_NS  500000000u /* until we check again whether others have closed the sockets */
#define RETRY_NS    100000000u /* an IPv6 address stays tentative for a second or two */
#define RETRIES_MAX 50
#define SLOW_NS	    2000000000u /* retry period afterwards: the holder of the port may release it at any time */

int gids_find(const struct daemon *d, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (pmd_gid_equal(&d->gids[i].gid, gid) && !pmd_gid_is_none(gid))
			return (int)i;
	return -1;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

/** Listen under the address's name; the key's is open already (key_fd). @return 0 or a negative errno. */
static int entry_name(struct daemon *d, unsigned at)
{
	struct entry *e = &d->gids[at];
	struct proto_name name;
	int rc;

	e->name_fd = -1;
	if (pmd_gid_equal(&e->gid, &d->key))
		return 0;
	pmd_name_daemon(&e->gid, &name);
	e->name_fd = proto_listen(&name);
	if (e->name_fd < 0) {
		rc = e->name_fd;
		e->name_fd = -1;
		return rc;
	}
	rc = daemon_watch(d, e->name_fd, EPOLLIN, SOURCE(SOURCE_NAME, at, 0));
	if (rc != 0) {
		close(e->name_fd);
		e->name_fd = -1;
	}
	return rc;
}

void gids_listen(struct daemon *d, bool on)
{
	uint32_t events = on ? EPOLLIN : 0;

	daemon_rewatch(d, d->key_fd, events, SOURCE(SOURCE_NAME, NIC_GID_TABLE_LEN, 0));
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (d->gids[i].name_fd >= 0)
			daemon_rewatch(d, d->gids[i].name_fd, events, SOURCE(SOURCE_NAME, i, 0));
}

static void entry_clear(struct entry *e)
{
	if (e->name_fd >= 0)
		close(e->name_fd);
	e->gid = (struct nic_gid){0};
	e->name_fd = -1;
}

/** Put an address into an empty entry, without name and sockets. */
static void entry_set(struct daemon *d, unsigned at, const struct nic_gid *gid)
{
	d->gids[at].gid = *gid;
	d->gids[at].generation = ++d->generation;
	d->gids[at].n_sockets = 0;
}

static int entry_free(const struct daemon *d)
{
	for (unsigned at = 0; at < NIC_GID_TABLE_LEN; at++)
		if (pmd_gid_is_none(&d->gids[at].gid))
			return (int)at;
	return -1;
}

/** The sentence for an address whose name cannot be claimed. */
static void name_why(const struct nic_gid *gid, int rc, char *err, size_t err_len)
{
	char address[PMD_GID_TEXT];

	pmd_gid_str(gid, address, sizeof(address));
	if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "%s belongs to another device of this host (a second uroced); end that one first", address);
	else
		snprintf(err, err_len, "uroced cannot listen for %s: %s", address, strerror(-rc));
}

int gids_add(struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len)
{
	int at = entry_free(d), rc;

	if (at < 0) {
		snprintf(err, err_len, "the device has %u addresses already", NIC_GID_TABLE_LEN);
		return -ENOSPC;
	}
	entry_set(d, (unsigned)at, gid);
	rc = entry_name(d, (unsigned)at);
	if (rc != 0)
		name_why(gid, rc, err, err_len);
	else
		rc = steer_open(d, &d->gids[at], err, err_len);
	if (rc != 0) {
		entry_clear(&d->gids[at]);
		return rc;
	}
	d->stats.gids_added++;
	return at;
}

int gids_adopt(struct daemon *d, const struct nic_gid *gid, unsigned entry)
{
	int at = entry < NIC_GID_TABLE_LEN && pmd_gid_is_none(&d->gids[entry].gid) ? (int)entry : entry_free(d);

	if (at < 0)
		return -1;
	entry_set(d, (unsigned)at, gid);
	entry_name(d, (unsigned)at); /* fails while the previous daemon holds it: names_claim() retries */
	return at;
}

/** Claim the names of adopted addresses that have none. @return whether any still fails; the reason is in d->why. */
static bool names_claim(struct daemon *d)
{
	bool missing = false;
	int rc;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct entry *e = &d->gids[i];

		if (pmd_gid_is_none(&e->gid) || e->name_fd >= 0)
			continue;
		rc = entry_name(d, i);
		if (rc == 0)
			continue;
		missing = true;
		name_why(&e->gid, rc, d->why, sizeof(d->why));
		d->why_rc = rc;
	}
	return missing;
}

static void gids_remove(struct daemon *d, unsigned at)
{
	steer_close(d, &d->gids[at]);
	entry_clear(&d->gids[at]);
	d->stats.gids_removed++;
}

void gids_forget(struct daemon *d)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!pmd_gid_is_none(&d->gids[i].gid))
			gids_remove(d, i);
}

/** Index of the interface that has a link-local address; 0: none. */
static uint32_t link_local_scope(const struct nic_gid *gid)
{
	struct ifaddrs *list = NULL;
	struct nic_gid other;
	uint32_t scope = 0;

	if (getifaddrs(&list) != 0)
		return 0;
	for (struct ifaddrs *i = list; i && scope == 0; i = i->ifa_next)
		if (pmd_gid_from_sockaddr(i->ifa_addr, &other) && pmd_gid_equal(&other, gid))
			scope = if_nametoindex(i->ifa_name);
	freeifaddrs(list);
	return scope;
}

bool gids_fix(struct daemon *d, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < d->n_fixed; i++)
		if (pmd_gid_equal(&d->fixed[i], gid))
			return true;
	if (d->n_fixed == NIC_GID_TABLE_LEN)
		return false;
	d->fixed[d->n_fixed++] = *gid;
	if (pmd_gid_is_link_local(gid) && d->scope == 0)
		d->scope = link_local_scope(gid);
	return true;
}

/* ---- bringing both together ----------------------------------------------------------------------------- */

/** Add missing addresses; remove surplus ones unless functions are still to come over. @return whether the table has
 *  changed. */
static bool table_sync(struct daemon *d, const struct wanted *wanted)
{
	bool changed = false, again = false;
	char err[256] = "";
	int rc;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN && d->adopting == 0; i++) {
		if (pmd_gid_is_none(&d->gids[i].gid) || wanted_has(wanted, &d->gids[i].gid))
			continue;
		gids_remove(d, i);
		changed = true;
	}
	d->why[0] = '\0';
	d->why_rc = 0;
	for (unsigned i = 0; i < wanted->n; i++) {
		if (gids_find(d, &wanted->gids[i]) >= 0)
			continue;
		rc = gids_add(d, &wanted->gids[i], err, sizeof(err));
		if (rc >= 0) {
			changed = true;
			continue;
		}
		again = true;
		if (pmd_gid_equal(&wanted->gids[i], &d->key) || !d->why[0]) {
			memcpy(d->why, err, sizeof(d->why));
			d->why_rc = rc;
		}
	}
	again |= names_claim(d);
	if (wanted->more && !d->why[0])
		snprintf(d->why, sizeof(d->why), "the interface has more addresses than the %u that a device can have",
			 NIC_GID_TABLE_LEN);
	d->stats.gids_refused += wanted->more && !d->left_out;
	d->left_out = wanted->more;
	d->retries = again ? d->retries + 1 : 0;
	d->stats.gids_refused += d->retries == RETRIES_MAX;
	d->retry_ns = again ? daemon_now_ns() + (d->retries < RETRIES_MAX ? RETRY_NS : SLOW_NS) : 0;
	return changed;
}

/** A re-created interface has a new index, but the sockets of its link-local addresses are bound to the old one:
 *  remove them. */
static bool scope_sync(struct daemon *d)
{
	uint32_t scope = d->iface[0] ? if_nametoindex(d->iface) : 0;
	bool changed = false;

	if (scope == 0 || scope == d->scope)
		return false;
	d->scope = scope;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		if (!pmd_gid_is_link_local(&d->gids[i].gid))
			continue;
		gids_remove(d, i);
		changed = true;
	}
	return changed;
}

/** All functions have come over, but none brought the device's sockets: it had no keeper, or only members, who do
 *  not get it, live. The order of the sockets in the kernel's SO_REUSEPORT group is lost, so functions close theirs
 *  and get new ones. */
static void gids_begin_anew(struct daemon *d)
{
	d->sockets_known = true;
	d->stats.sockets_lost++;
	slots_tell(d); /* no addresses: close your sockets */
	d->retry_ns = daemon_now_ns() + LET_GO_NS;
}

/** Whether functions may be told to let go of the sockets of the wanted addresses, since no keeper came with them: all
 *  functions have been asked, and nobody else, such as another user's function, holds any. With others in the kernel's
 *  group we could not bind the addresses anew, and ours would lose theirs for nothing. A keeper that was of no use
 *  holds any number of sockets, so with one the count says nothing. */
static bool sockets_are_lost(const struct daemon *d, const struct wanted *wanted)
{
	bool any = false, foreign = slots_any_foreign(d);

	for (unsigned i = 0; i < wanted->n; i++) {
		int n = pmd_gid_is_link_local(&wanted->gids[i]) ? -1 : keeper_kernel_sockets(&wanted->gids[i]);

		any |= n != 0;
		if (foreign && !d->keeper_come && n > (int)slots_with(d, &wanted->gids[i]))
			return false;
	}
	return !any || !slots_any_unasked(d);
}

/** Functions keep their sockets, and no address can be had: say why. */
static void sockets_stay(struct daemon *d, const struct wanted *wanted)
{
	int fd = -EADDRINUSE;

	d->why[0] = '\0';
	if (wanted->n > 0)
		fd = pmd_udp_socket_open(&wanted->gids[0], d->scope, false, d->why, sizeof(d->why));
	if (fd >= 0)
		close(fd);
	d->why_rc = fd < 0 ? fd : 0;
	d->retry_ns = daemon_now_ns() + BLOCKED_NS;
}

void gids_sync(struct daemon *d)
{
	struct wanted wanted;
	bool up, changed, grown;

	d->retry_ns = 0;
	if (!slots_ready(d))
		return;
	if (gids_wanted(d, &wanted, &up) != 0) {
		d->stats.kernel_silent++;
		d->retry_ns = daemon_now_ns() + RETRY_NS;
		return;
	}
	if (!d->sockets_known && d->live > 0) {
		if (sockets_are_lost(d, &wanted))
			gids_begin_anew(d);
		else
			sockets_stay(d, &wanted);
		return;
	}
	changed = scope_sync(d);
	changed |= table_sync(d, &wanted);
	if (!slots_grow(d, &grown) && d->retry_ns == 0)
		d->retry_ns = daemon_now_ns() + SLOW_NS;
	d->sockets_known = true; /* all are ours; new ones are made here */
	if (changed)
		keeper_make(d);
	if (up != d->port_up) {
		d->port_up = up;
		d->stats.link_changes++;
		changed = true;
	}
	if (changed || grown)
		slots_tell(d);
}

/* ---- following ------------------------------------------------------------------------------------------ */

/** Discard the messages, and with them an overrun of the queue: gids_sync() looks up the addresses itself. */
void gids_netlink(struct daemon *d)
{
	char scrap[8192];

	while (recv(d->netlink_fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	d->retries = 0;
	gids_sync(d);
}

static int netlink_open(struct daemon *d)
{
	struct sockaddr_nl self = {.nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};

	if (d->netlink_fd >= 0)
		return 0;
	d->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (d->netlink_fd < 0)
		return -errno;
	if (bind(d->netlink_fd, (struct sockaddr *)&self, sizeof(self)) == 0)
		return daemon_watch(d, d->netlink_fd, EPOLLIN, SOURCE(SOURCE_NETLINK, 0, 0));
	close(d->netlink_fd);
	d->netlink_fd = -1;
	return -errno;
}

int gids_follow(struct daemon *d, const char *iface, uint32_t follow)
{
	struct wanted addresses = {0};
	bool up;
	int rc;

	if (d->follow >= follow || (d->iface[0] && strcmp(d->iface, iface) != 0))
		return 0; /* no change: one interface, and follow only widens */
	if (if_nametoindex(iface) == 0)
		return -ENODEV;
	rc = iface_addresses(iface, false, &addresses, &up);
	if (rc < 0)
		return rc;
	if (rc == 0 && d->n_fixed == 0)
		return -EADDRNOTAVAIL;
	/* If an address given by name is not on the interface, the device does not follow it. */
	for (unsigned i = 0; i < d->n_fixed; i++)
		if (!wanted_has(&addresses, &d->fixed[i]))
			return -EINVAL;
	rc = netlink_open(d);
	if (rc != 0)
		return rc;
	snprintf(d->iface, sizeof(d->iface), "%s", iface);
	d->scope = if_nametoindex(iface);
	d->follow = follow;
	if (d->n_fixed == 0)
		d->fixed[d->n_fixed++] = addresses.gids[0]; /* the key */
	d->retry_ns = daemon_now_ns();
	return 0;
}
