/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.c - bytes <-> struct packet (IBTA 9.2-9.6, annex A17).
 *
 * packet_parse reads untrusted bytes, in the order of the conformance points HV-01..HV-05: carrier headers, minimum
 * length, opcode, lengths and pad, version, ICRC or tag. No header is read before the length is known to include it,
 * and no verdict depends on a byte that was not checked to exist.
 * packet_encode trusts its caller. Both are on the path of every packet: fixed-size copies, no loops over payload,
 * one CRC call where possible. Stateless.
 */
#include "packet.h"

#include "icrc.h"
#include "keyed.h"
#include "wire.h"

#include <string.h>

#define HEADERS_MAX  (IPV6_LEN + UDP_LEN + BTH_LEN) /* the part with masked fields */
/* Up to this length, copying what follows the BTH behind the masked headers is cheaper than a second CRC call. */
#define CRC_COPY_MAX 256

_Static_assert(HEADERS_MAX + XRCETH_LEN + RETH_LEN + IMMDT_LEN + NIC_PAYLOAD_MAX + KEYED_TAG_LEN <= NIC_FRAME_MAX,
	       "longest packet");

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}; /* ::ffff:0:0/96 */

static inline void gid_from_v4(struct nic_gid *gid, const uint8_t *addr)
{
	memcpy(gid->raw, v4_prefix, sizeof(v4_prefix));
	memcpy(gid->raw + 12, addr, 4);
}

static inline bool gid_is_v4(const struct nic_gid *gid)
{
	return memcmp(gid->raw, v4_prefix, sizeof(v4_prefix)) == 0;
}

/* ---- IP and UDP headers, as they are and masked as in the ICRC ---------------------------------------- */

/** One's complement sum of 16-bit words gathered in 32 bits, folded. */
static inline uint16_t csum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

static inline uint32_t csum_words(uint32_t word)
{
	return (word >> 16) + (word & 0xffff);
}

/** Checksum of an IPv4 header, from registers: wide loads of bytes just written by narrow stores would stall. */
static inline uint16_t ipv4_csum(const struct packet *p, uint32_t total)
{
	uint32_t sum = ((uint32_t)IPV4_VERSION << 8 | p->tclass) + total + p->ip_id + p->ip_frag;

	sum += (uint32_t)p->hop_limit << 8 | IP_PROTO_UDP;
	sum += csum_words(wire_get32(p->sgid.raw + 12)) + csum_words(wire_get32(p->dgid.raw + 12));
	return (uint16_t)~csum_fold(sum);
}

/** Write IP and UDP headers; `masked`: masked fields as ones. @return their length, the offset of the BTH. */
static inline unsigned put_carrier(const struct packet *p, uint8_t *ip, unsigned udp_payload, bool masked)
{
	unsigned udp_len = UDP_LEN + udp_payload;
	uint8_t *udp;

	if (p->v4) {
		unsigned total = IPV4_LEN + udp_len;
		uint8_t tclass = masked ? 0xff : p->tclass, hops = masked ? 0xff : p->hop_limit;
		uint16_t csum = masked ? 0xffff : ipv4_csum(p, total);

		wire_put32(ip, (uint32_t)IPV4_VERSION << 24 | (uint32_t)tclass << 16 | total);
		wire_put32(ip + IPV4_ID, (uint32_t)p->ip_id << 16 | p->ip_frag);
		wire_put32(ip + IPV4_TTL, (uint32_t)hops << 24 | IP_PROTO_UDP << 16 | csum);
		memcpy(ip + IPV4_SADDR, p->sgid.raw + 12, 4);
		memcpy(ip + IPV4_DADDR, p->dgid.raw + 12, 4);
		udp = ip + IPV4_LEN;
	} else {
		uint32_t class_label = masked ? 0xfffffffu : (uint32_t)p->tclass << 20 | p->flow_label;

		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | class_label);
		wire_put32(ip + IPV6_PLEN, udp_len << 16 | IP_PROTO_UDP << 8 | (masked ? 0xff : p->hop_limit));
		memcpy(ip + IPV6_SADDR, p->sgid.raw, 16);
		memcpy(ip + IPV6_DADDR, p->dgid.raw, 16);
		udp = ip + IPV6_LEN;
	}
	wire_put32(udp, (uint32_t)p->udp_sport << 16 | NIC_UDP_PORT);
	wire_put32(udp + UDP_LENGTH, udp_len << 16 | (masked ? 0xffff : p->udp_csum));
	return (unsigned)(udp - ip) + UDP_LEN;
}

/** Set the masked fields of a copied IP and UDP header to ones. */
static inline void mask_carrier(uint8_t *ip, bool v4)
{
	if (v4) {
		ip[IPV4_TOS] = 0xff;
		ip[IPV4_TTL] = 0xff;
		wire_put16(ip + IPV4_CSUM, 0xffff);
		wire_put16(ip + IPV4_LEN + UDP_CSUM, 0xffff);
	} else {
		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | 0xfffffffu);
		ip[IPV6_HOPS] = 0xff;
		wire_put16(ip + IPV6_LEN + UDP_CSUM, 0xffff);
	}
}

/** Set to ones what the ICRC covers and a tag does not: a UDP socket hides the IPv4 ID, and firewalls clear DF. */
static inline void mask_fragmentation(uint8_t *ip, bool v4)
{
	if (v4)
		wire_put32(ip + IPV4_ID, 0xffffffffu);
}

/** Restore the fields that put_carrier masked. */
static inline void unmask_carrier(const struct packet *p, uint8_t *ip)
{
	if (p->v4) {
		ip[IPV4_TOS] = p->tclass;
		ip[IPV4_TTL] = p->hop_limit;
		wire_put16(ip + IPV4_CSUM, ipv4_csum(p, wire_get16(ip + IPV4_TOTAL)));
		wire_put16(ip + IPV4_LEN + UDP_CSUM, p->udp_csum);
	} else {
		wire_put32(ip, (uint32_t)IPV6_VERSION << 28 | (uint32_t)p->tclass << 20 | p->flow_label);
		ip[IPV6_HOPS] = p->hop_limit;
		wire_put16(ip + IPV6_LEN + UDP_CSUM, p->udp_csum);
	}
}

/* ---- parsing ----------------------------------------------------------------------------------------- */

/** Whether the checksum of an IPv4 header holds: its words add up to all ones, in whatever byte order. */
static inline bool ipv4_csum_holds(const uint8_t *ip)
{
	uint64_t words[2], sum;
	uint32_t last;

	memcpy(words, ip, sizeof(words));
	memcpy(&last, ip + sizeof(words), sizeof(last));
	sum = (words[0] & UINT32_MAX) + (words[0] >> 32) + (words[1] & UINT32_MAX) + (words[1] >> 32) + last;
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	return csum_fold((uint32_t)sum) == 0xffff;
}

static inline enum packet_verdict parse_ipv4(const uint8_t *ip, uint32_t len, struct packet *out)
{
	uint32_t total;

	if ((ip[0] & 0xf) != (IPV4_VERSION & 0xf))
		return PACKET_NOT_ROCE; /* options: only the fixed offset is ever used (HV-16) */
	if (len < IPV4_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	total = wire_get16(ip + IPV4_TOTAL);
	if (!ipv4_csum_holds(ip) || total > len || total < IPV4_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	out->ip_frag = wire_get16(ip + IPV4_FRAG);
	if (ip[IPV4_PROTO] != IP_PROTO_UDP || (out->ip_frag & IPV4_FRAG_ANY) != 0)
		return PACKET_NOT_ROCE;

	out->v4 = true;
	out->ip_id = wire_get16(ip + IPV4_ID);
	out->flow_label = 0;
	out->tclass = ip[IPV4_TOS];
	out->hop_limit = ip[IPV4_TTL];
	gid_from_v4(&out->sgid, ip + IPV4_SADDR);
	gid_from_v4(&out->dgid, ip + IPV4_DADDR);
	return PACKET_OK;
}

static inline enum packet_verdict parse_ipv6(const uint8_t *ip, uint32_t len, struct packet *out)
{
	uint32_t word;
	uint32_t plen;

	if (len < IPV6_LEN + UDP_LEN)
		return PACKET_BAD_IP;
	plen = wire_get16(ip + IPV6_PLEN);
	if (plen > len - IPV6_LEN || plen < UDP_LEN)
		return PACKET_BAD_IP;
	if (ip[IPV6_NEXT] != IP_PROTO_UDP)
		return PACKET_NOT_ROCE; /* extension headers, also the fragment header, are not parsed */

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
		verdict = parse_ipv4(ip, frame->len, out);
		if (verdict != PACKET_OK)
			return verdict;
		udp = ip + IPV4_LEN;
		ip_payload = wire_get16(ip + IPV4_TOTAL) - IPV4_LEN;
	} else if (ip[0] >> 4 == IPV6_VERSION) {
		verdict = parse_ipv6(ip, frame->len, out);
		if (verdict != PACKET_OK)
			return verdict;
		udp = ip + IPV6_LEN;
		ip_payload = wire_get16(ip + IPV6_PLEN);
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

/** Bare packet: addresses come from the connection. */
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
	out->fecn = w1 >> 31;
	out->becn = (w1 >> 30) & 1;
	out->resv6 = (w1 >> 24) & BTH_RESV6_MASK;
	out->dest_qpn = w1 & 0xffffff;
	out->ackreq = w2 >> 31;
	out->resv7 = (w2 >> 24) & BTH_RESV7_MASK;
	out->psn = w2 & 0xffffff;
}

/** Parse extension headers in wire order; `h` follows the BTH. The caller has checked that hdr_len bytes are there. */
static inline __attribute__((always_inline)) void parse_extensions(const struct opcode *op, const uint8_t *h,
								   struct packet *out)
{
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
		out->va = wire_get64(h + RETH_VA);
		out->rkey = wire_get32(h + RETH_RKEY);
		out->dma_len = wire_get32(h + RETH_DMA_LEN);
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
		out->syndrome = h[AETH_SYNDROME];
		out->msn = wire_get24(h + AETH_MSN);
		h += AETH_LEN;
	}
	if (op_has(op, HDR_ATOMICACK))
		out->orig = wire_get64(h);
	if (op_has(op, HDR_IMM))
		out->imm = wire_get_raw32(h);
	if (op_has(op, HDR_IETH))
		out->inv_rkey = wire_get32(h);
}

/** Write to `block` the masked IP, UDP and BTH headers for the UDP payload of `len` bytes at `bth`.
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

/** Whether the ICRC holds; `len` bytes at `bth` are the UDP payload, ICRC included. May recover out->ip_id. */
static inline bool icrc_holds(const struct nic_rx_frame *frame, const uint8_t *bth, uint32_t len, struct packet *out)
{
	uint8_t block[HEADERS_MAX + CRC_COPY_MAX];
	uint32_t rest = len - BTH_LEN - ICRC_LEN;
	uint32_t difference, crc;
	unsigned carrier = put_masked(bth, len, out, block);

	if (rest <= CRC_COPY_MAX) {
		memcpy(block + carrier + BTH_LEN, bth + BTH_LEN, rest);
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
 * piece, so it is copied behind its masked headers, at a twentieth of the hash's cost.
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

/** TVer says whether a packet ends with a tag or an ICRC; key and carrier say which is required. */
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

/** Whether payload may come by reference: if it goes straight to its destination, without being inspected first. */
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
	out->ecn_ce = (out->tclass & 3) == 3 || (frame->flags & NIC_RX_ECN_CE) != 0;
	out->reference = frame->reference;
	out->offer = NULL;
	out->shared = frame->body != NULL;
	if (op->hdrs.bits)
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

/* ---- building ---------------------------------------------------------------------------------------- */

static inline uint8_t bth_ecn_byte(const struct packet *p)
{
	return (uint8_t)(p->fecn << 7 | p->becn << 6 | (p->resv6 & BTH_RESV6_MASK));
}

static inline void put_bth(const struct packet *p, uint8_t *bth, bool masked)
{
	wire_put32(bth, (uint32_t)p->op->value << 24 | (uint32_t)p->se << 23 | (uint32_t)p->migreq << 22 |
				(uint32_t)(p->pad & 3) << 20 | p->pkey);
	wire_put32(bth + BTH_ECN, (uint32_t)(masked ? 0xff : bth_ecn_byte(p)) << 24 | p->dest_qpn);
	wire_put32(bth + BTH_ACK, (uint32_t)p->ackreq << 31 | (uint32_t)(p->resv7 & BTH_RESV7_MASK) << 24 | p->psn);
}

static inline void put_extensions(const struct packet *p, uint8_t *h)
{
	const struct opcode *op = p->op;

	if (op_has(op, HDR_XRCETH)) {
		wire_put32(h, p->xrc_srqn);
		h += XRCETH_LEN;
	}
	if (op_has(op, HDR_DETH)) {
		wire_put32(h + DETH_QKEY, p->qkey);
		wire_put32(h + DETH_SRC_QPN - 1, p->src_qpn); /* with the reserved byte before it */
		h += DETH_LEN;
	}
	if (op_has(op, HDR_FETH)) {
		wire_put32(h, p->feth);
		h += FETH_LEN;
	}
	if (op_has(op, HDR_RETH)) {
		wire_put64(h + RETH_VA, p->va);
		wire_put32(h + RETH_RKEY, p->rkey);
		wire_put32(h + RETH_DMA_LEN, p->dma_len);
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
		wire_put32(h, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
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

/** Write all headers; `masked`: as the ICRC covers them. @return offset of the payload. */
static inline unsigned put_headers(const struct packet *p, uint8_t *buf, unsigned udp_payload, bool masked)
{
	unsigned carrier = p->bare ? 0 : put_carrier(p, buf, udp_payload, masked);

	put_bth(p, buf + carrier, masked);
	if (p->op->hdrs.bits)
		put_extensions(p, buf + carrier + BTH_LEN);
	return carrier + p->op->hdr_len;
}

/** Write the ICRC and the real values of masked fields. `payload` is the payload's offset. @return packet length. */
static inline unsigned put_icrc(const struct packet *p, uint8_t *buf, unsigned payload, uint32_t icrc)
{
	unsigned end = payload + p->payload_len + p->pad;

	wire_put32le(buf + end, icrc);
	unmask_carrier(p, buf);
	buf[payload - p->op->hdr_len + BTH_ECN] = bth_ecn_byte(p);
	return end + ICRC_LEN;
}

static inline unsigned udp_payload_len(const struct packet *p)
{
	return p->op->hdr_len + p->payload_len + p->pad + ICRC_LEN;
}

/** Copy the payload and zero the pad (RQ-06); the store may reach into the ICRC, which is written next. */
static inline void put_payload(const struct packet *p, uint8_t *place)
{
	if (p->payload && p->payload != place)
		memcpy(place, p->payload, p->payload_len);
	wire_put32(place + p->payload_len, 0);
}

/** Encode a packet with zeroes in place of the ICRC. */
static unsigned encode_plain(const struct packet *p, uint8_t *buf)
{
	unsigned len = udp_payload_len(p), payload = put_headers(p, buf, len, false);

	put_payload(p, buf + payload);
	wire_put32(buf + payload + p->payload_len + p->pad, 0);
	return payload - p->op->hdr_len + len;
}

/** Encode a packet with a tag in place of the ICRC. */
static __attribute__((noinline)) unsigned encode_keyed(const struct packet *p, uint8_t *buf)
{
	unsigned len = udp_payload_len(p) - ICRC_LEN + KEYED_TAG_LEN, payload = put_headers(p, buf, len, true);
	unsigned bth = payload - p->op->hdr_len, end = payload + p->payload_len + p->pad;

	put_payload(p, buf + payload);
	buf[bth + BTH_FLAGS] |= BTH_TVER_KEYED;
	mask_fragmentation(buf, p->v4);
	keyed_tag(p->key, buf, end, buf + end);
	if (p->v4)
		wire_put32(buf + IPV4_ID, (uint32_t)p->ip_id << 16 | p->ip_frag);
	unmask_carrier(p, buf);
	buf[bth + BTH_ECN] = bth_ecn_byte(p);
	return end + KEYED_TAG_LEN;
}

unsigned packet_encode(const struct packet *p, uint8_t *buf)
{
	unsigned payload;

	if (p->no_icrc)
		return encode_plain(p, buf);
	if (__builtin_expect(p->key != NULL, 0))
		return encode_keyed(p, buf);
	payload = put_headers(p, buf, udp_payload_len(p), true);
	put_payload(p, buf + payload);
	/* The packet is built masked, so that one CRC call over all of it gives the ICRC. */
	return put_icrc(p, buf, payload, icrc_update(ICRC_START, buf, payload + p->payload_len + p->pad));
}

static inline unsigned payload_offset(const struct packet *p)
{
	return p->bare ? p->op->hdr_len : packet_payload_offset(p->op, p->v4);
}

uint8_t *packet_open(struct packet *p, uint8_t *buf)
{
	unsigned payload;

	p->payload = NULL; /* already in place when packet_close runs */
	p->summed = p->payload_len > CRC_COPY_MAX && !p->no_icrc && !p->key;
	if (!p->summed)
		return buf + payload_offset(p);
	payload = put_headers(p, buf, udp_payload_len(p), true);
	p->icrc = icrc_update(ICRC_START, buf, payload);
	return buf + payload;
}

void packet_copy(struct packet *p, uint8_t *place, const void *src, uint32_t len)
{
	if (p->summed)
		p->icrc = icrc_copy(p->icrc, place, src, len);
	else
		memcpy(place, src, len);
}

unsigned packet_close(struct packet *p, uint8_t *buf)
{
	unsigned payload = payload_offset(p);
	uint8_t *pad = buf + payload + p->payload_len;

	if (!p->summed)
		return packet_encode(p, buf);
	if (p->pad) {
		wire_put32(pad, 0);
		p->icrc = icrc_update(p->icrc, pad, p->pad);
	}
	return put_icrc(p, buf, payload, p->icrc);
}
