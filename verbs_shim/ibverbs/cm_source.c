/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_source.c - gives the connection manager (rdmacm/) the engines of this library, and gives the sysfs hooks the
 * functions of the device /dev/infiniband/rdma_cm. The hooks may be in another library or absent, so
 * their function uroce_cm_attach is looked up by name. Owns nothing.
 */
#include <dlfcn.h>

#include "rdmacm/cma.h"
#include "rdmacm/device.h"
#include "shim.h"

int cma_front_open(const struct pmd_device *device, struct pmd_engine **out)
{
	return shim_engine_open(device, out);
}

void shim_cm_attach(void)
{
	static atomic_bool done;
	void (*attach)(const struct uroce_cm_source *);

	if (atomic_exchange(&done, true))
		return;
	attach = (void (*)(const struct uroce_cm_source *))dlsym(RTLD_DEFAULT, "uroce_cm_attach");
	if (attach)
		attach(rdmacm_device());
}
