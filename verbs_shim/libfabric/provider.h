/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - the objects of the libfabric provider (private to verbs_shim/libfabric), except endpoints (endpoint.h)
 * and requests (requests.h).
 *
 * Every object begins with its public structure from libfabric's headers, so a pointer to the object is also a pointer
 * to that structure. The object's other members are private. A `struct nic_rdm` (nic_rdm.h) does an endpoint's work
 * from posting to completion. The code here checks arguments, looks up addresses and reports completions to queues and
 * counters.
 *
 * Locks: the engine's lock guards all objects of a domain (ufi_enter, ufi_leave), and is held during the NIC's
 * callbacks. Fabrics, poll sets and wait sets have mutexes, which are taken before the engine's lock. An event queue,
 * which belongs to a fabric, has a mutex that is the innermost lock. `users` counts are atomic.
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

/** Parameters, set by FI_UROCE_* environment variables; see provider.c. */
struct ufi_params {
	size_t tx_size, rx_size; /* default queue sizes in fi_info */
	size_t max_unexpected;	 /* bytes */
	int connect_ms, peer_ms;
	int scalable_mr; /* registration mode for applications that support both: 1 scalable, 0 basic */
};
extern struct ufi_params ufi_params;

/* ---- the libfabric that runs (library.c) ------------------------------------------------------- */

/** Find the running libfabric's functions; the ones below need them. @return 0, -FI_ENOSYS: it lacks them. */
int ufi_library_find(void);

/** fi_dupinfo() of the running libfabric: its structures may be larger than those of this build's headers, or smaller.
 *  @return a copy that the caller frees with ufi_info_free(); of NULL, an empty one; NULL: no memory. */
struct fi_info *ufi_info_dup(const struct fi_info *info);
/** fi_freeinfo() of the running libfabric. */
void ufi_info_free(struct fi_info *info);

/** The size of a structure whose last field in libfabric 1.17 is `last`. */
#define UFI_SIZE_1_17(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

/* ---- capabilities (info.c, match.c) ------------------------------------------------------------ */

#define UFI_TX_PRIMARY (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC)
#define UFI_RX_PRIMARY (UFI_TX_PRIMARY | FI_DIRECTED_RECV)
#define UFI_TX_MODIFY  (FI_SEND | FI_READ | FI_WRITE)
#define UFI_RX_MODIFY  (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define UFI_TX_CAPS    (UFI_TX_PRIMARY | UFI_TX_MODIFY | FI_FENCE | FI_TRIGGER)
#define UFI_RX_CAPS                                                                                                    \
	(UFI_RX_PRIMARY | UFI_RX_MODIFY | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_TRIGGER)
#define UFI_DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV)
#define UFI_CAPS	(UFI_TX_CAPS | UFI_RX_CAPS | UFI_DOMAIN_CAPS)
/** Capabilities that are granted even if not requested, because they cost nothing. */
#define UFI_FREE_CAPS	(FI_MULTI_RECV | FI_FENCE | UFI_DOMAIN_CAPS)

/** Completion levels: how far an operation must have come to count as complete. */
#define UFI_LEVELS	(FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define UFI_TX_OP_FLAGS (UFI_LEVELS | FI_INJECT | FI_COMPLETION)
#define UFI_RX_OP_FLAGS (FI_MULTI_RECV | FI_COMPLETION)

/** Message orders. The orders in UFI_ORDER_FREE always hold. For the orders in UFI_ORDER_WAITS, a request that follows
 * an RMA read must wait until the read completes, because the responder may execute later requests while it still sends
 * the read's response. */
#define UFI_ORDER_WAITS (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR)
#define UFI_ORDER_FREE                                                                                                 \
	(FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS |      \
	 FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |          \
	 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

/** The capability that an endpoint with a shared receive context lacks: to receive only from a given peer. */
#define UFI_SRX_LACKS FI_DIRECTED_RECV

#define UFI_MIN_MULTI_RECV 64	 /* the default, in bytes */
#define UFI_QUEUE_MAX	   16384 /* maximum queue size (requests in flight, or posted receives) that can be requested */
/** The NIC accepts at least this many requests (TX, except datagrams) and receives (RX), even if the endpoint's own
 * queue is smaller. The memory for them is touched only on use. MPI applications assume that there is no limit: an
 * application that first posts all its receives or sends would hang at a small limit. */
#define UFI_TX_TAKEN	   8192u
#define UFI_RX_TAKEN	   32768u
/** A memory key is an R_Key: 4 bytes. */
#define UFI_KEY_SIZE	   4

int ufi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **out);
/** An endpoint type (types.c): its limits, and which capabilities it lacks. */
struct ufi_type {
	enum fi_ep_type type;
	uint64_t lacks; /* a subset of UFI_CAPS */
	uint64_t tx_op_flags, msg_order;
	size_t max_msg_size, max_order_size, rma_iov_limit;
};
#define UFI_TYPES 3u
/** The endpoint type number `i`, in the order in which fi_getinfo lists them. */
const struct ufi_type *ufi_type_at(unsigned i);
/** Find an endpoint type. @return NULL: unknown type. */
const struct ufi_type *ufi_type_find(enum fi_ep_type type);

/** Whether `count` is a valid tx_ctx_cnt or rx_ctx_cnt: at most one context of the endpoint's own, or
 * FI_SHARED_CONTEXT. */
static inline bool ufi_ctx_cnt_valid(size_t count)
{
	return count <= 1 || count == FI_SHARED_CONTEXT;
}
/** Complete the capabilities as fi_getinfo(3) says: if `caps` has a primary capability but none of its modifiers, such
 * as FI_SEND, add all of them. Also add UFI_FREE_CAPS. If `caps` is 0, return the default set. */
uint64_t ufi_caps_complete(const struct ufi_type *type, uint64_t caps);
/** Whether hints can be met, apart from addresses and names. */
bool ufi_hints_match(const struct ufi_type *type, const struct fi_info *hints);
/** Set the attributes of `info` as the hints ask. @param version the API version that the application uses. */
void ufi_hints_apply(uint32_t version, const struct ufi_type *type, const struct fi_info *hints, struct fi_info *info);

/* ---- addresses (address.c) ------------------------------------------------------------------------------ */

union ufi_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

bool ufi_gid_is_ipv4(const struct nic_gid *gid);
/** Convert an address to a sockaddr. @return the length of the sockaddr. */
socklen_t ufi_addr_to_sockaddr(const struct nic_rdm_addr *addr, union ufi_sockaddr *out);
/** Convert a sockaddr to an address. @return false: neither IPv4 nor IPv6, or too short for its family. */
bool ufi_addr_from_sockaddr(const void *sockaddr, size_t len, struct nic_rdm_addr *out);
bool ufi_addr_is_any(const struct nic_rdm_addr *addr);
/** Get the port of a socket address, whose IP address must be the wildcard address or `gid`. @return 0, -FI_EINVAL,
 * -FI_EADDRNOTAVAIL. */
int ufi_addr_local(const void *sockaddr, size_t len, const struct nic_gid *gid, uint16_t *port);
/** Copy an address to new memory, which the caller frees. @return 0, -FI_ENOMEM. */
int ufi_addr_dup(const struct nic_rdm_addr *addr, void **out, size_t *len);
/** Resolve node and service names in one address family. @return 0, -FI_ENODATA. */
int ufi_addr_resolve(const char *node, const char *service, int family, uint64_t flags, struct nic_rdm_addr *out);
/** Print an address as text, for example "fi_sockaddr_in://127.0.0.1:9228". @return as snprintf. */
int ufi_addr_print(const struct nic_rdm_addr *addr, char *buf, size_t len);
/** Copy out as much of an address as fits. *len is set to the full length. @return 0, -FI_ETOOSMALL: truncated. */
int ufi_addr_copy_out(const struct nic_rdm_addr *addr, void *out, size_t *len);

/* ---- locks of objects ----------------------------------------------------------------------------------- */

/** The mutex of an object. A forked child does not lock the mutexes of objects that it inherited from its parent: if a
 *  thread of the parent held such a mutex at the fork, nobody in the child would ever unlock it. The child can only
 *  close such objects. */
struct ufi_lock {
	pthread_mutex_t mutex;
	unsigned forks; /* pmd_forks() when the object was made */
};

static inline void ufi_lock_init(struct ufi_lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->forks = pmd_forks();
}

/** Whether the object with this lock was made by a parent process. */
static inline bool ufi_is_inherited(const struct ufi_lock *lock)
{
	return lock->forks != pmd_forks();
}

static inline void ufi_lock_fini(struct ufi_lock *lock)
{
	if (!ufi_is_inherited(lock))
		pthread_mutex_destroy(&lock->mutex);
}

static inline void ufi_lock(struct ufi_lock *lock)
{
	if (!ufi_is_inherited(lock))
		pthread_mutex_lock(&lock->mutex);
}

static inline void ufi_unlock(struct ufi_lock *lock)
{
	if (!ufi_is_inherited(lock))
		pthread_mutex_unlock(&lock->mutex);
}

/* ---- fabric, domain ------------------------------------------------------------------------------------- */

struct ufi_fabric {
	struct fid_fabric fabric;
	struct ufi_lock lock; /* taken before an engine's lock */
	struct ufi_pep *peps; /* all passive endpoints, guarded by the lock */
	struct ufi_domain *domains;
	atomic_uint users;
};

struct ufi_domain {
	struct fid_domain domain;
	struct ufi_fabric *fabric;
	struct ufi_domain *next; /* next in the fabric's list */
	struct pmd_device device;
	struct pmd_engine *engine;
	struct nic *nic;
	struct nic_pd *pd;
	struct ufi_eq *eq;	 /* NULL: not bound */
	bool mr_events;		 /* memory registrations report an event */
	bool virt_addr;		 /* regions are addressed by virtual address, not by offset */
	bool user_keys;		 /* the application chooses the keys */
	bool allocated;		 /* memory must be mapped when it is registered */
	struct ufi_mr *counted;	 /* list of the memory regions that have counters */
	struct list cntrs;	 /* list of all counters */
	struct ufi_works *works; /* deferred work (work.h); NULL: there has been none so far */
	atomic_bool rma_event;	 /* FI_RMA_EVENT was requested for the domain or an endpoint */
	atomic_uint users;
};

/** Implements fi_trywait(3) for one object. */
int ufi_trywait(struct fid *fid);
int ufi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
/** Find a device by name. @return 0, -FI_ENODEV. */
int ufi_device_find(const char *name, struct pmd_device *out);
/** Open a device's engine and allocate a protection domain on it. */
int ufi_device_open(const struct pmd_device *device, struct pmd_engine **engine, struct nic_pd **pd);
int ufi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *context);
/** Make progress on every engine that may report to the fabric's event queues. No lock held. */
void ufi_fabric_progress(struct ufi_fabric *fabric);
/** Whether one of the fabric's engines moved packets when it last made progress. No lock held. */
bool ufi_fabric_moves(struct ufi_fabric *fabric);
/** Functions that an object sets in its struct fi_ops for operations that it does not support. */
int ufi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int ufi_no_control(struct fid *fid, int command, void *arg);
int ufi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/** The same for struct fi_ops_ep, and a table of these functions. */
int ufi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context);
int ufi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
ssize_t ufi_no_size_left(struct fid_ep *ep);
extern struct fi_ops_ep ufi_no_ep_ops;

/** Take the engine's lock. @return false: a parent of this process opened the domain. */
static inline bool ufi_enter(const struct ufi_domain *domain)
{
	if (pmd_is_dead(domain->engine))
		return false;
	pmd_lock(domain->engine);
	return true;
}

static inline void ufi_leave(const struct ufi_domain *domain)
{
	pmd_unlock(domain->engine);
}

/** Start work whose counters have reached their thresholds, and send the resulting packets. Engine lock held. */
static inline void ufi_run_work(const struct ufi_domain *domain)
{
	nic_trig_run(domain->nic);
	pmd_doorbell(domain->engine);
}

/** As ufi_run_work(), but also retry work that found its queue full. To be called when room becomes free without a
 * completion; a completion causes a retry by itself. Engine lock held. */
static inline void ufi_retry_work(const struct ufi_domain *domain)
{
	nic_trig_retry(domain->nic);
	ufi_run_work(domain);
}

/* ---- event queue (eq.c) --------------------------------------------------------------------------------- */

struct ufi_eq {
	struct fid_eq eq;
	struct ufi_fabric *fabric;
	struct ufi_lock lock;
	struct ufi_wait wait;
	struct ufi_event *head, **tail;
	struct ufi_event *error; /* the error that was read last; kept because the application can still use its data */
	bool writable;		 /* the application can write events */
	atomic_uint users;
};

int ufi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context);
/** Append an event. @return 0, -FI_ENOMEM. */
int ufi_eq_put(struct ufi_eq *eq, uint32_t event, const void *buf, size_t len);
/** Append an error, with a copy of its data if it has any. @return 0, -FI_ENOMEM. */
int ufi_eq_put_error(struct ufi_eq *eq, const struct fi_eq_err_entry *error);
/** Append a connection management event, followed by data. If the event is dropped unread, its `info` is freed. */
int ufi_eq_put_cm(struct ufi_eq *eq, uint32_t event, const struct fi_eq_cm_entry *entry, const void *data, size_t len);
/** Drop the connection management events and errors of an object that closes. */
void ufi_eq_forget(struct ufi_eq *eq, const struct fid *fid);
int ufi_eq_trywait(struct ufi_eq *eq);

/* ---- address vector (av.c, av_names.c) ------------------------------------------------------------------ */

#define UFI_AV_NONE UINT32_MAX

/** An entry of an address vector. Its fi_addr_t is its index. */
struct ufi_av_entry {
	struct nic_rdm_addr addr;
	bool used;
	uint32_t next; /* next entry with the same hash; UFI_AV_NONE: last */
};

struct ufi_av {
	struct fid_av av;
	struct ufi_domain *domain;
	struct ufi_eq *eq;
	bool async; /* insertions report an event */
	bool table; /* FI_AV_TABLE: the application relies on consecutive indices */
	bool read_only;
	bool following; /* ufi_av_follow is running, and must not be entered again */
	struct ufi_av_entry *entries;
	uint32_t n, room, *buckets; /* room is a power of two and also the number of buckets */
	uint64_t *taken;	 /* bitmap of used indices, including failed insertions; not used for a shared table */
	uint32_t lowest;	 /* no word of `taken` before this one has a free index */
	struct ufi_share *share; /* NULL: the table is private to this process; else the shared table assigns indices */
	uint32_t pending;	 /* all entries of the shared table before this index have been taken over */
	uint32_t removals;	 /* number of the shared table's removals that were applied to this table */
	struct ufi_core *endpoints;
	atomic_uint users;
};

int ufi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context);
/** fi_av_insertsvc, fi_av_insertsym. */
int ufi_av_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
		     void *context);
int ufi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
		     fi_addr_t *fi_addr, uint64_t flags, void *context);
/** The address of a fi_addr_t, or NULL. Engine lock held, as for ufi_av_find(). */
const struct nic_rdm_addr *ufi_av_at(struct ufi_av *av, fi_addr_t fi_addr);
/** The lowest fi_addr_t of an address, or FI_ADDR_NOTAVAIL. */
fi_addr_t ufi_av_find(struct ufi_av *av, const struct nic_rdm_addr *addr);
/** Take over other processes' changes to a shared table. Engine lock held. */
void ufi_av_follow(struct ufi_av *av);

/* ---- completion queue (cq.c, comp.c), counter (cntr.c) -------------------------------------------------- */

/** Marks an entry in the ring as an error. This flag is private, not one of libfabric's completion flags. The error
 * list has the details of the errors in ring order: its first element belongs to the first error in the ring. */
#define UFI_COMP_ERROR (1ull << 63)

struct ufi_comp {
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
};

/** The fields of an error that struct ufi_comp does not have. */
struct ufi_comp_error {
	struct ufi_comp_error *next;
	int err;
	uint32_t prov_errno;
	uint64_t overflow;
	socklen_t source_len; /* length of the sender's address, if err is FI_EADDRNOTAVAIL; else 0 */
	union ufi_sockaddr source;
};

struct ufi_cq {
	struct fid_cq cq;
	struct ufi_domain *domain;
	struct ufi_wait wait;
	size_t entry_size; /* bytes of each entry that readers get: a prefix of struct fi_cq_tagged_entry */
	struct ufi_comp *ring;
	size_t size, head, n; /* size is a power of two */
	struct ufi_comp_error *errors, **errors_tail;
	union ufi_sockaddr err_data; /* err_data of the last error read */
	bool signaled;		     /* fi_cq_signal found no reader waiting, so the next reader returns at once */
	unsigned readers;	     /* number of waiting threads */
	unsigned signals;	     /* number of calls of fi_cq_signal */
	bool overrun;
	atomic_uint users;
};

int ufi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
/** Add a completion. @param error NULL: success. Engine lock held. */
void ufi_cq_put(struct ufi_cq *cq, const struct ufi_comp *comp, const struct ufi_comp_error *error);
int ufi_cq_trywait(struct ufi_cq *cq);

enum ufi_count {
	UFI_COUNT_SEND,
	UFI_COUNT_RECV,
	UFI_COUNT_READ,
	UFI_COUNT_WRITE,
	UFI_COUNT_REMOTE_READ, /* this and the next: accesses by peers, counted with FI_RMA_EVENT */
	UFI_COUNT_REMOTE_WRITE,
	UFI_COUNTS
};

struct ufi_cntr {
	struct fid_cntr cntr;
	struct ufi_domain *domain;
	struct ufi_wait wait;
	struct list node;			      /* links the counter into the domain's list */
	struct nic_trig_cntr trig;		      /* changed with the engine lock held, read without it */
	atomic_uint_fast64_t value_seen, errors_seen; /* the values that the application last saw */
	atomic_uint users;
};

int ufi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context);
/** Count a completion or an error. Engine lock held. */
void ufi_cntr_count(struct ufi_cntr *cntr, bool error);
/** Count a peer's access to memory in both counters, or once if both are the same counter. NULL: no counter. Engine
 * lock held. */
void ufi_cntr_count_served(struct ufi_cntr *reads, struct ufi_cntr *writes);
/** Add `value` to the counter's value, or set the counter's value. If `error`, change its number of errors instead.
 * Engine lock held; the caller starts the work that this triggers (ufi_run_work). */
void ufi_cntr_change(struct ufi_cntr *cntr, bool error, uint64_t value, bool add);
int ufi_cntr_trywait(struct ufi_cntr *cntr);

int ufi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out);
/** Whether a queue has an entry, or has overrun. Makes progress first if it is empty. */
bool ufi_cq_pending(struct ufi_cq *cq);

/* ---- memory (mr.c) -------------------------------------------------------------------------------------- */

extern struct fi_ops_mr ufi_mr_ops;

/** Count a peer's access to the region with this key in the region's counters. Engine lock held. */
void ufi_mr_served(const struct ufi_domain *domain, uint32_t rkey, bool read, bool write);

/* ---- shared transmit context (stx.c) -------------------------------------------------------------------- */

struct ufi_stx {
	struct fid_stx stx;
	struct ufi_domain *domain;
	size_t size, used; /* maximum and current number of requests in flight of all bound endpoints together */
	atomic_uint users;
};

int ufi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **out, void *context);
/** Reserve a slot in the endpoint's shared transmit context, if it has one. Engine lock held. @return false: no slot
 * is free. */
bool ufi_stx_take(struct ufi_core *core);
/** Release the slots of `n` requests that have completed or were not posted. Engine lock held. */
void ufi_stx_give(struct ufi_core *core, size_t n);

#endif
