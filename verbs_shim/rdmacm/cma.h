/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma.h - connections as librdmacm expects them from a kernel (private to verbs_shim/rdmacm): ids, addresses, routes,
 * port spaces, events. Below it are the connection managers of the devices (nic_cm.h, engine_cm.h); above it the
 * command ABI (ucma_abi.c) and the descriptor of /dev/infiniband/rdma_cm (device.c). Nothing here interposes anything.
 *
 * Locks, outermost first: an id's `op`, held during each command on it; the list of devices (cma_device.c); an engine's
 * (pmd_lock); cma_lock. Events come with the engine's lock held. What an id is and does (`state` to `conn`) changes
 * with `op` held and, once it has a device, the engine's lock as well; so a holder of both sees no change. The rest,
 * ids by number, files and events, is under cma_lock, under which no thread can be cancelled.
 *
 * Calls return 0 or a negative errno: the kernel's.
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

#define CMA_AF_IB 27 /* of InfiniBand addresses, which are not supported */

/* As the kernel's: exponents of 4.096 us, and how often a message is sent again. */
#define CMA_RESPONSE_TIMEOUT 20
#define CMA_RETRIES	     15
#define CMA_PACKET_LIFE	     16
#define CMA_HOP_LIMIT	     64
#define CMA_UD_QKEY	     0x01234567u
#define CMA_PKEY	     0xffff
#define CMA_BACKLOG_MAX	     1024

/** States of an id, and what ends each. */
enum cma_state {
	CMA_IDLE,	    /* bind, resolve address, listen */
	CMA_ADDR_BOUND,	    /* resolve address, listen */
	CMA_ADDR_RESOLVED,  /* resolve route */
	CMA_ROUTE_RESOLVED, /* connect */
	CMA_CONNECT,	    /* from the request on, of either side, to the end of the connection */
	CMA_DISCONNECT,
	CMA_LISTEN,
	CMA_DESTROYING,
};

/** An IP address with its port; family 0: none. Any address is a GID of zeroes. */
struct cma_addr {
	uint16_t family;
	uint16_t port; /* host order */
	uint32_t scope, flowinfo;
	struct nic_gid gid;
};

/** A device; open from the first id that uses it on. Lives as long as the process. */
struct cma_device {
	struct cma_device *next;
	struct pmd_device pmd;
	bool present; /* in the configuration when it was last looked at */
	struct pmd_engine *engine;
	struct nic_cm *cm;
};

/** A port of one device that an id has bound, and listens on if `listener` is set. */
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

/** What the QP of a connection needs. */
struct cma_conn {
	uint32_t qpn, rq_psn;
	uint32_t remote_qpn, sq_psn;
	uint8_t responder_resources, initiator_depth; /* of this side's QP */
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;
	uint8_t mtu;
	bool answered; /* the peer's values are known */
};

struct cma_file;

struct cma_id {
	/* under cma_lock */
	struct list link; /* in its file */
	struct cma_file *file;
	uint64_t uid; /* librdmacm's pointer; 0: an accept is due */
	uint32_t number;
	uint32_t refs;
	uint32_t events_reported;
	uint32_t backlog; /* requests that may still come before one is read */

	pthread_mutex_t op;
	enum cma_state state;
	uint16_t space; /* enum nic_cm_space */
	uint8_t qp_type;
	bool passive; /* came with a request */
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

/** A new id of the file, with one reference for its number. cma_lock held. @return NULL: no memory */
struct cma_id *cma_id_new(struct cma_file *file, uint16_t space, uint8_t qp_type);
/** Look an id up, with a reference and its `op`. @return 0, -ENOENT, -EINVAL (another file's) */
int cma_id_enter(const struct cma_file *file, uint32_t number, struct cma_id **out);
void cma_id_leave(struct cma_id *id);
void cma_id_put(struct cma_id *id);
/** End what the id does, and forget it: `op` held, which stays so. @return how many of its events were read */
uint32_t cma_id_destroy(struct cma_id *id);
/** The engine's lock of an id that has a device, and nothing for others. Leaving sends what is to be sent. */
void cma_engine_enter(const struct cma_device *device);
void cma_engine_leave(const struct cma_device *device);

/* ---- files and events (cma_file.c) ------------------------------------------------------------------- */

/** An open /dev/infiniband/rdma_cm: ids and their events, in order. Its descriptor is readable while there are any. */
struct cma_file *cma_file_open(int flags, int *fd);
/** The file behind a descriptor, with a reference; NULL: it is none. Keeps errno. */
struct cma_file *cma_file_get(int fd);
/** Whether this is a forked child: it has the parent's descriptor, but can do nothing with it. */
bool cma_file_is_inherited(const struct cma_file *file);
/** Call before any engine is opened. */
void cma_init(void);
void cma_file_put(struct cma_file *file);
/** One more descriptor; one fewer: with the last one the file and its ids end. */
void cma_file_dup(struct cma_file *file, int fd);
void cma_file_close(struct cma_file *file, int fd);

void cma_file_add(struct cma_file *file, struct cma_id *id);   /* cma_lock held */
void cma_file_migrate(struct cma_file *to, struct cma_id *id); /* cma_lock held */

/** An event of an id, or (request) of the listener that it is for. */
struct cma_event {
	struct list link;
	struct cma_id *id;
	struct cma_id *request; /* a connection request: the new id, with a reference */
	struct rdma_ucm_event_resp resp;
};

/** Queue an event; takes it over. cma_lock held. */
void cma_event_queue(struct cma_event *event);
/** Queue an event without parameters. @return 0, -ENOMEM */
int cma_event_simple(struct cma_id *id, uint32_t type, int status);
/** Drop what is queued for an id. @return its requests, linked by `link`. cma_lock held. */
void cma_event_purge(struct cma_id *id, struct list *requests);
/** Read the oldest event. @return 0, -EAGAIN (none, and `block` is false), -EINTR */
int cma_event_read(struct cma_file *file, int fd, bool block, struct rdma_ucm_event_resp *out);
/** What happened to a connection, from a connection manager. ctx is the device (cma_event.c). */
void cma_event_from_cm(void *ctx, const struct nic_cm_event *event);

/* ---- addresses (cma_addr.c) -------------------------------------------------------------------------- */

/** Bytes of an address of that family; 0: a family that is none of IPv4, IPv6, InfiniBand. */
unsigned cma_sockaddr_size(const void *sockaddr);
/** @return 0, -EAFNOSUPPORT */
int cma_addr_from(const void *sockaddr, struct cma_addr *out);
/** @return the length of what was written: up to sizeof(struct sockaddr_in6) */
unsigned cma_addr_to(const struct cma_addr *addr, void *sockaddr);
bool cma_addr_is_any(const struct cma_addr *addr);
bool cma_addr_is_loopback(const struct cma_addr *addr);
bool cma_gid_is_v4(const struct nic_gid *gid);

/** The RDMA IP CM service's part of private data (IBTA annex A11): addresses and the source port. */
#define CMA_HEADER_LEN NIC_CM_IP_LEN
void cma_header_write(uint8_t *out, const struct cma_addr *src, const struct cma_addr *dst);
/** Read the header of a request: `remote` is its source. @return false: it is none */
bool cma_header_read(const uint8_t *in, size_t len, struct cma_addr *remote, struct cma_addr *local);

/* ---- devices (cma_device.c) -------------------------------------------------------------------------- */

/** Open the engine of a device, as the verbs do: implemented by the front-end. @return 0 or a negative errno */
int cma_front_open(const struct pmd_device *device, struct pmd_engine **out);

/** The device that has an address, open. @return 0, -ENODEV, another negative errno */
int cma_device_by_address(const struct cma_addr *addr, struct cma_device **out);
/** The device and the source address by which to reach `dst`. `src` is zeroes, or says which to use.
 *  @return 0; -ENETUNREACH and others: the kernel has no route; -ENODEV: it leads to no device */
int cma_route_find(const struct cma_addr *dst, struct cma_addr *src, struct cma_device **out);
/** Call fn for each device that can be opened. @return the first result that is not 0 */
int cma_device_each(int (*fn)(void *arg, struct cma_device *device), void *arg);
/** Call fn for each device that is open. @return the first result that is not 0 */
int cma_device_open_each(int (*fn)(void *arg, struct cma_device *device), void *arg);
/** Index of an address in the device's GID table, and the address there. Engine lock held. -1: not in it */
int cma_device_gid_index(const struct cma_device *device, const struct nic_gid *gid);
/** Some address of the family. @return false: none */
bool cma_device_address(const struct cma_device *device, int family, struct cma_addr *out);
/** The MTU of its port, and how long its QPs may delay an ACK, both as verbs and MADs have them. */
uint8_t cma_device_mtu(const struct cma_device *device);
uint8_t cma_device_ack_delay(const struct cma_device *device);

/* ---- bind, listen (cma_bind.c) ----------------------------------------------------------------------- */

int cma_bind(struct cma_id *id, const struct cma_addr *addr);
/** Bind the active side's source port, if it has none. */
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
/** @param param NULL: the active side has modified its QP, RTU may go. @param uid of the id, set on success. */
int cma_accept(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece,
	       uint64_t uid);
int cma_reject(struct cma_id *id, uint8_t reason, const void *private_data, uint8_t private_len);
int cma_disconnect(struct cma_id *id);
int cma_notify(struct cma_id *id, uint32_t event);
/** What a connection starts with: the PSN that the peer is to send first. */
uint32_t cma_psn_random(void);

/* ---- what an id is (cma_query.c) --------------------------------------------------------------------- */

int cma_qp_attr(struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *out);
/** The address vector for datagrams to a peer. Engine lock held. */
void cma_ah_attr(const struct cma_id *id, const struct nic_gid *peer, struct ib_uverbs_ah_attr *out);
void cma_query_route(struct cma_id *id, struct rdma_ucm_query_route_resp *out);
void cma_query_addr(struct cma_id *id, struct rdma_ucm_query_addr_resp *out);
void cma_query_gid(struct cma_id *id, struct rdma_ucm_query_addr_resp *out);
/** A path record as the wire has it (IBTA 15.2.5.16). @return false: the route is not resolved */
bool cma_query_path(struct cma_id *id, struct ib_path_rec_data *out);
/** Take a path from librdmacm instead of resolving the route. */
int cma_path_take(struct cma_id *id, const struct ib_path_rec_data *path);

#endif
