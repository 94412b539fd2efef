/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_random.c - reliable-datagram endpoints execute every request exactly once. Several nodes exchange messages,
 * receive them in all ways, write, read and add, on a network that loses, duplicates and swaps packets. In a second
 * test nodes also restart, some of them after announcing that they leave. The seed determines everything and is printed
 * on failure; RDM_SEED runs one seed. Checked: every request completes once, successfully unless a node restarts. Every
 * receive gets a complete message sent to it that no other receive gets, and no byte outside its buffer changes. If two
 * messages of one sender match the same two receives, the first message goes to the first receive. Sums are correct,
 * and READs return what was written.
 */
#include "rdm_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND	 1000000000ull
#define MESSAGES 160u
#define WANTS	 800u
#define OTHERS	 120u
#define COUNTERS 8u
#define WINDOW	 3000u /* size of the area that each source may write to in each target's arena */
#define SLOTS_AT 16384u
#define MARGIN	 32u
#define ROOM	 12288u
#define SLOT	 (ROOM + 2 * MARGIN)
#define SLOTS	 ((RDM_ARENA - SLOTS_AT) / SLOT)
#define BLANK	 0xee
#define NONE	 UINT32_MAX

enum state { OPEN, GOOD, BAD, GONE }; /* GONE: the node that posted it was stopped */
enum what { MESSAGE = 1, WANT, OTHER };

struct message {
	unsigned from, to;
	uint32_t flags, len, slot;
	uint64_t tag;
	enum state state;
	uint32_t taken_by; /* index of the receive that got it */
};

struct want {
	unsigned node, from; /* from: the sender; RDM_NODES: any */
	uint32_t flags, len, slot, used;
	uint64_t tag, ignore;
	bool all;
	enum state state;
};

/** An RMA, or an operation on elements. */
struct other {
	unsigned from, to;
	enum nic_rdm_kind kind;
	uint32_t flags, len, slot, seed, told; /* told: how often the target reported it */
	enum state state;
};

static struct {
	struct rdm_rig *rig;
	bool restarts;
	unsigned life[RDM_NODES];
	struct message message[MESSAGES];
	struct want want[WANTS];
	struct other other[OTHERS];
	uint32_t messages, wants, others;
	uint32_t slots[RDM_NODES]; /* slots in use, one bit each */
	uint64_t added[RDM_NODES][COUNTERS], perhaps[RDM_NODES][COUNTERS];
	bool busy[RDM_NODES][RDM_NODES]; /* whether a request is outstanding in the window of [target][source] */
	bool known[RDM_NODES][RDM_NODES];
	uint8_t shadow[RDM_NODES][RDM_NODES][WINDOW];
} t;

static uint32_t pick(uint32_t below)
{
	return rdm_random(t.rig, below);
}

static struct rdm_node *node(unsigned i)
{
	return &t.rig->node[i];
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

/** @return a free slot, or NONE. Two slots are reserved for receives of any message (`last`): without them, all nodes
 * could deadlock. */
static uint32_t slot_get(unsigned n, bool last)
{
	for (uint32_t i = last ? 0 : 2; i < SLOTS; i++) {
		uint32_t at = SLOTS_AT + i * SLOT;

		if (t.slots[n] >> i & 1)
			continue;
		t.slots[n] |= 1u << i;
		memset(node(n)->arena + at, BLANK, SLOT);
		return at + MARGIN;
	}
	return NONE;
}

/** Free a slot after checking that at most its first `len` bytes were written. */
static void slot_put(unsigned n, uint32_t slot, uint32_t len)
{
	const uint8_t *begin = node(n)->arena + slot - MARGIN;

	for (uint32_t i = 0; i < SLOT; i++)
		if (i < MARGIN || i >= MARGIN + len)
			assert_int_equal(begin[i], BLANK);
	t.slots[n] &= ~(1u << (slot - SLOTS_AT) / SLOT);
}

static uint32_t some_length(void)
{
	static const uint32_t lengths[] = {0, 1, 8, 128, 256, 257, 992, 993, 4096, 8192, 8193, ROOM};
	uint32_t i = pick(2 * sizeof(lengths) / sizeof(lengths[0]));

	return i < sizeof(lengths) / sizeof(lengths[0]) ? lengths[i] : pick(i % 3 ? 600 : ROOM);
}

static void *context(enum what what, uint32_t i)
{
	return (void *)(uintptr_t)((uint32_t)what << 24 | i);
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

static void do_send(unsigned from, unsigned to)
{
	static const uint32_t some_flags[] = {0, NIC_RDM_INJECT, NIC_RDM_DELIVERY, NIC_RDM_FENCE};
	struct message *m = &t.message[t.messages];
	struct nic_iov iov[2];
	struct nic_rdm_send r = {
		.context = context(MESSAGE, t.messages), .iov = iov, .n_iov = 1 + pick(2), .data = t.messages};

	if (t.messages == MESSAGES)
		return;
	*m = (struct message){
		.from = from, .to = to, .len = some_length(), .slot = slot_get(from, false), .taken_by = NONE};
	if (m->slot == NONE)
		return;
	m->flags = NIC_RDM_DATA | some_flags[pick(4)] | (pick(3) ? NIC_RDM_TAGGED : 0);
	if (m->flags & NIC_RDM_INJECT)
		m->len %= NIC_RDM_INJECT_MAX + 1;
	m->tag = m->flags & NIC_RDM_TAGGED ? pick(4) : 0;
	rdm_fill(node(from), m->slot, m->len, t.messages);
	iov[0] = (struct nic_iov){node(from)->arena + m->slot, r.n_iov > 1 ? pick(m->len + 1) : m->len};
	iov[1] = (struct nic_iov){node(from)->arena + m->slot + iov[0].len, m->len - iov[0].len};
	r.flags = m->flags;
	r.tag = m->tag;
	t.messages++; /* before the call, because the call itself can complete the message */
	assert_int_equal(nic_rdm_send(rdm_peer(node(from), node(to)), &r), 0);
	if (!(m->flags & NIC_RDM_INJECT))
		return;
	memset(node(from)->arena + m->slot, 0x55, m->len);
	slot_put(from, m->slot, m->len);
	m->slot = NONE;
}

/** Post a receive. `all`: for any message. */
static void do_recv(unsigned n, bool tagged, bool all)
{
	static const uint64_t masks[] = {0, 1, 3, UINT64_MAX, 0x10, 0x30};
	struct want *w = &t.want[t.wants];
	struct rdm_node *from;

	if (t.wants == WANTS)
		return;
	*w = (struct want){.node = n, .from = RDM_NODES, .len = ROOM, .slot = slot_get(n, all), .all = all};
	if (w->slot == NONE)
		return;
	w->flags = (tagged ? NIC_RDM_TAGGED : 0) | (!all && pick(5) == 0 ? NIC_RDM_MULTI : 0);
	w->ignore = tagged ? UINT64_MAX : 0;
	if (!all) {
		w->from = pick(2) ? pick(t.rig->nodes) : RDM_NODES;
		w->tag = tagged ? pick(4) : 0;
		w->ignore = tagged ? masks[pick(6)] : 0;
		w->len = pick(4) ? ROOM : some_length();
	}
	from = w->from < RDM_NODES ? node(w->from) : NULL;
	t.wants++;
	assert_int_equal(rdm_recv(node(n), from, (uintptr_t)context(WANT, t.wants - 1), w->flags, w->tag, w->ignore,
				  w->slot, w->len),
			 0);
}

static struct other *other_new(unsigned from, unsigned to)
{
	struct other *o = &t.other[t.others];

	if (t.others == OTHERS || !node(to)->nic)
		return NULL;
	*o = (struct other){.from = from, .to = to, .slot = slot_get(from, false), .seed = t.others};
	return o->slot == NONE ? NULL : o;
}

static void do_rma(unsigned from, unsigned to)
{
	struct other *o = t.busy[to][from] ? NULL : other_new(from, to);
	struct nic_iov iov;
	struct nic_rdm_remote remote;
	struct nic_rdm_rma r = {.context = context(OTHER, t.others),
				.iov = &iov,
				.n_iov = 1,
				.remote = &remote,
				.n_remote = 1,
				.data = t.others};

	if (!o)
		return;
	o->kind = pick(2) && t.known[to][from] ? NIC_RDM_READ : NIC_RDM_WRITE;
	o->len = o->kind == NIC_RDM_READ ? pick(WINDOW + 1) : WINDOW;
	if (o->kind == NIC_RDM_WRITE) {
		o->flags = pick(2) ? NIC_RDM_DATA : 0;
		rdm_fill(node(from), o->slot, o->len, o->seed);
	}
	r.read = o->kind == NIC_RDM_READ;
	r.flags = o->flags;
	iov = (struct nic_iov){node(from)->arena + o->slot, o->len};
	remote = (struct nic_rdm_remote){(uintptr_t)node(to)->arena + 1024 + from * WINDOW, o->len,
					 nic_mr_rkey(node(to)->mr)};
	t.busy[to][from] = true;
	t.others++;
	assert_int_equal(nic_rdm_rma(rdm_peer(node(from), node(to)), &r), 0);
}

static void do_add(unsigned from, unsigned to)
{
	struct other *o = other_new(from, to);
	uint64_t operand[COUNTERS];
	struct nic_iov iov, result;
	struct nic_rdm_remote remote;
	struct nic_rdm_atomic r = {.context = context(OTHER, t.others),
				   .op = NIC_ELEM_SUM,
				   .datatype = NIC_DT_UINT64,
				   .operand = &iov,
				   .n_operand = 1,
				   .result = &result,
				   .remote = &remote,
				   .n_remote = 1};

	if (!o)
		return;
	o->kind = pick(2) ? NIC_RDM_FETCH : NIC_RDM_ATOMIC;
	o->flags = pick(2) ? NIC_RDM_INJECT : 0;
	o->len = (pick(2) ? 1 : 1 + pick(COUNTERS)) * 8;
	for (uint32_t i = 0; i < COUNTERS; i++)
		operand[i] = o->seed + i;
	memcpy(node(from)->arena + o->slot, operand, o->len);
	iov = (struct nic_iov){node(from)->arena + o->slot, o->len};
	result = (struct nic_iov){node(from)->arena + o->slot + o->len, o->len};
	remote = (struct nic_rdm_remote){(uintptr_t)node(to)->arena, o->len, nic_mr_rkey(node(to)->mr)};
	r.n_result = o->kind == NIC_RDM_FETCH;
	r.flags = o->flags;
	t.others++;
	assert_int_equal(nic_rdm_atomic(rdm_peer(node(from), node(to)), &r), 0);
}

/* ---- what is done --------------------------------------------------------------------------------------------- */

static enum state state_of(const struct nic_rdm_done *d)
{
	assert_true(t.restarts || d->status == NIC_RDM_OK);
	return d->status == NIC_RDM_OK ? GOOD : BAD;
}

static void sent(unsigned n, const struct nic_rdm_done *d, struct message *m)
{
	assert_int_equal(d->kind, NIC_RDM_SEND);
	assert_int_equal(m->from, n);
	assert_int_equal(m->state, OPEN);
	m->state = state_of(d);
	assert_ptr_equal(d->peer, rdm_peer(node(n), node(m->to)));
	if (m->slot == NONE)
		return;
	assert_true(rdm_holds(node(n), m->slot, m->len, (uint32_t)(m - t.message)));
	slot_put(n, m->slot, m->len);
}

static bool would_take(const struct want *w, const struct message *m)
{
	return w->node == m->to && (w->flags & NIC_RDM_TAGGED) == (m->flags & NIC_RDM_TAGGED) &&
	       ((w->tag ^ m->tag) & ~w->ignore) == 0 && (w->from == RDM_NODES || w->from == m->from);
}

static void received(unsigned n, const struct nic_rdm_done *d, struct want *w)
{
	bool whole = d->status == NIC_RDM_OK || d->status == NIC_RDM_TRUNCATED;
	bool ends = !(w->flags & NIC_RDM_MULTI) || d->flags & NIC_RDM_MULTI;
	uint32_t at = (uint32_t)((uint8_t *)d->buf - node(n)->arena);
	struct message *m = &t.message[d->data];

	assert_int_equal(d->kind, NIC_RDM_RECV);
	assert_int_equal(w->node, n);
	assert_int_equal(w->state, OPEN);
	assert_true(whole || d->status == NIC_RDM_CANCELED || t.restarts);
	if (whole) {
		assert_true(d->data < t.messages && would_take(w, m) && m->taken_by == NONE);
		m->taken_by = (uint32_t)(w - t.want);
		assert_int_equal(d->len + d->overflow, m->len);
		assert_int_equal(d->status == NIC_RDM_TRUNCATED, d->overflow > 0);
		assert_true(at >= w->slot && at + d->len <= w->slot + w->len);
		assert_true(!d->overflow || at + d->len == w->slot + w->len);
		assert_true(rdm_holds(node(n), at, (uint32_t)d->len, (uint32_t)d->data));
		assert_ptr_equal(d->peer, rdm_peer(node(n), node(m->from)));
		if (at + d->len > w->slot + w->used)
			w->used = at + (uint32_t)d->len - w->slot;
	}
	if (!ends)
		return;
	w->state = whole ? GOOD : BAD;
	slot_put(n, w->slot, t.restarts ? w->len : w->used);
}

static void other_done(unsigned n, const struct nic_rdm_done *d, struct other *o)
{
	uint8_t *window = node(o->to)->arena + 1024 + o->from * WINDOW, *mine = node(n)->arena + o->slot;
	bool adds = o->kind == NIC_RDM_ATOMIC || o->kind == NIC_RDM_FETCH;

	assert_int_equal(d->kind, o->kind);
	assert_int_equal(o->from, n);
	assert_int_equal(o->state, OPEN);
	o->state = state_of(d);
	for (uint32_t i = 0; adds && i < o->len / 8; i++)
		(o->state == GOOD ? t.added : t.perhaps)[o->to][i] += o->seed + i;
	if (o->kind == NIC_RDM_WRITE) {
		t.known[o->to][n] = o->state == GOOD;
		memcpy(t.shadow[o->to][n], mine, WINDOW);
		assert_true(o->state == BAD || memcmp(window, mine, WINDOW) == 0);
	} else if (o->kind == NIC_RDM_READ && o->state == GOOD) {
		assert_memory_equal(mine, t.shadow[o->to][n], o->len);
	}
	if (!adds)
		t.busy[o->to][n] = false;
	slot_put(n, o->slot, o->kind == NIC_RDM_FETCH ? 2 * o->len : o->len);
}

static void written(unsigned n, const struct nic_rdm_done *d)
{
	struct other *o = &t.other[d->data];

	assert_true(d->data < t.others && o->kind == NIC_RDM_WRITE && o->to == n && o->flags & NIC_RDM_DATA);
	assert_int_equal(o->told++, 0);
	assert_ptr_equal(d->peer, rdm_peer(node(n), node(o->from)));
}

static void look(void)
{
	for (unsigned n = 0; n < t.rig->nodes; n++) {
		struct rdm_node *at = node(n);

		for (unsigned i = 0; i < at->n_done; i++) {
			const struct nic_rdm_done *d = &at->done[i];
			uint32_t what = (uint32_t)(uintptr_t)d->context >> 24, index = (uintptr_t)d->context & 0xffffff;

			if (d->kind == NIC_RDM_REMOTE_WRITE)
				written(n, d);
			else if (what == MESSAGE)
				sent(n, d, &t.message[index]);
			else if (what == WANT)
				received(n, d, &t.want[index]);
			else
				other_done(n, d, &t.other[index]);
		}
		at->n_done = at->n_seen = 0;
	}
	for (uint32_t i = 0; i < t.messages; i++) {
		const struct message *m = &t.message[i];

		if (m->state == GOOD && (m->flags & NIC_RDM_DELIVERY || m->len > NIC_RDM_EAGER_MAX) && !t.life[m->to])
			assert_int_not_equal(m->taken_by, NONE);
	}
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

/** Restart a node. Half of the restarts announce that the node leaves. */
static void restart(unsigned n)
{
	if (pick(2)) {
		while (nic_rdm_leave(node(n)->ep) > 0)
			rdm_run(t.rig, 1 + pick(20000));
		rdm_run(t.rig, 1 + pick(pick(2) ? 100000 : 100000000));
		look();
	}
	rdm_node_stop(node(n));
	rdm_node_start(node(n));
	t.life[n]++;
	for (uint32_t i = 0; i < t.messages; i++)
		if (t.message[i].from == n && t.message[i].state == OPEN)
			t.message[i].state = GONE;
	for (uint32_t i = 0; i < t.wants; i++)
		if (t.want[i].node == n && t.want[i].state == OPEN)
			t.want[i].state = GONE;
	for (uint32_t i = 0; i < t.others; i++) {
		struct other *o = &t.other[i];

		if (o->from != n || o->state != OPEN)
			continue;
		o->state = GONE;
		for (uint32_t k = 0; k < o->len / 8 && k < COUNTERS; k++)
			t.perhaps[o->to][k] += o->kind == NIC_RDM_ATOMIC || o->kind == NIC_RDM_FETCH ? o->seed + k : 0;
	}
	for (unsigned to = 0; to < t.rig->nodes; to++)
		t.busy[to][n] = t.known[to][n] = false;
	t.slots[n] = 0;
}

static void step(void)
{
	unsigned from = pick(t.rig->nodes), to = pick(t.rig->nodes), what = pick(16);

	if (what < 6)
		do_send(from, to);
	else if (what < 11)
		do_recv(from, pick(3), false);
	else if (what < 13)
		do_rma(from, to);
	else if (what < 15)
		do_add(from, to);
	else if (t.restarts && pick(3) == 0)
		restart(from);
	if (pick(3) == 0)
		rdm_run(t.rig, 1 + pick(pick(8) ? 100000 : 400000000));
	look();
}

/** Whether everything sent has completed and, unless nodes restart, been received. */
static bool all_done(void)
{
	bool done = true;

	for (uint32_t i = 0; i < t.messages; i++)
		done &= t.message[i].state != OPEN && (t.restarts || t.message[i].taken_by != NONE);
	for (uint32_t i = 0; i < t.others; i++)
		done &= t.other[i].state != OPEN;
	return done;
}

/** Whether the node has no open receive for any message. */
static bool wants_none(unsigned n, uint32_t tagged)
{
	for (uint32_t i = 0; i < t.wants; i++)
		if (t.want[i].node == n && t.want[i].all && t.want[i].state == OPEN &&
		    (t.want[i].flags & NIC_RDM_TAGGED) == tagged)
			return false;
	return true;
}

static void finish(void)
{
	for (unsigned round = 0; !all_done(); round++) {
		assert_true(round < 400);
		for (unsigned n = 0; n < t.rig->nodes; n++)
			for (unsigned i = 0; i < 2; i++)
				if (wants_none(n, i))
					do_recv(n, i, true);
		rdm_run(t.rig, SECOND / 10);
		look();
		for (uint32_t i = 0; round % 4 == 3 && i < t.wants;
		     i++) /* frees the slots of receives that nothing will match */
			if (t.want[i].state == OPEN)
				nic_rdm_cancel(node(t.want[i].node)->ep, context(WANT, i));
		look();
	}
	rdm_run(t.rig, 20 * SECOND);
	look();
	for (uint32_t i = 0; i < t.wants; i++)
		if (t.want[i].state == OPEN)
			assert_int_equal(nic_rdm_cancel(node(t.want[i].node)->ep, context(WANT, i)), 0);
	look();
}

static bool overtaken(const struct message *first, const struct message *second)
{
	const struct want *of_first = &t.want[first->taken_by], *of_second = &t.want[second->taken_by];

	return first->taken_by != NONE && second->taken_by != NONE && first->from == second->from &&
	       of_second < of_first && would_take(of_second, first) && would_take(of_first, second);
}

static void judge(void)
{
	for (uint32_t i = 0; i < t.wants; i++)
		assert_int_not_equal(t.want[i].state, OPEN);
	for (uint32_t i = 0; i < t.messages; i++)
		for (uint32_t k = i + 1; !t.restarts && k < t.messages; k++)
			assert_false(overtaken(&t.message[i], &t.message[k]));
	for (uint32_t i = 0; i < t.others; i++)
		if (t.other[i].state == GOOD && t.other[i].flags & NIC_RDM_DATA && !t.life[t.other[i].to])
			assert_int_equal(t.other[i].told, 1);
	for (unsigned n = 0; n < t.rig->nodes; n++)
		for (uint32_t i = 0; i < COUNTERS; i++) {
			uint64_t sum;

			memcpy(&sum, node(n)->arena + i * 8, 8);
			assert_in_range(sum, t.added[n][i], t.added[n][i] + t.perhaps[n][i]);
		}
}

static uint64_t quick_in_all; /* packets sent at once, in all runs */

static void run(uint64_t seed, bool restarts)
{
	unsigned nodes = 2 + (unsigned)(seed % 4), steps;

	memset(&t, 0, sizeof(t));
	t.restarts = restarts;
	t.rig = rdm_rig_create(nodes, seed);
	t.rig->refers = seed % 7 < 2;	/* payload by reference, as between processes of one host */
	t.rig->lossless = seed % 8 > 3; /* it is said, but not true */
	t.rig->unread = pick(101);
	if (seed % 2) /* fetches of one element take the fast path, now and then or always */
		t.rig->quick = seed % 4 == 1 ? 1000 : 1 + pick(1000);
	if (seed % 5 == 0) /* little room for unexpected messages */
		t.rig->init.max_unexpected = 131072;
	if (t.rig->refers || t.rig->quick || t.rig->init.max_unexpected) {
		for (unsigned n = 0; n < nodes; n++) {
			rdm_node_stop(node(n));
			rdm_node_start(node(n));
		}
	}
	t.rig->lose = seed % 3 ? pick(101) : 0;
	t.rig->twice = pick(101);
	t.rig->swap = pick(101);
	steps = 50 + pick(250);
	while (steps--)
		step();
	finish();
	judge();
	quick_in_all += t.rig->sent_quick;
	rdm_rig_destroy(t.rig);
}

static uint64_t seed_now;

static void say_seed(void)
{
	if (seed_now)
		fprintf(stderr, "RDM_SEED=%llu\n", (unsigned long long)seed_now);
}

static void runs(bool restarts, uint64_t first, unsigned count)
{
	const char *one = getenv("RDM_SEED"), *many = getenv("RDM_SEEDS");

	count = many ? (unsigned)strtoul(many, NULL, 0) : count;
	quick_in_all = 0;
	if (one) {
		first = strtoull(one, NULL, 0);
		count = 1;
	}
	for (seed_now = first; seed_now < first + count; seed_now++)
		run(seed_now, restarts);
	seed_now = 0;
	assert_true(one || many || quick_in_all > 200);
}

static int teardown(void **state)
{
	(void)state;
	say_seed(); /* prints nothing unless a run failed */
	seed_now = 0;
	return 0;
}

static void rdm__every_request_is_executed_exactly_once_under_loss(void **state)
{
	(void)state;
	runs(false, 1, 300);
}

static void rdm__no_request_is_executed_twice_when_nodes_restart(void **state)
{
	(void)state;
	runs(true, 1, 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(rdm__every_request_is_executed_exactly_once_under_loss, teardown),
		cmocka_unit_test_teardown(rdm__no_request_is_executed_twice_when_nodes_restart, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
