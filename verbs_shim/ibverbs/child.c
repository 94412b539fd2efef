/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.c - contexts in a forked child, and the calls about fork. The engine of an inherited context is the parent's:
 * in the child, the objects that the parent made on it are dead. An adapter's driver can still make objects on such a
 * context. Here the first call that does so opens the device anew, and the objects belong to the context that this
 * gives: their `context` is another one than the program has named. Closing the inherited context closes it too.
 */
#include "child.h"
#include "shim.h"

struct ibv_context *shim_context_here(struct ibv_context *context)
{
	struct shim_context *ctx = shim_ctx(context), *have;
	struct ibv_context *opened;

	if (!shim_is_inherited(ctx) || shim_is_closed(ctx))
		return context;
	have = atomic_load(&ctx->anew);
	if (have && !shim_is_inherited(have))
		return &have->vctx.context;
	opened = ibv_open_device(&ctx->dev->ibv);
	if (!opened)
		return context;
	if (atomic_compare_exchange_strong(&ctx->anew, &have, shim_ctx(opened)))
		return opened;
	ibv_close_device(opened); /* another thread was faster */
	return &have->vctx.context;
}

void shim_anew_close(struct shim_context *ctx)
{
	struct shim_context *anew = atomic_exchange(&ctx->anew, NULL);

	if (anew)
		ibv_close_device(&anew->vctx.context);
}

/* Registered memory is accessed through the process's own page tables. A fork therefore does no harm in the parent;
 * in the child our objects are dead. */
SHIM_EXPORT int ibv_fork_init(void)
{
	if (!shim_kernel_has_verbs() || !shim_real(ibv_fork_init))
		return 0;
	return shim_real(ibv_fork_init)();
}

SHIM_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	if (!shim_kernel_has_verbs() || !shim_real(ibv_is_fork_initialized))
		return IBV_FORK_UNNEEDED;
	return shim_real(ibv_is_fork_initialized)();
}

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

SHIM_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	return shim_real(ibv_dontfork_range) ? shim_real(ibv_dontfork_range)(base, size) : 0;
}

SHIM_EXPORT int ibv_dofork_range(void *base, size_t size)
{
	return shim_real(ibv_dofork_range) ? shim_real(ibv_dofork_range)(base, size) : 0;
}
