/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools.c - see tools.h. A connection exists until the tool closes it, sends a malformed message, or does not read its
 * answers (observe.c then shuts the connection down). Owns: the connections.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control.h"
#include "observe.h"
#include "proto.h"
#include "tools.h"

#define TOOLS_MAX      32
#define REQUESTS_BURST 16 /* maximum number of requests of one tool before other tools get their turn */

struct pmd_tool {
	struct pmd_watch watch;
	struct pmd_tool *next;
};

static void tool_end(struct pmd_host *host, struct pmd_tool *t)
{
	struct pmd_tool **at = &host->tools->list;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	host->tools->n--;
	pmd_observe_closed(host, t->watch.fd);
	pmd_control_unwatch(host->control, &t->watch);
	close(t->watch.fd);
	free(t);
}

/** Answer a tool's request, whose text is the message, without a terminating zero. @return false: the message is
 *  malformed. */
static bool tool_request(struct pmd_host *host, int fd, struct proto_msg *m)
{
	char text[PROTO_COMMAND_MAX + 1];

	if (m->type != PROTO_TOOL || m->n_fds > 0 || m->len > PROTO_COMMAND_MAX)
		return false;
	memcpy(text, m->data, m->len);
	text[m->len] = '\0';
	pmd_observe_request(host, fd, text);
	return true;
}

static void tool_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct pmd_tool *t = (struct pmd_tool *)w; /* the watch is its first member */
	uint64_t room[PROTO_COMMAND_MAX / 8];

	(void)events; /* proto_recv reports a hang-up as the end of the connection */
	for (unsigned i = 0; i < REQUESTS_BURST; i++) {
		struct proto_msg m = {.data = room, .room = sizeof(room)};
		int rc = proto_recv(w->fd, &m);

		bool more = rc == 1 && tool_request(host, w->fd, &m);

		proto_msg_close(&m);
		if (!more) {
			if (rc != -EAGAIN)
				tool_end(host, t);
			return;
		}
	}
}

/** Refuse a tool, and tell it why. @param error -EBUSY: TOOLS_MAX tools are connected; another negative errno: we lack
 *  memory, or room in the epoll set. */
static void tool_refuse(struct pmd_host *host, int fd, int32_t error)
{
	const char *sentence = "the process could not watch the connection of another tool; try again";

	if (error == -EBUSY)
		sentence = "as many tools as the function serves are connected to it; end one";
	else if (error == -ENOMEM)
		sentence = "the process has no memory for another tool; try again";
	else if (error == -ENOSPC)
		sentence = "the process's user has as many epoll watches as the system allows; raise "
			   "fs.epoll.max_user_watches";
	pmd_control_count_tool(host->control);
	if (proto_send(fd, PROTO_TEXT, sentence, strlen(sentence), NULL, 0) == 0)
		proto_send(fd, PROTO_END, &error, sizeof(error), NULL, 0);
}

/** Make the connection one of the host's tools. @return NULL: not possible, `error` says why. */
static struct pmd_tool *tool_new(struct pmd_host *host, int fd, int *error)
{
	struct pmd_tool *t;

	*error = -EBUSY;
	if (host->tools->n >= TOOLS_MAX)
		return NULL;
	*error = -ENOMEM;
	t = malloc(sizeof(*t));
	if (!t)
		return NULL;
	t->watch = (struct pmd_watch){.fd = fd, .ready = tool_ready};
	*error = pmd_control_watch(host->control, &t->watch, EPOLLIN);
	if (*error != 0) {
		free(t);
		return NULL;
	}
	t->next = host->tools->list;
	host->tools->list = t;
	host->tools->n++;
	return t;
}

static void tool_visit(struct pmd_host *host, int fd, struct proto_msg *m)
{
	int error;
	struct pmd_tool *t = tool_new(host, fd, &error);

	if (!t) {
		tool_refuse(host, fd, error);
		close(fd);
	} else if (!tool_request(host, fd, m)) {
		tool_end(host, t);
	}
}

void pmd_tools_serve(struct pmd_host *host)
{
	pmd_control_serve(host->control, PROTO_TOOL, tool_visit);
}

void pmd_tools_last_words(struct pmd_host *host)
{
	for (struct pmd_tool *t = host->tools->list; t; t = t->next)
		pmd_observe_last_words(host, t->watch.fd);
}

void pmd_tools_close(struct pmd_host *host)
{
	pmd_tools_last_words(host);
	while (host->tools->list)
		tool_end(host, host->tools->list);
}

void pmd_tools_abandon(struct pmd_host *host)
{
	for (struct pmd_tool *t = host->tools->list; t; t = t->next)
		close(t->watch.fd);
}
