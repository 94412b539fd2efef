/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - buffers for the packets that an engine sends (pmd-internal). With DPDK they are mbufs of a pool in its heap,
 * which an ethdev takes as they are (pool.c); without DPDK plain memory (without.c). A pool is not thread-safe. */
#ifndef PMD_POOL_H
#define PMD_POOL_H

#include <stdbool.h>

#include "nic.h"

struct pmd_pool; /* with DPDK a struct rte_mempool */

/** Make a pool of n buffers, each with PMD_TX_HEADROOM bytes, and then NIC_FRAME_MAX. @return NULL: no memory */
struct pmd_pool *pmd_pool_open(unsigned n);
/** What is said to the user if there is no pool: the cause, and what helps. */
extern const char pmd_pool_shortage[];
/** Free the pool, to which all its buffers have been given back. NULL: nothing happens. */
void pmd_pool_close(struct pmd_pool *pool);
/** Give n frames a buffer each: data and cookie. @return false: too few are left, and no frame got one */
bool pmd_pool_take(struct pmd_pool *pool, struct nic_tx_frame *frames, unsigned n);
/** Give back the buffer of the frame that has this cookie. */
void pmd_pool_give(struct pmd_pool *pool, void *cookie);

#endif
