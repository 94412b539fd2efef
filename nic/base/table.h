/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - a hash table from 32-bit keys to pointers: open addressing, linear probing, at most half full.
 * Finding and removing never allocate; inserting may. The table owns its slots, not what they point to. Includes
 * nothing of ours.
 */
#ifndef NIC_TABLE_H
#define NIC_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct table_slot {
	uint32_t key;
	void *value; /* NULL: free */
};

struct table {
	struct table_slot *slots;
	uint32_t mask, count;
};

static inline uint32_t table_home(const struct table *t, uint32_t key)
{
	return (key * 0x9e3779b1u >> 7) & t->mask;
}

static inline void *table_find(const struct table *t, uint32_t key)
{
	if (!t->slots)
		return NULL;
	for (uint32_t i = table_home(t, key);; i = (i + 1) & t->mask) {
		if (!t->slots[i].value)
			return NULL;
		if (t->slots[i].key == key)
			return t->slots[i].value;
	}
}

static inline void table_place(struct table *t, uint32_t key, void *value)
{
	uint32_t i = table_home(t, key);

	while (t->slots[i].value)
		i = (i + 1) & t->mask;
	t->slots[i] = (struct table_slot){key, value};
	t->count++;
}

/** Insert a key that is not in the table. @return false: no memory. */
static inline bool table_insert(struct table *t, uint32_t key, void *value)
{
	if (!t->slots || (t->count + 1) * 2 > t->mask + 1) {
		struct table bigger = {.mask = t->slots ? t->mask * 2 + 1 : 63};

		bigger.slots = calloc((size_t)bigger.mask + 1, sizeof(*bigger.slots));
		if (!bigger.slots)
			return false;
		for (uint32_t i = 0; t->slots && i <= t->mask; i++)
			if (t->slots[i].value)
				table_place(&bigger, t->slots[i].key, t->slots[i].value);
		free(t->slots);
		*t = bigger;
	}
	table_place(t, key, value);
	return true;
}

/** Remove a key that is in the table, and close the gap so that no probe sequence is broken. */
static inline void table_remove(struct table *t, uint32_t key)
{
	uint32_t hole = table_home(t, key);

	while (t->slots[hole].key != key || !t->slots[hole].value)
		hole = (hole + 1) & t->mask;
	t->count--;
	for (uint32_t i = hole;;) {
		t->slots[hole].value = NULL;
		do {
			i = (i + 1) & t->mask;
			if (!t->slots[i].value)
				return;
		} while (((i - table_home(t, t->slots[i].key)) & t->mask) < ((i - hole) & t->mask));
		t->slots[hole] = t->slots[i];
		hole = i;
	}
}

#endif
