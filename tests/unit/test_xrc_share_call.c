/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share_call.c - verbs on target QPs of other processes: what they do, how long a QP lives that several
 * processes use, and what becomes of calls and shares when a process ends.
 */
#include "share_rig.h"

#include <stdlib.h>

#define BIT(e)	(1ull << (e))
#define UNKNOWN 0x3fffffu /* in nobody's range of numbers */

/** Make a call from G and await its result. */
static struct nic_xrc_call call(struct share_rig *rig, const struct nic_xrc_call *how)
{
	struct nic_xrc_call c = *how;

	nic_xrc_call(rig->node[G].xrcd, &c);
	for (uint64_t until = rig->now + 60 * SHARE_SECOND; !c.done;)
		assert_true(share_turn(rig, until));
	return c;
}

static struct nic_xrc_call verb(struct share_rig *rig, enum nic_xrc_verb which)
{
	const struct nic_xrc_call c = {.verb = which, .qpn = rig->target};

	return call(rig, &c);
}

static int modify(struct share_rig *rig, const struct nic_qp_attr *attr, enum nic_qp_state state)
{
	struct nic_xrc_call c = {
		.verb = NIC_XRC_MODIFY, .qpn = rig->target, .mask = share_mask(state, true), .attr = *attr};

	c.attr.qp_state = state;
	c = call(rig, &c);
	if (!c.error)
		assert_int_equal(c.attr.qp_state, state);
	return c.error;
}

static void send_one(struct share_rig *rig, unsigned to)
{
	struct share_node *n = &rig->node[to];

	share_fill(rig->node[I].arena, 600, rig->now & 0xff);
	share_recv(n, 1, 4096, 1000);
	share_post(rig, to, NIC_WR_SEND, 0, 600, 0);
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_expect(n, NIC_WC_SUCCESS);
	assert_memory_equal(n->arena + 4096, rig->node[I].arena, 600);
}

static bool target_exists(const struct share_rig *rig, uint32_t qpn)
{
	return nic_xrc_target(rig->node[O].xrcd, qpn) != NULL;
}

static void xrc_call__query_returns_the_attributes(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct nic_qp_init init;
	struct nic_qp_attr own;
	struct nic_xrc_call c;

	(void)state;
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	c = verb(rig, NIC_XRC_QUERY);
	nic_qp_query(rig->node[O].qp, &own, &init);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.attr.qp_state, NIC_QPS_RTS);
	assert_int_equal(c.attr.path_mtu, own.path_mtu);
	assert_int_equal(c.attr.rq_psn, own.rq_psn);
	assert_int_equal(c.attr.dest_qp_num, own.dest_qp_num);
	assert_int_equal(c.attr.qp_access_flags, own.qp_access_flags);
	assert_memory_equal(&c.attr.av.dgid, &own.av.dgid, sizeof(own.av.dgid));
	assert_int_equal(c.attr.min_rnr_timer, own.min_rnr_timer);
	assert_int_equal(c.attr.max_dest_rd_atomic, own.max_dest_rd_atomic);
	assert_int_equal(c.attr.timeout, own.timeout);
	assert_int_equal(c.attr.port_num, own.port_num);
	assert_int_equal(verb(rig, NIC_XRC_CLOSE).error, 0);
	assert_true(target_exists(rig, rig->target));
	send_one(rig, G);
	share_destroy(rig);
}

static void xrc_call__modify_connects_a_target(void **state)
{
	struct share_rig *rig = share_create(1, true);
	struct nic_qp_attr attr = rig->attr;

	(void)state;
	rig->node[I].mute = true;
	share_connect(rig, 0x123, 0x456); /* for the initiator */
	rig->node[I].mute = false;
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	assert_int_equal(modify(rig, &attr, NIC_QPS_RESET), 0);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RESET);
	attr.rq_psn = 0x123;
	attr.sq_psn = 0x456;
	attr.dest_qp_num = nic_qp_num(rig->node[I].qp);
	attr.av.dgid = rig->node[I].addr.gid;
	assert_int_equal(modify(rig, &attr, NIC_QPS_RTR), -EINVAL);
	assert_int_equal(modify(rig, &attr, NIC_QPS_INIT), 0);
	assert_int_equal(modify(rig, &attr, NIC_QPS_RTR), 0);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RTR);
	send_one(rig, G);
	share_run(rig, SHARE_SECOND);
	assert_true(share_events(rig) & BIT(NIC_EVENT_COMM_EST));
	assert_true(rig->node[G].told & BIT(NIC_EVENT_COMM_EST));
	send_one(rig, O);
	assert_int_equal(modify(rig, &attr, NIC_QPS_ERR), 0);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_ERR);
	assert_int_equal(verb(rig, NIC_XRC_QUERY).attr.qp_state, NIC_QPS_ERR);
	share_destroy(rig);
}

static void xrc_call__an_unknown_target_is_refused(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *o = &rig->node[O];
	const uint32_t numbers[] = {nic_qp_num(o->qp) ^ 1,	   nic_srq_num(o->srq),	       UNKNOWN, 0,
				    nic_srq_num(rig->node[G].srq), nic_qp_num(rig->node[I].qp)};
	struct nic_xrc_call own = {.verb = NIC_XRC_CLOSE, .qpn = nic_qp_num(o->qp)};
	struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT};
	struct nic_qp *other;

	(void)state;
	for (unsigned k = 0; k < 6 * 4; k++) {
		const struct nic_xrc_call c = {.verb = (enum nic_xrc_verb)(k % 4),
					       .qpn = numbers[k / 4],
					       .mask = NIC_QP_STATE,
					       .attr.qp_state = NIC_QPS_ERR};

		assert_int_equal(call(rig, &c).error, -EINVAL);
	}
	assert_int_equal(nic_xrcd_alloc(o->nic, &init.xrcd), 0); /* a domain that is not shared */
	assert_int_equal(nic_qp_create(o->nic, &init, &other), 0);
	for (unsigned k = 0; k < 4; k++) {
		const struct nic_xrc_call c = {.verb = (enum nic_xrc_verb)k,
					       .qpn = nic_qp_num(other),
					       .mask = NIC_QP_STATE,
					       .attr.qp_state = NIC_QPS_ERR};

		assert_int_equal(call(rig, &c).error, -EINVAL);
	}
	nic_xrc_call(o->xrcd, &own);
	assert_true(own.done);
	assert_int_equal(own.error, -EINVAL);
	rig->node[G].banned = true;
	assert_int_not_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	rig->node[G].banned = false;
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RTS);
	send_one(rig, G);
	share_destroy(rig);
}

static void xrc_call__events_reach_those_who_opened_the_target(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct share_rig *rig = share_create(k, false);
		struct nic_send_wr wr = share_wr(rig, k & 1 ? G : O, NIC_WR_RDMA_WRITE, 0, 8, 0);

		if (k & 2)
			assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		wr.rdma.rkey ^= 0x5500;
		assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
		share_expect(&rig->node[I], NIC_WC_REM_ACCESS_ERR);
		share_run(rig, SHARE_SECOND);
		assert_true(share_events(rig) & BIT(NIC_EVENT_QP_ACCESS_ERR));
		assert_int_equal(rig->node[G].told & BIT(NIC_EVENT_QP_ACCESS_ERR),
				 k & 2 ? BIT(NIC_EVENT_QP_ACCESS_ERR) : 0);
		if (k & 2)
			assert_int_equal(rig->node[G].told_qpn, rig->target);
		assert_int_equal(rig->node[O].told, 0);
		share_destroy(rig);
	}
}

/** A NIC is one user, however often it has opened the target. */
static void xrc_call__a_target_lives_as_long_as_it_is_open(void **state)
{
	(void)state;
	for (unsigned times = 0; times < 3; times++) {
		struct share_rig *rig = share_create(times, false);
		struct share_node *o = &rig->node[O];
		uint32_t qpn = rig->target;

		for (unsigned k = 0; k < times; k++)
			assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		assert_int_equal(nic_xrc_target_leave(o->qp), times > 0);
		if (!times)
			assert_int_equal(nic_qp_destroy(o->qp), 0);
		if (times) {
			assert_true(target_exists(rig, qpn));
			send_one(rig, G);
			send_one(rig, O);
			assert_int_equal(verb(rig, NIC_XRC_CLOSE).error, 0);
		}
		assert_false(target_exists(rig, qpn));
		assert_int_equal(verb(rig, NIC_XRC_QUERY).error, -EINVAL);
		assert_int_equal(nic_srq_destroy(o->srq), 0);
		assert_int_equal(nic_xrcd_free(o->xrcd), 0);
		share_destroy(rig);
	}
}

static void xrc_call__events_of_a_target_without_its_creator_name_nobody(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *o = &rig->node[O];
	struct nic_send_wr wr = share_wr(rig, G, NIC_WR_RDMA_WRITE, 0, 8, 0);
	struct nic_event e;

	(void)state;
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	assert_true(nic_xrc_target_leave(o->qp));
	while (nic_event_next(o->nic, &e))
		;
	wr.rdma.rkey ^= 0x5500;
	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
	share_expect(&rig->node[I], NIC_WC_REM_ACCESS_ERR);
	share_run(rig, SHARE_SECOND);
	while (nic_event_next(o->nic, &e))
		assert_null(e.user);
	assert_true(rig->node[G].told & BIT(NIC_EVENT_QP_ACCESS_ERR));
	share_destroy(rig);
}

static void xrc_call__a_target_that_was_left_may_be_joined_again(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *o = &rig->node[O];
	struct nic_send_wr wr = share_wr(rig, G, NIC_WR_RDMA_WRITE, 0, 8, 0);

	(void)state;
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	assert_true(nic_xrc_target_leave(o->qp));
	nic_xrc_target_join(o->qp, &o->qp);
	assert_int_equal(verb(rig, NIC_XRC_CLOSE).error, 0);
	assert_true(target_exists(rig, rig->target));
	send_one(rig, G);
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	wr.rdma.rkey ^= 0x5500;
	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
	share_expect(&rig->node[I], NIC_WC_REM_ACCESS_ERR);
	assert_true(share_events(rig) & BIT(NIC_EVENT_QP_ACCESS_ERR));
	assert_true(nic_xrc_target_leave(o->qp));
	assert_int_equal(verb(rig, NIC_XRC_CLOSE).error, 0);
	assert_false(target_exists(rig, rig->target));
	share_destroy(rig);
}

/* ---- ends ---------------------------------------------------------------------------------------------------------
 */

/** A node leaves as a process does that ends in order; then it may begin anew. */
static void leave(struct share_rig *rig, struct share_node *n)
{
	for (unsigned told = nic_xrc_share_leave(n->nic); told; told = nic_xrc_share_leave(n->nic))
		share_run(rig, SHARE_SECOND / 1000);
	if (n->qp)
		assert_int_equal(nic_qp_destroy(n->qp), 0);
	assert_int_equal(nic_srq_destroy(n->srq), 0);
	assert_int_equal(nic_xrcd_free(n->xrcd), 0);
	share_run(rig, SHARE_SECOND / 1000);
	nic_xrc_share_close(n->nic);
}

static void xrc_call__a_process_may_leave_and_come_back(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct share_rig *rig = share_create(k, k & 1);
		struct nic_send_wr wr = share_wr(rig, G, NIC_WR_SEND, 0, 8, 0);

		if (k & 2)
			send_one(rig, G);
		rig->node[G].hidden = true;
		leave(rig, &rig->node[G]);
		assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
		share_expect(&rig->node[I], NIC_WC_REM_INV_REQ_ERR);
		rig->node[G].hidden = false;
		share_join(&rig->node[G]);
		share_connect(rig, 1, 2);
		send_one(rig, O);
		send_one(rig, G);
		send_one(rig, G);
		share_destroy(rig);
	}
}

static void xrc_call__a_call_ends_if_the_owner_is_gone(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 12; k++) {
		struct share_rig *rig = share_create(k, false);
		struct nic_xrc_call c = {.verb = NIC_XRC_QUERY, .qpn = rig->target};

		if (k & 1)
			assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		if (k & 2)
			share_stop(&rig->node[O]);
		share_drop(&rig->node[O], true);
		rig->node[O].hidden = k >= 8;
		nic_xrc_call(rig->node[G].xrcd, &c);
		if (k >= 4)
			rig->node[O].hidden = true;
		share_run(rig, 60 * SHARE_SECOND);
		assert_true(c.done);
		assert_true(c.error == -ENODEV || (k >= 8 && c.error == -EINVAL));
		share_destroy(rig);
	}
}

/** The owner's process is stopped for a time in which one connection to it is lost, or many: it hears of the CLOSE when
 *  it goes on, and as nobody uses the target any more, destroys it. */
static void xrc_call__an_owner_may_be_stopped_during_a_close(void **state)
{
	static const unsigned seconds[] = {1, 8, 20, 100};

	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct share_rig *rig = share_create(k, false);
		struct nic_xrc_call c = {.verb = NIC_XRC_CLOSE, .qpn = rig->target};
		uint32_t qpn = rig->target;
		struct nic *o = rig->node[O].nic;

		assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		assert_true(nic_xrc_target_leave(rig->node[O].qp));
		rig->node[O].nic = NULL;
		nic_xrc_call(rig->node[G].xrcd, &c);
		share_run(rig, 2 * SHARE_SECOND);
		assert_false(c.done);
		nic_xrc_forget(&c);
		share_run(rig, seconds[k] * SHARE_SECOND);
		rig->node[O].nic = o;
		share_run(rig, 30 * SHARE_SECOND);
		assert_false(target_exists(rig, qpn));
		rig->node[O].qp = NULL;
		share_destroy(rig);
	}
}

/** The owner may have taken the call, and then nothing says that no answer comes. */
static void xrc_call__an_owner_may_end_before_the_answer(void **state)
{
	(void)state;
	for (unsigned packets = 0; packets < 4; packets++) {
		struct share_rig *rig = share_create(packets, false);
		struct nic_xrc_call c = {.verb = NIC_XRC_QUERY, .qpn = rig->target};

		assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		rig->node[O].allowance = packets;
		nic_xrc_call(rig->node[G].xrcd, &c);
		share_run(rig, SHARE_SECOND / 1000);
		share_stop(&rig->node[O]);
		rig->node[O].hidden = rig->node[O].banned = true;
		share_run(rig, 60 * SHARE_SECOND);
		if (!c.done)
			nic_xrc_forget(&c);
		share_destroy(rig);
	}
}

static void xrc_call__a_forgotten_call_is_not_touched(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 40; k++) {
		struct share_rig *rig = share_create(k, false);
		struct nic_xrc_call *c = calloc(1, sizeof(*c));

		assert_non_null(c);
		if (k & 1)
			assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
		c->verb = NIC_XRC_QUERY;
		c->qpn = rig->target;
		nic_xrc_call(rig->node[G].xrcd, c);
		for (unsigned turns = k / 2; turns > 0; turns--)
			share_turn(rig, UINT64_MAX);
		if (!c->done)
			nic_xrc_forget(c);
		free(c);
		if (k % 3 == 0)
			share_stop(&rig->node[O]);
		share_run(rig, 10 * SHARE_SECOND);
		if (k % 3)
			send_one(rig, G);
		share_destroy(rig);
	}
}

static void xrc_call__any_number_of_calls_may_wait(void **state)
{
	enum { CALLS = 3000 };
	struct share_rig *rig = share_create(1, false);
	struct nic_xrc_call *c = calloc(CALLS, sizeof(*c));

	(void)state;
	assert_non_null(c);
	for (unsigned k = 0; k < CALLS; k++) {
		c[k].verb = k % 2 ? NIC_XRC_CLOSE : NIC_XRC_OPEN;
		c[k].qpn = rig->target;
		nic_xrc_call(rig->node[G].xrcd, &c[k]);
	}
	share_run(rig, 10 * SHARE_SECOND);
	for (unsigned k = 0; k < CALLS; k++) {
		assert_true(c[k].done);
		assert_int_equal(c[k].error, 0);
	}
	assert_false(nic_xrc_target_leave(rig->node[O].qp));
	share_destroy(rig);
	free(c);
}

static void xrc_call__calls_end_with_the_share(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G];
	struct nic_xrc_call c[2] = {{.verb = NIC_XRC_OPEN, .qpn = rig->target},
				    {.verb = NIC_XRC_QUERY, .qpn = rig->target}};

	(void)state;
	for (unsigned k = 0; k < 2; k++)
		nic_xrc_call(g->xrcd, &c[k]);
	leave(rig, g);
	for (unsigned k = 0; k < 2; k++)
		assert_true(c[k].done && (c[k].error == 0 || c[k].error == -ENODEV));
	share_join(g);
	nic_xrc_call(g->xrcd, &c[0]);
	share_stop(g);
	assert_true(c[0].done);
	assert_int_equal(c[0].error, -ENODEV);
	share_run(rig, 20 * SHARE_SECOND);
	share_destroy(rig);
}

static void xrc_call__a_process_that_ended_uses_nothing(void **state)
{
	struct share_rig *rig = share_create(1, false);

	(void)state;
	assert_int_equal(verb(rig, NIC_XRC_OPEN).error, 0);
	share_stop(&rig->node[G]);
	rig->node[G].banned = rig->node[G].hidden = true;
	assert_false(nic_xrc_target_leave(rig->node[O].qp));
	share_destroy(rig);
}

static void xrc_call__calls_are_executed_in_order_if_packets_are_lost(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 100; seed++) {
		struct share_rig *rig = share_create(seed, seed & 1);
		struct nic_xrc_call c[4] = {{.verb = NIC_XRC_OPEN},
					    {.verb = NIC_XRC_MODIFY, .mask = NIC_QP_STATE},
					    {.verb = NIC_XRC_QUERY},
					    {.verb = NIC_XRC_CLOSE}};

		rig->lose[1] = rig->twice[1] = 100;
		c[1].attr.qp_state = NIC_QPS_ERR;
		for (unsigned k = 0; k < 4; k++) {
			c[k].qpn = rig->target;
			nic_xrc_call(rig->node[G].xrcd, &c[k]);
		}
		share_run(rig, 60 * SHARE_SECOND);
		for (unsigned k = 0; k < 4; k++) {
			assert_true(c[k].done);
			assert_int_equal(c[k].error, 0);
		}
		assert_int_equal(c[2].attr.qp_state, NIC_QPS_ERR);
		share_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_call__query_returns_the_attributes),
		cmocka_unit_test(xrc_call__modify_connects_a_target),
		cmocka_unit_test(xrc_call__an_unknown_target_is_refused),
		cmocka_unit_test(xrc_call__events_reach_those_who_opened_the_target),
		cmocka_unit_test(xrc_call__a_target_lives_as_long_as_it_is_open),
		cmocka_unit_test(xrc_call__events_of_a_target_without_its_creator_name_nobody),
		cmocka_unit_test(xrc_call__a_target_that_was_left_may_be_joined_again),
		cmocka_unit_test(xrc_call__a_process_may_leave_and_come_back),
		cmocka_unit_test(xrc_call__a_call_ends_if_the_owner_is_gone),
		cmocka_unit_test(xrc_call__an_owner_may_be_stopped_during_a_close),
		cmocka_unit_test(xrc_call__an_owner_may_end_before_the_answer),
		cmocka_unit_test(xrc_call__a_forgotten_call_is_not_touched),
		cmocka_unit_test(xrc_call__any_number_of_calls_may_wait),
		cmocka_unit_test(xrc_call__calls_end_with_the_share),
		cmocka_unit_test(xrc_call__a_process_that_ended_uses_nothing),
		cmocka_unit_test(xrc_call__calls_are_executed_in_order_if_packets_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
