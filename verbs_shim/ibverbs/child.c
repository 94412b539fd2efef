/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.c - contexts in a forked child, and the calls about fork. The engine of an inherited context is the parent's:
 * in the child, the objects that the parent made on it are dead. An adapter's driver can still make objects on such a
 * context. Here the first call that makes an object, or queries the port or its GIDs, opens the device anew. The
 * objects then belong to the new context, so their `context` is not the one that the program passed. Closing the
 * inherited context also closes the new one.
 *
 * A child of the child inherits both contexts. It opens the device anew in place of the second one, so contexts form a
 * chain (`anew`, and back: `in_place_of`), and only the last of a chain can belong to this process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "shim.h"

struct ibv_context *shim_context_opened(struct ibv_context *context)
{
	struct shim_context *ctx = shim_ctx(context), *anew;

	while (shim_is_inherited(ctx) && !shim_is_closed(ctx) && (anew = atomic_load(&ctx->anew)))
		ctx = anew;
	return &ctx->vctx.context;
}

/* Whether a descriptor is still an eventfd: a child may have closed all descriptors that it inherited, and opened
 * files of its own at these numbers. */
static bool is_eventfd(int fd)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char path[32], target[sizeof(eventfd)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target)) == (ssize_t)sizeof(eventfd) - 1 &&
	       !memcmp(target, eventfd, sizeof(eventfd) - 1);
}

/* Let each inherited async_fd of the chain refer to the new context's eventfd: the program polls the descriptor that it
 * knows. The parent keeps its own descriptors; each context still closes its own. */
static void async_fds_redirect(const struct shim_context *inherited, int fd)
{
	for (const struct shim_context *c = inherited; c; c = c->in_place_of)
		if (is_eventfd(c->async.fd))
			dup3(fd, c->async.fd, fcntl(c->async.fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
}

/* @return the context that this process has opened in the place of an inherited one, or `inherited` if that failed. A
 * failure is remembered, because it lasts in most cases, and each attempt would report it to the user. */
static struct ibv_context *open_anew(struct shim_context *inherited)
{
	struct shim_context *have = NULL, *anew;
	struct ibv_context *opened;
	int flags;

	if (atomic_load(&inherited->refused) == pmd_forks())
		return &inherited->vctx.context;
	opened = ibv_open_device(&inherited->dev->ibv);
	if (!opened) {
		atomic_store(&inherited->refused, pmd_forks());
		return &inherited->vctx.context;
	}
	anew = shim_ctx(opened);
	anew->in_place_of = inherited;
	flags = is_eventfd(inherited->async.fd) ? fcntl(inherited->async.fd, F_GETFL) : -1;
	if (flags != -1 && flags & O_NONBLOCK)
		fcntl(anew->async.fd, F_SETFL, flags);
	if (atomic_compare_exchange_strong(&inherited->anew, &have, anew)) {
		async_fds_redirect(inherited, anew->async.fd);
		return opened;
	}
	ibv_close_device(opened); /* another thread was faster */
	return &have->vctx.context;
}

struct ibv_context *shim_context_here(struct ibv_context *context)
{
	struct shim_context *last = shim_ctx(shim_context_opened(context));

	return shim_is_inherited(last) && !shim_is_closed(last) ? open_anew(last) : &last->vctx.context;
}

void shim_anew_close(struct shim_context *ctx)
{
	struct shim_context *anew = atomic_exchange(&ctx->anew, NULL), *self = ctx;

	if (anew)
		ibv_close_device(&anew->vctx.context);
	/* The program may close a context that it knows as pd->context. The inherited context must not refer to it any
	 * more: shim_context_here() then opens the device again. */
	if (ctx->in_place_of)
		atomic_compare_exchange_strong(&ctx->in_place_of->anew, &self, NULL);
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
