/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_whois.c - tells visitors whether an address belongs to our function's device. A new daemon asks this
 * question, to find out whether the address for which it was started belongs to a device that has functions but no
 * daemon. If so, the new daemon becomes the daemon of that device.
 *
 * A function may know only some of the device's addresses, but the messages in the keeper list all of them. We only
 * peek at these messages, so they stay queued.
 */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "control_priv.h"

#define KEEPER_MESSAGES_MAX (NIC_GID_TABLE_LEN * (PROTO_FUNCTION_MAX + 1))

static bool keeper_has(int keeper, const struct nic_gid *gid)
{
	struct {
		struct proto_header header;
		struct proto_keeper keeper;
	} message;
	int start = 0;

	if (setsockopt(keeper, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)) != 0)
		return false;
	for (unsigned i = 0; i < KEEPER_MESSAGES_MAX; i++) {
		/* Without a control buffer, the kernel installs none of the message's descriptors in this process. Do
		 * not call recv(), which is a cancellation point. */
		if (syscall(SYS_recvfrom, keeper, &message, sizeof(message), MSG_PEEK | MSG_DONTWAIT, NULL, NULL) !=
		    (long)sizeof(message))
			return false;
		for (unsigned k = 0; k < PROTO_KEEPER_ENTRIES; k++)
			if (pmd_gid_equal(&message.keeper.entries[k].gid, gid))
				return true;
	}
	return false;
}

static bool device_has(const struct pmd_control *c, const struct nic_gid *gid)
{
	if (!pmd_gid_is_unicast(gid))
		return false;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (pmd_gid_equal(&c->device.gids[i], gid))
			return true;
	return c->keeper_fd >= 0 && keeper_has(c->keeper_fd, gid);
}

void control_visit_whois(struct pmd_host *host, int fd, struct proto_msg *m)
{
	struct pmd_control *c = host->control;
	struct proto_owner owner = {.policy = c->device.policy};

	if (proto_msg_is(m, PROTO_WHOIS, sizeof(struct proto_whois), 0)) {
		if (device_has(c, &((const struct proto_whois *)m->data)->gid))
			owner.key = c->device.key;
		proto_send(fd, PROTO_OWNER, &owner, sizeof(owner), NULL, 0); /* fails if the visitor has left */
	} else {
		c->stats.visitors_unknown++;
	}
	close(fd);
}
