/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_raw.c - TCP over loopback between two processes. The bandwidth is compared with that of the kernel UDP port, and
 * shows what a program gets without RDMA.
 *
 * Usage: tcp_raw bw [BYTES [COUNT [CPU CPU]]]     messages one way, COUNT MiB in all; MB/s (10^6 bytes)
 *        tcp_raw rtt [BYTES [COUNT [CPU CPU]]]    median and 99th percentile round trip, spinning; microseconds
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "bench_util.h"

#define BYTES_MAX (64u << 20)

struct bench {
	struct bench_options opt;
	int listener;
	struct sockaddr_in at;
};

static int open_connection(const struct bench *b, int side)
{
	int fd = side == 1 ? accept(b->listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0)
		bench_die("TCP connection");
	if (side == 0 && connect(fd, (const struct sockaddr *)&b->at, sizeof(b->at)) != 0)
		bench_die("connect");
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		bench_die("TCP_NODELAY");
	return fd;
}

static void send_message(int fd, const char *buf, size_t len, int flags)
{
	for (size_t sent = 0; sent < len;) {
		ssize_t n = send(fd, buf + sent, len - sent, flags);

		if (n < 0 && errno != EAGAIN)
			bench_die("send");
		sent += n > 0 ? (size_t)n : 0;
	}
}

static void recv_message(int fd, char *buf, size_t len, int flags)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(fd, buf + got, len - got, flags);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			bench_die("recv");
		got += n > 0 ? (size_t)n : 0;
	}
}

static void pingpong(int fd, char *buf, int side, const struct bench_options *opt)
{
	uint64_t *ns = calloc(opt->count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t i = 0; i < opt->count; i++) {
		uint64_t start = bench_now_ns();

		if (side == 1)
			recv_message(fd, buf, opt->bytes, MSG_DONTWAIT);
		send_message(fd, buf, opt->bytes, MSG_DONTWAIT);
		if (side == 0)
			recv_message(fd, buf, opt->bytes, MSG_DONTWAIT);
		ns[i] = bench_now_ns() - start;
	}
	if (side == 0)
		bench_print_trips(ns, opt->count, 1);
	free(ns);
}

static void stream(int fd, char *buf, int side, const struct bench_options *opt)
{
	uint64_t start = bench_now_ns(), total = opt->count << 20, moved = 0;

	/* The receiver reads whatever bytes have arrived, not whole messages. */
	while (side == 1 && moved < total) {
		ssize_t n = recv(fd, buf, opt->bytes < total - moved ? opt->bytes : total - moved, 0);

		if (n <= 0)
			bench_die("recv");
		moved += (uint64_t)n;
	}
	for (size_t n; moved < total; moved += n) {
		n = opt->bytes < total - moved ? opt->bytes : total - moved;
		send_message(fd, buf, n, 0);
	}
	if (side == 0) {
		recv_message(fd, buf, 1, 0); /* wait for the receiver's answer: all data has arrived */
		printf("%.1f\n", (double)total * 1e3 / (double)(bench_now_ns() - start));
	} else {
		send_message(fd, buf, 1, 0);
	}
}

static int run(int side, int channel, void *ctx)
{
	const struct bench *b = ctx;
	char *buf = malloc(b->opt.bytes);
	int fd;

	if (!buf)
		bench_die("memory");
	memset(buf, 1, b->opt.bytes);
	bench_place(&b->opt, side);
	fd = open_connection(b, side);
	bench_sync(channel);
	if (strcmp(b->opt.test, "rtt") == 0)
		pingpong(fd, buf, side, &b->opt);
	else
		stream(fd, buf, side, &b->opt);
	bench_sync(channel);
	close(fd);
	free(buf);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"bw", "rtt", NULL};
	struct bench b = {.opt = {.bytes = 65536, .count = 1024}};
	socklen_t len = sizeof(b.at);

	bench_options_parse(argc, argv, tests, BYTES_MAX, &b.opt);
	b.at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	b.listener = socket(AF_INET, SOCK_STREAM, 0);
	if (b.listener < 0 || bind(b.listener, (struct sockaddr *)&b.at, sizeof(b.at)) != 0 ||
	    listen(b.listener, 1) != 0 || getsockname(b.listener, (struct sockaddr *)&b.at, &len) != 0)
		bench_die("listen");
	return bench_pair(run, &b);
}
