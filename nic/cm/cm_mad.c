/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_mad.c - converts the bytes of MADs to struct cm_mad and back, by the table in cm_table.c (IBTA 12.6, 13.4.2).
 *
 * cm_mad_parse reads untrusted bytes. It checks the length, then the header, and then reads the fields of the message
 * that the header names. All fields are within the 256 bytes of a MAD, so no other bounds check is needed. Stateless.
 */
#include "cm_mad.h"

#include "wire.h"

#define BASE_VERSION  1
#define CLASS_CM      0x07
#define CLASS_VERSION 2
#define METHOD_SEND   0x03

enum {
	MAD_BASE_VERSION = 0,
	MAD_CLASS = 1,
	MAD_CLASS_VERSION = 2,
	MAD_METHOD = 3,
	MAD_TID = 8,
	MAD_ATTR = 16,
	MAD_ATTR_MOD = 20,
};

static inline uint64_t ones(unsigned width)
{
	return UINT64_MAX >> (64 - width);
}

/** @return the `width` bits that begin at bit `bit` of *p, counted from the most significant bit; they span at most
 *  8 bytes */
static uint64_t bits_get(const uint8_t *p, unsigned bit, unsigned width)
{
	unsigned bytes = (bit + width + 7) / 8;
	uint64_t word = 0;

	for (unsigned i = 0; i < bytes; i++)
		word = word << 8 | p[i];
	return word >> (bytes * 8 - bit - width) & ones(width);
}

/** Write bits in the place that bits_get reads; the place must be all zeroes before. */
static void bits_put(uint8_t *p, unsigned bit, unsigned width, uint64_t value)
{
	unsigned bytes = (bit + width + 7) / 8;
	uint64_t word = (value & ones(width)) << (bytes * 8 - bit - width);

	for (unsigned i = bytes; i-- > 0; word >>= 8)
		p[i] |= (uint8_t)word;
}

uint64_t cm_field_get(const struct cm_mad *m, const struct cm_field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->offset;
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (f->size) {
	case sizeof(v16):
		memcpy(&v16, p, sizeof(v16));
		return v16;
	case sizeof(v32):
		memcpy(&v32, p, sizeof(v32));
		return v32;
	case sizeof(v64):
		memcpy(&v64, p, sizeof(v64));
		return v64;
	default:
		return *p;
	}
}

static void field_put(struct cm_mad *m, const struct cm_field *f, uint64_t value)
{
	uint8_t *p = (uint8_t *)m + f->offset;
	uint16_t v16 = (uint16_t)value;
	uint32_t v32 = (uint32_t)value;

	switch (f->size) {
	case sizeof(v16):
		memcpy(p, &v16, sizeof(v16));
		break;
	case sizeof(v32):
		memcpy(p, &v32, sizeof(v32));
		break;
	case sizeof(value):
		memcpy(p, &value, sizeof(value));
		break;
	default:
		*p = (uint8_t)value;
		break;
	}
}

/** Check the length and the fields of the MAD header. */
static enum cm_verdict header_check(const uint8_t *mad, size_t len)
{
	if (len < CM_MAD_LEN)
		return CM_MAD_TOO_SHORT;
	if (len > CM_MAD_LEN)
		return CM_MAD_TOO_LONG;
	if (mad[MAD_BASE_VERSION] != BASE_VERSION)
		return CM_MAD_BAD_BASE_VERSION;
	if (mad[MAD_CLASS] != CLASS_CM)
		return CM_MAD_BAD_CLASS;
	if (mad[MAD_CLASS_VERSION] != CLASS_VERSION)
		return CM_MAD_BAD_CLASS_VERSION;
	if (mad[MAD_METHOD] != METHOD_SEND)
		return CM_MAD_BAD_METHOD;
	if (!cm_message_get(wire_get16(mad + MAD_ATTR)))
		return CM_MAD_BAD_ATTRIBUTE;
	return CM_MAD_OK;
}

/** Check info_len, and `answered` in MRA and REJ. */
static enum cm_verdict fields_check(const struct cm_mad *m)
{
	if (m->info_len > CM_INFO_LEN)
		return CM_MAD_BAD_INFO;
	if ((m->attr == CM_MRA && m->mra.answered > CM_ANSWERS_OTHER) ||
	    (m->attr == CM_REJ && m->rej.answered > CM_ANSWERS_OTHER))
		return CM_MAD_BAD_ANSWERED;
	return CM_MAD_OK;
}

enum cm_verdict cm_mad_parse(const uint8_t *mad, size_t len, struct cm_mad *out)
{
	enum cm_verdict verdict = header_check(mad, len);
	const struct cm_message *message;

	memset(out, 0, sizeof(*out));
	if (verdict != CM_MAD_OK)
		return verdict;
	out->attr = wire_get16(mad + MAD_ATTR);
	message = cm_message_get(out->attr);
	out->tid = wire_get64(mad + MAD_TID);
	out->attr_mod = wire_get32(mad + MAD_ATTR_MOD);
	for (const struct cm_field *f = message->fields; f->name; f++) {
		if (f->width == CM_GID_BITS)
			memcpy((uint8_t *)out + f->offset, mad + f->byte, sizeof(struct nic_gid));
		else
			field_put(out, f, cm_field_get(out, f) | bits_get(mad + f->byte, f->bit, f->width) << f->shift);
	}
	verdict = fields_check(out);
	if (verdict != CM_MAD_OK) {
		memset(out, 0, sizeof(*out));
		return verdict;
	}
	if (message->info)
		out->info = mad + message->info;
	out->data = mad + message->data;
	out->data_len = (uint8_t)(CM_MAD_LEN - message->data);
	return CM_MAD_OK;
}

static void bytes_put(uint8_t *to, size_t room, const uint8_t *bytes, size_t len)
{
	if (len > room)
		len = room;
	if (len > 0)
		memcpy(to, bytes, len);
}

void cm_mad_build(const struct cm_mad *in, uint8_t mad[CM_MAD_LEN])
{
	const struct cm_message *message = cm_message_get(in->attr);

	memset(mad, 0, CM_MAD_LEN);
	mad[MAD_BASE_VERSION] = BASE_VERSION;
	mad[MAD_CLASS] = CLASS_CM;
	mad[MAD_CLASS_VERSION] = CLASS_VERSION;
	mad[MAD_METHOD] = METHOD_SEND;
	wire_put64(mad + MAD_TID, in->tid);
	wire_put16(mad + MAD_ATTR, (uint16_t)in->attr);
	wire_put32(mad + MAD_ATTR_MOD, in->attr_mod);
	for (const struct cm_field *f = message->fields; f->name; f++) {
		if (f->width == CM_GID_BITS)
			memcpy(mad + f->byte, (const uint8_t *)in + f->offset, sizeof(struct nic_gid));
		else
			bits_put(mad + f->byte, f->bit, f->width, cm_field_get(in, f) >> f->shift);
	}
	if (message->info)
		bytes_put(mad + message->info, CM_INFO_LEN, in->info, in->info_len);
	bytes_put(mad + message->data, CM_MAD_LEN - message->data, in->data, in->data_len);
}

uint8_t cm_time_code(uint64_t ns)
{
	uint8_t code = 0;

	while (code < 31 && nic_timeout_ns(code) < ns)
		code++;
	return code;
}
