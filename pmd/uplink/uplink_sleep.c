/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_sleep.c - the switch's sleep: until a function rings, the port's descriptor is readable, or a time is over.
 *
 * The set of bells is watched edge-triggered: the bell of a function that is gone stays readable, until the daemon
 * disconnects the function, and must not keep the switch awake. A bell that has rung is read before the next sleep:
 * its queue is finite.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "port.h"
#include "uplink_priv.h"

bool uplink_sleep_announce(struct uplink *u)
{
	for (unsigned i = 0; i < u->n_active; i++)
		if (!ring_pair_sleep(&u->functions[u->active[i]].rings)) {
			while (i-- > 0)
				ring_pair_awake(&u->functions[u->active[i]].rings);
			return false;
		}
	u->asleep = true;
	return true;
}

bool uplink_sleep(struct uplink *u, uint64_t ns)
{
	const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	struct pollfd fds[] = {{.fd = u->epoll_fd, .events = POLLIN}, {.fd = u->port->wait_fd, .events = POLLIN}};
	struct epoll_event events[UPLINK_BELLS];
	socklen_t len = sizeof(int);
	int n = 0, error;

	if (ppoll(fds, 2, &t, NULL) <= 0)
		return false;
	if (fds[0].revents)
		n = epoll_wait(u->epoll_fd, events, UPLINK_BELLS, 0);
	u->n_rung = 0;
	for (int i = 0; i < n; i++)
		if (events[i].data.u32 < UPLINK_FUNCTIONS)
			u->rung[u->n_rung++] = (uint8_t)events[i].data.u32;
	if (fds[1].revents & POLLERR) /* the interface went down: poll() reports an error until it is read */
		getsockopt(u->port->wait_fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return true;
}

void uplink_sleep_end(struct uplink *u)
{
	for (unsigned i = 0; u->asleep && i < u->n_active; i++)
		ring_pair_awake(&u->functions[u->active[i]].rings);
	for (unsigned i = 0; i < u->n_rung; i++)
		if (u->functions[u->rung[i]].there)
			ring_pair_drain(&u->functions[u->rung[i]].rings);
	u->n_rung = 0;
	u->asleep = false;
}
