/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - the operations of a kernel driver for /dev/infiniband/rdma_cm: open, write, close, and copies of the
 * descriptor. Every command is one write. Owns nothing: files are in cma_file.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cma.h"
#include "device.h"

static int device_open(int flags)
{
	int fd;

	if (!cma_file_open(flags, &fd)) {
		errno = -fd;
		return -1;
	}
	return fd;
}

static bool device_is(int fd)
{
	struct cma_file *file = cma_file_get(fd);

	if (file)
		cma_file_put(file);
	return file;
}

static void file_put(void *file)
{
	cma_file_put(file);
}

/** Execute a command. Cancellation is disabled, except during the wait for an event. */
static int command_run(struct cma_file *file, int fd, const void *buf, size_t n)
{
	long flags = syscall(SYS_fcntl, fd, F_GETFL);
	bool block = flags >= 0 && !(flags & O_NONBLOCK);
	int err, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_cleanup_push(file_put, file);
	err = ucma_command(file, fd, block, cancel, buf, n);
	pthread_cleanup_pop(false);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

static bool device_write(int fd, const void *buf, size_t n, ssize_t *result)
{
	struct cma_file *file = cma_file_get(fd);
	int err;

	if (!file)
		return false;
	err = cma_file_is_inherited(file) ? -ENODEV : command_run(file, fd, buf, n);
	cma_file_put(file);
	*result = err ? -1 : (ssize_t)n;
	if (err)
		errno = -err;
	return true;
}

static void device_dup(int fd, int to)
{
	struct cma_file *file = cma_file_get(fd);

	if (!file)
		return;
	if (!cma_file_is_inherited(file))
		cma_file_dup(file, to);
	cma_file_put(file);
}

static void device_closing(int fd)
{
	struct cma_file *file = cma_file_get(fd);
	int saved = errno, cancel;

	if (!file)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (!cma_file_is_inherited(file))
		cma_file_close(file, fd);
	cma_file_put(file);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

const struct uroce_cm_source *rdmacm_device(void)
{
	static const struct uroce_cm_source source = {
		.size = sizeof(source),
		.open = device_open,
		.is = device_is,
		.write = device_write,
		.dup = device_dup,
		.closing = device_closing,
	};

	return &source;
}
