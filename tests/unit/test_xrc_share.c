/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share.c - an XRC domain that the NICs of two processes share: requests to the SRQ of a guest do what those
 * to an SRQ of the target's own NIC do, errors included, and nobody waits for a guest, or an owner, that is gone.
 */
#include "share_rig.h"

#include <stdlib.h>

#define FROM	0u /* offsets in the arenas */
#define REMOTE	16384u
#define BUFFER	65536u
#define MAX_LEN (40 * SHARE_MTU)
#define BIT(e)	(1ull << (e))

static bool takes_receive(enum nic_wr_opcode opcode)
{
	return opcode == NIC_WR_SEND || opcode == NIC_WR_SEND_WITH_IMM || opcode == NIC_WR_RDMA_WRITE_WITH_IMM;
}

/** A SEND of some bytes, which must arrive. */
static struct nic_wc send_one(struct share_rig *rig, unsigned to, uint32_t len, uint32_t seed)
{
	struct share_node *n = &rig->node[to], *i = &rig->node[I];

	share_fill(i->arena + FROM, len, seed);
	share_recv(n, seed, BUFFER, MAX_LEN);
	share_post(rig, to, NIC_WR_SEND, FROM, len, 0);
	share_expect(i, NIC_WC_SUCCESS);
	assert_true(share_holds(n->arena + BUFFER, len, seed));
	return share_expect(n, NIC_WC_SUCCESS);
}

/** The initiator and the target have failed: connect them again. */
static void works_again(struct share_rig *rig)
{
	share_connect(rig, share_random(rig, 1 << 24), share_random(rig, 1 << 24));
	send_one(rig, O, 3 * SHARE_MTU, 77);
	assert_int_equal(nic_qp_state(rig->node[O].qp), NIC_QPS_RTS);
}

/* ---- what is executed ---------------------------------------------------------------------------------------------
 */

/** Execute a request alone. @return the completion of the receive that it takes. */
static struct nic_wc execute(struct share_rig *rig, unsigned to, enum nic_wr_opcode opcode, uint32_t len)
{
	struct share_node *n = &rig->node[to], *i = &rig->node[I];
	struct nic_send_wr wr = share_wr(rig, to, opcode, FROM, len, REMOTE);
	struct nic_wc wc;

	memset(&wc, 0, sizeof(wc));
	share_fill(i->arena + FROM, MAX_LEN, 1);
	share_fill(n->arena + REMOTE, MAX_LEN, 2);
	share_set_word(n, REMOTE, 40);
	memset(n->arena + BUFFER, 0, MAX_LEN);
	wr.ex = 0x11223344;
	if (opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr.atomic.compare_add = opcode == NIC_WR_ATOMIC_CMP_AND_SWP ? 40 : 2;
		wr.atomic.swap = 42;
	}
	if (takes_receive(opcode))
		share_recv(n, 5, BUFFER, MAX_LEN);
	assert_int_equal(nic_post_send(i->qp, &wr), 0);
	share_expect(i, NIC_WC_SUCCESS);
	if (opcode == NIC_WR_RDMA_READ)
		assert_memory_equal(i->arena + FROM, n->arena + REMOTE, len);
	else if (opcode == NIC_WR_RDMA_WRITE || opcode == NIC_WR_RDMA_WRITE_WITH_IMM || opcode == NIC_WR_ATOMIC_WRITE)
		assert_true(share_holds(n->arena + REMOTE, len, 1));
	else if (opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		assert_int_equal(share_word(i, FROM), 40);
		assert_int_equal(share_word(n, REMOTE), 42);
	} else if (opcode != NIC_WR_FLUSH)
		assert_true(share_holds(n->arena + BUFFER, len, 1));
	if (takes_receive(opcode)) {
		assert_int_equal(nic_cq_count(n->cq), 1);
		assert_int_equal(nic_cq_poll(n->cq, 1, &wc), 1);
	}
	assert_int_equal(nic_cq_count(rig->node[O].cq), 0);
	assert_int_equal(nic_cq_count(rig->node[G].cq), 0);
	return wc;
}

static void xrc_share__each_operation_does_the_same_at_the_guest(void **state)
{
	static const struct {
		enum nic_wr_opcode opcode;
		uint32_t len;
	} cases[] = {
		{NIC_WR_SEND, 1},
		{NIC_WR_SEND, 0},
		{NIC_WR_SEND, 5 * SHARE_MTU},
		{NIC_WR_SEND_WITH_IMM, 20},
		{NIC_WR_SEND_WITH_IMM, 4 * SHARE_MTU + 1},
		{NIC_WR_RDMA_WRITE, 9},
		{NIC_WR_RDMA_WRITE, 0},
		{NIC_WR_RDMA_WRITE, 5 * SHARE_MTU},
		{NIC_WR_RDMA_WRITE_WITH_IMM, 30},
		{NIC_WR_RDMA_WRITE_WITH_IMM, 5 * SHARE_MTU},
		{NIC_WR_RDMA_READ, 31},
		{NIC_WR_RDMA_READ, 0},
		{NIC_WR_RDMA_READ, 40 * SHARE_MTU},
		{NIC_WR_ATOMIC_FETCH_AND_ADD, 8},
		{NIC_WR_ATOMIC_CMP_AND_SWP, 8},
		{NIC_WR_FLUSH, 100},
		{NIC_WR_ATOMIC_WRITE, 8},
	};

	(void)state;
	for (unsigned k = 0; k < 2 * sizeof(cases) / sizeof(cases[0]); k++) {
		struct share_rig *rig = share_create(1, k % 2);
		struct nic_wc own = execute(rig, O, cases[k / 2].opcode, cases[k / 2].len);
		struct nic_wc guest = execute(rig, G, cases[k / 2].opcode, cases[k / 2].len);

		assert_memory_equal(&own, &guest, offsetof(struct nic_wc, dlid_path_bits) + 1);
		if (takes_receive(cases[k / 2].opcode))
			assert_int_equal(guest.qp_num, rig->target);
		assert_true(rig->carried[1] > 0);
		execute(rig, O, NIC_WR_SEND, 300);
		share_destroy(rig);
	}
}

static void xrc_share__a_guest_without_receives_is_not_ready(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G], *i = &rig->node[I];

	(void)state;
	share_fill(i->arena, 600, 9);
	share_post(rig, G, NIC_WR_SEND, FROM, 600, 0);
	share_post(rig, O, NIC_WR_RDMA_WRITE, FROM, 600, REMOTE);
	share_run(rig, SHARE_SECOND / 10);
	assert_int_equal(nic_cq_count(i->cq), 0);
	assert_false(share_holds(rig->node[O].arena + REMOTE, 600, 9));
	share_recv(g, 3, BUFFER, 1000);
	share_expect(i, NIC_WC_SUCCESS);
	share_expect(i, NIC_WC_SUCCESS);
	assert_int_equal(share_expect(g, NIC_WC_SUCCESS).wr_id, 3);
	assert_true(share_holds(g->arena + BUFFER, 600, 9));
	rig->attr.rnr_retry = 1;
	share_connect(rig, 9, 9);
	share_post(rig, G, NIC_WR_SEND, FROM, 600, 0);
	share_expect(i, NIC_WC_RNR_RETRY_EXC_ERR);
	share_destroy(rig);
}

/* ---- what is refused ----------------------------------------------------------------------------------------------
 */

enum fault {
	WRITE_KEY,
	LONG_WRITE_KEY,
	READ_KEY,
	ATOMIC_KEY,
	READ_RIGHTS,
	WRITE_RIGHTS,
	ATOMIC_RIGHTS,
	BEYOND,
	ODD_ADDRESS,
	QP_RIGHTS,
	TOO_LONG,
	BAD_BUFFER,
	INVALIDATE,
	NO_MEMORY,
	NO_MEMORY_SOON,
	NO_SRQ,
	FAULTS
};

/** What a fault may be behind: nothing; a SEND to the guest; a WRITE to the owner, whose ACK is delayed. */
enum behind { NOTHING, A_SEND, AN_ACK, BEHINDS };

struct outcome {
	uint32_t before, initiator, receive, receives;
	uint64_t state; /* enum nic_qp_state; 64 bits, so that there is no padding */
	uint64_t events;
};

static enum nic_wr_opcode opcode_of(enum fault fault)
{
	if (fault == ATOMIC_KEY || fault == ATOMIC_RIGHTS || fault == ODD_ADDRESS)
		return NIC_WR_ATOMIC_FETCH_AND_ADD;
	if (fault == READ_KEY || fault == READ_RIGHTS || fault == NO_MEMORY || fault == NO_MEMORY_SOON)
		return NIC_WR_RDMA_READ;
	if (fault == INVALIDATE)
		return NIC_WR_SEND_WITH_INV;
	return fault == TOO_LONG || fault == BAD_BUFFER || fault == NO_SRQ ? NIC_WR_SEND : NIC_WR_RDMA_WRITE;
}

/** Another region of the arena, with these rights. @return its R_Key. */
static uint32_t region(struct share_node *n, uint32_t rights, struct nic_mr **mr)
{
	assert_int_equal(nic_mr_reg(n->pd, n->arena, SHARE_ARENA, (uintptr_t)n->arena, rights, mr), 0);
	return nic_mr_rkey(*mr);
}

static void post_fault(struct share_rig *rig, unsigned to, enum fault fault)
{
	const uint32_t len[FAULTS] = {
		[LONG_WRITE_KEY] = 5 * SHARE_MTU, [NO_MEMORY_SOON] = 160 * SHARE_MTU, [TOO_LONG] = 3 * SHARE_MTU};
	struct share_node *n = &rig->node[to];
	struct nic_send_wr wr = share_wr(rig, to, opcode_of(fault), FROM, len[fault] ? len[fault] : 8, REMOTE);
	bool atomic = wr.opcode == NIC_WR_ATOMIC_FETCH_AND_ADD;
	uint32_t *rkey = atomic ? &wr.atomic.rkey : &wr.rdma.rkey;
	struct nic_mr *mr = NULL;

	share_recv(n, 1, BUFFER, fault == TOO_LONG ? 2 * SHARE_MTU : MAX_LEN);
	if (fault == WRITE_KEY || fault == LONG_WRITE_KEY || fault == READ_KEY || fault == ATOMIC_KEY)
		*rkey ^= 0x5500;
	else if (fault == READ_RIGHTS || fault == WRITE_RIGHTS || fault == ATOMIC_RIGHTS)
		*rkey = region(n, NIC_ACCESS_LOCAL_WRITE, &mr);
	else if (fault == NO_MEMORY || fault == NO_MEMORY_SOON)
		*rkey = region(n, NIC_ACCESS_REMOTE_READ, &mr);
	else if (fault == BEYOND)
		wr.rdma.remote_addr = (uintptr_t)n->arena + SHARE_ARENA - 7;
	else if (fault == ODD_ADDRESS)
		wr.atomic.remote_addr += 4;
	else if (fault == INVALIDATE)
		wr.ex = nic_mr_rkey(n->mr);
	if (fault == NO_MEMORY || fault == BAD_BUFFER)
		assert_int_equal(nic_mr_dereg(mr ? mr : n->mr), 0);
	if (fault == BAD_BUFFER)
		region(n, NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE, &n->mr);
	if (fault == NO_SRQ) {
		assert_int_equal(nic_srq_destroy(n->srq), 0);
		assert_int_equal(nic_srq_create_xrc(n->pd, n->xrcd, n->cq, 64, 4, 0, NULL, &n->srq), 0);
	}
	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
	for (uint32_t step = 0; fault == NO_MEMORY_SOON && rig->carried[0] < 12; step++)
		assert_true(share_turn(rig, UINT64_MAX));
	if (fault == NO_MEMORY_SOON)
		assert_int_equal(nic_mr_dereg(mr), 0);
}

static struct outcome cause(unsigned to, enum fault fault, enum behind behind)
{
	const struct share_opts opts = {.ack_delay_ns = behind == AN_ACK ? 10000000 : 0};
	struct share_rig *rig = share_create_with(fault, &opts);
	struct outcome o = {0};
	struct nic_wc wc;

	if (fault == QP_RIGHTS)
		rig->attr.qp_access_flags = 0;
	share_connect(rig, 0xfffffe, 9);
	if (behind == A_SEND)
		send_one(rig, G, 8, 1);
	if (behind == AN_ACK && fault != QP_RIGHTS) {
		share_post(rig, O, NIC_WR_RDMA_WRITE, FROM, 8, REMOTE + 2 * MAX_LEN);
		share_run(rig, 100000);
	}
	post_fault(rig, to, fault);
	share_post(rig, O, NIC_WR_RDMA_WRITE, FROM, 8, REMOTE + MAX_LEN); /* must not be executed */
	if (behind == AN_ACK && fault != QP_RIGHTS)
		o.before = share_next(&rig->node[I]).status;
	o.initiator = share_next(&rig->node[I]).status;
	wc = share_next(&rig->node[I]);
	if (wc.status != NIC_WC_WR_FLUSH_ERR)
		print_error("fault %u at %u: first %u, second %u\n", fault, to, o.initiator, wc.status);
	assert_int_equal(wc.status, NIC_WC_WR_FLUSH_ERR);
	share_run(rig, SHARE_SECOND);
	assert_int_equal(share_word(&rig->node[O], REMOTE + MAX_LEN), 0);
	o.receives = nic_cq_count(rig->node[to].cq);
	if (nic_cq_poll(rig->node[to].cq, 1, &wc) == 1)
		o.receive = wc.status;
	assert_int_equal(nic_cq_count(rig->node[to == O ? G : O].cq), 0);
	o.state = nic_qp_state(rig->node[O].qp);
	o.events = share_events(rig) & ~BIT(NIC_EVENT_COMM_EST);
	if (o.state == NIC_QPS_ERR)
		works_again(rig);
	share_destroy(rig);
	return o;
}

static void xrc_share__errors_are_the_same_at_the_guest(void **state)
{
	(void)state;
	for (unsigned k = 0; k < BEHINDS * FAULTS; k++) {
		enum fault fault = (enum fault)(k / BEHINDS);
		enum behind behind = (enum behind)(k % BEHINDS);
		struct outcome own = cause(O, fault, behind), guest = cause(G, fault, behind);

		if (own.state != NIC_QPS_ERR || memcmp(&own, &guest, sizeof(own)) != 0)
			print_error("fault %u, behind %u: own %u %u %u %u %u %#x, guest %u %u %u %u %u %#x\n", fault,
				    behind, own.before, own.initiator, own.receive, own.receives, (unsigned)own.state,
				    (unsigned)own.events, guest.before, guest.initiator, guest.receive, guest.receives,
				    (unsigned)guest.state, (unsigned)guest.events);
		assert_int_equal(own.before, NIC_WC_SUCCESS);
		assert_int_equal(own.state, NIC_QPS_ERR);
		assert_memory_equal(&own, &guest, sizeof(own));
	}
}

static void xrc_share__an_srq_of_no_shared_domain_is_refused(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 5; k++) {
		struct share_rig *rig = share_create(k, false);
		struct share_node *g = &rig->node[G];
		struct nic_send_wr wr = share_wr(rig, G, NIC_WR_SEND, FROM, 8, 0);
		struct nic_xrcd *xrcd;
		struct nic_srq *srq;
		struct nic_wc wc;

		assert_int_equal(nic_xrcd_alloc(g->nic, &xrcd), 0);
		if (k == 1) /* another shared one */
			nic_xrcd_share(xrcd, &(struct nic_xrc_name){{1, 2}});
		assert_int_equal(nic_srq_create_xrc(g->pd, xrcd, g->cq, 4, 1, 0, NULL, &srq), 0);
		share_recv(g, 1, BUFFER, 64);
		if (k < 2)
			wr.srqn = nic_srq_num(srq);
		else if (k == 2)
			wr.srqn ^= 1; /* an SRQ that is not */
		else if (k == 3)
			wr.srqn = rig->target ^ 1;
		else
			rig->node[O].banned = true; /* the owner has no right to the domain */
		assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
		assert_true(share_await(rig, rig->node[I].cq, 1, 60 * SHARE_SECOND));
		nic_cq_poll(rig->node[I].cq, 1, &wc);
		if (k < 4 && wc.status != NIC_WC_REM_INV_REQ_ERR)
			print_error("case %u\n", k);
		if (k < 4)
			assert_int_equal(wc.status, NIC_WC_REM_INV_REQ_ERR);
		assert_int_not_equal(wc.status, NIC_WC_SUCCESS);
		share_run(rig, SHARE_SECOND);
		assert_int_equal(nic_cq_count(g->cq), 0);
		if (k < 4)
			assert_true(share_events(rig) & BIT(NIC_EVENT_QP_REQ_ERR));
		share_destroy(rig);
	}
}

/* ---- who goes away ------------------------------------------------------------------------------------------------
 */

static void xrc_share__nobody_waits_for_a_guest_that_is_gone(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 16; k++) {
		struct share_rig *rig = share_create(k, k & 1);
		struct share_node *g = &rig->node[G], *i = &rig->node[I];
		struct nic_wc wc;

		if (k & 2)
			send_one(rig, G, 700, 1);
		share_recv(g, 1, BUFFER, MAX_LEN);
		share_drop(g, true);
		if (k & 4) { /* while the request is lent */
			share_post(rig, G, NIC_WR_SEND, FROM, 700, 0);
			share_run(rig, SHARE_SECOND / 50);
		}
		if (k & 8)
			share_stop(g);
		g->hidden = true;
		if (!(k & 4)) {
			struct nic_send_wr wr = share_wr(rig, O, NIC_WR_SEND, FROM, 700, 0);

			wr.srqn = (uint32_t)(G + 1) << 16 | 77;
			assert_int_equal(nic_post_send(i->qp, &wr), 0);
		}
		share_post(rig, O, NIC_WR_RDMA_WRITE, FROM, 8, REMOTE);
		assert_true(share_await(rig, i->cq, 2, 60 * SHARE_SECOND));
		nic_cq_poll(i->cq, 1, &wc);
		assert_true(wc.status == NIC_WC_REM_INV_REQ_ERR || ((k & 4) && wc.status == NIC_WC_RETRY_EXC_ERR));
		share_expect(i, NIC_WC_WR_FLUSH_ERR);
		works_again(rig);
		share_destroy(rig);
	}
}

/** The owner asks itself, if no further request makes it. */
static void xrc_share__an_owner_notices_that_a_guest_is_gone(void **state)
{
	struct share_rig *rig = share_create(1, false);
	struct share_node *g = &rig->node[G];

	(void)state;
	rig->attr.timeout = 0;
	share_connect(rig, 5, 7);
	send_one(rig, G, 700, 1);
	share_drop(g, true);
	share_post(rig, G, NIC_WR_SEND, FROM, 700, 0);
	share_run(rig, SHARE_SECOND / 50);
	g->hidden = true;
	assert_true(share_await(rig, rig->node[I].cq, 1, 12 * SHARE_SECOND));
	share_expect(&rig->node[I], NIC_WC_REM_INV_REQ_ERR);
	share_destroy(rig);
}

/* ---- a target that changes while a request is lent ----------------------------------------------------------------
 */

enum phase { BEFORE_IT_ARRIVES, BEFORE_THE_ANSWER, HALF, PHASES };

static void lend(struct share_rig *rig, enum phase phase)
{
	struct share_node *g = &rig->node[G];

	share_fill(rig->node[I].arena, 5 * SHARE_MTU, 11);
	share_recv(g, 1, BUFFER, MAX_LEN);
	if (phase == BEFORE_IT_ARRIVES)
		share_drop(g, true);
	else if (phase == BEFORE_THE_ANSWER)
		g->mute = true;
	else
		rig->node[I].allowance = 2;
	share_post(rig, G, NIC_WR_SEND, FROM, 5 * SHARE_MTU, 0);
	share_run(rig, SHARE_SECOND / 50);
	assert_int_equal(nic_cq_count(rig->node[I].cq), 0);
}

static void change_target(enum phase phase, unsigned how, bool known)
{
	struct share_rig *rig = share_create(how, false);
	struct share_node *g = &rig->node[G], *o = &rig->node[O];
	struct nic_wc wc;

	if (known)
		send_one(rig, G, 8, 1);
	lend(rig, phase);
	if (how < 2)
		share_modify(o->qp, &rig->attr, how ? NIC_QPS_RESET : NIC_QPS_ERR, true);
	else
		assert_int_equal(nic_qp_destroy(o->qp), 0);
	share_drop(g, false);
	share_drop(&rig->node[I], false);
	share_expect(&rig->node[I], NIC_WC_RETRY_EXC_ERR);
	share_run(rig, 10 * SHARE_SECOND);
	assert_in_range(nic_cq_count(g->cq), phase == HALF && how == 0, 1);
	share_recv(g, 2, BUFFER, MAX_LEN);
	if (nic_cq_poll(g->cq, 1, &wc) == 1 && (phase == HALF || wc.status != NIC_WC_SUCCESS))
		assert_int_equal(wc.status, NIC_WC_WR_FLUSH_ERR);
	if (how < 2) {
		share_connect(rig, 0x777777, 0x888888);
		share_fill(rig->node[I].arena, 600, 12);
		share_post(rig, G, NIC_WR_SEND, FROM, 600, 0);
		share_post(rig, G, NIC_WR_RDMA_READ, MAX_LEN, 600, BUFFER);
		share_expect(&rig->node[I], NIC_WC_SUCCESS);
		share_expect(&rig->node[I], NIC_WC_SUCCESS);
		share_expect(g, NIC_WC_SUCCESS);
		assert_true(share_holds(g->arena + BUFFER, 600, 12));
		assert_true(share_holds(rig->node[I].arena + MAX_LEN, 600, 12));
		assert_int_equal(nic_cq_count(g->cq), 0);
		works_again(rig);
	}
	share_destroy(rig);
}

static void xrc_share__a_target_may_change_while_a_request_is_lent(void **state)
{
	(void)state;
	for (unsigned k = 0; k < PHASES * 6; k++)
		change_target((enum phase)(k / 6), k % 3, k % 6 / 3);
}

/** The guest waits for the rest of a message: it hears at once that there will be none, even if the owner's NIC has
 *  nothing else to do. */
static void xrc_share__the_end_of_a_target_is_told_at_once(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 2; how++) {
		struct share_rig *rig = share_create(how, false);
		struct share_node *o = &rig->node[O];

		lend(rig, HALF);
		share_run(rig, 20 * SHARE_SECOND);
		nic_timeout(o->nic, rig->now);
		assert_true(nic_next_deadline(o->nic) > rig->now);
		if (how)
			share_modify(o->qp, &rig->attr, NIC_QPS_RESET, true);
		else
			assert_int_equal(nic_qp_destroy(o->qp), 0);
		assert_true(nic_next_deadline(o->nic) <= rig->now);
		share_run(rig, SHARE_SECOND / 10);
		share_expect(&rig->node[G], NIC_WC_WR_FLUSH_ERR);
		share_destroy(rig);
	}
}

/* ---- ends ---------------------------------------------------------------------------------------------------------
 */

/** Requests of all kinds to both. */
static void post_many(struct share_rig *rig)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_READ, NIC_WR_RDMA_WRITE,
						     NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned k = 0; k < SHARE_WRS; k++) {
		enum nic_wr_opcode opcode = opcodes[share_random(rig, 4)];

		share_recv(&rig->node[k % 2], k, BUFFER, MAX_LEN);
		share_post(rig, share_random(rig, 2), opcode, FROM,
			   opcode == NIC_WR_ATOMIC_FETCH_AND_ADD ? 8 : share_random(rig, 2000), REMOTE);
	}
}

static void xrc_share__nics_may_end_in_any_order_at_any_time(void **state)
{
	static const uint8_t orders[6][3] = {{O, G, I}, {O, I, G}, {G, O, I}, {G, I, O}, {I, O, G}, {I, G, O}};

	(void)state;
	for (unsigned seed = 0; seed < 300; seed++) {
		struct share_rig *rig = share_create(seed, seed & 1);

		post_many(rig);
		for (unsigned k = share_random(rig, 200); k > 0; k--)
			share_turn(rig, UINT64_MAX);
		for (unsigned k = 0; k < 3; k++) {
			share_stop(&rig->node[orders[seed % 6][k]]);
			rig->node[orders[seed % 6][k]].hidden = seed % 5 == 0;
			share_run(rig, share_random(rig, 3) * SHARE_SECOND);
		}
		share_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_share__each_operation_does_the_same_at_the_guest),
		cmocka_unit_test(xrc_share__a_guest_without_receives_is_not_ready),
		cmocka_unit_test(xrc_share__errors_are_the_same_at_the_guest),
		cmocka_unit_test(xrc_share__an_srq_of_no_shared_domain_is_refused),
		cmocka_unit_test(xrc_share__nobody_waits_for_a_guest_that_is_gone),
		cmocka_unit_test(xrc_share__an_owner_notices_that_a_guest_is_gone),
		cmocka_unit_test(xrc_share__a_target_may_change_while_a_request_is_lent),
		cmocka_unit_test(xrc_share__the_end_of_a_target_is_told_at_once),
		cmocka_unit_test(xrc_share__nics_may_end_in_any_order_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
