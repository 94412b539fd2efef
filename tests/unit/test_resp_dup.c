/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_resp_dup.c - duplicate requests: which are executed again, which are answered from saved results, and which are
 * dropped (IBTA 9.7.5.1.4; conformance points RP-02 to RP-07, RP-10, RP-11).
 */
#include "resp_util.h"
#include "qp.h"

static void resp__RP_02_duplicate_send_is_acked_with_the_last_psn_not_delivered(void **state)
{
	struct rig *rig = rig_ready(NULL);

	for (unsigned i = 1; i <= 4; i++)
		rig_post_recv(rig, i, 1024 * i, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 16);
	rig_rx_data(rig, SEND_ONLY, E + 1, 16, 16);
	rig_rx_data(rig, SEND_ONLY, E + 2, 32, 16);
	rig_drain(rig);
	assert_int_equal(nic_cq_count(rig->recv_cq), 3);
	for (uint32_t i = 0; i < 3; i++) {
		rig_rx_data(rig, SEND_ONLY, E + i, 512, 16); /* different data, which must not be written */
		assert_int_equal(rig_expect_ack(rig, E + 2, SYN_ACK).msn, 3);
	}
	rig_expect_silence(rig);
	assert_int_equal(nic_cq_count(rig->recv_cq), 3);
	rig_expect_untouched(rig, 4096, 64);
	for (uint32_t i = 0; i < 3; i++)
		rig_expect_data(rig, 1024 * (i + 1), 16 * i, 16);
	rig_rx_data(rig, SEND_ONLY, E + 3, 48, 16); /* the duplicates have not used up the fourth receive WQE */
	assert_int_equal(nic_cq_count(rig->recv_cq), 4);
	rig_destroy(rig);
}

static void resp__RP_02_duplicate_write_is_acked_and_not_written_again(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_write(rig, WRITE_FIRST, E, 0, RIG_MTU, RIG_MTU + 9);
	rig_rx_data(rig, WRITE_LAST, E + 1, RIG_MTU, 9);
	rig_expect_ack(rig, E + 1, SYN_ACK);
	memset(rig->arena, 0x5a, 2 * RIG_MTU); /* the application has overwritten the data meanwhile */
	rx_write(rig, WRITE_FIRST, E, 0, RIG_MTU, RIG_MTU + 9);
	rig_rx_data(rig, WRITE_LAST, E + 1, RIG_MTU, 9);
	assert_int_equal(rig_expect_ack(rig, E + 1, SYN_ACK).msn, 1);
	rig_drain(rig);
	for (unsigned i = 0; i < 2 * RIG_MTU; i++)
		assert_int_equal(rig->arena[i], 0x5a);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

/* Packets of an open message arrive again: they are acknowledged, and the message continues unaffected. */
static void resp__RP_02_duplicate_inside_an_open_message(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 1, 0, 1024);
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	rig_rx_data(rig, SEND_MIDDLE, E + 1, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, SEND_FIRST, E, 4096, RIG_MTU);
	assert_int_equal(rig_expect_ack(rig, E + 1, SYN_ACK).msn, 0);
	rig_rx_data(rig, SEND_LAST, E + 2, 2 * RIG_MTU, 7);
	rig_expect_ack(rig, E + 2, SYN_ACK);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, 2 * RIG_MTU + 7);
	rig_expect_data(rig, 0, 0, 2 * RIG_MTU + 7);
	rig_destroy(rig);
}

static void resp__RP_03_duplicate_read_gives_current_memory(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_read(rig, E, 64, RIG_MTU + 30);
	expect_read_data(rig, READ_RESP_FIRST, E, 64, RIG_MTU);
	expect_read_data(rig, READ_RESP_LAST, E + 1, 64 + RIG_MTU, 30);
	memset(rig->arena, 0x77, 4096);
	rx_read(rig, E, 64, RIG_MTU + 30);
	expect_read_data(rig, READ_RESP_FIRST, E, 64, RIG_MTU);
	expect_read_data(rig, READ_RESP_LAST, E + 1, 64 + RIG_MTU, 30);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void resp__RP_03_duplicate_read_of_a_part_of_the_original(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_read(rig, E, 0, 4 * RIG_MTU + 30);
	assert_int_equal(rig_drain(rig), 5);
	rx_read(rig, E + 2, 2 * RIG_MTU, 2 * RIG_MTU + 30); /* the end of the READ */
	expect_read_data(rig, READ_RESP_FIRST, E + 2, 2 * RIG_MTU, RIG_MTU);
	expect_read_data(rig, READ_RESP_MIDDLE, E + 3, 3 * RIG_MTU, RIG_MTU);
	expect_read_data(rig, READ_RESP_LAST, E + 4, 4 * RIG_MTU, 30);
	rx_read(rig, E + 4, 4 * RIG_MTU, 30); /* only the last packet of the READ */
	expect_read_data(rig, READ_RESP_ONLY, E + 4, 4 * RIG_MTU, 30);
	rx_read(rig, E + 1, RIG_MTU, 2 * RIG_MTU); /* the middle of the READ */
	expect_read_data(rig, READ_RESP_FIRST, E + 1, RIG_MTU, RIG_MTU);
	expect_read_data(rig, READ_RESP_LAST, E + 2, 2 * RIG_MTU, RIG_MTU);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void resp__RP_04_duplicate_atomic_replays_saved_value(void **state)
{
	static const uint8_t ops[] = {FETCH_ADD, CMP_SWAP};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(NULL);
		uint64_t after = ops[i] == FETCH_ADD ? 101 : 1;

		arena_set_u64(rig, 64, 100);
		rx_atomic(rig, ops[i], E, 64, 1, 100);
		assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, E).orig, 100);
		assert_int_equal(arena_u64(rig, 64), after);
		arena_set_u64(rig, 64, 100); /* a second execution would change it again */
		for (unsigned k = 0; k < 3; k++) {
			rx_atomic(rig, ops[i], E, 64, 1, 100);
			struct packet p = rig_expect_tx(rig, ATOMIC_ACK, E);

			assert_int_equal(p.orig, 100);
			assert_int_equal(p.msn, 1);
			assert_int_equal(p.syndrome, SYN_ACK);
			assert_int_equal(arena_u64(rig, 64), 100);
		}
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

static void resp__RP_04_each_of_several_atomics_has_its_own_saved_value(void **state)
{
	struct rig *rig = rig_ready(NULL);

	arena_set_u64(rig, 0, 0);
	for (uint32_t i = 0; i < 4; i++) { /* max_dest_rd_atomic of the rig */
		rx_atomic(rig, FETCH_ADD, E + i, 0, 1000, 0);
		rig_expect_tx(rig, ATOMIC_ACK, E + i);
	}
	for (uint32_t i = 4; i-- > 0;) {
		rx_atomic(rig, FETCH_ADD, E + i, 0, 1000, 0);
		assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, E + i).orig, 1000 * i);
	}
	assert_int_equal(arena_u64(rig, 0), 4000);
	rig_destroy(rig);
}

static void resp__RP_05_duplicate_without_a_saved_result_is_dropped(void **state)
{
	struct rig *rig = rig_ready(NULL);

	arena_set_u64(rig, 0, 0);
	for (uint32_t i = 0; i < 5; i++) { /* the fifth result replaces the first one */
		rx_atomic(rig, FETCH_ADD, E + i, 0, 1, 0);
		rig_expect_tx(rig, ATOMIC_ACK, E + i);
	}
	rx_atomic(rig, FETCH_ADD, E, 0, 1, 0);
	rx_read(rig, E - 1, 0, 8); /* a PSN before the first request */
	rig_expect_silence(rig);
	assert_int_equal(arena_u64(rig, 0), 5);
	assert_int_equal(rig_counter(rig, duplicate_dropped), 2);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rx_atomic(rig, FETCH_ADD, E + 1, 0, 1, 0); /* the second result is still saved */
	assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, E + 1).orig, 1);
	rig_destroy(rig);
}

static void resp__RP_06_answers_to_duplicates_keep_psn_order(void **state)
{
	struct rig *rig = rig_ready(NULL);

	arena_set_u64(rig, 4096, 5);
	rx_read(rig, E, 0, 8);
	rx_atomic(rig, FETCH_ADD, E + 1, 4096, 1, 0);
	assert_int_equal(rig_drain(rig), 2);
	rx_read(rig, E + 2, 16, 8); /* a new request, answered after the duplicates */
	rx_write(rig, WRITE_ONLY, E + 3, 8192, 8, 8);
	rx_atomic(rig, FETCH_ADD, E + 1, 4096, 1, 0); /* two duplicates, the later one first */
	rx_read(rig, E, 0, 8);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, E + 1).orig, 5);
	rig_expect_tx(rig, READ_RESP_ONLY, E + 2);
	rig_expect_ack(rig, E + 3, SYN_ACK);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/* A new request replaces the oldest saved result just before the duplicate that asks for this result is answered. The
 * other duplicates are still answered in order. */
static void resp__RP_06_order_holds_when_the_oldest_result_is_given_up(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t psn = E;

	for (unsigned i = 0; i < 7; i++, psn++) {
		rx_read(rig, psn, 8 * i, 8);
		rig_expect_tx(rig, READ_RESP_ONLY, psn);
	}
	rx_read(rig, psn - 4, 8 * 3, 8); /* the oldest of four saved results */
	rx_read(rig, psn - 2, 8 * 5, 8);
	rx_read(rig, psn, 0, 8);
	rx_read(rig, psn - 1, 8 * 6, 8);
	rig_expect_tx(rig, READ_RESP_ONLY, psn - 2);
	rig_expect_tx(rig, READ_RESP_ONLY, psn - 1);
	rig_expect_tx(rig, READ_RESP_ONLY, psn);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void resp__RP_07_wrong_duplicates_are_dropped_without_a_nak(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;
	unsigned dropped = 0;

	arena_set_u64(rig, 4096, 1);
	rx_read(rig, E, 64, 2 * RIG_MTU);
	rx_atomic(rig, FETCH_ADD, E + 2, 4096, 1, 0);
	rig_drain(rig);
	for (unsigned i = 0; i < 6; i++) {
		p = rig_peer_packet(rig, READ_REQ, E);
		p.va = rig_va(rig, 64);
		p.dma_len = 2 * RIG_MTU;
		switch (i) {
		case 0:
			p.rkey ^= 0x100;
			break;
		case 1:
			p.va += 8;
			break;
		case 2:
			p.dma_len += 1;
			break;
		case 3:
			p.dma_len = 0x80000001u;
			break;
		case 4:
			p.va = UINT64_MAX - 3;
			break; /* the range would wrap */
		case 5:
			p.psn++;
			break; /* the address does not belong to this PSN */
		}
		rig_rx(rig, &p);
		rig_expect_silence(rig);
		assert_int_equal(rig_counter(rig, duplicate_dropped), ++dropped);
	}
	for (unsigned i = 0; i < 4; i++) {
		p = rig_peer_packet(rig, FETCH_ADD, E + 2);
		p.va = rig_va(rig, 4096);
		switch (i) {
		case 0:
			p.rkey ^= 1;
			break;
		case 1:
			p.va += 8;
			break;
		case 2:
			p.psn = E;
			break; /* the request with this PSN was a READ */
		case 3:
			p.op = op_get(READ_REQ);
			break; /* the request with this PSN was an atomic */
		}
		rig_rx(rig, &p);
		rig_expect_silence(rig);
		assert_int_equal(rig_counter(rig, duplicate_dropped), ++dropped);
	}
	assert_int_equal(arena_u64(rig, 4096), 2);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_destroy(rig);
}

static void resp__RP_07_duplicate_read_of_memory_deregistered_since(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, E);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 64, rig_va(rig, 0), NIC_ACCESS_REMOTE_READ, &mr), 0);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 64;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_rx(rig, &p);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	assert_int_equal(rig_counter(rig, duplicate_dropped), 1);
	rig_destroy(rig);
}

/* Until each response has been sent, a duplicate is no stale request: the READ itself fails. */
static void resp__RP_07_memory_deregistered_while_a_repeated_read_is_answered(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, E);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 3 * RIG_MTU, rig_va(rig, 0), NIC_ACCESS_REMOTE_READ, &mr), 0);
	p.rkey = nic_mr_rkey(mr);
	p.dma_len = 3 * RIG_MTU;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_FIRST, E);
	rig_rx(rig, &p);
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_expect_ack(rig, E, SYN_ACCESS);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	assert_int_equal(rig_counter(rig, duplicate_dropped), 0);
	rig_destroy(rig);
}

static void resp__RP_10_duplicates_while_a_long_read_streams(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_recv(rig, 1, 65536, 64);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_ack(rig, E, SYN_ACK);
	rx_read(rig, E + 1, 0, 8 * RIG_MTU);
	expect_read_data(rig, READ_RESP_FIRST, E + 1, 0, RIG_MTU);
	expect_read_data(rig, READ_RESP_MIDDLE, E + 2, RIG_MTU, RIG_MTU);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8); /* a duplicate of the SEND before the READ */
	expect_read_data(rig, READ_RESP_MIDDLE, E + 3, 2 * RIG_MTU, RIG_MTU);
	rx_read(rig, E + 6, 5 * RIG_MTU, 3 * RIG_MTU); /* a duplicate request for responses that are sent anyway */
	for (uint32_t k = 3; k < 7; k++)
		expect_read_data(rig, READ_RESP_MIDDLE, E + 1 + k, k * RIG_MTU, RIG_MTU);
	expect_read_data(rig, READ_RESP_LAST, E + 8, 7 * RIG_MTU, RIG_MTU);
	rig_expect_ack(rig, E + 8, SYN_ACK); /* for the duplicate SEND, after the READ responses */
	rig_expect_silence(rig);
	assert_int_equal(nic_cq_count(rig->recv_cq), 1);
	rig_destroy(rig);
}

/* The requester repeats a READ from its second response while later ones are still unsent: the responses start again
 * from there, as one message. */
static void resp__RP_10_a_retry_rewinds_the_stream(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_read(rig, E, 0, 8 * RIG_MTU);
	for (unsigned k = 0; k < 5; k++)
		expect_read_data(rig, k ? READ_RESP_MIDDLE : READ_RESP_FIRST, E + k, k * RIG_MTU, RIG_MTU);
	rx_read(rig, E + 1, RIG_MTU, 7 * RIG_MTU);
	for (unsigned k = 1; k < 8; k++)
		expect_read_data(rig,
				 k == 1	  ? READ_RESP_FIRST
				 : k == 7 ? READ_RESP_LAST
					  : READ_RESP_MIDDLE,
				 E + k, k * RIG_MTU, RIG_MTU);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/* A duplicate asks for only two responses in the middle while later ones are still unsent: all responses are sent, as
 * one message. */
static void resp__RP_10_a_short_duplicate_does_not_cut_the_stream(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rx_read(rig, E, 0, 8 * RIG_MTU);
	for (unsigned k = 0; k < 4; k++)
		expect_read_data(rig, k ? READ_RESP_MIDDLE : READ_RESP_FIRST, E + k, k * RIG_MTU, RIG_MTU);
	rx_read(rig, E + 1, RIG_MTU, 2 * RIG_MTU);
	for (unsigned k = 1; k < 8; k++)
		expect_read_data(rig,
				 k == 1	  ? READ_RESP_FIRST
				 : k == 7 ? READ_RESP_LAST
					  : READ_RESP_MIDDLE,
				 E + k, k * RIG_MTU, RIG_MTU);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void resp__RP_11_max_dest_rd_atomic_may_change_on_a_live_qp(void **state)
{
	static const uint8_t sizes[] = {16, 1, 128, 3, 2};
	struct rig *rig = rig_ready(NULL);
	uint32_t psn = E;

	arena_set_u64(rig, 0, 0);
	for (unsigned i = 0; i < sizeof(sizes); i++) {
		for (unsigned k = 0; k < 5; k++, psn++) {
			rx_atomic(rig, FETCH_ADD, psn, 0, 1, 0);
			if (k < 4)
				rig_expect_tx(rig, ATOMIC_ACK, psn);
		}
		rig->attr.max_dest_rd_atomic = sizes[i]; /* changed while the last atomic's result is unsent */
		rig->attr.qp_state = NIC_QPS_SQD;
		assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE), 0);
		assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_MAX_DEST_RD_ATOMIC), 0);
		rig->attr.qp_state = NIC_QPS_RTS;
		assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE), 0);
		assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, psn - 1).orig, psn - 1 - E);
		rx_atomic(rig, FETCH_ADD, psn - 1, 0, 1, 0); /* the last result is still saved */
		assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, psn - 1).orig, psn - 1 - E);
		/* If two results fit, the last but one is saved, too. The responses come in PSN order, although the
		 * later PSN is requested first. */
		rx_atomic(rig, FETCH_ADD, psn - 1, 0, 1, 0);
		if (sizes[i] > 1)
			rx_atomic(rig, FETCH_ADD, psn - 2, 0, 1, 0);
		for (unsigned k = sizes[i] > 1 ? 2 : 1; k > 0; k--)
			assert_int_equal(rig_expect_tx(rig, ATOMIC_ACK, psn - k).orig, psn - k - E);
		rig_expect_silence(rig);
		assert_int_equal(arena_u64(rig, 0), psn - E);
	}
	rig_destroy(rig);
}

/* Pretend that the PSNs have wrapped once. To send so many packets would take minutes. */
static void come_round(struct rig *rig, uint32_t psn)
{
	rig->qp->resp.epsn = psn;
}

static void resp__RP_04_the_newest_of_two_atomics_with_one_psn_is_replayed(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, FETCH_ADD, RIG_RQ_PSN), answer;
	uint64_t *counter = (uint64_t *)(void *)rig->arena;

	*counter = 100;
	p.swap_add = 1;
	rig_rx(rig, &p);
	rig_expect_tx(rig, ATOMIC_ACK, RIG_RQ_PSN);
	come_round(rig, RIG_RQ_PSN);
	*counter = 5000;
	rig_rx(rig, &p);
	rig_expect_tx(rig, ATOMIC_ACK, RIG_RQ_PSN);
	rig_rx(rig, &p); /* repeated, because the response was lost */
	answer = rig_expect_tx(rig, ATOMIC_ACK, RIG_RQ_PSN);
	assert_int_equal(answer.orig, 5000);
	assert_int_equal(*counter, 5001);
	rig_destroy(rig);
}

static void resp__RP_05_an_old_read_does_not_hide_a_new_one(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN);

	p.dma_len = 64 * RIG_MTU;
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 64);
	come_round(rig, RIG_RQ_PSN + 10);
	p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN + 10);
	p.va += 4096;
	p.dma_len = RIG_MTU;
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 1);
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 1);
	assert_int_equal(rig_counter(rig, duplicate_dropped), 0);
	rig_destroy(rig);
}

static void resp__RP_10_a_duplicate_read_gets_as_much_as_it_asks_for(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN), answer;

	p.dma_len = 4 * RIG_MTU;
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 4);
	p.dma_len = 100;
	rig_rx(rig, &p);
	answer = rig_expect_tx(rig, READ_RESP_ONLY, RIG_RQ_PSN);
	assert_int_equal(answer.payload_len, 100);
	p.dma_len = RIG_MTU + 8;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_FIRST, RIG_RQ_PSN);
	answer = rig_expect_tx(rig, READ_RESP_LAST, RIG_RQ_PSN + 1);
	assert_int_equal(answer.payload_len, 8);
	p.dma_len = 0;
	rig_rx(rig, &p);
	answer = rig_expect_tx(rig, READ_RESP_ONLY, RIG_RQ_PSN);
	assert_int_equal(answer.payload_len, 0);
	p.dma_len = 4 * RIG_MTU; /* a duplicate of the whole READ */
	rig_rx(rig, &p);
	assert_int_equal(rig_drain(rig), 4);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resp__RP_02_duplicate_send_is_acked_with_the_last_psn_not_delivered),
		cmocka_unit_test(resp__RP_02_duplicate_write_is_acked_and_not_written_again),
		cmocka_unit_test(resp__RP_02_duplicate_inside_an_open_message),
		cmocka_unit_test(resp__RP_03_duplicate_read_gives_current_memory),
		cmocka_unit_test(resp__RP_03_duplicate_read_of_a_part_of_the_original),
		cmocka_unit_test(resp__RP_04_duplicate_atomic_replays_saved_value),
		cmocka_unit_test(resp__RP_04_each_of_several_atomics_has_its_own_saved_value),
		cmocka_unit_test(resp__RP_05_duplicate_without_a_saved_result_is_dropped),
		cmocka_unit_test(resp__RP_06_answers_to_duplicates_keep_psn_order),
		cmocka_unit_test(resp__RP_06_order_holds_when_the_oldest_result_is_given_up),
		cmocka_unit_test(resp__RP_07_wrong_duplicates_are_dropped_without_a_nak),
		cmocka_unit_test(resp__RP_07_duplicate_read_of_memory_deregistered_since),
		cmocka_unit_test(resp__RP_07_memory_deregistered_while_a_repeated_read_is_answered),
		cmocka_unit_test(resp__RP_10_duplicates_while_a_long_read_streams),
		cmocka_unit_test(resp__RP_10_a_retry_rewinds_the_stream),
		cmocka_unit_test(resp__RP_10_a_short_duplicate_does_not_cut_the_stream),
		cmocka_unit_test(resp__RP_11_max_dest_rd_atomic_may_change_on_a_live_qp),
		cmocka_unit_test(resp__RP_04_the_newest_of_two_atomics_with_one_psn_is_replayed),
		cmocka_unit_test(resp__RP_05_an_old_read_does_not_hide_a_new_one),
		cmocka_unit_test(resp__RP_10_a_duplicate_read_gets_as_much_as_it_asks_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
