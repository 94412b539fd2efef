/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_mad.h - the messages of the connection manager: MADs of class 7 and their representation (IBTA 12.6, 12.11).
 *
 * cm_mad_parse is the only function that reads bytes of a MAD. It guarantees that no field of the struct cm_mad exceeds
 * its width on the wire, that info_len is at most CM_INFO_LEN, and that `answered` is in enum cm_answered. The code
 * that acts on an MTU, a transport or a reason decides whether the value is valid, since a REJ must answer an invalid
 * value. Reserved bits are ignored on arrival and sent as 0.
 *
 * One table in cm_table.c says where each field lies; parsing, building, describing and tests use it. These functions
 * keep no state and know nothing of connections, time or addresses. RDMA IP headers, at the start of private data: see
 * nic_cm_ip.h.
 */
#ifndef NIC_CM_MAD_H
#define NIC_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic_types.h"

/* ---- the MAD header, 24 bytes, common to all messages (IBTA 13.4.2) ------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | base version 1| class 7       | class ver. 2  | method 3, Send|
 *   4 | status 0                      | class specific 0              |
 *   8 | transaction ID, high                                          |
 *  12 | transaction ID, low                                           |
 *  16 | attribute ID: which message   | reserved                      |
 *  20 | attribute modifier: ECE options                               |
 *
 * The message follows. Its last part is private data, up to the end of the MAD.
 */
#define CM_MAD_LEN	  256
#define CM_MAD_HEADER_LEN 24
#define CM_INFO_LEN	  72 /* maximum length of the additional information in REJ, APR and SIDR_REP */

enum cm_attr {
	CM_ATTR_FIRST = 0x10,
	CM_REQ = CM_ATTR_FIRST,
	CM_MRA = 0x11,
	CM_REJ = 0x12,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	CM_DREQ = 0x15,
	CM_DREP = 0x16,
	CM_SIDR_REQ = 0x17,
	CM_SIDR_REP = 0x18,
	CM_LAP = 0x19,
	CM_APR = 0x1a,
};

/** Why a MAD is dropped; listed in cm_verdict.def. */
enum cm_verdict {
	CM_MAD_OK,
#define CM_VERDICT(name, small, sentence) CM_MAD_##name,
#include "cm_verdict.def"
#undef CM_VERDICT
	CM_MAD_VERDICTS,
};

/** Which message a REJ or an MRA answers. OTHER in an MRA means a LAP; in a REJ, no message. */
enum cm_answered { CM_ANSWERS_REQ, CM_ANSWERS_REP, CM_ANSWERS_OTHER };

/** Transport service type in a REQ. CM_EXTENDED: the type is in extended_transport, where 1 is XRC. */
enum cm_transport { CM_RC, CM_UC, CM_RD, CM_EXTENDED };
enum { CM_EXTENDED_XRC = 1 };

/** Status of a SIDR_REP (12.11.2.1). */
enum cm_sidr_status {
	CM_SIDR_OK,
	CM_SIDR_UNSUPPORTED,
	CM_SIDR_REJECT,
	CM_SIDR_NO_QP,
	CM_SIDR_REDIRECT,
	CM_SIDR_UNSUPPORTED_VERSION,
};

/** Status of an APR (12.8.2). */
enum cm_apr_status {
	CM_APR_LOADED,
	CM_APR_INVALID_COMM_ID,
	CM_APR_UNSUPPORTED,
	CM_APR_REJECTED,
	CM_APR_REDIRECT,
	CM_APR_SAME_PATH,
	CM_APR_INVALID_QPN,
	CM_APR_INVALID_LID,
	CM_APR_INVALID_GID,
	CM_APR_INVALID_FLOW_LABEL,
	CM_APR_INVALID_TRAFFIC_CLASS,
	CM_APR_INVALID_HOP_LIMIT,
	CM_APR_INVALID_RATE,
	CM_APR_INVALID_SL,
};

/* ---- messages -------------------------------------------------------------------------------------------
 *
 * In all messages, "local" is the sender of the MAD and "remote" its receiver. Fields named *_timeout and *_delay are
 * exponents n of 4.096 us * 2^n. The comments say how many bits a field has, unless it fills its type.
 */

/** A path between the two ports. On RoCE the GIDs are IP addresses, and the LIDs are unused and sent as 0xffff. */
struct cm_path {
	struct nic_gid local_gid, remote_gid;
	uint32_t flow_label; /* 20 bits */
	uint16_t local_lid, remote_lid;
	uint8_t rate; /* 6 bits */
	uint8_t traffic_class, hop_limit;
	uint8_t sl;	      /* 4 bits */
	uint8_t subnet_local; /* 1 bit */
	uint8_t ack_timeout;  /* 5 bits: local ACK timeout, for the remote QP */
};

/** Request for communication (12.6.5). */
struct cm_req {
	uint64_t service_id, ca_guid;
	uint32_t vendor_id; /* 24 bits: ECE; 0: none */
	uint32_t qkey;
	uint32_t qpn, local_eecn, remote_eecn, starting_psn; /* 24 bits each */
	uint16_t pkey;
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_cm_response_timeout, local_cm_response_timeout; /* 5 bits */
	uint8_t transport;					       /* 2 bits: enum cm_transport */
	uint8_t extended_transport;				       /* 3 bits */
	uint8_t flow_control;					       /* 1 bit: end-to-end credits */
	uint8_t retry_count, rnr_retry_count;			       /* 3 bits */
	uint8_t mtu;						       /* 4 bits: as enum nic_mtu */
	uint8_t rdc_exists;					       /* 1 bit */
	uint8_t max_cm_retries;					       /* 4 bits */
	uint8_t srq;						       /* 1 bit */
	uint8_t sap_supported;					       /* 1 bit */
	struct cm_path primary, alternate;			       /* alternate: all 0 if there is none */
};

/** Reply to request for communication (12.6.8). */
struct cm_rep {
	uint64_t ca_guid;
	uint32_t vendor_id; /* 24 bits: ECE; 0: none */
	uint32_t qkey;
	uint32_t qpn, local_eecn, starting_psn; /* 24 bits each; for XRC, local_eecn has the QPN of the target QP */
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay;  /* 5 bits */
	uint8_t failover_accepted; /* 2 bits: 0 accepted, 1 not supported, 2 not accepted */
	uint8_t flow_control;	   /* 1 bit */
	uint8_t rnr_retry_count;   /* 3 bits */
	uint8_t srq;		   /* 1 bit */
};

/** Message receipt acknowledgement (12.6.6). */
struct cm_mra {
	uint8_t answered;	 /* 2 bits: enum cm_answered */
	uint8_t service_timeout; /* 5 bits */
};

/** Reject (12.6.7). */
struct cm_rej {
	uint16_t reason;  /* enum nic_cm_reason, or another number */
	uint8_t answered; /* 2 bits: enum cm_answered */
};

/** Request for communication release (12.6.10). */
struct cm_dreq {
	uint32_t remote_qpn; /* 24 bits: the receiver's QP, or EE context */
};

/** Load alternate path (12.8.1). */
struct cm_lap {
	uint32_t remote_qpn;		    /* 24 bits */
	uint8_t remote_cm_response_timeout; /* 5 bits */
	struct cm_path path;
};

/** Alternate path response (12.8.2). */
struct cm_apr {
	uint8_t status; /* enum cm_apr_status, or another number */
};

/** Service ID resolution request (12.11.1). */
struct cm_sidr_req {
	uint32_t request_id; /* chosen by the sender */
	uint16_t pkey;
	uint64_t service_id;
};

/** Service ID resolution response (12.11.2). */
struct cm_sidr_rep {
	uint32_t request_id; /* as in the SIDR_REQ: chosen by the receiver of this SIDR_REP */
	uint8_t status;	     /* enum cm_sidr_status, or another number */
	uint32_t vendor_id;  /* 24 bits: ECE; 0: none */
	uint32_t qpn;	     /* 24 bits */
	uint32_t qkey;
	uint64_t service_id;
};

/** One message. */
struct cm_mad {
	enum cm_attr attr;
	uint64_t tid;
	uint32_t attr_mod;  /* options of ECE in REQ, REP and SIDR_REP; else unused */
	uint32_t local_id;  /* communication ID of the sender; 0 in SIDR_REQ and SIDR_REP */
	uint32_t remote_id; /* communication ID of the receiver; 0 in REQ, SIDR_REQ and SIDR_REP */
	union {		    /* selected by attr; RTU and DREP have no fields of their own */
		struct cm_req req;
		struct cm_rep rep;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_dreq dreq;
		struct cm_lap lap;
		struct cm_apr apr;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
	};
	/* Additional information of REJ, APR and SIDR_REP; else NULL and 0. */
	const uint8_t *info;
	uint8_t info_len; /* bytes, up to CM_INFO_LEN */
	/* Private data. Its length is not transmitted: cm_mad_parse returns all bytes that the message has room for,
	 * including the sender's padding; cm_mad_build pads the data with zeroes. */
	const uint8_t *data;
	uint8_t data_len; /* bytes, up to cm_mad_room(attr) */
};

/**
 * Check a MAD and extract its fields. Changes nothing but *out. Unless the verdict is CM_MAD_OK, *out is all zeroes,
 * including struct padding.
 *
 * @param mad `len` bytes with any contents; out->info and out->data point into this buffer
 * @param len number of bytes that arrived, which need not be CM_MAD_LEN. With len 0, `mad` may be NULL
 */
enum cm_verdict cm_mad_parse(const uint8_t *mad, size_t len, struct cm_mad *out);

/**
 * Write all CM_MAD_LEN bytes of a MAD. Values that are wider than their fields are truncated. Private data and
 * additional information that are too long are truncated too. `data` and `info` may be NULL if their lengths are 0.
 *
 * @param in the message; in->attr must be a value of enum cm_attr
 */
void cm_mad_build(const struct cm_mad *in, uint8_t mad[CM_MAD_LEN]);

/** How many bytes of private data a message has room for; 0: no such message. */
uint32_t cm_mad_room(uint32_t attr);

/* ---- exponents of time ---------------------------------------------------------------------------------- */

/** The smallest code whose time is at least `ns`; 31 if there is none. */
uint8_t cm_time_code(uint64_t ns);

/* ---- names, for tools and captures; never NULL ------------------------------------------------------------ */

const char *cm_attr_name(uint32_t attr);	  /* such as "REQ"; "unknown" for other numbers */
const char *cm_verdict_name(enum cm_verdict v);	  /* such as "ok", "bad_class" */
const char *cm_reason_name(uint32_t reason);	  /* such as "stale connection"; "reserved reason" for other numbers */
const char *cm_sidr_status_name(uint32_t status); /* such as "no QP available"; "reserved status" for other numbers */
const char *cm_apr_status_name(uint32_t status);  /* such as "alternate path loaded"; "reserved status" for other
						   * numbers */

#define CM_LINE_MAX 2048

/**
 * Describe a message in one line: its name, the fields that are not 0, the meaning of its reason or status, and the
 * length of its private data without trailing zeroes. Example: "REJ remote_id=0xa6a74d3d reason=0x8 (invalid service
 * ID)".
 *
 * @param size size of `line` in bytes, at least 1; the text is truncated if it is longer, and always ends with a 0.
 * CM_LINE_MAX is enough
 * @return number of characters written, without the 0
 */
size_t cm_mad_describe(const struct cm_mad *m, char *line, size_t size);

/* ---- the table ---------------------------------------------------------------------------------------------- */

/** One field of a message, or a part of one field: the vendor ID in REP and SIDR_REP is split into parts. */
struct cm_field {
	const char *name; /* name of the member of struct cm_mad; NULL: end of the message's rows */
	uint8_t byte;	  /* offset in the MAD, including the MAD header */
	uint8_t bit;	  /* first bit in that byte, counted from the most significant */
	uint8_t width;	  /* in bits; the field spans at most 8 bytes. CM_GID_BITS: a GID, copied as it is */
	uint8_t shift;	  /* position in the member (0: least significant) of the field's lowest bit */
	uint8_t size;	  /* size of the member in bytes */
	uint16_t offset;  /* offset of the member in struct cm_mad */
};

#define CM_GID_BITS 128

struct cm_message {
	const char *name;
	const struct cm_field *fields;
	uint8_t info, data; /* offsets in the MAD at which additional information (0: none) and private data begin */
};

/** The message with this attribute ID. @return NULL: no such message */
const struct cm_message *cm_message_get(uint32_t attr);
/** @return the value of the whole member that a field belongs to; not for GIDs */
uint64_t cm_field_get(const struct cm_mad *m, const struct cm_field *f);

#endif
