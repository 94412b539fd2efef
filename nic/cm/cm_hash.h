/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_hash.h - hash tables of the connection manager. Entries are chained through links inside the entries, so that
 * adding an entry never fails. A table doubles its size when it has one entry per bucket. If there is no memory for
 * that, its chains get longer.
 */
#ifndef NIC_CM_HASH_H
#define NIC_CM_HASH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct cm_link {
	struct cm_link *next;
	uint64_t hash;
	bool in; /* the link is in a table */
};

struct cm_hash {
	struct cm_link **bucket;
	uint32_t mask, count;
};

/** Mix one word into a hash, with the 64-bit finalizer of splitmix64. */
static inline uint64_t cm_hash_mix(uint64_t hash, uint64_t word)
{
	uint64_t x = (hash ^ word) + 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static inline bool cm_hash_init(struct cm_hash *t)
{
	t->mask = 63;
	t->count = 0;
	t->bucket = calloc((size_t)t->mask + 1, sizeof(struct cm_link *));
	return t->bucket;
}

static inline void cm_hash_grow(struct cm_hash *t)
{
	uint32_t mask = t->mask * 2 + 1;
	struct cm_link **bucket = calloc((size_t)mask + 1, sizeof(struct cm_link *));

	if (!bucket)
		return;
	for (uint32_t i = 0; i <= t->mask; i++)
		while (t->bucket[i]) {
			struct cm_link *l = t->bucket[i];

			t->bucket[i] = l->next;
			l->next = bucket[l->hash & mask];
			bucket[l->hash & mask] = l;
		}
	free(t->bucket);
	t->bucket = bucket;
	t->mask = mask;
}

static inline void cm_hash_add(struct cm_hash *t, struct cm_link *l, uint64_t hash)
{
	if (t->count > t->mask)
		cm_hash_grow(t);
	l->hash = hash;
	l->in = true;
	l->next = t->bucket[hash & t->mask];
	t->bucket[hash & t->mask] = l;
	t->count++;
}

/** Remove a link from its table, if it is in one. */
static inline void cm_hash_remove(struct cm_hash *t, struct cm_link *l)
{
	struct cm_link **at;

	if (!l->in)
		return;
	for (at = &t->bucket[l->hash & t->mask]; *at != l; at = &(*at)->next)
		;
	*at = l->next;
	l->in = false;
	t->count--;
}

/** The first link with this hash, or NULL; cm_hash_next finds further ones. */
static inline struct cm_link *cm_hash_first(const struct cm_hash *t, uint64_t hash)
{
	struct cm_link *l = t->bucket[hash & t->mask];

	while (l && l->hash != hash)
		l = l->next;
	return l;
}

static inline struct cm_link *cm_hash_next(struct cm_link *l)
{
	uint64_t hash = l->hash;

	do
		l = l->next;
	while (l && l->hash != hash);
	return l;
}

#endif
