/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_bind.c - binds ids to ports, and listens on the ports. A port belongs to a port space of one device. To bind the
 * wildcard address, an id binds the same port number on every device. If no device has the loopback address that an
 * id is to bind, the id binds the wildcard address instead, as in a kernel. The engines keep the port spaces
 * (engine_cm.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cma.h"

#define ANY_TRIES     32   /* attempts to find a port that is free on all devices */
#define PORT_RESERVED 1024 /* ports below need a privilege */

static unsigned flags_of(const struct cma_id *id)
{
	return (id->reuse ? PMD_CM_REUSE : 0u) | (id->one_family ? PMD_CM_ONE_FAMILY : 0u);
}

struct want {
	struct cma_id *id;
	const struct cma_addr *addr;
	unsigned flags;
	uint16_t port; /* 0: any, until the first device has chosen a number for all devices */
	int err;       /* error of the device that could not bind the port; 0: none failed */
};

/** Bind the wanted port on one device, and add it to the id's ports. @return 0 or a negative errno */
static int port_bind(void *arg, struct cma_device *device)
{
	struct want *w = arg;
	struct cma_port *p = calloc(1, sizeof(*p));
	int err = p ? pmd_cm_bind(device->engine, w->id->space, &w->addr->gid, w->addr->family, w->flags, &w->port,
				  &p->port)
		    : -ENOMEM;

	if (err) {
		free(p);
		w->err = err;
		return err;
	}
	p->device = device;
	p->next = w->id->ports;
	w->id->ports = p;
	return 0;
}

static int bind_any(struct want *w)
{
	const uint16_t wanted = w->port;
	int err = -EADDRINUSE;

	for (unsigned i = 0; i < ANY_TRIES; i++) {
		w->port = wanted;
		w->err = 0;
		err = cma_device_each(port_bind, w);
		if (!err)
			return 0;
		cma_unbind(w->id);
		if (wanted || (w->err != -EADDRINUSE && w->err != -EADDRNOTAVAIL))
			break;
	}
	return err;
}

static bool is_link_local(const struct nic_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/** Find the device of an address. @return 0 or a negative errno. *device stays NULL if the address means all
 * devices. */
static int device_of(const struct cma_addr *addr, struct cma_device **device)
{
	if (cma_addr_is_any(addr) || (cma_addr_is_loopback(addr) && !cma_device_has(addr)))
		return 0;
	return cma_device_by_address(addr, device);
}

/** Bind an id. @param more further flags (PMD_CM_*) */
static int bind_id(struct cma_id *id, const struct cma_addr *addr, unsigned more)
{
	const struct cma_addr any = {.family = addr->family};
	struct cma_device *device = NULL;
	struct want w = {.id = id, .port = addr->port};
	int err;

	if (id->state != CMA_IDLE)
		return -EINVAL;
	if (is_link_local(&addr->gid) && !addr->scope)
		return -EINVAL;
	if (addr->port && addr->port < PORT_RESERVED && geteuid() != 0)
		return -EACCES;
	err = device_of(addr, &device);
	if (err)
		return err;
	if (addr->family == AF_INET)
		id->one_family = true;
	w.addr = device ? addr : &any;
	w.flags = flags_of(id) | more;
	if (device)
		err = port_bind(&w, device);
	else if (!(more & PMD_CM_ACTIVE)) /* else cma_bind_active binds a port when the device is known */
		err = bind_any(&w);
	if (err)
		return err;
	id->src = *addr;
	id->src.port = w.port;
	id->device = device;
	id->state = CMA_ADDR_BOUND;
	return 0;
}

int cma_bind(struct cma_id *id, const struct cma_addr *addr)
{
	return bind_id(id, addr, 0);
}

int cma_bind_source(struct cma_id *id, const struct cma_addr *addr)
{
	return bind_id(id, addr, addr->port ? 0 : PMD_CM_ACTIVE);
}

int cma_bind_active(struct cma_id *id)
{
	struct want w = {.id = id, .addr = &id->src, .flags = flags_of(id) | PMD_CM_ACTIVE};
	int err;

	if (id->ports)
		return 0;
	err = port_bind(&w, id->device);
	if (!err)
		id->src.port = w.port;
	return err;
}

static void unlisten(struct cma_port *p)
{
	if (!p->listener)
		return;
	pmd_cm_unlisten(p->device->engine, p->port);
	cma_engine_enter(p->device);
	nic_cm_id_destroy(p->listener);
	p->listener = NULL;
	cma_engine_leave(p->device);
}

void cma_unbind(struct cma_id *id)
{
	struct cma_port *p;

	while ((p = id->ports)) {
		id->ports = p->next;
		unlisten(p);
		pmd_cm_unbind(p->device->engine, p->port);
		free(p);
	}
}

static int listen_on(struct cma_id *id, struct cma_port *p)
{
	struct nic_cm_listen l = {.service_id = nic_cm_service_id(id->space, id->src.port), .user = id};
	int err;

	if (id->device)
		l.own = id->src.gid;
	if (id->src.family == AF_INET)
		l.family = NIC_CM_IPV4;
	else if (id->one_family)
		l.family = NIC_CM_IPV6;

	cma_engine_enter(p->device);
	err = nic_cm_listen(p->device->cm, &l, &p->listener);
	cma_engine_leave(p->device);
	if (err) {
		p->listener = NULL;
		return err;
	}
	err = pmd_cm_listen(p->device->engine, p->port);
	if (err)
		unlisten(p);
	return err;
}

/** Set how many requests can be queued. Called before listening: requests can come as soon as one device listens. */
static void backlog_set(struct cma_id *id, int backlog)
{
	pthread_mutex_lock(&cma_lock);
	id->backlog = backlog > 0 && backlog < CMA_BACKLOG_MAX ? (uint32_t)backlog : CMA_BACKLOG_MAX;
	pthread_mutex_unlock(&cma_lock);
}

/** Bind a port for an id that has an address but no port. Such an id has set its source address, but then failed to
 * resolve its destination. */
static int bind_port(struct cma_id *id)
{
	const struct cma_addr any = {.family = id->src.family};
	struct want w = {.id = id, .addr = id->device ? &id->src : &any, .port = id->src.port, .flags = flags_of(id)};
	int err = id->device ? port_bind(&w, id->device) : bind_any(&w);

	if (!err)
		id->src.port = w.port;
	return err;
}

int cma_listen(struct cma_id *id, int backlog)
{
	static const struct cma_addr any = {.family = AF_INET};
	int err = id->state == CMA_IDLE ? cma_bind(id, &any) : 0;

	if (err)
		return err;
	if (id->state != CMA_ADDR_BOUND)
		return -EINVAL;
	err = id->ports ? 0 : bind_port(id);
	if (err)
		return err;
	backlog_set(id, backlog);
	id->state = CMA_LISTEN;
	for (struct cma_port *p = id->ports; p && !err; p = p->next)
		err = listen_on(id, p);
	if (!err)
		return 0;
	for (struct cma_port *p = id->ports; p; p = p->next)
		unlisten(p);
	id->state = CMA_ADDR_BOUND;
	return err;
}

int cma_set_reuse(struct cma_id *id, bool on)
{
	int err = 0;

	if (!(on && id->state != CMA_LISTEN) && id->state != CMA_IDLE)
		return -EINVAL;
	for (struct cma_port *p = id->ports; p && !err; p = p->next)
		err = pmd_cm_reuse(p->device->engine, p->port, on);
	if (!err)
		id->reuse = on;
	return err;
}
