/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet_socket.c - adapts the packet socket of DPDK's net_af_packet to a port that sleeps, and that is not the only
 * user of its interface.
 *
 * The PMD exposes no descriptor, has no receive interrupts, and receives every frame of the interface, although few of
 * them are RoCE. Its calls of socket, setsockopt and mmap are redirected to this file (--wrap, see meson.build). While
 * a port opens its device, this file changes the calls of the opening thread as follows:
 *   - the packet socket gets a filter for the port's traffic (UDP to port 4791, ARP, neighbour discovery), so that
 *     other traffic neither fills the ring nor wakes a thread; and the socket receives nothing before it is bound to
 *     the interface;
 *   - the socket does not receive what this host sends on the interface. This loses no packets of other uroce devices
 *     on the interface: the PMD's packets bypass the kernel's queues, where packets are looped back;
 *   - the socket joins no fanout group. A single queue needs none, and the group, which the PMD names after process and
 *     interface, would distribute packets among all devices of the process on that interface;
 *   - the descriptor is recorded, to sleep on, and to close in a forked child;
 *   - a forked child does not inherit the mappings of the ring: a mapping keeps a socket open, like a
 *     descriptor.
 *
 * Owns nothing: the sockets are the PMD's.
 */
#include <linux/if_packet.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "eal.h"
#include "packet_socket.h"

static _Thread_local struct {
	bool on;
	int fd;
} watch = {.fd = -1};

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset);

void pmd_packet_socket_begin(void)
{
	watch.on = true;
	watch.fd = -1;
}

int pmd_packet_socket_end(void)
{
	watch.on = false;
	return watch.fd;
}

int __wrap_socket(int domain, int type, int protocol)
{
	int fd;

	if (!watch.on || domain != AF_PACKET)
		return __real_socket(domain, type, protocol);
	/* Protocol 0, so that the socket receives nothing before bind() sets protocol and interface. With a protocol it
	 * would receive from all interfaces until then. */
	fd = pmd_fd_high(__real_socket(domain, type | SOCK_CLOEXEC, 0));
	if (fd >= 0)
		pmd_packet_socket_filter(fd);
	return fd;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (level == SOL_PACKET && watch.on) {
		if (name == PACKET_FANOUT)
			return 0;
		if (name == PACKET_RX_RING && watch.fd < 0)
			watch.fd = fd;
	}
	return __real_setsockopt(fd, level, name, value, len);
}

void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
	void *map = __real_mmap64(addr, len, prot, flags, fd, offset);

	if (watch.on && fd >= 0 && map != MAP_FAILED)
		madvise(map, len, MADV_DONTFORK);
	return map;
}
