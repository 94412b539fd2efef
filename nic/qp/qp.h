/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.h - the queue pair: its state, and the functions through which its parts interact. IBTA 9.7, 10.2, 10.3.
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

/** Bits of swqe.flags besides those of enum nic_send_flags. */
enum {
	NIC_SEND_OFFERS = 1 << 6, /* reliable datagram endpoints only: offers a message, see nic_reference.psns */
	/** reliable datagram endpoints only: no AckReq on lossless paths, completes with some later ACK */
	NIC_SEND_UNAWAITED = 1 << 7,
};

/** A send work queue element, followed in the queue by its SGEs or inline data; for operations on elements by both. */
struct swqe {
	uint64_t wr_id;
	uint8_t opcode; /* enum nic_wr_opcode */
	uint8_t flags;	/* enum nic_send_flags, SIGNALED as resolved with sq_sig_all */
	bool started;	/* psn and packets are set */
	bool rides;	/* when last sent, it was in the packet of the previous WQE */
	bool alike;	/* may go in the packet of the previous WQE */
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
				uint32_t piece; /* PSNs per READ request packet; kept when the path changes */
				struct {
					uint32_t count, data_len; /* elements; bytes of operands and compare values */
					uint16_t num_data;	  /* SGEs of data_len, after those for the result */
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
			uint32_t mw_key, mr_key; /* keys when posted: tell whether the objects still exist */
		};
		struct {
			struct nic_cq *cq; /* NULL: no longer waiting */
			uint64_t threshold;
		} wait;
		struct {
			struct nic_qp *qp; /* may be stale: look up qpn and compare */
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
	uint32_t operands; /* offset in a slot of an extended atomic's operands */
	uint32_t capacity, max_sge, max_inline, max_atomic_arg, max_fetch;
	uint32_t mask;
	uint32_t head, next, tail;
	uint32_t streak; /* WQEs [streak, head) are alike: all but the first have `alike` set */
};

#define REQ_EARLY_OVER UINT8_MAX

/** Early retransmission; written by req_early.c and req.c. */
struct requester_early {
	uint64_t at; /* while the ACK timer runs: when to send again early; TIME_NEVER: wait for the ACK timer */
	uint32_t answer_ns, deviation_ns; /* smoothed RTT and its deviation; 0: not known yet */
	uint64_t timed_ns; /* with `timing`: when the timed packet was first sent, and the PSN after it */
	uint32_t timed_psn;
	bool timing;
	uint8_t again; /* early retransmissions since the last progress; REQ_EARLY_OVER: no more */
};

/** An early retransmission is under way: sending does not restart the ACK timer. */
#define req_early_is_again(qp) ((qp)->req.early.again != 0 && (qp)->req.early.again != REQ_EARLY_OVER)

/** Whether the peer has taken what was sent by a lossless path, as known since the ACK timer was started. */
enum req_taken { REQ_TAKEN_UNKNOWN, REQ_UNTAKEN, REQ_TAKEN };

/** Requester. Written by req*.c; also by refer.c (referred...), ud.c (psn) and, on state changes, qp.c. */
struct requester {
	uint32_t psn;		      /* of the next packet to send */
	uint32_t sent_psn;	      /* one past the highest PSN ever sent */
	uint32_t packet;	      /* index in WQE sq.next of the next packet to send */
	uint32_t rd_out;	      /* READ requests and atomics in flight */
	uint32_t unasked;	      /* PSNs sent since the last AckReq; every request of a run counts */
	uint32_t cwnd, cwnd_acked;    /* packets: window after losses, and those acknowledged towards widening it */
	uint64_t ack_deadline;	      /* ACK timer; TIME_NEVER: off */
	uint64_t rnr_until;	      /* RNR wait; TIME_NEVER: none */
	uint8_t retries, rnr_retries; /* left */
	uint8_t expired;	      /* times the ACK timer ran out in a row, up to BACKOFF_MAX */
	uint8_t taken;		      /* enum req_taken; see req_taken.c */
	uint64_t taken_mark;	      /* *mark of nic_config.untaken */
	struct requester_early early;
	bool retrying; /* went back to una, not by timeout, and no progress since */
	bool forgiven; /* went back without using a retry (referenced payload not fetched), no progress since */
	bool referred; /* unacknowledged packets before referred_end were sent by reference */
	uint32_t referred_end;
	enum error_id failed; /* local error of WQE sq.next: completes once it is the oldest */
	bool drained;	      /* SQ_DRAINED was reported */
	uint32_t sqd_stop;    /* in SQD: WQEs from here on wait */
};

/** Completer. Written by comp.c; una also by req.c (UC) and ud.c. */
struct completer {
	uint32_t una;	/* oldest unacknowledged PSN, or the next READ response expected */
	bool read_open; /* a READ response message has begun and not ended */
};

/** A READ or atomic that was executed or begun; duplicates are answered from it. */
struct resp_resource {
	bool used, atomic;
	bool duplicate; /* the queued responses answer a duplicate: errors are silent unless `referred` */
	bool referred;	/* READs: part of the response was sent by reference */
	bool todo;	/* response packets from `cursor` on are queued */
	bool told;	/* READs: owner->served() was called */
	uint32_t psn, packets;
	uint32_t cursor; /* packet index of the next response to send */
	uint32_t end;	 /* packet index where to stop */
	uint32_t stop;	 /* READs: byte offset in the message where the last of these packets ends */
	uint32_t base;	 /* packet index at which the response message begins (FIRST or ONLY) */
	uint32_t msn;
	uint32_t rkey, length;
	uint64_t va;
	bool elements;
	uint32_t size; /* atomics: bytes, and the original value; for elements that is in responder.saved */
	uint64_t orig[NIC_ATOMIC_WORDS];
};

/** Responder. Written by resp*.c; resources and the receive WQE also by qp.c. */
struct responder {
	uint32_t epsn, msn;
	const struct opcode *open; /* last packet of the message in progress, or NULL */
	bool nak_sent;		   /* a sequence NAK or RNR NAK is out and ePSN has not arrived */
	bool heard;		   /* a packet has arrived since RTR (COMM_EST) */
	bool dying;		   /* fatal NAK queued: responses still go out although the QP is in error */
	/* RDMA WRITE in progress */
	uint64_t va;
	uint32_t rkey, left;
	/* receive WQE in use */
	bool have_wqe;
	uint64_t received;
	struct rwqe *wqe;
	/* ACK or NAK to send */
	bool ack_queued, ack_due; /* due: send without further delay */
	uint8_t syndrome;
	uint32_t nak_psn;
	uint32_t unacked; /* packets since the last ACK went out */
	uint64_t ack_at;
	bool ack_lazy;		   /* the peer did not set AckReq */
	struct list ack_node;	   /* on nic.ack_wait or nic.ack_lazy */
	struct resp_resource *res; /* ring of res_size, a power of two; res_head counts all ever taken */
	uint8_t *saved; /* original elements in wire format: sq.max_fetch bytes per resource; NULL until needed */
	uint32_t res_size, res_head;
	uint32_t res_next; /* no resource before this one has todo set */
	uint32_t res_todo; /* resources with todo set */
};

/** How far the posted ENABLEs reach in a managed queue. */
struct enabled {
	uint32_t base;	/* their counts start here */
	uint32_t count; /* largest count posted since base moved */
};

/** Written by cross.c only. */
struct cross {
	bool posts, managed;	   /* may post WAIT, ENABLE and calculations; the send queue is managed */
	struct nic_trig_work work; /* in the trigger unit for the WAIT at sq.next */
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
	bool bounded;	     /* WQEs from some index on may not start: in SQD, or managed */
	uint32_t send_flags; /* enum nic_send_flags allowed in requests */
	uint32_t be_replies; /* as in nic_qp_init */
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
	uint32_t takes;	     /* link it accepts packets from, as nic_rx_frame.peer; 0: the port */
	bool peer_is_local;  /* an address of this host: packets by the port must have UDP source port 4791 */
	uint64_t rx_at_port; /* rx_packets when `takes` became 0: later ones came by the port */
	uint8_t says, hears; /* nic_tx_frame.addresses of its bare packets, and of those expected from the peer */
	struct list ready;   /* on the ready list of a path */
	bool resp_turn;	     /* turn to send: the responder's, else the requester's */
	uint64_t deadline;   /* earliest of the timers */
	uint32_t heap_pos;
	struct event_source events;
	struct nic_qp_counters counters;
	bool refers;		       /* its requests or responses may be in flight by reference */
	bool peer_joins;	       /* the peer accepts runs (req_run.c) */
	bool hurries;		       /* send at once: no request waits to join a run */
	const struct qp_owner *owner;  /* NULL: the application */
	struct nic_rdm_peer *rdm_peer; /* RC of an endpoint: its peer; NULL: none, or detached */
	struct nic_rdm *rdm;	       /* UD QP of this endpoint */
	struct list fading;	       /* on the endpoint's list: destroy once its last packets are sent */
};

static inline struct swqe *sq_at(const struct nic_qp *qp, uint32_t index)
{
	return (struct swqe *)(void *)(qp->sq.slots + (size_t)(index & qp->sq.mask) * qp->sq.stride);
}

/** Operands of an extended atomic, in wire format. */
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

/** The request controls or waits for another queue (cross.c). */
static inline bool wr_is_cross(uint32_t opcode)
{
	return opcode >= NIC_WR_SEND_ENABLE && opcode <= NIC_WR_CQE_WAIT;
}

/** Executed by the requester alone, without a packet. `opcode` must be a valid one. */
static inline bool wr_is_local(uint32_t opcode)
{
	const uint32_t below_32 = 1u << NIC_WR_LOCAL_INV | 1u << NIC_WR_BIND_MW;
	const uint32_t from_96 = 1u << (NIC_WR_SEND_ENABLE - 96) | 1u << (NIC_WR_RECV_ENABLE - 96) |
				 1u << (NIC_WR_CQE_WAIT - 96) | 1u << (NIC_WR_NOP - 96);

	return (opcode < 32 ? below_32 : from_96) >> (opcode & 31) & 1;
}

/** Answered with the original value. */
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

/** The egress path of the QP's next packet. */
static inline uint32_t qp_path(const struct nic_qp *qp)
{
	if (qp->type != NIC_QPT_UD)
		return qp->path;
	return qp->sq.next != qp->sq.head ? sq_at(qp, qp->sq.next)->ud.path : 0;
}

/** The QP may have something to send: put it on its path's ready list. */
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
/** The path to a peer's QP, from nic_config.route. */
uint32_t path_route(const struct nic *nic, const struct nic_gid *dgid, uint32_t dest_qpn);
/** The QP sends by this path from now on; if it is on a ready list, it moves to the new path's. */
void path_move(struct nic_qp *qp, uint32_t path);

/**
 * The owner of a QP that is not the application's: an endpoint of reliable datagrams (rdm/). This is the transport's
 * whole interface to it. The functions are called within a call into the NIC and only note events; the owner acts on
 * them when the NIC settles (nic_settle_due).
 */
struct qp_owner {
	/** Whether there is room for the message that begins with this packet. */
	bool (*takes)(const struct nic_qp *qp, const struct packet *p);
	/** The next packet of a message, in order; `takes` was called just before if it begins one. @return the error
	 *  that ends the connection, or ERR_none. */
	enum error_id (*arrive)(struct nic_qp *qp, const struct packet *p);
	/** Memory of the message that a NIC_SEND_OFFERS request offers. @return false: a packet cannot refer to it. */
	bool (*offered)(const struct swqe *w, struct nic_piece *piece);
	/** Where the message that this packet offers will go, after those already foreseen. @return NULL: not known. */
	uint8_t *(*foresee)(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);
	/** A datagram has arrived with the right Q_Key. */
	void (*datagram)(struct nic_qp *qp, const struct packet *p);
	/** A request of the peer that reads or writes local memory has been served. */
	void (*served)(struct nic_qp *qp, uint32_t rkey, bool read, bool write);
	/** Whether `served` would report an access under this R_Key. */
	bool (*is_told)(const struct nic_qp *qp, uint32_t rkey);
	/** The QP is in error. */
	void (*failed)(struct nic_qp *qp);
};

/* qp.c */
/** nic_qp_create with this QPN. @return also -EADDRINUSE. */
int qp_create_at(struct nic *nic, struct nic_qp_init *init, uint32_t qpn, struct nic_qp **out);
/** Enlarge the send queue; posted WQEs are kept. @return 0, -ENOMEM. */
int qp_sq_grow(struct nic_qp *qp, uint32_t capacity);
/** Enter the error state: flush both queues (C10-42), stop timers. No effect when already there. */
void qp_enter_error(struct nic_qp *qp);
/** A send queue error: RC to ERR; UC and UD to SQE (QS-09), send queue flushed. */
void qp_send_error(struct nic_qp *qp);
/** Set the state, trace it and update `bounded`. */
void qp_set_state(struct nic_qp *qp, enum nic_qp_state state);
/** Complete the receive WQE in use and forget it. */
void qp_complete_recv(struct nic_qp *qp, const struct nic_wc *fields, bool solicited);
/** Recompute qp->deadline from the requester's timers. */
void qp_timer(struct nic_qp *qp);
/** Initialize a packet with the fields common to all packets of a connected QP. */
void qp_address(const struct nic_qp *qp, struct packet *p);
/** The PD against which the SGEs of receive WQEs are checked: the SRQ's if the QP has one. */
static inline struct nic_pd *qp_recv_pd(const struct nic_qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}
/** Take a receive WQE from the QP's queue or SRQ into resp.wqe. @return false: none is available. */
bool qp_take_wqe(struct nic_qp *qp);

/* time.c */
/** The earliest deadline, in the NIC's time. */
uint64_t time_next(const struct nic *nic);
/** Make due the ACKs of a list whose delay ends by `until`. */
void acks_due(const struct list *acks, uint64_t until);

/* qp_state.c */
/** Move the QPs of overflowed CQs to the error state (QS-14). Called at the end of every call that may complete
 *  something, never from within the code that overflowed the CQ. */
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
/** Whether req_tx may have work (cheap; false positives are possible). */
bool req_pending(const struct nic_qp *qp);
/** PSNs before comp.una are acknowledged: reset retry counts and restart the timer. */
void req_progress(struct nic_qp *qp, uint32_t packets);
/** Loss: retransmit from comp.una if retries are left, else the oldest WQE fails with `exhausted`. */
void req_go_back(struct nic_qp *qp, enum error_id exhausted);
/** Payload sent by reference was not fetched: retransmit from comp.una, the first time without using up a retry. */
void req_unread(struct nic_qp *qp);
/** The path of in-flight requests or their responses is gone: RC retransmits from comp.una with full retry counts. */
void req_path_gone(struct nic_qp *qp);
/** An RNR NAK with this timer code has arrived for comp.una. */
void req_rnr(struct nic_qp *qp, uint8_t timer_code);
/** A READ request or atomic was answered. */
void req_rd_done(struct nic_qp *qp);
/** Retry counts or the ACK timeout have changed: apply them now. */
void req_attributes_changed(struct nic_qp *qp);
/** Timers of this QP may have expired. */
void req_timeout(struct nic_qp *qp, uint64_t now);
/** Report a local error of sq.next once that is the oldest WQE, and that the send queue has drained. */
void req_settle(struct nic_qp *qp);
/** WQE sq.next cannot proceed: it fails once everything before it is complete. @return false. */
bool req_fail(struct nic_qp *qp, enum error_id error);
/** The error for a failure to gather payload; ERR_none for MEM_OK. */
enum error_id req_gathered(enum mem_verdict v);
/** Retries needed to cover `ns` with this ACK timeout (nic_qp_attr.timeout, not 0): 1 ... 255. */
uint8_t req_retries(uint8_t timeout, uint64_t ns);
/* req_taken.c */
/** The ACK timer has expired. @return 0: the peer has had time to answer, so this counts as a retry; else it has not,
 *  and the timer is extended by this many ns. */
uint64_t req_taken_look(struct nic_qp *qp);
/* req_early.c */
/** A packet was sent for the first time. */
void req_early_sent(struct nic_qp *qp);
/** PSNs before comp.una are acknowledged. */
void req_early_progress(struct nic_qp *qp);
/** The ACK timer has been started. */
void req_early_start(struct nic_qp *qp);
/** No answer has come by early.at. @return whether to retransmit what is in flight. */
bool req_early_again(struct nic_qp *qp);
/** Whether to set AckReq in the packet that carries this WQE. */
bool req_asks_ack(struct nic_qp *qp, const struct swqe *w, bool ends, uint32_t psns);
/** A packet that takes `psns` PSNs and ends `ends` WQEs has been built: account for it. */
void req_sent(struct nic_qp *qp, const struct swqe *w, uint32_t psns, uint32_t ends);

/* post.c: short inline SENDs of the NIC's own, on connected RC QPs */
/** Where to write the payload, up to the queue's max_inline bytes; NULL: the queue is full. Nothing is posted yet. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post a SEND of `length` bytes written to that place. `flags`: enum nic_send_flags, as resolved with sq_sig_all. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

/* source.c */
/** The QP has been connected: determine the link its packets come by. */
void source_set(struct nic_qp *qp);
/** The QP is not connected: accept packets by the port. */
void source_reset(struct nic_qp *qp);
/** A packet came by a link that the QP does not accept yet: it may be the peer's first by a new link. */
void source_look(struct nic_qp *qp, const struct packet *p);
/** Whether a packet for a connected QP came by the right link. @return why it is refused; NIC_CNT_COUNT: accepted. */
static inline enum nic_counter source_refusal(const struct nic_qp *qp, const struct packet *p)
{
	if (__builtin_expect(p->peer != qp->takes, 0))
		return p->peer ? NIC_CNT_rx_bad_source : NIC_CNT_rx_beside_link;
	if (!p->peer && qp->peer_is_local && p->udp_sport != NIC_UDP_PORT)
		return NIC_CNT_rx_local_sport;
	return NIC_CNT_COUNT;
}
/** As source_refusal(), for a datagram, which may come by any link or by the port. */
enum nic_counter source_datagram_refusal(const struct nic *nic, const struct packet *p);

/* req_run.c */
/** This WQE is filled in; call before sq.head counts it. */
void req_run_posted(struct nic_qp *qp, struct swqe *w);
/** WQEs from sq.next on that go in one packet, usually 1. 0: wait for more to join, since enough are in flight. */
uint32_t req_run(const struct nic_qp *qp);
/** Send n WQEs in one packet; the window has room for them. @return false: none was sent. */
bool req_run_send(struct nic_qp *qp, uint32_t n, struct nic_tx_frame *frame);
/** In-flight WQEs that went in the packet of the previous one. */
uint32_t req_run_riders(const struct nic_qp *qp);

/* cross.c */
void cross_init(struct nic_qp *qp, const struct nic_qp_init *init);
/** The queues are empty: nothing is enabled. */
void cross_reset(struct nic_qp *qp);
/** The send queue was flushed and continues. */
void cross_recover(struct nic_qp *qp);
/** Release what WAITs that will not run hold. May be called again. */
void cross_release(struct nic_qp *qp);
/** Validate a cross-channel request of a QP that may post it. @return 0, -EINVAL. */
int cross_check(const struct nic_qp *qp, const struct nic_send_wr *wr);
/** Reserve what a cross-channel request needs while it waits. @return 0, -ENOMEM. */
int cross_room(const struct nic_send_wr *wr);
/** Fill in the cross-channel part of the WQE and advance the counts. */
void cross_post(struct swqe *w, const struct nic_send_wr *wr);
/** Run WQE sq.next. @return false: the queue has to wait, or the WQE failed. */
bool cross_run(struct nic_qp *qp, struct swqe *w);

/* comp.c */
void comp_reset(struct nic_qp *qp);
/** A response packet for this RC QP. @return whether it answers an in-flight request. */
bool comp_rx(struct nic_qp *qp, const struct packet *p);
/** Complete the oldest WQE. */
void comp_finish(struct nic_qp *qp, enum error_id error);
/** Complete local operations that are now the oldest. */
void comp_finish_local(struct nic_qp *qp);
/** Destination of this response, if it is the whole answer to the READ `ahead` WQEs after sq.tail. @return NULL: it is
 *  not, or that READ has other than one SGE, or one that may not be written to. */
uint8_t *comp_foresee(const struct nic_qp *qp, const struct packet *p, uint32_t ahead);
/** Complete everything in the send queue with a flush error. */
void comp_flush(struct nic_qp *qp);

/* resp.c */
void resp_reset(struct nic_qp *qp);
/** A request packet for this RC or UC QP. @return whether it had the PSN expected next, and was executed. */
bool resp_rx(struct nic_qp *qp, const struct packet *p);
/** Whether a single-packet WRITE would be accepted if it came next. @param app where it would write. */
bool resp_would_take(const struct nic_qp *qp, const struct packet *p, uint8_t **app);
/** Refuse the request with this PSN, which ends the connection: NAK, completion or event, QP in error. */
void resp_fail(struct nic_qp *qp, enum error_id error, uint32_t psn);
/** Discard all queued responses, ACKs and NAKs. */
void resp_cancel(struct nic_qp *qp);
/** A queued response has been sent or is no longer needed. */
static inline void resp_resource_done(struct responder *resp, struct resp_resource *r)
{
	r->todo = false;
	resp->res_todo--;
}

/* resp_tx.c */
/** Write the next response packet to the frame, if one is due. */
bool resp_tx(struct nic_qp *qp, struct nic_tx_frame *frame);
bool resp_pending(const struct nic_qp *qp);
/** The QP is about to enter the error state: responses and the ACK for executed requests still go out, at once. */
void resp_say_last(struct nic_qp *qp);

/* resp_ack.c */
/** Queue an ACK for everything before ePSN: the peer set AckReq. */
void resp_ack(struct nic_qp *qp);
/** As resp_ack(), but AckReq was not set: the ACK may wait until the NIC is idle. */
void resp_ack_lazily(struct nic_qp *qp);
/** Queue a NAK or RNR NAK. */
void resp_nak(struct nic_qp *qp, uint8_t syndrome, uint32_t psn);
/** The delayed ACK is due now. */
void resp_ack_due(struct nic_qp *qp);

/* resp_atomic.c */
/** Bytes of memory that an atomic request operates on. */
uint32_t resp_atomic_size(const struct packet *p);
/** Execute a checked request and save the original value. @return false: access to its memory faulted. */
bool resp_atomic_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, struct resp_resource *r);
/** Open the response to an atomic and write the original value to it. */
void resp_atomic_open(const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame);

/* resp_elem.c */
/** Whether a request packet has a valid operation and datatype, and a payload of the matching length. */
bool resp_elements_fit(const struct nic_qp *qp, const struct packet *p);
/** Bytes of memory that a request on elements operates on. */
uint32_t resp_elements_size(const struct packet *p);
/** Allocate memory for the results of fetching operations, on first use. @return false: out of memory. */
bool resp_elements_room(struct nic_qp *qp);
/** Execute a checked request; if it takes a resource, save the original values for it. @param r the resource, or NULL.
 *  @return false: access to its memory faulted. */
bool resp_elements_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, const struct resp_resource *r);
/** Open the response and write the original values to it. */
void resp_elements_open(struct nic_qp *qp, const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame);

/** Whether a packet is a well-formed run of requests; a malformed run fails resp_elements_fit(), too. */
bool resp_elements_run(const struct nic_qp *qp, const struct packet *p);
/** Extract request number i of a run, as if it had come in its own packet. */
void resp_elements_member(const struct packet *run, uint32_t i, struct packet *one);

/* resp_dup.c */
/** A request with a PSN before ePSN has arrived. */
void resp_duplicate(struct nic_qp *qp, const struct packet *p);
/** Queue responses `cursor` to `end` of the resource, possibly again. */
void resp_resource_send(struct nic_qp *qp, struct resp_resource *r, uint32_t cursor, uint32_t end);

/* ud.c */
void ud_rx(struct nic_qp *qp, const struct packet *p);
/** Complete WQE sq.next unsent if it is longer than a datagram can be. @return whether it was. */
bool ud_skip(struct nic_qp *qp);
bool ud_tx(struct nic_qp *qp, struct nic_tx_frame *frame);

/** Open a packet whose fields are all set. @return where its payload_len bytes of payload go; see packet_open. */
uint8_t *qp_open(struct packet *p, struct nic_tx_frame *frame, uint32_t payload_len);
/** Finish a packet whose payload is in place: fill in the frame and count it. */
void qp_emit(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame);

#endif
