/* SPDX-License-Identifier: BSD-3-Clause */
/* control_priv.h - the control side as control_join.c (joining), control.c (from then on) and control_whois.c share it
 * (pmd-internal). */
#ifndef PMD_CONTROL_PRIV_H
#define PMD_CONTROL_PRIV_H

#include "control.h"

#define CONTROL_VISITORS 16
#define CONTROL_TYPES	 64

struct control_visitor {
	struct pmd_watch watch; /* fd -1: free */
	uint64_t since_ns;
};

struct pmd_control {
	int epoll_fd;
	struct pmd_watch daemon; /* the connection to the daemon; fd -1: there is none now */
	struct pmd_watch listen;
	struct pmd_listener *listeners; /* under other names */
	struct pmd_watch timer;		/* runs while something is to be tried again */
	bool timer_runs;
	uint16_t services[PROTO_SERVICES_MAX]; /* ports that we serve */
	unsigned n_services;
	bool services_late; /* the daemon's queue was full: told again when it can be */
	int keeper_fd;	    /* see struct proto_keeper; -1: none */
	unsigned function;
	uint64_t since_ns;
	uid_t daemon_uid;
	struct proto_join join;
	struct proto_device device;	/* as told last */
	int sockets[NIC_GID_TABLE_LEN]; /* of the addresses, until the port has them; -1: none */
	struct control_visitor visitors[CONTROL_VISITORS];
	pmd_visit_fn serve[CONTROL_TYPES];
	struct pmd_control_stats stats;
	union {
		uint8_t bytes[PROTO_COMMAND_MAX];
		uint64_t align;
	} room; /* for messages of visitors */
};

/** Keep what a message with a struct proto_device brings, descriptors from `first` on, as told last. The message stays the
 *  caller's to close. @return false: it is malformed. */
bool control_device_read(const struct proto_device *device, struct proto_msg *m, unsigned first, int *keeper,
			 int sockets[NIC_GID_TABLE_LEN]);

/** In control_whois.c: a visitor asks whether an address is this device's. As pmd_visit_fn. */
void control_visit_whois(struct pmd_engine *e, int fd, struct proto_msg *m);

/** In control.c: the epoll set's first members. @return 0 or a negative errno. */
int control_watch_all(struct pmd_control *c);

#endif
