/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_wire.h - wire format of reliable datagram endpoints; see rdm.md for diagrams. Private to nic/. */
#ifndef NIC_RDM_WIRE_H
#define NIC_RDM_WIRE_H

#include "nic_rdm.h"

/* ---- messages, over RC --------------------------------------------------------------------------------------- */

#define RDM_HEADER_LEN	32u
#define RDM_SEGMENT_LEN 24u
#define RDM_PREFIX_MAX	(RDM_HEADER_LEN + NIC_RDM_IOV_MAX * RDM_SEGMENT_LEN) /* fits in the smallest MTU */

enum rdm_message {
	RDM_EAGER = 1, /* the whole message follows the header */
	RDM_OFFER,     /* the receiver READs the message from the segments that the header lists */
	RDM_FIN,       /* the receiver has placed the message with this id in its buffer, or dropped it */
	RDM_WRITTEN,   /* a WRITE with `data` has ended */
	RDM_OPERATE,   /* an operation on elements of the receive that matches the tag; operands and compare values
			* follow */
	RDM_RESULT,    /* answers an OPERATE: `data` is the status; the elements' previous values can follow */
};

enum rdm_message_flags {
	RDM_IS_TAGGED = 1 << 0,
	RDM_HAS_DATA = 1 << 1,
	RDM_WANTS_FIN = 1 << 2,
	RDM_FLAGS_KNOWN = (1 << 3) - 1,
};

struct rdm_header {
	uint8_t kind, flags; /* enum rdm_message, enum rdm_message_flags */
	uint8_t n_segments;  /* of an OFFER or OPERATE */
	uint32_t id;	     /* chosen by the sender; FIN and RESULT return it */
	uint64_t length;     /* of the message */
	uint64_t tag, data;
	struct nic_rdm_remote segment[NIC_RDM_IOV_MAX];
};

/** Whether this kind of message has a body after header and segments. */
static inline bool rdm_has_body(uint8_t kind)
{
	return kind == RDM_EAGER || kind == RDM_OPERATE || kind == RDM_RESULT;
}

/** Write header and segments. @return number of bytes written, at most RDM_PREFIX_MAX. */
uint32_t rdm_header_put(const struct rdm_header *h, uint8_t *p);
/** Write the header of an EAGER message, which has no segments. @return number of bytes written: RDM_HEADER_LEN. */
uint32_t rdm_eager_put(uint8_t *p, uint8_t flags, uint32_t id, uint64_t length, uint64_t tag, uint64_t data);
/** Read header and segments from the first packet of a message. @return number of bytes read; 0: malformed. */
uint32_t rdm_header_get(struct rdm_header *h, const uint8_t *p, uint32_t len);

/* ---- calls, over UD ------------------------------------------------------------------------------------------ */

#define RDM_CALL_LEN 40u
#define RDM_QKEY     0x75726f63u

/* Q_Key of datagram endpoints: each packet is an EAGER message without id and tag, and no flag except RDM_HAS_DATA. */
#define RDM_DATAGRAM_QKEY 0x75726f64u

enum rdm_call_kind {
	RDM_HELLO = 1, /* connect this QP; `to` proves that the caller knows the current incarnation */
	RDM_WHO, /* the answer to a HELLO whose `to` or challenge is wrong, or to an ASK whose challenge is wrong: the
		  * caller must repeat the call with this WHO's challenge; in a HELLO, `to` must be this WHO's `from` */
	RDM_WELCOME, /* the QP in your HELLO is now connected to this one */
	/* Between endpoints with one peer; private data of the application may follow: */
	RDM_ASK,    /* asks the listener for a connection to an endpoint that the listener chooses */
	RDM_ACCEPT, /* accepts an ASK; sent by the chosen endpoint */
	RDM_REFUSE,
	RDM_BYE, /* ends the connection, also between endpoints with many peers; without private data */
};

/** Optional features that the sender of a call accepts; an endpoint ignores bits that it does not know, and leaves them
 *  0 in its own calls. */
enum rdm_takes {
	RDM_TAKES_RUNS = 1 << 0, /* several operations on elements in one packet */
};

struct rdm_call {
	uint8_t kind;
	uint8_t mtu;	   /* enum nic_mtu: the largest that the sender accepts */
	uint8_t takes;	   /* enum rdm_takes */
	uint64_t from, to; /* incarnations of sender and receiver; `to` is 0: unknown */
	uint32_t attempt;  /* number of the sender's QP or ASK; in WHO and ACCEPT: a challenge */
	uint32_t echo;	   /* attempt of the call that this call answers; in HELLO and ASK: the challenge, or 0; in
			      BYE: number of the receiver's QP */
	uint32_t qpn, psn;
	uint32_t data_len; /* bytes of private data that follow the call */
};

void rdm_call_put(const struct rdm_call *c, uint8_t *p);
/** @return false: malformed. */
bool rdm_call_get(struct rdm_call *c, const uint8_t *p, uint32_t len);

#endif
