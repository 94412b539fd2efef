/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - the objects of the libfabric provider (private to verbs_shim/libfabric).
 *
 * Every object begins with the structure that libfabric's headers make public, so that a pointer to one is a pointer to the
 * other; what follows is ours. An endpoint is a `struct nic_rdm` (nic_rdm.h), which does all that happens between posting and
 * completion: here arguments are checked, addresses looked up, and what is done is written where the program looks for it.
 *
 * Locks: all objects of a domain are guarded by the lock of its engine (ufi_enter, ufi_leave); so are the callbacks of the
 * NIC. An event queue, which belongs to a fabric, has a mutex of its own, the innermost. Counts of users are atomic.
 *
 * Calls return 0, a count, or a negative fi_errno, as the man pages say.
 */
#ifndef UFI_PROVIDER_H
#define UFI_PROVIDER_H

#include <errno.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "nic_rdm.h"
#include "trigger.h"
#include "wait.h"

#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#endif

#define UFI_WARN(subsys, ...) FI_WARN(&ufi_provider, FI_LOG_##subsys, __VA_ARGS__)
#define UFI_INFO(subsys, ...) FI_INFO(&ufi_provider, FI_LOG_##subsys, __VA_ARGS__)

extern struct fi_provider ufi_provider;

/** What programs may set with FI_UROCE_*; see provider.c. */
struct ufi_params {
	size_t tx_size, rx_size; /* what fi_info says of queues */
	size_t max_unexpected;	 /* bytes */
	int connect_ms, peer_ms;
	int scalable_mr; /* of programs that are ready for both, keys and offsets are their own */
};
extern struct ufi_params ufi_params;

/* ---- what can be asked for (info.c, match.c) ------------------------------------------------------------ */

#define UFI_TX_PRIMARY (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC)
#define UFI_RX_PRIMARY (UFI_TX_PRIMARY | FI_DIRECTED_RECV)
#define UFI_TX_MODIFY  (FI_SEND | FI_READ | FI_WRITE)
#define UFI_RX_MODIFY  (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define UFI_TX_CAPS    (UFI_TX_PRIMARY | UFI_TX_MODIFY | FI_FENCE | FI_TRIGGER)
#define UFI_RX_CAPS                                                                                                    \
	(UFI_RX_PRIMARY | UFI_RX_MODIFY | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_TRIGGER)
#define UFI_DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV)
#define UFI_CAPS	(UFI_TX_CAPS | UFI_RX_CAPS | UFI_DOMAIN_CAPS)
/** Given without being asked for: they cost nothing. */
#define UFI_FREE_CAPS	(FI_MULTI_RECV | FI_FENCE | UFI_DOMAIN_CAPS)

/** How far an operation has come when it counts as done. */
#define UFI_LEVELS	(FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define UFI_TX_OP_FLAGS (UFI_LEVELS | FI_INJECT | FI_COMPLETION)
#define UFI_RX_OP_FLAGS (FI_MULTI_RECV | FI_COMPLETION)

/** Orders that hold anyway, and those for which requests that follow an RMA read have to wait for it: a NIC answers a read
 *  while it executes what comes behind. */
#define UFI_ORDER_WAITS (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR)
#define UFI_ORDER_FREE                                                                                                 \
	(FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS |      \
	 FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |          \
	 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

/** What endpoints that share their receives cannot have: a receive from one peer only. */
#define UFI_SRX_LACKS FI_DIRECTED_RECV

#define UFI_MIN_MULTI_RECV 64	 /* bytes, unless the program says how many */
#define UFI_QUEUE_MAX	   16384 /* requests under way, receives posted */
/** So many are taken anyhow, whatever size a queue has: memory for them is touched when they are there. MPI has no limit, and a program
 *  that posts all its receives, or sends all that it has, before it does anything else, would wait for ever where there is one. */
#define UFI_TX_TAKEN	   8192u
#define UFI_RX_TAKEN	   32768u
/** A memory key is an R_Key. */
#define UFI_KEY_SIZE	   4

int ufi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **out);
/** A type of endpoints (types.c): what it has of what there is. */
struct ufi_type {
	enum fi_ep_type type;
	uint64_t lacks; /* of UFI_CAPS */
	uint64_t tx_op_flags, msg_order;
	size_t max_msg_size, max_order_size, rma_iov_limit;
};
#define UFI_TYPES 3u
/** The `i`th of them, in the order in which they are listed. */
const struct ufi_type *ufi_type_at(unsigned i);
/** @return NULL: there is no such type. */
const struct ufi_type *ufi_type_find(enum fi_ep_type type);

/** Whether an endpoint can have so many contexts of a kind: its own, or one that is shared. */
static inline bool ufi_ctx_cnt_valid(size_t count)
{
	return count <= 1 || count == FI_SHARED_CONTEXT;
}
/** Capabilities with what fi_getinfo(3) says that they come with: without modifiers all of them; of 0 what there is for everybody. */
uint64_t ufi_caps_complete(const struct ufi_type *type, uint64_t caps);
/** Whether what hints ask for can be had, apart from addresses and names. */
bool ufi_hints_match(const struct ufi_type *type, const struct fi_info *hints);
/** Make of what there is what hints have asked for. `version`: of the API that the program speaks. */
void ufi_hints_apply(uint32_t version, const struct ufi_type *type, const struct fi_info *hints, struct fi_info *info);

/* ---- addresses (address.c) ------------------------------------------------------------------------------ */

union ufi_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

bool ufi_gid_is_ipv4(const struct nic_gid *gid);
/** @return the length of the address. */
socklen_t ufi_addr_to_sockaddr(const struct nic_rdm_addr *addr, union ufi_sockaddr *out);
/** @return false: neither IPv4 nor IPv6, or too short for what it says it is. */
bool ufi_addr_from_sockaddr(const void *sockaddr, size_t len, struct nic_rdm_addr *out);
bool ufi_addr_is_any(const struct nic_rdm_addr *addr);
/** The port of an address that is to be one of the device with this GID. @return 0, -FI_EINVAL, -FI_EADDRNOTAVAIL. */
int ufi_addr_local(const void *sockaddr, size_t len, const struct nic_gid *gid, uint16_t *port);
/** A copy in memory that the caller frees. @return 0, -FI_ENOMEM. */
int ufi_addr_dup(const struct nic_rdm_addr *addr, void **out, size_t *len);
/** What node and service name, of one address family. @return 0, -FI_ENODATA. */
int ufi_addr_resolve(const char *node, const char *service, int family, uint64_t flags, struct nic_rdm_addr *out);
/** "fi_sockaddr_in://127.0.0.1:9228". @return as snprintf. */
int ufi_addr_print(const struct nic_rdm_addr *addr, char *buf, size_t len);
/** Copy an address out as much as there is room. @return 0, -FI_ETOOSMALL with the length that it has in *len. */
int ufi_addr_copy_out(const struct nic_rdm_addr *addr, void *out, size_t *len);

/* ---- fabric, domain ------------------------------------------------------------------------------------- */

struct ufi_fabric {
	struct fid_fabric fabric;
	pthread_mutex_t lock; /* taken before that of an engine */
	struct ufi_pep *peps; /* all passive endpoints, under that lock */
	struct ufi_domain *domains;
	atomic_uint users;
};

struct ufi_domain {
	struct fid_domain domain;
	struct ufi_fabric *fabric;
	struct ufi_domain *next; /* of the fabric's */
	struct pmd_device device;
	struct pmd_engine *engine;
	struct nic *nic;
	struct nic_pd *pd;
	struct ufi_eq *eq;	 /* NULL: not bound */
	bool mr_events;		 /* registrations end with an event */
	bool virt_addr;		 /* regions are addressed by virtual addresses, not by offsets */
	bool user_keys;		 /* and named by keys that the program chooses */
	bool allocated;		 /* what is registered has to be there */
	struct ufi_mr *counted;	 /* regions that counters are bound to */
	struct list cntrs;	 /* all of them */
	struct ufi_works *works; /* that are deferred; NULL: there have been none (work.h) */
	atomic_bool rma_event;	 /* it was asked for, of the domain or of an endpoint */
	atomic_uint users;
};

/** fi_trywait(3), of one object. */
int ufi_trywait(struct fid *fid);
int ufi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
/** @return 0, -FI_ENODEV. */
int ufi_device_find(const char *name, struct pmd_device *out);
/** Open a device's engine, and a protection domain there. */
int ufi_device_open(const struct pmd_device *device, struct pmd_engine **engine, struct nic_pd **pd);
int ufi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *context);
/** Progress of all that can tell an event queue of the fabric something. No lock held. */
void ufi_fabric_progress(struct ufi_fabric *fabric);
/** Whether the last progress of one of them has moved packets. No lock held. */
bool ufi_fabric_moves(struct ufi_fabric *fabric);
/** fi_ops.bind, ops_open of objects that have none. */
int ufi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int ufi_no_control(struct fid *fid, int command, void *arg);
int ufi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/** These of fi_ops_ep, and all of them. */
int ufi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context);
int ufi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
ssize_t ufi_no_size_left(struct fid_ep *ep);
extern struct fi_ops_ep ufi_no_ep_ops;

/** Take the engine's lock. @return false: this process is a fork of the one that opened the domain. */
static inline bool ufi_enter(const struct ufi_domain *domain)
{
	if (pmd_is_forked_child())
		return false;
	pmd_lock(domain->engine);
	return true;
}

static inline void ufi_leave(const struct ufi_domain *domain)
{
	pmd_unlock(domain->engine);
}

/** Start what waited for counters that have changed, and send what comes of it. Lock held. */
static inline void ufi_run_work(const struct ufi_domain *domain)
{
	nic_trig_run(domain->nic);
	pmd_doorbell(domain->engine);
}

/** The same, when what has no room may have some now, or no longer waits behind what had none: without a completion nobody looks. */
static inline void ufi_retry_work(const struct ufi_domain *domain)
{
	nic_trig_retry(domain->nic);
	ufi_run_work(domain);
}

/* A mutex may be locked for ever in the child of a fork: by a thread that is not there. The child is the only one to look. */
static inline void ufi_lock(pthread_mutex_t *lock)
{
	if (!pmd_is_forked_child())
		pthread_mutex_lock(lock);
}

static inline void ufi_unlock(pthread_mutex_t *lock)
{
	if (!pmd_is_forked_child())
		pthread_mutex_unlock(lock);
}

/* ---- event queue (eq.c) --------------------------------------------------------------------------------- */

struct ufi_eq {
	struct fid_eq eq;
	struct ufi_fabric *fabric;
	pthread_mutex_t lock;
	struct ufi_wait wait;
	struct ufi_event *head, **tail;
	struct ufi_event *error; /* that was read last: the program may look at its data */
	bool writable;		 /* by the program */
	atomic_uint users;
};

int ufi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context);
/** @return 0, -FI_ENOMEM. */
int ufi_eq_put(struct ufi_eq *eq, uint32_t event, const void *buf, size_t len);
/** The error's data, if there is any, is copied. */
int ufi_eq_put_error(struct ufi_eq *eq, const struct fi_eq_err_entry *error);
/** An event of connection management, with data behind it. `info` is freed with it, unless somebody reads it. */
int ufi_eq_put_cm(struct ufi_eq *eq, uint32_t event, const struct fi_eq_cm_entry *entry, const void *data, size_t len);
/** What is about an object that is closed is not told any more. */
void ufi_eq_forget(struct ufi_eq *eq, const struct fid *fid);
int ufi_eq_trywait(struct ufi_eq *eq);

/* ---- address vector (av.c, av_names.c) ------------------------------------------------------------------ */

#define UFI_AV_NONE UINT32_MAX

/** An entry; fi_addr_t is its index. */
struct ufi_av_entry {
	struct nic_rdm_addr addr;
	bool used;
	uint32_t next; /* with the same hash; UFI_AV_NONE: the last one */
};

struct ufi_av {
	struct fid_av av;
	struct ufi_domain *domain;
	struct ufi_eq *eq;
	bool async; /* insertions end with an event */
	bool table; /* programs know the indices */
	bool read_only;
	bool following; /* what others have done with a shared one is being taken over */
	struct ufi_av_entry *entries;
	uint32_t n, room, *buckets; /* room is a power of two, and the number of buckets */
	uint64_t *taken; /* bits of indices that are in use, also by what could not be inserted; unless shared */
	uint32_t lowest; /* no word of them before this one has a free index */
	struct ufi_share *share; /* NULL: it is this process's alone. Else indices are that one's */
	uint32_t pending;	 /* of its indices, the first whose meaning we may not have yet */
	uint32_t removals;	 /* that we know of */
	struct ufi_core *endpoints;
	atomic_uint users;
};

int ufi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context);
/** fi_av_insertsvc, fi_av_insertsym. */
int ufi_av_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
		     void *context);
int ufi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
		     fi_addr_t *fi_addr, uint64_t flags, void *context);
/** These two: engine lock held. The address that a fi_addr_t stands for, or NULL. */
const struct nic_rdm_addr *ufi_av_at(struct ufi_av *av, fi_addr_t fi_addr);
/** The fi_addr_t of an address; FI_ADDR_NOTAVAIL: it has none. */
fi_addr_t ufi_av_find(struct ufi_av *av, const struct nic_rdm_addr *addr);
/** Learn what other processes have done to a table that is shared. Engine lock held. */
void ufi_av_follow(struct ufi_av *av);

/* ---- completion queue (cq.c, comp.c), counter (cntr.c) -------------------------------------------------- */

/** Of flags in the ring: the details are the first of the list of errors. No flag of libfabric's for completions. */
#define UFI_COMP_ERROR (1ull << 63)

struct ufi_comp {
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
};

/** What an error has besides its completion. */
struct ufi_comp_error {
	struct ufi_comp_error *next;
	int err;
	uint32_t prov_errno;
	uint64_t overflow;
	socklen_t source_len; /* of FI_EADDRNOTAVAIL: who it was; else 0 */
	union ufi_sockaddr source;
};

struct ufi_cq {
	struct fid_cq cq;
	struct ufi_domain *domain;
	struct ufi_wait wait;
	size_t entry_size; /* of the format; each is a beginning of the longest one */
	struct ufi_comp *ring;
	size_t size, head, n; /* size is a power of two */
	struct ufi_comp_error *errors, **errors_tail;
	union ufi_sockaddr err_data; /* of the error that was read last */
	bool signaled;		     /* by fi_cq_signal, while nobody waited: the next one need not */
	unsigned readers;	     /* who wait */
	unsigned signals;	     /* times that these have been told not to */
	bool overrun;
	atomic_uint users;
};

int ufi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
/** Add a completion; with `error`, one that has failed. Engine lock held. */
void ufi_cq_put(struct ufi_cq *cq, const struct ufi_comp *comp, const struct ufi_comp_error *error);
int ufi_cq_trywait(struct ufi_cq *cq);

enum ufi_count {
	UFI_COUNT_SEND,
	UFI_COUNT_RECV,
	UFI_COUNT_READ,
	UFI_COUNT_WRITE,
	UFI_COUNT_REMOTE_READ, /* these two: of what peers do, with FI_RMA_EVENT */
	UFI_COUNT_REMOTE_WRITE,
	UFI_COUNTS
};

struct ufi_cntr {
	struct fid_cntr cntr;
	struct ufi_domain *domain;
	struct ufi_wait wait;
	struct list node;			      /* of the domain's */
	struct nic_trig_cntr trig;		      /* changed with the lock held, read without */
	atomic_uint_fast64_t value_seen, errors_seen; /* as the program was last told */
	atomic_uint users;
};

int ufi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context);
/** Engine lock held. */
void ufi_cntr_count(struct ufi_cntr *cntr, bool error);
/** What a peer has done to memory: once where both are one counter. NULL: none. */
void ufi_cntr_count_served(struct ufi_cntr *reads, struct ufi_cntr *writes);
/** Add to a part, or set it. Engine lock held; the caller sees to it that what this starts is started (ufi_run_work). */
void ufi_cntr_change(struct ufi_cntr *cntr, bool error, uint64_t value, bool add);
int ufi_cntr_trywait(struct ufi_cntr *cntr);

int ufi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out);
/** Whether a queue has something; makes progress. */
bool ufi_cq_pending(struct ufi_cq *cq);

/* ---- memory (mr.c) -------------------------------------------------------------------------------------- */

extern struct fi_ops_mr ufi_mr_ops;

/** A peer has done something to the region with this key: counters that are bound to it count. Engine lock held. */
void ufi_mr_served(const struct ufi_domain *domain, uint32_t rkey, bool read, bool write);

/* ---- shared transmit context (stx.c) -------------------------------------------------------------------- */

struct ufi_stx {
	struct fid_stx stx;
	struct ufi_domain *domain;
	size_t size, used; /* requests under way that its endpoints may have, and have, together */
	atomic_uint users;
};

int ufi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **out, void *context);
/** These two, engine lock held: a request takes its place in the context that the endpoint shares, if it shares one. @return false:
 *  there is none left. */
bool ufi_stx_take(struct ufi_core *core);
/** So many have ended, or were not posted. */
void ufi_stx_give(struct ufi_core *core, size_t n);

/* ---- endpoint (ep.c, ep_bind.c) ------------------------------------------------------------------------- */

enum ufi_cm_state { UFI_CM_NEW, UFI_CM_CONNECTING, UFI_CM_CONNECTED, UFI_CM_CLOSED };

/** Of an endpoint that talks to one peer (FI_EP_MSG). */
struct ufi_cm {
	struct ufi_eq *eq; /* NULL: not bound */
	enum ufi_cm_state state;
	struct ufi_request *request;	   /* it is to accept this one; NULL: it connects */
	struct nic_rdm_addr local, remote; /* its name when it accepts: where was asked; and the peer's */
};

/** An endpoint, and what its aliases share with it. */
struct ufi_core {
	struct ufi_domain *domain;
	const struct ufi_type *type;
	struct nic_rdm *rdm; /* NULL: not enabled */
	struct nic_rdm_addr addr;
	bool served;  /* the port is its own */
	bool closing; /* what ends now leaves no trace */
	struct ufi_cm cm;
	struct ufi_av *av;
	bool av_shared; /* with other processes */
	struct ufi_core *next_of_av;
	struct ufi_cq *tx_cq, *rx_cq;
	struct ufi_cntr *cntrs[UFI_COUNTS];
	struct nic_rdm_rq *rq; /* where receives are posted; NULL: not enabled, or it shares a context */
	struct ufi_stx *stx;   /* NULL: not bound */
	size_t sent;	       /* requests under way in it */
	struct ufi_srx *srx;   /* NULL: not bound */
	struct ufi_core *next_of_srx;
	bool tx_shared, rx_shared; /* it has to be bound to one */
	bool tx_selective, rx_selective;
	bool reads_first; /* what would overtake an RMA read waits for it */
	uint64_t caps;
	size_t tx_size, rx_size, min_multi_recv;
	uint32_t reads;	       /* RMA reads under way */
	struct list triggered; /* operations that wait for a counter (work.h), in the order in which they were made */
	struct list
		works; /* deferred requests of it that wait for a counter, or do so no longer but are to be told there (work.h) */
	struct nic_rdm_peer **peers; /* by fi_addr_t; NULL: not yet asked for */
	size_t n_peers;
	atomic_uint aliases;
};

struct ufi_ep {
	struct fid_ep ep;
	struct ufi_core *core;
	struct ufi_core own;		     /* unless it is an alias */
	uint64_t tx_op_flags, rx_op_flags;   /* as the program has set them */
	uint64_t tx_flags, rx_flags;	     /* of requests without flags of their own */
	uint64_t tx_msg_flags, rx_msg_flags; /* added to those that have */
};

extern struct fi_ops_ep ufi_ep_ops;
extern struct fi_ops_cm ufi_ep_cm_ops;

int ufi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context);
int ufi_ep_enable(struct ufi_core *core);
/** Bind an object to an endpoint that is not enabled. */
int ufi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
/** Undo all binds. */
void ufi_ep_unbind(struct ufi_core *core);
/** Work out the flags of requests, after op_flags or a binding have changed. */
void ufi_ep_flags(struct ufi_ep *ep);
/** There is an address now that messages may come from. Engine lock held. */
void ufi_ep_meet(struct ufi_core *core, fi_addr_t fi_addr);
/** The peer that a fi_addr_t stands for. Engine lock held. @return NULL: there is none, or no memory. */
struct nic_rdm_peer *ufi_ep_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** Why ufi_ep_peer has found none. @return -FI_EINVAL, -FI_ENOMEM. */
int ufi_ep_no_peer(struct ufi_core *core, fi_addr_t fi_addr);
/** A fi_addr_t is no longer that of its address. Engine lock held. */
void ufi_ep_forget(struct ufi_core *core, fi_addr_t fi_addr);

/* ---- shared receive context (srx.c) --------------------------------------------------------------------- */

/** As far as posting receives goes it is an endpoint. */
struct ufi_srx {
	struct ufi_ep ep;
	struct ufi_core *members; /* endpoints, as bound */
	atomic_uint users;
};

int ufi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out, void *context);
/** An endpoint is bound to it. @return 0, -FI_EIO. */
int ufi_srx_join(struct ufi_srx *srx, struct ufi_core *core);
/** These, engine lock held. The endpoint closes. */
void ufi_srx_leave(struct ufi_core *core);
/** Whether an endpoint with this address vector may use it: all that are not connected have the same. */
bool ufi_srx_accepts(const struct ufi_srx *srx, const struct ufi_av *av);
/** The endpoint that tells of what is none's. @return NULL: there is none. */
struct ufi_core *ufi_srx_reporter(struct ufi_srx *srx);

/* ---- connections (cm.c), passive endpoints (pep.c, request.c) ------------------------------------------- */

/** nic_rdm_init.cm; ctx is the struct ufi_core. */
void ufi_cm_event(void *ctx, const struct nic_rdm_cm_event *event);
int ufi_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int ufi_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int ufi_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int ufi_cm_shutdown(struct fid_ep *ep, uint64_t flags);
/** The endpoint closes: so does its connection. Engine lock held. */
void ufi_cm_close(struct ufi_core *core);

/** Whether that is a passive endpoint; it may be anything. */
bool ufi_pep_exists(const struct fid *handle);
int ufi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out, void *context);
/** An endpoint is opened for what info->handle names: for a request, which it is to accept, or with the port of a passive
 *  endpoint. @return 0, -FI_EINVAL: it names neither, or not one that could be used for that. */
int ufi_pep_give(struct ufi_core *core, const struct fid *handle);
/** Accept a request for an endpoint. Engine lock held. @return 0, -FI_ECONNABORTED (the passive endpoint is no more), -FI_EINVAL. */
int ufi_request_accept(struct ufi_request *r, struct nic_rdm *ep, const void *data, size_t len);
/** The endpoint that was opened for it closes. Engine lock held. */
void ufi_request_leave(struct ufi_request *r);

extern struct fi_ops_msg ufi_msg_ops;
extern struct fi_ops_tagged ufi_tagged_ops;
extern struct fi_ops_rma ufi_rma_ops;
extern struct fi_ops_atomic ufi_atomic_ops;

int ufi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags);

/* ---- requests (post.c), what becomes of them (comp.c) --------------------------------------------------- */

/** Of cookies: there is an entry in the queue when all goes well; the rest is the address of a struct ufi_work. */
#define UFI_COOKIE_COMPLETE 1u

/** How a request goes to the NIC. */
struct ufi_way {
	struct ufi_work *work; /* that it was deferred by, and that is told when it is done; NULL: none */
	bool check;	       /* it does not go at all, but could it? */
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

/** A message to send, with or without a tag; flags are libfabric's, FI_TAGGED or FI_MSG among them. */
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

/** An RMA request; FI_READ or FI_WRITE is among the flags. */
struct ufi_rma {
	const struct iovec *iov;
	size_t n_iov;
	const struct fi_rma_iov *remote;
	size_t n_remote;
	fi_addr_t to;
	uint64_t data, flags;
	void *context;
};

/** An operation on elements of any of the three forms. */
struct ufi_atomic {
	enum nic_elem_form form;
	const struct fi_ioc *operand, *compare, *result;
	size_t n_operand, n_compare, n_result;
	const struct fi_rma_ioc *remote; /* NULL: one, at addr, as long as the local ones */
	size_t n_remote;
	uint64_t addr, key;
	fi_addr_t to;
	enum fi_datatype datatype;
	enum fi_op op;
	uint64_t flags;
	void *context;
};

/** Requests, as the application makes them. */
ssize_t ufi_send(struct ufi_ep *ep, const struct ufi_send *s);
ssize_t ufi_recv(struct ufi_ep *ep, const struct ufi_recv *r);

/** What can be said of a request without the lock. Its vectors are not longer than NIC_RDM_IOV_MAX then, but for those of atomics.
 *  @param has the endpoint's capabilities, as far as this request is concerned.
 *  @return 0, a negative fi_errno. */
int ufi_send_check(const struct ufi_core *core, uint64_t has, const struct ufi_send *s);
int ufi_recv_check(const struct ufi_core *core, uint64_t has, const struct ufi_recv *r);
int ufi_rma_check(const struct ufi_core *core, const struct ufi_rma *r);
int ufi_atomic_check(const struct ufi_core *core, const struct ufi_atomic *a);
/** A request that was checked goes to the NIC. Engine lock held; whoever calls sees to it that it is sent. @return as nic_rdm_send;
 *  -FI_EINVAL also: no such peer; -FI_ENOTCONN. */
int ufi_send_post(struct ufi_core *core, const struct ufi_send *s, const struct ufi_way *way);
int ufi_recv_post(struct ufi_core *core, const struct ufi_recv *r, const struct ufi_way *way);
int ufi_rma_post(struct ufi_core *core, const struct ufi_rma *r, const struct ufi_way *way);
int ufi_atomic_post(struct ufi_core *core, const struct ufi_atomic *a, const struct ufi_way *way);

/** Requests with FI_TRIGGER wait for a counter (trigger.c). */
ssize_t ufi_trigger_send(struct ufi_core *core, const struct ufi_send *s);
ssize_t ufi_trigger_recv(struct ufi_core *core, const struct ufi_recv *r);
ssize_t ufi_trigger_rma(struct ufi_core *core, const struct ufi_rma *r);
ssize_t ufi_trigger_atomic(struct ufi_core *core, const struct ufi_atomic *a);

/** The NIC's form of an operation's flags, FENCE added where the endpoint's order demands it. */
uint32_t ufi_request_flags(const struct ufi_core *core, uint64_t flags, const struct ufi_way *way);
/** Flags of a request that brings its own. */
static inline uint64_t ufi_msg_flags(const struct ufi_ep *ep, uint64_t flags)
{
	return flags | (ep->tx_msg_flags & (flags & UFI_LEVELS ? ~UFI_LEVELS : ~0ull));
}
/** Flags of a request that is to leave no trace. */
static inline uint64_t ufi_inject_flags(const struct ufi_ep *ep)
{
	return (ep->tx_flags & ~FI_COMPLETION) | FI_INJECT;
}
/** Whether an endpoint can be used for what needs these capabilities. */
static inline int ufi_ep_check(const struct ufi_core *core, uint64_t caps)
{
	if ((core->caps & caps) != caps)
		return -FI_EOPNOTSUPP;
	return core->rdm ? 0 : -FI_EOPBADSTATE;
}
/** A request to a peer begins. Engine lock held. @return 0 with *peer; -FI_EINVAL, -FI_ENOTCONN, -EAGAIN. */
int ufi_post_begin(struct ufi_core *core, fi_addr_t to, const struct ufi_way *way, struct nic_rdm_peer **peer);
/** The NIC has answered one that has begun. @return rc. */
int ufi_post_end(struct ufi_core *core, const struct ufi_way *way, int rc);
/** The NIC has answered a call: ring, unlock. @return rc. */
ssize_t ufi_call_end(struct ufi_core *core, int rc);

/** nic_rdm_init.done; ctx is the struct ufi_core. */
void ufi_done(void *ctx, const struct nic_rdm_done *done);
/** What is done is told where the program looks for it. A failure that the NIC has nothing to do with has one of these statuses, and
 *  whatever it is about is not under way. */
#define UFI_STATUS_NO_MESSAGE  0x200u
#define UFI_STATUS_NO_SOURCE   0x201u
#define UFI_STATUS_NO_PEER     0x202u
#define UFI_STATUS_UNCONNECTED 0x203u
void ufi_tell(struct ufi_core *core, const struct nic_rdm_done *done);
/** nic_rdm_init.served. */
void ufi_served(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write);
/** What a peek has found (`found`), or not (NULL) while it looked for `r`. Engine lock held. */
void ufi_done_peek(struct ufi_core *core, const struct ufi_recv *r, const struct nic_rdm_done *found);
/** The sentence for prov_errno. */
const char *ufi_comp_strerror(int prov_errno);

#endif
