/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_elements.c - operations on elements as posted: what is refused, their packet format (nic/mem/elem.md), and each
 * operation from work request to completion. The responder is tested in test_elements_resp.c, the result of each
 * operation and datatype in test_elem.c.
 */
#include <float.h>
#include <math.h>

#include "elem.h"
#include "elements_util.h"
#include "pair.h"
#include "qp.h"
#include "resp_util.h"
#include "wire_util.h"

static uint64_t seed = 1;

static uint64_t random_word(void)
{
	return util_random(&seed);
}

static bool fetches(enum nic_elem_form form)
{
	return form != NIC_ELEM_BASE;
}

/* ---- posting --------------------------------------------------------------------------------------------------- */

static void elements__only_valid_operation_datatype_pairs_can_be_posted(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct operation o;

	for (unsigned op = 0; op < 256; op++)
		for (unsigned dt = 0; dt < 256; dt++)
			for (unsigned fetch = 0; fetch < 2; fetch++) {
				bool valid = fetch ? nic_elem_valid(op, dt, NIC_ELEM_FETCH) ||
							     nic_elem_valid(op, dt, NIC_ELEM_COMPARE)
						   : nic_elem_valid(op, dt, NIC_ELEM_BASE);

				operation(&o, rig, 1, op, dt, fetch, 2);
				assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0), valid ? 0 : -EINVAL);
			}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void elements__lengths_must_agree(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct operation o;

	for (unsigned i = 0; i < 9; i++) {
		operation(&o, rig, 1, NIC_ELEM_CSWAP, NIC_DT_UINT32, true, 3);
		assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0), 0);
		switch (i) {
		case 0:
			o.wr.elements.count = 0;
			break;
		case 1:
			o.wr.elements.count = 4;
			break;
		case 2:
			o.data[0].length -= 12; /* cuts off the compare values */
			break;
		case 3:
			o.result[0].length++;
			break;
		case 4:
			o.wr.num_sge = 0;
			break;
		case 5:
			o.wr.elements.num_data = 0;
			break;
		case 6:
			o.wr.elements.count = 0x40000003; /* times 4 bytes overflows to 12 in 32 bits */
			break;
		case 7:
			o.wr.elements.num_data = 4; /* more SGEs than a WQE has room for; all but the first are empty */
			break;
		default:
			o.wr.opcode = NIC_WR_ELEMENTS;
		}
		assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL);
	}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/** Operands must fit in one packet. So must the result, which also must not be longer than the QP's max_fetch. */
static void elements__operands_and_results_over_the_limits_are_refused(void **state)
{
	static const uint32_t limits[] = {128, 4096};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.max_fetch = limits[i / 2]});
		uint32_t packet = RIG_MTU, answer = limits[i / 2] < packet ? limits[i / 2] : packet;
		struct operation o;

		if (i % 2) { /* in ERR all requests are flushed, so the MTU does not matter */
			rig_modify_state(rig, NIC_QPS_ERR);
			packet = NIC_PAYLOAD_MAX;
			answer = limits[i / 2];
		}
		for (uint32_t count = 1; count <= NIC_PAYLOAD_MAX / 8 + 1; count++) {
			operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, false, count);
			assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0), count <= packet / 8 ? 0 : -EINVAL);
			operation(&o, rig, 1, NIC_ELEM_ATOMIC_READ, NIC_DT_UINT64, true, count);
			assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0), count <= answer / 8 ? 0 : -EINVAL);
			operation(&o, rig, 1, NIC_ELEM_CSWAP, NIC_DT_UINT64, true, count);
			assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0),
					 count <= packet / 16 && count <= answer / 8 ? 0 : -EINVAL);
			operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, false, count);
			o.wr.flags |= NIC_SEND_INLINE;
			assert_int_equal(nic_post_send_check(rig->qp, &o.wr, 0), count <= 128 / 8 ? 0 : -EINVAL);
		}
		rig_destroy(rig);
	}
}

/** A QP without element operations refuses a request before it reads the SGE lists, which can be invalid pointers. */
static void elements__invalid_sge_lists_are_refused_unread(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.max_fetch = RIG_NO_ELEMENTS});
	struct operation o;

	operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1);
	o.wr.elements.data = o.wr.sg_list = (const struct nic_sge *)16;
	o.wr.elements.num_data = o.wr.num_sge = 1000;
	assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL);
	rig_destroy(rig);
	rig = rig_ready(NULL);
	assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL); /* more SGEs than a WQE has room for */
	rig_destroy(rig);
}

/** Two requests with the most SGEs for the result and the most inline data: neither overwrites the other's WQE. */
static void elements__wqes_hold_the_most_sges_and_inline_data(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct operation o[2];
	uint8_t data[2][128];

	for (unsigned i = 0; i < 2; i++) {
		operation(&o[i], rig, i, NIC_ELEM_SUM, NIC_DT_UINT8, true, 128);
		for (unsigned k = 0; k < 128; k++)
			data[i][k] = (uint8_t)(random_word());
		o[i].data[0].addr = (uintptr_t)data[i];
		o[i].wr.flags |= NIC_SEND_INLINE;
		o[i].wr.num_sge = 4;
		for (unsigned k = 0; k < 4; k++)
			o[i].result[k] =
				(struct nic_sge){(uintptr_t)rig->arena + RESULT_AT + i * 1024 + k * 256, 32, rig->lkey};
		rig_post(rig, &o[i].wr);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct packet p = rig_expect_tx(rig, FETCH_ELEMENTS, RIG_SQ_PSN + i);

		assert_memory_equal(p.payload, data[i], 128);
	}
	for (unsigned i = 0; i < 2; i++) {
		rig_rx_data(rig, ELEMENTS_ACK, RIG_SQ_PSN + i, i * 128, 128);
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
		for (unsigned k = 0; k < 4; k++)
			assert_memory_equal(rig->arena + RESULT_AT + i * 1024 + k * 256,
					    rig->peer_data + i * 128 + k * 32, 32);
	}
	rig_destroy(rig);
}

/** A wrong L_Key is an error. An operand's L_Key is checked when the operand is read, a result's when the response
 *  arrives. */
static void elements__wrong_local_keys(void **state)
{
	for (unsigned result = 0; result < 2; result++) {
		struct rig *rig = rig_ready(NULL);
		struct operation o;

		operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1);
		(result ? o.result : o.data)[0].lkey ^= 1;
		rig_post(rig, &o.wr);
		if (result) {
			rig_expect_tx(rig, FETCH_ELEMENTS, RIG_SQ_PSN);
			rig_rx_data(rig, ELEMENTS_ACK, RIG_SQ_PSN, 0, 8);
		} else {
			rig_expect_silence(rig);
		}
		rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
		rig_expect_untouched(rig, 0, RIG_ARENA);
		rig_destroy(rig);
	}
}

static void elements__refused_on_uc_ud_and_qps_without_max_fetch(void **state)
{
	static const enum nic_qp_type types[] = {NIC_QPT_UC, NIC_QPT_UD, NIC_QPT_RC};
	struct operation o;

	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.type = types[i / 2], .max_fetch = RIG_NO_ELEMENTS});

		operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, i & 1, 1);
		assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL);
		rig_expect_silence(rig);
		rig_destroy(rig);
	}
}

static void elements__invalid_max_fetch_is_refused(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_qp_init init = {.type = NIC_QPT_RC,
				   .pd = rig->pd,
				   .send_cq = rig->send_cq,
				   .recv_cq = rig->recv_cq,
				   .max_fetch = NIC_PAYLOAD_MAX + 1};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	init.type = NIC_QPT_UD;
	init.max_fetch = 8;
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), -EINVAL);
	rig_destroy(rig);
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

/** The bytes of a request packet and of a response packet are as nic/mem/elem.md defines them. */
static void elements__requests_and_answers_byte_by_byte(void **state)
{
	static const uint8_t header[] = {0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00,  /* RIG_REMOTE_VA */
					 0x51, 0x52, 0x53, 0x54,			  /* RIG_REMOTE_RKEY */
					 12,   5,    0,	   0,	 0,    0,    0,	   2,	  /* CSWAP, UINT32, count 2 */
					 1,    2,    3,	   4,	 5,    6,    7,	   8,	  /* operands */
					 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}; /* compare values */
	const uint32_t data[] = {0x01020304, 0x05060708, 0x11121314, 0x15161718}, answer[] = {0x21222324, 0x25262728};
	struct rig *rig = rig_ready(NULL);
	struct operation o;
	struct packet p;

	memcpy(rig->arena + DATA_AT, data, sizeof(data));
	operation(&o, rig, 1, NIC_ELEM_CSWAP, NIC_DT_UINT32, true, 2);
	rig_post(rig, &o.wr);
	p = rig_expect_tx(rig, FETCH_ELEMENTS, RIG_SQ_PSN);
	assert_true(p.ackreq);
	assert_int_equal(rig->frames[rig->frame][28], 0xc5);
	assert_memory_equal(rig->frames[rig->frame] + 40, header, sizeof(header));
	assert_int_equal(rig->frame_lens[rig->frame], 40 + sizeof(header) + 4);
	memcpy(rig->peer_data, "\x21\x22\x23\x24\x25\x26\x27\x28", 8);
	rig_rx_data(rig, ELEMENTS_ACK, RIG_SQ_PSN, 0, 8);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	assert_memory_equal(rig->arena + RESULT_AT, answer, 8);
	rig_destroy(rig);
}

/* ---- from post to completion ----------------------------------------------------------------------------------- */

static void set_random(uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)random_word();
}

/** Split the data of the first SGE into n SGEs. */
static void in_pieces(struct nic_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i + 1 < n; i++) {
		uint32_t piece = sge[i].length / 2 | 1;

		sge[i + 1] = sge[i];
		sge[i].length = piece;
		sge[i + 1].addr += piece;
		sge[i + 1].length -= piece;
	}
}

/** Post an operation on `count` elements, run it to its completion, and compare the results with those computed
 *  locally. */
static void try(struct pair *pair, uint64_t id, unsigned op, unsigned dt, enum nic_elem_form form, uint32_t count)
{
	_Alignas(64) static uint8_t expect[FETCH_MAX + 64], before[FETCH_MAX], data[2 * FETCH_MAX];
	struct rig *a = pair->rig[0], *b = pair->rig[1];
	uint32_t at = aligned(b), bytes = count * nic_elem_size(dt);
	struct nic_elements e = {(uint8_t)op, (uint8_t)dt, count, data, form == NIC_ELEM_COMPARE ? data + bytes : NULL,
				 before};
	struct operation o;
	struct nic_wc wc;

	set_random(b->arena + at, bytes);
	set_random(a->arena + DATA_AT, bytes * elem_vectors(op));
	if (form == NIC_ELEM_COMPARE && id % 2)
		memcpy(a->arena + DATA_AT + bytes, b->arena + at, bytes);
	memcpy(data, a->arena + DATA_AT, sizeof(data));
	memcpy(expect, b->arena + at, bytes);
	elem_execute(&e, expect);
	pair_operation(&o, pair, id, op, dt, fetches(form), count, at);
	if (id % 3 == 0 && bytes * elem_vectors(op) <= 64) {
		o.wr.flags |= NIC_SEND_INLINE;
		o.data[0].lkey = 0;
	} else if (id % 3 == 1 && elem_vectors(op) && bytes > 8) {
		in_pieces(o.data, o.wr.elements.num_data = 2);
		if (fetches(form))
			in_pieces(o.result, o.wr.num_sge = 2);
	}
	rig_post(a, &o.wr);
	if (o.wr.flags & NIC_SEND_INLINE)
		set_random(a->arena + DATA_AT, bytes * elem_vectors(op)); /* inline data has been copied */
	pair_run(pair);
	wc = rig_expect_wc(a->send_cq, id, NIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, fetches(form) ? NIC_WC_FETCH_ELEMENTS : NIC_WC_ELEMENTS);
	assert_int_equal(wc.byte_len, bytes);
	assert_memory_equal(b->arena + at, expect, bytes);
	if (fetches(form))
		assert_memory_equal(a->arena + RESULT_AT, before, bytes);
	rig_expect_untouched(b, at + bytes, 64);
	for (uint32_t i = at; i < at + bytes; i++)
		b->arena[i] = rig_byte(i);
}

static void elements__every_pair_from_post_to_completion(void **state)
{
	uint64_t id = 0;

	for (unsigned dt = 0; dt < NIC_DT_COUNT; dt++) {
		struct pair *pair = pair_create(NULL, 0xfffffe, 0x200);

		for (unsigned op = 0; op < NIC_ELEM_COUNT; op++)
			for (unsigned form = 0; form < 3; form++)
				for (unsigned n = 1; n < 6 && nic_elem_valid(op, dt, (enum nic_elem_form)form); n++)
					try(pair, id++, op, dt, (enum nic_elem_form)form,
					    n == 5 ? RIG_MTU / 2 / nic_elem_size(dt) : n);
		pair_destroy(pair);
	}
	assert_int_equal(id, 5 * (204 + 224 + 118));
}

/** Base operations need no responder resource: 40 of them can be in flight although max_rd_atomic is 0. */
static void elements__base_operations_need_no_resource(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct operation o;

	rig->attr.max_rd_atomic = 0;
	rig_to_rts(rig);
	for (unsigned i = 0; i < 40; i++) {
		operation(&o, rig, i, NIC_ELEM_SUM, NIC_DT_UINT64, false, 1);
		rig_post(rig, &o.wr);
	}
	for (unsigned i = 0; i < 40; i++)
		rig_expect_tx(rig, ELEMENTS, RIG_SQ_PSN + i);
	rig_ack(rig, RIG_SQ_PSN + 39, SYN_ACK);
	for (unsigned i = 0; i < 40; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	operation(&o, rig, 40, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1);
	rig_post(rig, &o.wr);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 40, NIC_WC_LOC_QP_OP_ERR);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements__only_valid_operation_datatype_pairs_can_be_posted),
		cmocka_unit_test(elements__lengths_must_agree),
		cmocka_unit_test(elements__operands_and_results_over_the_limits_are_refused),
		cmocka_unit_test(elements__invalid_sge_lists_are_refused_unread),
		cmocka_unit_test(elements__wqes_hold_the_most_sges_and_inline_data),
		cmocka_unit_test(elements__wrong_local_keys),
		cmocka_unit_test(elements__refused_on_uc_ud_and_qps_without_max_fetch),
		cmocka_unit_test(elements__invalid_max_fetch_is_refused),
		cmocka_unit_test(elements__requests_and_answers_byte_by_byte),
		cmocka_unit_test(elements__every_pair_from_post_to_completion),
		cmocka_unit_test(elements__base_operations_need_no_resource),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
