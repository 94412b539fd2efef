/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * without.c - in place of the rest of this folder in a build without DPDK (-Ddpdk=disabled): nothing has to be started,
 * and buffers for packets are plain memory. The kernel-UDP port and the rings need no more. Owns nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "eal.h"
#include "pool.h"

#define BUFFER_HEADROOM 128 /* at least PMD_TX_HEADROOM (pmd/port/port.h), and a multiple of a cache line */
#define BUFFER_SIZE	(BUFFER_HEADROOM + ((NIC_FRAME_MAX + 63) & ~63))

int pmd_eal_start(char *err, size_t err_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)err;
	(void)err_len;
	pthread_once(&once, pmd_clock_start);
	return 0;
}

int pmd_eal_files_limit(struct rlimit *out)
{
	return getrlimit(RLIMIT_NOFILE, out) == 0 ? 0 : -errno;
}

const char pmd_pool_shortage[] = "there is no memory for the packets of one more device; close some";

struct pmd_pool {
	uint8_t *memory;
	unsigned left;	 /* length of `rest` */
	uint8_t *rest[]; /* the buffers that are not taken */
};

struct pmd_pool *pmd_pool_open(unsigned n)
{
	struct pmd_pool *pool = calloc(1, sizeof(*pool) + n * sizeof(pool->rest[0]));

	if (!pool)
		return NULL;
	pool->memory = aligned_alloc(64, (size_t)n * BUFFER_SIZE);
	if (!pool->memory) {
		free(pool);
		return NULL;
	}
	/* The last one first, which makes those at the beginning of the memory the ones in use. */
	for (pool->left = 0; pool->left < n; pool->left++)
		pool->rest[pool->left] = pool->memory + (size_t)(n - 1 - pool->left) * BUFFER_SIZE;
	return pool;
}

void pmd_pool_close(struct pmd_pool *pool)
{
	if (!pool)
		return;
	free(pool->memory);
	free(pool);
}

bool pmd_pool_take(struct pmd_pool *pool, struct nic_tx_frame *frames, unsigned n)
{
	if (n > pool->left)
		return false;
	for (unsigned i = 0; i < n; i++) {
		frames[i].cookie = pool->rest[--pool->left];
		frames[i].data = (uint8_t *)frames[i].cookie + BUFFER_HEADROOM;
	}
	return true;
}

void pmd_pool_give(struct pmd_pool *pool, void *cookie)
{
	pool->rest[pool->left++] = cookie;
}
