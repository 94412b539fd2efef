/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing.c - see failing.h. Interposes the C library: for each function that can fail it looks at the caller, and only
 * calls from uroce's own objects, including the DPDK inside them, are counted and made to fail.
 *
 * Owns: the counts, and a table of what these callers have allocated and mapped.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "failing.h"

#define EXPORT	     __attribute__((visibility("default")))
#define CALLER	     __builtin_return_address(0)
#define CALLERS	     4096u
#define NEXT(name)   ((__typeof__(&name))next(#name))
#define FAILS(name)  fails(FAILING_##name, CALLER)
#define ERROR(value) return errno = errors[value], -1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *at);

static const char *const names[] = {
#define FAILING(name, error) #name,
#include "kinds.def"
#undef FAILING
};

static const int errors[] = {
#define FAILING(name, error) error,
#include "kinds.def"
#undef FAILING
};

static struct failing *state;
static __thread bool next_fails __attribute__((tls_model("initial-exec"))); /* so that access never calls malloc */

EXPORT struct failing *failing_get(void)
{
	return state;
}

EXPORT void failing_next(void)
{
	next_fails = true;
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* ---- callers ---- */

static bool object_is_ours(const void *caller)
{
	struct link_map *map;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
		return false;
	return strstr(info.dli_fname, "libibverbs.so.1") || strstr(info.dli_fname, "liburoce-fi") ||
	       strstr(info.dli_fname, "/pmd/uroced") || !strcmp(info.dli_fname, "uroced");
}

static bool is_ours(const void *caller)
{
	static uintptr_t seen[CALLERS]; /* caller's address, shifted; the lowest bit is set if the caller is ours */
	uintptr_t at = (uintptr_t)caller << 1, *entry = &seen[(uintptr_t)caller * 0x9e3779b97f4a7c15u >> 52];
	uintptr_t known = __atomic_load_n(entry, __ATOMIC_RELAXED);
	bool ours;

	if ((known & ~(uintptr_t)1) == at)
		return known & 1;
	ours = object_is_ours(caller);
	__atomic_store_n(entry, at | ours, __ATOMIC_RELAXED);
	return ours;
}

static bool fails(enum failing_kind kind, const void *caller)
{
	struct failing *s = state;
	int64_t n;
	int saved = errno;

	if (next_fails && s && is_ours(caller)) {
		next_fails = false;
		s->next = (int32_t)kind + 1;
		errno = saved;
		return true;
	}
	if (!s || s->pid == 0 || s->kind != (int)kind || s->pid != getpid() || !is_ours(caller)) {
		errno = saved;
		return false;
	}
	n = __atomic_add_fetch(&s->calls, 1, __ATOMIC_RELAXED);
	errno = saved;
	return s->on ? n >= s->n : n == s->n;
}

/* ---- resources ---- */

static struct {
	int lock;
	void *at[1 << 17];
} table;

static size_t slot(const void *at)
{
	return (uintptr_t)at * 0x9e3779b97f4a7c15u >> 47;
}

static void table_lock(void)
{
	while (__atomic_exchange_n(&table.lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void table_unlock(void)
{
	__atomic_store_n(&table.lock, 0, __ATOMIC_RELEASE);
}

static bool is_watched(void)
{
	return state && state->watched && state->watched == getpid();
}

#define MASK (sizeof(table.at) / sizeof(table.at[0]) - 1)

static void keep(void *at, const void *caller, int64_t *count)
{
	size_t i;

	if (!at || !is_watched() || !is_ours(caller))
		return;
	table_lock();
	for (i = slot(at) & MASK; table.at[i] && table.at[i] != at; i = (i + 1) & MASK)
		;
	if (!table.at[i])
		++*count;
	table.at[i] = at;
	table_unlock();
}

static void drop(const void *at, int64_t *count)
{
	size_t i, j;

	if (!at || !is_watched())
		return;
	table_lock();
	for (i = slot(at) & MASK; table.at[i] && table.at[i] != at; i = (i + 1) & MASK)
		;
	if (table.at[i]) {
		--*count;
		table.at[i] = NULL;
		for (j = (i + 1) & MASK; table.at[j]; j = (j + 1) & MASK) { /* move up entries that were displaced */
			size_t home = slot(table.at[j]) & MASK;

			if (((j - home) & MASK) >= ((j - i) & MASK)) {
				table.at[i] = table.at[j];
				table.at[j] = NULL;
				i = j;
			}
		}
	}
	table_unlock();
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

EXPORT void *malloc(size_t size)
{
	void *at;

	if (FAILS(malloc))
		return errno = ENOMEM, NULL;
	at = __libc_malloc(size);
	if (state)
		keep(at, CALLER, &state->blocks);
	return at;
}

EXPORT void *calloc(size_t n, size_t size)
{
	void *at;

	if (FAILS(calloc))
		return errno = ENOMEM, NULL;
	at = __libc_calloc(n, size);
	if (state)
		keep(at, CALLER, &state->blocks);
	return at;
}

static void *resize(void *old, size_t size, const void *caller)
{
	void *at;

	if (fails(FAILING_realloc, caller))
		return errno = ENOMEM, NULL;
	if (state)
		drop(old, &state->blocks);
	at = __libc_realloc(old, size);
	if (state)
		keep(at ? at : old, caller, &state->blocks);
	return at;
}

EXPORT void *realloc(void *old, size_t size)
{
	return resize(old, size, CALLER);
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size)
		return errno = ENOMEM, NULL;
	return resize(old, n * size, CALLER);
}

static void *aligned(size_t align, size_t size, const void *caller)
{
	void *at;

	if (fails(FAILING_aligned_alloc, caller))
		return errno = ENOMEM, NULL;
	at = __libc_memalign(align, size);
	if (state)
		keep(at, caller, &state->blocks);
	return at;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return aligned(align, size, CALLER);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	void *at = aligned(align, size, CALLER);

	if (!at)
		return ENOMEM;
	*out = at;
	return 0;
}

EXPORT void free(void *at)
{
	int saved = errno;

	if (state)
		drop(at, &state->blocks);
	__libc_free(at);
	errno = saved;
}

static void *map(void *addr, size_t len, int prot, int flags, int fd, off_t offset, const void *caller)
{
	void *at;

	if (fails(FAILING_mmap, caller))
		return errno = ENOMEM, MAP_FAILED;
	at = (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
	if (state && at != MAP_FAILED && !(flags & MAP_FIXED))
		keep(at, caller, &state->mappings);
	return at;
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return map(addr, len, prot, flags, fd, offset, CALLER);
}

EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
	return map(addr, len, prot, flags, fd, offset, CALLER);
}

EXPORT int munmap(void *at, size_t len)
{
	if (state)
		drop(at, &state->mappings);
	return (int)syscall(SYS_munmap, at, len);
}

/* ---- descriptors --------------------------------------------------------------------------------------------- */

#define WRAP(name, parameters, arguments)                                                                              \
	EXPORT int name parameters                                                                                     \
	{                                                                                                              \
		if (FAILS(name))                                                                                       \
			ERROR(FAILING_##name);                                                                         \
		return NEXT(name) arguments;                                                                           \
	}

WRAP(memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP(ftruncate, (int fd, off_t len), (fd, len))
WRAP(epoll_create1, (int flags), (flags))
WRAP(accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags), (fd, addr, len, flags))
WRAP(connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(socket, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(listen, (int fd, int backlog), (fd, backlog))
WRAP(timerfd_create, (int clock, int flags), (clock, flags))
WRAP(timerfd_settime, (int fd, int flags, const struct itimerspec *in, struct itimerspec *out), (fd, flags, in, out))
WRAP(setsockopt, (int fd, int level, int name, const void *value, socklen_t len), (fd, level, name, value, len))
WRAP(getsockopt, (int fd, int level, int name, void *value, socklen_t *len), (fd, level, name, value, len))
WRAP(pipe2, (int fds[2], int flags), (fds, flags))

/** Only adding a descriptor needs memory and is made to fail: modifying and deleting need none. */
EXPORT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && FAILS(epoll_ctl))
		ERROR(FAILING_epoll_ctl);
	return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
}

EXPORT int ftruncate64(int fd, off64_t len)
{
	if (FAILS(ftruncate))
		ERROR(FAILING_ftruncate);
	return (int)syscall(SYS_ftruncate, fd, len);
}

EXPORT int eventfd(unsigned count, int flags)
{
	if (FAILS(eventfd))
		ERROR(FAILING_eventfd);
	return (int)syscall(SYS_eventfd2, count, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (FAILS(sendmsg))
		ERROR(FAILING_sendmsg);
	return NEXT(sendmsg)(fd, m, flags);
}

EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	if (FAILS(sendmsg))
		ERROR(FAILING_sendmsg);
	return NEXT(sendmmsg)(fd, m, n, flags);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (FAILS(recvmsg))
		ERROR(FAILING_recvmsg);
	return NEXT(recvmsg)(fd, m, flags);
}

EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *timeout)
{
	if (FAILS(recvmsg))
		ERROR(FAILING_recvmsg);
	return NEXT(recvmmsg)(fd, m, n, flags, timeout);
}

EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local, const struct iovec *remote,
				unsigned long n_remote, unsigned long flags)
{
	if (FAILS(process_vm_readv))
		ERROR(FAILING_process_vm_readv);
	return NEXT(process_vm_readv)(pid, local, n_local, remote, n_remote, flags);
}

EXPORT ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	if (FAILS(getrandom))
		ERROR(FAILING_getrandom);
	return syscall(SYS_getrandom, buf, len, flags);
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	if (FAILS(open))
		ERROR(FAILING_open);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	if (FAILS(open))
		ERROR(FAILING_open);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	if (FAILS(fopen))
		return errno = EMFILE, NULL;
	return NEXT(fopen)(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	if (FAILS(fopen))
		return errno = EMFILE, NULL;
	return NEXT(fopen64)(path, mode);
}

EXPORT int fcntl(int fd, int op, ...)
{
	va_list args;
	void *arg;

	va_start(args, op);
	arg = va_arg(args, void *);
	va_end(args);
	if (FAILS(fcntl))
		ERROR(FAILING_fcntl);
	return (int)syscall(SYS_fcntl, fd, op, arg);
}

EXPORT int fcntl64(int fd, int op, ...)
{
	va_list args;
	void *arg;

	va_start(args, op);
	arg = va_arg(args, void *);
	va_end(args);
	if (FAILS(fcntl))
		ERROR(FAILING_fcntl);
	return (int)syscall(SYS_fcntl, fd, op, arg);
}

EXPORT int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	if (FAILS(pthread_create))
		return EAGAIN;
	return NEXT(pthread_create)(out, attr, fn, arg);
}

/* ---- system calls by number ---- */

static int kind_of(long number, const long *a)
{
	switch (number) {
	case SYS_epoll_create1:
		return FAILING_epoll_create1;
	case SYS_epoll_ctl:
		return (int)a[1] == EPOLL_CTL_ADD ? FAILING_epoll_ctl : -1;
	case SYS_accept4:
		return FAILING_accept4;
	case SYS_connect:
		return FAILING_connect;
	case SYS_sendmsg:
	case SYS_sendmmsg:
		return FAILING_sendmsg;
	case SYS_recvmsg:
	case SYS_recvmmsg:
		return FAILING_recvmsg;
	case SYS_socket:
		return FAILING_socket;
	case SYS_memfd_create:
		return FAILING_memfd_create;
	case SYS_timerfd_settime:
		return FAILING_timerfd_settime;
	case SYS_process_vm_readv:
		return FAILING_process_vm_readv;
	case SYS_setsockopt:
		return FAILING_setsockopt;
	case SYS_getrandom:
		return FAILING_getrandom;
	case SYS_openat:
		return FAILING_open;
	default:
		return -1;
	}
}

EXPORT long syscall(long number, ...)
{
	static long (*real)(long, ...);
	va_list args;
	long a[6];
	int kind;

	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	kind = state && (state->pid || next_fails) ? kind_of(number, a) : -1;
	if (kind >= 0 && fails((enum failing_kind)kind, CALLER))
		ERROR(kind);
	if (!real)
		real = (long (*)(long, ...))next("syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- arming -------------------------------------------------------------------------------------------------- */

static void arm(const char *value)
{
	char kind[32], how[8];
	long n;

	if (sscanf(value, "%31[^:]:%ld:%7s", kind, &n, how) != 3)
		return;
	for (int i = 0; i < FAILING_KINDS; i++)
		if (!strcmp(names[i], kind))
			state->kind = i;
	state->n = n;
	state->on = !strcmp(how, "on");
	state->pid = getpid();
}

static void __attribute__((constructor)) failing_begin(void)
{
	const char *file = getenv("UROCE_TEST_FAIL_FILE"), *value = getenv("UROCE_TEST_FAIL");
	int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		abort();
	state = at;
	if (value)
		arm(value);
}
