/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_thread.c - the thread of the switch: when it works and when it sleeps.
 *
 * While packets come it polls. After SPIN_NS without one it sleeps until a function rings, the port's descriptor is
 * readable, or a deadline comes. A port without a descriptor to wait for is looked at between naps, which get longer
 * the longer nothing comes.
 */
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "clock.h"
#include "port.h"
#include "port_ethdev.h"
#include "uplink_priv.h"

#define SPIN_NS	     50000u	/* polling after the last packet: about what it costs to wake a core */
#define NAP_NS	     50000u	/* first nap between looks at a port without a descriptor */
#define NAP_MAX	     1000000u	/* longest such nap */
#define LOOK_NS	     200000000u /* time between looks at the link */
#define LOOK_DOWN_NS 20000000u	/* the same while it is down: programs may be waiting for it */

void uplink_lock(struct uplink *u)
{
	__atomic_fetch_add(&u->wanted, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&u->lock);
}

void uplink_unlock(struct uplink *u)
{
	pthread_mutex_unlock(&u->lock);
	__atomic_fetch_sub(&u->wanted, 1, __ATOMIC_RELAXED);
}

/** Look at the kernel's interface behind the port. One that has been deleted and made again under its name is another,
 *  also if it has the old number: drivers stay with the one that they have opened. @return whether it is up; true if
 *  there is none. */
static bool netdev_look(struct uplink *u)
{
	unsigned index;
	struct ifreq req;
	bool up;
	int fd;

	if (!u->netdev[0])
		return true;
	index = if_nametoindex(u->netdev);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return u->up;
	memset(&req, 0, sizeof(req));
	memcpy(req.ifr_name, u->netdev, sizeof(u->netdev));
	up = ioctl(fd, SIOCGIFFLAGS, &req) == 0 && (req.ifr_flags & IFF_UP) && (req.ifr_flags & IFF_RUNNING);
	close(fd);
	if (u->netdev_index == 0)
		u->netdev_index = index; /* it came after the port */
	u->missing |= u->netdev_index != 0 && index == 0;
	u->lost |= up && (u->missing || index != u->netdev_index);
	return up && !u->lost;
}

/** memif's client connects when its port is started, and never again by itself. Another start before the two sides have
 *  agreed would break that off. */
static void reconnect(struct uplink *u)
{
	uint64_t now_ns = pmd_now_ns();

	if (now_ns < u->connect_ns)
		return;
	u->connect_ns = now_ns + UPLINK_CONNECT_NS;
	rte_eth_dev_stop(u->id);
	u->stopped = rte_eth_dev_start(u->id) != 0;
}

void uplink_check_link(struct uplink *u)
{
	struct rte_eth_link link = {0};
	const uint64_t one = 1;
	/* A driver that does not know its link is believed to have one. */
	bool up = rte_eth_link_get_nowait(u->id, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
	bool lost = u->lost;

	up &= netdev_look(u);
	if (!up && u->connects)
		reconnect(u);
	if (up == u->up && lost == u->lost)
		return;
	u->stats.link_changes += up != u->up;
	u->up = up;
	if (up)
		pmd_ethdev_announce(u->port); /* drivers without hardware make a new MAC at each start */
	if (write(u->changed_fd, &one, sizeof(one)) < 0)
		return; /* its count is at the maximum: it is readable */
}

/** @return for how long the switch may sleep, ns; 0: not now. Lock held. */
static uint64_t sleep_time(struct uplink *u, uint64_t idle_ns, uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t until_ns = deadline_ns < u->look_ns ? deadline_ns : u->look_ns, nap_ns;

	if (idle_ns < SPIN_NS || until_ns <= now_ns || u->port->more)
		return 0;
	if (u->full)
		return NAP_NS; /* the port's driver does not say when it has room */
	if (!uplink_sleep_announce(u))
		return 0;
	u->stats.sleeps++;
	if (u->port->wait_fd >= 0)
		return until_ns - now_ns;
	nap_ns = idle_ns / 8 < NAP_NS ? NAP_NS : idle_ns / 8 > NAP_MAX ? NAP_MAX : idle_ns / 8;
	return nap_ns < until_ns - now_ns ? nap_ns : until_ns - now_ns;
}

void *uplink_run(void *uplink)
{
	struct uplink *u = uplink;
	uint64_t moved_ns = pmd_now_ns();

	rte_thread_register(); /* for the caches of mempools; without, they do without */
	for (;;) {
		uint64_t now_ns, deadline_ns, ns;

		while (__atomic_load_n(&u->wanted, __ATOMIC_RELAXED) != 0)
			sched_yield();
		pthread_mutex_lock(&u->lock);
		if (u->stop)
			break;
		uplink_sleep_end(u);
		now_ns = pmd_now_ns();
		if (now_ns >= u->look_ns) {
			uplink_check_link(u);
			u->look_ns = now_ns + (u->up ? LOOK_NS : LOOK_DOWN_NS);
		}
		if (uplink_step(u, now_ns, &deadline_ns) > 0)
			moved_ns = now_ns;
		ns = sleep_time(u, now_ns - moved_ns, deadline_ns, now_ns);
		pthread_mutex_unlock(&u->lock);
		if (ns > 0)
			uplink_sleep(u, ns);
		else if (moved_ns != now_ns)
			sched_yield();
	}
	pthread_mutex_unlock(&u->lock);
	rte_thread_unregister();
	return NULL;
}
