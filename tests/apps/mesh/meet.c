/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.c - how the processes of a mesh find each other: by datagrams to Unix sockets in the abstract namespace, whose
 * names vanish with their owners. Sends never block.
 *
 * A new process announces itself. Of two processes, the one with the higher index asks the other for a connection
 * (calls it), repeatedly until an answer arrives. The one with the lower index announces itself until it is called. A
 * repeated call gets the same answer again.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "mesh.h"

#define AGAIN_NS 20000000u

static socklen_t name(const struct mesh *c, uint32_t index, struct sockaddr_un *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
	       (socklen_t)snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "mesh%s/%u", c->board_path, index);
}

static void tell(const struct mesh *c, uint32_t index, const struct note *note)
{
	struct sockaddr_un sa;
	socklen_t len = name(c, index, &sa);

	/* If the peer does not exist or does not read, the datagram is lost: this process repeats it, or the peer
	 * announces itself later. */
	sendto(c->notes_fd, note, sizeof(*note), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&sa, len);
}

static void say_here(const struct mesh *c, uint32_t index)
{
	struct note here = {.type = NOTE_HERE, .from = c->index, .incarnation = c->incarnation};

	tell(c, index, &here);
}

void meet_open(struct mesh *c)
{
	struct sockaddr_un sa;
	socklen_t len = name(c, c->index, &sa);

	c->notes_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->notes_fd < 0 || bind(c->notes_fd, (struct sockaddr *)&sa, len) != 0)
		die("no name in the mesh: %s", strerror(errno));
	for (uint32_t i = 0; i < c->index; i++)
		say_here(c, i);
}

/** A process has announced itself: a new process with the peer's index, or the same process again. */
static void note_here(struct mesh *c, const struct note *n)
{
	struct talk *t = c->current[n->from];

	if (t && t->peer_incarnation && t->peer_incarnation != n->incarnation)
		talk_end(c, t);
	if (n->from < c->index)
		c->call_ns[n->from] = 0;
}

static void note_call(struct mesh *c, const struct note *n)
{
	struct talk *t = c->current[n->from];
	struct note answer;

	if (n->from <= c->index)
		return;
	if (!t || t->call != n->call || t->peer_incarnation != n->incarnation) {
		if (t)
			talk_end(c, t);
		t = talk_new(c, n->from, n->call);
		talk_connect(c, t, n);
	}
	answer = talk_note(c, t, NOTE_ANSWER);
	tell(c, n->from, &answer);
}

void meet_notes(struct mesh *c)
{
	struct note n;

	while (recv(c->notes_fd, &n, sizeof(n), MSG_DONTWAIT) == sizeof(n)) {
		struct talk *t;

		if (n.from >= c->members || n.from == c->index)
			continue;
		t = c->current[n.from];
		if (n.type == NOTE_HERE)
			note_here(c, &n);
		else if (n.type == NOTE_CALL)
			note_call(c, &n);
		else if (t && t->state == TALK_CALLING && t->call == n.call)
			talk_connect(c, t, &n);
	}
}

uint64_t meet_call(struct mesh *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < c->members; i++) {
		struct talk *t = c->current[i];
		struct note call;

		if (i == c->index || (t && t->state != TALK_CALLING))
			continue;
		if (now >= c->call_ns[i]) {
			c->call_ns[i] = now + AGAIN_NS;
			if (i > c->index) {
				say_here(c, i);
				continue;
			}
			if (!t)
				t = talk_new(c, i, ++c->calls);
			call = talk_note(c, t, NOTE_CALL);
			tell(c, i, &call);
		}
		if (c->call_ns[i] < next)
			next = c->call_ns[i];
	}
	return next;
}
