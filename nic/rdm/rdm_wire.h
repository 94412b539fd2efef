/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_wire.h - what endpoints of reliable datagrams say to each other; see rdm.md for the diagrams. Private to nic/. A leaf. */
#ifndef NIC_RDM_WIRE_H
#define NIC_RDM_WIRE_H

#include "nic_rdm.h"

/* ---- messages, by RC ---------------------------------------------------------------------------------------------- */

#define RDM_HEADER_LEN	32u
#define RDM_SEGMENT_LEN 24u
#define RDM_PREFIX_MAX	(RDM_HEADER_LEN + NIC_RDM_IOV_MAX * RDM_SEGMENT_LEN) /* no more than the smallest MTU */

enum rdm_message {
	RDM_EAGER = 1, /* the message follows */
	RDM_OFFER,     /* it is to be read from where the segments say */
	RDM_TAKEN,     /* the message with this id is where it belongs, or never will be */
	RDM_WRITTEN,   /* a WRITE with data has ended */
	RDM_OPERATE, /* an operation on elements of the receive that has the tag; operands and compare values follow */
	RDM_RESULT,  /* of that: its status is the data, what the elements were before may follow */
};

enum rdm_message_flags {
	RDM_IS_TAGGED = 1 << 0,
	RDM_HAS_DATA = 1 << 1,
	RDM_WANTS_TAKEN = 1 << 2,
	RDM_FLAGS_KNOWN = (1 << 3) - 1,
};

struct rdm_header {
	uint8_t kind, flags; /* enum rdm_message, enum rdm_message_flags */
	uint8_t n_segments;  /* of an OFFER */
	uint32_t id;	     /* of the sender; comes back with TAKEN */
	uint64_t length;     /* of the message */
	uint64_t tag, data;
	struct nic_rdm_remote segment[NIC_RDM_IOV_MAX];
};

/** Whether something follows the header and segments. */
static inline bool rdm_has_body(uint8_t kind)
{
	return kind == RDM_EAGER || kind == RDM_OPERATE || kind == RDM_RESULT;
}

/** Write header and segments. @return bytes, at most RDM_PREFIX_MAX. */
uint32_t rdm_header_put(const struct rdm_header *h, uint8_t *p);
/** The same of an EAGER message, which has no segments. @return bytes: RDM_HEADER_LEN. */
uint32_t rdm_eager_put(uint8_t *p, uint8_t flags, uint32_t id, uint64_t length, uint64_t tag, uint64_t data);
/** Read them from the first packet of a message. @return bytes, 0: they make no sense. */
uint32_t rdm_header_get(struct rdm_header *h, const uint8_t *p, uint32_t len);

/* ---- calls, by UD ------------------------------------------------------------------------------------------------- */

#define RDM_CALL_LEN 40u
#define RDM_QKEY     0x75726f63u

/* Of endpoints that only send datagrams: an EAGER message each, with no id, no tag, and no flag but HAS_DATA. */
#define RDM_DATAGRAM_QKEY 0x75726f64u

enum rdm_call_kind {
	RDM_HELLO = 1, /* connect this QP; `to` proves that the caller has heard of who lives here now */
	RDM_WHO,       /* it does not, or not from where it says it is: say it again, to `from`, with this challenge */
	RDM_WELCOME,   /* it is connected to this one */
	/* Between endpoints that talk to one peer, with what the application has to say behind them: */
	RDM_ASK,    /* wants to be connected to an endpoint that the called may choose */
	RDM_ACCEPT, /* from that endpoint: here it is */
	RDM_REFUSE,
	RDM_BYE, /* the connection is over */
};

/** What the sender of a call takes besides what all do; who does not know of it neither says nor hears it. */
enum rdm_takes {
	RDM_TAKES_RUNS = 1 << 0, /* several requests on elements in one packet */
};

struct rdm_call {
	uint8_t kind;
	uint8_t mtu;	   /* enum nic_mtu: the most that the sender can take */
	uint8_t takes;	   /* enum rdm_takes */
	uint64_t from, to; /* incarnations of endpoints; to is 0: not known */
	uint32_t attempt;  /* numbers the QPs that the sender has offered, and what it asks; WHO, ACCEPT: a challenge */
	uint32_t echo;	   /* attempt of the call that this one answers; HELLO, ASK: the challenge, or 0 */
	uint32_t qpn, psn;
	uint32_t data_len; /* of what follows */
};

void rdm_call_put(const struct rdm_call *c, uint8_t *p);
/** @return false: it makes no sense. */
bool rdm_call_get(struct rdm_call *c, const uint8_t *p, uint32_t len);

#endif
