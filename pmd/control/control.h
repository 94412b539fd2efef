/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - a function's side of the control plane: joining the device, hearing of changes, receiving visitors
 * (pmd-internal).
 *
 * Everything is under the engine's lock but pmd_control_join. Nothing waits but that.
 */
#ifndef PMD_CONTROL_H
#define PMD_CONTROL_H

#include "engine.h"
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
 * Become a function of the device; start its daemon if there is none.
 * @return 0 or a negative errno with one sentence in err.
 */
int pmd_control_join(const struct pmd_device *device, struct pmd_control **out, char *err, size_t err_len);

/** Hand over the sockets that the device had at joining. To be done once, before pmd_control_addresses. @return 0 or a
 *  negative errno. */
int pmd_control_sockets(struct pmd_control *c, struct pmd_port *port);

/** Set the GID table and the state of the port. */
void pmd_control_addresses(struct pmd_control *c, struct nic *nic);

/** The number of the function, 1 ... PROTO_FUNCTION_MAX. */
unsigned pmd_control_function(const struct pmd_control *c);
/** The first address of the device, by which its functions' names are formed. */
const struct nic_gid *pmd_control_key(const struct pmd_control *c);
/** Who may take part. */
const struct proto_policy *pmd_control_policy(const struct pmd_control *c);
/** Readable when pmd_control_poll has something to do. Never changes. */
int pmd_control_fd(const struct pmd_control *c);
const struct pmd_control_stats *pmd_control_stats(const struct pmd_control *c);
/** A tool has been sent away. */
void pmd_control_count_tool(struct pmd_control *c);
/** Whether the peer may do to this process what is its user's business: he is that, the device's, or root. */
bool pmd_control_is_owner(const struct pmd_control *c, int fd);

/** Do what is to be done: visitors, news from the daemon, watches. Bounded; without work one system call. */
void pmd_control_poll(struct pmd_engine *e);

/** Leave the device. */
void pmd_control_close(struct pmd_control *c);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_control_abandon(struct pmd_control *c);

/* ---- for those who serve visitors ------------------------------------------------------------------------ */

/**
 * Receives a visitor, by the type of the first message. `fd` (non-blocking) is the callee's from now on; the message ends
 * with the call, and with it the descriptors that the callee has not taken out. That the peer may take part has been
 * checked.
 */
typedef void (*pmd_visit_fn)(struct pmd_engine *e, int fd, struct proto_msg *m);

/** From now on visitors with messages of this type, which is not longer than PROTO_COMMAND_MAX, are fn's. */
void pmd_control_serve(struct pmd_control *c, unsigned type, pmd_visit_fn fn);

/** A descriptor that pmd_control_poll looks after. The owner keeps it, and takes it out before he closes fd. */
struct pmd_watch {
	int fd;
	void (*ready)(struct pmd_engine *e, struct pmd_watch *w, uint32_t events);
};

/** `events` as for epoll (level-triggered). @return 0 or a negative errno. */
int pmd_control_watch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
/** Other events for one that is watched. */
void pmd_control_rewatch(struct pmd_control *c, struct pmd_watch *w, uint32_t events);
void pmd_control_unwatch(struct pmd_control *c, struct pmd_watch *w);
/** What failed for want of descriptors or memory is tried again soon. @return false: there is no timer for it. */
bool pmd_control_retry(struct pmd_control *c);

/* ---- services -------------------------------------------------------------------------------------------- */

/** One more name under which visitors come. The owner keeps it. */
struct pmd_listener {
	struct pmd_watch watch; /* first */
	struct pmd_listener *next;
};

/** Listen under a name, whose visitors are those of the function's. @return 0 or a negative errno: -EADDRINUSE. */
int pmd_control_listen(struct pmd_control *c, struct pmd_listener *listener, const struct proto_name *name);
/** Stop that: the name is free. */
void pmd_control_unlisten(struct pmd_control *c, struct pmd_listener *listener);

/** The function serves these ports from now on, n up to PROTO_SERVICES_MAX: the daemon is told, and the next one. @return
 *  false: there is none now. */
bool pmd_control_services(struct pmd_control *c, const uint16_t *ports, unsigned n);
/** Whether the daemon has read that, if there is one. */
bool pmd_control_heard(const struct pmd_control *c);

#endif
