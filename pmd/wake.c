/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wake.c - sleeping on a port whose PMD shows no descriptor.
 *
 * DPDK's net_af_packet keeps its packet socket to itself, and has no receive interrupts. A second packet socket
 * on the same interface, with a filter for what the port cares about (UDP to port 4791, ARP, ICMPv6) and the smallest
 * buffer, is only there to become readable. Opened before the PMD's: the kernel serves the last opened first, so that
 * a packet lies in the PMD's ring before this one wakes anybody.
 */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "eal.h"
#include "nic.h"
#include "wake.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

int pmd_wake_open(const char *iface)
{
	/* Offsets from the Ethernet header. IPv4 without options, as RoCEv2 demands. */
	struct sock_filter code[] = {
		/* 0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		/* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 9, 0),
		/* 2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 5, 0),
		/* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
		/* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
		/* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
		/* 6 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 20 + 2),
		/* 7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NIC_UDP_PORT, 3, 4),
		/* 8 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
		/* 9 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 1, 0),
		/* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 1),
		/* 11 */ BPF_STMT(BPF_RET | BPF_K, 1),
		/* 12 */ BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd, on = 1, room = 1;

	where.sll_ifindex = (int)if_nametoindex(iface);
	if (where.sll_ifindex == 0)
		return -1;
	fd = pmd_fd_high(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
	    bind(fd, (struct sockaddr *)&where, sizeof(where)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void pmd_wake_drain(int fd)
{
	char byte;

	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
}
