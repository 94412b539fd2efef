/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - a single-producer, single-consumer ring of packets in memory that two processes share (pmd-internal).
 *
 * The memory is a memfd, made and filled by the producer, sealed so that it can neither shrink nor grow. First a page of
 * control, then RING_BYTES of data. Positions are free-running byte counts; an entry lies at position % RING_BYTES.
 *
 *   control:  0     head (8 bytes): written by the consumer for every burst, read by the producer when it needs room
 *             64    asleep (4 bytes): seldom written, read by the producer after every burst
 *             68    welcome (4 bytes): likewise; whether entries may refer to the producer's memory
 *             128   number (8 bytes): written by the producer before it hands the ring over; see links_refer.c
 *             136   claim (4 bytes): see (C)
 *   entry:    0     word: 0 = not there yet; else the packet's length, or RING_SKIP
 *             4     kind, the users' own; the producer may change it while the entry is there
 *             8     the packet
 *             entries start at multiples of 64 and never wrap: RING_SKIP says that the next one is at the start
 *
 * The entry's own word says that it is there, so a consumer that polls gets word and packet with one cache line. Before
 * the producer publishes an entry it clears the word of the next, so that what lay there on the last lap is no entry.
 *
 * Memory orders, in pairs:
 *   (E) entry word:  producer release-stores it after the packet  | consumer acquire-loads it before the packet
 *   (H) head:        consumer release-stores it after its copies  | producer acquire-loads it before it reuses room
 *   (R) kind:        producer changes it, fence, before its program writes to memory that the entry refers to | consumer
 *                    reads that memory, fence, loads the kind again
 *   (S) sleep:       consumer stores asleep, fence, looks at the ring again  | producer publishes, fence, loads asleep
 *   (C) claim:       the first to change it has decided: consumer takes the ring | producer withdraws it
 *
 * A ring that has been empty for long gives its memory back (ring_trim): zeroes are no entries.
 *
 * Neither side trusts the other: the consumer checks every word that it reads, once, and gives up a ring that makes no
 * sense; the producer checks head. What the other side does to the bytes of a packet meanwhile is the reader's business:
 * headers have to be copied before they are looked at.
 */
#ifndef PMD_RING_H
#define PMD_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "points.h"

#define RING_BYTES	262144u
#define RING_CONTROL	4096u
#define RING_MAP_BYTES	(RING_CONTROL + RING_BYTES)
#define RING_LINE	64u
#define RING_WORD	8u    /* bytes of an entry before the packet */
#define RING_PACKET_MAX 4288u /* more than NIC_FRAME_MAX */
#define RING_SKIP	0xffffffffu
#define RING_ENTRY_MAX	(((RING_WORD + RING_PACKET_MAX) + RING_LINE - 1) & ~(RING_LINE - 1))

/** Control lines in shared memory: two of the consumer's, one of the producer's. */
struct ring_control {
	uint64_t head;
	uint64_t unused[RING_LINE / sizeof(uint64_t) - 1];
	uint32_t asleep, welcome;
	uint64_t unused_too[RING_LINE / sizeof(uint64_t) - 1];
	uint64_t number;
	uint32_t claim; /* enum ring_claim */
};

/** Whether the ring that was handed over is used. */
enum ring_claim { RING_OFFERED, RING_CLAIMED, RING_WITHDRAWN };

/** What a producer knows; private to its process. */
struct ring_producer {
	uint8_t *memory;
	uint64_t tail;
	uint64_t head;	  /* as last seen */
	uint64_t trimmed; /* tail when the memory was last given back */
};

/** What a consumer knows; private to its process. */
struct ring_consumer {
	uint8_t *memory;
	uint64_t head;
	uint64_t said; /* head as last published */
};

/** Make a ring. @return its sealed memfd, close-on-exec, -EFBIG: the program's limit on the size of files does not allow it, or another
 *  negative errno. */
int ring_create(struct ring_producer *p);
/** Map a ring that somebody else made. @return 0, -EPERM: it can still change its size, -EINVAL: not of this size, or
 *  another negative errno. The descriptor stays the caller's. */
int ring_map(struct ring_consumer *c, int fd);
void ring_unmap(uint8_t *memory);
/** Give the memory back that packets have passed through, if the consumer is done with all of them. The producer's call. */
void ring_trim(struct ring_producer *p);
/** Give the memory of all packets back. The ring has been withdrawn, or has no consumer. */
void ring_empty(uint8_t *memory);

static inline struct ring_control *ring_control(uint8_t *memory)
{
	return (struct ring_control *)(void *)memory;
}

static inline uint32_t *ring_word(uint8_t *memory, uint64_t position)
{
	return (uint32_t *)(void *)(memory + RING_CONTROL + position % RING_BYTES);
}

/** Bytes of the entry of a packet. */
static inline uint32_t ring_entry_bytes(uint32_t len)
{
	return (RING_WORD + len + RING_LINE - 1) & ~(RING_LINE - 1);
}

/** (C). @return whether it was still open, and is so now. */
static inline bool ring_decide(uint8_t *memory, enum ring_claim claim)
{
	uint32_t offered = RING_OFFERED;

	return __atomic_compare_exchange_n(&ring_control(memory)->claim, &offered, claim, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ---- producer --------------------------------------------------------------------------------------------- */

/** The consumer must not take the ring any more: what is in it goes another way. @return false: it has taken it. */
static inline bool ring_withdraw(struct ring_producer *p)
{
	return ring_decide(p->memory, RING_WITHDRAWN);
}

/** Whether `bytes` more fit. @return 1, 0, -EPROTO: the consumer has written nonsense. */
static inline int ring_has_room(struct ring_producer *p, uint32_t bytes)
{
	uint64_t head;

	if (p->tail + bytes - p->head <= RING_BYTES)
		return 1;
	head = __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_ACQUIRE); /* (H) */
	if (p->tail - head > RING_BYTES)
		return -EPROTO;
	p->head = head;
	return p->tail + bytes - p->head <= RING_BYTES;
}

/** How far the consumer says that it is; room is what ring_has_room says. */
static inline uint64_t ring_head_seen(const struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_RELAXED);
}

/** Whether the consumer is done with all packets. */
static inline bool ring_is_empty(struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_ACQUIRE) == p->tail; /* (H) */
}

/**
 * A line that is written soon, so many bytes from the tail: the consumer's CPU has it from the last lap, and fetching it takes
 * longer than building a small packet. Every x86-64 CPU takes the instruction, but compilers only when told of the CPU.
 */
static inline void ring_will_write(struct ring_producer *p, uint32_t ahead)
{
	const uint32_t *line = ring_word(p->memory, p->tail + ahead);

#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" ::"m"(*line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline void ring_publish(struct ring_producer *p, uint32_t word, uint32_t bytes)
{
	*ring_word(p->memory, p->tail + bytes) = 0;
	PMD_POINT(ring_cleared);
	__atomic_store_n(ring_word(p->memory, p->tail), word, __ATOMIC_RELEASE); /* (E) */
	p->tail += bytes;
	ring_will_write(p, RING_LINE);
	ring_will_write(p, 2 * RING_LINE);
	PMD_POINT(ring_published);
}

/**
 * Room for a packet of up to RING_PACKET_MAX bytes. Without a commit nothing has happened.
 * @return 1 and the place, 0: the ring is full, -EPROTO: the consumer has written nonsense.
 */
static inline int ring_reserve(struct ring_producer *p, uint8_t **place)
{
	uint32_t to_end = RING_BYTES - (uint32_t)(p->tail % RING_BYTES);
	int room;

	/* The word after the entry is cleared, so its line must be free too. */
	if (to_end < RING_ENTRY_MAX) {
		room = ring_has_room(p, to_end + RING_LINE);
		if (room != 1)
			return room;
		ring_publish(p, RING_SKIP, to_end);
		PMD_POINT(ring_skipped);
	}
	room = ring_has_room(p, RING_ENTRY_MAX + RING_LINE);
	if (room == 1) {
		*place = (uint8_t *)ring_word(p->memory, p->tail) + RING_WORD;
		PMD_POINT(ring_reserved);
	}
	return room;
}

/** The packet of `len` bytes, at least 1, in the place reserved last is complete. */
static inline void ring_commit(struct ring_producer *p, uint32_t len, uint32_t kind)
{
	PMD_POINT(ring_written);
	ring_word(p->memory, p->tail)[1] = kind;
	ring_publish(p, len, ring_entry_bytes(len));
}

/** After commits: whether the consumer sleeps and has to be woken. Says so once a sleep. */
static inline bool ring_must_wake(struct ring_producer *p)
{
	uint32_t *asleep = &ring_control(p->memory)->asleep;

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) */
	PMD_POINT(ring_fenced);
	if (!__atomic_load_n(asleep, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(asleep, 0, __ATOMIC_RELAXED);
	PMD_POINT(ring_wake_taken);
	return true;
}

/** Whether entries may refer to memory of this process. */
static inline bool ring_is_welcome(const struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->welcome, __ATOMIC_RELAXED) != 0;
}

/** Change the kind of the entry at this position, which is there as long as the consumer has not said that it is done with it. Who
 *  is reading what it refers to will know when he has done so. */
static inline void ring_change_kind(struct ring_producer *p, uint64_t position, uint32_t kind)
{
	__atomic_store_n(ring_word(p->memory, position) + 1, kind, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (R) */
}

/* ---- consumer --------------------------------------------------------------------------------------------- */

/** Take the ring; before anything in it is looked at. @return false: its producer has withdrawn it. */
static inline bool ring_take(struct ring_consumer *c)
{
	return ring_decide(c->memory, RING_CLAIMED);
}

/** Whether something lies in the ring; no promise that it makes sense. */
static inline bool ring_has_entry(const struct ring_consumer *c)
{
	return __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_RELAXED) != 0;
}

/**
 * The oldest packet, which stays where it is.
 * @return its length (1 .. RING_PACKET_MAX), 0: none, -EPROTO: the producer has written nonsense.
 */
static inline int ring_peek(struct ring_consumer *c, const uint8_t **packet, uint32_t *kind)
{
	uint32_t word = __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_ACQUIRE); /* (E) */
	uint32_t to_end = RING_BYTES - (uint32_t)(c->head % RING_BYTES);

	if (word == RING_SKIP && to_end < RING_ENTRY_MAX) {
		c->head += to_end;
		to_end = RING_BYTES;
		word = __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_ACQUIRE); /* (E) */
	}
	if (word == 0)
		return 0;
	if (word > RING_PACKET_MAX || to_end < RING_ENTRY_MAX)
		return -EPROTO;
	*kind = __atomic_load_n(ring_word(c->memory, c->head) + 1, __ATOMIC_RELAXED);
	*packet = (const uint8_t *)ring_word(c->memory, c->head) + RING_WORD;
	PMD_POINT(ring_peeked);
	return (int)word;
}

/** What is behind the packet of `len` bytes that ring_peek showed comes from the producer's CPU meanwhile, if it is there. */
static inline void ring_will_peek(const struct ring_consumer *c, uint32_t len)
{
	__builtin_prefetch(ring_word(c->memory, c->head + ring_entry_bytes(len)));
}

/** The packet of `len` bytes that ring_peek showed is done with. */
static inline void ring_pop(struct ring_consumer *c, uint32_t len)
{
	c->head += ring_entry_bytes(len);
	PMD_POINT(ring_popped);
}

/** Tell the producer what is free; after a burst. */
static inline void ring_say_head(struct ring_consumer *c)
{
	if (c->said == c->head)
		return;
	c->said = c->head;
	__atomic_store_n(&ring_control(c->memory)->head, c->head, __ATOMIC_RELEASE); /* (H) */
	PMD_POINT(ring_head_said);
}

/** The kind that the entry which ring_peek showed has now, after all that has been read before. */
static inline uint32_t ring_kind_now(const struct ring_consumer *c)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* (R) */
	return __atomic_load_n(ring_word(c->memory, c->head) + 1, __ATOMIC_RELAXED);
}

/** Tell the producer whether its entries may refer to its memory. */
static inline void ring_set_welcome(struct ring_consumer *c, bool welcome)
{
	__atomic_store_n(&ring_control(c->memory)->welcome, welcome, __ATOMIC_RELAXED);
}

/** The consumer is about to sleep (then a fence and a last look have to follow) or is awake. */
static inline void ring_set_asleep(struct ring_consumer *c, bool asleep)
{
	__atomic_store_n(&ring_control(c->memory)->asleep, asleep, __ATOMIC_RELAXED);
}

#endif
