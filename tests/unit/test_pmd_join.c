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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "clock.h"
#include "control.h"

/* Longer than a client waits for a daemon that sleeps (WELCOME_MS in control_join.c). */
#define BUSY_NS 12000000000ull
#define WAIT_MS 60000
#define REFUSAL "the daemon of the test refuses"

/** What a daemon does between the JOIN and its answer. */
enum delay { STAYS_RUNNABLE, SLEEPS, STOPS };

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

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* also while it is stopped */
	pmd_name_daemon(&a->device.gid, &name);
	p.fd = proto_listen(&name);
	if (p.fd < 0 || write(ready_fd, "", 1) != 1 || poll(&p, 1, WAIT_MS) != 1)
		_exit(1);
	fd = proto_accept(p.fd);
	if (fd < 0 || proto_recv_wait(fd, &m, WAIT_MS) != 1)
		_exit(2);
	if (a->delay == STOPS)
		raise(SIGSTOP);
	if (a->delay == SLEEPS)
		pause();
	nice(19); /* it stays ready to run, and leaves the CPU to other tests */
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

/** Wait until the client has its answer or gives up; then end its daemon. */
static void attempt_end(struct attempt *a)
{
	pthread_join(a->thread, NULL);
	kill(a->daemon, SIGKILL);
	waitpid(a->daemon, NULL, 0);
}

/** A client waits for a daemon that is ready to run but late, and gets its answer. It gives up on a daemon that sleeps
 *  or is stopped. */
static void join__waits_for_a_daemon_that_lacks_the_cpu(void **state)
{
	struct attempt slow = {.rc = 0}, asleep = {.rc = 0}, stopped = {.rc = 0};

	(void)state;
	attempt_start(&slow, "127.66.1.1", STAYS_RUNNABLE);
	attempt_start(&asleep, "127.66.1.2", SLEEPS);
	attempt_start(&stopped, "127.66.1.3", STOPS);
	attempt_end(&stopped);
	attempt_end(&asleep);
	attempt_end(&slow);
	assert_int_equal(stopped.rc, -ETIMEDOUT);
	assert_non_null(strstr(stopped.err, "does not answer; if it is stopped continue it"));
	assert_int_equal(asleep.rc, -ETIMEDOUT);
	assert_int_equal(slow.rc, -ENXIO);
	assert_string_equal(slow.err, REFUSAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join__waits_for_a_daemon_that_lacks_the_cpu),
	};

	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
