/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.c - what an adapter does that has a region's pages pinned, after a copy has faulted; see pinned.h.
 *
 * The program has unmapped the memory of a region, or protected it. An adapter goes on using the pages. Where they are
 * still mapped, so do we (nic_config.force): the program may look at them later. A write to memory that is not mapped
 * any more is dropped, and the request succeeds: nobody looks at those pages any more, unless they are shared and have
 * another mapping. For a read there is no data.
 *
 * Atomics, ATOMIC WRITEs and operations on elements keep their errors: a copy by the kernel is not atomic. So do
 * regions that are on demand, in which an adapter faults, too. The memory of endpoints' messages, which the application
 * does not register, counts as on demand.
 */
#include "pinned.h"

#include "icrc.h"

/** Whether an adapter would have pinned the pages of the region that the key, or a window's key, names. */
static bool is_pinned(const struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	const struct mkey *m = pd ? mkey_find_remote(nic, pd, key) : mkey_find(nic, key);
	const struct nic_mr *mr;

	if (!m)
		return false;
	mr = m->kind == MKEY_MR ? (const struct nic_mr *)m : ((const struct nic_mw *)m)->mr;
	return !(mr->mkey.access & NIC_ACCESS_ON_DEMAND);
}

bool mem_read_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	const struct nic_config *cfg = &nic->cfg;
	const struct copy_job *job = &nic->faulted;

	if (!is_pinned(nic, pd, key) || !cfg->force ||
	    cfg->force(cfg->ctx, (void *)(uintptr_t)job->src, job->dst, job->len, false) != NIC_FORCE_DONE)
		return false;
	COUNT(nic, app_memory_forced);
	if (job->icrc)
		*job->icrc = icrc_update(*job->icrc, job->dst, job->len);
	return true;
}

bool mem_write_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	const struct nic_config *cfg = &nic->cfg;
	const struct copy_job *job = &nic->faulted;
	enum nic_force done;

	if (!is_pinned(nic, pd, key) || !cfg->force)
		return false;
	done = cfg->force(cfg->ctx, job->dst, (void *)(uintptr_t)job->src, job->len, true);
	if (done == NIC_FORCE_DONE)
		COUNT(nic, app_memory_forced);
	else if (done == NIC_FORCE_GONE)
		COUNT(nic, app_memory_lost);
	return done != NIC_FORCE_FAILED;
}
