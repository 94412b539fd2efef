/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cm_table.c - the position of each field in each message of the connection manager (cm_table.c). The check_
 * functions state these positions a second time, written by hand from the IBTA's tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm_util.h"
#include "wire.h"

/* ---- fields of each message; b is the message after the MAD header ------------------------------------------- */

static void check_ids(const uint8_t *b, const struct cm_mad *m)
{
	assert_int_equal(m->local_id, wire_get32(b));
	assert_int_equal(m->remote_id, wire_get32(b + 4));
}

static void check_path(const uint8_t *b, const struct cm_path *path)
{
	assert_int_equal(path->local_lid, wire_get16(b));
	assert_int_equal(path->remote_lid, wire_get16(b + 2));
	assert_memory_equal(path->local_gid.raw, b + 4, 16);
	assert_memory_equal(path->remote_gid.raw, b + 20, 16);
	assert_int_equal(path->flow_label, wire_get32(b + 36) >> 12);
	assert_int_equal(path->rate, b[39] & 0x3f);
	assert_int_equal(path->traffic_class, b[40]);
	assert_int_equal(path->hop_limit, b[41]);
	assert_int_equal(path->sl, b[42] >> 4);
	assert_int_equal(path->subnet_local, b[42] >> 3 & 1);
	assert_int_equal(path->ack_timeout, b[43] >> 3);
}

static void check_req(const uint8_t *b, const struct cm_mad *m)
{
	const struct cm_req *req = &m->req;

	assert_int_equal(m->local_id, wire_get32(b));
	assert_int_equal(m->remote_id, 0);
	assert_int_equal(req->vendor_id, wire_get24(b + 5));
	assert_int_equal(req->service_id, wire_get64(b + 8));
	assert_int_equal(req->ca_guid, wire_get64(b + 16));
	assert_int_equal(req->qkey, wire_get32(b + 28));
	assert_int_equal(req->qpn, wire_get24(b + 32));
	assert_int_equal(req->responder_resources, b[35]);
	assert_int_equal(req->local_eecn, wire_get24(b + 36));
	assert_int_equal(req->initiator_depth, b[39]);
	assert_int_equal(req->remote_eecn, wire_get24(b + 40));
	assert_int_equal(req->remote_cm_response_timeout, b[43] >> 3);
	assert_int_equal(req->transport, b[43] >> 1 & 3);
	assert_int_equal(req->flow_control, b[43] & 1);
	assert_int_equal(req->starting_psn, wire_get24(b + 44));
	assert_int_equal(req->local_cm_response_timeout, b[47] >> 3);
	assert_int_equal(req->retry_count, b[47] & 7);
	assert_int_equal(req->pkey, wire_get16(b + 48));
	assert_int_equal(req->mtu, b[50] >> 4);
	assert_int_equal(req->rdc_exists, b[50] >> 3 & 1);
	assert_int_equal(req->rnr_retry_count, b[50] & 7);
	assert_int_equal(req->max_cm_retries, b[51] >> 4);
	assert_int_equal(req->srq, b[51] >> 3 & 1);
	assert_int_equal(req->extended_transport, b[51] & 7);
	check_path(b + 52, &req->primary);
	check_path(b + 96, &req->alternate);
	assert_int_equal(req->sap_supported, b[139] >> 2 & 1);
	assert_ptr_equal(m->data, b + 140);
	assert_int_equal(m->data_len, 92);
}

static void check_mra(const uint8_t *b, const struct cm_mad *m)
{
	check_ids(b, m);
	assert_int_equal(m->mra.answered, b[8] >> 6);
	assert_int_equal(m->mra.service_timeout, b[9] >> 3);
	assert_ptr_equal(m->data, b + 10);
	assert_int_equal(m->data_len, 222);
}

static void check_rej(const uint8_t *b, const struct cm_mad *m)
{
	check_ids(b, m);
	assert_int_equal(m->rej.answered, b[8] >> 6);
	assert_int_equal(m->info_len, b[9] >> 1);
	assert_int_equal(m->rej.reason, wire_get16(b + 10));
	assert_ptr_equal(m->info, b + 12);
	assert_ptr_equal(m->data, b + 84);
	assert_int_equal(m->data_len, 148);
}

static void check_rep(const uint8_t *b, const struct cm_mad *m)
{
	const struct cm_rep *rep = &m->rep;

	check_ids(b, m);
	assert_int_equal(rep->qkey, wire_get32(b + 8));
	assert_int_equal(rep->qpn, wire_get24(b + 12));
	assert_int_equal(rep->vendor_id, b[15] << 16 | b[19] << 8 | b[23]);
	assert_int_equal(rep->local_eecn, wire_get24(b + 16));
	assert_int_equal(rep->starting_psn, wire_get24(b + 20));
	assert_int_equal(rep->responder_resources, b[24]);
	assert_int_equal(rep->initiator_depth, b[25]);
	assert_int_equal(rep->target_ack_delay, b[26] >> 3);
	assert_int_equal(rep->failover_accepted, b[26] >> 1 & 3);
	assert_int_equal(rep->flow_control, b[26] & 1);
	assert_int_equal(rep->rnr_retry_count, b[27] >> 5);
	assert_int_equal(rep->srq, b[27] >> 4 & 1);
	assert_int_equal(rep->ca_guid, wire_get64(b + 28));
	assert_ptr_equal(m->data, b + 36);
	assert_int_equal(m->data_len, 196);
}

/** Check the fields of an RTU or DREP. */
static void check_bare(const uint8_t *b, const struct cm_mad *m)
{
	check_ids(b, m);
	assert_ptr_equal(m->data, b + 8);
	assert_int_equal(m->data_len, 224);
}

static void check_dreq(const uint8_t *b, const struct cm_mad *m)
{
	check_ids(b, m);
	assert_int_equal(m->dreq.remote_qpn, wire_get24(b + 8));
	assert_ptr_equal(m->data, b + 12);
	assert_int_equal(m->data_len, 220);
}

static void check_sidr_req(const uint8_t *b, const struct cm_mad *m)
{
	assert_int_equal(m->sidr_req.request_id, wire_get32(b));
	assert_int_equal(m->sidr_req.pkey, wire_get16(b + 4));
	assert_int_equal(m->sidr_req.service_id, wire_get64(b + 8));
	assert_ptr_equal(m->data, b + 16);
	assert_int_equal(m->data_len, 216);
}

static void check_sidr_rep(const uint8_t *b, const struct cm_mad *m)
{
	assert_int_equal(m->sidr_rep.request_id, wire_get32(b));
	assert_int_equal(m->sidr_rep.status, b[4]);
	assert_int_equal(m->info_len, b[5]);
	assert_int_equal(m->sidr_rep.vendor_id, b[6] << 16 | b[7] << 8 | b[11]);
	assert_int_equal(m->sidr_rep.qpn, wire_get24(b + 8));
	assert_int_equal(m->sidr_rep.service_id, wire_get64(b + 12));
	assert_int_equal(m->sidr_rep.qkey, wire_get32(b + 20));
	assert_ptr_equal(m->info, b + 24);
	assert_ptr_equal(m->data, b + 96);
	assert_int_equal(m->data_len, 136);
}

static void check_lap(const uint8_t *b, const struct cm_mad *m)
{
	const struct cm_path *path = &m->lap.path;

	check_ids(b, m);
	assert_int_equal(m->lap.remote_qpn, wire_get24(b + 12));
	assert_int_equal(m->lap.remote_cm_response_timeout, b[15] >> 3);
	assert_int_equal(path->local_lid, wire_get16(b + 20));
	assert_int_equal(path->remote_lid, wire_get16(b + 22));
	assert_memory_equal(path->local_gid.raw, b + 24, 16);
	assert_memory_equal(path->remote_gid.raw, b + 40, 16);
	assert_int_equal(path->flow_label, wire_get32(b + 56) >> 12);
	assert_int_equal(path->traffic_class, b[59]);
	assert_int_equal(path->hop_limit, b[60]);
	assert_int_equal(path->rate, b[61] & 0x3f);
	assert_int_equal(path->sl, b[62] >> 4);
	assert_int_equal(path->subnet_local, b[62] >> 3 & 1);
	assert_int_equal(path->ack_timeout, b[63] >> 3);
	assert_ptr_equal(m->data, b + 64);
	assert_int_equal(m->data_len, 168);
}

static void check_apr(const uint8_t *b, const struct cm_mad *m)
{
	check_ids(b, m);
	assert_int_equal(m->info_len, b[8]);
	assert_int_equal(m->apr.status, b[9]);
	assert_ptr_equal(m->info, b + 12);
	assert_ptr_equal(m->data, b + 84);
	assert_int_equal(m->data_len, 148);
}

static void (*const check[])(const uint8_t *b, const struct cm_mad *m) = {
	check_req,  check_mra,	    check_rej,	    check_rep, check_bare, check_dreq,
	check_bare, check_sidr_req, check_sidr_rep, check_lap, check_apr,
};

static void cm_table__every_field_lies_where_the_ibta_says(void **state)
{
	uint8_t mad[CM_MAD_LEN];
	uint64_t seed = 12;
	struct cm_mad m;

	for (unsigned round = 0; round < 500; round++)
		for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
			cm_random(&seed, attr, mad);
			assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &m), CM_MAD_OK);
			assert_int_equal(m.attr, attr);
			assert_int_equal(m.tid, wire_get64(mad + 8));
			assert_int_equal(m.attr_mod, wire_get32(mad + 20));
			check[attr - CM_REQ](mad + CM_MAD_HEADER_LEN, &m);
		}
}

/* ---- each field by itself -------------------------------------------------------------------------------------- */

/** Set `bits` bits of the MAD from bit `from` of byte `byte` on. */
static void mark(uint8_t *map, unsigned byte, unsigned from, unsigned bits)
{
	for (unsigned i = byte * 8 + from; i < byte * 8 + from + bits; i++) {
		assert_true(i / 8 < CM_MAD_LEN);
		assert_int_equal(map[i / 8] & 0x80 >> i % 8, 0); /* no two fields overlap */
		map[i / 8] |= (uint8_t)(0x80 >> i % 8);
	}
}

static void cm_table__fields_do_not_overlap(void **state)
{
	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		const struct cm_message *message = cm_message_get(attr);
		uint8_t map[CM_MAD_LEN] = {0};

		mark(map, 0, 0, CM_MAD_HEADER_LEN * 8);
		for (const struct cm_field *f = message->fields; f->name; f++)
			mark(map, f->byte, f->bit, f->width);
		if (message->info)
			mark(map, message->info, 0, CM_INFO_LEN * 8);
		mark(map, message->data, 0, cm_mad_room(attr) * 8);
		assert_int_equal(message->data + cm_mad_room(attr), CM_MAD_LEN);
	}
}

/** Whether the member is made of several fields, each with a row in the table. */
static bool in_parts(const struct cm_message *message, const struct cm_field *field)
{
	for (const struct cm_field *f = message->fields; f->name; f++)
		if (f != field && f->offset == field->offset)
			return true;
	return false;
}

/** Set a member of the message: the bits of the field to `value`, its other bits to 0. */
static void member_set(struct cm_mad *m, const struct cm_field *f, uint64_t value)
{
	uint8_t *member = (uint8_t *)m + f->offset;

	value <<= f->shift;
	if (f->width == CM_GID_BITS)
		memset(member, 0xff, sizeof(struct nic_gid));
	else if (f->size == 1)
		*member = (uint8_t)value;
	else if (f->size == 2)
		memcpy(member, &(uint16_t){(uint16_t)value}, 2);
	else if (f->size == 4)
		memcpy(member, &(uint32_t){(uint32_t)value}, 4);
	else
		memcpy(member, &value, 8);
}

/** Build a MAD with a field of all ones: only the field's bits change, and the MAD is parsed to the same message. */
static void check_ones(uint32_t attr, const struct cm_field *f)
{
	static const uint8_t info[256];
	uint8_t mad[CM_MAD_LEN], want[CM_MAD_LEN];
	struct cm_mad m, back;
	enum cm_verdict verdict;

	cm_clear(&m, attr);
	cm_mad_build(&m, want);
	mark(want, f->byte, f->bit, f->width);
	member_set(&m, f, f->width >= 64 ? UINT64_MAX : (UINT64_C(1) << f->width) - 1);
	m.info = info;
	cm_mad_build(&m, mad);
	assert_memory_equal(mad, want, CM_MAD_LEN);
	verdict = cm_mad_parse(mad, CM_MAD_LEN, &back);
	if (strcmp(f->name, "info_len") == 0) {
		assert_int_equal(verdict, CM_MAD_BAD_INFO);
	} else if (strcmp(f->name, "mra.answered") == 0 || strcmp(f->name, "rej.answered") == 0) {
		assert_int_equal(verdict, CM_MAD_BAD_ANSWERED);
	} else {
		assert_int_equal(verdict, CM_MAD_OK);
		m.info = back.info;
		m.data = back.data;
		m.data_len = back.data_len;
		assert_memory_equal(&m, &back, sizeof(m));
	}
}

/** Build a MAD with a value just too large for a field: no bit changes, in particular none next to the field. */
static void check_too_large(uint32_t attr, const struct cm_field *f)
{
	static const uint8_t info[256];
	uint8_t mad[CM_MAD_LEN], want[CM_MAD_LEN];
	struct cm_mad m;

	cm_clear(&m, attr);
	cm_mad_build(&m, want);
	member_set(&m, f, UINT64_C(1) << f->width);
	m.info = info;
	cm_mad_build(&m, mad);
	assert_memory_equal(mad, want, CM_MAD_LEN);
}

static void cm_table__every_field_at_its_extremes(void **state)
{
	unsigned narrow = 0, fields = 0;

	for (uint32_t attr = CM_REQ; attr <= CM_APR; attr++) {
		const struct cm_message *message = cm_message_get(attr);

		for (const struct cm_field *f = message->fields; f->name; f++, fields++) {
			check_ones(attr, f);
			if (f->width < f->size * 8u && !in_parts(message, f)) {
				check_too_large(attr, f);
				narrow++;
			}
		}
	}
	assert_true(fields > 100 && narrow > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_table__every_field_lies_where_the_ibta_says),
		cmocka_unit_test(cm_table__fields_do_not_overlap),
		cmocka_unit_test(cm_table__every_field_at_its_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
