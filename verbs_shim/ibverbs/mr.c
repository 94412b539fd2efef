/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c - memory regions (IBTA 10.6.3, 11.2.8). Memory is not pinned. Except for on-demand regions, registration fails,
 * like a kernel's, if the range is not mapped; and if memory is unmapped later, the NIC handles accesses to it, as far
 * as possible, as if the pages were pinned (nic_mr_reg).
 */
#include "dmabuf.h"
#include "shim.h"

/* Remove the flags that the NIC does not need: the optional rights (they are only hints) and the huge-page flag. */
uint32_t shim_access_translate(unsigned access)
{
	return access & ~(unsigned)(IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB);
}

static bool access_writes(uint32_t access)
{
	return access & (NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC);
}

struct ibv_mr *shim_mr_new(struct ibv_pd *pd, void *mem, size_t length, uint64_t iova, uint32_t rights,
			   struct shim_dm *dm)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_mr *mr = calloc(1, sizeof(*mr));
	int err = -EIO;

	if (!mr)
		return shim_fail(ENOMEM);
	if (rights & NIC_ACCESS_FLUSH_PERSISTENT && (dm || !pmd_is_mapped_file(mem, length))) {
		err = -EINVAL; /* a kernel also refuses memory that is not persistent */
	} else if (shim_enter(ctx)) {
		err = nic_mr_reg(container_of(pd, struct shim_pd, ibv)->nic, mem, length,
				 rights & NIC_ACCESS_ZERO_BASED ? 0 : iova, rights, &mr->nic);
		if (!err)
			shim_object_add(ctx, SHIM_MR, &mr->link);
		shim_leave(ctx);
	}
	if (err) {
		free(mr);
		return shim_fail(-err);
	}
	mr->access = rights;
	mr->dm = dm;
	mr->ibv = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = dm ? NULL : mem,
		.length = length,
		.lkey = nic_mr_lkey(mr->nic),
		.rkey = nic_mr_rkey(mr->nic),
		.handle = mr->link.handle,
	};
	shim_pd_get(pd);
	return &mr->ibv;
}

/* An on-demand region may be registered before its memory is mapped. For example, addr NULL with length SIZE_MAX
 * registers the whole address space (an implicit region). */
struct ibv_mr *shim_mr_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	bool on_demand = access & IBV_ACCESS_ON_DEMAND;
	uint32_t rights = shim_access_translate(access);
	int err = shim_pd_intact(pd) ? pmd_check_range(addr, on_demand ? 0 : length, access_writes(rights)) : -ENOENT;

	return err ? shim_fail(-err) : shim_mr_new(pd, addr, length, iova, rights, NULL);
}

SHIM_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_reg_mr)(pd, addr, length, access);
	return shim_mr_reg(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

SHIM_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_reg_mr_iova)(pd, addr, length, iova, access);
	return shim_mr_reg(pd, addr, length, iova, (unsigned)access);
}

SHIM_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					    unsigned int access)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
	return shim_mr_reg(pd, addr, length, iova, access);
}

SHIM_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					     int access)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
	return shim_dmabuf_reg(pd, offset, length, iova, fd, (unsigned)access);
}

/* Whether the input passes checks that libibverbs makes before it calls the kernel. */
static bool rereg_input_is_legal(const struct shim_mr *mr, int flags, const void *addr, size_t length, int access)
{
	return !mr->map && !(flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) &&
	       !(flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr)) &&
	       (flags & IBV_REREG_MR_CHANGE_ACCESS || !access);
}

/* Change a region. On failure errno is set and the region is unchanged. @return 0; IBV_REREG_MR_ERR_INPUT: see
 * rereg_input_is_legal(); IBV_REREG_MR_ERR_CMD: another failure. */
SHIM_EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_rereg_mr)(ibv, flags, pd, addr, length, access);

	struct shim_mr *mr = container_of(ibv, struct shim_mr, ibv);
	struct shim_context *ctx = shim_ctx(ibv->context);
	bool new_access = flags & IBV_REREG_MR_CHANGE_ACCESS, new_range = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool new_pd = flags & IBV_REREG_MR_CHANGE_PD;
	uint32_t rights = new_access ? shim_access_translate((unsigned)access) : mr->access;
	bool on_demand = rights & NIC_ACCESS_ON_DEMAND;
	int err = 0;

	if (!new_range) /* ZERO_BASED stays as it was: peers go on using the region's present addresses */
		rights = (rights & ~(uint32_t)NIC_ACCESS_ZERO_BASED) | (mr->access & NIC_ACCESS_ZERO_BASED);
	if (!rereg_input_is_legal(mr, flags, addr, length, access)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if ((new_pd && (!pd || pd->context != ibv->context)) || (mr->dm && new_range))
		err = -EINVAL;
	else if (!SHIM_INTACT(mr) || (new_pd && !shim_pd_intact(pd)))
		err = -ENOENT;
	else if (mr->imported)
		err = -EOPNOTSUPP;
	if (!err && (new_range || new_access) && !mr->dm && !on_demand)
		err = pmd_check_range(new_range ? addr : ibv->addr, new_range ? length : ibv->length,
				      access_writes(rights));
	if (!err && rights & NIC_ACCESS_FLUSH_PERSISTENT &&
	    (mr->dm || !pmd_is_mapped_file(new_range ? addr : ibv->addr, new_range ? length : ibv->length)))
		err = -EINVAL;
	if (!err)
		err = -EIO;
	if (err == -EIO && shim_enter(ctx)) {
		err = nic_mr_rereg(mr->nic, (uint32_t)flags, new_pd ? container_of(pd, struct shim_pd, ibv)->nic : NULL,
				   addr, length, rights & NIC_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr, rights);
		shim_leave(ctx);
	}
	if (err) {
		errno = -err;
		return IBV_REREG_MR_ERR_CMD;
	}
	mr->access = rights;
	ibv->lkey = nic_mr_lkey(mr->nic);
	ibv->rkey = nic_mr_rkey(mr->nic);
	if (new_range) {
		ibv->addr = addr;
		ibv->length = length;
	}
	if (new_pd) {
		shim_pd_put(ibv->pd);
		shim_pd_get(pd);
		ibv->pd = pd;
	}
	return 0;
}

SHIM_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_dereg_mr)(ibv);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_mr *mr = container_of(ibv, struct shim_mr, ibv);
	int err;

	if (!SHIM_INTACT(mr))
		return shim_errno(-ENOENT);
	if (mr->imported) {
		ibv_unimport_mr(ibv);
		return 0;
	}
	if (!shim_enter(ctx))
		return shim_errno(-EIO);
	err = nic_mr_dereg(mr->nic);
	if (!err)
		shim_object_remove(ctx, &mr->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	shim_dmabuf_unmap(mr);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->users, 1);
	shim_pd_put(ibv->pd);
	free(mr);
	return 0;
}
