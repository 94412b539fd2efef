/* SPDX-License-Identifier: BSD-3-Clause */
/* pinned.h - writes to the memory of a region that the program has unmapped. Private to nic/. */
#ifndef NIC_PINNED_H
#define NIC_PINNED_H

#include "mem.h"

/** Write to those pages of a copy's destination that are mapped, in ascending order. @param dropped out: whether a page
 *  was not mapped. @return false: a page is mapped and cannot be written; pages before it may have been written. */
bool mem_write_mapped(const struct nic_config *cfg, const struct copy_job *job, bool *dropped);

/** Called after mem_write() has failed. Unless the region is on demand, write to the pages that are mapped, drop the
 *  rest, and count that. The copy is taken from nic->faulted, so that callers need not keep its arguments, which would
 *  cost instructions when nothing faults.
 *  @param pd the domain in which a peer used an R_Key; NULL: `key` is an L_Key.
 *  @return false if the write is an error: a region on demand, or a page that is mapped cannot be written. */
__attribute__((cold)) bool mem_write_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key);

#endif
