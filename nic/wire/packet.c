/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.c - from bytes to struct packet (IBTA 9.2-9.6, annex A17). The other way is packet_build.c.
 *
 * packet_parse reads untrusted bytes, in the order of the conformance points HV-01..HV-05: carrier headers, minimum
 * length, opcode, lengths and pad, version, ICRC or tag. No header is read before the length is known to include it,
 * and no verdict depends on a byte that was not checked to exist. This is on the path of every packet: fixed-size
 * copies, no loops over payload, one CRC call where possible. Stateless.
 */
#include "packet.h"

#include "carrier.h"
#include "dma.h"
#include "gid.h"
#include "icrc.h"
#include "keyed.h"
#include "wire.h"

#include <string.h>

#define HEADERS_MAX (IPV6_LEN + UDP_LEN + BTH_LEN) /* the headers that contain masked fields */
_Static_assert(HEADERS_MAX + XRCETH_LEN + RETH_LEN + IMMDT_LEN + NIC_PAYLOAD_MAX + KEYED_TAG_LEN <= NIC_FRAME_MAX,
	       "longest packet");

/** Whether the checksum of an IPv4 header holds: its words add up to all ones, in either byte order. */
static inline bool ipv4_csum_holds(const uint8_t *ip)
{
	uint64_t words[2], sum;
	uint32_t last;

	memcpy(words, ip, sizeof(words));
	memcpy(&last, ip + sizeof(words), sizeof(last));
	sum = (words[0] & UINT32_MAX) + (words[0] >> 32) + (words[1] & UINT32_MAX) + (words[1] >> 32) + last;
	return csum_fold(sum) == 0xffff;
}

static inline enum packet_verdict parse_ipv4(const uint8_t *ip, uint32_t len, struct packet *out, uint32_t *payload)
{
	uint32_t total;

	if ((ip[0] & 0xf) != (IPV4_VERSION & 0xf))
		return PACKET_NOT_ROCE; /* it has options: we read the UDP header at a fixed offset only (HV-16) */
	if (len < IPV4_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	total = wire_get16(ip + IPV4_TOTAL);
	if (!ipv4_csum_holds(ip) || total > len || total < IPV4_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	out->ip_frag = wire_get16(ip + IPV4_FRAG);
	if (ip[IPV4_PROTO] != IP_PROTO_UDP || (out->ip_frag & IPV4_FRAG_ANY) != 0)
		return PACKET_NOT_ROCE;

	*payload = total - IPV4_LEN;
	out->v4 = true;
	out->ip_id = wire_get16(ip + IPV4_ID);
	out->flow_label = 0;
	out->tclass = ip[IPV4_TOS];
	out->hop_limit = ip[IPV4_TTL];
	gid_from_v4(&out->sgid, ip + IPV4_SADDR);
	gid_from_v4(&out->dgid, ip + IPV4_DADDR);
	return PACKET_OK;
}

static inline enum packet_verdict parse_ipv6(const uint8_t *ip, uint32_t len, struct packet *out, uint32_t *payload)
{
	uint32_t word;
	uint32_t plen;

	if (len < IPV6_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	plen = wire_get16(ip + IPV6_PLEN);
	if (plen > len - IPV6_LEN || plen < UDP_LEN)
		return PACKET_BAD_IP;
	if (ip[IPV6_NEXT] != IP_PROTO_UDP)
		return PACKET_NOT_ROCE; /* extension headers, including the fragment header, are not parsed */

	*payload = plen;
	word = wire_get32(ip);
	out->v4 = false;
	out->ip_id = 0;
	out->ip_frag = 0;
	out->flow_label = word & 0xfffff;
	out->tclass = (uint8_t)(word >> 20);
	out->hop_limit = ip[IPV6_HOPS];
	memcpy(out->sgid.raw, ip + IPV6_SADDR, 16);
	memcpy(out->dgid.raw, ip + IPV6_DADDR, 16);
	return PACKET_OK;
}

/** Parse the IP and UDP headers of a frame that has them; *bth and *len get the UDP payload. */
static inline enum packet_verdict parse_carrier(const struct nic_rx_frame *frame, struct packet *out,
						const uint8_t **bth, uint32_t *len)
{
	const uint8_t *ip = frame->data;
	const uint8_t *udp;
	enum packet_verdict verdict;
	uint32_t ip_payload;

	if (frame->len == 0)
		return PACKET_BAD_IP;
	if (ip[0] >> 4 == 4) {
		verdict = parse_ipv4(ip, frame->len, out, &ip_payload);
		if (verdict != PACKET_OK)
			return verdict;
		udp = ip + IPV4_LEN;
	} else if (ip[0] >> 4 == IPV6_VERSION) {
		verdict = parse_ipv6(ip, frame->len, out, &ip_payload);
		if (verdict != PACKET_OK)
			return verdict;
		udp = ip + IPV6_LEN;
	} else {
		return PACKET_NOT_ROCE;
	}
	if (wire_get16(udp + UDP_DPORT) != NIC_UDP_PORT)
		return PACKET_NOT_ROCE;
	if (wire_get16(udp + UDP_LENGTH) != ip_payload)
		return PACKET_BAD_IP;
	out->ip = ip;
	out->udp_sport = wire_get16(udp + UDP_SPORT);
	out->udp_csum = wire_get16(udp + UDP_CSUM);
	*bth = udp + UDP_LEN;
	*len = ip_payload - UDP_LEN;
	return PACKET_OK;
}

/** Take the addressing from the fields of a frame whose carrier removed the IP and UDP headers. */
static inline void take_carrier(const struct nic_rx_frame *frame, struct packet *out)
{
	out->sgid = frame->sgid;
	out->dgid = frame->dgid;
	out->v4 = gid_is_v4(&frame->sgid) && gid_is_v4(&frame->dgid);
	out->tclass = frame->tclass;
	out->hop_limit = frame->hop_limit;
	out->ip_id = 0;
	out->ip_frag = out->v4 ? IPV4_FRAG_DF : 0;
	out->flow_label = 0;
	out->udp_sport = frame->udp_sport;
	out->udp_csum = 0;
	out->ip = NULL;
}

/** Take from the frame what a bare packet has instead of IP and UDP headers: source QPN and a hash of the GIDs. */
static inline void take_bare(const struct nic_rx_frame *frame, struct packet *out)
{
	out->src_qpn = frame->src_qpn;
	out->addresses = frame->addresses;
	out->v4 = false;
	out->tclass = 0;
	out->ip = NULL;
}

static inline void parse_bth(const uint8_t *bth, struct packet *out)
{
	uint32_t w0 = wire_get32(bth);
	uint32_t w1 = wire_get32(bth + BTH_ECN);
	uint32_t w2 = wire_get32(bth + BTH_ACK);

	out->se = (w0 >> 23) & 1;
	out->migreq = (w0 >> 22) & 1;
	out->pad = (w0 >> 20) & 3;
	out->pkey = (uint16_t)w0;
	out->ecn = (uint8_t)(w1 >> 24);
	out->dest_qpn = w1 & 0xffffff;
	out->ackreq = w2 >> 31;
	out->resv7 = (w2 >> 24) & BTH_RESV7_MASK;
	out->psn = w2 & 0xffffff;
}

static inline void parse_reth(const uint8_t *h, struct packet *out)
{
	out->va = wire_get64(h + RETH_VA);
	out->rkey = wire_get32(h + RETH_RKEY);
	out->dma_len = wire_get32(h + RETH_DMA_LEN);
}

static inline void parse_aeth(const uint8_t *h, struct packet *out)
{
	out->syndrome = h[AETH_SYNDROME];
	out->msn = wire_get24(h + AETH_MSN);
}

/** Parse extension headers in wire order; `h` points behind the BTH. The caller has checked that hdr_len bytes are
 * there. RETH alone and AETH alone are checked first, because they are the most frequent sets of extension headers. */
static inline __attribute__((always_inline)) void parse_extensions(const struct opcode *op, const uint8_t *h,
								   struct packet *out)
{
	if (op->hdrs.bits == HDR_RETH) {
		parse_reth(h, out);
		return;
	}
	if (op->hdrs.bits == HDR_AETH) {
		parse_aeth(h, out);
		return;
	}
	if (op->hdrs.bits == 0)
		return;
	if (op_has(op, HDR_XRCETH)) {
		out->xrc_srqn = wire_get24(h + XRCETH_SRQN);
		h += XRCETH_LEN;
	}
	if (op_has(op, HDR_DETH)) {
		out->qkey = wire_get32(h + DETH_QKEY);
		out->src_qpn = wire_get24(h + DETH_SRC_QPN);
		h += DETH_LEN;
	}
	if (op_has(op, HDR_FETH)) {
		out->feth = wire_get32(h);
		h += FETH_LEN;
	}
	if (op_has(op, HDR_RETH)) {
		parse_reth(h, out);
		h += RETH_LEN;
	}
	if (op_has(op, HDR_ATOMIC)) {
		out->va = wire_get64(h + ATOMICETH_VA);
		out->rkey = wire_get32(h + ATOMICETH_RKEY);
		out->swap_add = wire_get64(h + ATOMICETH_SWAP_ADD);
		out->compare = wire_get64(h + ATOMICETH_COMPARE);
		return; /* nothing follows an AtomicETH */
	}
	if (op_has(op, HDR_EXTATOMIC)) {
		out->va = wire_get64(h + EXTATOMICETH_VA);
		out->rkey = wire_get32(h + EXTATOMICETH_RKEY);
		out->log_size = h[EXTATOMICETH_LOG_SIZE];
		return;
	}
	if (op_has(op, HDR_ELEMENT)) {
		out->va = wire_get64(h + ELEMENTETH_VA);
		out->rkey = wire_get32(h + ELEMENTETH_RKEY);
		out->element.op = h[ELEMENTETH_OP];
		out->element.datatype = h[ELEMENTETH_DATATYPE];
		out->element.flags = h[ELEMENTETH_FLAGS];
		out->element.count = wire_get32(h + ELEMENTETH_COUNT);
		return;
	}
	if (op_has(op, HDR_AETH)) {
		parse_aeth(h, out);
		h += AETH_LEN;
	}
	if (op_has(op, HDR_ATOMICACK))
		out->orig = wire_get64(h);
	if (op_has(op, HDR_IMM))
		out->imm = wire_get_raw32(h);
	if (op_has(op, HDR_IETH))
		out->inv_rkey = wire_get32(h);
}

/** Write to `block` the masked IP, UDP and BTH headers of the packet whose UDP payload is the `len` bytes at `bth`.
 *  @return offset of the BTH. */
static inline unsigned put_masked(const uint8_t *bth, uint32_t len, const struct packet *out, uint8_t *block)
{
	unsigned carrier;

	if (!out->ip) {
		carrier = put_carrier(out, block, len, true);
	} else if (out->v4) {
		carrier = IPV4_LEN + UDP_LEN;
		memcpy(block, out->ip, IPV4_LEN + UDP_LEN);
		mask_carrier(block, true);
	} else {
		carrier = IPV6_LEN + UDP_LEN;
		memcpy(block, out->ip, IPV6_LEN + UDP_LEN);
		mask_carrier(block, false);
	}
	memcpy(block + carrier, bth, BTH_LEN);
	block[carrier + BTH_ECN] = 0xff;
	return carrier;
}

/** Whether the ICRC holds; `len` bytes at `bth` are the UDP payload, ICRC included. If the carrier hides the
 *  IPv4 ID, recover it into out->ip_id. */
static inline __attribute__((always_inline)) bool icrc_holds(const struct nic_rx_frame *frame, const uint8_t *bth,
							     uint32_t len, struct packet *out)
{
	uint8_t block[HEADERS_MAX + CRC_COPY_MAX];
	uint32_t rest = len - BTH_LEN - ICRC_LEN;
	uint32_t difference, crc;
	unsigned carrier = put_masked(bth, len, out, block);

	if (rest <= CRC_COPY_MAX) {
		dma_copy(block + carrier + BTH_LEN, bth + BTH_LEN, rest); /* inlined: it mostly copies a few words */
		crc = icrc_update(ICRC_START, block, carrier + BTH_LEN + rest);
	} else {
		crc = icrc_update(ICRC_START, block, carrier + BTH_LEN);
		crc = icrc_update(crc, bth + BTH_LEN, rest);
	}
	difference = crc ^ wire_get32le(bth + len - ICRC_LEN);
	if (difference == 0)
		return true;
	if (out->ip || !out->v4 || !(frame->flags & NIC_RX_IP_ID_UNKNOWN))
		return false;
	out->ip_id_recovered = icrc_find_ip_id(difference, carrier + len, &out->ip_id);
	return out->ip_id_recovered;
}

/**
 * Whether the tag holds; `len` bytes at `bth` are the UDP payload, tag included. SipHash needs the packet in one
 * piece, so it is copied behind its masked headers; the copy costs a twentieth of what the hash costs.
 */
static __attribute__((noinline)) bool tag_holds(const uint8_t *bth, uint32_t len, const struct keyed *key,
						const struct packet *out)
{
	uint8_t block[NIC_FRAME_MAX];
	uint32_t rest = len - BTH_LEN - KEYED_TAG_LEN;
	unsigned carrier = put_masked(bth, len, out, block);

	mask_fragmentation(block, out->v4);
	memcpy(block + carrier + BTH_LEN, bth + BTH_LEN, rest);
	return keyed_holds(key, block, carrier + BTH_LEN + rest, bth + len - KEYED_TAG_LEN);
}

/** Check TVer, which says whether the packet ends with a tag or an ICRC, against what key and carrier require. */
static inline enum packet_verdict check_version(const struct nic_rx_frame *frame, unsigned version,
						const struct keyed *key)
{
	bool vouched = frame->flags & (NIC_RX_NO_ICRC | NIC_RX_NO_KEY);

	if (version == BTH_TVER_KEYED && !vouched)
		return key ? PACKET_OK : PACKET_NO_KEY;
	if (version != 0)
		return PACKET_BAD_VERSION; /* HV-04 */
	return key && !vouched ? PACKET_NO_TAG : PACKET_OK;
}

/** Whether packets with this opcode may refer to their payload: only those whose payload goes straight to its
 *  destination may. */
static inline bool takes_reference(const struct opcode *op)
{
	return op->service == OP_RC && (op->kind == OP_SEND || op->kind == OP_WRITE || op->kind == OP_READ_RESP);
}

static enum packet_verdict parse_reference(const struct nic_reference *ref, uint32_t body, struct packet *out)
{
	bool offers = ref->psns == 0;

	if (ref->len == 0 || ref->len > NIC_REFERENCE_MAX || !takes_reference(out->op))
		return PACKET_BAD_REFERENCE;
	if (offers) {
		out->reference = NULL;
		out->offer = ref;
		return out->op->kind == OP_SEND && out->op->pos == OP_ONLY ? PACKET_OK : PACKET_BAD_REFERENCE;
	}
	if (body != 0)
		return PACKET_BAD_REFERENCE;
	out->payload = NULL;
	out->payload_len = ref->len;
	return PACKET_OK;
}

/** Parse from the BTH on. `plain` (a constant where this is inlined): TVer is 0 and no tag is required. */
static inline __attribute__((always_inline)) enum packet_verdict parse_transport(const struct nic_rx_frame *frame,
										 const struct keyed *key,
										 const uint8_t *bth, uint32_t len,
										 bool plain, struct packet *out)
{
	const struct opcode *op = op_get(bth[BTH_OPCODE]);
	const unsigned version = plain ? 0 : bth[BTH_FLAGS] & BTH_TVER_MASK;
	const uint32_t end = version == BTH_TVER_KEYED ? KEYED_TAG_LEN : ICRC_LEN;
	enum packet_verdict verdict;
	uint32_t body;

	if (!op)
		return PACKET_BAD_OPCODE; /* HV-02 */
	if (len < op->hdr_len + end)
		return PACKET_TOO_SHORT; /* HV-03 */
	body = len - op->hdr_len - end;
	if (body > (op->payload ? NIC_PAYLOAD_MAX : 0))
		return PACKET_TOO_LONG;
	parse_bth(bth, out);
	if (out->pad > body || (body & 3) != 0)
		return PACKET_BAD_PAD; /* HV-03 */
	if (!plain) {
		verdict = check_version(frame, version, key);
		if (verdict != PACKET_OK)
			return verdict;
	}

	out->op = op;
	out->payload = (frame->body ? frame->body + (bth - frame->data) : bth) + op->hdr_len;
	out->payload_len = body - out->pad;
	out->ip_id_recovered = false;
	out->no_icrc = false;
	out->key = end == KEYED_TAG_LEN ? key : NULL;
	out->reference = frame->reference;
	out->offer = NULL;
	out->shared = frame->body != NULL;
	parse_extensions(op, bth + BTH_LEN, out);
	if (__builtin_expect(frame->reference != NULL, 0))
		return parse_reference(frame->reference, body, out);
	if (end == KEYED_TAG_LEN)
		return tag_holds(bth, len, key, out) ? PACKET_OK : PACKET_BAD_TAG; /* SE-08 */
	if (!(frame->flags & NIC_RX_NO_ICRC) && !icrc_holds(frame, bth, len, out))
		return PACKET_BAD_ICRC; /* HV-05 */
	return PACKET_OK;
}

static __attribute__((noinline)) enum packet_verdict parse_guarded(const struct nic_rx_frame *frame,
								   const struct keyed *key, const uint8_t *bth,
								   uint32_t len, struct packet *out)
{
	return parse_transport(frame, key, bth, len, false, out);
}

enum packet_verdict packet_parse_keyed(const struct nic_rx_frame *frame, const struct keyed *key, struct packet *out)
{
	enum packet_verdict verdict;
	const uint8_t *bth;
	uint32_t len;

	out->peer = frame->peer;
	out->bare = frame->flags & NIC_RX_BARE;
	if (out->bare) {
		bth = frame->data;
		len = frame->len;
		take_bare(frame, out);
	} else if (frame->flags & NIC_RX_UDP_PAYLOAD) {
		bth = frame->data;
		len = frame->len;
		take_carrier(frame, out);
	} else {
		verdict = parse_carrier(frame, out, &bth, &len);
		if (verdict != PACKET_OK)
			return verdict;
	}
	if (len < BTH_LEN + ICRC_LEN)
		return PACKET_TOO_SHORT; /* HV-01 */
	if (__builtin_expect((bth[BTH_FLAGS] & BTH_TVER_MASK) != 0 || key, 0))
		return parse_guarded(frame, key, bth, len, out);
	return parse_transport(frame, NULL, bth, len, true, out);
}
