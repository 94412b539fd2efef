/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * range.c - whether a range of application memory is mapped: checks at the registration of memory.
 *
 * Owns nothing.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "maps.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Bytes. Ranges up to this length are checked by faulting their pages in, longer ones by reading /proc/self/maps. */
#define CHECK_TOUCH_MAX (1u << 20)

/** Check in /proc/self/maps that [start, end) is mapped with these rights. Exact, but slow: reads the file up to `end`.
 *  @return 0 or -EFAULT. */
static int check_maps(uintptr_t start, uintptr_t end, bool write)
{
	uintptr_t covered = start;
	struct mapping m;
	struct maps maps;

	if (!maps_open(&maps))
		return 0; /* unknown: a guarded access finds bad memory later */
	while (covered < end && maps_next(&maps, &m)) {
		if (m.end <= covered)
			continue;
		if (m.start > covered || !m.readable || (write && !m.writable))
			break;
		covered = m.end;
	}
	maps_close(&maps);
	return covered >= end ? 0 : -EFAULT;
}

bool pmd_is_mapped_file(const void *addr, size_t len)
{
	uintptr_t covered = (uintptr_t)addr, end = covered + len;
	struct mapping m;
	struct maps maps;

	if (!maps_open(&maps))
		return covered >= end;
	while (covered < end && maps_next(&maps, &m)) {
		if (m.end <= covered)
			continue;
		if (m.start > covered || !m.shared || !m.inode)
			break;
		covered = m.end;
	}
	maps_close(&maps);
	return covered >= end;
}

/** Extend a range to whole pages. @return false: the range reaches or passes the end of the address space. */
static bool pages_of(const void *addr, size_t len, uintptr_t *start, uintptr_t *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	*start = (uintptr_t)addr & ~(page - 1);
	if (__builtin_add_overflow((uintptr_t)addr, len, end) || *end > UINTPTR_MAX - page)
		return false;
	*end = (*end + page - 1) & ~(page - 1);
	return true;
}

static int populate(uintptr_t start, uintptr_t end, bool write)
{
	return madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ? 0 : -errno;
}

int pmd_populate(const void *addr, size_t len, bool write)
{
	uintptr_t start, end;
	int rc;

	if (len == 0)
		return 0;
	rc = pages_of(addr, len, &start, &end) ? populate(start, end, write) : -EFAULT;
	if (rc == 0 || rc == -ENOMEM || rc == -EFAULT)
		return rc == 0 ? 0 : -EFAULT;
	return check_maps(start, end, write);
}

/*
 * Have the kernel fault in the pages of a short range, as registration with RDMA hardware does. Faulting in is cheap if
 * the pages are present; if not, it saves page faults in the data path. Long ranges, and ranges for which
 * madvise gives no answer (older kernels, special mappings), are looked up in /proc/self/maps.
 */
int pmd_check_range(const void *addr, size_t len, bool write)
{
	uintptr_t start, end;

	pmd_guard_reinstall();
	if (len == 0)
		return 0;
	if (!pages_of(addr, len, &start, &end))
		return -EFAULT;
	return end - start <= CHECK_TOUCH_MAX ? pmd_populate(addr, len, write) : check_maps(start, end, write);
}
