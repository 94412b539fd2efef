/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.h - the connection manager's instance and ids, and what its files call of each other. Private to nic/cm.
 *
 * cm.c        the instance; ids: their creation, numbers, tables and end
 * cm_timer.c  deadlines: sending again, giving up, the end of time-wait
 * cm_rx.c     a received MAD: which id it is for, and which function its state has for it
 * cm_tx.c     MADs that leave
 * cm_event.c  events
 * cm_listen.c cm_active.c cm_passive.c cm_close.c cm_sidr.c   the messages, by who handles them
 * cm_adopt.c  records, and connections of a process that is gone
 *
 * Every function that calls cm_event does so last: the callback may have destroyed the id.
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
#define CM_LINGER_MAX	   1024 /* orphans that are kept for duplicates of what they have refused or answered */

/** The longest time that a peer's MAD can make us wait, an exponent: 69 s. */
#define CM_TIME_MAX 24

struct nic_cm_id {
	struct nic_cm *cm;
	void *user;
	enum nic_cm_state state;
	bool passive, sidr;
	bool orphan;	       /* the owner has forgotten it: no events */
	bool lingers;	       /* is on nic_cm.lingering */
	bool quiet;	       /* the owner has had the last event: no DREP, no DREQ_ERROR */
	uint16_t abort_reason; /* of a REP that was taken back: a REQ that still comes gets it in a REJ; 0: none */

	struct list all;      /* on nic_cm.all */
	struct list leftover; /* an orphan that only waits: on nic_cm.lingering (IDLE) or nic_cm.leaving (TIMEWAIT) */
	struct cm_link by_local, by_peer, by_qpn;

	uint32_t local_id, remote_id; /* remote_id 0: not known yet */
	uint32_t local_qpn, remote_qpn;
	struct nic_cm_route route; /* of its MADs */
	uint64_t service_id;
	uint64_t tid; /* of the exchange that sets up the connection: a REQ with it is a duplicate, also at the end */
	uint64_t close_tid;	      /* of DREQ and DREP */
	struct nic_cm_record *record; /* NULL: none */
	uint8_t packet_life, ack_timeout;
	uint8_t response_timeout; /* how long the peer takes to answer */
	uint8_t max_retries;
	uint8_t patience;			      /* how long the peer waits for our answer */
	uint8_t responder_resources, initiator_depth; /* ours; at most what the peer has room for, once that is known */
	bool xrc;
	bool alternate; /* REQ named an alternate path */
	uint32_t private_sent, private_rcvd;

	/* The timer, and the MAD it sends again; also sent again at duplicates of what it answers */
	uint64_t deadline, wait_ns;
	uint32_t heap_at; /* 0: no timer */
	uint8_t tries;	  /* left */
	uint8_t saved[NIC_CM_MAD_LEN];
	enum cm_attr saved_attr; /* 0: none */

	/* A request that waits for the owner is on its listener's list. */
	struct nic_cm_id *listener;
	struct list pending; /* a listener's: head of the list */

	/* Listeners */
	uint64_t service_mask;
	uint32_t backlog, n_pending;
	struct list masked; /* on nic_cm.masked */
};

struct nic_cm {
	struct nic_cm_config config;
	uint64_t seed;		     /* of the hash tables */
	uint32_t next_low, scramble; /* local ids: drawn in a scrambled order */
	uint32_t ids, pending;
	struct list all;
	struct list lingering, leaving; /* orphans, the longest waiting first: they are freed when ids are short */
	uint32_t n_lingering;
	struct list masked;	/* listeners whose mask is not full */
	struct cm_hash local;	/* by local id */
	struct cm_hash peer;	/* by peer's address and communication id */
	struct cm_hash qpn;	/* connections by peer's address and QPN */
	struct cm_hash service; /* listeners whose mask is full, by service id */
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

/** A new id in IDLE, with a local communication id unless it is a listener. @return 0, -ENOSPC, -ENOMEM */
int cm_id_new(struct nic_cm *cm, enum cm_kind kind, struct nic_cm_id **out);
/** As the above, with a given local id, which must not be in use. */
int cm_id_new_as(struct nic_cm *cm, enum cm_kind kind, uint32_t local_id, struct nic_cm_id **out);
void cm_id_free(struct nic_cm_id *id);
/** Free the orphan that has lingered longest. @return false: there is none */
bool cm_lingering_free(struct nic_cm *cm);
/** Enter a state: counts requests that wait for the owner, and keeps the record. */
void cm_id_set(struct nic_cm_id *id, enum nic_cm_state state);

struct nic_cm_id *cm_by_local(const struct nic_cm *cm, uint32_t local_id);
/** A connection, or with `sidr` a SIDR exchange, that the peer began or has answered. */
struct nic_cm_id *cm_by_peer(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t remote_id, bool sidr);
struct nic_cm_id *cm_by_qpn(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t qpn);
/** Enter the id in the tables, by its remote_id and its remote_qpn (not if 0). */
void cm_peer_known(struct nic_cm_id *id);
void cm_qpn_known(struct nic_cm_id *id);

/* ---- cm_timer.c ------------------------------------------------------------------------------------------------ */

/** Make room for the timer of one more id. @return false: no memory */
bool cm_timer_room(struct nic_cm *cm);
void cm_timer_start(struct nic_cm_id *id, uint64_t after_ns);
/** No harm if it does not run. */
void cm_timer_stop(struct nic_cm_id *id);
bool cm_timer_runs(const struct nic_cm_id *id);
/** How long to wait for the answer to a MAD: the peer's response timeout, and the way there and back (12.9.8.1). */
uint64_t cm_wait_ns(const struct nic_cm_id *id);

/* ---- cm_tx.c --------------------------------------------------------------------------------------------------- */

/** A message that an id sends: transaction and both ids are set. */
struct cm_mad cm_mad_of(const struct nic_cm_id *id, enum cm_attr attr);
/** Give a MAD private data. @return false: it has no room for it */
bool cm_mad_data(struct cm_mad *mad, const void *data, uint32_t len);
/** Send on the id's route, count it as sent for the first time, and keep the MAD for cm_send_saved. */
void cm_send_save(struct nic_cm_id *id, const struct cm_mad *mad);
/** As cm_send_save, and send it again until it is answered: the timer starts. */
void cm_send_timed(struct nic_cm_id *id, const struct cm_mad *mad);
void cm_send_saved(struct nic_cm_id *id);
/** Answer a MAD that has no id: with the same transaction, and its ids exchanged. */
struct cm_mad cm_mad_answer(const struct cm_rx *rx, enum cm_attr attr);
void cm_answer(const struct cm_rx *rx, const struct cm_mad *mad);
void cm_answer_rej(const struct cm_rx *rx, enum cm_answered answered, uint16_t reason);
void cm_answer_drep(const struct cm_rx *rx);

/* ---- cm_event.c ------------------------------------------------------------------------------------------------ */

/** An event without a MAD, for the owner; an orphan is settled instead: freed, or kept as long as it must. */
void cm_event(struct nic_cm_id *id, enum nic_cm_event_type type);
/** An event that a MAD brings: its private data goes with it. */
void cm_event_mad(struct nic_cm_id *id, struct nic_cm_event *event, const struct cm_rx *rx);
/** What becomes of an orphan in the state it has come to. */
void cm_settle(struct nic_cm_id *id);
/** Up to the last byte that is not 0. */
uint32_t cm_private_used(const void *data, uint32_t len);

/* ---- The messages: functions with a cm_rx are called for a MAD by cm_rx.c --------------------------------------- */

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
/** IDLE, and answering duplicates of the request it has refused for as long as its peer may send some. */
void cm_linger(struct nic_cm_id *id);
void cm_linger_over(struct nic_cm_id *id);
/** Send a DREQ and wait for the answer, whatever the state was. */
void cm_dreq_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** Send a DREP, and keep it for DREQs that come again. */
void cm_drep_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len);
/** Send a REJ, and keep it for duplicates of what it answers. */
void cm_rej_send(struct nic_cm_id *id, enum cm_answered answered, const struct nic_cm_reject *reject);
/** Refuse in REP_SENT: the peer may be established, so a DREQ follows the REJ until it is answered. */
void cm_rep_abort(struct nic_cm_id *id, const struct nic_cm_reject *reject);
/** A new REQ or REP shows that the peer no longer has this connection: disconnect, if it was established. */
void cm_stale(struct nic_cm_id *old);

/* cm_sidr.c */
void cm_sidr_req_rx(const struct cm_rx *rx);
void cm_sidr_rep_rx(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_sidr_rep_dup(struct nic_cm_id *id, const struct cm_rx *rx);
void cm_sidr_failed(struct nic_cm_id *id);

/* cm_listen.c */
/** A new id for a request of this service, that waits for the owner, or NULL with the reason of the refusal. */
struct nic_cm_id *cm_pending_new(const struct cm_rx *rx, uint64_t service_id, enum cm_kind kind, uint16_t *reason);
void cm_unlisten(struct nic_cm_id *id);

/* cm_adopt.c */
void cm_record_take(struct nic_cm_id *id);
void cm_record_write(struct nic_cm_id *id);
void cm_record_give(struct nic_cm_id *id);

#endif
