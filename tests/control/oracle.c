/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle.c - invariants of the control plane.
 *
 * At any time: no two functions of a device have the same number; packets for a function reach no other function; a
 * join succeeds, or fails with a reason, within bounded time; processes die only if killed; no process spins.
 *
 * After disturbances have stopped: every function is connected to its device's only daemon, which listens for all
 * addresses of the function; every function receives the packets for its number and for the ports that it serves; no
 * process leaks descriptors; links have two ends.
 *
 * Owns: whether an oracle has been violated.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "links_priv.h"
#include "nic_rdm.h"

#define JOIN_NS (90 * VK_S) /* limit for the join of a function that is not stopped; see control_join.c */

bool ctl_failed, ctl_program_is_short;

static const struct vk_file *socket_of(const struct ctl_function *f, unsigned i)
{
	const struct port_udp *u = (const struct port_udp *)f->e.host.port;

	return u->sockets[i].fd >= 0 ? vk_descriptor(f->proc, u->sockets[i].fd) : NULL;
}

static const struct nic_gid *gid_of(const struct ctl_function *f, unsigned i)
{
	return &((const struct port_udp *)f->e.host.port)->sockets[i].gid;
}

static bool same_device(const struct ctl_function *a, const struct ctl_function *b)
{
	return a->netns == b->netns && pmd_gid_equal(&a->key, &b->key);
}

/** Whether the function has a connection to a daemon that runs. */
static bool is_connected(const struct ctl_function *f)
{
	const struct vk_file *connection =
		f->e.host.control->daemon.fd < 0 ? NULL : vk_descriptor(f->proc, f->e.host.control->daemon.fd);

	return connection && vk_is_connected(connection);
}

/** Whether a daemon of the function's device was killed while some of the daemon's sockets were not in the keeper
 *  (`uroce status` warns of that state). These sockets are then lost, and steering is not checked. */
static bool sockets_were_lost(const struct ctl_function *f)
{
	for (unsigned i = 0; i < ctl_n_daemons; i++) {
		const struct ctl_daemon *d = &ctl_daemons[i];

		if (d->unkept && vk_is_ending(d->proc) && vk_netns(d->proc) == f->netns &&
		    (d->iface[0] || pmd_gid_equal(&d->key, &f->key)))
			return true;
	}
	return vk_too_many() != 0;
}

/* ---- at any time ------------------------------------------------------------------------------------------ */

static void check_numbers(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *a = ctl_functions[i];

		for (unsigned k = i + 1; ctl_is_live(a) && k < ctl_n_functions; k++) {
			const struct ctl_function *b = ctl_functions[k];

			if (ctl_is_live(b) && same_device(a, b) && a->number == b->number)
				ctl_fail("numbers", "functions %u and %u of one device are both number %u", a->index,
					 b->index, a->number);
		}
	}
}

/** Check that no function has the socket to which another function's packets are steered. */
static void check_steering(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *a = ctl_functions[i];
		bool is_checked = ctl_is_live(a) && !sockets_were_lost(a);

		for (unsigned s = 0; is_checked && s < UDP_SOCKETS; s++) {
			const struct vk_file *own = socket_of(a, s);

			for (unsigned k = 0; own && k < ctl_n_functions; k++) {
				const struct ctl_function *b = ctl_functions[k];

				if (b == a || !ctl_is_live(b) || !same_device(a, b))
					continue;
				if (vk_udp_choose(a->netns, gid_of(a, s), b->number << 16) == own)
					ctl_fail("steering",
						 "what is for function %u (number %u) comes to %u (number %u)",
						 b->index, b->number, a->index, a->number);
			}
		}
	}
}

static void check_joins(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *f = ctl_functions[i];

		if (f->state == CTL_JOINING && !vk_is_ending(f->proc) && !vk_is_paused(f->proc) &&
		    vk_now_ns() - f->began_ns > JOIN_NS)
			ctl_fail("join", "function %u has not joined in %llu s, nor been told why", f->index,
				 (unsigned long long)(JOIN_NS / VK_S));
		if (f->state == CTL_REFUSED && !f->err[0])
			ctl_fail("sentence", "function %u was refused (%d) without a sentence", f->index, f->rc);
	}
}

static void check_deaths(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *f = ctl_functions[i];

		if (vk_is_gone(f->proc) && !vk_was_killed(f->proc) && f->state != CTL_CLOSED && f->state != CTL_REFUSED)
			ctl_fail("death", "function %u has ended, and nobody has killed it", f->index);
	}
}

/** Time and system call counts of the last check. */
static uint64_t last_ns;
static struct {
	pid_t pid;
	uint64_t calls;
} before[32];

void ctl_check_begin(void)
{
	last_ns = 0;
	memset(before, 0, sizeof(before));
}

/** Check that no process makes too many system calls per second. */
static void check_spinning(void)
{
	if (vk_now_ns() - last_ns < VK_S)
		return;
	for (struct vk_proc *p = vk_next(NULL); p; p = vk_next(p)) {
		unsigned slot = (unsigned)vk_pid(p) % 32;

		if (before[slot].pid == vk_pid(p) && last_ns != 0 && vk_now_ns() - last_ns < 2 * VK_S &&
		    vk_calls(p) - before[slot].calls > 200000)
			ctl_fail("spinning", "process %d (%s) has made %llu system calls in a second", (int)vk_pid(p),
				 vk_command(p), (unsigned long long)(vk_calls(p) - before[slot].calls));
		before[slot].pid = vk_pid(p);
		before[slot].calls = vk_calls(p);
	}
	last_ns = vk_now_ns();
}

void ctl_check(void)
{
	check_numbers();
	check_steering();
	check_joins();
	check_deaths();
	check_spinning();
}

void ctl_check_datagram(struct ctl_function *f, const struct nic_gid *socket, const struct vk_datagram *d)
{
	uint32_t number = d->qpn >> 16;

	ctl_stats.datagrams++;
	f->datagrams++;
	if (!pmd_gid_equal(socket, &d->gid))
		ctl_fail("datagram", "function %u gets by one address what was for another", f->index);
	if (number == NIC_SERVICE_QPN >> 16)
		f->strange++;
	else if (number != f->number && !sockets_were_lost(f))
		ctl_fail("datagram", "function %u, number %u, gets what was for number %u", f->index, f->number,
			 number);
	else if (number == f->number && f->joined_ns != 0 && d->sent_ns + VK_S < f->began_ns)
		ctl_fail("datagram", "function %u gets what was sent %llu ms before it was there", f->index,
			 (unsigned long long)((f->began_ns - d->sent_ns) / VK_MS));
}

/** Check, in the function's own process, that no descriptors and no memory have leaked. */
void ctl_check_closed(const struct ctl_function *f)
{
	if (vk_descriptors(f->proc) != 0) {
		ctl_fail("descriptors", "function %u has closed its device, and has %u descriptors", f->index,
			 vk_descriptors(f->proc));
		vk_print(stdout);
	}
	if (vk_allocated(f->proc) != 0)
		ctl_fail("memory", "function %u has closed its device, and has %zu bytes", f->index,
			 vk_allocated(f->proc));
}

/* ---- when calm -------------------------------------------------------------------------------------------- */

/** @return the daemon that listens under the name of an address, or NULL. */
static struct ctl_daemon *daemon_of(unsigned netns, const struct nic_gid *gid)
{
	struct proto_name name;

	pmd_name_daemon(gid, &name);
	for (unsigned i = 0; i < ctl_n_daemons; i++) {
		struct ctl_daemon *d = &ctl_daemons[i];

		if (!d->ready || vk_is_ending(d->proc) || vk_netns(d->proc) != netns)
			continue;
		for (int fd = 0; fd < 2048; fd++) {
			const struct vk_file *f = vk_descriptor(d->proc, fd);

			if (f && vk_listens(f) && strcmp(vk_listens(f), name.sa.sun_path + 1) == 0)
				return d;
		}
	}
	return NULL;
}

/** Whether a function is an orphan. There are three ways to become one. The function had no address left when its
 * daemon died, and no daemon with its key runs. Or the interface lost the address that is the device's key, so the
 * interface's next daemon has another key, and did not find the function (daemon.c, leave_behind), or had no reason to
 * look for it: it was there before the function, or before the function's daemon died, or followed the interface only
 * later. Or its daemon died, and another user's daemon took the device's name. */
bool ctl_is_orphan(const struct ctl_function *f)
{
	const struct ctl_daemon *d = daemon_of(f->netns, &f->key);
	struct nic_gid gid;

	if (f->e.host.control->daemon.fd >= 0)
		return false;
	if (d && vk_uid(d->proc) != vk_uid(f->proc))
		return true;
	if (d && pmd_gid_equal(&d->key, &f->key))
		return false;
	if (f->left_behind || (d && (ctl_daemon_has_spread(d) || d->ready_ns < f->joined_ns)))
		return true;
	if (!d && pmd_gid_equal(&f->key, &f->e.device.gid))
		return false;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (nic_gid_get(f->e.host.nic, i, &gid) == 0 && !pmd_gid_is_none(&gid))
			return false;
	return true;
}

static void check_has_daemon(const struct ctl_function *f)
{
	const struct ctl_daemon *d = daemon_of(f->netns, &f->key);
	const struct vk_file *connection;

	if (!d) {
		ctl_fail("daemon", "function %u is without a daemon of its device", f->index);
		return;
	}
	connection = f->e.host.control->daemon.fd < 0 ? NULL : vk_descriptor(f->proc, f->e.host.control->daemon.fd);
	if (!connection || !vk_is_connected(connection) || vk_peer(connection) != d->proc)
		ctl_fail("daemon", "the daemon of its device does not have function %u", f->index);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct nic_gid gid;

		if (nic_gid_get(f->e.host.nic, i, &gid) == 0 && !pmd_gid_is_none(&gid) &&
		    daemon_of(f->netns, &gid) != d)
			ctl_fail("address", "an address of function %u is not its daemon's", f->index);
	}
}

/** Whether another device has an address that the function should have: the address left the interface for a while, and
 *  the other device then claimed it first. Its daemon may have died since, and have left the address's sockets in its
 *  keeper. */
static bool is_taken(const struct ctl_function *f, const struct nic_gid *gid)
{
	const struct ctl_daemon *other = daemon_of(f->netns, gid);
	bool taken = other && other != daemon_of(f->netns, &f->key);

	if (other && !taken && !pmd_gid_equal(gid, &f->key))
		return false; /* the function's own daemon has it */
	for (unsigned i = 0; i < ctl_n_functions && !taken; i++) {
		const struct ctl_function *o = ctl_functions[i];

		taken = ctl_is_live(o) && o->netns == f->netns && !pmd_gid_equal(&o->key, &f->key) &&
			(ctl_has_address(o, gid) ||
			 (!is_connected(o) && o->e.host.control->keeper_fd >= 0 && vk_udp_choose(f->netns, gid, 0)));
	}
	return taken;
}

static const struct vk_file *choose_service(unsigned netns, const struct nic_gid *gid, uint32_t service)
{
	return proto_service_space(service) == 0 ? vk_udp_choose(netns, gid, NIC_SERVICE_QPN + service)
						 : vk_udp_choose_request(netns, gid, service);
}

static void check_is_reached(const struct ctl_function *f)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		const struct vk_file *own = socket_of(f, i);
		struct nic_gid gid;

		if (nic_gid_get(f->e.host.nic, i, &gid) != 0 || pmd_gid_is_none(&gid))
			continue;
		if (!own || vk_udp_choose(f->netns, &gid, f->number << 16) != own)
			ctl_fail("reached", "what is for function %u (number %u) by entry %u does not come to it%s",
				 f->index, f->number, i, own ? "" : ": it has no socket");
		/* Check services only if the program can list all of them: otherwise other functions receive and
		 * forward some packets. */
		for (unsigned s = 0; own && !ctl_program_is_short && s < f->n_services; s++)
			if (choose_service(f->netns, &gid, f->services[s]) != own)
				ctl_fail("service", "what is for service %#x does not come to function %u",
					 f->services[s], f->index);
	}
}

static void check_address(const struct ctl_function *f, const struct nic_gid *gid)
{
	char text[PMD_GID_TEXT];

	if (!ctl_has_address(f, gid) && !is_taken(f, gid))
		ctl_fail("address", "function %u does not have %s", f->index, pmd_gid_str(gid, text, sizeof(text)));
}

/** A function has the address by which it opened the device, and those of the interface that it follows. */
void ctl_check_addresses(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *f = ctl_functions[i];

		if (!ctl_is_live(f) || !is_connected(f))
			continue;
		check_address(f, &f->e.device.gid);
		for (unsigned k = 0; k < CTL_ADDRESSES && f->e.device.follow != PROTO_FOLLOW_NONE; k++) {
			const struct nic_gid gid = ctl_gid(ctl_addresses[k]);

			if (f->e.device.follow == PROTO_FOLLOW_ALL || !pmd_gid_is_v4(&gid))
				check_address(f, &gid);
		}
	}
}

/** @return the number of descriptors that the function uses. */
static unsigned expected_of(const struct ctl_function *f)
{
	const struct pmd_control *c = f->e.host.control;
	const struct port_udp *u = (const struct port_udp *)f->e.host.port;
	const struct pmd_links *l = f->e.host.links;
	unsigned n = 2 + (c->epoll_fd >= 0) + (c->timer.fd >= 0) + (c->listen.fd >= 0) + (c->daemon.fd >= 0) +
		     (c->keeper_fd >= 0) + (u->epoll_fd >= 0) + (u->retired_fd >= 0) + f->e.tools.n;

	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		n += u->sockets[i].fd >= 0;
	for (const struct pmd_listener *p = c->listeners; p; p = p->next)
		n++;
	for (unsigned i = 0; i < CONTROL_VISITORS; i++)
		n += c->visitors[i].watch.fd >= 0;
	for (unsigned i = 0; i < NIC_PATHS_MAX; i++)
		n += l->out[i] ? 1 + (l->out[i]->bell_fd >= 0) : 0;
	for (unsigned i = 0; i < LINKS_IN_MAX; i++)
		n += l->in[i] != NULL;
	return n;
}

static void check_links(const struct ctl_function *f)
{
	const struct pmd_links *l = f->e.host.links;

	for (unsigned i = 0; i < NIC_PATHS_MAX; i++) {
		const struct vk_file *connection = l->out[i] ? vk_descriptor(f->proc, l->out[i]->watch.fd) : NULL;

		if (!l->out[i])
			continue;
		if (!connection || !vk_is_connected(connection))
			ctl_fail("link", "function %u has a link without another end", f->index);
		else if (!l->out[i]->taken)
			ctl_fail("link", "a link of function %u has not been taken", f->index);
	}
}

/** Check that no file is open twice in a process. Exceptions: the eventfd by which a function that has a link to
 *  itself wakes itself; an epoll set that has replaced a closed socket under the socket's descriptor number (see
 *  port_udp.c). */
static void check_twice(struct vk_proc *p)
{
	for (int fd = 0; fd < 2048; fd++)
		for (int other = fd + 1; other < 2048 && vk_descriptor(p, fd); other++)
			if (vk_descriptor(p, other) == vk_descriptor(p, fd) &&
			    vk_kind(vk_descriptor(p, fd)) != VK_EVENT && vk_kind(vk_descriptor(p, fd)) != VK_EPOLL)
				ctl_fail("twice", "process %d (%s) has %s by descriptors %d and %d", (int)vk_pid(p),
					 vk_command(p), vk_kind_names[vk_kind(vk_descriptor(p, fd))], fd, other);
}

static unsigned count(const struct vk_proc *p, enum vk_kind kind, bool connected)
{
	unsigned n = 0;

	for (int fd = 0; fd < 2048; fd++) {
		const struct vk_file *f = vk_descriptor(p, fd);

		n += f && vk_kind(f) == kind && (kind != VK_UNIX || !!vk_listens(f) != connected);
	}
	return n;
}

/** Check the descriptors of a daemon: a few of its own, the keeper, and a connection per function. */
static void check_daemon(const struct ctl_daemon *it)
{
	unsigned functions = 0, clients = ctl_daemon_clients(it), connections = count(it->proc, VK_UNIX, true);
	unsigned other = 0;

	for (unsigned i = 0; i < ctl_n_functions; i++)
		functions += ctl_is_live(ctl_functions[i]) && !ctl_is_orphan(ctl_functions[i]) &&
			     ctl_functions[i]->netns == vk_netns(it->proc) &&
			     daemon_of(ctl_functions[i]->netns, &ctl_functions[i]->key) == it;
	if (connections > clients + 2)
		ctl_fail("leak", "the daemon of %u functions has %u descriptors of sockets that it does not know of",
			 functions, connections - clients - 2);
	if (count(it->proc, VK_UDP, false) != ctl_daemon_sockets(it))
		ctl_fail("leak", "the daemon has %u UDP sockets, and knows of %u", count(it->proc, VK_UDP, false),
			 ctl_daemon_sockets(it));
	for (enum vk_kind k = VK_EPOLL; k < VK_KINDS; k++)
		other += count(it->proc, k, false);
	if (clients != functions)
		ctl_fail("clients", "the daemon of %u functions has %u connections", functions, clients);
	if (count(it->proc, VK_EPOLL, false) != 1 || count(it->proc, VK_SIGNAL, false) != 1 ||
	    count(it->proc, VK_NETLINK, false) > 1 || other > 3)
		ctl_fail("descriptors", "the daemon has %u descriptors of epoll sets and the like", other);
	check_twice(it->proc);
}

void ctl_check_descriptors(const struct ctl_function *f)
{
	if (vk_descriptors(f->proc) == expected_of(f))
		return;
	ctl_fail("descriptors", "function %u has %u descriptors, and knows of %u", f->index, vk_descriptors(f->proc),
		 expected_of(f));
	vk_print(stdout);
}

void ctl_check_calm(void)
{
	ctl_check_addresses();
	for (unsigned i = 0; i < ctl_n_functions; i++) {
		const struct ctl_function *f = ctl_functions[i];

		if (f->state == CTL_JOINING && !vk_is_ending(f->proc))
			ctl_fail("join", "function %u still joins, all being calm", f->index);
		if (!ctl_is_live(f))
			continue;
		if (ctl_is_orphan(f))
			continue;
		check_has_daemon(f);
		check_is_reached(f);
		check_links(f);
		ctl_check_descriptors(f);
		check_twice(f->proc);
	}
	for (unsigned i = 0; i < ctl_n_daemons; i++)
		if (ctl_daemons[i].ready && !vk_is_ending(ctl_daemons[i].proc))
			check_daemon(&ctl_daemons[i]);
}
