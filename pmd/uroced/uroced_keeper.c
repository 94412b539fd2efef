/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_keeper.c - fills the keeper (see struct proto_keeper), which preserves the UDP sockets if the daemon is
 * killed, and recovers the sockets from the keeper of a previous daemon.
 *
 * Functions of our own user and of root get the keeper. Functions of other admitted users do not get it: with the
 * sockets in it, they could read other functions' datagrams.
 *
 * Sockets in a keeper are descriptors in flight, which the kernel counts per user: a program cannot pass a descriptor
 * when the user has more in flight than the program's limit on open files. The limit that we were started with
 * is also the limit of the user's other programs. So keepers may use only half of it. We lower our own limit to that
 * half while we send, so that the kernel does the check for us: it counts all keepers of the user and all other
 * descriptors in flight. The kernel does not apply the limit to processes with CAP_SYS_RESOURCE or CAP_SYS_ADMIN. If
 * the sockets do not fit, the keeper stays empty, `uroce status` reports this, and we try again after a delay
 * (AGAIN_NS).
 *
 * Owns: daemon.keeper and its state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "points.h"
#include "udp_socket.h"
#include "uroced.h"

#define KEEPER_BYTES	    (1 << 20) /* requested send buffer; the kernel may grant less */
#define KEEPER_MESSAGES_MAX (NIC_GID_TABLE_LEN * DAEMON_SLOTS)
#define AGAIN_NS	    100000000u /* delay before we try again to fill the keeper; doubles each time */
#define AGAIN_DOUBLES	    6	       /* up to 6.4 s between tries */
#define WHOLE_TRIES	    10	       /* retries while an ending daemon still has sockets open: 0.2 s in all */
#define WHOLE_PAUSE_NS	    20000000

/* ---- filling ------------------------------------------------------------------------------------------------ */

/** Collects sockets into the messages of a keeper. */
struct keeping {
	struct daemon *d;
	int to;
	struct proto_keeper message;
	int fds[PROTO_KEEPER_ENTRIES];
	unsigned n, sent;
	int rc; /* error of the first message that could not be sent */
};

/** @return the limit on open files that we set for ourselves while we send `n` descriptors. The kernel refuses to send
 *  if the user already has more in flight than this limit, so afterwards at most half of files_limit are in flight. */
static rlim_t keeper_limit(const struct daemon *d, unsigned n)
{
	rlim_t half = d->files_limit / 2;

	return half > n ? half - n : 0;
}

static int keeping_send(struct keeping *k)
{
	struct rlimit ours, low;
	int rc;

	if (k->d->files_limit == 0 || getrlimit(RLIMIT_NOFILE, &ours) != 0)
		return proto_send(k->to, PROTO_KEEPER, &k->message, sizeof(k->message), k->fds, k->n);
	low = ours;
	if (low.rlim_cur > keeper_limit(k->d, k->n))
		low.rlim_cur = keeper_limit(k->d, k->n);
	setrlimit(RLIMIT_NOFILE, &low);
	rc = proto_send(k->to, PROTO_KEEPER, &k->message, sizeof(k->message), k->fds, k->n);
	setrlimit(RLIMIT_NOFILE, &ours);
	return rc;
}

static void keeping_flush(struct keeping *k)
{
	if (k->n > 0 && k->rc == 0)
		k->rc = keeping_send(k);
	if (k->rc == 0)
		k->sent += k->n;
	k->n = 0;
}

static void keeping_add(struct keeping *k, const struct entry *e, unsigned index)
{
	if (k->n == PROTO_KEEPER_ENTRIES)
		keeping_flush(k);
	k->message.entries[k->n].gid = e->gid;
	k->message.entries[k->n].index = (uint16_t)index;
	k->message.entries[k->n].entry = (uint16_t)(e - k->d->gids);
	k->fds[k->n++] = e->sockets[index];
}

static unsigned sockets_count(const struct daemon *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		n += d->gids[i].n_sockets;
	return n;
}

static void pair_close(int pair[2])
{
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
	pair[0] = pair[1] = -1;
}

static int pair_open(int pair[2])
{
	int bytes = KEEPER_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
		pair[0] = pair[1] = -1;
		return -errno;
	}
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return 0;
}

/** Make this socket pair, which contains `kept` sockets, the keeper. The next slots_tell sends it to functions. */
static void keeper_set(struct daemon *d, const int pair[2], unsigned kept)
{
	keeper_close(d);
	memcpy(d->keeper, pair, sizeof(d->keeper));
	d->keeper_generation++;
	d->kept = kept;
}

/** The sockets did not fit into the keeper, or could not be sent. Functions get an empty keeper in place of the old
 *  one, whose sockets are then no longer in flight. */
static void keeper_give_up(struct daemon *d, int rc)
{
	int pair[2];

	d->keeper_rc = rc;
	d->stats.keeper_bounded += rc == -ETOOMANYREFS;
	d->stats.keeper_failures += rc != -ETOOMANYREFS;
	if (d->kept > 0 || d->keeper[0] < 0) {
		pair_open(pair);
		keeper_set(d, pair, 0);
	}
	d->keeper_due_ns = daemon_now_ns() + ((uint64_t)AGAIN_NS << d->keeper_tries);
	d->keeper_tries += d->keeper_tries < AGAIN_DOUBLES;
}

void keeper_make(struct daemon *d)
{
	struct keeping k = {.d = d};
	int pair[2];

	if (uplink_is(d))
		return; /* there are no sockets to keep */
	k.rc = pair_open(pair);
	k.to = pair[0];
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		for (unsigned n = 0; n < d->gids[i].n_sockets; n++)
			keeping_add(&k, &d->gids[i], n);
	keeping_flush(&k);
	if (k.rc == 0) {
		keeper_set(d, pair, k.sent);
		d->keeper_due_ns = 0;
		d->keeper_tries = 0;
	} else {
		pair_close(pair);
		keeper_give_up(d, k.rc);
	}
	PMD_POINT(daemon_keeper_made);
}

void keeper_grow(struct daemon *d, const unsigned before[NIC_GID_TABLE_LEN])
{
	struct keeping k = {.d = d, .to = d->keeper[0]};

	if (d->keeper_due_ns != 0)
		return; /* filling the keeper has failed: keeper_tick() will retry, with all sockets */
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		for (unsigned n = before[i]; n < d->gids[i].n_sockets; n++)
			keeping_add(&k, &d->gids[i], n);
	keeping_flush(&k);
	d->kept += k.sent;
	if (k.rc == -ETOOMANYREFS)
		keeper_give_up(d, k.rc);
	else if (k.rc != 0)
		keeper_make(d); /* a new keeper uses as few messages as possible */
}

void keeper_close(struct daemon *d)
{
	pair_close(d->keeper);
}

void keeper_tick(struct daemon *d)
{
	uint32_t before = d->keeper_generation;

	if (d->keeper_due_ns == 0 || daemon_now_ns() < d->keeper_due_ns)
		return;
	keeper_make(d);
	if (d->keeper_generation != before)
		slots_tell(d);
}

void keeper_status(const struct daemon *d, struct keeper_status *out)
{
	*out = (struct keeper_status){.there = d->keeper[0] >= 0, .kept = d->kept};
	if (d->keeper_due_ns == 0)
		return;
	out->missing = sockets_count(d);
	if (d->keeper_rc == -ETOOMANYREFS)
		snprintf(out->problem, sizeof(out->problem),
			 "if uroced is killed, functions will not get over it undisturbed: to keep the device's %u "
			 "sockets for the next daemon would put more than half of the user's limit of open files "
			 "(%llu) into flight; end the programs, raise the limit (ulimit -n) to %u or more and start "
			 "them again",
			 out->missing, (unsigned long long)d->files_limit, 2 * out->missing + 2 * PROTO_KEEPER_ENTRIES);
	else
		snprintf(out->problem, sizeof(out->problem),
			 "if uroced is killed, functions will not get over it undisturbed: the device's %u sockets "
			 "cannot be kept for the next daemon so far: %s",
			 out->missing, strerror(-d->keeper_rc));
}

/* ---- after a restart ------------------------------------------------------------------------------------ */

/** @return the index of the GID table entry for an address found in a keeper. If there is no such entry, it is created:
 *  at its old index if that is free, else at another. -1: the table is full, or the address is no host address. */
static int recover_entry(struct daemon *d, const struct nic_gid *gid, unsigned entry)
{
	int at = gids_find(d, gid);

	if (at >= 0 || !pmd_gid_is_unicast(gid))
		return at;
	return gids_adopt(d, gid, entry);
}

/** Take socket i out of the message if `index` is the next free index of the entry. Otherwise the socket stays in the
 *  message, and is closed with the message. */
static void recover_socket(struct daemon *d, struct entry *e, unsigned index, struct proto_msg *m, unsigned i)
{
	if (index != e->n_sockets || index >= DAEMON_SLOTS)
		return;
	e->sockets[e->n_sockets++] = proto_msg_take(m, i);
	steer_watch_free(d, e, index);
	d->stats.recovered_sockets++;
}

/** Take the sockets of one keeper message. */
static void recover_message(struct daemon *d, struct proto_msg *m)
{
	const struct proto_keeper *message = m->data;

	if (m->type != PROTO_KEEPER || m->len != sizeof(*message) || m->n_fds > PROTO_KEEPER_ENTRIES)
		return;
	for (unsigned i = 0; i < m->n_fds; i++) {
		const struct nic_gid *gid = &message->entries[i].gid;
		int at = pmd_udp_socket_is(m->fds[i], gid) ? recover_entry(d, gid, message->entries[i].entry) : -1;

		if (at >= 0 && pmd_gid_is_link_local(gid))
			d->scope = pmd_udp_socket_scope(m->fds[i]); /* perhaps an older one: gids_sync finds out */
		if (at >= 0)
			recover_socket(d, &d->gids[at], message->entries[i].index, m, i);
	}
}

int keeper_kernel_sockets(const struct nic_gid *gid)
{
	bool v4 = pmd_gid_is_v4(gid);
	unsigned words = v4 ? 1 : 4, len = 0;
	char local[48], *line = NULL;
	uint32_t word;
	size_t size = 0;
	int n = 0;
	FILE *f = fopen(v4 ? "/proc/net/udp" : "/proc/net/udp6", "re");

	if (!f)
		return -1;
	for (unsigned i = 0; i < words; i++) {
		memcpy(&word, gid->raw + 16 - 4 * (words - i), sizeof(word));
		len += (unsigned)snprintf(local + len, sizeof(local) - len, "%08X", word);
	}
	snprintf(local + len, sizeof(local) - len, ":%04X", NIC_UDP_PORT);
	while (getline(&line, &size, f) > 0) {
		const char *at = strchr(line, ':'); /* the end of the line number, which precedes the address */

		n += at && strncmp(at + 1 + strspn(at + 1, " "), local, strlen(local)) == 0;
	}
	free(line);
	fclose(f);
	return n;
}

/** Whether we have all sockets that the kernel steers datagrams to. Link-local addresses are skipped: the kernel lists
 *  them without the interface, so sockets of other interfaces would be counted. */
static bool is_whole(const struct daemon *d)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		bool counts = !pmd_gid_is_none(&d->gids[i].gid) && !pmd_gid_is_link_local(&d->gids[i].gid);
		int n = counts ? keeper_kernel_sockets(&d->gids[i].gid) : -1;

		if (n >= 0 && (unsigned)n != d->gids[i].n_sockets)
			return false;
	}
	return true;
}

/** Take all sockets of a keeper. The number of messages is bounded, because a function can pass any socket as the
 *  keeper, even a socket with an endless sequence of messages. @return the result of proto_peek after the last message;
 *  -EBUSY: another process reads the keeper at the same time, and we have missed messages. */
static int recover_all(struct daemon *d, int keeper)
{
	int start = 0, end = -1, rc = -EAGAIN;
	socklen_t len = sizeof(end);
	unsigned seen = 0;
	PROTO_MSG(m);

	setsockopt(keeper, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start));
	for (unsigned i = 0; i < KEEPER_MESSAGES_MAX && (rc = proto_peek(keeper, &m)) == 1; i++) {
		recover_message(d, &m);
		seen += sizeof(struct proto_header) + m.len;
		proto_msg_close(&m);
	}
	/* rc is 0 if the daemon that filled the keeper has died. */
	if ((rc == -EAGAIN || rc == 0) && getsockopt(keeper, SOL_SOCKET, SO_PEEK_OFF, &end, &len) == 0 &&
	    (unsigned)end != seen)
		return -EBUSY;
	return rc;
}

/** Repeat recover_all() until no socket is missing, or the tries are used up. If sockets are missing, sockets that we
 *  bind would not have the numbers we assume. A retry helps in two cases: a daemon that was just killed may still
 *  hold a socket that is in no keeper, and closes it soon; or another reader may have moved the keeper's peek offset. A
 *  retry does not help if a function was stopped while daemons were replaced: its keeper is old, and lacks the sockets
 *  of functions that joined since. All keepers share the tries, since we serve no client during recovery. */
static int recover_whole(struct daemon *d, int keeper)
{
	const struct timespec pause = {.tv_nsec = WHOLE_PAUSE_NS};
	int rc = recover_all(d, keeper);

	while (rc != -EMFILE && (rc == -EBUSY || sockets_count(d) == 0 || !is_whole(d)) &&
	       d->whole_tries < WHOLE_TRIES) {
		d->whole_tries++;
		nanosleep(&pause, NULL);
		rc = recover_all(d, keeper);
	}
	return rc;
}

int keeper_recover(struct daemon *d, int keeper)
{
	int start = 0, entries = 0, rc;

	if (setsockopt(keeper, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)) != 0)
		return 0; /* not a socket */
	rc = recover_whole(d, keeper);
	PMD_POINT(daemon_recovered);
	if (rc == -EMFILE) {
		/* Out of descriptors. Without all old sockets, new sockets would not have the numbers we assume. If we
		 * sent functions an empty GID table, they would close their sockets. So the daemon exits, and functions
		 * keep their sockets. */
		d->stats.keeper_failures++;
		gids_forget(d);
		d->give_up = true;
		return 0;
	}
	if (rc == -EBUSY || !is_whole(d)) {
		d->stats.keeper_stale++;
		gids_forget(d);
		return 0;
	}
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		if (d->gids[i].n_sockets == 0)
			continue;
		d->stats.unsteered_services += steer_attach(d, &d->gids[i]) != 0;
		entries++;
	}
	keeper_make(d);
	return entries;
}
