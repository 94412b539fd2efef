/* SPDX-License-Identifier: BSD-3-Clause */
/* test_foresee.c - payloads by reference whose destination is foreseen, that is, known before their packets are
 * executed (nic/qp/foresee.c). */
#include "refer_rig.h"

#include "train.h"

#define ONE 16384u /* bytes of a message that fits in one packet */

struct ahead {
	struct refer r;
	struct train t;
};

static void ahead_open(struct ahead *h)
{
	*h = (struct ahead){.r = refer_create(NULL)};
	h->t.to = h->r.pair->rig[B]->nic;
}

static struct rig *rig_of(struct ahead *h, enum pair_side side)
{
	return h->r.pair->rig[side];
}

/** Take all packets that side `from` has to send, and hold them back. @return the number of packets */
static unsigned take_all(struct ahead *h, enum pair_side from)
{
	while (train_take(&h->t, rig_of(h, from)->nic, h->r.path[from], rig_of(h, from)->now))
		;
	return h->t.n;
}

static void give(struct ahead *h, enum pair_side to)
{
	h->t.to = rig_of(h, to)->nic;
	train_give(&h->t, rig_of(h, to)->now);
}

static void write_one(struct ahead *h, uint64_t id, enum nic_wr_opcode opcode, uint32_t to)
{
	refer_post(&h->r, id, opcode, 0, ONE, to);
}

static void foresee__writes(void **state)
{
	struct ahead h;

	(void)state;
	ahead_open(&h);
	for (uint32_t i = 0; i < 4; i++)
		write_one(&h, i, NIC_WR_RDMA_WRITE, THERE + i * ONE);
	assert_int_equal(take_all(&h, A), 4);
	give(&h, B);
	for (uint32_t i = 0; i < 4; i++) {
		assert_ptr_equal(h.t.car[i].went, rig_of(&h, B)->arena + THERE + i * ONE);
		assert_ptr_equal(h.t.car[i].foreseen, i ? h.t.car[i].went : NULL);
		EXPECT_SAME(&h.r, THERE + i * ONE, 0, ONE);
	}
	refer_run(&h.r);
	refer_destroy(&h.r);
}

/** Of the requests, only a plain WRITE has its destination foreseen, not a WRITE with immediate or a SEND. */
static void foresee__only_plain_writes_are_foreseen(void **state)
{
	static const enum nic_wr_opcode other[] = {NIC_WR_RDMA_WRITE_WITH_IMM, NIC_WR_SEND};

	(void)state;
	for (unsigned k = 0; k < sizeof(other) / sizeof(other[0]); k++) {
		struct ahead h;

		ahead_open(&h);
		rig_post_recv(rig_of(&h, B), 100, THERE + 3 * ONE, ONE);
		write_one(&h, 0, NIC_WR_RDMA_WRITE, THERE);
		write_one(&h, 1, other[k], THERE + ONE);
		write_one(&h, 2, NIC_WR_RDMA_WRITE, THERE + 2 * ONE);
		assert_int_equal(take_all(&h, A), 3);
		give(&h, B);
		assert_null(h.t.car[1].foreseen);
		assert_non_null(h.t.car[2].went);
		refer_run(&h.r);
		refer_destroy(&h.r);
	}
}

/** When a packet between two others is lost, the packet after it is neither foreseen nor executed. */
static void foresee__a_lost_packet_stops_foreseeing(void **state)
{
	struct ahead h;

	(void)state;
	ahead_open(&h);
	for (uint32_t i = 0; i < 3; i++)
		write_one(&h, i, NIC_WR_RDMA_WRITE, THERE + i * ONE);
	assert_int_equal(take_all(&h, A), 3);
	h.t.car[1] = h.t.car[2];
	h.t.car[1].reference.ctx = &h.t;
	h.t.n = 2;
	give(&h, B);
	assert_null(h.t.car[1].foreseen);
	assert_null(h.t.car[1].went);
	refer_run(&h.r);
	EXPECT_SAME(&h.r, THERE + 2 * ONE, 0, ONE);
	refer_destroy(&h.r);
}

/** A WRITE with a wrong R_Key will be refused: neither its destination nor that of later WRITEs is foreseen. */
static void foresee__a_bad_rkey_stops_foreseeing(void **state)
{
	struct ahead h;
	struct nic_send_wr wr;

	(void)state;
	ahead_open(&h);
	write_one(&h, 0, NIC_WR_RDMA_WRITE, THERE);
	wr = pair_wr(h.r.pair, 1, NIC_WR_RDMA_WRITE, 0, ONE, THERE + ONE);
	wr.rdma.rkey ^= 1;
	rig_post(rig_of(&h, A), &wr);
	write_one(&h, 2, NIC_WR_RDMA_WRITE, THERE + 2 * ONE);
	assert_int_equal(take_all(&h, A), 3);
	give(&h, B);
	assert_non_null(h.t.car[0].went);
	assert_null(h.t.car[1].foreseen);
	assert_null(h.t.car[2].foreseen);
	assert_null(h.t.car[2].went);
	refer_run(&h.r);
	refer_destroy(&h.r);
}

/** Deliver side A's READs to side B. Then deliver all n packets that side B sends back, at once. */
static void read_answers(struct ahead *h, unsigned n)
{
	take_all(h, A);
	give(h, B);
	assert_int_equal(take_all(h, B), n);
	give(h, A);
}

static void foresee__answers_to_reads(void **state)
{
	struct ahead h;

	(void)state;
	ahead_open(&h);
	for (uint32_t i = 0; i < LEN; i++)
		rig_of(&h, B)->arena[THERE + i] = (uint8_t)(i * 7 + (i >> 7));
	for (uint32_t i = 0; i < 2; i++)
		refer_post(&h.r, i, NIC_WR_RDMA_READ, i * ONE, ONE, THERE + i * ONE);
	read_answers(&h, 2);
	assert_ptr_equal(h.t.car[1].went, rig_of(&h, A)->arena + ONE);
	assert_ptr_equal(h.t.car[1].foreseen, h.t.car[1].went);
	EXPECT_SAME(&h.r, THERE, 0, 2 * ONE);
	refer_run(&h.r);
	refer_destroy(&h.r);
}

/** The destination of a READ response is not foreseen if the READ has several SGEs. */
static void foresee__read_responses_to_several_sges_are_not(void **state)
{
	struct ahead h;
	struct nic_send_wr wr;
	struct nic_sge two[2];

	(void)state;
	ahead_open(&h);
	refer_post(&h.r, 0, NIC_WR_RDMA_READ, 0, ONE, THERE);
	wr = pair_wr(h.r.pair, 1, NIC_WR_RDMA_READ, ONE, ONE, THERE + ONE);
	two[0] = two[1] = wr.sg_list[0];
	two[0].length = 100;
	two[1].addr += 100;
	two[1].length = ONE - 100;
	wr.sg_list = two;
	wr.num_sge = 2;
	rig_post(rig_of(&h, A), &wr);
	read_answers(&h, 2);
	assert_null(h.t.car[1].foreseen);
	EXPECT_SAME(&h.r, THERE, 0, 2 * ONE);
	refer_run(&h.r);
	refer_destroy(&h.r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(foresee__writes),
		cmocka_unit_test(foresee__only_plain_writes_are_foreseen),
		cmocka_unit_test(foresee__a_lost_packet_stops_foreseeing),
		cmocka_unit_test(foresee__a_bad_rkey_stops_foreseeing),
		cmocka_unit_test(foresee__answers_to_reads),
		cmocka_unit_test(foresee__read_responses_to_several_sges_are_not),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
