/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.c - ibv_import_device, and the import of PDs, memory regions and device memory. A program opens a context with
 * a copy of another context's cmd_fd; the new context can import the objects of the other context by their handles.
 * Both contexts belong to this process: the NIC function of another process cannot reach the objects of this one.
 *
 * An imported object is an alias of the original object. Destroying or unimporting the alias leaves the original
 * intact. After an original PD is destroyed, calls that use an alias of it fail with ENOENT. The keys of a region
 * become invalid when the original region is deregistered. Device memory cannot be freed before its aliases are
 * unimported.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "real.h"
#include "shim.h"

/** Whether the descriptor is the cmd_fd of a uroce context, perhaps one of another process. */
static bool is_cmd_fd(int fd)
{
	static const char wanted[] = "/memfd:" SHIM_CMD_FILE;
	char path[32], target[sizeof(wanted)] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, wanted);
}

SHIM_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *context = shim_context_import(cmd_fd);

	if (context || errno != ENOENT)
		return context;
	if (is_cmd_fd(cmd_fd) || !shim_real(ibv_import_device))
		return shim_fail(EOPNOTSUPP);
	shim_real_devices_only = true;
	shim_sysfs_bypass(1); /* as for the list of real devices */
	context = shim_real(ibv_import_device)(cmd_fd);
	shim_sysfs_bypass(-1);
	shim_real_devices_only = false;
	return context;
}

/** Find an object by its handle among those of the context and its siblings. Engine lock held. */
static struct shim_link *find(const struct shim_context *ctx, enum shim_kind kind, uint32_t handle)
{
	const struct shim_context *c = ctx;

	do {
		for (struct shim_link *link = c->links[kind]; link; link = link->next)
			if (link->handle == handle)
				return link;
		c = c->sibling;
	} while (c != ctx);
	return NULL;
}

/* ---- protection domains ------------------------------------------------------------------------------------------ */

SHIM_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct shim_context *ctx = shim_ctx(context);
	struct shim_link *link;
	struct shim_pd *pd;

	if (!shim_is_ours(context))
		return shim_real(ibv_import_pd)(context, handle);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return shim_fail(ENOMEM);
	if (!shim_enter(ctx)) {
		free(pd);
		return shim_fail(EIO);
	}
	link = find(ctx, SHIM_PD, handle);
	if (link)
		pd->nic = container_of(link, struct shim_pd, link)->nic;
	shim_leave(ctx);
	if (!link) {
		free(pd);
		return shim_fail(ENOENT);
	}
	pd->imported = true;
	pd->link.ctx = ctx;
	pd->link.handle = pd->ibv.handle = handle;
	pd->ibv.context = context;
	atomic_fetch_add(&ctx->objects, 1);
	return &pd->ibv;
}

bool shim_import_is_alive(const struct shim_pd *pd)
{
	struct shim_context *ctx = pd->link.ctx;
	bool alive;

	if (!shim_enter(ctx))
		return false;
	alive = find(ctx, SHIM_PD, pd->link.handle);
	shim_leave(ctx);
	return alive;
}

/* Objects that were created on an imported PD may outlive it. The last such object frees the PD's structure (pd.c). */
SHIM_EXPORT void ibv_unimport_pd(struct ibv_pd *ibv)
{
	struct shim_pd *pd = container_of(ibv, struct shim_pd, ibv);

	if (!shim_is_ours(ibv->context)) {
		shim_real(ibv_unimport_pd)(ibv);
		return;
	}
	if (!SHIM_INTACT(pd) || !pd->imported || pd->unimported)
		return;
	atomic_fetch_sub(&pd->link.ctx->objects, 1);
	atomic_fetch_add(&pd->users, 1);
	pd->unimported = true;
	shim_pd_put(ibv);
}

/* ---- memory regions ---------------------------------------------------------------------------------------------- */

SHIM_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_link *link = NULL;
	struct shim_mr *mr;
	int err = EIO;

	if (!shim_is_ours(pd->context))
		return shim_real(ibv_import_mr)(pd, handle);
	if (!shim_pd_intact(pd))
		return shim_fail(ENOENT);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return shim_fail(ENOMEM);
	if (shim_enter(ctx)) {
		err = ENOENT;
		link = find(ctx, SHIM_MR, handle);
		if (link)
			mr->ibv = container_of(link, struct shim_mr, link)->ibv;
		shim_leave(ctx);
	}
	if (!link) {
		free(mr);
		return shim_fail(err);
	}
	mr->imported = true;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = NULL; /* as in rdma-core, where the region may belong to another process */
	mr->link.ctx = ctx;
	mr->link.handle = mr->ibv.handle = handle;
	atomic_fetch_add(&ctx->objects, 1);
	shim_pd_get(pd);
	return &mr->ibv;
}

SHIM_EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	struct shim_mr *mr = container_of(ibv, struct shim_mr, ibv);

	if (!shim_is_ours(ibv->context)) {
		shim_real(ibv_unimport_mr)(ibv);
		return;
	}
	if (!SHIM_INTACT(mr) || !mr->imported)
		return;
	atomic_fetch_sub(&mr->link.ctx->objects, 1);
	shim_pd_put(ibv->pd);
	free(mr);
}

/* ---- device memory ----------------------------------------------------------------------------------------------- */

SHIM_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct shim_context *ctx = shim_ctx(context);
	struct shim_link *link;
	struct shim_dm *dm;

	if (!shim_is_ours(context))
		return shim_real(ibv_import_dm)(context, handle);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return shim_fail(ENOMEM);
	if (!shim_enter(ctx)) {
		free(dm);
		return shim_fail(EIO);
	}
	link = find(ctx, SHIM_DM, handle);
	if (link) {
		struct shim_dm *origin = container_of(link, struct shim_dm, link);

		*dm = (struct shim_dm){.ibv = origin->ibv,
				       .exp = origin->exp,
				       .mem = origin->mem,
				       .len = origin->len,
				       .origin = origin,
				       .forks = origin->forks};
		atomic_fetch_add(&origin->users, 1);
	}
	shim_leave(ctx);
	if (!link) {
		free(dm);
		return shim_fail(ENOENT);
	}
	dm->link.ctx = ctx;
	dm->link.handle = dm->ibv.handle = dm->exp.handle = handle;
	dm->ibv.context = dm->exp.context = context;
	atomic_fetch_add(&ctx->objects, 1);
	return &dm->ibv;
}

SHIM_EXPORT void ibv_unimport_dm(struct ibv_dm *ibv)
{
	struct shim_dm *dm = container_of(ibv, struct shim_dm, ibv);

	if (!shim_is_ours(ibv->context)) {
		shim_real(ibv_unimport_dm)(ibv);
		return;
	}
	if (!SHIM_INTACT(dm) || !dm->origin || atomic_load(&dm->users))
		return;
	atomic_fetch_sub(&dm->origin->users, 1);
	atomic_fetch_sub(&dm->link.ctx->objects, 1);
	free(dm);
}
