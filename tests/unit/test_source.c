/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_source.c - the path on which a peer's packets must arrive (source.c): its link once it has one, else the port.
 * Also what happens when links come and go, and what an off-path attacker can do if it knows addresses and QPN but no
 * PSN.
 */
#include "rig.h"

#include "qp.h"
#include "wire.h"

#define PEER  7u /* number of the peer's link */
#define OTHER 8u

static uint32_t answer;	 /* what source() returns */
static uint32_t claimed; /* the link that the last call of source() asked about */
static unsigned asked;
static bool local; /* what is_local() returns */
static uint32_t route_answer;

static uint32_t source(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
		       uint32_t claims)
{
	(void)ctx, (void)dgid, (void)own;
	assert_int_equal(dest_qpn, RIG_PEER_QPN);
	claimed = claims;
	asked++;
	return answer;
}

static bool is_local(void *ctx, const struct nic_gid *gid)
{
	(void)ctx, (void)gid;
	return local;
}

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	(void)ctx, (void)dgid, (void)dest_qpn;
	return route_answer;
}

static struct rig *ready(enum nic_qp_type type, uint32_t from)
{
	struct rig *rig;

	answer = from;
	asked = claimed = route_answer = 0;
	local = true;
	rig = rig_create(
		&(struct rig_opts){.type = type, .nic = {.source = source, .is_local = is_local, .route = route}});
	rig_to_rts(rig);
	return rig;
}

/** Deliver a packet that arrived on link `peer`, or on the port (0). */
static void rx_from(struct rig *rig, struct packet *p, uint32_t peer, uint16_t sport)
{
	uint8_t buf[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = buf, .peer = peer};

	p->udp_sport = sport;
	p->pad = (uint8_t)(-p->payload_len & 3);
	frame.len = packet_encode(p, buf);
	assert_true(nic_rx(rig->nic, &frame, rig->now));
}

static void rx_bare(struct rig *rig, struct packet *p, uint32_t peer)
{
	uint8_t buf[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.flags = NIC_RX_NO_ICRC | NIC_RX_BARE,
				     .peer = peer,
				     .src_qpn = RIG_PEER_QPN,
				     .addresses = rig->qp->hears};

	p->pad = (uint8_t)(-p->payload_len & 3);
	frame.len = packet_encode(p, buf) - 28;
	frame.data = buf + 28;
	assert_true(nic_rx(rig->nic, &frame, rig->now));
}

static void expect_refused(struct rig *rig, struct packet *p, uint32_t peer, uint16_t sport, enum nic_counter why)
{
	uint64_t before = nic_counters(rig->nic)[why];

	rx_from(rig, p, peer, sport);
	assert_int_equal(nic_counters(rig->nic)[why], before + 1);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_silence(rig);
}

static void expect_taken(struct rig *rig, struct packet *p, uint32_t peer, uint16_t sport)
{
	rig_post_recv(rig, 50, 0, 64);
	rx_from(rig, p, peer, sport);
	rig_expect_wc(rig->recv_cq, 50, NIC_WC_SUCCESS);
	p->psn = psn_add(p->psn, 1);
	rig_drain(rig);
}

/* ---- accepted sources ----------------------------------------------------------------------------------------- */

static void source__SE_04_a_peer_with_a_link_is_accepted_on_that_link_only(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_RC, NIC_QPT_UC};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = ready(types[i], PEER);
		struct packet p = rig_peer_data(rig, (i ? RIG_UC : 0) | SEND_ONLY, RIG_RQ_PSN, 0, 8);
		uint64_t before;

		rig_post_recv(rig, 51, 0, 64);
		asked = 0;
		expect_refused(rig, &p, 0, NIC_UDP_PORT, NIC_CNT_rx_beside_link);
		expect_refused(rig, &p, 0, 0xc000, NIC_CNT_rx_beside_link);
		expect_refused(rig, &p, OTHER, NIC_UDP_PORT, NIC_CNT_rx_bad_source);
		before = rig_counter(rig, rx_bad_source);
		rx_bare(rig, &p, OTHER);
		rx_bare(rig, &p, 0);
		assert_int_equal(rig_counter(rig, rx_bad_source) + rig_counter(rig, rx_beside_link), before + 4);
		rig_expect_no_wc(rig->recv_cq);
		assert_int_equal(asked, 0); /* packets that are refused cause no more calls of source() */
		rx_from(rig, &p, PEER, 0xc000);
		rig_expect_wc(rig->recv_cq, 51, NIC_WC_SUCCESS);
		rig_destroy(rig);
	}
}

static void source__SE_04_forged_acks_outside_the_link_are_dropped(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, PEER);
	struct packet p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	for (unsigned s = 0; s < 256; s++) {
		p.syndrome = (uint8_t)s;
		expect_refused(rig, &p, 0, NIC_UDP_PORT, NIC_CNT_rx_beside_link);
		expect_refused(rig, &p, OTHER, NIC_UDP_PORT, NIC_CNT_rx_bad_source);
	}
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	p.syndrome = SYN_ACK;
	rx_from(rig, &p, PEER, 0xc000);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void source__SE_04_packets_from_this_host_need_source_port_4791(void **state)
{
	static const uint16_t sports[] = {0, 1, 4790, 4792, 0xb712, 0xc000, 0xffff};
	struct rig *rig = ready(NIC_QPT_RC, 0);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	(void)state;
	for (unsigned i = 0; i < sizeof(sports) / sizeof(sports[0]); i++)
		expect_refused(rig, &p, 0, sports[i], NIC_CNT_rx_local_sport);
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	rig_destroy(rig);
	rig = ready(NIC_QPT_RC, 0);
	p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	local = false; /* is_local() is called only when the QP connects, not for each packet */
	expect_refused(rig, &p, 0, 0xc000, NIC_CNT_rx_local_sport);
	rig_modify_state(rig, NIC_QPS_RESET);
	rig_to_rts(rig);
	p.psn = RIG_RQ_PSN;
	expect_taken(rig, &p, 0, 0xc000);
	rig_destroy(rig);
}

static void source__SE_04_datagrams_from_this_host_need_source_port_4791(void **state)
{
	struct rig *rig = ready(NIC_QPT_UD, 0);
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 8);

	(void)state;
	p.qkey = RIG_QKEY;
	p.src_qpn = RIG_PEER_QPN;
	expect_refused(rig, &p, 0, 0xc000, NIC_CNT_rx_local_sport);
	rig_post_recv(rig, 1, 0, 256);
	rx_from(rig, &p, 0, NIC_UDP_PORT);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_post_recv(rig, 2, 0, 256);
	rx_from(rig, &p, OTHER, 0xc000); /* a packet from any link is accepted */
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS);
	local = false;
	rig_post_recv(rig, 3, 0, 256);
	rx_from(rig, &p, 0, 0xc000);
	rig_expect_wc(rig->recv_cq, 3, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/* ---- links come and go ------------------------------------------------------------------------------------------ */

static void source__a_new_link_replaces_the_port(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, 0);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	struct nic_gid elsewhere = rig->gid;

	(void)state;
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	answer = PEER;
	elsewhere.raw[15]++;
	nic_peer_came(rig->nic, PEER, &elsewhere); /* a link to another of our addresses */
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	nic_peer_came(rig->nic, OTHER, &rig->gid); /* a link of another peer */
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	nic_peer_came(rig->nic, PEER, &rig->gid);
	expect_refused(rig, &p, 0, NIC_UDP_PORT, NIC_CNT_rx_beside_link);
	expect_taken(rig, &p, PEER, 0xc000);
	nic_peer_gone(rig->nic, OTHER, &rig->gid);
	nic_peer_gone(rig->nic, PEER, &elsewhere);
	expect_refused(rig, &p, 0, NIC_UDP_PORT, NIC_CNT_rx_beside_link);
	answer = 0;
	nic_peer_gone(rig->nic, PEER, &rig->gid);
	expect_refused(rig, &p, PEER, 0xc000, NIC_CNT_rx_bad_source); /* too late: the link has ended */
	expect_refused(rig, &p, 0, 0xc000, NIC_CNT_rx_local_sport);
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	rig_destroy(rig);
}

/** The NIC does not know the peer's link yet. It learns the link from the first packet that arrives on it, if source()
 * confirms that the link belongs to the peer. */
static void source__a_link_is_learned_from_its_first_packet(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, 0);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	(void)state;
	expect_refused(rig, &p, OTHER, 0xc000, NIC_CNT_rx_bad_source);
	assert_int_equal(claimed, OTHER);
	answer = PEER;
	expect_refused(rig, &p, OTHER, 0xc000, NIC_CNT_rx_bad_source);
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	expect_taken(rig, &p, PEER, 0xc000);
	assert_int_equal(claimed, PEER);
	expect_refused(rig, &p, 0, NIC_UDP_PORT, NIC_CNT_rx_beside_link);
	rig_modify_state(rig, NIC_QPS_RESET);
	answer = 0;
	rig_to_rts(rig);
	p.psn = RIG_RQ_PSN;
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	rig_destroy(rig);
}

/** When the peer's link comes, an ACK on its way through the port is lost: the request is retransmitted, which counts
 * as no retry. */
static void source__unacked_requests_are_retransmitted_when_a_link_opens(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, 0);
	struct packet p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);

	(void)state;
	p.syndrome = SYN_ACK;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rx_from(rig, &p, 0, NIC_UDP_PORT);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	answer = PEER;
	nic_peer_came(rig->nic, PEER, &rig->gid);
	p.psn++;
	rx_from(rig, &p, 0, NIC_UDP_PORT); /* the second request's ACK, too late on the port */
	rig_expect_no_wc(rig->send_cq);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rx_from(rig, &p, PEER, 0xc000);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/** If no packet arrived on the port before the peer's link came, no ACK can be lost: nothing is retransmitted. */
static void source__a_link_opened_before_any_arrival_retransmits_nothing(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, 0);

	(void)state;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	answer = PEER;
	nic_peer_came(rig->nic, PEER, &rig->gid);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static unsigned take(struct rig *rig, uint32_t path, struct nic_tx_frame *frame)
{
	static uint8_t data[NIC_FRAME_MAX];

	*frame = (struct nic_tx_frame){.data = data};
	return nic_path_tx(rig->nic, path, frame, 1, rig->now);
}

/** When this host opens a link to the peer, QPs that use the port move to the link, because from then on the peer
 * accepts packets on nothing else. */
static void source__connections_by_the_port_move_to_a_link(void **state)
{
	struct rig *rig = ready(NIC_QPT_RC, 0);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	struct nic_gid other = rig->peer_gid;
	struct nic_tx_frame frame;
	uint32_t path = (uint32_t)nic_path_open(rig->nic, NIC_PATH_LOSSLESS);

	(void)state;
	expect_taken(rig, &p, 0, NIC_UDP_PORT);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	other.raw[15]++;
	nic_path_take(rig->nic, path, &other, RIG_PEER_QPN, 0xff0000);
	nic_path_take(rig->nic, path, &rig->peer_gid, RIG_PEER_QPN ^ 0x010000, 0xff0000);
	assert_int_equal(nic_qp_path(rig->qp), 0);
	nic_path_take(rig->nic, path, &rig->peer_gid, RIG_PEER_QPN & 0xff0000, 0xff0000);
	assert_int_equal(nic_qp_path(rig->qp), path);
	rig_expect_silence(rig);
	nic_ack_flush(rig->nic, true);
	for (unsigned i = 0, seen = 0; i < 2; i++) { /* the ACK and the SEND, in either order */
		assert_int_equal(take(rig, path, &frame), 1);
		seen |= frame.data[frame.bth] == ACK ? 1u : frame.data[frame.bth] == SEND_ONLY ? 2u : 0u;
		assert_int_equal(wire_get24(frame.data + frame.bth + BTH_PSN),
				 frame.data[frame.bth] == ACK ? RIG_RQ_PSN : RIG_SQ_PSN);
		assert_true(i == 0 || seen == 3);
	}
	assert_int_equal(take(rig, path, &frame), 0);
	assert_int_equal(rig_counter(rig, local_ack_timeout_err), 0);
	rig_destroy(rig);
}

/* ---- strangers of the network: right addresses, right QPN, any PSN -------------------------------------------- */

/** Deliver the packet in buf with this PSN. NIC_RX_NO_ICRC: the ICRC is not checked, so that all PSNs can be tried. */
static void answer_with(struct rig *rig, uint8_t *buf, uint32_t len, uint32_t psn)
{
	const struct nic_rx_frame frame = {.data = buf, .len = len, .flags = NIC_RX_NO_ICRC};

	wire_put16(buf + 28 + BTH_PSN, (uint16_t)(psn >> 8));
	buf[28 + BTH_PSN + 2] = (uint8_t)psn;
	assert_true(nic_rx(rig->nic, &frame, rig->now));
}

#define OUTSTANDING 5u

/** Only ACKs and NAKs with an outstanding PSN have an effect: a stranger has to guess one of 5 in 2^24 here. */
static void source__SE_04_acks_and_naks_need_an_outstanding_psn(void **state)
{
	static const uint8_t syndromes[] = {SYN_ACK, SYN_RNR, SYN_SEQ, SYN_INV, SYN_ACCESS, SYN_OP};
	uint8_t buf[NIC_FRAME_MAX];

	(void)state;
	for (unsigned s = 0; s < sizeof(syndromes); s++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);
		uint32_t len, step = syndromes[s] == SYN_OP ? 1 : 251;

		p.syndrome = syndromes[s];
		len = packet_encode(&p, buf);
		answer_with(rig, buf, len, RIG_SQ_PSN); /* no request is outstanding */
		answer_with(rig, buf, len, RIG_SQ_PSN - 1);
		for (unsigned i = 0; i < OUTSTANDING; i++)
			rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		assert_int_equal(rig_drain(rig), OUTSTANDING);
		for (uint32_t off = OUTSTANDING; off < 1u << 24; off += step)
			answer_with(rig, buf, len, (RIG_SQ_PSN + off) & PSN_MASK);
		answer_with(rig, buf, len, RIG_SQ_PSN + OUTSTANDING);
		answer_with(rig, buf, len, RIG_SQ_PSN - 1);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
		rig_expect_no_wc(rig->send_cq);
		rig_expect_silence(rig); /* nothing is retransmitted */
		answer_with(rig, buf, len, RIG_SQ_PSN + OUTSTANDING - 1);
		if (syndromes[s] == SYN_ACK)
			assert_int_equal(nic_cq_count(rig->send_cq), OUTSTANDING);
		else if (syndromes[s] >= SYN_INV)
			assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		else
			assert_int_equal(nic_cq_count(rig->send_cq), OUTSTANDING - 1);
		rig_destroy(rig);
	}
}

/** A request is executed only with the expected PSN. Later PSNs cause one NAK at most; earlier ones count as
 * duplicates. */
static void source__SE_04_requests_are_executed_with_the_expected_psn_only(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	uint8_t buf[NIC_FRAME_MAX];
	uint32_t len = packet_encode(&p, buf);

	(void)state;
	for (uint32_t off = 1; off < 1u << 23; off += 7)
		answer_with(rig, buf, len, (RIG_RQ_PSN + off) & PSN_MASK);
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_SEQ);
	rig_expect_silence(rig);
	for (uint32_t off = 1u << 23; off < 1u << 24; off += 7)
		answer_with(rig, buf, len, (RIG_RQ_PSN + off) & PSN_MASK);
	for (struct packet sent; rig_tx(rig, &sent);)
		assert_true(sent.op->value == ACK && (sent.syndrome == SYN_ACK || sent.syndrome == SYN_SEQ));
	rig_expect_untouched(rig, 0, RIG_ARENA);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	answer_with(rig, buf, len, RIG_RQ_PSN);
	rig_expect_data(rig, 0, 0, 8);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(source__SE_04_a_peer_with_a_link_is_accepted_on_that_link_only),
		cmocka_unit_test(source__SE_04_forged_acks_outside_the_link_are_dropped),
		cmocka_unit_test(source__SE_04_packets_from_this_host_need_source_port_4791),
		cmocka_unit_test(source__SE_04_datagrams_from_this_host_need_source_port_4791),
		cmocka_unit_test(source__a_new_link_replaces_the_port),
		cmocka_unit_test(source__a_link_is_learned_from_its_first_packet),
		cmocka_unit_test(source__unacked_requests_are_retransmitted_when_a_link_opens),
		cmocka_unit_test(source__a_link_opened_before_any_arrival_retransmits_nothing),
		cmocka_unit_test(source__connections_by_the_port_move_to_a_link),
		cmocka_unit_test(source__SE_04_acks_and_naks_need_an_outstanding_psn),
		cmocka_unit_test(source__SE_04_requests_are_executed_with_the_expected_psn_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
