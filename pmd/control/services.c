/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * services.c - ports of the device that this function serves.
 *
 * A function serves a port by listening under the port's name (proto.h): that excludes other functions, and lets
 * functions of this host find the server without a daemon. The daemon is told as well, and has the kernel steer the
 * port's packets from the network to us. An ethdev has a single function, which gets all packets: there the list alone
 * is kept.
 *
 * Owns: the list of services of an engine.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "engine_priv.h"
#include "nic_rdm.h"
#include "points.h"
#include "services.h"
#include "spawn.h"

#define ASKS	  3    /* questions to the daemon until it has read our message; usually 2 suffice */
#define ANSWER_MS 1000 /* how long the daemon may take to answer */
#define ANY_PORTS (NIC_SERVICE_PORT_MAX - PMD_SERVICE_ANY_MIN + 1)

struct pmd_service {
	struct pmd_listener listener; /* used if there is a control plane */
	struct pmd_service *next;
	uint16_t port;
};

static struct pmd_service **service_find(const struct pmd_engine *e, uint32_t port)
{
	struct pmd_service **at = (struct pmd_service **)(uintptr_t)&e->services;

	while (*at && (*at)->port != port)
		at = &(*at)->next;
	return at;
}

bool pmd_services_have(const struct pmd_engine *e, uint32_t port)
{
	return *service_find(e, port);
}

bool pmd_services_nobody_listens(const struct pmd_engine *e, uint32_t port)
{
	struct proto_name name;
	int cancel_state, fd;

	pmd_name_service(pmd_control_key(e->control), port, &name);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the engine is locked */
	fd = proto_connect(&name);
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancel_state, NULL);
	return fd == -ECONNREFUSED;
}

/** Send our list of ports to the daemon. @return false: there is no daemon. */
static bool services_tell(struct pmd_engine *e)
{
	uint16_t ports[PROTO_SERVICES_MAX];
	unsigned n = 0;

	for (const struct pmd_service *s = e->services; s; s = s->next)
		ports[n++] = s->port;
	return !e->control || pmd_control_services(e->control, ports, n);
}

/** Claim a port. @return 0 or a negative errno: -EADDRINUSE. */
static int service_claim(struct pmd_engine *e, struct pmd_service *s, uint16_t port)
{
	struct proto_name name;

	if (pmd_services_have(e, port))
		return -EADDRINUSE;
	s->port = port;
	if (!e->control)
		return 0;
	pmd_name_service(pmd_control_key(e->control), port, &name);
	return pmd_control_listen(e->control, &s->listener, &name);
}

/** Claim this port, or any if 0: then not one served recently, as clients that have not noticed the end of its server
 *  would take the new one for it. */
static int service_choose(struct pmd_engine *e, struct pmd_service *s, uint16_t port)
{
	int rc = -EADDRINUSE;

	if (port != 0)
		return port <= NIC_SERVICE_PORT_MAX ? service_claim(e, s, port) : -EINVAL;
	for (uint32_t i = 0; i < ANY_PORTS && rc == -EADDRINUSE; i++)
		rc = service_claim(e, s, (uint16_t)(PMD_SERVICE_ANY_MIN + e->next_port++ % ANY_PORTS));
	return rc;
}

/** @param port 0: any; set to the port claimed. @param told set to false if a daemon is needed but does not run. */
static int service_open(struct pmd_engine *e, uint16_t *port, bool *told)
{
	struct pmd_service *s;
	int rc;

	if (e->dead)
		return -ENODEV;
	if (e->n_services >= PROTO_SERVICES_MAX)
		return -ENOSPC;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	rc = service_choose(e, s, *port);
	if (rc != 0) {
		free(s);
		return rc;
	}
	PMD_POINT(service_named);
	*port = s->port;
	s->next = e->services;
	e->services = s;
	e->n_services++;
	PMD_POINT(service_listed);
	*told = services_tell(e);
	PMD_POINT(service_said);
	return 0;
}

/** Ask the daemon a question whose answer does not matter. @return false: no answer in time. */
static bool daemon_answers(const struct nic_gid *key)
{
	const struct proto_whois whois = {.gid = *key};
	struct proto_name name;
	PROTO_MSG(m);
	int fd, rc;

	pmd_name_daemon(key, &name);
	fd = proto_connect(&name);
	if (fd < 0)
		return false;
	rc = proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0);
	PMD_POINT(service_asks);
	if (rc == 0)
		rc = proto_recv_wait(fd, &m, ANSWER_MS);
	if (rc == 1)
		proto_msg_close(&m);
	close(fd);
	return rc == 1;
}

/** Wait until packets from the network for our port reach us, which requires that the daemon has updated the kernel's
 *  steering. Otherwise a client that learns the port from us could lose its first packet; if that is a datagram it is
 *  not repeated. The daemon is sequential: once it has read our message, it acts on it before it answers any
 *  question. */
static void services_wait(struct pmd_engine *e)
{
	struct nic_gid key;
	bool heard = false;

	for (unsigned i = 0; i < ASKS && !heard; i++) {
		pmd_lock(e);
		heard = !e->control || pmd_control_heard(e->control);
		if (e->control)
			key = *pmd_control_key(e->control);
		pmd_unlock(e);
		if (!e->control || !daemon_answers(&key))
			return;
	}
}

int pmd_service_open(struct pmd_engine *e, uint16_t *port)
{
	bool told = true;
	int cancel_state, rc;
	char unused[256];

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	rc = service_open(e, port, &told);
	pmd_unlock(e);
	/* Without a daemon nothing would arrive from the network until another process opens the device, so start one:
	 * it asks us which ports we serve. If that fails, functions of this host still find us. */
	if (!told)
		pmd_spawn_daemon(&e->device, unused, sizeof(unused));
	else if (rc == 0)
		services_wait(e);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

static void service_end(struct pmd_engine *e, struct pmd_service **at)
{
	struct pmd_service *s = *at;

	*at = s->next;
	e->n_services--;
	PMD_POINT(service_unlisted);
	if (e->control)
		pmd_control_unlisten(e->control, &s->listener);
	free(s);
}

/* The kernel stops steering to us shortly after the name is free; packets that arrive meanwhile are forwarded. */
void pmd_service_close(struct pmd_engine *e, uint16_t port)
{
	struct pmd_service **at;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	at = service_find(e, port);
	if (!e->dead && *at) {
		service_end(e, at);
		PMD_POINT(service_unnamed);
		pmd_links_unserve(e->links, port);
		services_tell(e);
	}
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
}

void pmd_services_close(struct pmd_engine *e)
{
	while (e->services)
		service_end(e, &e->services);
}
