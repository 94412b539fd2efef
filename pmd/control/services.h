/* SPDX-License-Identifier: BSD-3-Clause */
/* services.h - ports of the device that this function serves (pmd-internal); see engine.h. Lock held. */
#ifndef PMD_SERVICES_H
#define PMD_SERVICES_H

#include "engine_host.h"

struct pmd_service;

/** The ports. Zeroes: none. */
struct pmd_services {
	struct pmd_service *list;
	unsigned n;
	uint32_t next_port; /* where the search for a free port starts */
};

/** Whether this function serves the port. */
bool pmd_services_have(const struct pmd_host *host, uint32_t port);
/** Whether the port is unserved: no function of the device listens under its name. Costs system calls. */
bool pmd_services_nobody_listens(const struct pmd_host *host, uint32_t port);
/**
 * Serve a port from now on, and tell the daemon.
 * @param port 0: any; set to the port claimed. @param told set to false if a daemon is needed but does not run.
 * @return as pmd_service_open.
 */
int pmd_services_add(struct pmd_host *host, uint16_t *port, bool *told);
/** Release the port; the daemon still has to be told. @return false: it is not served. */
bool pmd_services_remove(struct pmd_host *host, uint16_t port);
/** Send our list of ports to the daemon. @return false: there is no daemon. */
bool pmd_services_tell(struct pmd_host *host);
/** The engine ends: all ports are free. */
void pmd_services_close(struct pmd_host *host);

#endif
