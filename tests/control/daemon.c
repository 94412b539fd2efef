/* SPDX-License-Identifier: BSD-3-Clause */
/* daemon.c - runs the real daemon, without option parsing and daemonizing, in a virtual process. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "spawn.h"
#include "uroced.h"

static void daemon_says(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool find_and_note(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
			  struct nic_gid *key);

/* Store the daemon's stderr messages, for the process that has started the daemon. */
#define fprintf(to, ...) daemon_says(__VA_ARGS__)
#define main		 uroced_main
#define find_device	 find_and_note
int uroced_main(int argc, char **argv);
#include "uroced.c" /* of pmd/uroced */
#undef find_device
#undef main
#undef fprintf

struct ctl_daemon ctl_daemons[CTL_DAEMONS];
unsigned ctl_n_daemons;

struct ctl_daemon *ctl_daemon_of(const struct vk_proc *p)
{
	for (unsigned i = 0; i < ctl_n_daemons; i++)
		if (ctl_daemons[i].proc == p)
			return &ctl_daemons[i];
	return NULL;
}

static void daemon_says(const char *format, ...)
{
	struct ctl_daemon *d = ctl_daemon_of(vk_self());
	va_list list;

	va_start(list, format);
	vsnprintf(d->said, sizeof(d->said), format, list);
	va_end(list);
}

static void daemon_main(void *arg)
{
	struct ctl_daemon *it = arg;
	const struct options o = {.device = it->device[0] ? it->device : NULL,
				  .iface = it->iface[0] ? it->iface : NULL,
				  .allow = it->allow[0] ? it->allow : NULL,
				  .stay = it->stay,
				  .foreground = true};

	it->d = calloc(1, sizeof(*it->d));
	if (!it->d)
		abort();
	daemon_run(it->d, &o, -1);
	if (it->ready) {
		ctl_stats.adopted += it->d->stats.adopted;
		ctl_stats.came_back += it->d->stats.came_back;
		ctl_stats.messages += it->d->stats.bad_messages;
	}
	free(it->d);
	it->d = NULL;
	if (vk_allocated(vk_self()) != 0)
		ctl_fail("daemon_memory", "a daemon that ends leaves %zu bytes", vk_allocated(vk_self()));
	it->ended = true;
	vk_wake(it);
}

struct ctl_daemon *ctl_daemon_start(const struct vk_identity *who, const char *device, const char *iface, bool stay)
{
	struct ctl_daemon *it;

	if (ctl_n_daemons == CTL_DAEMONS)
		return NULL;
	it = &ctl_daemons[ctl_n_daemons++];
	*it = (struct ctl_daemon){.stay = stay};
	snprintf(it->device, sizeof(it->device), "%s", device);
	snprintf(it->iface, sizeof(it->iface), "%s", iface);
	snprintf(it->allow, sizeof(it->allow), "%s", who->allow ? who->allow : "");
	it->proc = vk_spawn(who, "uroced", daemon_main, it);
	ctl_stats.daemons++;
	ctl_log("daemon %d: --device %s --iface %s%s", (int)vk_pid(it->proc), device, iface, stay ? " --stay" : "");
	return it;
}

unsigned ctl_daemon_clients(const struct ctl_daemon *it)
{
	unsigned n = it->d->live + it->d->adopting;

	for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
		n += it->d->clients[i].fd >= 0;
	return n;
}

unsigned ctl_daemon_sockets(const struct ctl_daemon *it)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		n += it->d->gids[i].n_sockets;
	return n;
}

bool ctl_daemon_stays(const struct ctl_daemon *it)
{
	return it->d->stay;
}

bool ctl_daemon_has_spread(const struct ctl_daemon *it)
{
	return !it->iface[0] && it->d->iface[0];
}

/** Whether there is a daemon with this key; it may be about to start, or to end. */
static bool key_is_taken(unsigned netns, const struct nic_gid *key)
{
	for (unsigned i = 0; i < ctl_n_daemons; i++)
		if (!vk_is_ending(ctl_daemons[i].proc) && vk_netns(ctl_daemons[i].proc) == netns &&
		    pmd_gid_equal(&ctl_daemons[i].key, key))
			return true;
	return false;
}

/** Mark functions that a daemon, which follows an interface, cannot have found when it looked for functions that have
 *  one of the addresses: their device's key is none of these, and they were stopped, have none of these, or have a
 *  daemon of their own. */
static void leave_behind(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		struct ctl_function *f = ctl_functions[i];
		/* Loopback addresses (127.x.x.x) are never on the interface: do not look for them there. */
		bool found = f->key.raw[12] == 127;

		if (!ctl_is_live(f) || f->netns != vk_netns(vk_self()))
			continue;
		for (unsigned k = 0; k < n_gids; k++)
			found |= pmd_gid_equal(&f->key, &gids[k]) ||
				 (!vk_was_paused(f->proc, d->since_ns) && !key_is_taken(f->netns, &f->key) &&
				  ctl_has_address(f, &gids[k]));
		f->left_behind |= !found;
	}
}

static bool find_and_note(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
			  struct nic_gid *key)
{
	bool found = find_device(d, gids, n_gids, with_daemons, key);

	if (!with_daemons && d->iface[0]) /* having found a device, it has looked for no other one's functions */
		leave_behind(d, found ? key : gids, found ? 1 : n_gids);
	return found;
}

static void on_point(struct vk_proc *p, int point)
{
	struct ctl_daemon *it = ctl_daemon_of(p);

	if (it && it->d) {
		it->key = it->d->key;
		it->unkept = it->d->keeper_due_ns != 0;
		ctl_stats.keepers += point == PMD_POINT_daemon_recovered;
		ctl_stats.stale += it->d->stats.keeper_stale - it->stale;
		it->stale = it->d->stats.keeper_stale;
	}
	if (!it || point != PMD_POINT_daemon_ready)
		return;
	it->ready = true;
	it->ready_ns = vk_now_ns();
	vk_wake(it);
}

void ctl_daemons_begin(void)
{
	vk_on_point = on_point;
	ctl_n_daemons = 0;
	ctl_check_begin();
}

/* ---- in place of spawn.c ---------------------------------------------------------------------------------- */

#define READY_NS (15 * VK_S) /* less than in spawn.c, because simulated processes are not kept off the CPU */

/** Start a daemon, and wait until it is ready, has reported an error, or times out. The real function (spawn.c) learns
 *  this from the daemon's stderr. */
int pmd_spawn_daemon(const struct pmd_device *device, char *err, size_t err_len)
{
	char address[PMD_GID_TEXT] = "";
	struct ctl_function *f = NULL;
	struct vk_identity who;
	struct ctl_daemon *it;
	uint64_t end_ns = vk_now_ns() + READY_NS;

	for (unsigned i = 0; i < ctl_n_functions; i++)
		if (ctl_functions[i]->proc == vk_self())
			f = ctl_functions[i];
	if (!f)
		abort();
	who = (struct vk_identity){.uid = vk_uid(f->proc),
				   .netns = f->netns,
				   .container = vk_container(f->proc),
				   .allow = secure_getenv("UROCE_ALLOW")};
	if (device->follow != PROTO_FOLLOW_ALL)
		pmd_gid_str(&device->gid, address, sizeof(address));
	it = ctl_daemon_start(&who, address, device->follow != PROTO_FOLLOW_NONE ? device->netdev : "", false);
	if (!it) {
		snprintf(err, err_len, "no more daemons in this run");
		return -EAGAIN;
	}
	while (!it->ready && !it->ended && !vk_is_ending(it->proc)) {
		/* A killed daemon does not wake us, so poll. */
		vk_wait(it, vk_now_ns() + 5 * VK_MS);
		if (vk_now_ns() > end_ns) {
			snprintf(err, err_len,
				 "uroced, the daemon of the device, does not get ready; see what it does");
			return -ETIMEDOUT;
		}
	}
	if (!it->said[0])
		return 0;
	snprintf(err, err_len, "%s", strncmp(it->said, "uroced: ", 8) == 0 ? it->said + 8 : it->said);
	return -EIO;
}
