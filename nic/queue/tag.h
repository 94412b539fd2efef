/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.h - the tag unit: which posted receive a message goes to (fi_tagged(3), as MPI wants it).
 *
 * A receive takes a message if their tags agree in all bits that the receive does not ignore, and it is from the source that the
 * receive wants, if it wants one. Of several receives the one posted first takes it, of several messages the one that came first
 * is taken. The unit knows no buffers: receives and messages are structs of others, who embed these.
 */
#ifndef NIC_TAG_H
#define NIC_TAG_H

#include <stdint.h>

#include "list.h"

#define TAG_ANY_SOURCE UINT64_MAX

/* Programs use few masks of bits to ignore. For so many different ones at a time finding is a matter of one hash bucket each. */
#define TAG_MASKS	4
#define TAG_BUCKET_BITS 8
#define TAG_BUCKETS	(1u << TAG_BUCKET_BITS)

/** A posted receive. The poster's memory, which stays where it is until the receive is matched or cancelled. */
struct tag_recv {
	uint64_t tag, ignore; /* bits set in ignore may differ */
	uint64_t source;      /* TAG_ANY_SOURCE: from anywhere */
	bool stays;	      /* a message that it takes leaves it where it is, for others */
	/* The unit's own: */
	struct list node;
	uint64_t order;
	uint32_t mask; /* TAG_MASKS: of none of them */
};

/** A message that no receive was there for. The memory is its holder's, and stays where it is until it is taken. */
struct tag_message {
	uint64_t tag, source;
	/* The unit's own: */
	struct list all, node[TAG_MASKS];
};

/** A mask, with the receives that ignore just its bits, and all messages, by the bits that matter. */
struct tag_mask {
	uint64_t ignore;
	uint64_t used; /* when a receive was last posted with it; 0: never */
	uint32_t recvs;
	struct list recv[TAG_BUCKETS], message[TAG_BUCKETS];
};

struct tag_unit {
	struct tag_mask mask[TAG_MASKS];
	struct list others;   /* receives with other masks, as posted */
	struct list messages; /* all, as they came */
	uint64_t order;	      /* receives posted so far */
	uint32_t n_recvs, n_messages;
};

/** 33 KiB, the caller's; nothing to release but what lies in it. */
void tag_init(struct tag_unit *u);

/**
 * Post a receive.
 * @return the message that it takes, which is out of the unit then, as the receive is; NULL: it waits.
 */
struct tag_message *tag_post(struct tag_unit *u, struct tag_recv *r);

/** The receive that would take a message. @return NULL: none. */
struct tag_recv *tag_find(struct tag_unit *u, uint64_t tag, uint64_t source);

/** Likewise, of those posted after one of them. `after`: NULL: of all. */
struct tag_recv *tag_find_after(struct tag_unit *u, uint64_t tag, uint64_t source, const struct tag_recv *after);

/** A message has come. @return the receive that takes it, out of the unit unless it stays; NULL: none, and the caller may want to
 *  hold the message. */
struct tag_recv *tag_arrive(struct tag_unit *u, uint64_t tag, uint64_t source);

/** Keep a message that no receive was there for. */
void tag_hold(struct tag_unit *u, struct tag_message *m);

/** The message that a receive would take now. @return NULL: none. */
struct tag_message *tag_peek(const struct tag_unit *u, uint64_t tag, uint64_t ignore, uint64_t source);

/** Take a message out, whoever it is for: it has been claimed, or its sender has gone. */
void tag_take(struct tag_unit *u, struct tag_message *m);

/** Take a receive out that waits. */
void tag_cancel(struct tag_unit *u, struct tag_recv *r);

#endif
