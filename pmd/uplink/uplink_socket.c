/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_socket.c - finds the socket inside the driver of a kernel interface, so that the switch can sleep on it.
 *
 * The drivers are shared libraries, so that their calls cannot be diverted as in other processes (packet_socket.c,
 * which has the same interface). But while the port is opened, the daemon has no other thread that opens sockets: what
 * is new in /proc/self/fd is the driver's.
 */
#include <dirent.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "packet_socket.h"
#include "uplink_socket.h"

#define FDS_MAX 1024

#ifndef AF_XDP
#define AF_XDP 44
#endif

static bool seen[FDS_MAX];

static int domain_of(int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 ? domain : -1;
}

/** Note all open descriptors, or find one that has not been noted and is a socket of the family. */
static int scan(int family)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;

	while (dir && (entry = readdir(dir))) {
		int fd = entry->d_name[0] == '.' ? FDS_MAX : atoi(entry->d_name);

		if (fd >= FDS_MAX)
			continue;
		if (family == 0)
			seen[fd] = true;
		else if (!seen[fd] && found < 0 && domain_of(fd) == family)
			found = fd;
	}
	if (dir)
		closedir(dir);
	return found;
}

void pmd_packet_socket_begin(void)
{
	for (unsigned i = 0; i < FDS_MAX; i++)
		seen[i] = false;
	scan(0);
}

int pmd_packet_socket_end(void)
{
	int fd = scan(AF_PACKET);

	if (fd >= 0)
		pmd_packet_socket_filter(fd);
	return fd;
}

int uplink_socket_xdp(void)
{
	return scan(AF_XDP);
}
