/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * force.c - accesses to application memory that a guarded access has found unmapped or protected.
 *
 * An adapter has a region's pages pinned: it reads and writes them whatever the program does to its mappings. For pages
 * that are still mapped, the kernel can do the same. A write through /proc/self/mem ignores the protection of private
 * memory. It does not ignore that of shared memory, of which mremap makes a second mapping, whose protection is changed
 * for the write. The pages of memory that is not mapped any more cannot be found again.
 *
 * Not written are executable memory and private mappings of files, unless the program itself may write there: a library
 * may have been loaded at the addresses of a region that the program has unmapped. Nor are the pages beyond the end of
 * a file: an adapter would have the pages of a file that was truncated, but the same fault comes when there is no
 * memory for a page that the program can still see.
 *
 * This takes several system calls, some of them for each page, which is no loss after a signal. It uses the system
 * calls that change mappings directly, because programs (UCX among them) replace the C library's functions for these,
 * and would be called back here, under the engine's lock.
 *
 * Owns nothing. The file is opened each time: it stays that of the process that opened it, also in a forked child.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"
#include "maps.h"

static uintptr_t page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/** Write page by page. @return whether all pages could be written. */
static bool write_pages(int mem, uintptr_t at, const uint8_t *src, size_t len)
{
	uintptr_t page = page_size();

	while (len > 0) {
		size_t part = page - at % page < len ? page - at % page : len;

		if (pwrite(mem, src, part, (off_t)at) != (ssize_t)part)
			return false;
		at += part;
		src += part;
		len -= part;
	}
	return true;
}

/** Write to shared memory that is protected, by a second mapping of its pages. */
static bool write_shared(int mem, uintptr_t at, const uint8_t *src, size_t len)
{
	uintptr_t start = at & ~(page_size() - 1);
	size_t size = at + len - start;
	long second = syscall(SYS_mremap, start, 0ul, size, (unsigned long)MREMAP_MAYMOVE, 0ul);
	bool done;

	if (second == -1)
		return false;
	done = syscall(SYS_mprotect, second, size, (unsigned long)(PROT_READ | PROT_WRITE)) == 0 &&
	       write_pages(mem, (uintptr_t)second + (at - start), src, len);
	syscall(SYS_munmap, second, size);
	return done;
}

/** Write to memory within one mapping. @return whether all of it could be written. */
static bool write_mapping(int mem, const struct mapping *m, uintptr_t at, const uint8_t *src, size_t len)
{
	if (!m->writable && (m->executable || (!m->shared && m->inode)))
		return false;
	return !m->writable && m->shared ? write_shared(mem, at, src, len) : write_pages(mem, at, src, len);
}

static enum nic_force force_write(int mem, uintptr_t at, const uint8_t *src, size_t len)
{
	const uintptr_t end = at + len;
	enum nic_force result = NIC_FORCE_DONE;
	struct mapping m;
	struct maps maps;

	if (!maps_open(&maps))
		return NIC_FORCE_FAILED;
	while (at < end && result != NIC_FORCE_FAILED && maps_next(&maps, &m) && m.start < end) {
		uintptr_t from = m.start > at ? m.start : at, to = m.end < end ? m.end : end;

		if (m.end <= at)
			continue;
		if (from > at)
			result = NIC_FORCE_GONE;
		if (!write_mapping(mem, &m, from, src + (from - at), to - from))
			result = NIC_FORCE_FAILED;
		src += to - at;
		at = to;
	}
	maps_close(&maps);
	return at < end && result == NIC_FORCE_DONE ? NIC_FORCE_GONE : result;
}

static enum nic_force force_read(int mem, uintptr_t at, uint8_t *dst, size_t len)
{
	while (len > 0) {
		ssize_t got = pread(mem, dst, len, (off_t)at);

		if (got <= 0)
			return NIC_FORCE_GONE;
		at += (size_t)got;
		dst += got;
		len -= (size_t)got;
	}
	return NIC_FORCE_DONE;
}

enum nic_force pmd_guard_force(void *ctx, void *app, void *buf, size_t len, bool write)
{
	enum nic_force result = NIC_FORCE_FAILED;
	int cancel, mem;

	(void)ctx;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* no cancellation while the engine is locked */
	mem = open("/proc/self/mem", (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (mem >= 0) {
		result = write ? force_write(mem, (uintptr_t)app, buf, len) : force_read(mem, (uintptr_t)app, buf, len);
		close(mem);
	}
	pthread_setcancelstate(cancel, NULL);
	return result;
}
