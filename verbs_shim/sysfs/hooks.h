/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks.h - how a function of the C library is put in front of itself.
 *
 * HOOK(int, access, (const char *path, int mode)) defines the exported `access` under another name in C: without the C
 * library's promises to the compiler about its arguments (a NULL path is an error, not undefined), and whatever its
 * headers make of the name. NEXT(access) is the one that programs would have got; it is looked up at the first call.
 */
#ifndef SYSFS_HOOKS_H
#define SYSFS_HOOKS_H

#include <alloca.h>
#include <dlfcn.h>
#include <stdint.h>

#include "sysfs.h"

/* The forms with 64 in their names differ only where these types do. */
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

/** The path to look at for `path`. The buffer lives as long as the function; other paths need none. */
#define AT(path) (sysfs_match(path) ? sysfs_path((path), alloca(SYSFS_PATH_MAX)) : (path))

#endif
