/* SPDX-License-Identifier: BSD-3-Clause */
/* test_refer.c - payload by reference: which packets use it, fetches that fail, what observers see. */
#include "refer_rig.h"

/* ---- what goes by reference ----------------------------------------------------------------------------------- */

static void refer__a_long_write_is_sent_as_one_packet(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];

	(void)state;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.sent[A], 1);
	assert_int_equal(r.referring[A], 1);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN + PACKETS);
	assert_int_equal(a->qp->comp.una, RIG_SQ_PSN + PACKETS);
	/* A packet by reference counts as all the packets that it stands for. */
	assert_int_equal(rig_counter(a, tx_packets), PACKETS);
	assert_int_equal(rig_counter(b, rx_packets), PACKETS);
	assert_int_equal(rig_counter(a, tx_bytes), LEN);
	assert_int_equal(rig_counter(b, rx_bytes), LEN);
	assert_int_equal(a->qp->counters.tx_packets, PACKETS);
	assert_int_equal(b->qp->counters.rx_packets, PACKETS);
	refer_destroy(&r);
}

static void refer__a_send_goes_from_segments_to_segments(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	const struct nic_sge from[3] = {{rig_va(a, 5), 20000, a->lkey},
					{rig_va(a, 30000), 1, a->lkey},
					{rig_va(a, 32000), LEN - 20001 - 32000 + 32000, a->lkey}};
	const struct nic_sge to[3] = {{rig_va(b, THERE), 7, b->lkey},
				      {rig_va(b, THERE + 100), 30000, b->lkey},
				      {rig_va(b, 0), 60000, b->lkey}};
	const struct nic_recv_wr recv = {.wr_id = 2, .sg_list = to, .num_sge = 3};
	struct nic_send_wr wr = {.wr_id = 1, .opcode = NIC_WR_SEND_WITH_IMM, .sg_list = from, .num_sge = 3, .ex = 7};
	uint8_t *sent = malloc(LEN), *come = malloc(LEN);

	(void)state;
	memcpy(sent, a->arena + 5, 20000);
	memcpy(sent + 20000, a->arena + 30000, 1);
	memcpy(sent + 20001, a->arena + 32000, LEN - 20001);
	assert_int_equal(nic_post_recv(b->qp, &recv), 0);
	rig_post(a, &wr);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(rig_expect_wc(b->recv_cq, 2, NIC_WC_SUCCESS).byte_len, LEN);
	memcpy(come, b->arena + THERE, 7);
	memcpy(come + 7, b->arena + THERE + 100, 30000);
	memcpy(come + 30007, b->arena, LEN - 30007);
	assert_memory_equal(come, sent, LEN);
	assert_int_equal(r.referring[A], 1);
	free(sent);
	free(come);
	refer_destroy(&r);
}

/** Only what is written has to be in the receiver's region. */
static void refer__a_send_may_go_to_segments_that_are_partly_outside(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	const struct nic_sge to = {rig_va(b, RIG_ARENA - LEN), LEN + 1, b->lkey};
	const struct nic_recv_wr recv = {.wr_id = 2, .sg_list = &to, .num_sge = 1};

	(void)state;
	assert_int_equal(nic_post_recv(b->qp, &recv), 0);
	refer_post(&r, 1, NIC_WR_SEND, 0, LEN, 0);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(b->recv_cq, 2, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, RIG_ARENA - LEN, 0, LEN);
	assert_int_equal(r.referring[A], 1);
	refer_destroy(&r);
}

static void refer__a_read_is_answered_by_reference(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];

	(void)state;
	memset(r.pair->rig[B]->arena + THERE, 0x5c, LEN);
	refer_post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.sent[B], 1);
	assert_int_equal(r.referring[B], 1);
	refer_destroy(&r);
}

/** Short messages, and messages in more segments than a packet can name, are sent with their payload. */
static void refer__short_and_fragmented_messages_carry_their_payload(void **state)
{
	const struct rig_opts opts = {.cap = {.max_send_sge = NIC_PIECES_MAX + 1, .max_inline_data = 1024}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A];
	struct nic_sge sge[NIC_PIECES_MAX + 1];
	struct nic_send_wr wr;

	(void)state;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, NIC_REFERENCE_MIN - 1, THERE);
	refer_run(&r);
	assert_int_equal(r.referring[A], 0);
	for (unsigned i = 0; i <= NIC_PIECES_MAX; i++)
		sge[i] = (struct nic_sge){rig_va(a, i * 2048), 2048, a->lkey};
	wr = pair_wr(r.pair, 2, NIC_WR_RDMA_WRITE, 0, 0, THERE);
	wr.sg_list = sge;
	wr.num_sge = NIC_PIECES_MAX + 1;
	rig_post(a, &wr);
	refer_run(&r);
	assert_int_equal(r.referring[A], 0);
	EXPECT_SAME(&r, THERE, 0, (NIC_PIECES_MAX + 1) * 2048);
	wr.num_sge = NIC_PIECES_MAX;
	rig_post(a, &wr);
	refer_run(&r);
	assert_int_equal(r.referring[A], 1);
	refer_destroy(&r);
}

static void refer__a_path_needs_a_revoke_callback(void **state)
{
	struct rig *rig = rig_create(NULL);

	(void)state;
	assert_int_equal(nic_path_open(rig->nic, NIC_PATH_REFERENCES), -EINVAL);
	rig_destroy(rig);
}

/** A reference covers no more packets than the PSN window allows; a long message takes several references. */
static void refer__a_reference_covers_at_most_the_psn_window(void **state)
{
	const struct rig_opts opts = {.nic = {.psn_window = 100}};
	struct refer r = refer_create(&opts);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(refer_take(&r, A, data, &p, &frame));
	assert_int_equal(refer_bytes(&p), 100 * RIG_MTU);
	refer_give(&r, B, data, frame.len, &p);
	assert_false(refer_take(&r, A, data, &p, &frame));
	refer_run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	refer_destroy(&r);
}

/* ---- what cannot be fetched ------------------------------------------------------------------------------------ */

static void one_of_each_of(struct refer *r, uint32_t len)
{
	rig_post_recv(r->pair->rig[B], 9, 0, len);
	memset(r->pair->rig[B]->arena, 0x77, RIG_ARENA);
	refer_post(r, 1, NIC_WR_SEND, 0, len, 0);
	refer_post(r, 2, NIC_WR_RDMA_WRITE, 0, len, THERE);
	refer_post(r, 3, NIC_WR_RDMA_READ, 64 * 1024, len, THERE);
	refer_run(r);
	for (uint64_t id = 1; id <= 3; id++)
		rig_expect_wc(r->pair->rig[A]->send_cq, id, NIC_WC_SUCCESS);
	rig_expect_wc(r->pair->rig[B]->recv_cq, 9, NIC_WC_SUCCESS);
	rig_expect_no_wc(r->pair->rig[A]->send_cq);
	rig_expect_no_wc(r->pair->rig[B]->recv_cq);
	EXPECT_SAME(r, 0, 0, len);
	EXPECT_SAME(r, THERE, 0, len);
	EXPECT_SAME(r, THERE, 64 * 1024, len);
}

static void one_of_each(struct refer *r)
{
	one_of_each_of(r, LEN);
}

/** Whichever fetch fails, each message arrives exactly once; a packet whose fetch fails changes nothing. */
static void refer__messages_arrive_once_whichever_fetch_fails(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < 4; from++) {
		for (uint32_t to = from + 1; to <= 4; to++) {
			struct refer r = refer_create(NULL);

			r.fail_from = from;
			r.fail_to = to;
			one_of_each(&r);
			assert_int_equal(rig_counter(r.pair->rig[A], local_ack_timeout_err),
					 0); /* a NAK asks for the retransmission; no ACK timer has to expire */
			if (from < 3)
				assert_true(rig_counter(r.pair->rig[A], rx_unread) +
						    rig_counter(r.pair->rig[B], rx_unread) >
					    0);
			refer_destroy(&r);
		}
	}
}

static void refer__messages_arrive_if_every_fetch_fails(void **state)
{
	struct refer r = refer_create(NULL);

	(void)state;
	r.fail_to = UINT32_MAX;
	one_of_each(&r);
	one_of_each(&r);
	refer_destroy(&r);
}

/** At random, packets are lost or duplicated, or their payload cannot be fetched. Each message arrives exactly once. */
static void refer__messages_arrive_once_under_random_faults(void **state)
{
	uint32_t referring = 0, unread = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		const struct rig_opts opts = {.nic = {.psn_window = seed % 3 == 0 ? 100 : 0}};
		struct refer r = refer_create(&opts);

		r.odds = 1;
		r.seed = seed * 0x9e3779b97f4a7c15ull;
		r.pair->rig[A]->qp->attr.retry_cnt = r.pair->rig[A]->qp->req.retries = 7;
		for (unsigned i = 0; i < 4; i++) {
			one_of_each_of(&r, NIC_REFERENCE_MIN - 100 + (seed * 4 + i) * 97);
			referring += r.referring[A] + r.referring[B];
		}
		unread += (uint32_t)(rig_counter(r.pair->rig[A], rx_unread) + rig_counter(r.pair->rig[B], rx_unread));
		refer_destroy(&r);
	}
	assert_true(referring > 0);
	assert_true(unread > 0);
}

/** A retransmission carries its payload in the packet, even if the first packet, which referred to the payload, was
 * only lost and not refused. */
static void refer__a_retransmission_carries_its_payload(void **state)
{
	struct refer r = refer_create(NULL);

	(void)state;
	r.lose_next = true;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	refer_run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_int_equal(r.referring[A], 1);
	assert_int_equal(r.sent[A], 1 + PACKETS);
	/* The next message goes by reference again. */
	refer_post(&r, 2, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	refer_run(&r);
	assert_int_equal(r.referring[A], 2);
	refer_destroy(&r);
}

/** A failed fetch uses up no retry, because no packet was lost: requests succeed even with a retry count of 0. */
static void refer__a_failed_fetch_uses_up_no_retry(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_qp *qp = r.pair->rig[A]->qp;

		qp->attr.retry_cnt = qp->req.retries = 0;
		rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
		r.fail_to = 1;
		for (unsigned n = 0; n < 2; n++) {
			refer_post(&r, 1 + n, opcodes[i], 0, LEN, THERE);
			refer_run(&r);
			rig_expect_wc(r.pair->rig[A]->send_cq, 1 + n, NIC_WC_SUCCESS);
			rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
			r.fail_from = r.fetches;
			r.fail_to = r.fetches + 1;
		}
		refer_destroy(&r);
	}
}

/** A message begins with ordinary packets and continues by reference. The reference covers at most the PSN window, and
 * no ACK timer expires. */
static void refer__a_message_continued_by_reference_stays_in_the_window(void **state)
{
	const struct rig_opts opts = {.nic = {.psn_window = 100}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A];

	(void)state;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	for (unsigned i = 0; i < 10; i++) {
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame = {.data = data}; /* no room for pieces, so no reference */
		struct payload none = {0};

		assert_int_equal(nic_path_tx(a->nic, r.path[A], &frame, 1, a->now), 1);
		refer_give(&r, B, data, frame.len, &none);
	}
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	EXPECT_SAME(&r, THERE, 0, LEN);
	assert_true(r.referring[A] > 0);
	assert_int_equal(rig_counter(a, local_ack_timeout_err), 0);
	refer_destroy(&r);
}

/** Requests of all kinds are in flight, some or all fetches fail, and no retry is allowed: all requests succeed. */
static void pipeline(uint32_t seed, uint32_t window)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ,
						     NIC_WR_RDMA_READ};
	const struct rig_opts opts = {.nic = {.psn_window = window}};
	struct refer r = refer_create(&opts);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];

	r.seed = seed * 0x9e3779b97f4a7c15ull;
	r.fail_odds = seed % 4 ? 8 * (seed % 4) : 64;
	a->qp->attr.retry_cnt = a->qp->req.retries = 0;
	for (unsigned i = 0; i < 6; i++) {
		enum nic_wr_opcode opcode = opcodes[refer_draw(&r) % 4];
		uint32_t len = refer_draw(&r) % 6 ? NIC_REFERENCE_MIN - 100 + refer_draw(&r) % 24000
						  : 1 + refer_draw(&r) % 600;

		if (opcode == NIC_WR_SEND)
			rig_post_recv(b, 100 + i, 0, LEN);
		refer_post(&r, i, opcode, 0, len, THERE);
		for (unsigned steps = refer_draw(&r) % 7; steps > 0; steps--)
			refer_carry(&r, refer_draw(&r) % 2 ? A : B);
	}
	for (unsigned steps = 0; steps < 1000; steps++)
		refer_carry(&r, refer_draw(&r) % 2 ? A : B);
	refer_run(&r);
	for (unsigned i = 0; i < 6; i++)
		rig_expect_wc(a->send_cq, i, NIC_WC_SUCCESS);
	assert_int_equal(rig_counter(a, local_ack_timeout_err), 0);
	refer_destroy(&r);
}

static void refer__pipelines_need_no_retry(void **state)
{
	static const uint32_t windows[] = {0, 70, 100, 300};

	(void)state;
	for (uint32_t seed = 1; seed <= 2000; seed++)
		pipeline(seed, windows[seed % 4]);
}

/** The receiver's own memory is gone, so the fetch fails; the error is reported when the payload arrives in ordinary
 * packets. */
static void refer__a_receiver_memory_fault_is_reported(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};
	static const enum nic_wc_status status[] = {NIC_WC_REM_OP_ERR, NIC_WC_REM_OP_ERR, NIC_WC_LOC_PROT_ERR};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_wc wc;

		r.gone = true;
		r.fail_to = UINT32_MAX;
		rig_post_recv(r.pair->rig[B], 9, 0, LEN);
		refer_post(&r, 1, opcodes[i], 0, LEN, THERE);
		refer_run(&r);
		assert_true(rig_poll(r.pair->rig[A]->send_cq, &wc));
		assert_int_equal(wc.status, status[i]);
		assert_int_equal(rig_counter(r.pair->rig[i == 2 ? A : B], app_memory_fault), 1);
		refer_destroy(&r);
	}
}

/* ---- for observers ------------------------------------------------------------------------------------------- */

/** A packet with an offer unfolds into one packet: itself, without the bytes that its carrier appends. */
static void refer__an_offer_unfolds_into_itself(void **state)
{
	struct refer r = refer_create(NULL);
	uint8_t data[NIC_FRAME_MAX], unfolded[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;
	const struct nic_reference offer = {.len = LEN, .fetch = refer_fetch, .ctx = &p};
	struct nic_rx_frame rx = {.data = data, .flags = NIC_RX_NO_ICRC, .reference = &offer};
	const struct nic *nic = r.pair->rig[B]->nic;

	(void)state;
	refer_post(&r, 1, NIC_WR_SEND, 0, 57, 0);
	assert_true(refer_take(&r, A, data, &p, &frame));
	rx.len = frame.len + 40;
	assert_int_equal(nic_frame_unfold(nic, &rx, 0, unfolded), frame.len);
	assert_memory_equal(unfolded, data, frame.len);
	assert_int_equal(nic_frame_unfold(nic, &rx, 1, unfolded), 0);
	refer_destroy(&r);
}

/** A packet by reference unfolds into the packets that would have been sent without the reference. */
static void refer__a_reference_unfolds_into_the_ordinary_packets(void **state)
{
	struct refer by_reference = refer_create(NULL), by_copy = refer_create(NULL);
	uint8_t data[NIC_FRAME_MAX], unfolded[NIC_FRAME_MAX], sent[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;
	struct nic_reference reference = {.fetch = refer_fetch, .ctx = &p};
	struct nic_rx_frame rx = {.data = data, .flags = NIC_RX_NO_ICRC, .reference = &reference};
	const struct nic *nic = by_reference.pair->rig[B]->nic;
	uint32_t n = 0;
	int len;

	(void)state;
	refer_post(&by_reference, 1, NIC_WR_RDMA_WRITE_WITH_IMM, 0, LEN, THERE);
	refer_post(&by_copy, 1, NIC_WR_RDMA_WRITE_WITH_IMM, 0, LEN, THERE);
	assert_true(refer_take(&by_reference, A, data, &p, &frame));
	rx.len = frame.len;
	reference.len = refer_bytes(&p);
	reference.psns = p.psns;
	while ((len = nic_frame_unfold(nic, &rx, n, unfolded)) > 0) {
		struct nic_tx_frame copy = {.data = sent};
		struct nic_rx_frame frames[2] = {{.data = unfolded, .len = (uint32_t)len, .flags = NIC_RX_NO_ICRC},
						 {.data = sent, .flags = NIC_RX_NO_ICRC}};
		struct packet got, would;

		assert_int_equal(nic_path_tx(by_copy.pair->rig[A]->nic, by_copy.path[A], &copy, 1, 0), 1);
		frames[1].len = copy.len;
		assert_int_equal(packet_parse(&frames[0], &got), PACKET_OK);
		assert_int_equal(packet_parse(&frames[1], &would), PACKET_OK);
		assert_int_equal(got.op->value, would.op->value);
		assert_int_equal(got.psn, would.psn);
		assert_int_equal(got.pad, would.pad);
		assert_int_equal(got.payload_len, would.payload_len);
		assert_memory_equal(got.payload, would.payload, got.payload_len);
		n++;
	}
	assert_int_equal(len, 0);
	assert_int_equal(n, PACKETS);
	p.fails = true;
	assert_int_equal(nic_frame_unfold(nic, &rx, 0, unfolded), -EIO);
	rx.reference = NULL;
	assert_int_equal(nic_frame_unfold(nic, &rx, 0, unfolded), -EINVAL);
	refer_destroy(&by_reference);
	refer_destroy(&by_copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refer__a_long_write_is_sent_as_one_packet),
		cmocka_unit_test(refer__a_send_goes_from_segments_to_segments),
		cmocka_unit_test(refer__a_send_may_go_to_segments_that_are_partly_outside),
		cmocka_unit_test(refer__a_read_is_answered_by_reference),
		cmocka_unit_test(refer__short_and_fragmented_messages_carry_their_payload),
		cmocka_unit_test(refer__a_path_needs_a_revoke_callback),
		cmocka_unit_test(refer__a_reference_covers_at_most_the_psn_window),
		cmocka_unit_test(refer__messages_arrive_once_whichever_fetch_fails),
		cmocka_unit_test(refer__messages_arrive_if_every_fetch_fails),
		cmocka_unit_test(refer__messages_arrive_once_under_random_faults),
		cmocka_unit_test(refer__a_retransmission_carries_its_payload),
		cmocka_unit_test(refer__a_failed_fetch_uses_up_no_retry),
		cmocka_unit_test(refer__a_message_continued_by_reference_stays_in_the_window),
		cmocka_unit_test(refer__pipelines_need_no_retry),
		cmocka_unit_test(refer__a_receiver_memory_fault_is_reported),
		cmocka_unit_test(refer__an_offer_unfolds_into_itself),
		cmocka_unit_test(refer__a_reference_unfolds_into_the_ordinary_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
