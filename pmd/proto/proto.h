/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.h - the protocol between a device's daemon, its functions and tools: names, messages, access rights
 * (pmd-internal; no DPDK).
 *
 * Sockets are AF_UNIX SOCK_SEQPACKET with abstract names, which are private to a network namespace and vanish when the
 * owner ends. Each message is one packet: a header, then a struct or a text, depending on the message's type. A message
 * can carry descriptors.
 *
 *   "\0uroce/<gid>"       the daemon (uroced) of the device that owns the address; a daemon listens under a name for
 *                         each GID of its device, and so claims the GID. A device's first GID is the device's key.
 *   "\0uroce/<key>/<n>"   function n of the device
 *   "\0uroce/<key>/guard"  the guard of the daemon of an uplink (uroced_guard.c), for tools while there is no daemon
 *   "\0uroce/<key>/service/<port>"   the function that serves this port of the device; the name claims the port
 *   "\0uroce/<key>/port/<space>/<port>"   likewise, a port of the connection manager (engine_cm.h)
 *
 *   to the daemon                       its answer
 *     PROTO_JOIN   struct proto_join      PROTO_WELCOME struct proto_welcome, PROTO_REFUSED, or the end of the
 *                                         connection: try again. After PROTO_WELCOME the connection stays open, and
 *                                         PROTO_DEVICE follows at every change
 *     PROTO_SERVICES uint32_t ...         no answer. A function sends it whenever the set of ports that the function
 *                                         serves changes, and after PROTO_ADOPTED
 *     PROTO_RECORDS no data               no answer. A function passes the daemon a file that has a struct
 *                                         nic_cm_record for each of the function's connections. When the function has
 *                                         ended, the daemon disconnects these
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END: see below
 *   to a function (its own name or that of a service), as the first message of a connection
 *     PROTO_ADOPT  struct proto_adopt     PROTO_ADOPTED struct proto_adopted. A daemon sends PROTO_ADOPT to a function
 *                                         of the previous daemon, and to one that has lost its connection. The new
 *                                         connection replaces the function's old one
 *     PROTO_WHOIS  struct proto_whois     PROTO_OWNER struct proto_owner: whether the function's device has the address
 *     PROTO_LINK   see links.h
 *     PROTO_TOOL   text                   PROTO_TEXT ..., PROTO_END
 *
 * PROTO_TOOL commands to the daemon: "status" (reply with the daemon's state as JSON), "stats" (reply with the daemon's
 * counters and their descriptions), "stay" (do not exit after the last function ends), "leave" (exit as soon as the
 * last function ends), "make way" (another user wants the address: exit, unless the device is in use, "stay" is set or
 * the daemon has just started; the exit ends the connection), "fault set ..." and "fault clear" (the daemon sends the
 * command to functions that join later, with PROTO_FAULT; the tool itself sends it to functions that have joined).
 * PROTO_TOOL commands to a function: see observe.h.
 *
 * The versions of a program, its daemon and a tool may differ, after an upgrade or where several are installed. Daemons
 * and functions work together only if their versions of the protocol are the same. Tools work with all of them: the
 * header, PROTO_TOOL, PROTO_TEXT, PROTO_END and PROTO_REFUSED never change; a process answers PROTO_TOOL of any
 * version, and tools read answers, functions refusals, of any version. Commands and keys of answers are added, but keep
 * their meanings.
 *
 * Every receiver checks the peer's identity (SO_PEERCRED) and every byte of its messages. A message that is not exactly
 * as specified ends the connection, and its descriptors are closed. A receiver keeps descriptors only from messages
 * whose type carries descriptors.
 */
#ifndef PMD_PROTO_H
#define PMD_PROTO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "nic.h"

#define PROTO_VERSION	   11
#define PROTO_MAGIC	   (0x75720000u | PROTO_VERSION) /* "ur"; the version has 8 bits */
#define PROTO_FUNCTION_MAX 254	 /* leading byte 255 of a QPN is for services and the multicast QPN, 0xFFFFFF */
#define PROTO_FDS_MAX	   24	 /* descriptors per message */
#define PROTO_STRUCT_MAX   2048	 /* maximum bytes of a struct below, and of a list of services */
#define PROTO_SERVICES_MAX 512	 /* per function */
#define PROTO_COMMAND_MAX  4096	 /* bytes of a PROTO_TOOL text */
#define PROTO_FAULT_MAX	   512	 /* buffer for a PROTO_FAULT text and a terminating zero, which is not sent */
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
	PROTO_END,	   /* int32_t: 0 or a negative errno, in which case preceding PROTO_TEXT is an error message */
	PROTO_KEEPER,	   /* found only in a keeper's receive queue: see struct proto_keeper */
	PROTO_FAULT,	   /* text, from the daemon to a function: a command to the fault stage, see fault.h */
	PROTO_SERVICES,	   /* uint32_t ..., from a function to the daemon: all services (proto_service) */
	PROTO_MAD,	   /* struct proto_mad, from the daemon to a function */
	PROTO_RECORDS,	   /* no data, one descriptor: a file of connections, see above */
	PROTO_LINK = 32,   /* 32 to 47 belong to links */
	PROTO_PACKET = 48, /* a captured packet: see capture.h */
};

/**
 * The number of a service: a port in the low 16 bits, and the port's space above them. Space 0 has the ports of
 * reliable datagrams (nic_rdm.h); each of these ports has a QPN. All other spaces are the connection manager's
 * (engine_cm.h): there the number is the low half of the service ID.
 */
static inline uint32_t proto_service(uint32_t space, uint16_t port)
{
	return space << 16 | port;
}
static inline uint32_t proto_service_space(uint32_t service)
{
	return service >> 16;
}
/** Whether the number is a service that functions may claim. */
bool proto_service_may_be(uint32_t service);

/** In front of every message. Host byte order: both ends are on one host. */
struct proto_header {
	uint32_t magic_version;
	uint16_t type; /* enum proto_type */
	uint16_t len;  /* bytes after the header */
};

/** Which users are admitted besides the daemon's own user and root. */
enum proto_allow { PROTO_ALLOW_NONE, PROTO_ALLOW_USER, PROTO_ALLOW_GROUP, PROTO_ALLOW_ALL };
struct proto_policy {
	uint32_t allow; /* enum proto_allow */
	uint32_t id;	/* user or group ID, for PROTO_ALLOW_USER and _GROUP */
};

/** Which further addresses of the interface belong to the device: none, the IPv6 ones, or all. */
enum proto_follow { PROTO_FOLLOW_NONE, PROTO_FOLLOW_V6, PROTO_FOLLOW_ALL };

#define PROTO_UPLINK_MAX 152 /* buffer for the arguments of an uplink's DPDK device, and a terminating zero */
#define PROTO_UPLINK_ANY "*" /* in place of arguments: whatever uplink the device has */

/** A process asks to become a function of the device that owns `gid`. Carries no descriptors. */
struct proto_join {
	struct nic_gid gid;
	char iface[16];		       /* interface whose addresses the device follows; "" with PROTO_FOLLOW_NONE */
	uint32_t follow;	       /* enum proto_follow; NONE: the function's GID table contains only `gid` */
	char uplink[PROTO_UPLINK_MAX]; /* the uplink that the device must have; "": it need not have one */
	uint32_t vlan;		       /* the VLAN that the uplink must be in; 0: any, or none */
};

/** The device as a function sees it. Carries descriptors: the keeper if `keeper` is 1, then a socket for each bit of
 *  `sockets`, then a pair of rings (ring_pair.h) if `rings` is 1. */
struct proto_device {
	struct nic_gid key;
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	struct proto_policy policy;
	uint16_t sockets; /* bit i: this message carries a new socket for GID entry i */
	uint8_t keeper;	  /* 1: this message carries a new keeper */
	uint8_t port_up;
	uint32_t scope; /* index of the device's interface, for link-local addresses */
	uint8_t uplink; /* 1: the device has a DPDK port, which the daemon owns, and no sockets */
	uint8_t rings;	/* 1: this message carries new rings to the uplink */
	uint16_t mtu;	/* longest IP packet that the uplink carries, bytes; 0: not an uplink */
};

/** Accepts a process as a function. Carries descriptors: the function's listening socket, then those of `device`. */
struct proto_welcome {
	uint32_t function; /* 1 ... PROTO_FUNCTION_MAX */
	uint32_t reserved;
	uint64_t since_ns; /* when the function joined, CLOCK_REALTIME */
	struct proto_device device;
};

struct proto_refused {
	int32_t error; /* positive errno */
	char sentence[320];
};

struct proto_whois {
	struct nic_gid gid; /* the address whose device is asked for */
};

struct proto_owner {
	struct nic_gid key; /* key of the answering device if it has the address, else zeroes */
	struct proto_policy policy;
};

/**
 * A message queued in a keeper, with a descriptor for each entry that is in use. A keeper is a socket whose receive
 * queue contains all UDP sockets of the device. Every trusted function has the keeper open, so the UDP sockets exist,
 * in their order, as long as any such function runs. A restarted daemon gets the sockets from the keeper (by peeking,
 * so that the queue stays).
 */
#define PROTO_KEEPER_ENTRIES 16
struct proto_keeper {
	struct {
		struct nic_gid gid;
		uint16_t index; /* position among the sockets of the address = number of the socket's function */
		uint16_t entry; /* the address's index in the GID table; functions continue to use this index */
	} entries[PROTO_KEEPER_ENTRIES];
};

#define PROTO_MAD_LEN 280u /* UDP payload of a packet with a MAD: BTH, DETH, MAD and ICRC */

/** A packet to queue pair 1 of the function, which the kernel gave to the daemon instead. */
struct proto_mad {
	struct nic_gid own, peer;
	uint32_t udp_sport;
	uint8_t packet[PROTO_MAD_LEN];
};

struct proto_adopt {
	struct nic_gid key;
};

/** A function's answer to PROTO_ADOPT. Carries a descriptor: the keeper, if the function has one. */
struct proto_adopted {
	uint32_t function;
	uint32_t keeper; /* 1: this message carries the keeper */
	uint64_t since_ns;
	struct proto_join join;
};

/* ---- messages ------------------------------------------------------------------------------------------- */

/** A received message. The caller of proto_recv sets data and room; data must be aligned for any struct. */
struct proto_msg {
	void *data;
	uint32_t room; /* size of the buffer at data, bytes */
	uint16_t type, len;
	unsigned n_fds;
	int fds[PROTO_FDS_MAX]; /* close-on-exec; the message owns them, see proto_recv */
};

/** A message with room for any struct. */
#define PROTO_MSG(name)                                                                                                \
	union {                                                                                                        \
		uint8_t bytes[PROTO_STRUCT_MAX];                                                                       \
		uint64_t align;                                                                                        \
	} name##_room;                                                                                                 \
	struct proto_msg name = {.data = &name##_room, .room = sizeof(name##_room)}

/**
 * Send one message without waiting. The caller still owns the descriptors. No cancellation point, no SIGPIPE.
 * @return 0; -EAGAIN: the queue is full, memory is short, or the call was interrupted; -ETOOMANYREFS: the user has too
 * many descriptors in flight; -EMSGSIZE: too long; another negative errno: the connection is unusable.
 */
int proto_send(int fd, unsigned type, const void *data, size_t len, const int *fds, unsigned n_fds);

/**
 * Receive one message without waiting. No cancellation point.
 *
 * The message owns its descriptors. The caller of proto_recv must call proto_msg_close on every path. If the caller
 * passes the message to another C function, that function takes the descriptors that it needs with proto_msg_take, and
 * leaves the others in the message.
 *
 * @return 1: m is filled in; 0: the peer has closed, and all its messages have been received;
 * -EAGAIN: no message;
 * -EPROTO: no valid header, or another version of the protocol and neither PROTO_TOOL nor PROTO_REFUSED;
 * -EBADMSG: malformed; -EMSGSIZE: longer than m->room;
 * -EMFILE: descriptors were lost because the process has no room for them. After an error other than -EAGAIN, m
 * has no descriptors, and the caller must close the connection.
 */
int proto_recv(int fd, struct proto_msg *m);

/** Like proto_recv, but the message and its descriptors also stay in the queue. If SO_PEEK_OFF is set, the next call
 *  returns the next message. */
int proto_peek(int fd, struct proto_msg *m);

/** Like proto_recv, but waits for a message. @return -ETIMEDOUT if none arrives in time. */
int proto_recv_wait(int fd, struct proto_msg *m, int timeout_ms);

/** Whether m has this type, exactly `len` bytes and `n_fds` descriptors. If not, m's descriptors are closed. */
bool proto_msg_is(struct proto_msg *m, unsigned type, size_t len, unsigned n_fds);

/** Take descriptor i out of a message. The caller then owns the descriptor. */
int proto_msg_take(struct proto_msg *m, unsigned i);

/** Close the descriptors that have not been taken out of the message. May be called twice, and after any result of
 *  proto_recv. */
void proto_msg_close(struct proto_msg *m);

/* ---- names ---------------------------------------------------------------------------------------------- */

struct proto_name {
	struct sockaddr_un sa;
	socklen_t len;
};

void pmd_name_daemon(const struct nic_gid *gid, struct proto_name *out);
void pmd_name_guard(const struct nic_gid *key, struct proto_name *out);
void pmd_name_function(const struct nic_gid *key, unsigned n, struct proto_name *out);
void pmd_name_service(const struct nic_gid *key, uint32_t service, struct proto_name *out);

/** Create a listening socket, non-blocking, close-on-exec. @return the socket, or a negative errno; -EADDRINUSE: the
 *  name is in use. */
int proto_listen(const struct proto_name *name);

/** Connect to a name; the socket is non-blocking and close-on-exec. @return the socket, or a negative errno;
 *  -ECONNREFUSED: no process listens; -EAGAIN: the listener's backlog is full. */
int proto_connect(const struct proto_name *name);

/** Accept a connection; the socket is non-blocking and close-on-exec. @return the socket, or a negative errno; -EAGAIN:
 *  no connection is waiting. */
int proto_accept(int fd);

/* ---- peers ---------------------------------------------------------------------------------------------- */

/** Get the credentials of the peer: the process that has connected to us, or to which we have connected. @return 0 or a
 *  negative errno. */
int proto_peer(int fd, struct ucred *out);

/** Format a PID for a message: "pid 42"; or, for PID 0, "in another container", because the process is outside our PID
 *  namespace. @return out */
#define PROTO_PID_TEXT 24
const char *proto_pid_str(pid_t pid, char *out, size_t len);

enum proto_holder {
	PROTO_HOLDER_NONE,    /* no process listens */
	PROTO_HOLDER_IT,      /* process `who` of proto_holder() listens */
	PROTO_HOLDER_UNSEEN,  /* a process of the same user, outside our PID namespace, listens: it may be `who` */
	PROTO_HOLDER_OTHER,   /* another process listens */
	PROTO_HOLDER_UNKNOWN, /* unknown: the listener's backlog is full, or we have no free descriptor */
};
/** Find out whether process `who` (from proto_peer) listens under a name that belongs to the device with this key. */
enum proto_holder proto_holder(const struct proto_name *name, const struct nic_gid *key, const struct ucred *who);

/** Whether the peer is a process of our own user and container. Such a process has full control over this process
 *  anyway. */
bool proto_peer_is_self(int fd);

/** Whether the peer is our own user, root, or admitted by the policy. @param out gets the peer's credentials; may be
 *  NULL. */
bool proto_peer_allowed(int fd, const struct proto_policy *policy, struct ucred *out);

/** Parse "user=NAME", "group=NAME" (or numbers) or "all"; "" or NULL admits no other user. @return 0; -EINVAL with a
 *  message in `err`. */
int proto_policy_parse(const char *text, struct proto_policy *out, char *err, size_t err_len);

#endif
