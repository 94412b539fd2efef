/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share_many.c - NICs that share an XRC domain and lend to each other at the same time, for several targets;
 * and what the network or a process that begins anew does to them.
 */
#include "share_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "share.h"

#define PAIRS	 4u
#define EACH	 60u /* requests of an initiator */
#define SERIES	 100u
#define FROM	 0u
#define WORD	 32768u
#define BUFFER	 65536u
#define LONGEST	 2048u
#define RECVS	 32u
#define PATIENCE (600 * SHARE_SECOND)

/* ---- several targets, of both NICs --------------------------------------------------------------------------------
 */

static struct {
	struct share_rig *rig;
	struct nic_qp *target[PAIRS], *initiator[PAIRS];
	uint32_t posted[PAIRS], completed[PAIRS];
	uint32_t sent[PAIRS][2], arrived[PAIRS][2]; /* SENDs, by receiver */
	uint64_t sum[2];
} t;

static uint32_t pick(uint32_t below)
{
	return share_random(t.rig, below);
}

static void post(unsigned k)
{
	uint32_t slot = FROM + (k * 8 + t.posted[k] % 8) * LONGEST, len = 8 + pick(LONGEST - 7);
	enum nic_wr_opcode opcode =
		(enum nic_wr_opcode[]){NIC_WR_SEND, NIC_WR_RDMA_READ, NIC_WR_ATOMIC_FETCH_AND_ADD}[pick(3)];
	unsigned to = pick(2);
	struct nic_send_wr wr =
		share_wr(t.rig, to, opcode, slot, opcode == NIC_WR_ATOMIC_FETCH_AND_ADD ? 8 : len, WORD);
	uint8_t *data = t.rig->node[I].arena + slot;

	wr.wr_id = t.posted[k]++;
	if (opcode == NIC_WR_SEND) {
		share_fill(data, len, (uint32_t)wr.wr_id);
		memcpy(data, &(uint32_t[]){k, t.sent[k][to]++}, 8);
	} else if (opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr.atomic.compare_add = 1 + pick(9);
		t.sum[to] += wr.atomic.compare_add;
	} else {
		wr.rdma.remote_addr += 8;
	}
	assert_int_equal(nic_post_send(t.initiator[k], &wr), 0);
}

static void take_completions(void)
{
	struct nic_wc wc;
	uint32_t id[2];

	for (unsigned n = O; n <= G; n++)
		while (nic_cq_poll(t.rig->node[n].cq, 1, &wc) == 1) {
			uint32_t at = BUFFER + (uint32_t)wc.wr_id * LONGEST;

			assert_int_equal(wc.status, NIC_WC_SUCCESS);
			memcpy(id, t.rig->node[n].arena + at, 8);
			assert_in_range(id[0], 0, PAIRS - 1);
			assert_int_equal(wc.qp_num, nic_qp_num(t.target[id[0]]));
			assert_int_equal(id[1], t.arrived[id[0]][n]++);
			share_recv(&t.rig->node[n], wc.wr_id, at, LONGEST);
		}
	while (nic_cq_poll(t.rig->node[I].cq, 1, &wc) == 1)
		for (unsigned k = 0; k < PAIRS; k++)
			if (nic_qp_num(t.initiator[k]) == wc.qp_num) {
				assert_int_equal(wc.status, NIC_WC_SUCCESS);
				assert_int_equal(wc.wr_id, t.completed[k]++);
			}
}

static void open_all(uint64_t seed)
{
	memset(&t, 0, sizeof(t));
	t.rig = share_create(seed, seed & 1);
	t.rig->attr.timeout = 17;
	for (unsigned k = 0; k < PAIRS; k++) {
		t.target[k] = share_target(&t.rig->node[k % 2 ? G : O]);
		t.initiator[k] = share_initiator(&t.rig->node[I]);
		share_connect_pair(t.rig, k % 2 ? G : O, t.target[k], t.initiator[k], pick(1 << 24), pick(1 << 24));
	}
	for (unsigned n = O; n <= G; n++)
		for (uint32_t k = 0; k < RECVS; k++)
			share_recv(&t.rig->node[n], k, BUFFER + k * LONGEST, LONGEST);
	t.rig->lose[0] = t.rig->twice[0] = seed % 3 ? 50 : 0;
	t.rig->lose[1] = t.rig->twice[1] = seed % 3 == 2 ? 30 : 0;
}

static void run(uint64_t seed)
{
	uint32_t completed = 0;
	uint64_t until;

	open_all(seed);
	until = t.rig->now + PATIENCE;
	while (completed < PAIRS * EACH) {
		for (unsigned k = 0; k < PAIRS; k++)
			while (t.posted[k] < EACH && t.posted[k] < t.completed[k] + 8 && pick(2))
				post(k);
		if (!share_turn(t.rig, until))
			t.rig->now += 100000;
		assert_true(t.rig->now < until);
		take_completions();
		completed = 0;
		for (unsigned k = 0; k < PAIRS; k++)
			completed += t.completed[k];
	}
	share_run(t.rig, 10 * SHARE_SECOND);
	take_completions();
	assert_memory_equal(t.arrived, t.sent, sizeof(t.sent));
	for (unsigned n = O; n <= G; n++)
		assert_int_equal(share_word(&t.rig->node[n], WORD), t.sum[n]);
	share_destroy(t.rig);
}

static uint64_t seed_now;

static int teardown(void **state)
{
	(void)state;
	if (seed_now) /* the seed of the failed run */
		fprintf(stderr, "SHARE_SEED=%llu\n", (unsigned long long)seed_now);
	seed_now = 0;
	return 0;
}

static void xrc_share__nics_lend_to_each_other(void **state)
{
	const char *one = getenv("SHARE_SEED"), *many = getenv("SHARE_SEEDS");
	uint64_t from = one ? strtoull(one, NULL, 0) : 1;
	uint64_t to = one ? from : many ? strtoull(many, NULL, 0) : SERIES;

	(void)state;
	for (seed_now = from; seed_now <= to; seed_now++)
		run(seed_now);
	seed_now = 0;
}

/* ---- what may happen ----------------------------------------------------------------------------------------------
 */

/** A SEND, which may flush the receive of a message that was never completed. @return its status. */
static uint32_t try_one(struct share_rig *rig, unsigned to, uint32_t seed)
{
	struct share_node *n = &rig->node[to], *i = &rig->node[I];
	struct nic_wc wc;
	uint32_t status, arrived = 0;

	share_fill(i->arena + FROM, 1000, seed);
	share_recv(n, seed, BUFFER, LONGEST);
	share_post(rig, to, NIC_WR_SEND, FROM, 1000, 0);
	assert_true(share_await(rig, i->cq, 1, 60 * SHARE_SECOND));
	nic_cq_poll(i->cq, 1, &wc);
	status = wc.status;
	for (; nic_cq_poll(n->cq, 1, &wc) == 1; arrived += wc.status == NIC_WC_SUCCESS)
		assert_true(wc.status == NIC_WC_SUCCESS || wc.status == NIC_WC_WR_FLUSH_ERR);
	if (status == NIC_WC_SUCCESS) {
		assert_int_equal(arrived, 1);
		assert_true(share_holds(n->arena + BUFFER, 1000, seed));
	}
	return status;
}

/** O and G do not hear from each other for a while. */
static void xrc_share__a_network_may_part_and_join(void **state)
{
	static const uint32_t times[] = {1, 5, 8, 20, 60};

	(void)state;
	for (unsigned k = 0; k < 6 * 5; k++) {
		struct share_rig *rig = share_create(k, false);
		struct share_node *g = &rig->node[G], *i = &rig->node[I];
		struct nic_wc wc;

		rig->attr.timeout = 18;
		share_connect(rig, 1, 2);
		if (k & 1)
			assert_int_equal(try_one(rig, G, 1), NIC_WC_SUCCESS);
		if (k / 2 % 3 == 2)
			g->allowance = 1; /* G tells that it has the message, and no more */
		else
			share_drop(g, true);
		g->deaf = k / 2 % 3 == 1;
		share_recv(g, 7, BUFFER, LONGEST);
		share_post(rig, G, NIC_WR_SEND, FROM, 1000, 0);
		share_run(rig, times[k / 6] * SHARE_SECOND);
		share_drop(g, false);
		share_run(rig, 60 * SHARE_SECOND);
		assert_int_equal(nic_cq_poll(i->cq, 1, &wc), 1);
		assert_true(wc.status == NIC_WC_SUCCESS || wc.status == NIC_WC_RETRY_EXC_ERR ||
			    wc.status == NIC_WC_REM_INV_REQ_ERR);
		if (times[k / 6] < 2)
			assert_int_equal(wc.status, NIC_WC_SUCCESS);
		share_connect(rig, 3, 4);
		share_run(rig, SHARE_SECOND);
		while (nic_cq_count(g->cq))
			nic_cq_poll(g->cq, 1, &wc);
		assert_int_equal(try_one(rig, O, 2), NIC_WC_SUCCESS);
		assert_int_equal(try_one(rig, G, 5), NIC_WC_SUCCESS);
		share_destroy(rig);
	}
}

/** The connection is lost, and then the guest has no memory for some time: the request is executed in the end. */
static void xrc_share__a_lost_request_may_be_refused_for_memory(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct nic *g = rig->node[G].nic;
	uint32_t max_qp = g->cfg.limits.max_qp;

	(void)state;
	rig->attr.timeout = 21;
	share_connect(rig, 5, 7);
	share_drop(&rig->node[G], true);
	share_post(rig, G, NIC_WR_RDMA_READ, FROM, 100, WORD);
	share_run(rig, 10 * SHARE_SECOND + SHARE_SECOND / 2);
	g->cfg.limits.max_qp = g->n_qp + 1;
	share_drop(&rig->node[G], false);
	share_run(rig, SHARE_SECOND);
	g->cfg.limits.max_qp = max_qp;
	assert_true(share_await(rig, rig->node[I].cq, 1, 200 * SHARE_SECOND));
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_destroy(rig);
}

/** Copies of a request are lost with a connection, and the guest has no memory for one of those that follow: none is
 *  executed after another. */
static void xrc_share__copies_are_executed_once(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct nic *g = rig->node[G].nic;
	uint32_t max_qp = g->cfg.limits.max_qp;
	struct nic_send_wr wr = share_wr(rig, G, NIC_WR_ATOMIC_FETCH_AND_ADD, FROM, 8, WORD);
	uint64_t until;

	(void)state;
	rig->attr.timeout = 19;
	share_connect(rig, 5, 7);
	share_drop(&rig->node[G], true);
	wr.atomic.compare_add = 1;
	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
	share_run(rig, 10 * SHARE_SECOND + SHARE_SECOND / 2);
	g->cfg.limits.max_qp = g->n_qp + 1; /* for the connection */
	share_drop(&rig->node[G], false);
	until = rig->now + 100 * SHARE_SECOND;
	while (!nic_cq_count(rig->node[I].cq) && share_turn(rig, until))
		if (!list_empty(&g->xrc_share->sent)) /* a refusal */
			g->cfg.limits.max_qp = max_qp;
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	assert_int_equal(g->cfg.limits.max_qp, max_qp);
	assert_int_equal(share_word(&rig->node[G], WORD), 1);
	share_destroy(rig);
}

/** The guest's process is stopped until the owner has given it up, or has reset the targets: it ends its guests as soon
 *  as it goes on. */
static void guests_end(unsigned n, bool reset, unsigned seconds)
{
	struct share_rig *rig = share_create(n, false);
	struct share_node *node = &rig->node[G];
	struct list *guests = &node->nic->xrc_share->guests;
	struct nic_qp *target[PAIRS], *initiator[PAIRS];
	struct nic_send_wr wr = share_wr(rig, G, NIC_WR_RDMA_READ, FROM, 8, WORD);
	struct nic *g = node->nic;

	rig->attr.timeout = 21;
	for (unsigned k = 0; k < n; k++) {
		target[k] = share_target(&rig->node[O]);
		initiator[k] = share_initiator(&rig->node[I]);
		share_connect_pair(rig, O, target[k], initiator[k], 5, 7);
		assert_int_equal(nic_post_send(initiator[k], &wr), 0);
		share_run(rig, SHARE_SECOND / 10);
	}
	assert_false(list_empty(guests));
	node->nic = NULL;
	for (unsigned k = 0; k < n; k++)
		if (reset)
			share_modify(target[k], &rig->attr, NIC_QPS_RESET, true);
		else
			assert_int_equal(nic_post_send(initiator[k], &wr), 0);
	share_run(rig, seconds * SHARE_SECOND);
	for (unsigned k = 0; k < n; k++)
		assert_int_equal(nic_qp_state(target[k]), reset ? NIC_QPS_RESET : NIC_QPS_ERR);
	node->nic = g;
	share_run(rig, 30 * SHARE_SECOND);
	assert_true(list_empty(guests));
	assert_int_equal(node->nic->xrc_share->n_guests, 0);
	share_destroy(rig);
}

static void xrc_share__guests_end_when_they_were_given_up(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= PAIRS; n++) {
		guests_end(n, false, 20);
		guests_end(n, false, 100);
		guests_end(n, true, 20);
		guests_end(n, true, 100);
	}
}

/** While messages that must arrive wait for a stopped process, and connections to it are lost again and again, a new
 *  request still has a whole connection before it is given up. */
static void xrc_share__new_requests_are_tried(void **state)
{
	enum { TARGETS = XRC_FLIGHT + 2 };

	(void)state;
	for (unsigned seconds = 1; seconds < 60; seconds += 2) {
		struct share_rig *rig = share_create(seconds, false);
		struct nic_qp *target[TARGETS], *initiator[TARGETS];
		struct nic_send_wr wr = share_wr(rig, G, NIC_WR_RDMA_READ, FROM, 8, WORD);
		struct nic *g = rig->node[G].nic;

		rig->attr.timeout = 21;
		for (unsigned k = 0; k < TARGETS; k++) {
			target[k] = share_target(&rig->node[O]);
			initiator[k] = share_initiator(&rig->node[I]);
			share_connect_pair(rig, O, target[k], initiator[k], 5, 7);
			assert_int_equal(nic_post_send(initiator[k], &wr), 0);
			share_run(rig, SHARE_SECOND / 100);
		}
		rig->node[G].nic = NULL;
		for (unsigned k = 1; k < TARGETS; k++)
			share_modify(target[k], &rig->attr, NIC_QPS_RESET, true);
		share_run(rig, seconds * SHARE_SECOND);
		assert_int_equal(nic_post_send(initiator[0], &wr), 0);
		share_run(rig, 5 * SHARE_SECOND);
		assert_int_equal(nic_qp_state(target[0]), NIC_QPS_RTS);
		rig->node[G].nic = g;
		share_destroy(rig);
	}
}

/** Messages that must arrive are not kept for a process that does not share the domain any more. */
static void xrc_share__nothing_is_kept_for_a_process_that_has_ended(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G];

	(void)state;
	assert_int_equal(try_one(rig, G, 1), NIC_WC_SUCCESS);
	share_drop(g, true);
	share_modify(rig->node[O].qp, &rig->attr, NIC_QPS_RESET, true);
	share_run(rig, 40 * SHARE_SECOND);
	g->banned = true;
	share_run(rig, 40 * SHARE_SECOND);
	assert_true(list_empty(&rig->node[O].nic->xrc_share->sent));
	assert_int_equal(xrc_unsent(nic_rdm_peer_find(rig->node[O].nic->xrc_share->rdm, &g->addr)), 0);
	share_destroy(rig);
}

/** While the owner's process is stopped, all responses that the guest may send are lost with two connections. */
static void xrc_share__responses_may_be_lost(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct xrc_share *share = rig->node[G].nic->xrc_share;
	struct nic *o = rig->node[O].nic;

	(void)state;
	rig->attr.timeout = 21;
	share_connect(rig, 5, 7);
	share_post(rig, G, NIC_WR_RDMA_READ, FROM, 30000, WORD);
	while (list_empty(&share->guests))
		share_step(rig);
	rig->node[O].nic = NULL;
	share_run(rig, 40 * SHARE_SECOND); /* lose three connections: some responses are first sent by the second */
	rig->node[O].nic = o;
	assert_true(share_await(rig, rig->node[I].cq, 1, 600 * SHARE_SECOND));
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_run(rig, SHARE_SECOND);
	assert_int_equal(try_one(rig, G, 5), NIC_WC_SUCCESS);
	share_destroy(rig);
}

/** The guest's process closes the domain while a request is lent to it, and opens it again. What was executed is not
 *  executed again. */
static void xrc_share__a_domain_may_be_opened_again(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G];
	struct xrc_share *share = g->nic->xrc_share;
	const struct nic_xrc_name name = g->xrcd->name;

	(void)state;
	rig->attr.timeout = 0;
	share_connect(rig, 5, 7);
	share_post(rig, G, NIC_WR_RDMA_READ, FROM, 30000, WORD);
	while (list_empty(&share->guests))
		share_step(rig);
	assert_int_equal(nic_srq_destroy(g->srq), 0);
	assert_int_equal(nic_xrcd_free(g->xrcd), 0);
	assert_int_equal(nic_xrcd_alloc(g->nic, &g->xrcd), 0);
	nic_xrcd_share(g->xrcd, &name);
	assert_int_equal(nic_srq_create_xrc(g->pd, g->xrcd, g->cq, 64, 4, 0, NULL, &g->srq), 0);
	assert_true(share_await(rig, rig->node[I].cq, 1, 60 * SHARE_SECOND));
	share_expect(&rig->node[I], NIC_WC_REM_INV_REQ_ERR);
	share_connect(rig, 8, 9);
	share_run(rig, SHARE_SECOND);
	assert_true(list_empty(&share->late));
	assert_int_equal(try_one(rig, G, 5), NIC_WC_SUCCESS);
	share_destroy(rig);
}

static void xrc_share__a_guest_may_begin_anew(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct share_rig *rig = share_create(k, k & 1);

		assert_int_equal(try_one(rig, G, 1), NIC_WC_SUCCESS);
		if (k & 2) {
			rig->node[I].allowance = 2;
			share_post(rig, G, NIC_WR_RDMA_READ, FROM, 30000, 0);
			share_run(rig, 1000);
		}
		share_restart(&rig->node[G]);
		share_drop(&rig->node[I], false);
		if (k & 2) {
			assert_true(share_await(rig, rig->node[I].cq, 1, 60 * SHARE_SECOND));
			nic_cq_poll(rig->node[I].cq, 1, &(struct nic_wc){0});
			share_connect(rig, 8, 9);
		}
		assert_int_equal(try_one(rig, G, 5), NIC_WC_SUCCESS);
		assert_int_equal(try_one(rig, O, 6), NIC_WC_SUCCESS);
		share_destroy(rig);
	}
}

static void xrc_share__an_owner_may_begin_anew(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct share_rig *rig = share_create(k, k & 1);
		struct share_node *o = &rig->node[O];

		assert_int_equal(try_one(rig, G, 1), NIC_WC_SUCCESS);
		if (k & 2) {
			share_recv(&rig->node[G], 1, BUFFER, LONGEST);
			rig->node[I].allowance = 2;
			share_post(rig, G, NIC_WR_SEND, FROM, 2000, 0);
			share_run(rig, SHARE_SECOND / 100);
		}
		share_restart(o);
		o->qp = share_target(o);
		share_drop(&rig->node[I], false);
		share_connect(rig, 5, 6);
		assert_int_equal(try_one(rig, G, 5), NIC_WC_SUCCESS);
		assert_int_equal(try_one(rig, O, 6), NIC_WC_SUCCESS);
		share_destroy(rig);
	}
}

/** Send to an SRQ of node `to` until its CQ is full and one message more. @return the target's events. */
static uint64_t overflow(unsigned to)
{
	struct share_rig *rig = share_create(to, false);
	struct share_node *n = &rig->node[to];
	struct nic_cq *cq;
	struct nic_wc wc;
	uint64_t events;

	assert_int_equal(nic_cq_create(n->nic, 4, NULL, &cq), 0);
	assert_int_equal(nic_srq_create_xrc(n->pd, n->xrcd, cq, 64, 4, 0, NULL, &n->srq), 0);
	for (uint32_t k = 0; k <= nic_cq_depth(cq); k++) {
		assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RTS);
		share_recv(n, k, BUFFER, LONGEST);
		share_post(rig, to, NIC_WR_SEND, FROM, 8, 0);
		assert_true(share_await(rig, rig->node[I].cq, 1, 60 * SHARE_SECOND));
		nic_cq_poll(rig->node[I].cq, 1, &wc);
	}
	share_run(rig, SHARE_SECOND);
	events = share_events(rig) & ~(1ull << NIC_EVENT_COMM_EST);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_ERR);
	share_destroy(rig);
	return events | (uint64_t)wc.status << 32;
}

static void xrc_share__an_overflowed_cq_ends_the_connection(void **state)
{
	(void)state;
	assert_int_equal(overflow(G), overflow(O));
}

/* ---- what is left behind --------------------------------------------------------------------------------------- */

static void xrc_share__a_target_ends_when_its_last_user_has_ended(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct nic_xrc_call open = {.verb = NIC_XRC_OPEN, .qpn = rig->target};
	struct share_node *o = &rig->node[O], *g = &rig->node[G];

	(void)state;
	nic_xrc_call(g->xrcd, &open);
	share_run(rig, SHARE_SECOND);
	assert_true(open.done);
	assert_int_equal(open.error, 0);
	assert_true(nic_xrc_target_leave(o->qp));
	share_run(rig, 20 * SHARE_SECOND);
	assert_non_null(nic_xrc_target(o->xrcd, rig->target));
	g->banned = true;
	share_run(rig, 20 * SHARE_SECOND);
	assert_null(nic_xrc_target(o->xrcd, rig->target));
	share_destroy(rig);
}

static void xrc_share__a_receive_is_flushed_when_the_owner_has_ended(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G];

	(void)state;
	rig->node[I].allowance = 1;
	share_recv(g, 7, BUFFER, LONGEST);
	share_post(rig, G, NIC_WR_SEND, FROM, 1000, 0);
	share_run(rig, SHARE_SECOND);
	rig->node[O].banned = true;
	share_run(rig, 20 * SHARE_SECOND);
	assert_int_equal(share_expect(g, NIC_WC_WR_FLUSH_ERR).wr_id, 7);
	share_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(xrc_share__nics_lend_to_each_other, teardown),
		cmocka_unit_test(xrc_share__a_network_may_part_and_join),
		cmocka_unit_test(xrc_share__a_lost_request_may_be_refused_for_memory),
		cmocka_unit_test(xrc_share__copies_are_executed_once),
		cmocka_unit_test(xrc_share__guests_end_when_they_were_given_up),
		cmocka_unit_test(xrc_share__new_requests_are_tried),
		cmocka_unit_test(xrc_share__nothing_is_kept_for_a_process_that_has_ended),
		cmocka_unit_test(xrc_share__responses_may_be_lost),
		cmocka_unit_test(xrc_share__a_domain_may_be_opened_again),
		cmocka_unit_test(xrc_share__a_guest_may_begin_anew),
		cmocka_unit_test(xrc_share__an_owner_may_begin_anew),
		cmocka_unit_test(xrc_share__an_overflowed_cq_ends_the_connection),
		cmocka_unit_test(xrc_share__a_target_ends_when_its_last_user_has_ended),
		cmocka_unit_test(xrc_share__a_receive_is_flushed_when_the_owner_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
