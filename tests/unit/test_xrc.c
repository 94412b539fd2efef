/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc.c - extended reliable connections (IBTA A14): what an initiator sends, what a target executes, domains and
 * their SRQs, and both together on a network that loses packets (conformance points XR-01 to XR-03).
 */
#include "pair.h"
#include "resp_util.h"

#define X(op) (RIG_XRC | (op))

/* ---- the initiator ---------------------------------------------------------------------------------------------- */

static void xrc__XR_01_requests_name_the_srq(void **state)
{
	static const struct {
		enum nic_wr_opcode opcode;
		unsigned op;
	} cases[] = {
		{NIC_WR_SEND, SEND_ONLY},
		{NIC_WR_SEND_WITH_IMM, SEND_ONLY_IMM},
		{NIC_WR_SEND_WITH_INV, SEND_ONLY_INV},
		{NIC_WR_RDMA_WRITE, WRITE_ONLY},
		{NIC_WR_RDMA_WRITE_WITH_IMM, WRITE_ONLY_IMM},
		{NIC_WR_RDMA_READ, READ_REQ},
		{NIC_WR_ATOMIC_CMP_AND_SWP, CMP_SWAP},
		{NIC_WR_ATOMIC_FETCH_AND_ADD, FETCH_ADD},
	};
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_INI});

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct packet p;

		rig_post_send(rig, i, cases[i].opcode, 0, 8);
		p = rig_expect_tx(rig, X(cases[i].op), RIG_SQ_PSN + i);
		assert_int_equal(p.xrc_srqn, RIG_SRQN);
		assert_int_equal(p.dest_qpn, RIG_PEER_QPN);
	}
	rig_destroy(rig);
}

static void xrc__XR_01_every_packet_of_a_message_names_the_srq(void **state)
{
	static const unsigned ops[] = {SEND_FIRST, SEND_MIDDLE, SEND_LAST};
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_INI});

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 3 * RIG_MTU);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_expect_tx(rig, X(ops[i]), RIG_SQ_PSN + i).xrc_srqn, RIG_SRQN);
	rig_destroy(rig);
}

static void xrc__XR_01_responses_complete_requests(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_INI});
	struct packet p;

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_RDMA_READ, 0, 16);
	rig_post_send(rig, 3, NIC_WR_ATOMIC_FETCH_AND_ADD, 64, 8);
	assert_int_equal(rig_drain(rig), 3);
	p = rig_peer_packet(rig, X(ACK), RIG_SQ_PSN);
	assert_true(rig_rx(rig, &p));
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_rx_data(rig, X(READ_RESP_ONLY), RIG_SQ_PSN + 1, 0, 16);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_data(rig, 0, 0, 16);
	p = rig_peer_packet(rig, X(ATOMIC_ACK), RIG_SQ_PSN + 2);
	p.orig = 77;
	assert_true(rig_rx(rig, &p));
	rig_expect_wc(rig->send_cq, 3, NIC_WC_SUCCESS);
	assert_int_equal(arena_u64(rig, 64), 77);
	rig_destroy(rig);
}

static void xrc__an_initiator_takes_no_requests(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_INI});
	struct packet p = rig_peer_data(rig, X(SEND_ONLY), E, 0, 8);

	(void)state;
	rig_rx(rig, &p);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8); /* RC */
	rig_expect_silence(rig);
	assert_int_equal(rig_counter(rig, rx_bad_service), 2);
	rig_destroy(rig);
}

static void xrc__XR_03_what_may_be_posted(void **state)
{
	static const uint32_t not_for_xrc[] = {NIC_WR_MASKED_CMP_AND_SWP, NIC_WR_MASKED_FETCH_AND_ADD, NIC_WR_ELEMENTS};
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_INI});
	struct rig *target = rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_TGT});
	struct nic_recv_wr recv = {.wr_id = 1};
	struct nic_send_wr wr;

	(void)state;
	for (unsigned i = 0; i < sizeof(not_for_xrc) / sizeof(not_for_xrc[0]); i++) {
		wr = rig_wr(rig, 1, (enum nic_wr_opcode)not_for_xrc[i], 0, 8);
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	assert_int_equal(nic_post_recv(rig->qp, &recv), -EINVAL);
	assert_int_equal(nic_post_recv(target->qp, &recv), -EINVAL);
	wr = rig_wr(target, 1, NIC_WR_SEND, 0, 8);
	assert_int_equal(nic_post_send(target->qp, &wr), -EINVAL);
	rig_destroy(target);
	rig_destroy(rig);
}

/* ---- the target ------------------------------------------------------------------------------------------------- */

static struct rig *target_ready(void)
{
	return rig_ready(&(struct rig_opts){.type = NIC_QPT_XRC_TGT});
}

static void expect_answer(struct rig *rig, uint32_t psn, unsigned syndrome)
{
	assert_int_equal(rig_expect_tx(rig, X(ACK), psn).syndrome, syndrome);
}

static void expect_end(struct rig *rig, uint32_t psn, unsigned syndrome)
{
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	expect_answer(rig, psn, syndrome);
	rig_expect_silence(rig);
}

static void xrc__a_target_executes_requests(void **state)
{
	struct rig *rig = target_ready();
	struct packet p;
	struct nic_wc wc;

	(void)state;
	rig_post_recv(rig, 1, 0, 1024);
	rig_rx_data(rig, X(SEND_FIRST), E, 0, RIG_MTU);
	rig_rx_data(rig, X(SEND_LAST), E + 1, RIG_MTU, 8);
	expect_answer(rig, E + 1, SYN_ACK);
	wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, RIG_MTU + 8);
	assert_int_equal(wc.qp_num, rig->qpn);
	rig_expect_data(rig, 0, 0, RIG_MTU + 8);
	p = rig_peer_data(rig, X(WRITE_ONLY), E + 2, 100, 16);
	p.va = rig_va(rig, 4096);
	rig_rx(rig, &p);
	expect_answer(rig, E + 2, SYN_ACK);
	rig_expect_data(rig, 4096, 100, 16);
	p = rig_peer_packet(rig, X(READ_REQ), E + 3);
	p.va = rig_va(rig, 8192);
	p.dma_len = 32;
	rig_rx(rig, &p);
	expect_read_data(rig, X(READ_RESP_ONLY), E + 3, 8192, 32);
	arena_set_u64(rig, 512, 5);
	p = rig_peer_packet(rig, X(FETCH_ADD), E + 4);
	p.va = rig_va(rig, 512);
	p.swap_add = 3;
	rig_rx(rig, &p);
	assert_int_equal(rig_expect_tx(rig, X(ATOMIC_ACK), E + 4).orig, 5);
	rig_rx(rig, &p); /* a duplicate gets the saved value */
	assert_int_equal(rig_expect_tx(rig, X(ATOMIC_ACK), E + 4).orig, 5);
	assert_int_equal(arena_u64(rig, 512), 8);
	rig_destroy(rig);
}

/* No window is bound to a target: it posts nothing. */
static void xrc__MW_10_a_target_invalidates_no_key(void **state)
{
	struct rig *rig = target_ready();
	struct packet p = rig_peer_data(rig, X(SEND_ONLY_INV), E, 0, 8);

	(void)state;
	rig_post_recv(rig, 1, 0, 64);
	p.inv_rkey = rig->rkey;
	rig_rx(rig, &p);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_MW_BIND_ERR);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_destroy(rig);
}

/** Another SRQ of the target's domain, with a PD and a CQ of its own. */
struct other {
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_srq *srq;
	struct nic_mr *mr;
};

static struct other other_create(struct rig *rig, struct nic_xrcd *xrcd)
{
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ;
	struct other o;

	assert_int_equal(nic_pd_alloc(rig->nic, &o.pd), 0);
	o.cq = rig_cq_create(rig, 4, &o);
	assert_int_equal(nic_srq_create_xrc(o.pd, xrcd, o.cq, 4, 1, 0, &o, &o.srq), 0);
	assert_int_equal(nic_mr_reg(o.pd, rig->arena, RIG_ARENA, (uintptr_t)rig->arena, all, &o.mr), 0);
	return o;
}

static void other_post(struct rig *rig, const struct other *o, uint64_t wr_id, uint32_t offset, uint32_t len)
{
	struct nic_sge sge = {.addr = rig_va(rig, offset), .length = len, .lkey = nic_mr_lkey(o->mr)};
	struct nic_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(nic_post_srq_recv(o->srq, &wr), 0);
}

static void xrc__XR_01_each_message_goes_to_the_srq_that_it_names(void **state)
{
	struct rig *rig = target_ready();
	struct other o = other_create(rig, rig->xrcd);
	struct packet p;

	(void)state;
	assert_int_not_equal(nic_srq_num(o.srq), nic_srq_num(rig->srq));
	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 64, 64);
	other_post(rig, &o, 3, 128, 64);
	rig_rx_data(rig, X(SEND_ONLY), E, 0, 8);
	p = rig_peer_data(rig, X(SEND_ONLY), E + 1, 8, 8);
	p.xrc_srqn = nic_srq_num(o.srq);
	rig_rx(rig, &p);
	rig_rx_data(rig, X(SEND_ONLY), E + 2, 16, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS);
	rig_expect_wc(o.cq, 3, NIC_WC_SUCCESS);
	rig_expect_data(rig, 64, 16, 8);
	rig_expect_data(rig, 128, 8, 8);
	/* Keys are those of the SRQ's PD. */
	p = rig_peer_data(rig, X(WRITE_ONLY), E + 3, 0, 8);
	p.xrc_srqn = nic_srq_num(o.srq);
	p.rkey = nic_mr_rkey(o.mr);
	p.va = rig_va(rig, 4096);
	rig_rx(rig, &p);
	rig_expect_data(rig, 4096, 0, 8);
	rig_drain(rig);
	p.psn++;
	p.rkey = rig->rkey;
	rig_rx(rig, &p);
	expect_end(rig, E + 4, SYN_ACCESS);
	rig_destroy(rig);
}

static void xrc__an_empty_srq_is_not_ready(void **state)
{
	struct rig *rig = target_ready();

	(void)state;
	rig_rx_data(rig, X(SEND_ONLY), E, 0, 8);
	expect_answer(rig, E, SYN_RNR | 12);
	rig_post_recv(rig, 1, 0, 64);
	rig_rx_data(rig, X(SEND_ONLY), E, 0, 8);
	expect_answer(rig, E, SYN_ACK);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void xrc__XR_02_a_wrong_srq_is_an_invalid_request(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = target_ready();
		struct packet p = rig_peer_data(rig, X(SEND_ONLY), E, 0, 8);
		struct nic_xrcd *xrcd;
		struct other o;

		(void)state;
		assert_int_equal(nic_xrcd_alloc(rig->nic, &xrcd), 0);
		o = other_create(rig, i == 3 ? rig->xrcd : xrcd);
		rig_post_recv(rig, 1, 0, 1024);
		switch (i) {
		case 0:
			p.xrc_srqn = 0;
			break;
		case 1:
			p.xrc_srqn = nic_srq_num(o.srq); /* of another domain */
			break;
		case 2:
			p.xrc_srqn = nic_srq_num(o.srq);
			assert_int_equal(nic_srq_destroy(o.srq), 0);
			break;
		case 3: /* right, but not that of the message's first packet */
			rig_rx_data(rig, X(SEND_FIRST), E, 0, RIG_MTU);
			rig_drain(rig);
			p = rig_peer_data(rig, X(SEND_LAST), E + 1, 0, 8);
			p.xrc_srqn = nic_srq_num(o.srq);
			break;
		}
		rig_rx(rig, &p);
		if (i == 3)
			rig_expect_wc(rig->recv_cq, 1, NIC_WC_REM_INV_REQ_ERR);
		else
			assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		expect_end(rig, p.psn, SYN_INV);
		rig_expect_no_wc(rig->recv_cq); /* the SRQ keeps its receives */
		rig_destroy(rig);
	}
}

static void xrc__an_srq_may_go_in_the_middle_of_a_message(void **state)
{
	struct rig *rig = target_ready();
	struct packet p;

	(void)state;
	rig_post_recv(rig, 1, 0, 1024);
	rig_rx_data(rig, X(SEND_FIRST), E, 0, RIG_MTU);
	p = rig_peer_data(rig, X(SEND_LAST), E + 1, 0, 8);
	assert_int_equal(nic_srq_destroy(rig->srq), 0);
	rig->srq = NULL;
	rig_drain(rig);
	rig_rx(rig, &p);
	assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
	expect_end(rig, E + 1, SYN_INV);
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

static void xrc__an_srq_may_go_before_its_read_is_answered(void **state)
{
	struct rig *rig = target_ready();
	struct packet p = rig_peer_packet(rig, X(READ_REQ), E);

	(void)state;
	p.dma_len = 3 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_tx(rig, X(READ_RESP_FIRST), E);
	assert_int_equal(nic_srq_destroy(rig->srq), 0);
	rig->srq = NULL;
	expect_answer(rig, E + 1, SYN_ACCESS);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_destroy(rig);
}

static void xrc__errors_flush_no_receives_of_the_srq(void **state)
{
	struct rig *rig = target_ready();
	struct nic_qp *second = rig_qp_create(rig);

	(void)state;
	rig_post_recv(rig, 1, 0, 1024);
	rig_post_recv(rig, 2, 1024, 1024);
	rig_rx_data(rig, X(SEND_FIRST), E, 0, RIG_MTU);
	rig_modify_state(rig, NIC_QPS_ERR);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR); /* that in use */
	rig_expect_no_wc(rig->recv_cq);
	assert_int_equal(nic_qp_destroy(second), 0);
	rig_destroy(rig);
}

static void xrc__an_overflowed_cq_takes_no_more_messages(void **state)
{
	struct rig *rig = target_ready();
	struct other o = other_create(rig, rig->xrcd);
	uint32_t depth = nic_cq_depth(o.cq);
	struct packet p;

	(void)state;
	assert_int_equal(nic_srq_resize(o.srq, depth + 2), 0);
	for (uint32_t i = 0; i < depth + 2; i++) {
		other_post(rig, &o, i, 0, 64);
		p = rig_peer_data(rig, X(SEND_ONLY), E + i, 0, 8);
		p.xrc_srqn = nic_srq_num(o.srq);
		rig_rx(rig, &p);
		rig_drain(rig);
	}
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	assert_true(rig_event(rig, NIC_EVENT_QP_FATAL, RIG_USER_QP(rig)));
	rig_destroy(rig);
}

/* ---- domains ---------------------------------------------------------------------------------------------------- */

static void xrc__objects_of_a_domain_keep_it(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.type = NIC_QPT_XRC_TGT});

	(void)state;
	assert_int_equal(nic_xrcd_free(rig->xrcd), -EBUSY);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), -EBUSY);
	assert_int_equal(nic_srq_destroy(rig->srq), 0);
	assert_int_equal(nic_cq_destroy(rig->recv_cq), 0);
	assert_int_equal(nic_xrcd_free(rig->xrcd), -EBUSY);
	assert_int_equal(nic_qp_destroy(rig->qp), 0);
	assert_int_equal(nic_xrcd_free(rig->xrcd), 0);
	rig_destroy(rig);
}

static void xrc__XR_03_a_qp_has_the_objects_of_its_type(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_xrcd *xrcd;
	struct nic_qp *qp;

	(void)state;
	assert_int_equal(nic_xrcd_alloc(rig->nic, &xrcd), 0);
	struct nic_qp_init wrong[] = {
		{.type = NIC_QPT_XRC_TGT},
		{.type = NIC_QPT_XRC_TGT, .xrcd = xrcd, .pd = rig->pd},
		{.type = NIC_QPT_XRC_TGT, .xrcd = xrcd, .send_cq = rig->send_cq},
		{.type = NIC_QPT_XRC_INI, .pd = rig->pd},
		{.type = NIC_QPT_XRC_INI, .pd = rig->pd, .send_cq = rig->send_cq, .xrcd = xrcd},
		{.type = NIC_QPT_RC, .pd = rig->pd, .send_cq = rig->send_cq, .recv_cq = rig->recv_cq, .xrcd = xrcd},
		{.type = (enum nic_qp_type)5, .pd = rig->pd, .send_cq = rig->send_cq, .recv_cq = rig->recv_cq},
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(nic_qp_create(rig->nic, &wrong[i], &qp), -EINVAL);
	rig_destroy(rig);
}

/* ---- both together, with losses --------------------------------------------------------------------------------- */

static void xrc__everything_happens_once_whatever_packet_is_lost(void **state)
{
	static const struct pair_rule lost[] = {
		{PAIR_A, X(SEND_FIRST), 0, PAIR_DROP},
		{PAIR_A, X(SEND_LAST), 0, PAIR_DROP},
		{PAIR_A, X(WRITE_ONLY), 0, PAIR_DROP},
		{PAIR_A, X(READ_REQ), 0, PAIR_DROP},
		{PAIR_A, X(FETCH_ADD), 0, PAIR_DROP},
		{PAIR_B, X(ACK), 0, PAIR_DROP},
		{PAIR_B, X(ACK), 1, PAIR_DROP},
		{PAIR_B, X(READ_RESP_FIRST), 0, PAIR_DROP},
		{PAIR_B, X(READ_RESP_MIDDLE), 0, PAIR_DROP},
		{PAIR_B, X(READ_RESP_LAST), 0, PAIR_DROP},
		{PAIR_B, X(ATOMIC_ACK), 0, PAIR_DROP},
		{PAIR_A, X(FETCH_ADD), 0, PAIR_DOUBLE},
		{PAIR_A, X(SEND_FIRST), 0, PAIR_DOUBLE},
		{PAIR_A, X(WRITE_ONLY), 0, PAIR_SWAP},
		{PAIR_B, X(ATOMIC_ACK), 0, PAIR_LATE},
		{PAIR_A, X(READ_REQ), 0, PAIR_DAMAGE},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		struct pair *pair = pair_create(&(struct rig_opts){.type = NIC_QPT_XRC_INI}, 0xfffffe, 7);
		struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
		struct nic_send_wr wr;

		pair_script(pair, &lost[i], 1);
		rig_post_recv(b, 9, 0, 1024);
		arena_set_u64(b, 4096, 40);
		wr = pair_wr(pair, 1, NIC_WR_SEND, 0, 2 * RIG_MTU, 0);
		rig_post(a, &wr);
		wr = pair_wr(pair, 2, NIC_WR_RDMA_WRITE, 8192, 16, 8192);
		rig_post(a, &wr);
		wr = pair_wr(pair, 3, NIC_WR_RDMA_READ, 16384, 3 * RIG_MTU, 20000);
		rig_post(a, &wr);
		wr = pair_wr(pair, 4, NIC_WR_ATOMIC_FETCH_AND_ADD, 4096, 8, 4096);
		wr.atomic.compare_add = 2;
		rig_post(a, &wr);
		pair_run(pair);
		for (uint64_t k = 1; k <= 4; k++)
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
		rig_expect_wc(b->recv_cq, 9, NIC_WC_SUCCESS);
		rig_expect_no_wc(b->recv_cq);
		assert_memory_equal(b->arena, a->arena, 2 * RIG_MTU);
		assert_memory_equal(a->arena + 16384, b->arena + 20000, 3 * RIG_MTU);
		assert_int_equal(arena_u64(b, 4096), 42);
		assert_int_equal(arena_u64(a, 4096), 40);
		pair_destroy(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc__XR_01_requests_name_the_srq),
		cmocka_unit_test(xrc__XR_01_every_packet_of_a_message_names_the_srq),
		cmocka_unit_test(xrc__XR_01_responses_complete_requests),
		cmocka_unit_test(xrc__an_initiator_takes_no_requests),
		cmocka_unit_test(xrc__XR_03_what_may_be_posted),
		cmocka_unit_test(xrc__a_target_executes_requests),
		cmocka_unit_test(xrc__MW_10_a_target_invalidates_no_key),
		cmocka_unit_test(xrc__XR_01_each_message_goes_to_the_srq_that_it_names),
		cmocka_unit_test(xrc__an_empty_srq_is_not_ready),
		cmocka_unit_test(xrc__XR_02_a_wrong_srq_is_an_invalid_request),
		cmocka_unit_test(xrc__an_srq_may_go_in_the_middle_of_a_message),
		cmocka_unit_test(xrc__an_srq_may_go_before_its_read_is_answered),
		cmocka_unit_test(xrc__errors_flush_no_receives_of_the_srq),
		cmocka_unit_test(xrc__an_overflowed_cq_takes_no_more_messages),
		cmocka_unit_test(xrc__objects_of_a_domain_keep_it),
		cmocka_unit_test(xrc__XR_03_a_qp_has_the_objects_of_its_type),
		cmocka_unit_test(xrc__everything_happens_once_whatever_packet_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
