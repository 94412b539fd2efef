/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced.h - the daemon of a device: definitions shared by its files.
 *
 *   uroced.c          options, running in the background, main loop, exit
 *   uroced_clients.c  connections until they are known to be functions or tools
 *   uroced_slots.c    functions: state updates, adoption, end
 *   uroced_join.c     functions: numbers, joining
 *   uroced_gids.c     addresses and names of the device; follows its interface
 *   uroced_wanted.c   the addresses that it should have
 *   uroced_find.c     the device that an address belongs to
 *   uroced_steer.c    the sockets of all functions, steering of datagrams to them
 *   uroced_keeper.c   keeping the sockets for the next daemon
 *   uroced_services.c which function serves which port
 *   uroced_tools.c    commands of the `uroce` tool
 *
 * One thread, one epoll set. Sends do not block: a peer whose queue is full gets the latest state later (functions) or
 * is dropped (all others).
 */
#ifndef PMD_UROCED_H
#define PMD_UROCED_H

#include <sys/types.h>

#include "address.h"
#include "proto.h"

#define DAEMON_SLOTS   (PROTO_FUNCTION_MAX + 1) /* slot 0 is the daemon's own */
#define DAEMON_CLIENTS 64

/** Data of an epoll event: the kind of source, then two numbers. */
enum daemon_source { SOURCE_NAME, SOURCE_CLIENT, SOURCE_FUNCTION, SOURCE_DATAGRAM, SOURCE_NETLINK, SOURCE_SIGNAL };
#define SOURCE(kind, a, b) ((uint64_t)(kind) << 32 | (uint64_t)(a) << 16 | (uint64_t)(b))

enum slot_state {
	SLOT_FREE,
	SLOT_LIVE,     /* a function that joined or was adopted */
	SLOT_ADOPTING, /* it listens, and has been sent ADOPT; the number is taken until it answers or ends */
	SLOT_FOREIGN,  /* another program has the name, or a function that cannot be asked now: retried with back-off */
};

struct slot {
	enum slot_state state;
	int fd;	    /* SLOT_LIVE, SLOT_ADOPTING: the connection */
	bool again; /* a function of ours that lost the connection: its sockets are known */
	struct ucred peer;
	char command[16];
	struct proto_join join;
	uint16_t said[PROTO_SERVICES_MAX],
		services[PROTO_SERVICES_MAX]; /* ports that it claims to serve; that it does serve */
	unsigned n_said, n_services;
	uint64_t since_ns;    /* CLOCK_REALTIME */
	uint64_t released_ns; /* CLOCK_MONOTONIC; 0: never used */
	uint64_t joined_ns;   /* CLOCK_MONOTONIC */
	uint64_t due_ns;      /* when to check it again; 0: only on an event */
	unsigned misses;      /* consecutive times that adoption failed or did not last */
	bool strange; /* SLOT_FOREIGN: a user not admitted by the policy holds the name, so no function of ours */
	uint32_t keeper_sent; /* generation of the keeper sent to it */
	uint32_t gids_sent[NIC_GID_TABLE_LEN];
	bool late; /* its queue was full: state is sent when it is writable */
};

/** An entry of the GID table. */
struct entry {
	struct nic_gid gid;  /* zeroes: empty */
	uint32_t generation; /* changes with each address that the entry gets */
	int name_fd;	     /* listens under the address's name; -1: not claimed yet, or the key, see key_fd */
	unsigned n_sockets;
	int sockets[DAEMON_SLOTS]; /* index = slot */
};

struct client {
	int fd; /* -1: free */
	uint64_t since_ns;
	struct ucred peer;
	bool joining; /* waits for a function number, as not all sockets are known yet */
	struct proto_join join;
};

struct daemon {
	int epoll_fd, netlink_fd, signal_fd;
	struct nic_gid key;
	int key_fd;
	struct nic_gid fixed[NIC_GID_TABLE_LEN]; /* explicitly requested addresses; the first is the key */
	unsigned n_fixed;
	char iface[16];	 /* interface that is followed; "": none */
	uint32_t follow; /* enum proto_follow */
	uint32_t scope;	 /* the interface's index */
	bool port_up, stay, leave;
	bool give_up; /* exit: too few descriptors for the functions' sockets; they do better without us */
	struct proto_policy policy;
	char allow[64]; /* the policy as given */
	uint64_t since_ns, idle_since_ns;

	struct entry gids[NIC_GID_TABLE_LEN];
	uint32_t generation;
	uint64_t retry_ns; /* when to sync the addresses again; 0: when netlink reports a change */
	unsigned retries;
	bool left_out;		     /* the interface has more addresses than the table holds */
	char fault[PROTO_FAULT_MAX]; /* fault command sent to functions that join; "": none */
	int why_rc;
	char why[256]; /* sentence: why an explicitly requested address is missing */

	struct slot slots[DAEMON_SLOTS];
	unsigned live, adopting; /* functions; a previous daemon's functions that have not answered yet */
	bool sockets_known;	 /* we have all sockets of all addresses, also those of functions not adopted yet */
	uint64_t slots_due_ns;	 /* the earliest due_ns of slots; 0: none */
	uint64_t deaf_ns;	 /* out of descriptors: no clients are accepted until then; 0: accepting */
	struct client clients[DAEMON_CLIENTS];

	int keeper[2]; /* [0] is written, functions get [1]; -1: none */
	uint32_t keeper_generation;
	unsigned kept;		/* sockets in the keeper: all of them, or none */
	int keeper_rc;		/* why they are not in it: a negative errno */
	unsigned keeper_tries;	/* consecutive failures, counted up to the longest back-off */
	bool keeper_come;	/* a function has brought a keeper, even an empty one */
	unsigned whole_tries;	/* retries of recovery from keepers */
	uint64_t keeper_due_ns; /* when to retry, as the sockets are not in the keeper; 0: they are */
	uint64_t files_limit;	/* soft limit of open files at our start; 0: unknown, the keeper is not bounded */

	struct {
#define UROCED_STAT(name, sentence) uint64_t name;
#include "uroced_stats.def"
#undef UROCED_STAT
	} stats;
};

/* uroced.c */
uint64_t daemon_now_ns(void);

/** Another user wants the address: leave if no function needs us. @return whether we leave. */
bool daemon_makes_way(struct daemon *d);
int daemon_watch(struct daemon *d, int fd, uint32_t events, uint64_t source);
void daemon_rewatch(struct daemon *d, int fd, uint32_t events, uint64_t source);

/* uroced_clients.c */
void clients_init(struct daemon *d);
void clients_accept(struct daemon *d, int name_fd);
void clients_ready(struct daemon *d, unsigned index);
/** Admit clients that wait for a number, drop those that have waited too long. @return whether any wait. */
bool clients_tick(struct daemon *d);
bool clients_any(const struct daemon *d);
/** Refuse clients that wait for a number, with the reason. */
void clients_refuse(struct daemon *d, int error, const char *sentence);

/* uroced_slots.c */
/** Look for functions of a previous daemon, and send them ADOPT. */
void slots_probe(struct daemon *d);
/** Whether numbers can be assigned: no adoption is pending, or all sockets are known anyway. */
bool slots_ready(const struct daemon *d);
/** One sentence that names the function whose adoption is pending. */
void slots_blame(const struct daemon *d, char *out, size_t len);
void slots_ready_event(struct daemon *d, unsigned n, uint32_t events);
/** Send every function the device's current state. */
void slots_tell(struct daemon *d);
/** Check slots that are due. */
void slots_tick(struct daemon *d);
/** Whether a function's name is held by a program that may be ours, was not adopted, and is still worth waiting for. */
bool slots_any_unasked(const struct daemon *d);
/** How many functions that live may have the address. */
unsigned slots_with(const struct daemon *d, const struct nic_gid *gid);
/** Whether any slot is SLOT_FOREIGN: its name is held, but not by a function connected to us. */
bool slots_any_foreign(const struct daemon *d);
/** Create the sockets that live functions still lack because creating them has failed before. @param grown some were
 *  created: call slots_tell. @return whether all functions have theirs. */
bool slots_grow(struct daemon *d, bool *grown);

/* uroced_join.c */
/** Make the connection a function. @return 0: fd is the slot's; a negative errno with a sentence: it stays the
 *  caller's. */
int slots_join(struct daemon *d, int fd, const struct ucred *peer, const struct proto_join *join, char *err,
	       size_t err_len);

/* uroced_gids.c */
/** Add an address to the table, with its sockets. @return the entry, or a negative errno with a sentence. */
int gids_add(struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len);
/** Request an address explicitly; the next gids_sync adds it. @return false: too many. */
bool gids_fix(struct daemon *d, const struct nic_gid *gid);
/** Add an address whose sockets exist already, at index `entry` if that is free, else at another; its name is claimed
 *  when free. @return the index, or -1: no room. */
int gids_adopt(struct daemon *d, const struct nic_gid *gid, unsigned entry);
/** Remove all addresses. */
void gids_forget(struct daemon *d);
int gids_find(const struct daemon *d, const struct nic_gid *gid);
/** Accept clients from now on, under all names, or stop accepting. */
void gids_listen(struct daemon *d, bool on);
/** Follow an interface from now on. @return 0 or a negative errno. */
int gids_follow(struct daemon *d, const char *iface, uint32_t follow);
/** Bring table, names and port state up to date with the interface. */
void gids_sync(struct daemon *d);
void gids_netlink(struct daemon *d);

/* uroced_wanted.c */
/** Addresses that may be the device's key: its first address; if a whole interface is followed, all of its addresses,
 *  as another one may have been first when the device was opened. @return how many. */
unsigned gids_naming(const struct daemon *d, struct nic_gid out[NIC_GID_TABLE_LEN]);

/* uroced_find.c */
/** Find the device that any of the addresses belongs to, by asking functions; one whose key is gids[0] does not count.
 *  `with_daemons`: also devices whose daemon lives. @return whether there is one; then *key is its key. */
bool find_device(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
		 struct nic_gid *key);

/* uroced_steer.c */
/** Create the entry's sockets, up to that of the highest slot in use. @return 0 or a negative errno with a sentence. */
int steer_open(struct daemon *d, struct entry *e, char *err, size_t err_len);
void steer_close(struct daemon *d, struct entry *e);
/** Create what slot n lacks of its sockets, one per address. @return 0 or a negative errno with a sentence. */
int steer_grow(struct daemon *d, unsigned n, char *err, size_t err_len);
/** Slot n has a function from now on, or is free: then we drain its sockets. */
void steer_own(struct daemon *d, unsigned n, bool owned);
/** The set of served ports has changed: update the steering. */
void steer_services_changed(struct daemon *d);
/** Drop datagrams that came for number n before a function has it. */
void steer_flush(struct daemon *d, unsigned n);
/** Drop and count datagrams for a slot without a function. */
void steer_drain(struct daemon *d, unsigned entry, unsigned slot);
/** Have the kernel steer the datagrams of the entry's address to its sockets. @return 0 or a negative errno. */
int steer_attach(const struct daemon *d, const struct entry *e);
/** Watch socket n of the entry, to drain it, if that slot is free. */
void steer_watch_free(struct daemon *d, struct entry *e, unsigned n);

/* uroced_keeper.c */
/** Put all sockets into a new keeper, or record why not in keeper_rc. The next slots_tell sends it to functions. */
void keeper_make(struct daemon *d);
/** Add each entry's sockets from index before[entry] on to the keeper. May create a new keeper. */
void keeper_grow(struct daemon *d, const unsigned before[NIC_GID_TABLE_LEN]);
/** If due, retry putting the sockets into a keeper. */
void keeper_tick(struct daemon *d);
/** Close our descriptors of the keeper. */
void keeper_close(struct daemon *d);
/** Take over the sockets that a keeper holds. @return number of addresses. */
int keeper_recover(struct daemon *d, int keeper);
/** Number of sockets on the RoCE port of an address, as listed by the kernel. @return -1: not available. */
int keeper_kernel_sockets(const struct nic_gid *gid);

struct keeper_status {
	bool there;
	unsigned kept, missing; /* sockets */
	char problem[400];	/* "": none */
};
void keeper_status(const struct daemon *d, struct keeper_status *out);

/* uroced_services.c */
/** Function n says that it serves exactly these ports. */
void services_said(struct daemon *d, unsigned n, const uint16_t *ports, unsigned n_ports);

/* uroced_tools.c */
/** Answer a command. @return false: close the connection. */
bool tools_command(struct daemon *d, int fd, const struct ucred *peer, const char *text, size_t len);
/** Function n has joined: send it the fault command that tools gave for all functions. */
void tools_joined(struct daemon *d, unsigned n);

#endif
