/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_find.c - finds the device that an address already belongs to, when no daemon listens under the address's name.
 *
 * A device is identified by its first address, the key, but a program can open the device by any of its addresses.
 * While the device's daemon runs, it listens under the names of all addresses. After the daemon has died, the live
 * functions still listen under names that contain the key. These names are listed in /proc/net/unix, and the functions
 * know the addresses of their device.
 *
 * The search runs before the daemon serves any client, and waits for answers only for a bounded time. Owns nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "uroced.h"

#define ANSWER_MS     300
#define PATIENCE_NS   1500000000u /* time limit for all questions together: stopped functions do not answer */
#define LISTED_FIRST  256	  /* initial size of the list of names; doubled as needed */
#define PREFIX	      "@uroce/"
#define LISTENS_FIELD " 00010000 " /* flags of a listening socket in /proc/net/unix */

/** A name under which a daemon (n = 0) or function n listens. */
struct listed {
	struct nic_gid gid;
	unsigned n;
};

static bool line_parse(char *line, struct listed *out)
{
	char *name = strstr(line, PREFIX), *slash, *end;

	if (!name || !strstr(line, LISTENS_FIELD))
		return false;
	name += strlen(PREFIX);
	name[strcspn(name, "\n")] = '\0';
	slash = strchr(name, '/');
	out->n = 0;
	if (slash) {
		*slash = '\0';
		out->n = (unsigned)strtoul(slash + 1, &end, 10);
		if (end == slash + 1 || *end || out->n == 0 || out->n > PROTO_FUNCTION_MAX)
			return false;
	}
	return pmd_gid_parse(name, &out->gid);
}

/** Connect to a listed daemon or function. @return the socket; -1: the connection failed, or the policy does not admit
 *  the user of that process. */
static int listed_connect(const struct daemon *d, const struct listed *at)
{
	struct proto_name name;
	int fd;

	if (at->n == 0)
		pmd_name_daemon(&at->gid, &name);
	else
		pmd_name_function(&at->gid, at->n, &name);
	fd = proto_connect(&name);
	if (fd >= 0 && !proto_peer_allowed(fd, &d->policy, NULL)) {
		close(fd);
		return -1;
	}
	return fd < 0 ? -1 : fd;
}

/** List all names of daemons and functions in the network namespace. Any process can listen under such a name. @return
 *  the number of names in *out, which the caller frees. */
static unsigned names_list(struct listed **out)
{
	FILE *f = fopen("/proc/net/unix", "re");
	struct listed *more;
	unsigned n = 0, room = 0;
	char *line = NULL;
	size_t size = 0;

	*out = NULL;
	if (!f)
		return 0;
	while (getline(&line, &size, f) > 0) {
		if (n == room) {
			room = room ? 2 * room : LISTED_FIRST;
			more = realloc(*out, room * sizeof(*more));
			if (!more)
				break;
			*out = more;
		}
		n += line_parse(line, &(*out)[n]);
	}
	free(line);
	fclose(f);
	return n;
}

/** Whether the device has a daemon. Ignores a process if the policy does not admit its user. */
static bool has_daemon(const struct daemon *d, const struct listed *listed, unsigned n, const struct nic_gid *key)
{
	for (unsigned i = 0; i < n; i++) {
		int fd;

		if (listed[i].n != 0 || !pmd_gid_equal(&listed[i].gid, key))
			continue;
		fd = listed_connect(d, &listed[i]);
		if (fd >= 0)
			close(fd);
		return fd >= 0;
	}
	return false;
}

enum answer { ANSWER_NONE, ANSWER_NO, ANSWER_YES };

/** Ask a function whether its device has the address. */
static enum answer ask(const struct daemon *d, const struct listed *function, const struct nic_gid *gid)
{
	const struct proto_whois whois = {.gid = *gid};
	int fd = listed_connect(d, function);
	enum answer answer = ANSWER_NONE;
	PROTO_MSG(m);

	if (fd < 0)
		return ANSWER_NONE;
	if (proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0) == 0 &&
	    proto_recv_wait(fd, &m, ANSWER_MS) == 1 && proto_msg_is(&m, PROTO_OWNER, sizeof(struct proto_owner), 0))
		answer = pmd_gid_equal(&((const struct proto_owner *)m.data)->key, &function->gid) ? ANSWER_YES
												   : ANSWER_NO;
	close(fd);
	return answer;
}

/** Whether a function's device has any of the addresses. If one of the addresses is the key in the function's name, we
 *  need not ask the function, which may be stopped: it suffices that we can connect to it. */
static enum answer ask_any(const struct daemon *d, const struct listed *function, const struct nic_gid *gids,
			   unsigned n_gids)
{
	enum answer answer = ANSWER_NO;

	for (unsigned i = 0; i < n_gids; i++) {
		int fd = pmd_gid_equal(&gids[i], &function->gid) ? listed_connect(d, function) : -1;

		if (fd >= 0) {
			close(fd);
			return ANSWER_YES;
		}
	}
	for (unsigned i = 0; i < n_gids && answer == ANSWER_NO; i++)
		answer = ask(d, function, &gids[i]);
	return answer;
}

bool find_device(const struct daemon *d, const struct nic_gid *gids, unsigned n_gids, bool with_daemons,
		 struct nic_gid *key)
{
	uint64_t end_ns = daemon_now_ns() + PATIENCE_NS;
	struct listed *listed;
	unsigned n = names_list(&listed);
	bool found = false;

	for (unsigned i = 0; i < n && !found && daemon_now_ns() < end_ns; i++) {
		enum answer answer;

		/* Skip daemons, and functions whose key is gids[0]: the caller finds these by name. */
		if (listed[i].n == 0 || pmd_gid_equal(&listed[i].gid, &gids[0]) ||
		    (!with_daemons && has_daemon(d, listed, n, &listed[i].gid)))
			continue;
		answer = ask_any(d, &listed[i], gids, n_gids);
		found = answer == ANSWER_YES;
		if (found)
			*key = listed[i].gid;
	}
	free(listed);
	return found;
}
