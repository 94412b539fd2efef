/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - buffers for packets to send: DPDK's mbufs. Owns: the number of the next pool. */
#include <stdio.h>

#include <rte_mbuf.h>

#include "eal.h"
#include "pool.h"

#define TAKE_MAX 64

static unsigned serial; /* atomic: names of pools must be unique in the process */

const char pmd_pool_shortage[] =
	"DPDK's heap of " PMD_HEAP_MIB " MiB has no room for the packets of one more device; close some";

struct pmd_pool *pmd_pool_open(unsigned n)
{
	char name[32];

	snprintf(name, sizeof(name), "uroce_tx_%u", __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
	return (struct pmd_pool *)rte_pktmbuf_pool_create(name, n, 0, 0, RTE_PKTMBUF_HEADROOM + NIC_FRAME_MAX, 0);
}

void pmd_pool_close(struct pmd_pool *pool)
{
	rte_mempool_free((struct rte_mempool *)pool);
}

bool pmd_pool_take(struct pmd_pool *pool, struct nic_tx_frame *frames, unsigned n)
{
	struct rte_mbuf *fresh[TAKE_MAX];

	if (n == 0)
		return true;
	if (n > TAKE_MAX || rte_pktmbuf_alloc_bulk((struct rte_mempool *)pool, fresh, n) != 0)
		return false;
	for (unsigned i = 0; i < n; i++) {
		frames[i].cookie = fresh[i];
		frames[i].data = rte_pktmbuf_mtod(fresh[i], uint8_t *);
	}
	return true;
}

void pmd_pool_give(struct pmd_pool *pool, void *cookie)
{
	(void)pool; /* an mbuf knows its own */
	rte_pktmbuf_free(cookie);
}
