/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm_ports.c - port spaces of the connection manager: bind, listen.
 *
 * Within a process, a kernel's rules decide whether two ports conflict; the rules compare the ports' addresses. Between
 * processes, the name of a port's service (services.h) decides: a process takes the name when it binds the port for
 * itself alone, or listens on it, and then no other process can do so, at any address of the device. So
 *   - ports of active sides (PMD_CM_ACTIVE) and shared ports (PMD_CM_REUSE) are known only to their process until it
 *     listens on them, and cost no descriptor;
 *   - two processes cannot bind the same port number of a device for themselves alone, even at different addresses.
 *
 * Owns: e->cm_ports.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "engine_priv.h"

#define RANGE_FILE "/proc/sys/net/ipv4/ip_local_port_range"
#define RANGE_LOW  32768u
#define RANGE_HIGH 60999u

struct pmd_cm_port {
	struct pmd_cm_port *next;
	uint32_t service; /* as proto_service() makes it */
	struct nic_gid address;
	int family;
	bool reuse, one_family, listens;
	bool named; /* this port needs the service's name, which the process holds; other ports may share the name */
};

/* ---- rules within the process --------------------------------------------------------------------------------- */

/** Whether port `a` can be bound while port `b` is bound. @return 0: yes; -EADDRINUSE or -EADDRNOTAVAIL: no, with the
 *  errno that a kernel would return. */
static int conflict(const struct pmd_cm_port *a, const struct pmd_cm_port *b)
{
	if (a->service != b->service || (a->reuse && b->reuse && !b->listens))
		return 0;
	if (a->one_family && b->one_family && a->family != b->family)
		return 0;
	if (pmd_gid_is_none(&a->address) || pmd_gid_is_none(&b->address))
		return -EADDRNOTAVAIL;
	return pmd_gid_equal(&a->address, &b->address) ? -EADDRINUSE : 0;
}

/** Whether the port can be bound while the other ports of this process are bound. Lock held. @return what conflict()
 *  returns. */
static int conflicts(const struct pmd_engine *e, const struct pmd_cm_port *p)
{
	int rc = 0;

	for (const struct pmd_cm_port *other = e->cm_ports; other && rc == 0; other = other->next)
		rc = other == p ? 0 : conflict(p, other);
	return rc;
}

/** Whether the process holds the name of the port's service for another of its ports. Lock held. */
static bool name_is_ours(const struct pmd_engine *e, const struct pmd_cm_port *p)
{
	for (const struct pmd_cm_port *other = e->cm_ports; other; other = other->next)
		if (other != p && other->service == p->service && other->named)
			return true;
	return false;
}

/** Whether a port of this process with this service listens. Lock held. */
static bool is_listened_to(const struct pmd_engine *e, uint32_t service)
{
	const struct pmd_cm_port *p = e->cm_ports;

	while (p && !(p->listens && p->service == service))
		p = p->next;
	return p;
}

/* ---- names between processes ---------------------------------------------------------------------------------- */

/** Take the service's name. Lock held. */
static int name_take(struct pmd_engine *e, struct pmd_cm_port *p)
{
	int rc = 0;

	if (p->named)
		return 0;
	if (!name_is_ours(e, p))
		rc = pmd_services_reserve(&e->host, &p->service);
	p->named = rc == 0;
	return rc;
}

static void name_release(struct pmd_engine *e, struct pmd_cm_port *p)
{
	if (!p->named)
		return;
	p->named = false;
	if (!name_is_ours(e, p) && pmd_services_remove(&e->host, p->service))
		pmd_services_tell(&e->host);
}

/* ---- binding ---------------------------------------------------------------------------------------------------- */

/** Get the range from which the kernel chooses a free port. */
static void range_read(uint32_t *low, uint32_t *high)
{
	FILE *f = fopen(RANGE_FILE, "re");
	unsigned a, b;

	*low = RANGE_LOW;
	*high = RANGE_HIGH;
	if (!f)
		return;
	if (fscanf(f, "%u %u", &a, &b) == 2 && a >= 1 && a <= b && b <= UINT16_MAX) {
		*low = a;
		*high = b;
	}
	fclose(f);
}

/** Bind the port that p->service names. Lock held. */
static int bind_this(struct pmd_engine *e, struct pmd_cm_port *p, bool needs_name)
{
	int rc = conflicts(e, p);

	return rc == 0 && needs_name ? name_take(e, p) : rc;
}

/** Bind the first free port, searching from a random one on. Lock held. */
static int bind_any(struct pmd_engine *e, struct pmd_cm_port *p, bool needs_name)
{
	uint32_t space = proto_service_space(p->service), low, high, start;
	int rc = -EADDRNOTAVAIL;

	range_read(&low, &high);
	pmd_random_take(&e->random, &start, sizeof(start));
	for (uint32_t i = 0, n = high - low + 1; i < n && (rc == -EADDRINUSE || rc == -EADDRNOTAVAIL); i++) {
		p->service = proto_service(space, (uint16_t)(low + (start % n + i) % n));
		rc = bind_this(e, p, needs_name);
	}
	return rc;
}

/** Whether the address stands for any address: zeroes, or for IPv4 also ::ffff:0.0.0.0. */
static bool is_any(const struct nic_gid *gid)
{
	static const uint8_t none[4];

	return pmd_gid_is_none(gid) || (pmd_gid_is_v4(gid) && memcmp(gid->raw + 12, none, sizeof(none)) == 0);
}

int pmd_cm_bind(struct pmd_engine *e, enum nic_cm_space space, const struct nic_gid *address, int family,
		unsigned flags, uint16_t *port, struct pmd_cm_port **out)
{
	bool needs_name = !(flags & (PMD_CM_ACTIVE | PMD_CM_REUSE));
	struct pmd_cm_port *p = calloc(1, sizeof(*p));
	int cancel_state, rc = 0;

	if (!p)
		return -ENOMEM;
	*p = (struct pmd_cm_port){.service = proto_service(space, *port),
				  .address = is_any(address) ? (struct nic_gid){{0}} : *address,
				  .family = family,
				  .reuse = flags & PMD_CM_REUSE,
				  .one_family = flags & PMD_CM_ONE_FAMILY};
	if (!proto_service_may_be(proto_service(space, 1)) || (family != AF_INET && family != AF_INET6) ||
	    (flags & PMD_CM_ACTIVE && *port != 0))
		rc = -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	if (rc == 0 && e->host.dead)
		rc = -ENODEV;
	if (rc == 0)
		rc = *port ? bind_this(e, p, needs_name) : bind_any(e, p, needs_name);
	if (rc == 0) {
		p->next = e->cm_ports;
		e->cm_ports = p;
		*port = (uint16_t)p->service;
		*out = p;
	} else {
		if (e->cm && (rc == -EADDRINUSE || rc == -EADDRNOTAVAIL))
			e->cm->stats.cm_ports_taken++;
		free(p);
	}
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

int pmd_cm_reuse(struct pmd_engine *e, struct pmd_cm_port *p, bool on)
{
	int cancel_state, rc = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	if (e->host.dead)
		rc = -ENODEV;
	else if (p->listens)
		rc = -EINVAL;
	else if (on)
		name_release(e, p);
	else
		rc = name_take(e, p);
	if (rc == 0)
		p->reuse = on;
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

/** Listen on a port. As in a kernel, listening fails if this process has bound another port with the same number at the
 *  address, even a shared port on which nobody listens. Lock held. */
static int listen_now(struct pmd_engine *e, struct pmd_cm_port *p, bool *told)
{
	bool reuse = p->reuse;
	int rc = e->host.dead ? -ENODEV : 0;

	p->reuse = false;
	if (rc == 0 && conflicts(e, p) != 0)
		rc = -EADDRINUSE;
	p->reuse = reuse;
	if (rc == 0)
		rc = name_take(e, p);
	if (rc == 0) {
		rc = pmd_services_serve(&e->host, p->service, told);
		if (rc != 0 && p->reuse)
			name_release(e, p);
	}
	p->listens = rc == 0;
	return rc;
}

int pmd_cm_listen(struct pmd_engine *e, struct pmd_cm_port *p)
{
	bool told = true;
	int cancel_state, rc;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	rc = listen_now(e, p, &told);
	pmd_unlock(e);
	if (rc == 0)
		pmd_engine_served(e, told);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

/** The port no longer listens. Lock held. */
static void unlisten(struct pmd_engine *e, struct pmd_cm_port *p)
{
	if (!p->listens)
		return;
	p->listens = false;
	if (!e->host.dead && !is_listened_to(e, p->service))
		pmd_services_unserve(&e->host, p->service);
}

void pmd_cm_unlisten(struct pmd_engine *e, struct pmd_cm_port *p)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	unlisten(e, p);
	if (p->reuse && !e->host.dead)
		name_release(e, p);
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
}

void pmd_cm_unbind(struct pmd_engine *e, struct pmd_cm_port *p)
{
	struct pmd_cm_port **at;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	for (at = &e->cm_ports; *at != p; at = &(*at)->next)
		;
	*at = p->next;
	unlisten(e, p);
	if (!e->host.dead)
		name_release(e, p);
	free(p);
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
}

/* pmd_services_close releases the names. */
void pmd_cm_ports_close(struct pmd_engine *e)
{
	while (e->cm_ports) {
		struct pmd_cm_port *p = e->cm_ports;

		e->cm_ports = p->next;
		free(p);
	}
}
