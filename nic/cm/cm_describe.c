/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_describe.c - describes a message of the connection manager in one line; see cm_mad.h. The line has every field of
 * the table that is not 0; numbers of up to 8 bits are decimal, wider numbers hexadecimal. No stdio, because nic/ does
 * no I/O.
 */
#include "cm_mad.h"

#include "gid.h"

#include <string.h>

struct line {
	char *at;
	size_t len, room; /* characters written so far, and their maximum; both without the 0 at the end */
};

static void put_char(struct line *l, char c)
{
	if (l->len < l->room)
		l->at[l->len++] = c;
}

static void put(struct line *l, const char *text)
{
	while (*text)
		put_char(l, *text++);
}

static void put_number(struct line *l, uint64_t value, unsigned base)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value > 0);
	while (n > 0)
		put_char(l, digits[--n]);
}

/** Write an IPv4 address in dotted form, any other GID as 32 hexadecimal digits. */
static void put_gid(struct line *l, const struct nic_gid *gid)
{
	if (gid_is_v4(gid)) {
		for (unsigned i = 12; i < 16; i++) {
			put_number(l, gid->raw[i], 10);
			if (i < 15)
				put_char(l, '.');
		}
		return;
	}
	for (unsigned i = 0; i < 16; i++) {
		put_number(l, gid->raw[i] >> 4, 16);
		put_number(l, gid->raw[i] & 15, 16);
	}
}

/** Write the name of a field without the part up to the first dot, which names the message: " qpn=" for "req.qpn". */
static void put_name(struct line *l, const char *name)
{
	const char *dot = strchr(name, '.');

	put_char(l, ' ');
	put(l, dot ? dot + 1 : name);
	put_char(l, '=');
}

static bool is_first_part(const struct cm_message *message, const struct cm_field *field)
{
	for (const struct cm_field *f = message->fields; f != field; f++)
		if (f->offset == field->offset)
			return false;
	return true;
}

static void put_field(struct line *l, const struct cm_mad *m, const struct cm_field *f)
{
	struct nic_gid gid;
	uint64_t value;

	if (f->width == CM_GID_BITS) {
		memcpy(&gid, (const uint8_t *)m + f->offset, sizeof(gid));
		if (gid_is_zero(&gid))
			return;
		put_name(l, f->name);
		put_gid(l, &gid);
		return;
	}
	value = cm_field_get(m, f);
	if (value == 0)
		return;
	put_name(l, f->name);
	if (f->size > 1)
		put(l, "0x");
	put_number(l, value, f->size > 1 ? 16 : 10);
}

/** Write the meaning of a reason or status, in parentheses. */
static void put_words(struct line *l, const struct cm_mad *m)
{
	const char *words = m->attr == CM_REJ	     ? cm_reason_name(m->rej.reason)
			    : m->attr == CM_SIDR_REP ? cm_sidr_status_name(m->sidr_rep.status)
			    : m->attr == CM_APR	     ? cm_apr_status_name(m->apr.status)
						     : NULL;

	if (!words)
		return;
	put(l, " (");
	put(l, words);
	put(l, ")");
}

size_t cm_mad_describe(const struct cm_mad *m, char *line, size_t size)
{
	const struct cm_message *message = cm_message_get(m->attr);
	struct line l = {.at = line, .room = size - 1};
	uint32_t data_len = m->data_len;

	put(&l, message->name);
	for (const struct cm_field *f = message->fields; f->name; f++)
		if (is_first_part(message, f))
			put_field(&l, m, f);
	put_words(&l, m);
	while (data_len > 0 && m->data[data_len - 1] == 0)
		data_len--;
	if (data_len > 0) {
		put(&l, " private=");
		put_number(&l, data_len, 10);
	}
	line[l.len] = 0;
	return l.len;
}
