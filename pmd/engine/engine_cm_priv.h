/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm_priv.h - internals of the connection manager that the files of pmd/engine share (pmd-internal); see
 * engine_cm.h.
 */
#ifndef PMD_ENGINE_CM_PRIV_H
#define PMD_ENGINE_CM_PRIV_H

#include "engine_cm.h"
#include "nic_cm.h"

struct pmd_engine;

/** State of the connection manager. pmd_cm_open creates it. Accessed under the engine's lock. */
struct pmd_cm {
	struct nic_cm *nic_cm;
	pmd_cm_event_fn on_event;
	void *ctx;
	struct pmd_engine *engine;
	struct nic_cm_record *records; /* shared with the daemon; NULL: none */
	size_t records_bytes;
	struct pmd_cm_stats stats;
};

/** Run expired timers of the connection manager. Call before a step transmits. */
void pmd_cm_advance(struct pmd_cm *cm, uint64_t now_ns);
/** In a forked child: stop using the records, which are the parent's. `cm` may be NULL. */
void pmd_cm_forked(struct pmd_cm *cm);
/** The engine ends; call before its NIC is destroyed. The daemon disconnects the connections. `cm` may be NULL. */
void pmd_cm_close(struct pmd_cm *cm);
/** The engine ends: forget the bound ports. */
void pmd_cm_ports_close(struct pmd_engine *e);

#endif
