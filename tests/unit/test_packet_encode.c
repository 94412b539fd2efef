/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet_encode.c - packet_encode: packets of every opcode with random fields are parsed back unchanged; pad,
 * reserved bits, encoding in place. */
#include "packet.h"
#include "wire_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static uint64_t seed = 42;

static uint32_t random24(void)
{
	return (uint32_t)util_random(&seed) & 0xffffff;
}

/** A packet of this opcode with random values in every field that goes on the wire. */
static struct packet random_packet(const struct opcode *op, bool v4, const uint8_t *payload, uint32_t payload_len)
{
	uint64_t bits = util_random(&seed);
	struct packet p = {
		.op = op,
		.v4 = v4,
		.tclass = (uint8_t)bits,
		.hop_limit = (uint8_t)(bits >> 8),
		.ip_id = v4 ? (uint16_t)(bits >> 16) : 0,
		.ip_frag = v4 ? 0x4000 : 0,
		.flow_label = v4 ? 0 : (uint32_t)(bits >> 32) & 0xfffff,
		.udp_sport = (uint16_t)(bits >> 40),
		.se = bits >> 56 & 1,
		.migreq = bits >> 57 & 1,
		.ackreq = bits >> 58 & 1,
		.ecn = (uint8_t)(bits >> 53) & (BTH_ECN_F | BTH_ECN_B),
		.pad = -payload_len & 3,
		.pkey = (uint16_t)util_random(&seed),
		.dest_qpn = random24(),
		.psn = random24(),
		.va = util_random(&seed),
		.rkey = (uint32_t)util_random(&seed),
		.dma_len = (uint32_t)util_random(&seed),
		.swap_add = util_random(&seed),
		.compare = util_random(&seed),
		.log_size = (uint8_t)util_random(&seed),
		.element = {(uint8_t)util_random(&seed), (uint8_t)util_random(&seed), (uint8_t)util_random(&seed),
			    (uint32_t)util_random(&seed)},
		.syndrome = (uint8_t)util_random(&seed),
		.msn = random24(),
		.orig = util_random(&seed),
		.qkey = (uint32_t)util_random(&seed),
		.src_qpn = random24(),
		.imm = (uint32_t)util_random(&seed),
		.inv_rkey = (uint32_t)util_random(&seed),
		.xrc_srqn = random24(),
		.feth = (uint32_t)util_random(&seed),
		.payload = payload,
		.payload_len = payload_len,
	};

	if (v4) {
		p.sgid.raw[10] = p.sgid.raw[11] = p.dgid.raw[10] = p.dgid.raw[11] = 0xff;
		memcpy(p.sgid.raw + 12, &p.va, 4);
		memcpy(p.dgid.raw + 12, &p.orig, 4);
	} else {
		memcpy(p.sgid.raw, &p.va, 8);
		memcpy(p.sgid.raw + 8, &p.orig, 8);
		memcpy(p.dgid.raw, &p.compare, 8);
		memcpy(p.dgid.raw + 8, &p.swap_add, 8);
	}
	return p;
}

static void assert_same_headers(const struct packet *a, const struct packet *b)
{
	const struct opcode *op = a->op;

	if (op_has(op, HDR_XRCETH))
		assert_int_equal(a->xrc_srqn, b->xrc_srqn);
	if (op_has(op, HDR_DETH)) {
		assert_int_equal(a->qkey, b->qkey);
		assert_int_equal(a->src_qpn, b->src_qpn);
	}
	if (op_has(op, HDR_FETH))
		assert_int_equal(a->feth, b->feth);
	if (op_has(op, HDR_RETH) || op_has(op, HDR_ATOMIC) || op_has(op, HDR_EXTATOMIC) || op_has(op, HDR_ELEMENT)) {
		assert_true(a->va == b->va);
		assert_int_equal(a->rkey, b->rkey);
	}
	if (op_has(op, HDR_RETH))
		assert_int_equal(a->dma_len, b->dma_len);
	if (op_has(op, HDR_ATOMIC))
		assert_true(a->swap_add == b->swap_add && a->compare == b->compare);
	if (op_has(op, HDR_EXTATOMIC))
		assert_int_equal(a->log_size, b->log_size);
	if (op_has(op, HDR_ELEMENT)) {
		assert_int_equal(a->element.op, b->element.op);
		assert_int_equal(a->element.datatype, b->element.datatype);
		assert_int_equal(a->element.flags, b->element.flags);
		assert_int_equal(a->element.count, b->element.count);
	}
	if (op_has(op, HDR_AETH)) {
		assert_int_equal(a->syndrome, b->syndrome);
		assert_int_equal(a->msn, b->msn);
	}
	if (op_has(op, HDR_ATOMICACK))
		assert_true(a->orig == b->orig);
	if (op_has(op, HDR_IMM))
		assert_int_equal(a->imm, b->imm);
	if (op_has(op, HDR_IETH))
		assert_int_equal(a->inv_rkey, b->inv_rkey);
}

static void assert_same(const struct packet *a, const struct packet *b)
{
	assert_ptr_equal(a->op, b->op);
	assert_int_equal(a->v4, b->v4);
	assert_memory_equal(a->sgid.raw, b->sgid.raw, 16);
	assert_memory_equal(a->dgid.raw, b->dgid.raw, 16);
	assert_int_equal(a->tclass, b->tclass);
	assert_int_equal(a->hop_limit, b->hop_limit);
	assert_int_equal(a->ip_id, b->ip_id);
	assert_int_equal(a->ip_frag, b->ip_frag);
	assert_int_equal(a->flow_label, b->flow_label);
	assert_int_equal(a->udp_sport, b->udp_sport);
	assert_int_equal(a->udp_csum, b->udp_csum);
	assert_int_equal(a->se, b->se);
	assert_int_equal(a->migreq, b->migreq);
	assert_int_equal(a->ackreq, b->ackreq);
	assert_int_equal(a->ecn, b->ecn);
	assert_int_equal(a->resv7, b->resv7);
	assert_int_equal(a->pad, b->pad);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_same_headers(a, b);
	assert_int_equal(a->payload_len, b->payload_len);
	assert_memory_equal(a->payload, b->payload, a->payload_len);
}

static void encode__every_opcode_survives_an_encode_and_parse_round_trip(void **state)
{
	static const uint32_t lens[] = {0, 1, 2, 3, 4, 5, 8, 64, 255, 256, 257, 1023, 1024, 4093, 4096};
	static uint8_t payload[4096], buf[NIC_FRAME_MAX];

	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)util_random(&seed);
	for (unsigned v = 0; v < 256; v++) {
		const struct opcode *op = op_get((uint8_t)v);

		for (unsigned i = 0; op && i < (op->payload ? sizeof(lens) / sizeof(lens[0]) : 1) * 2; i++) {
			struct packet p = random_packet(op, i % 2, payload, lens[i / 2]), back;
			struct nic_rx_frame frame = {.data = buf};

			frame.len = packet_encode(&p, buf);
			assert_int_equal(frame.len, util_payload_offset(op, p.v4) + lens[i / 2] + p.pad + 4);
			assert_true(frame.len <= NIC_FRAME_MAX);
			assert_int_equal(packet_parse(&frame, &back), PACKET_OK);
			assert_same(&p, &back);
		}
	}
}

static void encode__HV_06_icrc_is_that_of_the_specification(void **state)
{
	static uint8_t payload[4096], buf[NIC_FRAME_MAX];

	for (uint32_t len = 0; len <= 4096; len += len < 70 ? 1 : 61) {
		struct packet p = random_packet(op_find(OP_RC, OP_WRITE, OP_ONLY, OP_IMM), len % 2, payload, len);
		unsigned total = packet_encode(&p, buf);
		uint32_t icrc = util_icrc(buf, total);

		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(buf[total - 4 + i], icrc >> 8 * i & 0xff);
	}
}

static void encode__RQ_06_payload_is_padded_with_zeros_to_a_multiple_of_four(void **state)
{
	static const uint8_t payload[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t buf[NIC_FRAME_MAX];

	for (uint32_t len = 0; len <= 8; len++) {
		struct packet p = random_packet(op_get(0x04), true, payload, len);
		unsigned total;

		memset(buf, 0xee, sizeof(buf));
		total = packet_encode(&p, buf);
		assert_int_equal(total, 28 + 12 + (len + 3) / 4 * 4 + 4);
		assert_int_equal(buf[29] >> 4 & 3, -len & 3);
		for (uint32_t i = len; i < (len + 3) / 4 * 4; i++)
			assert_int_equal(buf[40 + i], 0);
		for (unsigned i = total; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xee); /* nothing is written beyond the packet's end */
	}
}

static void encode__HV_07_reserved_bits_are_sent_as_zero(void **state)
{
	uint8_t buf[NIC_FRAME_MAX];

	for (unsigned v = 0; v < 256; v++) {
		struct packet p;

		if (!op_get((uint8_t)v))
			continue;
		p = random_packet(op_get((uint8_t)v), true, NULL, 0);
		memset(buf, 0xee, sizeof(buf));
		packet_encode(&p, buf);
		assert_int_equal(buf[32] & 0x3f, 0); /* Resv6 */
		assert_int_equal(buf[36] & 0x7f, 0); /* Resv7 */
		assert_int_equal(buf[29] & 0x0f, 0); /* TVer */
		if (op_has(p.op, HDR_XRCETH))
			assert_int_equal(buf[40], 0);
		if (op_has(p.op, HDR_DETH))
			assert_int_equal(buf[44], 0);
		for (unsigned i = 53; op_has(p.op, HDR_EXTATOMIC) && i < 56; i++)
			assert_int_equal(buf[i], 0);
		if (op_has(p.op, HDR_ELEMENT))
			assert_int_equal(buf[55], 0);
		for (unsigned i = 0; op_has(p.op, HDR_CNP) && i < 16; i++)
			assert_int_equal(buf[40 + i], 0);
	}
}

static void encode__RQ_05_solicited_migreq_and_ackreq_set_separate_bits(void **state)
{
	uint8_t buf[NIC_FRAME_MAX];

	for (unsigned bits = 0; bits < 8; bits++) {
		struct packet p = random_packet(op_get(0x04), true, NULL, 0);

		p.se = bits & 1;
		p.migreq = bits >> 1 & 1;
		p.ackreq = bits >> 2 & 1;
		packet_encode(&p, buf);
		assert_int_equal(buf[29] & 0xc0, (p.se ? 0x80 : 0) | (p.migreq ? 0x40 : 0));
		assert_int_equal(buf[36], p.ackreq ? 0x80 : 0);
	}
}

static void encode__payload_already_in_the_frame_gives_the_same_bytes(void **state)
{
	static uint8_t copied[NIC_FRAME_MAX], in_place[NIC_FRAME_MAX];
	uint8_t payload[999];

	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)util_random(&seed);
	for (unsigned v4 = 0; v4 < 2; v4++) {
		struct packet p = random_packet(op_get(0x0a), v4, payload, sizeof(payload));
		unsigned at = util_payload_offset(p.op, v4);
		unsigned len = packet_encode(&p, copied);

		memcpy(in_place + at, payload, sizeof(payload));
		p.payload = in_place + at;
		assert_int_equal(packet_encode(&p, in_place), len);
		assert_memory_equal(in_place, copied, len);
		p.payload = NULL;
		assert_int_equal(packet_encode(&p, in_place), len);
		assert_memory_equal(in_place, copied, len);
	}
}

static void encode__in_two_steps_gives_the_same_bytes(void **state)
{
	static uint8_t whole[NIC_FRAME_MAX], steps[NIC_FRAME_MAX], payload[4096];

	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)util_random(&seed);
	for (uint32_t len = 0; len <= sizeof(payload); len += len < 300 ? 1 : 31) {
		struct packet p = random_packet(op_get(len & 1 ? 0x0b : 0x64), len & 2, payload, len);
		unsigned total = packet_encode(&p, whole);
		uint32_t cut = len / 3;
		uint8_t *place = packet_open(&p, steps);

		assert_ptr_equal(place, steps + util_payload_offset(p.op, p.v4));
		packet_copy(&p, place, payload, cut);
		packet_copy(&p, place + cut, payload + cut, len - cut);
		assert_int_equal(packet_close(&p, steps), total);
		assert_memory_equal(steps, whole, total);
	}
}

static void encode__ipv4_header_checksum_is_right_for_extreme_headers(void **state)
{
	static const uint8_t fills[] = {0x00, 0xff, 0x80, 0x01};
	uint8_t buf[NIC_FRAME_MAX], fixed[20];

	for (unsigned i = 0; i < sizeof(fills); i++) {
		struct packet p = random_packet(op_get(0x11), true, NULL, 0);

		memset(p.sgid.raw + 12, fills[i], 4);
		memset(p.dgid.raw + 12, fills[i], 4);
		p.tclass = p.hop_limit = fills[i];
		for (unsigned id = 0; id < 65536; id++) { /* all IDs, so every carry in the checksum occurs */
			struct nic_rx_frame frame = {.data = buf};
			struct packet back;

			p.ip_id = (uint16_t)id;
			frame.len = packet_encode(&p, buf);
			assert_int_equal(packet_parse(&frame, &back), PACKET_OK);
			memcpy(fixed, buf, 20);
			util_fix_ipv4_checksum(fixed);
			assert_memory_equal(fixed, buf, 20);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__every_opcode_survives_an_encode_and_parse_round_trip),
		cmocka_unit_test(encode__HV_06_icrc_is_that_of_the_specification),
		cmocka_unit_test(encode__RQ_06_payload_is_padded_with_zeros_to_a_multiple_of_four),
		cmocka_unit_test(encode__HV_07_reserved_bits_are_sent_as_zero),
		cmocka_unit_test(encode__RQ_05_solicited_migreq_and_ackreq_set_separate_bits),
		cmocka_unit_test(encode__payload_already_in_the_frame_gives_the_same_bytes),
		cmocka_unit_test(encode__in_two_steps_gives_the_same_bytes),
		cmocka_unit_test(encode__ipv4_header_checksum_is_right_for_extreme_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
