/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dmabuf.c - memory regions of dma-bufs. A dma-buf is a driver's buffer that programs refer to by a file descriptor.
 * For a hardware adapter, the kernel attaches the adapter to the buffer. This NIC is software and needs the buffer's
 * pages in the process, so a region maps them until it is deregistered. Exporters of host memory (udmabuf, dma-heaps)
 * allow the mapping; if an exporter does not, the registration fails.
 *
 * Accesses are not bracketed by DMA_BUF_IOCTL_SYNC, because peers can access the region at any time. So the buffer's
 * memory must be coherent with the CPU's caches, as host memory is on machines with coherent DMA.
 *
 * Owns: the mappings of regions (struct shim_mr, map).
 */
#include "dmabuf.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The flags that ibv_reg_mr(3) allows for dma-bufs; a kernel refuses all others, too. */
#define ACCESS_KNOWN                                                                                                   \
	(unsigned)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                         \
		   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

static bool access_legal(unsigned access)
{
	return !(access & ~ACCESS_KNOWN) &&
	       (access & IBV_ACCESS_LOCAL_WRITE || !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)));
}

/** Check that the descriptor is that of a dma-buf of at least `size` bytes. @return 0, -EBADF, -EINVAL. */
static int check_fd(int fd, uint64_t size)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(fd, &fs) || fstat(fd, &st))
		return errno == EBADF ? -EBADF : -EINVAL;
	return fs.f_type == DMA_BUF_MAGIC && (uint64_t)st.st_size >= size ? 0 : -EINVAL;
}

/** Map `length` bytes of the buffer. A forked child does not inherit the mapping: it cannot use the region, and the
 * mapping would keep the buffer alive. @param offset a multiple of the page size. @return 0 with *map set; -EOPNOTSUPP:
 * the exporter does not allow the mapping; -EACCES: the descriptor is not open for this access; -ENOMEM, -EAGAIN. */
static int map_buffer(int fd, uint64_t offset, size_t length, bool write, void **map)
{
	*map = mmap(NULL, length, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)offset);
	if (*map == MAP_FAILED)
		return errno == EACCES || errno == ENOMEM || errno == EAGAIN ? -errno : -EOPNOTSUPP;
	madvise(*map, length, MADV_DONTFORK);
	return 0;
}

struct ibv_mr *shim_dmabuf_reg(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			       unsigned access)
{
	uint64_t in_page = offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1), end;
	bool write = access & IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *ibv;
	void *map;
	int err;

	if (!shim_pd_intact(pd))
		return shim_fail(ENOENT);
	if ((iova ^ offset) & ((uint64_t)sysconf(_SC_PAGESIZE) - 1) || !access_legal(access) || !length ||
	    __builtin_add_overflow(offset, length, &end))
		return shim_fail(EINVAL);
	err = check_fd(fd, end);
	if (!err)
		err = map_buffer(fd, offset - in_page, in_page + length, write, &map);
	if (err)
		return shim_fail(-err);
	err = pmd_check_range((char *)map + in_page, length, write);
	ibv = err ? shim_fail(-err)
		  : shim_mr_new(pd, (char *)map + in_page, length, iova, shim_access_translate(access), NULL);
	if (!ibv) {
		err = errno;
		munmap(map, in_page + length);
		return shim_fail(err);
	}
	container_of(ibv, struct shim_mr, ibv)->map = map;
	container_of(ibv, struct shim_mr, ibv)->map_length = in_page + length;
	ibv->addr = (void *)(uintptr_t)offset;
	return ibv;
}

void shim_dmabuf_unmap(struct shim_mr *mr)
{
	if (mr->map)
		munmap(mr->map, mr->map_length);
	mr->map = NULL;
}
