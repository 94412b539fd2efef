/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_steer.c - which function receives which datagram.
 *
 * All functions share UDP port 4791 of an address. Each function has one socket per address, which the daemon binds
 * with SO_REUSEPORT, in the order of the functions' numbers. A BPF program makes the kernel choose the socket by the
 * first byte of the destination QPN. The daemon passes a function's sockets to the function, and itself keeps all
 * sockets open: if one were closed, the kernel would move the group's last socket to its place. The daemon drops and
 * counts datagrams for free numbers and for number 0, its own.
 *
 * Datagrams for a service (QPN: 0xff, then a 16-bit port) go to the function that serves the port: functions report
 * their ports, and the program lists them. The program has room for many ports, but not for every possible port: it
 * lists one port of each function, then a second port of each function that has more, and so on. If some ports are not
 * listed, datagrams for them go to one of the functions that serve such a port, which forwards them to the right
 * function. If all are listed, datagrams for other ports go to the first function that serves any port; its NIC answers
 * a connection request with the error that the service does not exist.
 *
 * Owns: the sockets of daemon.gids.
 */
#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic_rdm.h"
#include "points.h"
#include "udp_socket.h"
#include "uroced.h"

#define BTH_DEST_QPN	   5
#define STEER_HEAD	   5   /* number of instructions before those for services */
#define STEER_SERVICES_MAX 512 /* ports: they fit into a program of 20 KiB, the kernel's default limit */
#define DRAIN_BURST	   64
#define FLUSH_MAX	   65536 /* most datagrams to flush: more than a socket buffer holds */

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

/* ---- steering ------------------------------------------------------------------------------------------- */

/** Generate instructions for up to `room` services. @return the number of instructions. */
static unsigned steer_services(const struct daemon *d, const struct entry *e, struct sock_filter *code, unsigned room)
{
	unsigned at = 0, rest = 0, first = 0;

	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, BTH_DEST_QPN + 1);
	for (unsigned i = 0, more = 1; more > 0; i++) {
		more = 0;
		for (unsigned n = 1; n < e->n_sockets; n++) {
			const struct slot *s = &d->slots[n];

			if (i >= s->n_services)
				continue;
			first = first ? first : n;
			more++;
			if (room == 0) {
				rest = n;
				continue;
			}
			room--;
			code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, s->services[i], 0, 1);
			code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, n);
		}
		if (room == 0 && rest != 0)
			break;
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rest ? rest : first);
	return at;
}

/* Datagrams go to socket 0 if their function number has no socket, if they are too short to have a QPN, or if they are
 * for a service and no function serves any. */
int steer_attach(const struct daemon *d, const struct entry *e)
{
	struct sock_filter code[STEER_HEAD + 2 + 2 * STEER_SERVICES_MAX] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, BTH_DEST_QPN), /* datagram too short: the program returns 0 */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NIC_SERVICE_QPN >> 16, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, e->n_sockets, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.filter = code};

	/* If the program exceeds the kernel's limit, which is configurable (net.core.optmem_max), try with fewer
	 * services. */
	for (unsigned room = STEER_SERVICES_MAX;; room /= 2) {
		program.len = (unsigned short)(STEER_HEAD + steer_services(d, e, code + STEER_HEAD, room));
		if (setsockopt(e->sockets[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0)
			return 0;
		if (errno != ENOMEM || room == 0)
			return -errno;
	}
}

static void steer_watch(struct daemon *d, struct entry *e, unsigned n)
{
	if (daemon_watch(d, e->sockets[n], EPOLLIN, SOURCE(SOURCE_DATAGRAM, e - d->gids, n)) != 0)
		d->stats.unwatched_sockets++;
}

void steer_watch_free(struct daemon *d, struct entry *e, unsigned n)
{
	if (d->slots[n].state == SLOT_FREE)
		steer_watch(d, e, n);
}

/** Lock the filter of a function's socket: otherwise a function could use its socket to replace the program that steers
 *  all datagrams of the group. The daemon's socket, number 0, stays unlocked, since the daemon replaces the program
 *  when services change. */
static void socket_lock(int fd, unsigned n)
{
	int on = 1;

	if (n > 0)
		setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
}

/** Create the entry's sockets up to and including index n. */
static int entry_grow(struct daemon *d, struct entry *e, unsigned n, char *err, size_t err_len)
{
	unsigned before = e->n_sockets;
	int rc = 0;

	while (e->n_sockets <= n) {
		int fd = pmd_udp_socket_open(&e->gid, d->scope, true, err, err_len);

		if (fd < 0) {
			rc = fd;
			break;
		}
		socket_lock(fd, e->n_sockets);
		e->sockets[e->n_sockets++] = fd;
		PMD_POINT(daemon_socket_bound);
		steer_watch_free(d, e, e->n_sockets - 1);
	}
	if (e->n_sockets == before)
		return rc;
	if (steer_attach(d, e) != 0 && rc == 0) {
		rc = -errno;
		snprintf(err, err_len,
			 "the kernel does not steer datagrams (SO_ATTACH_REUSEPORT_CBPF: %s); it must be Linux 4.5 or "
			 "newer",
			 strerror(errno));
	}
	return rc;
}

int steer_open(struct daemon *d, struct entry *e, char *err, size_t err_len)
{
	unsigned highest = 0;
	int rc;

	/* The kernel numbers the sockets of a port in the order of binding, so no socket may be bound yet: another
	 * program's socket would receive datagrams of ours, and a socket that is still being closed would shift the
	 * numbers. */
	rc = pmd_udp_socket_open(&e->gid, d->scope, false, err, err_len);
	if (rc < 0)
		return rc;
	close(rc);
	e->n_sockets = 0;
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].state == SLOT_LIVE) /* sockets for other functions are created when these are adopted */
			highest = n;
	rc = entry_grow(d, e, highest, err, err_len);
	if (rc != 0)
		steer_close(d, e);
	return rc;
}

void steer_close(struct daemon *d, struct entry *e)
{
	/* Functions can have duplicates of a socket open; without EPOLL_CTL_DEL the socket would stay in our epoll set
	 * until the last duplicate is closed. */
	for (unsigned n = 0; n < e->n_sockets; n++) {
		epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, e->sockets[n], NULL);
		close(e->sockets[n]);
	}
	e->n_sockets = 0;
}

void steer_own(struct daemon *d, unsigned n, bool owned)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct entry *e = &d->gids[i];

		if (pmd_gid_is_none(&e->gid) || n >= e->n_sockets)
			continue;
		if (owned)
			epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, e->sockets[n], NULL);
		else
			steer_watch(d, e, n);
	}
}

void steer_services_changed(struct daemon *d)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (d->gids[i].n_sockets > 0 && steer_attach(d, &d->gids[i]) != 0)
			d->stats.unsteered_services++;
}

void steer_drain(struct daemon *d, unsigned entry, unsigned slot)
{
	uint8_t byte;

	if (slot >= d->gids[entry].n_sockets)
		return;
	for (unsigned i = 0; i < DRAIN_BURST; i++) {
		if (recv(d->gids[entry].sockets[slot], &byte, 1, MSG_DONTWAIT | MSG_TRUNC) < 0)
			return;
		d->stats.unowned_datagrams++;
	}
}

void steer_flush(struct daemon *d, unsigned n)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		uint64_t start = d->stats.unowned_datagrams, before;

		do {
			before = d->stats.unowned_datagrams;
			steer_drain(d, i, n);
		} while (d->stats.unowned_datagrams - before == DRAIN_BURST && before - start < FLUSH_MAX);
	}
}

int steer_grow(struct daemon *d, unsigned n, char *err, size_t err_len)
{
	unsigned before[NIC_GID_TABLE_LEN];
	int rc = 0;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		before[i] = d->gids[i].n_sockets;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN && rc == 0; i++)
		if (!pmd_gid_is_none(&d->gids[i].gid))
			rc = entry_grow(d, &d->gids[i], n, err, err_len);
	keeper_grow(d, before);
	return rc;
}
