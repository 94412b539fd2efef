/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_steer.c - which function receives which datagram.
 *
 * All functions share UDP port 4791 of an address. Each function has one socket per address, bound here with
 * SO_REUSEPORT in the order of the functions' numbers. A filter program on the payload makes the kernel choose the
 * socket by the leading byte of the destination QPN. The daemon passes each function the descriptors of the function's
 * sockets; from then on, only the function receives from these sockets. The daemon keeps all sockets open, because the
 * last socket of a group would move into the place of a closed one. The daemon receives the datagrams for free numbers
 * and for its own number, 0. Among these, it handles the messages to queue pair 1, and drops and counts the rest.
 *
 * Datagrams for a service (QPN: 0xff, then a 16-bit port) go to the function that serves the port: functions report
 * their ports, and the program lists them. The program has room for many ports, but not for every possible port: it
 * lists one port of each function, then a second port of each function that has more, and so on. If some served ports
 * are not listed, datagrams for unlisted ports go to a function that serves an unlisted port, and this function
 * forwards them to the right function. If all served ports are listed, datagrams for other ports go to the first
 * function that serves any port; its NIC answers a connection request with the error that the service does not exist.
 *
 * Messages of the connection manager (to queue pair 1) name their function in the leading byte of the receiver's
 * communication ID. Requests name a service instead: they go to the function that serves the port. Requests for a
 * service that the program does not list, or that no function serves, go to the daemon, which passes them on or refuses
 * them (uroced_cm.c).
 *
 * Owns: the sockets of daemon.gids.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic_gsi.h"
#include "nic_rdm.h"
#include "points.h"
#include "udp_socket.h"
#include "uroced.h"

#define BTH_DEST_QPN	   5
/* Maximum number of ports of each kind that the program lists. This many ports of one kind fit into 20 KiB, the
 * default limit for a program in older kernels. If the ports of both kinds together do not fit, steer_attach() lists
 * fewer. */
#define STEER_SERVICES_MAX 512 /* ports of reliable datagrams */
#define STEER_PORTS_MAX	   512 /* ports of the connection manager */
/* Room for all instructions of the program except those for the listed ports, which take two instructions each. */
#define STEER_FRAME	   40

#define DRAIN_BURST 64
#define DRAIN_BYTES 4096  /* maximum bytes read of each datagram (14 merged messages fit); the rest is discarded */
#define FLUSH_MAX   65536 /* datagrams of a socket after which steer_flush() stops: more may arrive all the time */

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

/* ---- steering ------------------------------------------------------------------------------------------- */

/** A program being written. */
struct steer {
	struct sock_filter code[STEER_FRAME + 2 * (STEER_SERVICES_MAX + STEER_PORTS_MAX)];
	unsigned n;
};

static void put(struct steer *p, struct sock_filter instruction)
{
	p->code[p->n++] = instruction;
}

static void put_load(struct steer *p, unsigned size, unsigned at)
{
	/* A load from beyond the datagram's end makes the program return 0. */
	put(p, (struct sock_filter)BPF_STMT(BPF_LD | size | BPF_ABS, at));
}

/** If the loaded value is k, go on, else skip the next n instructions. */
static void put_unless_skip(struct steer *p, uint32_t k, unsigned n)
{
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, (uint8_t)n));
}

static void put_return(struct steer *p, uint32_t k)
{
	put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, k));
}

/** The loaded value is a function's number: return this number if the function has a socket, else 0. */
static void put_return_function(struct steer *p, const struct entry *e)
{
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, e->n_sockets, 1, 0));
	put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
	put_return(p, 0);
}

/** List up to `room` services in the program: first one of each function, then a second one of each function that has
 *  more, and so on. If the loaded value is a listed service, the program returns the number of its function.
 *  @param cm list services of the CM; else those of reliable datagrams.
 *  @param first receives the first function that has such services; 0: no function has any.
 *  @return a function that has services which did not fit; 0: all services fitted. */
static unsigned put_services(struct steer *p, const struct daemon *d, const struct entry *e, bool cm, unsigned room,
			     unsigned *first)
{
	unsigned done[DAEMON_SLOTS] = {0}, rest = 0;

	*first = 0;
	for (unsigned more = 1; more > 0 && rest == 0;) {
		more = 0;
		for (unsigned n = 1; n < e->n_sockets; n++) {
			const struct slot *s = &d->slots[n];
			unsigned i = done[n];

			while (i < s->n_services && (proto_service_space(s->services[i]) != 0) != cm)
				i++;
			done[n] = i + 1;
			if (i >= s->n_services)
				continue;
			*first = *first ? *first : n;
			more++;
			if (room == 0) {
				rest = n;
				continue;
			}
			room--;
			put_unless_skip(p, s->services[i], 1);
			put_return(p, n);
		}
	}
	return rest;
}

/** Add the instructions for packets to ports of reliable datagrams. */
static void put_datagram_services(struct steer *p, const struct daemon *d, const struct entry *e, unsigned room)
{
	unsigned first, rest;

	put_load(p, BPF_H, BTH_DEST_QPN + 1);
	rest = put_services(p, d, e, false, room, &first);
	put_return(p, rest ? rest : first);
}

/** Add the instructions for messages to queue pair 1 (nic_cm.h), which follow the BTH and the DETH in a packet. */
static void put_messages(struct steer *p, const struct daemon *d, const struct entry *e, unsigned room)
{
	enum { MAD = 20, ATTRIBUTE = MAD + 16, LOCAL_ID = MAD + 24, REMOTE_ID = MAD + 28, SERVICE_ID = MAD + 32 };
	enum { REQ = 0x10, SIDR_REQ = 0x17, SIDR_REP = 0x18 };
	unsigned first;

	put_load(p, BPF_H, BTH_DEST_QPN + 1);
	put_unless_skip(p, NIC_GSI_QPN, 3);
	put_load(p, BPF_H, ATTRIBUTE);
	put_unless_skip(p, REQ, 2);
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 10));
	put_return(p, 0); /* not queue pair 1 */
	put_unless_skip(p, SIDR_REQ, 1);
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 7));
	put_unless_skip(p, SIDR_REP, 2);
	put_load(p, BPF_B, LOCAL_ID); /* the only ID in a SIDR_REP: the requester's */
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	put_load(p, BPF_B, REMOTE_ID);
	put_return_function(p, e);
	put_load(p, BPF_W, SERVICE_ID);
	put_unless_skip(p, 0, 1);
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	put_return(p, 0); /* not a service ID of a port */
	put_load(p, BPF_W, SERVICE_ID + 4);
	put_services(p, d, e, true, room, &first);
	put_return(p, 0);
}

/** Write the program. The program lists up to `ports` ports of reliable datagrams, and up to `ports` ports of the CM.
 *  It steers the following datagrams to socket 0: those for number 0 or a number without a socket, those that are too
 *  short, CM requests for a service that is not listed, and, when no function serves any port of reliable datagrams,
 *  all those for such ports. */
static void steer_write(struct steer *p, const struct daemon *d, const struct entry *e, unsigned ports)
{
	unsigned jump;

	p->n = 0;
	put_load(p, BPF_B, BTH_DEST_QPN);
	put_unless_skip(p, 0, 1);
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 5)); /* to put_messages */
	put_unless_skip(p, NIC_SERVICE_QPN >> 16, 1);
	jump = p->n;
	put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0)); /* to put_datagram_services */
	put_return_function(p, e);
	put_messages(p, d, e, ports < STEER_PORTS_MAX ? ports : STEER_PORTS_MAX);
	p->code[jump].k = p->n - jump - 1;
	put_datagram_services(p, d, e, ports);
}

int steer_attach(const struct daemon *d, const struct entry *e)
{
	struct steer program;
	struct sock_fprog fprog = {.filter = program.code};

	/* The limit is configurable (net.core.optmem_max): try with fewer services. */
	for (unsigned ports = STEER_SERVICES_MAX;; ports /= 2) {
		steer_write(&program, d, e, ports);
		fprog.len = (unsigned short)program.n;
		if (setsockopt(e->sockets[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &fprog, sizeof(fprog)) == 0)
			return 0;
		if (errno != ENOMEM || ports == 0)
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

	if (uplink_is(d))
		return 0; /* the uplink's switch steers */
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

	/* Check that no socket is bound to the port yet, by binding one without SO_REUSEPORT. The kernel numbers the
	 * sockets of a port in the order of binding: another program's socket would receive datagrams of ours, and a
	 * socket that is still being closed would shift the numbers. */
	e->n_sockets = 0;
	rc = uplink_is(d) ? 0 : pmd_udp_socket_open(&e->gid, d->scope, false, err, err_len);
	if (rc <= 0)
		return rc;
	close(rc);
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
	uplink_serve(d);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (d->gids[i].n_sockets > 0 && steer_attach(d, &d->gids[i]) != 0)
			d->stats.unsteered_services++;
}

/** Receive up to DRAIN_BURST datagrams. @return how many were received. */
static unsigned drain(struct daemon *d, unsigned entry, unsigned slot)
{
	uint8_t data[DRAIN_BYTES];
	unsigned n = 0;

	if (slot >= d->gids[entry].n_sockets)
		return 0;
	for (; n < DRAIN_BURST; n++) {
		struct sockaddr_in6 from = {0};
		socklen_t from_len = sizeof(from);
		ssize_t len = recvfrom(d->gids[entry].sockets[slot], data, sizeof(data), MSG_DONTWAIT,
				       (struct sockaddr *)&from, &from_len);

		if (len < 0)
			break;
		if (!cm_datagram(d, entry, data, (size_t)len, &from))
			d->stats.unowned_datagrams++;
	}
	return n;
}

void steer_drain(struct daemon *d, unsigned entry, unsigned slot)
{
	drain(d, entry, slot);
}

void steer_flush(struct daemon *d, unsigned n)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		unsigned total = 0, got;

		do {
			got = drain(d, i, n);
			total += got;
		} while (got == DRAIN_BURST && total < FLUSH_MAX);
	}
}

int steer_grow(struct daemon *d, unsigned n, char *err, size_t err_len)
{
	unsigned before[NIC_GID_TABLE_LEN];
	int rc = 0;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		before[i] = d->gids[i].n_sockets;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN && (rc == 0 || rc == -EADDRNOTAVAIL); i++) {
		int one = pmd_gid_is_none(&d->gids[i].gid) ? 0 : entry_grow(d, &d->gids[i], n, err, err_len);

		rc = one != 0 ? one : rc;
	}
	keeper_grow(d, before);
	return rc;
}
