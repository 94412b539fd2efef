/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_security.c - what a forger or a hostile peer can and cannot achieve (conformance points SE-01 to SE-07, SE-09),
 * and congestion notification packets (CC-03).
 */
#include "rig.h"
#include "wire.h"

/* Check that the numbers look random: each of the bits [low, high) is set in a third to two thirds of them. */
static void assert_spread(const uint32_t *v, unsigned n, unsigned low, unsigned high)
{
	unsigned steps = 0;

	for (unsigned bit = low; bit < high; bit++) {
		unsigned set = 0;

		for (unsigned i = 0; i < n; i++)
			set += v[i] >> bit & 1;
		assert_in_range(set, n / 3, 2 * n / 3);
	}
	for (unsigned i = 1; i < n; i++)
		steps += (v[i] >> low) - (v[i - 1] >> low) <= 2;
	assert_true(steps <= n / 50); /* the numbers do not count up */
}

static void assert_distinct(const uint32_t *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(v[i], v[k]);
}

static void security__SE_01_qpns_are_drawn_at_random(void **state)
{
	enum { N = 300 };
	uint32_t qpn[2][N];

	for (unsigned round = 0; round < 2; round++) {
		struct rig *rig = rig_create(NULL);

		rig->seed += round; /* other random bytes: other numbers */
		for (unsigned i = 0; i < N; i++) {
			qpn[round][i] = nic_qp_num(rig_qp_create(rig));
			assert_in_range(qpn[round][i], 0x10000, 0x1ffff); /* the default range */
		}
		assert_distinct(qpn[round], N);
		assert_spread(qpn[round], N, 0, 16);
		rig_destroy(rig);
	}
	assert_memory_not_equal(qpn[0], qpn[1], sizeof(qpn[0]));
}

static void security__SE_01_qpns_lie_in_the_configured_range(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.qpn_base = 0xabc000, .nic.qpn_bits = 12});

	for (unsigned i = 0; i < 200; i++)
		assert_in_range(nic_qp_num(rig_qp_create(rig)), 0xabc000, 0xabcfff);
	rig_destroy(rig);
}

static void security__SE_02_starting_psns_are_drawn_at_random(void **state)
{
	enum { N = 300 };
	uint32_t psn[2][N];

	for (unsigned round = 0; round < 2; round++) {
		struct rig *rig = rig_create(NULL);

		rig->seed += round;
		for (unsigned i = 0; i < N; i++) {
			psn[round][i] = nic_psn_random(rig->nic);
			assert_in_range(psn[round][i], 0, 0xffffff);
		}
		assert_spread(psn[round], N, 0, 24);
		rig_destroy(rig);
	}
	assert_memory_not_equal(psn[0], psn[1], sizeof(psn[0]));
}

static uint32_t key_of_new_mr(struct rig *rig, struct nic_mr **mr)
{
	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 4096, rig_va(rig, 0), NIC_ACCESS_LOCAL_WRITE, mr), 0);
	return nic_mr_rkey(*mr);
}

static void security__SE_03_r_keys_have_24_random_bits_and_do_not_come_back_soon(void **state)
{
	enum { N = 500 };
	uint32_t keys[2][2 * N];

	for (unsigned round = 0; round < 2; round++) {
		struct rig *rig = rig_create(NULL);
		struct nic_mr *mr;

		rig->seed += round;
		for (unsigned i = 0; i < N; i++) /* regions that are kept */
			keys[round][i] = key_of_new_mr(rig, &mr);
		for (unsigned i = N; i < 2 * N; i++) { /* regions that are deregistered at once */
			keys[round][i] = key_of_new_mr(rig, &mr);
			assert_int_equal(nic_mr_dereg(mr), 0);
		}
		assert_distinct(keys[round], 2 * N);
		assert_spread(keys[round], 2 * N, 8, 32);
		rig_destroy(rig);
	}
	assert_memory_not_equal(keys[0], keys[1], sizeof(keys[0]));
}

static void security__SE_03_a_key_opens_nothing_in_another_pd(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct packet p;

	assert_int_equal(nic_pd_alloc(rig->nic, &pd), 0);
	assert_int_equal(
		nic_mr_reg(pd, rig->arena, 4096, rig_va(rig, 0), NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE, &mr),
		0);
	p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	p.rkey = nic_mr_rkey(mr);
	rig_rx(rig, &p);
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACCESS);
	rig_expect_untouched(rig, 0, 4096);
	rig_destroy(rig);
}

/* Inject everything that can end a connection: bad keys, bad opcode sequences, bad lengths, fatal NAKs, wrong
 * responses. */
static void inject(struct rig *rig, const struct nic_gid *from, uint32_t qpn, uint32_t req_psn, uint32_t resp_psn)
{
	static const enum rig_op requests[] = {WRITE_ONLY, WRITE_LAST, READ_REQ, FETCH_ADD, SEND_MIDDLE, SEND_ONLY_INV};
	static const enum rig_op responses[] = {ACK, ACK, ACK, READ_RESP_ONLY, READ_RESP_MIDDLE, ATOMIC_ACK};
	struct packet p;

	for (unsigned i = 0; i < 6; i++) {
		p = rig_peer_data(rig, requests[i], req_psn, 0,
				  requests[i] == READ_REQ || requests[i] == FETCH_ADD ? 0 : 8);
		p.dma_len = 77;
		p.rkey ^= 0x55;
		p.sgid = *from;
		p.dest_qpn = qpn;
		rig_rx(rig, &p);
		p = rig_peer_packet(rig, responses[i], resp_psn);
		p.syndrome = (uint8_t)(SYN_INV + i % 3);
		p.sgid = *from;
		p.dest_qpn = qpn;
		rig_rx(rig, &p);
	}
}

static void security__SE_04_forged_packets_with_bad_psn_qpn_or_source_fail_no_qp(void **state)
{
	static const uint32_t off[] = {1, 2, 1000, 0x7fffff, 0x800000, 0x800001, 0xfffff0, 0xffffff};
	struct rig *rig = rig_ready(NULL);
	struct nic_gid elsewhere = rig->peer_gid;
	struct packet p;

	elsewhere.raw[14] = 7;
	rig_post_recv(rig, 50, 4096, 64);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8); /* RIG_SQ_PSN is outstanding */
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	inject(rig, &elsewhere, rig->qpn, RIG_RQ_PSN, RIG_SQ_PSN); /* everything is right except for the address */
	for (unsigned i = 0; i < sizeof(off) / 4; i++) {
		inject(rig, &rig->peer_gid, rig->qpn, RIG_RQ_PSN + off[i], RIG_SQ_PSN + off[i]);
		inject(rig, &rig->peer_gid, rig->qpn ^ off[i], RIG_RQ_PSN, RIG_SQ_PSN);
	}
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	while (rig_tx(rig, &p)) /* sequence NAKs and ACKs of duplicates are allowed, but nothing fatal */
		assert_true(p.op->value != ACK || p.syndrome == SYN_ACK || p.syndrome == SYN_SEQ);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8); /* the real peer's packets still arrive */
	rig_expect_wc(rig->recv_cq, 50, NIC_WC_SUCCESS);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static struct nic_qp_counters qp_counters(const struct rig *rig)
{
	struct nic_qp_counters c;

	nic_qp_counters(rig->qp, &c);
	return c;
}

static void security__SE_05_bad_psns_keys_and_icrcs_are_counted(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint8_t buf[NIC_FRAME_MAX];
	struct packet p;
	unsigned len;

	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + 9, 0, 8);
	assert_int_equal(rig_counter(rig, out_of_sequence), 1);
	assert_int_equal(qp_counters(rig).dropped_rx, 1);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN - 9, 0, 8);
	assert_int_equal(rig_counter(rig, duplicate_request), 1);
	assert_int_equal(qp_counters(rig).duplicates_rx, 1);
	rig_ack(rig, RIG_SQ_PSN + 77, SYN_INV); /* a PSN that was never sent */
	assert_int_equal(rig_counter(rig, resp_unsent), 1);
	p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	p.sgid.raw[15] = 99; /* from another host */
	rig_rx(rig, &p);
	assert_int_equal(rig_counter(rig, rx_bad_source), 1);
	assert_int_equal(qp_counters(rig).dropped_rx, 2);
	p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	len = packet_encode(&p, buf);
	buf[len - 1] ^= 1;
	assert_false(rig_rx_bytes(rig, buf, len));
	assert_int_equal(rig_counter(rig, rx_icrc_encapsulated), 1);
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_drain(rig);
	p.rkey ^= 1;
	rig_rx(rig, &p);
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACCESS);
	assert_int_equal(rig_counter(rig, nak_access_sent), 1);
	assert_true(rig_event(rig, NIC_EVENT_QP_ACCESS_ERR, RIG_USER_QP(rig)));
	rig_expect_untouched(rig, 0, RIG_ARENA);
	rig_destroy(rig);
}

static void security__SE_06_an_instance_holds_no_more_objects_than_its_limits(void **state)
{
	const struct nic_limits limits = {.max_qp = 3,
					  .max_cq = 4,
					  .max_srq = 2,
					  .max_pd = 3,
					  .max_mr = 4,
					  .max_mw = 2,
					  .max_ah = 2,
					  .max_qp_wr = 64,
					  .max_sge = 4,
					  .max_inline = 128,
					  .max_cqe = 1024,
					  .max_srq_wr = 16,
					  .max_rd_atomic = 4};
	struct rig *rig = rig_create(&(struct rig_opts){.nic.limits = limits});
	struct nic_qp_init init = {.type = NIC_QPT_RC, .pd = rig->pd, .send_cq = rig->send_cq, .recv_cq = rig->recv_cq};
	struct nic_qp *qp[2];
	struct nic_cq *cq[2];
	struct nic_srq *srq[2];
	struct nic_pd *pd[2];
	struct nic_mr *mr[3];
	struct nic_mw *mw[2];
	struct nic_ah *ah[2];

#define FILL(n, array, create, destroy)                                                                                \
	do {                                                                                                           \
		for (unsigned i_ = 0; i_ < (n); i_++)                                                                  \
			assert_int_equal(create(&array[i_]), 0);                                                       \
		void *over_;                                                                                           \
		assert_int_equal(create((void *)&over_), -ENOMEM);                                                     \
		assert_int_equal(destroy(array[0]), 0);                                                                \
		assert_int_equal(create(&array[0]), 0);                                                                \
		assert_int_equal(create((void *)&over_), -ENOMEM);                                                     \
	} while (0)
#define NEW_QP(out)  nic_qp_create(rig->nic, &init, out)
#define NEW_CQ(out)  nic_cq_create(rig->nic, 16, NULL, out)
#define NEW_SRQ(out) nic_srq_create(rig->pd, 16, 1, 0, NULL, out)
#define NEW_PD(out)  nic_pd_alloc(rig->nic, out)
#define NEW_MR(out)  nic_mr_reg(rig->pd, rig->arena, 64, 0, 0, out)
#define NEW_MW(out)  nic_mw_alloc(rig->pd, NIC_MW_TYPE_2, out)
#define NEW_AH(out)  nic_ah_create(rig->pd, &rig->attr.av, out)
	FILL(2, qp, NEW_QP, nic_qp_destroy); /* fill up to the limit; the rig already holds one object of some kinds */
	FILL(2, cq, NEW_CQ, nic_cq_destroy);
	FILL(2, srq, NEW_SRQ, nic_srq_destroy);
	FILL(2, pd, NEW_PD, nic_pd_free);
	FILL(3, mr, NEW_MR, nic_mr_dereg);
	FILL(2, mw, NEW_MW, nic_mw_dealloc);
	FILL(2, ah, NEW_AH, nic_ah_destroy);
	assert_int_equal(nic_qp_destroy(qp[0]), 0);
	for (unsigned i = 0; i < 5; i++) { /* QPs with larger capabilities cannot be created */
		uint32_t *caps[] = {&init.cap.max_send_wr, &init.cap.max_recv_wr, &init.cap.max_send_sge,
				    &init.cap.max_recv_sge, &init.cap.max_inline_data};
		const uint32_t most[] = {64, 64, 4, 4, 128};

		*caps[i] = most[i] + 1;
		assert_int_equal(nic_qp_create(rig->nic, &init, &qp[0]), -EINVAL);
		*caps[i] = most[i];
	}
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp[0]), 0);
	assert_int_equal(nic_cq_destroy(cq[0]), 0);
	assert_int_equal(nic_cq_create(rig->nic, 1025, NULL, &cq[0]), -EINVAL);
	assert_int_equal(nic_srq_destroy(srq[0]), 0);
	assert_int_equal(nic_srq_create(rig->pd, 17, 1, 0, NULL, &srq[0]), -EINVAL);
	nic_ah_destroy(ah[0]);
	nic_ah_destroy(ah[1]);
	rig_destroy(rig);
}

static void security__SE_07_queue_pairs_take_turns(void **state)
{
	enum { QPS = 4, PACKETS = 100 };
	struct rig *rig = rig_create(NULL);
	unsigned sent[QPS] = {0};
	struct packet p;

	for (uint32_t i = 0; i < QPS; i++) { /* each with many packets to send; the peer's QPN identifies the QP */
		if (i)
			rig->qp = rig_qp_create(rig);
		rig->attr.dest_qp_num = 0x1000 + i;
		rig_to_rts(rig);
		rig_post_send(rig, i, NIC_WR_SEND, 0, PACKETS * RIG_MTU);
	}
	for (unsigned n = 0; n < QPS * PACKETS; n++) {
		unsigned least = PACKETS, most = 0;

		assert_true(rig_tx(rig, &p));
		assert_in_range(p.dest_qpn, 0x1000, 0x1000 + QPS - 1);
		sent[p.dest_qpn - 0x1000]++;
		for (unsigned i = 0; i < QPS; i++) {
			least = sent[i] < least ? sent[i] : least;
			most = sent[i] > most ? sent[i] : most;
		}
		assert_true(most - least <= 16); /* at most one turn of 16 packets */
	}
	rig_destroy(rig);
}

/* Send one request for [va, va + len) of a region, arena[8192 .. 12288): executed only if it is wholly inside. */
static void hostile_request(struct rig *rig, struct nic_mr *mr, enum rig_op op, uint64_t offset, uint32_t len)
{
	bool atomic = op == FETCH_ADD || op == CMP_SWAP, inside, done;
	uint64_t bytes = atomic ? 8 : len;
	uint32_t got = op == WRITE_ONLY && len <= RIG_MTU ? len : 0;
	struct packet p;

	rig_modify_state(rig, NIC_QPS_RESET);
	rig_to_rts(rig);
	p = rig_peer_data(rig, op, RIG_RQ_PSN, 0, got);
	p.va = rig_va(rig, 8192) + offset;
	p.dma_len = len;
	p.rkey = nic_mr_rkey(mr);
	p.swap_add = 1;
	if (op == WRITE_ONLY && got != len)
		p.op = op_get(WRITE_FIRST), p.payload = rig->peer_data, p.payload_len = RIG_MTU;
	rig_rx(rig, &p);
	inside = bytes == 0 || (offset < 4096 && bytes <= 4096 - offset);
	if (atomic && offset % 8)
		inside = false;
	if (p.op->value == WRITE_FIRST) {
		done = nic_qp_state(rig->qp) == NIC_QPS_RTS;
	} else {
		assert_true(rig_tx(rig, &p));
		done = p.op->value != ACK || p.syndrome == SYN_ACK;
	}
	assert_int_equal(done, inside && len <= 0x80000000u);
	rig_drain(rig);
}

static void security__SE_09_hostile_addresses_and_lengths_stay_in_the_region(void **state)
{
	static const uint64_t offsets[] = {0,	       1,	   8,	       4088,	     4089,  4095,
					   4096,       4097,	   8192,       -1ull,	     -8ull, -4096ull,
					   1ull << 31, 1ull << 32, 1ull << 63, -(1ull << 31)};
	static const uint32_t lens[] = {0,    1,    7,	  8,	      9,	  255,	      256,	  257,
					4095, 4096, 4097, 0x7fffffff, 0x80000000, 0x80000001, 0xfffff000, 0xffffffff};
	static const enum rig_op ops[] = {WRITE_ONLY, READ_REQ, FETCH_ADD, CMP_SWAP};
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena + 8192, 4096, rig_va(rig, 8192),
				    NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
					    NIC_ACCESS_REMOTE_ATOMIC,
				    &mr),
			 0);
	rig_to_rts(rig);
	for (unsigned op = 0; op < 4; op++)
		for (unsigned o = 0; o < sizeof(offsets) / 8; o++)
			for (unsigned l = 0; l < sizeof(lens) / 4; l++)
				hostile_request(rig, mr, ops[op], offsets[o], ops[op] >= CMP_SWAP ? 8 : lens[l]);
	/* Requests whose end wraps around the address space. */
	for (unsigned l = 0; l < sizeof(lens) / 4; l++)
		hostile_request(rig, mr, READ_REQ, 0 - rig_va(rig, 8192) - 16, lens[l]);
	rig_expect_untouched(rig, 0, 8192);
	rig_expect_untouched(rig, 12288, RIG_ARENA - 12288);
	rig_destroy(rig);
}

static void security__SE_09_lists_of_work_requests_are_copied_when_posted(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_sge sge = {rig_va(rig, 0), 16, rig->lkey};
	struct nic_send_wr send = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND};
	struct nic_recv_wr recv = {.wr_id = 2, .sg_list = &sge, .num_sge = 1};
	struct packet p;

	rig_post(rig, &send);
	sge.addr = rig_va(rig, 4096);
	assert_int_equal(nic_post_recv(rig->qp, &recv), 0);
	sge = (struct nic_sge){1, UINT32_MAX, 0};
	p = rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(p.payload_len, 16);
	assert_memory_equal(p.payload, rig->arena, 16);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 16);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_SUCCESS);
	rig_expect_data(rig, 4096, 0, 16);
	rig_destroy(rig);
}

static enum nic_rx_verdict verdict_of(struct rig *rig, unsigned op, uint32_t psn)
{
	struct packet p = rig_peer_data(rig, op, psn, 0, 8);

	if (op_is_response(p.op))
		p.payload_len = 0;
	return rig_rx_verdict(rig, &p);
}

/** A port learns from accepted packets what kind of sender a peer is, so only packets of the real peer may count as
 * accepted. */
static void security__SE_04_only_expected_requests_count_as_accepted(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);

	p.sgid.raw[15] ^= 1; /* from another sender */
	assert_int_equal(rig_rx_verdict(rig, &p), NIC_RX_PARSED);
	p.sgid.raw[15] ^= 1;
	p.dest_qpn ^= 1; /* unknown QPN */
	assert_int_equal(rig_rx_verdict(rig, &p), NIC_RX_PARSED);
	assert_int_equal(verdict_of(rig, CNP, 0), NIC_RX_MALFORMED); /* a CNP with payload */
	assert_int_equal(verdict_of(rig, WRITE_ONLY, RIG_RQ_PSN + 1), NIC_RX_PARSED);
	assert_int_equal(verdict_of(rig, WRITE_ONLY, RIG_RQ_PSN), NIC_RX_ACCEPTED);
	assert_int_equal(verdict_of(rig, WRITE_ONLY, RIG_RQ_PSN),
			 NIC_RX_PARSED); /* a duplicate; half of all PSNs count as duplicates */
	assert_int_equal(verdict_of(rig, ACK, RIG_SQ_PSN), NIC_RX_PARSED);
	rig_destroy(rig);
}

static void security__SE_04_only_acks_of_outstanding_psns_count_as_accepted(void **state)
{
	struct rig *rig = rig_ready(NULL);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	assert_int_equal(verdict_of(rig, ACK, RIG_SQ_PSN + 1), NIC_RX_PARSED);
	assert_int_equal(verdict_of(rig, ACK, RIG_SQ_PSN), NIC_RX_ACCEPTED);
	assert_int_equal(verdict_of(rig, ACK, RIG_SQ_PSN), NIC_RX_PARSED);
	rig_destroy(rig);
}

static void security__SE_04_uc_and_ud_packets_never_count_as_accepted(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UC});

	assert_int_equal(verdict_of(rig, RIG_UC | WRITE_ONLY, RIG_RQ_PSN), NIC_RX_PARSED);
	assert_int_equal(verdict_of(rig, RIG_UC | WRITE_ONLY, RIG_RQ_PSN + 7),
			 NIC_RX_PARSED); /* a UC QP accepts any PSN ... */
	assert_int_equal(verdict_of(rig, RIG_UC | WRITE_ONLY, RIG_RQ_PSN + 8),
			 NIC_RX_PARSED); /* ... and then expects the next one, so its packets prove nothing */
	rig_destroy(rig);
	rig = rig_ready(&(struct rig_opts){.type = NIC_QPT_UD});
	rig_post_recv(rig, 1, 0, 64);
	assert_int_equal(verdict_of(rig, UD_SEND_ONLY, 0), NIC_RX_PARSED);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void cc__CC_03_cnps_are_ignored_and_never_answered(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, CNP, 0);

	rig_post_send(rig, 1, NIC_WR_SEND, 0, 2 * RIG_MTU);
	rig_expect_tx(rig, SEND_FIRST, RIG_SQ_PSN);
	p.ecn = BTH_ECN_B;
	assert_true(rig_rx(rig, &p));
	p.dest_qpn = 0x9999; /* an unknown QPN */
	assert_true(rig_rx(rig, &p));
	assert_int_equal(rig_counter(rig, rx_cnp_ignored), 2);
	rig_expect_tx(rig, SEND_LAST, RIG_SQ_PSN + 1);
	rig_expect_silence(rig);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8); /* the CNP used up no PSN */
	rig_expect_ack(rig, RIG_RQ_PSN, SYN_ACK);
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_RTS);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(security__SE_01_qpns_are_drawn_at_random),
		cmocka_unit_test(security__SE_01_qpns_lie_in_the_configured_range),
		cmocka_unit_test(security__SE_02_starting_psns_are_drawn_at_random),
		cmocka_unit_test(security__SE_03_r_keys_have_24_random_bits_and_do_not_come_back_soon),
		cmocka_unit_test(security__SE_03_a_key_opens_nothing_in_another_pd),
		cmocka_unit_test(security__SE_04_forged_packets_with_bad_psn_qpn_or_source_fail_no_qp),
		cmocka_unit_test(security__SE_05_bad_psns_keys_and_icrcs_are_counted),
		cmocka_unit_test(security__SE_06_an_instance_holds_no_more_objects_than_its_limits),
		cmocka_unit_test(security__SE_07_queue_pairs_take_turns),
		cmocka_unit_test(security__SE_09_hostile_addresses_and_lengths_stay_in_the_region),
		cmocka_unit_test(security__SE_09_lists_of_work_requests_are_copied_when_posted),
		cmocka_unit_test(security__SE_04_only_expected_requests_count_as_accepted),
		cmocka_unit_test(security__SE_04_only_acks_of_outstanding_psns_count_as_accepted),
		cmocka_unit_test(security__SE_04_uc_and_ud_packets_never_count_as_accepted),
		cmocka_unit_test(cc__CC_03_cnps_are_ignored_and_never_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
