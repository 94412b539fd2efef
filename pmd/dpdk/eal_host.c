/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eal_host.c - replacements for system calls and libraries that DPDK's static copy in this process uses.
 *
 * Wrappers: the linker (--wrap) diverts calls from everything linked with DPDK to these functions. On the thread that
 * starts the EAL they do less than the real functions; on other threads they call the real functions, except that
 * openlog() does nothing and that DPDK has no interrupts. Stand-ins: a few functions of libnuma and libbsd. The real
 * libnuma runs a constructor in every process that loads it, and programs that never open a device should not load two
 * more libraries.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "eal.h"

/* Long enough for the EAL to calibrate the TSC. */
#define EAL_CALIBRATION_NS 1000000

int __real_nanosleep(const struct timespec *req, struct timespec *rem);
int __wrap_nanosleep(const struct timespec *req, struct timespec *rem);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
void __wrap_openlog(const char *ident, int option, int facility);
int __wrap_rte_eal_intr_init(void);
int __wrap_rte_eal_alarm_init(void);
int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *arg);
void __real___rte_panic(const char *function, const char *format, ...) __attribute__((noreturn));
void __wrap___rte_panic(const char *function, const char *format, ...) __attribute__((noreturn));
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

/** The EAL measures the TSC's rate over a sleep of 100 ms. It reads both clocks before and after the sleep, so a short
 *  sleep suffices. */
int __wrap_nanosleep(const struct timespec *req, struct timespec *rem)
{
	const struct timespec brief = {.tv_nsec = EAL_CALIBRATION_NS};

	return __real_nanosleep(pmd_eal_starting ? &brief : req, rem);
}

/** With --no-shconf the EAL puts nothing into its runtime folder, but still makes the folder, and fails if another user
 *  owns the parent (/tmp/dpdk). So make no folder. */
int __wrap_mkdir(const char *path, mode_t mode)
{
	return pmd_eal_starting ? 0 : __real_mkdir(path, mode);
}

/** Do nothing, which keeps the application's syslog identity. The EAL's messages go to the stream that eal.c sets. */
void __wrap_openlog(const char *ident, int option, int facility)
{
	(void)ident;
	(void)option;
	(void)facility;
}

/* Do not create the EAL's thread for interrupts and alarms, nor its pipe, epoll sets and timer: that thread ends the
 * process when epoll_ctl() or read() fails. The drivers linked here (packet sockets, pcap files) have no interrupts,
 * and nothing sets alarms (hotplug and secondary processes would). */
int __wrap_rte_eal_intr_init(void)
{
	return 0;
}

int __wrap_rte_eal_alarm_init(void)
{
	return 0;
}

/** Alarms and hotplug must register a callback first. Registration fails, because no thread would call the callback. */
int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *arg)
{
	(void)handle;
	(void)callback;
	(void)arg;
	return -ENOTSUP;
}

/** A panic while the EAL starts becomes an error of pmd_eal_start. A later panic means that DPDK's state is invalid:
 *  the process aborts, as when one of our own assertions fails. */
void __wrap___rte_panic(const char *function, const char *format, ...)
{
	char text[160];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (pmd_eal_starting)
		pmd_eal_panic(text);
	__real___rte_panic(function, "%s%s", text, "");
}

/** Fail while the EAL starts, so that the EAL makes its heap of anonymous private memory. If the heap were in a memfd,
 *  parent and child would share the heap after a fork, but each would have its own copy of the locks. */
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!pmd_eal_starting)
		return __real_memfd_create(name, flags);
	errno = ENOSYS;
	return -1;
}

/* The EAL calls libnuma only to place huge pages, which are not used here. numa_available reports that the machine has
 * no NUMA support, so the EAL never calls the other functions. */
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

/* These functions of libbsd are missing in the C library before glibc 2.38. */
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
