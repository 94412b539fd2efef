/* SPDX-License-Identifier: BSD-3-Clause */
/* decode.c - see decode.h. Formats from IBTA 9.2-9.6. */
#include "decode.h"

#include <string.h>

static uint64_t be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void mark_headers(struct decoded *d)
{
	uint8_t op = d->op;

	d->response =
		(op >= DOP_READ_FIRST && op <= DOP_ATOMIC_ACK) || op == DOP_EXT_ATOMIC_ACK || op == DOP_ELEMENTS_ACK;
	d->has_reth = op == DOP_WRITE_FIRST || op == DOP_WRITE_ONLY || op == DOP_WRITE_ONLY_IMM || op == DOP_READ_REQ ||
		      op == DOP_FLUSH || op == DOP_ATOMIC_WRITE;
	d->has_feth = op == DOP_FLUSH;
	d->has_srqn = d->service == 5 && !d->response;
	d->has_atomic = op == DOP_CMP_SWAP || op == DOP_FETCH_ADD;
	d->has_ext = op == DOP_MASKED_CMP_SWAP || op == DOP_MASKED_FETCH_ADD;
	d->has_element = op == DOP_ELEMENTS || op == DOP_FETCH_ELEMENTS;
	d->has_aeth = d->response && op != DOP_READ_MIDDLE;
	d->has_imm = op == DOP_SEND_LAST_IMM || op == DOP_SEND_ONLY_IMM || op == DOP_WRITE_LAST_IMM ||
		     op == DOP_WRITE_ONLY_IMM;
	d->has_ieth = op == DOP_SEND_LAST_INV || op == DOP_SEND_ONLY_INV;
}

static unsigned extension_length(const struct decoded *d)
{
	unsigned n = 0;

	n += d->service == 3 ? 8 : 0;
	n += d->has_srqn ? 4 : 0;
	n += d->has_feth ? 4 : 0;
	n += d->has_reth ? 16 : 0;
	n += d->has_atomic ? 28 : 0;
	n += d->has_ext ? 16 : 0;
	n += d->has_element ? 20 : 0;
	n += d->has_aeth ? 4 : 0;
	n += d->op == DOP_ATOMIC_ACK ? 8 : 0;
	n += d->has_imm ? 4 : 0;
	n += d->has_ieth ? 4 : 0;
	return n;
}

static void read_extensions(struct decoded *d, const uint8_t *p)
{
	if (d->service == 3) {
		d->qkey = (uint32_t)be(p, 4);
		d->src_qpn = (uint32_t)be(p + 5, 3);
		p += 8;
	}
	if (d->has_srqn) {
		d->srqn = (uint32_t)be(p + 1, 3);
		p += 4;
	}
	if (d->has_feth) {
		d->feth = (uint32_t)be(p, 4);
		p += 4;
	}
	if (d->has_reth || d->has_atomic || d->has_ext || d->has_element) {
		d->va = be(p, 8);
		d->rkey = (uint32_t)be(p + 8, 4);
		p += 12;
	}
	if (d->has_reth) {
		d->dma_len = (uint32_t)be(p, 4);
		p += 4;
	}
	if (d->has_atomic) {
		d->swap_add = be(p, 8);
		d->compare = be(p + 8, 8);
		p += 16;
	}
	if (d->has_ext) {
		d->log_size = p[0];
		p += 4;
	}
	if (d->has_element) {
		d->element_op = p[0];
		d->element_type = p[1];
		d->element_flags = p[2];
		d->element_count = (uint32_t)be(p + 4, 4);
		p += 8;
	}
	if (d->has_aeth) {
		d->syndrome = p[0];
		d->msn = (uint32_t)be(p + 1, 3);
		p += 4;
	}
	if (d->op == DOP_ATOMIC_ACK)
		d->orig = be(p, 8);
	if (d->has_imm)
		memcpy(&d->imm, p, 4);
	if (d->has_ieth)
		d->ieth = (uint32_t)be(p, 4);
}

bool decode_frame(const uint8_t *frame, unsigned len, struct decoded *d)
{
	unsigned pad, ext, end;

	memset(d, 0, sizeof(*d));
	d->bth = len > 0 && frame[0] >> 4 == 4 ? 28 : 48;
	if (len < d->bth + 16)
		return false;
	const uint8_t *b = frame + d->bth;
	d->opcode = b[0];
	d->service = b[0] >> 5;
	d->op = (b[0] & 0x1f) + (d->service == 6 ? DOP_MASKED_CMP_SWAP : 0);
	d->se = b[1] >> 7;
	pad = b[1] >> 4 & 3;
	end = (b[1] & 15) == 15 ? 8 : 4; /* TVer 15: the frame ends with a tag, not with an ICRC */
	d->qpn = (uint32_t)be(b + 5, 3);
	d->ackreq = b[8] >> 7;
	d->psn = (uint32_t)be(b + 9, 3);
	mark_headers(d);
	ext = extension_length(d);
	d->payload = d->bth + 12 + ext;
	if (len < d->payload + pad + end)
		return false;
	read_extensions(d, b + 12);
	d->payload_len = len - d->payload - pad - end;
	return true;
}

const char *decode_name(uint8_t opcode)
{
	static const char *const op[32] = {
		"SEND FIRST",
		"SEND MIDDLE",
		"SEND LAST",
		"SEND LAST IMM",
		"SEND ONLY",
		"SEND ONLY IMM",
		"WRITE FIRST",
		"WRITE MIDDLE",
		"WRITE LAST",
		"WRITE LAST IMM",
		"WRITE ONLY",
		"WRITE ONLY IMM",
		"READ REQUEST",
		"READ RESP FIRST",
		"READ RESP MIDDLE",
		"READ RESP LAST",
		"READ RESP ONLY",
		"ACK",
		"ATOMIC ACK",
		"CMP SWAP",
		"FETCH ADD",
		"?",
		"SEND LAST INV",
		"SEND ONLY INV",
		"?",
		"?",
		"?",
		"?",
		"FLUSH",
		"ATOMIC WRITE",
		"?",
		"?",
	};
	static const char *const service[8] = {"RC", "UC", "RD", "UD", "CN", "XRC", "?", "?"};
	static const char *const extended[7] = {"MASKED CMP SWAP", "MASKED FETCH ADD", "EXT ATOMIC ACK", "?",
						"ELEMENTS",	   "FETCH ELEMENTS",   "ELEMENTS ACK"};
	static char name[32];

	if (opcode >= 0xc0 && opcode <= 0xc6)
		return extended[opcode - 0xc0];
	snprintf(name, sizeof(name), "%s %s", service[opcode >> 5], op[opcode & 0x1f]);
	return name;
}

void decode_print(const struct decoded *d, char *buf, unsigned size)
{
	int n = snprintf(buf, size, "%s psn %u", decode_name(d->opcode), d->psn);

#define ADD(...)                                                                                                       \
	do {                                                                                                           \
		if (n >= 0 && (unsigned)n < size)                                                                      \
			n += snprintf(buf + n, size - (unsigned)n, __VA_ARGS__);                                       \
	} while (0)
	if (d->payload_len > 0)
		ADD(" len %u", d->payload_len);
	if (d->has_reth)
		ADD(" dma_len %u", d->dma_len);
	if (d->has_aeth && d->syndrome < 0x20)
		ADD(" msn %u", d->msn);
	if (d->has_aeth && d->syndrome >= 0x20)
		ADD(" %s %02x", d->syndrome < 0x40 ? "RNR" : "NAK", d->syndrome);
	if (d->op == DOP_ATOMIC_ACK)
		ADD(" orig %llu", (unsigned long long)d->orig);
	if (d->ackreq)
		ADD(" A");
	if (d->se)
		ADD(" SE");
#undef ADD
}
