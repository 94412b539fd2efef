/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dm.c - device memory: ibv_alloc_dm and related calls. On an adapter, device memory is SRAM, which peers access
 * without crossing the PCIe bus. Here it is process memory whose address only the NIC and the copy functions know.
 */
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "shim.h"

#define ALIGNMENT_LOG_MAX 12 /* log2 of the page size */

static struct shim_dm *dm_of(struct ibv_dm *dm)
{
	return container_of(dm, struct shim_dm, ibv);
}

uint8_t *shim_dm_at(struct shim_dm *dm, uint64_t offset, size_t length)
{
	return length <= dm->len && offset <= dm->len - length ? dm->mem + offset : NULL;
}

/* Find the part of device memory that a copy reads or writes. Offset and length must be multiples of 4, as on adapters,
 * whose memory is accessed in words. @return its address; NULL with errno EFAULT: out of range; EINVAL: not a multiple
 * of 4. */
static uint8_t *words_at(struct shim_dm *dm, uint64_t offset, size_t length)
{
	uint8_t *at = shim_dm_at(dm, offset, length);

	if (!at)
		return shim_fail(EFAULT);
	return (offset | length) % 4 ? shim_fail(EINVAL) : at;
}

static int memcpy_to(struct ibv_dm *ibv, uint64_t offset, const void *host, size_t length)
{
	uint8_t *at = words_at(dm_of(ibv), offset, length);

	if (!at)
		return errno;
	memcpy(at, host, length);
	return 0;
}

static int memcpy_from(void *host, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	const uint8_t *at = words_at(dm_of(ibv), offset, length);

	if (!at)
		return errno;
	memcpy(host, at, length);
	return 0;
}

/** How many bytes of SHIM_DM_MAX an allocation uses up: its length rounded up to whole pages. The
 * rounding limits the number of allocations too. */
static size_t size_of(size_t length)
{
	const size_t rest = ((size_t)1 << ALIGNMENT_LOG_MAX) - 1;

	return length > SHIM_DM_MAX ? length : (length + rest) & ~rest;
}

static bool take(struct shim_context *ctx, size_t size)
{
	size_t used = atomic_load(&ctx->dm_used);

	do {
		if (size > SHIM_DM_MAX - used)
			return false;
	} while (!atomic_compare_exchange_weak(&ctx->dm_used, &used, used + size));
	return true;
}

static void unlist_dm(struct shim_context *ctx, struct shim_dm *dm)
{
	if (dm->link.at && shim_enter(ctx)) {
		shim_object_remove(ctx, &dm->link);
		shim_leave(ctx);
		return;
	}
	atomic_fetch_sub(&ctx->objects, 1);
}

struct shim_dm *shim_dm_new(struct ibv_context *context, size_t length)
{
	struct shim_context *ctx = shim_ctx(shim_context_here(context));
	struct shim_dm *dm;
	int err = ENOMEM;

	if (!length)
		return shim_fail(EINVAL);
	if (!take(ctx, size_of(length)))
		return shim_fail(ENOMEM);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		goto give_back;
	dm->mem = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dm->mem == MAP_FAILED)
		goto free_dm;
	dm->len = length;
	dm->forks = pmd_forks();
	dm->ibv.context = dm->exp.context = &ctx->vctx.context;
	if (!shim_enter(ctx)) {
		err = EIO;
		goto unmap;
	}
	shim_object_add(ctx, SHIM_DM, &dm->link);
	shim_leave(ctx);
	dm->ibv.handle = dm->exp.handle = dm->link.handle;
	dm->ibv.memcpy_to_dm = memcpy_to;
	dm->ibv.memcpy_from_dm = memcpy_from;
	return dm;

unmap:
	munmap(dm->mem, length);
free_dm:
	free(dm);
give_back:
	atomic_fetch_sub(&ctx->dm_used, size_of(length));
	return shim_fail(err);
}

int shim_dm_free(struct shim_dm *dm)
{
	struct shim_context *ctx = shim_ctx(dm->ibv.context);

	if (!SHIM_INTACT(dm))
		return shim_errno(-ENOENT);
	if (dm->forks != pmd_forks())
		return shim_errno(-EIO);
	if (atomic_load(&dm->users))
		return shim_errno(-EBUSY);
	if (dm->origin) {
		ibv_unimport_dm(&dm->ibv);
		return 0;
	}
	unlist_dm(ctx, dm);
	munmap(dm->mem, dm->len);
	atomic_fetch_sub(&ctx->dm_used, size_of(dm->len));
	free(dm);
	return 0;
}

struct ibv_mr *shim_dm_reg(struct ibv_pd *pd, struct shim_dm *dm, uint64_t offset, size_t length, unsigned access)
{
	uint8_t *at = shim_dm_at(dm, offset, length);
	struct ibv_mr *mr;
	uint32_t rights = shim_access_translate(access);
	int err = 0;

	if (!at || pd->context != dm->ibv.context || access & IBV_ACCESS_ON_DEMAND)
		err = -EINVAL;
	else if (!shim_pd_intact(pd) || !SHIM_INTACT(dm))
		err = -ENOENT;
	if (err)
		return shim_fail(-err);
	atomic_fetch_add(&dm->users, 1);
	mr = shim_mr_new(pd, at, length, 0, rights | NIC_ACCESS_ZERO_BASED, dm);
	if (!mr)
		atomic_fetch_sub(&dm->users, 1);
	return mr;
}

/* ---- the interface of rdma-core --------------------------------------------------------------------------------- */

struct ibv_dm *shim_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct shim_dm *dm;

	if (attr->comp_mask || attr->log_align_req > ALIGNMENT_LOG_MAX)
		return shim_fail(EINVAL);
	dm = shim_dm_new(context, attr->length);
	return dm ? &dm->ibv : NULL;
}

int shim_free_dm(struct ibv_dm *dm)
{
	return shim_dm_free(dm_of(dm));
}

/* As with the kernel, ZERO_BASED is required: addresses in the region count from 0 and are no process addresses. */
struct ibv_mr *shim_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access)
{
	return access & IBV_ACCESS_ZERO_BASED ? shim_dm_reg(pd, dm_of(dm), offset, length, access) : shim_fail(EINVAL);
}
