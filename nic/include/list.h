/* SPDX-License-Identifier: BSD-3-Clause */
/* list.h - intrusive doubly linked lists. A node that is on no list points to itself. */
#ifndef NIC_LIST_H
#define NIC_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_remove(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

static inline void list_append(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

/** Move all nodes of `from` to the end of the list `head`. */
static inline void list_append_all(struct list *head, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

static inline struct list *list_first(struct list *head)
{
	return head->next;
}

/** Remove the first node of a list that is not empty. */
static inline struct list *list_pop(struct list *head)
{
	struct list *first = head->next;

	head->next = first->next;
	first->next->prev = head;
	list_init(first);
	return first;
}

/** Remove the last node of a list that is not empty. */
static inline struct list *list_pop_last(struct list *head)
{
	struct list *last = head->prev;

	head->prev = last->prev;
	last->prev->next = head;
	list_init(last);
	return last;
}

#endif
