/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.h - the tag unit: matches messages to posted receives (fi_tagged(3), with MPI's ordering).
 *
 * A receive matches a message if their tags agree in all bits that the receive does not ignore, and the message is from
 * the receive's source, if the receive names a source. If several receives match, the receive posted first wins; if
 * several messages match, the message that arrived first wins. The unit knows no buffers: callers embed these structs
 * in their receives and messages.
 */
#ifndef NIC_TAG_H
#define NIC_TAG_H

#include <stdint.h>

#include "list.h"

#define TAG_ANY_SOURCE UINT64_MAX

/* Number of ignore masks that have hash buckets at a time: a lookup searches one bucket per mask. Applications use few
 * masks. */
#define TAG_MASKS	4
#define TAG_BUCKET_BITS 8
#define TAG_BUCKETS	(1u << TAG_BUCKET_BITS)

/** A posted receive. The caller owns its memory, which must not move until the receive is cancelled or, unless it
 * `stays`, matched. */
struct tag_recv {
	uint64_t tag, ignore; /* bits set in ignore may differ */
	uint64_t source;      /* TAG_ANY_SOURCE: from anywhere */
	bool stays;	      /* a matching message leaves the receive posted, for further messages */
	/* The unit's own: */
	struct list node;
	uint64_t order;
	uint32_t mask; /* index of its mask; TAG_MASKS: in `others` */
};

/** An unexpected message. The caller owns its memory, which must not move until the message is taken. */
struct tag_message {
	uint64_t tag, source;
	/* The unit's own: */
	struct list all, node[TAG_MASKS];
};

/** An ignore mask, with the receives that ignore exactly its bits, and with all messages. Receives and messages are
 * hashed by the bits that are not ignored. */
struct tag_mask {
	uint64_t ignore;
	uint64_t used; /* tag_recv.order of the last receive posted with this mask; 0: none yet */
	uint32_t recvs;
	struct list recv[TAG_BUCKETS], message[TAG_BUCKETS];
};

struct tag_unit {
	struct tag_mask mask[TAG_MASKS];
	struct list others;   /* receives that found no mask free, in posting order */
	struct list messages; /* all, in arrival order */
	uint64_t order;	      /* receives posted so far */
	uint32_t n_recvs, n_messages;
};

/** Initialize a unit in the caller's memory (32 KiB). The unit allocates nothing; the caller frees the receives and
 * messages that are in it. */
void tag_init(struct tag_unit *u);

/**
 * Post a receive.
 * @return the message that the receive matches: the unit then holds neither of them. NULL: the receive waits.
 */
struct tag_message *tag_post(struct tag_unit *u, struct tag_recv *r);

/** Find the receive that would take a message. @return NULL: none. */
struct tag_recv *tag_find(struct tag_unit *u, uint64_t tag, uint64_t source);

/** Search as tag_find does, but only among receives posted after `after`; if `after` is NULL, among all receives. */
struct tag_recv *tag_find_after(struct tag_unit *u, uint64_t tag, uint64_t source, const struct tag_recv *after);

/** Match a message that has arrived. @return the receive that takes the message, removed from the unit unless its
 * `stays` is set; NULL: none matches, and the caller can keep the message with tag_hold. */
struct tag_recv *tag_arrive(struct tag_unit *u, uint64_t tag, uint64_t source);

/** Keep an unexpected message. */
void tag_hold(struct tag_unit *u, struct tag_message *m);

/** Find the message that a receive with this tag, mask and source would take now. @return NULL: none. */
struct tag_message *tag_peek(const struct tag_unit *u, uint64_t tag, uint64_t ignore, uint64_t source);

/** Remove an unexpected message without matching it to a receive. */
void tag_take(struct tag_unit *u, struct tag_message *m);

/** Remove a waiting receive. */
void tag_cancel(struct tag_unit *u, struct tag_recv *r);

#endif
