/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_elements.c - operations on elements from the work request to memory and back: what is refused when posted, how
 * they are in packets (nic/mem/elem.md), how the responder takes them, that they happen exactly once, and that the
 * application's settings for floating-point calculations neither matter nor change. What each pair of operation and
 * datatype does is in test_elem.c.
 */
#include <fenv.h>
#include <float.h>
#include <math.h>

#include "elem.h"
#include "pair.h"
#include "qp.h"
#include "resp_util.h"
#include "wire_util.h"

#define FETCH_MAX 256 /* bytes, as the rig's QPs have it */

static uint64_t seed = 1;

static uint64_t random_word(void)
{
	return util_random(&seed);
}

static uint32_t aligned(const struct rig *rig)
{
	return (uint32_t)(-(uintptr_t)rig->arena & 63) + 1024;
}

/** An operation, and the places of its data and its result in the requester's arena. */
struct operation {
	struct nic_sge data[4], result[4];
	struct nic_send_wr wr;
};

#define DATA_AT	  0
#define RESULT_AT 512

/** On arena[remote] of side b. Base, fetch or compare, as the operation has it. */
static void operation(struct operation *o, struct rig *rig, uint64_t id, unsigned op, unsigned datatype, bool fetch,
		      uint32_t count)
{
	uint32_t bytes = count * nic_elem_size(datatype), data_len = bytes * elem_vectors(op);

	*o = (struct operation){
		.data = {{.addr = (uintptr_t)rig->arena + DATA_AT, .length = data_len, .lkey = rig->lkey}},
		.result = {{.addr = (uintptr_t)rig->arena + RESULT_AT, .length = bytes, .lkey = rig->lkey}},
		.wr = {.wr_id = id,
		       .opcode = fetch ? NIC_WR_FETCH_ELEMENTS : NIC_WR_ELEMENTS,
		       .flags = NIC_SEND_SIGNALED},
	};
	o->wr.sg_list = fetch ? o->result : NULL;
	o->wr.num_sge = fetch;
	o->wr.elements.data = o->data;
	o->wr.elements.num_data = data_len > 0;
	o->wr.elements.count = count;
	o->wr.elements.op = (uint8_t)op;
	o->wr.elements.datatype = (uint8_t)datatype;
	o->wr.elements.remote_addr = RIG_REMOTE_VA;
	o->wr.elements.rkey = RIG_REMOTE_RKEY;
}

static void pair_operation(struct operation *o, struct pair *pair, uint64_t id, unsigned op, unsigned datatype,
			   bool fetch, uint32_t count, uint32_t remote)
{
	const struct nic_send_wr there = pair_wr(pair, id, NIC_WR_RDMA_WRITE, 0, 0, remote);

	operation(o, pair->rig[0], id, op, datatype, fetch, count);
	o->wr.elements.remote_addr = there.rdma.remote_addr;
	o->wr.elements.rkey = there.rdma.rkey;
}

static bool fetches(enum nic_elem_form form)
{
	return form != NIC_ELEM_BASE;
}

/* ---- posting --------------------------------------------------------------------------------------------------- */

static void elements__only_pairs_that_there_are_can_be_posted(void **state)
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
			o.data[0].length -= 12; /* no compare values */
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
			o.wr.elements.count = 0x40000003; /* times four: 12 in 32 bits */
			break;
		case 7:
			o.wr.elements.num_data = 4; /* more SGEs than there is room for; the others are empty */
			break;
		default:
			o.wr.opcode = NIC_WR_ELEMENTS;
		}
		assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL);
	}
	rig_expect_silence(rig);
	rig_destroy(rig);
}

/** A packet holds what is sent, and what is answered; and of that the peer keeps so much. */
static void elements__no_more_than_fits(void **state)
{
	static const uint32_t limits[] = {128, 4096};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(&(struct rig_opts){.max_fetch = limits[i / 2]});
		uint32_t packet = RIG_MTU, answer = limits[i / 2] < packet ? limits[i / 2] : packet;
		struct operation o;

		if (i % 2) { /* where all is flushed, what the path carries does not matter */
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

/** Whoever has not asked for them may have set anything. */
static void elements__lists_are_not_looked_at_where_there_are_none(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.max_fetch = RIG_NO_ELEMENTS});
	struct operation o;

	operation(&o, rig, 1, NIC_ELEM_SUM, NIC_DT_UINT64, true, 1);
	o.wr.elements.data = o.wr.sg_list = (const struct nic_sge *)16;
	o.wr.elements.num_data = o.wr.num_sge = 1000;
	assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL);
	rig_destroy(rig);
	rig = rig_ready(NULL);
	assert_int_equal(nic_post_send(rig->qp, &o.wr), -EINVAL); /* more than there is room for */
	rig_destroy(rig);
}

/** As many SGEs for the result as there may be, and as much inline data: one request does not touch the next. */
static void elements__a_wqe_holds_all_that_it_may(void **state)
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

/** Keys of operands, when they are read; of results, when they come. */
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

static void elements__not_on_uc_or_ud_or_where_nobody_asked_for_them(void **state)
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

static void elements__limits_that_there_are_not(void **state)
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

/** To the byte. */
static void elements__requests_and_answers_byte_by_byte(void **state)
{
	static const uint8_t header[] = {0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00,  /* RIG_REMOTE_VA */
					 0x51, 0x52, 0x53, 0x54,			  /* RIG_REMOTE_RKEY */
					 12,   5,    0,	   0,	 0,    0,    0,	   2,	  /* CSWAP, UINT32, two */
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

/** The peer's request, its vectors in peer_data as they are there. */
static struct packet request(struct rig *rig, unsigned op, unsigned datatype, bool fetch, uint32_t count, uint32_t psn,
			     uint32_t offset)
{
	struct packet p = rig_peer_packet(rig, fetch ? FETCH_ELEMENTS : ELEMENTS, psn);

	p.va = rig_va(rig, offset);
	p.ackreq = true;
	p.element.op = (uint8_t)op;
	p.element.datatype = (uint8_t)elem_wire_of_type(datatype);
	p.element.flags = 0;
	p.element.count = count;
	p.payload = rig->peer_data;
	p.payload_len = elem_vectors(op) * count * nic_elem_size(datatype);
	return p;
}

/* ---- from post to completion ----------------------------------------------------------------------------------- */

static void set_random(uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)random_word();
}

/** Data in as many pieces as there are SGEs for. */
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

/** Post one of count elements, carry it to the end, compare with the element unit at home. */
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
		set_random(a->arena + DATA_AT, bytes * elem_vectors(op)); /* copied when it was posted */
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

/** Base operations wait for no answer, and go where none may be outstanding that does. */
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

/* ---- what the responder refuses -------------------------------------------------------------------------------- */

static void expect_refused(struct rig *rig, const struct packet *p, unsigned syndrome)
{
	assert_true(rig_rx(rig, p));
	expect_fatal(rig, E, syndrome);
	rig_expect_untouched(rig, 0, RIG_ARENA);
}

static void elements__AT_10_requests_that_make_no_sense_are_refused(void **state)
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
			p.element.count = 0x40000002; /* times four: 8 in 32 bits */
			break;
		case 9:
			p.payload_len += 4;
			break;
		case 10:
			p.payload_len -= 4;
			break;
		case 11: /* of another form */
			p.element.op = fetch ? NIC_ELEM_CSWAP : NIC_ELEM_ATOMIC_READ;
			break;
		case 12: /* this host's long double is the other one */
			p.element.datatype = (uint8_t)(elem_wire_of_type(NIC_DT_LONG_DOUBLE) ^ 0x80);
			p.element.count = 1;
			p.payload_len = 16;
			break;
		case 13: /* operation undefined for this datatype */
			p.element.op = NIC_ELEM_BOR;
			p.element.datatype = NIC_DT_FLOAT;
			break;
		default: /* longer than a result may be, longer than the path carries */
			p = request(rig, fetch ? NIC_ELEM_ATOMIC_READ : NIC_ELEM_SUM, NIC_DT_UINT32, fetch,
				    FETCH_MAX / 4 + 1, E, aligned(rig));
		}
		expect_refused(rig, &p, SYN_INV);
		assert_null(rig->qp->resp.saved);
		assert_true(rig_event(rig, NIC_EVENT_QP_REQ_ERR, RIG_USER_QP(rig)));
		rig_destroy(rig);
	}
}

/** The shorter one of what the path carries and what the QP keeps. */
static void elements__answers_are_no_longer_than_may_be(void **state)
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

static void elements__AT_01_address_must_be_where_c_would_have_it(void **state)
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
		} else if (i / 2 == 2) { /* half of them are inside */
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
		assert_null(rig->qp->resp.saved); /* nor has it cost memory, which it would have for good */
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
		if (i == 4) { /* takes no resource */
			assert_true(rig_rx(rig, &p));
			rig_expect_ack(rig, E, SYN_ACK);
		} else {
			expect_refused(rig, &p, SYN_INV);
		}
		rig_destroy(rig);
	}
}

static void elements__memory_that_has_gone_leaves_no_lock(void **state)
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

/* ---- duplicates, losses, wrong answers ------------------------------------------------------------------------- */

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

/** Each resource keeps an answer of its own, whatever has become of the memory, and of the number of resources. */
static void elements__RP_11_answers_are_kept_apart(void **state)
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

/** Neither the wrong kind nor the wrong length of a response is taken for an answer. */
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
		if (i % 2) { /* what answers elements answers nothing else */
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

/* ---- the application's settings -------------------------------------------------------------------------------- */

#ifdef __x86_64__
#define FLUSH_TO_ZERO (1u << 15 | 1u << 6) /* of results, of operands */

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

/** Also when the memory has gone. */
static void elements__the_applications_roundings_do_not_matter_and_stay(void **state)
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
		cmocka_unit_test(elements__only_pairs_that_there_are_can_be_posted),
		cmocka_unit_test(elements__lengths_must_agree),
		cmocka_unit_test(elements__no_more_than_fits),
		cmocka_unit_test(elements__lists_are_not_looked_at_where_there_are_none),
		cmocka_unit_test(elements__a_wqe_holds_all_that_it_may),
		cmocka_unit_test(elements__wrong_local_keys),
		cmocka_unit_test(elements__not_on_uc_or_ud_or_where_nobody_asked_for_them),
		cmocka_unit_test(elements__limits_that_there_are_not),
		cmocka_unit_test(elements__requests_and_answers_byte_by_byte),
		cmocka_unit_test(elements__every_pair_from_post_to_completion),
		cmocka_unit_test(elements__base_operations_need_no_resource),
		cmocka_unit_test(elements__AT_10_requests_that_make_no_sense_are_refused),
		cmocka_unit_test(elements__answers_are_no_longer_than_may_be),
		cmocka_unit_test(elements__AT_01_address_must_be_where_c_would_have_it),
		cmocka_unit_test(elements__AT_10_key_rights_and_range),
		cmocka_unit_test(elements__not_enabled),
		cmocka_unit_test(elements__memory_that_has_gone_leaves_no_lock),
		cmocka_unit_test(elements__RP_04_duplicates_are_not_executed_again),
		cmocka_unit_test(elements__RP_11_answers_are_kept_apart),
		cmocka_unit_test(elements__AT_08_exactly_once_under_loss_and_duplication),
		cmocka_unit_test(elements__wrong_responses),
		cmocka_unit_test(elements__the_applications_roundings_do_not_matter_and_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
