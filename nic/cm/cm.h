/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.h - the connection manager's instance and ids, and the functions that its files share. Private to nic/cm.
 *
 * cm.c        the instance; ids: their creation, numbers, tables and end
 * cm_timer.c  timers: retransmission, giving up, the end of time-wait
 * cm_rx.c     received MADs: finds the id, and calls the handler for its state
 * cm_tx.c     sends MADs
 * cm_event.c  events for the owner
 * cm_listen.c cm_active.c cm_passive.c cm_close.c cm_sidr.c   listeners; the handlers of the messages, by role
 * cm_adopt.c  records, and connections of a process that no longer exists
 *
 * A function that calls cm_event or cm_event_mad does nothing after that, because the callback may have destroyed the
 * id.
 */
#ifndef NIC_CM_H
#define NIC_CM_H

#include <string.h>

#include "cm_hash.h"
#include "cm_mad.h"
#include "gid.h"
#include "list.h"
#include "nic_cm.h"

#define CM_IDS_DEFAULT	   65536
#define CM_PENDING_DEFAULT 4096
#define CM_LINGER_MAX	   1024 /* maximum number of orphans kept only to answer duplicates */

/** Longer times in a peer's MAD count as this exponent: 69 s. */
#define CM_TIME_MAX 24
#define CM_NO_MRA   UINT8_MAX /* mra_tries before any MRA has arrived: no number of tries reaches this value */

struct nic_cm_id {
	struct nic_cm *cm;
	void *user;
	enum nic_cm_state state;
	bool passive, sidr;
	bool orphan;	       /* destroyed by its owner, or adopted: the id raises no events */
	bool lingers;	       /* is on nic_cm.lingering */
	bool quiet;	       /* the owner knows of the end by REP_ERROR or its own reject: no events but REP_ERROR and
				* TIMEWAIT_EXIT */
	uint16_t abort_reason; /* reason of the REJ that this side sent after its REP, and sends again for a
				* duplicate REQ or an RTU; 0: no such REJ */

	struct list all;      /* on nic_cm.all */
	struct list leftover; /* an orphan: on nic_cm.lingering (IDLE) or nic_cm.leaving (DREQ_SENT, TIMEWAIT) */
	struct cm_link by_local, by_peer, by_qpn;

	uint32_t local_id, remote_id; /* remote_id 0: not known yet */
	uint32_t local_qpn, remote_qpn;
	struct nic_cm_route route; /* addresses of its MADs */
	uint64_t service_id;
	uint64_t tid; /* transaction ID of the connection setup: a REQ with the same transaction ID is a duplicate,
		       * even after the connection has ended */
	uint64_t close_tid;	      /* transaction ID of DREQ and DREP */
	struct nic_cm_record *record; /* NULL: none */
	uint8_t packet_life, ack_timeout;
	uint8_t response_timeout; /* how long the peer takes to answer */
	uint8_t max_retries;
	uint8_t patience;			      /* how long the peer waits for this side's answer */
	uint8_t responder_resources, initiator_depth; /* limits for this side, lowered to the peer's limits once
						       * those are known */
	bool xrc;
	bool alternate; /* REQ named an alternate path */
	uint32_t private_sent, private_rcvd;

	/* The timer, and the MAD that it retransmits. If this MAD answers a message of the peer, each duplicate of
	 * that message makes the CM send the MAD again. */
	uint64_t deadline, wait_ns;
	uint32_t heap_at;  /* 0: no timer */
	uint8_t tries;	   /* how many retransmissions are left */
	uint8_t mra_tries; /* value of `tries` at the last MRA; CM_NO_MRA: no MRA has arrived yet */
	uint8_t saved[NIC_CM_MAD_LEN];
	enum cm_attr saved_attr; /* 0: none */

	/* A request that the owner has not answered is on its listener's list, even after the peer has withdrawn the
	 * request. */
	bool unanswered;
	struct nic_cm_id *listener; /* of an unanswered request; NULL: the owner has destroyed the listener */
	struct list pending;	    /* of a listener: head of the list; of a request: its node on the list */

	/* Listeners */
	uint64_t service_mask;
	enum nic_cm_family family; /* family of the addresses at which the listener takes requests */
	uint32_t backlog, n_pending;
	struct list masked; /* on nic_cm.masked */
};

struct nic_cm {
	struct nic_cm_config config;
	uint64_t seed;		     /* seed of the hash tables */
	uint32_t next_low, scramble; /* these two make the order of new local ids unpredictable */
	uint32_t ids, pending;
	struct list all;
	struct list lingering, leaving; /* orphans, oldest entry first; one is freed when max_ids is reached */
	uint32_t n_lingering;
	struct list masked;	/* listeners that compare only some bits of the service id */
	struct cm_hash local;	/* ids by local id */
	struct cm_hash peer;	/* ids by peer's address and communication id */
	struct cm_hash qpn;	/* connections by peer's address and QPN */
	struct cm_hash service; /* listeners that compare all bits, by service id */
	struct nic_cm_id **heap;
	uint32_t heap_len, heap_room;
	struct nic_cm_record **free_record;
	uint32_t n_free_record;
	uint64_t counts[NIC_CM_COUNTERS];
};

#define CM_COUNT(cm, name) ((cm)->counts[NIC_CM_COUNT_##name]++)

/** A received MAD and its addresses. */
struct cm_rx {
	struct nic_cm *cm;
	const struct nic_cm_route *route;
	const struct cm_mad *mad;
};

static inline uint64_t cm_now(struct nic_cm *cm)
{
	return cm->config.now(cm->config.ctx);
}

static inline uint8_t cm_at_most(uint8_t value, uint8_t limit)
{
	return value < limit ? value : limit;
}

static inline bool cm_same_gid(const struct nic_gid *a, const struct nic_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- cm.c ------------------------------------------------------------------------------------------------------ */

/** What a new id is for. */
enum cm_kind { CM_LISTENER, CM_CONNECTION, CM_SIDR };

/** Create an id in state IDLE, with a local communication id unless it is a listener. @return 0, -ENOSPC, -ENOMEM */
int cm_id_new(struct nic_cm *cm, enum cm_kind kind, struct nic_cm_id **out);
/** As cm_id_new, but with the given local id, which must not be in use. */
int cm_id_new_as(struct nic_cm *cm, enum cm_kind kind, uint32_t local_id, struct nic_cm_id **out);
void cm_id_free(struct nic_cm_id *id);
/** Free the orphan that has been on nic_cm.lingering longest. @return false: the list is empty */
bool cm_lingering_free(struct nic_cm *cm);
/** Enter a state, and write it to the id's record, if there is one. IDLE, DREQ_RCVD, TIMEWAIT: also leave the table of
 *  QPNs. */
void cm_id_set(struct nic_cm_id *id, enum nic_cm_state state);

struct nic_cm_id *cm_by_local(const struct nic_cm *cm, uint32_t local_id);
/** Find a connection by the communication id of its peer or, if `sidr` is true, a SIDR exchange by the peer's request
 *  id. */
struct nic_cm_id *cm_by_peer(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t remote_id, bool sidr);
struct nic_cm_id *cm_by_qpn(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t qpn);
/** cm_peer_known enters the id in the table of peers by its remote_id. cm_qpn_known enters the id in the table of QPNs
 * by its remote_qpn, unless remote_qpn is 0. */
void cm_peer_known(struct nic_cm_id *id);
void cm_qpn_known(struct nic_cm_id *id);

/* ---- cm_timer.c ------------------------------------------------------------------------------------------------ */

/** Make sure that the heap has room for the timer of one more id. @return false: no memory */
bool cm_timer_room(struct nic_cm *cm);
void cm_timer_start(struct nic_cm_id *id, uint64_t after_ns);
/** Stop the id's timer, if it runs. */
void cm_timer_stop(struct nic_cm_id *id);
bool cm_timer_runs(const struct nic_cm_id *id);
/** How long to wait for the answer to a MAD: the peer's response timeout plus the packet life time in both
 *  directions (12.9.8.1). */
uint64_t cm_wait_ns(const struct nic_cm_id *id);

/* ---- cm_tx.c --------------------------------------------------------------------------------------------------- */

/** Begin a message of an id: set its transaction ID and both communication ids. */
struct cm_mad cm_mad_of(const struct nic_cm_id *id, enum cm_attr attr);
/** Set the private data of a MAD. @return false: the message has no room for the data */
bool cm_mad_data(struct cm_mad *mad, const void *data, uint32_t len);
/** Send a MAD on the id's route, count it as a first transmission, and save it for cm_send_saved. */
void cm_send_save(struct nic_cm_id *id, const struct cm_mad *mad);
/** As cm_send_save, and start the timer, which retransmits the MAD until it is answered or no tries are left. */
void cm_send_timed(struct nic_cm_id *id, const struct cm_mad *mad);
void cm_send_saved(struct nic_cm_id *id);
/** Begin an answer that is not saved for duplicates. It has the MAD's transaction ID, and the MAD's local and remote id
 * exchanged. */
struct cm_mad cm_mad_answer(const struct cm_rx *rx, enum cm_attr attr);
void cm_answer(const struct cm_rx *rx, const struct cm_mad *mad);
void cm_answer_rej(const struct cm_rx *rx, enum cm_answered answered, uint16_t reason);
void cm_answer_drep(const struct cm_rx *rx);

/* ---- cm_event.c ------------------------------------------------------------------------------------------------ */

/** Deliver an event without private data to the owner. If the id is an orphan, call cm_settle instead. */
void cm_event(struct nic_cm_id *id, enum nic_cm_event_type type);
/** Deliver an event caused by a received MAD, with the MAD's private data. */
void cm_event_mad(struct nic_cm_id *id, struct nic_cm_event *event, const struct cm_rx *rx);
/** Handle a change of an orphan's state. An orphan in IDLE, TIMEWAIT or DREQ_SENT is freed if its timer does not run;
 *  otherwise it goes on nic_cm.lingering or nic_cm.leaving until the timer expires. */
void cm_settle(struct nic_cm_id *id);
/** Length of the data without trailing zeroes. */
uint32_t cm_private_used(const void *data, uint32_t len);

/* ---- The messages: cm_rx.c calls *_rx, *_dup, *_late and *_crossed for a received MAD ---------------------------- */

/* cm_active.c */
void cm_rep_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_rep_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_mra_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_mra_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_req_failed(struct nic_cm_id *id);

/* cm_passive.c */
void cm_req_rx(const struct cm_rx *rx);
void cm_rtu_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_rtu_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_rep_failed(struct nic_cm_id *id);

/* cm_close.c */
void cm_rej_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_rej_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_dreq_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_dreq_crossed(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_dreq_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_dreq_late(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_drep_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_drep_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_dreq_failed(struct nic_cm_id *id);
void cm_timewait_enter(struct nic_cm_id *id);
void cm_timewait_over(struct nic_cm_id *id);
/** Enter IDLE, but keep answering duplicates of the peer's request for as long as the peer may retransmit it. */
void cm_linger(struct nic_cm_id *id);
void cm_linger_over(struct nic_cm_id *id);
/** Send a DREQ and enter DREQ_SENT; allowed in any state. */
void cm_dreq_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** Send a DREP, and save it for retransmitted DREQs. */
void cm_drep_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** Send a REJ, and save it for duplicates of the message that it answers. */
void cm_rej_send(struct nic_cm_id *id, enum cm_answered answered, const struct nic_cm_reject *reject);
/** Send a REJ in state REP_SENT or MRA_REP_RCVD. The peer may consider the connection established, so a DREQ follows
 *  the REJ. The DREQ is retransmitted until it is answered or no tries are left. */
void cm_rep_abort(struct nic_cm_id *id, const struct nic_cm_reject *reject);
/** Find a connection that the sender of a REQ or REP must have lost, since the message uses that connection's
 *  communication ID or QP for another connection (12.9.8.3.1). NULL: none. @param qpn the sender's QP; 0: unknown */
struct nic_cm_id *cm_stale_find(const struct cm_rx *rx, uint32_t qpn);
/** A new REQ or REP shows that the peer no longer has this connection: disconnect, if it was established. */
void cm_stale(struct nic_cm_id *old);

/* cm_sidr.c */
void cm_sidr_req_rx(const struct cm_rx *rx);
void cm_sidr_rep_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_sidr_rep_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_sidr_failed(struct nic_cm_id *id);

/* cm_listen.c */
/** Create an id for a request to this service; the request then waits for the owner's answer. @return NULL: the
 *  request must be refused with *reason */
struct nic_cm_id *cm_pending_new(const struct cm_rx *rx, uint64_t service_id, enum cm_kind kind, uint16_t *reason);
/** Stop counting the id as a pending request: its owner has answered it, or the id is being freed. Does nothing if the
 *  id is not a pending request. */
void cm_answered(struct nic_cm_id *id);
void cm_unlisten(struct nic_cm_id *id);

/* cm_adopt.c */
void cm_record_take(struct nic_cm_id *id);
void cm_record_write(struct nic_cm_id *id);
void cm_record_give(struct nic_cm_id *id);

#endif
