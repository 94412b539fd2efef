/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood.c - a hostile sender: sends packets of one class to a device as fast as it can, for some seconds. Started by
 * root it becomes user nobody (65534) before it opens a socket.
 *
 * usage: flood CLASS FROM TO QPN SECONDS
 *   FROM, TO: IPv4 addresses; TO is the device's. QPN: of a queue pair there.
 * Prints how many packets it has sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nic.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define NOBODY	 65534
#define PACKETS	 4096 /* number of different packets, sent in turn */
#define BATCH	 64
#define CARRIER	 28 /* IPv4 and UDP headers */
#define BTH	 12
#define BODY_MAX 64
#define SEGMENTS 16 /* packets sent as one datagram (UDP_SEGMENT), which the receiver gets as if merged by GRO */

enum opcode {
	RC_SEND_ONLY = 0x04,
	RC_WRITE_ONLY = 0x0a,
	RC_READ_REQUEST = 0x0c,
	RC_ACK = 0x11,
	UD_SEND_ONLY = 0x64,
	CNP = 0x81
};

struct packet {
	uint8_t ip[CARRIER + BTH + BODY_MAX];
	uint32_t len; /* length of the UDP payload */
};

static struct packet packets[PACKETS];
static struct sockaddr_in from, to;
static uint32_t target; /* QPN of the target */

static uint32_t draw(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

/** Build a packet with `body` bytes after the BTH, and a valid ICRC. */
static void build(struct packet *p, uint8_t opcode, uint32_t qpn, uint32_t psn, uint32_t body)
{
	uint8_t *ip = p->ip, *bth = ip + CARRIER;
	uint32_t len = BTH + body + 4;

	p->len = len;
	memset(ip, 0, CARRIER + BTH);
	for (uint32_t i = 0; i < body; i++)
		bth[BTH + i] = (uint8_t)draw();
	ip[0] = 0x45;
	ip[3] = (uint8_t)(CARRIER + len);
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = 17;
	memcpy(ip + 12, &from.sin_addr, 4);
	memcpy(ip + 16, &to.sin_addr, 4);
	memcpy(ip + 20, &from.sin_port, 2);
	memcpy(ip + 22, &to.sin_port, 2);
	ip[25] = (uint8_t)(8 + len);
	bth[0] = opcode;
	bth[2] = bth[3] = 0xff;
	bth[5] = (uint8_t)(qpn >> 16);
	bth[6] = (uint8_t)(qpn >> 8);
	bth[7] = (uint8_t)qpn;
	bth[8] = 0x80;
	bth[9] = (uint8_t)(psn >> 16);
	bth[10] = (uint8_t)(psn >> 8);
	bth[11] = (uint8_t)psn;
	if (opcode == RC_ACK) {
		static const uint8_t syndromes[] = {0x1f, 0x20, 0x60, 0x61, 0x62, 0x63};

		bth[BTH] = syndromes[draw() % sizeof(syndromes)];
	}
	nic_frame_icrc_set(ip, CARRIER + len);
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static uint32_t any_service(void)
{
	return 0xff0000 | (1 + draw() % 65534);
}

static void service_opcodes(struct packet *p)
{
	static const uint8_t opcodes[] = {RC_SEND_ONLY, RC_WRITE_ONLY, RC_ACK};
	uint8_t opcode = opcodes[draw() % 3];

	build(p, opcode, any_service(), draw(), opcode == RC_WRITE_ONLY ? 24 : opcode == RC_ACK ? 4 : 16);
}

static void service_sends(struct packet *p)
{
	build(p, UD_SEND_ONLY, any_service(), draw(), 8 + 16);
}

static void functions(struct packet *p)
{
	build(p, RC_SEND_ONLY, ((1 + draw() % 254) << 16) | (draw() & 0xffff), draw(), 16);
}

static void unknown(struct packet *p)
{
	uint32_t low = draw() & 0xffff;

	build(p, RC_SEND_ONLY, (target & 0xff0000) | (low == (target & 0xffff) ? low ^ 1 : low), draw(), 16);
}

static void icrc(struct packet *p)
{
	build(p, RC_SEND_ONLY, target, draw(), 16);
	p->ip[CARRIER + p->len - 1] ^= 0x55;
}

static void truncated(struct packet *p)
{
	build(p, RC_SEND_ONLY, target, draw(), 16);
	p->len = 6 + draw() % 10;
}

static void noise(struct packet *p)
{
	p->len = 6 + draw() % BODY_MAX;
	for (uint32_t i = 0; i < p->len; i++)
		p->ip[CARRIER + i] = (uint8_t)draw();
	/* With another QPN the kernel would steer the packet to another process. */
	p->ip[CARRIER + 5] = (uint8_t)(target >> 16);
}

static void empty(struct packet *p)
{
	p->len = 0;
}

static void known(struct packet *p)
{
	static const uint8_t opcodes[] = {RC_SEND_ONLY, RC_WRITE_ONLY, RC_READ_REQUEST, RC_ACK};
	uint8_t opcode = opcodes[draw() % 4];

	build(p, opcode, target, draw(), opcode == RC_ACK ? 4 : opcode == RC_READ_REQUEST ? 16 : 24);
}

static void cnp(struct packet *p)
{
	build(p, CNP, target, draw(), 16);
}

/** SEGMENTS packets in a row travel as one large datagram. The first packet names the target's function (process), so
 * the kernel steers the datagram there. The other packets name random functions. */
static void merged(struct packet *p)
{
	uint32_t function = (p - packets) % SEGMENTS == 0 ? target >> 16 : 1 + draw() % 8;

	build(p, RC_SEND_ONLY, function << 16 | (draw() & 0xffff), draw(), 16);
}

static const struct {
	const char *name;
	void (*make)(struct packet *p);
	unsigned segments;
} classes[] = {
	{"service_opcodes", service_opcodes, 1},
	{"service_sends", service_sends, 1},
	{"functions", functions, 1},
	{"unknown", unknown, 1},
	{"icrc", icrc, 1},
	{"truncated", truncated, 1},
	{"noise", noise, 1},
	{"empty", empty, 1},
	{"known", known, 1},
	{"cnp", cnp, 1},
	{"merged", merged, SEGMENTS},
};

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int socket_open(void)
{
	socklen_t len = sizeof(from);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&from, len) != 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &len) != 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		die("socket");
	return fd;
}

/** Send packets for `seconds` seconds. @return the number of packets sent. */
static unsigned long send_all(int fd, unsigned segments, double seconds)
{
	static struct iovec iov[PACKETS];
	static struct mmsghdr msgs[PACKETS];
	unsigned datagrams = PACKETS / segments;
	unsigned long sent = 0;
	struct timespec now, end;

	for (unsigned i = 0; i < PACKETS; i++)
		iov[i] = (struct iovec){packets[i].ip + CARRIER, packets[i].len};
	for (unsigned i = 0; i < datagrams; i++)
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = iov + (size_t)i * segments, .msg_iovlen = segments};
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)seconds;
	do {
		for (unsigned at = 0; at < datagrams; at += BATCH) {
			int n = sendmmsg(fd, msgs + at, datagrams - at < BATCH ? datagrams - at : BATCH, 0);

			if (n > 0)
				sent += (unsigned long)n * segments;
			else if (errno != ENOBUFS && errno != EAGAIN && errno != ECONNREFUSED && errno != EPERM)
				die("sendmmsg");
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	return sent;
}

int main(int argc, char **argv)
{
	unsigned class = 0;
	int fd;

	if (argc != 6)
		return 2;
	while (class < sizeof(classes) / sizeof(classes[0]) && strcmp(classes[class].name, argv[1]) != 0)
		class ++;
	from.sin_family = to.sin_family = AF_INET;
	to.sin_port = htons(NIC_UDP_PORT);
	if (class == sizeof(classes) / sizeof(classes[0]) || inet_pton(AF_INET, argv[2], &from.sin_addr) != 1 ||
	    inet_pton(AF_INET, argv[3], &to.sin_addr) != 1)
		return 2;
	target = (uint32_t)strtoul(argv[4], NULL, 0);
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		die("setuid");
	fd = socket_open();
	for (unsigned i = 0; i < PACKETS; i++)
		classes[class].make(&packets[i]);
	if (classes[class].segments > 1) {
		int size = (int)packets[0].len;

		if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) != 0)
			die("UDP_SEGMENT");
	}
	printf("%lu\n", send_all(fd, classes[class].segments, strtod(argv[5], NULL)));
	return 0;
}
