/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_engine.h - engines without a network for fuzz_ring.c: NIC, control side, links and steps are the real ones; the
 * port discards what it is given, there are no threads, and the caller sets the clock.
 */
#ifndef FUZZ_RING_ENGINE_H
#define FUZZ_RING_ENGINE_H

#include "control_priv.h"
#include "engine_priv.h"

#define RING_GIDS  2
#define RING_ENEMY 2 /* number of the function owned by another user */

struct ring_engine {
	struct pmd_engine e;
	struct pmd_port port;
	int daemon_fd; /* the other end of its connection to a silent daemon */
	struct nic_gid gids[RING_GIDS];
};

/** Replaces CLOCK_MONOTONIC while not 0. */
extern uint64_t ring_now_ns;

/** Report and end the process if the condition is false. */
#define expect(holds) expect_at(holds, #holds, __FILE__, __LINE__)
void expect_at(bool holds, const char *what, const char *file, int line);

/** Restart the deterministic random numbers of keys, QPNs and PSNs. */
void ring_random_start(void);
void ring_random(void *ctx, void *buf, size_t len);

/** Function `function` of the device whose first address is gids[0]. */
void ring_engine_open(struct ring_engine *r, unsigned function, const struct nic_gid gids[RING_GIDS]);
void ring_engine_close(struct ring_engine *r);

/** Number of open descriptors of sockets, rings and events in this process. */
unsigned ring_descriptors(void);

#endif
