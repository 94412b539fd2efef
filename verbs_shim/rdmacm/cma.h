/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma.h - connections as librdmacm expects them from a kernel (private to verbs_shim/rdmacm): ids, addresses, routes,
 * port spaces, events. Below it are the connection managers of the devices (nic_cm.h, engine_cm.h); above it the
 * command ABI (ucma_abi.c) and the descriptor of /dev/infiniband/rdma_cm (device.c). No code here interposes functions
 * of the C library.
 *
 * Locks, outermost first: an id's `op`, held during each command on the id; the lock of the device list
 * (cma_device.c); an engine's lock (pmd_lock); cma_lock. The members of an id from `state` on change in two ways: by
 * commands, which hold the id's `op`, and by events of the id's connection, which hold only the engine's lock. These
 * members do not change while a thread holds both locks. cma_lock guards the rest: the files, the queued events, the
 * table of ids, and the memberships of multicast groups. No thread can be cancelled while it holds cma_lock.
 *
 * Calls return 0 or the negative errno that the kernel would return.
 */
#ifndef CMA_H
#define CMA_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "engine_cm.h"
#include "list.h"
#include "nic_cm.h"
#include "ucma_abi.h"

#define CMA_AF_IB 27 /* AF_IB, the family of InfiniBand addresses, which are not supported */

/* The kernel's values. CMA_RESPONSE_TIMEOUT and CMA_PACKET_LIFE are exponents: 4.096 us * 2^n. CMA_RETRIES is the
 * maximum number of times that a message is resent. */
#define CMA_RESPONSE_TIMEOUT 20
#define CMA_RETRIES	     15
#define CMA_PACKET_LIFE	     16
#define CMA_HOP_LIMIT	     64
#define CMA_UD_QKEY	     0x01234567u
#define CMA_PKEY	     0xffff
#define CMA_BACKLOG_MAX	     1024

/* A connection raises at most three events: answered, established or failed; disconnected; end of time-wait. */
#define CMA_CONN_EVENTS 3

/** States of an id, each with the commands that lead out of it. */
enum cma_state {
	CMA_IDLE,	    /* bind, resolve address, listen */
	CMA_ADDR_BOUND,	    /* resolve address, listen */
	CMA_ADDR_RESOLVED,  /* resolve route, set path */
	CMA_ROUTE_RESOLVED, /* connect */
	CMA_CONNECT,	    /* a request was sent or received; disconnecting leads out of it */
	CMA_DISCONNECT,
	CMA_LISTEN,
	CMA_DESTROYING,
};

/** An IP address and a port. Family 0 means that there is no address. The wildcard address has a GID of zeroes. */
struct cma_addr {
	uint16_t family;
	uint16_t port; /* host order */
	uint32_t scope, flowinfo;
	struct nic_gid gid;
};

/** A device. Opened when it is first used; never closed or freed. */
struct cma_device {
	struct cma_device *next;
	struct pmd_device pmd;
	bool present; /* whether the configuration contained the device when it was last read */
	struct pmd_engine *engine;
	struct nic_cm *cm;
};

/** A port that an id has bound on one device. `listener` is set while the id listens on the port. */
struct cma_port {
	struct cma_port *next;
	struct cma_device *device;
	struct pmd_cm_port *port;
	struct nic_cm_id *listener;
};

struct cma_path {
	bool known; /* the route is resolved */
	uint8_t mtu;
	uint8_t packet_life;
	uint8_t traffic_class, hop_limit, sl;
	uint32_t flow_label;
};

/** Parameters of a connection and of its QP. */
struct cma_conn {
	uint32_t qpn, rq_psn;
	uint32_t remote_qpn, sq_psn;
	uint8_t responder_resources, initiator_depth; /* of this side's QP */
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;
	uint8_t mtu;
	bool answered; /* the peer's REQ or REP has arrived: its values are known */
};

struct cma_event;
struct cma_file;

struct cma_id {
	/* members guarded by cma_lock */
	struct list link; /* in its file */
	struct cma_file *file;
	uint64_t uid; /* librdmacm's pointer to its own id; 0: a request that the program has not accepted yet */
	uint32_t number;
	uint32_t refs;
	uint32_t events_reported;
	uint32_t backlog; /* number of requests that can still be queued before the program reads one */
	/* allocated in advance, so that no event of the id's connection is lost for lack of memory */
	struct cma_event *spare[CMA_CONN_EVENTS];
	uint32_t n_spare;

	pthread_mutex_t op;
	enum cma_state state;
	uint16_t space; /* enum nic_cm_space */
	uint8_t qp_type;
	bool reuse, one_family;
	bool tos_set, ack_timeout_set;
	uint8_t tos, ack_timeout;
	struct cma_addr src, dst;
	struct cma_device *device;
	struct cma_port *ports;
	struct nic_cm_id *cm;
	struct cma_path path;
	struct cma_conn conn;
	uint32_t qkey; /* of datagrams */
};

extern pthread_mutex_t cma_lock;

static inline bool cma_is_ud(const struct cma_id *id)
{
	return id->qp_type == UCMA_QPT_UD;
}

/* ---- ids (cma_id.c) ---------------------------------------------------------------------------------- */

/** Create an id in a file. It has one reference, which lasts until the number of the id is given up. cma_lock held.
 *  @return NULL: no memory, or the file's last descriptor has been closed */
struct cma_id *cma_id_new(struct cma_file *file, uint16_t space, uint8_t qp_type);
/** Find an id by its number, take a reference, and lock `op`. @return 0; -ENOENT; -EINVAL: the id belongs to another
 * file */
int cma_id_enter(const struct cma_file *file, uint32_t number, struct cma_id **out);
void cma_id_leave(struct cma_id *id);
void cma_id_put(struct cma_id *id);
/** Take one of the CMA_CONN_EVENTS events that were allocated with the id. The caller fills the event in and queues it.
 *  cma_lock held. */
struct cma_event *cma_id_event(struct cma_id *id);
/** End the id's connection and memberships, release its ports, refuse the requests that the program has not read, and
 *  remove the id from its file and from the table. The id is freed when its last reference is released. `op` is held
 *  before and after. @return the number of the id's events that the program has read */
uint32_t cma_id_destroy(struct cma_id *id);
/** Lock and unlock the device's engine. If `device` is NULL (the id has no device), do nothing. Before cma_engine_leave
 *  unlocks the engine, it rings the doorbell, so that queued messages are sent. */
void cma_engine_enter(const struct cma_device *device);
void cma_engine_leave(const struct cma_device *device);

/* ---- files and events (cma_file.c) ------------------------------------------------------------------- */

/** Open a file, which holds ids and a queue of their events. *fd is readable while an event is queued. @return NULL:
 * *fd is a negative errno */
struct cma_file *cma_file_open(int flags, int *fd);
/** Find the file of a descriptor, and take a reference. Keeps errno. @return NULL: the descriptor is not one of ours */
struct cma_file *cma_file_get(int fd);
/** Whether a parent process opened the file: a forked child inherits the descriptor, but cannot use it. */
bool cma_file_is_inherited(const struct cma_file *file);
/** Register the fork handlers of cma_lock. Call it before pmd_fork_handlers(), because cma_lock is taken while engines
 * are locked. */
void cma_fork_inner(void);
/** Register the fork handlers of the lock of the device list. Call it after pmd_fork_handlers(), because this lock is
 * held while engines are opened. */
void cma_fork_outer(void);
void cma_file_put(struct cma_file *file);
/** Tell the file that `fd` is a new copy of its descriptor (cma_file_dup), or that `fd` is about to be closed
 *  (cma_file_close). When the last descriptor is closed, the file and its ids are destroyed. */
void cma_file_dup(struct cma_file *file, int fd);
void cma_file_close(struct cma_file *file, int fd);

/** cma_file_add puts a new id into the file; cma_file_migrate moves an id and its queued events from another file to
 *  the file `to`. cma_lock held. @return false: the file's last descriptor has been closed. */
bool cma_file_add(struct cma_file *file, struct cma_id *id);
bool cma_file_migrate(struct cma_file *to, struct cma_id *id);

/** A queued event of an id. For a connection request, `id` is the listener. */
struct cma_event {
	struct list link;
	struct cma_id *id;
	struct cma_id *request; /* for a connection request: the new id, with a reference; else NULL */
	/* For an event of a multicast group, points to the group's count of events that the program has read; otherwise
	 * NULL. */
	uint32_t *reported;
	struct rdma_ucm_event_resp resp;
};

/** Queue an event, and take ownership of it. cma_lock held. */
void cma_event_queue(struct cma_event *event);
/** Queue an event without parameters. @return 0, -ENOMEM */
int cma_event_simple(struct cma_id *id, uint32_t type, int status);
/** Remove all queued events of an id, and free them; connection requests are appended to `requests` instead, for the
 *  caller to refuse. cma_lock held. */
void cma_event_purge(struct cma_id *id, struct list *requests);
/** Remove and free the queued events of a multicast group: those whose `reported` is this pointer. cma_lock held. */
void cma_event_forget(struct cma_file *file, const uint32_t *reported);
/** Read the oldest event. @param cancel the thread's cancelability during a wait for an event; the caller has disabled
 *  cancellation. @return 0, -EAGAIN (no event is queued, and `block` is false), -EINTR */
int cma_event_read(struct cma_file *file, int fd, bool block, int cancel, struct rdma_ucm_event_resp *out);
/** A pmd_cm_event_fn: turns a nic_cm_event into an event for librdmacm. ctx is the struct cma_device (cma_event.c). */
void cma_event_from_cm(void *ctx, const struct nic_cm_event *event);

/* ---- addresses (cma_addr.c) -------------------------------------------------------------------------- */

/** Get the size of a socket address from its family. @return 0: the family is not IPv4, IPv6 or InfiniBand */
unsigned cma_sockaddr_size(const void *sockaddr);
/** @return 0, -EAFNOSUPPORT */
int cma_addr_from(const void *sockaddr, struct cma_addr *out);
/** @return the length of what was written: up to sizeof(struct sockaddr_in6) */
unsigned cma_addr_to(const struct cma_addr *addr, void *sockaddr);
bool cma_addr_is_any(const struct cma_addr *addr);
bool cma_addr_is_loopback(const struct cma_addr *addr);
bool cma_gid_is_v4(const struct nic_gid *gid);

/** The RDMA IP header at the start of a request's private data (IBTA annex A11): both addresses and the source port. */
#define CMA_HEADER_LEN NIC_CM_IP_LEN
void cma_header_write(uint8_t *out, const struct cma_addr *src, const struct cma_addr *dst);
/** Read the RDMA IP header. `remote` gets its source, `local` its destination. @return false: no valid header */
bool cma_header_read(const uint8_t *in, size_t len, struct cma_addr *remote, struct cma_addr *local);

/* ---- devices (cma_device.c) -------------------------------------------------------------------------- */

/** Open a device's engine. Implemented outside this folder: ibverbs/cm_source.c. @return 0 or a negative errno */
int cma_front_open(const struct pmd_device *device, struct pmd_engine **out);

/** Find the device that has an address, and open it. @return 0, -ENODEV, another negative errno */
int cma_device_by_address(const struct cma_addr *addr, struct cma_device **out);
/** Whether a device has the address. If a device cannot be opened, only its configured address is considered. */
bool cma_device_has(const struct cma_addr *addr);
/** Find the device and the source address by which to reach `dst`, and open the device.
 *  @param src in: the source address to use; zeroes mean any. out: the source address that was chosen.
 *  @return 0; -ENODEV: the route leads through none of our devices; -ENETUNREACH or another errno: there is no route */
int cma_route_find(const struct cma_addr *dst, struct cma_addr *src, struct cma_device **out);
/** Open all devices, and call fn for each device that could be opened, until fn returns a nonzero value. @return the
 * last result of fn. If no device could be opened: the first error other than -ENODEV, or -ENODEV if there is none */
int cma_device_each(int (*fn)(void *arg, struct cma_device *device), void *arg);
/** As cma_device_each(), but only for devices that are already open. */
int cma_device_open_each(int (*fn)(void *arg, struct cma_device *device), void *arg);
/** Index of an address in the device's GID table; -1: not in it. Engine lock held. */
int cma_device_gid_index(const struct cma_device *device, const struct nic_gid *gid);
/** Get the device's configured address. @return false: the address is not of this family */
bool cma_device_address(const struct cma_device *device, int family, struct cma_addr *out);
/** The port's active MTU, and the longest time for which its QPs delay an ACK, both in the encoding that verbs and MADs
 * use. */
uint8_t cma_device_mtu(const struct cma_device *device);
uint8_t cma_device_ack_delay(const struct cma_device *device);

/* ---- bind, listen (cma_bind.c) ----------------------------------------------------------------------- */

int cma_bind(struct cma_id *id, const struct cma_addr *addr);
/** On the active side, bind the id to the source address that the program names. If the program names no port, the id
 *  gets a port that other processes may also get (PMD_CM_ACTIVE). */
int cma_bind_source(struct cma_id *id, const struct cma_addr *addr);
/** On the active side, bind a source port, unless the id already has a port. */
int cma_bind_active(struct cma_id *id);
int cma_listen(struct cma_id *id, int backlog);
int cma_set_reuse(struct cma_id *id, bool on);
/** Release all ports, and stop listening. */
void cma_unbind(struct cma_id *id);

/* ---- resolve (cma_resolve.c) ------------------------------------------------------------------------- */

int cma_resolve_addr(struct cma_id *id, const struct cma_addr *src, const struct cma_addr *dst);
int cma_resolve_route(struct cma_id *id);
/** Fill in the path of an id that has a device. */
void cma_path_set(struct cma_id *id);

/* ---- connections (cma_conn.c) ------------------------------------------------------------------------ */

int cma_connect(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece);
/** Accept a connection request. If `param` is NULL, the program is on the active side and has moved its QP to RTS: send
 *  the RTU.
 *  @param uid becomes the id's uid, if `param` is not NULL. */
int cma_accept(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece,
	       uint64_t uid);
int cma_reject(struct cma_id *id, uint8_t reason, const void *private_data, uint8_t private_len);
int cma_disconnect(struct cma_id *id);
int cma_notify(struct cma_id *id, uint32_t event);
/** Choose the PSN with which the peer is to start a connection. */
uint32_t cma_psn_random(void);

/* ---- multicast (cma_mcast.c) ------------------------------------------------------------------------- */

/** Join a group, and queue the event that reports it. The id must have a device. @param uid librdmacm's pointer, which
 *  the event carries. @param number out: the number of the membership. @return 0; -EINVAL: the id is not for datagrams
 *  or not in state CMA_ADDR_BOUND or CMA_ADDR_RESOLVED, or `group` is not a multicast address of the id's family;
 *  -EOPNOTSUPP: the device has no multicast; -ENOMEM */
int cma_join(struct cma_id *id, const struct cma_addr *group, uint64_t uid, uint32_t *number);
/** End a membership. @param reported out: the number of its events that the program has read. @return 0; -ENOENT;
 *  -EINVAL: the membership belongs to another file */
int cma_leave(const struct cma_file *file, uint32_t number, uint32_t *reported);
/** End all memberships of an id. cma_lock held. */
void cma_leave_all(const struct cma_id *id);

/* ---- queries (cma_query.c) --------------------------------------------------------------------------- */

int cma_qp_attr(struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *out);
/** The address vector for datagrams to a peer. Engine lock held. */
void cma_ah_attr(const struct cma_id *id, const struct nic_gid *peer, struct ib_uverbs_ah_attr *out);
void cma_query_route(struct cma_id *id, struct rdma_ucm_query_route_resp *out);
void cma_query_addr(struct cma_id *id, struct rdma_ucm_query_addr_resp *out);
void cma_query_gid(struct cma_id *id, struct rdma_ucm_query_addr_resp *out);
/** Get the path as a path record in wire format (IBTA 15.2.5.16). @return false: the route is not resolved */
bool cma_query_path(struct cma_id *id, struct ib_path_rec_data *out);
/** Use the path that librdmacm gives, instead of resolving the route. */
int cma_path_take(struct cma_id *id, const struct ib_path_rec_data *path);

#endif
