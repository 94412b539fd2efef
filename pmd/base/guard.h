/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - touching application memory that may be gone (pmd-internal). */
#ifndef PMD_GUARD_H
#define PMD_GUARD_H

#include <stdbool.h>

/** As nic_config.guard: run fn(arg); false when it faulted. */
bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg);

/** Around fork, by the thread that forks: the child gets the guard whole, and without the notes of threads that it does
 *  not have. Nothing of the engine's is locked after it. */
void pmd_guard_fork_prepare(void);
void pmd_guard_fork_parent(void);
void pmd_guard_fork_child(void);

#endif
