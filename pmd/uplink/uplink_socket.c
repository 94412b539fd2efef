/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_socket.c - finds the socket inside the driver of a kernel interface, so that the switch can sleep on it, and
 * removes sockets that killed daemons have left.
 *
 * The drivers are shared libraries, so that their calls cannot be diverted as in other processes (packet_socket.c,
 * which has the same interface). But while the port is opened, the daemon has no other thread that opens sockets: what
 * is new in /proc/self/fd is the driver's.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "packet_socket.h"
#include "uplink_socket.h"

#define FDS_MAX 1024

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
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

		if (fd >= FDS_MAX || fd == dirfd(dir))
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

uint64_t uplink_socket_ring_full(int fd)
{
	struct xdp_statistics stats = {0};
	socklen_t len = sizeof(stats);

	/* A kernel before 5.9 has no such field: there these frames are among those that the driver tells of. */
	return getsockopt(fd, SOL_XDP, XDP_STATISTICS, &stats, &len) == 0 && len == sizeof(stats) ? stats.rx_ring_full
												  : 0;
}

/** Copy the value of an argument. @return whether it is there */
static bool argument(const char *args, const char *name, char *out, size_t len)
{
	for (const char *at = strchr(args, ','); at; at = strchr(at + 1, ',')) {
		size_t name_len = strlen(name);

		if (strncmp(at + 1, name, name_len) != 0 || at[1 + name_len] != '=')
			continue;
		at += 2 + name_len;
		snprintf(out, len, "%.*s", (int)strcspn(at, ","), at);
		return true;
	}
	return false;
}

static bool is_memif(const char *args)
{
	return strncmp(args, "net_memif", 9) == 0;
}

/** Whether the device is the server of a memif. */
static bool is_memif_server(const char *args)
{
	char value[16];

	return is_memif(args) && argument(args, "role", value, sizeof(value)) &&
	       (strcmp(value, "server") == 0 || strcmp(value, "master") == 0);
}

bool uplink_socket_connects(const char *args)
{
	return is_memif(args) && !is_memif_server(args);
}

/** The file of the socket on which the device will listen. @return false: there is none */
static bool listens_at(const char *args, char *out, size_t len)
{
	char value[16];

	if (is_memif(args))
		return is_memif_server(args) && argument(args, "socket-abstract", value, sizeof(value)) &&
		       strcmp(value, "no") == 0 && argument(args, "socket", out, len);
	return (strncmp(args, "net_virtio_user", 15) == 0 || strncmp(args, "virtio_user", 11) == 0) &&
	       argument(args, "server", value, sizeof(value)) && strcmp(value, "1") == 0 &&
	       argument(args, "path", out, len);
}

void uplink_socket_unlink(const char *args)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	/* virtio-user's and memif's sockets are streams and sequences of packets */
	const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
	struct stat found;
	bool refused = true;

	if (!listens_at(args, name.sun_path, sizeof(name.sun_path)) || stat(name.sun_path, &found) != 0 ||
	    !S_ISSOCK(found.st_mode))
		return;
	for (unsigned i = 0; i < 2; i++) {
		int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		/* EPROTOTYPE: somebody listens, with a socket of the other type */
		if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0 || errno != ECONNREFUSED)
			refused = false;
		if (fd >= 0)
			close(fd);
	}
	if (refused)
		unlink(name.sun_path);
}
