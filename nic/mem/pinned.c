/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.c - writes to the memory of a region that the program has unmapped.
 *
 * An adapter has the region's pages pinned, and goes on using them. Here the pages are gone. A write to them is
 * dropped, and the request succeeds: nobody looks at those pages any more, unless they are shared and have another
 * mapping. What is still mapped gets its data. A read has no data to return, so it fails, as atomics, ATOMIC WRITEs and
 * operations on elements do.
 *
 * Regions that are on demand keep the error: in these an adapter faults, too. The memory of endpoints' messages, which
 * the application does not register, counts as on demand.
 */
#include "pinned.h"

/** Whether an adapter would have pinned the pages of the region that `key` names, directly or as a window's key. */
static bool is_pinned(const struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	const struct mkey *m = pd ? mkey_find_remote(nic, pd, key) : mkey_find(nic, key);
	const struct nic_mr *mr;

	if (!m)
		return false;
	mr = m->kind == MKEY_MR ? (const struct nic_mr *)m : ((const struct nic_mw *)m)->mr;
	return !(mr->mkey.access & NIC_ACCESS_ON_DEMAND);
}

bool mem_write_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	const struct nic_config *cfg = &nic->cfg;
	const struct copy_job *job = &nic->faulted;

	if (!is_pinned(nic, pd, key) || !cfg->write_mapped ||
	    !cfg->write_mapped(cfg->ctx, job->dst, job->src, job->len))
		return false;
	COUNT(nic, app_memory_lost);
	return true;
}
