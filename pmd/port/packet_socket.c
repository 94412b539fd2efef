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
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "eal.h"
#include "nic.h"
#include "packet_socket.h"

#define WHOLE_PACKET 0xffffffff

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

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

static void ignore_foreign(int fd)
{
	const int on = 1;
	/* The offsets include the Ethernet header. IPv4 headers have no options, as RoCEv2 requires. */
	struct sock_filter code[] = {
		/* 0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		/* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 14, 0),
		/* 2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 5, 0),
		/* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 13),
		/* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
		/* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 11),
		/* 6 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 20 + 2),
		/* 7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NIC_UDP_PORT, 8, 9),
		/* 8 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
		/* 9 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 2),
		/* 10 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),
		/* 11 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NIC_UDP_PORT, 4, 5),
		/* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 4),
		/* 13 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 40),
		/* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_SOLICIT, 1, 0),
		/* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_ADVERT, 0, 1),
		/* 16 */ BPF_STMT(BPF_RET | BPF_K, WHOLE_PACKET),
		/* 17 */ BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	/* On kernels without one of these options (the second needs 4.20) the port filters packets itself, at a cost.
	 */
	__real_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
	__real_setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
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
		ignore_foreign(fd);
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

bool pmd_packet_socket_allmulti(int fd, const char *iface)
{
	const struct packet_mreq member = {.mr_ifindex = (int)if_nametoindex(iface), .mr_type = PACKET_MR_ALLMULTI};

	return member.mr_ifindex != 0 &&
	       setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, sizeof(member)) == 0;
}

uint32_t pmd_packet_socket_drops(int fd)
{
	struct tpacket_stats stats = {0};
	socklen_t len = sizeof(stats);

	return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0 ? stats.tp_drops : 0;
}
