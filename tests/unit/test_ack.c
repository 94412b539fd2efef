/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ack.c - acknowledgements that the responder sends (conformance points AK-01 to AK-08). */
#include "rig.h"

#define DELAY 50000u

static void ack__AK_01_every_ack_request_is_answered(void **state)
{
	static const enum rig_op ops[] = {SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY, WRITE_ONLY_IMM};
	struct rig *rig = rig_ready(NULL);

	for (uint32_t i = 0; i < 4; i++) {
		rig_post_recv(rig, i, 4096, 64);
		rig_rx_data(rig, ops[i], RIG_RQ_PSN + i, 0, 8);
		rig_expect_ack(rig, RIG_RQ_PSN + i, SYN_ACK);
		rig_expect_silence(rig);
	}
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 3, 0, 8); /* AckReq in a duplicate is answered as well */
	rig_expect_ack(rig, RIG_RQ_PSN + 3, SYN_ACK);
	rig_destroy(rig);
}

static void ack__AK_01_ackreq_in_a_middle_packet_is_answered(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	p = rig_peer_data(rig, WRITE_FIRST, RIG_RQ_PSN, 0, RIG_MTU);
	p.dma_len = 3 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_silence(rig); /* the packet had no AckReq */
	p = rig_peer_data(rig, WRITE_MIDDLE, RIG_RQ_PSN + 1, RIG_MTU, RIG_MTU);
	p.ackreq = true;
	rig_rx(rig, &p);
	rig_expect_ack(rig, RIG_RQ_PSN + 1, SYN_ACK);
	rig_destroy(rig);
}

static void ack__AK_01_a_delayed_ack_is_sent_when_its_delay_ends(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});

	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	rig_expect_silence(rig);
	assert_true(nic_next_deadline(rig->nic) == rig->now + DELAY);
	rig_advance(rig, DELAY / 2);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 1, 0, 8); /* does not restart the delay */
	rig_expect_silence(rig);
	rig_advance(rig, DELAY / 2);
	rig_expect_ack(rig, RIG_RQ_PSN + 1, SYN_ACK); /* one ACK for both WRITEs */
	rig_expect_silence(rig);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 2, 0, 8);
	rig_expect_silence(rig);
	nic_ack_flush(rig->nic, false);
	rig_expect_ack(rig, RIG_RQ_PSN + 2, SYN_ACK);
	rig_expect_silence(rig);
	assert_true(nic_next_deadline(rig->nic) == UINT64_MAX);
	rig_destroy(rig);
}

static void ack__AK_01_a_burst_of_100_writes_is_acked_before_the_delay(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});
	unsigned acks = 0;

	for (uint32_t i = 0; i < 100; i++) { /* 100 WRITEs at one instant */
		rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + i, 0, 8);
		acks += rig_drain(rig);
	}
	assert_true(acks >= 100 / 20 && acks < 50);
	rig_destroy(rig);
}

static void ack__AK_01_own_requests_do_not_delay_acks(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 200 * RIG_MTU);
	for (unsigned i = 0; i < 10; i++)
		assert_true(rig_tx(rig, &p));
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(rig_tx(rig, &p));
		if (p.op->value == ACK)
			break;
	}
	assert_int_equal(p.op->value, ACK);
	rig_destroy(rig);
}

/* A program posts an answer while the NIC still holds back the ACK of the message. If the program waits for
 * completions asleep (a CQ is armed), the ACK leaves before the answer, otherwise after it. */
static void ack__a_delayed_ack_precedes_a_new_request_if_a_cq_is_armed(void **state)
{
	for (unsigned armed = 0; armed < 3; armed++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});

		rig_post_recv(rig, 1, 4096, 64);
		rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		rig_expect_silence(rig);
		if (armed)
			nic_cq_arm(armed == 1 ? rig->recv_cq : rig->send_cq, false);
		rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
		if (armed)
			rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
		rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		if (!armed) {
			nic_ack_flush(rig->nic, true);
			rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
		}
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

/* The ACK of a WRITE has to wait for the READ response before it, but the QP's own request leaves between the
 * packets of that response. */
static void ack__read_responses_do_not_delay_requests_while_a_cq_is_armed(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});
	struct packet p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN);
	unsigned until_request = 0;

	nic_cq_arm(rig->recv_cq, false);
	p.dma_len = 12 * RIG_MTU;
	rig_rx(rig, &p);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 12, 0, 8);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	do {
		assert_true(rig_tx(rig, &p));
	} while (p.op->value != SEND_ONLY && ++until_request < 12);
	assert_true(until_request < 3);
	rig_destroy(rig);
}

static void ack__AK_02_reads_and_atomics_are_answered_even_without_ackreq(void **state)
{
	static const enum rig_op ops[] = {READ_REQ, FETCH_ADD, CMP_SWAP};

	for (unsigned asked = 0; asked < 2; asked++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});

		for (uint32_t i = 0; i < 3; i++) {
			struct packet p = rig_peer_packet(rig, ops[i], RIG_RQ_PSN + i);

			p.ackreq = asked;
			p.dma_len = 8;
			rig_rx(rig, &p);
			rig_expect_tx(rig, i ? ATOMIC_ACK : READ_RESP_ONLY, RIG_RQ_PSN + i);
			rig_expect_silence(rig);
		}
		rig_destroy(rig);
	}
}

/* One-packet WRITEs arrive out of order, with duplicates and gaps: the PSNs of the ACKs never decrease. */
static void ack__AK_03_AK_01_ack_psns_never_decrease(void **state)
{
	for (unsigned delay = 0; delay < 2; delay++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = delay ? DELAY : 0});
		uint32_t last = RIG_RQ_PSN - 1, x = 12345;
		struct packet p;

		for (uint32_t base = 0; base < 2000;) {
			int32_t jump;

			x = x * 1664525 + 1013904223;
			jump = (int32_t)(x >> 28) - 10; /* back by up to 10, ahead by up to 5 */
			if (x & 0x80000 || jump == 0)
				jump = 0;
			p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN + base + (uint32_t)jump, 0, 8);
			p.ackreq = x >> 16 & 1;
			rig_rx(rig, &p);
			if (jump == 0)
				base++;
			rig_advance(rig, x >> 20);
			while ((x & 0x300) && rig_tx(rig, &p)) {
				if (p.syndrome != SYN_ACK)
					continue;
				assert_true(psn_diff(p.psn, last) >= 0);
				last = p.psn;
			}
		}
		p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN + 2000, 0, 8);
		rig_rx(rig, &p);
		rig_advance(rig, DELAY);
		while (rig_tx(rig, &p))
			last = p.psn;
		assert_int_equal(last, RIG_RQ_PSN + 2000);
		rig_destroy(rig);
	}
}

static void ack__AK_04_msn_counts_new_messages(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t psn = RIG_RQ_PSN;
	struct packet p;

	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);	/* an ACK is no request */
	rig_rx_data(rig, SEND_ONLY, psn, 0, 8); /* RNR NAK: the SEND is not executed */
	p = rig_expect_tx(rig, ACK, psn);
	assert_int_equal(p.msn, 0);
	rig_post_recv(rig, 1, 4096, 64);
	rig_rx_data(rig, SEND_ONLY, psn, 0, 8);
	p = rig_expect_ack(rig, psn++, SYN_ACK);
	assert_int_equal(p.msn, 1);
	rig_rx_data(rig, SEND_ONLY, psn - 1, 0, 8); /* duplicate */
	p = rig_expect_ack(rig, psn - 1, SYN_ACK);
	assert_int_equal(p.msn, 1);
	p = rig_peer_data(rig, WRITE_FIRST, psn, 0, RIG_MTU);
	p.dma_len = RIG_MTU + 8;
	p.ackreq = true;
	rig_rx(rig, &p);
	p = rig_expect_ack(rig, psn++, SYN_ACK);
	assert_int_equal(p.msn, 1); /* the WRITE is not complete */
	rig_rx_data(rig, WRITE_LAST, psn, 0, 8);
	p = rig_expect_ack(rig, psn++, SYN_ACK);
	assert_int_equal(p.msn, 2);
	p = rig_peer_packet(rig, READ_REQ, psn);
	p.dma_len = 3 * RIG_MTU;
	rig_rx(rig, &p);
	p = rig_expect_tx(rig, READ_RESP_FIRST, psn);
	assert_int_equal(p.msn, 3); /* a READ counts when it is accepted */
	rig_expect_tx(rig, READ_RESP_MIDDLE, psn + 1);
	p = rig_expect_tx(rig, READ_RESP_LAST, psn + 2);
	assert_int_equal(p.msn, 3);
	psn += 3;
	p = rig_peer_packet(rig, FETCH_ADD, psn);
	rig_rx(rig, &p);
	p = rig_expect_tx(rig, ATOMIC_ACK, psn++);
	assert_int_equal(p.msn, 4);
	rig_rx_data(rig, WRITE_ONLY, psn, 0, 0);
	p = rig_expect_ack(rig, psn, SYN_ACK);
	assert_int_equal(p.msn, 5);
	rig_rx_data(rig, WRITE_ONLY, psn + 5, 0, 0); /* ahead of the expected PSN */
	p = rig_expect_ack(rig, psn + 1, SYN_SEQ);
	assert_int_equal(p.msn, 5);
	rig_destroy(rig);
}

static void ack__AK_05_no_credits_are_offered(void **state)
{
	for (unsigned srq = 0; srq < 2; srq++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.srq = srq});

		rig_post_recv(rig, 1, 4096, 64);
		rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
		rig_expect_ack(rig, RIG_RQ_PSN, 0x1f);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		rig_destroy(rig);
	}
}

static void ack__AK_06_acknowledged_data_is_already_in_memory(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_recv(rig, 1, 4096, 1024);
	rig_rx_data(rig, SEND_FIRST, RIG_RQ_PSN, 0, RIG_MTU);
	p = rig_peer_data(rig, SEND_MIDDLE, RIG_RQ_PSN + 1, RIG_MTU, RIG_MTU);
	p.ackreq = true;
	rig_rx(rig, &p);
	rig_expect_ack(rig, RIG_RQ_PSN + 1, SYN_ACK);
	rig_expect_data(rig, 4096, 0, 2 * RIG_MTU);
	rig_expect_no_wc(rig->recv_cq);
	rig_rx_data(rig, SEND_LAST, RIG_RQ_PSN + 2, 2 * RIG_MTU, 10);
	rig_expect_ack(rig, RIG_RQ_PSN + 2, SYN_ACK);
	rig_expect_data(rig, 4096, 0, 2 * RIG_MTU + 10);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN + 3, 100, 64);
	p.va = rig_va(rig, 8192);
	rig_rx(rig, &p);
	rig_expect_ack(rig, RIG_RQ_PSN + 3, SYN_ACK);
	rig_expect_data(rig, 8192, 100, 64);
	rig_destroy(rig);
}

/* A NAK replaces the delayed ACKs: it acknowledges all packets before its PSN. */
static void ack__AK_07_a_nak_acknowledges_all_earlier_packets(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = DELAY});

	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 1, 0, 8);
	rig_expect_silence(rig);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 3, 0, 8);
	rig_expect_ack(rig, RIG_RQ_PSN + 2, SYN_SEQ);
	rig_expect_silence(rig);
	rig_advance(rig, 2 * DELAY);
	rig_expect_silence(rig);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 2, 0, 8);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN + 3, 0, 8);
	rig_expect_ack(rig, RIG_RQ_PSN + 3, SYN_RNR | rig->attr.min_rnr_timer);
	rig_advance(rig, 2 * DELAY);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void ack__AK_07_a_nak_completes_the_requesters_earlier_wqes(void **state)
{
	static const unsigned naks[] = {SYN_SEQ, SYN_RNR | 5, SYN_INV, SYN_ACCESS, SYN_OP};

	for (unsigned i = 0; i < 5; i++) {
		struct rig *rig = rig_ready(NULL);

		for (uint32_t k = 0; k < 4; k++)
			rig_post_send(rig, k, NIC_WR_SEND, 0, 8);
		rig_drain(rig);
		rig_ack(rig, RIG_SQ_PSN + 3, naks[i]);
		for (uint32_t k = 0; k < 3; k++)
			rig_expect_wc(rig->send_cq, k, NIC_WC_SUCCESS);
		rig_destroy(rig);
	}
}

static void check_address(const struct rig *rig, const struct packet *p)
{
	assert_int_equal(p->dest_qpn, RIG_PEER_QPN);
	assert_int_equal(p->pkey, 0xffff);
	assert_false(p->ackreq);
	assert_false(p->se);
	assert_memory_equal(&p->sgid, &rig->gid, 16);
	assert_memory_equal(&p->dgid, &rig->peer_gid, 16);
}

static void ack__AK_08_responses_carry_the_peers_qpn_without_ackreq_and_se(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	p = rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
	check_address(rig, &p);
	p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN + 1);
	p.dma_len = 3 * RIG_MTU;
	p.se = true;
	rig_rx(rig, &p);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(rig_tx(rig, &p));
		check_address(rig, &p);
	}
	p = rig_peer_packet(rig, FETCH_ADD, RIG_RQ_PSN + 4);
	rig_rx(rig, &p);
	p = rig_expect_tx(rig, ATOMIC_ACK, RIG_RQ_PSN + 4);
	check_address(rig, &p);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN + 5, 0, 8);
	p = rig_expect_ack(rig, RIG_RQ_PSN + 5, SYN_RNR | rig->attr.min_rnr_timer);
	check_address(rig, &p);
	rig_rx_data(rig, WRITE_LAST, RIG_RQ_PSN + 5, 0, 8);
	p = rig_expect_ack(rig, RIG_RQ_PSN + 5, SYN_INV);
	check_address(rig, &p);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ack__AK_01_every_ack_request_is_answered),
		cmocka_unit_test(ack__AK_01_ackreq_in_a_middle_packet_is_answered),
		cmocka_unit_test(ack__AK_01_a_delayed_ack_is_sent_when_its_delay_ends),
		cmocka_unit_test(ack__AK_01_a_burst_of_100_writes_is_acked_before_the_delay),
		cmocka_unit_test(ack__AK_01_own_requests_do_not_delay_acks),
		cmocka_unit_test(ack__a_delayed_ack_precedes_a_new_request_if_a_cq_is_armed),
		cmocka_unit_test(ack__read_responses_do_not_delay_requests_while_a_cq_is_armed),
		cmocka_unit_test(ack__AK_02_reads_and_atomics_are_answered_even_without_ackreq),
		cmocka_unit_test(ack__AK_03_AK_01_ack_psns_never_decrease),
		cmocka_unit_test(ack__AK_04_msn_counts_new_messages),
		cmocka_unit_test(ack__AK_05_no_credits_are_offered),
		cmocka_unit_test(ack__AK_06_acknowledged_data_is_already_in_memory),
		cmocka_unit_test(ack__AK_07_a_nak_acknowledges_all_earlier_packets),
		cmocka_unit_test(ack__AK_07_a_nak_completes_the_requesters_earlier_wqes),
		cmocka_unit_test(ack__AK_08_responses_carry_the_peers_qpn_without_ackreq_and_se),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
