/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advise.c - ibv_advise_mr: bring pages into memory before a request needs them. It works on every region, whether it
 * was registered for on-demand paging or not.
 */
#include "shim.h"

#define ADVICE_LAST IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

/** Find the memory of all SGEs. @return 0, or the negative errno for the first invalid SGE. */
static int find(struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t n, bool write, void **addrs)
{
	const struct nic_pd *nic = container_of(pd, struct shim_pd, ibv)->nic;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++)
		err = nic_sge_find(nic, (const struct nic_sge *)&sge[i], write, &addrs[i]);
	return err;
}

/** Fault pages in. @return 0, or -EFAULT. */
static int prefetch(const struct ibv_sge *sge, uint32_t n, bool write, void *const *addrs)
{
	int err = 0;

	for (uint32_t i = 0; i < n; i++)
		if (pmd_populate(addrs[i], sge[i].length, write))
			err = -EFAULT;
	return err;
}

/* The advice is followed before the call returns, so IBV_ADVISE_MR_FLAG_FLUSH decides only whether the call reports
 * that pages could not be faulted in. PREFETCH_NO_FAULT covers only pages that are already present, and these need no
 * work. */
int shim_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge, uint32_t n)
{
	struct shim_context *ctx = shim_ctx(pd->context);
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	void **addrs;
	int err;

	if ((unsigned)advice > ADVICE_LAST)
		return shim_errno(-EOPNOTSUPP);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return shim_errno(-EINVAL);
	if (!shim_pd_intact(pd))
		return shim_errno(-ENOENT);
	addrs = calloc(n, sizeof(*addrs));
	if (!addrs)
		return shim_errno(-ENOMEM);
	err = -EIO;
	if (shim_enter(ctx)) {
		err = find(pd, sge, n, write, addrs);
		shim_leave(ctx);
	}
	if (!err && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && prefetch(sge, n, write, addrs) &&
	    flags & IBV_ADVISE_MR_FLAG_FLUSH)
		err = -EFAULT;
	free(addrs);
	return shim_errno(err);
}
