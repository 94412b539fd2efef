/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_keyed_nic.c - NICs with a key (nic_config.key; conformance point SE-08): they talk only to each other, in the
 * usual way; refused packets change nothing and are counted by cause.
 */
#include "pair.h"

static const uint8_t secret[NIC_KEY_LEN] = {1, 2, 3, 4, 5, 6, 7, 8},
		     other_secret[NIC_KEY_LEN] = {8, 7, 6, 5, 4, 3, 2, 1};
static struct keyed key, other_key;

/** A rig with a key. The test plays the peer and uses the same key. */
static struct rig *keyed_rig(void)
{
	return rig_ready(&(struct rig_opts){.nic.key = secret});
}

/** As rig_tx, but parses with the key. */
static bool tx(struct rig *rig, struct packet *p)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};
	struct nic_rx_frame rx = {.data = buf};

	if (!nic_tx(rig->nic, &frame, 1, rig->now))
		return false;
	rx.len = frame.len;
	assert_int_equal(packet_parse(&rx, p), PACKET_NO_KEY);
	assert_int_equal(packet_parse_keyed(&rx, &other_key, p), PACKET_BAD_TAG);
	assert_int_equal(packet_parse_keyed(&rx, &key, p), PACKET_OK);
	return true;
}

static bool rx(struct rig *rig, struct packet p, const struct keyed *with)
{
	p.key = with;
	return rig_rx(rig, &p);
}

/** Post one RC request of each kind, most of them with several packets. */
static void post_all(struct pair *pair, unsigned *posted)
{
	static const enum nic_wr_opcode ops[] = {NIC_WR_RDMA_WRITE,    NIC_WR_SEND,
						 NIC_WR_RDMA_READ,     NIC_WR_ATOMIC_FETCH_AND_ADD,
						 NIC_WR_SEND_WITH_IMM, NIC_WR_RDMA_WRITE_WITH_IMM};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		bool atomic = ops[i] == NIC_WR_ATOMIC_FETCH_AND_ADD;
		struct nic_send_wr wr =
			pair_wr(pair, i, ops[i], i * 4096, atomic ? 8 : 3 * RIG_MTU + 5, 32768 + i * 4096);

		if (ops[i] == NIC_WR_SEND || ops[i] == NIC_WR_SEND_WITH_IMM || ops[i] == NIC_WR_RDMA_WRITE_WITH_IMM)
			rig_post_recv(pair->rig[PAIR_B], i, 65536 + i * 4096, 4096);
		if (atomic) {
			wr.atomic.remote_addr = rig_va(pair->rig[PAIR_B], 32768 + i * 4096);
			wr.atomic.rkey = pair->rig[PAIR_B]->rkey;
			wr.atomic.compare_add = 1;
		}
		rig_post(pair->rig[PAIR_A], &wr);
	}
	*posted = sizeof(ops) / sizeof(ops[0]);
}

static void security__SE_08_peers_with_the_key_complete_all_requests(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct pair *pair = pair_create(&(struct rig_opts){.v6 = i, .nic.key = secret}, 1, 2);
		const struct rig *b = pair->rig[PAIR_B];
		unsigned posted;

		post_all(pair, &posted);
		pair_run(pair);
		for (unsigned wr = 0; wr < posted; wr++)
			rig_expect_wc(pair->rig[PAIR_A]->send_cq, wr, NIC_WC_SUCCESS);
		assert_memory_equal(b->arena + 32768, pair->rig[PAIR_A]->arena, 3 * RIG_MTU + 5);
		assert_int_equal(nic_cq_count(b->recv_cq), 3);
		assert_int_equal(rig_counter(b, rx_key_missing) + rig_counter(b, rx_key_wrong), 0);
		pair_destroy(pair);
	}
}

/** Damaged packets are dropped, and sent again by their sender. */
static void security__SE_08_damaged_packets_are_dropped_and_retransmitted(void **state)
{
	const struct pair_rule rules[] = {
		{PAIR_A, PAIR_ANY_OP, 1, PAIR_DAMAGE}, {PAIR_A, READ_REQ, 0, PAIR_DAMAGE},
		{PAIR_A, FETCH_ADD, 0, PAIR_DAMAGE},   {PAIR_B, ACK, 0, PAIR_DAMAGE},
		{PAIR_B, ATOMIC_ACK, 0, PAIR_DAMAGE},  {PAIR_B, READ_RESP_MIDDLE, 0, PAIR_DAMAGE}};
	struct pair *pair = pair_create(&(struct rig_opts){.nic.key = secret}, 1, 2);
	struct rig *a = pair->rig[PAIR_A], *b = pair->rig[PAIR_B];
	uint64_t before, after;
	unsigned posted;

	pair_script(pair, rules, sizeof(rules) / sizeof(rules[0]));
	pair->damage_bit = (28 + 11) * 8; /* a bit of the PSN */
	memcpy(&before, b->arena + 32768 + 3 * 4096, sizeof(before));
	post_all(pair, &posted);
	pair_run(pair);
	for (unsigned wr = 0; wr < posted; wr++)
		rig_expect_wc(a->send_cq, wr, NIC_WC_SUCCESS);
	memcpy(&after, b->arena + 32768 + 3 * 4096, sizeof(after));
	assert_true(after == before + 1);
	assert_true(rig_counter(a, rx_key_wrong) >= 2);
	assert_true(rig_counter(b, rx_key_wrong) >= 2);
	assert_int_equal(rig_counter(b, rx_key_missing), 0);
	pair_destroy(pair);
}

/** Packets of a sender without the key change nothing, even with the right QPN, PSN, addresses and R_Key. */
static void security__SE_08_packets_without_the_key_change_nothing(void **state)
{
	static const enum rig_op ops[] = {SEND_ONLY, WRITE_ONLY,      WRITE_ONLY_IMM, READ_REQ, CMP_SWAP,
					  FETCH_ADD, MASKED_CMP_SWAP, ELEMENTS,	      ACK,	ATOMIC_ACK,
					  CNP};
	struct rig *rig = keyed_rig();
	struct nic_qp_counters c;
	struct packet p;

	rig_post_recv(rig, 1, 0, 4096);
	rig_post_send(rig, 2, NIC_WR_SEND, 8192, 16);
	assert_true(tx(rig, &p));
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		bool response = ops[i] == ACK || ops[i] == ATOMIC_ACK;

		p = rig_peer_packet(rig, ops[i], response ? RIG_SQ_PSN : RIG_RQ_PSN);
		p.syndrome = SYN_ACCESS; /* a NAK */
		p.dma_len = 8;
		if (ops[i] == SEND_ONLY || ops[i] == WRITE_ONLY || ops[i] == WRITE_ONLY_IMM) {
			p.payload = rig->peer_data;
			p.payload_len = 8;
		}
		assert_false(rx(rig, p, NULL));
		assert_int_equal(rig_counter(rig, rx_key_missing), i + 1);
		assert_false(rx(rig, p, &other_key));
		assert_int_equal(rig_counter(rig, rx_key_wrong), i + 1);
		rig_expect_silence(rig);
	}
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_no_wc(rig->send_cq);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	assert_int_equal(rig_counter(rig, rx_packets), 0);
	nic_qp_counters(rig->qp, &c);
	assert_int_equal(c.rx_packets + c.dropped_rx, 0); /* dropped before the QP is looked up */
	/* Packets of the peer, which has the key, are accepted. */
	assert_true(rx(rig, rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8), &key));
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_expect_data(rig, 0, 0, 8);
	p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);
	p.syndrome = SYN_ACK;
	assert_true(rx(rig, p, &key));
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/** Anyone can replay a tagged request: the transport recognizes the duplicate and executes the request once. */
static void security__SE_08_a_replayed_request_is_a_duplicate(void **state)
{
	struct rig *rig = keyed_rig();
	struct packet p = rig_peer_packet(rig, FETCH_ADD, RIG_RQ_PSN), q;
	uint64_t before, after;

	memcpy(&before, rig->arena, sizeof(before));
	p.swap_add = 1;
	for (unsigned i = 0; i < 5; i++) {
		assert_true(rx(rig, p, &key));
		assert_true(tx(rig, &q));
		assert_int_equal(q.op->value, ATOMIC_ACK);
		assert_true(q.orig == before);
	}
	memcpy(&after, rig->arena, sizeof(after));
	assert_true(after == before + 1);
	assert_int_equal(rig_counter(rig, duplicate_request), 4);
	rig_destroy(rig);
}

static void security__SE_08_a_peer_without_the_key_drops_tagged_packets(void **state)
{
	struct rig *keyed = keyed_rig(), *plain = rig_ready(NULL);
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};
	struct nic_wc wc;

	rig_post_send(keyed, 1, NIC_WR_SEND, 0, 16);
	for (unsigned tries = 0; !rig_poll(keyed->send_cq, &wc); tries++) {
		assert_true(tries < 1000);
		while (nic_tx(keyed->nic, &frame, 1, keyed->now))
			assert_false(rig_rx_bytes(plain, buf, frame.len));
		assert_true(rig_counter(plain, rx_key_unknown) > 0);
		rig_expect_silence(plain);
		rig_advance(keyed, rig_timeout_max_ns(keyed->attr.timeout));
	}
	assert_int_equal(wc.status, NIC_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_counter(plain, rx_packets), 0);
	rig_destroy(plain);
	rig_destroy(keyed);
}

static void security__SE_08_datagrams_have_a_tag(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD, .nic.key = secret});
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 16);
	const struct nic_av av = {.dgid = rig->peer_gid, .hop_limit = 9};
	struct nic_send_wr wr = rig_wr(rig, 2, NIC_WR_SEND, 0, 16);
	struct nic_ah *ah;

	rig_post_recv(rig, 1, 0, 4096);
	assert_false(rx(rig, p, NULL));
	assert_false(rx(rig, p, &other_key));
	rig_expect_no_wc(rig->recv_cq);
	assert_true(rx(rig, p, &key));
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	wr.ud.ah = ah;
	wr.ud.remote_qpn = RIG_PEER_QPN;
	wr.ud.remote_qkey = RIG_QKEY;
	rig_post(rig, &wr);
	assert_true(tx(rig, &p));
	assert_int_equal(p.op->value, UD_SEND_ONLY);
	rig_destroy(rig);
}

/** Between processes of one host packets have no tag: the kernel identifies the sender, and nobody can change them
 *  on the way. */
static void security__SE_08_frames_without_an_icrc_need_no_tag(void **state)
{
	struct rig *rig = keyed_rig();
	struct packet p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	uint8_t buf[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = buf, .flags = NIC_RX_NO_ICRC};

	p.no_icrc = true;
	frame.len = packet_encode(&p, buf);
	assert_true(nic_rx(rig->nic, &frame, rig->now));
	rig_expect_data(rig, 0, 0, 8);
	rig_destroy(rig);
}

static void security__SE_08_a_key_is_copied(void **state)
{
	uint8_t mine[NIC_KEY_LEN];
	struct rig *rig;
	struct packet p;

	memcpy(mine, secret, sizeof(mine));
	rig = rig_ready(&(struct rig_opts){.nic.key = mine});
	memset(mine, 0xee, sizeof(mine));
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 16);
	assert_true(tx(rig, &p));
	rig_destroy(rig);
}

static int prepare(void **state)
{
	return keyed_derive(&key, secret) && keyed_derive(&other_key, other_secret) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(security__SE_08_peers_with_the_key_complete_all_requests),
		cmocka_unit_test(security__SE_08_damaged_packets_are_dropped_and_retransmitted),
		cmocka_unit_test(security__SE_08_packets_without_the_key_change_nothing),
		cmocka_unit_test(security__SE_08_a_replayed_request_is_a_duplicate),
		cmocka_unit_test(security__SE_08_a_peer_without_the_key_drops_tagged_packets),
		cmocka_unit_test(security__SE_08_datagrams_have_a_tag),
		cmocka_unit_test(security__SE_08_frames_without_an_icrc_need_no_tag),
		cmocka_unit_test(security__SE_08_a_key_is_copied),
	};

	if (!nic_key_supported()) {
		print_message("this build has no libsodium, and so no tags\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, prepare, NULL);
}
