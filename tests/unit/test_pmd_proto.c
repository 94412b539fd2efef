/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_proto.c - the messages between the processes of a device (pmd/proto*.c): a receiver gets a well-formed
 * message or nothing. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "proto.h"

static int pair[2]; /* the test writes raw bytes to [0]; [1] receives */

static int pair_open(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int pair_close(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/** @return the lowest free descriptor: if it is unchanged, none has leaked. */
static int lowest_fd(void)
{
	int fd = dup(2);

	close(fd);
	return fd;
}

static void send_raw(uint32_t magic_version, uint16_t type, uint16_t len, size_t really)
{
	uint8_t bytes[8 + PROTO_STRUCT_MAX + 1] = {0}; /* the longest that a test sends */
	const struct proto_header header = {magic_version, type, len};

	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(send(pair[0], bytes, really, 0), really);
}

static void proto__a_message_arrives_whole(void **state)
{
	struct proto_whois out = {.gid = {{1, 2, 3}}};
	PROTO_MSG(m);

	(void)state;
	assert_int_equal(proto_recv(pair[1], &m), -EAGAIN);
	assert_int_equal(proto_send(pair[0], PROTO_WHOIS, &out, sizeof(out), NULL, 0), 0);
	assert_int_equal(proto_recv(pair[1], &m), 1);
	assert_true(proto_msg_is(&m, PROTO_WHOIS, sizeof(out), 0));
	assert_memory_equal(m.data, &out, sizeof(out));
	close(pair[0]);
	assert_int_equal(proto_recv(pair[1], &m), 0);
	pair[0] = dup(2);
}

static void proto__lengths_and_versions_are_checked(void **state)
{
	PROTO_MSG(m);

	(void)state;
	send_raw(PROTO_MAGIC, PROTO_JOIN, 0, 4); /* shorter than a header */
	assert_int_equal(proto_recv(pair[1], &m), -EPROTO);
	send_raw(PROTO_MAGIC + 1, PROTO_JOIN, 0, 8);
	assert_int_equal(proto_recv(pair[1], &m), -EPROTO);
	send_raw(PROTO_MAGIC + 1, PROTO_TOOL, 0, 8); /* what tools say has the same form in all versions */
	assert_int_equal(proto_recv(pair[1], &m), 1);
	send_raw(PROTO_MAGIC + 1, PROTO_REFUSED, 0, 8); /* and the reason of a refusal */
	assert_int_equal(proto_recv(pair[1], &m), 1);
	send_raw(PROTO_MAGIC + 0x100, PROTO_TOOL, 0, 8);
	assert_int_equal(proto_recv(pair[1], &m), -EPROTO);
	send_raw(PROTO_MAGIC, PROTO_JOIN, 8, 12); /* the header announces more bytes than follow */
	assert_int_equal(proto_recv(pair[1], &m), -EBADMSG);
	send_raw(PROTO_MAGIC, PROTO_JOIN, 2, 12); /* the header announces fewer bytes than follow */
	assert_int_equal(proto_recv(pair[1], &m), -EBADMSG);
	send_raw(PROTO_MAGIC, PROTO_JOIN, PROTO_STRUCT_MAX + 1, 8 + PROTO_STRUCT_MAX + 1);
	assert_int_equal(proto_recv(pair[1], &m), -EMSGSIZE);
	send_raw(PROTO_MAGIC, PROTO_JOIN, 4, 12);
	assert_int_equal(proto_recv(pair[1], &m), 1);
	assert_false(proto_msg_is(&m, PROTO_JOIN, sizeof(struct proto_join), 0));
	assert_int_equal(proto_send(pair[0], PROTO_TEXT, "", PROTO_TEXT_MAX + 1, NULL, 0), -EMSGSIZE);
}

static void proto__garbage_is_never_a_message(void **state)
{
	uint8_t bytes[600];
	unsigned seed = 1;
	PROTO_MSG(m);

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		size_t len = 1 + (size_t)(rand_r(&seed) % (int)sizeof(bytes));

		for (size_t at = 0; at < len; at++)
			bytes[at] = (uint8_t)rand_r(&seed);
		assert_int_equal(send(pair[0], bytes, len, 0), len);
		assert_true(proto_recv(pair[1], &m) < 0);
		assert_int_equal(m.n_fds, 0);
	}
}

static void proto__descriptors_are_close_on_exec_and_unexpected_ones_are_closed(void **state)
{
	uint8_t too_long[PROTO_STRUCT_MAX + 4] = {0};
	int free_fd = lowest_fd(), fds[2] = {pair[0], pair[1]};
	PROTO_MSG(m);

	(void)state;
	assert_int_equal(proto_send(pair[0], PROTO_ADOPT, NULL, 0, fds, 2), 0);
	assert_int_equal(proto_recv(pair[1], &m), 1);
	assert_int_equal(m.n_fds, 2);
	assert_true(fcntl(m.fds[1], F_GETFD) & FD_CLOEXEC);
	assert_int_not_equal(lowest_fd(), free_fd);
	assert_false(proto_msg_is(&m, PROTO_ADOPT, 0, 1));
	assert_int_equal(lowest_fd(), free_fd);

	/* Descriptors that arrive with a refused message are closed. */
	assert_int_equal(proto_send(pair[0], PROTO_ADOPT, too_long, sizeof(too_long), fds, 2), 0);
	assert_int_equal(proto_recv(pair[1], &m), -EMSGSIZE);
	assert_int_equal(lowest_fd(), free_fd);

	assert_int_equal(proto_send(pair[0], PROTO_ADOPT, NULL, 0, fds, 2), 0);
	assert_int_equal(proto_recv(pair[1], &m), 1);
	close(proto_msg_take(&m, 0));
	proto_msg_close(&m);
	assert_int_equal(lowest_fd(), free_fd);
}

static void proto__too_many_descriptors_are_refused_and_closed(void **state)
{
	int fds[PROTO_FDS_MAX + 8];
	union {
		uint8_t bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr header;
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct proto_header header = {PROTO_MAGIC, PROTO_ADOPT, 0};
	struct iovec iov = {&header, sizeof(header)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int free_fd = lowest_fd();
	PROTO_MSG(m);

	(void)state;
	for (unsigned i = 0; i < PROTO_FDS_MAX + 8; i++)
		fds[i] = 2;
	memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
	assert_true(sendmsg(pair[0], &msg, 0) > 0);
	assert_int_equal(proto_recv(pair[1], &m), -EMFILE);
	assert_int_equal(lowest_fd(), free_fd);
}

static void proto__receiving_without_free_descriptors_returns_emfile(void **state)
{
	int fds[4] = {2, 2, 2, 2}, free_fd = lowest_fd();
	struct rlimit old, low;
	PROTO_MSG(m);
	int rc;

	(void)state;
	assert_int_equal(proto_send(pair[0], PROTO_ADOPT, NULL, 0, fds, 4), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)free_fd + 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	rc = proto_recv(pair[1], &m);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(rc, -EMFILE);
	assert_int_equal(lowest_fd(), free_fd);
}

static void proto__sending_to_a_full_queue_returns_eagain_without_blocking(void **state)
{
	uint8_t chunk[PROTO_TEXT_MAX] = {0};
	int rc;

	(void)state;
	do
		rc = proto_send(pair[0], PROTO_TEXT, chunk, sizeof(chunk), NULL, 0);
	while (rc == 0);
	assert_int_equal(rc, -EAGAIN);
	close(pair[1]);
	rc = proto_send(pair[0], PROTO_TEXT, chunk, 1, NULL, 0);
	assert_true(rc == -EPIPE || rc == -ECONNRESET);
	pair[1] = dup(2);
}

static void proto__a_message_arrives_from_a_peer_that_closed_with_unread_input(void **state)
{
	PROTO_MSG(m);

	(void)state;
	assert_int_equal(proto_send(pair[1], PROTO_JOIN, NULL, 0, NULL, 0), 0);
	assert_int_equal(proto_send(pair[0], PROTO_REFUSED, "why", 3, NULL, 0), 0);
	close(pair[0]);
	assert_int_equal(proto_recv(pair[1], &m), 1);
	assert_true(m.type == PROTO_REFUSED && m.len == 3);
	assert_int_equal(proto_recv(pair[1], &m), 0);
	pair[0] = dup(2);
}

static void proto__recv_wait_ends_by_timeout_or_message(void **state)
{
	PROTO_MSG(m);

	(void)state;
	assert_int_equal(proto_recv_wait(pair[1], &m, 1), -ETIMEDOUT);
	assert_int_equal(proto_send(pair[0], PROTO_END, NULL, 0, NULL, 0), 0);
	assert_int_equal(proto_recv_wait(pair[1], &m, 60000), 1);
}

static void name__device_socket_names_are_text_and_exclusive(void **state)
{
	static const char expected[] = "\0uroce/127.11.200.1/7";
	struct proto_name name;
	struct nic_gid gid;
	int a, visitor, accepted;

	(void)state;
	assert_true(pmd_gid_parse("127.11.200.1", &gid));
	pmd_name_function(&gid, 7, &name);
	assert_int_equal(name.len, offsetof(struct sockaddr_un, sun_path) + sizeof(expected) - 1);
	assert_memory_equal(name.sa.sun_path, expected, sizeof(expected) - 1);
	pmd_name_daemon(&gid, &name);
	assert_int_equal(proto_connect(&name), -ECONNREFUSED);
	a = proto_listen(&name);
	assert_true(a >= 0);
	assert_int_equal(proto_listen(&name), -EADDRINUSE);
	assert_int_equal(proto_accept(a), -EAGAIN);
	visitor = proto_connect(&name);
	accepted = proto_accept(a);
	assert_true(visitor >= 0 && accepted >= 0);
	close(visitor);
	close(accepted);
	close(a);
	assert_int_equal(proto_connect(&name), -ECONNREFUSED);
}

/* ---- access control ------------------------------------------------------------------------------------- */

/** Whether `policy` lets a process of user 12345 and group 23456 connect to our listener. */
static int foreigner_allowed(const struct proto_policy *policy)
{
	struct proto_name name;
	struct nic_gid gid;
	int listener, status;
	pid_t child;

	assert_true(pmd_gid_parse("127.11.200.2", &gid));
	pmd_name_daemon(&gid, &name);
	listener = proto_listen(&name);
	assert_true(listener >= 0);
	child = fork();
	if (child == 0) {
		int fd;

		if (setgid(23456) != 0 || setuid(12345) != 0)
			_exit(2);
		/* The listener belongs to root, whom the foreigner always accepts. */
		fd = proto_connect(&name);
		_exit(fd >= 0 && proto_peer_allowed(fd, &(struct proto_policy){0}, NULL) ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);

	int fd = proto_accept(listener);
	struct ucred who;
	bool allowed = proto_peer_allowed(fd, policy, &who);

	assert_true(who.uid == 12345 && who.gid == 23456 && who.pid == child);
	close(fd);
	close(listener);
	return allowed;
}

static void peer__a_policy_allows_only_the_users_or_groups_it_names(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("needs root, to be somebody else\n");
		skip();
	}
	assert_false(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_NONE, 0}));
	assert_false(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_NONE, 12345}));
	assert_true(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_USER, 12345}));
	assert_false(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_USER, 23456}));
	assert_true(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_GROUP, 23456}));
	assert_false(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_GROUP, 12345}));
	assert_true(foreigner_allowed(&(struct proto_policy){PROTO_ALLOW_ALL, 0}));
	assert_false(foreigner_allowed(&(struct proto_policy){77, 12345}));
}

static void policy__valid_texts_are_parsed_and_invalid_ones_refused(void **state)
{
	struct proto_policy p;
	char err[128] = "";

	(void)state;
	assert_int_equal(proto_policy_parse(NULL, &p, err, sizeof(err)), 0);
	assert_int_equal(p.allow, PROTO_ALLOW_NONE);
	assert_int_equal(proto_policy_parse("all", &p, err, sizeof(err)), 0);
	assert_int_equal(p.allow, PROTO_ALLOW_ALL);
	assert_int_equal(proto_policy_parse("user=root", &p, err, sizeof(err)), 0);
	assert_true(p.allow == PROTO_ALLOW_USER && p.id == 0);
	assert_int_equal(proto_policy_parse("group=1234", &p, err, sizeof(err)), 0);
	assert_true(p.allow == PROTO_ALLOW_GROUP && p.id == 1234);
	static const char *const wrong[] = {"user=",	 "user=no such user", "group=-1",
					    "everybody", "user=4294967295",   "user"};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err[0] = '\0';
		assert_int_equal(proto_policy_parse(wrong[i], &p, err, sizeof(err)), -EINVAL);
		assert_int_equal(p.allow, PROTO_ALLOW_NONE);
		assert_non_null(strstr(err, wrong[i]));
	}
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, pair_open, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAIR(proto__a_message_arrives_whole),
		WITH_PAIR(proto__lengths_and_versions_are_checked),
		WITH_PAIR(proto__garbage_is_never_a_message),
		WITH_PAIR(proto__descriptors_are_close_on_exec_and_unexpected_ones_are_closed),
		WITH_PAIR(proto__too_many_descriptors_are_refused_and_closed),
		WITH_PAIR(proto__receiving_without_free_descriptors_returns_emfile),
		WITH_PAIR(proto__sending_to_a_full_queue_returns_eagain_without_blocking),
		WITH_PAIR(proto__a_message_arrives_from_a_peer_that_closed_with_unread_input),
		WITH_PAIR(proto__recv_wait_ends_by_timeout_or_message),
		cmocka_unit_test(name__device_socket_names_are_text_and_exclusive),
		cmocka_unit_test(peer__a_policy_allows_only_the_users_or_groups_it_names),
		cmocka_unit_test(policy__valid_texts_are_parsed_and_invalid_ones_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
