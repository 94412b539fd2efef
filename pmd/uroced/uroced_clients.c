/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_clients.c - connections of processes that are not functions: processes that want to join, processes that ask
 * who owns an address, and tools.
 *
 * There are at most DAEMON_CLIENTS clients. Each has at most one request in progress: the daemon answers a request
 * before it reads the next one, and a client that waits to join must send nothing more. Unread messages are in the
 * kernel, which charges them to the sender. Clients' messages carry no descriptors: descriptors that arrive anyway are
 * closed with the message.
 *
 * Owns: daemon.clients. When a client joins as a function, its connection is handed over to uroced_join.c (slots_join).
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine.h"
#include "points.h"
#include "uroced.h"

#define SILENT_NS  5000000000u /* a client that has not asked to join is dropped this long after it has connected */
#define CROWD_NS   1000000000u /* the same, while descriptors are short */
#define DEAF_NS	   100000000u  /* no connection is accepted for this time after descriptors ran out */
#define JOINING_NS 3000000000u /* a client that still waits to join is refused this long after it has connected */

void clients_init(struct daemon *d)
{
	for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
		d->clients[i].fd = -1;
}

bool clients_any(const struct daemon *d)
{
	for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
		if (d->clients[i].fd >= 0)
			return true;
	return false;
}

static void client_close(struct client *c)
{
	close(c->fd);
	c->fd = -1;
}

static void client_refuse(struct client *c, int error, const char *sentence)
{
	struct proto_refused refused = {.error = error};

	snprintf(refused.sentence, sizeof(refused.sentence), "%s", sentence);
	proto_send(c->fd, PROTO_REFUSED, &refused, sizeof(refused), NULL, 0);
	client_close(c);
}

/** @return the name of the daemon's user, looked up only once. Messages show other users by number: any process can
 *  provoke a refusal, and a look-up in a user directory can be slow. */
static const char *own_name(void)
{
	static char name[40];
	const struct passwd *pw = name[0] ? NULL : getpwuid(geteuid());

	if (pw)
		snprintf(name, sizeof(name), "%.32s", pw->pw_name);
	else if (!name[0])
		snprintf(name, sizeof(name), "%u", geteuid());
	return name;
}

static void client_refuse_user(struct daemon *d, struct client *c)
{
	char sentence[320], address[PMD_GID_TEXT], place[PROTO_PID_TEXT];
	/* Tell our PID only to clients in our PID namespace; peer.pid is 0 for other clients. */
	pid_t pid = c->peer.pid ? getpid() : 0;

	d->stats.refused_user++;
	snprintf(sentence, sizeof(sentence),
		 "%s is a device of user %s (uroced, %s), which user %u may not use; use another address "
		 "(UROCE_DEVICES), or have it started with: uroced --allow user=%u",
		 pmd_gid_str(&d->key, address, sizeof(address)), own_name(), proto_pid_str(pid, place, sizeof(place)),
		 c->peer.uid, c->peer.uid);
	client_refuse(c, EACCES, sentence);
}

static void client_refuse_version(struct daemon *d, struct client *c)
{
	char sentence[320], address[PMD_GID_TEXT], place[PROTO_PID_TEXT];
	pid_t pid = c->peer.pid ? getpid() : 0;

	snprintf(sentence, sizeof(sentence),
		 "the daemon of %s (uroced, %s) is of uroce " UROCE_VERSION ", and this program of another version of "
		 "uroce; end the programs that use the device, or run: uroce down",
		 pmd_gid_str(&d->key, address, sizeof(address)), proto_pid_str(pid, place, sizeof(place)));
	client_refuse(c, EPROTO, sentence);
}

/** @return a free client entry. If none is free, drops the oldest client. */
static struct client *client_new(struct daemon *d)
{
	struct client *oldest = &d->clients[0];

	for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
		if (d->clients[i].fd < 0)
			return &d->clients[i];
		if (d->clients[i].since_ns < oldest->since_ns)
			oldest = &d->clients[i];
	}
	d->stats.silent_visitors++;
	client_close(oldest);
	return oldest;
}

void clients_accept(struct daemon *d, int name_fd)
{
	int fd = proto_accept(name_fd);
	struct client *c, stranger = {0};

	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
		/* The connection stays in the accept queue: without a pause, epoll_wait would report it again and
		 * again. */
		d->stats.no_descriptors++;
		d->deaf_ns = daemon_now_ns() + DEAF_NS;
		gids_listen(d, false);
	}
	if (fd < 0)
		return;
	PMD_POINT(daemon_accepted);
	/* A client of a user who is not admitted gets no client entry, so that it cannot displace another client. */
	if (!proto_peer_allowed(fd, &d->policy, &stranger.peer)) {
		stranger.fd = fd;
		if (stranger.peer.uid == (uid_t)-1) {
			d->stats.peers_unknown++;
			client_close(&stranger);
		} else if (daemon_makes_way(d)) {
			client_close(&stranger); /* the daemon exits, so that the other user can have the address */
		} else {
			client_refuse_user(d, &stranger);
		}
		return;
	}
	c = client_new(d);
	*c = (struct client){.fd = fd, .since_ns = daemon_now_ns(), .peer = stranger.peer};
	if (daemon_watch(d, fd, EPOLLIN, SOURCE(SOURCE_CLIENT, c - d->clients, 0)) != 0)
		client_close(c);
}

/** Write why the client's address is not in the GID table. @return a negative errno. */
static int client_blame(const struct daemon *d, const struct client *c, char *err, size_t err_len)
{
	if (slots_ready(d))
		return gids_blame(d, &c->join.gid, err, err_len);
	slots_blame(d, err, err_len);
	return -EAGAIN;
}

/** If the device is ready and has the client's address, let the client join. If the address, or a socket, may still
 *  come, let the client wait. If the device will not get the address, close the connection: the client then starts a
 *  daemon of its own. Otherwise, and if this is the `last` try, refuse the client and tell it the reason. */
static void client_join(struct daemon *d, struct client *c, bool last)
{
	char err[256] = "";
	bool found;
	int rc = 0;

	found = slots_ready(d) && gids_find(d, &c->join.gid) >= 0;
	if (!found && pmd_gid_equal(&c->join.gid, &d->key))
		gids_want_key(d);
	if (found)
		rc = slots_join(d, c->fd, &c->peer, &c->join, err, sizeof(err));
	if (found && rc == 0) {
		c->fd = -1; /* the slot owns the connection now */
	} else if (slots_ready(d) && !found && !gids_may_come(d, &c->join.gid)) {
		client_close(c);
	} else if (!last && (!found || rc == -EADDRNOTAVAIL)) {
		/* -EADDRNOTAVAIL: the client's address has left the host, perhaps just now. */
		slots_hurry(d);
		c->joining = true;
	} else {
		if (!found)
			rc = client_blame(d, c, err, sizeof(err));
		d->stats.refused_join++;
		client_refuse(c, -rc, err);
	}
}

void clients_refuse(struct daemon *d, int error, const char *sentence)
{
	for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
		if (d->clients[i].fd < 0 || !d->clients[i].joining)
			continue;
		d->stats.refused_join++;
		client_refuse(&d->clients[i], error, sentence);
	}
}

static bool join_is_valid(const struct proto_join *join)
{
	return pmd_gid_is_unicast(&join->gid) && join->follow <= PROTO_FOLLOW_ALL &&
	       memchr(join->iface, 0, sizeof(join->iface)) && memchr(join->uplink, 0, sizeof(join->uplink)) &&
	       join->vlan <= PMD_VLAN_MAX;
}

static bool client_message(struct daemon *d, struct client *c, struct proto_msg *m)
{
	if (m->type == PROTO_TOOL && m->n_fds == 0)
		return tools_command(d, c->fd, &c->peer, m->data, m->len);
	if (m->type == PROTO_WHOIS && proto_msg_is(m, PROTO_WHOIS, sizeof(struct proto_whois), 0)) {
		const struct proto_whois *whois = m->data;
		struct proto_owner owner = {.policy = d->policy};

		if (gids_find(d, &whois->gid) >= 0)
			owner.key = d->key;
		return proto_send(c->fd, PROTO_OWNER, &owner, sizeof(owner), NULL, 0) == 0;
	}
	if (!proto_msg_is(m, PROTO_JOIN, sizeof(struct proto_join), 0) || !join_is_valid(m->data)) {
		d->stats.bad_messages++;
		return false;
	}
	memcpy(&c->join, m->data, sizeof(c->join));
	if (c->join.follow != PROTO_FOLLOW_NONE)
		gids_follow(d, c->join.iface, c->join.follow);
	client_join(d, c, false);
	return true;
}

void clients_ready(struct daemon *d, unsigned index)
{
	union {
		uint8_t bytes[PROTO_COMMAND_MAX];
		uint64_t align;
	} room;
	struct proto_msg m = {.data = &room, .room = sizeof(room)};
	struct client *c = &d->clients[index];
	int rc = proto_recv(c->fd, &m);

	if (rc == -EAGAIN)
		return;
	/* A client that waits to join must send nothing more: another message ends the connection. */
	if (rc == -EPROTO)
		client_refuse_version(d, c);
	else if (rc != 1 || c->joining || !client_message(d, c, &m))
		client_close(c);
	d->stats.bad_messages += rc < 0;
	proto_msg_close(&m);
}

bool clients_tick(struct daemon *d)
{
	uint64_t now_ns = daemon_now_ns();

	for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
		struct client *c = &d->clients[i];

		if (c->fd < 0)
			continue;
		if (c->joining) {
			client_join(d, c, now_ns - c->since_ns > JOINING_NS);
		} else if (now_ns - c->since_ns > (d->deaf_ns != 0 ? CROWD_NS : SILENT_NS)) {
			d->stats.silent_visitors++;
			client_close(c);
		}
	}
	if (d->deaf_ns != 0 && now_ns >= d->deaf_ns) {
		d->deaf_ns = 0;
		gids_listen(d, true);
	}
	return clients_any(d);
}
