/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shim.h - the verbs objects of uroce (private to verbs_shim/ibverbs).
 *
 * Every object embeds its public structure from verbs.h, and container_of finds the object from that structure; the
 * other members are private. Most objects have an object of the NIC (nic.h), which is changed only with the engine lock
 * held.
 *
 * Foreign objects: the libraries built from here also serve real devices. Each exported function checks the context of
 * its object (shim_is_ours) and passes foreign objects to the real library (shim_real).
 *
 * Locks, outermost first:
 * - borrow_lock (device.c);
 * - the lock of an extended QP's batch and that of an extended CQ's current completion, which stay locked between calls
 *   of the application;
 * - the engine lock;
 * - the lock of the device list, then that of a device; the locks of xrc.c and of xrc_share.c;
 * - the event lock of a context or channel.
 *
 * The mutexes inside the public structures guard the counts of acknowledged events; no other lock is taken while one of
 * these mutexes is held.
 */
#ifndef SHIM_H
#define SHIM_H

#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "engine.h"

/* verbs.h also defines macros with the names of these functions, which this library exports. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define SHIM_EXPORT __attribute__((visibility("default")))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- events (event.c) -------------------------------------------------------------------------------- */

/** A FIFO of objects with unread events, and the eventfd on which programs wait for them. */
struct shim_event_queue {
	pthread_mutex_t lock;
	struct shim_event_source *head, *tail;
	uint32_t n;	  /* events in the list */
	uint32_t counted; /* the eventfd's count, plus what threads have read from it but not yet subtracted here */
	uint32_t waiting; /* threads in pmd_wait(): each takes one event, which the eventfd does not count */
	bool ready;	  /* whether n > 0; atomic: pmd_wait() reads it without the lock */
	int fd;		  /* EFD_SEMAPHORE; -1 once closed */
	long id;	  /* the kernel's number of the eventfd (child.c); -1: unknown */
	unsigned forks;	  /* pmd_forks() when it was made */
};

#define SHIM_SOURCE_DEPTH 16

/** An object's unread events, oldest first. An event type that is already pending is not added again, except for
 * port events. */
struct shim_event_source {
	struct shim_event_source *next;
	bool queued;
	uint8_t n, types[SHIM_SOURCE_DEPTH];
	uint32_t n_comp;   /* completion events: all alike, only counted */
	uint32_t reported; /* events handed out so far */
};

int shim_event_queue_init(struct shim_event_queue *q);
/** @param close_fd false: the descriptor's number may be another file's by now; leave it open */
void shim_event_queue_fini(struct shim_event_queue *q, bool close_fd);
/** Drop the unread events of a source. @return how many of the source's events were handed to the application in
 * total. */
uint32_t shim_event_purge(struct shim_event_queue *q, struct shim_event_source *src);
/** Wait until `reported` events have been acknowledged. A cancellation point. */
void shim_event_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t reported);

/* ---- objects ----------------------------------------------------------------------------------------- */

/** Kinds of objects that a context lists, in the order of teardown (object.c). */
enum shim_kind { SHIM_QP, SHIM_SRQ, SHIM_XRCD, SHIM_CQ, SHIM_AH, SHIM_MW, SHIM_MR, SHIM_DM, SHIM_PD, SHIM_KINDS };

/** An object's node in its context's list of objects of its kind. Parent domains and imported objects are in no list.
 * The program's structure of the object must still contain this ctx and this handle (SHIM_INTACT). */
struct shim_link {
	struct shim_link *next, **at;
	struct shim_context *ctx;
	uint32_t handle;
};

/** How atomics appear to programs; see personality.c. */
struct shim_personality {
	const char *name;
	enum ibv_atomic_cap cap;
	enum ibv_exp_atomic_cap exp_cap;
	uint32_t be_sizes; /* atomics of these sizes (bytes, ORed) return results in network byte order */
	bool be_asked;	   /* only QPs that ask for network byte order have atomics */
};

/** A device found by a scan; never freed, because programs keep pointers to it. */
struct shim_device {
	struct ibv_device ibv;
	char zero[4096]; /* vendor libraries read private data after ibv_device: let them find zeroes */
	struct pmd_device pmd;
	struct shim_device *next;
	pthread_mutex_t lock; /* guards the list of contexts */
	struct shim_context *contexts;
};

struct shim_context {
	struct shim_device *dev;
	struct shim_context *next;
	struct pmd_engine *engine;
	struct nic *nic;
	const struct shim_personality *personality;
	atomic_size_t dm_used; /* bytes of allocated device memory, in whole pages */
	struct shim_event_queue async;
	struct shim_event_source port_events;
	struct shim_link *links[SHIM_KINDS];
	struct shim_context *sibling; /* ring of the contexts with copies of one cmd_fd (import.c) */
	atomic_uint objects;	      /* number of objects of all kinds that are not yet destroyed */
	atomic_bool closed;
	unsigned forks;			   /* pmd_forks() when it was opened */
	struct shim_context *_Atomic anew; /* of an inherited context: where this process makes objects (child.c) */
	struct shim_context *in_place_of;  /* the inherited context whose `anew` this one is; else NULL */
	atomic_uint refused; /* pmd_forks() when `anew` could not be opened for a cause that lasts; 0: never */
	atomic_uint told;    /* pmd_forks() when the user was told that `anew` could not be opened; 0: never */
	struct stat cmd;     /* of the file of cmd_fd: st_dev and st_ino */
	bool held;	     /* of a closed context: cmd_fd was still that file when it was closed */
	char zero[512]; /* newer verbs_contexts have more members at their start; vctx.sz says that these are absent */
	struct verbs_context vctx;
};

struct shim_channel {
	struct ibv_comp_channel ibv;
	struct shim_event_queue events;
};

struct shim_pd {
	struct ibv_pd ibv;
	struct nic_pd *nic;
	struct shim_link link;
	struct shim_pd *parent; /* in a parent domain: the PD whose `nic` the domain shares; else NULL */
	struct shim_td *td;
	bool imported, unimported;
	atomic_uint users; /* counts a PD's parent domains, and the objects of an imported PD or of a parent domain */
};

struct shim_td {
	struct ibv_td ibv;
	atomic_uint users;
};

/** Device memory, with the public structures of rdma-core and of the experimental verbs. */
struct shim_dm {
	struct ibv_dm ibv;
	struct ibv_exp_dm exp;
	struct shim_link link;
	uint8_t *mem;
	size_t len;
	struct shim_dm *origin; /* the original of imported memory; NULL: not imported */
	unsigned forks;		/* pmd_forks() when it was allocated */
	atomic_uint users;	/* number of memory regions registered on it, plus number of its imports */
};

struct shim_mr {
	struct ibv_mr ibv;
	struct nic_mr *nic;
	struct shim_link link;
	struct shim_dm *dm; /* NULL: the region is application memory */
	void *map;	    /* the mapping of a dma-buf (dmabuf.c); NULL: none */
	size_t map_length;
	unsigned access;
	bool imported;
};

struct shim_mw {
	struct ibv_mw ibv;
	struct nic_mw *nic;
	struct shim_link link;
};

struct shim_ah {
	struct ibv_ah ibv;
	struct nic_ah *nic;
	struct shim_link link;
};

struct shim_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct nic_cq *nic;
	struct shim_link link;
	struct shim_event_source comp, async;
	struct nic_wc wc;	 /* the current completion: ibv_wc_read_* return its fields */
	struct nic_cq_note note; /* note about the current completion; its clock is pmd_clock_steady_ns() */
	bool keeps_notes;
	pthread_mutex_t poll_lock; /* held from ibv_start_poll to ibv_end_poll, unless `single` */
	bool single;		   /* the application promises to poll from one thread at a time */
};

/** An XRC domain. Domains that were opened with descriptors of the same file share one object of the NIC. */
struct shim_xrcd {
	struct ibv_xrcd ibv;
	struct nic_xrcd *nic;
	struct shim_link link;
	struct shim_xrc_file *file; /* NULL: opened without a file */
	atomic_uint users;	    /* QPs and SRQs made with it */
};

struct shim_srq {
	struct ibv_srq ibv;
	struct nic_srq *nic;
	struct shim_link link;
	struct shim_event_source async;
	struct shim_xrcd *xrcd; /* NULL: the SRQ belongs to no XRC domain */
	uint32_t num;		/* XRC SRQ number */
};

/** Work requests between ibv_wr_start and ibv_wr_complete (wr_ex.c). */
struct shim_batch {
	pthread_mutex_t lock; /* held from ibv_wr_start to ibv_wr_complete or ibv_wr_abort */
	struct shim_batch_wr *wrs;
	uint8_t *data; /* SGEs and copies of inline data */
	size_t wrs_room, data_len, data_room;
	unsigned n;
	int err;
};

struct shim_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
	void *zero[16]; /* newer versions of ibv_qp_ex have more operations here; NULL: absent */
	struct nic_qp *nic;
	struct shim_link link;
	struct shim_event_source async;
	struct shim_xrcd *xrcd;	     /* XRC targets; else NULL */
	struct shim_qp *next_handle; /* XRC targets: a ring of the structures that share the NIC's QP; else NULL */
	uint32_t remote_qpn;	     /* not 0: of an XRC target of another process; then `nic` is NULL */
	struct shim_qp *next_remote; /* list of the structures of such targets in a domain */
	bool extended, sq_sig_all;
	bool no_atomics; /* this personality has atomics only on request, and this QP did not request them */
	uint32_t max_atomic_arg;
	struct ibv_qp_cap cap;
	struct shim_batch batch;
};

/* ---- contexts ---------------------------------------------------------------------------------------- */

int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

static inline bool shim_is_ours(const struct ibv_context *context)
{
	return context->ops.post_send == shim_post_send;
}

static inline struct shim_context *shim_ctx(const struct ibv_context *context)
{
	return container_of(context, struct shim_context, vctx.context);
}

/** Whether a parent of this process opened the context. Also valid after the context was closed. */
static inline bool shim_is_inherited(const struct shim_context *ctx)
{
	return ctx->forks != pmd_forks();
}

static inline bool shim_is_closed(const struct shim_context *ctx)
{
	return atomic_load_explicit(&ctx->closed, memory_order_relaxed);
}

/** Whether calls on the context's objects reach its engine: it is not closed, nor inherited by a forked child. */
static inline bool shim_alive(const struct shim_context *ctx)
{
	return !shim_is_inherited(ctx) && !shim_is_closed(ctx);
}

/** Take the engine lock for a call on one of the context's objects. @return false: !shim_alive(). */
static inline bool shim_enter(const struct shim_context *ctx)
{
	if (!shim_alive(ctx))
		return false;
	pmd_lock(ctx->engine);
	return true;
}

static inline void shim_leave(const struct shim_context *ctx)
{
	pmd_unlock(ctx->engine);
}

/** Give an object its context and a new handle. */
void shim_link_name(struct shim_context *ctx, struct shim_link *link);

/** Whether the program's structure of an object still contains the object's own handle and context (another context of
 * ours is not enough). A kernel finds objects by these two values: a program that has overwritten one of them gets an
 * error, and the object is unharmed. The same holds here. */
#define SHIM_INTACT(object)                                                                                            \
	(&(object)->link.ctx->vctx.context == (object)->ibv.context && (object)->link.handle == (object)->ibv.handle)

/** As SHIM_INTACT. In addition, the original of an imported PD must still exist. */
bool shim_pd_intact(struct ibv_pd *pd);

/** The two ways in which verbs fail. shim_errno: set errno to -err and return -err; `err` is 0 (success: errno is not
 * changed) or a negative errno. shim_fail: set errno to `err` and return NULL. */
static inline int shim_errno(int err)
{
	if (err)
		errno = -err;
	return -err;
}

static inline void *shim_fail(int err)
{
	errno = err;
	return NULL;
}

/** The struct shim_device that contains `device`, or NULL if it is a real device (device.c). */
struct shim_device *shim_device_of(const struct ibv_device *device);
#define SHIM_CMD_FILE "uroce-cmd" /* name of the memory files that cmd_fds refer to */
/** Open a context that can import the objects of another context. @param cmd_fd a copy of the other context's cmd_fd;
 * on success the new context owns it. @return NULL with errno ENOENT: no context of this process has this file; other
 * errnos as for ibv_open_device (device.c). */
struct ibv_context *shim_context_import(int cmd_fd);
/** Whether the original of an imported PD still exists. Takes the engine lock. (import.c) */
bool shim_import_is_alive(const struct shim_pd *pd);
/** _add gives an object a handle and adds it to its context's list; _remove takes it off the list. Engine lock held.
 * (object.c) */
void shim_object_add(struct shim_context *ctx, enum shim_kind kind, struct shim_link *link);
void shim_object_remove(struct shim_context *ctx, struct shim_link *link);
/** Destroy the context's remaining NIC objects. Engine lock held. The verbs structures of these objects stay, because
 * the program has pointers to them. */
void shim_objects_drop(struct shim_context *ctx);
/** Fill in the operations of a context (ops.c). */
void shim_ops_init(struct verbs_context *vctx);
/** Lend an open context on the device of that name. The context stays open until shim_context_return(),
 * because ibv_close_device waits for that call. @return NULL: no such context; then shim_context_return() must not be
 * called. */
struct shim_context *shim_context_borrow(const char *name);
void shim_context_return(void);
/** shim_sysfs_attach: give the sysfs hooks access to this library's device state. shim_sysfs_bypass(+1): this thread
 * sees the kernel's sysfs until shim_sysfs_bypass(-1). Both do nothing if the hooks are not in the process.
 * (sysfs_source.c) */
void shim_sysfs_attach(void);
void shim_sysfs_bypass(int change);
/** Give the sysfs hooks this library's connection manager. @param caller address of the code that asks for the devices:
 * if this is librdmacm, and there are neither hooks nor a kernel's rdma_cm device, warn the user. (cm_source.c) */
void shim_cm_attach(const void *caller);
/** Register the fork handlers of device.c. _inner: for the locks that are taken while an engine lock is held. _outer:
 * for borrow_lock. */
void shim_devices_fork_inner(void);
void shim_devices_fork_outer(void);
/** Open a device's engine without a context, for the connection manager (device.c). @return 0 or a negative errno. */
int shim_engine_open(const struct pmd_device *pmd, struct pmd_engine **out);
/** pmd_event_fn; ctx is the struct shim_device (event.c). */
void shim_event_raise(void *ctx, const struct nic_event *event);

/* ---- the real library (real.c) ----------------------------------------------------------------------- */

/** Function `name` of the real libibverbs, or NULL. */
void *shim_real_symbol(const char *name);
/** shim_real_symbol() cast to the type of the function `name`. Each place of use keeps what it has found. */
#define shim_real(name)                                                                                                \
	({                                                                                                             \
		static void *_Atomic shim_fn_;                                                                         \
		if (!shim_fn_)                                                                                         \
			shim_fn_ = shim_real_symbol(#name);                                                            \
		(__typeof__(&name))(void *)shim_fn_;                                                                   \
	})

/* ---- operations that contexts point to --------------------------------------------------------------- */

/* defined in personality.c */
/** The personality that UROCE_ATOMICS names. @return NULL: unknown name, with a message in err. */
const struct shim_personality *shim_personality_find(char *err, size_t err_len);
#define SHIM_ATOMIC_SIZES (4 | 8 | 16 | 32) /* sizes of extended atomics: the bitwise OR of the sizes in bytes */
/** Sizes at which atomics are also atomic with respect to CPUs. */
#define SHIM_PCI_ATOMIC_SIZES                                                                                          \
	(IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP | IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP |                         \
	 IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP)

/* defined in query.c */
int shim_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t attr_len);
int shim_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int shim_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
/** Index of a GID in the table, or -1. */
int shim_gid_find(struct shim_context *ctx, const union ibv_gid *gid);

/* defined in pd.c, mr.c, dm.c, mw.c */
struct ibv_td *shim_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int shim_dealloc_td(struct ibv_td *td);
struct ibv_pd *shim_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
/** Called when an object starts to use a PD, and when it stops. Only the users of parent domains and imported PDs are
 * counted here: the NIC counts the users of its own PDs. */
void shim_pd_get(struct ibv_pd *pd);
void shim_pd_put(struct ibv_pd *pd);
struct ibv_mr *shim_mr_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access);
/** Create a memory region. @param mem its memory, already checked. @param dm NULL, or the device memory that
 * contains mem: the caller has counted the region in dm->users, and deregistration uncounts it. */
struct ibv_mr *shim_mr_new(struct ibv_pd *pd, void *mem, size_t length, uint64_t iova, uint32_t rights,
			   struct shim_dm *dm);
/** Translate access rights for the NIC. */
uint32_t shim_access_translate(unsigned access);
#define SHIM_DM_MAX (1u << 20) /* bytes of device memory that a context can have */
/** Allocate zeroed device memory. @return NULL with errno: EIO, EINVAL, ENOMEM. */
struct shim_dm *shim_dm_new(struct ibv_context *context, size_t length);
/** Free device memory. @return 0; ENOENT: the program has overwritten the context or handle in its struct ibv_dm;
 * EBUSY: the memory has regions or imports; EIO: a parent of this process allocated it. */
int shim_dm_free(struct shim_dm *dm);
/** The process address of `length` bytes at `offset` in device memory. @return NULL: out of range. */
uint8_t *shim_dm_at(struct shim_dm *dm, uint64_t offset, size_t length);
/** Register a part of device memory. The region starts at address 0. */
struct ibv_mr *shim_dm_reg(struct ibv_pd *pd, struct shim_dm *dm, uint64_t offset, size_t length, unsigned access);
struct ibv_dm *shim_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int shim_free_dm(struct ibv_dm *dm);
struct ibv_mr *shim_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access);
struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shim_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge,
		   uint32_t n);
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int shim_dealloc_mw(struct ibv_mw *mw);
/** Translate a memory window bind for the NIC. @return false: there is no window, or the region is imported or
 * belongs to another context than the window. */
bool shim_bind_translate(struct nic_bind *out, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);

/* defined in ah.c */
/** Translate an address vector for the NIC. @return false: it has no GRH, or a wrong port. */
bool shim_av_from_ibv(const struct ibv_ah_attr *attr, struct nic_av *av);
void shim_av_to_ibv(const struct nic_av *av, struct ibv_ah_attr *attr);

/* defined in srq.c, qp.c, post.c, wr_ex.c */
/** Attributes of a new QP beyond struct ibv_qp_init_attr. */
struct shim_qp_extra {
	bool extended;	   /* has the ibv_wr_* interface */
	uint64_t send_ops; /* the operations of the ibv_wr_* interface */
	uint32_t max_atomic_arg;
	bool be_replies;				/* results of atomics of all sizes are in network byte order */
	bool cross_channel, managed_send, managed_recv; /* see nic_qp_init */
};
struct ibv_qp *shim_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, const struct shim_qp_extra *extra);
struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
struct ibv_qp *shim_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int shim_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad_wr);
int shim_get_srq_num(struct ibv_srq *srq, uint32_t *num);
int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/** Post receives; a QP that is NULL refuses them. Engine lock held. @return 0, or an errno with *bad_wr set. */
int shim_recv_list(struct shim_context *ctx, struct nic_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/** Set up the ibv_wr_* operations of a QP. @return 0; EOPNOTSUPP: the QP's type lacks one of `send_ops`. */
int shim_wr_ex_init(struct shim_qp *qp, uint64_t send_ops);
void shim_wr_ex_fini(struct shim_qp *qp);

/* Translations that ibv_post_send (post.c) and ibv_exp_post_send (exp/post.c) share. */

/** Set the destination of a datagram. */
static inline void shim_ud_translate(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, struct nic_send_wr *out)
{
	out->ud.ah = ah ? container_of(ah, struct shim_ah, ibv)->nic : NULL;
	out->ud.remote_qpn = qpn;
	out->ud.remote_qkey = qkey;
}

/** Translate a standard atomic. @return 0; -EINVAL: this QP has no atomics. */
static inline int shim_atomic_translate(const struct shim_qp *qp, uint64_t addr, uint32_t rkey, uint64_t compare_add,
					uint64_t swap, struct nic_send_wr *out)
{
	out->atomic.remote_addr = addr;
	out->atomic.compare_add = compare_add;
	out->atomic.swap = swap;
	out->atomic.rkey = rkey;
	return qp->no_atomics ? -EINVAL : 0;
}

/** Translate the bind of a type 2 window. @return 0; -EINVAL: a window of another type, a window or region of
 * another context, or an imported region. */
static inline int shim_bind_wr_translate(const struct shim_qp *qp, struct ibv_mw *mw, uint32_t rkey,
					 const struct ibv_mw_bind_info *info, struct nic_send_wr *out)
{
	out->num_sge = 0;
	return mw && mw->context == qp->ibv.context && mw->type == IBV_MW_TYPE_2 &&
			       shim_bind_translate(&out->bind, mw, rkey, info)
		       ? 0
		       : -EINVAL;
}

/** Whether num_sge is within the device's limit. Must be checked before the SGE list is read, because the NIC
 * does not limit the number of SGEs of an inline send. */
static inline bool shim_sge_count_sane(const struct shim_context *ctx, int num_sge)
{
	return num_sge >= 0 && (uint32_t)num_sge <= nic_limits(ctx->nic)->max_sge;
}

#endif
