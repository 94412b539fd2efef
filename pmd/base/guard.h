/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - accesses to application memory that may have been unmapped (pmd-internal). */
#ifndef PMD_GUARD_H
#define PMD_GUARD_H

#include <stdbool.h>

/** As nic_config.guard: run fn(arg); false when it faulted. */
bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg);

/** Called around fork by the forking thread: the child gets a consistent guard without entries of threads that it does
 *  not have. The caller takes no engine lock after _prepare. */
void pmd_guard_fork_prepare(void);
void pmd_guard_fork_parent(void);
void pmd_guard_fork_child(void);

#endif
