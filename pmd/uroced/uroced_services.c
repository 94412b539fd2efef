/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_services.c - which function serves which port, as far as the kernel is to steer by it.
 *
 * Who serves a port listens under its name, which nobody else can at the same time (proto.h). What functions say is held against
 * that: the process that listens is to be the one that says so. Where that cannot be seen, because it is in another container or
 * has not looked for long, a port is whose it was first.
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

/** The function whose the port is, or 0. */
static unsigned owner_of(const struct daemon *d, uint16_t port)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (is_in(d->slots[n].services, d->slots[n].n_services, port))
			return n;
	return 0;
}

/** The function does not serve it, whatever it has said: somebody else does. */
static void service_take(struct slot *s, uint16_t port)
{
	for (unsigned i = 0; i < s->n_services; i++)
		if (s->services[i] == port)
			s->services[i] = s->services[--s->n_services];
}

/** Whether the port is the function's now. */
static bool is_granted(struct daemon *d, unsigned n, uint16_t port)
{
	unsigned owner = owner_of(d, port);
	enum proto_holder holder;
	struct proto_name name;

	pmd_name_service(&d->key, port, &name);
	holder = proto_holder(&name, &d->key, &d->slots[n].peer);
	if (holder == PROTO_HOLDER_IT && owner != 0) /* it has ended, or given it up, and we have not heard yet */
		service_take(&d->slots[owner], port);
	return holder == PROTO_HOLDER_IT ||
	       ((holder == PROTO_HOLDER_UNSEEN || holder == PROTO_HOLDER_UNKNOWN) && owner == 0);
}

/** Of what function n has said, what is true. @return whether that is more than before. */
static bool services_look(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	unsigned before = s->n_services;

	for (unsigned i = 0; i < s->n_said; i++)
		if (!is_in(s->services, s->n_services, s->said[i]) && is_granted(d, n, s->said[i]))
			s->services[s->n_services++] = s->said[i];
	return s->n_services > before;
}

/** What function n has and says no longer is free. @return whether there was such. */
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
	for (unsigned i = 1; dropped && i < DAEMON_SLOTS; i++) /* somebody may have had to wait for that */
		if (d->slots[i].n_said > d->slots[i].n_services)
			services_look(d, i);
	if (changed)
		steer_services_changed(d);
}
