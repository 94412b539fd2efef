/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.h - endpoints, shared receive contexts, passive endpoints and connections; see provider.h. */
#ifndef UFI_ENDPOINT_H
#define UFI_ENDPOINT_H

#include "provider.h"

/* ---- endpoint (ep.c, ep_bind.c) ------------------------------------------------------------------------- */

enum ufi_cm_state { UFI_CM_NEW, UFI_CM_CONNECTING, UFI_CM_CONNECTED, UFI_CM_CLOSED };

/** State of a connected endpoint (FI_EP_MSG). */
struct ufi_cm {
	struct ufi_eq *eq; /* NULL: not bound */
	enum ufi_cm_state state;
	struct ufi_request *request;	   /* request to accept; NULL: it connects */
	struct nic_rdm_addr local, remote; /* its name if it accepts (the passive endpoint's); the peer's */
};

/** An endpoint: the state that its aliases share. */
struct ufi_core {
	struct ufi_domain *domain;
	const struct ufi_type *type;
	struct nic_rdm *rdm; /* NULL: not enabled */
	struct nic_rdm_addr addr;
	bool served;  /* it holds the port */
	bool closing; /* completions are not reported any more */
	struct ufi_cm cm;
	struct ufi_av *av;
	bool av_shared; /* with other processes */
	struct ufi_core *next_of_av;
	struct ufi_cq *tx_cq, *rx_cq;
	struct ufi_cntr *cntrs[UFI_COUNTS];
	struct nic_rdm_rq *rq; /* receive queue; NULL: not enabled, or it uses a shared context */
	struct ufi_stx *stx;   /* NULL: not bound */
	size_t sent;	       /* its requests in flight in the shared context */
	struct ufi_srx *srx;   /* NULL: not bound */
	struct ufi_core *next_of_srx;
	bool tx_shared, rx_shared; /* must be bound to a shared context */
	bool tx_selective, rx_selective;
	bool reads_first; /* requests that would overtake an RMA read wait for it */
	uint64_t caps;
	size_t tx_size, rx_size, min_multi_recv;
	uint32_t reads;		     /* RMA reads in flight */
	struct list triggered;	     /* operations waiting for a counter (work.h), in the order of posting */
	struct list works;	     /* its deferred requests, waiting or started but not completed (work.h) */
	struct nic_rdm_peer **peers; /* by fi_addr_t; NULL: not yet looked up */
	size_t n_peers;
	atomic_uint aliases;
};

struct ufi_ep {
	struct fid_ep ep;
	struct ufi_core *core;
	struct ufi_core own;		     /* unused in an alias */
	uint64_t tx_op_flags, rx_op_flags;   /* as the application set them */
	uint64_t tx_flags, rx_flags;	     /* for calls without a flags argument */
	uint64_t tx_msg_flags, rx_msg_flags; /* added to the flags of calls that have them */
};

extern struct fi_ops_ep ufi_ep_ops;
extern struct fi_ops_cm ufi_ep_cm_ops;

int ufi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context);
int ufi_ep_enable(struct ufi_core *core);
/** Bind an object to an endpoint; once enabled only counters and shared transmit contexts. */
int ufi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
/** Undo all binds. */
void ufi_ep_unbind(struct ufi_core *core);
/** Recompute the request flags after op_flags or a binding has changed. */
void ufi_ep_flags(struct ufi_ep *ep);
/** A new address was inserted: the source of future messages. Engine lock held. */
void ufi_ep_meet(struct ufi_core *core, fi_addr_t fi_addr);
/** The peer of a fi_addr_t. Engine lock held. @return NULL: none, or no memory. */
struct nic_rdm_peer *ufi_ep_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** Why ufi_ep_peer failed. @return -FI_EINVAL, -FI_ENOMEM. */
int ufi_ep_no_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** A fi_addr_t was removed: forget its peer. Engine lock held. */
void ufi_ep_forget(struct ufi_core *core, fi_addr_t fi_addr);

/* ---- shared receive context (srx.c) --------------------------------------------------------------------- */

/** Posting receives treats it as an endpoint. */
struct ufi_srx {
	struct ufi_ep ep;
	struct ufi_core *members; /* endpoints, in the order of binding */
	atomic_uint users;
};

int ufi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out, void *context);
/** Bind an endpoint to it. @return 0, -FI_EIO. */
int ufi_srx_join(struct ufi_srx *srx, struct ufi_core *core);
/** These, engine lock held. Remove an endpoint that closes. */
void ufi_srx_leave(struct ufi_core *core);
/** Whether an endpoint with this address vector may use it: all its unconnected members share one. */
bool ufi_srx_accepts(const struct ufi_srx *srx, const struct ufi_av *av);
/** The endpoint that reports completions that belong to no endpoint. @return NULL: none has a queue. */
struct ufi_core *ufi_srx_reporter(struct ufi_srx *srx);

/* ---- connections (cm.c), passive endpoints (pep.c, request.c) ------------------------------------------- */

/** nic_rdm_init.cm; ctx is the struct ufi_core. */
void ufi_cm_event(void *ctx, const struct nic_rdm_cm_event *event);
int ufi_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int ufi_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int ufi_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int ufi_cm_shutdown(struct fid_ep *ep, uint64_t flags);
/** The endpoint closes: end its connection. Engine lock held. */
void ufi_cm_close(struct ufi_core *core);

/** Whether `handle` is an open passive endpoint; it may point to anything. */
bool ufi_pep_exists(const struct fid *handle);
int ufi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out, void *context);
/** Open an endpoint for info->handle: to accept the request that it names, or to take over the port of a passive
 *  endpoint.
 *  @return 0, -FI_EINVAL: it names neither, or one that cannot be used for this. */
int ufi_pep_give(struct ufi_core *core, const struct fid *handle);
/** Accept a request with an endpoint. Engine lock held. @return 0, -FI_ECONNABORTED (answered, or the passive
 *  endpoint has closed), -FI_EINVAL. */
int ufi_request_accept(struct ufi_request *r, struct nic_rdm *ep, const void *data, size_t len);
/** The endpoint that was opened for the request closes. Engine lock held. */
void ufi_request_leave(struct ufi_request *r);

#endif
