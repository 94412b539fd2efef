/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tag.c - nic/queue/tag.c against a model that keeps receives and messages in plain lists and searches them in
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tag.h"
#include "wire_util.h"

#define STEPS 300000
#define MANY  4000

static struct tag_unit unit;

/* ---- the model ----------------------------------------------------------------------------------------------- */

struct model {
	struct tag_recv *recv[MANY];
	struct tag_message *message[MANY];
	unsigned recvs, messages;
};

static bool takes(const struct tag_recv *r, uint64_t tag, uint64_t source)
{
	for (unsigned bit = 0; bit < 64; bit++)
		if (!(r->ignore >> bit & 1) && (r->tag >> bit & 1) != (tag >> bit & 1))
			return false;
	return r->source == TAG_ANY_SOURCE || r->source == source;
}

static struct tag_recv *model_recv_out(struct model *m, unsigned i)
{
	struct tag_recv *r = m->recv[i];

	memmove(&m->recv[i], &m->recv[i + 1], (--m->recvs - i) * sizeof(m->recv[0]));
	return r;
}

static struct tag_message *model_message_out(struct model *m, unsigned i)
{
	struct tag_message *message = m->message[i];

	memmove(&m->message[i], &m->message[i + 1], (--m->messages - i) * sizeof(m->message[0]));
	return message;
}

/** @return the index of the first message that matches the receive; m->messages: none matches. */
static unsigned model_first(const struct model *m, const struct tag_recv *r)
{
	unsigned i = 0;

	while (i < m->messages && !takes(r, m->message[i]->tag, m->message[i]->source))
		i++;
	return i;
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint64_t random_below(uint64_t n)
{
	return util_random(&seed) % n;
}

/** A few tags, so that they often match. At times, more masks are used than the unit has room for. */
static uint64_t some_tag(void)
{
	return random_below(4) << 60 | random_below(3) << 32 | random_below(6);
}

static uint64_t some_mask(unsigned step)
{
	static const uint64_t masks[] = {0, 7, UINT64_MAX, 0xf000000000000000, 0xffffffff00000000, 1, 0xff00000000, 3};

	return masks[random_below(step / 20000 % 2 ? 8 : 3)];
}

static void post(struct model *m, unsigned step)
{
	struct tag_recv *r = malloc(sizeof(*r));
	struct tag_message *got, *expected = NULL;
	unsigned i;

	*r = (struct tag_recv){.tag = some_tag(),
			       .ignore = some_mask(step),
			       .source = random_below(3) ? random_below(3) : TAG_ANY_SOURCE};
	i = model_first(m, r);
	if (i < m->messages)
		expected = model_message_out(m, i);
	assert_ptr_equal(tag_peek(&unit, r->tag, r->ignore, r->source), expected);
	got = tag_post(&unit, r);
	assert_ptr_equal(got, expected);
	if (!got) {
		m->recv[m->recvs++] = r;
		return;
	}
	free(got);
	free(r);
}

static void arrive(struct model *m)
{
	uint64_t tag = some_tag(), source = random_below(3);
	struct tag_recv *got = tag_arrive(&unit, tag, source), *expected = NULL;
	struct tag_message *message;

	for (unsigned i = 0; i < m->recvs && !expected; i++)
		if (takes(m->recv[i], tag, source))
			expected = model_recv_out(m, i);
	assert_ptr_equal(got, expected);
	free(got);
	if (got || m->messages == MANY)
		return;
	message = malloc(sizeof(*message));
	message->tag = tag;
	message->source = source;
	tag_hold(&unit, message);
	m->message[m->messages++] = message;
}

static void cancel_or_take(struct model *m)
{
	if (m->recvs && random_below(2)) {
		struct tag_recv *r = model_recv_out(m, (unsigned)random_below(m->recvs));

		tag_cancel(&unit, r);
		free(r);
	} else if (m->messages) {
		struct tag_message *message = model_message_out(m, (unsigned)random_below(m->messages));

		tag_take(&unit, message);
		free(message);
	}
}

static void tag__agrees_with_the_model(void **state)
{
	static struct model m;
	unsigned most_recvs = 0, most_messages = 0;

	(void)state;
	tag_init(&unit);
	for (unsigned step = 0; step < STEPS; step++) {
		bool more_recvs = step / 3000 % 2; /* receives and messages accumulate in turn */

		if (random_below(20) == 0)
			cancel_or_take(&m);
		else if (random_below(100) < (more_recvs ? 55 : 45) && m.recvs < MANY)
			post(&m, step);
		else
			arrive(&m);
		assert_int_equal(unit.n_recvs, m.recvs);
		assert_int_equal(unit.n_messages, m.messages);
		most_recvs = m.recvs > most_recvs ? m.recvs : most_recvs;
		most_messages = m.messages > most_messages ? m.messages : most_messages;
	}
	print_message("at most %u receives and %u messages waited\n", most_recvs, most_messages);
	assert_true(most_recvs > 50 && most_messages > 50);
	while (m.recvs || m.messages)
		cancel_or_take(&m);
	assert_int_equal(unit.n_recvs + unit.n_messages, 0);
}

/* ---- what MPI relies on -------------------------------------------------------------------------------------- */

static void tag__the_first_posted_matching_receive_gets_the_message(void **state)
{
	struct tag_recv any = {.tag = 0, .ignore = UINT64_MAX, .source = TAG_ANY_SOURCE},
			exact = {.tag = 5, .source = 1}, other = {.tag = 4, .ignore = 1, .source = 1};

	(void)state;
	tag_init(&unit);
	assert_null(tag_post(&unit, &exact));
	assert_null(tag_post(&unit, &any));
	assert_null(tag_post(&unit, &other));
	assert_ptr_equal(tag_arrive(&unit, 5, 1), &exact);
	assert_ptr_equal(tag_arrive(&unit, 5, 1), &any);
	assert_ptr_equal(tag_arrive(&unit, 5, 1), &other);
	assert_null(tag_arrive(&unit, 5, 1));
}

/** Receives with more different masks than there is room for: a message still goes to the matching receive posted
 * first. */
static void tag__receive_order_holds_if_the_mask_table_overflows(void **state)
{
	struct tag_recv r[2 * TAG_MASKS];

	(void)state;
	tag_init(&unit);
	for (unsigned i = 0; i < 2 * TAG_MASKS; i++) {
		r[i] = (struct tag_recv){.tag = 0, .ignore = 1ull << i, .source = TAG_ANY_SOURCE};
		assert_null(tag_post(&unit, &r[i]));
	}
	for (unsigned i = 0; i < 2 * TAG_MASKS; i++)
		assert_ptr_equal(tag_arrive(&unit, 0, i), &r[i]);
}

/** A receive with a new mask finds messages that were there before it, in their order of arrival. */
static void tag__receives_with_new_masks_find_earlier_messages_in_order(void **state)
{
	struct tag_message m[3] = {{.tag = 0x10, .source = 1}, {.tag = 0x11, .source = 1}, {.tag = 0x12, .source = 2}};

	(void)state;
	tag_init(&unit);
	for (unsigned i = 0; i < 3; i++)
		tag_hold(&unit, &m[i]);
	for (unsigned i = 0; i < 4 * TAG_MASKS; i++) { /* each new mask replaces an earlier one in the table */
		struct tag_recv none = {.tag = 0x8000000000000000, .ignore = 0xfull << i, .source = TAG_ANY_SOURCE};

		assert_null(tag_post(&unit, &none));
		tag_cancel(&unit, &none);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct tag_recv any = {.tag = 0x1f, .ignore = 0xf, .source = TAG_ANY_SOURCE};

		assert_ptr_equal(tag_post(&unit, &any), &m[i]);
	}
	assert_int_equal(unit.n_messages + unit.n_recvs, 0);
}

/** Tags that differ in any bits are spread over the buckets evenly. */
static void tag__buckets_are_used_evenly(void **state)
{
	static struct tag_message m[1024];

	(void)state;
	for (unsigned shift = 0; shift <= 54; shift++) {
		struct tag_recv none = {.tag = 0x5aull << (shift ? 0 : 20), .source = 7};
		unsigned longest = 0;

		tag_init(&unit);
		assert_null(tag_post(&unit, &none));
		tag_cancel(&unit, &none);
		for (unsigned i = 0; i < 1024; i++) {
			m[i].tag = (uint64_t)i << shift;
			m[i].source = 1;
			tag_hold(&unit, &m[i]);
		}
		for (unsigned b = 0; b < TAG_BUCKETS; b++) {
			unsigned length = 0;

			for (struct list *n = unit.mask[0].message[b].next; n != &unit.mask[0].message[b]; n = n->next)
				length++;
			longest = length > longest ? length : longest;
		}
		assert_in_range(longest, 4, 32);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tag__agrees_with_the_model),
		cmocka_unit_test(tag__the_first_posted_matching_receive_gets_the_message),
		cmocka_unit_test(tag__receive_order_holds_if_the_mask_table_overflows),
		cmocka_unit_test(tag__buckets_are_used_evenly),
		cmocka_unit_test(tag__receives_with_new_masks_find_earlier_messages_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
