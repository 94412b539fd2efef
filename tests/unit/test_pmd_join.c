/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_join.c - joining a device whose daemon is slow to answer. The daemons are processes of the test.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "clock.h"
#include "control.h"

/* Longer than a client waits for a daemon that sleeps (WELCOME_MS in control_join.c). */
#define BUSY_NS 12000000000ull
#define WAIT_MS 10000
#define REFUSAL "the daemon of the test refuses"

/** What a daemon does between the JOIN and its answer. */
enum delay { STAYS_RUNNABLE, STOPS };

struct attempt {
	struct pmd_device device;
	enum delay delay;
	pid_t daemon;
	pthread_t thread;
	int rc;
	char err[400];
};

/** A daemon that refuses the first client with ENXIO, late. */
static void daemon_run(const struct attempt *a, int ready_fd)
{
	struct pollfd p = {.events = POLLIN};
	struct proto_refused refused = {.error = ENXIO, .sentence = REFUSAL};
	struct proto_name name;
	uint64_t end_ns;
	PROTO_MSG(m);
	int fd;

	pmd_name_daemon(&a->device.gid, &name);
	p.fd = proto_listen(&name);
	if (p.fd < 0 || write(ready_fd, "", 1) != 1 || poll(&p, 1, WAIT_MS) != 1)
		_exit(1);
	fd = proto_accept(p.fd);
	if (fd < 0 || proto_recv_wait(fd, &m, WAIT_MS) != 1)
		_exit(2);
	if (a->delay == STOPS)
		raise(SIGSTOP);
	end_ns = pmd_now_ns() + BUSY_NS;
	while (pmd_now_ns() < end_ns)
		;
	_exit(proto_send(fd, PROTO_REFUSED, &refused, sizeof(refused), NULL, 0) == 0 ? 0 : 3);
}

static void *join(void *arg)
{
	struct attempt *a = arg;
	struct pmd_control *c;

	a->rc = pmd_control_join(&a->device, &c, a->err, sizeof(a->err));
	return NULL;
}

static void attempt_start(struct attempt *a, const char *address, enum delay delay)
{
	int ready[2];
	char byte;

	a->delay = delay;
	assert_true(pmd_gid_parse(address, &a->device.gid));
	assert_int_equal(pipe(ready), 0);
	a->daemon = fork();
	if (a->daemon == 0)
		daemon_run(a, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(pthread_create(&a->thread, NULL, join, a), 0);
}

/** A client waits for a daemon that is ready to run but late, and gets its answer; it gives up on a stopped daemon. */
static void join__waits_for_a_daemon_that_lacks_the_cpu(void **state)
{
	struct attempt slow = {.rc = 0}, stopped = {.rc = 0};
	int status;

	attempt_start(&slow, "127.66.1.1", STAYS_RUNNABLE);
	attempt_start(&stopped, "127.66.1.2", STOPS);
	pthread_join(stopped.thread, NULL);
	assert_int_equal(stopped.rc, -ETIMEDOUT);
	assert_non_null(strstr(stopped.err, "does not answer; if it is stopped continue it"));
	kill(stopped.daemon, SIGKILL);
	assert_int_equal(waitpid(stopped.daemon, NULL, 0), stopped.daemon);
	pthread_join(slow.thread, NULL);
	assert_int_equal(slow.rc, -ENXIO);
	assert_string_equal(slow.err, REFUSAL);
	assert_int_equal(waitpid(slow.daemon, &status, 0), slow.daemon);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join__waits_for_a_daemon_that_lacks_the_cpu),
	};

	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
