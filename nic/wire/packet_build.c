/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet_build.c - from struct packet to bytes (IBTA 9.2-9.6, annex A17).
 *
 * Packets to be built are not validated: the caller is trusted. This code is on the path of every packet: fixed-size
 * copies, no loops over payload, one CRC call where possible. Stateless.
 */
#include <string.h>

#include "carrier.h"
#include "icrc.h"
#include "keyed.h"
#include "opcode.h"
#include "packet.h"
#include "wire.h"

static inline void put_bth(const struct packet *p, uint8_t *bth, bool masked)
{
	wire_put32(bth, (uint32_t)p->op->value << 24 | (uint32_t)p->se << 23 | (uint32_t)p->migreq << 22 |
				(uint32_t)(p->pad & 3) << 20 | p->pkey);
	wire_put32(bth + BTH_ECN, (uint32_t)(masked ? 0xff : p->ecn) << 24 | p->dest_qpn);
	wire_put32(bth + BTH_ACK, (uint32_t)p->ackreq << 31 | (uint32_t)(p->resv7 & BTH_RESV7_MASK) << 24 | p->psn);
}

static inline void put_reth(const struct packet *p, uint8_t *h)
{
	wire_put64(h + RETH_VA, p->va);
	wire_put32(h + RETH_RKEY, p->rkey);
	wire_put32(h + RETH_DMA_LEN, p->dma_len);
}

static inline void put_aeth(const struct packet *p, uint8_t *h)
{
	wire_put32(h, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
}

static void put_any_extensions(const struct packet *p, uint8_t *h)
{
	const struct opcode *op = p->op;

	if (op_has(op, HDR_XRCETH)) {
		wire_put32(h, p->xrc_srqn & 0xffffff);
		h += XRCETH_LEN;
	}
	if (op_has(op, HDR_DETH)) {
		wire_put32(h + DETH_QKEY, p->qkey);
		wire_put32(h + DETH_SRC_QPN - 1, p->src_qpn); /* also writes the reserved byte before the QPN */
		h += DETH_LEN;
	}
	if (op_has(op, HDR_FETH)) {
		wire_put32(h, p->feth);
		h += FETH_LEN;
	}
	if (op_has(op, HDR_RETH)) {
		put_reth(p, h);
		h += RETH_LEN;
	}
	if (op_has(op, HDR_ATOMIC)) {
		wire_put64(h + ATOMICETH_VA, p->va);
		wire_put32(h + ATOMICETH_RKEY, p->rkey);
		wire_put64(h + ATOMICETH_SWAP_ADD, p->swap_add);
		wire_put64(h + ATOMICETH_COMPARE, p->compare);
		return;
	}
	if (op_has(op, HDR_EXTATOMIC)) {
		wire_put64(h + EXTATOMICETH_VA, p->va);
		wire_put32(h + EXTATOMICETH_RKEY, p->rkey);
		wire_put32(h + EXTATOMICETH_LOG_SIZE, (uint32_t)p->log_size << 24);
		return;
	}
	if (op_has(op, HDR_ELEMENT)) {
		wire_put64(h + ELEMENTETH_VA, p->va);
		wire_put32(h + ELEMENTETH_RKEY, p->rkey);
		h[ELEMENTETH_OP] = p->element.op;
		h[ELEMENTETH_DATATYPE] = p->element.datatype;
		h[ELEMENTETH_FLAGS] = p->element.flags;
		h[ELEMENTETH_FLAGS + 1] = 0;
		wire_put32(h + ELEMENTETH_COUNT, p->element.count);
		return;
	}
	if (op_has(op, HDR_AETH)) {
		put_aeth(p, h);
		h += AETH_LEN;
	}
	if (op_has(op, HDR_ATOMICACK))
		wire_put64(h, p->orig);
	if (op_has(op, HDR_IMM))
		wire_put_raw32(h, p->imm);
	if (op_has(op, HDR_IETH))
		wire_put32(h, p->inv_rkey);
	if (op_has(op, HDR_CNP))
		memset(h, 0, CNP_LEN);
}

/** Write extension headers. RETH alone and AETH alone, the most frequent, come first. */
static inline void put_extensions(const struct packet *p, uint8_t *h)
{
	uint16_t bits = p->op->hdrs.bits;

	if (bits == HDR_RETH)
		put_reth(p, h);
	else if (bits == HDR_AETH)
		put_aeth(p, h);
	else if (bits)
		put_any_extensions(p, h);
}

/** Write all headers; if `masked`, with ones in the fields that the ICRC masks. @return offset of the payload. */
static inline unsigned put_headers(const struct packet *p, uint8_t *buf, unsigned udp_payload, bool masked)
{
	unsigned carrier = p->bare ? 0 : put_carrier(p, buf, udp_payload, masked);

	put_bth(p, buf + carrier, masked);
	put_extensions(p, buf + carrier + BTH_LEN);
	return carrier + p->op->hdr_len;
}

/** Write the ICRC at `end` and the real values of masked fields. @return packet length. */
static inline unsigned put_icrc(const struct packet *p, uint8_t *buf, unsigned end, uint32_t icrc)
{
	wire_put32le(buf + end, icrc);
	unmask_carrier(p, buf);
	buf[p->payload_at - p->op->hdr_len + BTH_ECN] = p->ecn;
	return end + ICRC_LEN;
}

static inline unsigned udp_payload_len(const struct packet *p)
{
	return p->op->hdr_len + p->payload_len + p->pad + ICRC_LEN;
}

uint8_t *packet_open(struct packet *p, uint8_t *buf)
{
	unsigned len = udp_payload_len(p);

	p->payload = NULL; /* the caller puts it in place before packet_close() */
	p->summed = false;
	if (p->no_icrc) {
		p->payload_at = put_headers(p, buf, len, false);
	} else if (__builtin_expect(p->key != NULL, 0)) {
		p->payload_at = put_headers(p, buf, len - ICRC_LEN + KEYED_TAG_LEN, true);
	} else {
		/* Write masked headers: for a short packet, one CRC call over the whole packet gives the ICRC. */
		p->payload_at = put_headers(p, buf, len, true);
		if (p->payload_len > CRC_COPY_MAX) {
			p->summed = true;
			p->icrc = icrc_update(ICRC_START, buf, p->payload_at);
		}
	}
	return buf + p->payload_at;
}

void packet_copy(struct packet *p, uint8_t *place, const void *src, uint32_t len)
{
	if (p->summed)
		p->icrc = icrc_copy(p->icrc, place, src, len);
	else
		memcpy(place, src, len);
}

/** End a packet with a tag. */
static __attribute__((noinline)) unsigned close_keyed(const struct packet *p, uint8_t *buf, unsigned end)
{
	unsigned bth = p->payload_at - p->op->hdr_len;

	buf[bth + BTH_FLAGS] |= BTH_TVER_KEYED;
	mask_fragmentation(buf, p->v4);
	keyed_tag(p->key, buf, end, buf + end);
	if (p->v4)
		wire_put32(buf + IPV4_ID, (uint32_t)p->ip_id << 16 | p->ip_frag);
	unmask_carrier(p, buf);
	buf[bth + BTH_ECN] = p->ecn;
	return end + KEYED_TAG_LEN;
}

unsigned packet_close(struct packet *p, uint8_t *buf)
{
	unsigned pad = p->payload_at + p->payload_len, end = pad + p->pad;

	wire_put32(buf + pad, 0); /* zero pad (RQ-06); also clears bytes of ICRC or tag, which are written next */
	if (p->no_icrc) {
		wire_put32(buf + end, 0);
		return end + ICRC_LEN;
	}
	if (__builtin_expect(p->key != NULL, 0))
		return close_keyed(p, buf, end);
	if (p->summed)
		return put_icrc(p, buf, end, icrc_update(p->icrc, buf + pad, p->pad));
	return put_icrc(p, buf, end, icrc_update(ICRC_START, buf, end));
}

unsigned packet_encode(const struct packet *p, uint8_t *buf)
{
	struct packet own = *p;
	uint8_t *place = packet_open(&own, buf);

	if (p->payload && p->payload != place)
		packet_copy(&own, place, p->payload, p->payload_len);
	else if (own.summed)
		own.icrc = icrc_update(own.icrc, place, p->payload_len);
	return packet_close(&own, buf);
}
