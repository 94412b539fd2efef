/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_services.c - records which function serves which service port, so that the kernel can steer datagrams to that
 * function.
 *
 * A function that serves a port, in any port space, listens under the port's name (proto.h). Only one process can
 * listen under a name. The daemon checks what functions claim: the listener must be the process that claims the port.
 * If the daemon cannot check this (the listener and the function are outside our PID namespace, the listener's
 * backlog is full, or we have no free descriptor), the first function that claims the port keeps it.
 *
 * Owns: said and services of daemon.slots.
 */
#include <string.h>

#include "uroced.h"

static bool is_in(const uint32_t *services, unsigned n, uint32_t service)
{
	for (unsigned i = 0; i < n; i++)
		if (services[i] == service)
			return true;
	return false;
}

unsigned services_owner(const struct daemon *d, uint32_t service)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (is_in(d->slots[n].services, d->slots[n].n_services, service))
			return n;
	return 0;
}

/** Revoke a service that the function still claims: another function serves the service now. */
static void service_take(struct slot *s, uint32_t service)
{
	for (unsigned i = 0; i < s->n_services; i++)
		if (s->services[i] == service)
			s->services[i] = s->services[--s->n_services];
}

/** Whether function n gets the service; if so, a previous owner loses it. */
static bool is_granted(struct daemon *d, unsigned n, uint32_t service)
{
	unsigned owner = services_owner(d, service);
	enum proto_holder holder;
	struct proto_name name;

	pmd_name_service(&d->key, service, &name);
	holder = proto_holder(&name, &d->key, &d->slots[n].peer);
	if (holder == PROTO_HOLDER_IT && owner != 0) /* the owner no longer listens, but has not reported this yet */
		service_take(&d->slots[owner], service);
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

void services_said(struct daemon *d, unsigned n, const uint32_t *said, unsigned n_said)
{
	struct slot *s = &d->slots[n];
	bool dropped, changed;

	s->untold = false;
	s->n_said = 0;
	for (unsigned i = 0; i < n_said; i++)
		if (!is_in(s->said, s->n_said, said[i]))
			s->said[s->n_said++] = said[i];
	dropped = services_drop(s);
	changed = services_look(d, n) || dropped;
	d->stats.refused_services += s->n_said - s->n_services;
	for (unsigned i = 1; dropped && i < DAEMON_SLOTS; i++) /* another function may claim a port that is free now */
		if (d->slots[i].n_said > d->slots[i].n_services)
			services_look(d, i);
	if (changed)
		steer_services_changed(d);
}
