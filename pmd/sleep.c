/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep.c - what an engine's thread, or an application thread that stands in for it, sleeps on, and for how long.
 *
 * Two eventfds: the doorbell is the thread's own; the bell wakes whoever serves, and other processes ring it too.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "engine_priv.h"
#include "tap.h"

/* Ports without a descriptor to wait on are looked at after intervals that grow to this. */
#define INTERVAL_MIN_NS PMD_RETRY_NS
#define INTERVAL_MAX_NS 1000000

static void count_up(int fd)
{
	const uint64_t one = 1;

	/* The counter of an eventfd cannot be full here; and if it were, the sleeper would wake all the same. Not write(): a
	 * cancellation point, and callers hold locks. */
	syscall(SYS_write, fd, &one, sizeof(one));
}

void pmd_engine_kick(struct pmd_engine *e)
{
	count_up(e->doorbell_fd);
}

void pmd_engine_call(struct pmd_engine *e)
{
	count_up(__atomic_load_n(&e->waiter, __ATOMIC_RELAXED) ? e->bell_fd : e->doorbell_fd);
}

/** Until a port without a descriptor is to be looked at again: longer and longer while nothing comes. */
static uint64_t interval_ns(struct pmd_engine *e, unsigned got)
{
	e->interval_ns = got ? 0 : e->interval_ns ? e->interval_ns * 5 / 4 : INTERVAL_MIN_NS;
	if (e->interval_ns > INTERVAL_MAX_NS)
		e->interval_ns = INTERVAL_MAX_NS;
	return e->interval_ns;
}

uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns)
{
	uint64_t interval = e->port->wait_fd < 0 ? interval_ns(e, got) : UINT64_MAX;
	uint64_t deadline = nic_next_deadline(e->nic), trim_ns = pmd_links_trim(e->links, now_ns);

	if (e->port->more || pmd_links_pending(e->links) || nic_acks_wait(e->nic))
		return 0;
	if (pmd_engine_is_full(e))
		return PMD_RETRY_NS;
	if (pmd_engine_port_pending(e))
		return e->tx_ready ? 0 : PMD_RETRY_NS;
	if (e->port_deadline_ns < deadline)
		deadline = e->port_deadline_ns;
	if (pmd_links_retry(e->links) < deadline)
		deadline = pmd_links_retry(e->links);
	if (trim_ns < deadline)
		deadline = trim_ns;
	if (pmd_unlikely(e->taps) && pmd_tap_deadline(e) < deadline)
		deadline = pmd_tap_deadline(e);
	if (deadline <= now_ns)
		return 0;
	if (deadline != UINT64_MAX && deadline - now_ns < interval)
		return deadline - now_ns;
	return interval;
}

unsigned pmd_engine_sleep(struct pmd_engine *e, int fd, bool serve, uint64_t timeout_ns)
{
	struct pollfd fds[] = {{.fd = serve && fd >= 0 ? -1 : e->doorbell_fd, .events = POLLIN},
			       {.fd = fd, .events = POLLIN},
			       {.fd = e->bell_fd, .events = POLLIN},
			       {.fd = __atomic_load_n(&e->port->wait_fd, __ATOMIC_RELAXED), .events = POLLIN},
			       {.fd = e->control ? pmd_control_fd(e->control) : -1, .events = POLLIN}};
	struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
	unsigned woken = 0;
	socklen_t error_len = sizeof(int);
	uint64_t count;
	int error, n;

	n = ppoll(fds, serve ? 5 : 2, timeout_ns == UINT64_MAX ? NULL : &t, NULL);
	if (n <= 0)
		return n < 0 && errno == EINTR ? PMD_WOKEN_SIGNAL : 0;
	for (unsigned i = 0; i < 5; i++)
		if (fds[i].revents & POLLNVAL)
			woken |= PMD_WOKEN_CLOSED;
	/* Of a packet socket whose interface went down: reported until it is fetched. */
	if (fds[3].revents & POLLERR)
		getsockopt(fds[3].fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
	if (fds[0].revents && syscall(SYS_read, fds[0].fd, &count, sizeof(count)) > 0)
		woken |= PMD_WOKEN_DOORBELL;
	if (fds[1].revents)
		woken |= PMD_WOKEN_OTHER;
	if (fds[2].revents && syscall(SYS_read, fds[2].fd, &count, sizeof(count)) > 0)
		woken |= PMD_WOKEN_PACKETS;
	if (fds[3].revents)
		woken |= PMD_WOKEN_PACKETS;
	if (fds[4].revents)
		woken |= PMD_WOKEN_CONTROL;
	return woken;
}
