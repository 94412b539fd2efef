/* SPDX-License-Identifier: BSD-3-Clause */
/* services.h - ports of the device that this function serves (pmd-internal); see engine.h. Call under the engine's
 * lock. */
#ifndef PMD_SERVICES_H
#define PMD_SERVICES_H

#include "engine_host.h"

struct pmd_service;

/** The ports that this function serves. All zeroes: none. */
struct pmd_services {
	struct pmd_service *list;
	unsigned n;
	uint32_t next_port; /* where the next search for a free port starts */
};

/** Whether this function serves the port. */
bool pmd_services_have(const struct pmd_host *host, uint32_t port);
/** Whether no function of the device serves the port, as nobody listens under its name. Costs system calls. */
bool pmd_services_nobody_listens(const struct pmd_host *host, uint32_t port);
/**
 * Serve a port from now on, and tell the daemon.
 * @param port the port, 0: any; set to the port claimed. @param told set to false if the daemon should know but none
 * runs.
 * @return as pmd_service_open.
 */
int pmd_services_add(struct pmd_host *host, uint16_t *port, bool *told);
/** Stop serving the port; the caller still has to tell the daemon. @return false: the port was not served. */
bool pmd_services_remove(struct pmd_host *host, uint16_t port);
/** Send our list of ports to the daemon. @return false: there is no daemon. */
bool pmd_services_tell(struct pmd_host *host);
/** The engine ends: release all ports. */
void pmd_services_close(struct pmd_host *host);

#endif
