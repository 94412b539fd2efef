/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm.h - reliable datagram endpoints from within; see nic_rdm.h for what they do and rdm.md for how. Private to nic/.
 *
 * rdm.c has the endpoint, its peers and what the rest of the NIC calls. rdm_conn.c connects peers, rdm_stranger.c lets in who
 * calls, rdm_cm.c connects those that are asked for. rdm_request.c takes requests over, rdm_ops.c has memory for them, rdm_tx.c
 * takes them to the queue pairs, rdm_rq.c has receives, rdm_rx.c takes messages to them, rdm_held.c has memory for those that wait
 * for one, rdm_pull.c reads long ones, rdm_tagged.c operates on receives. Requests and completions meet here: a queue pair
 * completes into rdm_tx.c at any time, which only notes it; rdm_settle, when the NIC is done with a packet or a
 * call, acts on it.
 */
#ifndef NIC_RDM_H
#define NIC_RDM_H

#include "cq.h"
#include "mem.h"
#include "nic_rdm.h"
#include "qp.h"
#include "rdm_nic.h"
#include "rdm_wire.h"
#include "tag.h"

#define RDM_PEER_BUCKETS 1024u
#define RDM_ANSWERS	 16384u /* that an endpoint owes, at most; half of them to one peer */
#define RDM_CHUNK_BYTES                                                                                                \
	65536u		  /* in which memory for messages without a receive is had: the least that max_unexpected is */
#define RDM_SQ_FIRST 4u	  /* requests that a QP can hold at first ... */
#define RDM_SQ_MOST  128u /* ... and when there was more to do */
#define RDM_SGES     (NIC_RDM_IOV_MAX + 1)
#define RDM_INLINE   (RDM_HEADER_LEN + NIC_RDM_INJECT_MAX)
#define RDM_SAID_MAX (RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX) /* no less than RDM_INLINE, which a datagram may be */

enum rdm_work {
	RDM_W_SEND,
	RDM_W_OFFER, /* a SEND that the peer reads */
	RDM_W_RMA,
	RDM_W_ATOMIC,
	RDM_W_PULL,  /* of the receiver: reading what was offered */
	RDM_W_TAKEN, /* of the receiver: saying that a message is where it belongs */
	RDM_W_DATAGRAM,
	RDM_W_OPERATE, /* an ATOMIC on a receive of the peer */
	RDM_W_RESULT,  /* of the receiver: what came of it */
};

/** Where in a list of segments. */
struct rdm_cursor {
	uint32_t segment;
	uint64_t offset;
};

/** A request, or what the endpoint owes a peer for one of his. */
struct rdm_op {
	struct list node; /* free, or peer->queue until all is posted, or peer->waiting for TAKEN */
	struct list due;  /* ep->due: something has completed */
	struct nic_rdm_peer *peer;
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t work, kind; /* enum rdm_work, enum nic_rdm_kind */
	bool begun;	    /* something of it has been posted */
	bool all_posted;
	bool counted;		    /* in peer->posted */
	bool taken;		    /* the peer has said so */
	bool told;		    /* PULL: the receive is done */
	uint16_t index, generation; /* its name */
	uint32_t out, data_out;	    /* work requests under way; those of them that move data */
	uint32_t status, vendor_err;
	uint64_t length, tag, data;
	uint32_t id; /* TAKEN: the peer's */
	uint32_t n_iov, n_remote;
	struct rdm_cursor at_iov, at_remote;
	struct { /* ATOMIC; iov has the operands */
		uint32_t n_compare, n_result;
		struct rdm_cursor at_compare, at_result;
		uint8_t op, datatype;
	} atomic;
	struct rdm_held *held; /* OPERATE, RESULT: what is sent */
	uint32_t data_len;     /* so many bytes */

	/* From here on nothing is cleared when an op is taken: what is used is written before. */
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
	union {
		struct nic_iov compare[NIC_RDM_IOV_MAX]; /* ATOMIC */
		struct nic_mr *mr[NIC_RDM_IOV_MAX];	 /* OFFER: what the peer may read meanwhile; NULL at first */
		struct rdm_recv *recv;			 /* PULL */
	};
	union {
		struct nic_iov result[NIC_RDM_IOV_MAX]; /* ATOMIC */
		struct nic_rdm_done done;		/* PULL: what to say */
	};
	uint8_t header[RDM_PREFIX_MAX];
	uint8_t bytes[2 * NIC_RDM_INJECT_MAX]; /* INJECT: the data, and compare values */
};

/** A posted receive. */
struct rdm_recv {
	struct tag_recv match; /* its node, when free: on rq->free_recvs */
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint32_t n_iov;
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	uint64_t length, used; /* bytes; MULTI: those that messages have */
	uint64_t min_free;
	uint32_t busy; /* messages on their way into it */
	bool posted;   /* it waits for messages */
	bool full;     /* MULTI: takes no more */
	bool canceled; /* to be told when what is on its way into it has ended */
};

/** A message that has come, or is coming, without a receive for it. */
struct rdm_held {
	struct rdm_chunk *chunk;
	struct list pool;	  /* when free */
	struct tag_message match; /* `all`, when claimed: on rq->claimed */
	struct nic_rdm *ep;
	struct nic_rdm_peer *peer; /* NULL: of a datagram from somebody unknown */
	struct rdm_header header;
	struct rdm_recv *recv; /* that has been posted for it while it was coming */
	uint64_t base, room;   /* as in struct rdm_arrival */
	const void *claimed_by;
	bool claimed, complete, discard;
	uint8_t data[];
};

/** The message that a peer's QP is amid. */
struct rdm_arrival {
	bool active;
	struct rdm_header header;
	struct rdm_recv *recv; /* or */
	struct rdm_held *held;
	uint64_t base, room; /* in recv: where it begins, and bytes that have room */
	uint64_t got;
	uint32_t status;
};

enum rdm_peer_state {
	RDM_IDLE,
	RDM_CALLING, /* its QP has been offered, or there is no memory for one yet */
	RDM_UP,
};

struct nic_rdm_peer {
	struct nic_rdm *ep;
	struct list hash; /* of ep->peers */
	struct list node; /* on ep->calling while it is called */
	struct list wake; /* on ep->wake: rdm_wake */
	struct nic_rdm_addr addr;
	uint64_t user;
	enum rdm_peer_state state;
	bool failed; /* the QP is in error */
	bool left;   /* it has said BYE: the connection ends when nothing is under way on it */
	bool told;   /* we have */
	struct nic_qp *qp;
	uint64_t incarnation;		 /* 0: not known */
	uint32_t attempt, heard_attempt; /* ours, its */
	uint32_t met, proof;		 /* incarnations that were known at its address; what it wants to hear of us */
	uint32_t psn;
	uint64_t call_ns, wait_ns; /* when to call again, how long that was, ... */
	uint64_t give_up_ns;	   /* ... until when; left: when to look */
	uint32_t reads_out;
	uint32_t posted;       /* requests that have been posted, and have not ended */
	uint32_t owed;	       /* answers, of the endpoint's */
	bool to_call;	       /* there were some when the QP failed */
	bool stranger;	       /* it has called, and the application does not know of it ... */
	struct list strangers; /* ... on ep->strangers */
	struct list watch;     /* on ep->watched while it may go without our noticing ... */
	uint64_t probe_ns;     /* ... and when to look */
	struct list queue, waiting;
	struct rdm_arrival arrival;
};

/** Memory of messages without a receive: those of one size. */
struct rdm_pool {
	struct list free, chunks;
	uint32_t size;
};

/** Posted receives, and messages without one. */
struct nic_rdm_rq {
	struct nic *nic;
	struct list node; /* on nic->rdm_rqs, if shared */
	bool shared;	  /* or one endpoint's own */
	uint32_t users;	  /* endpoints, if shared */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	void *ctx;
	struct tag_unit messages, tagged;
	struct list claimed;
	struct rdm_recv *recvs;
	struct list free_recvs;
	uint32_t recvs_touched, rx_left;
	struct rdm_pool small, big;
	uint64_t held_bytes, max_unexpected;
};

/** What an application has to say to another one about a connection. */
struct rdm_cm_data {
	uint32_t len;
	uint8_t bytes[NIC_RDM_CM_DATA_MAX];
};

enum rdm_cm_state {
	RDM_CM_NEW,
	RDM_CM_ASKS,	 /* and waits for the answer */
	RDM_CM_ACCEPTS,	 /* and waits for who has asked */
	RDM_CM_ANSWERED, /* connects to who has accepted */
	RDM_CM_OPEN,
	RDM_CM_LEFT, /* the peer has said BYE; what it has answered may still be on its way */
	RDM_CM_CLOSED,
};

/** Of an endpoint that talks to one peer. */
struct rdm_cm {
	enum rdm_cm_state state;
	struct nic_rdm_addr to;	   /* where is asked */
	uint64_t incarnation;	   /* ACCEPTS: of who has asked */
	uint32_t attempt, proof;   /* ASKS: names what we say; what is wanted to be heard there */
	struct nic_rdm_peer *peer; /* ACCEPTS and later */
	struct rdm_cm_data said, heard;
	uint64_t call_ns, wait_ns, give_up_ns;
};

/** Somebody who has asked here. */
struct rdm_request {
	struct list node; /* of nic_rdm.requests, the oldest first */
	struct nic_rdm_addr from;
	uint64_t incarnation;
	uint32_t attempt, number;
	struct nic_rdm *ep; /* accepted for this one */
	bool refused;
	struct rdm_cm_data said;
};

struct nic_rdm {
	struct nic *nic;
	struct list node; /* on nic->rdms */
	struct nic_rdm_init cfg;
	struct nic_cq *cq;
	struct nic_qp *contact; /* UD, of the port */
	struct nic_mr *all;	/* all memory of the process, for local use */
	uint64_t incarnation;
	struct list peers[RDM_PEER_BUCKETS];
	struct list calling, watched, wake, due, fading;
	struct nic_rdm_rq *rq;
	bool leaving;	       /* a queue that others use */
	bool going;	       /* nic_rdm_leave: it begins nothing, and lets nobody in */
	struct list strangers; /* peers that have called, the longest known first */
	uint32_t n_strangers;
	uint64_t secret[2]; /* that challenges follow from */
	uint32_t attempts;  /* that there have been, from a random number on */
	struct rdm_op **op_blocks;
	uint32_t n_ops; /* in blocks */
	struct list free_ops;
	uint32_t tx_left, answers_left;
	struct rdm_pool asked; /* operands of our own operations on receives */
	struct rdm_cm cm;
	struct list requests;
	uint32_t n_requests, request_number;
	/* Of the message that rdm_takes was asked about last: its header, and how long that is with its segments; 0: it makes no sense.
	 * Others may write to the packet meanwhile: it is read once. */
	struct rdm_header heard;
	uint32_t heard_prefix;
};

/* rdm.c */
/** Tell the endpoint's owner. */
static inline void rdm_tell(struct nic_rdm *ep, const struct nic_rdm_done *done)
{
	ep->nic->completions++;
	ep->cfg.done(ep->cfg.ctx, done);
}
/** The peer's message wants an answer; rdm_may_owe said yes. */
static inline void rdm_owe(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left--;
	peer->owed++;
}
/** It has had it, or will not. */
static inline void rdm_owe_no_more(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left++;
	peer->owed--;
}
/** rdm_settle is to be called. */
static inline void rdm_note(struct nic_rdm *ep)
{
	ep->nic->rdm_due = true;
}
/** The peer's queue may go on, or its QP has failed. */
static inline void rdm_wake(struct nic_rdm_peer *peer)
{
	if (list_empty(&peer->wake))
		list_append(&peer->ep->wake, &peer->wake);
	rdm_note(peer->ep);
}

/** As nic_rdm_peer_find, for our own use: the application learns nothing of it. */
struct nic_rdm_peer *rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

/* For struct qp_owner. */
extern const struct qp_owner rdm_owner;
bool rdm_takes(const struct nic_qp *qp, const struct packet *p);
enum error_id rdm_arrive(struct nic_qp *qp, const struct packet *p);
bool rdm_offered(const struct swqe *w, struct nic_piece *piece);
uint8_t *rdm_foresee(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);
void rdm_call_rx(struct nic_qp *qp, const struct packet *p);

/* rdm_conn.c */
/** How to reach an address from the endpoint's own. @return false: that is no address of the device any more. */
bool rdm_av_to(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, struct nic_av *av);
/** Before a request to the peer is taken: have what it needs to be connected. @return 0, -ENOMEM. */
int rdm_admit(struct nic_rdm_peer *peer);
/** Connect the peer, unless that is under way. */
void rdm_connect(struct nic_rdm_peer *peer);
/** The connection is no more, or was never made: what was under way fails. */
void rdm_disconnect(struct nic_rdm_peer *peer, uint32_t status);
/** A peer that the application does not know of, and that has sent nothing, is no more. */
void rdm_peer_forget(struct nic_rdm_peer *peer);
/** To one whose call we do not take: what to say so that we do. `peer` is NULL for one that is not known. */
void rdm_ask_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c,
		 const struct nic_rdm_peer *peer);
/** To one who asks where requests are not taken. */
void rdm_refuse(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** Call again, or give up; late_ns of the time since the last look do not count. @return when to come back. */
uint64_t rdm_calls_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns);
/** We wait for something that only the peer can do. */
void rdm_watch(struct nic_rdm_peer *peer);
/** See whether those that we wait for are there. @return when to come back. */
uint64_t rdm_watches_due(struct nic_rdm *ep, uint64_t now_ns);
/** Destroy QPs that have said their last. */
void rdm_fade(struct nic_rdm *ep, bool all);

/** Say something to an address, with data behind it unless that is NULL. What does not go is as good as lost. */
void rdm_say(struct nic_rdm *ep, const struct nic_rdm_addr *to, struct rdm_call *c, const struct rdm_cm_data *data);

/* rdm_stranger.c */
/** SipHash-2-4. */
uint64_t rdm_keyed_hash(const uint64_t key[2], const uint8_t *data, uint32_t len);
/** What who calls from this address is to say, after so many have been met there. */
uint32_t rdm_challenge(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, uint32_t met);
/** A peer for who calls from this address, and has said so. @return NULL: no memory, or no address that a peer can have. */
struct nic_rdm_peer *rdm_stranger_new(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** The application has asked for it, or hears of it: it stays, for as long as the endpoint does. */
void rdm_stranger_known(struct nic_rdm_peer *peer);
/** The number of the next attempt to connect with who has this address: higher than those before, and nothing that who has seen the
 *  numbers of attempts elsewhere could know. */
uint32_t rdm_attempt(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

/* rdm_cm.c */
/** Who was asked wants a proof that it is we who ask. */
void rdm_cm_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** Whether it talks to one peer; of others nothing here is about. */
static inline bool rdm_has_one_peer(const struct nic_rdm *ep)
{
	return ep->cfg.cm != NULL;
}
void rdm_cm_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c, const uint8_t *data);
/** Whether the endpoint lets the caller connect. */
bool rdm_cm_expects(const struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** The peer is there, or is no more. */
void rdm_cm_up(struct nic_rdm_peer *peer);
void rdm_cm_down(struct nic_rdm_peer *peer, uint32_t status);
/** Ask again, or give up; late_ns as of rdm_calls_due. @return when to come back. */
uint64_t rdm_cm_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns);
void rdm_cm_fini(struct nic_rdm *ep);

/* rdm_ops.c */
/** @return 0 or -ENOMEM. */
int rdm_ops_init(struct nic_rdm *ep);
void rdm_ops_fini(struct nic_rdm *ep);
/** One of the n_ops that there is memory for; its peer is NULL: free. */
struct rdm_op *rdm_op_at(const struct nic_rdm *ep, uint32_t index);
/** Whether the op is what we owe a peer, not what the application has asked for. */
static inline bool rdm_is_answer(uint8_t work)
{
	return work == RDM_W_PULL || work == RDM_W_TAKEN || work == RDM_W_RESULT;
}
/** Whether one more of the peer's messages may want an answer. */
bool rdm_may_owe(const struct nic_rdm_peer *peer);
/** Whether `n` more may, one after the other, and nobody needs memory for that. */
bool rdm_will_owe(const struct nic_rdm_peer *peer, uint32_t n);
/** @return NULL: none left; answers are there. */
struct rdm_op *rdm_op_get(struct nic_rdm_peer *peer, enum rdm_work work);
/** It is over, or was never begun. */
void rdm_op_free(struct rdm_op *op);
/** What the peer could do because of it, it can no longer. */
void rdm_op_release(struct rdm_op *op);
/** The name by which the peer answers; and back. @return NULL: it is none of this peer's. */
uint32_t rdm_op_id(const struct rdm_op *op);
struct rdm_op *rdm_op_named(struct nic_rdm_peer *peer, uint32_t id);

/* rdm_tx.c */
/** The op's turn comes. */
void rdm_submit(struct rdm_op *op);
/** Post what the peer's queue has, as far as there is room. */
void rdm_pump(struct nic_rdm_peer *peer);
/** Act on what has completed. */
void rdm_op_settle(struct rdm_op *op);
/** Fail what the peer will not answer any more: what has begun, with `begun_only`, or all. */
void rdm_fail(struct nic_rdm_peer *peer, uint32_t status, bool begun_only);
/** The endpoint goes: what its requests have of a queue of receives that it shares is given back. */
void rdm_ops_leave(struct nic_rdm *ep);
/** A work request of the op, which moves data or just a header. @return as nic_post_send. */
int rdm_post(struct rdm_op *op, struct nic_send_wr *wr, bool data);
/** The answer has come. */
void rdm_op_taken(struct rdm_op *op);
/** TAKEN has come. */
void rdm_taken(struct nic_rdm_peer *peer, uint32_t id);
/** Completions of queue pairs. */
void rdm_completed(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);

/* rdm_rq.c */
/** Like nic_rdm_rq_create and nic_rdm_rq_destroy, of one that is not shared. */
int rdm_rq_open(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out);
void rdm_rq_close(struct nic_rdm_rq *rq);
struct tag_unit *rdm_unit(struct nic_rdm_rq *rq, bool tagged);
/** A message of this length goes into it. @return where in it; *room: how much of the message has room. */
uint64_t rdm_recv_claim(struct nic_rdm_rq *rq, struct rdm_recv *recv, uint64_t length, uint64_t *room);
/** A message in it has ended: say so to the endpoint's owner, without an endpoint to the queue's, and give the receive back if it
 *  was the last. */
void rdm_recv_done(struct nic_rdm_rq *rq, struct nic_rdm *ep, struct rdm_recv *recv, struct nic_rdm_done *done);
/** The endpoint goes, and leaves nothing in a queue that it shares. */
void rdm_rq_leave(struct nic_rdm *ep);

/* rdm_rx.c */
/** A message, as who receives it is told about it. */
struct nic_rdm_done rdm_describe(struct nic_rdm_peer *peer, const struct rdm_header *h);
/** A held message, in no tag unit any more, has its receive; or goes without one. */
void rdm_held_match(struct rdm_held *held, struct rdm_recv *recv);
void rdm_held_discard(struct rdm_held *held);
/** Bytes to memory that iov lists, from offset on. @return false: some of it is not mapped. */
bool rdm_scatter(struct nic *nic, const struct nic_iov *iov, uint32_t n, uint64_t offset, const void *src,
		 uint64_t len);
/** The peer has gone: what it was saying ends here, and what it has offered is gone. */
void rdm_arrivals_lost(struct nic_rdm_peer *peer);

/** The header in the first packet of a message. @return false: it makes no sense. */
bool rdm_header_of(const struct packet *p, struct rdm_header *h, uint32_t *prefix);
/** A message that is all there, from a peer or, a datagram, from somebody unknown (NULL). @return false: there is no receive for it,
 *  and no room. */
bool rdm_deliver_whole(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data);

/* rdm_datagram.c */
/** @return 0, -ENOMEM: later, another negative errno. */
int rdm_datagram_post(struct rdm_op *op);
void rdm_datagram_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct packet *p);
/** A datagram that could not be read from memory stops its queue pair: go on. */
void rdm_datagram_recover(struct nic_rdm *ep);

/** Where in it a message lies. */
static inline void *rdm_recv_at(const struct rdm_recv *recv, uint64_t base)
{
	return recv->n_iov && recv->iov[0].base ? (uint8_t *)recv->iov[0].base + base : NULL;
}

/* rdm_tagged.c */
/** Take over operands and compare values. @return false: no memory now. */
bool rdm_operate_prepare(struct rdm_op *op);
int rdm_operate_post(struct rdm_op *op);
int rdm_result_post(struct rdm_op *op);
/** Whether what an OPERATE asks for exists. */
bool rdm_operate_makes_sense(const struct rdm_header *h);
/** It is all there, and so is its receive: do it, answer, and free or pass on what was held. */
void rdm_operate(struct rdm_held *held);
/** Half of it is there, and the peer has gone: its receive ends. */
void rdm_operate_lost(struct rdm_held *held);
/** It will not be done. */
void rdm_operate_discard(struct rdm_held *held);
/** RESULT comes: so many of the bytes that follow it, and all of it. */
void rdm_result_add(struct nic_rdm_peer *peer, const struct rdm_header *h, uint64_t at, const uint8_t *data,
		    uint64_t len);
void rdm_result(struct nic_rdm_peer *peer, const struct rdm_header *h);

/* rdm_held.c */
void rdm_held_init(struct nic_rdm_rq *rq);
void rdm_held_fini(struct nic_rdm_rq *rq);
/** What the endpoint has of it for itself. */
void rdm_asked_init(struct nic_rdm *ep);
void rdm_asked_fini(struct nic_rdm *ep);
/** Whether rdm_held_get would find memory; `needed`: also beyond max_unexpected, for what waits for nobody. */
bool rdm_held_room(struct nic_rdm *ep, const struct rdm_header *h, bool needed);
/** A message that is coming, from somebody unknown if `peer` is NULL; in no tag unit. There is room. */
struct rdm_held *rdm_held_get(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h);
/** It is in no tag unit any more. */
void rdm_held_free(struct rdm_held *held);

/* rdm_leave.c */
/** The connection is over. Lost, it is made good for by the ACK timer of the peer's next request. */
void rdm_say_bye(const struct nic_rdm_peer *peer);
/** Whether it is about the connection that is there now. */
bool rdm_is_bye_of(const struct nic_rdm_peer *peer, const struct rdm_call *c);
/** Of a peer of an endpoint that has many. */
void rdm_bye_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** The peer has left: end the connection, if it is time. @return when to come back. */
uint64_t rdm_left_due(struct nic_rdm_peer *peer, uint64_t now_ns);

/* rdm_pull.c */
/** Fetch what has been offered into the receive that it has, as long as it can be. @return false: it is to be read. */
bool rdm_pull_offered(const struct nic_rdm_peer *peer, const struct rdm_arrival *a, const struct nic_reference *offer);
/** Read what has been offered into the receive, which has room for some of it. */
void rdm_pull(struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv, uint64_t base,
	      uint64_t room);
/** Tell the peer that its message is where it belongs. */
void rdm_say_taken(struct nic_rdm_peer *peer, uint32_t id);

#endif
