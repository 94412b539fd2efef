/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm.h - internals of reliable datagram endpoints. nic_rdm.h describes what endpoints do, rdm.md how they work.
 * Private to nic/.
 *
 * rdm.c: the endpoint, its peers, and entry points for the rest of the NIC. rdm_conn.c connects peers, rdm_qp.c makes
 * their queue pairs, rdm_stranger.c admits unknown callers, rdm_cm.c is connection management for endpoints with one
 * peer, rdm_leave.c closes connections. rdm_request.c validates and copies requests, rdm_ops.c allocates them, rdm_tx.c
 * posts them to the queue pairs, rdm_done.c completes them. rdm_rq.c keeps posted receives, rdm_rx.c delivers messages
 * to them, rdm_unexpected.c allocates memory for unexpected messages, rdm_rendezvous.c reads long messages,
 * rdm_tagged.c operates on receives, rdm_datagram.c sends datagrams. A request of a queue pair can complete at any
 * time: rdm_done.c only records the completion, and rdm_settle acts on it when the NIC has finished processing the
 * current packet or call.
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
#define RDM_ANSWERS	 16384u /* maximum number of reserved answers per endpoint; at most half for one peer */
#define RDM_CHUNK_BYTES	 65536u /* chunk size of the memory for unexpected messages; also the minimum max_unexpected */
#define RDM_SQ_FIRST	 4u	/* send queue depth of a new QP ... */
#define RDM_SQ_MOST	 128u	/* ... and the depth that it can grow to */
#define RDM_SGES	 (NIC_RDM_IOV_MAX + 1)
#define RDM_INLINE	 (RDM_HEADER_LEN + NIC_RDM_INJECT_MAX)
#define RDM_SAID_MAX	 (RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX) /* maximum inline data of a datagram */

enum rdm_work {
	RDM_W_SEND,
	RDM_W_OFFER, /* sends the header of a long message, which the peer then READs */
	RDM_W_RMA,
	RDM_W_ATOMIC,
	RDM_W_GET, /* receiver: READs an OFFER's data */
	RDM_W_FIN, /* receiver: sends FIN */
	RDM_W_DATAGRAM,
	RDM_W_OPERATE, /* an operation on elements of a receive that the peer has posted */
	RDM_W_RESULT,  /* receiver: answers an OPERATE */
};

/** A position in a list of segments. */
struct rdm_cursor {
	uint32_t segment;
	uint64_t offset;
};

/** An op: a request of the application, or an answer that a peer's message requires. */
struct rdm_op {
	struct list node; /* on the free list; on peer->queue until completely posted; or on peer->waiting until FIN
			   * or RESULT arrives */
	struct list due;  /* on ep->due until rdm_settle() acts on it */
	struct nic_rdm_peer *peer;
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t work, kind; /* enum rdm_work, enum nic_rdm_kind */
	bool begun;	    /* at least one work request has been posted */
	bool all_posted;
	bool counted;		    /* counted in peer->posted */
	bool taken;		    /* the peer has sent FIN or RESULT; for RDM_W_FIN: the FIN has been posted */
	bool told;		    /* GET: the receive's completion has been reported */
	uint16_t index, generation; /* see rdm_op_id */
	uint32_t out, data_out;	    /* number of work requests in flight; those that are not WRITTEN or FIN */
	uint32_t status, vendor_err;
	uint64_t length, tag, data;
	uint32_t id; /* GET, FIN, RESULT: id of the peer's message */
	uint32_t n_iov, n_remote;
	struct rdm_cursor at_iov, at_remote;
	struct { /* ATOMIC, OPERATE; the operands are in iov */
		uint32_t n_compare, n_result;
		struct rdm_cursor at_compare, at_result;
		uint8_t op, datatype;
	} atomic;
	struct rdm_unexpected *unexpected; /* OPERATE, RESULT: the body of the message */
	uint32_t data_len;		   /* length of that body in bytes */

	/* rdm_op_get does not clear the fields below: each is written before it is used. */
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
	union {
		struct nic_iov compare[NIC_RDM_IOV_MAX]; /* ATOMIC, OPERATE */
		struct nic_mr *mr[NIC_RDM_IOV_MAX];	 /* OFFER: regions through which the peer READs the data;
							  * NULL at first */
		struct rdm_recv *recv;			 /* GET */
	};
	union {
		struct nic_iov result[NIC_RDM_IOV_MAX]; /* ATOMIC, OPERATE */
		struct nic_rdm_done done;		/* GET: the receive's completion */
	};
	uint8_t header[RDM_PREFIX_MAX];
	uint8_t bytes[2 * NIC_RDM_INJECT_MAX]; /* INJECT: copies of the data and compare values */
};

/** A posted receive. */
struct rdm_recv {
	struct tag_recv match; /* match.node is on rq->free_recvs when free */
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint32_t n_iov;
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	uint64_t length, used; /* bytes in the buffer; bytes of the buffer that messages have taken so far (MULTI) */
	uint64_t min_free;
	uint32_t busy; /* number of messages that are being received into it */
	bool posted;   /* can be matched to messages */
	bool full;     /* MULTI: takes no more messages */
	bool canceled; /* completes with CANCELED when the messages counted in `busy` have ended */
};

/** An unexpected message: it began to arrive before its receive was posted. Also used for the operands of an
 *  OPERATE. */
struct rdm_unexpected {
	struct rdm_chunk *chunk;
	struct list pool;	  /* on the pool's free list */
	struct tag_message match; /* match.all is on rq->claimed if the message is claimed */
	struct nic_rdm *ep;
	struct nic_rdm_peer *peer; /* sender; NULL: a datagram from an unknown address */
	struct rdm_header header;
	struct rdm_recv *recv; /* the receive matched to it; NULL: none yet */
	uint64_t base, room;   /* as in struct rdm_arrival */
	const void *claimed_by;
	bool claimed, complete, discard;
	uint8_t data[];
};

/** The message that a peer's QP is currently receiving. */
struct rdm_arrival {
	bool active;
	struct rdm_header header;
	struct rdm_recv *recv; /* the message goes either into this receive, or into `unexpected` */
	struct rdm_unexpected *unexpected;
	uint64_t base, room; /* in recv: offset at which the message begins, and how many of its bytes fit */
	uint64_t got;
	uint32_t status;
};

enum rdm_peer_state {
	RDM_IDLE,
	RDM_CALLING, /* sends HELLO until the peer answers, or waits for memory for the QP that HELLO offers */
	RDM_UP,
};

struct nic_rdm_peer {
	struct nic_rdm *ep;
	struct list hash; /* on ep->peers */
	struct list node; /* on ep->calling in state RDM_CALLING */
	struct list wake; /* on ep->wake, see rdm_wake */
	struct nic_rdm_addr addr;
	uint64_t user;
	enum rdm_peer_state state;
	bool failed; /* the QP is in the error state */
	bool left;   /* the peer has sent BYE: the connection ends when nothing is in flight on it */
	bool told;   /* this endpoint has sent BYE to the peer */
	struct nic_qp *qp;
	uint64_t incarnation;		 /* of the peer's endpoint; 0: unknown */
	uint32_t attempt, heard_attempt; /* number of this side's latest QP; number of the peer's latest QP that this
					  * side has heard of */
	uint32_t met, proof;		 /* how often meet() has changed `incarnation`; the challenge to echo to the
					  * peer */
	uint32_t psn;
	uint64_t call_ns, wait_ns; /* when to send HELLO again, and the current back-off interval */
	uint64_t give_up_ns;	   /* when to give up connecting; if `left` is set: when to check again whether the
				    * connection can end */
	uint32_t reads_out;
	uint32_t posted;       /* requests that have been posted completely and have not ended */
	uint32_t owed;	       /* answers reserved for the peer, taken from ep->answers_left */
	bool to_call;	       /* `owed` was not 0 when the QP failed: reconnect */
	bool stranger;	       /* the peer has called, but the application does not know the peer */
	struct list strangers; /* on ep->strangers if `stranger` is set */
	struct list keepalive; /* on ep->kept_alive while the peer could vanish unnoticed */
	uint64_t keepalive_ns; /* when to probe the peer next, if it is on ep->kept_alive */
	struct list queue, waiting;
	struct rdm_arrival arrival;
};

/** Memory for unexpected messages of one size class. */
struct rdm_pool {
	struct list free, chunks;
	uint32_t size;
};

/** A queue of posted receives and unexpected messages. */
struct nic_rdm_rq {
	struct nic *nic;
	struct list node; /* on nic->rdm_rqs, if shared */
	bool shared;	  /* false: belongs to one endpoint */
	uint32_t users;	  /* if shared: number of endpoints that use the queue */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	void *ctx;
	struct tag_unit messages, tagged;
	struct list claimed;
	struct rdm_recv *recvs;
	struct list free_recvs;
	uint32_t recvs_touched, rx_left;
	struct rdm_pool small, big;
	uint64_t unexpected_bytes, max_unexpected;
};

/** Private data of the application in a connection management datagram. */
struct rdm_cm_data {
	uint32_t len;
	uint8_t bytes[NIC_RDM_CM_DATA_MAX];
};

enum rdm_cm_state {
	RDM_CM_NEW,
	RDM_CM_ASKS,	 /* has sent ASK, and waits for the answer */
	RDM_CM_ACCEPTS,	 /* has sent ACCEPT, and waits for HELLO */
	RDM_CM_ANSWERED, /* has received ACCEPT, and connects to the peer */
	RDM_CM_OPEN,
	RDM_CM_LEFT, /* the peer has sent BYE; its earlier answers can still arrive */
	RDM_CM_CLOSED,
};

/** Connection management state of an endpoint with one peer. */
struct rdm_cm {
	enum rdm_cm_state state;
	struct nic_rdm_addr to;	   /* the address that ASK goes to */
	uint64_t incarnation;	   /* ACCEPTS: incarnation of the endpoint that sent ASK */
	uint32_t attempt, proof;   /* ASKS: number of this endpoint's ASK; the challenge to echo to the listener */
	struct nic_rdm_peer *peer; /* set when this side accepts, or has received ACCEPT */
	struct rdm_cm_data said, heard;
	uint64_t call_ns, wait_ns, give_up_ns;
};

/** An ASK that this listener has received. */
struct rdm_request {
	struct list node; /* on nic_rdm.requests, oldest first */
	struct nic_rdm_addr from;
	uint64_t incarnation;
	uint32_t attempt, number;
	struct nic_rdm *ep; /* the endpoint that accepts the request; NULL: not accepted */
	bool refused;
	struct rdm_cm_data said;
};

struct nic_rdm {
	struct nic *nic;
	struct list node; /* on nic->rdms */
	struct nic_rdm_init cfg;
	struct nic_cq *cq;
	struct nic_qp *contact; /* UD QP of the port, for calls and datagrams */
	struct nic_mr *all;	/* registers all memory of the process, for local access only */
	uint64_t incarnation;
	struct list peers[RDM_PEER_BUCKETS];
	struct list calling, kept_alive, wake, due, lingering;
	struct nic_rdm_rq *rq;
	bool leaving;	       /* the endpoint is being destroyed and leaves a shared rq: completions go to the rq's
				* owner */
	bool going;	       /* nic_rdm_leave was called: the endpoint starts no request and accepts no connection */
	struct list strangers; /* peers with `stranger` set, oldest first */
	uint32_t n_strangers;
	uint64_t secret[2]; /* key of the hash for challenges and attempt numbers */
	uint32_t attempts;  /* counts attempts; begins at a random number */
	struct rdm_op **op_blocks;
	uint32_t n_ops; /* number of ops allocated, in all blocks */
	struct list free_ops;
	uint32_t tx_left, answers_left;
	struct rdm_pool asked; /* memory for operands of this endpoint's own OPERATEs */
	struct rdm_cm cm;
	struct list requests;
	uint32_t n_requests, request_number;
	/* Header of the message that rdm_takes parsed last, and the header's length with segments (0: malformed).
	 * Kept because a packet must be parsed only once: another process can write to it at any time. */
	struct rdm_header heard;
	uint32_t heard_prefix;
};

/** Report a completion to the endpoint's owner. */
static inline void rdm_tell(struct nic_rdm *ep, const struct nic_rdm_done *done)
{
	ep->nic->completions++;
	ep->cfg.done(ep->cfg.ctx, done);
}
/** Reserve an answer to the peer's message. rdm_may_owe must have returned true. */
static inline void rdm_owe(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left--;
	peer->owed++;
}
/** Release an answer that rdm_owe has reserved: the answer was sent, or will never be sent. */
static inline void rdm_owe_no_more(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left++;
	peer->owed--;
}
/** Make the NIC call rdm_settle. */
static inline void rdm_note(struct nic_rdm *ep)
{
	ep->nic->owners_due = true;
}
/** Make rdm_settle handle the peer: more of its queue can be posted, or its QP has failed. */
static inline void rdm_wake(struct nic_rdm_peer *peer)
{
	if (list_empty(&peer->wake))
		list_append(&peer->ep->wake, &peer->wake);
	rdm_note(peer->ep);
}

/** As nic_rdm_peer_find, but does not record that the application now knows the peer (nic_rdm_peer.stranger). */
struct nic_rdm_peer *rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

extern const struct qp_owner rdm_owner;

/** Address at offset `base` of the receive's buffer; NULL: the receive has no buffer. */
static inline void *rdm_recv_at(const struct rdm_recv *recv, uint64_t base)
{
	return recv->n_iov && recv->iov[0].base ? (uint8_t *)recv->iov[0].base + base : NULL;
}

#endif
