/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_req_order.c - the order in which the requester sends and what it waits for; local failures of send WQEs
 * (conformance points RQ-08, RQ-10 to RQ-12, RQ-14, RQ-15, RQ-21).
 */
#include "rig.h"

static void req__RQ_08_wqes_in_posted_order_with_contiguous_psns(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;
	struct packet p;
	uint32_t psn = RIG_SQ_PSN;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_RDMA_READ, 4096, 3 * RIG_MTU + 9);
	wr = rig_wr(rig, 3, NIC_WR_ATOMIC_FETCH_AND_ADD, 8192, 8);
	rig_post(rig, &wr);
	rig_post_send(rig, 4, NIC_WR_RDMA_WRITE, 0, 1);
	rig_post_send(rig, 5, NIC_WR_RDMA_READ, 4096, 0);
	rig_post_send(rig, 6, NIC_WR_SEND, 0, 0);
	rig_expect_tx(rig, SEND_FIRST, psn++);
	rig_expect_tx(rig, SEND_LAST, psn++);
	p = rig_expect_tx(rig, READ_REQ, psn);
	assert_int_equal(p.dma_len, 3 * RIG_MTU + 9);
	psn += 4; /* the READ takes one PSN per response */
	rig_expect_tx(rig, FETCH_ADD, psn++);
	rig_expect_tx(rig, WRITE_ONLY, psn++);
	rig_expect_tx(rig, READ_REQ, psn++);
	rig_expect_tx(rig, SEND_ONLY, psn++);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void req__RQ_08_psns_wrap(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.sq_psn = 0xfffffe;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 4 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_expect_tx(rig, READ_REQ, 0xfffffe);
	rig_expect_tx(rig, SEND_FIRST, 2);
	rig_expect_tx(rig, SEND_LAST, 3);
	rig_destroy(rig);
}

static void req__RQ_10_reads_and_atomics_outstanding_stay_below_max_rd_atomic(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_send_wr wr;

	rig->attr.max_rd_atomic = 2;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
	wr = rig_wr(rig, 2, NIC_WR_ATOMIC_FETCH_AND_ADD, 8, 8);
	rig_post(rig, &wr);
	rig_post_send(rig, 3, NIC_WR_RDMA_READ, 16, 8);
	rig_post_send(rig, 4, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_tx(rig, FETCH_ADD, RIG_SQ_PSN + 1);
	rig_expect_silence(rig); /* the SEND does not overtake the READ before it, which still waits */
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 2);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 3);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void req__RQ_10_no_read_at_all_with_max_rd_atomic_0(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.max_rd_atomic = 0;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_QP_OP_ERR);
	rig_destroy(rig);
}

static void req__RQ_11_fence_waits_for_reads_and_atomics_before_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;

	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 2 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	wr = rig_wr(rig, 3, NIC_WR_SEND, 0, 8);
	wr.flags = NIC_SEND_FENCE;
	rig_post(rig, &wr);
	rig_post_send(rig, 4, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 2); /* no fence: sent although the READ is unanswered */
	rig_expect_silence(rig);
	rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN, 0, RIG_MTU);
	rig_expect_silence(rig); /* one of two responses does not release the fence */
	rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 1, RIG_MTU, RIG_MTU);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 3); /* although the SEND before it is not acknowledged */
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 4);
	rig_destroy(rig);
}

/* Bind a type 2 window over the first 4 KiB of the arena. @return its R_Key */
static uint32_t bind_window(struct rig *rig, struct nic_mw **mw)
{
	struct nic_send_wr wr = {.wr_id = 100, .opcode = NIC_WR_BIND_MW};
	uint32_t rkey;

	assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, mw), 0);
	rkey = (nic_mw_rkey(*mw) & ~0xffu) | 0x42;
	wr.bind = (struct nic_bind){.mw = *mw,
				    .mr = rig->mr,
				    .addr = rig_va(rig, 0),
				    .len = 4096,
				    .access = NIC_ACCESS_REMOTE_WRITE,
				    .rkey = rkey};
	rig_post(rig, &wr);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 100, NIC_WC_SUCCESS);
	return rkey;
}

/* The peer WRITEs with this R_Key. @return whether the WRITE was executed; a refusal ends the connection. */
static bool write_through(struct rig *rig, uint32_t rkey, uint32_t psn)
{
	struct packet p = rig_peer_data(rig, WRITE_ONLY, psn, 0, 8);

	p.rkey = rkey;
	assert_true(rig_rx(rig, &p));
	while (rig_tx(rig, &p))
		if (p.op->value == ACK)
			return p.syndrome == SYN_ACK;
	fail_msg("no answer");
	return false;
}

static void req__RQ_12_local_invalidate_waits_for_everything_before_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr inv = {.wr_id = 2, .opcode = NIC_WR_LOCAL_INV};
	struct nic_mw *mw;
	uint32_t rkey = bind_window(rig, &mw);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	inv.ex = rkey;
	rig_post(rig, &inv);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->send_cq);
	assert_true(write_through(rig, rkey, RIG_RQ_PSN)); /* the window is still valid */
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	assert_false(write_through(rig, rkey, RIG_RQ_PSN + 1));
	rig_destroy(rig);
}

/* A NOP does not delay the next request, completes in its turn, and takes no PSN. */
static void req__nop_completes_in_its_turn(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr nop = {.wr_id = 2, .opcode = NIC_WR_NOP};

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post(rig, &nop);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS).opcode, NIC_WC_SEND);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void req__RQ_11_nop_with_a_fence_waits_for_reads(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr nop = {.wr_id = 2, .opcode = NIC_WR_NOP, .flags = NIC_SEND_FENCE};
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
	rig_post(rig, &nop);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	rig_expect_silence(rig);
	p = rig_peer_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 8);
	p.syndrome = SYN_ACK;
	assert_true(rig_rx(rig, &p));
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void req__nop_is_for_all_services_and_is_flushed(void **state)
{
	for (enum nic_qp_type type = NIC_QPT_RC; type <= NIC_QPT_UD; type++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = type, .sig_none = true});
		struct nic_send_wr nop = {.wr_id = 1, .opcode = NIC_WR_NOP};

		rig_post(rig, &nop); /* unsignaled */
		nop.wr_id = 2;
		nop.flags = NIC_SEND_SIGNALED;
		rig_post(rig, &nop);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
		rig_modify_state(rig, NIC_QPS_ERR);
		nop.wr_id = 3;
		rig_post(rig, &nop);
		rig_expect_wc(rig->send_cq, 3, NIC_WC_WR_FLUSH_ERR);
		rig_destroy(rig);
	}
}

/* Post three requests; `spoil` makes the second one's SGE invalid. */
static void bad_gather(void (*spoil)(struct rig *rig, struct nic_sge *sge), enum nic_wr_opcode opcode, uint32_t len)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;
	struct packet p;
	bool ended = false;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	wr = rig_wr(rig, 2, opcode, 64, len);
	spoil(rig, &rig->sge);
	rig_post(rig, &wr);
	rig_post_send(rig, 3, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	while (rig_tx(rig, &p)) /* packets before the invalid place may be sent, but not the end of the message */
		ended |= op_ends(p.op);
	assert_false(ended);
	rig_expect_no_wc(rig->send_cq); /* the failed request completes after the one before it */
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_LOC_PROT_ERR);
	rig_expect_wc(rig->send_cq, 3, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void spoil_key(struct rig *rig, struct nic_sge *sge)
{
	sge->lkey ^= 0x100;
}

static void spoil_key_low_byte(struct rig *rig, struct nic_sge *sge)
{
	sge->lkey ^= 1;
}

static void spoil_start(struct rig *rig, struct nic_sge *sge)
{
	sge->addr = rig_va(rig, 0) - 1;
}

static void spoil_end(struct rig *rig, struct nic_sge *sge)
{
	sge->addr = rig_va(rig, RIG_ARENA) - sge->length + 1;
}

static void spoil_wrap(struct rig *rig, struct nic_sge *sge)
{
	sge->addr = UINT64_MAX - 3;
}

static void spoil_pd(struct rig *rig, struct nic_sge *sge)
{
	struct nic_pd *pd;
	struct nic_mr *mr;

	assert_int_equal(nic_pd_alloc(rig->nic, &pd), 0);
	assert_int_equal(nic_mr_reg(pd, rig->arena, 4096, rig_va(rig, 0), NIC_ACCESS_LOCAL_WRITE, &mr), 0);
	sge->lkey = nic_mr_lkey(mr);
}

static void req__RQ_14_a_bad_sge_fails_in_order_and_the_peer_completes_nothing(void **state)
{
	void (*const spoils[])(struct rig *, struct nic_sge *) = {spoil_key, spoil_key_low_byte, spoil_start,
								  spoil_end, spoil_wrap,	 spoil_pd};

	for (unsigned i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		bad_gather(spoils[i], NIC_WR_SEND, 16);
		bad_gather(spoils[i], NIC_WR_RDMA_WRITE, 16);
		bad_gather(spoils[i], NIC_WR_RDMA_WRITE_WITH_IMM, 3 * RIG_MTU);
	}
}

static void req__RQ_14_memory_deregistered_half_way_is_not_read(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge;
	struct nic_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND};
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 4096, rig_va(rig, 0), 0, &mr), 0);
	sge = (struct nic_sge){rig_va(rig, 0), 3 * RIG_MTU, nic_mr_lkey(mr)};
	rig_post(rig, &wr);
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	rig_destroy(rig);
}

static void req__RQ_14_a_failed_wqe_does_not_stop_retries_of_those_before_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	wr = rig_wr(rig, 2, NIC_WR_SEND, 64, 16);
	rig->sge.lkey ^= 0x100;
	rig_post(rig, &wr);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	rig_advance(rig, rig_timeout_ns(rig->attr.timeout));
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->send_cq);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_LOC_PROT_ERR);
	rig_destroy(rig);
}

static void req__RQ_14_gather_follows_the_sge_list(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge[4] = {{rig_va(rig, 5000), 100, rig->lkey},
				 {rig_va(rig, 1), 0, rig->lkey},
				 {rig_va(rig, 100), 300, rig->lkey},
				 {rig_va(rig, 9), 3, rig->lkey}};
	struct nic_send_wr wr = {.sg_list = sge, .num_sge = 4, .opcode = NIC_WR_SEND};
	uint8_t expect[403];
	struct packet p;

	memcpy(expect, rig->arena + 5000, 100);
	memcpy(expect + 100, rig->arena + 100, 300);
	memcpy(expect + 400, rig->arena + 9, 3);
	rig_post(rig, &wr);
	p = rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	assert_memory_equal(p.payload, expect, RIG_MTU);
	p = rig_expect_tx(rig, SEND_LAST, RIG_SQ_PSN + 1);
	assert_int_equal(p.payload_len, 403 - RIG_MTU);
	assert_memory_equal(p.payload, expect + RIG_MTU, 403 - RIG_MTU);
	rig_destroy(rig);
}

static void req__RQ_15_ud_message_over_the_port_mtu_sends_nothing_and_is_no_error(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD, .nic.active_mtu = NIC_MTU_512});
	struct nic_send_wr wr;
	struct nic_ah *ah;
	struct packet p;

	assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
	for (uint32_t len = 512; len <= 514; len++) {
		wr = rig_wr(rig, len, NIC_WR_SEND, 0, len);
		wr.ud.ah = ah;
		wr.ud.remote_qpn = RIG_PEER_QPN;
		wr.ud.remote_qkey = RIG_QKEY;
		rig_post(rig, &wr);
	}
	wr = rig_wr(rig, 9, NIC_WR_SEND, 0, 4);
	wr.ud.ah = ah;
	wr.ud.remote_qpn = RIG_PEER_QPN;
	rig_post(rig, &wr);
	assert_true(rig_tx(rig, &p));
	assert_int_equal(p.payload_len, 512);
	assert_true(rig_tx(rig, &p));
	assert_int_equal(p.payload_len, 4);
	assert_false(p.ackreq); /* UD packets never set AckReq (RQ-07) */
	rig_expect_silence(rig);
	for (uint32_t len = 512; len <= 514; len++)
		rig_expect_wc(rig->send_cq, len, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 9, NIC_WC_SUCCESS);
	assert_int_equal(rig_counter(rig, ud_oversize), 2);
	assert_int_equal(nic_ah_destroy(ah), 0);
	rig_destroy(rig);
}

static uint32_t lossless;

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	(void)ctx;
	(void)dgid;
	(void)dest_qpn;
	return lossless;
}

/** Send all packets that are due on the path that loses nothing. @return how many. */
static unsigned take(struct rig *rig)
{
	static uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};
	unsigned n = 0;

	while (nic_path_tx(rig->nic, lossless, &frame, 1, rig->now) == 1)
		n++;
	return n;
}

/* The peer would read the memory only after it has executed what follows the READ. */
static void req__nothing_overtakes_a_read_where_nothing_is_lost(void **state)
{
	static const enum nic_wr_opcode ops[] = {NIC_WR_RDMA_WRITE, NIC_WR_SEND, NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned i = 0; i < 3; i++) {
		struct rig *rig = rig_create(&(struct rig_opts){.nic.route = route});
		struct nic_send_wr wr;

		lossless = (uint32_t)nic_path_open(rig->nic, NIC_PATH_LOSSLESS);
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
		rig_post_send(rig, 2, NIC_WR_RDMA_READ, 0, 2 * RIG_MTU);
		rig_post_send(rig, 3, NIC_WR_RDMA_READ, 0, 8);
		wr = rig_wr(rig, 4, ops[i], 0, 8);
		rig_post(rig, &wr);
		assert_int_equal(take(rig), 3); /* READs do not wait for READs */
		rig_rx_data(rig, READ_RESP_FIRST, RIG_SQ_PSN + 1, 0, RIG_MTU);
		rig_rx_data(rig, READ_RESP_LAST, RIG_SQ_PSN + 2, RIG_MTU, RIG_MTU);
		assert_int_equal(take(rig), 0);
		rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN + 3, 0, 8);
		assert_int_equal(take(rig), 1);
		wr = rig_wr(rig, 5, ops[i], 0, 8);
		rig_post(rig, &wr);
		assert_int_equal(take(rig), 1); /* behind what is no READ, nothing waits */
		rig_destroy(rig);
	}
}

/* A QP connected to itself: its packets leave the NIC, and are checked and executed like others when they return. */
static void req__RQ_21_a_loopback_message_is_sent_and_checked_like_any_other(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_send_wr wr;
	struct packet p;

	rig->attr.dest_qp_num = rig->qpn;
	rig->attr.av.dgid = rig->gid;
	rig->attr.sq_psn = rig->attr.rq_psn;
	rig_to_rts(rig);
	wr = rig_wr(rig, 1, NIC_WR_RDMA_WRITE, 0, 64);
	wr.rdma.remote_addr = rig_va(rig, 4096);
	wr.rdma.rkey = rig->rkey;
	rig_post(rig, &wr);
	assert_true(rig_tx(rig, &p));
	rig_expect_untouched(rig, 4096, 64); /* sent, but not yet received */
	rig_expect_silence(rig);
	rig_rx_bytes(rig, rig->frames[rig->frame], rig->frame_lens[rig->frame]);
	assert_memory_equal(rig->arena + 4096, rig->arena, 64);
	assert_true(rig_tx(rig, &p));
	rig_rx_bytes(rig, rig->frames[rig->frame], rig->frame_lens[rig->frame]);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	wr.wr_id = 2;
	wr.rdma.rkey ^= 1;
	rig_post(rig, &wr);
	assert_true(rig_tx(rig, &p));
	rig_rx_bytes(rig, rig->frames[rig->frame], rig->frame_lens[rig->frame]);
	assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
	rig_expect_ack(rig, p.psn, SYN_ACCESS);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(req__RQ_08_wqes_in_posted_order_with_contiguous_psns),
		cmocka_unit_test(req__RQ_08_psns_wrap),
		cmocka_unit_test(req__RQ_10_reads_and_atomics_outstanding_stay_below_max_rd_atomic),
		cmocka_unit_test(req__RQ_10_no_read_at_all_with_max_rd_atomic_0),
		cmocka_unit_test(req__RQ_11_fence_waits_for_reads_and_atomics_before_it),
		cmocka_unit_test(req__RQ_12_local_invalidate_waits_for_everything_before_it),
		cmocka_unit_test(req__nop_completes_in_its_turn),
		cmocka_unit_test(req__RQ_11_nop_with_a_fence_waits_for_reads),
		cmocka_unit_test(req__nop_is_for_all_services_and_is_flushed),
		cmocka_unit_test(req__RQ_14_a_bad_sge_fails_in_order_and_the_peer_completes_nothing),
		cmocka_unit_test(req__RQ_14_memory_deregistered_half_way_is_not_read),
		cmocka_unit_test(req__RQ_14_a_failed_wqe_does_not_stop_retries_of_those_before_it),
		cmocka_unit_test(req__RQ_14_gather_follows_the_sge_list),
		cmocka_unit_test(req__RQ_15_ud_message_over_the_port_mtu_sends_nothing_and_is_no_error),
		cmocka_unit_test(req__nothing_overtakes_a_read_where_nothing_is_lost),
		cmocka_unit_test(req__RQ_21_a_loopback_message_is_sent_and_checked_like_any_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
