/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h - what a transport shares with UCX's libuct, versions 1.13 and 1.18: structures, numbers and functions. UCX
 * installs no headers for transports. The structures that differ between the versions are in version.c alone.
 *
 * Names follow UCX's. Members that we never use can be merged into arrays, or omitted at the end. Durations are in
 * seconds, sizes in bytes.
 */
#ifndef UX_ABI_H
#define UX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef int8_t ucs_status_t;
enum {
	UCS_OK = 0,
	UCS_INPROGRESS = 1,
	UCS_ERR_NO_RESOURCE = -2,
	UCS_ERR_IO_ERROR = -3,
	UCS_ERR_NO_MEMORY = -4,
	UCS_ERR_INVALID_PARAM = -5,
	UCS_ERR_UNREACHABLE = -6,
	UCS_ERR_NO_DEVICE = -14,
	UCS_ERR_BUSY = -15,
	UCS_ERR_CANCELED = -16,
	UCS_ERR_EXCEEDS_LIMIT = -21,
	UCS_ERR_UNSUPPORTED = -22,
	UCS_ERR_ENDPOINT_TIMEOUT = -80,
};

struct ucs_list {
	struct ucs_list *prev, *next;
};

struct ucs_linear_func {
	double c, m; /* c + m * x */
};

/** A class object of libucs. The only class used here is that of uct_base_iface. */
struct ucs_class {
	const char *name;
	size_t size;
	void *unused[3];
};

#define UCT_AM_ID_MAX 32u

struct uct_iface;
struct uct_worker;
typedef uintptr_t uct_rkey_t;
typedef size_t (*uct_pack_fn)(void *to, void *arg);
typedef void (*uct_unpack_fn)(void *arg, const void *data, size_t length);
typedef ucs_status_t (*uct_am_fn)(void *arg, void *data, size_t length, unsigned flags);

struct uct_completion {
	void (*func)(struct uct_completion *self);
	int count; /* operations still in flight; whoever ends the last one calls func */
	ucs_status_t status;
};

/** A request that waits for resources. func returns UCS_OK when it has been sent. */
struct uct_pending_req {
	ucs_status_t (*func)(struct uct_pending_req *self);
	char priv[40]; /* memory that the transport may use while the request waits */
};

struct uct_iov {
	void *buffer;
	size_t length;
	void *memh;
	size_t stride;
	unsigned count;
};

struct uct_ep {
	struct uct_iface *iface;
};

struct uct_ep_params {
	uint64_t field_mask;
	struct uct_iface *iface;
	void *user_data;
	const void *dev_addr, *iface_addr;
	/* Members for connections by socket address follow. */
};
enum { UCT_EP_PARAM_DEV_ADDR = 1 << 2, UCT_EP_PARAM_IFACE_ADDR = 1 << 3 };

enum { UCT_FLUSH_CANCEL = 1 << 0 };

struct uct_iface_params {
	uint64_t field_mask;
	uint8_t cpu_mask[128];
	uint64_t open_mode;
	/* More follows, which libuct itself reads. */
};
enum { UCT_IFACE_PARAM_OPEN_MODE = 1 << 1, UCT_IFACE_OPEN_MODE_DEVICE = 1 << 0 };

/** The configuration that every interface has. */
struct uct_iface_config {
	struct {
		void *methods;
		unsigned count;
	} alloc_methods;
	int failure; /* enum ucs_log_level: how to log the loss of a peer, if UCX handles the loss */
		     /* More follows, which libuct itself reads. */
};
enum ucs_log_level { UCS_LOG_FATAL, UCS_LOG_ERROR, UCS_LOG_WARN, UCS_LOG_DIAG };

/** A source of log messages. UCX logs a message only if its level is at most `level`. */
struct ucs_log_component {
	int level;
	char name[16];
	const char *file_filter;
};

/** The limits of PUT and of GET. */
struct uct_rma_limits {
	size_t max_short, max_bcopy, min_zcopy, max_zcopy, opt_zcopy_align, align_mtu, max_iov;
};

struct uct_atomic_ops {
	uint64_t op_flags, fop_flags; /* bits of enum uct_atomic_op: without and with result */
};
enum uct_atomic_op {
	UCT_ATOMIC_OP_ADD,
	UCT_ATOMIC_OP_AND,
	UCT_ATOMIC_OP_OR,
	UCT_ATOMIC_OP_XOR,
	UCT_ATOMIC_OP_SWAP,
	UCT_ATOMIC_OP_CSWAP,
	UCT_ATOMIC_OPS
};

struct uct_iface_attr {
	struct uct_rma_limits put, get;
	struct {
		size_t max_short, max_bcopy, min_zcopy, max_zcopy, opt_zcopy_align, align_mtu, max_hdr, max_iov;
	} am;
	size_t tag[11];
	struct uct_atomic_ops atomic32, atomic64;
	uint64_t flags, event_flags;
	size_t device_addr_len, iface_addr_len, ep_addr_len, max_conn_priv;
	struct sockaddr_storage listen_sockaddr;
	double overhead;
	struct {
		double dedicated, shared;
	} bandwidth; /* bytes a second */
	struct ucs_linear_func latency;
	uint8_t priority;
	size_t max_num_eps;
	unsigned dev_num_paths;
};
enum uct_iface_flags {
	UCT_IFACE_AM_SHORT = 1 << 0,
	UCT_IFACE_AM_BCOPY = 1 << 1,
	UCT_IFACE_AM_ZCOPY = 1 << 2,
	UCT_IFACE_PENDING = 1 << 3,
	UCT_IFACE_PUT_SHORT = 1 << 4,
	UCT_IFACE_PUT_BCOPY = 1 << 5,
	UCT_IFACE_PUT_ZCOPY = 1 << 6,
	UCT_IFACE_GET_BCOPY = 1 << 9,
	UCT_IFACE_GET_ZCOPY = 1 << 10,
};
#define UCT_IFACE_ATOMIC_CPU		 (1ull << 30)
#define UCT_IFACE_ATOMIC_DEVICE		 (1ull << 31)
#define UCT_IFACE_ERRHANDLE_REMOTE_MEM	 (1ull << 36)
#define UCT_IFACE_ERRHANDLE_PEER_FAILURE (1ull << 38)
#define UCT_IFACE_EP_CHECK		 (1ull << 39)
#define UCT_IFACE_CONNECT_TO_IFACE	 (1ull << 40)
#define UCT_IFACE_CB_SYNC		 (1ull << 44)
#define UCT_IFACE_INTER_NODE		 (1ull << 54) /* since 1.15 */
enum uct_iface_event_flags {
	UCT_IFACE_EVENT_SEND_COMP = 1 << 0,
	UCT_IFACE_EVENT_RECV = 1 << 1,
	UCT_IFACE_EVENT_FD = 1 << 3,
};

/** The functions of an interface and of its endpoints. NULL: not supported. */
struct uct_iface_ops {
	ucs_status_t (*ep_put_short)(struct uct_ep *, const void *buf, unsigned len, uint64_t addr, uct_rkey_t);
	ssize_t (*ep_put_bcopy)(struct uct_ep *, uct_pack_fn, void *arg, uint64_t addr, uct_rkey_t);
	ucs_status_t (*ep_put_zcopy)(struct uct_ep *, const struct uct_iov *, size_t n, uint64_t addr, uct_rkey_t,
				     struct uct_completion *);
	void *ep_get_short;
	ucs_status_t (*ep_get_bcopy)(struct uct_ep *, uct_unpack_fn, void *arg, size_t len, uint64_t addr, uct_rkey_t,
				     struct uct_completion *);
	ucs_status_t (*ep_get_zcopy)(struct uct_ep *, const struct uct_iov *, size_t n, uint64_t addr, uct_rkey_t,
				     struct uct_completion *);
	ucs_status_t (*ep_am_short)(struct uct_ep *, uint8_t id, uint64_t header, const void *payload, unsigned len);
	ucs_status_t (*ep_am_short_iov)(struct uct_ep *, uint8_t id, const struct uct_iov *, size_t n);
	ssize_t (*ep_am_bcopy)(struct uct_ep *, uint8_t id, uct_pack_fn, void *arg, unsigned flags);
	ucs_status_t (*ep_am_zcopy)(struct uct_ep *, uint8_t id, const void *header, unsigned header_len,
				    const struct uct_iov *, size_t n, unsigned flags, struct uct_completion *);
	ucs_status_t (*ep_atomic_cswap64)(struct uct_ep *, uint64_t compare, uint64_t swap, uint64_t addr, uct_rkey_t,
					  uint64_t *result, struct uct_completion *);
	ucs_status_t (*ep_atomic_cswap32)(struct uct_ep *, uint32_t compare, uint32_t swap, uint64_t addr, uct_rkey_t,
					  uint32_t *result, struct uct_completion *);
	ucs_status_t (*ep_atomic32_post)(struct uct_ep *, unsigned op, uint32_t value, uint64_t addr, uct_rkey_t);
	ucs_status_t (*ep_atomic64_post)(struct uct_ep *, unsigned op, uint64_t value, uint64_t addr, uct_rkey_t);
	ucs_status_t (*ep_atomic32_fetch)(struct uct_ep *, unsigned op, uint32_t value, uint32_t *result, uint64_t addr,
					  uct_rkey_t, struct uct_completion *);
	ucs_status_t (*ep_atomic64_fetch)(struct uct_ep *, unsigned op, uint64_t value, uint64_t *result, uint64_t addr,
					  uct_rkey_t, struct uct_completion *);
	void *tag[8];
	ucs_status_t (*ep_pending_add)(struct uct_ep *, struct uct_pending_req *, unsigned flags);
	void (*ep_pending_purge)(struct uct_ep *, void (*)(struct uct_pending_req *, void *), void *arg);
	ucs_status_t (*ep_flush)(struct uct_ep *, unsigned flags, struct uct_completion *);
	ucs_status_t (*ep_fence)(struct uct_ep *, unsigned flags);
	ucs_status_t (*ep_check)(struct uct_ep *, unsigned flags, struct uct_completion *);
	ucs_status_t (*ep_create)(const struct uct_ep_params *, struct uct_ep **);
	void *ep_connect, *ep_disconnect, *cm_ep_conn_notify;
	void (*ep_destroy)(struct uct_ep *);
	void *ep_get_address, *ep_connect_to_ep, *iface_accept, *iface_reject;
	ucs_status_t (*iface_flush)(struct uct_iface *, unsigned flags, struct uct_completion *);
	ucs_status_t (*iface_fence)(struct uct_iface *, unsigned flags);
	void (*iface_progress_enable)(struct uct_iface *, unsigned flags);
	void (*iface_progress_disable)(struct uct_iface *, unsigned flags);
	unsigned (*iface_progress)(struct uct_iface *);
	ucs_status_t (*iface_event_fd_get)(struct uct_iface *, int *fd);
	ucs_status_t (*iface_event_arm)(struct uct_iface *, unsigned events);
	void (*iface_close)(struct uct_iface *);
	ucs_status_t (*iface_query)(struct uct_iface *, struct uct_iface_attr *);
	ucs_status_t (*iface_get_device_address)(struct uct_iface *, void *);
	ucs_status_t (*iface_get_address)(struct uct_iface *, void *);
	int (*iface_is_reachable)(const struct uct_iface *, const void *dev_addr, const void *iface_addr);
};

struct uct_iface {
	struct uct_iface_ops ops;
};

/** The first members of uct_base_iface, with which every interface object begins. For the whole size of
 *  uct_base_iface, see the member `size` of its class. */
struct uct_base_iface {
	struct uct_iface super;
	const void *internal_ops;
	void *md, *worker;
	struct {
		uct_am_fn cb;
		void *arg;
		uint32_t flags;
	} am[UCT_AM_ID_MAX];
};

/** The addresses that UCX 1.18 passes to is_reachable_v2() and ep_is_connected(). To ep_is_connected(), UCX passes
 *  only the first three members. */
struct uct_reachable_params {
	uint64_t field_mask;
	const void *device_addr, *iface_addr;
	char *info_string;
	size_t info_string_length;
	int scope;
	/* Lengths of the addresses follow. */
};
enum {
	UCT_REACHABLE_DEVICE_ADDR = 1 << 0,
	UCT_REACHABLE_IFACE_ADDR = 1 << 1,
	UCT_REACHABLE_SCOPE = 1 << 4,
	UCT_SCOPE_DEVICE = 0,
};

struct uct_device_resource {
	char name[32];
	int type;
	uint8_t sys_device;
};
enum { UCT_DEVICE_TYPE_NET = 0, UCS_SYS_DEVICE_UNKNOWN = 255 };

struct uct_md_resource {
	char md_name[16];
};

struct uct_md {
	const void *ops;
	void *component;
};

enum uct_md_flags { UCT_MD_REG = 1 << 1, UCT_MD_NEED_RKEY = 1 << 3 };
enum { UCS_MEMORY_HOST_BIT = 1 << 0 };

struct uct_md_dereg_params {
	uint64_t field_mask;
	unsigned flags;
	void *memh;
	struct uct_completion *comp;
};
enum { UCT_MD_DEREG_FLAGS = 1 << 1, UCT_MD_DEREG_FLAG_INVALIDATE = 1 << 0 };

#endif
