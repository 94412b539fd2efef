/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_elements_resp.c - operations on elements at the responder: what it refuses, that it executes them exactly once,
 * and that the application's floating-point settings neither affect results nor change.
 */
#include <fenv.h>
#include <float.h>
#include <math.h>

#include "elements_util.h"
#include "qp.h"
#include "resp_util.h"
#include "wire_util.h"

/* ---- what the responder refuses -------------------------------------------------------------------------------- */

static void expect_refused(struct rig *rig, const struct packet *p, unsigned syndrome)
{
	assert_true(rig_rx(rig, p));
	expect_fatal(rig, E, syndrome);
	rig_expect_untouched(rig, 0, RIG_ARENA);
}

static void elements__AT_10_malformed_requests_are_refused(void **state)
{
	for (unsigned i = 0; i < 30; i++) {
		bool fetch = i & 1;
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, NIC_ELEM_SUM, NIC_DT_UINT32, fetch, 2, E, aligned(rig));

		switch (i / 2) {
		case 0:
			p.element.op = NIC_ELEM_COUNT;
			break;
		case 1:
			p.element.op = 255;
			break;
		case 2:
			p.element.datatype = NIC_DT_COUNT;
			break;
		case 3:
			p.element.datatype = 0x80 | NIC_DT_UINT32;
			break;
		case 4:
			p.element.datatype ^= 0x40;
			break;
		case 5:
			p.element.flags = 1;
			break;
		case 6:
			p.element.count = 0;
			p.payload_len = 0;
			break;
		case 7:
			p.element.count = 3;
			break;
		case 8:
			p.element.count = 0x40000002; /* times 4 bytes overflows to 8 in 32 bits */
			break;
		case 9:
			p.payload_len += 4;
			break;
		case 10:
			p.payload_len -= 4;
			break;
		case 11: /* an operation of another form */
			p.element.op = fetch ? NIC_ELEM_CSWAP : NIC_ELEM_ATOMIC_READ;
			break;
		case 12: /* the long double format that this host does not have */
			p.element.datatype = (uint8_t)(elem_wire_of_type(NIC_DT_LONG_DOUBLE) ^ 0x80);
			p.element.count = 1;
			p.payload_len = 16;
			break;
		case 13: /* operation undefined for this datatype */
			p.element.op = NIC_ELEM_BOR;
			p.element.datatype = NIC_DT_FLOAT;
			break;
		/* A result longer than allowed, or operands longer than one packet. */
		default:
			p = request(rig, fetch ? NIC_ELEM_ATOMIC_READ : NIC_ELEM_SUM, NIC_DT_UINT32, fetch,
				    FETCH_MAX / 4 + 1, E, aligned(rig));
		}
		expect_refused(rig, &p, SYN_INV);
		assert_null(rig->qp->resp.saved);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_destroy(rig);
	}
}

/** A result must be no longer than a packet's payload, and no longer than the QP keeps (max_fetch). */
static void elements__results_longer_than_the_limit_are_refused(void **state)
{
	static const uint32_t limits[] = {128, 4096};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.max_fetch = limits[i / 2]});
		uint32_t most = limits[i / 2] < RIG_MTU ? limits[i / 2] : RIG_MTU;
		struct packet p =
			request(rig, NIC_ELEM_ATOMIC_READ, NIC_DT_UINT32, true, most / 4 + i % 2, E, aligned(rig));

		if (i % 2) {
			expect_refused(rig, &p, SYN_INV);
		} else {
			assert_true(rig_rx(rig, &p));
			p = rig_expect_tx(rig, ELEMENTS_ACK, E);
			assert_int_equal(p.payload_len, most);
		}
		rig_destroy(rig);
	}
}

static void elements__AT_01_address_must_be_aligned_for_the_datatype(void **state)
{
	static const unsigned datatypes[] = {NIC_DT_INT16,	   NIC_DT_UINT32, NIC_DT_DOUBLE,
					     NIC_DT_FLOAT_COMPLEX, NIC_DT_INT128, NIC_DT_LONG_DOUBLE_COMPLEX};

	for (unsigned i = 0; i < 12; i++) {
		unsigned dt = datatypes[i / 2];
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, NIC_ELEM_SUM, dt, i & 1, 1, E, aligned(rig) + nic_elem_align(dt) / 2);

		expect_refused(rig, &p, SYN_INV);
		rig_destroy(rig);
		rig = rig_ready(NULL);
		p = request(rig, NIC_ELEM_SUM, dt, i & 1, 1, E, aligned(rig) + nic_elem_align(dt));
		assert_true(rig_rx(rig, &p));
		rig_expect_tx(rig, i & 1 ? ELEMENTS_ACK : ACK, E);
		rig_destroy(rig);
	}
}

static void elements__AT_10_key_rights_and_range(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		struct rig *rig = rig_ready(NULL);
		struct packet p = request(rig, NIC_ELEM_BXOR, NIC_DT_UINT64, i & 1, 4, E, aligned(rig));
		struct nic_mr *mr;

		if (i / 2 == 0) {
			p.rkey ^= 1;
		} else if (i / 2 == 1) {
			p.va = rig_va(rig, RIG_ARENA) & ~15ull;
		} else if (i / 2 == 2) { /* only half of the elements are inside the region */
			assert_int_equal(nic_mr_reg(rig->pd, rig->arena, aligned(rig) + 16, rig_va(rig, 0),
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
		/* A refused request must not allocate memory for its result, which would stay allocated. */
		assert_null(rig->qp->resp.saved);
		rig_destroy(rig);
	}
}

static void elements__not_enabled(void **state)
{
	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_create(&(struct rig_opts){.max_fetch = i / 2 == 0 ? RIG_NO_ELEMENTS : 0});
		struct packet p;

		if (i / 2 == 1)
			rig->attr.qp_access_flags &= ~(uint32_t)NIC_ACCESS_REMOTE_ATOMIC;
		if (i / 2 == 2)
			rig->attr.max_dest_rd_atomic = 0;
		rig_to_rts(rig);
		p = request(rig, NIC_ELEM_BXOR, NIC_DT_UINT64, i & 1, 1, E, aligned(rig));
		if (i == 4) { /* a base operation needs no resource */
			assert_true(rig_rx(rig, &p));
			rig_expect_ack(rig, E, SYN_ACK);
		} else {
			expect_refused(rig, &p, SYN_INV);
		}
		rig_destroy(rig);
	}
}

static void elements__a_memory_fault_releases_the_lock(void **state)
{
	for (unsigned fetch = 0; fetch < 2; fetch++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.nic.guard = rig_guard});
		struct packet p =
			request(rig, NIC_ELEM_ATOMIC_WRITE, NIC_DT_LONG_DOUBLE_COMPLEX, fetch, 1, E, aligned(rig));

		rig_good_accesses = 0;
		expect_refused(rig, &p, SYN_OP);
		rig->qp = rig_qp_create(rig);
		rig_to_rts(rig);
		rig_good_accesses = 1;
		p.dest_qpn = nic_qp_num(rig->qp);
		assert_true(rig_rx(rig, &p));
		rig_expect_tx(rig, fetch ? ELEMENTS_ACK : ACK, E);
		rig_destroy(rig);
	}
}

/* ---- duplicates, losses, wrong responses ----------------------------------------------------------------------- */

static void elements__RP_04_duplicates_are_not_executed_again(void **state)
{
	for (unsigned fetch = 0; fetch < 2; fetch++) {
		struct rig *rig = rig_ready(NULL);
		uint32_t at = aligned(rig);
		struct packet p = request(rig, NIC_ELEM_SUM, NIC_DT_UINT64, fetch, 8, E, at), answer;
		uint8_t after[64], saved[64];

		assert_true(rig_rx(rig, &p));
		answer = rig_expect_tx(rig, fetch ? ELEMENTS_ACK : ACK, E);
		if (fetch)
			memcpy(saved, answer.payload, 64);
		memcpy(after, rig->arena + at, 64);
		for (unsigned again = 0; again < 3; again++) {
			assert_true(rig_rx(rig, &p));
			answer = rig_expect_tx(rig, fetch ? ELEMENTS_ACK : ACK, E);
			assert_int_equal(answer.payload_len, fetch ? 64 : 0);
			if (fetch)
				assert_memory_equal(answer.payload, saved, 64);
			assert_memory_equal(rig->arena + at, after, 64);
		}
		rig_destroy(rig);
	}
}

/** Each responder resource keeps its own response, even after the memory and the number of resources have changed. */
static void elements__RP_11_each_resource_keeps_its_own_response(void **state)
{
	static uint8_t saved[4][FETCH_MAX];
	struct rig *rig = rig_create(NULL);
	uint32_t at = aligned(rig);
	struct packet p, answer;

	rig->attr.max_dest_rd_atomic = 4;
	rig_to_rts(rig);
	for (unsigned round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 4; i++) {
			p = request(rig, NIC_ELEM_ATOMIC_READ, NIC_DT_UINT8, true, FETCH_MAX, E + i,
				    at + i * FETCH_MAX);
			assert_true(rig_rx(rig, &p));
			answer = rig_expect_tx(rig, ELEMENTS_ACK, E + i);
			if (round == 0)
				memcpy(saved[i], rig->arena + at + i * FETCH_MAX, FETCH_MAX);
			assert_memory_equal(answer.payload, saved[i], FETCH_MAX);
			memset(rig->arena + at + i * FETCH_MAX, (int)(round * 4 + i), FETCH_MAX);
			if (round == 1 && i == 3) {
				rig->attr.qp_state = NIC_QPS_SQD;
				assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_STATE), 0);
				rig->attr.max_dest_rd_atomic = 64;
				assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, NIC_QP_MAX_DEST_RD_ATOMIC), 0);
			}
		}
	rig_destroy(rig);
}

static void elements__AT_08_exactly_once_under_loss_and_duplication(void **state)
{
	static const enum pair_fate fates[] = {PAIR_DROP, PAIR_DOUBLE, PAIR_LATE, PAIR_DAMAGE, PAIR_SWAP};

	for (unsigned i = 0; i < 2 * 2 * 4 * 5; i++) {
		struct pair *pair = pair_create(NULL, 0xfffffe, 0xffffff);
		struct rig *a = pair->rig[0], *b = pair->rig[1];
		bool fetch = i & 1;
		struct pair_rule rule = {.side = i & 2 ? PAIR_B : PAIR_A, .nth = i / 4 % 4, .fate = fates[i / 16]};

		rule.op = rule.side == PAIR_A ? (fetch ? FETCH_ELEMENTS : ELEMENTS) : fetch ? ELEMENTS_ACK : ACK;
		memset(b->arena + aligned(b), 0, 16);
		pair_script(pair, &rule, 1);
		for (uint32_t k = 0; k < 4; k++) {
			const uint64_t add[2] = {1ull << 8 * k, 2ull << 8 * k};
			struct operation o;

			memcpy(a->arena + DATA_AT, add, 16);
			pair_operation(&o, pair, k, NIC_ELEM_SUM, NIC_DT_UINT64, fetch, 2, aligned(b));
			o.wr.flags |= NIC_SEND_INLINE;
			o.result[0].addr += k * 16;
			rig_post(a, &o.wr);
		}
		pair_run(pair);
		for (uint32_t k = 0; k < 4; k++) {
			rig_expect_wc(a->send_cq, k, NIC_WC_SUCCESS);
			if (fetch) {
				assert_int_equal(arena_u64(a, RESULT_AT + k * 16), 0x01010101u & ((1ull << 8 * k) - 1));
				assert_int_equal(arena_u64(a, RESULT_AT + k * 16 + 8),
						 0x02020202u & ((1ull << 8 * k) - 1));
			}
		}
		rig_expect_no_wc(a->send_cq);
		assert_int_equal(arena_u64(b, aligned(b)), 0x01010101);
		assert_int_equal(arena_u64(b, aligned(b) + 8), 0x02020202);
		pair_destroy(pair);
	}
}

/** A response of the wrong kind or length is not accepted. */
static void elements__wrong_responses(void **state)
{
	static const struct {
		uint8_t op, len;
	} wrong[] = {{ELEMENTS_ACK, 4}, {ELEMENTS_ACK, 12},  {ELEMENTS_ACK, 0},
		     {ATOMIC_ACK, 0},	{EXT_ATOMIC_ACK, 8}, {READ_RESP_ONLY, 8}};

	for (unsigned i = 0; i < 2 * sizeof(wrong) / sizeof(*wrong); i++) {
		struct rig *rig = rig_ready(NULL);
		struct operation o;
		struct packet p;

		operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1);
		if (i % 2) { /* a response with elements does not answer a FETCH&ADD */
			o.wr = rig_wr(rig, 1, NIC_WR_ATOMIC_FETCH_AND_ADD, RESULT_AT, 8);
			if (wrong[i / 2].op != ELEMENTS_ACK) {
				rig_destroy(rig);
				continue;
			}
		}
		rig_post(rig, &o.wr);
		rig_expect_tx(rig, i % 2 ? FETCH_ADD : FETCH_ELEMENTS, RIG_SQ_PSN);
		p = rig_peer_data(rig, wrong[i / 2].op, RIG_SQ_PSN, 0, wrong[i / 2].len);
		p.syndrome = SYN_ACK;
		rig_rx(rig, &p);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_BAD_RESP_ERR);
		rig_expect_untouched(rig, 0, 1024);
		rig_destroy(rig);
	}
}

/* ---- the application's floating-point settings ----------------------------------------------------------------- */

#ifdef __x86_64__
#define FLUSH_TO_ZERO (1u << 15 | 1u << 6) /* MXCSR: flush results (FTZ), and operands (DAZ), to zero */

static void flush_to_zero(bool on)
{
	unsigned csr = __builtin_ia32_stmxcsr();

	__builtin_ia32_ldmxcsr(on ? csr | FLUSH_TO_ZERO : csr & ~FLUSH_TO_ZERO);
}
#else
static void flush_to_zero(bool on)
{
	(void)on;
}
#endif

/** The application's floating-point settings do not affect the result and are kept, even if the access faults. */
static void elements__fp_settings_of_the_application_are_ignored_and_kept(void **state)
{
	static const struct {
		double before, add, after;
	} sums[] = {
		{1, DBL_EPSILON / 16, 1}, {DBL_TRUE_MIN, DBL_TRUE_MIN, 2 * DBL_TRUE_MIN}, {DBL_MAX, DBL_MAX, INFINITY}};

	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.nic.guard = rig_guard});
		uint32_t at = aligned(rig);
		struct packet p = request(rig, NIC_ELEM_SUM, NIC_DT_DOUBLE, false, 1, E, at);
		double after;

		memcpy(rig->arena + at, &sums[i / 2].before, 8);
		elem_to_wire(NIC_DT_DOUBLE, rig->peer_data, (const uint8_t *)&sums[i / 2].add, 1);
		rig_good_accesses = i % 2;
		fesetround(FE_UPWARD);
		feclearexcept(FE_ALL_EXCEPT);
		flush_to_zero(true);
		assert_true(rig_rx(rig, &p));
		assert_int_equal(fegetround(), FE_UPWARD);
		assert_int_equal(fetestexcept(FE_INEXACT | FE_OVERFLOW), 0);
		flush_to_zero(false);
		fesetround(FE_TONEAREST);
		memcpy(&after, rig->arena + at, 8);
		assert_true(after == (i % 2 ? sums[i / 2].after : sums[i / 2].before));
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements__AT_10_malformed_requests_are_refused),
		cmocka_unit_test(elements__results_longer_than_the_limit_are_refused),
		cmocka_unit_test(elements__AT_01_address_must_be_aligned_for_the_datatype),
		cmocka_unit_test(elements__AT_10_key_rights_and_range),
		cmocka_unit_test(elements__not_enabled),
		cmocka_unit_test(elements__a_memory_fault_releases_the_lock),
		cmocka_unit_test(elements__RP_04_duplicates_are_not_executed_again),
		cmocka_unit_test(elements__RP_11_each_resource_keeps_its_own_response),
		cmocka_unit_test(elements__AT_08_exactly_once_under_loss_and_duplication),
		cmocka_unit_test(elements__wrong_responses),
		cmocka_unit_test(elements__fp_settings_of_the_application_are_ignored_and_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
