/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rx.c - which QP a well-formed packet reaches, if any (IBTA 9.6.1; conformance points HV-09 to HV-14, HV-16). A
 * packet that is refused is counted under its reason and has no other effect: no response, no completion, no change of
 * state.
 */
#include "rig.h"

/* Deliver the packet: it must be dropped and counted by `why`, without a response or a completion. */
static void expect_dropped(struct rig *rig, const struct packet *p, enum nic_counter why)
{
	uint64_t before = nic_counters(rig->nic)[why];

	rig_rx(rig, p);
	assert_int_equal(nic_counters(rig->nic)[why], before + 1);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->recv_cq);
}

/* Deliver the packet that the QP expects next: it must be accepted, so nothing has changed the QP before. */
static void expect_accepted(struct rig *rig, const struct packet *p)
{
	rig_rx(rig, p);
	assert_int_equal(nic_cq_count(rig->recv_cq), 1);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	if (rig->opts.type == NIC_QPT_RC)
		rig_expect_ack(rig, p->psn, SYN_ACK);
}

static void rx__special_qpns_reach_no_ordinary_qp(void **state)
{
	static const uint32_t special[] = {0, 1};
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	rig_post_recv(rig, 1, 0, 64);
	for (unsigned i = 0; i < 2; i++) {
		p.dest_qpn = special[i];
		expect_dropped(rig, &p, NIC_CNT_rx_no_qp);
	}
	p.dest_qpn = NIC_MCAST_QPN;
	expect_dropped(rig, &p, NIC_CNT_rx_no_group);
	p.dest_qpn = rig->qpn ^ 1; /* an unknown QPN */
	expect_dropped(rig, &p, NIC_CNT_rx_no_qp);
	p.dest_qpn = rig->qpn;
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__HV_09_opcode_of_another_service_is_dropped(void **state)
{
	static const uint8_t foreign[] = {RIG_UC | SEND_ONLY,  RIG_UC | WRITE_ONLY,  UD_SEND_ONLY,
					  0xa4 /* XRC SEND */, 0xaa /* XRC WRITE */, 0xb1 /* XRC ACK */};
	struct rig *rig = rig_ready(NULL);
	struct packet p;

	rig_post_recv(rig, 1, 0, 64);
	for (unsigned i = 0; i < sizeof(foreign); i++) {
		p = rig_peer_packet(rig, foreign[i], RIG_RQ_PSN);
		expect_dropped(rig, &p, NIC_CNT_rx_bad_service);
	}
	p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__HV_09_rc_opcode_to_uc_and_ud_is_dropped(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};
	static const uint8_t own[] = {RIG_UC | SEND_ONLY, UD_SEND_ONLY};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i]});
		struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

		rig_post_recv(rig, 1, 0, 64);
		expect_dropped(rig, &p, NIC_CNT_rx_bad_service);
		p.op = op_get(own[1 - i]);
		expect_dropped(rig, &p, NIC_CNT_rx_bad_service);
		p.op = op_get(own[i]);
		expect_accepted(rig, &p);
		rig_destroy(rig);
	}
}

static void rx__HV_10_requests_are_taken_only_from_rtr_on(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	p.ackreq = true;
	expect_dropped(rig, &p, NIC_CNT_rx_qp_state); /* the QP is in RESET */
	rig_to_init(rig);
	rig_post_recv(rig, 1, 0, 64);
	expect_dropped(rig, &p, NIC_CNT_rx_qp_state);
	rig_to_rtr(rig);
	expect_accepted(rig, &p);
	rig_to_rts(rig);
	rig_post_recv(rig, 1, 0, 64);
	p.psn++;
	expect_accepted(rig, &p);
	rig_modify_state(rig, NIC_QPS_SQD);
	rig_post_recv(rig, 1, 0, 64);
	p.psn++;
	expect_accepted(rig, &p);
	rig_modify_state(rig, NIC_QPS_ERR);
	p.psn++;
	expect_dropped(rig, &p, NIC_CNT_rx_qp_state);
	rig_destroy(rig);
}

static void rx__HV_10_ud_and_uc_still_receive_in_sqe(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};
	static const uint8_t op[] = {RIG_UC | SEND_ONLY, UD_SEND_ONLY};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i]});
		struct nic_ah *ah;
		struct nic_send_wr wr = rig_wr(rig, 9, NIC_WR_SEND, 0, 8);
		struct packet p = rig_peer_data(rig, op[i], RIG_RQ_PSN, 0, 8);

		rig->sge.lkey ^= 1;
		assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
		if (types[i] == NIC_QPT_UD)
			wr.ud.ah = ah;
		rig_post(rig, &wr);
		rig_expect_silence(rig);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_SQE);
		rig_post_recv(rig, 1, 0, 64);
		expect_accepted(rig, &p);
		nic_ah_destroy(ah);
		rig_destroy(rig);
	}
}

static void rx__HV_10_responses_are_taken_only_from_rts_on(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct packet ack = rig_peer_packet(rig, ACK, RIG_SQ_PSN);

	expect_dropped(rig, &ack, NIC_CNT_rx_qp_state);
	rig_to_init(rig);
	expect_dropped(rig, &ack, NIC_CNT_rx_qp_state);
	rig_to_rtr(rig);
	expect_dropped(rig, &ack, NIC_CNT_rx_qp_state);
	rig_to_rts(rig);
	rig_post_send(rig, 7, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 8, NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 2);
	rig_rx(rig, &ack);
	rig_expect_wc(rig->send_cq, 7, NIC_WC_SUCCESS);
	rig_modify_state(rig, NIC_QPS_SQD);
	ack.psn++;
	rig_rx(rig, &ack);
	rig_expect_wc(rig->send_cq, 8, NIC_WC_SUCCESS);
	rig_modify_state(rig, NIC_QPS_ERR);
	expect_dropped(rig, &ack, NIC_CNT_rx_qp_state);
	rig_destroy(rig);
}

static void rx__HV_11_destination_must_be_an_address_of_the_device(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.v6 = v6});
		struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

		rig_post_recv(rig, 1, 0, 64);
		p.dgid.raw[15] = 77;
		expect_dropped(rig, &p, NIC_CNT_rx_bad_dgid);
		p.dgid = rig->gid;
		expect_accepted(rig, &p);
		nic_gid_set(rig->nic, v6, NULL); /* the address is removed from the GID table */
		p.psn++;
		expect_dropped(rig, &p, NIC_CNT_rx_bad_dgid);
		rig_destroy(rig);
	}
}

static void rx__HV_11_addresses_must_be_those_of_the_connection(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_RC, NIC_QPT_UC};
	static const uint8_t op[] = {SEND_ONLY, RIG_UC | SEND_ONLY};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i]});
		struct nic_gid other = rig->gid;
		struct packet p = rig_peer_data(rig, op[i], RIG_RQ_PSN, 0, 8);

		other.raw[15] = 9;
		assert_int_equal(nic_gid_set(rig->nic, 5, &other), 0);
		rig_post_recv(rig, 1, 0, 64);
		p.dgid = other; /* an address of the device, but not the QP's */
		expect_dropped(rig, &p, NIC_CNT_rx_bad_source);
		p.dgid = rig->gid;
		p.sgid.raw[15] = 3;
		expect_dropped(rig, &p, NIC_CNT_rx_bad_source);
		p.sgid = rig->peer_gid;
		expect_accepted(rig, &p);
		rig_destroy(rig);
	}
}

static void rx__HV_11_forged_ack_from_another_address_completes_nothing(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	assert_int_equal(rig_drain(rig), 1);
	p.sgid.raw[15] = 3;
	expect_dropped(rig, &p, NIC_CNT_rx_bad_source);
	rig_expect_no_wc(rig->send_cq);
	rig_destroy(rig);
}

static void rx__HV_11_ud_takes_any_source(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD});
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 8);

	rig_post_recv(rig, 1, 0, 64);
	p.sgid.raw[15] = 200;
	expect_accepted(rig, &p);
	p.dgid.raw[15] = 200;
	rig_post_recv(rig, 1, 0, 64);
	expect_dropped(rig, &p, NIC_CNT_rx_bad_dgid);
	rig_destroy(rig);
}

static void rx__HV_12_pkey_low_15_bits_match_and_one_side_is_a_full_member(void **state)
{
	static const uint16_t bad[] = {0xfffe, 0x7ffe, 0x8000, 0x0000, 0xbfff, 0x3fff};
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	rig_post_recv(rig, 1, 0, 64);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		p.pkey = bad[i];
		expect_dropped(rig, &p, NIC_CNT_bad_pkey);
	}
	p.pkey = 0x7fff; /* a limited member's P_Key; the table has the full member's */
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__HV_13_ud_qkey_mismatch_is_dropped_and_counted(void **state)
{
	static const uint32_t bad[] = {RIG_QKEY ^ 1, RIG_QKEY ^ 0x80000000u, 0};
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD});
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 8);

	rig_post_recv(rig, 1, 0, 64);
	for (unsigned i = 0; i < 3; i++) {
		p.qkey = bad[i];
		expect_dropped(rig, &p, NIC_CNT_bad_qkey);
	}
	rig_expect_untouched(rig, 0, 64);
	p.qkey = RIG_QKEY;
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__HV_14_other_udp_ports_are_ignored_and_the_source_port_is_free(void **state)
{
	static const uint16_t sports[] = {0xc000, 1, 4791, 0xffff, 0};
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	uint8_t buf[NIC_FRAME_MAX];
	unsigned len = packet_encode(&p, buf);

	rig_post_recv(rig, 1, 0, 64);
	buf[23] ^= 1; /* UDP port 4790 */
	assert_false(rig_rx_bytes(rig, buf, len));
	assert_int_equal(rig_counter(rig, rx_not_roce), 1);
	rig_expect_silence(rig);
	for (unsigned i = 0; i < sizeof(sports) / sizeof(*sports); i++) {
		p.udp_sport = sports[i];
		expect_accepted(rig, &p);
		rig_post_recv(rig, 1, 0, 64);
		p.psn++;
	}
	rig_destroy(rig);
}

/* Fix the checksum of the IPv4 header of `words` 16-bit words. */
static void fix_checksum(uint8_t *ip, unsigned words)
{
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (unsigned i = 0; i < words; i++)
		sum += (uint32_t)ip[2 * i] << 8 | ip[2 * i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void rx__HV_16_ip_options_and_fragments_reach_no_qp(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	uint8_t buf[NIC_FRAME_MAX], options[NIC_FRAME_MAX];
	unsigned len = packet_encode(&p, buf);

	rig_post_recv(rig, 1, 0, 64);
	memcpy(options, buf, 20);
	memset(options + 20, 1, 4); /* four NOPs */
	memcpy(options + 24, buf + 20, len - 20);
	options[0] = 0x46;
	options[3] = (uint8_t)(options[3] + 4);
	fix_checksum(options, 12);
	assert_false(rig_rx_bytes(rig, options, len + 4));
	buf[6] = 0x20; /* first fragment: more follow */
	fix_checksum(buf, 10);
	assert_false(rig_rx_bytes(rig, buf, len));
	buf[6] = 0;
	buf[7] = 3; /* last fragment */
	fix_checksum(buf, 10);
	assert_false(rig_rx_bytes(rig, buf, len));
	assert_int_equal(rig_counter(rig, rx_not_roce), 3);
	rig_expect_no_wc(rig->recv_cq);
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__a_port_that_is_down_takes_and_gives_nothing(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);

	rig_post_recv(rig, 1, 0, 64);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	nic_port_set(rig->nic, false);
	expect_dropped(rig, &p, NIC_CNT_rx_port_down);
	nic_port_set(rig->nic, true);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	expect_accepted(rig, &p);
	rig_destroy(rig);
}

static void rx__HV_11_an_unspecified_destination_address_is_dropped(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD, .v6 = true});
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 8);

	memset(&p.dgid, 0, sizeof(p.dgid));
	rig_post_recv(rig, 1, 0, 64);
	rig_rx(rig, &p);
	assert_int_equal(nic_cq_count(rig->recv_cq), 0);
	assert_int_equal(rig_counter(rig, rx_bad_dgid), 1);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rx__special_qpns_reach_no_ordinary_qp),
		cmocka_unit_test(rx__HV_09_opcode_of_another_service_is_dropped),
		cmocka_unit_test(rx__HV_09_rc_opcode_to_uc_and_ud_is_dropped),
		cmocka_unit_test(rx__HV_10_requests_are_taken_only_from_rtr_on),
		cmocka_unit_test(rx__HV_10_ud_and_uc_still_receive_in_sqe),
		cmocka_unit_test(rx__HV_10_responses_are_taken_only_from_rts_on),
		cmocka_unit_test(rx__HV_11_destination_must_be_an_address_of_the_device),
		cmocka_unit_test(rx__HV_11_addresses_must_be_those_of_the_connection),
		cmocka_unit_test(rx__HV_11_forged_ack_from_another_address_completes_nothing),
		cmocka_unit_test(rx__HV_11_ud_takes_any_source),
		cmocka_unit_test(rx__HV_12_pkey_low_15_bits_match_and_one_side_is_a_full_member),
		cmocka_unit_test(rx__HV_13_ud_qkey_mismatch_is_dropped_and_counted),
		cmocka_unit_test(rx__HV_14_other_udp_ports_are_ignored_and_the_source_port_is_free),
		cmocka_unit_test(rx__HV_16_ip_options_and_fragments_reach_no_qp),
		cmocka_unit_test(rx__a_port_that_is_down_takes_and_gives_nothing),
		cmocka_unit_test(rx__HV_11_an_unspecified_destination_address_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
