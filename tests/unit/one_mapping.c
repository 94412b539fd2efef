/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_mapping.c - for tests under ThreadSanitizer: if both ends of a ring are in this process, they share one mapping
 * of the ring. With two mappings, at different addresses, the sanitizer would see neither that both ends access the
 * same bytes nor what orders these accesses. The linker redirects the calls that map rings to this file.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ring.h"

#define RINGS 64

static struct {
	uint8_t *memory; /* NULL: the entry is free */
	ino_t inode;
	unsigned users;
} rings[RINGS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int __real_ring_create(struct ring_producer *p);
int __wrap_ring_create(struct ring_producer *p);
int __real_ring_map(struct ring_consumer *c, int fd);
int __wrap_ring_map(struct ring_consumer *c, int fd);
void __real_ring_unmap(uint8_t *memory);
void __wrap_ring_unmap(uint8_t *memory);

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

int __wrap_ring_create(struct ring_producer *p)
{
	int fd = __real_ring_create(p);
	unsigned i = 0;

	if (fd < 0)
		return fd;
	pthread_mutex_lock(&lock);
	while (i < RINGS && rings[i].memory)
		i++;
	assert(i < RINGS);
	rings[i].memory = p->memory;
	rings[i].inode = inode_of(fd);
	rings[i].users = 1;
	pthread_mutex_unlock(&lock);
	return fd;
}

int __wrap_ring_map(struct ring_consumer *c, int fd)
{
	int rc = __real_ring_map(c, fd);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < RINGS; i++) {
		if (!rings[i].memory || rings[i].inode != inode_of(fd))
			continue;
		__real_ring_unmap(c->memory);
		c->memory = rings[i].memory;
		rings[i].users++;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

void __wrap_ring_unmap(uint8_t *memory)
{
	bool last = true;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < RINGS; i++) {
		if (rings[i].memory != memory)
			continue;
		last = --rings[i].users == 0;
		if (last)
			rings[i].memory = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (last)
		__real_ring_unmap(memory);
}
