/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - a single-producer, single-consumer ring of packets in memory that two processes share (pmd-internal).
 *
 * The memory is a memfd, created by the producer, and sealed so that it can neither shrink nor grow: a control page,
 * then RING_BYTES of data, which the producer writes. Positions are byte counts that never wrap; an entry is stored at
 * position % RING_BYTES.
 *
 *   control:  0     head (8 bytes): written by the consumer for every burst, read by the producer when it needs room
 *             64    asleep (4 bytes): seldom written, read by the producer after every burst
 *             68    welcome (4 bytes): seldom written by the consumer; may entries refer to the producer's memory?
 *             128   number (8 bytes): written by the producer before it hands the ring over; see links_refer.c
 *             136   claim (4 bytes): see (C)
 *   entry:    0     word: 0 = not there yet; else the packet's length, or RING_SKIP
 *             4     kind, opaque to the ring; the producer may change it while the entry is there
 *             8     the packet
 *             entries start at multiples of 64 and never wrap: RING_SKIP says that the next entry is at the start
 *
 * The first word of an entry says that the entry is there, so a polling consumer gets the word and the packet with one
 * cache line. Before the producer publishes an entry it clears the first word of the next entry, so that bytes from the
 * previous lap are not mistaken for an entry.
 *
 * Memory orders, in pairs:
 *   (E) entry word:  producer release-stores it after the packet  | consumer acquire-loads it before the packet
 *   (H) head:        consumer release-stores it after its copies  | producer acquire-loads it before it reuses room
 *   (R) kind:        producer changes it, fence, before its program writes to memory that the entry refers to
 *                    | consumer reads that memory, fence, loads the kind again
 *   (S) sleep:       consumer stores asleep, fence, looks at the ring again  | producer publishes, fence, loads asleep
 *   (C) claim:       only the first change counts: consumer takes the ring | producer withdraws the ring
 *
 * If a ring has been empty for long, its memory is freed (ring_trim): it then reads as zeroes, which mean no entry.
 *
 * Neither side trusts the other: the consumer loads every word once, checks it, and gives up a malformed ring; the
 * producer checks head. The other side may change the bytes of a packet at any time: the reader has to copy headers
 * before it looks at them.
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
#define RING_PACKET_MAX 4288u /* larger than NIC_FRAME_MAX */
#define RING_SKIP	0xffffffffu
#define RING_ENTRY_MAX	(((RING_WORD + RING_PACKET_MAX) + RING_LINE - 1) & ~(RING_LINE - 1))

/** The control page in shared memory: two cache lines that mostly the consumer writes, then one that is seldom
 *  written. */
struct ring_control {
	uint64_t head;
	uint64_t unused[RING_LINE / sizeof(uint64_t) - 1];
	uint32_t asleep, welcome;
	uint64_t unused_too[RING_LINE / sizeof(uint64_t) - 1];
	uint64_t number;
	uint32_t claim; /* enum ring_claim */
};

/** State of a ring that was handed over: whether the consumer has claimed it, or the producer has withdrawn it. */
enum ring_claim { RING_OFFERED, RING_CLAIMED, RING_WITHDRAWN };

/** A producer's state; private to its process. */
struct ring_producer {
	uint8_t *memory;
	uint64_t tail;
	uint64_t head;	  /* the consumer's head as last read */
	uint64_t trimmed; /* tail at the last ring_trim */
};

/** A consumer's state; private to its process. */
struct ring_consumer {
	uint8_t *memory;
	uint64_t head;
	uint64_t said; /* head as last published to the producer */
};

/** Make a ring. @return its sealed memfd, close-on-exec; -EFBIG: above the program's file size limit, or another
 *  negative errno. */
int ring_create(struct ring_producer *p);
/** Map a ring that another process made. The descriptor still belongs to the caller. @return 0, -EPERM: not sealed
 *  against a change of size, -EINVAL: wrong size, or another negative errno. */
int ring_map(struct ring_consumer *c, int fd);
void ring_unmap(uint8_t *memory);
/** Free the memory of consumed packets, if the consumer has consumed all of them. Called by the producer. */
void ring_trim(struct ring_producer *p);
/** Free the memory of all packets of a ring that was withdrawn or has no consumer. */
void ring_empty(uint8_t *memory);

static inline struct ring_control *ring_control(uint8_t *memory)
{
	return (struct ring_control *)(void *)memory;
}

static inline uint32_t *ring_word(uint8_t *memory, uint64_t position)
{
	return (uint32_t *)(void *)(memory + RING_CONTROL + position % RING_BYTES);
}

/** Size in bytes of the entry of a packet of `len` bytes. */
static inline uint32_t ring_entry_bytes(uint32_t len)
{
	return (RING_WORD + len + RING_LINE - 1) & ~(RING_LINE - 1);
}

/** Change the ring's claim from RING_OFFERED to `claim`: (C) at the top. @return false: it was not RING_OFFERED. */
static inline bool ring_decide(uint8_t *memory, enum ring_claim claim)
{
	uint32_t offered = RING_OFFERED;

	return __atomic_compare_exchange_n(&ring_control(memory)->claim, &offered, claim, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ---- producer --------------------------------------------------------------------------------------------- */

/** Withdraw the ring, so that the consumer can no longer take it. @return false: the consumer has already taken it. */
static inline bool ring_withdraw(struct ring_producer *p)
{
	return ring_decide(p->memory, RING_WITHDRAWN);
}

/** Whether there is room for `bytes` more. @return 1: yes; 0: no; -EPROTO: the consumer has written an invalid head. */
static inline int ring_has_room(struct ring_producer *p, uint32_t bytes)
{
	uint64_t head;

	if (p->tail + bytes - p->head <= RING_BYTES)
		return 1;
	head = __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_ACQUIRE); /* (H) at the top */
	if (p->tail - head > RING_BYTES)
		return -EPROTO;
	p->head = head;
	return p->tail + bytes - p->head <= RING_BYTES;
}

/** The head that the consumer has published, unchecked; use ring_has_room for room. */
static inline uint64_t ring_head_seen(const struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_RELAXED);
}

/** Whether the consumer has consumed all packets. */
static inline bool ring_is_empty(struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->head, __ATOMIC_ACQUIRE) == p->tail; /* (H) at the top */
}

/**
 * Prefetch the line `ahead` bytes after the tail, to write it later: the consumer's CPU still holds that line from the
 * last lap, and fetching it takes longer than building a small packet. Inline assembly, because every x86-64 CPU
 * accepts the instruction, but compilers emit it only for CPU models that they know to have it.
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
	__atomic_store_n(ring_word(p->memory, p->tail), word, __ATOMIC_RELEASE); /* (E) at the top */
	p->tail += bytes;
	ring_will_write(p, RING_LINE);
	ring_will_write(p, 2 * RING_LINE);
	PMD_POINT(ring_published);
}

/**
 * Reserve room for a packet of up to RING_PACKET_MAX bytes. The consumer does not see the packet before ring_commit.
 * @return 1 and the place; 0: the ring is full; -EPROTO: the consumer has written an invalid head.
 */
static inline int ring_reserve(struct ring_producer *p, uint8_t **place)
{
	uint32_t to_end = RING_BYTES - (uint32_t)(p->tail % RING_BYTES);
	int room;

	/* The word after the entry will be cleared, so the cache line of that word must be free too. */
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

/** Publish the packet of `len` bytes, at least 1, in the place that was last reserved. */
static inline void ring_commit(struct ring_producer *p, uint32_t len, uint32_t kind)
{
	PMD_POINT(ring_written);
	ring_word(p->memory, p->tail)[1] = kind;
	ring_publish(p, len, ring_entry_bytes(len));
}

/** Call after commits. @return whether the consumer sleeps and has to be woken; true only once per sleep. */
static inline bool ring_must_wake(struct ring_producer *p)
{
	uint32_t *asleep = &ring_control(p->memory)->asleep;

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) at the top */
	PMD_POINT(ring_fenced);
	if (!__atomic_load_n(asleep, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(asleep, 0, __ATOMIC_RELAXED);
	PMD_POINT(ring_wake_taken);
	return true;
}

/** Whether the consumer allows entries that refer to memory of this process. */
static inline bool ring_is_welcome(const struct ring_producer *p)
{
	return __atomic_load_n(&ring_control(p->memory)->welcome, __ATOMIC_RELAXED) != 0;
}

/** Change the kind of the entry at this position. The consumer must not have released the entry. If the consumer is
 *  reading the memory that the entry refers to, it sees the change after the read. */
static inline void ring_change_kind(struct ring_producer *p, uint64_t position, uint32_t kind)
{
	__atomic_store_n(ring_word(p->memory, position) + 1, kind, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (R) at the top */
}

/* ---- consumer --------------------------------------------------------------------------------------------- */

/** Take the ring; call before looking at its entries. @return false: its producer has withdrawn it. */
static inline bool ring_take(struct ring_consumer *c)
{
	return ring_decide(c->memory, RING_CLAIMED);
}

/** Whether the ring has an entry, valid or not. */
static inline bool ring_has_entry(const struct ring_consumer *c)
{
	return __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_RELAXED) != 0;
}

/**
 * Get the oldest packet, and leave it in the ring.
 * @return its length (1 .. RING_PACKET_MAX); 0: there is none; -EPROTO: the producer has written an invalid word.
 */
static inline int ring_peek(struct ring_consumer *c, const uint8_t **packet, uint32_t *kind)
{
	uint32_t word = __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_ACQUIRE); /* (E) at the top */
	uint32_t to_end = RING_BYTES - (uint32_t)(c->head % RING_BYTES);

	if (word == RING_SKIP && to_end < RING_ENTRY_MAX) {
		c->head += to_end;
		to_end = RING_BYTES;
		word = __atomic_load_n(ring_word(c->memory, c->head), __ATOMIC_ACQUIRE); /* (E) at the top */
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

/** Prefetch the entry after the packet of `len` bytes that ring_peek returned. */
static inline void ring_will_peek(const struct ring_consumer *c, uint32_t len)
{
	__builtin_prefetch(ring_word(c->memory, c->head + ring_entry_bytes(len)));
}

/** Remove the packet of `len` bytes that ring_peek returned. */
static inline void ring_pop(struct ring_consumer *c, uint32_t len)
{
	c->head += ring_entry_bytes(len);
	PMD_POINT(ring_popped);
}

/** Publish head, so that the producer sees how much room is free. Called after a burst. */
static inline void ring_say_head(struct ring_consumer *c)
{
	if (c->said == c->head)
		return;
	c->said = c->head;
	__atomic_store_n(&ring_control(c->memory)->head, c->head, __ATOMIC_RELEASE); /* (H) at the top */
	PMD_POINT(ring_head_said);
}

/** Read the kind of the entry at head again, after all earlier reads. */
static inline uint32_t ring_kind_now(const struct ring_consumer *c)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* (R) at the top */
	return __atomic_load_n(ring_word(c->memory, c->head) + 1, __ATOMIC_RELAXED);
}

/** Tell the producer whether entries may refer to the producer's memory. */
static inline void ring_set_welcome(struct ring_consumer *c, bool welcome)
{
	__atomic_store_n(&ring_control(c->memory)->welcome, welcome, __ATOMIC_RELAXED);
}

/** Tell the producer whether it has to wake the consumer. Before the consumer sleeps, it must issue a fence and look at
 *  the ring once more. */
static inline void ring_set_asleep(struct ring_consumer *c, bool asleep)
{
	__atomic_store_n(&ring_control(c->memory)->asleep, asleep, __ATOMIC_RELAXED);
}

#endif
