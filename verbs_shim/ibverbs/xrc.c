/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xrc.c - XRC domains and target QPs (IBTA A14). Within a process, descriptors of the same file open the same domain,
 * and a target QP can be opened by its number. Processes do not share domains or target QPs: each process has a NIC
 * function of its own, and a QP cannot reach the SRQs of another function.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "shim.h"
#include "xrc.h"

/* ---- domains ---------------------------------------------------------------------------------------------------- */

/** A file that names a domain. */
struct shim_xrc_file {
	struct shim_xrc_file *next;
	struct nic *nic;
	dev_t dev;
	ino_t ino;
	int fd; /* keeps the inode's number from being used again when the file is removed */
	struct nic_xrcd *xrcd;
	unsigned opened; /* number of struct shim_xrcd that were opened with this file */
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER; /* taken with an engine's lock held */
static struct shim_xrc_file *files;

static struct shim_xrc_file *file_find(const struct nic *nic, const struct stat *st)
{
	for (struct shim_xrc_file *f = files; f; f = f->next)
		if (f->nic == nic && f->dev == st->st_dev && f->ino == st->st_ino)
			return f;
	return NULL;
}

/** Open or create the domain that a file names; oflags means the same as in open(2). @return 0, or a negative errno.
 * -EAGAIN: the domain does not exist, and O_CREAT is not set; -EINVAL: the domain exists, and O_EXCL is set. */
static int file_open(struct nic *nic, int fd, const struct stat *st, int oflags, struct shim_xrc_file **out)
{
	struct shim_xrc_file *f = file_find(nic, st);
	int err;

	if (f) {
		if (oflags & O_EXCL)
			return -EINVAL;
		f->opened++;
		*out = f;
		return 0;
	}
	if (!(oflags & O_CREAT))
		return -EAGAIN;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	err = f->fd < 0 ? -errno : nic_xrcd_alloc(nic, &f->xrcd);
	if (err) {
		if (f->fd >= 0)
			close(f->fd);
		free(f);
		return err;
	}
	f->nic = nic;
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->opened = 1;
	f->next = files;
	files = f;
	*out = f;
	return 0;
}

static void file_close(struct shim_xrc_file *file)
{
	if (--file->opened)
		return;
	for (struct shim_xrc_file **at = &files; *at; at = &(*at)->next) {
		if (*at == file) {
			*at = file->next;
			break;
		}
	}
	nic_xrcd_free(file->xrcd);
	close(file->fd);
	free(file);
}

/** Get the NIC's object for a domain. Engine lock held. @param fd the file, whose status is `st`; -1: no file. */
static int domain_open(struct shim_context *ctx, int fd, const struct stat *st, int oflags, struct shim_xrcd *xrcd)
{
	int err;

	if (fd == -1)
		return nic_xrcd_alloc(ctx->nic, &xrcd->nic);
	pthread_mutex_lock(&files_lock);
	err = file_open(ctx->nic, fd, st, oflags, &xrcd->file);
	pthread_mutex_unlock(&files_lock);
	if (!err)
		xrcd->nic = xrcd->file->xrcd;
	return err;
}

void shim_xrcd_drop(struct shim_xrcd *xrcd)
{
	if (!xrcd->file) {
		nic_xrcd_free(xrcd->nic);
		return;
	}
	pthread_mutex_lock(&files_lock);
	file_close(xrcd->file);
	pthread_mutex_unlock(&files_lock);
}

struct ibv_xrcd *shim_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct shim_context *ctx = shim_ctx(shim_context_here(context));
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
	if (shim_enter(ctx)) {
		err = domain_open(ctx, attr->fd, &st, attr->oflags, xrcd);
		if (!err)
			shim_object_add(ctx, SHIM_XRCD, &xrcd->link);
		shim_leave(ctx);
	}
	if (err) {
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
	free(xrcd);
	return 0;
}

/* ---- target QPs ------------------------------------------------------------------------------------------------- */

/** Create a struct shim_qp for a target QP of the NIC. @param get creates or finds the NIC's QP. */
static struct ibv_qp *target_new(struct ibv_context *context, struct ibv_xrcd *ibv, void *qp_context,
				 int (*get)(struct shim_qp *qp, uint32_t qpn), uint32_t qpn)
{
	struct shim_context *ctx = shim_ctx(context);
	struct shim_qp *qp;
	int err = -EIO;

	if (!ibv || ibv->context != context)
		return shim_fail(EINVAL);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return shim_fail(ENOMEM);
	qp->xrcd = container_of(ibv, struct shim_xrcd, ibv);
	qp->ibv.context = context;
	qp->ibv.qp_context = qp_context;
	qp->ibv.qp_type = IBV_QPT_XRC_RECV;
	if (shim_enter(ctx)) {
		err = get(qp, qpn);
		if (!err) {
			shim_object_add(ctx, SHIM_QP, &qp->link);
			qp->ibv.qp_num = nic_qp_num(qp->nic);
			qp->ibv.state = (enum ibv_qp_state)nic_qp_state(qp->nic);
		}
		shim_leave(ctx);
	}
	if (err) {
		free(qp);
		return shim_fail(-err);
	}
	qp->ibv.handle = qp->link.handle;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	atomic_fetch_add(&qp->xrcd->users, 1);
	return &qp->ibv;
}

static int target_create(struct shim_qp *qp, uint32_t qpn)
{
	struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT, .xrcd = qp->xrcd->nic, .user = qp};

	(void)qpn;
	qp->next_handle = qp;
	return nic_qp_create(shim_ctx(qp->ibv.context)->nic, &init, &qp->nic);
}

static int target_find(struct shim_qp *qp, uint32_t qpn)
{
	struct nic_qp_attr attr;
	struct nic_qp_init init;
	struct shim_qp *first;

	qp->nic = nic_xrc_target(qp->xrcd->nic, qpn);
	if (!qp->nic)
		return -EINVAL;
	nic_qp_query(qp->nic, &attr, &init);
	first = init.user;
	qp->next_handle = first->next_handle;
	first->next_handle = qp;
	return 0;
}

struct ibv_qp *shim_target_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = target_new(context, attr->xrcd, attr->qp_context, target_create, 0);

	if (!qp)
		return NULL;
	attr->cap = (struct ibv_qp_cap){0};
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD) /* a target QP uses no PD, but librdmacm reads qp->pd */
		qp->pd = attr->pd;
	return qp;
}

struct ibv_qp *shim_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return shim_fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
		return shim_fail(EINVAL);
	return target_new(shim_context_here(context), attr->xrcd,
			  attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL, target_find,
			  attr->qp_num);
}

bool shim_target_leave(struct shim_qp *qp)
{
	struct shim_qp *before = qp;

	if (!qp->next_handle || qp->next_handle == qp)
		return false;
	while (before->next_handle != qp)
		before = before->next_handle;
	before->next_handle = qp->next_handle;
	qp->next_handle = NULL;
	nic_qp_set_user(qp->nic, before);
	return true;
}
