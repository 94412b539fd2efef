/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_raw.c - TCP over loopback between two processes, messages of one size, one way. Prints MB/s (10^6 bytes).
 *
 * usage: tcp_raw [BYTES-PER-MESSAGE [TOTAL-MIB]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
	fprintf(stderr, "tcp_raw: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/** The receiving process: take everything, then one byte back. */
static void sink(int listener, char *buf, size_t len, uint64_t total)
{
	int fd = accept(listener, NULL, NULL);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0)
		fail("accept");
	for (uint64_t got = 0; got < total;) {
		ssize_t n = recv(fd, buf, len, 0);

		if (n <= 0)
			fail("recv");
		got += n;
	}
	if (send(fd, "", 1, 0) != 1)
		fail("send");
	exit(0);
}

int main(int argc, char **argv)
{
	size_t len = argc > 1 ? strtoul(argv[1], NULL, 0) : 65536;
	uint64_t total = (argc > 2 ? strtoull(argv[2], NULL, 0) : 1024) << 20;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t at_len = sizeof(at);
	char *buf = malloc(len ? len : 1), done;
	pid_t child;
	double start;

	if (!buf || !len || !total) {
		fprintf(stderr, "usage: tcp_raw [BYTES-PER-MESSAGE [TOTAL-MIB]]\n");
		return 1;
	}
	memset(buf, 1, len);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &at_len))
		fail("listen");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child)
		sink(listener, buf, len, total);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		fail("connect");
	start = now_s();
	for (uint64_t sent = 0; sent < total;) {
		ssize_t n = send(fd, buf, total - sent < len ? total - sent : len, 0);

		if (n <= 0)
			fail("send");
		sent += n;
	}
	if (recv(fd, &done, 1, 0) != 1)
		fail("recv");
	printf("%.1f\n", total / (now_s() - start) / 1e6);
	waitpid(child, NULL, 0);
	return 0;
}
