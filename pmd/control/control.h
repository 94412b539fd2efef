/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - a function's side of the control plane: joining the device, following its changes, serving visitors
 * (pmd-internal).
 *
 * All functions except pmd_control_join and pmd_control_fd are called under the engine's lock, or while no other thread
 * uses the engine, and do not block.
 */
#ifndef PMD_CONTROL_H
#define PMD_CONTROL_H

#include "engine_host.h"
#include "proto.h"

struct pmd_control;
struct pmd_port;

/** Counters: one per line of control_stats.def. */
struct pmd_control_stats {
#define PMD_CONTROL_STAT(name, sentence) uint64_t name;
#include "control_stats.def"
#undef PMD_CONTROL_STAT
};

/**
 * Join the device as one of its functions; start the device's daemon if none runs.
 * @return 0 or a negative errno, with an error message in err.
 */
int pmd_control_join(const struct pmd_device *device, struct pmd_control **out, char *err, size_t err_len);

/** The longest IP packet that the device's uplink carries, bytes; 0: the device has kernel sockets, and no uplink. */
unsigned pmd_control_uplink_mtu(const struct pmd_control *c);
/** Give the port the sockets, or the rings, that the device had when this process joined it. Call once, before
 * pmd_control_addresses.
 *  @return 0 or a negative errno. */
int pmd_control_sockets(struct pmd_control *c, struct pmd_port *port);

/** Set the NIC's GID table and the state of its port. */
void pmd_control_addresses(struct pmd_control *c, struct nic *nic);

/** The number of the function, 1 ... PROTO_FUNCTION_MAX. */
unsigned pmd_control_function(const struct pmd_control *c);
/** The device's key: its first address. The names of the device's functions are formed from it. */
const struct nic_gid *pmd_control_key(const struct pmd_control *c);
/** Which users may use the device. */
const struct proto_policy *pmd_control_policy(const struct pmd_control *c);
/** A descriptor that is readable when pmd_control_poll has something to do. Never changes. */
int pmd_control_fd(const struct pmd_control *c);
const struct pmd_control_stats *pmd_control_stats(const struct pmd_control *c);
/** Count a tool whose connection was refused. */
void pmd_control_count_tool(struct pmd_control *c);
/** Whether the peer of connection fd may do what only owners may: the peer runs as the user of this process, as the
 *  daemon's user, or as root. */
bool pmd_control_is_owner(const struct pmd_control *c, int fd);

/** Handle pending events: visitors, messages from the daemon, watched descriptors. Handles a bounded number; without
 *  events it costs one system call. */
void pmd_control_poll(struct pmd_host *host);

/** Leave the device. */
void pmd_control_close(struct pmd_control *c);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_control_abandon(struct pmd_control *c);

/* ---- serving visitors ------------------------------------------------------------------------------------ */

/**
 * Handles a visitor. The type of the visitor's first message, `m`, selects the handler. The handler owns `fd`
 * (non-blocking) from now on. The message is valid during the call; descriptors that the handler does not take out of
 * it are closed afterwards. The caller has already checked the peer against the device's policy.
 */
typedef void (*pmd_visit_fn)(struct pmd_host *host, int fd, struct proto_msg *m);

/** From now on fn handles visitors whose first message has this type. Such a message has at most PROTO_COMMAND_MAX
 *  bytes. */
void pmd_control_serve(struct pmd_control *c, unsigned type, pmd_visit_fn fn);

/** A descriptor that pmd_control_poll watches. The struct belongs to the caller, who unwatches it before closing fd. */
struct pmd_watch {
	int fd;
	void (*ready)(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
};

/** Start watching w->fd. `events` as for epoll (level-triggered). @return 0 or a negative errno. */
int pmd_control_watch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
/** Change the events of a watch. */
void pmd_control_rewatch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
void pmd_control_unwatch(struct pmd_control *c, struct pmd_watch *w);
/** Set a short timer, after which operations that failed for lack of descriptors or memory are retried. @return false:
 *  the timer cannot be set. */
bool pmd_control_retry(struct pmd_control *c);

/* ---- services -------------------------------------------------------------------------------------------- */

/** An additional name that visitors connect to. The struct belongs to the caller. */
struct pmd_listener {
	struct pmd_watch watch; /* must be the first member */
	struct pmd_listener *next;
};

/** Listen under an additional name; its visitors are handled like visitors to the function's own name. @return 0 or a
 *  negative errno; -EADDRINUSE: the name is in use. */
int pmd_control_listen(struct pmd_control *c, struct pmd_listener *listener, const struct proto_name *name);
/** Stop listening under the name, which is then free. */
void pmd_control_unlisten(struct pmd_control *c, struct pmd_listener *listener);

/** Tell the current daemon, and later ones, which services the function serves from now on. n is at most
 *  PROTO_SERVICES_MAX. @return false: there is no daemon now, or it has just ended. */
bool pmd_control_services(struct pmd_control *c, const uint32_t *services, unsigned n);
/** Give the file with the records of the function's connections (struct nic_cm_record) to the current daemon, and to
 *  later ones. The control plane owns fd from now on. @param fd -1: there are no records any more. */
void pmd_control_records(struct pmd_control *c, int fd);
/** Whether the daemon has read our latest list of services; true if there is no daemon. */
bool pmd_control_heard(const struct pmd_control *c);

#endif
