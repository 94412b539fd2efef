/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.c - whether memory is mapped; see mapped.h. Owns nothing. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mapped.h"

bool pmd_is_mapped(void *ctx, const void *addr, size_t len)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)addr & ~(page - 1);
	const uintptr_t end = (uintptr_t)addr + len;
	const int before = errno;
	unsigned char resident[64];
	bool mapped = true;

	for (uintptr_t at = start; at < end && mapped; at += sizeof(resident) * page) {
		uintptr_t part = end - at < sizeof(resident) * page ? end - at : sizeof(resident) * page;

		mapped = mincore((void *)at, part, resident) == 0 || errno != ENOMEM;
	}
	(void)ctx;
	errno = before;
	return mapped;
}
