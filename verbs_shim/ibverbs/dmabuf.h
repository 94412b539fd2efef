/* SPDX-License-Identifier: BSD-3-Clause */
/* dmabuf.h - memory regions of dma-bufs. */
#ifndef SHIM_DMABUF_H
#define SHIM_DMABUF_H

#include "shim.h"

/** Register `length` bytes at `offset` of a dma-buf. The region's addresses start at iova. @return NULL with errno as
 * ibv_reg_dmabuf_mr. */
struct ibv_mr *shim_dmabuf_reg(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			       unsigned access);
/** Unmap the dma-buf of a region, if it has one. The NIC must no longer be able to access the region. */
void shim_dmabuf_unmap(struct shim_mr *mr);

#endif
