/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_runs.c - single-element requests that share a packet (nic/mem/elem.md, req_run.c): which requests share one,
 * when they wait for each other, the packet format, and that the responder treats each request as if sent alone.
 */
#include "elem.h"
#include "pair.h"
#include "qp.h"
#include "req_run.h"
#include "resp_util.h"
#include "wire.h"

#define RUN 16u /* most requests of a run */

static uint32_t aligned(const struct rig *rig)
{
	return (uint32_t)(-(uintptr_t)rig->arena & 63) + 1024;
}

/* ---- requester ------------------------------------------------------------------------------------------------- */

/** Create a rig whose peer accepts runs. */
static struct rig *ready(void)
{
	struct rig *rig = rig_ready(NULL);

	rig->qp->peer_joins = true;
	return rig;
}

struct sum {
	struct nic_sge data;
	struct nic_send_wr wr;
};

/** Build request number i: it adds arena[8 i], read when it is sent, to the peer's memory. */
static struct nic_send_wr *sum(struct sum *s, struct rig *rig, uint32_t i)
{
	s->data = (struct nic_sge){(uintptr_t)rig->arena + (size_t)8 * i, 8, rig->lkey};
	s->wr = (struct nic_send_wr){.wr_id = i, .opcode = NIC_WR_ELEMENTS, .flags = NIC_SEND_SIGNALED};
	s->wr.elements.data = &s->data;
	s->wr.elements.num_data = s->wr.elements.count = 1;
	s->wr.elements.op = NIC_ELEM_SUM;
	s->wr.elements.datatype = NIC_DT_UINT64;
	s->wr.elements.remote_addr = RIG_REMOTE_VA + (uint64_t)64 * i;
	s->wr.elements.rkey = RIG_REMOTE_RKEY;
	return &s->wr;
}

static void post_sums(struct rig *rig, uint32_t from, uint32_t n)
{
	struct sum s;

	for (uint32_t i = from; i < from + n; i++)
		rig_post(rig, sum(&s, rig, i));
}

/** Expect a packet with the sums of n requests, starting with request `first`. */
static void expect_run(struct rig *rig, uint32_t first, uint32_t n)
{
	struct packet p = rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN + first);

	assert_int_equal(p.element.op, NIC_ELEM_SUM);
	assert_int_equal(p.element.datatype, NIC_DT_UINT64);
	assert_int_equal(p.element.count, n);
	assert_int_equal(p.element.flags, n > 1 ? ELEMENT_RUN : 0);
	assert_int_equal(p.rkey, RIG_REMOTE_RKEY);
	assert_true(p.ackreq);
	assert_int_equal(p.payload_len, n > 1 ? n * 16 : 8);
	if (n == 1)
		assert_int_equal(p.va, RIG_REMOTE_VA + (uint64_t)64 * first);
	for (uint32_t i = 0; i < n && n > 1; i++) {
		assert_int_equal(wire_get64(p.payload + (size_t)16 * i), RIG_REMOTE_VA + (uint64_t)64 * (first + i));
		assert_int_equal(wire_get64(p.payload + (size_t)16 * i + 8), arena_u64(rig, 8 * (first + i)));
	}
}

static void expect_done(struct rig *rig, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
}

static void runs__requests_posted_together_share_a_packet(void **state)
{
	struct rig *rig = ready();

	post_sums(rig, 0, 20);
	expect_run(rig, 0, RUN);
	rig_expect_silence(rig); /* the other four wait for more to join */
	rig_ack(rig, RIG_SQ_PSN + 15, SYN_ACK);
	expect_done(rig, 0, 16);
	expect_run(rig, 16, 4);
	rig_ack(rig, RIG_SQ_PSN + 19, SYN_ACK);
	expect_done(rig, 16, 4);
	assert_int_equal(rig_counter(rig, requests_joined), 18);
	rig_destroy(rig);
}

/** The bytes of a run, as in nic/mem/elem.md. */
static void runs__packet_bytes_match_the_documented_format(void **state)
{
	static const uint8_t header[] = {
		0,    0,    0,	  0,	0, 0, 0,    0,		      /* no address */
		0x51, 0x52, 0x53, 0x54,				      /* RIG_REMOTE_RKEY */
		2,    5,    1,	  0,	0, 0, 0,    2,		      /* SUM, UINT32, a run */
		0,    0,    0x7f, 0,	0, 0, 0x10, 0,	  1, 2, 3, 4, /* the address and operand of one request */
		0,    0,    0x7f, 0,	0, 0, 0x10, 0x40, 5, 6, 7, 8};
	const uint32_t data[] = {0x01020304, 0, 0x05060708};
	struct rig *rig = ready();

	memcpy(rig->arena, data, sizeof(data));
	for (uint32_t i = 0; i < 2; i++) {
		struct sum s;

		sum(&s, rig, i);
		s.data.length = 4;
		s.wr.elements.datatype = NIC_DT_UINT32;
		rig_post(rig, &s.wr);
	}
	rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN);
	assert_memory_equal(rig->frames[rig->frame] + 40, header, sizeof(header));
	assert_int_equal(rig->frame_lens[rig->frame], 40 + sizeof(header) + 4);
	rig_destroy(rig);
}

/** With few requests in flight no request waits for others: requests made one at a time are not delayed. */
static void runs__requests_do_not_wait_with_few_in_flight(void **state)
{
	struct rig *rig = ready();

	for (uint32_t i = 0; i < 4; i++) {
		post_sums(rig, i, 1);
		expect_run(rig, i, 1);
	}
	post_sums(rig, 4, 15);
	rig_expect_silence(rig);
	post_sums(rig, 19, 1);
	expect_run(rig, 4, RUN); /* the run is full */
	post_sums(rig, 20, 2);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 3, SYN_ACK);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 19, SYN_ACK);
	expect_run(rig, 20, 2);
	rig_destroy(rig);
}

/** A request of another kind ends the wait of the requests before it: they are sent at once, because no more can join
 * them and the new request must not wait. */
static void runs__a_request_of_another_kind_ends_the_wait(void **state)
{
	for (unsigned what = 0; what < 6; what++) {
		struct rig *rig = ready();
		struct sum s;

		post_sums(rig, 0, 4);
		expect_run(rig, 0, 4);
		post_sums(rig, 4, 3);
		rig_expect_silence(rig);
		sum(&s, rig, 7);
		if (what == 0) {
			s.wr.elements.op = NIC_ELEM_BOR;
		} else if (what == 1) {
			s.wr.elements.datatype = NIC_DT_INT64;
		} else if (what == 2) {
			s.wr.elements.rkey ^= 1;
		} else if (what == 3) {
			s.wr.elements.count = 2;
			s.data.length = 16;
		} else if (what == 4) {
			s.wr.flags |= NIC_SEND_FENCE;
		} else {
			s.wr = rig_wr(rig, 7, NIC_WR_RDMA_WRITE, 0, 8);
		}
		rig_post(rig, &s.wr);
		expect_run(rig, 4, 3);
		rig_expect_tx(rig, what == 5 ? WRITE_ONLY : ELEMENTS, RIG_SQ_PSN + 7);
		rig_ack(rig, RIG_SQ_PSN + 7, SYN_ACK);
		expect_done(rig, 0, 8);
		rig_destroy(rig);
	}
}

/** A request waits only while requests of the same kind are in flight. */
static void runs__requests_wait_only_for_others_of_the_same_kind(void **state)
{
	struct rig *rig = ready();

	for (uint32_t i = 0; i < 6; i++)
		rig_post_send(rig, i, NIC_WR_RDMA_WRITE, 0, 8);
	post_sums(rig, 6, 2);
	assert_int_equal(rig_drain(rig), 7);
	rig_destroy(rig);
	rig = ready();
	for (uint32_t i = 0; i < 6; i++)
		rig_post_send(rig, i, NIC_WR_RDMA_WRITE, 0, 8);
	assert_int_equal(rig_drain(rig), 6);
	for (uint32_t i = 6; i < 10; i++) {
		post_sums(rig, i, 1);
		expect_run(rig, i, 1);
	}
	post_sums(rig, 10, 1);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void runs__are_not_sent_to_peers_without_support(void **state)
{
	struct rig *rig = rig_ready(NULL);

	post_sums(rig, 0, 20);
	for (uint32_t i = 0; i < 20; i++)
		expect_run(rig, i, 1);
	assert_int_equal(rig_counter(rig, requests_joined), 0);
	rig_destroy(rig);
}

/** A packet with a payload of at most 256 bytes has room for six operations on elements of 32 bytes. */
static void runs__fit_in_a_packet(void **state)
{
	struct rig *rig = ready();

	for (uint32_t i = 0; i < 7; i++) {
		struct sum s;

		sum(&s, rig, i);
		s.data.length = 32;
		s.wr.elements.datatype = NIC_DT_LONG_DOUBLE_COMPLEX;
		rig_post(rig, &s.wr);
	}
	assert_int_equal(rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN).payload_len, 240);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 5, SYN_ACK);
	assert_int_equal(rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN + 6).payload_len, 32);
	rig_destroy(rig);
}

/** A request has invalid operand memory: the requests before it are sent. Once they have completed, the invalid request
 * fails. Later requests are not sent. */
static void runs__an_invalid_operand_fails_its_request_and_flushes_the_rest(void **state)
{
	for (uint32_t bad = 0; bad < 3; bad++) {
		struct rig *rig = ready();
		struct sum s;

		for (uint32_t i = 0; i < 4; i++) {
			sum(&s, rig, i);
			s.data.lkey ^= i == bad;
			rig_post(rig, &s.wr);
		}
		if (bad) {
			struct packet p = rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN);

			assert_int_equal(p.element.count, bad);
			assert_int_equal(p.element.flags, ELEMENT_RUN); /* begun before the invalid memory was found */
			rig_expect_silence(rig);
			rig_ack(rig, RIG_SQ_PSN + bad - 1, SYN_ACK);
		}
		rig_expect_silence(rig);
		for (uint32_t i = 0; i < bad; i++)
			rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
		rig_expect_wc(rig->send_cq, bad, NIC_WC_LOC_PROT_ERR);
		for (uint32_t i = bad + 1; i < 4; i++)
			rig_expect_wc(rig->send_cq, i, NIC_WC_WR_FLUSH_ERR);
		rig_destroy(rig);
	}
}

/** Inline operands are sent as they were when posted. */
static void runs__inline_operands(void **state)
{
	struct rig *rig = ready();
	uint64_t value;
	struct packet p;

	for (uint32_t i = 0; i < 3; i++) {
		struct sum s;

		value = 1000 + i;
		sum(&s, rig, i);
		s.data.addr = (uintptr_t)&value;
		s.wr.flags |= NIC_SEND_INLINE;
		rig_post(rig, &s.wr);
	}
	value = 0;
	p = rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN);
	assert_int_equal(p.element.count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(wire_get64(p.payload + (size_t)16 * i + 8), 1000 + i);
	rig_destroy(rig);
}

/** A NAK refuses one request of a run: those before it complete, those after it are flushed. */
static void runs__a_nak_fails_one_request_and_flushes_later_ones(void **state)
{
	for (uint32_t bad = 0; bad < 3; bad++) {
		struct rig *rig = ready();

		post_sums(rig, 0, 3);
		expect_run(rig, 0, 3);
		rig_ack(rig, RIG_SQ_PSN + bad, SYN_ACCESS);
		for (uint32_t i = 0; i < 3; i++)
			rig_expect_wc(rig->send_cq, i,
				      i < bad	 ? NIC_WC_SUCCESS
				      : i == bad ? NIC_WC_REM_ACCESS_ERR
						 : NIC_WC_WR_FLUSH_ERR);
		rig_destroy(rig);
	}
}

/** After a sequence NAK, the lost part of a run is retransmitted together with requests posted meanwhile. */
static void runs__lost_requests_are_retransmitted_with_newer_ones(void **state)
{
	struct rig *rig = ready();

	post_sums(rig, 0, 6);
	expect_run(rig, 0, 6);
	post_sums(rig, 6, 3);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_SEQ);
	rig_expect_wc(rig->send_cq, 0, NIC_WC_SUCCESS);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	expect_run(rig, 2, 7);
	rig_ack(rig, RIG_SQ_PSN + 8, SYN_ACK);
	expect_done(rig, 2, 7);
	rig_destroy(rig);
}

/** The congestion window counts packets: requests coalesced into another's packet take no room in it. */
static void runs__coalesced_requests_take_no_congestion_window_room(void **state)
{
	const struct rig_opts opts = {.nic = {.max_inflight = 4 * RIG_MTU}};
	struct rig *rig = rig_ready(&opts);

	rig->qp->peer_joins = true;
	post_sums(rig, 0, 62);
	for (uint32_t i = 0; i < 3; i++)
		expect_run(rig, i * RUN, RUN);
	rig_expect_silence(rig); /* a run of 14 waits for two more requests */
	rig_post_send(rig, 62, NIC_WR_RDMA_WRITE, 0, 8);
	expect_run(rig, 48, 14);
	rig_expect_silence(rig); /* four packets in flight: the window is full */
	rig_ack(rig, RIG_SQ_PSN + 15, SYN_ACK);
	rig_expect_tx(rig, WRITE_ONLY, RIG_SQ_PSN + 62);
	rig_destroy(rig);
}

/** The congestion window grows by acknowledged packets, not by the requests coalesced into them. */
static void runs__coalesced_requests_do_not_grow_the_congestion_window(void **state)
{
	const struct rig_opts opts = {.nic = {.max_inflight = 64 * RIG_MTU}};
	struct rig *rig = rig_ready(&opts);

	rig->qp->peer_joins = true;
	rig->qp->req.cwnd = 4;
	post_sums(rig, 0, 62);
	for (uint32_t i = 0; i < 3; i++)
		expect_run(rig, i * RUN, RUN);
	rig_ack(rig, RIG_SQ_PSN + 47, SYN_ACK);
	assert_int_equal(rig->qp->req.cwnd, 4);
	expect_run(rig, 48, 14);
	rig_ack(rig, RIG_SQ_PSN + 61, SYN_ACK);
	assert_int_equal(rig->qp->req.cwnd, 5);
	rig_destroy(rig);
}

/** A WQE slot reused by another request no longer counts as coalesced. */
static void runs__a_reused_wqe_no_longer_counts_as_coalesced(void **state)
{
	const struct rig_opts opts = {.cap = {.max_send_wr = 8}};
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct rig *rig = rig_ready(&opts);

	rig->qp->peer_joins = true;
	post_sums(rig, 0, 8);
	expect_run(rig, 0, 8);
	assert_int_equal(req_run_coalesced(rig->qp), 7);
	rig_ack(rig, RIG_SQ_PSN + 7, SYN_ACK);
	rig_post_send(rig, 8, NIC_WR_RDMA_WRITE, 0, 8);
	for (unsigned i = 0; i < 6; i++)
		rig_post(rig, &nop);
	rig_expect_tx(rig, WRITE_ONLY, RIG_SQ_PSN + 8);
	rig_expect_silence(rig);
	assert_int_equal(req_run_coalesced(rig->qp), 0);
	rig_destroy(rig);
}

static void runs__fit_in_the_window_of_psns(void **state)
{
	const struct rig_opts opts = {.nic = {.psn_window = 6}};
	struct rig *rig = rig_ready(&opts);

	rig->qp->peer_joins = true;
	post_sums(rig, 0, 20);
	expect_run(rig, 0, 6);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 5, SYN_ACK);
	expect_run(rig, 6, 6);
	rig_destroy(rig);
}

/** A managed queue is enabled for three of eight sums: only these three are sent. */
static void runs__only_enabled_wqes_of_a_managed_queue_are_sent(void **state)
{
	const struct rig_opts opts = {.cross_channel = true, .managed_send = true};
	struct rig *rig = rig_ready(&opts);
	struct nic_qp *managed = rig->qp, *runner;
	struct nic_send_wr enable = {.opcode = NIC_WR_SEND_ENABLE, .enable = {.qp = managed, .count = 3, .last = true}};

	(void)state;
	managed->peer_joins = true;
	post_sums(rig, 0, 8);
	rig_expect_silence(rig);
	rig->opts.managed_send = false;
	runner = rig->qp = rig_qp_create(rig);
	rig_to_rts(rig);
	rig_post(rig, &enable);
	assert_ptr_equal(rig->qp, runner);
	rig->qp = managed;
	for (uint32_t i = 0; i < 3; i++)
		expect_run(rig, i, 1);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/** After a reset the QP does not expect its next peer to accept runs. */
static void runs__a_qp_reset_clears_the_peers_run_support(void **state)
{
	struct rig *rig = ready();

	rig_modify_state(rig, NIC_QPS_ERR);
	rig_modify_state(rig, NIC_QPS_RESET);
	assert_false(rig->qp->peer_joins);
	rig_destroy(rig);
}

/* ---- responder ------------------------------------------------------------------------------------------------- */

/** Build the peer's run of n SUM operations. Operation i adds 1 << i to element i of the array of 64-bit integers at
 *  arena[at]. */
static struct packet run(struct rig *rig, uint32_t psn, uint32_t at, uint32_t n)
{
	struct packet p = rig_peer_packet(rig, ELEMENTS, psn);

	p.va = 0;
	p.ackreq = true;
	p.element.op = NIC_ELEM_SUM;
	p.element.datatype = NIC_DT_UINT64;
	p.element.flags = ELEMENT_RUN;
	p.element.count = n;
	for (uint32_t i = 0; i < n; i++) {
		wire_put64(rig->peer_data + (size_t)16 * i, rig_va(rig, at + 8 * i));
		wire_put64(rig->peer_data + (size_t)16 * i + 8, 1ull << i);
	}
	p.payload = rig->peer_data;
	p.payload_len = 16 * n;
	return p;
}

/** Check that elements [from, to) were added to `times` times and all after them are zero. */
static void expect_sums(struct rig *rig, uint32_t at, uint32_t from, uint32_t to, uint64_t times)
{
	for (uint32_t i = from; i < 16; i++)
		assert_int_equal(arena_u64(rig, at + 8 * i), i < to ? times << i : 0);
}

/** A run of 5 requests, or of as many as a packet carries, is executed once and acknowledged by one ACK, even if it
 * arrives twice. */
static void runs__are_executed_once_and_acknowledged_by_one_ack(void **state)
{
	for (uint32_t n = 5; n <= RUN; n += RUN - 5) {
		struct rig *rig = rig_ready(NULL);
		uint32_t at = aligned(rig);

		memset(rig->arena + at, 0, 128);
		for (unsigned again = 0; again < 2; again++) {
			struct packet p = run(rig, E, at, n);

			assert_true(rig_rx(rig, &p));
			assert_int_equal(rig_expect_ack(rig, E + n - 1, SYN_ACK).msn, n);
			rig_expect_silence(rig);
			expect_sums(rig, at, 0, n, 1);
			assert_int_equal(rig_counter(rig, rx_atomic_requests), n);
			assert_int_equal(rig_counter(rig, duplicate_request), again * n);
		}
		rig_destroy(rig);
	}
}

/** AckReq of a run applies to its last request; without AckReq the ACK is lazy. */
static void runs__ackreq_decides_whether_the_ack_is_lazy(void **state)
{
	for (unsigned asked = 0; asked < 2; asked++) {
		const struct rig_opts opts = {.nic = {.ack_delay_ns = 1000000}};
		struct rig *rig = rig_ready(&opts);
		struct packet p = run(rig, E, aligned(rig), 3);

		p.ackreq = asked;
		assert_true(rig_rx(rig, &p));
		assert_true(rig->qp->resp.ack_queued);
		assert_int_equal(rig->qp->resp.ack_lazy, !asked);
		assert_int_equal(rig->qp->resp.unacked, 3);
		rig_destroy(rig);
	}
}

/** A retransmitted run of which a part was executed before: only the new requests are executed. */
static void runs__only_new_requests_of_a_retransmitted_run_are_executed(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t at = aligned(rig);
	struct packet p = run(rig, E, at, 3);

	memset(rig->arena + at, 0, 128);
	assert_true(rig_rx(rig, &p));
	rig_expect_ack(rig, E + 2, SYN_ACK);
	p = run(rig, E, at, 9);
	assert_true(rig_rx(rig, &p));
	rig_expect_ack(rig, E + 8, SYN_ACK);
	expect_sums(rig, at, 0, 9, 1);
	rig_destroy(rig);
}

static void runs__a_run_ahead_of_the_expected_psn_gets_a_sequence_nak(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t at = aligned(rig);
	struct packet p = run(rig, E + 1, at, 9);

	memset(rig->arena + at, 0, 128);
	assert_true(rig_rx(rig, &p));
	rig_expect_ack(rig, E, SYN_SEQ);
	rig_expect_silence(rig);
	expect_sums(rig, at, 0, 0, 0);
	assert_int_equal(rig_counter(rig, out_of_sequence), 1);
	rig_destroy(rig);
}

/** One request of a run is refused as if sent alone: those before it are executed, those after it are ignored. */
static void runs__a_refused_request_stops_the_rest_of_its_run(void **state)
{
	static const struct {
		uint64_t wrong;
		unsigned syndrome;
	} cases[] = {
		{4, SYN_INV},			  /* an unaligned address */
		{RIG_ARENA, SYN_ACCESS},	  /* behind the region */
		{UINT64_MAX - 7, SYN_ACCESS},	  /* an address that wraps */
		{UINT64_MAX / 2 + 1, SYN_ACCESS}, /* far outside the region */
	};

	for (unsigned i = 0; i < 4 * 5; i++) {
		struct rig *rig = rig_ready(NULL);
		uint32_t at = aligned(rig), bad = i % 5;
		struct packet p = run(rig, E, at, 5);
		uint64_t va =
			cases[i / 5].wrong == UINT64_MAX - 7 ? UINT64_MAX - 3 : rig_va(rig, at) + cases[i / 5].wrong;

		memset(rig->arena + at, 0, 128);
		wire_put64(rig->peer_data + (size_t)16 * bad, va);
		assert_true(rig_rx(rig, &p));
		expect_fatal(rig, E + bad, cases[i / 5].syndrome);
		expect_sums(rig, at, 0, bad, 1);
		rig_destroy(rig);
	}
}

static void runs__AT_10_malformed_runs_are_refused_as_invalid(void **state)
{
	for (unsigned i = 0; i < 14; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = run(rig, E, aligned(rig), 4);

		switch (i) {
		case 0:
			p.element.count = 0;
			break;
		case 1:
			p.element.count = p.payload_len = 0;
			break;
		case 2:
			p.element.count = 5;
			break;
		case 3:
			p.element.count = 3;
			break;
		case 4:
			p.element.count = 0x10000004; /* times 16 bytes: overflows 32 bits to 64 */
			break;
		case 5:
			p.element.count = UINT32_MAX;
			break;
		case 6:
			p.payload_len -= 4;
			break;
		case 7:
			p.payload_len += 4;
			break;
		case 8:
			p.element.flags = 3;
			break;
		case 9:
			p.element.flags = 2;
			break;
		case 10:
			p.op = op_find(OP_EXT, OP_FETCH_ELEMENTS, OP_ONLY, OP_PLAIN);
			break;
		case 11:
			p.element.op = NIC_ELEM_CSWAP;
			break;
		case 12:
			p.element.datatype = NIC_DT_COUNT;
			break;
		default:
			p = run(rig, E, aligned(rig), RUN + 1); /* longer than a packet may be */
		}
		assert_true(rig_rx(rig, &p));
		expect_fatal(rig, E, SYN_INV);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

static void runs__need_atomic_rights_and_element_support(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_create(i ? &(struct rig_opts){.max_fetch = RIG_NO_ELEMENTS} : NULL);
		struct packet p;

		if (!i)
			rig->attr.qp_access_flags &= ~(uint32_t)NIC_ACCESS_REMOTE_ATOMIC;
		rig_to_rts(rig);
		p = run(rig, E, aligned(rig), 4);
		assert_true(rig_rx(rig, &p));
		expect_fatal(rig, E, SYN_INV);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

/** Each run and each ACK meets each fate once; the PSNs wrap meanwhile. */
static void runs__are_executed_once_despite_packet_faults(void **state)
{
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_SWAP, PAIR_LATE, PAIR_DAMAGE};

	for (unsigned i = 0; i < 5 * 2 * 5; i++) {
		struct pair *pair = pair_create(NULL, 0xfffffc, 0x200);
		struct pair_rule rule = {i & 1 ? PAIR_B : PAIR_A, i & 1 ? ACK : ELEMENTS, i / 10, fates[i / 2 % 5]};
		uint32_t at = aligned(pair->rig[1]);
		struct sum s;

		pair->rig[0]->qp->peer_joins = true;
		pair_script(pair, &rule, 1);
		memset(pair->rig[1]->arena + at, 0, 64);
		for (uint32_t k = 0; k < 60; k++) {
			sum(&s, pair->rig[0], 0);
			arena_set_u64(pair->rig[0], 0, 1);
			s.wr.wr_id = k;
			s.wr.elements.remote_addr = rig_va(pair->rig[1], at + 8 * (k % 7));
			s.wr.elements.rkey = pair->rig[1]->rkey;
			rig_post(pair->rig[0], &s.wr);
			if (k % 5 == 0)
				pair_settle(pair);
		}
		pair_run(pair);
		for (uint32_t k = 0; k < 60; k++)
			rig_expect_wc(pair->rig[0]->send_cq, k, NIC_WC_SUCCESS);
		for (uint32_t k = 0; k < 7; k++)
			assert_int_equal(arena_u64(pair->rig[1], at + 8 * k), 60 / 7 + (k < 60 % 7));
		assert_true(rig_counter(pair->rig[0], requests_joined) > 20);
		pair_destroy(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs__requests_posted_together_share_a_packet),
		cmocka_unit_test(runs__packet_bytes_match_the_documented_format),
		cmocka_unit_test(runs__requests_do_not_wait_with_few_in_flight),
		cmocka_unit_test(runs__a_request_of_another_kind_ends_the_wait),
		cmocka_unit_test(runs__requests_wait_only_for_others_of_the_same_kind),
		cmocka_unit_test(runs__are_not_sent_to_peers_without_support),
		cmocka_unit_test(runs__fit_in_a_packet),
		cmocka_unit_test(runs__an_invalid_operand_fails_its_request_and_flushes_the_rest),
		cmocka_unit_test(runs__inline_operands),
		cmocka_unit_test(runs__a_nak_fails_one_request_and_flushes_later_ones),
		cmocka_unit_test(runs__lost_requests_are_retransmitted_with_newer_ones),
		cmocka_unit_test(runs__coalesced_requests_take_no_congestion_window_room),
		cmocka_unit_test(runs__coalesced_requests_do_not_grow_the_congestion_window),
		cmocka_unit_test(runs__a_reused_wqe_no_longer_counts_as_coalesced),
		cmocka_unit_test(runs__fit_in_the_window_of_psns),
		cmocka_unit_test(runs__a_qp_reset_clears_the_peers_run_support),
		cmocka_unit_test(runs__only_enabled_wqes_of_a_managed_queue_are_sent),
		cmocka_unit_test(runs__are_executed_once_and_acknowledged_by_one_ack),
		cmocka_unit_test(runs__ackreq_decides_whether_the_ack_is_lazy),
		cmocka_unit_test(runs__only_new_requests_of_a_retransmitted_run_are_executed),
		cmocka_unit_test(runs__a_run_ahead_of_the_expected_psn_gets_a_sequence_nak),
		cmocka_unit_test(runs__a_refused_request_stops_the_rest_of_its_run),
		cmocka_unit_test(runs__AT_10_malformed_runs_are_refused_as_invalid),
		cmocka_unit_test(runs__need_atomic_rights_and_element_support),
		cmocka_unit_test(runs__are_executed_once_despite_packet_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
