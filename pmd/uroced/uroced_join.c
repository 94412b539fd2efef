/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_join.c - a new function joins: gets a number and sockets.
 *
 * The number of an ended function is not reused for COOL_NS, unless no other number is free. During this time, packets
 * in flight to the ended function are dropped, so they do not reach a new function.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "nic_rdm.h"
#include "points.h"
#include "uroced.h"
#include "uroced_slots.h"

#define COOL_NS 1000000000u /* time before a number is reused after its function has ended */

_Static_assert(PROTO_FUNCTION_MAX < NIC_SERVICE_QPN >> 16, "no function has the number of services");

static uint64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** @return a free number: the lowest number that has been free for COOL_NS; if there is none, the number that has been
 *  free for longest. 0: no number is free. */
static unsigned slot_choose(const struct daemon *d, const bool *refused)
{
	uint64_t now_ns = daemon_now_ns();
	unsigned oldest = 0;

	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		if ((s->state != SLOT_FREE && s->state != SLOT_FOREIGN) || refused[n])
			continue;
		if (s->released_ns == 0 || now_ns - s->released_ns >= COOL_NS)
			return n;
		if (oldest == 0 || s->released_ns < d->slots[oldest].released_ns)
			oldest = n;
	}
	return oldest;
}

/** Write a message that says why no number is free: functions have all numbers, or a user who is not admitted listens
 *  under the names of the free numbers. */
static void slots_blame_names(const struct daemon *d, char *err, size_t err_len)
{
	struct proto_name name;
	struct ucred peer;

	snprintf(err, err_len,
		 "all %u functions of the device are taken; close it in some process, or use another address",
		 PROTO_FUNCTION_MAX);
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		char address[PMD_GID_TEXT], place[PROTO_PID_TEXT];
		int fd = -1;

		pmd_name_function(&d->key, n, &name);
		if (d->slots[n].state == SLOT_FREE || d->slots[n].state == SLOT_FOREIGN)
			fd = proto_connect(&name);
		if (fd < 0)
			continue;
		if (!proto_peer_allowed(fd, &d->policy, &peer) && peer.uid != (uid_t)-1)
			snprintf(err, err_len,
				 "user %u (%s) listens under names of the functions of %s; end that process, or use "
				 "another address",
				 peer.uid, proto_pid_str(peer.pid, place, sizeof(place)),
				 pmd_gid_str(&d->key, address, sizeof(address)));
		close(fd);
		return;
	}
}

/** Find a free number, and listen under its name. Skips numbers whose names are taken. @return the number; 0: failure,
 *  with a message in err. */
static unsigned slot_claim(struct daemon *d, int *listen_fd, char *err, size_t err_len)
{
	bool refused[DAEMON_SLOTS] = {false};
	struct proto_name name;
	unsigned n;

	while ((n = slot_choose(d, refused)) != 0) {
		pmd_name_function(&d->key, n, &name);
		*listen_fd = proto_listen(&name);
		if (*listen_fd >= 0)
			return n;
		if (*listen_fd != -EADDRINUSE) {
			snprintf(err, err_len, "uroced cannot listen for a function: %s", strerror(-*listen_fd));
			return 0;
		}
		refused[n] = true;
	}
	slots_blame_names(d, err, err_len);
	return 0;
}

static int slot_welcome(struct daemon *d, unsigned n, int listen_fd)
{
	struct slot *s = &d->slots[n];
	struct proto_welcome welcome = {.function = n, .since_ns = s->since_ns};
	int fds[PROTO_FDS_MAX] = {listen_fd};
	unsigned n_fds = 1 + slot_describe(d, n, &welcome.device, fds + 1);
	int rc = proto_send(s->fd, PROTO_WELCOME, &welcome, sizeof(welcome), fds, n_fds);

	if (rc == 0)
		slot_has(d, n);
	return rc;
}

void slot_live(struct daemon *d, unsigned n)
{
	d->slots[n].state = SLOT_LIVE;
	d->slots[n].joined_ns = daemon_now_ns();
	slot_command(&d->slots[n]);
	steer_own(d, n, true);
}

int slots_join(struct daemon *d, int fd, const struct ucred *peer, const struct proto_join *join, char *err,
	       size_t err_len)
{
	int listen_fd = -1, rc;
	uint32_t keeper = d->keeper_generation;
	unsigned n = slot_claim(d, &listen_fd, err, err_len);
	struct slot *s = &d->slots[n];
	bool watched = s->state == SLOT_FREE;

	if (n == 0)
		return -EBUSY;
	if (!uplink_suits(d, join, err, err_len)) {
		close(listen_fd);
		return -EINVAL;
	}
	PMD_POINT(daemon_slot_named);
	rc = steer_grow(d, n, err, err_len);
	if (rc == -EADDRNOTAVAIL && d->gids[gids_find(d, &join->gid)].n_sockets > n) {
		rc = 0; /* an address that the function can do without for now: gids_sync tries again */
		d->retry_ns = daemon_now_ns();
	}
	if (rc != 0) {
		close(listen_fd);
		if (d->keeper_generation != keeper)
			slots_tell(d);
		return rc;
	}
	steer_flush(d, n);
	services_said(d, n, NULL, 0);
	cm_ended(d, n);
	uplink_detach(d, n);
	d->stats.leaves += s->again; /* the previous owner of the number has ended */
	*s = (struct slot){.fd = fd, .peer = *peer, .join = *join, .since_ns = realtime_ns()};
	PMD_POINT(daemon_slot_grown);
	rc = uplink_is(d) && !uplink_ready_for(d, n) ? -ENOMEM : slot_welcome(d, n, listen_fd);
	PMD_POINT(daemon_welcomed);
	close(listen_fd);
	if (rc != 0) {
		d->stats.in_flight += rc == -ETOOMANYREFS;
		uplink_detach(d, n);
		*s = (struct slot){.state = SLOT_FREE, .fd = -1, .released_ns = daemon_now_ns()};
		if (!watched)
			steer_own(d, n, false);
		if (d->keeper_generation != keeper)
			slots_tell(d);
		snprintf(err, err_len, "uroced cannot hand over sockets: %s%s", strerror(-rc),
			 rc == -ETOOMANYREFS ? "; raise the limit of open files (ulimit -n)" : "");
		return rc;
	}
	slot_live(d, n);
	gids_fix(d, &join->gid); /* the device may have it only from a keeper */
	if (join->follow > d->follow)
		d->retry_ns = daemon_now_ns(); /* the device does not follow the interface yet */
	d->live++;
	tools_joined(d, n);
	d->stats.joins++;
	daemon_rewatch(d, fd, EPOLLIN, SOURCE(SOURCE_FUNCTION, n, 0));
	/* The keeper was replaced during the join: send the new one to all functions, so that no later daemon recovers
	 * the old one. */
	if (d->keeper_generation != keeper)
		slots_tell(d);
	return 0;
}
