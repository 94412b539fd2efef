/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_ud.c - datagrams: address handles, the 40-byte GRH area, datagrams that do not fit or are not allowed (IBTA
 * 9.8.3, 11.4.1.2, annex A17; conformance points UD-01, UD-02, UD-04, UD-05, RL-13, RO-09).
 */
#include "rig.h"

#define GRH 40u

static struct rig *ready(bool v6)
{
	return rig_ready(&(struct rig_opts){.type = NIC_QPT_UD, .v6 = v6});
}

/* @return the one's complement sum of an IPv4 header: 0xffff if its checksum is right. */
static uint32_t ipv4_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Deliver a datagram of the peer, either as a whole IP packet or without its IP header, the way a socket
 * returns it. */
static void deliver(struct rig *rig, const struct packet *p, bool headless)
{
	struct packet filled = *p;
	uint8_t buf[NIC_FRAME_MAX];
	unsigned len;

	filled.pad = (uint8_t)(-p->payload_len & 3);
	len = packet_encode(&filled, buf);
	if (headless) {
		unsigned bth = p->v4 ? 28 : 48;
		struct nic_rx_frame frame = {.data = buf + bth,
					     .len = len - bth,
					     .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN,
					     .sgid = p->sgid,
					     .dgid = p->dgid,
					     .udp_sport = p->udp_sport,
					     .tclass = p->tclass,
					     .hop_limit = p->hop_limit};

		assert_true(nic_rx(rig->nic, &frame, rig->now));
	} else {
		assert_true(rig_rx_bytes(rig, buf, len));
	}
}

static void check_grh(const struct rig *rig, const struct packet *p, const uint8_t *grh)
{
	static const uint8_t zero[20];
	const uint8_t *ip = p->v4 ? grh + 20 : grh;
	unsigned udp_len = 8 + p->op->hdr_len + p->payload_len + (-p->payload_len & 3) + 4;

	if (p->v4) {
		assert_memory_equal(grh, zero, 20);
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(ip[1], p->tclass);
		assert_int_equal(ip[2] << 8 | ip[3], 20 + udp_len);
		assert_int_equal(ip[8], p->hop_limit);
		assert_int_equal(ip[9], 17);
		assert_memory_equal(ip + 12, rig->peer_gid.raw + 12, 4);
		assert_memory_equal(ip + 16, rig->gid.raw + 12, 4);
		assert_int_equal(ipv4_sum(ip), 0xffff);
	} else {
		assert_int_equal(ip[0] >> 4, 6);
		assert_int_equal((ip[0] << 4 | ip[1] >> 4) & 0xff, p->tclass);
		assert_int_equal(ip[4] << 8 | ip[5], udp_len);
		assert_int_equal(ip[6], 17);
		assert_int_equal(ip[7], p->hop_limit);
		assert_memory_equal(ip + 8, rig->peer_gid.raw, 16);
		assert_memory_equal(ip + 24, rig->gid.raw, 16);
	}
}

static void ud__UD_01_grh_area_and_completion(void **state)
{
	for (unsigned i = 0; i < 8;
	     i++) { /* IPv4 or IPv6, with its IP header or without, with immediate data or without */
		bool v6 = i & 1, headless = i & 2, imm = i & 4;
		struct rig *rig = ready(v6);
		struct packet p = rig_peer_data(rig, imm ? UD_SEND_ONLY_IMM : UD_SEND_ONLY, 77, 0, 101);
		struct nic_wc wc;

		p.tclass = 0x5c;
		p.hop_limit = 33;
		p.imm = 0x0a0b0c0d;
		p.src_qpn = 0xabcdef;
		rig_post_recv(rig, 1, 0, 256);
		deliver(rig, &p, headless);
		wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, GRH + 101);
		assert_int_equal(wc.opcode, NIC_WC_RECV);
		assert_int_equal(wc.wc_flags, NIC_WC_GRH | (imm ? NIC_WC_WITH_IMM : 0));
		assert_int_equal(wc.src_qp, 0xabcdef);
		assert_int_equal(wc.qp_num, rig->qpn);
		if (imm)
			assert_int_equal(wc.ex, 0x0a0b0c0d);
		check_grh(rig, &p, rig->arena);
		rig_expect_data(rig, GRH, 0, 101);
		rig_expect_untouched(rig, GRH + 101, 200);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

static void ud__UD_01_grh_and_payload_follow_the_sge_list(void **state)
{
	struct rig *rig = ready(false);
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, 60);
	struct nic_sge sge[3] = {{rig_va(rig, 0), 30, rig->lkey},
				 {rig_va(rig, 1000), 30, rig->lkey},
				 {rig_va(rig, 2000), 40, rig->lkey}};
	struct nic_recv_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = 3};
	uint8_t grh[GRH];

	assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
	deliver(rig, &p, false);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	memcpy(grh, rig->arena, 30);
	memcpy(grh + 30, rig->arena + 1000, 10);
	check_grh(rig, &p, grh);
	rig_expect_data(rig, 1010, 0, 20);
	rig_expect_data(rig, 2000, 20, 40);
	rig_destroy(rig);
}

/** Only what is written has to be in the region. */
static void ud__a_buffer_may_be_partly_outside_its_region(void **state)
{
	struct rig *rig = ready(false);

	(void)state;
	rig_post_recv(rig, 1, RIG_ARENA - GRH - 8, 1000);
	rig_rx_data(rig, UD_SEND_ONLY, 0, 0, 8);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, GRH + 8);
	rig_expect_data(rig, RIG_ARENA - 8, 0, 8);
	rig_post_recv(rig, 2, RIG_ARENA - GRH - 7, 1000);
	rig_rx_data(rig, UD_SEND_ONLY, 1, 0, 8);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_LOC_PROT_ERR);
	rig_destroy(rig);
}

static void ud__RL_13_datagram_that_does_not_fit_is_dropped_and_the_wqe_stays(void **state)
{
	struct rig *rig = ready(false);

	rig_post_recv(rig, 1, 0, GRH + 16);
	rig_rx_data(rig, UD_SEND_ONLY, 0, 0, 17);
	rig_rx_data(rig, UD_SEND_ONLY, 1, 0, 4096);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_silence(rig);
	assert_int_equal(rig_counter(rig, ud_too_long), 2);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_expect_untouched(rig, 0, 256);
	rig_rx_data(rig, UD_SEND_ONLY, 2, 0, 16); /* the buffer fits exactly */
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, GRH + 16);
	rig_rx_data(rig, UD_SEND_ONLY, 3, 0, 16); /* no receive WQE is posted */
	assert_int_equal(rig_counter(rig, ud_no_wqe), 1);
	rig_expect_silence(rig);
	rig_post_recv(rig, 2, 0, GRH - 1); /* too small even for the GRH */
	rig_rx_data(rig, UD_SEND_ONLY, 4, 0, 0);
	assert_int_equal(rig_counter(rig, ud_too_long), 3);
	rig_destroy(rig);
}

static struct nic_send_wr to_peer(struct rig *rig, const struct nic_ah *ah, uint32_t len)
{
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, 0, len);

	wr.ud.ah = ah;
	wr.ud.remote_qpn = 0x654321;
	wr.ud.remote_qkey = 0x01020304;
	return wr;
}

/* The post itself fails, because the PD can be checked at once; no completion with LOC_QP_OP_ERR is needed. */
static void ud__UD_02_address_handle_of_another_pd_is_refused_when_posted(void **state)
{
	struct rig *rig = ready(false);
	struct nic_pd *other;
	struct nic_ah *ah;
	struct nic_send_wr wr;

	assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
	assert_int_equal(nic_ah_create(other, &rig->attr.av, &ah), 0);
	wr = to_peer(rig, ah, 8);
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	wr.ud.ah = NULL;
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	rig_expect_silence(rig);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

static void ud__UD_04_traffic_class_hop_limit_and_flow_label_come_from_the_ah(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		struct nic_av av = rig->attr.av;
		struct nic_tx_frame frame = {.data = rig->frames[0]};
		struct nic_send_wr wr;
		struct nic_ah *ah;
		struct packet p;

		av.tclass = 0xb8;
		av.hop_limit = 7;
		av.flow_label = 0xabcde;
		assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
		wr = to_peer(rig, ah, 24);
		rig_post(rig, &wr);
		assert_int_equal(nic_ah_destroy(ah), 0); /* the posted WR has its own copy */
		p = rig_expect_tx(rig, UD_SEND_ONLY, RIG_SQ_PSN);
		assert_int_equal(p.tclass, 0xb8);
		assert_int_equal(p.hop_limit, 7);
		assert_int_equal(p.flow_label, v6 ? 0xabcde : 0);
		assert_int_equal(p.dest_qpn, 0x654321);
		assert_int_equal(p.qkey, 0x01020304);
		assert_int_equal(p.src_qpn, rig->qpn);
		assert_memory_equal(&p.dgid, &rig->peer_gid, 16);
		assert_memory_equal(&p.sgid, &rig->gid, 16);
		assert_memory_equal(p.payload, rig->arena, 24);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		av.hop_limit = 0; /* 0 selects the default, for programs that do not set it */
		assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
		wr = to_peer(rig, ah, 0);
		rig_post(rig, &wr);
		assert_int_equal(nic_tx(rig->nic, &frame, 1, rig->now), 1);
		assert_int_equal(frame.hop_limit, 64);
		assert_int_equal(frame.tclass, 0xb8);
		nic_ah_destroy(ah);
		rig_destroy(rig);
	}
}

static void ud__UD_04_address_handles_are_checked(void **state)
{
	struct rig *rig = ready(false);
	struct nic_av av = rig->attr.av;
	struct nic_ah *ah;

	av.sgid_index = 1; /* an IPv6 entry */
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), -EINVAL);
	av.sgid_index = 2; /* an empty entry */
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), -EINVAL);
	av.sgid_index = NIC_GID_TABLE_LEN;
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), -EINVAL);
	av.sgid_index = 0;
	memset(&av.dgid, 0, sizeof(av.dgid));
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), -EINVAL);
	rig_destroy(rig);
}

static void ud__a_controlled_qkey_is_replaced_by_the_qps_qkey(void **state)
{
	struct rig *rig = ready(false);
	struct nic_ah *ah;
	struct nic_send_wr wr;

	assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
	wr = to_peer(rig, ah, 8);
	wr.ud.remote_qkey = 0x80000000u;
	rig_post(rig, &wr);
	assert_int_equal(rig_expect_tx(rig, UD_SEND_ONLY, RIG_SQ_PSN).qkey, RIG_QKEY);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

static void ud__UD_05_only_sends_can_be_posted(void **state)
{
	struct rig *rig = ready(false);
	struct nic_ah *ah;

	assert_int_equal(nic_ah_create(rig->pd, &rig->attr.av, &ah), 0);
	for (uint32_t op = 0; op < 40; op++) {
		struct nic_send_wr wr = to_peer(rig, ah, 8);

		wr.opcode = op;
		if (op == NIC_WR_SEND || op == NIC_WR_SEND_WITH_IMM)
			continue;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->send_cq);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

static void ud__RO_09_operations_that_ud_does_not_have_are_dropped(void **state)
{
	struct rig *rig = ready(false);
	struct packet p = rig_peer_packet(rig, UD_SEND_ONLY, 0);
	uint8_t buf[NIC_FRAME_MAX];
	unsigned len = packet_encode(&p, buf), n = 0;

	rig_post_recv(rig, 1, 0, 256);
	for (unsigned low = 0; low < 32; low++) {
		if ((0x60 | low) == UD_SEND_ONLY || (0x60 | low) == UD_SEND_ONLY_IMM)
			continue;
		buf[28] = (uint8_t)(0x60 | low);
		assert_false(rig_rx_bytes(rig, buf, len));
		n++;
	}
	assert_int_equal(rig_counter(rig, rx_bad_opcode), n);
	rig_expect_silence(rig);
	rig_expect_no_wc(rig->recv_cq);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

static void ud__any_number_of_oversize_datagrams_completes_unsent(void **state)
{
	const unsigned n = 16384;
	struct rig_opts opts = {
		.type = NIC_QPT_UD, .cq_depth = 2 * n, .cap = {.max_send_wr = n}, .nic = {.active_mtu = NIC_MTU_1024}};
	struct rig *rig = rig_create(&opts);
	struct nic_av av = {.dgid = rig->peer_gid};
	struct nic_ah *ah;

	rig_to_rts(rig);
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	for (unsigned i = 0; i < n; i++) {
		struct nic_send_wr wr = rig_wr(rig, i, NIC_WR_SEND, 0, 1025);

		wr.ud.ah = ah;
		wr.ud.remote_qpn = 2;
		rig_post(rig, &wr);
	}
	assert_int_equal(rig_drain(rig), 0);
	assert_int_equal(nic_cq_count(rig->send_cq), n);
	assert_int_equal(rig_counter(rig, ud_oversize), n);
	rig_destroy(rig); /* destroying the NIC destroys the address handle, too */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ud__UD_01_grh_area_and_completion),
		cmocka_unit_test(ud__UD_01_grh_and_payload_follow_the_sge_list),
		cmocka_unit_test(ud__a_buffer_may_be_partly_outside_its_region),
		cmocka_unit_test(ud__RL_13_datagram_that_does_not_fit_is_dropped_and_the_wqe_stays),
		cmocka_unit_test(ud__UD_02_address_handle_of_another_pd_is_refused_when_posted),
		cmocka_unit_test(ud__UD_04_traffic_class_hop_limit_and_flow_label_come_from_the_ah),
		cmocka_unit_test(ud__UD_04_address_handles_are_checked),
		cmocka_unit_test(ud__a_controlled_qkey_is_replaced_by_the_qps_qkey),
		cmocka_unit_test(ud__UD_05_only_sends_can_be_posted),
		cmocka_unit_test(ud__RO_09_operations_that_ud_does_not_have_are_dropped),
		cmocka_unit_test(ud__any_number_of_oversize_datagrams_completes_unsent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
