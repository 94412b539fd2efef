/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the operations of /dev/infiniband/rdma_cm, which the hooks of the C library (sysfs/hooks_fd.c) call. The
 * hooks may be in another library. Therefore ibverbs/cm_source.c looks up the hooks' function uroce_cm_attach by name,
 * and passes the operations to it.
 */
#ifndef RDMACM_DEVICE_H
#define RDMACM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct uroce_cm_source {
	size_t size; /* sizeof(struct uroce_cm_source): must be equal in both libraries */
	/** @return a descriptor, or -1 and errno */
	int (*open)(int flags);
	/** Whether a descriptor still refers to the device. The hooks remember descriptors by their numbers, which the
	 * program can reuse for other files. */
	bool (*is)(int fd);
	/** As write(2), but the return value is in *result. @return false: the descriptor is not the device's */
	bool (*write)(int fd, const void *buf, size_t n, ssize_t *result);
	/** Called after `fd` was duplicated as `to`. */
	void (*dup)(int fd, int to);
	/** Called before a descriptor is closed. Closing the last copy destroys the ids of the open file. */
	void (*closing)(int fd);
};

/** Set the operations; `source` must stay valid. If source->size is wrong, `source` is ignored, and the device cannot
 * be opened. */
void uroce_cm_attach(const struct uroce_cm_source *source);

/** The operations that this library implements. */
const struct uroce_cm_source *rdmacm_device(void);

#endif
