/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h - contexts in a forked child (child.c). */
#ifndef SHIM_CHILD_H
#define SHIM_CHILD_H

#include "shim.h"

/** The context for new objects, and for queries, when the program names `context`: that one or, if a parent of this
 * process opened it, one that this process has opened in its place. @return `context` itself also if that fails: calls
 * on it then fail with EIO. */
struct ibv_context *shim_context_here(struct ibv_context *context);
/** Close the context that this process opened in the place of an inherited one, if there is one. */
void shim_anew_close(struct shim_context *ctx);
/** Whether the machine has RDMA devices of its own. Defined in device.c. */
bool shim_kernel_has_verbs(void);

#endif
