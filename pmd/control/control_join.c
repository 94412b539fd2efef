/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_join.c - becoming a function of a device: find the device's daemon or start one, and take over the sockets
 * and the state in its welcome message.
 *
 * A daemon without functions exits, possibly while we connect: then we try again. An idle daemon of a user whom we do
 * not trust is asked to make way; if that daemon is in use, or does not answer, joining fails.
 *
 * Runs without the engine's lock, and may block.
 */
#include <errno.h>
#include <net/if.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "control_priv.h"
#include "eal.h"
#include "kernel_calls.h"
#include "points.h"
#include "spawn.h"
#include "udp_socket.h"

#define WELCOME_MS   10000
/* On an overloaded machine, a runnable daemon may get no CPU for many seconds: the scheduler treats each session as a
 * group (autogroup), and groups whose threads yield often can starve others. */
#define STARVED_MS   1000
#define STARVED_LOOK 50 /* maximum number of checks whether the daemon is starved; we wait STARVED_MS after each */
/* Time limit for the answer of an untrusted user's daemon. If that daemon has found its UDP address in use, it
 * listens under its name for up to 3.3 s, and then exits without an answer. */
#define WAY_MS	     4000
#define WAYS	     3		    /* maximum number of times in a row that we ask one process to release the name */
#define WAYS_NS	     15000000000ull /* after this time we ask no further process; each may hold the name for seconds */
#define TRIES	     500	    /* maximum number of attempts to join; with the pauses, they take several seconds */
#define PAUSE_NS     10000000
#define SPAWN_EVERY  20 /* number of refused attempts after which another daemon is started */
#define IN_USE_TRIES 50 /* attempts after a daemon that we started found the UDP port in use; then join gives up */
#define SENTENCE     400
/* Results of an attempt to join, besides 0 and negative errnos. */
#define TRY_AGAIN    1 /* the daemon is ending, or not ready yet */
#define NO_MEMORY    2 /* the kernel has no memory for the request; the error message is in err */

static void pause_briefly(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_NS};

	nanosleep(&t, NULL);
}

/** Whether the sockets in a message, from descriptor `at` on, are bound to the addresses that the message lists. */
static bool sockets_are(const struct proto_device *device, const struct proto_msg *m, unsigned at)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if ((device->sockets & 1u << i) && !pmd_udp_socket_is(m->fds[at++], &device->gids[i]))
			return false;
	return true;
}

bool control_device_read(const struct proto_device *device, struct proto_msg *m, unsigned first, int *keeper,
			 int sockets[NIC_GID_TABLE_LEN], int rings[RING_PAIR_FDS])
{
	unsigned at = first, n_rings = device->rings ? RING_PAIR_FDS : 0;

	if (device->keeper > 1 || device->port_up > 1 || device->uplink > 1 || device->rings > device->uplink ||
	    (device->uplink ? device->mtu == 0 || device->sockets != 0 : device->mtu != 0) ||
	    m->n_fds != first + device->keeper + (unsigned)__builtin_popcount(device->sockets) + n_rings)
		return false;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!pmd_gid_is_none(&device->gids[i]) && !pmd_gid_is_unicast(&device->gids[i]))
			return false;
	if (!sockets_are(device, m, first + device->keeper))
		return false;
	*keeper = device->keeper ? pmd_fd_high(proto_msg_take(m, at++)) : -1;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		sockets[i] = device->sockets & 1u << i ? pmd_fd_high(proto_msg_take(m, at++)) : -1;
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		rings[i] = i < n_rings ? pmd_fd_high(proto_msg_take(m, at++)) : -1;
	return true;
}

static void user_name(uid_t uid, char *out, size_t len)
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		snprintf(out, len, "%.32s", pw->pw_name);
	else
		snprintf(out, len, "%u", uid);
}

/** Check that the daemon runs as a trusted user: our own, root, or one admitted by UROCE_ALLOW. @return 0, or -EACCES
 *  or another negative errno with an error message in err. */
static int check_daemon(int fd, const struct nic_gid *gid, struct ucred *peer, char *err, size_t err_len)
{
	struct proto_policy policy;
	char address[PMD_GID_TEXT], user[40], place[PROTO_PID_TEXT];
	int rc = proto_policy_parse(secure_getenv("UROCE_ALLOW"), &policy, address, sizeof(address));

	if (rc != 0) {
		snprintf(err, err_len, "UROCE_ALLOW is wrong; use user=NAME, group=NAME (names or numbers) or all");
		return rc;
	}
	if (proto_peer_allowed(fd, &policy, peer))
		return 0;
	rc = proto_peer(fd, peer);
	if (rc != 0) {
		snprintf(err, err_len, "the kernel does not say whose the daemon of %s is: %s",
			 pmd_gid_str(gid, address, sizeof(address)), strerror(-rc));
		return rc;
	}
	user_name(peer->uid, user, sizeof(user));
	snprintf(err, err_len,
		 "%s is a device of user %s (uroced, %s), whom you do not trust so far; use another address "
		 "(UROCE_DEVICES), or set UROCE_ALLOW=user=%s if that user lets you in",
		 pmd_gid_str(gid, address, sizeof(address)), user, proto_pid_str(peer->pid, place, sizeof(place)),
		 user);
	return -EACCES;
}

/** Ask a daemon of an untrusted user to exit if it has no functions. @return whether it has exited. */
static bool daemon_makes_way(int fd)
{
	static const char command[] = "make way";
	PROTO_MSG(m);
	int rc;

	proto_send(fd, PROTO_TOOL, command, strlen(command), NULL, 0); /* proto_recv_wait shows a failure */
	rc = proto_recv_wait(fd, &m, WAY_MS);
	proto_msg_close(&m);
	return rc == 0 || rc == -ECONNRESET || rc == -EPIPE;
}

/** Whether the process is ready to run: it will answer once it has the CPU. @return false also if its state is unknown
 *  because the process is in another PID namespace. */
static bool is_runnable(pid_t pid)
{
	char path[40], line[512];
	const char *state = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fgets(line, sizeof(line), f))
		state = strrchr(line, ')'); /* the last ')': the program's name may contain further ones */
	fclose(f);
	return state && state[1] == ' ' && state[2] == 'R';
}

/** Receive the daemon's answer. @return what proto_recv_wait returns; -ETIMEDOUT: the daemon is stopped, hangs or
 *  gets no CPU. */
static int recv_answer(int fd, pid_t daemon, struct proto_msg *m)
{
	int rc = proto_recv_wait(fd, m, WELCOME_MS);

	for (unsigned i = 0; rc == -ETIMEDOUT && i < STARVED_LOOK; i++) {
		bool runnable = is_runnable(daemon);

		/* Get the state first, then receive: a daemon that sleeps may have answered just before. */
		rc = proto_recv_wait(fd, m, runnable ? STARVED_MS : 0);
		if (!runnable)
			break;
	}
	return rc;
}

/** Write the error message for a failed exchange with the daemon. For each errno, the message says what the user
 *  can do. */
static void ask_failed(int rc, const struct nic_gid *gid, pid_t pid, char *err, size_t err_len)
{
	char address[PMD_GID_TEXT], place[PROTO_PID_TEXT];

	pmd_gid_str(gid, address, sizeof(address));
	proto_pid_str(pid, place, sizeof(place));
	switch (-rc) {
	case ETIMEDOUT:
		snprintf(err, err_len,
			 "the daemon of %s (uroced, %s) does not answer; if it is stopped continue it, else end it",
			 address, place);
		break;
	case EMFILE:
	case ENFILE:
		snprintf(err, err_len,
			 "the process has no descriptors left for the sockets of %s; raise its limit (ulimit -n)",
			 address);
		break;
	case EAGAIN: /* from proto_send: a new connection's queue is not full, so the kernel is short of memory */
	case ENOMEM:
	case ENOBUFS:
		snprintf(
			err, err_len,
			"the kernel has no memory for a message to the daemon of %s (uroced, %s); try again when there "
			"is more",
			address, place);
		break;
	case EPERM:
	case EACCES:
	case ENOSYS:
		snprintf(err, err_len,
			 "this process may not talk to the daemon of %s (uroced, %s): %s; a sandbox (a seccomp profile "
			 "or a security module) forbids messages on UNIX sockets, and has to let them through",
			 address, place, strerror(-rc));
		break;
	case EPROTO:
	case EBADMSG:
	case EMSGSIZE:
		snprintf(err, err_len,
			 "the daemon of %s (uroced, %s) is of another version of uroce; end the programs that use "
			 "the device, or run: uroce down",
			 address, place);
		break;
	default:
		snprintf(err, err_len, "the daemon of %s (uroced, %s) cannot be asked: %s; try again", address, place,
			 strerror(-rc));
	}
}

/** Send JOIN to the daemon and read the answer. @return 0: m is the welcome; TRY_AGAIN; NO_MEMORY; or a negative errno
 *  with an error message in err. The errno can be EAGAIN, if the daemon refuses with it. */
static int ask(int fd, const struct proto_join *join, pid_t pid, struct proto_msg *m, char *err, size_t err_len)
{
	int rc = proto_send(fd, PROTO_JOIN, join, sizeof(*join), NULL, 0);

	PMD_POINT(join_asked);
	if (rc == -EAGAIN) {
		ask_failed(rc, &join->gid, pid, err, err_len);
		return NO_MEMORY;
	}
	if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET) /* the daemon may have answered before it closed */
		rc = recv_answer(fd, pid, m);
	if (rc == 1 && m->type == PROTO_WELCOME && m->len == sizeof(struct proto_welcome) && m->n_fds > 0)
		return 0;
	if (rc == 1 && proto_msg_is(m, PROTO_REFUSED, sizeof(struct proto_refused), 0)) {
		const struct proto_refused *refused = m->data;

		if (refused->sentence[0])
			snprintf(err, err_len, "%.*s", (int)sizeof(refused->sentence) - 1, refused->sentence);
		else
			snprintf(err, err_len, "the daemon of the device has refused and does not say why; restart it");
		return refused->error > 0 && refused->error < 4096 ? -refused->error : -EIO;
	}
	if (rc == 0 || rc == -ECONNRESET || rc == -EPIPE)
		return TRY_AGAIN;
	if (rc > 0)
		rc = -EPROTO; /* an unexpected message */
	ask_failed(rc, &join->gid, pid, err, err_len);
	return rc;
}

/** Take over the function number, the sockets and the state in the daemon's welcome message. */
static int accept_welcome(struct pmd_control *c, int fd, struct proto_msg *m, char *err, size_t err_len)
{
	const struct proto_welcome *welcome = m->data;
	int listen_fd = proto_msg_take(m, 0), rc;

	if (welcome->function == 0 || welcome->function > PROTO_FUNCTION_MAX ||
	    !control_device_read(&welcome->device, m, 1, &c->keeper_fd, c->sockets, c->rings)) {
		close(listen_fd);
		snprintf(err, err_len, "the daemon of the device has said something that makes no sense; restart it");
		return -EPROTO;
	}
	c->function = welcome->function;
	c->since_ns = welcome->since_ns;
	c->device = welcome->device;
	c->listen.fd = pmd_fd_high(listen_fd);
	PMD_POINT(join_welcomed);
	/* The daemon has called listen() already. Call it again here, because SO_PEERCRED shows clients the process
	 * that called listen() last: that must be this one. */
	if (listen(c->listen.fd, SOMAXCONN) != 0) {
		rc = -errno;
		snprintf(err, err_len, "cannot listen as a function of the device: %s", strerror(-rc));
		return rc;
	}
	c->daemon.fd = pmd_fd_high(fd);
	PMD_POINT(join_listening);
	return 0;
}

/** Limits how often we ask processes of other users to release the daemon's name. */
struct ways {
	uint64_t until_ns;
	pid_t pid;	/* the process that was asked last */
	unsigned asked; /* how many times in a row */
};

/** Whether we may ask an untrusted process to release the name: only before until_ns, and at most WAYS times in a
 *  row. */
static bool may_ask_way(struct ways *w, pid_t pid)
{
	if (pid != w->pid)
		w->asked = 0;
	w->pid = pid;
	return pmd_now_ns() < w->until_ns && w->asked++ < WAYS;
}

/** Try once to join. @return 0; TRY_AGAIN; NO_MEMORY; -ECONNREFUSED: there is no daemon; or another negative errno,
 *  with an error message in err. */
static int attempt(struct pmd_control *c, struct ways *ways, char *err, size_t err_len)
{
	struct proto_name name;
	struct ucred peer = {0};
	PROTO_MSG(m);
	int fd, rc;

	pmd_name_daemon(&c->join.gid, &name);
	fd = proto_connect(&name);
	if (fd == -EAGAIN || fd == -ECONNRESET)
		return TRY_AGAIN;
	if (fd < 0) {
		snprintf(err, err_len, "no connection to the daemon of the device: %s", strerror(-fd));
		return fd;
	}
	PMD_POINT(join_connected);
	rc = check_daemon(fd, &c->join.gid, &peer, err, err_len);
	if (rc == -EACCES && may_ask_way(ways, peer.pid) && daemon_makes_way(fd))
		rc = TRY_AGAIN;
	if (rc == 0)
		rc = ask(fd, &c->join, peer.pid, &m, err, err_len);
	if (rc == 0)
		rc = accept_welcome(c, fd, &m, err, err_len);
	proto_msg_close(&m);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	c->daemon_uid = peer.uid;
	return 0;
}

/** A daemon did not start: find a more specific errno by binding a socket to the address in this process. @return the
 *  negative errno of the failed bind, or `rc` if the bind succeeded. */
static int spawn_error(const struct pmd_device *device, int rc)
{
	uint32_t scope = device->netdev[0] ? if_nametoindex(device->netdev) : 0;
	char unused[256];
	int fd = pmd_udp_socket_open(&device->gid, scope, false, unused, sizeof(unused));

	if (fd < 0)
		return fd;
	close(fd);
	return rc;
}

/**
 * Join the device, and start its daemon if none runs. A new daemon may need time to take the name: when it replaces one
 * that has died, it first learns from the functions which names the device has. So we keep trying, and after every
 * SPAWN_EVERY refusals start another daemon, which exits at once if not needed. If that daemon finds the device's UDP
 * port in use, an earlier daemon that is still starting probably has the port, and will soon take the name. So we try
 * IN_USE_TRIES more times, and then conclude that the port's owner is no daemon.
 */
static int join(struct pmd_control *c, const struct pmd_device *device, char *err, size_t err_len)
{
	struct ways ways = {.until_ns = pmd_now_ns() + WAYS_NS, .pid = -1};
	unsigned refused = 0, last = TRIES;
	char in_use[SENTENCE] = "";
	int rc = TRY_AGAIN;

	for (unsigned tries = 0; tries < last; tries++) {
		rc = attempt(c, &ways, err, err_len);
		if (rc == -ECONNREFUSED && !in_use[0] && refused++ % SPAWN_EVERY == 0) {
			PMD_POINT(join_no_daemon);
			rc = pmd_spawn_daemon(device, err, err_len);
			if (rc == -EIO)
				rc = spawn_error(device, rc);
			if (rc == 0)
				continue;
			if (rc != -EADDRINUSE)
				return rc;
			snprintf(in_use, sizeof(in_use), "%s", err);
			last = tries + IN_USE_TRIES;
			rc = -ECONNREFUSED;
		}
		if (rc != TRY_AGAIN && rc != NO_MEMORY && rc != -ECONNREFUSED)
			return rc;
		pause_briefly();
	}
	if (rc == NO_MEMORY)
		return -ENOMEM;
	if (in_use[0]) {
		snprintf(err, err_len, "%s", in_use);
		return -EADDRINUSE;
	}
	snprintf(err, err_len, "the daemon of the device is busy or keeps going away; try again");
	return -EBUSY;
}

int pmd_control_join(const struct pmd_device *device, struct pmd_control **out, char *err, size_t err_len)
{
	struct pmd_control *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	*out = NULL;
	if (!c) {
		snprintf(err, err_len, "out of memory");
		return rc;
	}
	c->daemon.fd = c->listen.fd = c->timer.fd = c->keeper_fd = c->records_fd = -1;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		c->sockets[i] = -1;
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		c->rings[i] = -1;
	for (unsigned i = 0; i < CONTROL_VISITORS; i++)
		c->visitors[i].watch.fd = -1;
	c->join.gid = device->gid;
	c->join.follow = device->follow;
	if (strncmp(device->port, PMD_PORT_UPLINK, strlen(PMD_PORT_UPLINK)) == 0)
		snprintf(c->join.uplink, sizeof(c->join.uplink), "%s",
			 strcmp(device->port, PMD_PORT_UPLINK) == 0 ? PROTO_UPLINK_ANY
								    : device->port + strlen(PMD_PORT_UPLINK));
	c->join.vlan = c->join.uplink[0] ? device->vlan : 0;
	if (device->follow != PROTO_FOLLOW_NONE)
		snprintf(c->join.iface, sizeof(c->join.iface), "%s", device->netdev);
	c->epoll_fd = pmd_fd_high(kernel_epoll_create());
	c->timer.fd = pmd_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (c->epoll_fd < 0 || c->timer.fd < 0) {
		rc = -errno;
		snprintf(err, err_len, "no epoll set or timer: %s", strerror(errno));
		goto failed;
	}
	rc = join(c, device, err, err_len);
	if (rc == 0) {
		rc = control_watch_all(c);
		if (rc != 0)
			snprintf(err, err_len, "no room in an epoll set: %s", strerror(-rc));
	}
	if (rc != 0)
		goto failed;
	*out = c;
	return 0;

failed:
	pmd_control_close(c);
	return rc;
}
