/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.h - the queue pair: its state, and the few functions by which its parts meet. IBTA 9.7, 10.2, 10.3.
 *
 * Three engines work on a QP and each writes only its own part of it:
 *   requester  (req.c)   sq, req:  sends request packets, retransmits
 *   completer  (comp.c)  comp:     takes responses, completes send WQEs, tells the requester through req_* below
 *   responder  (resp.c)  resp:     takes requests, queues responses
 * Send queue indices are free-running: tail (oldest not completed) <= next (being sent) <= head (next to be posted).
 */
#ifndef NIC_QP_H
#define NIC_QP_H

#include "cq.h"
#include "elem.h"
#include "extended.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "rq.h"
#include "trigger.h"

enum error_id {
#define NIC_ERROR(name, syndrome, status, event, sentence) ERR_##name,
#include "error.def"
#undef NIC_ERROR
	ERR_COUNT
};

#define NO_EVENT (-1)

struct error_row {
	uint8_t syndrome;
	uint8_t status; /* enum nic_wc_status */
	int8_t event;	/* enum nic_event_type or NO_EVENT */
	const char *sentence;
};
extern const struct error_row error_rows[ERR_COUNT];

enum {
	AETH_ACK = 0x1f, /* credit code 0x1f: no end-to-end credits */
	AETH_RNR = 0x20, /* to 0x3f: timer code in the low 5 bits */
	AETH_CLASS = 0x60,
	AETH_NAK_SEQUENCE = 0x60,
	AETH_NAK_INVALID = 0x61,
	AETH_NAK_ACCESS = 0x62,
	AETH_NAK_OPERATION = 0x63,
};

/** A send work queue element; in the queue its SGEs or inline data follow; of operations on elements both. */
struct swqe {
	uint64_t wr_id;
	uint8_t opcode; /* enum nic_wr_opcode */
	uint8_t flags;	/* enum nic_send_flags, SIGNALED as resolved with sq_sig_all */
	bool started;	/* psn and packets are set */
	bool rides;	/* when sent last, it was in the packet of the one before */
	bool alike;	/* may go in the packet of the one before */
	uint32_t num_sge;
	uint32_t length;
	uint32_t ex;
	uint32_t psn;	  /* of its first packet */
	uint32_t packets; /* PSNs it takes; 0 for local operations */
	union {
		struct {
			uint64_t remote_addr;
			union {
				struct {
					uint64_t compare, swap_add;
				};
				uint32_t piece; /* PSNs that a READ asks for at a time, also by another path */
				struct {
					uint32_t count, data_len; /* elements; bytes of operands and compare values */
					uint16_t num_data;	  /* SGEs of these, behind those for the result */
					uint8_t op, datatype;
				} element;
				struct {
					uint32_t data_len; /* bytes of operands */
					uint8_t op, type;
				} calc;
			};
			uint32_t rkey;
		};
		struct {
			struct nic_av av;
			uint32_t remote_qpn, remote_qkey;
			uint32_t path;
		} ud;
		struct {
			struct nic_bind bind;
			uint32_t mw_key, mr_key; /* when it was posted: whether the objects still exist */
		};
		struct {
			struct nic_cq *cq; /* NULL: it waits no more */
			uint64_t threshold;
		} wait;
		struct {
			struct nic_qp *qp; /* may be none any more */
			uint32_t qpn, index, resets;
		} enable;
	};
	struct nic_sge sge[]; /* or bytes of inline data */
};
_Static_assert(offsetof(struct swqe, ud.path) >= offsetof(struct swqe, enable.resets) + sizeof(uint32_t) &&
		       offsetof(struct swqe, ud.path) >= offsetof(struct swqe, wait.threshold) + sizeof(uint64_t),
	       "all requests of a UD QP have a path");

struct send_queue {
	uint8_t *slots;
	uint32_t stride;
	uint32_t operands; /* offset in a slot of those of an extended atomic */
	uint32_t capacity, max_sge, max_inline, max_atomic_arg, max_fetch;
	uint32_t mask;
	uint32_t head, next, tail;
	uint32_t streak; /* WQEs from here on are alike: those before `head`, but for the first */
};

#define REQ_EARLY_OVER UINT8_MAX

/** Of req_early.c. */
struct requester_early {
	uint64_t at; /* while the ACK timer runs: when an answer is late; TIME_NEVER: not before that runs out */
	uint32_t answer_ns, deviation_ns; /* how long answers take; 0: not known yet */
	uint64_t timed_ns;		  /* these two: `timing`, when it was first sent, and the PSN behind it */
	uint32_t timed_psn;
	bool timing;
	uint8_t again; /* times that it was sent again early since there was progress; REQ_EARLY_OVER: enough */
};

/** What is sent was sent early before: the ACK timer is not started anew for that. */
#define req_early_is_again(qp) ((qp)->req.early.again != 0 && (qp)->req.early.again != REQ_EARLY_OVER)

/** Since the ACK timer was started: what is known of whether the peer has taken what was sent by a lossless path. */
enum req_taken { REQ_TAKEN_UNKNOWN, REQ_UNTAKEN, REQ_TAKEN };

/** Requester. Written by req.c only, and `early` by req_early.c. */
struct requester {
	uint32_t psn;		      /* of the next packet to send */
	uint32_t sent_psn;	      /* one past the highest PSN ever sent */
	uint32_t packet;	      /* index in WQE sq.next of the next packet to send */
	uint32_t rd_out;	      /* READ requests and atomics sent and unanswered */
	uint32_t unasked;	      /* request packets, each of a run, sent since one had AckReq */
	uint32_t cwnd, cwnd_acked;    /* packets: window after losses, and what was acknowledged towards widening it */
	uint64_t ack_deadline;	      /* ACK timer; TIME_NEVER: off */
	uint64_t rnr_until;	      /* RNR wait; TIME_NEVER: none */
	uint8_t retries, rnr_retries; /* left */
	uint8_t expired;	      /* times the ACK timer ran out in a row, up to BACKOFF_MAX */
	uint8_t taken;		      /* enum req_taken; see req_taken.c */
	uint64_t taken_mark;	      /* as nic_config.untaken */
	struct requester_early early;
	bool retrying; /* went back to una and has seen no progress since */
	bool forgiven; /* likewise, but that was no retry: payload by reference was not fetched */
	bool referred; /* packets before referred_end, unacknowledged yet, have been sent by reference */
	uint32_t referred_end;
	enum error_id failed; /* local error of WQE sq.next: completes once it is the oldest */
	bool drained;	      /* SQ_DRAINED was reported */
	uint32_t sqd_stop;    /* in SQD: WQEs from here on wait */
};

/** Completer. Written by comp.c only. */
struct completer {
	uint32_t una;	/* oldest PSN that is not acknowledged, or the next READ response expected */
	bool read_open; /* a READ response message has begun and not ended */
};

/** A READ or atomic that was executed or begun: what duplicates are answered from. */
struct resp_resource {
	bool used, atomic;
	bool duplicate; /* what is to be sent answers a duplicate: errors are silent, but see `referred` */
	bool referred;	/* READs: some of it was sent by reference */
	bool todo;	/* response packets from `cursor` on are to be sent */
	bool told;	/* rdm_served has been */
	uint32_t psn, packets;
	uint32_t cursor; /* packet index of the next response to send */
	uint32_t end;	 /* packet index where to stop */
	uint32_t stop;	 /* READs: byte of the message where the last of these ends */
	uint32_t base;	 /* packet index at which the response message begins (FIRST or ONLY) */
	uint32_t msn;
	uint32_t rkey, length;
	uint64_t va;
	bool elements;
	uint32_t size; /* atomics: bytes, and the value before; that of elements is in responder.saved */
	uint64_t orig[NIC_ATOMIC_WORDS];
};

/** Responder. Written by resp*.c only. */
struct responder {
	uint32_t epsn, msn;
	const struct opcode *open; /* last packet of the message that is under way, or NULL */
	bool nak_sent;		   /* a sequence NAK or RNR NAK is out and ePSN has not arrived */
	bool heard;		   /* a packet has arrived since RTR (COMM_EST) */
	bool dying;		   /* fatal NAK queued: responses still go out although the QP is in error */
	/* RDMA WRITE under way */
	uint64_t va;
	uint32_t rkey, left;
	/* receive WQE in use */
	bool have_wqe;
	uint64_t received;
	struct rwqe *wqe;
	/* what is to be sent */
	bool ack_queued, ack_due; /* due: no longer delayed */
	uint8_t syndrome;
	uint32_t nak_psn;
	uint32_t unacked; /* packets since the last ACK went out */
	uint64_t ack_at;
	bool ack_lazy;		   /* the peer has not asked for it */
	struct list ack_node;	   /* on nic.ack_wait or nic.ack_lazy */
	struct resp_resource *res; /* ring of res_size, a power of two; res_head counts all ever taken */
	uint8_t *saved; /* what elements were before, as it is sent: sq.max_fetch bytes a resource; NULL at first */
	uint32_t res_size, res_head;
	uint32_t res_next; /* no resource before this one has todo set */
	uint32_t res_todo; /* resources with todo set */
};

/** How far ENABLEs that are posted go, of a managed queue. */
struct enabled {
	uint32_t base;	/* they count from here */
	uint32_t count; /* the most that one has enabled since */
};

/** Written by cross.c only. */
struct cross {
	bool posts, managed;	   /* WAITs, ENABLEs and calculations; its send queue is a managed one */
	struct nic_trig_work work; /* waits with the WAIT sq.next */
	struct enabled send, recv;
	uint32_t enabled; /* managed: WQEs before this one may start */
	uint32_t resets;
};

#define HEAP_NONE UINT32_MAX

struct nic_qp {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_srq *srq;
	uint32_t qpn;
	enum nic_qp_type type;
	enum nic_qp_state state;
	bool sig_all;
	bool bounded;	     /* WQEs from some index on wait: in SQD, or managed */
	uint32_t send_flags; /* that it may be posted with */
	uint32_t be_replies; /* as nic_qp_init */
	struct nic_qp_cap cap;
	struct nic_qp_attr attr;
	uint32_t pmtu; /* bytes */
	uint16_t udp_sport;
	struct nic_gid sgid; /* of attr.av.sgid_index when the path was set */
	struct send_queue sq;
	struct rq rq;
	struct requester req;
	struct completer comp;
	struct responder resp;
	struct cross cross;
	uint32_t path;	     /* egress, of a connected QP */
	uint32_t takes;	     /* from whom it takes packets, as nic_rx_frame.peer */
	bool peer_is_local;  /* an address of this host: packets that come by the port have to be from port 4791 */
	uint64_t rx_at_port; /* rx_packets when `takes` became 0: those since have come by the port */
	uint8_t says, hears; /* nic_tx_frame.addresses of bare packets, and what the peer's are to have */
	struct list ready;   /* on the ready list of a path */
	bool resp_turn;	     /* whose turn it is to send */
	uint64_t deadline;   /* earliest of the timers */
	uint32_t heap_pos;
	struct event_source events;
	struct nic_qp_counters counters;
	bool refers;		       /* requests or responses of it may be under way by reference */
	bool peer_joins;	       /* the peer takes runs (req_run.c) */
	bool hurries;		       /* nothing waits for others to go with */
	const struct qp_owner *owner;  /* NULL: the application */
	struct nic_rdm_peer *rdm_peer; /* RC, of this peer; NULL: of none any more */
	struct nic_rdm *rdm;	       /* UD, of this one's port */
	struct list fading;	       /* of the endpoint: to be destroyed when it has sent its last */
};

static inline struct swqe *sq_at(const struct nic_qp *qp, uint32_t index)
{
	return (struct swqe *)(void *)(qp->sq.slots + (size_t)(index & qp->sq.mask) * qp->sq.stride);
}

/** Operands of an extended atomic, as in its packet. */
static inline uint8_t *sq_operands(const struct nic_qp *qp, const struct swqe *w)
{
	return (uint8_t *)(uintptr_t)w + qp->sq.operands;
}

static inline bool wr_is_masked(uint32_t opcode)
{
	return opcode == NIC_WR_MASKED_CMP_AND_SWP || opcode == NIC_WR_MASKED_FETCH_AND_ADD;
}

static inline bool wr_is_elements(uint32_t opcode)
{
	return opcode == NIC_WR_ELEMENTS || opcode == NIC_WR_FETCH_ELEMENTS;
}

/** About other queues. */
static inline bool wr_is_cross(uint32_t opcode)
{
	return opcode >= NIC_WR_SEND_ENABLE && opcode <= NIC_WR_CQE_WAIT;
}

/** Done by the requester alone: nothing is sent. The opcode is one that there is. */
static inline bool wr_is_local(uint32_t opcode)
{
	const uint32_t below_32 = 1u << NIC_WR_LOCAL_INV | 1u << NIC_WR_BIND_MW;
	const uint32_t from_96 = 1u << (NIC_WR_SEND_ENABLE - 96) | 1u << (NIC_WR_RECV_ENABLE - 96) |
				 1u << (NIC_WR_CQE_WAIT - 96) | 1u << (NIC_WR_NOP - 96);

	return (opcode < 32 ? below_32 : from_96) >> (opcode & 31) & 1;
}

/** Answered with what was there before. */
static inline bool wr_is_atomic(uint32_t opcode)
{
	return opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD || wr_is_masked(opcode) ||
	       opcode == NIC_WR_FETCH_ELEMENTS;
}

static inline uint32_t mtu_bytes(enum nic_mtu mtu)
{
	return 128u << mtu;
}

/* A PMTU is a power of two. */
static inline uint32_t pmtu_shift(uint32_t pmtu)
{
	return (uint32_t)__builtin_ctz(pmtu);
}

static inline uint32_t packets_of(uint64_t length, uint32_t pmtu)
{
	return length ? (uint32_t)((length + pmtu - 1) >> pmtu_shift(pmtu)) : 1;
}

/** The egress path of what the QP sends next. */
static inline uint32_t qp_path(const struct nic_qp *qp)
{
	if (qp->type != NIC_QPT_UD)
		return qp->path;
	return qp->sq.next != qp->sq.head ? sq_at(qp, qp->sq.next)->ud.path : 0;
}

/** The QP may have something to send: put it in turn. */
static inline void qp_ready(struct nic_qp *qp)
{
	uint32_t path = qp_path(qp);

	if (!list_empty(&qp->ready))
		return;
	list_append(&qp->nic->paths[path].ready, &qp->ready);
	qp->nic->paths_pending[path / 64] |= 1ull << path % 64;
}

/* admit.c */
/** Why the packet may not reach this QP, or NIC_CNT_COUNT: the checks of 9.6.1 in their order. */
enum nic_counter rx_refusal(const struct nic *nic, const struct nic_qp *qp, const struct packet *p);

/* path.c */
/** The path to a peer's QP, as the owner says. */
uint32_t path_route(const struct nic *nic, const struct nic_gid *dgid, uint32_t dest_qpn);
/** The QP sends by this path from now on; with what it has to send it moves along. */
void path_move(struct nic_qp *qp, uint32_t path);

/**
 * Who has a QP that is not the application's: an endpoint of reliable datagrams (rdm/). What is declared here is all that the
 * transport asks its owner. The functions are called in the course of a call into the NIC, and only note what has happened;
 * they act on it when the NIC settles (nic_settle_due).
 */
struct qp_owner {
	/** Whether there is room for the message that begins with this packet. */
	bool (*takes)(const struct nic_qp *qp, const struct packet *p);
	/** A packet of a message, in order; of one that begins with it `takes` has been asked just before. @return what ends the
	 *  connection, or ERR_none. */
	enum error_id (*arrive)(struct nic_qp *qp, const struct packet *p);
	/** The message that a work request with NIC_SEND_OFFERS offers. @return false: a packet cannot refer to it. */
	bool (*offered)(const struct swqe *w, struct nic_piece *piece);
	/** Where the message that this packet offers will go, behind those foreseen. @return NULL: not known. */
	uint8_t *(*foresee)(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);
	/** A datagram. */
	void (*datagram)(struct nic_qp *qp, const struct packet *p);
	/** A request of the peer to memory has been served. */
	void (*served)(struct nic_qp *qp, uint32_t rkey, bool read, bool write);
	/** Whether `served` would tell anybody. */
	bool (*is_told)(const struct nic_qp *qp, uint32_t rkey);
	/** The QP is in error. */
	void (*failed)(struct nic_qp *qp);
};

/* qp.c */
/** nic_qp_create, with this number. @return also -EADDRINUSE. */
int qp_create_at(struct nic *nic, struct nic_qp_init *init, uint32_t qpn, struct nic_qp **out);
/** Give the send queue more room, what is in it kept. @return 0, -ENOMEM. */
int qp_sq_grow(struct nic_qp *qp, uint32_t capacity);
/** To the error state: flush both queues (C10-42), stop timers. `cause` is for the trace. Harmless when already there. */
void qp_enter_error(struct nic_qp *qp);
/** A send queue error: RC to ERR; UC and UD to SQE (QS-09), send queue flushed. */
void qp_send_error(struct nic_qp *qp);
/** Report a state change. */
void qp_set_state(struct nic_qp *qp, enum nic_qp_state state);
/** Complete a receive with an error and forget the WQE. */
void qp_complete_recv(struct nic_qp *qp, const struct nic_wc *fields, bool solicited);
/** Recompute qp->deadline from the requester's timers. */
void qp_timer(struct nic_qp *qp);
/** Fill in what all packets of a connected QP share. */
void qp_address(const struct nic_qp *qp, struct packet *p);
/** The PD against which the SGEs of receive WQEs are checked: the SRQ's own, where there is one. */
static inline struct nic_pd *qp_recv_pd(const struct nic_qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}
/** Whether a receive WQE is there, taken from the QP's queue or SRQ into resp.wqe. */
bool qp_take_wqe(struct nic_qp *qp);

/* time.c */
/** The earliest deadline, in the NIC's time. */
uint64_t time_next(const struct nic *nic);
/** Send the ACKs of a list that were to go by `until`. */
void acks_due(const struct list *acks, uint64_t until);

/* qp_state.c */
/** QPs of CQs that overflowed go to the error state: at the end of every call that may complete something, outside of
 *  whatever overflowed it (QS-14). */
void nic_tell_failed_cqs(struct nic *nic);
static inline void nic_settle_failed_cqs(struct nic *nic)
{
	if (__builtin_expect(!list_empty(&nic->cq_failed), 0))
		nic_tell_failed_cqs(nic);
}

/* qp_state.c */
/** Whether the transition is legal with these attributes (table of 11.2.4.2). @return 0, -EINVAL, -EOPNOTSUPP. */
int qp_transition_check(enum nic_qp_type type, enum nic_qp_state from, enum nic_qp_state to, uint32_t mask);

/* req.c */
void req_reset(struct nic_qp *qp);
/** Write the next request packet to the frame, if the requester has one to send now. */
bool req_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
/** Whether req_tx may have work (cheap, may be wrong only towards yes). */
bool req_pending(const struct nic_qp *qp);
/** PSNs before comp.una are acknowledged: restart counters and timer. */
void req_progress(struct nic_qp *qp, uint32_t packets);
/** Loss: send again from comp.una on, if tries are left; else the oldest WQE fails with `exhausted`. */
void req_go_back(struct nic_qp *qp, enum error_id exhausted);
/** A response was not fetched that was sent by reference: its request is sent again, once without it being a retry. */
void req_unread(struct nic_qp *qp);
/** What has been sent and not been answered may be lost, with the way that it went by, or its answer with the way that this came
 *  by: RC sends it again, which is no try. */
void req_path_gone(struct nic_qp *qp);
/** RNR NAK with this timer code for comp.una. */
void req_rnr(struct nic_qp *qp, uint8_t timer_code);
/** A READ request or atomic was answered. */
void req_rd_done(struct nic_qp *qp);
/** Retry counts or the ACK timeout were changed: they hold from now on. */
void req_attributes_changed(struct nic_qp *qp);
/** Timers of this QP may have expired. */
void req_timeout(struct nic_qp *qp, uint64_t now);
/** The requester waits: for the peer to be ready, with a local error, drained. Re-evaluated when a WQE completes. */
void req_settle(struct nic_qp *qp);
/** These for req_run.c. The WQE sq.next cannot go on: it fails once everything before it is complete. @return false. */
bool req_fail(struct nic_qp *qp, enum error_id error);
/** What fails where data are gathered. */
enum error_id req_gathered(enum mem_verdict v);
/** How many retries take a time like this, with an ACK timer like that (nic_qp_attr.timeout, not 0): 1 ... 255. */
uint8_t req_retries(uint8_t timeout, uint64_t ns);
/* req_taken.c */
/** The ACK timer has expired. @return 0: the peer has had time to answer what it was sent, and this is a try; else it has not, and
 *  the timer goes on for so many ns. */
uint64_t req_taken_look(struct nic_qp *qp);
/* req_early.c */
/** A packet was sent for the first time. */
void req_early_sent(struct nic_qp *qp);
/** PSNs before comp.una are acknowledged. */
void req_early_progress(struct nic_qp *qp);
/** The ACK timer has been started. */
void req_early_start(struct nic_qp *qp);
/** No answer has come until early.at. @return whether what has none is to be sent again. */
bool req_early_again(struct nic_qp *qp);
/** Whether the peer is to answer the packet, which this WQE is in. */
bool req_asks_ack(struct nic_qp *qp, const struct swqe *w, bool ends, uint32_t psns);
/** A packet of so many PSNs has been built, with which so many WQEs end: account for it. */
void req_sent(struct nic_qp *qp, const struct swqe *w, uint32_t psns, uint32_t ends);

/* post.c: SENDs of the NIC's own, of little, from RC QPs that have been connected */
/** Where the payload goes, up to the queue's max_inline bytes; NULL: there is no room. Nothing is posted yet. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post it: `length` bytes have been written there. `flags`: enum nic_send_flags, as resolved with sq_sig_all. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

/* source.c */
/** The QP has been connected: by what its packets come. */
void source_set(struct nic_qp *qp);
/** It is connected to nobody. */
void source_reset(struct nic_qp *qp);
/** A packet has come by another way than the QP takes packets by: it may be the first of its peer's by a link. */
void source_look(struct nic_qp *qp, const struct packet *p);
/** Whether a packet of a connected QP has come by the right way. @return why not; NIC_CNT_COUNT: it has. */
static inline enum nic_counter source_refusal(const struct nic_qp *qp, const struct packet *p)
{
	if (__builtin_expect(p->peer != qp->takes, 0))
		return p->peer ? NIC_CNT_rx_bad_source : NIC_CNT_rx_beside_link;
	if (!p->peer && qp->peer_is_local && p->udp_sport != NIC_UDP_PORT)
		return NIC_CNT_rx_local_sport;
	return NIC_CNT_COUNT;
}
/** The same, of a datagram: it may have come by any way. */
enum nic_counter source_datagram_refusal(const struct nic *nic, const struct packet *p);

/* req_run.c */
/** This WQE is complete but for being counted in sq.head. */
void req_run_posted(struct nic_qp *qp, struct swqe *w);
/** WQEs from sq.next on that go in one packet: most go alone. 0: they wait for others, while enough are under way. */
uint32_t req_run(const struct nic_qp *qp);
/** Send so many in one packet, which there is room for. @return false: none has gone. */
bool req_run_send(struct nic_qp *qp, uint32_t n, struct nic_tx_frame *frame);
/** WQEs under way that have gone in the packet of the one before. */
uint32_t req_run_riders(const struct nic_qp *qp);

/* cross.c */
void cross_init(struct nic_qp *qp, const struct nic_qp_init *init);
/** Nothing is posted any more, and nothing enabled. */
void cross_reset(struct nic_qp *qp);
/** The send queue has been flushed, and goes on. */
void cross_recover(struct nic_qp *qp);
/** WAITs that have not run never will: what they hold is given back. Harmless when it has been. */
void cross_release(struct nic_qp *qp);
/** What is wrong with such a request of a QP that may have it. @return 0, -EINVAL. */
int cross_check(const struct nic_qp *qp, const struct nic_send_wr *wr);
/** Make room for what such a request takes while it waits. @return 0, -ENOMEM. */
int cross_room(const struct nic_send_wr *wr);
/** Fill in its part of the WQE; counts move on. */
void cross_post(struct swqe *w, const struct nic_send_wr *wr);
/** Run WQE sq.next. @return false: the queue has to wait, or it has failed. */
bool cross_run(struct nic_qp *qp, struct swqe *w);

/* comp.c */
void comp_reset(struct nic_qp *qp);
/** A response packet for this RC QP. @return whether it answers a request under way. */
bool comp_rx(struct nic_qp *qp, const struct packet *p);
/** Complete the oldest WQE. */
void comp_finish(struct nic_qp *qp, enum error_id error);
/** Complete local operations that have become the oldest. */
void comp_finish_local(struct nic_qp *qp);
/** Where this response goes, if it is all of the answer to a READ that `ahead` READs are before in the send queue. @return NULL: it
 *  is none, or that wants it in several places. */
uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead);
/** Complete everything in the send queue with a flush error. */
void comp_flush(struct nic_qp *qp);

/* resp.c */
void resp_reset(struct nic_qp *qp);
/** A request packet for this RC or UC QP. @return whether it had the PSN expected next, and was executed. */
bool resp_rx(struct nic_qp *qp, const struct packet *p);
/** Whether a WRITE of one packet would be executed as things stand, if it came next and no message were open. @param app where it
 *  would write to. */
bool resp_would_take(const struct nic_qp *qp, const struct packet *p, uint8_t **app);
/** The request with this PSN is refused, which ends the connection: NAK, completion or event, QP in error. */
void resp_fail(struct nic_qp *qp, enum error_id error, uint32_t psn);
/** Nothing is answered any more: forget all responses that wait. */
void resp_cancel(struct nic_qp *qp);
/** A response that waited has been sent, or is not needed any more. */
static inline void resp_resource_done(struct responder *resp, struct resp_resource *r)
{
	r->todo = false;
	resp->res_todo--;
}

/* resp_tx.c */
/** Write the next response packet to the frame, if one is due. */
bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
bool resp_pending(const struct nic_qp *qp);
/** The QP is about to end in error: what it owes its peer for requests that are done goes all the same, and now. */
void resp_say_last(struct nic_qp *qp);

/* resp_ack.c */
/** Queue an ACK for everything before ePSN: the peer has asked for it. */
void resp_ack(struct nic_qp *qp);
/** The same: he has not. */
void resp_ack_lazily(struct nic_qp *qp);
/** Queue a NAK or RNR NAK. */
void resp_nak(struct nic_qp *qp, uint8_t syndrome, uint32_t psn);
/** The delayed ACK is due now. */
void resp_ack_due(struct nic_qp *qp);

/* resp_atomic.c */
/** Bytes that an atomic request is about. */
uint32_t resp_atomic_size(const struct packet *p);
/** Execute a request that has been checked, and save the value before. @return false: its memory has gone. */
bool resp_atomic_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, struct resp_resource *r);
/** Open the response to an atomic, and put the value before in place. */
void resp_atomic_open(const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame);

/* resp_elem.c */
/** Whether a request packet names a pair that there is, and as many operands as go with it. */
bool resp_elements_fit(const struct nic_qp *qp, const struct packet *p);
/** Bytes of memory that it is about. */
uint32_t resp_elements_size(const struct packet *p);
/** Room for what fetching operations answer, which most QPs never need. @return false: there is no memory. */
bool resp_elements_room(struct nic_qp *qp);
/** Execute a request that has been checked; what was before is saved for the resource that it takes, if it takes one. @return
 *  false: its memory has gone. */
bool resp_elements_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, const struct resp_resource *r);
/** Open the answer, and put what was before in place. */
void resp_elements_open(struct nic_qp *qp, const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame);

/** Whether a packet is a run of requests; what only claims to be is none that fits, either. */
bool resp_elements_run(const struct nic_qp *qp, const struct packet *p);
/** Request number i of a run, as in a packet of its own. */
void resp_elements_member(const struct packet *run, uint32_t i, struct packet *one);

/* resp_dup.c */
/** A request with a PSN before ePSN. */
void resp_duplicate(struct nic_qp *qp, const struct packet *p);
/** Responses from `cursor` to `end` of the resource are to be sent (again). */
void resp_resource_send(struct nic_qp *qp, struct resp_resource *r, uint32_t cursor, uint32_t end);

/* ud.c */
void ud_rx(struct nic_qp *qp, const struct packet *p);
/** WQE sq.next is longer than a datagram can be: complete it unsent. */
bool ud_skip(struct nic_qp *qp);
bool ud_tx(struct nic_qp *qp, struct nic_tx_frame *frame);

/** Begin a packet with so much payload, all its fields set: where the payload goes. See packet_open. */
uint8_t *qp_open(struct packet *p, struct nic_tx_frame *frame, uint32_t payload_len);
/** Finish a packet whose payload is in place: describe the frame, count it. */
void qp_emit(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame);

#endif
