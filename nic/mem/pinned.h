/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.h - copies that have faulted, in regions whose pages an adapter would have pinned. The copy is not described
 * again: its caller then need not keep what it knows of it, and costs nothing where nothing faults. Private to nic/.
 */
#ifndef NIC_PINNED_H
#define NIC_PINNED_H

#include "mem.h"

/** mem_read() has just failed: unless the region is on demand, read the memory all the same, if all of it is mapped.
 *  @param key an R_Key that a peer of a QP of this domain has used, or, without a domain (NULL), an L_Key.
 *  @return false if the memory cannot be read. */
__attribute__((cold)) bool mem_read_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key);

/** mem_write() has just failed: unless the region is on demand, write the memory all the same. What is not mapped any
 *  more does not get the data, which is counted. @return false if memory that is mapped cannot be written. */
__attribute__((cold)) bool mem_write_pinned(struct nic *nic, const struct nic_pd *pd, uint32_t key);

#endif
