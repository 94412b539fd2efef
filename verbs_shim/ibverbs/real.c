/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * real.c - finds and opens the real libibverbs, which serves real devices.
 *
 * dlopen() of the SONAME alone might find our own library. If UROCE_REAL_LIBIBVERBS is set, only that file is tried.
 * Otherwise the order is: a library that is already in the process, unless it is ours; then the usual folders.
 * The library is opened on first use.
 *
 * A public function that the real library calls in itself is ours, as with the preload library; ours hands on what
 * belongs to real devices (see also shim_real_devices_only). RTLD_DEEPBIND would avoid that detour, but it would give
 * libc's free() what libc's strdup() got from an allocator of the program, such as Ceph's tcmalloc.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "real.h"
#include "shim.h"

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#endif

void uroce_ibverbs_marker(void);

/* Exported by our library only: a library that has this symbol is ours. */
SHIM_EXPORT void uroce_ibverbs_marker(void)
{
}

static void *open_real(const char *path, int flags)
{
	void *handle = dlopen(path, flags);

	if (handle && dlsym(handle, "uroce_ibverbs_marker")) {
		dlclose(handle);
		handle = NULL;
	}
	return handle;
}

void *shim_real_loaded(void)
{
	return open_real("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
}

static void *real_handle;

static void find_real(void)
{
	static const char *const paths[] = {
		"/usr/lib/" TRIPLET "/libibverbs.so.1",
		"/lib/" TRIPLET "/libibverbs.so.1",
		"/usr/lib64/libibverbs.so.1",
		"/lib64/libibverbs.so.1",
		"/usr/lib/libibverbs.so.1",
		"/usr/local/lib/libibverbs.so.1",
	};
	const char *chosen = secure_getenv("UROCE_REAL_LIBIBVERBS"); /* secure_getenv: the variable names code to run */

	if (chosen) {
		real_handle = open_real(chosen, RTLD_NOW | RTLD_LOCAL);
		if (!real_handle)
			fprintf(stderr,
				"uroce: UROCE_REAL_LIBIBVERBS=%s does not name another libibverbs; real devices are "
				"not shown\n",
				chosen);
		return;
	}
	real_handle = shim_real_loaded();
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths) && !real_handle; i++)
		real_handle = open_real(paths[i], RTLD_NOW | RTLD_LOCAL);
}

void *shim_real_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_real);
	return real_handle;
}

void *shim_real_symbol(const char *name)
{
	void *handle = shim_real_open();

	return handle ? dlsym(handle, name) : NULL;
}
