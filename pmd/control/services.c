/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * services.c - ports of the device that our function serves.
 *
 * A function reserves a port by listening under the port's name (proto.h): then no other function can reserve or serve
 * the port, and functions of this host find the server without a daemon. When the function serves the port, the daemon
 * is told as well, and has the kernel steer the port's packets from the network to us. An ethdev has a single function,
 * which gets all packets: there we only keep the list of services.
 *
 * Owns: the list of services of an engine.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "nic_rdm.h"
#include "points.h"
#include "services.h"

#define ANY_PORTS (NIC_SERVICE_PORT_MAX - PMD_SERVICE_ANY_MIN + 1)

struct pmd_service {
	struct pmd_listener listener; /* used only if the device has a control plane */
	struct pmd_service *next;
	uint32_t service; /* as proto_service() makes it */
	bool served;	  /* false: only reserved */
};

static struct pmd_service **service_find(const struct pmd_host *host, uint32_t service)
{
	struct pmd_service **at = &host->services->list;

	while (*at && (*at)->service != service)
		at = &(*at)->next;
	return at;
}

bool pmd_services_have(const struct pmd_host *host, uint32_t service)
{
	return *service_find(host, service);
}

bool pmd_services_nobody_listens(const struct pmd_host *host, uint32_t service)
{
	struct proto_name name;
	int cancel_state, fd;

	pmd_name_service(pmd_control_key(host->control), service, &name);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	fd = proto_connect(&name);
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancel_state, NULL);
	return fd == -ECONNREFUSED;
}

bool pmd_services_tell(struct pmd_host *host)
{
	uint32_t services[PROTO_SERVICES_MAX];
	unsigned n = 0;

	for (const struct pmd_service *s = host->services->list; s; s = s->next)
		if (s->served)
			services[n++] = s->service;
	return !host->control || pmd_control_services(host->control, services, n);
}

/** Claim a service. @return 0 or a negative errno; -EADDRINUSE: it is claimed already. */
static int service_claim(struct pmd_host *host, struct pmd_service *s, uint32_t service)
{
	struct proto_name name;

	if (pmd_services_have(host, service))
		return -EADDRINUSE;
	s->service = service;
	if (!host->control)
		return 0;
	pmd_name_service(pmd_control_key(host->control), service, &name);
	return pmd_control_listen(host->control, &s->listener, &name);
}

/** Claim a service. @param service 0: any free port of reliable datagrams. The ports are tried in turn, and so a
 *  recently served port is not served again soon: its clients may not have noticed that the last server has ended. */
static int service_choose(struct pmd_host *host, struct pmd_service *s, uint32_t service)
{
	int rc = -EADDRINUSE;

	if (service != 0)
		return proto_service_may_be(service) ? service_claim(host, s, service) : -EINVAL;
	for (uint32_t i = 0; i < ANY_PORTS && rc == -EADDRINUSE; i++)
		rc = service_claim(host, s, PMD_SERVICE_ANY_MIN + host->services->next_port++ % ANY_PORTS);
	return rc;
}

int pmd_services_reserve(struct pmd_host *host, uint32_t *service)
{
	struct pmd_service *s;
	int rc;

	if (host->dead)
		return -ENODEV;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	rc = service_choose(host, s, *service);
	if (rc != 0) {
		free(s);
		return rc;
	}
	PMD_POINT(service_named);
	*service = s->service;
	s->next = host->services->list;
	host->services->list = s;
	PMD_POINT(service_listed);
	return 0;
}

static void served_set(struct pmd_host *host, struct pmd_service *s, bool on)
{
	host->services->n_served += (unsigned)on - (unsigned)s->served;
	s->served = on;
}

int pmd_services_serve(struct pmd_host *host, uint32_t service, bool *told)
{
	struct pmd_service *s = *service_find(host, service);

	if (!s->served && host->services->n_served >= PROTO_SERVICES_MAX)
		return -ENOSPC;
	served_set(host, s, true);
	*told = pmd_services_tell(host);
	PMD_POINT(service_said);
	return 0;
}

void pmd_services_unserve(struct pmd_host *host, uint32_t service)
{
	served_set(host, *service_find(host, service), false);
	pmd_services_tell(host);
	PMD_POINT(service_said);
}

int pmd_services_add(struct pmd_host *host, uint32_t *service, bool *told)
{
	int rc = host->services->n_served < PROTO_SERVICES_MAX ? pmd_services_reserve(host, service) : -ENOSPC;

	if (rc != 0)
		return rc;
	rc = pmd_services_serve(host, *service, told);
	if (rc != 0)
		pmd_services_remove(host, *service);
	return rc;
}

static void service_end(struct pmd_host *host, struct pmd_service **at)
{
	struct pmd_service *s = *at;

	*at = s->next;
	served_set(host, s, false);
	PMD_POINT(service_unlisted);
	if (host->control)
		pmd_control_unlisten(host->control, &s->listener);
	free(s);
}

bool pmd_services_remove(struct pmd_host *host, uint32_t service)
{
	struct pmd_service **at = service_find(host, service);

	if (!*at)
		return false;
	service_end(host, at);
	PMD_POINT(service_unnamed);
	return true;
}

void pmd_services_close(struct pmd_host *host)
{
	while (host->services->list)
		service_end(host, &host->services->list);
}
