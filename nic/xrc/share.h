/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.h - XRC domains that several NICs share (nic_xrc_share.h): the messages between these NICs, and which file does
 * what. Private to nic/.
 *
 *   share.c  the endpoint, and the messages that it receives
 *   send.c   messages to be sent
 *   lend.c   the owner of a target: keeps packets, lends them with the target's state, takes the state back
 *   route.c  which NIC executes a packet
 *   guest.c  the borrower: a target QP of its own, the guest, executes the lent packet with the lent state
 *   call.c   verbs on targets of other NICs, and their events
 *
 * A packet for an SRQ of another NIC:
 *
 *   owner                                        borrower
 *     keep() the packet and those behind it
 *     LEND: state, packet ---------------------->  load the state into the guest, execute the packet
 *     queue them behind own responses  <---------  RESPONSE: a packet with a result, for READs and atomics
 *     (sent to the peer)  CREDIT --------------->  this many responses have been sent
 *     load the state, ACK or NAK  <--------------  RETURN: state, ACK or NAK to send
 *     process the next packet that was kept
 *   The target is reset, in error, or destroyed:
 *     END -------------------------------------->  destroy the guest
 *
 * Only one NIC has the state at a time, and the endpoints deliver each message once and in order, so every request is
 * executed once. If the connection of the endpoints is lost, messages that may have been lost with it are sent again,
 * except EVENT and the CALL of MODIFY, which must not be executed twice. If that fails, too, the other NIC is
 * considered gone, and the target's connection ends. But its process may only be stopped: END and the CALL of CLOSE are
 * sent until it has received them or no longer shares a domain, or XRC_UNSENT_MAX messages wait for it.
 *
 * While the answer to a LEND is late, for whatever reason, the owner sends further copies, one at a time. If a borrower
 * has already seen a lease, it repeats its answer and does not execute the request again; if its guest is gone, because
 * the domain was closed, it refuses the lease. The other messages have no effect the second time.
 *
 * Saved results stay where the request was executed: duplicates of READs and atomics name the SRQ, too, and go the same
 * way. The owner acknowledges duplicates of other requests.
 *
 * The messages are in host order: all NICs that share a domain are on one host. Lengths and values are checked.
 */
#ifndef NIC_SHARE_H
#define NIC_SHARE_H

#include "nic_xrc_share.h"
#include "packet.h"
#include "qp.h"
#include "resp_move.h"
#include "xrc.h"

#define XRC_VERSION 2u

enum xrc_kind { XRC_LEND, XRC_RESPONSE, XRC_CREDIT, XRC_RETURN, XRC_END, XRC_CALL, XRC_RESULT, XRC_EVENT, XRC_KINDS };

/** Every message begins with this. */
struct xrc_head {
	uint8_t version, kind;
	uint16_t copy;	      /* number of this copy of the LEND, from 0; echoed in a refusing RETURN */
	uint32_t qpn;	      /* the target */
	uint64_t incarnation; /* of the target's connection, chosen by the owner; all but CALL, RESULT, EVENT */
	uint64_t lease;	      /* which LEND of this connection; LEND, RESPONSE, CREDIT, RETURN */
};

struct xrc_lend { /* the packet follows, from the BTH on */
	struct xrc_head head;
	struct nic_xrc_name domain;
	struct resp_state state;
	struct nic_qp_attr attr;
};

struct xrc_response { /* the packet follows, from the BTH on */
	struct xrc_head head;
};

struct xrc_credit {
	struct xrc_head head;
	uint32_t responses;
};

enum xrc_verdict {
	XRC_DONE,      /* state and outcome are valid */
	XRC_NO_MEMORY, /* not executed, if this is the latest copy; the peer will send the request again */
	XRC_REFUSED,   /* no such domain, guest or message */
};

struct xrc_return {
	struct xrc_head head;
	struct resp_state state;
	struct resp_outcome outcome;
	uint32_t verdict;
};

struct xrc_end {
	struct xrc_head head;
};

struct xrc_call {
	struct xrc_head head;
	struct nic_xrc_name domain;
	uint64_t cookie;
	uint32_t verb, mask;
	struct nic_qp_attr attr;
};

struct xrc_result {
	struct xrc_head head;
	uint64_t cookie;
	int32_t error;
	uint32_t zero;
	struct nic_qp_attr attr;
};

struct xrc_event {
	struct xrc_head head;
	struct nic_xrc_name domain;
	uint32_t type;
};

#define XRC_PACKET_MAX 4352u /* BTH, extension headers, payload, ICRC */
#define XRC_MSG_MAX    (sizeof(struct xrc_lend) + XRC_PACKET_MAX)
#define XRC_CREDITS    64u /* responses that a borrower may send before the owner has sent them to the peer */
#define XRC_BUFFERS    32u
#define XRC_FLIGHT     32u /* messages to one NIC that may be in flight */
/* Limits on unsent messages to one NIC, which does not receive them. Beyond the first, its LENDs are answered with
 * XRC_NO_MEMORY and not executed; beyond the second, its LENDs and CALLs are dropped. */
#define XRC_BUSY       4096u
#define XRC_UNSENT_MAX 65536u

/** A message to be sent. */
struct xrc_msg {
	struct list node;
	struct nic_rdm_peer *peer;
	uint32_t len;
	bool again; /* a connection was lost; if another is, give the message up */
	_Alignas(8) uint8_t bytes[];
};

/** The messages to another NIC. Stored as the nic_rdm_peer's user value. */
struct xrc_link {
	struct list node;   /* on share.links */
	struct list ready;  /* on share.ready, if messages may be sent */
	struct list unsent; /* struct xrc_msg */
	uint32_t n_unsent, n_sent;
	bool lost_twice; /* during xrc_send_failed() */
};

/** A receive buffer. */
struct xrc_buffer {
	struct list node;
	struct nic_rdm_peer *peer;
	uint32_t len;
	_Alignas(8) uint8_t bytes[XRC_MSG_MAX];
};

/** A packet that is kept: a request to a target, or a response for the target to send. */
struct xrc_packet {
	struct list node;
	struct packet p;
	uint8_t payload[];
};

/** Another NIC that has something of a target: a guest, or users. */
struct xrc_holder {
	struct list node;
	struct nic_rdm_peer *peer;
	bool uses, has_guest;
};

/** What a NIC that shares a domain knows of a target QP, as its owner (lend.c) or as the borrower (guest.c). */
struct xrc_lent {
	struct nic_qp *qp;
	bool is_guest;

	/* owner */
	struct list node;      /* on share.due, or empty */
	struct list waiting;   /* requests that have arrived, oldest first */
	struct list responses; /* as many as qp->resp.foreign counts */
	struct list holders;
	struct list orphan;	       /* on share.orphans: the creator has ceased to be a user */
	struct nic_rdm_peer *borrower; /* the NIC that has the state; NULL: the owner */
	struct nic_rdm_peer *known;    /* the NIC that has the SRQ known_srqn, or NULL */
	struct xrc_packet *packet;     /* what is lent */
	struct list out;	       /* on share.out, while it is lent */
	uint64_t lent_ns, asked_ns;    /* when it was lent, or lend_keep() looked; when the latest copy was sent */
	uint64_t events;	       /* 1 << enum nic_event_type: to tell users of */
	uint32_t n_waiting;
	uint32_t lent_psn, lent_srqn, known_srqn;
	uint32_t nak_psn; /* the PSN that follows the responses received from the borrower */
	uint32_t sent;	  /* responses sent to the peer since the last CREDIT */
	uint16_t copy;	  /* number of the latest copy of the LEND */
	bool on_its_way;  /* that copy has been neither delivered nor given up */
	bool processing;

	/* borrower */
	struct nic_rdm_peer *owner;
	struct nic_qp_attr attr; /* the target's, as last seen */
	uint64_t raised;	 /* events that the guest raised during this lease */
	uint32_t credits;
	bool has_state;
	struct xrc_return last; /* the latest RETURN */
	struct list guest;	/* on share.guests, or share.late */

	/* both */
	uint64_t incarnation, lease;
};

struct xrc_share {
	struct nic *nic;
	struct nic_xrc_share_init init;
	struct nic_pd *pd;
	struct nic_rdm *rdm;
	struct xrc_buffer *buffers;
	struct list arrived;	    /* struct xrc_buffer: messages received */
	struct list links, ready;   /* struct xrc_link: all; those with messages that may be sent */
	struct list sent, failed;   /* struct xrc_msg: in flight; not delivered, or perhaps not */
	struct list due;	    /* struct xrc_lent with something to do */
	struct list guests, parked; /* parked: see path_park() */
	struct list late;	    /* struct xrc_lent of guests that were destroyed before their owners sent END */
	struct list out;	    /* struct xrc_lent: targets that are lent to other NICs */
	struct list orphans;	    /* targets that only other NICs use */
	struct list calls;	    /* struct nic_xrc_call */
	uint64_t calls_made, watch_ns;
	uint32_t n_guests;
	bool busy;
};

/* ---- share.c -------------------------------------------------------------------------------------------- */

/** Call lend_step() once the NIC settles. */
void xrc_due(struct xrc_share *share, struct xrc_lent *lent);
/** The domain of this name, if the other NIC shares it; NULL: none. */
struct nic_xrcd *xrc_domain(const struct xrc_share *share, const struct nic_xrc_name *name,
			    const struct nic_rdm_peer *peer);
/** Whether the NIC at this address shares any domain with this one. */
bool xrc_is_member(const struct xrc_share *share, const struct nic_rdm_addr *addr);
/** Find the other NIC that shares the domain and has QPs and SRQs of this number. @return false: there is none. */
bool xrc_find(const struct xrc_share *share, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr);
/** Whether QPs of this number are the other NIC's. */
bool xrc_owns(const struct xrc_share *share, const struct nic_xrcd *xrcd, const struct nic_rdm_peer *peer,
	      uint32_t qpn);
/** Write the packet to `to`, from the BTH on. @return its length. */
uint32_t xrc_packet_write(const struct packet *p, uint8_t to[XRC_PACKET_MAX]);
/** Read such a packet. @return false: it is malformed. */
bool xrc_packet_read(const uint8_t *from, uint32_t len, struct packet *p);

/** See to it that xrc_timeout() looks for what other NICs have left behind, or have not answered. */
#define XRC_WATCH_NS 5000000000u
void xrc_watch(struct xrc_share *share);
/** The current call may end without settling: make the next timeout due now, so that it sends what has been posted. */
void xrc_flush_soon(struct xrc_share *share);

/* ---- send.c --------------------------------------------------------------------------------------------- */

/** Allocate a message, filled in up to its head. @return NULL: no memory. */
struct xrc_msg *xrc_msg_new(enum xrc_kind kind, uint32_t qpn, size_t len);
/** Have what xrc_post() needs to send messages to this NIC. @return false: no memory. */
bool xrc_link_have(struct xrc_share *share, struct nic_rdm_peer *peer);
/** Send the message to another NIC once the NIC settles; messages to one NIC arrive in order. After xrc_link_have(). */
void xrc_post(struct xrc_share *share, struct nic_rdm_peer *peer, struct xrc_msg *msg);
/** How many messages to this NIC are to be sent. */
uint32_t xrc_unsent(const struct nic_rdm_peer *peer);
/** A message in flight has been delivered, or not. */
void xrc_sent(struct xrc_share *share, struct xrc_msg *msg, bool delivered);
/** Send what may be sent. @return whether something has failed. */
bool xrc_flush(struct xrc_share *share);
/** Act on messages that were not delivered. @return whether there were any. */
bool xrc_send_failed(struct xrc_share *share);
/** Free what was to be sent. After nic_rdm_destroy(). */
void xrc_send_fini(struct xrc_share *share);

/* ---- lend.c --------------------------------------------------------------------------------------------- */

/** The owner's state of a target; NULL: no memory. */
struct xrc_lent *lend_get(struct xrc_share *share, struct nic_qp *qp);
/** What another NIC has of the target; NULL: nothing. */
struct xrc_holder *lend_holder_find(const struct xrc_lent *lent, const struct nic_rdm_peer *peer);
/** The same, made if there is none; NULL: no memory. */
struct xrc_holder *lend_holder(struct xrc_lent *lent, struct nic_rdm_peer *peer);
bool lend_keep(struct nic_qp *qp, const struct packet *p);
void lend_respond(struct nic_qp *qp, struct nic_tx_frame *frame);
void lend_drop(struct nic_qp *qp);
void lend_destroy(struct nic_qp *qp);
void lend_step(struct xrc_share *share, struct xrc_lent *lent);
/** Handle the messages RESPONSE and RETURN. */
void lend_response(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void lend_return(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
/** The latest copy of a LEND was delivered. */
void lend_delivered(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes);
/** Renumber a LEND that may not have been delivered as the next copy. @return false: no answer is awaited any more. */
bool lend_renew(struct xrc_share *share, struct nic_rdm_peer *peer, void *bytes);
/** A LEND or CREDIT did not arrive. */
void lend_failed(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes);
/** Ask for answers that are late. */
void lends_remind(struct xrc_share *share);

/* ---- route.c -------------------------------------------------------------------------------------------- */

/** The SRQ whose NIC executes this packet. */
uint32_t route_srqn(const struct nic_qp *qp, const struct packet *p);
/** Whether another NIC has this SRQ, and which. @param peer NULL: no memory */
bool route_find(const struct nic_qp *qp, uint32_t srqn, struct nic_rdm_peer **peer);
/** Whether another NIC has to execute this packet, and which. @param peer NULL: no memory */
bool route_is_foreign(const struct nic_qp *qp, const struct packet *p, struct nic_rdm_peer **peer);

/* ---- guest.c -------------------------------------------------------------------------------------------- */

/** Handle the messages LEND, CREDIT and END. */
void guest_lend(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void guest_credit(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void guest_end(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
/** A RESPONSE did not arrive. */
void guest_failed(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes);
/** Destroy the guests whose owners have ended, and forget those that were destroyed before. */
void guests_prune(struct xrc_share *share);
/** The number of guests in a domain. */
unsigned guests_count(const struct xrc_share *share, const struct nic_xrcd *xrcd);
/** Destroy the guests in a domain. @param xrcd NULL: in all domains */
void guests_leave(struct xrc_share *share, const struct nic_xrcd *xrcd);
/** Forget the guests that were destroyed. */
void guests_forget(struct xrc_share *share);

/* ---- call.c --------------------------------------------------------------------------------------------- */

/** Handle the messages CALL, RESULT and EVENT, and a CALL that did not arrive. */
void call_arrived(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void call_result(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void call_event(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
void call_failed(struct xrc_share *share, const void *bytes);
/** Destroy the targets that have no users any more. */
void orphans_prune(struct xrc_share *share);
/** Tell the users of a target of the events that it has raised. */
void call_tell(struct xrc_share *share, struct xrc_lent *lent);

#endif
