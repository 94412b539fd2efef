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

/** Refuse a tool: TOOLS_MAX tools are connected, or memory or room in the epoll set is lacking. The tool is told the
 *  first reason in either case. */
static void tool_refuse(struct pmd_host *host, int fd)
{
	static const char sentence[] = "as many tools as the function serves are connected to it; end one";
	const int32_t status = -EBUSY;

	pmd_control_count_tool(host->control);
	if (proto_send(fd, PROTO_TEXT, sentence, strlen(sentence), NULL, 0) == 0)
		proto_send(fd, PROTO_END, &status, sizeof(status), NULL, 0);
}

static void tool_visit(struct pmd_host *host, int fd, struct proto_msg *m)
{
	struct pmd_tool *t = host->tools->n < TOOLS_MAX ? malloc(sizeof(*t)) : NULL;

	if (!t)
		goto no_tool;
	t->watch = (struct pmd_watch){.fd = fd, .ready = tool_ready};
	if (pmd_control_watch(host->control, &t->watch, EPOLLIN) != 0)
		goto no_watch;
	t->next = host->tools->list;
	host->tools->list = t;
	host->tools->n++;
	if (!tool_request(host, fd, m))
		tool_end(host, t);
	return;

no_watch:
	free(t);
no_tool:
	tool_refuse(host, fd);
	close(fd);
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
