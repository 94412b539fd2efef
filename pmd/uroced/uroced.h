/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced.h - the daemon of a device: definitions shared by its files.
 *
 *   uroced.c          options, running in the background, main loop, exit
 *   uroced_clients.c  new connections, until their first message shows their kind
 *   uroced_slots.c    functions: state updates, adoption by a new daemon, end
 *   uroced_join.c     functions: numbers, joining
 *   uroced_gids.c     addresses and names of the device; follows its interface
 *   uroced_wanted.c   the addresses that the device should have
 *   uroced_find.c     finding the device that an address belongs to
 *   uroced_steer.c    the UDP sockets of all functions, steering of datagrams to them
 *   uroced_keeper.c   keeping the UDP sockets for the next daemon
 *   uroced_services.c which function serves which port
 *   uroced_cm.c       CM messages for functions that have ended, and for services that no function serves
 *   uroced_uplink.c   a DPDK port that the functions share, instead of sockets
 *   uroced_process.c  what the daemon's process does not inherit
 *   uroced_guard.c    starting the daemon of an uplink again if it is killed
 *   uroced_tools.c    commands of the `uroce` tool
 *
 * One thread, one epoll set. Sends do not block. If the queue to a function is full, the function gets the latest state
 * later; if the queue to any other peer is full, the peer is disconnected.
 */
#ifndef PMD_UROCED_H
#define PMD_UROCED_H

#include <stdio.h>
#include <sys/types.h>

#include "address.h"
#include "limiter.h"
#include "proto.h"

#define DAEMON_SLOTS   (PROTO_FUNCTION_MAX + 1) /* slots 1 to 254 are functions; slot 0 is the daemon itself */
#define DAEMON_CLIENTS 64
#define DAEMON_AGAIN   3 /* exit code of a daemon in whose place the guard of its uplink shall start another */
/* Maximum number of connection requests that wait until a function serves their service. None waits for more than
 * EARLY_NS, and in that time the limiter (limiter.h) admits at most 26. */
#define CM_EARLY_MAX   32

struct daemon_uplink;
struct nic_cm;
struct sockaddr_in6;

/** Data of an epoll event: the kind of source, then two numbers. */
enum daemon_source {
	SOURCE_NAME,
	SOURCE_CLIENT,
	SOURCE_FUNCTION,
	SOURCE_DATAGRAM,
	SOURCE_NETLINK,
	SOURCE_UPLINK, /* 0: packets for number 0; 1: the state of the port has changed */
	SOURCE_SIGNAL
};
#define SOURCE(kind, a, b) ((uint64_t)(kind) << 32 | (uint64_t)(a) << 16 | (uint64_t)(b))

enum slot_state {
	SLOT_FREE,
	SLOT_LIVE,     /* a function that has joined or has been adopted */
	SLOT_ADOPTING, /* a function that we want to adopt (again): PROTO_ADOPT was sent, and no answer has come */
	SLOT_FOREIGN,  /* a process without a connection to us listens under the name: try again later to adopt it */
};

struct slot {
	enum slot_state state;
	int fd;	    /* connection to the function (SLOT_LIVE, SLOT_ADOPTING) */
	bool again; /* the function has lost its connection to us and has not been adopted again */
	struct ucred peer;
	char command[16];
	struct proto_join join;
	/* said: the services (proto_service) that the function claims. services: those of them that we have granted. */
	uint32_t said[PROTO_SERVICES_MAX], services[PROTO_SERVICES_MAX];
	unsigned n_said, n_services;
	bool untold;	      /* adopted from an earlier daemon; the function has not told us its services yet */
	int records_fd;	      /* file that lists the function's connections, see PROTO_RECORDS; 0: none */
	uint64_t since_ns;    /* when the function joined the device, CLOCK_REALTIME */
	uint64_t released_ns; /* when the number last lost its function or connection, CLOCK_MONOTONIC; 0: neither */
	uint64_t joined_ns;   /* when the function joined this daemon or was adopted, CLOCK_MONOTONIC */
	uint64_t due_ns;      /* when to check the slot again; 0: only on an event */
	unsigned misses;      /* consecutive times that adoption failed or did not last */
	uint64_t foreign_ns;  /* when the first of these attempts failed, CLOCK_MONOTONIC */
	bool strange; /* SLOT_FOREIGN: the policy does not admit the user of the process that listens under the name */
	uint32_t keeper_sent; /* generation of the last keeper sent to the function */
	uint32_t gids_sent[NIC_GID_TABLE_LEN];
	bool late; /* the function's queue was full: send the state when the connection is writable */
	/* Rings to the uplink: made, and to be sent; or sent. */
	bool rings_made, rings_sent;
	int rings[3];
};

/** A connection request for a service that no function serves yet: kept until due_ns (CLOCK_MONOTONIC). */
struct cm_early {
	struct proto_mad m;
	uint32_t service;
	uint64_t due_ns;
};

/** An entry of the GID table. */
struct entry {
	struct nic_gid gid;  /* zeroes: empty entry */
	uint32_t generation; /* changes when the entry gets another address */
	int name_fd;	     /* listening socket of the name; -1: none yet, or the address is the key (see key_fd) */
	unsigned n_sockets;
	int sockets[DAEMON_SLOTS]; /* indexed by slot */
};

struct client {
	int fd; /* -1: unused entry */
	uint64_t since_ns;
	struct ucred peer;
	bool joining; /* waits to join: the address, a socket, or sockets of a previous daemon, are still missing */
	struct proto_join join;
};

struct daemon {
	int epoll_fd, netlink_fd, signal_fd;
	struct nic_gid key;
	int key_fd;
	struct nic_gid fixed[NIC_GID_TABLE_LEN]; /* explicitly requested addresses; [0]: the key of a new device */
	unsigned n_fixed;
	char iface[16];		/* interface whose addresses are followed; "": none */
	uint32_t follow;	/* enum proto_follow */
	uint32_t scope;		/* index of the interface to which sockets of link-local addresses are bound */
	uint64_t scope_away_ns; /* since when that interface has none of these addresses, but another has; 0: not so */
	bool port_up, stay, leave;
	/* Exit, because we lack descriptors to take over the functions' sockets; the functions keep their sockets. */
	bool give_up;
	struct proto_policy policy;
	char allow[64]; /* the --allow option, as text */
	uint64_t since_ns, idle_since_ns;

	struct entry gids[NIC_GID_TABLE_LEN];
	uint32_t generation;
	uint64_t retry_ns; /* when to update the addresses again; 0: only when netlink reports a change */
	unsigned retries;
	bool left_out;		     /* the interface has more addresses than the table holds */
	char fault[PROTO_FAULT_MAX]; /* fault injection command sent to functions that join; "": none */
	int why_rc;
	char why[256]; /* message: why an address or a socket is missing; "": none */

	struct slot slots[DAEMON_SLOTS];
	/* live: functions that have joined or have been adopted, including those that we adopt again after a lost
	 * connection. adopting: a previous daemon's functions whose adoption is pending. */
	unsigned live, adopting;
	bool sockets_known;    /* we have all UDP sockets, including those of functions not adopted yet */
	uint64_t slots_due_ns; /* the earliest due_ns of all slots; 0: none */
	uint64_t probed_ns;    /* when we looked for functions of an earlier daemon */
	uint64_t deaf_ns;      /* we ran out of descriptors: accept no clients until this time; 0: accept clients */
	struct client clients[DAEMON_CLIENTS];

	/* cm[n] ends the connections of function n, which has ended; cm[0] refuses requests for services that no
	 * function serves, and messages for unknown connections. NULL: not needed. */
	struct nic_cm *cm[DAEMON_SLOTS];
	uint64_t cm_ended_ns[DAEMON_SLOTS];
	unsigned n_cm;
	struct pmd_limiter cm_limiter;
	struct cm_early cm_early[CM_EARLY_MAX]; /* requests for services that no function serves yet */
	unsigned n_cm_early;

	struct daemon_uplink *uplink; /* uroced_uplink.h */
	struct guard_shared *guard;   /* with the guard of an uplink's daemon; NULL: there is none */
	bool port_lost;		      /* exit with DAEMON_AGAIN: only another process can open the uplink's port anew */

	int keeper[2]; /* we write to [0], and functions get [1]; -1: there is no keeper */
	uint32_t keeper_generation;
	unsigned kept;		/* number of sockets in the keeper: all sockets of the device, or 0 */
	int keeper_rc;		/* why the sockets are not in the keeper: a negative errno */
	unsigned keeper_tries;	/* consecutive failures to fill the keeper; stops counting at the longest back-off */
	bool keeper_come;	/* an adopted function has sent its keeper, perhaps an empty one */
	unsigned whole_tries;	/* how often recovery from keepers has been retried */
	uint64_t keeper_due_ns; /* when to try again to fill the keeper; 0: no retry is needed */
	uint64_t files_limit;	/* soft limit of open files at our start, bounds the keeper; 0: unknown, no bound */

	struct {
#define UROCED_STAT(name, sentence) uint64_t name;
#include "uroced_stats.def"
#undef UROCED_STAT
	} stats;
};

/* uroced.c */
uint64_t daemon_now_ns(void);

/** Another user wants the address: exit, unless the device has functions, the daemon has been told to stay, or it has
 *  just started and waits for the first function. @return whether the daemon exits. */
bool daemon_makes_way(struct daemon *d);
int daemon_watch(struct daemon *d, int fd, uint32_t events, uint64_t source);
void daemon_rewatch(struct daemon *d, int fd, uint32_t events, uint64_t source);

/* uroced_clients.c */
void clients_init(struct daemon *d);
void clients_accept(struct daemon *d, int name_fd);
void clients_ready(struct daemon *d, unsigned index);
/** Let waiting clients join if that is possible now, and drop clients that have waited too long. @return whether any
 *  clients are left. */
bool clients_tick(struct daemon *d);
bool clients_any(const struct daemon *d);
/** Refuse all clients that wait to join, with this reason. */
void clients_refuse(struct daemon *d, int error, const char *sentence);

/* uroced_slots.c */
/** Look for functions of a previous daemon, and send PROTO_ADOPT to them. */
void slots_probe(struct daemon *d);
/** A client waits to join: look soon for the functions that have not come over. */
void slots_hurry(struct daemon *d);
/** Whether functions can join: no adoption is pending, or all sockets are known anyway. */
bool slots_ready(const struct daemon *d);
/** Write a message that names a function whose adoption is pending. */
void slots_blame(const struct daemon *d, char *out, size_t len);
void slots_ready_event(struct daemon *d, unsigned n, uint32_t events);
/** Send every live function the device's current state, if sockets_known. */
void slots_tell(struct daemon *d);
/** Handle the slots whose due_ns has passed. */
void slots_tick(struct daemon *d);
/** Whether any process that listens under a function's name, but has not been adopted, may still turn out to be one of
 *  our functions. False for processes of users who are not admitted, and 20 s after the first try. */
bool slots_any_unasked(const struct daemon *d);
/** Whether each function of an earlier daemon has told us its services. Also true 20 s after our start, because a
 *  function that is stopped (SIGSTOP) does not tell us. */
bool slots_services_known(const struct daemon *d);
/** @return how many live functions can have a socket of the address. */
unsigned slots_with(const struct daemon *d, const struct nic_gid *gid);
/** Whether any slot is SLOT_FOREIGN: a process that is not connected to us listens under the function's name. */
bool slots_any_foreign(const struct daemon *d);
/** Create sockets that live functions lack because an earlier attempt failed. @param grown set if there are sockets
 *  that we have not sent to their function yet: the caller then calls slots_tell. @return false: a function still lacks
 *  a socket. */
bool slots_grow(struct daemon *d, bool *grown);

/* uroced_join.c */
/** Let the process at connection fd join as a function. @return 0: the slot owns fd; a negative errno with a message in
 *  err: the caller still owns fd. */
int slots_join(struct daemon *d, int fd, const struct ucred *peer, const struct proto_join *join, char *err,
	       size_t err_len);

/* uroced_gids.c */
/** Add an address to the table, and create its sockets. @return the entry's index, or a negative errno with a message
 *  in err. */
int gids_add(struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len);
/** Request an address explicitly; the next gids_sync adds it. @return false: too many addresses were requested. */
bool gids_fix(struct daemon *d, const struct nic_gid *gid);
/** A client wants the address that is the key. The device may have lost it, with the functions that wanted it: request
 *  it again, if this host has it. */
void gids_want_key(struct daemon *d);
/** Add an address whose sockets exist already, at index `entry` if that entry is empty, otherwise in another empty
 *  entry. The address's name is claimed as soon as it is free. @return the index; -1: the table is full. */
int gids_adopt(struct daemon *d, const struct nic_gid *gid, unsigned entry);
/** Remove all addresses. */
void gids_forget(struct daemon *d);
int gids_find(const struct daemon *d, const struct nic_gid *gid);
/** Write why the device lacks an address. @return a negative errno. */
int gids_blame(const struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len);
/** Whether the device may get the address later: it names the device, was asked for, or may come to the interface. */
bool gids_may_come(const struct daemon *d, const struct nic_gid *gid);
/** Accept clients under all names of the device, or (if not `on`) stop accepting. */
void gids_listen(struct daemon *d, bool on);
/** Follow an interface from now on. @return 0 or a negative errno. */
int gids_follow(struct daemon *d, const char *iface, uint32_t follow);
/** Update the table, the names and the port state from the interface. */
void gids_sync(struct daemon *d);
void gids_netlink(struct daemon *d);

/* uroced_wanted.c */
/** List the addresses that may be the device's key. If the device follows all addresses of an interface, list all these
 *  addresses: another one may have been the first when the device was created. Otherwise, list only the first requested
 *  address. @return the number of listed addresses. */
unsigned gids_naming(const struct daemon *d, struct nic_gid out[NIC_GID_TABLE_LEN]);

/* uroced_find.c */
/** Find a device that has one of the addresses, by asking running functions. The device whose key is gids[0] is
 *  ignored. `with_daemons`: also consider devices that have a daemon. @return whether a device was found; if so, *key
 *  is the device's key. */
bool find_device(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
		 struct nic_gid *key);

/* uroced_steer.c */
/** Create the entry's sockets, from slot 0 to the highest live slot. @return 0 or a negative errno with a message in
 *  err. */
int steer_open(struct daemon *d, struct entry *e, char *err, size_t err_len);
void steer_close(struct daemon *d, struct entry *e);
/** Create the missing sockets of slots 0 to n, one per slot and address, and add them to the keeper. @return 0 or a
 *  negative errno with a message in err; -EADDRNOTAVAIL: only addresses that have left the host lack sockets. */
int steer_grow(struct daemon *d, unsigned n, char *err, size_t err_len);
/** If `owned`, slot n has a function now, which receives from the slot's sockets. Otherwise the slot has no function,
 *  and the daemon drains the slot's sockets. */
void steer_own(struct daemon *d, unsigned n, bool owned);
/** The set of served ports has changed: update the steering. */
void steer_services_changed(struct daemon *d);
/** Called before a function gets number n: empty the sockets of slot n, handling datagrams as steer_drain does. */
void steer_flush(struct daemon *d, unsigned n);
/** Drop and count datagrams for a slot without a function; messages to queue pair 1 go to uroced_cm.c. */
void steer_drain(struct daemon *d, unsigned entry, unsigned slot);
/** Attach the program that makes the kernel steer each datagram for the entry's address to one of the entry's sockets.
 *  @return 0 or a negative errno. */
int steer_attach(const struct daemon *d, const struct entry *e);
/** If slot n is free, watch its socket of this entry: the daemon then drains the socket. */
void steer_watch_free(struct daemon *d, struct entry *e, unsigned n);

/* uroced_keeper.c */
/** Put all sockets into a new keeper; if that fails, record why in keeper_rc. The next slots_tell sends the keeper to
 *  functions. */
void keeper_make(struct daemon *d);
/** Add to the keeper each entry's sockets from index before[entry] on. May create a new keeper. */
void keeper_grow(struct daemon *d, const unsigned before[NIC_GID_TABLE_LEN]);
/** If a retry is due, try again to put the sockets into a keeper. */
void keeper_tick(struct daemon *d);
/** Close the daemon's descriptors of the keeper. */
void keeper_close(struct daemon *d);
/** Take over the sockets in a keeper. @return the number of addresses with sockets; 0: the keeper is of no use. */
int keeper_recover(struct daemon *d, int keeper);
/** @return the number of sockets on the RoCE port of an address, according to the kernel; -1: unknown. */
int keeper_kernel_sockets(const struct nic_gid *gid);

struct keeper_status {
	bool there;
	unsigned kept, missing; /* numbers of sockets */
	char problem[400];	/* why sockets are missing; "": no problem */
};
void keeper_status(const struct daemon *d, struct keeper_status *out);

/* uroced_services.c */
/** Function n says that it serves exactly these services. */
void services_said(struct daemon *d, unsigned n, const uint32_t *said, unsigned n_said);
/** @return the function that serves the service; 0: none. */
unsigned services_owner(const struct daemon *d, uint32_t service);

/* uroced_cm.c */
/** Handle PROTO_RECORDS from function n: keep the file that lists its connections. The caller closes the message.
 *  @return false: the message is malformed. */
bool cm_records(struct daemon *d, unsigned n, struct proto_msg *m);
/** Function n has ended: disconnect its connections. */
void cm_ended(struct daemon *d, unsigned n);
/** Handle the messages to queue pair 1 in a datagram to the entry's address. @return false: the datagram contains no
 *  such message. */
bool cm_datagram(struct daemon *d, unsigned entry, const uint8_t *data, size_t len, const struct sockaddr_in6 *from);
/** Pass on or refuse requests that have waited for their service; advance the CM instances whose time has come, and
 * free those that are no longer needed. */
void cm_tick(struct daemon *d);
/** @return when to call cm_tick; 0: there is no need. */
uint64_t cm_due_ns(const struct daemon *d);
/** Whether the daemon must stay to disconnect the connections of a function that has ended recently. */
bool cm_is_busy(const struct daemon *d);

/* uroced_uplink.c */
/** The options of an uplink, as given; NULL: not given. */
struct uplink_options {
	const char *args, *network, *gateway, *vlan;
};
/** Apply the options. @return 0, or -EINVAL with a message in err. */
int uplink_configure(struct daemon *d, const struct uplink_options *o, char *err, size_t err_len);
/** Whether the device has an uplink. */
static inline bool uplink_is(const struct daemon *d)
{
	return d->uplink != NULL;
}
/** Whether the uplink's link was up when last looked at. */
bool uplink_is_up(const struct daemon *d);
/** If the device has an uplink, open it. @return 0 or a negative errno with a message in err. */
int uplink_open(struct daemon *d, char *err, size_t err_len);
void uplink_close(struct daemon *d);
/** Whether the device has the port that a joining process wants. If not, err says what the device has. */
bool uplink_suits(const struct daemon *d, const struct proto_join *join, char *err, size_t err_len);
/** Describe the uplink to function n. @param fds receives its rings, if it has not been sent them.
 *  @return the number of descriptors. */
unsigned uplink_describe(struct daemon *d, unsigned n, struct proto_device *out, int *fds);
/** Make the rings of function n, unless it has some. @return false: no memory, or no descriptors. */
bool uplink_ready_for(struct daemon *d, unsigned n);
/** Function n has been sent what uplink_describe described. */
void uplink_sent(struct daemon *d, unsigned n);
/** Function n has ended, or needs new rings. */
void uplink_detach(struct daemon *d, unsigned n);
/** The set of served ports has changed. */
void uplink_serve(struct daemon *d);
/** Send a packet of the daemon's own, from the IP header on. @return false: there is no room. */
bool uplink_send(struct daemon *d, const uint8_t *packet, uint32_t len);
/** Handle an event of SOURCE_UPLINK. */
void uplink_ready(struct daemon *d, unsigned what);
struct uplink_state;
/** Write the uplink's part of the daemon's status, if there is an uplink. */
void uplink_put(const struct daemon *d, FILE *out);
/** @return the state of the uplink now; NULL: there is none. */
const struct uplink_state *uplink_look(struct daemon *d);

/* uroced_process.c */
/** Undo what the parent process has set: close descriptors, reset signals, raise the soft limit of open files to the
 *  hard limit. @return the previous soft limit; 0: unknown. */
uint64_t process_inherit_nothing(void);
/** Leave the starter's folder and its standard descriptors. */
void process_background(void);

/* uroced_guard.c */
struct guard_job {
	int (*run)(void *ctx, bool first); /* runs the daemon. @return its exit code */
	void (*settle)(void *ctx);	   /* called after the first start: the child has what was inherited */
	void *ctx;
	const char *device;
	bool keep; /* the daemon is to stay */
};
/** Run the daemon of an uplink in a child process, and start it again if it is killed. @return the exit code;
 *  a negative errno: there is no process. */
int guard_run(struct daemon *d, const struct guard_job *job);
/* The others are the daemon's: */
/** It has started. */
void guard_ready(struct daemon *d);
/** Whether the device is kept. */
bool guard_keeps(const struct daemon *d);
/** daemon.stay has changed: it holds for the next daemon, too. */
void guard_keep(struct daemon *d);
/** The daemon was killed, and this one cannot start in its place. @param why "": another has the device. @return the
 * exit code: 0 if no other is to be tried. */
int guard_verdict(struct daemon *d, const char *why);

/* uroced_tools.c */
/** Execute a tool's command and answer it. @return false: close the connection. */
bool tools_command(struct daemon *d, int fd, const struct ucred *peer, const char *text, size_t len);
/** Function n has joined: send it the current fault injection command, which applies to all functions. */
void tools_joined(struct daemon *d, unsigned n);

#endif
