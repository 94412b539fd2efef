/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm.h - internals of reliable datagram endpoints; nic_rdm.h says what they do, rdm.md how. Private to nic/.
 *
 * rdm.c: the endpoint, its peers, and entry points for the rest of the NIC. rdm_conn.c connects peers, rdm_qp.c makes
 * their queue pairs, rdm_stranger.c admits unknown callers, rdm_cm.c is connection management for endpoints with one
 * peer, rdm_leave.c closes connections. rdm_request.c validates and copies requests, rdm_ops.c allocates them, rdm_tx.c
 * posts them to the queue pairs, rdm_done.c completes them. rdm_rq.c keeps posted receives, rdm_rx.c delivers messages
 * to them, rdm_unexpected.c allocates memory for unexpected messages, rdm_rendezvous.c reads long messages,
 * rdm_tagged.c operates on receives, rdm_datagram.c sends datagrams. A queue pair may complete at any time: rdm_done.c
 * only records the completion, and rdm_settle acts on it when the NIC is done with a packet or a call.
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
#define RDM_ANSWERS	 16384u /* most answers an endpoint may owe; at most half of them to one peer */
#define RDM_CHUNK_BYTES                                                                                                \
	65536u		/* in which memory for unexpected messages is allocated; the least that max_unexpected may be */
#define RDM_SQ_FIRST 4u /* send queue depth of a new QP ... */
#define RDM_SQ_MOST  128u /* ... and the depth that it may grow to */
#define RDM_SGES     (NIC_RDM_IOV_MAX + 1)
#define RDM_INLINE   (RDM_HEADER_LEN + NIC_RDM_INJECT_MAX)
#define RDM_SAID_MAX (RDM_CALL_LEN + NIC_RDM_CM_DATA_MAX) /* at least RDM_INLINE: inline data of a datagram */

enum rdm_work {
	RDM_W_SEND,
	RDM_W_OFFER, /* a SEND that the peer reads */
	RDM_W_RMA,
	RDM_W_ATOMIC,
	RDM_W_GET, /* receiver: reads an OFFER's data */
	RDM_W_FIN, /* receiver: sends FIN */
	RDM_W_DATAGRAM,
	RDM_W_OPERATE, /* an ATOMIC on a receive of the peer */
	RDM_W_RESULT,  /* receiver: answers an OPERATE */
};

/** A position in a list of segments. */
struct rdm_cursor {
	uint32_t segment;
	uint64_t offset;
};

/** A request of the application, or an answer that the endpoint owes a peer. */
struct rdm_op {
	struct list node; /* on the free list, peer->queue until all is posted, or peer->waiting for FIN or RESULT */
	struct list due;  /* on ep->due: something has completed */
	struct nic_rdm_peer *peer;
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t work, kind; /* enum rdm_work, enum nic_rdm_kind */
	bool begun;	    /* at least one work request has been posted */
	bool all_posted;
	bool counted;		    /* included in peer->posted */
	bool taken;		    /* the peer has said FIN or RESULT; of RDM_W_FIN: it has been posted */
	bool told;		    /* GET: the receive's completion has been reported */
	uint16_t index, generation; /* see rdm_op_id */
	uint32_t out, data_out;	    /* work requests in flight; those of them that move data */
	uint32_t status, vendor_err;
	uint64_t length, tag, data;
	uint32_t id; /* GET, FIN, RESULT: id of the peer's message */
	uint32_t n_iov, n_remote;
	struct rdm_cursor at_iov, at_remote;
	struct { /* ATOMIC; iov has the operands */
		uint32_t n_compare, n_result;
		struct rdm_cursor at_compare, at_result;
		uint8_t op, datatype;
	} atomic;
	struct rdm_unexpected *unexpected; /* OPERATE, RESULT: the message body */
	uint32_t data_len;		   /* its length in bytes */

	/* rdm_op_get does not clear the fields below: each is written before it is used. */
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
	union {
		struct nic_iov compare[NIC_RDM_IOV_MAX]; /* ATOMIC */
		struct nic_mr *mr[NIC_RDM_IOV_MAX];	 /* OFFER: the peer's read access meanwhile; NULL at first */
		struct rdm_recv *recv;			 /* GET */
	};
	union {
		struct nic_iov result[NIC_RDM_IOV_MAX]; /* ATOMIC */
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
	uint64_t length, used; /* bytes; used: MULTI, taken by messages so far */
	uint64_t min_free;
	uint32_t busy; /* messages being received into it */
	bool posted;   /* waits for messages */
	bool full;     /* MULTI: takes no more messages */
	bool canceled; /* CANCELED is reported once the messages counted in `busy` have ended */
};

/** An unexpected message, arrived or arriving before its receive. Also holds the operands of an OPERATE. */
struct rdm_unexpected {
	struct rdm_chunk *chunk;
	struct list pool;	  /* on the pool's free list */
	struct tag_message match; /* when claimed, match.all is on rq->claimed */
	struct nic_rdm *ep;
	struct nic_rdm_peer *peer; /* NULL: a datagram from an unknown sender */
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
	struct rdm_recv *recv; /* this, or unexpected */
	struct rdm_unexpected *unexpected;
	uint64_t base, room; /* in recv: where the message begins, and how many bytes of it fit */
	uint64_t got;
	uint32_t status;
};

enum rdm_peer_state {
	RDM_IDLE,
	RDM_CALLING, /* offering a QP to it, or still without memory for one */
	RDM_UP,
};

struct nic_rdm_peer {
	struct nic_rdm *ep;
	struct list hash; /* on ep->peers */
	struct list node; /* on ep->calling while CALLING */
	struct list wake; /* on ep->wake, see rdm_wake */
	struct nic_rdm_addr addr;
	uint64_t user;
	enum rdm_peer_state state;
	bool failed; /* the QP is in error */
	bool left;   /* it has said BYE: the connection ends when nothing is in flight on it */
	bool told;   /* we have said BYE */
	struct nic_qp *qp;
	uint64_t incarnation;		 /* 0: unknown */
	uint32_t attempt, heard_attempt; /* of our latest QP; the peer's latest attempt that we have heard */
	uint32_t met, proof;		 /* incarnations met at its address; the challenge that it wants echoed */
	uint32_t psn;
	uint64_t call_ns, wait_ns; /* when to call again, current back-off interval */
	uint64_t give_up_ns; /* when to give up calling; once the peer has said BYE (`left`): when to look again */
	uint32_t reads_out;
	uint32_t posted;       /* requests that have been posted completely, and have not ended */
	uint32_t owed;	       /* answers that we owe it; counted in ep->answers_left */
	bool to_call;	       /* owed was not 0 when the QP failed: reconnect */
	bool stranger;	       /* it has called, but the application does not know it ... */
	struct list strangers; /* ... on ep->strangers */
	struct list keepalive; /* on ep->kept_alive while it could vanish without our noticing ... */
	uint64_t keepalive_ns; /* ... when to probe it next */
	struct list queue, waiting;
	struct rdm_arrival arrival;
};

/** Memory for unexpected messages of one size class. */
struct rdm_pool {
	struct list free, chunks;
	uint32_t size;
};

/** Posted receives, and unexpected messages. */
struct nic_rdm_rq {
	struct nic *nic;
	struct list node; /* on nic->rdm_rqs, if shared */
	bool shared;	  /* false: one endpoint's own */
	uint32_t users;	  /* if shared: number of endpoints */
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

/** Private data of connection management. */
struct rdm_cm_data {
	uint32_t len;
	uint8_t bytes[NIC_RDM_CM_DATA_MAX];
};

enum rdm_cm_state {
	RDM_CM_NEW,
	RDM_CM_ASKS,	 /* has sent ASK, waits for the answer */
	RDM_CM_ACCEPTS,	 /* has sent ACCEPT, waits for HELLO */
	RDM_CM_ANSWERED, /* was accepted, connects to the peer */
	RDM_CM_OPEN,
	RDM_CM_LEFT, /* the peer has said BYE; its answers may still be on their way */
	RDM_CM_CLOSED,
};

/** Connection management state of an endpoint with one peer. */
struct rdm_cm {
	enum rdm_cm_state state;
	struct nic_rdm_addr to;	   /* the address that ASK goes to */
	uint64_t incarnation;	   /* ACCEPTS: the asking endpoint's */
	uint32_t attempt, proof;   /* ASKS: number of our ASK; the challenge that the listener wants echoed */
	struct nic_rdm_peer *peer; /* ACCEPTS and later */
	struct rdm_cm_data said, heard;
	uint64_t call_ns, wait_ns, give_up_ns;
};

/** An ASK that this listener has received. */
struct rdm_request {
	struct list node; /* on nic_rdm.requests, oldest first */
	struct nic_rdm_addr from;
	uint64_t incarnation;
	uint32_t attempt, number;
	struct nic_rdm *ep; /* accepted for this endpoint; NULL: not accepted */
	bool refused;
	struct rdm_cm_data said;
};

struct nic_rdm {
	struct nic *nic;
	struct list node; /* on nic->rdms */
	struct nic_rdm_init cfg;
	struct nic_cq *cq;
	struct nic_qp *contact; /* UD QP of the port: calls and datagrams */
	struct nic_mr *all;	/* all memory of the process, local access only */
	uint64_t incarnation;
	struct list peers[RDM_PEER_BUCKETS];
	struct list calling, kept_alive, wake, due, lingering;
	struct nic_rdm_rq *rq;
	bool leaving;	       /* being destroyed, leaves a shared rq: completions go to the rq's owner */
	bool going;	       /* nic_rdm_leave was called: begins no request, accepts no connection */
	struct list strangers; /* peers with `stranger` set, oldest first */
	uint32_t n_strangers;
	uint64_t secret[2]; /* key of challenges and attempt numbers */
	uint32_t attempts;  /* counter, from a random number on */
	struct rdm_op **op_blocks;
	uint32_t n_ops; /* allocated, in all blocks */
	struct list free_ops;
	uint32_t tx_left, answers_left;
	struct rdm_pool asked; /* operands of our own operations on receives */
	struct rdm_cm cm;
	struct list requests;
	uint32_t n_requests, request_number;
	/* Header of the message that rdm_takes saw last, and its length with segments (0: malformed). Kept because the
	 * packet must be parsed only once: another process may write to it meanwhile. */
	struct rdm_header heard;
	uint32_t heard_prefix;
};

/** Report a completion to the endpoint's owner. */
static inline void rdm_tell(struct nic_rdm *ep, const struct nic_rdm_done *done)
{
	ep->nic->completions++;
	ep->cfg.done(ep->cfg.ctx, done);
}
/** Reserve an answer for the peer's message; rdm_may_owe returned true. */
static inline void rdm_owe(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left--;
	peer->owed++;
}
/** Release that reservation: the answer was sent, or never will be. */
static inline void rdm_owe_no_more(struct nic_rdm_peer *peer)
{
	peer->ep->answers_left++;
	peer->owed--;
}
/** Have rdm_settle called. */
static inline void rdm_note(struct nic_rdm *ep)
{
	ep->nic->owners_due = true;
}
/** Have rdm_settle look at the peer: its queue may go on, or its QP has failed. */
static inline void rdm_wake(struct nic_rdm_peer *peer)
{
	if (list_empty(&peer->wake))
		list_append(&peer->ep->wake, &peer->wake);
	rdm_note(peer->ep);
}

/** As nic_rdm_peer_find, but internal: a stranger stays one. */
struct nic_rdm_peer *rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

extern const struct qp_owner rdm_owner;

/** Address in the receive's buffer at offset `base`; NULL: it has no buffer. */
static inline void *rdm_recv_at(const struct rdm_recv *recv, uint64_t base)
{
	return recv->n_iov && recv->iov[0].base ? (uint8_t *)recv->iov[0].base + base : NULL;
}

#endif
