/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - a function's side of the control plane: joining the device, following its changes, serving visitors
 * (pmd-internal).
 *
 * All calls but pmd_control_join are made under the engine's lock, and do not block.
 */
#ifndef PMD_CONTROL_H
#define PMD_CONTROL_H

#include "engine_host.h"
#include "proto.h"

struct pmd_control;
struct pmd_port;

/** Counters, one a line of control_stats.def. */
struct pmd_control_stats {
#define PMD_CONTROL_STAT(name, sentence) uint64_t name;
#include "control_stats.def"
#undef PMD_CONTROL_STAT
};

/**
 * Become a function of the device; start its daemon if none runs.
 * @return 0 or a negative errno with one sentence in err.
 */
int pmd_control_join(const struct pmd_device *device, struct pmd_control **out, char *err, size_t err_len);

/** Hand the port the sockets that the device had at joining. Call once, before pmd_control_addresses. @return 0 or a
 *  negative errno. */
int pmd_control_sockets(struct pmd_control *c, struct pmd_port *port);

/** Set the GID table and the state of the port. */
void pmd_control_addresses(struct pmd_control *c, struct nic *nic);

/** The number of the function, 1 ... PROTO_FUNCTION_MAX. */
unsigned pmd_control_function(const struct pmd_control *c);
/** The device's key: its first address, from which its functions' names are formed. */
const struct nic_gid *pmd_control_key(const struct pmd_control *c);
/** Which users may use the device. */
const struct proto_policy *pmd_control_policy(const struct pmd_control *c);
/** Readable when pmd_control_poll has something to do. Never changes. */
int pmd_control_fd(const struct pmd_control *c);
const struct pmd_control_stats *pmd_control_stats(const struct pmd_control *c);
/** Count a tool that was refused. */
void pmd_control_count_tool(struct pmd_control *c);
/** Whether the peer may do what only owners may: it runs as this process's user, the daemon's, or root. */
bool pmd_control_is_owner(const struct pmd_control *c, int fd);

/** Handle pending events: visitors, messages from the daemon, watches. Bounded; without events one system call. */
void pmd_control_poll(struct pmd_host *host);

/** Leave the device. */
void pmd_control_close(struct pmd_control *c);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_control_abandon(struct pmd_control *c);

/* ---- serving visitors ------------------------------------------------------------------------------------ */

/**
 * Receives a visitor, by the type of its first message. `fd` (non-blocking) is the callee's from now on. The message is
 * valid during the call; descriptors that the callee has not taken out are closed after it. The policy has already
 * admitted the peer.
 */
typedef void (*pmd_visit_fn)(struct pmd_host *host, int fd, struct proto_msg *m);

/** From now on fn receives visitors whose first message has this type; such messages have at most PROTO_COMMAND_MAX
 *  bytes. */
void pmd_control_serve(struct pmd_control *c, unsigned type, pmd_visit_fn fn);

/** A descriptor that pmd_control_poll watches. The memory is the owner's, which unwatches it before closing fd. */
struct pmd_watch {
	int fd;
	void (*ready)(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
};

/** `events` as for epoll (level-triggered). @return 0 or a negative errno. */
int pmd_control_watch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
/** Change the events of a watch. */
void pmd_control_rewatch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
void pmd_control_unwatch(struct pmd_control *c, struct pmd_watch *w);
/** Retry soon what failed for lack of descriptors or memory. @return false: the timer cannot be set. */
bool pmd_control_retry(struct pmd_control *c);

/* ---- services -------------------------------------------------------------------------------------------- */

/** An additional name that visitors connect to. The memory is the owner's. */
struct pmd_listener {
	struct pmd_watch watch; /* first */
	struct pmd_listener *next;
};

/** Listen under a name; its visitors are treated as the function's. @return 0 or a negative errno: -EADDRINUSE. */
int pmd_control_listen(struct pmd_control *c, struct pmd_listener *listener, const struct proto_name *name);
/** Stop listening: the name is free. */
void pmd_control_unlisten(struct pmd_control *c, struct pmd_listener *listener);

/** The function serves these ports from now on, n up to PROTO_SERVICES_MAX: tell the current daemon, and later ones.
 *  @return false: there is no daemon now. */
bool pmd_control_services(struct pmd_control *c, const uint16_t *ports, unsigned n);
/** Whether the daemon has read our latest list of ports; true if there is no daemon. */
bool pmd_control_heard(const struct pmd_control *c);

#endif
