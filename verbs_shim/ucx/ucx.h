/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.h - the UCX transport "uroce": memory domains, interfaces and endpoints on the NIC's reliable datagram endpoints
 * (nic_rdm.h). An active message is one message of the NIC, whose data field contains the token of the target's
 * interface and the active message's id. The target's NIC executes PUT, GET and atomic operations, without the target's
 * program. Private to verbs_shim/ucx.
 *
 * A UCX interface has one endpoint of the NIC, which receives from all peers. A UCX endpoint is a peer of that NIC
 * endpoint.
 *
 * Threads: UCX calls the functions of a worker's interfaces from one thread at a time. Any thread that makes progress
 * for the engine can run the NIC's callback. The callback shares with these functions only members that the engine's
 * lock guards; comments at the members say so.
 */
#ifndef UX_UCX_H
#define UX_UCX_H

#include <stdbool.h>

#include "abi.h"
#include "engine.h"
#include "list.h"
#include "nic_rdm.h"

#define UX_OPS		4096u		   /* maximum number of operations in flight on an interface */
#define UX_SHORT_MAX	NIC_RDM_INJECT_MAX /* bytes of "short" operations */
#define UX_BCOPY_MAX	NIC_RDM_EAGER_MAX  /* bytes of "bcopy" operations, and of every active message */
#define UX_ZCOPY_MAX	(1ull << 30)	   /* bytes of a "zcopy" PUT or GET */
#define UX_HEADER_MAX	256u		   /* bytes of the header of a "zcopy" active message */
#define UX_IOV_MAX	NIC_RDM_IOV_MAX	   /* segments of a PUT, GET or message; a message's header takes one */
#define UX_BUFFERS	8u		   /* receive buffers of an interface; each takes many messages */
#define UX_BUFFER_BYTES (256u << 10)	   /* bytes of a receive buffer */
#define UX_NO_ID	UINT8_MAX

/** Functions and variables of libuct and libucs, found by name when the transport is loaded. */
struct ux_libs {
	void (*component_register)(void *component);
	void (*tl_register)(void *component, void *tl);
	ucs_status_t (*base_init)(struct uct_base_iface *self, struct ucs_class *cls, int *count,
				  struct uct_iface_ops *ops, const void *internal_ops, struct uct_md *md,
				  struct uct_worker *worker, const struct uct_iface_params *params, const void *config);
	void (*class_cleanup)(struct ucs_class *cls, void *object, int limit);
	void (*base_query)(struct uct_base_iface *self, struct uct_iface_attr *attr);
	void (*progress_enable)(struct uct_iface *iface, unsigned flags);
	void (*progress_disable)(struct uct_iface *iface, unsigned flags);
	ucs_status_t (*estimate_perf)(struct uct_iface *iface, void *attr);
	ucs_status_t (*ep_error)(struct uct_iface *iface, struct uct_ep *ep, ucs_status_t status);
	ucs_status_t (*am_alignment)(const struct uct_iface_params *params, size_t elem_size, size_t base_offset,
				     size_t payload_offset, size_t *align, size_t *align_offset);
	void (*log)(const char *file, unsigned line, const char *function, int level, struct ucs_log_component *from,
		    const char *format, ...);
	void *(*alloc)(size_t size, const char *name); /* memory that UCX frees */
	struct ucs_class *base_class;
	void *iface_config_table, *md_config_table;
};
extern struct ux_libs ux_libs;

struct ux_md {
	struct uct_md super;
	struct pmd_device device;
	struct pmd_engine *engine;
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_mr *all; /* the region that stands for every registration; NULL: each has one of its own */
};

struct ux_ep {
	struct uct_ep super;
	struct ux_iface *iface;
	struct nic_rdm_peer *peer;
	struct list ops;     /* operations that have not been reported, and flushes behind them, oldest first */
	struct list pending; /* struct ux_pending, oldest first */
	struct list waiting; /* on iface->waiting while `pending` is not empty */
	uint32_t fences;     /* iface->fences as far as applied: if they differ, the next operation is fenced */
	bool fenced;	     /* the next operation starts when all earlier ones have ended */
	bool retrying;	     /* the oldest request of `pending` is being tried again */
	ucs_status_t failed; /* UCS_OK: no operation has been reported as failed */
	bool broken;	     /* guarded by the engine's lock: an operation has failed; post no more */
	uint32_t token;	     /* of the peer's interface */
	uint32_t key;	     /* the R_Key of all memory of the peer; 0: each registration has its own */
};

enum ux_kind {
	UX_PLAIN,  /* at its end needs nothing but a report */
	UX_UNPACK, /* passes the buffer's bytes to op->unpack */
	UX_FETCH,  /* stores op->old */
	UX_FLUSH,  /* ends with all operations before it */
};

/** An operand or result of an atomic operation. */
union ux_word {
	uint64_t u64;
	uint32_t u32;
};

/** An operation in flight. */
struct ux_op {
	struct list node; /* on ep->ops, or on iface->free_ops */
	struct list due;  /* on iface->due: the NIC has completed it */
	struct ux_ep *ep; /* NULL: the endpoint was destroyed. Changes only with the engine's lock held */
	struct uct_completion *comp;
	uint32_t nic_status; /* guarded by the engine's lock until the operation is taken from `due` */
	uint8_t kind;
	uint8_t *buffer;      /* UX_BCOPY_MAX bytes, returned to iface->free_buffers; NULL: none */
	uct_unpack_fn unpack; /* UX_UNPACK */
	void *arg;
	size_t length;
	void *result; /* UX_FETCH */
	uint32_t width;
	union ux_word operand, compare, old;
	uint8_t header[UX_HEADER_MAX];
};

/** A message that has arrived. */
struct ux_message {
	void *data;
	uint32_t length;
	uint8_t id; /* UX_NO_ID: there is no message, only `last` counts */
	bool last;  /* the buffer takes no more messages */
	struct ux_buffer *buffer;
};

/** A receive buffer. */
struct ux_buffer {
	uint8_t *bytes;
};

struct ux_iface {
	struct uct_base_iface *base;
	struct ux_md *md;
	struct nic_rdm *rdm;
	uint16_t port;
	uint32_t in_flight; /* operations of all endpoints, flushes not counted */
	uint32_t fences;    /* number of fences for all endpoints so far */
	bool full;	    /* the NIC refused an operation for lack of room; cleared when an operation ends */
	int failure_level;  /* enum ucs_log_level: how to log the loss of a peer, if UCX handles the loss */
	uint32_t token;	    /* random; only messages that carry this number are delivered */
	struct ux_op *ops;
	struct list free_ops, waiting;
	void **free_buffers; /* buffers for operations; each free buffer begins with a pointer to the next */
	struct ux_buffer buffers[UX_BUFFERS];
	uint8_t *receive_memory;
	int event_fd;

	/* The engine's lock guards the members below. */
	struct list due;
	struct {
		struct ux_message *ring;
		uint32_t size, head, n; /* size is a power of two */
	} arrived;
	bool armed;
	bool lost;	  /* no memory for a message that arrived, or to post a receive buffer */
	uint64_t strange; /* number of messages that were not for this interface */
};

/** The offset of our part of an interface. UCX's part comes first; UCX's class contains the size of UCX's part. */
static inline size_t ux_base_size(void)
{
	return (ux_libs.base_class->size + 63) & ~(size_t)63;
}

static inline struct ux_iface *ux_iface_of(const struct uct_iface *iface)
{
	return (struct ux_iface *)((uint8_t *)(uintptr_t)iface + ux_base_size());
}

static inline struct ux_ep *ux_ep_of(struct uct_ep *ep)
{
	return (struct ux_ep *)ep;
}

/** Take the engine's lock. @return false: a parent of this process opened the device. */
static inline bool ux_enter(const struct ux_md *md)
{
	if (pmd_is_dead(md->engine))
		return false;
	pmd_lock(md->engine);
	return true;
}

static inline void ux_leave(const struct ux_md *md)
{
	pmd_unlock(md->engine);
}

/* ---- load.c, version.c, md.c ---------------------------------------------------------------------------- */

/** Register the transport with UCX of this version. @return false: the version is not supported. */
bool ux_register(unsigned major, unsigned minor);
extern const void *ux_internal_ops;

ucs_status_t ux_md_resources(void *component, struct uct_md_resource **out, unsigned *n);
/** Open the device. @param ops the table of memory domain functions for this UCX version. */
ucs_status_t ux_md_open(void *component, const char *name, const void *ops, struct uct_md **out);
/** Capabilities. With UROCE_UCX_ONE_KEY, accesses need no key, and UCX passes none. */
uint64_t ux_md_flags(struct uct_md *md);
void ux_md_close(struct uct_md *md);
ucs_status_t ux_md_register(struct uct_md *md, void *addr, size_t length, void **memh);
ucs_status_t ux_md_deregister(struct uct_md *md, const struct uct_md_dereg_params *params);
/** The packed remote key: the region's R_Key. */
#define UX_RKEY_BYTES 4u
void ux_md_pack(void *memh, void *buffer);
ucs_status_t ux_rkey_unpack(void *component, const void *buffer, uct_rkey_t *rkey, void **handle);
ucs_status_t ux_rkey_release(void *component, uct_rkey_t rkey, void *handle);
ucs_status_t ux_devices(struct uct_md *md, struct uct_device_resource **out, unsigned *n);

/* ---- names.c -------------------------------------------------------------------------------------------- */

#define UX_NAMES 4u
/** A name under which UCX knows the transport. */
struct ux_name {
	char name[10];
	/** Report the device, unless the name is one of ConnectX's and UCX_TLS does not select it. */
	ucs_status_t (*devices)(struct uct_md *md, struct uct_device_resource **out, unsigned *n);
};
extern const struct ux_name ux_names[UX_NAMES];

/* ---- iface.c -------------------------------------------------------------------------------------------- */

ucs_status_t ux_iface_open(struct uct_md *md, struct uct_worker *worker, const struct uct_iface_params *params,
			   const void *config, struct uct_iface **out);
/** @param iface_addr NULL: not known. @return whether the address is one of this transport's, and can be reached. */
int ux_iface_reaches(const struct uct_iface *iface, const void *dev_addr, const void *iface_addr);
/** Decode an interface's address. @param ep receives its token and key; NULL: they are not wanted. */
struct nic_rdm_addr ux_address(const void *dev_addr, const void *iface_addr, struct ux_ep *ep);
/** Whether the address is that of the interface's own device. */
bool ux_iface_is_near(const struct uct_iface *iface, const void *dev_addr);

/* ---- progress.c ----------------------------------------------------------------------------------------- */

/** nic_rdm_init.done; ctx is the interface. */
void ux_done(void *ctx, const struct nic_rdm_done *done);
unsigned ux_progress(struct uct_iface *iface);
/** Post the receive buffer. Engine lock held. */
void ux_buffer_post(struct ux_iface *iface, struct ux_buffer *buffer);
void ux_complete(struct uct_completion *comp, ucs_status_t status);
ucs_status_t ux_event_fd(struct uct_iface *iface, int *fd);
ucs_status_t ux_event_arm(struct uct_iface *iface, unsigned events);

/* ---- check.c -------------------------------------------------------------------------------------------- */

/** Write to UCX's log. UCS_LOG_FATAL ends the process. */
void ux_say(const struct ux_iface *iface, int level, const char *what);
/** Both write to UCX's log why a call is refused. @return true */
bool ux_length_refused(struct uct_ep *ep, const char *what, size_t length, size_t most);
bool ux_am_id_refused(struct uct_ep *ep, uint8_t id);

/** Whether the length is more than the interface's attributes permit. */
static inline bool ux_too_long(struct uct_ep *ep, const char *what, size_t length, size_t most)
{
	return __builtin_expect(length > most, 0) && ux_length_refused(ep, what, length, most);
}

/** Whether there is no active message with this id. */
static inline bool ux_no_am_id(struct uct_ep *ep, uint8_t id)
{
	return __builtin_expect(id >= UCT_AM_ID_MAX, 0) && ux_am_id_refused(ep, id);
}

/* ---- op.c ----------------------------------------------------------------------------------------------- */

/** Take a free operation for an endpoint, even if the endpoint has failed. @return NULL: no operation is free. */
struct ux_op *ux_op_take(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp);
/** Take a free operation that is to be posted. @return NULL: *status says why. */
struct ux_op *ux_op_new(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp, ucs_status_t *status);
/** As ux_op_new(); the operation also gets a buffer. */
struct ux_op *ux_op_new_buffer(struct ux_ep *ep, enum ux_kind kind, struct uct_completion *comp, ucs_status_t *status);
void ux_op_free(struct ux_iface *iface, struct ux_op *op);
/** Post an operation. On failure the operation is freed. @return UCS_OK: posted. */
ucs_status_t ux_post_send(struct ux_op *op, uint8_t id, const struct nic_iov *iov, uint32_t n, uint32_t flags);
ucs_status_t ux_post_rma(struct ux_op *op, bool read, const struct nic_iov *iov, uint32_t n, uint64_t addr,
			 uct_rkey_t rkey, uint32_t flags);
ucs_status_t ux_post_atomic(struct ux_op *op, uint8_t elem_op, uint64_t addr, uct_rkey_t rkey);
/** Translate the NIC's completion status for UCX. */
ucs_status_t ux_status(uint32_t nic_status);

/* ---- ep.c, message.c, rma.c, atomic.c: the functions of struct uct_iface_ops ----------------------------- */

ucs_status_t ux_ep_create(const struct uct_ep_params *params, struct uct_ep **out);
void ux_ep_destroy(struct uct_ep *ep);
ucs_status_t ux_ep_flush(struct uct_ep *ep, unsigned flags, struct uct_completion *comp);
ucs_status_t ux_ep_fence(struct uct_ep *ep, unsigned flags);
ucs_status_t ux_ep_check(struct uct_ep *ep, unsigned flags, struct uct_completion *comp);
ucs_status_t ux_ep_pending_add(struct uct_ep *ep, struct uct_pending_req *req, unsigned flags);
void ux_ep_pending_purge(struct uct_ep *ep, void (*purge)(struct uct_pending_req *, void *), void *arg);
/** Complete the flushes that no operation precedes any more. Their completions may destroy the endpoint. */
void ux_ep_drain(struct ux_ep *ep);
/** Whether the endpoint's peer has this address. */
bool ux_ep_connects(struct uct_ep *ep, const void *dev_addr, const void *iface_addr);
/** Try the interface's pending requests again. */
void ux_retry(struct ux_iface *iface);

ucs_status_t ux_am_short(struct uct_ep *ep, uint8_t id, uint64_t header, const void *payload, unsigned len);
ucs_status_t ux_am_short_iov(struct uct_ep *ep, uint8_t id, const struct uct_iov *iov, size_t n);
ssize_t ux_am_bcopy(struct uct_ep *ep, uint8_t id, uct_pack_fn pack, void *arg, unsigned flags);
ucs_status_t ux_am_zcopy(struct uct_ep *ep, uint8_t id, const void *header, unsigned header_len,
			 const struct uct_iov *iov, size_t n, unsigned flags, struct uct_completion *comp);

/** Translate segments for the NIC, omitting empty ones, and add their length to *length. @param room the maximum number
 * of segments in `out`. @return the number of segments in `out`; negative: a ucs_status_t. */
int ux_iov(const struct uct_iov *in, size_t n, struct nic_iov *out, uint32_t room, size_t *length);
ucs_status_t ux_put_short(struct uct_ep *ep, const void *buf, unsigned len, uint64_t addr, uct_rkey_t rkey);
ssize_t ux_put_bcopy(struct uct_ep *ep, uct_pack_fn pack, void *arg, uint64_t addr, uct_rkey_t rkey);
ucs_status_t ux_put_zcopy(struct uct_ep *ep, const struct uct_iov *iov, size_t n, uint64_t addr, uct_rkey_t rkey,
			  struct uct_completion *comp);
ucs_status_t ux_get_bcopy(struct uct_ep *ep, uct_unpack_fn unpack, void *arg, size_t len, uint64_t addr,
			  uct_rkey_t rkey, struct uct_completion *comp);
ucs_status_t ux_get_zcopy(struct uct_ep *ep, const struct uct_iov *iov, size_t n, uint64_t addr, uct_rkey_t rkey,
			  struct uct_completion *comp);

/** The supported atomic operations without (POST) and with (FETCH) a result: a bit per value of enum uct_atomic_op. */
#define UX_ATOMIC_POST                                                                                                 \
	((1u << UCT_ATOMIC_OP_ADD) | (1u << UCT_ATOMIC_OP_AND) | (1u << UCT_ATOMIC_OP_OR) | (1u << UCT_ATOMIC_OP_XOR))
#define UX_ATOMIC_FETCH (UX_ATOMIC_POST | (1u << UCT_ATOMIC_OP_SWAP) | (1u << UCT_ATOMIC_OP_CSWAP))
ucs_status_t ux_atomic32_post(struct uct_ep *ep, unsigned op, uint32_t value, uint64_t addr, uct_rkey_t rkey);
ucs_status_t ux_atomic64_post(struct uct_ep *ep, unsigned op, uint64_t value, uint64_t addr, uct_rkey_t rkey);
ucs_status_t ux_atomic32_fetch(struct uct_ep *ep, unsigned op, uint32_t value, uint32_t *result, uint64_t addr,
			       uct_rkey_t rkey, struct uct_completion *comp);
ucs_status_t ux_atomic64_fetch(struct uct_ep *ep, unsigned op, uint64_t value, uint64_t *result, uint64_t addr,
			       uct_rkey_t rkey, struct uct_completion *comp);
ucs_status_t ux_cswap32(struct uct_ep *ep, uint32_t compare, uint32_t swap, uint64_t addr, uct_rkey_t rkey,
			uint32_t *result, struct uct_completion *comp);
ucs_status_t ux_cswap64(struct uct_ep *ep, uint64_t compare, uint64_t swap, uint64_t addr, uct_rkey_t rkey,
			uint64_t *result, struct uct_completion *comp);

#endif
