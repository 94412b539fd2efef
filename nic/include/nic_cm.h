/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_cm.h - the connection manager: IBTA volume 1, chapter 12.
 *
 * What an owner does: nic_cm_create; nic_cm_rx for every MAD of management class 7 that arrives at QP1; nic_cm_advance
 * whenever nic_cm_deadline has passed. MADs leave by nic_cm_config.send, events by nic_cm_config.event. The CM knows no
 * queue pairs: it carries their numbers and properties, and the owner modifies them at the events (12.9.7.1, 12.9.7.2).
 *
 * Not thread-safe: the owner serialises all calls on one instance. Both callbacks run inside a call; `event` may call
 * every function declared here except nic_cm_destroy, nic_cm_rx and nic_cm_advance; `send` none of them.
 * Calls return 0 or a negative errno. No call keeps a pointer that it was given, except where this is said.
 *
 * Times named *_timeout, *_life and *_delay are exponents as MADs carry them, 0..31: 4.096 us * 2^n (nic_cm_time_ns).
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

/* Bytes of private data each message has room for. The wire carries no length: the peer sees zeroes behind yours. */
#define NIC_CM_REQ_PRIVATE	92
#define NIC_CM_REP_PRIVATE	196
#define NIC_CM_RTU_PRIVATE	224
#define NIC_CM_REJ_PRIVATE	148
#define NIC_CM_MRA_PRIVATE	222
#define NIC_CM_DREQ_PRIVATE	220
#define NIC_CM_DREP_PRIVATE	224
#define NIC_CM_SIDR_REQ_PRIVATE 216
#define NIC_CM_SIDR_REP_PRIVATE 136
#define NIC_CM_INFO_LEN		72 /* additional information of REJ and SIDR_REP */

/** Why a connection is refused: reasons of REJ that this implementation sends, or that programs ask for (12.6.7.2). */
enum nic_cm_reason {
	NIC_CM_REJ_NO_QP = 1,
	NIC_CM_REJ_NO_RESOURCES = 3,
	NIC_CM_REJ_TIMEOUT = 4,
	NIC_CM_REJ_UNSUPPORTED = 5,
	NIC_CM_REJ_INVALID_COMM_ID = 6,
	NIC_CM_REJ_INVALID_COMM_INSTANCE = 7,
	NIC_CM_REJ_INVALID_SERVICE_ID = 8,
	NIC_CM_REJ_INVALID_TRANSPORT = 9,
	NIC_CM_REJ_STALE = 10,
	NIC_CM_REJ_INVALID_GID = 12,
	NIC_CM_REJ_INVALID_MTU = 26,
	NIC_CM_REJ_CONSUMER = 28,
	NIC_CM_REJ_DUPLICATE_COMM_ID = 30,
	NIC_CM_REJ_INVALID_CLASS_VERSION = 31,
	NIC_CM_REJ_VENDOR_OPTION = 35,
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

/** The service of a connection's QP, and the transport it says in REQ. */
enum nic_cm_transport { NIC_CM_RC, NIC_CM_UC, NIC_CM_XRC };

/** States of an id; NIC_CM_TIMEWAIT is the last before it is forgotten (12.9.5, 12.9.6). */
enum nic_cm_state {
	NIC_CM_IDLE, /* refused, timed out, or past time-wait: only nic_cm_id_destroy is left */
	NIC_CM_LISTEN,
	NIC_CM_REQ_SENT,
	NIC_CM_MRA_REQ_RCVD, /* active: the peer asked for time before its REP */
	NIC_CM_REP_RCVD,     /* active: nic_cm_establish is due */
	NIC_CM_MRA_REP_SENT, /* active: we asked for time before our RTU */
	NIC_CM_REQ_RCVD,     /* passive: nic_cm_accept or nic_cm_reject is due */
	NIC_CM_MRA_REQ_SENT, /* passive: we asked for time before our REP */
	NIC_CM_REP_SENT,
	NIC_CM_MRA_REP_RCVD, /* passive: the peer asked for time before its RTU */
	NIC_CM_ESTABLISHED,
	NIC_CM_DREQ_SENT,
	NIC_CM_DREQ_RCVD, /* nic_cm_disconnect, which then sends DREP, is due */
	NIC_CM_TIMEWAIT,
	NIC_CM_SIDR_REQ_SENT,
	NIC_CM_SIDR_REQ_RCVD, /* nic_cm_sidr_reply is due */
	NIC_CM_STATES,
};

/** Where a MAD comes from or goes to. `own` is the address of this host in both directions. */
struct nic_cm_route {
	struct nic_gid own, peer;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: the owner's default; unset in received MADs is fine */
};

/** Enhanced connection establishment: a vendor and an options word, opaque here; both 0: none. */
struct nic_cm_ece {
	uint32_t vendor_id, options;
};

/* ---- Events ---------------------------------------------------------------------------------------------------- */

/**
 * What happened to an id:
 *
 * event            state afterwards   what the owner does next
 * REQ              REQ_RCVD           INIT; accept, reject, mra or destroy. The id is new: set its user pointer
 * REP              REP_RCVD           RTR and RTS, establish (which sends RTU), or reject
 * RTU              ESTABLISHED        RTS
 * USER_ESTABLISHED ESTABLISHED        RTS: nic_cm_notify had been called in REP_SENT
 * REJ              IDLE or TIMEWAIT   destroy
 * MRA              MRA_*_RCVD         nothing: the wait became longer
 * REQ_ERROR        IDLE               destroy: no answer to REQ, or a REP whose ID or QP is in use here; a REJ was sent
 * REP_ERROR        DREQ_SENT          destroy: the peer did not answer REP; it gets a REJ (timeout) and DREQs
 * DREQ             DREQ_RCVD          error state; disconnect (sends DREP) or destroy
 * DREP             TIMEWAIT           error state
 * DREQ_ERROR       TIMEWAIT           error state: the peer did not answer DREQ
 * TIMEWAIT_EXIT    IDLE               the QP may be used again; destroy
 * SIDR_REQ         SIDR_REQ_RCVD      sidr_reply or destroy. The id is new
 * SIDR_REP         IDLE               destroy
 * SIDR_REQ_ERROR   IDLE               destroy: no answer
 *
 * A connection that a peer's REQ shows to be stale gets a DREQ, as if the owner had disconnected it, and so DREP or
 * DREQ_ERROR follows, or a DREQ. Both sides' DREQs at once: DREQ comes, in TIMEWAIT, and neither DREP nor DREQ_ERROR; a
 * disconnect is then no longer due, and is refused. After REP_ERROR, and after the owner's own reject, only
 * TIMEWAIT_EXIT can come.
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

/** A REQ as it arrived; "remote" is the sender of the REQ, "local" this side. */
struct nic_cm_req_event {
	uint64_t service_id;
	uint64_t remote_ca_guid;
	struct nic_gid local_gid, remote_gid; /* the primary path's, from the REQ: for the QP's address vector */
	uint32_t remote_qpn, remote_qkey, starting_psn;
	uint32_t flow_label;
	uint16_t pkey;
	enum nic_cm_transport transport;
	enum nic_mtu mtu;
	/** Swapped already: what *this* side may use at most. responder_resources is the peer's initiator depth,
	 *  initiator_depth the peer's responder resources (12.7.29, 12.7.30). */
	uint8_t responder_resources, initiator_depth;
	uint8_t local_cm_response_timeout;  /* how long the peer lets us take to answer */
	uint8_t remote_cm_response_timeout; /* how long the peer says it takes to answer */
	uint8_t max_cm_retries;
	uint8_t flow_control;
	uint8_t retry_count, rnr_retry_count;
	uint8_t srq;
	uint8_t ack_timeout; /* the primary path's local ACK timeout: for this side's QP */
	uint8_t packet_life; /* of the path, derived from it */
	uint8_t traffic_class, hop_limit, sl, rate;
	bool alternate; /* REQ names an alternate path, which is not used */
	struct nic_cm_ece ece;
};

struct nic_cm_rep_event {
	uint64_t remote_ca_guid;
	uint32_t remote_qpn, remote_qkey, starting_psn;
	uint8_t responder_resources, initiator_depth; /* swapped already, as in nic_cm_req_event */
	uint8_t target_ack_delay;
	uint8_t ack_timeout; /* for our QP: 2 * packet life + target_ack_delay, as an exponent */
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

/** Pointers in an event live until the callback returns. */
struct nic_cm_event {
	enum nic_cm_event_type type;
	struct nic_cm_id *id;		  /* what it happened to */
	struct nic_cm_id *listener;	  /* REQ, SIDR_REQ: which listener; else NULL */
	const struct nic_cm_route *route; /* REQ, SIDR_REQ: the addresses of the MAD; else NULL */
	const uint8_t *private_data;	  /* NULL: an event without a MAD */
	uint32_t private_len;		  /* all the room the message has: the wire carries no length */
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
 * A connection as another process sees it: fixed size, no pointers, in memory of the owner (nic_cm_config.records).
 * Only the process of the instance writes; `state` is written last when a record begins and first when it ends, so a
 * process killed at any instant leaves records that are free or whole. Who reads them must not trust them;
 * nic_cm_adopt does not.
 */
struct nic_cm_record {
	uint32_t state;		      /* enum nic_cm_state; NIC_CM_IDLE: free */
	uint32_t local_id, remote_id; /* remote_id 0: not known yet */
	uint32_t local_qpn, remote_qpn;
	uint32_t flow_label;
	struct nic_gid own, peer; /* where the connection's MADs go */
	uint64_t service_id;
	uint8_t response_timeout; /* how long the peer may take to answer a MAD */
	uint8_t max_retries;
	uint8_t ack_timeout; /* of the path: time-wait lasts this long */
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

/** Name ("cm_rx_req") and sentence of a counter. */
const char *nic_cm_counter_name(enum nic_cm_counter counter);
const char *nic_cm_counter_sentence(enum nic_cm_counter counter);

struct nic_cm_config {
	/** Local communication ids are id_base + [0, 2^id_bits); id_base's low id_bits bits are 0. Id 0 is never used.
	 *  id_bits 8..32. */
	uint32_t id_base, id_bits;
	uint64_t ca_guid;  /* of this device, for REQ and REP */
	uint8_t ack_delay; /* of this device's QPs: enters the local ACK timeout of REQ (12.7.34) */
	/** Ids at most, of all kinds, those in time-wait included. 0: 65536. Less where n_records is less. */
	uint32_t max_ids;
	/** REQs and SIDR_REQs at most that the owner has not answered yet, for all listeners. 0: 4096. */
	uint32_t max_pending;
	struct nic_cm_record *records; /* NULL: none. Zeroed by the owner; must outlive the instance */
	uint32_t n_records;
	void *ctx;
	uint64_t (*now)(void *ctx); /* monotonic, ns */
	uint32_t (*random)(void *ctx);
	/** A MAD leaves: 256 bytes, to QPN 1 with NIC_CM_QKEY; they live until the callback returns. It may be lost. */
	void (*send)(void *ctx, const struct nic_cm_route *route, const uint8_t *mad);
	void (*event)(void *ctx, const struct nic_cm_event *event);
};

/** @return 0, -EINVAL, -ENOMEM */
int nic_cm_create(struct nic_cm **out, const struct nic_cm_config *config);
/** Free the instance and all ids without a MAD: destroy the ids before, or leave the records to nic_cm_adopt. */
void nic_cm_destroy(struct nic_cm *cm);

/** A MAD has arrived at QP1 from `route->peer`. Bytes that are no valid CM MAD are counted and dropped.
 *  @param len any; NIC_CM_MAD_LEN is right */
void nic_cm_rx(struct nic_cm *cm, const struct nic_cm_route *route, const void *mad, size_t len);
/** Do what is due by now: send again, give up, end time-waits. */
void nic_cm_advance(struct nic_cm *cm);
/** When nic_cm_advance is due, ns as `now` counts; UINT64_MAX: never. Changes at every call. */
uint64_t nic_cm_deadline(const struct nic_cm *cm);

/** How many ids of all kinds there are, also those the owner has destroyed and that are still in time-wait. */
uint32_t nic_cm_ids(const struct nic_cm *cm);
uint64_t nic_cm_count(const struct nic_cm *cm, enum nic_cm_counter counter);

/**
 * Take over the connections of an instance that is gone, such as a killed process's: established ones get a DREQ, those
 * being set up a REJ, and late MADs of each are answered until its time-wait ends. There are no events for them.
 * Records that make no sense are skipped and counted. The instance must have the id range of the one that is gone.
 * @return how many were adopted, -ENOMEM (some were not)
 */
int nic_cm_adopt(struct nic_cm *cm, const struct nic_cm_record *records, uint32_t n);

/** What a MAD is for and whom it is for: to hand it to the instance that owns it. */
struct nic_cm_peek {
	bool request; /* REQ or SIDR_REQ: service_id decides; else local_id */
	bool sidr;
	uint64_t service_id;
	uint32_t local_id; /* the receiver's communication id (the SIDR request id in SIDR_REP); 0: none */
};
/** @return 0; -EBADMSG: no valid CM MAD */
int nic_cm_peek(const void *mad, size_t len, struct nic_cm_peek *out);

/** 4.096 us * 2^exponent, in ns. */
static inline uint64_t nic_cm_time_ns(uint32_t exponent)
{
	return UINT64_C(4096) << (exponent & 31);
}
/** The exponent for 2 * packet life + ACK delay, at most 31 (12.7.34): that of the longer part, and one more if the
 * other is at least half as long, as Linux has it. */
uint8_t nic_cm_ack_timeout(uint8_t packet_life, uint8_t ack_delay);

/* ---- Ids ------------------------------------------------------------------------------------------------------- */

/** The owner's pointer, NULL at first in ids that REQ and SIDR_REQ bring. */
void *nic_cm_id_user(const struct nic_cm_id *id);
void nic_cm_id_set_user(struct nic_cm_id *id, void *user);

/**
 * The owner forgets the id: the pointer is invalid from now on and no event follows. The CM ends what is under way: it
 * disconnects, rejects (timeout for a REQ of ours, consumer reason for the peer's), answers a DREQ, and keeps what
 * time-wait needs. Destroying a listener leaves the connections it brought alone.
 */
void nic_cm_id_destroy(struct nic_cm_id *id);

/** What an id is, for status output and for QP attributes. */
struct nic_cm_info {
	enum nic_cm_state state;
	bool passive, sidr;
	bool orphan;			   /* destroyed by the owner, or adopted */
	uint64_t service_id, service_mask; /* mask: listeners */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	struct nic_cm_route route; /* of its MADs */
	uint8_t ack_timeout;
	uint8_t responder_resources, initiator_depth; /* of this side: for its QP's attributes */
	uint32_t backlog, pending;		      /* listeners */
	uint32_t private_sent, private_rcvd; /* bytes up to the last that is not 0, in REQ, REP, SIDR_REQ, SIDR_REP */
};
void nic_cm_id_info(const struct nic_cm_id *id, struct nic_cm_info *info);
/** Call fn for each id, in no particular order; fn must change nothing. */
void nic_cm_each(const struct nic_cm *cm, void (*fn)(void *arg, const struct nic_cm_info *info), void *arg);

/* ---- Listening ------------------------------------------------------------------------------------------------- */

#define NIC_CM_MASK_ALL UINT64_MAX

struct nic_cm_listen {
	uint64_t service_id;
	uint64_t mask;	    /* bits of the service id that count; 0 is NIC_CM_MASK_ALL */
	struct nic_gid own; /* this address only; zero: every address of the device */
	/** REQs and SIDR_REQs at most that wait for the owner's answer; those beyond get a REJ with the consumer
	 * reason, as from Linux. 0: no limit but max_pending, beyond which the reason is NIC_CM_REJ_NO_RESOURCES. */
	uint32_t backlog;
	void *user;
};

/** Listen, for connections and for SIDR. Where several listeners match, one with an address comes first, then the one
 *  with most bits in its mask.
 *  @return 0; -EADDRINUSE: there is a listener of the same services at the same address; -ENOMEM; -ENOSPC (max_ids) */
int nic_cm_listen(struct nic_cm *cm, const struct nic_cm_listen *listen, struct nic_cm_id **out);
/** The listener that a REQ for this service at this address would reach, or NULL. */
struct nic_cm_id *nic_cm_listener(const struct nic_cm *cm, uint64_t service_id, const struct nic_gid *own);

/* ---- Connecting ------------------------------------------------------------------------------------------------ */

struct nic_cm_connect {
	uint64_t service_id;
	struct nic_cm_route route; /* of the MADs, and of the primary path in REQ */
	uint32_t qpn, qkey, starting_psn;
	enum nic_cm_transport transport;
	enum nic_mtu mtu;
	uint16_t pkey;		     /* 0 is 0xffff */
	uint8_t responder_resources; /* READs and atomics of the peer that we answer at a time */
	uint8_t initiator_depth;     /* READs and atomics of ours at a time */
	uint8_t flow_control;
	uint8_t retry_count, rnr_retry_count; /* 0..7 */
	uint8_t srq;
	uint8_t packet_life; /* of the path */
	uint8_t sl, rate;
	uint8_t remote_cm_response_timeout; /* how long the peer may take to answer */
	uint8_t local_cm_response_timeout;  /* how long we take to answer */
	uint8_t max_cm_retries;		    /* 0..15: a MAD without an answer is sent this many times more */
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REQ_PRIVATE */
	struct nic_cm_ece ece;
	void *user;
};

/** Send a REQ. Events: REP, REJ, MRA, REQ_ERROR. @return 0, -EINVAL, -ENOMEM, -ENOSPC (max_ids) */
int nic_cm_connect(struct nic_cm *cm, const struct nic_cm_connect *connect, struct nic_cm_id **out);

struct nic_cm_accept {
	uint32_t qpn, qkey, starting_psn;
	uint8_t responder_resources, initiator_depth; /* of this side; see nic_cm_req_event */
	uint8_t target_ack_delay;
	uint8_t failover; /* as in nic_cm_rep_event; only looked at if REQ had an alternate path, and 0 is sent as 1 */
	uint8_t flow_control, rnr_retry_count, srq;
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REP_PRIVATE */
	struct nic_cm_ece ece;
};

/** Send a REP, in REQ_RCVD or MRA_REQ_SENT. Events: RTU, USER_ESTABLISHED, REJ, MRA, REP_ERROR.
 *  @return 0; -EINVAL: another state, or wrong values */
int nic_cm_accept(struct nic_cm_id *id, const struct nic_cm_accept *accept);
/** Send the RTU, in REP_RCVD or MRA_REP_SENT. @return 0, -EINVAL */
int nic_cm_establish(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** The passive side's QP got its first packet before the RTU (12.9.7.2): in REP_SENT or MRA_REP_RCVD the connection is
 *  established, with the event USER_ESTABLISHED inside this call.
 *  @return 0; -EISCONN: it is established; -EINVAL: another state */
int nic_cm_notify(struct nic_cm_id *id);

/** What a REJ says besides its reason. */
struct nic_cm_reject {
	uint16_t reason; /* enum nic_cm_reason */
	const void *info;
	uint32_t info_len; /* up to NIC_CM_INFO_LEN */
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_REJ_PRIVATE */
};
/** Refuse, before the connection is established: in REQ_SENT, REQ_RCVD, REP_RCVD, REP_SENT and their MRA states.
 *  The id is then IDLE; in TIMEWAIT if a REP had been received; in DREQ_SENT if one had been sent, since the peer may
 * be established by now. @return 0, -EINVAL */
int nic_cm_reject(struct nic_cm_id *id, const struct nic_cm_reject *reject);
/** Ask the peer to wait: in REQ_RCVD, REP_RCVD (12.6.6). @param service_timeout how long, 0..31
 *  @return 0, -EINVAL */
int nic_cm_mra(struct nic_cm_id *id, uint8_t service_timeout, const void *private_data, uint32_t private_len);
/** End a connection: sends DREQ in ESTABLISHED (events: DREP, DREQ_ERROR, or the peer's DREQ at the same time), and
 * DREP in DREQ_RCVD, after which it is in TIMEWAIT.
 *  @return 0; -EINVAL: another state, or more private data than NIC_CM_DREQ_PRIVATE */
int nic_cm_disconnect(struct nic_cm_id *id, const void *private_data, uint32_t private_len);

/* ---- SIDR: the QPN and Q_Key of a service for datagrams (12.11) ------------------------------------------------- */

struct nic_cm_sidr {
	uint64_t service_id;
	struct nic_cm_route route;
	uint16_t pkey;	     /* 0 is 0xffff */
	uint64_t timeout_ns; /* for an answer, each time */
	uint8_t max_cm_retries;
	const void *private_data;
	uint32_t private_len; /* up to NIC_CM_SIDR_REQ_PRIVATE */
	void *user;
};

/** Send a SIDR_REQ. Events: SIDR_REP, SIDR_REQ_ERROR. @return 0, -EINVAL, -ENOMEM, -ENOSPC (max_ids) */
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
/** Answer, in SIDR_REQ_RCVD; the id is then IDLE, and is still to be destroyed. A SIDR_REQ that the peer sends again
 * gets the same answer for some seconds. @return 0, -EINVAL */
int nic_cm_sidr_reply(struct nic_cm_id *id, const struct nic_cm_sidr_reply *reply);

#endif
