/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.c - sending, receiving and checking the messages of proto.h; socket names, and sockets with such names.
 *
 * Owns nothing. Only proto_recv_wait waits. Callers may hold an engine's lock and must not be cancelled, so messages
 * are sent and received, and connections made and accepted, with syscall(): the C library's functions are cancellation
 * points.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "engine_cm.h"
#include "nic_rdm.h"
#include "proto.h"

/* How many connections may wait for accept at a listening socket. The kernel has its own limit too (somaxconn). */
#define BACKLOG 256

union control {
	char bytes[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* ---- sending -------------------------------------------------------------------------------------------- */

int proto_send(int fd, unsigned type, const void *data, size_t len, const int *fds, unsigned n_fds)
{
	struct proto_header header = {.magic_version = PROTO_MAGIC, .type = (uint16_t)type, .len = (uint16_t)len};
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)(uintptr_t)data, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = len > 0 ? 2 : 1};
	union control control;

	if (len > PROTO_TEXT_MAX || n_fds > PROTO_FDS_MAX)
		return -EMSGSIZE;
	if (n_fds > 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	if (syscall(SYS_sendmsg, fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EINTR || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}

/* ---- receiving ------------------------------------------------------------------------------------------ */

void proto_msg_close(struct proto_msg *m)
{
	for (unsigned i = 0; i < m->n_fds; i++)
		if (m->fds[i] >= 0)
			close(m->fds[i]);
	m->n_fds = 0;
}

int proto_msg_take(struct proto_msg *m, unsigned i)
{
	int fd = m->fds[i];

	m->fds[i] = -1;
	return fd;
}

bool proto_msg_is(struct proto_msg *m, unsigned type, size_t len, unsigned n_fds)
{
	if (m->type == type && m->len == len && m->n_fds == n_fds)
		return true;
	proto_msg_close(m);
	return false;
}

/** Collect the descriptors of a received message, at most PROTO_FDS_MAX: the control buffer has no room for more. */
static void collect_fds(struct msghdr *msg, struct proto_msg *m)
{
	m->n_fds = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes && m->n_fds < PROTO_FDS_MAX; at += sizeof(int))
			memcpy(&m->fds[m->n_fds++], CMSG_DATA(c) + at, sizeof(int));
	}
}

/** Whether the header is of this version, or of a message that has the same form in all versions. */
static bool header_fits(const struct proto_header *header)
{
	return header->magic_version == PROTO_MAGIC || ((header->magic_version | 0xff) == (PROTO_MAGIC | 0xff) &&
							(header->type == PROTO_TOOL || header->type == PROTO_REFUSED));
}

static int receive(int fd, struct proto_msg *m, int flags)
{
	struct proto_header header;
	struct iovec iov[2] = {{&header, sizeof(header)}, {m->data, m->room}};
	union control control;
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	long len = syscall(SYS_recvmsg, fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
	int rc;

	m->n_fds = 0;
	/* If the peer closes without reading all our messages, recvmsg first fails once with ECONNRESET, even if
	 * messages from the peer are queued: retry. */
	if (len < 0 && errno == ECONNRESET)
		len = syscall(SYS_recvmsg, fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
	if (len < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	collect_fds(&msg, m);
	if (len == 0 && m->n_fds == 0) /* the connection has ended: no peer sends an empty packet */
		return 0;
	if (msg.msg_flags & MSG_CTRUNC)
		rc = -EMFILE;
	else if (len < (long)sizeof(header) || !header_fits(&header))
		rc = -EPROTO;
	else if (msg.msg_flags & MSG_TRUNC)
		rc = -EMSGSIZE;
	else if (header.len != (size_t)len - sizeof(header))
		rc = -EBADMSG;
	else
		rc = 1;
	if (rc != 1) {
		proto_msg_close(m);
		return rc;
	}
	m->type = header.type;
	m->len = header.len;
	return 1;
}

int proto_recv(int fd, struct proto_msg *m)
{
	return receive(fd, m, 0);
}

int proto_peek(int fd, struct proto_msg *m)
{
	return receive(fd, m, MSG_PEEK);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int proto_recv_wait(int fd, struct proto_msg *m, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t end = now_ms() + timeout_ms, left;
	int rc;

	while ((rc = proto_recv(fd, m)) == -EAGAIN) {
		left = end - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		poll(&p, 1, (int)left);
	}
	return rc;
}

bool proto_service_may_be(uint32_t service)
{
	uint32_t port = service & 0xffff;

	switch (proto_service_space(service)) {
	case 0:
		return port != 0 && port <= NIC_SERVICE_PORT_MAX;
	case NIC_CM_PS_IPOIB:
	case NIC_CM_PS_TCP:
	case NIC_CM_PS_UDP:
	case NIC_CM_PS_IB:
		return port != 0;
	default:
		return false;
	}
}

/* ---- names ---------------------------------------------------------------------------------------------- */

static void name_set(struct proto_name *out, const char *text)
{
	size_t len = strlen(text);

	memset(out, 0, sizeof(*out));
	out->sa.sun_family = AF_UNIX;
	memcpy(out->sa.sun_path + 1, text, len); /* after a zero byte, which makes the name abstract */
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

void pmd_name_daemon(const struct nic_gid *gid, struct proto_name *out)
{
	char text[PMD_GID_TEXT + 16], address[PMD_GID_TEXT];

	snprintf(text, sizeof(text), "uroce/%s", pmd_gid_str(gid, address, sizeof(address)));
	name_set(out, text);
}

void pmd_name_guard(const struct nic_gid *key, struct proto_name *out)
{
	char text[PMD_GID_TEXT + 16], address[PMD_GID_TEXT];

	snprintf(text, sizeof(text), "uroce/%s/guard", pmd_gid_str(key, address, sizeof(address)));
	name_set(out, text);
}

void pmd_name_function(const struct nic_gid *key, unsigned n, struct proto_name *out)
{
	char text[PMD_GID_TEXT + 16], address[PMD_GID_TEXT];

	snprintf(text, sizeof(text), "uroce/%s/%u", pmd_gid_str(key, address, sizeof(address)), n);
	name_set(out, text);
}

void pmd_name_service(const struct nic_gid *key, uint32_t service, struct proto_name *out)
{
	char text[PMD_GID_TEXT + 32], address[PMD_GID_TEXT];
	uint32_t space = proto_service_space(service), port = service & 0xffff;

	pmd_gid_str(key, address, sizeof(address));
	if (space == 0)
		snprintf(text, sizeof(text), "uroce/%s/service/%u", address, port);
	else
		snprintf(text, sizeof(text), "uroce/%s/port/%x/%u", address, space, port);
	name_set(out, text);
}

static int name_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int proto_listen(const struct proto_name *name)
{
	int fd = name_socket(), rc;

	if (fd < 0)
		return fd;
	if (bind(fd, (const struct sockaddr *)&name->sa, name->len) != 0 || listen(fd, BACKLOG) != 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int proto_connect(const struct proto_name *name)
{
	int fd = name_socket(), rc;

	if (fd < 0)
		return fd;
	if (syscall(SYS_connect, fd, &name->sa, name->len) != 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int proto_accept(int fd)
{
	long peer = syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	return peer < 0 ? -errno : (int)peer;
}
