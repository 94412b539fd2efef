/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_link.c - hooks of the C library's functions that resolve names: symbolic links, canonical paths, patterns. The
 * results never show where the tree is on disk. Owns nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hooks.h"

/* ---- links ------------------------------------------------------------------------------------------- */

/** Our character devices are symbolic links, but must look like devices: readlink fails with EINVAL. */
static ssize_t not_a_link(void)
{
	errno = EINVAL;
	return -1;
}

HOOK(ssize_t, readlink, (const char *path, char *buf, size_t n))
{
	const char *at = AT(path);

	return at != path && sysfs_is_node(at) ? not_a_link() : NEXT(readlink)(at, buf, n);
}

HOOK(ssize_t, readlinkat, (int dirfd, const char *path, char *buf, size_t n))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	return at != from && sysfs_is_node(at) ? not_a_link() : NEXT(readlinkat)(dirfd, at, buf, n);
}

HOOK(ssize_t, __readlink_chk, (const char *path, char *buf, size_t n, size_t room))
{
	const char *at = AT(path);

	return at != path && sysfs_is_node(at) ? not_a_link() : NEXT(__readlink_chk)(at, buf, n, room);
}

HOOK(ssize_t, __readlinkat_chk, (int dirfd, const char *path, char *buf, size_t n, size_t room))
{
	const char *from = FROM(dirfd, path), *at = AT(from);

	return at != from && sysfs_is_node(at) ? not_a_link() : NEXT(__readlinkat_chk)(dirfd, at, buf, n, room);
}

/* ---- canonical paths --------------------------------------------------------------------------------- */

static char *realpath_ours(const char *path, const char *at, char *out)
{
	char resolved[PATH_MAX];
	const char *shown = resolved;

	if (sysfs_is_node(at)) {
		if (access(at, F_OK) || !sysfs_path_plain(path, resolved, sizeof(resolved)))
			return NULL;
	} else {
		if (!realpath(at, resolved))
			return NULL;
		shown = sysfs_path_back(resolved);
	}
	return out ? strcpy(out, shown) : strdup(shown);
}

HOOK(char *, realpath, (const char *path, char *out))
{
	const char *at = AT(path);

	return at == path ? NEXT(realpath)(path, out) : realpath_ours(path, at, out);
}

HOOK(char *, __realpath_chk, (const char *path, char *out, size_t room))
{
	const char *at = AT(path);

	if (at == path || room < PATH_MAX) /* with a smaller buffer the C library aborts */
		return NEXT(__realpath_chk)(path, out, room);
	return realpath_ours(path, at, out);
}

HOOK(char *, canonicalize_file_name, (const char *path))
{
	const char *at = AT(path);

	return at == path ? NEXT(canonicalize_file_name)(path) : realpath_ours(path, at, NULL);
}

/* ---- patterns ---------------------------------------------------------------------------------------- */

static void *glob_opendir(const char *path)
{
	return opendir(path);
}

static struct dirent *glob_readdir(void *dir)
{
	return readdir(dir);
}

static void glob_closedir(void *dir)
{
	closedir(dir);
}

static int glob_stat(const char *path, struct stat *st)
{
	return stat(path, st);
}

static int glob_lstat(const char *path, struct stat *st)
{
	return lstat(path, st);
}

/** glob calls the C library's own opendir etc., unless the caller passes other functions: pass the hooked functions. */
HOOK(int, glob, (const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *out))
{
	if (sysfs_match(pattern) && !(flags & GLOB_ALTDIRFUNC)) {
		out->gl_opendir = glob_opendir;
		out->gl_readdir = glob_readdir;
		out->gl_closedir = glob_closedir;
		out->gl_stat = glob_stat;
		out->gl_lstat = glob_lstat;
		flags |= GLOB_ALTDIRFUNC;
	}
	return NEXT(glob)(pattern, flags, on_error, out);
}
HOOK_ALIAS(glob64, glob);
