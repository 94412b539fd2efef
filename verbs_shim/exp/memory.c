/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - ibv_exp_reg_mr, ibv_exp_bind_mw, ibv_exp_alloc_dm and related calls. */
#include <string.h>

#include "exp.h"

static struct shim_dm *dm_of(struct ibv_exp_dm *dm)
{
	return container_of(dm, struct shim_dm, exp);
}

/** Whether the program's structure still has the context and the handle that it was given. */
static bool dm_is_intact(struct ibv_exp_dm *exp)
{
	const struct ibv_dm *dm = &dm_of(exp)->ibv;

	return exp->context == dm->context && exp->handle == dm->handle;
}

/* Translate access flags to those of verbs.h. Flags that verbs.h also has keep their bits. exp_reg_mr handles
 * ON_DEMAND itself. @return 0; EOPNOTSUPP: unknown access rights. */
static int access_translate(uint64_t exp_access, unsigned *out)
{
	const uint64_t plain = (IBV_EXP_ACCESS_MW_BIND << 1) - 1;
	const uint64_t hint = IBV_EXP_ACCESS_RELAXED;

	if (exp_access & ~(plain | hint | IBV_EXP_ACCESS_MW_ZERO_BASED))
		return EOPNOTSUPP;
	*out = (unsigned)(exp_access & plain);
	if (exp_access & IBV_EXP_ACCESS_MW_ZERO_BASED)
		*out |= IBV_ACCESS_ZERO_BASED;
	return 0;
}

struct ibv_mr *exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	unsigned access;
	int err = access_translate(in->exp_access & ~(uint64_t)IBV_EXP_ACCESS_ON_DEMAND, &access);

	if (in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS && in->create_flags)
		err = EOPNOTSUPP;
	if (err)
		return shim_fail(err);
	if (in->exp_access & IBV_EXP_ACCESS_ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	if (!(in->comp_mask & IBV_EXP_REG_MR_DM))
		return shim_mr_reg(in->pd, in->addr, in->length, (uintptr_t)in->addr, access);
	if (!in->dm)
		return shim_fail(EINVAL);
	return dm_is_intact(in->dm) ? shim_dm_reg(in->pd, dm_of(in->dm), (uintptr_t)in->addr, in->length, access)
				    : shim_fail(ENOENT);
}

bool exp_bind_info(const struct ibv_exp_mw_bind_info *in, struct ibv_mw_bind_info *out)
{
	*out = (struct ibv_mw_bind_info){.mr = in->mr, .addr = in->addr, .length = in->length};
	return access_translate(in->exp_mw_access_flags, &out->mw_access_flags) == 0;
}

int exp_bind_mw(struct ibv_exp_mw_bind *bind)
{
	struct ibv_mw_bind plain = {.wr_id = bind->wr_id, .send_flags = (unsigned)bind->exp_send_flags};

	if (bind->exp_send_flags >> IBV_EXP_START_FLAG_LOC || !bind->qp || bind->mw->type != IBV_MW_TYPE_1 ||
	    !exp_bind_info(&bind->bind_info, &plain.bind_info))
		return shim_errno(-EINVAL);
	return ibv_bind_mw(bind->qp, bind->mw, &plain);
}

struct ibv_exp_dm *exp_alloc_dm(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr)
{
	struct shim_dm *dm = shim_dm_new(context, attr->length);

	return dm ? &dm->exp : NULL;
}

int exp_free_dm(struct ibv_exp_dm *dm)
{
	return dm_is_intact(dm) ? shim_dm_free(dm_of(dm)) : shim_errno(-ENOENT);
}

int exp_memcpy_dm(struct ibv_exp_dm *exp, struct ibv_exp_memcpy_dm_attr *attr)
{
	struct ibv_dm *dm = &dm_of(exp)->ibv;

	switch (attr->memcpy_dir) {
	case IBV_EXP_DM_CPY_TO_DEVICE:
		return dm->memcpy_to_dm(dm, attr->dm_offset, attr->host_addr, attr->length);
	case IBV_EXP_DM_CPY_TO_HOST:
		return dm->memcpy_from_dm(attr->host_addr, dm, attr->dm_offset, attr->length);
	}
	return shim_errno(-EINVAL);
}
