/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_slots.c - the functions of the device: sends them the device's state, handles their end, and adopts the
 * previous daemon's functions. New functions join in uroced_join.c.
 *
 * A function has ended when neither its connection is open nor a process listens under its name. A function that has
 * lost only the connection (for example, because it had no room for the descriptors that we sent) is adopted again,
 * like a function of a previous daemon; until then it keeps its number and sockets.
 *
 * Messages carry state, not changes: the daemon sends the whole GID table, with those sockets that the function does
 * not have yet. A function that reads late gets the latest state. A function reports the set of service ports that it
 * serves, always the whole set, and passes us its file of connection records (PROTO_RECORDS).
 *
 * Owns: daemon.slots.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "nic_rdm.h"
#include "points.h"
#include "uroced.h"
#include "uroced_slots.h"

#define STAYED_NS     10000000000u /* after this time an adoption counts as a success */
#define LOOK_NS	      20000000	   /* delay before we try again to adopt a function; doubles each time */
#define LOOK_DOUBLES  8		   /* up to 5 s between tries */
#define HURRY_NS      200000000	   /* longest delay between tries while a client waits */
#define UNASKED_NS    20000000000u /* time after which slots_any_unasked() ignores a process */
#define UNTOLD_NS     20000000000u /* time that functions have after our start to tell us their services */
#define TELL_AGAIN_NS 100000000u

void slot_command(struct slot *s)
{
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)s->peer.pid);
	s->command[0] = '\0';
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(s->command, sizeof(s->command), f))
		s->command[0] = '\0';
	s->command[strcspn(s->command, "\n")] = '\0';
	fclose(f);
}

/* ---- what functions are told ---------------------------------------------------------------------------- */

/** @return the index in the device's GID table of entry i in the function's GID table; -1: that entry is empty. */
static int slot_entry(const struct daemon *d, const struct slot *s, unsigned i)
{
	if (s->join.follow == PROTO_FOLLOW_NONE)
		return i == 0 ? gids_find(d, &s->join.gid) : -1;
	return pmd_gid_is_none(&d->gids[i].gid) ? -1 : (int)i;
}

/** Whether we send the keeper to the function, and trust a keeper that the function sends to us. A process that has all
 *  sockets can read other functions' datagrams, so functions of other users do not get the keeper. */
static bool slot_is_trusted(const struct slot *s)
{
	return s->peer.uid == geteuid() || s->peer.uid == 0;
}

unsigned slot_describe(struct daemon *d, unsigned n, struct proto_device *out, int *fds)
{
	const struct slot *s = &d->slots[n];
	unsigned n_fds = 0;

	*out = (struct proto_device){.key = d->key, .policy = d->policy, .port_up = d->port_up, .scope = d->scope};
	if (d->keeper[1] >= 0 && slot_is_trusted(s) && s->keeper_sent != d->keeper_generation) {
		out->keeper = 1;
		fds[n_fds++] = d->keeper[1];
	}
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		int at = slot_entry(d, s, i);

		if (at < 0)
			continue;
		out->gids[i] = d->gids[at].gid;
		if (s->gids_sent[i] != d->gids[at].generation && n < d->gids[at].n_sockets) {
			out->sockets |= (uint16_t)(1 << i);
			fds[n_fds++] = d->gids[at].sockets[n];
		}
	}
	return n_fds + uplink_describe(d, n, out, fds + n_fds);
}

void slot_has(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];

	s->keeper_sent = d->keeper_generation;
	uplink_sent(d, n);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		int at = slot_entry(d, s, i);

		s->gids_sent[i] = at < 0 || n >= d->gids[at].n_sockets ? 0 : d->gids[at].generation;
	}
}

/** Check the slot again after `delay_ns`. */
static void slot_put_off(struct daemon *d, struct slot *s, uint64_t delay_ns)
{
	s->due_ns = daemon_now_ns() + delay_ns;
	if (d->slots_due_ns == 0 || s->due_ns < d->slots_due_ns)
		d->slots_due_ns = s->due_ns;
}

/** Free function number n. */
static void slot_free(struct daemon *d, unsigned n)
{
	d->stats.leaves += d->slots[n].again;
	services_said(d, n, NULL, 0);
	cm_ended(d, n);
	uplink_detach(d, n);
	d->slots[n] = (struct slot){.state = SLOT_FREE, .fd = -1, .released_ns = daemon_now_ns()};
	PMD_POINT(daemon_slot_ended);
	steer_own(d, n, false);
}

/** The process that listens under the function's name was not adopted (perhaps it is not one of our functions): check
 *  again later, after a delay that doubles each time. */
static void slot_leave_alone(struct daemon *d, struct slot *s)
{
	if (s->misses == 0)
		s->foreign_ns = daemon_now_ns();
	s->state = SLOT_FOREIGN;
	s->fd = -1;
	slot_put_off(d, s, (uint64_t)LOOK_NS << (s->misses < LOOK_DOUBLES ? s->misses : LOOK_DOUBLES));
	s->misses++;
}

/** Offer to adopt the process that listens under function n's name. Takes ownership of `fd`, the connection to that
 *  process. */
static void slot_ask(struct daemon *d, unsigned n, int fd)
{
	struct slot *s = &d->slots[n];
	const struct proto_adopt adopt = {.key = d->key};

	s->strange = !proto_peer_allowed(fd, &d->policy, &s->peer) && s->peer.uid != (uid_t)-1;
	if (s->strange || s->peer.uid == (uid_t)-1) {
		d->stats.refused_user += s->misses == 0;
		goto not_ours;
	}
	if (proto_send(fd, PROTO_ADOPT, &adopt, sizeof(adopt), NULL, 0) != 0 ||
	    daemon_watch(d, fd, EPOLLIN, SOURCE(SOURCE_FUNCTION, n, 0)) != 0)
		goto not_ours;
	s->state = SLOT_ADOPTING;
	s->fd = fd;
	slot_command(s);
	if (s->again)
		d->live++;
	else
		d->adopting++;
	PMD_POINT(daemon_adopt_asked);
	return;

not_ours:
	close(fd);
	slot_leave_alone(d, s);
}

/** Function n is not connected: check whether a process listens under its name, and if so, offer to adopt that
 *  process. */
static void slot_look(struct daemon *d, unsigned n)
{
	struct proto_name name;
	int fd;

	pmd_name_function(&d->key, n, &name);
	fd = proto_connect(&name);
	if (fd >= 0)
		slot_ask(d, n, fd);
	else if (fd == -ECONNREFUSED)
		slot_free(d, n);
	else /* the backlog of the process that listens is full, or we have no free descriptor */
		slot_leave_alone(d, &d->slots[n]);
}

/** The connection to function n has ended. The process may still run. */
static void slot_end(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	uint64_t now_ns = daemon_now_ns();
	bool was_live = s->state == SLOT_LIVE;

	close(s->fd);
	s->fd = -1;
	s->late = false;
	s->released_ns = now_ns;
	if (was_live || s->again)
		d->live--;
	else
		d->adopting--;
	s->again |= was_live;
	if (was_live && now_ns - s->joined_ns >= STAYED_NS)
		s->misses = 0;
	if (was_live && s->misses == 0) {
		s->state = SLOT_FOREIGN;
		s->foreign_ns = now_ns;
		s->misses++;
		slot_look(d, n);
	} else {
		slot_leave_alone(d, s);
	}
	if (d->live == 0)
		d->idle_since_ns = now_ns;
	if (d->adopting == 0)
		d->retry_ns = now_ns; /* do now what was postponed while adoptions were pending */
}

static void slot_tell(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	struct proto_device device;
	int fds[PROTO_FDS_MAX];
	unsigned n_fds = slot_describe(d, n, &device, fds);
	int rc = proto_send(s->fd, PROTO_DEVICE, &device, sizeof(device), fds, n_fds);

	if (rc == 0)
		slot_has(d, n);
	/* Retry later in three cases. The user has too many descriptors in flight, and no event reports when that is
	 * over. The function has probably ended: we first read its last messages, and then see the end of the
	 * connection. Or there was no memory or no descriptor for its rings to the uplink. */
	if (rc == -ETOOMANYREFS || rc == -EPIPE || rc == -ECONNRESET || (rc == 0 && uplink_is(d) && !s->rings_sent)) {
		slot_put_off(d, s, TELL_AGAIN_NS);
	} else if (rc != 0 && rc != -EAGAIN) {
		slot_end(d, n);
		return;
	}
	d->stats.in_flight += rc == -ETOOMANYREFS;
	d->stats.late_updates += rc != 0 && !s->late && s->due_ns == 0;
	if (s->late != (rc == -EAGAIN)) {
		s->late = rc == -EAGAIN;
		daemon_rewatch(d, s->fd, s->late ? EPOLLIN | EPOLLOUT : EPOLLIN, SOURCE(SOURCE_FUNCTION, n, 0));
	}
}

void slots_tell(struct daemon *d)
{
	if (!d->sockets_known)
		return; /* the GID table is incomplete, and functions would close sockets of missing addresses */
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].state == SLOT_LIVE) {
			slot_tell(d, n);
			PMD_POINT(daemon_told);
		}
}

/* ---- adoption ------------------------------------------------------------------------------------------- */

void slots_probe(struct daemon *d)
{
	struct proto_name name;

	d->probed_ns = daemon_now_ns();
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		int fd;

		pmd_name_function(&d->key, n, &name);
		fd = proto_connect(&name);
		if (fd >= 0)
			slot_ask(d, n, fd);
		else if (fd != -ECONNREFUSED) /* the backlog is full, or we have no free descriptor */
			slot_leave_alone(d, &d->slots[n]);
	}
}

void slots_tick(struct daemon *d)
{
	uint64_t now_ns = daemon_now_ns();

	if (d->slots_due_ns == 0 || now_ns < d->slots_due_ns)
		return;
	d->slots_due_ns = 0;
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		struct slot *s = &d->slots[n];

		if (s->due_ns > now_ns) {
			slot_put_off(d, s, s->due_ns - now_ns);
		} else if (s->due_ns != 0) {
			s->due_ns = 0;
			if (s->state == SLOT_LIVE)
				slot_tell(d, n);
			else if (s->state == SLOT_FOREIGN)
				slot_look(d, n);
		}
	}
}

void slots_hurry(struct daemon *d)
{
	uint64_t now_ns = daemon_now_ns();

	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].state == SLOT_FOREIGN && d->slots[n].due_ns > now_ns + HURRY_NS)
			slot_put_off(d, &d->slots[n], HURRY_NS);
}

bool slots_ready(const struct daemon *d)
{
	return d->adopting == 0 || d->sockets_known;
}

unsigned slots_with(const struct daemon *d, const struct nic_gid *gid)
{
	unsigned count = 0;

	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		count += s->state == SLOT_LIVE &&
			 (s->join.follow != PROTO_FOLLOW_NONE || pmd_gid_equal(&s->join.gid, gid));
	}
	return count;
}

bool slots_any_foreign(const struct daemon *d)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].state == SLOT_FOREIGN)
			return true;
	return false;
}

/** Record why a function lacks sockets, if it does and nothing else fails. */
static void why_set(struct daemon *d, int rc, const char err[sizeof(d->why)])
{
	if (rc == 0 || d->why_rc != 0)
		return;
	memcpy(d->why, err, sizeof(d->why));
	d->why_rc = rc;
}

bool slots_grow(struct daemon *d, bool *grown)
{
	char err[256];
	bool all = true;

	*grown = false;
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		for (unsigned i = 0; s->state == SLOT_LIVE && i < NIC_GID_TABLE_LEN; i++) {
			int at = slot_entry(d, s, i), rc = 0;

			if (at >= 0 && n >= d->gids[at].n_sockets)
				rc = steer_grow(d, n, err, sizeof(err));
			why_set(d, rc, err);
			all &= rc == 0;
			*grown |= at >= 0 && n < d->gids[at].n_sockets && s->gids_sent[i] != d->gids[at].generation;
		}
	}
	return all;
}

bool slots_any_unasked(const struct daemon *d)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		if (s->state == SLOT_FOREIGN && !s->strange && daemon_now_ns() - s->foreign_ns < UNASKED_NS)
			return true;
	}
	return false;
}

bool slots_services_known(const struct daemon *d)
{
	if (daemon_now_ns() - d->probed_ns > UNTOLD_NS)
		return true;
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].untold || (d->slots[n].state == SLOT_ADOPTING && !d->slots[n].again))
			return false;
	return !slots_any_unasked(d);
}

void slots_blame(const struct daemon *d, char *out, size_t len)
{
	char address[PMD_GID_TEXT], place[PROTO_PID_TEXT];

	snprintf(out, len, "the device has just been closed; try again");
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		if (s->state != SLOT_ADOPTING || s->again)
			continue;
		snprintf(
			out, len,
			"a process (%s%s%s) holds the sockets of %s and does not answer; if it is stopped continue it, "
			"else end it",
			proto_pid_str(s->peer.pid, place, sizeof(place)), s->command[0] ? ", " : "", s->command,
			pmd_gid_str(&d->key, address, sizeof(address)));
		return;
	}
}

static bool adopted_is_valid(unsigned n, struct proto_msg *m)
{
	const struct proto_adopted *a = m->data;

	return m->type == PROTO_ADOPTED && m->len == sizeof(*a) && a->function == n && a->keeper <= 1 &&
	       m->n_fds == a->keeper && pmd_gid_is_unicast(&a->join.gid) && a->join.follow <= PROTO_FOLLOW_ALL &&
	       memchr(a->join.iface, 0, sizeof(a->join.iface)) && memchr(a->join.uplink, 0, sizeof(a->join.uplink));
}

/** The function has answered PROTO_ADOPT. The device gets the function's own address and, if the function follows an
 *  interface, follows the interface, too. */
static void slot_adopted(struct daemon *d, unsigned n, struct proto_msg *m)
{
	const struct proto_adopted *a = m->data;
	struct slot *s = &d->slots[n];
	char err[256];

	s->join = a->join;
	s->since_ns = a->since_ns;
	memset(s->gids_sent, 0, sizeof(s->gids_sent));
	s->keeper_sent = 0;
	s->rings_sent = false;
	if (!s->again) {
		d->adopting--;
		d->live++;
		d->stats.adopted++;
	}
	s->untold |= !s->again;
	d->stats.came_back += s->again;
	s->again = false;
	slot_live(d, n);
	PMD_POINT(daemon_adopted);
	if (s->join.follow != PROTO_FOLLOW_NONE)
		gids_follow(d, s->join.iface, s->join.follow);
	gids_fix(d, &s->join.gid);
	if (a->keeper && !d->sockets_known && slot_is_trusted(s)) {
		PMD_POINT(daemon_keeper_come);
		d->keeper_come = true;
		d->sockets_known = keeper_recover(d, m->fds[0]) > 0;
	}
	why_set(d, steer_grow(d, n, err, sizeof(err)), err);
	d->retry_ns = daemon_now_ns();
	/* This sends the function all its sockets. The function closes the duplicates of sockets that it has
	 * already. */
	if (d->sockets_known)
		slots_tell(d);
}

static bool services_are_valid(const struct proto_msg *m)
{
	const uint32_t *services = m->data;
	unsigned n = m->len / sizeof(services[0]);

	if (m->type != PROTO_SERVICES || m->n_fds > 0 || m->len % sizeof(services[0]) != 0 || n > PROTO_SERVICES_MAX)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!proto_service_may_be(services[i]))
			return false;
	return true;
}

/** Handle a message of function n. The caller closes the message. @return false: the message is unexpected or
 *  malformed. */
static bool slot_message(struct daemon *d, unsigned n, struct proto_msg *m)
{
	if (d->slots[n].state == SLOT_ADOPTING && adopted_is_valid(n, m)) {
		slot_adopted(d, n, m);
		return true;
	}
	if (d->slots[n].state == SLOT_LIVE && services_are_valid(m)) {
		PMD_POINT(daemon_services_come);
		services_said(d, n, m->data, m->len / sizeof(uint32_t));
		return true;
	}
	return d->slots[n].state == SLOT_LIVE && cm_records(d, n, m);
}

void slots_ready_event(struct daemon *d, unsigned n, uint32_t events)
{
	struct slot *s = &d->slots[n];
	PROTO_MSG(m);
	int rc;

	if (s->state != SLOT_LIVE && s->state != SLOT_ADOPTING)
		return;
	if ((events & EPOLLOUT) && s->late)
		slot_tell(d, n);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || s->fd < 0)
		return;
	rc = proto_recv(s->fd, &m);
	if (rc == -EAGAIN)
		return;
	if (rc != 1 || !slot_message(d, n, &m)) {
		d->stats.bad_messages += rc != 0 && rc != -ECONNRESET;
		slot_end(d, n);
	}
	proto_msg_close(&m);
}
