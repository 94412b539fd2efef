/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share_random.c - an initiator's requests to SRQs of two NICs that share an XRC domain are executed exactly
 * once and in order, on networks that lose and duplicate packets, and no request is sent twice on others. A model
 * executes the same requests at once. In some runs the QPs are connected anew while READs are being answered. The seed
 * determines everything and is printed on failure; SHARE_SEED runs one seed, SHARE_SEEDS that many.
 */
#include "share_rig.h"

#include <stdio.h>
#include <stdlib.h>

#define OPS	  80u
#define SERIES	  300u
#define SLOT	  20480u /* of the initiator's arena; a READ that long takes more credits than there are */
#define READ_AT	  0u
#define WRITE_AT  20480u
#define WORDS_AT  36864u
#define WORDS	  8u
#define RECV_AT	  45056u
#define RECV_LEN  5120u
#define RECVS	  16u
#define PATIENCE  (600 * SHARE_SECOND)
#define ABANDONED UINT64_MAX /* wr_id */

enum kind { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, ADD, SWAP, FLUSH, STORE, KINDS };

static const enum nic_wr_opcode opcodes[KINDS] = {
	[SEND] = NIC_WR_SEND,	       [SEND_IMM] = NIC_WR_SEND_WITH_IMM,	 [WRITE] = NIC_WR_RDMA_WRITE,
	[READ] = NIC_WR_RDMA_READ,     [WRITE_IMM] = NIC_WR_RDMA_WRITE_WITH_IMM, [FLUSH] = NIC_WR_FLUSH,
	[STORE] = NIC_WR_ATOMIC_WRITE, [SWAP] = NIC_WR_ATOMIC_CMP_AND_SWP,	 [ADD] = NIC_WR_ATOMIC_FETCH_AND_ADD,
};

struct op {
	enum kind kind;
	unsigned to;
	uint32_t len, remote;
	uint64_t result; /* of an atomic */
};

static struct {
	struct share_rig *rig;
	struct op op[OPS];
	uint32_t posted, completed;
	/* Of O and G: */
	uint8_t write[2][WORDS_AT - WRITE_AT];
	uint64_t word[2][WORDS];
	uint32_t want[2][OPS]; /* the requests that take a receive, in order */
	uint32_t wanted[2], posted_recvs[2], taken[2];
	bool slow;		 /* receives are posted late */
	uint32_t renew, renewed; /* connect anew, or have done so, after so many requests */
	uint64_t lent;
} t;

static uint32_t pick(uint32_t below)
{
	return share_random(t.rig, below);
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

static uint32_t length_of(enum kind kind)
{
	static const uint32_t lengths[] = {0, 1, 255, 256, 257, 512, 1280, RECV_LEN};

	if (kind == READ && pick(4) == 0)
		return pick(SLOT + 1);
	return pick(2) ? lengths[pick(8)] : pick(1281);
}

static void model(struct op *op, struct nic_send_wr *wr, uint32_t seq)
{
	uint8_t *data = t.rig->node[I].arena + seq % SHARE_WRS * SLOT;
	uint64_t *word = &t.word[op->to][(op->remote - WORDS_AT) / 8 % WORDS];

	if (op->kind == SEND || op->kind == SEND_IMM || op->kind == WRITE_IMM)
		t.want[op->to][t.wanted[op->to]++] = seq;
	if (op->kind == WRITE || op->kind == WRITE_IMM)
		memcpy(t.write[op->to] + op->remote - WRITE_AT, data, op->len);
	if (op->kind == STORE)
		memcpy(word, data, 8);
	if (op->kind != ADD && op->kind != SWAP)
		return;
	op->result = *word;
	wr->atomic.compare_add = op->kind == ADD ? 1 + pick(1000) : pick(2) ? *word : pick(2);
	wr->atomic.swap = pick(1000);
	if (op->kind == ADD)
		*word += wr->atomic.compare_add;
	else if (*word == wr->atomic.compare_add)
		*word = wr->atomic.swap;
}

static void post(void)
{
	uint32_t seq = t.posted++;
	struct op *op = &t.op[seq];
	uint32_t at = seq % SHARE_WRS * SLOT;
	struct nic_send_wr wr;

	op->kind = (enum kind)pick(KINDS);
	op->to = pick(2) ? O : G;
	op->len = length_of(op->kind);
	op->remote = WORDS_AT + 8 * pick(WORDS);
	if (op->kind == ADD || op->kind == SWAP || op->kind == STORE)
		op->len = 8;
	else
		op->remote = op->kind == READ ? READ_AT + pick(WRITE_AT - op->len + 1)
					      : WRITE_AT + pick(WORDS_AT - WRITE_AT - op->len);
	if (op->kind != READ)
		share_fill(t.rig->node[I].arena + at, op->len, seq);
	wr = share_wr(t.rig, op->to, opcodes[op->kind], at, op->len, op->remote);
	wr.wr_id = seq;
	wr.ex = ~seq;
	model(op, &wr, seq);
	assert_int_equal(nic_post_send(t.rig->node[I].qp, &wr), 0);
}

static void check_completion(const struct nic_wc *wc)
{
	const struct op *op = &t.op[t.completed];
	const uint8_t *data = t.rig->node[I].arena + t.completed % SHARE_WRS * SLOT;

	if (wc->wr_id == ABANDONED)
		return;
	assert_int_equal(wc->wr_id, t.completed);
	if (wc->status != NIC_WC_SUCCESS)
		print_error("request %u, opcode %u, to %u: %s\n", t.completed, opcodes[op->kind], op->to,
			    nic_vendor_err_str(wc->vendor_err));
	assert_int_equal(wc->status, NIC_WC_SUCCESS);
	if (op->kind == READ)
		assert_memory_equal(data, t.rig->node[op->to].arena + op->remote, op->len);
	if (op->kind == ADD || op->kind == SWAP)
		assert_memory_equal(data, &op->result, 8);
	t.completed++;
}

static void check_receive(unsigned n, const struct nic_wc *wc)
{
	uint32_t k = t.taken[n]++, seq = t.want[n][k];
	const struct op *op = &t.op[seq];

	assert_true(k < t.wanted[n]);
	assert_int_equal(wc->wr_id, k);
	assert_int_equal(wc->status, NIC_WC_SUCCESS);
	assert_int_equal(wc->qp_num, t.rig->target);
	assert_int_equal(wc->byte_len, op->len);
	assert_int_equal(wc->opcode, op->kind == WRITE_IMM ? NIC_WC_RECV_RDMA_WITH_IMM : NIC_WC_RECV);
	assert_int_equal(wc->wc_flags & NIC_WC_WITH_IMM, op->kind == SEND ? 0 : NIC_WC_WITH_IMM);
	if (op->kind != SEND)
		assert_int_equal(wc->ex, ~seq);
	if (op->kind != WRITE_IMM)
		assert_true(share_holds(t.rig->node[n].arena + RECV_AT + k % RECVS * RECV_LEN, op->len, seq));
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

static void take_completions(void)
{
	struct nic_wc wc;

	for (unsigned n = O; n <= G; n++)
		while (nic_cq_poll(t.rig->node[n].cq, 1, &wc) == 1)
			check_receive(n, &wc);
	while (nic_cq_poll(t.rig->node[I].cq, 1, &wc) == 1)
		check_completion(&wc);
}

static void post_receives(void)
{
	for (unsigned n = O; n <= G; n++)
		while (t.posted_recvs[n] < t.taken[n] + RECVS && (!t.slow || pick(8) == 0)) {
			uint32_t k = t.posted_recvs[n]++;

			share_recv(&t.rig->node[n], k, RECV_AT + k % RECVS * RECV_LEN, RECV_LEN);
		}
}

/** Connect the QPs anew, in the middle of READs, which change nothing. Until then, `t.renew` requests are executed. */
static void renew(void)
{
	if (t.posted < t.renew || t.completed < t.renew)
		return;
	t.renewed = t.renew;
	t.renew = UINT32_MAX;
	for (unsigned k = 1 + pick(6); k > 0; k--) {
		struct nic_send_wr wr = share_wr(t.rig, pick(4) ? G : O, NIC_WR_RDMA_READ, 0, pick(SLOT), READ_AT);

		wr.wr_id = ABANDONED;
		assert_int_equal(nic_post_send(t.rig->node[I].qp, &wr), 0);
	}
	for (unsigned k = pick(2) ? pick(12) : pick(200); k > 0; k--)
		share_step(t.rig);
	share_connect(t.rig, 1 << 23, 3 << 22);
}

/** Nothing was lost: neither side has seen a gap. If every receive was there, nothing was sent again. */
static void check_undisturbed(void)
{
	struct nic_qp_counters i, o;

	nic_qp_counters(t.rig->node[I].qp, &i);
	nic_qp_counters(t.rig->node[O].qp, &o);
	assert_int_equal(o.seq_naks_tx, 0);
	assert_int_equal(i.timeouts, 0);
	if (t.slow)
		return;
	assert_int_equal(o.duplicates_rx, 0);
	assert_int_equal(i.retransmits, 0);
}

static void check_end(void)
{
	share_run(t.rig, 20 * SHARE_SECOND);
	take_completions();
	for (unsigned n = O; n <= G; n++) {
		const struct share_node *node = &t.rig->node[n];

		assert_int_equal(t.taken[n], t.wanted[n]);
		assert_memory_equal(node->arena + WRITE_AT, t.write[n], sizeof(t.write[n]));
		assert_memory_equal(node->arena + WORDS_AT, t.word[n], sizeof(t.word[n]));
	}
	assert_int_equal(t.rig->msn, OPS - t.renewed);
	assert_int_equal(share_events(t.rig) & ~(1ull << NIC_EVENT_COMM_EST), 0);
	assert_int_equal(nic_qp_state(t.rig->node[O].qp), NIC_QPS_RTS);
}

static void run(uint64_t seed, uint32_t near, uint32_t far)
{
	const struct share_opts opts = {.one_gid = seed & 1,
					.port_mtu = seed % 8 < 3 ? NIC_MTU_4096 : NIC_MTU_1024,
					.ack_delay_ns = seed % 11 < 4 ? 20000 : 0};
	uint32_t depth;
	uint64_t until, lent = t.lent;

	memset(&t, 0, sizeof(t));
	t.rig = share_create_with(seed, &opts);
	t.rig->attr.path_mtu = pick(3) ? NIC_MTU_256 : NIC_MTU_256 + pick(opts.port_mtu);
	t.rig->attr.max_rd_atomic = t.rig->attr.max_dest_rd_atomic = (uint8_t)(1 << pick(5));
	t.slow = seed % 3 == 0;
	t.renew = seed % 4 == 1 ? 1 + pick(OPS - 1) : UINT32_MAX;
	depth = seed % 5 == 0 ? 1 : 1 + pick(SHARE_WRS);
	t.rig->attr.timeout = seed % 4 == 0 ? 14 : 17;
	share_connect(t.rig, seed % 2 ? 0xfffff0 - pick(64) : pick(1 << 24), pick(2) ? 0xffffff - pick(32) : 5);
	t.rig->astray = seed % 7 == 0;
	t.rig->lose[0] = t.rig->twice[0] = near;
	t.rig->lose[1] = t.rig->twice[1] = far;
	for (unsigned n = O; n <= G; n++)
		share_fill(t.rig->node[n].arena, WRITE_AT, n);
	until = t.rig->now + PATIENCE;
	while (t.completed < OPS) {
		renew();
		while (t.posted < OPS && t.posted < t.renew && t.posted < t.completed + depth && pick(3))
			post();
		post_receives();
		if (!share_turn(t.rig, until)) /* what is missing may be a receive, or the next request */
			t.rig->now += 100000;
		assert_true(t.rig->now < until);
		take_completions();
	}
	check_end();
	if (!near && !far)
		check_undisturbed();
	t.lent = lent + t.rig->carried[1];
	share_destroy(t.rig);
}

static uint64_t seed_now;

static int teardown(void **state)
{
	(void)state;
	if (seed_now) /* the seed of the failed run */
		fprintf(stderr, "SHARE_SEED=%llu, %u of %u requests completed\n", (unsigned long long)seed_now,
			t.completed, t.posted);
	seed_now = 0;
	return 0;
}

static void runs(uint32_t near, uint32_t far, uint32_t series)
{
	const char *one = getenv("SHARE_SEED"), *many = getenv("SHARE_SEEDS");
	uint64_t from = one ? strtoull(one, NULL, 0) : 1;
	uint64_t to = one ? from : many ? strtoull(many, NULL, 0) : series;

	for (seed_now = from; seed_now <= to; seed_now++)
		run(seed_now, near, far);
	seed_now = 0;
	assert_true(t.lent > 0);
}

static void xrc_share__a_mix_of_requests_matches_a_model(void **state)
{
	(void)state;
	runs(0, 0, SERIES / 3);
}

static void xrc_share__every_request_is_executed_once_if_packets_are_lost(void **state)
{
	(void)state;
	runs(100, 0, SERIES);
}

static void xrc_share__every_request_is_executed_once_if_messages_of_the_share_are_lost(void **state)
{
	(void)state;
	runs(0, 50, SERIES / 3);
}

static void xrc_share__every_request_is_executed_once_if_any_packet_is_lost(void **state)
{
	(void)state;
	runs(100, 50, SERIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(xrc_share__a_mix_of_requests_matches_a_model, teardown),
		cmocka_unit_test_teardown(xrc_share__every_request_is_executed_once_if_packets_are_lost, teardown),
		cmocka_unit_test_teardown(xrc_share__every_request_is_executed_once_if_messages_of_the_share_are_lost,
					  teardown),
		cmocka_unit_test_teardown(xrc_share__every_request_is_executed_once_if_any_packet_is_lost, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
