/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_services.c - which function serves which service port, so that the kernel can steer datagrams to it.
 *
 * A function that serves a port listens under the port's socket name, which only one process can do (proto.h). The
 * daemon checks each claim: the process that listens must be the function that claims the port. If the daemon cannot
 * find out (the process is outside our PID namespace, or its backlog is full), the first function to claim the port
 * gets it.
 *
 * Owns: said and services of daemon.slots.
 */
#include <string.h>

#include "uroced.h"

static bool is_in(const uint16_t *ports, unsigned n, uint16_t port)
{
	for (unsigned i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	return false;
}

/** @return the number of the function that has been granted the port, or 0. */
static unsigned owner_of(const struct daemon *d, uint16_t port)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (is_in(d->slots[n].services, d->slots[n].n_services, port))
			return n;
	return 0;
}

/** Revoke the grant of a port, although the function still claims the port: another function serves it now. */
static void service_take(struct slot *s, uint16_t port)
{
	for (unsigned i = 0; i < s->n_services; i++)
		if (s->services[i] == port)
			s->services[i] = s->services[--s->n_services];
}

/** Decide whether function n gets the port. If so, a previous owner loses it. */
static bool is_granted(struct daemon *d, unsigned n, uint16_t port)
{
	unsigned owner = owner_of(d, port);
	enum proto_holder holder;
	struct proto_name name;

	pmd_name_service(&d->key, port, &name);
	holder = proto_holder(&name, &d->key, &d->slots[n].peer);
	if (holder == PROTO_HOLDER_IT && owner != 0) /* the owner has released the port, but has not told us yet */
		service_take(&d->slots[owner], port);
	return holder == PROTO_HOLDER_IT ||
	       ((holder == PROTO_HOLDER_UNSEEN || holder == PROTO_HOLDER_UNKNOWN) && owner == 0);
}

/** Grant function n those ports that it claims and does serve. @return whether any port was granted. */
static bool services_look(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	unsigned before = s->n_services;

	for (unsigned i = 0; i < s->n_said; i++)
		if (!is_in(s->services, s->n_services, s->said[i]) && is_granted(d, n, s->said[i]))
			s->services[s->n_services++] = s->said[i];
	return s->n_services > before;
}

/** Revoke grants of ports that the function no longer claims. @return whether any grant was revoked. */
static bool services_drop(struct slot *s)
{
	unsigned before = s->n_services;

	s->n_services = 0;
	for (unsigned i = 0; i < before; i++)
		if (is_in(s->said, s->n_said, s->services[i]))
			s->services[s->n_services++] = s->services[i];
	return s->n_services < before;
}

void services_said(struct daemon *d, unsigned n, const uint16_t *ports, unsigned n_ports)
{
	struct slot *s = &d->slots[n];
	bool dropped, changed;

	s->n_said = 0;
	for (unsigned i = 0; i < n_ports; i++)
		if (!is_in(s->said, s->n_said, ports[i]))
			s->said[s->n_said++] = ports[i];
	dropped = services_drop(s);
	changed = services_look(d, n) || dropped;
	d->stats.refused_services += s->n_said - s->n_services;
	for (unsigned i = 1; dropped && i < DAEMON_SLOTS; i++) /* another function may claim a port that is free now */
		if (d->slots[i].n_said > d->slots[i].n_services)
			services_look(d, i);
	if (changed)
		steer_services_changed(d);
}
