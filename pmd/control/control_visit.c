/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_visit.c - visitors of a function. They connect to the function's name or to the name of one of its services.
 * A visitor is a daemon that adopts the function or asks whether an address is the device's, another function that
 * offers a ring, or a tool that makes a request; the visitor's first message says which of these it is. A silent
 * visitor is dropped by the first poll after SILENT_NS, or earlier to make room for another visitor.
 *
 * Owns: the listening sockets, and visitors until they are served.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control_priv.h"
#include "eal.h"
#include "local.h"
#include "points.h"
#include "services.h"

#define SILENT_NS 1000000000u
#define DEAF_NS	  100000000 /* delay of pmd_control_retry, which also ends a pause of listening */

static void visitor_drop(struct pmd_control *c, struct control_visitor *v, uint64_t *counter)
{
	pmd_control_unwatch(c, &v->watch);
	close(v->watch.fd);
	v->watch.fd = -1;
	++*counter;
}

static void visitor_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct pmd_control *c = host->control;
	struct control_visitor *v = (struct control_visitor *)w;
	struct proto_msg m = {.data = &c->room, .room = sizeof(c->room)};
	int rc = proto_recv(w->fd, &m), fd = w->fd;

	(void)events;
	if (rc == -EAGAIN)
		return;
	if (rc == 1 && m.type < CONTROL_TYPES && c->serve[m.type]) {
		pmd_control_unwatch(c, w);
		w->fd = -1;
		c->serve[m.type](host, fd, &m);
	} else {
		visitor_drop(c, v, &c->stats.visitors_unknown);
	}
	proto_msg_close(&m);
}

/** @return an entry for a new visitor. If none is free, the visitor that connected first is dropped and its entry
 *  reused. */
static struct control_visitor *visitor_new(struct pmd_control *c)
{
	struct control_visitor *oldest = &c->visitors[0];

	for (unsigned i = 0; i < CONTROL_VISITORS; i++) {
		if (c->visitors[i].watch.fd < 0)
			return &c->visitors[i];
		if (c->visitors[i].since_ns < oldest->since_ns)
			oldest = &c->visitors[i];
	}
	visitor_drop(c, oldest, &c->stats.visitors_silent);
	return oldest;
}

/** Set the epoll events of all listeners: EPOLLIN, or 0 to pause. */
static void listen_set(struct pmd_control *c, uint32_t events)
{
	pmd_control_rewatch(c, &c->listen, events);
	for (struct pmd_listener *l = c->listeners; l; l = l->next)
		pmd_control_rewatch(c, &l->watch, events);
}

bool pmd_control_retry(struct pmd_control *c)
{
	const struct itimerspec once = {.it_value = {.tv_nsec = DEAF_NS}};

	/* A running timer is not restarted. */
	c->timer_runs = c->timer_runs || timerfd_settime(c->timer.fd, 0, &once, NULL) == 0;
	return c->timer_runs;
}

/** There is no descriptor left for a visitor, who stays in the accept queue. Pause listening: otherwise epoll would
 *  report the visitor continuously. */
static void listen_pause(struct pmd_control *c)
{
	c->stats.visitors_waiting++;
	if (pmd_control_retry(c))
		listen_set(c, 0);
}

void control_timer_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct pmd_control *c = host->control;
	uint64_t count;

	(void)events;
	if (syscall(SYS_read, w->fd, &count, sizeof(count)) <= 0)
		return;
	c->timer_runs = false;
	listen_set(c, EPOLLIN);
	pmd_local_retry(host);
	if (c->records_fd >= 0 && !c->records_told)
		pmd_services_tell(host);
}

void control_listen_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct pmd_control *c = host->control;
	int fd = pmd_fd_high(proto_accept(w->fd));
	struct control_visitor *v;

	(void)events;
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
		listen_pause(c);
	if (fd < 0)
		return;
	c->stats.visitors++;
	PMD_POINT(visitor_accepted);
	if (!proto_peer_allowed(fd, &c->device.policy, NULL)) {
		c->stats.visitors_refused++;
		close(fd);
		return;
	}
	v = visitor_new(c);
	v->watch = (struct pmd_watch){.fd = fd, .ready = visitor_ready};
	v->since_ns = pmd_now_ns();
	if (pmd_control_watch(c, &v->watch, EPOLLIN) != 0) {
		close(fd);
		v->watch.fd = -1;
	}
}

int pmd_control_listen(struct pmd_control *c, struct pmd_listener *l, const struct proto_name *name)
{
	int fd = pmd_fd_high(proto_listen(name)), rc;

	if (fd < 0)
		return fd;
	l->watch = (struct pmd_watch){.fd = fd, .ready = control_listen_ready};
	rc = pmd_control_watch(c, &l->watch, EPOLLIN);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	l->next = c->listeners;
	c->listeners = l;
	return 0;
}

void pmd_control_unlisten(struct pmd_control *c, struct pmd_listener *l)
{
	struct pmd_listener **at = &c->listeners;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	pmd_control_unwatch(c, &l->watch);
	close(l->watch.fd);
}

void control_visitors_expire(struct pmd_control *c)
{
	uint64_t now_ns = 0;

	for (unsigned i = 0; i < CONTROL_VISITORS; i++) {
		struct control_visitor *v = &c->visitors[i];

		if (v->watch.fd < 0)
			continue;
		if (now_ns == 0)
			now_ns = pmd_now_ns();
		if (pmd_clock_age(now_ns, v->since_ns) > SILENT_NS)
			visitor_drop(c, v, &c->stats.visitors_silent);
	}
}

void pmd_control_serve(struct pmd_control *c, unsigned type, pmd_visit_fn fn)
{
	c->serve[type] = fn;
}
