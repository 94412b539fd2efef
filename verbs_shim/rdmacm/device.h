/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - /dev/infiniband/rdma_cm as an open file. The hooks of the C library (sysfs/hooks_fd.c) call this; they may
 * be in another library, and get the functions by uroce_cm_attach, which is found by name.
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
	/** Whether a descriptor, which once was one of these, still is. */
	bool (*is)(int fd);
	/** write(2): *result is what it returns, with errno. @return false: the descriptor is none of these */
	bool (*write)(int fd, const void *buf, size_t n, ssize_t *result);
	/** `to` is a copy of `fd`. */
	void (*dup)(int fd, int to);
	/** The descriptor is about to be closed. With the last one its ids end. */
	void (*closing)(int fd);
};

/** Set the functions; `source` must stay valid. One of the wrong size is ignored: the device cannot be opened then. */
void uroce_cm_attach(const struct uroce_cm_source *source);

/** The functions of this library. */
const struct uroce_cm_source *rdmacm_device(void);

#endif
