/* SPDX-License-Identifier: BSD-3-Clause */
/* namespace.h - a network namespace for a test's process: gone with it, and out of everybody's way. */
#ifndef TEST_NAMESPACE_H
#define TEST_NAMESPACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/** Enter a new namespace, loopback up; call it before there are threads. @return false: not permitted here. */
static inline bool namespace_enter(void)
{
	struct ifreq req;
	int fd, rc;

	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	memset(&req, 0, sizeof(req));
	strcpy(req.ifr_name, "lo");
	req.ifr_flags = IFF_UP | IFF_RUNNING;
	rc = ioctl(fd, SIOCSIFFLAGS, &req);
	close(fd);
	return rc == 0;
}

/** Two interfaces joined by a wire, up. @return false: no `ip` here, or not permitted. */
static inline bool namespace_veth(const char *a, const char *b, unsigned mtu)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "PATH=$PATH:/usr/sbin:/sbin; ip link add %s mtu %u type veth peer name %s mtu %u && ip link set %s up "
		 "&& "
		 "ip link set %s up",
		 a, mtu, b, mtu, a, b);
	return system(command) == 0;
}

#endif
