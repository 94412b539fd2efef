/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hook.c - UCX loads only the transports that it was built with. So this function stands before libuct's, in the
 * preloaded library: the first program's call that lists UCX's components loads our module, which adds one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MODULE "liburoce-ucx.so"

__attribute__((visibility("default"))) int8_t uct_query_components(void *components, unsigned *n);

/* The module lies beside this library, or in the folder ucx of a build. */
static void *module_open(void)
{
	static const char *const folders[] = {"", "../ucx/"};
	char path[4096];
	const char *slash;
	Dl_info info;
	void *module = NULL;

	if (!dladdr((void *)(uintptr_t)uct_query_components, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return NULL;
	for (unsigned i = 0; !module && i < sizeof(folders) / sizeof(folders[0]); i++) {
		int n = snprintf(path, sizeof(path), "%.*s/%s" MODULE, (int)(slash - info.dli_fname), info.dli_fname,
				 folders[i]);

		if (n > 0 && (size_t)n < sizeof(path))
			module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return module;
}

/* libuct may be out of the global scope, if a module of MPI loaded it. */
static void *real_find(void)
{
	void *real = dlsym(RTLD_NEXT, "uct_query_components"), *uct;

	if (real)
		return real;
	uct = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD);
	return uct ? dlsym(uct, "uct_query_components") : NULL;
}

int8_t uct_query_components(void *components, unsigned *n)
{
	int8_t (*real)(void *, unsigned *) = NULL;
	void *module = module_open(), *at = module ? dlsym(module, "uroce_ucx_load") : NULL;
	void (*load)(void) = NULL;

	memcpy(&load, &at, sizeof(at));
	if (load)
		load();
	at = real_find();
	memcpy(&real, &at, sizeof(at));
	return real ? real(components, n) : -22; /* UCS_ERR_UNSUPPORTED */
}
