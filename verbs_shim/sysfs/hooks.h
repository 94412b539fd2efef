/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks.h - macros to interpose functions of the C library.
 *
 * HOOK(int, access, (const char *path, int mode)) defines hook_access, which is exported as `access`. Macros and
 * attributes in the C library's headers therefore do not apply to the hook. Some of these attributes would make a NULL
 * path undefined behavior instead of an error. NEXT(access) is the interposed function, looked up at the first call.
 */
#ifndef SYSFS_HOOKS_H
#define SYSFS_HOOKS_H

#include <alloca.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "sysfs.h"

/* Only on 32-bit systems do the C library's *64 functions (stat64) differ from those without 64 (stat). */
_Static_assert(sizeof(long) == 8, "uroce is for 64-bit systems");

#define HOOK(ret, name, args)                                                                                          \
	ret hook_##name args __asm__(#name) __attribute__((visibility("default")));                                    \
	static void *next_##name;                                                                                      \
	ret hook_##name args

/** Define one more name for the hook `of`, in the same file. */
#define HOOK_ALIAS(name, of)                                                                                           \
	extern __typeof__(hook_##of) hook_##name __asm__(#name) __attribute__((alias(#of), visibility("default")))

static inline void *hook_next(void **slot, const char *name)
{
	void *fn = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (__builtin_expect(!fn, 0)) {
		fn = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, fn, __ATOMIC_RELAXED);
	}
	return fn;
}

#define NEXT(name) ((__typeof__(&hook_##name))hook_next(&next_##name, #name))

/** The path to use instead of `path`: redirected if it is in the tree. The buffer exists until the calling function
 * returns, and is allocated only for paths that can be in the tree. */
#define AT(path) (sysfs_match(path) ? sysfs_path((path), alloca(SYSFS_PATH_MAX)) : (path))

static inline char *hook_below_root(const char *path, char *out)
{
	out[0] = '/';
	strcpy(out + 1, path);
	return out;
}

/** If `dirfd` is the root folder and `path` can be in the tree (hwloc names files this way), the absolute path;
 * otherwise `path` itself. The buffer exists as long as that of AT(). */
#define FROM(dirfd, path)                                                                                              \
	((path) && ((path)[0] == 's' || (path)[0] == 'd') && sysfs_match_below_root(dirfd, path)                       \
		 ? hook_below_root(path, alloca(strlen(path) + 2))                                                     \
		 : (path))

#endif
