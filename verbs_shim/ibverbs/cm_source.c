/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_source.c - opens engines for the connection manager (rdmacm/), and tells the sysfs hooks which functions implement
 * the device /dev/infiniband/rdma_cm. The hooks may be in another library or absent, so their function uroce_cm_attach
 * is looked up by name. Owns nothing.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/cma.h"
#include "rdmacm/device.h"
#include "say.h"
#include "shim.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"

int cma_front_open(const struct pmd_device *device, struct pmd_engine **out)
{
	return shim_engine_open(device, out);
}

/** Whether code of librdmacm is at this address. */
static bool is_of_librdmacm(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) && info.dli_fname && strstr(info.dli_fname, "/librdmacm.so");
}

/* Called when the list of devices is requested, which librdmacm does before it opens the connection manager's device.
 * Without the hooks or a kernel's device, librdmacm does not find that device, and programs report only that something
 * failed: the message here tells the user why. */
void shim_cm_attach(const void *caller)
{
	static atomic_bool done, absent, said;
	void (*attach)(const struct uroce_cm_source *);

	if (!atomic_exchange(&done, true)) {
		attach = (void (*)(const struct uroce_cm_source *))dlsym(RTLD_DEFAULT, "uroce_cm_attach");
		if (attach)
			attach(rdmacm_device());
		else
			atomic_store(&absent, true);
	}
	if (atomic_load(&absent) && access(CM_DEVICE, F_OK) != 0 && is_of_librdmacm(caller))
		shim_say_once(&said, "librdmacm will not find " CM_DEVICE
				     " and cannot connect: start the program with uroce-run, without --no-sysfs");
}
