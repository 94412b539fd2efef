/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_process.c - the daemon's process: what it does not inherit from the program that starts it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uroced.h"

uint64_t process_inherit_nothing(void)
{
	struct rlimit limit;
	uint64_t before = 0;
	sigset_t none;

	for (int fd = 0; fd < 3; fd++) /* open stdin, stdout and stderr, so that no other file gets their numbers */
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd) {
			fprintf(stderr, "uroced: /dev/null cannot be opened: %s\n", strerror(errno));
			exit(1);
		}
	if (syscall(SYS_close_range, 3, ~0u, 0) != 0)
		for (int fd = 3; fd < 65536; fd++)
			close(fd);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		before = limit.rlim_cur;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return before;
}

void process_background(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (chdir("/") != 0 || null < 0)
		return;
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}
