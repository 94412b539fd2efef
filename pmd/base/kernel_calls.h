/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel_calls.h - system calls for sockets and epoll sets that always reach the kernel, even if a preloaded library
 * replaces the C library's functions.
 *
 * librspreload lets TCP programs use rsockets. It replaces the C library's functions for the whole process, and thus
 * also for the engine: a socket of ours would become an rsocket, and rsockets are built on the engine. The engine
 * therefore makes its internet sockets and its epoll sets here, and calls none of the replaced functions on the sets.
 * The daemon can use the C library: it is started without preloaded libraries.
 */
#ifndef PMD_KERNEL_CALLS_H
#define PMD_KERNEL_CALLS_H

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int kernel_socket(int domain, int type)
{
	return (int)syscall(SYS_socket, domain, type, 0);
}

/** @return a new epoll set, which is closed on exec. */
static inline int kernel_epoll_create(void)
{
	return (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
}

static inline int kernel_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
}

/** Like epoll_wait(), this function is a cancellation point. librspreload does not replace epoll_pwait(). */
static inline int kernel_epoll_wait(int set, struct epoll_event *events, int max, int timeout_ms)
{
	return epoll_pwait(set, events, max, timeout_ms, NULL);
}

#endif
