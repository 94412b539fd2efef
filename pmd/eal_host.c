/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eal_host.c - the outside world as DPDK's static copy in this process sees it.
 *
 * First the calls that the linker diverts here (--wrap), from all that is linked with DPDK. While the EAL starts, on the
 * thread that starts it, they do less than they should; on other threads they do what they always did, except that
 * descriptors of DPDK's kinds go where the engine's are and that nobody opens the syslog. Then small stand-ins for libnuma and libbsd: libnuma works in a constructor, in every
 * process that loads it, and both would be further libraries for programs that never open a device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "eal.h"

/* Long enough for the TSC calibration, whose result is the rate by which pmd/clock.c makes nanoseconds of the TSC. */
#define EAL_CALIBRATION_NS 1000000

#define FD_HIGH 512

int __real_nanosleep(const struct timespec *req, struct timespec *rem);
int __wrap_nanosleep(const struct timespec *req, struct timespec *rem);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
void __wrap_openlog(const char *ident, int option, int facility);
int __real_pipe(int fds[2]);
int __wrap_pipe(int fds[2]);
int __real_epoll_create(int size);
int __wrap_epoll_create(int size);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int numa_available(void);
void *numa_allocate_nodemask(void);
void numa_bitmask_free(void *mask);
void numa_set_localalloc(void);
void numa_set_preferred(int node);
long get_mempolicy(int *mode, unsigned long *mask, unsigned long bits, void *addr, unsigned flags);
long set_mempolicy(int mode, const unsigned long *mask, unsigned long bits);
size_t strlcpy(char *dst, const char *src, size_t size);
size_t strlcat(char *dst, const char *src, size_t size);

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

/** The EAL measures the TSC over a sleep of 100 ms; it reads both clocks around it, so a short one will do. */
int __wrap_nanosleep(const struct timespec *req, struct timespec *rem)
{
	const struct timespec brief = {.tv_nsec = EAL_CALIBRATION_NS};

	return __real_nanosleep(pmd_eal_starting ? &brief : req, rem);
}

/** With --no-shconf the EAL puts nothing into its runtime folder, yet makes one, and fails when another user has made
 *  the parent (/tmp/dpdk). None is made. */
int __wrap_mkdir(const char *path, mode_t mode)
{
	return pmd_eal_starting ? 0 : __real_mkdir(path, mode);
}

/** The application's syslog identity is its own. The EAL's messages go to the stream that eal.c sets. */
void __wrap_openlog(const char *ident, int option, int facility)
{
	(void)ident;
	(void)option;
	(void)facility;
}

/* Descriptors of the EAL go where those of the engine are, out of the program's way. */
int __wrap_pipe(int fds[2])
{
	int rc = __real_pipe(fds);

	if (rc == 0) {
		fds[0] = pmd_fd_high(fds[0]);
		fds[1] = pmd_fd_high(fds[1]);
	}
	return rc;
}

int __wrap_epoll_create(int size)
{
	return pmd_fd_high(__real_epoll_create(size));
}

int __wrap_timerfd_create(int clock, int flags)
{
	return pmd_fd_high(__real_timerfd_create(clock, flags));
}

/** Without a memfd the EAL's heap is anonymous private memory. Shared, it would stay one heap of parent and child after
 *  a fork, under locks that each of them has of its own. */
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!pmd_eal_starting)
		return __real_memfd_create(name, flags);
	errno = ENOSYS;
	return -1;
}

/* The EAL uses libnuma to place huge pages, of which there are none: it sees a machine without NUMA support and
 * never comes to the other calls. */
int numa_available(void)
{
	return -1;
}

void *numa_allocate_nodemask(void)
{
	return NULL;
}

void numa_bitmask_free(void *mask)
{
	(void)mask;
}

void numa_set_localalloc(void)
{
}

void numa_set_preferred(int node)
{
	(void)node;
}

long get_mempolicy(int *mode, unsigned long *mask, unsigned long bits, void *addr, unsigned flags)
{
	(void)mode;
	(void)mask;
	(void)bits;
	(void)addr;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

long set_mempolicy(int mode, const unsigned long *mask, unsigned long bits)
{
	(void)mode;
	(void)mask;
	(void)bits;
	errno = ENOSYS;
	return -1;
}

/* From libbsd, where the C library has none (glibc before 2.38). */
size_t strlcpy(char *dst, const char *src, size_t size)
{
	size_t len = strlen(src);

	if (size > 0) {
		size_t n = len < size ? len : size - 1;

		memcpy(dst, src, n);
		dst[n] = '\0';
	}
	return len;
}

size_t strlcat(char *dst, const char *src, size_t size)
{
	size_t used = strnlen(dst, size);

	return used + strlcpy(dst + used, src, size - used);
}
