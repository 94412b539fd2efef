/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm_priv.h - the connection manager as the files of pmd/engine share it (pmd-internal); see engine_cm.h.
 */
#ifndef PMD_ENGINE_CM_PRIV_H
#define PMD_ENGINE_CM_PRIV_H

#include "engine_cm.h"
#include "nic_cm.h"

struct pmd_engine;

/** Exists from pmd_cm_open on. Under the engine's lock. */
struct pmd_cm {
	struct nic_cm *nic_cm;
	pmd_cm_event_fn on_event;
	void *ctx;
	struct pmd_engine *engine;
	struct nic_cm_record *records; /* shared with the daemon; NULL: none */
	size_t records_bytes;
	struct pmd_cm_stats stats;
};

/** Do what is due, before a step transmits. */
void pmd_cm_advance(struct pmd_cm *cm, uint64_t now_ns);
/** A message that came to queue pair 1, or to the daemon, which has handed it on. */
void pmd_cm_take(struct pmd_cm *cm, const struct nic_cm_route *route, const uint8_t *mad);
/** In a forked child: the records are the parent's. NULL is allowed. */
void pmd_cm_forked(struct pmd_cm *cm);
/** The engine ends, before its NIC: connections are left to the daemon, which disconnects them. NULL is allowed. */
void pmd_cm_close(struct pmd_cm *cm);
/** The engine ends: forget the bound ports. */
void pmd_cm_ports_close(struct pmd_engine *e);

#endif
