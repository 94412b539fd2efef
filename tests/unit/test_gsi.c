/* SPDX-License-Identifier: BSD-3-Clause */
/* test_gsi.c - queue pair 1 (nic_gsi.h): which packets a NIC sends and accepts, compared with nic_gsi_build and
 * nic_gsi_parse, which need no NIC. */
#include "nic_gsi.h"
#include "rig.h"

static struct {
	unsigned n;
	struct nic_gsi_addr addr;
	uint8_t mad[NIC_MAD_LEN];
	struct nic *answers; /* sends each MAD back */
} got;

static void arrived(void *ctx, const struct nic_gsi_addr *addr, const uint8_t *mad)
{
	assert_ptr_equal(ctx, &got);
	got.n++;
	got.addr = *addr;
	memcpy(got.mad, mad, sizeof(got.mad));
	if (got.answers)
		assert_int_equal(nic_gsi_send(got.answers, addr, mad), 0);
}

static struct rig *ready(bool v6)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.v6 = v6});

	memset(&got, 0, sizeof(got));
	assert_int_equal(nic_gsi_open(rig->nic, arrived, &got), 0);
	return rig;
}

static void fill(uint8_t *mad)
{
	for (unsigned i = 0; i < NIC_MAD_LEN; i++)
		mad[i] = (uint8_t)(i * 7 + 1);
}

/** A packet of the peer's queue pair 1. */
static struct packet packet_of(const struct rig *rig, const uint8_t *mad)
{
	struct packet p = {.op = op_find(OP_UD, OP_SEND, OP_ONLY, OP_PLAIN)};

	packet_init(&p);
	p.sgid = rig->peer_gid;
	p.dgid = rig->gid;
	p.v4 = !rig->opts.v6;
	p.hop_limit = 64;
	p.udp_sport = NIC_UDP_PORT;
	p.dest_qpn = p.src_qpn = 1;
	p.qkey = NIC_GSI_QKEY;
	p.payload = mad;
	p.payload_len = NIC_MAD_LEN;
	return p;
}

/** Deliver the packet to the NIC and to nic_gsi_parse. @return whether they accept it; both must agree. */
static bool taken(struct rig *rig, const struct packet *p)
{
	uint8_t buf[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = buf};
	unsigned before = got.n;

	frame.len = packet_encode(p, buf);
	nic_rx(rig->nic, &frame, rig->now);
	assert_int_equal(got.n > before, nic_gsi_parse(&frame) != NULL);
	return got.n > before;
}

static void gsi__takes_a_mad(void **state)
{
	uint8_t mad[NIC_MAD_LEN];

	(void)state;
	fill(mad);
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		struct packet p = packet_of(rig, mad);

		assert_true(taken(rig, &p));
		assert_memory_equal(got.mad, mad, sizeof(mad));
		assert_memory_equal(&got.addr.own, &rig->gid, sizeof(rig->gid));
		assert_memory_equal(&got.addr.peer, &rig->peer_gid, sizeof(rig->peer_gid));
		p.src_qpn = 0x123456; /* accepted, because a GSI may be redirected to another QP (IBTA 13.5.2) */
		assert_true(taken(rig, &p));
		p.pkey = 0x7fff; /* a limited member's P_Key: accepted, because ours is a full member's */
		assert_true(taken(rig, &p));
		rig_destroy(rig);
	}
}

static void gsi__drops_invalid_mads(void **state)
{
	uint8_t mad[NIC_MAD_LEN + 4];
	struct packet good, p;
	struct rig *rig;

	(void)state;
	memset(mad, 0, sizeof(mad));
	rig = ready(false);
	good = packet_of(rig, mad);
	p = good;
	p.qkey = 0x80010001;
	assert_false(taken(rig, &p));
	assert_int_equal(nic_counters(rig->nic)[NIC_CNT_bad_qkey], 1);
	p = good;
	p.pkey = 0x8001;
	assert_false(taken(rig, &p));
	assert_int_equal(nic_counters(rig->nic)[NIC_CNT_bad_pkey], 1);
	p = good;
	p.payload_len = NIC_MAD_LEN - 4;
	assert_false(taken(rig, &p));
	p.payload_len = NIC_MAD_LEN + 4;
	assert_false(taken(rig, &p));
	p.payload_len = 0;
	assert_false(taken(rig, &p));
	assert_int_equal(nic_counters(rig->nic)[NIC_CNT_ud_too_long], 3);
	p = good;
	p.op = op_find(OP_RC, OP_SEND, OP_ONLY, OP_PLAIN);
	assert_false(taken(rig, &p));
	assert_true(taken(rig, &good));
	rig_destroy(rig);
}

/** Of the reserved QPNs only 1 leads anywhere: RoCE has no QP 0 (the SMI), and 0xFFFFFF is for multicast, which a
 * packet to our own address is not. */
static void gsi__HV_08_of_the_reserved_qpns_only_1_is_served(void **state)
{
	static const uint32_t reserved[] = {0, 0xffffff};
	uint8_t mad[NIC_MAD_LEN] = {0};

	(void)state;
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		struct packet p = packet_of(rig, mad);

		for (unsigned i = 0; i < 2; i++) {
			p.dest_qpn = reserved[i];
			assert_false(taken(rig, &p));
		}
		assert_int_equal(rig_counter(rig, rx_no_qp), 1);
		assert_int_equal(rig_counter(rig, rx_no_group), 1);
		p.dest_qpn = 1;
		assert_true(taken(rig, &p));
		rig_destroy(rig);
	}
}

static void gsi__sends_and_receives_nothing_before_it_is_opened(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){0});
	const struct nic_gsi_addr addr = {.own = rig->gid, .peer = rig->peer_gid};
	uint8_t mad[NIC_MAD_LEN] = {0}, buf[NIC_FRAME_MAX];
	struct packet p = packet_of(rig, mad);
	struct nic_rx_frame frame = {.data = buf, .len = packet_encode(&p, buf)};

	(void)state;
	assert_int_equal(nic_gsi_send(rig->nic, &addr, mad), -EADDRNOTAVAIL);
	nic_rx(rig->nic, &frame, rig->now);
	assert_int_equal(nic_counters(rig->nic)[NIC_CNT_rx_no_qp], 1);
	assert_int_equal(nic_gsi_open(rig->nic, arrived, &got), 0);
	assert_int_equal(nic_gsi_open(rig->nic, arrived, &got), -EADDRINUSE);
	rig_destroy(rig);
}

/** The NIC sends the same packet that nic_gsi_build makes, except for the PSN, the source port, and thus the ICRC. */
static void gsi__sends_the_packet_of_nic_gsi_build(void **state)
{
	uint8_t mad[NIC_MAD_LEN], built[NIC_FRAME_MAX], sent[NIC_FRAME_MAX];

	(void)state;
	fill(mad);
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		const struct nic_gsi_addr addr = {.own = rig->gid, .peer = rig->peer_gid, .tclass = 32, .hop_limit = 9};
		struct nic_tx_frame frame = {.data = sent};
		struct packet a, b;
		uint16_t bth;
		uint32_t len = nic_gsi_build(&addr, mad, built, &bth);

		assert_int_equal(nic_gsi_send(rig->nic, &addr, mad), 0);
		assert_int_equal(nic_tx(rig->nic, &frame, 1, rig->now), 1);
		assert_int_equal(frame.len, len);
		assert_int_equal(frame.bth, bth);
		assert_int_equal(packet_parse(&(struct nic_rx_frame){.data = built, .len = len}, &a), PACKET_OK);
		assert_int_equal(packet_parse(&(struct nic_rx_frame){.data = sent, .len = len}, &b), PACKET_OK);
		assert_memory_equal(a.payload, mad, sizeof(mad));
		assert_memory_equal(b.payload, mad, sizeof(mad));
		assert_int_equal(b.dest_qpn, 1);
		assert_int_equal(b.src_qpn, 1);
		assert_int_equal(b.qkey, NIC_GSI_QKEY);
		assert_int_equal(b.tclass, 32);
		assert_int_equal(b.hop_limit, 9);
		a.psn = b.psn;
		a.udp_sport = b.udp_sport;
		assert_int_equal(packet_encode(&a, built), len);
		assert_memory_equal(built, sent, len);
		rig_destroy(rig);
	}
}

static void gsi__a_receive_callback_can_send_a_mad(void **state)
{
	uint8_t mad[NIC_MAD_LEN], sent[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = sent};
	struct rig *rig = ready(false);
	struct packet p = packet_of(rig, mad);

	(void)state;
	fill(mad);
	got.answers = rig->nic;
	assert_true(taken(rig, &p));
	assert_int_equal(nic_tx(rig->nic, &frame, 1, rig->now), 1);
	rig_destroy(rig);
}

static void gsi__refuses_bad_addresses_and_a_full_queue(void **state)
{
	struct rig *rig = ready(false);
	struct nic_gsi_addr addr = {.own = rig->gid, .peer = rig->peer_gid};
	const uint8_t mad[NIC_MAD_LEN] = {0};
	unsigned n = 0;

	(void)state;
	addr.own.raw[15] ^= 0x55;
	assert_int_equal(nic_gsi_send(rig->nic, &addr, mad), -EADDRNOTAVAIL);
	addr.own = rig->gid;
	addr.peer.raw[0] = 0xfd;
	assert_int_equal(nic_gsi_send(rig->nic, &addr, mad), -EINVAL);
	addr.peer = rig->peer_gid;
	while (n < 2000 && nic_gsi_send(rig->nic, &addr, mad) == 0)
		n++;
	assert_int_equal(nic_gsi_send(rig->nic, &addr, mad), -ENOMEM);
	assert_int_equal(n, 1024);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gsi__takes_a_mad),
		cmocka_unit_test(gsi__drops_invalid_mads),
		cmocka_unit_test(gsi__HV_08_of_the_reserved_qpns_only_1_is_served),
		cmocka_unit_test(gsi__sends_and_receives_nothing_before_it_is_opened),
		cmocka_unit_test(gsi__sends_the_packet_of_nic_gsi_build),
		cmocka_unit_test(gsi__a_receive_callback_can_send_a_mad),
		cmocka_unit_test(gsi__refuses_bad_addresses_and_a_full_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
