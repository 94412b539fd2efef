/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - RoCEv2 packets: bytes <-> struct packet (IBTA 9.2-9.6, annex A17).
 *
 * packet_parse_keyed is the only place that reads untrusted bytes. What it returns with PACKET_OK may be trusted by the
 * engines: the opcode is known, the headers named by op->hdrs are there, lengths agree, pad is sane, the ICRC holds,
 * or the tag where packets are authenticated (keyed.md).
 * What the engines still check: everything that needs a QP (service, P_Key, PSN, sequence, lengths against PMTU), the size and
 * operands of extended atomics (extended.c), and operation, datatype, number and operands of elements (resp_elem.c).
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
	uint16_t ip_id;	     /* IPv4 only; recovered from the ICRC when the carrier hid it */
	uint16_t ip_frag;    /* IPv4 flags and fragment offset as on the wire; 0x4000 (DF) for our own packets */
	uint32_t flow_label; /* IPv6 only */
	uint16_t udp_sport;
	uint16_t udp_csum; /* as received; 0 for our own packets */

	/* BTH */
	bool se, migreq, ackreq, fecn, becn;
	uint8_t resv6, resv7; /* ignored, kept so that a packet re-encodes bit for bit */
	uint8_t pad;
	uint16_t pkey;
	uint32_t dest_qpn, psn;

	/* extension headers, valid when op->hdrs says so */
	uint64_t va;		    /* RETH, AtomicETH, ExtAtomicETH, ElementETH */
	uint32_t rkey;		    /* the same */
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
	uint32_t qkey, src_qpn; /* DETH; src_qpn also of a bare packet */
	uint32_t imm;		/* ImmDt, network order, opaque */
	uint32_t inv_rkey;	/* IETH */
	uint32_t xrc_srqn;	/* XRCETH */
	uint32_t feth;		/* FETH, raw */

	const uint8_t *payload; /* NULL with a reference */
	uint32_t payload_len;	/* without pad */
	/** Of a received packet of RC's SEND, WRITE or READ response: NULL, or what to fetch its payload with, which may be that of
	 *  many packets. */
	const struct nic_reference *reference;
	/** Likewise, of a SEND that has its payload in it: NULL, or what that offers. */
	const struct nic_reference *offer;
	uint32_t referred;    /* of our own packets: bytes that are not in it, but where the frame's pieces say */
	bool offers;	      /* of our own packets: the pieces are no payload of it */
	const uint8_t *ip;    /* IP header as received, NULL when the carrier hid it */
	bool ip_id_recovered; /* the ICRC held only with a nonzero ID that the carrier had hidden */
	bool ecn_ce;	      /* congestion experienced */
	bool shared;	      /* others may write to the payload */

	uint32_t peer;	   /* of a received packet, as in its frame */
	uint8_t addresses; /* of a bare packet, likewise */
	bool bare;	   /* nothing before the BTH, and no addressing above */
	bool no_icrc;	   /* of our own packets: zeroes instead */
	bool summed;	   /* packet_open has begun the ICRC */
	uint32_t icrc;	   /* as far as it goes */
	/** NULL: an ICRC ends the packet. Else the key of the tag that does; not looked at with no_icrc. */
	const struct keyed *key;
};

/** Begin a packet of our own: fields that most have alike, or that no opcode asks for. The caller sets the addresses, what
 *  is in every BTH, and the extension headers of the opcode: to clear all of it would cost as much as to build it. */
static inline void packet_init(struct packet *p)
{
	p->ip_id = 0;
	p->ip_frag = 0x4000;
	p->udp_csum = 0;
	p->se = p->ackreq = p->fecn = p->becn = false;
	p->migreq = true;
	p->resv6 = p->resv7 = 0;
	p->referred = 0;
	p->offers = false;
	p->pkey = 0xffff;
	p->key = NULL;
}

/** Why a packet is refused; each has a counter of the same name (rx_<verdict> in counters.def). */
enum packet_verdict {
	PACKET_OK,
	PACKET_NOT_ROCE,    /* not IPv4/IPv6 + UDP + port 4791, a fragment, IPv4 options, IPv6 extension headers */
	PACKET_BAD_IP,	    /* IP or UDP lengths do not agree with the bytes, IPv4 header checksum wrong */
	PACKET_TOO_SHORT,   /* shorter than BTH + ICRC, or than the header chain of its opcode + ICRC */
	PACKET_TOO_LONG,    /* more payload than 4096 bytes, or any where the opcode has none */
	PACKET_BAD_VERSION, /* TVer not 0 */
	PACKET_BAD_OPCODE,
	PACKET_BAD_REFERENCE, /* payload besides what is referred to, too much of that, or an opcode that has none or offers nothing */
	PACKET_BAD_PAD, /* pad longer than the payload, pad where there is none, length not a multiple of 4 */
	PACKET_BAD_ICRC,
	PACKET_NO_KEY,	/* TVer says that it ends with a tag, and there is no key */
	PACKET_NO_TAG,	/* it has to end with a tag, and TVer says that it does not */
	PACKET_BAD_TAG, /* the tag is not that of the packet under this key */
	PACKET_VERDICTS
};

/**
 * Parse one received frame. *out is complete only with PACKET_OK; fields of extension headers that the opcode does not
 * have are left as they were. Pointers in it point into the frame.
 *
 * A UDP checksum is not looked at, zero or not: the ICRC covers more, and captures of a host's own traffic hold
 * unfinished ones. What a re-encoded packet does not keep: nonzero pad, nonzero reserved bytes of DETH, XRCETH,
 * ExtAtomicETH, ElementETH and CNP.
 *
 * @param key NULL, or what a frame from the network must be authenticated with. Frames whose carrier vouches for them
 * (NIC_RX_NO_ICRC, NIC_RX_NO_KEY) have no tag. *out keeps the pointer: it re-encodes under the same key.
 */
enum packet_verdict packet_parse_keyed(const struct nic_rx_frame *frame, const struct keyed *key, struct packet *out);

/** For those without a key. */
static inline enum packet_verdict packet_parse(const struct nic_rx_frame *frame, struct packet *out)
{
	return packet_parse_keyed(frame, NULL, out);
}

/** Offset of the payload from the start of the IP header of a packet with this opcode. */
static inline unsigned packet_payload_offset(const struct opcode *op, bool v4)
{
	return (v4 ? 28u : 48u) + op->hdr_len;
}

/**
 * Write a packet to buf (NIC_FRAME_MAX bytes): IP, UDP, BTH, extension headers, payload, pad, ICRC or tag. p->pad is
 * computed by the caller of the field (-payload_len & 3). The payload is copied from p->payload unless that is NULL
 * or already is its place in buf. Values wider than their field are the caller's mistake.
 * @return bytes from the IP header, or the BTH if p->bare, to the end of the ICRC or tag.
 */
unsigned packet_encode(const struct packet *p, uint8_t *buf);

/**
 * The same in two steps, around a caller who puts the payload in place. packet_open needs everything but the payload
 * itself, its length and pad among it, and returns the payload's place. Where it pays it begins the ICRC: the caller
 * then has to continue *packet_icrc(p), which is NULL otherwise, over the payload as he copies it.
 */
uint8_t *packet_open(struct packet *p, uint8_t *buf);
/** Copy payload, or a part of it, from memory that is not the application's: `place` and what follows it. */
void packet_copy(struct packet *p, uint8_t *place, const void *src, uint32_t len);
/** @return as packet_encode. */
unsigned packet_close(struct packet *p, uint8_t *buf);

static inline uint32_t *packet_icrc(struct packet *p)
{
	return p->summed ? &p->icrc : NULL;
}

#endif
