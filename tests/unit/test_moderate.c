/* SPDX-License-Identifier: BSD-3-Clause */
/* test_moderate.c - moderation of completion events: an event waits for several entries, or for some time. */
#include "recv_cq.h"

#define COUNT_OF_EVENT 4
#define PERIOD_US      100u
#define PERIOD_NS      (PERIOD_US * UINT64_C(1000))

static struct rig *moderated(void)
{
	struct rig *rig = ready();

	nic_cq_moderate(rig->recv_cq, COUNT_OF_EVENT, PERIOD_US);
	return rig;
}

/* Add n receive completions of SENDs, solicited or not. */
static void push_several(struct rig *rig, unsigned n, bool solicited)
{
	while (n--)
		push(rig, n, solicited);
}

/* Take the entries of the CQ, which must be n. */
static void take_all(struct rig *rig, unsigned n)
{
	assert_int_equal(nic_cq_count(rig->recv_cq), n);
	take(rig, (int)n);
}

static void moderate__an_event_comes_with_the_last_of_its_entries(void **state)
{
	struct rig *rig = moderated();

	nic_cq_arm(rig->recv_cq, false);
	push_several(rig, COUNT_OF_EVENT - 1, false);
	assert_false(notified(rig));
	assert_int_equal(nic_cq_count(rig->recv_cq), COUNT_OF_EVENT - 1); /* the entries themselves are not delayed */
	push_several(rig, 1, false);
	assert_true(notified(rig));
	push_several(rig, COUNT_OF_EVENT, false); /* the arming was used up */
	assert_false(notified(rig));
	rig_advance(rig, 2 * PERIOD_NS);
	assert_false(notified(rig));
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	rig_destroy(rig);
}

static void moderate__an_event_comes_a_period_after_its_first_entry(void **state)
{
	struct rig *rig = moderated();

	nic_cq_arm(rig->recv_cq, false);
	rig_advance(rig, 10 * PERIOD_NS);
	assert_false(notified(rig)); /* there is nothing to announce */
	push_several(rig, 1, false);
	assert_true(nic_next_deadline(rig->nic) == rig->now + PERIOD_NS);
	rig_advance(rig, PERIOD_NS / 2);
	push_several(rig, 1, false);
	assert_true(nic_next_deadline(rig->nic) == rig->now + PERIOD_NS / 2);
	rig_advance(rig, PERIOD_NS / 2 - 1);
	assert_false(notified(rig));
	rig_advance(rig, 1);
	assert_true(notified(rig));
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	rig_destroy(rig);
}

static void moderate__arming_counts_the_entries_that_wait(void **state)
{
	struct rig *rig = moderated();

	push_several(rig, COUNT_OF_EVENT - 1, false);
	nic_cq_arm(rig->recv_cq, false);
	nic_cq_arm(rig->recv_cq, false); /* counts them once */
	assert_false(notified(rig));
	push_several(rig, 1, false);
	assert_true(notified(rig));
	take_all(rig, COUNT_OF_EVENT);
	push_several(rig, COUNT_OF_EVENT, false);
	nic_cq_arm(rig->recv_cq, false);
	assert_true(notified(rig));
	take_all(rig, COUNT_OF_EVENT);
	push_several(rig, 1, false);
	nic_cq_arm(rig->recv_cq, false);
	rig_advance(rig, PERIOD_NS);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void moderate__solicited_arming_counts_solicited_entries(void **state)
{
	struct rig *rig = moderated();

	nic_cq_arm(rig->recv_cq, true);
	push_several(rig, COUNT_OF_EVENT, false);
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	take_all(rig, COUNT_OF_EVENT);
	push_several(rig, COUNT_OF_EVENT - 1, true);
	push_several(rig, COUNT_OF_EVENT, false);
	assert_false(notified(rig));
	push_several(rig, 1, true);
	assert_true(notified(rig));
	rig_destroy(rig);
}

static void moderate__each_cq_has_its_own_time(void **state)
{
	struct rig *rig = moderated();

	nic_cq_moderate(rig->send_cq, COUNT_OF_EVENT, 3 * PERIOD_US);
	nic_cq_arm(rig->send_cq, false);
	nic_cq_arm(rig->recv_cq, false);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_drain(rig);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	push_several(rig, 1, false);
	rig_advance(rig, PERIOD_NS);
	assert_true(notified(rig));
	assert_true(nic_next_deadline(rig->nic) == rig->now + 2 * PERIOD_NS);
	rig_advance(rig, 2 * PERIOD_NS);
	assert_true(rig_event(rig, NIC_EVENT_COMP, RIG_USER_SEND_CQ(rig)));
	rig_destroy(rig);
}

/* A change of the moderation releases the event that is being delayed; without moderation, events come at once. */
static void moderate__can_be_changed(void **state)
{
	static const uint16_t none[][2] = {{0, 0}, {1, PERIOD_US}, {COUNT_OF_EVENT, 0}};
	struct rig *rig = moderated();

	for (unsigned i = 0; i < 3; i++) {
		nic_cq_moderate(rig->recv_cq, COUNT_OF_EVENT, PERIOD_US);
		nic_cq_arm(rig->recv_cq, false);
		push_several(rig, 1, false);
		assert_false(notified(rig));
		nic_cq_moderate(rig->recv_cq, none[i][0], none[i][1]);
		assert_true(notified(rig));
		take_all(rig, 1);
		nic_cq_arm(rig->recv_cq, false);
		push_several(rig, 1, false);
		assert_true(notified(rig));
		take_all(rig, 1);
	}
	rig_advance(rig, 2 * PERIOD_NS);
	assert_false(notified(rig));
	rig_destroy(rig);
}

static void moderate__a_destroyed_cq_is_forgotten(void **state)
{
	struct rig *rig = moderated();
	struct nic_cq *other = rig_cq_create(rig, 8, &psn);
	const struct nic_wc wc = {.wr_id = 1};

	nic_cq_moderate(other, COUNT_OF_EVENT, PERIOD_US);
	nic_cq_arm(other, false);
	cq_push(other, &wc, false);
	assert_int_equal(nic_cq_destroy(other), 0);
	assert_true(list_empty(&rig->nic->moderated));
	rig_advance(rig, 2 * PERIOD_NS);
	assert_false(rig_event(rig, NIC_EVENT_COMP, &psn));
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	rig_destroy(rig);
}

/* Entries of a CQ with notes, or of one that WAITs count, take another way into the ring. */
static void moderate__a_cq_with_notes_too(void **state)
{
	struct rig *rig = moderated();

	assert_int_equal(nic_cq_keep_notes(rig->recv_cq), 0);
	nic_cq_arm(rig->recv_cq, false);
	push_several(rig, COUNT_OF_EVENT - 1, false);
	assert_false(notified(rig));
	push_several(rig, 1, false);
	assert_true(notified(rig));
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moderate__an_event_comes_with_the_last_of_its_entries),
		cmocka_unit_test(moderate__an_event_comes_a_period_after_its_first_entry),
		cmocka_unit_test(moderate__arming_counts_the_entries_that_wait),
		cmocka_unit_test(moderate__solicited_arming_counts_solicited_entries),
		cmocka_unit_test(moderate__each_cq_has_its_own_time),
		cmocka_unit_test(moderate__can_be_changed),
		cmocka_unit_test(moderate__a_destroyed_cq_is_forgotten),
		cmocka_unit_test(moderate__a_cq_with_notes_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
