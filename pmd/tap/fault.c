/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.c - see fault.h. Commands are in fault_rule.c.
 *
 * A rule's faults are applied to a packet in this order: loss, corruption, duplication, reordering, delay. A reordered
 * packet waits on a list (waiting) until `gap` other packets have passed it, or for PMD_FAULT_WAIT_NS, and then moves
 * to the delay line, which is sorted by due time. Owns: the copies of packets on the list and in the delay line, and
 * the copy that the NIC is processing.
 *
 * Does not depend on the engine or the clock: paths are just numbers here, and the caller supplies the time.
 */
#include <stdlib.h>
#include <string.h>

#include "fault_priv.h"

#define BTH_ECN	    4 /* offset of the BTH's only byte that the ICRC does not cover */
#define CARRIER_MAX 48

/* ---- packets that are held ----------------------------------------------------------------------------------- */

static void held_free(struct pmd_fault *f, struct fault_held *h)
{
	if (!h)
		return;
	f->held--;
	f->held_bytes -= h->size;
	free(h);
}

static struct fault_held *held_alloc(struct pmd_fault *f, unsigned path, uint32_t size)
{
	struct fault_held *h = NULL;

	if (f->held < PMD_FAULT_HELD && f->held_bytes + size <= PMD_FAULT_BYTES)
		h = malloc(sizeof(*h) + size);
	if (!h) {
		f->stats.fault_queue_full++;
		return NULL;
	}
	f->held++;
	f->held_bytes += size;
	h->next = NULL;
	h->size = size;
	h->path = path;
	return h;
}

static struct fault_held *held_tx(struct pmd_fault *f, unsigned path, const struct nic_tx_frame *frame)
{
	struct fault_held *h = held_alloc(f, path, frame->len);

	if (h) {
		h->tx = *frame;
		memcpy(h->data, frame->data, frame->len);
	}
	return h;
}

static struct fault_held *held_rx(struct pmd_fault *f, unsigned path, const struct nic_rx_frame *frame)
{
	struct fault_held *h = held_alloc(f, path, frame->len);

	if (h) {
		h->rx = *frame;
		h->rx.data = h->data;
		h->rx.body = NULL;
		nic_frame_copy(frame, h->data);
	}
	return h;
}

/** Insert a packet into the delay line. Most packets are appended. */
static void line_enter(struct fault_stage *s, struct fault_held *h)
{
	struct fault_held **at = &s->line;

	if (s->line && s->line_last->due_ns <= h->due_ns)
		at = &s->line_last->next;
	while (*at && (*at)->due_ns <= h->due_ns)
		at = &(*at)->next;
	h->next = *at;
	*at = h;
	if (!h->next)
		s->line_last = h;
}

/** Take the first due packet for this path (PATH_ANY: any path) out of the delay line. */
static struct fault_held *line_take(struct fault_stage *s, unsigned path, uint64_t now_ns)
{
	struct fault_held *before = NULL;

	for (struct fault_held *h = s->line; h && h->due_ns <= now_ns; before = h, h = h->next) {
		if (path != PATH_ANY && h->path != path)
			continue;
		*(before ? &before->next : &s->line) = h->next;
		if (s->line_last == h)
			s->line_last = before;
		return h;
	}
	return NULL;
}

/** Move a packet from the waiting list into the delay line. */
static void waiting_move(struct fault_stage *s, struct fault_held **at, uint64_t now_ns)
{
	struct fault_held *h = *at;

	*at = h->next;
	s->n_waiting--;
	h->due_ns = now_ns + h->delay_ns;
	line_enter(s, h);
}

static void waiting_enter(struct fault_stage *s, struct fault_held *h)
{
	struct fault_held **at = &s->waiting;

	while (*at)
		at = &(*at)->next;
	h->next = NULL;
	*at = h;
	s->n_waiting++;
}

/** A packet has passed the waiting packets: count each of these down, and release those that reach zero. */
static void waiting_pass(struct fault_stage *s, uint64_t now_ns)
{
	for (struct fault_held **at = &s->waiting; *at;) {
		if (--(*at)->after == 0)
			waiting_move(s, at, now_ns);
		else
			at = &(*at)->next;
	}
}

/** Release packets that have waited for PMD_FAULT_WAIT_NS, even if too few others have passed them. */
static void waiting_expire(struct fault_stage *s, uint64_t now_ns)
{
	while (s->waiting && s->waiting->due_ns <= now_ns)
		waiting_move(s, &s->waiting, now_ns);
}

void fault_release_all(struct pmd_fault *f)
{
	for (unsigned d = 0; d < 2; d++) {
		struct fault_stage *s = &f->stage[d];

		for (struct fault_held *h = s->line; h; h = h->next)
			h->due_ns = 0;
		while (s->waiting) {
			s->waiting->delay_ns = 0;
			waiting_move(s, &s->waiting, 0);
		}
	}
}

static void list_drop(struct pmd_fault *f, struct fault_held **at, unsigned path, unsigned *left)
{
	while (*at) {
		struct fault_held *h = *at;

		if (path != PATH_ANY && h->path != path) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		held_free(f, h);
		if (left)
			--*left;
		f->stats.fault_path_gone++;
	}
}

static void stage_drop(struct pmd_fault *f, struct fault_stage *s, unsigned path)
{
	list_drop(f, &s->waiting, path, &s->n_waiting);
	list_drop(f, &s->line, path, NULL);
	s->line_last = s->line;
	while (s->line_last && s->line_last->next)
		s->line_last = s->line_last->next;
}

void pmd_fault_path_gone(struct pmd_fault *f, unsigned path)
{
	stage_drop(f, &f->stage[0], path);
}

static uint64_t stage_deadline(const struct fault_stage *s)
{
	uint64_t deadline = s->line ? s->line->due_ns : UINT64_MAX;

	return s->waiting && s->waiting->due_ns < deadline ? s->waiting->due_ns : deadline;
}

uint64_t pmd_fault_tx_deadline(const struct pmd_fault *f)
{
	return stage_deadline(&f->stage[0]);
}

uint64_t pmd_fault_rx_deadline(const struct pmd_fault *f)
{
	return stage_deadline(&f->stage[1]);
}

/* ---- decisions ------------------------------------------------------------------------------------------------- */

/** The faults chosen for one packet. */
struct fate {
	bool lost, twice, damaged, late;
	uint64_t bit; /* random number that selects the bit to flip */
	uint64_t delay_ns;
};

static bool chance(uint64_t random, uint64_t ppb)
{
	return (random >> 32) * PMD_FAULT_PPB >> 32 < ppb;
}

/** Find the rule of a QP or, if the QP has none, the function's. @return whether *rule applies to this direction. */
static bool rule_find(struct pmd_fault *f, enum pmd_fault_direction direction, uint32_t qpn,
		      struct pmd_fault_rule **rule)
{
	struct pmd_fault_rule *r = &f->rules[0];

	for (unsigned i = 1; i <= PMD_FAULT_RULES; i++)
		if (f->rules[i].directions && f->rules[i].qpn == qpn)
			r = &f->rules[i];
	*rule = r;
	return r->directions & direction;
}

static struct fate rule_decide(struct pmd_fault *f, struct pmd_fault_rule *r, enum pmd_fault_direction direction)
{
	uint64_t *state = &r->state[direction - 1], draw[6];
	struct fate fate = {0};

	for (unsigned i = 0; i < 6; i++)
		draw[i] = fault_random(state);
	f->stats.fault_seen++;
	fate.lost = chance(draw[0], r->loss_ppb);
	fate.damaged = chance(draw[1], r->corrupt_ppb);
	fate.twice = chance(draw[2], r->dup_ppb);
	fate.late = chance(draw[3], r->reorder_ppb);
	fate.bit = draw[4];
	fate.delay_ns = r->delay_ns;
	if (r->jitter_ns)
		fate.delay_ns += draw[5] % (2 * r->jitter_ns + 1);
	if (r->jitter_ns)
		fate.delay_ns = fate.delay_ns > r->jitter_ns ? fate.delay_ns - r->jitter_ns : 0;
	return fate;
}

/** Put a copy of a packet on the waiting list or into the delay line. @return false: there is no copy (`h` is NULL). */
static bool stage_hold(struct pmd_fault *f, struct fault_stage *s, struct fault_held *h, const struct pmd_fault_rule *r,
		       const struct fate *fate, uint64_t now_ns)
{
	if (!h)
		return false;
	h->delay_ns = fate->delay_ns;
	f->stats.fault_delayed += fate->delay_ns > 0;
	if (fate->late && s->n_waiting < PMD_FAULT_REORDERED) {
		f->stats.fault_reordered++;
		h->after = r->gap;
		h->due_ns = now_ns + PMD_FAULT_WAIT_NS;
		waiting_enter(s, h);
		return true;
	}
	h->due_ns = now_ns + fate->delay_ns;
	line_enter(s, h);
	return true;
}

/** Flip one bit that the ICRC covers, in the `len` bytes that start with the BTH. */
static void damage(uint8_t *bth, uint32_t len, uint64_t bit)
{
	uint32_t at;

	if (len == 0)
		return;
	at = (uint32_t)(bit / 8 % len);
	if (at == BTH_ECN)
		at = 0;
	bth[at] ^= (uint8_t)(1 << bit % 8);
}

/* ---- transmission ------------------------------------------------------------------------------------------------ */

/** Copy a packet into a frame. The frame keeps its own buffer and cookie. */
static void tx_put(struct nic_tx_frame *to, const struct nic_tx_frame *from, const uint8_t *data)
{
	uint8_t *buffer = to->data;
	void *cookie = to->cookie;

	memcpy(buffer, data, from->len);
	*to = *from;
	to->data = buffer;
	to->cookie = cookie;
}

static bool tx_take(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frame, uint64_t now_ns)
{
	struct fault_held *h = line_take(&f->stage[0], path, now_ns);

	if (!h)
		return false;
	tx_put(frame, &h->tx, h->data);
	held_free(f, h);
	return true;
}

unsigned pmd_fault_tx(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct fault_stage *s = &f->stage[0];
	unsigned out = 0;

	for (unsigned i = 0; i < n; i++) {
		struct nic_tx_frame *frame = &frames[i];
		struct pmd_fault_rule *rule;
		struct fate fate = {0};

		if (rule_find(f, PMD_FAULT_TX, frame->qpn, &rule))
			fate = rule_decide(f, rule, PMD_FAULT_TX);
		if (fate.lost) {
			f->stats.fault_lost++;
			continue;
		}
		if (fate.damaged) {
			f->stats.fault_corrupted++;
			/* A path that guarantees integrity uses no ICRC: add an ICRC, so that the receiver detects the
			 * damage. */
			if (frame->no_icrc && nic_frame_icrc_set(frame->data, frame->len))
				frame->no_icrc = false;
			damage(frame->data + frame->bth, frame->len - frame->bth, fate.bit);
		}
		if (fate.twice) {
			const struct fate second = {.delay_ns = fate.delay_ns};

			f->stats.fault_duplicated += stage_hold(f, s, held_tx(f, path, frame), rule, &second, now_ns);
		}
		if (fate.late || fate.delay_ns) {
			stage_hold(f, s, held_tx(f, path, frame), rule, &fate, now_ns);
		} else {
			if (out != i)
				tx_put(&frames[out], frame, frame->data);
			out++;
		}
		if (!fate.late)
			waiting_pass(s, now_ns);
		while (out <= i && tx_take(f, path, &frames[out], now_ns))
			out++;
	}
	return out;
}

unsigned pmd_fault_tx_due(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	unsigned out = 0;

	waiting_expire(&f->stage[0], now_ns);
	while (out < n && tx_take(f, path, &frames[out], now_ns))
		out++;
	return out;
}

uint64_t pmd_fault_tx_paths(const struct pmd_fault *f, uint32_t word, uint64_t now_ns)
{
	const struct fault_stage *s = &f->stage[0];
	uint64_t paths = 0;

	for (const struct fault_held *h = s->line; h && h->due_ns <= now_ns; h = h->next)
		if (h->path / 64 == word)
			paths |= 1ull << h->path % 64;
	for (const struct fault_held *h = s->waiting; h && h->due_ns <= now_ns; h = h->next)
		if (h->path / 64 == word)
			paths |= 1ull << h->path % 64;
	return paths;
}

/* ---- reception --------------------------------------------------------------------------------------------------- */

/** Make a damaged copy of a received packet. The copy has an ICRC even if the packet had none, so that the NIC detects
 *  the damage. */
static struct fault_held *rx_damaged(struct pmd_fault *f, unsigned path, const struct nic_rx_frame *frame, uint64_t bit)
{
	struct fault_held *h = held_alloc(f, path, frame->len + CARRIER_MAX);
	uint32_t bth;

	if (!h)
		return NULL;
	h->rx = *frame;
	h->rx.data = h->data;
	h->rx.body = NULL;
	if (frame->flags & NIC_RX_NO_ICRC) {
		h->rx.len = nic_frame_ip(frame, h->data, h->size);
		h->rx.flags = NIC_RX_NO_KEY;
	} else {
		nic_frame_copy(frame, h->data);
	}
	bth = nic_frame_bth(&h->rx);
	damage(h->data + bth, h->rx.len - bth, bit);
	return h;
}

static void rx_show(struct pmd_fault *f, struct fault_held *h, struct nic_rx_frame *frame)
{
	held_free(f, f->shown);
	f->shown = h;
	*frame = h->rx;
}

bool pmd_fault_rx(struct pmd_fault *f, unsigned path, struct nic_rx_frame *frame, uint64_t now_ns)
{
	struct fault_stage *s = &f->stage[1];
	struct pmd_fault_rule *rule;
	struct fate fate = {0};

	if (!rule_find(f, PMD_FAULT_RX, nic_frame_qpn(frame), &rule)) {
		waiting_pass(s, now_ns);
		return true;
	}
	fate = rule_decide(f, rule, PMD_FAULT_RX);
	if (fate.lost) {
		f->stats.fault_lost++;
		return false;
	}
	if (fate.damaged) {
		struct fault_held *h = rx_damaged(f, path, frame, fate.bit);

		if (!h)
			return false;
		f->stats.fault_corrupted++;
		rx_show(f, h, frame);
	}
	if (fate.twice) {
		const struct fate second = {.delay_ns = fate.delay_ns};

		f->stats.fault_duplicated += stage_hold(f, s, held_rx(f, path, frame), rule, &second, now_ns);
	}
	if (!fate.late)
		waiting_pass(s, now_ns);
	if (!fate.late && !fate.delay_ns)
		return true;
	stage_hold(f, s, held_rx(f, path, frame), rule, &fate, now_ns);
	return false;
}

bool pmd_fault_rx_due(struct pmd_fault *f, unsigned *path, struct nic_rx_frame *frame, uint64_t now_ns)
{
	struct fault_held *h;

	waiting_expire(&f->stage[1], now_ns);
	h = line_take(&f->stage[1], PATH_ANY, now_ns);
	if (!h)
		return false;
	*path = h->path;
	rx_show(f, h, frame);
	return true;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

struct pmd_fault *pmd_fault_create(uint32_t function)
{
	struct pmd_fault *f = calloc(1, sizeof(*f));

	if (f)
		f->function = function;
	return f;
}

void pmd_fault_destroy(struct pmd_fault *f)
{
	if (!f)
		return;
	stage_drop(f, &f->stage[0], PATH_ANY);
	stage_drop(f, &f->stage[1], PATH_ANY);
	free(f->shown);
	free(f);
}

const struct pmd_fault_stats *pmd_fault_stats(const struct pmd_fault *f)
{
	return &f->stats;
}

bool pmd_fault_idle(const struct pmd_fault *f)
{
	for (unsigned i = 0; i <= PMD_FAULT_RULES; i++)
		if (f->rules[i].directions)
			return false;
	return !f->stage[0].line && !f->stage[0].waiting && !f->stage[1].line && !f->stage[1].waiting;
}
