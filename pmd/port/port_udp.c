/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp.c - a port on kernel UDP sockets bound to port 4791, one for each address of the device and for each
 * multicast group that was joined. Needs no privilege and no set-up.
 *
 * Opens and closes the port, adds and removes sockets; port_udp_rx.c receives, port_udp_tx.c sends, udp_socket.c
 * creates sockets. In an engine the daemon creates the addresses' sockets, and the kernel distributes received packets
 * among the sockets of all functions.
 *
 * As long as the port has had only one socket, port.wait_fd is this socket. When a second socket is added, or a socket
 * is removed, an epoll set of all sockets becomes wait_fd. A thread reads wait_fd without the lock and may sleep on it,
 * so if the socket that was wait_fd is removed, its descriptor number becomes a duplicate of the epoll set.
 *
 * Owns: the sockets, the receive buffer, a table of peers that run uroce on kernel sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "eal.h"
#include "kernel_calls.h"
#include "port_udp.h"
#include "udp_socket.h"

#define UDP_INFLIGHT_MAX (1 << 20) /* bytes in flight per QP; more does not add bandwidth on a socket */
#define UDP_ACK_DELAY_NS 20000

static uint64_t udp_drops(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0 ? info[SK_MEMINFO_DROPS] : 0;
}

static void udp_stats(struct pmd_port *port)
{
	struct port_udp *u = (struct port_udp *)port;

	port->stats.rx_no_room = u->drops_gone;
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		if (u->sockets[i].fd >= 0)
			port->stats.rx_no_room += udp_drops(u->sockets[i].fd) - u->sockets[i].drops_before;
}

static void udp_abandon(struct pmd_port *port)
{
	struct port_udp *u = (struct port_udp *)port;

	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		if (u->sockets[i].fd >= 0)
			close(u->sockets[i].fd);
	if (u->epoll_fd >= 0)
		close(u->epoll_fd);
	if (u->retired_fd >= 0)
		close(u->retired_fd);
}

static void udp_close(struct pmd_port *port)
{
	struct port_udp *u = (struct port_udp *)port;

	udp_abandon(port);
	free(u->rx_buf);
	free(u);
}

static int udp_join(struct pmd_port *port, const struct nic_gid *group);
static void udp_leave(struct pmd_port *port, const struct nic_gid *group);

static const struct pmd_port_ops udp_ops = {
	.rx_burst = udp_rx_burst,
	.rx_accepted = udp_rx_accepted,
	.tx_burst = udp_tx_burst,
	.tx_copies = true,
	.join = udp_join,
	.leave = udp_leave,
	.stats = udp_stats,
	.close = udp_close,
	.abandon = udp_abandon,
};

/* ---- sockets -------------------------------------------------------------------------------------------- */

static int udp_watch(struct port_udp *u, unsigned index)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};

	return kernel_epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->sockets[index].fd, &event) == 0 ? 0 : -errno;
}

static void udp_wait_on(struct port_udp *u, int fd)
{
	__atomic_store_n(&u->port.wait_fd, fd, __ATOMIC_RELAXED);
	u->port.wait_changes++;
}

/** Make wait_fd an epoll set that watches all sockets. Called before a further socket is added, and before a socket is
 *  removed. @return 0 or a negative errno. */
static int udp_use_epoll(struct port_udp *u)
{
	int fd, rc;

	if (u->epoll_fd >= 0)
		return 0;
	fd = pmd_fd_high(kernel_epoll_create());
	if (fd < 0)
		return -errno;
	u->epoll_fd = fd;
	for (unsigned i = 0; i < UDP_SOCKETS; i++) {
		if (u->sockets[i].fd < 0)
			continue;
		rc = udp_watch(u, i);
		if (rc != 0) {
			u->epoll_fd = -1;
			close(fd);
			return rc;
		}
	}
	udp_wait_on(u, fd);
	return 0;
}

/** Close a socket. If a thread may be about to sleep on the socket's descriptor number (`was_wait_fd`), that number
 *  becomes a duplicate of the epoll set. */
static void udp_retire(struct port_udp *u, struct udp_socket *s, bool was_wait_fd)
{
	if (u->epoll_fd >= 0)
		kernel_epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	if (was_wait_fd && u->retired_fd < 0 && dup3(u->epoll_fd, s->fd, O_CLOEXEC) >= 0)
		u->retired_fd = s->fd;
	else
		close(s->fd);
	s->fd = -1;
}

/** Find the maximum number of bytes that a QP may have in flight. These bytes must fit into the receiver's buffer,
 *  because the kernel silently drops what does not fit, and go-back-N then retransmits everything. We assume that the
 *  receiver's buffer is as large as ours. Use a quarter of the buffer, because the kernel also charges its overhead to
 *  the buffer. Several QPs share the buffer, and shrink their windows on loss. */
static uint32_t udp_inflight(int fd)
{
	socklen_t len = sizeof(int);
	int size;

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len) != 0)
		size = 212992;
	return (uint32_t)size / 4 < UDP_INFLIGHT_MAX ? (uint32_t)size / 4 : UDP_INFLIGHT_MAX;
}

bool pmd_port_udp_has(const struct pmd_port *port, unsigned index)
{
	return ((const struct port_udp *)port)->sockets[index].fd >= 0;
}

int pmd_port_udp_add(struct pmd_port *port, unsigned index, const struct nic_gid *gid, uint32_t scope, int fd)
{
	struct port_udp *u = (struct port_udp *)port;
	struct udp_socket *s = &u->sockets[index];
	struct udp_socket new = {.fd = fd, .gid = *gid, .scope = scope, .v4 = pmd_gid_is_v4(gid)};
	int rc = 0, zero = 0;

	if (s->fd >= 0)
		pmd_port_udp_remove(port, index);
	/* The socket may have belonged to another function: reset its traffic class. The first packet sets the hop
	 * limit. */
	setsockopt(fd, new.v4 ? IPPROTO_IP : IPPROTO_IPV6, new.v4 ? IP_TOS : IPV6_TCLASS, &zero, sizeof(zero));
	new.gso = pmd_udp_socket_gso(fd);
	new.groups = !udp_is_group(index) && pmd_udp_socket_multicast(fd, gid, scope) == 0;
	new.drops_before = udp_drops(fd);
	if (u->open != 0 || u->epoll_fd >= 0)
		rc = udp_use_epoll(u);
	*s = new;
	if (rc == 0 && u->epoll_fd >= 0)
		rc = udp_watch(u, index);
	if (rc != 0) {
		close(fd);
		s->fd = -1;
		return rc;
	}
	if (u->epoll_fd < 0)
		udp_wait_on(u, fd);
	if (u->open == 0 && port->max_inflight == 0)
		port->max_inflight = udp_inflight(fd);
	u->open |= UINT64_C(1) << index;
	u->tx_last = index;
	if (u->split.left == 0) /* otherwise rx_last stays the socket of the datagram that is being split */
		u->rx_last = index;
	return 0;
}

void pmd_port_udp_remove(struct pmd_port *port, unsigned index)
{
	struct port_udp *u = (struct port_udp *)port;
	struct udp_socket *s = &u->sockets[index];
	bool was_wait_fd = s->fd == port->wait_fd;

	if (s->fd < 0)
		return;
	/* Discard the rest of a datagram of which some packets have been read. */
	if (u->rx_last == index)
		u->split.left = 0;
	u->drops_gone += udp_drops(s->fd) - s->drops_before;
	if (udp_use_epoll(u) != 0)
		was_wait_fd = false; /* no epoll set: the port has no wait_fd now */
	udp_retire(u, s, was_wait_fd);
	if (u->epoll_fd < 0)
		udp_wait_on(u, -1);
	u->open &= ~(UINT64_C(1) << index);
	u->hot &= ~(UINT64_C(1) << index);
}

/* ---- multicast groups ------------------------------------------------------------------------------------ */

/** Join on the interface of our first address of the group's family (IPv4 or IPv6). */
static int udp_join(struct pmd_port *port, const struct nic_gid *group)
{
	struct port_udp *u = (struct port_udp *)port;
	const struct udp_socket *own = u->sockets;
	unsigned index = NIC_GID_TABLE_LEN;
	int fd;

	while (own < u->sockets + NIC_GID_TABLE_LEN && (own->fd < 0 || own->v4 != pmd_gid_is_v4(group)))
		own++;
	if (own == u->sockets + NIC_GID_TABLE_LEN)
		return -EADDRNOTAVAIL;
	while (index < UDP_SOCKETS && u->sockets[index].fd >= 0)
		index++;
	if (index == UDP_SOCKETS)
		return -ENOMEM;
	fd = pmd_fd_high(pmd_udp_socket_join(group, &own->gid, own->scope));
	return fd < 0 ? fd : pmd_port_udp_add(port, index, group, own->scope, fd);
}

static void udp_leave(struct pmd_port *port, const struct nic_gid *group)
{
	struct port_udp *u = (struct port_udp *)port;

	for (unsigned index = NIC_GID_TABLE_LEN; index < UDP_SOCKETS; index++)
		if (u->sockets[index].fd >= 0 && pmd_gid_equal(&u->sockets[index].gid, group))
			pmd_port_udp_remove(port, index);
}

/* ---- the port ------------------------------------------------------------------------------------------- */

int pmd_port_udp_create(unsigned function, struct pmd_port **out, char *err, size_t err_len)
{
	struct port_udp *u = calloc(1, sizeof(*u));

	if (!u || !(u->rx_buf = aligned_alloc(64, UDP_RX_BYTES))) {
		free(u);
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	u->port.ops = &udp_ops;
	u->port.wait_fd = u->epoll_fd = u->retired_fd = -1;
	u->port.udp_sport = NIC_UDP_PORT;
	u->port.ack_delay_ns = UDP_ACK_DELAY_NS;
	u->function = function;
	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		u->sockets[i].fd = -1;
	*out = &u->port;
	return 0;
}

int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct pmd_pool *pool, struct pmd_port **out,
		      char *err, size_t err_len)
{
	uint32_t scope = device->netdev[0] ? if_nametoindex(device->netdev) : 0;
	int fd = pmd_fd_high(pmd_udp_socket_open(&device->gid, scope, false, err, err_len)), rc;

	(void)pool;
	(void)mtu;
	if (fd < 0)
		return fd;
	rc = pmd_port_udp_create(0, out, err, err_len);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	return pmd_port_udp_add(*out, 0, &device->gid, scope, fd);
}
