/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_touch.c - see ring_touch.h. With -fsanitize-coverage=trace-loads clang calls a function before each load.
 * AddressSanitizer replaces memcpy by a function of its own, which the linker redirects to this file.
 *
 * Owns: the list of watched rings, and the changes that will be made.
 */
#include <stddef.h>
#include <string.h>

#include "links_priv.h"
#include "ring_enemy.h"
#include "ring_touch.h"

#define RINGS_MAX 16
#define ONCE_FROM 4u  /* first byte of an entry that may be read only once: its kind */
#define ONCE_TO	  48u /* one past the last such byte: the end of a BTH that follows IPv4 and UDP headers */
#define KIND_READ 0x10u

/* For functions that must not be traced themselves; unused in builds without tracing. */
#ifdef __clang__
#define UNTRACED __attribute__((unused, no_sanitize("coverage")))
#else
#define UNTRACED __attribute__((unused))
#endif

/** A ring at the address where the victim has mapped it. */
struct touched_ring {
	uint8_t *memory;
	const struct ring_consumer *consumer; /* NULL: the victim is the producer */
	uint64_t head, read;		      /* position of the entry being read; bitmap of its bytes read so far */
};

struct change {
	uint8_t after; /* number of reads before the change is made */
	uint8_t place, value, more;
};

static struct {
	bool on;
	unsigned n_rings, n_changes, next;
	struct touched_ring rings[RINGS_MAX];
	struct change changes[4];
} touch;

/* ---- a change ------------------------------------------------------------------------------------------------ */

/** The offset to change: at or just after the bytes about to be read, in an earlier or later entry, or in the
 * control page. */
UNTRACED static uint32_t change_place(const struct change *c, uint32_t at)
{
	const uint32_t lines = RING_BYTES / RING_LINE;

	switch (c->place >> 6) {
	case 0:
		return at & ~3u;
	case 1:
		return at + (c->place & 63);
	case 2:
		if (at < RING_CONTROL)
			return RING_CONTROL;
		return RING_CONTROL +
		       ((at - RING_CONTROL) / RING_LINE + lines - 32 + (c->place & 63)) % lines * RING_LINE;
	default:
		return c->place & 1 ? offsetof(struct ring_control, head) : offsetof(struct ring_control, asleep);
	}
}

UNTRACED static void change_now(uint8_t *memory, const struct change *c, uint32_t touched)
{
	uint32_t at = change_place(c, touched), value = enemy_word(c->value, c->more);

	if (at > RING_MAP_BYTES - 4)
		at = RING_MAP_BYTES - 4;
	if (c->place >> 6 == 1) {
		memory[at] = c->more;
		return;
	}
	if (c->value >= 0xe0) { /* near the current value */
		uint32_t old;

		__builtin_memcpy(&old, memory + at, 4);
		value = old + (uint32_t)(int32_t)(int8_t)c->more * RING_LINE;
	}
	__builtin_memcpy(memory + at, &value, 4);
}

/* ---- touches ------------------------------------------------------------------------------------------------- */

/** Check that no byte of an entry is read twice, and that the entry's first word is not read after its kind: the
 * other side could change them between the reads. */
UNTRACED static void once(struct touched_ring *r, uint32_t at, size_t len)
{
	uint64_t head = r->consumer->head, bits;
	uint32_t entry = RING_CONTROL + (uint32_t)(head % RING_BYTES), from, to;

	if (r->head != head) {
		r->head = head;
		r->read = 0;
	}
	expect(at >= entry + ONCE_FROM || at + len <= entry || !(r->read & KIND_READ));
	if (at + len <= entry + ONCE_FROM || at >= entry + ONCE_TO)
		return;
	from = at > entry + ONCE_FROM ? at - entry : ONCE_FROM;
	to = at + len < entry + ONCE_TO ? (uint32_t)(at + len - entry) : ONCE_TO;
	bits = ((1ull << (to - from)) - 1) << from;
	expect((r->read & bits) == 0);
	r->read |= bits;
}

UNTRACED static void touched(struct touched_ring *r, uint32_t at, size_t len)
{
	struct change *c = &touch.changes[touch.next];

	if (r->consumer)
		once(r, at, len);
	if (touch.next == touch.n_changes)
		return;
	if (c->after > 0) {
		c->after--;
		return;
	}
	change_now(r->memory, c, at);
	touch.next++;
}

UNTRACED static void look(const void *at, size_t len)
{
	if (!touch.on)
		return;
	for (unsigned i = 0; i < touch.n_rings; i++) {
		uintptr_t offset = (uintptr_t)at - (uintptr_t)touch.rings[i].memory;

		if (offset >= RING_MAP_BYTES)
			continue;
		touch.on = false;
		touched(&touch.rings[i], (uint32_t)offset, len);
		touch.on = true;
		return;
	}
}

#ifdef RING_TRACED
void __sanitizer_cov_load1(uint8_t *at);
void __sanitizer_cov_load2(uint16_t *at);
void __sanitizer_cov_load4(uint32_t *at);
void __sanitizer_cov_load8(uint64_t *at);
void __sanitizer_cov_load16(__int128 *at);
void *__real___asan_memcpy(void *to, const void *from, size_t len);
void *__wrap___asan_memcpy(void *to, const void *from, size_t len);

UNTRACED void __sanitizer_cov_load1(uint8_t *at)
{
	look(at, 1);
}

UNTRACED void __sanitizer_cov_load2(uint16_t *at)
{
	look(at, 2);
}

UNTRACED void __sanitizer_cov_load4(uint32_t *at)
{
	look(at, 4);
}

UNTRACED void __sanitizer_cov_load8(uint64_t *at)
{
	look(at, 8);
}

UNTRACED void __sanitizer_cov_load16(__int128 *at)
{
	look(at, 16);
}

UNTRACED void *__wrap___asan_memcpy(void *to, const void *from, size_t len)
{
	look(from, len);
	return __real___asan_memcpy(to, from, len);
}
#endif

/* ---- watched rings ------------------------------------------------------------------------------------------- */

static void watch(uint8_t *memory, const struct ring_consumer *consumer)
{
	if (touch.n_rings < RINGS_MAX)
		touch.rings[touch.n_rings++] = (struct touched_ring){.memory = memory, .consumer = consumer};
}

void touch_begin(const struct pmd_links *l, unsigned changes)
{
	touch.n_rings = touch.next = 0;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i] && l->in[i]->peer.function == ENEMY)
			watch(l->in[i]->ring.memory, &l->in[i]->ring);
	for (uint32_t path = 1; l->n_out > 0 && path < NIC_PATHS_MAX; path++)
		if (l->out[path] && l->out[path]->target == ENEMY)
			watch(l->out[path]->ring.memory, NULL);
	for (touch.n_changes = 0; touch.n_changes < changes; touch.n_changes++) {
		struct change *c = &touch.changes[touch.n_changes];

		c->after = ring_byte();
		c->after = c->after < 0xc0 ? c->after % 8 : c->after - 0xc0; /* mostly a small number */
		c->place = ring_byte();
		c->value = ring_byte();
		c->more = ring_byte();
	}
	touch.on = true;
}

void touch_end(void)
{
	touch.on = false;
}

void touch_forget(const uint8_t *memory)
{
	for (unsigned i = 0; i < touch.n_rings; i++)
		if (touch.rings[i].memory == memory)
			touch.rings[i] = touch.rings[--touch.n_rings];
}
