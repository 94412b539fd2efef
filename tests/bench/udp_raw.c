/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_raw.c - the lower limit for the latency of the kernel UDP port: a UDP ping-pong between two processes that poll
 * unconnected sockets on 127.0.0.1 and 127.0.0.2.
 *
 * Usage: udp_raw rtt [BYTES [COUNT [CPU CPU]]]    median and 99th percentile round trip, microseconds
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "bench_util.h"

#define BYTES_MAX 60000
#define PORT	  4793

static struct sockaddr_in loopback(int side, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)side);
	return sa;
}

static void spin_recv(int fd, char *buf, size_t len)
{
	while (recv(fd, buf, len, MSG_DONTWAIT) < 0)
		if (errno != EAGAIN)
			bench_die("recv");
}

static int udp_pingpong(int side, int channel, void *ctx)
{
	const struct bench_options *opt = ctx;
	size_t n = opt->count;
	struct sockaddr_in self = loopback(side, PORT), peer = loopback(!side, PORT);
	uint64_t *ns = calloc(n, sizeof(*ns));
	static char buf[BYTES_MAX];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (!ns || fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)) != 0)
		bench_die("bind");
	bench_place(opt, side);
	bench_sync(channel);
	for (size_t i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		if (side == 1)
			spin_recv(fd, buf, opt->bytes);
		if (sendto(fd, buf, opt->bytes, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			bench_die("sendto");
		if (side == 0)
			spin_recv(fd, buf, opt->bytes);
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		bench_print_trips(ns, n, 1);
	free(ns);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"rtt", NULL};
	struct bench_options opt = {.bytes = 24, .count = 20000};

	bench_options_parse(argc, argv, tests, BYTES_MAX, &opt);
	return bench_pair(udp_pingpong, &opt);
}
