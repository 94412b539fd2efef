/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_masked.c - extended atomics from the work request to memory and back: what is refused when posted, their packet
 * format (nic/mem/extended.md), the responder, and that the rules of standard atomics apply to them (IBTA 9.4.5).
 */
#include <pthread.h>

#include "../atomic_model.h"
#include "atomic.h"
#include "mem.h"
#include "pair.h"
#include "resp_util.h"

static const uint32_t sizes[] = {4, 8, 16, 32};

#define SIZES (sizeof(sizes) / sizeof(*sizes))

static struct nic_atomic masked(enum nic_atomic_op op, uint32_t size)
{
	struct nic_atomic a = {.op = op, .size = size};

	for (unsigned i = 0; i * 8 < size; i++) {
		uint64_t half = size == 4 ? UINT32_MAX : UINT64_MAX;

		a.swap_add[i] = 0x1122334455667788 * (i + 1) & half;
		a.compare[i] = 0x0101010101010101 * (i + 1) & half;
		a.swap_mask[i] = 0x00ffff00ff00ff00 & half;
		a.compare_mask[i] = 0xf0f0f0f0f0f0f0f0 & half;
		a.boundary[i] = 0x8000800080008000 & half;
	}
	return a;
}

static enum nic_wr_opcode wr_opcode(const struct nic_atomic *a)
{
	return a->op == NIC_ATOMIC_MCS ? NIC_WR_MASKED_CMP_AND_SWP : NIC_WR_MASKED_FETCH_AND_ADD;
}

/** A WR that side a posts for an operation on arena[remote] of side b. */
static struct nic_send_wr masked_wr(struct pair *pair, uint64_t id, const struct nic_atomic *a, uint32_t offset,
				    uint32_t remote)
{
	struct nic_send_wr wr = pair_wr(pair, id, wr_opcode(a), offset, a->size, remote);
	uint64_t va = wr.rdma.remote_addr;
	uint32_t rkey = wr.rdma.rkey;

	wr.masked.remote_addr = va;
	wr.masked.rkey = rkey;
	wr.masked.operation = a;
	return wr;
}

static void put_be(uint8_t *wire, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		wire[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/** Store operand words in packet format: pieces of at most eight bytes, each in network order. */
static void put_words(uint8_t *wire, const uint64_t *words, uint32_t size)
{
	if (size == 4)
		put_be(wire, words[0], 4);
	for (uint32_t i = 0; i < size / 8; i++)
		put_be(wire + 8 * i, words[i], 8);
}

static uint32_t put_operands(uint8_t *wire, const struct nic_atomic *a)
{
	const uint64_t *operands[] = {a->swap_add, a->op == NIC_ATOMIC_MCS ? a->compare : a->boundary, a->swap_mask,
				      a->compare_mask};
	unsigned n = a->op == NIC_ATOMIC_MCS ? 4 : 2;

	for (unsigned i = 0; i < n; i++)
		put_words(wire + i * a->size, operands[i], a->size);
	return n * a->size;
}

/** The peer's request for operation `a` on arena[offset]; the payload is in peer_data. */
static struct packet request(struct rig *rig, const struct nic_atomic *a, uint32_t psn, uint32_t offset)
{
	struct packet p = rig_peer_packet(rig, a->op == NIC_ATOMIC_MCS ? MASKED_CMP_SWAP : MASKED_FETCH_ADD, psn);

	p.va = rig_va(rig, offset);
	p.log_size = (uint8_t)__builtin_ctz(a->size);
	p.payload = rig->peer_data;
	p.payload_len = put_operands(rig->peer_data, a);
	return p;
}

static uint32_t align32(const struct rig *rig)
{
	return (uint32_t)(-(uintptr_t)rig->arena & 31) + 64;
}

/** Assert that the responder refuses the request and leaves memory unchanged. */
static void expect_refused(struct rig *rig, const struct packet *p, unsigned syndrome)
{
	assert_true(rig_rx(rig, p));
	expect_fatal(rig, E, syndrome);
	rig_expect_untouched(rig, 0, RIG_ARENA);
}

/* ---- posting --------------------------------------------------------------------------------------------------- */

static void masked__wrong_sizes_are_refused_when_posted(void **state)
{
	static const uint32_t wrong[] = {0, 1, 2, 3, 5, 7, 12, 24, 33, 64, 0x80000000};
	struct pair *pair = pair_create(NULL, 0x100, 0x200);
	struct rig *rig = pair->rig[0];

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, 8);
		struct nic_send_wr wr = masked_wr(pair, 1, &a, 0, 64);

		a.size = wrong[i];
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		a.size = 16; /* the result buffer has only 8 bytes */
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
	}
	rig_expect_silence(rig);
	pair_destroy(pair);
}

static void masked__an_operation_not_matching_the_opcode_is_refused(void **state)
{
	static const enum nic_atomic_op ops[] = {NIC_ATOMIC_CAS, NIC_ATOMIC_FAA, NIC_ATOMIC_MFA};
	struct pair *pair = pair_create(NULL, 0x100, 0x200);

	for (unsigned i = 0; i < 3; i++) {
		struct nic_atomic a = masked(NIC_ATOMIC_MCS, 8);
		struct nic_send_wr wr = masked_wr(pair, 1, &a, 0, 64);

		a.op = ops[i];
		assert_int_equal(nic_post_send(pair->rig[0]->qp, &wr), -EINVAL);
	}
	pair_destroy(pair);
}

static void masked__refused_on_uc_and_ud_and_with_inline(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD, NIC_QPT_RC};

	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i / 2]});
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, 8);
		struct nic_send_wr wr = rig_wr(rig, 1, wr_opcode(&a), 0, 8);

		wr.masked.operation = &a;
		wr.flags = types[i / 2] == NIC_QPT_RC ? NIC_SEND_INLINE : 0;
		assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

static void masked__size_over_the_qps_limit(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t limits[] = {0, 8, 16, 32};

	for (unsigned i = 0; i < 4; i++) {
		struct nic_qp_init init = {.type = NIC_QPT_RC,
					   .pd = rig->pd,
					   .send_cq = rig->send_cq,
					   .recv_cq = rig->recv_cq,
					   .cap = {4, 4, 1, 1, 0},
					   .max_atomic_arg = limits[i]};
		struct nic_qp *first = rig->qp;

		assert_int_equal(nic_qp_create(rig->nic, &init, &rig->qp), 0);
		rig_to_rts(rig);
		for (unsigned s = 0; s < SIZES; s++) {
			struct nic_atomic a = masked(NIC_ATOMIC_MCS, sizes[s]);
			struct nic_send_wr wr = rig_wr(rig, 1, wr_opcode(&a), 0, sizes[s]);

			wr.masked.operation = &a;
			assert_int_equal(nic_post_send_check(rig->qp, &wr, 0), sizes[s] <= limits[i] ? 0 : -EINVAL);
		}
		assert_int_equal(nic_qp_destroy(rig->qp), 0);
		rig->qp = first;
	}
	rig_destroy(rig);
}

static void masked__invalid_max_atomic_arg_is_refused(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_qp_init init = {.type = NIC_QPT_RC,
				   .pd = rig->pd,
				   .send_cq = rig->send_cq,
				   .recv_cq = rig->recv_cq,
				   .max_atomic_arg = 33};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	init.type = NIC_QPT_UC;
	init.max_atomic_arg = 8;
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	rig_destroy(rig);
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static void masked__request_packets_carry_all_operands(void **state)
{
	struct rig *rig = rig_create(NULL);

	rig->attr.max_rd_atomic = 2 * SIZES;
	rig_to_rts(rig);
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, sizes[i / 2]);
		struct nic_send_wr wr = rig_wr(rig, i, wr_opcode(&a), 0, a.size);
		uint8_t operands[128];
		struct packet p;

		wr.masked.remote_addr = RIG_REMOTE_VA;
		wr.masked.rkey = RIG_REMOTE_RKEY;
		wr.masked.operation = &a;
		rig_post(rig, &wr);
		p = rig_expect_tx(rig, i & 1 ? MASKED_CMP_SWAP : MASKED_FETCH_ADD, RIG_SQ_PSN + i);
		assert_true(p.ackreq);
		assert_true(p.va == RIG_REMOTE_VA);
		assert_int_equal(p.rkey, RIG_REMOTE_RKEY);
		assert_int_equal(1u << p.log_size, a.size);
		assert_int_equal(p.payload_len, put_operands(operands, &a));
		assert_memory_equal(p.payload, operands, p.payload_len);
	}
	rig_destroy(rig);
}

/** Check the bytes of a request packet directly, without packet_parse. */
static void masked__a_request_byte_by_byte(void **state)
{
	static const uint8_t header[] = {0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00, /* RIG_REMOTE_VA */
					 0x51, 0x52, 0x53, 0x54,			 /* RIG_REMOTE_RKEY */
					 4,    0,    0,	   0};
	struct rig *rig = rig_ready(NULL);
	struct nic_atomic a = masked(NIC_ATOMIC_MFA, 16);
	struct nic_send_wr wr = rig_wr(rig, 1, wr_opcode(&a), 0, 16);
	const uint8_t *frame;

	wr.masked.remote_addr = RIG_REMOTE_VA;
	wr.masked.rkey = RIG_REMOTE_RKEY;
	wr.masked.operation = &a;
	rig_post(rig, &wr);
	rig_expect_tx(rig, MASKED_FETCH_ADD, RIG_SQ_PSN);
	frame = rig->frames[rig->frame];
	assert_int_equal(frame[28], 0xc1);
	assert_memory_equal(frame + 40, header, sizeof(header));
	assert_int_equal(rig->frame_lens[rig->frame], 40 + 16 + 2 * 16 + 4);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(frame[56 + i], (uint8_t)(a.swap_add[0] >> 8 * (7 - i)));
	rig_destroy(rig);
}

/** A request for eight bytes is answered by a standard ATOMIC ACK, other sizes by an EXT_ATOMIC_ACK. */
static void masked__8_byte_results_use_atomic_ack_and_others_ext_atomic_ack(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t at = align32(rig);

	for (unsigned i = 0; i < 2 * SIZES; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, sizes[i / 2]);
		struct packet p = request(rig, &a, E + i, at);
		uint64_t before[NIC_ATOMIC_WORDS] = {0};
		uint8_t wire[NIC_ATOMIC_SIZE_MAX];

		model_to_words(before, rig->arena + at, a.size);
		put_words(wire, before, a.size);
		assert_true(rig_rx(rig, &p));
		p = rig_expect_tx(rig, a.size == 8 ? ATOMIC_ACK : EXT_ATOMIC_ACK, E + i);
		assert_int_equal(p.syndrome, SYN_ACK);
		if (a.size == 8) {
			assert_true(p.orig == before[0]);
			continue;
		}
		assert_int_equal(p.payload_len, a.size);
		assert_memory_equal(p.payload, wire, a.size);
	}
	rig_destroy(rig);
}

/* ---- from post to completion ----------------------------------------------------------------------------------- */

static void masked__from_post_to_completion(void **state)
{
	struct pair *pair = pair_create(NULL, 0xfffffe, 0x200);
	struct rig *a = pair->rig[0], *b = pair->rig[1];
	uint32_t at = align32(b);

	for (unsigned i = 0; i < 4 * SIZES; i++) {
		struct nic_atomic op = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, sizes[i / 4]);
		_Alignas(32) uint64_t expect[NIC_ATOMIC_WORDS], orig[NIC_ATOMIC_WORDS];
		uint8_t was[NIC_ATOMIC_SIZE_MAX];
		struct nic_send_wr wr;
		struct nic_wc wc;

		memcpy(expect, b->arena + at, op.size);
		if (i & 2) /* make the comparison succeed */
			model_to_words(op.compare, expect, op.size);
		wr = masked_wr(pair, i, &op, 0, at);
		atomic_execute(&op, expect, orig);
		rig_post(a, &wr);
		memset(&op, 0xee, sizeof(op)); /* the operation was copied when it was posted */
		pair_run(pair);
		wc = rig_expect_wc(a->send_cq, i, NIC_WC_SUCCESS);
		assert_int_equal(wc.opcode, i & 1 ? NIC_WC_MASKED_COMP_SWAP : NIC_WC_MASKED_FETCH_ADD);
		assert_int_equal(wc.byte_len, sizes[i / 4]);
		model_from_words(was, orig, sizes[i / 4]);
		assert_memory_equal(a->arena, was, sizes[i / 4]);
		assert_memory_equal(b->arena + at, expect, sizes[i / 4]);
		rig_expect_untouched(a, sizes[i / 4], 64);
		rig_expect_untouched(b, at + sizes[i / 4], 64);
	}
	pair_destroy(pair);
}

/** Results of the sizes in be_replies stay in network order, those of other sizes are in host order. */
static void masked__replies_in_network_order(void **state)
{
	struct pair *pair = pair_create(&(struct rig_opts){.be_replies = 4 | 16 | 32}, 0x100, 0x200);
	struct rig *a = pair->rig[0], *b = pair->rig[1];
	uint32_t at = align32(b);

	for (unsigned s = 0; s < SIZES; s++) {
		struct nic_atomic op = masked(NIC_ATOMIC_MFA, sizes[s]);
		struct nic_send_wr wr = masked_wr(pair, s, &op, 0, at);
		uint64_t before[NIC_ATOMIC_WORDS];
		uint8_t expect[NIC_ATOMIC_SIZE_MAX];

		model_to_words(before, b->arena + at, sizes[s]);
		memcpy(expect, b->arena + at, sizes[s]);
		if (sizes[s] != 8)
			put_words(expect, before, sizes[s]);
		rig_post(a, &wr);
		pair_run(pair);
		rig_expect_wc(a->send_cq, s, NIC_WC_SUCCESS);
		assert_memory_equal(a->arena, expect, sizes[s]);
	}
	pair_destroy(pair);
}

/** With be_replies, results of standard atomics stay in network order, too. */
static void masked__standard_replies_in_network_order(void **state)
{
	struct pair *pair = pair_create(&(struct rig_opts){.be_replies = 8}, 0x100, 0x200);
	struct nic_send_wr wr = pair_wr(pair, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 64);

	arena_set_u64(pair->rig[1], 64, 0x0102030405060708);
	wr.atomic.compare_add = 1;
	rig_post(pair->rig[0], &wr);
	pair_run(pair);
	rig_expect_wc(pair->rig[0]->send_cq, 1, NIC_WC_SUCCESS);
	assert_memory_equal(pair->rig[0]->arena, ((const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8}), 8);
	assert_true(arena_u64(pair->rig[1], 64) == 0x0102030405060709);
	pair_destroy(pair);
}

/* ---- what the responder refuses -------------------------------------------------------------------------------- */

static void masked__AT_01_address_must_be_a_multiple_of_the_size(void **state)
{
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, sizes[i / 2]);
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, &a, E, align32(rig) + a.size / 2);

		expect_refused(rig, &p, SYN_INV);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_destroy(rig);
	}
}

static void masked__AT_10_unknown_sizes_and_lengths_are_refused(void **state)
{
	for (unsigned i = 0; i < 18; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, 8);
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, &a, E, align32(rig));
		static const uint8_t log_sizes[] = {0, 1, 6, 30, 31, 32, 34, 63, 255};

		/* The payload is as long as the operands of this size. For the largest sizes it is empty, because a
		 * length of 4 << 30 or more overflows to 0 in 32 bits. */
		p.log_size = log_sizes[i / 2];
		p.payload_len = p.log_size < 8 ? (i & 1 ? 4u : 2u) << p.log_size : 0;
		expect_refused(rig, &p, SYN_INV);
		rig_destroy(rig);
	}
	for (unsigned i = 0; i < 6; i++) {
		struct nic_atomic a = masked(NIC_ATOMIC_MCS, 8);
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, &a, E, align32(rig));
		static const uint32_t lengths[] = {0, 8, 31, 33, 64, 256};

		p.payload_len = lengths[i];
		expect_refused(rig, &p, SYN_INV);
		rig_destroy(rig);
	}
}

static void masked__AT_10_key_rights_and_range(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, 16);
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, &a, E, align32(rig));
		struct nic_mr *mr;

		if (i / 2 == 0) {
			p.rkey ^= 1;
		} else if (i / 2 == 1) {
			p.va = rig_va(rig, RIG_ARENA) & ~15ull; /* at or beyond the end of the region */
		} else if (i / 2 == 2) {			/* only half of the operand is inside */
			assert_int_equal(nic_mr_reg(rig->pd, rig->arena, align32(rig) + 8, rig_va(rig, 0),
						    NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_ATOMIC, &mr),
					 0);
			p.rkey = nic_mr_rkey(mr);
		} else {
			assert_int_equal(
				nic_mr_reg(rig->pd, rig->arena, RIG_ARENA, rig_va(rig, 0),
					   NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ,
					   &mr),
				0);
			p.rkey = nic_mr_rkey(mr);
		}
		expect_refused(rig, &p, SYN_ACCESS);
		rig_destroy(rig);
	}
}

static void masked__AT_10_RO_05_requests_over_max_dest_rd_atomic_are_refused(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_atomic a = masked(NIC_ATOMIC_MFA, 4);
	uint32_t at = align32(rig), before, after;
	struct packet p;

	rig->attr.max_dest_rd_atomic = 2;
	rig_to_rts(rig);
	a.boundary[0] = 0;
	a.swap_add[0] = 1;
	memcpy(&before, rig->arena + at, 4);
	for (unsigned i = 0; i < 3; i++) {
		p = request(rig, &a, E + i, at);
		assert_true(rig_rx(rig, &p));
	}
	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	/* Two responder resources: the first two requests are executed and answered, the third one is refused. */
	rig_expect_tx(rig, EXT_ATOMIC_ACK, E);
	rig_expect_tx(rig, EXT_ATOMIC_ACK, E + 1);
	rig_expect_ack(rig, E + 2, SYN_INV);
	memcpy(&after, rig->arena + at, 4);
	assert_int_equal(after, before + 2);
	rig_destroy(rig);
}

static void masked__requests_to_a_uc_or_ud_qp_are_dropped(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD};

	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i]});
		struct nic_atomic a = masked(NIC_ATOMIC_MFA, 8);
		struct packet p = request(rig, &a, E, align32(rig));
		uint64_t before = rig_counter(rig, rx_bad_service);

		rig_rx(rig, &p);
		assert_int_equal(rig_counter(rig, rx_bad_service), before + 1);
		rig_expect_silence(rig);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

/** A fault releases the lock of a 32-byte operation: another QP's operation on the same bytes is executed. */
static void masked__a_memory_fault_releases_the_lock(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.guard = rig_guard});
	struct nic_atomic a = masked(NIC_ATOMIC_MFA, 32);
	struct packet p = request(rig, &a, E, align32(rig));

	rig_good_accesses = 0;
	expect_refused(rig, &p, SYN_OP);
	rig->qp = rig_qp_create(rig);
	rig_to_rts(rig);
	rig_good_accesses = 1;
	p = request(rig, &a, E, align32(rig));
	p.dest_qpn = nic_qp_num(rig->qp);
	assert_true(rig_rx(rig, &p));
	rig_expect_tx(rig, EXT_ATOMIC_ACK, E);
	rig_destroy(rig);
}

/* ---- several NICs on the same memory ----------------------------------------------------------------------------- */

static _Alignas(32) uint64_t shared[NIC_ATOMIC_WORDS];

struct executor {
	struct rig *rig;
	unsigned torn, faults;
};

static void *execute_often(void *arg)
{
	const struct nic_atomic one_each = {.op = NIC_ATOMIC_MFA, .size = 32, .swap_add = {1, 1, 1, 1}};
	struct executor *x = arg;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t orig[NIC_ATOMIC_WORDS];

		x->faults += !mem_atomic(x->rig->nic, &one_each, (uint8_t *)shared, orig);
		x->torn += orig[1] != orig[0] || orig[2] != orig[0] || orig[3] != orig[0];
	}
	return NULL;
}

static void masked__32_bytes_are_atomic_among_the_nics_of_a_process(void **state)
{
	struct executor x[2] = {{.rig = rig_ready(NULL)}, {.rig = rig_ready(NULL)}};
	pthread_t threads[2];

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, execute_often, &x[i]), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(x[i].torn, 0);
		assert_int_equal(x[i].faults, 0);
		rig_destroy(x[i].rig);
	}
	for (unsigned i = 0; i < NIC_ATOMIC_WORDS; i++)
		assert_int_equal(shared[i], 200000);
}

/* ---- duplicates, losses, wrong responses ----------------------------------------------------------------------- */

static void masked__RP_04_a_duplicate_gets_the_saved_value(void **state)
{
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		struct nic_atomic a = masked(i & 1 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, sizes[i / 2]);
		struct rig *rig = rig_ready(NULL);
		uint32_t at = align32(rig);
		struct packet p = request(rig, &a, E, at), first, again;
		uint8_t after[NIC_ATOMIC_SIZE_MAX], saved[NIC_ATOMIC_SIZE_MAX];

		assert_true(rig_rx(rig, &p));
		first = rig_expect_tx(rig, a.size == 8 ? ATOMIC_ACK : EXT_ATOMIC_ACK, E);
		memcpy(saved, first.payload, first.payload_len);
		memcpy(after, rig->arena + at, a.size);
		assert_true(rig_rx(rig, &p));
		again = rig_expect_tx(rig, a.size == 8 ? ATOMIC_ACK : EXT_ATOMIC_ACK, E);
		assert_true(a.size != 8 || again.orig == first.orig);
		assert_int_equal(again.payload_len, first.payload_len);
		assert_memory_equal(again.payload, saved, first.payload_len);
		assert_memory_equal(rig->arena + at, after, a.size);
		rig_destroy(rig);
	}
}

static void masked__AT_08_exactly_once_under_loss_and_duplication(void **state)
{
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_LATE, PAIR_DAMAGE, PAIR_SWAP};

	for (unsigned i = 0; i < SIZES * 2 * 5 * 4; i++) {
		struct pair *pair = pair_create(NULL, 0xfffffe, 0xffffff);
		struct rig *a = pair->rig[0], *b = pair->rig[1];
		uint32_t size = sizes[i % 4], at = align32(b);
		uint64_t words[NIC_ATOMIC_WORDS];
		struct pair_rule rule = {.side = i / 4 & 1 ? PAIR_B : PAIR_A, .nth = i / 8 % 4, .fate = fates[i / 32]};

		rule.op = rule.side == PAIR_A ? MASKED_FETCH_ADD : size == 8 ? ATOMIC_ACK : EXT_ATOMIC_ACK;
		memset(b->arena + at, 0, 32);
		pair_script(pair, &rule, 1);
		for (uint32_t k = 0; k < 4; k++) {
			struct nic_atomic op = {.op = NIC_ATOMIC_MFA, .size = size, .swap_add = {1ull << 8 * k}};
			struct nic_send_wr wr = masked_wr(pair, k, &op, 32 * k, at);

			rig_post(a, &wr);
		}
		pair_run(pair);
		for (uint32_t k = 0; k < 4; k++) {
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
			model_to_words(words, a->arena + 32 * k, size);
			assert_int_equal((uint32_t)words[0], 0x01010101u & ((1ull << 8 * k) - 1));
		}
		rig_expect_no_wc(a->send_cq);
		model_to_words(words, b->arena + at, size);
		assert_int_equal((uint32_t)words[0], 0x01010101);
		pair_destroy(pair);
	}
}

/** A response of the wrong kind or length is not accepted. */
static void masked__wrong_responses(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_atomic a = masked(NIC_ATOMIC_MFA, i < 2 ? 8 : 16);
		struct nic_send_wr wr = rig_wr(rig, 1, wr_opcode(&a), 0, a.size);
		struct packet p;

		wr.masked.operation = &a;
		rig_post(rig, &wr);
		rig_expect_tx(rig, MASKED_FETCH_ADD, RIG_SQ_PSN);
		p = rig_peer_data(rig,
				  i == 1 || i == 2 ? EXT_ATOMIC_ACK
				  : i == 3	   ? ATOMIC_ACK
						   : READ_RESP_ONLY,
				  RIG_SQ_PSN, 0,
				  i == 1   ? 8
				  : i == 2 ? 32
				  : i == 0 ? 8
					   : 0);
		p.syndrome = SYN_ACK;
		rig_rx(rig, &p);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
		rig_expect_untouched(rig, 0, 64);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masked__wrong_sizes_are_refused_when_posted),
		cmocka_unit_test(masked__an_operation_not_matching_the_opcode_is_refused),
		cmocka_unit_test(masked__refused_on_uc_and_ud_and_with_inline),
		cmocka_unit_test(masked__size_over_the_qps_limit),
		cmocka_unit_test(masked__invalid_max_atomic_arg_is_refused),
		cmocka_unit_test(masked__request_packets_carry_all_operands),
		cmocka_unit_test(masked__a_request_byte_by_byte),
		cmocka_unit_test(masked__8_byte_results_use_atomic_ack_and_others_ext_atomic_ack),
		cmocka_unit_test(masked__from_post_to_completion),
		cmocka_unit_test(masked__replies_in_network_order),
		cmocka_unit_test(masked__standard_replies_in_network_order),
		cmocka_unit_test(masked__AT_01_address_must_be_a_multiple_of_the_size),
		cmocka_unit_test(masked__AT_10_unknown_sizes_and_lengths_are_refused),
		cmocka_unit_test(masked__AT_10_key_rights_and_range),
		cmocka_unit_test(masked__AT_10_RO_05_requests_over_max_dest_rd_atomic_are_refused),
		cmocka_unit_test(masked__requests_to_a_uc_or_ud_qp_are_dropped),
		cmocka_unit_test(masked__a_memory_fault_releases_the_lock),
		cmocka_unit_test(masked__32_bytes_are_atomic_among_the_nics_of_a_process),
		cmocka_unit_test(masked__RP_04_a_duplicate_gets_the_saved_value),
		cmocka_unit_test(masked__AT_08_exactly_once_under_loss_and_duplication),
		cmocka_unit_test(masked__wrong_responses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
