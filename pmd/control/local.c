/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * local.c - see local.h. rtnetlink reports that addresses have changed, getifaddrs lists them.
 *
 * Not detected: addresses that are local only because of a route (`ip route add local`), and foreign addresses that
 * programs may bind to (ip_nonlocal_bind).
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
#include "local.h"

struct pmd_local {
	struct pmd_watch watch; /* first member; the netlink socket, or a negative fd if there is none */
	struct pmd_control *control;
	struct nic_gid *gids;
	size_t n;
	bool due; /* listing failed and will be retried */
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

/** Replace the list by the host's current addresses. On failure the old list stays. @return 0 or a negative errno. */
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

static void look_again(struct pmd_host *host, struct pmd_local *local)
{
	local->due = look(local) != 0;
	if (!local->due)
		return;
	host->control->stats.addresses_unknown++;
	pmd_control_retry(host->control);
}

void pmd_local_retry(struct pmd_host *host)
{
	if (host->local && host->local->due)
		look_again(host, host->local);
}

/** Drain the netlink socket and list the addresses again. The content of the messages is not used, so a queue overflow
 *  (ENOBUFS) does no harm. */
static void changed(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct pmd_local *local = (struct pmd_local *)w;
	char scrap[8192];
	int cancel_state;

	(void)events;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	while (recv(w->fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	look_again(host, local);
	pthread_setcancelstate(cancel_state, NULL);
}

/** Whether the error is a lack of descriptors or memory: then the call may succeed later. */
static bool is_lack(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

/** @return the socket; -EOPNOTSUPP: the kernel does not report changes; or an error for which is_lack returns true. */
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
	if (!is_lack(rc))	  /* list even without netlink (in a sandbox): then changes are not seen */
		rc = look(local); /* after the socket was opened, so no change is missed */
	if (is_lack(rc)) {
		pmd_local_close(local);
		return rc;
	}
	*out = local;
	return 0;
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
