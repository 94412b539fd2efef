/* SPDX-License-Identifier: BSD-3-Clause */
/* services.h - ports of the device that this function serves (pmd-internal); see engine.h. Lock held. */
#ifndef PMD_SERVICES_H
#define PMD_SERVICES_H

#include "engine.h"

/** Whether this function serves the port. */
bool pmd_services_have(const struct pmd_engine *e, uint32_t port);
/** Whether the port is unserved: no function of the device listens under its name. Costs system calls. */
bool pmd_services_nobody_listens(const struct pmd_engine *e, uint32_t port);
/** The engine ends: all ports are free. */
void pmd_services_close(struct pmd_engine *e);

#endif
