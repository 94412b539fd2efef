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

#define PAGE_MIN 4096 /* no processor has smaller pages; a larger page is written in parts */

/** Write to one page, or drop the write if the page is not mapped. It is tried twice because the program may map the
 * page between the fault and the question. @return false: the page is mapped and cannot be written. */
static bool write_page(const struct nic_config *cfg, struct copy_job *part, bool *dropped)
{
	for (unsigned i = 0; i < 2; i++) {
		if (cfg->guard(cfg->ctx, mem_deliver_run, part))
			return true;
		if (!cfg->is_mapped(cfg->ctx, part->dst, part->len)) {
			*dropped = true;
			return true;
		}
	}
	return false;
}

bool mem_write_mapped(const struct nic_config *cfg, const struct copy_job *job, bool *dropped)
{
	struct copy_job part = *job;

	*dropped = false;
	for (size_t left = job->len; left > 0; left -= part.len, part.dst += part.len, part.src += part.len) {
		part.len = PAGE_MIN - (uintptr_t)part.dst % PAGE_MIN;
		if (part.len > left)
			part.len = left;
		if (!write_page(cfg, &part, dropped))
			return false;
	}
	return true;
}

bool mem_write_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key)
{
	bool dropped;

	if (!is_pinned(nic, pd, key) || !nic->cfg.is_mapped || !mem_write_mapped(&nic->cfg, &nic->faulted, &dropped))
		return false;
	if (dropped)
		COUNT(nic, app_memory_lost);
	return true;
}
