/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_ucx.c - adds our transport to UCX, which loads only the transports that it was built with. The preloaded
 * library interposes libuct's function uct_query_components. When the program lists UCX's components, the hook loads
 * our module, which adds a component.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "hooks.h"

#define MODULE "liburoce-ucx.so"

/* The module is in the same folder as this library or, in a build, in the folder ../ucx. */
static void *module_open(void)
{
	static const char *const folders[] = {"", "../ucx/"};
	char path[4096];
	const char *slash;
	Dl_info info;
	void *module = NULL;

	if (!dladdr((void *)(uintptr_t)module_open, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return NULL;
	for (unsigned i = 0; !module && i < sizeof(folders) / sizeof(folders[0]); i++) {
		int n = snprintf(path, sizeof(path), "%.*s/%s" MODULE, (int)(slash - info.dli_fname), info.dli_fname,
				 folders[i]);

		if (n > 0 && (size_t)n < sizeof(path))
			module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return module;
}

/* Find libuct's function if RTLD_NEXT has not found it, because libuct is outside the global scope (for example, a
 * module of MPI has loaded it). If libuct is not loaded under its usual name (software bundles rename it), search the
 * caller of the hook: the caller depends on libuct, and dlsym also searches a library's dependencies. */
static void *elsewhere(void *caller)
{
	void *lib = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD);
	Dl_info info;

	if (!lib && dladdr(caller, &info))
		lib = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	return lib ? dlsym(lib, "uct_query_components") : NULL;
}

HOOK(int8_t, uct_query_components, (void *components, unsigned *n))
{
	__typeof__(&hook_uct_query_components) real = NEXT(uct_query_components);
	void *module = module_open(), *at = module ? dlsym(module, "uroce_ucx_load") : NULL;
	void (*load)(void) = NULL;

	memcpy(&load, &at, sizeof(at));
	if (load)
		load();
	if (!real) {
		at = elsewhere(__builtin_return_address(0));
		memcpy(&real, &at, sizeof(at));
	}
	if (!real || real == hook_uct_query_components) {
		fprintf(stderr, "uroce: UCX's own uct_query_components was not found\n");
		return -22; /* UCS_ERR_UNSUPPORTED */
	}
	return real(components, n);
}
