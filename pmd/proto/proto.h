/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.h - the protocol between the processes of a device: names, messages, access rights (pmd-internal; no DPDK).
 *
 * Sockets are AF_UNIX SOCK_SEQPACKET under abstract names, which are private to a network namespace and vanish with
 * their owners. One message is one packet: a header, then a struct or a text according to its type; descriptors travel
 * with it.
 *
 *   "\0uroce/<gid>"       the daemon (uroced) of the device that owns the address; one such name per GID of the device.
 *                         Holding it is the claim to the address. The first GID of a device is the device's key.
 *   "\0uroce/<key>/<n>"   function n of the device
 *   "\0uroce/<key>/service/<port>"   the function that serves this port of the device; holding it claims the port
 *
 *   to the daemon                       its answer
 *     PROTO_JOIN   struct proto_join      PROTO_WELCOME struct proto_welcome, or PROTO_REFUSED; the connection stays,
 *                                         its end is the function's end; PROTO_DEVICE follows at every change
 *     PROTO_SERVICES uint16_t ...         nothing; from a function, whenever the set of ports it serves changes, and
 *                                         after PROTO_ADOPTED
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END: see below
 *   to a function, by its own name or a service's, as the first message of a connection
 *     PROTO_ADOPT  struct proto_adopt     PROTO_ADOPTED struct proto_adopted; from a restarted daemon; the connection
 *                                         then replaces the one to the previous daemon
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner: whether the address is its device's
 *     PROTO_LINK   see links.h
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END
 *
 * Commands of PROTO_TOOL to the daemon: "status" (the daemon's state as JSON), "stats" (its counters with
 * descriptions), "stay" (do not exit when the last function has gone), "leave" (exit at once when it has), "make way"
 * (another user wants the address: exit, which ends the connection, unless the device is in use or "stay" is set),
 * "fault set ..." and "fault clear" (kept for functions that join later, which get it with PROTO_FAULT; the tool itself
 * tells the present ones). To a function: see observe.h.
 *
 * Every receiver checks the peer's identity (SO_PEERCRED) and every byte of its messages: a message that is not exactly
 * as specified ends the connection, and unexpected descriptors are closed. Received descriptors do not outlive the
 * handling of their message, unless the message's type carries descriptors.
 */
#ifndef PMD_PROTO_H
#define PMD_PROTO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "nic.h"

#define PROTO_VERSION	   7
#define PROTO_MAGIC	   (0x75720000u | PROTO_VERSION) /* "ur" */
#define PROTO_FUNCTION_MAX 254	 /* the leading byte 255 is for services and the multicast QPN, 0xFFFFFF */
#define PROTO_FDS_MAX	   24	 /* descriptors per message */
#define PROTO_STRUCT_MAX   512	 /* bytes: no struct below is longer */
#define PROTO_SERVICES_MAX 256	 /* per function */
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
	PROTO_END,	   /* int32_t: 0 or a negative errno; with an errno, the text, if any, is an error sentence */
	PROTO_KEEPER,	   /* struct proto_keeper, queued in a keeper: see there */
	PROTO_FAULT,	   /* text, from the daemon to a function: a command to the fault stage, see fault.h */
	PROTO_SERVICES,	   /* uint16_t ..., from a function to the daemon: all ports that it serves */
	PROTO_LINK = 32,   /* 32 to 47 belong to links */
	PROTO_PACKET = 48, /* a captured packet: see capture.h */
};

/** In front of every message. Host byte order: both ends are on one host. */
struct proto_header {
	uint32_t magic_version;
	uint16_t type; /* enum proto_type */
	uint16_t len;  /* bytes that follow */
};

/** Users admitted besides the daemon's own user and root. */
enum proto_allow { PROTO_ALLOW_NONE, PROTO_ALLOW_USER, PROTO_ALLOW_GROUP, PROTO_ALLOW_ALL };
struct proto_policy {
	uint32_t allow; /* enum proto_allow */
	uint32_t id;	/* the user or group */
};

/** Which further addresses of its interface belong to a device. */
enum proto_follow { PROTO_FOLLOW_NONE, PROTO_FOLLOW_V6, PROTO_FOLLOW_ALL };

/** A process asks to become a function of the device that owns `gid`. No descriptors. */
struct proto_join {
	struct nic_gid gid;
	char iface[16];	 /* interface to follow, "" with PROTO_FOLLOW_NONE */
	uint32_t follow; /* enum proto_follow. NONE: the function gets entry 0 = gid and nothing else */
};

/** The device as a function sees it. Descriptors: the keeper if `keeper`, then a socket for each bit of `sockets`. */
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
	struct nic_gid gid; /* the GID in the name */
};

struct proto_owner {
	struct nic_gid key; /* zeroes: not (or no longer) an address of this daemon's device */
	struct proto_policy policy;
};

/**
 * A message queued in a keeper, with a descriptor for each entry. A keeper is a socket whose queue holds all sockets of
 * the device. Every function has it, so the sockets live, in their order, as long as any function does, and a restarted
 * daemon finds them there (by peeking: the queue stays).
 */
#define PROTO_KEEPER_ENTRIES 16
struct proto_keeper {
	struct {
		struct nic_gid gid;
		uint16_t index; /* of the socket among those that share the address: the function's number */
		uint16_t entry; /* GID table entry of the address: functions refer to it by index */
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

/** A received message. The caller sets data and room; data must be aligned for any struct. */
struct proto_msg {
	void *data;
	uint32_t room; /* bytes at data */
	uint16_t type, len;
	unsigned n_fds;
	int fds[PROTO_FDS_MAX]; /* close-on-exec; owned by the message until proto_msg_take, see proto_recv */
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
 * @return 0; -EAGAIN: the queue is full (or try again); another negative errno: the connection is unusable.
 */
int proto_send(int fd, unsigned type, const void *data, size_t len, const int *fds, unsigned n_fds);

/**
 * Receive one message without waiting. No cancellation point.
 *
 * The message owns its descriptors. The function that receives the message closes it (proto_msg_close) on every path
 * when done; a function that the message is passed to takes out (proto_msg_take) the descriptors that it keeps and
 * ignores the rest.
 *
 * @return 1: m is filled in; 0: the peer has closed, and all its messages have been received;
 * -EAGAIN: no message;
 * -EPROTO: another version or no header; -EBADMSG, -EMSGSIZE: malformed, or longer than the room; -EMFILE: descriptors
 * were lost because the process has no room for them. After an error (-EAGAIN is none) there are no descriptors, and
 * the caller must close the connection.
 */
int proto_recv(int fd, struct proto_msg *m);

/** As proto_recv, but the message and its descriptors also stay in the queue; with SO_PEEK_OFF set, the next call
 *  returns the next message. */
int proto_peek(int fd, struct proto_msg *m);

/** As proto_recv, but waits for a message. @return also -ETIMEDOUT. */
int proto_recv_wait(int fd, struct proto_msg *m, int timeout_ms);

/** Whether m has this type, exactly `len` bytes and `n_fds` descriptors. If not, m is closed at once. */
bool proto_msg_is(struct proto_msg *m, unsigned type, size_t len, unsigned n_fds);

/** Take descriptor i out of a message: the caller owns it from now on. */
int proto_msg_take(struct proto_msg *m, unsigned i);

/** Close the descriptors that have not been taken out. May be called again, and after any result of proto_recv. */
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

/** A connection, non-blocking, close-on-exec. @return it, or a negative errno: -ECONNREFUSED: no listener, -EAGAIN: the
 *  listener's backlog is full. */
int proto_connect(const struct proto_name *name);

/** Accept a connection, non-blocking, close-on-exec. @return it, or a negative errno: -EAGAIN: none is waiting. */
int proto_accept(int fd);

/* ---- peers ---------------------------------------------------------------------------------------------- */

/** Credentials of the process that connected, or listens, at the other end. @return 0 or a negative errno. */
int proto_peer(int fd, struct ucred *out);

/** "pid 42", or "in another container" for a process without a number in our PID namespace (pid 0). @return out */
#define PROTO_PID_TEXT 24
const char *proto_pid_str(pid_t pid, char *out, size_t len);

enum proto_holder {
	PROTO_HOLDER_NONE,    /* no process listens */
	PROTO_HOLDER_IT,      /* the process itself listens */
	PROTO_HOLDER_UNSEEN,  /* a process of the same user listens; both are outside our PID namespace */
	PROTO_HOLDER_OTHER,   /* another process listens */
	PROTO_HOLDER_UNKNOWN, /* cannot tell: the listener's backlog is full, or we have no free descriptor */
};
/** Whether process `who` (from proto_peer) listens under this name of the device with this key. */
enum proto_holder proto_holder(const struct proto_name *name, const struct nic_gid *key, const struct ucred *who);

/** Whether the peer is a process of our own user and container: it has full control over this process anyway. */
bool proto_peer_is_self(int fd);

/** Whether the peer is our own user, root, or admitted by the policy. @param out its credentials; may be NULL. */
bool proto_peer_allowed(int fd, const struct proto_policy *policy, struct ucred *out);

/** Parse "user=NAME", "group=NAME" (or numbers) or "all"; "" or NULL: nobody. @return 0; -EINVAL: message in `err`. */
int proto_policy_parse(const char *text, struct proto_policy *out, char *err, size_t err_len);

#endif
