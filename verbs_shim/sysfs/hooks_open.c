/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_open.c - hooks of the C library's functions that open files and folders by name, and of those that read
 * descriptors. A read first refreshes a file whose content changes (live.c). Owns nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hooks.h"

/* ---- opening ----------------------------------------------------------------------------------------- */

/** Open a file of the tree. Files of /sys are read-only, and no files can be created. @return the descriptor, or -1 and
 * errno. */
static int open_ours(const char *path, const char *at, int flags)
{
	int fd;

	if (sysfs_is_cm_node(at) && !(flags & (O_PATH | O_DIRECTORY)))
		return sysfs_cm_open(flags);
	if (!strncmp(sysfs_path_back(at), "/sys/", 5)) {
		if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH)) {
			errno = EACCES;
			return -1;
		}
		fd = sysfs_live_open(path, flags);
		if (fd >= 0)
			return fd;
	}
	return openat(AT_FDCWD, at, flags & ~(O_CREAT | O_EXCL | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)));
}

/* The caller passes `mode` only with certain flags. Otherwise its value is arbitrary, and the C library ignores it. */

HOOK(int, open, (const char *path, int flags, mode_t mode))
{
	const char *at = AT(path);

	return at == path ? NEXT(open)(path, flags, mode) : open_ours(path, at, flags);
}
HOOK_ALIAS(open64, open);

HOOK(int, openat, (int dirfd, const char *path, int flags, mode_t mode))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	return at == from ? NEXT(openat)(dirfd, path, flags, mode) : open_ours(from, at, flags);
}
HOOK_ALIAS(openat64, openat);

/* In programs built with _FORTIFY_SOURCE, calls without a mode call these functions instead. */
HOOK(int, __open_2, (const char *path, int flags))
{
	const char *at = AT(path);

	return at == path ? NEXT(__open_2)(path, flags) : open_ours(path, at, flags);
}
HOOK_ALIAS(__open64_2, __open_2);

HOOK(int, __openat_2, (int dirfd, const char *path, int flags))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	return at == from ? NEXT(__openat_2)(dirfd, path, flags) : open_ours(from, at, flags);
}
HOOK_ALIAS(__openat64_2, __openat_2);

/* ---- streams ----------------------------------------------------------------------------------------- */

static FILE *fopen_ours(const char *path, const char *at, const char *mode)
{
	int rights = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
	int fd = open_ours(path, at, rights | (strchr(mode, 'e') ? O_CLOEXEC : 0));
	FILE *f = fd >= 0 ? fdopen(fd, mode) : NULL;

	if (!f && fd >= 0)
		close(fd);
	return f;
}

HOOK(FILE *, fopen, (const char *path, const char *mode))
{
	const char *at = AT(path);

	return at == path ? NEXT(fopen)(path, mode) : fopen_ours(path, at, mode);
}
HOOK_ALIAS(fopen64, fopen);

HOOK(FILE *, freopen, (const char *path, const char *mode, FILE *f))
{
	const char *at = AT(path);

	/* With a mode that writes, use the original path: no file exists there, so freopen fails. */
	return NEXT(freopen)(mode[0] == 'r' && !strchr(mode, '+') ? at : path, mode, f);
}
HOOK_ALIAS(freopen64, freopen);

/* ---- folders ----------------------------------------------------------------------------------------- */

HOOK(DIR *, opendir, (const char *path))
{
	return NEXT(opendir)(AT(path));
}

typedef int (*filter_fn)(const struct dirent *);
typedef int (*compare_fn)(const struct dirent **, const struct dirent **);

HOOK(int, scandir, (const char *path, struct dirent ***list, filter_fn filter, compare_fn compare))
{
	return NEXT(scandir)(AT(path), list, filter, compare);
}
HOOK_ALIAS(scandir64, scandir);

HOOK(int, scandirat, (int dirfd, const char *path, struct dirent ***list, filter_fn filter, compare_fn compare))
{
	const char *from = FROM(dirfd, path);

	return NEXT(scandirat)(dirfd, AT(from), list, filter, compare);
}
HOOK_ALIAS(scandirat64, scandirat);

HOOK(int, chdir, (const char *path))
{
	return NEXT(chdir)(AT(path));
}

/* ---- reading ----------------------------------------------------------------------------------------- */

static inline void refresh(int fd, long offset)
{
	if (__builtin_expect(__atomic_load_n(&sysfs_live_any, __ATOMIC_RELAXED), 0))
		sysfs_live_refresh(fd, offset);
}

HOOK(ssize_t, read, (int fd, void *buf, size_t n))
{
	refresh(fd, -1);
	return NEXT(read)(fd, buf, n);
}

HOOK(ssize_t, __read_chk, (int fd, void *buf, size_t n, size_t room))
{
	refresh(fd, -1);
	return NEXT(__read_chk)(fd, buf, n, room);
}

HOOK(ssize_t, pread, (int fd, void *buf, size_t n, off_t offset))
{
	refresh(fd, offset);
	return NEXT(pread)(fd, buf, n, offset);
}
HOOK_ALIAS(pread64, pread);
