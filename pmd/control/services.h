/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * services.h - ports of the device that our function serves (pmd-internal): those of reliable datagrams (engine.h) and
 * those of the connection manager (engine_cm.h). proto_service (proto.h) turns a port of either kind into one number,
 * the service. All functions are called under the engine's lock, except pmd_services_close.
 */
#ifndef PMD_SERVICES_H
#define PMD_SERVICES_H

#include "engine_host.h"

struct pmd_service;

/** The ports that our function has reserved or serves. All zeroes: none. */
struct pmd_services {
	struct pmd_service *list;
	unsigned n_served;  /* at most PROTO_SERVICES_MAX */
	uint32_t next_port; /* where the next search for a free port starts */
};

/** Whether our function serves the service or has reserved it. */
bool pmd_services_have(const struct pmd_host *host, uint32_t service);
/** Whether no function of the device listens under the service's name. Costs system calls. */
bool pmd_services_nobody_listens(const struct pmd_host *host, uint32_t service);
/**
 * Claim a service, so that no other function can claim it, without serving it yet. Each service costs a descriptor.
 * @param service 0: any port of reliable datagrams; set to the service claimed.
 * @return 0, -EADDRINUSE, -EINVAL (there is no such service), another negative errno.
 */
int pmd_services_reserve(struct pmd_host *host, uint32_t *service);
/** Serve a service that has been reserved, and tell the daemon. @param told set to false if a daemon is needed but does
 *  not run. @return 0; -ENOSPC: PROTO_SERVICES_MAX services are served. */
int pmd_services_serve(struct pmd_host *host, uint32_t service, bool *told);
/** Stop serving a service, and tell the daemon. The service stays reserved. */
void pmd_services_unserve(struct pmd_host *host, uint32_t service);
/** Reserve a service and serve it. @param told as for pmd_services_serve. @return as pmd_services_reserve and
 *  pmd_services_serve. */
int pmd_services_add(struct pmd_host *host, uint32_t *service, bool *told);
/** Release the service; the caller still has to call pmd_services_tell. @return false: it was not reserved. */
bool pmd_services_remove(struct pmd_host *host, uint32_t service);
/** Send our list of services to the daemon. @return false: a daemon is needed but does not run. */
bool pmd_services_tell(struct pmd_host *host);
/** The engine ends: release all services. */
void pmd_services_close(struct pmd_host *host);

#endif
