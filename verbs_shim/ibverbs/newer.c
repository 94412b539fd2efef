/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * newer.c - functions that rdma-core 59 to 65 added to libibverbs (version nodes 1.15 to 1.18). symbols.list exports
 * them under libibverbs's names. Their structures are declared here under our own names, so that this file compiles
 * with any verbs.h, old or new. ibv_alloc_buf returns ordinary memory on our devices.
 */
#include "dmabuf.h"
#include "shim.h"

struct shim_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

enum { MASK_IOVA = 1 << 0, MASK_ADDR = 1 << 1, MASK_FD = 1 << 2, MASK_FD_OFFSET = 1 << 3, MASK_BUF = 1 << 5 };

/** The handle that ibv_alloc_buf returns with the memory. Its layout is private to the library, but the real
 * library's handles begin with the same members up to the PD, so the PD shows whether a handle is ours. */
struct shim_buf {
	void *addr;
	size_t length;
	struct ibv_pd *pd;
};

struct ibv_mr *shim_reg_mr_ex(struct ibv_pd *pd, struct shim_mr_init_attr *attr);
struct ibv_mr *shim_reg_buf_mr(struct ibv_pd *pd, struct shim_buf *buf, void *addr, size_t length, int access);
void *shim_alloc_buf(struct ibv_pd *pd, size_t size, struct shim_buf **buf);
void shim_free_buf(struct shim_buf *buf);
void *shim_alloc_dmah(struct ibv_context *context, void *attr);
int shim_dealloc_dmah(struct ibv_context **dmah);
int shim_dm_export_dmabuf_fd(struct ibv_dm *dm);
int shim_export_buf_dmabuf_fd(struct shim_buf *buf);

/* Whether [addr, addr + length) is inside the buffer, and the buffer was allocated for this PD. */
static bool buf_covers(const struct shim_buf *buf, const struct ibv_pd *pd, const void *addr, size_t length)
{
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)(buf ? buf->addr : NULL);

	return buf && buf->pd == pd && length <= buf->length && offset <= buf->length - length;
}

/* Exactly one of `fd` and `addr` says where the memory is. */
struct ibv_mr *shim_reg_mr_ex(struct ibv_pd *pd, struct shim_mr_init_attr *attr)
{
	const uint64_t of_dmabuf = MASK_FD | MASK_FD_OFFSET | MASK_IOVA;
	struct ibv_mr *(*real)(struct ibv_pd *, struct shim_mr_init_attr *);

	if (!shim_is_ours(pd->context)) {
		real = (struct ibv_mr * (*)(struct ibv_pd *, struct shim_mr_init_attr *))
			shim_real_symbol("ibv_reg_mr_ex");
		return real ? real(pd, attr) : shim_fail(EOPNOTSUPP);
	}
	if (attr->comp_mask & ~(of_dmabuf | MASK_ADDR | MASK_BUF))
		return shim_fail(EOPNOTSUPP);
	if (attr->comp_mask == of_dmabuf)
		return shim_dmabuf_reg(pd, attr->fd_offset, attr->length, attr->iova, attr->fd, (unsigned)attr->access);
	if (!(attr->comp_mask & MASK_ADDR) || attr->comp_mask & (MASK_FD | MASK_FD_OFFSET))
		return shim_fail(EINVAL);
	if (attr->comp_mask & MASK_BUF && !buf_covers(attr->buf, pd, attr->addr, attr->length))
		return shim_fail(EINVAL);
	return shim_mr_reg(pd, attr->addr, attr->length,
			   attr->comp_mask & MASK_IOVA ? attr->iova : (uintptr_t)attr->addr, (unsigned)attr->access);
}

void *shim_alloc_buf(struct ibv_pd *pd, size_t size, struct shim_buf **out)
{
	void *(*real)(struct ibv_pd *, size_t, struct shim_buf **);
	struct shim_buf *buf;

	if (!shim_is_ours(pd->context)) {
		real = (void *(*)(struct ibv_pd *, size_t, struct shim_buf **))shim_real_symbol("ibv_alloc_buf");
		return real ? real(pd, size, out) : shim_fail(EOPNOTSUPP);
	}
	if (!size)
		return shim_fail(EINVAL);
	buf = calloc(1, sizeof(*buf));
	if (!buf || posix_memalign(&buf->addr, 4096, size)) {
		free(buf);
		return shim_fail(ENOMEM);
	}
	buf->pd = pd;
	buf->length = size;
	*out = buf;
	return buf->addr;
}

void shim_free_buf(struct shim_buf *buf)
{
	void (*real)(struct shim_buf *);

	if (!buf)
		return;
	if (!shim_is_ours(buf->pd->context)) {
		real = (void (*)(struct shim_buf *))shim_real_symbol("ibv_free_buf");
		if (real)
			real(buf);
		return;
	}
	free(buf->addr);
	free(buf);
}

struct ibv_mr *shim_reg_buf_mr(struct ibv_pd *pd, struct shim_buf *buf, void *addr, size_t length, int access)
{
	struct ibv_mr *(*real)(struct ibv_pd *, struct shim_buf *, void *, size_t, int);

	if (!shim_is_ours(pd->context)) {
		real = (struct ibv_mr * (*)(struct ibv_pd *, struct shim_buf *, void *, size_t, int))
			shim_real_symbol("ibv_reg_buf_mr");
		return real ? real(pd, buf, addr, length, access) : shim_fail(EOPNOTSUPP);
	}
	if (!buf_covers(buf, pd, addr, length))
		return shim_fail(EINVAL);
	return shim_mr_reg(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

void *shim_alloc_dmah(struct ibv_context *context, void *attr)
{
	void *(*real)(struct ibv_context *, void *);

	if (shim_is_ours(context))
		return shim_fail(EOPNOTSUPP);
	real = (void *(*)(struct ibv_context *, void *))shim_real_symbol("ibv_alloc_dmah");
	return real ? real(context, attr) : shim_fail(EOPNOTSUPP);
}

int shim_dealloc_dmah(struct ibv_context **dmah)
{
	int (*real)(struct ibv_context **) = (int (*)(struct ibv_context **))shim_real_symbol("ibv_dealloc_dmah");

	return real && !shim_is_ours(*dmah) ? real(dmah) : EOPNOTSUPP;
}

int shim_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	int (*real)(struct ibv_dm *) = (int (*)(struct ibv_dm *))shim_real_symbol("ibv_dm_export_dmabuf_fd");

	if (real && !shim_is_ours(dm->context))
		return real(dm);
	errno = EOPNOTSUPP;
	return -1;
}

/* Fails with ENODATA for our buffers, because no DMA-buf backs them. */
int shim_export_buf_dmabuf_fd(struct shim_buf *buf)
{
	int (*real)(struct shim_buf *) = (int (*)(struct shim_buf *))shim_real_symbol("ibv_export_buf_dmabuf_fd");

	if (real && !shim_is_ours(buf->pd->context))
		return real(buf);
	errno = ENODATA;
	return -1;
}
