/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced.h - the daemon of a device, as its files share it.
 *
 *   uroced.c          life: options, background, the loop, the end
 *   uroced_clients.c  connections before it is known what they are
 *   uroced_slots.c    functions: numbers, joining, what they are told, adoption
 *   uroced_gids.c     addresses and names of the device; follows its interface
 *   uroced_find.c     the device that an address belongs to
 *   uroced_steer.c    the sockets of all functions, who gets which datagram
 *   uroced_keeper.c   keeping the sockets for the next daemon
 *   uroced_services.c which function serves which port
 *   uroced_tools.c    what the `uroce` command asks
 *
 * One thread, one epoll set. Nobody is waited for: sends do not block, and who does not fetch what he is sent either gets
 * the latest state later (functions) or is dropped (everybody else).
 */
#ifndef PMD_UROCED_H
#define PMD_UROCED_H

#include <sys/types.h>

#include "address.h"
#include "proto.h"

#define DAEMON_SLOTS   (PROTO_FUNCTION_MAX + 1) /* slot 0 is the daemon's own */
#define DAEMON_CLIENTS 64

/** What an epoll event is about: kind, then two numbers. */
enum daemon_source { SOURCE_NAME, SOURCE_CLIENT, SOURCE_FUNCTION, SOURCE_DATAGRAM, SOURCE_NETLINK, SOURCE_SIGNAL };
#define SOURCE(kind, a, b) ((uint64_t)(kind) << 32 | (uint64_t)(a) << 16 | (uint64_t)(b))

enum slot_state {
	SLOT_FREE,
	SLOT_LIVE,     /* a function that joined or was adopted */
	SLOT_ADOPTING, /* it listens, and has been asked to come over; taken until it answers or ends */
	SLOT_FOREIGN, /* somebody else holds the name, or a function that cannot be asked: looked at again from time to time */
};

struct slot {
	enum slot_state state;
	int fd;	    /* SLOT_LIVE, SLOT_ADOPTING: the connection */
	bool again; /* it was a function of ours before, and lost the connection: what it has is known */
	struct ucred peer;
	char command[16];
	struct proto_join join;
	uint16_t said[PROTO_SERVICES_MAX],
		services[PROTO_SERVICES_MAX]; /* ports that it says it serves; that it does */
	unsigned n_said, n_services;
	uint64_t since_ns;    /* CLOCK_REALTIME */
	uint64_t released_ns; /* CLOCK_MONOTONIC; 0: never used */
	uint64_t joined_ns;   /* CLOCK_MONOTONIC */
	uint64_t due_ns;      /* when to look at it again; 0: when something happens */
	unsigned misses;      /* times in a row that it did not stay */
	bool strange;	      /* SLOT_FOREIGN: a user whom we do not let in holds the name; no function of ours does */
	uint32_t keeper_sent; /* generation of the keeper that it has */
	uint32_t gids_sent[NIC_GID_TABLE_LEN];
	bool late; /* its queue was full: told again when it can be */
};

/** An entry of the GID table. */
struct entry {
	struct nic_gid gid;  /* zeroes: empty */
	uint32_t generation; /* another one for each address that the entry has had */
	int name_fd;	     /* listens under the address's name; -1: the key's, see key_fd, or not to be had so far */
	unsigned n_sockets;
	int sockets[DAEMON_SLOTS]; /* index = slot */
};

struct client {
	int fd; /* -1: free */
	uint64_t since_ns;
	struct ucred peer;
	bool joining; /* waits for a number: sockets are not there yet */
	struct proto_join join;
};

struct daemon {
	int epoll_fd, netlink_fd, signal_fd;
	struct nic_gid key;
	int key_fd;
	struct nic_gid fixed[NIC_GID_TABLE_LEN]; /* addresses asked for by name; the first is the key */
	unsigned n_fixed;
	char iface[16];	 /* "": none is followed */
	uint32_t follow; /* enum proto_follow */
	uint32_t scope;	 /* the interface's index */
	bool port_up, stay, leave;
	bool give_up; /* there are no descriptors for the sockets of the functions, who are better off without us */
	struct proto_policy policy;
	char allow[64]; /* the policy as it was given */
	uint64_t since_ns, idle_since_ns;

	struct entry gids[NIC_GID_TABLE_LEN];
	uint32_t generation;
	uint64_t retry_ns; /* when the addresses are looked at again; 0: when netlink says so */
	unsigned retries;
	bool left_out;		     /* the interface has more addresses than there is room for */
	char fault[PROTO_FAULT_MAX]; /* for those who join: a command to the fault stage; "": none */
	int why_rc;
	char why[256]; /* an address that was asked for by name is not there: the sentence */

	struct slot slots[DAEMON_SLOTS];
	unsigned live, adopting; /* functions; those of a daemon before us that have not answered yet */
	bool sockets_known;	 /* of all addresses, also those that the ones who have not answered have */
	uint64_t slots_due_ns;	 /* the first of slots' due_ns; 0: none */
	uint64_t deaf_ns;	 /* there was no descriptor for a visitor: none are taken until then; 0: not so */
	struct client clients[DAEMON_CLIENTS];

	int keeper[2]; /* [0] is written, functions get [1]; -1: there is none */
	uint32_t keeper_generation;
	unsigned kept;		/* sockets that are in the keeper: all of them, or none */
	int keeper_rc;		/* why they are not: a negative errno */
	unsigned keeper_tries;	/* in vain, in a row; no more are counted than matter */
	bool keeper_come;	/* a function has brought one, whatever there was in it */
	unsigned whole_tries;	/* that a keeper was looked at again */
	uint64_t keeper_due_ns; /* the sockets are not in the keeper, and are tried again then; 0: they are */
	uint64_t files_limit; /* soft limit of open files that we were started with; 0: not known, nothing is bounded */

	struct {
#define UROCED_STAT(name, sentence) uint64_t name;
#include "uroced_stats.def"
#undef UROCED_STAT
	} stats;
};

/* uroced.c */
uint64_t daemon_now_ns(void);

/** Another user wants the address. @return whether nobody needs us, so that we leave now. */
bool daemon_makes_way(struct daemon *d);
int daemon_watch(struct daemon *d, int fd, uint32_t events, uint64_t source);
void daemon_rewatch(struct daemon *d, int fd, uint32_t events, uint64_t source);

/* uroced_clients.c */
void clients_init(struct daemon *d);
void clients_accept(struct daemon *d, int name_fd);
void clients_ready(struct daemon *d, unsigned index);
/** Let in those who wait for a number, end those who have waited too long. @return whether any wait. */
bool clients_tick(struct daemon *d);
bool clients_any(const struct daemon *d);
/** Tell those who wait for a number why there is none. */
void clients_refuse(struct daemon *d, int error, const char *sentence);

/* uroced_slots.c */
/** Look for functions of a daemon before us, and ask them to come over. */
void slots_probe(struct daemon *d);
/** Whether numbers can be given out: all who were asked to come over have, or what they keep is known. */
bool slots_ready(const struct daemon *d);
/** One sentence on who keeps us from being ready. */
void slots_blame(const struct daemon *d, char *out, size_t len);
/** Make the connection a function. @return 0: it is ours; a negative errno with a sentence: it stays the caller's. */
int slots_join(struct daemon *d, int fd, const struct ucred *peer, const struct proto_join *join, char *err,
	       size_t err_len);
void slots_ready_event(struct daemon *d, unsigned n, uint32_t events);
/** Tell every function what has changed. */
void slots_tell(struct daemon *d);
/** Look at those whose time has come. */
void slots_tick(struct daemon *d);
/** Whether somebody has the name of a function, and has not come over. */
bool slots_any_unasked(const struct daemon *d);
/** Whether somebody has the name of a function and is none of ours. */
bool slots_any_foreign(const struct daemon *d);
/** Give each function that lives a socket of each of its addresses, as far as one could not be made before. @param grown some have
 *  new ones: they are to be told. @return whether all have theirs. */
bool slots_grow(struct daemon *d, bool *grown);

/* uroced_gids.c */
/** Take an address into the table, with its sockets. @return the entry, or a
 *  negative errno with a sentence. */
int gids_add(struct daemon *d, const struct nic_gid *gid, char *err, size_t err_len);
/** Ask for an address by name. It comes with the next gids_sync. @return false: so many cannot be. */
bool gids_fix(struct daemon *d, const struct nic_gid *gid);
/** An entry for an address whose sockets are there already, if there is room at `entry`; its name is claimed when it is
 *  free. -1: no room. */
int gids_adopt(struct daemon *d, const struct nic_gid *gid, unsigned entry);
/** No addresses any more. */
void gids_forget(struct daemon *d);
int gids_find(const struct daemon *d, const struct nic_gid *gid);
/** The addresses that name the device: the first one, which is its key, and of an interface that is followed whole any other
 *  one as well, which was the first when the device was opened. @return how many. */
unsigned gids_naming(const struct daemon *d, struct nic_gid out[NIC_GID_TABLE_LEN]);
/** Take visitors from now on, under all names, or none. */
void gids_listen(struct daemon *d, bool on);
/** Follow an interface from now on. @return 0 or a negative errno. */
int gids_follow(struct daemon *d, const char *iface, uint32_t follow);
/** Bring table, names and port state up to date with the interface. */
void gids_sync(struct daemon *d);
void gids_netlink(struct daemon *d);

/* uroced_find.c */
/** The device that any of the addresses belongs to, by the word of a function; one whose key is gids[0] does not count.
 *  `with_daemons`: also those whose daemon lives. @return whether there is one; then its key. */
bool find_device(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
		 struct nic_gid *key);

/* uroced_steer.c */
/** The sockets of an entry up to those of the highest slot in use. */
int steer_open(struct daemon *d, struct entry *e, char *err, size_t err_len);
void steer_close(struct daemon *d, struct entry *e);
/** See that slot n has its sockets. */
int steer_grow(struct daemon *d, unsigned n, char *err, size_t err_len);
/** A function has slot n from now on, or nobody has. */
void steer_own(struct daemon *d, unsigned n, bool owned);
/** Functions serve other ports than before. */
void steer_services_changed(struct daemon *d);
/** What came for number n before somebody has it. */
void steer_flush(struct daemon *d, unsigned n);
/** Datagrams that nobody gets: drop, count. */
void steer_drain(struct daemon *d, unsigned entry, unsigned slot);
/** Have the kernel steer what comes to the entry. @return 0 or a negative errno. */
int steer_attach(const struct daemon *d, const struct entry *e);
/** Look at socket n of the entry if nobody has that number. */
void steer_watch_free(struct daemon *d, struct entry *e, unsigned n);

/* uroced_keeper.c */
/** Put all sockets into a new keeper, or say why not. Functions have it with the next slots_tell. */
void keeper_make(struct daemon *d);
/** Put sockets from before[entry] on into the keeper as well. May make a new one. */
void keeper_grow(struct daemon *d, const unsigned before[NIC_GID_TABLE_LEN]);
/** Try again what did not fit. */
void keeper_tick(struct daemon *d);
/** Our end of it. */
void keeper_close(struct daemon *d);
/** Take over the sockets that a keeper holds. @return how many addresses. */
int keeper_recover(struct daemon *d, int keeper);
/** How many sockets there are on the RoCE port of an address, as the kernel lists them. @return -1: it does not say. */
int keeper_kernel_sockets(const struct nic_gid *gid);

struct keeper_status {
	bool there;
	unsigned kept, missing; /* sockets */
	char problem[400];	/* "": none */
};
void keeper_status(const struct daemon *d, struct keeper_status *out);

/* uroced_services.c */
/** A function says that it serves these ports, and none but these. */
void services_said(struct daemon *d, unsigned n, const uint16_t *ports, unsigned n_ports);

/* uroced_tools.c */
/** Answer a command. @return false: end the connection. */
bool tools_command(struct daemon *d, int fd, const struct ucred *peer, const char *text, size_t len);
/** Function n has joined: tell it what tools have asked of all. */
void tools_joined(struct daemon *d, unsigned n);

#endif
