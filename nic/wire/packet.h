/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - RoCEv2 packets: bytes <-> struct packet (IBTA 9.2-9.6, annex A17).
 *
 * packet_parse_keyed checks untrusted bytes. The rest of the core may trust a packet with PACKET_OK: the opcode is
 * known, the headers named by op->hdrs are there, lengths agree, and pad is valid. The ICRC holds, or the tag if
 * packets are authenticated (keyed.md). Neither is checked if the carrier vouches for integrity. Completer and
 * responder still check everything that needs a QP (service, P_Key, PSN, sequence, lengths against PMTU), size and
 * operands of extended atomics (extended.c), and operation, datatype, count and operands of elements (resp_elem.c).
 */
#ifndef NIC_PACKET_H
#define NIC_PACKET_H

#include "keyed.h"
#include "nic.h"
#include "opcode.h"

struct packet {
	const struct opcode *op;

	/* addressing */
	struct nic_gid sgid, dgid;
	bool v4;
	uint8_t tclass, hop_limit;
	uint16_t ip_id;	     /* IPv4 only; recovered from the ICRC if the carrier hides it */
	uint16_t ip_frag;    /* IPv4 flags and fragment offset as on the wire; 0x4000 (DF) for our own packets */
	uint32_t flow_label; /* IPv6 only */
	uint16_t udp_sport;
	uint16_t udp_csum; /* as received; 0 for our own packets */

	/* BTH */
	bool se, migreq, ackreq;
	uint8_t ecn; /* FECN, BECN and resv6 as on the wire; like resv7 ignored, but kept for re-encoding */
	uint8_t resv7;
	uint8_t pad;
	uint16_t pkey;
	uint32_t dest_qpn, psn;

	/* extension headers, valid when op->hdrs says so */
	uint64_t va;		    /* RETH, AtomicETH, ExtAtomicETH, ElementETH */
	uint32_t rkey;		    /* RETH, AtomicETH, ExtAtomicETH, ElementETH */
	uint32_t dma_len;	    /* RETH */
	uint64_t swap_add, compare; /* AtomicETH */
	uint8_t log_size;	    /* ExtAtomicETH */
	struct {
		uint8_t op, datatype, flags; /* as on the wire */
		uint32_t count;
	} element;		/* ElementETH */
	uint8_t syndrome;	/* AETH */
	uint32_t msn;		/* AETH, 24 bits */
	uint64_t orig;		/* AtomicAckETH */
	uint32_t qkey, src_qpn; /* DETH; src_qpn also for a bare packet */
	uint32_t imm;		/* ImmDt, network order, opaque */
	uint32_t inv_rkey;	/* IETH */
	uint32_t xrc_srqn;	/* XRCETH */
	uint32_t feth;		/* FETH, raw */

	const uint8_t *payload; /* NULL with a reference */
	uint32_t payload_len;	/* without pad */
	/** Received RC SEND, WRITE or READ response: how to fetch the payload. One reference may stand for the payload
	 * of many packets. NULL: the payload is in the packet. */
	const struct nic_reference *reference;
	/** Received RC SEND ONLY, payload in the packet: how to fetch the message that it offers; NULL: no offer. */
	const struct nic_reference *offer;
	uint32_t referred;    /* our own packets: payload bytes that lie in the frame's pieces, not in the packet */
	bool offers;	      /* our own packets: the frame's pieces are an offered message, not the packet's payload */
	const uint8_t *ip;    /* IP header as received; NULL if the carrier hides it */
	bool ip_id_recovered; /* the carrier hides the IPv4 ID; the ICRC matched only an ID other than 0 */
	bool shared;	      /* others may write to the payload's memory */

	uint32_t peer;	     /* received packets: nic_rx_frame.peer */
	uint8_t addresses;   /* received bare packets: nic_rx_frame.addresses */
	bool bare;	     /* starts at the BTH; the addressing fields above are unused */
	bool no_icrc;	     /* our own packets: zeroes instead of the ICRC */
	uint32_t payload_at; /* our own packets: offset of the payload; set by packet_open */
	bool summed;	     /* packet_open has begun the ICRC */
	uint32_t icrc;	     /* if summed: the ICRC so far */
	/** NULL: the packet ends with an ICRC; else with a tag under this key. Ignored with no_icrc. */
	const struct keyed *key;
};

/** Begin a packet to be sent: set defaults for fields that rarely vary or do not depend on the opcode. The caller sets
 * the addresses, the rest of the BTH and the opcode's extension headers. Other fields stay unset: clearing the struct
 * would cost as much as building the packet. */
static inline void packet_init(struct packet *p)
{
	p->ip_id = 0;
	p->ip_frag = 0x4000;
	p->udp_csum = 0;
	p->se = p->ackreq = false;
	p->migreq = true;
	p->ecn = p->resv7 = 0;
	p->referred = 0;
	p->offers = false;
	p->pkey = 0xffff;
	p->key = NULL;
}

/** Why a packet is dropped; each has a counter (verdict_counter in nic.c). */
enum packet_verdict {
	PACKET_OK,
	PACKET_NOT_ROCE,    /* not IPv4/IPv6 + UDP + port 4791, a fragment, IPv4 options, IPv6 extension headers */
	PACKET_BAD_IP,	    /* IP or UDP lengths disagree with the bytes present, IPv4 header checksum wrong */
	PACKET_TOO_SHORT,   /* shorter than BTH + ICRC, or than the header chain of its opcode + ICRC or tag */
	PACKET_TOO_LONG,    /* more than 4096 bytes of payload, or payload with an opcode that allows none */
	PACKET_BAD_VERSION, /* unknown TVer; or TVer announces a tag in a frame that the carrier vouches for */
	PACKET_BAD_OPCODE,
	PACKET_BAD_REFERENCE, /* payload besides a reference, bad length, opcode that takes no reference or no offer */
	PACKET_BAD_PAD,	      /* pad longer than the payload, length not a multiple of 4 */
	PACKET_BAD_ICRC,
	PACKET_NO_KEY,	/* TVer announces a tag, but there is no key */
	PACKET_NO_TAG,	/* a tag is required, but TVer announces none */
	PACKET_BAD_TAG, /* wrong tag under this key */
	PACKET_VERDICTS
};

/**
 * Parse one received frame. *out is complete only with PACKET_OK; fields of extension headers that the opcode does not
 * have are left unchanged. *out points to the memory of the frame.
 *
 * The UDP checksum is ignored, zero or not: the ICRC covers more, and captures of a host's own traffic have incomplete
 * UDP checksums. Re-encoding does not keep nonzero pad bytes, nor nonzero reserved bytes of DETH, XRCETH, ExtAtomicETH,
 * ElementETH and CNP.
 *
 * @param key NULL, or the key that frames from the network must be authenticated with. Frames whose carrier vouches for
 * them (NIC_RX_NO_ICRC, NIC_RX_NO_KEY) have no tag. If the packet has a tag, out->key is set to `key`, for re-encoding
 * under the same key.
 */
enum packet_verdict packet_parse_keyed(const struct nic_rx_frame *frame, const struct keyed *key, struct packet *out);

/** packet_parse_keyed without a key. */
static inline enum packet_verdict packet_parse(const struct nic_rx_frame *frame, struct packet *out)
{
	return packet_parse_keyed(frame, NULL, out);
}

/**
 * Write a packet to buf (NIC_FRAME_MAX bytes): IP, UDP, BTH, extension headers, payload, pad, ICRC or tag. The caller
 * sets p->pad to -payload_len & 3, and must not set a value that is wider than its field on the wire. The payload is
 * copied from p->payload, unless p->payload is NULL or points to the payload's place in buf.
 * @return bytes from the IP header, or the BTH if p->bare, to the end of the ICRC or tag.
 */
unsigned packet_encode(const struct packet *p, uint8_t *buf);

/**
 * packet_encode in two steps, between which the caller puts the payload in place. Before packet_open the caller
 * sets all fields, including the payload's length and pad; only the payload itself can be missing. packet_open returns
 * the payload's place. If the payload is long and the packet has an ICRC, packet_open begins the ICRC: packet_icrc(p)
 * is then not NULL, and the caller must continue *packet_icrc(p) over the payload that it puts in place.
 */
uint8_t *packet_open(struct packet *p, uint8_t *buf);
/** Copy the payload, or its next part, to `place` and continue the ICRC. `src` must not be application memory. */
void packet_copy(struct packet *p, uint8_t *place, const void *src, uint32_t len);
/** @return as packet_encode. */
unsigned packet_close(struct packet *p, uint8_t *buf);

static inline uint32_t *packet_icrc(struct packet *p)
{
	return p->summed ? &p->icrc : NULL;
}

#endif
