/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.c - the libfabric that loaded this provider. One binary serves every libfabric from 1.17 on, whichever
 * version's headers it was built with. Owns: the addresses of two of its functions.
 *
 * libfabric's structures only grow, at their ends. So the library that runs has to allocate a `struct fi_info`, with
 * the function of its own version: the linker would bind fi_dupinfo() to the version of the headers' library, whose
 * structures are smaller than those that the running library reads, or which an older library lacks. Nothing here may
 * write beyond the fields of libfabric 1.17 unless the program's version of the API says that the field is there.
 */
#include <dlfcn.h>

#include "provider.h"

static struct {
	struct fi_info *(*dup)(const struct fi_info *);
	void (*free)(struct fi_info *);
} library;

int ufi_library_find(void)
{
	/* It is loaded: this provider depends on it. dlsym() finds the newest version of a function. */
	void *handle = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!handle)
		return -FI_ENOSYS;
	library.dup = (struct fi_info * (*)(const struct fi_info *)) dlsym(handle, "fi_dupinfo");
	library.free = (void (*)(struct fi_info *))dlsym(handle, "fi_freeinfo");
	dlclose(handle);
	return library.dup && library.free ? 0 : -FI_ENOSYS;
}

struct fi_info *ufi_info_dup(const struct fi_info *info)
{
	return library.dup(info);
}

void ufi_info_free(struct fi_info *info)
{
	library.free(info);
}
