/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_rdm.h - reliable datagram endpoints: tagged and untagged messages, RMA and element operations to any number of
 * peers, with the guarantees of libfabric's FI_EP_RDM. The calling rules of nic.h apply.
 *
 * An endpoint's address is a GID and a 16-bit port. It has one RC queue pair per peer, which the NIC connects on first
 * use and reconnects when it has failed or the peer has restarted; rdm.md describes the connections and the wire
 * format. The NIC matches tags, copies short messages into their buffers and READs long messages from the sender; no
 * application has to run for that.
 *
 * Buffers need no registration, except those that peers access by RMA and element operations (nic_mr_reg, in the
 * endpoint's protection domain). Requests are copied during the call. Their buffers belong to the NIC until `done`
 * reports the request's completion; with NIC_RDM_INJECT they belong to it only during the call.
 */
#ifndef NIC_NIC_RDM_H
#define NIC_NIC_RDM_H

#include "nic.h"
#include "nic_elem.h"

struct nic_rdm;	     /* an endpoint */
struct nic_rdm_rq;   /* a queue of receives */
struct nic_rdm_peer; /* a remote endpoint as a local endpoint sees it; an endpoint can also be its own peer */

/* Service queue pairs. Their QPN consists of a function number that no process has, and a port. Packets to such a
 * QPN reach the process that serves the port on that device. Port 65535 is excluded: its QPN, 0xffffff, is the
 * multicast QP. */
#define NIC_SERVICE_QPN	     0xff0000u
#define NIC_SERVICE_PORT_MAX 65534u

#define NIC_RDM_IOV_MAX	   4u		/* maximum number of segments of a local buffer */
#define NIC_RDM_REMOTE_MAX 4u		/* maximum number of remote segments in a request */
#define NIC_RDM_EAGER_MAX  8192u	/* maximum length of an eager message; the receiving NIC READs longer ones */
#define NIC_RDM_INJECT_MAX 128u		/* maximum length of a request with NIC_RDM_INJECT */
#define NIC_RDM_UD_HEADER  32u		/* length of a datagram's header, which takes part of the MTU */
#define NIC_RDM_MSG_MAX	   (1ull << 40) /* maximum length of a message or RMA request */

struct nic_rdm_addr {
	struct nic_gid gid;
	uint16_t port; /* 1 .. NIC_SERVICE_PORT_MAX */
};

/** The layout is that of struct iovec. */
struct nic_iov {
	void *base;
	size_t len;
};

/** Memory of a peer: its address and length, and the R_Key of the peer's registration. */
struct nic_rdm_remote {
	uint64_t addr, len;
	uint32_t rkey;
};

enum nic_rdm_flags {
	NIC_RDM_TAGGED = 1 << 0,    /* SEND, RECV: match by tag. Tagged and untagged traffic never match */
	NIC_RDM_DATA = 1 << 1,	    /* SEND, WRITE: send `data` along. In a RECV or REMOTE_WRITE completion: `data`
				     * arrived */
	NIC_RDM_INJECT = 1 << 2,    /* the caller may reuse the buffer when the call returns */
	NIC_RDM_DELIVERY = 1 << 3,  /* SEND: complete when a receive has taken the message, not already when the
				     * peer's NIC has it */
	NIC_RDM_FENCE = 1 << 4,	    /* start when all earlier requests to this peer have completed */
	NIC_RDM_MULTI = 1 << 5,	    /* RECV: the buffer takes messages until fewer than `min_free` bytes are left. In
				     * a completion: no more messages follow */
	NIC_RDM_CLAIM = 1 << 6,	    /* RECV: take the message that nic_rdm_peek claimed for this context */
	NIC_RDM_DISCARD = 1 << 7,   /* with CLAIM, or in a peek: drop the message */
	NIC_RDM_OPERATED = 1 << 8,  /* RECV completion: the receive was the target of an element operation */
	NIC_RDM_UNAWAITED = 1 << 9, /* the caller waits only for a failure: a successful completion may be reported a
				     * little later */
	NIC_RDM_CHECK = 1 << 10,    /* start nothing; only check whether the request would be accepted if there were
				     * room */
};

/** What kind of request, or of event, a completion reports. */
enum nic_rdm_kind {
	NIC_RDM_SEND,
	NIC_RDM_RECV,
	NIC_RDM_WRITE,
	NIC_RDM_READ,
	NIC_RDM_ATOMIC,	      /* an element operation that returns nothing */
	NIC_RDM_FETCH,	      /* an element operation that returns results */
	NIC_RDM_REMOTE_WRITE, /* a peer's WRITE with NIC_RDM_DATA has arrived; `context` is NULL */
	NIC_RDM_KINDS
};

/** Status of a completion; a failed request can also have a status from enum nic_wc_status. */
enum nic_rdm_status {
	NIC_RDM_OK = NIC_WC_SUCCESS,
	NIC_RDM_CANCELED = 0x100, /* canceled by nic_rdm_cancel */
	NIC_RDM_TRUNCATED,   /* RECV: the message was longer than the buffer, which is filled; the sender is not told */
	NIC_RDM_UNREACHABLE, /* the peer has not answered within nic_rdm_init.connect_ns, or an endpoint with `cm` is
			      * not connected */
	NIC_RDM_PEER_LOST,   /* the connection was lost after the request began; RECV: while the message was arriving */
	NIC_RDM_REFUSED,     /* RECV: an element operation on this receive could not be executed */
	NIC_RDM_NO_MEMORY,   /* this NIC had no memory or no QP left; the peer may be reachable */
};

struct nic_rdm_done {
	void *context; /* context and cookie: as in the request */
	uint64_t cookie;
	enum nic_rdm_kind kind;
	uint32_t flags;	 /* as in the request: TAGGED, INJECT, DATA of a SEND or WRITE. About the message, see enum
			  * nic_rdm_flags: DATA of a RECV or REMOTE_WRITE, MULTI, OPERATED */
	uint32_t status; /* enum nic_rdm_status or enum nic_wc_status */
	uint32_t vendor_err;
	struct nic_rdm_peer *peer; /* the request's target, or the message's sender, valid as long as the endpoint;
				    * NULL: a RECV that failed without a message */
	void *buf;		   /* RECV: where the message is */
	uint64_t len;		   /* bytes transferred */
	uint64_t overflow;	   /* RECV: how many bytes of the message did not fit in the buffer */
	uint64_t tag, data;	   /* RECV; data also for REMOTE_WRITE */
};

/** Connection management events of an endpoint with one peer, or of a listening endpoint. */
enum nic_rdm_cm_kind {
	NIC_RDM_CM_REQUEST,	/* connection request: accept it for another endpoint, or refuse it */
	NIC_RDM_CM_CONNECTED,	/* the connection is up */
	NIC_RDM_CM_REFUSED,	/* the request was refused */
	NIC_RDM_CM_UNREACHABLE, /* the peer has not answered within nic_rdm_init.connect_ns */
	NIC_RDM_CM_SHUTDOWN,	/* the peer is gone; outstanding requests have failed or will fail soon */
	NIC_RDM_CM_NO_MEMORY,	/* this NIC has no memory or no QP for the connection */
};

#define NIC_RDM_CM_DATA_MAX 192u

struct nic_rdm_cm_event {
	enum nic_rdm_cm_kind kind;
	uint32_t request;	  /* REQUEST: its number, for accept or refuse */
	struct nic_rdm_addr from; /* REQUEST: the endpoint that asks; otherwise the endpoint that answered or was
				   * asked */
	const void *data;	  /* REQUEST, CONNECTED, REFUSED: private data of the peer; valid until the callback
				   * returns */
	uint32_t len;
};

/** A queue of receives shared by several endpoints. */
struct nic_rdm_rq_init {
	uint32_t max_rx; /* max_rx, max_unexpected: as in nic_rdm_init, for all endpoints of the queue together */
	uint64_t max_unexpected;
	/** Called when a receive completes and no endpoint can report it: the receive was canceled, or the endpoint was
	 *  destroyed while a message was arriving in the receive's buffer. `done->peer` is NULL. The rules of
	 *  nic_rdm_init.done apply. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	void *ctx;
};

struct nic_rdm_init {
	struct nic_pd *pd;
	struct nic_rdm_addr addr; /* addr.gid must be in the NIC's GID table, and the caller must route packets for
				   * addr.port to this NIC */
	uint32_t max_tx, max_rx;  /* max outstanding requests, max posted receives; 0: 1024 */
	uint64_t connect_ns;	  /* how long a peer may take to answer a connection attempt; 0: 10 s */
	uint64_t max_unexpected;  /* max bytes of unexpected messages to hold; at the limit senders must wait, and
				   * datagrams are dropped. At least 64 KiB; 0: 64 MiB */
	struct nic_rdm_rq *rq;	  /* a shared queue, whose max_rx and max_unexpected apply; NULL: the endpoint has
				   * its own queue */
	bool datagrams;		  /* each message is one unreliable datagram, of up to nic_rdm_datagram_max bytes */
	bool strict;		  /* when a connection is lost, requests that have not begun fail, so that no request
				   * is executed after an earlier request was lost. If false, requests that have not
				   * begun use the next connection */
	bool plain;		  /* refuses messages of more than NIC_RDM_EAGER_MAX bytes, and operations on elements
				   * of a receive. A peer that sends one loses the connection */
	uint8_t timeout;	  /* the queue pairs' nic_qp_attr.timeout; 0: 14 */
	uint8_t retry_cnt;	  /* as nic_qp_attr.retry_cnt, but up to 255; 0: enough retries to last for peer_ns */
	uint64_t peer_ns;	  /* about how long a connected peer may take to answer a request; 0: 6 s */
	/** Called when a request has completed, from within a NIC call, which can be the call that makes the
	 *  request. Must not call the NIC, except nic_trig_add, nic_trig_set and functions that read or set
	 *  values of the peer. *done is valid until the callback returns. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	/** NULL, or called when a peer's request to registered memory has been served. `write`: a WRITE or element
	 *  operation may have changed the memory. `read`: a READ or a fetching operation returned contents of the
	 *  memory. A request can set both. A request with several segments, or larger than a packet, is reported
	 *  more than once. Same rules as `done`. */
	void (*served)(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write);
	/** NULL, or called when an endpoint at this address connects. Same rules as `done`. @return whether it may */
	bool (*admits)(void *ctx, const struct nic_rdm_addr *from);
	/** Not NULL: the endpoint has a single peer, which the nic_rdm_cm_ functions connect, and this callback
	 *  receives the connection events. Same rules as `done`. */
	void (*cm)(void *ctx, const struct nic_rdm_cm_event *event);
	bool listens; /* with `cm`: also accepts connection requests */
	void *ctx;
};

/**
 * As nic_mr_reg, but peers use an R_Key that the caller has chosen; it is valid for QPs of this protection domain.
 * Other protection domains may use the same R_Key. The NIC chooses the L_Key. @return as nic_mr_reg; -EEXIST: the
 * protection domain already has this R_Key.
 */
int nic_mr_reg_named(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, uint32_t rkey,
		     struct nic_mr **out);

/** Create an endpoint. @return 0, -EINVAL, -EADDRINUSE (another endpoint of this NIC has the port), -ENOMEM. */
int nic_rdm_create(struct nic *nic, const struct nic_rdm_init *init, struct nic_rdm **out);
/** Call this before nic_rdm_destroy: from now on nic_tx no longer delays requests in order to send several in one
 *  packet. */
void nic_rdm_no_delay(struct nic_rdm *ep);
void nic_rdm_no_delay_all(struct nic *nic);
/**
 * Call this before nic_rdm_destroy: it tells connected peers that the endpoint closes, so that their later requests go
 * to the next endpoint at the same address. The endpoint still answers earlier requests, but starts none of its own and
 * connects to no peer. No effect on endpoints with one peer (see nic_rdm_cm_shutdown) or on datagram endpoints.
 * @return how many peers this call has told. The room in the send queue limits the number, so call again once nic_tx
 * has sent those packets. 0: every peer has been told once, or the send queue has no room.
 */
unsigned nic_rdm_leave(struct nic_rdm *ep);
/** Destroy an endpoint. Outstanding requests and receives end without a completion; peers notice at their next
 *  request. Receives in a shared queue stay there, except receives with a message arriving, which fail with
 *  NIC_RDM_PEER_LOST. Unsent responses are lost: call nic_ack_flush and nic_tx first, or peers count executed
 *  requests as lost. */
void nic_rdm_destroy(struct nic_rdm *ep);
struct nic_rdm_addr nic_rdm_address(const struct nic_rdm *ep);

uint32_t nic_rdm_datagram_max(const struct nic *nic);

/**
 * Ask the listening endpoint at `to` for a connection; the outcome is an event. If no endpoint listens there, any
 * endpoint of the NIC that receives the request refuses it.
 * @param data private data sent along. @return 0, -EINVAL (too much data, no valid address, endpoint without `cm`),
 * -EISCONN (connection requested before).
 */
int nic_rdm_cm_connect(struct nic_rdm *ep, const struct nic_rdm_addr *to, const void *data, uint32_t len);
/** Accept a connection request that `listener` has received: connect `ep` to the sender of the request. @return as
 *  nic_rdm_cm_connect; -ENOENT: no such request. */
int nic_rdm_cm_accept(struct nic_rdm *listener, uint32_t request, struct nic_rdm *ep, const void *data, uint32_t len);
int nic_rdm_cm_refuse(struct nic_rdm *listener, uint32_t request, const void *data, uint32_t len);
/** End the connection. The endpoint cannot connect again. The NIC tells the peer, and sends the acknowledgments that
 *  are due. */
void nic_rdm_cm_shutdown(struct nic_rdm *ep);
/** The peer of an endpoint with one peer; NULL: not connected. */
struct nic_rdm_peer *nic_rdm_cm_peer(const struct nic_rdm *ep);

/** Find the peer with this address, or create it; no endpoint needs to exist at the address.
 *  @return the peer, valid as long as `ep`; NULL: no memory, or an address that no peer can have
 *  (nic_rdm_peer_may_be). */
struct nic_rdm_peer *nic_rdm_peer_get(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** As nic_rdm_peer_get, but returns NULL instead of creating a peer. */
struct nic_rdm_peer *nic_rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** Whether a peer of the endpoint can have this address: a GID of the endpoint's family, not zero, and a valid port. */
bool nic_rdm_peer_may_be(const struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** nic_rdm_init.ctx of the endpoint that the peer belongs to. */
void *nic_rdm_peer_owner(const struct nic_rdm_peer *peer);
/** The caller's own value for the peer; UINT64_MAX until set. */
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
	const struct nic_iov *iov; /* with MULTI, exactly one segment */
	uint32_t n_iov;
	uint64_t tag, ignore;
	const struct nic_rdm_peer *from; /* NULL: any peer */
	size_t min_free;		 /* with MULTI, at least 1 */
};

struct nic_rdm_rma {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	bool read;
	const struct nic_iov *iov;
	uint32_t n_iov;
	const struct nic_rdm_remote *remote; /* as many bytes as in iov */
	uint32_t n_remote;
	uint64_t data;
};

/** An operation on elements. Each vector that the operation uses has as many elements as all remote segments together;
 *  each segment is a whole number of elements. */
struct nic_rdm_atomic {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	const struct nic_iov *operand, *compare, *result;
	uint32_t n_operand, n_compare, n_result; /* n_result 0: a base operation */
	const struct nic_rdm_remote *remote;
	uint32_t n_remote;
	uint64_t tag; /* TAGGED: the target is the peer's receive that matches this tag, and `remote` is one segment,
		       * whose addr is an offset in that receive's buffer */
};

/**
 * Make requests. No call blocks: up to max_tx requests are queued until they can be sent.
 * @return 0; -EAGAIN: no room now, but outstanding requests will free some; -ENOMEM: no memory and no outstanding
 * requests, or no memory for a connection to this peer; -EINVAL; -EMSGSIZE: longer than this header allows;
 * -EOPNOTSUPP: the operation does not exist for this datatype, or the endpoint is a datagram endpoint and the request
 * is not a plain SEND.
 */
int nic_rdm_send(struct nic_rdm_peer *peer, const struct nic_rdm_send *r);
int nic_rdm_rma(struct nic_rdm_peer *peer, const struct nic_rdm_rma *r);
int nic_rdm_atomic(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r);
/** Post a receive. @return 0, -EAGAIN, -EINVAL as nic_rdm_send; -ENOMSG: CLAIM without a message claimed for this
 *  context; -EOPNOTSUPP: the endpoint has a shared queue, use nic_rdm_rq_recv. */
int nic_rdm_recv(struct nic_rdm *ep, const struct nic_rdm_recv *r);
/** Maximum number of elements in one operation, all segments together; 0: no such operation. */
uint32_t nic_rdm_atomic_max(uint32_t op, uint32_t datatype, enum nic_elem_form form);

/** Look for the unexpected message that the receive *r would match. The match depends only on the flag TAGGED and on
 *  `tag`, `ignore` and `from` of *r. *found describes the message like a RECV completion, with its full length. The
 *  flag CLAIM sets the message aside for r->context; DISCARD drops the message. @return 0, -ENOMSG, -EOPNOTSUPP (queue
 *  is shared). */
int nic_rdm_peek(struct nic_rdm *ep, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
/** Cancel a posted receive with this context. It completes with NIC_RDM_CANCELED during the call; a MULTI receive
 *  with messages still arriving completes after those messages. @return 0, -ENOENT: no such receive is posted,
 *  -EOPNOTSUPP (queue is shared). */
int nic_rdm_cancel(struct nic_rdm *ep, const void *context);

/**
 * Create a queue of receives for endpoints that are created with it. Messages are matched as if all these endpoints
 * were one, and complete at the endpoint at which they arrived. @return 0, -EINVAL, -ENOMEM.
 */
int nic_rdm_rq_create(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out);
/** Destroy a shared queue; its remaining receives end without a completion. @return 0, -EBUSY: endpoints use the
 *  queue, or it is not a shared one. */
int nic_rdm_rq_destroy(struct nic_rdm_rq *rq);
/** The endpoint's receive queue: the shared one, or its own, which lives as long as the endpoint. */
struct nic_rdm_rq *nic_rdm_rq_of(struct nic_rdm *ep);
/** As nic_rdm_recv, nic_rdm_peek and nic_rdm_cancel, but for a receive queue, which may be shared. @return never
 *  -EOPNOTSUPP; recv and peek also -EINVAL: `from` is set and the queue is shared. */
int nic_rdm_rq_recv(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r);
int nic_rdm_rq_peek(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
int nic_rdm_rq_cancel(struct nic_rdm_rq *rq, const void *context);

#endif
