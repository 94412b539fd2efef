/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - touching application memory that may be gone (pmd-internal). */
#ifndef PMD_GUARD_H
#define PMD_GUARD_H

#include <stdbool.h>

/** As nic_config.guard: run fn(arg); false when it faulted. */
bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg);

#endif
