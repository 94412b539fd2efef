/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_rdm.h - reliable datagram endpoints: messages with and without tags, RMA and operations on elements to any number of
 * peers, with what libfabric's FI_EP_RDM promises. The second public header of the NIC; what nic.h says of calls holds here.
 *
 * An endpoint has an address, a GID and a 16-bit port. To each peer that it talks to it has one RC queue pair, which the NIC
 * connects when it is first needed and again when it has failed or the peer has been restarted; rdm.md describes that and what
 * is on the wire. Tags are matched here, short messages are scattered into the buffer they are for, long ones are read by
 * the receiving NIC: no application has to run for any of it.
 *
 * Buffers need no registration, except those that peers name in RMA and operations on elements (nic_mr_reg, in the endpoint's
 * protection domain). Requests are copied during the call; buffers belong to the NIC until `done` says so, or with
 * NIC_RDM_INJECT not beyond the call.
 */
#ifndef NIC_NIC_RDM_H
#define NIC_NIC_RDM_H

#include "nic.h"

struct nic_rdm;	     /* an endpoint */
struct nic_rdm_rq;   /* where receives are posted */
struct nic_rdm_peer; /* another endpoint, or itself, as one of ours sees it */

/* Service queue pairs: their number is a function number that no process has, and a port. Packets for one reach whoever serves
 * that port of the device. 0xffffff, which port 65535 would have, is the multicast QP. */
#define NIC_SERVICE_QPN	     0xff0000u
#define NIC_SERVICE_PORT_MAX 65534u

#define NIC_RDM_IOV_MAX	   4u		/* segments of a local buffer */
#define NIC_RDM_REMOTE_MAX 4u		/* segments of remote memory that a request names */
#define NIC_RDM_EAGER_MAX  8192u	/* longer messages are read by who receives them */
#define NIC_RDM_INJECT_MAX 128u		/* bytes that a request with NIC_RDM_INJECT may have */
#define NIC_RDM_UD_HEADER  32u		/* bytes of an MTU that a datagram has not for itself */
#define NIC_RDM_MSG_MAX	   (1ull << 40) /* bytes of a message, or of an RMA request */

struct nic_rdm_addr {
	struct nic_gid gid;
	uint16_t port; /* 1 .. NIC_SERVICE_PORT_MAX */
};

/** The layout is that of struct iovec. */
struct nic_iov {
	void *base;
	size_t len;
};

/** Memory of a peer: an address and a key under which it has registered it. */
struct nic_rdm_remote {
	uint64_t addr, len;
	uint32_t rkey;
};

enum nic_rdm_flags {
	NIC_RDM_TAGGED = 1 << 0,   /* SEND, RECV: by tag. Messages with tags and those without do not meet */
	NIC_RDM_DATA = 1 << 1,	   /* SEND, WRITE: `data` goes along. Of a completion: it came */
	NIC_RDM_INJECT = 1 << 2,   /* the buffer is the caller's again when the call returns */
	NIC_RDM_DELIVERY = 1 << 3, /* SEND: done when a receive has the message, not when the peer's NIC has it */
	NIC_RDM_FENCE = 1 << 4,	   /* not before all that was asked of this peer earlier is done */
	NIC_RDM_MULTI =
		1 << 5, /* RECV: the buffer takes messages, one behind the other, until less than `min_free` of it is
				    * left. Of a completion: it was the last one */
	NIC_RDM_CLAIM = 1 << 6,	    /* RECV: of the message that nic_rdm_peek has claimed for this context */
	NIC_RDM_DISCARD = 1 << 7,   /* with CLAIM, or of a peek: the message is dropped */
	NIC_RDM_OPERATED = 1 << 8,  /* of a RECV's completion: it was the target of an operation on elements */
	NIC_RDM_UNAWAITED = 1 << 9, /* nobody waits for it to be done, unless it fails: that may take a little longer */
	NIC_RDM_CHECK = 1 << 10,    /* nothing is asked for: the call says whether it could be, if there was room */
};

/** What a completion is about. */
enum nic_rdm_kind {
	NIC_RDM_SEND,
	NIC_RDM_RECV,
	NIC_RDM_WRITE,
	NIC_RDM_READ,
	NIC_RDM_ATOMIC,	      /* an operation on elements that answers nothing */
	NIC_RDM_FETCH,	      /* one that does */
	NIC_RDM_REMOTE_WRITE, /* a peer's WRITE with data has ended; it has no context */
	NIC_RDM_KINDS
};

/** Besides enum nic_wc_status, whose values failed requests have: */
enum nic_rdm_status {
	NIC_RDM_OK = NIC_WC_SUCCESS,
	NIC_RDM_CANCELED = 0x100, /* by nic_rdm_cancel */
	NIC_RDM_TRUNCATED,   /* RECV: the message was longer than the buffer, which is full; the sender does not know */
	NIC_RDM_UNREACHABLE, /* the peer has not answered for nic_rdm_init.connect_ns */
	NIC_RDM_PEER_LOST,   /* RECV: the peer has gone amid the message */
	NIC_RDM_REFUSED,   /* RECV: the operation on elements that had it for its target could not be executed there */
	NIC_RDM_NO_MEMORY, /* this NIC has had no memory, or no QP, for it: nothing is said about the peer */
};

struct nic_rdm_done {
	void *context; /* these two: of the request */
	uint64_t cookie;
	enum nic_rdm_kind kind;
	uint32_t flags;	 /* of the request: TAGGED, INJECT; DATA and MULTI as said above */
	uint32_t status; /* enum nic_rdm_status or enum nic_wc_status */
	uint32_t vendor_err;
	struct nic_rdm_peer *peer; /* target or source; NULL of a RECV that has failed without one */
	void *buf;		   /* RECV: where the message is */
	uint64_t len;		   /* bytes that were transferred */
	uint64_t overflow;	   /* RECV: bytes that had no room */
	uint64_t tag, data;	   /* RECV; data also of REMOTE_WRITE */
};

/** Connection management: what has happened to an endpoint that talks to one peer, or to one where others ask for that. */
enum nic_rdm_cm_kind {
	NIC_RDM_CM_REQUEST,	/* somebody asks to be connected: accept it for another endpoint, or refuse it */
	NIC_RDM_CM_CONNECTED,	/* the peer is there */
	NIC_RDM_CM_REFUSED,	/* it does not want to */
	NIC_RDM_CM_UNREACHABLE, /* it has not answered for connect_ns */
	NIC_RDM_CM_SHUTDOWN,	/* it has gone; requests that are left have failed or are about to */
	NIC_RDM_CM_NO_MEMORY,	/* this NIC has no memory, or no QP, for the connection */
};

#define NIC_RDM_CM_DATA_MAX 192u

struct nic_rdm_cm_event {
	enum nic_rdm_cm_kind kind;
	uint32_t request;	  /* REQUEST: names it */
	struct nic_rdm_addr from; /* of the endpoint that asks, or that was asked */
	const void *data;	  /* REQUEST, CONNECTED, REFUSED: what the other has sent along, gone on return */
	uint32_t len;
};

/** A queue of receives that several endpoints take from. */
struct nic_rdm_rq_init {
	uint32_t max_rx; /* these two as in nic_rdm_init: of all its endpoints together */
	uint64_t max_unexpected;
	/** A receive has ended at no endpoint: it was canceled, or its endpoint was destroyed while a message was on its way into it. As
	 *  nic_rdm_init.done; `peer` is NULL. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	void *ctx;
};

struct nic_rdm_init {
	struct nic_pd *pd;
	struct nic_rdm_addr
		addr; /* the GID is one of the NIC's; the caller has seen to it that packets for the port come here */
	uint32_t max_tx, max_rx; /* requests under way and receives posted, at most; 0: 1024 */
	uint64_t connect_ns;	 /* how long a peer may take to answer; 0: 10 s */
	uint64_t max_unexpected; /* bytes of messages that nobody has asked for yet; senders of more wait, and
				  * datagrams are dropped. At least 64 KiB; 0: 64 MiB */
	struct nic_rdm_rq *rq;	 /* NULL: its own; else max_rx and max_unexpected are that one's business */
	bool datagrams;	   /* SENDs are datagrams of up to nic_rdm_datagram_max bytes, and there is nothing else */
	uint8_t timeout;   /* of the queue pairs, as nic_qp_attr; 0: 14 */
	uint8_t retry_cnt; /* the same, but up to 255; 0: as many as peer_ns takes */
	uint64_t peer_ns;  /* how long a connected peer may leave a request without an answer, about; 0: 6 s */
	/** Something is done. Called while the NIC works, also amid the request that it is about; must not call the NIC back. The
	 *  struct is gone on return. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	/** NULL, or is told of each request of a peer to memory, when it has been served: that memory may have changed (`write`), by
	 *  a WRITE or an operation on elements, or has been answered with, for a READ or an operation that returns what was there
	 *  before (`read`); or both. A request that names several segments, or does not fit in a packet, is several. As done. */
	void (*served)(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write);
	/** Not NULL: the endpoint talks to one peer, which it is connected to by the nic_rdm_cm_ calls, and is told of that.
	 *  As done. */
	void (*cm)(void *ctx, const struct nic_rdm_cm_event *event);
	bool listens; /* with `cm`: others may ask here, besides */
	void *ctx;
};

/** @return 0, -EINVAL, -EADDRINUSE (the port is another endpoint's of this NIC), -ENOMEM. */
int nic_rdm_create(struct nic *nic, const struct nic_rdm_init *init, struct nic_rdm **out);
/** Before its end: requests that wait for others to go with are sent by nic_tx without them, from now on. */
void nic_rdm_hurry(struct nic_rdm *ep);
void nic_rdm_hurry_all(struct nic *nic);
/**
 * Before its end: tell the peers that it is connected to, so that what they ask of this address from then on goes to whoever is
 * there next. It answers what they have asked before, but begins no request any more, and connects with nobody. Nothing happens to
 * an endpoint that talks to one peer (nic_rdm_cm_shutdown), or to none.
 * @return how many have been told. There may be more, but no room: call it again once nic_tx has sent that, until it is 0: nobody
 * is told twice, and where there is no room at all nobody is told.
 */
unsigned nic_rdm_leave(struct nic_rdm *ep);
/** Requests and receives that are left end without a word; peers learn it when they next ask something. Receives of a queue that it
 *  shares stay there, but for those that a message was on its way into: they have failed, PEER_LOST. Answers that have not been
 *  sent are lost: nic_ack_flush and nic_tx come before, so that nobody takes for lost what is done. */
void nic_rdm_destroy(struct nic_rdm *ep);
struct nic_rdm_addr nic_rdm_address(const struct nic_rdm *ep);

uint32_t nic_rdm_datagram_max(const struct nic *nic);

/**
 * Ask the endpoint at an address, where requests are taken, for a connection; what comes of it is an event. Where they are not, or
 * nobody is, an endpoint of that host says so, if its NIC hears it.
 * @param data goes along. @return 0, -EINVAL (too much data, no address, not such an endpoint), -EISCONN (has been asked for already).
 */
int nic_rdm_cm_connect(struct nic_rdm *ep, const struct nic_rdm_addr *to, const void *data, uint32_t len);
/** Answer a REQUEST that came to `listener`: `ep` is to be connected to who has asked. @return as above; -ENOENT: no such request. */
int nic_rdm_cm_accept(struct nic_rdm *listener, uint32_t request, struct nic_rdm *ep, const void *data, uint32_t len);
int nic_rdm_cm_refuse(struct nic_rdm *listener, uint32_t request, const void *data, uint32_t len);
/** End the connection, and tell the peer, also what was acknowledged no sooner than now. It does not come back. */
void nic_rdm_cm_shutdown(struct nic_rdm *ep);
/** The one peer; NULL: not connected. */
struct nic_rdm_peer *nic_rdm_cm_peer(const struct nic_rdm *ep);

/** The peer with this address, which need not exist. Pointers are good as long as the endpoint. @return NULL: no memory, or no
 *  address that a peer can have (its GID's family is not the endpoint's, port 0). */
struct nic_rdm_peer *nic_rdm_peer_get(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** The same, if there is one already. */
struct nic_rdm_peer *nic_rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** Whether it is an address that a peer can have. */
bool nic_rdm_peer_may_be(const struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** nic_rdm_init.ctx of the endpoint whose peer it is. */
void *nic_rdm_peer_owner(const struct nic_rdm_peer *peer);
/** What the caller knows it by: UINT64_MAX until set. */
void nic_rdm_peer_set_user(struct nic_rdm_peer *peer, uint64_t user);
uint64_t nic_rdm_peer_user(const struct nic_rdm_peer *peer);
struct nic_rdm_addr nic_rdm_peer_address(const struct nic_rdm_peer *peer);

struct nic_rdm_send {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	const struct nic_iov *iov;
	uint32_t n_iov;
	uint64_t tag, data;
};

struct nic_rdm_recv {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	const struct nic_iov *iov; /* MULTI: one */
	uint32_t n_iov;
	uint64_t tag, ignore;
	const struct nic_rdm_peer *from; /* NULL: anybody */
	size_t min_free;		 /* with MULTI, at least 1 */
};

struct nic_rdm_rma {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	bool read;
	const struct nic_iov *iov;
	uint32_t n_iov;
	const struct nic_rdm_remote *remote; /* as many bytes as iov has */
	uint32_t n_remote;
	uint64_t data;
};

/** Vectors have as many elements as the remote segments together; each segment is a whole number of elements. */
struct nic_rdm_atomic {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	const struct nic_iov *operand, *compare, *result;
	uint32_t n_operand, n_compare, n_result; /* no result: a base operation */
	const struct nic_rdm_remote *remote;
	uint32_t n_remote;
	uint64_t
		tag; /* TAGGED: the target is a receive that a message with this tag would get; `remote` is one offset in it */
};

/**
 * Requests. None waits for the peer: what cannot go yet is kept, up to max_tx requests.
 * @return 0, -EAGAIN: no room now, and what is under way will make some, -ENOMEM: no memory, and nothing is under way, or there is none
 * for a connection to this peer, -EINVAL, -EMSGSIZE (longer than this header allows), -EOPNOTSUPP (elements: no such pair;
 * datagrams: anything else).
 */
int nic_rdm_send(struct nic_rdm_peer *peer, const struct nic_rdm_send *r);
int nic_rdm_rma(struct nic_rdm_peer *peer, const struct nic_rdm_rma *r);
int nic_rdm_atomic(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r);
/** @return as above; -ENOMSG: with CLAIM, nothing was claimed for this context; -EOPNOTSUPP: receives are posted to a queue that it
 *  shares. */
int nic_rdm_recv(struct nic_rdm *ep, const struct nic_rdm_recv *r);
/** Most elements of an operation, in all its segments. */
uint32_t nic_rdm_atomic_max(uint32_t op, uint32_t datatype, enum nic_elem_form form);

/** Look for the message that a receive like this would get: r's TAGGED, tag, ignore, from count. It is described in *found, as
 *  RECV, with the length it would have. With CLAIM it is put aside for r->context, with DISCARD dropped. @return 0, -ENOMSG. */
int nic_rdm_peek(struct nic_rdm *ep, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
/** End a receive with this context that waits: it is done, CANCELED, during the call, or if it takes many messages and one is on its
 *  way into it, after that. @return 0, -ENOENT: none waits. */
int nic_rdm_cancel(struct nic_rdm *ep, const void *context);

/**
 * A queue of receives for endpoints that are created with it. Each message goes to the receive that it would go to if all endpoints
 * were one, and completes at the one that it came to. @return 0, -EINVAL, -ENOMEM.
 */
int nic_rdm_rq_create(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out);
/** Receives that are left end without a word. @return 0, -EBUSY: endpoints use it. */
int nic_rdm_rq_destroy(struct nic_rdm_rq *rq);
/** The queue that an endpoint uses: its own, as long as that exists, or the one that it shares. */
struct nic_rdm_rq *nic_rdm_rq_of(struct nic_rdm *ep);
/** These as nic_rdm_recv, nic_rdm_peek and nic_rdm_cancel; `from` is NULL where the queue is shared, or else -EINVAL is returned. */
int nic_rdm_rq_recv(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r);
int nic_rdm_rq_peek(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
int nic_rdm_rq_cancel(struct nic_rdm_rq *rq, const void *context);

#endif
