/* SPDX-License-Identifier: BSD-3-Clause */
/* test_req.c - the format of request packets (conformance points RQ-01 to RQ-07, RQ-19, AK-08). */
#include "rig.h"

static const uint32_t sizes[] = {0, 1, 3, 4, 255, 256, 257, 511, 512, 513, 770, 1024, 2000};

#define FOR_SIZES(len) for (uint32_t si = 0, len; si < sizeof(sizes) / 4 && (len = sizes[si], true); si++)

static uint32_t packets_for(uint32_t len)
{
	return len ? (len + RIG_MTU - 1) / RIG_MTU : 1;
}

static unsigned position(uint32_t i, uint32_t n)
{
	return n == 1 ? OP_ONLY : i == 0 ? OP_FIRST : i + 1 == n ? OP_LAST : OP_MIDDLE;
}

/* Send a message with this opcode and length from arena[7], and call `look` for each of its packets. */
static void each_packet(const struct rig_opts *opts, enum nic_wr_opcode opcode, uint32_t len, uint32_t flags,
			void (*look)(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n,
				     uint32_t len))
{
	struct rig *rig = rig_ready(opts);
	struct nic_send_wr wr = rig_wr(rig, 1, opcode, 7, len);
	uint32_t n = packets_for(len);
	struct packet p;

	wr.flags = flags;
	wr.ex = 0xc0ffee11;
	rig_post(rig, &wr);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(rig_tx(rig, &p));
		assert_int_equal(p.psn, RIG_SQ_PSN + i);
		look(rig, &p, i, n, len);
	}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void look_length(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	assert_int_equal(p->op->pos, position(i, n));
	assert_int_equal(p->payload_len, i + 1 == n ? len - i * RIG_MTU : RIG_MTU);
	assert_memory_equal(p->payload, rig->arena + 7 + i * RIG_MTU, p->payload_len);
}

static void req__RQ_01_first_and_middle_are_full_and_the_last_has_the_rest(void **state)
{
	const struct rig_opts uc = {.type = NIC_QPT_UC}, v6 = {.v6 = true};

	FOR_SIZES(len)
	{
		each_packet(NULL, NIC_WR_SEND, len, 0, look_length);
		each_packet(NULL, NIC_WR_RDMA_WRITE, len, 0, look_length);
		each_packet(&uc, NIC_WR_SEND_WITH_IMM, len, 0, look_length);
		each_packet(&uc, NIC_WR_RDMA_WRITE_WITH_IMM, len, 0, look_length);
		each_packet(&v6, NIC_WR_SEND, len, 0, look_length);
	}
}

static void req__RQ_02_an_empty_message_is_one_packet_and_one_psn(void **state)
{
	static const struct {
		enum nic_wr_opcode wr;
		enum rig_op op;
	} cases[] = {{NIC_WR_SEND, SEND_ONLY},
		     {NIC_WR_SEND_WITH_IMM, SEND_ONLY_IMM},
		     {NIC_WR_RDMA_WRITE, WRITE_ONLY},
		     {NIC_WR_RDMA_WRITE_WITH_IMM, WRITE_ONLY_IMM},
		     {NIC_WR_RDMA_READ, READ_REQ}};
	struct rig *rig = rig_ready(NULL);
	uint32_t psn = RIG_SQ_PSN;
	struct nic_send_wr wr;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct packet p;

		rig_post_send(rig, i, cases[i].wr, 0, 0);
		p = rig_expect_tx(rig, cases[i].op, psn++);
		assert_int_equal(p.payload_len, 0);
		if (op_has(p.op, HDR_RETH))
			assert_int_equal(p.dma_len, 0);
	}
	wr = (struct nic_send_wr){.opcode = NIC_WR_SEND}; /* no SGE list */
	rig_post(rig, &wr);
	rig_expect_tx(rig, SEND_ONLY, psn++);
	wr.flags = NIC_SEND_INLINE;
	rig_post(rig, &wr);
	rig_expect_tx(rig, SEND_ONLY, psn++);
	rig_post_send(rig, 9, NIC_WR_SEND, 0, 1);
	rig_expect_tx(rig, SEND_ONLY, psn);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/* @return the number of bytes on the wire, from the BTH to the ICRC. */
static uint32_t wire_len(const struct rig *rig)
{
	return rig->frame_lens[rig->frame] - 28;
}

static void look_reth(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	uint32_t padded = (p->payload_len + 3) & ~3u;

	assert_int_equal(wire_len(rig), 12 + (i == 0 ? 16 : 0) + padded + 4);
	if (i == 0) {
		assert_int_equal(p->dma_len, len);
		assert_int_equal(p->va, RIG_REMOTE_VA);
		assert_int_equal(p->rkey, RIG_REMOTE_RKEY);
	}
}

static void req__RQ_03_reth_only_on_the_first_packet_with_the_message_length(void **state)
{
	FOR_SIZES(len)
	each_packet(NULL, NIC_WR_RDMA_WRITE, len, 0, look_reth);
}

static void look_imm(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	bool last = i + 1 == n, reth = p->op->kind == OP_WRITE && i == 0;

	assert_int_equal(wire_len(rig), 12 + (reth ? 16 : 0) + (last ? 4 : 0) + ((p->payload_len + 3) & ~3u) + 4);
	if (!last)
		return;
	if (p->op->extra == OP_INV) {
		assert_int_equal(p->inv_rkey, 0xc0ffee11);
	} else {
		assert_int_equal(p->op->extra, OP_IMM);
		assert_int_equal(p->imm, 0xc0ffee11);
	}
}

static void req__RQ_04_immediate_data_and_invalidated_key_only_on_the_last_packet(void **state)
{
	FOR_SIZES(len)
	{
		each_packet(NULL, NIC_WR_SEND_WITH_IMM, len, 0, look_imm);
		each_packet(NULL, NIC_WR_RDMA_WRITE_WITH_IMM, len, 0, look_imm);
		each_packet(NULL, NIC_WR_SEND_WITH_INV, len, 0, look_imm);
	}
}

static void look_se(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	assert_int_equal(p->se, i + 1 == n);
}

static void look_no_se(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	assert_false(p->se);
}

static void req__RQ_05_solicited_only_on_the_last_packet_and_not_on_plain_writes(void **state)
{
	FOR_SIZES(len)
	{
		each_packet(NULL, NIC_WR_SEND, len, NIC_SEND_SOLICITED, look_se);
		each_packet(NULL, NIC_WR_SEND_WITH_IMM, len, NIC_SEND_SOLICITED, look_se);
		each_packet(NULL, NIC_WR_SEND_WITH_INV, len, NIC_SEND_SOLICITED, look_se);
		each_packet(NULL, NIC_WR_RDMA_WRITE_WITH_IMM, len, NIC_SEND_SOLICITED, look_se);
		each_packet(NULL, NIC_WR_RDMA_WRITE, len, NIC_SEND_SOLICITED, look_no_se);
		each_packet(NULL, NIC_WR_SEND, len, 0, look_no_se);
		each_packet(NULL, NIC_WR_RDMA_WRITE_WITH_IMM, len, 0, look_no_se);
	}
}

static void look_pad(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	const uint8_t *end = rig->frames[rig->frame] + rig->frame_lens[rig->frame] - 4;

	assert_int_equal(p->pad, i + 1 == n ? (4 - len % 4) % 4 : 0);
	for (unsigned k = 0; k < p->pad; k++)
		assert_int_equal(end[-1 - (int)k], 0);
}

static void req__RQ_06_pad_is_zero_and_fills_up_to_four_bytes(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	FOR_SIZES(len)
	each_packet(NULL, NIC_WR_SEND, len, 0, look_pad);
	for (uint32_t len = 1; len < 9; len++)
		each_packet(NULL, NIC_WR_RDMA_WRITE, len, 0, look_pad);
	/* The frame buffers hold other bytes from before. */
	memset(rig->frames, 0xff, (size_t)RIG_FRAMES * NIC_FRAME_MAX);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 5);
	assert_true(rig_tx(rig, &p));
	look_pad(rig, &p, 0, 1, 5);
	rig_destroy(rig);
}

static void look_ackreq(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	if (i + 1 == n)
		assert_true(p->ackreq);
}

static void look_no_ackreq(const struct rig *rig, const struct packet *p, uint32_t i, uint32_t n, uint32_t len)
{
	assert_false(p->ackreq);
}

static void req__RQ_07_ack_is_requested_at_the_end_of_every_message(void **state)
{
	const struct rig_opts uc = {.type = NIC_QPT_UC};

	FOR_SIZES(len)
	{
		each_packet(NULL, NIC_WR_SEND, len, 0, look_ackreq);
		each_packet(NULL, NIC_WR_RDMA_WRITE_WITH_IMM, len, 0, look_ackreq);
		each_packet(&uc, NIC_WR_SEND, len, 0, look_no_ackreq);
		each_packet(&uc, NIC_WR_RDMA_WRITE, len, 0, look_no_ackreq);
	}
}

static void req__RQ_07_ack_is_requested_within_long_messages(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t gap = 0, asked = 0;
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 400 * RIG_MTU);
	while (rig_tx(rig, &p)) {
		gap++;
		assert_true(gap <= 64); /* the documented maximum */
		if (p.ackreq) {
			asked++;
			gap = 0;
		}
	}
	assert_int_equal(gap, 0);
	assert_true(asked >= 400 / 64);
	rig_destroy(rig);
}

/* A window smaller than the interval of AckReq must not leave the sender waiting for an ACK it never asked for. */
static void req__RQ_07_a_small_window_requests_an_ack_before_it_is_full(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.psn_window = 8});
	struct packet p;
	uint32_t last = 0;
	bool asked = false;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 100 * RIG_MTU);
	for (uint32_t done = 0; done < 100;) {
		uint32_t n = 0;

		asked = false;
		while (rig_tx(rig, &p)) {
			last = p.psn;
			asked |= p.ackreq;
			n++;
		}
		assert_true(asked && n > 0 && n <= 8);
		done += n;
		rig_ack(rig, last, SYN_ACK);
	}
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void req__RQ_19_source_port_is_constant_for_a_flow(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p;
	uint16_t port;

	rig_post_recv(rig, 1, 0, 64);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 600);
	p = rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	port = p.udp_sport;
	assert_true(port >= 0xc000);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(rig_tx(rig, &p));
		assert_int_equal(p.udp_sport, port);
	}
	rig_advance(rig, rig_timeout_ns(12));
	assert_true(rig_tx(rig, &p)); /* the retransmission */
	assert_int_equal(p.udp_sport, port);
	rig_drain(rig);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	p = rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
	assert_int_equal(p.udp_sport, port);
	rig_destroy(rig);
}

static void req__RQ_19_source_port_can_be_configured(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.udp_sport = 4791});
	struct packet p;

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 1);
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(p.udp_sport, 4791);
	rig_destroy(rig);
}

static void req__packets_are_addressed_as_the_path_says(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = rig_create(&(struct rig_opts){.v6 = v6});
		struct packet p;

		rig->attr.av.tclass = 0x68;
		rig->attr.av.hop_limit = 17;
		rig->attr.av.flow_label = 0x54321;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_SEND, 0, 1);
		p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
		assert_memory_equal(&p.sgid, &rig->gid, 16);
		assert_memory_equal(&p.dgid, &rig->peer_gid, 16);
		assert_int_equal(p.v4, !v6);
		assert_int_equal(p.tclass & 0xfc, 0x68);
		assert_int_equal(p.hop_limit, 17);
		if (v6)
			assert_int_equal(p.flow_label, 0x54321);
		assert_int_equal(p.dest_qpn, RIG_PEER_QPN);
		assert_int_equal(p.pkey, 0xffff);
		assert_int_equal(p.ecn | p.resv7, 0);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(req__RQ_01_first_and_middle_are_full_and_the_last_has_the_rest),
		cmocka_unit_test(req__RQ_02_an_empty_message_is_one_packet_and_one_psn),
		cmocka_unit_test(req__RQ_03_reth_only_on_the_first_packet_with_the_message_length),
		cmocka_unit_test(req__RQ_04_immediate_data_and_invalidated_key_only_on_the_last_packet),
		cmocka_unit_test(req__RQ_05_solicited_only_on_the_last_packet_and_not_on_plain_writes),
		cmocka_unit_test(req__RQ_06_pad_is_zero_and_fills_up_to_four_bytes),
		cmocka_unit_test(req__RQ_07_ack_is_requested_at_the_end_of_every_message),
		cmocka_unit_test(req__RQ_07_ack_is_requested_within_long_messages),
		cmocka_unit_test(req__RQ_07_a_small_window_requests_an_ack_before_it_is_full),
		cmocka_unit_test(req__RQ_19_source_port_is_constant_for_a_flow),
		cmocka_unit_test(req__RQ_19_source_port_can_be_configured),
		cmocka_unit_test(req__packets_are_addressed_as_the_path_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
