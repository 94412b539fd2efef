/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.h - requests on endpoints (post.c), their completions (comp.c); see provider.h. */
#ifndef UFI_REQUESTS_H
#define UFI_REQUESTS_H

#include "endpoint.h"

extern struct fi_ops_msg ufi_msg_ops;
extern struct fi_ops_tagged ufi_tagged_ops;
extern struct fi_ops_rma ufi_rma_ops;
extern struct fi_ops_atomic ufi_atomic_ops;

int ufi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags);

/** The lowest bit of a request's cookie. If it is set, the completion queue gets an entry even if the request succeeds.
 * The other bits are the address of a struct ufi_work, or NULL. */
#define UFI_COOKIE_COMPLETE 1u

/** How to post a request to the NIC. */
struct ufi_way {
	struct ufi_work *work; /* deferred work that the request belongs to; NULL: none */
	bool check;	       /* validate only, do not post */
};
extern const struct ufi_way ufi_at_once;

static inline uint64_t ufi_cookie(const struct ufi_way *way, uint64_t flags)
{
	return (uintptr_t)way->work | (flags & FI_COMPLETION ? UFI_COOKIE_COMPLETE : 0);
}

static inline struct ufi_ep *ufi_ep_of(struct fid_ep *ep)
{
	return container_of(ep, struct ufi_ep, ep);
}

/** A message to send. `flags` are libfabric's, and include FI_TAGGED or FI_MSG. */
struct ufi_send {
	const struct iovec *iov;
	size_t n_iov;
	fi_addr_t to;
	uint64_t tag, data, flags;
	void *context;
};

struct ufi_recv {
	const struct iovec *iov;
	size_t n_iov;
	fi_addr_t from;
	uint64_t tag, ignore, flags;
	void *context;
};

/** An RMA request. `flags` include FI_READ or FI_WRITE. */
struct ufi_rma {
	const struct iovec *iov;
	size_t n_iov;
	const struct fi_rma_iov *remote;
	size_t n_remote;
	fi_addr_t to;
	uint64_t data, flags;
	void *context;
};

/** An atomic operation: base, fetch or compare. */
struct ufi_atomic {
	enum nic_elem_form form;
	const struct fi_ioc *operand, *compare, *result;
	size_t n_operand, n_compare, n_result;
	const struct fi_rma_ioc *remote; /* NULL: one segment at addr, of the local segments' total length */
	size_t n_remote;
	uint64_t addr, key;
	fi_addr_t to;
	enum fi_datatype datatype;
	enum fi_op op;
	uint64_t flags;
	void *context;
};

/** Execute a send or receive that the application has called for: check it, and post it, peek, or queue it as a
 * triggered operation. @return 0, or a negative fi_errno. */
ssize_t ufi_send(struct ufi_ep *ep, const struct ufi_send *s);
ssize_t ufi_recv(struct ufi_ep *ep, const struct ufi_recv *r);

/** Check a request, as far as this is possible without the engine lock. In a checked request, except an atomic, `iov`
 * has at most NIC_RDM_IOV_MAX segments and `remote` at most NIC_RDM_REMOTE_MAX. @param has the capabilities that the
 * request may use. @return 0, or a negative fi_errno. */
int ufi_send_check(const struct ufi_core *core, uint64_t has, const struct ufi_send *s);
int ufi_recv_check(const struct ufi_core *core, uint64_t has, const struct ufi_recv *r);
int ufi_rma_check(const struct ufi_core *core, const struct ufi_rma *r);
int ufi_atomic_check(const struct ufi_core *core, const struct ufi_atomic *a);
/** Post a checked request to the NIC. Engine lock held; the caller rings the doorbell afterwards. @return as
 * nic_rdm_send, or for a receive as nic_rdm_rq_recv; also -FI_EINVAL: the peer is unknown; -FI_ENOTCONN. */
int ufi_send_post(struct ufi_core *core, const struct ufi_send *s, const struct ufi_way *way);
int ufi_recv_post(struct ufi_core *core, const struct ufi_recv *r, const struct ufi_way *way);
int ufi_rma_post(struct ufi_core *core, const struct ufi_rma *r, const struct ufi_way *way);
int ufi_atomic_post(struct ufi_core *core, const struct ufi_atomic *a, const struct ufi_way *way);

/** Queue a request that has FI_TRIGGER: the request starts when a counter reaches a threshold (trigger.c). */
ssize_t ufi_trigger_send(struct ufi_core *core, const struct ufi_send *s);
ssize_t ufi_trigger_recv(struct ufi_core *core, const struct ufi_recv *r);
ssize_t ufi_trigger_rma(struct ufi_core *core, const struct ufi_rma *r);
ssize_t ufi_trigger_atomic(struct ufi_core *core, const struct ufi_atomic *a);

/** Translate request flags for the NIC. Adds NIC_RDM_FENCE if the endpoint's ordering requires it. */
uint32_t ufi_request_flags(const struct ufi_core *core, uint64_t flags, const struct ufi_way *way);
/** The flags of a request whose call has a flags argument. */
static inline uint64_t ufi_msg_flags(const struct ufi_ep *ep, uint64_t flags)
{
	return flags | (ep->tx_msg_flags & (flags & UFI_LEVELS ? ~UFI_LEVELS : ~0ull));
}
/** Flags of an inject call: without FI_COMPLETION, because a success gets no queue entry. */
static inline uint64_t ufi_inject_flags(const struct ufi_ep *ep)
{
	return (ep->tx_flags & ~FI_COMPLETION) | FI_INJECT;
}
/** Check that an endpoint has these capabilities and is enabled. @return 0, or the error. */
static inline int ufi_ep_check(const struct ufi_core *core, uint64_t caps)
{
	if ((core->caps & caps) != caps)
		return -FI_EOPNOTSUPP;
	return core->rdm ? 0 : -FI_EOPBADSTATE;
}
/** Find the peer of a request and, unless way->check, reserve a slot in the shared transmit context, if there is one.
 * Engine lock held. @return 0 with *peer; -FI_EINVAL, -FI_ENOMEM, -FI_ENOTCONN; -EAGAIN: no slot is free. */
int ufi_post_begin(struct ufi_core *core, fi_addr_t to, const struct ufi_way *way, struct nic_rdm_peer **peer);
/** Called after ufi_post_begin() has succeeded: if `rc`, the NIC's result, is an error, release the slot. @return
 * rc. */
int ufi_post_end(struct ufi_core *core, const struct ufi_way *way, int rc);
/** End a call that posted a request, with the NIC's result: ring the doorbell or, on -EAGAIN, make progress; then
 * release the engine lock. @return rc. */
ssize_t ufi_call_end(struct ufi_core *core, int rc);

/** A nic_rdm_init.done callback; ctx is the struct ufi_core. */
void ufi_done(void *ctx, const struct nic_rdm_done *done);
/** Report a completion to the endpoint's queue and counters. The statuses below are for failures that the provider
 * detects, not the NIC. Except with UFI_STATUS_NO_SOURCE, the failed request was never in flight. */
#define UFI_STATUS_NO_MESSAGE  0x200u
#define UFI_STATUS_NO_SOURCE   0x201u
#define UFI_STATUS_NO_PEER     0x202u
#define UFI_STATUS_UNCONNECTED 0x203u
void ufi_tell(struct ufi_core *core, const struct nic_rdm_done *done);
/** The nic_rdm_init.served callback. */
void ufi_served(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write);
/** Report the result of the peek `r`. @param found the message; NULL: none matches. Engine lock held. */
void ufi_done_peek(struct ufi_core *core, const struct ufi_recv *r, const struct nic_rdm_done *found);
/** The message text for a prov_errno. */
const char *ufi_comp_strerror(int prov_errno);

#endif
