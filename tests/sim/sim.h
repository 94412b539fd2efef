/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h - the deterministic simulator: N NICs, a virtual clock, a faulty network, a random workload, and oracles that
 * watch all of it (DESIGN.md section 4). It uses the NIC through nic/include/nic.h only, and has its own frame decoder.
 *
 *   run.c      builds a world from options, runs the event loop, reports      sched.c   event queue, virtual time
 *   node.c     a NIC and its owner: transmit, timers, events                  link.c    the network and its faults
 *   memory.c   application memory: banks, slots, guard zones, shadow copy     target.c  remote ranges, their history
 *   qp.c       connecting, breaking and reusing queue pairs                   work.c, wrong.c, datagram.c  send WRs
 *   recv.c     receive WRs                                                    window.c  type 2 memory windows
 *   complete.c, deliver.c  completion oracles                                 atomics.c the history of every cell
 *   trigger.c  work triggered by counters                                     enable.c  managed queues
 *   tags.c     SRQs that match tags
 *   place.c    ATOMIC WRITE and FLUSH                                      room.c    packets that leave at once
 *   wire.c, wire_resp.c    packet oracles                                     control.c deregistration, kills, cuts
 *   clock.c    clocks that jump, drift, and keep running while their node is stopped
 *
 * A violated oracle calls sim_fail, which prints what is needed to reproduce it; the run then ends early.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "decode.h"
#include "nic.h"
#include "nic_elem.h"
#include "nic_tm.h"
#include "nic_xrc.h"
#include "options.h"
#include "rng.h"
#include "streams.h"

#define SIM_NODES    4
#define SIM_BANKS    7
#define SIM_CELLS    12
#define SIM_SEGS     4
#define SIM_CHAIN    6
#define SIM_WINDOWS  2
#define SIM_XRC_SRQS 2
#define SIM_CQS	     23
#define SIM_ROOMS    32

/* Fill bytes of memory that nothing may write. */
#define SIM_FREE_BYTE 0xa5 /* memory not handed out */
#define SIM_GONE_BYTE 0xdd /* memory whose registration has ended */

struct sim;
struct node;
struct qp;
struct cq;
struct wr;

/* ---- memory ------------------------------------------------------------------------------------------ */

enum bank_kind {
	BANK_TARGET,	   /* remote READs and WRITEs use it, and windows are bound to it; never deregistered */
	BANK_TARGET_FRAIL, /* as BANK_TARGET, but deregistered now and then */
	BANK_LOCAL,	   /* send and receive buffers */
	BANK_LOCAL_FRAIL,
	BANK_STATIC,  /* read-only source of READs */
	BANK_CELLS,   /* the words that atomics work on */
	BANK_FOREIGN, /* in another protection domain */
};

/** A registered region with guard bytes around it, a shadow copy, and a mask of the bytes the NIC may write now. */
struct bank {
	struct node *node;
	enum bank_kind kind;
	uint8_t *all, *shadow, *mask; /* with SIM_EDGE bytes before and after the registered range */
	uint8_t *mem;		      /* first registered byte */
	uint8_t *used;		      /* for each granule: whether it belongs to a slot */
	uint32_t size, cursor;
	uint32_t gen; /* changes with each registration and deregistration; a slot with another value is invalid */
	struct nic_mr *mr;
	bool registered;
	uint64_t iova;
	uint32_t access;
};

#define SIM_EDGE 256

/** A range handed out by bank_alloc. bank is NULL if the range is empty. */
struct slot {
	struct bank *bank;
	uint32_t off, len, gen;
};

/** A remote range written by one requester: every value its bytes may hold, in the order written. */
struct target {
	struct slot slot;
	uint64_t uid[SIM_CHAIN]; /* IDs of the patterns written, oldest first */
	unsigned writes, refs;	 /* refs: outstanding WRs that use the target */
	bool failed;		 /* a WRITE failed: contents uncertain until the QP is reset */
	bool retired;		 /* no new WR may use the target */
	struct window *window;
	uint32_t rkey;
	struct target *next; /* in qp->targets */
};

/* ---- work requests ----------------------------------------------------------------------------------- */

/* Of a message to an SRQ that matches tags: values of the header's opcode. */
enum message_kind { MESSAGE_NO_TAG, MESSAGE_RENDEZVOUS, MESSAGE_FIN, MESSAGE_EAGER };

/** A send WR, from post to the end of the run. */
struct wr {
	uint32_t id, index; /* id: index in sim->wrs; index: position in qp->sq */
	struct qp *qp;
	uint32_t opcode, flags, len, ex;
	uint64_t uid; /* the WR's payload is pattern(uid) */
	struct slot seg[SIM_SEGS];
	unsigned segs;
	struct target *target;
	unsigned chain_from, chain_to; /* READ: first and last element of target->uid that may be read */
	uint64_t static_off;	       /* READ of the static bank: offset in the bank */
	struct node *remote;
	uint64_t remote_addr;
	uint32_t rkey;
	unsigned cell;
	uint64_t compare_add, swap;
	struct nic_atomic masked; /* operands of an extended atomic */
	unsigned cell_byte;	  /* offset in the cell at which an atomic begins */
	struct {
		uint8_t op, datatype;
		unsigned count, size;
		uint8_t data[2 * NIC_ATOMIC_SIZE_MAX]; /* operands, followed by compare values */
	} elem;					       /* element operations: wr->len bytes from remote_addr on */
	unsigned executed;			       /* atomics: how often the WR has changed memory */
	uint64_t exec_before[NIC_ATOMIC_WORDS];	       /* values before execution */
	uint64_t first;				       /* index of the WR's first packet among all packets of the QP */
	uint32_t psns;
	uint32_t must; /* bit set of statuses, one of which is required; 0: success */
	uint32_t may;  /* statuses allowed in place of success */
	bool signaled, message, done, delivered, solicited;
	bool waits; /* the opcode is NOP, but a WAIT is posted */
	uint32_t status;
	uint64_t posted_ns, done_ns;
	struct qp *ud_to;
	struct nic_ah *ah;
	unsigned deliveries;
	bool undeliverable; /* UD: sent with a wrong Q_Key */
	struct window *window;
	unsigned xrc; /* XRC: the SRQ of the peer's node that takes the request, and the number by which it is named */
	uint32_t srqn;
	struct {
		uint32_t off, len; /* the range, from the beginning of the target on */
		uint8_t type, level;
	} flush;
	struct {
		enum message_kind kind;
		uint64_t tag;
		uint32_t off, len; /* rendezvous: the data, in the static bank */
		bool matched, read, finished;
	} tm;		    /* messages to an SRQ that matches tags */
	unsigned persisted; /* FLUSH: how often the target's NIC wrote its range to the medium */
};

/** A receive WR. */
struct rwr {
	uint32_t id;
	struct qp *qp; /* NULL on an SRQ */
	struct srq *srq;
	struct slot seg[SIM_SEGS];
	unsigned segs;
	uint32_t cap;
	uint32_t must, may; /* as in struct wr */
	bool done;
};

struct srq {
	struct node *node;
	struct nic_srq *srq;
	struct cq *cq; /* XRC and tags: its completions; NULL: they go to the CQ of the QP */
	uint32_t depth, posted, cap;
	bool scheduled;
	bool lossy; /* a CQ that overflowed has lost completions of its receives: `posted` may be too high */
	struct rng rng;
};

/** A type 2 memory window on the target side, used by qp->peer. */
struct window {
	enum { WINDOW_FREE, WINDOW_BINDING, WINDOW_BOUND, WINDOW_CLOSING, WINDOW_INVALIDATING } state;
	struct nic_mw *mw;
	struct target *target;
	uint32_t rkey, stale_rkey;
	uint8_t key;
};

/* ---- queue pairs ------------------------------------------------------------------------------------- */

/* ANSWERED: a response to this PSN reached the requester; REPLIED: the responder sent one. */
enum psn_flags { PSN_SENT = 1, PSN_DELIVERED = 2, PSN_ANSWERED = 4, PSN_REPLIED = 8 };

/** One PSN of a requester and the packet sent with it. */
struct psn {
	struct wr *wr;
	uint64_t hash; /* hash of the packet's first transmission */
	uint8_t flags;
};

/** State of one direction as seen on the wire: requests of a QP and the responses to them. */
struct wire {
	struct psn *psn; /* indexed by running number */
	uint64_t count, room;
	uint64_t sent;		/* one past the last PSN sent */
	uint64_t prefix;	/* all PSNs before this were delivered to the responder */
	uint64_t acked;		/* PSNs before this are acknowledged by responses that reached the requester */
	uint64_t ack_out;	/* PSNs before this are acknowledged by responses that the responder sent */
	uint64_t ackreq_in;	/* one past the last delivered PSN with AckReq */
	uint64_t answered;	/* one past the highest PSN answered by any response */
	uint64_t replied;	/* one past the highest READ or atomic PSN that was replied to */
	uint64_t ack_scan;	/* READs and atomics before this have been replied to */
	uint64_t nak;		/* the PSN that the last sequence NAK asks for */
	bool nak_open;		/* no packet with PSN `nak` has arrived since that NAK */
	uint32_t rnr_naks_sent; /* RNR NAKs that the responder sent */
	uint32_t rnr_naks;	/* RNR NAKs that have reached the requester */
	uint64_t rnr_until_ns;
	uint64_t counted;  /* PSNs before this are counted in messages */
	uint32_t messages; /* request messages that end before `counted` */
};

enum qp_life { QP_UP, QP_BROKEN, QP_DEAD };

struct qp {
	struct sim *sim;
	struct node *node;
	unsigned index;
	enum nic_qp_type type;
	struct nic_qp *qp;
	struct nic_qp_cap cap;
	uint32_t qpn, sq_psn;
	enum {
		TAGS_NONE,
		TAGS_SENDER,
		TAGS_RECEIVER
	} tags; /* RC; the receiver is on its node's SRQ that matches tags */
	struct qp *peer;
	struct cq *scq, *rcq;
	struct srq *srq;
	uint32_t access, qkey;
	unsigned incarnation;
	enum qp_life life;

	struct wr **sq; /* send WRs since the last reset */
	uint32_t posted, done, sq_room, unsignaled_run;
	struct rwr **rq;
	uint32_t rposted, rdone, rq_room;
	uint32_t messages;  /* messages posted by this QP */
	uint32_t scan;	    /* deliver.c: the peer's SQ was matched up to here */
	uint32_t in_flight; /* frames on the wire towards this QP */

	bool send_failed, recv_failed;	/* an error completion occurred */
	const struct srq *failed_srq;	/* XRC target: the SRQ of the receive that failed */
	bool err_expected;		/* this QP may legitimately go to ERR */
	bool flush_due;			/* the application moved the QP to ERR */
	bool trouble;			/* a request of the peer, or a receive of this QP, may put this QP into ERR */
	uint32_t may_all;		/* statuses allowed for any WR of this incarnation */
	uint32_t reqs_access, reqs_err; /* async events seen */
	struct wire wire;
	/* [0]: send queue, [1]: receive queue */
	bool managed[2], enable_scheduled[2];
	uint32_t enabled[2]; /* WRs enabled since the last reset, or to be enabled by a posted request */
	struct target *targets;
	struct window windows[SIM_WINDOWS];
	unsigned break_step;
	bool work_scheduled, recv_scheduled, settled;
	bool emptied;		/* reset with WRs outstanding: they are dropped and must not complete */
	bool draining, drained; /* in SQD; SQ_DRAINED was reported */
	struct rng rng, recv_rng, pair_rng;
};

/* ---- nodes and network ------------------------------------------------------------------------------- */

struct cq {
	struct node *node;
	struct nic_cq *cq;
	struct rng rng;
	bool armed, armed_solicited, dead, poll_scheduled;
	bool one_by_one;		   /* the notes about its entries are read */
	uint32_t since_arm;		   /* entries that were in the CQ when it was armed, and are still there */
	uint32_t interval_ns, empty_polls; /* polling slows down while the CQ is empty */
};

/** Every value of an atomic cell so far. */
struct history {
	struct {
		uint64_t at_ns, at, value; /* at: running number of the change, over all cells */
	} * entry;
	unsigned count, room;
};

/** A node's own clock. */
struct node_clock {
	uint64_t base_ns, base_local_ns; /* a global time, and the local time then */
	uint64_t rate;			 /* local ns per 1000 global ns, since base_ns */
	uint64_t told_ns, told_local_ns; /* when the node last read its clock, and the value */
	uint64_t stopped_until_ns;
	unsigned jumps, stops;
};

/** Packets that the NIC has sent at once during the present call. */
struct rooms {
	struct rng rng;
	bool given; /* the NIC may write to `room`, and send what it has written */
	uint8_t room[NIC_ROOM_LEN + 16];
	unsigned n;
	struct nic_tx_frame packet[SIM_ROOMS];
	uint8_t bytes[SIM_ROOMS][NIC_ROOM_LEN];
};

struct node {
	struct sim *sim;
	struct node_clock clock;
	unsigned index;
	struct nic *nic;
	struct nic_gid gid;
	struct nic_pd *pd[2];
	struct bank bank[SIM_BANKS];
	struct history cell[SIM_CELLS];
	struct cq cq[SIM_CQS];
	unsigned cqs;
	struct srq srq;
	bool has_srq;
	struct nic_xrcd *xrcd; /* NULL: no XRC target yet */
	struct srq xrc[SIM_XRC_SRQS];
	struct tags *tags;     /* NULL: no QP matches tags */
	struct nic_cq *ticks;  /* the CQ that WAITs count */
	struct nic_qp *ticker; /* in ERR, so that each WR posted to it adds a CQE */
	struct nic_qp *runner; /* enables WRs of managed queues */
	uint32_t path;	       /* a second path; 0: none */
	bool giving;	       /* nic_tx or nic_path_tx is running */
	struct rooms rooms;
	bool tx_scheduled;
	uint64_t tx_free_ns, timer_ns;
	struct rng rng, nic_rng;
	unsigned overflows;
	struct triggers *triggers; /* NULL: none in this run */
	struct qp *arriving;	   /* the QP whose packet the NIC is handed now; NULL: none */
	uint32_t arriving_psn;
	bool amid; /* a call into the NIC is in progress */
};

struct frame {
	struct link *link;
	uint32_t len;
	bool corrupt; /* bits that the ICRC covers were flipped */
	bool touched; /* any bits were flipped */
	bool copy;    /* a duplicate made by the network */
	bool forged;  /* made by an attacker */
	struct qp *to;
	unsigned incarnation;
	struct frame *next_free;
	uint8_t data[NIC_FRAME_MAX + 16];
};

struct link {
	struct node *from, *to;
	uint64_t busy_ns, last_ns, cut_until_ns;
	struct rng delay, loss, dup, reorder, flip, forge;
};

/* ---- the run ----------------------------------------------------------------------------------------- */

typedef void (*event_fn)(struct sim *sim, void *arg);

struct event {
	uint64_t at_ns, seq;
	event_fn fn;
	void *arg;
};

struct sim_stats {
	uint64_t flushes, matches, rendezvous, frames, lost, doubled, flipped, reordered, completions, errors, flushed,
		resets, retransmits, ud_delivered, uc_delivered, deliveries, atomics, windows, deregs, overflows,
		triggers, events, forged, clock_jumps, stops, quick;
};

struct sim {
	struct sim_opts opts;
	FILE *out;
	bool verbose, failed;
	char oracle[48];
	uint64_t now_ns;
	struct event *heap;
	unsigned heap_len, heap_room;
	uint64_t seq;

	struct node node[SIM_NODES];
	unsigned nodes;
	struct link link[SIM_NODES][SIM_NODES];
	struct qp *qp;
	unsigned qps;
	struct wr **wrs;
	uint32_t wr_count, wr_room;
	struct rwr **rwrs;
	uint32_t rwr_count, rwr_room;
	uint32_t ops_left;
	uint64_t uid;

	bool quiet;	     /* faults have stopped */
	bool ending;	     /* no more work is posted */
	bool finished;	     /* the run has ended */
	bool clean, patient; /* from the options: no network faults; timers above the RTT */
	uint64_t end_ns;     /* deadline for everything to finish */
	uint64_t hash;
	struct frame *free_frames;
	void *blocks; /* memory allocated by this run */
	struct rng control, clocks;
	uint64_t stop_end_ns; /* a node is stopped until then */
	struct sim_stats stats;
};

/* run.c */
/** Run one seed. @return true if no oracle was violated. `hash` receives the trace hash. */
bool sim_run(const struct sim_opts *opts, bool verbose, FILE *out, uint64_t *hash, struct sim_stats *stats);
/** Report a violated oracle. Only the first counts. */
void sim_fail(struct sim *sim, const char *oracle, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_log(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *sim_alloc(struct sim *sim, size_t len); /* zeroed; freed with the run */
void sim_hash(struct sim *sim, const void *data, size_t len);

/* sched.c */
void sched_at(struct sim *sim, uint64_t at_ns, event_fn fn, void *arg);
bool sched_next(struct sim *sim, struct event *out);

/* link.c */
void link_init(struct sim *sim);
void link_send(struct link *link, const uint8_t *data, uint32_t len, struct qp *to);
/** Print each packet that is sent, as a line of hexadecimal digits, before anything happens to it. */
void link_packets_to(FILE *out);

/* node.c */
bool node_init(struct sim *sim, unsigned index);
/** Event: add an entry to node->ticks. */
void node_tick(struct sim *sim, void *node);
void node_destroy(struct node *node);
/** To be called after every call into the NIC: fetches events, schedules transmission and timers, runs cheap
 *  oracles. */
void node_kick(struct node *node);
/** Put a frame on the network. */
void node_transmit(struct node *node, struct nic_tx_frame *f);

/* room.c */
/** As nic_config.tx_room and nic_config.tx_now; ctx is the node. */
uint8_t *room_give(void *ctx, uint32_t path, uint64_t *now_ns);
void room_take(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns);
/** Put the packets that were sent at once on the network. Call after calls into the NIC. */
void rooms_send(struct node *node);
void node_rx(struct sim *sim, void *arg);
struct qp *node_qp(struct node *node, uint32_t qpn);
void cq_poll_soon(struct cq *cq, uint64_t delay_ns);
void cq_drain(struct cq *cq);

/* memory.c */
bool bank_init(struct bank *bank, struct node *node, enum bank_kind kind);
void bank_register(struct bank *bank);
void bank_deregister(struct bank *bank);
void bank_free(struct bank *bank);
bool bank_alloc(struct bank *bank, uint32_t len, struct rng *rng, struct slot *out);
void slot_free(struct slot *slot);
bool slots_collect(const struct slot *seg, unsigned segs, uint8_t *out, uint32_t len);
bool slot_gone(const struct slot *slot);
/** The application writes a byte into a slot. */
void slot_put(const struct slot *slot, uint32_t off, uint8_t byte);
uint8_t *slot_mem(const struct slot *slot);
uint64_t slot_iova(const struct slot *slot);
void slot_grant(const struct slot *slot);
void slot_fill(const struct slot *slot, uint64_t uid, uint32_t offset);
uint32_t bank_lkey(const struct bank *bank);
uint32_t bank_rkey(const struct bank *bank);
void pattern_fill(uint64_t uid, uint32_t offset, uint8_t *buf, uint32_t len);
bool pattern_check(uint64_t uid, uint32_t offset, const uint8_t *buf, uint32_t len);
uint8_t pattern_byte(uint64_t uid, uint32_t offset);
void memory_check(struct sim *sim);

/* target.c */
struct target *target_new(struct qp *qp, struct bank *bank, uint32_t len);
void target_written(const struct wr *wr);
void target_unref(struct wr *wr, bool success);
void target_release_all(struct qp *qp, bool keep_windows);
bool target_holds(const struct target *t, const uint8_t *data, unsigned from, unsigned to);

/* qp.c */
bool qp_is_reliable(const struct qp *qp);
bool qps_init(struct sim *sim);
void qp_break(struct qp *qp, const char *why);
bool qp_settled(const struct qp *qp);
void qp_to_err(struct qp *qp);
void qp_empty(struct qp *qp);
void qp_drain(struct qp *qp);
void qp_drained(struct qp *qp);

/* work.c, wrong.c, datagram.c */
void work_start(struct sim *sim);
struct wr *wr_new(struct qp *qp, uint32_t opcode);
bool wr_post(struct wr *wr);
bool wr_gather(struct wr *wr, uint32_t len, bool fill);
void wr_release(struct wr *wr);
uint32_t work_length(struct qp *qp);
bool wrong_plant(struct wr *wr);
/** Post a WR that writes to all of the target. @return false: there is no memory for it now, or an oracle failed. */
bool wr_write(struct wr *wr, struct target *t);
bool datagram_post(struct qp *qp);
void datagram_deliver(struct qp *qp, struct rwr *r, const struct nic_wc *wc);
void work_close(struct qp *qp);
/** Post a WR, if any are left to post. @return false: the queue is full. */
bool work_triggered(struct qp *qp);
void work_kick(struct qp *qp, uint64_t delay_ns);

/* enable.c. `recv` is 0 for a send queue, 1 for a receive queue. */
bool enable_init(struct node *node);
/** Schedule the enabling of the WRs posted so far. */
void enable_later(struct qp *qp, unsigned recv);
/** The WR at `index` has started or was consumed: check that it had been enabled. */
void enable_check(struct qp *qp, unsigned recv, uint32_t index);

/* trigger.c */
void triggers_start(struct sim *sim);
void triggers_completed(struct node *node, uint32_t qpn, bool success);
/** Run the final oracles, if nothing has failed, and release the counters. */
void triggers_end(struct node *node);

/* tags.c */
/** @return the node's SRQ that matches tags, created with this CQ if need be; NULL: the NIC refused it. */
struct srq *tags_srq(struct node *node, struct cq *cq);
/** Make a message for the peer's SRQ: choose its kind and tag, and write its header over its payload. */
void tags_stamp(struct wr *wr);
/** @return whether these are the bytes of the WR's payload from `off` on. */
bool tags_payload_is(const struct wr *wr, uint32_t off, const uint8_t *data, uint32_t len);
/** @return false: the completion is not of a tagged buffer, nor of an operation on one. */
bool tags_complete(struct cq *cq, const struct nic_wc *wc);
/** An untagged buffer got a message. */
void tags_untagged(struct qp *qp, struct wr *wr);
/** A receive of the QP has failed: perhaps an unexpected message broke off. */
void tags_broken(struct qp *qp);
/** The sender of rendezvous messages got a message. */
void tags_fin(struct qp *qp, const struct rwr *r, const struct nic_wc *wc);
/** @return whether a message of the QP, a sender, has arrived and is not complete at its receiver, or a rendezvous has
 * not ended. */
bool tags_waits(const struct qp *qp);
/** Break the pairs whose receivers have used up the retries of their rendezvous. */
void tags_look(struct sim *sim);

/* place.c */
/** Post an ATOMIC WRITE or a FLUSH. */
bool place_post(struct qp *qp);
/** The NIC of the node writes a range to the medium behind it. */
bool place_persist(void *node, void *addr, uint64_t len);
/** A FLUSH has completed with success. */
void place_flushed(const struct wr *wr);

/* window.c */
bool window_work(struct qp *qp);
void window_completed(struct wr *wr, bool success);
void window_invalidated(struct qp *owner, uint32_t rkey);
void windows_reset(struct qp *qp);
bool window_owner(const struct qp *qp);
struct window *window_usable(struct qp *qp);

/* recv.c */
void recv_start(struct sim *sim);
void recv_kick(struct qp *qp, uint64_t delay_ns);
struct rwr *recv_of(struct sim *sim, const struct nic_wc *wc);
void recv_release(struct rwr *r);
/** Fill in an SRQ whose receives have this random stream, and schedule the first of them. */
void srq_begin(struct srq *srq, struct node *node, unsigned stream);
void srq_kick(struct srq *srq, uint64_t delay_ns);

/* complete.c, deliver.c */
/** @return the next message in order that the QP has not received, or on XRC the next for the SRQ of `r`; NULL: there
 * is none. */
struct wr *deliver_next(const struct qp *qp, const struct rwr *r);
/** @return whether every packet of the message has reached the receiver and, on RC, every earlier packet as well. */
bool deliver_arrived(const struct qp *qp, const struct wr *wr);
bool complete_tail(struct qp *qp);
void complete_none(struct qp *qp);
void complete(struct cq *cq, const struct nic_wc *wc);
void deliver_cq(struct cq *cq, const struct nic_wc *wc);
void delivered_check(struct qp *qp);
/** @return whether the CQE is of a kind that raises a solicited-only notification. */
bool deliver_is_solicited(struct cq *cq, const struct nic_wc *wc);

/* atomics.c */
void atomics_watch(struct node *node);
uint64_t atomics_value(const struct node *node, unsigned cell);
void atomics_completed(struct wr *wr, bool success);

/* wire.c, wire_resp.c */
void wire_sent(struct node *from, const struct decoded *d, const uint8_t *frame, struct qp *to);
void wire_received(const struct decoded *d, struct qp *qp);
void wire_post(struct wr *wr);
void wire_reset(struct qp *qp);
void wire_end(struct qp *qp);
void wire_response_sent(struct qp *requester, const struct decoded *d);
uint32_t sim_mtu(const struct sim *sim);
bool wr_is_masked_atomic(const struct wr *wr);
bool wr_is_elements(const struct wr *wr);
uint32_t wr_elements_data(const struct wr *wr);
bool wr_is_read_atomic(const struct wr *wr);
bool wr_is_placing(const struct wr *wr);
bool wr_is_write(const struct wr *wr);
void wire_response_received(struct qp *requester, const struct decoded *d);
uint64_t wire_number(const struct qp *qp, uint32_t psn);

/* clock.c */
void clocks_start(struct sim *sim);
/** The node's clock, read in order to pass it to its NIC. */
uint64_t node_time(struct node *node);
/** Global time at which the node's clock reaches `due_local_ns`; UINT64_MAX: never. */
uint64_t node_due(const struct node *node, uint64_t due_local_ns);
/** @return whether the node is stopped now. If it is, `fn` (unless NULL) is scheduled for the time when the node
 * resumes. */
bool node_is_stopped(struct node *node, event_fn fn, void *arg);
/** @return a polling interval: `ns`, or longer while a node is stopped, because stops are very long. */
uint64_t sim_pause(const struct sim *sim, uint64_t ns);
/** Whether clock faults may have used up a retry of this QP. */
bool clock_excuses(const struct qp *qp);

/* control.c */
void control_start(struct sim *sim);
void control_begin_end(struct sim *sim);

#define SIM_VANISHED 255 /* status of a WR outstanding when its QP was reset */
#define BIT(status)  (1u << (status))

#endif
