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
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* ---- the descriptors that a child inherits ----------------------------------------------------------- */

/* Makes raw system calls: no cancellation point, and past the hooks of sysfs. */
long shim_eventfd_id(int fd)
{
	static const char name[] = "\neventfd-id:";
	char text[512], *found;
	long n, info;

	snprintf(text, sizeof(text), "/proc/thread-self/fdinfo/%d", fd);
	info = syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return errno == ENOENT ? -1 : SHIM_EVENTFD_UNKNOWN;
	n = syscall(SYS_read, info, text, sizeof(text) - 1);
	syscall(SYS_close, info);
	text[n > 0 ? n : 0] = '\0';
	found = strstr(text, name);
	return found ? strtol(found + sizeof(name) - 1, NULL, 10) : -1;
}

bool shim_holds_cmd_fd(const struct shim_context *ctx)
{
	struct stat now;

	if (shim_is_closed(ctx))
		return ctx->held; /* cmd_fd is closed */
	return !shim_is_inherited(ctx) || (!fstat(ctx->vctx.context.cmd_fd, &now) && now.st_dev == ctx->cmd.st_dev &&
					   now.st_ino == ctx->cmd.st_ino);
}

/* The eventfd's number alone does not tell. When the last copy of an eventfd is closed, as by a daemon that closes
 * everything after its parent has ended, the kernel gives its number to the next eventfd. The file of cmd_fd has an
 * inode of its own, and shows whether the program has closed everything. */
bool shim_holds_queue(const struct shim_context *ctx, const struct shim_event_queue *q)
{
	long id;

	if (!shim_is_inherited(ctx))
		return true;
	if (q->id < 0 || !shim_holds_cmd_fd(ctx))
		return false;
	id = shim_eventfd_id(q->fd);
	return id == q->id || id == SHIM_EVENTFD_UNKNOWN; /* without a free descriptor, cmd_fd alone decides */
}

/* Let each inherited async_fd of the chain refer to the new context's eventfd: the program polls the descriptor that it
 * knows. The parent keeps its own descriptors; each context still closes its own. */
static void async_fds_redirect(struct shim_context *inherited, const struct shim_event_queue *anew)
{
	for (struct shim_context *c = inherited; c; c = c->in_place_of) {
		int fd = c->async.fd;

		if (shim_holds_queue(c, &c->async) &&
		    dup3(anew->fd, fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0) >= 0)
			c->async.id = anew->id;
	}
}

/* ---- opening anew ------------------------------------------------------------------------------------ */

/* Open the device of an inherited context. The user is told once why that fails. A cause that lasts in most cases is
 * remembered; the lack of descriptors or memory may be over at the next call. */
static struct ibv_context *device_open(struct shim_context *inherited)
{
	unsigned forks = pmd_forks();
	struct ibv_context *opened;

	if (atomic_load(&inherited->refused) == forks)
		return NULL;
	opened = shim_context_open(inherited->dev, atomic_load(&inherited->told) == forks);
	if (opened)
		return opened;
	atomic_store(&inherited->told, forks);
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS && errno != EAGAIN)
		atomic_store(&inherited->refused, forks);
	return NULL;
}

/* @return the context that this process has opened in the place of an inherited one, or `inherited` if that failed */
static struct ibv_context *open_anew(struct shim_context *inherited)
{
	struct ibv_context *opened = device_open(inherited);
	struct shim_context *have = NULL, *anew;
	int flags;

	if (!opened)
		return &inherited->vctx.context;
	anew = shim_ctx(opened);
	anew->in_place_of = inherited;
	flags = shim_holds_queue(inherited, &inherited->async) ? fcntl(inherited->async.fd, F_GETFL) : -1;
	if (flags != -1 && flags & O_NONBLOCK)
		fcntl(anew->async.fd, F_SETFL, flags);
	if (atomic_compare_exchange_strong(&inherited->anew, &have, anew)) {
		async_fds_redirect(inherited, &anew->async);
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
