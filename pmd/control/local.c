/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * local.c - see local.h. rtnetlink says when to look; what there is getifaddrs says.
 *
 * What is not seen: addresses that the host has by a local route alone (`ip route add local`), and those that are remote but may
 * be bound to (ip_nonlocal_bind).
 *
 * Owns: the list of addresses, sorted, and the netlink socket.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "control_priv.h"
#include "eal.h"
#include "engine_priv.h"
#include "local.h"

struct pmd_local {
	struct pmd_watch watch; /* of the netlink socket, fd -1: none; first */
	struct pmd_control *control;
	struct nic_gid *gids;
	size_t n;
	bool due; /* could not be looked up: tried again */
};

static int gid_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct nic_gid));
}

static bool is_loopback(const struct nic_gid *gid)
{
	static const struct nic_gid v6 = {{[15] = 1}};

	return pmd_gid_is_v4(gid) ? gid->raw[12] == 127 : pmd_gid_equal(gid, &v6);
}

bool pmd_local_has(const struct pmd_local *local, const struct nic_gid *gid)
{
	if (is_loopback(gid))
		return true;
	return local && local->n > 0 && bsearch(gid, local->gids, local->n, sizeof(*gid), gid_compare);
}

/** What there is now. On failure what there was stays. @return 0 or a negative errno. */
static int look(struct pmd_local *local)
{
	struct nic_gid *gids;
	struct ifaddrs *list;
	size_t n = 0, room = 0;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *a = list; a; a = a->ifa_next)
		room++;
	gids = malloc((room + 1) * sizeof(*gids));
	for (const struct ifaddrs *a = list; gids && a; a = a->ifa_next)
		n += a->ifa_addr && pmd_gid_from_sockaddr(a->ifa_addr, &gids[n]);
	freeifaddrs(list);
	if (!gids)
		return -ENOMEM;
	qsort(gids, n, sizeof(*gids), gid_compare);
	free(local->gids);
	local->gids = gids;
	local->n = n;
	return 0;
}

static void look_again(struct pmd_engine *e, struct pmd_local *local)
{
	local->due = look(local) != 0;
	if (!local->due)
		return;
	e->control->stats.addresses_unknown++;
	pmd_control_retry(e->control);
}

void pmd_local_retry(struct pmd_engine *e)
{
	if (e->local && e->local->due)
		look_again(e, e->local);
}

/** What has changed is looked up, so messages are only counted out. The queue may have run over: no matter. */
static void changed(struct pmd_engine *e, struct pmd_watch *w, uint32_t events)
{
	struct pmd_local *local = (struct pmd_local *)w;
	char scrap[8192];
	int cancel_state;

	(void)events;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the engine is locked */
	while (recv(w->fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	look_again(e, local);
	pthread_setcancelstate(cancel_state, NULL);
}

/** Whether the call may succeed later. */
static bool is_lack(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

/** @return the socket, -EOPNOTSUPP: the kernel does not tell, or a negative errno that says what it lacks. */
static int netlink_open(void)
{
	struct sockaddr_nl self = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int fd = pmd_fd_high(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)), rc;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&self, sizeof(self)) == 0)
		return fd;
	rc = -errno;
	if (fd >= 0)
		close(fd);
	return is_lack(rc) ? rc : -EOPNOTSUPP;
}

int pmd_local_open(struct pmd_control *control, struct pmd_local **out)
{
	struct pmd_local *local = calloc(1, sizeof(*local));
	int rc;

	*out = NULL;
	if (!local)
		return -ENOMEM;
	local->control = control;
	local->watch = (struct pmd_watch){.fd = netlink_open(), .ready = changed};
	rc = local->watch.fd;
	if (rc >= 0) {
		rc = pmd_control_watch(control, &local->watch, EPOLLIN);
		if (rc != 0) {
			pmd_local_abandon(local);
			local->watch.fd = -1;
		}
	}
	if (rc == 0 || rc == -EOPNOTSUPP)
		rc = look(local);    /* after the socket: a change meanwhile is told */
	if (rc == 0 || !is_lack(rc)) /* a sandbox without netlink: of addresses only loopback's are known */
		*out = local;
	else
		pmd_local_close(local);
	return *out ? 0 : rc;
}

void pmd_local_abandon(struct pmd_local *local)
{
	if (local && local->watch.fd >= 0)
		close(local->watch.fd);
}

void pmd_local_close(struct pmd_local *local)
{
	if (!local)
		return;
	if (local->watch.fd >= 0)
		pmd_control_unwatch(local->control, &local->watch);
	pmd_local_abandon(local);
	free(local->gids);
	free(local);
}
