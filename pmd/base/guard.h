/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - accesses to application memory that may have been unmapped (pmd-internal). */
#ifndef PMD_GUARD_H
#define PMD_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/** Implements nic_config.guard: run fn(arg). @return false: fn faulted. */
bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg);

/** The forking thread calls _prepare before fork, and _parent or _child after it. The child then has a consistent
 *  guard, without entries of threads that exist only in the parent. The caller must not take an engine lock between the
 *  two calls. */
void pmd_guard_fork_prepare(void);
void pmd_guard_fork_parent(void);
void pmd_guard_fork_child(void);

#endif
