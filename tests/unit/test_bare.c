/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_bare.c - bare packets: packets without IP and UDP headers, between connected QPs in processes of one host. From
 * the BTH on they equal whole packets bit for bit, and they have the same effect. A QP accepts bare packets only from
 * its peer.
 */
#include <stdlib.h>

#include "pair.h"
#include "qp.h"

#define A PAIR_A
#define B PAIR_B

#define RECV_AT	 (64u * 1024)
#define RECV_LEN 2048u
#define THERE	 (32u * 1024) /* offset in side B's arena that requests address */

/** Two pairs with the same traffic: one sends bare packets, the other whole packets. */
struct twins {
	struct pair *bare, *whole;
	uint32_t path;
};

/** Create a pair whose QPs send on a path without ICRC and have no receives posted. */
static struct pair *pair_on_path(const struct rig_opts *opts, uint32_t *path)
{
	struct pair *pair = pair_create(opts, RIG_SQ_PSN, RIG_RQ_PSN);

	for (unsigned i = 0; i < 2; i++) {
		int opened = nic_path_open(pair->rig[i]->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS);

		assert_true(opened > 0);
		/* The QP is still queued on path 0: unqueue it before it gets another path. */
		rig_drain(pair->rig[i]);
		*path = pair->rig[i]->qp->path = (uint32_t)opened;
	}
	return pair;
}

static struct pair *pair_with_path(const struct rig_opts *opts, uint32_t *path)
{
	struct pair *pair = pair_on_path(opts, path);

	for (unsigned i = 0; i < 2; i++)
		for (unsigned n = 0; n < 4; n++)
			rig_post_recv(pair->rig[i], 100 + n, RECV_AT + n * RECV_LEN, RECV_LEN);
	return pair;
}

static struct twins twins_create(const struct rig_opts *opts)
{
	struct twins t;

	t.bare = pair_with_path(opts, &t.path);
	t.whole = pair_with_path(opts, &t.path);
	return t;
}

static void twins_destroy(struct twins *t)
{
	pair_destroy(t->bare);
	pair_destroy(t->whole);
}

static bool take(struct pair *pair, enum pair_side side, uint32_t path, bool bare, struct nic_tx_frame *frame,
		 uint8_t *data)
{
	*frame = (struct nic_tx_frame){.data = data, .bare = bare};
	return nic_path_tx(pair->rig[side]->nic, path, frame, 1, pair->rig[side]->now) == 1;
}

static struct nic_rx_frame bare_frame(const struct nic_tx_frame *sent)
{
	return (struct nic_rx_frame){.data = sent->data,
				     .len = sent->len,
				     .flags = NIC_RX_NO_ICRC | NIC_RX_BARE,
				     .src_qpn = sent->qpn,
				     .addresses = sent->addresses};
}

/** Whether the packet has an address in memory, which differs between the pairs. */
static bool names_memory(const struct nic_rx_frame *whole)
{
	struct packet p;

	assert_int_equal(packet_parse(whole, &p), PACKET_OK);
	return op_has(p.op, HDR_RETH) || op_has(p.op, HDR_ATOMIC);
}

static void expect_same_on_the_wire(const struct nic *to, struct nic_rx_frame bare, const struct nic_rx_frame *whole)
{
	static uint8_t one[NIC_FRAME_MAX + 64], other[NIC_FRAME_MAX + 64];
	uint32_t len = nic_frame_ip(whole, other, sizeof(other));

	assert_true(nic_frame_address(to, &bare));
	assert_int_equal(bare.flags, NIC_RX_NO_ICRC | NIC_RX_UDP_PAYLOAD);
	assert_int_equal(nic_frame_ip(&bare, one, sizeof(one)), len);
	if (!names_memory(whole))
		assert_memory_equal(one, other, len);
}

/** Carry one packet of each pair. @return whether there was one */
static bool carry(struct twins *t, enum pair_side side)
{
	uint8_t data[2][NIC_FRAME_MAX];
	struct nic_tx_frame bare, whole;
	struct nic_rx_frame rx;
	bool moved = take(t->bare, side, t->path, true, &bare, data[0]);
	const struct nic_rx_frame rx_whole = {.data = data[1], .flags = NIC_RX_NO_ICRC};

	assert_int_equal(take(t->whole, side, t->path, false, &whole, data[1]), moved);
	if (!moved)
		return false;
	assert_true(bare.bare);
	assert_false(whole.bare);
	assert_int_equal(bare.bth, 0);
	assert_int_equal(bare.len, whole.len - whole.bth);
	rx = rx_whole;
	rx.len = whole.len;
	expect_same_on_the_wire(t->bare->rig[!side]->nic, bare_frame(&bare), &rx);
	assert_true(nic_rx(t->whole->rig[!side]->nic, &rx, 0));
	rx = bare_frame(&bare);
	assert_true(nic_rx(t->bare->rig[!side]->nic, &rx, 0));
	return true;
}

static void run(struct twins *t)
{
	bool moved;

	do {
		moved = carry(t, A);
		moved |= carry(t, B);
		for (unsigned i = 0; i < 2 && !moved; i++) {
			nic_ack_flush(t->bare->rig[i]->nic, true);
			nic_ack_flush(t->whole->rig[i]->nic, true);
			moved = nic_path_pending(t->bare->rig[i]->nic, t->path);
		}
	} while (moved);
}

static void expect_same_completions(struct nic_cq *one, struct nic_cq *other)
{
	struct nic_wc wc = {0}, would = {0};

	while (rig_poll(one, &wc)) {
		assert_true(rig_poll(other, &would));
		assert_int_equal(wc.wr_id, would.wr_id);
		assert_int_equal(wc.status, NIC_WC_SUCCESS);
		assert_int_equal(would.status, NIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, would.byte_len);
	}
	assert_false(rig_poll(other, &would));
}

static void post(struct pair *pair, enum nic_wr_opcode opcode, uint32_t len, bool is_inline)
{
	struct nic_send_wr wr = pair_wr(pair, 7, opcode, 8, len, THERE);

	if (is_inline)
		wr.flags |= NIC_SEND_INLINE;
	wr.ex = 0x01020304;
	if (opcode == NIC_WR_ATOMIC_FETCH_AND_ADD || opcode == NIC_WR_ATOMIC_CMP_AND_SWP)
		wr.atomic.compare_add = 0x1122334455667788u;
	rig_post(pair->rig[A], &wr);
}

static void expect_same(struct twins *t, enum nic_wr_opcode opcode, uint32_t len, bool is_inline)
{
	post(t->bare, opcode, len, is_inline);
	post(t->whole, opcode, len, is_inline);
	run(t);
	assert_int_equal(nic_cq_count(t->bare->rig[A]->send_cq), 1);
	for (unsigned i = 0; i < 2; i++) {
		expect_same_completions(t->bare->rig[i]->send_cq, t->whole->rig[i]->send_cq);
		expect_same_completions(t->bare->rig[i]->recv_cq, t->whole->rig[i]->recv_cq);
		assert_memory_equal(t->bare->rig[i]->arena, t->whole->rig[i]->arena, RIG_ARENA);
	}
}

static void bare__does_what_whole_packets_do(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_SEND_WITH_IMM, NIC_WR_RDMA_WRITE,
						     NIC_WR_RDMA_WRITE_WITH_IMM, NIC_WR_RDMA_READ};
	static const uint32_t lens[] = {0, 1, 8, 44, 45, 100, RIG_MTU, RIG_MTU + 1, 4 * RIG_MTU + 3};

	(void)state;
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
			for (unsigned l = 0; l < sizeof(lens) / sizeof(lens[0]); l++)
				for (unsigned i = 0; i < 2; i++) {
					const struct rig_opts opts = {.v6 = v6, .cap = {.max_inline_data = 512}};
					struct twins t;

					if (i && (opcodes[o] == NIC_WR_RDMA_READ || lens[l] > 512))
						continue;
					t = twins_create(&opts);
					expect_same(&t, opcodes[o], lens[l], i);
					expect_same(&t, opcodes[o], lens[l], i); /* and again, after other messages */
					twins_destroy(&t);
				}
}

static void bare__atomics(void **state)
{
	struct twins t = twins_create(NULL);

	(void)state;
	expect_same(&t, NIC_WR_ATOMIC_FETCH_AND_ADD, 8, false);
	expect_same(&t, NIC_WR_ATOMIC_CMP_AND_SWP, 8, false);
	twins_destroy(&t);
}

static void bare__unreliable_connections(void **state)
{
	const struct rig_opts opts = {.type = NIC_QPT_UC};
	struct twins t = twins_create(&opts);

	(void)state;
	expect_same(&t, NIC_WR_SEND, 20, false);
	expect_same(&t, NIC_WR_RDMA_WRITE, 3 * RIG_MTU, false);
	twins_destroy(&t);
}

/** A path whose packets have an ICRC sends whole packets, even if asked for bare ones. */
static void bare__paths_with_an_icrc_send_whole_packets(void **state)
{
	struct pair *pair = pair_create(NULL, RIG_SQ_PSN, RIG_RQ_PSN);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;

	(void)state;
	post(pair, NIC_WR_SEND, 8, true);
	assert_true(take(pair, A, 0, true, &frame, data));
	assert_false(frame.bare);
	assert_int_equal(frame.bth, 28);
	assert_true(rig_rx_bytes(pair->rig[B], data, frame.len));
	pair_destroy(pair);
}

/* ---- small requests ---------------------------------------------------------------------------------------------- */

#define SMALL_AT 8u
#define SMALL	 20u

static const enum nic_wr_opcode small_opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE};

static void post_small(struct pair *pair, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t flags)
{
	struct nic_send_wr wr = pair_wr(pair, wr_id, opcode, SMALL_AT, SMALL, THERE);

	wr.flags |= NIC_SEND_INLINE | flags;
	rig_post(pair->rig[A], &wr);
}

static bool has_come(const struct pair *pair, uint32_t at)
{
	return memcmp(pair->rig[B]->arena + at, pair->rig[A]->arena + SMALL_AT, SMALL) == 0;
}

/** Take the next packet of this side; it must be bare and have this opcode. */
static struct nic_rx_frame take_bare(struct pair *pair, enum pair_side side, uint32_t path, unsigned op, uint8_t *data)
{
	struct nic_tx_frame frame;

	assert_true(take(pair, side, path, true, &frame, data));
	assert_true(frame.bare);
	assert_int_equal(data[0], op);
	return bare_frame(&frame);
}

static void give(struct pair *pair, enum pair_side to, const struct nic_rx_frame *frame)
{
	assert_true(nic_rx(pair->rig[to]->nic, frame, pair->rig[to]->now));
}

/** Side B acknowledges what it has received; side A gets this ACK. */
static void give_ack(struct pair *pair, uint32_t path)
{
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame ack;

	nic_ack_flush(pair->rig[B]->nic, true);
	ack = take_bare(pair, B, path, ACK, data);
	give(pair, A, &ack);
}

/** Take a packet from path 0, which must be whole although bare packets are accepted, and deliver it. */
static void expect_whole(struct pair *pair, unsigned op, uint32_t psn)
{
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct packet p;

	assert_true(take(pair, A, 0, true, &frame, data));
	assert_false(frame.bare);
	assert_int_equal(packet_parse(&(struct nic_rx_frame){.data = data, .len = frame.len}, &p), PACKET_OK);
	assert_int_equal(p.op->value, op);
	assert_int_equal(p.psn, psn);
	assert_int_equal(p.payload_len, SMALL);
	assert_memory_equal(p.payload, pair->rig[A]->arena + SMALL_AT, SMALL);
	assert_true(rig_rx_bytes(pair->rig[B], data, frame.len));
}

/** The path closes before the first of two requests is acknowledged. `came`: that request had arrived, and its ACK
 *  is lost with the path. */
static void check_path_closes(enum nic_wr_opcode opcode, bool came)
{
	const unsigned op = opcode == NIC_WR_SEND ? SEND_ONLY : WRITE_ONLY;
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	struct rig *a = pair->rig[A], *b = pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame first;

	post_small(pair, 1, opcode, 0);
	post_small(pair, 2, opcode, 0);
	first = take_bare(pair, A, path, op, data);
	if (came) {
		give(pair, B, &first);
		nic_ack_flush(b->nic, true);
		take_bare(pair, B, path, ACK, data);
		assert_true(has_come(pair, opcode == NIC_WR_SEND ? RECV_AT : THERE));
		memset(b->arena + RECV_AT, 0, SMALL); /* to see that the request is not executed again */
		memset(b->arena + THERE, 0, SMALL);
	}
	for (unsigned i = 0; i < 2; i++)
		nic_path_close(pair->rig[i]->nic, path);
	expect_whole(pair, op, RIG_SQ_PSN);
	assert_int_equal(rig_counter(b, duplicate_request), came);
	assert_int_equal(has_come(pair, opcode == NIC_WR_SEND ? RECV_AT : THERE), !came);
	expect_whole(pair, op, RIG_SQ_PSN + 1);
	assert_true(has_come(pair, opcode == NIC_WR_SEND ? RECV_AT + RECV_LEN : THERE));
	pair_run(pair);
	assert_int_equal(pair_count(pair, A, op), 0); /* pair_run had no request to send */
	for (unsigned i = 0; i < 2; i++) {
		rig_expect_wc(a->send_cq, 1 + i, NIC_WC_SUCCESS);
		if (opcode == NIC_WR_SEND)
			assert_int_equal(rig_expect_wc(b->recv_cq, 100 + i, NIC_WC_SUCCESS).byte_len, SMALL);
	}
	rig_expect_no_wc(a->send_cq);
	rig_expect_no_wc(b->recv_cq);
	pair_destroy(pair);
}

static void bare__small_requests_are_retransmitted_when_their_path_closes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		check_path_closes(small_opcodes[i], false);
		check_path_closes(small_opcodes[i], true);
	}
}

/** A small SEND has the SE bit if it is posted as solicited. A plain WRITE never has the SE bit, because it consumes
 *  no receive (IBTA 9.2.3). */
static void bare__only_solicited_small_sends_carry_the_se_bit(void **state)
{
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	struct rig *b = pair->rig[B];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		const bool send = small_opcodes[i / 2] == NIC_WR_SEND, solicited = i % 2;
		uint8_t data[NIC_FRAME_MAX];
		struct nic_rx_frame frame;

		nic_cq_arm(b->recv_cq, true);
		post_small(pair, i, small_opcodes[i / 2], solicited ? NIC_SEND_SOLICITED : 0);
		frame = take_bare(pair, A, path, send ? SEND_ONLY : WRITE_ONLY, data);
		assert_int_equal(data[1] >> 7, send && solicited);
		give(pair, B, &frame);
		assert_int_equal(rig_event(b, NIC_EVENT_COMP, RIG_USER_RECV_CQ(b)), send && solicited);
		if (send)
			rig_expect_wc(b->recv_cq, 100 + i, NIC_WC_SUCCESS);
	}
	rig_expect_no_wc(b->recv_cq);
	pair_destroy(pair);
}

/** A small request with FENCE waits for the atomic before it; without FENCE it does not wait (IBTA 10.8.3.3). */
static void check_fence(enum nic_wr_opcode opcode, bool fenced)
{
	const unsigned op = opcode == NIC_WR_SEND ? SEND_ONLY : WRITE_ONLY;
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	const struct nic_send_wr add = pair_wr(pair, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, RECV_AT, 8, THERE);
	uint8_t data[2][NIC_FRAME_MAX];
	struct nic_rx_frame frame, answer;
	struct nic_tx_frame none;

	rig_post(pair->rig[A], &add);
	post_small(pair, 2, opcode, fenced ? NIC_SEND_FENCE : 0);
	frame = take_bare(pair, A, path, FETCH_ADD, data[0]);
	give(pair, B, &frame);
	answer = take_bare(pair, B, path, ATOMIC_ACK, data[1]);
	if (fenced) {
		assert_false(take(pair, A, path, true, &none, data[0]));
		give(pair, A, &answer);
		frame = take_bare(pair, A, path, op, data[0]);
	} else {
		frame = take_bare(pair, A, path, op, data[0]);
		give(pair, A, &answer);
	}
	assert_false(take(pair, A, path, true, &none, data[1]));
	rig_expect_wc(pair->rig[A]->send_cq, 1, NIC_WC_SUCCESS);
	give(pair, B, &frame);
	give_ack(pair, path);
	rig_expect_wc(pair->rig[A]->send_cq, 2, NIC_WC_SUCCESS);
	rig_expect_no_wc(pair->rig[A]->send_cq);
	assert_true(has_come(pair, opcode == NIC_WR_SEND ? RECV_AT : THERE));
	pair_destroy(pair);
}

static void bare__small_requests_wait_at_a_fence(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		check_fence(small_opcodes[i], true);
		check_fence(small_opcodes[i], false);
	}
}

/** A responder without a receive sends two RNR NAKs. After each RNR timer, not before, the requester sends the same
 *  packet again. The packet is received once. */
static void bare__small_sends_are_retried_after_rnr_naks(void **state)
{
	uint32_t path;
	struct pair *pair = pair_on_path(NULL, &path);
	struct rig *a = pair->rig[A], *b = pair->rig[B];
	uint8_t data[2][NIC_FRAME_MAX];
	struct nic_rx_frame first, again, nak;
	struct nic_tx_frame none;

	(void)state;
	post_small(pair, 1, NIC_WR_SEND, 0);
	again = first = take_bare(pair, A, path, SEND_ONLY, data[0]);
	for (unsigned i = 1; i <= 2; i++) {
		give(pair, B, &again);
		nak = take_bare(pair, B, path, ACK, data[1]);
		give(pair, A, &nak);
		assert_int_equal(rig_counter(a, rnr_nak_retry), i);
		assert_false(take(pair, A, path, true, &none, data[1]));
		rig_advance(a, nic_next_deadline(a->nic) - a->now - 1);
		assert_false(take(pair, A, path, true, &none, data[1]));
		rig_advance(a, 1);
		again = take_bare(pair, A, path, SEND_ONLY, data[1]);
		assert_int_equal(again.len, first.len);
		assert_memory_equal(again.data, first.data, first.len);
	}
	rig_expect_no_wc(a->send_cq);
	rig_post_recv(b, 9, RECV_AT, RECV_LEN);
	give(pair, B, &again);
	give_ack(pair, path);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(rig_expect_wc(b->recv_cq, 9, NIC_WC_SUCCESS).byte_len, SMALL);
	assert_true(has_come(pair, RECV_AT));
	assert_false(take(pair, A, path, true, &none, data[1]));
	rig_expect_no_wc(a->send_cq);
	rig_expect_no_wc(b->recv_cq);
	pair_destroy(pair);
}

/* ---- bare packets that are refused ------------------------------------------------------------------------------ */

/** Post a SEND to side A's QP, and take its bare packet into `data`. */
static struct nic_rx_frame one_from(struct pair *pair, uint32_t path, uint8_t *data)
{
	struct nic_tx_frame frame;

	post(pair, NIC_WR_SEND, 8, true);
	assert_true(take(pair, A, path, true, &frame, data));
	return bare_frame(&frame);
}

static void bare__packets_from_other_sources_are_dropped(void **state)
{
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	struct rig *b = pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame frame = one_from(pair, path, data);

	(void)state;
	frame.src_qpn ^= 1;
	assert_false(nic_frame_address(b->nic, &frame));
	assert_true(nic_rx(b->nic, &frame, 0));
	assert_int_equal(rig_counter(b, rx_bad_source), 1);
	frame.src_qpn ^= 1;
	/* As if from a QP with the same number, but on a device with another address. */
	frame.addresses ^= 1;
	assert_false(nic_frame_address(b->nic, &frame));
	assert_true(nic_rx(b->nic, &frame, 0));
	assert_int_equal(rig_counter(b, rx_bad_source), 2);
	rig_expect_no_wc(b->recv_cq);
	frame.addresses ^= 1;
	assert_true(nic_rx(b->nic, &frame, 0));
	rig_expect_wc(b->recv_cq, 100, NIC_WC_SUCCESS);
	assert_int_equal(rig_counter(b, rx_bad_source), 2);
	pair_destroy(pair);
}

static void bare__unknown_qpns_and_removed_gids_are_dropped(void **state)
{
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	struct rig *b = pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame frame = one_from(pair, path, data);

	(void)state;
	data[7] ^= 1; /* a bit of the destination QPN */
	assert_false(nic_frame_address(b->nic, &frame));
	assert_int_equal(frame.flags, NIC_RX_NO_ICRC | NIC_RX_BARE);
	assert_true(nic_rx(b->nic, &frame, 0));
	assert_int_equal(rig_counter(b, rx_no_qp), 1);
	data[7] ^= 1;
	/* The connection's local address is removed from the NIC. */
	assert_int_equal(nic_gid_set(b->nic, 0, NULL), 0);
	assert_true(nic_rx(b->nic, &frame, 0));
	assert_int_equal(rig_counter(b, rx_bad_dgid), 1);
	rig_expect_no_wc(b->recv_cq);
	pair_destroy(pair);
}

static void bare__packets_to_a_ud_qp_are_dropped(void **state)
{
	const struct rig_opts opts = {.type = NIC_QPT_UD};
	struct rig *rig = rig_ready(&opts);
	const struct packet p = rig_peer_data(rig, UD_SEND_ONLY, RIG_RQ_PSN, 0, 8);
	uint8_t data[NIC_FRAME_MAX];
	const uint32_t len = packet_encode(&p, data);
	struct nic_rx_frame frame = {
		.data = data + 28, .len = len - 28, .flags = NIC_RX_NO_ICRC | NIC_RX_BARE, .src_qpn = RIG_PEER_QPN};

	(void)state;
	rig_post_recv(rig, 1, 0, 256);
	assert_false(nic_frame_address(rig->nic, &frame));
	assert_true(nic_rx(rig->nic, &frame, 0));
	assert_int_equal(rig_counter(rig, rx_bad_source), 1);
	rig_expect_no_wc(rig->recv_cq);
	rig_destroy(rig);
}

/** A bare packet of any length is parsed without a read beyond its end. */
static void bare__cut_short(void **state)
{
	uint32_t path;
	struct pair *pair = pair_with_path(NULL, &path);
	struct rig *b = pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	const struct nic_rx_frame whole = one_from(pair, path, data);

	(void)state;
	for (uint32_t len = 0; len < 16; len++) { /* shorter than BTH and ICRC */
		uint8_t *copy = malloc(len ? len : 1);
		struct nic_rx_frame frame = whole;

		assert_non_null(copy);
		memcpy(copy, data, len);
		frame.data = copy;
		frame.len = len;
		assert_false(nic_rx(b->nic, &frame, 0));
		assert_int_equal(rig_counter(b, rx_too_short), len + 1);
		assert_int_equal(nic_frame_address(b->nic, &frame), len >= 12);
		free(copy);
	}
	rig_expect_no_wc(b->recv_cq);
	pair_destroy(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bare__does_what_whole_packets_do),
		cmocka_unit_test(bare__atomics),
		cmocka_unit_test(bare__unreliable_connections),
		cmocka_unit_test(bare__paths_with_an_icrc_send_whole_packets),
		cmocka_unit_test(bare__small_requests_are_retransmitted_when_their_path_closes),
		cmocka_unit_test(bare__only_solicited_small_sends_carry_the_se_bit),
		cmocka_unit_test(bare__small_requests_wait_at_a_fence),
		cmocka_unit_test(bare__small_sends_are_retried_after_rnr_naks),
		cmocka_unit_test(bare__packets_from_other_sources_are_dropped),
		cmocka_unit_test(bare__unknown_qpns_and_removed_gids_are_dropped),
		cmocka_unit_test(bare__packets_to_a_ud_qp_are_dropped),
		cmocka_unit_test(bare__cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
