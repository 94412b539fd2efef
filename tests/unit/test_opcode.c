/* SPDX-License-Identifier: BSD-3-Clause */
/* test_opcode.c - the opcode table compared with the lists of the specification, and what is derived from the table. */
#include "opcode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* For each value of the opcode's low five bits: bytes from the start of the BTH to the payload, for RC (IBTA table 38,
 * A19); 0: reserved. */
/* clang-format off */
static const uint8_t rc_len[32] = {
	12, 12, 12, 16, 12, 16,	/* 00 SEND */
	28, 12, 12, 16, 28, 32,	/* 06 WRITE */
	28, 16, 12, 16, 16,	/* 0c READ request and responses */
	16, 24, 40, 40, 0,	/* 11 ACK, ATOMIC ACK, CMP&SWAP, FETCH&ADD, reserved */
	16, 16, 0, 0, 0, 0,	/* 16 SEND with invalidate, reserved */
	32, 28, 0, 0,		/* 1c FLUSH, ATOMIC WRITE, reserved */
};
/* clang-format on */

/** Bytes from the start of the BTH to the payload, for any opcode; 0: unknown opcode. */
static unsigned expected_len(unsigned value)
{
	unsigned low = value & 31;

	switch (value & 0xe0) {
	case OP_RC:
		return rc_len[low];
	case OP_UC:
		return low <= 0x0b ? rc_len[low] : 0;
	case OP_UD:
		return low == 4 ? 20 : low == 5 ? 24 : 0;
	case OP_XRC: /* requests carry the XRCETH, responses do not */
		return rc_len[low] ? rc_len[low] + (low >= 0x0d && low <= 0x12 ? 0 : 4) : 0;
	case OP_EXT: /* uroce's own: two requests and one response for extended atomics, the same for elements */
		return low <= 1 ? 28 : low == 4 || low == 5 ? 32 : low == 2 || low == 6 ? 16 : 0;
	default:
		return value == 0x81 ? 28 : 0;
	}
}

static void opcode__HV_02_reserved_rd_and_other_vendors_values_are_unknown(void **state)
{
	unsigned known = 0;

	for (unsigned v = 0; v < 256; v++) {
		assert_int_equal(op_get((uint8_t)v) != NULL, expected_len(v) != 0);
		known += expected_len(v) != 0;
	}
	assert_int_equal(known, 25 + 12 + 2 + 25 + 1 + 6);
	for (unsigned low = 0; low < 32; low++)
		assert_null(op_get((uint8_t)(OP_RD | low)));
	assert_null(op_get(0x15));
	assert_null(op_get(0x18));
	assert_null(op_get(0x1b));
	assert_null(op_get(0x80));
	assert_null(op_get(0xff));
}

static void opcode__header_lengths_are_those_of_the_specification(void **state)
{
	for (unsigned v = 0; v < 256; v++)
		if (op_get((uint8_t)v))
			assert_int_equal(op_get((uint8_t)v)->hdr_len, expected_len(v));
}

static void opcode__rows_carry_their_own_value_service_and_a_name(void **state)
{
	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (!op)
			continue;
		assert_int_equal(op->value, v);
		assert_int_equal(op->service, v & 0xe0);
		assert_true(strlen(op->name) >= 3);
		for (unsigned w = 0; w < v; w++)
			assert_true(!op_get((uint8_t)w) || strcmp(op_get((uint8_t)w)->name, op->name) != 0);
	}
	assert_string_equal(op_get(0x04)->name, "RC SEND ONLY");
	assert_string_equal(op_get(0x13)->name, "RC CMP&SWAP");
	assert_string_equal(op_get(0x1c)->name, "RC FLUSH");
	assert_string_equal(op_get(0x64)->name, "UD SEND ONLY");
	assert_string_equal(op_get(0xb3)->name, "XRC CMP&SWAP");
	assert_string_equal(op_get(0x81)->name, "CNP");
}

static void opcode__find_is_the_inverse_of_get(void **state)
{
	unsigned found = 0;

	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (op)
			assert_ptr_equal(op_find(op->service, op->kind, op->pos, op->extra), op);
	}
	/* op_find finds no other opcodes. */
	for (unsigned service = 0; service < 256; service += 32)
		for (unsigned kind = OP_SEND; kind <= OP_CONGESTION; kind++)
			for (unsigned pos = OP_FIRST; pos <= OP_ONLY; pos <<= 1)
				for (unsigned extra = OP_PLAIN; extra <= OP_INV; extra++)
					found += op_find(service, kind, pos, extra) != NULL;
	assert_int_equal(found, 25 + 12 + 2 + 25 + 1 + 6);
}

static void opcode__find_returns_null_for_opcodes_a_service_lacks(void **state)
{
	assert_null(op_find(OP_UD, OP_WRITE, OP_ONLY, OP_PLAIN));
	assert_null(op_find(OP_UD, OP_SEND, OP_FIRST, OP_PLAIN));
	assert_null(op_find(OP_UC, OP_READ_REQ, OP_ONLY, OP_PLAIN));
	assert_null(op_find(OP_UC, OP_SEND, OP_ONLY, OP_INV));
	assert_null(op_find(OP_UC, OP_FETCH_ADD, OP_ONLY, OP_PLAIN));
	assert_null(op_find(OP_RC, OP_WRITE, OP_LAST, OP_INV));
	assert_null(op_find(OP_RC, OP_SEND, OP_FIRST, OP_IMM));
	assert_null(op_find(OP_RD, OP_SEND, OP_ONLY, OP_PLAIN));
	assert_int_equal(op_find(OP_RC, OP_SEND, OP_FIRST, OP_PLAIN)->value, 0x00);
	assert_int_equal(op_find(OP_XRC, OP_WRITE, OP_ONLY, OP_IMM)->value, 0xab);
}

static void opcode__RQ_03_reth_of_a_message_only_in_its_first_packet(void **state)
{
	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (op && op->kind == OP_WRITE)
			assert_int_equal(op_has(op, HDR_RETH), op_starts(op));
		if (op && (op->kind == OP_SEND || op_is_response(op)))
			assert_false(op_has(op, HDR_RETH));
	}
}

static void opcode__RQ_04_immediate_and_invalidate_only_in_the_last_packet(void **state)
{
	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		if (!op)
			continue;
		assert_int_equal(op_has(op, HDR_IMM), op->extra == OP_IMM);
		assert_int_equal(op_has(op, HDR_IETH), op->extra == OP_INV);
		if (op->extra != OP_PLAIN)
			assert_true(op_ends(op));
		if (op->extra == OP_INV)
			assert_int_equal(op->kind, OP_SEND);
	}
}

static void opcode__responses_are_distinguished_from_requests(void **state)
{
	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);
		bool connected = (v & 0xe0) == OP_RC || (v & 0xe0) == OP_XRC;

		if (op)
			assert_int_equal(op_is_response(op),
					 (connected && (v & 31) >= 0x0d && (v & 31) <= 0x12) || v == 0xc2 || v == 0xc6);
	}
}

static void opcode__read_and_atomic_requests_acks_flush_and_cnp_have_no_payload(void **state)
{
	static const uint8_t bare[] = {0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c};

	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);
		bool connected = (v & 0xe0) == OP_RC || (v & 0xe0) == OP_XRC;

		if (op)
			assert_int_equal(op->payload,
					 v != 0x81 && !(connected && memchr(bare, (int)(v & 31), sizeof(bare))));
	}
}

static void opcode__RQ_04_a_message_is_first_middles_last_or_only(void **state)
{
	const struct opcode *first = op_get(0x00), *middle = op_get(0x01), *last = op_get(0x02), *imm = op_get(0x03);
	const struct opcode *only = op_get(0x04), *inv = op_get(0x16);

	assert_true(op_may_follow(NULL, first));
	assert_true(op_may_follow(NULL, only));
	assert_false(op_may_follow(NULL, middle));
	assert_false(op_may_follow(NULL, last));
	assert_false(op_may_follow(NULL, imm));
	assert_true(op_may_follow(first, middle));
	assert_true(op_may_follow(first, last));
	assert_true(op_may_follow(middle, middle));
	assert_true(op_may_follow(middle, imm));
	assert_true(op_may_follow(middle, inv));
	assert_false(op_may_follow(first, first));
	assert_false(op_may_follow(middle, only));
}

static void opcode__an_open_message_continues_only_with_its_own_kind(void **state)
{
	static const uint8_t open[] = {0x00, 0x01, 0x06, 0x07, 0x20, 0x21, 0x26, 0x27, 0xa0, 0xa1, 0xa6, 0xa7};

	for (unsigned i = 0; i < sizeof(open); i++) {
		const struct opcode *before = op_get(open[i]);

		for (unsigned v = 0; v < 256; v++) {
			const struct opcode *next = op_get((uint8_t)v);
			unsigned low = v & 31;
			bool goes_on = (open[i] & 31) < 6 ? low == 1 || low == 2 || low == 3 || low == 0x16
							  : low >= 7 && low <= 9;

			if (next)
				assert_int_equal(op_may_follow(before, next),
						 goes_on && (v & 0xe0) == (open[i] & 0xe0u));
		}
	}
	/* READs and atomics must not come between the packets of a message. */
	assert_false(op_may_follow(op_get(0x06), op_get(0x0c)));
	assert_false(op_may_follow(op_get(0x00), op_get(0x13)));
	assert_true(op_may_follow(NULL, op_get(0x0c)));
	assert_true(op_may_follow(NULL, op_get(0x14)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode__HV_02_reserved_rd_and_other_vendors_values_are_unknown),
		cmocka_unit_test(opcode__header_lengths_are_those_of_the_specification),
		cmocka_unit_test(opcode__rows_carry_their_own_value_service_and_a_name),
		cmocka_unit_test(opcode__find_is_the_inverse_of_get),
		cmocka_unit_test(opcode__find_returns_null_for_opcodes_a_service_lacks),
		cmocka_unit_test(opcode__RQ_03_reth_of_a_message_only_in_its_first_packet),
		cmocka_unit_test(opcode__RQ_04_immediate_and_invalidate_only_in_the_last_packet),
		cmocka_unit_test(opcode__responses_are_distinguished_from_requests),
		cmocka_unit_test(opcode__read_and_atomic_requests_acks_flush_and_cnp_have_no_payload),
		cmocka_unit_test(opcode__RQ_04_a_message_is_first_middles_last_or_only),
		cmocka_unit_test(opcode__an_open_message_continues_only_with_its_own_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
