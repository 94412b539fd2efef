/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks.h - macros to interpose functions of the C library.
 *
 * HOOK(int, access, (const char *path, int mode)) defines the exported `access` under another C name: independent of
 * the C library's attributes on the arguments (a NULL path is an error, not undefined behavior) and of what its
 * headers make of the name. NEXT(access) is the interposed function, looked up at the first call.
 */
#ifndef SYSFS_HOOKS_H
#define SYSFS_HOOKS_H

#include <alloca.h>
#include <dlfcn.h>
#include <stdint.h>

#include "sysfs.h"

/* The *64 functions differ from the plain ones only where these types do. */
_Static_assert(sizeof(long) == 8, "uroce is for 64-bit systems");

#define HOOK(ret, name, args)                                                                                          \
	ret hook_##name args __asm__(#name) __attribute__((visibility("default")));                                    \
	static void *next_##name;                                                                                      \
	ret hook_##name args

/** A further name for the hook `of`, in the same file. */
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

/** The path to use for `path`: redirected if it may be in the tree. The buffer lives until the calling function
 *  returns; other paths need none. */
#define AT(path) (sysfs_match(path) ? sysfs_path((path), alloca(SYSFS_PATH_MAX)) : (path))

#endif
