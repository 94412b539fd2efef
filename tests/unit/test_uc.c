/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uc.c - the unreliable connection (IBTA 9.8.2; conformance points UC-01 to UC-03, RO-09). */
#include "resp_util.h"

#define UC(op) (RIG_UC | (op))

static struct rig *ready(void)
{
	return rig_ready(&(struct rig_opts){.type = NIC_QPT_UC});
}

/* A message of three packets loses one or two of them: nothing is delivered, and its receive WQE serves the next
 * message. */
static void uc__UC_01_message_with_a_lost_packet_is_dropped_and_its_wqe_recycled(void **state)
{
	static const uint8_t ops[] = {UC(SEND_FIRST), UC(SEND_MIDDLE), UC(SEND_LAST)};

	for (unsigned arrive = 0; arrive < 7; arrive++) { /* a bit for each packet that arrives; 7 would be all */
		struct rig *rig = ready();
		struct nic_wc wc;

		rig_post_recv(rig, 1, 0, 1024);
		rig_post_recv(rig, 2, 1024, 1024);
		for (unsigned i = 0; i < 3; i++)
			if (arrive >> i & 1)
				rig_rx_data(rig, ops[i], E + i, 0, i == 2 ? 9 : RIG_MTU);
		rig_expect_no_wc(rig->recv_cq);
		rig_rx_data(rig, UC(SEND_ONLY), E + 3, 512, 20);
		wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 20);
		rig_expect_data(rig, 0, 512, 20);
		rig_rx_data(rig, UC(SEND_FIRST), E + 4, 0, RIG_MTU);
		rig_rx_data(rig, UC(SEND_LAST), E + 5, RIG_MTU, 9);
		assert_int_equal(rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS).byte_len, RIG_MTU + 9);
		rig_expect_data(rig, 1024, 0, RIG_MTU + 9);
		rig_expect_no_wc(rig->recv_cq);
		rig_destroy(rig);
	}
}

static void uc__UC_01_message_cut_short_by_a_new_one(void **state)
{
	struct rig *rig = ready();

	rig_post_recv(rig, 1, 0, 1024);
	rig_rx_data(rig, UC(SEND_FIRST), E, 0, RIG_MTU);
	rig_rx_data(rig, UC(SEND_FIRST), E + 1, 1024, RIG_MTU); /* in sequence, but the message before has not ended */
	rig_rx_data(rig, UC(SEND_LAST), E + 2, 1024 + RIG_MTU, 4);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, RIG_MTU + 4);
	rig_expect_data(rig, 0, 1024, RIG_MTU + 4);
	rig_destroy(rig);
}

static void uc__UC_01_resynchronises_at_any_psn(void **state)
{
	static const uint32_t jumps[] = {1, 100, 0x7fffff, 0x800000, 0xfffffe};

	for (unsigned i = 0; i < 5; i++) {
		struct rig *rig = ready();

		rig_post_recv(rig, 1, 0, 1024);
		rig_rx_data(rig, UC(SEND_FIRST), E + jumps[i], 0, RIG_MTU);
		rig_rx_data(rig, UC(SEND_LAST), E + jumps[i] + 1, RIG_MTU, 4);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		rig_destroy(rig);
	}
}

/* A UC QP never answers, whatever would earn an RC packet an ACK, a NAK or an RNR NAK. */
static void uc__UC_02_RO_09_nothing_is_ever_answered(void **state)
{
	struct rig *rig = ready();
	struct packet p;
	uint32_t psn = E;
	uint64_t dropped;

	p = rig_peer_data(rig, UC(SEND_ONLY), psn++, 0, 8);
	p.ackreq = true;
	rig_rx(rig, &p); /* no receive WQE */
	assert_int_equal(rig_counter(rig, uc_dropped), 1);
	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 64, 64);
	p.psn = psn++;
	rig_rx(rig, &p); /* a valid message */
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_rx_data(rig, UC(SEND_MIDDLE), psn++, 0, RIG_MTU);	/* without a FIRST */
	rig_rx_data(rig, UC(SEND_ONLY), psn++, 0, RIG_MTU + 1); /* too long for the PMTU */
	rig_rx_data(rig, UC(SEND_ONLY), psn++, 0, 128);		/* too long for the buffer */
	rig_rx_data(rig, UC(SEND_FIRST), psn++, 0, 8);		/* too short for a FIRST */
	rig_rx_data(rig, UC(SEND_MIDDLE), psn + 7, 0, RIG_MTU); /* out of sequence */
	p = rig_peer_data(rig, UC(WRITE_ONLY), psn++, 0, 8);
	p.rkey ^= 0x100;
	rig_rx(rig, &p); /* bad key */
	p = rig_peer_data(rig, UC(WRITE_ONLY), psn++, 0, 8);
	p.dma_len = 9;
	rig_rx(rig, &p);
	p = rig_peer_packet(rig, UC(SEND_ONLY), psn++);
	{ /* opcodes that UC does not have */
		static const uint8_t none[] = {UC(READ_REQ), UC(FETCH_ADD), UC(CMP_SWAP), UC(SEND_ONLY_INV), UC(ACK)};
		uint8_t buf[NIC_FRAME_MAX];
		unsigned len = packet_encode(&p, buf);

		dropped = rig_counter(rig, rx_bad_opcode);
		for (unsigned i = 0; i < sizeof(none); i++) {
			buf[28] = none[i];
			rig_rx_bytes(rig, buf, len);
		}
		assert_int_equal(rig_counter(rig, rx_bad_opcode), dropped + sizeof(none));
	}
	rig_expect_silence(rig);
	rig_advance(rig, 1000000000);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->recv_cq);
	assert_int_equal(rig_counter(rig, uc_dropped), 8);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_expect_untouched(rig, 1024, 4096);
	rig_rx_data(rig, UC(SEND_ONLY), psn, 0, 8); /* the second WQE is still posted */
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void uc__RO_09_right_missing_is_a_silent_drop(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.type = NIC_QPT_UC});

	rig->attr.qp_access_flags = NIC_ACCESS_REMOTE_READ;
	rig_to_rts(rig);
	rig_rx_data(rig, UC(WRITE_ONLY), E, 0, 8);
	rig_expect_silence(rig);
	rig_expect_untouched(rig, 0, 64);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

/* An invalid receive buffer is the receiver's own fault: it is reported and moves the QP to ERR, because later messages
 * would meet it, too. */
static void uc__bad_receive_buffer_is_reported_and_ends_the_qp(void **state)
{
	struct rig *rig = ready();
	struct nic_sge sge = {.addr = rig_va(rig, 0), .length = 64, .lkey = rig->lkey ^ 1};
	struct nic_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
	rig_post_recv(rig, 2, 0, 64);
	rig_rx_data(rig, UC(SEND_ONLY), E, 0, 8);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_PROT_ERR);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_expect_silence(rig);
	rig_expect_untouched(rig, 0, 64);
	rig_destroy(rig);
}

static void uc__UC_03_broken_write_may_be_partly_placed_and_gives_no_completion(void **state)
{
	for (unsigned lost = 0; lost < 3; lost++) {
		static const uint8_t ops[] = {UC(WRITE_FIRST), UC(WRITE_MIDDLE), UC(WRITE_LAST_IMM)};
		struct rig *rig = ready();

		rig_post_recv(rig, 1, 8192, 64);
		for (unsigned i = 0; i < 3; i++) {
			struct packet p = rig_peer_data(rig, ops[i], E + i, i * RIG_MTU, i == 2 ? 10 : RIG_MTU);

			p.dma_len = 2 * RIG_MTU + 10;
			if (i != lost)
				rig_rx(rig, &p);
		}
		rig_expect_no_wc(rig->recv_cq);
		rig_expect_data(rig, 0, 0, lost * RIG_MTU); /* data before the loss was written */
		rig_expect_untouched(rig, lost * RIG_MTU, 4 * RIG_MTU);
		rig_rx_data(rig, UC(WRITE_ONLY_IMM), E + 3, 0, 8); /* a complete message */
		assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).opcode, NIC_WC_RECV_RDMA_WITH_IMM);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

/* A UC send completes when its last packet is sent; it requests no ACK and is never repeated. */
static void uc__UC_02_sender_asks_for_no_ack_and_completes_when_sent(void **state)
{
	struct rig *rig = ready();

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_post_send(rig, 2, NIC_WR_RDMA_WRITE, 0, 8);
	assert_false(rig_expect_tx(rig, UC(SEND_FIRST), RIG_SQ_PSN).ackreq);
	rig_expect_no_wc(rig->send_cq);
	assert_false(rig_expect_tx(rig, UC(SEND_LAST), RIG_SQ_PSN + 1).ackreq);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_false(rig_expect_tx(rig, UC(WRITE_ONLY), RIG_SQ_PSN + 2).ackreq);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_advance(rig, 100 * rig_timeout_ns(20));
	rig_expect_silence(rig);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uc__UC_01_message_with_a_lost_packet_is_dropped_and_its_wqe_recycled),
		cmocka_unit_test(uc__UC_01_message_cut_short_by_a_new_one),
		cmocka_unit_test(uc__UC_01_resynchronises_at_any_psn),
		cmocka_unit_test(uc__UC_02_RO_09_nothing_is_ever_answered),
		cmocka_unit_test(uc__RO_09_right_missing_is_a_silent_drop),
		cmocka_unit_test(uc__bad_receive_buffer_is_reported_and_ends_the_qp),
		cmocka_unit_test(uc__UC_03_broken_write_may_be_partly_placed_and_gives_no_completion),
		cmocka_unit_test(uc__UC_02_sender_asks_for_no_ack_and_completes_when_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
