/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_fd.c - hooks of the C library's functions on descriptors, for the open device of the connection manager
 * (rdmacm/device.h). For all other descriptors a hook only tests a bit in a bitmap.
 *
 * State: the bitmap of descriptors that may be the device's. Only the library that called uroce_cm_attach knows for
 * sure, because a program can close a descriptor in a way that the hooks do not see. A child of vfork shares the bitmap
 * with its parent and must not change it. Such a child is recognized by its process ID.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hooks.h"
#include "rdmacm/device.h"

#define FDS (1 << 20)

static const struct uroce_cm_source *_Atomic source;
static _Atomic uint64_t marks[FDS / 64];
static atomic_bool any; /* whether any descriptor was ever marked */
static pid_t owner;

__attribute__((visibility("default"))) void uroce_cm_attach(const struct uroce_cm_source *s)
{
	if (s->size == sizeof(*s))
		atomic_store(&source, s);
}

static inline bool marked(int fd)
{
	return __builtin_expect(atomic_load_explicit(&any, memory_order_relaxed), 0) && (unsigned)fd < FDS &&
	       atomic_load_explicit(&marks[fd / 64], memory_order_relaxed) >> fd % 64 & 1;
}

static void mark(int fd)
{
	atomic_fetch_or(&marks[fd / 64], UINT64_C(1) << fd % 64);
	atomic_store(&any, true);
}

static void unmark(int fd)
{
	atomic_fetch_and(&marks[fd / 64], ~(UINT64_C(1) << fd % 64));
}

/** Whether this process may change the bitmap: true unless it is a child of vfork. */
static bool owns_marks(void)
{
	return owner == (pid_t)syscall(SYS_getpid);
}

static void owner_set(void)
{
	owner = (pid_t)syscall(SYS_getpid);
}

/** Register the fork handler when the library is loaded. If it were registered only by the first call of open, a child
 * forked during that call might not own its bitmap. */
static void __attribute__((constructor)) owner_init(void)
{
	owner_set();
	pthread_atfork(NULL, NULL, owner_set);
}

/* ---- open, write, close ------------------------------------------------------------------------------ */

int sysfs_cm_open(int flags)
{
	const struct uroce_cm_source *s = atomic_load(&source);
	int fd;

	if (!s) {
		errno = ENODEV;
		return -1;
	}
	if (owner == 0) /* owner_init() has not run yet: another library's constructor opens the device */
		owner_set();
	fd = s->open(flags);
	if (fd >= FDS) {
		s->closing(fd);
		syscall(SYS_close, fd);
		errno = EMFILE;
		return -1;
	}
	if (fd >= 0)
		mark(fd);
	return fd;
}

HOOK(ssize_t, write, (int fd, const void *buf, size_t n))
{
	ssize_t result;

	if (marked(fd)) {
		if (atomic_load(&source)->write(fd, buf, n, &result))
			return result;
		if (owns_marks())
			unmark(fd);
	}
	return NEXT(write)(fd, buf, n);
}

/** Called before a descriptor is closed: if it may be the device's, unmark it and tell the device's library. */
static void closing(int fd)
{
	if (!marked(fd) || !owns_marks())
		return;
	unmark(fd);
	atomic_load(&source)->closing(fd);
}

HOOK(int, close, (int fd))
{
	closing(fd);
	return NEXT(close)(fd);
}

static void closing_range(unsigned first, unsigned last)
{
	if (!atomic_load_explicit(&any, memory_order_relaxed))
		return;
	for (unsigned fd = first; fd <= last && fd < FDS; fd++) {
		if (!atomic_load_explicit(&marks[fd / 64], memory_order_relaxed))
			fd |= 63;
		else
			closing((int)fd);
	}
}

HOOK(int, close_range, (unsigned first, unsigned last, int flags))
{
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		closing_range(first, last);
	return NEXT(close_range)(first, last, flags);
}

HOOK(void, closefrom, (int first))
{
	closing_range(first < 0 ? 0 : (unsigned)first, FDS);
	NEXT(closefrom)(first);
}

/* ---- copies ------------------------------------------------------------------------------------------ */

/** Called after `fd` was duplicated as `to`; if `to` is negative, the duplication failed. @return `to` */
static int copied(int fd, int to)
{
	if (to >= 0 && to < FDS && to != fd && marked(fd) && owns_marks()) {
		atomic_load(&source)->dup(fd, to);
		mark(to);
	}
	return to;
}

HOOK(int, dup, (int fd))
{
	return copied(fd, NEXT(dup)(fd));
}

/** Whether dup2() or dup3() would close `to`: a call that fails leaves `to` open. */
static bool replaces(int fd, int to, int flags)
{
	return fd != to && !(flags & ~O_CLOEXEC) && syscall(SYS_fcntl, fd, F_GETFD) >= 0;
}

HOOK(int, dup2, (int fd, int to))
{
	if (replaces(fd, to, 0))
		closing(to);
	return copied(fd, NEXT(dup2)(fd, to));
}

HOOK(int, dup3, (int fd, int to, int flags))
{
	if (replaces(fd, to, flags))
		closing(to);
	return copied(fd, NEXT(dup3)(fd, to, flags));
}

/* Depending on the command, the third argument is an integer, a pointer, or absent. */
HOOK(int, fcntl, (int fd, int command, void *arg))
{
	int result = NEXT(fcntl)(fd, command, arg);

	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result;
}
HOOK_ALIAS(fcntl64, fcntl);

/* ---- fstat ------------------------------------------------------------------------------------------- */

/** Make fstat show a character device, because librdmacm requires one. Its device number is that of /dev/null, the same
 * that stat shows for the path. */
static void show_device(int fd, struct stat *st)
{
	if (!atomic_load(&source)->is(fd))
		return;
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(1, 3);
	st->st_size = 0;
}

HOOK(int, fstat, (int fd, struct stat *st))
{
	int err = NEXT(fstat)(fd, st);

	if (!err && marked(fd))
		show_device(fd, st);
	return err;
}
HOOK_ALIAS(fstat64, fstat);

/* Programs built before glibc 2.33 call __fxstat instead of fstat. */
HOOK(int, __fxstat, (int version, int fd, struct stat *st))
{
	int err = NEXT(__fxstat)(version, fd, st);

	if (!err && marked(fd))
		show_device(fd, st);
	return err;
}
HOOK_ALIAS(__fxstat64, __fxstat);
