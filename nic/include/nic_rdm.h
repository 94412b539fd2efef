/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_rdm.h - reliable datagram endpoints: tagged and untagged messages, RMA and element operations to any number of
 * peers, with the guarantees of libfabric's FI_EP_RDM. The second public header of the NIC; the calling rules of
 * nic.h apply.
 *
 * An endpoint's address is a GID and a 16-bit port. It has one RC queue pair per peer, which the NIC connects on
 * first use and reconnects when it has failed or the peer has restarted; rdm.md describes that and the wire format.
 * The NIC matches tags, scatters short messages into their buffer and reads long ones from the sender: no application
 * has to run for any of it.
 *
 * Buffers need no registration, except those that peers access by RMA and element operations (nic_mr_reg, in the
 * endpoint's protection domain). Requests are copied during the call; buffers belong to the NIC until `done` reports
 * the request, or with NIC_RDM_INJECT only during the call.
 */
#ifndef NIC_NIC_RDM_H
#define NIC_NIC_RDM_H

#include "nic.h"
#include "nic_elem.h"

struct nic_rdm;	     /* an endpoint */
struct nic_rdm_rq;   /* a queue of receives */
struct nic_rdm_peer; /* a remote endpoint, or itself, as seen by a local one */

/* Service queue pairs: the QPN is a function number that no process has, and a port. Their packets reach the process
 * that serves that port of the device. Port 65535 is excluded: its QPN, 0xffffff, is the multicast QP. */
#define NIC_SERVICE_QPN	     0xff0000u
#define NIC_SERVICE_PORT_MAX 65534u

#define NIC_RDM_IOV_MAX	   4u		/* segments of a local buffer */
#define NIC_RDM_REMOTE_MAX 4u		/* segments of remote memory that a request names */
#define NIC_RDM_EAGER_MAX  8192u	/* bytes; the receiving NIC reads longer messages */
#define NIC_RDM_INJECT_MAX 128u		/* bytes of a request with NIC_RDM_INJECT */
#define NIC_RDM_UD_HEADER  32u		/* bytes of the MTU taken by a datagram's header */
#define NIC_RDM_MSG_MAX	   (1ull << 40) /* bytes of a message, or of an RMA request */

struct nic_rdm_addr {
	struct nic_gid gid;
	uint16_t port; /* 1 .. NIC_SERVICE_PORT_MAX */
};

/** Laid out as struct iovec. */
struct nic_iov {
	void *base;
	size_t len;
};

/** Memory of a peer: an address, and the key that the peer registered it under. */
struct nic_rdm_remote {
	uint64_t addr, len;
	uint32_t rkey;
};

enum nic_rdm_flags {
	NIC_RDM_TAGGED = 1 << 0,   /* SEND, RECV: match by tag. Tagged and untagged traffic never match */
	NIC_RDM_DATA = 1 << 1,	   /* SEND, WRITE: send `data` along. RECV, REMOTE_WRITE completion: it arrived */
	NIC_RDM_INJECT = 1 << 2,   /* the caller may reuse the buffer when the call returns */
	NIC_RDM_DELIVERY = 1 << 3, /* SEND: done when a receive has taken the message, not when the peer's NIC has it */
	NIC_RDM_FENCE = 1 << 4,	   /* start after all earlier requests to this peer are done */
	NIC_RDM_MULTI = 1 << 5,	   /* RECV: the buffer takes messages until less than `min_free` bytes are left.
				    * In a completion: it was the last one */
	NIC_RDM_CLAIM = 1 << 6,	   /* RECV: take the message that nic_rdm_peek claimed for this context */
	NIC_RDM_DISCARD = 1 << 7,  /* with CLAIM, or in a peek: drop the message */
	NIC_RDM_OPERATED = 1 << 8, /* RECV completion: it was the target of an element operation */
	NIC_RDM_UNAWAITED = 1 << 9, /* the caller awaits only a failure: completion may come a little later */
	NIC_RDM_CHECK = 1 << 10,    /* start nothing, only check: would the request be accepted, given room? */
};

/** Kind of request or event that a completion reports. */
enum nic_rdm_kind {
	NIC_RDM_SEND,
	NIC_RDM_RECV,
	NIC_RDM_WRITE,
	NIC_RDM_READ,
	NIC_RDM_ATOMIC,	      /* an element operation that returns nothing */
	NIC_RDM_FETCH,	      /* an element operation that returns results */
	NIC_RDM_REMOTE_WRITE, /* a peer's WRITE with data has arrived; no context */
	NIC_RDM_KINDS
};

/** In addition to enum nic_wc_status, which also occurs for failed requests. */
enum nic_rdm_status {
	NIC_RDM_OK = NIC_WC_SUCCESS,
	NIC_RDM_CANCELED = 0x100, /* by nic_rdm_cancel */
	NIC_RDM_TRUNCATED,   /* RECV: the message was longer than the buffer, which is full; the sender is not told */
	NIC_RDM_UNREACHABLE, /* the peer has not answered within nic_rdm_init.connect_ns */
	NIC_RDM_PEER_LOST,   /* the peer was lost after the request began; RECV: in mid-message */
	NIC_RDM_REFUSED,     /* RECV: an element operation targeted it and could not be executed there */
	NIC_RDM_NO_MEMORY,   /* this NIC lacked memory or a QP; says nothing about the peer */
};

struct nic_rdm_done {
	void *context; /* context, cookie: from the request */
	uint64_t cookie;
	enum nic_rdm_kind kind;
	uint32_t flags;	 /* TAGGED, INJECT: of the request; DATA, MULTI, OPERATED as above */
	uint32_t status; /* enum nic_rdm_status or enum nic_wc_status */
	uint32_t vendor_err;
	struct nic_rdm_peer *peer; /* target or source; NULL: a RECV failed without one */
	void *buf;		   /* RECV: where the message is */
	uint64_t len;		   /* bytes transferred */
	uint64_t overflow;	   /* RECV: bytes beyond the buffer */
	uint64_t tag, data;	   /* RECV; data also for REMOTE_WRITE */
};

/** Connection management events, of an endpoint with one peer or of one that listens. */
enum nic_rdm_cm_kind {
	NIC_RDM_CM_REQUEST,	/* connection request: accept it for another endpoint, or refuse it */
	NIC_RDM_CM_CONNECTED,	/* the connection is up */
	NIC_RDM_CM_REFUSED,	/* the request was refused */
	NIC_RDM_CM_UNREACHABLE, /* no answer within connect_ns */
	NIC_RDM_CM_SHUTDOWN,	/* the peer is gone; outstanding requests have failed or are about to */
	NIC_RDM_CM_NO_MEMORY,	/* this NIC has no memory or no QP for the connection */
};

#define NIC_RDM_CM_DATA_MAX 192u

struct nic_rdm_cm_event {
	enum nic_rdm_cm_kind kind;
	uint32_t request;	  /* REQUEST: its number, for accept or refuse */
	struct nic_rdm_addr from; /* the endpoint that asks, that answered, or that was asked */
	const void *data;	  /* REQUEST, CONNECTED, REFUSED: private data from the other end; valid until return */
	uint32_t len;
};

/** A queue of receives shared by several endpoints. */
struct nic_rdm_rq_init {
	uint32_t max_rx; /* max_rx, max_unexpected: as in nic_rdm_init, for all its endpoints together */
	uint64_t max_unexpected;
	/** A receive ended without an endpoint: it was canceled, or the endpoint was destroyed while a message was
	 *  arriving in it. Otherwise as nic_rdm_init.done; `peer` is NULL. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	void *ctx;
};

struct nic_rdm_init {
	struct nic_pd *pd;
	struct nic_rdm_addr addr; /* the GID is one of the NIC's; the caller routes packets for the port to this NIC */
	uint32_t max_tx, max_rx;  /* limits: outstanding requests, posted receives; 0: 1024 */
	uint64_t connect_ns;	  /* how long a peer may take to answer a connection attempt; 0: 10 s */
	uint64_t max_unexpected;  /* bytes of messages held without a receive; beyond that senders wait and
				   * datagrams are dropped. At least 64 KiB; 0: 64 MiB */
	struct nic_rdm_rq *rq;	  /* NULL: its own; else this queue's max_rx and max_unexpected apply */
	bool datagrams;		  /* only SENDs, as datagrams of up to nic_rdm_datagram_max bytes */
	uint8_t timeout;	  /* of the queue pairs, as nic_qp_attr; 0: 14 */
	uint8_t retry_cnt;	  /* as nic_qp_attr, but up to 255; 0: enough to cover peer_ns */
	uint64_t peer_ns;	  /* about how long a connected peer may leave a request unanswered; 0: 6 s */
	/** A request has completed. Called from within NIC calls, possibly from the one that makes the request; must
	 *  not call the NIC. *done is valid until return. */
	void (*done)(void *ctx, const struct nic_rdm_done *done);
	/** NULL, or called when a peer's request to memory has been served. `write`: a WRITE or element operation may
	 *  have changed the memory; `read`: its contents were returned, by a READ or a fetching operation; or both. A
	 *  request with several segments, or larger than a packet, is reported as several. Same rules as `done`. */
	void (*served)(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write);
	/** Not NULL: the endpoint has one peer, connected by the nic_rdm_cm_ calls, and this receives the events.
	 *  Same rules as `done`. */
	void (*cm)(void *ctx, const struct nic_rdm_cm_event *event);
	bool listens; /* with `cm`: also accepts connection requests */
	void *ctx;
};

/**
 * As nic_mr_reg, but peers of the domain's QPs use an R_Key that the caller has chosen. Other domains may use the same
 * one; the NIC still chooses the L_Key. @return also -EEXIST: the domain already has this R_Key.
 */
int nic_mr_reg_named(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, uint32_t rkey,
		     struct nic_mr **out);

/** @return 0, -EINVAL, -EADDRINUSE (another endpoint of this NIC has the port), -ENOMEM. */
int nic_rdm_create(struct nic *nic, const struct nic_rdm_init *init, struct nic_rdm **out);
/** Call before nic_rdm_destroy: from now on nic_tx no longer holds requests back to send them with others in one
 *  packet. */
void nic_rdm_no_delay(struct nic_rdm *ep);
void nic_rdm_no_delay_all(struct nic *nic);
/**
 * Call before nic_rdm_destroy: tell connected peers, so that their later requests to this address go to the next
 * endpoint there. The endpoint still answers earlier requests, but starts none and connects to no peer. No effect on
 * endpoints with one peer (see nic_rdm_cm_shutdown) or of datagrams.
 * @return how many peers were told by this call, as far as the send queue had room. Call again once nic_tx has sent
 * that, until it returns 0: all have been told, each once, or there was no room at all.
 */
unsigned nic_rdm_leave(struct nic_rdm *ep);
/** Outstanding requests and receives end without a completion; peers find out at their next request. Receives in a
 *  shared queue stay there, except those with a message arriving: they fail with NIC_RDM_PEER_LOST. Unsent responses
 *  are lost: call nic_ack_flush and nic_tx before, or peers take executed requests for lost. */
void nic_rdm_destroy(struct nic_rdm *ep);
struct nic_rdm_addr nic_rdm_address(const struct nic_rdm *ep);

uint32_t nic_rdm_datagram_max(const struct nic *nic);

/**
 * Ask the listening endpoint at `to` for a connection; the outcome is an event. If no endpoint listens there, an
 * endpoint of that host refuses, provided its NIC receives the request.
 * @param data private data sent along. @return 0, -EINVAL (too much data, no valid address, endpoint without `cm`),
 * -EISCONN (connection requested before).
 */
int nic_rdm_cm_connect(struct nic_rdm *ep, const struct nic_rdm_addr *to, const void *data, uint32_t len);
/** Accept a REQUEST of `listener`: connect `ep` to its sender. @return as nic_rdm_cm_connect; -ENOENT: no such
 *  request. */
int nic_rdm_cm_accept(struct nic_rdm *listener, uint32_t request, struct nic_rdm *ep, const void *data, uint32_t len);
int nic_rdm_cm_refuse(struct nic_rdm *listener, uint32_t request, const void *data, uint32_t len);
/** End the connection for good; the peer gets the last acknowledgments that are due, and is told. */
void nic_rdm_cm_shutdown(struct nic_rdm *ep);
/** The one peer; NULL: not connected. */
struct nic_rdm_peer *nic_rdm_cm_peer(const struct nic_rdm *ep);

/** The peer with this address, created if unknown; there need not be an endpoint. Valid as long as `ep`.
 *  @return NULL: no memory, or an address that no peer can have (GID family differs from the endpoint's, port 0). */
struct nic_rdm_peer *nic_rdm_peer_get(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** As nic_rdm_peer_get, but returns NULL instead of creating a peer. */
struct nic_rdm_peer *nic_rdm_peer_find(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** Whether a peer can have this address. */
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
	const struct nic_iov *iov; /* MULTI: one */
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

/** Each vector has as many elements as all remote segments together; a segment is a whole number of elements. */
struct nic_rdm_atomic {
	void *context;
	uint64_t cookie;
	uint32_t flags;
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	const struct nic_iov *operand, *compare, *result;
	uint32_t n_operand, n_compare, n_result; /* n_result 0: a base operation */
	const struct nic_rdm_remote *remote;
	uint32_t n_remote;
	uint64_t tag; /* TAGGED: the target is the receive that would match this tag; `remote` is one offset in it */
};

/**
 * Requests. None blocks: up to max_tx requests are kept until they can be sent.
 * @return 0, -EAGAIN: no room now, outstanding requests will free some, -ENOMEM: no memory and nothing outstanding,
 * or none for a connection to this peer, -EINVAL, -EMSGSIZE (longer than this header allows), -EOPNOTSUPP (elements:
 * no such pair of operation and datatype; datagrams: anything but plain SENDs).
 */
int nic_rdm_send(struct nic_rdm_peer *peer, const struct nic_rdm_send *r);
int nic_rdm_rma(struct nic_rdm_peer *peer, const struct nic_rdm_rma *r);
int nic_rdm_atomic(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r);
/** @return 0, -EAGAIN, -EINVAL as above; -ENOMSG: with CLAIM, nothing was claimed for this context; -EOPNOTSUPP: the
 *  endpoint shares a queue, post there. */
int nic_rdm_recv(struct nic_rdm *ep, const struct nic_rdm_recv *r);
/** Most elements of an operation, all segments together; 0: no such operation. */
uint32_t nic_rdm_atomic_max(uint32_t op, uint32_t datatype, enum nic_elem_form form);

/** Look for the message that this receive would match, by r's TAGGED, tag, ignore, from. *found describes it as a
 *  RECV, with its full length. CLAIM sets it aside for r->context, DISCARD drops it. @return 0, -ENOMSG, -EOPNOTSUPP
 *  (queue is shared). */
int nic_rdm_peek(struct nic_rdm *ep, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
/** Cancel a posted receive with this context. It completes, CANCELED, during the call, or for a MULTI receive with
 *  messages still arriving, after those. @return 0, -ENOENT: none is posted, -EOPNOTSUPP (queue is shared). */
int nic_rdm_cancel(struct nic_rdm *ep, const void *context);

/**
 * A queue of receives for endpoints that are created with it. Messages are matched as if all endpoints were one, and
 * complete at the endpoint they arrived at. @return 0, -EINVAL, -ENOMEM.
 */
int nic_rdm_rq_create(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out);
/** Remaining receives end without a completion. @return 0, -EBUSY: endpoints use it, or it is an endpoint's own. */
int nic_rdm_rq_destroy(struct nic_rdm_rq *rq);
/** The endpoint's receive queue: the shared one, or its own, which lives as long as the endpoint. */
struct nic_rdm_rq *nic_rdm_rq_of(struct nic_rdm *ep);
/** As nic_rdm_recv, nic_rdm_peek and nic_rdm_cancel, but on a queue; -EINVAL if `from` is set and the queue is
 *  shared. */
int nic_rdm_rq_recv(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r);
int nic_rdm_rq_peek(struct nic_rdm_rq *rq, const struct nic_rdm_recv *r, struct nic_rdm_done *found);
int nic_rdm_rq_cancel(struct nic_rdm_rq *rq, const void *context);

#endif
