/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep.c - what the serving thread sleeps on, and for how long. The serving thread is the engine's thread, or an
 * application thread that takes its place.
 *
 * Two eventfds end sleeps: the doorbell, which wakes only the engine's thread, and the bell, which wakes the serving
 * thread and is also rung by other processes.
 *
 * The engine's thread sleeps in ppoll(). An application thread that serves is woken for every message, so each system
 * call adds latency. So it sleeps on an epoll set that watches the bell edge-triggered: then the bell's count need not
 * be cleared.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "eal.h"
#include "engine_priv.h"
#include "kernel_calls.h"
#include "tap.h"

int pmd_sleep_open(struct pmd_engine *e)
{
	int rc = 0;

	e->sleeper.wait_set = -1;
	e->sleeper.doorbell_fd = pmd_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	e->host.bell_fd = pmd_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (e->sleeper.doorbell_fd < 0 || e->host.bell_fd < 0) {
		rc = -errno;
		pmd_sleep_close(e);
	}
	return rc;
}

void pmd_sleep_close(struct pmd_engine *e)
{
	close(e->sleeper.doorbell_fd);
	close(e->host.bell_fd);
	if (e->sleeper.wait_set >= 0)
		close(e->sleeper.wait_set);
}

static void count_up(int fd)
{
	const uint64_t one = 1;

	/* Do not call write(): it is a cancellation point, and callers may hold locks. */
	syscall(SYS_write, fd, &one, sizeof(one));
}

void pmd_engine_kick(struct pmd_engine *e)
{
	count_up(e->sleeper.doorbell_fd);
}

void pmd_engine_wake(struct pmd_engine *e)
{
	count_up(__atomic_load_n(&e->waiter.serves, __ATOMIC_RELAXED) ? e->host.bell_fd : e->sleeper.doorbell_fd);
}

/** The earliest deadline of the NIC, port, links, connection manager and taps, except the trimming of idle links. */
static uint64_t next_deadline_ns(const struct pmd_engine *e)
{
	uint64_t deadline = nic_next_deadline(e->host.nic);

	if (e->steps.port_deadline_ns < deadline)
		deadline = e->steps.port_deadline_ns;
	if (pmd_links_retry(e->host.links) < deadline)
		deadline = pmd_links_retry(e->host.links);
	if (e->cm && nic_cm_deadline(e->cm->nic_cm) < deadline)
		deadline = nic_cm_deadline(e->cm->nic_cm);
	if (pmd_unlikely(e->host.taps) && pmd_tap_deadline(&e->host) < deadline)
		deadline = pmd_tap_deadline(&e->host);
	return deadline;
}

uint64_t pmd_engine_timeout(struct pmd_engine *e, unsigned got, uint64_t now_ns)
{
	uint64_t trim_ns = pmd_links_trim(e->host.links, now_ns); /* first: trimming can end links and start timers */
	uint64_t deadline = next_deadline_ns(e), interval = IDLE_UNBOUNDED;
	bool full = pmd_engine_is_full(e), pending = pmd_engine_port_pending(e);
	bool work = e->host.port->more || pmd_links_pending(e->host.links) || nic_acks_wait(e->host.nic);

	if (e->host.port->wait_fd < 0)
		interval = e->sleeper.interval_ns = idle_interval_ns(e->sleeper.interval_ns, got);
	work |= !full && pending && e->tx.ready;
	return idle_sleep_ns(work, full || pending ? PMD_RETRY_NS : 0, trim_ns < deadline ? trim_ns : deadline,
			     interval, now_ns);
}

bool pmd_sleep_announce(struct pmd_engine *e)
{
	struct pmd_port *port = e->host.port;

	if (!pmd_links_sleep(e->host.links))
		return false;
	if (!port->ops->sleep || port->ops->sleep(port))
		return true;
	pmd_links_awake(e->host.links);
	return false;
}

void pmd_sleep_over(struct pmd_engine *e)
{
	pmd_links_awake(e->host.links);
	if (e->host.port->ops->awake)
		e->host.port->ops->awake(e->host.port);
}

uint64_t pmd_sleep_begin(struct pmd_engine *e, uint64_t now_ns, uint64_t timeout_ns, unsigned who)
{
	uint64_t wake_ns = timeout_ns == 0 ? 0 : timeout_ns == UINT64_MAX ? UINT64_MAX : now_ns + timeout_ns;

	if (wake_ns != 0)
		wake_ns = (wake_ns & ~(uint64_t)PMD_WAKE_THREAD) | who;
	e->sleeper.retries = pmd_engine_is_full(e);
	__atomic_store_n(&e->sleeper.wake_ns, wake_ns, __ATOMIC_RELAXED);
	return wake_ns;
}

void pmd_sleep_end(struct pmd_engine *e)
{
	__atomic_store_n(&e->sleeper.wake_ns, 0, __ATOMIC_RELAXED);
}

void pmd_sleep_end_thread(struct pmd_engine *e)
{
	uint64_t wake_ns = __atomic_load_n(&e->sleeper.wake_ns, __ATOMIC_RELAXED);

	if (wake_ns & PMD_WAKE_THREAD)
		__atomic_compare_exchange_n(&e->sleeper.wake_ns, &wake_ns, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

bool pmd_sleep_is_over(struct pmd_engine *e)
{
	bool work = pmd_engine_port_pending(e) || pmd_links_pending(e->host.links) ||
		    (pmd_engine_is_full(e) && !e->sleeper.retries);

	if (!idle_rings(__atomic_load_n(&e->sleeper.wake_ns, __ATOMIC_RELAXED), work, next_deadline_ns(e)))
		return false;
	pmd_sleep_end(e);
	return true;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/** Clear the count of an eventfd. @return false: the count was 0. */
static bool count_take(int fd)
{
	uint64_t count;

	return syscall(SYS_read, fd, &count, sizeof(count)) > 0;
}

/** Clear the pending error of a packet socket whose interface went down: poll() reports an error until it is read. */
static void fetch_error(int fd)
{
	socklen_t len = sizeof(int);
	int error;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
}

unsigned pmd_engine_sleep(struct pmd_engine *e, bool serve, uint64_t timeout_ns)
{
	struct pollfd fds[] = {{.fd = e->sleeper.doorbell_fd, .events = POLLIN},
			       {.fd = e->host.bell_fd, .events = POLLIN},
			       {.fd = __atomic_load_n(&e->host.port->wait_fd, __ATOMIC_RELAXED), .events = POLLIN},
			       {.fd = e->host.control ? pmd_control_fd(e->host.control) : -1, .events = POLLIN}};
	struct timespec t = timespec_of(timeout_ns);
	unsigned woken = 0;
	int n;

	n = ppoll(fds, serve ? 4 : 1, timeout_ns == UINT64_MAX ? NULL : &t, NULL);
	if (n <= 0)
		return n < 0 && errno == EINTR ? PMD_WOKEN_SIGNAL : 0;
	for (unsigned i = 0; i < 4; i++)
		if (fds[i].revents & POLLNVAL)
			woken |= PMD_WOKEN_CLOSED;
	if (fds[2].revents & POLLERR)
		fetch_error(fds[2].fd);
	if (fds[0].revents && count_take(e->sleeper.doorbell_fd))
		woken |= PMD_WOKEN_DOORBELL;
	if (fds[1].revents && count_take(e->host.bell_fd))
		woken |= PMD_WOKEN_BELL;
	if (fds[2].revents)
		woken |= PMD_WOKEN_PORT;
	if (fds[3].revents)
		woken |= PMD_WOKEN_CONTROL;
	return woken;
}

/* ---- sleep of an application thread that serves -------------------------------------------------------------- */

static bool set_add(int set, int fd, uint32_t events, enum pmd_woken woken)
{
	struct epoll_event event = {.events = events, .data.u32 = woken};

	return fd < 0 || kernel_epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

/** @return a new epoll set; -1: it could not be made. */
static int set_make(const struct pmd_engine *e)
{
	int set = pmd_fd_high(kernel_epoll_create());

	if (set >= 0 &&
	    (!set_add(set, e->host.bell_fd, EPOLLIN | EPOLLET, PMD_WOKEN_BELL) ||
	     !set_add(set, e->host.port->wait_fd, EPOLLIN, PMD_WOKEN_PORT) ||
	     !set_add(set, e->host.control ? pmd_control_fd(e->host.control) : -1, EPOLLIN, PMD_WOKEN_CONTROL))) {
		close(set);
		set = -1;
	}
	return set;
}

/* When the port's descriptor has changed, make a new set. A closed socket stays in an epoll set as long as duplicates
 * of the socket are open elsewhere, and sockets from the daemon have duplicates. */
bool pmd_engine_wait_prepare(struct pmd_engine *e)
{
	int cancel_state;

	if (e->sleeper.wait_set >= 0 && e->sleeper.wait_changes == e->host.port->wait_changes)
		return true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
			       &cancel_state); /* close() can be cancelled, and the engine is locked */
	if (e->sleeper.wait_set >= 0)
		close(e->sleeper.wait_set);
	e->sleeper.wait_set = set_make(e);
	e->sleeper.wait_changes = e->host.port->wait_changes;
	pthread_setcancelstate(cancel_state, NULL);
	return e->sleeper.wait_set >= 0;
}

/* Read with RWF_NOWAIT, because another process may have made the bell's eventfd blocking. */
void pmd_engine_bell_drain(struct pmd_engine *e)
{
	uint64_t count;
	struct iovec iov = {&count, sizeof(count)};

	syscall(SYS_preadv2, e->host.bell_fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
}

unsigned pmd_engine_wait(struct pmd_engine *e, uint64_t timeout_ns)
{
	struct pollfd set = {.fd = e->sleeper.wait_set, .events = POLLIN};
	struct timespec t = timespec_of(timeout_ns);
	struct epoll_event events[3];
	unsigned woken = 0;
	int n;

	/* Use ppoll() for the timeout: that of epoll_pwait() is in milliseconds. */
	n = timeout_ns == 0 || timeout_ns == UINT64_MAX ? 1 : ppoll(&set, 1, &t, NULL);
	if (n > 0)
		n = kernel_epoll_wait(e->sleeper.wait_set, events, 3, timeout_ns == UINT64_MAX ? -1 : 0);
	if (n < 0)
		return errno == EINTR ? PMD_WOKEN_SIGNAL : PMD_WOKEN_CLOSED;
	for (int i = 0; i < n; i++) {
		woken |= events[i].data.u32;
		if (events[i].data.u32 == PMD_WOKEN_PORT && (events[i].events & EPOLLERR))
			fetch_error(e->host.port->wait_fd);
	}
	if (!(woken & PMD_WOKEN_PACKETS))
		pmd_engine_bell_drain(e);
	return woken;
}
