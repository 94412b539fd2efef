/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_guard.c - starts the daemon of an uplink again if it is killed.
 *
 * Functions survive the end of a daemon that has only sockets: they hold these themselves. But the DPDK port of an
 * uplink ends with its daemon, and a function often lacks the right to open it. So that daemon is the child of a
 * process that does nothing but wait, with the same rights, arguments and environment. A daemon that fails again and
 * again is started less and less often. One that has lost its port asks for the next by its exit code. One that ends
 * without a failure is not started again; nor is the first if it fails, because its starter is told.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uroced.h"

#define STAYED_NS     10000000000u /* a daemon that ran for this long starts anew without a pause */
#define PAUSE_NS      50000000u	   /* before the second start in a row; doubles */
#define PAUSE_DOUBLES 7

static sigset_t signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

/** Wait for the end of the child; pass requests to end on to it. @return its status. @param told whether we were asked
 *  to end. */
static int wait_for(pid_t child, bool *told)
{
	sigset_t set = signals();
	int status = 0, sig;

	for (;;) {
		pid_t pid = waitpid(child, &status, WNOHANG);

		if (pid == child || (pid < 0 && errno == ECHILD))
			return status;
		if (sigwait(&set, &sig) != 0 || sig == SIGCHLD)
			continue;
		*told = true;
		kill(child, SIGTERM);
	}
}

/** Pause before another start: the longer, the more have failed in a row. @return false: we were asked to end. */
static bool pause_for(unsigned failures)
{
	unsigned doubles = failures - 2 < PAUSE_DOUBLES ? failures - 2 : PAUSE_DOUBLES;
	uint64_t end_ns = daemon_now_ns() + ((uint64_t)PAUSE_NS << doubles), now_ns;
	sigset_t set = signals();

	while (failures > 1 && (now_ns = daemon_now_ns()) < end_ns) {
		struct timespec left = {.tv_sec = (time_t)((end_ns - now_ns) / 1000000000u),
					.tv_nsec = (long)((end_ns - now_ns) % 1000000000u)};
		int sig = sigtimedwait(&set, NULL, &left);

		if (sig == SIGTERM || sig == SIGINT)
			return false;
	}
	return true;
}

int guard_run(int (*run)(void *ctx, bool first), void (*settle)(void *ctx), void *ctx)
{
	sigset_t set = signals();
	unsigned failures = 0;
	bool told = false;

	sigprocmask(SIG_BLOCK, &set, NULL);
	for (bool first = true;; first = false) {
		uint64_t since_ns = daemon_now_ns();
		pid_t child = fork();
		int status;

		if (child == 0) {
			sigprocmask(SIG_UNBLOCK, &set, NULL);
			return run(ctx, first);
		}
		if (child < 0 && first) {
			fprintf(stderr, "uroced: no process for the uplink: %s\n", strerror(errno));
			return 1;
		}
		if (first)
			settle(ctx);
		status = child < 0 ? SIGKILL : wait_for(child, &told);
		if (told ||
		    (WIFEXITED(status) && WEXITSTATUS(status) != DAEMON_AGAIN && (first || WEXITSTATUS(status) == 0)))
			return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
		failures = daemon_now_ns() - since_ns < STAYED_NS ? failures + 1 : 1;
		if (!pause_for(failures))
			return 0;
	}
}
