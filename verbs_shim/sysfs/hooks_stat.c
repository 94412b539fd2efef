/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_stat.c - hooks of the C library's functions that examine a file by name. Owns nothing.
 *
 * Our character devices are symbolic links to a device of the kernel, but must look like devices. The hooks of lstat
 * and similar functions therefore follow the link.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "hooks.h"

HOOK(int, stat, (const char *path, struct stat *st))
{
	return NEXT(stat)(AT(path), st);
}
HOOK_ALIAS(stat64, stat);

HOOK(int, lstat, (const char *path, struct stat *st))
{
	const char *at = AT(path);

	if (at != path && sysfs_is_node(at))
		return stat(at, st);
	return NEXT(lstat)(at, st);
}
HOOK_ALIAS(lstat64, lstat);

HOOK(int, fstatat, (int dirfd, const char *path, struct stat *st, int flags))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	if (at != from && sysfs_is_node(at))
		flags &= ~AT_SYMLINK_NOFOLLOW;
	return NEXT(fstatat)(dirfd, at, st, flags);
}
HOOK_ALIAS(fstatat64, fstatat);

HOOK(int, statx, (int dirfd, const char *path, int flags, unsigned mask, struct statx *st))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	if (at != from && sysfs_is_node(at))
		flags &= ~AT_SYMLINK_NOFOLLOW;
	return NEXT(statx)(dirfd, at, flags, mask, st);
}

/* Programs built before glibc 2.33 call __xstat instead of stat. */
HOOK(int, __xstat, (int version, const char *path, struct stat *st))
{
	return NEXT(__xstat)(version, AT(path), st);
}
HOOK_ALIAS(__xstat64, __xstat);

HOOK(int, __lxstat, (int version, const char *path, struct stat *st))
{
	const char *at = AT(path);

	if (at != path && sysfs_is_node(at))
		return stat(at, st);
	return NEXT(__lxstat)(version, at, st);
}
HOOK_ALIAS(__lxstat64, __lxstat);

HOOK(int, __fxstatat, (int version, int dirfd, const char *path, struct stat *st, int flags))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	if (at != from && sysfs_is_node(at))
		flags &= ~AT_SYMLINK_NOFOLLOW;
	return NEXT(__fxstatat)(version, dirfd, at, st, flags);
}
HOOK_ALIAS(__fxstatat64, __fxstatat);

HOOK(int, access, (const char *path, int mode))
{
	return NEXT(access)(AT(path), mode);
}

HOOK(int, euidaccess, (const char *path, int mode))
{
	return NEXT(euidaccess)(AT(path), mode);
}
HOOK_ALIAS(eaccess, euidaccess);

HOOK(int, faccessat, (int dirfd, const char *path, int mode, int flags))
{
	const char *from = FROM(dirfd, path);

	return NEXT(faccessat)(dirfd, AT(from), mode, flags);
}

HOOK(int, statfs, (const char *path, struct statfs *st))
{
	return NEXT(statfs)(AT(path), st);
}
HOOK_ALIAS(statfs64, statfs);

HOOK(int, statvfs, (const char *path, struct statvfs *st))
{
	return NEXT(statvfs)(AT(path), st);
}
HOOK_ALIAS(statvfs64, statvfs);

HOOK(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size))
{
	return NEXT(getxattr)(AT(path), name, value, size);
}

HOOK(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size))
{
	return NEXT(lgetxattr)(AT(path), name, value, size);
}

HOOK(ssize_t, listxattr, (const char *path, char *list, size_t size))
{
	return NEXT(listxattr)(AT(path), list, size);
}

HOOK(ssize_t, llistxattr, (const char *path, char *list, size_t size))
{
	return NEXT(llistxattr)(AT(path), list, size);
}
