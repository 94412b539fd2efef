/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_gids.c - updates the device's GID table to the addresses that the device should have.
 *
 * A device should have the explicitly requested addresses and, if it follows an interface, the interface's addresses:
 * all of them (IPv4 first, link-local last), or only the IPv6 ones. Each address has a GID table entry, UDP sockets,
 * and a socket name under which the daemon listens. An address keeps its index; a new address gets the first empty
 * entry.
 *
 * rtnetlink only reports that something has changed; the addresses are read with getifaddrs().
 *
 * Owns: daemon.gids except the sockets, daemon.netlink_fd.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_socket.h"
#include "uroced.h"
#include "uroced_scope.h"
#include "uroced_wanted.h"

#define LET_GO_NS   10000000u  /* time for functions to close their old sockets */
#define BLOCKED_NS  500000000u /* delay until we check again whether others have closed sockets of our addresses */
#define RETRY_NS    100000000u /* delay of the first retries; a new IPv6 address is tentative for a second or two */
#define RETRIES_MAX 50
#define SLOW_NS	    2000000000u /* delay of later retries; another process can release the UDP port at any time */

int gids_find(const struct daemon *d, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (pmd_gid_equal(&d->gids[i].gid, gid) && !pmd_gid_is_none(gid))
			return (int)i;
	return -1;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

/** Listen under the address's name, unless the address is the key: key_fd listens already. @return 0 or a negative
 *  errno. */
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

/** Put an address into an empty entry. Does not claim the name or create sockets. */
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

/** Write the error message for an address whose name could not be claimed. */
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
	entry_name(d, (unsigned)at); /* fails while the previous daemon listens under the name: names_claim() retries */
	return at;
}

/** Claim the names of adopted addresses, if this has failed before. @return whether any claim failed again; the reason
 *  is in d->why. */
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

static bool is_fixed(const struct daemon *d, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < d->n_fixed; i++)
		if (pmd_gid_equal(&d->fixed[i], gid))
			return true;
	return false;
}

bool gids_fix(struct daemon *d, const struct nic_gid *gid)
{
	if (uplink_is(d))
		return false; /* an uplink has one address */
	if (is_fixed(d, gid))
		return true;
	if (d->n_fixed == NIC_GID_TABLE_LEN)
		return false;
	d->fixed[d->n_fixed++] = *gid;
	d->retry_ns = daemon_now_ns();
	return true;
}

/** Whether the device gets the address when the interface that it follows does, if there is room in the table. */
static bool interface_brings(const struct daemon *d, const struct nic_gid *gid)
{
	return d->follow == PROTO_FOLLOW_ALL || (d->follow == PROTO_FOLLOW_V6 && !pmd_gid_is_v4(gid));
}

/** Whether this host has the address; a link-local one: on the interface of the device's link-local addresses. */
static bool is_here(const struct daemon *d, const struct nic_gid *gid)
{
	uint32_t scope = pmd_gid_is_link_local(gid) ? scope_wanted(d) : 0;
	char unused[256];
	int fd = pmd_udp_socket_open(gid, scope, false, unused, sizeof(unused));

	if (fd >= 0)
		close(fd);
	return fd != -EADDRNOTAVAIL;
}

void gids_want_key(struct daemon *d)
{
	if (gids_find(d, &d->key) >= 0 || interface_brings(d, &d->key) || is_fixed(d, &d->key))
		return;
	if (is_here(d, &d->key))
		gids_fix(d, &d->key);
}

int gids_blame(const struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len)
{
	char address[PMD_GID_TEXT], name[IF_NAMESIZE];
	const char *where = "this host";

	if (d->why_rc != 0) {
		snprintf(err, err_len, "%s", d->why);
		return d->why_rc;
	}
	pmd_gid_str(gid, address, sizeof(address));
	if (is_here(d, gid) && entry_free(d) < 0) {
		snprintf(err, err_len, "the device already has %u addresses, the maximum, and %s is not one of them",
			 NIC_GID_TABLE_LEN, address);
		return -ENOSPC;
	}
	if (d->iface[0])
		where = "the interface of the device";
	else if (pmd_gid_is_link_local(gid) && if_indextoname(d->scope, name))
		where = name;
	snprintf(err, err_len, "%s has gone from %s; use another address", address, where);
	return -EADDRNOTAVAIL;
}

bool gids_may_come(const struct daemon *d, const struct nic_gid *gid)
{
	return interface_brings(d, gid) || pmd_gid_equal(gid, &d->key) || is_fixed(d, gid);
}

/* ---- updating the GID table ----------------------------------------------------------------------------- */

/** Add missing addresses to the table, and remove surplus addresses unless adoptions are pending. @return whether the
 *  table has changed. */
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

/** If the link-local addresses belong to another interface now, remove them: their sockets are bound to the old one.
 *  @param[out] again ask again later. @return whether the table has changed. */
static bool link_local_sync(struct daemon *d, bool *again)
{
	enum scope_change change = scope_sync(d);
	bool changed = false;

	*again = change == SCOPE_UNSURE;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN && change == SCOPE_MOVED; i++) {
		if (!pmd_gid_is_link_local(&d->gids[i].gid))
			continue;
		gids_remove(d, i);
		changed = true;
	}
	return changed;
}

/** No adoption is pending, and no function had a usable keeper. The order of the sockets in the kernel's SO_REUSEPORT
 *  group is lost, so functions must close their sockets and get new ones. */
static void gids_begin_anew(struct daemon *d)
{
	d->sockets_known = true;
	d->stats.sockets_lost++;
	slots_tell(d); /* the table is empty: functions close their sockets */
	d->retry_ns = daemon_now_ns() + LET_GO_NS;
}

/** No usable keeper was found: decide whether to begin anew, that is, to have functions close their sockets of the
 *  wanted addresses and get new ones. Yes if no socket of these addresses is open. Not while some process may still
 * turn out to be one of our functions (slots_any_unasked). Not if a process that listens under a function's name but is
 * not connected to us (such as another user's function) has some of these sockets: we could not bind the addresses
 * again, and our functions would lose their sockets for nothing. We infer this if the kernel counts more sockets than
 * our functions can have. We do not compare if a function sent a keeper: the kernel also counts the sockets in an
 * unusable keeper, and we do not know how many these are. */
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

/** Functions keep their old sockets, and the device gets no address for now: record why. */
static void sockets_stay(struct daemon *d, const struct wanted *wanted)
{
	int fd = -EADDRINUSE;

	d->why[0] = '\0';
	if (wanted->n > 0)
		fd = pmd_udp_socket_open(&wanted->gids[0], scope_wanted(d), false, d->why, sizeof(d->why));
	if (fd >= 0)
		close(fd);
	d->why_rc = fd < 0 ? fd : 0;
	d->retry_ns = daemon_now_ns() + BLOCKED_NS;
}

static int netlink_open(struct daemon *d)
{
	struct sockaddr_nl self = {.nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int rc;

	if (d->netlink_fd >= 0)
		return 0;
	d->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (d->netlink_fd < 0)
		return -errno;
	rc = bind(d->netlink_fd, (struct sockaddr *)&self, sizeof(self)) == 0 ? 0 : -errno;
	if (rc == 0)
		rc = daemon_watch(d, d->netlink_fd, EPOLLIN, SOURCE(SOURCE_NETLINK, 0, 0));
	if (rc == 0)
		return 0;
	close(d->netlink_fd);
	d->netlink_fd = -1;
	return rc;
}

/** Link-local addresses belong to an interface, which may be made again: watch that even if the device follows none.
 *  @return false: the kernel gives no notice. */
static bool interfaces_watched(struct daemon *d)
{
	for (unsigned i = 0; i < d->n_fixed && !uplink_is(d); i++)
		if (pmd_gid_is_link_local(&d->fixed[i]))
			return netlink_open(d) == 0;
	return true;
}

/** Follow the interface that functions follow, if an earlier attempt has failed. @return false: it failed again. */
static bool functions_followed(struct daemon *d)
{
	const char *failed = NULL;

	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		if (s->state != SLOT_LIVE || s->join.follow <= d->follow ||
		    (failed && strcmp(s->join.iface, failed) == 0))
			continue;
		if (gids_follow(d, s->join.iface, s->join.follow) != 0)
			failed = s->join.iface;
	}
	return !failed;
}

void gids_sync(struct daemon *d)
{
	uint32_t keeper = d->keeper_generation;
	bool up, changed, grown, again, unsure;
	struct wanted wanted;

	d->retry_ns = 0;
	if (!slots_ready(d))
		return;
	again = !functions_followed(d);
	again |= !interfaces_watched(d);
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
	changed = link_local_sync(d, &unsure);
	changed |= table_sync(d, &wanted);
	if ((!slots_grow(d, &grown) || again || unsure) && d->retry_ns == 0)
		d->retry_ns = daemon_now_ns() + SLOW_NS;
	d->sockets_known = true; /* no function has older sockets, and only this daemon creates new ones */
	if (changed)
		keeper_make(d);
	if (up != d->port_up) {
		d->port_up = up;
		d->stats.link_changes++;
		changed = true;
	}
	if (changed || grown || d->keeper_generation != keeper)
		slots_tell(d);
}

/* ---- following ------------------------------------------------------------------------------------------ */

/** Discard all netlink messages, and the error that reports lost messages: gids_sync() reads the addresses itself. */
void gids_netlink(struct daemon *d)
{
	char scrap[8192];

	while (recv(d->netlink_fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	d->retries = 0;
	gids_sync(d);
}

int gids_follow(struct daemon *d, const char *iface, uint32_t follow)
{
	struct wanted addresses = {0};
	bool up;
	int rc;

	if (uplink_is(d) || d->follow >= follow || (d->iface[0] && strcmp(d->iface, iface) != 0))
		return 0; /* no change: a device keeps its interface, and never follows fewer addresses than before */
	if (if_nametoindex(iface) == 0)
		return -ENODEV;
	rc = iface_addresses(iface, false, &addresses, &up);
	if (rc < 0)
		return rc;
	if (rc == 0 && d->n_fixed == 0)
		return -EADDRNOTAVAIL;
	/* Do not begin to follow an interface that lacks one of the explicitly requested addresses. */
	for (unsigned i = 0; i < d->n_fixed && d->follow == PROTO_FOLLOW_NONE; i++)
		if (!wanted_has(&addresses, &d->fixed[i]))
			return -EINVAL;
	rc = netlink_open(d);
	if (rc != 0)
		return rc;
	snprintf(d->iface, sizeof(d->iface), "%s", iface);
	d->follow = follow;
	if (d->n_fixed == 0)
		d->fixed[d->n_fixed++] = addresses.gids[0]; /* the first address is the key */
	d->retry_ns = daemon_now_ns();
	return 0;
}
