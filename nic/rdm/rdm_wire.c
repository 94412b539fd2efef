/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_wire.c - wire format of reliable datagram endpoints; see rdm_wire.h. Only this file parses the headers
 * and the call datagrams that other endpoints send. */
#include "rdm_wire.h"

#include "wire.h"

#define CALL_MAGIC 0x75726f63u /* "uroc" */
#define VERSION	   1

static inline void put_fixed(uint8_t *p, uint8_t kind, uint8_t flags, uint8_t n_segments, uint32_t id, uint64_t length,
			     uint64_t tag, uint64_t data)
{
	p[0] = kind;
	p[1] = flags;
	p[2] = n_segments;
	p[3] = VERSION;
	wire_put32(p + 4, id);
	wire_put64(p + 8, length);
	wire_put64(p + 16, tag);
	wire_put64(p + 24, data);
}

uint32_t rdm_eager_put(uint8_t *p, uint8_t flags, uint32_t id, uint64_t length, uint64_t tag, uint64_t data)
{
	put_fixed(p, RDM_EAGER, flags, 0, id, length, tag, data);
	return RDM_HEADER_LEN;
}

uint32_t rdm_header_put(const struct rdm_header *h, uint8_t *p)
{
	uint8_t *s = p + RDM_HEADER_LEN;

	put_fixed(p, h->kind, h->flags, h->n_segments, h->id, h->length, h->tag, h->data);
	for (uint32_t i = 0; i < h->n_segments; i++, s += RDM_SEGMENT_LEN) {
		wire_put64(s, h->segment[i].addr);
		wire_put64(s + 8, h->segment[i].len);
		wire_put32(s + 16, h->segment[i].rkey);
		wire_put32(s + 20, 0);
	}
	return (uint32_t)(s - p);
}

static uint64_t segments_get(struct rdm_header *h, const uint8_t *s)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < h->n_segments; i++, s += RDM_SEGMENT_LEN) {
		h->segment[i].addr = wire_get64(s);
		h->segment[i].len = wire_get64(s + 8);
		h->segment[i].rkey = wire_get32(s + 16);
		if (h->segment[i].len > NIC_RDM_MSG_MAX)
			return UINT64_MAX;
		total += h->segment[i].len;
	}
	return total;
}

uint32_t rdm_header_get(struct rdm_header *h, const uint8_t *p, uint32_t len)
{
	uint32_t prefix;

	if (len < RDM_HEADER_LEN || p[3] != VERSION)
		return 0;
	h->kind = p[0];
	h->flags = p[1];
	h->n_segments = p[2];
	h->id = wire_get32(p + 4);
	h->length = wire_get64(p + 8);
	h->tag = wire_get64(p + 16);
	h->data = wire_get64(p + 24);
	prefix = RDM_HEADER_LEN + h->n_segments * RDM_SEGMENT_LEN;
	if (h->kind < RDM_EAGER || h->kind > RDM_RESULT || (h->flags & ~RDM_FLAGS_KNOWN) ||
	    h->n_segments > NIC_RDM_IOV_MAX || len < prefix)
		return 0;
	/* Reject an untagged message with a tag: no receive would ever match it. */
	if ((h->kind == RDM_EAGER || h->kind == RDM_OFFER) && !(h->flags & RDM_IS_TAGGED) && h->tag)
		return 0;
	if (rdm_has_body(h->kind)) {
		segments_get(h, p + RDM_HEADER_LEN);
		if (h->kind == RDM_RESULT && h->flags)
			return 0;
		return h->n_segments == (h->kind == RDM_OPERATE) && h->length <= NIC_RDM_EAGER_MAX ? prefix : 0;
	}
	if (h->kind == RDM_OFFER && !(h->flags & RDM_WANTS_FIN))
		return 0;
	/* All remaining kinds have no body. */
	if (len != prefix || (h->kind == RDM_OFFER) != (h->n_segments > 0) || h->length > NIC_RDM_MSG_MAX ||
	    (segments_get(h, p + RDM_HEADER_LEN) != h->length && h->kind != RDM_WRITTEN))
		return 0;
	return prefix;
}

void rdm_call_put(const struct rdm_call *c, uint8_t *p)
{
	wire_put32(p, CALL_MAGIC);
	p[4] = VERSION;
	p[5] = c->kind;
	p[6] = c->mtu;
	p[7] = c->takes;
	wire_put64(p + 8, c->from);
	wire_put64(p + 16, c->to);
	wire_put32(p + 24, c->attempt);
	wire_put32(p + 28, c->echo);
	wire_put32(p + 32, c->qpn);
	wire_put32(p + 36, c->psn);
}

bool rdm_call_get(struct rdm_call *c, const uint8_t *p, uint32_t len)
{
	if (len < RDM_CALL_LEN || len > RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX || wire_get32(p) != CALL_MAGIC ||
	    p[4] != VERSION)
		return false;
	c->kind = p[5];
	c->mtu = p[6];
	c->takes = p[7];
	c->from = wire_get64(p + 8);
	c->to = wire_get64(p + 16);
	c->attempt = wire_get32(p + 24);
	c->echo = wire_get32(p + 28);
	c->qpn = wire_get32(p + 32);
	c->psn = wire_get32(p + 36);
	c->data_len = len - RDM_CALL_LEN;
	return c->kind >= RDM_HELLO && c->kind <= RDM_BYE && (c->kind >= RDM_ASK || c->data_len == 0) && c->from != 0 &&
	       c->mtu >= NIC_MTU_256 && c->mtu <= NIC_MTU_4096 && c->qpn <= 0xffffff && c->psn <= 0xffffff;
}
