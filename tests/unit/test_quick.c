/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_quick.c - the fast path for fetching one element (quick.h), at queue pairs. Two NICs get the same packets; one
 * of them has a path that gives room. What they send, and their memory, completions, counters and traces must be the
 * same. Also: when a request must not be sent at once. test_quick_rdm.c compares endpoints.
 */
#include "elements_util.h"
#include "post.h"
#include "qp.h"
#include "quick_util.h"
#include "req_quick.h"
#include "resp_util.h"
#include "wire.h"

static void expect_same_qp_counters(const struct nic_qp *one, const struct nic_qp *other)
{
	struct nic_qp_counters a, b;

	nic_qp_counters(one, &a);
	nic_qp_counters(other, &b);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void expect_same_trace(const struct nic *one, const struct nic *other)
{
	struct nic_trace_entry a, b;
	uint64_t head = nic_trace_head(one);

	assert_int_equal(nic_trace_head(other), head);
	for (uint64_t i = head > 500 ? head - 500 : 0; i < head; i++) {
		assert_true(nic_trace_get(one, i, &a) && nic_trace_get(other, i, &b));
		assert_memory_equal(&a, &b, sizeof(a));
	}
}

/* ---- the responder ----------------------------------------------------------------------------------------------- */

#define SENT 64u

struct sent {
	struct nic_tx_frame frame;
	uint8_t data[NIC_FRAME_MAX];
};

/** A rig on a path without ICRC, and the packets it has sent. */
struct side {
	struct rig *rig;
	struct nic_mr *weak; /* the arena, without the right to atomics */
	uint32_t path;
	unsigned n;
	struct sent sent[SENT];
};

static struct side quick, plain;
static uint64_t answered_at_once;
static uint8_t room[NIC_ROOM_LEN];

static uint8_t *tx_room(void *ctx, uint32_t path, uint64_t *now_ns)
{
	struct rig *rig = ctx;

	memset(room, 0xee, sizeof(room));
	if (now_ns)
		*now_ns = rig->now;
	return path == quick.path && rig == quick.rig ? room : NULL;
}

static void keep_sent(struct side *s, const struct nic_tx_frame *frame)
{
	assert_true(s->n < SENT && frame->bare);
	s->sent[s->n].frame = *frame;
	memcpy(s->sent[s->n++].data, frame->data, frame->len);
}

static void tx_now(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns)
{
	(void)ctx;
	assert_int_equal(now_ns, quick.rig->now);
	assert_int_equal(path, quick.path);
	assert_ptr_equal(frame->data, room);
	answered_at_once++;
	keep_sent(&quick, frame);
}

static bool unmapped; /* memory that requests access is not mapped */

static bool guard(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	if (!unmapped)
		fn(arg);
	return !unmapped;
}

static void side_create(struct side *s, bool gives_room, enum nic_mtu mtu, uint32_t ack_delay_ns)
{
	struct rig_opts opts = {.max_fetch = seed_now % 5 == 4 ? 4 : 256,
				.nic = {.tx_room = gives_room ? tx_room : NULL,
					.tx_now = tx_now,
					.guard = guard,
					.ack_delay_ns = ack_delay_ns}};
	struct rig *rig = s->rig = rig_create(&opts);

	rig->attr.path_mtu = mtu;
	rig->attr.max_dest_rd_atomic = 16;
	rig_to_rts(rig);
	rig_drain(rig);
	assert_int_equal(
		nic_mr_reg(rig->pd, rig->arena, RIG_ARENA, (uintptr_t)rig->arena, NIC_ACCESS_REMOTE_READ, &s->weak), 0);
	s->n = 0;
	s->path = rig->qp->path = (uint32_t)nic_path_open(rig->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS);
	assert_true(s->path > 0);
	for (unsigned i = 0; i < 32; i++)
		rig_post_recv(rig, i, 32768, 512);
}

static void drain(struct side *s)
{
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data, .bare = true};

	while (nic_path_tx(s->rig->nic, s->path, &frame, 1, s->rig->now) == 1) {
		keep_sent(s, &frame);
		frame = (struct nic_tx_frame){.data = data, .bare = true};
	}
}

static void expect_same_packets(void)
{
	assert_int_equal(quick.n, plain.n);
	for (unsigned i = 0; i < quick.n; i++) {
		const struct nic_tx_frame *a = &quick.sent[i].frame, *b = &plain.sent[i].frame;

		assert_int_equal(a->len, b->len);
		assert_memory_equal(quick.sent[i].data, plain.sent[i].data, a->len);
		assert_int_equal(a->qpn, b->qpn);
		assert_int_equal(a->addresses, b->addresses);
		assert_int_equal(a->no_icrc, b->no_icrc);
		assert_int_equal(a->bth, b->bth);
		assert_int_equal(a->n_pieces, b->n_pieces);
		assert_int_equal(a->ordered, b->ordered);
	}
	quick.n = plain.n = 0;
}

/** A packet from the peer, as random numbers choose it, for this rig. */
static struct packet random_packet(const struct side *s, uint64_t random, uint32_t psn)
{
	static const unsigned others[] = {READ_REQ, WRITE_ONLY, SEND_ONLY, FETCH_ADD, CMP_SWAP};
	struct rig *rig = s->rig;
	uint32_t len = 4 * pick(&random, 20), offset = 32 * pick(&random, 16);
	struct packet p;

	if (pick(&random, 6) == 0) {
		unsigned op = pick(&random, 100) ? others[pick(&random, 5)] : WRITE_FIRST;

		len = op == WRITE_FIRST ? RIG_MTU : len;
		p = op == READ_REQ || op == FETCH_ADD || op == CMP_SWAP ? rig_peer_packet(rig, op, psn)
									: rig_peer_data(rig, op, psn, offset, len);
		p.dma_len = op == WRITE_FIRST ? len + 1 : len;
		p.swap_add = pick(&random, 1000);
		p.compare = pick(&random, 2);
		p.ackreq = pick(&random, 2);
	} else {
		unsigned op = pick(&random, NIC_ELEM_COUNT), type = pick(&random, NIC_DT_COUNT);
		enum nic_elem_form form = elem_compares(op) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH;

		while (!nic_elem_valid(op, type, form) || (pick(&random, 2) && nic_elem_size(type) != 8))
			type = pick(&random, NIC_DT_COUNT);
		p = request(rig, op, type, true, pick(&random, 8) ? 1 : 1 + pick(&random, 3), psn, 0);
		p.payload = rig->peer_data + 8 * pick(&random, 100);
		p.ackreq = pick(&random, 2);
		p.se = pick(&random, 2);
	}
	p.va = rig_va(rig, offset);
	switch (pick(&random, 2000)) {
	case 0:
		p.rkey ^= 1u << pick(&random, 32);
		break;
	case 1:
		p.va += 1 + pick(&random, 7);
		break;
	case 2:
		p.va = rig_va(rig, RIG_ARENA) - pick(&random, 8);
		break;
	case 3:
		p.element.flags = (uint8_t)pick(&random, 256);
		break;
	case 4:
		p.element.datatype = (uint8_t)pick(&random, 256);
		break;
	case 5:
		p.element.op = (uint8_t)pick(&random, 256);
		break;
	case 6:
		p.payload_len += 4;
		break;
	case 7:
		p.element.count = pick(&random, 4);
		break;
	case 8:
		p.rkey = nic_mr_rkey(s->weak);
		break;
	default:
		break;
	}
	return p;
}

static void receive(struct side *s, uint64_t random, uint32_t psn)
{
	struct packet p = random_packet(s, random, psn);

	rig_rx(s->rig, &p);
}

/** Change something that the general code looks at. */
static void disturb(struct side *s, uint64_t random)
{
	struct rig *rig = s->rig;

	if (nic_qp_state(rig->qp) == NIC_QPS_ERR)
		return;
	switch (pick(&random, 40)) {
	case 0:
		nic_port_set(rig->nic, !nic_port_is_up(rig->nic));
		break;
	case 1:
		rig->attr.qp_access_flags ^= NIC_ACCESS_REMOTE_ATOMIC;
		assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_ACCESS_FLAGS), 0);
		break;
	case 2:
	case 3:
	case 4: /* a request of our own waits for its turn */
		rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 64);
		break;
	case 5: /* more READs than the peer takes: one waits until another is answered, which never happens */
		for (unsigned i = 0; i <= rig->attr.max_rd_atomic; i++)
			rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
		break;
	default:
		nic_ack_flush(rig->nic, true);
	}
}

static void expect_same_state(void)
{
	const struct responder *a = &quick.rig->qp->resp, *b = &plain.rig->qp->resp;

	assert_memory_equal(quick.rig->arena, plain.rig->arena, RIG_ARENA);
	assert_int_equal(nic_cq_count(quick.rig->recv_cq), nic_cq_count(plain.rig->recv_cq));
	assert_int_equal(nic_qp_state(quick.rig->qp), nic_qp_state(plain.rig->qp));
	assert_int_equal(nic_next_deadline(quick.rig->nic), nic_next_deadline(plain.rig->nic));
	assert_int_equal(a->epsn, b->epsn);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->res_head, b->res_head);
	assert_int_equal(a->res_todo, b->res_todo);
	assert_int_equal(a->unacked, b->unacked);
	assert_int_equal(a->nak_sent, b->nak_sent);
}

static void run_responder(uint64_t seed)
{
	uint64_t random = seed, history[8];
	enum nic_mtu mtu = seed % 3 ? NIC_MTU_256 : NIC_MTU_1024;
	uint32_t packets = 0, ack_delay_ns = seed % 2 ? 0 : 100000;

	side_create(&quick, true, mtu, ack_delay_ns);
	side_create(&plain, false, mtu, ack_delay_ns);
	for (unsigned i = 0; i < 150; i++) {
		uint32_t psn = plain.rig->qp->resp.epsn, back = 0, what = pick(&random, 16);
		uint64_t before = answered_at_once;

		if (what == 0 && packets > 8) /* a duplicate */
			back = 1 + pick(&random, 8);
		if (what == 1) /* a gap */
			psn += 1 + pick(&random, 2);
		if (what == 2) {
			uint64_t how = random;

			disturb(&quick, how);
			disturb(&plain, how);
		}
		unmapped = pick(&random, 600) == 0;
		if (back == 0)
			history[packets++ % 8] = random;
		receive(&quick, back ? history[(packets - back) % 8] : random, (psn - back) & PSN_MASK);
		receive(&plain, back ? history[(packets - back) % 8] : random, (psn - back) & PSN_MASK);
		/* Sometimes the next packet arrives before this one is answered. */
		if (answered_at_once != before || pick(&random, 2)) {
			drain(&quick);
			drain(&plain);
			expect_same_packets();
			expect_same_state();
		}
		quick.rig->now = plain.rig->now += pick(&random, 100000);
	}
	expect_same_counters(quick.rig->nic, plain.rig->nic);
	expect_same_qp_counters(quick.rig->qp, plain.rig->qp);
	expect_same_trace(quick.rig->nic, plain.rig->nic);
	rig_destroy(quick.rig);
	rig_destroy(plain.rig);
}

static void quick__responses_are_those_of_the_general_code(void **state)
{
	(void)state;
	answered_at_once = 0;
	for (seed_now = 1; seed_now <= 1000; seed_now++)
		run_responder(seed_now);
	seed_now = 0;
	assert_true(answered_at_once > 2000);
}

/** A QP that was connected again without resources for atomics refuses them, although it has kept results before. */
static void quick__a_qp_without_resources_refuses(void **state)
{
	struct packet p;

	(void)state;
	side_create(&quick, true, NIC_MTU_256, 0);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t before = answered_at_once;

		p = request(quick.rig, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1, E + i, 0);
		rig_rx(quick.rig, &p);
		assert_int_equal(answered_at_once - before, i); /* the first one allocates the memory for results */
		drain(&quick);
	}
	rig_modify_state(quick.rig, NIC_QPS_RESET);
	quick.rig->attr.max_dest_rd_atomic = 0;
	rig_to_rts(quick.rig);
	rig_drain(quick.rig);
	quick.rig->qp->path = quick.path;
	quick.n = 0;
	p = request(quick.rig, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1, E, 0);
	rig_rx(quick.rig, &p);
	drain(&quick);
	assert_int_equal(quick.n, 1);
	assert_int_equal(quick.sent[0].data[0], ACK);
	assert_int_equal(quick.sent[0].data[BTH_LEN], SYN_INV);
	rig_destroy(quick.rig);
}

/* ---- the requester ----------------------------------------------------------------------------------------------- */

/** Whether a fetch that is posted now is sent at once. */
static bool sends_at_once(void)
{
	bool gives = req_quick_room(quick.rig->qp) != NULL;

	quick.n = 0;
	return gives;
}

static void post_fetch(void)
{
	const uint8_t operand[8] = {1};
	uint8_t *place = req_quick_room(quick.rig->qp);

	assert_non_null(place);
	qp_post_fetch(quick.rig->qp, &(struct qp_fetch){.wr_id = 5,
							.flags = NIC_SEND_SIGNALED,
							.op = NIC_ELEM_SUM,
							.datatype = NIC_DT_UINT64,
							.rkey = RIG_REMOTE_RKEY,
							.remote_addr = RIG_REMOTE_VA,
							.result = {rig_va(quick.rig, 0), 8, quick.rig->lkey},
							.operands = operand});
	req_quick_send(quick.rig->qp, place);
}

static void quick__requests_wait_for_their_turn(void **state)
{
	struct nic_send_wr wr;
	struct packet p;
	struct rig *rig;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		side_create(&quick, true, NIC_MTU_256, 100000);
		rig = quick.rig;
		assert_true(sends_at_once());
		switch (i) {
		case 0: /* a request waits to be sent */
			rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 8);
			break;
		case 1: /* a response waits to be sent */
			rx_read(rig, E, 0, 8);
			break;
		case 2: /* an ACK waits; it goes before requests */
			rx_write(rig, WRITE_ONLY, E, 0, 8, 8);
			break;
		case 3: /* a fenced request waits for the response to a READ */
			rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, 8);
			wr = rig_wr(rig, 2, NIC_WR_RDMA_WRITE, 0, 8);
			wr.flags |= NIC_SEND_FENCE;
			rig_post(rig, &wr);
			drain(&quick);
			break;
		case 4: /* as many READs and atomics as the peer takes */
			for (unsigned n = 0; n < rig->attr.max_rd_atomic; n++) {
				assert_true(sends_at_once());
				post_fetch();
			}
			assert_int_equal(rig->qp->req.rd_out, rig->attr.max_rd_atomic);
			break;
		case 5: /* the send queue is full */
			for (unsigned n = 0; n < 64; n++)
				rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 8);
			drain(&quick);
			break;
		case 6:
			nic_port_set(rig->nic, false);
			break;
		case 7:
			rig_modify_state(rig, NIC_QPS_ERR);
			break;
		case 8: /* the window is full */
			rig->nic->cfg.psn_window = 1;
			post_fetch();
			break;
		default: /* the peer is not ready */
			rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
			drain(&quick);
			p = rig_peer_packet(rig, ACK, RIG_SQ_PSN);
			p.syndrome = SYN_RNR | 1;
			rig_rx(rig, &p);
			drain(&quick);
		}
		assert_false(sends_at_once());
		rig_destroy(rig);
	}
}

static void no_random(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	memset(buf, 1, len);
}

static void quick__room_needs_a_way_to_send(void **state)
{
	struct nic_config config = {.random = no_random, .tx_room = tx_room};
	struct nic *nic;

	(void)state;
	assert_int_equal(nic_create(&config, &nic), -EINVAL);
	config.tx_now = tx_now;
	assert_int_equal(nic_create(&config, &nic), 0);
	nic_destroy(nic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(quick__responses_are_those_of_the_general_code, teardown),
		cmocka_unit_test(quick__a_qp_without_resources_refuses),
		cmocka_unit_test(quick__requests_wait_for_their_turn),
		cmocka_unit_test(quick__room_needs_a_way_to_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
