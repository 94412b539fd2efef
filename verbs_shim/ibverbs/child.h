/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h - contexts in a forked child (child.c). */
#ifndef SHIM_CHILD_H
#define SHIM_CHILD_H

#include "shim.h"

/** The context for new objects, and for queries, when the program names `context`: that one or, if a parent of this
 * process opened it, one that this process has opened in its place. @return an inherited context if the device cannot
 * be opened: calls on it then fail with EIO. */
struct ibv_context *shim_context_here(struct ibv_context *context);
/** As shim_context_here(), but opens nothing. @return an inherited context if this process has opened none in its
 * place */
struct ibv_context *shim_context_opened(struct ibv_context *context);
/** Called when a context is closed: close the one that was opened in its place, if there is one, and forget this one
 * where it stands in the place of another. */
void shim_anew_close(struct shim_context *ctx);
#define SHIM_EVENTFD_UNKNOWN (-2)
/** The kernel's number of an eventfd, by which eventfds differ while they are open. @return -1: this is no eventfd, or
 * the kernel does not tell (before Linux 5.2); SHIM_EVENTFD_UNKNOWN: no descriptor is free to find out. */
long shim_eventfd_id(int fd);
/** Whether cmd_fd, or an event queue's descriptor, still is what the library opened for this context. A forked child
 * may have closed what it inherited, and then these numbers are its own files'. For contexts of this process: true. */
bool shim_holds_cmd_fd(const struct shim_context *ctx);
bool shim_holds_queue(const struct shim_context *ctx, const struct shim_event_queue *q);
/** As ibv_open_device(). @param quiet do not tell the user why it fails. Defined in device.c. */
struct ibv_context *shim_context_open(struct shim_device *dev, bool quiet);
/** Whether the kernel has the class infiniband_verbs (sysfs), as with real devices. Defined in device.c. */
bool shim_kernel_has_verbs(void);

#endif
