/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.h - what the processes of a device say to each other: names, messages, who may speak (pmd-internal; no DPDK).
 *
 * Sockets are AF_UNIX SOCK_SEQPACKET under abstract names, which are a network namespace's own and vanish with their
 * owners. One message is one packet: a header, then a struct or a text as its type says; descriptors travel with it.
 *
 *   "\0uroce/<gid>"       the daemon (uroced) of the device that owns the address; every GID of the device has the name.
 *                         Holding it is the claim to the address. The first GID of a device is the device's key.
 *   "\0uroce/<key>/<n>"   function n of the device
 *   "\0uroce/<key>/service/<port>"   the function that serves this port of the device; holding it is the claim to the port
 *
 *   to the daemon                       its answer
 *     PROTO_JOIN   struct proto_join      PROTO_WELCOME struct proto_welcome, or PROTO_REFUSED; the connection stays, its
 *                                         end is the function's end; PROTO_DEVICE follows at every change
 *     PROTO_SERVICES uint16_t ...         nothing; from a function, each time that it serves other ports than before, and
 *                                         after PROTO_ADOPTED
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END: see below
 *   to a function, by its own name or a service's, as the first message of a connection
 *     PROTO_ADOPT  struct proto_adopt     PROTO_ADOPTED struct proto_adopted; from a daemon that has been started anew; the
 *                                         connection then takes the place of the one to the daemon before
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner: whether the address is its device's
 *     PROTO_LINK   see links.h
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END
 *
 * Commands of PROTO_TOOL to the daemon: "status" (what there is, JSON), "stats" (its counters with their sentences), "stay" (do
 * not leave when the last function has gone), "leave" (leave then, at once), "make way" (leave if nobody uses the device or has
 * asked you to stay: the connection ends; another user wants the address), "fault set ..." and "fault clear" (kept for
 * those who join later, and told to them with PROTO_FAULT; the tool tells those who are there). To a function: see observe.h.
 *
 * Every receiver checks who the other is (SO_PEERCRED) and each byte of what he says: a message that is not exactly what
 * it should be ends the connection, and descriptors that nobody asked for are closed. No sender's descriptors outlive the
 * handling of the message that they came with, unless that message is one that brings them.
 */
#ifndef PMD_PROTO_H
#define PMD_PROTO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "nic.h"

#define PROTO_VERSION	   7
#define PROTO_MAGIC	   (0x75720000u | PROTO_VERSION) /* "ur" */
#define PROTO_FUNCTION_MAX 254	 /* the leading byte 255 is that of services, and of the multicast QPN, 0xFFFFFF */
#define PROTO_FDS_MAX	   24	 /* descriptors of a message */
#define PROTO_STRUCT_MAX   512	 /* bytes: no struct below is longer */
#define PROTO_SERVICES_MAX 256	 /* that a function may have */
#define PROTO_COMMAND_MAX  4096	 /* bytes of a PROTO_TOOL text */
#define PROTO_FAULT_MAX	   512	 /* bytes of a PROTO_FAULT text, with its end */
#define PROTO_TEXT_MAX	   32768 /* bytes of a PROTO_TEXT chunk */

enum proto_type {
	PROTO_JOIN = 1,
	PROTO_WELCOME,
	PROTO_REFUSED, /* struct proto_refused */
	PROTO_DEVICE,  /* struct proto_device, from the daemon to its functions */
	PROTO_WHOIS,
	PROTO_OWNER,
	PROTO_ADOPT,
	PROTO_ADOPTED,
	PROTO_TOOL,
	PROTO_TEXT,	   /* a part of a text, not terminated */
	PROTO_END,	   /* int32_t: 0 or a negative errno; the text, if any, is then a sentence */
	PROTO_KEEPER,	   /* struct proto_keeper, in a keeper: see there */
	PROTO_FAULT,	   /* text, from the daemon to a function: a command to the fault stage, see fault.h */
	PROTO_SERVICES,	   /* uint16_t ..., from a function to the daemon: the ports that it serves, all of them */
	PROTO_LINK = 32,   /* and the numbers up to 47 are those of links */
	PROTO_PACKET = 48, /* a captured packet: see capture.h */
};

/** In front of every message. Host byte order: both ends are on one host. */
struct proto_header {
	uint32_t magic_version;
	uint16_t type; /* enum proto_type */
	uint16_t len;  /* bytes that follow */
};

/** Who may take part besides the daemon's own user and root. */
enum proto_allow { PROTO_ALLOW_NONE, PROTO_ALLOW_USER, PROTO_ALLOW_GROUP, PROTO_ALLOW_ALL };
struct proto_policy {
	uint32_t allow; /* enum proto_allow */
	uint32_t id;	/* the user or group */
};

/** Which addresses of its interface a device has besides its own. */
enum proto_follow { PROTO_FOLLOW_NONE, PROTO_FOLLOW_V6, PROTO_FOLLOW_ALL };

/** A process wants to be a function of the device that owns `gid`. No descriptors. */
struct proto_join {
	struct nic_gid gid;
	char iface[16];	 /* interface to follow, "" with PROTO_FOLLOW_NONE */
	uint32_t follow; /* enum proto_follow. NONE: the function gets entry 0 = gid and nothing else */
};

/** The device as a function sees it. With descriptors: the keeper if `keeper`, then a socket for each bit of `sockets`. */
struct proto_device {
	struct nic_gid key;
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	struct proto_policy policy;
	uint16_t sockets; /* bit i: a new socket for entry i comes with this message */
	uint8_t keeper;	  /* 1: a new keeper comes with this message */
	uint8_t port_up;
	uint32_t scope; /* index of the interface, for link-local addresses */
};

/** Descriptors: the function's listening socket, then those of `device`. */
struct proto_welcome {
	uint32_t function; /* 1 ... PROTO_FUNCTION_MAX */
	uint32_t reserved;
	uint64_t since_ns; /* CLOCK_REALTIME */
	struct proto_device device;
};

struct proto_refused {
	int32_t error; /* positive errno */
	char sentence[320];
};

struct proto_whois {
	struct nic_gid gid; /* the one in the name */
};

struct proto_owner {
	struct nic_gid key; /* zeroes: not an address of this daemon's device (any more) */
	struct proto_policy policy;
};

/**
 * What lies unread in a keeper, with a descriptor for each entry. A keeper is a socket whose queue holds all sockets of the
 * device, and every function has it: so they live, in their order, as long as any function, and a daemon that is started anew
 * finds them there (by peeking: the queue stays).
 */
#define PROTO_KEEPER_ENTRIES 16
struct proto_keeper {
	struct {
		struct nic_gid gid;
		uint16_t index; /* of the socket among those that share the address: the function's number */
		uint16_t entry; /* of the address in the GID table: functions use it by its place */
	} entries[PROTO_KEEPER_ENTRIES];
};

struct proto_adopt {
	struct nic_gid key;
};

/** Descriptor: the keeper, if the function has it. */
struct proto_adopted {
	uint32_t function;
	uint32_t keeper; /* 1: with a descriptor */
	uint64_t since_ns;
	struct proto_join join;
};

/* ---- messages ------------------------------------------------------------------------------------------- */

/** A received message. The caller sets data and room; data is to be aligned like a struct. */
struct proto_msg {
	void *data;
	uint32_t room; /* bytes at data */
	uint16_t type, len;
	unsigned n_fds;
	int fds[PROTO_FDS_MAX]; /* close-on-exec; the message's until proto_msg_take, see proto_recv */
};

/** A message with room for any struct. */
#define PROTO_MSG(name)                                                                                                \
	union {                                                                                                        \
		uint8_t bytes[PROTO_STRUCT_MAX];                                                                       \
		uint64_t align;                                                                                        \
	} name##_room;                                                                                                 \
	struct proto_msg name = {.data = &name##_room, .room = sizeof(name##_room)}

/**
 * Send one message without waiting. Descriptors stay the caller's. No cancellation point, no SIGPIPE.
 * @return 0; -EAGAIN: the queue is full; another negative errno: the connection is of no more use.
 */
int proto_send(int fd, unsigned type, const void *data, size_t len, const int *fds, unsigned n_fds);

/**
 * Receive one message without waiting. No cancellation point.
 *
 * The descriptors belong to the message. The function that receives the message closes it (proto_msg_close) when it has
 * dealt with it, on every path; whoever it passes the message to takes out (proto_msg_take) the descriptors that it keeps,
 * and needs not care for the others.
 *
 * @return 1: m is filled in; 0: the other end is closed, and all it said has been received;
 * -EAGAIN: nothing there;
 * -EPROTO: another version or no header; -EBADMSG, -EMSGSIZE: malformed, or longer than the room; -EMFILE: descriptors
 * were lost for want of room in the process. After an error there are no descriptors and the connection is to be closed.
 */
int proto_recv(int fd, struct proto_msg *m);

/** As proto_recv, but the message, and its descriptors, stay in the queue as well; the next call shows the next one when
 *  SO_PEEK_OFF is set. */
int proto_peek(int fd, struct proto_msg *m);

/** As proto_recv, but waits for a message. @return also -ETIMEDOUT. */
int proto_recv_wait(int fd, struct proto_msg *m, int timeout_ms);

/** Whether m is of this type, exactly `len` bytes long, with `n_fds` descriptors. If not, m is closed at once. */
bool proto_msg_is(struct proto_msg *m, unsigned type, size_t len, unsigned n_fds);

/** Take descriptor i out of a message: it is the caller's from now on. */
int proto_msg_take(struct proto_msg *m, unsigned i);

/** Close the descriptors that nobody has taken out. May be called again, and after any result of proto_recv. */
void proto_msg_close(struct proto_msg *m);

/* ---- names ---------------------------------------------------------------------------------------------- */

struct proto_name {
	struct sockaddr_un sa;
	socklen_t len;
};

void pmd_name_daemon(const struct nic_gid *gid, struct proto_name *out);
void pmd_name_function(const struct nic_gid *key, unsigned n, struct proto_name *out);
void pmd_name_service(const struct nic_gid *key, unsigned port, struct proto_name *out);

/** A listening socket, non-blocking, close-on-exec. @return it, or a negative errno: -EADDRINUSE. */
int proto_listen(const struct proto_name *name);

/** A connection, non-blocking, close-on-exec. @return it, or a negative errno: -ECONNREFUSED: nobody listens, -EAGAIN:
 *  somebody does, but has not looked for long. */
int proto_connect(const struct proto_name *name);

/** A visitor of a listening socket; as proto_connect. @return -EAGAIN: nobody is waiting. */
int proto_accept(int fd);

/* ---- who is there --------------------------------------------------------------------------------------- */

/** Who connected, or listens, at the other end. @return 0 or a negative errno. */
int proto_peer(int fd, struct ucred *out);

/** "pid 42", or where he is when his process has no number in our PID namespace (pid 0). @return out */
#define PROTO_PID_TEXT 24
const char *proto_pid_str(pid_t pid, char *out, size_t len);

enum proto_holder {
	PROTO_HOLDER_NONE,    /* nobody listens */
	PROTO_HOLDER_IT,      /* that process does */
	PROTO_HOLDER_UNSEEN,  /* one of the same user does; it is in another PID namespace, and so is the process */
	PROTO_HOLDER_OTHER,   /* another one does */
	PROTO_HOLDER_UNKNOWN, /* somebody does, who has not looked for long; or we have no descriptor to ask with */
};
/** Whether the process `who`, as proto_peer tells, is the one that listens under this name of the device with this key. */
enum proto_holder proto_holder(const struct proto_name *name, const struct nic_gid *key, const struct ucred *who);

/** Whether the peer is a process of our own user and container: one that can do with this process as it likes anyway. */
bool proto_peer_is_self(int fd);

/** Whether the peer may take part: our own user, root, or whom the policy lets in. @param out may be NULL. */
bool proto_peer_allowed(int fd, const struct proto_policy *policy, struct ucred *out);

/** "user=NAME", "group=NAME" (or numbers), "all", "" or NULL: none. @return 0, -EINVAL with a sentence. */
int proto_policy_parse(const char *text, struct proto_policy *out, char *err, size_t err_len);

#endif
