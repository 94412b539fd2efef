/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - the memory of a ring: making, sealing and mapping it. ring.h has the functions that use it.
 *
 * Owns nothing. A forked child does not inherit the mapping, and is neither producer nor consumer.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filesize.h"
#include "ring.h"

/* With these seals neither side can shrink the memory while the other uses it; its contents stay writable. */
#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Freeing fewer bytes than this is not worth a system call. */
#define RING_TRIM 16384u

static int map(int fd, uint8_t **out)
{
	void *memory = mmap(NULL, RING_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	madvise(memory, RING_MAP_BYTES, MADV_DONTFORK);
	*out = memory;
	return 0;
}

int ring_create(struct ring_producer *p)
{
	int fd, rc;

	if (!filesize_is_allowed(RING_MAP_BYTES))
		return -EFBIG;
	fd = memfd_create("uroce-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, RING_MAP_BYTES) != 0 || fcntl(fd, F_ADD_SEALS, RING_SEALS) != 0)
		rc = -errno;
	else
		rc = map(fd, &p->memory);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	*p = (struct ring_producer){.memory = p->memory};
	return fd;
}

int ring_map(struct ring_consumer *c, int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & RING_SEALS) != RING_SEALS)
		return -EPERM;
	if (fstat(fd, &st) != 0 || st.st_size != RING_MAP_BYTES)
		return -EINVAL;
	c->head = c->said = 0;
	return map(fd, &c->memory);
}

/** Free the whole pages of data. Where pages are larger than the control page, the first of the data keep theirs. */
static bool give_back(uint8_t *memory)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)memory + RING_MAP_BYTES;
	uintptr_t from = ((uintptr_t)memory + RING_CONTROL + page - 1) & ~(page - 1);

	return madvise((void *)from, end - from, MADV_REMOVE) == 0;
}

void ring_trim(struct ring_producer *p)
{
	if (p->tail - p->trimmed < RING_TRIM || !ring_is_empty(p))
		return;
	PMD_POINT(ring_empty);
	/* The consumer may poll the word at its head during this call: the word is 0 before and after. */
	if (give_back(p->memory))
		p->trimmed = p->tail;
	PMD_POINT(ring_trimmed);
}

void ring_empty(uint8_t *memory)
{
	give_back(memory);
}

void ring_unmap(uint8_t *memory)
{
	munmap(memory, RING_MAP_BYTES);
}
