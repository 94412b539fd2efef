/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_services.c - which function serves which port, for steering by the kernel.
 *
 * A function that serves a port listens under the port's name, which only one process can (proto.h). The daemon checks
 * what functions claim: the listener must be the process that claims the port. Where this cannot be told (both are
 * outside our PID namespace, or the listener's backlog is full), the first function to claim the port keeps it.
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

/** The function that owns the port, or 0. */
static unsigned owner_of(const struct daemon *d, uint16_t port)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (is_in(d->slots[n].services, d->slots[n].n_services, port))
			return n;
	return 0;
}

/** Take the port from a function, whatever it has said: another one serves it. */
static void service_take(struct slot *s, uint16_t port)
{
	for (unsigned i = 0; i < s->n_services; i++)
		if (s->services[i] == port)
			s->services[i] = s->services[--s->n_services];
}

/** Whether function n gets the port; if so, a previous owner loses it. */
static bool is_granted(struct daemon *d, unsigned n, uint16_t port)
{
	unsigned owner = owner_of(d, port);
	enum proto_holder holder;
	struct proto_name name;

	pmd_name_service(&d->key, port, &name);
	holder = proto_holder(&name, &d->key, &d->slots[n].peer);
	if (holder == PROTO_HOLDER_IT && owner != 0) /* the owner has released it, news pending */
		service_take(&d->slots[owner], port);
	return holder == PROTO_HOLDER_IT ||
	       ((holder == PROTO_HOLDER_UNSEEN || holder == PROTO_HOLDER_UNKNOWN) && owner == 0);
}

/** Grant function n the claimed ports that it serves. @return whether any were added. */
static bool services_look(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	unsigned before = s->n_services;

	for (unsigned i = 0; i < s->n_said; i++)
		if (!is_in(s->services, s->n_services, s->said[i]) && is_granted(d, n, s->said[i]))
			s->services[s->n_services++] = s->said[i];
	return s->n_services > before;
}

/** Drop granted ports that the function no longer claims. @return whether any were dropped. */
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
	for (unsigned i = 1; dropped && i < DAEMON_SLOTS; i++) /* another function may have waited for them */
		if (d->slots[i].n_said > d->slots[i].n_services)
			services_look(d, i);
	if (changed)
		steer_services_changed(d);
}
