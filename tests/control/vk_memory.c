/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_memory.c - memory of virtual processes: when a process ends, at whatever point, its remaining allocations are
 * freed.
 *
 * The linker diverts allocations to this file. Allocations outside a virtual process are not tracked. Each block of a
 * process is in a list of the process and in a hash table; free() uses the table to recognise blocks that the C library
 * allocated itself.
 */
#include <stdlib.h>
#include <string.h>

#include "vk_priv.h"

#define BUCKETS 4096u

struct vk_allocation {
	struct vk_allocation *next, **at; /* list of the process's blocks */
	struct vk_allocation *bucket;
	struct vk_proc *proc;
	void *memory;
	size_t size;
};

static struct vk_allocation *buckets[BUCKETS];

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);

static struct vk_allocation **bucket_of(const void *memory)
{
	return &buckets[((uintptr_t)memory >> 4) * 2654435761u % BUCKETS];
}

static void *keep(void *memory, size_t size)
{
	struct vk_proc *p = vk_self();
	struct vk_allocation *a, **bucket;

	if (!p || !memory)
		return memory;
	a = __real_malloc(sizeof(*a));
	if (!a)
		abort();
	bucket = bucket_of(memory);
	*a = (struct vk_allocation){p->allocations, &p->allocations, *bucket, p, memory, size};
	if (a->next)
		a->next->at = &a->next;
	p->allocations = a;
	p->allocated += size;
	*bucket = a;
	return memory;
}

static void forget(struct vk_allocation **at)
{
	struct vk_allocation *a = *at;

	*at = a->bucket;
	*a->at = a->next;
	if (a->next)
		a->next->at = a->at;
	a->proc->allocated -= a->size;
	__real_free(a);
}

static struct vk_allocation **find(const void *memory)
{
	struct vk_allocation **at = bucket_of(memory);

	while (*at && (*at)->memory != memory)
		at = &(*at)->bucket;
	return at;
}

void vk_memory_drop(struct vk_proc *p)
{
	while (p->allocations) {
		void *memory = p->allocations->memory;

		forget(find(memory));
		__real_free(memory);
	}
}

void *vk_alloc(size_t size)
{
	return vk_zalloc(size);
}

void *__wrap_malloc(size_t size)
{
	return keep(__real_malloc(size), size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return keep(__real_calloc(n, size), n * size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return keep(__real_aligned_alloc(alignment, size), size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	struct vk_allocation **at = memory ? find(memory) : NULL;

	if (at && *at)
		forget(at);
	return keep(__real_realloc(memory, size), size);
}

void __wrap_free(void *memory)
{
	struct vk_allocation **at = memory ? find(memory) : NULL;

	if (at && *at)
		forget(at);
	__real_free(memory);
}
