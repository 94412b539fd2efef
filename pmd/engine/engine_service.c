/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_service.c - starts and stops serving a port (pmd_service_open, pmd_service_close). services.c claims the port.
 * This file makes sure that a daemon runs, also for ports of the connection manager, because the daemon makes the
 * kernel steer the port's packets to us. When pmd_service_close ends the service, the packets that are left in the
 * port's links are still received. Owns nothing.
 */
#include <pthread.h>
#include <unistd.h>

#include "engine_priv.h"
#include "points.h"
#include "services.h"
#include "spawn.h"

#define ASKS	  3    /* services_wait gives up after this many questions to the daemon; usually 2 suffice */
#define ANSWER_MS 1000 /* how long the daemon has to answer a question */

/** Ask the daemon a question, only to see that it answers. @return false: no answer in time. */
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

/** Wait until packets from the network for our port reach us, that is, until the daemon has updated the kernel's
 *  steering. Otherwise a client that learns the port number from us could lose its first packet, and a datagram is not
 *  retransmitted. The daemon handles messages in order: once it has read our list of ports, it updates the kernel
 *  before it answers a question. */
static void services_wait(struct pmd_engine *e)
{
	struct nic_gid key;
	bool heard = false;

	for (unsigned i = 0; i < ASKS && !heard; i++) {
		pmd_lock(e);
		heard = !e->host.control || pmd_control_heard(e->host.control);
		if (e->host.control)
			key = *pmd_control_key(e->host.control);
		pmd_unlock(e);
		if (!e->host.control || !daemon_answers(&key))
			return;
	}
}

void pmd_engine_served(struct pmd_engine *e, bool told)
{
	char unused[256];

	/* Without a daemon nothing would arrive from the network until another process opens the device, so start a
	 * daemon: it learns from us which ports we serve. If it does not start, functions of this host still find
	 * us. */
	if (!told)
		pmd_spawn_daemon(&e->device, unused, sizeof(unused));
	else
		services_wait(e);
}

int pmd_engine_serve(struct pmd_engine *e, uint32_t *service)
{
	bool told = true;
	int cancel_state, rc;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	rc = pmd_services_add(&e->host, service, &told);
	pmd_unlock(e);
	if (rc == 0 || !told)
		pmd_engine_served(e, told);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

/* When we have given up the service's name, the kernel still steers the service's packets to us for a short time. If
 * another function of the device has begun to serve the service, we forward these packets to that function
 * (strays.c). */
void pmd_engine_unserve(struct pmd_engine *e, uint32_t service)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	if (!e->host.dead && pmd_services_remove(&e->host, service)) {
		if (proto_service_space(service) == 0)
			pmd_links_unserve(e->host.links, (uint16_t)service);
		pmd_services_tell(&e->host);
	}
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
}

int pmd_service_open(struct pmd_engine *e, uint16_t *port)
{
	uint32_t service = *port;
	int rc = pmd_engine_serve(e, &service);

	if (rc == 0)
		*port = (uint16_t)service;
	return rc;
}

void pmd_service_close(struct pmd_engine *e, uint16_t port)
{
	pmd_engine_unserve(e, port);
}
