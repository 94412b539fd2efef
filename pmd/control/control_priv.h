/* SPDX-License-Identifier: BSD-3-Clause */
/* control_priv.h - internals that control_join.c (joining), control.c (the daemon), control_visit.c (visitors),
 * control_whois.c and local.c share (pmd-internal). */
#ifndef PMD_CONTROL_PRIV_H
#define PMD_CONTROL_PRIV_H

#include "control.h"
#include "ring_pair.h"

#define CONTROL_VISITORS 16
#define CONTROL_TYPES	 64

struct control_visitor {
	struct pmd_watch watch; /* fd is -1 if the entry is free */
	uint64_t since_ns;
};

struct pmd_control {
	int epoll_fd;
	struct pmd_watch daemon; /* the connection to the daemon; fd -1: none now */
	struct pmd_watch listen;
	struct pmd_listener *listeners; /* additional names */
	struct pmd_watch timer;		/* armed while something has to be tried again */
	bool timer_runs;
	uint32_t services[PROTO_SERVICES_MAX]; /* the services that our function serves, see proto_service */
	unsigned n_services;
	int records_fd;	    /* see pmd_control_records; -1: none */
	bool records_told;  /* records_fd was sent to the current daemon */
	bool services_late; /* the daemon's queue was full: send records and services when there is room */
	int keeper_fd;	    /* see struct proto_keeper; -1: none */
	unsigned function;
	uint64_t since_ns;
	uid_t daemon_uid;
	struct proto_join join;
	struct proto_device device;	/* as in the daemon's last message */
	int sockets[NIC_GID_TABLE_LEN]; /* indexed by GID table entry; -1: none, or handed to the port */
	int rings[RING_PAIR_FDS];	/* to the uplink; -1: none, or handed to the port */
	struct control_visitor visitors[CONTROL_VISITORS];
	pmd_visit_fn serve[CONTROL_TYPES];
	struct pmd_control_stats stats;
	union {
		uint8_t bytes[PROTO_COMMAND_MAX];
		uint64_t align;
	} room; /* receive buffer for visitors' messages */
};

/** Validate the struct proto_device in a message from the daemon, and move the message's descriptors, from index
 *  `first` on, to *keeper, `sockets` and `rings` (-1: none). The caller still has to close the message.
 *  @return false: malformed. */
bool control_device_read(const struct proto_device *device, struct proto_msg *m, unsigned first, int *keeper,
			 int sockets[NIC_GID_TABLE_LEN], int rings[RING_PAIR_FDS]);

/** Answer a visitor that asks whether an address is this device's (control_whois.c). A pmd_visit_fn. */
void control_visit_whois(struct pmd_host *host, int fd, struct proto_msg *m);

/** In control_visit.c: the handlers of the listening sockets and of the timer, and the function that drops visitors
 *  that have been silent for too long. */
void control_listen_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
void control_timer_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
void control_visitors_expire(struct pmd_control *c);

/** In control.c: register the message handlers, and add the daemon's connection, the timer and the listening socket to
 *  the epoll set. @return 0 or a negative errno. */
int control_watch_all(struct pmd_control *c);

#endif
