/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oob.c - the TCP side channel of the data verifier: addresses, keys, barriers. Both ends are the same binary, so
 * structures travel as they are.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verify.h"

static void fd_ready(int fd)
{
	struct timeval limit = {.tv_sec = 120};
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

int oob_connect(const char *host, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	uint64_t deadline = now_ms() + 30000;

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
		die("%s is not an IPv4 address", host);
	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0)
			die("socket: %s", strerror(errno));
		if (!connect(fd, (struct sockaddr *)&to, sizeof(to))) {
			fd_ready(fd);
			return fd;
		}
		close(fd);
		if (now_ms() > deadline)
			die("no server at %s port %d: %s", host, port, strerror(errno));
		usleep(50000);
	}
}

int oob_accept(int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;
	struct timeval limit = {.tv_sec = 60};

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		die("cannot listen on TCP port %d: %s", port, strerror(errno));
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("no client came: %s", strerror(errno));
	close(listener);
	fd_ready(fd);
	return fd;
}

void oob_send(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(fd, (const char *)data + done, len - done, MSG_NOSIGNAL);

		if (n <= 0)
			die("the other end is gone (send: %s)", strerror(errno));
		done += n;
	}
}

void oob_recv(int fd, void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(fd, (char *)data + done, len - done, 0);

		if (n <= 0)
			die("the other end is gone (%s)", n ? strerror(errno) : "connection closed");
		done += n;
	}
}

void oob_swap(int fd, const void *mine, void *theirs, size_t len)
{
	oob_send(fd, mine, len);
	oob_recv(fd, theirs, len);
}

int oob_agree(int fd, int status)
{
	uint8_t mine = status, theirs;

	oob_swap(fd, &mine, &theirs, 1);
	return mine > theirs ? mine : theirs;
}
