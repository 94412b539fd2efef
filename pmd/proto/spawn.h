/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.h - starting a device's daemon from inside an ordinary process (pmd-internal). */
#ifndef PMD_SPAWN_H
#define PMD_SPAWN_H

#include "engine.h"

/**
 * Start a daemon for the device, and wait until it can be joined or says why not. Invisible to the application,
 * whatever its threads and handlers do: no child to wait for, no signal, no descriptor left. Another process may do the
 * same at the same time.
 * @return 0 or a negative errno with one sentence in err.
 */
int pmd_spawn_daemon(const struct pmd_device *device, char *err, size_t err_len);

#endif
