/* SPDX-License-Identifier: BSD-3-Clause */
/* namespace.h - a private network namespace for a test process; the namespace ends with the process. */
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

/** Enter a new namespace with loopback up; call before starting threads. @return false: not permitted here */
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

/** Create a veth pair, both ends up. @return false: no `ip` command, or not permitted */
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
