/* SPDX-License-Identifier: BSD-3-Clause */
/* packet_socket_options.c - what a port sets and reads on the packet socket of DPDK's net_af_packet. Owns nothing. */
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nic.h"
#include "packet_socket.h"

#define WHOLE_PACKET 0xffffffff

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

void pmd_packet_socket_filter(int fd)
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
	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
}

uint32_t pmd_packet_socket_framesz(const char *args)
{
	const char *framesz = strstr(args, "framesz=");
	unsigned long bytes = framesz ? strtoul(framesz + strlen("framesz="), NULL, 10) : 0;

	if (!framesz)
		return 0;
	return bytes > PMD_PACKET_SOCKET_HEADER ? (uint32_t)(bytes - PMD_PACKET_SOCKET_HEADER) : 1;
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
