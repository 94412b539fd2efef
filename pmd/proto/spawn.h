/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.h - starting a device's daemon from inside an ordinary process (pmd-internal). */
#ifndef PMD_SPAWN_H
#define PMD_SPAWN_H

#include "engine.h"

/**
 * Start a daemon for the device, and wait until functions can join the daemon or the daemon reports an error. The
 * application does not notice, whatever its threads and handlers do: it gets no child to wait for, no signal and no
 * open descriptor. Several processes may call this at the same time for one device.
 * @return 0, or a negative errno with a message in err.
 */
int pmd_spawn_daemon(const struct pmd_device *device, char *err, size_t err_len);

#endif
