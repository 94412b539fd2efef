/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - a function's side of the control plane after joining: messages from the daemon, and from a new daemon
 * that adopts us. control_visit.c accepts visitors.
 *
 * Traffic continues when the daemon ends: sockets, rings and queue pairs belong to the function. The next daemon finds
 * the function and adopts it.
 *
 * Owns: the connection to the daemon, the keeper, the file of connection records, and the epoll set of all that
 * pmd_control_poll watches.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "control_priv.h"
#include "eal.h"
#include "kernel_calls.h"
#include "points.h"
#include "port.h"
#include "tap.h"

#define POLL_EVENTS 16

/* ---- watches -------------------------------------------------------------------------------------------- */

int pmd_control_watch(struct pmd_control *c, struct pmd_watch *w, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = w};

	return kernel_epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, w->fd, &event) == 0 ? 0 : -errno;
}

void pmd_control_rewatch(struct pmd_control *c, struct pmd_watch *w, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = w};

	kernel_epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, w->fd, &event);
}

void pmd_control_unwatch(struct pmd_control *c, struct pmd_watch *w)
{
	kernel_epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
}

/* ---- the daemon ----------------------------------------------------------------------------------------- */

static void daemon_lose(struct pmd_host *host)
{
	struct pmd_control *c = host->control;

	if (c->device.uplink)
		pmd_port_uplink_gone(host->port);
	pmd_control_unwatch(c, &c->daemon);
	close(c->daemon.fd);
	c->daemon.fd = -1;
	c->services_late = c->records_told = false;
}

/** Send the file of connection records to the daemon, unless the daemon has it already. @return false: try again when
 * the connection is writable. If the user has too many descriptors in flight, no event tells when to try again, so this
 * function sets a timer. */
static bool daemon_tell_records(struct pmd_control *c)
{
	int rc;

	if (c->records_told || c->records_fd < 0)
		return true;
	rc = proto_send(c->daemon.fd, PROTO_RECORDS, NULL, 0, &c->records_fd, 1);
	c->records_told = rc == 0;
	c->stats.records_late += rc != 0;
	if (rc == -ETOOMANYREFS)
		pmd_control_retry(c);
	return rc != -EAGAIN;
}

/** Send the daemon the file of records, if it lacks that, and our services: the full list, not a change. If the queue
 * is full, one message is sent later, with the list current at that time. @return false: there is no daemon, or sending
 * has failed because the daemon has just ended. */
static bool daemon_tell_services(struct pmd_control *c)
{
	bool late;
	int rc;

	if (c->daemon.fd < 0)
		return false;
	late = !daemon_tell_records(c);
	rc = proto_send(c->daemon.fd, PROTO_SERVICES, c->services, c->n_services * sizeof(c->services[0]), NULL, 0);
	PMD_POINT(services_told);
	late = late || rc == -EAGAIN;
	if (late != c->services_late)
		pmd_control_rewatch(c, &c->daemon, late ? EPOLLIN | EPOLLOUT : EPOLLIN);
	c->services_late = late;
	return rc == 0 || rc == -EAGAIN;
}

bool pmd_control_services(struct pmd_control *c, const uint32_t *services, unsigned n)
{
	memcpy(c->services, services, n * sizeof(services[0]));
	c->n_services = n;
	return daemon_tell_services(c);
}

void pmd_control_records(struct pmd_control *c, int fd)
{
	if (c->records_fd >= 0)
		close(c->records_fd);
	c->records_fd = fd;
	c->records_told = false;
	if (fd >= 0)
		daemon_tell_services(c);
}

bool pmd_control_heard(const struct pmd_control *c)
{
	int unread = 0;

	if (c->daemon.fd < 0)
		return true;
	return !c->services_late && ioctl(c->daemon.fd, SIOCOUTQ, &unread) == 0 && unread == 0;
}

/** Set entry i of the GID table to `gid` (zeroes: no address). @param fd the socket of the address, which this function
 *  takes over; -1: none. */
static void address_set(struct pmd_host *host, unsigned i, const struct nic_gid *gid, uint32_t scope, int fd)
{
	const struct proto_device *now = &host->control->device;
	bool same = pmd_gid_equal(&now->gids[i], gid);

	if (now->uplink) {
		if (!same)
			nic_gid_set(host->nic, i, pmd_gid_is_none(gid) ? NULL : gid);
		return;
	}
	if (pmd_gid_is_link_local(gid) && now->scope != scope)
		same = false; /* the old socket is bound to another interface */
	if (same && (fd < 0 || pmd_port_udp_has(host->port, i))) {
		if (fd >= 0)
			close(fd);
		return;
	}
	pmd_port_udp_remove(host->port, i);
	if (!pmd_gid_is_none(gid) && (fd < 0 || pmd_port_udp_add(host->port, i, gid, scope, fd) != 0))
		host->control->stats.addresses_deaf++;
	nic_gid_set(host->nic, i, pmd_gid_is_none(gid) ? NULL : gid);
}

static bool has_addresses(const struct proto_device *device)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!pmd_gid_is_none(&device->gids[i]))
			return true;
	return false;
}

/** Replace the old keeper with `keeper`. -1: the daemon sent none. Then keep the old keeper if the device has
 *  addresses. If the device has none, close the old keeper, because its sockets would keep the old addresses in use. */
static void keeper_take(struct pmd_control *c, const struct proto_device *device, int keeper)
{
	if (keeper < 0 && has_addresses(device))
		return;
	if (c->keeper_fd >= 0)
		close(c->keeper_fd);
	c->keeper_fd = keeper;
}

/** Apply the device's current state from a message of the daemon. @return false: the message is malformed. */
static bool device_update(struct pmd_host *host, struct proto_msg *m)
{
	struct pmd_control *c = host->control;
	const struct proto_device *device = m->data;
	int sockets[NIC_GID_TABLE_LEN], rings[RING_PAIR_FDS], keeper;

	if (m->type != PROTO_DEVICE || m->len != sizeof(*device) || !pmd_gid_equal(&device->key, &c->device.key))
		return false;
	if (device->uplink != c->device.uplink || !control_device_read(device, m, 0, &keeper, sockets, rings))
		return false;
	PMD_POINT(news_come);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		address_set(host, i, &device->gids[i], device->scope, sockets[i]);
	pmd_tap_link(host, device->port_up);
	keeper_take(c, device, keeper);
	if (device->rings && pmd_port_uplink_rings(host->port, rings) != 0) {
		c->stats.rings_refused++; /* lose the connection: the daemon adopts us again, and makes new ones */
		return false;
	}
	c->device = *device;
	c->stats.updates++;
	host->ops->wake(host); /* the serving thread may be sleeping on a socket that has just been closed */
	return true;
}

/** Execute a fault command that a tool has given to the daemon for all functions of the device. @return false: the
 *  message is malformed. */
static bool device_fault(struct pmd_host *host, struct proto_msg *m)
{
	char text[PROTO_FAULT_MAX], err[160];

	if (m->type != PROTO_FAULT || m->len >= sizeof(text) || m->n_fds > 0)
		return false;
	memcpy(text, m->data, m->len);
	text[m->len] = '\0';
	if (pmd_tap_fault(host, text, err, sizeof(err)) == 0)
		host->control->stats.faults++;
	else
		host->control->stats.faults_refused++;
	return true;
}

/** Handle a packet to queue pair 1 that the daemon has received for us, as if the packet had come from the port. */
static bool daemon_mad(struct pmd_host *host, struct proto_msg *m)
{
	const struct proto_mad *mad = m->data;
	struct nic_rx_frame frame = {.flags = NIC_RX_UDP_PAYLOAD, .data = mad->packet, .len = PROTO_MAD_LEN};

	if (!proto_msg_is(m, PROTO_MAD, sizeof(*mad), 0) || pmd_gid_is_v4(&mad->own) != pmd_gid_is_v4(&mad->peer))
		return false;
	frame.dgid = mad->own;
	frame.sgid = mad->peer;
	frame.udp_sport = (uint16_t)mad->udp_sport;
	if (pmd_gid_is_v4(&mad->own))
		frame.flags |= NIC_RX_IP_ID_UNKNOWN;
	host->ops->take(host, &frame, pmd_now_ns());
	return true;
}

/** Handle the daemon's next message. @return false: none now, or the daemon is lost. */
static bool daemon_hear(struct pmd_host *host)
{
	struct pmd_control *c = host->control;
	PROTO_MSG(m);
	int rc = proto_recv(c->daemon.fd, &m);
	bool heard = rc == 1 && (m.type == PROTO_FAULT ? device_fault(host, &m)
				 : m.type == PROTO_MAD ? daemon_mad(host, &m)
						       : device_update(host, &m));

	proto_msg_close(&m);
	if (heard || rc == -EAGAIN)
		return heard;
	PMD_POINT(daemon_gone);
	if (rc == 0 || rc == -ECONNRESET)
		c->stats.daemon_lost++;
	else if (rc == -EMFILE)
		c->stats.updates_lost++; /* the daemon will adopt us again, and resend its state */
	else
		c->stats.bad_updates++;
	daemon_lose(host);
	return false;
}

static void daemon_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	(void)w;
	if ((events & EPOLLOUT) && host->control->services_late)
		daemon_tell_services(host->control);
	if (events & ~(uint32_t)EPOLLOUT)
		daemon_hear(host);
}

/** A daemon of the device connects to adopt our function: answer, and use its connection from now on. */
static void visit_adopt(struct pmd_host *host, int fd, struct proto_msg *m)
{
	struct pmd_control *c = host->control;
	const struct proto_adopt *adopt = m->data;
	struct proto_adopted adopted = {.function = c->function, .since_ns = c->since_ns, .join = c->join};
	struct ucred peer = {.uid = (uid_t)-1};
	int rc;

	if (!proto_msg_is(m, PROTO_ADOPT, sizeof(*adopt), 0) || !pmd_gid_equal(&adopt->key, &c->device.key) ||
	    proto_peer(fd, &peer) != 0 || (peer.uid != geteuid() && peer.uid != 0 && peer.uid != c->daemon_uid)) {
		c->stats.visitors_refused++;
		close(fd);
		return;
	}
	/* First read what the previous daemon has sent: we may be the only process that holds the sockets in its
	 * messages. */
	while (c->daemon.fd >= 0 && daemon_hear(host))
		;
	PMD_POINT(adopt_asked);
	adopted.keeper = c->keeper_fd >= 0;
	rc = proto_send(fd, PROTO_ADOPTED, &adopted, sizeof(adopted), &c->keeper_fd, adopted.keeper);
	if (rc != 0) {
		c->stats.adopt_in_flight += rc == -ETOOMANYREFS;
		close(fd);
		return;
	}
	PMD_POINT(adopt_answered);
	if (c->daemon.fd >= 0)
		daemon_lose(host);
	c->daemon.fd = pmd_fd_high(fd);
	c->daemon_uid = peer.uid;
	c->stats.daemon_adopted++;
	if (pmd_control_watch(c, &c->daemon, EPOLLIN) != 0)
		daemon_lose(host);
	daemon_tell_services(c);
}

/* ---- life ----------------------------------------------------------------------------------------------- */

void pmd_control_poll(struct pmd_host *host)
{
	struct pmd_control *c = host->control;
	struct epoll_event event;

	if (!c || host->dead)
		return;
	/* Fetch one event at a time: its handler may close the descriptor that the next event is about. Do not call
	 * epoll_wait(), which is a cancellation point. */
	for (unsigned i = 0; i < POLL_EVENTS; i++) {
		struct pmd_watch *w;

		if (syscall(SYS_epoll_pwait, c->epoll_fd, &event, 1, 0, NULL, 0) != 1)
			break;
		w = event.data.ptr;
		w->ready(host, w, event.events);
	}
	control_visitors_expire(c);
}

int control_watch_all(struct pmd_control *c)
{
	int rc;

	c->daemon.ready = daemon_ready;
	c->listen.ready = control_listen_ready;
	c->serve[PROTO_ADOPT] = visit_adopt;
	c->serve[PROTO_WHOIS] = control_visit_whois;
	c->timer.ready = control_timer_ready;
	rc = pmd_control_watch(c, &c->daemon, EPOLLIN);
	if (rc == 0)
		rc = pmd_control_watch(c, &c->timer, EPOLLIN);
	return rc == 0 ? pmd_control_watch(c, &c->listen, EPOLLIN) : rc;
}

int pmd_control_sockets(struct pmd_control *c, struct pmd_port *port)
{
	int rc = 0;

	if (c->device.rings) {
		rc = pmd_port_uplink_rings(port, c->rings);
		for (unsigned i = 0; i < RING_PAIR_FDS; i++)
			c->rings[i] = -1;
	}
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN && rc == 0; i++) {
		int fd = c->sockets[i];

		c->sockets[i] = -1;
		if (fd >= 0)
			rc = pmd_port_udp_add(port, i, &c->device.gids[i], c->device.scope, fd);
	}
	return rc;
}

void pmd_control_addresses(struct pmd_control *c, struct nic *nic)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!pmd_gid_is_none(&c->device.gids[i]))
			nic_gid_set(nic, i, &c->device.gids[i]);
	nic_port_set(nic, c->device.port_up);
}

unsigned pmd_control_uplink_mtu(const struct pmd_control *c)
{
	return c->device.uplink ? c->device.mtu : 0;
}

unsigned pmd_control_function(const struct pmd_control *c)
{
	return c->function;
}

const struct nic_gid *pmd_control_key(const struct pmd_control *c)
{
	return &c->device.key;
}

const struct proto_policy *pmd_control_policy(const struct pmd_control *c)
{
	return &c->device.policy;
}

int pmd_control_fd(const struct pmd_control *c)
{
	return c->epoll_fd;
}

const struct pmd_control_stats *pmd_control_stats(const struct pmd_control *c)
{
	return &c->stats;
}

void pmd_control_count_tool(struct pmd_control *c)
{
	c->stats.tools_refused++;
}

bool pmd_control_is_owner(const struct pmd_control *c, int fd)
{
	struct ucred peer;

	return proto_peer(fd, &peer) == 0 && (peer.uid == geteuid() || peer.uid == 0 || peer.uid == c->daemon_uid);
}

void pmd_control_abandon(struct pmd_control *c)
{
	/* In this order: our name must be free (listen.fd) by the time the daemon sees our connection end. */
	const int fds[] = {c->listen.fd, c->keeper_fd, c->records_fd, c->timer.fd, c->epoll_fd, c->daemon.fd};

	for (unsigned i = 0; i < CONTROL_VISITORS; i++)
		if (c->visitors[i].watch.fd >= 0)
			close(c->visitors[i].watch.fd);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (c->sockets[i] >= 0)
			close(c->sockets[i]);
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		if (c->rings[i] >= 0)
			close(c->rings[i]);
	for (struct pmd_listener *l = c->listeners; l; l = l->next)
		close(l->watch.fd);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void pmd_control_close(struct pmd_control *c)
{
	pmd_control_abandon(c);
	free(c);
}
