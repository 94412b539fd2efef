/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_refer_refused.c - payload by reference: references revoked in flight, and packets with invalid references.
 */
#include "mtu.h"
#include "qp_owner.h"
#include "refer_rig.h"

static const struct qp_owner an_owner; /* an owner whose functions must not be called */

/* ---- memory that is taken back --------------------------------------------------------------------------------- */

static void refer__dereg_and_rereg_of_a_region_revoke_its_references(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct nic_mr *mr;

	(void)state;
	assert_int_equal(nic_mr_reg(b->pd, b->arena, 4096, 0x1000, NIC_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(refer_revoked.calls, 0); /* no references have been sent */
	refer_post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	refer_run(&r);
	assert_int_equal(nic_mr_reg(b->pd, b->arena + 5, 4096, 0x1000, NIC_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, 0), 0);
	assert_int_equal(refer_revoked.calls, 1);
	assert_int_equal(refer_revoked.qpn, 0);
	assert_int_equal(refer_revoked.key, nic_mr_rkey(mr));
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(refer_revoked.calls, 2);
	refer_destroy(&r);
}

static void refer__a_qp_error_revokes_its_references(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(refer_take(&r, A, data, &p, &frame));
	assert_int_equal(refer_revoked.calls, 0);
	rig_modify_state(a, NIC_QPS_ERR);
	assert_int_equal(refer_revoked.calls, 1);
	assert_int_equal(refer_revoked.qpn, a->qpn);
	rig_expect_wc(a->send_cq, 1, NIC_WC_WR_FLUSH_ERR);
	/* The packet arrives after all, too late. */
	p.fails = true;
	refer_give(&r, B, data, frame.len, &p);
	rig_expect_untouched(r.pair->rig[B], THERE, LEN);
	rig_modify_state(a, NIC_QPS_RESET);
	refer_destroy(&r);
}

/** The QP fails inside nic_path_tx(): the packet that this call returns is a reference, and is revoked, too, although
 * it is not sent yet. */
static void refer__a_qp_failing_in_path_tx_revokes_the_returned_packet(void **state)
{
	const struct rig_opts opts = {.cq_depth = 2};
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct refer r = refer_create(&opts);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rig_post(r.pair->rig[A], &nop); /* more completions than the CQ has room for */
	refer_post(&r, 1, NIC_WR_RDMA_WRITE, 0, LEN, THERE);
	assert_true(refer_take(&r, A, data, &p, &frame));
	assert_true(p.n > 0);
	assert_int_equal(nic_qp_state(r.pair->rig[A]->qp), NIC_QPS_ERR);
	assert_int_equal(refer_revoked.calls, 1);
	refer_destroy(&r);
}

/** Post READ request 1 and take its response by reference, which is then in flight. */
static void read_answered(struct refer *r, uint8_t *data, struct payload *p, struct nic_tx_frame *frame)
{
	refer_post(r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	assert_true(refer_carry(r, A));
	assert_true(refer_take(r, B, data, p, frame));
	assert_int_equal(p->n, 1);
}

/** A late READ response completes the READ. A duplicate of the READ request then finds the region deregistered, which
 * is no error. */
static void refer__a_duplicate_read_after_deregistration_is_no_error(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	uint8_t answer[NIC_FRAME_MAX], again[NIC_FRAME_MAX];
	struct nic_tx_frame frame, frame_again;
	struct payload p, p_again;

	(void)state;
	read_answered(&r, answer, &p, &frame);
	a->now = b->now = nic_next_deadline(a->nic);
	rig_advance(a, 0);
	assert_true(refer_take(&r, A, again, &p_again, &frame_again));
	refer_give(&r, A, answer, frame.len, &p);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	b->mr = NULL;
	refer_give(&r, B, again, frame_again.len, &p_again);
	refer_run(&r);
	assert_int_equal(nic_qp_state(a->qp), NIC_QPS_RTS);
	assert_int_equal(nic_qp_state(b->qp), NIC_QPS_RTS);
	refer_destroy(&r);
}

/** A region is deregistered while a READ response refers to it: the READ is refused with an access error. */
static void refer__deregistering_under_a_read_response_fails_the_read(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	read_answered(&r, data, &p, &frame);
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	b->mr = NULL;
	p.fails = true;
	refer_give(&r, A, data, frame.len, &p);
	refer_run(&r);
	rig_expect_wc(r.pair->rig[A]->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	refer_destroy(&r);
}

/** A READ in two parts, the first in flight when the region ends: refusing the second part fails the whole READ. */
static void refer__deregistering_between_read_responses_fails_the_read(void **state)
{
	static uint8_t from[2 * NIC_REFERENCE_MAX], to[2 * NIC_REFERENCE_MAX];
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	uint8_t data[2][NIC_FRAME_MAX];
	struct nic_tx_frame frame[2];
	struct payload p[2];
	struct nic_mr *source, *target;
	struct nic_send_wr wr = {.wr_id = 1, .opcode = NIC_WR_RDMA_READ, .num_sge = 1, .flags = NIC_SEND_SIGNALED};
	struct nic_sge sge = {0x100000, sizeof(to), 0};

	(void)state;
	a->qp->attr.timeout = 0; /* or the ACK timer would repeat the READ in vain until it fails */
	assert_int_equal(nic_mr_reg(b->pd, from, sizeof(from), 0x100000, NIC_ACCESS_REMOTE_READ, &source), 0);
	assert_int_equal(nic_mr_reg(a->pd, to, sizeof(to), 0x100000, NIC_ACCESS_LOCAL_WRITE, &target), 0);
	sge.lkey = nic_mr_lkey(target);
	wr.sg_list = &sge;
	wr.rdma.remote_addr = 0x100000;
	wr.rdma.rkey = nic_mr_rkey(source);
	rig_post(a, &wr);
	assert_true(refer_carry(&r, A));
	assert_true(refer_take(&r, B, data[0], &p[0], &frame[0]));
	assert_int_equal(nic_mr_dereg(source), 0);
	assert_int_equal(refer_revoked.calls, 1);
	p[0].fails = true;
	assert_true(refer_take(&r, B, data[1], &p[1], &frame[1])); /* the NAK for the second part */
	assert_int_equal(p[1].n, 0);
	for (unsigned i = 0; i < 2; i++)
		refer_give(&r, A, data[i], frame[i].len, &p[i]);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	nic_mr_dereg(target);
	refer_destroy(&r);
}

/** A READ is repeated, and with it the request after it, which the target has already executed. The duplicate of that
 * request must not keep the target from refusing the READ. */
static void refer__a_read_is_refused_despite_a_duplicate_request_after_it(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A], *b = r.pair->rig[B];
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct nic_send_wr wr;
	struct payload p;
	struct nic_mr *mr;

	(void)state;
	a->qp->attr.timeout = 0;
	assert_int_equal(nic_mr_reg(b->pd, b->arena, 64, 0x1000, NIC_ACCESS_REMOTE_READ, &mr), 0);
	refer_post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
	wr = pair_wr(r.pair, 2, NIC_WR_RDMA_READ, 0, 8, 0);
	wr.rdma.remote_addr = 0x1000;
	wr.rdma.rkey = nic_mr_rkey(mr);
	rig_post(a, &wr);
	assert_true(refer_carry(&r, A) && refer_carry(&r, A));
	assert_true(refer_take(&r, B, data, &p, &frame));
	assert_int_equal(nic_mr_dereg(b->mr), 0);
	b->mr = NULL;
	p.fails = true;
	refer_give(&r, A, data, frame.len, &p);
	while (refer_carry(&r, A)) /* all requests are repeated before the other side runs */
		;
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_REM_ACCESS_ERR);
	rig_expect_wc(a->send_cq, 2, NIC_WC_WR_FLUSH_ERR);
	nic_mr_dereg(mr);
	refer_destroy(&r);
}

/** The QP fails because of a later request: a READ response in flight still refers to a valid region and arrives. */
static void refer__a_read_response_survives_a_qp_error_by_a_later_request(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *a = r.pair->rig[A];
	struct nic_send_wr wr = pair_wr(r.pair, 2, NIC_WR_RDMA_READ, 0, 8, THERE);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame;
	struct payload p;

	(void)state;
	read_answered(&r, data, &p, &frame);
	assert_int_equal(p.n, 1);
	assert_true(frame.answers);
	wr.rdma.rkey ^= 0x5500;
	rig_post(a, &wr);
	assert_true(refer_carry(&r, A));
	assert_int_equal(nic_qp_state(r.pair->rig[B]->qp), NIC_QPS_ERR);
	assert_int_equal(refer_revoked.calls, 1);
	assert_false(refer_revoked.answers);
	refer_give(&r, A, data, frame.len, &p);
	EXPECT_SAME(&r, THERE, 0, LEN);
	refer_run(&r);
	rig_expect_wc(a->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(a->send_cq, 2, NIC_WC_REM_ACCESS_ERR);
	refer_destroy(&r);
}

/** Once a QP is reset, in error or destroyed, the application may change the memory that the QP's responses refer
 * to. */
static void refer__reset_error_and_destroy_revoke_a_qps_read_responses(void **state)
{
	for (unsigned how = 0; how < 3; how++) {
		const struct nic_qp_attr to = {.qp_state = how ? NIC_QPS_RESET : NIC_QPS_ERR};
		struct refer r = refer_create(NULL);
		struct rig *b = r.pair->rig[B];
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame;
		struct payload p;

		read_answered(&r, data, &p, &frame);
		if (how < 2) {
			assert_int_equal(nic_qp_modify(b->qp, &to, NIC_QP_STATE), 0);
		} else {
			assert_int_equal(nic_qp_destroy(b->qp), 0);
			b->qp = NULL;
		}
		assert_int_equal(refer_revoked.calls, 1);
		assert_int_equal(refer_revoked.qpn, frame.qpn);
		assert_true(refer_revoked.answers);
		refer_destroy(&r);
	}
}

/* ---- packets that refer to what they cannot have --------------------------------------------------------------- */

static bool give_packet_with(struct refer *r, enum pair_side to, const struct packet *p, uint32_t refers_to,
			     uint32_t psns)
{
	static uint8_t source[NIC_REFERENCE_MAX + 1];
	struct rig *rig = r->pair->rig[to];
	struct payload payload = {.piece = {{(uintptr_t)source, refers_to, 0}}, .n = 1};
	const struct nic_reference reference = {.len = refers_to, .psns = psns, .fetch = refer_fetch, .ctx = &payload};
	uint8_t data[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = data, .flags = NIC_RX_NO_ICRC, .reference = &reference};
	struct packet bare = *p;

	bare.pad = (uint8_t)(-bare.payload_len & 3);
	bare.referred = 0;
	frame.len = packet_encode(&bare, data);
	return nic_rx(rig->nic, &frame, rig->now);
}

static bool give_packet(struct refer *r, enum pair_side to, const struct packet *p, uint32_t refers_to)
{
	return give_packet_with(r, to, p, refers_to, packets_of(refers_to, r->pair->rig[to]->qp->pmtu));
}

/** Packets with these opcodes and a reference of 512 bytes are dropped as invalid. */
static void expect_refused(struct refer *r, const uint8_t *opcodes, unsigned n, uint32_t psns)
{
	struct rig *b = r->pair->rig[B];

	for (unsigned i = 0; i < n; i++) {
		const struct packet p = rig_peer_packet(b, opcodes[i], RIG_SQ_PSN);

		assert_false(give_packet_with(r, B, &p, 512, psns));
		assert_int_equal(rig_counter(b, rx_bad_reference), i + 1);
	}
}

static void refer__packets_that_must_not_carry_a_reference_are_dropped(void **state)
{
	static const uint8_t may_not[] = {
		READ_REQ,     ACK, ATOMIC_ACK,	    CMP_SWAP,	    FETCH_ADD, RIG_UC | SEND_ONLY, RIG_UC | WRITE_ONLY,
		UD_SEND_ONLY, CNP, MASKED_CMP_SWAP, EXT_ATOMIC_ACK, ELEMENTS,  FETCH_ELEMENTS,	   ELEMENTS_ACK};
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct packet p;

	(void)state;
	expect_refused(&r, may_not, sizeof(may_not), 512 / RIG_MTU);
	p = rig_peer_packet(b, SEND_ONLY, RIG_SQ_PSN);
	assert_false(give_packet(&r, B, &p, NIC_REFERENCE_MAX + 1));
	assert_false(give_packet(&r, B, &p, 0));
	p = rig_peer_data(b, SEND_ONLY, RIG_SQ_PSN, 0, 8);
	assert_false(give_packet(&r, B, &p, 512)); /* payload and a reference */
	assert_int_equal(rig_counter(b, rx_bad_reference), sizeof(may_not) + 3);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
	refer_destroy(&r);
}

/** Only an RC SEND ONLY may carry an offer. A queue pair without an owner receives such a SEND as an ordinary
 * message. */
static void refer__only_an_rc_send_only_may_carry_an_offer(void **state)
{
	static const uint8_t may_not[] = {SEND_FIRST,	  SEND_MIDDLE,	      SEND_LAST, WRITE_ONLY,
					  READ_RESP_ONLY, RIG_UC | SEND_ONLY, ACK};
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct packet p;

	(void)state;
	expect_refused(&r, may_not, sizeof(may_not), 0);
	p = rig_peer_data(b, SEND_ONLY, RIG_SQ_PSN, 0, 8);
	assert_false(give_packet_with(&r, B, &p, 0, 0));
	assert_false(give_packet_with(&r, B, &p, NIC_REFERENCE_MAX + 1, 0));
	assert_int_equal(rig_counter(b, rx_bad_reference), sizeof(may_not) + 2);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
	rig_post_recv(b, 1, THERE, 64);
	assert_true(give_packet_with(&r, B, &p, 5000, 0));
	assert_int_equal(rig_expect_wc(b->recv_cq, 1, NIC_WC_SUCCESS).byte_len, 8);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN + 1);
	refer_destroy(&r);
}

/** A reference's length is checked against the headers like the length of payload in a packet. */
static void refer__lengths_are_checked(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t dma_len, refers_to;
		uint8_t nak;
	} cases[] = {
		{WRITE_ONLY, 1000, 1001, SYN_INV},
		{WRITE_ONLY, 1000, 999, SYN_INV},
		{WRITE_FIRST, 2000, 512 + 1, SYN_INV},
		{WRITE_FIRST, 1024, 1024, SYN_INV},
		{WRITE_ONLY, 1000, 1000, SYN_ACK},
		{WRITE_FIRST, 1025, 1024, SYN_ACK},
		{WRITE_ONLY, 200000, 200000, SYN_ACCESS},
		{SEND_ONLY, 0, 5000, SYN_INV}, /* into a receive of 4096 bytes */
		{SEND_FIRST, 0, 4097, SYN_INV},
		{SEND_MIDDLE, 0, 512, SYN_INV}, /* out of sequence */
		{SEND_LAST, 0, 512, SYN_INV},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct refer r = refer_create(NULL);
		struct rig *b = r.pair->rig[B];
		struct packet p = rig_peer_packet(b, cases[i].op, RIG_SQ_PSN), ack;
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame = {.data = data};
		struct nic_rx_frame rx = {.data = data, .flags = NIC_RX_NO_ICRC};

		rig_post_recv(b, 1, 0, 4096);
		p.dma_len = cases[i].dma_len;
		p.va = rig_va(b, THERE);
		p.ackreq = true;
		assert_true(give_packet(&r, B, &p, cases[i].refers_to));
		assert_int_equal(nic_path_tx(b->nic, r.path[B], &frame, 1, b->now), 1);
		rx.len = frame.len;
		assert_int_equal(packet_parse(&rx, &ack), PACKET_OK);
		assert_int_equal(ack.syndrome, cases[i].nak);
		if (cases[i].nak != SYN_ACK)
			assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
		refer_destroy(&r);
	}
}

/** A QP whose owner reads messages cannot take one by reference: the packet counts as unread, to be repeated with its
 * payload. */
static void refer__a_qp_with_an_owner_takes_no_message_by_reference(void **state)
{
	struct refer r = refer_create(NULL);
	struct rig *b = r.pair->rig[B];
	struct packet p = rig_peer_packet(b, SEND_ONLY, RIG_SQ_PSN);

	(void)state;
	b->qp->owner = &an_owner;
	b->qp->rdm_peer = (struct nic_rdm_peer *)b; /* a pointer that must not be used */
	assert_true(give_packet(&r, B, &p, 5000));
	assert_int_equal(rig_counter(b, rx_unread), 1);
	assert_int_equal(b->qp->resp.epsn, RIG_SQ_PSN);
	b->qp->owner = NULL;
	b->qp->rdm_peer = NULL;
	refer_destroy(&r);
}

/** The two sides have different path MTUs: requests by reference fail, and nothing is delivered wrongly. */
static void refer__a_path_mtu_has_to_be_agreed_on(void **state)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_WRITE, NIC_WR_RDMA_READ};
	static const enum nic_wc_status status[] = {NIC_WC_REM_INV_REQ_ERR, NIC_WC_REM_INV_REQ_ERR,
						    NIC_WC_BAD_RESP_ERR};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct refer r = refer_create(NULL);
		struct nic_wc wc;

		r.pair->rig[A]->qp->pmtu = 1024; /* the other side's is 256 */
		rig_post_recv(r.pair->rig[B], 9, THERE, LEN);
		refer_post(&r, 1, opcodes[i], 0, LEN, THERE);
		refer_run(&r);
		assert_true(rig_poll(r.pair->rig[A]->send_cq, &wc));
		assert_int_equal(wc.status, status[i]);
		refer_destroy(&r);
	}
}

/** READ responses by reference that do not match the request move the QP to ERR. */
static void refer__read_responses_are_checked(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t psn, refers_to;
		bool good;
	} cases[] = {
		{READ_RESP_ONLY, 0, LEN, true},	     {READ_RESP_ONLY, 0, LEN - 1, false},
		{READ_RESP_ONLY, 0, LEN + 1, false}, {READ_RESP_ONLY, 0, LEN + 256, false},
		{READ_RESP_FIRST, 0, LEN, false},    {READ_RESP_FIRST, 0, 512, true},
		{READ_RESP_FIRST, 0, 513, false},    {READ_RESP_ONLY, 0, 512, false},
		{READ_RESP_MIDDLE, 0, 512, false}, /* no response has begun */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct refer r = refer_create(NULL);
		struct rig *a = r.pair->rig[A];
		uint8_t data[NIC_FRAME_MAX];
		struct nic_tx_frame frame;
		struct payload none;
		struct packet p = rig_peer_packet(a, cases[i].op, RIG_SQ_PSN + cases[i].psn);

		refer_post(&r, 1, NIC_WR_RDMA_READ, 0, LEN, THERE);
		assert_true(refer_take(&r, A, data, &none, &frame));
		p.syndrome = SYN_ACK;
		assert_true(give_packet(&r, A, &p, cases[i].refers_to));
		assert_int_equal(nic_qp_state(a->qp) != NIC_QPS_ERR, cases[i].good);
		refer_destroy(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refer__dereg_and_rereg_of_a_region_revoke_its_references),
		cmocka_unit_test(refer__a_qp_error_revokes_its_references),
		cmocka_unit_test(refer__a_qp_failing_in_path_tx_revokes_the_returned_packet),
		cmocka_unit_test(refer__a_duplicate_read_after_deregistration_is_no_error),
		cmocka_unit_test(refer__deregistering_under_a_read_response_fails_the_read),
		cmocka_unit_test(refer__deregistering_between_read_responses_fails_the_read),
		cmocka_unit_test(refer__a_read_is_refused_despite_a_duplicate_request_after_it),
		cmocka_unit_test(refer__a_read_response_survives_a_qp_error_by_a_later_request),
		cmocka_unit_test(refer__reset_error_and_destroy_revoke_a_qps_read_responses),
		cmocka_unit_test(refer__packets_that_must_not_carry_a_reference_are_dropped),
		cmocka_unit_test(refer__only_an_rc_send_only_may_carry_an_offer),
		cmocka_unit_test(refer__lengths_are_checked),
		cmocka_unit_test(refer__a_qp_with_an_owner_takes_no_message_by_reference),
		cmocka_unit_test(refer__a_path_mtu_has_to_be_agreed_on),
		cmocka_unit_test(refer__read_responses_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
