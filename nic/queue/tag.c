/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.c - the tag unit; see tag.h.
 *
 * The unit has hash tables for a few ignore masks: per mask, buckets of receives and buckets of messages, hashed by the
 * tag bits that the mask does not ignore. An arriving message searches one bucket of receives per mask and takes the
 * match that was posted first. A receive searches one bucket of messages of its mask, in arrival order. A receive with
 * a new mask takes over the tables of the least recently used mask that no waiting receive has; all messages are then
 * hashed again for the new mask. If every mask has waiting receives, a receive with a further mask searches all
 * messages and waits in a list, which every arriving message searches, too.
 */
#include "tag.h"

static uint32_t bucket_of(uint64_t tag, uint64_t ignore)
{
	uint64_t h = (tag & ~ignore) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(h >> (64 - TAG_BUCKET_BITS)); /* the top bits depend on all bits of the tag */
}

static bool agree(uint64_t tag, uint64_t source, uint64_t wanted, uint64_t ignore, uint64_t from)
{
	return ((tag ^ wanted) & ~ignore) == 0 && (from == TAG_ANY_SOURCE || from == source);
}

void tag_init(struct tag_unit *u)
{
	for (uint32_t i = 0; i < TAG_MASKS; i++) {
		u->mask[i].ignore = u->mask[i].used = u->mask[i].recvs = 0;
		for (uint32_t b = 0; b < TAG_BUCKETS; b++) {
			list_init(&u->mask[i].recv[b]);
			list_init(&u->mask[i].message[b]);
		}
	}
	list_init(&u->others);
	list_init(&u->messages);
	u->order = 0;
	u->n_recvs = u->n_messages = 0;
}

/* ---- masks --------------------------------------------------------------------------------------------------- */

/** @return index of the mask; TAG_MASKS: not found. */
static uint32_t find_mask(const struct tag_unit *u, uint64_t ignore)
{
	uint32_t i = 0;

	while (i < TAG_MASKS && (!u->mask[i].used || u->mask[i].ignore != ignore))
		i++;
	return i;
}

static void sort_messages(struct tag_unit *u, uint32_t i)
{
	for (struct list *n = u->messages.next; n != &u->messages; n = n->next) {
		struct tag_message *m = list_entry(n, struct tag_message, all);

		list_remove(&m->node[i]);
		list_append(&u->mask[i].message[bucket_of(m->tag, u->mask[i].ignore)], &m->node[i]);
	}
}

/** Find or set up the mask for a receive about to be posted. @return TAG_MASKS: all masks have waiting receives. */
static uint32_t take_mask(struct tag_unit *u, uint64_t ignore)
{
	uint32_t found = find_mask(u, ignore);

	if (found < TAG_MASKS)
		return found;
	for (uint32_t i = 0; i < TAG_MASKS; i++)
		if (u->mask[i].recvs == 0 && (found == TAG_MASKS || u->mask[i].used < u->mask[found].used))
			found = i;
	if (found < TAG_MASKS) {
		u->mask[found].ignore = ignore;
		sort_messages(u, found);
	}
	return found;
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

/** First match in a list linked by node[i], or by `all` if i is TAG_MASKS. */
static struct tag_message *first_message(const struct list *head, uint32_t i, uint64_t tag, uint64_t ignore,
					 uint64_t source)
{
	for (struct list *n = head->next; n != head; n = n->next) {
		struct tag_message *m = i < TAG_MASKS ? list_entry(n - i, struct tag_message, node[0])
						      : list_entry(n, struct tag_message, all);

		if (agree(m->tag, m->source, tag, ignore, source))
			return m;
	}
	return NULL;
}

struct tag_message *tag_peek(const struct tag_unit *u, uint64_t tag, uint64_t ignore, uint64_t source)
{
	uint32_t i = find_mask(u, ignore);

	if (i < TAG_MASKS)
		return first_message(&u->mask[i].message[bucket_of(tag, ignore)], i, tag, ignore, source);
	return first_message(&u->messages, i, tag, ignore, source);
}

void tag_hold(struct tag_unit *u, struct tag_message *m)
{
	list_append(&u->messages, &m->all);
	for (uint32_t i = 0; i < TAG_MASKS; i++) {
		list_init(&m->node[i]);
		if (u->mask[i].used)
			list_append(&u->mask[i].message[bucket_of(m->tag, u->mask[i].ignore)], &m->node[i]);
	}
	u->n_messages++;
}

void tag_take(struct tag_unit *u, struct tag_message *m)
{
	list_remove(&m->all);
	for (uint32_t i = 0; i < TAG_MASKS; i++)
		list_remove(&m->node[i]);
	u->n_messages--;
}

/* ---- receives ------------------------------------------------------------------------------------------------ */

struct tag_message *tag_post(struct tag_unit *u, struct tag_recv *r)
{
	uint32_t i = take_mask(u, r->ignore);
	struct tag_message *m;

	r->order = ++u->order;
	r->mask = i;
	if (i < TAG_MASKS)
		u->mask[i].used = u->order;
	m = tag_peek(u, r->tag, r->ignore, r->source);
	if (m) {
		tag_take(u, m);
		return m;
	}
	if (i < TAG_MASKS) {
		u->mask[i].recvs++;
		list_append(&u->mask[i].recv[bucket_of(r->tag, r->ignore)], &r->node);
	} else {
		list_append(&u->others, &r->node);
	}
	u->n_recvs++;
	return NULL;
}

void tag_cancel(struct tag_unit *u, struct tag_recv *r)
{
	list_remove(&r->node);
	if (r->mask < TAG_MASKS)
		u->mask[r->mask].recvs--;
	u->n_recvs--;
}

/** Find a list's first receive that was posted after receive number `order` and matches the message.
 * @param than the match found in other lists so far, or NULL.
 * @return that receive or `than`, whichever was posted earlier; NULL: neither exists. */
static struct tag_recv *earlier(struct list *head, uint64_t tag, uint64_t source, uint64_t order, struct tag_recv *than)
{
	for (struct list *n = head->next; n != head; n = n->next) {
		struct tag_recv *r = list_entry(n, struct tag_recv, node);

		if (than && than->order < r->order)
			return than;
		if (r->order > order && agree(tag, source, r->tag, r->ignore, r->source))
			return r;
	}
	return than;
}

struct tag_recv *tag_find_after(struct tag_unit *u, uint64_t tag, uint64_t source, const struct tag_recv *after)
{
	uint64_t order = after ? after->order : 0;
	struct tag_recv *r = NULL;

	for (uint32_t i = 0; i < TAG_MASKS; i++)
		if (u->mask[i].recvs)
			r = earlier(&u->mask[i].recv[bucket_of(tag, u->mask[i].ignore)], tag, source, order, r);
	return earlier(&u->others, tag, source, order, r);
}

struct tag_recv *tag_find(struct tag_unit *u, uint64_t tag, uint64_t source)
{
	return tag_find_after(u, tag, source, NULL);
}

struct tag_recv *tag_arrive(struct tag_unit *u, uint64_t tag, uint64_t source)
{
	struct tag_recv *r = tag_find(u, tag, source);

	if (r && !r->stays)
		tag_cancel(u, r);
	return r;
}
