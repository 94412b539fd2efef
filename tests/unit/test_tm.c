/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_tm.c - SRQs that match tags: the list of tagged buffers, eager messages, rendezvous, and both on a network that
 * loses packets.
 */
#include "pair.h"
#include "resp_util.h"
#include "wire.h"

#define TMH	 16u
#define HEADERS	 32u
#define APP_CTX	 0x01020304u
#define ANY_MASK UINT64_MAX

enum { NO_TAG, RNDV, FIN, EAGER };

static struct rig *ready(void)
{
	return rig_ready(&(struct rig_opts){.tags = 8});
}

/** Add a tagged buffer. @return its handle */
static uint32_t add_masked(struct rig *rig, uint64_t wr_id, uint64_t tag, uint64_t mask, uint32_t offset, uint32_t len)
{
	struct nic_sge sge = {rig_va(rig, offset), len, rig->lkey};
	struct nic_tag_op op = {
		.opcode = NIC_TAG_ADD, .recv_wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = mask};

	assert_int_equal(nic_tag_op(rig->srq, &op), 0);
	return op.handle;
}

static uint32_t add(struct rig *rig, uint64_t wr_id, uint64_t tag, uint32_t offset, uint32_t len)
{
	return add_masked(rig, wr_id, tag, ANY_MASK, offset, len);
}

/** Do a signaled operation. @return the flags of its completion */
static uint32_t operate(struct rig *rig, struct nic_tag_op op, enum nic_wc_status status)
{
	struct nic_wc wc;

	op.wr_id = 4711;
	op.signaled = true;
	assert_int_equal(nic_tag_op(rig->srq, &op), 0);
	wc = rig_expect_wc(rig->recv_cq, 4711, status);
	assert_int_equal(wc.opcode, NIC_WC_TM_ADD + op.opcode);
	return wc.wc_flags;
}

static void write_tmh(uint8_t *at, uint8_t opcode, uint64_t tag)
{
	memset(at, 0, TMH);
	at[0] = opcode;
	wire_put32(at + 4, APP_CTX);
	wire_put64(at + 8, tag);
}

/** A SEND of the peer: a header, then peer_data from offset 0. @param len of the message, with its header */
static void send(struct rig *rig, uint32_t psn, uint8_t opcode, uint64_t tag, uint32_t len)
{
	static uint8_t message[2048];
	uint32_t packets = (len + RIG_MTU - 1) / RIG_MTU;

	write_tmh(message, opcode, tag);
	memcpy(message + TMH, rig->peer_data, len - TMH);
	for (uint32_t i = 0; i < packets; i++) {
		unsigned op = packets == 1 ? SEND_ONLY : !i ? SEND_FIRST : i + 1 == packets ? SEND_LAST : SEND_MIDDLE;
		struct packet p = rig_peer_packet(rig, op, psn + i);

		p.payload = message + i * RIG_MTU;
		p.payload_len = i + 1 == packets ? len - i * RIG_MTU : RIG_MTU;
		rig_rx(rig, &p);
	}
}

/** The first packet of a message of several. */
static void first(struct rig *rig, uint32_t psn, uint8_t opcode, uint64_t tag)
{
	uint8_t message[RIG_MTU] = {0};
	struct packet p = rig_peer_packet(rig, SEND_FIRST, psn);

	write_tmh(message, opcode, tag);
	p.payload = message;
	p.payload_len = RIG_MTU;
	rig_rx(rig, &p);
}

/** The next completion of the SRQ. */
static void expect(struct rig *rig, uint64_t wr_id, enum nic_wc_opcode opcode, uint32_t flags, uint64_t tag)
{
	struct nic_wc wc = rig_expect_wc(rig->recv_cq, wr_id, NIC_WC_SUCCESS);
	struct nic_cq_note note = nic_cq_polled_note(rig->recv_cq);

	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.wc_flags, flags);
	if (!(flags & NIC_WC_TM_MATCH))
		tag = 0; /* the header is in the buffer, or was told with the match */
	assert_int_equal(note.tag, tag);
	assert_int_equal(wire_get32((uint8_t *)&note.app_ctx), flags & NIC_WC_TM_MATCH ? APP_CTX : 0);
}

/* ---- eager messages ---------------------------------------------------------------------------------------------- */

static void tm__an_eager_message_goes_to_its_buffer_without_its_header(void **state)
{
	struct rig *rig = ready();

	(void)state;
	add(rig, 1, 0x11, 0, 64);
	add(rig, 2, 0x22, 1024, 64);
	send(rig, E, EAGER, 0x22, TMH + 40);
	expect(rig, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 0x22);
	rig_expect_data(rig, 1024, 0, 40);
	rig_expect_untouched(rig, 1024 + 40, 24);
	rig_expect_untouched(rig, 0, 64);
	rig_expect_ack(rig, E, SYN_ACK);
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

/* Whoever polls sees matches in the order of the messages, and data when it is there. */
static void tm__match_and_data_of_a_long_message_complete_separately(void **state)
{
	struct rig *rig = ready();

	(void)state;
	add(rig, 1, 5, 0, 1024);
	send(rig, E, EAGER, 5, TMH + 600);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 5);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_DATA_VALID, 5);
	rig_expect_data(rig, 0, 0, 600);
	rig_expect_untouched(rig, 600, 424);
	rig_destroy(rig);
}

static void tm__masks_and_order(void **state)
{
	struct rig *rig = ready();

	(void)state;
	add_masked(rig, 1, 0x100, 0xff00, 0, 64);
	add_masked(rig, 2, 0x105, ANY_MASK, 64, 64);
	add_masked(rig, 3, 0x105, 0xff00, 128, 64); /* a bit outside its mask: matches nothing */
	send(rig, E, EAGER, 0x105, TMH + 8);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 0x105);
	send(rig, E + 1, EAGER, 0x105, TMH + 8);
	expect(rig, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 0x105);
	rig_post_recv(rig, 9, 256, 64);
	send(rig, E + 2, EAGER, 0x105, TMH + 8);
	expect(rig, 9, NIC_WC_TM_RECV, 0, 0x105);
	rig_destroy(rig);
}

static void tm__other_messages_go_whole_to_untagged_buffers(void **state)
{
	struct rig *rig = ready();
	struct nic_wc wc;

	(void)state;
	add(rig, 1, 5, 0, 64);
	for (uint64_t i = 0; i < 4; i++)
		rig_post_recv(rig, 10 + i, 1024 + 64 * i, 64);
	send(rig, E, NO_TAG, 5, TMH + 8);
	expect(rig, 10, NIC_WC_TM_NO_TAG, 0, 5);
	rig_expect_data(rig, 1024 + TMH, 0, 8);
	assert_int_equal(rig->arena[1024], NO_TAG);
	send(rig, E + 1, FIN, 5, TMH + 16);
	expect(rig, 11, NIC_WC_TM_NO_TAG, 0, 5);
	rig_rx_data(rig, SEND_ONLY, E + 2, 0, 8); /* too short for a header */
	wc = rig_expect_wc(rig->recv_cq, 12, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, NIC_WC_TM_NO_TAG);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(nic_cq_polled_note(rig->recv_cq).tag, 0);
	send(rig, E + 3, EAGER, 6, TMH + 8); /* no buffer has this tag */
	expect(rig, 13, NIC_WC_TM_RECV, 0, 6);
	send(rig, E + 4, EAGER, 5, TMH + 8); /* needs no untagged buffer, of which none is left */
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 5);
	rig_drain(rig);
	send(rig, E + 5, EAGER, 5, TMH + 8);
	rig_expect_no_wc(rig->recv_cq);
	assert_int_equal(rig_expect_tx(rig, ACK, E + 5).syndrome & 0xe0, SYN_RNR);
	rig_destroy(rig);
}

static void tm__a_buffer_that_is_too_short_ends_the_connection(void **state)
{
	struct rig *rig = ready();

	(void)state;
	add(rig, 1, 5, 0, 39);
	send(rig, E, EAGER, 5, TMH + 40);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_LOC_LEN_ERR);
	rig_expect_ack(rig, E, SYN_INV);
	rig_destroy(rig);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void tm__a_buffer_may_be_deleted_until_a_message_takes_it(void **state)
{
	struct rig *rig = ready();
	uint32_t first = add(rig, 1, 5, 0, 64), second = add(rig, 2, 5, 64, 64);
	struct nic_tag_op del = {.opcode = NIC_TAG_DEL, .handle = first};

	(void)state;
	assert_int_equal(operate(rig, del, NIC_WC_SUCCESS), 0);
	operate(rig, del, NIC_WC_TM_ERR); /* only once */
	send(rig, E, EAGER, 5, TMH + 8);
	expect(rig, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 5);
	del.handle = second;
	operate(rig, del, NIC_WC_TM_ERR);
	del.handle = add(rig, 3, 5, 0, 64) + 1; /* of no buffer */
	operate(rig, del, NIC_WC_TM_ERR);
	rig_destroy(rig);
}

static void tm__the_list_has_an_end(void **state)
{
	struct rig *rig = ready(), *plain = rig_ready(&(struct rig_opts){.srq = true});
	struct nic_tag_op op = {.opcode = NIC_TAG_ADD};

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		add(rig, i, i, 0, 64);
	assert_int_equal(nic_tag_op(rig->srq, &op), -ENOMEM);
	send(rig, E, EAGER, 3, TMH + 8);
	assert_int_equal(nic_tag_op(rig->srq, &op), 0);
	op.num_sge = 1000;
	assert_int_equal(nic_tag_op(rig->srq, &op), -EINVAL);
	op.opcode = 3;
	assert_int_equal(nic_tag_op(rig->srq, &op), -EINVAL);
	op.opcode = NIC_TAG_SYNC;
	assert_int_equal(nic_tag_op(plain->srq, &op), -EINVAL);
	rig_destroy(plain);
	rig_destroy(rig);
}

/* A buffer that is added behind an unexpected message must not take a later message before the application has looked
 * at that one. Buffers from before go on. */
static void tm__new_buffers_wait_until_unexpected_messages_are_handled(void **state)
{
	struct rig *rig = ready();
	struct nic_tag_op op = {.opcode = NIC_TAG_ADD, .tag = 5, .mask = ANY_MASK, .recv_wr_id = 1};
	struct nic_tag_op sync = {.opcode = NIC_TAG_SYNC, .sync = true, .handled = 1};

	(void)state;
	add(rig, 2, 6, 0, 64);
	for (uint64_t i = 0; i < 3; i++)
		rig_post_recv(rig, 10 + i, 1024 + 64 * i, 64);
	send(rig, E, EAGER, 5, TMH);
	expect(rig, 10, NIC_WC_TM_RECV, 0, 5);
	assert_int_equal(operate(rig, op, NIC_WC_SUCCESS), NIC_WC_TM_SYNC_REQ);
	send(rig, E + 1, EAGER, 6, TMH);
	expect(rig, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 6);
	send(rig, E + 2, EAGER, 5, TMH);
	expect(rig, 11, NIC_WC_TM_RECV, 0, 5); /* unexpected, too */
	operate(rig, sync, NIC_WC_SUCCESS);
	send(rig, E + 3, EAGER, 5, TMH);
	expect(rig, 12, NIC_WC_TM_RECV, 0, 5); /* one of them is not handled yet */
	sync.handled = 3;
	operate(rig, sync, NIC_WC_SUCCESS);
	send(rig, E + 4, EAGER, 5, TMH);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 5);
	rig_destroy(rig);
}

/* ---- rendezvous -------------------------------------------------------------------------------------------------- */

/** A rendezvous request for `len` bytes at offset `from` of the peer's arena. */
static void rendezvous(struct rig *rig, uint32_t psn, uint64_t tag, uint32_t len)
{
	uint8_t message[HEADERS + 8];
	struct packet p = rig_peer_packet(rig, SEND_ONLY, psn);

	write_tmh(message, RNDV, tag);
	wire_put64(message + 16, RIG_REMOTE_VA);
	wire_put32(message + 24, RIG_REMOTE_RKEY);
	wire_put32(message + 28, len);
	memset(message + HEADERS, 0xee, 8); /* for an application that would get the message */
	p.payload = message;
	p.payload_len = sizeof(message);
	rig_rx(rig, &p);
}

static void tm__a_rendezvous_reads_the_data_and_tells_the_sender(void **state)
{
	struct rig *rig = ready();
	struct packet p;

	(void)state;
	add(rig, 1, 5, 0, 64);
	rendezvous(rig, E, 5, 40);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 5);
	rig_expect_ack(rig, E, SYN_ACK);
	p = rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN);
	assert_true(p.va == RIG_REMOTE_VA);
	assert_int_equal(p.rkey, RIG_REMOTE_RKEY);
	assert_int_equal(p.dma_len, 40);
	rig_expect_silence(rig); /* FIN waits for the data */
	rig_rx_data(rig, READ_RESP_ONLY, RIG_SQ_PSN, 0, 40);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_DATA_VALID, 5);
	for (uint32_t i = 0; i < 8; i++) /* the buffer is free, although FIN is not acknowledged */
		add(rig, 10 + i, 100 + i, 2048, 64);
	rig_expect_data(rig, 0, 0, 40);
	rig_expect_untouched(rig, 40, 24);
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	assert_int_equal(p.payload_len, HEADERS);
	assert_int_equal(p.payload[0], FIN);
	assert_int_equal(wire_get32(p.payload + 4), APP_CTX);
	assert_int_equal(wire_get64(p.payload + 8), 5);
	assert_true(wire_get64(p.payload + 16) == RIG_REMOTE_VA);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void tm__a_rendezvous_too_long_for_its_buffer_is_the_applications(void **state)
{
	struct rig *rig = ready();
	struct nic_wc wc;

	(void)state;
	add(rig, 1, 5, 0, 64);
	rendezvous(rig, E, 5, 65);
	wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_TM_RNDV_INCOMPLETE);
	assert_int_equal(wc.byte_len, HEADERS);
	assert_int_equal(rig->arena[0], RNDV);
	assert_int_equal(wire_get32(rig->arena + 28), 65);
	rig_expect_ack(rig, E, SYN_ACK);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

static void tm__a_rendezvous_waits_for_rts_and_for_room(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.tags = 64});
	unsigned reads = 0;
	struct packet p;

	(void)state;
	rig_to_rtr(rig);
	for (uint32_t i = 0; i < 40; i++) {
		add(rig, i, i, 64 * i, 64);
		rendezvous(rig, E + i, i, 8);
		expect(rig, i, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, i);
	}
	while (rig_tx(rig, &p))
		assert_int_equal(p.op->value, ACK);
	rig_to_rts(rig);
	for (uint32_t psn = RIG_SQ_PSN; rig_tx(rig, &p); psn++) {
		assert_int_equal(p.psn, psn);
		if (p.op->value == READ_REQ) {
			rig_rx_data(rig, READ_RESP_ONLY, psn, 0, 8);
			expect(rig, reads, NIC_WC_TM_RECV, NIC_WC_TM_DATA_VALID, reads);
			reads++;
		} else {
			rig_ack(rig, psn, SYN_ACK);
		}
	}
	assert_int_equal(reads, 40);
	for (uint32_t i = 0; i < 64; i++) /* all buffers are free again */
		add(rig, i, i, 0, 8);
	rig_destroy(rig);
}

static void tm__a_failed_rendezvous_completes_once(void **state)
{
	struct rig *rig = ready();

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		add(rig, i, i, 64 * i, 64);
	rendezvous(rig, E, 0, 8);
	rendezvous(rig, E + 1, 1, 8);
	rig_drain(rig);
	expect(rig, 0, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 0);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 1);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACCESS);
	rig_expect_wc(rig->recv_cq, 0, NIC_WC_REM_ACCESS_ERR);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_WR_FLUSH_ERR);
	rig_expect_no_wc(rig->recv_cq); /* the third stays in the list, which is the SRQ's */
	assert_int_equal(operate(rig, (struct nic_tag_op){.opcode = NIC_TAG_SYNC}, NIC_WC_SUCCESS), 0);
	for (uint32_t i = 0; i < 7; i++)
		add(rig, 9, 9, 0, 8);
	rig_destroy(rig);
}

static void tm__a_reset_or_destroyed_qp_leaves_nothing(void **state)
{
	(void)state;
	for (unsigned destroy = 0; destroy < 2; destroy++) {
		struct rig *rig = ready();

		add(rig, 1, 1, 0, 64);
		add(rig, 2, 2, 64, 1024);
		rendezvous(rig, E, 1, 8);
		rig_drain(rig);
		expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 1);
		first(rig, E + 1, EAGER, 2);
		expect(rig, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 2);
		if (destroy)
			assert_int_equal(nic_qp_destroy(rig->qp), 0);
		else
			rig_modify_state(rig, NIC_QPS_RESET);
		for (uint32_t i = 0; i < 7; i++)
			add(rig, 9, 9, 0, 8);
		if (destroy)
			assert_int_equal(nic_srq_destroy(rig->srq), 0);
		rig_destroy(rig);
	}
}

/* It cannot be handled, so it does not count: buffers that are added later are matched. */
static void tm__an_unexpected_message_that_ends_in_its_middle_does_not_count(void **state)
{
	(void)state;
	for (unsigned reset = 0; reset < 2; reset++) {
		struct rig *rig = ready();

		rig_post_recv(rig, 9, 1024, 1024);
		first(rig, E, EAGER, 5);
		add(rig, 1, 5, 0, 64); /* waits for the application to handle the message */
		if (!reset) {
			rig_modify_state(rig, NIC_QPS_ERR);
			rig_expect_wc(rig->recv_cq, 9, NIC_WC_WR_FLUSH_ERR);
		}
		rig_modify_state(rig, NIC_QPS_RESET);
		rig_to_rts(rig);
		send(rig, E, EAGER, 5, TMH);
		expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 5);
		rig_destroy(rig);
	}
}

/* What is not polled yet when the QP ends is the SRQ's. */
static void tm__completions_outlive_the_qp(void **state)
{
	struct rig *rig = ready();

	(void)state;
	add(rig, 1, 5, 0, 64);
	send(rig, E, EAGER, 5, TMH);
	assert_int_equal(nic_qp_destroy(rig->qp), 0);
	expect(rig, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH | NIC_WC_TM_DATA_VALID, 5);
	rig_destroy(rig);
}

static void tm__what_may_be_created_and_posted(void **state)
{
	struct rig *rig = ready();
	struct nic_qp_init init = {
		.type = NIC_QPT_UD, .pd = rig->pd, .send_cq = rig->send_cq, .recv_cq = rig->recv_cq, .srq = rig->srq};
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);
	struct packet p = rig_peer_data(rig, SEND_ONLY_IMM, E, 0, 32);
	struct nic_srq *srq;
	struct nic_qp *qp;
	struct nic_pd *pd;

	(void)state;
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	assert_int_equal(nic_pd_alloc(rig->nic, &pd), 0);
	init.type = NIC_QPT_RC;
	init.pd = pd;
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	assert_int_equal(nic_srq_create_tm(pd, rig->recv_cq, 8, 1, 0, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create_tm(pd, rig->recv_cq, 8, 1, NIC_TM_TAGS_MAX + 1, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create_tm(pd, rig->recv_cq, 0, 1, 8, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL); /* the send queue is the NIC's */
	rig->attr.retry_cnt = 8;				/* the application sets the retries, as of any QP */
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_RETRY_CNT), -EINVAL);
	rig_post_recv(rig, 1, 0, 64);
	rig_rx(rig, &p);
	rig_expect_ack(rig, E, SYN_INV);
	rig_destroy(rig);
}

/* ---- with losses ------------------------------------------------------------------------------------------------- */

static void tm__everything_happens_once_whatever_packet_is_lost(void **state)
{
	static const struct pair_rule lost[] = {
		{PAIR_A, SEND_FIRST, 0, PAIR_DROP},
		{PAIR_A, SEND_LAST, 0, PAIR_DROP},
		{PAIR_A, SEND_ONLY, 0, PAIR_DROP},
		{PAIR_A, SEND_ONLY, 1, PAIR_DROP},
		{PAIR_A, READ_RESP_FIRST, 0, PAIR_DROP},
		{PAIR_A, READ_RESP_LAST, 0, PAIR_DROP},
		{PAIR_A, ACK, 0, PAIR_DROP},
		{PAIR_B, ACK, 0, PAIR_DROP},
		{PAIR_B, READ_REQ, 0, PAIR_DROP},
		{PAIR_B, SEND_ONLY, 0, PAIR_DROP},
		{PAIR_A, SEND_FIRST, 0, PAIR_DOUBLE},
		{PAIR_A, SEND_ONLY, 0, PAIR_DOUBLE},
		{PAIR_B, SEND_ONLY, 0, PAIR_DOUBLE},
		{PAIR_B, READ_REQ, 0, PAIR_DOUBLE},
		{PAIR_A, SEND_ONLY, 0, PAIR_SWAP},
		{PAIR_A, READ_RESP_FIRST, 0, PAIR_LATE},
		{PAIR_A, SEND_ONLY, 0, PAIR_DAMAGE},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		struct pair *pair = pair_create(&(struct rig_opts){.tags = 8}, 0xfffffe, 7);
		struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
		struct nic_send_wr wr;

		pair_script(pair, &lost[i], 1);
		rig_post_recv(a, 7, 1024, 64);	   /* for FIN */
		rig_post_recv(b, 9, 3 * 1024, 64); /* for the unexpected message */
		add(b, 1, 1, 0, 1024);
		add(b, 2, 2, 8192, 4096);
		write_tmh(a->arena, EAGER, 1);
		wr = pair_wr(pair, 1, NIC_WR_SEND, 0, 2 * RIG_MTU, 0);
		rig_post(a, &wr);
		write_tmh(a->arena + 4096, RNDV, 2);
		wire_put64(a->arena + 4096 + 16, rig_va(a, 16384));
		wire_put32(a->arena + 4096 + 24, a->rkey);
		wire_put32(a->arena + 4096 + 28, 3 * RIG_MTU + 5);
		wr = pair_wr(pair, 2, NIC_WR_SEND, 4096, HEADERS, 0);
		rig_post(a, &wr);
		write_tmh(a->arena + 6000, EAGER, 3);
		wr = pair_wr(pair, 3, NIC_WR_SEND, 6000, TMH, 0);
		rig_post(a, &wr);
		pair_run(pair);
		for (uint64_t k = 1; k <= 3; k++)
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
		rig_expect_wc(a->recv_cq, 7, NIC_WC_SUCCESS);
		rig_expect_no_wc(a->recv_cq);
		expect(b, 1, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 1);
		expect(b, 1, NIC_WC_TM_RECV, NIC_WC_TM_DATA_VALID, 1);
		expect(b, 2, NIC_WC_TM_RECV, NIC_WC_TM_MATCH, 2);
		for (unsigned k = 0; k < 2; k++) { /* in either order: the data takes as long as it takes */
			struct nic_wc wc;

			assert_true(rig_poll(b->recv_cq, &wc));
			assert_int_equal(wc.status, NIC_WC_SUCCESS);
			assert_int_equal(wc.wc_flags, wc.wr_id == 2 ? NIC_WC_TM_DATA_VALID : 0);
			assert_true(wc.wr_id == 2 || wc.wr_id == 9);
		}
		rig_expect_no_wc(b->recv_cq);
		assert_memory_equal(b->arena, a->arena + TMH, 2 * RIG_MTU - TMH);
		assert_memory_equal(b->arena + 8192, a->arena + 16384, 3 * RIG_MTU + 5);
		assert_int_equal(a->arena[1024], FIN);
		pair_destroy(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tm__an_eager_message_goes_to_its_buffer_without_its_header),
		cmocka_unit_test(tm__match_and_data_of_a_long_message_complete_separately),
		cmocka_unit_test(tm__masks_and_order),
		cmocka_unit_test(tm__other_messages_go_whole_to_untagged_buffers),
		cmocka_unit_test(tm__a_buffer_that_is_too_short_ends_the_connection),
		cmocka_unit_test(tm__a_buffer_may_be_deleted_until_a_message_takes_it),
		cmocka_unit_test(tm__the_list_has_an_end),
		cmocka_unit_test(tm__new_buffers_wait_until_unexpected_messages_are_handled),
		cmocka_unit_test(tm__a_rendezvous_reads_the_data_and_tells_the_sender),
		cmocka_unit_test(tm__a_rendezvous_too_long_for_its_buffer_is_the_applications),
		cmocka_unit_test(tm__a_rendezvous_waits_for_rts_and_for_room),
		cmocka_unit_test(tm__a_failed_rendezvous_completes_once),
		cmocka_unit_test(tm__a_reset_or_destroyed_qp_leaves_nothing),
		cmocka_unit_test(tm__an_unexpected_message_that_ends_in_its_middle_does_not_count),
		cmocka_unit_test(tm__completions_outlive_the_qp),
		cmocka_unit_test(tm__what_may_be_created_and_posted),
		cmocka_unit_test(tm__everything_happens_once_whatever_packet_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
