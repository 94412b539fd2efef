/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share_enemy.c - what others send to the endpoints by which NICs share XRC domains does nothing: neither
 * nonsense, nor true messages from a process outside the domain. And a process of the domain that sends nonsense
 * harms nothing but the domain.
 */
#include "share_rig.h"

#include <stdlib.h>

#include "core.h"
#include "event.h"
#include "opcode.h"
#include "share.h"

#define WORD	1024u
#define BUFFER	65536u
#define LONGEST 9000u

/** Requests of all kinds to both. @return how many receives they take, of each. */
static void post_many(struct share_rig *rig, bool all)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND,
						     NIC_WR_RDMA_READ,
						     NIC_WR_RDMA_WRITE,
						     NIC_WR_ATOMIC_FETCH_AND_ADD,
						     NIC_WR_SEND_WITH_IMM,
						     NIC_WR_ATOMIC_CMP_AND_SWP,
						     NIC_WR_RDMA_WRITE_WITH_IMM,
						     NIC_WR_ATOMIC_WRITE};

	for (unsigned k = 0; k < SHARE_WRS; k++) {
		unsigned op = all ? k % 8 : share_random(rig, 8);
		uint32_t len = op == 3 || op == 5 || op == 7 ? 8 : all ? 600 : share_random(rig, 2000);
		struct nic_send_wr wr = share_wr(rig, all ? G : share_random(rig, 2), opcodes[op], 0, len, WORD);

		nic_post_send(rig->node[I].qp, &wr); /* which may have failed */
	}
}

static void post_receives(struct share_rig *rig)
{
	for (unsigned n = O; n <= G; n++)
		for (unsigned k = 0; k < 8; k++)
			share_recv(&rig->node[n], k, BUFFER, 4096);
}

/** Everything works still. */
static void check_works(struct share_rig *rig)
{
	struct nic_wc wc;

	for (unsigned n = O; n <= G; n++) {
		share_fill(rig->node[I].arena, 3000, n);
		share_recv(&rig->node[n], 99, BUFFER, 4096);
		share_post(rig, n, NIC_WR_SEND, 0, 3000, 0);
		share_expect(&rig->node[I], NIC_WC_SUCCESS);
		wc = share_expect(&rig->node[n], NIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 3000);
		assert_true(share_holds(rig->node[n].arena + BUFFER, 3000, n));
	}
}

static void tell(struct share_rig *rig, unsigned to, const void *data, uint32_t len, uint32_t flags)
{
	const struct nic_iov iov = {(void *)(uintptr_t)data, len};
	const struct nic_rdm_send r = {.flags = flags, .iov = &iov, .n_iov = 1};
	struct nic_rdm_peer *peer = nic_rdm_peer_get(rig->node[S].ep, &rig->node[to].addr);
	int rc;

	assert_non_null(peer);
	while ((rc = nic_rdm_send(peer, &r)) == -EAGAIN)
		if (!share_turn(rig, rig->now + 100 * SHARE_SECOND))
			return; /* the endpoint takes no more */
	assert_int_equal(rc, 0);
}

static void xrc_share__nonsense_from_strangers_does_nothing(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 20; seed++) {
		struct share_rig *rig = share_create(seed, seed & 1);
		uint8_t *data = malloc(400 * LONGEST), *p = data;

		assert_non_null(data);
		for (unsigned k = 0; k < 400; k++, p += LONGEST) {
			uint32_t len = k % 20 == 0 ? share_random(rig, LONGEST) : share_random(rig, 300);

			for (uint32_t b = 0; b < len; b++)
				p[b] = (uint8_t)(share_random(rig, 4) ? share_random(rig, 8) : share_random(rig, 256));
			tell(rig, k % 2, p, len, share_random(rig, 8) ? 0 : NIC_RDM_TAGGED);
			if (k % 16 == 0)
				share_run(rig, SHARE_SECOND / 1000);
		}
		share_run(rig, SHARE_SECOND);
		for (unsigned n = O; n <= G; n++) {
			for (uint32_t b = 0; b < SHARE_ARENA; b++)
				assert_int_equal(rig->node[n].arena[b], 0);
			assert_int_equal(nic_cq_count(rig->node[n].cq), 0);
		}
		check_works(rig);
		share_destroy(rig);
		free(data);
	}
}

/** All requests and calls have taken place: their messages are sent again, by a process outside the domain.
 */
static void xrc_share__strangers_cannot_repeat_messages(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct nic_xrc_call c = {.verb = NIC_XRC_OPEN, .qpn = rig->target};
	uint8_t *before;

	(void)state;
	rig->records = true;
	nic_xrc_call(rig->node[G].xrcd, &c);
	post_receives(rig);
	post_many(rig, true);
	assert_true(share_await(rig, rig->node[I].cq, SHARE_WRS, 10 * SHARE_SECOND));
	for (unsigned k = 0; k < SHARE_WRS; k++)
		share_expect(&rig->node[I], NIC_WC_SUCCESS);
	while (nic_cq_count(rig->node[G].cq))
		share_expect(&rig->node[G], NIC_WC_SUCCESS);
	rig->records = false;
	assert_true(rig->n_heard > 3);
	post_receives(rig);
	before = malloc(SHARE_ARENA);
	assert_non_null(before);
	memset(rig->node[G].arena + WORD, 5, 600); /* all that was sent would change */
	memcpy(before, rig->node[G].arena, SHARE_ARENA);
	for (unsigned k = 0; k < rig->n_heard; k++)
		for (uint32_t at = 0; at < 100 && at < rig->heard[k].len; at += 4)
			for (unsigned to = O; to <= G; to++)
				tell(rig, to, rig->heard[k].data + at, rig->heard[k].len - at, 0);
	share_run(rig, 10 * SHARE_SECOND);
	assert_memory_equal(rig->node[G].arena, before, SHARE_ARENA);
	assert_int_equal(nic_cq_count(rig->node[G].cq), 0);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RTS);
	check_works(rig);
	share_destroy(rig);
	free(before);
}

/** A WRITE with immediate data, the only other request that an endpoint reports. */
static void xrc_share__writes_do_nothing(void **state)
{
	const struct nic_rdm_remote remote = {0};
	const struct nic_rdm_rma rma = {.flags = NIC_RDM_DATA, .remote = &remote, .n_remote = 1, .data = 7};

	(void)state;
	for (unsigned member = 0; member < 2; member++) {
		struct share_rig *rig = share_create(1, false);
		struct nic *g = rig->node[G].nic;

		rig->node[S].member = member;
		assert_int_equal(nic_rdm_rma(nic_rdm_peer_get(rig->node[S].ep, &rig->node[G].addr), &rma), 0);
		share_run(rig, SHARE_SECOND);
		assert_int_equal(g->counters[NIC_CNT_xrc_strange], member);
		if (!member) /* the calls of others are ignored: they cannot connect */
			assert_true(g->counters[NIC_CNT_rdm_calls_ignored] > 0);
		check_works(rig);
		share_destroy(rig);
	}
}

static void xrc_share__nonsense_in_messages_crashes_nothing(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 300; seed++) {
		struct share_rig *rig = share_create(seed, seed & 1);
		struct nic_xrc_call c[4] = {{0}};
		struct nic_wc wc;

		rig->damage[1] = 20 + share_random(rig, 300);
		for (unsigned round = 0; round < 4; round++) {
			c[round].verb = (enum nic_xrc_verb)round;
			c[round].qpn = rig->target;
			c[round].mask = share_mask(NIC_QPS_INIT, true);
			c[round].attr.qp_state = NIC_QPS_INIT;
			nic_xrc_call(rig->node[G].xrcd, &c[round]);
			post_receives(rig);
			post_many(rig, false);
			share_run(rig, 10 * SHARE_SECOND);
			while (nic_cq_poll(rig->node[I].cq, 1, &wc) == 1 || nic_cq_poll(rig->node[G].cq, 1, &wc) == 1 ||
			       nic_cq_poll(rig->node[O].cq, 1, &wc) == 1)
				;
			share_connect(rig, share_random(rig, 1 << 24), 7);
		}
		for (unsigned k = 0; k < 4; k++)
			if (!c[k].done)
				nic_xrc_forget(&c[k]);
		share_destroy(rig);
	}
}

/* ---- a process of the domain -------------------------------------------------------------------------------- */

static void rig_done(void *ctx, const struct nic_rdm_done *d)
{
	(void)ctx;
	(void)d;
}

static struct share_rig *create_with_member(void)
{
	struct share_rig *rig = share_create(1, false);

	rig->node[S].member = true;
	return rig;
}

/** S lends a target of this number and state to G, with a packet of a SEND that is expected. */
static void lend(struct share_rig *rig, uint32_t qpn, enum op_pos pos, const struct resp_state *state)
{
	static struct {
		struct xrc_lend m;
		uint8_t packet[XRC_PACKET_MAX];
	} out;
	static const uint8_t payload[SHARE_MTU] = {1};
	const struct share_node *g = &rig->node[G];
	struct packet p;

	memset(&p, 0, sizeof(p));
	p.op = op_find(OP_XRC, OP_SEND, pos, OP_PLAIN);
	p.psn = state->epsn;
	p.xrc_srqn = nic_srq_num(g->srq);
	p.payload = payload;
	p.payload_len = sizeof(payload);
	out.m = (struct xrc_lend){.head = {XRC_VERSION, XRC_LEND, 0, qpn, 5, state->epsn},
				  .domain = g->xrcd->name,
				  .state = *state,
				  .attr = rig->attr};
	out.m.attr.av.dgid = rig->node[I].addr.gid;
	out.m.attr.dest_qp_num = 5;
	tell(rig, G, &out, (uint32_t)sizeof(out.m) + xrc_packet_write(&p, out.packet), 0);
	share_run(rig, SHARE_SECOND / 10);
}

static void xrc_share__a_member_cannot_write_to_a_receive_that_is_over(void **state)
{
	struct share_rig *rig = create_with_member();
	struct share_node *g = &rig->node[G];
	struct resp_state s = {.epsn = 5, .srqn = nic_srq_num(g->srq), .open = RESP_NOT_OPEN};
	uint32_t qpn = nic_qp_num(rig->node[O].qp) + ((S - O) << 16);

	(void)state;
	for (unsigned k = 1; k <= 4; k++)
		share_recv(g, k, BUFFER + k * 1024, 1024);
	lend(rig, qpn, OP_ONLY, &s);
	assert_int_equal(share_expect(g, NIC_WC_SUCCESS).wr_id, 1);
	memset(g->arena + BUFFER, 0, 8 * 1024);
	for (unsigned k = 0; k < 2; k++) {
		s.epsn++;
		s.open = op_find(OP_XRC, OP_SEND, OP_FIRST, OP_PLAIN)->value;
		lend(rig, qpn, k ? OP_LAST : OP_MIDDLE, &s);
		for (unsigned b = 0; b < 8 * 1024; b++)
			assert_int_equal(g->arena[BUFFER + b], 0);
		assert_int_equal(nic_cq_count(g->cq), 0);
	}
	s = (struct resp_state){
		.epsn = 50, .srqn = s.srqn, .open = RESP_NOT_OPEN}; /* now with a receive, but too far */
	lend(rig, qpn, OP_FIRST, &s);
	assert_int_equal(g->arena[BUFFER + 2 * 1024], 1);
	s.epsn++;
	s.open = op_find(OP_XRC, OP_SEND, OP_FIRST, OP_PLAIN)->value;
	s.received = UINT64_MAX - SHARE_MTU / 2;
	lend(rig, qpn, OP_MIDDLE, &s);
	for (unsigned b = SHARE_MTU; b < 6 * 1024; b++)
		assert_int_equal(g->arena[BUFFER + 2 * 1024 + b], 0);
	share_destroy(rig);
}

/** Let I's next request be lent to S, which receives the LEND. */
static void lend_to_member(struct share_rig *rig, struct xrc_lend *lend)
{
	static uint8_t room[XRC_MSG_MAX];
	const struct nic_iov iov = {room, sizeof(room)};
	struct nic_send_wr wr = share_wr(rig, O, NIC_WR_SEND, 0, 100, 0);

	wr.srqn = nic_srq_num(rig->node[O].srq) + ((S - O) << 16);
	assert_int_equal(
		nic_rdm_recv(rig->node[S].ep, &(struct nic_rdm_recv){.context = room, .iov = &iov, .n_iov = 1}), 0);
	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
	share_run(rig, SHARE_SECOND / 100);
	memcpy(lend, room, sizeof(*lend));
	assert_int_equal(lend->head.kind, XRC_LEND);
}

/** A state with a SEND in progress to the owner's SRQ would have the owner write to its last receive again. */
static void xrc_share__a_member_cannot_return_a_receive_of_the_owner(void **state)
{
	struct share_rig *rig = create_with_member();
	struct share_node *o = &rig->node[O];
	struct xrc_return ret = {.verdict = XRC_DONE};
	struct xrc_lend lend;

	(void)state;
	share_recv(o, 1, BUFFER, 1024);
	share_post(rig, O, NIC_WR_SEND, 0, 100, 0);
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_expect(o, NIC_WC_SUCCESS);
	lend_to_member(rig, &lend);
	ret.head = lend.head;
	ret.head.kind = XRC_RETURN;
	ret.state = lend.state;
	ret.state.epsn++;
	ret.state.open = op_find(OP_XRC, OP_SEND, OP_FIRST, OP_PLAIN)->value;
	ret.state.srqn = nic_srq_num(o->srq);
	ret.state.received = 300;
	tell(rig, O, &ret, sizeof(ret), 0);
	share_expect(&rig->node[I], NIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(nic_qp_state(o->qp), NIC_QPS_ERR);
	share_destroy(rig);
}

/** The owner asks again, and a member that does not answer then keeps only its own request from being executed. */
static void xrc_share__a_member_that_does_not_answer_is_asked_again(void **state)
{
	struct share_rig *rig = create_with_member();
	struct share_node *o = &rig->node[O];
	struct xrc_return ret = {.verdict = XRC_NO_MEMORY};
	struct xrc_lend lend, again;

	(void)state;
	rig->attr.timeout = 0;
	share_connect(rig, 5, 7);
	lend_to_member(rig, &lend);
	assert_int_equal(lend.head.copy, 0);
	share_run(rig, SHARE_SECOND);
	{
		static uint8_t room[XRC_MSG_MAX];
		const struct nic_iov iov = {room, sizeof(room)};

		nic_rdm_recv(rig->node[S].ep, &(struct nic_rdm_recv){.context = room, .iov = &iov, .n_iov = 1});
		share_run(rig, 10 * SHARE_SECOND);
		memcpy(&again, room, sizeof(again));
	}
	assert_true(again.head.copy > 0);
	again.head.copy = 0;
	assert_memory_equal(&again, &lend, sizeof(lend));
	ret.head = lend.head;
	ret.head.kind = XRC_RETURN;
	tell(rig, O, &ret, sizeof(ret), 0);
	share_run(rig, SHARE_SECOND / 100);
	assert_non_null(o->qp->lent->borrower); /* this was the answer to the first copy */
	ret.head.copy = o->qp->lent->copy;
	tell(rig, O, &ret, sizeof(ret), 0);
	share_run(rig, SHARE_SECOND / 100);
	assert_null(o->qp->lent->borrower);
	share_destroy(rig);
}

static void xrc_share__a_member_cannot_take_the_qpns_of_others(void **state)
{
	struct share_rig *rig = create_with_member();
	const struct resp_state s = {.epsn = 5, .open = RESP_NOT_OPEN};
	struct nic_rdm_init init = {.pd = rig->node[G].pd, .addr = rig->node[G].addr, .done = rig_done};
	struct nic_rdm *ep;

	(void)state;
	init.addr.port = 200;
	share_recv(&rig->node[G], 1, BUFFER, 1024);
	lend(rig, NIC_SERVICE_QPN | init.addr.port, OP_ONLY, &s);
	assert_int_equal(nic_cq_count(rig->node[G].cq), 0);
	assert_int_equal(nic_rdm_create(rig->node[G].nic, &init, &ep), 0);
	share_destroy(rig);
}

/** S tells G of events of every type. */
static void tell_events(struct share_rig *rig, uint32_t qpn)
{
	static struct xrc_event out[70];

	for (uint32_t type = 0; type < 70; type++) {
		out[type] = (struct xrc_event){.head = {.version = XRC_VERSION, .kind = XRC_EVENT, .qpn = qpn},
					       .domain = rig->node[G].xrcd->name,
					       .type = type};
		tell(rig, G, &out[type], sizeof(out[type]), 0);
	}
	share_run(rig, SHARE_SECOND);
}

static void xrc_share__a_member_tells_only_events_of_its_targets(void **state)
{
	struct share_rig *rig = create_with_member();
	uint32_t of_owner = nic_qp_num(rig->node[O].qp), of_member = of_owner + ((S - O) << 16);

	(void)state;
	tell_events(rig, of_owner);
	assert_int_equal(rig->node[G].told, 0);
	tell_events(rig, of_member);
	assert_int_equal(rig->node[G].told, RESP_EVENTS);
	assert_int_equal(rig->node[G].told_qpn, of_member);
	share_destroy(rig);
}

/** S has no room for messages from now on. */
static void stop_receiving(struct share_rig *rig)
{
	struct share_node *s = &rig->node[S];
	const struct nic_rdm_init init = {
		.pd = s->pd, .addr = s->addr, .max_unexpected = 1, .done = rig_done, .ctx = rig};

	nic_rdm_destroy(s->ep);
	assert_int_equal(nic_rdm_create(s->nic, &init, &s->ep), 0);
}

/** S makes calls about O's target. */
static void ask(struct share_rig *rig, unsigned n)
{
	static struct xrc_call out;

	out = (struct xrc_call){
		.head = {.version = XRC_VERSION, .kind = XRC_CALL, .qpn = rig->target},
		.domain = rig->node[O].xrcd->name,
		.verb = NIC_XRC_QUERY,
	};
	for (unsigned k = 0; k < n; k++)
		tell(rig, O, &out, sizeof(out), 0);
}

static void xrc_share__a_member_that_does_not_receive_holds_up_nobody(void **state)
{
	struct share_rig *rig = create_with_member();
	uint64_t begun;

	(void)state;
	stop_receiving(rig);
	ask(rig, 4000); /* more than the endpoint can have in flight */
	begun = rig->now;
	check_works(rig);
	assert_true(rig->now - begun < SHARE_SECOND); /* long before the connection to S is given up */
	assert_true(xrc_unsent(nic_rdm_peer_find(rig->node[O].nic->xrc_share->rdm, &rig->node[S].addr)) > 1000);
	share_destroy(rig);
}

/** A message that is to be fetched would hold a receive until the sender lets it go. */
static void xrc_share__a_member_cannot_hold_the_receives(void **state)
{
	static uint8_t data[LONGEST];
	struct share_rig *rig = create_with_member();
	uint64_t begun;

	(void)state;
	tell(rig, O, data, 1, 0);
	share_run(rig, SHARE_SECOND); /* the NICs connect */
	rig->node[S].deaf = true;
	for (unsigned k = 0; k < 2 * XRC_BUFFERS; k++)
		tell(rig, O, data, sizeof(data), 0);
	share_run(rig, SHARE_SECOND / 1000);
	begun = rig->now;
	check_works(rig);
	assert_true(rig->now - begun < SHARE_SECOND);
	share_destroy(rig);
}

/** A member has as many QPNs as it lends targets; each takes a QP of the guest's NIC, which needs some itself. */
static void xrc_share__a_member_cannot_take_all_qps(void **state)
{
	struct share_rig *rig = create_with_member();
	struct nic *g = rig->node[G].nic;
	const struct resp_state s = {.epsn = 5, .srqn = nic_srq_num(rig->node[G].srq), .open = RESP_NOT_OPEN};
	uint32_t qpn = nic_qp_num(rig->node[O].qp) + ((S - O) << 16);

	(void)state;
	g->cfg.limits.max_qp = 20;
	for (unsigned k = 0; k < 30; k++)
		lend(rig, qpn + k, OP_FIRST, &s);
	assert_int_equal(g->xrc_share->n_guests, 10);
	assert_true(g->n_qp < 20);
	share_destroy(rig);
}

static void xrc_share__a_member_that_does_not_receive_is_not_heard_for_ever(void **state)
{
	struct share_rig *rig = create_with_member();
	const struct nic *o = rig->node[O].nic;

	(void)state;
	stop_receiving(rig);
	ask(rig, XRC_UNSENT_MAX + 2000);
	assert_true(o->counters[NIC_CNT_xrc_unheard] > 500);
	check_works(rig);
	assert_true(xrc_unsent(nic_rdm_peer_find(o->xrc_share->rdm, &rig->node[S].addr)) <= XRC_UNSENT_MAX);
	rig->node[S].deaf = true;
	share_run(rig, 40 * SHARE_SECOND); /* the connection is lost twice */
	assert_int_equal(xrc_unsent(nic_rdm_peer_find(o->xrc_share->rdm, &rig->node[S].addr)), 0);
	check_works(rig);
	share_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_share__nonsense_from_strangers_does_nothing),
		cmocka_unit_test(xrc_share__strangers_cannot_repeat_messages),
		cmocka_unit_test(xrc_share__writes_do_nothing),
		cmocka_unit_test(xrc_share__nonsense_in_messages_crashes_nothing),
		cmocka_unit_test(xrc_share__a_member_cannot_write_to_a_receive_that_is_over),
		cmocka_unit_test(xrc_share__a_member_cannot_return_a_receive_of_the_owner),
		cmocka_unit_test(xrc_share__a_member_that_does_not_answer_is_asked_again),
		cmocka_unit_test(xrc_share__a_member_cannot_take_the_qpns_of_others),
		cmocka_unit_test(xrc_share__a_member_tells_only_events_of_its_targets),
		cmocka_unit_test(xrc_share__a_member_cannot_hold_the_receives),
		cmocka_unit_test(xrc_share__a_member_cannot_take_all_qps),
		cmocka_unit_test(xrc_share__a_member_that_does_not_receive_holds_up_nobody),
		cmocka_unit_test(xrc_share__a_member_that_does_not_receive_is_not_heard_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
