/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moderation.c - ibv_modify_cq: completion events that wait for several completions, or for some time. An event may
 * come early if the machine is busy, because its time may be up: attempts in which that is possible do not count.
 */
#include "rig.h"
#include <poll.h>
#include <time.h>

#define COUNT	  4
#define PERIOD_US 60000
#define TRIES	  50
#define LONG_MS	  20000

/** End 0's CQ on a channel, and a QP whose completions go there. */
struct moderated {
	struct rig *rig;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
};

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr attr = {IBV_CQ_ATTR_MODERATE, {count, period_us}};

	return ibv_modify_cq(cq, &attr);
}

static void make(struct moderated *m, struct rig *rig)
{
	struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);

	m->rig = rig;
	m->channel = ibv_create_comp_channel(rig->end[0].ctx);
	assert_non_null(m->channel);
	m->cq = ibv_create_cq(rig->end[0].ctx, RIG_DEPTH, NULL, m->channel, 0);
	assert_non_null(m->cq);
	init.send_cq = init.recv_cq = m->cq;
	m->qp[0] = ibv_create_qp(rig->end[0].pd, &init);
	init = rig_qp_init(&rig->end[1], IBV_QPT_RC);
	m->qp[1] = ibv_create_qp(rig->end[1].pd, &init);
	rig_connect_qps(rig, m->qp[0], m->qp[1]);
	assert_int_equal(moderate(m->cq, COUNT, PERIOD_US), 0);
}

static void destroy(struct moderated *m)
{
	assert_int_equal(ibv_destroy_qp(m->qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(m->qp[1]), 0);
	assert_int_equal(ibv_destroy_cq(m->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(m->channel), 0);
}

/** Wait for a successful completion. The other end's engine may need polling, too. */
static void wait_for_one(struct moderated *m)
{
	time_t end = time(NULL) + 10;
	struct ibv_wc wc, none;
	int got;

	while (!(got = ibv_poll_cq(m->cq, 1, &wc))) {
		assert_int_equal(ibv_poll_cq(m->rig->end[1].cq, 1, &none), 0);
		if (time(NULL) > end)
			fail_msg("no completion came");
	}
	assert_int_equal(got, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/** Have n WRITEs complete. */
static void write_some(struct moderated *m, unsigned n)
{
	struct ibv_sge sge = rig_sge(&m->rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)m->rig->end[1].buf, m->rig->end[1].mr->rkey}},
			   *bad;

	while (n--) {
		assert_int_equal(ibv_post_send(m->qp[0], &wr, &bad), 0);
		wait_for_one(m);
	}
}

static bool has_event(struct moderated *m, int ms)
{
	struct pollfd p = {m->channel->fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

static void take_event(struct moderated *m)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(m->channel, &cq, &context), 0);
	assert_ptr_equal(cq, m->cq);
	ibv_ack_cq_events(cq, 1);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void moderation__is_reported_and_checked(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_modify_cq_attr nothing = {0}, unknown = {.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED};
	struct ibv_device_attr_ex attr;
	uint32_t handle = end->cq->handle;

	assert_int_equal(ibv_query_device_ex(end->ctx, NULL, &attr), 0);
	assert_int_equal(attr.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(attr.cq_mod_caps.max_cq_period, UINT16_MAX);
	assert_int_equal(moderate(end->cq, attr.cq_mod_caps.max_cq_count, attr.cq_mod_caps.max_cq_period), 0);
	assert_int_equal(ibv_modify_cq(end->cq, &nothing), EINVAL);
	assert_int_equal(ibv_modify_cq(end->cq, &unknown), EINVAL);
	end->cq->handle = ~handle;
	assert_int_equal(moderate(end->cq, 1, 1), ENOENT);
	end->cq->handle = handle;
}

/** An event comes with the last of its completions, not before. @return false: this attempt took too long. */
static bool counts(struct moderated *m)
{
	int64_t start_us = now_us();
	bool early, there;

	assert_int_equal(ibv_req_notify_cq(m->cq, 0), 0);
	write_some(m, COUNT - 1);
	early = has_event(m, 0);
	write_some(m, 1);
	there = has_event(m, 0);
	if (now_us() - start_us >= PERIOD_US / 2) {
		take_event(m);
		return false;
	}
	assert_false(early);
	assert_true(there);
	take_event(m);
	return true;
}

static void moderation__an_event_waits_for_its_completions(void **state)
{
	struct moderated m;
	unsigned tries = 0;

	make(&m, *state);
	write_some(&m, 1); /* the engine knows the time */
	while (!counts(&m) && ++tries < TRIES)
		;
	destroy(&m);
	if (tries == TRIES)
		skip(); /* the machine is too busy to tell an event's reasons apart */
}

/* Without more completions, the engine raises the event, whether the program sleeps in poll() or in the library. */
static void moderation__an_event_comes_after_its_period(void **state)
{
	struct moderated m;

	make(&m, *state);
	assert_int_equal(ibv_req_notify_cq(m.cq, 0), 0);
	write_some(&m, 1);
	assert_true(has_event(&m, LONG_MS));
	take_event(&m);
	assert_int_equal(ibv_req_notify_cq(m.cq, 0), 0);
	write_some(&m, COUNT - 1);
	take_event(&m);
	assert_false(has_event(&m, 0));
	destroy(&m);
}

static void moderation__an_engine_without_a_thread_too(void **state)
{
	struct moderated m;

	make(&m, *state);
	assert_int_equal(ibv_req_notify_cq(m.cq, 0), 0);
	write_some(&m, 1);
	take_event(&m);
	destroy(&m);
}

static void moderation__can_be_turned_off(void **state)
{
	struct moderated m;

	make(&m, *state);
	assert_int_equal(ibv_req_notify_cq(m.cq, 0), 0);
	write_some(&m, 1);
	assert_int_equal(moderate(m.cq, 0, 0), 0);
	assert_true(has_event(&m, 0));
	take_event(&m);
	assert_int_equal(ibv_req_notify_cq(m.cq, 0), 0);
	write_some(&m, 1);
	assert_true(has_event(&m, 0));
	take_event(&m);
	destroy(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(moderation__is_reported_and_checked),
		T(moderation__an_event_waits_for_its_completions),
		T(moderation__an_event_comes_after_its_period),
		T(moderation__can_be_turned_off),
#undef T
		cmocka_unit_test_setup_teardown(moderation__an_engine_without_a_thread_too, rig_setup_inline,
						rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
