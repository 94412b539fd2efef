/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_raw.c - the limit that the kernel UDP port is held against: a raw spinning UDP ping-pong between two processes on
 * 127.0.0.1 and 127.0.0.2, unconnected sockets. Prints the median round trip in microseconds.
 *
 * Usage: udp_raw [BYTES [ITERATIONS]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "bench_util.h"

#define SIZE_MAX_BYTES 60000
#define PORT	       4793

struct options {
	size_t size, iterations;
};

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
	const struct options *opt = ctx;
	size_t n = opt->iterations;
	struct sockaddr_in self = loopback(side, PORT), peer = loopback(!side, PORT);
	uint64_t *ns = calloc(n, sizeof(*ns));
	static char buf[SIZE_MAX_BYTES];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (!ns || fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)) != 0)
		bench_die("bind");
	bench_sync(channel);
	for (size_t i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		if (side == 1)
			spin_recv(fd, buf, opt->size);
		if (sendto(fd, buf, opt->size, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			bench_die("sendto");
		if (side == 0)
			spin_recv(fd, buf, opt->size);
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		printf("%.2f\n", bench_median_us(ns, n));
	free(ns);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct options opt = {24, 20000};

	if (argc > 1)
		opt.size = strtoul(argv[1], NULL, 0);
	if (argc > 2)
		opt.iterations = strtoul(argv[2], NULL, 0);
	if (argc > 3 || opt.size == 0 || opt.size > SIZE_MAX_BYTES || opt.iterations == 0) {
		fprintf(stderr, "usage: %s [BYTES [ITERATIONS]]\n", argv[0]);
		return 2;
	}
	return bench_pair(udp_pingpong, &opt);
}
