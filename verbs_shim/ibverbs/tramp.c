/* SPDX-License-Identifier: BSD-3-Clause */
/* tramp.c - resolves the target of a trampoline of the drop-in library at its first call (trampoline.h). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "real.h"
#include "shim.h"

void *shim_tramp_resolve(unsigned n);

static int missing_errno(void)
{
	errno = ENOSYS;
	return ENOSYS;
}

static void *missing_null(void)
{
	errno = ENOSYS;
	return NULL;
}

/* The drivers of real devices read our variable of this name. The real library sets ours, too, unless the program
 * opened our library with RTLD_LOCAL: then it sets its own. */
static void copy_data(void *handle)
{
	const bool *value = dlsym(handle, "verbs_allow_disassociate_destroy");

	if (value && *value)
		shim_data_verbs_allow_disassociate_destroy = true;
}

void *shim_tramp_resolve(unsigned n)
{
	const struct shim_tramp *t = &shim_tramps[n];
	void *handle = shim_real_open();
	void *fn = NULL;

	if (handle) {
		copy_data(handle);
		/* A private symbol has one version, which differs between releases; a public symbol can have several
		 * versions. */
		fn = strstr(t->version, "PRIVATE") ? dlsym(handle, t->name) : dlvsym(handle, t->name, t->version);
	}
	if (!fn) {
		fprintf(stderr, "uroce: %s is needed from the real libibverbs, which %s; install libibverbs1\n",
			t->name, handle ? "does not have it" : "is not installed");
		fn = t->fails_null ? (void *)missing_null : (void *)missing_errno;
	}
	__atomic_store_n(&shim_tramp_slots[n], fn, __ATOMIC_RELEASE);
	return fn;
}
