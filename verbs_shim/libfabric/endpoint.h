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
	struct ufi_request *request;	   /* the request to accept; NULL: the endpoint connects */
	struct nic_rdm_addr local, remote; /* local: address of the passive endpoint, if this endpoint accepts */
};

/** An endpoint's state, which its aliases share. */
struct ufi_core {
	struct ufi_domain *domain;
	const struct ufi_type *type;
	struct nic_rdm *rdm; /* NULL: not enabled */
	struct nic_rdm_addr addr;
	bool served;  /* the endpoint holds its port */
	bool closing; /* only receives of a shared context are still reported */
	struct ufi_cm cm;
	struct ufi_av *av;
	bool av_shared; /* the address vector is shared with other processes */
	struct ufi_core *next_of_av;
	struct ufi_cq *tx_cq, *rx_cq;
	struct ufi_cntr *cntrs[UFI_COUNTS];
	struct nic_rdm_rq *rq; /* receive queue; NULL: not enabled, or the endpoint receives through srx */
	struct ufi_stx *stx;   /* NULL: not bound */
	size_t sent;	       /* number of slots of stx that this endpoint's requests occupy */
	struct ufi_srx *srx;   /* NULL: not bound */
	struct ufi_core *next_of_srx;
	bool tx_shared, rx_shared; /* opened with FI_SHARED_CONTEXT, so a shared context must be bound */
	bool tx_selective, rx_selective;
	bool reads_first; /* a request that would overtake an RMA read waits until the read is done */
	uint64_t caps;
	size_t tx_size, rx_size, min_multi_recv;
	uint32_t reads;		     /* RMA reads in flight */
	struct list triggered;	     /* triggered operations that wait for a counter (work.h), in posting order */
	struct list works;	     /* deferred requests that wait or have started, but have not completed (work.h) */
	struct nic_rdm_peer **peers; /* indexed by fi_addr_t; NULL: not yet looked up */
	size_t n_peers;
	atomic_uint aliases;
};

struct ufi_ep {
	struct fid_ep ep;
	struct ufi_core *core;
	struct ufi_core own;		     /* unused in an alias */
	uint64_t tx_op_flags, rx_op_flags;   /* the default flags that the application set */
	uint64_t tx_flags, rx_flags;	     /* flags for calls that have no flags argument */
	uint64_t tx_msg_flags, rx_msg_flags; /* added to the flags of calls that have a flags argument */
};

extern struct fi_ops_ep ufi_ep_ops;
extern struct fi_ops_cm ufi_ep_cm_ops;

int ufi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context);
int ufi_ep_enable(struct ufi_core *core);
/** Bind an object to an endpoint. Once the endpoint is enabled, only counters and shared transmit contexts can be
 * bound. */
int ufi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
/** Undo all binds. */
void ufi_ep_unbind(struct ufi_core *core);
/** Recompute the request flags after op_flags or a binding has changed. */
void ufi_ep_flags(struct ufi_ep *ep);
/** Called for each address of the vector, when it was inserted or when the endpoint is enabled. A datagram endpoint
 * then reports the source of datagrams from this address. Engine lock held. */
void ufi_ep_meet(struct ufi_core *core, fi_addr_t fi_addr);
/** The peer of a fi_addr_t. Engine lock held. @return NULL: no such fi_addr_t, or no memory. */
struct nic_rdm_peer *ufi_ep_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** The reason why ufi_ep_peer returned NULL. @return -FI_EINVAL, -FI_ENOMEM. */
int ufi_ep_no_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** Called when a fi_addr_t was removed: forget its peer. Engine lock held. */
void ufi_ep_forget(struct ufi_core *core, fi_addr_t fi_addr);

/* ---- shared receive context (srx.c) --------------------------------------------------------------------- */

/** A shared receive context. The code that posts receives treats it as an endpoint. */
struct ufi_srx {
	struct ufi_ep ep;
	struct ufi_core *members; /* the bound endpoints, in binding order */
	atomic_uint users;
};

int ufi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out, void *context);
/** Bind an endpoint to the context. @return 0, -FI_EIO. */
int ufi_srx_join(struct ufi_srx *srx, struct ufi_core *core);
/** Remove an endpoint that closes. This function and the next two are called with the engine lock held. */
void ufi_srx_leave(struct ufi_core *core);
/** Whether an endpoint with this address vector can use the context. All enabled endpoints of the context, except
 * connected ones, must have the same address vector. */
bool ufi_srx_accepts(const struct ufi_srx *srx, const struct ufi_av *av);
/** The endpoint that reports those completions of the context that belong to no endpoint. @return NULL: no bound
 * endpoint has a completion queue for receives. */
struct ufi_core *ufi_srx_reporter(struct ufi_srx *srx);

/* ---- connections (cm.c), passive endpoints (pep.c, request.c) ------------------------------------------- */

/** A nic_rdm_init.cm callback; ctx is the struct ufi_core. */
void ufi_cm_event(void *ctx, const struct nic_rdm_cm_event *event);
int ufi_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int ufi_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int ufi_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int ufi_cm_shutdown(struct fid_ep *ep, uint64_t flags);
/** End the connection of an endpoint that closes. Engine lock held. */
void ufi_cm_close(struct ufi_core *core);

/** Whether `handle` points to an open passive endpoint. Any pointer is allowed: it is only compared. */
bool ufi_pep_exists(const struct fid *handle);
int ufi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out, void *context);
/** Use info->handle for a new endpoint. The handle is either the connection request that the endpoint is to accept,
 * or a passive endpoint whose port the new endpoint takes over. @return 0, -FI_EINVAL: the handle is neither, belongs
 * to another device, or is already used, or the passive endpoint listens. */
int ufi_pep_give(struct ufi_core *core, const struct fid *handle);
/** Accept a request with an endpoint. Engine lock held. @return as nic_rdm_cm_accept; -FI_ECONNABORTED: already
 * answered, or the passive endpoint has closed. */
int ufi_request_accept(struct ufi_request *r, struct nic_rdm *ep, const void *data, size_t len);
/** Called when the endpoint that was opened for the request closes. Engine lock held. */
void ufi_request_leave(struct ufi_request *r);

#endif
