/* SPDX-License-Identifier: BSD-3-Clause */
/* proto_peer.c - the identity of a connection's peer, and whether the peer is admitted. Owns nothing. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto.h"

#define GROUPS_MAX 256

#define UNKNOWN_USER 65534 /* overflow uid: stands for every user that our user namespace does not map */

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

int proto_peer(int fd, struct ucred *out)
{
	socklen_t len = sizeof(*out);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &len) == 0 ? 0 : -errno;
}

const char *proto_pid_str(pid_t pid, char *out, size_t len)
{
	if (pid != 0)
		snprintf(out, len, "pid %d", (int)pid);
	else
		snprintf(out, len, "in another container");
	return out;
}

bool proto_peer_is_self(int fd)
{
	struct ucred peer;

	return proto_peer(fd, &peer) == 0 && peer.pid != 0 && peer.uid == geteuid() && peer.uid != UNKNOWN_USER;
}

enum proto_holder proto_holder(const struct proto_name *name, const struct nic_gid *key, const struct ucred *who)
{
	const struct proto_whois whois = {.gid = *key};
	struct ucred holder;
	int fd = proto_connect(name), rc;

	if (fd < 0)
		return fd == -ECONNREFUSED ? PROTO_HOLDER_NONE : PROTO_HOLDER_UNKNOWN;
	rc = proto_peer(fd, &holder);
	proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0); /* the listener expects a message */
	close(fd);
	if (rc != 0)
		return PROTO_HOLDER_UNKNOWN;
	if (holder.pid != who->pid || (holder.pid == 0 && holder.uid != who->uid))
		return PROTO_HOLDER_OTHER;
	return holder.pid != 0 ? PROTO_HOLDER_IT : PROTO_HOLDER_UNSEEN;
}

static bool peer_in_group(int fd, gid_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0)
		return false;
	for (unsigned i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

bool proto_peer_allowed(int fd, const struct proto_policy *policy, struct ucred *out)
{
	struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	bool known = proto_peer(fd, &peer) == 0;

	if (out)
		*out = peer;
	if (!known)
		return false;
	if (peer.uid == geteuid() || peer.uid == 0)
		return true;
	switch (policy->allow) {
	case PROTO_ALLOW_USER:
		return peer.uid == policy->id;
	case PROTO_ALLOW_GROUP:
		return peer.gid == policy->id || peer_in_group(fd, policy->id);
	case PROTO_ALLOW_ALL:
		return true;
	default:
		return false;
	}
}

/** Parse a numeric ID, or look up the name of a user (if `user`) or of a group. @return false: there is no such
 *  name. */
static bool id_parse(const char *text, bool user, uint32_t *id)
{
	char *end;
	unsigned long number;

	if (!text[0])
		return false;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (!*end && errno == 0 && number < UINT32_MAX && text[0] >= '0' && text[0] <= '9') {
		*id = (uint32_t)number;
		return true;
	}
	if (user) {
		const struct passwd *pw = getpwnam(text);

		*id = pw ? pw->pw_uid : 0;
		return pw;
	}
	const struct group *gr = getgrnam(text);

	*id = gr ? gr->gr_gid : 0;
	return gr;
}

int proto_policy_parse(const char *text, struct proto_policy *out, char *err, size_t err_len)
{
	*out = (struct proto_policy){0};
	if (!text || !text[0])
		return 0;
	if (strcmp(text, "all") == 0) {
		out->allow = PROTO_ALLOW_ALL;
		return 0;
	}
	if (strncmp(text, "user=", 5) == 0 && id_parse(text + 5, true, &out->id)) {
		out->allow = PROTO_ALLOW_USER;
		return 0;
	}
	if (strncmp(text, "group=", 6) == 0 && id_parse(text + 6, false, &out->id)) {
		out->allow = PROTO_ALLOW_GROUP;
		return 0;
	}
	snprintf(err, err_len, "'%.64s' names nobody; use user=NAME, group=NAME (names or numbers) or all", text);
	return -EINVAL;
}
