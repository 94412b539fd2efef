/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rest.c - the state of a device that is not open in this process. It comes from the device's daemon
 * (pmd/uroced/uroced.h), which runs while any process has the device open; without a daemon, and for ethdev ports, only
 * the device's configured address is known. Counters are missing, because each process that has the device open keeps
 * its own. Owns nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "facts.h"
#include "proto.h"
#include "sysfs.h"

#define ANSWER_MS  250
#define STATUS_MAX 65536

/** Ask the daemon for its status, and read the answer, as far as STATUS_MAX bytes hold it. @return false: no answer */
static bool status_read(int fd, char *text)
{
	static const char command[] = "status";
	const struct proto_policy nobody = {PROTO_ALLOW_NONE, 0};
	char *chunk = malloc(PROTO_TEXT_MAX);
	struct proto_msg m = {.data = chunk, .room = PROTO_TEXT_MAX};
	size_t len = 0;

	if (chunk && proto_peer_allowed(fd, &nobody, NULL) &&
	    !proto_send(fd, PROTO_TOOL, command, strlen(command), NULL, 0)) {
		while (proto_recv_wait(fd, &m, ANSWER_MS) == 1) {
			proto_msg_close(&m);
			if (m.type != PROTO_TEXT || len + m.len >= STATUS_MAX)
				break;
			memcpy(text + len, chunk, m.len);
			len += m.len;
		}
	}
	free(chunk);
	text[len] = '\0';
	return len > 0;
}

/** Extract the GID table and the port's state from the daemon's answer, which is JSON. */
static void status_take(const char *text, bool whole_table, struct sysfs_live *live)
{
	const char *p = strstr(text, "\"gids\": ["), *end = p ? strchr(p, ']') : NULL;

	if (strstr(text, "\"port\": \"down\"")) {
		live->state = IBV_PORT_DOWN;
		live->phys_state = FACT_PHYS_STATE_DOWN;
	}
	if (!end || !whole_table)
		return;
	memset(live->gids, 0, sizeof(live->gids));
	while ((p = strstr(p, "{\"index\": ")) && p < end) {
		char address[PMD_GID_TEXT];
		unsigned index;

		if (sscanf(p, "{\"index\": %u, \"gid\": \"%47[^\"]\"", &index, address) == 2 &&
		    index < NIC_GID_TABLE_LEN)
			pmd_gid_parse(address, &live->gids[index]);
		p++;
	}
}

void sysfs_rest_read(const struct pmd_device *d, struct sysfs_live *live)
{
	struct proto_name name;
	char *text;
	int fd;

	*live = (struct sysfs_live){.state = FACT_STATE, .phys_state = FACT_PHYS_STATE, .gids = {d->gid}};
	if (strcmp(d->port, "udp") != 0)
		return;
	pmd_name_daemon(&d->gid, &name);
	fd = proto_connect(&name);
	text = fd >= 0 ? malloc(STATUS_MAX) : NULL;
	/* Unless the device follows its interface, its GID table has only the configured address, whatever the
	 * daemon's answer contains. */
	if (text && status_read(fd, text))
		status_take(text, d->follow != PROTO_FOLLOW_NONE, live);
	free(text);
	if (fd >= 0)
		close(fd);
}
