/* SPDX-License-Identifier: BSD-3-Clause */
/* fd_high.c - descriptors with high numbers, out of the way of the application's. */
#include <fcntl.h>
#include <unistd.h>

#include "eal.h"

#define FD_HIGH 512

int pmd_fd_high(int fd)
{
	struct rlimit limit;
	int high;

	if (fd < 0)
		return fd;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < FD_HIGH + 64)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}
