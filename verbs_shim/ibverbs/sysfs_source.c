/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs_source.c - gives the sysfs hooks (sysfs/attach.h) the state of the devices that this process has open. This
 * file owns no state. It finds the hooks' functions by name if the hooks' library is in the process.
 */
#include <dlfcn.h>
#include <string.h>

#include "shim.h"
#include "sysfs/attach.h"

static void read_engine(const struct shim_context *ctx, struct sysfs_live *live)
{
	pmd_lock(ctx->engine);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		nic_gid_get(ctx->nic, i, &live->gids[i]);
	memcpy(live->nic, nic_counters(ctx->nic), sizeof(live->nic));
	pmd_port_stats_get(ctx->engine, &live->port);
	pmd_unlock(ctx->engine);
}

static bool source_read(const char *name, struct pmd_device *device, struct sysfs_live *live)
{
	struct shim_context *ctx;
	struct ibv_port_attr attr;
	int cancel;
	bool ok;

	memset(live, 0, sizeof(*live));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a cancelled thread would never return the context */
	ctx = shim_context_borrow(name);
	ok = ctx && !shim_query_port(&ctx->vctx.context, 1, &attr, sizeof(attr));
	if (ok) {
		*device = ctx->dev->pmd;
		live->state = attr.state;
		live->phys_state = attr.phys_state;
		read_engine(ctx, live);
	}
	if (ctx)
		shim_context_return();
	pthread_setcancelstate(cancel, NULL);
	return ok;
}

void shim_sysfs_attach(void)
{
	static const struct uroce_sysfs_source source = {sizeof(struct sysfs_live), source_read};
	void (*attach)(const struct uroce_sysfs_source *) =
		(void (*)(const struct uroce_sysfs_source *))dlsym(RTLD_DEFAULT, "uroce_sysfs_attach");

	if (attach)
		attach(&source);
}

void shim_sysfs_bypass(int change)
{
	void (*bypass)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "uroce_sysfs_bypass");

	if (bypass)
		bypass(change);
}
