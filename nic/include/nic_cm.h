/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_cm.h - the connection manager: IBTA volume 1, chapter 12.
 *
 * An owner calls nic_cm_create, then nic_cm_rx for every MAD of management class 7 that arrives at QP1, and
 * nic_cm_advance whenever nic_cm_deadline has passed. The CM sends MADs through nic_cm_config.send, and reports events
 * through nic_cm_config.event. The CM does not access queue pairs: it exchanges their numbers and properties, and the
 * owner modifies the queue pairs when events arrive (12.9.7.1, 12.9.7.2).
 *
 * Not thread-safe: the owner serialises all calls on one instance. Callbacks run inside such a call: `event` may call
 * every function declared here except nic_cm_destroy, nic_cm_rx and nic_cm_advance; the others must call none of them.
 * Calls return 0 or a negative errno. No call keeps a pointer that it was given, unless its comment says so.
 *
 * Times named *_timeout, *_life and *_delay are exponents as MADs carry them, 0..31: 4.096 us * 2^n (nic_timeout_ns).
 */
#ifndef NIC_NIC_CM_H
#define NIC_NIC_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic_types.h"

struct nic_cm;
struct nic_cm_id; /* a listener, one end of a connection, or one end of a SIDR exchange */

#define NIC_CM_MAD_LEN 256
#define NIC_CM_QKEY    0x80010000u /* Q_Key of QP1 */

/* How many bytes of private data each message has room for. No length is transmitted: the peer receives your data
 * followed by zeroes. */
#define NIC_CM_REQ_PRIVATE	92
#define NIC_CM_REP_PRIVATE	196
#define NIC_CM_RTU_PRIVATE	224
#define NIC_CM_REJ_PRIVATE	148
#define NIC_CM_MRA_PRIVATE	222
#define NIC_CM_DREQ_PRIVATE	220
#define NIC_CM_DREP_PRIVATE	224
#define NIC_CM_SIDR_REQ_PRIVATE 216
#define NIC_CM_SIDR_REP_PRIVATE 136
#define NIC_CM_INFO_LEN		72 /* maximum length of the additional information in REJ and SIDR_REP */

/** Reasons for refusing a connection, which a REJ carries (12.6.7.2): one for each line of cm_reject.def. */
enum nic_cm_reason {
#define CM_REASON(value, name, words) NIC_CM_REJ_##name = value,
#include "cm_reject.def"
#undef CM_REASON
};

/** Which message a REJ or an MRA answers. */
enum nic_cm_answered { NIC_CM_ANSWERS_REQ, NIC_CM_ANSWERS_REP, NIC_CM_ANSWERS_OTHER };

/** Status of a SIDR_REP (12.11.2). */
enum nic_cm_sidr_status {
	NIC_CM_SIDR_OK,
	NIC_CM_SIDR_UNSUPPORTED,
	NIC_CM_SIDR_REJECT,
	NIC_CM_SIDR_NO_QP,
	NIC_CM_SIDR_REDIRECT,
	NIC_CM_SIDR_UNSUPPORTED_VERSION,
};

/** The transport service of a connection's QP, as named in the REQ. */
enum nic_cm_transport { NIC_CM_RC, NIC_CM_UC, NIC_CM_XRC };

/** States of an id (12.9.5, 12.9.6). A connection that ends after the REP passes through NIC_CM_TIMEWAIT. */
enum nic_cm_state {
	NIC_CM_IDLE, /* refused, timed out, past time-wait, or SIDR answered: the owner can only destroy the id */
	NIC_CM_LISTEN,
	NIC_CM_REQ_SENT,
	NIC_CM_MRA_REQ_RCVD, /* active: the peer asked for more time before its REP */
	NIC_CM_REP_RCVD,     /* active: the owner must call nic_cm_establish or nic_cm_reject */
	NIC_CM_MRA_REP_SENT, /* active: we asked for more time before our RTU */
	NIC_CM_REQ_RCVD,     /* passive: the owner must call nic_cm_accept or nic_cm_reject */
	NIC_CM_MRA_REQ_SENT, /* passive: we asked for more time before our REP */
	NIC_CM_REP_SENT,
	NIC_CM_MRA_REP_RCVD, /* passive: the peer asked for more time before its RTU */
	NIC_CM_ESTABLISHED,
	NIC_CM_DREQ_SENT,
	NIC_CM_DREQ_RCVD, /* the owner must call nic_cm_disconnect, which sends a DREP in this state */
	NIC_CM_TIMEWAIT,
	NIC_CM_SIDR_REQ_SENT,
	NIC_CM_SIDR_REQ_RCVD, /* the owner must call nic_cm_sidr_reply */
	NIC_CM_STATES,
};

/** The addresses of a MAD, received or sent. `own` is this host's address in both directions. */
struct nic_cm_route {
	struct nic_gid own, peer;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: the owner's default; may be left 0 for received MADs */
};

/** Enhanced connection establishment (ECE): a vendor ID and an options word. The CM passes them on without using them.
 *  Both 0: no ECE. */
struct nic_cm_ece {
	uint32_t vendor_id, options;
};

/* ---- Events ---------------------------------------------------------------------------------------------------- */

/**
 * Events of an id. The table lists the id's state after each event, and what the owner must or may do next. "QP: INIT"
 * means: modify the QP to that state.
 *
 * event            state afterwards   what the owner does next
 * REQ              REQ_RCVD           QP: INIT; accept, reject, mra or destroy. The id is new: set its user pointer
 * REP              REP_RCVD           QP: RTR, RTS; establish (which sends the RTU), or reject
 * RTU              ESTABLISHED        QP: RTS
 * USER_ESTABLISHED ESTABLISHED        QP: RTS; the owner has called nic_cm_notify
 * REJ              IDLE or TIMEWAIT   destroy
 * MRA              MRA_*_RCVD         nothing: the CM now waits longer for the answer
 * REQ_ERROR        IDLE               destroy: no answer to REQ, or REP names an ID or QP already in use; REJ was sent
 * REP_ERROR        DREQ_SENT          destroy: the peer did not answer the REP; it gets a REJ (timeout) and DREQs
 * DREQ             DREQ_RCVD          QP: error; disconnect (which sends a DREP) or destroy
 * DREP             TIMEWAIT           QP: error
 * DREQ_ERROR       TIMEWAIT           QP: error; the peer did not answer the DREQ
 * TIMEWAIT_EXIT    IDLE               destroy; the QP can be used again
 * SIDR_REQ         SIDR_REQ_RCVD      sidr_reply or destroy. The id is new
 * SIDR_REP         IDLE               destroy
 * SIDR_REQ_ERROR   IDLE               destroy: no answer to the SIDR_REQ
 *
 * If a peer's REQ or REP shows that an established connection is stale, the CM sends a DREQ as if the owner had called
 * nic_cm_disconnect; DREP, DREQ_ERROR, DREQ or REJ follows. If both sides send a DREQ at the same time, the owner gets
 * the event DREQ in state TIMEWAIT, and neither DREP nor DREQ_ERROR follows. In that state the owner need not call
 * nic_cm_disconnect, which would return -EINVAL. After REP_ERROR, and after the owner's own reject, only TIMEWAIT_EXIT
 * can follow.
 */
enum nic_cm_event_type {
	NIC_CM_EVENT_REQ,
	NIC_CM_EVENT_REP,
	NIC_CM_EVENT_RTU,
	NIC_CM_EVENT_USER_ESTABLISHED,
	NIC_CM_EVENT_REJ,
	NIC_CM_EVENT_MRA,
	NIC_CM_EVENT_REQ_ERROR,
	NIC_CM_EVENT_REP_ERROR,
	NIC_CM_EVENT_DREQ,
	NIC_CM_EVENT_DREP,
	NIC_CM_EVENT_DREQ_ERROR,
	NIC_CM_EVENT_TIMEWAIT_EXIT,
	NIC_CM_EVENT_SIDR_REQ,
	NIC_CM_EVENT_SIDR_REP,
	NIC_CM_EVENT_SIDR_REQ_ERROR,
	NIC_CM_EVENTS,
};

/** The contents of a received REQ. "remote" is the sender of the REQ, "local" is this side. */
struct nic_cm_req_event {
	uint64_t service_id;
	uint64_t remote_ca_guid;
	struct nic_gid local_gid, remote_gid; /* of the primary path in the REQ; for the QP's address vector */
	uint32_t remote_qpn, remote_qkey, starting_psn;
	uint32_t flow_label;
	uint16_t pkey;
	enum nic_cm_transport transport;
	enum nic_mtu mtu;
	/** The limits for *this* side, so the two values of the REQ are swapped: responder_resources is the initiator
	 *  depth in the REQ, and initiator_depth is the responder resources in the REQ (12.7.29, 12.7.30). */
	uint8_t responder_resources, initiator_depth;
	uint8_t local_cm_response_timeout;  /* how long this side may take to answer */
	uint8_t remote_cm_response_timeout; /* how long the peer takes to answer */
	uint8_t max_cm_retries;
	uint8_t flow_control;
	uint8_t retry_count, rnr_retry_count;
	uint8_t srq;
	uint8_t ack_timeout; /* local ACK timeout of the primary path; for this side's QP */
	uint8_t packet_life; /* packet life time of the path, derived from ack_timeout */
	uint8_t traffic_class, hop_limit, sl, rate;
	bool alternate; /* the REQ names an alternate path, which is not used */
	struct nic_cm_ece ece;
};

struct nic_cm_rep_event {
	uint64_t remote_ca_guid;
	uint32_t remote_qpn, remote_qkey, starting_psn;
	uint8_t responder_resources, initiator_depth; /* limits for this side, as in nic_cm_req_event */
	uint8_t target_ack_delay;
	uint8_t ack_timeout; /* for this side's QP: 2 * packet life time + target_ack_delay, as an exponent */
	uint8_t failover;    /* 0 accepted, 1 unsupported, 2 rejected */
	uint8_t flow_control, rnr_retry_count, srq;
	struct nic_cm_ece ece;
};

struct nic_cm_rej_event {
	uint16_t reason;  /* enum nic_cm_reason, or another number */
	uint8_t answered; /* enum nic_cm_answered */
	uint8_t info_len;
	const uint8_t *info;
};

struct nic_cm_sidr_req_event {
	uint64_t service_id;
	uint16_t pkey;
};

struct nic_cm_sidr_rep_event {
	uint64_t service_id;
	uint32_t qpn, qkey;
	uint8_t status; /* enum nic_cm_sidr_status, or another number */
	uint8_t info_len;
	const uint8_t *info;
	struct nic_cm_ece ece;
};

/** Pointers in an event are valid until the callback returns. */
struct nic_cm_event {
	enum nic_cm_event_type type;
	struct nic_cm_id *id;		  /* the id concerned */
	struct nic_cm_id *listener;	  /* REQ, SIDR_REQ: the listener that received the request; else NULL */
	const struct nic_cm_route *route; /* REQ, SIDR_REQ: the addresses of the MAD; else NULL */
	const uint8_t *private_data;	  /* the MAD's private data; NULL: no MAD caused the event */
	uint32_t private_len;		  /* the whole private data field: the sender's length is not transmitted */
	union {
		struct nic_cm_req_event req;
		struct nic_cm_rep_event rep;
		struct nic_cm_rej_event rej;
		struct nic_cm_sidr_req_event sidr_req;
		struct nic_cm_sidr_rep_event sidr_rep;
		uint8_t service_timeout; /* MRA */
	};
};

/* ---- The instance ---------------------------------------------------------------------------------------------- */

/**
 * A connection, recorded for another process: fixed size, no pointers, in memory of the owner (nic_cm_config.records).
 * Only the process of the instance writes records. It writes `state` last when a record comes into use, and first when
 * the record becomes free, so that a process killed at any instant leaves each record either free or complete. A reader
 * must not trust the contents; nic_cm_adopt checks them.
 */
struct nic_cm_record {
	uint32_t state;		      /* enum nic_cm_state; NIC_CM_IDLE: free */
	uint32_t local_id, remote_id; /* remote_id 0: not known yet */
	uint32_t local_qpn, remote_qpn;
	uint32_t flow_label;
	struct nic_gid own, peer; /* addresses of the connection's MADs */
	uint64_t service_id;
	uint8_t response_timeout; /* how long the peer may take to answer a MAD */
	uint8_t max_retries;
	uint8_t ack_timeout; /* of the path; also the duration of time-wait */
	uint8_t traffic_class, hop_limit;
	uint8_t passive; /* this side received the REQ */
	uint8_t reserved[2];
};

enum nic_cm_counter {
#define NIC_CM_COUNTER(name, sentence) NIC_CM_COUNT_##name,
#include "cm_counters.def"
#undef NIC_CM_COUNTER
	NIC_CM_COUNTERS,
};

/** Name ("cm_rx_req") and one-sentence meaning of a counter. */
const char *nic_cm_counter_name(enum nic_cm_counter counter);
const char *nic_cm_counter_sentence(enum nic_cm_counter counter);

struct nic_cm_config {
	/** Local communication ids are id_base + [0, 2^id_bits); id_base's low id_bits bits are 0. Id 0 is never used.
	 *  id_bits 8..32. */
	uint32_t id_base, id_bits;
	uint64_t ca_guid;  /* GUID of this device, sent in REQ and REP */
	uint8_t ack_delay; /* of this device's QPs; part of the local ACK timeout in the REQ (12.7.34) */
	/** Maximum number of ids, including ids that the owner has destroyed and the CM still needs. 0: 65536.
	 *  The number is also limited to half of 2^id_bits and, if there are records, to n_records. */
	uint32_t max_ids;
	/** Maximum number of REQs and SIDR_REQs that wait for the owner's answer, for all listeners together. 0:
	 *  4096. */
	uint32_t max_pending;
	struct nic_cm_record *records; /* array of n_records records, or NULL. Zeroed by the owner; must outlive the
					* instance */
	uint32_t n_records;
	void *ctx;
	uint64_t (*now)(void *ctx); /* monotonic, ns */
	uint32_t (*random)(void *ctx);
	/** Send a MAD of 256 bytes to QPN 1 with NIC_CM_QKEY. `mad` is valid until the callback returns. The MAD may
	 *  get lost. */
	void (*send)(void *ctx, const struct nic_cm_route *route, const uint8_t *mad);
	void (*event)(void *ctx, const struct nic_cm_event *event);
};

/** Create an instance. @return 0, -EINVAL, -ENOMEM */
int nic_cm_create(struct nic_cm **out, const struct nic_cm_config *config);
/** Free the instance and all its ids without sending a MAD. Destroy the ids first, or let another instance adopt the
 *  records (nic_cm_adopt). */
void nic_cm_destroy(struct nic_cm *cm);

/** Process a MAD that has arrived at QP1 from `route->peer`. Bytes that are not a valid CM MAD are counted and
 *  dropped. @param len any number; a valid MAD has NIC_CM_MAD_LEN */
void nic_cm_rx(struct nic_cm *cm, const struct nic_cm_route *route, const void *mad, size_t len);
/** Handle all deadlines that have passed: retransmit MADs, give up, end time-waits. */
void nic_cm_advance(struct nic_cm *cm);
/** When to call nic_cm_advance, in ns on the clock of nic_cm_config.now; UINT64_MAX: never. Any call can change it. */
uint64_t nic_cm_deadline(const struct nic_cm *cm);

/** How many ids of all kinds exist, including ids that the owner has destroyed and the CM still needs. */
uint32_t nic_cm_ids(const struct nic_cm *cm);
uint64_t nic_cm_count(const struct nic_cm *cm, enum nic_cm_counter counter);

/**
 * Take over the connections of an instance that no longer exists, for example because its process was killed, and end
 * them. The CM sends a DREQ to the peer of an established connection, a DREP to a peer whose DREQ was not yet
 * answered, and a REJ to the peer of a connection that is being set up. It answers late MADs until the connection's
 * time-wait ends. The adopted connections cause no events. Invalid records, and records for which there is no memory or
 * no free id, are skipped and counted. This instance must have the id range of the old one.
 * @return how many connections were adopted
 */
uint32_t nic_cm_adopt(struct nic_cm *cm, const struct nic_cm_record *records, uint32_t n);

/** What a MAD asks for and whom it addresses. Used to pass the MAD to the instance that it is for. */
struct nic_cm_peek {
	bool request; /* REQ or SIDR_REQ: service_id names the receiver; otherwise local_id names it */
	bool sidr, rej;
	uint64_t service_id;
	uint32_t local_id; /* the receiver's communication id (the SIDR request id in SIDR_REP); 0: none */
};
/** @return 0; -EBADMSG: no valid CM MAD */
int nic_cm_peek(const void *mad, size_t len, struct nic_cm_peek *out);

/** The exponent for 2 * packet life time + ACK delay, at most 31 (12.7.34). The result is the exponent of the longer of
 *  these two terms, plus one if the shorter term is at least half as long. Linux computes the exponent in the same
 *  way. */
uint8_t nic_cm_ack_timeout(uint8_t packet_life, uint8_t ack_delay);

/* ---- Ids ------------------------------------------------------------------------------------------------------- */

/** The owner's pointer. NULL at first in an id created by a received REQ or SIDR_REQ. */
void *nic_cm_id_user(const struct nic_cm_id *id);
void nic_cm_id_set_user(struct nic_cm_id *id, void *user);

/**
 * Destroy an id for the owner: the pointer becomes invalid, and no event follows. The CM ends whatever the id was
 * doing: it disconnects, answers a DREQ, or rejects (with reason timeout if this side's REQ has no REP yet, otherwise
 * with the consumer reason), and keeps what time-wait needs. Destroying a listener does not affect the connections and
 * requests that have come through it.
 */
void nic_cm_id_destroy(struct nic_cm_id *id);

/** Properties of an id, for status output and for QP attributes. */
struct nic_cm_info {
	enum nic_cm_state state;
	bool passive, sidr;
	bool orphan;			   /* destroyed by the owner, or adopted */
	bool unanswered;		   /* a request that the owner has neither answered nor destroyed */
	uint64_t service_id, service_mask; /* mask: listeners */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	struct nic_cm_route route; /* addresses of its MADs */
	uint8_t ack_timeout;
	uint8_t responder_resources, initiator_depth; /* of this side, for the attributes of its QP */
	uint32_t backlog, pending;		      /* listeners only */
	uint32_t private_sent, private_rcvd;	      /* private data bytes in REQ, REP, SIDR_REQ and SIDR_REP, without
						       * trailing zeroes */
};
void nic_cm_id_info(const struct nic_cm_id *id, struct nic_cm_info *info);
/** Call fn for each id, in no particular order; fn must not change any id. */
void nic_cm_each(const struct nic_cm *cm, void (*fn)(void *arg, const struct nic_cm_info *info), void *arg);

/* ---- Listening ------------------------------------------------------------------------------------------------- */

#define NIC_CM_MASK_ALL UINT64_MAX

enum nic_cm_family { NIC_CM_BOTH_FAMILIES, NIC_CM_IPV4, NIC_CM_IPV6 };

struct nic_cm_listen {
	uint64_t service_id;
	uint64_t mask;		   /* bits of the service id that count; 0 is NIC_CM_MASK_ALL */
	struct nic_gid own;	   /* this address only; zero: every address of the device that is of `family` */
	enum nic_cm_family family; /* counts only if `own` is zero */
	/** Maximum number of REQs and SIDR_REQs that wait for the owner's answer. A REQ that the peer has withdrawn
	 * counts until the owner destroys its id. REQs beyond the limit are refused with the consumer reason, as by
	 * Linux. 0: no limit but max_pending, beyond which REQs are refused with NIC_CM_REJ_NO_RESOURCES. */
	uint32_t backlog;
	void *user;
};

/** Listen for connections and for SIDR requests. If several listeners match a request, a listener with an address is
 *  preferred, then the listener with the most bits in its mask.
 *  @return 0; -EADDRINUSE: a listener for the same services at the same address exists; -ENOMEM; -ENOSPC (max_ids) */
int nic_cm_listen(struct nic_cm *cm, const struct nic_cm_listen *listen, struct nic_cm_id **out);
/** The listener that a REQ for this service at this address would reach, or NULL. */
struct nic_cm_id *nic_cm_listener(const struct nic_cm *cm, uint64_t service_id, const struct nic_gid *own);

/* ---- Connecting ------------------------------------------------------------------------------------------------ */

struct nic_cm_connect {
	uint64_t service_id;
	struct nic_cm_route route; /* addresses of the MADs, and of the primary path in the REQ */
	uint32_t qpn, qkey, starting_psn;
	enum nic_cm_transport transport;
	enum nic_mtu mtu;
	uint16_t pkey;		     /* 0 is 0xffff */
	uint8_t responder_resources; /* how many of the peer's READs and atomics this side accepts at a time */
	uint8_t initiator_depth;     /* how many READs and atomics this side sends at a time */
	uint8_t flow_control;
	uint8_t retry_count, rnr_retry_count; /* 0..7 */
	uint8_t srq;
	uint8_t packet_life; /* of the path */
	uint8_t sl, rate;
	uint8_t remote_cm_response_timeout; /* how long the peer may take to answer */
	uint8_t local_cm_response_timeout;  /* how long this side takes to answer */
	uint8_t max_cm_retries;		    /* 0..15: maximum number of retransmissions of a MAD */
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REQ_PRIVATE */
	struct nic_cm_ece ece;
	void *user;
};

/** Send a REQ. Events that can follow: REP, REJ, MRA, REQ_ERROR. @return 0, -EINVAL, -ENOMEM, -ENOSPC (max_ids) */
int nic_cm_connect(struct nic_cm *cm, const struct nic_cm_connect *connect, struct nic_cm_id **out);

struct nic_cm_accept {
	uint32_t qpn, qkey, starting_psn;
	uint8_t responder_resources, initiator_depth; /* of this side; see nic_cm_req_event */
	uint8_t target_ack_delay;
	uint8_t failover; /* as in nic_cm_rep_event. Sent only if the REQ had an alternate path. 0 (accepted) is then
			   * sent as 1 (unsupported), because the CM does not use alternate paths */
	uint8_t flow_control, rnr_retry_count, srq;
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REP_PRIVATE */
	struct nic_cm_ece ece;
};

/** Send a REP, in state REQ_RCVD or MRA_REQ_SENT. Events that can follow: RTU, USER_ESTABLISHED, REJ, MRA,
 *  DREQ, REP_ERROR. @return 0; -EINVAL: wrong state, or invalid values */
int nic_cm_accept(struct nic_cm_id *id, const struct nic_cm_accept *accept);
/** Send the RTU, in state REP_RCVD or MRA_REP_SENT. @return 0, -EINVAL */
int nic_cm_establish(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** Tell the CM that the passive side's QP has received a packet before the RTU arrived (12.9.7.2). In state REP_SENT
 *  or MRA_REP_RCVD this establishes the connection and raises the event USER_ESTABLISHED during the call. @return 0;
 *  -EISCONN: already established; -EINVAL: wrong state */
int nic_cm_notify(struct nic_cm_id *id);

/** The contents of a REJ. */
struct nic_cm_reject {
	uint16_t reason; /* enum nic_cm_reason */
	const void *info;
	uint32_t info_len; /* up to NIC_CM_INFO_LEN */
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REJ_PRIVATE */
};
/** Refuse a connection before it is established: in state REQ_SENT, REQ_RCVD, REP_RCVD, REP_SENT or one of their MRA
 *  states. The id's state is then IDLE; TIMEWAIT if a REP was received; or DREQ_SENT if a REP was sent, since the
 *  peer may consider the connection established by now. @return 0, -EINVAL */
int nic_cm_reject(struct nic_cm_id *id, const struct nic_cm_reject *reject);
/** Ask the peer to wait longer, in state REQ_RCVD or REP_RCVD (12.6.6). @param service_timeout for how long, 0..31
 *  @return 0, -EINVAL */
int nic_cm_mra(struct nic_cm_id *id, uint8_t service_timeout, const void *private_data, uint32_t private_len);
/** End a connection. In state ESTABLISHED this sends a DREQ; one of the events DREP, DREQ_ERROR, REJ or, if the
 *  peer disconnects at the same time, DREQ follows. In state DREQ_RCVD this sends a DREP, and the id enters TIMEWAIT.
 *  @return 0; -EINVAL: wrong state, or more private data than NIC_CM_DREQ_PRIVATE */
int nic_cm_disconnect(struct nic_cm_id *id, const void *private_data, uint32_t private_len);

/* ---- SIDR: the QPN and Q_Key of a service for datagrams (12.11) ------------------------------------------------- */

struct nic_cm_sidr {
	uint64_t service_id;
	struct nic_cm_route route;
	uint16_t pkey;	     /* 0 is 0xffff */
	uint64_t timeout_ns; /* how long to wait for an answer to each try */
	uint8_t max_cm_retries;
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_SIDR_REQ_PRIVATE */
	void *user;
};

/** Send a SIDR_REQ. Events that can follow: SIDR_REP, SIDR_REQ_ERROR. @return 0, -EINVAL, -ENOMEM, -ENOSPC (max_ids) */
int nic_cm_sidr_request(struct nic_cm *cm, const struct nic_cm_sidr *sidr, struct nic_cm_id **out);

struct nic_cm_sidr_reply {
	uint8_t status; /* enum nic_cm_sidr_status */
	uint32_t qpn, qkey;
	const void *info;
	uint32_t info_len; /* up to NIC_CM_INFO_LEN */
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_SIDR_REP_PRIVATE */
	struct nic_cm_ece ece;
};
/** Answer a SIDR_REQ, in state SIDR_REQ_RCVD. The id is then IDLE, and the owner must still destroy it. If the peer
 *  retransmits its SIDR_REQ within some seconds, it gets the same answer. @return 0, -EINVAL */
int nic_cm_sidr_reply(struct nic_cm_id *id, const struct nic_cm_sidr_reply *reply);

#endif
