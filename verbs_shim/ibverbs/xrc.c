/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xrc.c - XRC domains (IBTA A14). Descriptors of the same file open the same domain. Each process has an object of its
 * NIC for the domain; xrc_share.c makes these objects one domain. Target QPs: xrc_target.c.
 *
 * State: the files that name domains. A file is created, changed and destroyed with its engine's lock held. The list is
 * common to all engines, so it has a lock of its own. That lock is not held during calls of the NIC, because these call
 * us (xrc_share.c).
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "shim.h"
#include "xrc.h"

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER; /* taken with an engine's lock held */
static struct shim_xrc_file *files;

/* ---- the list of files ------------------------------------------------------------------------------- */

static struct shim_xrc_file *file_find(const struct nic *nic, const struct stat *st)
{
	struct shim_xrc_file *f;

	pthread_mutex_lock(&files_lock);
	for (f = files; f; f = f->next)
		if (f->nic == nic && f->dev == st->st_dev && f->ino == st->st_ino)
			break;
	pthread_mutex_unlock(&files_lock);
	return f;
}

struct shim_xrc_file *shim_xrc_file_of(const struct nic_xrcd *xrcd)
{
	struct shim_xrc_file *f;

	pthread_mutex_lock(&files_lock);
	for (f = files; f && f->xrcd != xrcd; f = f->next)
		;
	pthread_mutex_unlock(&files_lock);
	return f;
}

static void file_link(struct shim_xrc_file *file)
{
	pthread_mutex_lock(&files_lock);
	file->next = files;
	files = file;
	pthread_mutex_unlock(&files_lock);
}

static void file_unlink(const struct shim_xrc_file *file)
{
	pthread_mutex_lock(&files_lock);
	for (struct shim_xrc_file **at = &files; *at; at = &(*at)->next) {
		if (*at == file) {
			*at = file->next;
			break;
		}
	}
	pthread_mutex_unlock(&files_lock);
}

/* Whether the descriptor still is the one that shim_share_lock() returned: the program may have closed it, and the
 * number may be another file's. */
static bool file_holds(const struct shim_xrc_file *file)
{
	struct stat now;
	int flags = fcntl(file->fd, F_GETFL);

	return flags != -1 && (flags & O_ACCMODE) == O_RDONLY && flags & O_NONBLOCK &&
	       !syscall(SYS_fstat, file->fd, &now) && now.st_dev == file->dev && now.st_ino == file->ino;
}

/* In a forked child: close the descriptors that have locks. A lock lasts as long as a descriptor of its open file
 * description, so an inherited one would keep the lock when the parent ends. All engines were locked during the fork,
 * so the list is consistent. */
static void fork_child(void)
{
	for (struct shim_xrc_file *f = files; f; f = f->next) {
		if (!f->locked || f->fd < 0)
			continue;
		if (file_holds(f))
			syscall(SYS_close, f->fd);
		f->fd = -1;
	}
}

void shim_xrc_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

/* ---- domains ----------------------------------------------------------------------------------------- */

/* Whether the flags, which mean the same as in open(2), allow to open a domain. @return 0, -EINVAL, -EAGAIN */
static int check_flags(bool exists, int oflags)
{
	if (exists)
		return oflags & O_EXCL ? -EINVAL : 0;
	return oflags & O_CREAT ? 0 : -EAGAIN;
}

/* Tell other processes of us, and check the flags again: of two processes that create the domain at the same time, each
 * sees the other's lock. If the file cannot be locked, or the NIC cannot be reached, the domain is private to the
 * process. That is refused if other processes have the domain, since it would be another one. Programs that have a lock
 * of their own on the file lose it when any descriptor of the file is closed, so flags that forbid the domain must have
 * been noticed before. */
static int file_lock(struct shim_xrc_file *file, int fd, const struct stat *st, int oflags)
{
	bool taken;
	int err = 0;

	file->fd = shim_share_lock(file->share, fd, st);
	file->locked = file->fd >= 0;
	if (file->locked) {
		taken = shim_share_is_taken(file->share, file->fd);
		err = check_flags(taken, oflags);
	} else {
		taken = shim_share_is_taken(file->share, fd);
		file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (file->fd < 0)
		return -errno;
	return !err && taken && !shim_share_reaches(file) ? -ENOLCK : err;
}

static int file_new(struct shim_xrc_share *share, struct nic *nic, int fd, const struct stat *st, int oflags,
		    struct shim_xrc_file **out)
{
	int err = check_flags(shim_share_is_taken(share, fd), oflags);
	struct shim_xrc_file *f = err ? NULL : calloc(1, sizeof(*f));

	if (!f)
		return err ? err : -ENOMEM;
	f->share = share;
	f->nic = nic;
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	err = file_lock(f, fd, st, oflags);
	if (!err)
		err = nic_xrcd_alloc(nic, &f->xrcd);
	if (err) {
		if (f->fd >= 0)
			syscall(SYS_close, f->fd);
		free(f);
		return err;
	}
	f->opened = 1;
	shim_share_ref(share);
	file_link(f);
	shim_share_domain(f);
	*out = f;
	return 0;
}

/* Open or create the domain that a file names. @return 0, or a negative errno. -EAGAIN: the domain does not exist, and
 * O_CREAT is not set; -EINVAL: the domain exists, and O_EXCL is set. */
static int file_open(struct shim_xrc_share *share, struct nic *nic, int fd, const struct stat *st, int oflags,
		     struct shim_xrc_file **out)
{
	struct shim_xrc_file *f = file_find(nic, st);
	int err;

	if (!f)
		return file_new(share, nic, fd, st, oflags, out);
	err = check_flags(true, oflags);
	if (err)
		return err;
	f->opened++;
	*out = f;
	return 0;
}

static void file_close(struct shim_context *ctx, struct shim_xrc_file *file)
{
	if (--file->opened)
		return;
	shim_targets_left_destroy(ctx, file);
	file_unlink(file);
	nic_xrcd_free(file->xrcd);
	if (file->fd >= 0 && (!file->locked || file_holds(file)))
		syscall(SYS_close, file->fd);
	shim_share_unref(file->share);
	free(file);
}

/* Get the NIC's object for a domain. Engine lock held. @param share NULL: no file names the domain */
static int domain_open(struct shim_context *ctx, struct shim_xrc_share *share, const struct ibv_xrcd_init_attr *attr,
		       const struct stat *st, struct shim_xrcd *xrcd)
{
	int err;

	if (!share)
		return nic_xrcd_alloc(ctx->nic, &xrcd->nic);
	err = file_open(share, ctx->nic, attr->fd, st, attr->oflags, &xrcd->file);
	shim_share_unref(share);
	if (!err)
		xrcd->nic = xrcd->file->xrcd;
	return err;
}

void shim_xrcd_drop(struct shim_xrcd *xrcd)
{
	if (xrcd->file)
		file_close(xrcd->link.ctx, xrcd->file);
	else
		nic_xrcd_free(xrcd->nic);
}

struct ibv_xrcd *shim_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct shim_context *ctx = shim_ctx(shim_context_here(context));
	struct shim_xrc_share *share = NULL;
	struct shim_xrcd *xrcd;
	struct stat st;
	int err = -EIO;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return shim_fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed)
		return shim_fail(EINVAL);
	if (attr->fd != -1 && fstat(attr->fd, &st))
		return shim_fail(EBADF);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return shim_fail(ENOMEM);
	if (attr->fd != -1 && !(share = shim_share_get(ctx))) {
		free(xrcd);
		return NULL;
	}
	if (shim_enter(ctx)) {
		err = domain_open(ctx, share, attr, &st, xrcd);
		if (!err)
			shim_object_add(ctx, SHIM_XRCD, &xrcd->link);
		shim_leave(ctx);
	}
	if (err) {
		if (share)
			shim_share_end(ctx);
		free(xrcd);
		return shim_fail(-err);
	}
	xrcd->ibv.context = &ctx->vctx.context;
	return &xrcd->ibv;
}

int shim_close_xrcd(struct ibv_xrcd *ibv)
{
	struct shim_xrcd *xrcd = container_of(ibv, struct shim_xrcd, ibv);
	struct shim_context *ctx = shim_ctx(ibv->context);

	if (atomic_load(&xrcd->users))
		return shim_errno(-EBUSY);
	if (!shim_enter(ctx))
		return shim_errno(-EIO);
	shim_object_remove(ctx, &xrcd->link);
	shim_xrcd_drop(xrcd);
	shim_leave(ctx);
	shim_share_end(ctx);
	free(xrcd);
	return 0;
}
